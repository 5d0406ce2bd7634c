"""The reviewed list: which torch operators make the host wait for a device, and when.

Torch's tags `data_dependent_output` and `dynamic_output_shape` name most of them. This file adds operators without a
tag and handles those that wait only with some arguments. Each entry was read in torch's source (the docs page on sync
points says where). Nothing here imports torch: a call arrives as an `OperatorCall`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

HOST_VALUE = "value copied from the host"
TAGS = ("data_dependent_output", "dynamic_output_shape")


@dataclass(frozen=True)
class OperatorCall:
    """One call of an operator below autograd: its name without the overload, its arguments, and where tensors live."""

    name: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    on_device: Callable[[Any], bool]
    pinned: Callable[[Any], bool]

    def argument(self, position: int, name: str, default: Any = None) -> Any:
        return self.args[position] if len(self.args) > position else self.kwargs.get(name, default)


Finding = str | None
"""What the host waits for, in a few words; None where it does not wait."""


def finding(call: OperatorCall, tags: Sequence[str]) -> Finding:
    """Why this operator makes the host wait, or None: by the reviewed list, else by torch's tags."""
    review = REVIEWED.get(call.name)
    if review is not None:
        return review(call)
    return "its result depends on values" if any(tag in TAGS for tag in tags) else None


def is_mask(index: Any) -> bool:
    """True for a boolean index tensor of at least one dimension (uint8 counts as boolean, as in torch)."""
    return str(getattr(index, "dtype", "")) in ("torch.bool", "torch.uint8") and getattr(index, "ndim", 0) > 0


def _always(reason: str) -> Callable[[OperatorCall], Finding]:
    return lambda call: reason


def _never(call: OperatorCall) -> Finding:
    return None


def _indices(call: OperatorCall, target: Any, indices: Sequence[Any]) -> Finding:
    """Indexing: a mask needs `nonzero`, integers on the host are copied, integers on the device cost nothing."""
    if not call.on_device(target):
        return None
    for index in indices:
        if index is None:
            continue
        if is_mask(index) and call.on_device(index):
            return "boolean mask"
        if not is_mask(index) and not call.on_device(index):
            return "index copied from the host"
    return None


def _index(call: OperatorCall) -> Finding:
    return _indices(call, call.args[0], call.args[1])


def _index_put(call: OperatorCall) -> Finding:
    target, indices, value = call.args[:3]
    if not call.on_device(value) and getattr(value, "numel", lambda: 0)() == 1:
        # A single mask with a host value becomes masked_fill_, which reads the value on the host.
        masks = [index for index in indices if index is not None]
        if len(masks) == 1 and is_mask(masks[0]) and call.on_device(target):
            return None
        return _indices(call, target, indices) or HOST_VALUE if call.on_device(target) else None
    return _indices(call, target, indices)


def _copy(call: OperatorCall) -> Finding:
    """Copies: a blocking copy waits in both directions; a non-blocking one waits only if its target is not pinned."""
    target, source = call.args[:2]
    to_device, from_device = call.on_device(target), call.on_device(source)
    if to_device == from_device:
        return None
    blocking = not call.argument(2, "non_blocking", False)
    if to_device:
        return "host to device" if blocking else None
    return "device to host" if blocking or not call.pinned(target) else None


def _value_on_device(position: int) -> Callable[[OperatorCall], Finding]:
    def review(call: OperatorCall) -> Finding:
        value = call.argument(position, "value")
        return "reads the value on the host" if hasattr(value, "dtype") and call.on_device(value) else None

    return review


def _index_fill(call: OperatorCall) -> Finding:
    """Without a device `x[[0, 1]] = number` arrives here too; on a device its index would be copied first."""
    if call.on_device(call.args[0]) and not call.on_device(call.argument(2, "index")):
        return "index copied from the host"
    return _value_on_device(3)(call)


def _repeat_interleave(call: OperatorCall) -> Finding:
    return None if call.kwargs.get("output_size") is not None else "without output_size"


def _histc(call: OperatorCall) -> Finding:
    low, high = call.argument(2, "min", 0), call.argument(3, "max", 0)
    return "looks for the range, as min and max are equal" if low == high else None


def _normal(call: OperatorCall) -> Finding:
    spread = call.argument(1, "std")
    return "checks that the deviations are positive" if hasattr(spread, "dtype") else None


REVIEWED: Mapping[str, Callable[[OperatorCall], Finding]] = {
    "aten::index": _index,
    "aten::_unsafe_index": _index,
    "aten::index_put": _index_put,
    "aten::index_put_": _index_put,
    "aten::_index_put_impl_": _index_put,
    "aten::_unsafe_index_put": _index_put,
    "aten::copy_": _copy,
    "aten::masked_fill": _value_on_device(2),
    "aten::masked_fill_": _value_on_device(2),
    "aten::index_fill": _index_fill,
    "aten::index_fill_": _index_fill,
    "aten::repeat_interleave": _repeat_interleave,
    "aten::histc": _histc,
    "aten::normal": _normal,
    "aten::_linalg_check_errors": _always("checks for errors"),
    "aten::_to_sparse": _always("counts what is not zero"),
    "aten::_coalesce": _always("counts what is not zero"),
    "torchvision::nms": _always("counts what is kept"),
    "aten::_assert_async": _never,
    "aten::nonzero_static": _never,
}
