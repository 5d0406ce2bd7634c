"""The kinds of findings about the list of a data set: its shards, its folders, and which files belong together.

To add one, write a function here: nothing else is edited.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from pipebench.check.kinds import of_dataset
from pipebench.data.listing import Dataset, Sample, is_image
from pipebench.results.check import Found
from pipebench.units import printable

MOST = 0.9  # a member that so many of the samples have belongs to every sample
_IMAGE = "an image"


def _suffixes(sample: Sample) -> set[str]:
    """What kinds of files a sample has. Images count as one kind, whatever their format."""
    return {_IMAGE if is_image("." + one) else f".{printable(one)}" for one in (*sample.files, *sample.extents)}


@of_dataset("lacks", "breaks", "lacks a file that the others have", "complete it, or remove it")
def lacks(dataset: Dataset) -> Iterator[Found]:
    good = [(one.key, _suffixes(one)) for one in dataset.samples if one.problem is None]
    counts = Counter(suffix for _, suffixes in good for suffix in suffixes)
    usual = {suffix for suffix, count in counts.items() if MOST * len(good) <= count < len(good)}
    for key, suffixes in good if usual else ():
        if missing := sorted(usual - suffixes):
            yield Found(key, f"no {', '.join(missing)}")


@of_dataset("no-image", "breaks", "samples without an image", "complete them: they were left out")
def no_image(dataset: Dataset) -> Iterator[Found]:
    yield from (Found(one.sample, one.message) for one in dataset.problems if one.kind == "no-image")


@of_dataset("incomplete-shard", "breaks", "shard without its end", "fetch or write it again")
def incomplete(dataset: Dataset) -> Iterator[Found]:
    yield from (Found(one.sample, one.message) for one in dataset.problems if one.kind == "incomplete-shard")


@of_dataset("another-form", "note", "tables of another form", "name one to read it")
def another_form(dataset: Dataset) -> Iterator[Found]:
    yield from (Found(one.sample, one.message) for one in dataset.problems if one.kind == "another-form")


@of_dataset("not-listed", "breaks", "cannot be listed or read", "mend it or its permissions")
def not_listed(dataset: Dataset) -> Iterator[Found]:
    known = ("no-image", "incomplete-shard", "another-form")
    yield from (Found(one.sample, one.message) for one in dataset.problems if one.kind not in known)


@of_dataset("same-key", "changes", "key of another in its shard", "give each sample its own")
def same_key(dataset: Dataset) -> Iterator[Found]:
    """Neighbours with one key are one sample. Shards are separate, and in a folder names are unique."""
    samples = dataset.by_key()
    for shard in dataset.shards:
        seen = set[str]()
        for sample in (samples[key] for key in shard.keys if key in samples):  # a limit may leave the last ones out
            if sample.tar_key in seen:
                yield Found(sample.key, f"again in {printable(shard.path)}")
            seen.add(sample.tar_key)
