"""One look into arrays or tensors for a whole batch (`__getitems__`), in place of one for each sample and of collating.

For datasets that make samples from rows only, which is told by their code (`watch.trial.row_code`). Where that needs
other code for a batch, it is written from theirs. The batches are the same, bit for bit, which is checked on the first
ones of each worker, too.
"""

from __future__ import annotations

import ast
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pipebench.remedies.seen import Seen
from pipebench.remedies.source import sources, with_collate
from pipebench.results.advice import Change, Finding
from pipebench.watch.record.patches import Patches
from pipebench.watch.trial import indexing, row_code
from pipebench.watch.trial.compared import difference
from pipebench.watch.trial.edits import Edit, Refused, Sent
from pipebench.watch.trial.memo import same
from pipebench.watch.worker.fetching import held_weakly

PLACE = 3
TITLE = "one look for a batch"
COST = "a class of 25 lines"
LEAST_SHARE = 0.9  # of the time of the workers, in `__getitem__` itself and in collate
_COLLATE = "DataLoader(..., collate_fn=torch.utils.data.default_convert), in each loader"
_OTHERS = "A class that inherits from it, with another __getitem__, needs its own. Copy what is a view."
HOW = ("def __getitems__(self, indices): return self[list(indices)]  # in its class", _COLLATE)
HOW_WRITTEN = (
    "Put the dataset into InOneLook(...), which `--patch FILE` writes, too,",
    "and give this loader collate_fn=InOneLook.as_tensors.",
)
_COMPARED = 2  # batches of each worker
_METHOD = """    def __getitems__(self, indices):
        return self.one_look_into[list(map(int, indices))]"""


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    if tried or not seen.waits or seen.blocked or seen.number("batch_size") < 2 or not _only_takes(seen):
        return None
    read = [row_code.read(one) for source in sources(seen) for one in _getters(source.tree, seen.loader.dataset)]
    if None in read or len(read) > 1:
        return None
    code = next((one for one in read if one is not None and not one.plain), None)
    rewrites = with_collate(seen, "InOneLook.as_tensors", "torch", InOneLook)
    how = HOW if code is None else ("In its class:", *ast.unparse(code.batch).splitlines(), _COLLATE, _OTHERS)
    if code is not None:
        rewrites = tuple(replace(one, new=_with_code(one.new, code.batch)) if one.helper else one for one in rewrites)
    return Change(
        "getitems", {}, COST, title=TITLE, edits={"getitems": {"only_itself": code is None}},
        how=HOW_WRITTEN if rewrites else how, rewrites=rewrites, group="collate",
    )  # fmt: skip


def _with_code(text: str, batch: ast.FunctionDef) -> str:
    """The class with this method."""
    return text.replace(_METHOD, textwrap.indent(ast.unparse(batch), "    "))


def _only_takes(seen: Seen) -> bool:
    """Whether hardly any time goes to functions, transforms or decoders that a sample calls."""
    rows = [one for one in seen.stages if one.kind != "serialise"]
    return sum(one.worker_share for one in rows if one.kind in ("getitem", "collate")) >= LEAST_SHARE


def _getters(tree: ast.Module, dataset: str) -> list[ast.FunctionDef]:
    """The `__getitem__` of the class with this name."""
    classes = [one for one in ast.walk(tree) if isinstance(one, ast.ClassDef) and one.name == dataset]
    inside = [one for found in classes for one in found.body if isinstance(one, ast.FunctionDef)]
    return [one for one in inside if one.name == "__getitem__"]


class _Getitems(Edit):
    without_workers = True

    def __init__(self, only_itself: bool = True) -> None:
        self.only_itself = only_itself

    def in_worker(self, fetcher: Any, patches: Patches) -> None:
        data: Any = sys.modules["torch.utils.data"]
        if fetcher.collate_fn is not data.default_collate:
            raise Refused("own-collate")
        kind: Any = InOneLook
        held, left = held_weakly(fetcher), [_COMPARED]
        look = indexing.looking(fetcher.dataset, self.only_itself)

        def at_once(index: Any) -> Any:
            try:
                return kind.as_tensors(look(index))
            except Exception:  # of the user's arrays
                raise Refused("no-rows") from None

        def fetch(index: Any) -> Any:
            if not left[0]:
                return at_once(index)
            left[0] -= 1
            _, plain = held()
            usual, batch = plain(index), at_once(index)
            if not same(usual, batch):
                raise Refused("samples-differ")
            return Sent(batch, [difference(usual, batch)])

        fetcher.fetch = fetch


edit = _Getitems


# What follows is written into the user's file, so it needs nothing of this one.


class InOneLook:
    """This dataset, of which one look gives a whole batch. All else of it is as before."""

    def __init__(self, dataset):  # type: ignore[no-untyped-def]
        vars(self)["one_look_into"] = dataset

    def __len__(self):  # type: ignore[no-untyped-def]
        return len(self.one_look_into)

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        return self.one_look_into[index]

    def __getitems__(self, indices):  # type: ignore[no-untyped-def]
        return self.one_look_into[list(map(int, indices))]

    @staticmethod
    def as_tensors(found):  # type: ignore[no-untyped-def]
        """A batch as collate makes it: each part has memory of its own."""
        import torch

        if isinstance(found, dict):
            return {name: InOneLook.as_tensors(one) for name, one in found.items()}  # type: ignore[no-untyped-call]
        if isinstance(found, (list, tuple)):
            return [InOneLook.as_tensors(one) for one in found]  # type: ignore[no-untyped-call]
        return torch.as_tensor(found).clone(memory_format=torch.contiguous_format)

    def __getattr__(self, name):  # type: ignore[no-untyped-def]
        if name == "one_look_into" or name.startswith("__"):  # while it is made in another process
            raise AttributeError(name)
        return getattr(self.one_look_into, name)

    def __setattr__(self, name, value):  # type: ignore[no-untyped-def]
        setattr(self.one_look_into, name, value)
