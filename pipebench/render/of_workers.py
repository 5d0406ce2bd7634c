"""The sentences for workers of which some have more to do than others, or nothing, and for waits for workers. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pipebench.render.of_passes import saving
from pipebench.results.account import LITTLE, Cause
from pipebench.units import counted, percent, seconds

_EVENLY = "shuffled, or split evenly"


def waits(one: Cause, part: str) -> str:
    if float(one.values.get("core_s", 0.0)) >= one.s > 0:
        return f"The loop itself waited for a core that the workers used: {part}"
    parts = (("while receiving", "late_s"), ("for a core that the workers used", "core_s"))
    large = [(words, float(one.values.get(name, 0.0))) for words, name in parts]
    told = "".join(f", {seconds(s)} of it {words}" for words, s in large if s >= LITTLE * one.s > 0)
    return f"Waiting for the workers of loader {one.loader} took {part}{told}"


def uneven(one: Cause, values: Any, part: str) -> str:
    rest = "other" if values["workers"] == 2 else "others"
    return (
        f"{waits(one, part)}. Worker {values['worker']} has most of the work: it is busy "
        f"{percent(values['most_busy'])} of the time, and the {rest} {percent(values['others_busy'])}."
        + saving(one, f"Work that is spread evenly ({'in equal parts' if 'stream' in values else _EVENLY})")
    )


def slow(one: Cause, values: Any, part: str) -> str:
    rest = "other" if values["workers"] == 2 else "others"
    slower = f"Worker {values['worker']} takes {values['slower']:.1f} times as long"
    return (
        f"{waits(one, part)}. {slower} for a sample as the {rest} ({seconds(values['slow_s'])}), and is busy "
        f"{percent(values['most_busy'])} of the time; the {rest} {percent(values['others_busy'])}."
        + saving(one, "A worker that is as fast as the " + rest)
    )


def without_part(one: Cause) -> str:
    """The sentences on workers of a stream that get no part of it, with what more parts could save."""
    values: Any = one.values
    parts = counted(values["shards"], "part")
    of = f"its stream has {parts} (shards, files)" if values["shards"] else "its stream gives them no part"
    less = "" if one.code == "few-parts" else f" num_workers={values['makers']} is as fast."
    more = saving(replace(one, recoverable_s=values["parts_s"]), "As many parts as workers")
    return f" {values['idle']} of its {values['workers']} workers made no batch: {of}.{less}{more}"


def few_parts(one: Cause, values: Any, part: str) -> str:
    return f"{waits(one, part)}.{without_part(one)}"
