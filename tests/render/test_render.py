"""What a reader sees, to the letter: a report made with a fake clock, and names that would act were they not inert."""

from dataclasses import replace
from pathlib import Path

import pytest
from fake import Bench, FakeClock

from pipebench.errors import BadSample
from pipebench.host.machine import Machine
from pipebench.lab.timing import Plan
from pipebench.render import tables, text
from pipebench.results.report import Data, Report
from pipebench.stats import Ratio
from pipebench.task import Unavailable, Workload

GOLDEN = Path(__file__).parent / "golden"
HOSTILE = "\x1b[31m[bold]x[/x]\n| `code` | \u202e"


def _absent(workload):
    raise Unavailable("no-device", "not measured here: no CUDA device")


def _picky(given):
    if given == 3:
        raise ValueError("three is too many")
    return 2 * given


@pytest.fixture(scope="module")
def report():
    bench = Bench(FakeClock(noise=0.02, seed=1))
    bench.variant("plain", 2e-3, library=lambda: "Plain 1.0")
    bench.variant("quick", 5e-4, library=lambda: "Plain 1.0")
    bench.variant("alike", 2e-3, call=_picky)
    bench.variant("lossy", 3e-4, gives_up="half of it")
    bench.variant("wrong", 1e-4, call=lambda given: -1)
    bench.variant("absent", 1e-3, build=_absent)
    bench.variant("limit", 4e-4, ceiling="doubling")
    result = bench.measure(Plan(rounds=24, budget_s=1e9))
    machine = Machine(
        "host", "Linux 6", "3.11.7", "Some CPU", 2, 1 << 34, 1 << 25, "ext4", None, "fork", {"torch": "2.15"}
    )
    still = tuple(replace(one, warnings=()) for one in result.measurements)  # the host's load is not the fake's
    return Report(
        schema_version=1,
        partial=False,
        created="2026-01-01T00:00:00+00:00",
        pipebench="0.1.0",
        machine=machine,
        workload=Workload(data="numbers"),
        data=Data("numbers", 10, 105_000.0, 1.97, 0.46),
        measurements=still,
        ceilings=tuple(replace(one, warnings=()) for one in result.ceilings),
        bad_samples=result.bad_samples,
    )


@pytest.mark.parametrize(("name", "render"), [("report.txt", text.table), ("report.md", text.markdown)])
def test_the_text_to_the_letter(report, name, render):
    """To accept a change of wording: delete tests/render/golden/NAME, run this, and read the new file."""
    path = GOLDEN / name
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        path.write_text(render(report))
        pytest.fail(f"{name} did not exist: read what was written")
    assert render(report) == path.read_text()


def test_no_name_from_data_acts_in_any_output(report):
    bad = BadSample("decode", HOSTILE, HOSTILE, HOSTILE, HOSTILE, 0.0)
    hostile = replace(
        report,
        bad_samples=(bad,),
        data=replace(report.data, name=HOSTILE),
        measurements=tuple(replace(one, variant=HOSTILE, library=HOSTILE) for one in report.measurements),
    )
    for shown in (text.table(hostile), text.markdown(hostile)):
        assert "\x1b" not in shown and "\u202e" not in shown
        assert "\\x1b" in shown
    assert "[bold]x[/x]" in text.table(hostile)
    assert "`code`" not in text.markdown(hostile).replace("\\`", "")


def test_colour_adds_styles_and_nothing_else(report):
    from rich.text import Text

    coloured = text.table(report, colour=True)
    assert "\x1b[" in coloured
    plain = [line.rstrip() for line in Text.from_ansi(coloured).plain.splitlines()]
    assert "\n".join(plain).strip() == text.table(report).strip()


def test_the_summary_says_which_variants_are_as_fast_as_the_fastest():
    """One of two that cannot be told apart has the smaller median by chance: it is not the fastest alone."""
    bench = Bench(FakeClock(noise=0.02, seed=1))
    for name, cost in (("plain", 2e-3), ("quick", 5e-4), ("as-quick", 5e-4), ("slower", 6e-4)):
        bench.variant(name, cost)
    bench.variant("lossy", 5e-4, gives_up="half of it")
    result = bench.measure(Plan(rounds=24, budget_s=1e9))
    found = Report(1, False, "", "", None, Workload(), measurements=result.measurements)
    (note,) = tables.summary(found).notes
    assert note == "decode/number: these readings cannot tell as-quick from quick"


def test_a_gain_that_cannot_be_told_is_no_gain():
    bench = Bench(FakeClock(noise=0.02, seed=1))
    bench.variant("plain", 1e-3)
    bench.variant("alike", 1e-3)
    result = bench.measure(Plan(rounds=24, budget_s=1e9))
    found = Report(1, False, "", "", None, Workload(), measurements=result.measurements)
    assert tables.verdict(found) == "Nothing that was measured can be told to be faster than its reference."


@pytest.mark.parametrize(
    ("ratio", "said"),
    [
        (Ratio(0.5, 0.4, 0.625, 0.95), "2.00× (1.60–2.50)"),
        (Ratio(1.0, 1.0, 1.0, 0.95), "1"),
        (Ratio(1.01, 0.98, 1.03, 0.95), "~ (±3 %)"),
        (None, ""),
    ],
)
def test_a_gain_is_said_in_times_as_fast_or_not_at_all(ratio, said):
    assert tables.gain(ratio) == said
