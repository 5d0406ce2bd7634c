"""Copies from the host to a CUDA device: when the loop's own thread makes one."""

from __future__ import annotations

import contextlib
import functools
import sys
import types
from collections.abc import Iterator
from typing import Any

from pipebench.watch.record.patches import unseen
from pipebench.watch.record.record_file import TRANSFER
from pipebench.watch.script.backward import compiling
from pipebench.watch.script.phases import LoopPhases
from pipebench.watch.stages import held_modules

COMPILING = "torch._dynamo.callback"
TRACING = "torch._dynamo.variables.tensor"
_NAMES = ("to", "cuda")


def watch_transfers(loop: LoopPhases, tensor: Any, patches: Any) -> None:
    """Watches `to` and `cuda` of tensors: copies from the host to a CUDA device are the phase host-to-device.

    torch hands a `__torch_function__` what the class has under these names, and so do tables that are made from the
    class. So the class still gives torch's own methods. Only what is looked up on a tensor, as `x.to`, is timed.
    """
    for name in _NAMES:
        patches.replace(tensor, name, _OnTensors(loop, getattr(tensor, name)))


class _OnTensors:
    """A method of a class. The class gives the method itself; its objects give one that is timed in a loop.

    A copy that is made in `next()`, as by a collate function, is a part of the wait.
    """

    def __init__(self, loop: LoopPhases, plain: Any) -> None:
        always = plain.__name__ == "cuda"

        @unseen
        @functools.wraps(plain)
        def transfer(self: Any, *args: Any, **kwargs: Any) -> Any:
            if compiling() or not (always or _to_cuda(args, kwargs)) or _on_cuda(self):
                return plain(self, *args, **kwargs)
            if loop.on_transfer is not None:
                loop.on_transfer(self)
            if not loop.here.working():
                return plain(self, *args, **kwargs)
            loop.defer()
            try:
                return plain(self, *args, **kwargs)
            finally:
                loop.spend_only(TRANSFER)

        self.loop, self.plain, self._timed = loop, plain, transfer

    def __get__(self, found: Any, owner: Any = None) -> Any:
        if found is None or not (self.loop.here.working() or self.loop.on_transfer):
            return self.plain.__get__(found, owner)
        return types.MethodType(self._timed, found)


def watch_compiling(patches: Any, module: Any) -> None:
    """Takes ours away while `torch.compile` traces: it looks for torch's own methods in the classes themselves."""
    handler: Any = module.callback_handler
    if hasattr(handler, "install_callbacks"):
        _around_compiling(patches, handler)
    else:
        _before_and_after_compiling(patches, handler)


def _around_compiling(patches: Any, handler: Any) -> None:
    plain = handler.install_callbacks

    @contextlib.contextmanager
    @unseen
    def install_callbacks(*args: Any, **kwargs: Any) -> Iterator[None]:
        with plain(*args, **kwargs):
            ours = _taken_away()
            try:
                yield
            finally:
                _put_back(ours)

    patches.replace(handler, "install_callbacks", install_callbacks)


def _before_and_after_compiling(patches: Any, handler: Any) -> None:
    """As torch 2.4 has it."""
    start, end = handler.run_start_callbacks, handler.run_end_callbacks
    away: list[dict[str, _OnTensors]] = []

    @unseen
    def run_start_callbacks(*args: Any, **kwargs: Any) -> Any:
        away.append(_taken_away())
        return start(*args, **kwargs)

    @unseen
    def run_end_callbacks(*args: Any, **kwargs: Any) -> Any:
        _put_back(away.pop() if away else {})
        return end(*args, **kwargs)

    patches.replace(handler, "run_start_callbacks", run_start_callbacks)
    patches.replace(handler, "run_end_callbacks", run_end_callbacks)


def _taken_away() -> dict[str, _OnTensors]:
    """Takes ours out of the class of tensors, and out of the modules of a dataset that compiles them."""
    held_modules.compiles()
    tensor: Any = sys.modules["torch"].Tensor
    ours = {name: one for name in _NAMES if isinstance(one := vars(tensor).get(name), _OnTensors)}
    for name in ours:
        delattr(tensor, name)
    return ours


def _put_back(ours: dict[str, _OnTensors]) -> None:
    tensor: Any = sys.modules["torch"].Tensor
    for name, one in ours.items():
        if one.loop.recording.on and name not in vars(tensor):
            setattr(tensor, name, one)


def leave_out(module: Any) -> None:
    """Takes ours out of the copy of the class that `torch.compile` makes when the script first needs it."""
    copied: dict[str, Any] = getattr(module, "all_tensor_attrs", {})
    copied.update({name: one.plain for name in _NAMES if isinstance(one := copied.get(name), _OnTensors)})


def _to_cuda(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether the target is a CUDA device. Another tensor as the target is not printed: that would wait for it."""
    torch: Any = sys.modules["torch"]
    target = kwargs.get("device", kwargs.get("tensor", args[0] if args else None))
    if isinstance(target, torch.Tensor):
        return _on_cuda(target)
    return isinstance(target, int) or (isinstance(target, (str, torch.device)) and str(target).startswith("cuda"))


def _on_cuda(one: Any) -> bool:
    """Whether a tensor is on a CUDA device. No `__torch_function__` of the script hears that this is asked."""
    torch: Any = sys.modules["torch"]
    with torch._C.DisableTorchFunction():
        return bool(one.is_cuda)
