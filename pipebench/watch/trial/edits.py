"""What the workers of a changed loader do otherwise, and what turns their batches back into those of the script.

An edit is a part of a remedy: `edit` of `remedies/NAME.py` makes it. It is sent to the workers, and acts
there on one fetcher. So the script's own process and its own workers stay as they are.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipebench.watch.record.patches import Patches
from pipebench.watch.worker.fetching import held_weakly, is_own

_LIMITS = 2.5


class Refused(Exception):
    """This script cannot try an edit. The text is a code, for which `render/advice_reasons.py` has words."""


@dataclass(frozen=True)
class Difference:
    """How far some samples are from those without the edit, over `values` values: the largest and the mean difference.

    `span` is the difference between the highest and the lowest value without the edit. `mean` and `span` are of the
    entry, such as the image, that differs most for its range.
    """

    largest: float
    mean: float
    span: float
    values: int


@dataclass(frozen=True)
class Repeats:
    """Whether the dataset gives the `same` sample twice for one index, bit for bit, and the mean size of a sample.

    `samples` is how many the dataset has (0: not known): a sampler may draw them more than once in a pass.
    `once`: samples that are far apart have it in common, so it is made once for all of them.
    `changed`: somebody changes in place what was made, so what is kept must be copied for each sample.
    `enough`: so many samples have as much in all workers together as there is (0: each has something of its own).
    `sample_s` is how long a worker took to make it for one sample (0.0: not known). `copies` is the number of workers
    that keep it, each for itself (1: nobody does, or one for all).
    """

    same: bool
    sample_bytes: float
    once: bool = False
    changed: bool = False
    samples: int = 0
    enough: int = 0
    sample_s: float = 0.0
    copies: int = 1


@dataclass(frozen=True)
class GivenBack:
    """The seconds in which the script's own values were made again out of a batch, less `_LIMITS` waits for the batch.

    Where the loop waits for its workers at all, they are the limit, and it would wait for so much longer. Some wait is
    in each hand-off: so a fifth as much is taken for half. On average, only what is above 0 can be saved.
    """

    seconds: float


class Edit:
    """One change inside the workers of a loader. This one changes nothing.

    `without_workers` says that a loader without workers can try it, too: outside of its fetches, what it has replaced
    in the script's own process acts as before. `gives_back` says that `in_script` only makes the script's own values
    again: a script that is changed needs none.
    """

    without_workers = False
    gives_back = False

    def in_worker(self, fetcher: Any, patches: Patches) -> None:
        """Changes torch's `fetcher` of this worker, or functions by `patches`. Raises `Refused`."""

    def hears(self, note: Any) -> None:
        """Called in the script's process with what a worker tells of this edit, before its first batch."""

    def in_script(self, batch: Any) -> Any:
        """The batch that the script gets, from the one that a worker has sent. Raises `Refused`."""
        return batch


@dataclass
class Sent:
    """A batch with something besides: what a worker tells of its edits, or why they are `refused` ("": they work)."""

    batch: Any
    notes: list[Any] = field(default_factory=list)
    refused: str = ""

    def pin_memory(self) -> Sent:
        """Called by torch's pin-memory thread, which pins what it can."""
        pin = sys.modules["torch.utils.data._utils.pin_memory"].pin_memory
        return Sent(pin(self.batch), self.notes, self.refused)


def made(named: Mapping[str, Mapping[str, Any]]) -> tuple[Edit, ...]:
    """The edits of an order: for each remedy, its edit with these arguments."""
    return tuple(importlib.import_module(f"pipebench.remedies.{name}").edit(**how) for name, how in named.items())


def unpacked(batch: Any, edits: Sequence[Edit], note: Callable[[Any], object], waited_s: float = 0.0) -> Any:
    """The batch as the script would have got it. `note` gets what is to be recorded. Raises `Refused`.

    The loop has waited `waited_s` for this batch.
    """
    while type(batch) is Sent:  # each edit that compares adds one
        if batch.refused:
            raise Refused(batch.refused)
        for one in batch.notes:
            if isinstance(one, (Difference, Repeats)):
                note(one)
            for edit in edits:
                edit.hears(one)
        batch = batch.batch
    spent_s = 0.0
    for edit in reversed(edits):
        began = time.perf_counter()
        batch = edit.in_script(batch)
        spent_s += time.perf_counter() - began if edit.gives_back else 0.0
    if any(edit.gives_back for edit in edits):
        note(GivenBack(spent_s - _LIMITS * waited_s))
    return batch


class EditedWorker:
    """A `worker_init_fn` that runs the script's own, and then lets the edits change each fetcher of its worker."""

    def __init__(self, init: Any, edits: tuple[Edit, ...]) -> None:
        self.init, self.edits = init, edits

    def __call__(self, worker: int) -> None:
        if self.init is not None:
            self.init(worker)
        kind: Any = sys.modules["torch.utils.data.dataloader"]._DatasetKind
        plain, patches = kind.create_fetcher, Patches()

        def create_fetcher(*args: Any, **kwargs: Any) -> Any:
            fetcher = plain(*args, **kwargs)
            return edited(fetcher, self.edits, patches) if is_own(fetcher) else fetcher

        kind.create_fetcher = staticmethod(create_fetcher)


def edited(fetcher: Any, edits: Sequence[Edit], patches: Patches) -> Any:
    """The fetcher with all edits. If one is refused, now or later, the next batch says so."""
    patches.undo()  # a worker that persists makes a fetcher for each pass
    refusals: list[str] = []
    try:
        for edit in edits:
            edit.in_worker(fetcher, patches)
    except Refused as error:
        refusals.append(str(error))
    held = held_weakly(fetcher)

    def fetch(index: Any) -> Any:
        _, plain = held()
        try:
            return Sent(None, refused=refusals[0]) if refusals else plain(index)
        except Refused as error:
            return Sent(None, refused=str(error))

    fetcher.fetch = fetch
    return fetcher
