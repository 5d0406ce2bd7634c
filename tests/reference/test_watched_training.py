"""Training under watch, as `run` reports it: how long it takes, how it can end, what the report says."""

from dataclasses import replace

import msgspec
import pytest

from pipebench.errors import BadSample, PipebenchError, UsageError
from pipebench.host import machine
from pipebench.reference import training_script, watched_training
from pipebench.reference.training_script import ScriptNote, TrainingJob, read_note
from pipebench.reference.watched_training import measure_training, steps_of
from pipebench.reference.worker_health import WorkerFailure
from pipebench.render import feeding
from pipebench.results.loading import Loading
from pipebench.results.training import Training
from pipebench.results.watched import PhaseResult
from pipebench.task import Workload
from pipebench.watch.bound.schedule import BEGIN, BUSY, DEVICE, IDLE, LIVE, planned
from pipebench.watch.read.bound import bound_result
from pipebench.watch.read.summary import summarise
from pipebench.watch.record.bound_lines import BoundEnded, BoundPlan, BoundWindow, Reason
from pipebench.watch.record.options import WatchOptions

WORKLOAD = Workload(data="tiny", batch_size=4)
SECONDS = {LIVE: 0.200, IDLE: 0.080, BUSY: 0.100}  # of windows of 4 batches of 10 samples


def records(rounds=6, complete=True, **seconds):
    found = [BoundPlan(1, 90, 4, rounds, 0, 1000, 32, False)]
    found += [
        BoundWindow(turn, kind, spent, 40, 4)
        for turn in range(rounds)
        for kind, spent in {**SECONDS, **seconds}.items()
    ]
    return [*found, BoundEnded(None)] if complete else found


def watched(found=(), status=0):
    loop = (PhaseResult("wait", 0.03, 0.6), PhaseResult("forward", 0.02, 0.4))
    return replace(
        summarise([], WatchOptions(bound=True), status, 1.0),
        bound=bound_result(found or records()),
        loop=loop,
        wait_share=0.6,
        startup_s=1.5,
        start_method="fork",
        notes=(),
    )


def training(*found, **changes):
    made = Training("fake", False, 10, Loading(), watched(*found))
    return replace(made, **changes)


def test_the_verdict_says_whether_training_waits():
    assert feeding.waiting(training()) == (
        "Training waits for data: 60 % of an iteration (fake; 1 worker). 200 samples/s live, 500 with its batches "
        "ready. Removing all data work: at most 2.50× (2.50–2.50); overlapping it with training: 2.00×."
    )
    without = [one for one in records() if getattr(one, "kind", None) != BUSY]
    assert feeding.waiting(training(without)).endswith("at most 2.50× (2.50–2.50).")
    assert feeding.waiting(training(records(bound=0.2, bound_busy=0.2))) == (
        "Training does not wait for data: 60 % of an iteration (fake; 1 worker). 200 samples/s; "
        "speed-up from removing all data work: no measurable gain."
    )


def test_too_few_windows_are_too_few_for_a_verdict_and_none_says_why():
    assert feeding.waiting(training(records(rounds=1))) == (
        "1 window is too few to say whether training waits for data. It waited 60 % of an iteration (fake; 1 worker)."
    )
    assert feeding.waiting(training([BoundEnded(Reason("bound-outgrew-memory", {}))])) == (
        "Whether training waits for data was not measured. The batches of a window do not fit the memory that is free."
    )


def test_a_simulated_run_is_labelled_and_what_is_in_no_window_is_said():
    table = feeding.training(training(simulated=True, loading=Loading(workers=2, stream=True)))
    notes = "\n".join(table.notes)
    assert "A live iteration: wait 60 %, forward 40 %" in notes
    assert "simulated: instead of training a model, the loop waits for the stated time and uses no CPU" in notes
    assert "2 workers by fork, more than the usable cores, over the shards by webdataset; 6 windows of 4" in notes
    assert "Not included above: start-up 1.50 s" in notes
    assert table.rows == (
        ("live", "200.0", "±0 %", "1"),
        ("batches ready, workers busy", "400.0", "±0 %", "2.00× (2.00–2.00)"),
        ("batches ready, workers idle", "500.0", "±0 %", "2.50× (2.50–2.50)"),
    )


def test_a_device_has_a_row_of_its_own():
    table = feeding.training(training(records(**{DEVICE: 0.05})))
    assert table.rows[-1] == ("batches on the device", "800.0", "±0 %", "4.00× (4.00–4.00)")


@pytest.mark.parametrize("workers", [0, 1, 3, 7, 16])
@pytest.mark.parametrize(("length", "rounds", "least"), [("quick", 6, 4), ("usual", 8, 12), ("rigorous", 8, 48)])
def test_the_steps_of_a_length_make_rounds_enough_of_whole_turns(length, rounds, least, workers):
    replays = (IDLE, BUSY) if workers else (IDLE,)
    plan = planned(steps_of(length, workers, False), BEGIN, max(1, workers), replays, turn=max(1, workers))
    assert plan.rounds >= rounds and plan.window >= min(least, workers or least)
    assert plan.window % max(1, workers) == 0


