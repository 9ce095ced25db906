"""What is assumed of a kind of device: the figure of its data sheet for what programs compute in there."""

from __future__ import annotations

import pytest

from scheduler.estimation.device_table import figures_for


@pytest.mark.parametrize(
    ("name", "tflops", "what"),
    [
        ("NVIDIA A100-SXM4-80GB", 312, "A100"),
        ("Tesla V100-SXM2-16GB", 125, "float16"),
        ("Tesla V100-PCIE-32GB", 112, "float16"),
        ("Tesla T4", 65, "float16"),
        ("Tesla P100-PCIE-16GB", 9.3, "float32"),
    ],
)
def test_older_gpus_count_by_float16_where_sums_in_float32_cost_nothing(name: str, tflops: float, what: str) -> None:
    figures = figures_for("cuda", name)
    assert figures.flops_per_s == tflops * 1e12
    assert what in figures.source
