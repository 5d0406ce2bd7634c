"""Renders what batches hold besides samples: tokens, frames, seconds of sound, and padding. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from pipebench.render.layout import Part
from pipebench.results.batches import BatchContent
from pipebench.results.own_loop import own_iteration_s
from pipebench.results.watched import WatchResult
from pipebench.units import percent, rate_number

_SHOWN = 0.005  # less is 0 % as it is written


def contents(result: WatchResult) -> list[Part]:
    """What the batches of the loop hold besides samples: a line for each of its loaders that shows it."""
    whole = sum(one.s_per_iteration for one in result.loop)
    made: list[Part] = []
    for one in result.loaders:
        if one.content is None or one.loader not in result.loaders_in_loop:
            continue
        held = ", ".join(_held(one.content, own_iteration_s(result, one) or whole))
        if padded := [*([held] if held else []), *_padded(one.content)]:
            samples = f"{one.content.samples:,.1f}".removesuffix(".0")
            plural = "" if samples == "1" else "s"
            made.append(f"A batch of loader {one.loader} has {samples} sample{plural}: {'. '.join(padded)}.")
    return made


def _held(found: BatchContent, iteration_s: float) -> Iterable[str]:
    amounts = ((found.tokens, "tokens"), (found.frames, "frames"), (found.sound_s, "s of sound"))
    for amount, what in amounts:
        if amount is not None:
            rate = f" ({rate_number(amount / iteration_s)} a second)" if iteration_s else ""
            yield f"{rate_number(amount)} {what}{rate}"
    if found.padding_share is not None:
        yield f"and of its places for tokens {percent(found.padding_share)} are padding"


def _padded(found: BatchContent) -> Iterable[str]:
    """What of a batch is padding, as far as it can be told, in sentences without their full stops."""
    if (unused := found.unused_share or 0.0) >= _SHOWN:
        yield f"{percent(unused)} of its length, at the end, is the same in all samples, as padding is"
    if (uneven := found.uneven_share or 0.0) >= _SHOWN:
        yield f"{percent(uneven)} of it is padding of samples that are shorter than the longest one"
