"""What the intervals of `pipebench run` promise about the next run, and whether the next run keeps it.

    python tools/repeatability.py measure --runs 10 --save repeatability.jsonl -- --quick --stage decode
    python tools/repeatability.py report repeatability.jsonl

`measure` repeats `pipebench run` with the options after `--`, and appends one line to the file for each finished run:
the figures that the run prints, its raw readings by process, and the load. `report` takes every two runs with the same
options, and on the same side of the load of the goals: a run on a busy machine finds other figures, and no interval
knows of that. A row is covered if the interval of one run contains the estimate of the other; both directions count.

The intervals are made again from the stored readings, by today's code: first from the processes of a run alone, then as
`run` prints them after the earlier runs of the file. The first run of a kind has no earlier one, and is only held
against.
"""

import argparse
import datetime
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pipebench.lab.earlier import MOST_RUNS
from pipebench.results.earlier_runs import Figures, added, between, wider
from pipebench.stats import compare_processes, summarize

BUSY = 3.0  # the load average up to which the goals are meant
GOALS = {"ratio": (0.90, 0.05), "cost": (0.80, 0.20)}  # share of rows covered, median half width


def run_lab(options):
    """Runs `pipebench run` by its command line, and returns the line for the file. If it fails, the process ends."""
    began, before = time.time(), os.getloadavg()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pipebench", "run", *options, "--export-json", os.fspath(report)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if not report.exists():
            sys.exit(f"pipebench run ended with status {done.returncode}:\n{done.stderr[-2000:]}")
        found = json.loads(report.read_text(encoding="utf-8"))
    return {
        "began": datetime.datetime.fromtimestamp(began, datetime.UTC).isoformat(timespec="seconds"),
        "took_s": round(time.time() - began, 1), "load_before": before[0], "load_after": os.getloadavg()[0],
        "machine": found["machine"]["cpu"], "cpus": os.cpu_count(), "options": list(options),
        "rows": [line_of(one) for one in found["measurements"] if one["summary"]],
    }  # fmt: skip


def line_of(one):
    """A row of a report: seconds a sample and speed-up, each with its interval, and the readings of each process."""
    samples, summary, over = one["work"]["samples"], one["summary"], one["over_reference"]
    edges = [0, *itertools.accumulate(one["readings_per_process"])]
    return {
        "name": f"{one['task']}/{one['variant']}",
        "cost": [float(f"{summary[key] / samples:.5g}") for key in ("median_s", "low_s", "high_s")],
        "ratio": [float(f"{over[key]:.5g}") for key in ("speedup", "low", "high")] if over else None,
        "per_call_s": [
            [float(f"{reading / one['calls_per_reading']:.4g}") for reading in one["readings_s"][begin:end]]
            for begin, end in itertools.pairwise(edges)
        ],
    }


def rows_of(runs):
    """The rows of each run with `cost` and `ratio` and their intervals: of its processes, and after earlier runs."""
    alone = [{row["name"]: _figures(row, one["rows"]) for row in one["rows"]} for one in runs]
    known = [
        Figures(
            one["began"],
            "",
            {name: row["cost"][0] for name, row in rows.items()},
            {name: row["ratio"][0] for name, row in rows.items() if row["ratio"]},
        )
        for one, rows in zip(runs, alone, strict=True)
    ]
    after = []
    for last, rows in enumerate(alone, 1):
        told = between(known[max(0, last - MOST_RUNS) : last])
        after.append({name: _promised(row, told) for name, row in rows.items()} if told else rows)
    return alone, after


def _figures(row, rows):
    """Seconds a call and the speed-up over the reference of its task (None for the reference), from the readings."""
    task = row["name"].rpartition("/")[0]
    readings = [one for one in row["per_call_s"] if one]
    summary = summarize([each for one in readings for each in one], 1, 1, [len(one) for one in readings])
    reference = next(
        (one for one in rows if one["ratio"] == [1.0, 1.0, 1.0] and one["name"].startswith(f"{task}/")), None
    )
    ratio = None
    if reference is not None and reference is not row and row["ratio"]:
        over = compare_processes(row["per_call_s"], reference["per_call_s"])
        ratio = (over.speedup, over.low, over.high)
    return {"cost": (summary.median_s, summary.low_s, summary.high_s), "ratio": ratio}