@pytest.fixture
def observed(monkeypatch):
    """What watching is made to find: a status, a result, and the script's own note."""

    def plant(status, result, note=None, faults=()):
        def observe(options, argv, say):
            job = msgspec.json.decode(argv[1], type=TrainingJob)
            assert argv[0] == "pipebench.reference.training_script" and options.bound and options.steps == job.steps
            if note is not None:
                training_script._write(read_path(job), note)
            for fault in faults:
                say(fault)
            return status, result

        monkeypatch.setattr(watched_training, "observe", observe)

    def read_path(job):
        from pathlib import Path

        return Path(job.note)

    monkeypatch.setattr(machine, "read_load", machine.Load)
    return plant


def measured(kept):
    return measure_training(WORKLOAD, Loading(), "quick", keep=lambda training, bad: kept.append((training, bad)))


BAD = BadSample("loader", "x.jpg", None, "truncated", "it ends early", 0.0, 0)


def test_the_result_is_what_watching_found_and_what_the_script_said(observed):
    observed(0, watched(), ScriptNote("step/small", (BAD,)))
    kept = []
    found = measured(kept)
    assert kept == [(found, (BAD,))]
    assert (found.consumer, found.samples_failed, found.simulated) == ("step/small", 1, False)
    assert found.bound.bound_over_live.speedup == pytest.approx(2.5) and found.watched == watched()


def test_a_worker_that_died_ends_training_with_its_remedy_and_keeps_what_there_is(observed):
    observed(1, watched(records(2, False), 1), ScriptNote("m", (), "worker 0 was killed by SIGKILL", "see dmesg"))
    kept = []
    with pytest.raises(PipebenchError, match="worker 0 was killed by SIGKILL") as raised:
        measured(kept)
    assert raised.value.remedy == "see dmesg"
    assert kept[0][0].bound.rounds == 2 and not kept[0][0].bound.complete


def test_an_interruption_keeps_what_there_is_and_goes_on_as_one(observed):
    observed(130, watched(records(3, False), 130), ScriptNote("m"))
    kept = []
    with pytest.raises(KeyboardInterrupt):
        measured(kept)
    assert len(kept[0][0].bound.live.readings_s) == 3


def test_a_script_that_ended_without_a_word_is_reported_with_its_status_and_keeps_nothing(observed):
    observed(137, watched([BoundEnded(Reason("bound-outgrew-memory", {}))], 137))
    kept = []
    with pytest.raises(PipebenchError, match="ended with status 137: The batches of a window do not fit"):
        measured(kept)
    observed(1, None, faults=["pipebench: could not report on the run\n"])
    with pytest.raises(PipebenchError, match="was not watched: pipebench: could not report"):
        measured(kept)
    assert kept == []


def test_the_script_writes_down_what_ends_it(tmp_path, monkeypatch):
    job = TrainingJob(WORKLOAD, Loading(), 30, str(tmp_path / "note"))
    monkeypatch.setattr("sys.argv", ["script", msgspec.json.encode(job).decode()])
    raised = [WorkerFailure("worker 0 left", "try it alone"), KeyboardInterrupt()]
    training_script._write(tmp_path / "note", ScriptNote("m", (BAD,)))

    def run(given):
        assert given == job
        raise raised.pop(0)

    monkeypatch.setattr(training_script, "run", run)
    assert training_script.main() == 1
    assert read_note(tmp_path / "note") == ScriptNote("m", (BAD,), "worker 0 left", "try it alone")
    assert training_script.main() == 130
    assert read_note(tmp_path / "absent") == ScriptNote()


@pytest.mark.slow
def test_a_step_of_the_users_is_tried_on_one_batch_before_anything_is_measured(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(
        "def step(batch):\n    images, labels = batch\n    assert images.shape == (4, 3, 224, 224), len(labels)\n"
        "def broken(batch): raise ValueError('it is \\x1b[31m broken')\n"
    )
    monkeypatch.chdir(tmp_path)
    watched_training.check_asked(WORKLOAD, Loading(), "mine:step")
    with pytest.raises(PipebenchError, match=r"^mine:broken raised ValueError: it is \\x1b\[31m broken") as raised:
        watched_training.check_asked(WORKLOAD, Loading(), "mine:broken")
    assert raised.value.remedy == "it gets (images, labels): float32 of (4, 3, 224, 224) and 4 class numbers"
    with pytest.raises(UsageError, match="module 'mine' has no attribute 'none'"):
        watched_training.check_asked(WORKLOAD, Loading(), "mine:none")


@pytest.mark.slow
def test_a_step_that_ends_its_process_is_reported_with_what_it_said_last(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(
        "import os\ndef step(batch):\n    print('so long', flush=True)\n    os._exit(3)\n"
    )
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PipebenchError, match="status 3: so long"):
        watched_training.check_asked(WORKLOAD, Loading(), "mine:step")
