"""What a forecast is made of besides other columns: numbers of the past of a series, and of the calendar; numpy alone.

`shape.windows` in spec.yaml names them. Simple forecasts, which the model is measured by, are made here, too.
"""

from dataclasses import dataclass

import numpy as np

NEARBY = 3  # steps around the place one season before
DAY_US = 86_400_000_000


@dataclass(frozen=True)
class Series:
    """All series, one below the other, each in the order of time."""

    values: np.ndarray  # [N] target, NaN where it is missing
    times: np.ndarray  # [N] microseconds since 1970
    first: np.ndarray  # [N] place of the first row of the same series


def windows_of(rows: Series, origins: np.ndarray, steps: np.ndarray, times: np.ndarray, windows: list[dict]) -> dict:
    """Name -> [E] of what is known at the rows `origins` [E] for so many `steps` ahead, where it will be `times`."""
    last = rows.values[origins]
    found = {}
    for window in windows:
        kind, length = window["of"], window.get("steps", 0)
        if kind == "last":
            values = last
        elif kind == "change":
            values = last - value_at(rows, origins, origins - length)
        elif kind == "above_mean":
            values = last - mean_at(rows, origins, origins - length + 1, origins)
        elif kind == "spread":
            values = spread_at(rows, origins, length)
        elif kind == "season":
            values = value_at(rows, origins, season_before(origins, steps, length)) - last
        elif kind == "around":
            middle = season_before(origins, steps, length)
            values = mean_at(rows, origins, middle - NEARBY, np.minimum(middle + NEARBY, origins)) - last
        elif kind == "ahead":
            values = steps.astype(np.float64)
        else:
            values = calendar(kind, times)
        found[window["name"]] = values
    return found


def calendar(part: str, times: np.ndarray) -> np.ndarray:
    """Hour of the day, weekday (Monday is 0), month or day of the year."""
    days = times // DAY_US
    if part == "hour":
        found = times % DAY_US / 3600e6
    elif part == "weekday":
        found = (days + 3) % 7
    else:
        dates = days.astype("datetime64[D]")
        years = dates.astype("datetime64[Y]")
        of_year = {"month": dates.astype("datetime64[M]") - years, "day of the year": dates - years.astype(dates.dtype)}
        found = of_year[part].astype(np.int64) + 1
    return found.astype(np.float64)


