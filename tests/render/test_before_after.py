"""The text of two reports held against each other, to the letter."""

from dataclasses import replace
from pathlib import Path

import pytest
from saved_pairs import PAIRS, lab, root, watched

from pipebench.before_after.whole import compared
from pipebench.render import before_after, text, watch_account

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
    assert said.splitlines()[0] == said.splitlines()[-2]


def test_names_from_reports_are_inert():
    base, head = (_with_last(lab(seed=seed), variant="\x1b[31m[bold]x[/x]| \u202e") for seed in (0, 1))
    for made in (text.table, text.markdown):
        said = made(root(before_after=compared(base, head, FILES)))
        assert "\x1b" not in said and "\u202e" not in said


def _with_last(report, **changes):
    """The report with its last row, which is another one then, changed."""
    last = replace(report.measurements[-1], **changes)
    return replace(report, measurements=(*report.measurements[:-1], last))


def test_what_is_forced_is_said_first():
    base = lab()
    head = replace(lab(seed=1), data=replace(base.data, images=65))
    found = compared(base, head, FILES, force=True)
    assert before_after.verdict(found).startswith("Not of the same machine, workload or data.")


def test_a_watched_run_without_a_difference_says_so():
    found = compared(watched(), watched(), FILES)
    assert before_after.verdict(found).startswith("Wait 60 % → 60 % of an iteration; samples/s ~ (1.00×")
