"""`pipebench build`: native pieces, built into the cache folder."""

from __future__ import annotations

import click

from pipebench.terminal import as_json, progress, text_or_json
from pipebench.units import printable


@click.group(short_help="Build native pieces into the cache folder")
def command() -> None:
    """Build native pieces into the cache folder."""


@command.command("pillow-simd")
@text_or_json
def pillow_simd(style: str) -> None:
    """Compile pillow-simd beside Pillow, with AVX2 if the CPU has it. Pillow itself stays as it is."""
    from pipebench.native import building

    with progress() as advance:
        folder = building.build_pillow_simd(progress=lambda what: advance(0, 0, what))
    if style == "json":
        return as_json(written=(printable(folder),))
    click.echo(printable(folder))
