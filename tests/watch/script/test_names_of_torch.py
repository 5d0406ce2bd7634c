"""Every name of torch's loader that `watch` replaces exists in each release whose names are stored beside this file."""

from __future__ import annotations

import json
import types
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data import dataloader as torch_dataloader

from pipebench import watching
from pipebench.watch.record.patches import Patches
from pipebench.watch.record.recording import Recording, Settings
from pipebench.watch.script.iterators import Loaders, watch_dataloader
from pipebench.watch.script.phases import LoopPhases

# release -> owner -> name -> the names in that function, of those that our replacement relies on
NAMES = json.loads(Path(__file__).with_name("names_of_torch.json").read_text())


# Not looked up in the sources of the earlier releases. Without one of them, a part is missing, and the report says so.
_LATER = {
    ("_MultiProcessingDataLoaderIter", "_shutdown_workers"), ("DataLoader", "check_worker_number_rationality"),
    ("_BaseDataLoaderIter", "__init__"),
}  # fmt: skip
_NOT_LOOKED_UP = {release: _LATER for release in ("2.4.0", "2.6.0", "2.7.1")}


def _replaced(folder: Path, monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, str]]:
    found: set[tuple[str, str]] = set()
    monkeypatch.setattr(Patches, "replace", lambda self, owner, name, new: found.add((owner.__name__, name)))
    recording = Recording(Settings(str(folder)), "script")
    watch_dataloader(Loaders(recording, LoopPhases(recording)), torch_dataloader)
    assert not recording.faults
    return found


@pytest.mark.parametrize("release", NAMES)
def test_each_name_that_is_replaced_exists(release: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `watch` replaces is taken from `watch` itself."""
    replaced = _replaced(tmp_path, monkeypatch)
    stored = {(owner, name) for owner, names in NAMES[release].items() for name in names}
    replaced -= {("torch.utils.data.dataloader", "iter")}  # hides the built-in function there
    assert len(replaced) == 13 and replaced - _NOT_LOOKED_UP.get(release, set()) == stored


@pytest.mark.parametrize("release", NAMES)
def test_the_parts_of_the_wait_lie_where_they_are_looked_for(release: str) -> None:
    """Sending asks the sampler. Without workers, the sampler, the fetch and pinning follow each other."""
    found = NAMES[release]
    assert "_next_index" in found["_MultiProcessingDataLoaderIter"]["_try_put_index"]
    assert {"_next_index", "fetch", "pin_memory"} <= set(found["_SingleProcessDataLoaderIter"]["_next_data"])
    assert "_sampler_iter" in found["_BaseDataLoaderIter"]["_next_index"]
    assert found["torch.utils.data._utils.pin_memory"]["_pin_memory_loop"][:2] == ["in_queue", "out_queue"]


def test_the_samplers_begin_in_the_module_of_loaders() -> None:
    """In the constructor of an iterator and in `_reset`: nothing else there calls `iter`."""
    module = torch_dataloader.__name__
    kinds = [one for one in vars(torch_dataloader).values() if isinstance(one, type) and one.__module__ == module]
    methods = [one for kind in kinds for one in vars(kind).values() if isinstance(one, types.FunctionType)]
    base = torch_dataloader._BaseDataLoaderIter
    assert {one for one in methods if "iter" in one.__code__.co_names} == {base.__init__, base._reset}


def test_a_missing_name_costs_one_part_and_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loader has no workers, so it runs without this method."""
    monkeypatch.delattr(torch_dataloader._MultiProcessingDataLoaderIter, "_try_put_index")
    numbers: Any = TensorDataset(torch_dataloader.torch.arange(8))
    with watching() as seen:
        for _ in DataLoader(numbers, 2):
            pass
    assert seen.result.iterations == 4 and len(seen.result.stages) > 0
    assert {"sampler", "make-batch"} <= {one.part for one in seen.result.wait_parts}
    (note,) = (one for one in seen.result.notes if not isinstance(one, str) and one.code == "fault")
    assert "timing the sending of indices" in str(note.values["fault"])
