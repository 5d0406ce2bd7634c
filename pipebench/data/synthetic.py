"""Makes any number of different JPEGs from a few photographs, or from noise alone.

Sample number i depends only on the recipe, its seed and i, not on how many are made: a set of 100 equals the first 100
of a set of 100,000. The cost of decoding depends on size, quality and bits per pixel, so the recipes follow real
photographs (800×533 at quality 90: 2 bits per pixel with a standard deviation of nearly 0.5). If you change the bytes
that a recipe makes, raise `datasets.VERSION`; existing sets are then built again.
"""

from __future__ import annotations

import io
import json
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

_Plane = NDArray[np.float32]


@dataclass(frozen=True)
class Photograph:
    """A photograph that samples are cropped from, with its author, its licence and where it came from."""

    name: str
    path: Path
    title: str
    author: str
    licence: str
    source: str


@dataclass(frozen=True)
class Recipe:
    """How the samples of one embedded dataset are made. Each sample draws new values from the ranges.

    `scale` is the side of a crop as a share of the largest crop that fits. `grain` is the standard deviation of the
    luma noise and `contrast` that of the synthetic luma, both in levels of 255. Sizes are (width, height) in pixels.
    """

    seed: int
    sizes: tuple[tuple[int, int], ...]
    quality: tuple[int, int]
    subsampling: str
    grain: tuple[float, float]
    companions: tuple[str, ...]
    photographs: tuple[Photograph, ...] = ()
    scale: tuple[float, float] = (1.0, 1.0)
    exponent: float = 0.0
    contrast: tuple[float, float] = (0.0, 0.0)
    chroma: float = 0.0
    classes: int = 0


@dataclass(frozen=True)
class Made:
    """One finished sample: the name of its class, and its members by suffix (`jpg` first)."""

    label: str
    members: dict[str, bytes]


@dataclass(frozen=True)
class _Picture:
    image: Image.Image
    class_index: int
    label: str
    caption: str
    facts: dict[str, str]


def read_photographs(folder: Path) -> dict[str, Photograph]:
    """The photographs in `folder` by name, read from its `photographs.toml`."""
    with open(folder / "photographs.toml", "rb") as file:
        table = tomllib.load(file)
    return {
        name: Photograph(
            name, folder / f"{name}.jpg", entry["title"], entry["author"], entry["licence"], entry["source"]
        )
        for name, entry in table.items()
    }


def read_recipe(manifest: Mapping[str, Any], photographs: Path) -> Recipe:
    """The recipe in a manifest. The photographs that it names are in the folder `photographs`."""
    named = manifest.get("photographs", ())
    known = read_photographs(photographs) if named else {}
    low, high = manifest["quality"]
    return Recipe(
        seed=manifest["seed"],
        sizes=tuple((width, height) for width, height in manifest["sizes"]),
        quality=(low, high),
        subsampling=manifest["subsampling"],
        grain=_pair(manifest["grain"]),
        companions=tuple(manifest["companions"]),
        photographs=tuple(known[name] for name in named),
        scale=_pair(manifest.get("scale", (1.0, 1.0))),
        exponent=manifest.get("exponent", 0.0),
        contrast=_pair(manifest.get("contrast", (0.0, 0.0))),
        chroma=manifest.get("chroma", 0.0),
        classes=manifest.get("classes", 0),
    )


def maker(recipe: Recipe) -> Callable[[int], Made]:
    """The function that makes sample number i of `recipe`; the photographs are decoded once, here."""
    draw = _from_photographs(recipe) if recipe.photographs else _from_noise(recipe)

    def make(index: int) -> Made:
        rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([recipe.seed, index])))
        size = recipe.sizes[int(rng.integers(len(recipe.sizes)))]
        quality = int(rng.integers(recipe.quality[0], recipe.quality[1] + 1))
        picture = draw(index, size, rng)
        encoded = io.BytesIO()
        picture.image.save(encoded, "JPEG", quality=quality, subsampling=recipe.subsampling)
        members = {"jpg": encoded.getvalue()}
        members |= {suffix: _companion(suffix, index, picture) for suffix in recipe.companions}
        return Made(picture.label, members)

    return make


_Draw = Callable[[int, tuple[int, int], np.random.Generator], _Picture]


