"""The small parts: figures in words, histograms, spec forms and differences."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from codegen.profile.types import ColumnProfile, ColumnType, DataKind, DatasetProfile
from harness.csv import cell
from harness.pages.spec_diff import spec_differences
from harness.pages.spec_fields import spec_groups
from harness.pages.templatetags import dlh
from harness.pages.words import JOB_ACTIONS, STATE_WORDS
from worker.states import TRANSITIONS, JobState


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (12345, "12\u202f345"), (0.94321, "0.9432"), (1.5e-7, "1.50e-07"), (float("nan"), "not finite")],  # noqa: RUF001
)
def test_figures_are_short_and_never_raise(value: float | None, text: str) -> None:
    assert dlh.figure(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59.6, "1 min 00 s"), (3725, "1 h 02 min"), (200_000, "2 d 7 h"), (None, "–")],  # noqa: RUF001
)
def test_durations_read_as_a_person_says_them(seconds: float | None, text: str) -> None:
    assert dlh.duration(seconds) == text


def test_a_time_carries_iso_for_the_browser_and_the_reader() -> None:
    text = dlh.when(datetime(2026, 1, 2, 3, 4, tzinfo=UTC), "ago")
    assert 'datetime="2026-01-02T03:04:00+00:00"' in text and 'data-style="ago"' in text


def test_an_unknown_state_is_escaped() -> None:
    assert "<b>" not in dlh.state_badge("<b>x</b>")


def test_every_state_has_a_word_and_legal_actions_only() -> None:
    asks = {"cancel": JobState.CANCELLED, "resume": JobState.QUEUED, "submit": JobState.QUEUED}
    for state in JobState:
        assert state.value in STATE_WORDS
        for action in set(JOB_ACTIONS[state.value]) & set(asks):
            reachable = (
                TRANSITIONS[state] | {JobState.CANCELLED}
                if JobState.CANCELLING in TRANSITIONS[state]
                else TRANSITIONS[state]
            )
            assert asks[action] in reachable, (state, action)


def test_a_histogram_of_nothing_is_an_empty_picture() -> None:
    assert dlh.sparkbars((), ()) == {"bars": [], "label": "histogram, 0 bins, highest 1 rows"}


def test_a_form_offers_the_columns_and_tasks_of_its_data() -> None:
    columns = tuple(
        ColumnProfile(
            name=name, type=ColumnType.NUMERIC, guessed_type=ColumnType.NUMERIC, reason="", missing=0, unique=3
        )
        for name in ("a", "b")
    )
    table = {
        field.path: field
        for group in spec_groups(DatasetProfile(kind=DataKind.TABLE, rows=3, columns=columns))
        for field in group.fields
    }
    assert [value for value, _ in table["data.target"].choices] == ["a", "b"]
    assert {value for value, _ in table["task"].choices} == {"tabular_classification", "tabular_regression"}
    assert "training.augment" not in table
    assert table["budget.deadline"].kind == "moment"
    pictures = {
        field.path for group in spec_groups(DatasetProfile(kind=DataKind.IMAGES, rows=3)) for field in group.fields
    }
    assert "data.target" not in pictures and "training.augment" in pictures


def test_only_fields_that_differ_are_listed() -> None:
    one = {"name": "x", "training": {"epochs": 3, "seed": 1}}
    two = {"name": "y", "training": {"epochs": 5, "seed": 1}}
    assert spec_differences([one, two]) == [{"field": "training.epochs", "values": [3, 5]}]


def test_differences_stand_in_the_order_of_the_schema_however_they_were_kept() -> None:
    one = {"zzz": 1, "training": {"seed": 1, "epochs": 3}, "model": {"params": {"width": 8}}, "data": {"target": "a"}}
    two = {"data": {"target": "b"}, "model": {"params": {"width": 9}}, "training": {"epochs": 5, "seed": 2}, "zzz": 2}
    fields = ["data.target", "model.params.width", "training.epochs", "training.seed", "zzz"]
    assert [row["field"] for row in spec_differences([one, two])] == fields
    assert [row["field"] for row in spec_differences([two, one])] == fields


def test_an_exported_name_is_no_formula() -> None:
    assert cell('=HYPERLINK("http://x")').startswith("'=")
    assert cell(-3.5) == -3.5


def test_a_diff_line_keeps_its_kind() -> None:
    assert [dlh.diff_class(line) for line in ("+x", "-x", " x", "@@ 1", "+++ b")] == [
        "add",
        "del",
        "same",
        "hunk",
        "hunk",
    ]
