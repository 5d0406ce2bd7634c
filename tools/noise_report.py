"""The arithmetic of `tools/noise.py`: the true change of a run, and how often whole runs were right. Pure.

A line is what `tools/noise.py` appends for a run. Its `planted` is 0 for equal code. Each of its `benchmarks` has the
`change` that `pipebench ab` estimates, the interval from `low` to `high`, the `verdict`, and the `true` change. Every
change is a change of time: 0.03 is 3 % longer.
"""

import math
import statistics
from collections import Counter

from pipebench.results.comparison import rounds_needed, wanted_confidence

SURE = 0.95  # the confidence of the intervals of counts
GOAL_LOAD = 3  # up to this load, a change of 3 % should be found


def truth(base_rounds, head_rounds):
    """The true change of one benchmark in one run, by the clock of the added work.

    `true` is the median over rounds of the added work divided by the call. Each round has the middle of its readings,
    as `pipebench ab` takes it. `call_change` says how much longer the original call took in
    the head than in the base. It is 0 if the added work does not disturb the call.
    """
    shares = [one["share"] for one in head_rounds]
    calls = [h["middle_call_ns"] / b["middle_call_ns"] for b, h in zip(base_rounds, head_rounds, strict=True)]
    quartiles = statistics.quantiles(shares, n=4, method="inclusive") if len(shares) > 1 else shares * 3
    return {
        "true": quartiles[1], "true_from": quartiles[0], "true_to": quartiles[2], "true_in_first_round": shares[0],
        "true_of_sums": sum(one["more_ns"] for one in head_rounds) / sum(one["call_ns"] for one in head_rounds),
        "call_change": statistics.median(calls) - 1,
    }  # fmt: skip


def clopper_pearson(hits, of):
    """The exact interval of a counted share (Clopper and Pearson, Biometrika 26 (1934), 404-413)."""

    def exactly(count, share):
        ways = math.lgamma(of + 1) - math.lgamma(count + 1) - math.lgamma(of - count + 1)
        return math.exp(ways + count * math.log(share) + (of - count) * math.log1p(-share))

    def at_most(count, share):
        return math.fsum(exactly(one, share) for one in range(count + 1))

    def where(goes_down, level):
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if goes_down(middle) > level else (low, middle)
        return (low + high) / 2

    tail = (1 - SURE) / 2
    low = where(lambda share: at_most(hits - 1, share), 1 - tail) if hits else 0.0
    high = where(lambda share: at_most(hits, share), tail) if hits < of else 1.0
    return low, high


def enough(row, family):
    """Whether there were enough rounds to detect a difference. If not, `pipebench ab` always says `~`."""
    return row["rounds"] >= rounds_needed(wanted_confidence(family))


def as_today(line):
    """A run in which no row of too few rounds has a verdict. Earlier, 11 rounds were enough for a family of six."""
    rows = line["benchmarks"]
    return {**line, "benchmarks": [one if enough(one, len(rows)) else {**one, "verdict": "~"} for one in rows]}


def alarms(lines):
    """The runs of equal code in which any benchmark is called changed, in either direction."""
    return [line for line in lines if not line["planted"] and any(one["verdict"] != "~" for one in line["benchmarks"])]


def covers(row, by="true"):
    return row["low"] <= row[by] <= row["high"]


def judged(lines):
    """The rows that had enough rounds. The interval of any other row is as wide as the search for it goes."""
    return [one for line in lines for one in line["benchmarks"] if enough(one, len(line["benchmarks"]))]


def whole(lines):
    """The runs in which every benchmark had enough rounds."""
    return [line for line in lines if all(enough(one, len(line["benchmarks"])) for one in line["benchmarks"])]


def counted(hits, of):
    """A count as text, with the exact interval of its share."""
    if not of:
        return "none"
    low, high = clopper_pearson(hits, of)
    return f"{hits} of {of} ({100 * low:.1f} to {100 * high:.1f} %)"


def by_benchmark(lines):
    found = {}
    for line in lines:
        for one in line["benchmarks"]:
            found.setdefault(one["benchmark"], []).append((one, len(line["benchmarks"])))
    return found


def rows(lines, planted):
    """A row of text for each benchmark of one kind of run.

    The power ("found slower"), the true change and the number of rounds use all runs. The other columns use only runs
    with enough rounds.
    """
    for name, pairs in by_benchmark(lines).items():
        every, kept = [one for one, _ in pairs], [one for one, family in pairs if enough(one, family)]
        if planted:
            cells = [name, counted(sum(one["verdict"] == "slower" for one in every), len(every))]
            cells += [percent(statistics.median(one["true"] for one in every))]
        else:
            cells = [name, counted(sum(one["verdict"] != "~" for one in kept), len(kept))]
        cells += [counted(sum(map(covers, kept)), len(kept))]
        cells += [percent(statistics.median((one["high"] - one["low"]) / 2 for one in kept)) if kept else "none"]
        yield [*cells, str(round(statistics.median(one["rounds"] for one in every)))]


def percent(fraction):
    return f"{100 * fraction:.1f} %"


def table(cells):
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join([row[0].ljust(widths[0]), *(one.rjust(wide) for one, wide in zip(row[1:], widths[1:], strict=True))])
        for row in cells
    ]


