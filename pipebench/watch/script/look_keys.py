"""Says where a look at a training loop is counted: before the model, besides training, or nowhere. Pure.

Which line of an iteration calls the model is known once a look has met that. A small model may take a thousandth of an
iteration, so in a loop without a loader, looks before the backward wait for it.
"""

from __future__ import annotations

from typing import NamedTuple

from pipebench.watch.record.trial_lines import BETWEEN, NO_LOADER
from pipebench.watch.script.look_counts import Key, Loop, OfLoader, PlaceCount, Way, after_model, told
from pipebench.watch.script.loop_place import (
    Place,
    called_from,
    leaves_after,
    leaves_before,
    note_first,
    own_calls,
)
from pipebench.watch.script.own_line import OwnLine


class Look(NamedTuple):
    """A look: whether it is before the backward, in a loop that has trained, and the second one of a pair.

    Whether Python was at work `apart` from a model, and its lines (see `own_line`). `searches`: until a look has met
    the model, looks come often.
    """

    forward: bool
    trains: bool
    again: bool
    apart: bool
    lines: tuple[OwnLine | None, OwnLine | None]
    searches: bool


def in_forward(own: OfLoader, loop: Loop, place: Place) -> bool:
    """Whether a look after a backward is before the next one: where a loop without a loader sums up gradients.

    Until its step, nothing above the line of the model's first call runs again, but for the next part of its batch.
    """
    if loop.loader != NO_LOADER or place.torchs or loop.code not in own.model:
        return False
    return leaves_after(place.path, own.model) is None


def key_of(own: OfLoader, loop: Loop, place: Place, look: Look) -> Key | None:
    """Where a look is counted. None: at training, of which forward is only counted."""
    forward = look.forward
    trains = place.trains or (place.in_step and not forward)
    if forward and not (trains or place.models) and (early := _before_model(own, place)) is not None:
        return early
    models = place.models and not place.torchs
    if forward and (models or not trains) and (late := _after_step(own, place)) is not None:
        return late
    if loop.loader == BETWEEN:
        return told(own, place, 0, early=False)
    if not forward and (models or not trains):
        return _besides(own, place, look)
    if forward and place.models:
        note_first(own.model, own.met, place.path, loop.turn)
    own.sought = forward and not own.model
    if own.sought and look.searches and loop.loader == NO_LOADER and not place.trains:
        return told(own, place, 0, early=True)._replace(way=Way(place, look.lines))
    if forward and not look.again:
        own.count_forward(*look.lines)
    return after_model(own, place) if forward else None


def _before_model(own: OfLoader, place: Place) -> Key | None:
    leaves = leaves_before(place.path, own.model)
    if leaves is None and place.asks:
        later = (leaves_after(place.path, way) for way in (own.model, own.trained))
        leaves = 0 if all(one is None for one in later) else None
    return None if leaves is None else told(own, place, leaves, early=True)


def _after_step(own: OfLoader, place: Place) -> Key | None:
    leaves = leaves_after(place.path, own.trained)
    return None if leaves is None else told(own, place, leaves, early=True)._replace(after=True)


def _besides(own: OfLoader, place: Place, look: Look) -> Key | None:
    if look.trains:
        functions = called_from(place.path, 0) if place.models else place.functions
        return Key(place.line, functions, own=own_calls(place.path, 0))
    return None if place.models else told(own, place, 0, early=False)._replace(apart=look.apart)


def settle(own: OfLoader) -> None:
    """Counts the looks that waited for a model to be met where they belong. If none was met, they are of forward."""
    while own.waiting:
        key, one = own.waiting.popitem()
        if key.way is None:
            continue
        place, lines = key.way
        known = _before_model(own, place)
        if known is None:
            own.count_forward(*lines, looks=one.looks)
        else:
            own.found.setdefault(known, PlaceCount()).add(one)
            own.count_inner(known, place.path, one.looks)
