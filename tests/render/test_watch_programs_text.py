"""The sentences about programs that are not one loop over one loader: what was seen, and why there is no verdict."""

from __future__ import annotations

from dataclasses import replace

import made_up_trials
import pytest

from pipebench.render.frameworks import setting
from pipebench.render.layout import text
from pipebench.render.watch import parts
from pipebench.render.watch_causes import SENTENCES
from pipebench.render.watch_details import loader_name
from pipebench.render.watch_notes import sentence
from pipebench.render.watch_verdict import next_move, verdict
from pipebench.results.account import Cause
from pipebench.results.batches import BatchContent, SpanResult
from pipebench.results.next_move import NextMove
from pipebench.results.watched import Note, Verdict, WatchResult
from pipebench.watch.read.described import called_by, made_by, place
from pipebench.watch.record.lines import CodePlace

LOADER = replace(made_up_trials.LOADER, file="/home/me/train.py", line=31)
USER, HF = CodePlace("/home/me/train.py", 7), CodePlace("/v/lib/site-packages/transformers/trainer.py", 900)
LIGHTNING = CodePlace("/v/lib/site-packages/lightning/pytorch/core/datamodule.py", 190)
RENEWED = CodePlace("/v/lib/site-packages/lightning/pytorch/utilities/data.py", 300)
ACCELERATE = CodePlace("/v/lib/site-packages/accelerate/data_loader.py", 1100)


def _said(result: WatchResult) -> str:
    return " ".join(text(parts(result)).split())


def test_of_two_loaders_the_verdict_names_its_own() -> None:
    found = Verdict(
        "data", wait_share=0.5, wait_s=0.05, iteration_s=0.1, loader=2, loaders=2, dataset="Pairs", file="/a/train.py",
        line=31, workers=2, stage="decode", stage_kind="decode", stage_share=0.6, workers_busy=0.9,
    )  # fmt: skip
    assert "of 100 ms). This is loader 2 (Pairs, train.py:31). Its 2 workers are busy" in verdict(found)
    assert "This is" not in verdict(replace(found, loaders=1))
    training = replace(found, limit="training", phase="forward", phase_share=0.7)
    assert verdict(training).endswith("Its largest phase is forward, 70 %. This is loader 2 (Pairs, train.py:31).")


def test_one_batch_is_said_with_what_was_seen() -> None:
    found = Verdict(
        "no-iteration", loader=1, dataset="Photos", file="train.py", line=31, batches=2, samples=16, startup_s=1.5,
        stage="ImageFile.load", stage_kind="decode", stage_includes_read=True, stage_share=0.61,
    )  # fmt: skip
    assert verdict(found) == (
        "There is nothing to judge yet: no pass had a second iteration, and a first one is start-up. Seen of loader 1 "
        "(Photos, train.py:31): 2 batches of 16 samples; 1.50 s of start-up up to the first batch; 61 % of loading in "
        "ImageFile.load (read + decode). Train on more batches."
    )
    many = replace(found, batches=200, passes=200, startup_s=0.0126)
    left, whole = (verdict(replace(many, single=one)) for one in ("left", "whole"))
    assert "12.6 ms of start-up up to the first batch of each of 200 passes;" in left
    assert left.endswith("each new iterator starts anew: keep one iterator for all steps (for batch in loader).")
    assert whole.endswith("so all waiting is start-up: with smaller batches a loop can be judged.")
    assert verdict(Verdict("no-iteration")) == "There is nothing to judge: no iteration was completed."


def test_a_loop_without_a_loader_has_its_spans_or_the_command_for_them() -> None:
    found = Verdict("no-loader", loader=0, iteration_s=0.1, phase="before-backward", phase_share=0.6)
    assert verdict(found) == (
        "The training loop takes no batch from a DataLoader. An iteration, from one optimiser step to the next, "
        "takes 100 ms; its largest part is what comes before backward (data and forward), 60 %."
    )
    result = replace(
        made_up_trials.watched(), verdict=found, loaders_in_loop=(0,), loaders=(replace(LOADER, loader=0),)
    )
    assert "Then: `pipebench watch --span __main__:FUNCTION train.py`" in _said(result)
    named = _said(replace(result, spans=(SpanResult("get_batch", 0.025, 0.25),)))
    assert "Of each iteration: get_batch 25.0 ms (25 %)." in named and "--span" not in named
    assert "Loop without a loader: 100 ms an iteration" in named
    assert "--span" not in _said(replace(result, verdict=replace(found, phase="prepare")))


