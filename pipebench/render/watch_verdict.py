"""Turns the verdict of a watched run, and the next move, into sentences. Pure."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from pipebench.render.frameworks import made_anew, setting
from pipebench.render.in_loop import otherwise
from pipebench.render.started import fitting
from pipebench.render.watch_notes import tools
from pipebench.render.worker_moves import DIVIDE, OF_WORKERS, shortly, why_no_worker
from pipebench.results.next_move import NextMove
from pipebench.results.watched import ONE_OF_RANKS, Verdict, WatchResult
from pipebench.units import counted, percent, printable, seconds, size

_OWN_STAGES = ("read", "decode", "transform", "collate")  # the kinds of stages that `pipebench run` also measures


def verdict(found: Verdict) -> str:
    """What limits the loop, with the evidence."""
    if found.lacks:
        return not_recognised(found)
    if found.elsewhere:
        return (
            "This block watched nothing: its process was watched already when it began, by `pipebench watch` or by a "
            "block around it. That report holds what ran inside."
        )
    if found.limit == "nothing-watched":
        return "Nothing was watched: the script iterated no DataLoader, and no optimiser stepped in a loop without one."
    if found.limit == "no-such-loader":
        iterated = counted(found.loaders, "loader")
        return f"Nothing is shown: the script iterated {iterated}, and --loader asks for number {found.loader}."
    if found.limit in _UNJUDGED:
        return _UNJUDGED[found.limit](found)
    waits = (
        f"he {found.waits} waits for data {percent(found.wait_share)} of each iteration "
        f"({seconds(found.wait_s)} of {seconds(found.iteration_s)})"
    )
    if found.limit == "training":
        return f"{_of_training(found, waits)} {_which(found)}".strip()
    return f"T{waits}. {_which(found)}{_inside(found)}".strip()


def _of_training(found: Verdict, waits: str) -> str:
    share = percent(found.phase_share or 0.0)
    if found.phase == "prepare":
        return f"T{waits}. But it prepares batches itself, before the model: {share} of each iteration."
    phase = _PHASES.get(found.phase or "", found.phase)
    largest = f" Its largest phase is {phase}, {share}." if phase else ""
    return f"Data does not limit {'training' if found.trains else 'the loop'}: t{waits}.{largest}"


def not_recognised(found: Verdict) -> str:
    """Why nothing was watched: this torch lacks names that recording needs."""
    lacks = printable(", ".join(found.lacks))
    return (
        f"Nothing was watched: torch {printable(found.torch)} has no {lacks}, which recording needs. The script ran as "
        "without pipebench; a newer pipebench may know this torch."
    )


def loader(number: int | None, dataset: str, file: str, line: int) -> str:
    """A loader as its reader knows it: by the class of its dataset, and by the line that makes it."""
    made = f", {printable(os.path.basename(file))}:{line}" if file else ""
    return f"loader {number} ({printable(dataset)}{made})"


def _of(found: Verdict) -> str:
    return loader(found.loader, found.dataset, found.file, found.line)


def _which(found: Verdict) -> str:
    """Names the loader of the verdict, if the script has several."""
    return f"This is {_of(found)}. " if found.loaders > 1 and found.dataset else ""


def _no_iteration(found: Verdict) -> str:
    """What was seen of passes that had one batch at most, or no more than workers make as they start."""
    if found.warmup_iterations:
        seen = counted(found.warmup_iterations, "iteration")
        return f"There is nothing to judge: the loop made {seen}, all of them in the warm-up. Use a smaller --warmup."
    if not (found.batches or found.startup_s):
        return "There is nothing to judge: no iteration was completed."
    if not found.loader:
        return "There is nothing to judge: the optimiser stepped too few times."
    made = [f"{counted(found.batches, 'batch', 'batches')} of {counted(found.samples, 'sample')}"]
    if found.startup_s is not None:
        of = f" of each of {found.passes} passes" if found.passes > 1 else ""
        made.append(f"{seconds(found.startup_s)} of start-up up to the first batch{of}")
    if found.stage is not None:
        kind = "read + decode" if found.stage_includes_read else found.stage_kind
        share = percent(found.stage_share or 0.0)
        made.append(f"{share} of loading in {printable(found.stage)} ({printable(kind or '')})")
    why = "no pass had a second iteration, and a first one is start-up"
    if found.start_iterations:
        seen = counted(found.start_iterations, "iteration")
        why = f"the loop made {seen}, on batches that workers made as they started, while it waited for the first one"
    more = "Train on more batches in a pass." if found.start_iterations else "Train on more batches."
    return (
        f"There is nothing to judge yet: {why}. Seen of {_of(found)}: {'; '.join(made)}. "
        f"{_ONE_BATCH.get(found.single, more)}"
    )


# how passes of one batch each ended -> what to do about it, where more of them do not help
_ONE_BATCH: dict[str | None, str] = {
    "left": (
        "Each pass was left with its first batch, and each new iterator starts anew: keep one iterator for all steps "
        "(for batch in loader)."
    ),
    "whole": "One batch is the whole pass, so all waiting is start-up: with smaller batches a loop can be judged.",
}  # fmt: skip


def _no_loader(found: Verdict) -> str:
    phase = _PHASES.get(found.phase or "", found.phase)
    return (
        f"The training loop takes no batch from a DataLoader. An iteration, from one optimiser step to the next, takes "
        f"{seconds(found.iteration_s)}; its largest part is {phase}, {percent(found.phase_share or 0.0)}."
    )


def _not_followed(found: Verdict) -> str:
    return (
        f"Whether training waits for data is not known: {_of(found)} is iterated in a background thread, and the way "
        "of its batches to the training loop was not seen."
    )


_UNJUDGED: dict[str, Callable[[Verdict], str]] = {
    "no-iteration": _no_iteration, "no-loader": _no_loader, "not-followed": _not_followed,
}  # fmt: skip
_PHASES = {"before-backward": "what comes before backward (data and forward)", "spans": "the functions of --span",
           "prepare": "preparing batches"}  # fmt: skip


# part of the wait -> what it is, and what its change would be
_WAIT_PARTS = {
    "sampler": ("the sampler or batch sampler", "make the sampler faster"),
    "send-indices": ("sending indices to the workers", "make indices faster to send"),
    "receive": ("receiving and unpickling batches", "make batches faster to receive and unpickle"),
    "pin": ("copying batches into pinned memory", "make batches faster to pin"),
}


def _inside(found: Verdict) -> str:
    if found.wait_part in _WAIT_PARTS:
        what, _ = _WAIT_PARTS[found.wait_part]
        share = percent(found.wait_part_share or 0.0)
        return f"{share} of the wait is {what}, in the script's own process. More workers do not change that."
    workers = counted(found.workers, "worker")
    if found.wait_part == "receive-without-core":
        return (
            f"{percent(found.wait_part_share or 0.0)} of the wait is receiving and unpickling batches for longer than "
            f"their size explains: hardly a core is idle. Its {workers} mostly rest{'s' if found.workers == 1 else ''}."
        )
    if found.hand_off_s is not None and found.batch_s is not None:
        return (
            f"Its {workers} {'takes' if found.workers == 1 else 'take'} longer to hand a batch over than to make it: "
            f"the feeder thread of a worker pickles for {seconds(found.hand_off_s)}, and making the batch takes "
            f"{seconds(found.batch_s)}. Both run side by side."
        )
    are = "is" if found.workers == 1 else "are"
    if not found.inside_watched:
        return f"Its {workers} {'was' if found.workers == 1 else 'were'} not watched, so their stages are unknown."
    if found.stage is None:
        return ""
    kind = "read + decode" if found.stage_includes_read else found.stage_kind
    largest = f"is {printable(found.stage)} ({printable(kind or '')})."
    share = percent(found.stage_share or 0.0)
    if not found.workers:
        where = "in a thread beside" if found.by_thread else "inside"
        return f"It has no workers, so loading runs {where} the loop; {share} of loading {largest}"
    if found.workers_busy is None:
        return f"{share} of the time in its {workers} {largest}"
    return f"Its {workers} {are} busy {percent(found.workers_busy)} of the time; {share} of that {largest}"


def _at(move: NextMove) -> str:
    """What a move is about, in the user's own code."""
    where = [f"{os.path.basename(move.file)}:{move.line}"] if move.line else []
    told = ", ".join([*([move.function] if move.function else []), *where])
    return f" ({printable(told)})" if told else ""


