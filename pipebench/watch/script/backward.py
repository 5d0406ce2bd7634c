"""Watches `torch.autograd.backward`: what comes before it in an iteration is forward."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from pipebench.watch.record.patches import unseen
from pipebench.watch.record.record_file import BACKWARD, FORWARD
from pipebench.watch.script.phases import LoopPhases


def compiling() -> bool:
    asked = getattr(getattr(sys.modules.get("torch"), "compiler", None), "is_compiling", None)
    return asked is not None and bool(asked())


def watched_backward(loop: LoopPhases, function: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `torch.autograd.backward`, which `Tensor.backward` calls too."""

    @unseen
    @functools.wraps(function)
    def backward(*args: Any, **kwargs: Any) -> Any:
        this = None if compiling() else loop.here.innermost()
        if this is None:
            return function(*args, **kwargs)
        loop.spend(FORWARD, unnamed=FORWARD)
        this.trained = True
        loop.device.backward_of(args[0] if args else kwargs.get("tensors"))
        outer, loop.here.backward = loop.here.backward, True
        try:
            return function(*args, **kwargs)
        finally:
            loop.here.backward = outer
            loop.spend(BACKWARD, unnamed=BACKWARD)
            if not outer:
                this.device.trained()

    return backward
