"""The code of a watched run and the first sentence of its text are about the same."""

from dataclasses import replace

import pytest
from render import made_up

from pipebench.render import watched
from pipebench.results import report
from pipebench.results.account import Cause
from pipebench.results.watched import Verdict

RUN = made_up.watched()
WAIT = Cause("stage", 25.0, 25.0, 1, {"workers": 2, "busy": 0.9})
VALIDATION = Cause("validation", 30.0, None, 2, {"passes": 2})
TRAINING = Cause("training", 40.0, None, None, {"phase": "forward", "phase_s": 20.0})
ONCE, BETWEEN = Cause("before-loops", 30.0), Cause("outside-loops", 12.0)
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
