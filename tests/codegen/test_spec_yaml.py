"""Specs as YAML: round trip, and errors that name field and line."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any, get_args, get_origin

import pytest
from pydantic import BaseModel

from codegen import safe_yaml, spec_yaml
from codegen.spec import TaskSpec
from codegen.spec_values import Part
from codegen.types import SpecError


def problems(text: str) -> dict[str, str]:
    with pytest.raises(SpecError) as caught:
        spec_yaml.load(text)
    return dict(caught.value.problems)


def test_the_empty_text_is_a_spec_that_leaves_everything_open():
    assert spec_yaml.load("") == TaskSpec()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "name: 'a: b # c'",
        "data: {split: {validation: 0.1, test: 0.2, stratify: false}, exclude: [id, 'x: y']}",
        "model: {family: cnn, params: {filters: 8, kernel: 5, dropout: 0.5, note: text, flag: true}}",
        "training: {epochs: 3, learning_rate: 0.001, augment: shift, ema: 0.9}",
        "budget: {deadline: 2030-01-01T10:00:00Z, time_s: 60}",
    ],
)
def test_what_is_dumped_loads_equal(text):
    spec = spec_yaml.load(text)
    assert spec_yaml.load(spec_yaml.dump(spec)) == spec


def test_the_dump_explains_every_training_field():
    text = spec_yaml.dump(TaskSpec())
    for name, field in type(TaskSpec().training).model_fields.items():
        assert f"  {name}: auto" in text
        assert field.description in text


def test_a_misspelt_field_is_named_with_its_line_and_a_hint():
    found = problems("task: auto\ntraining:\n  epoch: 3\n")
    assert found == {"training.epoch": "line 3: unknown field; did you mean `epochs`?"}


def test_a_name_that_is_too_long_is_refused_with_the_most_it_may_have():
    found = problems(f"name: {'x' * 300}\n")
    assert found == {"name": "line 1: must have at most 120 characters, not 300"}


def test_every_close_field_is_suggested_the_closest_first():
    assert problems("modle: mlp\n")["modle"] == "line 1: unknown field; did you mean `mode` or `model`?"


@pytest.mark.parametrize(
    ("text", "field", "meant"),
    [
        ("epochs: 5\n", "epochs", "`training.epochs`"),
        ("epoch: 5\n", "epoch", "`training.epochs`"),
        ("resources: {deadline: 2030-01-01}\n", "resources.deadline", "`budget.deadline`"),
        ("training: {family: mlp}\n", "training.family", "`model.family`"),
        ("model: {mode: sync}\n", "model.mode", "`mode`"),
    ],
)
def test_a_field_that_stands_in_the_wrong_part_is_told_where_it_belongs(text: str, field: str, meant: str) -> None:
    assert problems(text) == {field: f"line 1: unknown field; did you mean {meant}?"}


def test_a_finish_time_without_a_zone_is_taken_for_utc_and_a_wrong_one_is_told_by_example():
    spec = spec_yaml.load("budget: {deadline: 2030-01-31T18:00:00}")
    assert spec == spec_yaml.load("budget: {deadline: 2030-01-31T19:00:00+01:00}")
    assert "deadline: '2030-01-31T18:00:00Z'" in spec_yaml.dump(spec)
    message = problems("budget: {deadline: soon}")["budget.deadline"]
    examples = "such as 2030-01-31 or 2030-01-31T18:00:00Z"
    assert message.startswith(f"line 1: must be a date with or without a time, {examples}, not 'soon'")


@pytest.mark.parametrize("day", ["2030-01-31", "'2030-01-31'", "'20300131'"])
def test_a_day_alone_is_a_finish_time_at_its_end(day):
    wished = spec_yaml.load(f"budget: {{deadline: {day}}}").budget.deadline
    assert wished == datetime(2030, 1, 31, 23, 59, 59, tzinfo=UTC)


@pytest.mark.parametrize("number", ["2030", "'2030'", "1.5", "1900000000", "'1e9'"])
def test_a_number_is_no_finish_time_as_if_it_counted_seconds_since_1970(number):
    assert "not a number" in problems(f"budget: {{deadline: {number}}}")["budget.deadline"]


@pytest.mark.parametrize("word", [".inf", ".nan", "'nan'", "'inf'", "true"])
def test_what_is_no_time_and_no_number_to_who_wrote_it_is_not_called_one(word):
    told = problems(f"budget: {{deadline: {word}}}")["budget.deadline"]
    assert "must be a time" in told and "not a number" not in told


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+05:00", "9999-12-31T23:59:00-05:00"])
def test_a_time_whose_year_is_none_in_utc_is_refused(moment):
    assert "in UTC as well" in problems(f"budget: {{deadline: '{moment}'}}")["budget.deadline"]


def test_a_wrong_type_names_line_value_and_the_way_out():
    message = problems("training:\n  epochs: many\n")["training.epochs"]
    assert message.startswith("line 2: must be a whole number")
    assert "'many'" in message
    assert "`auto`" in message


def test_an_impossible_split_says_which_shares():
    message = problems("data:\n  split: {validation: 0.6, test: 0.5}\n")["data.split"]
    assert "line 2" in message
    assert "0.6" in message
    assert "0.5" in message


def test_a_wrong_field_inside_a_split_is_found():
    assert "did you mean `test`" in problems("data:\n  split: {tests: 0.1}\n")["data.split.tests"]


def test_a_list_as_a_knob_names_the_knob():
    assert "line 3" in problems("model:\n  params:\n    filters: [1]\n")["model.params.filters"]


def test_a_field_given_twice_is_refused():
    assert problems("task: auto\ntask: auto\n") == {"task": "line 2: given twice, first in line 1; keep one"}


def test_broken_yaml_names_the_line():
    assert problems("task: auto\ndata: [\n")[""].startswith("line")


@pytest.mark.parametrize(
    ("written", "read"), [("2020", "2020"), ("2020-01-31", "2020-01-31"), ("1.5", "1.5"), ("yes", "True")]
)
def test_the_name_of_a_column_that_yaml_reads_as_a_value_is_told_to_be_put_in_quotes(written, read):
    told = f"line 1: must be a text, not {read}; in quotes it is one (or `auto`)"
    assert problems(f"data: {{target: {written}}}") == {"data.target": told}
    assert spec_yaml.load(f"data: {{target: '{written}'}}").data.target == written


def test_a_day_that_does_not_exist_is_told_with_its_line():
    with pytest.raises(ValueError, match=r"^day .*month") as told:  # in words that differ by Python's version
        date(2030, 2, 30)
    assert problems("task: auto\nbudget:\n  deadline: 2030-02-30\n") == {
        "": f"line 3: not YAML: 2030-02-30: {told.value}"
    }


def test_a_list_instead_of_a_mapping_is_refused():
    assert "mapping" in problems("- task\n")[""]


def test_all_mistakes_come_at_once():
    found = problems("tsk: 1\ntraining: {epochs: 0, batch_size: x}\n")
    assert set(found) == {"tsk", "training.epochs", "training.batch_size"}


def test_a_python_object_tag_is_not_followed():
    assert "not YAML" in problems("task: !!python/object/apply:os.system ['true']\n")[""]


def test_an_overlong_text_is_refused():
    assert "characters" in problems("#" * 300_000)[""]


@pytest.mark.parametrize(
    ("text", "field", "words"),
    [
        ("training: {epochs: 99999999999999999999}", "training.epochs", "less than or equal to 10000000"),
        ("training: {learning_rate: .inf}", "training.learning_rate", "a finite number"),
        ("training: {learning_rate: yes}", "training.learning_rate", "must be a number, not true"),
        ("training: {learning_rate: 1e30}", "training.learning_rate", "line 1: must be less than or equal to 100"),
        ("training: {epochs: true}", "training.epochs", "must be a number, not true"),
        ("training: {seed: on}", "training.seed", "must be a number, not true"),
        ("training: {patience: yes}", "training.patience", "must be a number, not true"),
        ("training: {warmup: no}", "training.warmup", "must be a number, not false"),
        ("data: {split: {test: off}}", "data.split.test", "must be a number, not false"),
        ("model: {params: {width: .nan}}", "model.params.width", "must be a number"),
        ('name: "a\\0b"', "name", "NUL"),
        ('data: {exclude: ["a\\0b"]}', "data.exclude", "NUL"),
    ],
)
def test_what_no_database_can_hold_is_refused_by_field(text, field, words):
    assert words in problems(text)[field]


def number_fields(part: type[BaseModel], above: str = "") -> Iterator[str]:
    """Dotted names of all fields that take a number and no `true`."""
    for name, field in part.model_fields.items():
        kinds = [kind for kind in (field.annotation, *get_args(field.annotation)) if kind is not None]
        kinds += [get_args(kind)[0] for kind in kinds if get_args(kind)]
        inner = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Part)]
        if inner:
            yield from number_fields(inner[0], f"{above}{name}.")
        elif get_origin(field.annotation) is not dict and bool not in kinds and (int in kinds or float in kinds):
            yield f"{above}{name}"


def test_no_field_takes_true_or_false_for_a_number():
    fields = list(number_fields(TaskSpec))
    assert {"training.epochs", "training.seed", "data.split.test", "pipeline.stages"} <= set(fields)
    for field in fields:
        for flag in ("true", "no"):
            text = flag
            for name in reversed(field.split(".")):
                text = f"{{{name}: {text}}}"
            assert "must be a number, not" in problems(text)[field], field


def test_a_mistake_inside_a_part_is_told_once():
    assert set(problems("data: {split: {validation: 2}}")) == {"data.split.validation"}


def test_a_word_for_a_part_asks_for_fields():
    assert "a mapping of fields" in problems("data: {split: nonsense}")["data.split"]


def test_a_few_lines_cannot_stand_for_more_values_than_memory_holds() -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    lines += [f"{chr(98 + step)}: &{chr(98 + step)} [{', '.join(['*' + chr(97 + step)] * 9)}]" for step in range(8)]
    with pytest.raises(SpecError, match=r"line 2: .*write them out"):
        spec_yaml.load("\n".join(lines))


@pytest.mark.parametrize("text", ["a: &a [*a]", "base: &base {x: 1}\ntraining:\n  <<: *base"])
def test_a_name_for_values_elsewhere_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(SpecError, match=rf"line {text.count(chr(10)) + 1}: .*\*(a|base) stands for"):
        spec_yaml.load(text)


def test_a_long_name_is_not_kept_for_each_value_below_it() -> None:
    lines: dict[str, int] = {}
    node = safe_yaml.compose(f"training: {{epochs: 1}}\n? {'n' * 50_000}\n: {{a: 1, b: 2}}\n")
    spec_yaml._find_lines(node, "", lines, [])
    assert lines == {"training": 1, "training.epochs": 1}


def test_values_that_lie_too_deep_are_refused() -> None:
    body: dict[str, Any] = {}
    inner = body
    for _ in range(5000):
        inner["a"] = inner = {}
    with pytest.raises(SpecError, match="too deep"):
        spec_yaml.from_dict(body)


def test_an_unknown_family_is_told_beside_what_the_schema_refuses() -> None:
    assert set(problems("resources: {count: 0}\nmodel:\n  family: resnext")) == {"resources.count", "model.family"}
    alone = problems("model:\n  family: resnext")["model.family"]
    assert alone.startswith("line 2: 'resnext' is unknown; choose one of mlp, ")


def test_a_model_of_device_in_the_field_of_kinds_is_told_where_it_belongs():
    with pytest.raises(SpecError, match=r"not .A100.; models of device go into resources\.device_model"):
        spec_yaml.load("resources: {device: A100}")


@pytest.mark.parametrize(
    "name", ["no", "on", "Yes", "1:30", "010", "2030-01-31", "1_0", "~", "=", "<<", "a\x85b", "null"]
)
def test_a_column_whose_name_yaml_would_take_for_something_else_is_written_so_that_it_is_read_again(name: str) -> None:
    spec = TaskSpec.model_validate({"data": {"target": name, "exclude": [name]}})
    assert spec_yaml.load(spec_yaml.dump(spec)) == spec
