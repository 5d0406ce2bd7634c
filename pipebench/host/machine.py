"""Facts about this host: the resources that it may use, its load, and the versions of its libraries."""

from __future__ import annotations

import contextlib
import os
import platform
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from pipebench.errors import PipebenchError
from pipebench.host import cgroups, identity, private
from pipebench.units import printable

LIBRARIES = (
    "torch", "torchvision", "pillow", "opencv-python", "numpy", "scipy", "simplejpeg", "torchcodec", "webdataset",
)  # fmt: skip
FOREIGN_LIMIT = 0.10  # of one core: above it, the work of other processes can hide a 10 % difference
STEAL_LIMIT = 0.02


@dataclass(frozen=True)
class Machine:
    """The facts about the host that a reader of a report needs to judge its figures.

    `identity` has digests of its lasting numbers (see `host/identity.py`): a name can be another at each start.
    """

    host: str
    system: str
    python: str
    cpu: str
    usable_cores: float
    memory_bytes: int
    last_level_cache_bytes: int
    storage: str
    device: str | None
    start_method: str
    libraries: dict[str, str] = field(default_factory=dict)
    identity: dict[str, str] = field(default_factory=dict)


def cache_folder() -> Path:
    """The folder for everything that pipebench builds. If it does not exist, it is made for this user alone.

    It is `$PIPEBENCH_CACHE` if set, else `pipebench` in `$XDG_CACHE_HOME` or in `~/.cache`. Raises PipebenchError if
    somebody else could change what lies in it, or if this user has no home.
    """
    place = _cache_place()
    with contextlib.suppress(OSError):  # who writes there says what is wrong
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
    return private.trusted(place)


def _cache_place() -> Path:
    chosen = os.environ.get("PIPEBENCH_CACHE")
    if chosen:
        return Path(chosen)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pipebench"
    except RuntimeError as error:  # as in a container whose user the system does not know
        raise PipebenchError(
            "there is no cache, because this user has no home", "set PIPEBENCH_CACHE to a folder of your own"
        ) from error


def calibration_file() -> Path:
    """Where the calibration of this host is kept, if there is one."""
    return cache_folder() / "calibration" / f"{platform.node() or 'host'}.json"


def describe(storage_of: Path | None = None) -> Machine:
    """The facts about this host now.

    `device` is None if torch is not imported already, because importing it takes seconds.
    """
    return Machine(
        host=platform.node(),
        system=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        cpu=_cpu_model(),
        usable_cores=usable_cores(),
        memory_bytes=memory_bytes(),
        last_level_cache_bytes=last_level_cache_bytes(),
        storage=_storage_of_cache() if storage_of is None else storage(storage_of),
        device=_device(),
        start_method=_start_method(),
        libraries=dict(versions(LIBRARIES)),
        identity=identity.digests(root_storage=storage(Path("/"))),
    )


def usable_cores(root: Path = cgroups.ROOT) -> float:
    """The number of cores that this process may use: the smaller of its affinity and the CPU quota of its cgroups.

    It may be a fraction.
    """
    return min(float(len(os.sched_getaffinity(0))), cgroups.cpu_quota(root))


def memory_bytes(root: Path = cgroups.ROOT) -> int:
    """The bytes of physical memory, or the tightest limit of the cgroups if that is smaller."""
    total, limit = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), cgroups.memory(root)
    return total if limit is None else min(total, limit[0])


def last_level_cache_bytes() -> int:
    """The size of the largest CPU cache in bytes; 0 if the system does not say."""
    sizes = [0]
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        with contextlib.suppress(OSError, ValueError):
            text = _read(path)
            sizes.append(int(text.rstrip("KM")) * {"K": 1024, "M": 1 << 20}.get(text[-1], 1))
    return max(sizes)


def storage(path: Path) -> str:
    """The file system and device that hold `path` or its nearest existing parent, such as `ext4 on /dev/sda1`."""
    found = None
    with contextlib.suppress(OSError):
        found = mount_of(path.resolve(), _read(Path("/proc/self/mountinfo")))
    return printable(f"{found.kind} on {found.source}") if found is not None else "unknown"


def _storage_of_cache() -> str:
    with contextlib.suppress(PipebenchError):
        return storage(_cache_place())
    return "unknown"


