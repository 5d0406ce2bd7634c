"""Reports that were never measured, with figures for every picture."""

import random
from dataclasses import replace
from pathlib import Path

from saved_pairs import PAIRS

from pipebench.before_after.whole import compared
from pipebench.results.account import Cause
from pipebench.results.advice import Advice, Change, Finding
from pipebench.results.batches import SlowSample
from pipebench.results.calibration import PlantedFigure
from pipebench.results.consumers import Consumer
from pipebench.results.hand_off import HandOff, QueuePoint
from pipebench.results.loading import LoaderRow
from pipebench.results.measurement import Ceiling, Measurement
from pipebench.results.over_time import MemoryPoint, OverTime, Timeline, TimelineSpan, TimesPoint, WorkerMemory
from pipebench.results.plan import Asked, Figure, Plan, Prediction
from pipebench.results.programs import WatchedCommand
from pipebench.results.ranks import RankRow, Ranks
from pipebench.results.report import SCHEMA_VERSION, Report
from pipebench.results.studies import Author, StudyResult, StudyRow
from pipebench.stats import Interval, Speedup, Summary
from pipebench.task import Work, Workload

from made_up import CALIBRATION, COMPARISON, MB, SYNCS, bound, watched  # isort: skip

PERIOD = 16


def speedup(value, apart=0.03):
    return Speedup(value, value * (1 - apart), value * (1 + apart), 0.95)


def series(workers=2, points=60):
    drawn = random.Random(1)
    waits = tuple((0.09 if one % PERIOD == 5 else 0.002) * drawn.uniform(0.8, 1.2) for one in range(240))
    times = [0.005 * drawn.uniform(0.9, 1.1) for _ in range(points)]
    samples = tuple(TimesPoint(1.0 + one, at, 1.4 * at, at * drawn.uniform(2, 9), 300) for one, at in enumerate(times))
    memory = tuple(
        WorkerMemory(1, one, tuple(MemoryPoint(1.0 * s, MB * (250 + 9 * one + 2 * s * bool(one))) for s in range(40)))
        for one in range(workers)
    )
    return OverTime(waits, samples, samples, memory)


def timeline(workers=2, steps=8):
    tracks = (*(f"worker {one}" for one in range(workers)), "loop")
    spans, now = [], 0.0
    for one in range(steps):
        wait = 0.018 if one % workers == 0 else 0.003
        spans.append(TimelineSpan(workers, "wait", now, now + wait, one))
        spans.append(TimelineSpan(workers, "step", now + wait, now + wait + 0.012, one))
        now += wait + 0.012
    for one in range(workers):
        for number in range(one, steps, workers):
            end = 0.015 * number + 0.004 * one
            spans.append(TimelineSpan(one, "batch", max(0.0, end - 0.028), end + 0.001, number + workers))
            spans.append(TimelineSpan(one, "pickle", end + 0.001, end + 0.003, number + workers))
    return Timeline(steps, workers, tracks, tuple(spans))


def result(name="ToTensor", workers=2, slow=10):
    found = watched(name)
    one = found.workers[0]
    drawn = random.Random(2)
    shares = [drawn.uniform(0.85, 1.15) for _ in range(workers)]
    stages = tuple(
        replace(
            stage, by_worker_s=tuple(share * stage.exclusive_s_per_sample for share in shares) if workers <= 64 else ()
        )
        for stage in found.stages
    )
    account = replace(
        found.account, causes=(*found.account.causes, Cause("periodic-stalls", 3.0, values={"period": PERIOD}))
    )
    return replace(
        found, stages=stages, over_time=series(min(workers, 8)), timeline=timeline(min(workers, 12)), account=account,
        workers=tuple(replace(one, worker=place, busy_share=0.9 + 0.01 * (place % 9)) for place in range(workers)),
        slowest=tuple(SlowSample(f"/data/n0144/{name}_{one}.JPEG", 1, 1, 0.1 / (1 + one)) for one in range(slow)),
        hand_off=HandOff(0.001, 0.0009, 400.0, 625, 600, ready=0.4, most_ready=4, ready_over_time=tuple(
            QueuePoint(float(at), abs((at * 7 % 9) / 4 - 0.6), 9) for at in range(60))),
    )  # fmt: skip


FINDINGS = (
    Finding(Change("num_workers", {"num_workers": 4}, "+2 processes, 600 MB", predicted=3.3), "gain", speedup(1.9)),
    Finding(Change("num_workers", {"num_workers": 6}, "+4 processes, 1.2 GB", predicted=3.3), "gain", speedup(2.7)),
    Finding(
        Change("num_workers", {"num_workers": 12}, "more", predicted=3.3), "not-tried", predicted=speedup(2.9, 0.1)
    ),
    Finding(Change("prefetch_factor", {"prefetch_factor": 8}, "memory"), "no-gain", speedup(1.0)),
    Finding(Change("one_thread", {}, "none", one_thread=True), "unclear", Speedup(1.2, 0.9, 1.6, 0.95)),
    Finding(Change("persistent_workers", {"persistent_workers": True}, "memory", predicted=1.3), "not-tried"),
    Finding(Change("knock_out", {}, title="decode", knock_out=True), "gain", speedup(2.1)),
)
ADVICE = Advice(FINDINGS, 1, 1, "train.py", 21, 180.0, 131.0, "done", most=3.3)


