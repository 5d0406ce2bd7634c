"""What a watched run used of the machine, as plain values in base units."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ThreadPool:
    """The number of threads that a library may use in one process, and the call or variable that sets it.

    `where` is "script" or "workers". A high number alone is harmless, because an unused pool costs nothing.
    """

    where: str
    name: str
    threads: int
    set_with: str


@dataclass(frozen=True)
class HostUse:
    """What the run used of the machine besides time: the highest values seen from outside (None: never seen).

    `pss_bytes` is of the script and its workers together; shared pages count once. `script_*` are of the script's own
    process. `shared_memory_bytes` is the use of /dev/shm by all processes, and `shared_memory_before_bytes` is its use
    at the start. When it is near `shared_memory_size_bytes`, the next batch ends in a bus error. With the
    `sharing_strategy` "file_descriptor", each tensor on its way holds one descriptor. `worker_native_threads` counts
    the threads of a worker besides Python's own that used at least 20 ms and 1 % of its CPU time; the highest count of
    all workers is kept. 0 means that the thread pools of libraries did no work in the workers.

    `foreign_cores` is how many cores of the machine all other processes used on average while the script ran, and
    `own_cores` is how many its own processes used, with ours and those that it waited for. `stolen_cores` is how many
    the hypervisor withheld. If they are high, every wall time holds waits for a core. None:
    not known, as with `--bound` and in a `with` block. Of a rank, the other ranks of its job are none of these: on this
    machine they keep `sibling_cores` busy in their loops, and all `ranks` here share `shared_cores`. `machine_cores`
    counts all cores of the machine. `free_bytes` is the memory that was free at the last look.
    """

    pss_bytes: int | None
    script_pss_bytes: int | None
    script_rss_bytes: int | None
    script_threads: int | None
    script_descriptors: int | None
    descriptor_limit: int | None
    shared_memory_bytes: int | None
    shared_memory_before_bytes: int | None
    shared_memory_size_bytes: int | None
    sharing_strategy: str | None
    worker_native_threads: int | None
    pools: tuple[ThreadPool, ...]
    foreign_cores: float | None = None
    stolen_cores: float | None = None
    machine_cores: int | None = None
    free_bytes: int | None = None
    sibling_cores: float = 0.0
    shared_cores: float | None = None
    ranks: int = 1
    own_cores: float | None = None
