"""`pipebench init`: an asv suite, an A/B comparison and a workflow for the loader of somebody's own repository."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from pipebench.errors import UsageError
from pipebench.terminal import as_json, text_or_json
from pipebench.units import printable


@click.command("init", short_help="Add benchmarks of your own loader to your repository")
@click.argument("loader", metavar="MODULE:MAKE_LOADER", required=False)
@click.option("--transform", metavar="MODULE:MAKE_TRANSFORM", help="Function that returns the transform of one image.")
@click.option("--workers", default="0,2", show_default=True, help="Measure the loader with these numbers of workers.")
@click.option("--samples", type=click.IntRange(1), default=64, show_default=True, help="Samples that one call reads.")
@click.option("--image", metavar="NAME", help="The entry of a sample that is its image, where several are images.")
@click.option("--requirement", default="pipebench", show_default=True, help="What pip must install to get pipebench.")
@click.option("--force", is_flag=True, help="Overwrite existing files.")
@click.option(
    "--fast", is_flag=True, help="Only write .asv/fast.conf.json: with it asv borrows the packages of this Python."
)
@text_or_json
def command(
    loader: str | None,
    transform: str | None,
    workers: str,
    samples: int,
    image: str | None,
    requirement: str,
    force: bool,
    fast: bool,
    style: str,
) -> None:
    """Add benchmarks of your own loader to this repository.

    MODULE:MAKE_LOADER returns the loader. Writes asv.conf.json, pipebench.toml, benchmarks/ and a GitHub workflow.
    """
    from pipebench.compare import borrowed_packages, checkouts, scaffold
    from pipebench.compare.config import MOST_WORKERS

    if fast:
        written = borrowed_packages.write(checkouts.repository(Path.cwd()))
        return _said(style, [printable(written)], [f"\n  asv --config {written} run HEAD^! --record-samples"])
    if loader is None:
        raise UsageError("the function that returns your loader is missing", "pipebench init MODULE:MAKE_LOADER")
    try:
        numbers = tuple(int(part) for part in workers.split(","))
        if not all(0 <= one <= MOST_WORKERS for one in numbers):
            raise ValueError(f"not from 0 to {MOST_WORKERS}")
    except ValueError as error:
        raise UsageError(
            f"--workers {workers!r} is not a list of numbers", "write for example --workers 0,2,4"
        ) from error
    repo = checkouts.repository(Path.cwd())
    made = scaffold.plan(
        repo, loader, transform, workers=numbers, samples=samples, requirement=requirement, image=image
    )
    unmeasured = [f"{identity} cannot be measured: {reason}" for identity, reason in made.not_measured.items()]
    more = [
        *unmeasured,
        "\nCommit these, then compare two commits:\n\n  pipebench ab HEAD~1 HEAD\n  asv continuous HEAD~1 HEAD",
    ]
    _said(style, list(scaffold.write(made, force=force)), more)


def _said(style: str, written: Sequence[str], more: Sequence[str]) -> None:
    """Says which files were written, and what there is to say besides."""
    if style == "json":
        return as_json(written=tuple(map(printable, written)))
    for line in (*(f"wrote {name}" for name in written), *more):
        click.echo(line)
