"""Saved comparisons judged again: another limit, several runs together, and what cannot be joined."""

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from pipebench.cli import cli
from pipebench.compare import permutation, saved
from pipebench.errors import PipebenchError, UsageError
from pipebench.host import machine
from pipebench.results import report
from pipebench.results.comparison import Change, Comparison, Difference, Measured, Outputs, Run, Said
from pipebench.terminal import nameless

SIDES = tuple(
    Measured(f"{name} ({sha * 8})", sha * 40, sha * 40, ("/a",), "/a/python", "3.11.7")
    for name, sha in (("main", "a"), ("mine", "b"))
)


def rounds(seed, count=10, longer=1.10, slow=1.0):
    rng = random.Random(seed)
    pairs = [(slow * rng.uniform(1.0, 1.004), slow * longer * rng.uniform(1.0, 1.004)) for _ in range(3 * count)]
    return tuple(tuple(pairs[3 * index : 3 * index + 3]) for index in range(count))


def change(name="decode/rgb/pillow", seed=1, calls=1, samples=8, **made):
    taken = rounds(seed, **made)
    return Change(name, permutation.judge(taken), rounds=taken, calls_per_reading=calls, samples_per_call=samples)


def of_ab(*changes, **more):
    made = Comparison(SIDES[0].label, SIDES[1].label, changes, **{"sides": SIDES, "load": (0.5, 1.5), **more})
    return report.new(comparison=made)


@pytest.fixture
def save(tmp_path):
    def save(name, found):
        report.save(found, tmp_path / name)
        return str(tmp_path / name)

    return save


def ab(*arguments):
    """The exit status; errors are raised."""
    return cli.main(["ab", *arguments], standalone_mode=False)


def joined(*runs, limit=None):
    kept = [saved.Saved(f"{number}.json", one, one.comparison) for number, one in enumerate(runs)]
    return saved.pooled(kept, limit, lambda done, total, what: None).comparison


def test_another_limit_gives_another_status_and_the_same_intervals(save, capsys):
    """The head takes 10 % longer, with an interval from 8 to 12 %."""
    file = save("a.json", of_ab(change(), fail_above=0.2))
    assert [ab("--rejudge", file, *more) for more in ([], ["--fail-above", "9%"], ["--fail-above", "3%"])] == [0, 0, 3]
    assert "pipebench: slower: decode/rgb/pillow" in capsys.readouterr().err
    again = saved.rejudged(saved.loaded(Path(file)), 0.03, lambda done, total, what: None)
    before = report.load(Path(file))
    assert again.comparison.changes == before.comparison.changes
    assert (again.created, again.machine) == (before.created, before.machine)


def test_runs_without_names_can_be_joined():
    """Each has tokens of its own in place of its branches."""
    runs = [nameless(of_ab(change(seed=seed))) for seed in (1, 2)]
    assert len(joined(*runs).changes[0].rounds) == 2 * len(change().rounds)


def test_a_judgement_comes_from_the_rounds_and_not_from_what_the_file_says_of_it(save, tmp_path):
    file = save("a.json", of_ab(change(), fail_above=0.03))
    plain = json.loads((tmp_path / "a.json").read_text())
    over = plain["comparison"]["changes"][0]["judgement"]["head_over_base"]
    over.update(speedup=1.0, low=0.99, high=1.01)
    (tmp_path / "a.json").write_text(json.dumps(plain))
    assert ab("--rejudge", file) == 3


def test_too_few_rounds_have_no_result_here_either(save, capsys):
    file = save("a.json", of_ab(change(count=4)))
    assert (ab("--rejudge", file), ab("--rejudge", file, "--fail-above", "3%")) == (0, 1)
    assert "the gate has no result" in capsys.readouterr().err


def test_what_a_changed_output_means_can_be_decided_later(save, capsys):
    """The head is slower, and its output changed."""
    file = save(
        "a.json",
        of_ab(
            replace(change(), outputs=Outputs("changed", Difference("dtype", "output", "[0]", "float32", "float64")))
        ),
    )
    assert ab("--rejudge", file) == 0 and "changed output" in capsys.readouterr().out
    assert ab("--rejudge", file, "--fail-on-change") == 3
    capsys.readouterr()
    assert ab("--rejudge", file, "--allow-changed") == 0 and "0.909" in capsys.readouterr().out


