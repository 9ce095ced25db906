"""One picture: decoded safely, turned upright, made small enough, and encoded for training."""

from __future__ import annotations

import io
import re
import struct
import warnings
import zlib
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError

FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF")
MAX_SIDE = 512
"""Longer sides are scaled down to this when packed."""
MAX_PIXELS = 89_478_485
"""As Pillow's own limit against decompression bombs, but an error from the first pixel beyond."""
THUMBNAIL_SIDE = 96
_ORIENTATION = 0x0112
_JPEG_QUALITY = 95
_PNG_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
_PNG_DEPTH_AT = 24
"""Byte of a PNG with its bits per colour: Pillow opens 16 bits of red, green and blue as 8 without a word."""

# The size is checked right after the header is read; Pillow's warning for half of its limit would say nothing more.
warnings.filterwarnings("error", category=Image.DecompressionBombWarning)


class BadPicture(Exception):
    """The picture cannot be used; the message says why, in words that follow the file's name."""


@dataclass(frozen=True)
class Picture:
    """A decoded and packed picture."""

    encoded: bytes
    """PNG or JPEG."""
    format: str
    """As uploaded."""
    width: int
    """As uploaded, upright."""
    height: int
    packed_width: int
    packed_height: int
    grey: bool
    resized: bool
    frames: int
    deep: bool
    """Had more than 8 bits per colour, of which the highest are kept."""
    see_through: bool
    """Had transparency, now on white."""
    digest: bytes
    """Over the pixels: equal for equal pictures, however they are encoded."""
    histogram: npt.NDArray[np.int64]
    """[channels, 256] counts of values; 1 channel if grey, else 3."""
    image: Image.Image

    def thumbnail(self) -> bytes:
        """PNG of at most `THUMBNAIL_SIDE` pixels."""
        small = self.image.copy()
        small.thumbnail((THUMBNAIL_SIDE, THUMBNAIL_SIDE), Image.Resampling.BOX)
        return _png(small)


def picture_read(body: bytes) -> Picture:
    """Decode and pack a picture. Raises `BadPicture`."""
    if not body:
        raise BadPicture("is empty")
    try:
        return _read(body)
    except BadPicture:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        told = re.search(r"(\d+) pixels", str(error))  # Pillow refuses before the width and height can be asked
        shown = f"{int(told[1]):,} pixels, more than {MAX_PIXELS:,}" if told else f"more than {MAX_PIXELS:,} pixels"
        raise BadPicture(f"has {shown}") from error
    except UnidentifiedImageError as error:
        raise BadPicture("is not a PNG, JPEG, WebP, BMP or GIF") from error
    except (OSError, SyntaxError, ValueError, TypeError, KeyError, IndexError, EOFError) as error:
        raise BadPicture(f"is damaged ({str(error)[:80] or type(error).__name__})") from error
    except (struct.error, zlib.error, OverflowError, ZeroDivisionError) as error:
        raise BadPicture(f"is damaged ({str(error)[:80]})") from error


def _read(body: bytes) -> Picture:
    with Image.open(io.BytesIO(body), formats=FORMATS) as opened:
        kind = str(opened.format)
        width, height = opened.size
        _refuse_unfit(kind, width, height, body)
        frames = int(getattr(opened, "n_frames", 1))
        orientation = opened.getexif().get(_ORIENTATION, 1)
        untouched = kind == "JPEG" and orientation in (0, 1) and opened.mode in ("L", "RGB")
        if kind == "JPEG":
            opened.draft(None, (2 * MAX_SIDE, 2 * MAX_SIDE))
        opened.load()
        upright = ImageOps.exif_transpose(opened)
    width, height = (height, width) if orientation in (5, 6, 7, 8) else (width, height)
    plain, see_through = _plain(upright)
    grey = plain.mode == "L" or _is_grey(plain)
    if grey and plain.mode != "L":
        plain = plain.getchannel(0)
    resized = max(width, height) > MAX_SIDE
    if resized:
        plain.thumbnail((MAX_SIDE, MAX_SIDE), Image.Resampling.LANCZOS)
    encoded = body if untouched and not resized else _encode(plain, kind)
    counts = np.asarray(plain.histogram(), np.int64).reshape(-1, 256)
    digest = blake2b(f"{plain.mode}{plain.size}".encode() + plain.tobytes(), digest_size=16).digest()
    return Picture(
        encoded,
        kind,
        width,
        height,
        plain.width,
        plain.height,
        grey,
        resized,
        frames,
        _is_deep(upright) or (kind == "PNG" and body[_PNG_DEPTH_AT] > 8),
        see_through,
        digest,
        counts,
        plain,
    )


