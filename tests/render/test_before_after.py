"""The text of two reports held against each other, to the letter."""

from dataclasses import replace
from pathlib import Path

import pytest
from saved_pairs import PAIRS, advised, lab, root, watched

from pipebench.before_after.whole import compared
from pipebench.render import before_after, text, watch_account
from pipebench.render.before_after_rows import by_size
from pipebench.render.cells import rounded
from pipebench.results.before_after import BeforeAfter, Differing, Row, Side
from pipebench.results.comparison import GATE_PASSED, NO_RESULT
from pipebench.stats import Speedup

GOLDEN = Path(__file__).parent / "golden"
FILES = Path("some/base.json"), Path("some/head.json")


def _report(kind, **more):
    return root(before_after=compared(*PAIRS[kind], FILES, **more))


def _golden(name, found):
    """To accept a change of wording: delete tests/render/golden/NAME, run this, and read the new file."""
    path = GOLDEN / name
    if not path.exists():
        path.write_text(found)
        pytest.fail(f"{name} did not exist: read what was written")
    assert found == path.read_text()


@pytest.mark.parametrize("kind", PAIRS)
def test_the_table_to_the_letter(kind):
    _golden(f"compare-{kind}-80.txt", text.table(_report(kind, fail_above=0.05), width=80))


@pytest.mark.parametrize("kind", ["run", "watch"])
def test_markdown_to_the_letter(kind):
    _golden(f"compare-{kind}.md", text.markdown(_report(kind)))


def test_every_row_behind_full_and_the_verdict_again():
    report = _report("watch")
    said = text.table(report, width=80, full=True)
    rows = [one for one in report.before_after.rows if one.group != "run"]
    assert all(one.name in said for one in rows if one.group == "iteration")
    large = [one for one in rows if one.group == "account" and max(one.base, one.head) > 0.1]
    assert large and all(watch_account.LONG.get(one.name, one.name) in said for one in large)
    assert said.splitlines()[0] == said.splitlines()[-2] and said.count("Wait 60 % → 8 %") == 2


def test_names_from_reports_are_inert():
    base, head = (_with_last(lab(seed=seed), variant="\x1b[31m[bold]x[/x]| \u202e") for seed in (0, 1))
    for made in (text.table, text.markdown):
        said = made(root(before_after=compared(base, head, FILES)))
        assert "\x1b" not in said and "\u202e" not in said


def _with_last(report, **changes):
    """The report with its last row, which is another one then, changed."""
    last = replace(report.measurements[-1], **changes)
    return replace(report, measurements=(*report.measurements[:-1], last))


def test_markdown_calls_nobody():
    """GitHub notifies whoever a comment names after an @. A comment of HTML between them is not shown."""
    base, head = (_with_last(lab(seed=seed), variant="fast@octocat/team@ me") for seed in (0, 1))
    said = text.markdown(root(before_after=compared(base, head, FILES)))
    assert "@octocat" not in said and "fast@<!-- -->octocat/team@ me" in said


def test_what_is_forced_is_said_first():
    base = lab()
    head = replace(lab(seed=1), data=replace(base.data, images=65))
    found = compared(base, head, FILES, force=True)
    assert before_after.verdict(found).startswith("Not of the same machine, workload or data.")


def test_a_watched_run_without_a_difference_says_so():
    found = compared(watched(), watched(), FILES)
    assert before_after.verdict(found).startswith("Wait ~ (60 % → 60 % of an iteration); samples/s ~ (1.0×;")


@pytest.mark.parametrize("sides", [("head",), ("base",), ("base", "head")])
def test_a_run_that_ended_early_is_said_first_and_passes_no_gate(sides):
    """What it has may be as fast as before. What it would have had is not known."""
    pair = {"base": lab(), "head": lab(seed=2)}
    pair = [replace(one, partial=name in sides) for name, one in pair.items()]
    found = compared(*pair, FILES, fail_above=0.05)
    early = "Both runs ended early" if len(sides) == 2 else f"The run of the {sides[0]} ended early"
    assert before_after.verdict(found).startswith(f"{early}. ")
    assert found.gate == NO_RESULT and before_after.no_result(found) == early[:1].lower() + early[1:]


def _with_workers(report, workers, cpu):
    first, *others = report.watched.loaders
    first = replace(first, workers=workers, sample_cpu_s=cpu * first.sample_cpu_s)
    return replace(report, watched=replace(report.watched, loaders=(first, *others)))


def _counts(*after):
    rows = [Row("study", f"count {place}", "count", 0, one, None, True) for place, one in enumerate(after)]
    return replace(BeforeAfter("study", Side("a"), Side("b"), tuple(rows)), fail_above=None)


