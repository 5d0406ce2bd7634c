"""Observes the hand-off inside a worker: the feeder thread of its queue turns a batch into bytes and descriptors."""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
import threading
from collections import deque
from collections.abc import Callable
from time import perf_counter_ns, thread_time_ns
from typing import Any, NamedTuple

from pipebench.watch.record.lines import HandedOver
from pipebench.watch.record.patches import Patches
from pipebench.watch.record.sampling import followed
from pipebench.watch.record.worker_lines import Pickled

_UNDER_WAY = 1024
_COUNTED_EACH = 8  # of the followed batches of a worker: to count doubles what it takes to pickle many small tensors


Counted = tuple[int, int, int, int, int, int, int]
"""Tensors, bytes in shared memory, arrays, bytes of arrays, bytes of no tensor, bytes of float64, and storages."""


class Crossing:
    """Counts the tensors and arrays of one batch while the pickler meets them, so the batch is not walked twice.

    `shared_bytes` is the size of the storages of the tensors, each counted once. `array_bytes` is the size of the NumPy
    arrays, which are copied through the pipe.
    """

    def __init__(self) -> None:
        self.tensors = self.shared_bytes = self.arrays = self.array_bytes = self._double_bytes = self._pieces = 0
        self._storages: dict[int, int] = {}  # those that are copied for this batch; one that is shared already is not
        self._held: dict[int, int] = {}  # bytes of the tensors of each storage
        self._torch: Any = sys.modules.get("torch")
        self._doubles = self._torch is not None and self._torch.get_default_dtype() != self._torch.float64

    def tensor(self, tensor: Any) -> None:
        self.tensors += 1
        with contextlib.suppress(Exception), self._torch._C.DisableTorchFunctionSubclass():
            if tensor.layout != self._torch.strided or tensor.is_nested:
                return  # its parts are tensors that cross as well
            memory = tensor.untyped_storage()
            held = min(tensor.nbytes, memory.nbytes())
            self._held[memory._cdata] = self._held.get(memory._cdata, 0) + held
            self._double_bytes += held * (self._doubles and tensor.dtype == self._torch.float64)

    def storage(self, storage: Any) -> None:
        identity, size = storage._cdata, storage.nbytes()
        if identity not in self._storages:
            self.shared_bytes += size
            self._pieces += size > 0  # an empty one needs no memory
            self._storages[identity] = 0 if storage.is_shared() else size

    def array(self, array: Any) -> None:
        self.arrays += 1
        self.array_bytes += array.nbytes
        self._double_bytes += array.nbytes * (self._doubles and str(array.dtype) == "float64")

    def counted(self) -> Counted:
        viewed = sum(max(0, size - self._held.get(one, size)) for one, size in self._storages.items())
        of_arrays = self.arrays, self.array_bytes
        return self.tensors, self.shared_bytes, *of_arrays, viewed, self._double_bytes, self._pieces


class _Reducers:
    """A proxy of a pickler's table of reducers. It also counts; its reducers return what those of the table would."""

    def __init__(self, table: Any, protocol: int | None, crossing: Crossing) -> None:
        self._table = table
        self._protocol = pickle.DEFAULT_PROTOCOL if protocol is None else protocol
        self._crossing = crossing
        torch: Any = sys.modules.get("torch")
        self._tensor: Any = getattr(torch, "Tensor", None)
        self._storage: Any = getattr(torch, "UntypedStorage", None)
        self._array: Any = getattr(sys.modules.get("numpy"), "ndarray", None)

    def __getitem__(self, kind: type) -> Callable[[Any], Any]:
        if kind is self._array:
            return self._table.get(kind) or self._reduce_array
        if kind not in self._table and self._tensor is not None and issubclass(kind, self._tensor):
            return self._reduce_subclass
        reduce: Callable[[Any], Any] = self._table[kind]
        if self._tensor is None:
            return reduce
        if kind is self._storage:
            return lambda storage: self._reduce_storage(reduce, storage)
        return (lambda tensor: self._reduce_tensor(reduce, tensor)) if issubclass(kind, self._tensor) else reduce

    def _reduce_array(self, array: Any) -> Any:
        self._crossing.array(array)
        return array.__reduce_ex__(self._protocol)

    def _reduce_tensor(self, reduce: Callable[[Any], Any], tensor: Any) -> Any:
        self._crossing.tensor(tensor)
        return reduce(tensor)

    def _reduce_subclass(self, tensor: Any) -> Any:
        """A tensor of a class of a library's own, as fastai's images are. It crosses as its class says."""
        return self._reduce_tensor(lambda one: one.__reduce_ex__(self._protocol), tensor)

    def _reduce_storage(self, reduce: Callable[[Any], Any], storage: Any) -> Any:
        with contextlib.suppress(AttributeError):  # a storage of a torch that names its parts otherwise
            self._crossing.storage(storage)
        return reduce(storage)


