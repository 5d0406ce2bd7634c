"""Each remedy: when it is tried, and what it changes. A new file in the package is found without any other edit."""

import importlib
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from made_up_script import MADE
from made_up_trials import LOADER, host, seen, worker

import pipebench
from pipebench.advise import trial
from pipebench.remedies import (
    in_order,
    num_workers,
    one_thread,
    persistent_workers,
    prefetch_factor,
    remedies,
    spread_evenly,
    start_method,
)
from pipebench.remedies.seen import Seen
from pipebench.results.account import Account, AccountRow, Cause
from pipebench.results.advice import Change, Finding
from pipebench.results.hand_off import HandOff
from pipebench.results.watched import WaitPart
from pipebench.stats import Speedup

BLAS = host(("OpenBLAS", 2, "OPENBLAS_NUM_THREADS=1"))
SLOW_START = replace(LOADER, later_startup_s=2.0)


def _settings(change):
    return None if change is None else change.settings


def test_what_runs_in_the_users_processes_needs_no_library():
    acting = [name for name in remedies() if hasattr(importlib.import_module(f"pipebench.remedies.{name}"), "edit")]
    assert set(acting) == {
        "as_tensors", "bytes_across", "cache", "copies", "crop_first", "decoders", "draft", "from_bytes", "getitems",
        "in_one_tensor", "kept", "knock_out", "lookup", "opencv_resize", "resize_first", "ring_collate",
    }  # fmt: skip
    text = (
        "import importlib, sys; sys.path.insert(0, sys.argv[1]); [importlib.import_module(one) for one in sys.argv[2:]]"
    )
    names = [f"pipebench.remedies.{name}" for name in acting]
    root = str(Path(pipebench.__file__).parents[1])
    subprocess.run([sys.executable, "-S", "-E", "-c", text, root, *names], check=True)  # -S: without site-packages


def test_every_module_is_a_remedy_in_a_stated_order():
    assert list(remedies()) == [
        "persistent_workers", "loop_threads", "one_thread", "as_tensors", "copies", "in_one_tensor",
        "num_workers", "getitems", "prefetch_factor", "pin_memory", "ring_collate", "from_bytes", "in_order",
        "decoders", "lookup", "start_method", "bytes_across", "kept", "cache", "crop_first", "draft",
        "opencv_resize", "resize_first", "knock_out", "one_iterator", "validation", "between", "callbacks",
        "in_workers", "like_lengths", "padding", "less_work", "sampler_ahead", "slow_lines", "divide_first",
        "fewer_fields", "in_training", "one_row", "select_first", "spread_evenly", "unlocked",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("figures", "first"),
    [
        (seen(0.5), {"num_workers": 4}),
        (seen(0.5, num_workers=0), {"num_workers": 2}),
        (seen(0.01), None),
        (seen(0.01, num_workers=8), {"num_workers": 2}),
        (seen(0.01, num_workers=8, cores=0.5), {"num_workers": 1}),
        (seen(0.5, num_workers=16), {"num_workers": 2}),
        (seen(0.01, num_workers=1, cores=0.5), None),
    ],
)
def test_the_first_rung(figures: Seen, first):
    assert _settings(num_workers.propose(figures, [])) == first


def test_a_copy_of_the_workers_memory_is_the_cost():
    assert num_workers.propose(seen(0.5, workers=(worker(),)), []).cost == "+2 processes, 600 MB"
    assert num_workers.propose(seen(0.01, num_workers=8), []).cost == "−6 processes"


@pytest.mark.parametrize(("batches", "by_passes"), [(80, True), (150, True), (400, False), (1000, False)])
def test_first_workers_that_each_pass_starts_are_compared_by_passes(batches, by_passes):
    """The loader is made anew in each pass of 0.1 s an iteration. Pairs of longer passes find no room in the budget."""
    loader = replace(LOADER, passes=3, iterations=3 * batches, again=2)
    change = num_workers.propose(seen(0.5, batches=batches, loader=loader, num_workers=0), [])
    assert change.settings == {"num_workers": 2} and change.by_passes is by_passes


