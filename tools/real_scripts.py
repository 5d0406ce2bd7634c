"""Runs training scripts that others wrote, plainly and under `pipebench watch`, and compares the two.

    python tools/real_scripts.py [--checkouts FOLDER] [NAME...]

Each script is unmodified, and sees the same data and seeds in both runs. Three things must be the same in both: the
exit status, the output (without timings and progress bars), and every tensor of every file of weights, bit for bit.
The report must have the stages that are named below, and time in every phase of the loop. At the end this prints a
table. The exit status is 1 if anything differs. `--checkouts` names a folder with clones of the repositories whose
scripts are in no package (pytorch-image-models, examples). Without it those scripts are not run, and the table says so.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import real_sources as sources

PACKAGES = (
    "timm==1.0.31", "accelerate==1.15.0", "lightly==1.6.0", "pytorch-lightning==2.6.6", "trl==1.16.0",
    "transformers==5.23.0",
)  # fmt: skip
PHASES = ("wait", "forward", "backward", "optimiser", "other")
HEADS = ("script", "from", "lines", "tensors", "iterations", "loaders", "stages", "same and complete")
PROGRESS = ("it/s", "s/it", "?it", "━", "%|", "examples/s")
TIMINGS = re.compile(
    r"\b(eta|time|data|img/s|took|train_runtime|train_samples_per_second|train_steps_per_second)\b"
    r"[\"':]*[ \t.,:/()s'\"0-9-]+",
    re.IGNORECASE,
)
ADDRESSES = re.compile(r"0x[0-9a-f]{6,}|\b\d{8}-\d{6}\b|\d{4}-\d\d-\d\d[ /T-]\d\d[:-]\d\d[:-]\d\d")
COMPARE = """
import sys, torch

def tensors(path):
    if path.endswith(".safetensors"):
        from safetensors.torch import load_file
        return leaves(load_file(path))
    return leaves(torch.load(path, map_location="cpu", weights_only=False))

def leaves(found, name=""):
    if isinstance(found, torch.Tensor):
        yield name, found
    elif isinstance(found, dict):
        for key in found:
            yield from leaves(found[key], f"{name}/{key}")
    elif isinstance(found, (list, tuple)):
        for place, one in enumerate(found):
            yield from leaves(one, f"{name}/{place}")

first, second = (dict(tensors(path)) for path in sys.argv[1:])
assert first.keys() == second.keys(), "other tensors"
for name in first:
    same = first[name].dtype == second[name].dtype and torch.equal(first[name], second[name])
    assert same, f"{name} differs"
