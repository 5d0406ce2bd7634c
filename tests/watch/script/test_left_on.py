"""Tools of torch that a training has left on, as seen after some steps of its optimiser."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from pipebench import watching
from pipebench.render.watch_notes import sentence
from pipebench.results.watched import Note


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
    assert _notes(12, anomaly=True) == []  # seen once


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
