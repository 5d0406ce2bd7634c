"""Another decoder in place of Pillow's, where it is installed and faster on some of the user's own files.

Which one may be faster is measured on these files before the first trial, so a decoder that is not costs no trial. The
fastest is tried; the next one only if the samples of that one are others. Without the user's agreement that the weights
are worth nothing, the samples must be the same, bit for bit. With it, they may differ as two exact decoders may, and
the difference is told.
"""

from __future__ import annotations

import functools
import importlib.util
import io
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pipebench.remedies import files, opening
from pipebench.remedies.seen import TRY_FROM, Seen, share_of
from pipebench.remedies.source import call_of
from pipebench.results.advice import Change, Finding
from pipebench.watch.record.patches import Patches
from pipebench.watch.trial.compared import Comparing, compare_first
from pipebench.watch.trial.edits import Edit
from pipebench.watch.trial.pictures import replace_convert

PLACE = 6
_DIFFER = "samples-differ"  # then another decoder may have the same pixels as Pillow
LEAST_SHARE = 0.2  # of the time of the workers
# Of the range of the values, on average: what two exact decoders may differ by, with either way to upsample chroma
# (`EXACT_MEAN` in stages/agreement.py).
TOLERANCE = 2 / 255
OTHER = "another decoder"
FILES = 8  # on which decoders are compared
ROUNDS, LEAST_ROUNDS = 7, 3
SECONDS = 2.0  # for the rounds; large images have fewer
_LIKELY = 1.5  # times Pillow: assumed until it is measured. These decoders and Pillow all use libjpeg(-turbo)
HOW = ("Convert images by {}(...). `--patch FILE` writes that function, too.",)
HOW_ELSEWHERE = ('Decode with {} in place of Image.open(...).convert("RGB").',)


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    decode = share_of(seen, "decode", "ImageFile.load")
    if not seen.workers or not seen.waits or decode < LEAST_SHARE:
        return None
    if any(one.reason != _DIFFER for one in tried):
        return None
    paths = files.jpegs(seen, FILES)
    if not seen.measures:
        name = next(iter(_installed()), "") if paths and not tried else ""
        likely = min(seen.most, 1 / (1 - decode * (1 - 1 / _LIKELY)))
        return replace(_change(seen, name, likely, False), title=OTHER, rough=True) if name else None
    known = [(one.change.edits["decoders"]["name"], one.change.discards) for one in tried]
    for discards in (False, True)[: 1 + seen.discards]:
        for name, speedup in _faster(paths):
            predicted = min(seen.most, 1 / (1 - decode * (1 - 1 / speedup)))
            if predicted >= TRY_FROM and (name, discards) not in known:
                return _change(seen, name, predicted, discards)
    return None


def _change(seen: Seen, name: str, predicted: float, discards: bool) -> Change:
    found = opening.rewrites(seen, _WRITTEN[name])
    rewrites = found or ()
    shown = _WRITTEN[name].__name__ if rewrites else name
    return Change(
        "decoders", {}, "other pixels" if discards else f"needs {name}", predicted=predicted,
        title=f"decoding with {name}", edits={"decoders": {"name": name, "exact": not discards}},
        how=tuple(one.format(shown) for one in (HOW if rewrites else HOW_ELSEWHERE)),
        at=None if found is None else call_of(seen, "open"),
        discards=discards, rewrites=rewrites, group="decode",
    )  # fmt: skip


@functools.cache
def _faster(paths: tuple[str, ...]) -> tuple[tuple[str, float], ...]:
    """The installed decoders that are faster than Pillow on these files, with their speed-ups, the fastest first."""
    names = _installed()
    if not paths or not names:
        return ()
    found = speedups([files.content(one) for one in paths], {name: _WRITTEN[name] for name in names})
    return tuple(sorted(((name, one) for name, one in found.items() if one > 1.0), key=lambda one: -one[1]))


def _installed() -> list[str]:
    return [name for name in _WRITTEN if importlib.util.find_spec(name) is not None]


