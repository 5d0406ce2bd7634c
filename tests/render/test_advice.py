"""The advice as text: 30 lines of 80 columns, and the whole of it in a golden file."""

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from made_up_trials import LOADER, seen

from pipebench.render import advice_lines, layout, screen, text
from pipebench.render.advice import parts
from pipebench.results import report, verdicts
from pipebench.results.advice import ANEW, Advice, Cache, Change, Difference, Finding, Place, Snippet
from pipebench.results.programs import Program
from pipebench.stats import Speedup

GOLDEN = Path(__file__).parent / "golden" / "advice.txt"
FINDINGS = (
    Finding(Change("num_workers", {"num_workers": 4}, "+2 processes, 600 MB", predicted=3.3), "gain",
            Speedup(1.9, 1.85, 1.95, 0.95), (1.9, 1.91, 1.89)),
    Finding(Change("num_workers", {"num_workers": 8}, "+6 processes, 1.8 GB", predicted=3.3), "gain",
            Speedup(3.1, 2.9, 3.3, 0.95), (3.0, 3.1, 3.2)),
    Finding(Change("prefetch_factor", {"prefetch_factor": 8}, "memory for 12 batches"), "no-gain",
            Speedup(1.0, 0.98, 1.02, 0.95), (1.0, 1.0, 1.0)),
    Finding(Change("one_thread", {}, "none", one_thread=True, pools=("OPENBLAS_NUM_THREADS=1",)), "unclear",
            Speedup(1.2, 0.9, 1.6, 0.95), (1.2, 1.5, 0.9)),
    Finding(Change("in_order", {"in_order": False}, "order of batches varies"), "not-tried",
            reason="OSError: no\x1b[31m shared memory"),
    Finding(Change("persistent_workers", {"persistent_workers": True}, "memory between passes", predicted=1.8),
            "not-tried", by="passes", reason="budget"),
)  # fmt: skip
ADVICE = Advice(
    FINDINGS, 1, 1, "/nowhere/train.py", 21, 180.0, 131.0, "done", most=3.3,
    snippet=Snippet("/nowhere/train.py", 21, ("    loader = DataLoader(data, 4)",),
                    ("    loader = DataLoader(data, 4, num_workers=8)",)),
)  # fmt: skip

SCRIPT = Finding(
    Change("validation", {}, "saves 3.1 of 6.2 s", title="validation half as often", predicted=1.3, of_script=True),
    "not-tried", reason="of-script",
)  # fmt: skip


FORETOLD = tuple(
    replace(one, outcome="not-tried", gain=None, predicted=one.gain, ratios=(), reason="iterable")
    for one in FINDINGS[:3]
)


def _shown(advice, **how):
    return layout.text(parts(advice, seen(0.7).watched, **how), width=80)


def test_the_advice_reads_as_in_the_golden_file():
    shown = _shown(ADVICE, goes_on=True)
    if not GOLDEN.exists():
        GOLDEN.write_text(shown)
        pytest.fail("there was no golden file: read the new one, then run again")
    assert shown == GOLDEN.read_text()


def test_it_fits_a_screen_and_is_inert():
    shown = _shown(ADVICE, goes_on=True)
    assert len(shown.splitlines()) <= 30 and max(map(len, shown.splitlines())) <= 80
    assert "\x1b" not in shown


def test_so_does_the_longest_and_it_shows_what_to_follow():
    passes = Finding(Change("start_method", {"multiprocessing_context": "fork"}, "unsafe beside threads"), "gain",
                     Speedup(5.0, 4.0, 6.0, 0.95), by="passes")  # fmt: skip
    longest = replace(ADVICE, findings=(*FINDINGS, *FINDINGS[2:4], passes), best=8, ended="budget")
    shown = _shown(longest, goes_on=True)
    assert len(shown.splitlines()) <= 30 and "→ multi" in shown and "3 more: --full" in shown
    assert len(_shown(longest, full=True).splitlines()) > 30


