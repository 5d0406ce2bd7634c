"""What `pipebench ab` can tell: a simulation, and an experiment with equal code on both sides.

    python tools/noise.py simulate
    python tools/noise.py experiment --budget 600 --save noise.json
    python tools/noise.py judge noise.json
    python tools/noise.py planted --change 0.03 --runs 4

`experiment` compares the last commit with itself and keeps every reading. `judge` draws runs of as many rounds as fit
into three minutes from it and counts how many call equal code changed, and how many find a change that is planted by
making the head's readings so much longer. `planted` runs
`pipebench ab` as it is against a copy of the last commit that does so much more work in every call: an empty loop, its
length fixed once as a share of the call's time. `tools/noise_asv.py` does the same for `asv continuous`.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from pipebench.commands.ab import MAIN
from pipebench.compare import permutation, rounds

CHANGES = (0.01, 0.02, 0.03, 0.05, 0.10)
DRAWS = 200
RUN_S = 180.0
ROOT = Path(__file__).absolute().parent.parent
MORE_WORK = """

def _more_work(plain: Any) -> Any:
    import hashlib
    from pathlib import Path

    def least(act: Any, times: int) -> float:
        return min(WallClock().elapsed(act) for _ in range(times))

    def work(steps: int) -> None:
        for _ in range(steps):
            pass

    def steps(identity: str, keys: Any, block: Any) -> int:
        name = hashlib.sha256(repr((identity, keys)).encode()).hexdigest()
        kept = Path(__file__).with_name(f"steps-{{name[:16]}}.txt")
        if not kept.exists():
            call_s = least(lambda: block(1), 40)
            step_s = least(lambda: work(100_000), 40) / 100_000
            kept.write_text(str(round({change!r} * call_s / step_s)))
        return int(kept.read_text())

    def arm(self: Any, identity: str, workload: Any, keys: Any) -> Work:
        done = plain(self, identity, workload, keys)
        *rest, block = self._armed[identity]
        more = steps(identity, keys, block)

        def longer(calls: int) -> None:
            block(calls)
            work(calls * more)

        self._armed[identity] = (*rest, longer)
        return done  # type: ignore[no-any-return]  # what the plain one gave

    return arm


