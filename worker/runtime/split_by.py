"""The split of rows by group (all rows of one customer, patient, device in one part) and by time (test on the latest).

Both raise `DataError` that names the field of the spec and the next step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from worker.runtime.data import DataError
from worker.runtime.split import PART_WORDS, PARTS
from worker.words import counted

COLUMN = "data.split.column"
_NOUNS = {"train": "training", "val": "validation", "test": "test"}
_SHOWN = 5


@dataclass(frozen=True)
class Division:
    """Which rows train, validate and test, and how that was decided."""

    parts: dict[str, NDArray[np.int64]]
    """Of each of `PARTS` the rows, ascending."""
    said: str
    """For people, in sentences."""


def split_groups(
    table: pa.Table,
    name: str,
    validation: float,
    test: float,
    seed: int,
    labels: NDArray[np.int64] | None = None,
) -> Division:
    """Share whole groups out to the parts: rows of `table` [N] with one value of the column `name`.

    Rows without a value are one group.
    Groups go one by one, large before small and at random among those of about one size, to the part that most lacks
    rows of their kind. No part gets further off its share than the largest two groups; with `labels` (class numbers,
    [N]) the shares of all classes count as well, and each class keeps a group to train on.
    """
    column = _column(table, name)
    chunks = [chunk.indices.fill_null(-1).to_numpy() for chunk in column.dictionary_encode().chunks]
    _, groups = np.unique(np.concatenate([np.empty(0, np.int64), *chunks]), return_inverse=True)
    sizes = np.bincount(groups)
    shares = _shares(validation, test)
    if len(sizes) < len(shares):
        raise DataError(
            f"{COLUMN}: {name!r} has {counted(len(sizes), 'group')}, and {len(shares)} parts need one each at least.",
            "Choose a column with more groups.",
        )
    order = np.random.default_rng(seed).permutation(len(sizes))
    order = order[np.argsort(-np.floor(np.log2(sizes[order])), kind="stable")]
    place = _dealt(groups, order, list(shares.values()), np.zeros(len(groups), np.int64) if labels is None else labels)
    for number, part in enumerate(shares):
        if not np.any(place == number):
            raise DataError(
                f"{COLUMN}: no group of {name!r} is left for the {_NOUNS[part]}: each class needs one to train on.",
                "Choose a column with more groups.",
            )
    parts = {part: np.empty(0, np.int64) for part in PARTS}
    parts |= {part: np.flatnonzero(place[groups] == number) for number, part in enumerate(shares)}
    counts = dict(zip(shares, np.bincount(place).tolist(), strict=True))
    return Division(parts, _groups_said(name, counts, parts, column.null_count))


def _groups_said(name: str, counts: dict[str, int], parts: dict[str, NDArray[np.int64]], missing: int) -> str:
    """How many groups and rows each part has, and what became of the rows without a value."""
    each = [
        f"{counted(count, 'group')} ({counted(len(parts[part]), 'row')}) {PART_WORDS[part]}"
        for part, count in counts.items()
    ]
    without = f" {counted(missing, 'row')} without a value count as one group." if missing else ""
    return f"All rows of one {name!r} lie in one part: {', '.join(each)}.{without}"


def split_times(table: pa.Table, name: str, validation: float, test: float) -> Division:
    """The latest rows of `table` by the column `name` are the test, those before it the validation, the oldest train.

    Rows of one moment lie in one part, so each part begins later than the one before it has ended: a boundary moves to
    the nearest change of the moment. The same for every seed.
    """
    column = _column(table, name)
    moments = _moments(column, name)
    times, place, sizes = np.unique(moments, return_inverse=True, return_counts=True)
    shares = _shares(validation, test)
    if len(times) < len(shares):
        raise DataError(
            f"{COLUMN}: {name!r} has {counted(len(times), 'moment')}, and {len(shares)} parts need one each at least.",
            "Choose a finer column.",
        )
    starts = np.cumsum(sizes) - sizes
    test_at = _nearest(starts, len(moments) * (1 - test), len(shares) - 1, len(times) - 1) if test else len(times)
    val_at = _nearest(starts, len(moments) * (1 - test - validation), 1, test_at - 1) if validation else test_at
    bounds = {"train": (0, val_at), "val": (val_at, test_at), "test": (test_at, len(times))}
    parts = {part: np.flatnonzero((place >= first) & (place < end)) for part, (first, end) in bounds.items()}
    last = {part: column[int(rows[moments[rows].argmax()])] for part, rows in parts.items() if len(rows)}
    each = [
        f"{counted(len(parts[part]), 'row')} up to {_said_moment(moment)} {PART_WORDS[part]}"
        for part, moment in last.items()
    ]
    return Division(parts, f"In the order of {name!r}, the latest rows last: {', '.join(each)}.")


def said_of_classes(parts: Mapping[str, NDArray[np.int64]], targets: NDArray[np.int64], classes: Sequence[str]) -> str:
    """Which classes ([N] numbers in `targets`) a part lacks, for people; `DataError` where training lacks one."""
    lacking = {
        part: [repr(name) for number, name in enumerate(classes) if not np.any(targets[rows] == number)]
        for part, rows in parts.items()
        if len(rows)
    }
    if names := lacking.get("train"):
        raise DataError(
            f"data.split.by: no training row is of {_listed(names)}, so the model could not learn it.",
            "Choose another column, make validation and test smaller, leave those rows out, or set by: random.",
        )
    return "".join(f" No {_NOUNS[part]} row is of {_listed(names)}." for part, names in lacking.items() if names)


def _listed(names: list[str]) -> str:
    what = "class" if len(names) == 1 else "the classes"
    return f"{what} {', '.join(names[:_SHOWN])}" + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def _column(table: pa.Table, name: str) -> pa.ChunkedArray:
    if name not in table.column_names:
        columns = ", ".join(map(repr, table.column_names[:20]))
        raise DataError(f"{COLUMN}: there is no column {name!r}.", f"The columns are {columns}.")
    return table[name]


def _shares(validation: float, test: float) -> dict[str, float]:
    shares = {"train": 1 - validation - test, "val": validation, "test": test}
    return {part: share for part, share in shares.items() if share > 0}


def _dealt(
    groups: NDArray[np.int64], order: NDArray[np.int64], shares: Sequence[float], labels: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Part [G] of each group, dealt in `order`: the part that most lacks rows of the group's classes, and rows at all.

    `groups` and `labels` are [N], `shares` [P] begins with training. What a part lacks of a class is counted against
    the rows of the class, as in a chi-square; all rows count as one class more.
    """
    every = int(labels.max()) + 1
    pairs = np.concatenate([groups * (every + 1) + labels, groups * (every + 1) + every])
    pairs, rows = np.unique(pairs, return_counts=True)
    kinds, ends = pairs % (every + 1), np.cumsum(np.bincount(pairs // (every + 1))).tolist()
    totals, left = np.bincount(kinds, weights=rows).tolist(), np.bincount(kinds).tolist()
    owed = [[0.0] * (every + 1) for _ in shares]
    learned, empty = [False] * (every + 1), set(range(len(shares)))
    place = np.zeros(len(order), np.int64)
    for number, group in enumerate(order.tolist()):  # plain numbers: most groups have few classes, and there are many
        own = slice(ends[group - 1] if group else 0, ends[group])
        counts = list(zip(kinds[own].tolist(), rows[own].tolist(), strict=True))
        lack, may_leave = [0.0] * len(shares), True
        for kind, count in counts:
            left[kind] -= 1
            may_leave = may_leave and (learned[kind] or left[kind] > 0)
            for part, share in enumerate(shares):
                owed[part][kind] += share * count
                lack[part] += owed[part][kind] * count / totals[kind]
        wanting = empty if len(order) - number <= len(empty) else range(len(shares))
        chosen = max(wanting, key=lack.__getitem__) if may_leave else 0
        for kind, count in counts:
            owed[chosen][kind] -= count
            learned[kind] = learned[kind] or chosen == 0
        place[group] = chosen
        empty.discard(chosen)
    return place


def _nearest(starts: NDArray[np.int64], row: float, least: int, most: int) -> int:
    """Of the moments `least` to `most` the one whose first row is nearest to `row`."""
    return least + int(np.abs(starts[least : most + 1] - row).argmin())


def _moments(column: pa.ChunkedArray, name: str) -> NDArray[np.int64] | NDArray[np.float64]:
    """Values [N] in the order of time: dates in microseconds, numbers as they are."""
    if pa.types.is_temporal(column.type):
        column = column.cast(pa.timestamp("us")).cast(pa.int64())
    elif not pa.types.is_integer(column.type):
        column = _numbers(column, name)
    missing = column.null_count + (pc.sum(pc.is_nan(column)).as_py() or 0 if pa.types.is_floating(column.type) else 0)
    if missing:
        has = "row has" if missing == 1 else "rows have"
        raise DataError(
            f"{COLUMN}: {missing:,} {has} no {name!r}, so their place in time is not known.",
            "Fill the values in, leave those rows out of the upload, or choose another column.",
        )
    values: NDArray[np.int64] | NDArray[np.float64] = column.to_numpy()
    return values


def _numbers(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """Texts as whole numbers if they are, else as floats."""
    for kind in (pa.int64(), pa.float64()):
        try:
            return column.cast(kind)
        except pa.ArrowInvalid:
            continue
    value = next((value for value in column.to_pylist() if value is not None), None)
    raise DataError(
        f"{COLUMN}: {name!r} holds neither dates nor numbers, for example {str(value)[:40]!r}.",
        "Set its type to date or numeric on the page of the dataset, or choose another column.",
    )


def _said_moment(value: pa.Scalar) -> str:
    """A date without the time of day where it has none."""
    return str(value).removesuffix(".000000").removesuffix(" 00:00:00")
