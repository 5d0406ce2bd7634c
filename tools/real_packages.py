"""Runs programs that load data through other people's packages, plainly and under `pipebench watch`.

    python tools/real_packages.py [--python PYTHON] [--checkouts FOLDER] [NAME...]

The programs are in `tools/programs`, one for a package, written as the package's own pages recommend; others come from
clones of repositories (`--checkouts`). Each runs once to make its data and to fill caches, then plainly, then watched.
The exit status and the output must be the same, the loop must be seen, and the verdict must name its loader. The table
says how much of the time in which samples are made has a name: a row that is more than the dataset's `__getitem__`.
Beside it stands the same with the lines of such rows. The exit status is 1 if a program misses a goal.

What watching costs on them: `watch_cost.py`.
`--python` is a Python that has the packages; without it one is made, which takes 2 GB.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import real_sources as sources
from real_scripts import differing_output, table

from pipebench.render.watch_verdict import verdict
from pipebench.results.report import load
from pipebench.results.watched import StageResult, Verdict, WatchResult

HERE = Path(__file__).with_name("programs")
GOAL = 0.90  # of the time in which samples are made
_NAMELESS = (".__getitem__", ".__getitems__", ".__iter__", ".__next__")
_REMAINDERS = ("fetch", "further stages")
_HEADS = ("program", "version", "same", "iterations", "loaders", "named", "and lines", "reaches the goals")
PACKAGES = (
    "fastai==2.8.12", "litdata==0.2.76", "monai==1.6.1", "kornia==0.9.0", "lightning==2.6.6", "transformers==5.23.0",
    "accelerate==1.15.0", "datasets==5.2.0", "torch_geometric==2.8.1", "torchaudio==2.11.0", "soundfile==0.14.0",
    "albumentations==2.0.8", "timm==1.0.31", "catalogue", "zstd", "python-snappy", "brotli",
)  # fmt: skip
ALONE = ("mosaicml-streaming==0.13.0",)  # it asks for an older transformers, which it does not need here


@dataclass(frozen=True)
class Program:
    """A program: its file, the package that makes its loaders, and what a reader of its source would say of it.

    `loaders` is how many loaders it has (a loader made anew for each epoch is one), and `dataset` the class of the data
    set that it trains on ("": it has no loader). `options` are options of `watch`. `folder` is the clone that holds the
    file, and `files` what else of the clone it reads; it then runs beside its data, in `made`. `launcher` are words
    between the Python and the file.
    """

    name: str
    file: str
    package: str
    dataset: str
    loaders: int = 1
    arguments: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    folder: str = ""
    files: tuple[str, ...] = ()
    judged: bool = True
    launcher: tuple[str, ...] = ()


_GPT = (
    "--device=cpu", "--compile=False", "--dataset=made", "--eval_interval=40", "--eval_iters=2", "--log_interval=20",
    "--block_size=64", "--batch_size=8", "--gradient_accumulation_steps=2", "--n_layer=2", "--n_head=2", "--n_embd=64",
    "--max_iters=60", "--dtype=float32",
)  # fmt: skip
_WORDS = (
    "--data", "data/made", "--emsize", "32", "--nhid", "32", "--epochs", "1", "--batch_size", "40", "--log-interval",
    "10000", "--nlayers", "1",
)  # fmt: skip
_TWO_RANKS = (
    "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1",
    "--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0",
)  # fmt: skip
PROGRAMS = (
    Program("fastai: Learner", "fastai_learner.py", "fastai", "Datasets", loaders=2),
    Program("litdata: StreamingDataLoader", "litdata_streaming.py", "litdata", "Images"),
    Program("MONAI: CacheDataset", "monai_cache.py", "monai", "CacheDataset"),
    Program("MONAI: ThreadDataLoader", "monai_cache.py", "monai", "CacheDataset", arguments=("thread",)),
    Program("kornia: AugmentationSequential", "kornia_sequential.py", "kornia", "Images"),
    Program("Lightning: loaders made anew", "lightning_module.py", "lightning", "ImageFolder", loaders=2),
    Program(
        "Lightning: fast_dev_run", "lightning_module.py", "lightning", "ImageFolder", loaders=2, arguments=("fast",),
        judged=False,
    ),
    Program("Transformers: Trainer", "transformers_trainer.py", "transformers", "Dataset"),
    *(
        Program(
            f"accelerate launch, 2 ranks{told}", "accelerate_prepared.py", "accelerate", "Images", arguments=more,
            launcher=_TWO_RANKS,
        )
        for told, more in (("", ()), (", dispatch_batches", ("dispatch",)))
    ),
    Program(
        "Transformers: Trainer, 2 ranks", "transformers_trainer.py", "transformers", "Dataset", launcher=_TWO_RANKS
    ),
    Program("datasets: streaming", "datasets_streaming.py", "datasets", "IterableDataset"),
    Program("PyTorch Geometric", "pyg_dataset.py", "torch_geometric", "Molecules"),
    Program("mosaicml-streaming", "mosaic_streaming.py", "mosaicml-streaming", "Images"),
    Program("torchaudio", "torchaudio_pipeline.py", "torchaudio", "Tones"),
    Program("Albumentations", "albumentations_cats.py", "albumentations", "CatsVsDogsDataset", loaders=2),
    Program("timm", "timm_loaders.py", "timm", "ImageDataset", loaders=2),
    Program(
        "nanoGPT", "train.py", "", "", loaders=0, arguments=_GPT, options=("--span", "__main__:get_batch"),
        folder="nanoGPT", files=("model.py", "configurator.py"),
    ),
    Program(
        "word_language_model, an optimiser", "main.py", "", "", loaders=0, arguments=(*_WORDS, "--use-optimizer"),
        options=("--span", "__main__:get_batch"), folder="examples/word_language_model", files=("data.py", "model.py"),
    ),
    Program(
        "word_language_model, no optimiser", "main.py", "", "", loaders=0, arguments=_WORDS,
        options=("--span", "__main__:get_batch"), folder="examples/word_language_model", files=("data.py", "model.py"),
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Place:
    """Where the programs run: a Python with the packages, the data made for them, clones, and a folder for results."""

    python: Path
    made: Path
    checkouts: Path | None
    results: Path
    one_thread: bool = False

    def version(self, package: str) -> str:
        """The installed version of a package. Raises `Unavailable` if there is none."""
        ask = f"import importlib.metadata; print(importlib.metadata.version({package!r}))"
        done = subprocess.run([self.python, "-c", ask], capture_output=True, text=True)
        if done.returncode:
            raise sources.Unavailable(f"{package} is not installed")
        return done.stdout.strip()

    def clone(self, one: Program) -> Path:
        """A folder with the files of a clone beside the data that they read, as their authors have it."""
        if self.checkouts is None:
            raise sources.Unavailable("in no package: --checkouts was not given")
        found, work = self.checkouts / one.folder, self.results / "clones" / one.folder
        if not (found / one.file).is_file():
            raise sources.Unavailable(f"there is no {found / one.file}")
        if not work.exists():
            (work / "data").mkdir(parents=True)
            (work / "data" / "made").symlink_to(self.made / "sentences")
            for name in (one.file, *one.files):
                shutil.copy(found / name, work / name)
        return work


@dataclass(frozen=True)
class Done:
    """One run: what it said, the CPU seconds of all its processes, and how long it took."""

    returncode: int
    stdout: str
    stderr: str
    cpu_s: float
    wall_s: float


def run(place: Place, one: Program, watched: bool, report: Path | None = None, under: Sequence[object] = ()) -> Done:
    """Runs a program once. It works in the same folder each time, so that what it prints of paths is the same.

    `under` are the words of a command, as `valgrind`, that runs the script's Python, and not that of `watch`.
    """
    work = place.clone(one) if one.folder else place.results / "work"
    work.mkdir(exist_ok=True)
    command: list[object] = [place.python] if watched else [*under, place.python]
    if watched:
        exported = ["--export-json", report, "--force"] if report else []
        command += ["-m", "pipebench", "watch", *exported, *one.options]
        command += ["--", *under, place.python] if one.launcher or under else []
    command += one.launcher
    command += [one.file, *one.arguments] if one.folder else [HERE / one.file, place.made, *one.arguments]
    environment = {**os.environ, **sources.OFFLINE, "PYTHONHASHSEED": "7"}
    environment |= {"OMP_NUM_THREADS": "1"} if place.one_thread else {}
    environment |= {"TORCH_CPP_LOG_LEVEL": "ERROR"} if one.launcher else {}  # warnings with the moment in them
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as complaints:
        began = time.monotonic()
        process = subprocess.Popen(
            list(map(str, command)), cwd=work, env=environment, stdout=out, stderr=complaints, text=True
        )
        _, status, used = os.wait4(process.pid, 0)
        wall = time.monotonic() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        for file in (out, complaints):
            file.seek(0)
        return Done(process.returncode, out.read(), complaints.read(), used.ru_utime + used.ru_stime, wall)


def named(result: WatchResult) -> tuple[float, float]:
    """The share of the time in which samples are made that has a name; and with lines of large rows without names."""
    whole = sum(map(_spent, result.stages))
    if not whole:
        return 0.0, 0.0
    nameless = {(one.loader, one.name): _spent(one) for one in result.stages if _is_nameless(one)}
    lines = sum(
        nameless.get((row.loader, row.stage), 0.0) * sum(line.share for line in row.lines if line.file)
        for row in result.drilled
    )
    without = sum(nameless.values())
    return 1 - without / whole, 1 - (without - lines) / whole


def _spent(one: StageResult) -> float:
    return one.exclusive_s_per_sample * one.samples


def _is_nameless(one: StageResult) -> bool:
    return one.kind == "getitem" and (one.name.endswith(_NAMELESS) or one.name in _REMAINDERS)


def problems_of(one: Program, plain: Done, watched: Done, result: WatchResult) -> list[str]:
    """What a program misses."""
    found = [f"plainly it ends with {plain.returncode}: {plain.stderr[-500:]}"] if plain.returncode else []
    if plain.returncode != watched.returncode:
        found.append(f"status {watched.returncode} instead of {plain.returncode}")
    found += differing_output(plain.stdout, plain.stderr, watched.stdout, watched.stderr)
    loaders = sum(bool(loader.loader) for loader in result.loaders)
    if loaders != one.loaders:
        found.append(f"{loaders} loaders instead of {one.loaders}")
    if one.judged and not result.iterations:
        found.append("the loop was not seen")
    told = result.verdict
    assert isinstance(told, Verdict)
    if told.dataset != one.dataset:
        found.append(f"the verdict is about {told.dataset!r} instead of {one.dataset!r}")
    if one.loaders and named(result)[0] < GOAL:
        found.append(f"{named(result)[0]:.0%} has a name")
    return found


def warm(place: Place, one: Program) -> None:
    """Runs a program for its data and the caches of the machine, once for each folder of results."""
    ran = place.results / f"{one.name.replace('/', ' ')}.ran"
    if not ran.exists():
        run(place, one, False)
        ran.touch()


def compared(place: Place, one: Program) -> tuple[list[str], list[str], str]:
    """Problems, the cells of the table, and the verdict."""
    version = place.version(one.package) if one.package else ""
    warm(place, one)
    plain = run(place, one, False)
    report = place.results / f"{PROGRAMS.index(one)}.json"
    watched = run(place, one, True, report)
    if not report.exists():
        return [f"no report: {watched.stderr[-1500:]}"], [version, *[""] * 4], ""
    result = load(report).watched
    assert result is not None
    same = not differing_output(plain.stdout, plain.stderr, watched.stdout, watched.stderr)
    name, with_lines = named(result)
    shares = [f"{name:.0%}", f"{with_lines:.0%}"] if result.stages else ["", ""]
    loaders = sum(bool(loader.loader) for loader in result.loaders)
    cells = [version, "yes" if same else "no", str(result.iterations), str(loaders), *shares]
    return problems_of(one, plain, watched, result), cells, verdict(result.verdict)


def once(place: Place, one: Program) -> tuple[list[str], list[str], str]:
    """The same as `compared`, from the folder of results if an earlier call has got that far."""
    found = place.results / f"{PROGRAMS.index(one)}.found"
    if not found.exists():
        text = json.dumps(compared(place, one))
        found.write_text(text)
    problems, cells, told = json.loads(found.read_text())
    return problems, cells, told


def report(place: Place, chosen: Sequence[Program]) -> bool:
    """Prints the table, then each verdict. Returns whether all programs reach the goals."""
    rows, verdicts, reached = [], [], True
    for one in chosen:
        try:
            problems, cells, told = once(place, one)
        except sources.Unavailable as error:
            sys.stderr.write(f"{one.name}: not run, {error}\n")
            rows.append([one.name, *[""] * 6, "not run"])
            continue
        for problem in problems:
            sys.stderr.write(f"{one.name}: {problem}\n")
        reached = reached and not problems
        rows.append([one.name, *cells, "no" if problems else "yes"])
        verdicts.append(f"- {one.name}: {told}")
        sys.stderr.write(f"{one.name}: done\n")
    sys.stdout.write(table(_HEADS, rows) + "\n" + "\n".join(verdicts) + "\n")
    return reached


def asking() -> argparse.ArgumentParser:
    """The arguments that say which programs run, and where."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("names", nargs="*", help="parts of the names of those to run (all)")
    parser.add_argument("--python", type=Path, help="a Python that has the packages")
    parser.add_argument("--checkouts", type=Path, help="a folder with clones of nanoGPT and examples")
    parser.add_argument(
        "--keep", type=Path, help="a folder for data and reports, which stays, so that a later call goes on from it"
    )
    return parser


def chosen(asked: argparse.Namespace, programs: Sequence[Program]) -> list[Program]:
    return [one for one in programs if not asked.names or any(part in one.name for part in asked.names)]


@contextlib.contextmanager
def place(asked: argparse.Namespace, one_thread: bool = False) -> Iterator[Place]:
    """Where the programs run. Makes the Python with their packages and their data, if there are none."""
    cache = Path(os.environ.get("PIPEBENCH_CACHE") or Path.home() / ".cache" / "pipebench") / "real-scripts"
    python = asked.python or sources.environment(cache / "packages", PACKAGES, ALONE)
    with tempfile.TemporaryDirectory(prefix="pipebench-real-") as scratch:
        root = (asked.keep or Path(scratch)).resolve()
        if not (root / "made").exists():
            subprocess.run([sys.executable, HERE / "made.py", root / "draft"], check=True)
            (root / "draft").rename(root / "made")
        checkouts = asked.checkouts and asked.checkouts.resolve()
        yield Place(python.absolute(), root / "made", checkouts, root, one_thread)


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0], parents=[asking()]).parse_args()
    with place(asked) as found:
        return int(not report(found, chosen(asked, PROGRAMS)))


if __name__ == "__main__":
    sys.exit(main())
