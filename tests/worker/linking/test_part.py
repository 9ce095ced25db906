"""Two agents time the link between them; nobody else has a say in it, and whatever happens control is told."""

from __future__ import annotations

import socket
import threading
import time
from typing import Any

import pytest

from tests.worker.linking.agents import CONNECTS, LISTENS, listening, order, other_token, timed
from worker import registry, tasks
from worker.linking import line, part


@pytest.fixture(autouse=True)
def soon(home: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is waited for long, and blocks are small."""
    monkeypatch.setattr(part, "WAIT_S", 1.0)
    monkeypatch.setattr(part, "SHAKE_S", 0.3)
    monkeypatch.setattr(part, "LIMIT_S", 5.0)
    monkeypatch.setattr(line, "MOST_BYTES", 1 << 20)


def problem(told: list[dict[str, Any]]) -> str:
    assert told[-1]["ok"] is False and told[-1]["request_id"] == "r1"
    return str(told[-1]["problem"]["code"])


def test_the_one_that_connects_tells_what_it_timed_and_the_port_is_closed() -> None:
    first, second = timed()
    assert [sorted(answer) for answer in first] == [["encryption", "port", "request_id"]]
    (answer,) = second
    assert answer["ok"] is True and answer["problem"] is None
    assert first[0]["encryption"] == answer["encryption"] == ""
    assert 0 < answer["round_trip_s"] < 1 and 1e6 < answer["bytes_per_s"] < 1e12 and answer["repeats"] >= 3
    assert answer["round_trip_noise"] >= 0 and answer["bytes_noise"] >= 0
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((LISTENS, first[0]["port"]))


def test_a_wrong_token_gets_nothing_and_the_right_one_is_still_awaited() -> None:
    wrong, right = [], []

    def both(port: int) -> None:
        part.link_time(order("connect", port=port, token=other_token()), wrong.append)
        part.link_time(order("connect", port=port), right.append)

    listening(both)
    assert problem(wrong) == "cut"
    assert right[0]["ok"] is True


def test_one_that_listens_with_another_token_learns_nothing() -> None:
    told: list[dict[str, Any]] = []

    def impostor(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            connection.sendall(b"n" * line.NONCE_BYTES)
            connection.recv(line.NONCE_BYTES + line.PROOF_BYTES, socket.MSG_WAITALL)
            connection.sendall(b"p" * line.PROOF_BYTES)

    with socket.create_server((LISTENS, 0)) as server:
        thread = threading.Thread(target=impostor, args=(server,))
        thread.start()
        part.link_time(order("connect", port=server.getsockname()[1]), told.append)
        thread.join()
    assert problem(told) == "wrong_token"


def test_others_are_not_listened_to_whatever_they_say() -> None:
    right: list[dict[str, Any]] = []
    heard: list[bytes] = []

    def stranger(port: int) -> None:
        with socket.create_connection((LISTENS, port), source_address=("127.0.0.9", 0)) as connection:
            heard.append(connection.recv(64))
        part.link_time(order("connect", port=port), right.append)

    listening(stranger)
    assert heard == [b""] and right[0]["ok"] is True


def test_a_node_for_which_nobody_comes_gives_up_and_says_so() -> None:
    assert problem(listening(lambda _: None)) == "timeout"


def test_one_that_says_nothing_holds_the_port_for_a_moment_only() -> None:
    right: list[dict[str, Any]] = []

    def silent_first(port: int) -> None:
        with socket.create_connection((LISTENS, port), source_address=(CONNECTS, 0)) as connection:
            connection.recv(line.NONCE_BYTES)
            while connection.recv(1):
                pass
        part.link_time(order("connect", port=port), right.append)

    listening(silent_first)
    assert right[0]["ok"] is True


def test_a_peer_that_does_not_answer_is_told() -> None:
    told: list[dict[str, Any]] = []
    with socket.create_server((LISTENS, 0)) as server:  # takes the connection and says nothing
        port = server.getsockname()[1]
        part.link_time(order("connect", port=port), told.append)
    assert problem(told) == "timeout"
    part.link_time(order("connect", port=port), told.append)
    assert problem(told) == "cut" and "refused" in told[-1]["problem"]["message"]


def test_a_cut_in_the_middle_is_told_by_both(monkeypatch: pytest.MonkeyPatch) -> None:
    passed: list[int] = []
    exchange = line.Line.exchange

    def cut(self: line.Line, size: int) -> None:
        passed.append(size)
        if len(passed) > 4:
            self.close()
        exchange(self, size)

    monkeypatch.setattr(line.Line, "exchange", cut)
    first, second = timed()
    assert problem(first) == "cut" and problem(second) == "cut"


def test_a_link_that_stands_still_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part, "LIMIT_S", 0.5)
    monkeypatch.setattr(part, "serve", lambda *_: time.sleep(1.0))
    _, second = timed()
    assert problem(second) == "timeout"


@pytest.mark.parametrize("calls", [1, 2, 3, 6, 7])
def test_a_run_that_begins_on_either_node_ends_it_and_is_no_fault(calls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked are, in turn: who listens, who connects, and from then on one and the other before each block."""
    asked: list[int] = []

    def begins_later() -> bool:
        asked.append(1)
        return len(asked) > calls

    monkeypatch.setattr(part, "runs_here", begins_later)
    first, second = timed()
    assert problem(second) == "busy"
    others = [answer["problem"]["code"] for answer in first if answer.get("problem")]
    assert others == (["timeout"] if calls == 1 else []), "who listens waits for one that does not come"


def test_a_node_on_which_something_runs_does_not_listen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part, "runs_here", lambda: True)
    told = listening(lambda _: None)
    assert problem(told) == "busy" and len(told) == 1


def test_a_run_is_a_supervisor_that_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not part.runs_here()
    alive = type("Alive", (), {"process": lambda self: self})
    monkeypatch.setattr(registry, "entries", lambda: [alive()])
    assert part.runs_here()


def test_an_order_that_waited_behind_other_work_is_not_carried_out() -> None:
    told: list[dict[str, Any]] = []
    part.link_time(order("listen"), told.append, waited_s=part.QUEUED_S + 1)
    assert problem(told) == "busy"


@pytest.mark.parametrize(
    "changes", [{"peer": "no address"}, {"token": "xyz"}, {"own": "203.0.113.77"}, {"network": None, "peer": ""}]
)
def test_an_order_that_makes_no_sense_is_answered(changes: dict[str, Any]) -> None:
    assert problem(listening(lambda _: None, **changes)) in {"bad_request", "cut"}


def test_the_task_answers_control(told: list[tuple[str, Any]]) -> None:
    tasks.link(order("connect", port=1))
    ((name, answer),) = told
    assert name == "control.link_told" and problem([answer]) == "cut"
