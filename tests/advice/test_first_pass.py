"""How long a script is watched before changes are tried, by the length of its first pass."""

from dataclasses import dataclass, replace

import pytest
from made_up_script import MADE, Planted, advice_on
from made_up_trials import seen

from pipebench.advise.conductor import LOOK_S
from pipebench.watch.record.lines import LoopSums


@dataclass
class Passing(Planted):
    """A script whose passes have ten batches a second, and so many batches."""

    batches: int = 100
    known: bool = True
    workers: int = 2

    def lines(self):
        if self.orders:
            return super().lines()
        settings = {**MADE.settings, "num_workers": self.workers}
        self.made = replace(MADE, batches=self.batches if self.known else None, settings=settings)
        number, first = divmod(round(self.clock * 10), self.batches)
        return [self.made, LoopSums(1, number, first, turns=1, trained=1)]


@pytest.mark.parametrize(
    ("batches", "begins_s"),
    [(100, 10.0), (40, LOOK_S), (200, 20.0), (1000, LOOK_S)],  # 180 / 8 s is the longest first pass that is waited for
)
def test_a_short_first_pass_is_watched_to_its_end(batches, begins_s):
    run = Passing(lambda order: 1.0, seen(0.01), batches=batches)
    began = []
    watching = run.watched
    run.watched = lambda: began.append(run.clock) or watching()
    advice_on(run)
    assert began[0] == pytest.approx(begins_s, abs=0.5)


@pytest.mark.parametrize(
    ("workers", "batches", "begins_s"), [(2, 100, 10.0), (2, 1000, 22.5), (1, 100, LOOK_S), (0, 100, LOOK_S)]
)
def test_of_a_stream_of_unknown_length_the_first_pass_may_end_soon_if_several_workers_read_it(
    workers, batches, begins_s
):
    """Only its end shows whether one of them has most of it."""
    run = Passing(lambda order: 1.0, seen(0.01), batches=batches, known=False, workers=workers)
    began = []
    watching = run.watched
    run.watched = lambda: began.append(run.clock) or watching()
    advice_on(run)
    assert began[0] == pytest.approx(begins_s, abs=0.5)
