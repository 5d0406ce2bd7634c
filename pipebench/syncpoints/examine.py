"""Finds sync points, the lines of a training step that make the host wait for the device, on any machine.

`examine` runs a function; `syncs` watches a loop of the user. Both return a `SyncReport`. Importing this module does
not import torch.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pipebench import units
from pipebench.errors import PipebenchError, UsageError

if TYPE_CHECKING:
    from pipebench.results.sync_points import SyncReport
    from pipebench.syncpoints.session import Watch

ITERATIONS = 3


def examine(
    function: Callable[[], object], *, iterations: int = ITERATIONS, device: str | None = None, name: str | None = None
) -> SyncReport:
    """Calls `function` once an iteration and lists what makes the host wait.

    With `device`, only tensors on such a device count. Without `device`, one extra call (not counted) shows whether the
    function uses a CUDA device. If it does, tensors on it count; else all tensors count as if they were on a device.
    """
    if iterations < 1:
        raise UsageError(f"{iterations} is not a number of steps", "give 1 or more")
    from pipebench.syncpoints.session import Watch, call, pretends

    shown = str(name or getattr(function, "__qualname__", type(function).__qualname__))
    try:
        watch = Watch(pretend=pretends(function, device), boundary=call.__code__, home=_home(function))
        with watch:
            for _ in range(iterations):
                call(function)
                watch.step()
    except PipebenchError:
        raise
    except (Exception, SystemExit) as error:
        from pipebench.host.children import how, lost_in

        lost = [f"worker {number} {how(status)}" for number, status in lost_in(error.__traceback__)]
        if lost:
            raise PipebenchError(
                f"in {units.printable(shown)}, {'; '.join(lost)} before its loader told it to",
                "see what ends it in the dataset: os._exit, sys.exit, or a crash in a library",
            ) from error
        raise PipebenchError(
            f"{units.printable(shown)} raised {type(error).__name__}: {units.printable(str(error))}",
            "make it run to its end when called without arguments; sync points are found while it runs",
        ) from error
    return watch.report(shown)


def _home(function: Any) -> tuple[str, int] | None:
    """Where the function is defined, also behind a decorator, `torch.compile` or an object's `__call__`."""
    inner = inspect.unwrap(getattr(function, "_torchdynamo_orig_callable", function))
    code = getattr(inner, "__code__", None) or getattr(type(inner).__call__, "__code__", None)
    return (code.co_filename, code.co_firstlineno) if code is not None else None


def syncs(device: str | None = None) -> SyncsOfLoop:
    """A context manager that lists the sync points of a loop of the user.

    Without `device`, on a machine with CUDA only tensors on the device count; elsewhere all tensors count.
    """
    return SyncsOfLoop(device)


class SyncsOfLoop:
    """The sync points of the loop inside a `with`.

    Call `step` at the end of every iteration; without it, everything counts as one iteration. `report` is the result.
    """

    def __init__(self, device: str | None) -> None:
        self._device = device
        self._watch: Watch | None = None

    def __enter__(self) -> SyncsOfLoop:
        from pipebench.syncpoints.session import Watch, pretends

        self._watch = Watch(pretend=pretends(None, self._device), boundary=None, home=None)
        self._watch.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open().__exit__(kind, error, trace)

    def step(self) -> None:
        """Marks the end of an iteration."""
        self._open().step()

    def came_before(self, found: object) -> None:
        """Counts the tensors in `found` as host data, as if a DataLoader had given them inside the block."""
        self._open().came_before(found)

    def report(self) -> SyncReport:
        return self._open().report(None)

    def _open(self) -> Watch:
        if self._watch is None:
            raise PipebenchError(
                "there is no report before the `with` block has begun", "write: with pipebench.syncs() as found: ..."
            )
        return self._watch
