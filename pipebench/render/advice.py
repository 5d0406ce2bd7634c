"""Renders the advice of one run: the verdict, where time went, what each remedy brought, what to write. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipebench.render import layout, programs, watch, watch_account
from pipebench.render.advice_doubts import doubts, hardly_known, more_untried, put_aside
from pipebench.render.advice_lines import (
    by_hand,
    in_library,
    loop_threads,
    of_script,
    one_thread,
    patched,
    short,
    untold,
    written,
)
from pipebench.render.advice_names import keywords, named, sentence_case
from pipebench.render.advice_notes import (
    WENT,
    SlowLine,
    before,
    beside_others,
    causes,
    of_discarding,
    of_line,
    of_reads,
    of_threads,
    otherwise,
    slow_line,
    too_long,
)
from pipebench.render.advice_reasons import DOES_NOT_APPLY, ENDED, NOT_TRIED, REFUSALS
from pipebench.render.cells import Table, spoken
from pipebench.render.layout import Line, Part, Section, Spare, Sparing
from pipebench.render.screen import LATE
from pipebench.render.watch_verdict import verdict as limit
from pipebench.results.advice import ANEW, LEAST_PAIRS, NO_LOADER, SOME_PASSES, Advice, Cache, Finding
from pipebench.results.watched import LoaderResult, WatchResult
from pipebench.units import counted, percent, printable, seconds, size

_FEW_PASSES = 3
_LESS = 0.97  # of the gain of the loop: the gain of the run is told, too
_WORTH = 1.03  # the least predicted speed-up that the short report has
_MOST_ROWS = 6  # of the short report
_MOST_STAGES = 3  # of these rows
_MOST_NOTES = 2  # on what was not tried
_BY_PASSES = "*: of whole passes, with the start of their workers."
_FREE = "free: its first result is served again; no change of the stage can bring more."
_GAIN = "gain: iterations/s of the whole loop; the interval is for another run."


def parts(advice: Advice, watched: WatchResult | None, *, full: bool = False, goes_on: bool = False) -> list[Sparing]:
    """The advice in at most 30 lines of 80 columns; `full` adds every table of the watched part of the run."""
    first, *rest = sections(advice, watched, full=full, goes_on=goes_on)
    below = [part for name, made in rest for part in (["", *made] if name == "next" else made)]
    if full and watched is not None:
        below += ["", Line("Before the trials", "bold"), *before(watched)]
    return [*first[1], *below]


def sections(
    advice: Advice, watched: WatchResult | None, *, full: bool = False, goes_on: bool = False
) -> list[Section]:
    """The same parts by what they are about, without those of the watched part of the run."""
    nothing = _is_nothing(advice)
    line = slow_line(advice, watched) if nothing else None
    others = beside_others(watched) if nothing else ""
    said: list[Sparing] = [Line(f"{others}{verdict(advice)}{of_line(line)}", "bold"), *programs.ends(advice.cut_short)]
    if watched is not None:
        said += causes(advice, watched)
        went = [] if full else watch_account.of_watched(watched.account) or watch.where(watched)
        said += [Spare((limit(watched.verdict),), LATE), Spare(tuple(went), WENT)]  # what the user writes is never cut
        said += [] if full or others else watch.others(watched, False, brief=True)
        said += of_threads(advice, watched)
    table = [_table(advice, full)] if any(full or _is_told(advice, one) for one in advice.findings) else []
    closing = _closing(advice, _had_no_workers(advice, watched), goes_on)
    return [
        ("verdict", said),
        ("remedies", [*table, *_writing(advice, watched)]),
        ("next", [*closing, *of_reads(advice), *of_discarding(advice), _next(advice, line, otherwise(watched))]),
    ]


def verdict(advice: Advice) -> str:
    """What to change and what it brought, or is predicted to bring; or that nothing gained."""
    found = advice.followed
    if found is not None:
        return f"{_larger(advice)}{_of_change(found)}{hardly_known(found)}{more_untried(advice)}"
    if advice.refusal == NO_LOADER:
        return f"{_larger(advice)}Nothing was tried: the training takes no batch from a DataLoader."
    if advice.ended == "refused":
        return f"{_larger(advice)}No remedy was tried on this script."
    if advice.aside is not None:
        return f"{_larger(advice)}{put_aside(advice.aside)}"
    return f"{_larger(advice)}{_nothing(advice)}{doubts(advice)}{_given_up(advice)}"


def _is_nothing(advice: Advice) -> bool:
    """Whether no change is named, of the loader or of the script."""
    return advice.followed is None and advice.larger is None and advice.ended != "refused"


def _of_change(found: Finding) -> str:
    what = sentence_case(named(found.change))
    if found.if_taken is not None:
        return (
            f"{what} could make the training loop about {found.if_taken:.2f}× as fast (predicted). {_given_back(found)}"
        )
    if found.gain is not None and found.outcome != "gain":
        pairs = f"each of {len(found.ratios)} pairs was, by {min(found.ratios):.2f}× to {max(found.ratios):.2f}×"
        return f"{what} probably makes the training loop faster: {pairs}. That is too little to be sure."
    if found.gain is not None:
        full = ", once it is full" if found.fills and found.cache is not None else ""
        told = f"{what} makes the training loop {spoken(found.gain)} as fast{full}. It was tried on this run."
        return f"{told}{_of_run(found)}{_of_filling(found)}"
    why = NOT_TRIED.get(found.reason, "the trial was too short")
    if found.predicted is None:
        return f"{what} could make the loops {found.change.limit} as fast (predicted). This was not tried: {why}."
    told = f"predicted to make the training loop {spoken(found.predicted)} as fast"
    return f"{what} is {told}. This was not tried: {why}."


def _given_back(found: Finding) -> str:
    return (
        f"While it was tried, the script got its own values again, which took {percent(found.given_back)} of the time "
        "beyond its waits: a script that takes what the workers send does without that."
    )


def _larger(advice: Advice) -> str:
    """What could bring more than the change to follow, but is no change of the loader."""
    found = advice.larger
    if found is None:
        return ""
    what = named(found.change)
    what = f"A change to {what}" if what.startswith("no ") else sentence_case(what)
    of = "the run" if found.change.of_run else "the loops"
    return f"{what} could make {of} {found.change.limit} as fast (predicted, not tried). "


def _given_up(advice: Advice) -> str:
    """What gained at a price that nobody is advised to pay."""
    found = (one for one in advice.findings if not one.advisable and one.outcome == "gain" and one.gain is not None)
    return "".join(
        f" {sentence_case(named(one.change))} makes the loop {spoken(one.gain)} as fast, but {_price(one)}."
        for one in found
        if one.gain is not None
    )


def _price(found: Finding) -> str:
    if found.change.gives_up:
        return "gives something up"
    fits = found.cache is None or found.cache.fits
    return f"takes longer to fill than it gains in {SOME_PASSES} passes" if fits else "does not fit into memory"


def _nothing(advice: Advice) -> str:
    tried = [one for one in advice.findings if one.gain is not None and not one.change.knock_out]
    left = [one for one in advice.findings if one.gain is None and not one.change.of_script and _applies(one)]
    if not tried and (left or advice.ended in ("script-ended", "fault")):
        return "No remedy was tried long enough for an advice."
    more = " or more (threads of torch wait for cores that workers use)" if advice.or_more else ""
    most = f" Without its waits for data the loop would be {advice.most:.2f}×{more} as fast." if advice.most else ""
    if not tried:
        return f"Nothing to gain from the loader's settings: no remedy promises a gain.{most}"
    if advice.ended != "done" or any(one.outcome == "unclear" and not _slower(one) for one in tried):
        return f"No gain was found, but not everything was tried long enough.{most}"
    return f"Nothing to gain from the loader's settings: none of those tried makes the loop faster.{most}"


def _slower(found: Finding) -> bool:
    """Whether each of its pairs was slower: more of them would not make it an advice."""
    return bool(found.ratios) and max(found.ratios) < 1.0


def _of_run(found: Finding) -> str:
    """What the gain of a loop means for the whole run, if that is clearly less."""
    if found.run is None or found.gain is None or found.run.speedup > _LESS * found.gain.speedup:
        return ""
    around = "validation and the work between passes" if found.by == "passes" else "start-up and what is between passes"
    return f" With {around}, the run becomes {spoken(found.run)} as fast."


def _of_filling(found: Finding) -> str:
    """What it gains in a run of few and of more passes: a cache must be filled first, and workers start once."""
    few, more = (found.after(one) if found.fills or found.keeps_workers else None for one in (_FEW_PASSES, SOME_PASSES))
    if few is None or more is None:
        return ""
    took = " The first pass starts its workers as before"
    if found.cache is not None and found.cache.fill_s is not None:
        took = f" Filling it takes about {seconds(found.cache.fill_s)} in one process"
    return f"{took}: in {_FEW_PASSES} passes, it gains {spoken(few)} in all, and in {SOME_PASSES} {spoken(more)}."


def _table(advice: Advice, full: bool) -> Table:
    """A row for each change. The short report has the first ones, and always the one to follow."""
    rows = []
    for one in range(len(advice.findings)) if full else _first(advice):
        found = advice.findings[one]
        name = f"were {printable(found.change.title)} free" if found.change.knock_out else named(found.change)
        rows.append((("→ " if found is advice.followed else "  ") + name, _gain(found), printable(found.change.cost)))
    return Table("Remedies", ("remedy", "gain", "cost"), tuple(rows), frozenset({1}), tuple(_notes(advice, rows, full)),
                 shorten=layout.at_word)  # fmt: skip


def _first(advice: Advice) -> list[int]:
    """The rows of the short report: some changes with the one to follow, and the first stages that were knocked out."""
    every = [place for place, one in enumerate(advice.findings) if _is_told(advice, one)]
    stages = [one for one in every if advice.findings[one].change.knock_out][:_MOST_STAGES]
    changes = [one for one in every if not advice.findings[one].change.knock_out]
    room = _MOST_ROWS - len(stages)
    if len(changes) > room:
        follow = next((one for one in changes if advice.findings[one] is advice.followed), changes[0])
        changes = [*[one for one in changes if one != follow][: room - 1], follow]
    return sorted([*changes, *stages])


def _applies(found: Finding) -> bool:
    return found.gain is not None or found.reason not in DOES_NOT_APPLY


def _is_told(advice: Advice, found: Finding) -> bool:
    """Whether the short report has it: not what was not tried, and is predicted to bring no more than what gained."""
    told = found.predicted
    rungs = (one for one in advice.findings if one.outcome == "gain" and one.change.remedy == found.change.remedy)
    best = max((one.gain.speedup for one in rungs if one.gain), default=1.0)
    nothing = found.gain is None and told is not None and told.speedup < _WORTH * best and not found.ratios
    return _applies(found) and (found is advice.followed or not nothing)


def _notes(advice: Advice, rows: Sequence[object], full: bool) -> Iterator[str]:
    findings = advice.findings if full else tuple(one for one in advice.findings if _is_told(advice, one))
    more = len(findings) - len(rows)
    if more:
        yield f"{more} more: --full shows them."
    left = sorted((one for one in findings if one.gain is None), key=lambda one: not one.change.basis)
    untried = [f"{named(one.change)}: {_untried(one)}" for one in left]
    yield from untried if full else untried[:_MOST_NOTES]
    given = [one for one in advice.findings if one.if_taken is not None and one is not advice.followed]
    yield from (f"{named(one.change)}: {_given_back(one)}" for one in given)
    yield from (_differs(one) for one in advice.findings if one.difference is not None and one.difference.largest)
    equal = advice.chosen.difference if advice.chosen is not None else None
    if advice.chosen is not None and equal is not None and not equal.largest:
        compared = f" ({equal.values:,} values compared)" if equal.values else ""  # only numbers in arrays are counted
        yield f"{named(advice.chosen.change)}: samples are the same, bit for bit{compared}."
    yield from (_cached(one, one.cache) for one in advice.findings if one.cache is not None)
    if any(one.by == "passes" and one.gain for one in advice.findings):
        yield _BY_PASSES
    if any(one.gain for one in advice.findings):
        yield _GAIN
    if any(one.gain and one.change.knock_out for one in advice.findings):
        yield _FREE


def _differs(found: Finding) -> str:
    """How far the samples of a lossy change are from those of the script, in shares of the range of values."""
    apart = found.difference
    assert apart is not None
    whole = apart.span or 1.0
    mean, most = percent(apart.mean / whole, 1), percent(apart.largest / whole, 1)
    return f"{named(found.change)}: values differ {mean} of their range, at most {most}."


def _cached(found: Finding, cache: Cache) -> str:
    free = f" ({size(cache.free_bytes)} are free)" if cache.free_bytes is not None else ""
    if cache.once:
        return f"{named(found.change)}: one result of {size(cache.bytes)} serves all samples, where that was looked at."
    if found.change.remedy == "cache":
        room = "" if cache.fits else " It does not fit: a part of it, or files, were not tried."
        kept = f"{named(found.change)} of all samples takes {size(cache.bytes)}{free}."
        return f"{kept} It was tried as if it were full.{room}"
    return f"Samples are the same each time: a cache takes {size(cache.bytes)}{free}."


def _gain(found: Finding) -> str:
    by = "*" if found.by == "passes" else ""
    if found.gain is None and found.predicted is not None and not found.belied:
        return f"predicted {spoken(found.predicted)}"  # a line below the table says that it was not tried
    if found.gain is None:
        return f"not tried; {found.change.limit}" if found.change.promise else "not tried"
    if found.if_taken is not None:
        return f"predicted; about {found.if_taken:.2f}×{by}"
    if found.outcome == "gain":
        return ("≤ " if found.change.knock_out else "") + spoken(found.gain) + by
    if found.outcome == "unclear" and len(found.ratios) < LEAST_PAIRS:
        pairs = counted(len(found.ratios), "pair")
        return (f"slower in {len(found.ratios)} of {pairs}" if _slower(found) else f"cannot tell: {pairs}") + by
    words = {"slower": "slower", "unclear": "cannot tell"}.get(found.outcome, "no gain")
    return f"{words} ({found.gain.low:.2f}–{found.gain.high:.2f}){by}"


def _untried(found: Finding) -> str:
    """Why a change was not tried, and how its figure came about."""
    if found.change.basis:
        return f"predicted, not tried. {printable(found.change.basis)}. {printable(' '.join(found.change.how))}"
    failed = found.reason and found.reason not in NOT_TRIED
    why = f"it failed, {printable(found.reason)}" if failed else NOT_TRIED.get(found.reason, "the trial was too short")
    if found.belied and found.predicted is not None:
        return f"not tried, {why}; trials of other numbers contradict its prediction, {spoken(found.predicted)}"
    return f"not tried, {why}" + (" (its figure is predicted)" if found.change.promise and not failed else "")


def _writing(advice: Advice, watched: WatchResult | None) -> Iterator[Part]:
    """How the user writes the advice, and first the change of the script that could bring more."""
    chosen = advice.followed
    first = list(of_script(advice.larger.change)) if advice.larger is not None else []
    if chosen is None:
        more = [*first, *patched(advice.patch, by_hand=bool(first))]
        yield from ["", *more] if more else []
        return
    place = f"{short(advice.file)}:{advice.line}" if advice.file else "where the script makes its loader"
    yield from ["", *first, ""] if first else [""]
    shown = list(written(advice.snippet)) if advice.snippet is not None else []
    yield from shown
    if chosen.reason == ANEW:
        yield f"Make the loader once, before the first pass, and iterate it in each{_if_alike(advice, watched)}:"
    if chosen.change.settings and advice.unwritten == "library":
        words = next((one.made_by for one in _loaders(watched) if one.loader == advice.loader), "")
        yield from in_library(chosen.change, advice.made_by, words, advice.file, advice.line)
    elif chosen.change.settings and not shown:
        yield f"Write, in {place}: DataLoader(..., {', '.join(keywords(chosen.change.settings))})"
    if chosen.change.one_thread:
        yield from one_thread(chosen.change, place)
    if chosen.change.loop_threads and not shown:
        yield from loop_threads(chosen.change)
    yield from by_hand(chosen.change)
    yield from untold(advice.unwritten, advice.patch)
    yield from patched(advice.patch)


def _if_alike(advice: Advice, watched: WatchResult | None) -> str:
    alike = any(one.loader == advice.loader and one.remade == "alike" for one in _loaders(watched))
    return ", if its datasets hold the same samples" if alike else ""


def _loaders(watched: WatchResult | None) -> tuple[LoaderResult, ...]:
    return watched.loaders if watched is not None else ()


def _had_no_workers(advice: Advice, watched: WatchResult | None) -> bool:
    """Whether batches of the script's own process were made by workers in trials: these draw other random numbers."""
    alone = any(one.loader == advice.loader and not one.workers for one in _loaders(watched))
    return alone and any(one.ratios and one.change.settings.get("num_workers") for one in advice.findings)


