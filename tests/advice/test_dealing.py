"""However loaders take turns, the script gets the sampler's batches in the sampler's order, each once."""

import gc
import os
import types
import weakref

import pytest
from fakes import Loader, Script, World, plain, plain_iter, script_of

from pipebench.advise.judging import ratios
from pipebench.watch.trial import edits
from pipebench.watch.trial.dealing import Deal, DealtSampler, Hand
from pipebench.watch.trial.resting import cpu_s
from pipebench.watch.trial.stretches import Stretch, burst_of

SETTINGS = [{"num_workers": 4}, {"num_workers": 1}, {"num_workers": 0}, {"prefetch_factor": 5}]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("workers", [0, 1, 2])
def test_order_and_coverage_are_those_of_a_plain_run(tmp_path, monkeypatch, workers, settings):
    seen = set()
    for length in range(0, 130, 7):
        script = script_of(tmp_path, monkeypatch, length, workers)
        script.order(1, settings, window_s=2.0)
        for _ in range(2):
            script.world.made.clear()
            assert script.one_pass() == [[one] for one in range(length)]
            assert [batch for _, batch in script.world.made] == [[one] for one in range(length)]
            seen |= script.makers()
        assert not script.failures
    assert seen == {"own", "changed"}


def test_an_order_may_come_at_any_moment(tmp_path, monkeypatch):
    for moment in range(60):
        script = script_of(tmp_path, monkeypatch, 90)

        def then(number, moment=moment, script=script):
            if number == moment:
                script.order(1, {"num_workers": 3}, window_s=1.0)
            if number == moment + 20:
                script.order(2, {"num_workers": 4}, window_s=1.0)
            if number == moment + 30:
                script.order(3, None)

        assert script.one_pass(then=then) == [[one] for one in range(90)]
        assert all(one._iterator is None for one in script.opened)


@pytest.mark.parametrize("left", range(0, 40, 3))
@pytest.mark.parametrize(
    ("by", "more"), [("windows", {}), ("passes", {}), ("passes", {"persistent_workers": True})], ids=str
)
def test_a_changed_loader_that_fails_costs_no_batch(tmp_path, monkeypatch, left, by, more):
    script = script_of(tmp_path, monkeypatch, 120, left=left)
    script.order(1, {"num_workers": 3, **more}, by=by, window_s=3.0)
    for _ in range(3):
        assert script.one_pass() == [[one] for one in range(120)]
    assert len(script.failures) == 1 and "a worker is gone" in script.failures[0].problem
    if by == "passes":  # what makes the rest of the pass may take as long as the script allows
        assert script.opened[-1].name == "instead" and script.opened[-1].timeout == script.loader.timeout
    before = len(script.world.made)
    script.one_pass()
    assert {name for name, _ in script.world.made[before:]} == {"own"}


def test_the_scripts_own_errors_stay_its_own(tmp_path, monkeypatch):
    script = script_of(tmp_path, monkeypatch, 50)
    script.loader.left = 5
    script.order(1, {"num_workers": 3}, window_s=100.0)
    with pytest.raises(OSError, match="a worker is gone"):
        script.one_pass()
    assert not script.failures


def test_an_error_of_the_sampler_reaches_the_script_whoever_asked(tmp_path, monkeypatch):
    class Sampler:
        def __iter__(self):
            yield from ([one] for one in range(40))
            raise RuntimeError("no more indices")

    for window_s in (1.0, 3.0, 5.0, 100.0):
        script = Script(tmp_path, monkeypatch, Loader(World(), Sampler()))
        script.order(1, {"num_workers": 3}, window_s=window_s)
        with pytest.raises(RuntimeError, match="no more indices"):
            script.one_pass()


def test_windows_find_the_planted_ratio_and_each_holds_its_own_samples(tmp_path, monkeypatch):
    script = script_of(tmp_path, monkeypatch, 400, cost_s=0.5)
    script.order(1, {"num_workers": 4}, window_s=20.0)
    script.one_pass()
    found = ratios(script.windows)
    assert len(found) >= 3 and all(one == pytest.approx(2.0) for one in found)
    assert all(one.taken >= 3 * (8 if one.changed else 4) for one in script.windows)
    assert [one.changed for one in script.windows[: 2 * len(found)]] == [False, True] * len(found)