def test_one_thread_is_written_as_what_sets_it():
    pools = ("OPENBLAS_NUM_THREADS=1", "cv2.setNumThreads(0)")
    found = Finding(
        Change("one_thread", {}, "none", one_thread=True, pools=pools), "gain", Speedup(6.0, 5.5, 6.5, 0.95)
    )
    shown = _shown(replace(ADVICE, findings=(found,), best=0, snippet=None))
    assert "One thread in workers makes the training loop 6.00× (5.50–6.50) as fast" in " ".join(shown.split())
    assert (
        "Let the worker_init_fn of the loader in /nowhere/train.py:21 end with:\n"
        "  os.environ.update(OPENBLAS_NUM_THREADS='1')\n"
        "  threadpoolctl.threadpool_limits(1)\n"
        "  cv2.setNumThreads(0)\n"
        "threadpoolctl limits what is already loaded: pip install threadpoolctl.\n"
    ) in shown


@pytest.mark.parametrize(
    ("ratios", "said"), [((0.7, 0.8), "slower in 2 of 2 pairs"), ((0.7, 1.8), "cannot tell: 2 pairs")]
)
def test_two_pairs_have_no_interval_worth_reading(ratios, said):
    found = replace(FINDINGS[3], gain=Speedup(0.8, 0.01, 60.0, 0.95), ratios=ratios)
    assert said in _shown(replace(ADVICE, findings=(found,), best=None))


def test_no_figure_of_a_gain_by_passes_is_cut():
    by_passes = tuple(replace(one, by="passes") for one in FINDINGS)
    two = replace(FINDINGS[3], gain=Speedup(0.8, 0.01, 60.0, 0.95), ratios=(0.7, 0.8), by="passes")
    shown = _shown(replace(ADVICE, findings=(*by_passes[1:], two), best=0))
    assert "…" not in shown and "no gain (0.98–1.02)*" in shown and "slower in 2 of 2 pairs*" in shown
    assert "*: of whole passes" in shown


def test_another_order_is_not_called_the_same():
    found = replace(FINDINGS[4], outcome="no-gain", gain=Speedup(1.0, 0.9, 1.1, 0.95), ratios=(1.0, 1.0), reason="")
    shown = _shown(replace(ADVICE, findings=(*FINDINGS[:4], found)))
    assert "some batches in another order" in " ".join(shown.split())


def test_where_the_script_made_the_samples_itself_the_order_is_that_of_a_run_without_draws():
    """Augmentations draw from the script's own random numbers there, and those of other workers do not."""
    alone = seen(0.7, loader=replace(LOADER, workers=0), num_workers=0).watched
    shown = " ".join(layout.text(parts(ADVICE, alone), width=80).split())
    assert "in the same order if no sample draws random numbers" in shown
    shown = layout.text(parts(replace(ADVICE, findings=FINDINGS[2:3], best=None), alone), width=80)
    assert "same samples, same order" in " ".join(shown.split())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"findings": (), "best": None, "most": 1.01}, "Nothing to gain from the loader's settings: no remedy"),
        ({"findings": (SCRIPT,), "best": None}, "Nothing to gain from the loader's settings: no remedy"),
        ({"findings": FINDINGS[2:3], "best": None}, "none of those tried makes the loop faster. Without its waits"),
        ({"findings": FINDINGS[3:4], "best": None}, "No gain was found, but not everything was tried long enough."),
        ({"findings": FINDINGS[2:3], "best": None, "ended": "budget"}, "No gain was found, but not everything"),
        ({"findings": FINDINGS[2:3], "best": None, "ended": "script-ended"}, "No gain was found, but not everything"),
        ({"findings": FINDINGS[5:], "best": None, "ended": "script-ended"}, "not tried; at most 1.80×"),
        ({"findings": (), "best": None, "ended": "refused", "refusal": "iterable"}, "The dataset is iterable"),
        ({"findings": (), "best": None, "ended": "refused", "refusal": "ranks"}, "This is one of several ranks, which"),
        ({"findings": FORETOLD, "best": None, "foretold": 0, "ended": "refused", "refusal": "iterable"},
         "num_workers=4 is predicted to make the training loop 1.90× (1.85–1.95) as fast. This was not tried: the"),
        ({"findings": (), "best": None, "ended": "refused"}, "No loader whose loop trains was seen"),
        ({"findings": (), "best": None, "ended": "refused", "refusal": "no-loader"}, "no batch from a DataLoader"),
        ({"ended": "script-ended"}, "The script ended before everything was tried"),
        ({"ended": "budget"}, "raise --budget"),
    ],
)  # fmt: skip
def test_each_end_is_told(changes, said):
    assert said in " ".join(_shown(replace(ADVICE, **changes)).split())


