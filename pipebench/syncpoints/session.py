"""One session over some steps: both modes, the patches that they need, and the CUDA debug mode.

This module imports torch: import it only where it is used.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import warnings
from collections.abc import Callable, Iterator
from types import CodeType, TracebackType
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils.data import dataloader

from pipebench.errors import PipebenchError
from pipebench.results.sync_points import SyncReport
from pipebench.syncpoints.book import Book
from pipebench.syncpoints.modes import Calls, Operators
from pipebench.syncpoints.placement import Placement, Stack

_HOST_STATE = ("step", "mu_product")
_DEBUG_WARNING = "called a synchronizing CUDA operation"


def call(function: Callable[[], object]) -> None:
    """Calls the user's function once. The user's stack begins at this frame."""
    made = function()
    if inspect.isawaitable(made) or inspect.isgenerator(made) or inspect.isasyncgen(made):
        getattr(made, "close", lambda: None)()
        raise PipebenchError(
            f"the call gave a {type(made).__name__} and ran nothing",
            "name a function that runs one iteration when called",
        )


def pretends(function: Callable[[], object] | None, device: str | None) -> bool:
    """Whether CPU tensors count as device tensors: the machine has no device, or `function` uses none."""
    if device is not None:
        _need(device)
        return False
    if not torch.cuda.is_available():
        return True
    if function is None:
        return False
    book = Book(Placement(pretend=False), Stack(call.__code__, None), timed=False)
    with Operators(book), Calls(book, redirect=False):
        call(function)
    return not book.placement.real_seen


def _need(device: str) -> None:
    kind = torch.device(device).type
    if kind == "cpu":
        raise PipebenchError("the host never waits for the CPU", "leave out the device, or name another one")
    if kind == "cuda" and not torch.cuda.is_available():
        raise PipebenchError(
            "there is no CUDA device here", "leave out the device: tensors are then treated as if on one"
        )


class Watch:
    """Counts sync points while it is open. With `pretend`, tensors on the CPU count as on a device."""

    def __init__(self, *, pretend: bool, boundary: CodeType | None, home: tuple[str, int] | None) -> None:
        cuda = torch.cuda.is_available()
        self._checked = cuda and not pretend
        self._book = Book(Placement(pretend), Stack(boundary, home), timed=self._checked)
        self._calls = Calls(self._book, redirect=pretend and not cuda)
        self._open = contextlib.ExitStack()

    def __enter__(self) -> Watch:
        with contextlib.ExitStack() as opening:
            for context in (self._patched(), self._debugged(), Operators(self._book), self._calls):
                opening.enter_context(context)
            self._open = opening.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.__exit__(kind, error, trace)

    def step(self) -> None:
        self._book.step()

    def came_before(self, found: object) -> None:
        if self._book.placement.pretend:
            self._book.placement.mark(found, host=True)

    def report(self, function: str | None) -> SyncReport:
        """The sync points so far, and how they were found."""
        if self._checked:
            return self._book.report(function, torch.cuda.get_device_name(), None)
        if not self._book.placement.pretend:
            return self._book.report(function, None, "only CUDA can confirm it")
        here = "it uses no device" if torch.cuda.is_available() else "no device here"
        return self._book.report(function, None, here)

    @contextlib.contextmanager
    def _patched(self) -> Iterator[None]:
        """Patches what neither mode sees: synchronisation, backward passes, batches, optimisers' step counts."""
        with contextlib.ExitStack() as patches:
            for owner in (torch.cuda, getattr(torch, "accelerator", None), torch.cuda.Stream, torch.cuda.Event):
                if owner is not None and "synchronize" in vars(owner):
                    _replace(patches, owner, "synchronize", self._explicit(owner))
            _replace(patches, torch.autograd, "_engine_run_backward", self._engine)
            _replace(patches, dataloader._BaseDataLoaderIter, "__next__", self._batch)
            _replace(patches, torch, "frombuffer", self._hosted)
            handle = register_optimizer_step_pre_hook(self._place_step_counts)
            patches.callback(handle.remove)
            if "torch._dynamo.eval_frame" in sys.modules:
                _run_eagerly(patches)
            yield

    def _explicit(self, owner: Any) -> Callable[[Any], Any]:
        name = f"{owner.__module__}.{owner.__name__}" if isinstance(owner, type) else owner.__name__

        def wrap(original: Any) -> Any:
            @functools.wraps(original)
            def synchronize(*args: Any, **kwargs: Any) -> Any:
                missing = not torch.cuda.is_available()
                seen = self._book.confirmations
                function = (lambda *_, **__: None) if missing else original
                result = self._calls.wait(f"{name}.synchronize()", function, args, kwargs)
                if self._book.confirmations == seen:
                    self._book.confirm(self._book.stack.look())
                return result

            return synchronize

        return wrap

    def _engine(self, original: Any) -> Any:
        """Keeps the modes on in a backward pass, because hooks and custom functions are the user's code too."""

        @functools.wraps(original)
        def run(*args: Any, **kwargs: Any) -> Any:
            with contextlib.nullcontext() if self._calls.active() else self._calls:
                return original(*args, **kwargs)

        return run

    def _batch(self, original: Any) -> Any:
        """Marks everything that a DataLoader yields as host data."""

        @functools.wraps(original)
        def __next__(iterator: Any) -> Any:
            batch = original(iterator)
            if self._book.placement.pretend:
                self._book.placement.mark(batch, host=True, pinned=bool(getattr(iterator, "_pin_memory", False)))
            return batch

        return __next__

    def _hosted(self, original: Any) -> Any:
        """Marks tensors over Python's or NumPy's memory as host data."""

        @functools.wraps(original)
        def build(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            if self._book.placement.pretend:
                self._book.placement.mark(result, host=True)
            return result

        return build

    def _place_step_counts(self, optimiser: Any, args: Any, kwargs: Any) -> None:
        """Marks the step counts of optimisers as host data, unless capturable or fused; also of existing optimisers."""
        if not self._book.placement.pretend:
            return
        for group in optimiser.param_groups:
            if not (group.get("capturable") or group.get("fused")):
                states = [optimiser.state[p] for p in group["params"] if p in optimiser.state]
                self._book.placement.mark([state.get(name) for state in states for name in _HOST_STATE], host=True)

    @contextlib.contextmanager
    def _debugged(self) -> Iterator[None]:
        """Turns on the CUDA debug mode, which reports where the host really waits."""
        if not self._checked:
            yield
            return
        before, show = torch.cuda.get_sync_debug_mode(), warnings.showwarning

        def seen(message: Any, *rest: Any, **named: Any) -> None:
            if str(message).startswith(_DEBUG_WARNING):
                self._book.confirm(self._book.stack.look())
            else:
                show(message, *rest, **named)

        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Synchronization debug mode is a prototype")
            warnings.filterwarnings("always", message=_DEBUG_WARNING)
            warnings.showwarning = seen
            torch.cuda.set_sync_debug_mode("warn")
            try:
                yield
            finally:
                torch.cuda.set_sync_debug_mode(before)


def _run_eagerly(patches: contextlib.ExitStack) -> None:
    """Compiled functions run as they are written. Before torch 2.6 there is no stance that says so."""
    if hasattr(torch.compiler, "set_stance"):
        patches.enter_context(torch.compiler.set_stance("force_eager"))
        return
    for module in (sys.modules["torch._dynamo.eval_frame"], torch._C._dynamo.eval_frame):  # 2.4 has its own name for it
        if "set_eval_frame" in vars(module):
            _replace(patches, module, "set_eval_frame", lambda original: lambda callback: original(None))


def _replace(patches: contextlib.ExitStack, owner: Any, name: str, wrap: Callable[[Any], Any]) -> None:
    original = vars(owner)[name]
    setattr(owner, name, wrap(original))
    patches.callback(setattr, owner, name, original)
