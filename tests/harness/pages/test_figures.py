"""Numbers of a column are written one way."""

from __future__ import annotations

from typing import Any

import pytest

from harness.pages.figures import column_figures


@pytest.mark.parametrize(
    ("values", "written"),
    [
        ([272712426.0, 1729454372.0], ["272,712,426", "1,729,454,372"]),
        ([272712426.0, 1694233861.5371], ["272,712,426.0000", "1,694,233,861.5371"]),
        ([272712426.123456, 1694233861.53712], ["272,712,426", "1,694,233,862"]),
        ([214.04, 1729454372.0, None, "none"], ["214.04", "1,729,454,372.00", None, "none"]),
        ([0.98765432, 0.0512345678], ["0.98765", "0.05123"]),
        ([0.99996, 0.5], ["0.99996", "0.50000"]),
        ([12.3456789, 0.9999961], ["12.345679", "0.999996"]),
        ([12.3456789, -0.7], ["12.3457", "-0.7000"]),
        ([1e-6, 2.5e-7], ["1.0000e-06", "2.5000e-07"]),
        ([0.0, 0.0], ["0", "0"]),
        ([12345678901234567, 5, True], ["12,345,678,901,234,567", "5", True]),
        ([1.5e15, 3.0], ["1.5000e+15", "3.0000e+00"]),
        ([float("nan"), 0.5], [pytest.approx(float("nan"), nan_ok=True), "0.5"]),
        ([], []),
    ],
)
def test_a_column_has_one_way_to_write_numbers(values: list[Any], written: list[Any]) -> None:
    assert column_figures(values) == written
