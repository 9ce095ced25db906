"""Whether rows that a forecast goes on from follow on one another; with numpy and the standard library alone."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from worker.runtime.moments import Moments, moments_after

WHEN_MADE = "{}: when the forecast is made"
"""Input beside a column that is known ahead, for what it will be."""
LACKING_NAMED = 5
"""Moments without a row, at most, in the words on them."""
STEPS_BETWEEN = 5
"""A night or a holiday may lie between."""


def gap_check(older: Moments, newer: Moments, step_s: float) -> None:
    """Raise `ValueError` where newer rows do not follow on the older ones; moments in microseconds since 1970."""
    if not len(older) or not len(newer):
        return
    most_us = max(STEPS_BETWEEN * step_s * 1e6, np.diff(np.sort(older)).max(initial=0))
    end, begin = older.max(), newer.min()
    if begin - end > most_us:
        raise ValueError(
            f"rows are missing between {moment_said(end)}, where the data ends, and {moment_said(begin)}; add them"
        )


def needed_columns(about: Mapping[str, Any], *, is_plan: bool) -> list[str]:
    """Of newer rows; `is_plan`: all of them are of moments to come, so that only what is known ahead is needed."""
    keys = [name for name in (about["series"], about["time"]) if name]
    if is_plan:
        return list(dict.fromkeys([*keys, *about["known"]]))
    return list(dict.fromkeys([*keys, about["target"], *about["numeric"], *about["categorical"]]))


def none_planned(about: Mapping[str, Any], ahead: Moments) -> str:
    """What is said where there is no row of the moments `ahead`, though columns are known ahead."""
    known = ", ".join(map(repr, about["known"]))
    return (
        f"rows of the moments to come are missing, {moment_said(ahead[0])} to {moment_said(ahead[-1])}: give {known} "
        f"for each, and leave {about['target']!r} empty"
    )


def planned_check(about: Mapping[str, Any], past: Moments, ahead: Moments, empty: Mapping[str, int], name: str) -> None:
    """Pass where the rows of the moments `ahead` follow on one another and on the `past` ones, of the series `name`.

    `empty`: by column that is known ahead the first of these rows without a value. Raises `ValueError` that names what
    is missing.
    """
    known, of = ", ".join(map(repr, about["known"])), f" of {name!r}" if name else ""
    most_us = max(int(np.diff(past).max(initial=0)), round(1.5 * about["step_s"] * 1e6))
    every = np.append(past, ahead)
    for at in range(len(past), len(every)):
        if every[at] == every[at - 1]:
            raise ValueError(f"there are two rows{of} of {moment_said(every[at])}: keep one")
        if every[at] - every[at - 1] > most_us:
            between = moments_after(every[:at], about["step_s"], LACKING_NAMED + 1)
            lacking = [moment_said(moment) for moment in between[between < every[at]]]
            named = ", ".join(lacking[:LACKING_NAMED]) + (", ..." if len(lacking) > LACKING_NAMED else "")
            raise ValueError(f"no row{of} for {named} before {moment_said(every[at])}: give {known} there, too")
    for column, row in empty.items():
        if column not in about["missing"]:
            raise ValueError(f"{column!r} is empty in the row{of} of {moment_said(ahead[row])}: give its value")


def moment_said(moment_us: np.int64) -> str:
    """A moment as text, without a time of day where it has none."""
    return str(datetime(1970, 1, 1) + timedelta(microseconds=int(moment_us))).removesuffix(" 00:00:00")