@pytest.mark.parametrize("ended", ["done", "refused"])
def test_batches_of_ranks_are_named_where_something_was_tried(ended):
    shown = " ".join(_shown(replace(ADVICE, ranks=4, ended=ended, refusal="ranks-differ")).split())
    assert (", on 4 ranks at the same batches." in shown) is (ended == "done")


def test_what_the_script_itself_could_save_comes_first_if_it_is_more():
    said = (
        "Validation half as often could make the loops at most 4.00× as fast (predicted, not tried). "
        "num_workers=8 makes"
    )
    most = replace(SCRIPT, change=replace(SCRIPT.change, predicted=4.0))
    assert said in " ".join(_shown(replace(ADVICE, findings=(*FINDINGS, most))).split())
    assert " ".join(_shown(replace(ADVICE, findings=(*FINDINGS, SCRIPT))).split()).startswith("num_workers=8 makes")


def test_what_is_only_predicted_is_marked_and_has_a_code_of_its_own():
    advice = replace(ADVICE, findings=FORETOLD, best=None, foretold=1, ended="refused", refusal="iterable")
    shown = _shown(advice)
    assert "→ num_workers=8 predicted 3.10× (2.90–3.30)" in " ".join(shown.split())
    assert len(shown.splitlines()) <= 30 and max(map(len, shown.splitlines())) <= 80
    code, evidence = (said := verdicts._of_advice(advice, None)).code, said.evidence
    assert (code, evidence["remedy"], evidence["speedup"]) == ("predicted", "num_workers", 3.1)


def test_the_code_agrees_with_the_text_where_the_loader_is_made_anew_and_where_the_script_comes_first():
    live_on = Finding(
        Change("persistent_workers", {"persistent_workers": True}, predicted=2.2), "not-tried", reason=ANEW
    )
    anew = replace(ADVICE, findings=(live_on,), best=None, foretold=0)
    assert "could make the loops at most 2.20× as fast" in " ".join(_shown(anew).split())
    told = verdicts._of_advice(anew, None)
    assert (told.code, told.evidence["remedy"], told.evidence["at_most"]) == ("predicted", "persistent_workers", 2.2)
    most = replace(SCRIPT, change=replace(SCRIPT.change, predicted=4.0))
    told = verdicts._of_advice(replace(ADVICE, findings=(*FINDINGS, most)), None)
    assert (told.code, told.evidence["of_script"], told.evidence["of_script_at_most"]) == ("change", "validation", 4.0)


def test_a_saved_report_shows_it_again(tmp_path):
    saved = report.new(watched=seen(0.7).watched, advice=ADVICE)
    report.save(saved, tmp_path / "advice.json")
    loaded = report.load(tmp_path / "advice.json")
    assert loaded.advice == ADVICE
    assert text.table(loaded, width=80).startswith("num_workers=8 makes the training loop 3.10× (2.90–3.30)")
    assert "| remedy" in text.markdown(loaded)
    old = msgspec.to_builtins(saved)
    del old["advice"]
    assert msgspec.convert(old, type=report.Report).advice is None


def _free(title, speedup, outcome="gain", kind="transform", **more):
    change = Change("knock_out", {}, title=title, edits={"knock_out": {"kind": kind, "name": title}}, knock_out=True,
                    discards=True, predicted=2.5)  # fmt: skip
    gain = Speedup(speedup, 0.95 * speedup, 1.05 * speedup, 0.95) if speedup else None
    return Finding(change, outcome, gain, (speedup,) * 3 if speedup else (), **more)


STAGES = (
    _free("Photos.__getitem__", 2.4, kind="getitem", cache=Cache(602_112, 50_000, 8e9)),
    _free("Resize", 1.8), _free("ImageFile.load", 1.01, "no-gain"),
    _free("default_collate", 0.0, "not-tried", reason="changed-in-place"),
)  # fmt: skip
DRAFT = Finding(
    Change("draft", {}, "other pixels", title="decoding at reduced size", discards=True, edits={"draft": {}},
           how=("After image = Image.open(...), and before anything else:", "image.draft(...)"),
           at=Place("open", "/nowhere/data.py", 12)),
    "gain", Speedup(1.6, 1.5, 1.7, 0.95), (1.6, 1.6, 1.61), difference=Difference(0.31, 0.008, 1.0, 600_000),
)  # fmt: skip


