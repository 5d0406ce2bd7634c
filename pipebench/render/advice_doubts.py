"""Renders why a figure is no advice, and what could bring more than the advice. Pure."""

from __future__ import annotations

from pipebench.render.advice_names import named, sentence_case
from pipebench.render.advice_reasons import NOT_TRIED
from pipebench.render.cells import spoken
from pipebench.results.advice import Advice, Finding
from pipebench.stats import Speedup

_CLEARLY = 1.25  # times the best gain
_WIDE = 5.0  # times the low end of a gain: a higher end tells hardly how much it is
_NAMED = 1.1  # the least predicted speed-up that is named


def doubts(advice: Advice) -> str:
    """Why what looks like a gain is no advice, after the sentence that nothing is advised."""
    return f"{_scattered(advice)}{_contradicted(advice)}{_untellable(advice)}"


def _contradicted(advice: Advice) -> str:
    """That trials contradict the simulation, where it promises much of another number of workers."""
    if not any(one.belied and one.predicted and one.predicted.speedup >= _NAMED for one in advice.findings):
        return ""
    return (
        " Trials contradict the simulation: it predicts a gain of more workers, and those that were tried brought none."
    )


def _untellable(advice: Advice) -> str:
    """What is predicted to gain, and may lose as well."""
    found = [(one.predicted.speedup, one) for one in advice.findings if _is_unsure(one) and one.predicted is not None]
    speedup, most = max(found, key=lambda one: one[0], default=(0.0, None))
    if most is None or most.predicted is None or speedup < _NAMED:
        return ""
    told = f"{named(most.change)}, which was not tried, is predicted to bring {spoken(most.predicted)}"
    return f" {sentence_case(told)}: from that, no gain can be told."


def _is_unsure(found: Finding) -> bool:
    told = found.predicted
    return found.gain is None and not found.belied and told is not None and told.low <= 1.0


def _scattered(advice: Advice) -> str:
    """That a trial has figures which are too far apart, though its middle one is a gain."""
    found = [one for one in advice.findings if one.outcome == "unclear" and one.scattered and not one.change.knock_out]
    told = [(one.gain.speedup, one) for one in found if one.gain is not None and one.gain.speedup >= _NAMED]
    if not told:
        return ""
    most = max(told, key=lambda one: one[0])[1]
    pairs = f"its {len(most.ratios)} pairs by {min(most.ratios):.2f}× to {max(most.ratios):.2f}×"
    return (
        f" {sentence_case(named(most.change))} was tried, but {pairs} scatter too much to tell a gain: raise --budget, "
        "or try it while the machine is quiet."
    )


def hardly_known(found: Finding) -> str:
    """That a gain is told, but not how large it is ("": it is)."""
    if found.outcome != "gain" or found.gain is None or found.gain.high <= _WIDE * found.gain.low:
        return ""
    return " Its pairs scatter, so how much it brings is hardly known: raise --budget, or try it on a quiet machine."


def put_aside(found: Finding) -> str:
    """That a change gained, and why another one is to be made first."""
    if found.gain is None:
        return ""
    gained = found.outcome == "gain"
    how = f"makes the training loop {spoken(found.gain)} as fast (tried)" if gained else "probably makes it faster, too"
    return (
        f"{sentence_case(named(found.change))} {how}: torch's "
        "threads wait for cores that this work of the workers takes. Make that change first, and then see whether this "
        "still gains."
    )


def more_untried(advice: Advice) -> str:
    """What is predicted to bring more than what was shown to gain ("": nothing, or the simulation was wrong)."""
    chosen = advice.chosen
    if chosen is None or chosen.gain is None:
        return ""
    gain = chosen.gain
    more = [
        (told.speedup, told, one)
        for one in advice.findings
        if one.gain is None and not one.belied and (told := one.predicted) is not None and _is_more(told, gain)
    ]
    if not more:
        return ""
    _, told, most = max(more, key=lambda one: one[0])
    why = NOT_TRIED.get(most.reason, "the trial was too short")
    tries = " --yes-discard-weights tries it." if most.reason == "own-process" else ""
    brings = "is predicted to bring more" if told.low > gain.speedup else "may bring more (predicted)"
    return f" {sentence_case(named(most.change))} {brings}, {spoken(told)}, but was not tried: {why}.{tries}"


def _is_more(told: Speedup, gain: Speedup) -> bool:
    """Whether a prediction is surely above the middle of a gain, or in its middle clearly, and above its low end."""
    return told.low > gain.speedup or (told.speedup >= _CLEARLY * gain.speedup and told.low > gain.low)
