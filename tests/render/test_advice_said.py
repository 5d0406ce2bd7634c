"""What the advice says of what was not tried, and why, in words that the figures bear out."""

from dataclasses import replace

import pytest
from made_up_trials import host, seen

from pipebench.render import layout, screen, watch
from pipebench.render.advice import parts
from pipebench.results.account import Account, AccountRow, Cause
from pipebench.results.advice import Advice, Change, Finding, Patch, Place
from pipebench.results.drilled import DrilledLine, DrilledRow
from pipebench.results.next_move import NextMove
from pipebench.results.watched import Note
from pipebench.stats import Speedup
from pipebench.watch.read import known_table

ADVICE = Advice((), None, 1, "/nowhere/train.py", 21, 32.0, 8.3, "done", most=3.2)
LEFT = Finding(Change("num_workers", {"num_workers": 2}, "+1 process"), "not-tried", by="passes", reason="budget")
TRIED = Finding(Change("num_workers", {"num_workers": 4}, "+2 processes"), "no-gain",
                Speedup(1.0, 0.98, 1.02, 0.95), (1.0, 1.0, 1.0))  # fmt: skip


def _said(advice, found=None):
    return " ".join(layout.text(parts(advice, found or seen(0.7).watched), width=80).split())


def test_that_a_trial_needs_more_than_the_budget_leaves_is_said_with_both_figures():
    left = replace(LEFT, needs_s=26.0)
    found = replace(ADVICE, findings=(left, replace(left, needs_s=24.5)), ended="budget")
    said = "A trial of what is left takes 24.5 s or more, and the budget leaves 23.7 s: raise --budget."
    assert said in _said(found) and "too short" not in _said(found)


@pytest.mark.parametrize(
    ("change", "spent_s"),
    [
        ({"needs_s": 26.0}, 32.1),  # the budget is spent
        ({"needs_s": 26.0, "ratios": (1.1,)}, 32.0),
        ({}, 8.3),  # of a record without these figures
        ({"needs_s": 20.0}, 8.3),  # there would have been time at the end
    ],
)
def test_else_the_budget_is_too_short(change, spent_s):
    found = replace(ADVICE, findings=(replace(LEFT, **change),), ended="budget", spent_s=spent_s)
    assert "The budget is too short to try everything" in _said(found)


def test_a_prediction_of_nothing_is_no_row_of_the_short_report():
    nothing = replace(LEFT, predicted=Speedup(1.02, 0.7, 1.4, 0.95))
    something = replace(LEFT, change=replace(TRIED.change, settings={"num_workers": 8}),
                        predicted=Speedup(1.2, 1.0, 1.4, 0.95))  # fmt: skip
    found = replace(ADVICE, findings=(TRIED, nothing, something), ended="budget")
    assert "num_workers=8 predicted 1.20×" in _said(found) and "num_workers=2" not in _said(found)
    assert "more: --full" not in _said(found)
    full = " ".join(layout.text(parts(found, seen(0.7).watched, full=True), width=80).split())
    assert "num_workers=2 predicted 1.02×" in full
    only = replace(ADVICE, findings=(nothing,), ended="budget")
    assert "Remedies" not in _said(only) and "No remedy was tried long enough" in _said(only)


@pytest.mark.parametrize("known", known_table.KNOWN)
def test_what_to_write_is_broken_where_the_page_ends(known):
    change = Change("slow_lines", {}, title=known.title, predicted=2.0, how=known.how, of_script=True,
                    at=Place("Clips.read", "/nowhere/train.py", 5))  # fmt: skip
    found = replace(ADVICE, findings=(Finding(change, "not-tried", reason="of-script"),))
    shown = layout.text(parts(found, seen(0.7).watched), width=80)
    _, _, below = shown.partition("Change Clips.read in /nowhere/train.py:5:\n")
    lines = below.split("\n\n")[0].splitlines()
    following = [after.split()[0] for after in lines[1:]]
    for line, word in zip(lines, following, strict=False):
        assert len(line) <= 80 < len(line) + 1 + len(word) + 2, lines
    assert "could make the loops at most 2.00× as fast" in " ".join(shown.split())


