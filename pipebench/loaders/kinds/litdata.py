"""LitData: chunks of its own, a StreamingDataset that shuffles, and its StreamingDataLoader with worker processes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from pipebench.loaders.kind import Kind, Passes, Plan
from pipebench.loaders.recipe import DOES, MODULES, Work, one_thread, passes_of


def _encoded(pair: tuple[int, str]) -> dict[str, Any]:
    return {"image": Path(pair[1]).read_bytes(), "index": pair[0]}


def prepared(paths: Sequence[str], folder: Path) -> None:
    """Writes the files into chunks."""
    from litdata import optimize

    optimize(_encoded, list(enumerate(paths)), str(folder / "chunks"), chunk_bytes="16MB", num_workers=1, verbose=False)


class _Cropped:
    """From an item of the data set to its crop, index and box."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def __call__(self, item: dict[str, Any]) -> tuple[Any, int, Any]:
        image, box = self._work(item["image"])
        return image, item["index"], box


def _opened(plan: Plan) -> AbstractContextManager[Passes]:
    from litdata import StreamingDataLoader, StreamingDataset

    one_thread()
    cropped = _Cropped(Work(plan.filter, plan.side))
    dataset = StreamingDataset(str(plan.folder / "chunks"), shuffle=True, seed=plan.seed, transform=cropped)
    loader: Any = StreamingDataLoader(
        dataset, batch_size=plan.batch_size, num_workers=plan.cores, persistent_workers=True
    )  # fmt: skip
    return passes_of(loader)


KIND = Kind(
    name="litdata",
    title="LitData StreamingDataLoader, worker processes",
    source="https://github.com/Lightning-AI/litData#readme",
    open=_opened,
    does=DOES,
    modules=("litdata", *MODULES),
    distribution="litdata",
    extra="lab,litdata,opencv,simplejpeg",
    copies="chunks of LitData",
    resumes="StreamingDataLoader.state_dict",
    prepare=prepared,
)
