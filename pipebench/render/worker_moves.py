"""Says how many workers a loader should have, what they are predicted to bring, and why they are no step. Pure."""

from __future__ import annotations

from pipebench.render.cells import spoken
from pipebench.render.frameworks import setting
from pipebench.results.next_move import Lacking, NextMove
from pipebench.units import counted, percent, seconds

SOME_CORES = 0.05  # fewer are not mentioned
MANY_CORES = 0.25  # more workers get a larger share of the cores that others use
_WORTH = 1.05  # a smaller speed-up hardly helps
_ALWAYS = 0.9  # of the time: workers that are busy for so long never rest
DIVIDE = (
    " First let each worker give its own part: nothing in the dataset's code asks for the worker (get_worker_info), so "
    "each would give all samples."
)

OPEN_FIRST = (
    "first let each worker open the file or connection itself (in its first __getitem__, not in __init__): samples are "
    "read from one that is open before workers start, and forked workers would share it. Then "
)


def _first_workers(move: NextMove) -> str:
    to = f"to {move.to_workers}" if move.to_workers else "to 1 or more"
    return (
        f"set {_num_workers(move)} {to}{_besides(move)}{_if_divisible(move)}. Now loading and the "
        f"loop's own work take turns, and {move.usable_cores:g} cores are usable.{_foreseen(move)}"
    )


def besides(made_by: str, lives_on: bool, threads: str) -> str:
    """What is set with first workers: that they live on, and fewer `threads` of torch ("": these stay)."""
    alive = [setting("persistent_workers=True", made_by)] if lives_on else []
    found = [*alive, *([f"torch.set_num_threads({threads}) in the script"] if threads else [])]
    return f", with {' and '.join(found)}" if found else ""


def _besides(move: NextMove) -> str:
    return besides(move.made_by, move.lives_on, str(move.torch_threads or ""))


def _more_workers(move: NextMove) -> str:
    to = f"from {move.workers} to {move.to_workers}" if move.to_workers else f"above {move.workers}"
    always = move.workers_busy is None or move.workers_busy >= _ALWAYS
    busy = "always busy" if always else f"busy {percent(move.workers_busy or 0.0)} of the time"
    return (
        f"raise {_num_workers(move)} {to}{_if_divisible(move)}. The workers are {busy}. Of "
        f"{move.usable_cores:g} usable core{'' if move.usable_cores == 1 else 's'}, {_uses(move)}.{_foreseen(move)}"
    )


def _num_workers(move: NextMove) -> str:
    """The setting, and of which loader where the script has several."""
    of = "" if move.of_loader is None else f" of loader {move.of_loader}"
    return f"{setting('num_workers', move.made_by)}{of}"


def _for_thread(move: NextMove) -> str:
    return (
        f"set {_num_workers(move)} to {move.to_workers} or more. Now one thread beside the loop "
        f"makes all batches, on {move.usable_cores:g} usable cores."
    )


OF_WORKERS = {
    "set-num-workers": _first_workers, "raise-num-workers": _more_workers, "workers-for-thread": _for_thread,
}  # fmt: skip


def shortly(move: NextMove) -> str:
    """More workers, in a few words ("": this is no such move)."""
    if move.action not in OF_WORKERS:
        return ""
    change = f"set {_num_workers(move)} to {move.to_workers or f'more than {move.workers}'}"
    change += _besides(move)
    divide = DIVIDE if move.undivided and move.to_workers != 1 else ""
    if move.fair is None:
        return f"{change}{_if_divisible(move)}.{divide}"
    quiet = " without other processes" if _quiet(move) else ""
    taken = ", and part of it would be taken from other processes" if _takes(move) else ""
    foreseen = f"predicted{quiet}: {spoken(move.fair)} as fast{_of_passes(move)}; {_not_tried(move)}{taken}"
    return f"{change}{_if_divisible(move)} ({foreseen}).{divide}"


def _if_divisible(move: NextMove) -> str:
    """What more workers of a stream need, if it does not say its parts."""
    if move.shards != 0 or move.undivided or max(move.workers, move.to_workers or 0) < 2:
        return ""
    parts = f"at least {move.to_workers}" if move.to_workers else "as many"
    return f", if its stream has {parts} parts (files, shards) and divides them among the workers"


