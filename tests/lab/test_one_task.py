"""One task from Python, with a fake clock: costs a sample, speed-ups, and why a variant has no figure."""

import fake
import pytest

from pipebench.lab import one_task
from pipebench.lab.timing import Plan
from pipebench.task import Unavailable


def costs(bench):
    return one_task.costs(bench.task, bench.measure(Plan(rounds=12, budget_s=1e9)))


def test_a_cost_is_that_of_a_sample_and_a_speedup_above_one_is_faster():
    bench = fake.Bench(fake.FakeClock(noise=0.0), per_call=4)
    for name, cost in (("plain", 0.004), ("fast", 0.001), ("slow", 0.008)):
        bench.variant(name, cost)
    found = costs(bench)
    assert list(found.costs) == ["plain", "fast", "slow"]
    assert {name: one.per_sample_s for name, one in found.costs.items()} == pytest.approx(
        {"plain": 0.004, "fast": 0.001, "slow": 0.008}
    )
    assert [one.speedup.speedup for one in found.costs.values()] == pytest.approx([1.0, 4.0, 0.5])
    assert found.costs["fast"].samples_per_s == pytest.approx(1000)
    assert found.missing == {} and found.bad_samples == ()


def test_the_interval_holds_the_figure_and_its_low_end_is_the_slower_one():
    bench = fake.Bench(fake.FakeClock(noise=0.2, seed=1))
    bench.variant("plain", 0.002)
    bench.variant("fast", 0.001)
    fast = costs(bench).costs["fast"]
    assert fast.low_s < fast.per_sample_s < fast.high_s
    assert 1 < fast.speedup.low < fast.speedup.speedup < fast.speedup.high


def test_a_variant_without_a_figure_says_why():
    def absent(workload):
        raise Unavailable("not-installed", "pip install something")

    bench = fake.Bench()
    bench.variant("plain", 0.001)
    bench.variant("wrong", 0.001, call=lambda given: 3 * given + 1)
    bench.variant("absent", 0.001, build=absent)
    found = costs(bench)
    assert list(found.costs) == ["plain"]
    assert found.missing["absent"] == "pip install something"
    assert found.missing["wrong"].startswith("it could do none of 10 samples")
    assert {one.variant for one in found.bad_samples} == {"wrong"}


def test_without_its_reference_a_cost_has_no_speedup():
    def absent(workload):
        raise Unavailable("not-installed", "pip install something")

    bench = fake.Bench()
    bench.variant("plain", 0.001, build=absent)
    bench.variant("fast", 0.001)
    assert costs(bench).costs["fast"].speedup is None
