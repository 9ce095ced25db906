"""What was edited, as a diff: the same as ever for what people write, and in bounded time for the rest."""

from __future__ import annotations

import difflib
import random

import pytest

from harness.jobs import diffs
from harness.jobs.diffs import files_diff

TEXT = "".join(f"line {number}\n" for number in range(300))


def usual(old: str, new: str) -> str:
    """What difflib itself says."""
    sides = [text.splitlines(keepends=True) for text in (old, new)]
    return "".join(difflib.unified_diff(*sides, "generated/model.py", "program/model.py"))


@pytest.mark.parametrize(
    "new",
    [
        "", "mine\n", "mine\n" + TEXT, TEXT + "mine\n",
        TEXT.replace("line 7\n", ""), TEXT.replace("line 299\n", "x\ny\n"),
        TEXT.replace("line 7\n", "a\n").replace("line 150\n", "a\nb\n").replace("line 290\n", ""),
    ],
)  # fmt: skip
def test_edits_are_told_as_difflib_tells_them_both_ways(new: str) -> None:
    assert files_diff({"model.py": TEXT}, {"model.py": new}) == usual(TEXT, new)
    assert files_diff({"model.py": new}, {"model.py": TEXT}) == usual(new, TEXT)


def test_a_missing_end_of_line_is_told_and_files_that_are_alike_are_left_out() -> None:
    told = files_diff({"model.py": "a\n", "data.py": "b\n"}, {"model.py": "a", "data.py": "b\n"})
    assert told == ("--- generated/model.py\n+++ program/model.py\n@@ -1 +1 @@\n-a\n+a\n\\ No newline at end of file\n")


def test_a_line_ends_where_an_editor_and_patch_say_so() -> None:
    old = "a\n\f\ndef b():\n    return 'c\u2028d'\n"
    told = files_diff({"x.py": old}, {"x.py": old.replace("a\n", "e\n")})
    assert told == "--- generated/x.py\n+++ program/x.py\n@@ -1,4 +1,4 @@\n-a\n+e\n" + "".join(
        f" {line}\n" for line in old.split("\n")[1:-1]
    )


def test_no_hunk_is_without_a_change() -> None:
    draw = random.Random(5)
    for _ in range(200):
        old = [f"{draw.randrange(40)}\n" for _ in range(60)]
        new = [line for line in old if draw.random() > 0.1]
        new.insert(draw.randrange(len(new)), "mine\n")
        for hunk in files_diff({"x.py": "".join(old)}, {"x.py": "".join(new)}).split("@@\n")[1:]:
            assert any(line.startswith(("+", "-")) for line in hunk.splitlines())


def test_more_lines_than_are_compared_are_all_told_as_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diffs, "PAIRS_MAX", 5_000)
    asked: list[int] = []
    real = difflib.SequenceMatcher.find_longest_match
    monkeypatch.setattr(
        difflib.SequenceMatcher, "find_longest_match", lambda *args, **more: asked.append(1) or real(*args, **more)
    )
    new = TEXT.replace("line 100\n", "a\n").replace("line 130\n", "b\n")
    told = files_diff({"model.py": TEXT}, {"model.py": new}).splitlines()
    assert told[0].startswith("Too many lines of model.py differ") and told[3] == "@@ -98,37 +98,37 @@"
    assert told[4:8] == [" line 97", " line 98", " line 99", "-line 100"] and told[-1] == " line 133"
    assert sum(line.startswith("-") for line in told[3:]) == 31 == sum(line.startswith("+") for line in told[3:])
    assert not asked
    few = TEXT.replace("line 100\n", "a\n").replace("line 110\n", "b\n")
    assert files_diff({"model.py": TEXT}, {"model.py": few}) == usual(TEXT, few) and asked


def test_of_few_lines_that_are_often_alike_fewer_pairs_are_compared() -> None:
    old = "".join(f"a\nline {number}\n" for number in range(2_500))
    new = "b\n" + "a\n" * 197 + "c\n"
    assert files_diff({"x.py": old}, {"x.py": new}).startswith("Too many lines of x.py differ")


def test_what_is_compared_counts_over_all_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diffs, "PAIRS_MAX", 5_000)
    new = TEXT.replace("line 100\n", "a\n").replace("line 115\n", "b\n")  # 256 pairs, ten times
    told = files_diff({"a.py": TEXT, "b.py": TEXT}, {"a.py": new, "b.py": new})
    assert told.count("Too many lines of ") == 1 and "Too many lines of b.py differ" in told


def test_a_file_of_more_lines_than_are_shown_is_told_by_its_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diffs, "LINES_MAX", 100)
    told = files_diff({"a.py": TEXT, "b.py": "b\n"}, {"a.py": "x\n" * 20, "b.py": "c\n"})
    assert "a.py has 300 lines as generated, 20 lines now: too many changes to show." in told
    assert "line 5\n" not in told and "-b\n+c\n" in told
