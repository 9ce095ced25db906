"""Connections that notice a cut network. TCP by itself sends again for a quarter of an hour, and waits for ever."""

from __future__ import annotations

import socket


def cut_options(cut_s: int) -> dict[int, int]:
    """TCP options beside SO_KEEPALIVE: a connection over which nothing gets through for so long is given up.

    The kernels answer for their programs, so that a peer may compute for as long as it likes. One that does not read
    what is sent to it counts as cut off as well. Systems other than Linux lack some of the options.
    """
    wanted = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": cut_s * 1000}
    return {getattr(socket, name): value for name, value in wanted.items() if hasattr(socket, name)}