@pytest.mark.parametrize(("left_s", "by_passes"), [(100.0, True), (50.0, False)])
def test_first_workers_are_tried_in_windows_where_the_time_is_too_short_for_passes(left_s, by_passes):
    """Four passes of 15 s take 60 s."""
    figures = seen(0.5, batches=150, loader=replace(LOADER, passes=3, iterations=450, again=2), num_workers=0)
    first = Change("num_workers", {"num_workers": 2}, "", by_passes=True)
    assert trial.by_passes(figures, first, 60.0, left_s) is by_passes
    lives = replace(first, settings={"persistent_workers": True})
    assert trial.by_passes(figures, lives, 60.0, left_s)


@pytest.mark.parametrize(
    ("passes", "batches", "live_on", "by_passes"),
    [(3, 20, True, True), (1, 20, False, False), (3, 400, True, False), (3, 1000, False, False)],
)
def test_the_first_workers_of_passes_that_are_not_long_live_on(passes, batches, live_on, by_passes):
    """An iteration takes 0.1 s. Of one pass, or of passes of 100 s, the start of workers costs little."""
    loader = replace(LOADER, passes=passes, iterations=passes * batches)
    figures = seen(0.5, batches=batches, loader=loader, num_workers=0)
    change = num_workers.propose(figures, [])
    assert (change.settings.get("persistent_workers", False), change.by_passes) == (live_on, by_passes)
    assert change.how == (persistent_workers.KEEPS if live_on else num_workers.COPIES)
    present = num_workers.propose(replace(figures, settings={**figures.settings, "num_workers": 2}), [])
    assert present.settings == {"num_workers": 4} and present.how == ()


@pytest.mark.parametrize(
    ("figures", "asked"),
    [
        (seen(used=BLAS), True),
        (seen(used=BLAS, workers=(worker(threads=2),)), False),
        (seen(used=BLAS, num_workers=0), False),
        (seen(used=BLAS, cores=1.0), False),
        (seen(used=host(("OpenMP (libgomp)", 2, "OMP_NUM_THREADS=1"))), False),
        (seen(), False),
    ],
)
def test_one_thread_needs_workers_with_more(figures, asked):
    assert (one_thread.propose(figures, []) is not None) is asked


def test_threads_that_did_no_work_are_no_reason():
    for worked, asked in ((0, False), (2, True), (None, True)):
        used = replace(BLAS, worker_native_threads=worked)
        assert (one_thread.propose(seen(used=used, workers=(worker(threads=4),)), []) is not None) is asked


def test_workers_that_hardly_compute_have_no_threads_that_compete():
    """While the script runs, only their CPU time says what their threads did: the main thread used 0.9 of a core."""
    for cores, asked in ((0.05, False), (0.92, False), (1.2, True)):
        both = (replace(worker(threads=4), cores=cores),) * 2
        assert (one_thread.propose(seen(used=BLAS, workers=both), []) is not None) is asked


def test_what_workers_fill_anew_in_each_pass_counts_with_their_start():
    figures = _with_cause(seen(0.5, batches=2000), Cause("warm-up", 2.0, 2.0, 1))
    change = persistent_workers.propose(figures, [])
    assert change.asked_for and change.by_passes and change.predicted == pytest.approx(2.0, rel=0.02)
    assert persistent_workers.propose(_with_cause(seen(0.5), Cause("warm-up", 0.1, 0.1, 1)), []) is None


def test_start_up_counts_only_if_it_is_a_share_of_the_pass():
    short, long = seen(batches=20, loader=SLOW_START), seen(batches=2000, loader=SLOW_START)
    assert persistent_workers.propose(short, []).predicted == pytest.approx(2.0)
    assert persistent_workers.propose(short, []).how == persistent_workers.KEEPS
    assert persistent_workers.propose(long, []) is None
    assert (
        persistent_workers.propose(replace(short, settings={**short.settings, "persistent_workers": True}), []) is None
    )


