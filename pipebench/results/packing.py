"""What `pipebench pack` did to a data set, and what a crop of it gains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pipebench.errors import BadSample
from pipebench.stats import Speedup


@dataclass(frozen=True)
class CropGain:
    """What a random crop of `side` × `side` pixels costs on this data, measured on some images in turns.

    The times are medians, in seconds an image: `usual_s` decodes the whole image with Pillow and crops, `before_s` is
    `decode_and_crop` on the source, `after_s` on the packed copy.
    """

    images: int
    side: int
    usual_s: float
    before_s: float
    after_s: float
    over_usual: Speedup
    over_before: Speedup


@dataclass(frozen=True)
class Packing:
    """The result of packing a data set. Bytes are those of the images that were packed, before and after.

    `unchanged` counts the images that were copied as they are, by the reason; `others` counts all other files.
    `earlier` counts the files that an earlier run had finished, and the counts include them. `rate` is the bytes of
    images that one core packs in a second; None where nothing was packed in this run.
    """

    destination: str
    files: int
    packed: int
    before_bytes: int
    after_bytes: int
    elapsed_s: float
    unchanged: Mapping[str, int] = field(default_factory=dict)
    others: int = 0
    earlier: int = 0
    rate: float | None = None
    failures: tuple[BadSample, ...] = ()
    gain: CropGain | None = None
