"""Other inputs of a function that is timed on one: how they are made, and how a cache shows on them."""

import dataclasses
import functools
import io
import os
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from pipebench.compare import one_pass, other_inputs
from pipebench.compare.leaves import Leaves

IMAGE = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
Named = namedtuple("Named", "image label")


@dataclasses.dataclass
class Data:
    image: np.ndarray
    label: int


def contents(value):
    taken = Leaves()
    taken.add("output", "", value)
    return list(taken.found)


def others(tmp_path, number=0, way=other_inputs.WAYS[0]):
    return other_inputs.Others(number, way, str(tmp_path))


def get(value):
    return value


@pytest.mark.parametrize(
    "value",
    [
        IMAGE, np.zeros((3, 3)), torch.arange(6).reshape(2, 3), torch.zeros(4), b"\xff\xd8 jpeg", bytearray(b"raw"),
        Image.fromarray(IMAGE), Image.new("L", (3, 3)), [IMAGE, 3], {"image": IMAGE, "label": 7},
        Named(IMAGE, 2), Data(IMAGE, 3), [0.1, 0.2, 0.3], (4, 5, 6), [1, 2, 3, 4],
    ],
    ids=lambda one: type(one).__name__,
)  # fmt: skip
def test_an_input_has_other_contents_and_nothing_else_is_other(value, tmp_path):
    before = contents(value)
    made = [others(tmp_path, number).call(functools.partial(get, value))() for number in (0, 1)]
    found = [contents(one) for one in [value, *made]]
    assert contents(value) == before and found[0] != found[1] != found[2] and type(made[0]) is type(value)
    byte = isinstance(value, bytes | bytearray)  # it has one more at its end
    assert byte or [leaf[:5] for leaf in found[0]] == [leaf[:5] for leaf in found[1]] == [leaf[:5] for leaf in found[2]]


@pytest.mark.parametrize(
    "value",
    [7, 0.5, "RGB", None, (224, 224), object(), "no/such/file.jpg", np.array([]), np.array([3, 4]), torch.tensor(3)],
)
def test_what_may_be_a_size_or_a_name_is_not_exchanged(value, tmp_path):
    assert others(tmp_path).call(functools.partial(get, value)) is None


@pytest.mark.parametrize("kind", [str, Path])
def test_a_path_leads_to_the_same_file_by_another_name(kind, tmp_path, monkeypatch):
    links = tmp_path / "links"
    links.mkdir()
    (tmp_path / "photo.jpg").write_text("photo")
    monkeypatch.chdir(tmp_path)
    made = others(links).call(functools.partial(get, kind("photo.jpg")))()
    assert type(made) is type(kind("x")) and os.fspath(made) != str(tmp_path / "photo.jpg")
    assert Path(made).read_text() == "photo" and Path(made).parent.name == tmp_path.name


def test_the_inputs_of_a_closure_of_its_functions_of_a_default_and_of_a_method_are_found(tmp_path):
    class Holder:
        image = None

        def __init__(self):
            self.image, self.size = IMAGE, 3

        def get(self):
            return self.image

    def closed():
        image = IMAGE
        inner = lambda: image  # noqa: E731
        return lambda: inner()

    image, holder = IMAGE, Holder()
    for call in (lambda: image, closed(), lambda image=IMAGE: image, holder.get, functools.partial(holder.get)):
        made = others(tmp_path).call(call)()
        assert made.shape == IMAGE.shape and not np.array_equal(made, IMAGE)
    assert holder.image is IMAGE


def test_arguments_come_before_what_the_function_has_around_it(tmp_path):
    table = IMAGE.copy()

    def look_up(index):
        return table, index

    made = others(tmp_path).call(functools.partial(look_up, IMAGE))()
    assert made[0] is table and made[1] is not IMAGE


def work(image):
    total = 0
    for one in image.reshape(-1).tolist():
        total = (31 * total + one) % 1_000_003
    return total


def by_content(image, memo={}):  # noqa: B006  # it is a memo
    key = image.tobytes()
    if key not in memo:
        memo[key] = work(image)
    return memo[key]


def by_identity(image, memo={}):  # noqa: B006
    if id(image) not in memo:
        memo[id(image)] = work(image)
    return memo[id(image)]