def test_a_much_faster_loader_needs_no_more_batches_than_the_present_one(tmp_path, monkeypatch):
    """In as many seconds it would use up the pass, and its windows would have no end."""
    script = script_of(tmp_path, monkeypatch, 60, cost_s=0.05)
    script.order(1, {"num_workers": 0}, window_s=20.0)
    for _ in range(3):
        script.one_pass()
    assert {(one.changed, one.taken) for one in script.windows} == {(False, 20), (True, 20)}
    assert ratios(script.windows) == pytest.approx([20.0] * 3)


@pytest.mark.parametrize(("workers", "settings"), [(2, {"prefetch_factor": 5}), (3, {"num_workers": 6})])
def test_windows_hold_whole_periods(tmp_path, monkeypatch, workers, settings):
    """Each 8th batch is slow: windows with one more of them than others would scatter."""
    script = script_of(tmp_path, monkeypatch, 2000, workers)
    script.order(1, settings, window_s=2.0, period=8)
    script.one_pass()
    assert len(script.windows) > 4 and all(one.taken % 8 == 0 for one in script.windows)
    assert burst_of(16, 7) == 16 and burst_of(0, 7) == 7  # 112 batches are too many


def test_a_pass_that_is_left_early_ends_the_changed_loader(tmp_path, monkeypatch):
    script = script_of(tmp_path, monkeypatch, 400)
    script.order(1, {"num_workers": 4}, window_s=1.0)
    for _ in range(4):
        script.one_pass(most=37)
    assert script.one_pass() == [[one] for one in range(400)]
    assert len(script.opened) == 5


@pytest.mark.parametrize("by", ["windows", "passes"])
def test_workers_end_when_the_script_leaves_its_loop(tmp_path, monkeypatch, by):
    script = script_of(tmp_path, monkeypatch, 400)
    script.order(1, {"num_workers": 4}, by=by, window_s=1.0)
    script.one_pass()
    gc.disable()  # a plain run needs no collection either
    try:
        iterator = script.iterate()
        for _ in range(37):
            script.trial.batch(iterator, plain, plain_iter)
        left = weakref.ref(iterator)
        del iterator
        assert left() is None and script.makers() == {"own", "changed"}
    finally:
        gc.enable()
    assert script.one_pass() == [[one] for one in range(400)]


def test_a_loader_that_only_the_loop_holds_is_tried_too(tmp_path, monkeypatch):
    script = script_of(tmp_path, monkeypatch, 1)
    script.order(1, {"num_workers": 4}, window_s=1.0)
    iterator = script.trial.iterate(Loader(script.world, [[one] for one in range(400)]), plain_iter, plain)
    iterator.loader = types.SimpleNamespace(**vars(iterator.loader))  # torch's iterator does not hold its loader
    assert [script.trial.batch(iterator, plain, plain_iter) for _ in range(400)] == [[one] for one in range(400)]
    assert script.makers() == {"own", "changed"}


def test_pairs_lie_in_one_pass(tmp_path, monkeypatch):
    script = script_of(tmp_path, monkeypatch, 50)
    script.order(1, {"num_workers": 2}, window_s=8.0)
    for _ in range(6):
        script.one_pass()
    pairs = {}
    for one in script.windows:
        pairs.setdefault(one.pair, []).append(one.changed)
    assert sorted(map(tuple, pairs.values())).count((False, True)) >= 5


def test_passes_alternate_and_persistent_workers_start_before_they_count(tmp_path, monkeypatch):
    script = script_of(tmp_path, monkeypatch, 20, cost_s=0.25)
    script.order(1, {"persistent_workers": True}, by="passes")
    for _ in range(8):
        assert script.one_pass() == [[one] for one in range(20)]
    assert len(script.opened) == 1
    assert [(one.pair, one.changed, one.taken) for one in script.windows] == [
        (0, False, 20), (0, True, 20), (1, False, 20), (1, True, 20), (2, False, 20), (2, True, 20), (3, False, 20),
    ]  # fmt: skip
    assert ratios(script.windows) == pytest.approx([4.0] * 3)
    kept = script.opened[0]._iterator
    assert not kept.ended
    script.order(2, None)
    assert script.one_pass() == [[one] for one in range(20)]
    assert kept.ended


