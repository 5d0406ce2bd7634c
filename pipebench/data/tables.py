"""Images in tables: Parquet files, and Arrow files as Hugging Face `datasets` saves them.

The user's own tables are listed from their metadata, and never changed. Of an embedded data set, a copy in each form is
made when it is first read (`copy`): one table for each shard, written as `datasets` writes images, except that a row
group has the images of a shard, and `datasets` fills up to 100 MB.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pipebench.data import cells, listing, sealed
from pipebench.data.cells import Cell, Form
from pipebench.data.image_header import image_size
from pipebench.data.listing import Dataset, Listing, Sample, Table
from pipebench.errors import PipebenchError, SampleError, install, said_by
from pipebench.units import printable

FORMS: tuple[Form, ...] = ("parquet", "arrow")
_COLUMN = ("image", "bytes")  # of a copy: what the feature `Image` of `datasets` is in a file
_HUGGING_FACE = {"huggingface": '{"info": {"features": {"image": {"_type": "Image"}}}}'}
_REMEDIES = {  # of tables without an image, by the kind of the first problem
    "empty": "Name a table that has rows.",
    "no-image": f"Its images must be bytes in a column, as Hugging Face `datasets` writes them.\n{listing.OTHERS}",
    "unreadable": "The file was cut, is damaged, or is no such table: write or fetch it again.",
}
_SAID = {"parquet": "Parquet", "arrow": "Arrow"}


def is_table(path: str) -> bool:
    """Whether a file's name ends as that of a table."""
    return _form(path) is not None


def _form(path: str) -> Form | None:
    return next((form for form in FORMS if path.lower().endswith("." + form)), None)


def among(paths: Iterable[str]) -> tuple[list[str], list[str]]:
    """The tables among the files of a folder, in the order of their paths: those of the form that comes first, and
    those of the other.

    `datasets` keeps the results of its `map` beside its data, as `cache-*.arrow`. They are left out.
    """
    found = sorted((path for path in paths if is_table(path)), key=os.fsencode)
    kept = [path for path in found if not os.path.basename(path).startswith("cache-")]
    first = [path for path in kept if _form(path) == _form(kept[0])]
    return first, [path for path in kept if path not in set(first)]


def listed(name: str, paths: Sequence[str], limit: int | None = None, others: Sequence[str] = ()) -> Dataset:
    """The images in the user's tables, row by row, at most `limit`. All tables have the form of the first.

    `others` are tables of the other form, which are not read; a problem says so.

    Raises PipebenchError where no table has a column with images, or pyarrow is missing.
    """
    form = _form(paths[0])
    assert form is not None
    try:
        import pyarrow  # noqa: F401
    except ImportError as missing:
        raise PipebenchError(
            f"{printable(paths[0])} is read with pyarrow, which is not installed.", install("parquet")
        ) from missing
    listing_of, opened, column = Listing(), 0, tuple[str, ...]()
    folders = {os.path.dirname(os.path.abspath(path)) for path in paths}
    root = os.path.commonpath(folders)
    for path in paths:
        if limit is not None and len(listing_of.samples) >= limit:
            break
        column = _add(path, form, os.path.relpath(path, root), column, listing_of)
        opened += 1
    if not listing_of.samples:
        raise _without_image(name, paths, listing_of)
    if others:
        more = f", nor {len(others) - 1:,} more" if len(others) > 1 else ""
        said = f"not read{more}: the folder has {_SAID[form]} files too, and these are the data; name one to read it"
        listing_of.record(others[0], "another-form", said)
    return listing_of.dataset(name, limit, 0 if opened == len(paths) else None)


def _without_image(name: str, paths: Sequence[str], found: Listing) -> PipebenchError:
    """The error for tables of which none has an image. It says what is wrong with the first, and what to do."""
    first = found.problems[0] if found.problems else None
    where = f" ({first.sample})" if first is not None and len(paths) > 1 else ""
    reason = f": {first.message}{where}" if first is not None else ""
    remedy = _REMEDIES.get(first.kind, listing.WANTED) if first is not None else _REMEDIES["empty"]
    return PipebenchError(f"{printable(name)} holds no image{reason}.", remedy)


def _add(path: str, form: Form, called: str, column: tuple[str, ...], found: Listing) -> tuple[str, ...]:
    """Lists one table, whose images are in `column` if that is known, and returns the column."""
    try:
        os.close(listing.open_regular(path))
        column, sizes = _parquet(path, column) if form == "parquet" else _arrow(path, column)
    except Exception as error:  # pyarrow raises its own errors, and others, for what is no table
        kind = error.kind if isinstance(error, SampleError) else "unreadable"
        said = said_by(error).partition(". ")[0].rstrip(".")  # pyarrow goes on with what else it may be
        found.record(path, kind, printable(said)[:200])
        return column
    rows = (_place(path, form, column, *place) for place in _places(sizes))
    keys = [found.add(Sample(f"{called}/{cell.index:06d}", column[0], {}, {}, cell=cell)) for cell in rows]
    found.tables.append(Table(path, form, tuple(keys)))
    return column


