"""What `pipebench pack` did, and what a crop gains. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from pipebench.render import cells
from pipebench.render.cells import Table
from pipebench.render.layout import Line, Part
from pipebench.results.packing import CropGain, Packing
from pipebench.units import counted, percent, printable, rate, seconds, seconds_scale, size

_WIDE = 3  # more failures than that are only counted


def report(one: Packing) -> list[Part]:
    """The summary: what was packed, what was not and why, the time, and the gain of a crop."""
    return [*_packed(one), *_unchanged(one), *_failed(one), *_gain(one)]


def _packed(one: Packing) -> Iterator[Part]:
    if one.packed:
        change = one.after_bytes / one.before_bytes - 1
        yield Line(
            f"{counted(one.packed, 'image')} packed without loss: {size(one.before_bytes)} before, "
            f"{size(one.after_bytes)} after ({'+' if change > 0 else ''}{percent(change, 1)})",
            "bold",
        )
    else:
        yield Line("no image was packed", "bold")
    speed = f", {rate(one.rate)} a core" if one.rate else ""
    earlier = f"; {one.earlier:,} of them were finished by an earlier run" if one.earlier else ""
    yield f"{counted(one.files, 'file')} in {one.destination}, in {seconds(one.elapsed_s)}{speed}{earlier}"


def _unchanged(one: Packing) -> Iterator[Part]:
    if one.unchanged:
        yield f"copied unchanged: {counted(sum(one.unchanged.values()), 'image')}"
        for reason, number in sorted(one.unchanged.items(), key=lambda pair: (-pair[1], pair[0])):
            yield Line(f"  {number:,}: {printable(reason)}", hanging="    ")
    if one.others:
        yield f"copied as they are: {counted(one.others, 'other file')}"


def _failed(one: Packing) -> Iterator[Part]:
    for bad in one.failures[:_WIDE]:
        yield Line(f"not packed: {bad.sample}: {bad.message}", "red")
    if len(one.failures) > _WIDE:
        yield Line(f"not packed: {len(one.failures) - _WIDE:,} more", "red")


def _gain(one: Packing) -> Iterator[Part]:
    if one.gain is None:
        why = "no image is larger than the crop" if one.rate else "no image was packed now"
        yield f"the gain of a crop was not measured: {why}"
        return
    yield _table(one.gain)


def _table(gain: CropGain) -> Table:
    scale = seconds_scale([gain.usual_s, gain.before_s, gain.after_s])
    rows = (
        ("Pillow, whole image", scale.text(gain.usual_s), cells.gain(gain.over_usual)),
        ("decode_and_crop, before", scale.text(gain.before_s), cells.gain(gain.over_before)),
        ("decode_and_crop, packed", scale.text(gain.after_s), ""),
    )
    notes = (
        "gain: time of this row / time of the last row, with an interval",
        f"measured in turns on {counted(gain.images, 'image')}, on one core",
    )
    title = f"A random crop of {gain.side}×{gain.side} pixels"
    return Table(title, ("", "an image", "gain by packing"), rows, frozenset({1, 2}), notes)
