"""What is said of the time outside the loops, of what was not recorded, and of a first iteration that compiles."""

from __future__ import annotations

import pytest
from planted_runs import MS, TRAINS, Planted, said

from pipebench.units import seconds
from pipebench.watch.record.lines import LoopSums, PassBegun
from pipebench.watch.record.trial_lines import BETWEEN, LoopLooks, PlaceLooks


def test_what_is_done_between_and_before_the_loops() -> None:
    run = Planted()
    run.loader(**TRAINS)
    run.outside(500)
    run.loader(2, **TRAINS)
    assert list(run.causes()) == ["training", "outside-loops"]


@pytest.mark.parametrize(
    ("looks", "told"),
    [
        ((15, 5, 10, 5), " Most of it: resample, called in train.py:12."),
        ((8, 4, 11, 10), ""),  # no half of them
        ((10, 5, 0, 0), ""),  # too few
    ],
)
def test_where_most_of_the_work_between_loops_is(looks: tuple[int, ...], told: str) -> None:
    run = Planted()
    run.loader(**TRAINS)
    run.outside(500)
    run.loader(2, **TRAINS)
    names = (["resample"], ["resample", "choice"], ["save"], ["measure"])
    places = [PlaceLooks(12, one, count, 1, 0, 0) for one, count in zip(names, looks, strict=True)]
    run.lines.append(LoopLooks(BETWEEN, "a/train.py", 1, places))
    assert said(run.account()).endswith(f"it took 500 ms of the run's 2.60 s (19 %).{told}")


@pytest.mark.parametrize(
    ("own", "told"),
    [
        (3, "Most of it: Table.__init__, by fold in train.py:12."),
        (4, "Most of it: Table.__init__, by fold in train.py:12."),  # no half of the looks are below
        (2, "Most of it: get_loaders, by fold in train.py:12."),
        (1, "Most of it: fold, called in train.py:12."),
    ],
)
def test_of_work_between_loops_the_innermost_function_of_the_script_is_named(own: int, told: str) -> None:
    run = Planted()
    run.loader(**TRAINS)
    run.outside(500)
    run.loader(2, **TRAINS)
    ways = (["fold", "get_loaders", "Table.__init__", "parse"], ["fold", "get_loaders", "Table.__init__", "split"])
    looks = [(12, one, 15, own) for one in ways] + [(12, ["fold", "train"], 10, 2), (12, ["save"], 5, 1)]
    places = [PlaceLooks(line, list(way), count, 1, 0, 0, own=how) for line, way, count, how in looks]
    run.lines.append(LoopLooks(BETWEEN, "a/train.py", 1, places))
    assert said(run.account()).endswith(told)


def test_a_dataset_that_parts_of_it_have_anew_is_told_though_the_parts_are_others() -> None:
    """As of folds, each with a Subset of a table that is parsed anew."""
    run = _made_anew(again=2, looks=60)
    for one in run.lines:
        if isinstance(one, PassBegun):
            one.remade, one.inside = "other", "Photos"
    assert run.account().causes[0].code == "dataset-anew"
    for one in run.lines:
        if isinstance(one, PassBegun):
            one.inside = ""
    assert "dataset-anew" not in run.causes()


def _made_anew(again: int, looks: int, others: int = 0, passes: int = 3, between: int = 2000) -> Planted:
    """Passes that are short beside what lies between them."""
    run = Planted()
    for number in range(passes):
        run.loader(**TRAINS, other=150)
        run.outside(between if number < passes - 1 else 0)
    begun = [one for one in run.lines if isinstance(one, PassBegun)]
    for number, one in enumerate(begun):
        one.number, one.again = number, min(number, again)
    ways = (["get_loader", "Photos.__init__", "read_csv"], ["get_loader", "Photos.__init__"], ["Model.save"])
    counts = (looks // 2, looks - looks // 2, others)
    places = [PlaceLooks(27, way, count, 1, 0, 0) for way, count in zip(ways, counts, strict=True)]
    run.lines.append(LoopLooks(BETWEEN, "a/train.py", 1, places))
    return run


def test_a_dataset_that_is_made_anew_between_passes_is_told_with_what_one_would_save() -> None:
    account = _made_anew(again=2, looks=60, others=20).account()
    found = account.causes[0]
    assert (found.code, found.loader, found.s) == ("dataset-anew", 1, pytest.approx(0.75 * 4.0))
    assert found.recoverable_s == found.s
    told = said(account)
    assert told.startswith("Making the dataset of loader 1 anew between passes took 3.00 s of the run's")
    assert "Photos.__init__, called in train.py:27, 2 times. Making it once, before the loops, could save about" in told


@pytest.mark.parametrize(
    ("again", "looks", "others"),
    [
        (0, 60, 0),  # the loader is the first one: its dataset may be another one's
        (2, 0, 60),
        (2, 15, 0),  # too few
    ],
)
def test_other_work_between_passes_is_no_dataset_made_anew(again: int, looks: int, others: int) -> None:
    assert "dataset-anew" not in _made_anew(again, looks, others).causes()


def test_work_between_passes_is_told_beside_a_smaller_cause() -> None:
    """What the loops could save is little beside the time between them."""
    account = _made_anew(again=0, looks=0, others=60, between=1000).account()
    assert [one.code for one in account.causes] == ["callbacks", "training", "outside-loops"]
    told = said(account)
    assert told.startswith("Work in the loop besides training") and "Between the loops" in told
    assert told.endswith("Most of it: Model.save, called in train.py:27.")


def test_what_was_not_recorded_hides_no_cause() -> None:
    """`--steps` has ended the recording, and the script ran on for 60 s."""
    run = Planted()
    run.loader(**TRAINS, other=300)
    account = run.account(ran_on=60_000)
    assert [one.code for one in account.causes] == ["callbacks", "training"]
    recorded = sum(one.s for one in account.rows if one.code != "not-recorded")
    assert f"of the recorded {seconds(recorded)} (" in said(account) and "of the run's" not in said(account)
    healthy = Planted()
    healthy.loader(**TRAINS)
    assert "61.1 s long, of which 60.0 s were not recorded, is worth" in said(healthy.account(ran_on=60_000))


def test_a_first_iteration_that_compiles_is_told_apart_from_training() -> None:
    run = Planted()
    run.loader(forward=400, backward=2600)
    whole = next(line for line in run.lines if isinstance(line, LoopSums))
    first = LoopSums(1, 0, 0, 0, 1, 1, [0, 0, 200 * MS, 2300 * MS, 0, 0], 0, wait_parts_ns=[0] * 9)
    run.lines[run.lines.index(whole) : run.lines.index(whole)] = [first]
    account = run.account()
    assert account.causes[0].values["first_s"] == pytest.approx(2.5)
    assert "Training itself took 3.00 s" in said(account) and "Its first iteration took 2.50 s of that" in said(account)
