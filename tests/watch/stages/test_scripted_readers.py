"""TorchScript compiles the readers and decoders of torchvision while they are watched, and after."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torchvision import io

from pipebench import watching

NAMES = ("read_file", "read_image", "decode_image", "decode_jpeg", "decode_png", "decode_gif", "decode_webp")


def _read(path: str) -> torch.Tensor:
    return io.decode_image(io.read_file(path), io.ImageReadMode.GRAY)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", NAMES)
def test_a_watched_reader_can_be_scripted(name: str) -> None:
    plain = getattr(io, name, None)
    if plain is None:
        pytest.skip("this torchvision has no such reader")
    with watching():
        found: Any = getattr(io, name)
        assert found is not plain or name == "read_image"
        torch.jit.script(found)
    torch.jit.script(getattr(io, name))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_function_of_the_script_that_calls_them_can_be_scripted(images: Path) -> None:
    path = str(sorted(images.rglob("*.jpg"))[0])
    with watching():
        scripted = torch.jit.script(_read)
        assert torch.equal(scripted(path), _read(path))