def _loader_at(move: NextMove) -> str:
    where = f", {os.path.basename(move.file)}:{move.line}" if move.line else ""
    return printable(f"loader {move.loader}{where}")


_OF_RUN: dict[str, Callable[[NextMove], str]] = {
    "keep-workers": lambda move: (
        f"make loader {move.loader}{_at(move)} once, before the epochs, with persistent_workers=True"
        + made_anew(move.called_by)
        + (", if its datasets hold the same samples" if move.remade == "alike" else "")
        if move.again and not move.made_by
        else f"set {setting('persistent_workers=True', move.made_by)} for loader {move.loader}{_at(move)}"
    ),
    "make-dataset-once": lambda move: f"make the dataset of loader {move.loader} once, before the epochs{_at(move)}",
    "read-without-lock": lambda move: (
        f"let the workers of loader {move.loader} work without the lock they share{_at(move)}: each with a file or a "
        "connection of its own, and what needs no lock, such as decoding, outside of it. More workers would wait there"
    ),
    "no-workers": lambda move: (
        f"set {setting('num_workers', move.made_by)} to 0 for loader {move.loader}. It is made anew for other data, so "
        "its workers cannot live on, and the loop waits for them for longer than its batches take to make"
    ),
    "keep-iterator": lambda move: (
        f"keep one iterator over loader {move.loader} for all steps: make it before the loop, take next() of it in "
        "each step, and make a new one when it ends"
    ),
    "load-validation-faster": lambda move: (
        f"load the batches of the loops that do not train ({_loader_at(move)}) faster, "
        f"{'with more workers or a cheaper stage' if move.workers else 'with workers'}"
    ),
    "validate-in-larger-batches": lambda move: (
        f"raise {setting('batch_size', move.made_by)} for the loops that do not train ({_loader_at(move)}), as far as "
        "the memory allows"
    ),
    "do-less-in-the-loop": lambda move: (
        f"do the work besides training{_at(move)} less often, or {otherwise(move.rests)}. Now it takes "
        f"{seconds(move.took_s or 0.0)} of the run"
    ),
    "keep-less": lambda move: (
        "find what the loop keeps from one iteration to the next, and detach it or drop it: a hidden state or a loss "
        "with its graph, a list of outputs, a hook that is registered again"
    ),
    "keep-outputs": lambda move: (
        "if the inputs of the frozen module are the same in each pass, compute its outputs once, before training or "
        "when the dataset first makes a sample, and train on these"
    ),
    "end-gradients": lambda move: (
        "before the loop, set requires_grad_(False) on all weights that no optimiser holds (one that is left keeps the "
        "backward going down to it), or run these modules under torch.no_grad()"
    ),
    "free-the-interpreter": lambda move: (
        "let the thread block where it waits, in get() or put() of a queue.Queue, in an Event or a Condition, or sleep "
        "in its polling loop. If it computes in Python, move that into a process, such as a worker of a DataLoader"
    ),
    "validate-less-often": lambda move: (
        f"validate less often: the loops that do not train (loader {move.loader}) took {seconds(move.took_s or 0.0)}"
    ),
    "larger-batches": lambda move: (
        f"make the batches of loader {move.loader} larger, as far as the memory allows, and accumulate fewer of them: "
        "a step of the optimiser takes as many samples as now"
    ),
    "collect-less": lambda move: (
        f"call gc.collect() less often, such as once between passes{_at(move)}"
        if move.line
        else "call gc.freeze() once before the loop: what the script made until then is not searched again"
    ),
    "switch-off": lambda move: f"switch off {tools(move.setting or '')} for training, and watch again",
    "vectorise": lambda move: (
        "do in tensor operations what Python loops do between the model and backward; or in the workers of loader "
        f"{move.loader}, as far as it needs no output of the model"
    ),
    "less-python": lambda move: (
        f"do the Python work before backward{_at(move)} less often, or in one operation on a tensor or an array that "
        f"is kept. Such work takes about {seconds(move.took_s or 0.0)} of the run"
    ),
    "prepare-in-workers": lambda move: (
        f"do the work on batches before the model in the workers of loader {move.loader}: in its dataset, or in "
        "collate_fn" + (f", with {setting('num_workers', move.made_by, move.to_workers)}" if move.to_workers else "")
    ),
    "pad-to-longest": lambda move: (
        f"pad each batch of loader {move.loader} to its longest sample (in collate_fn), not to a fixed length"
    ),
    "batch-by-length": lambda move: (
        f"let a batch of loader {move.loader} have samples of about the same length: by a batch_sampler, with the "
        "batches in random order"
    ),
    "divide-first": lambda move: (
        f"let each worker of loader {move.loader} choose its part before it decodes and transforms: by "
        "get_worker_info(), among the files or the raw samples"
    ),
    "use-all-cores": lambda move: (
        f"let the workers of loader {move.loader} use all cores: something sets their affinity "
        "(os.sched_setaffinity in worker_init_fn or in a library; GOMP_CPU_AFFINITY, KMP_AFFINITY)"
    ),
    "fewer-threads": lambda move: (
        f"allow each worker of loader {move.loader} one thread{f': {printable(move.setting)}' if move.setting else ''}"
    ),
    "spread-evenly": lambda move: (
        f"spread the work evenly over the {move.workers} workers of loader {move.loader}: shuffle the data, or split "
        "it evenly"
    ),
    "lower-num-workers": lambda move: f"lower {setting('num_workers', move.made_by)} of loader {move.loader}",
    "raise-prefetch-factor": lambda move: f"raise {setting('prefetch_factor', move.made_by)} of loader {move.loader}",
    "any-order": lambda move: (
        f"try in_order=False (torch 2.6 and later) for loader {move.loader}: the order of batches then varies"
    ),
}


