"""Watches a part of the user's own script: a `with` block instead of a command."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter_ns
from typing import Any

from pipebench.errors import PipebenchError, UsageError
from pipebench.host.machine import usable_cores
from pipebench.host.scratch import Scratch
from pipebench.results.watched import WatchResult
from pipebench.watch.launch.watched_script import WatchedScript, is_watched
from pipebench.watch.read.gather import gather
from pipebench.watch.read.one_of_ranks import one_of_ranks, rank_of
from pipebench.watch.read.summary import summarise
from pipebench.watch.record.from_handlers import from_a_handler
from pipebench.watch.record.options import WatchOptions
from pipebench.watch.record.recording import Settings, told

_ASIDE = "this process is watched already, so this block or callback records nothing; the report of the whole holds it"
_recording: list[Watching] = []  # the block that records now


class WatchedBlock(WatchResult):
    """Where the time of a block went: figures in base units. As text, and in a notebook, it is a report of a screen."""

    def __str__(self) -> str:
        from pipebench.render import notebook  # only if it is shown

        return notebook.as_text(self)

    def _repr_html_(self) -> str:
        from pipebench.render import notebook

        return notebook.as_html(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What IPython shows in a terminal."""
        printer.text(str(self).strip())


class Watching:
    """Watches what runs inside the block. Afterwards `result` says where the time went, and all patches are removed.
    Before, to read it is an error. As text, and in a notebook, it is the report of its result.

    If a loader's workers were started before the block, their stages are not seen. If the process is watched already
    (by `pipebench watch`, or by a block around this one), that recording has all, and this block says so.

    >>> import pipebench
    >>> with pipebench.watching() as watched:
    ...     pass
    >>> watched.result.verdict.limit
    'nothing-watched'
    """

    _result: WatchedBlock | None = None
    _asides = 0

    def __init__(self, *, functions: str | Sequence[str] = (), warmup: int = 0, every: int = 50) -> None:
        if warmup < 0 or every < 1:
            raise UsageError(f"warmup={warmup}, every={every} cannot be", "give 0 or more, and 1 or more")
        named = (functions,) if isinstance(functions, str) else tuple(functions)
        self._options = WatchOptions(functions=named, warmup=warmup, every=every)
        self._latest: Iterator[dict[str, float]] = iter(())
        self.over: Callable[[], bool] = bool  # a callback may know that its training has left without an end

    @property
    def result(self) -> WatchedBlock:
        """Raises `PipebenchError` as long as the block has not ended."""
        self._end_if_over()
        if self._result is None:
            raise PipebenchError("there is no result before the end of the block", "read it after the `with` block")
        return self._result

    def __str__(self) -> str:
        return "The block has not ended: there is no report yet." if self._result is None else str(self._result)

    def _repr_html_(self) -> str | None:
        """What a notebook shows; None: it shows the text."""
        return None if self._result is None else self._result._repr_html_()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self).strip())

    def __enter__(self) -> Watching:
        for one in [*_recording]:
            one._end_if_over()
        self._result, self._latest = None, iter(())
        if is_watched():  # the patches of two recordings would hide each other's workers
            self._asides += 1
            sys.stderr.write(f"pipebench: {_ASIDE}\n")
            return self
        self._asides, self._pid = 0, os.getpid()
        self._unwatched = False
        try:
            self._begin()
        except Exception as error:
            if from_a_handler(error):
                raise
            self._unwatched = True
            sys.stderr.write(f"pipebench: the block is not watched ({told(error)}); it goes on\n")
        return self

    def _begin(self) -> None:
        """Starts to watch. If it raises, nothing is watched, patched or left."""
        with ExitStack() as back:
            self._scratch = Scratch("watch")
            back.callback(self._scratch.remove)
            chosen = self._options
            self._began = perf_counter_ns()
            self._script = WatchedScript(
                Settings(str(self._scratch.path), chosen.every, warmup=chosen.warmup, functions=chosen.functions)
            )
            back.callback(self._script.finish)
            self._script.start()
            _recording.append(self)
            self._latest = _latest(self._scratch.path)
            back.pop_all()

    def latest(self) -> dict[str, float]:
        """The figures of the iterations since the last call, by the names of `pipebench watch --log`; {} without any.

        Called inside the block, as often as they are wanted. If pipebench fails, it says so once, and there are none.
        """
        return next(self._latest, {})

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        status = int(kind is not None)
        if self._asides:
            self._asides -= 1
            nothing = self._nothing(status)
            verdict = dataclasses.replace(nothing.verdict, elsewhere=True)
            self._result = _block(dataclasses.replace(nothing, verdict=verdict, notes=()))
            return
        if self._unwatched:
            self._unwatched, self._result = False, _block(self._nothing(status))
        if os.getpid() != self._pid or self not in _recording:
            return  # a process that was forked in the block ends it, too; what was over is ended once more
        _recording.remove(self)
        try:
            try:
                self._script.finish()
            finally:
                self._read(status)
        finally:
            self._scratch.remove()

    def _end_if_over(self) -> None:
        if self in _recording and self.over():
            self.__exit__(KeyboardInterrupt)

    def _nothing(self, status: int) -> WatchResult:
        return summarise([], self._options, status, usable_cores())

    def _read(self, status: int) -> None:
        """Makes the result. Somebody may have removed the records; an exception of a script's signal handler passes."""
        lived = self._began, perf_counter_ns()
        try:
            processes = gather(self._scratch.path)
            result = summarise(processes, self._options, status, usable_cores(), lived=lived)
            self._result = _block(one_of_ranks(result, rank_of(processes)))
        except Exception as error:
            self._result = _block(self._nothing(status))
            if from_a_handler(error):
                raise
            sys.stderr.write(f"pipebench: the block has no figures, because of a fault of pipebench ({told(error)})\n")


def _block(found: WatchResult) -> WatchedBlock:
    return WatchedBlock(**{one.name: getattr(found, one.name) for one in dataclasses.fields(found)})


def _latest(folder: Path) -> Iterator[dict[str, float]]:
    """The figures since the last time, again and again."""
    try:
        from pipebench.results.names import hidden_in_words  # only for who asks
        from pipebench.watch.log.live import Live

        live = Live(folder, hidden_in_words())
        while True:
            point = live.latest()
            yield {} if point is None else point.named()
    except Exception as error:
        sys.stderr.write(f"pipebench: no figures from here on, because of a fault of pipebench ({told(error)})\n")
