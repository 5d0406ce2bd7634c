"""The first batches of a process have lines of their own; later ones share a line, and keep figures of their own."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch

from pipebench.watch.read.decoding import read
from pipebench.watch.record.lines import FetchSums
from pipebench.watch.record.pace import SINGLE, Pace, shortest_ns
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


@pytest.mark.parametrize(("age_s", "apart_ms"), [(0, 50), (1, 50), (2, 100), (5, 250), (3600, 250)])
def test_lines_are_farther_apart_once_the_first_seconds_are_over(age_s: int, apart_ms: int, tmp_path: Path) -> None:
    """So a process that is killed loses at most a quarter of a second, or a two thousandth of a longer run."""
    assert shortest_ns(age_s * 1000 * MS) == apart_ms * MS
    kept = Kept(tmp_path)
    kept.now += age_s * 1000 * MS
    for _ in range(4000):
        kept.batch(MS)
    lines = [one.batches for one in kept.written()]
    first, *_ = lines[2:]
    assert lines[:2] == [1, 1] and first == pytest.approx(max(apart_ms, age_s * 1000 / 2000), rel=0.06)
    assert 4000 - sum(lines) <= 1.01 * max(250, age_s * 1000 / 2000)


def test_the_distance_of_lines_grows_with_the_passes_before(tmp_path: Path) -> None:
    """Workers of the tenth pass keep their sums for half a second from the begin of a run on, and later for more."""
    for age_s, apart_ms in ((1, 500), (100, 500), (1000, 2000)):
        pace, now = Pace(0, earlier=9), age_s * 1000 * MS
        due = [step for step in range(4000) if pace.due(now + step * MS)]
        assert due[pace.each] - due[pace.each - 1] == pytest.approx(apart_ms, rel=0.01)


def test_figures_of_single_batches_end_after_the_first_ones(tmp_path: Path) -> None:
    (tmp_path / "later").mkdir()
    for kept, most in ((Kept(tmp_path), SINGLE), (Kept(tmp_path / "later", first_pass=3), SINGLE // 4)):
        for _ in range(300):
            kept.batch(MS)
        kept.sums.write(last=True)
        lines = kept.written()
        assert sum(one.batches for one in lines) == 300 and sum(len(one.single) for one in lines) == most


def test_into_batches_is_looked_less_often_after_the_first_ones(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    for number in range(300):
        kept.sums.number = number
        kept.sums.look_into({"input_ids": torch.ones(2, 20, dtype=torch.long)})
        kept.batch(MS)
    kept.sums.write(last=True)
    assert sum(one.content.batches for one in kept.written()) == 64 + 30


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
