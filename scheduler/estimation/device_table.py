"""Figures of devices from their makers' data sheets: what is assumed of a kind of device before it is measured.

Editable: pass another table to `figures_for`. CPU figures are of ONE core, since a core is what a job is given.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.estimation.precision import AUTO, BEST_FIRST, WANTED, Precision

Speeds = Mapping[Precision, float]
FLOAT16_ON_CORES = 8.0
"""How many times as long as in float32 products take there: steps of five programs took 2 to 17 times as long
on an AMD EPYC (torch 2.13, oneDNN). In bfloat16, which that core is built for, as others are not, 0.3 to 1 times."""

IDLE_USUAL = "; idle power: usual readings of nvidia-smi, not from the data sheet"
"""Of a GPU."""


@dataclass(frozen=True, kw_only=True)
class DeviceFigures:
    """What one kind of device is assumed to do and to draw."""

    kind: str
    pattern: str
    """Regular expression found in the name that the maker gives it, ignoring case."""
    speeds: Speeds
    """FLOPs per second of matrix products in each precision that it is built for, added up in float32."""
    emulated: Speeds = field(default_factory=dict)
    """In those that it is not built for and that take longer than float32."""
    bytes_per_s: float
    """Memory bandwidth."""
    idle_w: float
    busy_w: float
    """Board power of a GPU; share of a core in the processor's thermal design power."""
    source: str
    generation: str = ""
    """Of a GPU's chip: a calibration of one stands in for others of it. Empty: not known."""

    def computes_in(self, wanted: str) -> Precision:
        """What becomes there of a `training.precision`, as a run on such devices alone takes it."""
        if wanted == AUTO:
            return next(precision for name in BEST_FIRST if (precision := WANTED[name]) in self.speeds)
        asked = WANTED[wanted]
        return Precision.TF32 if asked is Precision.FLOAT32 and Precision.TF32 in self.speeds else asked

    def speed(self, precision: Precision) -> float:
        """FLOPs per second of matrix products; of what nothing is told it computes as fast as float32."""
        return {**self.emulated, **self.speeds}.get(precision, self.speeds[Precision.FLOAT32])

    @property
    def flops_per_s(self) -> float:
        """In what programs compute there that ask for nothing else."""
        return self.speed(self.computes_in(AUTO))


def _since_ampere(bits16: float, tf32: float, float32: float) -> Speeds:
    """TFLOP/s of dense products."""
    return {
        Precision.BFLOAT16: bits16 * 1e12,
        Precision.FLOAT16: bits16 * 1e12,
        Precision.TF32: tf32 * 1e12,
        Precision.FLOAT32: float32 * 1e12,
    }


def _before_ampere(float16: float, float32: float) -> Speeds:
    """TFLOP/s of a GPU with units for float16 alone."""
    return {Precision.FLOAT16: float16 * 1e12, Precision.FLOAT32: float32 * 1e12}


def _gpu(
    pattern: str, speeds: Speeds, gb_per_s: float, watts: tuple[float, float], source: str, generation: str = ""
) -> DeviceFigures:
    idle_w, busy_w = watts
    return DeviceFigures(
        kind="cuda",
        pattern=pattern,
        generation=generation,
        speeds=speeds,
        bytes_per_s=gb_per_s * 1e9,
        idle_w=idle_w,
        busy_w=busy_w,
        source=source + IDLE_USUAL,
    )


def _core(pattern: str, gflops: float, gb_per_s: float, watts: tuple[float, float], source: str) -> DeviceFigures:
    idle_w, busy_w = watts
    return DeviceFigures(
        kind="cpu",
        pattern=pattern,
        speeds={Precision.FLOAT32: gflops * 1e9},
        emulated={Precision.FLOAT16: gflops * 1e9 / FLOAT16_ON_CORES},
        bytes_per_s=gb_per_s * 1e9,
        idle_w=idle_w,
        busy_w=busy_w,
        source=source,
    )


