"""Points go out and come back; what no measurement gives is refused by its row."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.estimation.calibration import (
    CalibrationError,
    CalibrationPoint,
    from_csv,
    from_json,
    noise_of,
    to_csv,
    to_json,
)
from tests.scheduler.made_workloads import point, points, workload

seconds = st.floats(min_value=1e-6, max_value=1e4)


@settings(max_examples=25, deadline=None)
@given(
    step_s=st.lists(seconds, min_size=1, max_size=4),
    power_w=st.none() | st.floats(min_value=0, max_value=1e3),
    params=st.dictionaries(st.text(max_size=8), st.integers() | st.text(max_size=8) | st.booleans(), max_size=4),
    family=st.text(max_size=12),
)
def test_points_come_back_from_both_formats(step_s, power_w, params, family) -> None:
    made = point(workload(layers=2), power_w=power_w, params=params, family=family.replace("\0", ""))
    made = CalibrationPoint(**{**vars(made), "step_s": tuple(step_s)})
    for write, read in ((to_json, from_json), (to_csv, from_csv)):
        (back,) = read(write([made]))
        assert write([back]) == write([made])
        assert (back.step_s, back.power_w, back.params, back.family) == (made.step_s, power_w, params, made.family)
        assert sorted(map(repr, back.workload.operators)) == sorted(map(repr, made.workload.operators))


@pytest.mark.parametrize(
    "change",
    [
        {"step_s": [0.1, math.nan]},
        {"step_s": [-0.1]},
        {"step_s": [0.0]},
        {"step_s": []},
        {"step_s": [math.inf]},
        {"peak_bytes": math.nan},
        {"power_w": -1.0},
        {"count": 0},
        {"batch_size": 0},
        {"model_name": ""},
        {"noise": -0.1},
        {"peak_bytes": 1e300},
        {"batch_size": math.inf},
        {"batch_size": 10**30},
        {"step_s": [10**400]},
    ],
)
def test_a_bad_row_is_refused_by_its_number_and_nothing_is_taken(change) -> None:
    rows = [made.to_dict() for made in points(3)]
    rows[1] |= change
    with pytest.raises(CalibrationError, match=r"^row 2: ") as refused:
        from_json(json.dumps({"version": 1, "points": rows}))
    assert refused.value.row == 2


@pytest.mark.parametrize("rows", ["5", "null", '{"1": 2}', "[" * 100_000])
def test_points_that_are_no_list_are_refused(rows) -> None:
    with pytest.raises(CalibrationError):
        from_json(f'{{"version": 1, "points": {rows}}}')


def test_a_workload_with_nan_is_refused_by_its_row() -> None:
    text = to_json(points(2))
    broken = json.loads(text)
    broken["points"][0]["workload"]["operators"][0]["flops"] = math.nan
    with pytest.raises(CalibrationError, match="row 1"):
        from_json(json.dumps(broken))


@pytest.mark.parametrize(("row", "found"), [("cpu,core", 2), ("x," * 15, 16)])
def test_a_row_of_a_csv_with_too_few_or_too_many_fields_says_so(row, found) -> None:
    header, first, *_ = to_csv(points(3)).splitlines()
    count = len(header.split(","))
    filled = row if found < count else row + "x"
    with pytest.raises(CalibrationError, match=rf"^row 2: it has {found} fields, the header {count}$"):
        from_csv("\n".join([header, first, filled]))


def test_blank_cells_after_those_of_the_header_do_not_count() -> None:
    text = to_csv(points(3))
    header, *rows = text.splitlines()
    assert from_csv("\n".join([header, *(f"{row},," for row in rows)])) == from_csv(text)


def test_a_bad_row_of_a_csv_is_refused_by_its_number() -> None:
    lines = to_csv(points(2))
    header, rest = lines.split("\r\n", 1)
    with pytest.raises(CalibrationError, match="row 1"):
        from_csv(header + "\r\n" + rest.replace('"', "", 3))
    with pytest.raises(CalibrationError, match="columns are missing: workload") as refused:
        from_csv(header.replace(",workload", "") + "\r\n")
    assert refused.value.row is None
    with pytest.raises(CalibrationError, match=r"^not CSV: ") as refused:
        from_csv('"point_id" and more\r\n')
    assert refused.value.row is None


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    for read in (from_csv, from_json):
        try:
            read(text)
        except CalibrationError as error:
            assert str(error)


def test_batch_sizes_of_one_architecture_are_held_out_together() -> None:
    first, second = point(workload(batch=8), number=1), point(workload(batch=64), number=1)
    assert first.architecture == second.architecture != point(workload(), number=2).architecture


def test_the_noise_is_that_of_the_points_that_were_visited_more_than_once() -> None:
    spreads = [0.0, 0.1, 0.0, 0.0, 0.03, 0.0, 0.05]
    made = [CalibrationPoint(**{**vars(one), "noise": spread}) for one, spread in zip(points(7), spreads, strict=True)]
    assert noise_of(made) == 0.05
    assert noise_of(made[:1]) == noise_of([]) == 0.0
