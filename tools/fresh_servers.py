"""Whether a process that a live server forked stands for a process of a new server: the servers against their forks.

    python tools/fresh_servers.py measure --servers 4 --processes 5 --save fresh_servers.jsonl
    python tools/fresh_servers.py report fresh_servers.jsonl

All servers live at once and take turns, so that drift of the machine is not taken for a difference between them. F is
the variance between the means of servers over what the differences between the forks of one server explain: about 1 if
a server is nothing but the sum of its forks.
"""

import argparse
import itertools
import json
import math
import os
import statistics
import sys
from pathlib import Path

from pipebench import stage
from pipebench.lab.fresh import FreshRunner
from pipebench.task import RunnerSpec, Workload

ROWS = {
    "read/image": ("open", "pread"),
    "decode/rgb": ("pillow", "simplejpeg", "opencv"),
    "crop/resized-224": ("tensor-first", "region"),
    "transform/mask": ("bool-or", "cv-dilate"),
    "transform/flip-normalise": ("v1-sample", "v2-batch"),
    "collate/uint8": ("default", "prealloc"),
}
WORKLOAD = Workload(quick=True)
READING_S, READINGS = 0.010, 6


def of_process(place):
    """Seconds a call of every row, in a fresh process for each task."""
    found = {}
    for task_id, names in ROWS.items():
        task = next(one for one in stage.tasks() if one.id == task_id)
        workload = task.adapt(WORKLOAD)
        keys = tuple(key for group in task.groups(workload) for key in group)[: task.per_call(workload)]
        place.renew(task_id, workload, keys)
        calls = {}
        for identity in [f"{task_id}/{name}" for name in names]:
            place.prepare(identity, workload)
            place.arm(identity, workload, keys)
            once = min(place.reading(identity, 1)[0] for _ in range(2))
            calls[identity], found[identity] = max(1, round(READING_S / once)), []
        for _ in range(READINGS):
            for identity, count in calls.items():
                found[identity].append(float(f"{place.reading(identity, count)[0] / count:.4g}"))
    return found


def measure(servers, processes):
    """One line for each process: its server, the load, and its readings."""
    places = [FreshRunner(RunnerSpec(f"server {number}")) for number in range(servers)]
    try:
        for place in places:
            place.warm([f"{task}/{name}" for task, names in ROWS.items() for name in names], WORKLOAD)
        for _, (number, place) in itertools.product(range(processes), enumerate(places)):
            yield {"server": f"{os.getpid()}-{number}", "load": os.getloadavg()[0], "rows": of_process(place)}
    finally:
        for place in places:
            place.close()


def ratio_of_variances(servers):
    """F of a one-way analysis of variance: the values of each server's processes."""
    values = [one for found in servers for one in found]
    middle = statistics.fmean(values)
    between = sum(len(found) * (statistics.fmean(found) - middle) ** 2 for found in servers) / (len(servers) - 1)
    within = sum((one - statistics.fmean(found)) ** 2 for found in servers for one in found)
    return between / (within / (len(values) - len(servers)))


def report(lines):
    servers = {
        name: [one["rows"] for one in lines if one["server"] == name] for name in {one["server"] for one in lines}
    }
    loads = [one["load"] for one in lines]
    yield f"{len(servers)} servers, {len(lines)} processes, load {min(loads):.1f} to {max(loads):.1f}"
    for kind in ("cost", "speed-up"):
        found = []
        for task_id, names in ROWS.items():
            first = f"{task_id}/{names[0]}"
            for identity in [f"{task_id}/{name}" for name in names][kind == "speed-up" :]:
                beside = first if kind == "speed-up" else None
                found.append(
                    ratio_of_variances([[_value(one, identity, beside) for one in made] for made in servers.values()])
                )
        middle = statistics.median(found)
        yield f"{kind:<9} F median {middle:.2f}, {min(found):.2f} to {max(found):.2f}, {len(found)} rows"


def _value(rows, identity, beside):
    if beside is None:
        return math.log(statistics.median(rows[identity]))
    return math.log(statistics.median(one / other for one, other in zip(rows[beside], rows[identity], strict=True)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    measuring = commands.add_parser("measure")
    measuring.add_argument("--servers", type=int, default=4)
    measuring.add_argument("--processes", type=int, default=5)
    measuring.add_argument("--save", type=Path, required=True)
    commands.add_parser("report").add_argument("file", type=Path)
    asked = parser.parse_args()
    if asked.command == "report":
        lines = [json.loads(line) for line in asked.file.read_text(encoding="utf-8").splitlines()]
        sys.stdout.write("\n".join(report(lines)) + "\n")
        return
    with asked.save.open("a", encoding="utf-8") as file:
        for line in measure(asked.servers, asked.processes):
            file.write(json.dumps(line) + "\n")
            file.flush()


if __name__ == "__main__":
    main()
