"""Decodes an image with every library that is installed, and holds what they make of it against the reference.

The variants of the task `decode/rgb` that give nothing up are used, and the region decoder, which is strict: it takes
no pixels that libjpeg made up.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from pipebench import stage
from pipebench.data.image_header import orientation
from pipebench.errors import PipebenchError, SampleError, kind_of, said_by
from pipebench.native import region
from pipebench.stages import agreement
from pipebench.stages.decode import Encoded, Pixels, made_for, pixels
from pipebench.task import Unavailable, Variant, Workload
from pipebench.units import printable

TASK = "decode/rgb"
BUDGET = 1 << 30  # bytes of pixels at a time, in all threads; a larger image is decoded alone
_COPIES = 4  # of an image's pixels that a comparison holds: two, and what libraries copy
_TURNS: dict[int, Callable[[Pixels], Pixels]] = {  # by EXIF orientation (CIPA DC-008, section 4.6.4)
    2: lambda image: image[:, ::-1],
    3: lambda image: image[::-1, ::-1],
    4: lambda image: image[::-1],
    5: lambda image: image.transpose(1, 0, 2),
    6: lambda image: image[::-1].transpose(1, 0, 2),
    7: lambda image: image[::-1, ::-1].transpose(1, 0, 2),
    8: lambda image: image[:, ::-1].transpose(1, 0, 2),
}
_STRICT = Variant(TASK, "region", lambda workload: _region, unfit=made_for("JPEG"))


def _region(given: Encoded) -> Any:
    return region.decode_and_crop(given.data, (0, 0, given.width, given.height)).numpy()


@dataclass(frozen=True)
class Decoders:
    """Decoders that were built here, the reference first, and why others could not be."""

    built: tuple[tuple[Variant, Callable[[Encoded], Any]], ...]
    missing: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(variant.name for variant, _ in self.built)

    def tried(self, given: Encoded) -> dict[str, SampleError | None]:
        """Every decoder that is made for the image, with its error or None. Without the reference's pixels, only it.

        Raises MemoryError if there is none for the reference.
        """
        (variant, call), *others = self.built
        expected, error = _output(call, given)
        found = {variant.name: error}
        for variant, call in others if error is None else ():
            if variant.unfit is None or variant.unfit(given) is None:
                with suppress(ImportError, MemoryError):  # it was not tried, and says nothing of the image
                    found[variant.name] = _beside(variant, call, given, expected)
        return found


def installed(names: Iterable[str] = ()) -> Decoders:
    """The decoders that are installed here: those of these names, or all."""
    wanted, missing = set(names), dict[str, str]()
    built: list[tuple[Variant, Callable[[Encoded], Any]]] = []
    for variant in [*stage.variants(TASK), _STRICT]:
        if variant.gives_up or variant.runner or (wanted and variant.name not in wanted):
            continue
        try:
            if variant is _STRICT:
                region.library_name()
            built.append((variant, variant.build(Workload())))
        except (ImportError, Unavailable, PipebenchError) as error:
            missing[variant.name] = printable(said_by(error))
    return Decoders(tuple(built), missing)


def _output(call: Callable[[Encoded], Any], given: Encoded) -> tuple[Any, SampleError | None]:
    try:
        return call(given), None
    except (ImportError, MemoryError):  # of this machine, not of the image
        raise
    except Exception as error:  # whatever a library raises on one image is that image's fault
        return None, SampleError(kind_of(error), printable(said_by(error))[:200])


def _beside(variant: Variant, call: Callable[[Encoded], Any], given: Encoded, expected: Any) -> SampleError | None:
    output, error = _output(call, given)
    if error is not None:
        return error
    task, _ = stage.find(f"{TASK}/pillow")
    try:
        task.check(output, given)
        task.agree(output, expected, variant)
    except SampleError as other:
        return other if other.kind != "rotated" else _turned(output, given, expected) or other
    return None


def _turned(output: Any, given: Encoded, expected: Any) -> SampleError | None:
    """How the image differs from the reference's pixels after these were turned, too; None if it does not."""
    turn = _TURNS.get(orientation(given.data))
    try:
        if turn is not None:
            agreement.same_pixels(pixels(output), turn(pixels(expected)))
    except (SampleError, ValueError) as differs:  # a ValueError: it was turned in another way, so its shape differs
        return SampleError("disagrees", f"turned as its EXIF says, {printable(said_by(differs))}")
    return None


class Room:
    """Memory for pixels. Who wants more than is left waits; who wants more than there is gets it all."""

    def __init__(self, budget: int = BUDGET) -> None:
        self._budget = self._left = budget
        self._changed = threading.Condition()

    @contextmanager
    def of(self, pixels: int) -> Iterator[None]:
        wanted = min(self._budget, 3 * _COPIES * pixels)
        with self._changed:
            self._changed.wait_for(lambda: self._left >= wanted)
            self._left -= wanted
        try:
            yield
        finally:
            with self._changed:
                self._left += wanted
                self._changed.notify_all()
