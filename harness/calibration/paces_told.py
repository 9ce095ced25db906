"""How nodes with devices of one name compare, for people to read. Reads only."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Max

from harness.calibration.models import DeviceModelRow
from harness.pool.models import Device
from scheduler.estimation.values import NodePace
from scheduler.kinds import pace_words
from worker.words import counted


@dataclass(frozen=True, kw_only=True)
class PaceTold:
    """Of a node's devices of one kind and name."""

    node: str
    kind: str
    model_name: str
    pace: float
    """With which offers and plans count now."""
    since: datetime | None
    """Since when; None: always."""
    learnt: NodePace | None
    """By which jobs; None: too few of the newest tell."""

    @property
    def factor(self) -> float | None:
        """What jobs took here, relative to elsewhere."""
        return self.learnt.factor if self.learnt else None

    @property
    def low(self) -> float | None:
        """Lower end of its range."""
        return self.learnt.low if self.learnt else None

    @property
    def high(self) -> float | None:
        """Upper end of its range."""
        return self.learnt.high if self.learnt else None

    @property
    def jobs(self) -> int:
        """That tell it."""
        return self.learnt.n_jobs if self.learnt else 0

    @property
    def words(self) -> str:
        """All of it in a sentence, without the node."""
        what = self.model_name or self.kind
        counts = f"offers and plans count it as {pace_words(self.pace)}" if self.pace != 1.0 else ""
        if self.learnt is None:
            return f"{what}: by jobs of before, {counts}."
        told = f"{self.learnt.factor:.2f} times as long as on other nodes with such devices"
        jobs, ends = counted(self.jobs, "finished job"), f"{self.learnt.low:.2f} to {self.learnt.high:.2f}"
        return f"{what}: the newest {jobs} took {told} ({ends}); {counts or 'offers and plans make no difference'}."


def paces_told() -> dict[str, list[PaceTold]]:
    """By node, where anything is to be told; in two queries."""
    models = DeviceModelRow.objects.values_list("kind", "model_name", "model__correction__paces")
    learnt = {(*key, node): NodePace(**told) for *key, paces in models for node, told in (paces or {}).items()}
    rows = Device.objects.values_list("node__name", "kind", "model_name", "pace").annotate(since=Max("paced_at"))
    found: dict[str, list[PaceTold]] = defaultdict(list)
    for node, kind, model_name, pace, since in rows.order_by("node__name", "kind", "model_name", "pace"):
        known = learnt.get((kind, model_name, node))
        if known is not None or pace != 1.0:
            told = PaceTold(node=node, kind=kind, model_name=model_name, pace=pace, since=since, learnt=known)
            found[node].append(told)
    return dict(found)
