"""The usual pipeline: torch's DataLoader, Pillow, and torchvision's v2 transforms."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from pipebench.loaders.kind import Kind, Passes, Plan
from pipebench.loaders.recipe import shuffled_passes


class _Pictures:
    """A map-style dataset that opens each file with Pillow. The box is noted on its way through the transforms."""

    def __init__(self, plan: Plan) -> None:
        from torchvision.transforms import v2

        self._paths = plan.paths
        self._crop, self._flip = v2.RandomResizedCrop(plan.side, antialias=True), v2.RandomHorizontalFlip(p=1.0)

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int) -> tuple[Any, int, Any]:
        import torch
        from PIL import Image
        from torchvision.transforms.v2 import functional

        image = functional.pil_to_tensor(Image.open(self._paths[index]).convert("RGB"))
        found = self._crop.make_params([image])
        crop = self._crop.transform(image, found)
        mirrored = bool(torch.rand(()) < 0.5)
        crop = self._flip(crop) if mirrored else crop
        box = (found["left"], found["top"], found["width"], found["height"], mirrored)
        return crop.contiguous(), index, np.array(box, np.int32)


def _opened(plan: Plan) -> AbstractContextManager[Passes]:
    import torch

    torch.set_num_threads(1)
    return shuffled_passes(_Pictures(plan), plan)


KIND = Kind(
    name="torchvision",
    title="DataLoader, Pillow and torchvision v2",
    source="https://docs.pytorch.org/vision/stable/auto_examples/transforms/plot_transforms_getting_started.html",
    open=_opened,
    does={"antialiased": "Pillow and torchvision's v2 RandomResizedCrop"},
    modules=("torch", "torchvision.transforms.v2", "PIL.Image"),
    distribution="torchvision",
    extra="lab",
)