class _Fetched(NamedTuple):
    """A batch that the worker made: its pass, its number in the pass, and the moments of its fetch.

    `created_ns` is what the fetcher took before the first batch of a pass: see `HandedOver`.
    """

    number_of_pass: int
    nth: int
    began: int
    done: int
    created_ns: int = 0


class Meter:
    """Adds up what the feeder thread does: wall and CPU time in nanoseconds, and the batches and bytes in the pipe.

    High values mean that a batch consists of many small objects, or of data that torch does not hand over through
    shared memory.
    """

    def __init__(self) -> None:
        self.wall = self.cpu = self.batches = self.bytes = 0
        self.counts: Counted | None = None  # of the last batch that was counted
        self._made: deque[tuple[int, _Fetched]] = deque(maxlen=_UNDER_WAY)
        self._handed: deque[HandedOver] = deque()

    def take(self) -> Pickled:
        taken = Pickled(self.wall, self.cpu, self.batches, self.bytes)
        self.wall = self.cpu = self.batches = self.bytes = 0
        return taken

    def made(self, batch: object, *fetched: int) -> None:
        """Notes the fields of `_Fetched` of a `batch` that was just made. The feeder thread will pickle it soon."""
        self._made.append((id(batch), _Fetched(*fetched)))

    def about(self, message: object) -> tuple[int, _Fetched] | None:
        """The task number of a message in the queue, and its fetch; None if it is not a batch that was made here."""
        if type(message) is not tuple or len(message) != 2 or type(message[0]) is not int:
            return None
        sent = message[1]
        if self._made and self._made[0][0] == id(sent):  # as nearly always
            return message[0], self._made.popleft()[1]
        wanted = {id(sent), id(sent[0]) if type(sent) is tuple and len(sent) == 3 else 0}  # torchdata adds its state
        for place, (found, fetched) in enumerate(tuple(self._made)):  # a copy: the main thread may append
            if found in wanted:
                for _ in range(place + 1):
                    self._made.popleft()
                return message[0], fetched
        return None

    def counts_of(self, nth: int) -> bool:
        """Whether tensors and arrays are counted in the worker's `nth` batch of a pass."""
        return self.counts is None or nth % _COUNTED_EACH == 0

    def handed(self, line: HandedOver) -> None:
        self._handed.append(line)

    def take_handed(self) -> list[HandedOver]:
        return [self._handed.popleft() for _ in range(len(self._handed))]


meter = Meter()


def watch_queue(patches: Patches) -> None:
    """Patches the queues of this process to time their pickling. A worker has one queue, to the script."""
    module: Any = sys.modules["multiprocessing.queues"]
    plain: Any = module._ForkingPickler
    pid = os.getpid()

    class Counting(plain):  # type: ignore[misc]  # the base class is known only at run time
        def __init__(self, crossing: Crossing, file: Any, protocol: Any = None) -> None:
            super().__init__(file, protocol)
            self.dispatch_table: Any = _Reducers(self.dispatch_table, protocol, crossing)

    class Timed(plain):  # type: ignore[misc]  # the same
        @classmethod
        def dumps(cls, obj: Any, protocol: Any = None) -> Any:
            batch = meter.about(obj) if os.getpid() == pid else None
            if batch is None:  # the end of a pass, or a message in a queue of the user's own
                return plain.dumps(obj, protocol)
            task, fetched = batch
            follows = followed(task, fetched.number_of_pass)
            crossing = Crossing() if follows and meter.counts_of(fetched.nth) else None
            cpu = thread_time_ns()
            began = perf_counter_ns()
            data = plain.dumps(obj, protocol) if crossing is None else counted(crossing, obj, protocol)
            ended = perf_counter_ns()
            meter.cpu += thread_time_ns() - cpu
            meter.wall += ended - began
            meter.batches += 1
            meter.bytes += len(data)
            if crossing is not None:
                meter.counts = crossing.counted()
            if follows and meter.counts is not None:
                sent = began, ended, threading.get_native_id(), len(data)
                meter.handed(HandedOver(task, *fetched[:4], *sent, *meter.counts, fetched.created_ns))
            return data

    def counted(crossing: Crossing, obj: Any, protocol: Any) -> Any:
        return plain.dumps.__func__(lambda file, protocol: Counting(crossing, file, protocol), obj, protocol)

    patches.replace(module, "_ForkingPickler", Timed)
