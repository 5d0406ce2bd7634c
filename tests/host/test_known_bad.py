"""Releases that do not work together are told by their versions, and a report that has them says so."""

from dataclasses import replace

import pytest

from pipebench.host import machine
from pipebench.host.known_bad import TABLE, known_bad
from pipebench.render import tables
from pipebench.results import report


@pytest.mark.parametrize(
    ("versions", "said"),
    [
        ({}, ""),
        ({"opencv-python": "4.9.0.80", "numpy": "2.0.0"}, "NumPy 1"),
        ({"opencv-python": "4.10.0.82", "numpy": "2.1"}, "NumPy 1"),
        ({"opencv-python": "4.10.0.84", "numpy": "2.1"}, ""),
        ({"opencv-python": "4.9.0.80", "numpy": "1.26.4"}, ""),
        ({"torch": "2.13.0+cpu", "torchvision": "0.28.0"}, "CPUs alone"),
        ({"torch": "2.13.0", "torchvision": "0.28.0+cpu"}, "CPUs alone"),
        ({"torch": "2.13.0+cpu", "torchvision": "0.28.0+cpu"}, ""),
        ({"torch": "2.13.0+cpu"}, ""),
    ],
)
def test_what_does_not_work_together(versions, said):
    assert [said in one.what for one in known_bad(versions) if one.fails] == ([True] if said else [])


def test_each_has_a_remedy_and_a_source():
    assert all(one.remedy and one.source.startswith("https://") for one in TABLE)


def test_a_report_says_it():
    here = machine.describe()
    bad = report.Report(2, machine=replace(here, libraries={"opencv-python": "4.9.0.80", "numpy": "2.0.0"}))
    assert "cannot be imported beside NumPy 2" in tables.heading(bad)[-1]
    assert len(tables.heading(replace(bad, machine=replace(here, libraries={})))) == len(tables.heading(bad)) - 1
