"""Conducts one run: watches first, then orders one trial after the other, until the budget is spent."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple, Protocol

from pipebench.advise import judging, streams, sync_cause, whole_run
from pipebench.advise.main_loader import main_loader
from pipebench.advise.shared_resource import with_shared
from pipebench.advise.trial import Trial, by_passes, cache_of, in_batches, needed_s, not_now, period, window_s
from pipebench.predict.untried import Foretell
from pipebench.remedies import Propose
from pipebench.remedies.one_iterator import NEW_ITERATORS
from pipebench.remedies.seen import Seen
from pipebench.results.advice import NO_LOADER, Advice, Change, Ended, Finding
from pipebench.results.watched import WatchResult
from pipebench.watch.record.lines import Line, LoopSums, Moment
from pipebench.watch.record.orders import Order
from pipebench.watch.record.own_code import owner
from pipebench.watch.record.trial_lines import LoaderMade, TrialLine

LOOK_S = 6.0  # the shortest time to watch before anything is tried
LOOK_ITERATIONS = 40
_LOOK_SHARE = 0.25  # of the budget: the longest time to watch
_FIRST_PASS_SHARE = 0.125  # of the budget: a first pass that is shorter is watched to its end
_FOR_CEILINGS = 0.25  # of the budget: for knock-outs, if weights may be spoiled
_FIRST_TRIAL = 1 / 6  # of the budget: what is unclear then waits until all others were tried
_STEP_S = 0.1
_EXAMINE_S, _EXAMINE_ITERATIONS = 10.0, 20  # the longest time to look for sync points
_LAST_TRIALS = 2  # before time is up: then what gained is tried together, if more than one did


class Run(Protocol):
    """The running script, as a conductor sees it."""

    def now(self) -> float:
        """Seconds of a clock."""

    def wait(self, seconds: float) -> bool:
        """Waits so long. False: the script has ended."""

    def lines(self) -> list[Line]:
        """What the script's process has written since the last call."""

    def order(self, order: Order) -> None:
        """Gives the script's process an order."""

    def watched(self) -> WatchResult:
        """The figures so far."""

    def seen(self, watched: WatchResult, made: LoaderMade, all_made: Mapping[int, LoaderMade]) -> Seen | None:
        """What remedies may know of the loader that was `made`. None: it has no figures."""

    def foretelling(self, seen: Seen) -> Foretell:
        """What the simulation says of changes of this loader."""


class _Way(NamedTuple):
    """How a change is tried, the seconds that this takes at least (None: not known), and why not now ("": now)."""

    by: Literal["windows", "passes"]
    needed_s: float | None
    reason: str


