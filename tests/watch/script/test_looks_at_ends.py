"""Looks at the begin of a run, when no model is known yet, and after a loop that was left."""

import sys
import threading
from types import SimpleNamespace

import pytest
from looked_at import Client, seen_from_outside

from pipebench.watch.script import loop_looks
from pipebench.watch.script.loop_looks import OFTEN_S, RARELY_S
from pipebench.watch.script.loop_place import place_in


def test_what_comes_after_a_loop_that_was_left_is_no_part_of_it(looker):
    """No end of the pass tells of a `break`."""
    at_work = seen_from_outside(looker.of)

    class Batches:
        def __iter__(self):
            return self

        def __next__(self):
            looker.of.came(1, sys._getframe(1))
            return 3

    client = Client()
    for number, _ in enumerate(Batches()):
        client.report(at_work)
        if number == 2:
            break
    client.report(at_work)
    looker.of.write()
    (line,) = looker.written
    assert [one.looks for one in line.places] == [3]


@pytest.mark.parametrize("finds", [False, True])
def test_looks_are_frequent_until_one_has_met_the_model(finds, looker, monkeypatch):
    """What is before a model that takes a hundredth of an iteration would not be seen for a long time."""
    of, each = looker.of, []
    of.each_s, of.early = RARELY_S, lambda loader: True
    of.came(1, sys._getframe())
    monkeypatch.setattr(loop_looks, "_FIRST", 0)

    def waits(stop, seconds):
        each.append(seconds)
        return len(each) == loop_looks._SEARCH + 100

    monkeypatch.setattr(of, "_waits", waits)
    place = place_in(sys._getframe(), id(sys._getframe()))
    at_model = place._replace(trains=True, models=True)
    seen = iter([place] * 20 + [at_model if finds else place] * 9999)
    monkeypatch.setattr(loop_looks, "placed", lambda *_: next(seen))
    of._look_on(threading.Lock(), SimpleNamespace(release=lambda: None))
    often = [one for one in each if one < 0.0031]
    assert len(often) == (19 if finds else loop_looks._SEARCH)  # the first look, which is a pair, is no search yet


def test_after_a_fork_the_looks_before_it_count_too(looker, monkeypatch):
    """A fork ends the thread that looks, and workers are forked in each pass."""
    of, each = looker.of, []
    of.each_s = RARELY_S
    of.came(1, sys._getframe())
    of._of[1].sought = True
    for name, value in {"_FIRST": 30, "_SEARCH": 20}.items():
        monkeypatch.setattr(loop_looks, name, value)

    def waits(stop, seconds):
        each.append(seconds)
        return len(each) % 10 == 0

    monkeypatch.setattr(of, "_waits", waits)
    monkeypatch.setattr(of, "_look", lambda again=False: None)
    for _ in range(20):
        of._look_on(threading.Lock(), SimpleNamespace(release=lambda: None))
    assert all(one == loop_looks._AGAIN_S or one >= RARELY_S / 2 for one in each[-10:])


@pytest.mark.parametrize(
    ("turn_s", "each_s", "again_s"),
    [(1.0, RARELY_S, 0.005), (0.02, RARELY_S, 0.002), (0.001, RARELY_S, 0.0005), (0.007, OFTEN_S, 0.0007),
     (0.03, OFTEN_S, None)],
)  # fmt: skip
def test_a_second_look_comes_while_the_same_work_may_go_on(turn_s, each_s, again_s, looker, monkeypatch):
    """Frequent looks are neighbours in long iterations."""
    of, each = looker.of, []
    of.each_s, of._turn_s = each_s, turn_s
    monkeypatch.setattr(loop_looks, "_FIRST", 0)

    def waits(stop, seconds):
        each.append(seconds)
        return len(each) == 10

    monkeypatch.setattr(of, "_waits", waits)
    monkeypatch.setattr(of, "_look", lambda again=False: None)
    of._look_on(threading.Lock(), SimpleNamespace(release=lambda: None))
    found = {round(one, 6) for one in each if one < each_s / 2}
    assert found == ({again_s} if again_s else set())
