"""Code that makes samples from rows, and what is written from it for a whole batch: as collating the samples gives."""

import ast
import functools

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Subset, TensorDataset, default_collate

from pipebench.remedies.getitems import InOneLook
from pipebench.watch.trial.edits import Refused
from pipebench.watch.trial.indexing import looking
from pipebench.watch.trial.row_code import read

MEAN, STD = np.float32([1.0, 2.0, 3.0]), 0.5
KEYS = ["a", "b"]


def _code(text):
    lines = "".join(f"    {one.strip()}\n" for one in text.split(";"))
    return ast.parse(f"def __getitem__(self, i):\n{lines}").body[0]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("return self.x[i]", {"x"}),
        ("return torch.from_numpy(self.x[i]).float(), self.y[i]", {"x", "y"}),
        ("return {'a': [self.x[i] / 255.0], 'b': self.y[i].astype(np.int64, copy=False)}", {"x", "y"}),
        ("x = self.x[i]; y = 1 - x; return y, torch.tensor(self.z[i], dtype=torch.long)", {"x", "z"}),
        ("return self.x[i] - self.y[i] * self.scale", {"x", "y"}),
        ("return {k: self.t[k][i] for k in KEYS}", {"t"}),
        ("x, y = self.x[i], self.y[i]; return x.div(255), (y - self.mean) / (self.std + 1e-8)", {"x", "y"}),
    ],
)
def test_code_that_only_takes_rows_is_known_and_stays_as_it_is(text, names):
    found = read(_code(text))
    assert found.rows == names and found.plain


@pytest.mark.parametrize(
    "text",
    [
        "return self.x[i] if i else self.x[0]",
        "return self.x[i + 1]",
        "return self.x[i : i + 8]",
        "return self.x[0, i]",
        "return self.x[i].mean()",
        "return self.x[i].sum(0)",
        "return self.x[i].sigmoid()",
        "return self.x[i].permute(*self.order)",
        "return self.x[i].permute(self.order)",
        "return self.x[i].permute(ORDER)",
        "return self.x[i].transpose((2, 0, k))",
        "return self.x[i].unsqueeze(self.dim)",
        "return self.x[i].unsqueeze((0, 1))",
        "return self.x[i].reshape(2, self.n)",
        "return self.x[i].flatten(1)",
        "return self.x[i].div(self.y[i])",
        "return self.x[i].clip(0, self.most)",
        "return np.clip(self.x[i], 0, 1, out=self.out)",
        "return np.nan_to_num(self.x[i], copy=False)",
        "return np.nan_to_num(self.x[i], False)",
        "return self.x[i] * self.mask[i].unsqueeze(0)",
        "x = self.x[i][None]; return x * self.y[i]",
        "return np.stack([self.x[i], self.y[i]]) * self.z[i]",
        "return self.x[i, 0] * self.y[i]",
        "if self.x[i]: return 1; return self.x[i]",
        "x, y = self.x[i]; return x",
        "x, self.y = self.x[i], self.x[i]; return x",
        "x, i = self.x[i], self.x[i]; return x",
        "x, y = self.x[i], 1; return x",
        "return self.x[i].max()",
        "return np.mean(self.x[i])",
        "return self.x[i][self.y[i]]",
        "return self.x[i][i]",
        "return self.x[i] @ 2",
        "return self.x[i] // 2",
        "return self.x[i], i",
        "return self.transform(self.x[i])",
        "return helper(self.x[i])",
        "return torch.tensor(i)",
        "return self.x[i].to(self.device(i))",
        "return self.x[i].to(**self.options)",
        "i = i % 5; return self.x[i]",
        "i = int(i + 1); return self.x[i]",
        "x = self.x[i]; x[0] = 1; return x",
        "x = self.x[i]; x += 1; return x",
        "self.y = self.x[i]; return self.y",
        "time.sleep(1); return self.x[i]",
        "return {**self.x[i]}",
        "return {k: self.t[k][i] for k in KEYS if k}",
        "return {k: self.t[k][i] for k in self.keys()}",
        "return {self.y[i]: self.x[i]}",
        "return [self.x[i] for i in KEYS]",
        "return [self.t[k][i] for k in KEYS for j in KEYS]",
        "return self.x[i].T",
        "return self.x[i].transpose(1, 0)",
        "return self.x[i].permute(2, 0, -2)",
        "return self.x[i].reshape(self.shape)",
        "return self.x[i].view(np.uint8)",
        "return self.x[i][..., 0]",
        "return torch.stack(self.x[i])",
        "return torch.stack([self.x[i], 1])",
        "return torch.stack([])",
        "return torch.stack([self.x[i]], dim=self.axis)",
        "return np.stack([self.x[i]], 0, out=self.out)",
        "return np.array([self.x[i]], self.kind[i])",
        "return torch.tensor([k for k in KEYS])",
        "return np.random.rand(3) + self.x[i]",
        "return self.x[i] + np.random.rand()",
        "return int(i)",
        "return int(self.x[i], 2)",
        "return str(self.y[i])",
        "return self.x[i].item()",
        "return lambda: self.x[i]",
        "return (x := self.x[i])",
        "x = y = self.x[i]; return x",
        "x, y = self.x[i]; return x",
        "row = {}; row[i] = self.x[i]; return row",
        "row = self.rows; row['a'] = self.x[i]; return row",
        "return self.x[i]; return self.y[i]",
        "return None",
        "x = self.x[i]",
        "return 1",
        "return self.x[1]",
        "return other.x[i]",
        "yield self.x[i]",
        "global MEAN; return self.x[i]",
    ],
)
def test_anything_else_is_not(text):
    assert read(_code(text)) is None