def test_a_loader_in_a_background_thread_that_was_not_followed() -> None:
    found = Verdict("not-followed", loader=1, dataset="Photos", file="train.py", line=31)
    assert verdict(found) == (
        "Whether training waits for data is not known: loader 1 (Photos, train.py:31) is iterated in a background "
        "thread, and the way of its batches to the training loop was not seen."
    )
    assert verdict(replace(found, wait_share=0.6)) == (
        "The training loop waits before the model for 60 % of each iteration. Whether it waits for loader 1 (Photos, "
        "train.py:31) is not known: that is iterated in a background thread, and the way of its batches to the "
        "training loop was not seen."
    )


def test_the_place_and_the_repetitions_of_a_loader() -> None:
    assert loader_name(LOADER) == "loader 1: Photos, batch 8, 2 workers (fork); made at train.py:31"
    assert loader_name(replace(LOADER, again=19)).endswith("; made at train.py:31, anew 19 times")


@pytest.mark.parametrize(
    ("made", "library", "line"),
    [
        ([USER], "", USER),
        ([HF, USER], "transformers", USER),
        ([ACCELERATE, HF, USER], "transformers", USER),
        ([RENEWED, USER], "", USER),
        ([USER, LIGHTNING, USER], "", USER),
        ([LIGHTNING, USER], "lightning", USER),
        ([HF], "transformers", HF),
        ([], "", CodePlace("", 0)),
    ],
)
def test_which_library_made_a_loader(made: list[CodePlace], library: str, line: CodePlace) -> None:
    """A loader that the user's own code makes is set there, whatever calls that code."""
    assert (made_by(made), place(made)) == (library, line)


def test_which_library_called_the_function_that_made_a_loader() -> None:
    assert called_by([USER, LIGHTNING, USER]) == called_by([RENEWED, USER, LIGHTNING]) == "lightning"
    assert called_by([LIGHTNING, USER]) == called_by([USER]) == called_by([HF]) == called_by([]) == ""


@pytest.mark.parametrize(
    ("library", "expected"),
    [
        ("", "Next: raise num_workers above 2."),
        ("transformers", "Next: raise dataloader_num_workers in TrainingArguments above 2."),
        ("ultralytics", "Next: raise workers in train() above 2."),
        ("deepspeed", "Next: raise num_local_io_workers in deepspeed_io() above 2."),
        ("lightning", "Next: raise num_workers in LightningDataModule.from_datasets() above 2."),
    ],
)
def test_advice_is_in_the_words_of_the_library_that_made_the_loader(library: str, expected: str) -> None:
    found = next_move(NextMove("raise-num-workers", 8, workers=2, cores_used=2, made_by=library))
    assert found is not None and found.startswith(expected)


def test_workers_of_a_loader_that_the_script_makes_anew_cannot_persist() -> None:
    """A library keeps its loader itself where its setting asks for that, as the Trainer does for evaluation."""
    move = NextMove("keep-workers", 8, loader=1, made_by="transformers")
    named = "Next: set dataloader_persistent_workers=True in TrainingArguments for loader 1."
    assert next_move(move) == next_move(replace(move, again=3)) == named
    assert next_move(replace(move, again=3, made_by="")) == (
        "Next: make loader 1 once, before the epochs, with persistent_workers=True."
    )
    assert next_move(replace(move, again=3, made_by="", called_by="lightning")) == (
        "Next: make loader 1 once, before the epochs, with persistent_workers=True (Lightning asks for a new one where "
        "Trainer has reload_dataloaders_every_n_epochs)."
    )
    assert setting("pin_memory", "transformers") == "pin_memory"


