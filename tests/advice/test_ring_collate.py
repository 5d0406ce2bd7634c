"""A ring in place of new shared memory: the same batches, for torch's own collate function, written as a keyword."""

import subprocess

import pytest
import torch
from jpeg_files import seen_with
from PIL import Image
from small_worker import fetcher
from torch.utils.data import default_collate
from torchvision.transforms import Compose, Normalize, ToTensor

import pipebench
from pipebench.advise.snippet import written
from pipebench.remedies import ring_collate
from pipebench.ring import RingCollate
from pipebench.watch.record.patches import Patches
from pipebench.watch.trial.edits import Refused, edited, made, unpacked

TEXT = '''"""A script."""
from __future__ import annotations

import torch
from torch.utils.data import DataLoader

loader = DataLoader(
    Photos(),
    batch_size=(8),
)
'''
COLLATE = ("default_collate", "collate", 0.3)


class Photos:
    def __getitem__(self, index):
        return torch.full((3, 64, 64), index / 7), index, {"name": str(index)}


def _fetched(collate, told, monkeypatch):
    rings = []
    monkeypatch.setattr(RingCollate, "__init__", lambda self, ahead: rings.append(ahead) or _plain(self, ahead))
    edit = ring_collate.edit(ahead=3)
    found = edited(fetcher(Photos(), collate), (edit,), Patches())
    return [unpacked(found.fetch(one), (edit,), told.append) for one in ([0, 1], [2, 3])], rings


_plain = RingCollate.__init__


def test_batches_are_the_same_and_lie_in_a_ring(monkeypatch):
    told = []
    batches, rings = _fetched(default_collate, told, monkeypatch)
    for found, indices in zip(batches, ([0, 1], [2, 3]), strict=True):
        plain = default_collate([Photos()[one] for one in indices])
        assert torch.equal(found[0], plain[0]) and torch.equal(found[1], plain[1]) and found[2] == plain[2]
        assert found[0].is_shared()
    assert rings == [3] and [one.largest for one in told] == [0.0] and told[0].values == 2 * 3 * 64 * 64 + 2


class Normalised:
    def __init__(self):
        self.transform = Compose([ToTensor(), Normalize([0.5] * 3, [0.2] * 3)])

    def __getitem__(self, index):
        return self.transform(Image.new("RGB", (200, 200), (index, 2 * index, 7)))


@pytest.mark.parametrize("names", [("ring_collate", "bytes_across"), ("bytes_across", "ring_collate")])
def test_bytes_may_cross_in_a_ring_whichever_gained_first(names):
    arguments = {"ring_collate": {"ahead": 2}, "bytes_across": {}}
    both, patches = made({name: arguments[name] for name in names}), Patches()
    found, told = edited(fetcher(Normalised(), default_collate), both, patches), []
    sent = [found.fetch(one) for one in ([0, 1], [2, 3])]
    patches.undo()
    assert type(sent[1]) is torch.Tensor and sent[1].dtype == torch.uint8 and sent[1].is_shared()
    for batch, indices in zip(sent, ([0, 1], [2, 3]), strict=True):
        plain = default_collate([Normalised()[one] for one in indices])
        assert torch.equal(unpacked(batch, both, told.append), plain)
    assert [one.largest for one in told] == [0.0, 0.0]


def test_another_collate_function_is_left_alone(monkeypatch):
    with pytest.raises(Refused, match="own-collate"):
        _fetched(lambda samples: default_collate(samples), [], monkeypatch)


def test_other_batches_are_refused():
    collate = ring_collate._compared(lambda samples: torch.zeros(2), lambda samples: torch.ones(2))
    with pytest.raises(Refused, match="samples-differ"):
        collate([0, 1])


def test_it_is_offered_where_torchs_collate_is_a_cost(tmp_path):
    path = tmp_path / "train.py"
    assert ring_collate.propose(seen_with(path, TEXT, COLLATE), []).predicted == pytest.approx(1 / 0.7)
    for figures in (
        seen_with(path, TEXT, COLLATE, wait_share=0.01), seen_with(path, TEXT, (*COLLATE[:2], 0.05)),
        seen_with(path, TEXT, ("collate", "collate", 0.3)),
    ):  # fmt: skip
        assert ring_collate.propose(figures, []) is None


def test_the_keyword_and_the_import_are_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    figures = seen_with(tmp_path / "train.py", TEXT, COLLATE)
    change = ring_collate.propose(figures, [])
    line = "    batch_size=(8), collate_fn=pipebench.RingCollate(),"
    assert line in written(figures.made, change).snippet.after and change.how == ()
    (tmp_path / "fix.diff").write_text(written(figures.made, change).diff)
    subprocess.run(["git", "init", "-q"], check=True)
    subprocess.run(["git", "apply", "fix.diff"], check=True)
    after = (tmp_path / "train.py").read_text()
    assert line in after and after.index("__future__") < after.index("import pipebench\n") < after.index("import torch")
    figures = seen_with(tmp_path / "train.py", TEXT, COLLATE, settings={**figures.settings, "prefetch_factor": 5})
    assert "collate_fn=pipebench.RingCollate(5)" in written(figures.made, ring_collate.propose(figures, [])).diff
    assert callable(pipebench.RingCollate(5))


@pytest.mark.parametrize("more", ["**more", "collate_fn=mine", "*rest"])
def test_a_call_that_may_hold_one_is_not_written(more, tmp_path):
    change = ring_collate.propose(seen_with(tmp_path / "train.py", TEXT.replace("batch_size=(8)", more), COLLATE), [])
    assert change.rewrites == () and "collate_fn=pipebench.RingCollate()" in change.how[0]
