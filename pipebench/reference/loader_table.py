"""The loader table: images per second of the reference pipeline, by workers, by container and by type of its pixels.

Each row is a DataLoader of its own that nothing consumes: it shows the most that the pipeline can feed. Beside them,
`ready` rows hand over samples that are already in memory, so their cost is only the hand-off between processes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pipebench.data import datasets
from pipebench.errors import BadSample, PipebenchError, install
from pipebench.host import machine
from pipebench.host.clock import cpu_s
from pipebench.host.gaps import GAP, Gaps, StoppedAgain, without_gap
from pipebench.host.limits import check_resources
from pipebench.reference.dataloader import Live, reference
from pipebench.reference.training_loop import one_thread
from pipebench.reference.worker_health import Notebook
from pipebench.results.loading import Dtype, Kind, LoaderRow, Loading, PackedSize
from pipebench.results.measurement import Skipped, Warning, warnings_of
from pipebench.stats import median_interval
from pipebench.task import Unavailable, Workload

Progress = Callable[[int, int, str], None]
FLOAT_IMAGE = 4 * 3 * 224 * 224  # bytes: what every sample becomes


@dataclass(frozen=True)
class LoaderPlan:
    """How long to measure: visits to each row (rows alternate), readings per visit, and about how long a reading is."""

    visits: int = 2
    readings: int = 4
    reading_s: float = 0.10
    workers: tuple[int, ...] | None = None  # None: 0, 1, 2, ... up to the usable cores
    kinds: tuple[Kind, ...] = ("map", "packed", "webdataset", "ready")
    dtypes: tuple[Dtype, ...] = ("float32", "uint8")

    @classmethod
    def quick(cls) -> LoaderPlan:
        return cls(1, readings=6, reading_s=0.05, workers=(0, 2), kinds=("map", "ready"), dtypes=("float32",))

    @classmethod
    def rigorous(cls) -> LoaderPlan:
        return cls(visits=4, readings=6, reading_s=0.25)


@dataclass(frozen=True)
class _Reading:
    """The wall time of some batches, their good samples, and the CPU time of this process and the workers meanwhile."""

    elapsed_s: float
    images: int
    cpu_s: float


@dataclass
class _Visited:
    """A row while it is being measured."""

    kind: Kind
    dtype: Dtype
    loading: Loading
    readings: list[_Reading] = field(default_factory=list)
    startup_s: float | None = None
    bad: dict[str, BadSample] = field(default_factory=dict)
    load: machine.Load = field(default_factory=machine.Load)
    skipped: Skipped | None = None
    packed: PackedSize | None = None
    codes: set[str] = field(default_factory=set)


def counts(plan: LoaderPlan, asked: int | None = None) -> list[int]:
    """The numbers of workers to measure: those of the plan, or 0 to 4, then powers of two and the usable cores.

    `asked` is always one of them. Powers of two keep the time short on a machine with many cores; with many workers the
    curve bends slowly.
    """
    if plan.workers is not None:
        wanted = set(plan.workers)
    else:
        cores = max(1, math.floor(machine.usable_cores()))
        wanted = {one for one in range(cores + 1) if one <= 4 or one == cores or one & (one - 1) == 0}
    return sorted(wanted | ({asked} if asked is not None else set()))


def check_rows(workload: Workload, loading: Loading, plan: LoaderPlan, asked: int | None = None) -> None:
    """Raises PipebenchError, before anything is measured, if the machine lacks what the largest rows need."""
    if most := max(counts(plan, asked)):
        check_resources(most, loading.prefetch_factor, FLOAT_IMAGE * workload.batch_size)


def measure_loader(
    workload: Workload,
    loading: Loading,
    plan: LoaderPlan,
    *,
    asked: int | None = None,
    progress: Progress = lambda done, total, what: None,
    keep: Callable[[tuple[LoaderRow, ...], tuple[BadSample, ...]], None] = lambda rows, bad: None,
) -> tuple[LoaderRow, ...]:
    """Measures every row in turn, as often as the plan says. `keep` gets the rows so far after each visit."""
    rows = list(_rows(workload, replace(loading, pin_memory=False), plan, asked))
    for visit in range(plan.visits):
        for number, row in enumerate(rows if visit % 2 == 0 else reversed(rows)):
            if row.skipped is None:
                with one_thread():
                    _visit(row, workload, plan)
            keep(tuple(_row(one, workload) for one in rows), tuple(_bad(rows)))
            said = f"loader: {row.kind}, {row.dtype}, {row.loading.workers} workers"
            progress(visit * len(rows) + number + 1, plan.visits * len(rows), said)
    return tuple(_row(one, workload) for one in rows)


def _rows(workload: Workload, loading: Loading, plan: LoaderPlan, asked: int | None) -> Iterator[_Visited]:
    from pipebench.stages import read

    sharded = bool(read.load(workload).shards)
    copy = _packed(workload) if "packed" in plan.kinds else None
    for kind in plan.kinds:
        for count in counts(plan, asked):
            for dtype in plan.dtypes:
                row = _Visited(kind, dtype, replace(loading, workers=count, stream=kind == "webdataset"))
                if kind == "webdataset":
                    row.skipped = _no_stream(sharded)
                if kind == "packed":
                    row.skipped, row.packed = (copy, None) if isinstance(copy, Skipped) else (None, copy)
                if kind != "ready" or count:
                    yield row


def _no_stream(sharded: bool) -> Skipped | None:
    import importlib.util

    if not sharded:
        return Skipped("not-built", "this data is loose files, and no shards are made of your files")
    if importlib.util.find_spec("webdataset") is None:
        return Skipped("not-installed", install("webdataset"))
    return None


def _packed(workload: Workload) -> PackedSize | Skipped | None:
    """The size of the packed copy, which is built if necessary (None for the user's files); or why there is none."""
    from pipebench.reference.pipeline import FLOATS, on_packed
    from pipebench.stages import read

    try:
        copy, _ = on_packed(workload, FLOATS)
    except Unavailable as missing:
        return Skipped(missing.code, missing.reason)
    if copy == workload:
        return None
    return PackedSize(*(datasets.image_bytes(read.load(one)) for one in (workload, copy)))


def _visit(row: _Visited, workload: Workload, plan: LoaderPlan) -> None:
    """Starts the row's loader, uses up the batches that it made ahead, takes the readings and ends the loader."""
    from pipebench.reference.pipeline import BYTES, FLOATS, on_packed, sample_bytes

    recipe = FLOATS if row.dtype == "float32" else BYTES
    if row.kind == "packed":
        workload, recipe = on_packed(workload, recipe)
    if row.loading.workers:
        size = sample_bytes(workload, recipe) * workload.batch_size
        check_resources(row.loading.workers, row.loading.prefetch_factor, size)
    opened = _ready(workload, row.loading, recipe) if row.kind == "ready" else reference(workload, row.loading, recipe)
    with Gaps() as gaps, opened as live:
        live.start()
        row.startup_s = live.startup_s
        live.discard()
        once = _reading(live, max(1, row.loading.workers))
        batches = max(1, row.loading.workers) * max(1, round(plan.reading_s / once.elapsed_s))
        before = machine.read_load(live.pids)
        row.readings += [_whole(lambda: _reading(live, batches), gaps, row) for _ in range(plan.readings)]
        row.load += machine.read_load(live.pids) - before
        row.bad.update(live.bad)


def _whole(take: Callable[[], _Reading], gaps: Gaps, row: _Visited) -> _Reading:
    """A reading. If there was a gap in it, it is taken again, and the row says so."""
    try:
        found, again = without_gap(take, gaps)
    except StoppedAgain as error:
        raise PipebenchError(f"the loader gave no reading: {error}", "let it run until the end") from error
    row.codes |= {GAP} if again else set()
    return found


def _reading(live: Live, batches: int) -> _Reading:
    """What `batches` batches take."""
    pids = live.pids
    cpu_before, begin, images = cpu_s(pids), time.perf_counter(), 0
    for _ in range(batches):
        images += next(live).samples
    return _Reading(time.perf_counter() - begin, images, cpu_s(pids) - cpu_before)


def _ready(workload: Workload, loading: Loading, recipe: Any) -> Live:
    from pipebench.reference.pipeline import Collate, Ready

    notebook = Notebook(loading.workers)
    return Live(
        Ready(workload, recipe),
        loading,
        workload.batch_size,
        Collate(workload, recipe, notebook),
        notebook=notebook,
    )


def _bad(rows: Sequence[_Visited]) -> list[BadSample]:
    return list({one.sample: one for row in rows for one in row.bad.values()}.values())


def _row(row: _Visited, workload: Workload) -> LoaderRow:
    bare = LoaderRow(
        dataset=row.kind,
        dtype=row.dtype,
        workers=row.loading.workers,
        batch_size=workload.batch_size,
        start_method=row.loading.method,
        startup_s=row.startup_s,
        oversubscribed=row.loading.oversubscribed,
        samples_failed=len(row.bad),
        skipped=row.skipped,
        packed=row.packed,
    )
    good = [one for one in row.readings if one.images]
    if not good:
        return bare
    rates = median_interval([one.images / one.elapsed_s for one in good])
    core = median_interval([one.images / max(one.cpu_s, 1e-9) for one in good])
    costs = [one.elapsed_s / one.images for one in good]
    wall = [one.elapsed_s for one in good]
    return replace(
        bare,
        readings_s=tuple(wall),
        images=tuple(one.images for one in good),
        images_per_s=rates.median,
        low=rates.low,
        high=rates.high,
        confidence=rates.confidence,
        seconds_per_image=median_interval(costs).median,
        warnings=said_against(costs, sum(wall), row.load, row.codes),
        cpu_s=tuple(one.cpu_s for one in good),
        images_per_core_s=core.median,
        core_low=core.low,
        core_high=core.high,
    )


def said_against(
    costs: Sequence[float], wall_s: float, load: machine.Load, codes: Collection[str] = ()
) -> tuple[Warning, ...]:
    """The warnings about the spread of `costs`, about the load of the host while they were measured, and of `codes`."""
    host = [one for one in warnings_of((wall_s,), load, ()) if one.code in ("foreign-load", "steal", "throttled")]
    return (*host, *warnings_of(costs, machine.Load(), codes))
