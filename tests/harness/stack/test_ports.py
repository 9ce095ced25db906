"""Free ports."""

import socket

import pytest

from harness.stack.home import StackError
from harness.stack.ports import port_free, port_is_free, port_take


def test_a_taken_port_moves_the_portal_to_the_next_free_one():
    with port_take("127.0.0.1", 18400) as first, port_take("127.0.0.1", first.getsockname()[1]) as second:
        assert second.getsockname()[1] > first.getsockname()[1]


def test_the_taken_port_accepts_connections_before_the_portal_runs():
    with port_take("127.0.0.1", 18400) as listener:
        socket.create_connection(listener.getsockname(), timeout=5).close()


def test_a_port_is_free_on_an_address_of_ipv6_until_somebody_listens_there():
    with port_take("::1", 18400) as listener:
        taken = listener.getsockname()[1]
        assert not port_is_free(taken, "127.0.0.1", "::1")
    assert port_is_free(taken, "::1")


def test_an_address_that_is_not_ours_is_an_error_with_a_next_step():
    with pytest.raises(StackError, match="DLH_HOST"):
        port_take("203.0.113.1", 18400)


def test_the_preferred_port_is_used_when_free_and_another_one_when_not():
    free = port_free(None, "127.0.0.1")
    assert port_free(free, "127.0.0.1") == free and port_is_free(free, "127.0.0.1")
    with socket.socket() as other:
        other.bind(("127.0.0.1", free))
        other.listen()
        assert port_free(free, "127.0.0.1") != free and not port_is_free(free, "127.0.0.1")


def test_a_port_that_is_taken_at_one_address_is_not_free_at_several():
    with port_take("127.0.0.1", 18400) as taken:
        port = taken.getsockname()[1]
        assert port_is_free(port, "127.0.0.2") and not port_is_free(port, "127.0.0.2", "127.0.0.1")
        assert port_free(port, "127.0.0.2", "127.0.0.1") != port
