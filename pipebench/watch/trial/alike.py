"""Which passes over a loader are compared: one that trains is no match for one that evaluates."""

from __future__ import annotations

import contextlib
import sys
import weakref
from typing import Any, NamedTuple

from pipebench.watch.script.made import Calls, calls_to


class Begun(NamedTuple):
    """Whether a pass began with gradients, and the call of the script that began it."""

    trains: bool
    place: Calls


class Alike:
    """The passes that an order compares: those that begin where its first one did.

    That one has gradients, if the script has iterated the loader with gradients by then.
    """

    def __init__(self) -> None:
        self.first: Begun | None = None
        self._with_gradients: weakref.WeakSet[Any] = weakref.WeakSet()
        self._trained = False  # on a loader that may be gone: the script may make one for each pass

    def begun(self, loader: Any, frame: Any) -> Begun:
        """How the pass over `loader` begins that `frame` asks for."""
        torch: Any = sys.modules["torch"]
        found = Begun(bool(torch.is_grad_enabled()), calls_to(frame)[:1])
        if found.trains:
            with contextlib.suppress(TypeError):  # a loader without a hash is never tried
                self._with_gradients.add(loader)
        return found

    def has(self, loader: Any, begun: Begun | None, compared: bool) -> bool:
        """Whether a pass over `loader` is one of them. `compared`: the order has had a window or a pass."""
        if begun is None:
            return False
        self._trained |= loader in self._with_gradients
        if not compared or self.first is None or (begun.trains and not self.first.trains):
            self.first = begun if begun.trains or not self._trained else None
        return begun == self.first
