"""Checks predictions: costs are taken at one worker, and other settings are predicted and then really run.

    python tools/prediction.py run CASE [CASE ...] --seconds 3 --save docs/results/prediction.jsonl
    python tools/prediction.py report docs/results/prediction.jsonl
    python tools/prediction.py repeat docs/results/prediction_quiet.jsonl docs/results/prediction_25_november.jsonl
    python tools/prediction.py clocks

A case is one of `prediction_script.PLANTED`, `images`, or `DATA:floats` for the reference loader over an embedded
data set. In each of three rounds, its passport is taken at one worker, and the script runs in each setting of
`questions`, in random order and each in a process of its own. Some passports are also taken on a part of the machine,
and asked for more. Of three runs, the one of median speed counts. A shared machine is not equally busy in each run.
So a run is watched too, and its prediction is for the number of other threads that it met: the model is checked, not
whether others keep still.

`run` appends a line with the passport and the measured times. `report` predicts from the passports, so a changed model
needs no new measurement, and prints the table. `repeat` predicts the times of the first file from the measured ones of
the second, without a model: it is as near as runs of two days are to one another. `clocks` shows how far a loop in
Python and the planted hashes repeat on this machine. Settings with whole cores run with an affinity to them, as
`taskset` gives it. Those with a part of a core run in a control group with a quota (version 1, as root), or are left
out.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import math
import multiprocessing
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import prediction_script

from pipebench.predict.asked import changed
from pipebench.predict.intervals import predicted
from pipebench.predict.load import MODEL_ERROR
from pipebench.predict.loader import Setting
from pipebench.predict.passports import passport_of, waking
from pipebench.results.costs import Passport
from pipebench.results.plan import Asked, Figure
from pipebench.watch.with_block import Watching

GROUP = Path("/sys/fs/cgroup/cpu/pipebench-prediction")
STAGES = ("prediction_script:Costly.wait", "prediction_script:as_floats")


@dataclass(frozen=True)
class Question:
    """A setting: what is asked of the model, and how the script is run for it. `case` replaces the fitted case."""

    label: str
    workers: int
    faster: float = 1.0
    cores: float | None = None
    stages: tuple[tuple[str, float], ...] = ()
    case: str | None = None


FITTED = Question("fitted", 1)
SMALLER = (Question("1 core", 1, cores=1), Question("a quota of 0.5 cores", 1, cores=0.5))  # fitted there, too
FITTED_LABEL = "1 workers"  # of the ladder: the same setting, run without being watched
UPWARDS = ("1 workers, 1 core", "4 workers, 1 core", "1 workers", "2 workers", "4 workers")
LADDER = tuple(Question(f"{workers} workers", workers) for workers in (0, 1, 2, 4, 8))
ONE_CORE = tuple(Question(f"{workers} workers, 1 core", workers, cores=1) for workers in (0, 1, 2, 4))
QUOTAS = tuple(
    Question(f"{workers} workers, quota of {cores} cores", workers, cores=cores)
    for workers, cores in ((1, 0.5), (4, 0.5), (2, 1.5), (4, 1.5))
)
FASTER = tuple(
    Question(f"sleep 2× faster, {workers} workers", workers, 2.0, stages=(("Costly.wait", 2.0),)) for workers in (1, 4)
)
UINT8 = tuple(
    Question(f"uint8, {workers} workers", workers, stages=(("as_floats", 1e6), ("default_collate", 4.0)),
             case="images-uint8")
    for workers in (1, 2, 4)
)  # fmt: skip


def questions(case: str) -> Iterator[Question]:
    """What is asked of a case."""
    yield from LADDER
    if case in ("compute", "mixed", "busy-step") or ":" in case:
        yield from ONE_CORE
    if case in ("compute", "mixed") or ":" in case:
        yield from QUOTAS
    if case in ("sleep", "mixed", "sleep-step"):
        yield from FASTER
    if case == "images":
        yield from UINT8


def main(arguments: Sequence[str]) -> int:
    """Runs or reports. Returns 1 if a run failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    measuring = commands.add_parser("run")
    measuring.add_argument("cases", nargs="+")
    measuring.add_argument("--seconds", type=float, default=3.0)
    measuring.add_argument("--rounds", type=int, default=3)
    measuring.add_argument("--budget", type=float, default=math.inf, help="seconds for all cases; then no run begins")
    measuring.add_argument("--save", type=Path, required=True)
    commands.add_parser("report").add_argument("file", type=Path)
    repeated = commands.add_parser("repeat")
    repeated.add_argument("file", type=Path)
    repeated.add_argument("other", type=Path)
    commands.add_parser("clocks")
    asked = parser.parse_args(arguments)
    if asked.command == "clocks":
        sys.stdout.writelines(clocks())
        return 0
    if asked.command == "report":
        sys.stdout.write("\n".join(table(_lines(asked.file))) + "\n")
        return 0
    if asked.command == "repeat":
        sys.stdout.write("\n".join(repeat(_lines(asked.file), _lines(asked.other))) + "\n")
        return 0
    until = time.monotonic() + asked.budget
    return 0 if all([_kept(case, asked, until) for case in asked.cases]) else 1


