"""How fast training could be if its batches were already there, beside how fast it is: alternating windows of one run.

A live window takes batches from the workers; a replayed window takes copies of exactly those batches, once while the
workers are idle and once while a thread keeps them as busy as live (without that, replaying would flatter itself by
freeing the CPU). Where the consumer is a device, a third replays them from its memory.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from pipebench.errors import BadSample
from pipebench.host import machine
from pipebench.host.limits import check_cache, check_resources, free_memory, room
from pipebench.reference.dataloader import Live, reference
from pipebench.reference.loader_table import said_against
from pipebench.reference.training_loop import (
    CPU_SIDE,
    PHASES,
    Cached,
    Consumer,
    Model,
    Simulated,
    adapted,
    batch_bytes,
    copied,
    one_thread,
    train,
)
from pipebench.results.loading import Loading
from pipebench.results.measurement import Warning
from pipebench.results.training import Training, Window, throughput
from pipebench.stats import Speedup, compare, median_interval
from pipebench.task import Workload

Now = Callable[[], float]
Progress = Callable[[int, int, str], None]
CACHE_FACTOR = 1.2  # replayed batches together over the last-level cache: none is found there when its turn comes
LARGEST_WINDOW = 256  # batches
TURNS = 2  # of all workers in a window: they work in step, so batches come in bursts of as many as there are workers


@dataclass(frozen=True)
class BoundPlan:
    """How long to alternate: `rounds` of windows of at least `window_s`, fewer once `budget_s` has run out."""

    rounds: int = 12
    least_rounds: int = 6
    budget_s: float = 40.0
    window_s: float = 0.5
    window: int | None = None  # batches a window; None: enough for `window_s`, the last-level cache and every worker

    @classmethod
    def quick(cls) -> BoundPlan:
        return cls(rounds=6, least_rounds=4, budget_s=9.0, window_s=0.25)

    @classmethod
    def rigorous(cls) -> BoundPlan:
        return cls(rounds=40, least_rounds=12, budget_s=180.0, window_s=1.0)


class Source(Protocol):
    """What `alternate` asks of live batches."""

    def __next__(self) -> Any: ...
    def discard(self) -> float: ...
    def settle(self) -> None: ...
    def drawing(self, interval_s: float) -> contextlib.AbstractContextManager[None]: ...


@dataclass
class Windows:
    """The windows of every round so far."""

    live: list[Window] = field(default_factory=list)
    bound: list[Window] = field(default_factory=list)
    busy: list[Window] = field(default_factory=list)
    device: list[Window] = field(default_factory=list)
    drains_s: list[float] = field(default_factory=list)


Copy = Callable[[Sequence[Any]], Sequence[Any]]


def alternate(
    live: Source,
    consumer: Consumer,
    plan: BoundPlan,
    *,
    window: int,
    warm: int,
    copy: Copy,
    to_device: Copy | None = None,
    now: Now = time.perf_counter,
    each: Callable[[Windows], None] = lambda windows: None,
) -> Iterator[Windows]:
    """Rounds of one live window of `window` batches and its replays; the windows so far, after every round.

    Before a live window the batches that were made meanwhile are used up, and `warm` iterations let the loop find its
    pace. Copies are made outside every window.
    """
    windows, deadline = Windows(), now() + plan.budget_s
    for turn in range(plan.rounds):
        if turn >= plan.least_rounds and now() > deadline:
            return
        windows.drains_s.append(live.discard())
        if warm:
            train(_batches(live), consumer, warm, now=now)
        held: list[Any] = []
        windows.live.append(train(_batches(live), consumer, window, now=now, kept=held))
        batches = copy(held)
        del held
        _replays(live, consumer, windows, batches, turn, now)
        if to_device is not None:
            live.settle()
            windows.device.append(train(Cached(to_device(batches)), consumer, window, now=now))
        yield windows


def _batches(live: Source) -> Iterator[Any]:
    while True:
        yield next(live)


def _replays(live: Source, consumer: Consumer, windows: Windows, batches: Sequence[Any], turn: int, now: Now) -> None:
    """Both replays of a round, in an order that alternates."""
    interval_s = windows.live[-1].elapsed_s / len(batches)

    def busy() -> None:
        with live.drawing(interval_s):
            windows.busy.append(train(Cached(batches), consumer, len(batches), now=now))

    def idle() -> None:
        live.settle()
        windows.bound.append(train(Cached(batches), consumer, len(batches), now=now))

    for replay in (busy, idle) if turn % 2 == 0 else (idle, busy):
        replay()


def _over(ours: Sequence[Window], theirs: Sequence[Window]) -> Speedup:
    """The speed-up of ours over theirs, by seconds a sample, window beside window."""
    return compare(_costs(ours), _costs(theirs))


def _costs(windows: Sequence[Window]) -> list[float]:
    return [one.elapsed_s / max(1, one.samples) for one in windows]


@dataclass(frozen=True)
class Setting:
    """What is the same in all windows of a run."""

    consumer: str
    simulated: bool
    batch_size: int
    window: int
    loading: Loading
    startup_s: float


def result(setting: Setting, windows: Windows) -> Training:
    """What the windows so far say."""
    live_s = sum(one.elapsed_s for one in windows.live)
    shares = {phase: sum(one.phases[phase] for one in windows.live) / live_s for phase in PHASES}
    return Training(
        consumer=setting.consumer,
        simulated=setting.simulated,
        batch_size=setting.batch_size,
        window=setting.window,
        loading=setting.loading,
        start_method=setting.loading.method,
        startup_s=setting.startup_s,
        live=throughput(windows.live),
        bound=throughput(windows.bound),
        bound_busy=throughput(windows.busy),
        bound_over_live=_over(windows.bound, windows.live),
        busy_over_live=_over(windows.busy, windows.live),
        wait_share=shares["wait"],
        phases=shares,
        bound_device=throughput(windows.device) if windows.device else None,
        device_over_live=_over(windows.device, windows.live) if windows.device else None,
        drain_s=median_interval(windows.drains_s).median,
        oversubscribed=setting.loading.oversubscribed,
    )


def check_window(window: int, size: int, loading: Loading, on_device: bool = False) -> None:
    """Raises PipebenchError where the batches of a window, of `size` bytes each, are more than this machine can hold.

    They are held twice: as they came, and their copies; where there is a device, on it too.
    """
    most = room(loading.workers, loading.prefetch_factor, size)
    check_cache(window, 2 * size, free_memory(), at_most=most)
    check_resources(loading.workers, loading.prefetch_factor, window, size)
    if on_device:
        import torch

        check_cache(window, size, torch.cuda.mem_get_info()[0], "device memory", most)


def check_asked(workload: Workload, loading: Loading, plan: BoundPlan, simulated_s: float | None = None) -> None:
    """Raises PipebenchError where shards or a window that were asked for cannot be had, before anything is measured."""
    from pipebench.reference.pipeline import FLOATS, sample_bytes

    if loading.stream:
        reference(workload, loading).close()
    if plan.window is not None:
        workload = workload if simulated_s else adapted(workload)
        check_window(plan.window, sample_bytes(workload, FLOATS) * workload.batch_size, loading)


def measure_training(
    workload: Workload,
    loading: Loading,
    plan: BoundPlan,
    *,
    simulated_s: float | None = None,
    progress: Progress = lambda done, total, what: None,
    keep: Callable[[Training, tuple[BadSample, ...]], None] = lambda training, bad: None,
) -> Training:
    """Live training on the workload's device (or a simulated one), beside its bounds. `keep` is given it so far."""
    from pipebench.reference.pipeline import FLOATS, sample_bytes

    workload = workload if simulated_s else adapted(workload)
    consumer = Simulated(simulated_s) if simulated_s else _model(workload)
    on_device = workload.device != "cpu" and not simulated_s
    loading = replace(loading, pin_memory=loading.pin_memory or on_device)
    progress(0, plan.rounds, f"training: starting {loading.workers} workers")
    check_resources(loading.workers, loading.prefetch_factor, 0, sample_bytes(workload, FLOATS) * workload.batch_size)
    with one_thread(), reference(workload, loading, FLOATS) as live:
        first = live.start()
        window = _window(live, first, consumer, plan)
        check_window(window, batch_bytes(first), loading, on_device)
        setting = Setting(consumer.label, simulated_s is not None, workload.batch_size, window, loading, live.startup_s)
        before, begin, found = machine.read_load(live.pids), time.monotonic(), None
        for windows in alternate(
            live,
            consumer,
            plan,
            window=window,
            warm=max(1, loading.in_flight),
            copy=lambda batches: copied(batches, pin=on_device),
            to_device=(lambda batches: copied(batches, workload.device)) if on_device else None,
        ):
            found = result(setting, windows)
            found = replace(found, samples_failed=len(live.bad))
            keep(found, tuple(live.bad.values()))
            progress(len(windows.live), plan.rounds, f"training: live against bound, {consumer.label}")
        assert found is not None
        load = machine.read_load(live.pids) - before
        said = _warnings(found, load, time.monotonic() - begin, batch_bytes(first))
        found = replace(found, warnings=said, epoch_boundary_s=live.boundary())
        keep(found, tuple(live.bad.values()))
        return found


