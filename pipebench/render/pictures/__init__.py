"""Pictures of a report, as SVG that a page with a strict content-security policy may hold. Pure."""

from __future__ import annotations

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
CSS = ""  # what the page's style must say of the classes in pictures


@dataclass(frozen=True)
class Picture:
    """A picture of a report, and what it shows in words and in figures."""

    name: str  # a slug
    section: str  # one of SECTIONS, which stand in the order of the page
    title: str
    svg: str
    alt: str
    table: Table | None  # the same figures


def of(report: Report) -> tuple[Picture, ...]:
    """Every picture for which the report has figures, in the order of SECTIONS."""
    return ()