def test_exact_counts_are_told_and_what_rose_from_0_changed_most():
    assert before_after.verdict(_counts(0, 0, 4, 0)) == "More: study/count 2 0 → 4. 3 counts are the same."
    assert before_after.verdict(_counts(0)) == "1 count is the same."
    over = replace(_counts(4, 0), fail_above=0.05)
    assert before_after.verdict(over) == "More by over 5.0 %: study/count 0 0 → 4. 1 count is the same."
    rows = [Row("study", f"row {one}", "count", one, one + 1) for one in (9, 1, 0)]
    assert [one.name for one in by_size(rows)] == ["row 0", "row 1", "row 9"]


def test_a_variant_that_failed_in_the_head_is_said_first_and_is_not_only_in_the_base():
    base, head = lab(), lab(seed=2)
    failed = replace(head.measurements[1], failed="RuntimeError", summary=None)
    head = replace(head, measurements=(head.measurements[0], failed, *head.measurements[3:]))
    said = text.table(root(before_after=compared(base, head, FILES)), width=80)
    assert said.startswith("Failed in the head: decode/rgb: quick. No difference")
    assert "Rows only in base: decode/rgb: usual." in said


def test_a_cut_account_keeps_the_whole_run():
    """Found with a real pair, whose text had more lines than a screen."""
    long = Differing("script", "command line", "of a long name " * 12, "of a long name " * 20)
    found = replace(compared(*PAIRS["watch"], FILES), differing=(long,))
    said = text.table(root(before_after=found), width=80)
    assert len(said.splitlines()) <= 30 and "more rows\n" in said
    assert "\nwhole run " in said and "\nsmaller rows " not in said


def test_names_of_other_rows_make_room_for_the_rows():
    """Found with two real reports of advise: the table was left out, and below it stood what only one of them has."""
    found = replace(compared(*PAIRS["watch"], FILES), only_base=("of a long name " * 12,) * 3)
    said = text.table(root(before_after=found), width=80)
    assert "a sample, CPU time" in said and "of a long name" not in said and "--full shows every" in said
    assert "of a long name" in text.table(root(before_after=found), width=80, full=True)


def test_a_row_beside_the_gate_that_is_slower_for_certain_is_in_the_verdict():
    """CPU time between other numbers of workers: the gate is not about it, and says so."""
    found = compared(watched(), _with_workers(watched(), 4, 3.0), FILES, fail_above=0.05)
    assert "Slower for certain, and not in the gate: a sample, CPU time 0.33×." in before_after.verdict(found)
    assert root(before_after=found).verdict.evidence["slower_beside"] == ("sample: CPU time",)


def test_what_is_slower_beside_the_gate_passes_it_only_if_the_rates_are_faster():
    """The loop may be slower too: a gate that is passed would hide it."""
    slower = _with_workers(watched(), 4, 3.0)
    found = compared(watched(), slower, FILES, fail_above=0.05)
    said = " ".join(text.table(root(before_after=found), width=80).split())
    assert (
        found.gate == NO_RESULT
        and (
            "The gate of 5.0 % has no result: it is not about a sample, CPU time, slower for certain, and no rate is "
            "told to be faster all the same."
        )
        in said
    )
    loader = replace(slower.watched.loaders[0], s_per_iteration=0.01)
    faster = replace(slower, watched=replace(slower.watched, loaders=(loader, *slower.watched.loaders[1:])))
    found = compared(watched(), faster, FILES, fail_above=0.05)
    said = " ".join(text.table(root(before_after=found), width=80).split())
    assert (
        found.gate == GATE_PASSED
        and ("is passed. Judged: samples/s, loader 1. Not judged: a sample, CPU time (other numbers of workers); ")
        in said
    )


def test_a_remedy_that_gains_less_than_before_is_in_the_verdict():
    said = before_after.verdict(compared(advised(2.6), advised(1.6), FILES))
    assert said.endswith(" Gains less for certain: num_workers=6 2.60× → 1.60×.")
    assert "Gains less" not in before_after.verdict(compared(advised(2.6), advised(2.5), FILES))


@pytest.mark.parametrize(
    ("of", "said"),
    [
        ((2.0, 1.91, 2.10), "2.00×"),
        ((2.79, 2.36, 3.30), "2.8×"),
        ((1.57, 0.23, 10.8), "2×"),
        ((0.033, 0.027, 0.041), "0.033×"),
        ((0.3, 0.01, 4.0), "0.3×"),
        ((1.0, 1.0, 1.0), "1.00×"),
        ((123.4, 120.0, 127.0), "123×"),
    ],
)
def test_a_speed_up_alone_has_the_digits_that_its_interval_leaves(of, said):
    assert rounded(Speedup(*of, 0.95)) == said