LINE = DrilledLine("/home/me/train.py", "Data.__getitem__", 32, "torch.Module._call_impl", "soft = teacher(x)", 40,
                   0.98, 0.83, 1.0)  # fmt: skip
ROW = DrilledRow(1, "Data.__getitem__", "getitem", 0.99, 40, 0, (LINE,))
SLOWER = replace(TRIED, outcome="unclear", gain=Speedup(0.8, 0.2, 3.0, 0.95), ratios=(0.8, 0.75))
NAMED = "97 % of loading is train.py:32 → torch.Module._call_impl: make that cheaper."


def _drilled(row=ROW):
    return replace(seen(0.7).watched, drilled=(row,))


def test_where_nothing_gains_the_line_that_takes_most_of_loading_is_named():
    found = replace(ADVICE, findings=(SLOWER,))
    said = _said(found, _drilled())
    assert said.startswith("Nothing to gain from the loader's settings: none of those tried makes the loop faster.")
    assert NAMED in said and "Then: change that line and run `pipebench watch`" in said
    assert "not everything was tried" not in said


def test_a_line_that_sleeps_is_not_to_be_made_cheaper():
    line = replace(LINE, calls="", text="        time.sleep(0.002)")
    said = _said(replace(ADVICE, findings=(SLOWER,)), _drilled(replace(ROW, lines=(line,))))
    assert "97 % of loading is train.py:32, which sleeps: more workers sleep at once." in said
    assert "make that cheaper" not in said


@pytest.mark.parametrize(
    ("advice", "row"),
    [
        (ADVICE, replace(ROW, loader=2)),
        (ADVICE, replace(ROW, worker_share=0.55)),  # its share may be less than half
        (ADVICE, replace(ROW, lines=(replace(LINE, line=0),))),
        (replace(ADVICE, most=1.04), ROW),  # the loop hardly waits
        (replace(ADVICE, findings=(replace(TRIED, outcome="gain", gain=Speedup(2.0, 1.9, 2.1, 0.95)),), best=0), ROW),
        (replace(ADVICE, ended="refused", refusal="iterable"), ROW),
    ],
)
def test_else_no_line_is_named(advice, row):
    assert "of loading is train.py" not in _said(advice, _drilled(row))


@pytest.mark.parametrize(("foreign", "threads", "told"), [(1.3, 1, True), (0.1, 1, False), (1.3, 0, False)])
def test_threads_that_gained_beside_other_programs_are_to_be_tried_without_them(foreign, threads, told):
    change = replace(TRIED.change, loop_threads=threads)
    gained = replace(TRIED, change=change, outcome="gain", gain=Speedup(2.0, 1.9, 2.1, 0.95))
    watched = seen(0.7).watched
    beside = replace(watched, host=replace(host(), foreign_cores=foreign))
    said = _said(replace(ADVICE, findings=(gained,), best=0), beside)
    assert ("try this again on a quiet machine before you keep it" in said) is told


@pytest.mark.parametrize(("or_more", "limit"), [(False, "1.46× as fast."), (True, "1.46× or more (threads of torch")])
def test_without_waits_it_is_faster_still_where_workers_take_cores_from_training(or_more, limit):
    found = replace(ADVICE, findings=(SLOWER,), most=1.46, or_more=or_more)
    assert f"Without its waits for data the loop would be {limit}" in _said(found)


def test_what_was_slower_in_one_pair_of_two_was_not_tried_long_enough():
    found = replace(ADVICE, findings=(replace(SLOWER, ratios=(0.8, 1.2)),))
    assert "No gain was found, but not everything was tried long enough." in _said(found)


def test_others_cores_are_told_before_it_is_said_that_nothing_gains():
    used = replace(host(), foreign_cores=1.3)
    beside = replace(seen(0.04).watched, host=used)
    said = _said(replace(ADVICE, most=1.04), beside)
    assert said.startswith(
        "Other processes used 1.30 cores while the loop was watched. What follows holds beside them:"
    )
    assert "measure again on a quiet machine. Nothing to gain from the loader's settings" in said
    assert said.count("Other processes used") == 1
    quiet = replace(beside, host=replace(used, foreign_cores=0.05))
    for other in (quiet, replace(beside, host=replace(used, foreign_cores=None)), seen(0.04).watched):
        assert "Other processes used" not in _said(replace(ADVICE, most=1.04), other)


