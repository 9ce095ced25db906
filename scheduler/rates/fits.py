"""Fits to the curves of a range test, over x = log10(learning rate)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

Values = NDArray[np.float64]
DEGREES = range(3, 10)
POINTS_PER_TERM = 3
"""A polynomial has at most one term per so many points."""
STARTS = 60


@dataclass(frozen=True, kw_only=True)
class PolynomialFit:
    """y = sum_k coefficients[k] T_k(u), Chebyshev polynomials of u = x scaled from [low_x, high_x] to [-1, 1]."""

    low_x: float
    high_x: float
    coefficients: tuple[float, ...]
    explained: float
    """Share of variance, 0 to 1."""

    def at(self, x: Values) -> Values:
        """The fitted value at log10(rate)."""
        u = (2.0 * x - self.low_x - self.high_x) / (self.high_x - self.low_x)
        values: Values = chebyshev.chebval(u, np.asarray(self.coefficients))
        return values

    @property
    def degree(self) -> int:
        """Order of the polynomial."""
        return len(self.coefficients) - 1

    @staticmethod
    def from_dict(body: Mapping[str, Any]) -> PolynomialFit:
        """From plain values. Raises `KeyError`, `TypeError`."""
        return PolynomialFit(**{**body, "coefficients": tuple(body["coefficients"])})


@dataclass(frozen=True, kw_only=True)
class LogFit:
    """y = level + slope * max(0, x - start_x): nothing below a rate, then so much per decade."""

    start_x: float
    end_x: float
    """Largest x it was fitted to."""
    level: float
    slope: float
    explained: float

    def at(self, x: Values) -> Values:
        """The fitted value at log10(rate)."""
        return np.asarray(self.level + self.slope * np.maximum(0.0, x - self.start_x), dtype=np.float64)

    def negated(self) -> LogFit:
        """Of the same curve turned upside down."""
        return LogFit(
            start_x=self.start_x, end_x=self.end_x, level=-self.level, slope=-self.slope, explained=self.explained
        )


def polynomial_fit(x: Values, y: Values) -> PolynomialFit:
    """The order of least corrected Akaike information, by least squares on values scaled to their own spread."""
    low_x, high_x = float(x[0]), float(x[-1])
    u = (2.0 * x - low_x - high_x) / (high_x - low_x)
    middle, spread = float(np.median(y)), float(np.ptp(y)) or 1.0
    scaled, n = (y - middle) / spread, len(x)
    best = np.inf
    chosen: Values = np.zeros(1)
    for degree in DEGREES:
        terms = degree + 1
        if degree > DEGREES[0] and terms * POINTS_PER_TERM > n:
            break
        coefficients: Values = np.asarray(chebyshev.chebfit(u, scaled, degree), dtype=np.float64)
        rest = float(np.mean((scaled - chebyshev.chebval(u, coefficients)) ** 2))
        told = n * np.log(rest + 1e-12) + 2 * terms + 2 * terms * (terms + 1) / max(1, n - terms - 1)
        if told < best - 1e-9:
            best, chosen = told, coefficients
    explained = _explained(scaled, np.asarray(chebyshev.chebval(u, chosen), dtype=np.float64))
    chosen = chosen * spread
    chosen[0] += middle
    return PolynomialFit(
        low_x=low_x, high_x=high_x, coefficients=tuple(float(value) for value in chosen), explained=explained
    )


def log_fit(x: Values, y: Values) -> LogFit | None:
    """The rising law of least squares, its start searched over a grid; None where nothing rises."""
    best, found = np.inf, None
    for start in np.linspace(x[0], x[-2], STARTS):
        rise = np.maximum(0.0, x - start)
        lever = rise - rise.mean()
        slope = float(lever @ y / (lever @ lever))
        if slope <= 0:
            continue
        level = float(y.mean() - slope * rise.mean())
        rest = float(np.sum((y - level - slope * rise) ** 2))
        if rest < best * (1.0 - 1e-9):
            best, found = rest, (float(start), level, slope)
    if found is None:
        return None
    start_x, level, slope = found
    explained = _explained(y, level + slope * np.maximum(0.0, x - start_x))
    return LogFit(start_x=start_x, end_x=float(x[-1]), level=level, slope=slope, explained=explained)


def _explained(y: Values, fitted: Values) -> float:
    total = float(np.sum((y - y.mean()) ** 2))
    return max(0.0, 1.0 - float(np.sum((y - fitted) ** 2)) / total) if total > 0 else 0.0
