"""The page of any report: whole, inert, bounded, alone, in its order, and as accessible as its markup can say."""

import base64
import hashlib
import re
from dataclasses import replace

import every_report
import made_up
import msgspec
import pytest
from reading import Page

from pipebench.render.cells import Table
from pipebench.render.html import outline, page
from pipebench.render.pictures import SECTIONS, Picture
from pipebench.results import report
from pipebench.results.batches import SlowSample
from pipebench.results.programs import Program, WatchedCommand
from pipebench.results.ranks import RankRow, Ranks
from pipebench.results.report import Report
from pipebench.results.watched import Note

WATCH = every_report.EXAMPLES["watch"]
HOSTILE = (
    '</script><script>alert(1)</script><img src=x onerror=alert(1)>"><svg onload=alert(1)>\x1b[31m\u202e\u2028\u2029'
    "' onmouseover=alert(1) `code` &lt;b&gt; ]]> <!--"
)
SVG = '<svg viewBox="0 0 720 120"><rect class="f0" width="90" height="9"><title>decode: 9 ms</title></rect></svg>'
MARKUP = {
    "html", "head", "meta", "link", "title", "style", "body", "main", "header", "section", "footer", "div", "p", "h1",
    "h2", "h3", "h4", "ul", "li", "pre", "code", "strong", "table", "caption", "thead", "tbody", "tr", "th", "td",
    "details", "summary", "span", "figure", "figcaption", "button", "script", "svg", "rect",
}  # fmt: skip


def drawn(section, name="one", svg=SVG, alt="Decode takes 9 ms."):
    figures = Table("Stages", ("stage", "ms"), (("decode", "9"),), frozenset({1}))
    return Picture(name, section, f"The picture {name}", svg, alt, figures)


def read(found, pictures=()):
    return Page(page.document(found, pictures))


@pytest.mark.parametrize("name", every_report.EXAMPLES)
def test_each_kind_of_report_is_a_page_with_its_verdict_and_its_machine(name):
    found = every_report.EXAMPLES[name]
    shown = read(found)
    assert shown.open == [] and len(set(shown.ids)) == len(shown.ids)
    assert {tag for tag, _, _ in shown.elements} - {"title"} <= MARKUP
    [verdict] = shown.of("h1")
    assert 10 < len(verdict) < 300 and verdict[:40] in shown.of("title")[0]
    assert len(shown.of("td")) > 3 or name in ("syncs", "doctor", "check")
    assert found.created is None or "How this was measured" in shown.of("h2")


@pytest.mark.parametrize("name", ["watch", "ab", "study", "compare, run", "lab"])
def test_no_name_stands_whole_in_the_page_if_it_is_long(name):
    found = every_report.changed(every_report.EXAMPLES[name], str, lambda old: "n" * 999)
    shown = read(found, [drawn("run", alt="n" * 400)])
    leaves = {"title", "h1", "h2", "h3", "h4", "p", "li", "th", "td", "caption", "figcaption", "code", "span"}
    said = [tag for tag, _, text in shown.elements if tag in leaves and "n" * 300 in text]  # a command stays whole
    told = [value for _, attributes, _ in shown.elements for value in attributes.values() if len(value or "") > 450]
    assert said == [] and told == []


def test_the_chapters_come_in_order_and_the_evidence_is_folded():
    pictures = [drawn(section, section) for section in reversed(SECTIONS)]
    shown = read(WATCH, pictures)
    open_first = ["run", "remedies", "stages"]
    assert [one["id"] for one in shown.named("section")] == [*open_first, "method"]
    folded = [one for one in SECTIONS if one not in ("verdict", *open_first)]
    assert [one["id"] for one in shown.named("details") if one["class"] == "chapter"] == [*folded, "notes"]
    assert not any("open" in one for one in shown.named("details"))
    order = [one for one in shown.ids if one in outline.ORDER]
    assert order == [*open_first, *folded, "notes", "method"]


def test_the_verdict_has_one_sentence_and_the_next_move_is_what_to_do():
    text = page.document(WATCH, ())
    assert ">Waiting for the workers of loader 1 took 25.0 s of the run&#x27;s 60.5 s (41 %).</h1>" in text
    assert "<p>Faster loading could save about 25.0 s (predicted, not tried).</p>" in text
    assert "<strong>Next:</strong> make ImageFile.load cheaper" in text
    assert "<code>pipebench advise train.py</code>" in text


