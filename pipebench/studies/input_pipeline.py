"""The input pipeline of Chaim Rand, "PyTorch Model Performance Analysis and Optimization, Part 4" (2023), row by row.

Each sample is opened and made a tensor, cropped to 256 at random, blanked under a random mask that is dilated by one
pixel, converted from RGB to YUV, and scaled. His figures are seconds per training step on a GPU; ours are seconds per
image on one core. His speed-ups can be compared with ours as long as his training waits for data. His second row
doubles the workers, so it is measured through DataLoaders.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch.utils.data import Dataset, default_collate

from pipebench.data import datasets
from pipebench.data.image_header import image_size
from pipebench.errors import PipebenchError, SampleError, install
from pipebench.host import machine
from pipebench.host.limits import check_resources
from pipebench.reference.dataloader import Live
from pipebench.reference.pipeline import LoadedBatch, good
from pipebench.reference.training_loop import one_thread
from pipebench.reference.worker_health import Notebook
from pipebench.results.loading import Loading
from pipebench.results.studies import Author, StudyResult, StudyRow
from pipebench.stages import agreement, crop, read, transform
from pipebench.stats import Speedup, compare
from pipebench.studies import Progress, Rounds, Step, Study, reaches, timed
from pipebench.task import Unavailable, Workload
from pipebench.units import counted, size

SIDE = 256
CROSS = ((0, 1, 0), (1, 1, 1), (0, 1, 0))
PAIRS = 8  # windows of each loader


@dataclass(frozen=True)
class Habits:
    """How his pipeline is written. Each fix turns one of the habits on."""

    ors: bool = False
    crop_first: bool = False
    colour_in_collate: bool = False


ROWS = (Habits(), Habits(True), Habits(True, True), Habits(True, True, True))


@dataclass(frozen=True)
class Image:
    """One file, and the box that is cut from it; `seed` is the seed of its mask."""

    path: str
    box: tuple[int, int, int, int]
    seed: int

    def read(self) -> bytes:
        with open(self.path, "rb") as file:
            return file.read()


def images(workload: Workload, count: int) -> list[Image]:
    """The first `count` good samples, repeated if there are fewer. The key of a sample determines its box."""
    found = []
    for one in good(workload):
        width, height = image_size(one.read())
        box = crop.fixed_box(random.Random(f"{workload.seed} {one.key}"), width, height, SIDE)
        found.append(Image(one.files[one.image], box, zlib.crc32(one.key.encode())))
    return [found[index % len(found)] for index in range(count)]


def drawn(seed: int) -> Any:
    """His mask, as he draws it."""
    return np.random.RandomState(seed).uniform(size=(SIDE, SIDE)) < transform.MASKED


def _dilated(mask: Any, ors: bool) -> Any:
    return transform.dilated(mask) if ors else _convolution()(mask, CROSS, mode="same").astype(bool)


def _convolution() -> Callable[..., Any]:
    """The convolution of his baseline, with which every row is compared. Raises PipebenchError without scipy."""
    try:
        from scipy.signal import convolve2d
    except ImportError as error:
        raise PipebenchError("the study input-pipeline needs scipy", install("scipy")) from error
    return convolve2d  # type: ignore[no-any-return]


def _coloured(pixels: Any) -> Any:
    """RGB to YUV, plus the offset, then the scale. Takes one image (3×S×S) or a batch (N×3×S×S)."""
    import torch

    matrix, offset = torch.tensor(transform.YUV), torch.tensor(transform.OFFSET)[:, None, None]
    made = torch.matmul(matrix, pixels.float().flatten(-2)).view(pixels.shape)
    return (made + offset) * transform.LEVEL


def sample(habits: Habits, image: Image) -> Any:
    """One sample as his `__getitem__` makes it."""
    import torch
    from PIL import Image as Pillow
    from torchvision.transforms.functional import pil_to_tensor

    left, top, width, height = image.box
    opened = Pillow.open(image.path).convert("RGB")
    if habits.crop_first:
        pixels = pil_to_tensor(opened.crop((left, top, left + width, top + height)))
    else:
        pixels = pil_to_tensor(opened)[:, top : top + height, left : left + width]
    mask = torch.from_numpy(_dilated(drawn(image.seed), habits.ors))
    pixels[mask.expand(3, -1, -1)] = 0
    return pixels if habits.colour_in_collate else _coloured(pixels)


def collate(habits: Habits, samples: list[Any]) -> Any:
    batch = default_collate(samples)
    return _coloured(batch) if habits.colour_in_collate else batch


def _his(habits: Habits, workload: Workload) -> Callable[[], Callable[[], Any]]:
    def build() -> Callable[[], Any]:
        found = images(workload, workload.batch_size)
        return lambda: collate(habits, [sample(habits, one) for one in found])

    return build


def quick_mask(seed: int) -> Any:
    """A mask with the same chance of ¼, made from two random bits per pixel: both must be set."""
    count = SIDE * SIDE // 8
    bits = np.frombuffer(np.random.default_rng(seed).bytes(2 * count), np.uint8)
    return np.unpackbits(bits[:count] & bits[count:]).reshape(SIDE, SIDE)


def _by_opencv(
    workload: Workload, cropping: Callable[[], Callable[[bytes, Image], Any]], masking: Callable[[int], Any]
) -> Callable[[], Callable[[], Any]]:
    """Mask and colours by OpenCV on bytes, with interleaved channels. The batch stays uint8 and channels last."""

    def build() -> Callable[[], Any]:
        try:
            import cv2
        except ImportError as missing:
            raise Unavailable("not-installed", install("opencv")) from missing
        import torch

        cut, found = cropping(), images(workload, workload.batch_size)
        cross = np.array(CROSS, np.uint8)
        colours = np.column_stack([np.array(transform.YUV), transform.OFFSET]).astype(np.float32)
        cv2.setNumThreads(1)

        def batch() -> Any:
            pixels = np.empty((len(found), SIDE, SIDE, 3), np.uint8)
            for one, into in zip(found, pixels, strict=True):
                cropped, blanked = cut(one.read(), one), cv2.dilate(masking(one.seed), cross)
                kept = np.equal(blanked, 0).view(np.uint8)
                cv2.transform(cv2.bitwise_and(cropped, cropped, mask=kept), colours, dst=into)
            return torch.from_numpy(pixels).permute(0, 3, 1, 2)

        return batch

    return build


def _whole_by_opencv() -> Callable[[bytes, Image], Any]:
    import cv2

    def cropping(data: bytes, image: Image) -> Any:
        left, top, width, height = image.box
        whole: Any = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR_RGB)
        return whole[top : top + height, left : left + width]

    return cropping


def _only_the_crop() -> Callable[[bytes, Image], Any]:
    from pipebench.native import building, region

    try:
        region.library_name()
    except building.NativeError as missing:
        raise Unavailable("no-compiler", missing.problem) from missing
    return lambda data, image: region.decode_and_crop(data, image.box).numpy()


def _same(ours: Any, theirs: Any) -> None:
    if not bool((ours == theirs).all()):
        raise SampleError("disagrees", "its values are not those of the row before")


def _close(ours: Any, theirs: Any) -> None:
    agreement.largest(ours.numpy(), theirs.numpy(), 1e-4)


def _levels(ours: Any, theirs: Any) -> None:
    """Allows a mean difference of 2 levels: inverse DCTs of two decoders differ, and values are rounded to levels."""
    agreement.mean(_as_levels(ours), _as_levels(theirs), agreement.EXACT_MEAN)


def _as_levels(batch: Any) -> Any:
    return batch.float().numpy() if "uint8" in str(batch.dtype) else batch.numpy() / transform.LEVEL


def steps(workload: Workload) -> list[Step]:
    """The steps: his rows from the second on, and three of ours."""
    lossy = (
        "the float output (it stays uint8, the scale to 0–1 is left to the device) and his random numbers "
        "(two bits a pixel; the agreement is shown with his masks)"
    )

    def bytes_step(name: str, what: str, cropping: Any, author: Author | None = None, *, packed: bool = False) -> Step:
        data = replace(workload, data=workload.data + datasets.PACKED) if packed else workload

        def tried() -> Callable[[], Any]:
            return _by_opencv(data, cropping, lambda seed: drawn(seed).view(np.uint8))()

        built = _by_opencv(data, cropping, quick_mask)
        return Step(name, what, built, _same if packed else _levels, author or Author(), lossy, tried=tried)

    found = [
        Step("workers-doubled", "2-D convolution, crop on the tensor, colours per sample", _his(ROWS[0], workload)),
        Step(
            "dilation-by-or",
            "the mask is dilated by OR with its shifted copies",
            _his(ROWS[1], workload),
            _same,
            Author("0.78 s a step", 1.17 / 0.78),
        ),
        Step(
            "crop-before-tensor",
            "the crop is made on the PIL image",
            _his(ROWS[2], workload),
            _same,
            Author("0.72 s a step", 0.78 / 0.72),
        ),
        Step(
            "colour-in-collate",
            "colour and scale once per batch",
            _his(ROWS[3], workload),
            _close,
            Author("0.75 s a step", 0.72 / 0.75),
        ),
        bytes_step("opencv-uint8", "all steps by OpenCV on bytes", _whole_by_opencv),
        bytes_step(
            "decode-and-crop", "the same, but only the crop is decoded", _only_the_crop, Author("announced, no figure")
        ),
        bytes_step(
            "packed-copy", "the same, from files with restart markers (`pipebench pack`)", _only_the_crop, packed=True
        ),
    ]
    return [replace(one, work=workload.batch_size) for one in found]


class _Images(Dataset[Any]):
    """The baseline as a Dataset, for the two rows that differ in their number of workers."""

    def __init__(self, workload: Workload) -> None:
        self._images = images(workload, len(good(workload)))

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, index: int) -> Any:
        return sample(ROWS[0], self._images[index])


@dataclass(frozen=True)
class _Collate:
    notebook: Notebook

    def __call__(self, samples: list[Any]) -> LoadedBatch:
        batch = LoadedBatch(collate(ROWS[0], samples), None)
        self.notebook.made()
        return batch


def workers(size: str) -> tuple[int, int]:
    """The two numbers of workers: half of the usable cores and all of them; in full size, the author's 4 and 8."""
    cores = max(2, int(machine.usable_cores()))
    return (4, 8) if size == "full" else (cores // 2, cores)


def _loaders(workload: Workload, size: str, progress: Progress) -> Speedup:
    """The speed-up of all workers over half of them: two loaders of the baseline, drawn from in turn.

    While batches are drawn from one loader, the workers of the other are idle: they have made all that they may make.
    """
    few, many = workers(size)
    with _live(workload, few) as half, _live(workload, many) as whole:
        half.start()
        whole.start()
        readings: tuple[list[float], list[float]] = [], []
        for turn in range(PAIRS):
            for live, into in ((half, readings[0]), (whole, readings[1])):
                half.settle()
                whole.settle()
                live.discard()
                into.append(_window(live, 2 * many))
            progress(turn + 1, PAIRS, f"{few} workers against {many}")
    return compare(readings[1], readings[0])


def _live(workload: Workload, count: int) -> Live:
    loading = Loading(workers=count, prefetch_factor=1)
    check_resources(count, loading.prefetch_factor, workload.batch_size * 3 * SIDE * SIDE * 4)
    notebook = Notebook(count)
    return Live(_Images(workload), loading, workload.batch_size, _Collate(notebook), notebook=notebook)


def _window(live: Live, batches: int) -> float:
    begin = live.now()
    for _ in range(batches):
        next(live)
    return live.now() - begin


def run(size: str, progress: Progress) -> StudyResult:
    _convolution()  # first: within a worker, nobody would see why it failed
    workload = Workload(data="photos", batch_size=256 if size == "full" else 16)
    few, many = workers(size)
    with one_thread():
        doubled = _loaders(workload, size, progress)
        rows = timed(steps(workload), Rounds(72 if size != "full" else 8, budget_s=55.0), progress)
    rows = _with_workers(rows, few, many, doubled)
    rows = [_with_size(one, workload) if one.name == "packed-copy" and not one.skipped else one for one in rows]
    said = [reaches(rows, *goal) for goal in (("opencv-uint8", 3), ("decode-and-crop", 5), ("packed-copy", 6))]
    setting = (
        f"photos, batches of {workload.batch_size}; seconds per image on one core, file to batch; "
        f"the second row compares loaders with {few} and {many} workers, measured in turn"
    )
    return StudyResult(STUDY.name, STUDY.title, STUDY.source, size, "image", setting, tuple(rows), tuple(said))


def _with_workers(rows: Sequence[StudyRow], few: int, many: int, doubled: Speedup) -> list[StudyRow]:
    """The rows, with his first two in front. Both run the same code, and the first has half the workers.

    So only the loader's rate differs between them.
    """
    first = replace(
        rows[0],
        name="baseline",
        what=f"{counted(few, 'worker')}; {rows[0].what}",
        author=Author("1.30 s a step (4 workers)"),
    )
    second = replace(
        rows[0],
        what=f"{many} workers instead of {few}",
        author=Author("1.17 s a step (8 workers)", 1.30 / 1.17),
        over_before=doubled,
        over_authors=doubled,
        agreement="is the same code",
        notes=("its speed-up is that of the loaders' images/s; on one core it costs as much as the baseline",),
    )
    return [first, second, *rows[1:]]


def _with_size(row: StudyRow, workload: Workload) -> StudyRow:
    """The row of the packed copy, which says what the copy takes on disk."""
    before, after = (
        datasets.image_bytes(read.load(replace(workload, data=workload.data + end))) for end in ("", datasets.PACKED)
    )
    return replace(row, notes=(f"the copy has {size(after)} of images, the files {size(before)}",))


STUDY = Study(
    "input-pipeline",
    "Eight workers, then less work for each image",
    'Chaim Rand, "PyTorch Model Performance Analysis and Optimization, Part 4" (2023); one A10G, 8 vCPU, batch 256',
    run,
)
