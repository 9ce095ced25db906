"""Pace and unpacking by themselves."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.fetches import unpacking
from harness.fetches.pace import SLOW_BYTES, SLOW_S, Pace
from harness.fetches.trouble import FetchTrouble
from harness.fetches.unpacking import Unpacked


def test_the_rate_is_that_of_the_last_few_seconds():
    now_s = [0.0]
    pace = Pace(lambda: now_s[0])
    for second, count in enumerate([0, *[10_000_000] * 5, *[1_000_000] * 20]):
        now_s[0] = float(second)
        pace.add(count)
    assert pace.rate_bytes_s == pytest.approx(1_000_000)
    assert Pace(lambda: 0.0).rate_bytes_s == 0.0


def test_less_than_enough_in_a_minute_is_too_slow_and_enough_is_not():
    now_s = [0.0]
    pace = Pace(lambda: now_s[0])
    for _ in range(3):
        now_s[0] += SLOW_S
        pace.add(SLOW_BYTES)
    now_s[0] += SLOW_S
    with pytest.raises(FetchTrouble, match="per minute"):
        pace.add(SLOW_BYTES - 1)


@given(st.lists(st.binary(max_size=3000), min_size=1, max_size=4), st.integers(1, 700), st.integers(1, 500))
def test_what_was_packed_comes_out_as_it_was_however_it_is_cut(bodies, cut, piece_bytes):
    sent = b"".join(map(gzip.compress, bodies))
    pieces = [sent[begin : begin + cut] for begin in range(0, len(sent), cut)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unpacking, "PIECE_BYTES", piece_bytes)
        unpacked = Unpacked(lambda: pieces.pop(0) if pieces else b"")
        got = list(iter(unpacked.read, b""))
    assert b"".join(got) == b"".join(bodies) and all(len(piece) <= piece_bytes for piece in got)
