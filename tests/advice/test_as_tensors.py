"""Batches that cross as tensors: the script gets exactly what it got, and the trial is offered where it can matter."""

import functools
import pickle
import types
from dataclasses import replace

import numpy as np
import pytest
import small_worker
import torch
from fakes import Loader, Script, World
from made_up_trials import host, seen

from pipebench.advise.trial import Trial
from pipebench.remedies import as_tensors
from pipebench.results.hand_off import HandOff
from pipebench.results.watched import WaitPart
from pipebench.watch.record.patches import Patches
from pipebench.watch.record.trial_lines import FunctionPlace, LoaderMade, TrialWindow
from pipebench.watch.trial import arms, edits
from pipebench.watch.trial.edits import Difference, GivenBack, Refused, Sent, edited, unpacked

FLOATS = [float(one) for one in range(100)]
ARRAY = np.arange(12, dtype=np.float32).reshape(3, 4)
MADE = LoaderMade(1, "train.py", 3, 3, 0, 40, "main", 100, collate=FunctionPlace("collate", "train.py", 7))


@pytest.fixture(autouse=True)
def small_arrays_count(monkeypatch):
    monkeypatch.setattr(as_tensors, "LEAST_ARRAY", -1)
    monkeypatch.setattr(as_tensors, "LEAST_LIST", 64 * 8)


def test_small_arrays_stay_arrays(monkeypatch):
    """Each tensor holds a file descriptor as long as somebody has it: a loop that kept its labels had thousands."""
    monkeypatch.undo()
    small, large = np.zeros(100), np.zeros(as_tensors.LEAST_ARRAY, dtype=np.uint8)
    few, many = [1.0] * 1000, [[1.0, 2.0]] * 600
    found = as_tensors.as_tensors({"labels": small, "images": large, "few": few, "many": many})
    assert found["labels"] is small and type(found["images"]) is as_tensors.Packed
    assert found["few"] == few and type(found["many"]) is as_tensors.Packed


def _crossed(batch):
    """A batch at the script's end of the pipe, after it was packed in a worker."""
    return as_tensors.restored(pickle.loads(pickle.dumps(as_tensors.as_tensors(batch))))


@pytest.mark.parametrize(
    ("array", "packed"),
    [
        (ARRAY, True), (ARRAY.T, True), (ARRAY[:, ::2], True), (ARRAY[::-1], True), (np.array(3.0), True),
        (np.zeros((0, 3)), True), (np.arange(3, dtype=np.uint8), True), (np.ones(2, dtype=bool), True),
        (np.ones(3, dtype=">f4"), False), (np.array(["a", "b"]), False), (np.array([None]), False),
        (np.broadcast_to(np.float32(1), (2, 2)), True),
    ],
)  # fmt: skip
def test_an_array_comes_back_as_pickle_would_bring_it(array, packed):
    batch = as_tensors.as_tensors([array, 1])
    assert (type(batch[0]) is as_tensors.Packed) is packed
    found, plain = _crossed([array, 1])[0], pickle.loads(pickle.dumps(array))
    assert type(found) is type(plain) and found.dtype == plain.dtype and found.shape == plain.shape
    assert found.tobytes("K") == plain.tobytes("K") and found.flags.writeable
    assert (found.flags.c_contiguous, found.flags.f_contiguous) == (plain.flags.c_contiguous, plain.flags.f_contiguous)


def test_lists_of_numbers_cross_as_one_tensor():
    rows = [FLOATS, FLOATS[::-1]]
    batch = {"numbers": FLOATS, "rows": rows, "few": [1.0, 2.0], "mixed": [*FLOATS, 1], "uneven": [FLOATS, FLOATS[1:]]}
    packed = as_tensors.as_tensors(batch)
    assert [type(one) is as_tensors.Packed for one in packed.values()] == [True, True, False, False, False]
    found = _crossed(batch)
    assert found == batch and type(found["numbers"][3]) is float and type(found["mixed"][-1]) is int


def test_arrays_of_one_shape_cross_as_one_tensor():
    batch = [ARRAY, ARRAY + 1, ARRAY + 2]
    assert as_tensors.as_tensors(batch).what == "list"
    found = _crossed(batch)
    assert type(found) is list and all((one == two).all() for one, two in zip(found, batch, strict=True))
    for other in ([ARRAY, ARRAY[:2]], [ARRAY, ARRAY.astype(np.float64)], [ARRAY, None], [ARRAY.T, ARRAY.T]):
        assert type(as_tensors.as_tensors(other)) is list
        assert str(_crossed(other)) == str(other)


def test_everything_else_is_left_as_it_is_and_the_batch_is_not_changed():
    tensor, own = torch.ones(2), types.SimpleNamespace(array=ARRAY)
    masked = np.ma.masked_array([1, 2], [0, 1])
    batch = {"both": (ARRAY, ARRAY), "tensor": tensor, "own": own, "none": None, "masked": masked}
    packed = as_tensors.as_tensors(batch)
    assert batch["both"][0] is ARRAY and packed["tensor"] is tensor and packed["own"] is own
    assert packed["masked"] is masked
    assert packed["both"][0] is packed["both"][1]
    found = as_tensors.restored(packed)
    assert found["both"][0] is found["both"][1] and found["none"] is None


def test_the_worker_packs_what_its_collate_function_returns():
    fetcher = small_worker.fetcher([ARRAY], np.stack)
    made = (as_tensors.edit(),)
    edited(fetcher, made, Patches())
    sent = fetcher.collate_fn([ARRAY, ARRAY])
    assert type(sent) is as_tensors.Packed and isinstance(fetcher.collate_fn, functools.partial)
    assert (unpacked(sent, made, lambda note: None) == np.stack([ARRAY, ARRAY])).all()


