"""The usual pipeline: torch's DataLoader, Pillow, and torchvision's v2 transforms."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from pipebench.loaders.kind import Batch, Kind, Passes, Plan


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


@contextmanager
def _opened(plan: Plan) -> Iterator[Passes]:
    import torch
    from torch.utils.data import DataLoader

    torch.set_num_threads(1)
    loader: Any = DataLoader(
        _Pictures(plan),  # type: ignore[arg-type]
        plan.batch_size,
        shuffle=True,
        num_workers=plan.cores,
        persistent_workers=True,
        generator=torch.Generator().manual_seed(plan.seed),
    )
    yield lambda number: (Batch(*one) for one in loader)
    loader._iterator = None  # ends the workers


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