def next_move(move: NextMove | None) -> str | None:
    """The change that the figures support; None if they support no change."""
    if move is None:
        return None
    if not move.title:
        return _first_move(move)
    share = f"{percent(move.line_share or 0.0)} of making samples"
    first = known_line(move.function, move.file, move.line, move.title, move.how, share)
    if move.action == "make-stage-cheaper":
        return f"Next: {first}"
    beside = shortly(move) or (_first_move(move) or "").removeprefix("Next: ")
    return f"Next: {first} Or {beside}"


def known_line(function: str, file: str, line: int, title: str, how: Sequence[str], share: str = "") -> str:
    """What is written in place of a line that is known to be slow (0: of what the dataset calls elsewhere)."""
    place = f"{printable(os.path.basename(file))}:{line}" if line else "the dataset"
    told = ", ".join(one for one in (printable(function) if line else "", share) if one)
    return f"in {place}{f' ({told})' if told else ''}: {printable(title)}. {printable(' '.join(how))}"


def _first_move(move: NextMove) -> str | None:
    if move.wait_part in _WAIT_PARTS:
        _, change = _WAIT_PARTS[move.wait_part]
        change = "make batches faster to receive" + _fewer_tensors(move) if move.tensors else change
        return f"Next: {change}{_at(move)}. Now this takes {seconds(move.wait_part_s or 0.0)} of each iteration."
    if move.action in _OF_RUN:
        return f"Next: {_OF_RUN[move.action](move)}."
    if move.action in OF_WORKERS:
        return f"Next: {OF_WORKERS[move.action](move)}{DIVIDE if move.undivided and move.to_workers != 1 else ''}"
    if move.action == "make-hand-off-cheaper":
        return _cheaper_hand_off(move)
    return (
        f"Next: make {printable(move.stage or '')} cheaper; it takes {seconds(move.stage_s or 0.0)} of the "
        f"{seconds(move.sample_s or 0.0)} of a sample. {why_no_worker(move)}"
    )


