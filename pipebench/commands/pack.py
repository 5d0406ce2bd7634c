"""`pipebench pack SOURCE DESTINATION`: a copy whose JPEGs have restart markers, so that crops of it decode less."""

from __future__ import annotations

import re
from pathlib import Path

import click

from pipebench.commands._lab import need_lab
from pipebench.errors import UsageError
from pipebench.terminal import as_json, laid_out, progress, text_or_json

_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}


@click.command(short_help="Copy a data set so that crops of its JPEGs decode less")
@click.argument("source")
@click.argument("destination", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--segment", type=click.IntRange(8, 65535), default=96, show_default=True, help="Pixels between two markers."
)
@click.option("--keep-tables", is_flag=True, help="Keep the Huffman tables as they are: about 2 % larger.")
@click.option("--shards", metavar="SIZE", help="Write tars of about this size (such as 1G), and an index of them.")
@text_or_json
def command(source: str, destination: Path, segment: int, keep_tables: bool, shards: str | None, style: str) -> int:
    """Copy the folder, tar or shards SOURCE to the folder DESTINATION, with restart markers in every JPEG.

    Nothing is lost: the coefficients of every image are read back and compared. The copy has the same files, or the
    same members in the same tars. `pipebench.decode_and_crop` and its transforms then decode only the part of an image
    that a crop touches. For every other decoder they are ordinary JPEGs.

    A run that was interrupted goes on where it stopped if it is started again.
    """
    need_lab("pack")
    from pipebench.pack import sources
    from pipebench.pack.journal import Journal
    from pipebench.pack.working import Packer
    from pipebench.pack.writing import write_index
    from pipebench.render import packing

    shard_bytes = None if shards is None else _bytes(shards)
    sources.check_apart(source, destination)
    targets = sources.targets(source)
    if shard_bytes is not None:
        targets = sources.in_shards(targets, shard_bytes)
    options = {"segment": segment, "keep_tables": keep_tables, "shard_bytes": shard_bytes}
    with Journal(destination, options) as journal, progress() as advance:
        result = Packer(destination, journal, segment, keep_tables, advance).run(targets)
    if shard_bytes is not None and not result.failures:
        write_index(destination, targets)
    if style == "json":
        as_json(packing=result)
    else:
        click.echo(laid_out(packing.report(result)), nl=False)
    return 1 if result.failures else 0


def _bytes(size: str) -> int:
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([kMG]?)B?", size)
    number = int(float(found[1]) * _UNITS[found[2]]) if found else 0
    if number < 1:
        raise UsageError(f"{size!r} is not a size", "give bytes, or a number with k, M or G, such as 500M")
    return number