def _foreseen(move: NextMove) -> str:
    if move.fair is None:
        return ""
    where = " Without other processes, the loop is" if _quiet(move) else " The loop is"
    said, alone = [], _alone(move)
    if move.alone is not None and move.fair.speedup < _WORTH <= move.alone.speedup:
        where = " Without the other processes, the loop is"
        said.append(f"{where} predicted to be {spoken(move.alone)} as fast{_of_passes(move)}, and beside them ")
        said.append(f"{spoken(move.fair)}; {_not_tried(move)}.")
        alone = ""
    else:
        said.append(f"{where} predicted to be {spoken(move.fair)} as fast{_of_passes(move)}; {_not_tried(move)}.")
    if move.workers and _wanted(move) < move.workers / 2:
        said.append(" The workers mostly wait: this assumes that what they wait for serves more of them, too.")
    if _quiet(move):
        said.append(" What it may gain more beside them would be taken from them.")
    elif _takes(move):
        said.append(" Part of that would be taken from other processes.")
    return "".join(said) + alone


def _takes(move: NextMove) -> bool:
    """Whether a part of what is predicted would be taken from other processes."""
    return (move.foreign_cores or 0.0) >= MANY_CORES and _wanted(move) >= MANY_CORES and not _quiet(move)


def _wanted(move: NextMove) -> float:
    """The cores that the workers use, and those that they want and do not get."""
    return (move.cores_used or 0.0) + move.wanted_cores


def _quiet(move: NextMove) -> bool:
    """Whether the prediction that counts is of a machine without other processes."""
    return move.alone is not None and move.fair is move.alone


def _of_passes(move: NextMove) -> str:
    if move.pass_batches is None:
        return ""
    return f" in passes of {counted(move.pass_batches, 'batch', 'batches')}, without the start of workers"


def _not_tried(move: NextMove) -> str:
    return "this was not tried, and such figures were not verified on a GPU" if move.on_device else "this was not tried"


OWN_PROCESSES = "Its dataset starts processes of its own, which a worker may not: more of these may help (not tried)."
# what one more worker would have too little of -> the sentence
_LACKING: dict[Lacking, str] = {
    "shards": "{workers} would get no samples: its stream has {shards}.",
    "batches": "{workers} would have no batch to make: a pass has no more batches than workers.",
    "shared-memory": "/dev/shm has no room for the batches of more workers.",
    "descriptors": "The script may not open as many files as the batches of more workers need.",
    "memory": "{workers} would take more than half of the free memory.",
    "starts": "{workers} would take longer to start than they save in a pass.",
    "processes": OWN_PROCESSES,
}


def why_no_worker(move: NextMove) -> str:
    """Why a cheaper stage is the move, and not more workers."""
    if move.lacks is not None:
        workers = "More workers" if move.workers else "Workers"
        return _LACKING[move.lacks].format(workers=workers, shards=counted(move.shards or 0, "shard"))
    if move.hand_off_s is not None:
        return (
            f"Workers would hardly help: a batch is made in {seconds(move.batch_s or 0.0)}, and to hand one over from "
            f"a worker takes about {seconds(move.hand_off_s)}."
        )
    if move.fair is None:
        return f"No whole core is free: of {move.usable_cores:g}, {_uses(move)}."
    quiet = " without other processes" if _quiet(move) else ""
    tried = f"({move.to_workers}: predicted {spoken(move.fair)}{quiet}, not tried)"
    if not move.workers:
        help_ = "are not certain to help" if move.fair.high >= _WORTH else "would hardly help"
        return f"Workers {help_} {tried}."
    help_ = "are not certain to help" if move.fair.speedup >= _WORTH else "would hardly help"
    return f"More workers {help_} {tried}. Of {_cores(move)}, {_uses(move)}.{_alone(move)}"


def _alone(move: NextMove) -> str:
    """What the prediction would be without the others, if that is not the one that was told."""
    return "" if move.alone is None or _quiet(move) else f" Without the other processes: {spoken(move.alone)}."


def _cores(move: NextMove) -> str:
    return f"{move.usable_cores:g} core{'' if move.usable_cores == 1 else 's'}"


def _uses(move: NextMove) -> str:
    """Who keeps the cores busy."""
    wanted = f" and wait for {move.wanted_cores:.1f} more" if move.wanted_cores >= MANY_CORES else ""
    used = [f"the workers use {move.cores_used or 0.0:.1f}{wanted}"] if move.workers else []
    own = "the script's own process" if move.workers else "the script's own process uses"
    used.append("the loop one" if move.script_cores is None else f"{own} {move.script_cores:.1f}")
    if move.sibling_cores >= SOME_CORES:
        used.append(f"other ranks of the job {move.sibling_cores:.1f}")
    if move.foreign_cores is not None and move.foreign_cores >= SOME_CORES:
        used.append(f"other processes {move.foreign_cores:.1f}")
    return " and ".join([", ".join(used[:-1]), used[-1]] if used[1:] else used)
