"""The judging of planted runs: truths put together from what was planted, errors, goals, the table, what is kept."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from click.testing import CliRunner

from pipebench.calibrate import attribution, running, under_load, waits, whole
from pipebench.calibrate.attribution import PlantedRun
from pipebench.calibrate.planted.amounts import Ledger
from pipebench.calibrate.running import watched
from pipebench.commands.calibrate import command
from pipebench.errors import UsageError
from pipebench.render import calibration, layout
from pipebench.results.calibration import UNDER_LOAD, Calibration, NoiseFloor, PlantedFigure, Slowdown, judged
from pipebench.results.report import keep_calibration, kept_calibration
from pipebench.results.watched import PhaseResult

MS = 1_000_000
# [units, wall, CPU, times]: the reference says 2 ms a unit, and 1.5 times as much wall time as CPU time
WORKER = {"reference": [10, 30 * MS, 20 * MS, 8], "decode": [4, 11 * MS, 0, 8]}


def _result(*, cpu: float | None = None, handed_off: Any = None, **stages: float) -> Any:
    rows = [
        SimpleNamespace(
            name=attribution.STAGES[name],
            exclusive_s_per_sample=wall,
            least_s_per_sample=None,
            most_s_per_sample=None,
        )
        for name, wall in stages.items()
    ]
    phases = {"wait": 0.006, "forward": 0.002, "backward": 0.001, "optimiser": 0.0005, "other": 0.0005}
    loop = [PhaseResult(phase, spent, 0.0) for phase, spent in phases.items()]
    loaders = [SimpleNamespace(sample_cpu_s=cpu)]
    return SimpleNamespace(stages=rows, loop=loop, loaders=loaders, hand_off=handed_off)


def _found(worker: dict[str, list[int]]) -> dict[str, Any]:
    everything = {stage: worker.get(stage, [0, 0, 0, 0]) for stage in attribution.STAGES}
    phases = [[[9, 9]] * 5, [[0, 6 * MS], [0, 2 * MS], [0, MS], [0, MS // 2], [0, MS // 2]]]
    return {"samples": 8, "workers": {"0": everything}, "loop": {"forward": [2, 3, 2, 1]}, "iterations": phases}


def test_the_truth_is_units_at_the_price_of_the_reference_and_a_stretched_carrier() -> None:
    wall, cpu = attribution.truth("decode", [WORKER], {"decode": (100_000, 50_000)})
    assert wall == pytest.approx((11 * MS + 8 * 100_000 * 1.5) * 1e-9)
    assert cpu == pytest.approx((4 * 2 * MS + 8 * 50_000) * 1e-9)


def test_workers_are_added_each_at_its_own_price() -> None:
    slower = {"reference": [10, 60 * MS, 60 * MS, 8], "decode": [4, 30 * MS, 0, 8]}
    assert attribution.truth("decode", [WORKER, slower], {})[1] == pytest.approx((4 * 2 + 4 * 6) * MS * 1e-9)


def test_rows_are_judged_by_share_or_by_time() -> None:
    carriers = dict.fromkeys(attribution.PHASES, (0.0, 0.0))
    handed_off = SimpleNamespace(serialise_cpu_s_per_batch=0.0004, batches=1)
    result = _result(decode=0.001375 + 0.000030, work=0.000026, cpu=0.0035 + 0.000015, handed_off=handed_off)
    rows = {
        (row.name, row.clock): row
        for row in attribution.compare(PlantedRun(2, batch=8), _found(WORKER), carriers, result)
    }
    decode = rows["decode", "wall"]
    assert decode.error_s == pytest.approx(30e-6) and decode.error_share == pytest.approx(0.024) and not decode.within
    assert decode.row_share == pytest.approx(30e-6 / 0.001375) and decode.large
    assert not rows["work", "wall"].within and ("hand-off", "wall") in rows
    # 14 units at 2 ms in 8 samples: CPU time is known of the whole batch, not of a stage
    assert rows["sample", "cpu"].error_s == pytest.approx(15e-6) and rows["sample", "cpu"].within
    assert rows["hand-off", "cpu"].found_s == pytest.approx(50e-6) and rows["hand-off", "cpu"].truth_s == 0
    assert {name for name, clock in rows if clock == "cpu"} == {"sample", "hand-off"}
    assert all(rows[phase, "wall"].within for phase in attribution.PHASES)
    assert rows["wait", "wall"].error_s == pytest.approx(0)


def _row(planted_s: float, shown_s: float) -> PlantedFigure:
    return PlantedFigure("4 workers", "other", "wall", "iteration", planted_s, shown_s)


def test_a_small_row_is_judged_by_the_iteration_and_a_large_one_by_its_own_size() -> None:
    """Both are wrong by 0.9 % of an iteration of 100 ms: 40 % of one row, 15 % of the other."""
    small = judged(_row(0.00225, 0.00315), 0.1, 160e-6)
    assert small.error_share == pytest.approx(0.009) and small.row_share == pytest.approx(0.4)
    assert not small.large and small.within
    large = judged(_row(0.006, 0.0069), 0.1, 160e-6)
    assert large.error_share == pytest.approx(0.009) and large.row_share == pytest.approx(0.15)
    assert large.large and not large.within
    assert judged(_row(0.006, 0.00611), 0.1).within and judged(_row(0.006, 0.00589), 0.1).within
    assert not judged(_row(0.006, 0.00613), 0.1).within and judged(_row(0.006, 0.00613), 0.1, 160e-6).within


def test_a_row_is_large_by_what_is_shown_too() -> None:
    assert not judged(_row(0.0, 0.006), 0.1).within and judged(_row(0.0, 0.006), 0.1).row_share is None
    assert not judged(_row(0.006, 0.0), 0.1).within
    assert judged(_row(0.0049, 0.0049), 0.1).large is False


def test_a_phase_of_a_run_is_judged_by_its_own_size() -> None:
    """`optimiser` is planted with 0.5 ms of 10 ms, and shown with 0.69 ms: 1.9 % of the iteration, 38 % of itself."""
    carriers = dict.fromkeys(attribution.PHASES, (0.0, 0.0))
    result = _result()
    result.loop[3], result.loop[0] = PhaseResult("optimiser", 0.00069, 0.0), PhaseResult("wait", 0.00581, 0.0)
    rows = {row.name: row for row in attribution.compare(PlantedRun(0, batch=8), _found(WORKER), carriers, result)}
    assert rows["optimiser"].error_share == pytest.approx(0.019) and rows["optimiser"].row_share == pytest.approx(0.38)
    assert not rows["optimiser"].within
    assert rows["wait"].row_share == pytest.approx(-0.19 / 6) and not rows["wait"].within
    assert rows["forward"].within and rows["other"].within


def test_the_workers_with_the_least_and_the_most_are_rows_of_their_own() -> None:
    carriers = dict.fromkeys(attribution.PHASES, (0.0, 0.0))
    found = _found({**WORKER, "work": [4, 8 * MS, 8 * MS, 4]})
    found["workers"]["1"] = {**found["workers"]["0"], "work": [8, 16 * MS, 16 * MS, 4]}
    result = _result(work=0.003)
    result.stages[0].least_s_per_sample, result.stages[0].most_s_per_sample = 0.002, 0.00401
    rows = {row.name: row for row in attribution.compare(PlantedRun(2, skew=True), found, carriers, result)}
    assert rows["work, least"].error_s == pytest.approx(0) and rows["work, most"].error_s == pytest.approx(10e-6)


def test_without_workers_nothing_is_handed_off() -> None:
    carriers = dict.fromkeys(attribution.PHASES, (0.0, 0.0))
    rows = attribution.compare(PlantedRun(0), _found(WORKER), carriers, _result())
    assert "hand-off" not in {row.name for row in rows}


def test_carriers_of_phases_are_stretched_like_planted_work() -> None:
    carriers = {**dict.fromkeys(attribution.PHASES, (0.0, 0.0)), "wait": (200_000.0, 0.0)}
    rows = {row.name: row for row in attribution.compare(PlantedRun(0), _found(WORKER), carriers, _result())}
    assert rows["wait"].truth_s == pytest.approx(0.006 + 0.0003)


def test_plans_go_beyond_the_usable_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attribution, "usable_cores", lambda: 3.0)
    assert [plan.name for plan in attribution.plans()] == [
        "no workers",
        "1 workers, fork",
        "3 workers, skewed, fork",
        "6 workers, fork",
    ]
    assert [plan.method for plan in attribution.plans(full=True)[4:]] == ["spawn", "forkserver"]


def test_rows_under_load_are_judged_by_the_scripts_own_clocks() -> None:
    own = {"sample": 0.008, "first": 0.003, "second": 0.002, "collate": 0.001}
    names = {"Loaded.__getitem__": 0.00301, "First": 0.0031, "Second": 0.002, "collate": 0.00101}
    stages = [SimpleNamespace(name=name, exclusive_s_per_sample=spent) for name, spent in names.items()]
    result: Any = SimpleNamespace(stages=stages, loop=[SimpleNamespace(s_per_iteration=0.072)])
    rows = {row.name: row for row in under_load.compare("2 workers, 4 busy processes", own, result)}
    assert list(rows) == ["sample", "getitem", "first", "second", "collate"]
    assert {row.part for row in rows.values()} == {UNDER_LOAD}
    assert rows["sample"].truth_s == 0.008 and rows["sample"].error_s == pytest.approx(0.00011)
    assert rows["getitem"].error_s == pytest.approx(10e-6) and rows["sample"].within
    assert [name for name, row in rows.items() if not row.within] == ["first"]


def test_busy_processes_end_with_the_block() -> None:
    before = set(psutil.Process().children())
    with under_load.busy(2):
        children = set(psutil.Process().children()) - before
        assert len(children) >= 2
    assert not any(one.is_running() for one in children)
    assert under_load.usual_load() >= 2


def test_a_busy_process_ends_when_the_process_that_started_it_is_gone() -> None:
    code = (
        "import os\n"
        "from pipebench.calibrate import under_load\n"
        "block = under_load.busy(1)\n"
        "block.__enter__()\n"
        "import psutil\n"
        "print(psutil.Process().children()[0].pid, flush=True)\n"
        "os._exit(0)"
    )
    found = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True).stdout
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(int(found)).wait(timeout=60)
    assert not psutil.pid_exists(int(found)) or psutil.Process(int(found)).status() == psutil.STATUS_ZOMBIE


def test_the_samples_of_a_saved_report_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The overhead is that of a run which `watch` saw whole, so its saved report is read."""
    place = tmp_path / "report.json"
    assert running._samples_in(place) == 0
    place.touch()
    loaders = [SimpleNamespace(samples=8), SimpleNamespace(samples=3)]
    monkeypatch.setattr(running, "load", lambda path: SimpleNamespace(watched=SimpleNamespace(loaders=loaders)))
    assert running._samples_in(place) == 11


