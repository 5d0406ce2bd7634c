"""`pipebench doctor`: what of this machine would spoil a measurement or a training run."""

from __future__ import annotations

from pathlib import Path

import click

from pipebench.terminal import delivered, exported, formatted, paged, places, progress, whole


@click.command(short_help="Say what of this machine would spoil training or a measurement")
@click.option(
    "--data",
    type=click.Path(path_type=Path, exists=True),
    metavar="PATH",
    help="Your data: its storage is looked at.  [default: the current folder's]",
)
@whole
@formatted
@exported
@paged
def command(data: Path | None, style: str, export_json: Path | None, export_html: Path | None, force: bool) -> int:
    """Look at this machine for ten seconds at most: cores, memory, storage, libraries, devices.

    Nothing is changed and nothing is measured. Each finding says why it matters for training and what to do. The exit
    status is 1 if something will hurt, else 0.
    """
    export_json, export_html = places(force, export_json, export_html)
    from pipebench.doctor.examining import examined
    from pipebench.results.report import new

    with progress() as advance:
        found = examined(data, advance)
    delivered(new(data, examination=found), style, export_json, export_html)
    return 1 if found.hurts else 0
