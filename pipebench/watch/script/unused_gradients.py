"""Finds parameters that get gradients that nobody uses, by looks at the graph of some backwards.

Those of a pretrained encoder are such ones, if the optimiser holds only the head: each backward runs through it all the
same. The graph is walked before the backward, in the loop's own thread, in ever fewer iterations. Nobody uses the
gradient of a parameter

- that no optimiser holds, of those that were made in this process, or stepped. One that was held once stays so;
- if no operation that takes it needs gradients of its other inputs too, as below a prompt that is trained, or an image
  that is changed (saliency, adversarial training);
- if it has no hooks, and nobody writes to the gradient between a backward and the next one.

Whoever steps by other means is told by the weights, which must stay as they are: see `frozen_modules`. Nothing is told
where a backward reaches no parameter of an optimiser that stepped (it may hold flattened ones, or copies, in their
place), where an iteration has several backwards, and where a graph is too large to walk.
"""

from __future__ import annotations

import contextlib
import sys
import weakref
from collections.abc import Iterable, Iterator
from time import perf_counter_ns
from typing import Any, NamedTuple, TypeAlias

from pipebench.watch.record.from_handlers import forgiving
from pipebench.watch.record.program_lines import LastLayerWork
from pipebench.watch.script.head_work import last_layer

FEWEST = 8  # backwards from the first one whose graph told something to the last
_MOST_NODES = 20_000  # of a graph: about 2 µs each
_MOST_OPTIMISERS = 100  # a loop may make one in each iteration
_PAUSE = 200  # times as long as a walk took, until the next one: at most half a percent
_UNKNOWN = 4  # backwards after which none has told anything
_LEAF = "AccumulateGrad"
_LOOKED_UP = ("EmbeddingBackward", "EmbeddingBagBackward")  # what they give is no form of the weight
_ById: TypeAlias = "weakref.WeakValueDictionary[int, Any]"
_Key: TypeAlias = tuple[int, tuple[int, ...]]
"""A parameter by its identity and shape. A weak reference to it would let `torch.utils.swap_tensors` fail, which torch
calls where a model is converted."""


def plain_tensors() -> contextlib.AbstractContextManager[object]:
    """No `__torch_function__` of the script hears of what is asked of tensors."""
    found: contextlib.AbstractContextManager[object] = sys.modules["torch"]._C.DisableTorchFunction()
    return found


class _Backwards:
    """Those of one loop: how many there were, and which ones told something."""

    def __init__(self) -> None:
        self.number = self.first = self.last = 0
        self.due = 2  # before the first one, no optimiser has stepped
        self.turn: object = None
        self.unclear = False


class _Gradient(NamedTuple):
    """The gradient of a parameter after a backward, by its identity. The parameter is held until the next backward."""

    parameter: Any
    gradient: int
    version: int


