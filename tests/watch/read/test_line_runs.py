"""How often lines run, and what is said of those that work on one element at a time."""

from __future__ import annotations

from typing import Any

import pytest

from pipebench.render.watch_drilled import drilled
from pipebench.render.watch_verdict import known_line
from pipebench.results.drilled import DrilledLine, DrilledRow, Runs
from pipebench.watch.read.gather import Process, Run, ShownTime
from pipebench.watch.read.known_arrays import OF_LISTS
from pipebench.watch.read.known_elements import CODES, ITEMS
from pipebench.watch.read.line_runs import Counts, Place, counts_of, with_runs
from pipebench.watch.read.slow_line import slow_line
from pipebench.watch.record.lines import LoaderFound, ProcessStarted
from pipebench.watch.record.sample_calls import LineRun, LineRuns
from pipebench.watch.record.trial_lines import LineLooks

DATA = "/home/me/data.py"
TEXT = """\
def encode(self, text):
    rows = []
    for one in text:
        code = self.table.get(one)
        rows.append(code)
    return torch.tensor(rows)
""".splitlines(keepends=True)


def _text(file: str, line: int) -> str:
    return TEXT[line - 1] if 0 < line <= len(TEXT) else ""


def _run(*lines: LineRuns) -> Run:
    script = Process([ProcessStarted(9, "script", 0), LoaderFound(1, "Genes", 2, 8, "fork", 2)])
    worker = Process([ProcessStarted(10, "worker", 7, 1, 0, "fork"), *lines])
    return Run([script, worker], ShownTime(), (1,))


def _counted(
    per: Any, runs: int, part: Any = "", *, line: int = 4, whole: bool = True, each_us: float = 2.0
) -> LineRuns:
    return LineRuns(1, per, part, whole, int(1000 * each_us * runs), [LineRun(DATA, line, runs)])


def _rows(run: Run, *lines: DrilledLine, kind: str = "getitem") -> list[DrilledLine]:
    row = DrilledRow(1, "encode", kind, 1.0, 100, 0, lines)
    return list(with_runs([row], run, _text)[0].lines)


def _line(at: int = 4, share: float = 0.9, calls: str = "", text: str = "", **more: Any) -> DrilledLine:
    return DrilledLine(DATA, "Genes.encode", at, calls, text or _text(DATA, at).strip(), 9, share, 0.0, 1.0, **more)


def test_the_mean_of_all_that_were_counted_and_the_sum_of_the_parts_of_an_iteration() -> None:
    run = _run(
        _counted("sample", 90), _counted("sample", 110), _counted("iteration", 5, "before"),
        _counted("iteration", 7, "after", whole=False), _counted("iteration", 9, "after", line=5),
    )  # fmt: skip
    counts = counts_of(run, 1)
    assert counts.of["sample"] == {Place(DATA, 4): Runs(100, "sample", "about", each_s=pytest.approx(2e-6))}
    found = counts.of["iteration"][Place(DATA, 4)]
    assert (found.times, found.sure) == (5 + 4, "more than")  # of two iterations, it ran behind the step in one
    assert not counts.of["batch"] and not counts_of(run, 2).of["sample"] and counts.samples == 8


def test_a_line_that_runs_for_each_element_is_told_with_what_is_written_instead() -> None:
    (line,) = _rows(_run(_counted("sample", 6000)), _line())
    assert known_line(line).startswith(
        "change data.py:4 (Genes.encode, runs 6,000 times a sample) to codes looked up once. Python looks up "
    )
    row = DrilledRow(1, "encode", "getitem", 1.0, 9, 0, (line,))
    assert "runs 6,000 times a sample: code = " in drilled(row, full=True).rows[0][0]


@pytest.mark.parametrize(
    ("counted", "line", "told"),
    [
        (_counted("sample", 100, each_us=39), _line(), True),
        (_counted("sample", 99), _line(), False),
        (_counted("sample", 100, each_us=41), _line(), False),  # that may be work on many elements
        (_counted("sample", 100, each_us=41, whole=False), _line(), False),
        (_counted("sample", 900), _line(calls="re.sub"), False),
        (_counted("sample", 900), _line(calls="torch.Tensor.__iter__"), True),
        (_counted("sample", 900), _line(text="total += p.grad.norm().item()"), False),
    ],
)
def test_what_takes_longer_or_is_about_other_things_is_only_counted(
    counted: LineRuns, line: DrilledLine, told: bool
) -> None:
    (found,) = _rows(_run(counted), line)
    assert found.runs is not None and found.runs.times == counted.lines[0].runs
    assert bool(found.title) == told


@pytest.mark.parametrize(("runs", "each_us", "told"), [(64, 2, False), (101, 9, True), (48, 1, False), (101, 15, True)])
def test_what_runs_once_for_each_sample_of_a_batch_is_not_work_on_elements(
    runs: int, each_us: float, told: bool
) -> None:
    (found,) = _rows(_run(_counted("batch", runs, "collate", each_us=each_us)), _line(), kind="collate")
    assert bool(found.title) == told
    large = Process([ProcessStarted(9, "script", 0), LoaderFound(1, "Genes", 2, 256, "fork", 2)])
    worker = Process([ProcessStarted(10, "worker", 7, 1, 0, "fork"), _counted("batch", 256, "collate", each_us=15)])
    (found,) = _rows(Run([large, worker], ShownTime(), (1,)), _line(), kind="collate")
    assert found.runs and not found.title


def test_a_list_that_becomes_an_array_belongs_to_the_loop_that_fills_it() -> None:
    run, becomes = _run(_counted("sample", 6000)), _line(6, 0.6, title=OF_LISTS, how=("Keep arrays.",))
    first, second = _rows(run, _line(share=0.3), becomes)
    assert second.title == first.title == CODES.title
    assert second.how[0] == "A Python loop at data.py:4 (runs 6,000 times a sample) fills its list."
    _, second = _rows(run, _line(share=0.1), becomes)
    assert second.title == OF_LISTS
    other = _line(6, 0.6, text="x = torch.tensor(self.items)", title=OF_LISTS)
    assert _rows(run, _line(share=0.3), other)[1].title == OF_LISTS


def test_a_line_of_a_loop_is_known_by_how_often_it_runs() -> None:
    line = LineLooks(DATA, "confusion", 4, "", 40)
    counts = counts_of(_run(_counted("iteration", 4096, "after")), 1)
    found = slow_line([line], counts, lambda file, at: "")
    assert (found["title"], found["runs"], found["runs_sure"]) == (ITEMS.title, 4096, "")
    slow = Runs(4096, "iteration", each_s=1.0)
    rare: Any = {"sample": {}, "batch": {}, "iteration": {Place(DATA, 4): slow}}
    assert "title" not in slow_line([line], Counts(rare, 1.0), lambda file, at: "")
    assert "runs" not in slow_line([line._replace(line=21)], counts, lambda file, at: "")


def test_a_loop_that_waits_by_the_clock_works_on_no_elements() -> None:
    counts = counts_of(_run(_counted("iteration", 4096, "after")), 1)
    line = LineLooks(DATA, "confusion", 4, "", 40)
    assert "title" not in slow_line([line], counts, lambda file, at: "while time.perf_counter() - began < 0.004: pass")
