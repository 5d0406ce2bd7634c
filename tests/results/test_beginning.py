"""The code of a watched run and the first sentence of its text are about the same."""

from dataclasses import replace

import pytest
from render import made_up

from pipebench.render import watch_account, watched
from pipebench.results import report
from pipebench.results.account import AccountRow, Cause
from pipebench.results.beginning import beginning, small_beside
from pipebench.results.watched import Note, Verdict

RUN = made_up.watched()
WAIT = Cause("stage", 25.0, 25.0, 1, {"workers": 2, "busy": 0.9})
VALIDATION = Cause("validation", 30.0, None, 2, {"passes": 2})
TRAINING = Cause("training", 40.0, None, None, {"phase": "forward", "phase_s": 20.0})
ONCE, BETWEEN = Cause("before-loops", 30.0), Cause("outside-loops", 12.0)
SMALL = Cause(
    "start-up", 4.0, 1.5, 1,
    {"workers": 1, "start_method": "fork", "passes": 3, "persistent": 0, "ends_s": 1.0, "in_validation": 0},
)  # fmt: skip
GROWS = Cause(
    "memory-growth",
    0.0,
    None,
    1,
    {"bytes_per_s": 1e6, "free_bytes": 1e9, "lasts_s": 1e3, "seen_s": 9.0, "persistent": 1},
)


def _run(limit, *causes):
    verdict = replace(RUN.verdict, limit=limit) if limit in ("data", "training") else Verdict(limit)
    return replace(RUN, verdict=verdict, account=replace(RUN.account, causes=causes))


@pytest.mark.parametrize(
    ("run", "code", "cause", "begins"),
    [
        (_run("data", WAIT), "data", "stage", "Waiting for the workers of loader 1 took"),
        (
            _run("training", VALIDATION, WAIT),
            "other-cause",
            "validation",
            "Loops that do not train (such as validation) took",
        ),
        (
            _run("data", VALIDATION, WAIT),
            "other-cause",
            "validation",
            "Loops that do not train (such as validation) took",
        ),
        (_run("training", WAIT, TRAINING), "data", "stage", "Waiting for the workers of loader 1 took"),
        (_run("data", SMALL, TRAINING, ONCE), "training", "training", "Training itself took"),
        (_run("data", SMALL, BETWEEN), "other-cause", "outside-loops", "Between the loops (checkpoints"),
        (_run("data", SMALL, ONCE), "other-cause", "start-up", "Starting 1 worker (fork)"),  # nothing larger is known
        (_run("data", VALIDATION, SMALL, TRAINING), "other-cause", "validation", "Loops that do not train"),
        (_run("training", TRAINING, ONCE), "training", "training", "Nothing in the loops of this run, "),
        (_run("data", ONCE), "nothing-to-gain", "before-loops", "Nothing in the loops of this run, "),
        (_run("data"), "nothing-to-gain", None, "Nothing in the loops of this run, "),
        (_run("training", BETWEEN), "other-cause", "outside-loops", "Between the loops (checkpoints"),
        (_run("training", GROWS, TRAINING, BETWEEN), "training", "training", "Training itself took"),
        (_run("training", GROWS), "other-cause", "memory-growth", "The memory of the workers of loader 1 grew"),
        (_run("no-loader", ONCE), "no-loader", None, "The training loop takes no batch from a DataLoader."),
        (_run("no-iteration"), "no-iteration", None, "There is nothing to judge"),
        (replace(_run("data", WAIT), account=None), "data", None, "The loop waits for data 60 %"),
    ],
)
def test_code_and_first_sentence_are_about_the_same(run, code, cause, begins):
    made = report.new(watched=run)
    assert (made.verdict.code, made.verdict.evidence["cause"]) == (code, cause)
    assert watched.whole(run, None).startswith(begins)


@pytest.mark.parametrize(("each", "lasts_s", "first"), [(1e6, 330.0, True), (1e6, 9e3, False), (None, 330.0, False)])
def test_memory_that_grew_in_each_pass_and_ends_soon_comes_first(each, lasts_s, first):
    values = {**GROWS.values, "lasts_s": lasts_s, **({} if each is None else {"pass_bytes": each})}
    found = beginning(_run("data", WAIT, replace(GROWS, values=values)))
    assert [one.code for one in found.causes] == (["memory-growth", "stage"] if first else ["stage", "memory-growth"])
    assert found.code == ("other-cause" if first else "data")


@pytest.mark.parametrize(("of", "first"), [({"pid": 7}, True), ({"pid": 8, "worker": 0, "loader": 1}, False)])
def test_a_record_that_ends_before_the_run_is_said_first(of, first):
    run = _run("data", WAIT)
    rows = (*run.account.rows, AccountRow("not-recorded", run.account.wall_s))
    account = replace(run.account, wall_s=2 * run.account.wall_s, rows=rows)
    text = watched.whole(replace(run, account=account, notes=(Note("recording-stopped", of),)), None)
    assert text.startswith("Of ") is first
    assert ("were recorded: then the records could not be written. Set TMPDIR" in " ".join(text.split())) is first


def test_the_full_report_has_the_smaller_causes_too():
    other = Cause("callbacks", 2.0, 2.0, values={"file": "/me/train.py", "line": 19, "function": "save_ckpt"})
    run = _run("data", WAIT, other, TRAINING, ONCE)
    said = " ".join(" ".join(map(str, watch_account.smaller_causes(run))).split())
    assert "save_ckpt" in said and "Imports, data set and model" in said
    assert "Waiting for the workers" not in said and "Training itself" not in said
    assert "save_ckpt" in watched.whole(run, None, full=True) and "save_ckpt" not in watched.whole(run, None)
    assert watch_account.smaller_causes(_run("data", WAIT)) == []


def test_what_could_save_little_of_the_run_comes_after_training_and_as_little():
    said = " ".join(str(one) for one in watch_account.causes(_run("data", SMALL, TRAINING, BETWEEN)))
    assert said.index("Training itself") < said.index("Between the loops") < said.index("Starting 1 worker")
    assert "persistent_workers=True could still save about 1.50 s (predicted, not tried)." in said
    said = " ".join(
        str(one) for one in watch_account.causes(_run("data", replace(SMALL, recoverable_s=25.0), TRAINING))
    )
    assert "could save about 25.0 s" in said and "Training itself" not in said


@pytest.mark.parametrize(("saved", "told"), [(9.0, True), (11.0, False)])
def test_what_comes_before_the_loops_is_said_too_if_it_takes_much_longer(saved, told):
    waits = replace(WAIT, s=saved, recoverable_s=saved)
    said = " ".join(str(one) for one in watch_account.causes(_run("data", waits, ONCE)))
    assert ("Imports, data set and model, before the first loop, took 30.0 s" in said) is told


def test_beside_which_parts_all_causes_are_small():
    def parts(*causes):
        return [one.code for one in small_beside(_run("data", *causes).account)]

    assert parts(SMALL, BETWEEN, TRAINING) == ["training", "outside-loops"]
    assert parts(SMALL, WAIT, TRAINING) == parts(SMALL, VALIDATION, TRAINING) == parts(TRAINING) == parts(SMALL) == []
