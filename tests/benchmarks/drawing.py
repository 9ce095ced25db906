"""Plain charts of lines or bars as SVG, for the pictures in docs/: readable on a light and on a dark page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from scheduler.simulate.report import ticks

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 640, 320, 60, 44, 16, 140
COLOURS = ("#2f80ed", "#e07b00", "#27ae60", "#c0392b", "#8e44ad")
BAR, BAR_LEFT, BAR_TOP = 30, 230, 28


@dataclass(frozen=True)
class Curve:
    """A named line."""

    name: str
    points: Sequence[tuple[float, float]]


def draw(path: Path, curves: Sequence[Curve], *, x_name: str, y_name: str) -> None:
    """Write the chart. Raises `ValueError` without points."""
    places = [point for curve in curves for point in curve.points]
    if not places:
        raise ValueError("there is nothing to draw")
    marks_x = _axis([0.0, *(place[0] for place in places)])
    marks_y = _axis([place[1] for place in places])

    def across(value: float) -> float:
        return LEFT + (value - marks_x[0]) / (marks_x[-1] - marks_x[0]) * (WIDTH - LEFT - RIGHT)

    def up(value: float) -> float:
        return HEIGHT - BOTTOM - (value - marks_y[0]) / (marks_y[-1] - marks_y[0]) * (HEIGHT - BOTTOM - TOP)

    parts = [_opening(HEIGHT, f"{y_name} by {x_name}")]
    for mark in marks_y:
        level = f'y1="{up(mark):.1f}" y2="{up(mark):.1f}"'
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" {level} stroke="#8084"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{up(mark) + 4:.1f}" text-anchor="end">{mark:.4g}</text>')
    for mark in marks_x:
        parts.append(f'<text x="{across(mark):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{mark:.4g}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">{escape(x_name)}</text>')
    parts.append(f'<text x="{LEFT}" y="{TOP - 4}">{escape(y_name)}</text>')
    for number, curve in enumerate(curves):
        colour = COLOURS[number % len(COLOURS)]
        points = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in curve.points)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{across(x):.1f}" cy="{up(y):.1f}" r="3" fill="{colour}"/>' for x, y in curve.points]
        parts.append(
            f'<text x="{WIDTH - RIGHT + 8}" y="{TOP + 16 + 18 * number}" fill="{colour}">{escape(curve.name)}</text>'
        )
    _write(path, parts)


def draw_bars(path: Path, values: Sequence[tuple[str, float]], *, what: str) -> None:
    """Write one bar for each (name, value >= 0), the first on top. Raises `ValueError` without any."""
    if not values:
        raise ValueError("there is nothing to draw")
    most = max(value for _, value in values) or 1.0
    height = BAR_TOP + BAR * len(values)
    parts = [_opening(height, what), f'<text x="{BAR_LEFT}" y="{TOP}">{escape(what)}</text>']
    for place, (name, value) in enumerate(values):
        top, wide = BAR_TOP + BAR * place, value / most * (WIDTH - BAR_LEFT - RIGHT)
        middle = top + BAR / 2
        parts.append(f'<text x="{BAR_LEFT - 8}" y="{middle:.1f}" text-anchor="end">{escape(name)}</text>')
        parts.append(f'<rect x="{BAR_LEFT}" y="{top}" width="{wide:.1f}" height="{BAR * 2 // 3}" fill="{COLOURS[0]}"/>')
        parts.append(f'<text x="{BAR_LEFT + wide + 8:.1f}" y="{middle:.1f}">{value:,.4g}</text>')
    _write(path, parts)


def _axis(values: Sequence[float]) -> list[float]:
    """Round marks around the values; from 0, unless all of them lie in the upper half."""
    low, high = min(values), max(values)
    if 0 < low < high / 2 or low == high:
        low = 0.0
    inner = ticks(low, high or 1.0)
    step = inner[1] - inner[0]
    below = [inner[0] - step] if inner[0] > low else []
    above = [inner[-1] + step] if inner[-1] < high else []
    return [*below, *inner, *above]


def _opening(height: int, words: str) -> str:
    space = 'xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="12" fill="#808080" role="img"'
    return f'<svg {space} viewBox="0 0 {WIDTH} {height}" aria-label="{escape(words)}">'


def _write(path: Path, parts: Sequence[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*parts, "</svg>", ""]), encoding="utf-8")
