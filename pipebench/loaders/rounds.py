"""Conducts loaders side by side: each round is a fresh process for each loader, and the loaders take turns.

The data is written once as loose files. A loader with a form of its own gets a copy in that form, which is not timed.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from pipebench.data import datasets
from pipebench.errors import PipebenchError, SampleError, remedy_of
from pipebench.host.children import how, kill_all_with
from pipebench.host.scratch import Scratch
from pipebench.loaders.kind import Kind, find
from pipebench.loaders.one_round import Action, Answer, Job
from pipebench.results.loaders import Filter, LoaderResult, SideBySide
from pipebench.units import printable

Progress = Callable[[int, int, str], None]
DEADLINE_S = 300.0  # of a process, besides the time for its images
_IMAGE_S = 0.05  # the slowest loader needs a tenth of it on one core
_TAG = "PIPEBENCH_LOADER"
_ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True)
class Settings:
    """The recipe: `images` crops a pass in batches, on `cores`, in so many rounds of so many timed passes."""

    data: str = "photos"
    images: int = 1024
    different: int = 64
    batch_size: int = 32
    cores: int = 2
    seed: int = 0
    side: int = 224
    rounds: int = 5
    passes: int = 2

    @staticmethod
    def quick(**settings: object) -> Settings:
        """Few rounds of short passes, for a first look."""
        return replace(Settings(images=256, rounds=3, passes=1), **settings)  # type: ignore[arg-type]


@dataclass
class _Row:
    """One loader on one task, while it is measured."""

    kind: Kind
    found: LoaderResult
    answers: list[Answer] = field(default_factory=list)

    @property
    def runs(self) -> bool:
        return self.found.skipped is None and self.found.refused is None

    def take(self, answer: Answer) -> None:
        """Adds what a process answered. What it lacks or does wrong ends the row, and its rounds do not count."""
        if answer.missing is not None:
            self.found = replace(self.found, skipped=printable(answer.missing), rounds=())
        elif answer.refused is not None:
            self.found = replace(self.found, refused=printable(answer.refused), rounds=())
        elif answer.round is not None:
            self.answers.append(answer)
            orders = {one.digest for one in self.answers}
            self.found = replace(
                self.found,
                library=answer.library,
                order=answer.order,
                repeats=len(orders) == 1 if len(self.answers) > 1 else None,
                rounds=(*self.found.rounds, answer.round),
            )


Ask = Callable[[Job], Answer]


def side_by_side(
    kinds: Sequence[str],
    tasks: Sequence[Filter],
    settings: Settings,
    progress: Progress,
    keep: Callable[[SideBySide], None] = lambda found: None,
    ask: Ask | None = None,
    left_out: Callable[[str, str], None] = lambda sample, why: None,
) -> SideBySide:
    """All rounds of all loaders. `keep` gets what there is after each process. PipebenchError if the data is unusable.

    `left_out` gets the JPEGs that cannot be decoded (one of them would end every loader), and what cannot be read.
    `ask` runs a job in a process of its own, and is there to be replaced by a test.
    """
    rows = [_Row(one, _blank(one, name, task)) for name in kinds for one in [find(name)] for task in tasks
            if task in one.does]  # fmt: skip
    with Scratch("loaders") as scratch:
        paths, different = _written(settings, scratch / "files", progress, left_out)
        asked = ask or _Processes(scratch).ask
        jobs = _Jobs(settings, paths, scratch, asked)
        for row in rows:
            progress(0, 0, f"preparing {row.kind.name}")
            jobs.prepare(row)
            keep(_made(settings, rows, different))
        turns = [(number, row) for number in range(settings.rounds) for row in _turned(_able(rows), number)]
        for done, (number, row) in enumerate(turns):
            if row.runs:
                said = f"round {number + 1} of {settings.rounds}: {row.kind.name}, {row.found.filter}"
                progress(done, len(turns), said)
                row.take(jobs.run(row, number))
                keep(_made(settings, rows, different))
    return _made(settings, rows, different)


def _able(rows: Sequence[_Row]) -> list[_Row]:
    return [one for one in rows if one.runs]


def _turned(rows: list[_Row], number: int) -> list[_Row]:
    """The rows of one round, which begins with another row than the round before."""
    shift = number % max(1, len(rows))
    return rows[shift:] + rows[:shift]


def _blank(kind: Kind, name: str, task: Filter) -> LoaderResult:
    gives_up = [one for one in (kind.gives_up, f"a copy of the data: {kind.copies}" if kind.copies else "") if one]
    return LoaderResult(
        name, task, kind.title, kind.does[task], kind.source, gives_up="; ".join(gives_up), resumes=kind.resumes,
        baseline=kind.baseline,
    )  # fmt: skip


def _made(settings: Settings, rows: Sequence[_Row], different: int) -> SideBySide:
    return SideBySide(
        settings.data, settings.images, different, settings.side, settings.batch_size,
        settings.cores, settings.rounds, tuple(row.found for row in rows),
    )  # fmt: skip


def _written(
    settings: Settings, folder: Path, progress: Progress, left_out: Callable[[str, str], None]
) -> tuple[tuple[str, ...], int]:
    """The images as loose files, `different` ones again and again; and how many of them are different."""
    found = datasets.load(settings.data, limit=min(settings.different, settings.images), progress=progress)
    for one in found.problems:
        left_out(one.sample, one.message)
    contents = [*_jpegs(found, left_out)]
    if not contents:
        raise PipebenchError(
            f"{printable(settings.data)} holds no JPEG that can be read",
            "name data with JPEGs: the loaders decode them",
        )
    paths = tuple(str(folder / f"{index:06}.jpg") for index in range(settings.images))
    try:
        folder.mkdir()
        for index, path in enumerate(paths):
            Path(path).write_bytes(contents[index % len(contents)])
    except OSError as error:
        problem = f"{settings.images:,} images cannot be written to {printable(folder)}: {error.strerror or error}"
        remedy = remedy_of(error, "name fewer --images, or set TMPDIR to a folder with more room")
        raise PipebenchError(problem, remedy) from error
    return paths, len(contents)


def _jpegs(found: datasets.Dataset, left_out: Callable[[str, str], None]) -> Iterator[bytes]:
    """The JPEGs that can be decoded. Files of other formats are passed over without a word.

    Without simplejpeg nothing is decoded here: the loaders that need it are skipped, and say so.
    """
    try:
        from simplejpeg import decode_jpeg
    except ImportError:
        decode_jpeg = len
    for sample in found.samples:
        try:
            data = sample.read()
            if data[:2] == b"\xff\xd8":
                decode_jpeg(data)
                yield data
        except (SampleError, ValueError) as error:  # the latter is simplejpeg's
            left_out(sample.key, str(error))


class _Jobs:
    """Makes the jobs of rows. A form of the data is made once for each kind."""

    def __init__(self, settings: Settings, paths: tuple[str, ...], scratch: Path, ask: Ask) -> None:
        self._settings, self._paths, self._scratch, self._ask = settings, paths, scratch, ask
        self._prepared: dict[str, Answer] = {}

    def prepare(self, row: _Row) -> None:
        """Finds out whether the kind can run here, and writes its copy of the data."""
        if row.found.name not in self._prepared:
            self._prepared[row.found.name] = self._ask(self._job("prepare", row, 0))
        row.take(self._prepared[row.found.name])

    def run(self, row: _Row, number: int) -> Answer:
        return self._ask(self._job("run", row, number))

    def _job(self, action: Action, row: _Row, number: int) -> Job:
        one = self._settings
        cpus = tuple(sorted(os.sched_getaffinity(0))[: one.cores])
        return Job(
            action, row.found.name, row.found.filter, self._paths, str(self._scratch / "copies" / row.kind.name),
            one.batch_size, one.cores, cpus, one.seed, one.side, one.passes, number,
        )  # fmt: skip


class _Processes:
    """Runs each job in a process of its own, in a session of its own; what it leaves behind is ended."""

    def __init__(self, scratch: Path) -> None:
        self._scratch, self._count = scratch, 0

    def ask(self, job: Job) -> Answer:
        self._count += 1
        place = self._scratch / str(self._count)  # short: the path of a socket may be below it
        place.mkdir()
        (place / "job.json").write_bytes(msgspec.json.encode(job))
        tag = secrets.token_hex(8)
        environment = {**os.environ, _TAG: tag, "TMPDIR": str(place), **dict.fromkeys(_ONE_THREAD, "1")}
        command = [sys.executable, "-m", "pipebench.loaders.one_round", str(place / "job.json"), str(place / "answer")]
        with open(place / "log", "wb") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True
            )  # fmt: skip
            deadline_s = _deadline_s(job)
            try:
                status: int | None = process.wait(deadline_s)
            except subprocess.TimeoutExpired:
                status = None
            finally:
                kill_all_with(_TAG, tag)
                process.wait()
        return _answer(place, status, deadline_s)


def _deadline_s(job: Job) -> float:
    """Within how many seconds a process ends that does not hang: one pass is checked, the others are timed."""
    return DEADLINE_S + _IMAGE_S * len(job.paths) * (1 + job.passes)


def _answer(place: Path, status: int | None, deadline_s: float) -> Answer:
    """What the process wrote, or how it ended without an answer, with the last line that it said."""
    with contextlib.suppress(OSError, msgspec.DecodeError):
        return msgspec.json.decode((place / "answer").read_bytes(), type=Answer)
    if status is None:
        return Answer(missing=f"it did not end within {deadline_s:.0f} s, and was ended: name fewer --images")
    lines = (place / "log").read_text(errors="replace").split("\n")
    said = next((one.strip() for one in reversed(lines) if one.strip()), "it said nothing")
    return Answer(missing=f"its process {how(status)}: {said[:300]}")
