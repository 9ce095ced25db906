"""A broker that takes what it is told and keeps nothing, for tests of what is not about live words."""

from __future__ import annotations

from typing import Any


class SilentBroker:
    """Of a Redis client what `harness.broker` publishes by, what trial runs are kept by, and that control works by."""

    def __init__(self) -> None:
        self._answers: list[Any] = []

    def _answered(self, *_: Any, **__: Any) -> None:
        self._answers.append(None)

    xadd = set = hset = hdel = hget = expire = lpush = ltrim = _answered

    def hgetall(self, *_: Any) -> dict[str, str]:
        """It has kept nothing."""
        self._answers.append({})
        return {}

    def lrange(self, *_: Any) -> list[str]:
        """It has kept nothing."""
        self._answers.append([])
        return []

    def exists(self, *_: Any) -> int:
        """As if it were kept: that control works."""
        self._answers.append(1)
        return 1

    def info(self, *_: Any) -> dict[str, int]:
        """It has just started."""
        self._answers.append({"uptime_in_seconds": 0})
        return {"uptime_in_seconds": 0}

    def ping(self) -> bool:
        """It is there."""
        return True

    def pipeline(self, **_: Any) -> SilentBroker:
        """One of its own."""
        return SilentBroker()

    def execute(self) -> list[Any]:
        """An answer to each command since the last time."""
        answers, self._answers = self._answers, []
        return answers

    def __enter__(self) -> SilentBroker:
        return self

    def __exit__(self, *_: object) -> None:
        pass
