"""What happens seldom does not add up over a run of weeks."""

from __future__ import annotations

from worker.recent import FORGOTTEN_S, Recent


def test_what_happens_again_and_again_is_counted_for_each() -> None:
    recent = Recent(lambda: 0.0)
    assert [recent.again(1) for _ in range(4)] == [1, 2, 3, 4]
    assert recent.again(2) == 1
    assert set(recent) == {1, 2}
    recent.forget(1)
    assert recent.again(1) == 1


def test_what_happens_once_a_day_never_becomes_much() -> None:
    now_s = [0.0]
    recent = Recent(lambda: now_s[0])
    for day in range(30):
        now_s[0] = day * 86_400.0
        assert recent.again(1) == 1
    now_s[0] += FORGOTTEN_S
    assert recent.again(1) == 2
    assert 1 in recent
