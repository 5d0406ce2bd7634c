"""Which mount a process waits for, as the kernel's tables say; and a mount whose files answer late."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import slow_mount
from watching import script, watched

from pipebench.watch.launch.file_waits import FileWaits
from pipebench.watch.launch.over_time import OverTime
from pipebench.watch.record.reads import MOST, OTHERS

MOUNTINFO = """\
21 1 254:0 / / rw - ext4 /dev/vda rw
22 21 0:20 / /proc rw - proc proc rw
30 21 0:45 / /mnt/nfs rw - nfs4 server:/x rw
32 21 0:47 / /mnt/store rw - fuse.gcsfuse bucket rw
"""
LATE = ("fuse.gcsfuse", "/mnt/store")


class Kernel:
    """The tables of process 7: its descriptor 5 is a file of the mount of this number, and its memory holds a text."""

    def __init__(self, proc: Path) -> None:
        self.proc, self.own = proc, proc / "7"
        for folder in ("fdinfo", "fd", "ns"):
            (self.own / folder).mkdir(parents=True)
        (self.own / "ns/mnt").symlink_to("mnt:[1]")
        (self.own / "cwd").symlink_to("/mnt/store/deep")
        (self.own / "mountinfo").write_text(MOUNTINFO)

    def at(self, call: str, asleep: bool = True, mount: int = 32, text: str = "", machine: str = "x86_64") -> Any:
        (self.own / "syscall").write_text(call)
        (self.own / "fdinfo/5").write_text(f"pos:\t0\nflags:\t02\nmnt_id:\t{mount}\n")
        (self.own / "fd/6").unlink(missing_ok=True)
        (self.own / "fd/6").symlink_to("/mnt/nfs")
        (self.own / "mem").write_bytes(bytes(16) + text.encode() + b"\0later")
        return FileWaits(str(self.proc), machine).at(7, asleep)


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    return Kernel(tmp_path)


def call(number: int, *given: int) -> str:
    return " ".join([str(number), *(hex(one) for one in (*given, *[0] * (6 - len(given)))), "0x7ffc0", "0x7f8a"])


@pytest.mark.parametrize(
    ("told", "how", "found"),
    [
        (call(0, 5), {}, LATE),  # read
        (call(17, 5), {}, LATE),  # pread64
        (call(63, 5), {"machine": "aarch64"}, LATE),
        (call(63, 5), {}, None),  # uname
        (call(0, 5), {"machine": "riscv64"}, None),
        (call(7, 5), {}, None),  # poll
        (call(0, 4), {}, None),  # no such descriptor
        (call(0, 5), {"mount": 13}, None),  # a pipe
        (call(0, 5), {"mount": 22}, None),  # /proc
        (call(0, 5), {"mount": 21}, None),  # asleep in a read of a local file system: a FIFO
        (call(0, 5), {"mount": 21, "asleep": False}, ("ext4", "/")),
        ("running\n", {}, None),
        ("-1 0x7ffc 0x7f8a\n", {}, OTHERS),  # a page
        ("", {}, None),
        ("odd 0x words of another kernel 0x1\n", {}, None),
        (call(257, 0xFFFFFF9C, 16), {"text": "/mnt/store/a"}, LATE),  # openat
        (call(257, 0xFFFFFFFFFFFFFF9C, 16), {"text": "../b"}, LATE),  # from the working folder
        (call(257, 6, 16), {"text": "b"}, ("nfs4", "/mnt/nfs")),
        (call(262, 5, 16), {"text": ""}, LATE),  # fstat by newfstatat
        (call(257, 0xFFFFFF9C, 16), {"text": "/data/a"}, None),  # a link may lead anywhere
        (call(257, 0xFFFFFF9C, 16), {"text": "/data/a", "asleep": False}, None),
    ],
)
def test_the_call_tells_the_mount(told: str, how: dict[str, Any], found: Any, kernel: Kernel) -> None:
    assert kernel.at(told, **how) == found


def test_a_process_that_is_gone_waits_for_nothing(tmp_path: Path) -> None:
    assert FileWaits(str(tmp_path)).at(7, True) is None


def test_a_mount_that_is_new_is_found_and_tables_are_not_read_again_and_again(kernel: Kernel) -> None:
    waits = FileWaits(str(kernel.proc), "x86_64")
    kernel.at(call(0, 5))
    assert waits.at(7, True) == LATE
    (kernel.own / "mountinfo").write_text(MOUNTINFO + "40 21 0:50 / /new rw - nfs server rw\n")
    kernel.at(call(0, 5), mount=40)
    assert waits.at(7, True) == ("nfs", "/new")
    kernel.at(call(0, 5), mount=99)
    for _ in range(1_000):
        assert waits.at(7, True) is None
    assert waits._read < 100


def _process(state: str) -> Any:
    return SimpleNamespace(
        status=lambda: state, memory_info=lambda: SimpleNamespace(rss=10),
        io_counters=lambda: SimpleNamespace(read_bytes=0),
    )  # fmt: skip


def test_a_sleep_in_a_read_of_a_file_is_a_wait_for_storage() -> None:
    seen = OverTime()
    for state, place in (("sleeping", LATE), ("sleeping", None), ("disk-sleep", None), ("disk-sleep", LATE)):
        seen.note(0.0, _process(state), lambda asleep, place=place: place)
    seen.note(0.0, _process("running"), lambda asleep: LATE)
    seen.note(0.0, _process("sleeping"), lambda asleep: OTHERS)  # a page
    assert (seen.looks, seen.asleep, seen.for_storage, seen.waits_at) == (6, 1, 4, {LATE: 2})
    for one in range(3 * MOST):
        seen.note(0.0, _process("disk-sleep"), lambda asleep, one=one: ("nfs", f"/{one}"))
    assert len(seen.waits_at) == MOST


@contextlib.contextmanager
def late_mount(folder: Path, late_s: float) -> Iterator[Path]:
    if not slow_mount.possible():
        pytest.skip("needs root and /dev/fuse")
    point = folder / "mnt"
    point.mkdir()
    mount = slow_mount.mounted(point, late_s)
    try:
        mount.__enter__()
    except OSError as error:
        pytest.skip(str(error))
    try:
        yield point
    finally:
        mount.__exit__(None, None, None)


@pytest.mark.parametrize("late_s", [0.2, -0.2], ids=["reads", "opens"])
def test_a_process_that_waits_for_a_late_mount(late_s: float, tmp_path: Path) -> None:
    with late_mount(tmp_path, late_s) as point:
        reads = f"while True:\n    with open({str(point / '3')!r}, 'rb') as file: file.read()"
        with subprocess.Popen([sys.executable, "-c", reads]) as process:
            try:
                seen, waits = psutil.Process(process.pid), FileWaits()
                over, until = OverTime(), time.monotonic() + 60
                while over.for_storage < 5 and time.monotonic() < until:
                    over.note(0.0, seen, partial(waits.at, process.pid))
                    time.sleep(0.01)
            finally:
                process.kill()
        assert over.waits_at.get((slow_mount.KIND, str(point)), 0) >= 5


@pytest.mark.slow
def test_workers_on_a_late_mount_wait_for_storage_and_its_name_is_told(tmp_path: Path) -> None:
    with late_mount(tmp_path, 0.03) as point:
        outcome = watched([script("from_mount"), str(point)], tmp_path)
    assert outcome.status == 0, outcome.err
    causes = {one["code"]: one["values"] for one in outcome.watch["account"]["causes"]}
    assert causes["storage"]["read_at"] == str(point) and "workers-blocked" not in causes
    (place,) = (one for one in outcome.watch["reads"] if one["place"] == str(point))
    assert place["kind"] == slow_mount.KIND and place["looks_share"] > 0.5
    assert place["reads_per_sample"] == 1.0 and place["p50_s"] > 0.03 and place["share"] > 0.5
