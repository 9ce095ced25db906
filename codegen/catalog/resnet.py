"""Residual network for small pictures. Template: `programs/models/resnet.py`."""

from __future__ import annotations

from typing import Any

from codegen.catalog.base import Cost, Facts, Knob, Params
from codegen.catalog.kinds import picture_cost, picture_family
from codegen.catalog.pictures import auto_image_size
from codegen.catalog.tally import Tally

PRESETS = {
    "small": {"blocks": 1, "width": 16},
    "medium": {"blocks": 1, "width": 24},
    "large": {"blocks": 3, "width": 32},
}
BIG_PICTURE = 96
"""From here on the stem reduces the picture to a quarter."""


def defaults(facts: Facts, size: str) -> dict[str, Any]:
    """Knobs of a size preset; wider where a GPU carries it."""
    params = {**PRESETS[size], "dropout": 0.1, "image_size": auto_image_size(facts, at_most=160)}
    if facts.device == "cuda":
        params |= {"width": 2 * params["width"], "blocks": max(2, params["blocks"])}
    return params


def half(size: int) -> int:
    """Side after a layer of stride 2 with enough border."""
    return (size + 1) // 2


def cost(facts: Facts, params: Params) -> Cost:
    """Exact parameters and FLOPs."""

    def body(tally: Tally) -> int:
        size = _stem(tally, facts.channels, params["width"], params["image_size"])
        channels: int = params["width"]
        for stage in range(3):
            for block in range(params["blocks"]):
                wider, narrows = params["width"] * 2**stage, stage > 0 and block == 0
                size = half(size) if narrows else size
                _conv_norm(tally, channels, wider, 3, size)
                _conv_norm(tally, wider, wider, 3, size)
                if narrows or channels != wider:
                    _conv_norm(tally, channels, wider, 1, size)
                tally.keep(wider * size * size)
                channels = wider
        tally.keep(2 * channels)
        return channels

    return picture_cost(facts, params["image_size"], body)


def _stem(tally: Tally, channels: int, width: int, size: int) -> int:
    """Count the first layers; the side of what they give."""
    if size < BIG_PICTURE:
        _conv_norm(tally, channels, width, 3, size)
        return size
    size = half(size)
    _conv_norm(tally, channels, width, 7, size)
    size = half(size)
    tally.keep(2 * width * size * size)
    return size


def _conv_norm(tally: Tally, inside: int, outside: int, kernel: int, size: int) -> None:
    tally.conv(inside, outside, kernel, size)
    tally.norm(outside, places=size * size)
    tally.keep(outside * size * size)


def reason(facts: Facts) -> str:
    """What speaks for it on this data."""
    return (
        f"The best known use of few FLOPs on pictures of about {facts.native_size} pixels; trains steadily from "
        f"scratch on {facts.train_rows:,} pictures, sized here to the device."
    )


def against(facts: Facts) -> str:
    """What speaks against it on this data."""
    if facts.native_size <= 12:
        return f"Deeper than pictures of {facts.native_size} pixels need; its mean over the picture forgets places."
    return "Costs more per picture than the plain CNN of the same width."


def quality(facts: Facts) -> float:
    """First unless the pictures are tiny."""
    return 0.9 if facts.native_size > 12 else 0.8


FAMILY = picture_family(
    name="resnet",
    title="ResNet for small pictures",
    word="ResNet",
    source="He et al. 2016, arXiv:1512.03385",
    knobs=(
        Knob(name="blocks", low=1, high=32, description="Residual blocks in each of the three stages."),
        Knob(name="width", low=4, high=512, description="Channels of the first stage; doubled twice."),
    ),
    defaults=defaults,
    cost=cost,
    reason=reason,
    against=against,
    quality=quality,
    learning_rate=3e-3,
)
