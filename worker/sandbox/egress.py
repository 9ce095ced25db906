"""Whom a sandbox that shares the host's network may connect to: an address filter on its control group.

The kernel runs two small eBPF programs (one for IPv4, one for IPv6) at each `connect` of a socket that was made in the
group, whatever the program does to its own threads; who is not on the list gets EPERM. They are written here by hand:
that needs neither compiler nor library, only the rights of an agent that runs as root, and cgroups version 2 (beside
version 1, if need be). They end with the group. See docs/decisions/027.
"""

from __future__ import annotations

import ctypes
import errno
import ipaddress
import os
import platform
import struct
import sys
from collections.abc import Iterable
from pathlib import Path

_SYSCALL = {"x86_64": 321, "aarch64": 280}
_PROG_LOAD, _PROG_ATTACH = 5, 8
_CGROUP_SOCK_ADDR = 18
_ATTACH = {4: 10, 6: 11}
"""Version of the protocol -> BPF_CGROUP_INET4_CONNECT, BPF_CGROUP_INET6_CONNECT."""
_ALLOW_MULTI = 2
_USER_IP4, _USER_IP6, _USER_PORT = 4, 8, 24
"""Offsets in `struct bpf_sock_addr`, whose values are in network order."""
_LOAD_WORD, _TO_BIG_ENDIAN, _SET, _EXIT = 0x61, 0xDC, 0xB7, 0x95
_JUMP_BELOW, _JUMP_UP_TO, _JUMP_UNLIKE = 0xA6, 0xB6, 0x56  # of 32 bits, without sign, against a constant
_MAPPED = bytes(10) + b"\xff\xff"
"""How an IPv6 socket names an IPv4 address: after this."""

_libc = ctypes.CDLL(None, use_errno=True)


def _instruction(code: int, target: int = 0, source: int = 0, offset: int = 0, value: int = 0) -> bytes:
    low, high = (target, source) if sys.byteorder == "little" else (source, target)
    return struct.pack("=BBhI", code, high << 4 | low, offset, value & 0xFFFFFFFF)


_REFUSE = _instruction(_SET, 0, value=0) + _instruction(_EXIT)
_ALLOW = _instruction(_SET, 0, value=1) + _instruction(_EXIT)


def program(version: int, addresses: Iterable[str], ports: tuple[int, int]) -> bytes:
    """eBPF that lets connections to these addresses and ports through, for IPv4 or for IPv6 sockets.

    Raises `ValueError` for what is no address.
    """
    low, high = ports
    code = _instruction(_LOAD_WORD, 2, 1, _USER_PORT) + _instruction(_TO_BIG_ENDIAN, 2, value=16)
    code += _instruction(_JUMP_BELOW, 2, offset=1, value=low) + _instruction(_JUMP_UP_TO, 2, offset=2, value=high)
    code += _REFUSE
    for text in dict.fromkeys(addresses):
        address = ipaddress.ip_address(text)
        if version == 6:
            code += _let_through(_USER_IP6, (_MAPPED if address.version == 4 else b"") + address.packed)
        elif address.version == 4:
            code += _let_through(_USER_IP4, address.packed)
    return code + _REFUSE


def _let_through(at: int, packed: bytes) -> bytes:
    """Allow the address that lies at this offset; go on behind it for any other."""
    code, words = b"", len(packed) // 4
    for index in range(words):
        value = int.from_bytes(packed[4 * index : 4 * index + 4], sys.byteorder)
        code += _instruction(_LOAD_WORD, 2, 1, at + 4 * index)
        code += _instruction(_JUMP_UNLIKE, 2, offset=2 * (words - index), value=value)
    return code + _ALLOW


def limit(group: Path, addresses: Iterable[str], ports: tuple[int, int]) -> None:
    """From now on sockets made in the control group (version 2) connect there only. Raises `OSError`, `ValueError`."""
    wanted = tuple(addresses)
    group_fd = os.open(group, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for version, where in _ATTACH.items():
            program_fd = _load(program(version, wanted, ports), where)
            try:
                _bpf(_PROG_ATTACH, struct.pack("=IIII", group_fd, program_fd, where, _ALLOW_MULTI))
            finally:
                os.close(program_fd)  # the group keeps it
    finally:
        os.close(group_fd)


def _load(code: bytes, where: int) -> int:
    text, license_ = ctypes.create_string_buffer(code, len(code)), ctypes.create_string_buffer(b"MIT")
    count = len(code) // 8
    attributes = struct.pack(
        "=IIQQIIQII16sII", _CGROUP_SOCK_ADDR, count, ctypes.addressof(text), ctypes.addressof(license_),
        0, 0, 0, 0, 0, b"dlh_egress", 0, where,
    )  # fmt: skip
    return _bpf(_PROG_LOAD, attributes)


def _bpf(command: int, attributes: bytes) -> int:
    number = _SYSCALL.get(platform.machine())
    if number is None:
        raise OSError(errno.ENOSYS, f"the number of bpf() is not known on {platform.machine()}")
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    result = int(_libc.syscall(ctypes.c_long(number), ctypes.c_long(command), buffer, ctypes.c_long(len(attributes))))
    if result < 0:
        raise OSError(ctypes.get_errno(), f"bpf: {os.strerror(ctypes.get_errno())}")
    return result
