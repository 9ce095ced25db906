"""How the demo tells how far it is."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from harness.stack.demo import display


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("term", "drawn"), [("dumb", False), ("xterm", True)])
def test_a_terminal_on_which_no_bar_can_be_drawn_gets_lines(
    term: str, drawn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", term)
    screen = Terminal()
    with display(Console(file=screen, force_terminal=True, width=120)) as show:
        show("Training", 0.1, "epoch 1/10")
        show("Training", 0.9, "epoch 9/10")
    shown = screen.getvalue()
    assert "epoch 9/10" in shown and ("\x1b" in shown) == drawn
    assert drawn or [line.split()[0] for line in shown.splitlines()] == ["Training", "Training"]
