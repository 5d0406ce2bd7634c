"""`pipebench advise` as one function: runs the script, tries remedies on it, and reports what each brought."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipebench.advise import judging
from pipebench.advise.conductor import Conductor
from pipebench.advise.live_run import CommandRun, LiveRun
from pipebench.advise.shared_resource import with_shared
from pipebench.advise.snippet import changed, written
from pipebench.errors import PipebenchError
from pipebench.host.redaction import started
from pipebench.host.scratch import Scratch
from pipebench.host.screen import colours, columns, encoding
from pipebench.host.whole_files import write_whole
from pipebench.predict.untried import with_predictions
from pipebench.remedies import remedies
from pipebench.render import layout, screen
from pipebench.render.advice import parts
from pipebench.render.advice_names import named
from pipebench.render.signs import missing
from pipebench.results.advice import ANEW, Advice, Change, NoText, Patch
from pipebench.results.secrets import without_secrets
from pipebench.results.watched import WatchResult
from pipebench.units import printable
from pipebench.watch.launch import supervisor
from pipebench.watch.launch.programs import watched_environment
from pipebench.watch.record.orders import Order
from pipebench.watch.record.recording import Settings, told

BUDGET_S = 180.0
_COMPUTING = ("stage", "cores-used-up", "threads-over-cores", "workers-compete", "loading-takes-cores")
Keep = Callable[[WatchResult | None, Advice], object]


@dataclass(frozen=True)
class AdviseOptions:
    """How to try. `stop` ends the script as soon as the advice is there. `patch` is a file for a unified diff.

    `module` and `command` say that what is run is no script, but a module or any command, such as torchrun.

    `budget_s` counts from the script's first batch. `any_order` allows trials that change the order of batches.
    `discard` allows trials after which the weights are worth nothing; then the script ends with the advice. Without
    `show`, the advice is not shown, only kept.
    """

    budget_s: float = BUDGET_S
    module: bool = False
    command: bool = False
    stop: bool = False
    any_order: bool = False
    discard: bool = False
    full: bool = False
    patch: Path | None = None
    records: Path | None = None
    show: bool = True


def advise(options: AdviseOptions, argv: Sequence[str], keep: Keep | None = None) -> int:
    """Runs `argv` (a script and its arguments, or a command line), tries remedies on it, and reports on standard error.

    Returns the exit status of what was run. The training is kept. The report comes as soon as everything is tried; the
    script then goes on. `keep` receives the figures of the watched part (None: nothing was watched) and the advice.
    """
    if not argv:
        raise PipebenchError("there is no script to try", "name one: pipebench advise train.py [its arguments]")
    if options.patch is not None:
        _remove(options.patch)
    with Scratch("advise") if options.records is None else contextlib.nullcontext(options.records) as folder:
        kind = CommandRun if options.command else LiveRun
        run = kind(folder, argv, options.module, options.any_order, options.discard)
        progress = _Progress(options.budget_s)
        conductor = Conductor(run, remedies(), options.budget_s, progress.trying)
        progress.left_s = lambda: conductor.left_s
        what = started(argv, module=options.module, command=options.command)
        reporter = _Reporter(run, conductor, options, progress, keep, what)
        settings = Settings(folder=str(folder), trial=True)
        around: dict[str, Any] = {
            "meanwhile": lambda: _conducted(run, conductor, reporter),
            "afterwards": reporter.report,
        }
        if options.command:
            return supervisor.run_command(argv, watched_environment(folder, settings), **around).status
        return supervisor.run(["-m", *argv] if options.module else list(argv), settings, **around).status


def _remove(patch: Path) -> None:
    """Removes an old patch, so that nobody takes it for the new one. Raises PipebenchError if it cannot."""
    try:
        patch.unlink(missing_ok=True)
    except OSError as error:
        raise PipebenchError(
            f"cannot remove the old {printable(patch)}: {error.strerror}", "name another file"
        ) from None


@contextlib.contextmanager
def _conducted(run: LiveRun, conductor: Conductor, reporter: _Reporter) -> Iterator[None]:
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
    with run.looking():
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

    run: LiveRun
    conductor: Conductor
    options: AdviseOptions
    progress: _Progress
    keep: Keep | None
    started: str = ""  # as in WatchResult
    began_s: float = field(default_factory=time.time)
    done: bool = False

    @property
    def ends(self) -> bool:
        """Whether the script ends when the advice is there. Ranks that cannot leave at one batch train on."""
        return self._asked_to_end and self.run.leave_together(self._loader)

    @property
    def _asked_to_end(self) -> bool:
        return self.options.stop or self.options.discard

    @property
    def _loader(self) -> int:
        return self.conductor.seen.loader.loader if self.conductor.seen else 0

    def report(self, ended: supervisor.Ended | None = None) -> None:
        """Reports once. `ended`: how what was run has ended (None: it goes on)."""
        if self.done:
            return
        self.done = True
        try:
            self._report(ended)
        except PipebenchError as error:
            sys.stderr.write(f"pipebench: {error.problem}\n  {error.remedy}\n")
        except Exception as error:
            sys.stderr.write(f"pipebench: there is no advice, because of a fault of pipebench ({told(error)})\n")
        if self._asked_to_end and not self.run.ended.is_set():
            if self.ends:
                self.run.order(Order(1_000_000, self._loader, leave=True))
            else:
                sys.stderr.write("pipebench: not all ranks would leave before the same batch. The training goes on.\n")

    def _report(self, ended: supervisor.Ended | None) -> None:
        watched = self.conductor.watched or self.run.watched(ended.status if ended is not None else 0)
        found = dataclasses.replace(self.conductor.advice(), cut_short=self.run.cut_short(ended))
        watched = with_shared(watched, found.findings, found.loader) if found.loader is not None else watched
        watched = without_secrets(dataclasses.replace(watched, started=self.started))
        seen = self.conductor.seen
        of_rank = watched if seen is None else dataclasses.replace(watched, usable_cores=seen.cores)
        advice = without_secrets(self._with_text(_foretold(with_predictions(found, of_rank), watched)))
        width, colour = columns(sys.stderr), colours(sys.stderr)
        self.progress.end()
        goes_on = not self.run.ended.is_set() and not self.ends and found.ended != "script-ended"
        if self.options.show:
            shown = parts(advice, watched, full=self.options.full, goes_on=goes_on)
            made = screen.whole(shown, width) if self.options.full else screen.fitted(shown, width, screen.MORE)
            lacking = missing(encoding(sys.stderr))
            sys.stderr.write("\n" + layout.text(made, width=width, colour=colour, lacking=lacking))
            sys.stderr.flush()
        if self.keep is not None:
            self.keep(watched, advice)

    def _with_text(self, advice: Advice) -> Advice:
        """The advice with the lines that the user writes, and what became of the patch."""
        made, followed = self.conductor.made.get(advice.loader or 0), advice.followed
        if followed is None:
            return self._with_patch(advice, None, "no-change")
        if followed.reason == ANEW:
            return self._with_patch(advice, None, "new-loader-each-pass")
        if made is None:
            return self._with_patch(advice, None, "no-call")
        if changed(made, followed.change, self.began_s):
            return self._with_patch(dataclasses.replace(advice, unwritten="changed"), None, "changed")
        found = written(made, followed.change, list(self.conductor.made.values()))
        advice = dataclasses.replace(advice, snippet=found.snippet, unwritten=found.no_snippet)
        return self._with_patch(advice, found.diff, found.no_diff)

    def _with_patch(self, advice: Advice, text: str | None, reason: NoText) -> Advice:
        file = self.options.patch
        if file is None:
            return advice
        if text is not None:
            try:
                write_whole(file, text.encode())
            except PipebenchError as error:
                sys.stderr.write(f"pipebench: {error.problem}\n  {error.remedy}\n")
                reason = "not-saved"
        partly = not reason and advice.followed is not None and advice.followed.change.partly
        return dataclasses.replace(advice, patch=Patch(str(file), reason, partly))


def _foretold(advice: Advice, watched: WatchResult) -> Advice:
    """The advice with the finding that is the best guess, where nothing was shown to gain."""
    if advice.best is not None or advice.foretold is not None or advice.aside is not None:
        return advice
    causes = watched.account.causes if watched.account is not None else ()
    computing = any(one.code in _COMPUTING and one.loader == advice.loader for one in causes)
    return dataclasses.replace(advice, foretold=judging.foretold(advice.findings, computing))
