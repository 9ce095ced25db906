"""The connection of a measurement: bounded by both sides, whatever the other asks for."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest

from worker.linking import line
from worker.linking.line import Line, LinkProblem


@pytest.fixture
def ends() -> Iterator[tuple[Line, Line]]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
    pair = Line(near, time.monotonic() + 10.0), Line(far, time.monotonic() + 10.0)
    yield pair
    for end in pair:
        end.close()


def serving(end: Line) -> threading.Thread:
    thread = threading.Thread(target=line.serve, args=(end, lambda: False))
    thread.start()
    return thread


def test_a_block_passes_both_ways_at_once(ends: tuple[Line, Line]) -> None:
    """More than the kernel keeps for either side: one after the other would wait for ever."""
    size = 64 << 20
    other = threading.Thread(target=ends[1].exchange, args=(size,))
    other.start()
    ends[0].exchange(size)
    other.join()


@pytest.mark.parametrize(
    ("name", "size"), [(line.EXCHANGE, line.MOST_BYTES + 1), (line.EXCHANGE, 2**32 - 1), (b"?", 0)]
)
def test_what_goes_beyond_the_bounds_is_refused(ends: tuple[Line, Line], name: bytes, size: int) -> None:
    thread = serving(ends[1])
    ends[0].send(struct.pack("!cI", name, size))
    assert ends[0].receive(1) == line.REFUSED
    thread.join()


def test_all_bytes_together_are_bounded(ends: tuple[Line, Line], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line, "TOTAL_BYTES_MOST", 3 * line.FIRST_BYTES)
    thread = serving(ends[1])
    with pytest.raises(LinkProblem) as refused:
        line.measure(ends[0], lambda: False)
    assert refused.value.code == "refused"
    thread.join()


def test_a_usual_measurement_stays_within_the_bounds() -> None:
    doubled = 2 * line.MOST_BYTES
    assert doubled + line.REPEATS * line.MOST_BYTES <= line.TOTAL_BYTES_MOST
    blocks = (line.MOST_BYTES // line.FIRST_BYTES).bit_length() + line.REPEATS
    assert line.PINGS + line.PINGS_WARM + blocks < line.COMMANDS_MOST


def test_the_end_of_its_time_ends_it(ends: tuple[Line, Line]) -> None:
    ends[0].end_s = time.monotonic() - 1.0
    for call in (lambda: ends[0].receive(1), lambda: ends[0].exchange(8)):
        with pytest.raises(TimeoutError):
            call()


def test_a_token_is_never_sent(ends: tuple[Line, Line], monkeypatch: pytest.MonkeyPatch) -> None:
    token, sent = b"secret-of-this-measurement", []
    send = Line.send
    monkeypatch.setattr(Line, "send", lambda self, data: (sent.append(data), send(self, data))[1])
    admitted: list[bool] = []
    thread = threading.Thread(target=lambda: admitted.append(line.admit(ends[1], token)))
    thread.start()
    line.present(ends[0], token)
    thread.join()
    assert admitted == [True] and len(sent) == 3 and not any(token in data for data in sent)


def test_the_slow_link_is_found_slow(ends: tuple[Line, Line], monkeypatch: pytest.MonkeyPatch) -> None:
    """By how long things take on a clock of the test's own: an exchange of n bytes takes n / 1e6 s, a word 2 ms."""
    now = [0.0]

    def passes(self: Line, size: int) -> None:
        now[0] += size / 1e6

    def word(self: Line, size: int) -> bytes:
        now[0] += 0.002 if size == 1 else 0.0
        return line.READY

    monkeypatch.setattr(line.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(Line, "exchange", passes)
    monkeypatch.setattr(Line, "receive", word)
    monkeypatch.setattr(Line, "send", lambda self, data: None)
    found = line.measure(ends[0], lambda: False)
    assert found.round_trip_s == pytest.approx(0.002) and found.round_trip_noise == pytest.approx(0.0, abs=1e-9)
    assert found.bytes_per_s == pytest.approx(1e6, rel=0.02)
