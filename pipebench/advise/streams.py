"""What can be tried of a loader whose dataset is iterable: the changed loader reads the stream by itself.

Its workers choose the samples, so two loaders cannot share those of a pass. The script gets samples more than once, so
its weights are worth nothing. Stages stay as they are: a sample cannot be made again to compare it.
"""

from __future__ import annotations

from dataclasses import replace

from pipebench.remedies.seen import Seen
from pipebench.results.advice import Change

ITERABLE, RANKS, READ_AGAIN, ALIKE = "iterable", "iterable-ranks", "iterable-read-again", "iterable-undivided"
_SOME_BYTES_PER_S = 1e6  # that all workers read from storage
_KEEPS_SAMPLES = {"as_tensors", "copies", "in_one_tensor"}  # of the edits: they need no sample twice


def refused(seen: Seen, refusal: str) -> str:
    """Why nothing can be tried ("": it can). `refusal` is what the script's process says of the loader.

    What the present loader has read from storage, the changed one would find in the page cache.
    """
    if refusal != ITERABLE or not seen.discards:
        return refusal
    if seen.ranks > 1:
        return RANKS
    read = sum(one.storage_bytes_per_s or 0.0 for one in seen.its_workers)
    return READ_AGAIN if seen.has_cause("storage") or read >= _SOME_BYTES_PER_S else ""


def allowed(seen: Seen, change: Change) -> Change | None:
    """The change as it can be tried on a stream, or None. Of one that is not divided, more workers make copies."""
    if change.of_script:
        return change
    if not _KEEPS_SAMPLES.issuperset(change.edits):
        return None
    more = int(change.settings.get("num_workers") or 0) > seen.workers
    untried = ALIKE if more and seen.loader.undivided else change.untried
    return replace(change, discards=True, untried=untried)
