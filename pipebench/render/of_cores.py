"""The sentences on cores: who uses them, and what the loop waits for one. Pure."""

from __future__ import annotations

from typing import Any

from pipebench.render.in_loop import stage_named
from pipebench.render.of_passes import saving
from pipebench.render.worker_moves import MANY_CORES, SOME_CORES
from pipebench.results.account import Cause
from pipebench.units import counted, printable, seconds


def compete(one: Cause, values: Any, part: str) -> str:
    return (
        f"The loop itself waited for a core: {part}. {counted(values['workers'], 'worker')} use "
        f"{values['cores_used']:.1f} of {values['usable_cores']:g} cores." + saving(one, "Fewer workers")
    )


def takes_cores(one: Cause, values: Any, part: str) -> str:
    """What workers and training need on all cores, or on those that other processes leave."""
    its = "its worker and training" if values["workers"] == 1 else f"its {values['workers']} workers and training"
    held = f"The loop itself waited for a core: {part}."
    faster = f"{values['both_s'] / values['alone_s']:.2f}× as fast (predicted, not tried)"
    if "left_cores" in values:
        return (
            f"{held} {_who_uses(values)}. For each batch, {its} need {seconds(values['both_s'])} of the "
            f"{values['left_cores']:.1f} cores that others leave, and training alone takes {seconds(values['alone_s'])}"
            f"{stage_named(values)}. Beside these processes, loading that costs hardly anything could make the loop "
            f"up to {faster}. Without them it would bring little: a quiet machine tells."
        )
    return (
        f"{held} For each batch, {its} need {seconds(values['both_s'])} of {values['usable_cores']:g} cores, and "
        f"training alone takes {seconds(values['alone_s'])}{stage_named(values)}. Without other processes, loading "
        f"that costs hardly anything could make the loop about {faster}."
    )


def held_up(one: Cause, values: Any, part: str) -> str:
    """What a loop waited for a core, where nothing else is large: its other figures do not tell what limits it."""
    quiet = "watch it on a quiet machine"
    if values.get("foreign_cores", MANY_CORES) < MANY_CORES:
        quiet = "give it more cores, or let it use fewer threads, and watch again"
    held = f"The loop itself waited for a core: {part}. {_who_uses(values)}."
    return f"{held} What limits training does not show so: {quiet}."


def _who_uses(values: Any) -> str:
    """Who keeps the cores busy: workers, the script's own process, and others."""
    workers = [(f"its {counted(values['workers'], 'worker')}", values["cores_used"])] if values["workers"] else []
    script = ("the script's own process", values.get("script_cores", 0.0))
    users = [("other processes", values.get("foreign_cores", 0.0)), *workers, script]
    told = ", ".join(f"{who} {cores:.1f}" for who, cores in users if cores >= SOME_CORES)
    unknown = "" if "foreign_cores" in values else "; what other processes used is not known"
    return f"Cores in use, of {values['usable_cores']:g}: {told or 'hardly any'}{unknown}"


def few_threads(one: Cause, values: Any, part: str) -> str:
    """The sentence on torch's one thread in the script's process, with which training took `part`."""
    by = f" ({printable(values['set_by'])} is set)"
    each = f", shared by {values['ranks']} ranks" if values["ranks"] > 1 else ""
    return (
        f"Training took {part}, all on one core: torch has 1 thread in the script's own process{by}, while "
        f"{values['idle_cores']:.1f} of {values['usable_cores']:g} cores are idle{each}. {values['to_threads']} threads"
        f" could save at most about {seconds(one.recoverable_s or 0.0)}, and less where its operations are small (not "
        "tried)."
    )


def many_threads(one: Cause, values: Any, part: str) -> str:
    """The sentence on torch's threads that wait for one another, because some of them had no core for `part`."""
    few = f", for {values['usable_cores']:g} cores," if values["threads"] > values["usable_cores"] else ""
    return (
        f"torch has {values['threads']} threads in the script's own process{few} and they wait for one another: "
        f"some of them had no core for {part}. {_who_uses(values)}. {counted(values['to_threads'], 'thread')} could "
        f"save about {seconds(one.recoverable_s or 0.0)}, and more where operations are small (not tried)."
    )
