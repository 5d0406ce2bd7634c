"""The studies: one engine against planted costs, and each study's steps shown to compute the same."""

import itertools
import json
import subprocess
import sys

import pytest
import torch
import warm
from fake import FakeClock

from pipebench import studies
from pipebench.errors import SampleError, UsageError
from pipebench.render import study as rendered
from pipebench.render import text
from pipebench.results.report import Report
from pipebench.results.studies import Author, StudyResult, StudyRow
from pipebench.results.sync_points import SyncReport
from pipebench.results.windows import LoopWindow
from pipebench.stats import Interval, Speedup
from pipebench.studies import Rounds, Step, tar_or_files, timed
from pipebench.task import Unavailable, Workload

NAMES = ["input-pipeline", "metrics", "sync-points", "tar-or-files", "training-loop"]


def quiet(done, total, what):
    pass


def same(ours, theirs):
    if ours != theirs:
        raise SampleError("disagrees", f"{ours} is not {theirs}")


class Planned:
    """Steps that cost what they are told to, on a fake clock."""

    def __init__(self, noise=0.0):
        self.clock = FakeClock(noise)

    def step(self, name, cost, output=1, **facts):
        def build():
            def call():
                self.clock.spend(cost)
                return output

            return call

        return Step(name, f"what {name} is", build, same, **facts)

    def rows(self, *steps, rounds=None):
        return timed(steps, rounds or Rounds(6), quiet, now=lambda: self.clock.now)


def test_every_study_is_found_by_its_name():
    assert studies.names() == NAMES
    for name in NAMES:
        found = studies.find(name)
        assert found.name == name and found.title and found.source
    with pytest.raises(UsageError, match="there is no study 'nosuch'"):
        studies.find("nosuch")


def interrupting(planned, after):
    """A step whose call is interrupted after so many calls. The first of them tries it."""
    calls = itertools.count()

    def call():
        if next(calls) == after:
            raise KeyboardInterrupt
        planned.clock.spend(0.1)
        return 1

    return Step("second", "is interrupted", lambda: call, same)


@pytest.mark.parametrize("rounds", [2, 4])
def test_an_interrupted_study_has_the_rounds_until_then(rounds):
    planned = Planned()
    rows = planned.rows(planned.step("first", 0.2), interrupting(planned, 1 + rounds))
    assert [row.seconds.median for row in rows] == pytest.approx([0.2, 0.1])
    assert rows[1].over_before.speedup == pytest.approx(2.0)


@pytest.mark.parametrize("calls", [0, 1, 2])
def test_a_study_that_is_interrupted_before_two_rounds_has_nothing_to_tell(calls):
    planned = Planned()
    with pytest.raises(KeyboardInterrupt):
        planned.rows(planned.step("first", 0.2), interrupting(planned, calls))


def test_planted_costs_come_out_as_speedups_over_the_row_before_and_to_the_first():
    planned = Planned()
    rows = planned.rows(
        planned.step("slow", 0.8, work=4),
        planned.step("less", 0.4, work=4, author=Author("half", 2.0)),
        planned.step("least", 0.05, work=2, author=Author("", 8.0, over="slow")),
    )
    assert [row.seconds.median for row in rows] == pytest.approx([0.2, 0.1, 0.025])
    assert [row.over_before and round(row.over_before.speedup, 6) for row in rows] == [None, 2.0, 4.0]
    assert rows[2].over_first.speedup == pytest.approx(8.0)
    assert [rendered.claimed(row) for row in rows] == [
        None,
        "less: the author's 2.00× holds here: 2.00× (2.00–2.00)",
        "least: the author's 8.00× holds here: 8.00× (8.00–8.00)",
    ]
    assert [row.agreement for row in rows] == ["is the baseline", "agrees with slow", "agrees with less"]


def test_a_step_that_computes_something_else_has_no_speedup_and_says_so():
    planned = Planned()
    rows = planned.rows(planned.step("one", 0.1), planned.step("other", 0.05, output=2))
    assert rows[1].over_before is None and rows[1].agreement == "DISAGREES with one: 2 is not 1"


def test_a_step_after_one_that_disagrees_is_held_against_the_last_that_agrees():
    planned = Planned()
    rows = planned.rows(
        planned.step("one", 0.4),
        planned.step("other", 0.2, output=2),
        planned.step("like other", 0.1, output=2, author=Author("", 2.0)),
        planned.step("like one", 0.05, author=Author("", 2.0, over="other")),
    )
    assert [row.agreement for row in rows[2:]] == ["DISAGREES with one: 2 is not 1", "agrees with one"]
    assert [rows[2].over_before, rows[2].over_first, rows[2].over_authors, rows[3].over_authors] == [None] * 4
    assert [rows[3].over_before.speedup, rows[3].over_first.speedup] == pytest.approx([8.0, 8.0])