def _promised(row, told):
    """The row with the intervals that `run` would print if runs differed by so much."""
    cost, ratio = row["cost"], row["ratio"]
    return {
        "cost": (cost[0], *added(*cost, told.cost)),
        "ratio": ratio and (ratio[0], *wider(*ratio, told.speedup)),
    }


def covered(alone, after, kind):
    """For each row of two or more runs: whether a promised interval contains another run's estimate, and half widths.

    The first run of a kind makes no promise here, so that both kinds of interval are judged on the same runs.
    """
    for name in dict.fromkeys(name for one in alone for name in one):
        figures = [(one[name][kind], two[name][kind]) for one, two in zip(alone, after, strict=True) if name in one]
        figures = [(mine, made) for mine, made in figures if mine and mine[1] < mine[2]]
        if len(figures) < 2:
            continue
        inside = [
            promised[1] <= other[0] <= promised[2]
            for (place, (_, promised)), (_, (other, _)) in itertools.permutations(enumerate(figures), 2)
            if place > 0
        ]
        yield name, inside, [(high - low) / 2 / middle for _, (middle, low, high) in figures[1:]]


def report(lines):
    """The text of a report on finished runs."""
    for (options, busy), group in itertools.groupby(sorted(lines, key=_kind), key=_kind):
        yield from _of_kind(f"{options}, load {'above' if busy else 'up to'} {BUSY:g}", list(group))


def _kind(line):
    return " ".join(line["options"]), max(line["load_before"], line["load_after"]) > BUSY


def _of_kind(kind, runs):
    loads = [load for one in runs for load in (one["load_before"], one["load_after"])]
    processes = [len(row["per_call_s"]) for one in runs for row in one["rows"]]
    yield f"pipebench run {kind}: {len(runs)} runs, {min(one['began'] for one in runs)} to {_last(runs)}"
    yield f"{runs[0]['machine']}, {runs[0]['cpus']} CPUs, load {min(loads):.1f} to {max(loads):.1f}"
    yield (
        f"{min(processes)} to {max(processes)} processes a row, median {statistics.median(processes):g}; "
        f"a run took {statistics.median(one['took_s'] for one in runs):.0f} s"
    )
    alone, after = rows_of(runs)
    yield f"{'stage':<12}{'figure':<8}{'rows':>5}{'processes alone':>22}{'with earlier runs':>22}{'goal':>17}"
    for kind, (share, width) in GOALS.items():
        found, then = list(covered(alone, alone, kind)), list(covered(alone, after, kind))
        for stage in dict.fromkeys(name.split("/")[0] for name, _, _ in found):
            yield _line(
                stage, kind, *([one for one in each if one[0].startswith(f"{stage}/")] for each in (found, then))
            )
        yield _line("all", kind, found, then) + f"  ≥ {share:.0%}, ± {width:.0%}"
    yield ""


def _last(runs):
    return max(one["began"] for one in runs)


def _line(stage, kind, *found):
    return f"{stage:<12}{kind:<8}{len(found[0]):>5}" + "".join(f"{_covered(one):>22}" for one in found)


def _covered(found):
    """The share of pairs that are covered, and the median half width."""
    inside = [one for _, pairs, _ in found for one in pairs]
    widths = [one for _, _, halves in found for one in halves]
    return f"{sum(inside) / len(inside):.0%}, ± {statistics.median(widths):.1%}" if inside else "none"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    measuring = commands.add_parser("measure")
    measuring.add_argument("--runs", type=int, default=10)
    measuring.add_argument("--save", type=Path, required=True)
    measuring.add_argument("options", nargs="*", help="options of `pipebench run`, after --")
    commands.add_parser("report").add_argument("files", type=Path, nargs="+")
    asked = parser.parse_args()
    if asked.command == "report":
        lines = [json.loads(line) for file in asked.files for line in file.read_text(encoding="utf-8").splitlines()]
        sys.stdout.write("\n".join(report(lines)).rstrip() + "\n")
        return
    for _ in range(asked.runs):
        with asked.save.open("a", encoding="utf-8") as file:
            file.write(json.dumps(run_lab(asked.options)) + "\n")


if __name__ == "__main__":
    main()
