"""What `pipebench ab` finds and where it is wrong: whole runs with a known answer, and a simulation.

    python tools/noise.py equal --runs 4 --save noise.jsonl
    python tools/noise.py planted --change 0.03 --runs 4 --save noise.jsonl
    python tools/noise.py report noise.jsonl
    python tools/noise.py simulate
    python tools/noise.py families
    python tools/noise.py joined

`equal` runs `pipebench ab` on two commits of equal code. `planted` runs it on two commits; the second does more work in
every call, and a clock of its own records how much (`tools/noise_plant.py`). Both append one line to the file when a
run is finished, so `report` can pool files from several times of day and several machines. `tools/noise_asv.py` asks
the same of `asv continuous`.
"""

import argparse
import datetime
import json
import math
import os
import platform
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import noise_report
from noise_plant import WARMING, kept_in, rounds_in, summed

SERVERS = 0.006  # what a simulated pair of servers draws, as a standard deviation: see `tools/noise_parts.py`
METHOD = 5  # how rounds are made and judged; `docs/figures/noise.md` says what each method is
CHANGES = (0.01, 0.02, 0.03, 0.05, 0.10)
ROOT = Path(__file__).absolute().parent.parent
PLANTING = "\n\nfrom pipebench.noise_plant import plant\n\nplant(LocalRunner, {change!r})\n"


def clone_to(folder):
    subprocess.run(["git", "clone", "--quiet", os.fspath(ROOT), os.fspath(folder)], check=True)
    return folder


def commit_in(folder, *options):
    author = ["-c", "user.name=noise", "-c", "user.email=noise@example.org"]
    subprocess.run(["git", *author, "commit", "--quiet", *options], cwd=folder, check=True)


def with_more_work(clone, change):
    """Makes two commits: one with the clock and a loop of no steps, then one with a loop that adds `change`."""
    (where,) = [path for path in clone.glob("pipebench/**/*.py") if "\nclass LocalRunner" in path.read_text()]
    shutil.copy(ROOT / "tools" / "noise_plant.py", clone / "pipebench")
    plain = where.read_text()
    for one in (0.0, change):
        where.write_text(plain + PLANTING.format(change=one))
        subprocess.run(["git", "add", "--all"], cwd=clone, check=True)
        commit_in(clone, "-m", f"{one:.1%} more work")


