"""Whether two sides did the same work, from what they showed."""

import numpy as np
import pytest
import torch

from pipebench.compare.leaves import Leaves
from pipebench.compare.same_work import Examined, Shown, examined, judged, same, to_fetch
from pipebench.results.comparison import NOTHING, Outputs


def shown(*outputs, samples=4, repeated=(0, 4), given=(), unseen=()):
    taken = Leaves(wanted=range(100))
    for part, values in (("input", given), ("output", outputs), ("unseen", unseen)):
        for index, value in enumerate(values):
            taken.add(part, f"[{index}]", value)
    return Shown(tuple(taken.found), samples, repeated, tuple(taken.unread), taken.contents)


def ruling(base, head, **options):
    return judged([base] * 3, [head] * 3, **options)


IMAGE = torch.arange(3 * 4 * 4, dtype=torch.uint8).reshape(3, 4, 4)


def test_equal_outputs_are_the_same():
    assert same(shown(IMAGE), shown(IMAGE)) and ruling(shown(IMAGE), shown(IMAGE)).state == "same"


@pytest.mark.parametrize("outputs", [(), (None, None), ([None, None],)])
def test_where_nothing_is_returned_nothing_is_equal(outputs):
    found = ruling(shown(*outputs), shown(*outputs))
    assert (found.state, found.reason) == ("unknown", NOTHING)
    assert not found.compared


def test_an_empty_list_is_an_output_and_nothing_instead_of_one_is_another():
    assert ruling(shown([]), shown([])).state == "same"
    assert ruling(shown(IMAGE), shown(None)).state == "changed"
    assert ruling(shown(samples=4), shown(samples=3)).state == "changed"


@pytest.mark.parametrize(
    ("head", "kind", "had", "has"),
    [
        (shown(IMAGE[:, ::2, ::2]), "shape", (3, 4, 4), (3, 2, 2)),
        (shown(IMAGE.float()), "dtype", "uint8", "float32"),
        (shown(IMAGE.numpy()), "structure", "Tensor", "ndarray"),
        (shown(IMAGE, IMAGE), "structure", "nothing", "Tensor"),
        (shown(IMAGE, samples=3), "samples", "4", "3"),
    ],
)
def test_the_difference_is_named(head, kind, had, has):
    found = ruling(shown(IMAGE), head)
    assert found.state == "changed" and found.difference.kind == kind
    sizes = kind == "shape"
    one = found.difference
    assert ((one.base_shape, one.head_shape) if sizes else (one.base, one.head)) == (had, has)


def test_wrong_values_are_counted_with_the_largest_and_the_mean():
    other = IMAGE.clone()
    other[0, 0, 0] += 6
    other[0, 0, 1] += 2
    one = ruling(shown(IMAGE, IMAGE), shown(IMAGE, other)).difference
    assert (one.kind, one.place, one.leaves, one.all_leaves) == ("values", "[1]", 1, 2)
    assert (one.share, one.largest, one.mean) == (2 / 48, 6.0, 8 / 48)


def test_only_what_differs_is_fetched_and_not_more_than_fits():
    base, head = shown(IMAGE, IMAGE, IMAGE), shown(IMAGE, IMAGE + 1, IMAGE + 1)
    assert to_fetch(base, head, most_bytes=10_000) == [1, 2]
    assert to_fetch(base, head, most_bytes=1) == [1]
    assert to_fetch(base, shown(IMAGE), most_bytes=1) == []


@pytest.mark.parametrize(
    ("base", "head", "state"),
    [
        (torch.full((9,), 0.3), torch.full((9,), 0.3) * (1 + 2**-22), "close"),
        (torch.full((9,), 0.3), torch.full((9,), 0.3001), "changed"),
        (torch.ones(9, dtype=torch.bfloat16), torch.full((9,), 1 + 2**-7, dtype=torch.bfloat16), "changed"),
        (torch.zeros(9, dtype=torch.bfloat16), -torch.zeros(9, dtype=torch.bfloat16), "close"),
        (torch.zeros(9, dtype=torch.complex64), -torch.zeros(9, dtype=torch.complex64), "close"),
        (np.array([0, np.nan], np.float16), np.array([-0.0, -np.nan], np.float16), "close"),
        (torch.tensor([1.0, np.nan]), torch.tensor([1.0, 2.0]), "changed"),
        (torch.tensor([1.0, np.inf]), torch.tensor([1.0 + 2**-22, np.inf]), "close"),
        (torch.ones(9, dtype=torch.uint8), torch.full((9,), 2, dtype=torch.uint8), "changed"),
    ],
)
def test_rounding_of_floats_is_close_and_nothing_else_is(base, head, state):
    assert ruling(shown(base), shown(head)).state == state


def test_values_whose_contents_were_not_fetched_are_never_close():
    base, head = (shown(torch.full((9,), value)) for value in (0.3, 0.3 * (1 + 2**-22)))
    bare = [Shown(one.leaves, one.samples, one.repeated, (), {}) for one in (base, head)]
    assert ruling(*bare).state == "changed"


def test_the_tolerance_of_the_task_decides_about_values_only():
    other = shown(IMAGE + 1)
    assert ruling(shown(IMAGE), other, within=lambda: True).state == "close"
    assert ruling(shown(IMAGE), other, within=lambda: False).state == "changed"
    assert ruling(shown(IMAGE), shown(IMAGE.float()), within=lambda: True).state == "changed"


def timed(*seconds):
    return [shown({"image": IMAGE, "time": second}) for second in seconds]


