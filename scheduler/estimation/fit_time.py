"""Fitting step times: all coefficients together, on whole steps, by robust relative error.

    minimise  sum_i rho((log predicted_i - log measured_i) / NOISE) + 1/2 sum_j ((w_j - prior_j) / spread_j)^2

with rho(z) = sqrt(1 + z^2) - 1, the soft absolute value: quadratic near zero, linear for outliers. Solved by damped
Gauss-Newton with exact derivatives (scipy's Cholesky). Two offsets shared by all arithmetic and by all
traffic carry what is measured on some operator classes over to those that were not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from scheduler.estimation.device_parts import Coefficients
from scheduler.estimation.features import DENSE, LAYOUTS, Block, Vector
from scheduler.estimation.predict import EXPONENTS, Table

NOISE = 0.04
"""Relative error of a step time that is nothing to be bent for."""
SHARED_SPREAD = 1.0
MOST_ITERATIONS = 60
TOLERANCE = 1e-4
"""Share of the loss that a step must take away for another one to follow."""
ENOUGH, LEAST_SHARE = 1e-4, 1e-4
"""Of Armijo's rule: share of the promised fall that must come true, and the shortest step tried."""
ARITHMETIC, TRAFFIC, CALLS = 0, 1, 2
SHARED = 3


def shared_offset(group: str) -> int:
    """Which shared offset a group of terms moves with."""
    if group in DENSE or group.endswith("_flops"):
        return ARITHMETIC
    return CALLS if group in ("operators", "optimizer_tensors", "step") else TRAFFIC


@dataclass(frozen=True)
class Part:
    """One group of terms in a fit: what is the same at every look at it."""

    name: str
    block: Block
    prior: Vector
    spread: Vector
    place: slice
    """Of its own entries in the vector."""
    shared: int
    """Of the entry that it moves with."""
    first: npt.NDArray[np.intp]
    """Where the terms of a point begin: they lie side by side."""
    owners: npt.NDArray[np.intp]
    """Those points, the ones that have any."""

    def coefficients(self, u: Vector) -> Vector:
        """From the vector of (deviation from the prior) / spread."""
        found: Vector = self.prior + self.spread * u[self.place]
        found[0] += SHARED_SPREAD * u[self.shared]
        return found


@dataclass(frozen=True)
class Problem:
    """Terms, measured times and weights of one fit."""

    table: Table
    log_s: Vector
    weights: Vector
    prior: Coefficients
    tightness: float = 1.0
    """Above 1: coefficients keep closer to the prior."""

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """Groups that occur, in order."""
        found, place = [], SHARED
        for name in (name for name in LAYOUTS if name in self.table.blocks):
            block, spread = self.table.blocks[name], np.array(LAYOUTS[name].spread) / self.tightness
            first = np.flatnonzero(np.diff(block.owner, prepend=-1))
            own = slice(place, place + len(spread))
            prior, shared = np.array(self.prior[name]), shared_offset(name)
            found.append(Part(name, block, prior, spread, own, shared, first, block.owner[first]))
            place = own.stop
        return tuple(found)

    def unpack(self, u: Vector) -> dict[str, Vector]:
        """Coefficients by group from that vector."""
        return {part.name: part.coefficients(u) for part in self.parts}

    @property
    def size(self) -> int:
        """Length of the vector."""
        return self.parts[-1].place.stop if self.parts else SHARED

    def seconds(self, u: Vector) -> list[Vector]:
        """Of every term, by group."""
        return [
            part.block.amounts * np.exp(np.clip(part.block.phi @ part.coefficients(u), *EXPONENTS))
            for part in self.parts
        ]

    def sums(self, seconds: Sequence[Vector]) -> list[Vector]:
        """Of those of a point, of each that has any, by group."""
        return [np.add.reduceat(terms, part.first) for part, terms in zip(self.parts, seconds, strict=True)]

    def total(self, sums: Sequence[Vector]) -> Vector:
        """Of every point."""
        found = np.zeros(self.table.size)
        for part, own in zip(self.parts, sums, strict=True):
            found[part.owners] += own
        return found

    def slopes(self, seconds: Sequence[Vector], sums: Sequence[Vector], total: Vector) -> Vector:
        """Derivatives of the logarithms of `total` by the vector."""
        found = np.zeros((self.table.size, self.size))
        for part, terms, own in zip(self.parts, seconds, sums, strict=True):
            found[part.owners, part.place] = np.add.reduceat(terms[:, None] * part.block.phi, part.first) * part.spread
            found[part.owners, part.shared] += SHARED_SPREAD * own
        return found / total[:, None]