def _cheaper_hand_off(move: NextMove) -> str:
    if move.viewed_bytes:
        return (
            f"Next: let batches hold copies instead of views (`tensor.clone()`): {size(move.viewed_bytes)} that belong "
            "to no tensor of a batch cross with its views."
        )
    sent = size(move.pipe_bytes or 0.0)
    if move.array_bytes is not None and move.array_bytes > (move.pipe_bytes or 0.0) / 2:
        return (
            f"Next: let batches hold tensors instead of NumPy arrays (`torch.from_numpy` copies nothing). {sent} of a "
            "batch go through the pipe; tensors travel in shared memory."
        )
    if move.tensors:
        return f"Next: make batches cheaper to pickle{_fewer_tensors(move)}."
    return (
        f"Next: make batches cheaper to pickle, with fewer or plainer objects. {sent} of a batch go through the pipe."
    )


def _fewer_tensors(move: NextMove) -> str:
    return (
        f", with a few tensors in place of {move.tensors:,.0f}: torch.stack or torch.cat in collate_fn, with lengths "
        "or offsets where they differ. Or hand over NumPy arrays or lists, which cross together"
    )


# moves to which no command of ours adds anything
_KNOWN = ("keep-less", "vectorise", "less-python", "switch-off", "collect-less", "end-gradients")
# what `pipebench advise` tries on the running training
_TRIED = {
    "set-num-workers", "raise-num-workers", "lower-num-workers", "make-stage-cheaper", "make-hand-off-cheaper",
    "keep-workers", "fewer-threads", "raise-prefetch-factor", "workers-for-thread",
}  # fmt: skip


