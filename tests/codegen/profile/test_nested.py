"""Objects in JSON lines and structs in Parquet become columns of dotted names; lists are left out and named."""

from __future__ import annotations

import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from codegen.profile import nested, read_rows
from codegen.profile.types import ColumnType
from tests.codegen.profile.uploads import Lab, finding


def row(number: int) -> dict[str, Any]:
    return {
        "id": 7 * number,
        "address": {
            "city": ("Rome", "Oslo")[number % 2],
            "at": {"lat": number / 4, "lon": None if number == 3 else 1.5},
        },
        "tags": ["a"] * (number % 3),
        "label": "xyx"[number % 3],
    }


ROWS = [row(number) for number in range(40)]
NAMES = ["id", "address.city", "address.at.lat", "address.at.lon", "label"]


def lines(rows: list[Any]) -> str:
    return "".join(f"{json.dumps(one)}\n" for one in rows)


def parquet(table: pa.Table) -> bytes:
    target = io.BytesIO()
    pq.write_table(table, target)
    return target.getvalue()


@pytest.mark.parametrize(
    ("name", "body"), [("a.jsonl", lines(ROWS)), ("a.parquet", parquet(pa.Table.from_pylist(ROWS)))]
)
def test_objects_become_columns_of_dotted_names(lab: Lab, name: str, body: bytes | str) -> None:
    profile = lab.profile(name, body, target="label")
    assert [column.name for column in profile.columns] == NAMES
    kinds = {column.name: column.type for column in profile.columns}
    assert kinds["address.city"] is ColumnType.CATEGORY and kinds["address.at.lat"] is ColumnType.NUMERIC
    assert lab.table()["address.at.lat"].to_pylist() == [number / 4 for number in range(40)]
    assert lab.table()["address.at.lon"].null_count == 1
    assert "3 columns: 'address.city', 'address.at.lat'" in finding(profile, "nested_fields").message
    assert read_rows(lab.out, 1, 1)[1][0][1] == "Oslo"


def test_lists_are_left_out_and_named_with_their_line(lab: Lab) -> None:
    found = finding(lab.profile("a.jsonl", lines(ROWS)), "nested_values")
    assert found.message.startswith("'tags' holds lists") and found.rows == (1,)
    assert "how long it is" in found.meaning


def test_lists_and_lists_in_structs_are_left_out_of_parquet(lab: Lab) -> None:
    table = pa.Table.from_pylist([{**one, "in": {"list": [1, 2], "x": at}} for at, one in enumerate(ROWS)])
    profile = lab.profile("a.parquet", parquet(table))
    assert "'tags' (list<" in finding(profile, "unsupported_columns").message
    assert "'in.list' (list<" in finding(profile, "unsupported_columns").message
    assert profile.column("in.x") and not profile.column("in.list")


def test_a_field_that_is_an_object_here_and_a_value_or_missing_there_keeps_both(lab: Lab) -> None:
    rows = [
        {"a": {"b": at}, "c": None if at % 2 else {"d": at % 5}, "e": "xy"[at % 2], "label": "uv"[at % 2]}
        for at in range(40)
    ]
    rows[4] |= {"a": "none", "e": ["x"]}
    profile = lab.profile("a.jsonl", lines(rows))
    assert [column.name for column in profile.columns] == ["a.b", "c.d", "e", "label", "a"]
    assert lab.table()["a.b"].to_pylist()[3:6] == [3, None, 5] and lab.table()["e"][4].as_py() is None
    assert finding(profile, "nested_values", "e").rows == (5,)


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_what_lies_too_deep_is_left_out_and_named(lab: Lab, kind: str) -> None:
    def deep(value: int) -> dict[str, Any]:
        inner: dict[str, Any] = {"f": {"g": value}}
        for name in "dcba":
            inner = {name: inner} | {f"{name}{name}": value}
        return {**inner, "label": "ab"[value % 2]}

    rows = [deep(at) for at in range(40)]
    profile = lab.profile(f"a.{kind}", lines(rows) if kind == "jsonl" else parquet(pa.Table.from_pylist(rows)))
    assert {"aa", "a.bb", "a.b.cc", "a.b.c.dd", "label"} == {column.name for column in profile.columns}
    found = finding(profile, "nested_values" if kind == "jsonl" else "unsupported_columns")
    assert "'a.b.c.d.f'" in found.message and nested.NESTED_LEVELS == 5


def test_an_object_with_a_new_name_in_each_line_is_refused_by_its_name(lab: Lab) -> None:
    rows = [{"x": at, "scores": {f"user {at} {i}": i for i in range(400)}} for at in range(30)]
    problem = lab.problem("a.jsonl", lines(rows))
    assert problem.code == "too_many_columns" and "objects in 'scores' have 10," in problem.message


def test_two_columns_of_one_dotted_name_are_refused_in_parquet(lab: Lab) -> None:
    table = pa.table({"a.b": [1, 2], "a": pa.array([{"b": 1}, {"b": 2}]), "label": ["x", "y"]})
    problem = lab.problem("a.parquet", parquet(table))
    assert (problem.code, problem.column) == ("duplicate_headers", "a.b")


def test_a_target_inside_of_an_object_is_found(lab: Lab) -> None:
    rows = [{"x": at / 3, "truth": {"label": "ab"[at % 2] if at else "c"}} for at in range(60)]
    profile = lab.profile("a.jsonl", lines(rows), target="truth.label")
    assert dict(profile.classes) == {"a": 29, "b": 30, "c": 1}
    assert finding(profile, "single_sample_class").rows == (1,)


def test_only_lists_are_nothing_to_read(lab: Lab) -> None:
    assert "besides lists" in lab.problem("a.jsonl", '{"a": [1]}\n' * 20).message
