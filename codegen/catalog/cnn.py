"""The customised CNN: every size is a knob. Template: `programs/models/cnn.py`."""

from __future__ import annotations

from typing import Any

from codegen.catalog.base import Cost, Facts, Knob, Params, Problems
from codegen.catalog.kinds import picture_cost, picture_family
from codegen.catalog.pictures import auto_image_size
from codegen.catalog.tally import Tally

PRESETS = {
    "small": {"conv_layers": 4, "filters": 16, "fc_layers": 1, "fc_nodes": 64},
    "medium": {"conv_layers": 6, "filters": 32, "fc_layers": 1, "fc_nodes": 128},
    "large": {"conv_layers": 8, "filters": 48, "fc_layers": 2, "fc_nodes": 256},
}


def stages(conv_layers: int) -> int:
    """Halvings of the picture: one after each pair of layers, and after a last single one."""
    return (conv_layers + 1) // 2


def defaults(facts: Facts, size: str) -> dict[str, Any]:
    """Knobs of a size preset; few enough layers that the last feature map keeps two pixels a side."""
    params: dict[str, Any] = {
        **PRESETS[size],
        "kernel": 3,
        "dropout": 0.3,
        "image_size": auto_image_size(facts, at_most=128),
    }
    most = 2 * max(1, params["image_size"].bit_length() - 2)
    return {**params, "conv_layers": min(params["conv_layers"], most)}


def cost(facts: Facts, params: Params) -> Cost:
    """Exact parameters and FLOPs."""

    def body(tally: Tally) -> int:
        channels, size = facts.channels, params["image_size"]
        for layer in range(params["conv_layers"]):
            wider = params["filters"] * 2 ** (layer // 2)
            tally.conv(channels, wider, params["kernel"], size)
            tally.norm(wider, places=size * size)
            tally.keep(wider * size * size)
            channels = wider
            if layer % 2 == 1 or layer == params["conv_layers"] - 1:
                size //= 2
                tally.keep(2 * channels * size * size)
        nodes: int = channels * size * size
        tally.keep(2 * nodes)
        for _ in range(params["fc_layers"]):
            tally.linear(nodes, params["fc_nodes"])
            tally.keep(2 * params["fc_nodes"])
            nodes = params["fc_nodes"]
        return nodes

    return picture_cost(facts, params["image_size"], body)


def check(facts: Facts, params: Params) -> Problems:
    """The kernel fits the picture, and the picture survives the halvings."""
    found: Problems = []
    size, halvings = params["image_size"], stages(params["conv_layers"])
    if params["kernel"] > size:
        found.append(("kernel", f"{params['kernel']} is bigger than the picture of {size} x {size} pixels"))
    if size < 2**halvings:
        most = 2 * (size.bit_length() - 1)
        found.append(
            (
                "conv_layers",
                f"{params['conv_layers']} layers halve the picture {halvings} times, which leaves nothing of "
                f"{size} pixels; use at most {most} layers or a larger image_size",
            )
        )
    return found


def reason(facts: Facts) -> str:
    """What speaks for it on this data."""
    if facts.native_size <= 12:
        return (
            f"Pictures of {facts.native_size} pixels hold little: a few convolutions see all of it, and fully "
            "connected layers may use where in the picture a thing is."
        )
    return "Plain and quick to understand; every size is a knob, which makes it the one to experiment with."


def against(facts: Facts) -> str:
    """What speaks against it on this data."""
    if facts.native_size <= 12:
        return "Does not get better with many more layers, as a residual network does."
    return "No way around its layers: deeper versions train badly, and it ends a little behind the ResNet."


def quality(facts: Facts) -> float:
    """First on tiny pictures."""
    return 0.85 if facts.native_size <= 12 else 0.7


FAMILY = picture_family(
    name="cnn",
    title="Customised CNN",
    word="CNN",
    source="Simonyan & Zisserman 2015, arXiv:1409.1556",
    knobs=(
        Knob(name="conv_layers", low=1, high=16, description="Convolutional layers; each pair halves the picture."),
        Knob(name="filters", low=1, high=512, description="Filters of the first pair; doubled after each pair."),
        Knob(name="kernel", low=1, high=15, description="Side of the filters in pixels."),
        Knob(name="fc_layers", low=0, high=6, description="Fully connected layers before the output."),
        Knob(name="fc_nodes", low=1, high=4096, description="Nodes per fully connected layer."),
    ),
    defaults=defaults,
    cost=cost,
    reason=reason,
    against=against,
    quality=quality,
    check=check,
    learning_rate=3e-3,
)
