"""Pictures to predict for, made plain as the packed ones to train on are (`codegen.profile.pictures`)."""

from __future__ import annotations

import io
import warnings

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF")
"""Formats that Pillow may open, as in an upload; others (EPS, ...) start programs of their own."""
NOT_READ = "is not a PNG, JPEG, WebP, BMP or GIF"
SUFFIXES = (".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".webp", ".bmp", ".gif")
OTHER_SUFFIXES = (".tif", ".tiff", ".svg", ".heic", ".heif", ".avif", ".eps", ".ico", ".psd", ".jp2", ".raw", ".dcm")
"""Of pictures in formats that are not read."""
MAX_SIDE = 512
"""Longer sides are scaled down to this first, as when pictures are packed."""
PICTURES = "Use PNG or JPEG; replace the picture, or leave it out."
"""What to do about one that cannot be read."""


class PictureError(Exception):
    """A picture cannot be read; with what to do about it."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def picture_read(name: str, body: bytes) -> Image.Image:
    """The picture in the bytes of the file `name`, plain. Raises `PictureError`."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        try:
            return plain_picture(Image.open(io.BytesIO(body), formats=FORMATS))
        except UnidentifiedImageError:
            raise PictureError(f"{name} {NOT_READ}.", PICTURES) from None
        except (Image.DecompressionBombWarning, Image.DecompressionBombError):
            most = f"{Image.MAX_IMAGE_PIXELS or 0:,}"
            raise PictureError(f"{name} has more than {most} pixels.", "Make the picture smaller.") from None
        except Exception as error:
            raise PictureError(f"{name} is not a picture that can be read ({error}).", PICTURES) from None


def plain_picture(picture: Image.Image) -> Image.Image:
    """An opened picture decoded, upright, grey or RGB with 8 bits, transparency on white, no side above `MAX_SIDE`."""
    picture.draft(None, (2 * MAX_SIDE, 2 * MAX_SIDE))  # a large JPEG is decoded at a fraction of its size
    picture.load()
    plain = _plain(ImageOps.exif_transpose(picture))
    if max(plain.size) > MAX_SIDE:
        plain.thumbnail((MAX_SIDE, MAX_SIDE), Image.Resampling.LANCZOS)
    return plain


def _plain(picture: Image.Image) -> Image.Image:
    if picture.mode.startswith("I") or picture.mode == "F":
        eight_bits = np.asarray(picture).astype(np.float64) / 257  # of 16; `convert` would cut bright values off
        return Image.fromarray(np.clip(eight_bits, 0, 255).round().astype(np.uint8))
    if picture.mode in ("LA", "PA", "RGBA", "La", "RGBa") or "transparency" in picture.info:
        layered = picture.convert("RGBA")
        ground = Image.new("RGBA", layered.size, (255, 255, 255, 255))
        return Image.alpha_composite(ground, layered).convert("RGB")
    return picture.convert("L" if picture.mode in ("1", "L") else "RGB")
