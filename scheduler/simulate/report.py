"""One self-contained HTML page of one or more replays of a trace: figures, and plots as SVG."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
import numpy.typing as npt

from scheduler.simulate.engine import Replay
from scheduler.simulate.metrics import Metrics
from worker.words import number_words

Floats = npt.NDArray[np.float64]
WIDTH, HEIGHT = 860, 260
LEFT, RIGHT, TOP, BOTTOM = 70, 15, 32, 42
KEY, KEYS_WIDTH, KEY_ROW = 140, WIDTH - 20, 16
"""A name of the legend at least, all names of a row, and the height of one."""
POINTS = 600
COLOURS = ("#1f6fb2", "#c4501b", "#2a7f3f", "#8a3fa0", "#8a6d00", "#666666")
DASHES = ("", "7 4", "2 3", "9 3 2 3", "4 2", "1 2")
STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 62rem; margin: 2rem auto; padding: 0 1rem; } h1 { overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 1.5rem 0 .5rem; }
.wide, figure { overflow-x: auto; }
table { border-collapse: collapse; }
th, td { padding: .25rem .8rem; border-bottom: 1px solid #8886; text-align: right; }
th:first-child { text-align: left; font-weight: 600; } thead th { border-bottom-width: 2px; }
svg { width: 100%; min-width: 40rem; height: auto; } svg text { fill: currentColor; font: 12px system-ui, sans-serif; }
figure { margin: 1.5rem 0; } figcaption { font-weight: 600; }
"""


@dataclass(frozen=True)
class Line:
    """One curve of a plot."""

    name: str
    x: Floats
    y: Floats


def report_html(title: str, replays: Sequence[Replay], figures: Sequence[Metrics], notes: Sequence[str] = ()) -> str:
    """The page."""
    names = [replay.policy for replay in replays]
    busy = [_over_time(name, replay, lambda sample: sample.busy) for name, replay in zip(names, replays, strict=True)]
    power = [
        _over_time(name, replay, lambda sample: sample.power_w / 1000)
        for name, replay in zip(names, replays, strict=True)
    ]
    waiting = [
        _over_time(name, replay, lambda sample: sample.waiting) for name, replay in zip(names, replays, strict=True)
    ]
    jct = [_shares(name, _jct_h(replay)) for name, replay in zip(names, replays, strict=True)]
    slack = [_shares(name, _slack_h(replay)) for name, replay in zip(names, replays, strict=True)]
    basis = " and ".join(dict.fromkeys(item.energy_basis for item in figures))
    plots = (
        plot("Devices that jobs hold", busy, "hours since the first submission", "devices"),
        plot(f"Power of the pool, idle devices included ({basis})", power, "hours since the first submission", "kW"),
        plot("Jobs that wait", waiting, "hours since the first submission", "jobs"),
        plot("Time from submission to finish", jct, "hours, logarithmic", "share of finished jobs", logarithmic=True),
        plot("Time between finish and deadline; below 0: late", slack, "hours", "share of finished jobs"),
    )
    listed = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head><body>'
        f"<h1>{escape(title)}</h1><ul>{listed}</ul>{figures_table(figures)}{projects_table(figures)}{''.join(plots)}"
        "</body></html>\n"
    )


def figures_table(figures: Sequence[Metrics]) -> str:
    """One column per replay."""
    rows = [(label, *(show(item) for item in figures)) for label, show in ROWS]
    return _table(("Figure", *(item.policy for item in figures)), rows)


def projects_table(figures: Sequence[Metrics]) -> str:
    """One row per project and replay; empty where the trace names no project."""
    rows = project_rows(figures)
    return f"<h2>By project</h2>{_table(PROJECT_HEAD, rows)}" if rows else ""


PROJECT_HEAD = (
    *("Project", "Policy", "Quota", "Jobs", "Finished", "Deadlines kept", "Wait, mean", "Wait, 99 %"),
    *("To finish, mean", "Device-hours"),
)


