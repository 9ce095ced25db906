"""The split of rows into training, validation and test parts, the same on every machine for the same seed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from worker.runtime.columns import Columns, any_length
from worker.words import counted

PARTS = ("train", "val", "test")
_TRAIN, _VAL, _TEST = range(len(PARTS))
PART_WORDS = {"train": "to train on", "val": "to validate", "test": "to test"}
COMMON_ROWS = 10
COMMON_SHARE = 0.02
"""More equal rows than both (of their class, if there are classes) are no copies of one thing but a common thing."""
CHANCE_TARGETS, CHANCE_PAIRS = 0.2, 0.1
"""Rows are alike by chance from so large a part on of what chance alone gives: of combinations of inputs that come with
several targets, and of pairs of rows with equal inputs."""
CHANCE_VALUES = 0.1
"""With more different values in a column than this share of the rows, copies labelled in two ways are what has several
targets."""
_MIX = np.uint64(0x9E3779B97F4A7C15)
"""2^64 over the golden ratio, as in Fibonacci hashing."""
_MISSING = int(_MIX) - 2**64
"""Stands for a missing value: a number that no table holds."""


def split_rows(
    count: int,
    validation: float,
    test: float,
    seed: int,
    labels: NDArray[np.int64] | None = None,
    given: Sequence[str | None] | None = None,
    *,
    copies: NDArray[np.int64] | None = None,
) -> dict[str, NDArray[np.int64]]:
    """Share rows 0..count-1 out to `train`, `val` and `test`; each part's rows are in ascending order.

    With `labels` (class numbers, [count]) every class is shared out evenly: rows are ordered by class, at random
    within a class, and then taken at even steps; the last row of a class stays in `train`. With `given` (one of
    `PARTS` per row) that split is kept, and a part that it lacks is taken out of its `train` rows. With `copies`
    (equal numbers for equal rows, [count]) rows that are alike go to the same part, whatever their classes: of a class,
    a part then has at most as many rows too many or too few as its two largest groups of equal rows hold together.
    """
    generator = np.random.default_rng(seed)
    order = generator.permutation(count)
    part = np.full(count, _TRAIN, dtype=np.int8)
    if given is not None:
        part = np.array([PARTS.index(name) if name in PARTS else _TRAIN for name in given], dtype=np.int8)
    free = np.flatnonzero(part == _TRAIN)
    first = free if copies is None else _first_alike(copies, free)
    order = _firsts(order, first, labels)
    can_leave = np.ones(count, dtype=bool) if labels is None else np.bincount(labels)[labels] > 1
    left = 1.0
    for (number, share), offset in zip(((_TEST, test), (_VAL, validation)), generator.random(2), strict=True):
        if np.any(part == number):
            continue
        pool = order[(part[order] == _TRAIN) & can_leave[order]]
        taken = _even_steps(len(pool), share / left, float(offset))
        if labels is not None:
            taken &= ~_last_of_class(labels[pool], taken)
        part[pool[taken]] = number
        left -= share
    part[free] = part[first]
    return {name: np.flatnonzero(part == number) for number, name in enumerate(PARTS)}


def _last_of_class(labels: NDArray[np.int64], taken: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The first row of each class of which `taken` would leave none."""
    _, start, group = np.unique(labels, return_index=True, return_inverse=True)
    found = np.zeros(len(labels), dtype=bool)
    found[start[np.bincount(group, weights=~taken) == 0]] = True
    return found


