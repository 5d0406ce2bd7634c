"""The first batches of a process have lines of their own; later ones share a line, and keep figures of their own."""

from __future__ import annotations

import itertools
from pathlib import Path

from pipebench.watch.read.decoding import read
from pipebench.watch.record.lines import FetchSums
from pipebench.watch.record.record_file import SINGLE
from pipebench.watch.record.recording import Recording, Settings
from pipebench.watch.record.worker_lines import OneBatch
from pipebench.watch.worker.batch_sums import Sums, WorkerPlace

MS = 1_000_000


class Kept:
    """The sums of one worker whose batches take what they are said to take."""

    def __init__(self, folder: Path, first_pass: int = 0) -> None:
        self.folder = folder
        self.sums = Sums(Recording(Settings(str(folder), every=10_000), "worker"), WorkerPlace(1, 0, first_pass, 1))
        self.now = self.sums.pace.began

    def batch(self, took: int, failed: bool = False) -> None:
        self.now += took
        self.sums.timer.last = self.now
        self.sums.batch(self.now - took, self.now, took // 2, 0, failed)

    def written(self) -> list[FetchSums]:
        (path,) = self.folder.glob("*.spans")
        return [one for one in read(path)[0] if isinstance(one, FetchSums)]


def test_short_batches_share_a_line_and_none_is_lost(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    for _ in range(120):
        kept.batch(MS)
    assert [one.batches for one in kept.written()] == [1, 1, 50, 50]
    kept.sums.write(last=True)
    lines = kept.written()
    assert [one.batches for one in lines] == [1, 1, 50, 50, 18]
    assert [b.begin - a.end for a, b in itertools.pairwise(lines)] == [0] * 4
    began = kept.sums.pace.began
    assert [one for line in lines for one in line.single] == [
        OneBatch(began + nth * MS, MS, MS // 2, 0) for nth in range(120)
    ]


def test_figures_of_single_batches_end_after_the_first_ones(tmp_path: Path) -> None:
    (tmp_path / "later").mkdir()
    for kept, most in ((Kept(tmp_path), SINGLE), (Kept(tmp_path / "later", first_pass=3), SINGLE // 4)):
        for _ in range(300):
            kept.batch(MS)
        kept.sums.write(last=True)
        lines = kept.written()
        assert sum(one.batches for one in lines) == 300 and sum(len(one.single) for one in lines) == most


def test_what_is_kept_is_written_before_the_recording_stops_and_after_a_failed_batch(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    for _ in range(12):
        kept.batch(MS)
    assert [one.batches for one in kept.written()] == [1, 1]
    kept.batch(MS, failed=True)
    assert [one.batches for one in kept.written()] == [1, 1, 10]
    kept.batch(MS)
    kept.sums.recording.stop()
    assert [[one.batches, one.failed] for one in kept.written()] == [[1, 0], [1, 0], [10, 1], [1, 0]]


def test_a_long_batch_is_written_at_once(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    for number in range(4):
        kept.batch(60 * MS)
        assert len(kept.written()) == number + 1
