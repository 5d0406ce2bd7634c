"""Sentences with the place in the user's code where a loop, or its workers, spend their time. Pure."""

from __future__ import annotations

from typing import Any

from pipebench.results.account import IN_VAIN, LITTLE
from pipebench.results.drilled import runs_of
from pipebench.units import called_at, code_place, counted, percent, printable, seconds

_FOR_OTHERS = {
    1: " It waits there for other threads or processes.",
    2: " It waits there for what else asyncio runs.",
}
_EVEN = " It takes as long in each iteration and needs no core, so it may be a wait for a device."


def callbacks(values: Any, part: str) -> str:
    """The sentence on callbacks and logging, which took `part`, with the place of most of it."""
    if "length" in values:
        return _length(values, part)
    what = "" if "needed" in values else f" (callbacks, logging, {'waits' if 'rests' in values else 'metrics'})"
    said = f"Work in the loop besides training{what} took {part}.{_most(values)}{_inside(values)}{_then(values)}"
    if "models" in values:
        said += " A model runs there, after the backward: for the same batch, the output of the first forward may do."
    if values.get("idle_s"):
        said += f" Meanwhile the device had no training to do for {seconds(values['idle_s'])}."
    if "early_s" in values:
        said += (
            " It takes longer and longer through each pass, as work on a list that grows: "
            f"{seconds(values['early_s'])} of an iteration in the second fifth, and {seconds(values['late_s'])} in the "
            "last one."
        )
    if "for_others" in values:
        said += (
            " The loop also waits for what others prepare, who may work meanwhile: what less of it saves is not known."
        )
    return said + (_EVEN if "even" in values else "")


def _length(values: Any, part: str) -> str:
    where = called_at(values.get("function", ""), values.get("by", ""), values["file"], values["line"])
    return f"The loop asks how long its loader is in each iteration ({where}), and counts it anew each time: {part}."


def in_other_ways(rests: bool, needed: bool) -> str:
    """How else such work is done: where it computes in Python, another thread would need the interpreter, too.

    What training needs in each step cannot come less often.
    """
    if needed:
        return "at less cost"
    return f"less often, or {'in another thread' if rests else 'at less cost'}"


def done_otherwise(values: Any) -> str:
    """The begin of the sentence on what that saves."""
    if "length" in values:
        return "Asking for it once, before the loop,"
    ways = in_other_ways("rests" in values, "needed" in values)
    return f"Doing it {ways}{'' if 'needed' in values else ','}"


def full_collections(values: Any, saved_s: float, part: str) -> str:
    """The sentence on garbage collections that the loop asks for, which took `part`."""
    count = f"{counted(values['collections'], 'collection')} in {counted(values['batches'], 'iteration')}"
    return (
        f"gc.collect() in the loop ({_where(values)}) took {part}, {count}. Leaving it out could save about "
        f"{seconds(saved_s)} (predicted, not tried)."
    )


def stage_named(values: Any) -> str:
    """The largest stage of loading, behind a sentence."""
    if "stage" not in values:
        return ""
    kind = "read + decode" if values["includes_read"] else values["kind"]
    return f"; {percent(values['stage_share'])} of loading is {values['stage']} ({kind})"


def carried(values: Any) -> str:
    """What objects in a batch bring, behind what the batch brings; "" if that is not most of it."""
    if "carried" not in values:
        return ""
    return (
        f" {percent(values['carried_share'])} of its arrays are {printable(str(values['carried']))}, as objects in a "
        "batch cross with all that they hold: what training does not use can be left out."
    )


def helped(values: Any) -> str:
    """The sentence on threads of the script's own that make the samples; "" if there are none."""
    if "helper" not in values:
        return ""
    where = f"{printable(str(values['helper']))} ({code_place(values['helper_file'], values['helper_line'])})"
    return (
        f" There, it waits for other threads: in {percent(values['helper_share'])} of the stack samples, some of these "
        f"are in {where}."
    )


def slow_loading(values: Any) -> str:
    """The line that has most of loading, if it is known to be slow, and about what its change could save."""
    if "slow_line" not in values:
        return ""
    place = code_place(values["slow_file"], values["slow_line"])
    known = " and lines like it, which are" if values.get("slow_alike") else ", which is"
    said = f" {percent(values['slow_share'])} of making samples goes to {place}{known} known to be slow"
    saved = seconds(values["slow_s"])
    if "slow_where" in values:
        return (
            f"{said} where {values['slow_where']}. If that is so, a change to {values['slow_title']} could save up to "
            f"{saved} (not tried)."
        )
    return f"{said}. A change to {values['slow_title']} could save about {saved} (not tried)."


def cheaper_samples(values: Any, saved_s: float) -> str:
    """What helps where workers do not; a line that is known to be slow has been named."""
    said = f" Workers {'would hardly help' if values[IN_VAIN] == 'hardly' else 'are not certain to help'}."
    if "slow_line" in values and "slow_where" not in values:
        return said
    ways = "Cheaper samples, or all of a batch at once (__getitems__)," if values["at_once"] else "Cheaper samples"
    return f"{said} {ways} could save up to {seconds(saved_s)} (predicted, not tried)."


