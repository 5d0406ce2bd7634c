"""The loader table: which rows there are, what a row says, and what is said against it."""

from dataclasses import replace

import pytest

from pipebench.data.image_header import has_restart_markers
from pipebench.host import machine
from pipebench.host.machine import Load
from pipebench.native import region
from pipebench.native.building import NativeError
from pipebench.reference import loader_table
from pipebench.reference.loader_table import LoaderPlan, counts, measure_loader
from pipebench.reference.pipeline import BYTES, Photographs, good, on_packed
from pipebench.render import feeding
from pipebench.results.loading import LoaderRow, Loading, PackedSize, hand_off
from pipebench.results.measurement import Skipped
from pipebench.results.report import Report
from pipebench.task import Workload

TINY = Workload(data="tiny", batch_size=4)
BRIEF = LoaderPlan(visits=1, readings=2, reading_s=0.0, workers=(0, 1))


@pytest.fixture(scope="module")
def rows():
    return measure_loader(TINY, Loading(), BRIEF)


@pytest.mark.parametrize(
    ("cores", "asked", "wanted"),
    [
        (2.0, None, [0, 1, 2]),
        (1.5, None, [0, 1]),
        (0.5, None, [0, 1]),
        (6.0, None, [0, 1, 2, 3, 4, 6]),
        (16.0, 3, [0, 1, 2, 3, 4, 8, 16]),
        (2.0, 5, [0, 1, 2, 5]),
    ],
)
def test_the_numbers_of_workers_go_up_to_the_usable_cores(monkeypatch, cores, asked, wanted):
    monkeypatch.setattr(machine, "usable_cores", lambda: cores)
    assert counts(LoaderPlan(), asked) == wanted


def test_quick_measures_what_the_verdict_needs():
    rows = loader_table._rows(Workload(data="tiny"), Loading(), LoaderPlan.quick(), None)
    assert [(one.kind, one.loading.workers, one.dtype) for one in rows] == [
        ("map", 0, "float32"), ("map", 2, "float32"), ("ready", 2, "float32"),
    ]  # fmt: skip


def test_there_is_a_row_for_each_container_dtype_and_number_of_workers(rows):
    found = {(row.dataset, row.dtype, row.workers) for row in rows}
    kinds = {(kind, count) for kind in ("map", "packed", "webdataset") for count in (0, 1)} | {("ready", 1)}
    assert found == {(kind, dtype, count) for kind, count in kinds for dtype in ("float32", "uint8")}


def test_a_row_counts_images_and_keeps_start_up_apart(rows):
    for row in rows:
        assert row.skipped is None and row.samples_failed == 0
        assert row.low <= row.images_per_s <= row.high
        assert len(row.readings_s) == 2 and set(row.images) == {4}
        assert row.startup_s > 0
        assert len(row.cpu_s) == 2 and 0 < row.core_low <= row.images_per_core_s <= row.core_high
        assert row.start_method == (machine.describe().start_method if row.workers else "none")


def test_rows_are_visited_in_an_order_that_turns_round_and_reported_as_they_come(monkeypatch):
    visited, kept = [], []
    monkeypatch.setattr(loader_table, "_visit", lambda row, workload, plan: visited.append((row.kind, row.dtype)))
    plan = replace(BRIEF, visits=2, workers=(0,))
    measure_loader(TINY, Loading(), plan, keep=lambda rows, bad: kept.append(rows))
    assert visited == visited[::-1] and len(visited) == 12 == len(kept)


def test_loose_files_have_no_stream(tmp_path):
    from PIL import Image

    Image.effect_noise((300, 280), 60).convert("RGB").save(tmp_path / "one.jpg")
    found = measure_loader(Workload(data=str(tmp_path), batch_size=2), Loading(), replace(BRIEF, workers=(0,)))
    assert {row.skipped.code for row in found if row.dataset == "webdataset"} == {"not-built"}
    assert {row.skipped.code for row in found if row.dataset == "packed"} == {"not-built"}
    assert all(row.images_per_s for row in found if row.dataset == "map")


