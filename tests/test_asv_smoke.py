"""The asv suite, collected as asv collects it: every benchmark runs once, and its names and parameters are stable."""

import ast
import importlib
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from asv_rows import ROOT, collected

from pipebench import asvbench

NOT_HERE = SimpleNamespace(skip_code="no-device", skip_reason="not here")
PLACES = ("read", "decode", "crop", "transform", "collate", "step", "loader", "loaders", "training")


@pytest.fixture(scope="module")
def rows():
    """What asv collects where every row is asked for; nothing is run."""
    return collected("listed")


@pytest.fixture(scope="module")
def long_view():
    """The rows that asv collects by itself, each run once."""
    return collected("whole", rows="")


def failed(rows):
    return [row for row in rows if str(row["outcome"]).startswith("failed")]


@pytest.mark.long
def test_every_parameter_set_of_every_benchmark_runs_once():
    every = collected("whole")
    assert failed(every) == []
    timed = [row for row in every if ".time_sample" in row["name"]]
    assert len(timed) > 40
    absent = {row["name"] for row in timed if row["outcome"] == "n/a"}
    assert absent <= {
        "transfer.Batch.time_sample", "collate.Float32.time_sample", "collate.UInt8.time_sample",
        "decode.RGB.time_sample", "decode.OnDevice.time_sample", "crop.Resized224.time_sample",
        "crop.OnDevice.time_sample", "video.Sequential.time_sample", "video.Random.time_sample",
        "video.Clip.time_sample",
    }  # fmt: skip  # libraries of NVIDIA, a device, FFmpeg
    assert all(1e-8 < row["outcome"] < 1.0 for row in timed if row["outcome"] != "n/a")  # seconds per sample


def test_every_row_of_the_long_view_runs_once_and_none_is_without_a_figure(long_view):
    """n/a rows would fill the tables of `asv compare`; those of a device are collected only beside its driver."""
    assert failed(long_view) == []
    assert [row["params"] for row in long_view if row["outcome"] == "n/a"] == []
    timed = [row for row in long_view if row["unit"] == "seconds"]
    assert all(1e-8 < row["outcome"] < 5.0 for row in timed)  # seconds per sample


def test_the_long_view_has_a_few_rows_of_each_stage_and_they_are_among_all(long_view, rows):
    here = [row for row in long_view if not row["name"].startswith(("transfer.", "decode.OnDevice", "crop.OnDevice"))]
    places = [row["name"].partition(".")[0] for row in here]
    assert set(PLACES) <= set(places)
    assert len(here) <= 33 and max(map(places.count, set(places) - {"syncs"})) <= 8
    known = {row["name"]: row for row in rows}
    for row in long_view:
        everything = known[row["name"]]
        assert (row["version"], row["unit"]) == (everything["version"], everything["unit"]), row["name"]
        assert all(
            set(few) <= set(values) for few, values in zip(row["all_params"], everything["all_params"], strict=True)
        )


@pytest.mark.parametrize(("driver", "collected_by_itself"), [("/", True), ("/nosuch", False)])
def test_what_needs_a_device_is_collected_where_there_is_a_driver(driver, collected_by_itself, monkeypatch):
    from pipebench import asvbench

    monkeypatch.setattr(asvbench, "DEVICES", (driver,))
    for everything, expected in ((True, True), (False, collected_by_itself)):
        monkeypatch.setattr(asvbench, "ALL", everything)
        assert (asvbench.on_device(object) is object) == expected


def test_what_is_measured_on_a_device_is_told_so(monkeypatch):
    """Without that, it would be n/a beside a device, too."""
    from pipebench import asvbench

    asked = []
    monkeypatch.setattr(asvbench, "_runners", lambda: SimpleNamespace(of=lambda variant: runner))
    runner = SimpleNamespace(prepare=lambda identity, workload: asked.append(workload.device) or NOT_HERE)
    for device in ("cpu", "cuda"):
        with pytest.raises(NotImplementedError, match="not here"):
            asvbench.armed.__wrapped__("decode/rgb/pillow", "tiny", device)
    assert asked == ["cpu", "cuda"]


def test_seconds_and_bytes_are_named_as_asv_knows_them(rows):
    """asv scales `seconds` and `bytes`, and prints any other unit as a bare number."""
    assert {row["unit"] for row in rows} == {"seconds", "bytes", "ns", "us", "%", "sync points"}


def test_the_parameters_are_the_registry_of_this_tree(rows):
    from pipebench import stage

    (decode,) = [row for row in rows if row["name"] == "decode.RGB.time_sample"]
    measured = {ast.literal_eval(name) for name in decode["all_params"][0]}
    assert measured == {one.name for one in stage.variants("decode/rgb")} - {"pillow-simd"}


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks").glob("[!_]*.py")), ids=lambda path: path.stem)
def test_a_file_of_the_suite_can_be_imported_where_an_older_pipebench_is_installed(path):
    """What a commit lacks is n/a only where it is imported in a set-up: at import it would stop the whole suite."""
    for node in ast.parse(path.read_text()).body:
        if not isinstance(node, ast.Import | ast.ImportFrom) or ast.unparse(node) == "from pipebench import stage":
            continue  # every commit that has a suite has `stage`; imports within `try` are not at this level
        names = [one.name for one in node.names] if isinstance(node, ast.Import) else [node.module or ""]
        assert not any(name.startswith("pipebench") for name in names), f"{path.name}:{node.lineno}"