def measured(variant, per_sample, task="decode/rgb", share=None, gives_up=None):
    cost = Summary(per_sample * 8, per_sample * 7.6, per_sample * 8.4, 0.95, 1 / per_sample)
    return Measurement(
        task.split("/")[0], task, variant, Workload(data="x"), work=Work(8, 1000, 3000), summary=cost,
        over_reference=speedup(0.005 / per_sample), fraction_of_ceiling=share, gives_up=gives_up,
    )  # fmt: skip


def loading(workers, rate, kind="map"):
    return LoaderRow(
        kind, "float32", workers, 16, "fork", images_per_s=rate, low=0.94 * rate, high=1.05 * rate, confidence=0.9
    )


def ranks(count=4, slow=2):
    rows = [
        RankRow(one, 100 + one, 0.03 if one == slow else 0.002, 0.08, 0.9 if one == slow else 0.01, 1.0, 5000)
        for one in range(count)
    ]
    return Ranks(count, tuple(rows), 500, 0.15, 12.0, 0.2, slow, "wait", 0.028)


WATCH = Report(SCHEMA_VERSION, watched=result())
ADVISED = Report(SCHEMA_VERSION, watched=result(), advice=ADVICE)
BOUND = Report(SCHEMA_VERSION, watched=replace(result(), bound=bound()))
LAB = Report(
    SCHEMA_VERSION,
    measurements=(
        measured("pillow", 0.005, share=0.7), measured("opencv", 0.0039, share=0.9),
        measured("simplejpeg", 0.0036, share=1.0),
        measured("pillow-draft", 0.0034, gives_up="detail"), measured("slow-one", 0.09, share=0.04),
        measured("open", 4e-5, "read/image", 0.6), measured("pread", 2.6e-5, "read/image", 0.97),
    ),
    ceilings=(Ceiling("jpeg-decode", "decode/rgb", samples_per_s=1 / 0.0035, median_s=0.028),),
    loader=(loading(0, 98), loading(1, 90), loading(2, 170), loading(4, 290), loading(2, 1330, "ready")),
    consumers=(Consumer("ViT-B/16", 393.0), Consumer("ResNet-50", 2470.0)),
)  # fmt: skip
RANKS = Report(SCHEMA_VERSION, watched=result(), command=WatchedCommand(("torchrun",), 0, ranks=ranks()))
COMMITS = Report(SCHEMA_VERSION, comparison=COMPARISON)
STUDY = Report(
    SCHEMA_VERSION,
    studies=(
        StudyResult("x", "A study", "someone", "default", "sample", "here", (
            StudyRow("the baseline", "slow", Interval(0.1, 0.09, 0.11, 0.95)),
            StudyRow("faster decoder", "", None, None, speedup(1.6), None, speedup(1.6), Author("twice", 2.0)),
            StudyRow("no copy", "", None, None, speedup(1.02), None, speedup(1.02), Author("faster", 1.1)),
        )),
    ),
)  # fmt: skip
COUNTED = Report(
    SCHEMA_VERSION,
    studies=(
        StudyResult("sync-points", "A loss", "someone", "default", "step", "here", (
            StudyRow("baseline", "masks", count=5.0), StudyRow("where", "", count=2.0),
            StudyRow("ignore-index", "", count=0.0),
        )),
    ),
)  # fmt: skip
ERRORS = tuple(
    PlantedFigure(f"{workers} workers", f"stage {one}", "wall", "sample", 0.01, 0.0101, 0.004 * (one - 4), one < 9)
    for workers in (0, 2, 4) for one in range(10)
)  # fmt: skip
CALIBRATED = Report(SCHEMA_VERSION, calibration=replace(CALIBRATION, rows=ERRORS))
PLANNED = Report(
    SCHEMA_VERSION,
    plan=Plan(
        Asked(), 1, 2.0, 258.0,
        tuple(
            Prediction(workers, 2, Figure(rate, 0.9 * rate, 1.1 * rate), "workers", {"workers": rate})
            for workers, rate in ((0, 229.0), (1, 267.0), (2, 512.0), (4, 999.0), (8, 1124.0), (16, 1132.0))
        ), 4, (), 0.07, wanted=1100.0,
    ),
)  # fmt: skip
COMPARED = Report(SCHEMA_VERSION, before_after=compared(*PAIRS["run"], (Path("a.json"), Path("b.json"))))
TWO_RUNS = Report(SCHEMA_VERSION, before_after=compared(*PAIRS["watch"], (Path("a.json"), Path("b.json"))))
EVERY = {
    "watch": WATCH, "advise": ADVISED, "bound": BOUND, "run": LAB, "ranks": RANKS, "ab": COMMITS, "study": STUDY,
    "counting": COUNTED, "syncs": Report(SCHEMA_VERSION, sync_points=SYNCS),
    "calibrate": CALIBRATED, "plan": PLANNED, "compare": COMPARED, "compare watch": TWO_RUNS,
}  # fmt: skip
