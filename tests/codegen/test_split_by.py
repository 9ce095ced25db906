"""Splits by group and by time: what a spec may ask of which data, and programs that are trained so."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from codegen import spec_yaml
from codegen.profile.groups import GROUP_COLUMN
from codegen.profile.time_series import TIME_SERIES
from codegen.profile.types import ColumnType, DatasetProfile, Finding, Severity
from codegen.render import render
from codegen.resolve import resolve
from codegen.spec import TaskSpec
from codegen.types import Resolved, SpecError
from tests.codegen.data_tables import TABULAR, load_table, make_table, table_spec
from tests.codegen.model_profiles import TWO_CORES, column, numbers, pictures, table
from tests.codegen.programs import program_spec
from tests.worker.runtime import samples


def with_columns(*more, suspects: tuple[str, ...] = (), **options) -> DatasetProfile:
    """The usual table and `more` columns, of which the profile suspects some to be groups."""
    profile = table(**options)
    found = tuple(
        Finding(code=GROUP_COLUMN, severity=Severity.INFO, message="", meaning="", column=name) for name in suspects
    )
    return replace(profile, columns=(*more, *profile.columns), warnings=found)


CUSTOMERS = column("customer", ColumnType.CATEGORY, unique=500)
VISITS = with_columns(CUSTOMERS, column("step", ColumnType.IDENTIFIER, unique=5000, examples=("1", "2")))
SUSPECT = with_columns(CUSTOMERS, suspects=("customer",))


def answer(split: str, profile: DatasetProfile = VISITS) -> Resolved:
    return resolve(spec_yaml.load(f"data: {{split: {split}}}" if split else ""), profile, TWO_CORES)


def reasons(resolved: Resolved) -> dict[str, str]:
    return {guess.field: guess.reason for guess in resolved.guesses}


def test_auto_is_random_and_names_what_speaks_for_another_split():
    found = answer("", SUSPECT)
    assert found.spec["data"]["split"]["by"] == "random" and "column" not in found.spec["data"]["split"]
    said = reasons(found)["data.split.by"]
    assert "'customer' belong together, set by: group" in said
    assert "later rows than these, set by: time ('joined' holds dates)" in said
    assert "customer" in found.spec["data"]["features"]


def test_auto_says_so_where_rows_are_a_series_in_time():
    told = Finding(code=TIME_SERIES, severity=Severity.WARNING, message="", meaning="", column="joined")
    said = reasons(answer("", replace(VISITS, warnings=(told,))))["data.split.by"]
    assert "evenly by 'joined': if they are a series, neighbours of test rows are trained on, so set by: time" in said
    assert "later rows" not in said


def test_a_group_column_is_no_input_unless_it_is_listed():
    found = answer("{by: group, column: customer}")
    assert found.spec["data"]["split"] == {
        "validation": 0.15, "test": 0.15, "stratify": True, "by": "group", "column": "customer"
    }  # fmt: skip
    assert "customer" not in found.spec["data"]["features"] and "city" in found.spec["data"]["features"]
    assert "customer" not in found.spec["shape"]["categorical"]
    left_out = [guess for guess in found.guesses if guess.value == "without customer"]
    assert [guess.field for guess in left_out] == ["data.features"]
    text = "data: {features: [customer, age], split: {by: group, column: customer}}"
    assert resolve(spec_yaml.load(text), VISITS, TWO_CORES).spec["data"]["features"] == ["customer", "age"]


def test_a_time_column_stays_an_input_and_classes_are_not_shared_out():
    found = answer("{by: time, column: joined}")
    assert found.spec["data"]["split"]["stratify"] is False
    assert "joined" in found.spec["data"]["features"]
    assert answer("{by: time, column: step}").spec["data"]["split"]["column"] == "step"
    assert answer("{by: time, column: hours}", numbers()).spec["data"]["split"]["by"] == "time"


@pytest.mark.parametrize(
    ("split", "by", "column"),
    [
        ("{by: group}", "group", "customer"),
        ("{by: time}", "time", "joined"),
        ("{column: customer}", "group", "customer"),
        ("{column: joined}", "time", "joined"),
        ("{by: random}", "random", None),
    ],
)
def test_what_is_left_open_follows_from_the_data(split: str, by: str, column: str | None):
    found = answer(split, SUSPECT)
    assert (found.spec["data"]["split"]["by"], found.spec["data"]["split"].get("column")) == (by, column)


GIVEN = with_columns(CUSTOMERS, given_split=(("train", 4000), ("test", 1000)))
LATE = with_columns(column("late", ColumnType.DATE, missing=4))
FEW = with_columns(column("site", ColumnType.CATEGORY, unique=2), column("round", ColumnType.NUMERIC, unique=2))
WRONG = {
    "unknown column": ("{by: group, column: client}", VISITS, "column", "no column 'client'; the columns are"),
    "empty column": ("{by: group, column: ''}", VISITS, "column", "no column ''"),
    "target": ("{by: group, column: income}", VISITS, "column", "'income' is the target"),
    "target in time": ("{by: time, column: income}", VISITS, "column", "'income' is the target"),
    "no suspect": ("{by: group}", VISITS, "column", "name the column whose rows belong together; the columns are"),
    "two suspects": (
        "{by: time}", with_columns(column("seen", ColumnType.DATE)), "column", "name the column with the time: 'seen', "
    ),
    "numbers": ("{column: hours}", VISITS, "by", "'hours' holds numbers: say whether"),
    "random": ("{by: random, column: city}", VISITS, "column", "a random split takes no column"),
    "one group": ("{by: group, column: unit}", VISITS, "column", "all rows are one group of 'unit'"),
    "few groups": ("{by: group, column: site}", FEW, "column", "'site' has 2 groups, but training"),
    "own groups": ("{by: group, column: id}", VISITS, "column", "every row has a 'id' of its own"),
    "no order": ("{by: time, column: city}", VISITS, "column", "'city' is read as category"),
    "words as time": (
        "{by: time, column: code}",
        with_columns(column("code", ColumnType.IDENTIFIER, examples=("a1",))), "column", "read as identifier",
    ),
    "missing dates": ("{by: time, column: late}", LATE, "column", "4 rows have no readable 'late'"),
    "one moment": ("{by: time, column: unit}", VISITS, "column", "'unit' has 1 moment, but training"),
    "few moments": ("{by: time, column: round}", FEW, "column", "'round' has 2 moments, but training"),
    "stratified time": ("{by: time, column: joined, stratify: true}", VISITS, "stratify", "cannot be stratified"),
    "given": ("{by: group, column: customer}", GIVEN, "by", "comes with its own split"),
    "given column": ("{column: customer}", GIVEN, "column", "comes with its own split"),
    "pictures": ("{by: group}", pictures(), "by", "pictures have no columns"),
    "pictures' column": ("{by: time, column: when}", pictures(), "column", "pictures have no columns"),
}  # fmt: skip


@pytest.mark.parametrize(("split", "profile", "field", "message"), WRONG.values(), ids=WRONG)
def test_a_split_that_the_data_do_not_allow_names_field_and_next_step(
    split: str, profile: DatasetProfile, field: str, message: str
):
    with pytest.raises(SpecError) as caught:
        answer(split, profile)
    assert message in dict(caught.value.problems)[f"data.split.{field}"]


def test_rows_without_a_group_count_as_one():
    gaps = with_columns(column("site", ColumnType.CATEGORY, unique=2, missing=9))
    assert answer("{by: group, column: site}", gaps).spec["data"]["split"]["column"] == "site"


def test_dates_that_only_rows_without_a_target_lack_are_left_to_the_program():
    goal = column("income", ColumnType.CATEGORY, unique=2, missing=10, examples=("low",))
    late = with_columns(column("late", ColumnType.DATE, missing=4), target_column=goal)
    assert answer("{by: time, column: late}", late).spec["data"]["split"]["column"] == "late"


def test_a_given_split_and_pictures_say_nothing_of_a_column():
    assert set(answer("", GIVEN).spec["data"]["split"]) == {"validation", "test", "stratify"}
    assert set(answer("{by: random}", GIVEN).spec["data"]["split"]) == {"validation", "test", "stratify"}
    assert set(answer("", pictures()).spec["data"]["split"]) == {"validation", "test", "stratify"}


@pytest.mark.parametrize(
    ("split", "profile", "words"),
    [
        ("{by: group, column: customer}", VISITS, "All rows of one group lie in one part"),
        ("{by: time, column: joined}", VISITS, "The latest rows are the test"),
        ("{by: random}", VISITS, "At random"),
        ("auto", GIVEN, "By the column `__split__`"),
        ("auto", pictures(), "train, val and test folders of the upload are"),
    ],
)
def test_the_program_tells_how_its_rows_are_split(split: str, profile: DatasetProfile, words: str):
    readme = render(answer(split, profile), profile).files["README.md"]
    assert words in readme.split("## How rows are split")[1].split("## What to expect")[0]
    assert "customer" not in readme.split("## Files")[0].replace("customers", "")


@pytest.mark.parametrize("task", ["tabular_classification", "tabular_regression"])
def test_a_random_split_is_that_of_specs_made_before_there_was_another(tmp_path: Path, task: str):
    options: dict[str, Any] = {"task": task, "target": "income" if "class" in task else "price"}
    before = load_table(tmp_path, make_table(), **options)
    spec = json.loads(json.dumps(table_spec(**options)))
    spec["data"]["split"]["by"] = "random"
    after = TABULAR.load(program_spec(spec), tmp_path)
    for part in ("train", "val", "test"):
        assert getattr(before, part).rows.tolist() == getattr(after, part).rows.tolist()
    assert before.split.startswith("At random") and before.split.endswith("60 rows to test.")


def visits(folder: Path, classes: bool) -> DatasetProfile:
    """240 rows of 24 customers over 60 days; what is predicted hangs on one number."""
    generator = np.random.default_rng(0)
    customer = generator.permutation(np.repeat(np.arange(24), 10))
    amount = generator.normal(size=240)
    goal: Any = np.where(amount > 0, "yes", "no").tolist() if classes else amount * 3 + 1
    columns = {
        "customer": [f"c{number}" for number in customer],
        "day": generator.permutation(np.repeat(np.arange(60), 4)),
        "amount": amount,
        "goal": goal,
    }
    return samples.pack_table(folder, columns, "goal")


@pytest.mark.parametrize(("by", "name", "classes"), [("group", "customer", True), ("time", "day", False)])
def test_a_download_trains_alone_on_the_rows_that_the_platform_chooses(
    by: str, name: str, classes: bool, tmp_path: Path
):
    folder = tmp_path / "download"
    profile = visits(folder / "data", classes)
    wish = {"data": {"split": {"validation": 0.2, "test": 0.2, "by": by, "column": name}}, "training": {"epochs": 2}}
    samples.program(folder, profile, alone=True, **wish)
    done = samples.python(folder, "train.py", PYTHONPATH=str(folder))
    assert done.returncode == 0, done.stderr
    results = json.loads((folder / "work" / "results" / "results.json").read_text())
    assert results["split"] and results["split"] in done.stdout
    predicted = pq.read_table(folder / "work" / "results" / "predictions.parquet").to_pydict()
    values = pq.read_table(folder / "data" / "table.parquet")[name].to_pylist()
    of = {part: [values[row] for row, its in zip(*map(predicted.get, ("row", "split")), strict=True) if its == part]
          for part in ("train", "val", "test")}  # fmt: skip
    assert sum(map(len, of.values())) == 240 and len(of["test"]) == pytest.approx(48, abs=8)
    if by == "group":
        assert not set(of["train"]) & set(of["test"]) and not set(of["val"]) & set(of["train"] + of["test"])
    else:
        assert max(of["train"]) < min(of["val"]) and max(of["val"]) < min(of["test"])

    resolved = resolve(TaskSpec.model_validate(wish), profile, samples.HARDWARE)
    here = TABULAR.load(program_spec(resolved.spec), folder / "data")
    chosen = [row for row, part in zip(predicted["row"], predicted["split"], strict=True) if part == "test"]
    assert here.test.rows.tolist() == chosen and here.split == results["split"]
