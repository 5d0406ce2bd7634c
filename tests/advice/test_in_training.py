"""Work in training itself that could be less is named first where it could bring most."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from made_up_script import MADE, Planted
from made_up_trials import seen

from pipebench.advise.conductor import Conductor
from pipebench.remedies import in_training, remedies
from pipebench.remedies.seen import Seen
from pipebench.render.advice import verdict
from pipebench.results.account import Account, AccountRow, Cause
from pipebench.results.advice import Change

KNOWN = {
    "title": "the first k without a full sort", "how": "It puts all in order.", "slow_file": "/a/net.py",
    "slow_line": 3, "slow_function": "knn", "line_share": 1.0,
}  # fmt: skip


def _seen(*causes: Cause) -> Seen:
    found: Any = seen(0.1, batches=1000, batch_size=8)
    rows = (AccountRow("forward", 40.0, 1), AccountRow("backward", 20.0, 1))
    account = Account(wall_s=100.0, rows=rows, beside_s=0.0, script_cpu_s=0.0, causes=causes)
    return replace(found, watched=replace(found.watched, account=account), made=MADE, all_made={1: MADE})


def _proposed(*causes: Cause) -> Change | None:
    return in_training.propose(_seen(*causes), [])


def test_it_is_what_the_verdict_begins_with() -> None:
    cause = Cause("own-lines", 30.0, 30.0, 1, {"file": "/a/net.py", "line": 3, "function": "knn", **KNOWN})
    conductor = Conductor(Planted(lambda order: 1.0, _seen(cause)), remedies(), 400.0)
    conductor.conduct()
    text = verdict(conductor.advice())
    assert text.startswith("The first k without a full sort could make the loops at most 2.00× as fast")


@pytest.mark.parametrize(
    ("code", "values", "title"),
    [
        ("own-lines", {}, "less work besides layers in forward"),
        ("own-lines", {"metric": 1}, "a metric less often"),
        ("own-lines", {"metric": 1, "models": 1}, "less work besides layers in forward"),
        ("many-operations", {}, "operations on all steps at once"),
        ("checkpointing", {"share": 0.9}, "no checkpointing of activations"),
    ],
)
def test_the_largest_cause_of_this_kind_is_named(code: str, values: Any, title: str) -> None:
    change = _proposed(Cause("slower-steps", 5.0, 5.0, 1), Cause(code, 20.0, 20.0, 1, values))
    assert change is not None and (change.title, change.of_script) == (title, True)
    assert change.predicted == pytest.approx(1.5) and change.at is None


def test_its_place_is_told() -> None:
    change = _proposed(Cause("own-lines", 20.0, 20.0, 1, {"file": "/a/net.py", "line": 3}))
    assert change is not None and change.at is not None
    assert (change.at.name, change.at.file, change.at.line) == ("its place", "/a/net.py", 3)


@pytest.mark.parametrize(
    "causes",
    [
        (),
        (Cause("callbacks", 20.0, 20.0, 1),),
        (Cause("own-lines", 20.0, None, 1),),  # on a device, nobody knows what it saves
        (Cause("slower-steps", 1.0, 1.0, 1),),
    ],
)
def test_else_nothing_is_proposed(causes: tuple[Cause, ...]) -> None:
    assert _proposed(*causes) is None
