"""Questions to upper apps."""

from __future__ import annotations

from harness.hooks import Question


def test_everybody_who_answers_is_asked_once_in_order() -> None:
    question: Question[[int], int] = Question()
    assert question.ask(3) == []

    def double(number: int) -> int:
        return 2 * number

    question.answered_by(double)
    question.answered_by(lambda number: -number)
    question.answered_by(double)
    assert question.ask(3) == [6, -3]
