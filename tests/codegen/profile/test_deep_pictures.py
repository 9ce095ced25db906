"""Pictures of more than 8 bits per colour: reduced, and told."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest
from PIL import Image

from tests.codegen.profile.uploads import Lab, finding, picture, pixels, png, zip_of


def test_sixteen_bit_grey_keeps_its_range(lab: Lab) -> None:
    target = io.BytesIO()
    Image.fromarray(np.array([[0, 257 * 100], [257 * 200, 65535]], np.uint16)).save(target, "PNG")
    profile = lab.profile("upload.zip", zip_of({"a/1.png": target.getvalue(), "b/2.png": picture(1, mode="L")}))
    assert pixels(lab.images()["image"][0].as_py()).tolist() == [[0, 100], [200, 255]]
    assert profile.images and profile.images.channels == 1 and len(profile.images.channel_mean) == 1
    assert "1 picture with 16 bits" in finding(profile, "deep_grey").message


@pytest.mark.parametrize(("colour", "channels"), [(2, 3), (6, 4)])
def test_sixteen_bits_per_colour_that_are_reduced_are_told(lab: Lab, colour: int, channels: int) -> None:
    row = b"\0" + struct.pack(f">{2 * channels}H", *(257 * value for value in (*range(channels - 1), 255) * 2))
    deep = png(struct.pack(">IIBBBBB", 2, 1, 16, colour, 0, 0, 0), row)
    profile = lab.profile("upload.zip", zip_of({"a/1.png": deep, "b/2.png": picture(1)}))
    found = finding(profile, "deep_colour")
    assert found.message.startswith("1 picture with 16 bits per colour, reduced to 8") and found.files == ("a/1.png",)
    assert pixels(lab.images()["image"][0].as_py())[0, 0].tolist() == ([0, 1, 255] if channels == 3 else [0, 1, 2])