def _model(workload: Workload) -> Model:
    if workload.device == "cpu":
        return Model(workload, "step/small", CPU_SIDE)
    return Model(workload, "step/resnet18")


def _window(live: Live, first: Any, consumer: Consumer, plan: BoundPlan) -> int:
    """How many batches a window has: whole turns of the workers, enough for its length, and for their sum to exceed
    the last-level cache."""
    if plan.window is not None:
        return plan.window
    turn = max(1, live.loading.workers)
    live.discard()
    pace = train(live, consumer, max(2, turn))
    for_time = plan.window_s / (pace.elapsed_s / pace.iterations)
    least = max(TURNS * turn, for_time, _for_cache(batch_bytes(first)))
    return _whole_turns(min(max(LARGEST_WINDOW, TURNS * turn), math.ceil(least)), turn)


def _for_cache(size: int) -> float:
    """How many batches of a size exceed the last-level cache in sum."""
    return CACHE_FACTOR * machine.last_level_cache_bytes() / max(1, size)


def _whole_turns(batches: int, turn: int) -> int:
    return math.ceil(batches / turn) * turn


def _warnings(found: Training, load: machine.Load, wall_s: float, size: int) -> tuple[Warning, ...]:
    """What the live windows' spread, the host's load over the whole run and the window say against the figures."""
    live = zip(found.live.readings_s, found.live.samples, strict=True)
    said = said_against([reading / max(1, samples) for reading, samples in live], wall_s, load)
    return (*said, *_of_window(found.window, found.loading.workers, size))


def _of_window(window: int, workers: int, size: int) -> Iterator[Warning]:
    """What a window that was asked for, or that memory or the largest window cut, says against the figures."""
    turn, wanted = max(1, workers), _for_cache(size)
    even = _whole_turns(max(window, TURNS * turn), turn)
    if window != even:
        yield Warning(
            "uneven-window",
            f"{window} batches a window, where batches come in bursts of {turn}, one from each worker",
            f"use --window {even}",
            turn / window,
        )
    if window < wanted:
        yield Warning(
            "replayed-from-cache",
            f"{window} batches a window fit the last-level cache, or nearly: replaying them flatters itself",
            f"use --window {_whole_turns(math.ceil(wanted), turn)}",
            wanted / window,
        )
