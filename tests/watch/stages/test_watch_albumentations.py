"""albumentations itself: every transform by its class, with images the same bit for bit."""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np
import pytest
from torch.utils.data import DataLoader, Dataset

from pipebench import watching

os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")


def augmentation() -> Any:
    import albumentations as A

    return A.Compose(
        [
            A.OneOf([A.HorizontalFlip(p=1), A.Compose([A.VerticalFlip(p=1)])], p=1),
            A.SomeOf([A.Blur(p=1), A.RandomBrightnessContrast(p=1)], n=1, p=1),
            A.Lambda(image=lambda image, **_: image + 1, p=1),
            A.RandomCrop(8, 8, p=1),
        ],
        seed=7,
    )


AUGMENTATION: Any = None


class Images(Dataset[Any]):
    """Calls a Compose that is no attribute of it, as many scripts do."""

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> Any:
        image = np.full((16, 16, 3), index, np.uint8)
        image[0, 0] = 255
        return AUGMENTATION(image=image)["image"]


def _batches(workers: int) -> list[Any]:
    global AUGMENTATION
    AUGMENTATION = augmentation()
    return [batch.numpy().tobytes() for batch in DataLoader(Images(), batch_size=4, num_workers=workers)]


@pytest.mark.parametrize("workers", [0, 2])
def test_every_transform_by_its_class(workers: int) -> None:
    import albumentations as A

    kinds: list[Any] = [A.BasicTransform, A.Compose, A.OneOf, A.SomeOf]
    calls = [kind.__call__ for kind in kinds]
    alone = _batches(workers)
    with watching() as seen:
        assert _batches(workers) == alone
    assert [kind.__call__ for kind in kinds] == calls and "__call__" not in vars(A.Blur)
    names = {one.name for one in seen.result.stages if one.kind == "transform"}
    assert {"Compose", "OneOf", "SomeOf", "HorizontalFlip", "VerticalFlip", "Lambda", "RandomCrop"} <= names
    assert seen.result.notes == () and sys.modules["albumentations"] is A