def test_beside_a_gain_others_cores_are_a_note_behind_it():
    gained = replace(TRIED, outcome="gain", gain=Speedup(2.0, 1.9, 2.1, 0.95))
    beside = replace(seen(0.7).watched, host=replace(host(), foreign_cores=1.3))
    said = _said(replace(ADVICE, findings=(gained,), best=0), beside)
    others = "Other processes used 1.30 cores: measure again on a quiet machine."
    assert said.startswith("num_workers=4 makes") and others in said


def test_a_rung_that_is_predicted_to_bring_no_more_than_the_tried_one_is_no_row_of_the_short_report():
    gained = replace(TRIED, outcome="gain", gain=Speedup(1.38, 1.1, 1.7, 0.95))
    eight = replace(LEFT, change=replace(TRIED.change, settings={"num_workers": 8}))
    for told, shown in ((1.4, False), (1.6, True)):
        above = replace(eight, predicted=Speedup(told, 1.0, 2.0, 0.95))
        said = _said(replace(ADVICE, findings=(gained, above), best=0, ended="budget"))
        assert ("num_workers=8 predicted" in said) is shown and "num_workers=4 1.38×" in said


def test_what_is_tried_with_weights_that_may_be_spoiled_is_told_where_the_loop_waits():
    said = "--yes-discard-weights also tries caches of what samples make again in each pass"
    gained = replace(TRIED, outcome="gain", gain=Speedup(1.4, 1.3, 1.5, 0.95))
    spoils = replace(LEFT, change=replace(LEFT.change, discards=True))
    assert said in _said(ADVICE) and said in _said(replace(ADVICE, most=None))  # None: it does little besides waiting
    assert said in _said(replace(ADVICE, findings=(gained,), best=0))
    for other in (
        replace(ADVICE, most=1.05),
        replace(ADVICE, findings=(gained,), best=0, most=1.45),
        replace(ADVICE, discarded=True),
        replace(ADVICE, findings=(spoils,)),
        replace(ADVICE, ended="refused", refusal="iterable"),
        replace(ADVICE, loader=None),
    ):
        assert said not in _said(other)


PREDICTED = replace(LEFT, change=replace(TRIED.change, settings={"num_workers": 8}),
                    predicted=Speedup(1.9, 1.5, 2.4, 0.95))  # fmt: skip


def test_a_prediction_that_trials_refute_is_no_verdict_and_no_figure_of_the_table():
    said = _said(replace(ADVICE, findings=(TRIED, replace(PREDICTED, belied=True)), ended="budget"))
    assert "Trials contradict the simulation: it predicts a gain of more workers" in said
    assert "num_workers=8 not tried" in said
    assert "num_workers=8: not tried, it needs more than the budget leaves; trials of other numbers contradict" in said
    assert "Trials contradict" not in _said(replace(ADVICE, findings=(TRIED, PREDICTED), ended="budget"))


def test_a_prediction_that_may_be_a_loss_tells_no_gain():
    unsure = replace(PREDICTED, predicted=Speedup(1.16, 0.75, 1.8, 0.95))
    said = _said(replace(ADVICE, findings=(TRIED, unsure), ended="budget"))
    assert "num_workers=8, which was not tried, is predicted to bring 1.16× (0.75–1.80): from that, no gain can" in said
    assert "no gain can" not in _said(replace(ADVICE, findings=(TRIED, PREDICTED), ended="budget"))


def test_pairs_that_scatter_are_no_verdict_and_what_to_do_is_said():
    ratios = (1.38, 3.0, 10.69)
    found = replace(TRIED, outcome="unclear", ratios=ratios, gain=Speedup(3.0, 0.11, 156.0, 0.95))
    said = _said(replace(ADVICE, findings=(found,), ended="budget"))
    assert "num_workers=4 was tried, but its 3 pairs by 1.38× to 10.69× scatter too much to tell a gain: raise" in said
    assert "scatter" not in _said(replace(ADVICE, findings=(replace(found, ratios=(1.1, 1.3, 1.2)),), ended="budget"))


