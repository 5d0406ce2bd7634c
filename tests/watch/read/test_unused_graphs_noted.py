"""The note on loops that do not train and keep graphs for gradients."""

import pytest
from planted_runs import MS, TRAINS, Planted, said

from pipebench.render.watch_notes import sentence
from pipebench.watch.read.gather import Process
from pipebench.watch.read.summary import summarise
from pipebench.watch.record.lines import LoadersTogether
from pipebench.watch.record.options import WatchOptions
from pipebench.watch.record.trial_lines import LoopLooks


@pytest.mark.parametrize(
    ("loader", "kept", "used", "later", "noted"),
    [
        (2, 10, 0, 20, True),
        (2, 9, 0, 9, False),  # a few looks
        (2, 10, 1, 20, False),  # gradients are computed there, as forces are
        (2, 10, 0, 41, False),  # most of its forward keeps none
        (1, 10, 0, 20, False),  # the loop that trains, after its backward
    ],
)
def test_the_note_on_validation(loader, kept, used, later, noted):
    run = Planted()
    run.loader(**TRAINS)
    run.loader(2, trains=False, other=200)  # too short for a cause
    run.lines += [LoopLooks(loader, "val.py", 100, [], 0, later, kept=kept, used=used)]
    found = summarise([Process(run.lines)], WatchOptions(), 0, 4.0, lived=(0, run.now + MS))
    told = [sentence(one) for one in found.notes if one.code == "unused-graphs"]
    assert bool(told) is noted
    assert not noted or told[0].startswith(
        "The loops over loader 2 (Photos) do not train, but their forward keeps graphs for gradients, and no gradient "
        "was seen to be computed there. Unless they are used later, torch.inference_mode() or torch.no_grad() around"
    )


def test_a_loader_in_step_with_one_that_trains_has_no_loop_of_its_own():
    """As of unlabelled batches that some steps of a training take with `next`."""
    run = Planted()
    run.loader(**TRAINS)
    run.loader(2, trains=False, other=500)
    run.lines += [LoopLooks(2, "train.py", 100, [], 0, 20, kept=10, used=0), LoadersTogether(1, 2)]
    found = summarise([Process(run.lines)], WatchOptions(), 0, 4.0, lived=(0, run.now + MS))
    assert "unused-graphs" not in {one.code for one in found.notes}


def test_the_cause_says_it_where_there_is_one():
    run = Planted()
    run.loader(**TRAINS)
    run.loader(2, trains=False, other=2000, wait_for_worker=500)
    run.lines += [LoopLooks(2, "val.py", 100, [], 0, 20, kept=10, used=0)]
    found = summarise([Process(run.lines)], WatchOptions(), 0, 4.0, lived=(0, run.now + MS))
    assert "unused-graphs" not in {one.code for one in found.notes}
    assert "no gradient was seen to be computed there. Unless they are used later, torch.inference_mode()" in said(
        found.account
    )
