"""`pipebench schema`: what a saved report holds, as JSON Schema."""

from __future__ import annotations

import click


@click.command(short_help="Print the JSON Schema of a report")
def command() -> None:
    """Print the JSON Schema of the report that every command saves, and prints with --format json.

    Every part has the description of its fields; `verdict` has the codes of all verdicts.
    """
    from pipebench.results.schema import json_schema

    click.echo(json_schema(), nl=False)
