"""Raising the errors that a person is shown, and turning the machine's own into them."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from codegen.profile.types import DataError, DataProblem

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def fail(
    code: str, message: str, hint: str, *, row: int | None = None, column: str | None = None, file: str | None = None
) -> NoReturn:
    """Raise `DataError` with this problem."""
    raise DataError(DataProblem(code=code, message=message, hint=hint, row=row, column=column, file=file))


@contextmanager
def machine_limits() -> Iterator[None]:
    """Tell a full disk and too little memory as `DataError` (`disk_full`, `out_of_memory`)."""
    try:
        yield
    except MemoryError as error:
        raise DataError(
            DataProblem(
                code="out_of_memory",
                message="The memory allowed for reading this dataset was not enough.",
                hint="Upload fewer columns or smaller pictures, or ask the operator to raise the limit.",
            )
        ) from error
    except OSError as error:
        if error.errno not in _NO_SPACE:
            raise
        raise DataError(
            DataProblem(
                code="disk_full",
                message="The disk is full: the dataset could not be packed. Your upload is kept.",
                hint="Free space or ask the operator, then have it read again: on the dataset's page, or by "
                "`dlh data add` of the same file.",
            )
        ) from error
