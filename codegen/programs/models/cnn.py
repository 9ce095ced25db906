"""A convolutional network cut to measure: number of layers, filters, kernel and fully connected layers are knobs.

Convolutions come in pairs, as in VGG (Simonyan & Zisserman 2015, arXiv:1409.1556): after each pair the picture is
halved and the number of filters doubled. Batch normalisation follows every convolution (Ioffe & Szegedy 2015,
arXiv:1502.03167).
"""

import torch
from torch import nn


def build(spec) -> nn.Module:
    """The model that `spec.yaml` describes."""
    params = spec.model.params
    return CNN(
        shape=spec.shape,
        conv_layers=params["conv_layers"],
        filters=params["filters"],
        kernel=params["kernel"],
        fc_layers=params["fc_layers"],
        fc_nodes=params["fc_nodes"],
        dropout=params["dropout"],
    )


class CNN(nn.Module):
    """Input: pictures, bytes or 0-255 floats, [N, channels, size, size]; output: logits [N, outputs]."""

    def __init__(
        self,
        shape,
        conv_layers: int,
        filters: int,
        kernel: int,
        fc_layers: int,
        fc_nodes: int,
        dropout: float,
    ):
        super().__init__()
        self.register_buffer("mean", torch.tensor(shape.channel_mean).view(1, -1, 1, 1) * 255)
        self.register_buffer("std", torch.tensor(shape.channel_std).view(1, -1, 1, 1) * 255)
        layers, channels, size = [], shape.channels, shape.height
        for layer in range(conv_layers):
            wider = filters * 2 ** (layer // 2)
            layers += [nn.Conv2d(channels, wider, kernel, padding="same", bias=False), nn.BatchNorm2d(wider), nn.ReLU()]
            channels = wider
            if layer % 2 == 1 or layer == conv_layers - 1:
                layers.append(nn.MaxPool2d(2))
                size //= 2
        self.convolutions = nn.Sequential(*layers)

        layers, nodes = [nn.Flatten(), nn.Dropout(dropout)], channels * size * size
        for _ in range(fc_layers):
            layers += [nn.Linear(nodes, fc_nodes), nn.ReLU(), nn.Dropout(dropout)]
            nodes = fc_nodes
        self.classifier = nn.Sequential(*layers, nn.Linear(nodes, shape.outputs))

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        """Logits [N, outputs]."""
        x = (pictures.float() - self.mean) / self.std
        x = x.contiguous(memory_format=torch.channels_last)  # channels side by side: convolutions run faster
        x = self.convolutions(x)  # [N, filters * 2^(pairs - 1), size / 2^pairs, size / 2^pairs]
        return self.classifier(x)
