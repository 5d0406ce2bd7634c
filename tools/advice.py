"""Checks the advice against plain runs: each planted script before and after the advised change, timed on its own.

    python tools/advice.py [NAME ...] [--budget 180] [--runs 2] [--save docs/results/advice.jsonl]
    python tools/advice.py --set independent [NAME ...]   # the scripts of another author
    python tools/advice.py --set fourth --budget 120      # of these, the weights may be spoiled
    python tools/advice.py --report docs/results/advice.jsonl
    python tools/advice.py --sets                         # a line for each set of another author

For each script whose cause is known (`advice_plants.py`), `pipebench advise` gives its advice.
Then the script runs plainly: as it is, with the advised change written into its source, and with the best change that
is known, in turn. Each script appends a line to the file; the report is made from these lines (`advice_report.py`).
It takes two to five minutes for each script.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import datetime
import io
import json
import multiprocessing
import os
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import torch

sys.path.insert(0, os.fspath(Path(__file__).absolute().parent))

from advice_planted import Planted, Replaced
from advice_plants import SETS
from advice_report import marked, report, sets

from pipebench.advise.command import BUDGET_S, AdviseOptions, advise
from pipebench.remedies.seen import without, without_share
from pipebench.render.advice import verdict
from pipebench.render.advice_names import named
from pipebench.results.account import Cause
from pipebench.results.advice import Advice, Finding, Snippet
from pipebench.results.next_move import NextMove
from pipebench.results.watched import WatchResult

_PATCH = "advised.diff"
_OUTSIDE = ("dataset-anew", "outside-loops", "before-loops", "after-loops")  # causes whose time is in no loop
SCRIPTS = Path(__file__).parents[1] / "tests" / "advice"
RESULTS = Path(__file__).parents[1] / "docs" / "results"
Kind = tuple[Path, Sequence[str], Mapping[str, str]]


def main(arguments: Sequence[str]) -> int:
    """Runs the scripts and prints the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="scripts (default: all)", metavar="NAME")
    parser.add_argument("--budget", type=float, default=BUDGET_S, help="seconds for advise")
    parser.add_argument("--runs", type=int, default=2, help="plain runs of each kind")
    parser.add_argument("--within", type=float, default=3600.0, help="seconds for a script: then no more plain runs")
    parser.add_argument("--set", choices=SETS, default="scripts", help="a folder of tests/advice")
    parser.add_argument("--save", type=Path, help="append the lines to this file")
    parser.add_argument("--report", type=Path, help="run nothing: print the report of these lines")
    parser.add_argument("--sets", action="store_true", help="run nothing: print a line for each set")
    asked = parser.parse_args(arguments)
    if asked.sets:
        sys.stdout.write(sets(_of_others()))
        return 0
    for name in [name for name in os.environ if name.endswith("_NUM_THREADS")]:
        del os.environ[name]  # of our caller, not of the scripts
    assert not torch.cuda.is_initialized()
    if asked.report:
        named = asked.report.stem.removeprefix("advice_")
        sys.stdout.write(report(_read(asked.report, named if named in SETS else asked.set)))
    else:
        sys.stdout.write(report(list(_run(asked))))
    return 0


def _read(file: Path, name: str) -> list[Mapping[str, object]]:
    """The lines of a file, which are of this set."""
    return marked((json.loads(line) for line in file.read_text().splitlines()), SETS[name])


def _of_others() -> dict[str, list[Mapping[str, object]]]:
    """The published lines of each set of another author, in the order in which the sets came."""
    files = {name: RESULTS / f"advice_{name}.jsonl" for name in SETS}
    found = {name: _read(file, name) for name, file in files.items() if file.exists()}
    return dict(sorted(found.items(), key=lambda one: str(one[1][0]["at"])))


def _run(asked: argparse.Namespace) -> Iterable[dict[str, object]]:
    known = {one.name: one for one in SETS[asked.set]}
    for name in asked.names or known:
        with tempfile.TemporaryDirectory() as folder:
            line = _line(known[name], Path(folder), asked)
        if asked.save:
            with asked.save.open("a") as file:
                file.write(json.dumps(line) + "\n")
        yield line