def test_loops_over_one_loader_inside_each_other_get_all_their_batches(tmp_path, monkeypatch):
    for moment in range(0, 30, 3):
        script = script_of(tmp_path, monkeypatch, 40)
        script.order(1, {"num_workers": 3}, window_s=1.0)
        outer = script.trial.iterate(script.loader, plain_iter, plain)
        had = []
        while True:
            if len(had) == moment:
                assert script.one_pass() == [[one] for one in range(40)]
            try:
                had.append(script.trial.batch(outer, plain, plain_iter))
            except StopIteration:
                break
        assert had == [[one] for one in range(40)]


def test_two_iterators_of_one_loader_side_by_side_get_all_their_batches(tmp_path, monkeypatch):
    script = script_of(tmp_path, monkeypatch, 2000)
    both = [script.trial.iterate(script.loader, plain_iter, plain) for _ in range(2)]
    script.order(1, {"num_workers": 3}, window_s=1.0)
    for number in range(2000):
        assert [script.trial.batch(one, plain, plain_iter) for one in both] == [[number]] * 2


@pytest.mark.parametrize("already", [1, 2])
def test_persistent_workers_serve_one_of_two_passes_side_by_side(tmp_path, monkeypatch, already):
    script = script_of(tmp_path, monkeypatch, 20)
    script.order(1, {"persistent_workers": True}, by="passes")
    for _ in range(already):
        script.one_pass()
    for _ in range(3):
        both = [script.iterate() for _ in range(2)]
        for number in range(20):
            assert [script.trial.batch(one, plain, plain_iter) for one in both] == [[number]] * 2
        for one in both:
            with pytest.raises(StopIteration):
                script.trial.batch(one, plain, plain_iter)
    assert "changed" in script.makers()


@pytest.mark.parametrize("nth", [1, 2, 20, 45, 70])
def test_a_fault_of_ours_is_one_line_and_costs_no_batch(tmp_path, monkeypatch, capsys, nth):
    script = script_of(tmp_path, monkeypatch, 120)
    monkeypatch.setattr(script.trial.recording, "fault", lambda where, error: None)
    script.order(1, {"num_workers": 3}, window_s=3.0)
    looks, plain_look = [], Stretch.look

    def look(self):
        looks.append(self)
        if len(looks) >= nth:
            raise ZeroDivisionError("ours")
        return plain_look(self)

    monkeypatch.setattr(Stretch, "look", look)
    assert script.one_pass() == [[one] for one in range(120)]
    assert script.one_pass() == [[one] for one in range(120)]
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("pipebench: a fault of pipebench while trying a loader (ZeroDivisionError: ours")


def test_nothing_is_touched_without_an_order(tmp_path, monkeypatch):
    script = script_of(tmp_path, monkeypatch, 20)
    iterator = script.trial.iterate(script.loader, plain_iter, plain)
    before = iterator._sampler_iter
    script.trial.batch(iterator, plain, plain_iter)
    assert iterator._sampler_iter is before and not script.lines


def test_passes_of_a_persistent_loader_keep_the_changed_workers_too(tmp_path, monkeypatch):
    script = script_of(tmp_path, monkeypatch, 20)
    script.loader.persistent_workers = True
    script.order(1, {"num_workers": 3}, by="passes")
    for _ in range(6):
        assert script.one_pass() == [[one] for one in range(20)]
    assert len(script.opened) == 1 and script.opened[0].persistent_workers
    assert [one.changed for one in script.windows] == [False, True, False, True, False]


@pytest.mark.parametrize(("cores", "told"), [(0.6, True), (0.4, False)])
def test_workers_that_compute_while_they_wait_are_told_and_nothing_is_judged(tmp_path, monkeypatch, cores, told):
    """A thread of a worker that polls takes the same cores in the windows of both loaders."""
    script = script_of(tmp_path, monkeypatch, 200)
    workers = [types.SimpleNamespace(pid=one) for one in (11, 12)]
    monkeypatch.setattr("fakes.Iterator._workers", workers, raising=False)
    monkeypatch.setattr("pipebench.watch.trial.resting.cpu_s", lambda process: script.world.now * cores / 2)
    script.order(1, {"num_workers": 1}, window_s=3.0)
    assert script.one_pass() == [[one] for one in range(200)]
    assert [one.problem for one in script.failures] == ["workers-compute"] * told
    assert bool(ratios(script.windows)) is not told


