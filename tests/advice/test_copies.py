"""Copies of small views of large memory: the same values, in memory of their own."""

from dataclasses import replace

import pytest
import small_worker
import torch
from made_up_trials import host, seen
from torchvision import tv_tensors

from pipebench.remedies import copies
from pipebench.remedies.seen import Seen
from pipebench.render import watch_details
from pipebench.results.hand_off import HandOff
from pipebench.watch.trial.edits import Refused

RECORDING = torch.arange(1000.0)
SHARED = torch.arange(1000.0).share_memory_()


class Windows:
    def __getitem__(self, index):
        return {"window": RECORDING[index : index + 10], "label": index}


def _fetched(collate, batches=([0, 5], [9])):
    return small_worker.fetched(Windows(), copies.edit(), batches, collate)


def test_the_script_gets_the_same_values_in_memory_of_their_own():
    (first, second) = _fetched(list, ([0, 50], [9]))
    assert [one["label"] for one in first] == [0, 50] and second[0]["window"].tolist() == [*range(9, 19)]
    assert all(one["window"].untyped_storage().nbytes() == 40 for one in (*first, *second))


def test_windows_that_overlap_in_a_batch_stay_as_they_are():
    ((first, second, third), _) = _fetched(list, ([0, 5, 30], [9]))
    assert first["window"].data_ptr() == RECORDING.data_ptr()
    assert second["window"].data_ptr() == RECORDING[5:].data_ptr()
    assert third["window"].untyped_storage().nbytes() == 40 and third["window"].tolist() == [*range(30, 40)]


def test_a_window_within_a_longer_one_stays_though_another_stands_between():
    windows = [RECORDING[:300], RECORDING[10:20], RECORDING[100:110], RECORDING[400:410]]
    ((*within, apart),) = _fetched(lambda samples: windows, ([0],))
    assert [one.data_ptr() for one in within] == [one.data_ptr() for one in windows[:3]]
    assert apart.untyped_storage().nbytes() == 40


def test_the_kind_of_an_image_stays():
    image = tv_tensors.Image(torch.zeros(3, 50, 50))
    ((found,),) = _fetched(lambda samples: [tv_tensors.wrap(image[:, :9, :9], like=image)], ([0],))
    assert type(found) is tv_tensors.Image and found.untyped_storage().nbytes() == 3 * 81 * 4


@pytest.mark.parametrize(
    "collate",
    [
        torch.utils.data.default_collate,
        lambda samples: [RECORDING[:600]],
        lambda samples: RECORDING.t(),
        lambda samples: torch.nn.Parameter(RECORDING)[:3],
        lambda samples: [one["label"] for one in samples],
        lambda samples: [SHARED[:3]],
    ],
    ids=["stacked", "half", "whole", "with-gradient", "numbers", "shared-already"],
)
def test_what_has_nothing_to_copy_is_refused_after_some_batches(collate):
    assert len(_fetched(collate, [[0]] * (copies._TRIES - 1))) == copies._TRIES - 1
    with pytest.raises(Refused, match="no-views"):
        _fetched(collate, [[0]] * copies._TRIES)


def _seen(pickled_s=0.02, **more) -> Seen:
    figures = seen(0.5)
    handed = HandOff(pickled_s, pickled_s, 500.0, 100, tensors_per_batch=8, **more)
    return replace(figures, watched=replace(figures.watched, hand_off=handed))


VIEWS = {"shared_bytes_per_batch": 16e6, "viewed_bytes_per_batch": 15e6}


def test_it_is_offered_where_most_of_what_crosses_belongs_to_no_tensor():
    change = copies.propose(_seen(**VIEWS), [])
    assert change is not None and not change.asked_for and not change.discards and change.predicted == 2.0
    for shared, viewed in ((40e6, 15e6), (1e6, 0.9e6), (16e6, 0.0)):
        assert copies.propose(_seen(shared_bytes_per_batch=shared, viewed_bytes_per_batch=viewed), []) is None
    assert copies.propose(_seen(shared_bytes_per_batch=16e6), []) is None
    assert copies.propose(_seen(0.0001, **VIEWS), []) is None  # pickling takes next to nothing


def test_each_copy_needs_a_descriptor():
    figures = _seen(**VIEWS)
    few = replace(host(), descriptor_limit=100, sharing_strategy="file_descriptor")
    assert copies.propose(replace(figures, watched=replace(figures.watched, host=few)), []) is None


def test_the_report_says_how_much_the_tensors_hold():
    handed = _seen(shared_bytes_per_batch=16e6, viewed_bytes_per_batch=15.5e6).watched.hand_off
    told = " ".join(watch_details.hand_off(handed))
    assert "A batch holds 8 tensors of 500 kB. They are views of 16.0 MB, which crosses." in told
