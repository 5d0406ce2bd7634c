"""What a reader sees, to the letter: a report made with a fake clock, and names that would act were they not inert."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from fake import Bench, FakeClock, breaking
from rich.cells import cell_len

from pipebench.errors import BadSample
from pipebench.host.machine import Machine
from pipebench.lab.timing import Plan
from pipebench.render import study, tables, text
from pipebench.render.cells import Table
from pipebench.results.check import Finding, Found
from pipebench.results.loading import LoaderRow, Loading
from pipebench.results.report import BetweenRuns, Data, Report
from pipebench.results.studies import Author, StudyResult
from pipebench.results.training import Training
from pipebench.results.watched import BoundResult, PhaseResult
from pipebench.results.windows import Throughput
from pipebench.stats import Speedup
from pipebench.studies import Rounds, Step, timed
from pipebench.task import Unavailable, Workload
from pipebench.watch.read.summary import summarise
from pipebench.watch.record.options import WatchOptions

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
        schema_version=2,
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


def _full(report, **more):
    return text.table(report, full=True, **more)


@pytest.mark.parametrize(
    ("name", "render"), [("report.txt", text.table), ("report-full.txt", _full), ("report.md", text.markdown)]
)
def test_the_text_to_the_letter(report, name, render):
    """To accept a change of wording: delete tests/render/golden/NAME, run this, and read the new file."""
    path = GOLDEN / name
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        path.write_text(render(report))
        pytest.fail(f"{name} did not exist: read what was written")
    assert render(report) == path.read_text()


@pytest.fixture(scope="module")
def full(report):
    """All that the lab and the studies can put into a report, with its longest names, loader table and notes."""
    clock = FakeClock(noise=0.02, seed=2)
    steps = [
        Step(
            name,
            f"what {name} is, in words that no line of eighty columns can hold",
            _spending(clock, cost),
        )
        for name, cost in (("tar-every-member", 0.01), ("tar-image-only", 0.009), ("decode-and-crop", 0.002))
    ]
    steps[2] = replace(steps[2], author=Author("0.08 s a sample, after 0.13 s", 1.62, "tar-every-member"))
    rows = timed(steps, Rounds(12), lambda done, total, what: None, now=lambda: clock.now)
    rows = [replace(row, count=5.0) for row in rows]
    setting = "web, 16 images a reading, from the page cache; seconds an image on one core"
    study = StudyResult("tar-or-files", "Is it the tar?", "P. Freeman (2022)", "full", "image", setting, tuple(rows))
    loader = tuple(
        LoaderRow(kind, dtype, workers, 64, "fork", (0.1,), (64,), 12_640.0, 12_000.0, 13_100.0, 0.97, 8e-5, 0.2)
        for kind in ("map", "packed", "webdataset", "ready")
        for dtype in ("float32", "uint8")
        for workers in (0, 1, 2, 4, 8)
    )
    rate = Throughput((0.5,) * 12, (640,) * 12, 1_280.0, 1_250.0, 1_310.0, 0.96)
    bound = BoundResult(
        1, 12, 12, rate, rate, rate, rate, Speedup(2.73, 2.61, 2.84, 0.96), Speedup(2.21, 2.11, 2.35, 0.96),
        Speedup(2.95, 2.84, 3.11, 0.96), complete=True,
    )  # fmt: skip
    loop = tuple(PhaseResult(name, share * 0.5, share) for name, share in (("wait", 0.64), ("forward", 0.36)))
    watched = replace(
        summarise([], WatchOptions(bound=True), 0, 4.0),
        bound=bound, loop=loop, wait_share=0.64, startup_s=1.5, start_method="forkserver", notes=(),
    )  # fmt: skip
    consumer = "step/resnet18 on images of 224×224, one CPU thread and as much besides"
    training = Training(consumer, False, 64, Loading(workers=3), watched)
    return replace(report, loader=loader, training=training, studies=(study,))


def _spending(clock, cost):
    def call():
        clock.spend(cost)
        return 1

    return lambda: call


@pytest.mark.parametrize("width", [80, 120])
def test_no_line_is_wider_than_the_terminal_and_no_row_of_a_table_is_wrapped(full, width):
    shown = _full(full, width=width).splitlines()
    assert max(map(cell_len, shown)) <= width
    assert not any("…" in line for line in shown)
    for one in [*tables.all_tables(full), study.table(full.studies[0])]:
        forms = list(one.narrower())
        for row in one.rows:
            kept = [[cell for cell in cells if cell] for form in forms for cells in form.rows if cells[0] == row[0]]
            assert any(all(cell in line for cell in cells) for cells in kept for line in shown), row


def test_a_wide_terminal_shows_every_column_and_a_narrow_one_those_that_do_not_follow_from_others(full):
    wide, narrow = _full(full, width=120), _full(full, width=80)
    assert "of ceiling" in wide and "of ceiling" in narrow
    assert len(wide.splitlines()) <= len(narrow.splitlines())
    table = Table("t", ("name", "a", "b"), (("n" * 30, "a" * 30, "b" * 30),), frozenset(), spare=(1,))
    assert [form.headers for form in table.narrower()] == [("name", "a", "b"), ("name", "b")]


def test_a_name_that_does_not_fit_loses_its_middle(report):
    """A name of a hundred letters, in every row: figures stay whole, and no row is wrapped."""
    long = replace(report, measurements=tuple(replace(one, variant="n" * 100) for one in report.measurements))
    shown = _full(long, width=80).splitlines()
    assert max(map(cell_len, shown)) <= 80
    rows = [line.split() for line in shown if re.match("n+…n+ ", line)]
    assert [row[1] for row in rows] == ["2,038", "510", "2,037", "306", "failed"]


def test_no_name_from_data_acts_in_any_output(report):
    bad = BadSample("decode", HOSTILE, HOSTILE, HOSTILE, HOSTILE, 0.0)
    hostile = replace(
        report,
        bad_samples=(bad,),
        data=replace(report.data, name=HOSTILE),
        measurements=tuple(replace(one, variant=HOSTILE, library=HOSTILE) for one in report.measurements),
    )
    for shown in (text.table(hostile), _full(hostile), text.markdown(hostile)):
        assert "\x1b" not in shown and "\u202e" not in shown
        assert "\\x1b" in shown
    assert "[bold]x[/x]" in _full(hostile)
    assert "`code`" not in text.markdown(hostile).replace("\\`", "")


def test_colour_adds_styles_and_nothing_else(report):
    from rich.text import Text

    coloured = _full(report, colour=True)
    assert "\x1b[" in coloured
    plain = [line.rstrip() for line in Text.from_ansi(coloured).plain.splitlines()]
    assert "\n".join(plain).strip() == _full(report).strip()


def test_the_summary_says_which_variants_are_as_fast_as_the_fastest():
    """One of two that cannot be told apart has the smaller median by chance: it is not the fastest alone."""
    bench = Bench(FakeClock(noise=0.02, seed=1))
    for name, cost in (("plain", 2e-3), ("quick", 5e-4), ("as-quick", 5e-4), ("slower", 6e-4)):
        bench.variant(name, cost)
    bench.variant("lossy", 5e-4, gives_up="half of it")
    result = bench.measure(Plan(rounds=24, budget_s=1e9))
    found = Report(2, False, "", "", None, Workload(), measurements=result.measurements)
    (note,) = tables.summary(found).notes
    assert note == "decode/number: no measurable difference between as-quick and quick"


def test_what_disagrees_on_a_sample_is_never_the_fastest_and_the_sample_is_not_called_bad():
    bench = Bench(FakeClock(noise=0.02, seed=1))
    bench.variant("plain", 2e-3)
    bench.variant("quick", 1e-3)
    bench.variant("quickest", 5e-4, lambda given: 2 * given if given > 2 else -1)
    result = bench.measure(Plan(rounds=24, budget_s=1e9))
    found = Report(2, False, "", "", None, Workload(), measurements=result.measurements, bad_samples=result.bad_samples)
    ((_, fastest, *_),) = tables.summary(found).rows
    assert fastest == "quick" and "where quick is" in tables.verdict(found)
    notes = " ".join(tables.of_task(found, "decode/number").notes)
    assert "quickest: does not do 3 of 10 samples as the reference does" in notes
    assert tables.bad_samples(found) == []
    assert tables.unlike_samples(found)[0] == "s0: quickest: disagrees: -1 is not 0"
    shown = text.table(found)
    assert "Bad samples" not in shown and "Good samples that some variants do otherwise" in shown


def some_fit(*unfit):
    """A report of ten samples, with the reference and variants that are not made for all."""
    bench = Bench(FakeClock(noise=0.02, seed=1), samples=10, per_call=10)
    bench.variant("plain", 1e-3)
    for number, one in enumerate(unfit):
        bench.variant(f"quick{number}", 5e-4, unfit=one)
    result = bench.measure(Plan(rounds=24, budget_s=1e9))
    return Report(2, False, "", "", None, Workload(), measurements=result.measurements, bad_samples=result.bad_samples)


def test_a_gain_on_a_part_of_the_files_says_on_which():
    found = some_fit(lambda given: {3: "it is PNG", 5: "it is CMYK", 7: "it is PNG"}.get(given))
    assert tables.verdict(found) == (
        "Largest gain: decode/number, where quick0 is 2.00× as fast as the reference on the 7 of 10 files that both do."
    )
    assert (found.verdict.code, found.verdict.evidence["samples_fit"]) == ("largest-gain", 7)
    table = tables.of_task(found, "decode/number")
    assert [row[table.headers.index("files")] for row in table.rows] == ["", "7 of 10"]
    assert [row[table.headers.index("bad")] for row in table.rows] == ["", ""]
    assert "quick0: timed, and compared with the reference, on 7 of 10 files; of the others, 2 are PNG, 1 is CMYK" in (
        table.notes
    )


def test_a_summary_says_that_what_gains_on_a_part_of_the_files_is_not_called_the_fastest():
    """Found with "opencv 1.26× on 13 of 16 files" above "fastest variant: pillow"."""
    found = some_fit(lambda given: "it is PNG" if given == 3 else None)
    other = tuple(replace(one, task="decode/other", samples_unfit=0) for one in found.measurements)
    found = replace(found, measurements=(*found.measurements, *other))
    said = "Fastest of the variants that do all files, so without quick0 (9 of 10)."
    assert text.table(found).count(said) == text.table(found, full=True).count(said) == 1
    assert "Fastest of" not in text.table(replace(found, measurements=other))


def test_files_that_nobody_can_do_are_not_among_those_on_which_a_variant_is_timed():
    bench = Bench(FakeClock(noise=0.02, seed=1), samples=10, per_call=10)
    broken = ValueError("it is broken")
    for name, facts in {"plain": {}, "quick": {"unfit": lambda given: "it is PNG" if given == 3 else None}}.items():
        bench.variant(name, 1e-3, breaking(0, broken, sample=7), **facts)
    result = bench.measure(Plan(rounds=24, budget_s=1e9))
    found = Report(2, False, "", "", None, Workload(), measurements=result.measurements, bad_samples=result.bad_samples)
    table = tables.of_task(found, "decode/number")
    assert [row[table.headers.index("files")] for row in table.rows] == ["", "8 of 10"]
    assert [row[table.headers.index("bad")] for row in table.rows] == ["1/10", "1/10"]


def test_no_gain_is_not_said_of_what_was_not_run():
    found = some_fit(lambda given: "it is PNG", lambda given: "it is PNG")
    assert tables.verdict(found) == (
        "No measurable gain among the variants that ran: none that does the same is measurably faster than its "
        "reference. 2 variants did not run."
    )
    assert found.verdict.evidence["skipped"] == ("decode/number/quick0", "decode/number/quick1")
    assert text.table(found).count("not made for this data: 10 are PNG") == 1


def test_a_summary_says_why_variants_were_skipped():
    found = some_fit(lambda given: "it is PNG", lambda given: "it is PNG")
    other = tuple(replace(one, task="decode/other") for one in found.measurements)
    shown = text.table(replace(found, measurements=(*found.measurements, *other)))
    assert "4 variants skipped: quick0, quick1 (not made for this data: 10 are PNG)" in shown


def test_what_was_noticed_while_listing_is_said_in_a_line(report):
    noticed = (Finding("lacks", "breaks", "lacks a file", "complete it", 3, (Found("a/3.jpg", "no .json"),)),)
    shown = text.table(replace(report, data=replace(report.data, noticed=noticed)))
    assert "a/3.jpg (no .json) and 2 more: lacks a file → complete it" in shown


def test_a_gain_that_is_not_measurable_is_no_gain():
    bench = Bench(FakeClock(noise=0.02, seed=1))
    bench.variant("plain", 1e-3)
    bench.variant("alike", 1e-3)
    result = bench.measure(Plan(rounds=24, budget_s=1e9))
    found = Report(2, False, "", "", None, Workload(), measurements=result.measurements)
    said = "No measurable gain: no variant that does the same is measurably faster than its reference."
    assert tables.verdict(found) == said


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (Speedup(2.0, 1.6, 2.5, 0.95), "2.00× (1.60–2.50)"),
        (Speedup(0.5, 0.4, 0.625, 0.95), "0.50× (0.40–0.62)"),
        (Speedup(1.0, 1.0, 1.0, 0.95), "1"),
        (Speedup(1.01, 0.98, 1.03, 0.95), "~ (±3 %)"),
        (None, ""),
    ],
)
def test_a_gain_is_said_in_times_as_fast_or_not_at_all(found, said):
    assert tables.gain(found) == said


def test_the_intervals_say_what_they_promise_and_what_quick_costs(report):
    """Only readings of several processes say something about another run."""

    def said(*processes, quick=False, known=None):
        rows = tuple(replace(report.measurements[0], readings_per_process=(2,) * count) for count in processes)
        workload = Workload(quick=quick)
        return tables.intervals(
            replace(report, measurements=rows, workload=workload, partial=False, between_runs=known)
        )

    assert said(1) == ["± and (low–high): 95 % intervals for one process. Another run can lie outside of them."]
    assert said(7, 20) == [
        "± and (low–high): 95 % intervals for the figure of another run, from 7 to 20 processes a row.",
        "How much runs differ here is not known yet, and not in them: the first run with these settings.",
    ]
    assert said(7, 20, known=BetweenRuns(3, 0.1, 0.05)) == [
        "± and (low–high): 95 % intervals for the figure of another run, from 7 to 20 processes a row and 3 runs here."
    ]
    assert said(5, quick=True, known=BetweenRuns(3, 0.1, 0.05))[1:] == []
    assert said(5, quick=True)[2] == (
        "Without --quick, up to 20 processes would give intervals up to 2.7 times as narrow. Slow tasks get fewer."
    )
    assert said() == []


def test_the_intervals_of_loader_and_training_promise_nothing_about_another_run(report):
    """Their readings are of one or two starts of the workers, so how far starts differ is not in them."""
    rows = tuple(replace(report.measurements[0], readings_per_process=(1,) * 5) for _ in range(2))

    def said(loader, training):
        lines = tables.intervals(replace(report, measurements=rows, loader=loader, training=training))
        return "Those of the loader and of training are for this run: another can lie outside of them." in lines

    assert said(("a row",), None) and said((), "its training") and not said((), None)


def test_a_quick_report_says_what_it_leaves_out(report):
    rows = tuple(replace(report.measurements[0], readings_per_process=(1,) * 5) for _ in range(2))
    quick = replace(report, measurements=rows, workload=Workload(quick=True), partial=False)
    left_out = "--quick leaves out thp, training beside its bound, and loaders of uint8, packed and webdataset."

    def said(loader, training):
        return left_out in tables.intervals(replace(quick, loader=loader, training=training))

    assert said(("a row",), None) and not said(("a row",), "its training") and not said((), None)
