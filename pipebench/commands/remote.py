"""`pipebench remote ADDRESS...`: how many connections to a server feed so many images per second."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipebench.errors import PipebenchError
from pipebench.host.interrupts import INTERRUPTED
from pipebench.terminal import delivered, exported, formatted, paged, places, progress, whole

if TYPE_CHECKING:
    from pipebench.results.remote import Connections


@click.command(short_help="How many connections to a server feed so many images per second")
@click.argument("addresses", nargs=-1, required=True, metavar="ADDRESS...")
@click.option("--feed", type=click.FloatRange(0, min_open=True), metavar="N", help="The images per second to be fed.")
@click.option(
    "--connections", type=click.IntRange(1, 256), default=16, show_default=True, metavar="N", help="The most to try."
)
@click.option(
    "--seconds", type=click.FloatRange(0.05, 600), default=2.0, show_default=True, help="The length of a window."
)
@click.option(
    "--timeout",
    type=click.FloatRange(0.1, 600),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="An attempt that gives no byte for so long has failed.",
)
@click.option(
    "--retries", type=click.IntRange(0, 20), default=3, show_default=True, metavar="N", help="Of a shard, at most."
)
@whole
@formatted
@exported
@paged
def command(
    addresses: tuple[str, ...],
    feed: float | None,
    connections: int,
    seconds: float,
    timeout: float,
    retries: int,
    style: str,
    export_json: Path | None,
    export_html: Path | None,
    force: bool,
) -> int:
    """Stream webdataset shards from a server over 1, 2, 4, … connections, and say how many feed what is wanted.

    An ADDRESS is https://host/train-{000..099}.tar, or s3://bucket/train-*.tar with the credentials that other tools
    use. Every byte is fetched, and may cost money: a window of 2 seconds, four for each number of connections.

    Attempts that fail (no answer, a reset, half a shard, a refusal) are tried again a few times, counted and reported.
    """
    export_json, export_html = places(force, export_json, export_html)
    from pipebench.host.redaction import redacted
    from pipebench.host.scratch import Scratch
    from pipebench.remote import addresses as listing
    from pipebench.remote import looking, windows
    from pipebench.results.remote import Remote
    from pipebench.results.report import new

    fetch = _fetcher(timeout)
    with Scratch("remote") as folder, progress() as advance:
        advance(0, 0, "listing shards")
        shards = listing.resolved(addresses, timeout, retries)
        advance(0, 0, "looking at the first shard")
        copy = folder / "beginning.tar"
        first = looking.look(fetch, shards[0], copy, timeout, retries)
        found = Remote(
            addresses=tuple(map(redacted, addresses)), shards=len(shards), feed=feed, images=first.images,
            looked_bytes=first.looked_bytes, set_bytes=None, look=first.tally.traffic, rows=(),
            local=looking.local(copy), window_s=seconds, timeout_s=timeout, most_retries=retries,
            read_bytes=first.tally.bytes_read,
        )  # fmt: skip
        server = windows.Server(fetch, shards, seconds, timeout, retries)
        sizes, rows, complete = dict(first.tally.size_bytes), list[Connections](), False

        def window(count: int) -> Any:
            nonlocal found
            one = server.window(count)
            sizes.update(one.size_bytes)
            found = replace(found, read_bytes=found.read_bytes + one.bytes_read)
            return one

        def keep(so_far: list[Connections]) -> None:
            rows[:] = so_far

        with contextlib.suppress(KeyboardInterrupt):
            windows.measure(window, feed, connections, found.images_per_s, keep=keep, progress=advance)
            complete = True
    of_all = sum(sizes.values()) / len(sizes) * len(shards) if sizes else None
    found = replace(found, rows=tuple(rows), set_bytes=of_all)
    delivered(replace(new(remote=found), partial=not complete), style, export_json, export_html)
    return INTERRUPTED if not complete else 0 if any(any(one.bytes_per_s) for one in rows) else 1


def _fetcher(timeout: float) -> Any:
    from pipebench.remote.fetching import Fetcher

    try:
        return Fetcher(timeout)
    except ImportError as missing:
        raise PipebenchError(
            "remote needs urllib3, which is not installed", "pip install 'pipebench[remote]'"
        ) from missing
