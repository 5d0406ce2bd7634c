"""The two torch modes that find sync points: one sees operators below autograd, one sees Python calls on tensors.

This module imports torch: import it only where it is used.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils._python_dispatch import TorchDispatchMode

from pipebench.syncpoints import reviewed_operators
from pipebench.syncpoints.book import Book
from pipebench.syncpoints.placement import tensors

Args = tuple[Any, ...]
Kwargs = dict[str, Any]
MASKED_NUMBER = "x[mask] = number (one mask: CUDA fills and need not wait)"


class Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch has no types for it
    """Sees every operator below autograd, forward and backward; looks it up in the reviewed list and torch's tags."""

    def __init__(self, book: Book) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # the same
        self._book = book

    def __torch_dispatch__(self, func: Any, types: Any, args: Args = (), kwargs: Kwargs | None = None) -> Any:
        kwargs = kwargs or {}
        book, placement = self._book, self._book.placement
        sight = book.stack.look()
        book.saw_region(sight)
        name = func._schema.name
        inputs = list(tensors((args, kwargs)))
        call = reviewed_operators.OperatorCall(name, args, kwargs, placement.on_device, placement.pinned)
        reason = self._reason(call, inputs, [str(tag).rpartition(".")[2] for tag in func.tags])
        began = time.perf_counter()
        result = func(*args, **kwargs)
        seconds = time.perf_counter() - began
        if reason is None and name == "aten::_to_copy":
            reason = _moved(placement.on_device(args[0]), result, kwargs, placement.pretend)
        if reason == reviewed_operators.HOST_VALUE and book.call == MASKED_NUMBER:
            reason = None  # on a device, torch makes the number there; some versions make it without an operator
        if reason is not None:
            book.record(_described(book.call, name, reason), sight, seconds)
        hosted = sight.in_loader or name == "aten::lift_fresh" or (book.hosted and not inputs)
        placement.note_outputs(inputs, result, host=hosted)
        if name == "aten::lift_fresh" and placement.pretend:
            placement.mark(result, host=True)
        return result

    def _reason(
        self, call: reviewed_operators.OperatorCall, inputs: Sequence[torch.Tensor], tags: Sequence[str]
    ) -> reviewed_operators.Finding:
        if not any(call.on_device(tensor) for tensor in inputs):
            return None
        return reviewed_operators.finding(call, tags)


def _moved(from_device: bool, result: torch.Tensor, kwargs: Kwargs, pretend: bool) -> reviewed_operators.Finding:
    """Handles a copy between a real device and the host. A pretended copy shows in the Python call only."""
    to_device = result.device.type != "cpu"
    if pretend or from_device == to_device or kwargs.get("non_blocking"):
        return None  # torch allocates pinned memory for a non-blocking copy to the host
    return "host to device" if to_device else "device to host"


def _described(call: str | None, name: str, reason: str) -> str:
    operator = f"{name.removeprefix('aten::')} ({reason})"
    return operator if call is None or operator.startswith(f"{call} ") else f"{call}: {operator}"


