"""Workers tell their thread pools after two seconds of making batches, as they may live on for longer than a watch."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipebench.watch.record.lines import LibraryThreads
from pipebench.watch.record.recording import Recording, Settings
from pipebench.watch.worker.batch_sums import Sums, WorkerPlace

SECOND = 1_000_000_000


@pytest.mark.parametrize(("worker", "first_pass", "told"), [(0, 0, 1), (7, 0, 1), (8, 0, 0), (0, 1, 0), (None, 0, 1)])
def test_the_first_workers_do_so_once(worker: int | None, first_pass: int, told: int, tmp_path: Path) -> None:
    recording = Recording(Settings(str(tmp_path)), "worker", first_pass, loader=1, worker=worker, start_method="fork")
    written: list[object] = []
    recording.write = lambda *lines: written.extend(lines)  # type: ignore[method-assign]
    sums = Sums(recording, WorkerPlace(1, worker, first_pass, 0))
    for batch in range(10):
        assert sum(isinstance(one, LibraryThreads) for one in written) == (told if batch >= 4 else 0)
        sums.batch(batch * SECOND, batch * SECOND + SECOND // 2, 0, 0, False)
