"""The data that is measured: embedded datasets, built once and verified at every use, and the user's own.

`load` returns a `Dataset` for both: samples with their loose files, their places in shards, or both. A manifest in
`datasets/` says how an embedded dataset is made. Each has a packed copy: the same samples, whose JPEGs have restart
markers. Built files go to the cache folder, never into the package. The user's own data is never copied or changed.
"""

from __future__ import annotations

import hashlib
import io
import math
import os
import tarfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from pipebench.data import in_tars, listing, patterns, sealed, tables
from pipebench.data.image_header import image_size
from pipebench.data.listing import Dataset, Extent, Sample, Shard
from pipebench.errors import FULL, PipebenchError, SampleError, UsageError, remedy_of
from pipebench.host import machine
from pipebench.native import packing
from pipebench.units import printable, size

if TYPE_CHECKING:
    from pipebench.data.synthetic import Made

__all__ = ["Dataset", "Extent", "Facts", "Sample", "Shard", "describe", "load", "names", "shadowed"]

PACKED = "-packed"  # ends the name of an embedded dataset's packed copy
SHARD_SAMPLES = 64
DESCRIBED = 64  # samples whose headers `describe` reads
VERSION = 1  # raise it whenever a recipe makes other bytes than before, or the layout of built files changes
_INDEX = "index.tsv"

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Facts:
    """The size of a dataset and its bits per pixel. The cost of decoding follows the bits per pixel.

    `images` counts all samples without a known problem. The other figures describe the first `described` samples that
    could be read (None where there are too few). `bits_per_pixel` is their total bits divided by their total pixels;
    its standard deviation weights each image by its pixels, so that small thumbnails do not dominate.
    """

    images: int
    described: int
    mean_bytes: float | None
    mean_pixels: float | None
    bits_per_pixel: float | None
    bits_per_pixel_sd: float | None


def _quiet(done: int, total: int, what: str) -> None:
    pass


def names() -> list[str]:
    """The names of the embedded datasets."""
    return sorted(path.stem for path in manifests().glob("*.toml"))


def load(
    name_or_path: str, *, limit: int | None = None, progress: Progress = _quiet, cache: Path | None = None
) -> Dataset:
    """The embedded dataset of that name (built if necessary), or the user's own folder, tars, tables or images
    (`patterns`).

    The name of an embedded dataset with `PACKED` at its end is that of its packed copy: the same keys and pixels. With
    `limit`, an embedded dataset has exactly that many samples (more are built if necessary), and the user's own data at
    most that many. `progress(done, total, what)` is called while building. Raises `PipebenchError` where there is
    nothing to measure, its kind `UsageError` where nothing has that name, and `NativeError` where a copy cannot be
    packed here.
    """
    if limit is not None and limit < 1:
        raise PipebenchError(f"A limit of {limit} samples leaves nothing to measure.", "Give a limit of at least 1.")
    if is_embedded(name_or_path):
        return _embedded(name_or_path, limit, progress, cache or machine.cache_folder())
    if os.path.isdir(name_or_path):
        return _folder(name_or_path, limit)
    found = _paths(name_or_path)
    if all(map(tables.is_table, found)):
        return tables.listed(name_or_path, found, limit)
    if all(listing.is_image(path) for path in found):
        return listing.files(name_or_path, found, limit)
    return in_tars.shards(name_or_path, patterns.tars(found), limit)


def _folder(path: str, limit: int | None) -> Dataset:
    """The images in a folder. Where it has none, those in its tables."""
    try:
        return listing.folder(path, limit)
    except listing.NoImageError as none:
        found, others = tables.among(none.others)
        if not found:
            raise
        return tables.listed(path, found, limit, others)


def is_embedded(name_or_path: str) -> bool:
    """Whether that is the name of an embedded dataset or of its packed copy."""
    return name_or_path.removesuffix(PACKED) in names()


def loose_files(dataset: Dataset) -> Path:
    """The folder that holds the class folders of an embedded dataset."""
    return Path(dataset.samples[0].files["jpg"]).parent.parent


def image_bytes(dataset: Dataset) -> int:
    """The bytes of all images of an embedded dataset."""
    return sum(one.extents[one.image].size for one in dataset.samples)


def tars(path_or_pattern: str) -> list[str]:
    """The paths of one tar or of a pattern of tars. PipebenchError where one cannot be used, or there is none."""
    found = _paths(path_or_pattern)
    if all(map(listing.is_image, found)):
        raise PipebenchError(f"{printable(path_or_pattern)} is an image, and no folder.", "Name its folder, or a .tar.")
    return patterns.tars(found)


