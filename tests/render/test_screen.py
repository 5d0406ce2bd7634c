"""The rules of the terminal, for every kind of report: 30 lines of 80 columns (48 of a watched run), the verdict first.

No sign is in it that the terminal lacks.
"""

import sys
from dataclasses import replace
from pathlib import Path

import made_up
import pytest
from rich.cells import cell_len

sys.path.insert(0, str(Path(__file__).parents[1] / "faults"))
import every_report

from pipebench.render import layout, screen, signs, text
from pipebench.render.cells import Table
from pipebench.render.layout import Line, Spare
from pipebench.results import report
from pipebench.results.measurement import Skipped, Warning

LAB = every_report.EXAMPLES["lab"]
STUDY = every_report.EXAMPLES["study"].studies[0]
POINT = made_up.SYNCS.points[0]
LONG = {  # more rows than any screen has
    "ab": report.new(comparison=replace(made_up.COMPARISON, changes=made_up.COMPARISON.changes * 7)),
    "syncs": report.new(sync_points=replace(made_up.SYNCS, points=(POINT,) * 40)),
    "study": report.new(studies=(replace(STUDY, rows=STUDY.rows * 7),)),
    "calibrate": report.new(calibration=replace(made_up.CALIBRATION, rows=made_up.CALIBRATION.rows * 12)),
    "run": replace(LAB, measurements=tuple(
        replace(one, task=f"{one.task}-{number}") for number in range(12) for one in LAB.measurements
    )),
}  # fmt: skip
REPORTS = {**every_report.EXAMPLES, **{f"long {name}": found for name, found in LONG.items()}}


@pytest.mark.parametrize("name", REPORTS)
def test_every_report_fits_a_screen_and_all_of_it_ends_with_its_verdict(name):
    lines = text.table(REPORTS[name], width=80).splitlines()
    of_run = REPORTS[name].watched is not None and REPORTS[name].advice is None
    assert len(lines) <= (48 if of_run else 30), "\n".join(lines)
    assert max(map(cell_len, lines)) <= 80
    full = text.table(REPORTS[name], width=80, full=True).splitlines()
    assert max(map(cell_len, full)) <= 80
    if len(full) > 36:  # without the verdict at the end, which is what is looked for
        assert any(full[:said] == full[-said:] for said in range(1, 12)), full[-1]


@pytest.mark.parametrize("name", LONG)
def test_a_report_that_was_shortened_says_how_to_get_the_rest(name):
    assert "--full" in text.table(LONG[name], width=80)
    assert (
        text.table(LONG[name], width=80).splitlines()[0] == text.table(LONG[name], width=80, full=True).splitlines()[0]
    )


@pytest.mark.parametrize("name", REPORTS)
def test_an_output_without_our_signs_gets_others(name):
    """Nothing of ours is left that has to be escaped. The hostile names of made-up reports may be."""
    lacking = signs.missing("ascii")
    for full in (False, True):
        shown = text.table(REPORTS[name], width=80, full=full, lacking=lacking)
        assert max(map(cell_len, shown.splitlines())) <= 80
        assert not set(shown) & lacking
        assert {char for char in shown if not char.isascii()} <= {"目"}


def test_bars_and_rules_keep_their_width_in_ascii():
    table = Table("t", ("name", "×"), (("a–b", "█" * 8),), frozenset())
    assert layout.text([table], lacking=signs.missing("ascii")) == "t\nname   x\n---------------\na-b    ########\n"
    assert "█" in layout.text([table], lacking=signs.missing("utf-8"))
    assert signs.missing("latin-1") >= {"█", "–"} and "×" not in signs.missing("latin-1")


def _rows(number):
    return Table("t", ("name", "s"), tuple((f"row {one}", "1") for one in range(number)), frozenset({1}), ("a note",))


def _fitted(*parts):
    return layout.text(screen.fitted(parts, 80, "more"), width=80).splitlines()


def test_spare_parts_go_first_and_the_lowest_order_before_the_others():
    first, later = Spare(("first",) * 5, 1), Spare(("later",) * 5, 2)
    assert len(_fitted(first, later, *["kept"] * 20)) == 30
    assert _fitted(first, later, *["kept"] * 21) == [*["later"] * 5, *["kept"] * 21, "more"]
    assert _fitted(first, later, *["kept"] * 26) == [*["kept"] * 26, "more"]