print(len(first))
"""


@dataclass(frozen=True)
class Real:
    """One published script: where its file comes from, its arguments, and the stages that its report must name."""

    name: str
    source: str
    find: Callable[[], Path]
    arguments: tuple[str, ...]
    stages: tuple[tuple[str, str], ...]
    seeded: bool = False


@dataclass(frozen=True)
class Place:
    """What the scripts use: a Python with their libraries, images, sentences (`talk`), and checkouts."""

    python: Path
    cache: Path
    images: Path
    talk: Path
    checkouts: Path | None

    def checkout(self, name: str, sha256: str) -> Path:
        if self.checkouts is None:
            raise sources.Unavailable("in no package: --checkouts was not given")
        return sources.unchanged(self.checkouts / name, sha256)

    def installed(self, name: str, sha256: str, script: str | None = None) -> Path:
        found = sources.unchanged(sources.installed(self.python, name), sha256)
        return self.python.with_name(script) if script else found


def scripts(place: Place) -> list[Real]:
    images, talk = str(place.images), place.talk
    decoded = (("ImageFile.load", "decode"), ("RandomResizedCrop", "transform"), ("Normalize", "transform"))
    return [
        Real(
            "torchvision references/classification/train.py",
            "Debian's source of pytorch-vision 0.14.1",
            lambda: sources.vision(place.cache / "sources") / "train.py",
            (
                "--data-path", images, "--device", "cpu", "--model", "shufflenet_v2_x0_5", "-b", "8", "-j", "2",
                "--epochs", "2", "--output-dir", "out", "--train-crop-size", "64", "--val-crop-size", "64",
            ),
            (*decoded, ("default_collate", "collate")),
            seeded=True,
        ),
        Real(
            "lightly-ssl-train (Lightning's Trainer)",
            "lightly 1.6.0 with pytorch-lightning 2.6.6",
            lambda: place.installed(
                "lightly/cli/train_cli.py",
                "4afd36da242ede0775d7a926e2af2bc7f5758c3bad29138fe09f66aa882b5740",
                "lightly-ssl-train",
            ),
            (
                f"input_dir={images}/train", "pre_trained=False", "loader.batch_size=8", "loader.num_workers=2",
                "trainer.max_epochs=1", "collate.input_size=32", "hydra.run.dir=out",
            ),
            (*decoded, ("MultiViewCollate", "collate")),
        ),
        Real(
            "trl/scripts/sft.py (Hugging Face's Trainer)",
            "trl 1.16.0 with transformers 5.23.0",
            lambda: place.installed(
                "trl/scripts/sft.py", "310f4eb5f750a8f2f1ca9ef86235455a6d1d262d1c4cf6c8261ad95090a209dc"
            ),
            (
                "--model_name_or_path", str(talk / "model"), "--dataset_name", str(talk / "talk"), "--output_dir",
                "out", "--num_train_epochs", "1", "--per_device_train_batch_size", "4", "--dataloader_num_workers",
                "2", "--use_cpu", "--report_to", "none", "--max_length", "32", "--logging_steps", "2", "--dtype",
                "float32",
            ),
            (("Dataset.__getitems__", "getitem"), ("DataCollatorForLanguageModeling", "collate")),
        ),
        Real(
            "accelerate/test_utils/scripts/test_script.py",
            "accelerate 1.15.0",
            lambda: place.installed(
                "accelerate/test_utils/scripts/test_script.py",
                "698b0b4250a6d1ac7facb381a9e55a71ab9a0b179f8e0bac3ce38d8a2c275c92",
            ),
            (),
            (("RegressionDataset.__getitem__", "getitem"), ("default_collate", "collate")),
        ),
        Real(
            "pytorch-image-models train.py (timm)",
            "checkout aa4b5850 with timm 1.0.31",
            lambda: place.checkout(
                "pytorch-image-models/train.py", "f0bb70b9e1c8c576eb1f7beba9cb46953d01ec1308d68c59ec055a6266f76388"
            ),
            (
                "--data-dir", images, "--val-split", "val", "--model", "resnet10t", "--img-size", "48", "-b", "8",
                "--workers", "2", "--device", "cpu", "--epochs", "2", "--warmup-epochs", "0", "--num-classes", "6",
                "--output", "out", "--experiment", "run", "--seed", "7",
            ),
            (("ImageFile.load", "decode"), ("RandomResizedCropAndInterpolation", "transform"),
             ("fast_collate", "collate")),
        ),
        Real(
            "pytorch/examples imagenet/main.py",
            "checkout 77f55b91",
            lambda: place.checkout(
                "examples/imagenet/main.py", "f67ca2cd730bf91afe0504694abf07b88cbd03ac8c8a0426023620d29175c158"
            ),
            ("-a", "shufflenet_v2_x0_5", "-b", "8", "-j", "2", "--epochs", "2", "--seed", "7", "--no-accel", images),
            (*decoded, ("default_collate", "collate")),
        ),
    ]  # fmt: skip


def told(text: str) -> list[str]:
    """The lines of an output that must be the same in both runs, with timings and addresses masked."""
    lines = [line for line in re.split(r"[\r\n]+", text) if not any(sign in line for sign in PROGRESS)]
    masked = [ADDRESSES.sub("…", TIMINGS.sub(r"\1 … ", line)).rstrip() for line in lines]
    return [line for line in masked if line]


def run(place: Place, one: Real, script: Path, folder: Path, watched: bool) -> subprocess.CompletedProcess[str]:
    """Runs a script once. Its folder has the same name in both runs, as scripts save it, and is renamed afterwards."""
    work = folder / "work"
    work.mkdir()
    command: list[object] = [place.python]
    if watched:
        command += ["-m", "pipebench", "watch", "--export-json", folder / "watched.json"]
    path = [str(place.python.parent.parent / "seeded")] if one.seeded else []
    path += [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []
    environment = {**os.environ, **sources.OFFLINE, "PYTHONPATH": os.pathsep.join(path)}
    command += [script, *one.arguments]
    done = subprocess.run(list(map(str, command)), cwd=work, env=environment, capture_output=True, text=True)
    work.rename(folder / ("watched" if watched else "plain"))
    return done


def differing_output(plain: str, complaints: str, watched: str, ours: str) -> list[str]:
    """How the output and the standard error of a watched run differ from those of a plain one."""
    said, found = told(plain), told(watched)
    problems = [f"output {mine!r} instead of {its!r}" for its, mine in zip(said, found, strict=False) if its != mine]
    if len(said) != len(found):
        problems.append(f"{len(found)} lines of output instead of {len(said)}")
    missing = [line for line in told(complaints) if line not in told(ours)]
    return problems + [f"standard error lacks {line!r}" for line in missing]


def differences(place: Place, one: Real, folder: Path) -> tuple[list[str], list[str]]:
    """The problems that were found, and the cells of the table: lines, tensors, iterations, loaders, stages."""
    script = one.find()
    plain = run(place, one, script, folder, False)
    watched = run(place, one, script, folder, True)
    problems = [f"plainly it ends with {plain.returncode}: {plain.stderr[-500:]}"] if plain.returncode else []
    if plain.returncode != watched.returncode:
        problems.append(f"status {watched.returncode} instead of {plain.returncode}")
    problems += differing_output(plain.stdout, plain.stderr, watched.stdout, watched.stderr)
    tensors, differing = _weights(place, folder)
    problems += differing
    report = folder / "watched.json"
    if not report.exists():
        return [*problems, f"no report: {watched.stderr[-500:]}"], []
    watch = json.loads(report.read_text())["watched"]
    problems += _unnamed(one, watch)
    stages = len({(stage["loader"], stage["name"]) for stage in watch["stages"]})
    lines = len(told(plain.stdout) + told(plain.stderr))
    counts = [lines, tensors, watch["iterations"], len(watch["loaders"]), stages]
    return problems, [str(one) for one in counts]


def _weights(place: Place, folder: Path) -> tuple[int, list[str]]:
    names = [list(sources.weights(folder / kind)) for kind in ("plain", "watched")]
    if names[0] != names[1]:
        return 0, [f"files of weights {names[1]} instead of {names[0]}"]
    tensors, problems = 0, []
    for name in names[0]:
        files = [folder / kind / name for kind in ("plain", "watched")]
        done = subprocess.run([place.python, "-c", COMPARE, *files], capture_output=True, text=True)
        if done.returncode:
            problems.append(f"{name}: {done.stderr.strip().splitlines()[-1]}")
        else:
            tensors += int(done.stdout)
    return tensors, problems


def _unnamed(one: Real, watch: dict[str, object]) -> list[str]:
    """The problems of a report: stages without a row, phases without time, and notes about what was not seen."""
    assert isinstance(watch["stages"], list) and isinstance(watch["loop"], list) and isinstance(watch["notes"], list)
    rows = {(stage["name"], stage["kind"]) for stage in watch["stages"] if stage["exclusive_s_per_sample"] > 0}
    problems = [f"no row for {name} ({kind})" for name, kind in one.stages if (name, kind) not in rows]
    times = {phase["phase"]: phase["s_per_iteration"] for phase in watch["loop"]}
    problems += [f"no time in {phase}" for phase in PHASES if not times.get(phase)]
    return problems + [f"note: {note}" for note in watch["notes"] if note["code"] != "oversubscribed"]


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---" for _ in heads], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="parts of the names of those to run (all)")
    parser.add_argument("--checkouts", type=Path)
    asked = parser.parse_args()
    cache = Path(os.environ.get("PIPEBENCH_CACHE") or Path.home() / ".cache" / "pipebench") / "real-scripts"
    python = sources.environment(cache / "env", PACKAGES)
    rows, failed = [], False
    with tempfile.TemporaryDirectory(prefix="pipebench-real-") as name:
        root = Path(name)
        images, talk = sources.images(root / "images"), sources.conversation(python, root / "talk")
        place = Place(python, cache, images, talk, asked.checkouts and asked.checkouts.resolve())
        for number, one in enumerate(scripts(place)):
            if asked.names and not any(part in one.name for part in asked.names):
                continue
            (root / str(number)).mkdir()
            try:
                problems, cells = differences(place, one, root / str(number))
            except sources.Unavailable as error:
                sys.stderr.write(f"{one.name}: not run, {error}\n")
                rows.append([one.name, one.source, "", "", "", "", "", "not run"])
                continue
            for problem in problems:
                sys.stderr.write(f"{one.name}: {problem}\n")
            failed = failed or bool(problems)
            rows.append([one.name, one.source, *(cells or [""] * 5), "no" if problems else "yes"])
    sys.stdout.write(table(HEADS, rows))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