def test_fork_is_tried_where_another_start_method_takes_long():
    spawned = seen(batches=20, loader=replace(SLOW_START, start_method="spawn"))
    assert _settings(start_method.propose(spawned, [])) == {"multiprocessing_context": "fork"}
    assert start_method.propose(seen(batches=20, loader=SLOW_START), []) is None


def test_waits_for_the_sampler_are_no_reason_for_more_workers():
    figures = seen(0.5)
    for share, first in ((0.9, {"num_workers": 4}), (0.03, None)):
        parts = (WaitPart("sampler", 0.05 * (1 - share), 1 - share), WaitPart("wait-for-worker", 0.05 * share, share))
        one = replace(figures, watched=replace(figures.watched, wait_parts=parts))
        assert _settings(num_workers.propose(one, [])) == first
        assert (prefetch_factor.propose(one, []) is None) is (first is None)
        assert one.without_waits == pytest.approx(2.0)
    assert one.promise == pytest.approx(1 / (1 - 0.5 * 0.03))


def test_a_torch_without_in_order_is_not_asked_for_it():
    allowed = replace(seen(0.5), any_order=True)
    assert _settings(in_order.propose(allowed, [])) == {"in_order": False}
    older = {name: value for name, value in allowed.settings.items() if name != "in_order"}
    assert in_order.propose(replace(allowed, settings=older), []) is None


BLOCKED = Cause("workers-blocked", 4.0, 4.0, 1)
TOLD = {4: 1.8, 8: 2.9, 16: 3.0, 32: 3.0}


def _with_cause(figures, cause, told=TOLD):
    account = Account(10.0, (AccountRow("wait-for-worker", 4.0, 1, 4.0),), (cause,))

    def foretold(change):
        found = told.get(change.settings.get("num_workers"))
        return None if found is None else Speedup(found, 0.8 * found, 1.2 * found, 0.95)

    return replace(figures, watched=replace(figures.watched, account=account), foretold=foretold)


def _rung(workers, outcome, speedup):
    change = Change("num_workers", {"num_workers": workers})
    return Finding(change, outcome, Speedup(speedup, 0.9 * speedup, 1.1 * speedup, 0.95), (speedup,) * 3)


def test_where_workers_wait_the_ladder_begins_with_the_rung_that_the_simulation_holds_for_nearly_the_best():
    assert _settings(num_workers.propose(_with_cause(seen(0.7), BLOCKED), [])) == {"num_workers": 8}
    computing = replace(BLOCKED, code="stage")
    assert _settings(num_workers.propose(_with_cause(seen(0.7), computing), [])) == {"num_workers": 4}
    hardly = {4: 1.8, 8: 2.0, 16: 2.0}
    assert _settings(num_workers.propose(_with_cause(seen(0.7), BLOCKED, hardly), [])) == {"num_workers": 4}


def test_a_rung_that_was_passed_over_is_tried_if_the_higher_one_brought_nothing():
    figures = _with_cause(seen(0.7), BLOCKED)
    assert _settings(num_workers.propose(figures, [_rung(8, "no-gain", 1.0)])) == {"num_workers": 4}
    assert _settings(num_workers.propose(figures, [_rung(8, "gain", 2.5)])) == {"num_workers": 16}
    assert num_workers.propose(figures, [_rung(8, "no-gain", 1.0), _rung(4, "no-gain", 1.0)]) is None


def test_one_worker_is_tried_where_two_took_the_cores_of_the_loop_and_gained_nothing():
    lost = replace(_rung(2, "unclear", 0.8), ratios=(0.8, 0.7))
    alone = seen(0.6, num_workers=0)
    assert _settings(num_workers.propose(alone, [lost])) == {"num_workers": 1}
    assert num_workers.propose(alone, [lost, _rung(1, "slower", 0.9)]) is None
    assert num_workers.propose(seen(0.6, num_workers=0, cores=4.0), [lost]) is None
    assert _settings(num_workers.propose(alone, [_rung(2, "gain", 1.5)])) == {"num_workers": 4}
    left = Finding(lost.change, "not-tried", reason="budget")
    assert num_workers.propose(alone, [left]) is None


