# Plain os calls are what an attacker writes.
# ruff: noqa: PTH101, PTH118, PTH123, PTH208, SIM115
"""Files, devices and folders that are none of its business."""

from __future__ import annotations

import contextlib
import os

from known import TARGET, attack


@attack
def read_a_secret_of_the_host():
    return open(TARGET["secret_file"]).read()


@attack
def list_another_run():
    return str(os.listdir(TARGET["other_run"]))


@attack
def write_etc_passwd():
    open("/etc/passwd", "a").write("x:x:0:0::/:/bin/sh\n")
    return "written"


@attack
def read_etc_shadow():
    return open("/etc/shadow").read()[:20]


@attack
def write_readonly_folders():
    done = []
    for folder in TARGET["readonly"]:
        with contextlib.suppress(OSError):
            open(os.path.join(folder, "planted"), "w").close()
            done.append(folder)
    return str(done) if done else None


@attack
def change_a_readonly_file():
    for folder in TARGET["readonly"]:
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):
                os.chmod(os.path.join(folder, name), 0o777)
                return name
    return None


@attack
def devices():
    found = [
        name for name in ("/dev/mem", "/dev/kmsg", "/dev/sda", "/dev/vda", "/dev/fuse", "/dev/kvm") if openable(name)
    ]
    return str(found) if found else None


def openable(path: str) -> bool:
    """Whether it can be opened for reading."""
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
    except OSError:
        return False
    return True


@attack
def make_a_device():
    os.mknod(os.path.join(TARGET["work"], "null"), 0o666 | 0o020000, os.makedev(1, 3))
    return "made"


@attack
def kernel_settings():
    for path in (
        "/proc/sys/kernel/hostname",
        "/proc/sysrq-trigger",
        "/proc/sys/vm/drop_caches",
        "/sys/kernel/uevent_helper",
    ):
        with contextlib.suppress(OSError):
            open(path, "w").close()
            return path
    return None


@attack
def link_a_host_file_into_the_work_folder():
    os.link("/etc/passwd", os.path.join(TARGET["work"], "linked"))
    return "linked"
