"""Says what the work of loops besides waiting comes from: training, callbacks, and batches made ready. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from pipebench.results.account import Cause
from pipebench.watch.read.collectives import other_alone_s
from pipebench.watch.read.compiling import compiled
from pipebench.watch.read.full_collections import collected_s
from pipebench.watch.read.gather import NO_LOADER, Run
from pipebench.watch.read.growing import grown_in_passes
from pipebench.watch.read.in_loop import Apart, as_values, needed_in_each, of_parts, place_besides
from pipebench.watch.read.like_a_device import like_a_device
from pipebench.watch.read.moves import threads_beside
from pipebench.watch.read.of_causes import MATTERS, Seen
from pipebench.watch.read.own_lines import seen_in_forward
from pipebench.watch.read.prepared import ROW, Prepared, idle_of, prepared, taken_over, waits_share
from pipebench.watch.read.slow_line import line_before, line_inside
from pipebench.watch.read.small_batches import of_few_samples
from pipebench.watch.record.program_lines import GradientRows, LastLayerWork, LeftOn
from pipebench.watch.record.record_file import BACKWARD, FORWARD, OPTIMISER

_DOUBLE = "float64"
_MOSTLY_IGNORED, _ALL = 0.5, 0.8  # of the targets: those that are left out, and rows that the last layer computes
_FIRST = 0.2  # of training: a first iteration that is mentioned
_LARGE_STEPS = 0.3  # of the loops
_LARGE = 0.2  # of the loops: work before the model that is told also where workers would save little of it
_FEW_ROWS = 0.1  # of a parameter
_MOST = 0.5  # of the looks


def tools_on(run: Run) -> str:
    """The tools of torch that were on at each look at the script's process, with a space between them."""
    return " ".join(one for one in _always_on(run) if one != _DOUBLE)


def _always_on(run: Run) -> Iterable[str]:
    return dict.fromkeys(one for process in run.of_script() for line in process.of(LeftOn)[-1:] for one in line.tools)


def left_on(seen: Seen) -> Iterable[Cause]:
    """Tools that slow each step. By how much is not known: all other figures hold only with them."""
    if tools := tools_on(seen.run):
        yield Cause("left-on", seen.s("forward", "before-backward", "backward", "optimiser"), values={"tools": tools})


def in_double(seen: Seen) -> Iterable[Cause]:
    """Training in float64. A CPU computes half as many numbers of that size at once, and reads twice the bytes.

    A device may be far slower by it: how much is not known.
    """
    if _DOUBLE in _always_on(seen.run):
        spent = seen.s("forward", "before-backward", "backward")
        yield Cause("float64", spent, None if seen.on_device else spent / 2)


def ignored_targets(seen: Seen) -> Iterable[Cause]:
    """A last layer that computes all positions, of which the loss leaves most out. Its part is that of its products."""
    lines = [line for process in seen.run.of_script() for line in process.of(LastLayerWork)]
    for one in seen.in_loop:
        held = one.content
        if not one.training or len(lines) != 1 or held is None or not held.targets or not held.ignored_share:
            continue
        (last,) = lines
        if held.ignored_share < _MOSTLY_IGNORED or last.rows < _ALL * held.targets:
            continue
        spent = last.share * seen.s("forward", "before-backward", "backward", loader=one.loader)
        values: dict[str, str | int | float] = {"ignored": held.ignored_share, "outputs": last.outputs}
        yield Cause("ignored-targets", spent, held.ignored_share * spent, one.loader, values)


def optimiser(seen: Seen) -> Iterable[Cause]:
    """Steps over rows of which hardly any has a gradient, as of an embedding. What they save is not known."""
    spent = seen.s("optimiser")
    lines = [line for process in seen.run.of_script() for line in process.of(GradientRows)]
    most = max(lines, key=lambda one: one.largest, default=None)
    if most is None or spent < _LARGE_STEPS * seen.loops_s or 2 * most.largest < most.numbers:
        return
    touched = max(one.touched / one.looked for one in lines if one.largest == most.largest)
    if touched <= _FEW_ROWS:
        yield Cause("optimiser", spent, values={"name": most.name, "rows": most.rows, "touched": touched})


