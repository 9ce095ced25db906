"""What a step frees stays with the process, so that the next step need not ask the kernel for it again.

glibc gives large blocks back as soon as they are free. Each step then gets its activations as new pages, which the
kernel must clear, one fault after the other: up to a quarter of a step of a small conv net. For the same reason
PyTorch's tuning guide names other allocators (jemalloc, tcmalloc); `mallopt` needs none.
"""

from __future__ import annotations

import ctypes
import sys

TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD = -1, -2, -3
"""Parameters of `mallopt`, as <malloc.h> numbers them."""
NEVER = -1
LARGEST_BLOCK_BYTES = 1 << 30
"""Larger ones come from the kernel and go back to it."""
KEPT_OF_A_THREAD_BYTES = 64 << 20
"""All that a heap of another thread than the first can hold: with so much room wished, an empty one is kept as well."""


def keep_freed_memory() -> None:
    """From now on; without effect where the C library is not glibc."""
    library = _glibc()
    if library is not None:
        library.mallopt(MMAP_THRESHOLD, LARGEST_BLOCK_BYTES)
        library.mallopt(TRIM_THRESHOLD, NEVER)
        library.mallopt(TOP_PAD, KEPT_OF_A_THREAD_BYTES)


def give_back_freed_memory() -> None:
    """What is free now, once: what reading the data took is no part of a step, and counts as used until then."""
    library = _glibc()
    if library is not None:
        library.malloc_trim(0)


def _glibc() -> ctypes.CDLL | None:
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "gnu_get_libc_version") else None