@pytest.mark.parametrize(("low", "said_so"), [(7.4, True), (1.2, False)])
def test_a_prediction_above_the_best_gain_is_named_beside_it(low, said_so):
    gained = replace(TRIED, outcome="gain", gain=Speedup(5.6, 1.3, 23.8, 0.95), ratios=(5.0, 6.0, 5.6))
    none = replace(PREDICTED, change=replace(LEFT.change, settings={"num_workers": 0}), reason="own-process",
                   predicted=Speedup(10.4, low, 14.7, 0.95))  # fmt: skip
    said = _said(replace(ADVICE, findings=(gained, none), best=0))
    named = "num_workers=0 is predicted to bring more, 10.4× (7.40–14.7), but was not tried: it would run the dataset"
    assert (named in said) is said_so and ("--yes-discard-weights tries it." in said) is said_so
    assert "bring more" not in _said(replace(ADVICE, findings=(gained, replace(none, belied=True)), best=0))


OF_VALIDATION = Cause("validation", 2.0, 1.7, 2, {"passes": 3, "workers": 0, "waits_s": 1.7})
STARTS = {"passes": 4, "workers": 2, "start_method": "fork", "persistent": 0, "ends_s": 0.2, "in_validation": 0}
OF_START = Cause("start-up", 1.4, 0.9, 1, STARTS)
LONG = tuple(
    Finding(Change("slow_lines", {}, title=f"line {place}", predicted=1.05), "not-tried", reason="budget")
    for place in range(5)
)


def _with_causes(*causes):
    rows = (AccountRow("forward", 5.0, 1), AccountRow("validation", 2.0, 2, 1.7))
    watched = seen(0.7).watched
    return replace(watched, verdict=replace(watched.verdict, limit="other"), account=Account(9.0, rows, causes))


def _short(advice, watched):
    return " ".join(layout.text(screen.fitted(parts(advice, watched), 80, screen.MORE), width=80).split())


@pytest.mark.parametrize(("speedup", "said_so"), [(1.16, True), (2.0, False)])
def test_a_short_page_keeps_the_cause_of_another_loader_that_could_save_more_than_the_advice(speedup, said_so):
    gain = Speedup(speedup, 1.1, 2.5, 0.95)
    how = tuple(f"Line {place} of what the user writes." for place in range(17))
    found = replace(TRIED, outcome="gain", gain=gain, change=replace(TRIED.change, how=how, at=Place("it", "/a.py", 3)))
    said = _short(replace(ADVICE, findings=(found, *LONG), best=0), _with_causes(OF_VALIDATION, OF_START))
    assert ("Up to 1.70 s of that could be saved by faster loading, as by workers for loader 2" in said) is said_so
    assert "Shortened" in said and "Starting 2 workers" not in said


def test_a_short_page_has_where_the_time_went_in_place_of_causes_and_of_rows_that_matter_less():
    how = tuple(f"Line {place} of what the user writes." for place in range(9))
    found = replace(TRIED, outcome="gain", gain=Speedup(2.0, 1.8, 2.2, 0.95),
                    change=replace(TRIED.change, how=how, at=Place("it", "/a.py", 3)))  # fmt: skip
    said = _short(replace(ADVICE, findings=(found, *LONG), best=0), _with_causes(OF_START, OF_VALIDATION))
    went = "Where the first 9.00 s went, before the trials, in s forward and backward ████████████████ 5.00 56 %"
    assert went in said and "validation loops ██████ 2.00 22 % about 1.70 less" in said and "more rows" in said
    assert "Starting 2 workers (fork)" not in said and "could be saved by faster loading" not in said


def test_where_trials_bring_nothing_the_move_of_the_watched_part_comes_next():
    none = replace(TRIED, outcome="no-gain")
    watched = replace(seen(0.7).watched, started="train.py --epochs 3")
    assert _said(replace(ADVICE, findings=(none,)), watched).endswith(
        "`pipebench watch --full train.py --epochs 3` shows which stage takes the time."
    )
    before = NextMove(
        "do-less-before", 2.0, took_s=13.9, function="build_vocab", file="/a/news.py", line=63, line_share=0.9
    )
    said = _said(replace(ADVICE, findings=(none,)), replace(watched, next_move=before))
    assert "build_vocab" in said.split("Next: ")[1] and "watch --full" not in said
    tried = NextMove("raise-num-workers", 2.0, workers=2, to_workers=4)
    assert "Next: " not in _said(replace(ADVICE, findings=(none,)), replace(watched, next_move=tried))


