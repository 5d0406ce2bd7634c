"""Watches a part of the user's own script: a `with` block instead of a command."""

from __future__ import annotations

from time import perf_counter_ns

from pipebench.host.machine import usable_cores
from pipebench.host.scratch import Scratch
from pipebench.results.watched import WatchResult
from pipebench.watch.launch.watched_script import WatchedScript
from pipebench.watch.read.gather import gather
from pipebench.watch.read.summary import summarise
from pipebench.watch.record.options import WatchOptions
from pipebench.watch.record.recording import Settings


class Watching:
    """Watches what runs inside the block. Afterwards `result` says where the time went, and all patches are removed.

    If a loader's workers were started before the block, their stages are not seen.

    >>> import pipebench
    >>> with pipebench.watching() as watched:
    ...     pass
    >>> watched.result.verdict.limit
    'nothing-watched'
    """

    result: WatchResult

    def __init__(self, *, functions: tuple[str, ...] = (), warmup: int = 0, every: int = 50) -> None:
        self._options = WatchOptions(functions=functions, warmup=warmup, every=every)

    def __enter__(self) -> Watching:
        self._scratch = Scratch("watch")
        chosen = self._options
        self._began = perf_counter_ns()
        self._script = WatchedScript(
            Settings(str(self._scratch.path), chosen.every, warmup=chosen.warmup, functions=chosen.functions)
        )
        self._script.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            try:
                self._script.finish()
            finally:
                lived = self._began, perf_counter_ns()
                processes = gather(self._scratch.path)
                self.result = summarise(processes, self._options, int(kind is not None), usable_cores(), lived=lived)
        finally:
            self._scratch.remove()
