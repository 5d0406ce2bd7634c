"""Watches `torch.autograd.backward`: what comes before it in an iteration is forward."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pipebench.watch.record.patches import unseen
from pipebench.watch.record.record_file import BACKWARD, FORWARD
from pipebench.watch.script.passes import Pass
from pipebench.watch.script.phases import LoopPhases

_INPUTS = 5  # the place of `inputs`


def compiling() -> bool:
    asked = getattr(getattr(sys.modules.get("torch"), "compiler", None), "is_compiling", None)
    return asked is not None and bool(asked())


def watched_backward(loop: LoopPhases, function: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `torch.autograd.backward`, which `Tensor.backward` calls too."""

    @unseen
    @functools.wraps(function)
    def backward(*args: Any, **kwargs: Any) -> Any:
        loop.line_counts.stop()
        if compiling() or not (here := loop.here).open or (this := loop.spend(FORWARD, unnamed=FORWARD)) is None:
            return function(*args, **kwargs)
        this.trained = True
        loop.again.clear()
        loop.device.backward_of(args[0] if args else kwargs.get("tensors"))
        if this is here.bare:
            loop.recording.guarded("finding a loop without a loader", loop.at_backward)
        walked = _walked(loop, this, args, kwargs)
        outer, here.backward = here.backward, True
        try:
            return function(*args, **kwargs)
        finally:
            here.backward = outer
            loop.spend(BACKWARD, unnamed=BACKWARD)
            if walked and loop.gradients.walks:
                _ours(loop, this, loop.gradients.after)
            if not outer:
                this.device.trained()

    return backward


def _walked(loop: LoopPhases, this: Pass, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether the graph of this backward was walked. Only the loops of the main thread are looked at."""
    gradients = loop.gradients
    if not gradients.walks or not loop.here.main:
        return False
    plain = not loop.here.backward and len(args) <= _INPUTS and kwargs.get("inputs") is None
    if not gradients.walks_now(this.loader, (this.number, this.turn), plain=plain):
        return False
    _ours(loop, this, lambda: gradients.walk(this.loader, args[0] if args else kwargs.get("tensors")))
    return True


def _ours(loop: LoopPhases, this: Pass, act: Callable[[], object]) -> None:
    """Does something for ourselves: its time is in no phase. After a fault, no graph is walked any more."""

    def done() -> None:
        loop.gradients.walks = False
        act()
        loop.gradients.walks = True

    loop.recording.guarded("looking for gradients that nobody uses", done)
    loop.looked(this)
