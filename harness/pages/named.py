"""States, tasks and other names as the pages write them: in words, states with a coloured dot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from codegen.spec import Task
from harness.pages.figures import NONE, duration
from harness.pages.words import (
    CHECK_WORDS,
    COPY_WORDS,
    DELIVERY_WORDS,
    FORM_INPUT,
    NAME_WORDS,
    SANDBOX_WORDS,
    SCOPE_WORDS,
    STATE_WORDS,
    SWEEP_WORDS,
    TASK_WORDS,
)


def _badge(known: Mapping[str, tuple[str, str]], state: str) -> SafeString:
    """A coloured dot and a word; never colour alone."""
    word, color = known.get(str(state), (str(state).capitalize(), "secondary"))
    return format_html(
        '<span class="state state-{}"><span class="state-dot" aria-hidden="true"></span>{}</span>', color, word
    )


def state_badge(state: str) -> SafeString:
    """A state of a job, dataset, node or prediction."""
    return _badge(STATE_WORDS, state)


def sweep_badge(state: str) -> SafeString:
    """A state of a calibration."""
    return _badge(SWEEP_WORDS, state)


def check_badge(state: str) -> SafeString:
    """A finding's state."""
    return _badge(CHECK_WORDS, state)


def copy_badge(state: str) -> SafeString:
    """How the copy in the object store stands."""
    return _badge(COPY_WORDS, state)


def delivery_badge(state: str) -> SafeString:
    """How far a message is."""
    return _badge(DELIVERY_WORDS, state)


def check_words(check: Mapping[str, Any]) -> str:
    """What a node's check came to: `2 min 05 s ago: 11 good, 2 to look at, 1 wrong`."""
    states = [str(line.get("state")) for line in check.get("findings") or ()]
    parts = [f"{states.count(state)} {word}" for state, (word, _) in CHECK_WORDS.items() if state in states]
    return f"{duration(timezone.now().timestamp() - check.get('at_s', 0))} ago: {', '.join(parts)}"


def clock_words(off_s: float) -> str:
    """How a node's clock is off: `1 h 00 min ahead of the portal's`."""
    return f"{duration(abs(off_s))} {'ahead of' if off_s > 0 else 'behind'} the portal's"


def task_word(task: str) -> str:
    """A task in words."""
    return TASK_WORDS.get(str(task), str(task).replace("_", " "))


def sample_word(task: str) -> str:
    """What one sample of a task is called."""
    return "picture" if task == Task.IMAGE_CLASSIFICATION else "row"


def sandbox_word(level: int | None) -> str:
    """A sandbox level in words."""
    return NONE if level is None else SANDBOX_WORDS.get(int(level), f"L{level}")


def scope_word(scope: str) -> str:
    """What a token may do, in words."""
    return SCOPE_WORDS.get(str(scope), str(scope))


def words(name: str) -> str:
    """`snake_case` as words, known names as people write them."""
    return NAME_WORDS.get(str(name), str(name).replace("_", " "))


def input_word(name: str) -> str:
    """What was predicted for: the file's name, or that it was typed."""
    return "One row by form" if name == FORM_INPUT else name
