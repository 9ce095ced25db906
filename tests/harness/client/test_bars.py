"""Bars on a terminal of usual width: what is too long is cut, and not the figures beside it."""

from __future__ import annotations

import io
import re
import sys
from typing import Any

import pytest

from harness.client.cli import common, runs

NAME = "measurements-of-the-second-quarter-2026-all-sites.parquet"
CODES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
JOB = {
    "id": "abc", "name": "wine", "state": "running", "progress": 0.4, "epoch": 2.4, "epochs": 10,
    "metric_name": "accuracy",
    "last_values": {"train/loss": 0.3127, "val/loss": 0.5127, "val/accuracy": 0.8127}, "samples_per_s": 300.0,
    "eta_s": 180.0, "idle_s": None, "metric_best": None, "failure": None,
}  # fmt: skip


class Terminal(io.StringIO):
    """A standard error that is looked at."""

    def isatty(self) -> bool:
        return True


def screen_made(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Called by the test itself: pytest puts its own stream in between the fixtures and the test."""
    found = Terminal()
    monkeypatch.setattr(sys, "stderr", found)
    for name, value in (("COLUMNS", "80"), ("NO_COLOR", "1"), ("TERM", "xterm")):
        monkeypatch.setenv(name, value)
    return found


def lines(screen: Terminal) -> list[str]:
    """What stood in the line of the bar, one after the other."""
    return screen.getvalue().split("\x1b[2K")


def test_who_follows_a_job_sees_its_state_its_share_and_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = screen_made(monkeypatch)
    monkeypatch.setattr(runs, "job_updates", lambda *_, **__: iter([JOB, {**JOB, "state": "succeeded"}]))
    client: Any = type("Nobody", (), {"away": None})()
    runs.watch_and_print(client, "abc", as_json=False)
    last = lines(screen)[-1]
    assert last.startswith("succeeded ") and "40%" in last and "epoch 2.4/10 · train/loss" in last
    assert runs._note(JOB).startswith("epoch 2.4/10 · 3 min left · train/loss 0.3127")


@pytest.mark.parametrize("bar_of", [common.transfer_bar, common.share_bar])
@pytest.mark.parametrize("colour", ["", "1"])
def test_a_bar_leaves_nothing_where_there_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch, bar_of: Any, colour: str
) -> None:
    monkeypatch.setenv("FORCE_COLOR", colour)  # as in many a log of CI
    written = io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    with bar_of(quiet=False) as bar:
        bar.update(bar.add_task("Uploading", total=2.0), completed=2.0)
    assert written.getvalue() == ""


def test_a_long_name_leaves_room_for_what_was_sent_and_how_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = screen_made(monkeypatch)
    with common.transfer_bar(quiet=False) as bar:
        task = bar.add_task(f"Uploading {NAME}", total=50_000_000)
        bar.update(task, completed=20_000_000)
        bar.refresh()
        shown = lines(screen)[-1]
    assert "20.0/50.0 MB" in shown and "-:--:--" in shown and "\n" not in shown
    with common.share_bar(quiet=False) as bar:
        task = bar.add_task(f"Reading {NAME}", total=1.0)
        bar.update(task, completed=0.4)
        bar.refresh()
        assert "40 %" in lines(screen)[-1]


def test_a_terminal_that_was_made_narrower_still_shows_bar_and_share(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = screen_made(monkeypatch)
    with common.share_bar(quiet=False) as bar:
        task = bar.add_task(f"Reading {NAME}", total=1.0)
        bar.update(task, completed=0.4)
        for width in (80, 50):
            bar.console.width = width
            bar.refresh()
            shown = lines(screen)[-1]
            assert all(part in shown for part in ("40 %", "\u2501", "\u2026"))
            assert len(CODES.sub("", shown)) <= width


def test_a_state_at_rest_is_told_once_however_often_the_portal_tells_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tested = {**JOB, "state": "draft", "rate_test_first": True}
    ended = {**JOB, "state": "succeeded", "progress": 1.0}
    client: Any = type("Nobody", (), {"away": None, "job_part": lambda *_: {"items": []}})()
    for states, words in (
        ([JOB, ended, ended], ["running", "succeeded"]),
        ([tested, tested, {**tested, "rate_test_first": False}], ["draft", "draft"]),
    ):
        monkeypatch.setattr(runs, "job_updates", lambda *_, told=states, **__: iter(told))
        runs.watch_and_print(client, "abc", as_json=False)
        told = capsys.readouterr().err.splitlines()
        assert [line.split(" · ")[0] for line in told if " · " in line] == words


def test_off_a_terminal_each_state_of_a_job_that_is_followed_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = {**JOB, "state": "queued", "progress": 0.0, "waiting_text": "All devices are busy."}
    states = [waits, waits, JOB, {**JOB, "progress": 0.6}, {**JOB, "state": "succeeded", "progress": 1.0}]
    monkeypatch.setattr(runs, "job_updates", lambda *_, **__: iter(states))
    client: Any = type("Nobody", (), {"away": None})()
    runs.watch_and_print(client, "abc", as_json=False)
    told = capsys.readouterr().err.splitlines()
    assert [line.split(" · ")[0] for line in told] == ["queued", "running", "succeeded"]
    assert "All devices are busy." in told[0] and "3 min left" in told[1]


def test_a_terminal_on_which_no_bar_can_be_drawn_is_told_each_state_too(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = screen_made(monkeypatch)
    monkeypatch.setenv("TERM", "dumb")  # as in the shell of an editor
    states = [{**JOB, "state": "queued", "progress": 0.0, "waiting_text": "All devices are busy."}, JOB]
    monkeypatch.setattr(runs, "job_updates", lambda *_, **__: iter(states))
    client: Any = type("Nobody", (), {"away": None})()
    runs.watch_and_print(client, "abc", as_json=False)
    told = screen.getvalue().splitlines()
    assert [line.split(" · ")[0] for line in told] == ["queued", "running"] and "\x1b" not in screen.getvalue()


def test_a_job_that_is_followed_in_a_log_with_colours_is_told_by_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(runs, "job_updates", lambda *_, **__: iter([JOB, {**JOB, "state": "succeeded"}]))
    client: Any = type("Nobody", (), {"away": None})()
    runs.watch_and_print(client, "abc", as_json=False)
    told = written.getvalue()
    assert len(told.splitlines()) == 2 and "\r" not in told and "\x1b[2K" not in told and "\x1b[?25l" not in told
