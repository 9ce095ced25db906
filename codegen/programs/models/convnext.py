"""A small ConvNeXt: a convolutional network with the habits of transformers.

The picture is cut into patches; each block mixes every channel over a 7x7 neighbourhood, then all channels of a
place through a wide linear layer, with layer normalisation and a learned scale of what it adds (Liu et al. 2022, "A
ConvNet for the 2020s", arXiv:2201.03545). Needs more pictures or more epochs than a ResNet to do well.
"""

import torch
from torch import nn


def build(spec) -> nn.Module:
    """The model that `spec.yaml` describes."""
    params, shape = spec.model.params, spec.shape
    return ConvNeXt(
        mean=shape.channel_mean,
        std=shape.channel_std,
        outputs=shape.outputs,
        patch=params["patch"],
        blocks=params["blocks"],
        width=params["width"],
        dropout=params["dropout"],
    )


class ChannelNorm(nn.LayerNorm):
    """Layer normalisation over the channels of [N, C, H, W]."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Same shape as `x`."""
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Block(nn.Module):
    """7x7 per channel, then a wide linear layer per place: [N, C, H, W] -> [N, C, H, W]."""

    def __init__(self, channels: int, dropout: float):
        super().__init__()
        self.mix_places = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels)
        self.mix_channels = nn.Sequential(
            nn.Linear(channels, 4 * channels), nn.GELU(), nn.Dropout(dropout), nn.Linear(4 * channels, channels)
        )
        self.scale = nn.Parameter(torch.full((channels,), 0.1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`x` plus what the block adds."""
        y = self.mix_places(x).permute(0, 2, 3, 1)  # [N, H, W, C]
        y = self.mix_channels(self.norm(y)) * self.scale
        return x + y.permute(0, 3, 1, 2)


class ConvNeXt(nn.Module):
    """Input: pictures, bytes or 0-255 floats, [N, channels, size, size]; output: logits [N, outputs]."""

    def __init__(
        self,
        mean: list[float],
        std: list[float],
        outputs: int,
        patch: int,
        blocks: int,
        width: int,
        dropout: float,
    ):
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).view(1, -1, 1, 1) * 255)
        self.register_buffer("std", torch.tensor(std).view(1, -1, 1, 1) * 255)
        layers = [nn.Conv2d(len(mean), width, patch, stride=patch), ChannelNorm(width)]
        channels = width
        for stage in range(3):
            if stage > 0:
                layers += [ChannelNorm(channels), nn.Conv2d(channels, 2 * channels, 2, stride=2)]
                channels *= 2
            layers += [Block(channels, dropout) for _ in range(blocks)]
        self.body = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.LayerNorm(channels), nn.Linear(channels, outputs))

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        """Logits [N, outputs]."""
        x = (pictures.float() - self.mean) / self.std
        x = x.contiguous(memory_format=torch.channels_last)  # channels side by side: convolutions run faster
        x = self.body(x)  # [N, 4 * width, size / patch / 4, size / patch / 4]
        return self.head(x.mean(dim=(2, 3)))
