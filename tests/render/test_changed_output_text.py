"""Words for outputs that changed, and what they do to the verdict and the exit status."""

from dataclasses import replace

import made_up
import pytest

from pipebench.commands.ab import _status
from pipebench.render import ab, layout, same_work
from pipebench.results.comparison import NOTHING, Change, Comparison, Difference, Outputs

HALF = made_up.HALF
SAID = {
    "3×48×48 instead of 3×96×96 (25 % of the values), at [0] and 7 more of 8 parts": HALF,
    "float64 instead of float32, at [0]": Difference("dtype", "output", "[0]", "float32", "float64", leaves=1),
    "list instead of Tensor, at [0]": Difference("structure", "output", "[0]", "Tensor", "list", leaves=1),
    "length 2 instead of length 1 (200 % of the values)": Difference("shape", base_shape=(1,), head_shape=(2,)),
    "50 samples instead of 64": Difference("samples", base="64", head="50"),
    "31 % of the values differ, by 255 at most and 41.2 on average": Difference(
        "values", share=0.31, largest=255.0, mean=41.2
    ),
    "under 1 % of the values differ, by 1e-05 at most and 1e-09 on average": Difference(
        "values", share=1e-6, largest=1e-5, mean=1e-9
    ),
    "other contents": Difference("values"),
    "other palette": Difference("values", base="P", head="P", share=0.0, largest=0.0, mean=0.0),
    "other contents, at [0]": Difference("values", place="[0]", base="L", head="L", share=0.0, largest=0.0, mean=0.0),
    "for inputs that were not timed: other contents": Difference("values", "unseen"),
    "it gets another input already: other contents": Difference("values", "input"),
    "head answers a repeated input from a cache (8 of 8 inputs)": Difference(
        "cached", "unseen", base="False", head="True", leaves=8, all_leaves=8
    ),
    "head returns for other inputs what it returns for the timed one (3 of 3 inputs)": Difference(
        "ignored", "unseen", base="False", head="True", leaves=3, all_leaves=3
    ),
    "head does not return the same twice after the same seed, and base does, at [0]": Difference(
        "unrepeatable", place="[0]"
    ),
    "lacks label and has also name, path, size and 2 more, at [0]": Difference(
        "dtype", "output", "[0]", "image, label", "image, name, path, size, time, weight"
    ),
    "base answers a repeated input from a cache (1 of 1 input)": Difference(
        "cached", "unseen", base="True", head="False", leaves=1, all_leaves=1
    ),
}


@pytest.mark.parametrize(("words", "difference"), [(words, one) for words, one in SAID.items()], ids=list(SAID))
def test_a_difference_says_what_and_how_much(words, difference):
    assert same_work.difference(difference) == words


def changed(times_as_long, difference=HALF, state="changed"):
    return made_up._change("transform/own/Scale", times_as_long, outputs=Outputs(state, difference, at_end=True))


def comparison(*changes, **options):
    return Comparison("main", "mine", changes, seeded=True, **options)


def text(*changes, **options):
    return layout.text(ab.parts(comparison(*changes, **options)), width=200)


def test_a_changed_output_is_never_called_faster():
    shown = text(changed(0.5))
    assert shown.splitlines()[0] == "mine against main: changed output: transform/own/Scale"
    assert "changed output   1.923–2.083" in shown and "2.000×" not in shown and "faster" not in shown
    assert "transform/own/Scale: changed output: 3×48×48 instead of 3×96×96" in shown


def test_a_changed_output_that_is_slower_is_called_so_and_fails_the_gate():
    first = text(changed(1.5)).splitlines()[0]
    assert first == "mine against main: changed output: transform/own/Scale; slower: transform/own/Scale"
    assert _status([changed(1.5)], 0.05) == 3


def test_a_changed_input_reads_so():
    assert "changed input   1.923" in text(changed(0.5, replace(HALF, part="input")))


def test_where_it_is_allowed_it_is_judged_and_still_named():
    shown = text(changed(0.5), allow_changed=True)
    assert shown.splitlines()[0] == "mine against main: faster: transform/own/Scale"
    assert "2.000×" in shown and "transform/own/Scale: changed output: 3×48×48" in shown


def test_a_rounding_difference_is_judged_and_named():
    shown = text(changed(0.5, Difference("values", share=0.5, largest=6e-8, mean=2e-8), "close"))
    assert shown.splitlines()[0] == "mine against main: faster: transform/own/Scale"
    assert "its output is equal within rounding or its tolerance: 50 % of the values differ, by 6e-08" in shown


