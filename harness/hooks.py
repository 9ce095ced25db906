"""Questions that a lower app asks and upper ones answer: what it must know of them without naming them.

An upper app adds its answer when Django starts (`AppConfig.ready`), in each short command as well: the modules of a
question and of its answers load nothing large. Only where neither the code that asks nor the one that answers could lie
in the other's app: mostly an upper app calls a lower one, and tasks are sent by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Question(Generic[P, R]):
    """One question, and who answers it, in the order in which they were added."""

    def __init__(self) -> None:
        self._answers: list[Callable[P, R]] = []

    def answered_by(self, answer: Callable[P, R]) -> None:
        """Have it asked, too; who is asked already stays where it is."""
        if answer not in self._answers:
            self._answers.append(answer)

    def ask(self, *args: P.args, **kwargs: P.kwargs) -> list[R]:
        """Everybody's answer."""
        return [answer(*args, **kwargs) for answer in self._answers]
