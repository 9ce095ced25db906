"""A multilayer perceptron on a table: the plain and cheap baseline of deep learning.

Each category column is looked up in its own embedding; numbers and embeddings stand side by side in one vector,
which passes `layers` times through linear, ReLU and dropout. With a good scale of the inputs and regularisation
it is hard to beat on small tables (Kadra et al. 2021, "Well-tuned simple nets excel on tabular datasets",
arXiv:2106.11189).
"""

import torch
from torch import nn


def build(spec) -> nn.Module:
    """The model that `spec.yaml` describes."""
    params = spec.model.params
    return MLP(
        numeric=len(spec.shape.features),
        cardinalities=list(spec.shape.cardinalities),
        outputs=spec.shape.outputs,
        layers=params["layers"],
        width=params["width"],
        dropout=params["dropout"],
    )


def embedding_size(cardinality: int) -> int:
    """Numbers that stand for one value of a category column."""
    return min(16, (cardinality + 1) // 2)


class MLP(nn.Module):
    """Inputs: numeric [N, F], categorical [N, C]; output: logits [N, outputs]."""

    def __init__(self, numeric: int, cardinalities: list[int], outputs: int, layers: int, width: int, dropout: float):
        super().__init__()
        self.embeddings = nn.ModuleList(nn.Embedding(size, embedding_size(size)) for size in cardinalities)
        for embedding in self.embeddings:
            nn.init.zeros_(embedding.weight[0])  # an unknown value: says nothing, unless training rows teach it
        size = numeric + sum(embedding_size(size) for size in cardinalities)
        blocks = []
        for _ in range(layers):
            blocks += [nn.Linear(size, width), nn.ReLU(), nn.Dropout(dropout)]
            size = width
        self.body = nn.Sequential(*blocks)
        self.head = nn.Linear(size, outputs)

    def forward(self, numeric: torch.Tensor, categorical: torch.Tensor) -> torch.Tensor:
        """Logits [N, outputs]."""
        columns = [embedding(categorical[:, index]) for index, embedding in enumerate(self.embeddings)]
        x = torch.cat([numeric, *columns], dim=1)  # [N, F + sum of embedding sizes]
        return self.head(self.body(x))
