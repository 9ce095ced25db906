"""CSV and TSV as batches of text columns. Fast by pyarrow where quoting is plain, exact by `csv` where it is not."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import polars as pl
import pyarrow as pa
import pyarrow.csv as pacsv

from codegen.profile.blocks import Block, WrongEncoding, fail_quote, record_blocks, utf8_chunks
from codegen.profile.dialect import MAX_RECORD_BYTES, Dialect, dialect_of, empty_tail
from codegen.profile.encodings import western_encoding
from codegen.profile.problems import fail
from codegen.profile.sources import BadLines, unique_names
from codegen.profile.streams import ByteSource
from codegen.profile.text_form import TextForm
from codegen.profile.types import Finding, ProfileOptions, Severity
from worker.words import counted

_SLOW_ROWS = 20_000


class DelimitedSource:
    """A `TableSource` over one CSV or TSV file. `batches` raises `WrongEncoding` where the guess did not hold."""

    def __init__(self, source: ByteSource, options: ProfileOptions, wrong: WrongEncoding | None = None) -> None:
        self._source = source
        self._file = source.path.name
        self._wrong = wrong
        self._dialect: Dialect = dialect_of(source, options, western_encoding(wrong.sample) if wrong else None)
        self._names, _ = unique_names(list(self._dialect.names))
        self._unfilled = min(empty_tail(self._dialect.names), len(self._names) - 1)
        """Columns at the end with neither a name nor, so far, any value."""
        self._dropped = 0
        wanted = f"the {counted(len(self._names), 'field')} of the {'header' if self._dialect.header else 'first row'}"
        self._bad = BadLines(
            file=self._file,
            what=f"do not have {wanted}",
            what_one=f"does not have {wanted}",
            hint="A delimiter inside a text needs quotes around the text; a missing value still needs its delimiter.",
            code="ragged_rows",
        )
        self._good = 0
        self._widths: Counter[int] = Counter()
        """Widths of the lines left out."""

    @property
    def names(self) -> tuple[str, ...]:
        """Unique column names; behind the last batch without those at the end that have no value either."""
        return self._names[: len(self._names) - self._dropped]

    @property
    def description(self) -> str:
        """Delimiter, encoding, compression."""
        return f"csv; {self._dialect.description}" + ("; gzip" if self._source.gzipped else "")

    @property
    def form(self) -> TextForm:
        """By what it was read."""
        unnamed = 0 if self._dialect.header else len(self.names)
        encoding = self._dialect.encoding if self._dialect.encoding_given else ""
        dropped = self._dropped if unnamed else 0
        return TextForm(delimiter=self._dialect.delimiter, encoding=encoding, unnamed=unnamed, dropped=dropped)

    @property
    def decimal_comma(self) -> bool:
        """Where the semicolon separates the fields: spreadsheets do so because the comma is in use."""
        return self._dialect.delimiter == ";"

    @property
    def spelled_alike(self) -> bool:
        """One program wrote all columns."""
        return True

    def batches(self) -> Iterator[tuple[pl.DataFrame, float]]:
        """Batches of text columns."""
        for batch, share in self._batches():
            self._look_for_values(batch)
            yield batch, share
        self._check()
        self._dropped = self._unfilled

    def _batches(self) -> Iterator[tuple[pl.DataFrame, float]]:
        skip_header = self._dialect.header
        with self._source.open() as stream:
            chunks = utf8_chunks(stream, self._dialect, self._file)
            blocks = record_blocks(chunks, self._dialect.delimiter, self._file)
            for block in blocks:
                if skip_header and self._dialect.first_width != len(self._names):
                    block, skip_header = self._without_header(block), False
                if block.plain:
                    yield self._fast(block, skip_header), stream.share
                else:
                    for batch in self._slow(block, blocks, skip_header):
                        yield batch, stream.share
                skip_header = False
                if self._bad.count > 1000:
                    self._check()

    def _without_header(self, block: Block) -> Block:
        """The first block behind a header that has more or fewer delimiters at its end than the rows."""
        reader = csv.reader(io.StringIO(block.body.decode(), newline="\n"), delimiter=self._dialect.delimiter)
        next(row for row in reader if row)
        lines = reader.line_num
        return replace(block, body=block.body.split(b"\n", lines)[lines], first_line=block.first_line + lines)

    def _look_for_values(self, batch: pl.DataFrame) -> None:
        unfilled = batch.get_columns()[batch.width - self._unfilled :]
        self._unfilled = empty_tail([str(column.str.strip_chars().max() or "") for column in unfilled])

    def findings(self) -> list[Finding]:
        """Names, encoding, header and lines left out."""
        _, found = unique_names(list(self._dialect.names[: len(self.names)]))
        found += [*self._empty_columns(), *self._bad.findings()]
        if not self._dialect.header:
            found.append(
                Finding(
                    code="no_header",
                    severity=Severity.INFO,
                    message="The first line holds values, not names: columns are named column_1, column_2, ...",
                    meaning="If it is a header after all, say so in the options; else a header makes charts readable.",
                )
            )
            found = [finding for finding in found if finding.code != "unnamed_columns"]
        if self._dialect.encoding in ("latin-1", "cp1252") and not self._dialect.encoding_given:
            found.append(
                Finding(
                    code="encoding_guessed",
                    severity=Severity.INFO,
                    message="The file is not UTF-8"
                    + (f" (line {self._wrong.line:,})" if self._wrong else "")
                    + f"; it was read as {self._dialect.encoding}.",
                    meaning="If letters with accents look wrong in the preview, set the encoding in the options.",
                    rows=(self._wrong.line,) if self._wrong else (),
                )
            )
        return found

    def _empty_columns(self) -> list[Finding]:
        if not self._dropped:
            return []
        left_out = counted(
            self._dropped,
            "column at the end has neither a name nor any value and was",
            "columns at the end have neither a name nor any value and were",
        )
        return [
            Finding(
                code="empty_columns",
                severity=Severity.INFO,
                message=f"{left_out} left out.",
                meaning="Spreadsheets write such where cells were in use once: nothing is lost.",
            )
        ]

    def _fast(self, block: Block, skip_header: bool) -> pl.DataFrame:
        names = [str(number) for number in range(len(self._names))]
        bad: list[int] = []

        def skip(row: pacsv.InvalidRow) -> str:
            bad.append(row.actual_columns)
            return "skip"

        if not block.body.strip(b"\r\n"):
            return self._empty()
        table = pacsv.read_csv(
            pa.BufferReader(block.body),
            read_options=pacsv.ReadOptions(use_threads=False, block_size=len(block.body) + 1, column_names=names),
            parse_options=pacsv.ParseOptions(
                delimiter=self._dialect.delimiter, newlines_in_values=True, invalid_row_handler=skip
            ),
            convert_options=pacsv.ConvertOptions(column_types={name: pa.large_string() for name in names}),
        )
        if bad:
            for _ in self._rows(io.StringIO(block.body.decode(), newline=""), block.first_line):
                pass
        if skip_header and not table.num_rows:
            return self._empty()
        table = table.slice(1) if skip_header else table
        self._good += table.num_rows
        frame = pl.DataFrame(table)
        frame.columns = list(self._names)
        return frame

    def _slow(self, block: Block, rest: Iterator[Block], skip_header: bool) -> Iterator[pl.DataFrame]:
        """From here to the end of the file."""

        def lines() -> Iterator[str]:
            yield from io.StringIO(block.body.decode(), newline="")
            for later in rest:
                yield from io.StringIO(later.body.decode(), newline="")

        rows: list[list[str]] = []
        for row in self._rows(lines(), block.first_line):
            if skip_header:
                skip_header = False
                continue
            rows.append(row)
            if len(rows) >= _SLOW_ROWS:
                yield self._frame(rows)
                rows = []
        yield self._frame(rows)

    def _rows(self, lines: Iterator[str], first_line: int) -> Iterator[list[str]]:
        """Rows of the right width; the others go to the bad lines. Raises `DataError` for bad quoting."""
        csv.field_size_limit(MAX_RECORD_BYTES)
        reader = csv.reader(lines, delimiter=self._dialect.delimiter, strict=True)
        width = len(self._names)
        while True:
            start = first_line + reader.line_num
            try:
                row = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                self._bad_quotes(start, first_line + reader.line_num - 1, str(error))
            if len(row) == width:
                yield row
            elif row:
                self._widths[len(row)] += 1
                self._bad.add(start, counted(len(row), "field"))

    def _check(self) -> None:
        """Raise `DataError` where too many lines are bad; if they are all alike, the first line is the odd one."""
        if self._good == 0 and len(self._widths) == 1:
            width = next(iter(self._widths))
            self._bad.hint = (
                f"Every other line has {width:,}: if the first is a title, a remark or `sep=`, remove it, so that the "
                "line of names comes first; if a name is lacking there, add it."
            )
        self._bad.check(self._good)

    def _bad_quotes(self, start: int, line: int, reason: str) -> None:
        if "unexpected end" in reason or "field larger" in reason:
            fail_quote(start, self._file)
        fail(
            "bad_quotes",
            f"Line {line:,}: text follows a closing quote"
            + (f"; the row begins in line {start:,}" if start != line else "")
            + ".",
            'Put quotes around the whole field, and write a quote inside it twice ("").',
            row=line,
            file=self._file,
        )

    def _frame(self, rows: list[list[str]]) -> pl.DataFrame:
        if not rows:
            return self._empty()
        self._good += len(rows)
        return pl.DataFrame(
            dict(zip(self._names, map(list, zip(*rows, strict=True)), strict=True)),
            schema=dict.fromkeys(self._names, pl.String),
        )

    def _empty(self) -> pl.DataFrame:
        return pl.DataFrame(schema=dict.fromkeys(self._names, pl.String))