def same_rows(
    table: pa.Table | Columns, targets: NDArray[np.int64] | NDArray[np.float64], labels: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """A number for each row, int64 [N]: equal for rows that are alike in all columns and in the target.

    By 64-bit hashes, a column at a time. What comes again in new data, too, gets different numbers, since a test
    without it would be none: what is common (`COMMON_ROWS`, `COMMON_SHARE` of the rows of its class in `labels`), and
    all rows of a table whose rows are alike by chance. There, with all that say yes in one part, a model would learn
    the opposite of what it is tested on.
    """
    digest = np.zeros(len(targets), np.uint64)
    for name in table.column_names:
        start = 0
        for values in _as_numbers(table[name]):
            here = slice(start, start := start + len(values))
            digest[here] = _mixed(digest[here], values)
    _, distinct, inputs = np.unique(digest, return_index=True, return_inverse=True)
    digest = _mixed(digest, np.unique(targets, return_inverse=True)[1])
    _, first, number, alike = np.unique(digest, return_index=True, return_inverse=True, return_counts=True)
    if len(distinct) < len(digest) and _by_chance(table, distinct, targets, inputs, first):
        return np.arange(len(digest))
    kin = np.full(len(digest), len(digest)) if labels is None else np.bincount(labels)[labels]
    common = alike[number] > np.maximum(COMMON_ROWS, COMMON_SHARE * kin)
    number[common] = len(alike) + np.arange(np.count_nonzero(common))
    return np.asarray(number, dtype=np.int64)


def _by_chance(
    table: pa.Table | Columns,
    distinct: NDArray[np.int64],
    targets: NDArray[np.int64] | NDArray[np.float64],
    inputs: NDArray[np.int64],
    first: NDArray[np.int64],
) -> bool:
    """Whether rows are alike because there are few answers, as in a survey, and not because they are copies.

    `distinct`: a row of each combination of inputs; `inputs`: which combination a row has; `first`: a row of each
    combination with each of its targets. Copies share their target; and in columns that know nothing of each other
    rows are seldom the same.
    """
    rows, kinds = np.bincount(inputs), np.bincount(inputs[first])
    most, equal = 0, 1.0
    for name in table.column_names:
        values = any_length(table.select([name]).take(distinct)[name])
        counts = values.value_counts().field("counts").to_numpy()
        most, equal = max(most, len(counts)), equal * _equal_share(counts)
    if most <= CHANCE_VALUES * len(inputs):
        other_targets = np.mean(kinds[rows > 1] > 1)
        if other_targets > CHANCE_TARGETS * (1.0 - _equal_share(np.unique(targets, return_counts=True)[1])):
            return True
    return bool(len(inputs) * (len(inputs) - 1.0) * equal > CHANCE_PAIRS * (rows * (rows - 1.0)).sum())


def _as_numbers(column: pa.ChunkedArray) -> Iterator[NDArray[np.int64]]:
    """A number for each value, equal for equal ones, chunk by chunk: the 64 bits it has, or its place among all."""
    column = any_length(column)
    has_bits = pa.types.is_primitive(column.type) and column.type.bit_width == 64
    for chunk in column.chunks if has_bits else column.dictionary_encode().chunks:
        numbers = chunk.view(pa.int64()) if has_bits else chunk.indices.cast(pa.int64())
        yield numbers.fill_null(_MISSING).to_numpy()


def _equal_share(counts: NDArray[np.int64]) -> float:
    """Share of the pairs of rows that have the same value, where so many rows have each."""
    count = counts.sum()
    return float((counts * (counts - 1.0)).sum() / max(1.0, count * (count - 1.0)))


def _mixed(digest: NDArray[np.uint64], places: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A hash of each row that counts one more value of it."""
    digest = (digest ^ places.view(np.uint64)) * _MIX
    return digest ^ (digest >> np.uint64(32))


def said_of_random(
    parts: Mapping[str, NDArray[np.int64]],
    labels: NDArray[np.int64] | None = None,
    given: Sequence[str | None] | None = None,
) -> str:
    """How `split_rows` has shared rows out, in a sentence."""
    how = "At random" if labels is None else "At random, classes shared out evenly"
    if given is not None:
        how = "As the data's own split says"
    each = [f"{counted(len(rows), 'row')} {PART_WORDS[part]}" for part, rows in parts.items() if len(rows)]
    return f"{how}: {', '.join(each)}."


def said_of_copies(copies: NDArray[np.int64], parts: Mapping[str, NDArray[np.int64]]) -> list[str]:
    """What a person should know of rows that are alike, in sentences; nothing where there are none."""
    repeats = len(copies) - int(np.count_nonzero(np.bincount(copies)))
    seen = np.isin(np.concatenate([copies[parts["val"]], copies[parts["test"]]]), copies[parts["train"]])
    if leaked := int(np.count_nonzero(seen)):
        are = "row repeats a training row" if leaked == 1 else "rows repeat training rows"
        return [f"{leaked:,} validation or test {are}: the data's own split was kept, and the figures are too good."]
    if not repeats:
        return []
    return [
        f"{counted(repeats, 'row')} repeat{'s' if repeats == 1 else ''} another: copies lie in one part of the split."
    ]


def _first_alike(copies: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each of `rows` the first of them that it is alike."""
    _, first, group = np.unique(copies[rows], return_index=True, return_inverse=True)
    return np.asarray(rows[first[group]], dtype=np.int64)


def _firsts(order: NDArray[np.int64], first: NDArray[np.int64], labels: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """The first row of each group of equal rows: by class if there are classes, within it large groups before small.

    At even steps through falling sizes no part gets far off its share; groups of one size keep their order.
    """
    alike = np.bincount(first, minlength=len(order))
    order = order[alike[order] > 0]
    order = order[np.argsort(-alike[order], kind="stable")]
    return order if labels is None else order[np.argsort(labels[order], kind="stable")]


def _even_steps(count: int, share: float, offset: float) -> NDArray[np.bool_]:
    """Mask [count], true at even steps for `share` of the places."""
    steps = np.floor(np.arange(count + 1) * share + offset)
    return np.asarray(np.diff(steps) > 0, dtype=np.bool_)