def _places(sizes: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Part, row within it and row within the table, for parts of these numbers of rows."""
    index = 0
    for part, size in enumerate(sizes):
        for row in range(size):
            yield part, row, index
            index += 1


def _place(path: str, form: Form, column: tuple[str, ...], part: int, row: int, index: int) -> Cell:
    return Cell(path, form, column, part, row, index)


def _parquet(path: str, column: tuple[str, ...]) -> tuple[tuple[str, ...], list[int]]:
    """The column with the images of a Parquet file, and the rows of each of its row groups."""
    with cells.opened(path) as file:
        facts = file.metadata
        if not facts.num_rows:
            raise SampleError("empty", "it has no rows")

        def first(one: tuple[str, ...]) -> Iterator[Any]:
            for batch in file.iter_batches(batch_size=16, columns=[".".join(one)], use_threads=False):
                yield from cells.picked(batch, one)

        chosen = _with_images(file.schema_arrow, column, first)
        return chosen, [facts.row_group(number).num_rows for number in range(facts.num_row_groups)]


def _arrow(path: str, column: tuple[str, ...]) -> tuple[tuple[str, ...], list[int]]:
    """The column with the images of an Arrow file, and the rows of each of its record batches."""
    import pyarrow

    with pyarrow.memory_map(path) as mapped:
        batches = cells.batches(mapped)
        if not batches:
            raise SampleError("empty", "it has no rows")

        def first(one: tuple[str, ...]) -> Iterator[Any]:
            return (value for batch in batches for value in cells.picked(batch, one))

        return _with_images(batches[0].schema, column, first), [batch.num_rows for batch in batches]


def _with_images(schema: Any, known: tuple[str, ...], first: Any) -> tuple[str, ...]:
    """The first column whose first value is an image; the one that is `known` from a table before, if it is here."""
    columns = list(_bytes_columns(schema, ()))
    if known in columns:
        return known
    for column in columns:
        value = next((data for one in first(column) if (data := one.as_py())), b"")
        try:
            image_size(value)
        except SampleError:
            continue
        return column
    names = ", ".join(printable(name) for name in schema.names[:8]) or "none"
    raise SampleError("no-image", f"no column holds the bytes of images (its columns: {names})")


def _bytes_columns(fields: Iterable[Any], outer: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The columns of bytes, also those in structures (`datasets` has `bytes` and `path` in one)."""
    from pyarrow import types

    for field in fields:
        if types.is_struct(field.type):
            inner = [field.type.field(number) for number in range(field.type.num_fields)]
            yield from _bytes_columns(inner, (*outer, field.name))
        elif types.is_binary(field.type) or types.is_large_binary(field.type) or types.is_binary_view(field.type):
            yield (*outer, field.name)


def copies_at(shard: str) -> tuple[str, ...]:
    """Where the tables with the samples of an embedded data set's shard lie, once `copy` has made them."""
    stem = os.path.basename(shard).removesuffix(".tar")
    return tuple(str(_copy_folder(shard, form) / f"{stem}.{form}") for form in FORMS)


def _copy_folder(shard: str, form: Form) -> Path:
    built = Path(shard).parent.parent
    return built.with_name(f"{built.name}.{form}")


_copied: dict[tuple[str, Form], dict[str, Cell]] = {}


def copy(dataset: Dataset, form: Form) -> dict[str, Cell]:
    """The place of each sample of an embedded data set in its copy of that form, which is made if necessary.

    Raises ImportError where pyarrow is missing, and OSError where the copy cannot be written.
    """
    import pyarrow  # noqa: F401  # a copy that was made before is of no use without it

    identity = dataset.shards[0].path, form
    if identity in _copied:
        return _copied[identity]
    folder = _copy_folder(*identity)
    if not sealed.verified(folder):
        sealed.build(f"{dataset.name}.{form}", folder, lambda building: _write(dataset, form, building))
    found: dict[str, Cell] = {}
    for shard in dataset.shards:
        path = copies_at(shard.path)[FORMS.index(form)]
        found |= {key: Cell(path, form, _COLUMN, 0, row, row) for row, key in enumerate(shard.keys)}
    _copied[identity] = found
    return found


def _write(dataset: Dataset, form: Form, folder: Path) -> None:
    samples = dataset.by_key()
    with open(folder / sealed.SUMS, "wb") as file:
        sums = sealed.Sums(file)
        for shard in dataset.shards:
            name = os.path.basename(copies_at(shard.path)[FORMS.index(form)])
            (_write_parquet if form == "parquet" else _write_arrow)(
                _as_table([samples[key] for key in shard.keys]), str(folder / name)
            )
            sums.add(sealed.digest(folder / name), name)
        sums.seal()


def _as_table(samples: Sequence[Sample]) -> Any:
    import pyarrow

    rows = [{"bytes": one.read(), "path": f"{one.key}.{one.image}"} for one in samples]
    image = pyarrow.struct([("bytes", pyarrow.binary()), ("path", pyarrow.string())])
    return pyarrow.table({_COLUMN[0]: pyarrow.array(rows, image)}).replace_schema_metadata(_HUGGING_FACE)


def _write_parquet(table: Any, path: str) -> None:
    """One row group, images neither compressed nor in a dictionary, as in `datasets` (`get_parquet_column_options`)."""
    import pyarrow.parquet

    pyarrow.parquet.write_table(table, path, row_group_size=len(table), compression="none", use_dictionary=False)


def _write_arrow(table: Any, path: str) -> None:
    """One record batch in the stream format."""
    import pyarrow

    with pyarrow.OSFile(path, "wb") as file, pyarrow.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table.combine_chunks())