def test_rungs_below_one_that_disappoints_are_climbed_from_the_lowest():
    figures = _with_cause(seen(0.7), BLOCKED, {4: 1.8, 8: 2.2, 16: 3.0, 32: 3.0})
    jump = _rung(16, "gain", 1.2)
    assert _settings(num_workers.propose(figures, [])) == {"num_workers": 16}
    assert _settings(num_workers.propose(figures, [jump])) == {"num_workers": 4}
    assert _settings(num_workers.propose(figures, [jump, _rung(4, "gain", 1.7)])) == {"num_workers": 8}
    assert num_workers.propose(figures, [jump, _rung(4, "gain", 1.7), _rung(8, "gain", 1.7)]) is None
    assert num_workers.propose(figures, [_rung(16, "gain", 2.9)]) is None  # 32 are more than may be tried


def test_rungs_that_could_not_be_tried_leave_the_lower_ones_open():
    """As of an iterable dataset, whose rungs are all only predicted."""
    left = [Finding(Change("num_workers", {"num_workers": one}), "not-tried", reason="iterable") for one in (8, 16)]
    assert _settings(num_workers.propose(_with_cause(seen(0.7), BLOCKED), left)) == {"num_workers": 4}


def test_more_workers_of_a_stream_that_is_not_divided_are_only_a_part_of_the_change():
    """Each of them would give all samples, so the line alone is no advice."""
    figures = seen(0.7, loader=replace(LOADER, undivided=True))
    change = num_workers.propose(_with_cause(figures, BLOCKED), [])
    assert change.partly and change.how == num_workers.DIVIDE and not num_workers.propose(seen(0.7), []).partly
    fewer = num_workers.propose(_with_cause(seen(0.7, num_workers=12, loader=figures.loader), BLOCKED, {}), [])
    assert _settings(fewer) == {"num_workers": 6} and not fewer.partly and fewer.how == ()


@pytest.mark.parametrize(("shards", "batches", "up"), [(None, 1000, 4), (0, 1000, 4), (3, 1000, None), (None, 3, None)])
def test_more_workers_than_shards_or_batches_are_not_tried(shards, batches, up):
    figures = seen(0.7, batches=batches, loader=replace(LOADER, shards=shards))
    assert _settings(num_workers.propose(figures, [])) == ({"num_workers": up} if up else None)


def test_first_workers_that_would_run_the_script_again_need_a_guard_first():
    """The line alone would end the script, so it is not tried, and a patch with it is only a part of the change."""
    figures = seen(0.7, num_workers=0)
    change = num_workers.propose(replace(figures, made=replace(MADE, unguarded=True)), [])
    assert (change.partly, change.untried) == (True, "no-main-guard")
    assert change.how[: len(num_workers.GUARD)] == num_workers.GUARD
    plain = num_workers.propose(replace(figures, made=MADE), [])
    assert (plain.partly, plain.untried) == (False, "") and not set(num_workers.GUARD) & set(plain.how)


@pytest.mark.parametrize(("megabytes", "workers", "ahead"), [(4000, 4, 8), (400, 4, None), (200, None, None)])
def test_what_shared_memory_cannot_hold_is_not_tried(megabytes, workers, ahead):
    """A batch takes 25 MB. Four workers make 12 ahead; two with a prefetch factor of 8 make 18."""
    used = replace(host(), shared_memory_size_bytes=megabytes * 1_000_000, shared_memory_bytes=0)
    handed = HandOff(0.001, 0.001, 500.0, 100, shared_bytes_per_batch=25e6)
    figures = seen(0.5, used=used)
    figures = replace(figures, watched=replace(figures.watched, hand_off=handed))
    for remedy, name, wanted in ((num_workers, "num_workers", workers), (prefetch_factor, "prefetch_factor", ahead)):
        assert _settings(remedy.propose(figures, [])) == (None if wanted is None else {name: wanted})


