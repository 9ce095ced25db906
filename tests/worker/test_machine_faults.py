"""Which faults are the machine's, and what is told of them."""

from __future__ import annotations

import errno
import os
import socket

import pytest

from worker.machine_faults import disk_words, gpu_fault, gpu_words, is_disk_fault, is_read_only_disk

ECC = "CUDA error: uncorrectable ECC error encountered\nCUDA kernel errors might be asynchronously reported"
NAMES = {"CUDA_VISIBLE_DEVICES": "GPU-aa,GPU-bb", "DLH_DEVICE": "cuda:1"}


@pytest.mark.parametrize(
    "text",
    [
        ECC,
        "CUDA error: uncorrectable NVLink error detected during the execution",
        "CUDA error: unknown error",
        "Unable to determine the device handle: GPU is lost. Reboot the system to recover this GPU",
    ],
)
def test_a_gpu_that_failed_is_known_by_the_words_of_its_driver(text: str) -> None:
    assert gpu_fault(text)


@pytest.mark.parametrize(
    "text",
    [
        "CUDA error: an illegal memory access was encountered",
        "CUDA error: device-side assert triggered",
        "CUDA error: misaligned address",
        "CUDA error: unspecified launch failure",
        "CUDA out of memory.",
        "ValueError: unknown error",
    ],
)
def test_what_a_program_causes_is_no_fault_of_the_gpu(text: str) -> None:
    assert not gpu_fault(text)


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        (NAMES, "The device GPU-bb"),
        ({**NAMES, "DLH_MODE": "replicated"}, "The device GPU-aa or GPU-bb"),
        ({"CUDA_VISIBLE_DEVICES": "3"}, "The device GPU 3"),
        ({}, "The GPU"),
    ],
)
def test_the_gpu_is_named_as_its_driver_lists_it(environment: dict[str, str], name: str) -> None:
    message, hint = gpu_words(gpu_fault(ECC), environment)
    assert message == f"{name} failed: uncorrectable ECC error encountered."
    assert "nvidia-smi" in hint


@pytest.mark.parametrize("code", [errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EUCLEAN])
def test_a_disk_that_failed_is_named_by_the_path(code: int) -> None:
    error = OSError(code, os.strerror(code), "/store/jobs/1/run/state.pt")
    assert is_disk_fault(error)
    assert disk_words(error, {})[0] == f"The disk failed at /store/jobs/1/run/state.pt: {os.strerror(code)}."
    folders = {"DLH_WORK": "/w", "DLH_DATA": "/d"}
    for descriptor in (None, 0, 7):
        assert "at /w or /d:" in disk_words(OSError(code, os.strerror(code), descriptor), folders)[0]


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOENT, "x"), OSError(errno.ENOSPC, "x"), TimeoutError("x"), ValueError()]
)
def test_other_errors_are_no_faults_of_a_disk(error: Exception) -> None:
    assert not is_disk_fault(error)


@pytest.mark.parametrize("code", [errno.ENOTCONN, errno.ESHUTDOWN, errno.EHOSTDOWN])
def test_a_file_system_whose_other_side_is_gone_is_one_that_failed_and_a_socket_is_not(code: int) -> None:
    assert is_disk_fault(OSError(code, os.strerror(code), "/store/jobs/1"))
    assert not is_disk_fault(OSError(code, os.strerror(code)))


@pytest.mark.parametrize(
    ("name", "is_fault"),
    [("/w/checkpoints/.writer-1/step-1", True), (None, True), ("/p/x.txt", False), ("x", False), (7, False)],
)
def test_a_folder_of_the_run_that_became_read_only_is_a_disk_that_failed(
    name: str | int | None, is_fault: bool
) -> None:
    error = OSError(errno.EROFS, os.strerror(errno.EROFS), name)
    assert is_read_only_disk(error, {"DLH_WORK": "/w"}) is is_fault
    assert not is_read_only_disk(OSError(errno.EACCES, "x", name), {"DLH_WORK": "/w"})


def test_a_socket_that_waited_in_vain_is_no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*_: object) -> None:
        raise TimeoutError(errno.ETIMEDOUT, "Connection timed out")

    monkeypatch.setattr(socket.socket, "connect", late)
    with pytest.raises(TimeoutError) as told:
        socket.create_connection(("127.0.0.1", 9))
    assert not is_disk_fault(told.value)
