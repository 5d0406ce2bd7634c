"""`pipebench advise` as one function: runs the script, tries remedies on it, and reports what each brought."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pipebench.advise.conductor import Conductor
from pipebench.advise.snippet import diff, snippet
from pipebench.advise.tail import Tail
from pipebench.errors import PipebenchError
from pipebench.host.limits import free_memory
from pipebench.host.machine import usable_cores
from pipebench.host.scratch import Scratch
from pipebench.host.screen import colours, columns, encoding
from pipebench.host.whole_files import write_whole
from pipebench.predict.untried import Foretell, foretelling, with_predictions
from pipebench.remedies import remedies
from pipebench.remedies.seen import Seen
from pipebench.render import layout, screen
from pipebench.render.advice import named, parts
from pipebench.render.signs import missing
from pipebench.results.advice import Advice, Change
from pipebench.results.secrets import without_secrets
from pipebench.results.watched import WatchResult
from pipebench.watch.launch import supervisor
from pipebench.watch.launch.footprint import Looker, looked_at
from pipebench.watch.read.gather import Process, Run, ShownTime, gather
from pipebench.watch.read.stalls import lengths_of
from pipebench.watch.read.summary import summarise
from pipebench.watch.record.lines import Line
from pipebench.watch.record.options import WatchOptions
from pipebench.watch.record.orders import Order, give
from pipebench.watch.record.recording import Settings, told
from pipebench.watch.record.trial_lines import LoaderMade
from pipebench.watch.trace.excerpt import timeline

BUDGET_S = 180.0
Keep = Callable[[WatchResult | None, Advice], object]


@dataclass(frozen=True)
class AdviseOptions:
    """How to try. `stop` ends the script as soon as the advice is there. `patch` is a file for a unified diff.

    `budget_s` counts from the script's first batch. `any_order` allows trials that change the order of batches.
    `discard` allows trials after which the weights are worth nothing; then the script ends with the advice. Without
    `show`, the advice is not shown, only kept.
    """

    budget_s: float = BUDGET_S
    module: bool = False
    stop: bool = False
    any_order: bool = False
    discard: bool = False
    full: bool = False
    patch: Path | None = None
    records: Path | None = None
    show: bool = True


_BY_SIGNAL = 128  # the status of a script that a signal ended is above that


@dataclass
class _LiveRun:
    """The running script, for a `Conductor`."""

    folder: Path
    looker: Looker
    options: AdviseOptions
    ended: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._tail = Tail(self.folder)
        self._processes: list[Process] = []

    def now(self) -> float:
        return time.monotonic()

    def wait(self, seconds: float) -> bool:
        return not self.ended.wait(seconds)

    def lines(self) -> list[Line]:
        return self._tail.new()

    def order(self, order: Order) -> None:
        give(str(self.folder), order)

    def watched(self, status: int = 0) -> WatchResult:
        options = WatchOptions(module=self.options.module)
        if status < _BY_SIGNAL:  # else nobody has waited for the workers
            self.looker.note_load()
        self._processes = gather(self.folder)
        found = summarise(self._processes, options, status, usable_cores(), self.looker.found)
        return dataclasses.replace(found, timeline=timeline(self._processes, found.loaders_in_loop))

    def seen(self, watched: WatchResult, made: LoaderMade, all_made: Mapping[int, LoaderMade]) -> Seen | None:
        loader = next((one for one in watched.loaders if one.loader == made.loader), None)
        if loader is None or not loader.s_per_iteration:
            return None
        settings = dict(made.settings)
        device = watched.device_idle is not None
        allowed = {"any_order": self.options.any_order, "discards": self.options.discard}
        lengths = lengths_of(Run(self._processes, ShownTime(), (made.loader,)), made.loader)
        return Seen(
            watched, loader, settings, made.batches, device, free_memory(), **allowed, made=made, all_made=all_made,
            lengths=lengths,
        )  # fmt: skip

    def foretelling(self, seen: Seen) -> Foretell:
        return foretelling(seen.watched, seen.loader.loader)


def advise(options: AdviseOptions, argv: Sequence[str], keep: Keep | None = None) -> int:
    """Runs `argv` (a script and its arguments), tries remedies on it, and reports on standard error.

    Returns the script's own exit status. The training is kept. The report comes as soon as everything is tried; the
    script then goes on. `keep` receives the figures of the watched part (None: nothing was watched) and the advice.
    """
    if not argv:
        raise PipebenchError("there is no script to try", "name one: pipebench advise train.py [its arguments]")
    with Scratch("advise") if options.records is None else contextlib.nullcontext(options.records) as folder:
        run = _LiveRun(folder, Looker(folder), options)
        progress = _Progress(options.budget_s)
        conductor = Conductor(run, remedies(), options.budget_s, progress.trying)
        progress.left_s = lambda: conductor.left_s
        reporter = _Reporter(run, conductor, options, progress, keep)
        return supervisor.run(
            ["-m", *argv] if options.module else list(argv),
            Settings(folder=str(folder), trial=True),
            meanwhile=lambda: _conducted(run, conductor, reporter),
            afterwards=lambda ended: reporter.report(ended.status),
        ).status


@contextlib.contextmanager
def _conducted(run: _LiveRun, conductor: Conductor, reporter: _Reporter) -> Iterator[None]:
    """Conducts in a thread until the script ends."""

    def conduct() -> None:
        try:
            conductor.conduct()
        except Exception as error:
            conductor.ended = "fault"
            sys.stderr.write(f"pipebench: a fault of pipebench ended the trials ({told(error)}). The script goes on.\n")
        if not run.ended.is_set():
            reporter.report()

    thread = threading.Thread(target=conduct, name="pipebench-advise")
    with looked_at(run.looker.look, run.looker.failed), looked_at(run.looker.glance, run.looker.failed):
        thread.start()
        try:
            yield
        finally:
            run.ended.set()
            thread.join()


class _Progress:
    """One line on standard error: what is tried now, and what the budget leaves. Without a terminal, one a change."""

    def __init__(self, budget_s: float) -> None:
        self.left_s: Callable[[], float] = lambda: budget_s
        self._shown = False

    def trying(self, change: Change, number: int) -> None:
        left_s = max(0.0, self.left_s())
        line = f"pipebench: trying {named(change)} ({number + 1}), {left_s:.0f} s left"
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[2K{line[: columns(sys.stderr) - 1]}")
            self._shown = True
        else:
            sys.stderr.write(f"{line}\n")
        sys.stderr.flush()

    def end(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[2K")
            self._shown = False


@dataclass
class _Reporter:
    """Shows and keeps the advice, once."""

    run: _LiveRun
    conductor: Conductor
    options: AdviseOptions
    progress: _Progress
    keep: Keep | None
    done: bool = False

    @property
    def ends(self) -> bool:
        """Whether the script ends when the advice is there."""
        return self.options.stop or self.options.discard

    def report(self, status: int = 0) -> None:
        if self.done:
            return
        self.done = True
        try:
            self._report(status)
        except PipebenchError as error:
            sys.stderr.write(f"pipebench: {error.problem}\n  {error.remedy}\n")
        except Exception as error:
            sys.stderr.write(f"pipebench: there is no advice, because of a fault of pipebench ({told(error)})\n")
        if self.ends and not self.run.ended.is_set():
            self.run.order(Order(1_000_000, leave=True))

    def _report(self, status: int) -> None:
        watched = self.conductor.watched or self.run.watched(status)
        advice = without_secrets(with_predictions(self._with_snippet(self.conductor.advice()), watched))
        width, colour = columns(sys.stderr), colours(sys.stderr)
        self.progress.end()
        goes_on = not self.run.ended.is_set() and not self.ends
        if self.options.show:
            shown = parts(advice, watched, full=self.options.full, goes_on=goes_on)
            made = screen.whole(shown, width) if self.options.full else screen.fitted(shown, width, screen.MORE)
            lacking = missing(encoding(sys.stderr))
            sys.stderr.write("\n" + layout.text(made, width=width, colour=colour, lacking=lacking))
            sys.stderr.flush()
        if self.keep is not None:
            self.keep(watched, advice)

    def _with_snippet(self, advice: Advice) -> Advice:
        made = self.conductor.made.get(advice.loader or 0)
        followed = advice.followed
        if made is None or followed is None:
            return advice
        if self.options.patch is not None and (text := diff(made, followed.change)) is not None:
            write_whole(self.options.patch, text.encode())
        return dataclasses.replace(advice, snippet=snippet(made, followed.change))
