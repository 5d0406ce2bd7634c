"""The sentences on what training itself takes: its steps, its modules, and its batches. Pure."""

from __future__ import annotations

from typing import Any

from pipebench.render import in_loop
from pipebench.render.of_passes import saving
from pipebench.results.account import Cause
from pipebench.units import code_place, counted, did_needlessly, percent, seconds

_GROWS = {
    "forward": "Forward", "backward": "Backward", "optimiser": "The optimiser's step",
    "other": "Work in the loop besides training", "before-backward": "What comes before backward (data and forward)",
}  # fmt: skip


def slower_steps(one: Cause, values: Any, part: str) -> str:
    """The sentence on a phase that takes longer and longer; what came on top took `part`."""
    times = values["late_s"] / values["early_s"]
    return (
        f"{_GROWS[values['phase']]} takes longer and longer, as where the loop keeps a graph or a list that grows: "
        f"{seconds(values['early_s'])} of an iteration in the second fifth of the loop, and "
        f"{seconds(values['late_s'])} in the last one ({times:.1f} times as long; waits for a core left out). What "
        f"came on top since took {part}{_where(values)}." + saving(one, "Detaching or dropping what it keeps")
    )


def _where(values: Any) -> str:
    """Where most of that was seen, if looks tell it."""
    if "line" not in values:
        return ""
    place = code_place(values["file"], values["line"])
    function = values.get("function", "")
    return f", most of it seen in {f'{function} ({place})' if function else place}"


def frozen(one: Cause, values: Any, part: str) -> str:
    """The sentence on frozen modules. On a device (nothing is told to be saved), the time is the host's."""
    others = f", and {counted(values['modules'] - 1, 'other frozen module')}," if values["modules"] > 1 else ""
    said = (
        f"The forward of {values['module']}{others} took {part}: {seconds(values['turn_s'])} and "
        f"{percent(values['share'])} of an iteration. Its weights were not seen to change."
    )
    kept = f"Outputs that are computed once and kept, for use from the second of {values['passes']} passes on,"
    said += saving(one, kept) or " That is the host's time. Its outputs could be computed once and kept."
    if "varies" in values:
        said += f" It runs in train mode, so its {values['varies']} gives other outputs each time: eval() ends that."
    return said + " Only if its inputs are the same in each pass: random augmentation before it forbids this."


def unused(one: Cause, values: Any, part: str) -> str:
    """The sentence on gradients that nobody uses. On a device (nothing is told to be saved), the time is the host's."""
    several = values["modules"] > 1
    whole = f" of {values['of']}" if several and "of" in values else ""
    others = f" and {counted(values['modules'] - 1, 'other module')}{whole}" if several else ""
    name = values.get("name", values["module"])
    change = (
        "requires_grad_(False) on all weights that no optimiser holds, before the loop,"
        if several
        else f"{name}.requires_grad_(False) before the loop, or running it under torch.no_grad(),"
    )
    kept = (
        f" If {'their' if several else 'its'} inputs are the same in each pass, outputs that are kept save "
        f"{'their' if several else 'its'} forward, too: about {seconds(values['forward_s'])} (predicted, not tried)."
        if "forward_s" in values
        else ""
    )
    return (
        f"The backward computes gradients of {values['module']}{others} that nobody uses: no optimiser holds "
        f"{'their' if several else 'its'} weights, which were not seen to change. It takes about {part} for them, if "
        f"{'their' if several else 'its'} share of it is that of the forward ({percent(values['share'])})."
        + (saving(one, change) or f" That is the host's time. {change.rstrip(',')} ends it.")
        + " Only if the script reads these gradients nowhere, and trains these weights at no later time."
        + kept
    )


def checkpointing(one: Cause, values: Any, part: str) -> str:
    """The sentence on parts of the forward that the backward computes again, for which it takes `part`."""
    told = f"{percent(values['share'])} of forward runs under torch.utils.checkpoint"
    change = "Keeping what the backward needs, if the memory suffices,"
    if one.recoverable_s is None:
        return f"{told}, and the backward computes that again. Forward takes {part} of the host's time for it."
    return f"{told}, and the backward computes that again: about {part}, if it takes as long." + saving(one, change)


def computed_again(one: Cause, values: Any, part: str) -> str:
    """The sentence on a function between batch and backward that gave the same again, which took `part`."""
    counts = values["iterations"], values["calls"], values["again"]
    told = did_needlessly(
        values["what"], values["function"], values["file"], values["line"], bool(values["several"]), *counts, 0, 0,
        per="iteration",
    )  # fmt: skip
    return f"{told} That takes about {part} before backward." + saving(one, "Computing it once")


def compiling(one: Cause, values: Any, part: str) -> str:
    """The sentence on torch's compiler, which took `part` and goes on after the first iterations of a loop."""
    graphs = f" ({counted(values['graphs'], 'graph')})" if "graphs" in values else ""
    return (
        f"torch.compile compiled in {counted(values['turns'], 'iteration')} or more{graphs}: "
        f"about {part}."
        + saving(one, "Compiling once, at the start,")
        + " Inputs of other sizes compile anew, if these"
        " are not dynamic: TORCH_LOGS=recompiles names what differs."
    )


def _few_samples(values: Any) -> str:
    """The sentence on small batches of which a step takes several; "" if they are none."""
    if "of_step" not in values:
        return ""
    return (
        f" A batch has {counted(values['samples'], 'sample')}, and a step of the optimiser takes about "
        f"{values['of_step']} batches: larger ones may take less for each sample (not tried)."
    )


def small_batches(one: Cause, values: Any, part: str) -> str:
    """The sentence on small batches, whose hand-off took `part`."""
    saved = seconds(one.recoverable_s or 0.0)
    return (
        f"Batches of {counted(values['samples'], 'sample')}, about {values['of_step']} for each step of the optimiser: "
        f"handing {values['batches']:,} batches over one by one took {part}. Larger batches, with as many samples for "
        f"a step, could save about {saved} of that (predicted, not tried). What training itself takes less with them is"
        " not known."
    )


def optimiser(values: Any, part: str) -> str:
    """The sentence on an optimiser that steps over rows without a gradient, whose steps took `part`."""
    return (
        f"The steps of {values['name']} took {part}. They go over {values['rows']:,} rows of its largest parameter, "
        f"of which about {percent(values['touched'])} have a gradient, as of an embedding. With sparse=True in its "
        "nn.Embedding, and an optimiser of its own for it (SparseAdam, or SGD without momentum), only these rows are "
        "stepped: training differs a little, and what that saves is not known."
    )


def training(one: Cause, values: Any, part: str) -> str:
    """The sentence on training itself, which took `part`."""
    first = f" Its first iteration took {seconds(values['first_s'])} of that, once." if "first_s" in values else ""
    more = f"{first}{in_loop.seen_in(values)}{_few_samples(values)}{_other_threads(values)}"
    return f"Training itself took {part}, {in_loop.most_of_training(values, one.s)}.{more}"


def _other_threads(values: Any) -> str:
    """What is said of torch's threads, where only a trial tells whether another number is faster."""
    if "to_threads" not in values:
        return ""
    tries = f"`pipebench advise` tries {values['to_threads']}."
    if "idle_cores" in values:
        return (
            f" torch has 1 thread in the script's own process, by a call there, while {values['idle_cores']:.1f} of "
            f"{values['usable_cores']:g} cores are idle: {tries}"
        )
    return f" Some of torch's {values['threads']} threads had no core for {seconds(values['core_s'])}: {tries}"