def test_a_stage_that_was_free_is_a_row_of_its_own():
    shown = _shown(replace(ADVICE, findings=(*FINDINGS[2:3], *STAGES), best=None, discarded=True))
    assert "  were Photos.__getitem__ free   ≤ 2.40× (2.28–2.52)" in shown
    assert "  were Resize free               ≤ 1.80× (1.71–1.89)" in shown
    assert "  were ImageFile.load free       no gain (0.96–1.06)" in shown
    assert "Samples are the same each time: a cache takes 30.1 GB (8.00 GB are free)." in shown
    assert "Then: make Resize cheaper. That can bring 1.80× at most." in shown
    assert "The weights of this run are worth nothing." in shown and "kept" not in shown
    assert "Nothing to gain from the loader's settings" in shown and "→" not in shown


def test_what_is_written_elsewhere_names_its_place():
    by_table = replace(DRAFT, change=replace(DRAFT.change, how=("Put both into ByTable(...).",)))
    snippet = Snippet("/nowhere/data.py", 7, ("    A(), B()",), ("    ByTable(A(), B())",))
    written = _shown(replace(ADVICE, findings=(by_table,), best=0, snippet=snippet))
    assert "Write, in /nowhere/data.py:7:\n  + ByTable(A(), B())\n" in written


def test_of_a_long_place_only_the_lines_that_change_are_shown():
    same = replace(DRAFT, difference=Difference(0.0, 0.0, 1.0, 600_000))
    lines = tuple(f"    line {number}" for number in range(9))
    snippet = Snippet("/nowhere/data.py", 7, lines, (*lines[:2], "    Crop(A())", *lines[3:8], "    opened(b)"))
    shown = _shown(replace(ADVICE, findings=(same,), best=0, snippet=snippet))
    assert "Write, in /nowhere/data.py:\n  9 + Crop(A())\n  15 + opened(b)\n" in shown
    assert "decoding at reduced size: samples are the same, bit for bit (600,000 values compared)." in " ".join(
        shown.split()
    )
    text = replace(same, difference=Difference(0.0, 0.0, 0.0, 0))  # of samples without arrays, no values are counted
    assert "samples are the same, bit for bit." in _shown(replace(ADVICE, findings=(text,), best=0))


def test_what_does_not_apply_has_no_line():
    other = Finding(Change("from_bytes", {}, title="decoding only the crop"), "not-tried", reason="no-jpegs")
    shown = _shown(replace(ADVICE, findings=(*FINDINGS[:2], other)))
    assert "crop" not in shown and "more: --full" not in shown
    assert "decoding only the crop: not tried, no JPEG" in _shown(
        replace(ADVICE, findings=(other,), best=None), full=True
    )
    assert "Remedies" not in _shown(replace(ADVICE, findings=(other,), best=None))


def test_a_gain_that_gives_something_up_is_told_and_not_advised():
    change = replace(DRAFT.change, title="Resize by OpenCV", gives_up=True)
    shown = _shown(replace(ADVICE, findings=(replace(DRAFT, change=change),), best=None))
    assert "Resize by OpenCV makes the loop 1.60× (1.50–1.70) as fast, but gives something up." in " ".join(
        shown.split()
    )


def test_all_kinds_of_rows_fit_a_screen():
    findings = (*FINDINGS, DRAFT, *STAGES, SCRIPT)
    shown = _shown(replace(ADVICE, findings=findings, best=6, discarded=True, snippet=None), goes_on=False)
    assert len(shown.splitlines()) <= 30 and max(map(len, shown.splitlines())) <= 80
    words = " ".join(shown.split())
    assert "Decoding at reduced size makes the training loop 1.60×" in words
    assert "values differ 0.8 % of their range, at most 31.0 %." in words
    assert "Change open in /nowhere/data.py:12: After image = Image.open" in words
    whole = " ".join(_shown(replace(ADVICE, findings=findings, best=6), full=True).split())
    assert "not tried; at most 1.30×" in whole
    assert "validation half as often: not tried, `advise` changes no code of yours (its figure is predicted)" in whole
    assert "default_collate from a memo: not tried, somebody changes its result in place" in whole


