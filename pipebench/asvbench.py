"""Base classes for an asv suite: for the lab's registry here, for a user's own loader in another repository.

    from pipebench import asvbench

    class Read(asvbench.Read):
        own = asvbench.own(__file__)

A benchmark's figure is seconds per sample, whatever the number of calls in a block. As in asv, larger is worse. This
module measures older commits too: it imports nothing of pipebench until a benchmark is set up, and what a commit lacks
is n/a there, not a failure. Parameters are names and come from the suite that runs: asv passes positions, and in
another commit a position would mean another variant.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import importlib.util
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

BLOCK_S = 0.020
BATCH_SIZE = 64
ALL = os.environ.get("PIPEBENCH_SUITE") == "all"  # every row; without it the long view, a few rows a stage
DEVICES = ("/dev/nvidiactl", "/dev/dxg")  # an NVIDIA driver's: looking for them initialises nothing
PILLOW = "PIPEBENCH_PIL"  # stock or simd: the Pillow of this process, chosen by the suite's `__init__`
MISSING = (ImportError, AttributeError, KeyError)  # raised when a commit lacks a module, a name or a variant


def _other_commits() -> Any:
    """The module `compare/other_commits.py` of this tree, even if an older pipebench is installed."""
    path = Path(__file__).absolute().parent / "compare" / "other_commits.py"
    found: Any = importlib.util.spec_from_file_location("pipebench_other_commits", path)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


module: Callable[[str], Any] = _other_commits().module  # a module of pipebench in the commit that is measured
MANIFESTS: dict[str, Any] = {}  # the parsed manifest of each data set; the suite's `__init__` fills it in


def workload_version(data: Sequence[str], *knobs: object) -> str:
    """asv's `version` of a benchmark. It changes with the measured samples and settings, not with the code."""
    images = {name: {key: value for key, value in MANIFESTS.get(name, {}).items() if key != "title"} for name in data}
    return hashlib.sha256(json.dumps([images, *map(str, knobs)], sort_keys=True).encode()).hexdigest()[:12]


def detail(benchmark: Any) -> Any:
    """Decorates a class or a method that is not in the long view: asv collects it only where every row is asked for."""
    return benchmark if ALL else None


def on_device(benchmark: Any) -> Any:
    """Decorates a class that needs a CUDA device: asv collects it where there is one, or every row is asked for."""
    return benchmark if ALL or any(map(os.path.exists, DEVICES)) else None


def few(everything: list[Any], long_view: Sequence[Any]) -> list[Any]:
    """The values of a parameter: those of the long view, or `everything`, in its order, where that is asked for."""
    return [value for value in everything if ALL or value in long_view]


class PerSample:
    """Times blocks of calls. Each block advances the timer that asv reads by the block's seconds per sample."""

    number = 1
    rounds = 2
    repeat = (3, 10, 2.0)
    warmup_time = 0.05
    timeout = 120
    version: str
    _elapsed = 0.0

    def timer(self) -> float:
        """asv's clock for this benchmark. It advances only in `time_sample`."""
        return self._elapsed

    def _arm(self, runner: Any, identity: str, work: Any) -> None:
        """Sets the size of a block: enough calls for `BLOCK_S`, judged by the fastest of three."""
        self._runner, self._identity, self._samples = runner, identity, work.samples
        once = min(runner.reading(identity, 1)[0] for _ in range(3))
        self._calls = max(1, round(BLOCK_S / max(once, 1e-9)))

    def _block(self) -> None:
        seconds, _ = self._runner.reading(self._identity, self._calls)
        self._elapsed += seconds / (self._calls * self._samples)


class Task(PerSample):
    """One task of the registry, with a parameter set for each variant that `variants` names."""

    task: ClassVar[str]
    data: ClassVar[Sequence[str]] = ("photos",)
    variants: ClassVar[dict[str, list[str]]] = {}  # the variants of each task; the suite's `__init__` fills it in
    size: ClassVar[str] = "original"  # the size of the output image, shown to readers of asv's pages
    long_view: ClassVar[Sequence[str]] = ()  # the variants that asv measures unless every row is asked for
    device: ClassVar[str] = "cpu"  # of the workload; `cuda` for what is n/a without one
    meaning: ClassVar[str] = ""  # set where a benchmark now measures something else: a part of its version
    params: ClassVar[tuple[list[str], list[str], list[str]]]
    param_names: ClassVar[tuple[str, str, str]] = ("variant", "data", "size")
    pretty_name: ClassVar[str]

    def __init_subclass__(cls, **_: Any) -> None:
        if not hasattr(cls, "task"):
            return
        names = [name for name in cls.variants.get(cls.task, []) if name != "pillow-simd"]
        cls.params = (few(names, cls.long_view or names), list(cls.data), [cls.size])
        meaning = [cls.meaning] if cls.meaning else []
        cls.version = workload_version(cls.data, cls.task, cls.size, BATCH_SIZE, *meaning)
        cls.pretty_name = f"{cls.task}, seconds per sample"

    def setup(self, variant: str, data: str, size: str) -> None:
        """Loads and arms once in each process. Raises `NotImplementedError`, asv's sign for n/a, if it cannot run."""
        runner, work = armed(f"{self.task}/{variant}", data, self.device)
        if not hasattr(self, "_calls"):
            self._arm(runner, f"{self.task}/{variant}", work)

    def time_sample(self, variant: str, data: str, size: str) -> None:
        self._block()


class MemoryTask(Task):
    """Also measures the peak memory of the process, for tasks whose variants hold different amounts of memory."""

    def peakmem_process(self, variant: str, data: str, size: str) -> None:
        self._runner.reading(self._identity, self._calls)


