"""One image in a table: in a row group of a Parquet file, or in a record batch of an Arrow file.

Parquet cannot give one value: what is read is the column's whole chunk in one row group, or, of a large one, all of it
up to the value. Arrow's IPC files can, as they are mapped and their values have places of their own. pyarrow is
imported when a table is opened.
"""

from __future__ import annotations

import functools
import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from pipebench.data import listing
from pipebench.errors import SampleError, kind_of, said_by
from pipebench.units import printable

MOST_BYTES = 1 << 29  # of a row group whose images are all kept when one is read
BATCH_ROWS = 64  # that are decoded at once where images are read in order
BUFFER_BYTES = 1 << 20  # of a file that is read in order
_FILE_FORMAT = b"ARROW1"  # how an Arrow file begins that is no stream
Form = Literal["parquet", "arrow"]
_reading = threading.Lock()  # threads that ask for images of one row group wait until it was read once


@dataclass(frozen=True)
class Cell:
    """Where one image lies: row `row` of the row group or record batch `part`, which is row `index` of the table.

    `column` is the path of the values with the bytes, such as ("image", "bytes") in a data set of Hugging Face.
    """

    path: str
    form: Form
    column: tuple[str, ...]
    part: int
    row: int
    index: int

    def read(self) -> bytes:
        """The image's bytes. `SampleError`: `vanished`, `unreadable`, `not-regular`, `empty`."""
        os.close(listing.open_regular(self.path))
        try:
            if self.form == "arrow":
                return self._mapped()
            with _reading:
                facts = os.stat(self.path)
                values = _row_group(self.path, self.part, self.column, (facts.st_mtime_ns, facts.st_size))
                return value(values, self.row)
        except SampleError:
            raise
        except Exception as error:  # pyarrow raises its own errors, and others, for a file that was cut or altered
            kind = "vanished" if kind_of(error) == "vanished" else "unreadable"
            raise SampleError(kind, printable(said_by(error))[:200]) from error

    def _mapped(self) -> bytes:
        """Opens the file for this image alone, because the pages of a file that stays mapped cannot be dropped."""
        import pyarrow

        with pyarrow.memory_map(self.path) as mapped:
            return value(picked(batches(mapped)[self.part], self.column), self.row)


def value(values: Any, row: int) -> bytes:
    """The bytes in one row, copied. SampleError: `empty` where there are none."""
    data: bytes | None = values[row].as_py()
    if not data:
        raise SampleError("empty", "its row has no bytes")
    return data


@functools.lru_cache(maxsize=2)
def _row_group(path: str, part: int, column: tuple[str, ...], state: tuple[int, int]) -> Any:
    """The values of one row group by row. `state` tells a file from what was there before."""
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(path) as file:
        if column_bytes(file.metadata, part, column) <= MOST_BYTES:
            return row_group(file, part, column)
    return _Passing(path, part, column)


def column_bytes(facts: Any, part: int, column: tuple[str, ...]) -> int:
    """How many bytes the values of a column take in one row group, when they are decompressed."""
    group = facts.row_group(part)
    chunks = (group.column(number) for number in range(group.num_columns))
    return sum(int(one.total_uncompressed_size) for one in chunks if one.path_in_schema == ".".join(column))


class _Passing:
    """The values of a large row group by row. They are decoded in order, and the last `MOST_BYTES` of them are kept.

    For a row before these it begins anew, so it is made for rows that rise, or nearly so.
    """

    def __init__(self, path: str, part: int, column: tuple[str, ...]) -> None:
        self._path, self._part, self._column = path, part, column
        self._begin()

    def _begin(self) -> None:
        self._batches = _batches_of(opened(self._path), self._part, self._column)
        self._kept = deque[tuple[int, Any]]()  # the row at which some values begin, and these
        self._end = 0

    def __getitem__(self, row: int) -> Any:
        if self._kept and row < self._kept[0][0]:
            self._begin()
        while row >= self._end:
            self._decode()
        return next(values[row - first] for first, values in reversed(self._kept) if first <= row)

    def _decode(self) -> None:
        batch = next(self._batches, None)
        if batch is None:
            raise SampleError("truncated", "its row group ends before it, or is damaged there")
        self._kept.append((self._end, picked(batch, self._column)))
        self._end += len(batch)
        while len(self._kept) > 1 and sum(values.nbytes for _, values in self._kept) > MOST_BYTES:
            self._kept.popleft()


def _batches_of(file: Any, part: int, column: tuple[str, ...]) -> Iterator[Any]:
    """The record batches of a column in one row group of a `ParquetFile`, decoded one after the other."""
    found: Iterator[Any] = file.iter_batches(
        BATCH_ROWS, row_groups=[part], columns=[".".join(column)], use_threads=False
    )
    return found


def row_group(file: Any, part: int, column: tuple[str, ...]) -> Any:
    """The values of the column in one row group of a `ParquetFile`, read with one thread."""
    return picked(file.read_row_group(part, columns=[".".join(column)], use_threads=False), column)


def opened(path: str) -> Any:
    """A `ParquetFile` that is read in order: never the whole column of a row group at once."""
    import pyarrow.parquet

    return pyarrow.parquet.ParquetFile(path, buffer_size=BUFFER_BYTES, pre_buffer=False)


def in_order(file: Any, part: int, column: tuple[str, ...], rows: Iterable[int]) -> Iterator[bytes]:
    """The bytes in some rows of a row group of a `ParquetFile`, by rising row. No row after the last one is decoded.

    SampleError where a row has no bytes, or is not there.
    """
    found = _batches_of(file, part, column)
    begin = 0
    values: Any = ()
    for row in rows:
        while row >= begin + len(values):
            begin += len(values)
            batch = next(found, None)
            if batch is None:
                raise SampleError("truncated", "the row group has fewer rows than its table says")
            values = picked(batch, column)
        yield value(values, row - begin)


def in_file_format(path: str) -> bool:
    """Whether an Arrow file is in the file format, not in the stream format that Hugging Face writes."""
    with open(path, "rb", buffering=0) as file:
        return file.read(len(_FILE_FORMAT)) == _FILE_FORMAT


def batches(mapped: Any) -> list[Any]:
    """The record batches of a mapped Arrow file, in the stream format (what Hugging Face writes) or the file format."""
    import pyarrow

    if mapped.read(len(_FILE_FORMAT)) == _FILE_FORMAT:
        reader = pyarrow.ipc.open_file(mapped)
        return [reader.get_batch(number) for number in range(reader.num_record_batches)]
    mapped.seek(0)
    return list(pyarrow.ipc.open_stream(mapped))


def picked(table: Any, column: tuple[str, ...]) -> Any:
    """The values at the path `column` of a pyarrow table or record batch."""
    from pyarrow import compute

    values = table.column(column[0])
    for name in column[1:]:
        values = compute.struct_field(values, name)
    return values