def test_of_ranks_the_heading_is_what_holds_them_up():
    rows = tuple(RankRow(rank, 70 + rank, 0.01, 0.02, 0.5, 1.0, 800) for rank in range(2))
    compared = Ranks(2, rows, 90, 0.1, 0.7, 0.08)
    program = Program(70, "train.py", 0.0, 60.5, "ended", rank=0, ranks=2)
    found = replace(WATCH, command=WatchedCommand(("torchrun",), 0, (program,), 0, ranks=compared))
    [heading] = read(found).of("h1")
    assert heading == (
        "2 ranks train together. Waiting for the last of them costs 8.00 ms of each step of 100 ms (8 %; predicted, "
        "not tried)."
    )
    lead = page.document(found, ()).split("</h1>")[1].split("</header>")[0]
    assert "ranks train together" not in lead and "No single rank is shown to cause it." in lead


def test_advice_shows_each_remedy_the_line_to_write_and_the_watched_part():
    shown = read(every_report.EXAMPLES["advise"])
    assert [one["id"] for one in shown.named("section")] == ["run", "remedies", "method"]
    assert any("num_workers=8" in one for one in shown.of("pre"))
    assert [one.get("class") for one in shown.named("tr")].count("follow") == 1
    assert "workers" in shown.ids


def test_advice_says_of_no_worker_that_its_end_was_not_recorded():
    lost = Note("worker-lost", {"loader": 1, "worker": 0, "pid": 7})
    for name, said_so in (("advise", False), ("watch", True)):
        found = every_report.EXAMPLES[name]
        text = page.document(replace(found, watched=replace(found.watched, notes=(lost,))), [])
        assert ("ended before its records were complete" in text) is said_so, name


def test_text_from_data_is_inert_wherever_it_stands():
    for name in ("watch", "ab", "syncs", "advise", "lab"):
        found = every_report.changed(every_report.EXAMPLES[name], str, lambda old: HOSTILE)
        text = page.document(found, [drawn("run", HOSTILE, alt=HOSTILE)])
        shown = Page(text)
        assert {tag for tag, _, _ in shown.elements} <= MARKUP, name
        assert len(shown.of("script")) == 2 and len(shown.of("style")) == 1, name
        assert not any(one.startswith("on") for _, attributes, _ in shown.elements for one in attributes), name
        assert not any(char in text for char in "\x1b\u202e\u2028\u2029"), name
        assert "\\x1b[31m\\u202e" in text and "alert(1)&lt;/script&gt;" in text, name


def test_the_policy_allows_this_style_and_this_script_and_nothing_else():
    shown = read(WATCH, [drawn("run")])
    [policy] = [one["content"] for one in shown.named("meta") if "http-equiv" in one]
    allowed = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert allowed["default-src"] == allowed["base-uri"] == allowed["form-action"] == "'none'"
    for kind, text in (("style-src", shown.of("style")[0]), ("script-src", shown.of("script")[1])):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert allowed[kind] == f"'sha256-{digest}'"
    assert allowed.keys() == {"default-src", "style-src", "script-src", "img-src", "base-uri", "form-action"}
    assert not any("style" in attributes for _, attributes, _ in shown.elements)


def test_the_page_refers_to_nothing_outside_itself():
    shown = read(WATCH, [drawn("run")])
    addresses = [
        attributes.get(one) for _, attributes, _ in shown.elements for one in ("src", "href", "action", "data")
    ]
    assert [one for one in addresses if one] == ["data:,"]
    style, script = shown.of("style")[0], shown.of("script")[1]
    assert not re.search(r"url\(|@import|https?:|//[a-z]", style)
    assert not re.search(r"\beval\b|Function\(|import\(|fetch\(|XMLHttp|https?:", script)


def test_the_report_inside_is_the_report():
    [data] = [text for _, attributes, text in read(WATCH).elements if attributes.get("id") == "report"]
    assert msgspec.json.decode(data, type=Report) == WATCH
    assert not set("<>&\u2028\u2029") & set(data)


