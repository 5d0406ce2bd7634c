"""Turns the notes of a watched run into sentences: for each code, the cause and the remedy. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pipebench.results.watched import ONE_OF_RANKS, Note
from pipebench.units import counted, percent, printable, seconds, size

Values = dict[str, Any]
_CHANGED = (
    " If it copies them in another form, as `x.float().cuda()` and `x.pin_memory().cuda()` do, the gain may be larger "
    "than shown."
)


def sentence(note: Note) -> str:
    """The note as a sentence."""
    if note.code not in _SENTENCES:
        return f"{printable(note.code)}: {printable(str(note.values))}"
    return printable(_SENTENCES[note.code](note.values))


def _who(values: Values) -> str:
    who = "a process that was forked" if "forked" in values else "the script"
    if "unknown" in values:
        who = "a process whose first record is lost, such as a worker"
    elif "worker" in values:
        who = f"worker {values['worker']} of loader {values['loader']}"
    elif "rank" in values:
        who = f"rank {values['rank']}"
    return f"{who} (process {values['pid']})"


def _not_watched(values: Values) -> str:
    return (
        f"The {counted(values['workers'], 'worker')} of loader {values['loader']} ({values['start_method']}) were not "
        "watched, so their stages are unknown."
    )


def _ended_early(values: Values) -> str:
    where = (
        f"after {values['rounds']} of {values['planned']} rounds"
        if "rounds" in values
        else "before its first window was complete"
    )
    return (
        f"The script ended {where}. The bound needs {values['steps']:,} iterations: train for longer, or give a "
        "smaller --steps."
    )


def _oversubscribed(values: Values) -> str:
    return (
        f"Oversubscription: each of the {values['workers']} workers of loader {values['loader']} ran up to "
        f"{values['threads']} threads at once, on {values['usable_cores']:g} usable cores. Allow fewer threads in the "
        f"workers; these libraries allow more than one (with what sets it): {values['pools']}.{_of_another(values)}"
    )


def _of_another(values: Values) -> str:
    """That the pools which are known do not have so many threads."""
    if not (more := values.get("unexplained")):
        return ""
    return f" They allow {more:,} fewer than ran: the rest may be of another library."


def _left(values: Values) -> str:
    if values["limit"] == "file descriptors":
        return f"{values['left']:,} file descriptors are left"
    return f"{size(values['left'])} of {values['limit']} are free"


KILLED = "script-killed"
_ASKED = (
    "SIGTERM",
    "SIGINT",
    "SIGHUP",
    "SIGQUIT",
    "SIGALRM",
    "SIGXCPU",
)  # as a scheduler sends them
_CRASHES = ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE")
RAN_OUT = "Memory ran out, as the kernel counted: use fewer workers or smaller batches, or raise the limit."
_OF_MEMORY = {
    "ran-out": RAN_OUT,
    "enough": "The kernel counted no lack of memory, so a process killed it: another one, or it did so itself.",
    "unknown": "The kernel does so when memory runs out, but it does not say here whether it did: see dmesg.",
}
_CAUSES = {
    "SIGBUS": "Shared memory was full: enlarge /dev/shm (docker run --shm-size), or use fewer workers.",
    "SIGSEGV": "A library crashed: try that sample alone.",
}


def _lost(values: Values) -> str:
    who = _who(values).capitalize()
    at = ""
    if "sample" in values:
        at = f"{' between two batches, after' if 'between' in values else ' at'} sample {values['sample']}"
    missing = "Its last batches may be missing here."
    if "signal" in values:
        cause = _OF_MEMORY.get(str(values.get("memory")), "") or _CAUSES.get(str(values["signal"]), "")
        return " ".join(filter(None, (f"{who} was killed by {values['signal']}{at}.", cause, missing)))
    if "status" in values:
        return f"{who} left with exit status {values['status']}{at}, before its loader had ended. {missing}"
    why = "it crashed, was killed, or the script ended first"
    return f"{who} ended before its records were complete{at}: {why}. {missing}"


def _killed(values: Values) -> str:
    after = f" after {seconds(values['at_s'])}" if "at_s" in values else ""
    cause = RAN_OUT if values.get("memory") == "ran-out" else ""
    cause = "These figures are of the time before." if values["signal"] in _ASKED and not cause else cause
    return f"The script was ended by {values['signal']}{after}: its records have no end. {cause}".strip()


def after_signal(notes: Sequence[Note]) -> str | None:
    """The next move after a signal has ended the script. None: no signal has, or one that asks a script to end."""
    killed = next((one.values for one in notes if one.code == KILLED), None)
    if killed is None:
        return None
    if killed.get("memory") == "ran-out":
        change = "use fewer workers or smaller batches, or raise the limit of memory"
    elif killed["signal"] in _ASKED:
        return None
    elif killed["signal"] in _CRASHES:
        change = "find the line that crashed: python -X faulthandler prints it"
    else:
        change = f"find what sent {killed['signal']}: the log of your scheduler, or dmesg"
    return f"Next: {change}. These figures are of the time before."


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _from(values: Values) -> str:
    return f", first {seconds(values['at_s'])} after its start" if "at_s" in values else ""


_TOOLS = {
    "anomaly-detection": "anomaly detection of torch.autograd", "profiler": "a profiler of torch",
    "float16": "float16 (autocast or half()) on a CPU without instructions for it",
}  # fmt: skip


def tools(names: str) -> str:
    """The tools of torch with these names."""
    return " and ".join(_TOOLS.get(one, printable(one)) for one in names.split())


def left_on(values: Values) -> str:
    named = tools(str(values["tools"]))
    on, them = ("were on: they make", "them") if " " in str(values["tools"]) else ("was on: it makes", "it")
    return (
        f"{named[:1].upper()}{named[1:]} {on} each step slower, and these figures hold only with {them}. "
        f"Switch {them} off for training."
    )


def keeps_graphs(loops: str) -> str:
    """The end of a sentence on the forward of loops that do not train."""
    return (
        "forward keeps graphs for gradients, and no gradient was seen to be computed there. Unless they are used "
        f"later, torch.inference_mode() or torch.no_grad() around {loops} saves time and memory (how much is not "
        "known)."
    )


def _in_fork(values: Values) -> str:
    dataset, spawn = printable(str(values["dataset"])), "Under `pipebench watch -- COMMAND`, spawned ones are watched."
    if values["processes"] == 1:
        who = f"Process {values['pid']}, which the script forked, iterates a loader of its own ({dataset})"
        return f"{who}, and was not watched: no figure here is of it. {spawn}"
    who = f"{values['processes']} processes that the script forked (such as {values['pid']}) iterate loaders"
    return f"{who} ({dataset}), and were not watched: no figure here is of them. {spawn}"


_SENTENCES: dict[str, Callable[[Values], str]] = {
    ONE_OF_RANKS: lambda found: (
        f"This is rank {found['rank']} of {found['of']}. Other ranks may share this machine, and were not watched with "
        "it. What they use of the cores is not known, so nothing is predicted that needs more cores."
    ),
    "undivided": lambda found: (
        f"Each of the {found['workers']} workers of loader {found['loader']} gives all samples, unless something "
        f"divides them: nothing in the code of {found['dataset']} asks for the worker (get_worker_info)."
    ),
    "unused-graphs": lambda found: (
        f"The loops over loader {found['loader']} ({found['dataset']}) do not train, but their "
        + keeps_graphs("these loops")
    ),
    "nested-lists": lambda found: (
        f"Functions of datasets take {percent(found['share'])} of the time of samples of loader {found['loader']}, and "
        f"its column {found['column']} is stored as lists in lists, which they put together list by list. If all "
        f"its samples have one shape, store it as Array{found['dimensions']}D (dataset.cast_column): then each is one "
        "block."
    ),
    "float64": lambda found: (
        f"A batch of loader {found['loader']} holds {size(found['bytes'])} of float64. If the model computes in "
        "float32, let samples be float32 from the beginning (`.astype(np.float32)`): half as much to collate and to "
        "hand over."
    ),
    "tools-left-on": left_on,
    "loads-in-fork": _in_fork,
    "workers-not-watched": _not_watched,
    "failed-batches": lambda found: f"In loader {found['loader']}, {_batches(found)} failed with an exception.",
    "hidden-errors": lambda found: (
        f"In loader {found['loader']}, a handler of the pipeline hid {counted(found['errors'], 'error')}: what failed "
        f"is missing from the batches. {_first_hidden(found)} The handler itself took {seconds(found['s'])}."
    ),
    KILLED: _killed,
    "stages-after-loader": lambda found: (
        f"Each wait for loader {found['loader']} includes {seconds(found['s'])} of stages that run after it, in the "
        "script's own process."
    ),
    "recording-stopped": lambda found: (
        f"Recording stopped in {_who(found)}: its records could not be written. Free some space where temporary files "
        "lie, or set TMPDIR to a folder on another disk."
    ),
    "worker-lost": _lost,
    "stopped": lambda found: (
        f"The script was stopped {_times(found['times'])}, for {seconds(found['s'])} in all (SIGSTOP or Ctrl-Z)"
        f"{_from(found)}. Figures of that moment include it: run it again for figures without."
    ),
    "worker-stopped": lambda found: (
        f"{_who(found).capitalize()} was stopped in {found['stopped']} of {counted(found['looks'], 'look')} from "
        "outside (SIGSTOP). Its figures include that time."
    ),
    "suspended": lambda found: (
        f"The machine was suspended for {seconds(found['s'])} meanwhile. No figure includes that time, because the "
        "clocks stand still in it; what waited for a network may have failed."
    ),
    "lines-unread": lambda found: (
        f"{counted(found['lines'], 'line')} of the records of {_who(found)} could not be read. Figures may be missing."
    ),
    "fault": lambda found: f"Fault of pipebench in {_who(found)}: {found['fault']}. Figures may be missing.",
    "fault-outside": lambda found: f"Fault of pipebench in {found['what']}: {found['fault']}. Figures may be missing.",
    "script-not-watched": lambda found: (
        "The script was not watched: its process left no records. Standard error says why."
    ),
    "span-not-found": lambda found: (
        f"--span {found['span']} matched nothing: the script's process has no such {found['lacks']}. Functions of the "
        "script itself are `__main__:function`."
    ),
    "span-not-run": lambda found: (
        f"--span {found['span']} matched a function that did not run in a watched loop or in its workers, or only "
        "in a sampler, or an asynchronous generator."
    ),
    "not-drilled": lambda found: (
        f"Large rows could not be divided into lines: {found['problem']}. `--span module:function` times one function."
    ),
    "trace-not-written": lambda found: f"The trace was not written: {found['problem']}. {found['remedy']}.",
    "shared-memory-nearly-full": lambda found: (
        f"/dev/shm was filled to {size(found['used_bytes'])} of {size(found['size_bytes'])}. Give it more space "
        "(docker run --shm-size), or use fewer workers, a smaller prefetch_factor or smaller batches."
    ),
    "descriptors-nearly-used-up": lambda found: (
        f"The script had {found['open']:,} of {found['limit']:,} file descriptors open. Raise the limit (ulimit -n), "
        "or call torch.multiprocessing.set_sharing_strategy('file_system')."
    ),
    "oversubscribed": _oversubscribed,
    "bound-outgrew-memory": lambda found: "The batches of a window do not fit the memory that is free.",
    "bound-no-records": lambda found: "The records of the bound could not be written.",
    "bound-fault": lambda found: "A fault of pipebench ended the measurement of the bound.",
    "bound-ranks-apart": lambda found: (
        f"This is one of {found['ranks']} ranks, and they have no folder in common in which to agree on windows. Put "
        "pipebench in front: pipebench watch --bound --yes-discard-weights -- torchrun ... train.py."
    ),
    "bound-one-machine": lambda found: (
        f"The bound needs all ranks on one machine, and {found['here']} of {found['ranks']} are on this one."
    ),
    "bound-rank-silent": lambda found: (
        f"The ranks were not in step: rank {found['rank']} did not come to the first window within "
        f"{seconds(found['waited_s'])}."
    ),
    "bound-ranks-differ": lambda found: (
        "The ranks were not in step: at the first window, one had had more batches of its pass than another."
    ),
    "bound-rank-missing": lambda found: (
        f"The ranks were not in step: rank {found['rank']} of {found['ranks']} has no windows."
    ),
    "bound-rank-short": lambda found: (
        f"The ranks were not in step to the end: rank {found['rank']} had {found['windows']} of {found['of']} windows."
    ),
    "bound-not-in-step": lambda found: (
        f"The ranks were not in step in {found['windows']} of {found['of']} windows, which were left out: one had them "
        "at another time, or at another rate."
    ),
    "bound-not-on-device": lambda found: (
        "Nothing was replayed from the device's memory, because a window does not fit there."
    ),
    "bound-no-device": lambda found: (
        "Nothing was replayed from a device's memory, because it was not known which device trains."
    ),
    "bound-stayed-on-host": lambda found: (
        "In some windows nothing was replayed from the device's memory, because the script copied no tensor of a batch "
        f"there as it came.{_CHANGED}"
    ),
    "bound-partly-on-host": lambda found: (
        f"In the windows from the device's memory, {percent(found['share'])} of a batch's bytes stayed on the host: "
        f"the script does not copy these tensors to the device as they came.{_CHANGED}"
    ),
    "bound-no-window": lambda found: f"Windows of batches of {size(found['batch_bytes'])} do not fit: {_left(found)}.",
    "bound-small-windows": lambda found: f"Windows have at most {found['batches']} batches: {_left(found)}.",
    "bound-few-steps": lambda found: (
        f"--steps {found['steps']} is too few for one round of windows: it takes at least {found['needed']}."
    ),
    "bound-bursts": lambda found: (
        f"Windows have {found['batches']} batches, but they come in bursts of {found['workers']}, one from each worker."
    ),
    "no-training-loop": lambda found: "No loop over a DataLoader trained a model, so there was nothing to replay.",
    "passes-too-short": lambda found: (
        "No window had an iteration that counts: passes are so short that all of each is start-up. Use more data."
    ),
    "ended-early": _ended_early,
    "long-iterations": lambda found: (
        f"{counted(found['count'], 'iteration')}{_over(found)}{_besides_first(found)} took {seconds(found['s'])} "
        f"besides waiting, most of it {found['phase']}, and others {seconds(found['usual_s'])} (the median): means "
        "hold this, medians do not."
    ),
    "compiled-once": lambda found: (
        f"torch.compile took about {seconds(found['s'])} of the loop{_over(found)}, in a few iterations: once, if no "
        "inputs of other sizes come."
    ),
    "unsplit-batches": lambda found: (
        f"The rows of samples were timed in {found['split']:,} of {found['batches']:,} batches{_over(found)}, because "
        "samples are so short. In the others, their time is divided in the same proportions."
    ),
    "round-void": lambda found: (
        "A round was left out: the script changes its batches in place, and in that round copies of them came too late."
    ),
    "cache-swept": lambda found: (
        f"The batches of a window ({size(found['window_bytes'])}) are smaller than 1.2 times the last-level cache "
        f"({size(found['cache_bytes'])}). So before each replay as much other memory was written, to empty the cache."
    ),
    "cache-unknown": lambda found: (
        "The size of the last-level cache is unknown. Replayed batches may still have been in the cache, which makes "
        "replays look faster."
    ),
}


def _over(found: Values) -> str:
    return f" over loader {found['loader']}" if found["loader"] else ""


def _besides_first(found: Values) -> str:
    """The very first iteration, if it was as long: it is none of those that are counted."""
    return f" (besides the first one, of {seconds(found['first_s'])})" if "first_s" in found else ""


def _first_hidden(found: Values) -> str:
    at = f" at {found['sample']}" if "sample" in found else ""
    return f"The first{at}: {str(found['problem']).rstrip('.')}."


def _batches(found: Values) -> str:
    return counted(found["batches"], "batch", "batches")
