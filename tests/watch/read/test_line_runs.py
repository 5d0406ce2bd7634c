"""How often lines run, and what is said of those that work on one element at a time."""

from __future__ import annotations

from typing import Any

import pytest

from pipebench.render.watch_drilled import drilled
from pipebench.render.watch_verdict import known_line
from pipebench.results.drilled import DrilledLine, DrilledRow, Runs
from pipebench.results.watched import StageResult
from pipebench.watch.read.gather import Process, Run, ShownTime
from pipebench.watch.read.known_arrays import NESTED, OF_LISTS
from pipebench.watch.read.line_runs import Place, runs_of_lines, with_runs
from pipebench.watch.read.slow_line import Iteration, slow_line
from pipebench.watch.record.lines import LoaderFound, ProcessStarted
from pipebench.watch.record.sample_calls import LineRun, LineRuns
from pipebench.watch.record.trial_lines import LineLooks

DATA = "/home/me/data.py"


def _run(*lines: LineRuns) -> Run:
    script = Process([ProcessStarted(9, "script", 0), LoaderFound(1, "Genes", 2, 8, "fork", 2)])
    worker = Process([ProcessStarted(10, "worker", 7, 1, 0, "fork"), *lines])
    return Run([script, worker], ShownTime(), (1,))


def _counted(per: Any, runs: int, part: Any = "", line: int = 20, whole: bool = True) -> LineRuns:
    return LineRuns(1, per, part, whole, [LineRun(DATA, line, runs)])


def _row(run: Run, *shares: float, kind: str = "getitem", sample_s: float = 0.001, **more: Any) -> list[DrilledLine]:
    lines = tuple(
        DrilledLine(DATA, "Genes.encode", 20 + at, "", "x = 1", 9, share, 0.0, 1.0, **more if at else {})
        for at, share in enumerate(shares)
    )
    row = DrilledRow(1, "encode", kind, 1.0, 100, 0, lines)
    stage = StageResult("encode", kind, 1, 100, sample_s, 1.0)
    return list(with_runs([row], [stage], run)[0].lines)


def test_the_mean_of_samples_and_the_sum_of_the_parts_of_an_iteration() -> None:
    run = _run(
        _counted("sample", 90), _counted("sample", 110), _counted("iteration", 5, "before"),
        _counted("iteration", 7, "after", whole=False), _counted("iteration", 9, "after"),
    )  # fmt: skip
    found = runs_of_lines(run, 1)
    assert found["sample"] == {Place(DATA, 20): Runs(100, "sample")}
    assert found["iteration"] == {Place(DATA, 20): Runs(13, "iteration", least=True)}
    assert not found["batch"] and not runs_of_lines(run, 2)["sample"]


def test_a_line_that_runs_for_each_element_is_told_with_what_is_written_instead() -> None:
    (line,) = _row(_run(_counted("sample", 6000)), 0.9)
    assert known_line(line).startswith(
        "change data.py:20 (Genes.encode, runs 6,000 times a sample) to operations on whole arrays. Python visits"
    )
    (row,) = with_runs([DrilledRow(1, "encode", "getitem", 1.0, 9, 0, (line,))], [], _run(_counted("sample", 6000)))
    assert "runs 6,000 times a sample: x = 1" in drilled(row, full=True).rows[0][0]


@pytest.mark.parametrize(
    ("runs", "sample_s"),
    [(99, 0.001), (100, 0.0034)],  # few, or each one takes more than 30 microseconds
)
def test_few_runs_or_long_ones_are_only_counted(runs: int, sample_s: float) -> None:
    (line,) = _row(_run(_counted("sample", runs)), 0.9, sample_s=sample_s)
    assert line.runs == Runs(runs, "sample") and not line.title


def test_what_puts_a_batch_together_is_judged_by_the_time_of_a_batch() -> None:
    counted = _run(_counted("batch", 100, "collate"))
    assert _row(counted, 0.9, kind="collate", sample_s=0.0003)[0].title  # 8 samples: 2.2 ms of a batch
    assert not _row(counted, 0.9, kind="collate", sample_s=0.0005)[0].title


def test_a_list_that_becomes_an_array_belongs_to_the_loop_that_fills_it() -> None:
    run = _run(_counted("sample", 6000))
    first, second = _row(run, 0.3, 0.6, title=OF_LISTS[0], how=("Keep arrays.",))
    assert second.title == first.title == NESTED.title
    assert second.how[0] == "A Python loop at data.py:20 (runs 6,000 times a sample) fills its list."
    _, second = _row(run, 0.1, 0.6, title=OF_LISTS[0], how=("Keep arrays.",))
    assert second.title == OF_LISTS[0]


def test_a_line_of_a_loop_is_known_by_how_often_it_runs() -> None:
    line = LineLooks(DATA, "confusion", 20, "", 40)
    its = Iteration({Place(DATA, 20): Runs(4096, "iteration")}, 0.01)
    found = slow_line([line], its, lambda file, at: "")
    assert (found["title"], found["runs"], found["runs_least"]) == (NESTED.title, 4096, 0)
    assert "title" not in slow_line([line], its._replace(took_s=1.0), lambda file, at: "")
    assert "runs" not in slow_line([line._replace(line=21)], its, lambda file, at: "")
