"""Find the cheapest setting of a recurring job within a time limit, trying only a few of all settings. Pure.

A setting is a row of numbers (one-hot kind of device, log batch size, power limit). After each trial two Gaussian
processes, over log time and log power, say what the untried ones would cost; next comes the one with the largest
expected saving: expected improvement on the best energy so far times the probability that the time limit is kept
(Gardner et al., "Bayesian optimization with inequality constraints", ICML 2014). What is finally chosen is always a
setting that was tried, so a kept limit is a fact and no forecast.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

Floats = NDArray[np.float64]

_SIGNAL = 1.0
_NOISE = 1e-3
"""Variance of a trial in log units: 3 %, what repeated epochs of one setting scatter."""
_LENGTH = 0.6
"""Of features scaled to 0-1: settings half the range apart are still told about."""
_LEAST_IMPROVEMENT = 1e-9


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A setting that was tried."""

    index: int
    """Into the settings."""
    run_s: float
    """Infinite where the run never reached its goal."""
    energy_j: float


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a search came to."""

    best: Trial | None
    """Least energy among the trials that kept the limit."""
    trials: tuple[Trial, ...]
    """In the order in which they were made."""


def search(
    settings: Sequence[Sequence[float]],
    try_setting: Callable[[int], Trial],
    *,
    first: Sequence[int],
    limit_s: Callable[[Trial], float],
    trials_max: int,
) -> Found:
    """Try `first`, then what promises most, up to `trials_max` settings in all.

    `limit_s` makes the time limit of the first trial: the setting that the limit is a multiple of.
    Raises `ValueError` where there is nothing to try first, or where the first trial never ends.
    """
    if not first or trials_max < len(set(first)):
        raise ValueError(f"{len(first)} settings to try first, {trials_max} trials at most")
    features = _scaled(np.asarray(settings, dtype=np.float64))
    trials = [try_setting(index) for index in dict.fromkeys(first)]
    limit = limit_s(trials[0])
    if not math.isfinite(limit):
        raise ValueError("the first setting never ends, so that there is no time limit")
    while len(trials) < min(trials_max, len(settings)):
        trials.append(try_setting(_next(features, trials, limit)))
    return Found(best=best_of(trials, limit), trials=tuple(trials))


def best_of(trials: Sequence[Trial], limit_s: float) -> Trial | None:
    """Least energy among those within the limit."""
    kept = [trial for trial in trials if trial.run_s <= limit_s]
    return min(kept, key=lambda trial: (trial.energy_j, trial.run_s), default=None)


def _scaled(features: Floats) -> Floats:
    """Each column from 0 to 1."""
    low, high = features.min(axis=0), features.max(axis=0)
    scaled: Floats = (features - low) / np.where(high > low, high - low, 1.0)
    return scaled


def _next(features: Floats, trials: Sequence[Trial], limit_s: float) -> int:
    """The untried setting with the largest expected saving."""
    tried = [trial.index for trial in trials]
    untried = np.setdiff1d(np.arange(len(features)), tried)
    log_time = np.log([_finite(trial.run_s, limit_s) for trial in trials])
    log_power = np.log([max(1e-9, trial.energy_j) / trial.run_s if _ended(trial) else math.nan for trial in trials])
    ended = np.isfinite(log_power)
    time_mean, time_std = _predict(features[tried], log_time, features[untried])
    power_mean, power_std = _predict(features[tried][ended], log_power[ended], features[untried])
    best = best_of(trials, limit_s)
    kept: Floats = norm.cdf((math.log(limit_s) - time_mean) / time_std)
    if best is None:
        return int(untried[int(np.argmax(kept))])
    mean, std = time_mean + power_mean, np.hypot(time_std, power_std)
    gap = (math.log(best.energy_j) - mean) / std
    improvement = std * (gap * norm.cdf(gap) + norm.pdf(gap))
    worth = np.maximum(improvement, 0.0) * kept
    if worth.max() <= _LEAST_IMPROVEMENT:
        worth = -mean  # nothing promises more: what is expected to be cheapest
    return int(untried[int(np.argmax(worth))])


def _ended(trial: Trial) -> bool:
    return math.isfinite(trial.run_s) and trial.run_s > 0


def _finite(run_s: float, limit_s: float) -> float:
    """A run that never ends counts as ten times too long: far out, but no infinity for the fit."""
    return run_s if math.isfinite(run_s) and run_s > 0 else 10.0 * limit_s


def _predict(at: Floats, values: Floats, where: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation of a Gaussian process through (at, values)."""
    mean, scale = float(values.mean()), float(values.std()) or 1.0
    kernel = ConstantKernel(_SIGNAL, "fixed") * RBF([_LENGTH] * at.shape[1], "fixed") + WhiteKernel(_NOISE, "fixed")
    process = GaussianProcessRegressor(kernel=kernel, n_restarts_optimizer=0, random_state=0)
    process.fit(at, (values - mean) / scale)
    found, std = process.predict(where, return_std=True)
    return found * scale + mean, np.maximum(std * scale, 1e-6)
