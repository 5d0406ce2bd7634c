"""pipebench's own: packed files, decode-and-crop, batches in shared memory that is used again."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

from pipebench.loaders.kind import Kind, Passes, Plan
from pipebench.loaders.recipe import shuffled_passes


def prepared(paths: Sequence[str], folder: Path) -> None:
    """Writes a packed copy of each file."""
    from pipebench.native import packing

    for path in paths:
        (folder / Path(path).name).write_bytes(packing.pack_if_possible(Path(path).read_bytes()))


class _Drawn:
    """A map-style dataset: the bytes of each file with a random box, not decoded yet."""

    def __init__(self, plan: Plan) -> None:
        from pipebench.region import RandomResizedCropFromBytes

        self._paths = [plan.folder / Path(one).name for one in plan.paths]
        self._crop = RandomResizedCropFromBytes(plan.side, flip=0.5)

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int) -> tuple[Any, int, Any]:
        drawn = self._crop.draw(self._paths[index].read_bytes())
        return drawn, index, np.array((*drawn.box, drawn.flip), np.int32)


def _opened(plan: Plan) -> AbstractContextManager[Passes]:
    import torch

    from pipebench.batch_into import BatchInto

    torch.set_num_threads(1)
    return shuffled_passes(_Drawn(plan), plan, collate_fn=BatchInto(plan.side))


def _without_compiler() -> str | None:
    from pipebench.errors import PipebenchError
    from pipebench.native import region

    try:
        region.library_name()
    except PipebenchError as error:
        return error.problem
    return None


KIND = Kind(
    name="ours",
    title="DataLoader, packed files and BatchInto",
    source="https://github.com/pipebench/pipebench/blob/main/docs/decode-and-crop.md",
    open=_opened,
    does={"antialiased": "decode_and_crop: only the crop's part, at a smaller scale where it can"},
    modules=("torch", "torchvision.transforms.v2"),
    distribution="pipebench",
    extra="lab",
    copies="packed JPEGs",
    gives_up="exact pixels: another antialiasing filter",
    prepare=prepared,
    needs=_without_compiler,
)
