"""One image in a table: in a row group of a Parquet file, or in a record batch of an Arrow file.

Parquet cannot give one value: what is read is the column's whole chunk in one row group. Arrow's IPC files can, as they
are mapped and their values have places of their own. pyarrow is imported when a table is opened.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from pipebench.data import listing
from pipebench.errors import SampleError, kind_of, said_by
from pipebench.units import printable

BATCH_ROWS = 64  # that are decoded at once where images are read in order
BUFFER_BYTES = 1 << 20  # of a file that is read in order, so that not the whole column of a row group is read at once
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
    """The values of one row group. `state` tells a file from what was there before."""
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(path) as file:
        return row_group(file, part, column)


def row_group(file: Any, part: int, column: tuple[str, ...]) -> Any:
    """The values of the column in one row group of a `ParquetFile`, read with one thread."""
    return picked(file.read_row_group(part, columns=[".".join(column)], use_threads=False), column)


def in_order(file: Any, part: int, column: tuple[str, ...], rows: Iterable[int]) -> Iterator[bytes]:
    """The bytes in some rows of a row group of a `ParquetFile`, by rising row. No row after the last one is decoded.

    SampleError where a row has no bytes, or is not there.
    """
    found = file.iter_batches(BATCH_ROWS, row_groups=[part], columns=[".".join(column)], use_threads=False)
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
