"""The sentences for causes that belong to passes: their start, workers that begin anew, and validation. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pipebench.render import in_loop
from pipebench.render.frameworks import made_anew, setting
from pipebench.render.watch_notes import keeps_graphs
from pipebench.results.account import LITTLE, Cause
from pipebench.units import code_place, counted, percent, printable, seconds

_NEARLY_ALL = 0.9  # of what faster loading saves: workers alone


def saving(one: Cause, change: str, how_sure: str = "about") -> str:
    if not one.saving_s:
        return ""
    return f" {change} could save {how_sure} {seconds(one.saving_s)} (predicted, not tried)."


def start_up(one: Cause, values: Any, part: str) -> str:
    how = f"{counted(values['workers'], 'worker')} ({values['start_method']})"
    passes = counted(values["passes"], "pass", "passes")
    inside = " (in loops that do not train)" if values["in_validation"] else ""
    its = "its" if values["workers"] == 1 else "their"
    began = f"Starting {how}, {its} first batches and {its} end took {part}: {passes} over loader {one.loader}{inside}."
    if "always_anew" in values:
        began += " Its library starts workers anew in each pass, also with persistent_workers=True."
    if "init" in values:
        place = f", {code_place(values['init_file'], values['init_line'])}" if "init_line" in values else ""
        init = printable(str(values["init"]))
        began += f" In each of these workers, {init} (worker_init_fn{place}) took {seconds(values['init_s'])}."
    return began + _kept(one, values) + (_begun_anew(one, values) if "more_s" in values else "")


def timed_out(one: Cause, values: Any, part: str) -> str:
    """The sentence on waits for a worker that only ended with the loader's timeout, which took `part`."""
    return (
        f"The loop over loader {one.loader} waited for a worker until the timeout of its DataLoader "
        f"({values['timeout_s']:g} s): {part}. That worker hung, or needed longer for its batch."
    )


def _kept(one: Cause, values: Any) -> str:
    """What workers that live on would save; where they cannot, for their loader's data differ, no workers."""
    times = counted(values.get("again", 0), "time") + made_anew(values.get("called_by", ""))
    if values.get("remade") == "other":
        cannot = f" The loader was made anew {times}, for other data: workers cannot live on."
        return cannot + _first_batch(one, values) + _without(one, values)
    anew = values.get("again") and not values.get("made_by")
    alike = "data that looks the same" if values.get("remade") == "alike" else "the same data"
    same = f", {values['again'] - values['others']} of them for {alike}" if "others" in values else ""
    return (f" The loader was made anew {times}{same}." if anew else "") + saving(one, living_on(values))


def _first_batch(one: Cause, values: Any) -> str:
    """What workers do anew in their first batch."""
    if "row" not in values:
        return ""
    kept = (
        "in the script, before it makes the loader" if values["start_method"] == "fork" else "in a file that is mapped"
    )
    return (
        f" The first batch of each worker took {seconds(values['row_s'])} more than its second one, "
        f"{percent(values['row_share'])} of that in {printable(str(values['row']))} ({values['row_kind']})."
        + saving(replace(one, recoverable_s=values["first_saves_s"]), f"Making once, {kept}, what that makes anew")
    )


def _without(one: Cause, values: Any) -> str:
    if "saved_s" not in values:
        return ""
    return (
        f" In all, the loop waited {seconds(values['waits_s'])} for its workers, and they made its batches in "
        f"{seconds(values['make_s'])}."
        + saving(replace(one, recoverable_s=values["saved_s"]), setting("num_workers", values.get("made_by", ""), 0))
    )


def living_on(values: Any) -> str:
    """The change that lets workers live on."""
    if values.get("again") and not values.get("made_by"):
        alike = " (if its datasets hold the same samples)" if values.get("remade") == "alike" else ""
        each = " for each data set" if values.get("others") else ""
        return f"Making it once{each}{alike}, with persistent_workers=True,"
    return setting("persistent_workers=True", values.get("made_by", ""))


