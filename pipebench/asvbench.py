"""Base classes for an asv suite over the lab's registry, here and in another repository.

    from pipebench import asvbench

    class DecodeRGB(asvbench.Task):
        task = "decode/rgb"
        calls = 2

gives one benchmark with a parameter set for each registered variant. A variant that cannot run here comes out as n/a.
"""

from __future__ import annotations

import atexit
import functools
from typing import Any, ClassVar

from pipebench import stage
from pipebench.errors import PipebenchError
from pipebench.runner import Runners
from pipebench.stage import Unavailable, Workload

BATCH_SIZE = 64


class Task:
    """Times a fixed block of work of each variant of `task`: `calls` calls, 20 ms or more with the fastest variant.

    asv's figure is seconds per block. The work of a block is part of what is tracked: change `version` with it.
    """

    task: ClassVar[str]
    calls: ClassVar[int] = 1
    data: ClassVar[tuple[str, ...]] = ("photos",)
    version: str = "1"
    number = 1
    rounds = 2
    repeat = (3, 10, 4.0)
    warmup_time = 0.1
    timeout = 120
    params: ClassVar[tuple[list[str], list[str]]]
    param_names: ClassVar[tuple[str, str]] = ("variant", "data")

    def __init_subclass__(cls, **_: Any) -> None:
        names = [one.name for one in stage.variants(cls.task) if one.name != "pillow-simd"]
        cls.params = (names, list(cls.data))
        cls.pretty_name = f"{cls.task}, {cls.calls} calls"

    pretty_name: ClassVar[str]

    def setup(self, variant: str, data: str) -> None:
        """Loads and arms once a process; raises `NotImplementedError`, asv's word for n/a, where it cannot run."""
        self._identity = f"{self.task}/{variant}"
        self._runner = armed(self._identity, data)

    def time_block(self, variant: str, data: str) -> None:
        self._runner.reading(self._identity, self.calls)


class TaskWithMemory(Task):
    """Also the peak memory of the process, for tasks where variants differ in what they hold."""

    task = "crop/fixed-256"

    def peakmem_block(self, variant: str, data: str) -> None:
        self._runner.reading(self._identity, self.calls)


@functools.cache
def _runners() -> Runners:
    runners = Runners()
    atexit.register(runners.__exit__)
    return runners


@functools.cache
def armed(identity: str, data: str) -> Any:
    """The runner of a variant, with its inputs loaded and one call made."""
    try:
        definition, variant = stage.find(identity)
        runner = _runners().of(variant)
    except (PipebenchError, Unavailable) as missing:
        raise NotImplementedError(str(missing)) from missing
    workload = definition.adapt(Workload(data=data, batch_size=BATCH_SIZE, quick=True))
    prepared = runner.prepare(identity, workload)
    if prepared.skip_code:
        raise NotImplementedError(prepared.skip_reason)
    keys = tuple(key for group in definition.groups(workload) for key in group)
    runner.arm(identity, workload, keys[: definition.per_call(workload)])
    return runner
