from types import SimpleNamespace

import pytest
from looked_at import made_up_recording

from pipebench.watch.script import busy_threads, loop_looks
from pipebench.watch.script.loop_looks import OFTEN_S, LoopLooker


@pytest.fixture
def looker(monkeypatch):
    monkeypatch.setattr(LoopLooker, "go_on", lambda self: None)
    monkeypatch.setattr(loop_looks, "_WRITTEN_EACH_S", 1e9)
    monkeypatch.setattr(busy_threads, "_EACH_NS", 10**18)  # else a line of other threads follows, if looks take long
    return SimpleNamespace(of=LoopLooker(recording := made_up_recording(), OFTEN_S), written=recording.written)
