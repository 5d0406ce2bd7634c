"""The sentence for each cause of a watched run, by its code. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pipebench.render import in_loop, of_cores, of_passes, of_training, of_workers, reads, worker_moves
from pipebench.render.frameworks import setting
from pipebench.render.in_loop import stage_named
from pipebench.render.of_passes import living_on, saving
from pipebench.render.of_workers import waits
from pipebench.render.watch_notes import left_on
from pipebench.results.account import IN_VAIN, LITTLE, Cause
from pipebench.units import counted, lasting, percent, seconds, size

_WORTH = 0.05  # of making batches: what workers may save of it
_NEARLY_ALL = 0.9  # of work in a loop: where workers save so much, how it gets cheaper is not said


def _sampler(one: Cause, values: Any, part: str) -> str:
    per = f"{seconds(values['s_per_batch'])} a batch"
    twice = values.get("twice_s", 0.0)
    living = (
        f" torch calls its __iter__ twice where workers are new. {living_on(values)} would save the second call: "
        f"about {seconds(twice)}."
    )
    return (
        f"The sampler of loader {one.loader}{in_loop.named(values)} took {part}, {per}, in the script's own process."
        + saving(one, "A sampler that takes hardly any time")
        + (living if twice >= LITTLE * one.s else "")
    )


def _in_workers(values: Any) -> str:
    if "length" in values:
        return in_loop.done_otherwise(values)
    if "rests" in values and "no_loader" in values:
        return "A source that has each batch ready by then (a faster one, or one that works further ahead)"
    where = "Doing it in the workers (in the dataset, or in collate_fn)"
    more, threads = values.get("more_workers"), values.get("to_threads")
    besides = [setting("num_workers", values.get("made_by", ""), more)] if more else []
    besides += [f"torch.set_num_threads({threads}) in the script"] if threads else []
    return f"{where}, with {' and '.join(besides)}," if besides else where


def _prepared(one: Cause, values: Any) -> str:
    """What could be saved of batches that a loop makes itself, or makes ready."""
    workers = float(values.get("workers_s", one.saving_s))
    no_loader, waits = "no_loader" in values, "rests" in values
    if "length" in values or (waits if no_loader else workers >= _NEARLY_ALL * one.s):
        return saving(one, _in_workers(values))
    said = f" Making it {'shorter' if waits else 'cheaper'} could save up to {seconds(one.s)}"
    if "no_loader" not in values:
        return saving(replace(one, recoverable_s=workers), _in_workers(values)) + f"{said} (not tried)."
    if workers >= LITTLE * one.s:
        more = f" (num_workers={values['more_workers']})" if "more_workers" in values else ""
        said += f"; making batches in the workers of a DataLoader{more}, beside the training, about {seconds(workers)}"
    return f"{said} (predicted, not tried)."


def _hand_off(one: Cause, values: Any, part: str) -> str:
    arrays, piped = values["array_bytes_per_batch"], values["pipe_bytes_per_batch"]
    if "tensors" in values:
        fewer = "To hand over a few tensors in their place"
        return f"Receiving and unpickling batches took {part}.{_one_by_one(values)}" + saving(one, fewer)
    mostly = arrays > piped / 2
    what = f"{size(arrays)} of NumPy arrays" if mostly else f"{size(piped)} through the pipe"
    change = "Tensors in place of arrays" if mostly else "A cheaper hand-off"
    change = "Leaving it out" if "carried" in values else change
    received = f"Receiving and unpickling batches took {part}; a batch brings {what}."
    return received + in_loop.carried(values) + saving(one, change)


def _one_by_one(values: Any) -> str:
    if "tensors" not in values:
        return ""
    return f" A batch has {values['tensors']:,.0f} tensors, and each crosses in shared memory of its own."


def _views(values: Any) -> str:
    return f"a batch needs {size(values['held_bytes'])}, and its views bring {size(values['viewed_bytes'])} more"


def _no_workers(one: Cause, values: Any, part: str) -> str:
    fewest = 2 if "by_thread" in values else values.get("fewest", 1)
    more = setting("num_workers", values.get("made_by", ""), f"{fewest} or more")
    if "kept_open" in values:
        more = "Workers that each open the file or connection themselves"
    made = f"Loader {one.loader} has no workers: making batches inside the loop took {part}{stage_named(values)}."
    if "own_processes" in values:
        return f"{made} {worker_moves.OWN_PROCESSES}"
    if "starts" in values:
        longer = f" Workers that start in each of its {values['passes']:,} passes would take longer than they save."
        return made + longer + in_loop.slow_loading(values) + saving(one, "Faster loading", "up to")
    if "by_thread" in values:
        return (
            f"Waiting for batches took {part}: loader {one.loader} has no workers, and one thread beside the loop "
            f"makes them{stage_named(values)}." + saving(one, more, "up to") + in_loop.shared(values)
        )
    known = in_loop.helped(values) + reads.said(values) + in_loop.slow_loading(values)
    if IN_VAIN in values:
        return f"{made}{known}{in_loop.cheaper_samples(values, one.saving_s)}"
    saved = float(values.get("workers_s", one.saving_s or 0.0))
    threads, cores = values.get("to_threads"), values.get("usable_cores", 0)
    fewer = "" if threads is None else f"{int(cores)} - num_workers" if threads > 1 else "1"
    besides = worker_moves.besides(values.get("made_by", ""), "lives_on" in values, fewer)
    each = "" if "lives_on" in values or values.get("passes", 1) < 2 else " in each pass"
    by_workers = (
        f" {more}{besides}{',' if besides else ''} could save up to {seconds(saved)}, less what their start takes{each}"
    )
    return (
        made
        + known
        + (f"{by_workers} (predicted, not tried)." if saved >= _WORTH * one.s else "")
        + in_loop.shared(values)
    )


def _busy(values: Any) -> str:
    return f"{counted(values['workers'], 'worker')} busy {percent(values['busy'])}"


def _blocked(one: Cause, values: Any, part: str) -> str:
    what, idle = "They sleep, or wait for storage, network or a core", ""
    if "seen" in values:  # from outside, and hardly ever waiting for storage
        what = "They sleep, or wait for a network or a lock"
    elif "idle_cores" in values:  # then the load of other processes is known
        what = "They sleep or wait for storage or network"
        idle = f", while {values['idle_cores']:.1f} of {values['usable_cores']:g} cores are idle"
    return (
        f"{waits(one, part)}. {what}: {_busy(values)}, of that "
        f"{percent(values['cpu_share'])} on a core{idle}{stage_named(values)}.{reads.said(values)}"
        + (in_loop.shared(values) or saving(one, _more_workers(values)))
    )


def _more_workers(values: Any) -> str:
    if "lacks" in values:  # data or memory for more of them
        return "Faster loading"
    if "kept_open" in values:
        return "More workers, of which each opens the file or connection itself,"
    return "More workers" if values["workers"] < values.get("usable_cores", 0) else "More workers than cores"


def _storage(one: Cause, values: Any, part: str) -> str:
    rate = f", which gives {size(values['bytes_per_s'])}/s" if values.get("bytes_per_s") else ""
    return (
        f"{waits(one, part)}. They wait for storage{rate}: {_busy(values)}, of that "
        f"{percent(values['cpu_share'])} on a core{stage_named(values)}.{reads.said(values)}"
        + (in_loop.shared(values) or saving(one, f"{_more_workers(values)}, or data in memory,"))
    )


def _growth(one: Cause, values: Any, part: str) -> str:
    each = f", {size(values['pass_bytes'])} a pass" if values.get("pass_bytes") else ""
    ends = "" if values["persistent"] else ", unless the pass ends before: then it begins anew"
    return (
        f"The memory of the workers of loader {one.loader} grew by {size(values['bytes_per_s'])}/s{each}, in "
        f"{seconds(values['seen_s'])} of its loops. If it does not level off, as a buffer does that fills, the free "
        f"{size(values['free_bytes'])} end in {lasting(values['lasts_s'])}{ends}. Look for a list, a dict or a cache "
        "that each sample adds to."
    )


def _sync_points(one: Cause, values: Any, part: str) -> str:
    would = "makes" if values["device"] else "would make"
    took = f" They took {part}." if one.s else ""
    return (
        f"The loop {would} the host wait for the device {values['per_step']:g} times an iteration: "
        f"{values['operations']} in {values['places']}.{took}" + saving(one, "Fewer of them")
    )


def _stage(one: Cause, values: Any, part: str) -> str:
    """The stage is named by the sentence on the iteration, which follows."""
    used_up = f" More workers do not help: {_of_cores(values)}." if values.get("used_up") else ""
    return (
        f"{waits(one, part)}.{in_loop.slow_loading(values)}"
        + saving(one, "Faster loading")
        + used_up
        + _on_device(values)
    )


def _pickling(one: Cause, values: Any, part: str) -> str:
    times = f"they make a batch in {seconds(values['make_s'])} and pickle it for {seconds(values['pickle_s'])}"
    if "viewed_bytes" in values:
        return f"{waits(one, part)}: {times}; {_views(values)}." + saving(one, "Copies in place of views")
    return f"{waits(one, part)}: {times}.{_one_by_one(values)}" + saving(one, "A cheaper hand-off")


def _threads(one: Cause, values: Any, part: str) -> str:
    return (
        f"{waits(one, part)}: {counted(values['workers'], 'worker')} of {values['threads']} threads each compete for "
        f"{values['usable_cores']:g} cores." + saving(one, "One thread in each worker")
    )


def _cores(one: Cause, values: Any, part: str) -> str:
    helps = f"Cheaper loading helps, not more workers.{in_loop.slow_loading(values)}{_on_device(values)}"
    return f"{waits(one, part)}: {_of_cores(values)}. {helps}"


def _on_device(values: Any) -> str:
    """What an idle device could do in place of the workers; "" if there is none, or nothing for it."""
    if "device_idle" not in values:
        return ""
    return (
        f" Or do {values['stage']} on the device, for a whole batch, if its samples have one size by then: it idles "
        f"for {percent(values['device_idle'])} of the time, and no more than that could be saved so (not tried)."
    )


def _of_cores(values: Any) -> str:
    return (
        f"the workers use {values['cores_used']:.1f} cores and the script {values['script_cores']:.1f}, of "
        f"{values['usable_cores']:g}"
    )


def _head_of_line(one: Cause, values: Any, part: str) -> str:
    period = values.get("period")
    more = f" The stalls come at every {_nth(period)} batch: a larger prefetch_factor may help, too." if period else ""
    return (
        f"Slow batches held up later ones that were ready: {part}, in {percent(values['share'])} of the waits."
        + saving(one, "in_order=False (torch 2.6 and later), with which the order varies,")
        + more
    )


def _periodic(one: Cause, values: Any, part: str) -> str:
    workers, why = "", ", so batches cost unevenly"
    if values["period"] == values["workers"]:
        workers, why = ", the number of workers", ": one worker's batches cost more, or all workers finish together"
    return (
        f"The loop stalls at every {_nth(values['period'])} batch{workers}: {part}. The workers "
        f"are busy only {percent(values['busy'])} of the time{why}." + saving(one, "A larger prefetch_factor")
    )


def _nth(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _fields(one: Cause, values: Any, part: str) -> str:
    many = values["dropped"] > 1
    return (
        f"The stream of loader {one.loader} decodes {values['decoded']} fields of each sample, of which later stages "
        f"drop {values['dropped']}: {values['names']} {'are' if many else 'is'} decoded in vain, "
        f"{percent(values['decoding'])} of the decoding and {percent(values['share'])} of loading. Waiting for that "
        f"took about {part}." + saving(one, "Decoding only what is passed on")
    )


SENTENCES: dict[str, Callable[[Cause, Any, str], str]] = {
    "timed-out": of_passes.timed_out,
    "start-up": of_passes.start_up,
    "dataset-anew": lambda one, values, part: (
        in_loop.made_anew(one.loader, values, part) + saving(one, "Making it once, before the loops,")
    ),
    "warm-up": of_passes.warm_up,
    "new-iterators": of_passes.new_iterators,
    "validation": of_passes.validation,
    "sampler": _sampler,
    "hand-off": _hand_off,
    "pin": lambda one, values, part: f"Copying batches into pinned memory took {part}.",
    "host-to-device": lambda one, values, part: (
        f"Copies from the host to the device took {part}." + saving(one, "Pinned batches and non_blocking=True")
    ),
    "callbacks": lambda one, values, part: (
        in_loop.callbacks(values, part)
        + saving(one, in_loop.done_otherwise(values), "at most" if "needed" in values else "about")
    ),
    "garbage-collection": lambda one, values, part: in_loop.full_collections(values, one.s, part),
    "busy-thread": lambda one, values, part: (
        in_loop.busy_thread(values, one.s, part)
        + saving(one, "To block or to sleep in place of polling, or to move the work into a process,")
    ),
    "prepare": lambda one, values, part: in_loop.preparing(values, part) + _prepared(one, values),
    "python-loops": lambda one, values, part: in_loop.python_loops(values, part, one.recoverable_s),
    "many-operations": lambda one, values, part: in_loop.many_operations(values, part, one.saving_s),
    "own-lines": lambda one, values, part: in_loop.own_lines(values, part, one.recoverable_s or 0.0),
    "small-batches": of_training.small_batches,
    "few-threads": of_cores.few_threads,
    "many-threads": of_cores.many_threads,
    "left-on": lambda one, values, part: f"{left_on(values)} Training took {part} so; what is saved is not known.",
    "float64": lambda one, values, part: (
        f"The model computes in float64: forward and backward took {part}. Large operations take half of that or less "
        f"in float32, if that is precise enough{f', up to {seconds(one.saving_s)} less' * bool(one.saving_s)} "
        "(predicted, not tried)."
    ),
    "ignored-targets": lambda one, values, part: (
        f"{percent(values['ignored'])} of the targets of loader {one.loader} are -100, which the loss leaves out. But "
        f"the last layer ({values['outputs']:,} outputs) computes all positions, which took about {part}."
        + saving(one, "To compute only those that count", "up to")
    ),
    "spans": lambda one, values, part: (
        f"Functions of --span took {part} in the loop; the longest is {values['function']}."
    ),
    "each-makes-all": lambda one, values, part: (
        f"{waits(one, part)}. Each makes all samples of the stream and gives only its part: what makes a sample "
        f"runs {values['times']:.1f} times for each. More workers bring nothing then."
        + saving(one, "Choosing the part before the work")
    ),
    "made-in-vain": lambda one, values, part: (
        f"{waits(one, part)}. Their stream drops {percent(values['dropped'])} of {values['made']:,} samples by a "
        f"select after {values['stage']} has made them."
        + saving(one, "Selecting them before, if what it asks is known then,")
    ),
    "fields-in-vain": _fields,
    "each-gives-all": lambda one, values, part: (
        f"Each of the {values['workers']} workers of loader {one.loader} gives all samples of {values['function']}, so "
        f"a pass has each sample {values['workers']} times: their first {values['same']} batches are the same, and "
        f"nothing in its code asks for the worker (get_worker_info). The repeated samples took {part}."
        + saving(one, "As many passes with each sample once")
    ),
    "few-cores": lambda one, values, part: (
        f"{waits(one, part)}, which may all together run on {counted(values['allowed'], 'core')} only: their "
        "affinity is set." + saving(one, "Workers on all cores")
    ),
    "padding": lambda one, values, part: (
        f"{percent(values['share'])} of a batch is padding at the end of all its samples. Training takes about {part} "
        "for it." + saving(one, "Padding to the longest sample of each batch")
    ),
    "unequal-lengths": lambda one, values, part: (
        f"{percent(values['share'])} of a batch is padding of samples that are shorter than its longest one. Training "
        f"takes about {part} for it." + saving(one, "Batches of samples of like length")
    ),
    "no-workers": _no_workers,
    "many-tensors": lambda one, values, part: (
        f"Making batches inside the loop of loader {one.loader} took {part}{stage_named(values)}. A batch has "
        f"{values['tensors']:,.0f} tensors. It is made in {seconds(values['make_s'])}, and to hand one over from a "
        f"worker would take about {seconds(values['hand_off_s'])}." + saving(one, "One tensor in place of them")
    ),
    "workers-blocked": _blocked,
    "shared-lock": lambda one, values, part: (
        f"{waits(one, part)}. {in_loop.at_lock(values)}"
        + (in_loop.shared(values) or saving(one, "The same work without that lock"))
    ),
    "storage": _storage,
    "memory-growth": _growth,
    "sync-points": _sync_points,
    "stage": _stage,
    "pickling": _pickling,
    "threads-over-cores": _threads,
    "cores-used-up": _cores,
    "workers-compete": of_cores.compete,
    "loading-takes-cores": of_cores.takes_cores,
    "held-up": of_cores.held_up,
    "head-of-line": _head_of_line,
    "periodic-stalls": _periodic,
    "uneven-workers": of_workers.uneven,
    "slow-worker": of_workers.slow,
    "few-parts": of_workers.few_parts,
    "waiting": lambda one, values, part: (
        f"{waits(one, part)}, though they are busy only {percent(values['busy'])} of the time."
        + saving(one, "Faster loading")
    ),
    "slower-steps": of_training.slower_steps,
    "frozen-module": of_training.frozen,
    "unused-gradients": of_training.unused,
    "checkpointing": of_training.checkpointing,
    "computed-again": of_training.computed_again,
    "compiling": of_training.compiling,
    "optimiser": lambda one, values, part: of_training.optimiser(values, part),
    "training": of_training.training,
    "outside-loops": lambda one, values, part: in_loop.between(values, part),
    "before-loops": lambda one, values, part: in_loop.before_first(values, one.saving_s, part),
    "after-loops": lambda one, values, part: in_loop.after_last(values, part),
}  # fmt: skip
