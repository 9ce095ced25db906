"""What Horovod is built with: NCCL where torch, nvcc and NCCL fit each other, else Gloo, with the reason."""

import hashlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.conftest import DEPLOY

HERE = DEPLOY / "horovod"


@pytest.fixture
def operations(monkeypatch, tmp_path):
    spec = importlib.util.spec_from_file_location("dlh_horovod_operations", HERE / "operations.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "USUAL_NVCC", tmp_path / "absent")
    return module


def nccl(folder):
    (folder / "include").mkdir(parents=True)
    (folder / "lib").mkdir()
    (folder / "include/nccl.h").touch()
    (folder / "lib/libnccl.so.2").touch()
    return folder / "include", folder / "lib"


def toolkit(folder, release):
    """A CUDA toolkit whose nvcc says its release, and where it lies."""
    nvcc = folder / "bin/nvcc"
    nvcc.parent.mkdir(parents=True)
    nvcc.write_text(f"#!/bin/sh\necho 'Cuda compilation tools, release {release}, V1'\necho '#$ TOP={folder}/bin/..'\n")
    nvcc.chmod(0o755)
    return folder


def test_nccl_is_that_of_the_package_because_torch_loads_it(operations, tmp_path):
    package, other = nccl(tmp_path / "nvidia/nccl"), nccl(tmp_path / "other")
    environment = {"NCCL_HOME": str(tmp_path / "other")}
    assert operations.find_nccl(environment, [tmp_path / "nvidia"]) == package
    assert operations.find_nccl(environment, []) == other


def test_without_the_library_a_header_is_not_enough(operations, tmp_path):
    nccl(tmp_path / "nvidia/nccl")[1].joinpath("libnccl.so.2").unlink()
    with pytest.raises(operations.NoNcclError, match="NCCL_HOME"):
        operations.find_nccl({"NCCL_HOME": str(tmp_path)}, [tmp_path / "nvidia"])


def test_a_script_named_nvcc_leads_to_its_toolkit(operations, tmp_path):
    home = toolkit(tmp_path / "cuda-13.0", "13.0")
    script = tmp_path / "bin/nvcc"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {home}/bin/nvcc "$@"\n')
    script.chmod(0o755)
    assert operations.find_cuda({"PATH": str(script.parent)}, "13.2") == home


def test_a_toolkit_that_is_named_goes_before_the_one_on_the_path(operations, tmp_path):
    named, other = toolkit(tmp_path / "named", "13.0"), toolkit(tmp_path / "other", "12.8")
    environment = {"CUDA_HOME": str(named), "PATH": str(other / "bin")}
    assert operations.find_cuda(environment, "13.0") == named


def test_another_major_version_of_cuda_than_torchs_does_not_do(operations, tmp_path):
    home = toolkit(tmp_path / "cuda", "12.8")
    with pytest.raises(operations.NoNcclError, match=r"CUDA 12\.8, torch of CUDA 13\.0"):
        operations.find_cuda({"CUDA_HOME": str(home), "PATH": ""}, "13.0")
    with pytest.raises(operations.NoNcclError, match="no nvcc"):
        operations.find_cuda({"PATH": ""}, "13.0")


def test_all_that_is_there_gives_nccl_and_a_cpu_build_of_torch_gloo(operations, tmp_path, monkeypatch):
    header, library = nccl(tmp_path / "nvidia/nccl")
    home = toolkit(tmp_path / "cuda", "13.0")
    monkeypatch.setattr(operations, "packages_of_nvidia", lambda: [tmp_path / "nvidia"])
    environment = {"CUDA_HOME": str(home), "PATH": ""}
    for cuda, found in (("13.0", ["nccl", str(header), str(library), str(home)]), ("12.8", ["gloo"]), (None, ["gloo"])):
        monkeypatch.setattr(operations, "torch_cuda", lambda cuda=cuda: cuda)
        assert operations.choose(environment) == found


def test_the_version_of_cuda_is_what_torch_says(operations):
    code = "import torch; print(torch.version.cuda)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert said.stdout.strip() == str(operations.torch_cuda())


@pytest.mark.parametrize(("line", "patches"), [("gloo", ["wake"]), ("nccl\ta\tb\tc", ["wake", "cuda"])])
def test_a_wheel_in_the_cache_is_found_by_what_it_was_made_of(tmp_path, line, patches):
    """What is for CUDA alone does not make wheels without it outdated."""
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nif [ \"$1\" = -c ]; then echo cp312-torch2.13.0-x86_64; else echo '{line}'; fi\n")
    python.chmod(0o755)
    made_of = hashlib.sha256(b"".join((HERE / f"{name}.patch").read_bytes() for name in patches)).hexdigest()[:8]
    wheel = tmp_path / f"horovod-0.28.1-cp312-torch2.13.0-x86_64-{line.split()[0]}-{made_of}" / "horovod-0.whl"
    wheel.parent.mkdir()
    wheel.touch()
    found = subprocess.run(
        ["bash", HERE / "build.sh", python, tmp_path], capture_output=True, text=True, check=True, timeout=120
    )
    assert found.stdout.strip() == str(wheel)


PIP = """#!/bin/sh
case "$1 $3" in
  -c*) echo cp312-torch2.13.0-x86_64 ;;
  "-m download")
    while [ "$1" != -d ]; do shift; done
    tar -czf "$2/horovod-0.28.1.tar.gz" -C SOURCES horovod-0.28.1 ;;
  "-m wheel")
    while [ "$1" != -w ]; do shift; done
    echo whole >"$2/horovod-0.whl" ;;
  *) echo gloo ;;
esac
"""
STOPPED_MOVE = '#!/bin/sh\nfor to; do :; done\n[ -d "$to" ] && to=$to/horovod-0.whl\nprintf wh >"$to"\nexit 137\n'


def test_a_wheel_whose_way_into_the_cache_was_cut_off_is_built_anew(tmp_path):
    """From another disk a move is a copy."""
    operations_cc = tmp_path / "sources/horovod-0.28.1/horovod/common/operations.cc"
    operations_cc.parent.mkdir(parents=True)
    operations_cc.write_text("HOROVOD_WAKE_ON_ENQUEUE")
    tools = tmp_path / "bin"
    tools.mkdir()
    scripts = {"python": PIP.replace("SOURCES", str(tmp_path / "sources")), "patch": "#!/bin/sh\n", "mv": STOPPED_MOVE}
    for name, script in scripts.items():
        (tools / name).write_text(script)
        (tools / name).chmod(0o755)
    environment = os.environ | {"PATH": f"{tools}:{os.environ['PATH']}"}
    command = ["bash", str(HERE / "build.sh"), str(tools / "python"), str(tmp_path / "cache")]

    assert subprocess.run(command, env=environment, capture_output=True, timeout=120).returncode == 137
    (tools / "mv").unlink()
    built = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
    assert Path(built.stdout.strip()).read_text() == "whole\n"
    assert not list((tmp_path / "cache").glob("*/arriving.*/*"))