LocalRunner.arm = _more_work(LocalRunner.arm)  # type: ignore[method-assign]
"""


def simulated(rng, rounds, placement, change, pairs=50, noise=0.05, spoilt=0.05):
    """Rounds of equal code: processes placed well or badly, readings that only get longer, some rounds spoilt."""
    made = []
    for _ in range(rounds):
        base, head = 1 + rng.gauss(0, placement), (1 + change) * (1 + rng.gauss(0, placement))
        head *= 1 + (rng.uniform(0, 1) if rng.random() < spoilt else 0)
        base *= 1 + (rng.uniform(0, 1) if rng.random() < spoilt else 0)
        made.append([(base * (1 + noise * rng.expovariate(pairs)), head * (1 + noise * rng.expovariate(pairs)))])
    return made


def simulate(draws, out, rounds=70):
    """Power and false alarms over a family of six by spread of placement, for as many rounds as each stage has."""
    rng = random.Random(0)
    out.write(f"{rounds} rounds, {draws} families of six\n")
    out.write("placement  false alarms  " + "  ".join(f"{change:+.0%} found" for change in CHANGES) + "\n")
    for placement in (0.01, 0.02, 0.04):
        alarms = sum(
            any(permutation.differs(simulated(rng, rounds, placement, 0.0), 6) for _ in range(6)) for _ in range(draws)
        )
        found = [
            sum(permutation.differs(simulated(rng, rounds, placement, change), 6) for _ in range(draws))
            for change in CHANGES
        ]
        shares = "  ".join(f"{count / draws:>9.1%}" for count in found)
        out.write(f"{placement:>9.1%}  {alarms / draws:>12.1%}  {shares}\n")
        out.flush()


def experiment(budget_s, save, out):
    """The last commit against itself; every reading goes to `save`."""

    def keep(changes):
        found = {one.benchmark: [one.calls_per_reading, one.rounds] for one in changes}
        save.write_text(json.dumps({"seconds": budget_s, "benchmarks": found}))

    with tempfile.TemporaryDirectory() as folder:
        clone = clone_to(Path(folder) / "clone")
        sides = [rounds.Side(label, clone) for label in ("base", "head")]
        changes = rounds.compare(*sides, MAIN, budget_s=budget_s, most_rounds=10_000, keep=keep)
    for one in changes:
        out.write(f"{one.benchmark}: {len(one.rounds)} rounds {one.failed or one.skipped or ''}\n")


def clone_to(folder):
    subprocess.run(["git", "clone", "--quiet", os.fspath(ROOT), os.fspath(folder)], check=True)
    return folder


def commit_in(folder, *options):
    author = ["-c", "user.name=noise", "-c", "user.email=noise@example.org"]
    subprocess.run(["git", *author, "commit", "--quiet", *options], cwd=folder, check=True)


def _with_more_work(folder, change):
    """A second commit in which each benchmark does `change` more work a call, an amount fixed when first armed."""
    runner = folder / "pipebench" / "runner.py"
    runner.write_text(runner.read_text() + MORE_WORK.format(change=change))
    commit_in(folder, "-am", "more work")


def planted(change, runs, budget_s, out):
    """Whole runs of `pipebench ab` against a commit that does more work; with a change of 0, against equal work."""
    with tempfile.TemporaryDirectory() as folder:
        clone = clone_to(Path(folder) / "clone")
        _with_more_work(clone, change)
        for number in range(runs):
            command = [sys.executable, "-m", "pipebench", "ab", "HEAD~1", "HEAD", "--budget", str(budget_s)]
            done = subprocess.run(command, cwd=clone, capture_output=True, text=True, check=False)
            out.write(f"run {number + 1} of {runs}, {change:.0%} more work, load {os.getloadavg()[0]:.1f}\n")
            out.write(done.stdout or done.stderr)
            out.flush()


def judge(save, run_s, out):
    """What runs drawn from an experiment say, each of as many rounds as fit into `run_s`."""
    rng = random.Random(0)
    whole = json.loads(save.read_text())
    found, share = whole["benchmarks"], min(1.0, run_s / whole["seconds"])
    found = {
        name: (calls, [[tuple(permutation.round_minima(pairs))] for pairs in kept])
        for name, (calls, kept) in found.items()
    }
    out.write(f"runs of {run_s:.0f} s, drawn {DRAWS} times from {whole['seconds']:.0f} s\n")
    changes = "  ".join(f"{change:+.0%}" for change in CHANGES)
    out.write(f"{'benchmark':<36} call ms  rounds  spread  alarm  could tell  {changes}\n")
    runs = {
        name: [_swapped(rng, rng.sample(kept, round(share * len(kept)))) for _ in range(DRAWS)]
        for name, (_, kept) in found.items()
    }
    for name, (calls, kept) in found.items():
        ratios = sorted(head / base for base, head in map(permutation.round_minima, kept))
        spread = (ratios[len(ratios) * 3 // 4] - ratios[len(ratios) // 4]) / 1.349  # of a normal distribution, its SD
        call_ms = min(base for pairs in kept for base, _ in pairs) / calls * 1e3
        told = [
            _share(permutation.differs(_planted(run, change), 6) for run in runs[name]) for change in (0.0, *CHANGES)
        ]
        tell = statistics.median(permutation.judge(run, 6).head_over_base.smallest_change for run in runs[name][:10])
        rounds = round(share * len(kept))
        row = f"{name:<36} {call_ms:>7.2f}  {rounds:>6}  {spread:>6.1%}  {told[0]:>5.1%}  {tell:>10.1%}  "
        out.write(row + "  ".join(f"{share:>4.0%}" for share in told[1:]) + "\n")
    families = [any(permutation.differs(runs[name][draw], 6) for name in found) for draw in range(DRAWS)]
    out.write(f"families of {len(found)} with a false alarm: {_share(families):.1%}\n")


def _swapped(rng, run):
    """The rounds with base and head exchanged at random: equal code, however long the experiment was."""
    return [[pair[::-1] for pair in pairs] if rng.random() < 0.5 else pairs for pairs in run]


def _planted(run, change):
    return [[(base, head * (1 + change)) for base, head in pairs] for pairs in run]


def _share(outcomes):
    kept = list(outcomes)
    return sum(kept) / len(kept)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["simulate", "experiment", "judge", "planted"])
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--budget", type=float, default=600.0, help="seconds of the experiment")
    parser.add_argument("--change", type=float, default=0.03, help="how much more work the planted commit does")
    parser.add_argument("--runs", type=int, default=4, help="whole runs with that change")
    parser.add_argument("--save", type=Path, default=Path("noise.json"))
    parser.add_argument("--draws", type=int, default=500)
    chosen = parser.parse_args()
    if chosen.what == "simulate":
        simulate(chosen.draws, sys.stdout)
    elif chosen.what == "experiment":
        experiment(chosen.budget, chosen.save, sys.stdout)
    elif chosen.what == "planted":
        planted(chosen.change, chosen.runs, RUN_S, sys.stdout)
    else:
        judge(chosen.file or chosen.save, RUN_S, sys.stdout)


if __name__ == "__main__":
    main()
