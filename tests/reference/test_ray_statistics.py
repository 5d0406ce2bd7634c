"""Ray's statistics as this release has them, as others had them, and as none should: never an error."""

from types import SimpleNamespace

import pytest

from pipebench.reference.ray_statistics import Statistics, added, of_summary, read
from pipebench.results.engine import Operator


def timer(seconds):
    return SimpleNamespace(get=lambda: seconds)


def operator(name, rows=64, wall=1.0, cpu=0.5):
    def summed(value):
        return None if value is None else SimpleNamespace(min=0, max=value, mean=value, sum=value, count=1)

    return SimpleNamespace(
        operator_name=name, output_num_rows=summed(rows), wall_time=summed(wall), cpu_time=summed(cpu),
        output_size_bytes=summed(1e6),
    )  # fmt: skip


def summary(*operators, parents=(), blocked=2.0, started=0.25, spilled=0):
    iterator = SimpleNamespace(block_time=timer(blocked), initialize_time=timer(started))
    return SimpleNamespace(
        parents=list(parents), operators_stats=list(operators), iter_stats=iterator, dataset_bytes_spilled=spilled
    )


def test_operators_come_in_the_order_of_the_data():
    found = of_summary(summary(operator("MapBatches(make)"), parents=[summary(operator("ReadRange", cpu=0.1))]))
    assert found.operators == (
        Operator("ReadRange", 64, 1.0, 0.1, 1e6), Operator("MapBatches(make)", 64, 1.0, 0.5, 1e6)
    )  # fmt: skip
    assert found.blocked_s == 2.25 and found.notes == ()


def test_sums_may_be_dictionaries_as_in_older_releases():
    old = SimpleNamespace(operator_name="Map", output_num_rows={"sum": 8}, wall_time={"sum": 0.5, "mean": 0.1})
    assert of_summary(summary(old)).operators == (Operator("Map", 8, 0.5, None, None),)


@pytest.mark.parametrize(
    ("found", "note"),
    [
        (summary(), "no operator"),
        (summary(operator("Map", wall=None)), "no times"),
        (summary(operator("Map", wall=float("nan"))), "no times"),
        (summary(operator("Map"), blocked=0.0), "how long the loop waited"),
        (SimpleNamespace(), "no operator"),
    ],
)
def test_what_is_missing_is_a_note(found, note):
    assert any(note in one for one in of_summary(found).notes)


def test_a_release_without_statistics_is_a_note():
    assert "no statistics" in read(SimpleNamespace()).notes[0]


def test_statistics_that_raise_are_a_note():
    def broken():
        raise KeyError("operators\x1b")

    (note,) = read(SimpleNamespace(_get_stats_summary=broken)).notes
    assert "could not be read: KeyError" in note and "\x1b" not in note


def test_the_public_name_is_used_where_the_other_has_gone():
    found = read(SimpleNamespace(get_stats_summary=lambda: summary(operator("Map"))))
    assert [one.name for one in found.operators] == ["Map"]


def test_passes_add_up_and_what_one_does_not_know_is_not_known():
    one = Statistics((Operator("Map", 8, 1.0, 0.5, 100.0),), 2.0, 10.0, ("odd",))
    other = Statistics((Operator("Map", 8, 3.0, None, 100.0),), 1.0, 0.0, ("odd",))
    assert added([one, other]) == Statistics((Operator("Map", 16, 4.0, None, 200.0),), 3.0, 10.0, ("odd",))
    assert added([one, Statistics()]).blocked_s is None and added([]).operators == ()
