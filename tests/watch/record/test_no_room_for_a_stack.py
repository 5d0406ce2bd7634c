"""A disk that is full when a worker tells where its stack lies: the row stays whole, and it is no fault of ours."""

import os

import pytest

from pipebench.watch.record.exclusive_time import StageTimer
from pipebench.watch.record.recording import Recording, Settings
from pipebench.watch.worker import stack_place


@pytest.mark.parametrize("room", [True, False])
def test_no_room_is_no_fault(room, tmp_path, monkeypatch):
    folder = tmp_path / stack_place.FOLDER
    folder.mkdir()
    monkeypatch.setattr(stack_place, "place_of", lambda *_: None)
    monkeypatch.setattr(stack_place, "encoded", lambda found: b"found")
    recording = Recording(Settings(str(tmp_path)), "worker")
    if not room:
        (folder / f"{os.getpid()}-{recording.file.began}-1.part").mkdir()  # so that nothing can be written there
    teller = stack_place.Teller(recording, StageTimer(), 1)
    recording.guarded("telling where the stack lies", teller._tell)
    assert recording.faults == 0
    assert [one.read_bytes() for one in folder.iterdir() if one.is_file()] == ([b"found"] if room else [])
