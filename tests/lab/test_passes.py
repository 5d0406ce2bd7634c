"""Many tasks in many processes, with a fake clock: each process has a speed of its own that no reading can show."""

import itertools
import random
from dataclasses import replace
from statistics import median

import pytest
from fake import GONE, Bench, FakeClock, breaking

from pipebench import task
from pipebench.lab import passes
from pipebench.lab.fresh import ProcessLost
from pipebench.lab.passes import Passes, measure_all
from pipebench.lab.timing import Plan
from pipebench.runner import LocalRunner, Runners
from pipebench.task import Workload

EACH = Plan(rounds=3, least_rounds=2, budget_s=1e9)


class Replaced(LocalRunner):
    """A place whose process is replaced: each has a speed, and a variant in `deadly` kills it in the given process."""

    def __init__(self, bench, spread=0.0, deadly=None, seed=0):
        super().__init__(bench.clock, find=lambda identity: (bench.task, bench.variants[identity]))
        self.processes, self._rng, self._spread, self._speed = 0, random.Random(seed), spread, 1.0
        self._deadly = deadly or {}

    def renew(self, task_id, workload, keys):
        self.release()
        self.processes += 1
        self._speed = self._rng.lognormvariate(0, self._spread)
        return True

    def reading(self, identity, calls):
        if self.processes in self._deadly.get(identity.rpartition("/")[2], ()):
            raise ProcessLost("the measuring process was killed by SIGKILL")
        seconds, code = super().reading(identity, calls)
        return seconds * self._speed, code


@pytest.fixture
def measured(monkeypatch):
    def run(bench, plan, place=None, progress=lambda *news: None):
        rows = list(bench.variants.values())
        monkeypatch.setitem(task._variants, bench.task.id, {one.name: one for one in rows})
        place, kept = place or Replaced(bench), []
        with bench.runners() as trying, Runners(place) as timing:
            try:
                measure_all(
                    [(bench.task, rows)], Workload(data="none"), plan,
                    trying=trying, timing=timing, progress=progress, keep=kept.append, now=lambda: bench.clock.now,
                )  # fmt: skip
            except KeyboardInterrupt:
                kept.append("interrupted")
        return kept

    return run


def test_every_row_is_read_in_every_process_and_the_readings_keep_theirs(measured):
    bench = Bench(FakeClock(noise=0.02))
    bench.variant("plain", 1e-3)
    bench.variant("quick", 4e-4)
    place = Replaced(bench, spread=0.1)
    kept = measured(bench, Passes(7, 5, 1e9, EACH), place)
    plain, quick = kept[-1][0].measurements
    assert place.processes == 7
    assert plain.readings_per_process == quick.readings_per_process == (3,) * 7
    assert len(plain.readings_s) == 21
    assert quick.over_reference.speedup == pytest.approx(2.5, rel=0.02)
    assert [len(one[0].measurements[0].readings_per_process) for one in kept] == [*range(1, 8), 7]


def test_the_interval_holds_what_processes_differ_by_and_the_speed_up_does_not(measured):
    """The speed of a process is common to its rows, so it widens the costs and cancels in the speed-up."""
    bench = Bench(FakeClock(noise=0.001))
    bench.variant("plain", 1e-3)
    bench.variant("quick", 5e-4)
    plain, quick = measured(bench, Passes(8, 5, 1e9, EACH), Replaced(bench, spread=0.1))[-1][0].measurements
    assert (plain.summary.high_s - plain.summary.low_s) / plain.summary.median_s > 0.1
    assert quick.over_reference.high - quick.over_reference.low < 0.02
    assert quick.over_reference.low <= 2.0 <= quick.over_reference.high
    found = [median(plain.readings_s[index : index + 3]) for index in range(0, 24, 3)]
    assert min(found) / plain.calls_per_reading < plain.summary.median_s < max(found) / plain.calls_per_reading


def test_the_budget_ends_the_processes_but_never_below_the_least(measured):
    bench = Bench(FakeClock(noise=0))
    bench.variant("slow", 1.0)
    for budget_s, wanted in ((1.0, 5), (1e9, 12), (125.0, 7)):  # a process takes 16 s, the first 24
        place = Replaced(bench)
        measured(bench, Passes(12, 5, budget_s, EACH), place)
        assert place.processes == wanted


def test_a_process_that_dies_is_replaced_and_costs_no_row_its_figure(measured):
    bench = Bench()
    bench.variant("plain", 1e-3)
    bench.variant("quick", 5e-4)
    place = Replaced(bench, deadly={"quick": [2]})
    plain, quick = measured(bench, Passes(5, 5, 1e9, EACH), place)[-1][0].measurements
    assert place.processes == 6
    assert plain.readings_per_process == quick.readings_per_process == (3,) * 5
    assert (plain.failed, quick.failed) == (None, None)
    assert ["process-lost" in [one.code for one in row.warnings] for row in (plain, quick)] == [False, True]


def test_a_row_in_whose_turns_two_processes_die_fails_alone(measured):
    bench = Bench()
    bench.variant("plain", 1e-3)
    bench.variant("deadly", 5e-4)
    place = Replaced(bench, deadly={"deadly": range(100)})
    plain, deadly = measured(bench, Passes(5, 5, 1e9, EACH), place)[-1][0].measurements
    assert deadly.failed == "the measuring process was killed by SIGKILL"
    assert deadly.readings_s == () and deadly.summary is None
    assert plain.readings_per_process == (3,) * 5


