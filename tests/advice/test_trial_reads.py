"""What the workers of a trial read, and how much of it came from storage."""

import multiprocessing
import os
import sys
from dataclasses import replace

import pytest
from made_up_trials import seen

from pipebench.advise import trial
from pipebench.render import layout
from pipebench.render.advice_notes import of_reads
from pipebench.results.advice import Advice, Change, Finding
from pipebench.results.reads import ReadPlace
from pipebench.results.trial_reads import TrialReads
from pipebench.stats import Speedup
from pipebench.watch.record.mounts import Mount
from pipebench.watch.record.trial_lines import TrialWindow
from pipebench.watch.trial.reading import Reading

MB = 1_000_000
WINDOWS = [
    TrialWindow(1, 0, False, 2.0, 10, read_bytes=40 * MB, stored_bytes=20 * MB),
    TrialWindow(1, 0, True, 1.0, 10, read_bytes=50 * MB, stored_bytes=2 * MB),
    TrialWindow(1, 1, True, 1.0, 10, read_bytes=10 * MB, stored_bytes=MB),
]


def _reads(path, waits):
    with open(path, "rb", buffering=0) as file:
        while file.read(65536):
            pass
    waits[0].send(1)
    waits[0].recv()
    os._exit(0)


@pytest.mark.skipif(sys.platform != "linux", reason="the counts of Linux")
def test_what_workers_read_counts_while_they_live_and_when_they_have_ended(tmp_path):
    path = tmp_path / "data"
    path.write_bytes(bytes(3 * MB))
    fork = multiprocessing.get_context("fork")
    here, there = fork.Pipe()
    reading = Reading()
    worker = fork.Process(target=_reads, args=(path, [there]))
    worker.start()
    here.recv()
    found = reading.since()
    assert 3 * MB <= found.read < 3.5 * MB and 0 <= found.stored < 3.5 * MB
    here.send(1)
    worker.join()
    assert reading.since().read < MB  # nothing is counted twice
    worker = fork.Process(target=_reads, args=(path, [there]))
    worker.start()
    here.recv()
    here.send(1)
    worker.join()
    assert 3 * MB <= reading.since().read < 3.5 * MB


@pytest.mark.skipif(sys.platform != "linux", reason="the counts of Linux")
def test_without_workers_the_reads_of_the_process_itself_count(tmp_path):
    path = tmp_path / "data"
    path.write_bytes(bytes(3 * MB))
    reading = Reading()
    path.read_bytes()
    assert 3 * MB <= reading.since().read < 3.5 * MB


def test_a_trial_adds_up_its_windows(monkeypatch):
    monkeypatch.setattr(trial, "mounts", lambda: [Mount(1, 1, "/", "ext4"), Mount(2, 2, "/proc", "proc")])
    own = trial.Trial(1, WINDOWS)
    assert own.read(seen(0.5)) == TrialReads(60 * MB, 3 * MB, 40 * MB, 20 * MB)
    assert trial.Trial(1, [TrialWindow(1, 0, True, 1.0, 10)]).read(seen(0.5)) is None


@pytest.mark.parametrize(
    ("kinds", "mounted", "known"),
    [
        (["ext4"], ["nfs4"], True),
        (["nfs4"], ["ext4"], False),
        (["ext4", "s3"], ["ext4"], False),
        ([], ["ext4", "nfs4"], False),
        ([], ["ext4", "fuse.gcsfuse"], False),
        ([], ["overlay", "tmpfs", "proc"], True),
    ],
)
def test_of_what_a_network_serves_nobody_says_what_came_from_storage(monkeypatch, kinds, mounted, known):
    monkeypatch.setattr(trial, "mounts", lambda: [Mount(n, n, "/m", kind) for n, kind in enumerate(mounted)])
    made = seen(0.5)
    places = tuple(ReadPlace(1, "/data", kind, False) for kind in kinds)
    made = replace(made, watched=replace(made.watched, reads=places))
    assert (trial.Trial(1, WINDOWS).read(made) is not None) is known


def _said(read):
    gained = Finding(Change("num_workers", {"num_workers": 4}), "gain", Speedup(2.0, 1.8, 2.2, 0.95), read=read)
    advice = Advice((gained,), 0, 1, "train.py", 3, 60.0, 50.0, "done")
    return " ".join(layout.text(of_reads(advice), width=80).split())


def test_the_share_of_the_page_cache_is_told():
    assert _said(TrialReads(50 * MB, 0, 50 * MB, MB)) == "Of 100 MB that trials read, 99 % came from the page cache."
    assert _said(TrialReads(5000, 0, 5000, 0)) == "" and _said(None) == ""


def test_a_changed_loader_that_found_more_in_the_cache_is_told():
    said = _said(TrialReads(50 * MB, MB, 50 * MB, 25 * MB))
    told = "74 % came from the page cache. While num_workers=4 was tried, storage gave 1.00 MB to it and 25.0 MB"
    assert told in said
    assert "a part of the gain may be the cache's" in said


def test_memory_maps_take_more_from_storage_than_read_calls_ask_for():
    found = TrialReads(0, 30 * MB, MB, 40 * MB)
    assert found.whole == 70 * MB and found.cached_share == 0.0 and not found.warmer
