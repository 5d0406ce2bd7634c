"""Outputs of any type are taken apart into leaves that can be compared."""

import array
import collections
import dataclasses
import enum
import hashlib
import io
import mmap
import pathlib

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision import tv_tensors

from pipebench.compare import leaves
from pipebench.compare.leaves import Leaves

Pair = collections.namedtuple("Pair", "image label")


class Colour(enum.Enum):
    RED = 1


@dataclasses.dataclass
class Sample:
    image: object
    name: str = "one"


class Slotted:
    __slots__ = ("size",)

    def __init__(self, size):
        self.size = size


def taken(value, **options):
    made = Leaves(**options)
    made.add("output", "[0]", value)
    return made


def digests(value):
    return taken(value).found


def picture(level=7):
    return Image.new("RGB", (4, 3), (level, 0, 0))


def boxes(form):
    return tv_tensors.BoundingBoxes(torch.tensor([[0, 0, 2, 2]]), format=form, canvas_size=(4, 4))


def weighing(weight):
    made = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.constant_(made.weight, weight)
    return made


class Labelled:
    def __init__(self, label):
        self.label = label

    def __array__(self, dtype=None, copy=None):
        return np.zeros(2)


ANOTHER_MIDDLE = torch.arange(5000).index_fill(0, torch.tensor([2500]), 0)  # where its repr has an ellipsis


def read_to_its_end(file):
    file.read()
    return file


def mapped(contents):
    made = mmap.mmap(-1, len(contents))
    made[:] = contents
    return made


CHANGES = {
    "tensor": (torch.zeros(3, 2), torch.tensor([[0.0, 0], [0, 0], [0, 1]])),
    "scalar tensor": (torch.tensor(1.0), torch.tensor(2.0)),
    "bfloat16": (torch.zeros(2, dtype=torch.bfloat16), torch.ones(2, dtype=torch.bfloat16)),
    "image tensor": (tv_tensors.Image(torch.zeros(3, 2, 2)), tv_tensors.Image(torch.ones(3, 2, 2))),
    "sparse tensor": (torch.eye(3).to_sparse(), (2 * torch.eye(3)).to_sparse()),
    "ragged tensor": (
        torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]),
        torch.nested.nested_tensor([torch.zeros(2), torch.zeros(4)]),
    ),
    "array": (np.zeros((2, 2), np.uint8), np.ones((2, 2), np.uint8)),
    "array of objects": (np.array([1, "a"], object), np.array([1, "b"], object)),
    "array of records": (np.zeros(2, [("a", "u1")]), np.ones(2, [("a", "u1")])),
    "masked array": (np.ma.masked_equal([1, 2], 1), np.ma.masked_equal([1, 2], 2)),
    "number of NumPy": (np.float32(1), np.float32(2)),
    "picture": (picture(), picture(8)),
    "dict": ({"a": 1, "b": [2]}, {"a": 1, "b": [3]}),
    "another key": ({"a": 1}, {"b": 1}),
    "named tuple": (Pair(1, 2), Pair(1, 3)),
    "numbers": ([1, 2, 3], [1, 2, 4]),
    "ragged numbers": ([[1], [2, 3]], [[1, 2], [3]]),
    "bytes": (b"abc", b"abd"),
    "text": ("abc", "abd"),
    "set": ({1, 2}, {1, 3}),
    "nothing": (None, 0),
    "enumeration": (Colour.RED, 1),
    "path": (pathlib.Path("a"), pathlib.Path("b")),
    "dataclass": (Sample(torch.zeros(2)), Sample(torch.ones(2))),
    "slots": (Slotted(1), Slotted(2)),
    "type of the container": ([1, "a"], (1, "a")),
    "type of the number": ([1, 2], [1.0, 2.0]),
    "dtype": (torch.zeros(2), torch.zeros(2, dtype=torch.float64)),
    "function": (digests, taken),
    "layout": (torch.eye(3), torch.eye(3).to_sparse()),
    "scale": tuple(torch.quantize_per_tensor(torch.arange(4.0) * by, by, 0, torch.qint8) for by in (1.0, 0.5)),
    "module": (weighing(1.0), weighing(2.0)),
    "attribute of a tensor": (boxes("XYXY"), boxes("XYWH")),
    "attribute beside an array": (Labelled(1), Labelled(2)),
    "values of a dict": ({"a": torch.arange(5000)}.values(), {"a": ANOTHER_MIDDLE}.values()),
    "deque": (collections.deque(["a", "b"]), collections.deque(["a", "c"])),
    "type of a deque": (collections.deque([1]), [1]),
    "file in memory": (io.BytesIO(b"one"), io.BytesIO(b"two")),
    "text in memory": (io.StringIO("one"), io.StringIO("two")),
    "place in a file in memory": (io.BytesIO(b"one"), read_to_its_end(io.BytesIO(b"one"))),
    "array of the standard library": (array.array("d", [1.0]), array.array("d", [2.0])),
    "memory of a file": (mapped(b"one"), mapped(b"two")),
    "items of a dict": ({"a": torch.arange(5000)}.items(), {"a": ANOTHER_MIDDLE}.items()),
}


