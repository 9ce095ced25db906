from __future__ import annotations

import json
from enum import StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.plain import DEPTH_MAX, plain, text_plain
from harness.store import FileTooLarge, UnsafePath, json_beneath


def test_numbers_that_no_database_holds_become_none() -> None:
    assert plain([float("nan"), float("inf"), 10**400, -(10**400), 1.5, 3, True]) == [None] * 4 + [1.5, 3, True]


def test_text_can_be_encoded_and_holds_no_nul() -> None:
    assert text_plain("a\0b\ud800c\U0001f600") == "a\ufffdb\ufffdc\U0001f600"
    assert plain({"\ud800": "x"}) == {"\ufffd": "x"}


class _Word(StrEnum):
    ONE = "one"


_LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(st.sampled_from("a\0\ud800\u00e9"), max_size=60),
    st.just(_Word.ONE),
)  # fmt: skip


@given(st.recursive(_LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_LEAVES, inner, max_size=4)))
def test_what_is_made_plain_is_strict_json_and_stays_as_it_is(value: object) -> None:
    found = plain(value)
    text = json.dumps(found, allow_nan=False, ensure_ascii=False)
    text.encode()
    assert "\\u0000" not in text and json.loads(text) == found == plain(found)
    assert "_Word" not in repr(found)


def test_what_is_nested_too_deep_is_refused() -> None:
    value: list[object] = []
    for _ in range(DEPTH_MAX + 1):
        value = [value]
    with pytest.raises(ValueError, match="nested"):
        plain(value)


@pytest.mark.parametrize("text", ["[" * 100_000, "{", json.dumps([[]])[:-1]])
def test_a_file_that_is_no_readable_json_is_unsafe_and_nothing_else(tmp_path, text) -> None:
    (tmp_path / "results.json").write_text(text)
    with pytest.raises(UnsafePath):
        json_beneath(tmp_path, "results.json")


@pytest.mark.parametrize("text", ["[" + "[]," * 60 + "[]]", "[" + "{}," * 60 + "{}]", "[" + "0," * 100 + "0]"])
def test_a_file_of_small_size_and_many_values_is_not_even_parsed(tmp_path, text, monkeypatch) -> None:
    (tmp_path / "results.json").write_text(text)
    assert len(json_beneath(tmp_path, "results.json")) > 60
    monkeypatch.setattr("harness.store.json.loads", lambda _: pytest.fail("was parsed"))
    with pytest.raises(FileTooLarge, match=r"results.json has more than 100 values"):
        json_beneath(tmp_path, "results.json", limit_values=100)
    with pytest.raises(FileTooLarge, match=r"larger than 64 B"):
        json_beneath(tmp_path, "results.json", limit_bytes=64)


def test_a_number_with_too_many_digits_is_unsafe(tmp_path) -> None:
    (tmp_path / "results.json").write_text("1" * 10_000)
    with pytest.raises(UnsafePath):
        json_beneath(tmp_path, "results.json")
