"""Calibrations that ship with the harness: read-only files, the prior of devices that nobody here has calibrated.

Of each device two files lie in `FOLDER`: `NAME.points.json.gz`, an export, packed, and `NAME.json`, the model fitted to
those points, with where they come from. `tests/benchmarks/ship_calibration.py` writes the second from the first.
"""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from django.conf import settings

from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.prior import prior_for
from scheduler.estimation.transfer import nearest, transferred

FOLDER = Path(__file__).parent / "measured"
VERSION = 1
POINTS_SUFFIX = ".points.json.gz"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """Where the points of a shipped calibration come from."""

    measured_on: str
    """Day, ISO."""
    software: str
    """What measured, with versions."""
    conditions: str
    """Of the machine while it was measured, as a sentence."""
    points: int
    """All of the file: on one device and on several."""
    sha256: str
    """Of the unpacked file of points."""
    machines: int = 1
    """Of this kind, this one included, on which the programs were timed."""
    middle: float = 1.0
    """How many times as long as here they take on the geometric middle of those machines."""


@dataclass(frozen=True, kw_only=True)
class Shipped:
    """One shipped calibration."""

    provenance: Provenance
    model: DeviceModel = field(repr=False)
    digest: str = ""
    """Of its file: tells it from another of the same device."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"version": VERSION, "provenance": vars(self.provenance), "model": self.model.to_dict()}

    @staticmethod
    def from_dict(body: Any) -> Shipped:
        """Inverse of `to_dict`. Raises `ValueError`."""
        if not isinstance(body, dict) or body.get("version") != VERSION:
            raise ValueError(f"not a shipped calibration of version {VERSION}")
        try:
            return Shipped(provenance=Provenance(**body["provenance"]), model=DeviceModel.from_dict(body["model"]))
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a shipped calibration: {error}") from error


def shipped_list() -> tuple[Shipped, ...]:
    """All of them; none where the setting has them ignored."""
    return _read(FOLDER) if settings.SHIPPED_CALIBRATIONS else ()


@cache
def _read(folder: Path) -> tuple[Shipped, ...]:
    """What the files hold, once per process. One that cannot be read is logged and left out: estimates go on."""
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            body = path.read_bytes()
            digest = hashlib.sha256(body).hexdigest()[:16]
            found.append(replace(Shipped.from_dict(json.loads(body)), digest=digest))
        except (OSError, ValueError) as error:
            _log.warning("the shipped calibration %s is left out: %s", path.name, error)
    return tuple(found)


def shipped_for(kind: str, model_name: str) -> Shipped | None:
    """The one that stands in for a kind of device without a calibration of its own."""
    known = shipped_list()
    model = nearest([one.model for one in known], kind, model_name)
    return next((one for one in known if one.model is model), None)


def prior_of(kind: str, model_name: str) -> DeviceModel:
    """What is assumed before anything was measured: by a shipped calibration, else by the table of devices alone."""
    assumed, source = prior_for(kind, model_name), shipped_for(kind, model_name)
    return transferred(source.model, assumed, source.digest, source.provenance.middle) if source else assumed
