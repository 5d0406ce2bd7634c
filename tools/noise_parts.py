"""What makes the rounds of `pipebench ab` vary, and what a round costs: rounds of equal code, in the two ways in turn.

    python tools/noise_parts.py take --seconds 150 --save parts.jsonl
    python tools/noise_parts.py report parts.jsonl

`take` starts two servers of the working tree, as `pipebench ab` does for two commits, and appends a line for each
round. In turn, both sides of a round get the same place, in memory and on a processor, and each gets its own. Each
reading is kept with the time that it waited for a processor, so `report` shows what a round says with this time and
without it. Each call of `take` starts new servers. So `report` can compare the servers of different calls.
"""

import argparse
import itertools
import json
import math
import os
import random
import statistics
import sys
import time
from pathlib import Path

from noise_plant import middle
from noise_report import table

ROOT = Path(__file__).absolute().parent.parent
PARTS = ("fork", "build", "read", "leave")
WAYS = (
    ("own place, all time", "own", False, middle),
    ("same place, all time", "same", False, middle),
    ("same place, ready", "same", True, middle),
    ("the same, one median", "same", True, statistics.median),
)
JUDGED = WAYS[2][0]  # what `pipebench ab` does
NORMAL = 1.349  # quartiles of a normal distribution are so many standard deviations apart
FAR = 2.0  # standard errors


def take(seconds, save, load):
    """Takes rounds of the six benchmarks in turn for so many seconds, and appends them to `save`."""
    sys.path.insert(0, os.fspath(ROOT))
    from pipebench.commands._ab_choice import MAIN
    from pipebench.compare import rounds
    from pipebench.compare.server import Server, Side

    begin = time.monotonic()
    servers = [Server(Side(name, ROOT), None) for name in ("base", "head")]
    try:
        for server in servers:
            server.send("start")
        for server in servers:
            server.start()
        rows = [sized(rounds, servers, name) for name in MAIN]
        with save.open("a") as file:
            number = 0
            while time.monotonic() - begin < seconds:
                for row in rows:
                    for place in ("own", "same"):
                        line = {"run": begin, "load": load(), **a_round(rounds, servers, row, place, number)}
                        file.write(json.dumps(line) + "\n")
                number += 1
    finally:
        for server in servers:
            server.close()


def sized(rounds, servers, name):
    row = rounds.Row(name)
    rounds.both(servers, "prime", name, rounds.KNOBS)
    rounds.both(servers, "fork")
    answers = rounds.both(servers, "arm", name, rounds.KNOBS, rounds.SHORT_S)
    rounds._take(row, answers, ["base", "head"], 0.0)
    for server in servers:
        server.leave()
    return row


def a_round(rounds, servers, row, place, number):
    """One round as `pipebench ab` takes it, with the seconds of its parts."""
    draw = random.SystemRandom().getrandbits
    first = draw(63)
    places = (first, first if place == "same" else draw(63))
    times = [time.monotonic()]
    for server, where in zip(servers, places, strict=True):
        server.send("fork", where, row.alone and place == "same")
    for server in servers:
        server.receive()
    times.append(time.monotonic())
    for method, *given in (("seed", number), ("rearm", row.identity, rounds.KNOBS, row.keys), ("seed", number)):
        rounds.both(servers, method, *given)
    times.append(time.monotonic())
    read = rounds.readings(row, servers, time.monotonic)
    times.append(time.monotonic())
    for server in servers:
        server.leave()
    rounds.both(servers, "echo", 0)
    times.append(time.monotonic())
    parts = dict(zip(PARTS, (round(end - one, 4) for one, end in itertools.pairwise(times)), strict=True))
    return {"benchmark": row.identity, "place": place, "parts_s": parts, "read": read}


def spread(values):
    """The standard deviation by the quartiles, so that a few spoilt rounds do not decide it."""
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / NORMAL


def ratios(line, ready):
    """log(head / base) of each pair: with the time that a side waited, or without it."""
    sides = [[seconds - (waited if ready else 0.0) for seconds, waited in pair] for pair in line["read"]]
    return [math.log(head / base) for base, head in sides]


def just_read(line):
    """How much faster a side is that has just read, as a logarithm: the head in even pairs, the base in the others."""
    found = ratios(line, ready=True)
    return (statistics.median(found[1::2]) - statistics.median(found[::2])) / 2