def season_before(origins: np.ndarray, steps: np.ndarray, length: int) -> np.ndarray:
    """Places one season before what is foretold, or as many seasons as it takes to be known."""
    return origins + steps - length * -(-steps // length)


def value_at(rows: Series, origins: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Values at `places` [E] of the series of the `origins`; NaN before its first row."""
    there = places >= rows.first[origins]
    return np.where(there, rows.values[np.where(there, places, 0)], np.nan)


def mean_at(rows: Series, origins: np.ndarray, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Mean of the known values from `begin` to `end`, both included, within the series; NaN where there are none."""
    count, mean, _ = moments_at(rows, origins, begin, end)
    return np.where(count > 0, mean, np.nan)


def spread_at(rows: Series, origins: np.ndarray, length: int) -> np.ndarray:
    """Standard deviation of the last `length` values; NaN where none is known."""
    count, _, squares = moments_at(rows, origins, origins - length + 1, origins)
    return np.sqrt(np.where(count > 0, squares, np.nan) / np.maximum(1, count))


def moments_at(rows: Series, origins: np.ndarray, begin: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, ...]:
    """(count, mean, sum of the squared distances from it) [E] of the known values from `begin` to `end`.

    They are put together of runs of 1, 2, 4, ... values: in a running sum over all rows, what is large elsewhere would
    take the last digits, or all, of what is small here.
    """
    begin = np.maximum(begin, rows.first[origins])
    length = np.maximum(0, end + 1 - begin)
    known = np.isfinite(rows.values)
    runs = np.stack([known, np.where(known, rows.values, 0.0), np.zeros(len(known))])  # of each place, 1 long
    found = np.zeros((3, len(begin)))
    for power in range(int(length.max(initial=0)).bit_length()):
        size = 1 << power
        if power:
            runs = put_together(runs[:, : -size // 2], runs[:, size // 2 :])
        longer = np.flatnonzero(length & size)
        found[:, longer] = put_together(found[:, longer], runs[:, begin[longer]])
        begin[longer] += size
    return tuple(found)


def put_together(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Counts, means and squares [3, N] of what both are of (Chan et al. 1979, "Updating formulae and a pairwise
    algorithm for computing sample variances")."""
    count = one[0] + other[0]
    share = other[0] / np.maximum(1, count)
    with np.errstate(over="ignore", invalid="ignore"):
        apart = other[1] - one[1]
        return np.stack([count, one[1] + apart * share, one[2] + other[2] + apart**2 * one[0] * share])


def starts_of(series: np.ndarray) -> np.ndarray:
    """Place of the first row [N] of the same series; `series` [N]: one number each, one series below the other."""
    starts = np.flatnonzero(np.diff(series, prepend=-1))
    return np.repeat(starts, np.diff(np.append(starts, len(series))))


def ends_of(rows: Series) -> np.ndarray:
    """The last row of each series whose value is known: rows after it may have other columns alone."""
    known = np.where(np.isfinite(rows.values), np.arange(len(rows.values)), -1)
    last, ends = np.maximum.accumulate(known)[last_rows(rows)], last_rows(rows)
    return np.where(last >= rows.first[ends], last, ends)


def begins_of(rows: Series, about: dict) -> np.ndarray:
    """The row of each series that its forecast goes on from; none of series that are too short. Raises `ValueError`."""
    ends = ends_of(rows)
    ends = ends[(ends - rows.first[ends] >= about["history"] - 1) & np.isfinite(rows.values[ends])]
    if not len(ends):
        raise ValueError(f"a forecast goes on from {about['history']} rows of {about['target']!r} at least; give more")
    return ends


def places_ahead(rows: Series, begin: int, horizon: int) -> np.ndarray:
    """The rows behind `begin` in its series, so many at most."""
    last = last_rows(rows)
    return np.arange(begin + 1, min(last[np.searchsorted(last, begin)], begin + horizon) + 1)


def last_rows(rows: Series) -> np.ndarray:
    """The last row of each series."""
    return np.append(np.flatnonzero(np.diff(rows.first)), len(rows.first) - 1)


# ---- simple forecasts: what the model is measured by, and what it learns the difference to --------------------------
def naive(windows: list[dict]) -> list[dict]:
    """The last value, and that of one season before, by the seasons there are."""
    seasons = [window["steps"] for window in windows if window["of"] == "season"]
    return [{"of": "last"}, *({"of": "season", "steps": length} for length in seasons)]


def name_of(simple: dict) -> str:
    """As tables call it."""
    return {"last": "last value", "mean": "mean of {} before"}.get(simple["of"], "{} steps before").format(
        simple.get("steps", "")
    )


def simple_forecast(rows: Series, origins: np.ndarray, steps: np.ndarray, simple: dict) -> np.ndarray:
    """What it says [E]; the last value where it knows none."""
    last = rows.values[origins]
    if simple["of"] == "last":
        return last
    if simple["of"] == "mean":
        return mean_at(rows, origins, origins - simple["steps"] + 1, origins)
    found = value_at(rows, origins, season_before(origins, steps, simple["steps"]))
    return np.where(np.isfinite(found), found, last)


def best_base(rows: Series, origins: np.ndarray, targets: np.ndarray, windows: list[dict], history: int) -> dict:
    """The simple forecast that comes nearest to the training rows."""

    def error(simple: dict) -> float:
        said = simple_forecast(rows, origins, targets - origins, simple)
        return float(np.abs(said - rows.values[targets]).mean())

    return min([*naive(windows), {"of": "mean", "steps": history}], key=error)
