"""Which loader of one run is which of another, and what else differs between two scripts."""

from dataclasses import replace
from pathlib import Path

import pytest
from saved_pairs import lab, root, row, study, watched

from pipebench.before_after.loaders import matched
from pipebench.before_after.whole import compared

FILES = Path("a.json"), Path("b.json")
TRAIN = replace(watched().watched.loaders[0], file="train.py", line=10, dataset="Train")
VALID = replace(watched().watched.loaders[1], loader=2, file="train.py", line=20, dataset="Valid", training=False)


def _run(*loaders, started_by=""):
    """A watched run of these loaders, in their order of first use."""
    found = watched().watched
    numbered = tuple(replace(one, loader=place) for place, one in enumerate(loaders, 1))
    training = tuple(one.loader for one in numbered if one.training)
    stages = tuple(replace(one, loader=next(iter(training), 1)) for one in found.stages)
    watch = replace(found, loaders=numbered, loaders_in_loop=training, stages=stages, account=None)
    return root(watched=watch, started_by=started_by)


@pytest.mark.parametrize(
    ("head", "same"),
    [
        ((TRAIN, VALID), {1: 1, 2: 2}),
        ((VALID, TRAIN), {1: 2, 2: 1}),
        ((replace(TRAIN, line=20), replace(VALID, line=30)), {1: 1, 2: 2}),  # ten lines were written above
        ((replace(VALID, file="valid.py", line=3), replace(TRAIN, file="other.py")), {1: 2, 2: 1}),
        ((replace(VALID, dataset="Faster"), replace(TRAIN, dataset="Packed")), {1: 2, 2: 1}),  # by their lines
        ((replace(TRAIN, dataset="A", line=1), replace(TRAIN, dataset="B", line=2)), {1: 1, 2: 2}),  # by their order
        ((VALID,), {1: 2}),
    ],
)
def test_loaders_are_the_same_by_their_place_then_by_what_they_load(head, same):
    assert matched(_run(TRAIN, VALID).watched, _run(*head).watched) == same


def test_the_rows_of_a_loader_are_those_of_the_same_loader():
    """Validation is iterated first in the head: its loader is number 1 there."""
    slower = replace(TRAIN, s_per_iteration=2 * TRAIN.s_per_iteration, sample_cpu_s=3 * TRAIN.sample_cpu_s)
    found = compared(_run(TRAIN, VALID), _run(VALID, slower), FILES, fail_above=0.05)
    assert found.exceeding == ("loop: loader 1", "sample: CPU time")
    assert not found.differing and not found.only_head and not found.only_base


def test_other_workers_for_validation_leave_cpu_time_in_the_gate():
    more = replace(VALID, workers=VALID.workers + 3)
    found = compared(_run(TRAIN, VALID), _run(TRAIN, more), FILES, fail_above=0.05)
    assert row(found, "CPU time").gated
    assert [one.name for one in found.differing] == ["num_workers of loader 2"]


def test_a_loader_that_one_run_has_alone_is_said_and_is_none_of_the_other():
    other = replace(TRAIN, dataset="Extra", line=33)
    found = compared(_run(TRAIN), _run(VALID, other, TRAIN), FILES)
    assert [(one.name, one.base, one.head) for one in found.differing] == [
        ("loader 2 (Valid, train.py:20)", "", "there"), ("loader 3 (Extra, train.py:33)", "", "there"),
    ]  # fmt: skip
    assert "loop: loader 3" in found.only_head


def test_another_script_and_other_numbers_of_samples_are_said():
    began = "pipebench watch --export-json {} --force train{}.py --epochs 3"
    more = replace(TRAIN, samples=3 * TRAIN.samples)
    ours, theirs = _run(TRAIN, started_by=began.format("a.json", "")), _run(more, started_by=began.format("b", "_2"))
    found = compared(ours, theirs, FILES)
    assert [(one.of, one.base, one.head) for one in found.differing] == [
        ("script", "pipebench watch train.py --epochs 3", "pipebench watch train_2.py --epochs 3"),
        ("workload", f"{TRAIN.samples:,}", f"{3 * TRAIN.samples:,}"),
    ]
    elsewhere = replace(ours, started_by=began.format("elsewhere.json", "").replace("--force ", ""))
    assert not compared(ours, elsewhere, FILES).differing


def test_a_study_that_one_report_has_alone_is_said():
    base, head = study(1.5, 4), study(1.5, 4)
    more = replace(base.studies[0], study="other")
    for pair, ends in (((base, replace(head, studies=(more, *head.studies))), ("", "there")),
                       ((replace(base, studies=(*base.studies, more)), head), ("there", ""))):  # fmt: skip
        (one,) = compared(*pair, FILES).differing
        assert (one.of, one.name, one.base, one.head) == ("report", "study other", *ends)


def test_a_report_of_the_lab_has_no_script():
    base, head = (replace(lab(), started_by=f"pipebench run {word}") for word in ("", "--quick"))
    assert not compared(base, head, FILES).differing