def test_runs_that_are_joined_have_the_servers_of_both(save):
    one, other = replace(change(), servers=(4, 6)), change(seed=2)
    files = [save("a.json", of_ab(one)), save("b.json", of_ab(other))]
    found = saved.pooled([saved.loaded(Path(file)) for file in files], None, lambda *_: None).comparison.changes[0]
    assert found.servers == (4, 6, 10)
    spoilt = save("c.json", of_ab(replace(change(), servers=(5, 4))))
    with pytest.raises(PipebenchError, match="does not have all rounds"):
        saved.loaded(Path(spoilt))


def test_what_is_saved_again_can_be_loaded_and_judged_again(save, tmp_path, capsys):
    file, more = save("a.json", of_ab(change())), save("b.json", of_ab(change(seed=2)))
    both = str(tmp_path / "both.json")
    assert ab("--pool", file, more, "--fail-above", "3%", "--export-json", both) == 3
    table = capsys.readouterr().out
    assert "run 1 of 2: " in table and "run 2 of 2: " in table and "load 0.5 before, 1.5 after" in table
    assert ab("--rejudge", both, "--fail-above", "9%") == 0
    third = save("c.json", of_ab(change(seed=3)))
    assert ab("--pool", both, third, "--fail-above", "3%", "--format", "json") == 3
    text = capsys.readouterr().out
    found = json.loads(text[text.index("\n{") :])["comparison"]
    assert (len(found["runs"]), found["gate"], len(found["changes"][0]["blocks"])) == (3, "failed", 3)


def test_joined_runs_tell_what_none_of_them_could():
    few = [of_ab(change(seed=seed, count=5)) for seed in (1, 2)]
    assert [one.comparison.changes[0].verdict for one in few] == ["too few rounds"] * 2
    both = joined(*few).changes[0]
    assert (both.verdict, both.judgement.rounds) == ("slower", 10)


def test_a_run_on_a_slower_machine_with_other_calls_counts_as_much_as_any():
    """The rounds of the second run are the same work in readings of 3 calls of 4 samples, on a machine half as fast."""
    one, other = change(seed=1), change(seed=2)
    slow = change(seed=2, calls=3, samples=4, slow=2 * 3 / 2)
    alike, unlike = (joined(of_ab(one), of_ab(second)).changes[0] for second in (other, slow))
    for name in ("speedup", "low", "high"):
        found = [getattr(made.judgement.head_over_base, name) for made in (alike, unlike)]
        assert found[0] == pytest.approx(found[1], rel=1e-9)
    assert unlike.base_s_per_sample == pytest.approx(one.base_s_per_sample)  # the slow machine is never the fastest
    assert unlike.base_s == pytest.approx(8 * unlike.base_s_per_sample)


def test_joined_intervals_keep_their_coverage():
    """Intervals of 80 %, so that 60 pairs of runs can show a loss: both runs 3 % slower, one noisier and slower."""
    rng = random.Random(6)
    covered = 0
    for _ in range(60):
        drawn = [
            [(slow * (1 + rng.gauss(0, spread)), slow * 1.03 * (1 + rng.gauss(0, spread)))]
            for slow, spread in [(1, 0.01)] * 12 + [(1.5, 0.03)] * 12
        ]
        covered += permutation.holds(drawn, 1 / 1.03, 1, 0.2, [12, 12])
    assert 38 <= covered <= 57  # 48 expected; outside in one of a thousand


def test_runs_that_exclude_each_other_are_not_averaged():
    found = joined(of_ab(change(seed=1, longer=1.02)), of_ab(change(seed=2, longer=1.10))).changes[0]
    over = found.judgement.head_over_base
    assert over.low < 1 / 1.09 and over.high > 1 / 1.03
    assert any("the runs exclude each other" in note for note in found.notes)


