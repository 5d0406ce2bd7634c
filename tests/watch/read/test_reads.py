"""What samples are read from: the figures of each place, and the place that is named as a cause."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from planted_runs import TRAINS, Planted, said
from render import made_up

from pipebench.render import layout, reads
from pipebench.results.reads import ReadPlace
from pipebench.watch.launch.footprint import Footprint, Held
from pipebench.watch.launch.over_time import OverTime, Seen
from pipebench.watch.read.gather import Process, Run, ShownTime
from pipebench.watch.read.reads import reads as reads_of
from pipebench.watch.record.lines import FetchSums, ProcessStarted
from pipebench.watch.record.read_lines import PlaceReads, ReadSums
from pipebench.watch.record.record_file import bucket

MS = 1_000_000


def row(kind: str, name: str, count: int, each_ms: int, **more: Any) -> PlaceReads:
    told = {"opens": 0, "open_ns": 0, "retries": None, "lengths": {bucket(each_ms * MS): count}, **more}
    return PlaceReads(kind, name, count, count * each_ms * MS, count * 1_000_000, **told)


def found(*lines: ReadSums, footprint: Footprint | None = None) -> tuple[ReadPlace, ...]:
    """Of two workers that each made 200 samples in a second."""
    sums = FetchSums(1, 0, 9, samples=200, busy_ns=1000 * MS)
    made = [
        Process([ProcessStarted(20 + one, "worker", 0, 1, one, "fork"), sums, *its])
        for one, its in enumerate((lines[:1], lines[1:]))
    ]
    return reads_of(Run(made, ShownTime(), (1,)), [1], footprint or Footprint())


def test_reads_of_a_bucket_are_of_all_samples_and_those_of_files_of_some() -> None:
    bucket_row = row("s3", "b", 200, 4, opens=10, open_ns=100 * MS, retries=3)
    files = row("nfs4", "/mnt", 20, 2)
    one, other = found(
        ReadSums(1, 0, [bucket_row]), ReadSums(1, 0, [bucket_row, files]), ReadSums(1, 0, [files], True, 40)
    )[:2]
    assert (one.place, one.remote, one.samples, one.reads, one.retries) == ("b", True, 400, 400, 6)
    assert one.reads_per_sample == 1.0 and one.share == pytest.approx(1800 / 2000)
    assert one.bytes_per_s == pytest.approx(1e6 / 4e-3) and one.p99_s == pytest.approx(4e-3, rel=0.06)
    assert (other.place, other.kind) == ("/mnt", "nfs4") and not other.retries


def test_a_hundred_reads_have_a_99th_percentile_and_fewer_a_longest() -> None:
    many = ReadSums(1, 0, [row("s3", "b", 99, 1)]), ReadSums(1, 0, [row("s3", "b", 1, 50)])
    assert found(*many)[0].p99_s == pytest.approx(1e-3, rel=0.06) and found(*many)[0].longest_s == pytest.approx(
        0.05, rel=0.06
    )
    (few,) = found(many[0])
    assert few.p99_s is None and few.longest_s == pytest.approx(1e-3, rel=0.06)


def test_looks_from_outside_tell_a_mount_that_no_record_has() -> None:
    seen = Footprint({20: Held(over_time=OverTime([], 10, 2, 8, waits_at={("fuse.x", "/x"): 6, ("ext4", "/"): 1}))})
    (mount, disk) = found(ReadSums(1, 0, [row("ext4", "/", 4, 1)], True, 4), footprint=seen)
    assert mount == ReadPlace(1, "/x", "fuse.x", False, looks_share=0.6)
    assert (disk.place, disk.looks_share, disk.reads_per_sample) == ("/", 0.1, 1.0)


def test_nothing_was_read() -> None:
    assert found() == () and found(ReadSums(1, 0, [], True, 4)) == ()


def _account(states: str, line: ReadSums | None = None, waits: Any = None) -> Any:
    run, seen = Planted(), Footprint()
    run.loader(**TRAINS, wait_for_worker=1000)
    for number in range(2):
        run.worker(number, cpu=0.1)
        over = OverTime([Seen(0.5, 0), Seen(1.5, 0)], len(states), states.count("s"), states.count("d"))
        over.waits_at = dict(waits or {})
        seen.processes[20 + number] = Held(over_time=over)
        if line is not None:
            begin, _ = run.first_pass
            run.workers[-1] = Process([*run.workers[-1].lines, replace(line, begin=begin)])
    return run.account(footprint=seen)


def test_storage_and_blocked_workers_name_the_place_with_most_of_their_time() -> None:
    of_bucket = ReadSums(1, 0, [row("s3", "b", 200, 8), row("gs", "other", 10, 1)])
    account = _account("ssssssss", of_bucket)
    assert "Reads from s3://b take 80 % of the time in which batches are made." in said(account)
    (cause,) = (one for one in account.causes if one.code == "workers-blocked")
    assert (cause.values["read_at"], cause.values["read_kind"]) == ("b", "s3")
    slow_mount = _account("dddddddd", None, {("fuse.gcsfuse", "/mnt/data"): 6})
    assert "They waited for files on /mnt/data (fuse.gcsfuse) in 75 % of the looks." in said(slow_mount)
    of_files = _account("dddd", ReadSums(1, 0, [row("nfs4", "/mnt", 4, 8)], True, 4))
    assert "Reads from /mnt (nfs4) take 80 % of the time in which batches are made (of some samples)." in said(of_files)


def test_a_place_with_little_of_the_time_is_not_named() -> None:
    assert "Reads from" not in said(_account("ssss", ReadSums(1, 0, [row("s3", "b", 10, 1)])))
    assert "Reads from" not in said(_account("dddd", ReadSums(1, 0, [row("s3", "b", 200, 4)])))  # no storage


PLACES = (
    ReadPlace(1, "photos", "s3", True, 400, 800, 2.0, 52e6, 0.0123, 0.0871, 0.2, 7, 0.83),
    ReadPlace(1, "/mnt/data", "nfs4", False, 40, 40, 1.0, 180e6, 0.0021, None, 0.034, None, 0.05, 0.12),
    ReadPlace(1, "/mnt/x", "fuse.gcsfuse", False, looks_share=0.4),
    ReadPlace(1, "/", "ext4", False, 40, 4, 0.1, 2e9, 1e-5, None, 1e-4, None, 0.001),
)


def test_the_table_has_a_row_for_each_place() -> None:
    run = replace(made_up.watched(), reads=PLACES)
    text = layout.text(reads.tables(run, full=True), width=110)
    lines = [" ".join(one.split()) for one in text.splitlines()]
    assert "place reads/sample MB/s p50 µs p99 µs retries share waits" in lines
    assert "s3://photos 2 52.0 12,300 87,100 7 83 % -" in lines
    assert "/mnt/data (nfs4) 1 180 2,100 most 34,000 - 5 % 12 %" in lines
    assert "/mnt/x (fuse.gcsfuse) - - - - - - 40 %" in lines
    assert "s3://photos: all 800 reads of 400 samples." in lines
    assert "/mnt/data (nfs4): 40 reads of 40 samples that were looked into." in lines


@pytest.mark.parametrize(
    ("places", "python", "most", "waits"),
    [((PLACES[0],), False, False, False), ((PLACES[1],), True, True, True), ((PLACES[2],), False, False, True)],
)
def test_notes_are_of_what_the_table_has(places: tuple[ReadPlace, ...], python: bool, most: bool, waits: bool) -> None:
    text = " ".join(layout.text(reads.tables(replace(made_up.watched(), reads=places), full=True)).split())
    assert ("what code in C reads by itself (HDF5, OpenCV) is not counted" in text) is python
    assert ("most: the longest" in text) is most and ("waits: of the looks" in text) is waits
    assert "The rate is while reading." in text


def test_a_short_report_has_what_takes_time_in_the_loader_of_the_verdict() -> None:
    run = replace(made_up.watched(), reads=(*PLACES, replace(PLACES[0], loader=2)))
    text = layout.text(reads.tables(run, full=False), width=110)
    assert "s3://photos" in text and "(ext4)" not in text and text.count("Reads for loader") == 1
    assert reads.tables(replace(run, reads=(PLACES[3],)), full=False) == []


def test_further_places_and_programs_have_names() -> None:
    assert reads.spoken_place("", "", True) == "further places"
    assert reads.spoken_place("pipe", "aws", True) == "pipe:aws"
