"""Results that were never measured: one of each kind with everything in it, for the tests of their text."""

from dataclasses import replace

from pipebench.results.account import Account, AccountRow, Cause
from pipebench.results.batches import SlowSample
from pipebench.results.calibration import Calibration, NoiseFloor, PlantedFigure, Slowdown
from pipebench.results.comparison import Change, Comparison, Difference, Judgement, Measured, Outputs, Said
from pipebench.results.hand_off import HandOff, QueuePoint
from pipebench.results.host_use import HostUse, ThreadPool
from pipebench.results.next_move import NextMove
from pipebench.results.sync_points import CompiledRegion, Operation, SyncPoint, SyncReport
from pipebench.results.watched import (
    BoundResult,
    LoaderResult,
    Note,
    PhaseResult,
    StageResult,
    Verdict,
    WaitPart,
    WatchResult,
    WorkerResult,
)
from pipebench.results.windows import Throughput
from pipebench.stats import Speedup

MB = 1_000_000
LONG = "torchvision.transforms._transforms_that_are_named_at_length.RandomResizedCropAndFlip"
HOSTILE = "\x1b[31m[bold]x[/x]\n````| `code` | \u202e"
CALIBRATED = (
    "Calibrated here (2026-01-02, load 1.5): attribution is within 10.0 µs a sample and 3.1 % of an iteration; a span "
    "costs 470 ns; 2 of 3 figures are within the goal"
)


def _stages(name):
    rows = [
        ("ImageFile.load", "decode", 0.00312, 0.612, True),
        (name, "transform", 0.00105, 0.206, False),
        ("ToTensor", "transform", 0.0004, 0.078, False),
        ("queue feeder thread", "serialise", 0.00025, 0.049, False),
        ("Normalize", "transform", 0.0002, 0.039, False),
        ("default_collate", "collate", 0.0002, 0.039, False),
        ("fetch", "getitem", 0.0001, 0.02, False),
        ("RandomHorizontalFlip", "transform", 0.00003, 0.006, False),
    ]
    for name, kind, wall, share, reads in rows:
        yield StageResult(name, kind, 1, 20_000, wall, share, reads, wall * 0.96, wall * 1.04)


def _loader(number, dataset, **more):
    found = LoaderResult(
        loader=number, dataset=dataset, workers=2, batch_size=32, start_method="fork", watched=True, training=True,
        passes=2, iterations=625, s_per_iteration=0.1, wait_s_per_iteration=0.06, startup_s=0.41, first_batch_s=0.4,
        later_first_batch_s=0.2, later_startup_s=0.2, pass_end_s=0.012, samples=20_000, sample_s=0.0051,
        sample_cpu_s=0.0032, sample_p50_s=0.0049, sample_p95_s=0.0071, sample_p99_s=0.0123, failed_batches=0,
    )  # fmt: skip
    return replace(found, **more)


def _worker(number):
    return WorkerResult(
        loader=1, worker=number, pids=(20 + number,), batches=312, samples=10_000, failed_batches=0, busy_s=51.2,
        cpu_s=33.1, busy_share=0.993, gc_s=0.42, gc_collections=118, ended=True, process_cpu_s=41.7,
        pss_bytes=310 * MB, rss_bytes=690 * MB, descriptors=31, threads=3,
    )  # fmt: skip


