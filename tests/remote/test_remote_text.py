"""The text and the verdict of made readings: the answer first, what failed, and only what the readings say."""

from dataclasses import replace

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
    assert "→ 6" in found and "a local copy would give 8,000 images/s here" in found
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
            "To feed 2,500 images/s: perhaps 6 connections (1 window only, which has no interval). 1 connection gives "
            "450.",
            "may-feed-rate",
        ),
        (ROWS, None, "1 connection gives 450 images/s; the most is 3,597, with 8 connections.", "measured"),
        ((ROWS[0],), None, "1 connection gives 450 images/s.", "measured"),
        (
            (row(1, 0, 0, traffic=Traffic(8, 6, 2, {"timed-out": 8})),),
            100.0,
            "No shard came whole in any window of 2.00 s: 2.00 GB were read, but what came in windows was of "
            "attempts that failed (8 timed-out). Then: check that the server can be reached (curl -I), or raise "
            "--timeout; --seconds makes windows longer.",
            "does-not-feed-rate",
        ),
    ],
)
def test_the_verdict(rows, feed, says, code):
    found = remote(*rows, feed=feed)
    assert verdict(found) == says
    assert report.new(remote=found).verdict.code == code


def test_where_no_byte_came_it_names_what_helps():
    silent = replace(row(1, 0, 0, traffic=Traffic(8, 6, 2, {"http-403": 8})), first_byte_s=())
    assert verdict(remote(silent)) == (
        "No byte came in any window of 2.00 s: 8 http-403. Then: check the credentials, or sign the address again: it "
        "may have ended."
    )
    late = verdict(remote(replace(silent, traffic=Traffic(2))))
    assert late.endswith("no attempt failed. Then: --seconds makes windows longer.")
    assert "local copy" not in shown(remote(silent)).split("Images are derived")[0]


def test_two_windows_have_no_interval():
    """With one degree of freedom, equal windows would have ±0 %, and others ×÷20."""
    for second in (450, 460, 800):
        found = remote(row(1, 450, second), feed=450.0)
        assert found.rate(found.rows[0]).confidence == 0 and found.needed is None
        assert "perhaps 1 connection (2 windows only, which have no interval)" in verdict(found)
        assert "%" not in shown(found).split("connections ")[1].split("local")[0].replace("95 %", "")
    assert remote(row(1, 450, 450, 450)).rate(row(1, 450, 450, 450)).confidence == 0.95


def test_an_interval_is_never_0():
    assert "±<1 %" in shown(remote(row(1, 450, 450, 450, 450))) and "±0 %" not in shown(REMOTE)


def test_small_figures_are_no_zeros():
    found = remote(row(1, 0.04, 0.05, 0.04, 0.05), row(2, 0.09, 0.09, 0.08, 0.09), local=False)
    said = shown(found)
    assert "1 connection gives 0.045" in verdict(found) and "kB/s" in said
    assert {"4.5", "8.7"} <= set(said.split())


def test_what_failed_in_the_first_look_has_a_row_and_one_was_tried_again():
    found = shown(remote(*ROWS[:2], look=Traffic(2, 1, 0, {"cut-short": 1})))
    assert "1 of 14 requests failed (1 cut-short); 1 was tried again, 0 shards given up." in found
    assert any(line.split() == ["first", "look", "1", "1"] for line in found.splitlines())


def test_a_figure_of_the_summary_is_one_of_a_row():
    said = " ".join(shown(REMOTE).split())
    copy = said.split("local copy would give ")[1].split()[0]
    assert f"local copy, cold {copy} " in said


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