class UnusedGradients:
    """What is known of the parameters of one process. `walks_now` is called at each backward.

    If that says so, `walk` is called before it, and `after` after it. `walks` says that this is done at all.
    """

    def __init__(self) -> None:
        self.walks = False
        self._made: _ById = weakref.WeakValueDictionary()
        self._stepped: _ById = weakref.WeakValueDictionary()
        self._optimisers = 0
        self._used: set[_Key] = set()
        self._unused: set[_Key] = set()
        self._of: dict[int, _Backwards] = {}
        self._walked: list[Any] = []  # the unused ones of the last graph, until its backward is over
        self._kept: list[_Gradient] = []  # from the end of a backward to the begin of the next one
        self._not_before = self._backwards = 0
        self._told = False  # whether any graph told something
        self.last_layer: LastLayerWork | None = None  # of the last graph
        self.computed_in = ""  # most of the last graph: float16 on a CPU, or float64

    @property
    def some(self) -> bool:
        """Whether there are any, as far as was seen."""
        return bool(self._unused)

    @property
    def possible(self) -> bool:
        """Whether there are some, or nothing is known yet: a slow loop has many looks in its first iterations."""
        return self.some or (self.walks and not self._told and self._backwards <= _UNKNOWN)

    def made(self, optimiser: Any) -> None:
        """Notes a new optimiser. It counts with all that it holds whenever a graph is walked."""
        self._optimisers += 1
        self._made[id(optimiser)] = optimiser

    def stepped(self, optimiser: Any) -> None:
        if self._stepped.get(id(optimiser)) is not optimiser:
            self._optimisers += self._made.get(id(optimiser)) is not optimiser
            self._stepped[id(optimiser)] = optimiser

    def walks_now(self, loader: int, turn: object, *, plain: bool) -> bool:
        """Notes that a backward begins in this turn of a loop. True: it is one whose graph is to be walked.

        It is `plain` if it is of all leaves, and not inside another one.
        """
        if self._kept:
            with forgiving():  # a gradient may be of any kind
                self._compare()
        own = self._of.get(loader)
        if own is None:
            own = self._of[loader] = _Backwards()
        own.number += 1
        self._backwards += 1
        if own.turn == turn or not plain:
            own.unclear = True
        own.turn = turn
        if own.unclear or own.number < own.due or self._optimisers > _MOST_OPTIMISERS:
            return False
        return perf_counter_ns() >= self._not_before

    def walk(self, loader: int, tensors: Any) -> None:
        """Walks the graph of a backward of these tensors."""
        own, began = self._of[loader], perf_counter_ns()
        self._walked = []
        own.due = own.number + 1 + own.number // 2
        with plain_tensors():
            self._walk(own, tensors)
        ended = perf_counter_ns()
        self._not_before = ended + _PAUSE * (ended - began)

    def after(self) -> None:
        """Notes that a backward whose graph was walked is over."""
        with plain_tensors():
            walked, self._walked = self._walked, []
            for one in walked:
                if (gradient := one.grad) is None:  # whoever took it uses it
                    self._uses(one)
                else:
                    self._kept.append(_Gradient(one, id(gradient), _version(gradient)))

    def unused(self, loader: int, parameters: Iterable[Any]) -> bool:
        """Whether the backwards of a loop give gradients to some of these, and nobody uses those of any."""
        own = self._of.get(loader)
        if own is None or own.unclear or own.last - own.first < FEWEST or self._optimisers > _MOST_OPTIMISERS:
            return False
        held, found = self._held(), False
        for one in parameters:
            if _key(one) in self._used or id(one) in held:
                return False
            found |= _key(one) in self._unused
        return found

    def _walk(self, own: _Backwards, tensors: Any) -> None:
        kind = sys.modules["torch"].Tensor
        roots = [tensors] if isinstance(tensors, kind) else tensors
        known = type(roots) in (list, tuple) and all(isinstance(one, kind) for one in roots)
        order = _children_first(one.grad_fn for one in roots if one.grad_fn is not None) if known else None
        if order is None:
            own.unclear = True
            return
        self.computed_in, self.last_layer = _computed_in(order), last_layer(order)
        leaves = {node: node.variable for node in order if type(node).__name__ == _LEAF}
        stepped = _parameters(self._stepped)
        if not any(id(one) in stepped for one in leaves.values()):
            return
        self._told = True
        own.first, own.last = own.first or own.number, own.number
        held = self._held()
        free = {node for node, one in leaves.items() if id(one) not in held and self._is_free(one)}
        free -= _with_other_inputs(order, free)
        for node, one in leaves.items():
            if node in free:
                self._unused.add(_key(one))
                self._walked.append(one)
            else:
                self._uses(one)

    def _is_free(self, leaf: Any) -> bool:
        """Whether it is a parameter without hooks that nobody was seen to use."""
        hooks = leaf._backward_hooks or getattr(leaf, "_post_accumulate_grad_hooks", None)
        return isinstance(leaf, sys.modules["torch"].nn.Parameter) and not hooks and _key(leaf) not in self._used

    def _held(self) -> set[int]:
        return _parameters(self._made) | _parameters(self._stepped)

    def _uses(self, one: Any) -> None:
        self._used.add(_key(one))
        self._unused.discard(_key(one))

    def _compare(self) -> None:
        """What was written to a gradient since the last backward was for somebody.

        So is a gradient on a device that was cleared: no weights are read there, but what only adds up from the begin
        of the run is of no use.
        """
        kept, self._kept = self._kept, []
        with plain_tensors():
            for one, was, version in kept:
                gradient = one.grad
                written = gradient is not None and (id(gradient), _version(gradient)) != (was, version)
                if written or (gradient is None and one.device.type != "cpu"):
                    self._uses(one)


def _computed_in(nodes: Iterable[Any]) -> str:
    """The type of most results of these operations, as far as torch says it: float64, or float16 on a CPU; else ""."""
    torch: Any = sys.modules["torch"]
    told = [found[0] for one in nodes if (found := getattr(one, "_input_metadata", None))]
    halves = sum(one.dtype is torch.float16 and one.device.type == "cpu" for one in told)
    doubles = sum(one.dtype is torch.float64 for one in told)
    return next((name for name, of in (("float16", halves), ("float64", doubles)) if 2 * of > len(told)), "")


def _key(one: Any) -> _Key:
    return id(one), tuple(one.shape)


def _version(tensor: Any) -> int:
    return -1 if tensor.is_inference() else int(tensor._version)


def _parameters(optimisers: _ById) -> set[int]:
    groups = [group for one in list(optimisers.values()) for group in getattr(one, "param_groups", ())]
    return {id(one) for group in groups for one in group["params"]}


def _children_first(roots: Iterable[Any]) -> list[Any] | None:
    """The nodes of a graph, each after all that it depends on; None if they are too many."""
    order: list[Any] = []
    seen: set[Any] = set()
    stack = [(one, False) for one in roots]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            if len(seen) > _MOST_NODES:
                return None
            stack.append((node, True))
            stack += [(child, False) for child in _children(node)]
    return order


def _children(node: Any) -> Iterator[Any]:
    return (child for child, _ in node.next_functions if child is not None)


def _with_other_inputs(order: Iterable[Any], free: set[Any]) -> set[Any]:
    """The leaves among `free` that an operation takes beside inputs of which a gradient is needed.

    What is made of one leaf alone is taken for a form of this weight (transposed, in half precision).
    """
    needed: dict[Any, bool] = {}
    form: dict[Any, Any] = {}  # the leaf of which a node is a form
    found: set[Any] = set()
    for node in order:
        children = [*_children(node)]
        needed[node] = any(needed[one] for one in children) if children else node not in free
        forms = {form[one] for one in children}
        if needed[node]:
            found |= forms
        if not children and node in free:
            form[node] = node
        elif len(forms) == 1 and not needed[node] and not type(node).__name__.startswith(_LOOKED_UP):
            form[node] = forms.pop()
        else:
            form[node] = None
    return found - {None}
