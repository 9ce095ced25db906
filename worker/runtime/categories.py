"""Values of categories in rows to predict for, spelled as the packed data to train on: formats differ in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc

Vocabularies = Mapping[str, Sequence[str]]
"""Known values of each column of categories, the commonest first."""
_EXACT = 2**53
"""From here on not all whole numbers are different ones as float64."""


def categories_spelled(vocabularies: Vocabularies, table: pa.Table) -> pa.Table:
    """The table with typed values of these columns as texts, and truth values, as training had them."""
    columns = table.columns
    for at, name in enumerate(table.column_names):
        if vocabulary := vocabularies.get(name):
            columns[at] = _truth_spelled(_typed_spelled(columns[at], vocabulary), vocabulary)
    return with_columns(table, columns)


def with_columns(table: pa.Table, columns: Sequence[pa.ChunkedArray]) -> pa.Table:
    """The table with these in the place of its columns, all at once: to change one takes time for each there is."""
    fields = [
        field if field.type == column.type else pa.field(field.name, column.type)
        for field, column in zip(table.schema, columns, strict=True)
    ]
    return pa.table(columns, schema=pa.schema(fields, metadata=table.schema.metadata))


def _typed_spelled(values: pa.ChunkedArray, vocabulary: Sequence[str]) -> pa.ChunkedArray:
    """Numbers and dates of JSON and Parquet as the texts of the categories that they are: `2` as `2.0`, where training
    had that."""
    kind = values.type
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind) or pa.types.is_integer(kind):
        return _numbers_spelled(values, vocabulary)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        texts = _of_vocabulary(values.cast(pa.string()), vocabulary)
        return pc.coalesce(texts, values.cast(pa.timestamp("us"), safe=False).cast(pa.string()))
    return values


def _numbers_spelled(numbers: pa.ChunkedArray, vocabulary: Sequence[str]) -> pa.ChunkedArray:
    """By their text, where a category has it, else as the commonest category of that number is written."""
    by_number: dict[float, str] = {}
    for value in vocabulary:
        with suppress(ValueError):
            if abs(number := float(value)) < _EXACT:
                by_number.setdefault(number, value)
    found = numbers.cast(pa.float64(), safe=False)
    spelled = pc.index_in(found, value_set=pa.array(list(by_number), pa.float64()))
    alike = pa.array(list(by_number.values()), pa.string()).take(spelled.combine_chunks())
    texts = numbers.cast(pa.string())
    return pc.coalesce(_of_vocabulary(texts, vocabulary), pa.chunked_array([alike]), texts)


def _of_vocabulary(texts: pa.ChunkedArray, vocabulary: Sequence[str]) -> pa.ChunkedArray:
    """Those that are known; the others null."""
    known = pc.is_in(texts, value_set=pa.array(vocabulary, pa.string()))
    return pc.if_else(known, texts, pa.scalar(None, pa.string()))


def _truth_spelled(values: pa.ChunkedArray, vocabulary: Sequence[str]) -> pa.ChunkedArray:
    """Truth values (`true`, `True`, `TRUE`) as the training data spelled them: formats and programs differ in it."""
    spelled = {value.lower(): value for value in vocabulary}
    if len(spelled) < len(vocabulary) or not spelled.keys() <= {"true", "false"}:
        return values
    if not (
        pa.types.is_boolean(values.type) or pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
    ):
        return values
    texts = pc.utf8_trim_whitespace(values.cast(pa.string()))
    lowered = pc.utf8_lower(texts)
    for lower, value in spelled.items():
        texts = pc.if_else(pc.equal(lowered, lower), value, texts)
    return texts
