"""What the figures of an estimate rest on, in words."""

from __future__ import annotations

from codegen.modes import STAGED
from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.device_parts import POOL_TABLE, Correction
from scheduler.estimation.probe import Probe
from scheduler.estimation.values import Allocation, Basis
from scheduler.workload import Workload
from worker.words import counted, duration_words

NAMED_S = 1.0
"""Learning words is named in an estimate from here on."""


def note(model: DeviceModel, allocation: Allocation, probe: Probe | None, workload: Workload) -> str:
    """What the figures rest on, in words."""
    said = []
    if probe is not None:
        where = _where(model, allocation, probe)
        power = ", with the power read meanwhile" if probe.power_w is not None else ""
        steps = (
            "the steps of the run so far"
            if probe.own_run
            else f"{counted(len(probe.step_s), 'real step')} of this program"
        )
        said.append(f"{steps} {where}{power}")
    if model.n_points:
        said.append(f"{model.n_points} calibration points of {model.model_name}")
    if model.transferred is not None:
        whose = f"a calibration of {model.transferred.model_name} that ships with the harness"
        wide = f"{whose}, so the range is wide: calibrate to measure yours"
        said.append(f"{whose}, corrected by these" if model.n_points else wide)
    elif not model.n_points and model.basis is Basis.ASSUMED:
        said.append(f"nothing measured on {model.model_name} yet: manufacturer's figures, so the range is wide")
    said += [] if probe is not None else _precision_words(model)
    said += _job_words(model.correction)
    if model.stages.n_jobs and allocation.mode in STAGED:
        said.append(f"{counted(model.stages.n_jobs, 'finished run')} in stages")
    if model.power.basis is Basis.ASSUMED and (probe is None or probe.power_w is None):
        said.append(f"power from {POOL_TABLE if model.power.source == POOL_TABLE else 'a data sheet'}")
    if model.slowdown > 1.0:
        said.append(f"emulated: steps are stretched to {model.slowdown:g} times their length, as an admin declared")
    if model.overheads.slow_starts:
        node = max(model.overheads.slow_starts, key=model.overheads.slow_starts.__getitem__)
        slowest = f"{model.overheads.slowest_start:.1f}"
        said.append(f"a start takes {slowest} times as long on {node}: the range allows for it")
    said += _pace_words(model)
    if (probe is None or probe.load_row_s is None) and workload.load_s:
        said.append(f"its start by the {duration_words(workload.load_s)} that its code took to load when it was read")
    said += _learning_words(model, workload)
    if len(allocation.batch_split) > 1:
        said += _link_words(model, allocation) + _meeting_words(model)
    return "; ".join(said)


def _learning_words(model: DeviceModel, workload: Workload) -> list[str]:
    if workload.words_s < NAMED_S:
        return []
    known = model.overheads
    by = f", corrected by {counted(known.n_words, 'finished run')}" if known.n_words else ""
    took = duration_words(workload.words_s * known.words_times)
    return [f"in its start {took} in which the words of texts are learned, modelled{by}"]


def _job_words(correction: Correction) -> list[str]:
    own, other = correction.n_jobs, correction.n_other
    if not other:
        return [counted(own, "finished job")] if own else []
    both = f"{counted(own, 'finished job')} and {other}" if own else counted(other, "finished job")
    return [f"{both} in another precision"]


def _precision_words(model: DeviceModel) -> list[str]:
    if model.moved is None:
        return []
    return [
        f"steps in {model.precision} modelled from another precision, {model.moved.precision}, so the range is wider"
    ]


def _where(model: DeviceModel, allocation: Allocation, probe: Probe) -> str:
    if probe.allocation == allocation:
        return "on this very allocation"
    if not probe.is_alone or len(allocation.batch_split) == 1:
        return "on another allocation"
    link = model.stages_link if allocation.mode in STAGED else model.sums_link
    told = "assumed" if link.basis is Basis.ASSUMED else "modelled"
    cut = "its stages modelled, " if allocation.mode in STAGED else ""
    one = "on one device" if probe.allocation.count == 1 else "in one process"
    return f"{one} measured, {cut}messages {told}"


def _pace_words(model: DeviceModel) -> list[str]:
    """Of the nodes at either end of the range."""
    there = {node: pace for node, pace in model.paces.items() if pace.takes_work}
    return [
        f"steps take {pace.factor:.1f} times as long on {node} as on other nodes with such devices, as "
        f"{counted(pace.n_jobs, 'finished job')} showed: the range allows for it"
        for node, pace in sorted(there.items())
        if pace.factor in model.pace_range
    ]


def _link_words(model: DeviceModel, allocation: Allocation) -> list[str]:
    if model.host_link is not None and allocation.mode not in STAGED:
        return [f"gradients are added up through the memory of the hosts ({model.host_why}), over an assumed link"]
    where = "the network" if model.nodes_link is None else "the network between the nodes"
    link = model.stages_link if allocation.mode in STAGED else model.ranks_link
    if link.basis is Basis.ASSUMED:
        return [f"{where} is assumed, not measured"]
    return [] if model.nodes_link is None else [f"{where} is measured"]


def _meeting_words(model: DeviceModel) -> list[str]:
    if model.nodes_link is None or model.overheads.n_met:
        return []
    return ["how long its nodes take to meet at the start is assumed"]
