"""The measuring loop, against a clock whose costs are known."""

from dataclasses import replace

import pytest
from fake import GONE, Bench, FakeClock, breaking

from pipebench.errors import SampleError
from pipebench.lab.checking import groups_of
from pipebench.lab.timing import Plan
from pipebench.task import Unavailable, Workload

PLAN = Plan(rounds=24, budget_s=1e9, reading_s=0.010)


def test_known_costs_come_out_as_speedup_and_fraction_of_the_ceiling():
    bench = Bench()
    bench.variant("plain", 1e-3)
    bench.variant("quick", 4e-4)
    bench.variant("limit", 2e-4, ceiling="doubling")
    plain, quick = bench.measure(PLAN).measurements
    assert plain.summary.median_s == pytest.approx(4e-3, rel=0.04)  # four samples a call
    assert plain.summary.samples_per_s == pytest.approx(1000, rel=0.04)
    assert plain.over_reference.speedup == 1.0
    assert quick.over_reference.speedup == pytest.approx(2.5, rel=0.02)
    assert quick.over_reference.low <= 2.5 <= quick.over_reference.high
    assert quick.fraction_of_ceiling == pytest.approx(0.5, rel=0.02)
    assert (quick.work.samples, quick.work.input_bytes, quick.work.output_bytes) == (4, 400, 1200)


def test_a_reading_lasts_as_long_as_the_plan_asks_and_the_first_is_kept_apart():
    bench = Bench(FakeClock(noise=0))
    bench.variant("plain", 1.05e-4)
    (one,) = bench.measure(PLAN).measurements
    assert one.calls_per_reading == 24  # 4 samples of 0.105 ms each in a call, 10 ms in a reading
    assert len(one.readings_s) == 24
    assert one.readings_s[0] == pytest.approx(24 * 4.2e-4)
    assert one.first_reading_s == pytest.approx(4.2e-4)


def test_variants_take_turns_and_the_order_rotates():
    order = []
    bench = Bench(FakeClock(noise=0), samples=1, per_call=1)
    for name in "abc":
        bench.variant(name, 1.0, call=lambda given, name=name: order.append(name) or given)
    bench.measure(Plan(rounds=3, budget_s=1e9))
    assert "".join(order[-9:]) == "abcbcacab"


def test_a_spent_budget_ends_the_rounds_but_never_below_what_95_percent_needs():
    bench = Bench(FakeClock(noise=0))
    bench.variant("slow", 1.0)
    (one,) = bench.measure(Plan(rounds=24, budget_s=0.5)).measurements
    assert len(one.readings_s) == 6
    assert one.summary.confidence >= 0.95


def test_all_are_timed_on_the_samples_that_every_one_could_do():
    def picky(given):
        if given in (1, 2):
            raise ValueError(f"cannot do {given}")
        return 2 * given

    bench = Bench(samples=4, per_call=4)
    bench.variant("plain", 1e-3)
    bench.variant("picky", 1e-3, call=picky)
    result = bench.measure(PLAN)
    plain, other = result.measurements
    assert (plain.samples_attempted, plain.samples_failed) == (4, 0)
    assert (other.samples_attempted, other.samples_failed) == (4, 2)
    assert plain.work.samples == other.work.samples == 2
    assert [(bad.sample, bad.variant, bad.kind, bad.message) for bad in result.bad_samples] == [
        ("s1", "picky", "ValueError", "cannot do 1"),
        ("s2", "picky", "ValueError", "cannot do 2"),
    ]


def test_a_sample_that_cannot_be_loaded_is_bad_for_every_variant():
    bench = Bench(samples=3)
    bench.load = lambda key: int(key[1:]) if key != "s1" else _raise(SampleError("vanished", "it is gone"))
    bench.variant("plain", 1e-3)
    bench.variant("other", 1e-3)
    result = bench.measure(PLAN)
    assert [one.samples_failed for one in result.measurements] == [1, 1]
    assert {bad.kind for bad in result.bad_samples} == {"vanished"}


def _raise(error):
    raise error


def test_a_variant_that_disagrees_is_not_timed_and_does_not_stop_the_others():
    bench = Bench()
    bench.variant("plain", 1e-3)
    bench.variant("wrong", 1e-4, call=lambda given: 2 * given + 1)
    plain, wrong = bench.measure(PLAN).measurements
    assert plain.readings_s
    assert not wrong.readings_s
    assert wrong.failed == "it could do none of 10 samples; the first: disagrees: 1 is not 0"


