"""`pipebench build`: native pieces, built into the cache folder."""

from __future__ import annotations

import click

from pipebench.terminal import as_json, progress, text_or_json
from pipebench.units import printable


@click.command(short_help="Build native pieces into the cache folder")
@click.argument("piece", type=click.Choice(["pillow-simd"]))
@text_or_json
def command(piece: str, style: str) -> None:
    """Build PIECE into the cache folder, and print where it lies.

    pillow-simd is compiled beside Pillow, with AVX2 if the CPU has it. Pillow itself stays as it is.
    """
    from pipebench.native import building

    with progress() as advance:
        folder = building.build_pillow_simd(progress=lambda what: advance(0, 0, what))
    if style == "json":
        return as_json(written=(printable(folder),))
    click.echo(printable(folder))