def _line(planted: Planted, folder: Path, asked: argparse.Namespace) -> dict[str, object]:
    """What was found about one script."""
    began = time.monotonic()
    shutil.copytree(SCRIPTS / planted.folder, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    script = folder / f"{planted.name}.py"
    at, load = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), os.getloadavg()[0]
    os.environ["DATA_DIR"] = os.fspath(folder / "data")  # of the fourth set; made once, by the run that is watched
    with _epochs(planted.epochs):
        watched, found = _advice(planted, script, asked.budget)
    chosen = found.followed if found.larger is None else None  # what the verdict begins with
    best = _replaced(script, "best", planted.replaced)
    kinds: dict[str, Kind] = {"present": (script, planted.present, {}), "best": (best, planted.best, planted.variables)}
    if chosen is not None and (advised := _advised(planted, script, best, chosen, found.snippet)) is not None:
        kinds["advised"] = advised
    besides = found.followed if found.larger else None  # what the verdict advises after a change of the script
    if besides is not None and (advised := _advised(planted, script, best, besides, found.snippet)) is not None:
        kinds["besides"] = advised
    foreseen = watched.next_move if watched is not None else None
    if foreseen is not None and foreseen.to_workers is not None and planted.present[:1] == (str(foreseen.workers),):
        kinds["foreseen"] = (script, (str(foreseen.to_workers), *planted.advised[1:]), {})
    plain: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(asked.runs):
        round_began = time.monotonic()
        for name, kind in kinds.items():
            # What differs between runs of one program is no gain.
            again = name not in ("present", "best") and same_program(kind, kinds["best"])
            plain[name].append(plain["best"][-1] if again else _plain(planted, *kind))
        if 2 * time.monotonic() - round_began - began > asked.within:
            break
    told = chosen is not None and chosen.if_taken is None  # else only a limit
    passes = planted.passes(script.read_text())
    promised = (chosen.in_run(passes) or chosen.predicted) if chosen and told else None
    return {
        "at": at, "load": load, "budget_s": asked.budget, "name": planted.name, "cause": planted.cause,
        "remedies": planted.remedies, "codes": planted.codes, "said": verdict(found),
        "of_script": found.larger.change.remedy if found.larger else "",
        "besides": named(besides.change) if besides else "",
        "by_hand": chosen is not None and (planted.written_by_hand(chosen.change.remedy) or chosen.change.one_thread),
        "remedy": chosen.change.remedy if chosen else "", "change": named(chosen.change) if chosen else "",
        "promised": [promised.speedup, promised.low, promised.high] if promised else None,
        "tried": [(named(one.change), one.outcome, one.ratios) for one in found.findings],
        "diagnosis": _diagnosis(watched), "foreseen": _foreseen(foreseen), "plain": plain,
    }  # fmt: skip


def same_program(one: Kind, other: Kind) -> bool:
    """Whether two changes of a script are the same program, however they are laid out, and run in the same way."""
    texts = [ast.dump(ast.parse(file.read_text())) for file, _, _ in (one, other)]
    return texts[0] == texts[1] and one[1:] == other[1:]


def _advised(planted: Planted, script: Path, best: Path, chosen: Finding, written: Snippet | None) -> Kind | None:
    """What runs with the advised change; None if nobody has written it."""
    remedy = chosen.change.remedy
    variables = dict(one.split("=") for one in chosen.change.pools if "(" not in one)
    if remedy == planted.by_hand:
        return best, planted.best, planted.variables
    if remedy in planted.by_author:
        return _replaced(script, "advised", planted.by_author[remedy]), planted.advised, {}
    if any(one.helper for one in chosen.change.rewrites):
        return _patched(script, planted)  # its definitions are in the patch only
    changed = script if variables and not chosen.change.settings else _changed(script, written)
    return None if changed is None else (changed, planted.advised, variables)


def _patched(script: Path, planted: Planted) -> Kind | None:
    """The script with the patch that `advise` wrote. None: it wrote none."""
    patch = script.with_name(_PATCH)
    if not patch.exists():
        return None
    copy = script.parent / "patched"
    copy.mkdir()
    shutil.copy(script, copy)
    (copy / "data").symlink_to(script.parent / "data")  # else the run would make it anew
    subprocess.run(["git", "apply", os.fspath(patch)], cwd=copy, check=True)
    return copy / script.name, planted.advised, {}


def _advice(planted: Planted, script: Path, budget_s: float) -> tuple[WatchResult | None, Advice]:
    kept: list[tuple[WatchResult | None, Advice]] = []
    with tempfile.TemporaryDirectory() as records, contextlib.chdir(script.parent):  # paths in a patch begin here
        options = AdviseOptions(
            budget_s, stop=True, any_order=planted.any_order, discard=planted.discards, records=Path(records),
            patch=Path(_PATCH),
        )  # fmt: skip
        advise(options, [os.fspath(script), *planted.tried], lambda *found: kept.append(found))
    return kept[0]


