"""Copies of small views of large memory: the same values, in memory of their own."""

from dataclasses import replace

import pytest
import small_worker
import torch
from made_up_trials import seen

from pipebench.remedies import copies
from pipebench.remedies.seen import Seen
from pipebench.render import watch_details
from pipebench.results.hand_off import HandOff
from pipebench.watch.trial.edits import Refused

RECORDING = torch.arange(1000.0)


class Windows:
    def __getitem__(self, index):
        return {"window": RECORDING[index : index + 10], "label": index}


def _fetched(collate):
    return small_worker.fetched(Windows(), copies.edit(), [[0, 5], [9]], collate)


def test_the_script_gets_the_same_values_in_memory_of_their_own():
    (first, second) = _fetched(list)
    assert [one["label"] for one in first] == [0, 5] and second[0]["window"].tolist() == [*range(9, 19)]
    assert all(one["window"].untyped_storage().nbytes() == 40 for one in (*first, *second))


@pytest.mark.parametrize(
    "collate",
    [
        torch.utils.data.default_collate,
        lambda samples: [RECORDING[:600]],
        lambda samples: RECORDING.t(),
        lambda samples: torch.nn.Parameter(RECORDING)[:3],
        lambda samples: [one["label"] for one in samples],
    ],
    ids=["stacked", "half", "whole", "with-gradient", "numbers"],
)
def test_what_has_nothing_to_copy_is_refused(collate):
    with pytest.raises(Refused, match="no-views"):
        _fetched(collate)


def _seen(**more) -> Seen:
    figures = seen(0.5)
    handed = HandOff(0.01, 0.01, 500.0, 100, tensors_per_batch=8, **more)
    return replace(figures, watched=replace(figures.watched, hand_off=handed))


def test_it_is_offered_where_most_of_what_crosses_is_of_no_tensor():
    change = copies.propose(_seen(shared_bytes_per_batch=16e6, viewed_bytes_per_batch=15e6), [])
    assert change is not None and change.asked_for and not change.discards and change.predicted == 2.0
    for shared, viewed in ((40e6, 15e6), (1e6, 0.9e6), (16e6, 0.0)):
        assert copies.propose(_seen(shared_bytes_per_batch=shared, viewed_bytes_per_batch=viewed), []) is None
    assert copies.propose(_seen(shared_bytes_per_batch=16e6), []) is None


def test_the_report_says_how_much_the_tensors_hold():
    told = " ".join(
        watch_details.hand_off(
            HandOff(
                0.01,
                0.01,
                500.0,
                100,
                100,
                tensors_per_batch=8,
                shared_bytes_per_batch=16e6,
                viewed_bytes_per_batch=15.5e6,
            )
        )
    )
    assert "8 tensors in 16.0 MB of shared memory, of which the tensors hold 500 kB: they are views" in told