def test_a_short_page_that_names_no_change_has_the_first_cause_before_where_the_time_went():
    how = tuple(f"Line {place} of what the user writes." for place in range(9))
    tried = tuple(
        replace(TRIED, outcome="no-gain", gain=Speedup(1.0, 0.9, 1.1, 0.95), change=replace(TRIED.change, how=how))
        for _ in range(5)
    )
    said = _short(replace(ADVICE, findings=tried, best=None), _with_causes(OF_START, OF_VALIDATION))
    assert "Starting 2 workers (fork)" in said


def test_names_and_costs_that_are_too_long_are_cut_between_words():
    cost, title = "other last digits of the sums of gradients", "a sampler that takes hardly any time"
    change = Change("sampler_ahead", {}, cost, title=title)
    said = _said(replace(ADVICE, findings=(TRIED, Finding(change, "not-tried", reason="of-script"))))
    assert "a sampler that takes … " in said and "other last digits of the …" in said


def test_the_figures_of_the_watched_part_tell_no_next_move_and_of_no_worker_that_ended_after_it():
    lost = {"loader": 1, "worker": 0, "pid": 7, "sample": 3, "between": 1}
    killed = {**lost, "worker": 1, "signal": "SIGKILL"}
    of_loop = seen(0.7).watched
    move = NextMove("raise-num-workers", usable_cores=2.0, loader=1, workers=2, to_workers=4)
    watched = replace(of_loop, next_move=move, notes=(Note("worker-lost", lost), Note("worker-lost", killed)))
    assert "Next: " in layout.text(watch.parts(watched, full=True), width=80)
    said = " ".join(layout.text(parts(ADVICE, watched, full=True), width=80).split())
    assert "Before the trials" in said and "Next: " not in said and "Then: `pipebench advise" not in said
    assert "Worker 1" in said and "Worker 0 of loader" not in said


def test_fewer_threads_that_gain_by_cores_that_needless_work_takes_are_put_aside():
    line = Change("slow_lines", {}, title="a part cut out first", predicted=1.73, of_script=True, or_more=True)
    threads = Change("loop_threads", {}, title="torch.set_num_threads(1)", loop_threads=1)
    gained = Finding(threads, "gain", Speedup(1.41, 1.2, 1.7, 0.95), (1.4, 1.4, 1.5))
    found = replace(ADVICE, findings=(gained, Finding(line, "not-tried", reason="of-script")))
    assert found.aside is gained and found.followed is None
    said = _said(found)
    assert said.startswith("A part cut out first could make the loops about 1.73× or more as fast (predicted, not")
    assert "torch.set_num_threads(1) makes the training loop 1.41× (1.20–1.70) as fast (tried)" in said
    assert "→" not in said and "Then: make that change and run `pipebench advise` again" in said
    assert "Nothing to gain" not in said and "No gain was found" not in said
    most = replace(line, predicted=1.13, frees=0.98)  # of loops that hardly wait, and train on few cores
    unsure = replace(gained, outcome="unclear", gain=Speedup(1.35, 0.75, 2.6, 0.95), ratios=(1.03, 1.3, 1.4, 1.88))
    freed = replace(found, findings=(unsure, Finding(most, "not-tried", reason="of-script")))
    assert "torch.set_num_threads(1) probably makes it faster, too: torch's threads wait for cores" in _said(freed)
    less = replace(found, findings=(gained, Finding(replace(line, predicted=1.3), "not-tried", reason="of-script")))
    sure = replace(found, findings=(gained, Finding(replace(line, or_more=False), "not-tried", reason="of-script")))
    assert less.aside is None and sure.aside is None


