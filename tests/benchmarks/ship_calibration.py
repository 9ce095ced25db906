"""What a calibration says of programs, and devices, that it has not seen, beside data sheets alone; and shipping it.

    python -m tests.benchmarks.ship_calibration POINTS.json
    python -m tests.benchmarks.ship_calibration POINTS.json --by OTHER.points.json.gz
    python -m tests.benchmarks.ship_calibration POINTS.json --ship --measured-on DAY --software WORDS --conditions WORDS

POINTS.json, packed or not, is an export of `dlh pool calibration export` with points of one kind of device.
Architectures are held out in five folds; each is foretold as on a device that nobody has calibrated: by the points of
the others as a shipped calibration, and by the table of devices alone. What another device is like is not known from
one, so the same is told of devices that take evenly FACTOR times as long. `--by` foretells all of them by another
device's points. `--ship` writes both files into `harness/calibration/measured`.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.calibration.shipped import FOLDER, POINTS_SUFFIX, Provenance, Shipped
from harness.plain import plain
from scheduler.estimation.calibration import CalibrationPoint, from_json
from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.estimate import estimate
from scheduler.estimation.fit import fit_device_model, folds_of
from scheduler.estimation.prior import prior_for
from scheduler.estimation.transfer import transferred
from scheduler.estimation.values import Allocation, Interval

FOLDS = 5
FACTORS = (0.25, 0.4, 0.5, 0.7, 1.0, 1.4, 2.0, 2.5, 4.0)
WAYS = ("shipped", "data sheets")


@dataclass(frozen=True)
class HeldOut:
    """One held-out point, and what was foretold of it."""

    point: CalibrationPoint
    step_s: dict[str, Interval]
    peak_bytes: dict[str, Interval]


def held_out(points: Sequence[CalibrationPoint], middle: float) -> list[HeldOut]:
    """Every point on one device, foretold without its architecture as the middle of the machines measured."""
    folds = folds_of([point.architecture for point in points], FOLDS)
    found = []
    for fold in range(FOLDS):
        known = [point for point, number in zip(points, folds, strict=True) if number != fold]
        unknown = [point for point, number in zip(points, folds, strict=True) if number == fold]
        found += foretold_by(known, unknown, middle)
    return found


def foretold_by(
    known: Sequence[CalibrationPoint], unknown: Sequence[CalibrationPoint], middle: float = 1.0
) -> list[HeldOut]:
    """What points on one device say of those on another, or the same."""
    sheets = prior_for(unknown[0].kind, unknown[0].model_name)
    models = dict(zip(WAYS, (transferred(fit_device_model(known), sheets, middle=middle), sheets), strict=True))
    return [_foretold(point, models) for point in unknown if point.count == 1 and point.threads == 1]


def read(path: Path) -> str:
    """Points as text, packed or not."""
    return (gzip.decompress if path.suffix == ".gz" else bytes)(path.read_bytes()).decode()


def _foretold(point: CalibrationPoint, models: dict[str, DeviceModel]) -> HeldOut:
    alone = Allocation(
        kind=point.kind, model_name=point.model_name, count=1, mode="single", batch_split=(point.batch_size,)
    )
    told = {way: estimate(point.workload, alone, model) for way, model in models.items()}
    steps, peaks = ({way: getattr(one, name) for way, one in told.items()} for name in ("step_s", "peak_bytes"))
    return HeldOut(point, steps, peaks)


def told_of(foretold: Sequence[Interval], facts: Sequence[float]) -> dict[str, float]:
    """How far off (as a factor, typical and 90th percentile), the share inside the range, and how wide that is."""
    logs = np.abs(np.log([one.mid / fact for one, fact in zip(foretold, facts, strict=True)]))
    held = [one.low <= fact <= one.high for one, fact in zip(foretold, facts, strict=True)]
    return {
        "off": math.exp(logs.mean()),
        "off_p90": math.exp(np.quantile(logs, 0.9)),
        "held": float(np.mean(held)),
        "width": math.exp(np.mean([math.log(one.high / one.low) for one in foretold])),
    }


def compared(found: Sequence[HeldOut]) -> dict[str, dict[str, dict[str, float]]]:
    """By what is foretold, then by way."""
    rows = {}
    for factor in FACTORS:
        facts = [one.point.typical_s * factor for one in found]
        rows[f"step, device {factor:g} x as slow"] = {
            way: told_of([one.step_s[way] for one in found], facts) for way in WAYS
        }
    peaks = [one for one in found if one.point.peak_bytes > 0]
    rows["peak memory"] = {
        way: told_of([one.peak_bytes[way] for one in peaks], [one.point.peak_bytes for one in peaks]) for way in WAYS
    }
    return rows


def show(rows: dict[str, dict[str, dict[str, float]]]) -> None:
    """As a table."""
    for name, ways in rows.items():
        for way, told in ways.items():
            print(
                f"{name:26} {way:12} off by a factor of {told['off']:5.2f} (90th percentile {told['off_p90']:5.2f}), "
                f"80 % range holds {told['held']:6.1%}, high / low {told['width']:5.1f}"
            )


def ship(text: str, points: Sequence[CalibrationPoint], chosen: argparse.Namespace) -> Path:
    """Write the points as they are, and the model fitted to them with where they come from."""
    name = re.sub(r"[^a-z0-9]+", "-", points[0].model_name.lower()).strip("-")
    provenance = Provenance(
        measured_on=chosen.measured_on,
        software=chosen.software,
        conditions=chosen.conditions,
        points=len(points),
        sha256=hashlib.sha256(text.encode()).hexdigest(),
        machines=chosen.machines,
        middle=chosen.middle,
    )
    shipped = Shipped(provenance=provenance, model=fit_device_model(points))
    (FOLDER / f"{name}{POINTS_SUFFIX}").write_bytes(gzip.compress(text.encode(), mtime=0))
    target = FOLDER / f"{name}.json"
    target.write_text(json.dumps(plain(shipped.to_dict())) + "\n", encoding="utf-8")
    return target


def main() -> None:
    """Compare, print, and ship where asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("points", type=Path)
    parser.add_argument("--ship", action="store_true")
    for name in ("--measured-on", "--software", "--conditions"):
        parser.add_argument(name, default="")
    parser.add_argument("--by", type=Path, help="points of another device that foretell these")
    parser.add_argument("--machines", type=int, default=1, help="of this kind that were timed")
    parser.add_argument("--middle", type=float, default=1.0, help="times this one's steps on the middle of them")
    chosen = parser.parse_args()
    if chosen.ship and not (chosen.measured_on and chosen.software and chosen.conditions):
        parser.error("what ships says when, with what and under which conditions it was measured")
    text = read(chosen.points)
    points = from_json(text)
    others = from_json(read(chosen.by)) if chosen.by else []
    found = foretold_by(others, points) if others else held_out(points, chosen.middle)
    how = f"foretold by {len(others)} of {others[0].model_name}" if others else "foretold held out"
    print(f"{len(points)} points of {points[0].model_name}, {len(found)} of them on one device, {how}")
    rows = compared(found)
    show(rows)
    if chosen.ship:
        print(f"written: {ship(text, points, chosen)}")
    print(json.dumps({"benchmark": "ship_calibration", "points": len(points), "rows": rows}))


if __name__ == "__main__":
    main()