class Conductor:
    """Decides what is tried, and keeps what is known. `say` gets each change that is now tried."""

    def __init__(
        self,
        run: Run,
        remedies: dict[str, Propose],
        budget_s: float,
        say: Callable[[Change, int], object] = lambda *_: None,
    ) -> None:
        self.run, self.remedies, self.budget_s, self.say = run, remedies, budget_s, say
        self.findings: list[Finding] = []
        self.watched: WatchResult | None = None
        self.seen: Seen | None = None
        self.made: dict[int, LoaderMade] = {}
        self.ended: Ended = "script-ended"
        self.began: float | None = None
        self._turns, self._trials_s = 0, 0.0
        self._latest = (0, 0)  # the loader that trained last, and its pass
        self._stopped = self._discarded = self._examined = False
        self._trial = Trial(0, [])
        self._predicted: list[Finding] = []
        self._foretell: Foretell = lambda change: None
        self._foretold: int | None = None
        self._refusal, self._streamed = "", False
        self._measured: set[str] = set()  # remedies that have measured on the user's files

    def advice(self) -> Advice:
        """What is known now. Another thread may ask at any moment."""
        loader = self.seen.loader.loader if self.seen else None
        made = self.made.get(loader) if loader is not None else None
        file, line = self.seen.place_of(made) if self.seen else ("", 0)
        findings = (*self.findings, *self._predicted)
        found = Advice(
            findings,
            judging.best(judging.advisable(findings)),
            loader,
            file,
            line,
            self.budget_s,
            0.0 if self.began is None else self.run.now() - self.began,
            self.ended,
            most=self.seen.without_waits if self.seen else None,
            or_more=bool(self.seen and self.seen.training_gains_too),
            refusal=self._refusal or (NO_LOADER if self._turns and not self.made else ""),
            streamed=self._streamed and not self._refusal,
            discarded=self._discarded,
            foretold=self._foretold,
            ranks=self.seen.ranks if self.seen else 1,
            made_by=(self.seen.loader.made_by or owner(made.file)) if self.seen and made else "",
        )
        if found.aside is None or found.chosen is None or not found.chosen.change.loop_threads:
            return found
        others = [replace(one, outcome="unclear") if one.change.loop_threads else one for one in findings]
        return replace(found, best=judging.best(judging.advisable(others)))

    def conduct(self) -> None:
        """Watches, then tries, until everything is tried. It ends early if the script does."""
        if not self._look():
            return
        if not self.made:
            self.watched, self.ended = self.run.watched(), "refused"
            return
        self.run.order(Order(1))
        while not self._stopped:  # the script ends its recording at its next batch
            if not self.run.wait(_STEP_S):
                return
            self._read()
        self.watched = self.run.watched()
        made = self.made.get(main_loader(self.watched) or 0)  # 0: no loader has this number
        self.seen = self.run.seen(self.watched, made, self.made) if made is not None else None
        if self.seen is None or made is None:
            self.ended = "refused"
            return
        self._foretell = self.run.foretelling(self.seen)
        self.seen = replace(self.seen, foretold=self._foretell)
        self._streamed = bool(made.refusal)
        anew = NEW_ITERATORS if self.seen.has_cause(NEW_ITERATORS) else ""  # then iterations say little of the loop
        self._refusal = anew or streams.refused(self.seen, made.refusal)
        if self._refusal:
            self.ended = "refused"
            self._only_foretell(self.seen, self._refusal)
            return
        self._predict(self.seen)
        self._trial.number = 1
        self.ended = "script-ended"
        if self._try_all(self.seen) and self._tell_more() and self._try_all(self.seen) and self._try_hopes():
            self.ended = "budget" if any(one.reason == "budget" for one in self.findings) else "done"
        self._predict(self.seen)
        self.run.order(Order(self._trial.number + 1, self.seen.loader.loader))

    def _predict(self, seen: Seen) -> None:
        """What is only predicted. Some of it rests on what was tried."""
        told = replace(seen, watched=with_shared(seen.watched, self.findings, seen.loader.loader))
        self._predicted = [
            Finding(one, "not-tried", reason="of-script") for one in self._proposed(told) if one.of_script
        ]

    def _only_foretell(self, seen: Seen, refusal: str) -> None:
        """Of a loader that cannot be tried: what the simulation says of the remedies that it knows, rung by rung."""
        told: list[Finding] = []
        for propose in self.remedies.values() if refusal != NEW_ITERATORS else ():
            ladder: list[Finding] = []
            while (change := propose(seen, ladder)) is not None and (gain := self._foretell(change)) is not None:
                faster = judging.promising(change, gain)
                ladder.append(Finding(change, "gain" if faster else "no-gain", gain))
            told += ladder
        self._foretold = judging.best(told)
        self.findings = [
            Finding(one.change, "not-tried", reason=one.change.untried or refusal, predicted=one.gain) for one in told
        ]
        self._predict(seen)

    @property
    def left_s(self) -> float:
        return self.budget_s - (self.run.now() - self.began if self.began is not None else 0.0)

    def _look(self) -> bool:
        """Waits until the loop has been watched long enough. False: the script ended before."""
        while not self._seen_enough():
            if not self.run.wait(_STEP_S):
                return False
            self._read()
        return True

    def _seen_enough(self) -> bool:
        if self.began is None:
            return False
        spent = self.run.now() - self.began
        if not self.made:  # a loader may come after a loop without one
            return spent >= self.budget_s
        settled = spent >= LOOK_S and self._turns >= LOOK_ITERATIONS and not self._soon_over(spent)
        return settled or spent >= _LOOK_SHARE * self.budget_s

    def _soon_over(self, spent: float) -> bool:
        """Whether the first pass ends soon: then what lies between two passes, as validation, is watched too.

        A stream of unknown length may end soon. If several workers read it, only its end shows which of them has more.
        """
        loader, number = self._latest
        made = self.made.get(loader)
        if number or made is None or not self._turns:
            return False
        if made.batches is None:
            several = int(made.settings.get("num_workers") or 0) > 1
            return several and spent < _FIRST_PASS_SHARE * self.budget_s
        return max(spent, spent * made.batches / self._turns) < _FIRST_PASS_SHARE * self.budget_s

    def _read(self) -> None:
        for line in self.run.lines():
            if isinstance(line, LoopSums):
                if self.began is None:
                    self.began = self.run.now()
                self._turns += line.trained
                self._latest = (line.loader, line.number_of_pass) if line.trained else self._latest
            elif isinstance(line, Moment):
                self._stopped |= line.name == "stop"
            elif isinstance(line, LoaderMade):
                self.made[line.loader] = line
            elif isinstance(line, TrialLine) and line.order == self._trial.number:
                self._trial.hear(line)

    def _try_all(self, seen: Seen) -> bool:
        """Tries what the remedies propose. False: the script has ended."""
        return all(self._try(change) for change in self._changes(seen))

    def _tell_more(self) -> bool:
        """Tries again what noise has hidden or blurred, as long as there is time. False: the script has ended."""
        while (place := judging.unclear(self.findings)) is not None:
            before = self.findings[place]
            if not self._try(before.change, place):
                return False
            if self.findings[place] is before:
                break
        return True

    def _try_hopes(self) -> bool:
        """Tries together what was faster in each pair and yet too little to be sure. False: the script has ended."""
        both = self._together(judging.hopeful(self.findings))
        return both is None or (self._try(both) and self._tell_more())

    def _changes(self, seen: Seen) -> Iterator[Change]:
        """What to try, one after the other, and then the best of all together. Then, what stages cost: knock-outs.

        If there may be no time left for that, the best so far are tried together before the others.

        Of the remedies' proposals, next is the one with the highest limit for the run, above what the same part of
        it has gained so far: what may gain little must not use up the budget. A change without a limit of its own acts
        on the waits of the loop; the simulation lowers the limit of what it knows. Of equal ones, what a cause in the
        account asks for comes first, then the remedies' order. If weights may be spoiled, a part of the budget is kept
        for knock-outs; what was put off comes at the end.
        """
        for_ceilings = _FOR_CEILINGS * self.budget_s if seen.discards else 0.0
        while self.left_s >= for_ceilings and (change := self._next(seen, knock_out=False)) is not None:
            hurry = self.left_s - for_ceilings < _LAST_TRIALS * self._trial_s()
            yield (self._together() or change) if hurry else change
        if (both := self._together()) is not None:
            yield both
        if seen.discards:
            self._examine(seen)
        while (change := self._next(seen, knock_out=True) or self._next(seen, knock_out=False)) is not None:
            yield change

    def _together(self, findings: Sequence[Finding] | None = None) -> Change | None:
        """The best of all in one. None: fewer than two gained, or there is no room for what they make ahead."""
        found = judging.together(judging.apart(judging.advisable(findings or self.findings)))
        if found is None or self.seen is None or self.seen.room.holds(*self.seen.ahead_with(found)):
            return found
        return None

    def _trial_s(self) -> float:
        """The seconds that a trial has taken so far, on average."""
        return self._trials_s / max(1, self._trial.number - 1)

    def _examine(self, seen: Seen) -> None:
        """Looks for sync points in a few iterations. They become a cause in the account of the watched part."""
        if self._examined or not sync_cause.worth_a_look(seen) or self.watched is None or self.left_s <= 0:
            return
        self._trial = Trial(self._trial.number + 1, [])
        self._discarded = self._examined = True
        self.run.order(Order(self._trial.number, seen.loader.loader, examine=sync_cause.ITERATIONS, discards=True))
        until = self.run.now() + min(self.left_s, max(_EXAMINE_S, _EXAMINE_ITERATIONS * seen.iteration_s))
        while self.run.now() < until and self._trial.syncs is None and self.run.wait(_STEP_S):
            self._read()
        self.watched = sync_cause.with_syncs(self.watched, self._trial.syncs, seen)

    def _next(self, seen: Seen, knock_out: bool) -> Change | None:
        while True:
            proposed = [one for one in self._proposed(seen) if one.knock_out is knock_out and not one.of_script]
            found = max(
                proposed, key=lambda one: (self._limit(seen, one) / self._gained(one), one.asked_for), default=None
            )
            if found is None or not found.rough or self._way(seen, found).reason:
                return found
            self._measured.add(found.remedy)

    def _limit(self, seen: Seen, change: Change) -> float:
        """The most that a change can bring for passes and what is between them, not for the settled iterations alone.

        It is no more than the upper end of what the simulation says of it. But the simulation knows no stalls that all
        workers share, so it does not lower the limit of what a cause in the account asks for.
        """
        told = None if change.asked_for else self._foretell(change)
        most = min(change.predicted or seen.most_by_workers, math.inf if told is None else told.high)
        measured = whole_run.share(seen, "passes" if change.by_passes else "windows")
        return most if measured is None else whole_run.amdahl(most, measured)

    def _gained(self, change: Change) -> float:
        """The speed-up of the run that was found so far by a change of the same part of it: of passes or of waits."""
        real = [one for one in self.findings if one.outcome == "gain" and not one.change.knock_out]
        rivals = [one for one in real if one.change.by_passes == change.by_passes]
        return max((told.speedup for one in rivals if (told := one.run or one.gain)), default=1.0)

    def _proposed(self, seen: Seen) -> Iterator[Change]:
        for name, propose in self.remedies.items():
            known = [one for one in self.findings if one.change.remedy == name]
            change = propose(replace(seen, measures=name in self._measured), known)
            found = streams.allowed(seen, change) if change is not None and self._streamed else change
            if found is not None:
                yield found

    def _try(self, change: Change, again: int | None = None) -> bool:
        """Tries one change, if there is time. `again` is its finding so far. False: the script has ended."""
        assert self.seen is not None
        by, needed, reason = self._way(self.seen, change)
        if reason:
            lacking = needed if reason == "budget" else None
            self._keep(Finding(change, "not-tried", by=by, reason=reason, needs_s=lacking), again)
            return True
        assert needed is not None
        earlier = self.findings[again].ratios if again is not None else ()
        self._trial = Trial(self._trial.number + 1, [], earlier)
        shortest = window_s(self.seen, self.budget_s)
        self.run.order(Order(
            self._trial.number, self.seen.loader.loader, dict(change.settings), change.one_thread, by, shortest,
            period=period(self.seen), edits={name: dict(how) for name, how in change.edits.items()},
            discards=change.discards, window=in_batches(self.seen, shortest), loop_threads=change.loop_threads,
        ))  # fmt: skip
        self._discarded |= change.discards
        self.say(change, len(self.findings) if again is None else again)
        began = self.run.now()
        soon = began + (_FIRST_TRIAL * self.budget_s if again is None else math.inf)
        goes_on = self._wait_for(began + min(self.left_s, max(needed * 2, self.budget_s / 3)), soon)
        self._trials_s += self.run.now() - began
        self._keep(self._finding(change, by, goes_on), again)
        return goes_on

    def _way(self, seen: Seen, change: Change) -> _Way:
        whole = by_passes(seen, change, self.budget_s, self.left_s)
        needed = needed_s(seen, whole, self.budget_s)
        return _Way("passes" if whole else "windows", needed, not_now(seen, change, whole, needed, self.left_s))

    def _keep(self, found: Finding, again: int | None) -> None:
        if again is None:
            self.findings.append(found)
        elif found.outcome != "not-tried":
            self.findings[again] = found

    def _wait_for(self, until: float, soon: float) -> bool:
        """Waits for pairs: until there are enough, and after `soon` only for the least that can be read.

        What looks like a gain is not put off.
        """
        while self.run.now() < until and not self._trial.failed:
            late = self.run.now() >= soon and not judging.promises(self._trial.ratios())
            if self._trial.enough() or (late and self._trial.readable):
                break
            if not self.run.wait(_STEP_S):
                self._read()
                return False
            self._read()
        return True

    def _finding(self, change: Change, by: Literal["windows", "passes"], goes_on: bool) -> Finding:
        found = self._trial.ratios()
        gain = judging.gain(found)
        reason = self._trial.failed or (self._trial.cut_short(self.left_s) if goes_on else "script-ended")
        difference, cache = self._trial.difference, cache_of(self.seen, self._trial.repeats, change)
        if cache is not None and cache.once and change.if_once:
            change = replace(change, title=change.if_once[0], how=change.if_once[1:], cost="none")
        if self._trial.repeats is not None and self._trial.repeats.changed:
            change = replace(change, how=tuple(dict.fromkeys((*change.how, *change.if_changed))))
        if gain is None or self._trial.failed:
            return Finding(change, "not-tried", gain, found, by, reason, difference=difference, cache=cache)
        assert self.seen is not None
        told = judging.promised(gain, judging.varies(change))
        run = whole_run.of_run(told, whole_run.share(self.seen, by, change.settings))
        outcome = judging.outcome(gain, len(found))
        return Finding(
            change, outcome, told, found, by, reason, run=run, difference=difference, cache=cache,
            given_back=self._trial.given_back(), read=self._trial.read(self.seen),
        )  # fmt: skip
