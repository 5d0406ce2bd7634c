"""Checks the advice on training scripts that others published: their plain runs before and after the patch of `advise`.

    python tools/advice_published.py --checkouts FOLDER [NAME ...] [--budget 120] [--runs 2] [--save FILE]
    python tools/advice_published.py --report docs/results/advice_published.jsonl

The scripts are those of `real_scripts.py` that read images, unmodified, on an embedded data set. `advise` runs each one
and writes its advice as a patch; `git apply` changes a copy of the script by it. Then the script and the copy train in
turn. The time of an epoch, with its validation and its checkpoint, is that of a long run less that of a short one, so
what is done once does not count. If the script's library makes the loader, an argument stands for the patch. Where
there is neither, the script is only listed with what was advised.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, os.fspath(Path(__file__).absolute().parent))

import real_sources as sources
from advice_report import aligned
from real_scripts import Place

from pipebench.data import datasets

PACKAGES = ("timm==1.0.31",)
IMAGES, VALIDATION = 240, 24  # of the data set
TIMES = 4  # a pass reads each image so often: a pass must have room for windows
SHORT, LONG = 1, 4  # epochs
_HEADERS = ("script", "first advice", "promised", "plain", "held", "load")
_ENOUGH = "1000000"  # epochs: `advise --stop` ends the script


@dataclass(frozen=True)
class Published:
    """One published script, and its arguments but for the epochs."""

    name: str
    find: Callable[[], Path]
    arguments: tuple[str, ...]
    seeded: bool = False
    by_hand: Mapping[str, str] = field(default_factory=dict)  # settings of a loader that the script's library makes


def scripts(place: Place) -> list[Published]:
    images = str(place.images)
    return [
        Published(
            "imagenet/main.py (pytorch/examples)",
            lambda: place.checkout(
                "examples/imagenet/main.py", "f67ca2cd730bf91afe0504694abf07b88cbd03ac8c8a0426023620d29175c158"
            ),
            ("-a", "shufflenet_v2_x0_5", "-b", "16", "-j", "0", "--seed", "7", "--no-accel", images),
        ),
        Published(
            "references/classification/train.py (torchvision)",
            lambda: sources.vision(place.cache / "sources") / "train.py",
            (
                "--data-path", images, "--device", "cpu", "--model", "shufflenet_v2_x0_5", "-b", "8", "-j", "0",
                "--output-dir", "out", "--train-crop-size", "64", "--val-crop-size", "64",
            ),
            seeded=True,
        ),
        Published(
            "train.py (pytorch-image-models)",
            lambda: place.checkout(
                "pytorch-image-models/train.py", "f0bb70b9e1c8c576eb1f7beba9cb46953d01ec1308d68c59ec055a6266f76388"
            ),
            (
                "--data-dir", images, "--val-split", "val", "--model", "resnet10t", "--img-size", "48", "-b", "8",
                "--workers", "1", "--device", "cpu", "--warmup-epochs", "0", "--num-classes", "6", "--output", "out",
                "--experiment", "run", "--seed", "7",
            ),
            by_hand={"num_workers": "--workers"},
        ),
    ]  # fmt: skip


def images(folder: Path, data: str) -> Path:
    """An ImageFolder of the embedded data set: links to its files in `train` and `val`. Returns `folder`."""
    samples = datasets.load(data, limit=IMAGES + VALIDATION).samples
    for split, part in (("train", samples[:IMAGES] * TIMES), ("val", samples[IMAGES:])):
        for number, one in enumerate(part):
            place = folder / split / f"class{number % 6}" / f"{number:05}.jpg"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(one.files[one.image])
    return folder


def tried(place: Place, one: Published, folder: Path, asked: argparse.Namespace) -> dict[str, Any]:
    """What was advised, what it promised, and the seconds of an epoch of plain runs before and after it."""
    script = one.find()
    for name in ("present", "advised"):
        (folder / name).mkdir()
        for file in script.parent.glob("*.py"):
            shutil.copy(file, folder / name)
    report, patch = folder / "advice.json", folder / "fix.diff"
    ours = ["-m", "pipebench", "advise", "--stop", "--budget", asked.budget, "--export-json", report, "--patch", patch]
    command = [place.python, *ours, script.name, *one.arguments, "--epochs", _ENOUGH]
    began = {"at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), "load": os.getloadavg()[0]}
    _run(place, one, command, folder / "advised")
    advice = json.loads(report.read_text())["advice"]
    line: dict[str, Any] = {**began, "name": one.name, "budget_s": asked.budget, "advised": "", "patched": False}
    if advice["best"] is None:
        return {**line, "promised": None, "plain": {}}
    chosen = advice["findings"][advice["best"]]
    promised = chosen["run"] or chosen["gain"]
    line |= {"advised": shown(chosen["change"]), "promised": [promised[key] for key in ("speedup", "low", "high")]}
    changed = one
    if patch.exists():
        subprocess.run(["git", "apply", patch], cwd=folder / "advised", check=True)
    elif (arguments := by_hand(one, chosen["change"])) is not None:
        changed = replace(one, arguments=arguments)
    else:
        return {**line, "plain": {}}
    plain: dict[str, list[float]] = {"present": [], "advised": []}
    for _ in range(asked.runs):
        plain["present"].append(_epoch_s(place, one, folder / "present", script.name))
        plain["advised"].append(_epoch_s(place, changed, folder / "advised", script.name))
    return {**line, "patched": patch.exists(), "plain": plain}


def by_hand(one: Published, change: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The script's arguments with this change. None: it has none for all of it."""
    if change["edits"] or change["one_thread"] or not set(change["settings"]) <= set(one.by_hand):
        return None
    arguments = list(one.arguments)
    for name, value in change["settings"].items():
        arguments[arguments.index(one.by_hand[name]) + 1] = str(value)
    return tuple(arguments)


