"""What a run uses, by process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from worker.monitor import RANK_VARIABLE, Monitor


class Standing:
    """A process that has used so many seconds; another one may have had its id."""

    def __init__(self, pid: int, used_s: float) -> None:
        self.pid, self.used_s, self.rss = pid, used_s, 1 << 20

    @contextmanager
    def oneshot(self) -> Iterator[None]:
        yield

    def cpu_times(self) -> Any:
        return SimpleNamespace(user=self.used_s, system=0.0)

    def memory_info(self) -> Any:
        return SimpleNamespace(rss=self.rss, shared=0)

    def environ(self) -> dict[str, str]:
        return {RANK_VARIABLE: "0"}


def load_of(sample: dict[str, Any]) -> float:
    return float(sample["ranks"][0]["cpu_percent"])


def test_a_process_is_not_taken_for_an_older_one_that_had_its_id() -> None:
    monitor = Monitor()
    first: Any = Standing(7, 1000.0)
    monitor.sample([first])
    first.used_s += 1.0
    assert load_of(monitor.sample([first])) > 0.0
    second: Any = Standing(7, 1.0)
    assert load_of(monitor.sample([second])) == 0.0
    second.used_s += 1.0
    assert load_of(monitor.sample([second])) > 0.0


def test_a_rank_that_has_ended_is_not_told_to_use_nothing() -> None:
    monitor = Monitor()
    rank: Any = Standing(7, 1.0)
    assert [one["rss_bytes"] for one in monitor.sample([rank])["ranks"]] == [1 << 20]
    rank.rss = 0
    assert monitor.sample([rank])["ranks"] == []