def _paths(path_or_pattern: str) -> list[str]:
    found = patterns.named(path_or_pattern)
    if found is None:
        remedy = f"{listing.WANTED}\nOr one of the embedded datasets: {', '.join(names())}."
        raise UsageError(f"{printable(path_or_pattern) or 'An empty name'} does not exist.", remedy)
    return found


def shadowed(name_or_path: str) -> str | None:
    """A note for the user where a path here has the name of an embedded dataset: it says which of the two is used."""
    if not is_embedded(name_or_path) or not os.path.lexists(name_or_path):
        return None
    return f"{name_or_path} is the embedded dataset; to measure what lies here under that name, say ./{name_or_path}"


def describe(dataset: Dataset) -> Facts:
    """Facts about `dataset`, from the headers of at most `DESCRIBED` files."""
    lengths: list[int] = []
    pixels: list[int] = []
    good = [sample for sample in dataset.samples if sample.problem is None]
    for sample in good[:DESCRIBED]:
        try:
            data = sample.read()
            width, height = image_size(data)
        except SampleError:
            continue
        lengths.append(len(data))
        pixels.append(width * height)
    count, bits, area = len(lengths), 8 * sum(lengths), sum(pixels)
    return Facts(
        images=len(good),
        described=count,
        mean_bytes=sum(lengths) / count if count else None,
        mean_pixels=area / count if count else None,
        bits_per_pixel=bits / area if count else None,
        bits_per_pixel_sd=_spread(lengths, pixels, bits / area) if count > 1 else None,
    )


def _spread(lengths: list[int], pixels: list[int], mean: float) -> float:
    """The standard deviation of the images' bits per pixel around the total's, each image weighted by its pixels."""
    count = len(lengths)
    squares = sum(area * (8 * length / area - mean) ** 2 for length, area in zip(lengths, pixels, strict=True))
    return math.sqrt(squares / sum(pixels) * count / (count - 1))


def manifests() -> Path:
    """The folder of manifests: inside an installed package, beside the package in a checkout."""
    package = Path(__file__).parent.parent
    packaged = package / "_datasets"
    return packaged if packaged.is_dir() else package.parent / "datasets"


def _embedded(name: str, limit: int | None, progress: Progress, cache: Path) -> Dataset:
    import tomllib

    manifest = tomllib.loads((manifests() / f"{name.removesuffix(PACKED)}.toml").read_text(encoding="utf-8"))
    count = limit or int(manifest["count"])
    folder = cache.absolute() / "datasets" / f"{name}-{_fingerprint(name, manifest, count)}"
    found = _built(name, folder)
    if found is not None:
        return found
    try:
        again = " again, because its files were altered" if folder.exists() else ""
        _build(name, manifest, count, folder, lambda done, total, what: progress(done, total, what + again))
    except OSError as error:
        problem = f"The dataset {name} cannot be built in {printable(folder)}: {error.strerror or error}."
        raise PipebenchError(problem, _remedy(error, count, manifest)) from error
    return _read_index(name, folder)


def _remedy(error: OSError, count: int, manifest: dict[str, Any]) -> str:
    if error.errno not in FULL:
        return remedy_of(error, "set PIPEBENCH_CACHE to a folder that can be written to")
    pixels = max(width * height for width, height in manifest["sizes"])
    needed = size(2.5 * count * pixels * 2.5 / 8)  # twice (files and shards), at 2.5 bits per pixel, and some more
    return f"Free about {needed} there, or set PIPEBENCH_CACHE to a folder that has them and can be written to."


def _fingerprint(name: str, manifest: dict[str, Any], count: int) -> str:
    """The end of a built folder's name: a digest of manifest, photographs, version and count."""
    folder = manifests()
    digest = hashlib.sha256(f"{VERSION} {SHARD_SAMPLES} {count}\n".encode())
    digest.update((folder / f"{name.removesuffix(PACKED)}.toml").read_bytes())
    digest.update(f"packed {packing.SEGMENT}".encode() if name.endswith(PACKED) else b"")
    for data in _photographs(folder / "photographs", manifest.get("photographs", ())):
        digest.update(data)
    return digest.hexdigest()[:16]


