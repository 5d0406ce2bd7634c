"""A torch whose internals have other names costs a part of the figures, or all of them; never the script.

`renamed.py` gives torch's own loader other names inside, and trains alone and watched.
"""

from __future__ import annotations

import json
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import warm
from watching import PATIENCE_S, script

from pipebench.watch.record.recording import Recording, Settings
from pipebench.watch.script import arrivals
from pipebench.watch.script.backward import compiling
from pipebench.watch.worker import pickling

NEEDED = {
    "_BaseDataLoaderIter": "_BaseDataLoaderIter.__next__",
    "_SingleProcessDataLoaderIter": "_SingleProcessDataLoaderIter",
    "_MultiProcessingDataLoaderIter": "_MultiProcessingDataLoaderIter._reset",
    "_reset": "_MultiProcessingDataLoaderIter._reset",
    "_DatasetKind": "_DatasetKind.create_fetcher",
    "create_fetcher": "_DatasetKind.create_fetcher",
}
# with what the report says; an empty text: nothing is missing
PARTS = {
    "_try_put_index": "timing the sending of indices", "_next_index": "timing the sampler",
    "_get_data": "following batches", "_next_data": "timing pinning",
    "_shutdown_workers": "timing the end of workers", "_pin_memory_loop": "timing the pin-memory thread",
    "check_worker_number_rationality": "finding where loaders are made", "_worker_info": "watching a fetcher",
    "fetch": "watching a fetcher", "_data_queue": "following a batch", "_rcvd_idx": "", "_workers": "",
    "_worker_init_fn": "", "_index_sampler": "", "_MapDatasetFetcher": "",
}  # fmt: skip


def _trained(*names: str, method: str = "fork", run: Any = warm.run) -> tuple[dict[str, Any], str]:
    command = [sys.executable, script("renamed"), method, *names]
    done = run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


@pytest.mark.parametrize("name", NEEDED)
def test_without_what_recording_needs_nothing_is_watched_and_one_line_says_so(name: str) -> None:
    found, said = _trained(name)
    assert found["same"] and not found["iterations"] and not found["faults"]
    assert (found["limit"], found["lacks"]) == ("nothing-watched", [NEEDED[name]])
    assert found["left"] == 0
    assert said.count("pipebench: ") == 1 and f"is not recognised ({NEEDED[name]}): nothing is watched" in said


@pytest.mark.parametrize("name", PARTS)
def test_without_another_name_a_part_is_missing_and_the_loop_is_watched(name: str) -> None:
    found, said = _trained(name)
    assert found["same"] and found["iterations"] == [8, 8] and found["limit"] in ("data", "training"), found
    assert "pipebench" not in said
    assert bool(found["faults"]) == bool(PARTS[name]) and all(PARTS[name] in one for one in found["faults"]), found


@pytest.mark.slow
@pytest.mark.parametrize("name", ["_worker_info", "_DatasetKind", "fetch"])
def test_workers_that_inherit_nothing_train_on_too(name: str) -> None:
    found, _ = _trained(name, method="spawn", run=subprocess.run)
    assert found["same"], found


@pytest.mark.parametrize("name", ["_get_data", "_next_data", "_shutdown_workers", "check_worker_number_rationality"])
def test_a_method_that_takes_more_than_today_gets_it(name: str) -> None:
    found, said = _trained(f"+{name}")
    assert found["same"] and found["iterations"] == [8, 8] and not found["faults"], said


@pytest.mark.slow
@pytest.mark.parametrize("before", [[], ["--", sys.executable]])
def test_the_report_of_a_command_says_which_name_is_missing(before: list[str]) -> None:
    command = [sys.executable, "-m", "pipebench", "watch", *before, script("later")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0 and done.stdout == "trained\n", done.stderr
    assert done.stderr.count("is not recognised (_MultiProcessingDataLoaderIter._reset): nothing is watched\n") == 1
    said = " ".join(done.stderr.split())
    assert "has no _MultiProcessingDataLoaderIter._reset, which recording needs. The script ran as without" in said
    assert "DataLoader was iterated" not in said and "iterated no DataLoader" not in said


def test_a_pin_memory_thread_that_is_called_otherwise_runs_as_it_would(tmp_path: Path) -> None:
    module: Any = types.ModuleType("pin_memory")
    module._pin_memory_loop = lambda **named: named
    recording = Recording(Settings(str(tmp_path)), "script")
    arrivals.watch_pinning(recording, arrivals.Arrivals(), module)
    assert module._pin_memory_loop(queues=2) == {"queues": 2} and recording.faults == 1
    recording.stop()


def test_a_storage_of_another_kind_is_pickled_all_the_same() -> None:
    reducers = pickling._Reducers({}, None, pickling.Crossing())
    assert reducers._reduce_storage(lambda one: "reduced", object()) == "reduced"


def test_a_compiler_without_its_question_is_not_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(compiler=object()))
    assert not compiling()