def test_the_contract_is_checked():
    bench = Bench()
    bench.variant("plain", 1e-3)
    bench.variant("text", 1e-4, call=str)
    text = bench.measure(PLAN).measurements[1]
    assert text.samples_failed == text.samples_attempted == 10
    assert "it is a str" in text.failed


def test_no_good_sample_gives_no_readings():
    bench = Bench()
    bench.variant("plain", 1e-3, call=lambda given: _raise(ValueError("no")))
    (one,) = bench.measure(PLAN).measurements
    assert (one.readings_s, one.summary, one.samples_failed) == ((), None, 10)


def test_what_cannot_run_here_is_skipped_with_its_reason():
    def absent(workload):
        raise Unavailable("no-device", "not measured here")

    bench = Bench()
    bench.variant("plain", 1e-3)
    bench.variant("absent", 1e-3, build=absent)
    bench.variant("missing", 1e-3, build=lambda workload: __import__("no_such_module"), extra="opencv")
    _, absent_row, missing = bench.measure(PLAN).measurements
    assert (absent_row.skipped.code, absent_row.skipped.reason) == ("no-device", "not measured here")
    assert missing.skipped.code == "not-installed"
    assert missing.skipped.reason == "No module named 'no_such_module': pip install 'pipebench[opencv]'"
    assert absent_row.readings_s == () and absent_row.samples_attempted == 0


def test_a_variant_that_breaks_while_it_is_timed_fails_alone():
    bench = Bench()
    bench.variant("plain", 1e-3)
    bench.variant("fragile", 1e-3, call=breaking(60, OSError("the file vanished")))
    plain, broken = bench.measure(PLAN).measurements
    assert len(plain.readings_s) == 24
    assert broken.failed == "OSError: the file vanished"


def test_a_file_that_vanishes_while_it_is_timed_is_a_bad_sample_and_the_rest_is_timed_anew():
    """The reference and whoever reads the file lose it; who has it elsewhere does not; all are timed on the others."""
    reading = breaking(100, GONE, sample=1)
    bench = Bench(samples=6, per_call=4)
    bench.variant("plain", 1e-3, call=reading)
    bench.variant("packed", 1e-3)
    bench.variant("alike", 1e-3, call=reading)
    result = bench.measure(PLAN)
    assert [one.failed for one in result.measurements] == [None] * 3
    assert [one.samples_failed for one in result.measurements] == [1, 0, 1]
    assert [(bad.sample, bad.variant, bad.kind) for bad in result.bad_samples] == [
        ("s1", "plain", "vanished"),
        ("s1", "alike", "vanished"),
    ]
    assert {len(one.readings_s) for one in result.measurements} == {24}
    assert {(one.work.samples, one.samples_common) for one in result.measurements} == {(4, 5)}


def test_where_every_file_vanishes_the_rows_fail():
    bench = Bench(samples=4)
    bench.variant("plain", 1e-3, call=breaking(100, GONE))
    (one,) = bench.measure(PLAN).measurements
    assert (one.readings_s, one.samples_failed) == ((), 4)
    assert one.failed == "it could do none of 4 samples; the first: vanished: [Errno 2] No such file or directory"


def test_without_its_reference_a_task_is_held_against_the_first_that_runs():
    def absent(workload):
        raise Unavailable("not-built", "not here")

    bench = Bench()
    bench.variant("plain", 1e-3, build=absent)
    bench.variant("lossy", 1e-3, call=lambda given: 0, gives_up="the value")
    bench.variant("quick", 1e-3)
    bench.variant("wrong", 1e-3, call=lambda given: 2 * given + 1)
    _, _, quick, wrong = bench.measure(PLAN).measurements
    assert quick.readings_s and quick.over_reference.speedup == 1.0
    assert not wrong.readings_s and "disagrees" in wrong.failed


def test_without_its_reference_the_others_are_compared_with_the_first_that_runs():
    """Data in shards has no loose files for the reference to open."""

    def absent(workload):
        raise Unavailable("not-built", "this data is shards")

    bench = Bench()
    bench.variant("open", 1e-3, build=absent)
    bench.variant("tarfile", 1e-3)
    bench.variant("index", 5e-4)
    plain, stand_in, other = bench.measure(PLAN).measurements
    assert plain.over_reference is None and stand_in.over_reference.speedup == 1.0
    assert other.over_reference.speedup == pytest.approx(2.0, rel=0.02)


