"""The pages in docs/html are what the page about them claims: of real runs, alone, small, of nobody's machine."""

import base64
import hashlib
import re
from pathlib import Path

import msgspec
import pytest
from reading import Page

from pipebench.results.report import Report

DOCS = Path(__file__).parents[3] / "docs"
NOBODYS = {b"home", b"dev", b"www.w3.org", b"github.com"}  # the first parts of paths, and the hosts of links
MADE_BY = dict(re.findall(r"\[(\w+\.html)\]\(html/\w+\.html\) \| `([^`]+)`", (DOCS / "page.md").read_text()))


def test_each_page_is_explained_and_the_picture_of_the_readme_is_small():
    assert (
        {one.name for one in (DOCS / "html").glob("*.html")}
        == MADE_BY.keys()
        == {"watch.html", "advise.html", "run.html"}
    )
    assert (DOCS / "html/report.png").stat().st_size < 200_000
    assert "docs/html/report.png" in (DOCS.parent / "README.md").read_text()


@pytest.mark.parametrize("name", MADE_BY)
def test_a_page_of_a_real_run(name):
    content = (DOCS / "html" / name).read_bytes()
    shown = Page(content.decode())
    assert len(content) <= 1_000_000 and shown.open == [] and len(shown.named("figure")) >= 2
    [policy] = [one["content"] for one in shown.named("meta") if "http-equiv" in one]
    for text in (shown.of("style")[0], shown.of("script")[1]):
        assert base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() in policy
    assert not any(one == "style" or one.startswith("on") for _, found, _ in shown.elements for one in found)
    [data] = [text for _, found, text in shown.elements if found.get("id") == "report"]
    assert msgspec.json.decode(data, type=Report).started_by == MADE_BY[name]
    assert not re.search(rb"/(?:root|tmp)/", content)
    assert set(re.findall(rb"(?<![\w.<])/(\w[\w.-]*)/", content)) <= NOBODYS
