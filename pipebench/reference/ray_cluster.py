"""A Ray cluster: one of our own on this machine, or one that is there. Its nodes, and passes over the data on it."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipebench.errors import PipebenchError, install, said_by
from pipebench.reference.ray_work import Work, make
from pipebench.results.engine import Node
from pipebench.units import printable, size

_STORE_BYTES = 512 << 20  # of objects: at least so many; Ray would take 30 % of the memory
_HELD = 64  # batches for which the store has room
_SOCKET_NAME = 107  # bytes that the path of a Unix socket may have (unix(7))
_OF_SESSION = len("/session_2026-01-01_00-00-00_000000_4194304/sockets/plasma_store")
_CAUSED = "The above exception was the direct cause"  # the words of Python between two tracebacks
_RAISED = re.compile(r"[\w.]+(Error|Exception|Interrupt)\b")
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",  # else Ray reports its use to its makers
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",  # else workers below `uv run` build an environment of their own
    "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # else Ray warns that it will leave CUDA_VISIBLE_DEVICES alone
}


@dataclass
class Cluster:
    """A cluster to which this process is connected. `notes` say what is odd about it."""

    local: bool
    library: str
    notes: list[str] = field(default_factory=list)
    _seen: dict[str, Node] = field(default_factory=dict)

    def look(self) -> tuple[Node, ...]:
        """All nodes that were ever seen, the lost ones included."""
        import ray

        here = ray.get_runtime_context().get_node_id()
        alive = {}
        for one in ray.nodes():
            if one.get("Alive"):
                name = str(one.get("NodeID"))
                alive[name] = Node(float(one.get("Resources", {}).get("CPU", 0.0)), trainer=name == here)
        lost = {name: Node(one.cores, one.trainer, True) for name, one in self._seen.items() if name not in alive}
        self._seen = {**self._seen, **alive, **lost}
        return tuple(self._seen.values())

    @property
    def cores(self) -> float:
        """Of all nodes that are there."""
        return sum(one.cores for one in self.look() if not one.lost)


@contextlib.contextmanager
def connected(address: str | None, cores: int, batch_bytes: int, folder: Path) -> Iterator[Cluster]:
    """A cluster of our own with so many cores on this machine, or the one at an address. It is ended or left.

    What a cluster of our own writes is in `folder`, if the paths of sockets are short enough there; else in /tmp/ray.

    Raises `PipebenchError` if there is none, or if it has no core.
    """
    os.environ.update(_QUIET)
    try:
        import ray
        import ray.data
    except Exception as error:  # what a broken or partial installation raises is anything
        said = printable(said_by(error) or type(error).__name__)[:300]
        raise PipebenchError(f"Ray Data cannot be imported: {said}", install("lab,ray")) from error
    _silence()
    with contextlib.ExitStack() as stack:
        found = Cluster(address is None, f"Ray Data {ray.__version__}")
        how: dict[str, Any] = {"address": address}
        if address is None:
            how = {"address": "local", **_own(cores, batch_bytes, folder, found.notes)}
        try:
            stack.callback(ray.shutdown)
            ray.init(log_to_driver=False, logging_level=logging.ERROR, **how)
        except Exception as error:  # of many kinds, also plain RuntimeError
            raise _not_started(address, error) from error
        _silence()
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        if not found.cores >= 1:
            raise PipebenchError(
                "the cluster has no CPU, so nothing would ever run on it",
                "add a node with some: ray start --address HOST:6379",
            )
        yield found


def _own(cores: int, batch_bytes: int, folder: Path, notes: list[str]) -> dict[str, Any]:
    """The settings of a cluster on this machine: its cores, its memory for objects, and its folder."""
    store = max(_STORE_BYTES, _HELD * batch_bytes)
    free = shutil.disk_usage("/dev/shm").free if Path("/dev/shm").is_dir() else 0
    if free < store:
        notes.append(
            f"/dev/shm has {size(free)} free, less than the {size(store)} for Ray's objects, so these lie in files: "
            "give a container more (--shm-size)"
        )
    place = str(folder) if len(str(folder)) + _OF_SESSION <= _SOCKET_NAME else "/tmp/ray"  # its own choice is $TMPDIR
    return {"num_cpus": cores, "include_dashboard": False, "object_store_memory": store, "_temp_dir": place}


def _not_started(address: str | None, error: Exception) -> PipebenchError:
    said = printable(said_by(error) or type(error).__name__)[:300]
    if address is None:
        return PipebenchError(f"Ray did not start: {said}", "`ray stop` ends what an earlier Ray has left; try again")
    return PipebenchError(
        f"the Ray cluster at {printable(address)} did not take this process: {said}",
        "this machine must be a node of it (ray start --address HOST:6379), with the same Ray and the same Python",
    )


def _silence() -> None:
    """Ray's own messages of level INFO and WARNING are about each data set; errors stay."""
    for name in ("ray", "ray.data", "ray.data._internal"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="ray")


def batches(
    work: Work, samples: int, batch_size: int, pin_memory: bool, keep: Callable[[Any], None]
) -> Iterator[dict[str, Any]]:
    """One pass over so many samples: batches of columns (see `ray_work.make`) as tensors.

    `keep` gets the data set when the pass has ended. Raises `PipebenchError` with what Ray says where it fails.
    """
    import ray.data

    def reference_pipeline(block: dict[str, Any]) -> dict[str, Any]:  # its name is that of the operator
        return make(block, work=work)

    blocks = -(-samples // batch_size)
    dataset = ray.data.range(samples, override_num_blocks=blocks).map_batches(
        reference_pipeline, batch_size=batch_size, num_cpus=1
    )
    pinned = {"pin_memory": True} if pin_memory else {}
    try:
        yield from dataset.iter_torch_batches(batch_size=batch_size, prefetch_batches=2, device="cpu", **pinned)
    except Exception as error:  # of many kinds
        raise _failed(error) from error
    keep(dataset)


def _failed(error: Exception) -> PipebenchError:
    """What went wrong in a worker, of the text that Ray passes on: the exception that was the first cause."""
    first = str(error).partition(_CAUSED)[0]
    lines = [one.strip() for one in first.splitlines() if one.strip()]
    named = [one for one in lines if _RAISED.match(one)]
    said = printable((named or lines or [type(error).__name__])[-1])[:300]
    remedy = (
        "install the same pipebench, with its extras lab and ray, on every node; data must have the same path there"
    )
    return PipebenchError(f"Ray Data failed: {said}", remedy)
