"""What a memo serves: the first result of each call site, and never one that somebody has changed."""

import types

import numpy as np
import pytest
import torch
from PIL import Image

from pipebench.watch.trial.edits import Refused
from pipebench.watch.trial.memo import Kept, Memo, copied, of_call, same, settle


def _image(value=7):
    return Image.new("RGB", (4, 3), (value, 0, 0))


VALUES = [
    (torch.ones(3), torch.zeros(3)), (np.ones(3), np.zeros(3)), (_image(), _image(8)), ([1, 2.0], [1, 3.0]),
    ((torch.ones(2), 3), (torch.zeros(2), 3)), ({"image": np.ones(2), "id": "a"}, {"image": np.ones(2), "id": "b"}),
    ("text", "other"), (torch.ones(2), torch.ones(2, dtype=torch.float64)),
]  # fmt: skip


@pytest.mark.parametrize(("value", "other"), VALUES, ids=[str(place) for place in range(len(VALUES))])
def test_values_are_compared_by_all_that_they_hold(value, other):
    assert same(value, copied(value)) and not same(value, other)


@pytest.mark.parametrize("value", [torch.tensor([1.0, torch.nan]), np.array([np.nan, 1j]), float("nan")], ids=str)
def test_what_is_no_number_in_both_is_equal(value):
    """As in maps of depth with holes."""
    assert same([value], [copied(value)]) and not same(value, 3.0 if isinstance(value, float) else value * 2)


@pytest.mark.parametrize("value", [torch.ones(3), np.ones(3), {"x": [np.ones(2)]}, (torch.ones(2), 1)])
def test_a_copy_shares_nothing(value):
    found = copied(value)
    inner = found["x"][0] if isinstance(found, dict) else found[0] if isinstance(found, tuple) else found
    inner[0] = 5
    assert not same(found, value)


def test_what_torch_cannot_compare_is_not_the_same(monkeypatch):
    def equal(one, other):
        raise RuntimeError("\"equal_cpu\" not implemented for 'Float8_e5m2'")

    monkeypatch.setattr("torch.equal", equal)
    assert not same(torch.ones(2), torch.ones(2)) and not same([torch.ones(2)], [torch.ones(2)])


def test_what_nobody_changes_is_served_itself():
    first = torch.ones(3)
    kept = Kept(first)
    assert all(kept.serve() is first for _ in range(20))


@pytest.mark.parametrize("when", [0, 1, 2, 5])
def test_what_somebody_changes_is_served_as_copies_from_then_on(when):
    kept = Kept(torch.ones(3))
    for number in range(40):
        found = kept.serve()
        if number == when:
            found.mul_(2)
    late = [kept.serve() for _ in range(2)]
    assert late[0] is not late[1] and all(torch.equal(one, torch.ones(3)) for one in late)


def test_where_no_copy_is_allowed_a_change_is_refused():
    kept = Kept(np.ones(3), copies=False)
    kept.serve()[0] = 3
    with pytest.raises(Refused, match="changed-in-place"):
        kept.serve()


def _caller(memo, plain):
    def served(*args):
        return of_call(memo, None, plain, args, {})

    return [served(1), served(2)], served


def test_each_call_site_and_each_kind_of_argument_has_its_own_result():
    calls = []
    plain = lambda value: calls.append(value) or value  # noqa: E731
    found, served = _caller(Memo(), plain)
    assert found == [1, 2] and calls == [1, 2]  # two places
    assert [served(value) for value in (3, 4, 5)] == [3, 3, 3]
    assert [served(value) for value in (3, "a", 5, "b")] == [3, "a", 3, "a"]


def test_a_lazy_image_is_decoded_before_its_memo_is_served():
    loads = []
    lazy = types.SimpleNamespace(tile=[1], load=lambda: loads.append(1))
    settle(lazy), settle([lazy]), settle({"image": (lazy, 3)}), settle(types.SimpleNamespace(tile=[]))
    assert loads == [1, 1, 1]