def run_ab(clone, budget_s, change):
    """Runs `pipebench ab` by its command line, and returns the line for the file. If it fails, the process ends."""
    began, before = time.time(), os.getloadavg()
    with tempfile.TemporaryDirectory() as clock:
        command = [sys.executable, "-m", "pipebench", "ab", "HEAD~1", "HEAD", "--budget", str(budget_s)]
        done = subprocess.run(
            [*command, "--format", "json"], cwd=clone, env={**os.environ, "NOISE_CLOCK": clock},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            sys.exit(f"pipebench ab ended with status {done.returncode}:\n{done.stderr[-2000:]}{done.stdout[-2000:]}")
        rows = [benchmark(one, change, clock) for one in json.loads(done.stdout)["comparison"]["changes"]]
    return {
        "began": datetime.datetime.fromtimestamp(began, datetime.UTC).isoformat(timespec="seconds"),
        "took_s": round(time.time() - began, 1), "load_before": before[0], "load_after": os.getloadavg()[0],
        "method": METHOD, "commit": measured_by(), "machine": processor(), "cpus": os.cpu_count(),
        "budget_s": budget_s, "planted": change, "benchmarks": rows,
    }  # fmt: skip


def measured_by():
    """The commit of the `pipebench ab` that is tried."""
    done = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def benchmark(found, change, clock):
    """What a run says about one benchmark, and what is true. Changes are changes of time: 0.03 is 3 % longer."""
    judgement = found["judgement"]
    if judgement is None:
        sys.exit(f"{found['benchmark']} was not measured: {found['failed'] or found['skipped']}")
    over = judgement["head_over_base"]
    differs = over["confidence"] >= judgement["wanted"] and not over["low"] <= 1 <= over["high"]
    row = {
        "benchmark": found["benchmark"], "change": 1 / over["speedup"] - 1, "low": 1 / over["high"] - 1,
        "high": 1 / over["low"] - 1, "verdict": ("slower" if over["speedup"] < 1 else "faster") if differs else "~",
        "confidence": over["confidence"], "rounds": len(found["rounds"]), "base_s": found["base_s"],
    }  # fmt: skip
    truth = {"true": 0.0}
    if change:
        judged = [len(one) for one in found["rounds"]]
        base, head = (clocked(kept_in(clock, one, found["benchmark"]), judged) for one in (0.0, change))
        truth = noise_report.truth(base, head)
    return {name: round(value, 7) if isinstance(value, float) else value for name, value in {**row, **truth}.items()}


def clocked(path, judged):
    """What the clock says of the readings that `pipebench ab` judged. Ends the process if it did not time these."""
    lines = rounds_in(path)[: len(judged)]
    taken = [len(one["read"]) for one in lines]
    if len(taken) < len(judged) or not all(0 <= a - b <= WARMING for a, b in zip(taken, judged, strict=True)):
        sys.exit(f"{path.name}: ab judged {judged} readings by round, and the clock has {taken}")
    return [summed(line, count) for line, count in zip(lines, judged, strict=True)]


def processor():
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def runs(chosen, change, out):
    """Makes whole runs one after another. Each is appended to the file as soon as it ends."""
    with tempfile.TemporaryDirectory() as folder:
        clone = clone_to(Path(folder) / "clone")
        if change:
            with_more_work(clone, change)
        else:
            commit_in(clone, "--allow-empty", "-m", "the same")
        for number in range(chosen.runs):
            line = run_ab(clone, chosen.budget, change)
            with chosen.save.open("a") as file:
                file.write(json.dumps(line) + "\n")
            said = ", ".join(f"{one['benchmark']} {one['verdict']}" for one in line["benchmarks"])
            out.write(f"{line['began']} run {number + 1} of {chosen.runs}, {change:.0%} planted: {said}\n")
            out.flush()


def simulated(rng, servers, placement, change, pairs=50, noise=0.05, spoilt=0.05, spread=SERVERS):
    """Simulated rounds of a call of 1 s; the head takes `change` more.

    `servers` has the rounds of each pair of servers. What the two draw is in all of them, and apart by `spread`.
    `placement` is the spread of the speed of processes, from where they lie in memory: each at a place of its own. A
    share `spoilt` of the rounds is disturbed. The added work takes the same time wherever a process lies. Therefore no
    factor makes the two sides exchangeable, and the simulation can show whether an interval contains the change.
    """
    made = []
    each = spread / math.sqrt(2)
    drawn = (own for rounds in servers for own in [(rng.gauss(0, each), rng.gauss(0, each))] * rounds)
    for of_base, of_head in drawn:
        base = 1 + rng.gauss(0, placement) + of_base
        head = 1 + rng.gauss(0, placement) + of_head + change
        head *= 1 + (rng.uniform(0, 1) if rng.random() < spoilt else 0)
        base *= 1 + (rng.uniform(0, 1) if rng.random() < spoilt else 0)
        made.append([(base * (1 + noise * rng.expovariate(pairs)), head * (1 + noise * rng.expovariate(pairs)))])
    return made


def simulate(draws, out, servers=(5,) * 6):
    """Writes the share of false alarms in families of six, the power and the coverage, for each spread of placement.

    Coverage uses a quarter of the draws.
    """
    from pipebench.compare import permutation

    def drawn(change):
        return simulated(rng, servers, placement, change)

    def differs(change):
        return permutation.differs(drawn(change), 6, servers=servers)

    rng = random.Random(0)
    out.write(f"{sum(servers)} rounds of {len(servers)} pairs of servers, {draws} families of six\n")
    found = "  ".join(f"{change:+.0%} found" for change in CHANGES)
    out.write(f"placement         false alarms  {found}  +3% covered\n")
    for placement in (0.01, 0.02, 0.04):
        alarms = sum(any(differs(0.0) for _ in range(6)) for _ in range(draws))
        found = [sum(differs(change) for _ in range(draws)) for change in CHANGES]
        judged = [permutation.judge(drawn(0.03), 6, servers=servers) for _ in range(max(1, draws // 4))]
        intervals = [one.head_over_base for one in judged]
        covered = sum(one.low <= 1 / 1.03 <= one.high for one in intervals)
        shares = "  ".join(f"{count / draws:>9.1%}" for count in found)
        out.write(
            f"{placement:.1%} each its own {alarms / draws:>12.1%}  {shares}  {covered / len(intervals):>11.1%}\n"
        )
        out.flush()


FAMILIES = ((1, (10,)), (1, (10,) * 6), (6, (14,)), (6, (5,) * 6), (61, (17,)), (61, (5,) * 6))


def families(draws, out, placement=0.003):
    """Writes how often an interval of a run does not contain the truth, and how often twice the time is found.

    For runs of one, six and 61 benchmarks, with as few rounds as a judgement needs and with many.
    """
    from pipebench.compare import permutation

    rng = random.Random(0)
    out.write(f"{draws} runs each; {placement:.1%} each its own place, {SERVERS:.1%} each pair of servers\n")
    out.write("benchmarks  rounds  pairs of servers  runs with a miss             +100% found\n")
    for benchmarks, servers in FAMILIES:

        def differs(change, benchmarks=benchmarks, servers=servers):
            return permutation.differs(simulated(rng, servers, placement, change), benchmarks, servers=servers)

        missed = sum(any(differs(0.0) for _ in range(benchmarks)) for _ in range(draws))
        found = sum(differs(1.0) for _ in range(draws))
        low, high = noise_report.clopper_pearson(missed, draws)
        shares = f"{missed / draws:.2%} ({low:.2%} to {high:.2%})"
        out.write(f"{benchmarks:>10}  {sum(servers):>6}  {len(servers):>16}  {shares:<24}  {found / draws:>14.1%}\n")
        out.flush()


JOINED = {  # two runs: how slow the machine is, its placement, and the share of rounds that are disturbed
    "alike": ((1, 0.01, 0.05), (1, 0.01, 0.05)),
    "one twice as slow": ((1, 0.01, 0.05), (2, 0.01, 0.05)),
    "one disturbed": ((1, 0.01, 0.05), (1.2, 0.03, 0.3)),
}


def joined(draws, out, servers=(6,) * 4):
    """Writes how often the interval of two joined runs contains the truth, and how often they find a change of 2 %.

    Each run has `servers`. The interval is one of 80 %, so that a loss of coverage shows in few draws. It is one of the
    rounds alone: there, servers draw nothing. A change is found as in a family of six.
    """
    from pipebench.compare import permutation

    rng = random.Random(0)
    counts = [sum(servers)] * 2
    out.write(f"{draws} pairs of runs, each with {len(servers)} pairs of servers; intervals of 80 %\n")
    out.write("runs               equal covered  +3% covered  +2% found: one run  both\n")
    for name, runs in JOINED.items():

        def drawn(change, spread, runs=runs):
            return [
                [(slow * base, slow * head) for base, head in pairs]
                for slow, placement, spoilt in runs
                for pairs in simulated(rng, servers, placement, change, pairs=5, spoilt=spoilt, spread=spread)
            ]

        covered = [
            sum(permutation.holds(drawn(change, 0.0), 1 / (1 + change), 1, 0.2, counts) for _ in range(draws)) / draws
            for change in (0.0, 0.03)
        ]
        found = [0, 0]
        for _ in range(draws):
            rounds = drawn(0.02, SERVERS)
            found[0] += permutation.differs(rounds[: counts[0]], 6, servers=servers)
            found[1] += permutation.differs(rounds, 6, counts, servers * 2)
        shares = f"{covered[0]:>13.1%}  {covered[1]:>11.1%}  {found[0] / draws:>18.1%}  {found[1] / draws:>4.0%}"
        out.write(f"{name:<17}  {shares}\n")
        out.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["equal", "planted", "report", "simulate", "families", "joined"])
    parser.add_argument("files", nargs="*", type=Path, help="what `report` pools")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds of a run")
    parser.add_argument("--change", type=float, default=0.03, help="how much more work the planted commit does")
    parser.add_argument("--runs", type=int, default=1, help="whole runs")
    parser.add_argument("--save", type=Path, default=Path("noise.jsonl"), help="the file that runs are appended to")
    parser.add_argument("--draws", type=int, default=500, help="families or pairs of runs to draw")
    chosen = parser.parse_args()
    if chosen.what == "planted" and not (chosen.change > 0 and math.isfinite(chosen.change)):
        parser.error("--change is a share above 0, for example 0.03")
    if chosen.what == "simulate":
        simulate(chosen.draws, sys.stdout)
    elif chosen.what == "families":
        families(chosen.draws, sys.stdout)
    elif chosen.what == "joined":
        joined(chosen.draws, sys.stdout)
    elif chosen.what == "report":
        lines = [json.loads(line) for path in chosen.files or [chosen.save] for line in path.read_text().splitlines()]
        sys.stdout.write(noise_report.report(lines))
    else:
        runs(chosen, chosen.change if chosen.what == "planted" else 0.0, sys.stdout)


if __name__ == "__main__":
    main()
