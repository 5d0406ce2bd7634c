"""Sync points of the script's own loop: looked for in a few iterations, told as a cause with file and line."""

from dataclasses import replace
from pathlib import Path

import pytest
from fakes import Loader, Script, World
from made_up_script import MADE, Planted
from made_up_trials import seen

from pipebench.advise import sync_cause
from pipebench.advise.conductor import Conductor
from pipebench.render.advice import parts
from pipebench.render.layout import text
from pipebench.results.account import Account
from pipebench.results.sync_points import Operation, SyncPoint, SyncReport
from pipebench.watch.record.trial_lines import SyncAt, TrialSyncs
from pipebench.watch.trial.examining import Examining

POINT = SyncPoint("/train.py", 31, 2.0, (Operation(".item(): _local_scalar_dense", 2.0),))


class Found:
    """In place of `pipebench.syncs()`: notes what is done with it."""

    def __init__(self):
        self.done = []

    def __enter__(self):
        self.done.append("begin")
        return self

    def __exit__(self, *error):
        self.done.append("end")

    def came_before(self, batch):
        self.done.append(batch)

    def step(self):
        self.done.append("step")

    def report(self):
        return SyncReport(None, 2, 2.0, None, "no device here", (POINT,))


def test_whole_iterations_are_examined_and_a_pass_that_ends_early_is_not_told():
    opened, told = [], []
    looking = Examining(7, 2, told.append, lambda: opened.append(Found()) or opened[-1])
    looking.came("a")
    looking.came("b")
    looking.end()
    assert told == [] and opened[0].done == ["begin", "a", "step", "end"]
    for batch in "cde":
        looking.came(batch)
    assert opened[1].done == ["begin", "c", "step", "end"]
    assert told == [TrialSyncs(7, "", [SyncAt("/train.py", 31, 2.0, [".item(): _local_scalar_dense"], None)])]
    looking.end()
    assert len(opened) == 2 and len(told) == 1


def test_the_lines_of_a_real_loop_are_found():
    import torch

    told, model = [], torch.nn.Linear(4, 2)
    looking, values = Examining(1, 2, told.append), []
    for batch in (torch.ones(3, 4), torch.zeros(3, 4), torch.ones(3, 4)):
        looking.came(batch)
        values.append(model(batch).sum().item())
    looking.end()
    (found,) = told[0].points
    assert (
        Path(found.path).name == "test_sync_cause.py"
        and found.per_step == 1.0
        and found.operations[0].startswith(".item()")
    )
    assert values[0] == pytest.approx(values[2]) and torch.ones(1).item() == 1.0


@pytest.mark.parametrize("by", ["windows", "passes"])
def test_the_script_gets_its_own_batches_meanwhile(by, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr(Examining.__init__, "__defaults__", (lambda: opened.append(Found()) or opened[-1],))
    script = Script(tmp_path, monkeypatch, Loader(World(), list(range(9))))
    script.order(1, None, examine=3, by=by)
    assert script.one_pass() == list(range(9))
    told = [one for one in script.lines if isinstance(one, TrialSyncs)]
    assert len(told) == 1 and opened[0].done == ["begin", 0, "step", "step", "step", "end"]
    assert script.makers() == {"own"} and script.trial.spoiled


def _figures(folder, script, **more):
    (folder / "train.py").write_text(script)
    found = seen(0.6, **{})
    account = Account(20.0, ())
    return replace(
        found,
        watched=replace(found.watched, account=account),
        made=replace(MADE, file=str(folder / "train.py")),
        **more,
    )


def _advised(figures, answers=True):
    class Script(Planted):
        def order(self, order):
            super().order(order)
            if order.examine and answers:
                points = [SyncAt("/train.py", 31, 2.0, [".item(): _local_scalar_dense"], None)]
                self.pending.append(TrialSyncs(order.number, "", points))

    run = Script(lambda order: 1.0, figures)
    conductor = Conductor(run, {}, 400)
    conductor.conduct()
    return [one.examine for one in run.orders if one.examine], conductor


@pytest.mark.parametrize(
    ("script", "discards", "orders"), [("x.to('cuda')", True, [3]), ("x.to('cuda')", False, []), ("x.sum()", True, [])]
)
def test_they_are_looked_for_only_where_they_matter_and_weights_may_be_spoiled(script, discards, orders, tmp_path):
    assert _advised(_figures(tmp_path, script, discards=discards))[0] == orders


def test_they_are_a_cause_of_the_account_with_file_and_line(tmp_path):
    _, conductor = _advised(_figures(tmp_path, "cuda", discards=True))
    (cause,) = conductor.watched.account.causes
    assert cause.code == "sync-points" and cause.recoverable_s is None and conductor.advice().discarded
    shown = " ".join(text(parts(conductor.advice(), conductor.watched), width=80).split())
    assert (
        "The loop would make the host wait for the device 2 times an iteration: .item() in /train.py:31. "
        "Not verified on a GPU."
    ) in shown


def test_a_loop_without_them_is_left_as_it_was(tmp_path):
    _, conductor = _advised(_figures(tmp_path, "cuda", discards=True), answers=False)
    assert conductor.watched.account.causes == ()


def test_what_a_device_confirms_has_its_seconds():
    found = seen(0.6)
    found = replace(found, watched=replace(found.watched, account=Account(20.0, ())))
    told = TrialSyncs(1, "a device", [SyncAt("/a.py", 1, 1.0, ["x"], 0.01), SyncAt("/b.py", 2, 1.0, ["y"], 0.02)])
    (cause,) = sync_cause.with_syncs(found.watched, told, found).account.causes
    assert cause.s == cause.recoverable_s == pytest.approx(0.03 * 100) and not cause.on_device
    assert cause.values["places"] == "/b.py:2, /a.py:1"