def callbacks(seen: Seen) -> Iterable[Cause]:
    """The part of training loops that is neither waiting nor training: logging, callbacks, clipping.

    With a device, it is a cause as far as the device has no training to do meanwhile.
    """
    training = [one for one in seen.in_loop if one.training]
    saved = seen.saved("other")
    if seen.besides_s and (saved or 0.0) < MATTERS * seen.loops_s:
        return
    apart = [(s, told) for s, told in seen.apart if told is not None]
    awaits: dict[str, float] = {"for_others": 1} if saved is None and waits_share(seen.run, NO_LOADER) else {}
    if apart and len(apart) == len(seen.apart):
        for one in _called(seen, apart, saved):
            yield replace(one, recoverable_s=None, values={**one.values, **awaits}) if awaits else one
        return
    even = bool(training) and all(like_a_device(seen.run, one.loader) for one in training)
    if training:
        values = _idle(seen) | ({"even": 1} if even else {})
        if (loader := _trains_alone(seen)) is not None and not seen.on_device:
            values |= place_besides(seen.run, loader)
            values |= _inside(seen, values)
        values |= _through_passes(seen) | awaits
        saved = None if even and seen.on_device else saved
        spent, collected = min(seen.s("other"), _alone_s(seen)), collected_s(seen)
        saved = None if saved is None else max(0.0, saved - collected)
        yield Cause("callbacks", max(0.0, spent - collected), saved, values=values, unsure=even)


def _trains_alone(seen: Seen) -> int | None:
    """The loader whose loop trains; None if several do, or none."""
    training = [one.loader for one in seen.in_loop if one.training]
    return training[0] if len(training) == 1 else None


def _idle(seen: Seen) -> dict[str, str | int | float]:
    """For how long a device had no training to do meanwhile, as the values of a cause; none without a device."""
    return {"idle_s": sum(seen.besides_s.values())} if seen.besides_s else {}


def _through_passes(seen: Seen) -> dict[str, float]:
    """What an iteration takes of such work early and late in a pass, as the values of a cause, if that grows."""
    loader = _trains_alone(seen)
    found = grown_in_passes(seen.run, loader) if loader is not None else None
    return {} if found is None else {"early_s": found.early_s, "late_s": found.late_s}


def preparing(seen: Seen) -> Iterable[Cause]:
    """Work on batches in the loop itself, before the model, or its wait for them."""
    idle = idle_of(seen.result)
    for one in seen.in_loop:
        spent, told = seen.s(ROW, loader=one.loader), prepared(seen.run, one.loader)
        if spent and told is not None:
            values = {**as_values(*told.where), "workers": one.workers}
            if asks_length(values):
                yield Cause(ROW, spent, spent, one.loader, {**values, "length": 1})
                continue
            values |= of_parts(told.part, told.second, spent) | _waits(told)
            waits = told.rests and one.loader == NO_LOADER
            saves = taken_over(told, spent, sum(row.s for row in seen.rows(loader=one.loader)), idle[one.loader])
            if saves is not None and saves.workers > one.workers and not waits:
                values["more_workers"] = saves.workers
                values |= {"made_by": one.made_by} if one.made_by else {}
            saved = seen.saved(ROW, loader=one.loader)
            inside = {} if waits else line_before(seen, one.loader, told.where)  # no line makes a source give sooner
            values |= inside
            if one.loader == NO_LOADER:  # workers need a loader: to make it cheaper comes first, and saves all at most
                values |= {"no_loader": 1, "workers_s": saved or 0.0}
                saved = spent
            elif saved is not None:
                values["workers_s"] = saved
                of_line = told.part if told.where.function else 1.0  # what the line's share is of
                saved = max(saved, float(inside["line_share"]) * of_line * spent) if "title" in inside else saved
                if saved < MATTERS * seen.loops_s and spent < _LARGE * seen.loops_s:
                    continue  # workers would save hardly anything: it is a part of training
            none = one.workers or told.rests
            threads = None if none else threads_beside(seen.result, one, int(values.get("more_workers", 1)))
            values |= {} if threads is None else {"to_threads": threads}
            yield Cause(ROW, spent, saved, one.loader, values)


def _waits(told: Prepared) -> dict[str, str | int | float]:
    """Whether the loop waits there, and whether it does so for other threads or processes (1), or for asyncio (2)."""
    if not told.rests:
        return {}
    return {"rests": 1, **({"for_others": 2 if told.awaits else 1} if 2 * told.for_others > told.share else {})}


def asks_length(values: Mapping[str, str | int | float]) -> bool:
    """Whether the place of a cause asks a loader how long it is, which its sampler may count anew each time."""
    return any(str(values.get(one, "")).endswith(("Loader.__len__", "Sampler.__len__")) for one in ("function", "by"))