def _begun_anew(one: Cause, values: Any) -> str:
    """What each pass takes to begin a stream, and how little of it workers that live on would save."""
    first, usual, more = (seconds(values[name]) for name in ("first_s", "usual_s", "more_s"))
    said = (
        f" Each pass begins the stream anew, also in workers that live on: its first batch took {first}, and a usual "
        f"one {usual}, {more} more in all."
    )
    if values.get("kept_s"):
        said += (
            f" {living_on(values)} could save about {seconds(values['kept_s'])} (predicted, not tried), and more only "
            "where the dataset keeps what it made, such as an open archive."
        )
    return said + (
        " What can help: one iterator for all passes, over a stream that does not end, a smaller shuffle buffer, or "
        "decoding after that buffer."
    )


def warm_up(one: Cause, values: Any, part: str) -> str:
    return (
        f"Batches of loader {one.loader} cost more at the begin of each pass: one of the first half takes a worker "
        f"{seconds(values['early_s'])}, and one of the second {seconds(values['late_s'])}, as where workers fill a "
        f"cache that ends with them. The loop waited {part} for that." + _kept(one, values)
    )


def new_iterators(one: Cause, values: Any, part: str) -> str:
    used = values["passes"]
    said = (
        f"New iterators over loader {one.loader} took {part}: each of {used} gave one batch, as next(iter(loader)) does"
    )
    if not values["workers"]:
        said += ", and its sampler began anew for it."
    else:
        workers = "the" if values["persistent"] else "its new"
        said += f", and threw away what {workers} workers had made ahead ({values['made']} batches were made for these "
        said += f"{used})."
    return said + saving(one, "One iterator for all steps")


def validation(one: Cause, values: Any, part: str) -> str:
    passes = counted(values["passes"], "pass", "passes") if "passes" in values else "the passes"
    said = f"Loops that do not train (such as validation) took {part}: {passes} over loader {one.loader}."
    if "batch" in values:
        said += f" A batch has {counted(values['batch'], 'sample')} there, and {values['trains']} in training: larger "
        said += "ones may cost less."
    if "larger_s" in values:
        said += (
            f" Besides loading, a sample takes {seconds(values['sample_s'])} there, and {seconds(values['trained_s'])} "
            f"in training. Larger batches could save about {seconds(values['larger_s'])} (predicted, not tried)."
        )
    waits, seldom = values.get("waits_s", 0.0), _less_often(values)
    loading = _of_loading(one, values, waits) if waits >= LITTLE * one.s > 0 else ""
    first = waits >= values.get("seldom_s", 0.0)
    said += in_loop.in_validation(values) + (loading + seldom if first else seldom + loading)
    if "graphs" in values:
        said += f" Their {keeps_graphs('them')}"
    if "kept" in values:
        said += " Training takes no batch from a loader. If it uses these, take them from the loader in the training "
        said += "loop: then workers make them meanwhile."
    return said


def _of_loading(one: Cause, values: Any, waits: float) -> str:
    """What faster loading saves there, with the row and the line that take most of it."""
    said = ""
    if "apart_s" not in values:  # else other work is told
        row = in_loop.stage_named(values).replace("; ", " ", 1)
        said = (f"{row}." if row else "") + in_loop.slow_loading(values)
    workers = values.get("by_workers_s", waits)
    how = f", as by workers for loader {one.loader}" if values.get("workers") == 0 else ""
    if workers < _NEARLY_ALL * waits:
        more = f" {seconds(workers)} of it by workers for loader {one.loader}" if workers >= LITTLE * one.s else ""
        how = f" and cheaper samples,{more}" if more else " and cheaper samples"
    return f"{said} Up to {seconds(waits)} of that could be saved by faster loading{how} (predicted, not tried)."


def _less_often(values: Any) -> str:
    """The sentence on how often a loop inside training ran, and what half as many would save."""
    if "seldom_s" not in values:
        return ""
    return (
        f" One came after about {counted(round(values['every']), 'iteration')} of training: half as many would save "
        f"about {seconds(values['seldom_s'])} (predicted, not tried)."
    )
