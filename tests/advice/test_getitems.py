"""One look for a batch: only where the code of a dataset takes rows, and with batches that are the same."""

import pickle
import subprocess
from dataclasses import replace

import numpy as np
import pytest
import torch
from jpeg_files import seen_with
from small_worker import fetcher
from torch.utils.data import DataLoader, Subset, TensorDataset, default_collate
from torch.utils.data.dataloader import _BaseDataLoaderIter

from pipebench.advise.snippet import written
from pipebench.remedies import getitems
from pipebench.watch.record.patches import Patches
from pipebench.watch.trial import arms
from pipebench.watch.trial.dealing import Deal
from pipebench.watch.trial.edits import Refused, edited, unpacked

TEXT = """import numpy as np
from torch.utils.data import DataLoader, Dataset


class Table(Dataset):
    def __init__(self):
        self.x, self.y = np.arange(80, dtype=np.float32).reshape(40, 2), np.arange(40)

    def __len__(self):
        return 40

    def __getitem__(self, index):
        return self.x[index] / 2, self.y[index]


loader = DataLoader(Table(), batch_size=8)
"""
OTHER = TEXT.replace(
    "return self.x[index] / 2, self.y[index]",
    """x = np.array([self.x[index, 0], self.x[index, 1]], dtype=np.float32)
        return {"x": x, "y": int(self.y[index])}""",
).replace("import numpy as np\n", "import numpy as np\nimport torch\n")  # needs other code for a batch
ROWS = (("Table.__getitem__", "getitem", 0.5), ("default_collate", "collate", 0.45), ("mapped", "function", 0.05))


class Table:
    def __init__(self, labels=None):
        self.x, self.looks = torch.arange(80.0).reshape(40, 2), 0
        self.y = np.arange(40) if labels is None else labels

    def __len__(self):
        return 40

    def __getitem__(self, index):
        """A row, and its label."""
        x = self.x[index].float()
        return {"x": x, "y": (torch.as_tensor(self.y[index]), self.y[index])}


class Vectors(Table):
    def __getitem__(self, index):
        return torch.stack([self.x[index, 0], self.x[index, 1]]), int(self.y[index])


class Whole(Table):
    def __getitems__(self, indices):
        return [self[one] for one in indices]


class Noting(TensorDataset):
    """Notes each look at its first tensor."""

    def __init__(self, *tensors):
        super().__init__(*tensors)
        self.looks = looks = []

        class Noted(torch.Tensor):
            def __getitem__(self, index):
                looks.append(index)
                return self.as_subclass(torch.Tensor)[index]

        self.tensors = (tensors[0].as_subclass(Noted), *tensors[1:])


class Counting(TensorDataset):
    """Its tensor gives other rows to a list."""

    def __init__(self, *tensors):
        super().__init__(*tensors)

        class Counted(torch.Tensor):
            def __getitem__(self, index):
                return self.as_subclass(torch.Tensor)[index] + isinstance(index, list)

        self.tensors = (tensors[0].as_subclass(Counted),)


TENSORS = TensorDataset(torch.arange(40), torch.rand(40, 3))


def _fetched(dataset, *batches, collate=default_collate, only_itself=False):
    told, edits = [], (getitems.edit(only_itself),)
    found = edited(fetcher(dataset, collate), edits, Patches())
    return [unpacked(found.fetch(one), edits, told.append) for one in batches], told


