"""Tools of torch that a training has left on, as seen after some steps of its optimiser."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from pipebench import watching
from pipebench.render.watch_notes import sentence
from pipebench.results.watched import Note
from pipebench.watch.script import left_on

tells_types = pytest.mark.skipif(
    not hasattr(torch.ones(1, requires_grad=True).sum().grad_fn, "_input_metadata"),
    reason="this torch does not tell in which type an operation of a graph was computed",
)


def _in_half(monkeypatch: pytest.MonkeyPatch, computes: bool, dtype: torch.dtype) -> list[Any]:
    """A training in such an autocast, on a CPU that computes float16 by itself or not."""
    monkeypatch.setattr(left_on, "computes_half", lambda: computes)
    model = torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(4)])
    optimiser = torch.optim.SGD(model.parameters(), 0.0)
    with watching() as seen:
        for batch in DataLoader(torch.zeros(12, 8)):  # type: ignore[arg-type]
            with torch.autocast("cpu", dtype):
                loss = model(batch).sum()
            loss.backward()
            optimiser.step()
    causes = seen.result.account.causes if seen.result.account is not None else ()
    said = [one.values for one in causes if one.code == "left-on"]
    return [*said, *(note.values for note in seen.result.notes if note.code == "tools-left-on")]


@tells_types
@pytest.mark.parametrize(
    ("computes", "dtype", "told"),
    [(False, torch.float16, True), (True, torch.float16, False), (False, torch.bfloat16, False)],
)
def test_float16_on_a_cpu_without_instructions_for_it(monkeypatch, computes, dtype, told) -> None:  # type: ignore[no-untyped-def]
    found = _in_half(monkeypatch, computes, dtype)
    assert [one["tools"] for one in found] == ["float16"] * told


@tells_types
def test_a_model_in_float64() -> None:
    model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(4)]).double()
    optimiser = torch.optim.SGD(model.parameters(), 0.0)
    with watching() as seen:
        for batch in DataLoader(torch.zeros(96, 256, dtype=torch.float64), 8):  # type: ignore[arg-type]
            model(batch).sum().backward()
            optimiser.step()
    assert seen.result.account is not None
    assert [one.code for one in seen.result.account.causes if one.code in ("float64", "left-on")] == ["float64"]
    assert not [one for one in seen.result.notes if one.code == "tools-left-on"]


@pytest.mark.parametrize(("flags", "computes"), [("fpu sse2 avx512_fp16", True), ("fpu sse2 avx512f", False)])
def test_what_a_cpu_computes_is_in_its_flags(tmp_path: Path, flags: str, computes: bool) -> None:
    (tmp_path / "cpuinfo").write_text(f"processor: 0\nflags: {flags}\n")
    assert left_on.computes_half(tmp_path / "cpuinfo") is computes
    assert left_on.computes_half(tmp_path / "none")  # not known


def _notes(steps: int, anomaly: bool = False, until: int = 0) -> list[Any]:
    """A training of so many steps, with a profiler up to step `until`."""
    weight = torch.nn.Parameter(torch.ones(1))
    optimiser = torch.optim.SGD([weight], 0.0)
    profiler = torch.autograd.profiler.profile() if until else nullcontext()
    with watching() as seen, torch.autograd.set_detect_anomaly(anomaly):
        profiler.__enter__()
        for nth, batch in enumerate(DataLoader(torch.zeros(steps))):  # type: ignore[arg-type]
            (weight * batch).sum().backward()
            optimiser.step()
            if nth + 1 == until:
                profiler.__exit__(None, None, None)
    causes = seen.result.account.causes if seen.result.account is not None else ()
    told = [Note("tools-left-on", one.values) for one in causes if one.code == "left-on"]  # where training is large
    return [*told, *(note for note in seen.result.notes if note.code == "tools-left-on")]


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_anomaly_detection_is_said_with_the_remedy() -> None:
    (note,) = _notes(25, anomaly=True)
    assert sentence(note) == (
        "Anomaly detection of torch.autograd was on: it makes each step slower, and these figures hold only with it. "
        "Switch it off for training."
    )
    assert _notes(7, anomaly=True) == []  # seen once


@pytest.mark.parametrize(("steps", "until", "told"), [(25, 25, True), (70, 70, True), (70, 30, False), (25, 12, False)])
def test_a_profiler_counts_if_it_is_on_at_each_look(steps: int, until: int, told: bool) -> None:
    notes = _notes(steps, until=until)
    assert bool(notes) is told
    if told:
        assert sentence(notes[0]).startswith("A profiler of torch was on: it makes")


def test_without_tools_nothing_is_said() -> None:
    assert _notes(70) == []


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_both_are_named() -> None:
    (note,) = _notes(25, anomaly=True, until=25)
    assert "of torch.autograd and a profiler of torch were on: they make" in sentence(note)


def test_a_tool_that_nobody_knows_has_its_own_name() -> None:
    said = sentence(Note("tools-left-on", {"tools": "profiler \u202e"}))
    assert said.startswith("A profiler of torch and ") and "\u202e" not in said
