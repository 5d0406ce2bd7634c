"""The page in a real browser without a network: quiet, whole, inert; on a phone, in the dark, on paper."""

import shutil
from dataclasses import replace

import every_report
import made_up
import msgspec
import pytest
from test_page import HOSTILE, WATCH, drawn

from pipebench.render.html import page
from pipebench.results.batches import SlowSample
from pipebench.results.report import Report

pytestmark = pytest.mark.slow
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
HOSTILE_NAME = HOSTILE.replace("alert(1)", "document.title='taken'")


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("there is no browser: `apt-get install chromium`, then run this again")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        one = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield one
        one.close()


@pytest.fixture
def opened(browser, tmp_path):
    """Opens a page with the network blocked. At the end nothing was requested besides the file, or said."""
    contexts, heard = [], []

    def open_page(text, **how):
        file = tmp_path / f"{len(contexts)}.html"
        file.write_text(text)
        context = browser.new_context(offline=True, **how)
        contexts.append(context)
        context.route("**", lambda route: route.continue_() if route.request.url == file.as_uri() else route.abort())
        shown = context.new_page()
        for event in ("console", "pageerror", "dialog", "crash"):
            shown.on(event, lambda what, event=event: heard.append((event, str(getattr(what, "text", what)))))
        shown.on("request", lambda one: heard.append(("request", one.url)) if one.url != file.as_uri() else None)
        shown.goto(file.as_uri())
        return shown

    yield open_page
    for one in contexts:
        one.close()
    assert heard == []


def _unfolded(shown):
    shown.locator("#fold").click()
    assert shown.locator("details.chapter:not([open])").count() == 0
    return shown


def _width(shown):
    return shown.evaluate("document.documentElement.scrollWidth")


def _violations(shown):
    from axe_playwright_python.sync_playwright import Axe

    return [
        (one["id"], [node["target"] for node in one["nodes"]][:3]) for one in Axe().run(shown).response["violations"]
    ]


@pytest.mark.parametrize("name", every_report.EXAMPLES)
def test_each_kind_of_report_is_whole_on_a_phone_and_quiet(name, opened):
    shown = opened(page.document(every_report.EXAMPLES[name]), viewport={"width": 360, "height": 740})
    assert shown.locator("h1").is_visible() and _width(shown) == 360
    for one in shown.locator("details.figures > summary").all():
        assert one.is_visible() or shown.locator("details.chapter").count()
    if shown.locator("#fold").count():
        _unfolded(shown)
    assert _width(shown) == 360
    for one in shown.locator("figure").all():
        drawn_so = one.locator("svg:visible").bounding_box()
        assert 300 < drawn_so["width"] <= 360 and drawn_so["height"] > 20


@pytest.mark.parametrize(
    ("name", "scheme"), [("watch", "light"), ("watch", "dark"), ("advise", "light"), ("lab", "dark")]
)
def test_nothing_keeps_anybody_out(name, scheme, opened):
    shown = opened(page.document(every_report.EXAMPLES[name]), color_scheme=scheme)
    assert _violations(_unfolded(shown) if shown.locator("#fold").count() else shown) == []


def test_the_dark_is_dark_and_the_ink_follows(opened):
    def colours(scheme):
        shown = opened(page.document(WATCH), color_scheme=scheme)
        style = "(({color, backgroundColor}) => [color, backgroundColor])(getComputedStyle(document.body))"
        return [sum(map(int, one.strip("rgb()").split(", "))) for one in shown.evaluate(style)]

    (ink, paper), (light_ink, dark_paper) = colours("light"), colours("dark")
    assert ink < 200 and paper > 700 and light_ink > 600 and dark_paper < 100


def test_hostile_names_are_only_text(opened):
    found = every_report.changed(WATCH, str, lambda old: HOSTILE_NAME)
    slow = tuple(SlowSample(HOSTILE_NAME + "x" * (10_000 if place < 9 else 9), 1, 1, 0.1) for place in range(10_000))
    found = replace(found, watched=replace(found.watched, slowest=slow))
    text = page.document(found, [drawn("run", HOSTILE_NAME, alt=HOSTILE_NAME), *page.pictures.of(found)])
    assert len(text.encode()) < page.MOST_BYTES
    shown = opened(text, viewport={"width": 360, "height": 740})
    _unfolded(shown)
    shown.wait_for_timeout(200)
    assert shown.title().startswith("pipebench watch") and _width(shown) == 360
    assert shown.locator("img, svg[onload], [onmouseover]").count() == 0 and shown.locator("script").count() == 2
    assert "</script><script>" in (said := shown.locator("main").inner_text()) and "\\x1b[31m\\u202e" in said


def test_without_scripts_everything_can_be_read(opened):
    shown = opened(page.document(WATCH, [drawn("run")]), java_script_enabled=False)
    assert shown.locator("button:visible").count() == 0
    for one in shown.locator("details.chapter").all():
        one.locator("summary").first.click()
        assert one.locator(".inside").is_visible()
    assert shown.get_by_text("p50 97.0, p95 130, p99 190 ms").is_visible()


def test_on_paper_nothing_is_folded(opened):
    shown = opened(page.document(WATCH, [drawn("workers")]), java_script_enabled=False)
    shown.emulate_media(media="print", color_scheme="dark")
    for one in shown.locator(".inside").all():
        assert one.bounding_box()["height"] > 20
    for one in shown.locator("summary h3").all():
        assert one.bounding_box()["height"] < 40 < one.bounding_box()["width"]
    assert shown.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_folding_addresses_the_marks_of_a_picture_and_the_report_as_a_file(opened):
    shown = opened(page.document(WATCH, [drawn("run")]))
    assert shown.locator("#fold").inner_text() == "Unfold all"
    _unfolded(shown)
    shown.wait_for_function("document.getElementById('fold').textContent == 'Fold all'")
    shown.locator("#fold").click()
    assert shown.locator("details.chapter[open]").count() == 0
    shown.evaluate("location.hash = 'notes'")
    shown.wait_for_selector("details#notes[open]")
    shown.locator("svg rect").first.hover()
    assert shown.locator("#tip").inner_text() == "decode: 9 ms" and shown.locator("#tip").is_visible()
    with shown.expect_download() as download:
        shown.locator("#save").click()
    assert msgspec.json.decode(download.value.path().read_bytes(), type=Report) == WATCH
    assert download.value.suggested_filename == "pipebench-watch.json"


def test_the_keyboard_reaches_every_chapter(opened):
    shown = opened(page.document(replace(WATCH, watched=made_up.watched()), ()))
    reached = set()
    for _ in range(60):
        shown.keyboard.press("Tab")
        reached.add(shown.evaluate("document.activeElement.parentElement.id"))
    assert {"workers", "distribution", "resources", "notes"} <= reached
