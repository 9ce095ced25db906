"""Faults of a machine, in the words of those who meet them: neither program nor data are to blame. Pure."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from worker.events import FailureCode

CODES = frozenset({FailureCode.DEVICE_FAULT, FailureCode.DISK_FAULT})
"""What a rank may report of the machine it is on: it starts again, on another node if one is free."""
_GPU_WORDS = (
    "uncorrectable ECC error encountered",
    "uncorrectable NVLink error detected during the execution",
    "CUDA error: unknown error",
    "GPU is lost",
    "has fallen off the bus",
    "device(s) is/are busy or unavailable",
    "devices are busy or unavailable",
    "system not yet initialized",
    "unsupported display driver / cuda driver combination",
)
"""Of CUDA and NVML. An illegal access, an assertion and a failed launch are not among them: programs cause those."""
GPU_HINT = (
    "Look for Xid in `dmesg` of the node and at `nvidia-smi -q`; drain the node until the GPU is reset or replaced, "
    "then resume."
)
_DISK_FAILED = "The disk failed at"
DISK_HINT = (
    "Look for errors of that disk or mount in `dmesg` of the node; drain the node until it is well, then resume."
)
_DISK_ERRNOS = frozenset({errno.ESTALE, errno.ETIMEDOUT, errno.EIO, errno.EREMOTEIO, errno.EUCLEAN})
_BAD_SECTORS = frozenset({errno.EIO, errno.EREMOTEIO, errno.EUCLEAN})
_AWAY_ERRNOS = frozenset({errno.ENOTCONN, errno.ESHUTDOWN, errno.EHOSTDOWN})
"""Of file systems that are programs (FUSE) or on other machines, once the other side is gone. Sockets say it, too, but
name no file."""


def gpu_fault(text: str) -> str:
    """Which fault of a GPU or its driver an error tells of; empty: of none."""
    return next((words for words in _GPU_WORDS if words in text), "").removeprefix("CUDA error: ")


def gpu_words(fault: str, environment: Mapping[str, str]) -> tuple[str, str]:
    """(message, hint), by the variables of the rank that met it."""
    return f"{_gpu_name(environment)} failed: {fault}.", GPU_HINT


def _gpu_name(environment: Mapping[str, str]) -> str:
    """As `nvidia-smi -L` lists it, where the rank was told so; in mode `replicated` one of several."""
    visible = [name for name in environment.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    digits = environment.get("DLH_DEVICE", "").removeprefix("cuda:")
    if digits.isdigit() and int(digits) < len(visible) and environment.get("DLH_MODE") != "replicated":
        visible = [visible[int(digits)]]
    names = " or ".join(name if name.startswith("GPU-") else f"GPU {name}" for name in visible)
    return f"The device {names}" if names else "The GPU"


def is_disk_fault(error: BaseException) -> bool:
    """Whether a disk, or the way to one, failed; a socket that had to wait is none."""
    if not isinstance(error, OSError):
        return False
    if error.errno in _AWAY_ERRNOS:
        return error.filename is not None
    return error.errno in _DISK_ERRNOS and (error.errno != errno.ETIMEDOUT or not _is_of_a_socket(error))


def may_be_one_file(error: OSError) -> bool:
    """Whether a bad sector says so. A server that is away says it of all files."""
    return error.errno in _BAD_SECTORS


def is_read_only_disk(error: BaseException, environment: Mapping[str, str]) -> bool:
    """Whether a rank may not write any more where it could before, by its variables: so kernels leave a file system
    whose disk has failed. Where a program may write nothing anyway the error is its own."""
    if not isinstance(error, OSError) or error.errno != errno.EROFS:
        return False
    if error.filename is None:  # of a file that was opened for writing before
        return True
    if isinstance(error.filename, int):  # a descriptor (`os.utime(fd)`), maybe of what was only read
        return False
    work = environment.get("DLH_WORK")
    return bool(work) and PurePath(os.fsdecode(error.filename)).is_relative_to(str(work))


def _is_of_a_socket(error: BaseException) -> bool:
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__") in {"socket", "ssl"}:
            return True
        trace = trace.tb_next
    return False


def disk_words(error: OSError, environment: Mapping[str, str]) -> tuple[str, str]:
    """(message, hint), by the variables of the rank that met it."""
    folders = " or ".join(environment[name] for name in ("DLH_WORK", "DLH_DATA") if environment.get(name))
    name = "" if isinstance(error.filename, int) else error.filename  # a descriptor names nothing
    what = str(name or folders or "a file of the run")
    return f"{_DISK_FAILED} {what}: {error.strerror}.", DISK_HINT


def disk_told(lines: Sequence[str]) -> str:
    """The message of `disk_words` in the last lines of a log, where a rank that no disk lets report has printed it;
    else nothing."""
    return next((line for line in reversed(lines) if line.startswith(_DISK_FAILED)), "")
