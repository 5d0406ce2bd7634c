"""JPEGs that OpenCV decodes whole and makes small at once are counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from clockwork import Rows
from fetched_rows import CLOCK

from pipebench.watch.record.patches import Patches
from pipebench.watch.record.worker_lines import Shrunk
from pipebench.watch.stages import library_calls

cv2 = pytest.importorskip("cv2")


class Photos:
    """Four samples: `make` gets the path of each."""

    def __init__(self, path: str, make: Any) -> None:
        self.path, self.make = path, make

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        return self.make(self.path).shape


def _resized(path: str) -> Any:
    return cv2.resize(cv2.imread(path), (20, 10))  # of 200 by 100


def _converted(path: str) -> Any:
    image = cv2.cvtColor(cv2.imread(path, cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)
    return cv2.resize(src=image, dsize=(100, 50))


def _cropped(path: str) -> Any:
    return cv2.resize(cv2.imread(path)[:50, :50], (10, 10))


def _reduced(path: str) -> Any:
    return cv2.resize(cv2.imread(path, cv2.IMREAD_REDUCED_COLOR_4), (20, 10))


def _used_again(path: str) -> Any:
    image = cv2.imread(path)
    small = cv2.resize(image, (20, 10))
    return cv2.resize(small, (4, 2))


@pytest.mark.parametrize(
    ("name", "make", "found"),
    [
        ("a.jpg", _resized, Shrunk(4, 4, 4, 4)),
        ("a.JPEG", _converted, Shrunk(4, 4, 0, 0)),
        ("a.jpg", _used_again, Shrunk(4, 4, 4, 4)),
        ("a.jpg", _cropped, Shrunk(4)),
        ("a.jpg", _reduced, Shrunk()),
        ("a.png", _resized, Shrunk()),
    ],
)
def test_what_is_made_small_at_once_is_counted(
    name: str, make: Any, found: Shrunk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / name)
    cv2.imwrite(path, np.zeros((100, 200, 3), np.uint8))
    patches = Patches()
    library_calls.watch_module(patches, cv2)
    try:
        rows = Rows(Photos(path, make), tmp_path, CLOCK, monkeypatch)
        assert len(rows.fetch([0, 1, 2, 3])) == 4
    finally:
        patches.undo()
    assert rows.sums.timer.shrunk == found
    assert rows.sums.timer.jpeg is None or rows.sums.timer.jpeg() is None  # nothing is kept alive


def test_an_error_passes_through_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    patches = Patches()
    library_calls.watch_module(patches, cv2)
    try:
        rows = Rows(Photos(str(tmp_path / "none.jpg"), _resized), tmp_path, CLOCK, monkeypatch)
        with pytest.raises(cv2.error):
            rows.fetch([0])
    finally:
        patches.undo()