def next_command(result: WatchResult, *, of_command: bool) -> str | None:
    """The command to run next, to learn more about what limits the loop. None if there is no such command.

    `of_command`: a whole command was watched, or a block of code, and not a script.
    """
    found = result.verdict
    own = fitting(result.started) if result.started else None if of_command else "train.py"  # a report may lack it
    if found.limit == "nothing-watched" and own and result.started and not (of_command or result.status or found.lacks):
        return None if own.startswith("--") else f"Then: `pipebench watch -- python {own}` watches what it starts, too."
    if (rank := next((one.values for one in result.notes if one.code == ONE_OF_RANKS), None)) is not None:
        return f"This is rank {rank['rank']} of {rank['of']}. {_of_all_ranks(None if of_command else own)}"
    first = next(iter(result.account.causes), None) if result.account is not None else None
    told = first is not None and "line" in first.values  # where the time goes is known
    if found.limit in ("no-loader", "not-followed") and not (result.spans or found.phase == "prepare" or told):
        return own and (
            f"Then: `pipebench watch --span __main__:FUNCTION {own}`, with the function that gives the loop a batch, "
            "shows its share."
        )
    return _of_judged(result, own, of_command) if found.limit in ("data", "training") else None


def _of_all_ranks(own: str | None) -> str:
    """The command that compares all ranks. `own` is the script of this one (None: a command or a block was watched)."""
    if own is None:
        return "`pipebench show --merge FOLDER` compares the reports that `pipebench watch --out FOLDER` saves of all."
    return (
        "`pipebench watch -- COMMAND` compares all of them, with the command that starts them, such as "
        f"`python {own}` or `torchrun ... {own}`."
    )


def _of_judged(result: WatchResult, own: str | None, of_command: bool) -> str | None:
    """The next command for a loop whose data were judged. What is tried or replayed needs a loop that trains."""
    found, move = result.verdict, result.next_move
    if move is not None and move.action in _TRIED and own is not None and found.trains:
        return f"Then: `pipebench advise {own}` tries what helps while it trains."
    if move is not None and move.stage_kind in _OWN_STAGES:
        return f"Then: `pipebench run --stage {move.stage_kind}` compares ways to do it on this machine."
    if not found.trains or (move is not None and move.action in _KNOWN):
        return None
    if found.limit == "training" and not _saw_device(result):
        return None
    if found.limit == "training":
        return "Then: `pipebench syncs MODULE:STEP` lists the lines where training waits for the device."
    if result.bound is None and not of_command and own is not None:
        bound = f"`pipebench watch --bound --yes-discard-weights {own}`"
        return f"Then: {bound} measures how much faster training could be. It spoils the weights."
    return None


def _saw_device(result: WatchResult) -> bool:
    """Whether the training used a device, as far as it was seen: by CUDA's events, by copies, or by lines that wait."""
    if result.device_idle is not None:
        return True
    copies = any(one.phase == "host-to-device" and one.s_per_iteration for one in result.loop)
    causes = result.account.causes if result.account is not None else ()
    return copies or any(one.on_device or {"device_s", "even"} & set(one.values) for one in causes)