def test_what_is_refused_in_a_worker_is_told_in_the_script():
    class Refusing(type(as_tensors.edit())):
        def in_worker(self, fetcher, patches):
            raise Refused("no-arrays")

    fetcher = small_worker.fetcher([1])
    edited(fetcher, (Refusing(),), Patches())
    sent = fetcher.fetch([0])
    assert type(sent) is Sent
    with pytest.raises(Refused, match="no-arrays"):
        unpacked(sent, (Refusing(),), lambda note: None)


def test_what_a_worker_tells_is_taken_out():
    notes, told = [], Difference(0.1, 0.01, 1.0, 5)
    assert unpacked(Sent([1], [told, "else"]), (), notes.append) == [1] and notes == [told]


def _seen(pipe_bytes, serialise_s, unpickle_s=0.0, **how):
    parts = (WaitPart("unpickle", unpickle_s, 0.5),)
    found = seen(0.5, **how)
    hand_off = HandOff(serialise_s, serialise_s, pipe_bytes, 100)
    return replace(found, made=MADE, watched=replace(found.watched, hand_off=hand_off, wait_parts=parts))


def test_it_is_offered_where_much_is_pickled_and_that_takes_time():
    change = as_tensors.propose(_seen(12e6, 0.05), [])
    assert change.edits == {"as_tensors": {}} and not change.discards and change.at.name == "collate"
    assert as_tensors.propose(_seen(12e6, 0.0, 0.01), []) is not None
    for found in (_seen(12e6, 0.001), _seen(5e4, 0.05), _seen(12e6, 0.05, num_workers=0), seen(0.5)):
        assert as_tensors.propose(found, []) is None


def test_it_is_not_offered_where_shared_memory_is_too_small():
    found = _seen(12e6, 0.05)
    small = replace(host(), shared_memory_size_bytes=64_000_000, shared_memory_bytes=0)
    assert as_tensors.propose(replace(found, watched=replace(found.watched, host=small)), []) is None
    large = replace(small, shared_memory_size_bytes=2_000_000_000)
    assert as_tensors.propose(replace(found, watched=replace(found.watched, host=large)), []) is not None


def test_what_it_takes_to_give_lists_back_is_told_for_each_batch():
    """The share of a trial's windows follows from it: a script that takes the tensors does without."""
    edit, notes = as_tensors.edit(), []
    got = unpacked(as_tensors.as_tensors({"points": FLOATS}), [edit], notes.append)
    assert got == {"points": FLOATS} and [type(one) for one in notes] == [GivenBack] and notes[0].seconds >= 0
    windows = [TrialWindow(1, 0, False, 2.0, 10), TrialWindow(1, 0, True, 4.0, 10, given_back_s=3.0)]
    assert Trial(1, windows).given_back() == 0.75 and Trial(1, []).given_back() == 0.0


@pytest.mark.parametrize(("waited_s", "saved_s"), [(0.0, 0.5), (0.1, 0.25), (2.0, -4.5)])
def test_a_loop_that_waits_for_workers_would_wait_for_as_much_longer(monkeypatch, waited_s, saved_s):
    """Giving the lists back takes 0.5 s."""
    monkeypatch.setattr(arms, "perf_counter", iter([0.0, waited_s]).__next__)
    monkeypatch.setattr(edits, "time", types.SimpleNamespace(perf_counter=iter([0.0, 0.5]).__next__))
    hand = types.SimpleNamespace(came=lambda tasks: None, open=True)
    loader = type("Iterator", (), {"_num_workers": 2, "_task_info": {}})()
    sent = as_tensors.as_tensors({"points": FLOATS})
    arm = arms.Arm(loader, hand, lambda iterator: sent, edits=[as_tensors.edit()])
    assert arm.draw() == {"points": FLOATS}
    assert [one.seconds for one in arm.notes] == [pytest.approx(saved_s)]


def test_what_is_given_back_counts_in_windows_and_not_below_zero(tmp_path, monkeypatch):
    found = Script(tmp_path, monkeypatch, Loader(World(), [[0]])).trial
    for seconds, timed in ((-90.0, False), (0.5, True), (0.1, True)):
        found.told(types.SimpleNamespace(notes=[GivenBack(seconds)]), timed)
    lines: list = []
    monkeypatch.setattr(found.recording, "write", lines.append)
    found.turn = 1
    found.window(1, 9.0, 10)
    found.told(types.SimpleNamespace(notes=[GivenBack(-5.0)]), True)
    found.turn = 1
    found.window(1, 9.0, 10)
    assert [one.given_back_s for one in lines] == [pytest.approx(3.0), 0.0]


@pytest.mark.parametrize(
    ("numbers", "tensors"),
    [
        ([[[1.0, 2.0]] * 20, [[3.0, 4.0]] * 20], 1),  # outlines of one length
        ([*range(100)], 1),  # tokens
        ([[*range(70)], [*range(70)]], 1),
        ([*range(99), 2**63], 0), ([-(2**63) + 1, *range(99)], 1), ([*range(99), True], 0), ([*range(99), 1.0], 0),
        ([[[1.0] * 70], [[1.0] * 71]], 2),  # of other lengths: each for itself
        ([[]] * 99, 0), ([[1.0], 1.0] * 50, 0),
    ],
)  # fmt: skip
def test_nested_lists_cross_as_one_tensor_if_their_lengths_are_the_same(numbers, tensors):
    packed = as_tensors.as_tensors(numbers)

    def counted(found):
        return isinstance(found, as_tensors.Packed) or (isinstance(found, list) and sum(map(counted, found)))

    assert int(counted(packed)) == tensors
    assert repr(as_tensors.restored(packed)) == repr(numbers)
