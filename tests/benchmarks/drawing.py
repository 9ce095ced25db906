"""Plain charts of lines or bars as SVG, for the pictures in docs/: readable on a light and on a dark page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 640, 320, 60, 44, 16, 140
COLOURS = ("#2f80ed", "#e07b00", "#27ae60", "#c0392b", "#8e44ad")
TICKS = 5
BAR, BAR_LEFT, BAR_TOP = 30, 230, 28


@dataclass(frozen=True)
class Curve:
    """A named line."""

    name: str
    points: Sequence[tuple[float, float]]


def draw(path: Path, curves: Sequence[Curve], *, x: str, y: str) -> None:
    """Write the chart. Raises `ValueError` without points."""
    places = [point for curve in curves for point in curve.points]
    if not places:
        raise ValueError("there is nothing to draw")
    low_x, high_x = min(0.0, *(place[0] for place in places)), max(place[0] for place in places)
    low_y, high_y = min(place[1] for place in places), max(place[1] for place in places)
    wide, high = high_x - low_x or 1.0, high_y - low_y or 1.0

    def across(value: float) -> float:
        return LEFT + (value - low_x) / wide * (WIDTH - LEFT - RIGHT)

    def up(value: float) -> float:
        return HEIGHT - BOTTOM - (value - low_y) / high * (HEIGHT - BOTTOM - TOP)

    parts = [_opening(HEIGHT, f"{y} by {x}")]
    for tick in range(TICKS):
        at_x, at_y = low_x + wide * tick / (TICKS - 1), low_y + high * tick / (TICKS - 1)
        line = f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{up(at_y):.1f}" y2="{up(at_y):.1f}" stroke="#8084"/>'
        label_y = f'<text x="{LEFT - 6}" y="{up(at_y) + 4:.1f}" text-anchor="end">{at_y:.3g}</text>'
        label_x = f'<text x="{across(at_x):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{at_x:.3g}</text>'
        parts += [line, label_y, label_x]
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">{escape(x)}</text>')
    parts.append(f'<text x="{LEFT}" y="{TOP - 4}">{escape(y)}</text>')
    for number, curve in enumerate(curves):
        colour = COLOURS[number % len(COLOURS)]
        points = " ".join(f"{across(left):.1f},{up(right):.1f}" for left, right in curve.points)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
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


def _opening(height: int, words: str) -> str:
    space = 'xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="12" fill="#808080" role="img"'
    return f'<svg {space} viewBox="0 0 {WIDTH} {height}" aria-label="{escape(words)}">'


def _write(path: Path, parts: Sequence[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*parts, "</svg>", ""]), encoding="utf-8")