def _from_photographs(recipe: Recipe) -> _Draw:
    decoded = [_decoded(photograph.path) for photograph in recipe.photographs]

    def draw(index: int, size: tuple[int, int], rng: np.random.Generator) -> _Picture:
        which = index % len(decoded)
        photograph = recipe.photographs[which]
        image = _crop(decoded[which], size, rng.uniform(*recipe.scale), rng)
        facts = {"author": photograph.author, "licence": photograph.licence, "source": photograph.source}
        return _Picture(_grained(image, recipe.grain, rng), which, photograph.name, photograph.title, facts)

    return draw


def _decoded(path: Path) -> Image.Image:
    """The photograph as luma and chroma, so that neither grain nor the encoder needs a conversion."""
    image = Image.open(path)
    image.draft("YCbCr", image.size)
    image.load()
    return image


def _crop(photograph: Image.Image, size: tuple[int, int], scale: float, rng: np.random.Generator) -> Image.Image:
    """A random part of `photograph` with the aspect of `size`, scaled to it (scaled up only if it is too small)."""
    largest = min(photograph.width / size[0], photograph.height / size[1])
    factor = max(largest * scale, min(largest, 1.0))
    width, height = size[0] * factor, size[1] * factor
    left, top = rng.uniform(0, photograph.width - width), rng.uniform(0, photograph.height - height)
    box = (left, top, left + width, top + height)
    image = photograph.resize(size, Image.Resampling.LANCZOS, box=box, reducing_gap=2.0)
    return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if rng.random() < 0.5 else image


def _grained(image: Image.Image, grain: tuple[float, float], rng: np.random.Generator) -> Image.Image:
    """`image` with the luma noise of a sensor added, because scaling down removed it."""
    luma, blue, red = image.split()
    plane = np.asarray(luma, dtype=np.float32)
    noise = rng.standard_normal(plane.shape, dtype=np.float32) * np.float32(rng.uniform(*grain))
    return Image.merge("YCbCr", (Image.fromarray(_levels(plane + noise)), blue, red))


def _from_noise(recipe: Recipe) -> _Draw:
    def draw(index: int, size: tuple[int, int], rng: np.random.Generator) -> _Picture:
        contrast = rng.uniform(*recipe.contrast)
        spreads = (contrast, contrast * recipe.chroma, contrast * recipe.chroma)
        planes = [128 + np.float32(spread) * _noise(size, recipe.exponent, rng) for spread in spreads]
        image = Image.merge("YCbCr", [Image.fromarray(_levels(plane)) for plane in planes])
        which = index % recipe.classes
        facts = {"author": "none", "licence": "none needed", "source": "pipebench"}
        return _Picture(_grained(image, recipe.grain, rng), which, f"noise-{which}", "Noise", facts)

    return draw


def _noise(size: tuple[int, int], exponent: float, rng: np.random.Generator) -> _Plane:
    """Noise with unit variance and zero mean; its amplitude falls as 1/f^exponent (f in cycles per pixel)."""
    width, height = size
    across, down = -(-width // 20) * 20, -(-height // 20) * 20  # lengths that a Fourier transform is quick at
    spectrum = rng.standard_normal((down, across // 2 + 1, 2), dtype=np.float32).view(np.complex64)[..., 0]
    frequency = np.hypot(np.fft.fftfreq(down)[:, None], np.fft.rfftfreq(across)[None, :])
    frequency[0, 0] = np.inf
    plane = np.fft.irfft2(spectrum / frequency**exponent, s=(down, across))[:height, :width]
    noise: _Plane = (plane / plane.std()).astype(np.float32)
    return noise


def _levels(plane: _Plane) -> NDArray[np.uint8]:
    return np.clip(np.rint(plane), 0, 255).astype(np.uint8)


def _companion(suffix: str, index: int, picture: _Picture) -> bytes:
    """The companion files of an image: `cls` (class), `txt` (caption), `json` (size, caption and origin)."""
    caption = f"{picture.caption}, view {index}"
    if suffix == "cls":
        return str(picture.class_index).encode()
    if suffix == "txt":
        return caption.encode()
    width, height = picture.image.size
    facts = {"key": f"{index:06d}", "width": width, "height": height, "caption": caption, "label": picture.class_index}
    return json.dumps(facts | picture.facts, sort_keys=True).encode()


def _pair(values: tuple[float, float] | list[float]) -> tuple[float, float]:
    low, high = values
    return float(low), float(high)
