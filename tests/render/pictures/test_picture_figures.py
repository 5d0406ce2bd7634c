"""The figures of pictures: those of the text, and what is not told is not said."""

from dataclasses import replace

import pytest

from pipebench.render import before_after, pictures, tables, watch
from pipebench.render.pictures import bound as bounds
from pipebench.render.pictures import ladder, speedups, times, two_runs, variants

from drawings import both, drawn, hollow, texts, tips  # isort: skip
from picture_reports import BOUND, COMMITS, EVERY, WATCH, loading, speedup  # isort: skip


def test_variants_that_are_not_told_from_the_fastest_are_not_called_slower_by_the_picture():
    """The picture says what the note of the summary says, and has one colour for them."""
    readings = {"opencv": (3.1, 4.2, 3.6, 3.3, 4.0, 3.7), "simplejpeg": (4.1, 3.0, 3.7, 3.5, 3.9, 3.2)}
    run = EVERY["run"]
    rows = (
        replace(one, readings_s=tuple(1e-3 * s for s in readings[one.variant]), calls_per_reading=1)
        if one.variant in readings
        else one
        for one in run.measurements
    )
    found = replace(run, measurements=tuple(rows))
    [note] = [one for one in tables.summary(found).notes if one.startswith("decode/rgb")]
    before, after = (next(variants.pictures(report)) for report in (run, found))
    assert "simplejpeg and opencv" in note and after.alt.startswith(f"{note}; simplejpeg takes 3.60 ms")
    assert note in after.table.notes and "is the fastest" in before.alt and "is the fastest" not in after.alt
    assert [len(both(one)[0].findall(".//*[@class='f2 s2']")) for one in (before, after)] == [1, 2]


def test_the_longest_sample_has_one_length_and_the_median_too():
    slow = replace(WATCH.watched.slowest[0], s=0.1)
    points = tuple(one._replace(most_s=0.098) for one in WATCH.watched.over_time.samples)
    shown = replace(WATCH.watched, slowest=(slow,), over_time=replace(WATCH.watched.over_time, samples=points))
    said = [one.alt for one in times.pictures(replace(WATCH, watched=shown)) if one.name in ("samples", "slowest")]
    assert len(said) == 2 and all("took 100 ms, 20.4 times the median" in one for one in said)


def test_what_the_next_move_predicts_is_a_hollow_point_with_its_interval():
    move = replace(WATCH.watched.next_move, to_workers=6, predicted=speedup(2.0, 0.1))
    [picture] = ladder.pictures(replace(WATCH, watched=replace(WATCH.watched, next_move=move)))
    now, then = (row[1:3] for row in picture.table.rows)
    assert (now[0], then[0]) == ("2", "6") and int(then[1]) == pytest.approx(2 * int(now[1]), abs=1)
    assert len(hollow(picture)) == 1 and "predicted to take" in picture.alt and "not tried" in picture.alt


def test_benchmarks_with_too_few_rounds_have_no_place_among_speed_ups():
    few = [replace(one.judgement, wanted=0.9999) if one.judgement else None for one in COMMITS.comparison.changes]
    changes = tuple(replace(one, judgement=told) for one, told in zip(COMMITS.comparison.changes, few, strict=True))
    assert [*speedups.pictures(replace(COMMITS, comparison=replace(COMMITS.comparison, changes=changes)))] == []


def test_the_bound_of_the_picture_is_that_of_the_text():
    found = BOUND.watched.bound
    busy = replace(found, bound_device=None, device_over_live=None, busy_over_live=speedup(3.0), bound_busy=found.bound)
    [picture] = bounds.pictures(replace(BOUND, watched=replace(BOUND.watched, bound=busy)))
    said = watch.bound_parts(busy)[0]
    assert "3.00× (2.91–3.09)" in said and "3.00× (2.91–3.09)" in picture.alt


def test_counts_are_bars_as_long_as_they_say():
    wide, _ = both(drawn("counting", "counts-sync-points"))
    marks = {tip: end - begin for tip, begin, end in tips(wide)}
    assert marks["baseline: 5"] / marks["where: 2"] == pytest.approx(2.5, rel=1e-3) and marks["ignore-index: 0"] == 0
    assert drawn("counting", "counts-sync-points").alt == "After the fixes, none of the sync points of a step is left."
    lines = drawn("syncs", "sync-points")
    assert lines.alt.startswith("4 sync points a step") and [row[1:] for row in lines.table.rows] == [
        ("2", "2", "1.50 ms"),
        ("2", "0", "1.00 µs"),
    ]
    assert any("did not see this line wait" in text for text in texts(both(lines)[0]))


def test_samples_of_each_type_have_a_picture_and_the_names_of_its_series_fit_a_phone():
    rows = [loading(2, 170, kind) for kind in ("map", "packed", "webdataset", "ready")]
    run = replace(EVERY["run"], loader=(*rows, *(replace(one, dtype="uint8", images_per_s=190.0) for one in rows)))
    found = [one for one in ladder.pictures(run)]
    assert [one.name for one in found] == ["loader", "loader-uint8"] and "uint8" in found[1].title
    assert [next(row[2] for row in one.table.rows if row[0] == "single files") for one in found] == ["170", "190"]
    _, narrow = both(found[0])
    chips = [one for one in narrow.iter() if one.text in ("single files", "packed copy", "shards")]
    assert len(chips) == 3 and all(float(one.get("x")) >= 14 for one in chips)


def test_the_bars_of_two_runs_hold_a_row_that_this_version_does_not_know():
    found = EVERY["compare watch"].before_after
    rows = tuple(replace(one, name="of-tomorrow") if one.name == "wait-for-worker" else one for one in found.rows)
    [picture] = two_runs.pictures(replace(EVERY["compare watch"], before_after=replace(found, rows=rows)))
    cells = {row[0]: row[1:] for row in picture.table.rows}
    assert cells["the whole run"] == drawn("compare watch", "two-runs").table.rows[-1][1:] and "of-tomorrow" in cells
    [table] = [one for one in before_after.parts(replace(found, rows=rows)) if hasattr(one, "rows")][:1]
    assert "of-tomorrow" in [row[0] for row in table.rows]


def test_of_the_workers_tried_a_smaller_number_that_is_not_told_from_the_fastest_is_named():
    two, four = ladder.Rung(2, 118.0, 110.0, 126.0), ladder.Rung(4, 124.0, 117.0, 131.0)
    said = ladder.fastest_tried([two, four])
    assert said == "2 is the smallest that is not measurably slower than the fastest: 118"
    assert ladder.fastest_tried([replace(two, high=116.0), four]) == "4 is the fastest: 124"


def test_a_measured_variant_is_never_hollow():
    assert not hollow(drawn("run", "cost-decode-rgb"))


def test_a_ceiling_that_does_not_bound_the_fastest_variant_is_said_to_do_so():
    run = EVERY["run"]
    task = run.ceilings[0].task
    own = [one for one in run.measurements if one.task == task and not one.gives_up]
    least = min(own, key=lambda one: one.summary.median_s / one.work.samples)
    less = replace(least, fraction_of_ceiling=None)
    found = replace(run, measurements=tuple(less if one is least else one for one in run.measurements))
    before, after = (next(one for one in pictures.of(report) if one.title.startswith(task)) for report in (run, found))
    assert "does not bound it" in after.alt and "does not bound it" not in before.alt
    assert "less work than the ceiling" in after.svg and "less work than the ceiling" not in before.svg
