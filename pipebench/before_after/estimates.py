"""Whether two runs differ in a figure: from the error of each run, and from how far two runs of the same are apart.

The reports of two runs have, for each row, an estimate of the logarithm of a cost, with a standard error e and ν
degrees of freedom. The speed-up of head over base is exp(D) with D = ln(base) - ln(head), and its interval is

    D ± ( t(1 - a/2k, ν) · √(e_base² + e_head²)  +  f )

- The first term is Welch's for two means with unequal variances (Welch, Biometrika 34, 1947), with Satterthwaite's ν.
  The values behind e are those of the processes of a run, as in its own intervals. `k` rows share the chance `a/2`
  that any of them misses (Bonferroni's inequality), so that all hold together.
- f is the floor: what differs between two runs and not between the processes of one. The rows of a run are timed in
  turn over its whole length, so a slow hour slows them alike: a drift is one event for all rows, not one for each. It
  is added and not put in quadrature, because then the two chances of a miss only add up, however they depend on each
  other.

The floor comes from what is known, the narrower of two, each with a chance of a miss of a/4:

- *Earlier runs* of a host (`results/earlier_runs.py`) gave a standard deviation from `runs` - 1 differences of runs.
  It counts with Student's t for so many degrees of freedom: two runs say little.
- *The rows themselves*: how far the median row is apart, divided by 0.6745, is a standard deviation if most rows did
  not change. If all of them did, it is too large, and nothing is told: two runs alone cannot tell a change that slows
  all rows alike from a slow hour. The median of absolute values has 37 % of the efficiency of a standard deviation
  (Rousseeuw and Croux, Journal of the American Statistical Association 88, 1993), so k rows count as 0.37·k degrees of
  freedom. Here each row can drift by itself, so the chance is divided by k.

If neither is known, no row is judged.

Of a watched run it is known how many of the N cores other processes kept busy on average, F. On a quiet machine it
would have been at most N / (N - F) times as fast. The low end of an interval allows that for the base, and its high end
for the head.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, median, stdev

from pipebench.results.before_after import Floor
from pipebench.results.comparison import Judgement, wanted_confidence
from pipebench.results.earlier_runs import FEWEST_ROWS
from pipebench.results.report import BetweenRuns
from pipebench.stats import NORMAL, SPREAD_OF_MEDIAN, Speedup, student

ALARMS = 0.05  # chance that any row is called changed although none did
_EFFICIENCY = 0.37
_WIDEST = 50.0  # a logarithm: a speed-up beyond e^50 is cut off


@dataclass(frozen=True)
class Estimate:
    """The logarithm of a figure in one run, its standard error, and the degrees of freedom of the error.

    `processes` is the number of values behind it. `whole` says that the error holds what differs between runs. `slack`
    is the logarithm of how many times as fast it could have been without other processes.
    """

    logarithm: float
    error: float
    degrees: float = math.inf
    processes: int = 1
    whole: bool = False
    slack: float = 0.0


def of_values(values: Sequence[float]) -> Estimate | None:
    """From one value of each process, or of each reading of a single one. None: one value has no error."""
    if len(values) < 2 or min(values) <= 0:
        return None
    logarithms = [math.log(one) for one in values]
    count = len(values)
    return Estimate(fmean(logarithms), stdev(logarithms) / math.sqrt(count), count - 1, count)


def of_interval(
    middle: float, low: float, high: float, confidence: float, *, runs: int = 1, whole: bool = False
) -> Estimate | None:
    """From an interval: its longer side is so many standard deviations as its confidence says for a normal error."""
    if not 0 < low <= middle <= high or not 0 < confidence < 1:
        return None
    reach = math.log(max(high / middle, middle / low))
    return Estimate(math.log(middle), reach / NormalDist().inv_cdf((1 + confidence) / 2), processes=runs, whole=whole)


def of_earlier(*known: BetweenRuns | None) -> Floor | None:
    """The floor of the report that rests on more runs; of equal ones, the larger."""
    found = [one for one in known if one is not None and one.runs > 1]
    if not found:
        return None
    best = max(found, key=lambda one: (one.runs, one.cost))
    return Floor("earlier-runs", best.cost / NORMAL, runs=best.runs)


def of_rows(pairs: Iterable[tuple[Estimate, Estimate]]) -> Floor | None:
    """The floor that most rows of the two reports show. None: they are too few."""
    apart = [abs(base.logarithm - head.logarithm) for base, head in pairs]
    if len(apart) < FEWEST_ROWS:
        return None
    return Floor("these-rows", median(apart) / SPREAD_OF_MEDIAN, rows=len(apart))


def reach(floor: Floor | None, rows: int) -> float:
    """What a floor adds to the half width of each of so many intervals, as a logarithm. Infinite: none is known."""
    if floor is None:
        return math.inf
    chance = ALARMS / 4
    if floor.source == "earlier-runs":
        return floor.deviation * student(1 - chance, floor.runs - 1)
    if floor.source == "these-rows":
        return floor.deviation * student(1 - chance / max(1, rows), _EFFICIENCY * floor.rows)
    return floor.deviation * student(1 - chance, math.inf)


def narrowest(floors: Iterable[Floor | None], rows: int) -> Floor | None:
    """The floor that adds least."""
    return min((one for one in floors if one is not None), key=lambda one: reach(one, rows), default=None)


def judged(base: Estimate, head: Estimate, floor: Floor | None, rows: int, faster_is_less: bool = True) -> Judgement:
    """The speed-up of head over base as one of `rows` rows, with the interval of this module's first lines.

    `faster_is_less` says that the figures are costs; else they are rates. Without a floor that is needed, the
    judgement is not `enough`, and its interval is of the processes alone.
    """
    wanted = wanted_confidence(rows, ALARMS)
    error = math.hypot(base.error, head.error)
    half = student(wanted_confidence(rows, ALARMS / 2), _welch(base, head)) * error if error else 0.0
    known = base.whole or floor is not None
    half = min(half + (0.0 if base.whole or floor is None else reach(floor, rows)), _WIDEST)
    middle = (base.logarithm - head.logarithm) * (1 if faster_is_less else -1)
    ends = middle - half - base.slack, middle, middle + half + head.slack
    low, speedup, high = (math.exp(max(-_WIDEST, min(_WIDEST, one))) for one in ends)
    return Judgement(Speedup(speedup, low, high, wanted if known else 0.0), min(base.processes, head.processes), wanted)


def _welch(base: Estimate, head: Estimate) -> float:
    """Satterthwaite's degrees of freedom of a difference of two means."""
    parts = sum(one.error**4 / one.degrees for one in (base, head) if one.error)
    return (base.error**2 + head.error**2) ** 2 / parts if parts else math.inf
