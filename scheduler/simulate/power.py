"""Watts of the devices of a replay: by a table that somebody gives or a history carries, else by data sheets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scheduler.estimation.device_table import figures_for
from scheduler.estimation.power_table import ENTRIES_MAX, power_table_fault
from scheduler.estimation.values import Basis
from scheduler.simulate.models import is_named
from scheduler.simulate.trace_rows import TraceError, json_of, read_text

_SHAPES = (
    "expected what `dlh pool power --json` or `dlh pool settings --json` prints, or "
    '{"A100": {"idle_w": 55, "busy_w": 400, "basis": "measured"}}'
)


@dataclass(frozen=True, kw_only=True)
class Power:
    """Power of one device."""

    idle_w: float
    busy_w: float
    """While a job holds it."""
    basis: Basis = Basis.ASSUMED
    idle_basis: Basis = Basis.ASSUMED
    source: str = ""

    @property
    def basis_words(self) -> str:
        """Of both: in one word where they rest on the same."""
        return self.basis if self.idle_basis is self.basis else f"{self.basis}, idle {self.idle_basis}"

    @property
    def held_basis(self) -> Basis:
        """Of what a job draws: watts that other programs were measured to draw are a model of it."""
        return Basis.MODELLED if self.basis is Basis.MEASURED else self.basis


@dataclass(frozen=True, kw_only=True)
class _Entry:
    name: str
    """Of a model, or a kind."""
    kind: str
    """Empty: not told."""
    power: Power


@dataclass(frozen=True)
class PowerTable:
    """Watts by model or kind of device, before those of data sheets."""

    entries: tuple[_Entry, ...] = ()

    @staticmethod
    def read(path: Path) -> PowerTable:
        """A table in JSON. Raises `TraceError`."""
        return PowerTable.of(json_of(path.name, read_text(path)), path.name)

    @staticmethod
    def of(body: Any, where: str) -> PowerTable:
        """From plain values: by name, as the setting `power_table`; or a list of kind, model and watts, as
        `GET /pool/power`. Raises `TraceError` that begins with `where`."""
        if isinstance(body, Mapping):
            body = body.get("power_table", body.get("items", body))
        if isinstance(body, Mapping):
            entries = [_entry(name, "", entry, where) for name, entry in body.items()]
        elif isinstance(body, list) and all(isinstance(item, Mapping) for item in body):
            entries = [
                _entry(str(item.get("model") or item.get("kind") or ""), str(item.get("kind") or ""), item, where)
                for item in body
            ]
        else:
            raise TraceError(f"{where}: {_SHAPES}")
        if len(entries) > ENTRIES_MAX:
            raise TraceError(f"{where}: {len(entries):,} entries; at most {ENTRIES_MAX} are read")
        keys = [(entry.kind, entry.name.casefold()) for entry in entries]
        if twice := sorted({name for kind, name in keys if keys.count((kind, name)) > 1}):
            raise TraceError(f"{where}: {', '.join(twice)} is there twice")
        return PowerTable(tuple(entries))

    def power(self, kind: str, model: str, *, named: bool) -> Power:
        """Of one device: of its model where one is named, of its kind, of the only model of the kind that there is, of
        the one that is taken for granted; else by data sheets. Raises `ValueError` where a name may mean several.
        """
        of_kind = [entry for entry in self.entries if entry.kind in {"", kind}]
        if named and (found := self._of_model(model, of_kind)):
            return found.power
        if found := next((entry for entry in of_kind if entry.name == kind), None):
            return found.power
        if not named:
            only = [entry for entry in of_kind if entry.kind == kind]
            alike = [entry for entry in of_kind if is_named(entry.name, model)]
            if found := next((entries[0] for entries in (only, alike) if len(entries) == 1), None):
                return found.power
        figures = figures_for(kind, model)
        return Power(idle_w=figures.idle_w, busy_w=figures.busy_w, source=figures.source)

    def tells(self, power: Power) -> bool:
        """Whether these watts are of the table, and of no data sheet."""
        return any(entry.power == power for entry in self.entries)

    def _of_model(self, model: str, entries: Sequence[_Entry]) -> _Entry | None:
        exact = [entry for entry in entries if entry.name.casefold() == model.casefold()]
        found = exact or [entry for entry in entries if is_named(entry.name, model)]
        if len(found) > 1:
            names = " or ".join(entry.name for entry in found)
            raise ValueError(f"{model} may mean {names} of the table of watts: write it out in --pool")
        return found[0] if found else None


SHIPPED = PowerTable()
"""Data sheets alone."""


def _entry(name: Any, kind: str, body: Any, where: str) -> _Entry:
    if fault := power_table_fault({name: body}, more=("basis", "idle_basis", "source", "kind", "model")):
        raise TraceError(f"{where}: {fault.rstrip('.')}; {_SHAPES}")
    basis = body.get("basis", Basis.ASSUMED)
    try:
        held, idle = Basis(basis), Basis(body.get("idle_basis", basis))
    except ValueError:
        raise TraceError(f"{where}: The basis of {name!r} is none of {', '.join(Basis)}") from None
    source = f"{where}, {name}" + (f": {body['source']}" if body.get("source") else "")
    idle_w, busy_w = float(body["idle_w"]), float(body["busy_w"])
    power = Power(idle_w=idle_w, busy_w=busy_w, basis=held, idle_basis=idle, source=source)
    return _Entry(name=str(name), kind=kind, power=power)
