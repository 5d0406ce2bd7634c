"""The table of functions that tests gave: its text from made-up measurements."""

import dataclasses

from pipebench.render import layout, text
from pipebench.render.cells import Table
from pipebench.render.functions import table
from pipebench.results import report as reports
from pipebench.results.measurement import Measurement, Warning
from pipebench.stats import Speedup, summarize
from pipebench.task import Workload


def made(test, function, cost_s, **more):
    readings = (cost_s, cost_s * 1.01, cost_s * 0.99) * 4
    summary = summarize(readings, 1, 1)
    return Measurement("pytest", f"pytest/{test}", function, Workload(), readings, summary=summary, **more)


LOAD = Warning("foreign-load", "other processes used 50 % of a core", "measure for longer (--rigorous)", 0.5)
ALONE = made("tests/test_a.py::test_read", "read", 0.0123, warnings=(LOAD,))
PAIR = (
    made("tests/test_a.py::test_two", "slow", 0.0002, over_reference=Speedup(1.0, 1.0, 1.0, 0.95), warnings=(LOAD,)),
    made("tests/test_a.py::test_two", "fast", 0.0001, over_reference=Speedup(2.0, 1.9, 2.1, 0.95)),
)


def test_functions_that_are_compared_have_their_names_and_speed_ups():
    assert layout.text([table([ALONE, *PAIR])], width=80) == (
        "Functions of the tests\n"
        "test                              a call                   speed-up\n"
        "───────────────────────────────────────────────────────────────────\n"
        "tests/test_a.py::test_read       12.3 ms   ±1 %\n"
        "tests/test_a.py::test_two slow    200 µs   ±1 %                   1\n"
        "tests/test_a.py::test_two fast    100 µs   ±1 %   2.00× (1.90–2.10)\n"
        "  speed-up: time of the test's first function / time of this one; above 1 it is\n"
        "  faster.\n"
        "  tests/test_a.py::test_read: other processes used 50 % of a core (and 1 more)\n"
    )


def test_without_a_comparison_there_is_no_column_for_it():
    assert table([ALONE]).headers == ("test", "a call", "") and table([ALONE]).notes == (
        "tests/test_a.py::test_read: other processes used 50 % of a core",
    )


def test_a_report_of_tests_says_on_which_machine_and_how_far_its_intervals_hold():
    shown = text.table(reports.new(measurements=(ALONE,)))
    assert shown.startswith("Functions of the tests\n")
    assert "Python 3" in shown and "95 % intervals for one process" in shown


def test_rows_whose_shortened_names_would_look_alike_are_not_shortened():
    """As in an asv suite, where only a parameter in the middle tells two rows apart."""
    names = [f"asv/decode.RGB.time_sample('{variant}', 'photographs', 'original')" for variant in ("pillow", "opencv")]
    found = Table(
        "", ("benchmark", "base ms", "head ms"), tuple((name, "1.00", "2.00") for name in names), frozenset({1, 2})
    )
    shown = layout.text([found], width=60)
    assert "'pillow'" in shown and "'opencv'" in shown and "…" not in shown
    apart = dataclasses.replace(found, rows=(found.rows[0], ("read/image", "1.00", "2.00")))
    assert "…" in layout.text([apart], width=60)


def test_the_first_names_stay_different_whatever_else_a_row_holds():
    rows = [
        (f"→ num_workers={count}, persistent_workers=True", "2.67×", f"+{count} processes, much memory")
        for count in (2, 4)
    ]
    shown = layout.text([Table("", ("remedy", "gain", "cost"), tuple(rows), frozenset({1}))], width=60)
    assert "num_workers=2," in shown and "num_workers=4," in shown
