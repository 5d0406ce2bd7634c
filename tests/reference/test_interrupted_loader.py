"""The end of a loader of ours: Ctrl-C waits for no worker, and the death of one cuts nothing short."""

import signal
from types import SimpleNamespace

import pytest

from pipebench.reference.dataloader import Live

AT_MOST_S = 3.0
TORCH_WAITS_S = 5.0  # for each worker: `torch.utils.data._utils.MP_STATUS_CHECK_INTERVAL`


class Worker:
    """It does not answer while it works. Its end may send its signal to this process at once."""

    def __init__(self, told=False):
        self.runs, self.told, self.exitcode = True, told, None

    def kill(self):
        self.runs, self.exitcode = False, -9
        if self.told:
            signal.raise_signal(signal.SIGCHLD)


class Loader:
    """As torch does, its end waits for each worker that still runs."""

    def __init__(self, workers, ends=lambda: None):
        self._workers, self.waited_s, self.ends = workers, 0.0, ends

    def _shutdown_workers(self):
        self.ends()
        self.waited_s += sum(TORCH_WAITS_S for one in self._workers if one.runs)


@pytest.fixture
def handler():
    """As torch's handler does, it raises at the place where the process is, once for each loader."""
    raises = [True]

    def handled(number, frame):
        if raises and raises.pop():
            raise RuntimeError("DataLoader worker (pid 7) is killed by signal: Killed")

    before = signal.signal(signal.SIGCHLD, handled)
    yield handled
    signal.signal(signal.SIGCHLD, before)


def ending(held, failure=None, **calls):
    """A loader of ours that is about to end, and a list of what has ended. `calls` are made in parts of its end."""
    ended = []
    live, parts = object.__new__(Live), {"dog": None, "workers": None, "notes": None}
    for part in parts:
        parts[part] = lambda part=part: [ended.append(part), calls.get(part, lambda: None)()]
    live._iterator, live._loader = Loader(held, parts["workers"]), None
    live._watch = SimpleNamespace(failure=failure, end=parts["dog"])
    live.notebook = SimpleNamespace(close=parts["notes"], last_sample=lambda number: "", oom_kills=None)
    return live, ended


@pytest.mark.parametrize("told", [(), (0,), (1,), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError()])
def test_the_waits_of_its_end(error, told, handler):
    live, _ = ending([Worker(one in told) for one in range(3)])
    loader = live._iterator
    live.__exit__(type(error), error, None)
    assert (loader.waited_s <= AT_MOST_S) == isinstance(error, KeyboardInterrupt)
    assert signal.getsignal(signal.SIGCHLD) is handler


@pytest.mark.parametrize("part", ["dog", "workers", "notes"])
@pytest.mark.parametrize("error", [None, KeyboardInterrupt(), ValueError()])
def test_a_worker_that_dies_meanwhile_does_not_cut_its_end_short(part, error, handler):
    """The kernel tells of a death when it likes: as well while the watchdog, the workers or the notes are ended."""
    live, ended = ending([Worker()], **{part: lambda: signal.raise_signal(signal.SIGCHLD)})
    live.__exit__(type(error), error, None)
    assert ended == ["dog", "workers", "notes"] and signal.getsignal(signal.SIGCHLD) is handler


def test_a_death_at_the_very_begin_of_its_end(handler, monkeypatch):
    plain = signal.getsignal

    def in_this_moment(number):
        signal.raise_signal(signal.SIGCHLD)
        return plain(number)

    live, ended = ending([Worker()])
    monkeypatch.setattr("pipebench.reference.dataloader.signal.getsignal", in_this_moment)
    live.__exit__(None, None, None)
    monkeypatch.undo()
    assert ended == ["dog", "workers", "notes"] and signal.getsignal(signal.SIGCHLD) is handler
