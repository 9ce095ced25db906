"""What is assumed of a kind of device: the figures of its data sheet, and what programs compute in there."""

from __future__ import annotations

import pytest

from scheduler.estimation.device_table import TABLE, DeviceFigures, figures_for
from scheduler.estimation.precision import WANTED, Precision
from scheduler.estimation.prior import dense_flops_per_s
from scheduler.workload import PRECISIONS

GPUS = [figures for figures in TABLE if figures.kind == "cuda"]


@pytest.mark.parametrize(
    ("name", "tflops", "what"),
    [
        ("NVIDIA H200", 989, "bfloat16"),
        ("NVIDIA A100-SXM4-80GB", 312, "bfloat16"),
        ("Tesla V100-SXM2-16GB", 125, "float16"),
        ("Tesla V100-PCIE-32GB", 112, "float16"),
        ("Tesla T4", 65, "float16"),
        ("Tesla P100-PCIE-16GB", 9.3, "float32"),
    ],
)
def test_gpus_count_by_the_best_16_bits_that_they_add_up_in_float32_at_full_speed(
    name: str, tflops: float, what: str
) -> None:
    figures = figures_for("cuda", name)
    assert figures.computes_in("auto") == what and figures.flops_per_s == tflops * 1e12


@pytest.mark.parametrize(
    ("name", "tflops", "what"),
    [
        ("NVIDIA H100 80GB HBM3", 494, "tf32"),
        ("NVIDIA A100-SXM4-80GB", 156, "tf32"),
        ("NVIDIA L4", 60, "tf32"),
        ("Tesla V100-SXM2-16GB", 15.7, "float32"),
        ("Tesla T4", 8.1, "float32"),
        ("Tesla P100-PCIE-16GB", 9.3, "float32"),
    ],
)
def test_float32_means_tf32_since_ampere_and_plain_float32_before(name: str, tflops: float, what: str) -> None:
    figures = figures_for("cuda", name)
    asked = figures.computes_in("float32")
    assert asked == what and figures.speed(asked) == tflops * 1e12


def test_what_a_device_is_not_built_for_is_as_fast_as_float32_or_slower() -> None:
    v100, core = figures_for("cuda", "Tesla V100"), figures_for("cpu", "AMD EPYC")
    assert v100.speed(v100.computes_in("bf16")) == v100.speed(Precision.FLOAT32)
    assert core.computes_in("auto") is Precision.FLOAT32
    assert core.speed(Precision.FLOAT16) < core.speed(Precision.BFLOAT16) == core.speed(Precision.FLOAT32)


@pytest.mark.parametrize("figures", GPUS, ids=lambda figures: figures.pattern or "unknown")
@pytest.mark.parametrize("wanted", ["auto", "bf16", "fp16"])
def test_no_gpu_is_taken_to_be_faster_in_float32_than_in_16_bits(figures: DeviceFigures, wanted: str) -> None:
    speeds = [dense_flops_per_s(figures, figures.computes_in(name)) for name in (wanted, "float32")]
    assert speeds[0] >= speeds[1]


def test_every_precision_of_a_spec_is_known() -> None:
    assert {"auto", *WANTED} == set(PRECISIONS)
