"""A group of one rank, for what adds up over ranks: tests make of it what they need."""

from __future__ import annotations

from torch import Tensor

from worker.runtime.by_host import Pending


class Lone:
    """Nobody else is there: what is summed is the sum already."""

    by_host = True

    def sum_start(self, tensor: Tensor, name: str) -> Pending:
        """It is there."""
        return self

    def wait(self) -> None:
        """For nobody."""

    def broadcast_(self, tensor: Tensor) -> None:
        """To nobody."""

    def gather(self, tensor: Tensor) -> Tensor:
        """Its own."""
        return tensor

    def close(self) -> None:
        """Nothing is open."""
