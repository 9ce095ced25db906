"""What ranks print, made safe and limited."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from worker.telemetry import logs
from worker.telemetry.logs import LINE_BYTES, RankLog, StreamReader, clean


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"plain", "plain"),
        (b"\x1b[31mred\x1b[0m", "red"),
        (b"\x1b]0;title\x07text", "text"),
        (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        (b"10%\r50%\r100%", "100%"),
        (b"ends\r", "ends"),
        (b"bell\x07 null\x00 back\x08", "bell null back"),
        (b"tab\tstays", "tab\tstays"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        ("größer \u2028".encode(), "größer \u2028"),
    ],
)
def test_escapes_and_control_characters_do_not_reach_the_page(raw: bytes, shown: str) -> None:
    assert clean(raw) == shown


@pytest.fixture
def pipe() -> tuple[int, int]:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    return reader, writer


def test_lines_of_both_streams_are_counted_in_one_file(tmp_path: Path, pipe: tuple[int, int]) -> None:
    log = RankLog(0, tmp_path / "logs" / "rank-0.log")
    reader = StreamReader(pipe[0], "stdout", log)
    assert reader.poll() == (0, [])
    os.write(pipe[1], b"one\ntwo\nthr")
    assert reader.poll() == (0, ["one", "two"])
    log.add(["from the other stream"])
    os.write(pipe[1], b"ee\nlast")
    assert reader.poll() == (3, ["three"])
    os.close(pipe[1])
    assert reader.poll() == (4, ["last"])
    assert not reader.open
    log.close()
    assert log.path.read_text().splitlines() == ["one", "two", "from the other stream", "three", "last"]


def test_a_line_without_end_is_cut(tmp_path: Path, pipe: tuple[int, int]) -> None:
    reader = StreamReader(pipe[0], "stdout", RankLog(0, tmp_path / "log"))
    os.write(pipe[1], b"x" * (LINE_BYTES + 1100))
    assert reader.poll()[1] == ["x" * LINE_BYTES + " [1,100 more bytes left out]"]


def test_of_a_long_line_that_is_redrawn_the_last_state_is_kept(tmp_path: Path, pipe: tuple[int, int]) -> None:
    reader = StreamReader(pipe[0], "stderr", RankLog(0, tmp_path / "log"))
    os.write(pipe[1], b"".join(b"\r%3d%% done" % done for done in range(101)) * 20 + b"\r\n")
    assert reader.poll()[1] == ["100% done"]


def test_beyond_the_limit_only_the_last_lines_are_kept(tmp_path: Path) -> None:
    log = RankLog(0, tmp_path / "log", file_bytes=50)
    for index in range(1000):
        log.add([f"line {index}"])
    log.close()
    text = log.path.read_text()
    assert text.startswith("line 0\nline 1\n")
    assert text.endswith("line 998\nline 999\n")
    assert "lines left out" in text
    assert len(text) < 1500


def test_the_limit_is_told_when_it_is_reached_and_lines_of_epochs_go_on(tmp_path: Path) -> None:
    log = RankLog(0, tmp_path / "log", file_bytes=20)
    epoch = "epoch 2/9  train/loss 0.1234"
    notice = "[log limit of 20 B reached: from here on only lines of epochs are kept]"
    assert log.add(["short", "x" * 40, "more"]) == ["short", notice]
    assert log.add(["noise", epoch, "noise"]) == [epoch]
    assert log.path.read_text().splitlines()[-1] == epoch
    assert (log.lines, log.dropped) == (3, 4)


def test_lines_of_epochs_beyond_the_limit_have_one_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "AFTER_BYTES", 100)
    log = RankLog(0, tmp_path / "log", file_bytes=20)
    log.add(["x" * 40])
    kept = [line for _ in range(10) for line in log.add(["epoch 2/9  train/loss 0.1234"])]
    assert len(kept) == 3


def test_the_notice_at_the_limit_is_shown_live_under_its_own_number(tmp_path: Path, pipe: tuple[int, int]) -> None:
    reader = StreamReader(pipe[0], "stdout", RankLog(0, tmp_path / "log", file_bytes=10))
    os.write(pipe[1], b"one\n" + b"x" * 40 + b"\n")
    assert reader.poll()[1][-1].startswith("[log limit of 10 B reached")
    os.write(pipe[1], b"noise\nepoch 1/2  train/loss 0.5\n")
    assert reader.poll() == (2, ["epoch 1/2  train/loss 0.5"])


class Gone:
    """A file whose disk has gone away: nothing can be done to it."""

    def tell(self) -> int:
        return 0

    def write(self, body: bytes) -> int:
        raise OSError(errno.ESTALE, "stale")

    def truncate(self, size: int) -> int:
        raise OSError(errno.ESTALE, "stale")


def test_a_log_that_cannot_be_written_at_all_ends_nothing(tmp_path: Path) -> None:
    log = RankLog(0, tmp_path / "rank.log")
    log._file = Gone()  # type: ignore[assignment]
    assert log.add(["one", "two"]) == []
    assert list(log.tail) == ["one", "two"]
