"""A collate function that uses its shared batches again, and never while anyone still holds one of them.

In a worker, `default_collate` makes each batch in new shared memory. The kernel must find, clear and map new pages for
it, which takes several times as long as copying the samples. A ring keeps a few blocks of shared memory instead.

A block is free when the last reference to its batch is gone, in every process. The kernel keeps that count. Each batch
is mapped through an open file of its own, which carries a shared `flock`. torch passes exactly this open file on to
other processes, a fork inherits it, and every mapping holds it. The lock ends with the last of them, also in a process
that was killed (flock(2): "the lock is released ... when all such file descriptors have been closed"). A block is free
if an exclusive lock on it succeeds at once.
"""

from __future__ import annotations

import functools
import itertools
import math
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

# A tensor in a block of a type and shape, which the function was given to write; None if there is no block for it.
Filled = Callable[[Any, tuple[int, ...], Callable[[Any], object]], Any]

SMALLEST = 1 << 16  # bytes; a smaller batch, such as labels, is left to `default_collate`


class RingCollate:
    """`default_collate` into a few blocks of shared memory that are used again: `DataLoader(collate_fn=RingCollate())`.

    The batches have the values, types and shapes of `default_collate`. A block is used again only when the last
    reference to its batch is gone in every process, views included. If no block is free, the batch gets new memory. So
    it never waits, and a batch that was handed out never changes.

    For each tensor of a batch, a worker keeps at most `prefetch_factor + 2` blocks: those that it makes ahead, and two
    that the training loop holds. `prefetch_factor` is that of the DataLoader. A batch that has less than 64 KiB or is
    not a plain tensor on the CPU gets new memory too. So do all batches where the sharing strategy of
    torch.multiprocessing is not "file_descriptor" (Linux's default), and where the system has no /proc.
    """

    def __init__(self, prefetch_factor: int = 2) -> None:
        self.prefetch_factor = prefetch_factor
        self._blocks = _Blocks(prefetch_factor + 2)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_blocks"}  # those belong to one process

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _blocks=_Blocks(state["prefetch_factor"] + 2))

    def __call__(self, samples: Sequence[Any]) -> Any:
        """One batch of `samples`: tensors, arrays, numbers, texts, and dicts, tuples and lists of these."""
        from torch.utils.data._utils.collate import collate, default_collate_fn_map

        if self._blocks.process != os.getpid():  # a fork must not lend its parent's blocks
            self._blocks = _Blocks(self.prefetch_factor + 2)
        ways = self._ways(functools.partial(self._blocks.filled, itertools.count()))
        return collate(samples, collate_fn_map={**default_collate_fn_map, **ways})

    def _ways(self, filled: Filled) -> dict[Any, Callable[..., Any]]:
        """How samples of a type become a batch, for the types that go into blocks."""
        import torch
        from torch.utils.data._utils.collate import default_collate_fn_map

        def tensors(batch: list[Any], *, collate_fn_map: Any = None) -> Any:
            first, made = batch[0], None
            if all(_plain(one) and one.dtype == first.dtype for one in batch):
                made = filled(first.dtype, (len(batch), *first.shape), lambda out: torch.stack(batch, out=out))
            usual = default_collate_fn_map[torch.Tensor]
            return made if made is not None else usual(batch, collate_fn_map=collate_fn_map)

        return {torch.Tensor: tensors}


class _Blocks:
    """The blocks of one process: at most `most` for each place of a tensor in a batch."""

    def __init__(self, most: int) -> None:
        self.process = os.getpid()
        self._most = most
        self._places: dict[int, list[_Block]] = {}
        self._lending = threading.Lock()  # threads of one process share its locks on files

    def filled(self, places: Iterator[int], dtype: Any, shape: tuple[int, ...], fill: Callable[[Any], object]) -> Any:
        """A tensor in a block, which `fill` was given to write; None if no block can be lent for it.

        The block is that of the next of `places`. If `fill` fails, it is free again at once, also while the error and
        the frames that it went through are kept.
        """
        place, size = next(places), math.prod(shape) * dtype.itemsize
        if size < SMALLEST or _strategy() != "file_descriptor":
            return None
        try:
            with self._lending:
                block, lent = self._lend(self._places.setdefault(place, []), size)
        except (ImportError, OSError, RuntimeError):  # no fcntl or /proc, no descriptor or shared memory left
            return None
        if block is None:
            return None
        try:
            fill(_tensor(block.memory, dtype, shape))
        except BaseException:
            del lent
            raise
        return _tensor(lent, dtype, shape)

    def _lend(self, blocks: list[_Block], size: int) -> tuple[_Block | None, Any]:
        """A free block of at least `size` bytes, and its memory for one batch. Makes a block if that is allowed."""
        free: Iterator[_Block] = (one for one in blocks if one.free)
        small = None
        for block in free:
            if block.size >= size:
                return block, block.lend(size)
            small = block
        if len(blocks) >= self._most:
            if small is None:
                return None, None
            blocks.remove(small)
        made = _Block(size)
        lent = made.lend(size)
        blocks.append(made)
        return made, lent


class _Block:
    """Shared memory, mapped once for writing. Batches have mappings of their own, each through its own open file."""

    def __init__(self, size: int) -> None:
        import torch

        self.size = size
        self.memory = torch.UntypedStorage._new_using_fd_cpu(size)
        self._file: int = self.memory._share_fd_cpu_()[0]  # open as long as `memory` is

    @property
    def free(self) -> bool:
        """Whether no batch in this block is alive in any process."""
        import fcntl

        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        fcntl.flock(self._file, fcntl.LOCK_UN)
        return True

    def lend(self, size: int) -> Any:
        """The storage of one batch: the block's first `size` bytes. The block is not free as long as it lives."""
        import fcntl

        import torch

        file = os.open(f"/proc/self/fd/{self._file}", os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            storage: Any = torch.UntypedStorage
            return storage._new_shared_fd_cpu(file, size)  # it duplicates the descriptor
        finally:
            os.close(file)


def new_memory(dtype: Any, shape: tuple[int, ...]) -> Any:
    """An empty tensor where `default_collate` makes a batch: in a worker in shared memory, else in ordinary memory."""
    import torch

    if torch.utils.data.get_worker_info() is None:
        return torch.empty(shape, dtype=dtype)
    memory: Any = torch.UntypedStorage
    return _tensor(memory._new_shared(math.prod(shape) * dtype.itemsize, device="cpu"), dtype, shape)


def _plain(sample: Any) -> bool:
    import torch

    return (
        type(sample) is torch.Tensor
        and sample.layout is torch.strided
        and sample.device.type == "cpu"
        and not sample.is_nested
        and not sample.requires_grad
    )


def _strategy() -> str:
    """How torch shares memory with other processes: by passing on an open file, or by a file's name."""
    import torch

    return torch.multiprocessing.get_sharing_strategy()  # type: ignore[no-untyped-call,no-any-return]


def _tensor(memory: Any, dtype: Any, shape: tuple[int, ...]) -> Any:
    """A contiguous tensor at the beginning of `memory`."""
    import torch

    empty: Any = torch.empty(0, dtype=dtype, device="cpu")
    return empty.set_(memory, 0, shape)
