"""Finds out which rank this process is, if several processes train together, and when it waits for the others."""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from pipebench.watch.record.patches import unseen
from pipebench.watch.record.program_lines import RankFound
from pipebench.watch.script.backward import compiling
from pipebench.watch.script.own_steps import OwnTime
from pipebench.watch.script.phases import LoopPhases

PROCESS_GROUP = "torch.distributed.distributed_c10d"
COLLECTIVES = (
    "all_gather", "all_gather_into_tensor", "all_gather_object", "all_reduce", "all_to_all", "all_to_all_single",
    "barrier", "broadcast", "broadcast_object_list", "gather", "gather_object", "monitored_barrier", "reduce",
    "reduce_scatter", "reduce_scatter_tensor", "scatter", "scatter_object_list",
)  # fmt: skip
_HANDLE = "Work"  # what a collective with `async_op=True` returns, and what `isend` and `irecv` do
_PARALLEL, _BUFFERS = "torch.nn.parallel.distributed", "_sync_buffers"
_MEETING = ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT")


def from_environment(names: Mapping[str, str] = os.environ) -> RankFound | None:
    """The rank that a launcher, such as torchrun, has given this process by RANK and WORLD_SIZE; None if it has not."""
    try:
        return _found(int(names["RANK"]), int(names["WORLD_SIZE"]), names)
    except (KeyError, ValueError):
        return None


def present() -> RankFound | None:
    """Which rank this process is now: by its process group, else by its launcher. None: it trains alone."""
    module = sys.modules.get(PROCESS_GROUP)
    if module is not None and module.is_initialized():
        found: RankFound | None = _found(module.get_rank(), module.get_world_size(), os.environ)
    else:
        found = from_environment()
    return found if found is not None and found.of > 1 else None


def _found(rank: int, of: int, names: Mapping[str, str]) -> RankFound:
    local, here = (_number(names.get(one, "")) for one in ("LOCAL_RANK", "LOCAL_WORLD_SIZE"))
    meeting = " ".join(names.get(one, "") for one in _MEETING)
    return RankFound(rank, of, local, meeting, here)


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def watch_process_group(loop: LoopPhases, module: Any) -> None:
    """Patches `init_process_group`: from then on the rank is known, and collectives are told from its own work."""
    plain, recording = module.init_process_group, loop.recording

    def tell(joined_ns: int) -> None:
        found = _found(module.get_rank(), module.get_world_size(), os.environ)
        found.joined_ns = joined_ns
        recording.write(found)
        if found.of > 1 and loop.own is None and recording.settings.bound is None:  # a replay is no step of its own
            loop.own = OwnTime(recording)
            _watch_collectives(loop, module)

    @unseen
    @functools.wraps(plain)
    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        began = time.perf_counter_ns()
        found = plain(*args, **kwargs)
        if recording.on and recording.pid == os.getpid():
            joined_ns = time.perf_counter_ns() - began
            recording.guarded("finding the rank", lambda: tell(joined_ns))
        return found

    recording.patches.replace(module, "init_process_group", init_process_group)


def _watch_collectives(loop: LoopPhases, module: Any) -> None:
    """Patches the collectives, and where the host waits for one that was started before.

    Also the step in which DistributedDataParallel sends buffers from one rank to all.
    """
    patches = loop.recording.patches
    for name in COLLECTIVES:
        if hasattr(module, name):
            patches.replace(module, name, _met(loop, getattr(module, name)))
    parallel = getattr(sys.modules.get(_PARALLEL), "DistributedDataParallel", None)
    for kind, name in ((parallel, _BUFFERS), (getattr(module, _HANDLE, None), "wait")):
        if hasattr(kind, name):
            patches.replace(kind, name, _met(loop, getattr(kind, name)))
    patches.rebind()


def _met(loop: LoopPhases, plain: Callable[..., Any]) -> Callable[..., Any]:
    @unseen
    @functools.wraps(plain)
    def collective(*args: Any, **kwargs: Any) -> Any:
        own = loop.own
        if own is None or compiling() or not loop.here.main:
            return plain(*args, **kwargs)
        own.meets()
        try:
            return plain(*args, **kwargs)
        finally:
            own.met()

    return collective