def test_a_benchmark_of_one_run_stays_and_one_that_broke_is_broken():
    runs = [of_ab(change(), change("a/b/c", seed=3), Change("d/e/f", skipped="not here")),
            of_ab(change(seed=2), Change("a/b/c", failed="it broke"), change("d/e/f", seed=4, count=12))]  # fmt: skip
    found = {one.benchmark: one for one in joined(*runs).changes}
    assert found["a/b/c"].verdict == "failed" and found["d/e/f"].verdict == "slower"
    assert found["d/e/f"].notes == ("measured in 1 of 2 runs",)


def test_what_both_runs_wrote_is_counted_together():
    runs = [of_ab(change(seed=seed), said=(Said("a.py:1: UserWarning: x", 3, 4),)) for seed in (1, 2)]
    assert joined(*runs).said == (Said("a.py:1: UserWarning: x", 6, 8),)


def _other(**changes):
    return replace(machine.describe(), **changes)


@pytest.mark.parametrize(
    ("unlike", "said"),
    [
        (lambda one: _with(one, sides=(SIDES[0], replace(SIDES[1], tree="c" * 40))), "the head is mine"),
        (lambda one: _with(one, sides=(replace(SIDES[0], tree=None), SIDES[1])), "the base is a working tree"),
        (lambda one: _with(one, sides=()), "does not say which files"),
        (lambda one: _with(one, head=f"{SIDES[1].label} OMP_NUM_THREADS=2"), "the settings differ"),
        (lambda one: _with(one, data="webdataset"), "the data set differs"),
        (lambda one: replace(one, machine=_other(cpu="Another")), "processor: .* and Another"),
        (lambda one: replace(one, machine=_other(libraries={"torch": "1"})), r"torch: .* and 1"),
        (lambda one: _with(one, sides=(SIDES[0], replace(SIDES[1], python_version="3.14.0"))), "3.11.7 and 3.14.0"),
        (lambda one: _with(one, changes=(change(seed=1),)), "they have 10 rounds in common"),
    ],
)
def test_runs_of_something_else_are_refused_with_the_reason(unlike, said):
    with pytest.raises(UsageError, match=said):
        joined(of_ab(change(seed=1)), unlike(of_ab(change(seed=2))))


def _with(one, **changes):
    return replace(one, comparison=replace(one.comparison, **changes))


def test_another_host_with_the_same_processor_is_joined_and_both_are_named():
    there = replace(of_ab(change(seed=2)), machine=_other(host="another"))
    found = joined(of_ab(change(seed=1)), there)
    assert [one.machine.host for one in found.runs] == [machine.describe().host, "another"]
    assert all(isinstance(one, Run) and one.load == (0.5, 1.5) for one in found.runs)


def test_runs_with_different_limits_need_one_for_all():
    runs = [of_ab(change(seed=seed), fail_above=limit) for seed, limit in ((1, 0.03), (2, 0.05))]
    with pytest.raises(UsageError, match=r"different limits: 3.0 % and 5.0 %"):
        joined(*runs)
    assert joined(*runs, limit=0.03).gate == "failed"


@pytest.mark.parametrize(
    ("arguments", "problem", "remedy"),
    [
        (["HEAD"], "1 name was given", "pipebench ab main HEAD"),
        ([], "0 names were given", "pipebench ab main HEAD"),
        (["--rejudge"], "0 names were given", "--rejudge FILE --fail-above 3%"),
        (["--rejudge", "a.json", "b.json"], "2 names were given", "--pool takes several files"),
        (["--pool", "a.json"], "two files or more", "--pool A.json B.json"),
        (["--rejudge", "a.json", "--stage", "decode"], "--stage says how to measure", "leave it out"),
        (["--pool", "a.json", "b.json", "--budget", "60"], "--budget says how to measure", "leave it out"),
    ],
)
def test_wrong_usage_is_answered_with_a_remedy(arguments, problem, remedy):
    with pytest.raises(UsageError) as raised:
        ab(*arguments)
    assert problem in raised.value.problem and remedy in raised.value.remedy


def test_a_report_of_another_command_or_without_its_rounds_says_so(save):
    with pytest.raises(PipebenchError, match="holds no comparison"):
        ab("--rejudge", save("run.json", report.new()))
    for taken in ((), ((), *rounds(1)[1:])):
        with pytest.raises(PipebenchError, match="does not have all rounds of decode"):
            ab("--rejudge", save("a.json", of_ab(replace(change(), rounds=taken))))
