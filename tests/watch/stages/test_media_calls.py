"""Decoders of video and sound, and tokenisers, have rows: in a sample and in `collate_fn`, with workers and without."""

from __future__ import annotations

import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from clockwork import Rows
from fetched_rows import CLOCK

from pipebench.watch.record.media import MEDIA, kind_of_stage, row_of
from pipebench.watch.record.patches import Patches
from pipebench.watch.stages import library_calls


class Generator:
    """An iterator of a class of its own, as one that Cython makes."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> int:
        CLOCK.burn(10)
        self.left -= 1
        if self.left < 0:
            raise StopIteration
        return self.left


class InputContainer:
    def demux(self, steps: int) -> Any:
        return Generator(steps)

    def decode(self, steps: int) -> Any:
        for packet in self.demux(steps):
            CLOCK.burn(30)
            yield packet


class Tokenizer:
    def encode_batch(self, texts: Any) -> int:
        CLOCK.burn(100)
        return len(texts)


class PreTrainedTokenizerBase:
    inner = Tokenizer()

    def __call__(self, texts: Any) -> int:
        CLOCK.burn(7)
        return self.inner.encode_batch(texts)


class BertTokenizerFast(PreTrainedTokenizerBase):
    pass


def read(index: int) -> int:
    CLOCK.burn(1000)
    return index


LIBRARIES = {
    "av.container.input": {"InputContainer": InputContainer},
    "tokenizers": {"Tokenizer": Tokenizer},
    "transformers.tokenization_utils_base": {"PreTrainedTokenizerBase": PreTrainedTokenizerBase},
    "soundfile": {"read": read},
}


@pytest.fixture
def libraries() -> Iterator[dict[str, Any]]:
    patches, found = Patches(), {}
    for name, held in LIBRARIES.items():
        found[name] = types.ModuleType(name)
        vars(found[name]).update(held)
        library_calls.watch_module(patches, found[name])
    yield found
    patches.undo()
    assert found["soundfile"].read is read
    assert all(not hasattr(one, "__wrapped__") for one in (InputContainer.decode, Tokenizer.encode_batch))


class Clips:
    def __init__(self, libraries: dict[str, Any]) -> None:
        self.read = libraries["soundfile"].read

    def __getitem__(self, index: int) -> int:
        CLOCK.burn(1)
        for _ in InputContainer().decode(2):
            CLOCK.burn(3)
        self.read(index)
        BertTokenizerFast()("text")
        return index


def _collate(samples: list[int]) -> list[int]:
    CLOCK.burn(5)
    Tokenizer().encode_batch(samples)
    return samples


def test_rows_of_calls_in_samples_and_in_collate(
    libraries: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = Rows(Clips(libraries), tmp_path, CLOCK, monkeypatch, collate=_collate)
    assert rows.fetch([0, 1]) == [0, 1]
    assert rows.found() == {
        ("getitem", "Clips.__getitem__"): 2 * (1 + 2 * 3),
        ("decode", "InputContainer.decode"): 2 * (3 * 10 + 2 * 30),
        ("decode", "soundfile.read"): 2 * 1000,
        ("tokenise", "BertTokenizerFast"): 2 * 107,
        ("tokenise", "Tokenizer.encode_batch"): 100,
        ("collate", "_collate"): 5,
    }


def test_outside_a_fetch_a_call_gives_what_it_gives(libraries: dict[str, Any]) -> None:
    assert type(InputContainer().demux(1)) is Generator
    assert [*InputContainer().decode(2)] == [1, 0] and BertTokenizerFast()("text") == 4


def test_an_iterator_that_is_watched_is_taken_for_the_one_that_it_is(libraries: dict[str, Any]) -> None:
    from pipebench.watch.record.exclusive_time import StageTimer, local

    local.timer = StageTimer()
    try:
        found = InputContainer().demux(3)
        assert isinstance(found, Generator) and type(found) is not Generator
        assert found.left == 3 and next(found) == 2 and [*found] == [1, 0]
    finally:
        local.timer = None


def test_a_class_that_cannot_be_changed_is_left_as_it_is() -> None:
    module, patches = types.ModuleType("av.packet"), Patches()
    module.Packet = type("Packet", (), {"decode": lambda self: None})  # type: ignore[attr-defined]
    library_calls.watch_module(patches, module)
    assert hasattr(module.Packet.decode, "__wrapped__")
    patches.undo()
    module = types.ModuleType("tiktoken.core")
    module.Encoding = str  # type: ignore[attr-defined]
    library_calls.watch_module(patches, module)
    assert not patches._undo


def test_what_decodes_no_images_belongs_to_no_stage_of_images() -> None:
    names = {row_of(module, one) for module, calls in MEDIA.items() for one in calls}
    assert {"av.open", "VideoDecoder", "librosa.load", "SoundFile.read", "Encoding.encode"} <= names
    assert kind_of_stage("InputContainer.decode", "decode", True) == "video"
    assert kind_of_stage("AudioDecoder.get_all_samples", "decode", True) == "sound"
    assert kind_of_stage("librosa.load", "decode", True) == "sound"
    assert kind_of_stage("ImageFile.load", "decode", True) == "decode"
    assert kind_of_stage("fetch", "getitem", False) == "getitem"