def test_a_load_of_nothing_leaves_the_part_out(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    for name in ("attribution", "waits", "bounds", "looped"):
        monkeypatch.setattr(whole, name, lambda *args, **how: [])
    monkeypatch.setattr(whole, "under_load", lambda processes, progress: asked.append(processes) or [])
    monkeypatch.setattr(whole, "usual_load", lambda: 8)
    monkeypatch.setattr(whole, "equal", lambda runs: ([1.0], [1.0]))
    monkeypatch.setattr(whole, "slowdowns", lambda runs, each_s: ())
    monkeypatch.setattr(whole, "keep_calibration", lambda found: None)
    monkeypatch.setattr(whole, "_cuda", lambda: False)
    for load in (None, 0, 3):
        whole.calibrate([], load=load)
    assert asked == [8, 3]


def test_an_interrupted_calibration_has_its_finished_parts_and_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> list[PlantedFigure]:
        raise KeyboardInterrupt

    row = PlantedFigure("2 workers, fork", "work", "wall", "sample", 0.001, 0.00101, 0.005, True)
    monkeypatch.setattr(whole, "attribution", lambda *_: [row])
    monkeypatch.setattr(whole, "waits", interrupted)
    monkeypatch.setattr(whole, "_cuda", lambda: False)
    monkeypatch.setattr(whole, "keep_calibration", lambda found: pytest.fail("it was kept"))
    found = whole.calibrate([])
    assert (found.rows, found.slowdowns, found.noise) == ((row,), (), ()) and found.span_s > 0
    assert "the calibration was interrupted" in layout.text(calibration.parts(found))
    monkeypatch.setattr(whole, "attribution", interrupted)
    with pytest.raises(KeyboardInterrupt):
        whole.calibrate([])


def test_a_wait_ends_with_the_batch_whoever_was_slow_to_begin_it() -> None:
    first = (0, 0, 0, 0, 0)
    late = (10 * MS, 11 * MS, 15 * MS, 16 * MS, 99 * MS)  # made after it was asked for
    early = (10 * MS, 11 * MS, 9 * MS, 12 * MS, 99 * MS)  # there already: a millisecond of looking for it was ours
    assert waits.true_wait([first, late], 100_000, 200_000) == pytest.approx(0.0062)
    assert waits.true_wait([first, early], 100_000, 200_000) == pytest.approx(0.0013)
    plain = [first, (0, 100_000, 0, MS, MS + 200_000), (0, 300_000, 0, MS, MS + 400_000)]
    assert waits.around(plain) == (200_000, 300_000)


def test_waits_are_judged_without_an_allowance_in_time() -> None:
    moments = {"plain": [(0, 0, 0, 0, 0), (0, 0, 1, 10 * MS, 0)]}
    loader = SimpleNamespace(wait_s_per_iteration=0.0101, s_per_iteration=0.0101 / 0.6)
    result: Any = SimpleNamespace(loaders=[loader], loop=[SimpleNamespace(s_per_iteration=0.02)])
    rows = waits.compare(moments, {"plain": (0.0, 0.0)}, result)
    assert rows[0].error_share == pytest.approx(0.0001 / 0.0101 * 0.6) and rows[0].within and rows[0].part == "wait"
    loader.wait_s_per_iteration = 0.0103  # 1.8 % of the iteration, and 3 % of the wait, which is most of it
    assert not waits.compare(moments, {"plain": (0.0, 0.0)}, result)[0].within
    result.device_idle = SimpleNamespace(s_per_iteration=0.005)
    row = waits.idle([60 * MS, 4 * MS, 5 * MS], result)[0]
    assert row.error_share == pytest.approx(0.025) and not row.within


def _calibration() -> Calibration:
    rows = (
        PlantedFigure("4 workers, fork", "decode", "wall", "sample", 0.001, 0.00101, 0.005, True),
        PlantedFigure("4 workers, fork", "wait", "wall", "iteration", 0.010, 0.0105, 0.031, False, size=0.65),
        PlantedFigure("waits", "plain", "wall", "iteration", 0.010, 0.0101, 0.006, True, "wait"),
    )
    slowdowns = (
        Slowdown(0.001, 12e-6, 11e-6, 14e-6, 8, 4e-6, "first 256 batches", "wall"),
        Slowdown(0.001, 6e-6, -1e-6, 17e-6, 8, 4e-6, "later batches", "cpu"),
    )
    noise = (NoiseFloor(10, 0.06, 16, 1),)
    return Calibration("a\x1bhost", "2026-01-02 03:04", (0.5, 1.5), 2.0, 90.0, rows, 4.7e-7, slowdowns, 0.016, noise)


def test_what_is_over_the_goal_is_marked_and_explained() -> None:
    """The whole text is in tests/render."""
    lines = layout.text(calibration.parts(_calibration())).splitlines()
    rows = {line.split()[0]: line for line in lines if line.startswith(("decode ", "wait  ", "plain "))}
    assert {name: line.endswith("over") for name, line in rows.items()} == {
        "decode": False,
        "wait": True,
        "plain": False,
    }
    outside = lines[lines.index("Over the goal, and what is known to add to the error") + 1 :]
    assert outside[0].startswith("  4 workers, fork, wait: +500.0 µs an iteration. The row begins before")
    assert calibration.SHARED in " ".join(line.strip() for line in outside)
    assert calibration.BUSY not in " ".join(line.strip() for line in outside)


def test_what_is_too_noisy_to_judge_is_given_as_an_interval() -> None:
    said = " ".join(layout.text(calibration.parts(_calibration())).split())
    assert "first 256 batches, wall: watch adds 1.20 % to a sample of 1.00 ms with 8 spans, over the goal" in said
    assert "later batches, cpu: watch adds between -0.1 % and 1.7 % to a sample of 1.00 ms" in said
    assert "with 8 spans, too noisy to judge." in said


def test_a_calibration_is_kept_for_its_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIPEBENCH_CACHE", str(tmp_path / "cache"))
    assert kept_calibration() is None
    place = keep_calibration(_calibration())
    assert kept_calibration() == _calibration()
    place.write_text('{"calibration": {"host": "of an earlier version"}}')
    assert kept_calibration() is None


def test_the_exit_status_does_not_depend_on_the_goals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole, "calibrate", lambda chosen, progress, load: _calibration())
    file = tmp_path / "calibration.json"
    for style in ("table", "json"):
        done = CliRunner().invoke(command, ["--format", style, "--export-json", str(file), "--force"])
        assert done.exit_code == 0
    shown = json.loads(done.output)
    assert shown == json.loads(file.read_text()) and shown["schema_version"] == 2
    assert json.loads(done.output)["calibration"]["rows"][1]["within"] is False
    with pytest.raises(UsageError, match="--force overwrites it"):
        CliRunner().invoke(command, ["--export-json", str(file)], catch_exceptions=False)


