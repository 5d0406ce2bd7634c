"""The studies: one engine against planted costs, and each study's steps shown to compute the same."""

import json
import subprocess
import sys

import pytest
import torch
from fake import FakeClock

from pipebench import studies
from pipebench.errors import SampleError, UsageError
from pipebench.render import study as rendered
from pipebench.render import text
from pipebench.results.studies import Author, Result, Row
from pipebench.stats import Interval, Ratio
from pipebench.studies import Plan, Step, findings, timed
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

    def rows(self, *steps, plan=None):
        return timed(steps, plan or Plan(rounds=6), quiet, now=lambda: self.clock.now)


def test_every_study_is_found_by_its_name():
    assert studies.names() == NAMES
    for name in NAMES:
        found = studies.find(name)
        assert found.name == name and found.title and found.source
    with pytest.raises(UsageError, match="there is no study 'nosuch'"):
        studies.find("nosuch")


def test_planted_costs_come_out_as_ratios_to_the_row_before_and_to_the_first():
    planned = Planned()
    rows = planned.rows(
        planned.step("slow", 0.8, work=4),
        planned.step("less", 0.4, work=4, author=Author("half", 0.5)),
        planned.step("least", 0.05, work=2, author=Author("", 0.125, over="slow")),
    )
    assert [row.seconds.median for row in rows] == pytest.approx([0.2, 0.1, 0.025])
    assert [row.ratio and round(row.ratio.ratio, 6) for row in rows] == [None, 0.5, 0.25]
    assert rows[2].ratio_to_first.ratio == pytest.approx(0.125)
    assert list(findings(rows)) == [
        "less: the author's 2.00× holds here: 2.00× (2.00–2.00)",
        "least: the author's 8.00× holds here: 8.00× (8.00–8.00)",
    ]
    assert [row.agreement for row in rows] == ["is the baseline", "agrees with slow", "agrees with less"]


def test_a_step_that_computes_something_else_has_no_ratio_and_says_so():
    planned = Planned()
    rows = planned.rows(planned.step("one", 0.1), planned.step("other", 0.05, output=2))
    assert rows[1].ratio is None and rows[1].agreement == "DISAGREES with one: 2 is not 1"


def test_a_step_that_cannot_run_is_skipped_and_the_next_is_held_against_the_last_that_did():
    planned = Planned()

    def missing():
        raise Unavailable("not-installed", "pip install it")

    rows = planned.rows(planned.step("one", 0.2), Step("gone", "", missing), planned.step("two", 0.1))
    assert rows[1].skipped == "pip install it" and rows[1].ratio is None
    assert rows[2].agreement == "agrees with one" and rows[2].ratio.ratio == pytest.approx(0.5)


def test_readings_end_with_the_budget_but_not_before_the_fewest():
    planned = Planned()
    planned.rows(planned.step("one", 1.0), plan=Plan(rounds=50, least=3, budget_s=2.0))
    assert planned.clock.now == pytest.approx(4.0)  # one try and three readings


@pytest.mark.parametrize(
    ("ours", "theirs", "said"),
    [
        (Ratio(0.67, 0.6, 0.7, 0.95), 0.667, "holds"),
        (Ratio(0.30, 0.29, 0.31, 0.95), 0.667, "understates the loss"),
        (Ratio(0.95, 0.94, 0.96, 0.95), 0.5, "does not hold"),
        (Ratio(1.20, 1.15, 1.25, 0.95), 0.9, "does not hold"),
        (Ratio(1.00, 0.80, 1.20, 0.95), 0.9, "cannot be told"),
        (Ratio(1.00, 0.98, 1.02, 0.95), 1.04, "holds"),
    ],
)
def test_a_claim_that_does_not_hold_here_is_said_not_to(ours, theirs, said):
    row = Row("fix", "", ratio_to_authors=ours, author=Author("", theirs))
    (finding,) = findings([row])
    assert f"× {said} here: " in finding


