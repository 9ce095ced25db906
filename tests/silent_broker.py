"""A broker that takes what it is told and keeps nothing, for tests of what is not about live words."""

from __future__ import annotations

from typing import Any


class SilentBroker:
    """Of a Redis client what `harness.broker` publishes by."""

    def xadd(self, *_: Any, **__: Any) -> None:
        """Pass over."""

    def hset(self, *_: Any, **__: Any) -> None:
        """Pass over."""

    def hdel(self, *_: Any) -> None:
        """Pass over."""

    def hgetall(self, *_: Any) -> dict[str, str]:
        """It has kept nothing."""
        return {}

    def expire(self, *_: Any) -> None:
        """Pass over."""

    def ping(self) -> bool:
        """It is there."""
        return True

    def pipeline(self, **_: Any) -> SilentBroker:
        """Itself."""
        return self

    def execute(self) -> None:
        """Pass over."""

    def __enter__(self) -> SilentBroker:
        return self

    def __exit__(self, *_: object) -> None:
        pass
