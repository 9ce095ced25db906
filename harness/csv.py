"""Tables as CSV in chunks."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from worker.cells import cell

_ROWS_PER_CHUNK = 1000


def csv_chunks(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[bytes]:
    """Head and rows as encoded chunks, a thousand rows each."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([cell(column) for column in columns])
    for number, row in enumerate(rows, start=1):
        writer.writerow([cell(value) for value in row])
        if number % _ROWS_PER_CHUNK == 0:
            yield buffer.getvalue().encode()
            buffer.seek(0)
            buffer.truncate()
    yield buffer.getvalue().encode()
