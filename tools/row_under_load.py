"""Holds a row of `pipebench watch` against the script's own clock, on a quiet machine and beside busy processes.

    python tools/row_under_load.py --load 4 --rounds 2 . ../other-checkout

The script is `pipebench/calibrate/planted/loaded.py` of this checkout. It reads its own time around `__getitem__` with
`perf_counter_ns`, and computes nothing but checksums. Each checkout of pipebench watches it in turn.
A row that is longer than the script's own clock holds time in which another process had the core.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from pipebench.calibrate.under_load import busy

SCRIPT = Path(__file__).resolve().parent.parent / "pipebench/calibrate/planted/loaded.py"
ROWS = ("Loaded.__getitem__", "First", "Second")


def watched(checkout, workers, batches):
    """The milliseconds of a sample: by the script's own clock, and by the rows of this checkout's `watch`."""
    with tempfile.TemporaryDirectory() as folder:
        truth, report = Path(folder) / "truth.json", Path(folder) / "report.json"
        command = [sys.executable, "-m", "pipebench", "watch", "--export-json", str(report), str(SCRIPT), str(truth)]
        environment = {**os.environ, "PYTHONPATH": str(checkout)}
        done = subprocess.run(
            [*command, "--workers", str(workers), "--batches", str(batches)],
            env=environment,
            cwd=folder,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            sys.exit(done.stderr)
        found = json.loads(report.read_text())
        stages = (found.get("watched") or found["watch"])["stages"]
        rows = sum(one["exclusive_s_per_sample"] for one in stages if one["name"] in ROWS)
        return json.loads(truth.read_text())["sample"] * 1e3, rows * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkouts", nargs="*", type=Path, default=[Path()])
    parser.add_argument("--load", type=int, default=4, help="busy processes")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batches", type=int, default=100, help="of eight samples")
    args = parser.parse_args()
    found = {checkout: [] for checkout in args.checkouts}
    with busy(args.load):
        for _ in range(args.rounds):
            for checkout in args.checkouts:
                found[checkout].append(watched(checkout.resolve(), args.workers, args.batches))
    load = f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores, {args.workers} workers"
    sys.stdout.write(f"{args.load} busy processes, {load}; ms a sample\n")
    sys.stdout.write("own clock     row   row over own   checkout\n")
    for checkout, readings in found.items():
        for own, row in readings:
            sys.stdout.write(f"{own:9.3f} {row:7.3f} {row / own:14.3f}   {checkout}\n")
        over = statistics.median(row / own for own, row in readings)
        sys.stdout.write(f"{'median':>17} {over:14.3f}   {checkout}\n")


if __name__ == "__main__":
    main()
