"""The small parts: figures in words, histograms, spec forms and differences."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from codegen.catalog import FAMILIES
from codegen.profile.types import ColumnProfile, ColumnType, DataKind, DatasetProfile, Finding, Severity
from harness.jobs.models import Job
from harness.pages.compare_view import compare_rows
from harness.pages.spec_diff import spec_differences
from harness.pages.spec_fields import spec_groups
from harness.pages.templatetags import dlh
from harness.pages.undo import undo_form, undo_tag
from harness.pages.words import JOB_ACTIONS, STATE_WORDS
from worker.cells import cell
from worker.states import TRANSITIONS, JobState


@pytest.mark.parametrize(
    ("message", "rows", "text"),
    [
        ("2 lines do not have 3 fields (line 1,102: 4 fields; line 1,152: 1 field).", (1102, 1152), ""),
        ("2 rows repeat an earlier row.", (1102, 1152), "Rows 1102, 1152"),
        ("'x' is missing in 9 of 90 rows.", (1, 2, 3, 5, 8), "Rows 1, 2, 3, 5, 8 (at most 5 are named)"),
        ("1 class has one row only: 'zebra'.", (1,), "Row 1"),
        ("There is only one class.", (), ""),
    ],
)
def test_rows_stand_beside_a_finding_that_does_not_name_them(message: str, rows: tuple[int, ...], text: str) -> None:
    found = Finding(code="x", severity=Severity.WARNING, message=message, meaning="", rows=rows)
    assert dlh.rows_untold(found) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),  # noqa: RUF001
        (12345, "12,345"),
        (0.94321, "0.9432"),
        (1.5e-7, "1.50e-07"),
        (float("nan"), "not finite"),
        (9999.7, "10,000"),
        (999.97, "1,000"),
        (0.99996, "0.99996"),
    ],
)
def test_figures_are_short_and_never_raise(value: float | None, text: str) -> None:
    assert dlh.figure(value) == text


def test_what_is_rounded_up_to_the_next_unit_is_told_in_it() -> None:
    assert dlh.figure(999.7, 3) == "1,000"
    assert [dlh.short(value) for value in (999_700, 999.0, 1_234_567)] == ["1 M", "999", "1.23 M"]
    assert [dlh.size(value) for value in (1023, 1024 * 1023.97, 1 << 20)] == ["1023 B", "1 MiB", "1 MiB"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59.6, "1 min"), (3725, "1 h 02 min"), (200_000, "2 d 8 h"), (None, "–")],  # noqa: RUF001
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
    assert [value for value, _ in table["data.split.by"].choices] == ["random", "group", "time"]
    assert [value for value, _ in table["data.split.column"].choices] == ["a", "b"]
    pictures = {
        field.path for group in spec_groups(DatasetProfile(kind=DataKind.IMAGES, rows=3)) for field in group.fields
    }
    assert "data.target" not in pictures and "training.augment" in pictures
    assert "data.split.test" in pictures and not {"data.split.by", "data.split.column"} & pictures


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


@pytest.mark.parametrize(
    ("value", "text"),
    [(3.21, "+3.2"), (-0.44, "-0.4"), (0.01, "0.0"), (-0.01, "0.0"), (None, "–")],  # noqa: RUF001
)
def test_a_difference_carries_its_sign(value: float | None, text: str) -> None:
    assert dlh.signed(value) == text


def test_what_was_searched_for_is_marked_and_the_rest_stays_text() -> None:
    assert dlh.marked("<b>Loss</b> loss", "loss") == "&lt;b&gt;<mark>Loss</mark>&lt;/b&gt; <mark>loss</mark>"
    assert dlh.marked("a+b", "") == "a+b"


def test_a_message_undoes_by_a_form_or_hints_in_words() -> None:
    assert undo_form(undo_tag("/jobs/bulk/?do=restore&job=a&job=b")) == {
        "action": "/jobs/bulk/",
        "fields": [("do", "restore"), ("job", "a"), ("job", "b")],
    }
    assert undo_form("Tick the boxes first.") is None


def test_families_are_called_alike_in_lists_and_in_names_of_jobs() -> None:
    assert {dlh.words(name) for name in FAMILIES} == {family.word for family in FAMILIES.values()}


@pytest.mark.django_db
def test_the_best_of_compared_jobs_is_marked_where_they_judge_alike() -> None:
    def job(key: str, best: float | None, test: float | None, metric: str = "mae") -> Job:
        return Job(pk=key, metric_name=metric, metric_best=best, metric_test=test)

    rows = compare_rows([job("a", 2.0, 1.5), job("b", 1.0, 1.5), job("c", None, 1.7)])
    assert [row["best"] for row in rows] == [False, True, False]
    assert not any(row["best_test"] for row in rows)
    assert rows[0]["without"] == "?job=b&job=c"
    assert [row["best"] for row in compare_rows([job("a", 0.1, 0, "accuracy"), job("b", 0.9, 0, "accuracy")])] == [
        False,
        True,
    ]
    assert not any(row["best"] for row in compare_rows([job("a", 2.0, None), job("b", 1.0, None, "rmse")]))


def test_a_moment_in_a_sentence_becomes_one_that_the_browser_tells_in_the_reader_s_zone() -> None:
    told = dlh.local_times("<b> is free: the first ends 2030-01-31 18:00 UTC.")
    assert told.startswith("&lt;b&gt; is free: the first ends <time datetime=") and told.endswith("</time>.")
    assert 'datetime="2030-01-31T18:00:00+00:00"' in told
