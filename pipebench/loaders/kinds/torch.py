"""torch's DataLoader with a map-style dataset, worker processes and the default collate function."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from pipebench.loaders.kind import Kind, Passes, Plan
from pipebench.loaders.recipe import DOES, MODULES, Work, one_thread, shuffled_passes


class Files:
    """A map-style dataset: the crop of each file, its index and its box."""

    def __init__(self, paths: Sequence[str], work: Work) -> None:
        self._paths, self._work = paths, work

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int) -> tuple[Any, int, Any]:
        image, box = self._work.of_file(self._paths[index])
        return image, index, box


def _opened(plan: Plan) -> AbstractContextManager[Passes]:
    one_thread()
    return shuffled_passes(Files(plan.paths, Work(plan.filter, plan.side)), plan)


KIND = Kind(
    name="torch",
    title="DataLoader, worker processes",
    source="https://docs.pytorch.org/docs/stable/data.html",
    open=_opened,
    does=DOES,
    modules=MODULES,
    distribution="torch",
    extra="lab,opencv,simplejpeg",
)