@functools.cache
def _runners() -> Any:
    from pipebench.runner import Runners

    runners = Runners()
    atexit.register(runners.__exit__)
    return runners


@functools.cache
def armed(identity: str, data: str, device: str = "cpu") -> Any:
    """The runner of a variant, with inputs loaded and one call made; and the work of one call."""
    try:
        task = module("task")
        definition, variant = _found(module("stage"), identity)
        runner = _runners().of(variant)
    except MISSING as missing:
        raise NotImplementedError(f"this commit has no {identity}: {missing}") from missing
    except task.Unavailable as missing:
        raise NotImplementedError(str(missing)) from missing
    workload = definition.adapt(task.Workload(data=data, batch_size=BATCH_SIZE, device=device, quick=True))
    prepared = runner.prepare(identity, workload)
    if prepared.skip_code:
        raise NotImplementedError(prepared.skip_reason)
    _same_pillow(prepared.library or "")
    keys = tuple(key for group in definition.groups(workload) for key in group)
    return runner, runner.arm(identity, workload, keys[: definition.per_call(workload)])


def _found(stage: Any, identity: str) -> Any:
    """The task and variant. Raises `KeyError` if this commit does not have them."""
    try:
        return stage.find(identity)
    except Exception as missing:
        if type(missing).__name__ != "PipebenchError":
            raise
        raise KeyError(identity) from missing


def uses_pillow(does: bool) -> None:
    """Raises NotImplementedError in the column of pillow-simd, unless a row uses Pillow and this is pillow-simd."""
    library = ""
    if does:
        import PIL

        library = f"{'pillow-simd' if 'post' in PIL.__version__ else 'Pillow'} {PIL.__version__}"
    _same_pillow(library)


def _same_pillow(library: str) -> None:
    """In the column of pillow-simd, measures only what uses Pillow, and makes sure that this is pillow-simd."""
    if os.environ.get(PILLOW) != "simd":
        return
    if not library.startswith(("Pillow", "pillow-simd")):
        raise NotImplementedError("it does not use Pillow: see the column of the stock build")
    if not library.startswith("pillow-simd"):
        raise NotImplementedError(f"PIL is {library}: build pillow-simd with `pipebench build pillow-simd`{_why_not()}")


def _why_not() -> str:
    """The output of a failed build, kept by `tools/ensure_simd.py`."""
    with contextlib.suppress(Exception):  # no such file, or a cache that is not to be trusted
        kept: Path = module("host.machine").cache_folder() / "pillow-simd.failed"
        return "\n" + kept.read_text(encoding="utf-8")
    return ""


def own(benchmark_file: str) -> Any:
    """The settings of the repository's own loader, from `pipebench.toml` beside the folder of the benchmarks."""
    own_loader = module("compare.users_loader")
    return own_loader.load(Path(benchmark_file).absolute().parent.parent / own_loader.CONFIG)


class _OwnBenchmark(PerSample):
    """A benchmark of a user's own loader; `own` holds the contents of `pipebench.toml`."""

    own: ClassVar[Any]
    kind: ClassVar[str]
    version = "1"

    def setup(self, name: str = "") -> None:
        if hasattr(self, "_calls"):
            return
        identity = f"{self.kind}/own/{self._name(name)}"
        runner, work = _own_armed(self.own, identity)
        self._arm(runner, identity, work)

    @staticmethod
    def _name(name: Any) -> str:
        return str(name)


@functools.cache
def _own_armed(settings: Any, identity: str) -> Any:
    from pipebench.runner import LocalRunner

    own_loader, workload = module("compare.users_loader"), module("task").Workload(data="own")
    runner = LocalRunner(find=own_loader.finder(settings))
    prepared = runner.prepare(identity, workload)
    if prepared.skip_code:
        raise NotImplementedError(prepared.skip_reason)
    return runner, runner.arm(identity, workload, ("own",))


class Read(_OwnBenchmark):
    """The cost of a sample without its transform: reading, and decoding if the dataset decodes."""

    kind, version = "read", "2"
    pretty_name = "read, seconds per sample"

    def time_sample(self) -> None:
        self._block()

    @staticmethod
    def _name(name: Any) -> str:
        return "sample"


class Transform(_OwnBenchmark):
    """The cost of each step of the transform, and of all steps together."""

    kind = "transform"
    pretty_name = "transform, seconds per sample"
    params: ClassVar[list[str]]
    param_names: ClassVar[list[str]] = ["transform"]

    def __init_subclass__(cls, **_: Any) -> None:
        cls.params = [*cls.own.transforms, "all"] if cls.own.transform else ["all"]

    def time_sample(self, name: str) -> None:
        self._block()


class Collate(_OwnBenchmark):
    """The cost of collating a batch."""

    kind = "collate"
    pretty_name = "collate, seconds per sample"

    def time_sample(self) -> None:
        self._block()

    @staticmethod
    def _name(name: Any) -> str:
        return "batch"


class Loader(_OwnBenchmark):
    """The whole loader by number of workers, in wall seconds per sample: the reciprocal of images per second."""

    kind, version = "loader", "2"
    pretty_name = "loader, seconds per sample"
    params: ClassVar[list[int]]
    param_names: ClassVar[list[str]] = ["workers"]

    def __init_subclass__(cls, **_: Any) -> None:
        cls.params = list(cls.own.workers)

    def time_sample(self, workers: int) -> None:
        self._block()

    @staticmethod
    def _name(name: Any) -> str:
        return f"workers-{name}"
