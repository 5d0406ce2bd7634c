"""What a signal handler of the script raises while a changed loader has its turn reaches the script, once."""

import os
import signal

import pytest
from fakes import Loader, Script, World, plain, plain_iter
from torch.utils.data import DataLoader

from pipebench.watch.record.from_handlers import from_a_handler
from pipebench.watch.trial import arms
from pipebench.watch.trial.dealing import Deal, Hand
from pipebench.watch.trial.stretches import Stretch


class TimeLimitError(Exception):
    pass


def _over(*_):
    raise TimeLimitError


@pytest.fixture(autouse=True)
def _handler():
    before = signal.signal(signal.SIGUSR1, _over)
    yield
    signal.signal(signal.SIGUSR1, before)


def _fault(where, error):  # as the recording does
    if from_a_handler(error):
        raise error
    raise AssertionError(where) from error


def _passes(script, passes):
    """The batches of these passes, and how often the script heard of a signal."""
    had, heard = [], 0
    for _ in range(passes):
        had.append([])
        iterator = None
        while iterator is None:
            try:
                iterator = script.trial.iterate(script.loader, plain_iter, plain)
            except TimeLimitError:
                heard += 1
        while True:
            try:
                had[-1].append(script.trial.batch(iterator, plain, plain_iter))
            except TimeLimitError:
                heard += 1
            except StopIteration:
                break
    return had, heard


def _signal_in(monkeypatch, kind, name, nth):
    """The signal comes at the beginning of the `nth` call of a method of a changed loader, or of its stretch."""
    plain_one, calls = getattr(kind, name), []

    def method(self):
        if isinstance(self, Stretch) or self.iterator.loader.name == "changed":
            calls.append(self)
            if len(calls) == nth:
                signal.raise_signal(signal.SIGUSR1)
        return plain_one(self)

    monkeypatch.setattr(kind, name, method)


@pytest.mark.parametrize(
    ("by", "kind", "name", "nth"),
    [(by, arms.Arm, *at) for by in ("windows", "passes") for at in (("draw", 1), ("draw", 9), ("begin", 1))]
    + [("windows", Stretch, "look", 9)],
)
def test_it_reaches_the_script_and_costs_no_batch(tmp_path, monkeypatch, by, kind, name, nth):
    script = Script(tmp_path, monkeypatch, Loader(World(), [[one] for one in range(60)]))
    monkeypatch.setattr(script.trial.recording, "fault", _fault)
    _signal_in(monkeypatch, kind, name, nth)
    script.order(1, {"num_workers": 3}, by=by, window_s=3.0)
    had, heard = _passes(script, 4)
    assert had == [[[one] for one in range(60)]] * 4 and heard == 1
    assert len(script.failures) == 1 and not script.trial.off


def test_it_reaches_the_script_also_while_a_changed_loader_ends(tmp_path, monkeypatch):
    script = Script(tmp_path, monkeypatch, Loader(World(), [[one] for one in range(60)]), left=9)
    monkeypatch.setattr(script.trial.recording, "fault", _fault)
    plain_give_back = Hand.give_back

    def give_back(self):
        plain_give_back(self)
        signal.raise_signal(signal.SIGUSR1)

    monkeypatch.setattr(Hand, "give_back", give_back)
    script.order(1, {"num_workers": 3}, window_s=3.0)
    assert _passes(script, 2) == ([[[one] for one in range(60)]] * 2, 1)


def test_an_error_of_the_sampler_is_kept_and_one_of_a_handler_is_not():
    def lists():
        yield [0]
        signal.raise_signal(signal.SIGUSR1)

    deal = Deal(lists())
    assert deal.next() == [0]
    with pytest.raises(TimeLimitError):
        deal.next()
    with pytest.raises(StopIteration):  # as a generator ends
        deal.next()


def test_what_torch_tells_of_a_lost_worker_is_no_error_of_the_script():
    iterator = iter(DataLoader(range(8), num_workers=1, multiprocessing_context="fork"))
    with pytest.raises(RuntimeError, match="killed by signal") as raised:
        iterator._workers[0].kill()
        os.waitid(os.P_PID, iterator._workers[0].pid, os.WEXITED | os.WNOWAIT)
    assert from_a_handler(raised.value) and not arms.from_the_script(raised.value)
    with pytest.raises(TimeLimitError) as raised:
        signal.raise_signal(signal.SIGUSR1)
    assert arms.from_the_script(raised.value)
