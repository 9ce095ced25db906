"""How an attempt ended, from what was seen."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from worker.cause import Seen, end_data, judge
from worker.events import Event, EventKind, FailureCode, Outcome
from worker.machine_faults import disk_words
from worker.plan import EXIT_PAUSED, EXIT_PEER_LOST, EXIT_REPORTED
from worker.watchdog import Verdict

NO_SPACE = "OSError: No space left on device"
ABORTED = "terminate called: what():  CUDA error: uncorrectable ECC error encountered"


def seen(**changes: Any) -> Seen:
    return Seen(1 << 30, 1 << 30, **{"sandbox_code": 0, **changes})


def error(rank: int, code: str, **more: Any) -> Event:
    data = {"code": code, "message": code, "hint": "", **more}
    return Event(kind=EventKind.ERROR, job_id="j", token=1, rank=rank, seq=0, time_s=0.0, data=data)


@pytest.mark.parametrize(
    ("facts", "outcome", "code"),
    [
        ({"codes": {0: 0}}, Outcome.SUCCEEDED, None),
        ({"codes": {0: 0, 1: 0}, "ranks": 2}, Outcome.SUCCEEDED, None),
        ({"codes": {0: 0}, "ranks": 2, "sandbox_code": -9}, Outcome.LOST, "start_failed"),
        ({"codes": {0: EXIT_PAUSED, 1: EXIT_PAUSED}, "ranks": 2}, Outcome.PAUSED, None),
        ({"codes": {0: EXIT_PAUSED}, "cancelled": True}, Outcome.CANCELLED, None),
        ({"codes": {0: 1}, "ended_elsewhere": True}, Outcome.CANCELLED, None),
        ({"codes": {0: 0}, "shut_down": True}, Outcome.SUCCEEDED, None),
        ({"codes": {}, "shut_down": True}, Outcome.LOST, "node_stopped"),
        ({"codes": {}, "pause_overdue": True}, Outcome.PAUSED, None),
        ({"codes": {0: -9}}, Outcome.LOST, "rank_killed"),
        ({"codes": {0: -9}, "out_of_memory": True}, Outcome.FAILED, "out_of_memory"),
        ({"codes": {0: -15}}, Outcome.LOST, "rank_killed"),
        ({"codes": {0: EXIT_PAUSED}, "shut_down": True}, Outcome.LOST, "node_stopped"),
        ({"codes": {0: EXIT_PAUSED}, "shut_down": True, "pause_wanted": True}, Outcome.PAUSED, None),
        ({"codes": {0: EXIT_PAUSED}, "leaves": True, "pause_wanted": True}, Outcome.PAUSED, None),
        ({"codes": {0: EXIT_PAUSED}, "leaves": True}, Outcome.LOST, "node_stopped"),
        ({"codes": {0: 0}, "leaves": True}, Outcome.SUCCEEDED, None),
        ({"codes": {0: 1}, "leaves": True}, Outcome.LOST, "node_stopped"),
        ({"codes": {0: EXIT_PEER_LOST, 1: 0}, "ranks": 2}, Outcome.FAILED, "program_error"),
        ({"codes": {0: 1, 1: 0}, "ranks": 2, "tails": {0: ["HorovodInternalError"]}}, Outcome.FAILED, "program_error"),
        ({"codes": {0: -11}}, Outcome.FAILED, "program_error"),
        ({"codes": {0: -25}}, Outcome.FAILED, "disk_full"),
        ({"codes": {0: -40}}, Outcome.FAILED, "program_error"),
        ({"codes": {0: EXIT_PEER_LOST, 1: -9}, "ranks": 2}, Outcome.LOST, "rank_killed"),
        ({"codes": {0: EXIT_PEER_LOST}, "ranks": 2}, Outcome.LOST, "rank_killed"),
        ({"codes": {0: 1}, "tails": {0: ["MemoryError"]}}, Outcome.FAILED, "out_of_memory"),
        ({"codes": {0: 1}, "tails": {0: [NO_SPACE]}}, Outcome.FAILED, "disk_full"),
        ({"codes": {0: 1}, "tails": {0: ["ValueError: x"]}}, Outcome.FAILED, "program_error"),
        ({"codes": {0: EXIT_REPORTED}, "errors": [error(0, "nan_loss")]}, Outcome.FAILED, "nan_loss"),
        ({"codes": {0: EXIT_REPORTED}, "errors": [error(0, "invented")]}, Outcome.FAILED, "program_error"),
        ({"codes": {0: EXIT_REPORTED}, "errors": [error(0, "device_fault")]}, Outcome.LOST, "device_fault"),
        ({"codes": {0: EXIT_REPORTED}, "errors": [error(0, "disk_fault")]}, Outcome.LOST, "disk_fault"),
        ({"codes": {0: EXIT_REPORTED}, "errors": [error(0, "node_lost")]}, Outcome.FAILED, "node_lost"),
        ({"codes": {0: 1}, "tails": {0: [NO_SPACE]}, "own_disk": True}, Outcome.LOST, "node_disk_full"),
        ({"codes": {0: EXIT_REPORTED}, "errors": [error(0, "disk_full")]}, Outcome.FAILED, "disk_full"),
        (
            {"codes": {0: EXIT_REPORTED}, "errors": [error(0, "disk_full")], "own_disk": True},
            Outcome.LOST,
            "node_disk_full",
        ),
        (
            {"codes": {0: EXIT_REPORTED}, "errors": [error(0, "disk_full", limit=True)], "own_disk": True},
            Outcome.FAILED,
            "disk_full",
        ),
        ({"codes": {0: -25}, "own_disk": True}, Outcome.FAILED, "disk_full"),
        ({"codes": {0: -6}, "tails": {0: [ABORTED]}}, Outcome.LOST, "device_fault"),
        ({"codes": {0: 1, 1: -6}, "ranks": 2, "tails": {1: [ABORTED]}}, Outcome.LOST, "device_fault"),
        ({"codes": {}, "sandbox_code": 125, "sandbox_text": "sandbox: x"}, Outcome.LOST, "start_failed"),
        ({"codes": {}, "verdict": Verdict(FailureCode.STALLED, "m", "h")}, Outcome.FAILED, "stalled"),
        ({"verdict": Verdict(FailureCode.STALLED, "m", "h"), "cancelled": True}, Outcome.FAILED, "stalled"),
    ],
)
def test_the_outcome_follows_from_what_was_seen(facts: dict[str, Any], outcome: Outcome, code: str | None) -> None:
    got, failure = judge(seen(**facts))
    assert (got, failure and failure["code"]) == (outcome, code)


def test_ranks_that_are_ended_as_others_paused_have_not_paused_before_they_met_them() -> None:
    asked = seen(node="left", pause_wanted=True, pause_unmet=True)
    assert end_data(asked, *judge(asked)) == {"outcome": "paused", "failure": None, "node": "left", "unmet": True}
    ended = seen(node="left", pause_wanted=True, pause_unmet=True, ended_elsewhere=True)
    assert end_data(ended, *judge(ended)) == {"outcome": "cancelled", "failure": None, "node": "left"}


def test_a_fault_of_the_machine_names_its_node() -> None:
    _, failure = judge(seen(codes={0: EXIT_REPORTED}, errors=[error(0, "device_fault")], node="gpu-3"))
    assert failure and failure["message"] == "device_fault This was on the node gpu-3."


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        (16, "training.batch_size to 16"),
        (0, "smaller model"),
        (None, "smaller batch"),
        (-5, "smaller batch"),
        ("8", "smaller batch"),
    ],
)
@pytest.mark.parametrize("how", ["kernel", "watchdog"])
def test_out_of_memory_names_the_batch_size_that_a_rank_found_to_fit(batch: Any, words: str, how: str) -> None:
    verdict = Verdict(FailureCode.OUT_OF_MEMORY, "m", "h") if how == "watchdog" else None
    facts = seen(codes={0: -9}, out_of_memory=how == "kernel", verdict=verdict)
    data = {"step": 0, "fitting_batch": batch}
    facts.event(Event(kind=EventKind.PROGRESS, job_id="j", token=1, rank=0, seq=0, time_s=0.0, data=data))
    outcome, failure = judge(facts)
    assert failure
    assert (outcome, failure["code"]) == (Outcome.FAILED, "out_of_memory")
    assert words in failure["hint"]


@pytest.mark.parametrize(
    ("phase", "batch", "message", "hint"),
    [
        ("loading", None, "while it read the data or built the model", "a smaller batch is no help"),
        ("loading", 16, "A batch size of about 16", "training.batch_size to 16"),
        ("training", 16, "in a step of the training", "training.accumulate"),
        ("training", None, "in a step of the training", "smaller batch"),
        ("training", 0, "Not even a batch", "smaller model"),
        ("validation", 16, "predicted the validation rows", "data.split.validation"),
        ("checkpoint", 16, "saved a checkpoint", "smaller model"),
        ("analysis", 16, "after the training", "set a higher resources.memory_gib, then resume from it."),
        ("invented", 16, "memory limit of 1", "training.batch_size to 16"),
        (["training"], None, "memory limit of 1", "smaller batch"),
    ],
)
def test_out_of_memory_tells_what_the_run_was_at_and_what_helps_there(
    phase: Any, batch: int | None, message: str, hint: str
) -> None:
    facts = seen(codes={0: -9}, out_of_memory=True)
    tried = {"kind": EventKind.PROGRESS, "job_id": "j", "token": 1, "rank": 0, "time_s": 0.0}
    facts.event(Event(**tried, seq=0, data={"step": 0, "phase": "loading", "fitting_batch": batch}))
    facts.event(Event(**tried, seq=1, data={"step": 0, "phase": phase}))
    failure = judge(facts)[1]
    assert failure and "resources.memory_gib" in failure["hint"]
    assert message in failure["message"] and hint in failure["hint"]


@pytest.mark.parametrize("batch", [16, 0, None])
def test_a_batch_size_is_said_to_fit_the_model_alone_not_what_the_program_keeps(batch: int | None) -> None:
    facts = seen(codes={0: -9}, out_of_memory=True, phase="training", fitting_batch=batch)
    failure = judge(facts)[1]
    assert failure
    told = "as far as the model goes" in failure["message"], "in lists for instance" in failure["hint"]
    assert told == (bool(batch), bool(batch))


def test_out_of_memory_by_growth_suggests_no_batch_size() -> None:
    facts = seen(codes={0: -9}, out_of_memory=True)
    tried = {"kind": EventKind.PROGRESS, "job_id": "j", "token": 1, "rank": 0, "time_s": 0.0}
    facts.event(Event(**tried, seq=0, data={"step": 0, "phase": "loading", "fitting_batch": 16}))
    facts.event(Event(**tried, seq=1, data={"step": 9, "phase": "training", "memory_grows": 1}))
    facts.event(Event(**tried, seq=2, data={"step": 10, "phase": "training"}))
    failure = judge(facts)[1]
    assert failure and "grows from step to step" in failure["hint"]
    assert "16" not in failure["message"] + failure["hint"]


def test_of_a_run_without_progress_the_rank_that_waits_for_another_node_is_not_to_blame() -> None:
    stack = ["Stack (most recent call first):", '  File "/x/worker/runtime/collective.py", line 1 in _await']
    stalled = {"verdict": Verdict(FailureCode.STALLED, "m", "h"), "tails": {0: stack}}
    assert (judge(seen(**stalled, several_nodes=True))[1] or {})["suffered"]
    assert "suffered" not in (judge(seen(**stalled))[1] or {})


@pytest.mark.parametrize(
    ("several_nodes", "words"),
    [(False, "A rank disappeared"), (True, "The ranks on this node lost those on the others")],
)
def test_who_has_lost_others_says_whether_they_may_be_on_other_nodes(several_nodes: bool, words: str) -> None:
    outcome, failure = judge(seen(codes={0: EXIT_PEER_LOST}, several_nodes=several_nodes))
    assert failure
    assert (outcome, failure["suffered"]) == (Outcome.LOST, True) and failure["message"].startswith(words)


def test_ranks_that_do_not_notice_a_cut_network_are_lost_where_all_of_them_wait_for_another_node() -> None:
    stack = ["Stack (most recent call first):", '  File "/x/torch/distributed/c10d.py", line 1 in all_reduce']
    waiting = {"verdict": Verdict(FailureCode.STALLED, "m", "h"), "tails": {0: stack}, "notices_cuts": False}
    outcome, failure = judge(seen(**waiting, several_nodes=True))
    assert failure
    assert (outcome, failure["code"], failure["suffered"]) == (Outcome.LOST, "rank_killed", True)
    outcome, failure = judge(seen(**waiting))
    assert failure
    assert (outcome, failure["code"]) == (Outcome.FAILED, "stalled"), "within a node there is no network to cut"


def test_where_all_wait_and_the_other_nodes_answer_it_is_a_deadlock_and_no_cut_network() -> None:
    stack = ["Stack (most recent call first):", '  File "/x/torch/distributed/c10d.py", line 1 in recv']
    waiting = {
        "verdict": Verdict(FailureCode.STALLED, "m", "h"), "tails": {0: stack}, "notices_cuts": False,
        "several_nodes": True,
    }  # fmt: skip
    facts = seen(**waiting)
    facts.status(b'{"reaches": true}', {0})
    outcome, failure = judge(facts)
    assert failure
    assert (outcome, failure["code"], failure["suffered"]) == (Outcome.FAILED, "stalled", True)
    assert "no network is cut: the ranks wait for each other" in failure["message"]
    assert "collective call" in failure["hint"] and "c10d.py" in failure["traceback"]
    facts = seen(**waiting)
    facts.status(b'{"reaches": false}', {0})
    outcome, failure = judge(facts)
    assert failure
    assert (outcome, failure["code"], failure["cut"]) == (Outcome.LOST, "rank_killed", True)
    facts = seen(**waiting)
    for line in (b'{"reaches": 1}', b'{"reaches": "true"}'):
        facts.status(line, {0})
    assert facts.reaches is None and "cut" not in (judge(facts)[1] or {})


def test_the_rank_that_failed_is_the_cause_even_if_its_sibling_ended_first() -> None:
    tails = {0: ["HorovodInternalError: Horovod has been shut down"], 1: ["ValueError: the cause"]}
    _, failure = judge(seen(codes={0: 1, 1: 1}, ranks=2, tails=tails))
    assert failure
    assert "the cause" in failure["message"]


def test_a_rank_killed_from_outside_is_the_cause_even_if_gloo_aborted_its_sibling_first() -> None:
    tails = {0: ["terminate called after throwing an instance of 'gloo::IoException'"]}
    outcome, failure = judge(seen(codes={0: -6, 1: -9}, ranks=2, tails=tails))
    assert failure
    assert (outcome, failure["code"]) == (Outcome.LOST, "rank_killed")


def test_a_rank_that_reported_is_the_cause_even_if_its_sibling_was_aborted_first() -> None:
    tails = {0: ["terminate called without an active exception"]}
    facts = seen(codes={0: -6, 1: EXIT_REPORTED}, ranks=2, tails=tails, errors=[error(1, "nan_loss")])
    _, failure = judge(facts)
    assert failure
    assert failure["code"] == "nan_loss"


def test_lies_in_the_status_pipe_are_passed_over() -> None:
    seen = Seen(1, 1)
    for line in (b"{", b"[]", b"5", b"[" * 5000, b'{"own": true}', b'{"own": true, "rank": [], "code": 0}',
                 b'{"own": true, "rank": 7, "code": 0}', b'{"own": true, "rank": 0, "code": "x"}',
                 b'{"own": true, "rank": 0, "code": 1e999}', b'{"port": 1e999}'):  # fmt: skip
        seen.status(line, {0})
    assert seen.codes == {}
    seen.status(b'{"own": true, "rank": 0, "code": 3}', {0})
    assert seen.codes == {0: 3}


def test_a_program_that_never_began_a_run_has_not_succeeded_whatever_its_exit_code() -> None:
    outcome, failure = judge(seen(codes={0: 0}, began=False))
    assert failure and (outcome, failure["code"]) == (Outcome.FAILED, "program_error")
    assert "Run.start" in failure["message"] and failure["hint"]
    assert judge(seen(codes={1: 0}, began=False)) == (Outcome.SUCCEEDED, None)  # the first one is on another node


def test_a_disk_that_takes_no_report_either_is_known_by_what_the_rank_has_printed() -> None:
    message, hint = disk_words(OSError(errno.EROFS, "Read-only file system", "/w/checkpoints"), {})
    log = ["Traceback (most recent call last):", "OSError: [Errno 30] Read-only file system", "", message, hint]
    outcome, failure = judge(seen(codes={0: EXIT_REPORTED}, tails={0: log}, node="left"))
    assert failure and (outcome, failure["code"]) == (Outcome.LOST, "disk_fault")
    assert failure["message"] == f"{message} This was on the node left."
    assert judge(seen(codes={0: 1}, tails={0: log}))[0] is Outcome.FAILED  # a program of its own words


def test_an_exception_before_the_run_began_names_its_line_of_the_program() -> None:
    log = [
        "Traceback (most recent call last):",
        '  File "/jobs/j/program/train.py", line 7, in <module>',
        "    import model",
        '  File "/jobs/j/program/model.py", line 2, in <module>',
        "    import nonesuch",
        '  File "/usr/lib/python3/importlib.py", line 99, in load',
        "ModuleNotFoundError: No module named 'nonesuch'",
    ]
    _, failure = judge(seen(codes={0: 1}, tails={0: log}))
    assert failure and failure["message"] == "model.py, line 2: ModuleNotFoundError: No module named 'nonesuch'"
    _, failure = judge(seen(codes={0: 1}, tails={0: log[-2:]}))
    assert failure and failure["message"].startswith("Rank 0 ended with exit code 1: ModuleNotFoundError")
