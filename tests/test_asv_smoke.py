"""The asv suite, collected as asv collects it: every benchmark runs once, and its names and parameters are stable."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).absolute().parent.parent
RUN = """
import json, os, sys, traceback
from asv_runner._aux import update_sys_path
from asv_runner.discovery import disc_benchmarks
root, thrifty = sys.argv[1], sys.argv[2] == "thrifty"
update_sys_path(root)

class Once:
    number = repeat = rounds = 1
    warmup_time = 0.0

found = []
for benchmark in disc_benchmarks(root):
    sets = 1
    for values in benchmark.params:
        sets *= len(values)
    enough = False
    for index in range(sets):
        if enough and thrifty and not benchmark.name.endswith("time_sample"):
            break  # starting workers takes seconds: one parameter set of each benchmark is enough of a smoke test
        if benchmark.params:
            benchmark.set_param_idx(index)
        benchmark._attr_sources.insert(0, Once)
        row = {"name": benchmark.name, "version": benchmark.version, "params": [*map(str, benchmark._current_params)]}
        try:
            if benchmark.do_setup():
                row["outcome"] = "n/a"
            else:
                benchmark._load_vars() if hasattr(benchmark, "_load_vars") else None
                value = benchmark.do_run()
                benchmark.do_teardown()
                row["outcome"] = value["samples"][0] if isinstance(value, dict) else value
                enough = True
        except BaseException:
            row["outcome"] = "failed: " + traceback.format_exc()
        found.append(row)
sys.stderr.write("RESULT " + json.dumps(found) + chr(10))
"""


def collected(how):
    """One process for all of them. The suite imports torch before anything forks."""
    command = [sys.executable, "-c", RUN, str(ROOT / "benchmarks"), how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, cwd="/")
    assert "RESULT " in done.stderr, done.stderr[-3000:]
    return json.loads(done.stderr.rpartition("RESULT ")[2])


@pytest.fixture(scope="module")
def rows():
    return collected("thrifty")


@pytest.mark.slow
def test_every_parameter_set_of_every_benchmark_runs_once():
    assert [row for row in collected("whole") if str(row["outcome"]).startswith("failed")] == []


def test_every_benchmark_runs_once_or_is_not_available_here(rows):
    assert [row for row in rows if str(row["outcome"]).startswith("failed")] == []
    timed = [row for row in rows if ".time_sample" in row["name"]]
    assert len(timed) > 40
    absent = {row["name"] for row in timed if row["outcome"] == "n/a"}
    assert absent <= {"transfer.Batch.time_sample", "collate.Float32.time_sample", "collate.UInt8.time_sample"}
    assert all(1e-8 < row["outcome"] < 1.0 for row in timed if row["outcome"] != "n/a")  # seconds per sample


def test_the_parameters_are_the_registry_of_this_tree(rows):
    from pipebench import stage

    measured = {row["params"][0] for row in rows if row["name"] == "decode.RGB.time_sample"}
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
        "crop.Resized224.time_sample", "decode.RGB.time_sample", "read.AllMembers.time_sample",
        "read.Image.time_sample", "step.ResNet18.time_sample", "step.Small.time_sample",
        "transfer.Batch.time_sample", "transform.FlipNormalise.time_sample", "transform.Mask.time_sample",
        "transform.YUV.time_sample",
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
