"""`pipebench schema`: what a saved report holds, as JSON Schema."""

from __future__ import annotations

import click


@click.command(short_help="Print the JSON Schema of a report")
@click.option(
    "--format",
    type=click.Choice(["json"]),
    default="json",
    show_default=True,
    expose_value=False,
    help="Format of the schema on standard output: there is one.",
)
def command() -> None:
    """Print the JSON Schema of the report that every command saves, and prints with --format json.

    Every part has the description of its fields; `verdict` has the codes of all verdicts.
    """
    from pipebench.results.schema import json_schema

    click.echo(json_schema(), nl=False)