@dataclass(frozen=True)
class Mount:
    """A mounted file system. `device` is its number as the kernel writes it, such as `8:1`."""

    kind: str
    source: str
    device: str


def mount_of(path: Path, mountinfo: str) -> Mount | None:
    """The mount that holds `path`: of those above it the deepest, and of these the last (proc_pid_mountinfo(5))."""
    best: tuple[int, Mount] | None = None
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        point = Path(_unescaped(left.split()[4]))
        if path.is_relative_to(point) and (best is None or len(point.parts) >= best[0]):
            kind, source = right.split(" ")[:2]
            best = len(point.parts), Mount(kind, _unescaped(source), left.split()[2])
    return best[1] if best is not None else None


def _unescaped(path: str) -> str:
    for code in ("040", "011", "012", "134"):  # blank, tab, line break, backslash: the last one last
        path = path.replace(f"\\{code}", chr(int(code, 8)))
    return path


def _cpu_model() -> str:
    with contextlib.suppress(OSError):
        for line in _read(Path("/proc/cpuinfo")).splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _device() -> str | None:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return None
    return str(torch.cuda.get_device_name())


def _start_method() -> str:
    """The default start method of DataLoader workers in this Python (Linux: fork up to 3.13, then forkserver)."""
    import multiprocessing

    return multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_context().get_start_method()


def versions(libraries: Iterable[str]) -> Iterable[tuple[str, str]]:
    """The installed ones of these libraries, each with its version."""
    from importlib import metadata

    for library in libraries:
        with contextlib.suppress(metadata.PackageNotFoundError):
            yield library, metadata.version(library)


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace").strip()


@dataclass(frozen=True)
class Load:
    """Counters of the host, in seconds since an arbitrary start. Their differences say who else used the CPU.

    `foreign_s` is the time that other processes ran on this host's cores. `steal_s` is the time that the hypervisor
    gave to other guests. `throttled_s` is the time that the cgroup's quota stopped us. All are coarse (ticks of
    10 ms), so only their sums over a whole measurement are useful.
    """

    wall_s: float = 0.0
    busy_s: float = 0.0
    steal_s: float = 0.0
    own_s: float = 0.0
    throttled_s: float = 0.0

    @property
    def foreign_s(self) -> float:
        return max(0.0, self.busy_s - self.own_s)

    def __sub__(self, earlier: Load) -> Load:
        return Load(
            self.wall_s - earlier.wall_s,
            self.busy_s - earlier.busy_s,
            self.steal_s - earlier.steal_s,
            self.own_s - earlier.own_s,
            self.throttled_s - earlier.throttled_s,
        )

    def __add__(self, other: Load) -> Load:
        return Load(
            self.wall_s + other.wall_s,
            self.busy_s + other.busy_s,
            self.steal_s + other.steal_s,
            self.own_s + other.own_s,
            self.throttled_s + other.throttled_s,
        )


def read_load(children: Iterable[int] = ()) -> Load:
    """The host's counters now. `children` are process ids that count as ours. All are 0 if they cannot be read."""
    import psutil  # imported late, because watched scripts import this module in their own processes

    try:
        host = psutil.cpu_times()
    except OSError:
        return Load()
    own = os.times()
    own_s = own.user + own.system
    for pid in children:
        with contextlib.suppress(psutil.Error):
            child = psutil.Process(pid).cpu_times()
            own_s += child.user + child.system
    busy_s = host.user + host.nice + host.system + host.irq + host.softirq
    return Load(time.monotonic(), busy_s, host.steal, own_s, _throttled_s())


def read_load_of_tree() -> Load:
    """The host's counters now. Children of this process that have ended, and theirs, count as ours.

    A process counts from the moment at which its parent has waited for it. One whose parent ended first never counts.
    """
    load, times = read_load(), os.times()
    return replace(load, own_s=load.own_s + times.children_user + times.children_system)


def _throttled_s() -> float:
    """How long a quota has stopped this process's cgroups so far: of several, the one that was stopped longest."""
    longest = 0.0
    for path in cgroups.files("cpu", "cpu.stat"):
        with contextlib.suppress(OSError):
            known = cgroups.counts(_read(path))
            longest = max(longest, known.get("throttled_usec", 0) * 1e-6, known.get("throttled_time", 0) * 1e-9)
    return longest
