"""Which iteration is live and which is replayed: a pure function of the number of steps, so alike on all ranks."""

from __future__ import annotations

from dataclasses import dataclass

LIVE, IDLE, BUSY, DEVICE = "live", "bound", "bound_busy", "bound_device"
STEPS = 400  # iterations without --steps
BEGIN = 3  # iterations before the first window, the one in which a library sets itself up among them
ROUNDS = 8  # as many as there should at least be: a median's interval needs 6 for 95 %
LEAST_WINDOW = 4  # iterations
LARGEST_WINDOW = 64
REPLAY_LEAD = 2  # iterations before a replay counts: what copying put in and out of the caches is settled


@dataclass(frozen=True)
class Place:
    """Where one iteration stands: the `number`-th of its window from 0; below 0 it leads in and is not measured."""

    round: int
    kind: str
    number: int

    @property
    def measured(self) -> bool:
        return self.number >= 0

    @property
    def replayed(self) -> bool:
        return self.kind != LIVE


@dataclass(frozen=True)
class Schedule:
    """`rounds` of one live window of `window` iterations and its replays, each led in, from iteration `begin` on."""

    begin: int
    rounds: int
    window: int
    lead: int
    replays: tuple[str, ...]

    @property
    def round_steps(self) -> int:
        return self.lead + self.window + (REPLAY_LEAD + self.window) * len(self.replays)

    @property
    def end(self) -> int:
        """The first iteration that is no part of it."""
        return self.begin + self.rounds * self.round_steps

    def order(self, turn: int) -> tuple[str, ...]:
        """The replays of a round: workers idle and workers busy take turns in being first."""
        if turn % 2 and len(self.replays) > 1:
            return (self.replays[1], self.replays[0], *self.replays[2:])
        return self.replays

    def at(self, step: int) -> Place:
        """The place of iteration `step`; before `begin` it is live and leads in."""
        if step < self.begin:
            return Place(0, LIVE, step - self.begin - self.lead)
        turn, within = divmod(step - self.begin, self.round_steps)
        if within < self.lead + self.window:
            return Place(turn, LIVE, within - self.lead)
        which, number = divmod(within - self.lead - self.window, REPLAY_LEAD + self.window)
        return Place(turn, self.order(turn)[which], number - REPLAY_LEAD)


def least_steps(begin: int, lead: int, replays: tuple[str, ...]) -> int:
    """How many iterations one round of the smallest windows needs."""
    return Schedule(begin, 1, LEAST_WINDOW, lead, replays).end


def planned(
    steps: int, begin: int, lead: int, replays: tuple[str, ...], most: int = LARGEST_WINDOW, turn: int = 1
) -> Schedule:
    """Windows as long as `ROUNDS` of them allow in `steps` iterations, at most `most`; more rounds where there is room.

    Fewer rounds where they would be shorter than `LEAST_WINDOW`; none where not even one fits. Workers work in step, so
    batches come in bursts of `turn`, one from each: a window is a whole number of these, where one fits into it.
    """
    most = min(most, LARGEST_WINDOW)
    windows, leads = 1 + len(replays), lead + REPLAY_LEAD * len(replays)
    for rounds in range(ROUNDS, 0, -1):
        window = min(most, ((steps - begin) // rounds - leads) // windows)
        if window >= min(LEAST_WINDOW, most):
            window -= window % turn if window >= turn else 0
            one = Schedule(begin, 1, window, lead, replays)
            return Schedule(begin, (steps - begin) // one.round_steps, window, lead, replays)
    return Schedule(begin, 0, min(LEAST_WINDOW, most), lead, replays)
