"""The `with` form, in this process."""

from __future__ import annotations

import doctest
import errno
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import ImageFile
from torch.utils.data import DataLoader
from torchvision import transforms
from torchvision.datasets import ImageFolder

from pipebench import watching
from pipebench.errors import UsageError
from pipebench.watch import with_block
from pipebench.watch.launch.watched_script import WatchedScript
from pipebench.watch.stages import labels


def _loop(images: Path, workers: int) -> torch.Tensor:
    torch.manual_seed(0)
    steps = transforms.Compose([transforms.Resize((8, 8)), transforms.ToTensor()])
    model = torch.nn.Linear(8, 1)
    optimiser = torch.optim.SGD(model.parameters(), 0.1)
    for pixels, _ in DataLoader(ImageFolder(str(images), steps), 8, shuffle=True, num_workers=workers):
        optimiser.zero_grad()
        model(pixels).mean().backward()
        optimiser.step()
    return model.weight.detach()


def _patchable() -> list[Any]:
    module: Any = sys.modules["torch.utils.data.dataloader"]
    return [
        torch.autograd.backward, module._BaseDataLoaderIter.__next__, module._MultiProcessingDataLoaderIter.__init__,
        module._SingleProcessDataLoaderIter.__init__, module._DatasetKind.create_fetcher, ImageFile.ImageFile.load,
        transforms.Compose.__call__, torch.autograd.profiler.record_function.__enter__, list(sys.meta_path),
    ]  # fmt: skip


def test_a_block_is_watched_and_put_back(images: Path) -> None:
    before, alone = _patchable(), [_loop(images, 0), _loop(images, 2)]
    with watching() as watched:
        inside = [_loop(images, 0), _loop(images, 2)]
    assert _patchable() == before
    assert all(torch.equal(one, other) for one, other in zip(alone, inside, strict=True))
    assert [one.iterations for one in watched.result.loaders] == [3, 3]
    assert {"Resize", "ToTensor", "ImageFile.load"} <= {one.name for one in watched.result.stages if one.loader == 2}
    assert all(one.samples == 24 for one in watched.result.stages)


def test_a_block_in_a_watched_process_stands_aside(images: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two recordings would hide each other's workers."""
    with watching() as outer:
        with watching() as inner:
            _loop(images, 2)
            assert inner.latest() == {}
        _loop(images, 0)
    first, second = outer.result.loaders
    assert first.watched and (first.samples, second.samples) == (24, 24)
    assert not [one for one in outer.result.notes if one.code == "workers-not-watched"]
    assert "is watched already" in capsys.readouterr().err
    assert inner.result.verdict.elsewhere and "That report holds what ran inside" in " ".join(str(inner.result).split())
    with watching() as after:
        _loop(images, 0)
    assert after.result.loaders[0].samples == 24


def test_ctrl_c_at_the_end_of_a_block_leaves_nothing_patched(images: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a notebook, where the second Ctrl-C comes while the block ends. The next block must record again."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    before = _patchable()
    for name in ("_tell_spans", "_end_loops"):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt), watching() as first:
            _loop(images, 0)
            patch.setattr(WatchedScript, name, interrupted)
    with pytest.raises(KeyboardInterrupt), watching() as first:
        _loop(images, 0)
        first._script.recording.patches.on_undo(interrupted)
    assert _patchable() == before and first.result.loaders[0].samples == 24
    with watching() as second:
        _loop(images, 0)
    assert second.result.loaders[0].samples == 24


def test_a_block_within_itself_ends_with_the_outer_one(images: Path) -> None:
    before, seen = _patchable(), watching()
    with seen, seen:
        _loop(images, 0)
    assert seen.result.loaders[0].samples == 24 and _patchable() == before


def test_one_function_needs_no_tuple_around_it() -> None:
    """A text was taken as its letters."""
    with watching(functions="nowhere:decode") as watched:
        pass
    assert [one.values["span"] for one in watched.result.notes if one.code == "span-not-found"] == ["nowhere:decode"]


@pytest.mark.parametrize("numbers", [{"every": 0}, {"warmup": -1}])
def test_numbers_that_cannot_be_are_refused(numbers: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="cannot be"):
        watching(**numbers)  # type: ignore[arg-type]


def test_the_examples_hold() -> None:
    for module in (with_block, labels):
        assert doctest.testmod(module).failed == 0


def test_a_child_that_ends_in_the_block_leaves_the_records_to_its_parent(images: Path) -> None:
    with watching() as watched:
        _loop(images, 0)
        if not (child := os.fork()):
            watched.__exit__(SystemExit, None, None)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        _loop(images, 0)
    assert [one.iterations for one in watched.result.loaders] == [3, 3]


@pytest.mark.parametrize("fails", ["tempfile.mkdtemp", "pipebench.watch.with_block.WatchedScript"])
def test_a_block_that_cannot_be_watched_goes_on(
    fails: str, images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """As where the folder for temporary files is full, or cannot be written to: it would have ended the training."""

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before, watched = _patchable(), watching()
    with monkeypatch.context() as patch:
        patch.setattr(fails, full)
        with watched, watched:
            _loop(images, 0)
            assert watched.latest() == {}
    assert watched.result.loaders == () and _patchable() == before and not list(tmp_path.iterdir())
    said = "pipebench: the block is not watched (OSError: [Errno 28] No space left on device"
    assert said in capfd.readouterr().err and "Standard error says why" in str(watched)
    with watched:
        _loop(images, 0)
    assert watched.result.loaders[0].samples == 24


def test_a_block_that_fails_while_it_begins_is_put_back(images: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, real = _patchable(), WatchedScript.start

    def broken(script: WatchedScript) -> None:
        real(script)
        raise RuntimeError("of ours")

    with monkeypatch.context() as patch:
        patch.setattr(WatchedScript, "start", broken)
        with watching() as watched:
            assert _patchable() == before
    assert watched.result.loaders == ()
    with watching() as second:
        _loop(images, 0)
    assert second.result.loaders[0].samples == 24


def test_a_block_whose_records_somebody_removed_raises_nothing(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with watching() as watched:
        _loop(images, 0)
        for folder in tmp_path.glob("pipebench-*"):
            shutil.rmtree(folder)
    assert watched.result.loaders == ()
    assert "pipebench: the block has no figures" in capfd.readouterr().err