def padding(seen: Seen) -> Iterable[Cause]:
    """Samples that are padded further than to the longest of their batch, or to one much longer than most.

    What a model computes grows with them.
    """
    for one in seen.in_loop:
        trained = seen.s("forward", "backward", loader=one.loader)
        shares = (one.content.unused_share, one.content.uneven_share) if one.content else (0.0, 0.0)
        for code, share in zip(("padding", "unequal-lengths"), shares, strict=True):
            spent = (share or 0.0) * trained
            yield Cause(code, spent, spent, one.loader, {"share": share or 0.0})


def _alone_s(seen: Seen) -> float:
    """The most that a rank does by itself there. What it waits for the other ranks is no work of its loop."""
    alone = other_alone_s(seen.run, seen.s("forward"), seen.s("optimiser"))
    return math.inf if alone is None else alone


def _called(seen: Seen, apart: Sequence[tuple[float, Apart]], saved: float | None) -> Iterable[Cause]:
    """The part that is no device's work, with the place of most of it."""
    spent = max(0.0, min(_alone_s(seen), sum(s * (1 - told.device) for s, told in apart)) - collected_s(seen))
    _, most = max(apart, key=lambda one: one[0] * (1 - one[1].device))
    unsure = sum(s * told.unsure for s, told in apart) > 0.5 * spent and not seen.on_device
    values = _idle(seen) | ({"even": 1} if unsure else {}) | as_values(most.file, most.line, most.function, most.by)
    values |= {"rests": 1} if most.rests else {}
    values |= ({"less": 1} if most.less else {}) | ({"models": 1} if most.models else {})
    values |= {"length": 1} if asks_length(values) else {}
    values |= of_parts(most.part, most.second, spent) if len(apart) == 1 else {}
    values |= _inside(seen, values)
    if "title" in values and float(values["line_share"]) >= _MOST:
        values.pop("rests", None)  # what such lines do needs a core, and waits for one at most
    values |= _through_passes(seen)
    yield Cause("callbacks", spent, spent if saved is None else min(spent, saved), values=values, unsure=unsure)


def _inside(seen: Seen, values: Mapping[str, str | int | float]) -> dict[str, str | int | float]:
    """The line inside the function that is named, and whether training needs in each step what that does.

    Where none is, the work is in the loop itself: then a line of it, if something is known of that.
    """
    loader = _trains_alone(seen)
    if loader is None:
        return {}
    told = line_inside(seen, loader, values)
    needed = any(needed_in_each(str(values.get(which, ""))) for which in ("function", "by"))
    return told | ({"needed": 1} if needed else {})


def _device_s(seen: Seen) -> float:
    """What the loops did besides waiting and training that seems to be a device's work."""
    return sum(s * told.device for s, told in seen.apart if told is not None)


def compiling(seen: Seen) -> Iterable[Cause]:
    """What torch's compiler took of each loop after its first iterations, as for inputs of other sizes."""
    for one in seen.in_loop:
        found = compiled(seen.run, one.loader)
        if not found.goes_on or found.later_s < MATTERS * seen.loops_s:
            continue
        values: dict[str, str | int | float] = {"turns": found.turns}
        if found.graphs and not any(compiled(seen.run, other.loader).s for other in seen.in_loop if other != one):
            values["graphs"] = found.graphs
        yield Cause("compiling", found.s, found.later_s, one.loader, values)


def training(seen: Seen) -> Iterable[Cause]:
    """Training itself, if it takes most of the loops. Its largest phase is named."""
    phases = ("forward", "backward", "optimiser")
    spent = {phase: seen.s(phase) for phase in phases}
    total = sum(spent.values())
    device_s = _device_s(seen)
    if total + device_s >= 0.5 * seen.loops_s > 0:
        largest = max(phases, key=lambda phase: spent[phase])
        first = _first_iteration_s(seen)
        values: dict[str, str | int | float] = {"phase": largest, "phase_s": spent[largest]}
        if first >= _FIRST * total > 0:
            values["first_s"] = first
        if device_s >= MATTERS * seen.loops_s:
            values["device_s"] = device_s
        values |= of_few_samples(seen) | seen_in_forward(seen)
        yield Cause("training", total + device_s, values=values, on_device=seen.on_device)


def _first_iteration_s(seen: Seen) -> float:
    """What training took in the first iteration of all, where a compiler works, or a library is loaded."""
    turns = (line for one in seen.in_loop for line in seen.run.turns(one.loader) if line.trained and line.turns == 1)
    first = next((line for line in turns if line.first == 0 and line.number_of_pass == 0), None)
    return sum(first.phases_ns[phase] for phase in (FORWARD, BACKWARD, OPTIMISER)) / 1e9 if first is not None else 0.0
