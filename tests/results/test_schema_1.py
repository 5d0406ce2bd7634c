"""Files that pipebench 0.1 of schema 1 wrote (see schema1/README.md): loaded, turned into speed-ups, and shown."""

import json
from pathlib import Path

import pytest

from pipebench.render import text
from pipebench.results import report, schema_1

FILES = sorted((Path(__file__).parent / "schema1").glob("*.json"))


def of(name):
    place = Path(__file__).parent / "schema1" / f"{name}.json"
    return json.loads(place.read_text()), report.load(place)


def turned(ratio, found):
    """Whether a speed-up is the inverse of a ratio of times, with the ends of its interval exchanged."""
    ends = (1 / ratio["ratio"], 1 / ratio["high"], 1 / ratio["low"], ratio["confidence"])
    return (found.speedup, found.low, found.high, found.confidence) == pytest.approx(ends)


@pytest.mark.parametrize("place", FILES, ids=lambda place: place.stem)
def test_every_kind_of_file_is_loaded_shown_and_saved_in_todays_schema(place, tmp_path):
    found = report.load(place)
    assert found.schema_version == 2
    assert text.table(found).strip() and text.markdown(found).strip()
    report.save(found, tmp_path / "again.json")
    assert report.load(tmp_path / "again.json") == found


def test_the_ratios_of_the_lab_become_speedups():
    old, found = of("lab")
    pairs = [
        (before["ratio_to_reference"], after.over_reference)
        for before, after in zip(old["measurements"], found.measurements, strict=True)
        if before["ratio_to_reference"]
    ]
    assert len(pairs) == 2 and all(turned(*pair) for pair in pairs)
    assert turned(old["training"]["bound_to_live"], found.training.bound.bound_over_live)
    assert turned(old["training"]["busy_to_live"], found.training.bound.busy_over_live)
    assert found.training.bound.device_over_live is None and found.training.bound.bound_over_live.speedup > 10
    assert [one.images_per_s for one in found.loader] == [one["images_per_s"] for one in old["loader"]]


def test_the_gains_of_a_watched_bound_were_speedups_already():
    old, found = of("watch")
    gain, bound = old["watch"]["bound"]["gain"], found.watched.bound
    over = bound.bound_over_live
    assert (over.speedup, over.low, over.high) == (gain["ratio"], gain["low"], gain["high"])
    assert bound.busy_over_live.speedup == old["watch"]["bound"]["gain_busy"]["ratio"]
    assert found.watched.verdict == old["watch"]["verdict"] and found.error_of_watch == old["calibration"]


def test_what_a_study_said_of_its_author_is_said_anew_by_todays_convention():
    """The old file says "understates the loss" of a gain that is larger than the author's."""
    old, found = of("study")
    assert any("understates the loss" in one for one in old["findings"])
    (study,) = found.studies
    for before, after in zip(old["rows"], study.rows, strict=True):
        assert before["ratio"] is None or turned(before["ratio"], after.over_before)
    draft = next(row for row in study.rows if row.name == "files-draft")
    assert draft.author.speedup == pytest.approx(0.13 / 0.08) and draft.outcome == "larger"
    shown = " ".join(text.table(found).split())
    assert "the author's 1.62× holds here, and the gain is larger: 3.20×" in shown
    assert "understates" not in shown and study.findings == tuple(old["findings"][1:])


def test_a_study_that_counts_keeps_its_counts():
    old, found = of("study-counts")
    assert [row.count for row in found.studies[0].rows] == [row["count"] for row in old["rows"]] == [5, 4, 3, 0]


def test_a_comparison_keeps_its_rounds_and_what_they_supported():
    old, found = of("ab")
    assert (found.comparison.base, found.comparison.head) == (old["base"], old["head"])
    for before, after in zip(old["changes"], found.comparison.changes, strict=True):
        assert turned(before, after.judgement.head_over_base)
        assert after.judgement.told == before["told"] and after.judgement.rounds == len(before["rounds_s"])
        assert [[list(pair) for pair in pairs] for pairs in after.rounds] == before["rounds_s"]
    assert found.comparison.changes[1].judgement.exceeds(1.0)  # six times the work in one transform


def test_a_calibration_keeps_every_figure():
    old, found = of("calibration")
    assert len(found.calibration.rows) == len(old["calibration"]["rows"]) > 50
    assert found.calibration.span_s == old["calibration"]["span_s"] and found.created == old["calibration"]["at"]


def test_a_calibration_that_an_earlier_version_kept_is_still_known(tmp_path, monkeypatch):
    monkeypatch.setenv("PIPEBENCH_CACHE", str(tmp_path))
    place = report.keep_calibration(of("calibration")[1].calibration)
    place.write_bytes((Path(__file__).parent / "schema1" / "calibration.json").read_bytes())
    assert report.kept_calibration() == of("calibration")[1].calibration


def test_a_ratio_of_nothing_is_refused(tmp_path):
    old, _ = of("lab")
    old["training"]["bound_to_live"]["low"] = 0.0
    (tmp_path / "r.json").write_text(json.dumps(old))
    with pytest.raises(report.PipebenchError, match="not a pipebench report"):
        report.load(tmp_path / "r.json")


def test_an_inverse_exchanges_the_ends_of_the_interval():
    ratio = {"ratio": 0.5, "low": 0.4, "high": 0.8, "confidence": 0.95}
    found = schema_1.inverted(ratio)
    assert (found["speedup"], found["low"], found["high"]) == (2.0, 1.25, 2.5)