def test_the_packed_loader_makes_the_same_batches_from_the_packed_copy():
    copy, recipe = on_packed(TINY, BYTES)
    before, after = Photographs(TINY, BYTES), Photographs(copy, recipe)
    assert copy.data == "tiny-packed" and len(before) == len(after)
    for index in range(len(before)):
        (ours, label), (theirs, wanted) = after[index], before[index]
        assert label == wanted and (ours.int() - theirs.int()).abs().max() <= 1
    data = [good(one)[0].read() for one in (TINY, copy)]
    assert [has_restart_markers(one) for one in data] == [False, True]


def test_files_of_the_user_that_are_packed_are_their_own_copy(tmp_path):
    for one in good(Workload(data="tiny-packed"))[:2]:
        (tmp_path / f"{one.key}.jpg").write_bytes(one.read())
    workload = Workload(data=str(tmp_path), batch_size=2)
    assert on_packed(workload, BYTES)[0] == workload
    plan = replace(BRIEF, workers=(0,), kinds=("packed",))
    assert all(row.images_per_s and row.packed is None for row in measure_loader(workload, Loading(), plan))


def test_without_a_compiler_there_is_no_packed_row(monkeypatch):
    def missing():
        raise NativeError("no-compiler", "there is no C compiler", "install one")

    monkeypatch.setattr(region, "library_name", missing)
    rows = loader_table._rows(TINY, Loading(), BRIEF, None)
    assert {one.skipped.code for one in rows if one.kind == "packed"} == {"no-compiler"}


def row(kind="map", dtype="float32", workers=0, rate=100.0, **changes):
    return LoaderRow(
        kind,
        dtype,
        workers,
        16,
        "fork" if workers else "none",
        readings_s=(0.16,),
        images=(16,),
        images_per_s=rate,
        low=rate * 0.9,
        high=rate * 1.1,
        confidence=0.97,
        seconds_per_image=1 / rate,
        startup_s=0.2,
        **changes,
    )


def test_the_table_has_a_row_for_each_dtype_and_a_column_for_each_container():
    found = (
        row(),
        row(workers=2, rate=190.0, oversubscribed=True),
        row("ready", workers=2, rate=2000.0),
        row("webdataset", skipped=Skipped("not-installed", "pip install 'pipebench[webdataset]'")),
    )
    found = (*found[:3], replace(found[3], images_per_s=None))
    bare = Report(2, False, "", "", machine.describe(), Workload(), loader=found)
    table = feeding.loader(bare)
    assert table.headers == ("samples", "workers", "map", "ready", "webdataset")
    assert table.rows == (
        ("float32", "0", "100 ±10 %", "", "skipped"),
        ("float32", "2*", "190 ±10 %", "2,000 ±10 %", ""),
    )
    notes = "\n".join(table.notes)
    assert "the hand-off alone: float32 500 µs an image (2 workers)" in notes
    assert "*: more workers than usable cores" in notes
    assert "start-up to the first batch, 200 ms (fork)" in notes
    assert "webdataset: skipped (not-installed)" in notes


def test_the_table_says_how_large_the_packed_copy_is():
    found = row(), row("packed", rate=300.0, packed=PackedSize(14_100_000, 14_000_000))
    table = feeding.loader(Report(2, loader=found))
    assert table.headers == ("samples", "workers", "map", "packed")
    assert table.notes[0] == (
        "packed: as map, but only the crop is decoded, from a packed copy: 14.0 MB of images, 14.1 MB as they were"
    )


def test_the_hand_off_is_that_of_the_fewest_workers():
    found = hand_off([row("ready", workers=1, rate=10.0), row("ready", workers=2, rate=20.0), row()])
    assert found["float32"].workers == 1


def test_a_busy_host_and_a_wide_spread_are_said():
    said = loader_table.said_against([0.1, 0.1, 0.2, 0.1, 0.3, 0.1], 1.0, Load(busy_s=1.5, own_s=1.0))
    assert [one.code for one in said] == ["foreign-load", "unstable"]
    assert loader_table.said_against([0.1] * 6, 1.0, Load(busy_s=1.0, own_s=1.0)) == ()
