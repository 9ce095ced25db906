"""Whether memory ran out, whoever says so in whatever words."""

from __future__ import annotations

import errno

MEMORY_TEXTS = ("can't allocate memory", "out of memory", "Cannot allocate memory", "std::bad_alloc", "_ALLOC_FAILED")
"""The last is of NVIDIA's libraries: CUBLAS_STATUS_ALLOC_FAILED, CUDNN_STATUS_ALLOC_FAILED."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out: torch's own errors, its CPU allocator's, or Python's."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    if isinstance(error, OSError) and error.errno == errno.ENOMEM:
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in MEMORY_TEXTS)
