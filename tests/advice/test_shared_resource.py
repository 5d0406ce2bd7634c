"""Workers that wait for one another: where more of them were tried and brought nothing, the cause says so."""

from dataclasses import replace

import pytest
from made_up_trials import LOADER, watched

from pipebench.advise.shared_resource import with_shared
from pipebench.render.watch_account import causes
from pipebench.results.account import Account, AccountRow, Cause
from pipebench.results.advice import Change, Finding
from pipebench.results.drilled import DrilledLine, DrilledRow
from pipebench.stats import Speedup

LINE = DrilledLine("/home/me/read.py", "Archive.window", 40, "", "with self.guard:", 75, 0.75, 0.6, 0.9)


def _run(code="workers-blocked", **values):
    found = Cause(code, 4.0, 4.0, 1, {"workers": 2, "busy": 0.98, "cpu_share": 0.01, "usable_cores": 2.0, **values})
    loader = replace(LOADER, sample_s=0.01, sample_cpu_s=0.0001)
    drilled = (DrilledRow(1, "Windows.__getitem__", "getitem", 0.9, 100, 0, (LINE,)),)
    account = Account(10.0, (AccountRow("wait-for-worker", 4.0, 1, 4.0),), (found,))
    return replace(watched(loader=loader), account=account, drilled=drilled)


def _tried(workers, outcome, speedup, limit=3.0, ends=None):
    gain = Speedup(speedup, *(ends or (0.95 * speedup, 1.05 * speedup)), 0.95)
    change = Change("num_workers", {"num_workers": workers}, predicted=limit)
    return Finding(change, outcome, gain, (speedup,) * 3)


def _text(found):
    return " ".join(str(getattr(one, "text", one)) for one in causes(found))


def test_more_workers_that_bring_nothing_wait_for_one_another():
    text = _text(with_shared(_run(), [_tried(4, "no-gain", 1.0)], 1))
    assert (
        "4 workers bring no more than 2 (tried): they seem to wait for one another in Archive.window (read.py:40)"
        in text
    )
    assert "More workers than cores" not in text


def test_so_do_workers_that_looks_have_found_at_a_lock():
    place = {"at_line": 0.5, "function": "Archive.window", "file": "/home/me/read.py", "line": 40}
    text = _text(with_shared(_run("shared-lock", **place), [_tried(4, "no-gain", 1.0)], 1))
    assert "wait for one another at a lock: Archive.window (read.py:40). 4 workers bring no more than 2" in text


def test_workers_of_a_stream_may_also_read_all_of_it_each():
    found = with_shared(_run(), [_tried(4, "no-gain", 1.0)], 1)
    stage = {"stage": "Tiles.__iter__", "stage_share": 0.9, "kind": "getitem", "includes_read": 0}
    cause = replace(found.account.causes[0], values={**found.account.causes[0].values, **stage})
    text = _text(replace(found, account=replace(found.account, causes=(cause,))))
    assert "or each reads all of the stream and drops the samples of the others" in text


def test_it_is_said_of_the_first_number_that_brings_no_more():
    tried = [_tried(4, "gain", 1.8), _tried(8, "gain", 1.75), _tried(16, "slower", 0.8)]
    assert "8 workers bring no more than 4 (tried)" in _text(with_shared(_run(), tried, 1))


def test_two_pairs_that_both_were_slower_show_it_where_their_interval_excludes_independent_workers():
    slower = replace(_tried(16, "unclear", 0.85, 9.0, (0.5, 1.6)), ratios=(0.8, 0.9))
    assert "16 workers bring no more than 2 (tried)" in _text(with_shared(_run(), [slower], 1))


def test_a_trial_of_fewer_workers_does_not_hide_that_more_brought_nothing():
    tried = [_tried(1, "no-gain", 1.0), _tried(4, "no-gain", 1.0), _tried(8, "no-gain", 1.0)]
    found = with_shared(_run(), tried, 1)
    assert "4 workers bring no more than 2 (tried)" in _text(found)
    assert found.account.causes[0].values["at_line"] == pytest.approx(0.9 * 0.75)


@pytest.mark.parametrize(
    "tried",
    [
        [],
        [_tried(4, "gain", 1.8)],
        [_tried(1, "no-gain", 1.0)],  # fewer
        [_tried(4, "gain", 2.9), _tried(8, "no-gain", 2.9)],  # the loop hardly waits any more
        [_tried(4, "unclear", 1.3)],
        [_tried(4, "gain", 4.1, 5.9, (3.3, 5.2)), _tried(8, "gain", 3.6, 5.9, (1.5, 8.5))],  # an interval that is wide
        [_tried(4, "gain", 2.2, 3.0, (2.0, 2.5)), _tried(8, "gain", 2.2, 3.0, (2.1, 2.3))],  # the loop may be the limit
        [_tried(3, "no-gain", 1.05, 3.0, (1.0, 1.3))],  # three independent workers for two bring not much more
    ],
)
def test_without_such_a_trial_nothing_is_said(tried):
    assert "wait for one another" not in _text(with_shared(_run(), tried, 1))


def test_workers_that_compute_are_another_matter():
    assert with_shared(_run("stage"), [_tried(4, "no-gain", 1.0)], 1) == _run("stage")


@pytest.mark.parametrize(
    ("saved", "tried", "left"),
    [
        (1.0, [_tried(2, "no-gain", 1.0)], False),
        (1.0, [_tried(2, "slower", 0.8), _tried(4, "no-gain", 1.0)], False),
        (1.0, [_tried(2, "unclear", 1.1)], True),
        (1.0, [_tried(2, "gain", 1.1)], True),
        (1.0, [], True),
        (4.0, [_tried(2, "no-gain", 1.0)], True),  # what batches cost in the loop stays a cause, with its stage
    ],
)
def test_that_there_are_no_workers_is_no_small_cause_where_workers_brought_nothing(saved, tried, left):
    found = Cause("no-workers", saved, saved, 1, {"usable_cores": 2.0})
    run = _run()
    rows = (AccountRow("make-batch", saved, 1, saved), AccountRow("training", 8.0, 1))
    run = replace(run, account=Account(10.0, rows, (found, *run.account.causes)))
    codes = [one.code for one in with_shared(run, tried, 1).account.causes]
    assert codes == ["no-workers"] * left + ["workers-blocked"]
    assert [one.code for one in with_shared(run, tried, 2).account.causes] == ["no-workers", "workers-blocked"]


@pytest.mark.parametrize(
    ("outcome", "told"), [("no-gain", False), ("slower", False), ("unclear", True), ("gain", True)]
)
def test_one_thread_of_torch_is_no_cause_if_more_were_tried_and_brought_nothing(outcome, told):
    tried = Finding(Change("loop_threads", {}, loop_threads=2), outcome, Speedup(1.0, 0.9, 1.1, 0.95))
    found = with_shared(_run("few-threads"), [tried], 1)
    assert any(one.code == "few-threads" for one in found.account.causes) is told
