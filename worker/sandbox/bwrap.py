"""The bubblewrap command line: what a sandboxed program sees of the host.

As root, no user namespace is made: bubblewrap keeps just the three capabilities that `enter.py` needs to
become an own user id, and gives them up. As an ordinary user, bubblewrap makes a user namespace and
forbids further ones.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from worker.sandbox.model import SandboxSpec

SYSTEM_FOLDERS = ("usr", "lib", "lib32", "lib64", "libx32", "bin", "sbin")
ETC_FILES = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "localtime", "OpenCL", "vulkan")
"""Host files of /etc that programs need; passwd, group, hosts and nsswitch.conf are made for each sandbox."""
KEPT_CAPABILITIES = ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP")
GPU_NODES = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")


def python_folders() -> tuple[Path, ...]:
    """The virtual environment and the Python it is made from."""
    return tuple(dict.fromkeys((Path(sys.prefix), Path(sys.base_prefix), Path(os.path.realpath(sys.base_prefix)))))


def command(bwrap: str, spec: SandboxSpec, *, etc: Path, as_root: bool) -> list[str]:
    """argv up to and including `--`; the program follows. `etc`: folder of the files made for this sandbox."""
    argv = [bwrap, "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    argv += ["--die-with-parent", "--new-session", "--cap-drop", "ALL", "--hostname", spec.hostname]
    if not spec.share_network and spec.overlay is None:  # else it is started in that network
        argv += ["--unshare-net"]
    if as_root:
        argv += [part for name in KEPT_CAPABILITIES for part in ("--cap-add", name)]
    else:
        argv += ["--unshare-user", "--disable-userns"]
    argv += _system(etc)
    argv += ["--proc", "/proc", "--dev", "/dev"]
    argv += ["--perms", "1777", "--size", str(spec.limits.shm_bytes), "--tmpfs", "/dev/shm"]  # noqa: S108
    argv += ["--perms", "1777", "--size", str(spec.limits.tmp_bytes), "--tmpfs", "/tmp"]  # noqa: S108
    argv += _gpus(spec.gpus)
    argv += _binds(spec)
    return [*argv, "--chdir", str(spec.workdir), "--"]


def _system(etc: Path) -> list[str]:
    argv: list[str] = []
    for name in SYSTEM_FOLDERS:
        path = Path("/", name)
        if path.is_symlink():
            argv += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            argv += ["--ro-bind", str(path), str(path)]
    argv += ["--perms", "0755", "--dir", "/etc"]
    for name in ETC_FILES:
        argv += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    for file in sorted(etc.iterdir()):
        argv += ["--ro-bind", str(file), f"/etc/{file.name}"]
    return argv


def gpu_nodes(minors: tuple[int, ...]) -> list[str]:
    """Device nodes of the GPUs with these minor numbers and of the driver; none without GPUs."""
    names = [f"nvidia{minor}" for minor in minors] + (list(GPU_NODES) if minors else [])
    return [f"/dev/{name}" for name in names]


def _gpus(minors: tuple[int, ...]) -> list[str]:
    if not minors:
        return []
    argv = [part for node in gpu_nodes(minors) for part in ("--dev-bind-try", node, node)]
    return [*argv, "--ro-bind", "/sys", "/sys"]


def _binds(spec: SandboxSpec) -> list[str]:
    readonly = [path for path in (*python_folders(), *spec.readonly) if not path.is_relative_to("/usr")]
    binds = [("--ro-bind", path) for path in readonly] + [("--bind", path) for path in spec.writable]
    binds.sort(key=lambda bind: len(bind[1].parts))  # a folder before what lies in it
    argv: list[str] = []
    for folder in _parents([path for _, path in binds]):
        argv += ["--perms", "0755", "--dir", str(folder)]
    for option, path in binds:
        argv += [option, str(path), str(path)]
    return argv


def _parents(paths: list[Path]) -> Iterator[Path]:
    """Folders to make, outermost first: bubblewrap's own would be closed to other user ids."""
    system = {Path("/"), *(Path("/", name) for name in (*SYSTEM_FOLDERS, "etc", "proc", "dev", "tmp"))}
    wanted = {parent for path in paths for parent in path.parents} - system
    for folder in sorted(wanted, key=lambda path: len(path.parts)):
        if not any(folder.is_relative_to(path) for path in paths):
            yield folder