def shown(change: Mapping[str, Any]) -> str:
    settings = [f"{name}={value}" for name, value in change["settings"].items()]
    return ", ".join([*settings, *([change["title"]] if change["title"] else [])])


def _epoch_s(place: Place, one: Published, folder: Path, script: str) -> float:
    took = {}
    for epochs in (SHORT, LONG):
        shutil.rmtree(folder / "out", ignore_errors=True)
        began = time.monotonic()
        _run(place, one, [place.python, script, *one.arguments, "--epochs", epochs], folder)
        took[epochs] = time.monotonic() - began
    return (took[LONG] - took[SHORT]) / (LONG - SHORT)


def _run(place: Place, one: Published, command: Sequence[object], folder: Path) -> None:
    path = [str(place.python.parent.parent / "seeded")] if one.seeded else []
    environment = {**os.environ, **sources.OFFLINE, "PYTHONPATH": os.pathsep.join(path)}
    done = subprocess.run(list(map(str, command)), cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise sources.Unavailable(f"status {done.returncode}: {done.stderr[-500:]}")


def report(lines: Iterable[Mapping[str, Any]]) -> str:
    """The table of the latest line of each script."""
    latest = {one["name"]: one for one in lines}
    return "\n".join(aligned([_HEADERS, *map(_cells, latest.values())])) + "\n"


def _cells(line: Mapping[str, Any]) -> tuple[str, ...]:
    promised, plain = line["promised"], line["plain"]
    told = "{:.2f} ({:.2f}-{:.2f})".format(*promised) if promised else ""
    pairs = zip(plain.get("present", ()), plain.get("advised", ()), strict=True)
    gains = [before / after for before, after in pairs]
    gain = f"{median(gains):.2f}" if gains else "not written" if promised else ""
    changed = (line["advised"] or "nothing") + (" (an argument)" if gains and not line["patched"] else "")
    held = ("yes" if promised[1] <= median(gains) <= promised[2] else "no") if gains else ""
    return line["name"], changed, told, gain, held, f"{line['load']:.1f}"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="parts of the names of those to run (all)")
    parser.add_argument("--checkouts", type=Path, help="a folder with clones of the repositories")
    parser.add_argument("--data", default="web", help="the embedded data set")
    parser.add_argument("--budget", type=float, default=120.0, help="seconds for advise")
    parser.add_argument("--runs", type=int, default=2, help="plain runs of each kind")
    parser.add_argument("--save", type=Path, help="append the lines to this file")
    parser.add_argument("--report", type=Path, help="run nothing: print the table of these lines")
    asked = parser.parse_args(arguments)
    if asked.report:
        sys.stdout.write(report(map(json.loads, asked.report.read_text().splitlines())))
        return 0
    cache = Path(os.environ.get("PIPEBENCH_CACHE") or Path.home() / ".cache" / "pipebench") / "published"
    python = sources.environment(cache / "env", PACKAGES)
    lines, failed = [], False
    with tempfile.TemporaryDirectory(prefix="pipebench-published-") as name:
        root = Path(name)
        place = Place(
            python, cache, images(root / "images", asked.data), root, asked.checkouts and asked.checkouts.resolve()
        )
        for number, one in enumerate(scripts(place)):
            if asked.names and not any(part in one.name for part in asked.names):
                continue
            (root / str(number)).mkdir()
            try:
                lines.append(tried(place, one, root / str(number), asked))
            except sources.Unavailable as error:
                sys.stderr.write(f"{one.name}: not run, {error}\n")
                failed = True
                continue
            if asked.save:
                with asked.save.open("a") as file:
                    file.write(json.dumps(lines[-1]) + "\n")
    sys.stdout.write(report(lines))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