def _diagnosis(watched: WatchResult | None) -> list[dict[str, object]]:
    """The causes in the account of the watched part, in its order: code, speed-up at most, and the figures."""
    if watched is None or watched.account is None:
        return []
    return [
        {
            "code": one.code, "unsure": one.unsure, "values": one.values,
            "at_most": None if one.recoverable_s is None else _at_most(watched, one),
        }
        for one in watched.account.causes
    ]  # fmt: skip


def _at_most(watched: WatchResult, one: Cause) -> float:
    """The speed-up if a cause took no time: of the loops, or of the whole run where it is outside of them."""
    if one.code not in _OUTSIDE or watched.account is None:
        return without(watched, one.recoverable_s or 0.0)
    return without_share((one.recoverable_s or 0.0) / watched.account.wall_s)


def _foreseen(move: NextMove | None) -> dict[str, object] | None:
    """The next move of `watch`, which tries nothing, and the speed-up that it predicts of more workers."""
    if move is None:
        return None
    told = move.predicted
    return {
        "action": move.action, "to_workers": move.to_workers,
        "predicted": [told.speedup, told.low, told.high] if told else None,
    }  # fmt: skip


def _changed(script: Path, change: Snippet | None) -> Path | None:
    """A copy of the script with the lines that `advise` wrote. None: it wrote none."""
    if change is None:
        return None
    lines = script.read_text().splitlines()
    lines[change.line - 1 : change.line - 1 + len(change.before)] = change.after
    found = script.with_stem(f"{script.stem}_changed")
    found.write_text("\n".join(lines) + "\n")
    return found


def _replaced(script: Path, name: str, pairs: Replaced) -> Path:
    """A copy of the script in which each first text of a pair is the second one; the script itself without pairs."""
    text = script.read_text()
    for old, new in pairs:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    found = script.with_stem(f"{script.stem}_{name}") if pairs else script
    found.write_text(text)
    return found


@contextlib.contextmanager
def _epochs(number: str) -> Iterator[None]:
    """Lets scripts that take their passes from the environment make so many ("": their own number)."""
    if number:
        os.environ["EPOCHS"] = number
    try:
        yield
    finally:
        os.environ.pop("EPOCHS", None)


def _plain(planted: Planted, script: Path, arguments: Sequence[str], variables: Mapping[str, str]) -> float:
    """The seconds of a plain run with these variables."""
    if planted.variables:
        return _printed(_fresh([os.fspath(script), *arguments], variables)[0])
    if variables or planted.sets_variables:
        return _fresh([os.fspath(script), *arguments], variables)[1] - _imports_s()
    return _seconds(script, arguments, planted.whole)


def _seconds(script: Path, arguments: Sequence[str], whole: bool = False) -> float:
    """What one plain run prints, the seconds of an iteration or of a pass; or those of the `whole` run.

    The process is a new one, forked from this one, which has imported torch and has not used it. So the import, which
    no script's figure holds, is paid for once.
    """
    ours, theirs = multiprocessing.Pipe(duplex=False)
    if whole:
        import torchvision.transforms.v2  # noqa: F401  # so that no run pays for it
    process = multiprocessing.get_context("fork").Process(target=_script, args=(script, arguments, theirs))
    process.start()
    theirs.close()
    said, seconds = ours.recv()
    process.join()
    return float(seconds) if whole else _printed(said)


def _script(script: Path, arguments: Sequence[str], said: Connection) -> None:
    """Runs the script as `python` does, and sends what it printed and the seconds that it took."""
    sys.argv, sys.path[0] = [os.fspath(script), *arguments], os.fspath(script.parent)
    began = time.monotonic()
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        runpy.run_path(os.fspath(script), run_name="__main__")
    said.send((printed.getvalue(), time.monotonic() - began))


def _imports_s() -> float:
    """The seconds of an interpreter that imports what the others have before their scripts begin."""
    return _fresh(["-c", "import torch, torchvision.transforms.v2"], {})[1]


def _fresh(arguments: Sequence[str], variables: Mapping[str, str]) -> tuple[str, float]:
    """What a fresh interpreter prints, and its seconds: libraries read these variables when they are loaded."""
    began = time.monotonic()
    command = [sys.executable, *arguments]
    done = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=True)
    return done.stdout, time.monotonic() - began


def _printed(said: str) -> float:
    """The last number of what a script printed."""
    return float(re.findall(r"[\d.]+(?:e-?\d+)?", said)[-1])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
