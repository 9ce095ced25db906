"""What a forecast is made of besides other columns: numbers of the past of a series, and of the calendar; numpy alone.

`shape.windows` in spec.yaml names them. Simple forecasts, which the model is measured by, are made here, too.
"""

from dataclasses import dataclass

import numpy as np

NEARBY = 3  # steps around the place one season before
DAY_US = 86_400_000_000
OF_SPANS = ("above_mean", "spread", "around")  # windows that are made of means and spreads


@dataclass(frozen=True)
class Series:
    """All series, one below the other, each in the order of time."""

    values: np.ndarray  # [N] target, NaN where it is missing
    times: np.ndarray  # [N] microseconds since 1970
    first: np.ndarray  # [N] place of the first row of the same series


def windows_of(rows: Series, origins: np.ndarray, steps: np.ndarray, times: np.ndarray, windows: list[dict]) -> dict:
    """Name -> [E] of what is known at the rows `origins` [E] for so many `steps` ahead, where it will be `times`."""
    last = rows.values[origins]
    spans = {window["name"]: span_of(rows, origins, steps, window) for window in windows if window["of"] in OF_SPANS}
    take_in(rows, list(spans.values()))
    found = {}
    for window in windows:
        kind, length = window["of"], window.get("steps", 0)
        if kind == "last":
            values = last
        elif kind == "change":
            values = last - value_at(rows, origins, origins - length)
        elif kind == "above_mean":
            values = last - spans.pop(window["name"]).mean()
        elif kind == "spread":
            values = spans.pop(window["name"]).spread()
        elif kind == "season":
            values = value_at(rows, origins, season_before(origins, steps, length)) - last
        elif kind == "around":
            values = spans.pop(window["name"]).mean() - last
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


@dataclass
class Span:
    """Places of a series, and what `take_in` finds of the known values there."""

    begin: np.ndarray  # [E] the first place that is not taken in yet
    length: np.ndarray | int  # [E], or that of all
    found: np.ndarray  # [2, E] counts and means; [3, E] with the sums of the squared distances from them

    def mean(self) -> np.ndarray:
        """[E]; NaN where no value is known."""
        return np.where(self.found[0] > 0, self.found[1], np.nan)

    def spread(self) -> np.ndarray:
        """Standard deviation [E]; NaN where no value is known."""
        return np.sqrt(np.where(self.found[0] > 0, self.found[2], np.nan) / np.maximum(1, self.found[0]))


def span(rows: Series, origins: np.ndarray, begin: np.ndarray, end: np.ndarray, finds: int) -> Span:
    """From `begin` to `end` [E], both included, within the series of the `origins`."""
    begin = np.maximum(begin, rows.first[origins])
    length = np.maximum(0, end + 1 - begin)
    if len(length) and (length == length[0]).all():  # mostly: where no series begins within it
        length = int(length[0])
    return Span(begin, length, np.zeros((finds, len(begin))))


def span_of(rows: Series, origins: np.ndarray, steps: np.ndarray, window: dict) -> Span:
    """What the window is a mean or the spread of."""
    if window["of"] == "around":
        middle = season_before(origins, steps, window["steps"])
        return span(rows, origins, middle - NEARBY, np.minimum(middle + NEARBY, origins), 2)
    return span(rows, origins, origins - window["steps"] + 1, origins, 3 if window["of"] == "spread" else 2)


def mean_at(rows: Series, origins: np.ndarray, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Mean of the known values from `begin` to `end`, both included, within the series; NaN where there are none."""
    asked = span(rows, origins, begin, end, 2)
    take_in(rows, [asked])
    return asked.mean()


def take_in(rows: Series, spans: list[Span]) -> None:
    """Put what is `found` of each span together of runs of 1, 2, 4, ... values, which are made once for all spans.

    In a running sum over all rows, what is large elsewhere would take the last digits, or all, of what is small here.
    """
    known = np.isfinite(rows.values)
    count = 1.0 if known.all() else known.astype(np.float64)
    runs = (count, np.where(known, rows.values, 0.0), 0.0)  # counts, means and squares from each place on
    left, size = [each for each in spans if np.max(each.length, initial=0) > 0], 1
    while left:
        for each in left:
            take_run(each, runs, size)
        size *= 2
        left = [each for each in left if np.max(each.length) >= size]
        if left:
            runs = runs[: max(len(each.found) for each in left)]  # squares only as far as they are asked for
            half = size // 2
            runs = together(at(runs, slice(-half)), at(runs, slice(half, None)))


def take_run(into: Span, runs: tuple, size: int) -> None:
    """Take in the next `size` places where the length has this power of two in it."""
    longer = into.length & size
    if np.ndim(longer) == 0 and not longer:
        return
    chosen = np.flatnonzero(longer) if np.ndim(longer) else slice(None)
    begin, found = into.begin[chosen], into.found[:, chosen]
    both = together(tuple(found), at(runs[: len(found)], begin))
    for row, values in zip(into.found, both, strict=True):
        row[chosen] = values
    into.begin[chosen] = begin + size


def at(runs: tuple, places: np.ndarray | slice) -> tuple:
    """Of these places; what is one number is the same of all."""
    return tuple(each[places] if np.ndim(each) else each for each in runs)


def together(one: tuple, other: tuple) -> tuple:
    """Counts, means and, if there are such, squares of what both are of (Chan et al. 1979, "Updating formulae and a
    pairwise algorithm for computing sample variances")."""
    count = one[0] + other[0]
    share = other[0] / np.maximum(1, count)
    with np.errstate(over="ignore", invalid="ignore"):
        apart = other[1] - one[1]
        mean = one[1] + apart * share
        return (count, mean, *(a + b + apart**2 * (one[0] * share) for a, b in zip(one[2:], other[2:], strict=True)))


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