def test_names_are_those_that_the_history_knows(rows):
    assert {row["name"] for row in rows if ".time_sample" in row["name"]} == {
        "collate.Float32.time_sample", "collate.UInt8.time_sample", "crop.Fixed256.time_sample",
        "crop.OnDevice.time_sample", "crop.Resized224.time_sample", "decode.OnDevice.time_sample",
        "decode.RGB.time_sample", "read.AllMembers.time_sample",
        "read.Image.time_sample", "step.ResNet18.time_sample", "step.Small.time_sample",
        "transfer.Batch.time_sample", "transform.Dilate.time_sample", "transform.FlipNormalise.time_sample",
        "transform.Mask.time_sample", "transform.YUV.time_sample", "video.Clip.time_sample",
        "video.Random.time_sample", "video.Sequential.time_sample",
    }  # fmt: skip


def test_a_version_follows_the_workload_and_nothing_else(monkeypatch):
    from pipebench import asvbench

    monkeypatch.setitem(asvbench.MANIFESTS, "photos", {"title": "one", "count": 64})
    before = asvbench.workload_version(["photos"], "decode/rgb", 64)
    monkeypatch.setitem(asvbench.MANIFESTS, "photos", {"title": "another", "count": 64})
    assert asvbench.workload_version(["photos"], "decode/rgb", 64) == before
    assert asvbench.workload_version(["photos"], "decode/rgb", 32) != before
    monkeypatch.setitem(asvbench.MANIFESTS, "photos", {"count": 65})
    assert asvbench.workload_version(["photos"], "decode/rgb", 64) != before


def test_a_benchmark_that_measures_something_else_has_another_version_and_no_other_has(rows):
    """`transform/mask` dilated the mask, too; its history must not be joined with what it measures now."""
    from pipebench import asvbench

    found = {row["name"]: row["version"] for row in rows}
    sizes = {"decode.RGB": ("decode/rgb", "original"), "transform.Mask": ("transform/mask", "256")}
    plain = {name: _version_in_the_suite(asvbench.Task.data, *of) for name, of in sizes.items()}
    assert found["decode.RGB.time_sample"] == plain["decode.RGB"]
    assert found["transform.Mask.time_sample"] != plain["transform.Mask"]


def _version_in_the_suite(data, task, size):
    """The version of a benchmark with no `meaning`, as the suite derives it from the manifests of the data sets."""
    import tomllib

    from pipebench import asvbench

    manifests = {path.stem: tomllib.loads(path.read_text()) for path in (ROOT / "datasets").glob("*.toml")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asvbench, "MANIFESTS", manifests)
        return asvbench.workload_version(data, task, size, asvbench.BATCH_SIZE)


@pytest.mark.parametrize(
    ("column", "version", "does", "reason"),
    [
        ("stock", "12.0.0", True, None),
        ("stock", "12.0.0", False, None),
        ("simd", "9.5.0.post2", True, None),
        ("simd", "9.5.0.post2", False, "it does not use Pillow"),
        ("simd", "12.0.0", True, "PIL is Pillow 12.0.0: build pillow-simd"),
    ],
)
def test_the_column_of_pillow_simd_is_only_of_that_build(column, version, does, reason, monkeypatch):
    monkeypatch.setenv("PIPEBENCH_PIL", column)
    monkeypatch.setattr("PIL.__version__", version)
    with pytest.raises(NotImplementedError, match=reason) if reason else nullcontext():
        asvbench.uses_pillow(does)


@pytest.mark.parametrize(
    ("place", "given"),
    [
        ("loader.Loader", (2, "map", "photos", "224")), ("loader.Loader", (2, "ready", "photos", "224")),
        ("loader.Loader", (2, "packed", "photos", "224")), ("training.Training", (2, "map", "photos", "224")),
        ("overhead.Harness", ()), ("syncs.Studies", ("clip",)),
    ],
)  # fmt: skip
def test_no_row_of_the_stock_build_stands_in_the_column_of_pillow_simd(place, given, monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    module, _, name = place.partition(".")
    benchmark = getattr(importlib.import_module(f"benchmarks.{module}"), name)()
    monkeypatch.setenv("PIPEBENCH_PIL", "simd")
    monkeypatch.setattr("PIL.__version__", "12.0.0")
    with pytest.raises(NotImplementedError, match=r"see the column of the stock build|build pillow-simd with"):
        benchmark.setup(*given)
