"""Images that cross from the workers as bytes. They become normalised floats in the script, a batch at a time.

A byte is a quarter of a float: collate and hand-off move a quarter, and the workers do less. The values are the same,
bit for bit: the same operations run on the whole batch. That is checked before, on some samples of each worker.

With a device, the floats are better made there, after a copy of bytes. That is predicted, and not tried: a trial makes
them before the loop has its batch, on the host, so it would measure a larger copy and work that the loop need not do.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pipebench.remedies.seen import Seen, share_of, without_share
from pipebench.remedies.source import call_of
from pipebench.results.advice import Change, Finding
from pipebench.watch.record.patches import Patches
from pipebench.watch.trial import chains
from pipebench.watch.trial.chains import FIRST, LAST, Chain
from pipebench.watch.trial.compared import Comparing, Path, compare_first, leaves
from pipebench.watch.trial.edits import Edit, Refused

PLACE = 7
TITLE = "normalising in the loop"
COST = "work in the training process"
ON_DEVICE, COST_ON_DEVICE = "normalising on the device", "work of the device; values may differ in the last bit"
LEAST_SHARE = 0.1  # of the time of the workers: float, normalise and collate together
HOW = (
    "End the Compose with bytes: PILToTensor() in place of ToTensor() and Normalize().",
    "In the loop, for each batch: x = normalize(x.float().div(255)), with that Normalize().",
)
HOW_OF_CONVERSION = (
    "End the Compose before its {0}: what comes to that are bytes.",
    "In the loop, for each batch: x = normalize(convert(x)), with that {0} and Normalize.",
)
AFTER_COPY = "Do that after the copy of the batch to the device: its bytes are a quarter of the floats."


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    if tried or not seen.workers or not seen.waits or not share_of(seen, "transform", LAST):
        return None
    share = sum(share_of(seen, "transform", name) for name in (*FIRST, *chains.CONVERSIONS, LAST))
    share += share_of(seen, "collate")
    if share < LEAST_SHARE:
        return None
    predicted, at = min(seen.most, without_share(share)), call_of(seen, LAST)
    if seen.device:
        how = (*_how(seen), AFTER_COPY)
        return Change(
            "bytes_across", {}, COST_ON_DEVICE, predicted=predicted, title=ON_DEVICE, how=how, at=at, of_script=True
        )
    return Change(
        "bytes_across", {}, COST, predicted=predicted, title=TITLE, edits={"bytes_across": {}}, how=_how(seen), at=at,
        group=chains.TO_FLOAT,
    )  # fmt: skip


def _how(seen: Seen) -> tuple[str, ...]:
    """In the words of the steps that were tried: torchvision's conversions round otherwise than a division by 255."""
    step = next((one for one in chains.CONVERSIONS if share_of(seen, "transform", one)), "")
    if not step or share_of(seen, "transform", "ToTensor"):
        return HOW
    return tuple(one.format(step) for one in HOW_OF_CONVERSION)


class _Rest(NamedTuple):
    """What is left to be done in the script: the chain's steps, at these places of a batch."""

    steps: tuple[Any, ...]
    paths: tuple[Path, ...]


class _BytesAcross(Edit):
    def __init__(self) -> None:
        self._rest: _Rest | None = None

    def in_worker(self, fetcher: Any, patches: Patches) -> None:
        if not _is_torchs(fetcher.collate_fn):
            raise Refused("own-collate")  # it may write values, as for padding, which would be normalised, too
        chain = chains.only_chain(fetcher.dataset)
        if not chain.last:
            raise Refused("no-such-transforms")
        paths: list[Path] = []

        def back(sample: Any) -> Any:
            paths[:] = [path for path, one in leaves(sample) if _of_bytes(one)]
            return _changed(sample, tuple(paths), lambda one: chains.from_bytes(chain.steps, one))

        compare_first(
            fetcher,
            lambda: chain.replace(_ToBytes(chain), patches),
            Comparing(0.0, back),
            lambda: [_Rest(chain.steps, tuple(paths))],
        )

    def hears(self, note: Any) -> None:
        if isinstance(note, _Rest):
            self._rest = note

    def in_script(self, batch: Any) -> Any:
        if self._rest is None or not self._rest.paths:
            raise Refused("no-such-batch")
        steps, paths = self._rest
        found = dict(leaves(batch))
        if not all(_of_bytes(found.get(path)) for path in paths):
            raise Refused("no-such-batch")
        return _changed(batch, paths, lambda one: chains.from_bytes(steps, one))


edit = _BytesAcross


def _is_torchs(collate: Any) -> bool:
    """Whether this is torch's own collate function, or a ring: the script's, or that of a trial of both together."""
    data: Any = sys.modules["torch.utils.data"]
    ring: Any = sys.modules.get("pipebench.ring")
    collate = getattr(collate, "stands_for", collate)
    return collate is data.default_collate or (ring is not None and type(collate) is ring.RingCollate)


class _ToBytes:
    """In place of a chain: only its bytes."""

    def __init__(self, chain: Chain) -> None:
        self._first = chain.steps[0]

    def __call__(self, image: Any) -> Any:
        return chains.to_bytes(self._first, image)


def _of_bytes(found: Any) -> bool:
    return str(getattr(found, "dtype", "")) == "torch.uint8" and found.ndim >= 3


def _changed(found: Any, paths: Sequence[Path], change: Callable[[Any], Any], path: Path = ()) -> Any:
    """`found` with `change` of what stands at `paths`. The containers on the way are made anew."""
    if path in paths:
        return change(found)
    if not any(one[: len(path)] == path for one in paths):
        return found
    if isinstance(found, dict):
        return type(found)({key: _changed(one, paths, change, (*path, key)) for key, one in found.items()})
    parts = [_changed(one, paths, change, (*path, key)) for key, one in enumerate(found)]
    return type(found)(*parts) if hasattr(found, "_fields") else type(found)(parts)
