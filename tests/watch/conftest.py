"""Images for the scripts that the tests of `watch` run."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty-four small JPEGs in two classes."""
    from PIL import Image

    root = tmp_path_factory.mktemp("images")
    for number in range(24):
        folder = root / "ab"[number % 2]
        folder.mkdir(exist_ok=True)
        image = Image.radial_gradient("L").resize((96, 64)).rotate(15 * number).convert("RGB")
        image.save(folder / f"{number:02}.jpg")
    return root
