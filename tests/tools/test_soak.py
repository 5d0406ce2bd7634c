"""The checks of the soak can fail: each finds what is planted for it, and nothing where nothing is."""

import gc
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
import soak_checks as checks

ROOT = Path(__file__).parents[2]
MARK = ("PIPEBENCH_SOAK", "planted-by-a-test")


@pytest.fixture
def look(tmp_path):
    return lambda: checks.state([tmp_path], MARK, {4_000_000})


def found(before, look):
    return checks.settled(before, look, patience_s=0)[0]


def test_where_nothing_is_left_nothing_is_found(look):
    assert found(look(), look) == []


def test_a_descriptor_that_stays_open(look):
    gc.collect()  # descriptors that other tests have left to it
    before = look()
    descriptor = os.open("/", os.O_RDONLY)
    assert found(before, look) == ["1 more descriptors are open"]
    os.close(descriptor)
    assert found(before, look) == []


def test_a_file_that_stays(look, tmp_path):
    before = look()
    (tmp_path / "pipebench-left").mkdir()
    (tmp_path / "torchinductor_me").mkdir()
    (tmp_path / "tmp_0abcde9").touch()
    assert found(before, look) == [f"left in a folder: {tmp_path}/pipebench-left"]


def test_a_process_that_stays(look):
    before = look()
    left = subprocess.Popen(["sleep", "60"], env={**os.environ, MARK[0]: MARK[1]})
    try:
        assert found(before, look) == [f"process {left.pid} is left: sleep 60"]
    finally:
        left.kill()
        left.wait()
    assert found(before, look) == []


def test_shared_memory_that_stays_is_ours_by_its_number():
    assert checks.of_ours("torch_4000000_123_0", {4_000_000}) and not checks.of_ours("torch_41_123_0", {4_000_000})
    before, now = checks.State(), checks.State(shared={"torch_4000000_1_0"})
    assert list(checks.leaks(before, now)) == ["left in shared memory: torch_4000000_1_0"]


def test_memory_that_grows_over_the_rounds():
    assert list(checks.growth([100e6] * 9)) == [] == list(checks.growth([]))
    (grown,) = checks.growth([100e6 + 10e6 * number for number in range(12)])
    assert grown == "the driver's memory grew from 115 to 195 MB"


@pytest.mark.parametrize(
    ("result", "status", "may_fail", "killed", "breaches"),
    [
        ("aa", 0, False, False, 0), (None, 1, True, False, 0), (None, 137, True, True, 0), ("bb", 0, True, False, 1),
        (None, 1, False, False, 1), (None, 0, True, False, 1), ("aa", 1, False, False, 1),
        ("aa", 137, True, True, 0), ("aa", 0, True, True, 0), ("aa", 1, True, True, 1), ("bb", 137, True, True, 1),
    ],
)  # fmt: skip
def test_the_scripts_own_result(result, status, may_fail, killed, breaches):
    assert len(list(checks.of_result("aa", result, status, may_fail, killed))) == breaches


def test_what_pipebench_makes_among_temporary_files_has_a_name_of_its_own():
    """So that what torch leaves there is told from what pipebench leaves."""
    making = re.compile(r"\b(?:mkdtemp|mkstemp|TemporaryDirectory|NamedTemporaryFile)\(([^)]*)")
    calls = [call for file in (ROOT / "pipebench").rglob("*.py") for call in making.findall(file.read_text())]
    assert len(calls) > 5 and [one for one in calls if "prefix=" not in one] == []


WATCHED = {
    "loaders": [{"loader": 1, "samples": 40}], "workers": [{"loader": 1, "samples": 10}, {"loader": 1, "samples": 30}],
    "complete": True, "status": 0, "account": {"wall_s": 2.0, "rows": [{"s": 1.5}, {"s": 0.5}]}, "notes": [],
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "breaches"),
    [
        ({}, 0),
        ({"workers": [{"loader": 1, "samples": 39}]}, 1),
        ({"account": {"wall_s": 2.0, "rows": [{"s": 1.0}]}}, 1),
        ({"notes": [{"code": "fault", "values": {}}]}, 1),
    ],
)
def test_the_counts_of_a_watched_run(change, breaches):
    assert len(list(checks.of_watched({**WATCHED, **change}, 40))) == breaches


def test_a_whole_run_has_all_samples_and_none_has_more():
    assert len(list(checks.of_watched(WATCHED, 41))) == len(list(checks.of_watched(WATCHED, 39))) == 1
    assert not list(checks.of_watched({**WATCHED, "complete": False}, 41))


def test_the_counts_of_a_run():
    row = {"task": "decode/rgb", "variant": "pillow", "samples_failed": 1, "samples_attempted": 9}
    fine = {"measurements": [{**row, "readings_per_process": [2, 3], "readings_s": [1.0] * 5}]}
    wrong = {"measurements": [{**row, "samples_failed": 10, "readings_per_process": [2], "readings_s": []}]}
    assert not list(checks.of_run(fine)) and len(list(checks.of_run(wrong))) == 2