@pytest.mark.parametrize(("one", "other"), CHANGES.values(), ids=CHANGES)
def test_another_value_has_other_leaves_and_the_same_has_the_same(one, other):
    assert digests(one) == digests(one)
    assert digests(one) != digests(other)
    assert not taken(one).unread


def test_a_leaf_says_where_it_is_and_what():
    found = [one[1:5] for one in digests((torch.zeros(3, 2), {"label": 5}))]
    assert found == [
        ("[0]", "tuple", (2,), ""),
        ("[0][0]", "Tensor", (3, 2), "float32"),
        ("[0][1]", "dict", (), "'label'"),
        ("[0][1]['label']", "int", (), "int"),
    ]


def test_a_picture_that_was_opened_is_the_one_that_was_copied(tmp_path):
    picture().save(tmp_path / "one.png")
    opened = Image.open(tmp_path / "one.png")
    opened.load()
    assert digests(opened) == digests(picture())


def test_a_picture_that_is_still_to_be_decoded_is_another_output(tmp_path):
    """Who returns it has skipped that work, and whoever uses it pays."""
    picture().save(tmp_path / "one.png")
    ((*_, kind, shape, mode, digest),) = digests(Image.open(tmp_path / "one.png"))
    assert kind == "Image, not yet decoded"
    assert (shape, mode, digest) == digests(picture())[0][3:]


def test_the_order_of_a_dict_and_the_memory_of_an_array_do_not_matter():
    one, other = {"a": 1, "b": 2}, {"b": 2, "a": 1}
    assert digests(one) == digests(other) and digests(one.items()) == digests(other.items())
    assert digests(np.arange(6).reshape(2, 3).T.copy()) == digests(np.arange(6).reshape(2, 3).T)
    assert digests(torch.arange(6).reshape(2, 3).T.contiguous()) == digests(torch.arange(6).reshape(2, 3).T)


def test_the_order_of_a_set_in_a_set_does_not_matter():
    one, other = frozenset([0, 8]), frozenset([8, 0])
    assert repr(one) != repr(other)
    assert digests({one}) == digests({other})
    assert digests({(1, one)}) == digests({(1, other)})


def test_the_folder_of_the_commit_is_the_same_on_both_sides():
    for make in (str, pathlib.Path):
        found = [taken({"path": make(f"/cache/{sha}/a.jpg")}, folder=f"/cache/{sha}").found for sha in ("12", "34")]
        assert found[0] == found[1]
    assert digests("/cache/12/a.jpg") != digests("/cache/34/a.jpg")


def test_what_cannot_be_read_is_named_and_only_its_type_counts():
    one, other = (taken({"what": hashlib.sha256(text), "label": 1}) for text in (b"1", b"2"))
    assert one.unread == {"HASH"} and one.found == other.found
    assert taken(object()).unread == {"object"}


def test_a_generator_is_not_compared_by_where_it_lies():
    one, other = (one for one in [1]), (one for one in [1])
    assert taken(one).unread == {"generator"} and digests(one) == digests(other)


def test_a_value_that_raises_is_unknown_and_not_an_error():
    class Broken(dict):
        def items(self):
            raise RuntimeError("no")

    assert taken(Broken(a=1)).unread == {"Broken"}


def test_a_value_that_contains_itself_ends():
    around = [1, "a"]
    around.append(around)
    assert digests(around)[-1][2] == "repeated"


def test_what_comes_after_the_most_leaves_is_one_leaf(monkeypatch):
    monkeypatch.setattr(leaves, "MOST_LEAVES", 5)
    many, other = (["a"] * 9 + [end] for end in ("a", "b"))
    assert len(digests(many)) == 6 and digests(many)[-1][1] == "the rest"
    assert digests(many) != digests(other)


@pytest.mark.parametrize(
    "value", [torch.arange(3.0), np.arange(3.0, dtype=np.float32), [0.0, 1.0, 2.0], torch.arange(3).bfloat16()]
)
def test_the_numbers_of_a_leaf_can_be_fetched(value):
    ((dtype, raw),) = taken(value, wanted=[0]).contents.values()
    assert np.frombuffer(raw, dtype).tolist() == [0, 1, 2]
    assert taken(value, wanted=[1]).contents == {}