def _kept(case: str, asked: argparse.Namespace, until: float) -> bool:
    """Measures one case and appends it to the file. Whether that succeeded. After `until`, no run begins."""
    began, before = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), os.getloadavg()[0]
    found: dict[str, list[tuple[float, Passport]]] = {}
    for _ in range(asked.rounds):
        wanted = [FITTED, *questions(case), *(SMALLER if case in ("compute", "mixed") else ())]
        random.shuffle(wanted)
        for one in wanted:
            ran = run(case, one, asked.seconds) if time.monotonic() < until else None
            if ran is not None:
                found.setdefault(one.label, []).append(ran)
    runs = {label: sorted(each, key=lambda one: one[0])[len(each) // 2] for label, each in found.items()}
    fitted = runs.pop(FITTED.label, None)
    smaller = {one.label: runs.pop(one.label)[1] for one in SMALLER if one.label in runs}
    if fitted is None:
        sys.stderr.write(f"{case}: no passport\n")
        return False
    line = {
        "began": began,
        "load": [round(before, 2), round(os.getloadavg()[0], 2)],
        "case": case,
        "s_per_iteration": _rounded({label: spent for label, (spent, _) in runs.items()}),
        "others": _rounded({label: passport.others for label, (_, passport) in runs.items()}),
        "waking": True,
        "passport": _rounded(msgspec.to_builtins(fitted[1])),
        "smaller": _rounded(msgspec.to_builtins(smaller)),
    }
    with asked.save.open("a") as file:
        file.write(json.dumps(line, separators=(",", ":")) + "\n")
    return True


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list | tuple) else value


def run(case: str, one: Question, seconds: float) -> tuple[float, Passport] | None:
    """Seconds of an iteration, and the passport of the run. It is forked from here, so that it imports nothing again.

    None: the quota cannot be set here, or the run left no passport.
    """
    fork = multiprocessing.get_context("fork")
    here, there = fork.Pipe(duplex=False)
    process = fork.Process(target=_run, args=(there, one.case or case, one, seconds))
    process.start()
    there.close()
    try:
        found: tuple[float, Passport] | None = here.recv()
        return found
    except EOFError:
        return None
    finally:
        process.join()
        with contextlib.suppress(OSError):
            GROUP.rmdir()


def _run(answer: Any, case: str, one: Question, seconds: float) -> None:
    if one.cores is not None and one.cores == round(one.cores):
        os.sched_setaffinity(0, range(round(one.cores)))
    elif one.cores is not None:
        _limit(one.cores)
    began = time.monotonic(), _machine_s() - _own_s()
    with Watching(functions=STAGES if ":" not in case else ()) as watched:
        spent = prediction_script.trained(case, one.workers, seconds, one.faster)
    foreign = (_machine_s() - _own_s() - began[1]) / (time.monotonic() - began[0])
    found = watched.result  # a block does not know what others used
    assert found.host is not None
    passport = passport_of(replace(found, host=replace(found.host, foreign_cores=max(0.0, foreign))))
    if passport is not None:
        answer.send((spent, passport))


def _machine_s() -> float:
    """The seconds in which the machine's cores were busy since it started."""
    user, nice, system, _, _, *interrupts = map(int, Path("/proc/stat").read_text().split("\n")[0].split()[1:8])
    return (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")


def _own_s() -> float:
    """The CPU seconds of this process, and of those that it has waited for."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def _limit(cores: float) -> None:
    """Moves this process into a group with a quota. Ends it if that is not possible."""
    try:
        GROUP.mkdir()
        (GROUP / "cpu.cfs_quota_us").write_text(str(round(cores * int((GROUP / "cpu.cfs_period_us").read_text()))))
        (GROUP / "cgroup.procs").write_text(str(os.getpid()))
    except OSError:
        sys.exit(0)


def _lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def clocks(processes: int = 10) -> Iterator[str]:
    """What the same work takes in several processes, five times in each: a loop in Python, and hashes."""
    work = "for _ in repeat(None, 60_000): found = (found + 7) & 127", "compute(200)"
    for name, statement in zip(("a loop in Python", "hashes"), work, strict=True):
        each = [_medians(statement) for _ in range(processes)]
        least, most = min(map(min, each)), max(map(max, each))
        yield f"{name}: {1e3 * least:.3f} to {1e3 * most:.3f} ms, {most / least - 1:.0%} more at most\n"


def _medians(statement: str) -> list[float]:
    """The seconds of a statement in a new process: five medians of 40 turns, in the thread's CPU time."""
    code = f"""
import statistics, sys, time, timeit
sys.path.insert(0, {os.fspath(Path(__file__).parent)!r})
from prediction_script import compute
turn = timeit.Timer({statement!r}, "from itertools import repeat; found = 0", time.thread_time, globals())
print(*(statistics.median(turn.repeat(40, 1)) for _ in range(5)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return [float(one) for one in done.stdout.split()]


@dataclass(frozen=True)
class Row:
    """One prediction beside what was measured, in batches per second. `inside`: its interval held the truth.

    `fitted`: the smaller machine on which the passport was taken, if it was one.
    """

    case: str
    label: str
    predicted: float
    measured: float
    inside: bool
    fitted: str = ""

    @property
    def error(self) -> float:
        return self.predicted / self.measured - 1


def rows(lines: Iterable[dict[str, Any]], own_load: bool = True) -> Iterator[Row]:
    """Every prediction of these lines. The model is asked again, so a changed model needs no new measurement.

    With `own_load`, it is for the threads of others that the predicted run itself met; without, for those that the run
    with one worker met, which is all that `plan` can know.
    """
    for line in lines:
        passport = _passport(line["passport"], line)
        asked = [one for one in questions(line["case"]) if one.label in line["s_per_iteration"]]
        for one in asked:
            yield _row(line, one, passport, passport.cores, line["others"][one.label] if own_load else passport.others)
        for fitted, saved in line.get("smaller", {}).items():
            small = _passport(saved, line)
            for one in asked:
                if one.label in UPWARDS and (one.cores or passport.cores) > small.cores:
                    others = line["others"][one.label] if own_load else 0.0
                    yield replace(_row(line, one, small, passport.cores, others), fitted=fitted)


def repeat(lines: Iterable[dict[str, Any]], other: Iterable[dict[str, Any]]) -> Iterator[str]:
    """How near the measured times of other runs are to these, beside the model. A line each, and the farthest ones.

    The times of each case are set to the same time with one worker, so it does not count that the machine was faster.
    """
    before = {line["case"]: line["s_per_iteration"] for line in other}
    lines = [line for line in lines if FITTED_LABEL in before.get(line["case"], {})]
    measured = [one for line in lines for one in _measured_before(line, before[line["case"]])]
    both = {(one.case, one.label) for one in measured}
    model = [one for one in rows(lines) if not one.fitted and (one.case, one.label) in both]
    for name, found in (("measured in the other runs", measured), ("predicted from one run of one worker", model)):
        if not found:
            yield f"- {name}: nothing to compare."
            continue
        within = sum(abs(one.error) <= 0.15 for one in found)
        yield f"- {name}: {len(found)} settings, {_errors(found)}, {within} within 15 %."
        far = sorted(found, key=lambda one: -abs(one.error))[:4]
        yield "  Farthest: " + ", ".join(f"`{one.case}` {one.label} {100 * one.error:+.1f} %" for one in far) + "."


def _measured_before(line: dict[str, Any], before: dict[str, float]) -> Iterator[Row]:
    now = line["s_per_iteration"]
    for label in (one for one in now if one in before and one != FITTED_LABEL):  # in the order of the file
        told = before[FITTED_LABEL] / before[label] / now[FITTED_LABEL]
        yield Row(line["case"], label, told, 1 / now[label], inside=True)


def _passport(saved: dict[str, Any], line: dict[str, Any]) -> Passport:
    """A saved passport. In lines without `waking`, its waits for a core hold those that sharing the cores explains."""
    found = msgspec.convert(saved, type=Passport)
    if line.get("waking"):
        return found
    return replace(found, costs=waking(found.costs, found.cores, found.others))


def _row(line: dict[str, Any], one: Question, passport: Passport, cores: float, others: float) -> Row:
    found = _predicted(passport, one, cores if one.cores is None else one.cores, others)
    truth = 1 / line["s_per_iteration"][one.label]
    return Row(line["case"], one.label, found.value, truth, found.low <= truth <= found.high)


def _predicted(passport: Passport, one: Question, cores: float, others: float) -> Figure:
    """Batches per second. A quota is the process's own: others take nothing of it."""
    if cores != round(cores):
        others = 0.0
    setting = Setting(one.workers, passport.costs.prefetch_factor, cores, others)
    return predicted(changed(passport, Asked(faster=one.stages)), setting, MODEL_ERROR)


def table(lines: list[dict[str, Any]]) -> Iterator[str]:
    """The table as Markdown, and its summary."""
    found = list(rows(lines))
    yield "| case | setting | predicted | measured | error | |"
    yield "|---|---|---|---|---|---|"
    for one in found:
        inside = "inside" if one.inside else "outside"
        label = f"{one.label}, fitted on {one.fitted}" if one.fitted else one.label
        yield (
            f"| `{one.case}` | {label} | {one.predicted:,.1f} | {one.measured:,.1f} | {100 * one.error:+.1f} % | "
            f"{inside} |"
        )
    yield ""
    yield summary("all", found)
    whole = [one for one in found if not one.fitted]
    for part in ("0 workers", "1 workers", "2 workers", "4 workers", "8 workers"):
        yield summary(f"{part}, all cores", [one for one in whole if one.label == part])
    for part in ("1 core", "quota", "faster", "uint8"):
        yield summary(part, [one for one in whole if part in one.label])
    for small in SMALLER:
        yield summary(f"upwards, fitted on {small.label}", [one for one in found if one.fitted == small.label])
    yield summary("planted costs", [one for one in found if ":" not in one.case])
    yield summary("reference loader", [one for one in found if ":" in one.case])
    yield summary(
        "all, with the load of the run with one worker, as `plan` takes it", list(rows(lines, own_load=False))
    )
    yield ""
    loads = [load for line in lines for load in line["load"]]
    yield f"Taken from {lines[0]['began']} to {lines[-1]['began']}, load average {min(loads)} to {max(loads)}."


def summary(name: str, found: Sequence[Row]) -> str:
    if not found:
        return f"- {name}: nothing was measured."
    return f"- {name}: {len(found)} predictions, {_errors(found)}, {sum(one.inside for one in found)} inside."


def _errors(found: Sequence[Row]) -> str:
    errors = [abs(one.error) for one in found]
    return f"median error {100 * median(errors):.1f} %, worst {100 * max(errors):.1f} %"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