def test_a_result_is_a_table_with_the_authors_ratios_beside_ours():
    result = Result(
        "example",
        "An example",
        "A. Uthor (2020)",
        "full",
        "image",
        "here",
        (
            Row("slow", "as written", Interval(0.004, 0.0035, 0.005, 0.97), agreement="is the baseline"),
            Row(
                "fast\x1b[31m",
                "better",
                Interval(0.002, 0.002, 0.002, 0.97),
                ratio=Ratio(0.5, 0.4, 0.6, 0.97),
                author=Author("2 s, then 1 s", 0.5),
                agreement="agrees with slow",
                gives_up="nothing",
            ),
        ),
        ("it holds",),
    )
    table = rendered.table(result)
    assert table.headers == ("step", "ms/image", "× row before", "author's")
    assert table.rows == (("slow", "4.00", "", ""), ("fast\\x1b[31m", "2.00", "2.00× (1.67–2.50)", "2.00×"))
    assert table.notes[1] == ("fast\\x1b[31m: better; agrees with slow; gives up nothing; author: 2 s, then 1 s")
    assert table.notes[-1] == "→ it holds"
    assert "An example (example, full size)" in text.plain(rendered.heading(result), table)


def test_counts_are_shown_with_their_change():
    rows = (Row("a", "", count=5.0), Row("b", "", count=0.0))
    table = rendered.table(Result("s", "S", "", "default", "step", "", rows))
    assert table.headers == ("step", "sync points/step", "× row before", "author's")
    assert [row[1:3] for row in table.rows] == [("5", ""), ("0", "-5")]
    assert studies.counts_found(rows) == "that the fixes leave no sync point holds here: 5 a step become 0"
    assert "does not hold" in studies.counts_found((rows[0], Row("b", "", count=1.0)))


def test_every_fix_of_the_input_pipeline_computes_what_the_row_before_does(monkeypatch):
    from pipebench.studies import input_pipeline

    steps = input_pipeline.steps(Workload(data="tiny", batch_size=3))
    rows = timed(steps, Plan(rounds=1, least=1), quiet)
    assert rows[0].name == "workers-doubled"
    for row, before in zip(rows[1:], rows, strict=False):
        assert row.skipped is None or row.name == "decode-and-crop"
        assert row.skipped or row.agreement == f"agrees with {before.name}"


def test_the_quick_mask_has_the_chance_of_the_slow_one():
    from pipebench.studies import input_pipeline

    shares = [
        float(masking(seed).mean())
        for seed in range(4)
        for masking in (input_pipeline.quick_mask, input_pipeline.drawn)
    ]
    assert all(abs(share - 0.25) < 0.01 for share in shares)


def test_a_different_colour_order_is_noticed():
    from pipebench.studies import input_pipeline

    first, *_, uint8, _ = input_pipeline.steps(Workload(data="tiny", batch_size=2))
    right, swapped = first.build()(), uint8.tried()()
    uint8.agrees(swapped, right)
    with pytest.raises(SampleError):
        uint8.agrees(swapped[:, [0, 2, 1]], right)


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


def test_the_sync_points_of_the_study_go_to_none():
    found = studies.find("sync-points").run("default", quiet)
    assert [row.count for row in found.rows] == [5, 4, 3, 0]
    assert all("agrees" in row.agreement for row in found.rows[1:])
    assert found.findings == ("that the fixes leave no sync point holds here: 5 a step become 0",)


def pipebench(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "pipebench", *map(str, arguments)], capture_output=True, text=True, timeout=300
    )


def test_the_command_refuses_what_there_is_not_and_does_not_import_torch_for_its_help():
    code = "import sys, pipebench.commands.study; sys.exit(bool({'torch', 'numpy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
    done = pipebench("study", "nosuch")
    assert done.returncode == 2 and "the studies are input-pipeline" in done.stderr


@pytest.mark.slow
def test_the_command_lists_the_studies():
    done = pipebench("study")
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines() if not line.startswith(" ")] == NAMES


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_study_runs_from_the_command_line(name, tmp_path):
    if name == "metrics":
        pytest.importorskip("torchmetrics")
    place = tmp_path / "study.json"
    done = pipebench("study", name, "--export-json", place)
    assert done.returncode == 0, done.stderr
    found = json.loads(place.read_text())
    assert found["study"] == name and found["findings"]
    assert not any("DISAGREES" in row["agreement"] for row in found["rows"])
    assert all(row["name"] in done.stdout for row in found["rows"])


def test_one_thread_gives_back_what_there_was():
    from pipebench.reference.training_loop import one_thread

    before = torch.get_num_threads()
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before
