"""The annotations of a comparison: what is slower, where, and how it is escaped."""

from pipebench.render import github
from pipebench.results.comparison import Change, Comparison, Judgement
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


def test_no_more_than_github_shows_and_none_is_lost():
    found = Comparison("main", "mine", tuple(change(f"b{number}", 1.1 + number / 100) for number in range(12)))
    lines = github.commands(found, {})
    assert len(lines) == 10 and lines[0].startswith("::warning title=b11::")
    assert lines[-1] == "::warning title=pipebench::and 3 more: b2, b1, b0"