def test_carriers_are_what_is_left_around_planted_amounts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stage that plants 7, inside one that plants 5, with 2 around the inner and 3 more around the outer one."""
    from pipebench.calibrate.planted import amounts

    now = [0]
    monkeypatch.setattr(amounts.time, "perf_counter_ns", lambda: now[0])
    monkeypatch.setattr(amounts.time, "thread_time_ns", lambda: now[0])

    def spend(units: int) -> int:
        now[0] += units
        return units

    monkeypatch.setattr(amounts, "work", spend)
    ledger = Ledger()
    ledger.outer = True

    def inner() -> None:
        ledger.plant("inner", 7)
        spend(2)

    def outer() -> None:
        ledger.plant("outer", 5)
        ledger.around("inner", inner)
        spend(3)

    ledger.around("outer", outer)
    assert ledger.carriers == {"inner": [(2, 2)], "outer": [(3, 3)]}
    assert ledger.take() == {"outer": (5, 5, 5, 1), "inner": (7, 7, 7, 1)}


@pytest.mark.cuda
def test_the_idle_time_of_a_device_is_what_its_kernels_leave_of_the_waits() -> None:
    """The goal is 2 %; the gate is for a busy host."""
    found, result = watched("waiting.py", "--only", "launches", "--device", "cuda")
    (row,) = waits.idle(found["idle"], result)
    assert abs(row.error_share) < 0.1, row
