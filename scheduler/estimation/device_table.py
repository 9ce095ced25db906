"""Figures of devices from their makers' data sheets: what is assumed of a kind of device before it is measured.

Editable: pass another table to `figures_for`. CPU figures are of ONE core, since a core is what a job is given.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

IDLE_USUAL = "; idle power: usual readings of nvidia-smi, not from the data sheet"
"""Of a GPU."""


@dataclass(frozen=True, kw_only=True)
class DeviceFigures:
    """What one kind of device is assumed to do and to draw."""

    kind: str
    pattern: str
    """Regular expression found in the name that the maker gives it, ignoring case."""
    flops_per_s: float
    """Of matrix products in the precision that training uses there: bfloat16 on GPUs since Ampere, float16 on Volta and
    Turing, else float32."""
    bytes_per_s: float
    """Memory bandwidth."""
    idle_w: float
    busy_w: float
    """Board power of a GPU; share of a core in the processor's thermal design power."""
    source: str
    generation: str = ""
    """Of a GPU's chip: a calibration of one stands in for others of it. Empty: not known."""


def _gpu(
    pattern: str, tflops: float, gb_per_s: float, watts: tuple[float, float], source: str, generation: str = ""
) -> DeviceFigures:
    idle_w, busy_w = watts
    return DeviceFigures(
        kind="cuda",
        pattern=pattern,
        generation=generation,
        flops_per_s=tflops * 1e12,
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
        flops_per_s=gflops * 1e9,
        bytes_per_s=gb_per_s * 1e9,
        idle_w=idle_w,
        busy_w=busy_w,
        source=source,
    )


TABLE: tuple[DeviceFigures, ...] = (
    _gpu(r"H200", 989, 4800, (75, 700), "NVIDIA H200 data sheet (SXM, dense bfloat16)", "Hopper"),
    _gpu(r"H100.*PCIe", 756, 2000, (50, 350), "NVIDIA H100 data sheet (PCIe, dense bfloat16)", "Hopper"),
    _gpu(r"H100", 989, 3350, (70, 700), "NVIDIA H100 data sheet (SXM, dense bfloat16)", "Hopper"),
    _gpu(r"A100.*PCIe", 312, 1935, (45, 300), "NVIDIA A100 data sheet (PCIe 80 GB)", "Ampere, A100"),
    _gpu(r"A100", 312, 2039, (55, 400), "NVIDIA A100 data sheet (SXM 80 GB)", "Ampere, A100"),
    _gpu(r"L40S", 362, 864, (35, 350), "NVIDIA L40S data sheet (dense bfloat16)", "Ada"),
    _gpu(r"\bL4\b", 121, 300, (16, 72), "NVIDIA L4 data sheet (dense bfloat16)", "Ada"),
    _gpu(r"\bA10\b", 125, 600, (20, 150), "NVIDIA A10 data sheet (dense bfloat16)", "Ampere"),
    _gpu(r"V100.*PCIe", 112, 900, (35, 250), "NVIDIA V100 data sheet (PCIe, float16)", "Volta"),
    _gpu(r"V100", 125, 900, (40, 300), "NVIDIA V100 data sheet (SXM2, float16)", "Volta"),
    _gpu(r"\bT4\b", 65, 320, (10, 70), "NVIDIA T4 data sheet (float16)", "Turing"),
    # torch adds up products of float16 in float32, which the P100 does at the speed of float32
    _gpu(r"P100", 9.3, 732, (30, 250), "NVIDIA P100 data sheet (PCIe, float32)", "Pascal"),
    _gpu(
        r"RTX 4090", 165, 1008, (20, 450), "NVIDIA Ada architecture paper (dense bfloat16, float32 accumulation)", "Ada"
    ),
    _gpu(r"RTX 3090", 71, 936, (20, 350), "NVIDIA Ampere GA102 architecture paper (dense bfloat16)", "Ampere"),
    _core(r"EPYC", 70, 10, (1.0, 4.4), "AMD EPYC 7742 data sheet: 225 W over 64 cores; speed: 2.25 GHz x 32 FLOPs"),
    _core(r"Xeon", 120, 10, (2.0, 7.5), "Intel Xeon Gold 6248 data sheet: 150 W over 20 cores; 2 AVX-512 units"),
    _core(r"Apple M", 100, 40, (0.2, 5.0), "Apple M1 as measured by AnandTech (2020): about 5 W a performance core"),
    _core(r"", 60, 10, (1.5, 8.0), "a usual core: AVX2 at 3 GHz gives 96 GFLOP/s at best; 65 W over 8 cores"),
    _gpu(r"", 30, 400, (20, 200), "a usual GPU: nothing is known of this one"),
)
"""The first that fits counts."""


def figures_for(kind: str, model_name: str, table: Sequence[DeviceFigures] = TABLE) -> DeviceFigures:
    """Figures of a kind of device. Raises `ValueError` for a kind that the table has nothing of."""
    for figures in table:
        if figures.kind == kind and re.search(figures.pattern, model_name, re.IGNORECASE):
            return figures
    raise ValueError(f"no figures of device kind {kind!r} in the table")
