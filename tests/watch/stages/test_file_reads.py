"""Reads of files in some samples: which count, by which mount, how long they take, and that looking ends."""

from __future__ import annotations

import io
import itertools
import os
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pipebench.watch.record import mounts
from pipebench.watch.record.read_lines import PlaceReads, ReadSums
from pipebench.watch.record.record_file import bucket
from pipebench.watch.worker import file_reads
from pipebench.watch.worker.file_reads import FileReads

STEP = 1_000
RECORDING: Any = SimpleNamespace(guarded=lambda where, act, *args: act(*args))
SIZE = 100_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "records"
    made.write_bytes(bytes(SIZE))
    return made


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Each look at the clock takes a microsecond, and nothing else does."""
    ticks = itertools.count(0, STEP)
    monkeypatch.setattr(file_reads, "perf_counter_ns", lambda: next(ticks))


def looked(sample: Any, samples: int = 1) -> list[ReadSums]:
    looks = FileReads(RECORDING, 3)
    looks._event_ns = 1e-9
    assert looks.begins()
    sample()
    looks.ends()
    looks.made(samples)
    assert sys.getprofile() is None
    return looks.take(7)


def counts(sample: Any) -> tuple[int, int, int]:
    """The reads, the bytes and the opens of a sample."""
    places = looked(sample)[0].places
    return tuple(sum(getattr(one, name) for one in places) for name in ("reads", "read_bytes", "opens"))  # type: ignore


def _text(path: Path) -> None:
    with open(path, encoding="latin1") as file:
        file.read()


def _in_parts(path: Path) -> None:
    with open(path, "rb", buffering=8192) as file:  # Python 3.14 has a larger buffer
        file.read(60_000), file.read(40_000), file.read(10)


def _small(path: Path) -> None:
    """What comes out of the buffer is no read of a file."""
    with open(path, "rb", buffering=50_000) as file:
        for _ in range(1_000):
            file.read(100)


def _unbuffered(path: Path) -> None:
    with open(path, "rb", buffering=0) as file:
        file.readinto(bytearray(700))


def _not_a_file(path: Path) -> None:
    io.BytesIO(bytes(99)).read()
    io.BufferedReader(io.BytesIO(bytes(99))).read(5)  # type: ignore[arg-type]
    with open("/proc/self/stat", "rb") as file:
        file.read()
    reads, writes = os.pipe()
    os.write(writes, b"1")
    os.close(writes)
    with open(reads, "rb") as file:
        file.read()


@pytest.mark.parametrize(
    ("sample", "found"),
    [
        (lambda path: path.read_bytes(), (1, SIZE, 1)),
        (_text, (1, SIZE, 1)),
        (_in_parts, (2, SIZE, 1)),
        (_small, (2, SIZE, 1)),
        (_unbuffered, (1, 700, 1)),
        (_not_a_file, (0, 0, 0)),
        (lambda path: None, (0, 0, 0)),
    ],
)
def test_reads_of_files_are_counted_where_their_position_moves(sample: Any, found: Any, path: Path) -> None:
    assert counts(lambda: sample(path)) == found


def test_an_array_and_a_member_of_an_archive_are_reads(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(SIZE))
    assert counts(lambda: np.load(tmp_path / "a.npy"))[1:] == ((tmp_path / "a.npy").stat().st_size, 1)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a", bytes(SIZE))
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        reads, read_bytes, opens = counts(lambda: archive.read("a"))
    assert reads >= 1 and read_bytes >= SIZE and opens == 0  # it was open before


def test_a_read_takes_the_time_between_its_call_and_its_return(path: Path) -> None:
    """Two looks at the clock lie between: the end of our own work before it, and the begin of that after it."""
    place = mounts.of_path(mounts.mounts(), str(path))
    assert place is not None
    told = PlaceReads(place.kind, place.point, 1, 2 * STEP, SIZE, 1, 2 * STEP, None, {bucket(2 * STEP): 1})
    assert looked(path.read_bytes, samples=4) == [ReadSums(3, 7, [told], True, 4)]


def test_looks_are_as_rare_as_they_are_dear(path: Path) -> None:
    looks, each = FileReads(RECORDING, 1), 1_000_000
    begun = 0
    for looks.samples in range(20_000):
        if looks.due(each) and not looks.waits() and looks.begins():
            begun += 1
            path.read_bytes()
            looks.ends()
            looks.made(1)
    spent = 20_000 * each
    assert begun > 10 and looks._took <= 0.002 * spent + 2 * file_reads._EACH_NS
    assert sum(one.samples for one in looks.take(0)) == begun


@pytest.mark.parametrize(("each_us", "events", "booked"), [(5, 40, False), (100, 40_000, True), (900_000, 40, False)])
def test_a_look_costs_what_its_samples_took_longer_than_others(
    each_us: int, events: int, booked: bool, monkeypatch: Any
) -> None:
    """Unless a sample of few calls takes so long: then it is slow by itself."""
    now = [0]
    monkeypatch.setattr(file_reads, "perf_counter_ns", lambda: now[0])
    looks = FileReads(RECORDING, 1)
    looks.samples, looks._busy, looks._event_ns = 1_000, 1_000 * 1_000_000, 100.0
    looks.begins()
    for _ in range(events // 2):
        abs(0)
    now[0] += each_us * 1_000
    looks.ends()
    looks.made(1)
    assert (looks._took > 10 * file_reads._EACH_NS) is booked


def test_a_sample_of_too_many_calls_is_left_out_and_looking_ends(path: Path) -> None:
    def long() -> None:
        path.read_bytes()
        for _ in range(file_reads._EVENTS):
            len("")

    assert looked(long) == []
    looks = FileReads(RECORDING, 1)
    for _ in range(file_reads._MOST_CUT):
        looks.begins()
        long()
        looks.ends()
    assert not looks.due(10**12)


def test_a_profiler_of_the_script_keeps_its_place(path: Path) -> None:
    looks, own = FileReads(RECORDING, 1), lambda *_: None
    sys.setprofile(own)
    try:
        assert not looks.begins()
        sys.setprofile(None)
        assert looks.begins()
        sys.setprofile(own)  # within the sample
        looks.ends()
        assert sys.getprofile() is own
    finally:
        sys.setprofile(None)
    looks.made(1)
    assert looks.take(0) == [] and not looks.due(10**12)


def test_reads_of_a_sample_that_failed_are_not_counted(path: Path) -> None:
    looks = FileReads(RECORDING, 1)
    for whole in (False, True):
        looks.begins()
        path.read_bytes()
        looks.ends()
        if whole:
            looks.made(1)
    (line,) = looks.take(0)
    assert line.samples == 1 and [one.reads for one in line.places] == [1]


def test_a_script_near_its_recursion_limit_goes_as_deep_as_before(path: Path) -> None:
    def deep(left: int) -> int:
        return deep(left - 1) if left else len(path.read_bytes())

    def deepest() -> int:
        low, high = 1, sys.getrecursionlimit()
        while high - low > 1:
            middle = (low + high) // 2
            try:
                deep(middle)
                low = middle
            except RecursionError:
                high = middle
        return low

    depth, looks = deepest() - 3, FileReads(RECORDING, 1)
    looks._event_ns = 1.0
    for one in range(depth - 5, depth):
        looks.begins()
        assert deep(one) == SIZE
        looks.ends()
        looks.made(1)
    assert sys.getprofile() is None


MOUNTINFO = """\
21 1 254:0 / / rw,relatime - ext4 /dev/vda rw
22 21 0:20 / /proc rw - proc proc rw
30 21 0:45 / /mnt/a\\040b rw shared:1 - nfs4 server:/x rw
31 21 0:46 / /mnt rw - btrfs /dev/vdb rw
32 31 0:47 / /mnt/deep rw - fuse.gcsfuse bucket rw
33 21 254:0 /data /copy rw - ext4 /dev/vda rw
no mount
"""


@pytest.mark.parametrize(
    ("device", "path", "found"),
    [
        ((0, 45), "/mnt/a b/c", ("/mnt/a b", "nfs4")),
        ((0, 99), "/mnt/x", ("/mnt", "btrfs")),  # a subvolume
        ((0, 99), "/mnt/deep/x", ("/mnt/deep", "fuse.gcsfuse")),
        ((0, 99), "/mnt/deeper", ("/mnt", "btrfs")),
        ((254, 0), "/copy/x", ("/copy", "ext4")),  # one device, mounted twice
        ((254, 0), "/home/x", ("/", "ext4")),
    ],
)
def test_a_file_is_on_the_mount_of_its_device_or_of_its_path(
    device: Any, path: str, found: Any, tmp_path: Path
) -> None:
    (tmp_path / "mountinfo").write_text(MOUNTINFO)
    told = mounts.of_file(mounts.mounts(str(tmp_path / "mountinfo")), os.makedev(*device), path)
    assert told is not None and (told.point, told.kind) == found


def test_a_system_that_tells_no_mounts_has_none(tmp_path: Path) -> None:
    assert mounts.mounts(str(tmp_path / "none")) == [] and mounts.of_path([], "/x") is None
