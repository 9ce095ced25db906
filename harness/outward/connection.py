"""Connections to addresses that were checked, which end in time however slowly the other side sends."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from harness.outward.address import IPAddress, Target

CONNECT_S = 4.0
"""For one address; at most `ADDRESSES_MAX` are tried."""
ADDRESSES_MAX = 2
LOOK_S = 0.5
"""A moment that was put forward is late by so much at most."""


class Cut:
    """Ends a connection at a moment that may be put off: a socket's own timeout begins anew with every byte."""

    def __init__(self, raw: socket.socket, wait_s: float) -> None:
        self._descriptor = raw.dup()  # stays good when TLS takes the socket over
        self._ended = threading.Event()
        self.renew(wait_s)
        self.was_cut = False
        self._thread = threading.Thread(target=self._run, name="cut", daemon=True)
        self._thread.start()

    def renew(self, wait_s: float) -> None:
        """From now on so long."""
        self._cut_at_s = time.monotonic() + wait_s

    def end(self) -> None:
        """Cut nothing any more."""
        self._ended.set()
        self._thread.join()
        self._descriptor.close()

    def _run(self) -> None:
        while not self._ended.wait(min(LOOK_S, max(0.0, self._cut_at_s - time.monotonic()))):
            if time.monotonic() >= self._cut_at_s:
                self.was_cut = True
                with suppress(OSError):
                    self._descriptor.shutdown(socket.SHUT_RDWR)
                return


@contextmanager
def cut_after(raw: socket.socket, wait_s: float) -> Iterator[Cut]:
    """End the connection after so long, whatever still drips in. Yields what tells whether it was ended so."""
    cut = Cut(raw, wait_s)
    try:
        yield cut
    finally:
        cut.end()


@contextmanager
def connected(addresses: Sequence[IPAddress], port: int, *, silent_s: float) -> Iterator[socket.socket]:
    """A socket to the first address that takes one; it waits for `silent_s` at a time. Raises `OSError`."""
    trouble: OSError = OSError("no address")
    for address in addresses[:ADDRESSES_MAX]:
        try:
            raw = socket.create_connection((str(address), port), timeout=CONNECT_S)
        except OSError as error:
            trouble = error
            continue
        raw.settimeout(silent_s)
        with raw:
            yield raw
        return
    raise trouble


def secured(raw: socket.socket, target: Target, context: ssl.SSLContext | None) -> socket.socket:
    """The name is what the certificate must prove; the address is the one that was checked."""
    if target.scheme == "http":
        return raw
    return (context or ssl.create_default_context()).wrap_socket(raw, server_hostname=target.host)
