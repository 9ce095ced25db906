"""Where ranks stand, from what they printed."""

from __future__ import annotations

from worker.stacks import stack_of, standing, waits

WAITING = [
    "epoch 1/3",
    "Stack (most recent call first):",
    '  File "/opt/harness/worker/runtime/collective.py", line 147 in _await',
    '  File "/opt/harness/worker/runtime/run.py", line 180 in average_gradients',
    '  File "/store/jobs/j1/program/train.py", line 40 in <module>',
    "said later",
]
STUCK = [
    "Stack (most recent call first):",
    '  File "/usr/lib/python3/random.py", line 9 in shuffle',
    '  File "/store/jobs/j1/program/Data.py", line 12 in load',
    '  File "/store/jobs/j1/program/train.py", line 31 in <module>',
]


def test_the_last_stack_of_a_log_is_read_innermost_first() -> None:
    assert stack_of([*WAITING, *STUCK])[1] == ("/store/jobs/j1/program/Data.py", 12, "load")
    assert len(stack_of(WAITING)) == 3
    assert stack_of(["nothing of the kind", "  File too large"]) == []


def test_who_waits_for_other_ranks_is_told_from_who_is_stuck() -> None:
    assert waits(stack_of(WAITING)) and not waits(stack_of(STUCK))
    words, stack, all_wait = standing({0: WAITING, 1: STUCK})
    assert words == "Rank 1 stands in Data.py, line 12 (load)."
    assert stack and stack.splitlines()[-1] == '  File "random.py", line 9, in shuffle'
    assert "/" not in stack.replace("</", "") and not all_wait


def test_where_all_wait_nobody_is_named_and_without_stacks_nothing_is_said() -> None:
    words, stack, all_wait = standing({0: WAITING, 1: WAITING})
    assert "wait for others" in words and stack and all_wait
    assert stack.splitlines()[1:] == ['  File "train.py", line 40, in <module>'], "no frames of the platform"
    assert standing({0: WAITING[:3]}) == ("The ranks here wait for others.", None, True)
    assert standing({0: ["no stack"]}) == ("", None, False)


def test_a_stack_without_lines_of_the_program_names_the_innermost() -> None:
    words, _, _ = standing({2: STUCK[:2]})
    assert words == "Rank 2 stands in random.py, line 9 (shuffle)."
