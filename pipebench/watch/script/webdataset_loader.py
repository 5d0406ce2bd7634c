"""Watches webdataset's WebLoader: its stages after the DataLoader run in the script's process while the loop waits.

`WebLoader(...).unbatched().shuffle(1000).batched(64)` splits the workers' batches and makes new ones. For the loop,
only the whole pipeline counts: its `next()` is the wait, and each item that it gives is one iteration, however many
batches of the DataLoader went into it.
"""

from __future__ import annotations

import functools
import os
from time import perf_counter_ns
from typing import Any

from pipebench.watch.record.exclusive_time import local
from pipebench.watch.record.patches import unseen
from pipebench.watch.script.iterators import Loaders, watch_transfers_once
from pipebench.watch.stages.webdataset import Passing

WEBLOADER = "webdataset.pipeline"


class _Whole(Passing):
    """A proxy of such a pipeline's iterator. Its `next()` is recorded instead of the DataLoader's.

    `inside` is the time that the DataLoader's own iterator took. The stages after it took the rest of the wait.
    """

    def __init__(self, iterator: Any, loaders: Loaders) -> None:
        super().__init__(iterator)
        self._loaders = loaders
        self.inside = 0

    @unseen
    def __next__(self) -> Any:
        loaders = self._loaders
        here = loaders.loop.here
        if not loaders.recording.on or here.whole is not None:
            return next(self._iterator)
        loaders.guarded(loaders.loop.before_next, self)
        here.whole, self.inside, began = self, 0, perf_counter_ns()
        event: str | None = "failed"
        try:
            found = next(self._iterator)
            event = None
            return found
        except StopIteration:
            event = "exhausted"
            raise
        finally:
            here.whole = None
            own = perf_counter_ns() - began - self.inside
            loaders.guarded(loaders.loop.after_next, self, event, own)
            loaders.guarded(self._spent, own)
            loaders.guarded(watch_transfers_once, loaders)

    def _spent(self, own: int) -> None:
        this = self._loaders.loop.passes.get(self)
        if this is not None and this.began is not None:
            this.pending.after_loader_ns += own


def watch_webloader(loaders: Loaders, module: Any) -> None:
    """Patches `DataPipeline.__iter__`. Pipelines of several stages that begin with a DataLoader are watched."""
    plain = module.DataPipeline.__iter__

    @unseen
    @functools.wraps(plain)
    def __iter__(self: Any) -> Any:
        found = plain(self)
        watched = loaders.recording.on and loaders.recording.pid == os.getpid() and loaders.bound is None
        first = self.pipeline[0] if len(self.pipeline) > 1 else None
        if watched and local.timer is None and isinstance(first, module.DataLoader):
            return _Whole(found, loaders)
        return found

    loaders.recording.patches.replace(module.DataPipeline, "__iter__", __iter__)
