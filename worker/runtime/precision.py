"""What layers compute in: float32, or the 16 bits that the devices of all ranks are built for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from types import TracebackType

import torch

from worker.runtime.collective import Group, gather_bytes

TYPES = {"float32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
"""By their names in `training.precision`."""
BF16_CAPABILITY = 8
"""Least compute capability (Ampere) of GPUs with units for bfloat16; torch emulates it on older ones."""
FP16_CAPABILITY = (7, 0)
"""Least compute capability (Volta) of GPUs that take float16 faster than float32 where products are added up in
float32, as torch does: P100 takes it at the same speed, others of its time at a fraction of that."""


@dataclass(frozen=True)
class Abilities:
    """What one rank's device is built for."""

    device: str
    """As people know it."""
    kinds: tuple[str, ...]
    """Of `TYPES` those of 16 bits that it takes faster than float32."""


def abilities_of(device: torch.device) -> Abilities:
    """Of a GPU by its compute capability; a processor is built for none."""
    if device.type != "cuda":
        return Abilities("a processor", ())
    capability = torch.cuda.get_device_capability(device)
    bf16 = capability[0] >= BF16_CAPABILITY
    fp16 = capability >= FP16_CAPABILITY
    kinds = tuple(kind for kind, is_fast in (("bf16", bf16), ("fp16", fp16)) if is_fast)
    return Abilities(torch.cuda.get_device_name(device), kinds)


def choose(wanted: str, ranks: Sequence[Abilities]) -> tuple[str, str]:
    """(name in `TYPES`, why) for ranks with these devices: of `auto` bf16 before fp16 before float32, and one for all,
    whose gradients are added up."""

    def without(kind: str) -> str:
        return next((rank.device for rank in ranks if kind not in rank.kinds), "")

    if wanted != "auto":
        slow = without(wanted) if wanted != "float32" else ""
        return wanted, "by the spec" + (f", though {slow} is not built for it" if slow else "")
    if not (lacks_bf16 := without("bf16")):
        return "bf16", f"auto: {ranks[0].device} is built for it"
    if not (lacks_fp16 := without("fp16")):
        return "fp16", f"auto: {lacks_bf16} is not built for bfloat16"
    return "float32", f"auto: {lacks_fp16} is not built for 16 bits"


class Rounding(AbstractContextManager[None]):
    """Within it torch computes in what `training.precision` says, until `exact` is set: then in float32."""

    def __init__(self, device: torch.device, wanted: str = "auto") -> None:
        self.exact = True
        self.name = self.why = ""
        """What was chosen, as torch calls it, and why."""
        self._device, self._wanted = device.type, wanted
        self._own = abilities_of(device)
        self._inside: list[AbstractContextManager[None]] = []
        self._choose([self._own])

    def agree(self, group: Group) -> None:
        """From here on this rank computes in what all of them can."""
        if self._wanted == "auto":
            bodies = gather_bytes(group, json.dumps(asdict(self._own)).encode())
            self._choose([Abilities(told["device"], tuple(told["kinds"])) for told in map(json.loads, bodies)])

    def drive(self, devices: Sequence[torch.device]) -> None:
        """This one process computes on all of these devices, and on each of them in the same."""
        if self._wanted == "auto":
            self._choose([abilities_of(device) for device in devices])

    def _choose(self, ranks: Sequence[Abilities]) -> None:
        kind, self.why = choose(self._wanted, ranks)
        self._type = TYPES[kind]
        self.name, self.exact = str(self._type).removeprefix("torch."), kind == "float32"

    @property
    def needs_scale(self) -> bool:
        """Whether small gradients would become zeros: float16 has 5 bits of exponent, bfloat16 the 8 of float32."""
        return self._type == torch.float16

    @property
    def products(self) -> str:
        """In what products are computed: as `name`, but that GPUs since Ampere round float32 to TF32 for it."""
        may_round = "bf16" in self._own.kinds and torch.get_float32_matmul_precision() != "highest"
        return "tf32" if self.name == "float32" and may_round else self.name

    @property
    def words(self) -> str:
        """For a log: what, and why."""
        return f"{self.name}{' with a loss scale' if self.needs_scale else ''} ({self.why})"

    def be_exact(self) -> None:
        """From here on float32 is float32: on a GPU, too, nothing is rounded to TF32 on its way."""
        self.exact = True
        torch.set_float32_matmul_precision("highest")
        torch.backends.cudnn.allow_tf32 = False

    def anew(self) -> AbstractContextManager[None]:
        """The same for another thread: what is entered here holds for this one alone."""
        return nullcontext() if self.exact else torch.autocast(self._device, self._type)

    def __enter__(self) -> None:
        self._inside.append(self.anew())
        self._inside[-1].__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._inside.pop().__exit__(kind, error, trace)
