"""Counting parameters, FLOPs and activations layer by layer, without building the model."""

from __future__ import annotations

from codegen.catalog.base import Cost

FLOAT_BYTES = 4


class Tally:
    """Adds up layers as they are passed. FLOPs are those of matrix products and convolutions, forward, per row."""

    def __init__(self) -> None:
        self.parameters = 0
        self.flops = 0.0
        self.floats = 0.0
        """Activations kept for the backward pass, per row."""
        self.input_bytes = 0.0

    def columns(self, numbers: int, categories: int) -> None:
        """A row of a table: float32 numbers and int64 categories."""
        self.input_bytes = 4.0 * numbers + 8.0 * categories

    def picture(self, channels: int, size: int) -> None:
        """A picture, held as bytes and turned into floats."""
        self.input_bytes = float(channels * size * size)
        self.floats += channels * size * size

    def linear(self, inputs: int, outputs: int, *, places: int = 1, bias: bool = True) -> None:
        """A linear layer used at `places` positions of a row."""
        self.parameters += inputs * outputs + (outputs if bias else 0)
        self.flops += 2.0 * inputs * outputs * places
        self.floats += outputs * places

    def conv(self, inside: int, outside: int, kernel: int, size: int, *, groups: int = 1, bias: bool = False) -> None:
        """A square convolution whose output is `size` x `size`."""
        weights = inside // groups * outside * kernel * kernel
        self.parameters += weights + (outside if bias else 0)
        self.flops += 2.0 * weights * size * size
        self.floats += outside * size * size

    def norm(self, channels: int, *, places: int = 1) -> None:
        """Batch or layer normalisation over `channels`, at `places` positions."""
        self.parameters += 2 * channels
        self.floats += channels * places

    def embedding(self, values: int, size: int) -> None:
        """A table of `values` vectors; one is looked up per row."""
        self.parameters += values * size
        self.floats += size

    def own(self, parameters: int) -> None:
        """Parameters used without a matrix product."""
        self.parameters += parameters

    def product(self, flops: float, floats: float) -> None:
        """A matrix product of activations with activations."""
        self.flops += flops
        self.floats += floats

    def keep(self, floats: float) -> None:
        """Results of ReLU, dropout, pooling."""
        self.floats += floats

    def cost(self) -> Cost:
        """The sums."""
        return Cost(
            parameters=self.parameters,
            flops=self.flops,
            activation_bytes=self.floats * FLOAT_BYTES,
            input_bytes=self.input_bytes,
        )
