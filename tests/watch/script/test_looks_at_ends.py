"""Looks at the begin of a run, when no model is known yet, and after a loop that was left."""

import sys
import threading
from types import SimpleNamespace

from looked_at import Client, seen_from_outside

from pipebench.watch.script import loop_looks
from pipebench.watch.script.loop_looks import RARELY_S
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


def test_looks_are_frequent_until_one_has_met_the_model(looker, monkeypatch):
    """What is before a model that takes a hundredth of an iteration would not be seen for a long time."""
    of, each = looker.of, []
    of.each_s, of.early = RARELY_S, lambda loader: True
    of.came(1, sys._getframe())
    monkeypatch.setattr(loop_looks, "_FIRST", 0)

    def waits(stop, seconds):
        each.append(seconds)
        return len(each) == loop_looks._SEARCH + 100

    for finds in (False, True):
        each.clear()
        of._of[1].model.clear()
        monkeypatch.setattr(of, "_waits", waits)
        place = place_in(sys._getframe(), id(sys._getframe()))
        at_model = place._replace(trains=True, models=True)
        seen = iter([place] * 20 + [at_model if finds else place] * 9999)
        monkeypatch.setattr(loop_looks, "place_in", lambda *_, seen=seen: next(seen))
        of._look_on(threading.Lock(), SimpleNamespace(release=lambda: None))
        often = [one for one in each if one < 0.0031]
        assert len(often) in ((20, 21) if finds else (loop_looks._SEARCH,)), (finds, len(often))
