"""What `asv continuous` can tell: whole runs of it on equal code, and on the same samples with a planted change.

    python tools/noise_asv.py --runs 8

Two commits of equal code are compared, in environments that borrow this one's packages, on the six main stages that
`pipebench ab` compares. What asv calls changed is a false alarm. Then each run's samples of the second commit are made
so much longer and judged again by asv's own comparison.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from noise import CHANGES, clone_to, commit_in

FACTORS = (1.02, 1.05, 1.1)
BENCHMARKS = (
    "read.Image.time_sample.*'open'",
    "decode.RGB.time_sample.*'pillow',",
    "crop.Resized224.time_sample.*'tensor-first'",
    "transform.FlipNormalise.time_sample.*'v1-sample'",
    "collate.Float32.time_sample.*'default'",
    "step.Small.time_sample.*'eager'",
)


def repository(folder):
    """A clone with a second commit of equal code, and with asv's configuration for one column of the suite."""
    clone = clone_to(folder / "clone")
    commit_in(clone, "--allow-empty", "-m", "the same")
    fast = [sys.executable, "-m", "pipebench", "init", "--fast"]
    subprocess.run(fast, cwd=clone, check=True, stdout=subprocess.DEVNULL)
    config = clone / ".asv" / "fast.conf.json"
    made = json.loads(config.read_text())
    made["matrix"]["env_nobuild"]["PIPEBENCH_PIL"] = ["stock"]
    config.write_text(json.dumps(made))
    return clone


def asv(clone, *arguments):
    command = [sys.executable, "-m", "asv", "--config", ".asv/fast.conf.json", *arguments]
    return subprocess.run(
        command, cwd=clone, env={**os.environ, "HOME": str(clone.parent)}, capture_output=True, text=True, check=False
    )


def samples(clone, commit):
    """For each benchmark of a commit: its figure, asv's statistics, and its samples."""
    from asv.commands.compare import unroll_result
    from asv.results import iter_results_for_machine_and_hash

    folder = clone / ".asv" / "results"
    (machine,) = [path.name for path in folder.iterdir() if path.is_dir()]
    found = {}
    for result in iter_results_for_machine_and_hash(str(folder), machine, commit):
        for key in result.get_all_result_keys():
            params = result.get_result_params(key)
            parts = [get(key, params) for get in (
                result.get_result_value, result.get_result_stats, result.get_result_samples
            )]  # fmt: skip
            for name, value, stats, taken in unroll_result(key, params, *parts):
                if taken:
                    found[name] = (value, stats, taken)
    return found


def called_changed(base, head, change, factor):
    """Whether asv's own comparison calls a benchmark changed if the samples of its head are `change` longer."""
    from asv.commands.compare import _is_result_better
    from asv_runner.statistics import compute_stats

    longer = [value * (1 + change) for value in head[2]]
    value, stats = compute_stats(longer, 1)
    old, new = (base[0], (base[1], base[2])), (value, (stats, longer))
    return any(_is_result_better(a, b, a_ss, b_ss, factor) for (a, a_ss), (b, b_ss) in ((old, new), (new, old)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=8, help="whole runs of asv continuous")
    chosen = parser.parse_args()
    counted = {(factor, change): 0 for factor in FACTORS for change in (0.0, *CHANGES)}
    comparisons = 0
    only = [word for name in BENCHMARKS for word in ("--bench", name)]
    with tempfile.TemporaryDirectory() as folder:
        clone = repository(Path(folder))
        asv(clone, "machine", "--yes")
        for number in range(chosen.runs):
            for kept in (clone / ".asv" / "results").glob("*/*-*.json"):
                kept.unlink()
            begin = time.monotonic()
            done = asv(clone, "continuous", "HEAD~1", "HEAD", *only)
            if done.returncode not in (0, 1):
                sys.exit(done.stdout[-2000:] + done.stderr[-2000:])
            commits = [
                subprocess.run(
                    ["git", "rev-parse", name], cwd=clone, capture_output=True, text=True, check=True
                ).stdout.strip()
                for name in ("HEAD~1", "HEAD")
            ]
            base, head = (samples(clone, commit) for commit in commits)
            took = time.monotonic() - begin
            sys.stdout.write(f"run {number + 1} of {chosen.runs}: {took:.0f} s, {len(base)} benchmarks\n")
            sys.stdout.flush()
            comparisons += len(base)
            for factor, change in counted:
                counted[factor, change] += sum(called_changed(base[name], head[name], change, factor) for name in base)
    sys.stdout.write(f"{comparisons} comparisons\nfactor  false alarms  ")
    sys.stdout.write("  ".join(f"{change:+.0%} found" for change in CHANGES) + "\n")
    for factor in FACTORS:
        alarms, *found = [counted[factor, change] / comparisons for change in (0.0, *CHANGES)]
        sys.stdout.write(f"{factor:<6}  {alarms:>12.1%}  " + "  ".join(f"{share:>9.1%}" for share in found) + "\n")


if __name__ == "__main__":
    main()
