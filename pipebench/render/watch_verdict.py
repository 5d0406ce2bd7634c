"""Turns the verdict of a watched run, and the next move, into sentences. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable

from pipebench.render.run_moves import IN_WORKERS, OF_RUN, at, cheaper_hand_off, fewer_tensors, left_out
from pipebench.render.started import fitting
from pipebench.render.worker_moves import DIVIDE, OF_WORKERS, OPEN_FIRST, shortly, why_no_worker
from pipebench.results.beginning import beginning
from pipebench.results.drilled import DrilledLine
from pipebench.results.next_move import NextMove
from pipebench.results.watched import ONE_OF_RANKS, Verdict, WatchResult
from pipebench.units import code_place, counted, did_needlessly, percent, printable, read_anew, seconds

_OWN_STAGES = ("read", "decode", "transform", "collate", "video")  # kinds of stages that `pipebench run` measures, too


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
        return (
            f"There is no loader {found.loader}, which --loader asks for: the script iterated {iterated}. They are "
            "numbered from 1, in the order of first use."
        )
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
    made = f", {code_place(file, line)}" if file else ""
    return f"loader {number} ({printable(dataset)}{made})"


def _of(found: Verdict) -> str:
    return loader(found.loader, found.dataset, found.file, found.line)


def _which(found: Verdict) -> str:
    """Names the loader of the verdict, if the script has several."""
    if found.of_all and found.dataset:
        return f"The largest part of that is for {_of(found)}. "
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
    if found.wait_share:
        return (
            f"The training loop waits before the model for {percent(found.wait_share)} of each iteration. Whether it "
            f"waits for {_of(found)} is not known: that is iterated in a background thread, and the way of its batches "
            "to the training loop was not seen."
        )
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


def next_move(move: NextMove | None) -> str | None:
    """The change that the figures support; None if they support no change."""
    if move is None:
        return None
    of_loop = move.action in _WHOLE
    if move.line_share is None or (of_loop and not move.title):
        return _first_move(move)
    first = _line_first(move, f"{percent(move.line_share)} of {_WHOLE.get(move.action, 'making samples')}")
    if move.action == "prepare-in-workers":
        return f"Next: {first} Or {(_first_move(move) or '').removeprefix('Next: ')}"
    if of_loop:
        return f"Next: {first}" + (f" Or {IN_WORKERS.format(move.to_workers)}." if move.to_workers else "")
    if move.action == "make-stage-cheaper":
        return f"Next: {first}" + ("" if move.title else f" {why_no_worker(move)}")
    if move.title and move.fair is not None and move.fair.low < 1:  # workers may make it slower
        return f"Next: {first}"
    workers = f"{OPEN_FIRST if move.kept_open else ''}{shortly(move)}" if shortly(move) else ""
    beside = workers or (_first_move(move) or "").removeprefix("Next: ")
    return f"Next: {first} Or {beside}"


def _line_first(move: NextMove, share: str) -> str:
    """What to do with the line that comes before the move itself."""
    if move.title:
        return known_line(move, share)
    told = ", ".join(one for one in (printable(move.function), share, often(move)) if one)
    return f"make {code_place(move.file, move.line)} ({told}) cheaper."


# moves about lines of a loop itself -> what their share is of
_WHOLE = {
    "make-batches-cheaper": "making batches",
    "prepare-in-workers": "this work",
    "do-less-before": "what comes before the first loop",
    "less-python": "this work",
    "do-less-in-the-loop": "this work",
    "do-less-in-validation": "this work",
    "shorten-wait-part": "the sampler",
}


def _with_new_workers(move: NextMove) -> tuple[str, str]:
    """What is said before and after a move that brings workers besides, of what they would share or repeat."""
    new = move.action in _NEW_WORKERS and (not move.workers or (move.to_workers or 0) > move.workers)
    return OPEN_FIRST if new and move.kept_open else "", DIVIDE if new and move.undivided else ""


def often(found: DrilledLine | NextMove) -> str:
    """How often a line runs; "" if that is not known."""
    return found.runs.often if found.runs else ""


def known_line(found: DrilledLine | NextMove, share: str = "") -> str:
    """How to change a line that is known to be slow (0: what the dataset calls elsewhere)."""
    if isinstance(found, DrilledLine):
        found = found.to_change
    place = code_place(found.file, found.line) if found.line else "the dataset"
    place += " and lines like it" if isinstance(found, NextMove) and found.alike and found.line else ""
    told = ", ".join(one for one in (printable(found.function) if found.line else "", share, often(found)) if one)
    why = (did_needlessly(*found.needless.told),) if found.needless is not None else read_anew(found.reread)
    how = " ".join((*why, *found.how))
    return f"change {place}{f' ({told})' if told else ''} to {printable(found.title)}. {printable(how)}"


def _first_move(move: NextMove) -> str | None:
    if move.wait_part in _WAIT_PARTS:
        _, change = _WAIT_PARTS[move.wait_part]
        if move.tensors:
            change = "make batches faster to receive" + fewer_tensors(move)
        elif move.carried:
            change = left_out(move)
        return f"Next: {change}{at(move)}. Now this takes {seconds(move.wait_part_s or 0.0)} of each iteration."
    if move.action in OF_RUN:
        first, then = _with_new_workers(move)
        return f"Next: {first}{OF_RUN[move.action](move)}.{then}"
    if move.action in OF_WORKERS:
        divided = DIVIDE if move.undivided and move.to_workers != 1 else ""
        return f"Next: {OPEN_FIRST if move.kept_open else ''}{OF_WORKERS[move.action](move)}{divided}"
    if move.action == "make-hand-off-cheaper":
        return cheaper_hand_off(move)
    part = f"{seconds(move.stage_s or 0.0)} of the {seconds(move.sample_s or 0.0)} of a sample. {why_no_worker(move)}"
    if move.stage in _AT_ONCE and move.asks_for_each:
        return f"Next: {_AT_ONCE[move.stage]} {part}"
    return f"Next: make {printable(move.stage or '')} cheaper; it takes {part}"


_NEW_WORKERS = ("load-validation-faster", "prepare-in-workers")  # moves that may bring workers besides
# moves to which no command of ours adds anything
_KNOWN = (
    "keep-less", "vectorise", "less-python", "switch-off", "collect-less", "end-gradients", "divide-stream",
    "do-less-in-validation", "ask-length-once", "do-less-before", "fewer-operations",
    "compute-in-float32", "compute-what-counts", "keep-activations", "compile-less",
    "compute-once", "fill-first",
)  # fmt: skip
# a row of torch's own code for single samples -> how it takes a batch
_AT_ONCE = {
    "fetch": "let the dataset give the samples of a batch at once (__getitems__): to ask for each takes",
    "TensorDataset.__getitem__": (
        "give TensorDataset the indices of a batch at once: DataLoader(dataset, sampler=BatchSampler(sampler, "
        "batch_size, False), batch_size=None). One by one, they take"
    ),
}
# what `pipebench advise` tries on the running training
TRIED = {
    "set-num-workers", "raise-num-workers", "lower-num-workers", "make-stage-cheaper", "make-hand-off-cheaper",
    "keep-workers", "fewer-threads", "raise-prefetch-factor", "workers-for-thread", "fewer-torch-threads",
}  # fmt: skip


_WORTH_A_BOUND = 0.2  # of the loop, waits for batches: the bound says what training without them would gain
_TRIES_FROM_S = 20.0  # of the loops: `advise` watches for six seconds, and then tries some windows of seconds
_AFTER_DATA = ("backward", "optimiser")  # the largest phase of a loop: then data is not what to look for


def next_command(result: WatchResult, *, of_command: bool) -> str | None:
    """The command to run next, to learn more about what limits the loop. None if there is no such command.

    `of_command`: a whole command was watched, or a block of code, and not a script.
    """
    found = result.verdict
    own = fitting(result.started) if result.started else None if of_command else "train.py"  # a report may lack it
    if found.limit == "nothing-watched" and own and result.started and not (of_command or result.status or found.lacks):
        others = f"If it starts other programs: `pipebench watch -- python {own}` watches these, too."
        return None if own.startswith("--") else others
    if (rank := next((one.values for one in result.notes if one.code == ONE_OF_RANKS), None)) is not None:
        return f"This is rank {rank['rank']} of {rank['of']}. {_of_all_ranks(None if of_command else own)}"
    first = next(iter(result.account.causes), None) if result.account is not None else None
    told = first is not None and "line" in first.values  # where the time goes is known
    told = told or found.phase in _AFTER_DATA or (result.next_move is not None and result.next_move.line > 0)
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
    if move is not None and move.action in TRIED and own is not None and found.trains:
        return f"Then: `pipebench advise {own}` tries what helps while it trains.{_if_longer(result)}"
    if move is not None and move.stage_kind in _OWN_STAGES:
        return f"Then: `pipebench run --stage {move.stage_kind}` compares ways to do it on this machine."
    if not found.trains or (move is not None and (move.action in _KNOWN or move.title)):
        return None
    if found.limit == "training" and not _saw_device(result):
        return None
    if found.limit == "training":
        return "Then: `pipebench syncs MODULE:STEP` lists the lines where training waits for the device."
    worth = found.wait_share >= _WORTH_A_BOUND and not beginning(result).nothing
    if result.bound is None and worth and own is not None and not of_command:
        bound = f"`pipebench watch --bound --yes-discard-weights {own}`"
        return f"Then: {bound} measures how much faster training could be. It spoils the weights."
    return None


def _if_longer(result: WatchResult) -> str:
    """What is said where training was over before anything could have been tried."""
    loops_s = result.account.loops_s if result.account is not None else math.inf
    if loops_s >= _TRIES_FROM_S:
        return ""
    return f" For that, let it train for half a minute or more: here, the loops took {seconds(loops_s)}."


def _saw_device(result: WatchResult) -> bool:
    """Whether the training used a device, as far as it was seen: by CUDA's events, by copies, or by lines that wait."""
    if result.device_idle is not None:
        return True
    copies = any(one.phase == "host-to-device" and one.s_per_iteration for one in result.loop)
    causes = result.account.causes if result.account is not None else ()
    return copies or any(one.on_device or {"device_s", "even"} & set(one.values) for one in causes)
