"""The judge of loaders: who leads each task, why, and when it cannot tell."""

from dataclasses import replace

from made_up_loaders import WHOLE, row, side_by_side

from pipebench.render import text
from pipebench.render.loaders import verdict
from pipebench.results import report
from pipebench.results.loaders import lead, speedup

SHORT = """\
With antialiasing, swift leads: 995 images per core-second (±0 %), 1.99×
(1.96–2.02) the rate of plain, the next. It leads by the clock, too.
Without antialiasing, plain leads: 668 images per core-second (±1 %), 1.01×
(1.00–1.02) the rate of heavy, the next. It leads by the clock, too.
Why, with antialiasing: other work, 1.00 ms of CPU an image beside 2.00 ms of
  plain. swift: only the crop's part; plain: decode and v2. swift gives up exact
  pixels; a copy of the data: packed JPEGs.
Why, without antialiasing: the same work, and another hand-off: in all 1.50 ms
  of CPU an image beside 1.51 ms of heavy.

With antialiasing
loader   img/core-s     ±   × first   img/s   first, ms   mem, MB
─────────────────────────────────────────────────────────────────
swift           995   0 %         1   1,990         700       400
loop *          554   1 %      0.56     554         700       400
plain           500   1 %      0.50   1,000         700       400
heavy           416   1 %      0.42     831         700       400

Without antialiasing
loader   img/core-s     ±   × first   img/s   first, ms   mem, MB
─────────────────────────────────────────────────────────────────
plain           668   1 %         1   1,336         700       400
heavy           661   1 %      0.99   1,322         700       400

Refused: wrong, antialiased: sample 3 has wrong pixels: it differs by 9.0 levels
  on average.

Not measured: absent.
  absent: absent is not installed: pip install 'pipebench[absent]'
Shortened: --full shows every figure, here or with `pipebench show`.
"""


def shown(found, **how):
    return text.table(report.new(loaders=found), width=80, **how)


def test_the_page_says_who_leads_first():
    assert shown(WHOLE) == SHORT


def test_the_full_page_has_each_source_and_reason():
    full = " ".join(shown(WHOLE, full=True).split())
    assert "absent: absent is not installed: pip install 'pipebench[absent]'" in full
    assert "https://example.org/plain" in full and "goes on in the middle of a pass: state_dict" in full
    assert "gives up exact pixels; a copy of the data: packed JPEGs" in full
    assert "64 different ones" in full


def test_the_loop_without_a_loader_cannot_lead():
    found = lead([row("loop", 0.001, baseline=True), row("a", 0.002), row("b", 0.003)], "cpu")
    assert found.leader.name == "a" and found.behind.name == "b"


def test_where_no_difference_can_be_told_nobody_leads():
    found = side_by_side(row("a", 0.00101), row("b", 0.001), row("c", 0.002))
    assert verdict(found)[0].startswith(
        "With antialiasing, no loader leads for certain: b has 995 images per core-second (±0 %), and a may be as fast."
    )
    assert report.new(loaders=found).verdict.code == "level"


def test_cpu_and_clock_can_have_other_leaders():
    found = side_by_side(row("frugal", 0.001, 0.002), row("quick", 0.002, 0.001))
    assert verdict(found)[0].endswith("the rate of quick, the next. By the clock, quick leads.")


def test_one_round_or_one_loader_is_no_comparison():
    few = "Too few rounds were measured to say who leads: let it run to its end."
    one = "Only one loader was measured (a), so none leads: name another --loader beside it."
    loop = row("loop", 0.001, baseline=True)
    assert verdict(side_by_side(row("a", 0.001), row("b", 0.002, count=1))) == [few]
    assert verdict(side_by_side(row("a", 0.001))) == verdict(side_by_side(row("a", 0.001), loop)) == [one]
    assert verdict(side_by_side(loop)) == ["Only the loop without a loader was measured: name a --loader beside it."]
    assert report.new(loaders=side_by_side(row("a", 0.001))).verdict.code == "not-measured"


def test_where_nothing_was_measured_the_reasons_are_all_there_is():
    rows = [row(name, skipped=f"{name} is not installed") for name in "abcd"]
    page = shown(side_by_side(*rows))
    assert page.startswith("No loader was measured.\n") and "d: d is not installed" in page
    assert "img/core-s" not in page


def test_two_rounds_have_no_interval_and_tell_no_difference():
    found = side_by_side(row("a", 0.001, count=2), row("b", 0.002, count=2))
    first, second = verdict(found)
    assert first.startswith("With antialiasing, no loader leads for certain: a has 9") and "±" not in first
    assert second == "2 rounds give no interval, so no difference can be told: --rounds 3 or more do."
    page, evidence = shown(found), report.new(loaders=found).verdict.evidence
    assert "\nloader   img/core-s   × first   img/s   first" in page  # without ±
    assert evidence["antialiased_images_per_core_s"] > 900 and "antialiased_low" not in evidence


def test_addresses_are_whole_whatever_the_width():
    long = "https://example.org/" + "a-long-name/" * 12
    page = shown(side_by_side(row("a", 0.001, source=long), row("b", 0.002)), full=True)
    assert f"\n  {long}\n" in page


def test_rounds_are_compared_with_those_beside_them():
    """A round in which both were slow says nothing; and one that only one of them has is left out."""
    ours, theirs = row("a", 0.001), row("b", 0.002)
    slow = [replace(one, passes=tuple(replace(p, cpu_s=9 * p.cpu_s) for p in one.passes)) for one in ours.rounds[:1]]
    both = [replace(one, passes=tuple(replace(p, cpu_s=9 * p.cpu_s) for p in one.passes)) for one in theirs.rounds[:1]]
    found = speedup(
        replace(ours, rounds=(*slow, *ours.rounds[1:])), replace(theirs, rounds=(*both, *theirs.rounds[1:4])), "cpu"
    )
    assert 1.9 < found.low < 2 < found.high < 2.1


def test_the_code_names_leaders_and_what_did_not_run():
    found = report.new(loaders=WHOLE).verdict
    assert found.kind == "loaders" and found.code == "leads"
    assert found.evidence["antialiased_leader"] == "swift" and found.evidence["not_antialiased_leader"] == "plain"
    assert found.evidence["skipped"] == ("absent",) and found.evidence["refused"] == ("wrong",)
