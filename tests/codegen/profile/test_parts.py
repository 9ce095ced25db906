"""What the spec says of inputs and classes is what data.py makes of the packed rows."""

from __future__ import annotations

from datetime import datetime, timedelta

import polars as pl
import pytest

from codegen.profile.parts import Parts
from codegen.profile.types import ColumnType, DatasetProfile
from codegen.resolve import resolve
from codegen.spec import TaskSpec
from codegen.suggest import suggest
from tests.codegen.model_profiles import TWO_CORES
from tests.codegen.profile.uploads import Lab
from tests.codegen.programs import module
from worker.runtime.spec import as_spec

ROWS = 120
START = datetime(2023, 11, 6, 13, 30)


def upload() -> str:
    """Plain dates, weekly ones at one time of the day with gaps, times of one day; texts of one length, of one word."""
    lines = ["plain;weekly;moment;code;word;x;bought"]
    for row in range(ROWS):
        weekly = "" if row % 9 == 0 else f"{START + timedelta(days=7 * (row % 100)):%d.%m.%Y %H:%M}"
        moment = START + timedelta(minutes=row % 90)
        plain = START + timedelta(days=row % 100)
        said = "-".join(f"{row * prime % 41:06d}" for prime in (3, 5, 7, 11, 13, 17))
        text = f"{'ab cd'[row % 4 :]:_>5} {said}"
        word = f"{'w' * (45 + row % 50)}-{said}"
        answer = "nein" if row % 3 else "ja"
        lines.append(f"{plain:%Y-%m-%d};{weekly};{moment:%Y-%m-%d %H:%M};{text};{word};{row % 7};{answer}")
    return "\n".join(lines) + "\n"


@pytest.fixture
def profile(lab: Lab) -> DatasetProfile:
    kinds = {"code": ColumnType.TEXT, "word": ColumnType.TEXT, "x": ColumnType.NUMERIC}
    return lab.profile("a.csv", upload(), column_types=kinds, target="bought")


def test_what_is_the_same_in_every_row_of_a_date_or_text_is_noted(profile: DatasetProfile) -> None:
    assert {column.name: column.same_parts for column in profile.columns if column.same_parts} == {
        "plain": ("hour",),
        "weekly": ("weekday", "hour"),
        "moment": ("year", "month", "weekday"),
        "code": ("characters",),
        "word": ("words",),
    }
    assert DatasetProfile.from_dict(profile.to_dict()) == profile
    earlier = profile.to_dict()
    for column in earlier["columns"]:
        del column["same_parts"]
    assert DatasetProfile.from_dict(earlier).columns[0].same_parts == ()


def test_the_spec_names_the_inputs_and_classes_of_the_run_in_its_order(profile: DatasetProfile, lab: Lab) -> None:
    spec = as_spec(resolve(TaskSpec(), profile, TWO_CORES).spec)
    dataset = module("data_tabular.py").load(spec, lab.out)
    assert spec.shape.features == dataset.shape["features"]
    assert spec.shape.classes == dataset.classes == ["ja", "nein"]


def test_the_parameters_of_a_card_are_those_of_the_run(profile: DatasetProfile, lab: Lab) -> None:
    card = next(card for card in suggest(TaskSpec(), profile, TWO_CORES) if card.family == "mlp")
    spec = as_spec(resolve(TaskSpec.model_validate({"model": {"family": "mlp"}}), profile, TWO_CORES).spec)
    dataset = module("data_tabular.py").load(spec, lab.out)
    net = module("models/mlp.py").build(spec.with_shape(dataset.shape))
    assert card.parameters == sum(weight.numel() for weight in net.parameters())


def test_parts_are_compared_over_all_batches() -> None:
    parts = Parts(ColumnType.DATE)
    parts.add(pl.Series([datetime(2024, 1, 1)]))
    assert parts.same == ("days", "year", "month", "weekday", "hour")
    parts.add(pl.Series([datetime(2024, 2, 5)] * 2))
    assert parts.same == ("year", "weekday", "hour")
    assert Parts(ColumnType.CATEGORY).same == Parts(ColumnType.NUMERIC).same == ()
