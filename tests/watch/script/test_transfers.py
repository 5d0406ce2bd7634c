"""Transfers are timed, but tensors and torch see torch's own `Tensor.to` and `Tensor.cuda`. There is no GPU here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch
from clockwork import Clock, loop_by
from torch.overrides import TorchFunctionMode
from torch.utils.data import DataLoader
from watching import plain, script, watched

from pipebench import span, watching
from pipebench.watch.script.transfers import _OnTensors

CLOCK = Clock()
METHODS = {torch.Tensor.to: "to", torch.Tensor.cuda: "cuda"}


@pytest.fixture(autouse=True)
def cuda_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """What watches takes CUDA for initialised. No device trains, so it makes no events."""
    loop_by(CLOCK, monkeypatch)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)


def _iterations() -> Iterator[Any]:
    yield from DataLoader(torch.arange(6.0), 2)  # type: ignore[arg-type]


def _watched(look: Callable[[], Any]) -> Any:
    """What `look` finds in the iterations of a watched loop."""
    with watching():
        found = [look() for _ in _iterations()]
    assert found[0] == found[1] == found[2]
    return found[0]


class Own(torch.Tensor):
    """Notes what torch calls for it, and how its table and torch's names know that."""

    seen: ClassVar[list[Any]] = []

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.seen.append((METHODS.get(func), func is torch.Tensor.to, func is torch.Tensor.cuda, type(func).__name__))
        if func is torch.Tensor.cuda:
            return args[0]
        return super().__torch_function__(func, types, args, kwargs or {})


def _seen_by_a_subclass() -> list[Any]:
    own = torch.zeros(2).as_subclass(Own)
    Own.seen.clear()
    own.to(torch.float64)
    own.to("cpu")
    own.cuda()
    torch.zeros(2).to(own)
    torch.Tensor.to(own, torch.float64)
    return list(Own.seen)


def test_a_subclass_is_called_with_torch_s_own_methods():
    alone = _seen_by_a_subclass()
    assert [one[0] for one in alone] == ["to", "to", "cuda", "to", "to"]
    assert _watched(_seen_by_a_subclass) == alone


def _types_of_boxes() -> list[str]:
    tv_tensors = pytest.importorskip("torchvision.tv_tensors")
    boxes = tv_tensors.BoundingBoxes([[0, 0, 4, 4]], format="XYXY", canvas_size=(8, 8))
    return [type(one).__name__ for one in (boxes.to(torch.float32), boxes.to("cpu"), boxes.to(boxes), boxes + 1)]


def test_boxes_of_torchvision_stay_boxes():
    alone = _types_of_boxes()
    assert alone == ["BoundingBoxes", "BoundingBoxes", "BoundingBoxes", "Tensor"]
    assert _watched(_types_of_boxes) == alone


class Noting(TorchFunctionMode):
    """Notes what torch calls. A copy to a device takes 3 µs, and gives the tensor itself."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = (*args[1:], *(kwargs or {}).values())
        self.seen.append((getattr(func, "__name__", "?"), METHODS.get(func)))
        if func is torch.Tensor.cuda or (func is torch.Tensor.to and "cuda" in map(str, given)):
            CLOCK.burn(3_000)
            return args[0]
        return func(*args, **(kwargs or {}))


def _seen_by_a_mode() -> list[Any]:
    with Noting() as mode:
        one = torch.ones(2)
        one.to("cuda")
        one.to(torch.float64)
        one.to(one)
        one.cuda()
    return mode.seen


def test_a_mode_is_called_with_torch_s_own_methods_and_for_nothing_of_ours():
    alone = _seen_by_a_mode()
    assert [one[1] for one in alone] == [None, "to", "to", "to", "cuda"]
    assert _watched(_seen_by_a_mode) == alone


@pytest.mark.parametrize(
    "copy",
    [
        lambda one: one.to("cuda"),
        lambda one: one.to("cuda", torch.float16),
        lambda one: one.to(torch.device("cuda")),
        lambda one: one.to(device="cuda"),
        lambda one: one.cuda(),
        lambda one: one.as_subclass(Own).cuda(),
        lambda one: torch.nn.Parameter(one).to("cuda"),
    ],
)
def test_a_copy_to_the_device_is_a_transfer(copy):
    with watching() as seen:
        for numbers in _iterations():
            with Noting():
                copy(numbers)
            CLOCK.burn(10)
    assert _phases(seen.result) == {"host-to-device": 2 * 3_000, "other": 2 * 10}


def _phases(result: Any) -> dict[str, int]:
    """Nanoseconds of each phase in the last two of three iterations."""
    return {one.phase: round(one.s_per_iteration * 2e9) for one in result.loop if one.s_per_iteration}


def _onto_the_device(samples: list[Any]) -> Any:
    CLOCK.burn(40)
    with Noting():
        return torch.stack(samples).cuda()


@pytest.mark.parametrize("working", [True, False])
def test_who_asks_hears_of_each_tensor_that_is_copied_to_the_device_and_of_nothing_else(working):
    heard: list[torch.Tensor] = []
    loop = SimpleNamespace(
        here=SimpleNamespace(working=lambda: working), on_transfer=heard.append, defer=lambda: None,
        spend_only=lambda phase: None,
    )  # fmt: skip

    def to(self: Any, *args: Any) -> Any:
        return self

    one, other = torch.ones(2), torch.ones(2)
    ours: Any = _OnTensors(loop, to)  # type: ignore[arg-type]  # a stand-in of what it uses
    ours.__get__(one)("cuda")
    ours.__get__(other)(torch.float64)
    assert [found is one for found in heard] == [True]


def test_a_copy_inside_next_is_a_part_of_the_wait():
    with watching() as seen:
        for _ in DataLoader(torch.arange(6.0), 2, collate_fn=_onto_the_device):  # type: ignore[arg-type]
            CLOCK.burn(10)
    assert _phases(seen.result) == {"wait": 2 * 3_040, "other": 2 * 10}
    assert [(one.part, round(one.share, 6)) for one in seen.result.wait_parts] == [("make-batch", 1.0)]


def test_a_copy_inside_a_span_leaves_the_rest_to_the_span():
    with watching() as seen:
        for numbers in _iterations():
            with span("prepare"), Noting():
                CLOCK.burn(10)
                numbers.cuda()
                CLOCK.burn(20)
    assert _phases(seen.result) == {"host-to-device": 2 * 3_000, "spans": 2 * 30}


def test_what_torch_says_of_its_methods_is_the_same():
    def said() -> list[Any]:
        torch.overrides._get_overridable_functions.cache_clear()
        torch.overrides._get_tensor_methods.cache_clear()
        found = torch.overrides.get_overridable_functions()[torch.Tensor]
        return [
            [one in found for one in METHODS],
            [torch.overrides.is_tensor_method_or_property(getattr(torch.Tensor, name)) for name in METHODS.values()],
            [torch.overrides.resolve_name(one) for one in METHODS],
            [getattr(torch.Tensor, name) is one and getattr(Own, name) is one for one, name in METHODS.items()],
            [torch.zeros(1).to.__name__, torch.zeros(1).to.__doc__ == torch.Tensor.to.__doc__, "to" in dir(Own)],
            len(found),
        ]

    alone = said()
    assert alone[:2] == [[True, True]] * 2
    assert _watched(said) == alone


class Kept(torch.Tensor):
    """Its `__torch_function__` is torch's."""


