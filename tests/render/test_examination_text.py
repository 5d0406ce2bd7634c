"""The text of an examination: what hurts first, on one screen, and inert."""

from dataclasses import replace

import made_up
import pytest
from made_up_examinations import ALL_WELL, EXAMINATION, LOAD, MANY, SHM

from pipebench.render import text
from pipebench.results import report
from pipebench.results.examination import Examination


def _text(found, width=80, **more):
    return text.table(report.new(examination=found), width=width, **more)


def test_what_hurts_comes_first_with_its_reason_and_its_remedy():
    assert _text(EXAMINATION).splitlines() == [
        "1 thing will hurt training on this machine: shared memory. 1 thing is worth",
        "knowing.",
        "",
        "Will hurt",
        "  shared memory: /dev/shm has 67.1 MB free; 8 workers × 2 batches of 64 float32",
        "    images need 617 MB",
        "    Every batch of a worker lies there. A worker that finds no room dies of a",
        "    bus error.",
        "    Then: enlarge it, or use fewer workers, a smaller batch or uint8 images:",
        "      docker run --shm-size=2g IMAGE",
        "",
        "Worth knowing",
        "  load: other processes use 1.8 of 4 cores",
        "    Workers wait for a core, and the readings of a measurement scatter.",
        "    Then: end them, or come back when they have ended:",
        "      ps -eo pid,pcpu,comm --sort=-pcpu | head",
        "",
        "Not known here: governor (--full says why).",
        "1 check is fine; --full shows them.",
    ]


def test_nothing_that_hurts():
    assert _text(ALL_WELL).splitlines()[0] == "Nothing that was looked at will hurt training on this machine."


def test_everything_ends_with_the_verdict():
    lines = _text(MANY, full=True).splitlines()
    assert lines[:3] == lines[-3:] and lines[0].startswith("9 things will hurt training")
    lines = _text(EXAMINATION, full=True).splitlines()
    assert "  cores: 4 are usable" in lines
    assert "  governor: the system shows no frequencies, as most virtual machines" in lines


@pytest.mark.parametrize("width", [80, 120])
def test_many_findings_fit_a_screen_and_the_rest_is_named(width):
    lines = _text(MANY, width).splitlines()
    assert len(lines) <= 30
    assert max(map(len, lines)) <= width
    assert "shared memory 7, shared memory 8, load 0," in " ".join(" ".join(lines).split())


def test_names_are_inert():
    one = replace(SHM, found=made_up.HOSTILE, check=made_up.HOSTILE, command=made_up.HOSTILE)
    hostile = Examination((one, LOAD), made_up.HOSTILE, 1.0)
    for full in (False, True):
        assert "\x1b" not in _text(hostile, full=full) and "\u202e" not in _text(hostile, full=full)
