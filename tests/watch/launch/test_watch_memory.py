"""What watching adds to a run in memory and on disk: bounded, however many spans there are."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data._utils.fetch import _MapDatasetFetcher
from torchvision.transforms import Compose
from watching import plain, script, watched

from pipebench.watch.read.decoding import read
from pipebench.watch.record.lines import FetchSums
from pipebench.watch.record.recording import Recording, Settings
from pipebench.watch.worker import fetching
from pipebench.watch.worker.batch_sums import Sums, WorkerPlace

pytestmark = pytest.mark.usefixtures("real_starts")

SPANS = 9  # of a sample: eight transforms and __getitem__


class _Samples:
    transform: Any = Compose([abs] * 8)

    def __getitem__(self, index: int) -> int:
        found: int = self.transform(index)
        return found


def test_records_have_a_bound(tmp_path: Path) -> None:
    """A quarter of a million spans: sums at intervals, and as much in full as there is room for."""
    recording = Recording(Settings(str(tmp_path)), "script")
    recording.file.room = room = 50_000
    sums = Sums(recording, WorkerPlace(1, None, 0, time.perf_counter_ns()))
    fetcher = fetching.watch_fetcher(_MapDatasetFetcher(_Samples(), True, len, False), sums)
    batches, began = 3500, time.perf_counter()
    for _ in range(batches):
        fetcher.fetch(range(8))
    took = time.perf_counter() - began
    sums.write(last=True)
    (path,) = tmp_path.iterdir()
    lines, _ = read(path)
    written = [one for one in lines if isinstance(one, FetchSums)]
    assert sum(one.samples for one in written) == batches * 8
    assert len(written) <= 256 + took / 0.05 + 2
    in_full = path.read_bytes().splitlines()
    assert sum(len(line) for line in in_full if line.startswith(b'["BatchInFull"')) < room + 20_000
    assert path.stat().st_size < room + 20_000 + 700 * len(written) + 5_000


@pytest.mark.long
@pytest.mark.parametrize("workers", [0, 2])
def test_ten_million_spans_add_less_than_200_megabytes(tmp_path: Path, workers: int) -> None:
    """The same run plainly and watched: the sum over all its processes of what each grew by, and its records."""
    samples = 10_000_000 // SPANS + 1
    argv = [script("many"), str(samples), str(workers)]
    records = tmp_path / "records"
    before, after = plain(argv), watched(argv, tmp_path, {"records": str(records)})
    assert after.status == 0, after.err
    batches, *least = map(int, before.out.split())
    again, *most = map(int, after.out.split())
    assert batches == again == -(-samples // 64)
    assert sum(loader["samples"] for loader in after.watch["loaders"]) == samples
    memory = most[0] - least[0] + workers * (most[1] - least[1])
    disk = sum(path.stat().st_size for path in records.iterdir())
    print(f"{workers} workers: {memory / 1e6:.1f} MB of memory, {disk / 1e6:.1f} MB on disk")  # noqa: T201
    assert memory + disk < 200_000_000, (memory, disk)
