"""Columns that know too much: does a single feature almost determine the target? Measured on a sample, cross-fitted."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import polars as pl

from codegen.profile.types import ColumnProfile, ColumnType, Finding, Severity
from worker.words import share_words

LEAK_SCORE = 0.98
"""Share of what a blind guess leaves open that one column explains: from here a leak is likely."""
SUSPECT_SCORE = 0.9
_NAMED_SCORE = 0.5
_ROWS = 20_000
_BINS = 256
_MIN_ROWS = 30
_SUSPICIOUS = re.compile(
    r"(?<![a-z])(copy|pred|predicted|prediction|encoded|leak|leakage|score|prob|proba|probability|probabilities|answer"
    r"|truth|true)s?(?![a-z])",
    re.ASCII | re.IGNORECASE,
)
"""Whole words: `prob_1`, not `problem`."""
_TELLING_LETTERS = 6
"""A shorter name is part of many words: `age` of `mileage`, `rate` of `separate`."""
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")

Codes = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Leak:
    """One suspect."""

    column: str
    score: float
    """0: no better than a blind guess; 1: determines the target."""
    named: bool
    """The name is made of the target's name, or of a word for predictions."""


def leak_suspects(sample: pl.DataFrame, columns: list[ColumnProfile], target: str, regression: bool) -> list[Leak]:
    """Features of the sample that explain the target nearly alone, worst first."""
    rows = sample.filter(pl.col(target).is_not_null()).head(_ROWS)
    if rows.height < _MIN_ROWS:
        return []
    classes = _codes(rows[target])
    amounts = rows[target].cast(pl.Float64).to_numpy() if regression else np.empty(0)
    found = []
    for column in columns:
        if column.name == target or column.type in (ColumnType.CONSTANT, ColumnType.IDENTIFIER):
            continue
        named = _is_named(column.name, target)
        codes = _feature_codes(rows[column.name], column.type)
        score = _explained_variance(codes, amounts) if regression else _explained_errors(codes, classes)
        if score >= (_NAMED_SCORE if named else SUSPECT_SCORE):
            found.append(Leak(column.name, score, named))
    return sorted(found, key=lambda leak: -leak.score)


def leak_findings(leaks: list[Leak], target: str) -> list[Finding]:
    """The suspects in words."""
    found = []
    for leak in leaks:
        sure = leak.score >= LEAK_SCORE
        how = "almost determines" if sure else "reveals a lot about"
        name = " Its name also suggests that it was made from the target." if leak.named else ""
        found.append(
            Finding(
                code="leak_suspect",
                severity=Severity.DANGER if sure or leak.named else Severity.WARNING,
                message=f"'{leak.column}' alone {how} the target '{target}' ({share_words(leak.score)} of what a "
                f"blind guess gets wrong).{name}",
                meaning="If it is only known after the target is known, the model will look perfect and fail in use: "
                "leave the column out. If it is truly known beforehand, a simple rule may do.",
                column=leak.column,
            )
        )
    return found


def _is_named(name: str, target: str) -> bool:
    spaced, goal = _CAMEL.sub("_", name), target.lower()
    if len(goal) >= _TELLING_LETTERS and goal in name.lower():
        return True
    if len(goal) >= 3 and re.search(rf"(?<![a-z]){re.escape(goal)}(?![a-z])", spaced.lower()):
        return True
    return bool(_SUSPICIOUS.search(spaced))


def _codes(values: pl.Series) -> Codes:
    texts = values.cast(pl.String).fill_null("")
    return np.unique(texts.to_numpy().astype(str), return_inverse=True)[1].astype(np.int64)


def _feature_codes(values: pl.Series, kind: ColumnType) -> Codes:
    """A small whole number per value; numbers and dates go to bins of even size, 0 is missing."""
    if kind not in (ColumnType.NUMERIC, ColumnType.DATE):
        return _codes(values)
    numbers = values.cast(pl.Int64 if kind is ColumnType.DATE else pl.Float64).cast(pl.Float64).to_numpy()
    present = numbers[np.isfinite(numbers)]
    distinct = np.unique(present)
    bins = min(_BINS, max(4, len(numbers) // 10))
    edges = distinct if len(distinct) <= bins else np.unique(np.quantile(present, np.linspace(0, 1, bins + 1)))
    codes = np.searchsorted(edges, numbers, side="right")
    codes[~np.isfinite(numbers)] = 0
    return codes.astype(np.int64)


@lru_cache(maxsize=1)
def _halves(rows: int) -> list[tuple[Codes, Codes]]:
    order = np.random.default_rng(0).permutation(rows)
    first, second = order[: rows // 2], order[rows // 2 :]
    return [(first, second), (second, first)]


def _explained_errors(codes: Codes, goal: Codes) -> float:
    """(accuracy - blind) / (1 - blind), learned on one half and measured on the other."""
    right = blind = 0.0
    for learn, test in _halves(len(goal)):
        common = int(np.bincount(goal[learn]).argmax())
        pairs, counts = np.unique(codes[learn] * (goal.max() + 1) + goal[learn], return_counts=True)
        order = np.argsort(counts, kind="stable")
        best = np.full(int(codes.max()) + 1, common)
        best[pairs[order] // (goal.max() + 1)] = pairs[order] % (goal.max() + 1)
        right += float((best[codes[test]] == goal[test]).sum())
        blind += float((goal[test] == common).sum())
    rows = len(goal)
    return max(0.0, (right - blind) / (rows - blind)) if blind < rows else 0.0


def _explained_variance(codes: Codes, goal: Floats) -> float:
    """R2 of the mean per bin, learned on one half and measured on the other."""
    errors = blind = 0.0
    for learn, test in _halves(len(goal)):
        mean = float(goal[learn].mean())
        size = int(codes.max()) + 1
        counts = np.bincount(codes[learn], minlength=size)
        sums = np.bincount(codes[learn], weights=goal[learn], minlength=size)
        means = np.where(counts > 0, sums / np.maximum(counts, 1), mean)
        errors += float(((goal[test] - means[codes[test]]) ** 2).sum())
        blind += float(((goal[test] - mean) ** 2).sum())
    return max(0.0, 1 - errors / blind) if blind > 0 else 0.0