def test_an_unrepeatable_output_is_named_and_judged():
    one = made_up._change("a/b/c", 0.5, outputs=Outputs("unrepeatable", sides=("head",), place="[0]['time']"))
    shown = text(one)
    assert shown.splitlines()[0] == "mine against main: faster: a/b/c"
    assert "a/b/c: its output ([0]['time']) in head is not repeatable after the same seed, so it is not com" in shown


def test_a_cache_on_both_sides_and_unknown_types_are_said():
    said = same_work.notes(Outputs("same", unread=("HASH",), cached=("base", "head")))
    assert said == [
        "its output holds values whose contents cannot be compared: HASH",
        "base and head answer a repeated input from a cache: these are the times of repeated inputs",
    ]


def test_the_footer_names_where_a_cache_would_not_be_seen():
    unseen = Outputs("same", at_end=True, unseen="none of its inputs can be exchanged for another")
    names = [f"bench/{letter}" for letter in "abcd"]
    said = same_work.footer(comparison(*(made_up._change(name, 1, outputs=unseen) for name in names)))
    assert said[1] == (
        "an answer from a cache would not be seen in bench/a, bench/b, bench/c and 1 more: "
        "none of its inputs can be exchanged for another"
    )


def test_the_footer_counts_the_outputs_and_names_the_seeds():
    (said,) = same_work.footer(
        comparison(changed(0.5), made_up._change("x/y/z", 1, outputs=Outputs("same", at_end=True)))
    )
    assert said == (
        "outputs, compared before the rounds, and if equal once more after them: 1 equal, 1 changed. "
        "Both sides get the same seed before each round (random, NumPy, torch)."
    )
    (interrupted,) = same_work.footer(comparison(made_up._change("x/y/z", 1, outputs=Outputs("same"))))
    assert interrupted.startswith("outputs, compared before the rounds: 1 equal.")
    assert same_work.footer(comparison(made_up._change("x/y/z", 1))) == []


def test_an_output_that_was_not_compared_is_never_counted_as_equal():
    every = [Outputs("same"), Outputs("unknown", reason=NOTHING), Outputs("same", unread=("generator",))]
    changes = [made_up._change(f"bench/{index}", 1, outputs=one) for index, one in enumerate(every)]
    assert same_work.footer(comparison(*changes))[0].startswith(
        "outputs, compared before the rounds: 1 equal, 2 not compared."
    )
    assert "(and 1 more benchmark not compared)" in same_work.uncompared(changes)
    nothing = [made_up._change(f"asv/{index}", 1, outputs=every[1]) for index in range(5)]
    said = "asv/0, asv/1, asv/2 and 2 more return nothing, so their work was not compared: let them return what is made"
    assert same_work.footer(comparison(*nothing))[1] == said and same_work.notes(every[1]) == []


@pytest.mark.parametrize(
    ("outputs", "status", "said"),
    [
        (Outputs("changed", HALF), 3, "changed output: a/b/c"),
        (Outputs("same"), 0, ""),
        (Outputs("close", Difference("values")), 0, ""),
        (Outputs("unrepeatable", sides=("head",)), 0, ""),
        (Outputs("unknown", reason="no"), 1, "the gate has no result: a/b/c: its outputs could not be compared: no"),
        (Outputs("unknown", reason=NOTHING), 1, "no result: a/b/c: it returns nothing, so its work was not compared"),
        (Outputs("same", unread=("HASH",)), 1, "no result: a/b/c: its output holds values whose contents cannot be"),
        (Outputs("close", unread=("HASH",)), 1, "no result: a/b/c: its output holds values"),
        (Outputs("unrepeatable", sides=("base",), unread=("HASH",)), 1, "no result: a/b/c"),
        (Outputs("changed", HALF, unread=("HASH",)), 3, "changed output: a/b/c"),
        (None, 1, "the gate has no result: a/b/c: its outputs were not looked at"),
    ],
)
def test_the_gate_on_changed_outputs(outputs, status, said, capsys):
    one = made_up._change("a/b/c", 0.5, outputs=outputs)
    assert _status([one], None, on_change=True) == status
    assert said in capsys.readouterr().err
    assert _status([one], None) == 0


def test_a_benchmark_that_was_not_measured_does_not_hold_up_the_gate():
    assert (
        _status([made_up._change("a/b/c", 1, outputs=Outputs("same")), Change("x/y/z", skipped="no")], None, True) == 0
    )


def test_what_comes_from_the_users_types_is_inert():
    said = same_work.notes(Outputs("changed", replace(HALF, kind="structure", head="\x1b[31m"), unread=("\x1b[31m",)))
    assert "\x1b" not in "".join(said)