def test_counted_steps_on_a_device_have_speedups_over_the_same_work_only(monkeypatch):
    clock = FakeClock(0.0)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr("pipebench.host.clock.DeviceClock", lambda: clock)
    found = SyncReport(None, 1, 0.0, None, None, ())
    monkeypatch.setattr("pipebench.syncpoints.examine.examine", lambda call, name: found)

    def step(name, cost, loss):
        return studies.Counted(name, "", "", lambda: lambda: clock.spend(cost), lambda call: {"loss": loss})

    rows = studies.counted([step("one", 0.4, 1.0), step("other", 0.2, 2.0), step("like one", 0.1, 1.0)], quiet)
    assert [row.agreement for row in rows[1:]] == ["DISAGREES with one: loss", "agrees with one"]
    assert rows[1].over_before is None and rows[2].over_before.speedup == pytest.approx(4.0)


def test_a_step_that_cannot_run_is_skipped_and_the_next_is_held_against_the_last_that_did():
    planned = Planned()

    def missing():
        raise Unavailable("not-installed", "pip install it")

    rows = planned.rows(planned.step("one", 0.2), Step("gone", "", missing), planned.step("two", 0.1))
    assert rows[1].skipped == "pip install it" and rows[1].over_before is None
    assert rows[2].agreement == "agrees with one" and rows[2].over_before.speedup == pytest.approx(2.0)


def test_readings_end_with_the_budget_but_not_before_the_fewest():
    planned = Planned()
    planned.rows(planned.step("one", 1.0), rounds=Rounds(50, least=3, budget_s=2.0))
    assert planned.clock.now == pytest.approx(4.0)  # one try and three readings


GAIN, LOSS = 2.0, 0.8  # what the author states


@pytest.mark.parametrize(
    ("ours", "theirs", "said"),
    [
        ((2.1, 1.9, 2.2), GAIN, "holds here: 2.10× (1.90–2.20)"),
        ((3.55, 3.5, 3.6), 1.62, "holds here, and the gain is larger: 3.55× (3.50–3.60)"),
        ((1.2, 1.1, 1.3), GAIN, "is a smaller gain here: 1.20× (1.10–1.30)"),
        ((1.0, 0.9, 1.1), GAIN, "does not hold here, there is no measurable gain: 1.00× (0.90–1.10)"),
        ((0.9, 0.8, 0.95), GAIN, "does not hold here, the step is slower: 0.90× (0.80–0.95)"),
        ((1.5, 0.9, 2.5), GAIN, "is neither confirmed nor ruled out here: 1.50× (0.90–2.50)"),
        ((0.8, 0.7, 0.9), LOSS, "holds here: 0.80× (0.70–0.90)"),
        ((0.5, 0.4, 0.6), LOSS, "is a larger loss here: 0.50× (0.40–0.60)"),
        ((0.9, 0.85, 0.95), LOSS, "is a smaller loss here: 0.90× (0.85–0.95)"),
        ((1.0, 0.9, 1.1), LOSS, "does not hold here, there is no measurable loss: 1.00× (0.90–1.10)"),
        ((1.2, 1.1, 1.3), LOSS, "does not hold here, the step is faster: 1.20× (1.10–1.30)"),
        ((0.9, 0.7, 1.1), LOSS, "is neither confirmed nor ruled out here: 0.90× (0.70–1.10)"),
        ((1.0, 0.98, 1.02), 1.0, "holds here: 1.00× (0.98–1.02)"),
        ((1.2, 1.1, 1.3), 1.0, "does not hold here, the step is faster: 1.20× (1.10–1.30)"),
    ],
)
def test_an_authors_figure_is_judged_by_our_interval_and_its_own_size(ours, theirs, said):
    row = StudyRow("fix", "", over_authors=Speedup(*ours, 0.95), author=Author("", theirs))
    assert rendered.claimed(row) == f"fix: the author's {theirs:.2f}× {said}"


STEADY = 1.0, 1.02, 1.01
FIXES = {  # the author states 2×: what the fix takes of the baseline's time, turn by turn, and what is then said
    "as much as stated": ((0.5, 0.52, 0.49), "holds", "holds here: 2.00×"),
    "much more than stated": ((0.2, 0.21, 0.2), "larger", "holds here, and the gain is larger: 5.00×"),
    "a little more than stated": ((0.45, 0.455, 0.45), "larger", "holds here, and the gain is larger: 2.2"),
    "a little less than stated": ((0.55, 0.56, 0.55), "smaller", "is a smaller gain here: 1.8"),
    "much less, still a gain": ((0.9, 0.91, 0.9), "smaller", "is a smaller gain here: 1.1"),
    "nothing": ((1.0, 0.97, 1.03), "none", "does not hold here, there is no measurable gain"),
    "slower": ((1.4, 1.42, 1.4), "opposite", "does not hold here, the step is slower: 0.7"),
    "the inverse of what is stated": ((2.0, 2.04, 2.0), "opposite", "does not hold here, the step is slower: 0.50×"),
    "anything between nothing and more": ((0.4, 1.3, 0.7), "open", "is neither confirmed nor ruled out here"),
}


