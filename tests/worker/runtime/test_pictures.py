"""A picture to predict for looks to the model like the same picture uploaded to train on."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from PIL import Image

from codegen.profile import layout
from codegen.profile import pictures as uploaded
from codegen.profile.pictures import BadPicture, picture_read
from harness.jobs.inputs import INPUT_SUFFIXES
from worker.runtime.picture_input import read_pictures
from worker.runtime.pictures import FORMATS, MAX_SIDE, NOT_READ, OTHER_SUFFIXES, SUFFIXES

TURNED = Image.Exif()
TURNED[0x0112] = 6  # the camera was held upright


def smooth(mode: str, size: tuple[int, int] = (60, 40)) -> Image.Image:
    """A picture that JPEG changes little: colours and transparency rise in different directions."""
    across, down = np.meshgrid(np.linspace(0, 255, size[0]), np.linspace(0, 255, size[1]))
    if mode == "I;16":
        return Image.fromarray((across * 257).astype(np.uint16))
    bands = np.stack([across, down, (across + down) / 2, 255 - across], axis=2).astype(np.uint8)
    picture = Image.fromarray(bands, "RGBA")
    if mode == "P":
        return picture.convert("RGB").quantize(16)
    return picture if mode == "RGBA" else picture.convert("RGB" if mode == "CMYK" else mode).convert(mode)


@pytest.mark.parametrize(
    ("mode", "form", "options"),
    [
        ("RGBA", "PNG", {}),
        ("LA", "PNG", {}),
        ("RGBA", "WEBP", {"lossless": True}),
        ("P", "PNG", {"transparency": 3}),
        ("P", "GIF", {"transparency": 3}),
        ("L", "PNG", {"transparency": 100}),
        ("I;16", "PNG", {}),
        ("1", "PNG", {}),
        ("P", "PNG", {}),
        ("L", "PNG", {}),
        ("CMYK", "JPEG", {"quality": 95}),
        ("RGB", "JPEG", {"exif": TURNED, "quality": 95}),
    ],
)
@pytest.mark.parametrize("size", [(60, 40), (900, 700)], ids=["small", "large"])
def test_a_picture_to_predict_for_has_the_pixels_of_the_packed_one(
    tmp_path: Any, mode: str, form: str, options: dict[str, Any], size: tuple[int, int]
) -> None:
    path = tmp_path / "picture.png"
    smooth(mode, size).save(path, form, **options)
    packed = Image.open(io.BytesIO(picture_read(path.read_bytes()).encoded)).convert("RGB")
    (read,) = read_pictures(path)[1]
    assert read.mode in ("L", "RGB")
    assert read.size == packed.size
    difference = np.abs(np.asarray(read.convert("RGB"), dtype=int) - np.asarray(packed, dtype=int))
    assert difference.max() <= (8 if form == "JPEG" else 0)  # a JPEG is encoded once more to be packed


def test_pictures_are_made_small_alike() -> None:
    assert MAX_SIDE == uploaded.MAX_SIDE


def test_the_pictures_of_an_upload_are_those_to_predict_for() -> None:
    assert (FORMATS, SUFFIXES, OTHER_SUFFIXES) == (uploaded.FORMATS, layout.PICTURE_SUFFIXES, layout.OTHER_PICTURES)
    with pytest.raises(BadPicture, match=f"^{NOT_READ}$"):
        picture_read(b"no picture")
    tables = {"csv", "tsv", "json", "jsonl", "ndjson", "parquet", "xlsx", "ods"}
    assert set(INPUT_SUFFIXES) - tables - {"zip"} == {suffix.removeprefix(".") for suffix in SUFFIXES}