def test_secrets_stay_out(monkeypatch):
    monkeypatch.setenv("STORE_API_KEY", "correct-horse-battery")
    found = replace(WATCH, failure="https://me:hunter2hunter2@host", started_by="pipebench watch correct-horse-battery")
    text = page.document(found, ())
    assert "hunter2" not in text and "correct-horse" not in text and "pipebench watch …" in text


def _longest():
    """As much as a report can have: long names, many slow samples, workers, stages, notes and programs."""
    result = made_up.watched("n" * 10_000)
    slow = tuple(SlowSample(f"{'x' * (10_000 if place < 20 else 90)}{place}", 1, 1, 0.1) for place in range(10_000))
    workers = tuple(replace(result.workers[0], worker=place) for place in range(1_000))
    stages = tuple(replace(result.stages[0], name=f"{place}{'s' * 300}") for place in range(1_000))
    notes = tuple(Note(f"{place}", {"words": "word " * 300}) for place in range(1_000))
    return replace(WATCH, watched=replace(result, slowest=slow, workers=workers, stages=stages, notes=notes))


@pytest.mark.slow
def test_the_page_is_bounded_and_says_what_it_leaves_out():
    large = [drawn("run", f"number-{place}", SVG + "<!--" + "x" * 59_000 + "-->") for place in range(40)]
    text = page.document(_longest(), large)
    assert len(text.encode()) <= 1_000_000
    shown = Page(text)
    assert shown.open == [] and "method" in shown.ids and "run" in shown.ids
    assert "9,900 more rows: the report as JSON has them." in text
    assert "The rest is left out of this page: the report as JSON has it." in text
    assert "the page would be too large: 35 pictures." in text
    assert '{"left_out": "the report is too large for this page' in text


def test_a_table_has_a_caption_and_names_its_rows_and_columns():
    one = Table("t <&>", ("", "a", "b"), (("x", "1", "██"), ("→ y", "2", "█")), frozenset({1}), ("a note",))
    text = page.markup.table(one)
    shown = Page(text)
    assert shown.of("caption") == ["t <&>"] and shown.of("li") == ["a note"]
    assert [one.get("scope") for one in shown.named("th")] == ["col", "col", "row", "row"]
    assert '<td class="number">1</td><td class="bar" aria-hidden="true">██</td>' in text
    assert '<tr class="follow">' in text


def test_each_picture_has_its_words_and_its_figures():
    shown = read(WATCH, [drawn("workers", alt='Decode is "slow"')])
    [svg] = shown.named("svg")
    assert shown.of("summary")[0] == 'Inside the workersDecode is "slow"'
    assert svg["role"] == "img" and svg["aria-label"] == 'Decode is "slow"'
    assert shown.of("figcaption") == ["The picture one"]
    [folded] = [one for one in shown.named("details") if one["class"] == "figures"]
    assert "open" not in folded and "decode" in shown.of("th")


def test_the_account_is_below_its_bar_and_the_title_of_both_is_that_of_the_chapter():
    title = "Where the 60.5 s of the run went"
    shown = read(WATCH, [replace(drawn("run"), title=title)])
    assert shown.of("h2")[0] == title and shown.named("figcaption") == [{"class": "spoken"}]
    bar, account = [text for tag, attributes, text in shown.elements if attributes.get("class") == "figures"]
    assert "validation loops" in account and "validation loops" not in bar
    assert "figures" not in [one.get("class") for one in read(WATCH).named("details")]


def test_prose_headings_lists_and_code():
    parts = ["Lead in `code`.", "", "A heading", "  one", "  two", "", "Write, in a.py:1:", "  + x = 1 < 2"]
    assert page.markup.blocks(parts) == (
        "<p>Lead in <code>code</code>.</p>\n<h3>A heading</h3>\n<ul><li>one</li><li>two</li></ul>\n"
        "<p>Write, in a.py:1:</p>\n<pre>+ x = 1 &lt; 2</pre>"
    )


def test_a_partial_report_of_nothing_is_a_page_too():
    found = report.Report(2, partial=True, failure="interrupted")
    assert "This report is partial" in page.document(found, ())
