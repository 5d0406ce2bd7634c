"""The annotations of a comparison: what is slower, where, and how it is escaped."""

from dataclasses import replace

from pipebench.render import github, same_work
from pipebench.results.comparison import Change, Comparison, Difference, Judgement, Outputs
from pipebench.stats import Speedup


def change(name, longer):
    over = Speedup(1 / longer, 1 / (longer + 0.02), 1 / (longer - 0.02), 0.999)
    return Change(name, Judgement(over, 24, 0.99), 0.002, 0.002 * longer, 8)


def test_what_fails_the_gate_is_an_error_and_what_is_slower_a_warning():
    changes = (change("small", 1.04), change("large", 1.2), change("fast", 0.8), change("same", 1.0))
    found = Comparison("main (0123)", "mine", (*changes, Change("broken", failed="it: broke,\n100 %")), 0.05)
    assert github.commands(found, {"large": ("a,b:c.py", 7), "fast": ("x.py", 1)}) == [
        "::error file=a%2Cb%3Ac.py,line=7,title=large::takes 20.0 %25 longer (18.0 %25 to 22.0 %25) than in main (0123)"
        "; the limit is 5.0 %25",
        "::warning title=broken::failed: it: broke,\\n100 %25",
        "::warning title=small::takes 4.0 %25 longer (2.0 %25 to 6.0 %25) than in main (0123); the limit is 5.0 %25",
    ]


def test_a_changed_output_is_told_though_it_is_not_slower():
    other = Outputs("changed", Difference("dtype", "output", "[0]", "float32", "float64"))
    fast, slow = (replace(change(name, longer), outputs=other) for name, longer in (("fast", 0.8), ("slow", 1.2)))
    found = Comparison("main", "mine", (fast, slow))
    said = same_work.notes(other)[0]
    assert said.startswith("changed output: ") and "float64" in said
    slower = "takes 20.0 %25 longer (18.0 %25 to 22.0 %25) than in main"
    told = [f"title=slow::{slower}; {said}", f"title=fast::{said}"]
    assert github.commands(found, {}) == [f"::warning {one}" for one in told]
    assert github.commands(replace(found, fail_on_change=True), {}) == [f"::error {one}" for one in told]
    assert github.commands(replace(found, allow_changed=True), {}) == [f"::warning title=slow::{slower}"]


def test_no_more_than_github_shows_and_none_is_lost():
    found = Comparison("main", "mine", tuple(change(f"b{number}", 1.1 + number / 100) for number in range(12)))
    lines = github.commands(found, {})
    assert len(lines) == 10 and lines[0].startswith("::warning title=b11::")
    assert lines[-1] == "::warning title=pipebench::and 3 more: b2, b1, b0"
