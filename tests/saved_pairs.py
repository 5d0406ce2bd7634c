"""Pairs of saved reports that were never measured: one of each kind, before and after a change."""

import math
import random
from dataclasses import replace

from render import made_up

from pipebench.host.machine import Machine
from pipebench.results.advice import Advice, Change, Finding
from pipebench.results.before_after import BeforeAfter
from pipebench.results.loading import LoaderRow
from pipebench.results.measurement import Measurement
from pipebench.results.programs import Program, WatchedCommand
from pipebench.results.ranks import RankRow, Ranks
from pipebench.results.report import BetweenRuns, Data, Report
from pipebench.results.studies import StudyResult, StudyRow
from pipebench.results.watched import Note
from pipebench.stats import Interval, Speedup, summarize
from pipebench.task import Work, Workload

MACHINE = Machine(
    "vm", "Linux 6", "3.11.7", "Some CPU", 2, 1 << 34, 1 << 25, "ext4", None, "fork", {"torch": "2.15", "pillow": "11"}
)
LATER = replace(MACHINE, libraries={"torch": "2.15", "pillow": "12"})
TASKS = ("decode/rgb", "crop/resized-224", "transform/flip-normalise", "collate/float32")
VARIANTS = ("plain", "quick", "usual", "other")


def root(head=False, **parts):
    hour = "11" if head else "10"
    return Report(2, created=f"2026-01-01T{hour}:00:00+00:00", pipebench="0.1.0", machine=MACHINE, **parts)


def _timed(task, variant, cost_s, rng):
    readings = tuple(cost_s * math.exp(rng.gauss(0, 0.02)) for _ in range(60))
    counts = (3,) * 20
    return Measurement(
        task.partition("/")[0], task, variant, Workload(), readings, calls_per_reading=1, work=Work(8, 800, 2400),
        summary=summarize(readings, 1, 8, counts), readings_per_process=counts,
    )  # fmt: skip


def lab(slower=None, seed=0, **more):
    """A run of 16 rows; `slower` has factors by task/variant. Its machine drifts by 1 % from run to run."""
    rng = random.Random(seed)
    drift = math.exp(rng.gauss(0, 0.01))
    rows = tuple(
        _timed(task, variant, 0.008 * drift * (slower or {}).get(f"{task}/{variant}", 1.0), rng)
        for task in TASKS
        for variant in VARIANTS
    )
    loader = (LoaderRow("map", "float32", 2, 16, "fork", (1.0, 1.01), (320, 320), 318.0, 310.0, 326.0, 0.9),)
    parts = {"workload": Workload(), "measurements": rows, "loader": loader}
    parts |= {"between_runs": BetweenRuns(8, 0.02, 0.02), "data": Data("photos", 64, 105_000.0, 1.97, 0.46)}
    return root(seed > 0, **{**parts, **more})


def watched(after=False):
    """A run that waits for data, and the same with six workers."""
    found = made_up.watched("Resize")
    if not after:
        return root(watched=found)
    loader = replace(found.loaders[0], workers=6, s_per_iteration=0.037)
    loop = [replace(one, s_per_iteration=0.003, share=0.08) if one.phase == "wait" else one for one in found.loop]
    rows = tuple(replace(one, s=0.8) if one.code == "wait-for-worker" else one for one in found.account.rows)
    found = replace(
        found, loaders=(loader, found.loaders[1]), wait_share=0.08, loop=tuple(loop),
        account=replace(found.account, rows=rows, wall_s=sum(one.s for one in rows)),
        notes=(found.notes[1], Note("oversubscribed-too", {"loader": 1})),
    )  # fmt: skip
    return replace(root(True, watched=found), machine=LATER)


def advised(gain):
    """Advice: more workers were tried on the watched run, with this gain."""
    change = Change("num_workers", {"num_workers": 6}, "none")
    finding = Finding(change, "gain", Speedup(gain, gain * 0.9, gain * 1.1, 0.95), (gain,) * 5)
    found = Advice((finding,), 0, 1, "train.py", 7, 60.0, 42.0, "done")
    return replace(watched(), advice=found)


def ranks(cost):
    """A command of two ranks, of which one holds the other up."""
    rows = tuple(RankRow(one, 100 + one, 0.01, 0.02 + one * cost, float(one), one * 4.0, 640) for one in (0, 1))
    programs = tuple(Program(100 + one, "train.py", 0.0, 60.0, "ended", "", one, 2, one) for one in (0, 1))
    together = Ranks(2, rows, 200, 0.1, 20 * cost, 10 * cost, 1, "work", cost)
    return replace(watched(), command=WatchedCommand(("torchrun", "train.py"), 0, programs, 0, ranks=together))


def study(times, count):
    cost = Interval(0.010 / times, 0.0099 / times, 0.0101 / times, 0.95)
    rows = (
        StudyRow("baseline", "as it was", Interval(0.010, 0.0099, 0.0101, 0.95)),
        StudyRow("loader", "workers", Interval(0.008, 0.0079, 0.0081, 0.95)),
        StudyRow("pinned", "pin_memory", Interval(0.0081, 0.008, 0.0082, 0.95)),
        StudyRow("cheaper", "a cheaper transform", cost),
        StudyRow("syncs", "fewer of them", None, count),
    )
    return root(studies=(StudyResult("input-pipeline", "Input pipeline", "a page", "default", "image", "here", rows),))


def syncs(per_step):
    points = tuple(replace(one, per_step=per_step / 2) for one in made_up.SYNCS.points)
    return root(sync_points=replace(made_up.SYNCS, per_step=per_step, points=points))


def ab(faster):
    changes = tuple(
        replace(one, judgement=replace(one.judgement, head_over_base=_times(one.judgement.head_over_base, faster)))
        if one.judgement and place == 0
        else one
        for place, one in enumerate(made_up.CHANGES)
    )
    return root(comparison=replace(made_up.COMPARISON, changes=changes))


def _times(over, factor):
    return Speedup(over.speedup * factor, over.low * factor, over.high * factor, over.confidence)


def calibrated(span_s):
    return root(calibration=replace(made_up.CALIBRATION, span_s=span_s))


SLOWER = {"decode/rgb/quick": 1.5, "collate/float32/usual": 0.5}
PAIRS = {
    "run": (lab(), lab(SLOWER, 1)),
    "watch": (watched(), watched(True)),
    "command": (ranks(0.01), ranks(0.001)),
    "advise": (advised(1.9), advised(1.0)),
    "study": (study(1.5, 4), study(3.0, 2)),
    "syncs": (syncs(4), syncs(2)),
    "ab": (ab(1.0), ab(1.6)),
    "calibrate": (calibrated(4.7e-7), calibrated(4.1e-7)),
}


def row(found: BeforeAfter, name: str):
    return next(one for one in found.rows if one.name == name)
