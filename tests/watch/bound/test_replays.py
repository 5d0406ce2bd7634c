"""What a replay has on the device, and what is said of few rounds, by a clock that only moves as planted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from planted_loop import Planted, World, planned_by
from render import made_up

from pipebench.render import layout
from pipebench.render.pictures.bound import pictures
from pipebench.render.watch import bound_parts
from pipebench.render.watch_notes import sentence
from pipebench.results import report
from pipebench.watch.bound.schedule import DEVICE, IDLE, LIVE, Schedule
from pipebench.watch.read.bound import bound_result
from pipebench.watch.record.bound_lines import BoundEnded, BoundWindow


class Lengths(Planted):
    """Batches with a tensor that the script needs on the host."""

    def draw(self) -> Any:
        return {"lengths": torch.arange(4), **super().draw()}


def test_a_replay_from_the_device_has_there_what_the_script_copies_there() -> None:
    """In passes of 13 some live iterations are not counted; their batches are replayed all the same."""
    world = World(Schedule(begin=3, rounds=6, window=5, lead=2, replays=(IDLE, DEVICE)))
    alternation = world.alternation
    alternation.means = replace(alternation.means, device="meta")
    source = Lengths(world, 13)
    seen: dict[str, set[tuple[str, str]]] = {}
    while True:
        alternation.close()
        if alternation.done:
            break
        kind = alternation.schedule.at(alternation.step).kind
        try:
            batch = alternation.next(source, lambda draw: draw())
        except StopIteration:
            alternation.interrupt()
            source = Lengths(world, 13)
            continue
        alternation.transferred(torch.ones(4))  # of no batch
        alternation.transferred(batch["pixels"])
        seen.setdefault(kind, set()).add((batch["lengths"].device.type, batch["pixels"].device.type))
    assert seen == {LIVE: {("cpu", "cpu")}, IDLE: {("cpu", "cpu")}, DEVICE: {("cpu", "meta")}}
    found = bound_result([planned_by(alternation.schedule), *world.lines, BoundEnded(None)])
    (note,) = (one for one in found.notes if "host" in one.code)  # four integers of 8 bytes, beside eight pixels of 4
    assert (note.code, note.values) == ("bound-partly-on-host", {"share": 0.5})
    assert sentence(note) == (
        "In the windows from the device's memory, 50 % of a batch's bytes stayed on the host: the script does not copy "
        "these tensors to the device as they came. If it copies them in another form, as `x.float().cuda()` and "
        "`x.pin_memory().cuda()` do, the gain may be larger than shown."
    )


def test_a_tensor_that_is_changed_before_it_is_copied_stays_on_the_host() -> None:
    world = World(Schedule(begin=3, rounds=6, window=5, lead=2, replays=(IDLE, DEVICE)))
    world.alternation.means = replace(world.alternation.means, device="meta")
    source = Lengths(world)
    while not world.alternation.done:
        batch = world.alternation.next(source, lambda draw: draw())
        world.alternation.transferred(batch["lengths"].float())
        world.alternation.transferred(batch["pixels"].float())  # it is of that type already, so it is the same
        world.alternation.close()
    windows = [one for one in world.lines if isinstance(one, BoundWindow) and one.kind == DEVICE]
    assert {(one.stayed_on_host, one.on_host) for one in windows} == {(False, 0.5)}


def test_lengths_and_labels_that_stay_on_the_host_are_no_matter() -> None:
    lines = [BoundWindow(turn, DEVICE, 1.0, 4, 4, on_host=0.004) for turn in range(3)]
    plan = planned_by(Schedule(begin=3, rounds=3, window=4, lead=2, replays=(IDLE, DEVICE)))
    codes = [one.code for one in bound_result([plan, *lines, BoundEnded(None)]).notes]
    assert "bound-partly-on-host" not in codes


def test_without_a_tensor_that_is_copied_as_it_is_nothing_is_called_a_replay_from_the_device() -> None:
    world = World(Schedule(begin=3, rounds=6, window=5, lead=2, replays=(IDLE, DEVICE)))
    world.run()
    found = bound_result([planned_by(world.alternation.schedule), *world.lines, BoundEnded(None)])
    assert found.bound_over_live is not None and found.device_over_live is None
    assert [one.code for one in found.notes] == ["bound-stayed-on-host"]
    assert sentence(found.notes[0]).startswith("In some windows nothing was replayed from the device's memory")


@pytest.mark.parametrize(("rounds", "said"), [(1, "1 round is"), (2, "2 rounds are")])
def test_of_too_few_rounds_there_is_no_gain_and_no_interval(rounds: int, said: str) -> None:
    world = World(Schedule(begin=3, rounds=rounds, window=5, lead=2, replays=(IDLE,)))
    world.run()
    found = bound_result([planned_by(world.alternation.schedule), *world.lines, BoundEnded(None)])
    text = layout.text(bound_parts(found, full=False))
    assert " ".join(text.split()).startswith(
        f"{said} too few to say what training would gain without any data work. Train for longer (--steps)."
    )
    assert "at most" not in text and "(4.00" not in text and text.rstrip().endswith("4.00×")
    (picture,) = pictures(report.new(watched=replace(made_up.watched(), bound=found)))
    assert picture.alt.endswith("with its batches ready 4. There are too few windows to say what it would gain.")
