"""A residual network for small pictures.

Three stages of residual blocks; each later stage halves the picture and doubles the width, then the mean over the
picture feeds one linear layer (He et al. 2016, "Deep Residual Learning for Image Recognition", arXiv:1512.03385,
section 4.2). The last normalisation of each block starts at zero, so that the net starts shallow (Goyal et al.
2017, arXiv:1706.02677). Pictures of 96 pixels and more are first reduced to a quarter, as in the ImageNet version.
"""

import torch
from torch import nn
from torch.nn import functional as F


def build(spec) -> nn.Module:
    """The model that `spec.yaml` describes."""
    params, shape = spec.model.params, spec.shape
    return ResNet(
        mean=shape.channel_mean,
        std=shape.channel_std,
        size=shape.height,
        outputs=shape.outputs,
        blocks=params["blocks"],
        width=params["width"],
        dropout=params["dropout"],
    )


class Block(nn.Module):
    """Two 3x3 convolutions and a way around them: [N, inside, H, W] -> [N, outside, H / stride, W / stride]."""

    def __init__(self, inside: int, outside: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride=stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outside)
        nn.init.zeros_(self.norm2.weight)
        self.around = nn.Identity()
        if stride != 1 or inside != outside:
            self.around = nn.Sequential(
                nn.Conv2d(inside, outside, 1, stride=stride, bias=False), nn.BatchNorm2d(outside)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """What the block adds, plus what went around it."""
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.around(x))


class ResNet(nn.Module):
    """Input: pictures, bytes or 0-255 floats, [N, channels, size, size]; output: logits [N, outputs]."""

    def __init__(
        self,
        mean: list[float],
        std: list[float],
        size: int,
        outputs: int,
        blocks: int,
        width: int,
        dropout: float,
    ):
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).view(1, -1, 1, 1) * 255)
        self.register_buffer("std", torch.tensor(std).view(1, -1, 1, 1) * 255)
        stem = nn.Conv2d(len(mean), width, 3, padding=1, bias=False)
        layers = [stem, nn.BatchNorm2d(width), nn.ReLU()]
        if size >= 96:
            stem = nn.Conv2d(len(mean), width, 7, stride=2, padding=3, bias=False)
            layers = [stem, nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, stride=2, padding=1)]
        channels = width
        for stage in range(3):
            for block in range(blocks):
                wider = width * 2**stage
                layers.append(Block(channels, wider, stride=2 if stage > 0 and block == 0 else 1))
                channels = wider
        self.body = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.Dropout(dropout), nn.Linear(channels, outputs))

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        """Logits [N, outputs]."""
        x = (pictures.float() - self.mean) / self.std
        x = x.contiguous(memory_format=torch.channels_last)  # channels side by side: convolutions run faster
        x = self.body(x)  # [N, 4 * width, size / 4, size / 4]
        return self.head(x.mean(dim=(2, 3)))
