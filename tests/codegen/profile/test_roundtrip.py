"""Properties: what goes in as CSV comes out of the packed file, and no bytes crash the readers."""

from __future__ import annotations

import csv
import io
import string
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from codegen.profile import blocks, read_rows
from codegen.profile.blocks import record_blocks
from codegen.profile.types import ColumnType, DataError
from codegen.profile.values import MISSING
from tests.codegen.profile.uploads import Lab

TEXT = st.text(st.sampled_from(string.ascii_letters + " ,;\"'\n|.é€漢"), max_size=8)
NUMBER = st.integers(-(10**6), 10**6) | st.floats(-1e9, 1e9, allow_nan=False).map(lambda value: round(value, 3))
ROWS = st.lists(st.tuples(TEXT, NUMBER, TEXT), min_size=3, max_size=30)


@settings(max_examples=60, deadline=None)
@given(rows=ROWS, delimiter=st.sampled_from(",;\t|"), quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
def test_texts_and_numbers_survive_csv(rows: list[tuple[str, float, str]], delimiter: str, quoting: int) -> None:
    body = io.StringIO()
    writer = csv.writer(body, delimiter=delimiter, quoting=quoting, lineterminator="\n")
    writer.writerow(["word", "amount", "other"])
    writer.writerows(rows)
    types = {"word": ColumnType.TEXT, "amount": ColumnType.NUMERIC, "other": ColumnType.CATEGORY}
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(Path(folder))
        lab.profile("a.csv", body.getvalue(), column_types=types, delimiter=delimiter, header=True)
        _, found = read_rows(lab.out, 0, 100)
    expected = [[_kept(word), amount, _kept(other)] for word, amount, other in rows]
    assert found == expected


def _kept(text: str) -> str | None:
    stripped = text.strip()
    return None if stripped in MISSING else stripped


@settings(max_examples=150, deadline=None)
@given(
    body=st.lists(st.sampled_from(["a", "1", ",", '"', '""', "\n", "\r\n", "x,y\n", '"q,\nr"', ',"z"\n'])).map("".join),
    size=st.integers(1, 12),
)
def test_blocks_hold_every_byte_once_and_end_between_records(body: str, size: int) -> None:
    encoded = body.encode()
    chunks = iter([encoded[at : at + size] for at in range(0, len(encoded), size)])
    try:
        found = list(record_blocks(chunks, ",", "a.csv"))
    except DataError as error:
        assert error.problem.code == "unterminated_quote"
        return
    joined = b"".join(block.body for block in found)
    assert joined == encoded or joined == encoded + b"\n"
    line = 1
    for block in found:
        assert block.first_line == line
        line += blocks.text_lines(block.body)
    if all(block.plain for block in found):
        whole = [row for row in csv.reader(io.StringIO(joined.decode(), newline="")) if row]
        parts = [row for block in found for row in csv.reader(io.StringIO(block.body.decode(), newline="")) if row]
        assert parts == whole


@settings(max_examples=150, deadline=None)
@given(
    body=st.binary(max_size=300),
    prefix=st.sampled_from([b"", b"a,b\n1,2\n", b"PAR1", b"PK\x03\x04", b"\x1f\x8b", b'{"a":1}\n']),
)
def test_no_bytes_crash_the_profile(body: bytes, prefix: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(Path(folder))
        try:
            lab.profile("upload", prefix + body)
        except DataError as error:
            assert error.problem.message and error.problem.hint