def test_a_task_whose_only_row_has_failed_ends_and_keeps_its_readings(measured):
    def ends(done, total, what):
        assert next(calls) < 100

    calls = itertools.count()
    bench = Bench()
    bench.variant("plain", 1e-3)
    place = Replaced(bench, deadly={"plain": range(3, 1000)})
    (plain,) = measured(bench, Passes(12, 5, 1e9, EACH), place, ends)[-1][0].measurements
    assert plain.failed == "the measuring process was killed by SIGKILL"
    assert plain.readings_per_process == (3, 3) and place.processes == 4


def test_a_process_that_dies_before_the_size_of_a_block_is_known_leaves_it_to_the_next(measured):
    found = []
    for deadly in ({}, {"plain": [1]}):
        bench = Bench(FakeClock(noise=0))
        bench.variant("plain", 1e-3)
        place = Replaced(bench, deadly=deadly)
        found += measured(bench, Passes(5, 5, 1e9, EACH), place)[-1][0].measurements
    assert found[0].calls_per_reading == found[1].calls_per_reading > 1
    assert found[1].readings_per_process == (3,) * 5


def test_ctrl_c_keeps_every_reading_so_far(measured):
    calls = []

    def counted(given):
        calls.append(given)
        if len(calls) == 200:
            raise KeyboardInterrupt
        return 2 * given

    bench = Bench(FakeClock(noise=0))
    bench.variant("plain", 1e-2, call=counted)
    bench.variant("other", 1e-2)
    *_, kept, last = measured(bench, Passes(50, 5, 1e9, EACH))
    assert last == "interrupted"
    plain, other = kept[0].measurements
    whole = len(calls) // 20 - 1
    assert len(plain.readings_per_process) >= whole > 2
    assert len(plain.readings_s) == sum(plain.readings_per_process)
    assert other.over_reference is not None


def test_a_file_that_vanishes_late_is_lost_to_all_and_the_rest_is_timed_anew_in_as_many_processes(measured):
    bench = Bench(FakeClock(noise=0), samples=6, per_call=4)
    bench.variant("plain", 1e-2, call=breaking(100, GONE, sample=1))
    bench.variant("other", 1e-2)
    (result,) = measured(bench, Passes(12, 5, 1e9, EACH))[-1]
    assert [(bad.sample, bad.variant, bad.kind) for bad in result.bad_samples] == [("s1", "plain", "vanished")]
    assert [one.failed for one in result.measurements] == [None, None]
    first, second = (one.readings_per_process for one in result.measurements)
    assert first == second and len(first) == 12


def test_progress_names_the_task_first_and_then_counts_processes(measured):
    said = []
    bench = Bench(FakeClock(noise=0), samples=2)
    bench.variant("plain", 1e-3)
    measured(bench, Passes(3, 2, 1e9, EACH), progress=lambda *news: said.append(news))
    assert said[0] == (1, 2, "decode/number: trying 2 samples")
    assert said[-2:] == [(1, 3, "timing in fresh processes"), (2, 3, "timing in fresh processes")]


def test_a_quick_task_and_a_slow_one_are_both_spread_over_the_whole_run(monkeypatch):
    """Else the quick one would have most of its processes in the last seconds, and miss the drift of the machine."""
    clock, order = FakeClock(noise=0), []
    benches = {}
    for name, cost in (("decode/slow", 1.0), ("crop/quick", 1e-3)):
        bench = benches[name] = Bench(clock)
        bench.task = replace(bench.task, id=name)
        bench.variants = {}
        plain = bench.variant("plain", cost)
        monkeypatch.setitem(task._variants, name, {"plain": plain})
    known = {one.id: (bench.task, one) for bench in benches.values() for one in bench.variants.values()}

    class Noted(LocalRunner):
        def renew(self, task_id, workload, keys):
            self.release()
            order.append(task_id)
            return True

    def find(identity):
        return known[identity]

    with Runners(LocalRunner(clock, find)) as trying, Runners(Noted(clock, find)) as timing:
        measure_all(
            [(bench.task, list(bench.variants.values())) for bench in benches.values()], Workload(data="none"),
            Passes(20, 5, 90.0, EACH), trying=trying, timing=timing, progress=lambda *news: None,
            keep=lambda results: None, now=lambda: clock.now,
        )  # fmt: skip
    assert order.count("decode/slow") == 5 and order.count("crop/quick") == 20
    slow = [index for index, name in enumerate(order) if name == "decode/slow"]
    assert max(after - before for before, after in itertools.pairwise(slow)) <= 6
    assert slow[-1] >= len(order) - 6


def test_while_the_places_are_made_ready_the_next_tasks_are_tried_and_nothing_is_timed(monkeypatch):
    order, answers = [], iter([False, False, True, True, True, True])

    class Timing:
        def ready(self, wait):
            order.append("wait" if wait else "look")
            return next(answers)

    monkeypatch.setattr(passes, "_tried", lambda job, *rest: order.append(f"try {job}") or f"trial {job}")
    for job, trial in passes._tried_ahead("abcd", None, Timing(), Passes(), None):
        order.append(f"time {job}")
        assert trial == f"trial {job}"
    assert order == [
        "try a", "look", "try b", "look", "try c", "look", "time a", "look", "time b", "look", "time c",
        "try d", "wait", "time d",
    ]  # fmt: skip
