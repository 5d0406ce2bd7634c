"""The files that `pipebench init` writes into a user's repository: configuration, benchmarks and a workflow."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

from pipebench.compare import usable, users_loader
from pipebench.compare.borrowed_packages import used_in_place
from pipebench.compare.config import CONFIG, Own
from pipebench.compare.import_roots import import_roots
from pipebench.errors import PipebenchError
from pipebench.host.children import how
from pipebench.host.interrupts import INTERRUPTED, INTERRUPTS
from pipebench.host.whole_files import write_whole
from pipebench.task import Unavailable
from pipebench.units import printable

TEMPLATES = Path(__file__).parent / "templates"
PLACES = {
    "asv.conf.json": "asv.conf.json",
    "pipebench.toml": CONFIG,
    "benchmarks_init.py.txt": "benchmarks/__init__.py",
    "benchmarks_loader.py.txt": "benchmarks/loader.py",
    "workflow.yml": ".github/workflows/pipebench.yml",
}


@dataclass(frozen=True)
class Scaffold:
    """The files to write: contents by path, relative to the repository's top folder."""

    repo: Path
    files: Mapping[str, str]
    not_measured: Mapping[str, str] = field(default_factory=dict)  # benchmarks that this commit lacks, with the reason

    @property
    def existing(self) -> list[str]:
        """The files that exist already with other contents."""
        return [name for name, text in self.files.items() if _differs(self.repo / name, text)]


def _differs(path: Path, text: str) -> bool:
    if path.exists() and not path.is_file():  # to read a pipe or a device could take for ever
        return True
    try:
        return path.read_text(encoding="utf-8") != text
    except FileNotFoundError:
        return False
    except (OSError, UnicodeDecodeError):
        return True


def plan(
    repo: Path,
    loader: str,
    transform: str | None,
    *,
    workers: tuple[int, ...] = (0, 2),
    samples: int = 64,
    requirement: str = "pipebench",
    image: str | None = None,
) -> Scaffold:
    """Inspects the two functions and makes the files' contents. Raises `PipebenchError` if one cannot be used."""
    for name in (loader, transform):
        if name is not None and not _is_a_name(name):
            raise PipebenchError(
                f"{printable(name)} is not the name of a function",
                "write it as module:function: mypackage.data:make_loader",
            )
    roots = [os.fspath(root) for root in import_roots(repo)]
    sys.path[:0] = [root for root in roots if root not in sys.path]
    startup = tuple({max(workers, default=0)} - {0})
    settings = Own(loader, transform, (), workers, samples=samples, startup=startup, image=_entry(image))
    names, not_measured = _from_a_child(settings, repo)
    words = {
        "PROJECT": json.dumps(repo.name)[1:-1] or "project",
        "PYTHON": f"{sys.version_info.major}.{sys.version_info.minor}",
        "PIPEBENCH": requirement,
        "INSTALL": json.dumps(used_in_place(repo)),
        "REQUIREMENTS": _requirements(repo),
        "LOADER": loader,
        "TRANSFORM": f'transform = "{transform}"\n' if transform else "",
        "TRANSFORMS": ", ".join(f'"{name}"' for name in names),
        "WORKERS": ", ".join(map(str, workers)),
        "STARTUP": ", ".join(map(str, startup)),
        "SAMPLES": str(samples),
        "SAMPLE": _sample(settings.image),
    }
    return Scaffold(repo, {place: _filled(template, words) for template, place in PLACES.items()}, not_measured)


def _entry(image: str | None) -> str | int | None:
    return int(image) if image is not None and image.lstrip("-").isdecimal() else image


def _sample(image: str | int | None) -> str:
    """The table `[sample]`; without an image, a comment that shows how to write it."""
    if image is None:
        return '# [sample]\n# image = "name"\n'
    return f"[sample]\nimage = {json.dumps(image)}\n"


def _is_a_name(name: str) -> bool:
    module, colon, attribute = name.partition(":")
    return bool(colon) and all(part.isidentifier() for part in (*module.split("."), *attribute.split(".")))


def _from_a_child(settings: Own, repo: Path) -> tuple[list[str], dict[str, str]]:
    """What `_looked_at` finds in a child process. Raises `PipebenchError` also if the user's code ends that process."""
    context = multiprocessing.get_context("fork")  # nothing here has started a thread
    receiver, sender = context.Pipe(duplex=False)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTS)  # none comes before the child can be ended
    child = context.Process(target=_send, args=(sender, settings, repo, mask))
    try:
        try:
            child.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        sender.close()
        while not receiver.poll(0.05) and child.exitcode is None:
            pass
    except KeyboardInterrupt:
        child.kill()  # who interrupts does not wait for the user's code
        raise
    try:
        answer = json.loads(receiver.recv_bytes()) if receiver.poll() else None
    except EOFError:
        answer = None
    child.join()
    if answer is None:
        problem = f"{settings.loader} or its transform ends the process: it {how(child.exitcode or 0)}"
        raise PipebenchError(problem, "let the function return what it makes")
    if "problem" in answer:
        raise PipebenchError(**answer)
    return answer["names"], answer["not_measured"]


def _send(sender: Connection, settings: Own, repo: Path, mask: set[int]) -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    del sys.argv[1:]  # a loader that parses arguments has none in a comparison either
    try:
        names, not_measured = _looked_at(settings, repo)
        answer = {"names": names, "not_measured": not_measured}
    except PipebenchError as error:
        answer = {"problem": error.problem, "remedy": error.remedy}
    except KeyboardInterrupt:
        os._exit(INTERRUPTED)
    sender.send_bytes(json.dumps(answer).encode())


def _looked_at(settings: Own, repo: Path) -> tuple[list[str], dict[str, str]]:
    """The names of the transforms, and what cannot be measured. Calls both functions, and reads a few samples."""
    try:
        usable.refuse_unusable(settings, repo)
        with usable.blamed(settings.loader or "", repo):
            return users_loader.transform_names(settings), users_loader.not_measured(settings)
    except Unavailable as missing:
        raise PipebenchError(missing.reason, "name functions that exist, as module:function") from missing


def _requirements(repo: Path) -> str:
    if (repo / "requirements.txt").exists():
        return "-r requirements.txt"
    return "." if (repo / "pyproject.toml").exists() or (repo / "setup.py").exists() else "torchvision"


def _filled(template: str, words: Mapping[str, str]) -> str:
    text = (TEMPLATES / template).read_text(encoding="utf-8")
    for word, value in words.items():
        text = text.replace(f"@{word}@", value)
    return text


def write(made: Scaffold, *, force: bool = False) -> list[str]:
    """Writes the files and returns their names. Without `force`, writes nothing if one exists with other contents."""
    if made.existing and not force:
        listed = ", ".join(made.existing)
        raise PipebenchError(
            f"these files exist: {printable(listed)}", "move them away, or overwrite them with --force"
        )
    for name, text in made.files.items():
        write_whole(made.repo / name, text.encode())
    return list(made.files)
