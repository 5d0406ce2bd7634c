"""Calls that are not what they look like: a `__call__` that gets no object, and a `load` without a tile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from clockwork import Rows
from fetched_rows import CLOCK
from PIL import Image, WebPImagePlugin
from torch.utils.data import Dataset

from pipebench.watch.record.patches import Patches
from pipebench.watch.stages import library_calls


class Transformed(Dataset[int]):
    def __init__(self, transform: Any) -> None:
        self.transform = transform

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Any:
        CLOCK.burn(100)
        return self.transform(index)


class Static:
    @staticmethod
    def __call__(value: Any) -> Any:
        CLOCK.burn(5)
        return value


class OfClass:
    @classmethod
    def __call__(cls, value: Any) -> Any:
        CLOCK.burn(5)
        return value


class Held:
    __call__ = Static()


@pytest.mark.parametrize("kind", [Static, OfClass, Held])
def test_what_is_no_method_of_its_object_is_left_as_it_is(kind: type, rows: Any) -> None:
    """It gets no object, so what times it would give it an argument more."""
    before = vars(kind)["__call__"]
    assert rows(Transformed(kind())).found() == {("getitem", "Transformed.__getitem__"): 8 * 105}
    assert vars(kind)["__call__"] is before


def test_a_webp_is_decoded_when_it_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow gives it no tile before that."""
    path = tmp_path / "image.webp"
    Image.new("RGB", (8, 6), (200, 10, 30)).save(path, lossless=True)

    class Opened(Dataset[int]):
        def __len__(self) -> int:
            return 8

        def __getitem__(self, index: int) -> int:
            image = Image.open(path)
            CLOCK.burn(1)
            assert image.convert("RGB").getpixel((1, 1)) == (200, 10, 30)
            image.load()  # it is loaded: nothing is decoded
            return index

    plain = WebPImagePlugin.WebPImageFile._get_next  # type: ignore[attr-defined]

    def get_next(self: Any) -> Any:
        CLOCK.burn(70)
        return plain(self)

    monkeypatch.setattr(WebPImagePlugin.WebPImageFile, "_get_next", get_next)
    patches = Patches()
    library_calls.watch_module(patches, Image)
    library_calls.watch_module(patches, WebPImagePlugin)
    try:
        found = Rows(Opened(), tmp_path, CLOCK, monkeypatch)
        found.fetch([0, 1, 2, 3])
    finally:
        patches.undo()
    assert found.found()["decode", "WebPImageFile.load"] == 4 * 70