def test_a_guess_is_said_to_be_one():
    unclear = replace(FINDINGS[3], ratios=(1.2, 1.5, 1.1))
    text = " ".join(_shown(replace(ADVICE, findings=(unclear,), best=None, foretold=0, snippet=None)).split())
    assert (
        "One thread in workers probably makes the training loop faster: each of 3 pairs was, by 1.10× to 1.50×. That "
        "is too little to be sure." in text
    )
    left = replace(FORETOLD[1], reason="budget")
    text = " ".join(_shown(replace(ADVICE, findings=(left,), best=None, foretold=0, ended="budget")).split())
    assert "is predicted to make the training loop 3.10×" in text
    assert "This was not tried: it needs more than the budget leaves." in text


@pytest.mark.parametrize("findings", [FINDINGS[3:4], ()])
def test_without_a_guess_the_largest_change_of_the_script_comes_first(findings):
    shown = _shown(replace(ADVICE, findings=(*findings, SCRIPT), best=None, snippet=None))
    assert " ".join(shown.split()).startswith("Validation half as often could make the loops at most 1.30× as fast")


def test_a_loader_that_is_made_anew_is_to_be_made_once():
    anew = replace(FINDINGS[5], reason="new-loader-each-pass")
    shown = _shown(replace(ADVICE, findings=(anew,), best=None, foretold=0, snippet=None))
    text = " ".join(shown.split())
    assert "persistent_workers=True could make the loops at most 1.80× as fast (predicted)." in text
    assert "Make the loader once, before the first pass, and iterate it in each:" in text


def test_what_was_cut_short_is_said_below_the_verdict_and_a_longer_training_is_no_remedy():
    killed = Program(7, "ddp.py", 0.0, 12.0, "cut", rank=1, ranks=2, left_s=12.0, exit_status=-9)
    shown = " ".join(_shown(replace(ADVICE, findings=(), best=None, ended="script-ended", cut_short=(killed,))).split())
    assert " ddp.py (rank 1, process 7) was killed by SIGKILL after 12.0 s: its records have no end." in shown
    assert "advise again when it runs to its end." in shown and "longer training" not in shown


def test_the_name_of_a_function_keeps_its_letters():
    kept = replace(DRAFT, change=Change("kept", {}, title="zipfile.ZipFile kept", edits={"kept": {}}))
    assert _shown(replace(ADVICE, findings=(kept,), best=0)).startswith("zipfile.ZipFile kept makes the training loop ")


def test_no_workers_are_named_without_what_torch_asks_for_besides():
    settings = {"num_workers": 0, "persistent_workers": False, "prefetch_factor": None}
    none = replace(DRAFT, change=Change("num_workers", settings, "−2 processes"), difference=None)
    shown = _shown(replace(ADVICE, findings=(none,), best=0, snippet=None))
    assert shown.startswith("num_workers=0 makes the training loop ")
    written = "DataLoader(..., num_workers=0, persistent_workers=False, prefetch_factor=None)"
    assert written in " ".join(shown.split())


def test_a_cache_is_promised_for_when_it_is_full_and_what_is_made_once_is_not():
    cached = replace(
        DRAFT, change=Change("cache", {}, "memory", title="a cache of clean", edits={"cache": {"name": "clean"}}),
        difference=None, cache=Cache(1000, 500, 8e9),
    )  # fmt: skip
    shown = _shown(replace(ADVICE, findings=(cached,), best=0, discarded=True))
    assert "as fast, once it is full. It was tried on this run." in " ".join(shown.split())
    assert " in one process" not in shown
    filled = replace(cached, gain=Speedup(2.0, 1.6, 2.5, 0.95), cache=Cache(1000, 500, 8e9, False, 9.0, 6.0))
    shown = " ".join(_shown(replace(ADVICE, findings=(filled,), best=0, discarded=True)).split())
    assert "Filling it takes about 9.00 s in one process: in 3 passes, it gains 1.00× " in shown  # 18 s, or 9 s + 9 s
    assert ", and in 10 1.54× (" in shown  # 60 s, or 9 s + 30 s
    slow = replace(filled, cache=Cache(1000, 500, 8e9, False, 90.0, 6.0))
    shown = " ".join(_shown(replace(ADVICE, findings=(slow,), best=None, discarded=True)).split())
    assert "but takes longer to fill than it gains in 10 passes." in shown
    once = replace(cached, change=replace(cached.change, title="clean made once"), cache=Cache(1000, 1, 8e9, True))
    shown = " ".join(_shown(replace(ADVICE, findings=(once,), best=0, discarded=True)).split())
    assert "full" not in shown and "clean made once: one result of 1.00 kB serves all samples" in shown


