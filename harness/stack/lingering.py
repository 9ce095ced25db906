"""The portal's side of a connection: uvicorn's, but that an early answer reaches a client that is still sending.

A kernel resets a connection that is closed with bytes unread, and who is reset may lose the answer before reading it.
So after an answer that came before the end of the body the portal ends its own direction alone, and for a moment drops
what still comes, as nginx does by `lingering_close`. Nothing of that is parsed, kept or counted as a body.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LINGER_S = 5.0
LINGER_BYTES_MAX = 16 << 20
"""Two pieces of an upload. Who sends more without reading the answer is reset."""


class LingeringProtocol(HttpToolsProtocol):
    """Of one connection."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Close by way of `_Lingering`."""
        self.lingering = _Lingering(self, transport)
        super().connection_made(self.lingering)  # type: ignore[arg-type]

    def data_received(self, data: bytes) -> None:
        """Parse it, or drop it where the answer was given already."""
        if self.lingering.is_on:
            self.lingering.drop(len(data))
        else:
            super().data_received(data)

    @property
    def answers_early(self) -> bool:
        """Whether the answer is complete, and the body is not."""
        return self.cycle is not None and self.cycle.response_complete and self.cycle.more_body


class _Lingering:
    """A transport whose `close` leaves a client that is still sending the time to read its answer."""

    def __init__(self, protocol: LingeringProtocol, transport: asyncio.Transport) -> None:
        self._protocol, self._transport = protocol, transport
        self._left_bytes = LINGER_BYTES_MAX
        self._end: asyncio.TimerHandle | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    @property
    def is_on(self) -> bool:
        """Whether the answer was given and what comes is dropped."""
        return self._end is not None

    def is_closing(self) -> bool:
        """Nothing more is answered."""
        return self.is_on or self._transport.is_closing()

    def close(self) -> None:
        """At once; where the answer is early only when asked again, or once the time is up."""
        if self.is_closing() or not self._protocol.answers_early:
            self._close()
            return
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._end = self._protocol.loop.call_later(LINGER_S, self._close)
        self._protocol.flow.resume_reading()

    def drop(self, size_bytes: int) -> None:
        """So much has come."""
        self._left_bytes -= size_bytes
        if self._left_bytes < 0:
            self._close()

    def _close(self) -> None:
        if self._end is not None:
            self._end.cancel()
        self._transport.close()
