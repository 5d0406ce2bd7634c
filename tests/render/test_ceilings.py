"""What is said about ceilings: which way was the fastest, and that a share above 100 % is never shown."""

from dataclasses import replace

import pytest
from fake import Bench, FakeClock

from pipebench.lab.timing import Plan
from pipebench.render import tables, text
from pipebench.results.report import Report
from pipebench.task import Workload


def report(noise=0.02, **costs):
    bench = Bench(FakeClock(noise=noise, seed=3))
    for name, cost in costs.items():
        ways = {"ceiling": "doubling", "way": name.partition("_")[2]} if name.startswith("limit") else {}
        bench.variant(name, cost, **ways)
    found = bench.measure(Plan(rounds=24, budget_s=1e9))
    return Report(2, workload=Workload(data="none"), measurements=found.measurements, ceilings=found.ceilings)


def shares(found):
    return [row[5] for row in tables.of_task(found, "decode/number").rows]


def test_the_fastest_way_is_named_beside_the_others():
    table = tables.ceilings(report(plain=1e-3, limit_whole=2e-4, limit_parts=1e-4))
    assert [row[:2] for row in table.rows] == [("doubling", "decode/number")]
    assert table.notes[0].startswith("doubling (decode/number): parts, the fastest way here; whole: 0.50× (")


def test_an_exceeded_ceiling_is_said_to_be_at_fault_and_no_share_of_it_is_shown():
    found = report(plain=1e-3, quick=1e-4, limit_whole=1.13e-4)
    said = " ".join(text.table(found, width=200, full=True).split())
    over = found.measurements[1].over_ceiling
    times = f"{over.speedup:.2f}× ({over.low:.2f}–{over.high:.2f})"
    assert times.startswith("1.1") and over.low > 1
    assert shares(found) == ["", ""]
    fault = "the ceiling is at fault, so no share of it is shown"
    assert f"quick: faster than the ceiling (limit_whole), {times}; {fault}" in said
    assert f"doubling (decode/number): quick is faster, {times}; {fault}" in said


@pytest.mark.parametrize("seed_noise", [0.05, 0.1, 0.2])
def test_no_share_above_100_percent_is_printed(seed_noise):
    found = report(noise=seed_noise, plain=1e-3, quick=1e-4, limit_whole=1e-4)
    (_, quick) = found.measurements
    above = replace(found, measurements=(found.measurements[0], replace(quick, fraction_of_ceiling=1.13)))
    assert shares(above)[1] == "~100 %"
