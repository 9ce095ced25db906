"""Sizes of pictures that all picture families agree on."""

from __future__ import annotations

from codegen.catalog.base import Facts

STEPS = (8, 12, 16, 24, 28, 32, 48, 64, 96, 128, 160, 192, 224)


def auto_image_size(facts: Facts, *, at_most: int) -> int:
    """The pictures' own size up to 64 pixels, else the next smaller usual step, lower where there is no GPU."""
    limit = at_most if facts.device == "cuda" else min(at_most, 64)
    own = max(facts.native_size, 4)
    if own <= min(limit, 64):
        return max(own, 8)
    return max(step for step in STEPS if step <= min(own, limit))
