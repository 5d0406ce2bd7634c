"""The planted scripts of `tools/advice.py`: the cause of each, and what makes it faster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from advice_planted import Planted
from advice_whole import whole_sets

_FOR_EVER = "1000000000"


def _planted(name: str, cause: str, present: str, best: str, tried: str, *, remedy: str = "", code: str = "nothing",
             variables: str = "", any_order: bool = False, by_hand: str = "",
             folder: str = "scripts", discards: bool = False) -> Planted:  # fmt: skip
    more = dict(one.split("=") for one in variables.split())
    words = tuple(tried.replace("*", _FOR_EVER).split())
    return Planted(
        name, cause, tuple(present.split()), tuple(best.split()), words, tuple(remedy.split()), tuple(code.split()),
        more, any_order, by_hand, folder, discards=discards,
    )  # fmt: skip


PLANTED = (
    _planted("sleeping", "samples wait for a network, cores are idle", "2 150", "16 1500", "2 *",
             remedy="num_workers together", code="workers-blocked"),
    _planted("storage", "samples are read from storage", "2 400", "8 1000", "2 *",
             remedy="num_workers together", code="storage"),
    _planted("no_workers", "no workers", "0 60", "2 200", "0 *", remedy="num_workers together", code="no-workers"),
    _planted("threads", "libraries use all cores in each worker", "2 100", "2 800", "2 *",
             remedy="one_thread together", code="threads-over-cores", variables="OPENBLAS_NUM_THREADS=1"),
    _planted("startup", "workers start slowly for short passes", "2 8 0", "2 15 1", "2 1000 0",
             remedy="persistent_workers together", code="start-up"),
    _planted("bursty", "every 8th batch is slow, few are made ahead", "2 120 2", "2 160 16", "2 * 2",
             remedy="prefetch_factor num_workers together", code="periodic-stalls"),
    _planted("headofline", "a slow sample holds up finished batches", "4 200 1", "4 200 0", "4 * 1",
             remedy="in_order prefetch_factor num_workers together", code="head-of-line", any_order=True),
    _planted("competing", "many busy workers take cores from the model", "6 300", "1 600", "6 *",
             code="workers-compete"),  # they compute while they wait, too, so fewer can only be predicted
    _planted("busy", "a stage computes, all cores are used", "2 150", "2 200 40 20000", "2 *",
             code="stage cores-used-up"),
    _planted("numpy_batches", "12 MB of NumPy arrays are handed over", "0 100", "1 150", "0 *",
             remedy="as_tensors together", code="hand-off pickling", by_hand="as_tensors"),
    _planted("sampling", "the sampler is slow", "10 120", "0 160", "10 *", code="sampler"),
    _planted("callbacks", "the loop sends metrics each time", "1 120", "50 200", "1 *", code="callbacks"),
    _planted("validating", "validation without workers after each pass", "0 4", "4 6", "0 1000", code="validation"),
    _planted("growing", "memory of workers grows", "60 80", "0 80", "60 *", code="memory-growth"),
    _planted("computing", "the model takes most of the time", "2 80", "2 80", "2 *"),
    _planted("healthy", "batches are ready in time", "1 300", "1 300", "1 *"),
    _planted("short_passes", "slow start for short passes, and samples wait", "2 4 0", "8 8 1", "2 1000 0",
             remedy="together", code="start-up workers-blocked"),
    _planted("callbacks_waits", "the loop sends metrics, and samples wait", "2 80", "8 600", "2 *",
             remedy="num_workers together", code="workers-blocked callbacks"),
)  # fmt: skip


def _of(folder: str) -> Callable[..., Planted]:
    """For a folder of `tests/advice` by another author: the defaults are the slow settings; runs have one length."""

    def planted(name: str, cause: str, best: str = "", tried: str = "--epochs 1000000", present: str = "",
                **more: Any) -> Planted:  # fmt: skip
        return _planted(name, cause, present, best, tried, folder=folder, **more)

    return planted


# What is right is what the author of the scripts wrote (README.md of the folder).
_independent, _second, _third = map(_of, ("independent", "second", "third"))
INDEPENDENT = (
    _independent("one", "samples wait for a network, one worker", "--num-workers 8 --epochs 10", present="--epochs 10",
                 remedy="num_workers together", code="workers-blocked", discards=True),
    _independent("two", "workers open an archive anew in each pass", "--epochs 20 --persistent", present="--epochs 20",
                 remedy="persistent_workers together", code="start-up"),
    _independent("three", "a slow sample holds up the order", "--any-order",
                 remedy="in_order prefetch_factor together", code="head-of-line", any_order=True, by_hand="in_order"),
    _independent("four", "a shard of many batches takes long to open", "--prefetch-factor 32",
                 "--steps 1000000000", remedy="prefetch_factor together", code="periodic-stalls", discards=True),
    _independent("five", "38 MB of NumPy arrays are handed over", "--fixed",
                 remedy="as_tensors together", code="hand-off pickling", by_hand="as_tensors"),
    _independent("six", "a checkpoint every 5 steps, and no workers", "--save-every 500",
                 code="callbacks"),
    _independent("seven", "the model takes the time", tried="steps=1000000000"),
    _independent("eight", "the batch sampler draws slowly", "--fixed", code="sampler"),
)  # fmt: skip
SECOND = (
    _second("one", "no workers, and reads from a file share", "--workers 4",
            remedy="num_workers together", code="no-workers"),
    _second("two", "workers open an archive anew in each pass", "--persistent",
            remedy="persistent_workers together", code="start-up"),
    _second("three", "the first window of a shard waits for it", "prefetch=12", "epochs=1000000",
            remedy="prefetch_factor num_workers together", code="periodic-stalls head-of-line"),
    _second("four", "a checkpoint every 4 steps on a slow drive", "--fixed", code="callbacks"),
    _second("five", "the sampler draws one index after the other", "--fixed", code="sampler"),
    _second("six", "validation every 10 steps, whose workers start anew", "--validate-every 30 --keep-validation",
            code="validation start-up"),
    _second("seven", "a transform builds its filters for each sample", "--fixed", code="stage"),
    _second("eight", "the model takes the time"),
)  # fmt: skip
THIRD = (
    _third("one", "12 workers seek on one disc", "-j 3",
           remedy="num_workers together", code="workers-blocked storage"),
    _third("two", "each worker fetches recordings when it starts", "--keep-procs",
           remedy="persistent_workers together", code="start-up"),
    _third("three", "the storage stops for 0.9 s of each 1.9 s", "--prefetch_factor 8",
           remedy="prefetch_factor num_workers together", code="periodic-stalls head-of-line workers-blocked"),
    _third("four", "all workers share one lock around the read", "--handle-per-process", code="workers-blocked stage"),
    _third("five", "one query a row, and no workers", "bulk_query=1 workers=2", "epochs=1000000",
           remedy="num_workers together", code="no-workers"),
    _third("six", "reports in each step, and validation without workers", "--report-every 20 --val-workers 3",
           code="callbacks validation"),
    _third("seven", "batches are ready in time"),
    _third("eight", "a whole scan is preprocessed for each patch", "--cut-first", code="stage"),
)  # fmt: skip


SETS = {"scripts": PLANTED, "independent": INDEPENDENT, "second": SECOND, "third": THIRD, **whole_sets()}
"""The scripts by folder of `tests/advice`."""