def _photographs(folder: Path, used: Sequence[str]) -> Iterator[bytes]:
    """The bytes of the list of photographs and of those that are used. PipebenchError if one is not what it was.

    Data made from another photograph would have the same name and other costs.
    """
    import tomllib

    if not used:
        return
    listed = (folder / "photographs.toml").read_bytes()
    known = tomllib.loads(listed.decode())
    yield listed
    for name in used:
        data = (folder / f"{name}.jpg").read_bytes()
        if hashlib.sha256(data).hexdigest() != known[name]["sha256"]:
            raise PipebenchError(
                f"The embedded photograph {printable(folder / name)}.jpg was altered.",
                "Install pipebench again (in a checkout: git checkout -- datasets).",
            )
        yield data


def _build(name: str, manifest: dict[str, Any], count: int, folder: Path, progress: Progress) -> None:
    sealed.build(name, folder, lambda building: _write(name, manifest, count, building, progress))


def _write(name: str, manifest: dict[str, Any], count: int, folder: Path, progress: Progress) -> None:
    """Writes all files of the dataset: loose files in class folders, shards, the index and the sums."""
    from pipebench.data import synthetic

    make = synthetic.maker(synthetic.read_recipe(manifest, manifests() / "photographs"))
    if name.endswith(PACKED):
        make = _packing(make)
    (folder / "shards").mkdir()
    with open(folder / sealed.SUMS, "wb") as file:
        sums = sealed.Sums(file)
        with open(folder / _INDEX, "w", encoding="utf-8") as index:
            for first in range(0, count, SHARD_SAMPLES):
                shard = f"shards/{name}-{first // SHARD_SAMPLES:06d}.tar"
                with tarfile.open(folder / shard, "w", format=tarfile.USTAR_FORMAT) as tar:
                    for number in range(first, min(first + SHARD_SAMPLES, count)):
                        progress(number, count, f"building {name}")
                        _write_sample(f"{number:06d}", make(number), folder, shard, tar, index, sums)
                sums.add(sealed.digest(folder / shard), shard)
        sums.add(sealed.digest(folder / _INDEX), _INDEX)
        sums.seal()
    progress(count, count, f"building {name}")


def _packing(make: Callable[[int], Made]) -> Callable[[int], Made]:
    """Makes the same samples with restart markers in their images."""

    def packed(number: int) -> Made:
        made = make(number)
        return replace(made, members={**made.members, "jpg": packing.pack_if_possible(made.members["jpg"])})

    return packed


def _write_sample(
    key: str, made: Made, folder: Path, shard: str, tar: tarfile.TarFile, index: TextIO, sums: sealed.Sums
) -> None:
    """Writes one sample as loose files, as members of a shard and as lines of the index."""
    (folder / "files" / made.label).mkdir(parents=True, exist_ok=True)
    for suffix, data in made.members.items():
        loose = f"files/{made.label}/{key}.{suffix}"
        (folder / loose).write_bytes(data)
        member = tarfile.TarInfo(f"{key}.{suffix}")
        member.size = len(data)
        offset = tar.offset + tarfile.BLOCKSIZE  # a short name in the USTAR format has one block of header
        tar.addfile(member, io.BytesIO(data))
        index.write(f"{key}\t{suffix}\t{loose}\t{shard}\t{offset}\t{len(data)}\n")
        sums.add(hashlib.sha256(data).hexdigest(), loose)


def _built(name: str, folder: Path) -> Dataset | None:
    """What was built into `folder`, if every file has the bytes that were written; else None."""
    try:
        return _read_index(name, folder) if sealed.verified(folder) else None
    except (OSError, ValueError):
        return None


def _read_index(name: str, folder: Path) -> Dataset:
    """The dataset that the index describes. Raises ValueError for what is no index, although its digest fits."""
    files: dict[str, dict[str, str]] = {}
    extents: dict[str, dict[str, Extent]] = {}
    shards: dict[str, dict[str, None]] = {}
    for line in (folder / _INDEX).read_text(encoding="utf-8").splitlines():
        key, suffix, loose, shard, offset, length = line.split("\t")
        path = str(folder / shard)
        files.setdefault(key, {})[suffix] = str(folder / loose)
        extents.setdefault(key, {})[suffix] = Extent(path, int(offset), int(length))
        shards.setdefault(path, {})[key] = None
        if int(offset) < 0 or int(length) < 0:
            raise ValueError("no file begins before its shard")
    if not files or any("jpg" not in members for members in files.values()):
        raise ValueError("a sample without an image")
    samples = tuple(Sample(key, "jpg", files[key], extents[key], key) for key in files)
    return Dataset(name, samples, tuple(Shard(path, tuple(keys), True) for path, keys in shards.items()))
