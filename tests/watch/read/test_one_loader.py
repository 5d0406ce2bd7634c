"""`--loader N` limits the tables. What is said of the run is of all its loaders."""

from __future__ import annotations

import pytest
from planted_runs import MS, TRAINS, Planted

from pipebench.render import watched
from pipebench.results import report
from pipebench.results.watched import WatchResult
from pipebench.watch.read import growing, summary
from pipebench.watch.read.each_loader import loader_result, stage_results
from pipebench.watch.read.gather import Process
from pipebench.watch.read.summary import summarise
from pipebench.watch.record.options import WatchOptions
from pipebench.watch.record.spent import TimeSpent


def _result(run: Planted, loader: int | None) -> WatchResult:
    lines = [*run.lines, TimeSpent(run.now, run.now + MS, MS, "after")]
    return summarise([Process(lines)], WatchOptions(loader=loader), 0, 4, lived=(0, run.now + MS))


def _two() -> Planted:
    """Loader 1 has a slow sampler; loader 2 has no cause of waits."""
    run = Planted()
    run.loader(**TRAINS, sampler=1000)
    run.loader(2, **TRAINS)
    return run


def test_what_another_loader_wastes_is_said_in_text_and_json() -> None:
    run = _two()
    of_run, of_loader = _result(run, None), _result(run, 2)
    assert (of_loader.loaders_in_loop, [one.loader for one in of_loader.loaders]) == ((2,), [2])
    assert of_loader.loop[0].s_per_iteration == 0
    for name in ("verdict", "next_move", "account"):
        assert getattr(of_loader, name) == getattr(of_run, name)
    text = " ".join(watched.whole(of_loader, None).split())
    assert text.startswith("The sampler of loader 1 took 1.00 s of the run's ") and "Nothing in the loops" not in text
    found = report.new(watched=of_loader).verdict
    assert found is not None and (found.code, found.evidence["cause"]) == ("data", "sampler")


def test_the_loader_with_the_waste_has_the_same_beginning() -> None:
    run = _two()
    assert _result(run, 1).account == _result(run, None).account


def test_the_records_of_each_loader_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: dict[str, list[int]] = {"loaders": [], "stages": [], "grown": []}
    monkeypatch.setattr(
        summary, "loader_result", lambda run, one: read["loaders"].append(one.loader) or loader_result(run, one)
    )
    monkeypatch.setattr(
        summary, "stage_results", lambda run, one: read["stages"].append(one) or stage_results(run, one)
    )
    monkeypatch.setattr(growing, "_of_loop", lambda run, one: read["grown"].append(one))
    _result(_two(), 2)
    assert read == {"loaders": [1, 2], "stages": [1, 2], "grown": [1, 2]}


def test_a_loader_that_was_not_iterated_has_no_causes() -> None:
    run = Planted()
    run.loader(**TRAINS, pin=1000)
    result = _result(run, 9)
    assert result.account is not None and result.account.causes == ()
    found = report.new(watched=result).verdict
    assert found is not None and found.code == "no-such-loader"
    assert watched.whole(result, None).startswith("There is no loader 9, which --loader asks for: the script")