def test_what_only_a_changed_script_gains_is_a_limit_and_a_guess():
    change = Change("as_tensors", {}, "shared memory", title="handing over tensors", edits={"as_tensors": {}},
                    asked_for=True)  # fmt: skip
    found = Finding(change, "slower", Speedup(0.8, 0.75, 0.85, 0.95), (0.8, 0.8, 0.8), given_back=0.5)
    shown = " ".join(_shown(replace(ADVICE, findings=(found,), best=None, foretold=0)).split())
    assert "Handing over tensors could make the training loop about 1.60× as fast (predicted)." in shown
    assert "its own values again, which took 50 % of the time beyond its waits" in shown
    assert "predicted; about 1.60×" in shown
    assert replace(found, given_back=0.05).if_taken is None and replace(found, outcome="gain").if_taken is None


def test_no_code_without_blanks_loses_its_middle():
    code = "dl=DataLoader(ds,batch_size=8,num_workers=8,shuffle=True,generator=torch.Generator().manual_seed(3))"
    snippet = Snippet("train.py", 3, (code.replace("workers=8", "workers=2"),), (code,))
    _, *lines = advice_lines.written(snippet)
    assert max(map(len, lines)) <= 80 and "".join(one[4:] for one in lines) == code


def test_what_the_user_writes_is_never_cut_for_what_was_watched():
    lines = tuple(f"    line {number}," for number in range(3))
    after = ("loader = DataLoader(", *lines[:1], "    num_workers=8)")
    how = tuple(f"Write this, too: step {number} of the change." for number in range(11))
    chosen = replace(FINDINGS[0], change=replace(FINDINGS[0].change, how=how), outcome="gain")
    found = replace(ADVICE, findings=(chosen, *FINDINGS[1:]), best=0, snippet=Snippet("train.py", 3, lines, after))
    given = parts(found, seen(0.7).watched)
    text = layout.text(screen.fitted(given, 80, screen.MORE), width=80)
    assert len(text.splitlines()) <= 30 and "num_workers=8)" in text and how[-1] in text


@pytest.mark.parametrize(
    ("at", "line"),
    [
        (None, "For validation half as often:"),
        (Place("read", "/nowhere/train.py", 5), "Change read in /nowhere/train.py:5:"),
    ],
)
def test_what_could_bring_more_than_the_advice_is_told_first(at, line):
    change = replace(SCRIPT.change, predicted=9.0, how=("Run it less often.",), at=at)
    shown = _shown(replace(ADVICE, findings=(*FINDINGS, replace(SCRIPT, change=change))))
    assert shown.split("\n\n")[0].lstrip().startswith("Validation half as often could make the loops at most 9.00")
    assert f"{line}\n  Run it less often.\n\n" in shown
    assert shown.index(line) < shown.index("num_workers=8)")


def test_what_workers_that_live_on_save_in_some_passes_is_said():
    found = Finding(Change("persistent_workers", {"persistent_workers": True}, by_passes=True), "gain",
                    Speedup(3.0, 2.0, 4.0, 0.95), (3.0, 3.0, 3.0), by="passes")  # fmt: skip
    shown = " ".join(_shown(replace(ADVICE, findings=(found,), best=0, snippet=None)).split())
    assert (
        "3.00× (2.00–4.00) as fast. It was tried on this run. The first pass starts its workers as before: in 3 "
        "passes, it gains 1.80× (1.50–2.00) in all, and in 10 2.50× (1.82–3.08)."
    ) in shown