@pytest.mark.parametrize("gains", FIXES)
def test_planted_readings_give_the_verdict_that_they_support(gains):
    """Speed-ups of 1.8 and 2.2 lie within 25 % of 2, and their narrow intervals exclude it all the same."""
    costs, outcome, said = FIXES[gains]
    clock = FakeClock(0)

    def taking(series):
        turns = itertools.cycle(series)
        return lambda: lambda: clock.spend(next(turns))

    steps = [Step("slow", "", taking(STEADY)), Step("fix", "", taking(costs), author=Author("half", 2.0))]
    row = timed(steps, Rounds(12), quiet, now=lambda: clock.now)[1]
    assert row.outcome == outcome
    assert rendered.claimed(row).startswith(f"fix: the author's 2.00× {said}")


def test_an_authors_figure_that_was_not_measured_says_so():
    assert rendered.claimed(StudyRow("fix", "", author=Author("", 2.0))) == (
        "fix: the author's 2.00× was not measured here"
    )
    assert rendered.claimed(StudyRow("fix", "", author=Author("no figure"))) is None


def test_a_speedup_over_the_baseline_is_reached_where_the_whole_interval_is_above():
    for figures, word in (
        ((3.2, 3.1, 3.3), "reaches"),
        ((2.0, 1.9, 2.1), "does not reach"),
        ((3.0, 2.9, 3.1), "may or may not reach"),
    ):
        row = StudyRow("fix", "", over_first=Speedup(*figures, 0.95))
        assert studies.reaches([row], "fix", 3).startswith(f"fix {word} 3× of the baseline")
    assert "was not measured here" in studies.reaches([], "fix", 3)


@pytest.mark.parametrize(
    ("figures", "said"),
    [
        ((40.0, 30.0, 50.0), "that loading disappears holds here"),
        ((9.0, 8.0, 10.0), "that loading disappears does not hold here"),
        ((20.0, 10.0, 50.0), "that loading disappears is neither confirmed nor ruled out here"),
        (None, "not measured here"),
    ],
)
def test_that_loading_disappears_is_judged_by_the_whole_interval(figures, said):
    row = StudyRow("cached", "", over_before=figures and Speedup(*figures, 0.95))
    assert tar_or_files._disappears([row]).startswith(f"cached: {said}")


def test_a_result_is_a_table_with_the_authors_figures_beside_ours():
    result = StudyResult(
        "example",
        "An example",
        "A. Uthor (2020)",
        "full",
        "image",
        "here",
        (
            StudyRow("slow", "as written", Interval(0.004, 0.0035, 0.005, 0.97), agreement="is the baseline"),
            StudyRow(
                "fast\x1b[31m",
                "better",
                Interval(0.002, 0.002, 0.002, 0.97),
                over_before=Speedup(2.0, 1.6, 2.5, 0.97),
                author=Author("2 s, then 1 s", 2.0),
                agreement="agrees with slow",
                gives_up="nothing",
            ),
        ),
        ("it holds",),
    )
    table = rendered.table(result)
    assert table.headers == ("step", "ms/image", "× row before", "author's ×")
    assert table.rows == (("slow", "4.00", "", ""), ("fast\\x1b[31m", "2.00", "2.00× (1.60–2.50)", "2.00×"))
    assert table.notes[1] == ("fast\\x1b[31m: better; agrees with slow; gives up nothing; author: 2 s, then 1 s")
    assert table.notes[-2:] == ("→ fast\\x1b[31m: the author's 2.00× was not measured here", "→ it holds")
    verdict, *lines = text.table(Report(2, studies=(result,))).splitlines()
    assert verdict == "The author's gain was not measured here: fast\\x1b[31m."
    assert lines[:2] == ["An example (example, full size)", "A. Uthor (2020)"]


def test_a_verdict_tells_what_was_not_measured_from_what_does_not_hold():
    author = Author("", 2.0)
    holds = StudyRow("a", "", author=author, over_authors=Speedup(2.0, 1.6, 2.5, 0.97))
    open_ = StudyRow("b", "", author=author, over_authors=Speedup(1.5, 0.9, 2.5, 0.97))
    missing = StudyRow("c", "", author=author, skipped="no device")

    def verdict(*rows: StudyRow) -> str:
        return rendered.verdict(StudyResult("s", "S", "", "default", "step", "", rows))

    assert verdict(open_) == "The author's gain does not clearly hold here: b."
    assert verdict(missing) == "The author's gain was not measured here: c."
    assert verdict(holds, open_) == "Of 2 gains of the author, 1 holds here."
    assert verdict(holds, open_, missing) == "Of 3 gains of the author, 1 holds here; 1 was not measured."
    assert verdict(missing, missing) == "None of the author's 2 gains was measured here."


