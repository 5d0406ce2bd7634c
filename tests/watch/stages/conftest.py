from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from clockwork import Rows
from fetched_rows import CLOCK

from pipebench.watch.record.patches import Patches
from pipebench.watch.stages import finding_transforms
from pipebench.watch.stages.webdataset import watch_pipeline


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Fetches eight samples of a dataset, as a worker would; gives the rows."""
    patches = Patches()

    def run(dataset: Any, may_change: bool = True, **how: Any) -> Rows:
        modules = finding_transforms.watch_tree(dataset, patches, may_change=may_change)
        found = Rows(dataset, tmp_path, CLOCK, monkeypatch, **how)
        found.sums.modules = modules
        began = CLOCK.now
        assert [one for first in (0, 4) for one in found.fetch([*range(first, first + 4)])] == [*range(8)]
        assert sum(found.found().values()) == CLOCK.now - began
        return found

    yield run
    patches.undo()


@pytest.fixture
def patched() -> Iterator[None]:
    """The pipelines of webdataset are watched; afterwards they are as they were."""
    import webdataset.pipeline

    patches = Patches()
    watch_pipeline(patches, webdataset.pipeline)
    yield
    patches.undo()
    assert webdataset.DataPipeline.invoke.__code__.co_filename.endswith("pipeline.py")
