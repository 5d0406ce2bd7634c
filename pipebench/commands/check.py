"""`pipebench check PATH`: the files of a data set that break training, or change it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from pipebench.commands.data import say_if_shadowed
from pipebench.host.interrupts import INTERRUPTED
from pipebench.terminal import exported, formatted, libraries_silenced, place, progress, rendered


@click.command(short_help="List the files that break or change training")
@click.argument("path")
@click.option("--limit", type=click.IntRange(1), help="Look at so many images at most.")
@click.option("--full", is_flag=True, help="Name every file. By default three of each kind are named.")
@formatted
@exported
def command(path: str, limit: int | None, full: bool, style: str, export_json: Path | None, force: bool) -> int:
    """Look at every image in the folder, tar or pattern PATH, with every decoder that is installed.

    Found are files that cannot be decoded or that were damaged, files on which libraries disagree, names that do not
    fit their contents, EXIF orientations, CMYK, 16 bits and the like, and samples that lack a file. Nothing is changed.

    The exit status is 1 if something was found that breaks or changes training.
    """
    export_json = place(export_json, force)
    from pipebench.check import decoding, whole
    from pipebench.data import datasets
    from pipebench.host.limits import check_address_space
    from pipebench.results import report

    check_address_space()
    say_if_shadowed(path)
    with libraries_silenced(), progress() as advance:
        advance(0, 0, "listing")
        listed = datasets.load(path, limit=limit, progress=advance)
        advance(0, 0, "importing decoders")
        found, complete = whole.check(listed, decoding.installed(), advance)
    made = replace(report.new(check=found), partial=not complete)
    if export_json is not None:
        report.save(made, export_json)
    click.echo(rendered(made, style, full), nl=False)
    return INTERRUPTED if not complete else 1 if found.does_harm else 0
