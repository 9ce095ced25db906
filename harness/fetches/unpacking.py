"""Bytes that were packed for the way (`Content-Encoding: gzip`), unpacked a piece at a time, and never a bomb."""

from __future__ import annotations

import zlib
from collections.abc import Callable

from harness.fetches.trouble import FetchRefused, FetchTrouble

RATIO_MAX = 200
"""Unpacked to packed, beyond `FLOOR_BYTES`: as of archives."""
FLOOR_BYTES = 4 << 20
PIECE_BYTES = 256 << 10
_GZIP = 16 + zlib.MAX_WBITS


class Unpacked:
    """Reads packed pieces, gives unpacked ones."""

    def __init__(self, read: Callable[[], bytes]) -> None:
        self._read = read
        self._unpacker = zlib.decompressobj(_GZIP)
        self._waiting, self._is_holding = b"", False
        self._packed = self._unpacked = 0

    def read(self) -> bytes:
        """At most `PIECE_BYTES`; none at the end. Raises `FetchTrouble`."""
        while self._waiting or self._is_holding or self._more():
            piece = self._unpack()
            self._unpacked += len(piece)
            if self._unpacked > max(FLOOR_BYTES, RATIO_MAX * self._packed):
                raise FetchRefused(
                    "bomb",
                    f"What the server sends unpacks to more than {RATIO_MAX} times its size, so it was refused.",
                    "If this is not an attack, download the file, and upload it packed as .gz or as Parquet.",
                )
            if piece:
                return piece
        return b""

    def _unpack(self) -> bytes:
        try:
            piece = self._unpacker.decompress(self._waiting, PIECE_BYTES)
        except zlib.error as error:
            message = "The server says it packs the file with gzip, but what it sends is not gzip."
            raise FetchRefused("encoding", message, "Whoever runs the server has to fix it.") from error
        self._is_holding = len(piece) == PIECE_BYTES  # there may be more of what was taken in
        self._waiting = self._unpacker.unconsumed_tail or self._unpacker.unused_data
        if self._unpacker.eof and self._waiting:
            self._unpacker = zlib.decompressobj(_GZIP)  # gzip files may follow one another
        return piece

    def _more(self) -> bool:
        """Take in the next packed piece; whether there was one."""
        self._waiting = self._read()
        self._packed += len(self._waiting)
        if not self._waiting and self._packed and not self._unpacker.eof:
            raise FetchTrouble("cut_off", "The gzip data from the server ends in the middle.")
        return bool(self._waiting)
