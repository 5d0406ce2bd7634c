"""Many small tensors that cross from a worker in one of each type: the script gets the same batch."""

import pickle
import subprocess
import sys
from collections import namedtuple
from dataclasses import replace
from multiprocessing.reduction import ForkingPickler

import numpy as np
import pytest
import torch
from jpeg_files import seen_with
from small_worker import fetched
from torch.utils.data import DataLoader, get_worker_info

from pipebench.advise.snippet import written
from pipebench.remedies import in_one_tensor
from pipebench.remedies.in_one_tensor import InOneTensor
from pipebench.results.hand_off import HandOff
from pipebench.watch.record.trial_lines import FunctionPlace
from pipebench.watch.trial.edits import Refused
from pipebench.watch.trial.memo import copied, same

TEXT = """import torch
from torch.utils.data import DataLoader


class Events:
    def __len__(self):
        return 12

    def __getitem__(self, index):
        return {"hits": torch.arange(index), "label": torch.tensor(index)}


def as_list(events):
    return events


if __name__ == "__main__":
    loader = DataLoader(Events(), batch_size=4, num_workers=2, collate_fn=as_list)
    print([[(one["hits"].tolist(), int(one["label"])) for one in batch] for batch in loader])
"""
Pair = namedtuple("Pair", "one other")


class Boxes:
    """An object that cannot be compared."""

    def __init__(self, number):
        self.corners, self.number = torch.full((number % 3, 4), float(number)), number
        self.image = torch.full((3, 160, 160), number, dtype=torch.uint8)  # too large to be one of the small ones


class Events:
    def __len__(self):
        return 8

    def __getitem__(self, index):
        hits = torch.arange(index)
        return {
            "hits": hits,
            "again": hits,
            "pair": Pair(torch.tensor(index), torch.tensor(index > 3)),
            "half": [torch.ones(2, 3).half().T, torch.zeros(0, 4)],
            "array": np.arange(index),
            "boxes": Boxes(index),
            "weight": torch.nn.Parameter(torch.ones(1), requires_grad=False),
            "name": str(index),
        }


def _is_event(found, index):
    plain = Events()[index]
    assert found["hits"] is found["again"] and torch.equal(found["hits"], plain["hits"])
    assert type(found["pair"]) is Pair and int(found["pair"].one) == index and bool(found["pair"].other) == (index > 3)
    assert all(one.shape == other.shape and one.dtype == other.dtype and torch.equal(one, other)
               for one, other in zip(found["half"], plain["half"], strict=True))  # fmt: skip
    assert found["array"].tolist() == [*range(index)] and found["name"] == str(index)
    assert torch.equal(found["boxes"].corners, plain["boxes"].corners)
    assert torch.equal(found["boxes"].image, plain["boxes"].image)
    assert type(found["weight"]) is torch.nn.Parameter
    return True


def _identity(samples):
    return samples


@pytest.mark.parametrize("strategy", sorted(torch.multiprocessing.get_all_sharing_strategies()))
def test_the_script_gets_the_same_batches(strategy, monkeypatch):
    before = torch.multiprocessing.get_sharing_strategy()
    torch.multiprocessing.set_sharing_strategy(strategy)
    try:
        loader = DataLoader(Events(), batch_size=3, num_workers=2, collate_fn=InOneTensor(_identity))
        found = [one for batch in loader for one in batch]
    finally:
        torch.multiprocessing.set_sharing_strategy(before)
    assert len(found) == 8 and all(_is_event(one, index) for index, one in enumerate(found))
    hits = [one["hits"] for one in found[3:6]]
    assert len({one.untyped_storage().data_ptr() for one in hits}) == 1  # of one batch
    assert all(one.data_ptr() % 16 == 0 for one in hits)  # so that it can be viewed as another type
    before = hits[1]._version
    hits[0].fill_(7)
    assert hits[1].tolist() == [0, 1, 2, 3] and hits[1]._version == before and not hits[1]._is_view()


def test_without_workers_it_gives_what_it_is_given():
    assert get_worker_info() is None
    batch = [torch.ones(1)]
    assert InOneTensor(_identity)(batch) is batch


@pytest.mark.parametrize(
    "other",
    [
        torch.ones(2).to_sparse(),
        torch.ones(2, 3).T,
        torch.ones(1, requires_grad=True),
        torch.ones(20_000),
    ],
)
def test_other_tensors_go_as_before(other):
    assert [len(one) for one in InOneTensor.Sent([other, torch.ones(3)]).parts[2]] == [1]


def test_so_do_those_with_attributes():
    marked = torch.ones(2)
    marked.origin = "x"
    assert [len(one) for one in InOneTensor.Sent([marked, torch.ones(3)]).parts[2]] == [1]


