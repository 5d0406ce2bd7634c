"""Changes of the script that a cause asks for: they are predicted from the account, and nothing is tried."""

from dataclasses import replace

import pytest
from made_up_trials import seen

from pipebench.remedies import divide_first, fewer_fields, in_workers, like_lengths, one_row, padding, select_first
from pipebench.results.account import Account, AccountRow, Cause

PLACE = {"file": "train.py", "line": 71, "function": "augment"}


@pytest.mark.parametrize(
    ("remedy", "cause", "how"),
    [
        (in_workers, Cause("prepare", 6.0, 4.0, 1, PLACE), "collate_fn"),
        (padding, Cause("padding", 4.0, 4.0, 1, {"share": 0.8}), "max(len(one) for one in samples)"),
        (one_row, Cause("many-tensors", 4.0, 4.0, 1, {"tensors": 301}), "as one array or tensor"),
        (like_lengths, Cause("unequal-lengths", 4.0, 4.0, 1, {"share": 0.8}), "sort each stretch"),
        (divide_first, Cause("each-makes-all", 4.0, 4.0, 1, {"times": 2.0}), "files[info.id :: info.num_workers]"),
        (select_first, Cause("made-in-vain", 4.0, 4.0, 1, {"dropped": 0.7}), ".decode(only='json')"),
        (fewer_fields, Cause("fields-in-vain", 4.0, 4.0, 1, {"only": "'jpg', 'cls'"}), "only=['jpg', 'cls']"),
    ],
)
def test_its_gain_is_predicted_from_what_the_cause_could_save(remedy, cause, how):
    """The account has 12 s of loops."""
    found = remedy.propose(_with(cause), [])
    assert found.of_script and not found.settings and not found.edits and how in " ".join(found.how)
    assert found.predicted == pytest.approx(12 / 8)


@pytest.mark.parametrize(
    "remedy", [in_workers, padding, like_lengths, divide_first, one_row, select_first, fewer_fields]
)
@pytest.mark.parametrize(
    "cause",
    [
        Cause("stage", 4.0, 4.0, 1, PLACE),
        Cause("prepare", 4.0, None, 1, PLACE),  # nobody knows what could be saved of it
        Cause("prepare", 0.1, 0.1, 1, PLACE),
        Cause("padding", 0.1, 0.1, 1),
        Cause("unequal-lengths", 0.1, 0.1, 1),
        Cause("each-makes-all", 0.1, 0.1, 1),
        Cause("made-in-vain", 0.1, 0.1, 1),
        Cause("fields-in-vain", 0.1, 0.1, 1),
    ],
)
def test_without_the_cause_or_a_saving_worth_it_nothing_is_proposed(remedy, cause):
    assert remedy.propose(_with(cause), []) is None


def test_batches_prepared_in_the_loop_have_the_line_that_does_it():
    found = in_workers.propose(_with(Cause("prepare", 6.0, 4.0, 1, PLACE)), [])
    assert (found.at.name, found.at.file, found.at.line) == ("augment", "train.py", 71)
    plain = {name: value for name, value in PLACE.items() if name != "function"}
    assert in_workers.propose(_with(Cause("prepare", 6.0, 4.0, 1, plain)), []).at.name == "the loop"


def test_a_stream_takes_no_batch_sampler():
    found = _with(Cause("unequal-lengths", 4.0, 4.0, 1, {"share": 0.8}))
    streams = tuple(replace(one, shards=0) for one in found.watched.loaders)
    said = " ".join(like_lengths.propose(replace(found, watched=replace(found.watched, loaders=streams)), []).how)
    assert said.startswith("In the stream, fill a buffer") and "batch_sampler" not in said


def _with(cause):
    found = seen(0.5)
    account = Account(12.0, (AccountRow("forward", 12.0, 1),), (cause,))
    return replace(found, watched=replace(found.watched, account=account))