def test_the_cpu_time_of_a_process_is_read_from_the_kernel():
    assert cpu_s(os.getpid()) == pytest.approx(sum(os.times()[:2]), abs=0.05) and cpu_s(0) == 0.0


def test_in_a_pass_of_a_changed_loader_the_iterator_has_the_length_of_the_scripts_own(tmp_path, monkeypatch):
    world = World()
    script = Script(tmp_path, monkeypatch, Loader(world, [[one] for one in range(20)]))
    script.order(1, {"num_workers": 3}, by="passes")
    lengths = []
    for _ in range(4):
        iterator = script.trial.iterate(script.loader, plain_iter, plain)
        lengths.append(len(iterator._index_sampler))
        for _ in range(20):
            script.trial.batch(iterator, plain, plain_iter)
        with pytest.raises(StopIteration):
            script.trial.batch(iterator, plain, plain_iter)
    assert lengths == [20] * 4 and script.makers() == {"own", "changed"}
    with pytest.raises(TypeError, match="has no len"):
        len(DealtSampler(Hand(Deal(iter(()))), iter(())))


@pytest.mark.parametrize(("workers", "times"), [(0, 1), (2, 3)])
def test_what_edits_have_kept_in_the_scripts_own_process_lasts_for_their_order(workers, times, tmp_path, monkeypatch):
    """A cache in new workers has to be filled again, as the user's would be."""
    made = []
    monkeypatch.setattr(edits, "made", lambda named: made.append(named) or ())
    script = Script(tmp_path, monkeypatch, Loader(World(), [[one] for one in range(4)], workers=workers))
    script.one_pass()
    script.order(1, {}, by="passes", edits={"cache": {"name": "read"}})
    for _ in range(6):
        script.one_pass()
    assert len(made) == times
    script.order(2, {}, by="passes", edits={"cache": {"name": "other"}})
    for _ in range(2):
        script.one_pass()
    assert len(made) == times + 1 and made[-1] == {"cache": {"name": "other"}}


def test_passes_that_the_script_leaves_count_up_to_their_last_batch(tmp_path, monkeypatch):
    """As by `break`, or by Lightning, which asks for no batch after the last one. The last pass has no end here."""
    script = script_of(tmp_path, monkeypatch, 40)
    script.order(1, {"num_workers": 3}, by="passes")
    for _ in range(5):
        assert script.one_pass(most=10) == [[one] for one in range(10)]
    assert [(one.pair, one.changed, one.taken, one.seconds) for one in script.windows] == [
        (0, False, 10, 10.0), (0, True, 10, 5.0), (1, False, 10, 10.0), (1, True, 10, 5.0),
    ]  # fmt: skip


def test_persistent_workers_of_passes_that_the_script_leaves(tmp_path, monkeypatch):
    script = script_of(tmp_path, monkeypatch, 20)
    script.order(1, {"persistent_workers": True}, by="passes")
    for _ in range(6):
        assert script.one_pass(most=8) == [[one] for one in range(8)]
    assert [one.changed for one in script.windows] == [False, True, False, True] and not script.failures
    assert len(script.opened) == 1


def test_windows_follow_passes_of_persistent_workers_that_the_script_leaves(tmp_path, monkeypatch):
    """torch has one iterator for all these passes."""
    script = script_of(tmp_path, monkeypatch, 200)
    script.loader.persistent_workers = True
    script.order(1, {"num_workers": 3}, by="passes")
    for _ in range(5):
        script.one_pass(most=100)
    passes = len(script.windows)
    script.order(2, {"num_workers": 4}, window_s=1.0)
    for _ in range(3):
        assert script.one_pass(most=100) == [[one] for one in range(100)]
    assert passes and {one.changed for one in script.windows[passes:] if one.order == 2} == {False, True}