def test_a_value_stands_beside_its_setting_and_not_behind_where_that_is_set() -> None:
    set_to = "dataloader_num_workers={} in TrainingArguments"
    for values, told in (({}, "1 or more"), ({"by_thread": 1}, "2 or more")):
        cause = Cause("no-workers", 8.0, 8.0, 1, {**values, "usable_cores": 2.0, "made_by": "transformers"})
        assert f" {set_to.format(told)} could save" in SENTENCES[cause.code](cause, cause.values, "8 s")
    prepare = Cause("prepare", 8.0, 8.0, 1, {"more_workers": 4, "made_by": "transformers", "workers": 0})
    assert f", with {set_to.format(4)}, could save" in SENTENCES["prepare"](prepare, prepare.values, "8 s")
    anew: dict[str, str | int | float] = {"workers": 2, "start_method": "fork", "passes": 9, "in_validation": 0}
    anew |= {"again": 8, "remade": "other", "saved_s": 5.0, "waits_s": 6.0, "make_s": 1.0, "made_by": "transformers"}
    start = Cause("start-up", 8.0, 5.0, 1, anew)
    assert f" {set_to.format(0)} could save" in SENTENCES["start-up"](start, start.values, "8 s")
    move = NextMove("prepare-in-workers", 8, loader=1, to_workers=4, made_by="transformers")
    assert (next_move(move) or "").endswith(f", with {set_to.format(4)}.")


def test_what_a_batch_holds() -> None:
    tokens = BatchContent(8.0, tokens=2_048.0, padding_share=0.38)
    result = replace(made_up_trials.watched(), loaders=(replace(LOADER, content=tokens),))
    assert (
        "A batch of loader 1 has 8 samples: 2,048 tokens (20,480 a second), and of its places for tokens 38 % are "
        "padding."
    ) in _said(result)
    sound = replace(LOADER, content=BatchContent(8.0, sound_s=80.0))
    assert "8 samples: 80 s of sound (800 a second)." in _said(replace(result, loaders=(sound,)))
    padded = replace(LOADER, content=BatchContent(4.0, tokens=16.0, unused_share=0.8, uneven_share=0.13))
    assert (
        "A batch of loader 1 has 4 samples: 16 tokens (160 a second). 80 % of its length, at the end, is the same in "
        "all samples, as padding is. 13 % of it is padding of samples that are shorter than the longest one."
    ) in _said(replace(result, loaders=(padded,)))
    none = replace(LOADER, content=BatchContent(4.0, unused_share=0.001, uneven_share=0.0))
    assert "A batch of" not in _said(replace(result, loaders=(none,)))


def test_what_batches_of_two_loops_hold_is_by_the_iteration_of_each() -> None:
    tokens = BatchContent(8.0, tokens=2_048.0)
    first = replace(LOADER, content=tokens, iterations=10, s_per_iteration=1.0)
    second = replace(first, loader=2, iterations=90, s_per_iteration=0.01)
    result = replace(made_up_trials.watched(), loaders=(first, second), loaders_in_loop=(1, 2), iterations=100)
    said = _said(result)
    assert "2,048 tokens (2,048 a second)" in said and "2,048 tokens (204,800 a second)" in said
    in_step = _said(replace(result, iterations=90))  # as in `zip`: then an iteration is of both
    assert in_step.count("2,048 tokens (20,480 a second)") == 2


@pytest.mark.parametrize(
    ("note", "expected"),
    [
        (
            Note("span-not-found", {"span": "data:lod", "lacks": "function"}),
            "--span data:lod matched nothing: the script's process has no such function. Functions of the script "
            "itself are `__main__:function`.",
        ),
        (
            Note("span-not-run", {"span": "data:load"}),
            "--span data:load matched a function that did not run in a watched loop or in its workers, or only in "
            "a sampler, or an asynchronous generator.",
        ),
    ],
)
def test_a_span_that_matched_nothing(note: Note, expected: str) -> None:
    assert sentence(note) == expected