def test_counts_are_shown_with_their_change():
    rows = (StudyRow("a", "", count=5.0), StudyRow("b", "", count=0.0))
    table = rendered.table(StudyResult("s", "S", "", "default", "step", "", rows))
    assert table.headers == ("step", "syncs/step", "change")
    assert [row[1:3] for row in table.rows] == [("5", ""), ("0", "-5")]
    verdicts = [rendered.verdict(StudyResult("s", "S", "", "default", "step", "", (rows[0], last))) for last in (
        rows[1], StudyRow("b", "", count=2.0))]  # fmt: skip
    assert verdicts == ["After the fixes, none of the sync points of a step is left.",
                        "After the fixes, 2 of the 5 sync points of a step are left."]  # fmt: skip
    assert studies.counts_found(rows) == "no sync point is left after the fixes: holds here, 5 a step become 0"
    assert "does not hold" in studies.counts_found((rows[0], StudyRow("b", "", count=1.0)))


def test_callbacks_off_the_path_leave_the_same_weights():
    from pipebench.reference.dataloader import reference
    from pipebench.reference.training_loop import one_thread
    from pipebench.results.loading import Loading
    from pipebench.studies import training_loop

    workload = Workload(data="tiny", batch_size=4)
    with one_thread(), reference(workload, Loading(workers=0)) as live, training_loop.loops(workload) as ways:
        batches = [live.start(), next(live)]
        weights = [training_loop._weights(way, batches, live.now) for way in ways]
        assert training_loop._agreement(weights[1], weights[0], "synchronous") == "same weights as synchronous"
        assert training_loop._agreement(weights[2], weights[0], "synchronous") == "same weights as synchronous"
        other = [one + 1 for one in weights[0]]
        assert "DISAGREES" in training_loop._agreement(other, weights[0], "synchronous")
        said = training_loop._agreements([weights[0], other, weights[0]])
        assert said[1:] == ["DISAGREES with synchronous: other weights", "same weights as synchronous"]


def test_a_loop_after_one_with_other_weights_is_held_against_the_last_with_the_same():
    from pipebench.studies import training_loop

    windows = {
        name: [LoopWindow(spent, 3, 3, {"wait": 0.1}) for _ in range(3)]
        for name, spent in zip(training_loop.NAMES, (0.8, 0.4, 0.2), strict=True)
    }
    said = ["is the baseline", "DISAGREES with synchronous: other weights", "same weights as synchronous"]
    rows = list(training_loop._rows(said, windows))
    assert rows[1].over_first is None and rows[2].over_before.speedup == pytest.approx(4.0)


def test_the_sync_points_of_the_study_go_to_none():
    found = studies.find("sync-points").run("default", quiet)
    assert [row.count for row in found.rows] == [5, 4, 3, 0]
    assert all("agrees" in row.agreement for row in found.rows[1:])
    assert found.findings == ("no sync point is left after the fixes: holds here, 5 a step become 0",)


def pipebench(*arguments):
    return warm.run(
        [sys.executable, "-m", "pipebench", *map(str, arguments)], capture_output=True, text=True, timeout=900
    )


def test_the_command_refuses_what_there_is_not_and_does_not_import_torch_for_its_help():
    code = "import sys, pipebench.commands.study; sys.exit(bool({'torch', 'numpy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
    done = pipebench("study", "nosuch")
    assert done.returncode == 2 and "the studies are input-pipeline" in done.stderr


@pytest.mark.long
def test_the_command_lists_the_studies():
    done = pipebench("study")
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines() if not line.startswith(" ")] == NAMES


LONG = ("input-pipeline", "training-loop")  # minutes each


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.timing if name in LONG else pytest.mark.long) for name in NAMES]
)
def test_a_study_runs_from_the_command_line(name, tmp_path):
    if name == "metrics":
        pytest.importorskip("torchmetrics")
    place = tmp_path / "study.json"
    done = pipebench("study", name, "--export-json", place)
    assert done.returncode == 0, done.stderr
    found = json.loads(place.read_text())
    (study,) = found["studies"]
    assert study["study"] == name and study["findings"]
    assert not any("DISAGREES" in row["agreement"] for row in study["rows"])
    assert all(row["name"] in done.stdout for row in study["rows"])
    assert pipebench("show", place).stdout == done.stdout


def test_one_thread_gives_back_what_there_was():
    from pipebench.reference.training_loop import one_thread

    before = torch.get_num_threads()
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before
