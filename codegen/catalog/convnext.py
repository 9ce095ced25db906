"""A small ConvNeXt. Template: `programs/models/convnext.py`."""

from __future__ import annotations

from typing import Any

from codegen.catalog.base import Cost, Facts, Knob, Params, Problems
from codegen.catalog.kinds import picture_cost, picture_family
from codegen.catalog.pictures import auto_image_size
from codegen.catalog.tally import Tally

PRESETS = {
    "small": {"blocks": 1, "width": 32},
    "medium": {"blocks": 2, "width": 48},
    "large": {"blocks": 3, "width": 96},
}


def defaults(facts: Facts, size: str) -> dict[str, Any]:
    """Knobs of a size preset; the patch grows with the picture."""
    image_size = auto_image_size(facts, at_most=224)
    patch = 1 if image_size < 16 else 2 if image_size < 96 else 4
    return {**PRESETS[size], "patch": patch, "dropout": 0.1, "image_size": image_size}


def cost(facts: Facts, params: Params) -> Cost:
    """Exact parameters and FLOPs."""

    def body(tally: Tally) -> int:
        channels: int = params["width"]
        size = params["image_size"] // params["patch"]
        tally.conv(facts.channels, channels, params["patch"], size, bias=True)
        tally.norm(channels, places=size * size)
        for stage in range(3):
            if stage > 0:
                tally.norm(channels, places=size * size)
                size //= 2
                tally.conv(channels, 2 * channels, 2, size, bias=True)
                channels *= 2
            for _ in range(params["blocks"]):
                tally.conv(channels, channels, 7, size, groups=channels, bias=True)
                tally.norm(channels, places=size * size)
                tally.linear(channels, 4 * channels, places=size * size)
                tally.keep(8 * channels * size * size)
                tally.linear(4 * channels, channels, places=size * size)
                tally.own(channels)
                tally.keep(2 * channels * size * size)
        tally.norm(channels)
        return channels

    return picture_cost(facts, params["image_size"], body)


def check(facts: Facts, params: Params) -> Problems:
    """The picture survives patching and two halvings."""
    if params["image_size"] < 4 * params["patch"]:
        return [
            (
                "patch",
                f"a picture of {params['image_size']} pixels cannot be cut into patches of {params['patch']} and "
                f"halved twice; use a patch of at most {max(1, params['image_size'] // 4)} or a larger image_size",
            )
        ]
    return []


def reason(facts: Facts) -> str:
    """What speaks for it on this data."""
    return "Large 7x7 neighbourhoods per channel; the family that gains most from more pictures and longer training."


def against(facts: Facts) -> str:
    """What speaks against it on this data."""
    words = "Learns slower from scratch than a ResNet"
    if facts.train_rows < 50_000:
        words += f": {facts.train_rows:,} pictures are few for it"
    return words + ("; its per-channel filters are slow on a CPU." if facts.device == "cpu" else ".")


def quality(facts: Facts) -> float:
    """Behind the others until there are many pictures."""
    return 0.95 if facts.train_rows >= 100_000 and facts.device == "cuda" else 0.55


FAMILY = picture_family(
    name="convnext",
    title="Small ConvNeXt",
    word="ConvNeXt",
    source="Liu et al. 2022, arXiv:2201.03545",
    knobs=(
        Knob(name="patch", low=1, high=16, description="Side of the patches that the picture is cut into."),
        Knob(name="blocks", low=1, high=27, description="Blocks in each of the three stages."),
        Knob(name="width", low=4, high=512, description="Channels of the first stage; doubled twice."),
    ),
    defaults=defaults,
    cost=cost,
    reason=reason,
    against=against,
    quality=quality,
    check=check,
    learning_rate=2e-3,
)
