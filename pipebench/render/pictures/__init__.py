"""Pictures of a report, as SVG that a page with a strict content-security policy may hold. Pure.

A module of this package has a function `pictures(report)`. It gives each `Picture` for which the report has figures.
Adding a picture touches one file.

The SVG has no style, no script, no id and no reference. Its colours are classes, which `CSS` defines: `f0` to `f7` fill
with the colour of a series, `s0` to `s7` draw its line, and so do `f-ink`, `f-muted`, `f-grid`, `f-page`, `s-ink`, ...
The page may set the variables behind them (`--c0` to `--c7`, `--c-ink`, `--c-muted`, `--c-grid`, `--c-page`) anew.
"""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass

from pipebench.render.cells import Table
from pipebench.results.report import Report

SECTIONS = (
    "verdict",
    "run",
    "remedies",
    "workers",
    "throughput",
    "timeline",
    "distribution",
    "resources",
    "ranks",
    "stages",
)
_NO_PICTURES = ("axes", "drawing", "forest", "sheet", "svg")

# Series 0 to 6 can be told apart with any colour vision; the names say what they stand for in pictures of a run.
# 0: the model computes, 1: waiting for data, 2: validation, 3: start-up, 4: handing over, 5: optimiser, 6: spans.
SERIES = ("#0072b2", "#d55e00", "#009e73", "#b0578d", "#c98a00", "#3d9bd1", "#8a7430", "#8a919a")
_DARK = ("#4aa3df", "#f0803c", "#35b98c", "#d98cb8", "#e0a93b", "#8ccbf2", "#bfa65a", "#7d858f")
TONES = {"ink": "#1c2024", "muted": "#5f6872", "grid": "#dfe3e8", "page": "#ffffff", "dark": "#14171a"}
_DARK_TONES = {"ink": "#e8eaed", "muted": "#a0a8b2", "grid": "#333a43", "page": "#14171a", "dark": "#14171a"}
INKED = 70  # per cent of a series's colour in words of that colour: the rest is ink, so that they can be read


def _variables(series: tuple[str, ...], tones: dict[str, str]) -> str:
    found = [
        *((str(number), colour) for number, colour in enumerate(series)),
        *(("-" + a, b) for a, b in tones.items()),
    ]
    return ":root{" + ";".join(f"--c{name}:{colour}" for name, colour in found) + "}"


def _classes() -> str:
    names = [*((str(number), str(number)) for number in range(len(SERIES))), *(("-" + one, "-" + one) for one in TONES)]
    marks = (
        f".picture .f{name}{{fill:var(--c{colour})}}.picture .s{name}{{stroke:var(--c{colour})}}"
        for name, colour in names
    )
    words = (
        f".picture text.f{number}{{fill:color-mix(in srgb,var(--c{number}) {INKED}%,var(--c-ink))}}"
        for number in range(len(SERIES))
    )
    return "".join([*marks, *words])


CSS = (
    _variables(SERIES, TONES)
    + "@media(prefers-color-scheme:dark){"
    + _variables(_DARK, _DARK_TONES)
    + "}"
    + ".picture{display:block;width:100%;height:auto;font-family:system-ui,sans-serif}"
    + ".picture text{font-variant-numeric:tabular-nums}"
    + ".picture.wide{max-width:60rem}.picture.narrow{display:none;min-width:0;max-width:30rem}"
    + "@media(max-width:34rem){.picture.wide{display:none}.picture.narrow{display:block}}"
    + "@media print{"
    + _variables(SERIES, TONES)
    + ".picture.wide{display:block}.picture.narrow{display:none}}"
    + _classes()
)
"""The style of pictures, light and dark. A narrow screen gets a drawing of its own, so that its words can be read."""


@dataclass(frozen=True)
class Picture:
    """A picture of a report, and what it shows in words and in figures."""

    name: str  # a slug
    section: str  # one of SECTIONS, which stand in the order of the page
    title: str
    svg: (
        str  # two drawings of the same, of the classes "wide" and "narrow": CSS shows one. The narrow one has its label
    )
    alt: str
    table: Table | None  # the same figures


def of(report: Report) -> tuple[Picture, ...]:
    """Every picture for which the report has figures, in the order of SECTIONS."""
    names = sorted(found.name for found in pkgutil.iter_modules(__path__) if found.name not in _NO_PICTURES)
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    found = [picture for module in modules for picture in module.pictures(report)]
    return tuple(sorted(found, key=lambda one: SECTIONS.index(one.section)))
