"""`pipebench remote ADDRESS...`: how many connections to a server feed so many images per second."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

import click

from pipebench.commands._numbers import Number
from pipebench.host.interrupts import INTERRUPTED
from pipebench.terminal import delivered, exported, formatted, paged, places, progress, say, whole


@click.command(short_help="How many connections to a server feed so many images per second")
@click.argument("addresses", nargs=-1, required=True, metavar="ADDRESS...")
@click.option("--feed", type=Number(1e-3, 1e9), metavar="N", help="The images per second to be fed.")
@click.option(
    "--connections", type=click.IntRange(1, 256), default=16, show_default=True, metavar="N", help="The most to try."
)
@click.option("--seconds", type=Number(0.05, 600), default=2.0, show_default=True, help="The length of a window.")
@click.option(
    "--timeout",
    type=Number(0.1, 600),
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
    from pipebench.remote.whole import Asked, measured
    from pipebench.results.report import new

    found, complete = None, False
    with contextlib.suppress(KeyboardInterrupt), progress() as advance:
        found, complete = measured(addresses, Asked(feed, connections, seconds, timeout, retries), advance)
    if found is None or not found.rows:
        say("pipebench: interrupted before anything was measured; nothing was saved")
        return INTERRUPTED
    delivered(replace(new(remote=found), partial=not complete), style, export_json, export_html)
    return INTERRUPTED if not complete else 0 if found.gave else 1