def _same(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return type(one) is type(other) and len(one) == len(other) and all(map(_same, one, other))
    return one.dtype == other.dtype and torch.equal(one, other)


@pytest.mark.parametrize(
    "dataset", [Table(), TENSORS, Subset(TENSORS, [5, 4, 3, 2]), Subset(Subset(Table(), [9] * 4), [0] * 4)]
)
def test_batches_are_those_of_collate(dataset):
    batches, told = _fetched(dataset, [0, 2], [1], [3, 0, 0])
    for found, indices in zip(batches, ([0, 2], [1], [3, 0, 0]), strict=True):
        assert _same(found, default_collate([dataset[one] for one in indices]))
    assert [one.largest for one in told] == [0.0, 0.0]


@pytest.mark.parametrize(
    ("dataset", "problem"),
    [
        (Table([*range(40)]), "no-rows"),  # a list
        (Whole(), "has-getitems"),
        ([1, 2], "no-rows"),
        (Subset(Whole(), [0, 1]), "has-getitems"),
    ],
)
def test_other_datasets_are_refused(dataset, problem):
    with pytest.raises(Refused, match=problem):
        _fetched(dataset, [0, 1])


def test_another_collate_function_and_other_batches_are_refused():
    with pytest.raises(Refused, match="own-collate"):
        _fetched(TENSORS, [0, 1], collate=list)
    with pytest.raises(Refused, match="samples-differ"):
        _fetched(Counting(torch.zeros(40)), [0, 1])


def test_a_loader_without_workers_tries_it_on_its_own_fetcher():
    data = Noting(torch.arange(40), torch.rand(40, 3))
    loader = DataLoader(data, batch_size=8)
    edits = (getitems.edit(True),)
    found = arms.changed(loader, {}, False, edits)
    deal = Deal(iter(loader._index_sampler))
    arm = arms.opened(found, deal, DataLoader.__iter__, _BaseDataLoaderIter.__next__, edits)
    arm.begin()
    batches = [arm.draw() for _ in range(5)]
    assert data.looks[-3:] == [[*range(first, first + 8)] for first in (16, 24, 32)]
    assert all(map(_same, batches, loader))
    with pytest.raises(Refused, match="no-workers"):
        arms.changed(loader, {}, False, (*edits, arms.Edit()))


def test_it_is_offered_where_samples_are_only_taken(tmp_path):
    path = tmp_path / "train.py"
    assert getitems.propose(_figures(path), []) is not None
    for figures in (
        _figures(path, wait_share=0.01),
        _figures(path, rows=(ROWS[0], ("ImageFile.load", "decode", 0.4))),
        _figures(tmp_path / "other.py", TEXT.replace("self.y[index]", "index")),
        replace(_figures(path), settings={"num_workers": 2, "batch_size": 1}),
    ):
        assert getitems.propose(figures, []) is None


def _figures(path, text=TEXT, rows=ROWS, **how):
    found = seen_with(path, text, *rows, **how)
    settings = {**found.settings, "batch_size": 8}
    return replace(found, loader=replace(found.loader, dataset="Table"), settings=settings)


@pytest.mark.parametrize("plain", [TEXT, OTHER])
@pytest.mark.parametrize(
    ("call", "after"),
    [
        ("DataLoader(Table(), batch_size=8)",
         "DataLoader(InOneLook(Table()), batch_size=8, collate_fn=InOneLook.as_tensors)"),
        ("DataLoader(batch_size=8, dataset=(Table()))",
         "DataLoader(batch_size=8, dataset=(InOneLook(Table())), collate_fn=InOneLook.as_tensors)"),
        ("DataLoader(batch_size=8, dataset=Table())",
         "DataLoader(batch_size=8, dataset=InOneLook(Table()), collate_fn=InOneLook.as_tensors)"),
    ],
)  # fmt: skip
def test_what_is_written_gives_the_same_and_other_loaders_stay(call, after, plain, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = f"{plain.replace('DataLoader(Table(), batch_size=8)', call)}validation = DataLoader(Table(), batch_size=5)\n"
    figures = _figures(tmp_path / "train.py", text)
    change = getitems.propose(figures, [])
    assert written(figures.made, change).snippet.after == (f"loader = {after}",)
    (tmp_path / "fix.diff").write_text(written(figures.made, change).diff)
    subprocess.run(["git", "init", "-q"], check=True)
    subprocess.run(["git", "apply", "fix.diff"], check=True)
    before, then = {}, {}
    exec(compile(text, "before", "exec"), before)
    exec(compile((tmp_path / "train.py").read_text(), "after", "exec"), then)
    for name in ("loader", "validation"):
        assert all(map(_same, before[name], then[name])) and len(before[name]) == len(then[name])


def test_where_the_call_is_not_known_it_is_told(tmp_path):
    figures = _figures(tmp_path / "train.py", TEXT.replace("batch_size=8", "**more"))
    change = getitems.propose(figures, [])
    assert change.rewrites == () and change.how == getitems.HOW and change.edits == {"getitems": {"only_itself": True}}


def test_code_for_a_batch_is_told_where_the_dataset_needs_it(tmp_path):
    change = getitems.propose(_figures(tmp_path / "train.py", OTHER.replace("batch_size=8", "**more")), [])
    assert change.rewrites == () and change.edits == {"getitems": {"only_itself": False}}
    assert (
        "    x = np.stack([self.x[index, 0].astype(np.float32), self.x[index, 1].astype(np.float32)], 1)" in change.how
    )


def test_a_batch_by_other_code_is_that_of_collate():
    dataset = Vectors()
    batches, _ = _fetched(dataset, [0, 2], [1], [3, 0, 0])
    for found, indices in zip(batches, ([0, 2], [1], [3, 0, 0]), strict=True):
        assert _same(found, default_collate([dataset[one] for one in indices]))
    with pytest.raises(Refused, match="no-rows"):
        _fetched(dataset, [0, 2], only_itself=True)


@pytest.mark.parametrize("dataset", [TENSORS, Subset(Table(), [5, 3, 1, 0])])
def test_the_written_class_takes_any_indices_and_goes_to_other_processes(dataset):
    found = pickle.loads(pickle.dumps(getitems.InOneLook(dataset)))
    inner = vars(found)["one_look_into"]
    assert len(found) == len(dataset) and type(inner) is type(dataset)
    for indices in ([3, 1], (3, 1), np.array([3, 1])):  # as samplers of batches give them
        assert _same(getitems.InOneLook.as_tensors(found.__getitems__(indices)), _collated(dataset, [3, 1]))
    found.epoch = 3
    assert inner.epoch == found.epoch == 3 and getattr(found, "dataset", None) is getattr(inner, "dataset", None)


def _collated(dataset, indices):
    return default_collate([dataset[one] for one in indices])
