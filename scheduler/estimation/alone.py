"""What one device tries for a gang, and of which ways its steps tell where nothing else is known of a program. Pure."""

from __future__ import annotations

from codegen.modes import AVERAGED, STAGED
from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.pipelines import staged_times
from scheduler.estimation.steps import Steps
from scheduler.estimation.values import Allocation
from scheduler.kinds import real_name
from scheduler.workload import Workload


def rows_alone(workload: Workload, way: Allocation, model: DeviceModel) -> int:
    """Rows of a step that one device tries for a gang: those of its largest rank; where each rank holds a stage, those
    of a micro-batch, which pass the whole model."""
    if way.mode in STAGED:
        return staged_times(Steps(workload), [way], model)[0].micro_rows
    return max(way.batch_split)


def tells_of(seen: Allocation, way: Allocation, workload: Workload) -> bool:
    """Whether steps on `seen` tell of `way` where nothing but these steps is known of the program: it is the same, or
    ranks on such devices have as many rows each, and what they add up is known. A device that was declared slow makes
    them at its own pace, too."""
    models = {(each.kind, real_name(each.model_name)[0]) for each in (way, seen)}
    like = len(models) == 1 and not way.parts
    if not like or max(way.batch_split) != max(seen.batch_split):
        return False
    is_same = (way.mode, way.count) == (seen.mode, seen.count) and (way.threads == seen.threads or way.kind != "cpu")
    return is_same or (way.mode in AVERAGED and seen.count == 1 and workload.gradient_bytes > 0)