def test_alone_a_variant_is_not_compared_with_itself():
    def absent(workload):
        raise Unavailable("not-built", "this data is shards")

    bench = Bench()
    bench.variant("open", 1e-3, build=absent)
    bench.variant("index", 5e-4)
    assert bench.measure(PLAN).measurements[1].over_reference is None


def odd(given):
    return "odd numbers are not for it" if given % 2 else None


def test_a_variant_is_timed_on_what_it_is_made_for_and_compared_with_the_reference_on_the_same():
    """Odd numbers cost the reference ten times as much: on all, the quick variant would seem 11 times as fast."""
    bench = Bench(samples=10, per_call=10)

    def twice(given):
        bench.clock.spend(1e-3 if given % 2 == 0 else 1e-2)
        return 2 * given

    bench.variant("plain", 0, call=twice)
    bench.variant("even-only", 5e-4, unfit=odd)
    bench.variant("too", 5e-4, unfit=odd)
    bench.variant("any", 1e-3)
    bench.variant("limit", 1e-4, ceiling="doubling")
    result = bench.measure(PLAN)
    plain, other, _, whole = result.measurements
    assert other.skipped is None and (other.samples_unfit, other.samples_unlike, other.samples_common) == (5, 5, 5)
    assert (plain.work.samples, other.work.samples, whole.work.samples) == (10, 5, 10)
    assert other.over_reference.speedup == pytest.approx(2.0, rel=0.02)
    assert whole.over_reference.speedup == pytest.approx(5.5, rel=0.02)
    assert whole.ceiling == "limit" and other.ceiling is None  # which was measured on other samples


def test_a_variant_that_is_made_for_hardly_any_sample_is_skipped_with_every_reason():
    def picky(given):
        return None if given == 3 else "it is odd" if given % 2 else "it is twelve" if given == 12 else "too even"

    bench = Bench(samples=20, per_call=20)
    bench.variant("plain", 1e-3)
    bench.variant("picky", 1e-3, unfit=picky)
    result = bench.measure(PLAN)
    plain, other = result.measurements
    assert other.skipped.code == "unfit" and other.failed is None
    assert other.skipped.reason == "not made for 19 of 20 samples: 9: too even, 9 are odd, 1 is twelve"
    assert (plain.work.samples, result.bad_samples) == (20, ())


def test_a_ceiling_is_timed_on_what_it_is_made_for_and_bounds_who_is_timed_on_the_same():
    bench = Bench(samples=10, per_call=10)
    bench.variant("plain", 1e-3)
    bench.variant("even-only", 5e-4, unfit=odd)
    bench.variant("limit", 1e-4, ceiling="doubling", unfit=odd)
    result = bench.measure(PLAN)
    plain, other = result.measurements
    assert (other.ceiling, plain.ceiling) == ("limit", None)
    assert other.fraction_of_ceiling == pytest.approx(0.2, rel=0.02)
    bench.variant("limit", 1e-4, ceiling="doubling", unfit=lambda given: "it is a number")
    (limit,) = bench.measure(PLAN).ceilings
    assert (limit.failed, limit.skipped.reason) == (None, "not made for this data: 10 are a number")


def test_alone_it_is_timed_on_what_it_is_made_for():
    from pipebench.lab.timing import measure

    bench = Bench(samples=10, per_call=10)
    plain = bench.variant("plain", 1e-3)
    some = bench.variant("even-only", 1e-3, unfit=odd)
    none = bench.variant("never", 1e-3, unfit=lambda given: "nothing is for it")
    with bench.runners() as runners:
        rows = [
            measure(bench.task, [one], Workload(data="none"), runners=runners, plan=PLAN, reference=plain).measurements
            for one in (some, none)
        ]
    ((timed,), (skipped,)) = rows
    assert (timed.work.samples, timed.skipped, timed.samples_unlike) == (5, None, 5)
    assert skipped.skipped.reason == "not made for this data: 10: nothing is for it"


def test_a_few_samples_that_a_variant_is_not_made_for_do_not_skip_it():
    bench = Bench(samples=40, per_call=40)
    bench.variant("plain", 1e-3)
    bench.variant("nearly", 1e-3, unfit=lambda given: "it is three" if given == 3 else None)
    result = bench.measure(PLAN)
    plain, nearly = result.measurements
    assert nearly.skipped is None and (nearly.samples_failed, nearly.samples_unlike) == (1, 1)
    assert (plain.work.samples, nearly.work.samples) == (40, 39)
    assert [(bad.sample, bad.kind, bad.reference_did) for bad in result.bad_samples] == [("s3", "unfit", True)]


