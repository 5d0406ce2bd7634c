"""Batches in a ring of shared memory that is used again, in place of new memory for each batch.

Only for torch's own collate function. `pipebench.RingCollate` gives the same batches, bit for bit, which is checked on
the first batch of each worker.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pipebench.predict.room import PREFETCH_FACTOR
from pipebench.remedies.seen import Seen, share_of, without_share
from pipebench.remedies.source import with_collate
from pipebench.results.advice import Change, Finding
from pipebench.watch.record.patches import Patches
from pipebench.watch.trial.compared import difference
from pipebench.watch.trial.edits import Edit, Refused, Sent

PLACE = 4
TITLE = "collate into a ring"
COST = "shared memory is kept"
LEAST_SHARE = 0.1  # of the time of the workers
HOW = "DataLoader(..., collate_fn=pipebench.RingCollate({}))"


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    share = share_of(seen, "collate", "default_collate")
    if tried or not seen.workers or not seen.waits or share < LEAST_SHARE or not _large(seen):
        return None
    ahead = seen.prefetch_factor
    written = "" if ahead == PREFETCH_FACTOR else str(ahead)  # RingCollate assumes what torch does
    rewrites = with_collate(seen, f"pipebench.RingCollate({written})", "pipebench")
    return Change(
        "ring_collate", {}, COST, predicted=min(seen.most, without_share(share)), title=TITLE,
        edits={"ring_collate": {"ahead": ahead}}, how=() if rewrites else (HOW.format(written),), rewrites=rewrites,
        group="collate",
    )  # fmt: skip


def _large(seen: Seen) -> bool:
    """Whether batches hold tensors that a ring takes. Not known: they may."""
    from pipebench.ring import SMALLEST

    found = seen.watched.hand_off
    return found is None or found.shared_bytes_per_batch is None or found.shared_bytes_per_batch >= SMALLEST


class _Ring(Edit):
    def __init__(self, ahead: int) -> None:
        self.ahead = ahead

    def in_worker(self, fetcher: Any, patches: Patches) -> None:
        from torch.utils.data import default_collate

        from pipebench.ring import RingCollate

        if fetcher.collate_fn is not default_collate:
            raise Refused("own-collate")
        fetcher.collate_fn = _compared(RingCollate(self.ahead), default_collate)


edit = _Ring


def _compared(ring: Callable[[Any], Any], usual: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`ring`, which stands for `usual`: it first compares a batch with that one's, and sends what it found."""
    left = [True]

    def collate(samples: Any) -> Any:
        batch = ring(samples)
        if not left:
            return batch
        left.clear()
        found = difference(usual(samples), batch)
        if found.largest:
            raise Refused("samples-differ")
        return Sent(batch, [found])

    vars(collate)["stands_for"] = usual
    return collate