def test_then_notes_and_rows_of_tables_and_what_is_left_out_is_counted():
    lines = _fitted(Line("verdict", "bold"), _rows(100), "", "next")
    assert len(lines) == 30 and lines[0] == "verdict" and lines[-2:] == ["next", "more"]
    (rest,) = [line for line in lines if "more rows" in line]
    assert rest == f"  and {100 - sum(line.startswith('row') for line in lines)} more rows"


def test_sums_at_the_end_of_a_table_are_kept():
    lines = _fitted(Line("verdict", "bold"), replace(_rows(100), kept=2), "", "next")
    assert len(lines) == 30 and sum(line.startswith(("row 98", "row 99")) for line in lines) == 2
    (rest,) = [line for line in lines if "more rows" in line]
    assert rest == f"  and {100 - sum(line.startswith('row') for line in lines)} more rows"


def test_at_last_the_middle_goes():
    lines = _fitted(*[f"line {number}" for number in range(100)])
    assert len(lines) <= 30
    assert lines[0] == "line 0" and lines[-1] == "more" and "…" in lines


def test_no_column_is_empty():
    rows = (("a", "", "1", ""), ("b", "", "2", "x"))
    table = Table("t", ("name", "nothing", "s", "note"), rows, frozenset({2}), spare=(3, 1))
    shown = layout.text([table])
    assert "nothing" not in shown and "note" in shown
    assert "nothing" not in layout.markdown([table])
    assert table.filled().headers == ("name", "s", "note") and table.filled().spare == (2,)


def test_noise_is_one_line_for_the_whole_run():
    load = Warning("foreign-load", "other processes used 30 % of a core", "stop them", 0.3)
    wide = Warning("unstable", "±40 % between 5 processes", "a quieter machine", 0.4)
    less = replace(wide, problem="±12 % between 5 processes", severity=0.12)
    rows = tuple(replace(one, warnings=(load, less)) for one in LAB.measurements)
    rows = (replace(rows[0], warnings=(load, wide)), *rows[1:])
    left_out = replace(rows[0], summary=None, readings_s=(), warnings=(), skipped=Skipped("no-package", "no package"))
    noisy = replace(LAB, measurements=(*rows, left_out), loader=None, training=None, ceilings=())
    shown = " ".join(text.table(noisy, width=80).split())
    timed = sum(not one.skipped for one in rows)
    assert f"Noise in {timed} of {timed} rows." in shown
    assert "At worst: ±40 % between 5 processes (a quieter machine)." in shown and "30 %" not in shown
    full = " ".join(text.table(noisy, width=80, full=True).split())
    assert full.count("Noise in ") == 1 and full.count("other processes used 30 %") == 1 and "±12 % between" not in full


def test_a_task_that_was_skipped_is_a_line_and_no_table():
    row = next(one for one in LAB.measurements if one.summary)
    why = Skipped("no-device", "needs a CUDA device")
    skipped = replace(row, task="transfer/batch", stage="transfer", summary=None, readings_s=(), skipped=why)
    for full in (False, True):
        shown = text.table(replace(LAB, measurements=(*LAB.measurements, skipped)), width=80, full=full)
        lines = [line for line in shown.splitlines() if "transfer" in line]
        assert lines == ["transfer/batch: needs a CUDA device"]


def test_what_is_spared_late_goes_after_rows_and_before_the_middle():
    table = Table("t", ("a",), tuple((f"row {number}",) for number in range(8)), frozenset(), ("a note",))
    causes = Spare(tuple(f"cause {number}" for number in range(6)), screen.LATE)
    little, much = ([causes, table, *(f"code {number}" for number in range(most))] for most in (14, 20))
    short, shorter = (layout.text(screen.fitted(one, 80, "more"), width=80) for one in (little, much))
    assert "cause 5" in short and "row 7" not in short and "code 13" in short
    assert "cause" not in shorter and "code 10" in shorter and "…" not in shorter
