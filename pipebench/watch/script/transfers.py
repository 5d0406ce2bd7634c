"""Copies from the host to a CUDA device: when the loop's own thread makes one."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from pipebench.watch.record.patches import unseen
from pipebench.watch.record.record_file import TRANSFER
from pipebench.watch.script.phases import LoopPhases, compiling


def watch_transfers(loop: LoopPhases, tensor: Any, patches: Any) -> None:
    """Patches `Tensor.to` and `Tensor.cuda`: copies from the host to a CUDA device are the phase host-to-device."""

    def wrapped(function: Callable[..., Any], always: bool) -> Callable[..., Any]:
        @unseen
        @functools.wraps(function)
        def transfer(self: Any, *args: Any, **kwargs: Any) -> Any:
            if not loop.here.open or self.is_cuda or compiling() or not (always or _to_cuda(args, kwargs)):
                return function(self, *args, **kwargs)
            loop.defer()
            try:
                return function(self, *args, **kwargs)
            finally:
                unnamed, loop.here.unnamed = loop.here.unnamed, 0
                loop.spend(TRANSFER)
                loop.here.unnamed = unnamed

        return transfer

    patches.replace(tensor, "to", wrapped(tensor.to, False))
    patches.replace(tensor, "cuda", wrapped(tensor.cuda, True))


def _to_cuda(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether the target is a CUDA device. Another tensor as the target is not printed: that would wait for it."""
    torch: Any = sys.modules["torch"]
    target = kwargs.get("device", kwargs.get("tensor", args[0] if args else None))
    if isinstance(target, torch.Tensor):
        return bool(target.is_cuda)
    return isinstance(target, int) or (isinstance(target, (str, torch.device)) and str(target).startswith("cuda"))
