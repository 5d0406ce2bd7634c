"""The yardstick: every published rate says what it is of, who published it, where and when."""

import datetime
import re
from pathlib import Path

import pytest

from pipebench.reference.published_rates import PUBLISHED


@pytest.mark.parametrize("one", PUBLISHED, ids=lambda one: f"{one.name} {one.device}")
def test_a_row_has_its_source_its_date_and_its_unit(one):
    assert one.kind == "published" and one.images_per_s > 0
    assert one.name and one.precision and one.data and one.source
    assert re.fullmatch(r"\d+ [A-Z].*", one.device), "the number of devices and their name"
    assert re.fullmatch(r"https://github\.com/[\w-]+/[\w.-]+/blob/[0-9a-f]{40}/.+", one.link), "a fixed commit"
    assert datetime.date(2015, 1, 1) < datetime.date.fromisoformat(one.date) < datetime.date.today()


def test_the_rows_are_few_and_ordered_by_rate():
    rates = [one.images_per_s for one in PUBLISHED]
    assert rates == sorted(rates) and 4 <= len(rates) <= 6


ROW = r"^\| (\w.*?) \| (\d .*?) \| (.*?) \| ([\d,]+) \| (.*?) \| \[.*?(\d{4}-\d\d-\d\d)\]\[(\w+)\] \|$"


def test_the_page_shows_the_same_rows():
    page = (Path(__file__).parents[2] / "docs" / "figures" / "run.md").read_text()
    links = dict(re.findall(r"^\[(\w+)\]: (\S+)$", page, re.M))
    assert [(*row[:6], links[row[6]]) for row in re.findall(ROW, page, re.M)] == [
        (one.name, one.device, one.precision, f"{one.images_per_s:,.0f}", one.data, one.date, one.link)
        for one in PUBLISHED
    ]
