"""Ctrl-C while a loader of ours runs: every worker is killed first, so nothing waits for one of them."""

from types import SimpleNamespace

import pytest

from pipebench.reference.dataloader import Live

AT_MOST_S = 3.0
TORCH_WAITS_S = 5.0  # for each worker: `torch.utils.data._utils.MP_STATUS_CHECK_INTERVAL`


class Worker:
    """It does not answer while it works. At its end torch may raise, at any place in this process."""

    def __init__(self, raises):
        self.runs, self.raises = True, raises

    def kill(self):
        self.runs, raises, self.raises = False, self.raises, False
        if raises:
            raise RuntimeError("DataLoader worker (pid 7) is killed by signal: Killed")


class Loader:
    """As torch does, its end waits for each worker that still runs."""

    def __init__(self, workers):
        self._workers, self.waited_s = workers, 0.0

    def _shutdown_workers(self):
        self.waited_s += sum(TORCH_WAITS_S for one in self._workers if one.runs)


@pytest.mark.parametrize("raising", [(), (0,), (1,), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError()])
def test_the_waits_of_its_end(error, raising):
    live, loader = object.__new__(Live), Loader([Worker(one in raising) for one in range(3)])
    live._iterator, live._loader = loader, None
    live._watch, live.notebook = SimpleNamespace(failure=None, end=lambda: None), SimpleNamespace(close=lambda: None)
    live.__exit__(type(error), error, None)
    assert (loader.waited_s <= AT_MOST_S) == isinstance(error, KeyboardInterrupt)