def test_a_file_that_the_reference_cannot_do_is_broken_and_not_the_others_fault():
    bench = Bench(samples=4, per_call=4)
    bench.load = lambda key: int(key[1:]) if key != "s1" else _raise(SampleError("truncated", "cut"))
    bench.variant("plain", 1e-3)
    bench.variant("other", 1e-3)
    result = bench.measure(PLAN)
    assert {bad.reference_did for bad in result.bad_samples} == {False}
    assert [one.samples_unlike for one in result.measurements] == [0, 0]


def test_a_lossy_variant_has_no_fraction_of_a_ceiling():
    bench = Bench()
    bench.variant("plain", 1e-3)
    bench.variant("lossy", 5e-4, gives_up="half of it")
    bench.variant("limit", 2e-4, ceiling="doubling")
    plain, lossy = bench.measure(PLAN).measurements
    assert plain.fraction_of_ceiling is not None
    assert lossy.fraction_of_ceiling is None


def test_the_reference_is_asked_for_agreement_even_where_it_is_not_measured():
    from pipebench.lab.timing import measure

    bench = Bench()
    plain = bench.variant("plain", 1e-3)
    wrong = bench.variant("wrong", 1e-3, call=lambda given: -given)
    with bench.runners() as runners:
        (one,) = measure(
            bench.task, [wrong], Workload(data="none"), runners=runners, plan=PLAN, reference=plain
        ).measurements
    assert one.samples_failed == 9  # minus nought is nought
    assert one.over_reference is None


def test_quick_tries_a_few_samples_spread_over_the_listing():
    bench = Bench(samples=600)
    bench.variant("plain", 1e-6)
    bench.variant("broken", 1e-6, lambda given: 2 * given if given < 300 else 0)
    plain, other = bench.measure(Plan.quick()).measurements
    assert (plain.samples_attempted, plain.samples_failed, other.samples_failed) == (16, 0, 8)
    assert len(plain.readings_s) >= 6


@pytest.mark.parametrize(
    ("sizes", "a_call", "most", "wanted"),
    [
        ([1] * 100, 4, 16, [1] * 16),
        ([1] * 100, 64, 16, [1] * 64),
        ([16] * 10, 16, 16, [16]),
        ([16] * 10, 16, 40, [16, 16, 8]),
        ([1] * 3, 4, 16, [1] * 3),
        ([1] * 30, 4, None, [1] * 30),
        ([], 4, 16, []),
    ],
)
def test_the_samples_to_try_are_at_least_those_of_a_call(sizes, a_call, most, wanted):
    keys = iter(range(10_000))
    groups = [tuple(str(next(keys)) for _ in range(size)) for size in sizes]
    task = replace(Bench().task, groups=lambda workload: groups, per_call=lambda workload: a_call)
    assert [len(one) for one in groups_of(task, Workload(data="none"), most)] == wanted


def test_a_stream_is_tried_from_its_start():
    groups = [(str(number),) for number in range(100)]
    task = replace(Bench().task, groups=lambda workload: groups, per_call=lambda workload: 2, from_the_start=True)
    assert groups_of(task, Workload(data="none"), 3) == groups[:3]
    assert groups_of(replace(task, from_the_start=False), Workload(data="none"), 4) == groups[::25]


def test_progress_speaks_of_trying_and_timing():
    said = []
    bench = Bench(FakeClock(noise=0), samples=2)
    bench.variant("plain", 1e-3)
    bench.measure(Plan(rounds=6, budget_s=1e9), progress=lambda *news: said.append(news))
    assert said[0] == (1, 2, "decode/number: trying 2 samples")
    assert said[-1] == (6, 6, "decode/number: timing 1 variants")


def test_noisy_readings_carry_a_warning_that_names_its_remedy():
    bench = Bench(FakeClock(noise=1.0))
    bench.variant("plain", 1e-2)
    (one,) = bench.measure(Plan(rounds=6, budget_s=1e9)).measurements
    (warning,) = [warning for warning in one.warnings if warning.code == "unstable"]
    assert warning.problem.startswith("±") and "a quieter machine" in warning.remedy
