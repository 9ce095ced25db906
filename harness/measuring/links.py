"""The link between the devices of a node: timed once per sweep, kept with the model of their kind."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.utils import timezone

from harness.calibration.models import CalibrationRun, DeviceModelRow
from harness.calibration.shipped import prior_of
from harness.measuring.requests import LINK_RANKS, check_ok
from harness.plain import plain
from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.device_parts import LinkModel
from scheduler.estimation.link import fit_link
from scheduler.estimation.values import Basis


def link_read(report: dict[str, Any]) -> LinkModel:
    """Latency and bandwidth from the timed sums. Raises `ValueError`."""
    check_ok(report)
    try:
        sizes = [float(value) for value in report["sizes_bytes"]]
        return fit_link(sizes, [float(value) for value in report["seconds"]], ranks=LINK_RANKS)
    except (KeyError, TypeError, OverflowError) as error:
        raise ValueError(f"The answer is not a link measurement: {error}") from error


def link_store(run: CalibrationRun, link: LinkModel) -> DeviceModelRow:
    """Keep the link of a sweep; the model is used with it at once, and its next fit starts from it."""
    now = timezone.now()
    prior = prior_of(run.kind, run.model_name).to_dict()
    row, _ = DeviceModelRow.objects.select_for_update().get_or_create(
        kind=run.kind, model_name=run.model_name, defaults={"fitted": prior, "model": prior, "fitted_at": now}
    )
    row.link = {
        "latency_s": link.latency_s,
        "bytes_per_s": link.bytes_per_s,
        "n_points": link.n_points,
        "run": run.pk,
        "node": run.node_name,
        "measured_at": now.isoformat(),
    }
    for field in ("fitted", "model"):
        known = DeviceModel.from_dict(getattr(row, field))
        setattr(row, field, plain(replace(known, link=link, message_link=None).to_dict()))
    row.save()
    return row


def link_of(row: DeviceModelRow) -> LinkModel | None:
    """The link as it was timed; None where it never was."""
    if not row.link:
        return None
    return LinkModel(
        latency_s=float(row.link["latency_s"]),
        bytes_per_s=float(row.link["bytes_per_s"]),
        basis=Basis.MEASURED,
        n_points=int(row.link["n_points"]),
    )