def _refuse_unfit(kind: str, width: int, height: int, body: bytes) -> None:
    """Pass for what may be decoded. Raises `BadPicture`."""
    _refuse_size(width, height)
    if kind == "PNG" and not _png_is_whole(body):
        raise BadPicture("is cut: its last rows are missing")


def _refuse_size(width: int, height: int) -> None:
    if width * height > MAX_PIXELS:
        raise BadPicture(f"has {width:,} x {height:,} pixels, more than {MAX_PIXELS:,}")


def _plain(image: Image.Image) -> tuple[Image.Image, bool]:
    """(grey or RGB picture with 8 bits, whether transparency was laid on white)."""
    if image.mode in ("L", "RGB"):
        if "transparency" not in image.info:
            return image, False
        image = image.convert("RGBA")
    if _is_deep(image):
        return _eight_bits(image), False
    if image.mode == "1":
        return image.convert("L"), False
    if image.mode == "P" and "transparency" not in image.info:
        return image.convert("RGB"), False
    if image.mode in ("LA", "PA", "P", "RGBA", "La", "RGBa"):
        layered = image.convert("RGBA")
        lowest = layered.getchannel("A").getextrema()[0]
        if lowest == 255:
            return layered.convert("RGB"), False
        ground = Image.new("RGBA", layered.size, (255, 255, 255, 255))
        return Image.alpha_composite(ground, layered).convert("RGB"), True
    return image.convert("RGB"), False


def _is_deep(image: Image.Image) -> bool:
    return image.mode.startswith("I") or image.mode == "F"


def _eight_bits(image: Image.Image) -> Image.Image:
    """16-bit grey to 8 bits by its high byte."""
    values = np.asarray(image).astype(np.float64)
    return Image.fromarray(np.clip(values / 257, 0, 255).round().astype(np.uint8))


def _is_grey(image: Image.Image) -> bool:
    probe = image.resize((8, 8), Image.Resampling.NEAREST)
    for candidate in (probe, image):
        values = np.asarray(candidate)
        if (values[..., 0] != values[..., 1]).any() or (values[..., 1] != values[..., 2]).any():
            return False
    return True


def _encode(image: Image.Image, kind: str) -> bytes:
    if kind != "JPEG":
        return _png(image)
    target = io.BytesIO()
    image.save(target, "JPEG", quality=_JPEG_QUALITY)
    return target.getvalue()


def _png(image: Image.Image) -> bytes:
    target = io.BytesIO()
    image.save(target, "PNG")
    return target.getvalue()


def _png_is_whole(body: bytes) -> bool:
    """Whether a PNG that is not interlaced has all its rows: Pillow loads one with too few without a word."""
    width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", body[16:29])
    if interlaced or colour not in _PNG_CHANNELS:
        return True
    expected = ((width * depth * _PNG_CHANNELS[colour] + 7) // 8 + 1) * height
    inflate = zlib.decompressobj()
    found = 0
    for piece in _png_data(body):
        while piece and found < expected and not inflate.eof:
            found += len(inflate.decompress(piece, 1 << 20))
            piece = inflate.unconsumed_tail
    # beyond what is expected `flush` would unpack all there is
    return found >= expected or bool(found + len(inflate.flush()) >= expected)


def _png_data(body: bytes) -> list[bytes]:
    pieces = []
    at = 8
    while at + 8 <= len(body):
        length, name = struct.unpack(">I4s", body[at : at + 8])
        if name == b"IDAT":
            pieces.append(body[at + 8 : at + 8 + length])
        at += length + 12
    return pieces