def _closing(advice: Advice, had_no_workers: bool, goes_on: bool) -> Iterator[str]:
    if advice.ended == "script-ended" and advice.cut_short:
        yield "The run was cut short before everything was tried: advise again when it runs to its end."
    elif advice.refusal == NO_LOADER:
        pass  # the first sentence has said it
    elif advice.ended in ENDED:
        yield too_long(advice) or ENDED[advice.ended]
    elif advice.ended == "refused":
        yield REFUSALS.get(advice.refusal, "No loader whose loop trains was seen, or it was made before the watching.")
    if advice.streamed and advice.discarded:
        yield (
            "The dataset is iterable: each loader read the stream by itself, so samples came more than once. What the "
            "changed one found in a cache (of a network file system, say) makes its gain too large."
        )
    reordered = any(one.change.settings.get("in_order") is False and one.ratios for one in advice.findings)
    kept = "same samples, some batches in another order" if reordered else "same samples, same order"
    if had_no_workers and not reordered:
        kept = "same samples; later passes in the same order if no sample draws random numbers"
    if any(one.change.loop_threads and one.ratios for one in advice.findings):
        kept += "; other last digits of sums"
    goes = " The script goes on." if goes_on else ""
    training = (
        f"The training is kept: {kept}." if not advice.discarded else "The weights of this run are worth nothing."
    )
    in_step = advice.ranks > 1 and advice.ended != "refused"
    together = f", on {advice.ranks} ranks at the same batches" if in_step else ""
    yield f"Tried for {seconds(advice.spent_s)} of {seconds(advice.budget_s)}{together}. {training}{goes}"


def _next(advice: Advice, line: SlowLine | None, otherwise: str) -> str:
    """The next move: to make the advised change, or else to make the stage or the line cheaper that takes most."""
    if advice.chosen is not None:
        return "Then: change the script and run `pipebench advise` again, until nothing gains."
    if advice.followed is not None:
        return "Then: change the script and run `pipebench watch` on it."
    if advice.larger is not None:
        return "Then: make that change and run `pipebench advise` again, until nothing gains."
    stages = [one for one in advice.findings if one.change.knock_out and one.outcome == "gain" and one.gain]
    inner = [one for one in stages if one.change.edits["knock_out"]["kind"] != "getitem"] or stages
    most = max(inner, key=lambda one: one.gain.speedup if one.gain else 0.0, default=None)
    if line is not None and (most is None or most.gain is None):
        return "Then: change that line and run `pipebench watch` on the script."
    if most is None or most.gain is None:
        return otherwise
    return f"Then: make {printable(most.change.title)} cheaper. That can bring {most.gain.speedup:.2f}× at most."
