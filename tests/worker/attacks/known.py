"""What all attacks know: their target, and each other.

`TARGET` comes as JSON on the command line: `secret_file`, `other_run`, `readonly` (folders), `broker` [host, port],
`variable` (name of a secret environment variable of the caller), `caller_pid`, `work` (folder), `abstract` (name of a
socket), `named` (path of one), `own_uid` (whether it runs as somebody else).
"""

from __future__ import annotations

import ctypes
import json
import platform
import sys

TARGET = json.loads(sys.argv[1])
LIBC = ctypes.CDLL(None, use_errno=True)
ARM = platform.machine() == "aarch64"
ATTACKS = {}


def attack(function):
    """Register."""
    ATTACKS[function.__name__] = function
    return function
