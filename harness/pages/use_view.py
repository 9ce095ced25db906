"""Pictures of what the pool's devices did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.jobs.timelines import KWH_J, Bucket, UseRow, Window
from harness.pages.charts import chart_card

ROWS_DRAWN = 20
_KIND_WORDS = {"cpu": "CPU cores", "cuda": "GPUs"}


def use_charts(buckets: Sequence[Bucket], rows: Sequence[UseRow], span: str, by: str) -> list[dict[str, Any]]:
    """Utilisation and power over time, energy by what is asked for."""
    kinds = list(dict.fromkeys(bucket.device_kind for bucket in buckets))
    words = [_KIND_WORDS.get(kind, kind) for kind in kinds]
    at = {(bucket.starts_at, bucket.device_kind): bucket for bucket in buckets}
    moments = list(dict.fromkeys(bucket.starts_at for bucket in buckets))
    shares = [[m.isoformat(), *(100 * at[m, kind].utilisation for kind in kinds)] for m in moments]
    power = [
        [m.isoformat(), sum(at[m, kind].busy_w for kind in kinds), sum(at[m, kind].idle_w for kind in kinds)]
        for m in moments
    ]
    timeline_csv = f"/api/v1/pool/timeline.csv?span={span}"
    energy = [[row.name, row.kwh] for row in rows[:ROWS_DRAWN]]
    return [
        chart_card(
            "utilisation", "Utilisation", "timeline", ["from", *words], shares, csv=timeline_csv, unit="%", top=100,
            note="Share of the devices that worked for jobs. Numbers of devices are those of today's nodes.",
        ),
        chart_card(
            "power", "Power", "timeline", ["from", "working", "idle"], power, csv=timeline_csv, unit="W", stacked=True,
            note="Read from the devices where they tell; else by the table of watts and the load that was measured.",
        ),
        chart_card(
            "energy", f"Energy by {by}", "bars", [by, "kWh"], energy, csv=f"/api/v1/pool/use.csv?span={span}&by={by}",
            note="Only of devices while they worked for a job.",
        ),
    ]  # fmt: skip


def use_totals(buckets: Sequence[Bucket], window: Window, co2_g_per_kwh: float) -> dict[str, float]:
    """Energy of the whole window, working and idle, and how much of the time devices worked."""
    busy_kwh = sum(bucket.busy_w for bucket in buckets) * window.bucket_s / KWH_J
    idle_kwh = sum(bucket.idle_w for bucket in buckets) * window.bucket_s / KWH_J
    devices = sum(bucket.devices for bucket in buckets)
    return {
        "busy_kwh": busy_kwh,
        "idle_kwh": idle_kwh,
        "co2_kg": (busy_kwh + idle_kwh) * co2_g_per_kwh / 1000,
        "utilisation": sum(bucket.busy for bucket in buckets) / devices if devices else 0.0,
    }
