"""Says what Horovod can be built with here: NCCL, where torch, nvcc and NCCL fit each other, else Gloo.

    PYTHON operations.py    (with the Python that has torch; standard library only)

Prints one line, separated by tabs: `gloo`, or `nccl`, the folders of NCCL's header and of its library, and CUDA's.
Where GPUs are and NCCL is out of the question, a line on stderr says why.
"""

from __future__ import annotations

import importlib.util
import os
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

USUAL_NVCC = Path("/usr/local/cuda/bin/nvcc")
LIBRARY_FOLDERS = ("lib", "lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu")


class NoNcclError(Exception):
    """Horovod cannot be built with NCCL; the text says why and what would help."""


def torch_cuda() -> str | None:
    """Version of CUDA that torch was built for, or None. Reads torch's version file: its import takes seconds."""
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:
        return None
    version: str | None = runpy.run_path(str(Path(found.origin).with_name("version.py")))["cuda"]
    return version


def packages_of_nvidia() -> list[Path]:
    """Folders in which packages for CUDA builds of torch bring NVIDIA's libraries."""
    found = importlib.util.find_spec("nvidia")
    return [Path(place) for place in (found.submodule_search_locations or ())] if found else []


def find_nccl(environment: Mapping[str, str], packages: list[Path]) -> tuple[Path, Path]:
    """Folders of NCCL's header and library. The package goes first: torch loads that one, so Horovod gets it too."""
    places = [(base / name / "include", base / name / "lib") for base in packages for name in ("nccl", "cu13", "cu12")]
    home = Path(environment.get("HOROVOD_NCCL_HOME") or environment.get("NCCL_HOME") or "/usr")
    include = Path(environment.get("HOROVOD_NCCL_INCLUDE") or home / "include")
    named = environment.get("HOROVOD_NCCL_LIB")
    libraries = [Path(named)] if named else [home / name for name in LIBRARY_FOLDERS]
    places += [(include, library) for library in libraries]
    for header, library in places:
        if (header / "nccl.h").is_file() and (library / "libnccl.so.2").exists():
            return header, library
    raise NoNcclError("NCCL's header and library are not here (a CUDA build of torch brings them, or name NCCL_HOME)")


def find_cuda(environment: Mapping[str, str], wanted: str) -> Path:
    """Folder of the CUDA toolkit whose nvcc has the major version that torch was built for."""
    homes = (environment.get("HOROVOD_CUDA_HOME"), environment.get("CUDA_HOME"))
    places = [Path(home) / "bin/nvcc" for home in homes if home]
    places += [Path(shutil.which("nvcc", path=environment.get("PATH")) or ""), USUAL_NVCC]
    nvcc = next((path for path in places if path.is_file()), None)
    if nvcc is None:
        raise NoNcclError(f"there is no nvcc (CUDA toolkit {wanted})")
    release = re.search(r"release ((\d+)\.\d+)", output([str(nvcc), "--version"]))
    if release is None or release[2] != wanted.split(".")[0]:
        raise NoNcclError(f"nvcc is of CUDA {release[1] if release else 'no known version'}, torch of CUDA {wanted}")
    # nvcc may be a link or a script far from its toolkit: it says itself where that is.
    top = re.search(r"^#\$ TOP=(.+)$", output([str(nvcc), "--dryrun", "-x", "cu", os.devnull]), re.MULTILINE)
    return Path(top[1]).resolve() if top else nvcc.parent.parent


def output(command: list[str]) -> str:
    """What a command says, on both streams."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.stdout


def choose(environment: Mapping[str, str]) -> list[str]:
    """The fields of the line to print."""
    wanted = torch_cuda()
    if wanted is None:
        return ["gloo"]
    try:
        header, library = find_nccl(environment, packages_of_nvidia())
        return ["nccl", str(header), str(library), str(find_cuda(environment, wanted))]
    except NoNcclError as error:
        if any(Path("/dev").glob("nvidia[0-9]*")):
            sys.stderr.write(f"set-up: Horovod gets no NCCL, ranks on GPUs add up through the host's memory: {error}\n")
        return ["gloo"]


if __name__ == "__main__":
    sys.stdout.write("\t".join(choose(os.environ)) + "\n")
