"""The fields that a webdataset pipeline decodes, and those that a later stage drops, are counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from clockwork import Clock, Rows

from pipebench.watch.record.worker_lines import FieldSums
from pipebench.watch.stages import fields

wds = pytest.importorskip("webdataset")
SAMPLES = 6


def _counted(stages: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, **how: Any) -> tuple[Any, dict[str, Any]]:
    """What the pipeline gives, the same without a watch; and the counts of its fields."""
    clock = Clock()
    monkeypatch.setattr(fields, "perf_counter_ns", clock)

    def decoder(key: str, data: bytes) -> Any:
        clock.burn(100 if key == ".depth.png" else 10)
        return data.decode() if key != ".bin" else None

    names = ("hr.jpg", "lr.png", "depth.png", "bin")
    samples = [{"__key__": str(at), **{name: f"{name} {at}".encode() for name in names}} for at in range(SAMPLES)]
    dataset = wds.DataPipeline([samples], wds.map(wds.autodecode.Decoder([decoder], **how)), *stages)
    rows, given = Rows(dataset, folder, clock, monkeypatch, batched=False), []
    with pytest.raises(StopIteration):
        while True:
            given.append(rows.fetch(None))
    return given, rows.sums.timer.fields


KEPT, DROPPED, DEPTH = FieldSums(60, 6, 0), FieldSums(60, 0, 6), FieldSums(600, 0, 6)


@pytest.mark.parametrize(
    "stages",
    [
        [wds.to_tuple("hr.jpg", "lr.png")],
        [wds.shuffle(4), wds.to_tuple("hr.jpg", "lr.png"), wds.map_tuple(str.upper), wds.batched(2)],
        [wds.map_dict(**{"hr.jpg": str.upper}), wds.extract_keys("*.jpg", "lr.png")],
        [wds.rename(image="hr.jpg;jpg", small="lr.png"), wds.to_tuple("image", "small")],
        [wds.rename(keep=False, image="hr.jpg", small="lr.png"), wds.to_tuple("image", "small")],
        [wds.rename_keys(image="hr.jpg", small="lr.png"), wds.to_tuple("image", "small")],
    ],
)
def test_a_field_that_no_stage_passes_on(
    stages: Any, patched: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, found = _counted(stages, tmp_path, monkeypatch)
    assert given and found == {"hr.jpg": KEPT, "lr.png": KEPT, "depth.png": DEPTH}


class _Asks:
    def __call__(self, sample: dict[str, Any]) -> Any:
        return {"both": sample["hr.jpg"] + sample["small"], "depth.png": 1}


@pytest.mark.parametrize(
    "stages",
    [
        [wds.map(lambda sample: (sample["hr.jpg"], sample["lr.png"]))],
        [wds.shuffle(4), wds.map(lambda sample: sample["hr.jpg"] + sample.get("lr.png")), wds.map(str.upper)],
        [wds.rename(small="lr.png"), wds.map(_Asks()), wds.to_tuple("both", "depth.png"), wds.batched(2)],
    ],
)
def test_a_field_that_a_function_does_not_ask_for(
    stages: Any, patched: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, found = _counted(stages, tmp_path, monkeypatch)
    assert given and found == {"hr.jpg": KEPT, "lr.png": KEPT, "depth.png": DEPTH}


def test_what_a_stage_may_look_at_is_not_followed(
    patched: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for stage in (wds.map(dict), wds.select(lambda sample: True)):
        _, found = _counted([stage, wds.to_tuple("hr.jpg")], tmp_path, monkeypatch)
        assert {(one.kept, one.dropped) for one in found.values()} == {(0, 0)}


def test_what_is_not_decoded_is_no_field(patched: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, found = _counted([wds.to_tuple("hr.jpg", "bin")], tmp_path, monkeypatch, only=["hr.jpg", "bin"])
    assert found == {"hr.jpg": KEPT}


def test_equal_values_and_odd_samples_count_as_kept(
    patched: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two fields with one object, it is not known which one goes on."""
    same = [{"__key__": "a", "a.cls": b"1", "b.cls": b"1"}] * 3
    decoder = wds.autodecode.Decoder([lambda key, data: int(data)])
    dataset = wds.DataPipeline([same], wds.map(decoder), wds.to_tuple("a.cls"))
    rows = Rows(dataset, tmp_path, Clock(), monkeypatch, batched=False)
    assert rows.fetch(None) == (1,)
    assert {name: one[1:] for name, one in rows.sums.timer.fields.items()} == {"a.cls": (1, 0), "b.cls": (1, 0)}
    assert "decode1" not in vars(decoder)


def test_no_more_fields_are_followed_than_have_room(
    patched: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample: dict[str, Any] = {"__key__": "a", **{f"{at}.cls": b"1" for at in range(40)}, "x" * 99: b"1"}
    dataset = wds.DataPipeline(
        [[sample]], wds.map(wds.autodecode.Decoder([lambda key, data: 2])), wds.to_tuple("39.cls")
    )
    rows = Rows(dataset, tmp_path, Clock(), monkeypatch, batched=False)
    assert rows.fetch(None) == (2,) and len(rows.sums.timer.fields) == 16
