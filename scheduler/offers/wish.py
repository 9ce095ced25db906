"""What a person fixes of the ways to run a job. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from codegen.modes import can_lose_ranks
from scheduler.estimation.values import Allocation


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What a person fixes; None leaves it to the harness."""

    kind: str | None = None
    model_name: str | None = None
    count: int | None = None
    mode: str | None = None
    stages: int | None = None
    """Of a pipeline, where the spec names them."""
    even: bool = False
    """Whether unlike devices take even shares of a step's rows, and not shares by their speed."""
    whole: bool = False
    """Whether the spec has settings that stages know nothing of: only who wishes pipelines has them."""
    least: int | None = None
    """With so few ranks the run is to go on when others are lost: ranks of mode sync on cores alone can."""

    def __post_init__(self) -> None:
        """Refuse a gang of nothing."""
        if self.count is not None and self.count < 1:
            raise ValueError(f"a job needs at least one device, not {self.count}")
        if self.stages is not None and self.stages < 2:
            raise ValueError(f"one pipeline has at least two stages, not {self.stages}")

    def allows(self, allocation: Allocation) -> bool:
        """Whether the allocation is what the person asked for."""
        pairs = (
            (self.kind, allocation.kind),
            (self.model_name, allocation.model_name),
            (self.count, allocation.count),
            (self.mode, allocation.mode),
        )
        return all(want is None or want == have for want, have in pairs) and self.bears_loss(allocation)

    def bears_loss(self, allocation: Allocation) -> bool:
        """Whether it can lose ranks down to `least`."""
        bears = can_lose_ranks(allocation.kind, allocation.mode)
        return self.least is None or (bears and allocation.count > self.least)

    @property
    def devices(self) -> Wish:
        """Of it what says which devices, however they work together."""
        return replace(self, mode=None, stages=None, least=None)

    @property
    def open(self) -> bool:
        """Any devices will do."""
        return self == Wish(stages=self.stages, even=self.even, whole=self.whole)
