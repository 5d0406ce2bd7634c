"""The advice to set another number of torch's threads, as text."""

from dataclasses import replace

from test_advice import ADVICE, _shown

from pipebench.results.advice import Change, Finding, Rewrite, Snippet
from pipebench.stats import Speedup


def test_a_line_above_a_call_of_several_lines_is_shown():
    before = ("loader = DataLoader(", "    data,", "    batch_size=4,", ")")
    after = ("torch.set_num_threads(1)", *before[:2], "    batch_size=4, num_workers=2,", before[3])
    change = Change("num_workers", {"num_workers": 2}, title="torch.set_num_threads(1)", loop_threads=1)
    found = Finding(change, "gain", Speedup(1.4, 1.3, 1.5, 0.95))
    advice = replace(ADVICE, findings=(found,), best=0, snippet=Snippet("/nowhere/train.py", 7, before, after))
    shown = _shown(advice)
    assert (
        "Write, in /nowhere/train.py:\n  7 + torch.set_num_threads(1)\n  10 + batch_size=4, num_workers=2,\n" in shown
    )
    assert "other last digits of sums" not in shown
    tried = _shown(replace(advice, findings=(replace(found, ratios=(1.4, 1.4, 1.4)),), discarded=False))
    assert "same order; other last digits of sums." in " ".join(tried.split())


def test_without_a_place_the_line_is_said():
    change = Change(
        "loop_threads", {}, title="torch.set_num_threads(1)", loop_threads=1, rewrites=(Rewrite("a", 0, 0, ""),)
    )
    found = Finding(change, "gain", Speedup(1.4, 1.3, 1.5, 0.95))
    shown = _shown(replace(ADVICE, findings=(found,), best=0, snippet=None))
    assert "Before the training loop: torch.set_num_threads(1)\n" in shown
