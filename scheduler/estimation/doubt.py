"""Whether a probe is believed at once. Other work on its host makes steps longer, and never shorter. Pure.

One that is far longer than foretold, or whose own steps lie far apart, is made once more; of two the shorter counts.
"""

from __future__ import annotations

import math
from statistics import median

from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.estimate import probe_factor
from scheduler.estimation.in_precision import in_precision
from scheduler.estimation.intervals import log_range
from scheduler.estimation.probe import Probe
from scheduler.estimation.ranks import step_times
from scheduler.estimation.steps import Steps
from scheduler.workload import Workload

FAR = 2.0
"""So many times the predicted range (of logarithms) above the middle is far ..."""
LEAST_FAR = math.log(2.0)
"""... and twice as long at least: a second look costs the device as much as the first."""
UNEVEN = 1.5
"""The longest over the shortest of some steps of the same program: on an idle host they are alike."""


def is_uneven(probe: Probe) -> bool:
    """Whether its own steps lie far apart."""
    return max(probe.step_s) > UNEVEN * min(probe.step_s)


def is_far(probe: Probe, workload: Workload, model: DeviceModel) -> bool:
    """Whether its steps took far longer than the model predicts. `model`: of the device that it ran on."""
    steps, model = Steps(workload), in_precision(model, workload)
    foretold = step_times(steps, [probe.allocation], model)[0]
    _, high = log_range(model, foretold.near, foretold.disagreement)
    return math.log(probe_factor(steps, model, probe)) > max(LEAST_FAR, FAR * (high + foretold.precision_half))


def twice_words(probe: Probe, name: str) -> str:
    """What two looks on devices called `name` come to, as a sentence; empty where there was one."""
    if not probe.left_out_s:
        return ""
    counts_s, left_out_s = median(probe.step_s), median(probe.left_out_s)
    if left_out_s <= UNEVEN * counts_s:
        return f"Steps were tried twice on {name}: what was doubted the first time came out the same."
    return (
        f"Steps were tried twice on {name}: {left_out_s:.3g} s and {counts_s:.3g} s each. The shorter ones count, "
        "for other work on a host makes steps longer, never shorter."
    )
