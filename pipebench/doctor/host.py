"""What the checks read: files of the kernel, figures of this process, and the answers of other programs.

A test plants other values, and as `root` a folder with files of its own in place of `/`.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from multiprocessing import util
from pathlib import Path
from typing import Any

import psutil

from pipebench.doctor import asking, probe
from pipebench.doctor.asking import Answer
from pipebench.host import cgroups, limits, machine, page_cache

OVER_S = 2.0  # seconds between the two readings of the kernel's counters
WHOLE_S = 10.0  # seconds for all of it, from the start of this process
_AFTER_S = 1.5  # of these, for what comes after the other programs
_LEAST_S = 2.0  # for the other programs
_START_S, _LATEST_START_S = 1.0, 5.0  # what a start takes; a process that is older was another program before
PREFETCH = 2  # the DataLoader's default
BATCH_BYTES = 64 * 3 * 224 * 224 * 4  # 64 crops of 224×224 pixels as float32
_COUNTERS = ("proc/stat", "proc/vmstat")
_LIBRARIES = ("torch", "torchvision", "pillow", "opencv-python", "opencv-python-headless", "numpy")
_SMI = ("nvidia-smi", "--query-gpu=name,driver_version,memory.used,memory.total,utilization.gpu",
        "--format=csv,noheader,nounits")  # fmt: skip


@dataclass(frozen=True)
class Host:
    """The machine as the checks see it.

    `data` is the folder whose storage is looked at, and `asked` says whether the user named it. `affinity` are the
    numbers of the cores that this process may use. `descriptors` is its limit (None: there is none), which it may raise
    to `most_descriptors`. `earlier` and `later` are the texts of the kernel's counters by path, OVER_S apart.
    `versions` are those of installed libraries, and `pair` is what torchvision requires. `answers` are those of
    `probe.py`, and `late` the seconds of those that were too late for one, by library; `smi` is that of nvidia-smi
    (None: it is not there). `space` gives the free bytes of a file system.
    """

    root: Path
    data: Path
    asked: bool = True
    environ: Mapping[str, str] = field(default_factory=dict)
    affinity: frozenset[int] = frozenset({0})
    descriptors: int | None = None
    most_descriptors: int | None = None
    temporary: Path = Path("/tmp")
    short_sockets: bool = False  # newer Pythons put a socket elsewhere if the folder's path is too long
    include: Path = Path("/usr/include")  # where this Python's headers would lie
    python: str = "3.11.0"
    earlier: Mapping[str, str] = field(default_factory=dict)
    later: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    pair: tuple[str, ...] = ()
    answers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    late: Mapping[str, float] = field(default_factory=dict)
    smi: Answer | None = None
    space: Callable[[Path], int | None] = limits.free_bytes
    residency: Callable[[Iterable[str]], float | None] = page_cache.residency

    def text(self, path: str) -> str:
        """The text of a file under `root`. Raises OSError."""
        return (self.root / path).read_text(encoding="utf-8", errors="replace").strip()

    @property
    def cores(self) -> float:
        """The cores that this process may use; a fraction where a quota says so."""
        return min(float(len(self.affinity)), cgroups.cpu_quota(self.root))

    @property
    def workers(self) -> int:
        """The workers of a loader that a user would start here: two for each core."""
        return 2 * math.ceil(self.cores)

    @property
    def container(self) -> str:
        """The program whose container this is the inside of: docker, podman, or "another"; "" if it is none."""
        if "KUBERNETES_SERVICE_HOST" in self.environ:
            return "another"
        marks = {".dockerenv": "docker", "run/.containerenv": "podman"}
        return next((name for mark, name in marks.items() if (self.root / mark).exists()), "")

    def in_container(self, arguments: str) -> str:
        """The command of docker or podman with these arguments; "" if this is the inside of no such container."""
        return f"{self.container} {arguments}" if self.container in ("docker", "podman") else ""

    def answer(self, name: str) -> Mapping[str, Any]:
        """What the probe said of a library; empty if it is not installed. Raises LookupError if it said nothing."""
        found = self.answers.get(name)
        if found is None:
            known = f"asked for {self.late[name]:.1f} s, and the import did not end" if name in self.late else ""
            raise LookupError(known or "the import ended its process")
        return {} if found.get("missing") else found


def counters(root: Path) -> dict[str, str]:
    """The kernel's counters now: the texts of their files, by path. Those of the control groups are among them."""
    found = {}
    for path in (*(root / one for one in _COUNTERS), *cgroups.files("cpu", "cpu.stat", root)):
        with contextlib.suppress(OSError):
            found[path.relative_to(root).as_posix()] = path.read_text()
    return found


def observed(data: Path | None, progress: Callable[[int, int, str], None]) -> Host:
    """This machine, after OVER_S and the time that is then left for other programs."""
    begin, root = time.monotonic() - _age_s(), Path("/")
    progress(0, 2, f"watching the machine for {OVER_S:g} s")
    earlier = counters(root)
    time.sleep(OVER_S)
    later = counters(root)  # before the other programs start, which are a load themselves
    progress(1, 2, "asking torch, the decoders and the driver")
    deadline_s = left_s(time.monotonic() - begin)
    probes = [(sys.executable, "-P", probe.__file__, *names) for names in probe.PARTS]
    *told, smi = asking.asked([*probes, _SMI], deadline_s)
    answers, late = said(told, deadline_s)
    return Host(
        root,
        (data or Path()).resolve(),
        data is not None,
        environ=dict(os.environ),
        affinity=frozenset(os.sched_getaffinity(0)),
        descriptors=limits.descriptor_limit(),
        most_descriptors=limits.descriptor_limit(hard=True),
        temporary=Path(tempfile.gettempdir()),
        short_sockets=hasattr(util, "_get_base_temp_dir"),
        include=Path(sysconfig.get_paths()["include"]),
        python=".".join(map(str, sys.version_info[:3])),
        earlier=earlier,
        later=later,
        versions=dict(machine.versions(_LIBRARIES)),
        pair=_required_by_torchvision(),
        answers=answers,
        late=late,
        smi=smi,
    )


def _age_s() -> float:
    """Seconds since this process was started."""
    age_s = time.time() - psutil.Process().create_time()
    return age_s if 0 <= age_s <= _LATEST_START_S else _START_S


def left_s(spent_s: float) -> float:
    """The seconds that other programs get, so that all takes WHOLE_S although so many are spent."""
    return max(_LEAST_S, WHOLE_S - _AFTER_S - spent_s)


def said(told: Sequence[Answer | None], deadline_s: float) -> tuple[dict[str, dict[str, Any]], dict[str, float]]:
    """What each part of the probe said of its libraries, and the seconds that those had that were too late."""
    answers: dict[str, dict[str, Any]] = {}
    late: dict[str, float] = {}
    for names, one in zip(probe.PARTS, told, strict=True):
        if one is not None:
            answers |= probe.answers(one.text)
            late |= dict.fromkeys(names, deadline_s) if one.status is None else {}
    return answers, late


def _required_by_torchvision() -> tuple[str, ...]:
    with contextlib.suppress(metadata.PackageNotFoundError):
        return tuple(metadata.requires("torchvision") or ())
    return ()