class Loss:
    """The loss, its gradient, and its curvature without second derivatives of the terms (Gauss-Newton)."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._at: Vector | None = None
        self._steep: Vector | None = None

    def _look(self, u: Vector) -> None:
        if self._at is None or not np.array_equal(self._at, u):
            self._seconds = self._problem.seconds(u)
            self._sums = self._problem.sums(self._seconds)
            self._total = self._problem.total(self._sums)
            self._z = (np.log(self._total) - self._problem.log_s) / NOISE
            self._root = np.sqrt(1.0 + self._z**2)
            self._at, self._steep = u.copy(), None

    @property
    def _slopes(self) -> Vector:
        """They take most of a look's time, and of a step that is tried and not taken nobody asks for them."""
        if self._steep is None:
            self._steep = self._problem.slopes(self._seconds, self._sums, self._total)
        return self._steep

    def value(self, u: Vector) -> float:
        """The loss at `u`."""
        self._look(u)
        return float((self._problem.weights * (self._root - 1.0)).sum() + 0.5 * u @ u)

    def gradient(self, u: Vector) -> Vector:
        """Its gradient."""
        self._look(u)
        result: Vector = self._slopes.T @ (self._problem.weights * self._z / self._root / NOISE) + u
        return result

    def curvature(self, u: Vector) -> Vector:
        """Positive definite: the prior sees to it."""
        self._look(u)
        weights = self._problem.weights / self._root / NOISE**2
        result: Vector = (self._slopes * weights[:, None]).T @ self._slopes + np.eye(len(u))
        return result


def solve(problem: Problem, start: Vector | None = None) -> Vector:
    """The vector that minimises the loss: Gauss-Newton steps by Cholesky, halved until the loss falls enough."""
    from scipy.linalg import cho_factor, cho_solve

    loss = Loss(problem)
    u = np.zeros(problem.size) if start is None else start
    value = loss.value(u)
    for _ in range(MOST_ITERATIONS):
        gradient = loss.gradient(u)
        step = cho_solve(cho_factor(loss.curvature(u)), -gradient)
        slope, share = float(gradient @ step), 1.0
        while (after := loss.value(u + share * step)) > value + ENOUGH * share * slope and share > LEAST_SHARE:
            share *= 0.5
        if after >= value:
            break
        u, fallen, value = u + share * step, value - after, after
        if fallen < TOLERANCE * max(1.0, value):
            break
    return u


def fit_members(
    table: Table, step_s: Vector, prior: Coefficients, *, members: int, seed: int = 0, tightness: float = 1.0
) -> tuple[Coefficients, ...]:
    """An ensemble: the first member on the points as they are, the others on Bayesian bootstraps (Rubin 1981)."""
    generator, found = np.random.default_rng(seed), []
    start: Vector | None = None
    for number in range(members):
        weights = np.ones(table.size) if number == 0 else generator.exponential(size=table.size)
        problem = Problem(table, np.log(step_s), weights, prior, tightness)
        solution = solve(problem, start)
        start = solution if start is None else start
        found.append(_with_prior(problem, solution))
    return tuple(found)


def _with_prior(problem: Problem, u: Vector) -> Coefficients:
    """All groups: those never seen keep the prior's shape and move with the shared offsets."""
    fitted = problem.unpack(u)
    found = {}
    for name in LAYOUTS:
        if name in fitted:
            found[name] = tuple(float(value) for value in fitted[name])
        else:
            first, *rest = problem.prior[name]
            found[name] = (first + SHARED_SPREAD * float(u[shared_offset(name)]), *rest)
    return found


def subset(table: Table, keep: Sequence[int]) -> Table:
    """The workloads numbered in `keep`, renumbered in that order."""
    place = np.full(table.size, -1)
    place[np.array(keep, dtype=np.intp)] = np.arange(len(keep))
    blocks = {}
    for name, block in table.blocks.items():
        chosen = place[block.owner] >= 0
        if chosen.any():
            blocks[name] = Block(
                owner=place[block.owner[chosen]],
                amounts=block.amounts[chosen],
                phi=block.phi[chosen],
                forward=block.forward[chosen],
                once=block.once[chosen],
            )
    return Table(len(keep), blocks)
