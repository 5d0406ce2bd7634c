"""Passports of watched runs, and the command that predicts from them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from made_up_costs import made
from made_up_trials import host as of_machine
from made_up_trials import watched

from pipebench.commands.plan import command
from pipebench.errors import PipebenchError, UsageError
from pipebench.predict.loader import Setting, simulate
from pipebench.predict.passports import others, passport_in, passport_of, waking
from pipebench.predict.planning import plan
from pipebench.results import report
from pipebench.results.advice import Advice, Change, Finding
from pipebench.results.costs import LoopCosts, Passport, Tried
from pipebench.results.plan import Asked
from pipebench.results.watched import StageResult, WatchResult
from pipebench.stats import Speedup

COSTS = made(blocked=0.1, step=0.01, iteration_s=0.1)
STAGES = (
    StageResult("load\x1b", "decode", 1, 80, 0.01, 0.8),
    StageResult("other", "decode", 2, 80, 0.01, 0.8),
)
WATCHED = replace(watched(), costs=(COSTS, replace(COSTS, loader=2)), stages=STAGES)


def _found(settings: dict[str, int], speedup: float | None = 2.0, **more: object) -> Finding:
    gain = None if speedup is None else Speedup(speedup, speedup, speedup, 0.95)
    return Finding(Change("any", dict(settings), one_thread=bool(more.pop("one_thread", False))), "gain", gain, **more)  # type: ignore[arg-type]


def _advice(*findings: Finding, loader: int = 1) -> Advice:
    return Advice(findings, None, loader, "train.py", 3, 180.0, 60.0, "done")


def test_a_passport_has_the_costs_and_stages_of_the_loader_that_the_verdict_is_about() -> None:
    found = passport_of(WATCHED)
    assert found is not None and found.costs == COSTS and found.cores == 2.0
    assert [(one.name, one.share) for one in found.stages] == [("load\x1b", 0.8)]
    other = passport_of(WATCHED, _advice(loader=2))
    assert other is not None and other.costs.loader == 2


def test_a_passport_can_be_read_again_where_pickling_takes_longer_than_all_that_workers_do(tmp_path: Path) -> None:
    pickling = StageResult("queue feeder thread", "serialise", 1, 80, 0.03, 3.0)
    found = passport_of(replace(WATCHED, stages=(*STAGES, pickling)))
    report.save(report.new(passport=found), tmp_path / "passport.json")
    assert passport_in(report.load(tmp_path / "passport.json")) == found
    planned = CliRunner().invoke(command, [str(tmp_path / "passport.json"), "--faster", "serialise=2x"])
    assert planned.exit_code == 0, planned.output


def test_only_what_the_simulation_knows_is_a_check() -> None:
    advice = _advice(
        _found({"num_workers": 4}),
        _found({"prefetch_factor": 8}, 1.1),
        _found({"num_workers": 8}, None),
        _found({"pin_memory": 1}),
        _found({"num_workers": 2}, one_thread=True),
        _found({"num_workers": 2}, by="passes"),
    )
    found = passport_of(WATCHED, advice)
    assert found is not None and found.tried == (Tried(4, 2, 2.0), Tried(1, 8, 1.1))


@pytest.mark.parametrize(
    "wrong", [{"cpu_s": ()}, {"step_s": (-1.0,)}, {"samples": 0.0}, {"iteration_s": -1.0}, {"step_cpu_s": -1.0}]
)
def test_figures_that_no_run_can_give_are_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    report.save(report.new(passport=Passport(replace(COSTS, **wrong), (), 2.0)), tmp_path / "passport.json")
    with pytest.raises(PipebenchError, match="no run can give"):
        report.load(tmp_path / "passport.json")


@pytest.mark.parametrize(
    "wrong",
    [{"others": -1.0}, {"cores": 0.0}, {"shared_cores": 1.0}, {"tried": tuple(Tried(4000, 2, 1.0) for _ in range(3))}],
)
def test_a_passport_that_no_run_can_give_is_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    report.save(report.new(passport=replace(Passport(COSTS, (), 2.0), **wrong)), tmp_path / "passport.json")
    with pytest.raises(PipebenchError, match="no run can give"):
        report.load(tmp_path / "passport.json")


def test_many_workers_are_said_to_take_time(saved: str) -> None:
    assert "simulating 1,000 workers" in CliRunner().invoke(command, [saved, "--workers", "1000"]).stderr
    assert not CliRunner().invoke(command, [saved, "--workers", "8"]).stderr


def test_a_loop_that_costs_nothing_has_an_answer() -> None:
    assert plan(Passport(made(), (), 2.0), Asked(workers=2)).chosen.samples_per_s.value > 0


OWN = made(cpu=0.1, iteration_s=0.1, workers=2)  # keeps a core busy


def _rank(costs: LoopCosts = OWN, cores: float = 2.0, **more: Any) -> WatchResult:
    """A rank on a machine of two cores, whose sibling keeps one core busy."""
    used = replace(of_machine(), **{"sibling_cores": 1.0, "shared_cores": 2.0, "machine_cores": 2, **more})
    return replace(WATCHED, costs=(costs,), usable_cores=cores, host=used)


def test_a_rank_has_its_part_of_the_cores_and_its_siblings_are_no_other_processes() -> None:
    found = passport_of(_rank())
    assert found is not None and (found.cores, found.shared_cores, found.others) == (1.0, 2.0, 0.0)
    heavier = passport_of(_rank(sibling_cores=3.0, shared_cores=8.0, machine_cores=16, foreign_cores=10.0))
    assert heavier is not None and (heavier.cores, heavier.shared_cores) == (2.0, 8.0)
    assert heavier.others == 0.5  # others have 2 of the 8 cores, and a quarter of these is the rank's part
    bound = passport_of(_rank(cores=1.0, shared_cores=8.0, machine_cores=8))
    assert bound is not None and bound.cores == 1.0


@pytest.mark.parametrize("alone", [{"shared_cores": None, "sibling_cores": 0.0}, {"sibling_cores": 0.0}])
def test_without_siblings_the_cores_are_all_its_own(alone: dict[str, Any]) -> None:
    found = passport_of(_rank(**alone, foreign_cores=0.7))
    assert found is not None and (found.cores, found.shared_cores, found.others) == (2.0, None, 0.7)


def test_more_workers_of_all_ranks_need_cores_that_are_not_there() -> None:
    """Two ranks keep two cores busy. As a fixed load, the sibling would leave more workers two thirds of the cores."""
    found = passport_of(_rank())
    assert found is not None and plan(found, Asked(workers=8)).gain == pytest.approx(1, abs=0.02)
    fixed = replace(found, cores=2.0, others=1.0, shared_cores=None)
    assert plan(fixed, Asked(workers=8)).gain > 1.3


def test_ranks_share_another_machine_as_they_shared_this_one() -> None:
    found = passport_of(_rank())
    assert found is not None
    answer = plan(found, Asked(workers=8, cores=8.0, consumer=1e6))
    assert answer.part == 4.0 and answer.cores == 2.0
    assert answer.chosen.samples_per_s.value == pytest.approx(8 * 40, rel=0.02)
    assert next(one.available for one in answer.needs if one.resource == "cores") == 4.0


def test_devices_that_are_asked_for_take_the_place_of_the_ranks() -> None:
    found = passport_of(_rank())
    assert found is not None
    answer = plan(found, Asked(workers=8, consumer=1e6, devices=4))
    assert answer.part is None and answer.chosen.samples_per_s.value == pytest.approx(8 * 20, rel=0.02)
    assert next(one.available for one in answer.needs if one.resource == "cores") == 2.0


def test_one_machine_has_to_feed_all_ranks_if_no_devices_are_asked_for() -> None:
    """A device of 120 samples/s needs 1.5 of 2 cores, and the job has two ranks."""
    found = passport_of(_rank())
    assert found is not None
    job = plan(found, Asked(workers=8, consumer=120.0)).one_machine
    assert job is not None and job.devices == 2 and job.cores.needed.value == pytest.approx(3.0)
    assert job.cores.enough is False and job.lacking.value == pytest.approx(1.0)
    alone = plan(found, Asked(workers=8, consumer=120.0, devices=1))
    assert alone.one_machine is not None and alone.one_machine.cores.enough is True
    assert alone.part is None and alone.fed is True
    assert alone.chosen.samples_per_s.value == pytest.approx(120, rel=0.02)


def test_ranks_share_storage_and_network_as_they_share_the_cores() -> None:
    """Each sample has 1 MB. Two ranks have half of 60 MB/s each, so a rank gets 30 samples/s."""
    found = passport_of(_rank(replace(OWN, read_bytes=8e6)))
    assert found is not None
    for path in ("storage", "network"):
        carried: dict[str, Any] = {path: 60e6}
        one = plan(found, Asked(workers=8, consumer=40.0, **carried))
        assert one.chosen.limit == path and one.chosen.samples_per_s.value == pytest.approx(30)
        need = next(need for need in one.needs if need.resource == path)
        assert need.available == 30e6 and need.enough is False and one.fed is False
        assert plan(found, Asked(workers=8, consumer=40.0, devices=1, **carried)).fed is True


def test_a_run_without_costs_has_no_passport() -> None:
    assert passport_of(watched()) is None
    with pytest.raises(PipebenchError, match="no costs"):
        passport_in(report.new(watched=watched()))


@pytest.fixture
def saved(tmp_path: Path) -> str:
    report.save(report.new(watched=WATCHED, advice=_advice(_found({"num_workers": 4}, 3.9))), tmp_path / "run.json")
    return str(tmp_path / "run.json")


def test_the_command_answers_from_a_saved_report(saved: str) -> None:
    done = CliRunner().invoke(command, [saved, "--workers", "4"], catch_exceptions=False)
    assert done.output.startswith("Predicted, not tried: 320") and "3.90×" in done.output


def test_the_command_gives_its_plan_as_json_and_saves_it(saved: str, tmp_path: Path) -> None:
    asked = [saved, "--consumer", "40", "--devices", "2", "--cores", "8", "--storage", "2GB/s", "--network", "500MB/s",
             "--faster", "load=2x", "--format", "json", "--export-json", str(tmp_path / "plan.json")]  # fmt: skip
    done = CliRunner().invoke(command, asked, catch_exceptions=False)
    root = json.loads(done.output)["plan"]
    assert root["asked"]["storage"] == 2e9 and root["asked"]["network"] == 5e8 and root["fed"] is True
    assert report.load(tmp_path / "plan.json").plan is not None


@pytest.mark.parametrize(
    "wrong", [["--storage", "fast"], ["--network", "0GB/s"], ["--faster", "load"], ["--faster", "load=0x"],
              ["--devices", "2"], ["--faster", "blur=2x"], ["--faster", "load=1e9"], ["--storage", "0.1B/s"],
              ["--faster", "load=0.0000001x"], ["--workers", "0", "--prefetch-factor", "2"]]
)  # fmt: skip
def test_what_cannot_be_asked_is_refused(saved: str, wrong: list[str]) -> None:
    with pytest.raises(UsageError):
        CliRunner().invoke(command, [saved, *wrong], catch_exceptions=False)


@pytest.mark.parametrize(
    "wrong", [["--cores", "nan"], ["--cores", "inf"], ["--cores", "0"], ["--consumer", "nan"], ["--others", "-1"],
              ["--others", "inf"], ["--workers", "-1"], ["--workers", "5000"], ["--devices", "0"]]
)  # fmt: skip
def test_figures_that_no_machine_has_are_wrong_usage(saved: str, wrong: list[str]) -> None:
    assert CliRunner().invoke(command, [saved, *wrong]).exit_code == 2


def test_a_file_that_is_not_there_is_wrong_usage(tmp_path: Path) -> None:
    for none in (tmp_path / "none.json", tmp_path):
        with pytest.raises(UsageError, match="is not a file"):
            CliRunner().invoke(command, [str(none)], catch_exceptions=False)


@pytest.mark.parametrize(("threads", "workers"), [(3.0, 1), (6.0, 1), (4.0, 4)])
def test_threads_of_others_follow_from_the_wait_for_a_core(threads: float, workers: int) -> None:
    """Planted by the simulation itself: it slows the batches down, and from the wait come the threads again."""
    costs = made(cpu=0.02, blocked=0.08, step=0.001, workers=workers)
    rate = simulate(costs, Setting(workers, 2, 2.0, threads)).batches_per_s
    seen = replace(costs, iteration_s=1 / rate, core_wait_s=workers / rate - 0.1)
    assert others(seen, 2.0, None) == pytest.approx(threads, rel=0.15)
    assert others(seen, 2.0, threads * 0.02 / (seen.core_wait_s + 0.02)) == pytest.approx(threads)


@pytest.mark.parametrize("cores", [2.0, 16.0])
def test_waits_while_others_used_no_core_tell_of_no_others(cores: float) -> None:
    """A thread waits for a moment whenever it wakes."""
    seen = made(cpu=0.02, blocked=0.08, step=0.001, core_wait_s=0.002, iteration_s=0.1)
    assert others(seen, cores, 0.0) == 0.0
    assert others(seen, cores, 0.2) == pytest.approx(0.22)


def test_only_waits_that_sharing_does_not_explain_are_of_waking() -> None:
    """Three threads on two cores wait for half of their CPU time."""
    busy = made(cpu=0.1, core_wait_s=0.052, iteration_s=0.152)
    assert waking(busy, 2.0, 2.0).core_wait_s == pytest.approx(0.002)
    assert waking(busy, 4.0, 2.0).core_wait_s == 0.052


def test_a_worker_that_hardly_waited_for_a_core_says_only_which_cores_others_used() -> None:
    assert others(made(cpu=0.02, core_wait_s=0.0005), 2.0, 0.7) == pytest.approx(0.7, rel=0.03)
    assert others(made(cpu=0.02, core_wait_s=0.0005), 2.0, None) == 0.0
