"""Times the `worker_init_fn` of the script in each worker, which the first batch waits for."""

from __future__ import annotations

import functools
import sys
import types
from time import perf_counter_ns
from typing import Any

from pipebench.watch.record.from_handlers import forgiving
from pipebench.watch.record.own_code import owner
from pipebench.watch.record.patches import Patches, unseen, without_our_frames
from pipebench.watch.record.recording import Recording
from pipebench.watch.record.worker_lines import WorkerInit

_took: list[tuple[Any, int]] = []  # of this process, until it is told


class TimedInit:
    """The `worker_init_fn` of forked workers: the script's own, timed."""

    def __init__(self, init: Any) -> None:
        self.init = init

    @unseen
    def __call__(self, number: int) -> Any:
        return timed(self.init, number)


@unseen
def timed(init: Any, number: int) -> Any:
    """Runs the script's own function. The worker ends if that fails, so only what returns is noted."""
    began = perf_counter_ns()
    try:
        found = init(number)
    except BaseException:
        with forgiving():
            clean_errors(Patches(lambda *_: None))
        raise
    _took[:] = [(init, perf_counter_ns() - began)]
    return found


def clean_errors(patches: Patches) -> None:
    """Removes our frames from a worker's exceptions, before the worker turns them into text for the script."""
    module: Any = sys.modules["torch.utils.data._utils.worker"]
    plain = module.ExceptionWrapper

    def wrapper(exc_info: Any = None, *args: Any, **kwargs: Any) -> Any:
        if exc_info is None:
            kind, error, _ = sys.exc_info()
            with forgiving():  # an exception may be an object of any kind
                without_our_frames(error)
            exc_info = (kind, error, error.__traceback__ if error else None)
        return plain(exc_info, *args, **kwargs)

    patches.replace(module, "ExceptionWrapper", wrapper)


def tell(recording: Recording, loader: int, worker: int | None) -> None:
    """Writes what it took here, if this worker has one."""
    while _took:
        init, ns = _took.pop()
        recording.write(WorkerInit(loader, worker or 0, ns, *_place(init)))


def _place(init: Any) -> tuple[str, str, int]:
    """The name of a function, and its file and line if it is the user's own."""
    while isinstance(init, functools.partial):
        init = init.func
    plain: Any = getattr(init, "__func__", init) if isinstance(init, types.MethodType) else init
    if not isinstance(plain, types.FunctionType):
        return type(plain).__name__, "", 0
    code = plain.__code__
    file = "" if owner(code.co_filename) else code.co_filename
    return plain.__qualname__, file, code.co_firstlineno if file else 0