class Calls(TorchFunctionMode):
    """Sees Python calls on tensors: it names the origin of operators, and finds waits without a tagged operator."""

    def __init__(self, book: Book, *, redirect: bool) -> None:
        super().__init__()
        self.book = book
        self._redirect = redirect

    def __torch_function__(self, func: Any, types: Any, args: Args = (), kwargs: Kwargs | None = None) -> Any:
        with self.book.given(self._hosted(args, kwargs or {})):
            return self._handled(func, args, dict(kwargs or {}))

    def _hosted(self, args: Args, kwargs: Kwargs) -> bool:
        """Whether all tensor arguments of a call are on the host and no device is named."""
        given = list(tensors((args, kwargs))) if self.book.placement.pretend else []
        on_device = self.book.placement.on_device
        return bool(given) and kwargs.get("device") is None and not any(on_device(tensor) for tensor in given)

    def _handled(self, func: Any, args: Args, kwargs: Kwargs) -> Any:
        handler = _HANDLERS.get(func)
        if handler is None and not kwargs:
            return self._named(func, args, kwargs)
        before = dict(kwargs)
        if self._redirect:
            kwargs = _redirected(kwargs)
        if handler is not None:
            return handler(self, func, args, kwargs, before)
        result = self._named(func, args, kwargs)
        if self.book.placement.pretend:
            self._place_factory(result, before)
        return result

    def active(self) -> bool:
        return any(mode is self for mode in _get_current_function_mode_stack())  # type: ignore[no-untyped-call]  # the same

    def wait(self, operation: str, func: Any, args: Args, kwargs: Kwargs, *, waits: bool = True, count: int = 1) -> Any:
        """Calls `func`; records a wait if it is one, unless an operator inside was recorded already."""
        book = self.book
        sight = book.stack.look()
        entries = book.entries
        began = time.perf_counter()
        with book.calling(operation):
            result = func(*args, **kwargs)
        if waits and book.entries == entries:
            book.record(operation, sight, time.perf_counter() - began, count)
        return result

    def _named(self, func: Any, args: Args, kwargs: Kwargs) -> Any:
        with self.book.calling(_LABELS.get(func) or str(getattr(func, "__name__", func))):
            return func(*args, **kwargs)

    def _place_factory(self, result: Any, kwargs: Kwargs) -> None:
        """Notes where a new tensor lives: `device="cpu"` or `pin_memory=True` mean the host, else the named device."""
        device = kwargs.get("device")
        pinned = bool(kwargs.get("pin_memory"))
        if pinned or device is not None:
            host = pinned or self.book.placement.means_host(device)
            self.book.placement.mark(result, host=host, pinned=pinned)


def _redirected(kwargs: Kwargs) -> Kwargs:
    """The same arguments for a machine without a device: the tensors stay on the CPU."""
    kwargs = dict(kwargs)
    device = kwargs.get("device")
    if device is not None and not _is_cpu(device):
        kwargs["device"] = "cpu"
    if kwargs.get("pin_memory"):
        del kwargs["pin_memory"]
    return kwargs


def _is_cpu(device: Any) -> bool:
    return not isinstance(device, int) and torch.device(device).type in ("cpu", "meta")


Handler = Callable[[Calls, Any, Args, Kwargs, Kwargs], Any]


def _reading(operation: str) -> Handler:
    """Handles a call that reads the values of its first argument on the host."""

    def handle(calls: Calls, func: Any, args: Args, kwargs: Kwargs, before: Kwargs) -> Any:
        on_device = calls.book.placement.on_device(args[0])
        return calls.wait(operation, func, args, kwargs, waits=on_device and args[0].numel() > 0)

    return handle


def _printed(calls: Calls, func: Any, args: Args, kwargs: Kwargs, before: Kwargs) -> Any:
    """Handles printing: it reads values in many small steps and is recorded once."""
    sight = calls.book.stack.look()
    began = time.perf_counter()
    with calls.book.muted():
        result = func(*args, **kwargs)
    if calls.book.placement.on_device(args[0]):
        calls.book.record("printed or formatted", sight, time.perf_counter() - began)
    return result


def _destination(calls: Calls, args: Args, kwargs: Kwargs) -> bool | None:
    """Whether `to(*args)` asks for a device (True), for the host (False) or for neither (None)."""
    other = kwargs.get("other", args[1] if len(args) > 1 else None)
    if isinstance(other, torch.Tensor):
        return calls.book.placement.on_device(other)
    device = kwargs.get("device", other)
    if device is None or isinstance(device, (bool, torch.dtype)):
        return None
    return not calls.book.placement.means_host(device)


