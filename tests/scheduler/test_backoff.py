from __future__ import annotations

import pytest

from scheduler.backoff import FIRST_S, MOST_S, restart_delay_s


def test_each_restart_waits_twice_as_long_up_to_a_limit() -> None:
    delays = [restart_delay_s(number) for number in range(1, 200)]
    assert delays[:4] == [FIRST_S, 2 * FIRST_S, 4 * FIRST_S, 8 * FIRST_S]
    assert delays == sorted(delays) and delays[-1] == MOST_S


def test_restarts_are_counted_from_one() -> None:
    with pytest.raises(ValueError, match="from 1"):
        restart_delay_s(0)
