"""Read from tables: Parquet and Arrow files with the bytes of images, what Hugging Face data sets are.

Parquet cannot give one image: a read decodes the column of a whole row group. So the cost of random access follows the
size of the row groups, and `parquet` reads in order. Arrow files are mapped: each image has its own place.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from pipebench.data import cells, datasets, tables
from pipebench.data.cells import Cell, Form
from pipebench.stages.decode import library
from pipebench.stages.read import Payload, Reading, Source, load, shows_residency
from pipebench.task import Unavailable, Workload, variant
from pipebench.units import size

MOST_BYTES = 1 << 27  # of a row group that is read for one image; `datasets` writes up to 100 MB


def _cells(workload: Workload, form: Form) -> dict[str, Cell]:
    """The place of each sample in a table of that form. Raises `Unavailable` where there is none."""
    import pyarrow.parquet  # noqa: F401  # now, and not in the timed part

    shows_residency(workload)
    listed = load(workload)
    found = {one.key: one.cell for one in listed.samples if isinstance(one.cell, Cell) and one.cell.form == form}
    if found:
        return found
    if not datasets.is_embedded(workload.data):
        what = "tables of another form" if listed.tables else "shards" if listed.shards else "loose files"
        raise Unavailable("not-built", f"this data is {what}, and no such tables are made of your files")
    return tables.copy(listed, form)


def _placed(places: dict[str, Cell], source: Source) -> list[tuple[str, Cell]]:
    return [(one.key, places[one.key]) for one in source.samples]


@variant("read/image", name="parquet", extra="parquet", library=library("pyarrow"))
def parquet(workload: Workload) -> Reading:
    """pyarrow, 64 rows of a row group after the other and their images in order: no random access."""
    places = _cells(workload, "parquet")

    def read(source: Source) -> Iterator[tuple[str, Payload]]:
        for path, rows in groupby(_placed(places, source), key=lambda row: row[1].path):
            with cells.opened(path) as file:
                for part, within in groupby(rows, key=lambda row: row[1].part):
                    found = list(within)
                    images = cells.in_order(file, part, found[0][1].column, [cell.row for _, cell in found])
                    for (key, _), image in zip(found, images, strict=True):
                        yield key, (image,)

    return read


@variant("read/image", name="parquet-random", extra="parquet", library=library("pyarrow"))
def parquet_random(workload: Workload) -> Reading:
    """pyarrow, the whole row group read again for each image: what random access to Parquet costs."""
    import pyarrow.parquet

    places = _cells(workload, "parquet")
    groups = {(cell.path, cell.part, cell.column) for cell in places.values()}
    most = max(cells.column_bytes(_metadata(path), part, column) for path, part, column in groups)
    if most > MOST_BYTES:
        raise Unavailable("unfit", f"a row group of images has {size(most)}, which would be read for each of them")

    def read(source: Source) -> Iterator[tuple[str, Payload]]:
        for path, rows in groupby(_placed(places, source), key=lambda row: row[1].path):
            with pyarrow.parquet.ParquetFile(path) as file:
                for key, cell in rows:
                    yield key, (cells.value(cells.row_group(file, cell.part, cell.column), cell.row),)

    return read


@functools.lru_cache(maxsize=1)
def _metadata(path: str) -> Any:
    import pyarrow.parquet

    return pyarrow.parquet.read_metadata(path)


@variant("read/image", name="arrow-ipc", extra="parquet", library=library("pyarrow"))
def arrow_ipc(workload: Workload) -> Reading:
    """pyarrow, the file mapped and one value copied for each image: random access in a table."""
    import pyarrow

    places = _cells(workload, "arrow")

    def read(source: Source) -> Iterator[tuple[str, Payload]]:
        for path, rows in groupby(_placed(places, source), key=lambda row: row[1].path):
            with pyarrow.memory_map(path) as mapped:
                batches = cells.batches(mapped)
                for part, within in groupby(rows, key=lambda row: row[1].part):
                    values: Any = None
                    for key, cell in within:
                        values = cells.picked(batches[part], cell.column) if values is None else values
                        yield key, (cells.value(values, cell.row),)

    return read


@variant("read/image", name="hf-datasets", extra="huggingface", library=library("datasets"))
def hugging_face(workload: Workload) -> Reading:
    """Hugging Face `datasets`: `dataset[i]` of a mapped Arrow file, nothing decoded."""
    from datasets import Dataset, Image  # type: ignore[attr-defined]  # in a checkout, mypy finds the folder `datasets`

    if workload.cache == "cold":
        raise Unavailable("kernel", "datasets keeps its files mapped, and the pages of a mapped file cannot be dropped")
    places = _cells(workload, "arrow")
    if any(map(cells.in_file_format, {cell.path for cell in places.values()})):
        raise Unavailable("unfit", "datasets reads Arrow's stream format, and these tables are in its file format")

    def opened(path: str, name: str) -> Any:
        found = Dataset.from_file(path).select_columns([name])
        return found.cast_column(name, Image(decode=False)) if isinstance(found.features[name], Image) else found

    def read(source: Source) -> Iterator[tuple[str, Payload]]:
        for key, cell in _placed(places, source):
            if cell.path not in source.held:  # in the untimed call, like a script at its start
                source.held[cell.path] = opened(cell.path, cell.column[0])
            value = source.held[cell.path][cell.index]
            for name in cell.column:
                value = value[name]
            yield key, (value,)

    return read
