"""Looks before the backward of a loop without a loader, while none has met the model, and at what it awaits."""

import asyncio
import queue
import sys
import threading
from types import SimpleNamespace

import pytest
import torch
from looked_at import seen_from_outside

from pipebench.watch.record.own_code import owner
from pipebench.watch.record.patches import Patches
from pipebench.watch.script import loop_looks
from pipebench.watch.script.relays import Relays


class Model(torch.nn.Module):
    def forward(self, at_work):
        at_work()


def _counts(looker):
    """Looks before the model, after the last step, and at what is left of forward."""
    lines = looker.written
    early = [one for line in lines for one in line.places if one.early]
    before = sum(one.looks for one in early if not one.after)
    return before, sum(one.looks for one in early if one.after), sum(line.forward_looks for line in lines)


def _computed(at_work):
    """A look that finds the thread here, and not in Python's library: `at_work` starts a thread, and waits for it."""
    seen = at_work.__closure__[0].cell_contents
    frame, found = sys._getframe(), sys._current_frames
    try:
        sys._current_frames = lambda: {threading.get_ident(): frame}
        seen._look()
    finally:
        sys._current_frames = found


def _steps(looker, at_work, times, model=None):
    """Iterations that wait for a thread, compute something, call a model in the last one, step, and log."""
    for turn in range(times):
        at_work()
        _computed(at_work)
        if model is not None and turn == times - 1:
            model(at_work)
        looker.of.stepped(0)
        at_work()


def test_looks_that_come_before_the_model_is_known_count_once_it_is(looker):
    """Else only those after the last step would: that line is known, and a small model is met late."""
    at_work = seen_from_outside(looker.of)
    looker.of.early = lambda loader: True
    _steps(looker, at_work, 5)
    looker.of.end()
    assert _counts(looker) == (0, 5, 8)  # what of it is the model is not known


def test_once_a_look_has_met_the_model_earlier_ones_are_placed_too(looker):
    at_work, model = seen_from_outside(looker.of), Model()
    looker.of.early = lambda loader: True
    _steps(looker, at_work, 5, model)
    looker.of.write()
    assert _counts(looker) == (8, 5, 1)


def test_once_the_search_is_over_looks_without_a_model_count_at_once(looker, monkeypatch):
    monkeypatch.setattr(loop_looks, "_SEARCH", 0)
    at_work = seen_from_outside(looker.of)
    looker.of.early = lambda loader: True
    _steps(looker, at_work, 5)
    looker.of.write()
    assert _counts(looker) == (0, 5, 8)


@pytest.mark.parametrize("file", ["torchdata/nodes/loader.py", "torch/utils/data/dataset.py"])
def test_in_a_loop_without_a_loader_what_gives_batches_is_a_place(looker, file):
    """No loader is iterated there, so nothing else knows of that time."""
    at_work = seen_from_outside(looker.of)
    looker.of.early = lambda loader: True
    space = {"at_work": at_work}
    exec(compile("def source():\n    while True:\n        at_work()\n        yield 1\n", f"/x/{file}", "exec"), space)
    for number, _ in enumerate(space["source"]()):
        looker.of.stepped(0)
        if number == 3:
            break
    looker.of.write()
    (line,) = looker.written
    assert {one.functions[0] for one in line.places} == {"source"} and _counts(looker) == (3, 0, 0)


def test_our_own_frame_around_a_queue_is_passed_over(looker):
    class Slow(queue.Queue):
        def get(self):
            at_work()

    at_work, patches, model = seen_from_outside(looker.of), Patches(print), Model()
    looker.of.early = lambda loader: True
    relays = Relays(SimpleNamespace(recording=SimpleNamespace(patches=patches, on=False)))
    relays._watch_get(Slow, "get")
    batches = Slow()
    for _ in range(3):
        batches.get()
        model(at_work)
        looker.of.stepped(0)
    patches.undo()
    looker.of.end()
    assert _counts(looker)[0] == 2


class _Source:
    """Gives a batch once a look from outside has found the event loop asleep."""

    def __init__(self, looker):
        self.looker, self.main = looker, threading.get_ident()

    async def batch(self):
        ready, loop = asyncio.Event(), asyncio.get_running_loop()
        threading.Thread(target=self._looks, args=(ready, loop), daemon=True).start()
        await ready.wait()

    def _looks(self, ready, loop):
        while owner(sys._current_frames()[self.main].f_code.co_filename) != "selectors":
            pass
        self.looker._look()
        loop.call_soon_threadsafe(ready.set)


@pytest.mark.parametrize("again", [False, True])
def test_what_a_coroutine_awaits_is_found_though_it_is_on_no_stack(looker, again):
    """Also where the line calls the model, too."""
    source, at_work, model = _Source(looker.of), seen_from_outside(looker.of), Model()
    looker.of.early = lambda loader: True

    async def train():
        for turn in range(4):
            _ = [await source.batch(), model(at_work), looker.of.stepped(0), turn and at_work()]
            if again:
                await source.batch()

    asyncio.run(train())
    looker.of.end()
    (line,) = looker.written
    awaits = [one for one in line.places if one.functions[-1] == "await"]
    assert {one.functions[0] for one in awaits} == {"_Source.batch"}
    assert sum(one.looks for one in awaits) == (7 if again else 3)
    assert {one.early for one in awaits if not one.after} == {True}


def test_what_another_coroutine_does_meanwhile_is_work_of_the_loop(looker):
    at_work, model = seen_from_outside(looker.of), Model()
    looker.of.early = lambda loader: True

    async def decode():
        _decodes(at_work)

    async def train():
        for _ in range(4):
            await asyncio.create_task(decode())
            model(at_work)
            looker.of.stepped(0)

    asyncio.run(train())
    looker.of.end()
    (line,) = looker.written
    assert sum(one.looks for one in line.places) == 3
    assert any(name.endswith("decode") for one in line.places for name in one.functions)


def _decodes(at_work):
    at_work()


def test_a_task_is_kept_weakly(looker):
    async def train():
        for _ in range(2):
            await asyncio.sleep(0)
            looker.of.stepped(0)
        return looker.of._loop.task

    task = asyncio.run(train())
    assert task is not None and task() is None


def test_each_part_of_a_batch_has_its_own_forward_until_the_step(looker):
    """Gradients are summed up over several backwards, and what comes before each is no work after training."""
    at_work, model = seen_from_outside(looker.of), Model()
    looker.of.trains = lambda loader: True
    for turn in range(4):
        for part in range(3):
            looker.of.early = lambda loader, part=part: part == 0
            _computed(at_work)
            if turn:
                model(at_work)
        _computed(at_work)  # before the step, as what clips gradients
        looker.of.stepped(0)
    looker.of.early = lambda loader: True
    looker.of.write()
    assert _counts(looker) == (9, 0, 9)
    assert sum(one.looks for line in looker.written for one in line.places if not one.early) == 3