@pytest.mark.parametrize("kind", [torch.uint16, torch.float8_e5m2, torch.complex64, torch.bool, torch.bfloat16])
def test_every_type_crosses(kind, monkeypatch):
    batch = [torch.tensor(one).to(kind) for one in (0.0, 1.0, 2.0)]
    if not same(batch, copied(batch)):  # float8 with torch 2.4
        pytest.skip(f"this torch cannot compare {kind}, so it is refused")
    monkeypatch.setattr("torch.utils.data.get_worker_info", lambda: 1)
    (sent,) = fetched(batch, in_one_tensor.edit(), [[0, 1, 2]])
    got = pickle.loads(ForkingPickler.dumps(sent))
    assert [one.dtype for one in got] == [kind] * 3
    assert [bytes(one.view(-1).view(torch.uint8)) for one in got] == [
        bytes(one.view(-1).view(torch.uint8)) for one in batch
    ]


def test_attributes_are_those_of_the_collate_function():
    class Padding:
        side = "left"

        def __call__(self, samples):
            return samples, self.side

    plain = Padding()
    found = pickle.loads(pickle.dumps(InOneTensor(_identity))) and InOneTensor(plain)
    found.side = "right"
    assert plain.side == found.side == "right" and found([1]) == ([1], "right") and not hasattr(found, "other")


def test_a_worker_sends_it_and_compares_the_first_batch(monkeypatch):
    monkeypatch.setattr("torch.utils.data.get_worker_info", lambda: 1)
    batches = fetched(Events(), in_one_tensor.edit(), [[0, 3], [7]])
    assert [type(one) for one in batches] == [InOneTensor.Sent] * 2
    for batch, indices in zip(batches, ([0, 3], [7]), strict=True):
        got = pickle.loads(ForkingPickler.dumps(batch))
        assert all(_is_event(one, index) for one, index in zip(got, indices, strict=True))


class Odd:
    """It becomes something else on its way."""

    def __reduce__(self):
        return torch.tensor, (3,)


def test_a_batch_that_would_differ_is_refused():
    with pytest.raises(Refused, match="samples-differ"):
        fetched([Odd()], in_one_tensor.edit(), [[0]])


def _figures(path, tensors=100.0, text=TEXT, **how):
    found = seen_with(path, text, **how)
    hand_off = HandOff(0.05, 0.05, 1000.0, 20, tensors_per_batch=tensors)
    loader = replace(found.loader, s_per_iteration=0.1)
    found = replace(found, made=replace(found.made, collate=FunctionPlace("as_list", str(path), 13)))
    return replace(found, watched=replace(found.watched, hand_off=hand_off), loader=loader)


def test_it_is_offered_where_many_tensors_cross(tmp_path):
    path = tmp_path / "train.py"
    found = in_one_tensor.propose(_figures(path), [])
    assert found.edits == {"in_one_tensor": {}} and not found.asked_for
    assert found.predicted is None  # the loop also maps the shared memory outside its waits
    for figures in (
        _figures(path, 8.0),
        _figures(path, None),
        replace(_figures(path), watched=seen_with(path, TEXT).watched),
        replace(_figures(path), settings={"num_workers": 0}),
        replace(_figures(path), loader=replace(found_loader(path), s_per_iteration=100.0)),
    ):
        assert in_one_tensor.propose(figures, []) is None


def found_loader(path):
    return _figures(path).loader


@pytest.mark.parametrize(
    ("call", "after"),
    [
        ("collate_fn=as_list)", "collate_fn=InOneTensor(as_list))"),
        pytest.param(
            "collate_fn=lambda some: some)", "collate_fn=InOneTensor(lambda some: some))", marks=pytest.mark.slow
        ),
        pytest.param("collate_fn=list)", "collate_fn=InOneTensor(list))", marks=pytest.mark.slow),
    ],
)
def test_what_is_written_gives_the_same(call, after, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = TEXT.replace("collate_fn=as_list)", call)
    figures = _figures(tmp_path / "train.py", text=text)
    if "list)" in after and "as_list" not in after:  # no function with a place of its own
        figures = replace(figures, made=replace(figures.made, collate=None))
    change = in_one_tensor.propose(figures, [])
    found = written(figures.made, change)
    assert found.snippet.after[0].endswith(after)
    before = subprocess.run([sys.executable, "train.py"], capture_output=True, text=True, check=True).stdout
    (tmp_path / "fix.diff").write_text(found.diff)
    subprocess.run(["git", "init", "-q"], check=True)
    subprocess.run(["git", "apply", "fix.diff"], check=True)
    assert subprocess.run([sys.executable, "train.py"], capture_output=True, text=True, check=True).stdout == before


@pytest.mark.parametrize(
    ("call", "own"),
    [
        ("num_workers=2)", True),  # a partial call, or a class, may give one
        ("**more)", True),
        ("num_workers=2, collate_fn=getattr(Events, 'pad', None))", False),  # torch's own, at run time
        ("num_workers=2, collate_fn=list); (list := str)", False),
    ],
)
def test_nothing_is_written_where_the_call_does_not_show_the_function(call, own, tmp_path):
    text = TEXT.replace("num_workers=2, collate_fn=as_list)", call)
    figures = _figures(tmp_path / "train.py", text=text)
    made = figures.made if own else replace(figures.made, collate=None)
    change = in_one_tensor.propose(replace(figures, made=made), [])
    assert change.rewrites == () and change.how == in_one_tensor.HOW
