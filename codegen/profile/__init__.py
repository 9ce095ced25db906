"""Uploaded file to `DatasetProfile` and training-ready Parquet, in one streamed reading.

The entry points import their machinery when called: the portal imports `codegen.profile.types` on every
start and must not pay for polars, pyarrow and Pillow there.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codegen.profile.types import DatasetProfile, ProfileOptions

Progress = Callable[[float, str], None]
"""Called with the share done (0-1) and what is being done."""


def profile_dataset(
    source: Path, out: Path, options: ProfileOptions, progress: Progress, *, name: str = ""
) -> DatasetProfile:
    """Profile `source` and pack it into the folder `out`; `profile.json` is written last.

    Problems call the file `name`, where one is given; the profile names it nowhere: it is the same for all who bring
    these bytes.

    Raises `codegen.profile.types.DataError` where the file cannot be used for training; `out` then holds
    nothing new.
    """
    from codegen.profile.run import profile_file

    return profile_file(source, out, options, progress, name)


def read_rows(packed: Path, offset: int, limit: int) -> tuple[list[str], list[list[Any]]]:
    """Rows `offset` to `offset + limit` (0-based) of a packed dataset: (column names, rows of JSON values).

    Only the needed part of the file is read; of pictures all but the picture itself. Raises `FileNotFoundError`
    where `packed` holds no packed dataset, `ValueError` for a negative offset or limit.
    """
    from codegen.profile.rows import rows_read

    return rows_read(packed, offset, limit)
