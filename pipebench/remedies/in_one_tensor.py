"""Batches of many small tensors that cross from the workers as one tensor of each type.

torch hands each tensor over in shared memory of its own: a file, a mapping and a descriptor, in the worker and in the
script, which together take some tens of microseconds. The loop pays a part of that outside its waits: it reads the
memory for the first time, and unmaps it when the batch is gone. So a loop without waits is no limit of what is gained.
The script gets the same batch: each tensor is a view of the one that crossed. The user gets the class that was tried.
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Sequence
from multiprocessing.reduction import ForkingPickler
from typing import Any

from pipebench.remedies.seen import WORTH, Seen, hand_off_share
from pipebench.remedies.source import sources
from pipebench.results.advice import Change, Finding, Rewrite
from pipebench.watch.record.patches import Patches
from pipebench.watch.trial.edits import Edit, Refused
from pipebench.watch.trial.memo import same

PLACE = 2
TITLE = "small tensors in one"
COST = "tensors share memory"
LEAST_TENSORS = 32  # of a batch
HOW = (
    "In collate_fn, put tensors of one kind into one (torch.cat, torch.stack), with their",
    "lengths in another, and split them in the loop.",
)
HOW_WRITTEN = (
    "Put the collate function into InOneTensor(...), which `--patch FILE` writes, too.",
    "Copy what is kept or saved, with x.clone(): the small tensors of a batch share memory.",
)


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    found = seen.watched.hand_off
    if tried or not seen.workers or found is None or (found.tensors_per_batch or 0.0) < LEAST_TENSORS:
        return None
    if hand_off_share(seen) < WORTH - 1:
        return None
    rewrites = _rewrites(seen)
    return Change(
        "in_one_tensor", {}, COST, title=TITLE, edits={"in_one_tensor": {}},
        how=HOW_WRITTEN if rewrites else HOW, asked_for=seen.slow_hand_off, rewrites=rewrites, group="collate",
    )  # fmt: skip


def _rewrites(seen: Seen) -> tuple[Rewrite, ...]:
    """The collate function within `InOneTensor(...)`, and its class.

    Nothing if the call does not show it, or if it may be None there: then torch has its own.
    """
    made = seen.made
    for source in sources(seen):
        call = source.call_at(made) if made is not None and source.file == made.file else None
        given = next((one.value for one in call.keywords if one.arg == "collate_fn"), None) if call else None
        if made is None or call is None or given is None:
            continue
        if made.collate is not None or source.is_builtin(given):
            wrapped = source.wrapped(given, given, f"{InOneTensor.__name__}(")
            return (*wrapped, source.defined(InOneTensor, call))
    return ()


class _InOne(Edit):
    def in_worker(self, fetcher: Any, patches: Patches) -> None:
        kind: Any = InOneTensor
        collate, checked = fetcher.collate_fn, list[bool]()

        def checking(samples: Any) -> Any:
            batch = collate(samples)
            if not checked:
                checked.append(True)
                if not _alike(batch, pickle.loads(ForkingPickler.dumps(kind.Sent(batch)))):
                    raise Refused("samples-differ")
            return batch

        fetcher.collate_fn = kind(checking)


edit = _InOne


def _alike(batch: Any, again: Any) -> bool:
    """Whether two batches are equal, also if they hold objects that cannot be compared: by how these are pickled."""
    return same(batch, again) or same(*map(_pickled, (batch, again)))


def _pickled(batch: Any) -> tuple[bytes, list[Any]]:
    """A batch as bytes, with its tensors apart."""
    torch: Any = sys.modules["torch"]
    tensors, text = list[Any](), io.BytesIO()

    class Pickler(pickle.Pickler):
        def persistent_id(self, one: Any) -> int | None:
            if not isinstance(one, torch.Tensor):
                return None
            tensors.append(one)
            return len(tensors)

    Pickler(text).dump(batch)
    return text.getvalue(), tensors


# What follows is written into the user's file, so it needs nothing of this one.


class InOneTensor:
    """This collate function. What it gives crosses from a worker with its small tensors in one of each type."""

    def __init__(self, collate):  # type: ignore[no-untyped-def]
        vars(self)["collated_by"] = collate

    def __getattr__(self, name):  # type: ignore[no-untyped-def]
        if name == "collated_by" or name.startswith("__"):  # while it is made in another process
            raise AttributeError(name)
        return getattr(self.collated_by, name)

    def __setattr__(self, name, value):  # type: ignore[no-untyped-def]
        setattr(self.collated_by, name, value)

    def __call__(self, samples):  # type: ignore[no-untyped-def]
        import torch

        batch = self.collated_by(samples)
        return batch if torch.utils.data.get_worker_info() is None else InOneTensor.Sent(batch)  # type: ignore[no-untyped-call]

    class Sent:
        """A batch on its way: pickled, it is that batch again."""

        def __init__(self, batch):  # type: ignore[no-untyped-def]
            import io
            from multiprocessing.reduction import ForkingPickler

            import torch

            places, by_type, text = {}, {}, io.BytesIO()  # type: ignore[var-annotated]

            def is_small(one):  # type: ignore[no-untyped-def]
                if type(one) is not torch.Tensor or one.layout != torch.strided or one.device.type != "cpu":
                    return False
                plain = not (one.requires_grad or one.is_quantized or one.is_nested or vars(one))
                return plain and one.is_contiguous() and one.nbytes <= 65536

            class Pickler(ForkingPickler):
                def persistent_id(self, one):  # type: ignore[no-untyped-def]
                    if not is_small(one):  # type: ignore[no-untyped-call]
                        return None
                    if id(one) not in places:
                        places[id(one)] = len(places)
                        by_type.setdefault(one.dtype, []).append((places[id(one)], one))
                    return places[id(one)]

            Pickler(text).dump(batch)
            joined, shapes = [], []
            for found in by_type.values():
                parts = []
                for _, one in found:
                    parts += [one.reshape(-1), one.new_zeros(-one.numel() % (16 // one.itemsize))]
                joined.append(torch.cat(parts))
                shapes.append([(place, tuple(one.shape)) for place, one in found])
            self.parts = text.getvalue(), joined, shapes

        def __reduce__(self):  # type: ignore[no-untyped-def]
            return InOneTensor.restored, self.parts

    @staticmethod
    def restored(text, joined, shapes):  # type: ignore[no-untyped-def]
        import io
        import math
        import pickle

        parts = {}
        for tensor, placed in zip(joined, shapes, strict=True):
            begin, memory = 0, tensor.untyped_storage()
            for place, shape in placed:
                parts[place] = tensor.new_empty(0).set_(memory, begin, shape)
                size = math.prod(shape)
                begin += size + -size % (16 // tensor.itemsize)

        class Unpickler(pickle.Unpickler):
            def persistent_load(self, place):  # type: ignore[no-untyped-def]
                return parts[place]

        return Unpickler(io.BytesIO(text)).load()