@pytest.mark.parametrize(
    ("limit", "strategy", "workers", "ahead"),
    [
        (4096, "file_descriptor", 4, 8),
        (2048, "file_descriptor", 4, None),
        (1024, "file_descriptor", None, None),
        (1024, "file_system", 4, 8),
        (None, "file_descriptor", 4, 8),
    ],
)
def test_tensors_for_which_no_files_could_be_opened_are_not_asked_for(limit, strategy, workers, ahead):
    """A batch has 140 tensors: "too many open files" would end the training."""
    used = replace(host(), descriptor_limit=limit, script_descriptors=100, sharing_strategy=strategy)
    handed = HandOff(0.001, 0.001, 500.0, 100, tensors_per_batch=140.0)
    figures = seen(0.5, used=used)
    figures = replace(figures, watched=replace(figures.watched, hand_off=handed))
    for remedy, name, wanted in ((num_workers, "num_workers", workers), (prefetch_factor, "prefetch_factor", ahead)):
        assert _settings(remedy.propose(figures, [])) == (None if wanted is None else {name: wanted})


@pytest.mark.parametrize(("free", "ahead"), [(8e9, 8), (3e9, None), (None, 8)])
def test_batches_that_memory_does_not_hold_are_not_made_ahead(free, ahead):
    """200 MB of arrays a batch wait in the queues of the workers, and not in shared memory: 12 more are 2.4 GB."""
    figures = replace(seen(0.5), free_bytes=free)
    handed = HandOff(0.001, 0.001, 200e6, 100, shared_bytes_per_batch=0.0)
    figures = replace(figures, watched=replace(figures.watched, hand_off=handed))
    assert _settings(prefetch_factor.propose(figures, [])) == (None if ahead is None else {"prefetch_factor": ahead})


def test_a_loop_that_leaves_its_passes_early_makes_fewer_iterations_than_its_loader_has():
    early = replace(LOADER, passes=5, iterations=225)
    assert seen(0.5, batches=10_000, loader=early).turns == 50 and seen(0.5, batches=45, loader=early).turns == 45
    assert seen(0.5, batches=10_000, loader=replace(LOADER, passes=1)).turns == 10_000


@pytest.mark.parametrize(
    ("gains", "first"), [({8: 1.0, 32: 1.05, 128: 1.7, 512: 1.72}, 128), ({8: 1.5, 32: 1.55}, 8), ({}, 8)]
)
def test_a_store_that_does_not_reach_over_a_long_batch_is_passed_over(gains, first):
    """One reader takes 1.15 s for a segment of 56 batches: eight batches ahead gain nothing."""
    told = {one: Speedup(gain, 0.8 * gain, 1.2 * gain, 0.95) for one, gain in gains.items()}
    figures = _with_cause(seen(0.5), replace(BLOCKED, code="waiting"))
    figures = replace(figures, foretold=lambda change: told.get(change.settings["prefetch_factor"]))
    change = prefetch_factor.propose(figures, [])
    assert _settings(change) == {"prefetch_factor": first} and change.asked_for
    gained = Finding(change, "gain", Speedup(1.5, 1.4, 1.6, 0.95))
    assert _settings(prefetch_factor.propose(figures, [gained])) == {"prefetch_factor": 4 * first}


def test_too_many_workers_that_wait_are_halved():
    figures = _with_cause(seen(0.7, num_workers=12), BLOCKED, {})
    assert _settings(num_workers.propose(figures, [])) == {"num_workers": 6}
    assert _settings(num_workers.propose(figures, [_rung(6, "gain", 1.6)])) == {"num_workers": 3}