def last_one(image, memo={}):  # noqa: B006
    if memo.get("key") != image.tobytes():
        memo.update(key=image.tobytes(), answer=work(image))
    return memo["answer"]


def by_shape(image, memo={}):  # noqa: B006
    return memo.setdefault(image.shape, None) or memo.update({image.shape: work(image)}) or memo[image.shape]


def with_a_table(image, table=[]):  # noqa: B006
    if not table:
        table += [one * one for one in range(256)]
    return work(image) + table[3]


def examine(call, fresh=None):
    for _ in range(3):
        call()
    seed = functools.partial(one_pass.seed, 0)
    return other_inputs.examined(call, fresh or (lambda: call), seed, one_pass.Steps, contents)


@pytest.mark.parametrize(
    ("function", "repeated", "unchanged"),
    [(work, 0, 0), (with_a_table, 0, 0), (by_content, 3, 0), (by_identity, 3, 0), (last_one, 3, 0), (by_shape, 0, 3)],
)
def test_a_cache_is_seen_whatever_its_key_and_a_table_is_none(function, repeated, unchanged):
    found = {"repeated": (repeated, 3), "unchanged": (unchanged, 3)}
    assert examine(functools.partial(function, IMAGE)) == found
    assert examine(lambda: function(IMAGE)) == {"unseen": "none of its inputs can be exchanged for another"}


def test_a_cache_by_path_is_seen(tmp_path):
    (tmp_path / "image.npy").write_bytes(b"")
    np.save(tmp_path / "image.npy", IMAGE)

    @functools.lru_cache
    def load(path):
        return work(np.load(path))

    found = examine(functools.partial(load, str(tmp_path / "image.npy")))
    assert found["repeated"] == (3, 3)
    plain = examine(functools.partial(load.__wrapped__, str(tmp_path / "image.npy")))
    assert plain["repeated"] == (0, 3)


def test_bytes_that_must_keep_their_length_are_tried_another_way():
    def load(raw):
        return work(np.frombuffer(raw, np.uint16))

    assert examine(functools.partial(load, bytes(range(48)))) == {"repeated": (0, 3), "unchanged": (0, 3)}


def test_encoded_images_have_one_more_byte():
    buffer = io.BytesIO()
    Image.fromarray(IMAGE).save(buffer, "PNG")

    def decode(raw):
        return work(np.asarray(Image.open(io.BytesIO(raw))))

    found = examine(functools.partial(decode, buffer.getvalue()))
    assert found == {"repeated": (0, 3), "unchanged": (3, 3)}  # the same image, on both sides of a comparison
    assert examine(functools.partial(functools.cache(decode), buffer.getvalue()))["repeated"] == (3, 3)


def test_a_function_that_refuses_other_inputs_says_so():
    def picky(raw):
        if raw != b"mine":
            raise KeyError("other")

    assert examine(functools.partial(picky, b"mine")) == {"unseen": "it does not work on other inputs (KeyError)"}


def test_an_input_that_the_call_changes_is_made_anew():
    def bubbles(values):
        for end in range(len(values)):
            for at in range(len(values) - 1 - end):
                if values[at] > values[at + 1]:
                    values[at], values[at + 1] = values[at + 1], values[at]

    numbers = [5.0, 4.0, 3.0, 2.0, 1.0]
    found = examine(lambda: None, lambda: functools.partial(bubbles, list(numbers)))
    assert found["repeated"] == (0, 3)


def test_a_slow_call_is_made_on_one_other_input(monkeypatch):
    ticks = iter([0.0, 0.6])
    monkeypatch.setattr(other_inputs.time, "perf_counter", lambda: next(ticks))
    assert examine(functools.partial(work, IMAGE))["repeated"] == (0, 1)
    monkeypatch.setattr(other_inputs.time, "perf_counter", iter([0.0, 6.0]).__next__)
    assert examine(functools.partial(work, IMAGE)) == {"unseen": "a call takes too long to count its steps"}


def test_nothing_is_left_in_the_folder_of_links(tmp_path, monkeypatch):
    links = tmp_path / "links"
    monkeypatch.setattr(other_inputs.tempfile, "mkdtemp", lambda prefix, dir: links.mkdir() or str(links))
    examine(functools.partial(os.path.getsize, __file__))
    assert not links.exists() and Path(__file__).exists()
