"""The parts of a run's time as an estimate adds them up."""

from __future__ import annotations

from codegen.modes import STAGED
from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.estimate import at_probed_pace, estimate, forward_moved, parts_of_run, probe_factor
from scheduler.estimation.pipelines import staged_times
from scheduler.estimation.probe import Probe
from scheduler.estimation.ranks import step_times
from scheduler.estimation.run_time import RunParts
from scheduler.estimation.steps import Steps
from scheduler.estimation.values import Allocation
from scheduler.workload import Workload


def run_parts(workload: Workload, way: Allocation, model: DeviceModel, probe: Probe | None = None) -> RunParts:
    """Those of `estimate`, of which it tells the sum alone."""
    steps, told = Steps(workload), estimate(workload, way, model, probe=probe)
    (time,) = (staged_times if way.mode in STAGED else step_times)(steps, [way], model)
    paced = at_probed_pace(time, probe, probe_factor(steps, model, probe))
    assert paced.step_s == told.step_s.mid
    parts = parts_of_run(workload, way, model, paced, probe, forward_moved(steps, time, model, probe))
    assert abs(parts.run_s - told.run_s.mid) <= 1e-9 * told.run_s.mid
    return parts