@pytest.mark.parametrize(("high", "said_so"), [(11.9, True), (5.0, False)])
def test_of_a_gain_whose_interval_is_very_wide_it_is_said_that_its_size_is_hardly_known(high, said_so):
    gained = replace(TRIED, outcome="gain", gain=Speedup(3.6, 1.07, high, 0.95), ratios=(2.0, 6.0, 3.6))
    said = _said(replace(ADVICE, findings=(gained,), best=0))
    assert ("Its pairs scatter, so how much it brings is hardly known: raise --budget" in said) is said_so


@pytest.mark.parametrize(("middle", "low", "said_so"), [(14.1, 8.5, True), (14.1, 4.0, False), (11.0, 8.5, False)])
def test_what_may_bring_clearly_more_is_named_as_that(middle, low, said_so):
    gained = replace(TRIED, outcome="gain", gain=Speedup(9.8, 5.0, 19.1, 0.95), ratios=(9.0, 10.0, 9.8))
    none = replace(PREDICTED, change=replace(LEFT.change, settings={"num_workers": 0}), reason="own-process",
                   predicted=Speedup(middle, low, 23.5, 0.95))  # fmt: skip
    said = _said(replace(ADVICE, findings=(gained, none), best=0))
    assert ("num_workers=0 may bring more (predicted), 14.1× (8.50–23.5), but was not tried" in said) is said_so


OF_BLOCKED = {
    "workers": 2, "busy": 0.99, "cpu_share": 0.1, "usable_cores": 2.0, "stage": "Clips.read", "kind": "function",
    "stage_share": 0.9, "includes_read": 0,
}  # fmt: skip
BLOCKED = Cause("workers-blocked", 4.0, 3.0, 1, OF_BLOCKED)


@pytest.mark.parametrize(("settings", "untried"), [({"num_workers": 4}, False), ({"prefetch_factor": 8}, True)])
def test_more_workers_that_were_tried_are_not_said_to_be_untried(settings, untried):
    gained = replace(TRIED, change=Change("num_workers", settings), outcome="gain", gain=Speedup(2.0, 1.9, 2.1, 0.95))
    said = _said(replace(ADVICE, findings=(gained,), best=0), _with_causes(BLOCKED))
    assert "More workers" in said and ("(predicted, not tried)" in said) is untried


def test_of_a_change_that_is_made_by_hand_no_patch_is_said_not_to_be_advised():
    change = Change("slow_lines", {}, "written by hand", title="no deep copy of a sample", predicted=2.42,
                    how=("Copy only what changes.",), of_script=True, about=True,
                    at=Place("DS.__getitem__", "/nowhere/train.py", 5))  # fmt: skip
    found = replace(ADVICE, findings=(Finding(change, "not-tried", reason="of-script"),), patch=Patch("", "no-change"))
    said = _said(found)
    assert said.startswith("A change to no deep copy of a sample could make the loops about 2.42× as fast (predicted,")
    assert "No patch can be written for this change: make it by hand." in said and "No change is advised" not in said
    assert "not tried; about 2.42× written by hand" in said and "Then: make that change and run" in said
    assert "No change is advised." in _said(replace(found, findings=()))


@pytest.mark.parametrize(("most", "said_so"), [(3.2, False), (1.02, True)])
def test_that_nothing_is_worth_a_change_is_not_said_of_a_loop_that_could_be_much_faster(most, said_so):
    watched = seen(0.7).watched
    account = Account(9.0, (AccountRow("forward", 5.0, 1),))
    found = replace(watched, account=account, verdict=replace(watched.verdict, limit="data"))
    assert ("is worth a change" in _said(replace(ADVICE, most=most), found)) is said_so


def test_where_trials_brought_nothing_the_stage_that_is_to_become_cheaper_comes_next():
    move = NextMove("make-stage-cheaper", 2, stage="DS.__getitem__", stage_s=3e-5, sample_s=4e-5, hand_off_s=0.002,
                    batch_s=0.001)  # fmt: skip
    tried = replace(ADVICE, findings=(TRIED,))
    said = _said(tried, replace(seen(0.7).watched, next_move=move))
    assert "Next: make DS.__getitem__ cheaper" in said and "shows which stage takes the time" not in said
    more = NextMove("raise-num-workers", 2, 1, to_workers=2)
    assert "shows which stage takes the time" in _said(tried, replace(seen(0.7).watched, next_move=more))
