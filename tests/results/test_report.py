"""The one root: saved whole, loaded typed, refused when it is not one."""

import errno
import json
import os
from dataclasses import replace

import msgspec
import pytest
from PIL import Image
from render import made_up

from pipebench.data import datasets
from pipebench.errors import BadSample, PipebenchError, UsageError
from pipebench.host import machine
from pipebench.results import report
from pipebench.results.measurement import Measurement, Skipped
from pipebench.results.watched import PhaseResult
from pipebench.stats import Speedup, Summary
from pipebench.task import Work, Workload
from pipebench.units import printable

WATCHED = made_up.watched()


def _measurement(**changes):
    base = Measurement(
        stage="decode",
        task="decode/rgb",
        variant="pillow",
        workload=Workload(),
        readings_s=(0.011, 0.012, 0.013, 0.012, 0.011, 0.012),
        first_reading_s=0.02,
        calls_per_reading=2,
        work=Work(8, 800, 2400),
        summary=Summary(0.006, 0.0055, 0.0065, 0.96875, 8 / 0.006),
        over_reference=Speedup(1.0, 1.0, 1.0, 0.96875),
        samples_attempted=10,
        samples_failed=1,
    )
    return replace(base, **changes)


@pytest.fixture
def example():
    return report.Report(
        schema_version=2,
        partial=False,
        created="2026-01-01T00:00:00+00:00",
        pipebench="0.1.0",
        machine=machine.describe(),
        workload=Workload(),
        measurements=(_measurement(), _measurement(variant="gone", readings_s=(), skipped=Skipped("not-built", "no"))),
        bad_samples=(BadSample("decode", "x.jpg", "pillow", "empty", "it has no bytes", 0.0),),
    )


def test_a_report_survives_a_round_trip(tmp_path, example):
    report.save(example, tmp_path / "r.json")
    assert report.load(tmp_path / "r.json") == example


def test_a_report_of_one_image_survives_too(tmp_path, example):
    """One image has no standard deviation, which JSON cannot say otherwise than by null."""
    (tmp_path / "data").mkdir()
    Image.new("RGB", (64, 48)).save(tmp_path / "data" / "a.jpg")
    facts = datasets.describe(datasets.load(str(tmp_path / "data")))
    assert facts.bits_per_pixel and facts.bits_per_pixel_sd is None
    data = report.Data("one", 1, facts.mean_bytes, facts.bits_per_pixel, facts.bits_per_pixel_sd)
    report.save(replace(example, data=data), tmp_path / "r.json")
    assert report.load(tmp_path / "r.json").data == data


def test_the_keys_that_readers_rely_on(example):
    root = json.loads(report.encode(example))
    assert {"schema_version", "partial", "machine", "workload", "measurements", "ceilings"} <= set(root)
    first, second = root["measurements"]
    assert first["skipped"] is None and second["skipped"] == {"code": "not-built", "reason": "no"}
    assert first["work"] == {"samples": 8, "input_bytes": 800, "output_bytes": 2400}
    assert set(first["summary"]) == {"median_s", "low_s", "high_s", "confidence", "samples_per_s"}
    assert set(first["over_reference"]) == {"speedup", "low", "high", "confidence", "smallest_change"}
    assert second["readings_s"] == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not a pipebench report"),
        (b"{}", "not a pipebench report"),
        (b"[1, 2]", "not a pipebench report"),
        (b'{"schema_version": 3}', "schema version 3, newer than"),
        (b'{"schema_version": 1}', "schema version 1, older than"),
        (b'{"schema_version": 2, "partial": "perhaps"}', "not a pipebench report"),
        (b'{"schema_version": 2, "calibration": 5}', "not a pipebench report"),
        (b'{"schema_version": 2, "partial": NaN}', "not a pipebench report"),
        (b"[" * 100_000, "not a pipebench report"),
        (b'{"schema_version": 2, "x": ' + b"[" * 100_000, "not a pipebench report"),
        (b"\xff\xfe\x00", "not a pipebench report"),
    ],
)
def test_what_is_not_a_report_is_refused_with_what_it_is(tmp_path, content, said):
    path = tmp_path / "r.json"
    path.write_bytes(content)
    with pytest.raises(PipebenchError, match=said):
        report.load(path)


def test_a_field_of_the_wrong_type_is_named(tmp_path, example):
    root = json.loads(report.encode(example))
    root["measurements"][0]["readings_s"] = "many"
    (tmp_path / "r.json").write_text(json.dumps(root))
    with pytest.raises(PipebenchError, match=r"measurements\[0\]\.readings_s"):
        report.load(tmp_path / "r.json")


@pytest.mark.parametrize(
    ("changes", "loads"),
    [
        ({"wait_share": 7.5}, False),
        ({"wait_share": -0.2}, False),
        ({"wait_share": 1.0}, True),
        ({"loop": (PhaseResult("wait", 0.1, 7.5),)}, False),
        ({"workers": (replace(WATCHED.workers[0], busy_share=1.5),)}, False),
        ({"stages": (replace(WATCHED.stages[0], kind="serialise", worker_share=3.0),)}, True),
    ],
)
def test_a_share_is_from_0_to_1(tmp_path, changes, loads):
    """Such a report was shown, with a wait of 750 %. Pickling beside the other stages may take longer than they."""
    report.save(report.new(watched=replace(WATCHED, **changes)), tmp_path / "r.json")
    if loads:
        assert report.load(tmp_path / "r.json").watched is not None
        return
    with pytest.raises(PipebenchError, match="figures that no run can give"):
        report.load(tmp_path / "r.json")


def test_a_huge_file_is_refused_unread(tmp_path):
    path = tmp_path / "huge.json"
    with path.open("wb") as file:
        file.truncate(report.LARGEST_FILE + 1)
    with pytest.raises(PipebenchError, match=r"huge\.json has 67\.1 MB, more than any report\n"):
        report.load(path)


def test_what_is_not_a_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for name in ("absent", "fifo", "."):
        with pytest.raises(UsageError) as caught:
            report.load(tmp_path / name)
        assert caught.value.problem == f"{printable(tmp_path / name)} is not a file"


def test_a_full_disk_leaves_the_old_file_whole_and_nothing_beside_it(tmp_path, example, monkeypatch):
    path = tmp_path / "r.json"
    report.save(example, path)
    before = path.read_bytes()

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(PipebenchError, match="No space left on device"):
        report.save(replace(example, partial=True), path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["r.json"]


def test_a_report_holds_only_what_json_can(example):
    odd = replace(example, measurements=(_measurement(fraction_of_ceiling=0.5, library="x \\xff"),))
    assert msgspec.json.decode(report.encode(odd), type=report.Report) == odd


def test_a_name_that_is_not_utf8_does_not_lose_the_report(tmp_path):
    name = "lat\udcff\udcfe.jpg"
    found = report.new(failure=f"{name} is broken", partial=True)
    report.save(found, tmp_path / "report.json")
    assert report.load(tmp_path / "report.json").failure == "lat\\xff\\xfe.jpg is broken"


def test_a_report_from_before_there_were_several_processes_loads_as_one_of_one_process(tmp_path, example):
    path = tmp_path / "old.json"
    report.save(example, path)
    document = json.loads(path.read_text())
    for one in document["measurements"]:
        assert one.pop("readings_per_process") == []
    path.write_text(json.dumps(document))
    found = report.load(path).measurements[0]
    assert found.readings_per_process == ()
    assert found.over(found).speedup == 1.0
