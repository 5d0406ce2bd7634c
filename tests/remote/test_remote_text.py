"""The text and the verdict of made readings: the answer first, what failed, and only what the readings say."""

import pytest
from made_up_remote import FAILED, REMOTE, ROWS, remote, row

from pipebench.render import text
from pipebench.render.remote import verdict
from pipebench.results import report
from pipebench.results.remote import Traffic


def shown(found, **more):
    return text.table(report.new(remote=found), width=80, **more)


def test_the_report_begins_with_the_answer_and_fits_a_screen():
    lines = shown(REMOTE).splitlines()
    assert lines[0] == "To feed 2,500 images/s: 6 connections. 1 connection gives 450."
    assert len(lines) <= 30 and max(map(len, lines)) <= 80
    found = shown(REMOTE, full=True)
    said = "5 of 109 requests failed (2 cut-short, 1 http-403, 2 timed-out); 4 were tried again, 1"
    assert said in found.replace("\n", " ")
    assert "→ 6" in found and "a local copy would give up to 8,200 images/s here" in found
    assert "With 8 connections this process used a whole core" in found.replace("\n  ", " ")
    assert "https://h/train-{000..009}.tar" in found


@pytest.mark.parametrize(
    ("rows", "feed", "says", "code"),
    [
        (ROWS, 400.0, "To feed 400 images/s: 1 connection, which gives 450.", "feeds-rate"),
        (
            ROWS,
            9000.0,
            "9,000 images/s cannot be fed: the most is 3,597, with 8 connections. 1 connection gives 450.",
            "does-not-feed-rate",
        ),
        (
            (ROWS[0], row(6, 2300, 2900, 2500, 2800), ROWS[4]),
            2500.0,
            "To feed 2,500 images/s: 8 connections; 6 may do (2,058 to 3,320 images/s). 1 connection gives 450.",
            "feeds-rate",
        ),
        (
            (ROWS[0], row(6, 2600)),
            2500.0,
            "To feed 2,500 images/s: perhaps 6 connections (one window only). 1 connection gives 450.",
            "may-feed-rate",
        ),
        (ROWS, None, "1 connection gives 450 images/s; the most is 3,597, with 8 connections.", "measured"),
        ((ROWS[0],), None, "1 connection gives 450 images/s.", "measured"),
        (
            (row(1, 0, 0, traffic=Traffic(8, 6, 2, {"timed-out": 8})),),
            100.0,
            "No byte came in any window: 8 timed-out.",
            "does-not-feed-rate",
        ),
    ],
)
def test_the_verdict(rows, feed, says, code):
    found = remote(*rows, feed=feed)
    assert verdict(found) == says
    assert report.new(remote=found).verdict.code == code


def test_one_spoilt_window_makes_a_row_uncertain():
    found = remote(ROWS[0], row(6, 2700, 0, 2700, 2700))
    assert found.needed is None and found.rate(found.rows[1]).low == 0


def test_an_interrupted_run_without_a_window_says_so():
    found = remote()
    assert "interrupted before the first window ended" in shown(found)
    assert report.new(remote=found).verdict is None


def test_what_happened_is_added_up():
    found = remote(row(1, 1.0, traffic=FAILED), row(2, 1.0, traffic=FAILED), look=Traffic(2, 1, 0, {"reset": 1}))
    assert found.traffic == Traffic(82, 9, 2, {"reset": 1, "cut-short": 4, "http-403": 2, "timed-out": 4})


def test_a_report_is_saved_and_shown_again(tmp_path):
    made = report.new(remote=REMOTE)
    report.save(made, tmp_path / "remote.json")
    again = report.load(tmp_path / "remote.json")
    assert again == made and shown(again.remote) == shown(REMOTE)
    assert again.verdict.evidence["connections"] == 6 and again.verdict.evidence["failed"] == 5
