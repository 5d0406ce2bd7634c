"""Says which iteration is live and which is replayed: a function of plan and step, equal on ranks with equal plans."""

from __future__ import annotations

from dataclasses import dataclass

LIVE, IDLE, BUSY, DEVICE = "live", "bound", "bound_busy", "bound_device"
STEPS = 400  # iterations without --steps
BEGIN = 3  # iterations before the first window; libraries set themselves up in one of them
ROUNDS = 8  # the number aimed for; the 95 % interval of a median needs at least 6
LEAST_WINDOW = 4  # iterations
LARGEST_WINDOW = 64
REPLAY_LEAD = 2  # iterations before a replay counts: after them, the caches no longer show the copying


@dataclass(frozen=True)
class Place:
    """The place of one iteration: `number` counts within its window, from 0. Below 0 is the lead-in, not measured."""

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
    """`rounds` rounds from iteration `begin` on. A round is one live window and its replays, `window` iterations each.

    Before a live window there are `lead` lead-in iterations, before a replay `REPLAY_LEAD`.
    """

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
        """The first iteration after the schedule."""
        return self.begin + self.rounds * self.round_steps

    def order(self, turn: int) -> tuple[str, ...]:
        """The replays of a round. In every second round, the first two swap places."""
        if turn % 2 and len(self.replays) > 1:
            return (self.replays[1], self.replays[0], *self.replays[2:])
        return self.replays

    def at(self, step: int) -> Place:
        """The place of iteration `step`. Before `begin`, every iteration is live and lead-in."""
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
    """The schedule for `steps` iterations, with windows as long as `ROUNDS` rounds allow, but at most `most`.

    There are more rounds if there is room for them. There are fewer if windows would otherwise be shorter than
    `LEAST_WINDOW`, and none if not even one fits. Workers work in step, so batches come in bursts of `turn`, one from
    each worker. A window is a whole number of bursts, if at least one burst fits into it.
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
