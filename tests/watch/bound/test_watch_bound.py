"""The bound, by a clock that only moves as planted: which iteration is what, what is replayed, what is counted."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from planted_loop import LIVE_S, STEP_S, Planted, World, planned_by

from pipebench.render import layout
from pipebench.render.watch import bound_parts
from pipebench.render.watch_notes import sentence
from pipebench.results.watched import Note
from pipebench.watch.bound import session
from pipebench.watch.bound.alternation import Refused
from pipebench.watch.bound.schedule import BUSY, DEVICE, IDLE, LARGEST_WINDOW, LIVE, Schedule, planned
from pipebench.watch.bound.session import Bound
from pipebench.watch.read.bound import bound_result
from pipebench.watch.record.bound_lines import BoundEnded, BoundRoundVoid, BoundWindow, Reason
from pipebench.watch.script.training_device import TrainingDevice

REPLAYS = ((IDLE,), (IDLE, BUSY), (IDLE, BUSY, DEVICE))


@pytest.mark.parametrize(
    ("steps", "replays", "rounds"),
    [
        *zip([30] * 3, REPLAYS, (2, 1, 1), strict=True),
        *zip([60] * 3, REPLAYS, (4, 3, 2), strict=True),
        *((400, replays, 8) for replays in REPLAYS),
        *zip([5000] * 3, REPLAYS, (37, 25, 18), strict=True),
    ],
)
def test_every_round_is_one_live_window_and_as_many_replays_of_its_length(
    steps: int, replays: tuple[str, ...], rounds: int
) -> None:
    plan = planned(steps, 3, 2, replays)
    assert plan.rounds == rounds and plan.end <= steps and plan.window <= LARGEST_WINDOW
    places = [plan.at(step) for step in range(plan.end)]
    for turn in range(plan.rounds):
        kinds = [one.kind for one in places if one.round == turn and one.number == 0]
        assert kinds == [LIVE, *plan.order(turn)] and sorted(kinds[1:]) == sorted(replays)
        for kind in kinds:
            numbers = [one.number for one in places if (one.round, one.kind) == (turn, kind) and one.measured]
            assert numbers == list(range(plan.window))
    firsts = {plan.order(turn)[0] for turn in range(plan.rounds)}
    assert firsts == set(replays[: min(2, rounds)])


@pytest.mark.parametrize(("turn", "window"), [(1, 14), (3, 12), (5, 10), (8, 8), (20, 14)])
def test_a_window_is_whole_turns_of_the_workers_where_one_fits(turn: int, window: int) -> None:
    assert planned(400, 3, 2, (IDLE, BUSY), turn=turn).window == window


def test_batches_that_come_in_bursts_are_measured_at_their_true_rate() -> None:
    world = World(planned(150, 3, 3, (IDLE,), turn=3))
    world.burst = 3
    world.run()
    live = [one for one in world.lines if isinstance(one, BoundWindow) and one.kind == LIVE]
    assert len(live) >= 8 and {one.seconds / one.iterations for one in live} == {LIVE_S + STEP_S}


def test_a_window_says_when_it_was_and_what_each_iteration_took_and_waited() -> None:
    world = World(planned(60, 3, 2, (IDLE,)))
    world.run()
    live, ready = [one for one in world.lines if isinstance(one, BoundWindow)][:2]
    numbers = list(range(world.alternation.schedule.window))
    assert live.each == [(number, LIVE_S + STEP_S, 4, LIVE_S) for number in numbers]
    assert ready.each == [(number, STEP_S, 4, 0.0) for number in numbers]
    assert (live.end - live.begin, ready.end - ready.begin) == (live.seconds, ready.seconds)
    assert live.end <= ready.begin


def test_too_few_steps_make_no_round() -> None:
    assert planned(10, 3, 2, (IDLE, BUSY)).rounds == 0


SCHEDULE = Schedule(begin=3, rounds=6, window=5, lead=2, replays=(IDLE, BUSY))


def test_windows_take_what_was_planted_and_replays_are_those_of_the_live_window() -> None:
    world = World(SCHEDULE)
    world.run()
    assert len(world.seen) == 18 and world.replays_are_exact()
    found = bound_result([planned_by(SCHEDULE), *world.lines, BoundEnded(None)])
    assert found.complete and found.rounds == 6
    assert found.live is not None and found.bound is not None and found.bound_busy is not None
    assert found.live.readings_s == (20.0,) * 6 and found.bound.readings_s == (5.0,) * 6
    assert (found.live.samples_per_s, found.live.low, found.live.high) == (1.0, 1.0, 1.0)
    assert found.bound_over_live is not None and found.busy_over_live is not None and found.device_over_live is None
    over = found.bound_over_live
    assert (over.speedup, over.low, over.high) == (4.0, 4.0, 4.0) == (found.busy_over_live.speedup,) * 3
    assert layout.text(bound_parts(found, full=False)) == (
        "Without any data work, training could be at most 4.00× (4.00–4.00) as fast.\n"
        "\n"
        "Live and replayed windows: 6 rounds of 5 batches of loader 1\n"
        "batches                          samples/s            speed-up\n"
        "──────────────────────────────────────────────────────────────\n"
        "live                                     1                   1\n"
        "ready, workers idle                      4   4.00× (4.00–4.00)\n"
        "ready, workers as busy as live           4   4.00× (4.00–4.00)\n"
    )


def test_each_kind_of_replay_has_its_own_planted_speed_up() -> None:
    world = World(Schedule(begin=3, rounds=6, window=5, lead=2, replays=(IDLE, BUSY, DEVICE)))
    world.slowed = 1.25
    world.run(step=lambda batch: world.alternation.transferred(batch["pixels"]))
    found = bound_result([planned_by(world.alternation.schedule), *world.lines, BoundEnded(None)])
    overs = [found.bound_over_live, found.busy_over_live, found.device_over_live]
    gains = [one.speedup for one in overs if one is not None]
    assert gains == pytest.approx([4.0, 3.2, 4.0])


def test_noise_stays_inside_the_interval() -> None:
    world = World(Schedule(begin=3, rounds=12, window=5, lead=2, replays=(IDLE, BUSY)))
    rng = random.Random(0)
    world.noise = lambda: rng.expovariate(1 / 0.05)
    world.run()
    found = bound_result([planned_by(world.alternation.schedule), *world.lines, BoundEnded(None)])
    over = found.bound_over_live
    assert over is not None and over.told and over.low < over.high
    assert over.low <= 1 + LIVE_S / (STEP_S * 1.05) <= over.high


def test_before_a_live_window_the_queue_is_discarded_and_before_a_replay_workers_are_settled_or_kept_busy() -> None:
    world = World(SCHEDULE)
    world.run()
    size = 5 * 4 * 2 * 4
    idle, busy = [f"sweep {size}", "settle"], [f"sweep {size}", "busy 4"]
    assert world.log == ["discard", *idle, *busy, "discard", *busy, *idle] * 3


def test_passes_that_end_within_windows_keep_their_length_and_their_beginnings_are_not_counted() -> None:
    world = World(SCHEDULE)
    assert set(world.run(length=7)[:-1]) == {7}
    assert len(world.seen) == 18 and world.replays_are_exact()
    found = bound_result([planned_by(SCHEDULE), *world.lines, BoundEnded(None)])
    assert (over := found.bound_over_live) is not None and (over.low, over.speedup, over.high) == (4.0, 4.0, 4.0)
    windows = [one for one in world.lines if isinstance(one, BoundWindow)]
    assert len(windows) == 18 and any(one.iterations < 5 for one in windows)
    assert all(one.seconds == one.iterations * (4.0 if one.kind == LIVE else 1.0) for one in windows)


def test_passes_that_are_all_start_up_measure_nothing_and_say_so() -> None:
    world = World(SCHEDULE)
    world.run(length=2)
    found = bound_result([planned_by(SCHEDULE), *world.lines, BoundEnded(None)])
    assert found.bound_over_live is None
    assert bound_parts(found) == [
        "The bound was not measured.",
        "  No window had an iteration that counts: passes are so short that all of each is start-up. Use more data.",
    ]


@pytest.mark.parametrize("step", [lambda batch: batch["pixels"].add_(1000), lambda batch: batch.clear()])
def test_a_script_that_changes_its_batches_gets_them_unchanged(step: Any) -> None:
    world = World(SCHEDULE)
    world.run(step=step)
    assert world.replays_are_exact()
    assert not [one for one in world.lines if isinstance(one, BoundRoundVoid)]


def test_a_round_whose_batches_were_changed_before_that_was_known_is_void() -> None:
    world = World(SCHEDULE)

    def late(batch: Any) -> None:
        if world.drawn > 9:  # from within the first window on
            batch["pixels"].mul_(1)

    world.run(step=late)
    void = [one.round for one in world.lines if isinstance(one, BoundRoundVoid)]
    assert void == [0]
    found = bound_result([planned_by(SCHEDULE), *world.lines, BoundEnded(None)])
    assert found.rounds == 5 and Note("round-void") in found.notes


def test_a_window_that_outgrows_memory_is_refused() -> None:
    with pytest.raises(Refused, match="bound-outgrew-memory"):
        World(SCHEDULE, budget=100).run()


def test_an_exception_of_a_loader_counts_nothing_and_passes_on() -> None:
    world = World(SCHEDULE)
    source = Planted(world)

    def fails() -> Any:
        raise ValueError("bad sample")

    for _ in range(6):
        world.alternation.close()
        world.alternation.next(source, lambda draw: draw())
        world.now += STEP_S
    step = world.alternation.step
    world.alternation.close()
    with pytest.raises(ValueError, match="bad sample"):
        world.alternation.next(source, lambda draw: fails())
    world.now += 1000
    assert world.alternation.step == step
    world.alternation.close()
    world.alternation.next(source, lambda draw: draw())
    assert [one.seconds for one in world.alternation._window] == [STEP_S + LIVE_S]


LOOP: Any = SimpleNamespace(device=TrainingDevice())


class _Iterator:
    _num_workers = 0


def _recording(**settings: Any) -> Any:
    return SimpleNamespace(settings=SimpleNamespace(**{"bound": 60, "warmup": 0, "loader": None, **settings}))


@pytest.mark.parametrize(("free", "size"), [(1000, 500), (10_000, 50_000)])
def test_no_window_is_planned_that_memory_cannot_hold(free: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "free_memory", lambda: free)
    bound = Bound(_recording(), LOOP, lambda: None)
    with pytest.raises(Refused) as refused:
        bound._plan(_Iterator(), torch.zeros(size // 4), 1)
    reason = refused.value.reason
    assert (reason.code, reason.values["limit"], reason.values["left"]) == ("bound-no-window", "memory", free)
    said = sentence(Note(reason.code, reason.values))
    assert (
        said.startswith("Windows of batches of ") and " do not fit: " in said and said.endswith("of memory are free.")
    )


def test_a_window_is_made_to_fit_memory_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "free_memory", lambda: 10_000)
    written: list[Any] = []
    recording = _recording(bound=400)
    recording.write = written.append
    Bound(recording, LOOP, lambda: None)._plan(_Iterator(), torch.zeros(200), 1)
    assert written[0].window == 5 and written[0].notes[0].code == "bound-small-windows"
    assert written[0].notes[0].values == {"batches": 5, "limit": "memory", "left": 10_000}


def test_too_few_steps_are_refused_with_how_many_it_takes() -> None:
    bound = Bound(_recording(bound=8), LOOP, lambda: None)
    with pytest.raises(Refused) as refused:
        bound._plan(_Iterator(), torch.zeros(10), 1)
    assert refused.value.reason == Reason("bound-few-steps", {"steps": 8, "needed": 14})


def test_what_was_measured_before_a_script_ended_is_reported_as_part() -> None:
    world = World(SCHEDULE)
    world.run()
    kept = world.lines[:5]  # a round and two windows of the next
    found = bound_result([planned_by(SCHEDULE), *kept])
    assert not found.complete and found.rounds == 1
    assert found.notes == (Note("ended-early", {"rounds": 1, "planned": 6, "steps": 100}),)
    assert sentence(found.notes[0]) == (
        "The script ended after 1 of 6 rounds. The bound needs 100 iterations: train for longer, or give a smaller "
        "--steps."
    )
    none = bound_result([planned_by(SCHEDULE)])
    assert none.bound_over_live is None
    assert none.notes == (Note("ended-early", {"steps": 100}),)
    assert sentence(none.notes[0]).startswith("The script ended before its first window was complete.")
    assert bound_result([]).notes == (Note("no-training-loop"),)


def test_a_small_window_says_that_the_cache_was_swept() -> None:
    said = bound_result([planned_by(SCHEDULE, swept=True)]).notes[-1]
    assert said == Note("cache-swept", {"window_bytes": 5000, "cache_bytes": 32_000_000})
    assert sentence(said).startswith(
        "The batches of a window (5.00 kB) are smaller than 1.2 times the last-level cache"
    )
    assert bound_result([planned_by(SCHEDULE, last_level_cache_bytes=0)]).notes[-1] == Note("cache-unknown")


@pytest.mark.parametrize(
    ("idle", "busy", "said"),
    [
        (2.5, 2.0, "2.00× (2.00–2.00) as fast."),
        (
            5.0,
            8.0,
            "0.80× (0.80–0.80) as fast. Replays were slower than live windows: another program used the machine. "
            "Measure again.",
        ),
        (4.0, 5.0, "1.00× (1.00–1.00) as fast. No measurable gain."),
    ],
)
def test_what_the_report_says_of_a_gain(idle: float, busy: float, said: str) -> None:
    windows = [
        BoundWindow(turn, kind, spent, samples=4, iterations=4)
        for turn in range(6)
        for kind, spent in ((LIVE, 4.0), (IDLE, idle), (BUSY, busy))
    ]
    found = bound_parts(bound_result([planned_by(SCHEDULE), *windows]))
    assert found[0] == f"Without any data work, training could be at most {said}"