def known(line):
    return all(waited is not None for pair in line["read"] for _, waited in pair)


def by_way(lines):
    """For each benchmark and way, the ratios of its rounds by run. Rounds whose waiting is not known are left out."""
    found = {}
    for line in filter(known, lines):
        for name, place, ready, of_round in WAYS:
            if line["place"] == place:
                runs = found.setdefault(line["benchmark"], {}).setdefault(name, {})
                runs.setdefault(line["run"], []).append(of_round(ratios(line, ready)))
    return found


def report(lines):
    """The report, as text."""
    loads = [line["load"] for line in lines]
    said = [
        f"{len(lines)} rounds of equal code from {len({line['run'] for line in lines})} pairs of servers; "
        f"load {min(loads):.1f} to {max(loads):.1f}, median {statistics.median(loads):.1f}",
        "",
        "standard deviation of a round's log(head / base), by its quartiles",
    ]
    found = by_way(lines)
    cells = [["benchmark", *(name for name, *_ in WAYS), "rounds"]]
    for name, ways in found.items():
        pooled = [[one for run in ways[way].values() for one in run] for way, *_ in WAYS]
        cells.append([name, *(f"{100 * spread(one):.1f} %" for one in pooled), str(len(pooled[-1]))])
    said += [*table(cells), "", "seconds of a round, median"]
    cells = [["benchmark", *PARTS, "pairs", "faster who has just read"]]
    for name in found:
        own = [line for line in lines if line["benchmark"] == name]
        parts = [f"{statistics.median(line['parts_s'][part] for line in own):.2f}" for part in PARTS]
        pairs = str(round(statistics.median(len(line["read"]) for line in own)))
        faster = statistics.median(just_read(line) for line in own if known(line) and len(line["read"]) > 1)
        cells.append([name, *parts, pairs, f"{100 * faster:+.1f} %"])
    said += [*table(cells), "", f"mean log(head / base) of each pair of servers (standard error), {JUDGED}"]
    cells = [["benchmark", "by pair of servers"]]
    for name, ways in found.items():
        means = [mean_and_error(one) for one in ways[JUDGED].values() if len(one) > 2]
        cells.append([name, "  ".join(f"{100 * mean:+.2f} ({100 * error:.2f}) %" for mean, error in means)])
    said += table(cells)
    every = [mean_and_error(one) for ways in found.values() for one in ways[JUDGED].values() if len(one) > 2]
    far = sum(abs(mean) > FAR * error for mean, error in every)
    said.append(f"further from 0 than {FAR:.0f} standard errors: {far} of {len(every)}")
    likeliest, most = apart(every)
    said.append(
        f"what a pair of servers adds, as a standard deviation: {100 * likeliest:.2f} % (at most {100 * most:.2f} %)"
    )
    return "\n".join(said) + "\n"


def apart(every):
    """The standard deviation of what pairs of servers draw, by maximum likelihood, and the largest that is likely.

    `every` has the mean of each pair of servers and its standard error. A mean is normal around 0 with both variances.
    The largest is the end of the likelihood interval of 95 % (Wilks, 1938).
    """

    def likelihood(spread):
        return -0.5 * sum(math.log(spread**2 + error**2) + mean**2 / (spread**2 + error**2) for mean, error in every)

    steps = [one * 1e-4 for one in range(500)]
    best = max(steps, key=likelihood)
    return best, max(one for one in steps if likelihood(one) >= likelihood(best) - 1.92)


def mean_and_error(values):
    return statistics.fmean(values), statistics.stdev(values) / math.sqrt(len(values))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["take", "report"])
    parser.add_argument("files", nargs="*", type=Path, help="what `report` reads")
    parser.add_argument("--seconds", type=float, default=150.0, help="of a `take`, start-up included")
    parser.add_argument("--save", type=Path, default=Path("parts.jsonl"), help="the file that rounds are appended to")
    chosen = parser.parse_args()
    if chosen.what == "take":
        take(chosen.seconds, chosen.save, lambda: os.getloadavg()[0])
    else:
        texts = [path.read_text() for path in chosen.files or [chosen.save]]
        sys.stdout.write(report([json.loads(line) for text in texts for line in text.splitlines()]))


if __name__ == "__main__":
    main()
