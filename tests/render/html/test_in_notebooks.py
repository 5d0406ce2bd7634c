"""A watched block as a notebook shows it: the report of a screen, as text and as HTML."""

from __future__ import annotations

from dataclasses import fields, replace
from types import SimpleNamespace

import every_report
import pytest
from reading import Page

from pipebench.render import notebook
from pipebench.watch.with_block import WatchedBlock, Watching

MARKUP = set(
    ["div", "h4", "p", "ul", "li", "table", "caption", "thead", "tbody", "tr", "th", "td", "code", "strong", "pre"]
)


def _as_block(name: str) -> WatchedBlock:
    found = every_report.EXAMPLES[name].watched
    return WatchedBlock(**{one.name: getattr(found, one.name) for one in fields(found)})


def test_it_is_shown_as_the_report_of_a_screen() -> None:
    block = _as_block("watch")
    lines = str(block).splitlines()
    assert len(lines) <= 49 and "Where the " in str(block)
    shown: list[str] = []
    block._repr_pretty_(SimpleNamespace(text=shown.append), False)
    assert shown == [str(block).strip()]
    page = Page(block._repr_html_())
    assert "before the first loop" in page.of("table")[0] and page.of("h4")
    assert "saves ≈" in page.of("table")[0] and "█" in page.of("table")[0]
    assert "advise" not in str(block) and "advise" not in block._repr_html_()


@pytest.mark.slow
def test_it_is_bounded_and_inert() -> None:
    block = _as_block("watch")
    assert block.account is not None
    row = block.account.rows[0]
    many = replace(block.account, rows=tuple(replace(row, code=f"<b>{number}</b>" * 50) for number in range(9999)))
    stages = tuple(replace(one, name="<script>" * 999) for one in block.stages) * 300
    html = notebook.as_html(replace(block, account=many, stages=stages))
    assert len(html.encode()) < notebook.MOST_BYTES + 1000
    assert {tag for tag, _, _ in Page(html).elements} <= MARKUP and "<b>" not in html and "<script>" not in html


def test_making_the_text_shows_nothing_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a notebook, a console of rich shows what it prints: here it would fail, because there is no IPython."""
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    assert "Where the " in str(_as_block("watch"))


def test_what_watched_a_block_is_shown_as_its_result() -> None:
    seen = Watching()
    shown: list[str] = []
    assert seen._repr_html_() is None and str(seen) == "The block has not ended: there is no report yet."
    seen._result = block = _as_block("watch")
    seen._repr_pretty_(SimpleNamespace(text=shown.append), False)
    assert seen._repr_html_() == block._repr_html_() and shown == [str(block).strip()]
