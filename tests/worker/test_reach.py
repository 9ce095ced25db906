"""Whether other nodes answer: one that refuses is there, one that says nothing is not."""

from __future__ import annotations

import errno
import socket

import pytest

from worker import reach
from worker.reach import all_answer


def test_one_that_listens_and_one_that_refuses_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert all_answer(["127.0.0.1", "127.0.0.2"], port) is True
    assert all_answer(["127.0.0.1"], port) is True


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (TimeoutError(), False),
        (OSError(errno.EHOSTUNREACH, "No route to host"), False),
        (OSError(errno.ENETUNREACH, "Network is unreachable"), False),
        (PermissionError(errno.EACCES, "forbidden by the sandbox"), None),
        (socket.gaierror(socket.EAI_NONAME, "no such host"), None),
    ],
)
def test_one_that_says_nothing_is_cut_off_and_where_nobody_may_ask_nothing_is_known(
    monkeypatch: pytest.MonkeyPatch, error: OSError, told: bool | None
) -> None:
    there = socket.socket()

    def connect(address: tuple[str, int], timeout: float) -> socket.socket:
        if address[0] == "there":
            return there
        raise error

    monkeypatch.setattr(reach.socket, "create_connection", connect)
    assert all_answer(["there", "other"], 1) is told
    assert all_answer([], 1) is None