_HOPPER = _since_ampere(989, 494, 67)
_A100 = _since_ampere(312, 156, 19.5)
_PAPER = "NVIDIA {} architecture paper (dense, float32 accumulation)"
TABLE: tuple[DeviceFigures, ...] = (
    # sheets that tell of sparse products alone (H100, H200, L4, L40S) tell twice as much: here are dense ones
    _gpu(r"H200", _HOPPER, 4800, (75, 700), "NVIDIA H200 data sheet (SXM, dense)", "Hopper"),
    _gpu(r"H100.*PCIe", _since_ampere(756, 378, 51), 2000, (50, 350), "NVIDIA H100 data sheet (PCIe, dense)", "Hopper"),
    _gpu(r"H100", _HOPPER, 3350, (70, 700), "NVIDIA H100 data sheet (SXM, dense)", "Hopper"),
    _gpu(r"A100.*PCIe", _A100, 1935, (45, 300), "NVIDIA A100 data sheet (PCIe 80 GB)", "Ampere, A100"),
    _gpu(r"A100", _A100, 2039, (55, 400), "NVIDIA A100 data sheet (SXM 80 GB)", "Ampere, A100"),
    _gpu(r"L40S", _since_ampere(362, 183, 91.6), 864, (35, 350), "NVIDIA L40S data sheet (dense)", "Ada"),
    _gpu(r"\bL4\b", _since_ampere(121, 60, 30.3), 300, (16, 72), "NVIDIA L4 data sheet (dense)", "Ada"),
    _gpu(r"\bA10\b", _since_ampere(125, 62.5, 31.2), 600, (20, 150), "NVIDIA A10 data sheet (dense)", "Ampere"),
    _gpu(r"V100.*PCIe", _before_ampere(112, 14), 900, (35, 250), "NVIDIA V100 data sheet (PCIe)", "Volta"),
    _gpu(r"V100", _before_ampere(125, 15.7), 900, (40, 300), "NVIDIA V100 data sheet (SXM2)", "Volta"),
    _gpu(r"\bT4\b", _before_ampere(65, 8.1), 320, (10, 70), "NVIDIA T4 data sheet", "Turing"),
    # torch adds up products of float16 in float32, which the P100 does at the speed of float32
    _gpu(r"P100", {Precision.FLOAT32: 9.3e12}, 732, (30, 250), "NVIDIA P100 data sheet (PCIe, float32)", "Pascal"),
    _gpu(r"RTX 4090", _since_ampere(165, 82.6, 82.6), 1008, (20, 450), _PAPER.format("Ada"), "Ada"),
    _gpu(r"RTX 3090", _since_ampere(71, 35.6, 35.6), 936, (20, 350), _PAPER.format("Ampere GA102"), "Ampere"),
    _core(r"EPYC", 70, 10, (1.0, 4.4), "AMD EPYC 7742 data sheet: 225 W over 64 cores; speed: 2.25 GHz x 32 FLOPs"),
    _core(r"Xeon", 120, 10, (2.0, 7.5), "Intel Xeon Gold 6248 data sheet: 150 W over 20 cores; 2 AVX-512 units"),
    _core(r"Apple M", 100, 40, (0.2, 5.0), "Apple M1 as measured by AnandTech (2020): about 5 W a performance core"),
    _core(r"", 60, 10, (1.5, 8.0), "a usual core: AVX2 at 3 GHz gives 96 GFLOP/s at best; 65 W over 8 cores"),
    _gpu(r"", _since_ampere(30, 15, 15), 400, (20, 200), "a usual GPU: nothing is known of this one"),
)
"""The first that fits counts."""


def figures_for(kind: str, model_name: str, table: Sequence[DeviceFigures] = TABLE) -> DeviceFigures:
    """Figures of a kind of device. Raises `ValueError` for a kind that the table has nothing of."""
    for figures in table:
        if figures.kind == kind and re.search(figures.pattern, model_name, re.IGNORECASE):
            return figures
    raise ValueError(f"no figures of device kind {kind!r} in the table")
