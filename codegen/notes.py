"""What is collected while a spec is resolved: guesses with reasons, and problems."""

from __future__ import annotations

from typing import Any

from codegen.types import Guess, SpecError


class Notes:
    """Gathers all guesses and all problems, so that a person sees every mistake at once."""

    def __init__(self) -> None:
        self.guesses: list[Guess] = []
        self.problems: list[tuple[str, str]] = []

    def choose(self, field: str, given: Any, value: Any, reason: str) -> Any:
        """`given`, or where that is `auto` the guess `value`, noted with its reason."""
        if given != "auto":
            return given
        self.note(field, value, reason)
        return value

    def note(self, field: str, value: Any, reason: str) -> None:
        """Record a guess, or what became of a wish."""
        self.guesses.append(Guess(field=field, value=value, reason=reason))

    def problem(self, field: str, message: str) -> None:
        """Record a mistake in the spec."""
        self.problems.append((field, message))

    def stop_if_wrong(self) -> None:
        """Raise `SpecError` with all problems so far, if there are any."""
        if self.problems:
            raise SpecError(self.problems)