def coverage(lines):
    """Lines of text: how many intervals contain the true change, and in how many runs all intervals contain it."""
    kept, complete = judged(lines), whole(lines)
    families = sum(all(map(covers, line["benchmarks"])) for line in complete)
    said = [
        f"intervals that contain the true change: {counted(sum(map(covers, kept)), len(kept))}",
        f"runs in which all intervals do: {counted(families, len(complete))}",
    ]
    clocked = [one for one in kept if "true_of_sums" in one]
    if clocked:
        by_sums = sum(covers(one, "true_of_sums") for one in clocked)
        said.append(f"intervals that contain the ratio of summed times: {counted(by_sums, len(clocked))}")
        beside = [one["call_change"] for one in clocked]
        said.append(f"original call in the head against the base, median: {100 * statistics.median(beside):+.2f} %")
    return said


def load_of(line):
    return (line["load_before"] + line["load_after"]) / 2


def found_by_load(lines):
    """Lines of text: how many changes were found at loads up to that of the goal, and at higher ones."""
    for what, chosen in (
        (f"at loads up to {GOAL_LOAD}", [line for line in lines if load_of(line) <= GOAL_LOAD]),
        ("at higher loads", [line for line in lines if load_of(line) > GOAL_LOAD]),
    ):
        every = [one["verdict"] == "slower" for line in chosen for one in line["benchmarks"]]
        if every:
            runs = "1 run" if len(chosen) == 1 else f"{len(chosen)} runs"
            yield f"found {what}, {runs}: {counted(sum(every), len(every))}"


def section(lines, planted, budget_s):
    """The lines of text about one kind of run."""
    what = f"{percent(planted)} more work" if planted else "equal code"
    said = [
        f"{what}, runs of {budget_s:.0f} s: {len(lines)}, with enough rounds for every benchmark: {len(whole(lines))}"
    ]
    if commits := dict.fromkeys(line["commit"] for line in lines if line.get("commit")):
        said.append(f"by commit {', '.join(commits)}")
    loads = sorted(map(load_of, lines))
    said.append(f"load {loads[0]:.1f} to {loads[-1]:.1f}, median {statistics.median(loads):.1f}")
    if not judged(lines):
        most = max(one["rounds"] for line in lines for one in line["benchmarks"])
        return [*said, f"nothing can be told: {most} rounds at most, and too few everywhere"]
    header = ["benchmark", "found slower", "true change"] if planted else ["benchmark", "called changed"]
    said += table([[*header, "interval contains truth", "half width", "rounds"], *rows(lines, planted)])
    if not planted:
        said.append(f"runs with a false alarm: {counted(len(alarms(lines)), len(lines))}")
        complete = whole(lines)
        said.append(f"of those with enough rounds for every benchmark: {counted(len(alarms(complete)), len(complete))}")
    else:
        wrong = sum(one["verdict"] == "faster" for line in lines for one in line["benchmarks"])
        said += [*found_by_load(lines), f"wrongly called faster: {wrong}"]
    return [*said, *coverage(lines)]


def against_plan(lines):
    """For each benchmark, the true changes as shares of the planned one: in the first round and in the median round."""
    found = {}
    for line in lines:
        for one in line["benchmarks"] if line["planted"] else ():
            shares = found.setdefault(one["benchmark"], ([], []))
            for share, by in zip(shares, ("true_in_first_round", "true"), strict=True):
                share.append(one[by] / line["planted"])
    return [[name, *map(spread, shares)] for name, shares in found.items()]


def spread(shares):
    """The median and the quartiles in per cent, as text."""
    low, middle, high = statistics.quantiles(shares, n=4, method="inclusive") if len(shares) > 1 else shares * 3
    return f"{100 * middle:.0f} % ({100 * low:.0f} to {100 * high:.0f} %)"


def report(lines):
    """The report of the pooled runs, as text. Runs that were judged by different methods are never pooled."""
    if not lines:
        return "no runs\n"
    lines = list(map(as_today, lines))
    when = sorted(line["began"] for line in lines)
    said = [f"{len(lines)} runs from {when[0]} to {when[-1]}; in brackets: exact {SURE:.0%} intervals"]
    machines = Counter((line["machine"], line["cpus"]) for line in lines)
    said += [f"{count} on {name}, {cpus} CPUs" for (name, cpus), count in machines.items()]
    for method in sorted({line.get("method", 1) for line in lines}):
        said += ["", f"METHOD {method}", *by_method([line for line in lines if line.get("method", 1) == method])]
    return "\n".join(said) + "\n"


def by_method(lines):
    """The lines of text about the runs that one method judged: a section for each planted change and budget."""
    said = []
    for planted, budget_s in sorted({(line["planted"], line["budget_s"]) for line in lines}):
        kind = [line for line in lines if (line["planted"], line["budget_s"]) == (planted, budget_s)]
        said += [*section(kind, planted, budget_s), ""]
    said += ["all runs of this method", *coverage(lines)]
    if clocked := against_plan(lines):
        said += ["", "added work as a share of the plan, median (quartiles) over all planted runs"]
        said += table([["benchmark", "first round", "median round"], *clocked])
    return said
