"""FT-Transformer: a transformer whose words are the columns of a table.

Every column of a row becomes one token of `width` numbers (a number: its value times a learned vector; a category:
its embedding); a class token is put in front, and what stands there after the last block gives the output
(Gorishniy et al. 2021, "Revisiting Deep Learning Models for Tabular Data", arXiv:2106.11959). The cost grows with
the square of the number of columns.
"""

import torch
from torch import nn
from torch.nn import functional as F


def build(spec) -> nn.Module:
    """The model that `spec.yaml` describes."""
    params = spec.model.params
    return FTTransformer(
        numeric=len(spec.shape.features),
        cardinalities=list(spec.shape.cardinalities),
        outputs=spec.shape.outputs,
        blocks=params["blocks"],
        width=params["width"],
        heads=params["heads"],
        dropout=params["dropout"],
    )


class Tokens(nn.Module):
    """Numeric [N, F] and categorical [N, C] -> tokens [N, 1 + F + C, width]."""

    def __init__(self, numeric: int, cardinalities: list[int], width: int):
        super().__init__()
        bound = width**-0.5
        self.embeddings = nn.ModuleList(nn.Embedding(size, width) for size in cardinalities)
        for embedding in self.embeddings:
            nn.init.uniform_(embedding.weight, -bound, bound)
            nn.init.zeros_(embedding.weight[0])  # an unknown value: says nothing, unless training rows teach it
        self.weight = nn.Parameter(torch.empty(1 + numeric, width).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(numeric + len(cardinalities), width).uniform_(-bound, bound))

    def forward(self, numeric: torch.Tensor, categorical: torch.Tensor) -> torch.Tensor:
        """Tokens, the class token first."""
        ones = numeric.new_ones(len(numeric), 1)
        tokens = [torch.cat([ones, numeric], dim=1)[:, :, None] * self.weight]  # [N, 1 + F, width]
        tokens += [embedding(categorical[:, [index]]) for index, embedding in enumerate(self.embeddings)]
        bias = torch.cat([self.bias.new_zeros(1, self.bias.shape[1]), self.bias])  # none for the class token
        return torch.cat(tokens, dim=1) + bias


class Block(nn.Module):
    """Attention over the columns, then a gated two-layer net: [N, T, width] -> [N, T, width]."""

    def __init__(self, width: int, heads: int, dropout: float):
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.attention_norm = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        hidden = width * 4 // 3
        self.net_norm = nn.LayerNorm(width)
        self.widen = nn.Linear(width, 2 * hidden)
        self.narrow = nn.Linear(hidden, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Same shape as `x`."""
        x = x + self.project(self.attend(self.attention_norm(x)))
        value, gate = self.widen(self.net_norm(x)).chunk(2, dim=-1)
        return x + self.narrow(F.dropout(value * F.relu(gate), self.dropout, self.training))

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        """Multi-head attention, [N, T, width] -> [N, T, width]."""
        rows, tokens, width = x.shape
        parts = self.query_key_value(x).view(rows, tokens, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)  # [N, heads, T, width / heads] each
        dropout = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(query, key, value, dropout_p=dropout)
        return mixed.transpose(1, 2).reshape(rows, tokens, width)


class FTTransformer(nn.Module):
    """Inputs: numeric [N, F], categorical [N, C]; output: logits [N, outputs]."""

    def __init__(
        self,
        numeric: int,
        cardinalities: list[int],
        outputs: int,
        blocks: int,
        width: int,
        heads: int,
        dropout: float,
    ):
        super().__init__()
        self.tokens = Tokens(numeric, cardinalities, width)
        self.blocks = nn.Sequential(*(Block(width, heads, dropout) for _ in range(blocks)))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.ReLU(), nn.Linear(width, outputs))

    def forward(self, numeric: torch.Tensor, categorical: torch.Tensor) -> torch.Tensor:
        """Logits [N, outputs]."""
        x = self.blocks(self.tokens(numeric, categorical))
        return self.head(x[:, 0])