def test_only_a_plain_getter_is_read():
    for text in (
        "@cached\ndef __getitem__(self, index):\n    return self.x[index]",
        "def __getitem__(self, index, more=1):\n    return self.x[index]",
        "def __getitem__(self, *index):\n    return self.x[index]",
        "async def __getitem__(self, index):\n    return self.x[index]",
        "__getitem__ = 3",
    ):
        assert read(ast.parse(text).body[0]) is None


class Rows:
    """Rows of some shapes. Each dataset of a test is one of these with another `__getitem__`."""

    CONSTANT = 3
    names = ("a", "b")

    def __init__(self):
        some = np.random.default_rng(0)
        self.x = some.normal(size=(40, 3)).astype(np.float32)
        self.images = some.integers(0, 255, (40, 4, 5, 3), np.uint8)
        self.tensors = torch.from_numpy(some.normal(size=(40, 3)))
        self.y = some.integers(0, 9, 40)
        self.z, self.large = some.random(40), some.integers(1 << 24, 1 << 40, 40)
        self.table = {one: some.random(40).astype(np.float32) for one in KEYS}
        self.mean, self.scale = some.random(3).astype(np.float32), 2.0

    def __len__(self):
        return 40


class Logged(Rows):
    def __getitem__(self, i):
        """One row of a log."""
        row = {k: torch.as_tensor(self.table[k][i]) for k in KEYS}
        row["dense"] = torch.stack([torch.as_tensor(np.log1p(self.table["a"][i])), torch.as_tensor(self.z[i]).float()])
        row["x"] = torch.as_tensor(self.x[i])
        return row


class Labelled(Rows):
    def __getitem__(self, i):
        x = (self.x[i] - MEAN) / STD
        return torch.from_numpy(x), int(self.y[i]), float(self.z[i])


class Numbered(Rows):
    def __getitem__(self, i):
        if torch.is_tensor(i):
            i = i.tolist()
        i = int(i)
        return {"x": (self.x[i] - self.mean) * self.scale - self.CONSTANT, "y": torch.tensor(int(self.y[i]))}


class Pictures(Rows):
    transform = None

    def __getitem__(self, i):
        image = torch.from_numpy(self.images[i]).permute((2, 0, 1)).float() / 255
        if self.transform is not None:
            image = self.transform(image)
        return (
            image,
            image,
            self.images[i].transpose(2, 0, 1)[:2, ::2],
            self.images[i].reshape(-1),
            self.images[i][None],
        )


class Shaped(Rows):
    def __getitem__(self, i):
        x = self.tensors[i].unsqueeze(0)
        behind = self.tensors[i].unsqueeze(-1)
        return [x, behind, self.tensors[i].view(3, 1), self.x[i, 0], self.x[i, 1:], -self.x[i][1]]


class Joined(Rows):
    def __getitem__(self, i):
        one, other = self.x[i], self.tensors[i]
        both = np.concatenate([one, other])
        return both, np.stack([self.x[i], self.x[i]], axis=-1), torch.cat([self.tensors[i], self.tensors[i]], dim=0)


class Vectors(Rows):
    def __getitem__(self, i):
        return {
            "array": np.array([self.z[i], self.y[i]], dtype=np.float32),
            "tensor": torch.tensor([self.table["a"][i], self.table["b"][i]], dtype=torch.float32),
            "listed": np.array([np.sqrt(self.table[k][i]) for k in self.names]),
            "y": torch.tensor(self.y[i], dtype=torch.long),
            "z": torch.tensor(float(self.z[i])),
            "exact": torch.tensor([self.large[i], self.x[i, 0]], dtype=torch.float64),
            "flat": self.images[i].ravel(),
        }


