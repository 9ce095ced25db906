"""YAML that people write: what would end or hold up the process is refused with its line."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from codegen import safe_yaml
from codegen.safe_yaml import YamlFault, YamlRefused

MERGES = "a0: &a0 {x: 1}\n" + "".join(f"a{at}: &a{at} {{<<: [{f'*a{at - 1}, ' * 9}]}}\n" for at in range(1, 9))
"""Nine lines of which the last merges 43 million mappings."""
LOAD = """
import sys
from codegen import safe_yaml
try:
    safe_yaml.load(sys.stdin.read())
except safe_yaml.YamlRefused as refused:
    print(refused)
"""


@pytest.mark.parametrize("text", ["- " * 30_000, "? " * 30_000, "[" * 30_000, "{a: " * 30_000, "[{a: " * 30_000])
def test_levels_without_end_do_not_end_the_process(text: str) -> None:
    done = subprocess.run([sys.executable, "-c", LOAD], input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "line 1: values lie more than 32 levels deep in one another\n"


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (MERGES, 2, "*a0 stands for"),
        ("a: &a\n  b: *a\n", 2, "*a stands for"),
        ("x: 1\ny: 1" + ":1" * 5_000, 2, "is a number of 10,001 characters"),
        ("x: 1" + ":1" * 400 + ".0", 1, "is a number of 803 characters"),
        ("x: 0x" + "f" * 5_000, 1, "is a number of 5,002 characters"),
        (f"x: 1\n{2**61 - 1}: 2", 2, "is a number of 19 characters; at most 18"),
        ("".join(f"%TAG !a{at}! b\n" for at in range(200)) + "--- x\n", None, "%TAG is there more than 100 times"),
    ],
)
def test_what_costs_more_than_its_letters_is_refused(text: str, line: int | None, words: str) -> None:
    with pytest.raises(YamlRefused) as refused:
        safe_yaml.compose(text)
    assert refused.value.line == line and words in refused.value.message


def test_so_many_values_are_read_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safe_yaml, "NODES_MAX", 10)
    assert safe_yaml.load("- x\n" * 9) == ["x"] * 9
    with pytest.raises(YamlRefused, match="line 10: there are more than 10 values up to here"):
        safe_yaml.load("- x\n" * 10)


def test_levels_that_people_write_are_read() -> None:
    body = safe_yaml.load("{a: " * 30 + "1" + "}" * 30)
    for _ in range(30):
        body = body["a"]
    assert body == 1


@pytest.mark.parametrize(
    "text",
    [
        "!!bool 3", "!!timestamp abc", "!!int ''", "!!float x", "2020-99-99", "!!set [1]", "? [a]\n: 1", "a: [",
        "a\0b", "\ud800", "a\n---\nb", "!!python/object/apply:os.system ['true']", "*a" + "\0",
    ],
)  # fmt: skip
def test_what_is_no_yaml_ends_in_one_kind_of_fault(text: str) -> None:
    with pytest.raises(YamlFault, match="not YAML: ") as fault:
        safe_yaml.load(text)
    assert not isinstance(fault.value, YamlRefused)


@pytest.mark.parametrize(("text", "line"), [("a: [", 1), ("x: 1\na: [", 2), ("- {\n", 2), ("a: 'x", 1), ("a: b: c", 1)])
def test_the_line_of_a_fault_is_one_of_the_text(text: str, line: int) -> None:
    with pytest.raises(YamlFault) as fault:
        safe_yaml.load(text)
    assert fault.value.line == line


@pytest.mark.parametrize("value", ["2030-02-30", "!!int 0o8", "!!float abc"])
def test_a_value_that_cannot_be_is_told_with_its_line(value: str) -> None:
    with pytest.raises(YamlFault) as fault:
        safe_yaml.load(f"a: 1\nb:\n  c: {value}\n")
    assert fault.value.line == 3 and fault.value.message.startswith(f"not YAML: {value.split()[-1]}: ")


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("", None),
        ("a: {<<: {b: 1}, c: [yes, ~, 1.5]}", {"a": {"b": 1, "c": [True, None, 1.5]}}),
        ('a: "' + "9" * 100 + '"', {"a": "9" * 100}),
        ("a*b: 1\n2: x", {"a*b": 1, 2: "x"}),
    ],
)
def test_all_else_is_read_as_ever(text: str, body: Any) -> None:
    assert safe_yaml.load(text) == body


@pytest.mark.parametrize(
    ("written", "read"), [("010", 8), ("-0_17", -15), ("1:30", 90), ("12:30:45", 45_045), ("1:30.5", 90.5)]
)
def test_a_number_that_means_another_one_to_yaml_than_to_people_is_refused_with_both(written: str, read: float) -> None:
    with pytest.raises(YamlRefused, match=f"line 2: {written} is {read} to YAML"):
        safe_yaml.load(f"a: 1\nb: {written}")
    assert safe_yaml.load(f"- '{written}'\n- 00\n- 0x1f\n- 1_000\n- 0.5\n- 08") == [written, 0, 31, 1000, 0.5, "08"]