def preparing(values: Any, part: str) -> str:
    """The sentence on work on batches in the loop, before the model, or on its wait for them, which took `part`."""
    if "length" in values:
        return _length(values, part)
    what = "Waiting" if "rests" in values else "Work on batches"
    inside = _inside(values) if values.get("function") else ""
    others = _FOR_OTHERS.get(values.get("for_others"), "")
    return f"{what} in the loop itself, before the model, took {part}.{_most(values)}{inside}{_then(values)}{others}"


def python_loops(values: Any, part: str, saved_s: float | None) -> str:
    """The sentence on Python loops between the model and the backward, which took `part`."""
    said = f"Python loops of the script, between the model and backward, took {part}.{_most(values)}"
    if saved_s is None:
        return f"{said} A device may have worked meanwhile, so what tensor operations in their place save is not known."
    return (
        f"{said} Tensor operations in their place, or workers as far as they need no output of the model, could save "
        f"up to {seconds(saved_s)} (predicted, not tried)."
    )


def many_operations(values: Any, part: str, saved_s: float) -> str:
    """The sentence on a Python loop over small operations of torch in forward, which took `part`."""
    lines = _range(values["file"], values["line"], values["last"])
    where = f"{values['function']} ({lines})" if "function" in values else lines
    return (
        f"Small operations of torch in a Python loop of forward took {part}, with the same share of the backward: "
        f"lines of {where} run up to {values['times']:,} times an iteration. Operations on all steps at once could "
        f"save up to {seconds(saved_s)} (predicted, not tried)."
    )


_MODEL_AGAIN = " A model runs there: for the same batch, the output that the loss is made of may do."


def own_lines(values: Any, part: str, saved_s: float) -> str:
    """The sentence on the user's own code besides layers before the backward, which took `part`."""
    where, _ = _PHASES[values["phase_of_lines"]]
    metric = " By its name, it keeps a metric." if "metric" in values else ""
    metric += _MODEL_AGAIN if "models" in values else ""
    waits = "rests" in values
    what, them = ("waits of the script", "them") if waits else ("code of the script (besides layers)", "it")
    return (
        f"{where.capitalize()}, {what} took about {part}: {_lines(values)}.{metric} Less of {them} could save at most "
        f"{seconds(saved_s)} (predicted from stack samples, not tried)."
    )


def seen_in(values: Any) -> str:
    """The sentence on these lines, where training itself is told; "" if there are none."""
    if "phase_of_lines" not in values:
        return ""
    where, _ = _PHASES[values["phase_of_lines"]]
    return f" Seen most often {where}, besides layers: {_lines(values)}."


_PHASES = {"forward": ("in forward", "forward"), "before-backward": ("before backward", "what comes before backward")}


def _lines(values: Any) -> str:
    """The functions, with their lines, what these call, and their shares of the phase."""
    _, phase = _PHASES[values["phase_of_lines"]]
    told = [_of_phase(values, end) for end in ("", "2", "3") if f"line{end}" in values]
    return f"{' and '.join(filter(None, (', '.join(told[:-1]), told[-1])))} of {phase}"


def _of_phase(values: Any, end: str) -> str:
    lines = _range(values["file"], values[f"line{end}"], values[f"last{end}"])
    calls = f" → {values[f'calls{end}']}" if f"calls{end}" in values else ""
    function = values.get(f"function{end}", "")
    return f"{f'{function} ({lines}{calls})' if function else f'{lines}{calls}'} {percent(values[f'share{end}'])}"


def _range(file: str, first: int, last: int) -> str:
    return f"{code_place(file, first)}{f'–{last}' if last > first else ''}"


def between(values: Any, part: str) -> str:
    """The sentence on work between the loops, which took `part`."""
    return f"Between the loops (checkpoints, other work) it took {part}.{_most(values)}"


def before_first(values: Any, saved_s: float, part: str) -> str:
    """The sentence on what is done before the first loop, which took `part`, with the place of most of it."""
    parts = [_part_in(values)] if values.get("line") else []
    if "imports" in values:
        parts.append(f"{percent(values['imports'])}{'' if parts else ' of it'} imports")
    said = f"Imports, data set and model, before the first loop, took {part}, once{': ' if parts else ''}"
    said += f"{', '.join(parts)}."
    if "title" not in values:
        return said
    alike = " and lines like it, which are" if values.get("slow_alike") else " is"
    place = code_place(values["slow_file"], values["slow_line"])
    return (
        f"{said} {place}{alike} known to be slow: a change to {values['title']} could save up to {seconds(saved_s)} "
        "(not tried)."
    )


def after_last(values: Any, part: str) -> str:
    """The sentence on what follows the last loop, which took `part`, with the place of most of it."""
    said = f"After its last loop it took {part}, once{f': {_part_in(values)}' if values.get('line') else ''}."
    return f"{said} Until that ends, faster loops do not shorten the run." if "for_process" in values else said


