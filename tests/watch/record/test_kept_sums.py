"""Sums of short batches are written together; those of a long one at once."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from pipebench.watch.read.decoding import read
from pipebench.watch.record.lines import FetchSums
from pipebench.watch.record.recording import STOP_FILE, Recording, Settings
from pipebench.watch.worker import batch_sums
from pipebench.watch.worker.batch_sums import Sums, WorkerPlace

MS = 1_000_000


class Kept:
    """The sums of one worker whose batches take what they are said to take."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sums = Sums(Recording(Settings(str(folder), every=10_000), "worker"), WorkerPlace(1, 0, 0, 1))
        self.now = self.sums.pace.began

    def batch(self, took: int, failed: bool = False) -> None:
        self.now += took
        self.sums.timer.last = self.now
        self.sums.batch(self.now - took, self.now, 0, 0, failed)

    def written(self) -> list[FetchSums]:
        (path,) = [one for one in self.folder.iterdir() if one.name != STOP_FILE]
        return [one for one in read(path)[0] if isinstance(one, FetchSums)]


def test_short_batches_are_written_together_and_none_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(batch_sums, "read_bytes", lambda: asked.append(1) or 100 * len(asked))  # type: ignore[func-returns-value]
    kept = Kept(tmp_path)
    for _ in range(120):
        kept.batch(MS)
    assert [one.batches for one in kept.written()] == [1] * 110  # ten at once, then two times 50 ms
    kept.sums.write(last=True)
    lines = kept.written()
    assert sum(one.batches for one in lines) == 120
    assert [b.begin - a.end for a, b in itertools.pairwise(lines)] == [0] * 119
    assert len(asked) == 1 + 10 + 3  # when the worker starts, and once for each append
    assert [lines[place].read_bytes for place in (0, 9, 10, 59, 109, 119)] == [200, 1100, 1102, 1200, 1300, 1400]


def test_what_is_kept_is_written_before_the_recording_stops_and_after_a_failed_batch(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    for _ in range(12):
        kept.batch(MS)
    assert len(kept.written()) == 10
    kept.batch(MS, failed=True)
    assert len(kept.written()) == 13
    kept.batch(MS)
    kept.sums.recording.stop()
    assert [len(kept.written()), sum(one.failed for one in kept.written())] == [14, 1]


def test_a_long_batch_is_written_at_once(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    for number in range(3):
        kept.batch(60 * MS)
        assert len(kept.written()) == number + 1