def test_what_the_base_does_not_return_twice_is_not_held_against_the_head():
    noisy, steady = timed(0.0, 1.0, 2.0), timed(9.0, 9.0, 9.0)
    for head, sides in ((steady, ("base",)), (timed(3.0, 4.0, 5.0), ("base", "head"))):
        found = judged(noisy, head)
        assert (found.state, found.sides, found.place) == ("unrepeatable", sides, "[0]['time']")


def test_what_only_the_head_does_not_return_twice_is_a_change():
    found = judged(timed(9.0, 9.0, 9.0), timed(0.0, 1.0, 2.0))
    assert (found.state, found.difference.kind, found.difference.place) == ("changed", "unrepeatable", "[0]['time']")


def test_rounding_that_varies_in_the_head_is_no_change():
    sums = [shown(torch.full((9,), 0.3) * (1 + turn * 2**-23)) for turn in (1, 2, 1)]
    base = [shown(torch.full((9,), 0.3))] * 3
    assert (judged(base, sums).state, judged(base, sums).sides) == ("unrepeatable", ("head",))
    assert judged(base, [shown(torch.rand(9)) for _ in range(3)]).state == "changed"
    varying = [shown(IMAGE + turn) for turn in range(3)]
    assert judged([shown(IMAGE)] * 3, varying, lambda: True).state == "unrepeatable"  # the task tolerates it
    assert judged([shown(IMAGE)] * 3, varying).state == "changed"


@pytest.mark.parametrize(("image", "kind"), [(IMAGE[:, :2], "shape"), (IMAGE + 1, "values")])
def test_what_is_repeatable_beside_it_is_compared_all_the_same(image, kind):
    base, head = ([shown({"image": one, "time": float(second)}) for second in range(3)] for one in (IMAGE, image))
    found = judged(base, head)
    assert (found.state, found.difference.kind, found.difference.place) == ("changed", kind, "[0]['image']")


def test_noise_of_half_the_size_is_a_change():
    base, head = ([shown(torch.rand(size)) for _ in range(3)] for size in (8, 4))
    assert judged(base, head).difference.kind == "shape"


@pytest.mark.parametrize("make", [lambda turn: [torch.rand(2 + turn)], lambda turn: [1.5] * (1 + turn)])
def test_a_shape_or_a_number_of_outputs_that_varies_in_the_head_alone_is_a_change(make):
    varying, steady = [shown(*make(turn)) for turn in range(3)], [shown(*make(7))] * 3
    assert (judged(varying, steady).state, judged(varying, steady).sides) == ("unrepeatable", ("base",))
    assert judged(varying, varying).sides == ("base", "head")
    found = judged(steady, varying)
    assert (found.state, found.difference.kind) == ("changed", "unrepeatable")


def test_a_cache_that_other_inputs_show_is_a_change_unless_both_have_it():
    honest, cached = Examined((0, 3), (0, 3)), Examined((3, 3), (0, 3))
    known = Outputs("same")
    assert examined(known, honest, honest) == known
    found = examined(known, honest, cached)
    assert (found.state, found.difference.kind, found.difference.head) == ("changed", "cached", "True")
    assert examined(known, cached, honest).difference.base == "True"
    assert examined(known, cached, cached) == Outputs("same", cached=("base", "head"))
    assert examined(known, honest, Examined((1, 3), (0, 3))) == known


def test_an_answer_that_ignores_its_input_is_a_change_where_the_other_does_not():
    honest, ignoring = Examined((0, 3), (0, 3)), Examined((0, 3), (3, 3))
    found = examined(Outputs("same"), honest, ignoring)
    assert (found.state, found.difference.kind, found.difference.leaves) == ("changed", "ignored", 3)
    assert examined(Outputs("same"), ignoring, ignoring).state == "same"
    assert examined(Outputs("same"), Examined((0, 3), (1, 3)), ignoring).state == "same"  # the inputs tell nothing


def test_where_one_side_cannot_be_called_on_other_inputs_the_reason_is_kept():
    found = examined(Outputs("close"), Examined((3, 3), (0, 3)), Examined(unseen="no inputs"))
    assert found == Outputs("close", unseen="no inputs")


def test_a_cache_on_one_side_is_a_change_and_on_both_it_is_said():
    cached = shown(IMAGE, repeated=(3, 4))
    one = ruling(shown(IMAGE), cached).difference
    assert (one.kind, one.leaves, one.all_leaves, one.head) == ("cached", 3, 4, "True")
    found = ruling(cached, cached)
    assert found.state == "same" and found.cached == ("base", "head")
    assert ruling(shown(IMAGE), shown(IMAGE, repeated=(1, 4))).state == "same"


def test_an_answer_that_ignores_its_input_is_found_by_the_inputs_that_were_not_timed():
    found = ruling(shown(IMAGE, unseen=[IMAGE + 1]), shown(IMAGE, unseen=[IMAGE]))
    assert (found.state, found.difference.part) == ("changed", "unseen")


def test_where_already_the_inputs_differ_the_stage_before_is_named():
    found = ruling(shown(IMAGE, given=[1]), shown(IMAGE[:, :2], given=[2]))
    assert (found.difference.part, found.difference.kind) == ("input", "values")
    assert ruling(shown(IMAGE, given=[1]), shown(IMAGE, given=[2])).state == "same"


def test_types_whose_contents_are_unknown_are_named():
    assert ruling(shown(object()), shown(object())).unread == ("object",)
