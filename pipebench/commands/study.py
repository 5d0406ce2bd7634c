"""`pipebench study`: the worked examples, listed or run again here."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from pipebench.results.studies import Result

FORMATS = click.Choice(["table", "json", "markdown"])


@click.command()
@click.argument("name", required=False)
@click.option(
    "--size",
    type=click.Choice(["default", "full"]),
    default="default",
    show_default=True,
    help="full is the size that the author used.",
)
@click.option("--format", "style", type=FORMATS, default="table", show_default=True)
@click.option("--export-json", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Save the result.")
@click.option("--force", is_flag=True, help="Let --export-json overwrite a file.")
def command(name: str | None, size: str, style: str, export_json: Path | None, force: bool) -> None:
    """Run the study NAME: a slow baseline and its fixes, beside the author's figures. Without NAME, list the studies.

    The output of each fix is first checked against the row before it. The report names each claim of the author that
    does not hold here.
    """
    from pipebench import studies

    if name is None:
        for one in studies.names():
            found = studies.find(one)
            click.echo(f"{found.name:<16}{found.title}\n{'':16}{found.source}")
        return
    if export_json is not None and export_json.exists() and not force:
        raise click.UsageError(f"{_inert(export_json)} exists; --force overwrites it")
    result = studies.find(name).run(size, _Progress())
    if export_json is not None:
        from pipebench.host.whole_files import write_whole

        write_whole(export_json, _json(result))
    click.echo(_rendered(result, style), nl=False)


class _Progress:
    """Progress on standard error: a line that is written over on a terminal, one for each new activity elsewhere."""

    def __init__(self) -> None:
        self._said = ""

    def __call__(self, done: int, total: int, what: str) -> None:
        if sys.stderr.isatty():
            click.echo(f"\r\x1b[K{what} {done}/{total}" + ("\r\x1b[K" if done == total else ""), nl=False, err=True)
        elif what != self._said:
            click.echo(what, err=True)
        self._said = what


def _json(result: Result) -> bytes:
    import msgspec

    return msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n"


def _rendered(result: Result, style: str) -> str:
    from pipebench.host.terminal import colours, columns
    from pipebench.render import layout, study, text

    if style == "json":
        return _json(result).decode()
    table: Any = study.table(result)
    if style == "markdown":
        title, *rest = layout.markdown_table(table, level=2)
        return "\n\n".join([title, *map(layout.inert, study.heading(result)[1:]), *rest]) + "\n"
    return text.plain(study.heading(result), table, width=columns(sys.stdout), colour=colours(sys.stdout))


def _inert(path: Path) -> str:
    from pipebench.units import printable

    return printable(path)