def _to(calls: Calls, func: Any, args: Args, kwargs: Kwargs, before: Kwargs) -> Any:
    placement = calls.book.placement
    if not placement.pretend or args[0].device.type != "cpu":
        return calls.wait(".to()", func, args, kwargs, waits=False)
    target = _destination(calls, args, before)
    if calls._redirect and len(args) > 1 and isinstance(args[1], (str, int, torch.device)) and target:
        args = (args[0], "cpu", *args[2:])
    non_blocking = before.get("non_blocking", next((arg for arg in args[1:] if isinstance(arg, bool)), False))
    return _transfer(calls, ".to()", func, args, kwargs, target, non_blocking)


def _cpu(calls: Calls, func: Any, args: Args, kwargs: Kwargs, before: Kwargs) -> Any:
    return _transfer(calls, ".cpu()", func, args, kwargs, False, False)


def _type_as(calls: Calls, func: Any, args: Args, kwargs: Kwargs, before: Kwargs) -> Any:
    other = args[1] if len(args) > 1 else kwargs["other"]
    return _transfer(calls, ".type_as()", func, args, kwargs, calls.book.placement.on_device(other), False)


def _cuda(calls: Calls, func: Any, args: Args, kwargs: Kwargs, before: Kwargs) -> Any:
    non_blocking = before.get("non_blocking", False)
    if calls._redirect:
        func, args, kwargs = torch.Tensor.cpu, args[:1], {}
    return _transfer(calls, ".cuda()", func, args, kwargs, True, non_blocking)


def _transfer(
    calls: Calls, name: str, func: Any, args: Args, kwargs: Kwargs, target: bool | None, non_blocking: bool
) -> Any:
    """Handles a move between host and a pretended device: the result is a copy in the place that was asked for."""
    placement, source = calls.book.placement, args[0]
    here = placement.on_device(source)
    moves = placement.pretend and source.device.type == "cpu" and target is not None and target != here
    way = "host to device" if target else "device to host"
    result = calls.wait(f"{name}: {way}" if moves else name, func, args, kwargs, waits=moves and not non_blocking)
    if moves:
        result = result.clone() if placement.key(result) == placement.key(source) else result
        placement.mark(result, host=not target, pinned=not target and non_blocking)
    return result


def _built(calls: Calls, func: Any, args: Args, kwargs: Kwargs, before: Kwargs) -> Any:
    """Handles `torch.tensor` and similar calls: host data, copied to the device that the call names."""
    placement, data = calls.book.placement, args[0] if args else kwargs.get("data")
    name = f"torch.{func.__name__}(..., device=...)"
    if isinstance(data, torch.Tensor):
        target = None if before.get("device") is None else not placement.means_host(before["device"])
        return _transfer(calls, name, func, args, kwargs, target, False)
    read = sum(placement.on_device(item) for item in tensors(data)) if isinstance(data, (list, tuple)) else 0
    result = calls.wait("a tensor built from device tensors", func, args, kwargs, waits=read > 0, count=read)
    return _settled(calls, name, result, before.get("device"), bool(before.get("pin_memory")))


def _settled(calls: Calls, name: str, result: torch.Tensor, device: Any, pinned: bool) -> torch.Tensor:
    placement = calls.book.placement
    if placement.pretend and result.device.type == "cpu":
        placement.mark(result, host=pinned or device is None or placement.means_host(device), pinned=pinned)
    if placement.on_device(result):
        calls.book.record(f"{name}: host to device", calls.book.stack.look())
    return result


def _new_tensor(calls: Calls, func: Any, args: Args, kwargs: Kwargs, before: Kwargs) -> Any:
    placement = calls.book.placement
    result = func(*args, **kwargs)
    device = before.get("device")
    if placement.pretend and result.device.type == "cpu":
        host = placement.means_host(device) if device is not None else not placement.on_device(args[0])
        placement.mark(result, host=host)
    if placement.on_device(result):
        calls.book.record(".new_tensor(): host to device", calls.book.stack.look())
    return result