def speedups(
    encoded: Sequence[bytes],
    decoders: dict[str, Callable[[Any], Any]],
    now: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """The speed-up of each decoder over Pillow, as the median of rounds in turn. One that fails has none."""
    from PIL import Image

    ways: dict[str, Callable[[Any], Any]] = {"": lambda image: image.convert("RGB"), **decoders}
    readings: dict[str, list[float]] = {name: [] for name in ways}

    def one_round(images: Sequence[bytes]) -> None:
        for name in list(readings):
            begin = now()
            try:
                for one in images:
                    ways[name](Image.open(io.BytesIO(one)))
            except Exception:  # whatever another library raises
                del readings[name]
                continue
            readings[name].append(now() - begin)

    one_round(encoded[:1])  # it is not counted: libraries are imported in it
    begun = now()
    for done in range(ROUNDS):
        if done >= LEAST_ROUNDS and now() - begun > SECONDS:
            break
        one_round(encoded)
    pillow = readings.pop("", [])
    ratios = {
        name: [one / other for one, other in zip(pillow[1:], its[1:], strict=True)] for name, its in readings.items()
    }
    return {name: statistics.median(its) for name, its in ratios.items() if its}


class _Decoded(Edit):
    def __init__(self, name: str, exact: bool = True) -> None:
        self.name, self.exact = name, exact

    def in_worker(self, fetcher: Any, patches: Patches) -> None:
        how = Comparing(0.0) if self.exact else Comparing(None, mean_share=TOLERANCE)
        compare_first(fetcher, lambda: replace_convert(patches, _WRITTEN[self.name]), how)


edit = _Decoded


# What follows is written into the user's file, so it needs nothing of this one.


def decoded_by_simplejpeg(image):  # type: ignore[no-untyped-def]
    """This image, or the one of this path, in RGB. simplejpeg decodes a JPEG whose data is whole."""
    import simplejpeg
    from PIL import Image

    if not hasattr(image, "convert"):
        with Image.open(image) as opened:
            return decoded_by_simplejpeg(opened)  # type: ignore[no-untyped-call]
    if image.format != "JPEG" or image.mode != "RGB" or not image.tile:
        return image.convert("RGB")
    image.fp.seek(0)
    try:
        found = Image.fromarray(simplejpeg.decode_jpeg(image.fp.read()))
    except ValueError:  # the data is damaged: Pillow may read it
        return image.convert("RGB")
    found.info = dict(image.info)
    return found


def decoded_by_torchvision(image):  # type: ignore[no-untyped-def]
    """This image, or the one of this path, in RGB. torchvision decodes a JPEG whose data is whole."""
    import torch
    from PIL import Image
    from torchvision.io import ImageReadMode, decode_jpeg

    if not hasattr(image, "convert"):
        with Image.open(image) as opened:
            return decoded_by_torchvision(opened)  # type: ignore[no-untyped-call]
    if image.format != "JPEG" or image.mode != "RGB" or not image.tile:
        return image.convert("RGB")
    image.fp.seek(0)
    data = torch.frombuffer(bytearray(image.fp.read()), dtype=torch.uint8)
    try:
        found = Image.fromarray(decode_jpeg(data, ImageReadMode.RGB).permute(1, 2, 0).numpy())
    except RuntimeError:  # the data is damaged: Pillow may read it
        return image.convert("RGB")
    found.info = dict(image.info)
    return found


def decoded_by_torchcodec(image):  # type: ignore[no-untyped-def]
    """This image, or the one of this path, in RGB. torchcodec decodes a JPEG that is whole, and not turned."""
    from PIL import Image
    from torchcodec.decoders import decode_image  # type: ignore[attr-defined]

    if not hasattr(image, "convert"):
        with Image.open(image) as opened:
            return decoded_by_torchcodec(opened)  # type: ignore[no-untyped-call]
    if image.format != "JPEG" or image.mode != "RGB" or not image.tile:
        return image.convert("RGB")
    image.fp.seek(0)
    try:
        if image.getexif().get(0x0112, 1) != 1:  # torchcodec would turn it upright, and Pillow does not
            return image.convert("RGB")
        found = Image.fromarray(decode_image(image.fp.read()).permute(1, 2, 0).numpy())
    except (RuntimeError, SyntaxError):  # the data is damaged: Pillow may read it
        return image.convert("RGB")
    found.info = dict(image.info)
    return found


_WRITTEN: dict[str, Callable[[Any], Any]] = {
    "simplejpeg": decoded_by_simplejpeg,
    "torchvision": decoded_by_torchvision,
    "torchcodec": decoded_by_torchcodec,
}
