"""`pipebench build`: native pieces, built into the cache folder."""

from __future__ import annotations

import click

from pipebench.terminal import progress
from pipebench.units import printable


@click.group(short_help="Build native pieces into the cache folder")
def command() -> None:
    """Build native pieces into the cache folder."""


@command.command("pillow-simd")
def pillow_simd() -> None:
    """Compile pillow-simd beside Pillow, with AVX2 if the CPU has it. Pillow itself stays as it is."""
    from pipebench.native import building

    with progress() as advance:
        folder = building.build_pillow_simd(progress=lambda what: advance(0, 0, what))
    click.echo(printable(folder))
