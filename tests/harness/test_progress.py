"""What a person sees of a backup that takes long."""

from __future__ import annotations

import io

import pytest
from django.conf import settings

from harness.backup.making import backup_make
from harness.progress import LINE_EVERY_S, Teller


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_where_there_is_no_terminal_lines_tell_share_and_time_left() -> None:
    out, clock = io.StringIO(), Clock()
    with Teller(out=out, clock=clock) as tell:
        tell("Unpacking", 0, 400)
        for done in (1, 100, 101):
            clock.now_s += LINE_EVERY_S if done == 100 else 0.1
            tell("Unpacking", done, 400)
        tell("Filling the database", 0, 0)
    assert out.getvalue() == "Unpacking: 25 %, about 30 s left\n"


def test_the_log_of_what_takes_hours_gets_a_line_each_minute() -> None:
    out, clock = io.StringIO(), Clock()
    with Teller(out=out, clock=clock) as tell:
        for second in range(3601):
            clock.now_s = 100.0 + second
            tell("Unpacking", second, 7200)
    assert len(out.getvalue().splitlines()) == 64, "five in the first minute"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_there_is_a_bar_and_a_program_sees_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")  # whatever the tests were started from
    for quiet in (False, True):
        out = Terminal()
        with Teller(out=out, quiet=quiet) as tell:
            tell("Unpacking", 200, 400)
        assert ("Unpacking" in out.getvalue()) is not quiet


def test_a_terminal_on_which_no_bar_can_be_drawn_is_told_by_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")  # as in the shell of an editor
    out, clock = Terminal(), Clock()
    with Teller(out=out, clock=clock) as tell:
        tell("Unpacking", 0, 400)
        clock.now_s += LINE_EVERY_S
        tell("Unpacking", 100, 400)
    assert out.getvalue() == "Unpacking: 25 %, about 30 s left\n"


@pytest.mark.django_db(transaction=True)
def test_a_backup_says_how_far_it_is(tmp_path, people) -> None:
    (settings.STORE.root / "jobs" / "abc").mkdir(parents=True, exist_ok=True)
    (settings.STORE.root / "jobs" / "abc" / "model").write_bytes(bytes(3 << 20))
    heard: list[tuple[str, int, int]] = []
    backup_make(tmp_path / "one.dlh", with_secrets=False, tell=lambda *told: heard.append(told))
    written = [(done, total) for stage, done, total in heard if stage == "Writing the backup"]
    assert len(written) >= 3 and written == sorted(written)
    assert written[-1][0] >= written[-1][1] >= 3 << 20