def account():
    """The account of the run below: 50 s of iterations, and the rest of 62.5 s."""
    once = (("interpreter", 0.3), ("before-loops", 4.2))
    training = (
        ("start-up", 0.61, 0.2, "persistent-workers"), ("sampler", 2.5, 2.5, "sampler-ahead"),
        ("wait-for-worker", 25.0, 25.0, "faster-loading"), ("receive", 0.6, 0.6, "smaller-hand-off"),
        ("unpickle", 1.9, 1.9, "smaller-hand-off"), ("next", 0.6, None, None),
        ("host-to-device", 0.6, 0.6, "overlap-copies"), ("forward", 9.0, None, None), ("backward", 8.0, None, None),
        ("optimiser", 1.5, None, None), ("other", 1.0, 1.0, "off-the-path"),
        ("end-of-pass", 0.03, 0.015, "persistent-workers"),
    )  # fmt: skip
    inside = (AccountRow("wait-for-worker", 2.2, 2, 2.2, "faster-loading"), AccountRow("other", 2.3, 2))
    rows = (
        *(AccountRow(code, s) for code, s in once),
        *(AccountRow(code, s, 1, saved, reason) for code, s, saved, reason in training),
        AccountRow("validation", 4.5, 2, 2.2, "faster-loading", inside=inside),
        AccountRow("exit", 0.16),
    )
    stage = {"stage": LONG, "kind": "decode", "includes_read": 1, "stage_share": 0.61, "sample_s": 0.005}
    busy = {"workers": 2, "busy": 0.99, "cpu_share": 0.65, "cores_used": 1.3, "script_cores": 0.9, "usable_cores": 2.0}
    return Account(
        sum(one.s for one in rows),
        rows,
        (
            Cause("stage", 25.0, 25.0, 1, {**busy, **stage}),
            Cause("validation", 4.5, 2.2, 2, {"passes": 2, "iterations": 50, "workers": 2, "waits_s": 2.2}),
        ),
    )


def watched(name=LONG):
    """A run that waits for data, in which everything was seen."""
    phases = zip(
        ("wait", "transfer", "forward", "backward", "optimiser", "other"),
        (0.06, 0.001, 0.018, 0.016, 0.003, 0.002),
        strict=True,
    )
    return WatchResult(
        verdict=Verdict(
            "data", "loop", 0.6, 0.06, 0.1, "wait", 0.6, 1, 2, True, 0.993, "ImageFile.load", "decode", True, 0.612
        ),
        next_move=NextMove("make-stage-cheaper", 2, 2, 1.3, "ImageFile.load", "decode", 0.00312, 0.0051),
        stages=tuple(_stages(name)),
        loop=tuple(PhaseResult(phase, spent, spent / 0.1) for phase, spent in phases),
        iterations=625,
        wait_share=0.6,
        hand_off=HandOff(
            0.001, 0.0009, 400.0, 625, 600, 0.0035, 0.002, 2.0, 19.3e6, 1.0, 80.0, 0.4, 4,
            tuple(QueuePoint(at, ready, 9) for at, ready in ((1.0, 0.0), (2.0, 2.0), (3.0, 0.4))), 0.25, 0.00475,
        ),
        workers=(_worker(0), _worker(1)),
        startup_s=0.41,
        start_method="fork",
        slowest=(SlowSample("/data/imagenet/train/n01440764/" + 3 * "deep/" + "n01440764_10026.JPEG", 1, 1, 0.081),),
        loaders=(_loader(1, "ImageFolder"), _loader(2, "Validation", training=False, iterations=50, pass_end_s=None)),
        loaders_in_loop=(1,),
        wait_p50_s=0.058,
        wait_p95_s=0.091,
        wait_p99_s=0.12,
        iteration_p50_s=0.097,
        iteration_p95_s=0.13,
        iteration_p99_s=0.19,
        wait_parts=tuple(
            WaitPart(part, spent, spent / 0.06)
            for part, spent in (
                ("sampler", 0.004), ("wait-for-worker", 0.05), ("receive", 0.001), ("unpickle", 0.004), ("rest", 0.001)
            )
        ),
        account=account(),
        device_idle=None,
        usable_cores=2,
        status=0,
        complete=True,
        notes=(
            Note("oversubscribed", {
                "loader": 1, "workers": 2, "threads": 4, "usable_cores": 2, "pools": "OpenCV 4 (cv2.setNumThreads(0))",
            }),
            Note("workers-not-watched", {"loader": 2, "workers": 2, "start_method": "spawn"}),
        ),
        host=HostUse(
            900 * MB, 280 * MB, 640 * MB, 9, 120, 1024, 60 * MB, MB, 8_000 * MB, "file_system", 3,
            (
                ThreadPool("script", "torch", 2, "torch.set_num_threads(1)"),
                ThreadPool("workers", "OpenCV", 4, "cv2.setNumThreads(0)"),
            ),
            0.07,
            0.0,
        ),
    )  # fmt: skip