def project_rows(figures: Sequence[Metrics]) -> list[tuple[str, ...]]:
    """How the jobs of each project fared by each policy."""
    found = [(fared, item.policy) for item in figures for fared in item.projects]
    return [
        (
            fared.project or "none named", policy, fared.quota or "none", _number(fared.jobs), _number(fared.finished),
            _number(fared.satisfaction), _minutes(fared.wait_mean_s), _minutes(fared.wait_p99_s),
            _hours(fared.jct_mean_s), _number(fared.device_hours),
        )
        for fared, policy in sorted(found, key=lambda pair: pair[0].project)
    ]  # fmt: skip


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The first cell of each row names it."""
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    cells = (
        f'<tr><th scope="row">{escape(first)}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in rest)}</tr>'
        for first, *rest in rows
    )
    return f'<div class="wide"><table><thead><tr>{heads}</tr></thead><tbody>{"".join(cells)}</tbody></table></div>'


def _number(value: float | None, unit: str = "", digits: int = 4) -> str:
    if value is None:
        return "-"
    return f"{number_words(value, digits)} {unit}".strip()


def _hours(seconds: float | None) -> str:
    return _number(None if seconds is None else seconds / 3600, "h")


def _minutes(seconds: float | None) -> str:
    return _number(None if seconds is None else seconds / 60, "min")


def _energy(item: Metrics) -> str:
    """With what the watts rest on: in one word, or what share of it does on each."""
    parts = item.energy_by_basis_kwh
    shares = (f"{basis} {number_words(kwh, 3)}" for basis, kwh in parts.items())
    return f"{_number(item.energy_kwh, 'kWh')} ({item.energy_basis if len(parts) < 2 else ', '.join(shares)})"


ROWS: tuple[tuple[str, Callable[[Metrics], str]], ...] = (
    ("Jobs", lambda item: _number(item.jobs)),
    ("Finished", lambda item: _number(item.finished)),
    ("Refused", lambda item: _number(item.refused)),
    ("Fit nowhere", lambda item: _number(item.fit_nowhere)),
    ("Barred by their quota", lambda item: _number(item.barred)),
    ("Deadline satisfaction", lambda item: _number(item.satisfaction)),
    ("Promised", lambda item: _number(item.promised)),
    ("Promises broken by overheads", lambda item: _number(item.promises_broken)),
    ("Submission to finish, mean", lambda item: _hours(item.jct_mean_s)),
    ("... median", lambda item: _hours(item.jct_p50_s)),
    ("... 99 %", lambda item: _hours(item.jct_p99_s)),
    ("Submission to start, mean", lambda item: _minutes(item.wait_mean_s)),
    ("... 99 %", lambda item: _minutes(item.wait_p99_s)),
    ("Makespan", lambda item: _hours(item.makespan_s if item.finished else None)),
    ("Utilisation", lambda item: _number(item.utilisation)),
    ("Device-hours", lambda item: _number(item.device_hours)),
    ("Energy, idle devices included", _energy),
    ("... per finished job", lambda item: _number(item.energy_per_finished_kwh, "kWh")),
    ("Changes of devices per job", lambda item: _number(item.changes_per_job, digits=3)),
    ("Decisions", lambda item: _number(item.decisions)),
    ("Decision, median", lambda item: _number(item.decision_p50_ms, "ms", 3)),
    ("Decisions per second", lambda item: _number(item.decisions_per_s, digits=3)),
)


def _over_time(name: str, replay: Replay, value: Callable[..., float]) -> Line:
    """A step curve, thinned to the mean of equal stretches of time."""
    times = np.array([sample.time_s for sample in replay.samples] + [replay.end_s])
    values = np.array([float(value(sample)) for sample in replay.samples] + [0.0])
    if len(times) < 2:
        return Line(name, np.zeros(1), np.zeros(1))
    edges = np.linspace(times[0], times[-1], POINTS + 1)
    area = np.concatenate([[0.0], np.cumsum(values[:-1] * np.diff(times))])
    means = np.diff(np.interp(edges, times, area)) / np.maximum(np.diff(edges), 1e-9)
    return Line(name, (edges[:-1] - times[0]) / 3600, means)


def _jct_h(replay: Replay) -> list[float]:
    ended = (outcome for outcome in replay.outcomes if outcome.finished_s is not None)
    return [((outcome.finished_s or 0.0) - outcome.job.submitted_s) / 3600 for outcome in ended]


def _slack_h(replay: Replay) -> list[float]:
    return [
        (outcome.job.deadline_s - outcome.finished_s) / 3600
        for outcome in replay.outcomes
        if outcome.finished_s is not None and outcome.job.deadline_s is not None
    ]


def _shares(name: str, values: Sequence[float]) -> Line:
    """The distribution: for each quantile its value. Without values the line has no point."""
    if not values:
        return Line(name, np.zeros(0), np.zeros(0))
    share = np.linspace(0, 1, min(POINTS, max(2, len(values))))
    return Line(name, np.quantile(np.array(values), share), share)


def plot(title: str, lines: Sequence[Line], x_name: str, y_name: str, *, logarithmic: bool = False) -> str:
    """Curves with axes and a legend, told apart by colour and dashes."""
    scaled = [Line(line.name, _log(line.x) if logarithmic else line.x, line.y) for line in lines]
    drawn = [line for line in scaled if len(line.x)]
    low = min((float(line.x.min()) for line in drawn), default=0.0)
    high = max((float(line.x.max()) for line in drawn), default=1.0)
    top = max((float(line.y.max()) for line in drawn), default=1.0) or 1.0
    high = high if high > low else low + 1.0

    def x_of(value: float) -> float:
        return LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def y_of(value: float) -> float:
        return HEIGHT - BOTTOM - value / top * (HEIGHT - TOP - BOTTOM)

    parts = [_axes(low, high, top, x_of, y_of, x_name, y_name, logarithmic)]
    key_width = max(KEY, min(170, KEYS_WIDTH // max(1, len(scaled))))
    each = KEYS_WIDTH // key_width
    above = KEY_ROW * (max(0, len(scaled) - 1) // each)
    for number, line in enumerate(scaled):
        points = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in zip(line.x, line.y, strict=True))
        style = f'stroke="{COLOURS[number % len(COLOURS)]}" stroke-dasharray="{DASHES[number % len(DASHES)]}"'
        parts.append(f'<polyline points="{points}" fill="none" stroke-width="1.6" {style}/>')
        at, y = 10 + number % each * key_width, TOP - 16 - above + number // each * KEY_ROW
        parts.append(f'<line x1="{at}" y1="{y}" x2="{at + 26}" y2="{y}" stroke-width="2" {style}/>')
        parts.append(f'<text x="{at + 32}" y="{y + 4}">{escape(line.name)}</text>')
    box = f"0 {-above} {WIDTH} {HEIGHT + above}"
    svg = f'<svg viewBox="{box}" role="img" aria-label="{escape(title)}">{"".join(parts)}</svg>'
    return f"<figure><figcaption>{escape(title)}</figcaption>{svg}</figure>"


def _axes(
    low: float,
    high: float,
    top: float,
    x_of: Callable[[float], float],
    y_of: Callable[[float], float],
    x_name: str,
    y_name: str,
    logarithmic: bool,
) -> str:
    parts = []
    for tick in ticks(low, high):
        x, label = x_of(tick), 10**tick if logarithmic else tick
        parts.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{HEIGHT - BOTTOM}" stroke="#8883"/>')
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{label:.3g}</text>')
    for tick in ticks(0.0, top):
        y = y_of(tick)
        parts.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#8883"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{tick:.4g}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 6}" text-anchor="middle">{escape(x_name)}</text>')
    parts.append(
        f'<text x="14" y="{HEIGHT / 2}" text-anchor="middle" transform="rotate(-90 14 {HEIGHT / 2})">'
        f"{escape(y_name)}</text>"
    )
    return "".join(parts)


def ticks(low: float, high: float, about: int = 6) -> list[float]:
    """Round numbers from `low` to `high`, about so many."""
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough)) if rough > 0 else 1.0
    step = next(size * power for size in (1, 2, 5, 10) if size * power >= rough)
    first = math.ceil(low / step - 1e-9)
    return [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]


def _log(values: Floats) -> Floats:
    return np.log10(np.maximum(values, 1e-3))
