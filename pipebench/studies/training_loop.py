"""The training loop, as wanted in "End-to-end benchmarking for deep learning training pipelines" (FluxTraining.jl).

The loop's own events show what share of an iteration waits for its batch, and what share each callback takes at each
event. Three loops are compared: with metric logging and image dumping in callbacks, with the same work off the critical
path, and without callbacks.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO

from pipebench.host.scratch import Scratch
from pipebench.reference.dataloader import Live, reference
from pipebench.reference.training_loop import CPU_SIDE, Cached, Callback, Model, State, one_thread, train
from pipebench.render.cells import spoken
from pipebench.results.loading import Loading
from pipebench.results.studies import Author, StudyResult, StudyRow
from pipebench.results.windows import LoopWindow
from pipebench.stats import Speedup, compare, median_interval
from pipebench.studies import DISAGREES, Progress, Study
from pipebench.task import Workload
from pipebench.units import percent
from pipebench.watch.bound.batches import copied

WINDOW, ROUNDS, TRIED = 3, 24, 4
DUMPED = 2  # images of each batch
NAMES = ("synchronous", "off-the-path", "none")


@dataclass
class Book:
    """Writes the metric and the images: to a file that is flushed at every line, and to a folder of PNG files."""

    folder: Path
    lines: TextIO

    def log(self, iteration: int, loss: float) -> None:
        self.lines.write(f"{iteration},{loss}\n")
        self.lines.flush()

    def dump(self, iteration: int, images: Any) -> None:
        from PIL import Image

        for number, image in enumerate(images):
            levels = ((image - image.min()) / (image.max() - image.min() + 1e-6) * 255).byte()
            Image.fromarray(levels.permute(1, 2, 0).numpy()).save(self.folder / f"{iteration % 8}-{number}.png")


def synchronous(book: Book) -> dict[str, Callback]:
    """Callbacks that read and write the metric, and compress images, while the loop waits."""

    def log(event: str, state: State) -> None:
        if event == "stepped":
            book.log(state.iteration, float(state.loss.detach()))

    def dump(event: str, state: State) -> None:
        if event == "got":
            book.dump(state.iteration, state.batch.images[:DUMPED])

    return {"log": log, "dump": dump}


class Writer:
    """A thread that does the work that callbacks hand to it; `finish` waits until all of it is done."""

    def __init__(self) -> None:
        self._work: queue.Queue[Callable[[], None] | None] = queue.Queue()
        self._thread = threading.Thread(target=self._run, name="pipebench-writer", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()
            self._work.task_done()

    def put(self, work: Callable[[], None]) -> None:
        self._work.put(work)

    def finish(self) -> None:
        self._work.join()

    def close(self) -> None:
        self._work.put(None)
        self._thread.join()


def off_the_path(book: Book, writer: Writer) -> dict[str, Callback]:
    """Callbacks that hand tensors to a thread. The loop goes on, and the thread reads and writes."""

    def log(event: str, state: State) -> None:
        if event == "stepped":
            iteration, loss = state.iteration, state.loss.detach()
            writer.put(lambda: book.log(iteration, float(loss)))

    def dump(event: str, state: State) -> None:
        if event == "got":
            iteration, images = state.iteration, state.batch.images[:DUMPED].clone()
            writer.put(lambda: book.dump(iteration, images))

    return {"log": log, "dump": dump}


@dataclass
class LoopWithCallbacks:
    """One way of writing the loop: its model, its callbacks, and what must be done before a window is over."""

    name: str
    model: Model
    callbacks: dict[str, Callback]
    finish: Callable[[], None]

    def window(self, batches: Iterator[Any], iterations: int, now: Callable[[], float]) -> LoopWindow:
        """One window of the loop. It lasts until the work that the callbacks handed to a thread is done."""
        begin = now()
        window = train(batches, self.model, iterations, callbacks=self.callbacks)
        self.finish()
        window.elapsed_s = now() - begin
        return window


@contextmanager
def loops(workload: Workload) -> Iterator[list[LoopWithCallbacks]]:
    """The three ways of writing the loop, each with a model of its own; all start with the same weights."""
    with ExitStack() as stack:
        folder = stack.enter_context(Scratch("study"))
        book = Book(folder, stack.enter_context((folder / "metrics.csv").open("w")))
        writer = Writer()
        stack.callback(writer.close)
        made = (synchronous(book), off_the_path(book, writer), dict[str, Callback]())
        ends = (lambda: None, writer.finish, lambda: None)
        yield [
            LoopWithCallbacks(name, Model(workload, "step/small", _side(workload)), callbacks, end)
            for name, callbacks, end in zip(NAMES, made, ends, strict=True)
        ]


def _side(workload: Workload) -> int | None:
    return CPU_SIDE if workload.device == "cpu" else None


def _weights(loop: LoopWithCallbacks, batches: list[Any], now: Callable[[], float]) -> list[Any]:
    """The weights after a few iterations on the same batches."""
    loop.window(Cached(batches), len(batches), now)
    return [one.detach().clone() for one in loop.model.network.parameters()]


def _agreement(ours: list[Any], theirs: list[Any], name: str) -> str:
    same = all(bool((a == b).all()) for a, b in zip(ours, theirs, strict=True))
    return f"same weights as {name}" if same else f"{DISAGREES} with {name}: other weights"


def _agreements(weights: list[list[Any]]) -> list[str]:
    """How each way agrees with the last one before it that agrees."""
    found, before = ["is the baseline"], 0
    for index in range(1, len(weights)):
        found.append(_agreement(weights[index], weights[before], NAMES[before]))
        before = before if DISAGREES in found[-1] else index
    return found


def _measure(size: str, progress: Progress) -> tuple[list[str], dict[str, list[LoopWindow]], Workload]:
    import torch

    on_device = torch.cuda.is_available()
    workload = Workload(batch_size=64 if size == "full" else 16, device="cuda" if on_device else "cpu")
    loading = Loading(workers=1, pin_memory=on_device)
    windows: dict[str, list[LoopWindow]] = {name: [] for name in NAMES}
    with one_thread(), reference(workload, loading) as live, loops(workload) as ways:
        live.start()
        batches = [copied(next(live)) for _ in range(TRIED)]
        weights = [_weights(way, batches, live.now) for way in ways]
        agreements = _agreements(weights)
        try:
            for turn in range(ROUNDS):
                for way in ways[turn % 3 :] + ways[: turn % 3]:
                    windows[way.name].append(_live_window(way, live))
                progress(turn + 1, ROUNDS, "the loop with its callbacks, without waiting for them, and without them")
        except KeyboardInterrupt:
            whole = min(map(len, windows.values()))
            if whole < 2:
                raise
            for found in windows.values():
                del found[whole:]
    return agreements, windows, workload


def _live_window(way: LoopWithCallbacks, live: Live) -> LoopWindow:
    """One window in the steady state: the batches that were made meanwhile are used up first."""
    live.discard()
    way.window(live, max(1, live.loading.in_flight), live.now)
    return way.window(live, WINDOW, live.now)


def run(size: str, progress: Progress) -> StudyResult:
    agreements, windows, workload = _measure(size, progress)
    rows = list(_rows(agreements, windows))
    best = rows[-1].over_first
    said = [
        "the discussion gives an example: raising utilisation from 80 % to 97 % gives 1.2× the throughput",
        _said(best),
    ]
    setting = (
        f"photos, batches of {workload.batch_size}, 1 worker, a small model on {workload.device}; "
        f"{min(map(len, windows.values()))} windows of {WINDOW} iterations each, in turn"
    )
    return StudyResult(STUDY.name, STUDY.title, STUDY.source, size, "iteration", setting, tuple(rows), tuple(said))


def _said(found: Speedup | None) -> str:
    if found is None or not found.told:
        return "no measurable gain here from removing all callbacks" + (f": {spoken(found)}" if found else "")
    return f"throughput without any callback, over the first row: {spoken(found)} here"


WHAT = ("metric logged and images dumped in callbacks", "the same work in a thread of its own", "no callbacks")


def _rows(agreements: list[str], windows: dict[str, list[LoopWindow]]) -> Iterator[StudyRow]:
    costs = {name: [one.elapsed_s / one.iterations for one in found] for name, found in windows.items()}
    before: str | None = None
    for name, what, agreement in zip(NAMES, WHAT, agreements, strict=True):
        row = StudyRow(
            name, what, seconds=median_interval(costs[name]), agreement=agreement, author=Author("no figure")
        )
        if before is not None and DISAGREES not in agreement:
            row = replace(
                row,
                over_before=compare(costs[name], costs[before]),
                over_first=compare(costs[name], costs[NAMES[0]]),
            )
        yield replace(row, notes=(_shares(windows[name]),))
        before = before if DISAGREES in agreement else name


def _shares(windows: list[LoopWindow]) -> str:
    """The share of the time spent waiting, and that of each callback at each event if it is a thousandth or more."""
    total = sum(one.elapsed_s for one in windows)
    parts = {"wait": sum(one.phases["wait"] for one in windows)}
    for window in windows:
        for (callback, event), spent in window.callbacks.items():
            name = f"{callback} at {event}"
            parts[name] = parts.get(name, 0.0) + spent
    return ", ".join(
        f"{name} {percent(spent / total, 1)}"
        for name, spent in parts.items()
        if spent / total >= 0.001 or name == "wait"
    )


STUDY = Study(
    "training-loop",
    "What the loop's callbacks cost",
    '"End-to-end benchmarking for deep learning training pipelines" (FluxTraining.jl discussion)',
    run,
)