def _assigned(calls: Calls, func: Any, args: Args, kwargs: Kwargs, before: Kwargs) -> Any:
    """Handles `x[mask] = value`. With a number torch makes an untagged fill of it; some devices do not wait for it."""
    target, index = args[:2]
    on_device = calls.book.placement.on_device
    indices = index if isinstance(index, tuple) else (index,)
    masked = on_device(target) and any(reviewed_operators.is_mask(item) and on_device(item) for item in indices)
    value_there = isinstance(args[2], torch.Tensor) and on_device(args[2])
    with calls.book.calling("x[mask] = value" if masked else "x[index] = value"):
        return calls.wait("x[mask] = value" if value_there else MASKED_NUMBER, func, args, kwargs, waits=masked)


def _one_hot(calls: Calls, func: Any, args: Args, kwargs: Kwargs, before: Kwargs) -> Any:
    """Handles `one_hot`: on a CPU it checks its input; on a device it waits only to find the number of classes."""
    sight = calls.book.stack.look()
    with calls.book.muted():
        result = func(*args, **kwargs)
    classes = args[1] if len(args) > 1 else kwargs.get("num_classes", -1)
    if classes == -1 and calls.book.placement.on_device(args[0]):
        calls.book.record("one_hot without num_classes", sight)
    return result


def _pinned(calls: Calls, func: Any, args: Args, kwargs: Kwargs, before: Kwargs) -> Any:
    if not calls._redirect:
        return func(*args, **kwargs)
    result = args[0].clone()
    calls.book.placement.mark(result, host=True, pinned=True)
    return result


def _is_pinned(calls: Calls, func: Any, args: Args, kwargs: Kwargs, before: Kwargs) -> Any:
    return calls.book.placement.pinned(args[0]) if calls._redirect else func(*args, **kwargs)


def _device_read(calls: Calls, func: Any, args: Args, kwargs: Kwargs, before: Kwargs) -> Any:
    device = func(*args, **kwargs)
    placement = calls.book.placement
    hosted = placement.pretend and device.type == "cpu" and not placement.on_device(args[0])
    return placement.device_of_host(device) if hosted else device


def _backward(calls: Calls, func: Any, args: Args, kwargs: Kwargs, before: Kwargs) -> Any:
    """Handles `backward`. CUDA runs it in a thread without the user's frames; its waits are recorded here."""
    stack, home = calls.book.stack, calls.book.stack.home
    sight = stack.look()
    stack.home = (sight.path, sight.line)
    try:
        return calls.wait("backward", func, args, kwargs, waits=False)
    finally:
        stack.home = home


_HANDLERS: dict[Any, Handler] = {
    torch.Tensor.cpu: _cpu,
    torch.Tensor.cuda: _cuda,
    torch.Tensor.to: _to,
    torch.Tensor.type_as: _type_as,
    torch.Tensor.tolist: _reading(".tolist()"),
    torch.Tensor.numpy: _reading(".numpy()"),
    torch.Tensor.__array__: _reading("made a NumPy array"),
    torch.Tensor.__repr__: _printed,
    torch.Tensor.__format__: _printed,
    torch.Tensor.__setitem__: _assigned,
    torch.Tensor.new_tensor: _new_tensor,
    torch.Tensor.pin_memory: _pinned,
    torch.Tensor.is_pinned: _is_pinned,
    torch.Tensor.backward: _backward,
    torch.Tensor.device.__get__: _device_read,
    torch.autograd.backward: _backward,
    torch.autograd.grad: _backward,
    torch.tensor: _built,
    torch.as_tensor: _built,
    torch.asarray: _built,
    torch.nn.functional.one_hot: _one_hot,
}

_LABELS: dict[Any, str] = {
    torch.Tensor.item: ".item()",
    torch.Tensor.__bool__: "bool() or if",
    torch.Tensor.__float__: "float()",
    torch.Tensor.__int__: "int()",
    torch.Tensor.__index__: "used as an index or a size",
    torch.Tensor.__contains__: "in",
    torch.Tensor.__getitem__: "x[...]",
}
