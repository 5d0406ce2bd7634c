"""Work in the loop that may be a wait for a device: it is even and needs no core. The figures are exact."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from planted_runs import TRAINS, Planted, said

from pipebench.watch.read import loop_causes
from pipebench.watch.read.gather import Process, Run, ShownTime
from pipebench.watch.read.like_a_device import like_a_device
from pipebench.watch.record.device_lines import DeviceIdleTime
from pipebench.watch.record.lines import Line, LoopSums, ProcessStarted

MS = 1_000_000
CHANCE = random.Random(7)


def _run(other_ms: Callable[[int], float], cpu_ms: float = 2, turns: int = 20, idle: bool = False) -> Run:
    """Iterations with 5 ms of training, and so much besides."""
    lines: list[Line] = [ProcessStarted(1, "script", 0)]
    for one in range(turns):
        phases = [0, 0, 2 * MS, 2 * MS, MS, round(other_ms(one) * MS), 0]
        device = DeviceIdleTime(MS, 1) if idle else None
        lines.append(LoopSums(1, 0, one, 0, 1, 1, phases, process_cpu_ns=round(one * cpu_ms * MS), idle=device))
    return Run([Process(lines)], ShownTime(), (1,))


@pytest.mark.parametrize(
    ("other_ms", "cpu_ms", "found"),
    [
        (lambda one: 48.0, 2, True),
        (lambda one: 48.0 + one % 3, 2, True),
        (lambda one: 48.0, 40, False),  # it may need a core
        (lambda one: 400.0 if one % 5 == 0 else 0.1, 2, False),  # a checkpoint now and then
        (lambda one: CHANCE.uniform(20, 80), 2, False),  # a server that answers
        (lambda one: 0.0, 2, False),
    ],
)
def test_even_work_without_a_core(other_ms: Callable[[int], float], cpu_ms: float, found: bool) -> None:
    assert like_a_device(_run(other_ms, cpu_ms), 1) == found
    assert not like_a_device(_run(other_ms, cpu_ms, turns=6), 1)  # too few to say


def test_with_cuda_the_hosts_clock_tells_nothing() -> None:
    assert like_a_device(_run(lambda one: CHANCE.uniform(20, 80), 40, idle=True), 1)


def test_it_stands_behind_other_causes_and_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Planted()
    run.loader(**TRAINS, other=900, sampler=300)
    assert [one.code for one in run.account().causes] == ["callbacks", "sampler"]
    monkeypatch.setattr(loop_causes, "like_a_device", lambda run, loader: True)
    again = Planted()
    again.loader(**TRAINS, other=900, sampler=300)
    account = again.account()
    assert [(one.code, one.unsure) for one in account.causes] == [("sampler", False), ("callbacks", True)]
    text = " ".join(said(account).split())
    assert "it may be a wait for a device. Doing it less often, or at less cost, could save about" in text


def test_on_a_device_whose_clock_does_not_tell_it_nothing_is_promised_of_it() -> None:
    run = Planted()
    run.loader(**TRAINS, other=900, wait_for_worker=100, idle=0)
    account = run.account()
    assert [one.recoverable_s for one in account.rows if one.code == "other"] == [None]
    (found,) = (one for one in account.causes if one.code == "callbacks")
    assert found.recoverable_s is None and found.unsure