def test_workers_that_would_wait_are_known_by_the_cpu_time_of_samples():
    no_workers = replace(BLOCKED, code="no-workers")
    waits = replace(LOADER, sample_s=0.01, sample_cpu_s=0.001)
    figures = _with_cause(seen(0.7, loader=waits, num_workers=0), no_workers, {2: 1.2, 4: 1.8, 8: 2.9})
    assert _settings(num_workers.propose(figures, [])) == {"num_workers": 8}
    computes = replace(figures, loader=replace(waits, sample_cpu_s=0.01))
    assert _settings(num_workers.propose(computes, [])) == {"num_workers": 2}


def test_no_workers_are_tried_where_batches_hold_many_tensors():
    figures = _with_cause(seen(0.7, num_workers=0), replace(BLOCKED, code="many-tensors"), {2: 0.1})
    assert num_workers.propose(figures, []) is None


@pytest.mark.parametrize(
    ("code", "any_order", "asked"),
    [("waiting", False, True), ("head-of-line", False, True), ("head-of-line", True, False), ("stage", False, False)],
)
def test_more_batches_ahead_are_asked_for_where_workers_rest_and_the_loop_waits(code, any_order, asked):
    figures = replace(_with_cause(seen(0.5), Cause(code, 4.0, 4.0, 1)), any_order=any_order)
    assert prefetch_factor.propose(figures, []).asked_for is asked


def test_no_workers_are_predicted_where_the_simulation_promises_much_of_them():
    """Where the weights are kept, they are not tried: the dataset would run in the script's own process."""
    told = {0: Speedup(1.6, 1.2, 2.1, 0.95), 2: Speedup(1.0, 0.9, 1.1, 0.95)}
    figures = replace(
        seen(0.5, num_workers=2, persistent_workers=True, prefetch_factor=8),
        foretold=lambda change: told.get(change.settings.get("num_workers")),
    )
    more = Finding(Change("num_workers", {"num_workers": 4}), "no-gain", Speedup(1.0, 0.9, 1.1, 0.95))
    found = num_workers.propose(figures, [more])
    assert found.untried == num_workers.OWN_PROCESS and found.predicted == 1.6
    assert found.settings == {"num_workers": 0, "persistent_workers": False, "prefetch_factor": None}
    assert num_workers.propose(figures, [more, Finding(found, "not-tried")]) is None
    gained = replace(more, outcome="gain", gain=Speedup(1.5, 1.4, 1.6, 0.95))
    worse = Finding(Change("num_workers", {"num_workers": 8}), "no-gain", Speedup(1.4, 1.3, 1.5, 0.95))
    assert num_workers.propose(figures, [gained, worse]) is None
    hardly = replace(figures, foretold=lambda change: Speedup(1.05, 1.0, 1.1, 0.95))
    assert num_workers.propose(hardly, [more]) is None
    tried = num_workers.propose(replace(figures, discards=True), [more])
    assert not tried.untried and tried.discards and tried.settings == found.settings


def test_no_workers_are_tried_first_where_a_hand_off_is_a_cause_and_weights_may_be_spoiled():
    """Also where the simulation, which does not know all that a hand-off costs, promises nothing of them."""
    figures = _with_cause(seen(0.5, num_workers=8), Cause("pickling", 4.0, 4.0, 1), {})
    assert _settings(num_workers.propose(figures, [])) == {"num_workers": 16}
    found = num_workers.propose(replace(figures, discards=True), [])
    assert _settings(found) == {"num_workers": 0} and found.asked_for and found.predicted is None and not found.untried
    slower = Finding(found, "slower", Speedup(0.5, 0.4, 0.6, 0.95))
    assert _settings(num_workers.propose(replace(figures, discards=True), [slower])) == {"num_workers": 16}


def test_work_that_is_spread_unevenly_is_a_change_of_the_dataset_and_its_gain_is_predicted():
    """The account has 12 s, of which 4 could be saved."""
    found = spread_evenly.propose(_with_cause(seen(0.5), Cause("uneven-workers", 4.0, 4.0, 1), {}), [])
    assert found.of_script and not found.settings and "info.num_workers" in " ".join(found.how)
    assert spread_evenly.propose(_with_cause(seen(0.5), Cause("stage", 4.0, 4.0, 1), {}), []) is None
