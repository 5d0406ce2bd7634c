"""Tar or files: Pierce Freeman, "Debugging slow pytorch training performance" (2022), step by step.

The samples are large images from the web with captions and metadata, resized and cropped. He blamed the tar; the real
cost is decoding every member and every pixel. Samples kept in memory are the limit for all other rows.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pipebench.data.listing import Sample
from pipebench.errors import PipebenchError, SampleError, install
from pipebench.reference.pipeline import good
from pipebench.reference.training_loop import one_thread
from pipebench.render.cells import spoken
from pipebench.results.studies import Author, StudyResult, StudyRow
from pipebench.stages import agreement, read
from pipebench.studies import Progress, Rounds, Step, Study, timed
from pipebench.task import Unavailable, Workload
from pipebench.units import percent

RESIZED, CROPPED = 256, 224
DRAFT = (256, 256)
GONE = 10  # a cost is called gone above this speed-up: less than a tenth of it is left


def _resized(image: Any) -> Any:
    """The image after Resize and CenterCrop, as a uint8 tensor."""
    from torchvision.transforms import functional

    small = functional.resize(image, [RESIZED], antialias=True)
    return functional.pil_to_tensor(functional.center_crop(small, [CROPPED, CROPPED]))


def _samples(workload: Workload) -> list[Sample]:
    found = [one for one in good(workload) if one.files and one.extents]
    if not found:
        raise PipebenchError("this study needs samples both as files and in shards", "use the embedded data set `web`")
    return found[: workload.batch_size]


def _shards(workload: Workload) -> tuple[list[str], set[str]]:
    """The shards that hold the samples, and the names of all their members."""
    found = _samples(workload)
    paths = {one.extents[one.image].path for one in found}
    names = {f"{one.tar_key}.{suffix}" for one in found for suffix in one.extents}
    ordered = [os.path.abspath(shard.path) for shard in read.load(workload).shards if shard.path in paths]
    return ordered, names


def _webdataset() -> Any:
    try:
        import webdataset
    except ImportError as missing:
        raise Unavailable("not-installed", install("webdataset")) from missing
    return webdataset


def tar_every_member(workload: Workload) -> Callable[[], Any]:
    """A batch from webdataset with every member decoded: image, json and text."""
    webdataset = _webdataset()
    paths, names = _shards(workload)

    def batch() -> Any:
        shards = webdataset.WebDataset(
            paths, shardshuffle=False, empty_check=False, select_files=lambda name: name in names
        )
        return _stacked(_resized(one["jpg"]) for one in shards.decode("pil"))

    return batch


def tar_image_only(workload: Workload) -> Callable[[], Any]:
    """A batch from webdataset with only the image, decoded by Pillow."""
    from PIL import Image

    webdataset = _webdataset()
    paths, names = _shards(workload)
    wanted = {name for name in names if name.endswith(".jpg")}

    def batch() -> Any:
        shards = webdataset.WebDataset(
            paths, shardshuffle=False, empty_check=False, select_files=lambda name: name in wanted
        )
        return _stacked(_resized(Image.open(io.BytesIO(one["jpg"])).convert("RGB")) for one in shards)

    return batch


def files(workload: Workload) -> Callable[[], Any]:
    """A batch from loose files, by Pillow."""
    from PIL import Image

    paths = [one.files[one.image] for one in _samples(workload)]
    return lambda: _stacked(_resized(Image.open(path).convert("RGB")) for path in paths)


def files_draft(workload: Workload) -> Callable[[], Any]:
    """A batch from loose files: Pillow's `draft` at the smallest scale of at least 256, and numpy, not tensors."""
    from PIL import Image

    paths = [one.files[one.image] for one in _samples(workload)]

    def one(path: str) -> Any:
        image = Image.open(path)
        image.draft("RGB", DRAFT)
        scale = RESIZED / min(image.size)
        small = image.resize((round(image.width * scale), round(image.height * scale)), Image.Resampling.BILINEAR)
        left, top = round((small.width - CROPPED) / 2), round((small.height - CROPPED) / 2)
        return np.asarray(small)[top : top + CROPPED, left : left + CROPPED].transpose(2, 0, 1)

    def batch() -> Any:
        import torch

        return torch.from_numpy(np.stack([one(path) for path in paths]))

    return batch