def _rate(per_s):
    return Throughput((1.0,), (32,), per_s, per_s, per_s, 0.95)


def bound():
    return BoundResult(
        1, 6, 20, _rate(320.0), _rate(810.0), _rate(760.0), None, Speedup(2.53, 2.4, 2.61, 0.95),
        Speedup(2.37, 2.3, 2.45, 0.95), None, complete=True,
        notes=(Note("cache-swept", {"window_bytes": 19 * MB, "cache_bytes": 32 * MB}),),
    )  # fmt: skip


def _change(name, times_as_long, **more):
    over = Speedup(1 / times_as_long, 1 / (times_as_long + 0.02), 1 / (times_as_long - 0.02), 0.995)
    return Change(name, Judgement(over, 24, 0.995), 0.002, 0.002 * times_as_long, 8, **more)


HALF = Difference(
    "shape", "output", "[0]", "float32", "float32", (3, 96, 96), (3, 48, 48), leaves=8, all_leaves=8,
)  # fmt: skip
CHANGES = (
    _change("transform/flip-normalise/v1-sample-of-a-name-that-goes-on", 1.1, notes=("numpy 1 against numpy 2",)),
    _change("read/image/open", 1.0),
    _change("decode/rgb/pillow", 0.8),
    _change("decode/rgb/opencv", 0.5, outputs=Outputs("changed", HALF)),
    Change("crop/x/y", skipped="not in this commit"),
    Change("step/x/y", failed="ValueError: it broke"),
)
SIDES = (
    Measured(
        "main (0123abcd)",
        "0123abcd" * 5,
        "4567cdef" * 5,
        ("/a/cache/ab/0123/src", "/a/cache/ab/0123"),
        "/a/python",
        "3.11.7",
    ),
    Measured("working tree", None, None, ("/my/tree",), "/a/python"),
)
SAID = (Said("mine/data.py:12: UserWarning: The given array is not writable", 48, 46), Said("only the head", 0, 1))
COMPARISON = Comparison("main", "mine", CHANGES, 0.05, SIDES, load=(0.4, 1.6), said=SAID)

CALIBRATION = Calibration(
    "a\x1bhost",
    "2026-01-02 03:04",
    (0.5, 1.5),
    2.0,
    90.0,
    (
        PlantedFigure("4 workers, fork", "work, least", "cpu", "sample", 0.001, 0.00101, 0.005, True),
        PlantedFigure("4 workers, fork", "wait", "wall", "iteration", 0.010, 0.0105, 0.031, False, size=0.65),
        PlantedFigure("waits", "plain", "wall", "iteration", 0.010, 0.0101, 0.006, True, "wait"),
    ),
    4.7e-7,
    (
        Slowdown(0.001, 12e-6, 11e-6, 14e-6, 8, 4e-6, "first 256 batches", "wall"),
        Slowdown(0.001, 6e-6, -1e-6, 17e-6, 8, 4e-6, "later batches", "cpu"),
    ),
    0.016,
    (NoiseFloor(10, 0.06, 16, 1),),
)

SYNCS = SyncReport(
    "train:step",
    3,
    4,
    "NVIDIA X",
    None,
    (
        SyncPoint("train.py", 7, 2, (Operation(".item()", 2, 0.0015),), confirmed=2, lost_s=0.0015),
        SyncPoint(
            "project/" + 6 * "of/many/folders/" + "metrics.py",
            1093,
            2,
            (Operation("x[mask] = number (one mask: CUDA fills and need not wait)", 1), Operation(".tolist()", 1)),
            confirmed=0,
            lost_s=1e-6,
        ),
    ),
    (CompiledRegion("train.inner", "train.py", 12),),
)
