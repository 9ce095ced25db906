"""Pictures of what the pool's devices did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from harness.jobs.timelines import Bucket
from harness.jobs.use_rows import UseRow
from harness.jobs.use_timeline import UseSeries
from harness.jobs.windows import KWH_J, Window, bases_sum, basis_of
from harness.pages.charts import chart_card
from harness.pages.figures import figure
from scheduler.offers.words import energy_words

ROWS_DRAWN = 20
SERIES_DRAWN = 8
"""As many as there are colours."""
NARROW_SERIES = 4
"""More have a card of the whole width: names and columns of figures fit there."""
SMALL_KWH = 0.1


@dataclass(frozen=True, kw_only=True)
class EnergyUnit:
    """In what energies of a table, and the CO2 of them, are told."""

    energy: str
    mass: str
    per_kwh: float
    """How many of the unit a kWh is; of its mass, a kg."""


SMALL, LARGE = EnergyUnit(energy="Wh", mass="g", per_kwh=1000.0), EnergyUnit(energy="kWh", mass="kg", per_kwh=1.0)
_KIND_WORDS = {"cpu": "CPU cores", "cuda": "GPUs"}


def use_charts(
    buckets: Sequence[Bucket],
    rows: Sequence[UseRow],
    series: Sequence[UseSeries],
    span: str,
    by: str,
    *,
    co2_g_per_kwh: float,
    idle: Sequence[UseSeries] = (),
) -> list[dict[str, Any]]:
    """Utilisation and power of the pool over time; work and energy of what is asked for, over time and in all."""
    kinds = list(dict.fromkeys(bucket.device_kind for bucket in buckets))
    words = [_KIND_WORDS.get(kind, kind) for kind in kinds]
    at = {(bucket.starts_at, bucket.device_kind): bucket for bucket in buckets}
    moments = list(dict.fromkeys(bucket.starts_at for bucket in buckets))
    shares = [[m, *(100 * at[m, kind].utilisation for kind in kinds)] for m in moments]
    power = [_power_row(m, [at[m, kind] for kind in kinds], co2_g_per_kwh) for m in moments]
    timeline_csv = f"/api/v1/pool/timeline.csv?span={span}"
    unit = energy_unit(rows)
    lines = use_lines(rows[:ROWS_DRAWN], co2_g_per_kwh, unit)
    return [
        chart_card(
            "utilisation", "Utilisation", "timeline", ["from", *words], shares, csv=timeline_csv, unit="%", top=100,
            note="Share of the devices that worked for jobs, of those of today's nodes while they were up.",
        ),
        chart_card(
            "power", "Power", "timeline", ["from", "working", "idle", "CO₂ (g/h)", "basis"], power, csv=timeline_csv,
            unit="W", stacked=True, lines=2, bases=[basis_of(_busy_bases(buckets)), basis_of(_idle_bases(buckets))],
            note="Working: read from the devices where they tell, else by the watts of such a device and the load that "
            "was measured. Idle: by the meter of the device where its node reads one, else by the table of watts; of "
            "today's nodes while they were up.",
        ),
        *_series_charts(series, moments, unit, span, by),
        *([_idle_chart(idle, moments, unit, span)] if idle else []),
        _energy_chart(lines, unit, span, by),
    ]  # fmt: skip


def _energy_chart(lines: Sequence[dict[str, Any]], unit: EnergyUnit, span: str, by: str) -> dict[str, Any]:
    """In all; of a device with what it drew idle beside it."""
    columns = [by, unit.energy, f"CO₂ ({unit.mass})", "basis"]
    rows = [[line["row"].name, line["energy"], line["co2"], line["row"].basis] for line in lines]
    note = "Only of devices while they worked for a job: what they draw idle is nobody's."
    if by == "device":
        columns += [f"idle {unit.energy}", f"idle CO₂ ({unit.mass})", "basis of idle", f"together {unit.energy}"]
        idle = ([line["idle"], line["idle_co2"], line["row"].idle_basis, line["together"]] for line in lines)
        rows = [row + more for row, more in zip(rows, idle, strict=True)]
        note = "While they worked for a job; beside it what they drew idle."
    csv = f"/api/v1/pool/use.csv?span={span}&by={by}"
    return chart_card("energy", f"Energy by {by}", "bars", columns, rows, csv=csv, note=note, wide=by == "device")


def _idle_chart(idle: Sequence[UseSeries], moments: Sequence[datetime], unit: EnergyUnit, span: str) -> dict[str, Any]:
    rows = [[m, *(one.kwh[number] * unit.per_kwh for one in idle)] for number, m in enumerate(moments)]
    return chart_card(
        "idle-over-time", "Idle energy by device over time", "timeline", ["from", *(one.name for one in idle)], rows,
        csv=f"/api/v1/pool/use/timeline.csv?span={span}&by=device", unit=unit.energy, stacked=True,
        wide=len(idle) > NARROW_SERIES, bases=[one.basis for one in idle],
        note="While a device was there and nobody held it, by its meter or else the table of watts; of no job, person "
        "or project.",
    )  # fmt: skip


def _busy_bases(buckets: Sequence[Bucket]) -> dict[str, float]:
    """Joules of devices at work, by basis."""
    return bases_sum(bucket.busy_bases for bucket in buckets)


def _idle_bases(buckets: Sequence[Bucket]) -> dict[str, float]:
    """The same of those that nobody held."""
    return bases_sum(bucket.idle_bases for bucket in buckets)


def _power_row(moment: datetime, kinds: Sequence[Bucket], co2_g_per_kwh: float) -> list[Any]:
    """The whole pool over one stretch: W working and idle, CO2 in g per hour, where most of the figure comes from."""
    busy_w, idle_w = sum(bucket.busy_w for bucket in kinds), sum(bucket.idle_w for bucket in kinds)
    bases = bases_sum(bucket.bases for bucket in kinds)
    return [moment, busy_w, idle_w, (busy_w + idle_w) / 1000 * co2_g_per_kwh, basis_of(bases)]


def _series_charts(
    series: Sequence[UseSeries], moments: Sequence[datetime], unit: EnergyUnit, span: str, by: str
) -> list[dict[str, Any]]:
    csv = f"/api/v1/pool/use/timeline.csv?span={span}&by={by}"
    columns = ["from", *(one.name for one in series)]
    at, wide = list(enumerate(moments)) if series else [], len(series) > NARROW_SERIES
    work = [[m, *(one.devices[number] for one in series)] for number, m in at]
    energy = [[m, *(one.kwh[number] * unit.per_kwh for one in series)] for number, m in at]
    return [
        chart_card(
            "work-over-time", f"Devices at work by {by}", "timeline", columns, work, csv=csv, unit="devices",
            stacked=True, wide=wide, note=f"On average, those with most energy; the CSV has every {by}.",
        ),
        chart_card(
            "energy-over-time", f"Energy by {by} over time", "timeline", columns, energy, csv=csv, unit=unit.energy,
            stacked=True, wide=wide, bases=[one.basis for one in series],
            note="In each stretch of time, of devices while they worked. The CSV has the CO₂, too.",
        ),
    ]  # fmt: skip


def energy_unit(rows: Sequence[UseRow]) -> EnergyUnit:
    """Such that the largest, which comes first, is no small fraction."""
    return SMALL if not rows or rows[0].together_kwh < SMALL_KWH else LARGE


def use_lines(rows: Sequence[UseRow], co2_g_per_kwh: float, unit: EnergyUnit | None = None) -> list[dict[str, Any]]:
    """The rows with their energy and CO2 in the unit of all of them, where none is given."""
    unit = unit or energy_unit(rows)
    co2 = unit.per_kwh * co2_g_per_kwh / 1000
    return [
        {
            "row": row,
            "energy": row.kwh * unit.per_kwh,
            "co2": row.kwh * co2,
            "idle": row.idle_kwh * unit.per_kwh,
            "idle_co2": row.idle_kwh * co2,
            "together": row.together_kwh * unit.per_kwh,
            "together_co2": row.together_kwh * co2,
        }
        for row in rows
    ]


def bases_words(bases: Mapping[str, float]) -> str:
    """`measured`, or the share of each: `measured 83 %, assumed 17 %`."""
    there = sorted(((joules, basis) for basis, joules in bases.items() if joules > 0), reverse=True)
    if len(there) < 2:
        return "".join(basis for _, basis in there)
    whole = sum(joules for joules, _ in there)
    return ", ".join(f"{basis} {_share_words(joules / whole)}" for joules, basis in there)


def _share_words(share: float) -> str:
    percent = round(100 * share)
    return "under 1 %" if percent < 1 else "over 99 %" if percent > 99 else f"{percent} %"


def mass_words(mass_kg: float) -> str:
    """`0.342 g`, `3.6 kg`: three digits."""
    return f"{figure(mass_kg, 3)} kg" if mass_kg >= 1 else f"{figure(mass_kg * 1000, 3)} g"


def use_totals(buckets: Sequence[Bucket], window: Window, co2_g_per_kwh: float) -> dict[str, Any]:
    """Energy of the whole window, working and idle, in words, and how much of the time devices worked."""
    busy_kwh = sum(bucket.busy_w for bucket in buckets) * window.bucket_s / KWH_J
    idle_kwh = sum(bucket.idle_w for bucket in buckets) * window.bucket_s / KWH_J
    present = sum(bucket.present for bucket in buckets)
    together_j = (busy_kwh + idle_kwh) * KWH_J
    busy_bases, idle_bases = _busy_bases(buckets), _idle_bases(buckets)
    return {
        "busy": energy_words(busy_kwh * KWH_J, beside_j=together_j),
        "busy_basis": bases_words(busy_bases),
        "idle": energy_words(idle_kwh * KWH_J, beside_j=together_j),
        "idle_basis": bases_words(idle_bases),
        "together": energy_words(together_j),
        "basis": bases_words(bases_sum([busy_bases, idle_bases])),
        "co2": mass_words((busy_kwh + idle_kwh) * co2_g_per_kwh / 1000),
        "utilisation": sum(bucket.busy for bucket in buckets) / present if present else 0.0,
    }
