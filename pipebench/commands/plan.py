"""`pipebench plan FILE`: what other settings or another machine would bring, predicted from one watched run."""

from __future__ import annotations

import re
from pathlib import Path

import click

from pipebench.commands._numbers import Number
from pipebench.errors import UsageError
from pipebench.terminal import delivered, exported, formatted, place, say, sensible, whole
from pipebench.units import printable

_MOST_BYTES_PER_S = 1e18
_MANY = 256  # workers: a simulation of more takes longer than a second
_LEAST_FACTOR, _MOST_FACTOR = 1e-3, 1e6
_UNITS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


def _bytes_per_s(context: click.Context, option: click.Parameter, text: str | None) -> float | None:
    """A rate such as 2GB/s or 500MB/s, in bytes per second."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([kMGT]?)B(?:/s)?", text)
    rate = float(found[1]) * _UNITS[found[2]] if found is not None else 0.0
    if not 1 <= rate <= _MOST_BYTES_PER_S:
        raise UsageError(f"--{option.name}: {printable(text)} is no rate", "write it as 2GB/s or 500MB/s")
    return rate


def _faster(context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> tuple[tuple[str, float], ...]:
    """Stages with a factor, such as decode=2x."""
    found = [re.fullmatch(r"(.+)=(\d+(?:\.\d+)?)x?", text) for text in texts]
    wrong = [
        text
        for text, one in zip(texts, found, strict=True)
        if one is None or not _LEAST_FACTOR <= float(one[2]) <= _MOST_FACTOR
    ]
    if wrong:
        remedy = f"write it as decode=2x, with a factor from {_LEAST_FACTOR:g} to {_MOST_FACTOR:,.0f}"
        raise UsageError(f"--faster: {printable(wrong[0])} names no stage with a factor", remedy)
    return tuple((one[1], float(one[2])) for one in found if one is not None)


@click.command(short_help="Predict other settings, or another machine, from one watched run")
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@click.option("--workers", type=click.IntRange(0, 1024), metavar="N", help="The workers of each loader. [a ladder]")
@click.option("--prefetch-factor", type=click.IntRange(1, 1024), metavar="N", help="Batches ahead for each worker.")
@click.option("--cores", type=Number(0.01, 1e5), metavar="N", help="The cores of the machine.")
@click.option(
    "--consumer",
    type=Number(1e-3, 1e9),
    metavar="RATE",
    help="What one device could use, in samples per second, in place of the script's own training.",
)
@click.option(
    "--devices",
    type=click.IntRange(1, 100_000),
    metavar="N",
    help="Devices that share the machine. [the watched loop, beside its other ranks]",
)
@click.option(
    "--faster",
    multiple=True,
    callback=_faster,
    metavar="STAGE=2x",
    help="A stage that becomes so many times as fast (may be repeated); `step` is the loop's own work.",
)
@click.option(
    "--others",
    type=Number(0, 1e4),
    metavar="N",
    help="Threads of other processes that want a core; 0 is a quiet machine. [as watched; 0 with --cores]",
)
@click.option("--storage", callback=_bytes_per_s, metavar="2GB/s", help="What the storage delivers.")
@click.option("--network", callback=_bytes_per_s, metavar="1GB/s", help="What the network delivers.")
@whole
@formatted
@exported
def command(
    file: Path,
    workers: int | None,
    prefetch_factor: int | None,
    cores: float | None,
    consumer: float | None,
    devices: int | None,
    faster: tuple[tuple[str, float], ...],
    others: float | None,
    storage: float | None,
    network: float | None,
    style: str,
    export_json: Path | None,
    force: bool,
) -> None:
    """Predict from FILE, a saved report of `watch` or `advise` or a passport, what other settings would bring.

    Nothing is run. Beside each prediction is the error of the same model on what was run.
    """
    if devices is not None and consumer is None:
        raise UsageError("--devices needs --consumer", "say what one device could use: --consumer 2500")
    export_json = place(export_json, force)
    from pipebench.predict.passports import passport_in
    from pipebench.predict.planning import plan
    from pipebench.results import report
    from pipebench.results.plan import Asked

    if not file.is_file():
        raise UsageError(f"{printable(file)} is not a file", "name one that `watch` or `advise` wrote with --passport")
    passport = passport_in(report.load(file))
    asked = Asked(workers, prefetch_factor, cores, consumer, devices, faster, storage, network, others)
    most = max(asked.workers or 0, passport.costs.workers, *(one.workers for one in passport.tried), 0)
    if most > _MANY:
        say(f"simulating {most:,} workers: this takes some seconds")
    found = sensible(file, lambda: plan(passport, asked))
    delivered(report.new(plan=found), style, export_json)
