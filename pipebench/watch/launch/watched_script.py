"""Watches one process: applies the patches, and removes them at the end."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from time import perf_counter_ns
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pipebench.watch.record import thread_pools
from pipebench.watch.record.lines import Moment, NotRecognised, SpanNotFound
from pipebench.watch.record.patches import AfterImport
from pipebench.watch.record.per_code import forget
from pipebench.watch.record.recording import Recording, Settings
from pipebench.watch.script.backward import watched_backward
from pipebench.watch.script.forks import goes_on_after_forks
from pipebench.watch.script.iterators import (
    DATALOADER,
    TORCHDATA,
    Loaders,
    lacking,
    watch_dataloader,
    watch_torchdata,
)
from pipebench.watch.script.loop_looks import RARELY_S, LoopLooker
from pipebench.watch.script.loop_spans import LoopSpans
from pipebench.watch.script.made import watch_fastai
from pipebench.watch.script.optimisers import watch_optimisers
from pipebench.watch.script.phases import LoopPhases
from pipebench.watch.script.ranks import PROCESS_GROUP, watch_process_group
from pipebench.watch.script.start_looks import StartLooker
from pipebench.watch.script.transfers import COMPILING, TRACING, leave_out, watch_compiling
from pipebench.watch.script.watched_next import watch_next
from pipebench.watch.script.webdataset_loader import WEBLOADER, watch_webloader
from pipebench.watch.stages import labels, library_calls

if TYPE_CHECKING:
    from pipebench.watch.bound.session import Bound
    from pipebench.watch.trial.patching import Trying

AUTOGRAD = "torch.autograd"
OPTIMISER = "torch.optim.optimizer"
FASTAI = "fastai.data.load"


_here: list[int] = []  # the ids of the processes, this one and those before a fork, that are watched now


def is_watched() -> bool:
    """Whether somebody watches this process: `pipebench watch`, or a `with` block."""
    return os.getpid() in _here


class WatchedScript:
    """Watches the process that runs the script. A module that is not imported yet is patched when it is imported."""

    def __init__(self, settings: Settings) -> None:
        self.recording = Recording(settings, "script")
        self.loop = LoopPhases(self.recording)
        self.bound = self._bound() if settings.bound is not None else None
        self.loaders = Loaders(self.recording, self.loop, self.bound)
        self.spans = LoopSpans(self.loop)
        self.trying = self._trying() if settings.trial else None
        self.looker: LoopLooker | None = None
        self.start_looker = StartLooker(self.recording)
        names = {
            *library_calls.MODULES,
            DATALOADER,
            TORCHDATA,
            AUTOGRAD,
            COMPILING,
            FASTAI,
            OPTIMISER,
            PROCESS_GROUP,
            TRACING,
            *labels.modules_of(settings.functions),
        }
        self.imports = AfterImport(names, self._imported)

    def _bound(self) -> Bound:
        from pipebench.watch.bound.session import Bound  # only if it is measured: imports are a part of each run

        return Bound(self.recording, self.loop, self.finish)

    def _trying(self) -> Trying:
        from pipebench.watch.trial.patching import Trying

        return Trying(self.recording, self.loaders.numbers, self._quiet, self.loop.device)

    def start(self) -> None:
        """Patches what is imported now and what will be imported. A fault goes to the report; the script runs on."""
        _here.append(self.recording.pid)
        self.recording.patches.on_undo(self.imports.uninstall)
        self.spans.install()
        self.recording.guarded("watching queues", self.loaders.relays.install)
        self.recording.guarded("looking at the start of the script", self.start_looker.begin)
        goes_on_after_forks(self._look_on, self.recording)
        self.recording.guarded("watching imports", self.imports.install)
        self.recording.guarded("watching what was imported", self.recording.patches.rebind)

    def _imported(self, module: ModuleType) -> None:
        if not self.recording.on:
            return
        self.recording.guarded(f"watching {module.__name__}", lambda: self._watch(module))

    def _watch(self, module: ModuleType) -> None:
        patches = self.recording.patches
        watchers: dict[str, Callable[[Any], None]] = {
            DATALOADER: self._watch_dataloader,
            TORCHDATA: partial(watch_torchdata, self.loaders),
            AUTOGRAD: lambda one: patches.replace(one, "backward", watched_backward(self.loop, one.backward)),
            COMPILING: partial(watch_compiling, patches),
            FASTAI: partial(watch_fastai, patches, self.loaders.makers),
            OPTIMISER: partial(watch_optimisers, self.loop),
            PROCESS_GROUP: partial(watch_process_group, self.loop),
            TRACING: leave_out,
        }
        watchers.get(module.__name__, partial(library_calls.watch_module, patches))(module)
        if module.__name__ == WEBLOADER:
            watch_webloader(self.loaders, module)
        labels.watch_functions(patches, self.recording.settings.functions)

    def _watch_dataloader(self, module: Any) -> None:
        if lacks := lacking(module):
            self._leave_alone(lacks)
            return
        if self.trying is not None:
            self._looks_by(self.trying.looker)
            self.loop.without_loader, self.loop.at_backward = self.trying.stepped, self.trying.looker.at_backward
            self.trying.watch(module)
        elif self.bound is None:
            self.looker = LoopLooker(self.recording, RARELY_S)
            self._looks_by(self.looker)
            self.looker.collected.install(self.recording.patches)
            self.loop.without_loader, self.loop.at_backward = self.looker.stepped, self.looker.at_backward
            watch_next(self.looker, self.recording.patches, module._BaseDataLoaderIter, self._number_of)
        watch_dataloader(self.loaders, module)

    def _look_on(self) -> None:
        self.start_looker.go_on()
        if self.looker is not None:
            self.looker.go_on()

    def _looks_by(self, looker: LoopLooker) -> None:
        looker.before_first = self.start_looker.end
        looker.early, looker.gradients = self.loop.early, self.loop.gradients
        looker.trains, looker.again = self.loop.trains.__contains__, self.loop.again
        looker.on_host = self.loop.device.on_host
        self.loop.gradients.walks = True

    def _number_of(self, iterator: Any) -> int | None:
        """The number of the loader that is iterated: that of the pipeline around it, if there is one."""
        whole = self.loop.here.whole
        found = self.loop.passes.get(iterator if whole is None else whole)
        return found.loader if found is not None else None

    def _leave_alone(self, lacks: list[str]) -> None:
        """Ends the recording, because this torch is not one that it knows."""
        torch = str(getattr(sys.modules.get("torch"), "__version__", ""))
        sys.stderr.write(f"pipebench: torch {torch} is not recognised ({', '.join(lacks)}): nothing is watched\n")
        self.recording.write(NotRecognised(torch, lacks))
        self.recording.stop()

    def _quiet(self) -> None:
        """Ends the recording, because something is tried from now on. The patches for trying stay."""
        if self.recording.on:
            self.recording.guarded("ending the loop", self._end_loops)
            self.recording.guarded("ending the loaders", self.loaders.finish)
            self.recording.write(thread_pools.library_threads())
            self.recording.stop()

    def _tell_spans(self) -> None:
        for text in self.recording.settings.functions:
            if (lacks := labels.missing(text)) is not None:
                self.recording.write(SpanNotFound(text, lacks))

    def _end_loops(self) -> None:
        self.loaders.relays.finish()
        self.loop.finish()
        self.loop.ends()

    def finish(self, exiting: bool = False) -> None:
        """Writes the rest of the records and removes all patches; fewer of them if the process is `exiting`.

        What a signal handler of the script raises meanwhile, Ctrl-C too, is raised when all is written and put back.
        """
        raised: BaseException | None = None
        for where, step in self._last_steps(exiting):
            try:
                self.recording.guarded(where, step)
            except BaseException as error:
                raised = error
        if raised is not None:
            raise raised

    def _last_steps(self, exiting: bool) -> Iterator[tuple[str, Callable[[], object]]]:
        recording = self.recording
        if self.trying is not None:
            yield "ending what was tried", self.trying.end
        if self.bound is not None:
            yield "ending the bound", self.bound.rest
        yield "ending the looks at the start", self.start_looker.end
        if self.looker is not None:
            yield "ending the looks at the loop", self.looker.end
        if recording.on:
            yield "looking for functions", self._tell_spans
            yield "ending the loop", self._end_loops
            if self.loop.here.main:
                yield "ending the account", lambda: self.loop.account.ends(perf_counter_ns())
            yield "ending the loaders", self.loaders.finish
        if recording.pid == os.getpid():
            yield "looking at thread pools", lambda: recording.write(thread_pools.library_threads())
        yield "ending the records", lambda: recording.write(Moment("end", perf_counter_ns()))
        yield "putting back what was replaced", lambda: self._unpatch(exiting)

    def _unpatch(self, exiting: bool) -> None:
        with contextlib.suppress(ValueError):
            _here.remove(self.recording.pid)
        self.recording.on = False
        forget()
        self.recording.patches.undo(everywhere=not exiting)