class Never(torch.Tensor):
    """It has no `__torch_function__`."""

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]


class Added(torch.Tensor):
    """Adds one to what `to` gives, which it knows by its table."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = super().__torch_function__(func, types, args, kwargs or {})
        return found + 1 if func in METHODS and func is torch.Tensor.to else found


@pytest.mark.parametrize("kind", [torch.Tensor, Never, Kept, Added])
def test_compiled_code_is_the_same_and_is_compiled_once(kind):
    compiled: list[list[str]] = []

    def backend(graph: Any, inputs: Any) -> Any:
        compiled.append([str(node.target) for node in graph.graph.nodes])
        return graph.forward

    def half(one: Any) -> Any:
        return one.to(torch.float64) * 2

    def results() -> list[Any]:
        torch._dynamo.reset()
        compiled.clear()
        run = torch.compile(half, backend=backend, fullgraph=True)
        found = [run(torch.ones(2).as_subclass(kind)) for _ in range(3)]
        return [[type(one) for one in found], [one.tolist() for one in found], list(compiled)]

    try:
        alone = results()
    except torch._dynamo.exc.Unsupported:
        pytest.skip("this torch compiles no such class, also plainly")
    assert len(alone[-1]) == 1
    assert _watched(results) == alone


def test_after_compiling_transfers_are_timed_again():
    with watching() as seen:
        for numbers in _iterations():
            torch.compile(lambda one: one * 2, backend=lambda graph, inputs: graph.forward)(numbers)
            with Noting():
                numbers.cuda()
    assert [one.phase for one in seen.result.loop if one.s_per_iteration] == ["host-to-device"]
    assert "to" not in vars(torch.Tensor) and "install_callbacks" not in vars(torch._dynamo.callback_handler)


def test_another_tensor_as_target_is_not_printed(monkeypatch):
    def refuse(self: Any, **how: Any) -> str:
        raise AssertionError("printed")

    monkeypatch.setattr(torch.Tensor, "__repr__", refuse)
    monkeypatch.setattr(torch.Tensor, "__format__", refuse)
    other = torch.ones(2, dtype=torch.float64)
    assert _watched(lambda: torch.ones(1).to(other).dtype) == torch.float64
    assert _watched(lambda: torch.ones(1).to(tensor=other).dtype) == torch.float64


@pytest.mark.slow
@pytest.mark.usefixtures("real_starts")
def test_a_compiler_that_is_first_needed_in_a_loop_finds_torch_s_own_methods(tmp_path):
    alone, with_us = plain([script("compiling")]), watched([script("compiling")], tmp_path)
    if "torch._dynamo.exc.Unsupported" in alone.err:
        pytest.skip("this torch compiles no such class, also plainly")
    assert alone.out.splitlines()[0] == "False" and len(alone.out.splitlines()) == 1 + 2 * 3
    assert (with_us.status, with_us.out) == (alone.status, alone.out)
    assert {one["code"] for one in with_us.watch["notes"]} <= {"compiled-once"}
