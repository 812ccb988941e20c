"""ResNet50 on 32 images, channels last, in plain PyTorch with random weights."""

import torch
from torch import nn
from torch.nn import functional as F

STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))
BATCH, IMAGE, CLASSES = 32, 224, 1000


class Bottleneck(nn.Module):
    """Three convolutions beside a residual."""

    def __init__(self, given: int, width: int, stride: int) -> None:
        super().__init__()
        self.one, self.norm1 = nn.Conv2d(given, width, 1, bias=False), nn.BatchNorm2d(width)
        self.two, self.norm2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.three, self.norm3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
        fits = stride == 1 and given == 4 * width
        shorter = nn.Sequential(nn.Conv2d(given, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))
        self.beside = nn.Identity() if fits else shorter

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One block."""
        y = F.relu(self.norm1(self.one(x)))
        y = F.relu(self.norm2(self.two(y)))
        return F.relu(self.norm3(self.three(y)) + self.beside(x))


class Model(nn.Module):
    """Images to logits."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        blocks, given = [], 64
        for stage, (width, depth) in enumerate(STAGES):
            for block in range(depth):
                blocks.append(Bottleneck(given, width, 2 if stage and not block else 1))
                given = 4 * width
        self.blocks, self.head = nn.Sequential(*blocks), nn.Linear(given, CLASSES)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """The logits of each image's classes."""
        x = F.max_pool2d(F.relu(self.norm(self.first(images))), 3, 2, 1)
        logits: torch.Tensor = self.head(self.blocks(x).mean((2, 3)))
        return logits


def get_inputs() -> list[torch.Tensor]:
    """A batch of random images."""
    return [torch.randn(BATCH, 3, IMAGE, IMAGE).to(memory_format=torch.channels_last)]


def get_init_inputs() -> list[object]:
    """None."""
    return []