def _part_in(values: Any) -> str:
    """A function with its share, and what it waits in there."""
    function = values.get("function")
    where = f"{function} ({_where(values)})" if function else _where(values)
    where += f" → {values['waits']}" if "waits" in values else ""
    process = ", which waits for another process" if "for_process" in values else ""
    return f"{percent(values['share'])} of it {where}{process}"


def in_validation(values: Any) -> str:
    """The sentence on work besides the model in loops that do not train, with its place; "" if it is not known."""
    if "apart_s" not in values:
        return ""
    spent = seconds(values["apart_s"])
    return (
        f" Work besides the model (metrics, decoding, plots) took about {spent} of that.{_most(values)}"
        f"{_inside(values)} Doing it at less cost, or less often, could save up to {spent} (predicted from stack "
        "samples, not tried)."
    )


def busy_thread(values: Any, spent_s: float, part: str) -> str:
    """The sentence on a thread of the script that keeps the interpreter from the loop, which it held up for `part`."""
    thread = f"the thread {printable(values['thread'])}"
    if values["threads"] > 1:
        thread = f"{values['threads']} threads (such as {printable(values['thread'])})"
    core = f", {seconds(values['core_s'])} of it without a core" if values["core_s"] >= LITTLE * spent_s else ""
    return (
        f"Another thread of the script keeps the interpreter (the GIL) from the loop: that held it up for {part}{core}."
        f" Beside it, {thread} used {values['cores']:.1f} cores in {values['function']} ({_where(values)})."
    )


def made_anew(loader: int | None, values: Any, part: str) -> str:
    """The sentence on a dataset that is made anew for later passes, which took `part`."""
    return (
        f"Making the dataset of loader {loader} anew between passes took {part}: {values['function']}, called in "
        f"{_where(values)}, {counted(values['again'], 'time')}."
    )


def most_of_training(values: Any, whole_s: float) -> str:
    """The largest part of training: a phase, or lines of the loop that do what a wait for a device does."""
    device_s = values.get("device_s", 0.0)
    if device_s > values["phase_s"]:
        return f"{seconds(device_s)} of it in lines that wait as for a device"
    mostly = "most of it" if values["phase_s"] >= whole_s / 2 else "the largest part"
    return f"{mostly} {values['phase']}: {seconds(values['phase_s'])}"


def shared(values: Any) -> str:
    """The sentence on workers of which more brought no more, as trials showed; "" if there was no such trial."""
    if "tried_workers" not in values:
        return ""
    at = f" in {values['function']} ({_where(values)})" if values.get("line") else ""
    more, enough = values["tried_workers"], values["enough_workers"]
    if str(values.get("stage", "")).endswith((".__iter__", ".__next__")):  # of an iterable dataset
        return (
            f" {more} workers bring no more than {enough} (tried): they wait for one another{at}, as for a lock, a "
            "connection or a disc, or each reads all of the stream and drops the samples of the others. Let each open "
            "its own, and read only its part."
        )
    return (
        f" {more} workers bring no more than {enough} (tried): they seem to wait for one another{at}, as for a lock, a "
        "connection or a disc. Let each open its own, or fetch a whole batch at once (__getitems__)."
    )


def at_lock(values: Any) -> str:
    """The sentence on workers that wait at a lock, with its place."""
    return (
        f"For {percent(values['at_line'])} of their time they wait for one another at a lock: {values['function']} "
        f"({_where(values)})."
    )


def named(values: Any) -> str:
    """The function of a cause and its line, in brackets, as far as they are known."""
    if not values.get("function"):
        return ""
    return f" ({values['function']}{f', {_where(values)}' if values.get('line') else ''})"


def _most(values: Any) -> str:
    if not values.get("line"):
        return ""
    where = called_at(values.get("function", ""), values.get("by", ""), values["file"], values["line"])
    own = f" (about {seconds(values['part_s'])}, by stack samples)" if "part_s" in values else ""
    return f" {'The largest part' if 'less' in values else 'Most'} of it: {where}{own}."


def _then(values: Any) -> str:
    """The sentence on a second place of such work; "" if there is none."""
    if not values.get("line2"):
        return ""
    where = called_at(values.get("function2", ""), values.get("by2", ""), values["file2"], values["line2"])
    return f" Then {where} (about {seconds(values['part2_s'])})."


def _inside(values: Any) -> str:
    """The line inside that function where most of it is, if looks say that."""
    if "slow_line" not in values:
        return ""
    alike = " and lines like it" if values.get("slow_alike") else ""
    place = code_place(values["slow_file"], values["slow_line"])
    often = f" ({runs.often})" if (runs := runs_of(values)) is not None else ""
    return f" Inside, {percent(values['line_share'])} is {place}{often}{alike}."


def _where(values: Any) -> str:
    return code_place(values["file"], values["line"])
