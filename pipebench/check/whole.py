"""The check of a whole data set: threads look at the images, and one counts what they find.

The libraries release the GIL while they decode, so threads use all cores. Only so many images are under way that memory
stays bounded.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from pipebench.check import images, members
from pipebench.check.decoding import Decoders, Room
from pipebench.check.kinds import Findings, Kind, Looked, of_datasets, of_images
from pipebench.data.image_header import header, orientation
from pipebench.data.listing import Dataset, Extent, Sample, read_extent
from pipebench.errors import SampleError
from pipebench.host import machine
from pipebench.results.check import Check, Finding, Found
from pipebench.stages.decode import Encoded
from pipebench.units import size

AHEAD = 4  # images under way for each thread
MOST_BYTES = 1 << 29  # of an encoded image: a larger file is not read
NOTICED = 512  # samples whose beginning `noticed` reads
_BEGINNING = 64 << 10  # bytes
_KINDS_IN = (images, members)  # they register themselves

Progress = Callable[[int, int, str], None]


def looked_at(sample: Sample, decoders: Decoders, room: Room) -> Looked:
    """Reads one sample's image and tries the decoders on it."""
    data = b""
    try:
        if (length := _bytes(sample)) > MOST_BYTES:
            raise SampleError("too-large", f"the file has {size(length)}, more than {size(MOST_BYTES)}")
        data = sample.read()
        stated = header(data)
    except SampleError as problem:
        return Looked(sample, data[:64], problem=problem)
    with room.of(stated.width * stated.height):
        tried = decoders.tried(Encoded(data, stated.width, stated.height))
    return Looked(sample, data[:64], stated, orientation(data), tried=tried)


def _bytes(sample: Sample) -> int:
    """The size of the image's file; 0 if it is unknown, which reading it will say."""
    if sample.problem is not None or sample.cell is not None:
        return 0
    if sample.image not in sample.files:
        return sample.extents[sample.image].size
    try:
        return os.path.getsize(sample.files[sample.image])
    except OSError:
        return 0


def of_one(looked: Looked) -> list[tuple[Kind, Found]]:
    """Everything that is found about one image."""
    found = ((kind, look(looked)) for kind, look in of_images.items())
    return [(kind, Found(looked.sample.key, detail)) for kind, detail in found if detail is not None]


def _of_sample(sample: Sample, decoders: Decoders, room: Room) -> list[tuple[Kind, Found]]:
    return of_one(looked_at(sample, decoders, room))


def check(dataset: Dataset, decoders: Decoders, progress: Progress, threads: int | None = None) -> tuple[Check, bool]:
    """Looks at every sample. The second value is False if an interrupt came: then it is what was found until then."""
    begin = time.monotonic()
    findings, looked, complete = Findings(), 0, True
    for kind, look in of_datasets.items():
        for one in look(dataset):
            findings.add(kind, one)
    threads = threads or max(1, round(machine.usable_cores()))
    room = Room()
    with ThreadPoolExecutor(threads) as pool:
        try:
            futures = (pool.submit(_of_sample, one, decoders, room) for one in dataset.samples)
            for future in _ahead(futures, threads * AHEAD):
                found = future.result()
                looked += 1
                for kind, one in found:
                    findings.add(kind, one)
                progress(looked, len(dataset.samples), "looking at images")
        except KeyboardInterrupt:
            complete = False
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
    keys = {one.key for one in dataset.samples}
    return Check(
        dataset.name,
        len(dataset.samples),
        looked,
        len(findings.harmful & keys),
        time.monotonic() - begin,
        tuple(findings),
        decoders.names,
        decoders.missing,
        len(findings.harmful - keys),
        dataset.left_out,
    ), complete


def _ahead(
    futures: Iterator[Future[list[tuple[Kind, Found]]]], many: int
) -> Iterator[Future[list[tuple[Kind, Found]]]]:
    """The same futures, of which up to `many` are begun before the first is taken."""
    waiting: deque[Future[list[tuple[Kind, Found]]]] = deque()
    for future in futures:
        waiting.append(future)
        if len(waiting) > many:
            yield waiting.popleft()
    yield from waiting


def noticed(dataset: Dataset, kinds: Sequence[str] = ("lacks", "extension")) -> tuple[Finding, ...]:
    """What a listing and the beginnings of at most `NOTICED` images tell, with nothing decoded.

    An image in a table is passed over: it has no name of its own, and its beginning is not read without the rest.
    """
    findings = Findings()
    for kind, look in of_datasets.items():
        for one in look(dataset) if kind.code in kinds else ():
            findings.add(kind, one)
    step = max(1, len(dataset.samples) // NOTICED)
    for sample in dataset.samples[::step]:
        for kind, one in of_one(_begun(sample)) if sample.cell is None else ():
            if kind.code in kinds:
                findings.add(kind, one)
    return tuple(findings)


def _begun(sample: Sample) -> Looked:
    """A sample of which only the beginning was read."""
    try:
        if sample.problem is not None:
            raise sample.problem
        whole = sample.extents.get(sample.image) or Extent(sample.files[sample.image], 0, _bytes(sample))
        data = read_extent(Extent(whole.path, whole.offset, min(whole.size, _BEGINNING)))
        return Looked(sample, data[:64], header(data))
    except SampleError as problem:
        return Looked(sample, problem=problem)
