"""In what the products of a program are computed: what its spec asks for, and what a kind of device makes of that."""

from __future__ import annotations

from enum import StrEnum

AUTO = "auto"
"""Of `training.precision`: the 16 bits that a device is built for, else float32."""


class Precision(StrEnum):
    """Of the factors of matrix products and convolutions; torch adds these up in float32 whatever it is."""

    FLOAT32 = "float32"
    TF32 = "tf32"
    """float32 whose factors are rounded to 10 bits after the point: GPUs since Ampere, asked for float32."""
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"

    @property
    def kept_share(self) -> float:
        """Of the bytes that float32 keeps for the backward pass, those that it keeps."""
        return KEPT_IN_16_BITS if self in (Precision.BFLOAT16, Precision.FLOAT16) else 1.0


KEPT_IN_16_BITS = 0.65
"""Not half: normalisations, the loss and what is picked out stay in 32 bits. As traced: 0.56 of a ResNet, 0.58 and
0.60 of two CNNs, 0.72 of an MLP, 0.74 of an FT-Transformer."""
WANTED = {"float32": Precision.FLOAT32, "bf16": Precision.BFLOAT16, "fp16": Precision.FLOAT16}
"""By their names in `training.precision`."""
BEST_FIRST = ("bf16", "fp16", "float32")
"""As `auto` prefers them; every device has the last."""
