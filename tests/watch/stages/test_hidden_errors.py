"""What a handler of a webdataset pipeline hides is counted, and the script gets what it would have got."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from clockwork import Clock, Rows

from pipebench import watching
from pipebench.render.watch_notes import sentence
from pipebench.results.watched import Note
from pipebench.watch.record.lines import FetchSums
from pipebench.watch.record.worker_lines import Hidden

wds = pytest.importorskip("webdataset")
GOES_ON = wds.handlers.ignore_and_continue


def _samples() -> list[dict[str, Any]]:
    return [{"__key__": f"key{number}", "cls": number} for number in range(8)]


def _odd(number: int) -> int:
    if number % 2 == 0:
        raise ValueError("no odd number")
    return number


def _class_of(sample: dict[str, Any]) -> int:
    return _odd(sample["cls"])


def _drawn(dataset: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[list[Any], Hidden]:
    rows, given = Rows(dataset, tmp_path, Clock(), monkeypatch, batched=False), []
    with pytest.raises(StopIteration):
        while True:
            given.append(rows.fetch(None))
    assert not any("counting" in name for name in rows.found())
    return given, rows.sums.timer.hidden


@pytest.mark.parametrize(
    "stage",
    [wds.map(_class_of, GOES_ON), wds.map(_class_of, handler=GOES_ON), wds.map_dict(cls=_odd, handler=GOES_ON)],
    ids=["by its place", "by its name", "of each member"],
)
def test_each_error_is_counted_and_the_first_is_named(
    stage: Any, patched: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = wds.DataPipeline([_samples()], stage)
    alone = list(wds.DataPipeline([_samples()], stage))
    given, hidden = _drawn(pipeline, tmp_path, monkeypatch)
    assert given == alone and len(given) == 4
    assert (hidden.errors, hidden.name) == (4, "key0") and hidden.text.startswith("ValueError: no odd number (")
    assert pipeline.pipeline[1] is stage


def test_a_shard_that_cannot_be_opened(patched: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = str(tmp_path / "lost.tar")
    opener = wds.cache.StreamingOpen(handler=wds.handlers.ignore_and_stop)
    given, hidden = _drawn(wds.DataPipeline([[{"url": lost}]], opener), tmp_path, monkeypatch)
    assert (given, hidden.errors, hidden.name) == ([], 1, lost) and opener.handler is wds.handlers.ignore_and_stop


def test_an_error_that_reaches_the_script_is_not_hidden(
    patched: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gives_up(error: Exception) -> bool:
        raise error

    rows = Rows(wds.DataPipeline([_samples()], wds.map(_class_of, gives_up)), tmp_path, Clock(), monkeypatch)
    with pytest.raises(ValueError, match="no odd number"):
        rows.fetch([0])
    assert rows.sums.timer.hidden == Hidden()


def test_a_worker_all_of_whose_samples_are_hidden_writes_it(
    patched: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = Rows(wds.DataPipeline([_samples()[:1]], wds.map(_class_of, GOES_ON)), tmp_path, Clock(), monkeypatch)
    written: list[Any] = []
    monkeypatch.setattr(rows.sums.recording, "write", lambda *lines: written.extend(lines))
    with pytest.raises(StopIteration):
        rows.fetch([0])
    rows.sums.write()
    (line,) = [one for one in written if isinstance(one, FetchSums)]
    assert (line.batches, line.hidden.errors) == (0, 1) and rows.sums.timer.hidden.errors == 0


def _run(workers: int) -> list[Any]:
    dataset = wds.DataPipeline([_samples()], wds.split_by_worker, wds.map(_class_of, handler=GOES_ON))
    return [one.tolist() for one in wds.WebLoader(dataset, batch_size=2, num_workers=workers)]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_run_says_it(workers: int) -> None:
    alone = _run(workers)
    with watching() as seen:
        assert _run(workers) == alone
    (note,) = [one for one in seen.result.notes if isinstance(one, Note) and one.code == "hidden-errors"]
    assert (note.values["errors"], note.values["sample"]) == (4, "key0")
    said = sentence(note)
    assert "In loader 1, a handler of the pipeline hid 4 errors" in said
    assert "The first at key0: ValueError: no odd number (test_hidden_errors.py:" in said
