"""Connections end at a moment that may be put off, and put forward again."""

from __future__ import annotations

import socket

from harness.outward.connection import cut_after


def test_a_connection_is_cut_at_its_moment_although_that_was_far_off_before():
    ours, theirs = socket.socketpair()
    with ours, theirs, cut_after(ours, 3600) as cut:
        theirs.sendall(b"a")
        assert ours.recv(10) == b"a"
        cut.renew(0.05)
        assert ours.recv(10) == b"" and cut.was_cut


def test_one_that_ended_in_time_is_not_cut():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        with cut_after(ours, 3600) as cut:
            pass
        theirs.sendall(b"a")
        assert ours.recv(10) == b"a" and not cut.was_cut
