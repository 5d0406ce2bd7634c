"""Seven days of training by a clock that only the training moves: what the recording keeps and writes has a bound."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

MOST = 50_000_000  # bytes of memory and disk


@pytest.mark.long
@pytest.mark.parametrize("passes", [1, 1008])
def test_seven_days_of_a_rank_stay_small(tmp_path: Path, passes: int) -> None:
    """One iteration in four seconds: a single pass, or 1,008 of ten minutes, each with four new workers."""
    done = subprocess.run(
        [sys.executable, "-c", _WEEK, str(tmp_path), str(passes)], capture_output=True, text=True, timeout=1200
    )
    assert not done.returncode, done.stderr
    grown_kb, faults = map(int, done.stdout.split())
    disk = sum(4096 * -(-path.stat().st_size // 4096) for path in tmp_path.rglob("*") if path.is_file())
    sys.stdout.write(f"passes: {passes}, memory: {grown_kb / 1e3:.1f} MB more, disk: {disk / 1e6:.1f} MB\n")
    assert not faults
    assert grown_kb * 1024 + disk < MOST, (grown_kb, disk)


_WEEK = """
import resource, sys
from types import SimpleNamespace
import torch
from torch.utils.data import DataLoader
from torch.utils.data._utils.fetch import _MapDatasetFetcher
from pipebench.watch.launch import watched_script
from pipebench.watch.launch.watched_script import WatchedScript
from pipebench.watch.record import exclusive_time, record_file
from pipebench.watch.record.recording import Recording, Settings
from pipebench.watch.script import arrivals, iterators, phases
from pipebench.watch.worker import batch_sums, fetching
from pipebench.watch.worker.batch_sums import Sums, WorkerPlace

folder, passes = sys.argv[1], int(sys.argv[2])
SECONDS, MS = 7 * 86_400, 1_000_000
now = 1_000

def clock():
    return now

for module in (phases, iterators, exclusive_time, arrivals, watched_script, batch_sums, fetching):
    module.perf_counter_ns = clock
record_file.time = SimpleNamespace(perf_counter_ns=clock)

class Data:
    def __len__(self):
        return SECONDS // 4 // passes

    def __getitem__(self, index):
        global now
        now += (400 + index % 20) * MS
        return index

settings = Settings(folder)
script = WatchedScript(settings)
script.start()
loader, made = DataLoader(Data(), batch_size=None), []
weight = torch.ones(1, requires_grad=True)
optimiser = torch.optim.SGD([weight], 1e-6)
before = faults = 0
for number in range(passes):
    began = now
    for _ in loader:
        weight.sum().backward()
        now += 3590 * MS
        optimiser.step()
        before = before or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ended = now
    for worker in range(4 if passes > 1 else 0):
        now = began + worker + 1
        recording = Recording(settings, "worker", number, loader=1, worker=worker)
        sums = Sums(recording, WorkerPlace(1, worker, number, 1_000))
        fetcher = fetching.watch_fetcher(_MapDatasetFetcher(Data(), False, lambda sample: sample, False), sums)
        for index in range(0, len(loader), 4):
            now += 15_000 * MS
            fetcher.fetch(index)
        sums.write(last=True)
        faults += sums.recording.faults
        now = ended
script.finish()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, faults + script.recording.faults)
"""