def cached(workload: Workload) -> Callable[[], Any]:
    """A batch stacked from samples that are already in memory."""
    kept = list(files_draft(workload)())
    return lambda: _stacked(kept)


def _stacked(samples: Any) -> Any:
    import torch

    return torch.stack(list(samples))


def _same(ours: Any, theirs: Any) -> None:
    if ours.shape != theirs.shape or not bool((ours == theirs).all()):
        raise SampleError("disagrees", "its values are not those of the row before")


def _coarsely(ours: Any, theirs: Any) -> None:
    """Compares means of 8×8 pixels, with the tolerance of the lab's lossy crops: a reduced decode lacks fine detail."""
    agreement.mean(_coarse(ours), _coarse(theirs), agreement.RESIZED_MEAN)


def _coarse(batch: Any) -> Any:
    count, channels, height, width = batch.shape
    cells = batch.numpy().reshape(count, channels, height // 8, 8, width // 8, 8)
    return cells.mean(axis=(3, 5), dtype=np.float32)


def steps(workload: Workload) -> list[Step]:
    def build(make: Callable[[Workload], Callable[[], Any]]) -> Callable[[], Callable[[], Any]]:
        return lambda: make(workload)

    lossy = "resolution: decoded at the smallest of 1, 1/2, 1/4, 1/8 that has 256 pixels"
    faster = Author("0.08 s a sample, after 0.13 s", 0.13 / 0.08, "tar-every-member")
    found = [
        Step("tar-every-member", "webdataset, every member decoded", build(tar_every_member), None, Author("0.13 s")),
        Step("tar-image-only", "only the image is decoded", build(tar_image_only), _same),
        Step("files", "loose files", build(files), _same),
        Step("files-draft", "decoded at a reduced scale, then numpy", build(files_draft), _coarsely, faster, lossy),
        Step("cached", "kept in memory", build(cached), _same, Author("the loader disappears from the profile")),
    ]
    return [replace(one, work=len(_samples(workload))) for one in found]


def run(size: str, progress: Progress) -> StudyResult:
    """Runs the study. In full size, a batch has 512 images, as his had; they are built once."""
    full = size == "full"
    workload = Workload(data="web", batch_size=512 if full else 16, limit=512 if full else None)
    read.load(workload, progress)
    with one_thread():
        rows = timed(steps(workload), Rounds(72 if not full else 8, budget_s=60.0), progress)
    said = [_container(rows), _disappears(rows)]
    setting = f"web, {len(_samples(workload))} images a reading, from the page cache; seconds per image on one core"
    return StudyResult(STUDY.name, STUDY.title, STUDY.source, size, "image", setting, tuple(rows), tuple(said))


def _container(rows: Sequence[StudyRow]) -> str:
    """A sentence that says whether the tar itself costs anything: the next row does the same work from files."""
    found = next((row.over_before for row in rows if row.name == "files"), None)
    if found is None:
        return "tar against files was not measured here"
    if not found.told:
        return f"no measurable difference between files and tar here: ~ (±{percent(found.smallest_change)})"
    return f"files instead of tar, all else equal: {spoken(found)} here"


def _disappears(rows: Sequence[StudyRow]) -> str:
    found = next((row.over_before for row in rows if row.name == "cached"), None)
    if found is None:
        return "cached: not measured here"
    doubt = "is neither confirmed nor ruled out here"
    holds = "holds here" if found.low > GONE else "does not hold here" if found.high <= GONE else doubt
    return f"cached: that loading disappears {holds}: {spoken(found)} over the row before"


STUDY = Study(
    "tar-or-files",
    "Is it the tar that is slow?",
    'Pierce Freeman, "Debugging slow pytorch training performance" (2022); batch 512, 12 workers, shards',
    run,
)
