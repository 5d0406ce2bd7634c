"""What a kind of finding is, and how findings are counted. Each kind is one function, in `images` or in `members`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pipebench.data.image_header import Header
from pipebench.data.listing import Dataset, Sample
from pipebench.errors import SampleError
from pipebench.results.check import Effect, Finding, Found

KEPT = 10_000  # files of one kind that are kept by name; the others are only counted
_ORDER = ("breaks", "changes", "note")


@dataclass(frozen=True)
class Looked:
    """What one sample turned out to be.

    `problem` says why there is no header. `tried` has the decoders that are made for such an image, the reference
    first, each with its error or None; the kind of an error tells whether it failed or gave other pixels.
    """

    sample: Sample
    data: bytes = b""
    header: Header | None = None
    orientation: int = 1
    problem: SampleError | None = None
    tried: Mapping[str, SampleError | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Kind:
    """One kind of finding: its name in JSON, what it does to a training, and in words what it is and what to do."""

    code: str
    effect: Effect
    what: str
    remedy: str


OfImage = Callable[[Looked], str | None]
OfDataset = Callable[[Dataset], Iterable[Found]]
of_images: dict[Kind, OfImage] = {}
of_datasets: dict[Kind, OfDataset] = {}


def of_image(code: str, effect: Effect, what: str, remedy: str) -> Callable[[OfImage], OfImage]:
    """Registers a function that looks at one image: it returns what is the matter with it, or None."""

    def register(look: OfImage) -> OfImage:
        of_images[Kind(code, effect, what, remedy)] = look
        return look

    return register


def of_dataset(code: str, effect: Effect, what: str, remedy: str) -> Callable[[OfDataset], OfDataset]:
    """Registers a function that looks at the list of a data set, and yields what it finds."""

    def register(look: OfDataset) -> OfDataset:
        of_datasets[Kind(code, effect, what, remedy)] = look
        return look

    return register


class Findings:
    """Counts what is found, and keeps the first `KEPT` names of each kind.

    `harmful` are the names of all samples, shards and folders that break or change training, each once.
    """

    def __init__(self) -> None:
        self._counts: dict[Kind, int] = {}
        self._found: dict[Kind, list[Found]] = {}
        self.harmful: set[str] = set()

    def add(self, kind: Kind, found: Found) -> None:
        self._counts[kind] = self._counts.get(kind, 0) + 1
        kept = self._found.setdefault(kind, [])
        if len(kept) < KEPT:
            kept.append(found)
        if kind.effect != "note":
            self.harmful.add(found.name)

    def __iter__(self) -> Iterator[Finding]:
        """Each kind that was found: what breaks training first, and the most frequent first."""
        for kind in sorted(self._counts, key=lambda one: (_ORDER.index(one.effect), -self._counts[one])):
            found = tuple(self._found[kind])
            yield Finding(kind.code, kind.effect, kind.what, kind.remedy, self._counts[kind], found)
