"""A residual MLP on a table, with embeddings of its numbers.

A plain MLP bends badly around thresholds ("capital gain above 7,000"), which trees find easily. Giving each number
to waves of several frequencies first, then to a small linear layer of its own, closes most of that gap
(Gorishniy et al. 2022, "On Embeddings for Numerical Features in Tabular Deep Learning", arXiv:2203.05556, the
embedding called PLR; the raw number is kept beside it as in RealMLP, Holzmueller et al. 2024, arXiv:2407.04491).
Behind the embeddings stand residual blocks (Gorishniy et al. 2021, arXiv:2106.11959).
"""

import math

import torch
from torch import nn


def build(spec) -> nn.Module:
    """The model that `spec.yaml` describes."""
    params = spec.model.params
    numbers = NumericEmbedding(
        numbers=len(spec.shape.features),
        frequencies=params["frequencies"],
        frequency_scale=params["frequency_scale"],
        size=params["embedding"],
    )
    return ResMLP(
        numbers=numbers,
        cardinalities=list(spec.shape.cardinalities),
        outputs=spec.shape.outputs,
        blocks=params["blocks"],
        width=params["width"],
        dropout=params["dropout"],
    )


def embedding_size(cardinality: int) -> int:
    """Numbers that stand for one value of a category column."""
    return min(16, (cardinality + 1) // 2)


class NumericEmbedding(nn.Module):
    """Waves, linear and ReLU per number: [N, F] -> [N, F * size]; the last of the `size` places is the raw number."""

    def __init__(self, numbers: int, frequencies: int, frequency_scale: float, size: int):
        super().__init__()
        self.places = numbers * size
        self.frequency = nn.Parameter(torch.randn(numbers, frequencies) * frequency_scale)
        bound = (2 * frequencies) ** -0.5
        self.weight = nn.Parameter(torch.empty(numbers, 2 * frequencies, size - 1).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(numbers, 1, size - 1).uniform_(-bound, bound))

    def forward(self, numeric: torch.Tensor) -> torch.Tensor:
        """Embeddings [N, F * size]."""
        angle = 2 * math.pi * self.frequency * numeric[:, :, None]  # [N, F, frequencies]
        waves = torch.cat([angle.cos(), angle.sin()], dim=2).transpose(0, 1)  # [F, N, 2 * frequencies]
        learned = torch.relu(torch.baddbmm(self.bias, waves, self.weight)).transpose(0, 1)  # [N, F, size - 1]
        return torch.cat([learned, numeric[:, :, None]], dim=2).flatten(1)


class Block(nn.Module):
    """x + linear(ReLU(linear(norm(x)))), with dropout: [N, width] -> [N, width]."""

    def __init__(self, width: int, dropout: float):
        super().__init__()
        self.layers = nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, 2 * width),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(2 * width, width),
            nn.Dropout(dropout / 2),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Same shape as `x`."""
        return x + self.layers(x)


class ResMLP(nn.Module):
    """Inputs: numeric [N, F], categorical [N, C]; output: logits [N, outputs]."""

    def __init__(
        self,
        numbers: NumericEmbedding,
        cardinalities: list[int],
        outputs: int,
        blocks: int,
        width: int,
        dropout: float,
    ):
        super().__init__()
        self.numbers = numbers
        self.embeddings = nn.ModuleList(nn.Embedding(size, embedding_size(size)) for size in cardinalities)
        for embedding in self.embeddings:
            nn.init.zeros_(embedding.weight[0])  # an unknown value: says nothing, unless training rows teach it
        size = numbers.places + sum(embedding_size(size) for size in cardinalities)
        self.stem = nn.Linear(size, width)
        self.blocks = nn.Sequential(*(Block(width, dropout) for _ in range(blocks)))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.ReLU(), nn.Linear(width, outputs))

    def forward(self, numeric: torch.Tensor, categorical: torch.Tensor) -> torch.Tensor:
        """Logits [N, outputs]."""
        columns = [embedding(categorical[:, index]) for index, embedding in enumerate(self.embeddings)]
        x = torch.cat([self.numbers(numeric), *columns], dim=1)
        return self.head(self.blocks(self.stem(x)))