CASES = [Logged, Labelled, Numbered, Pictures, Shaped, Joined, Vectors]


def _same(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(_same, one, other))
    alike = one.dtype == other.dtype and one.shape == other.shape and one.stride() == other.stride()
    return alike and torch.equal(one, other)


def _tensors(found):
    if isinstance(found, torch.Tensor):
        yield found
    else:
        for one in found.values() if isinstance(found, dict) else found:
            yield from _tensors(one)


@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize("indices", [[0, 2, 5, 39], [7], [3, 0, 0], (1, 2), np.array([4, 8])])
@pytest.mark.filterwarnings("error")
def test_the_code_for_a_batch_gives_what_collating_its_samples_gives(kind, indices):
    dataset = kind()
    found = InOneLook.as_tensors(looking(dataset, False)(indices))
    assert _same(found, default_collate([dataset[one] for one in indices]))
    assert len({one.data_ptr() for one in _tensors(found)}) == len([*_tensors(found)])


@pytest.mark.parametrize("kind", CASES)
def test_such_code_is_refused_where_the_dataset_itself_must_give_a_batch(kind):
    with pytest.raises(Refused, match="no-rows"):
        looking(kind(), True)
    with pytest.raises(Refused, match="no-rows"):
        looking(torch.utils.data.Subset(kind(), [0, 1]), False)


class Made:
    x = property(lambda self: np.zeros((4, 3)))

    def __getitem__(self, i):
        return self.x[i]


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        (Labelled, "y", [*range(40)]),
        (Logged, "table", {"a": [1.0] * 40}),
        (Logged, "table", {}),
        (Numbered, "mean", "text"),
        (Numbered, "scale", [object()]),
        (Made, "other", 1),
    ],
)
def test_what_holds_no_arrays_and_no_constants_is_refused(kind, name, value):
    dataset = kind()
    setattr(dataset, name, value)
    with pytest.raises(Refused, match="no-rows"):
        looking(dataset, False)


class Weighted(Rows):
    def __getitem__(self, i):
        return self.tensors[i] * self.z[i]


class Halved(Rows):
    def __getitem__(self, i):
        return np.exp(self.x[i]), self.x[i]


class Cached(Rows):
    __getitem__ = functools.lru_cache(None)(Labelled.__getitem__)


class Counted(Rows):
    @functools.wraps(Labelled.__getitem__)
    def __getitem__(self, i):
        return Labelled.__getitem__(self, i)


@pytest.mark.parametrize(
    ("dataset", "changed"),
    [
        (Weighted(), {}),  # rows of other dimensions
        (Halved(), {"x": np.zeros((4, 3), np.float16)}),
        (Cached(), {}),
        (Counted(), {}),
        (Pictures(), {"transform": abs}),
        (Numbered(), {"x": np.ma.masked_array(np.zeros((4, 3)))}),
        (Subset(Rows(), torch.arange(3)), {}),
        (Subset(Rows(), [*torch.arange(3)]), {}),
    ],
)
def test_what_may_differ_in_a_later_batch_is_refused(dataset, changed):
    for name, value in changed.items():
        setattr(dataset, name, value)
    with pytest.raises(Refused, match="no-rows"):
        looking(dataset, False)


def test_indices_that_are_tensors_are_numbers():
    data = TensorDataset(torch.rand(40, 6))
    for batch in torch.randperm(40).split(31):
        found = looking(data, True)([*batch])
        assert torch.equal(found[0], data.tensors[0][batch])
        assert torch.equal(InOneLook(data).__getitems__([*batch])[0], data.tensors[0][batch])


def test_a_loop_may_change_a_batch_in_place():
    loader = DataLoader(InOneLook(TensorDataset(*[torch.zeros(4, 2)] * 2)), 4, collate_fn=InOneLook.as_tensors)
    one, other = next(iter(loader))
    one.add_(1)
    assert other.sum() == 0 and next(iter(loader))[0].sum() == 0


@pytest.mark.parametrize(("kind", "name", "value"), [(Vectors, "np", torch), (Labelled, "torch", np)])
def test_names_that_are_other_modules_are_refused(kind, name, value, monkeypatch):
    dataset = kind()
    monkeypatch.setitem(globals(), name, value)
    with pytest.raises(Refused, match="no-rows"):
        looking(dataset, False)
