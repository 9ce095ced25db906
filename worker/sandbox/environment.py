"""What a program of ours needs in a sandbox: its packages, and a clean environment."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from worker.home import REPOSITORY

DRIVER = "libcuda.so.1"
_LIBRARIES = "LD_LIBRARY_PATH"
"""Where a container finds the GPU's driver that its host lends it, if not by the loader's cache."""


def package_folder(name: str) -> Path:
    """Folder of one of our packages, to be bound read-only for a program that imports it."""
    return REPOSITORY / name


def python_environment(**more: str) -> dict[str, str]:
    """A small, clean environment for a Python program of ours: no secret of the caller is in it."""
    return {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8",  # noqa: S108
        "PYTHONPATH": str(REPOSITORY), "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONNOUSERSITE": "1",
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",  # of devices we do not drive: torch looks through all packages for them
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",  # NVML's, for a program that numbers the GPUs anew
        **_driver_place(),
        **more,
    }  # fmt: skip


def _driver_place() -> dict[str, str]:
    """Folders of the driver alone. Others are no business of a program, and could bring it other libraries than ours;
    an empty or relative one is the folder that it is started in, which people write."""
    told = re.split("[:;]", os.environ.get(_LIBRARIES, ""))
    folders = [folder for folder in told if folder.startswith("/") and Path(folder, DRIVER).exists()]
    return {_LIBRARIES: ":".join(folders)} if folders else {}
