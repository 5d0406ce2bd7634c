"""A made-up script whose answers are planted, and what a conductor makes of it."""

from dataclasses import dataclass, field, replace

from made_up_trials import SETTINGS

from pipebench.advise.conductor import Conductor
from pipebench.remedies import remedies
from pipebench.results.account import Account, Cause
from pipebench.watch.record.lines import LoopSums, Moment
from pipebench.watch.record.trial_lines import LoaderMade, TrialFailed, TrialWindow

MADE = LoaderMade(1, "train.py", 3, 3, 0, 40, "main", 1000, SETTINGS)


def caused(shown, cause):
    return replace(shown, watched=replace(shown.watched, account=Account(10.0, (), causes=(Cause(cause, 3.0),))))


@dataclass
class Planted:
    """A script: each settings' speed-up is what `speedup(order)` says. It ends after `ends_s` seconds.

    If `made` is None, its loop takes no batch from a DataLoader.
    """

    speedup: object
    seen_: object
    ends_s: float = 1e9
    made: LoaderMade | None = field(default_factory=lambda: MADE)
    pair_s: float = 4.0
    clock: float = 0.0
    orders: list = field(default_factory=list)
    pending: list = field(default_factory=list)
    due: float = 1e9
    foretold: dict = field(default_factory=dict)

    def now(self):
        return self.clock

    def wait(self, seconds):
        self.clock += seconds
        return self.clock < self.ends_s

    def lines(self):
        found, self.pending = self.pending, []
        if not self.orders:
            found = [self.made, LoopSums(1, 0, turns=1, trained=1)] if self.clock < 0.2 and self.made else []
            return [*found, LoopSums(1 if self.made else 0, 0, turns=1, trained=1)]
        if self.clock >= self.due:
            self.due += self.pair_s
            order, pair = self.orders[-1], int(self.clock * 10)
            gain = self.speedup(order)
            if gain is None:
                return [*found, TrialFailed(order.number, "OSError: planted")]
            found += [
                TrialWindow(order.number, pair, False, 1.0, 100),
                TrialWindow(order.number, pair, True, 1.0, round(100 * gain)),
            ]
        return found

    def order(self, order):
        self.orders.append(order)
        self.due = self.clock + self.pair_s
        if order.number == 1:
            self.pending.append(Moment("stop", 0))

    def watched(self):
        return self.seen_.watched

    def seen(self, watched, made, all_made):
        return self.seen_

    def foretelling(self, seen):
        return lambda change: self.foretold.get(str(change.settings))


def advice_on(run, budget_s=180.0):
    conductor = Conductor(run, remedies(), budget_s)
    conductor.conduct()
    return conductor.advice()
