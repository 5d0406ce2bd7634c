"""The page: one file with its style, its script, its pictures and the report itself, under a strict policy."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from pipebench.render import pictures
from pipebench.render.cells import when
from pipebench.render.html import markup, outline
from pipebench.render.html.outline import Chapter
from pipebench.render.layout import Line, Part
from pipebench.render.pictures import Picture
from pipebench.results.report import Report, encode
from pipebench.results.secrets import without_secrets
from pipebench.units import counted, printable

MOST_BYTES = 1_000_000  # of the page
_OF_TEXT, _OF_PICTURES = 450_000, 350_000  # of these, at most; the report as JSON gets what is left
_LONG_VERDICT, _LONGEST_VERDICT = 120, 200  # characters
_SENTENCE = re.compile(r"(?<=[^ .]\.) (?=[A-Z])")
_EVIDENCE = (
    '<div class="evidence"><h2>The evidence</h2><button id="fold" type="button" hidden>Unfold all</button></div>'
)
_FOLDED = '<details class="figures"><summary>Every row, and what a change could save of it</summary>\n{}</details>'
_INERT = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})


def document(report: Report, drawn: Sequence[Picture] | None = None) -> str:
    """The report as a page of at most `MOST_BYTES` bytes. `drawn` are its pictures (None: all that there are).

    Secrets are left out. The page refers to nothing outside itself, and is readable without its script.
    """
    report = without_secrets(report)
    every = pictures.of(report) if drawn is None else drawn
    drawn = _that_fit(every)
    style, script = (Path(__file__).with_name(name).read_text() for name in ("page.css", "page.js"))
    style = pictures.CSS + style
    first, *rest = outline.chapters(report)
    verdict, *lead = _headed(_sentences(first.parts), outline.opening(report))
    said = [_header(report, verdict, lead, _of(drawn, first.name)), *_chapters(rest, drawn)]
    body = "\n".join([*said, _footer(len(every) - len(drawn))])
    head = _head(f"pipebench {outline.kind(report)}: {verdict}", style, script)
    page = f"{head}\n<body>\n<main>\n{body}\n</main>\n"
    return f"{page}{_data(report, MOST_BYTES - len(page.encode()) - len(script.encode()) - 100)}{_script(script)}"


def _head(title: str, style: str, script: str) -> str:
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
        f'<link rel="icon" href="data:,">\n<title>{markup.escaped(title[:_LONG_VERDICT])}</title>\n'
        f"<style>{style}</style>\n</head>"
    )


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _script(script: str) -> str:
    return f"<script>{script}</script>\n</body>\n</html>\n"


def _sentences(parts: Iterable[Part]) -> list[str]:
    """The lines of the verdict; the first of them, which is its heading, has one sentence."""
    lines = [part.text if isinstance(part, Line) else str(part) for part in parts if part != ""]
    if not lines:
        return ["Figures of one run"]
    first = _SENTENCE.split(lines[0], 1)
    if len(first[0]) > _LONGEST_VERDICT and "; " in first[0]:
        begin, end = first[0].split("; ", 1)
        first = [f"{begin}.", *_SENTENCE.split(end[:1].upper() + end[1:], 1), *first[1:]]
    return [*first, *lines[1:]]


def _headed(lines: Sequence[str], opening: str) -> Sequence[str]:
    """The same, with the sentence after one that only counts ranks in the heading, too: that is the verdict."""
    if lines[0] != opening or len(lines) == 1:
        return lines
    second, *more = _SENTENCE.split(lines[1], 1)
    return [f"{opening} {second}", *more, *lines[2:]]


def _header(report: Report, verdict: str, lead: Sequence[str], drawn: Sequence[Picture]) -> str:
    size = ' class="long"' if len(verdict) > _LONG_VERDICT else ""
    date = f" · {markup.escaped(when(report.created))}" if report.created else ""
    partial = '<p class="partial">This report is partial.</p>' if report.partial else ""
    said = markup.blocks(lead, 2)
    return (
        f'<header>\n<p class="kind">pipebench {outline.kind(report)}{date}</p>\n'
        f"<h1{size}>{markup.prose(verdict)}</h1>\n{partial}\n"
        f'<div class="lead">{said}</div>\n{"".join(map(_figure, drawn))}</header>'
    )


def _chapters(found: Sequence[Chapter], drawn: Sequence[Picture]) -> Iterator[str]:
    """The open chapters, then a heading and the folded ones, then how it was measured. Empty ones are left out."""
    filled = [(one, own) for one in found if (own := _of(drawn, one.name)) or any(one.parts)]
    room, folded = _OF_TEXT, False
    for one, own in sorted(filled, key=lambda pair: (pair[0].name == "method", pair[0].folded)):
        text = markup.blocks(one.parts, 4 if one.folded else 3, min(room, markup.MOST_BYTES))
        room -= len(text.encode())
        if one.folded and not folded:
            folded = True
            yield _EVIDENCE
        figures = "".join(_figure(picture, one.title) for picture in own)
        below = _FOLDED.format(text) if own and text and one.name == "run" else text
        yield _chapter(one, figures + below, own[0].alt if own else "")


def _chapter(one: Chapter, inside: str, finding: str) -> str:
    """A section, or a folded one with what it finds below its title."""
    if one.folded:
        teaser = f'<span class="teaser">{markup.prose(finding)}</span>' if finding else ""
        summary = f"<summary><h3>{markup.named(one.title)}</h3>{teaser}</summary>"
        return f'<details class="chapter" id="{one.name}">{summary}\n<div class="inside">{inside}</div></details>'
    return f'<section id="{one.name}"><h2>{markup.named(one.title)}</h2>\n{inside}</section>'


def _of(drawn: Sequence[Picture], section: str) -> list[Picture]:
    return [one for one in drawn if one.section == section]


def _that_fit(drawn: Sequence[Picture]) -> list[Picture]:
    """The pictures, in their order, as long as there is room."""
    room, kept = _OF_PICTURES, []
    for one in drawn:
        room -= len(_figure(one).encode())
        if room >= 0:
            kept.append(one)
    return kept


def _figure(one: Picture, chapter: str = "") -> str:
    """A picture with what it shows in words, and its figures as a folded table.

    Its title is only spoken if it is that of the chapter.
    """
    figures = markup.table(one.table) if one.table is not None else ""
    folded = f'<details class="figures"><summary>The same figures as a table</summary>\n{figures}</details>\n'
    name, alt = markup.escaped(one.name), markup.escaped(one.alt)
    svg = one.svg.replace("<svg", f'<svg role="img" aria-label="{alt}"', 1)
    spoken = ' class="spoken"' if one.title == chapter else ""
    return (
        f'<figure id="picture-{name}">\n<figcaption{spoken}>{markup.prose(one.title)}</figcaption>\n'
        f'<div class="plot">{svg}</div>\n{folded if figures else ""}</figure>\n'
    )


def _data(report: Report, room: int) -> str:
    """The report itself, for programs and for `pipebench show`; or a word on why it is not there."""
    text = msgspec.json.format(encode(report), indent=-1).decode()
    inert = text.translate(_INERT) if len(text) < room else ""
    if not 0 < len(inert.encode()) < room:
        inert = '{"left_out": "the report is too large for this page; --export-json saves it"}'
    name = printable(outline.kind(report))
    return f'<script type="application/json" id="report" data-name="{name}">{inert}</script>\n'


def _footer(left: int) -> str:
    said = f"<p>Left out, because the page would be too large: {counted(left, 'picture')}.</p>" if left else ""
    return f'<footer>{said}<button id="save" type="button" hidden>Save the report as JSON</button></footer>'
