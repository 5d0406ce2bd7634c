"""Renders where a whole run went: a sentence for each large cause, and a table with bars. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pipebench.render import in_loop
from pipebench.render.cells import Table
from pipebench.render.frameworks import setting
from pipebench.render.layout import Line, Part
from pipebench.results.account import Account, AccountRow, Cause
from pipebench.results.verdicts import beginning
from pipebench.results.watched import WatchResult
from pipebench.units import counted, percent, printable, seconds, seconds_scale, size

_BAR = 16  # columns
_ROWS = 5
_SMALLEST = 0.01  # of the run; smaller rows are shown as one
_GROWTH = "memory-growth"
_SYNCS = "sync-points"

# the rows of the short table, each with the codes of an account that it holds
SHORT = (
    ("before the first loop", ("interpreter", "before-loops")),
    ("start-up of passes", ("start-up",)),
    ("sampler", ("sampler", "send-indices")),
    ("waiting for batches", ("wait-for-worker", "make-batch", "after-loader", "next")),
    ("receiving, unpickling", ("receive", "unpickle")),
    ("pinning", ("pin",)),
    ("host to device", ("host-to-device",)),
    ("functions of --span", ("spans",)),
    ("data and forward", ("before-backward",)),
    ("forward and backward", ("forward", "backward")),
    ("optimiser", ("optimiser",)),
    ("other in the loop", ("other",)),
    ("pipebench itself", ("recording",)),
    ("end of passes", ("end-of-pass",)),
    ("validation loops", ("validation",)),
    ("between loops", ("outside-loops",)),
    ("after the last loop", ("after-loops", "exit")),
    ("not recorded", ("not-recorded",)),
)

# the parts of a wait, by their codes
WAIT = {
    "sampler": "sampler",
    "send-indices": "sending indices",
    "wait-for-worker": "no batch was there",
    "receive": "receiving bytes",
    "unpickle": "unpickling",
    "pin": "pinning",
    "after-loader": "stages after the loader",
}
LONG = {
    **WAIT,
    "interpreter": "interpreter, recording",
    "before-loops": "before the first loop",
    "start-up": "start-up, first batches",
    "make-batch": "making batches",
    "next": "the rest of next()",
    "host-to-device": "host to device",
    "spans": "functions of --span",
    "before-backward": "data and forward",
    "other": "other in the loop",
    "recording": "pipebench itself",
    "end-of-pass": "end of passes",
    "validation": "validation loops",
    "outside-loops": "between loops",
    "after-loops": "after the last loop",
    "exit": "exit of the process",
    "not-recorded": "not recorded",
}


def causes(result: WatchResult) -> list[Part]:
    """The sentences about the run as a whole, the largest cause first; none if the verdict on the loop comes first."""
    account, begins = result.account, beginning(result)
    if account is None:
        return []
    said = [_nothing(account)] if begins.nothing else []
    said += [_sentence(one, account) for one in begins.causes if one.code in _SENTENCES]
    return [Line(said[0], "bold"), *said[1:]] if said else []


def _not_recorded_s(account: Account) -> float:
    """What no record covers of the run; 0 if that is next to nothing."""
    lost = sum(one.s for one in account.rows if one.code == "not-recorded")
    return lost if lost >= _SMALLEST * account.wall_s else 0.0


def _nothing(account: Account) -> str:
    lost = _not_recorded_s(account)
    what, part = ("that was recorded ", f", of which {seconds(lost)} were not recorded") if lost else ("", "")
    return f"Nothing {what}in the loops of this run, {seconds(account.wall_s)} long{part}, is worth a change."


def _sentence(one: Cause, account: Account) -> str:
    lost = _not_recorded_s(account)
    of, whole = ("recorded", account.wall_s - lost) if lost else ("run's", account.wall_s)
    part = f"{seconds(one.s)} of the {of} {seconds(whole)} ({percent(one.s / whole)})"
    unsure = " Other causes of the same time are possible." if one.unsure and "even" not in one.values else ""
    device = " Not verified on a GPU." if one.on_device else ""
    return printable(f"{_SENTENCES[one.code](one, one.values, part)}{unsure}{device}")


def _at_most(one: Cause, change: str) -> str:
    if not one.recoverable_s:
        return ""
    return f" {change} could save up to {seconds(one.recoverable_s)} (predicted, not tried)."


def _start_up(one: Cause, values: Any, part: str) -> str:
    how = f"{counted(values['workers'], 'worker')} ({values['start_method']})"
    passes = counted(values["passes"], "pass", "passes")
    inside = " (in validation)" if values["in_validation"] else ""
    its = "its" if values["workers"] == 1 else "their"
    began = f"Starting {how}, {its} first batches and {its} end took {part}: {passes} over loader {one.loader}{inside}."
    if values.get("again"):
        anew = f" The loader was made anew {counted(values['again'], 'time')}."
        return began + anew + _at_most(one, "Making it once, with persistent_workers=True,")
    return began + _at_most(one, setting("persistent_workers=True", values.get("made_by", "")))


def _validation(one: Cause, values: Any, part: str) -> str:
    waits = values.get("waits_s", 0.0)
    more = f" Up to {seconds(waits)} of that could be saved by faster loading (predicted, not tried)." if waits else ""
    passes = counted(values["passes"], "pass", "passes") if "passes" in values else "the passes"
    return f"Validation took {part}: {passes} over loader {one.loader}.{more}"


def _sampler(one: Cause, values: Any, part: str) -> str:
    per = f"{seconds(values['s_per_batch'])} a batch"
    return f"The sampler of loader {one.loader} took {part}, {per}, in the script's own process." + _at_most(
        one, "Indices made ahead of time"
    )


def _hand_off(one: Cause, values: Any, part: str) -> str:
    arrays = values["array_bytes_per_batch"]
    what = f"{size(arrays)} of NumPy arrays" if arrays else f"{size(values['pipe_bytes_per_batch'])} through the pipe"
    change = "Tensors in place of arrays" if arrays else "A cheaper hand-off"
    return f"Receiving and unpickling batches took {part}; a batch brings {what}." + _at_most(one, change)


def _stage_named(values: Any) -> str:
    if "stage" not in values:
        return ""
    kind = "read + decode" if values["includes_read"] else values["kind"]
    return f"; {percent(values['stage_share'])} of loading is {values['stage']} ({kind})"


def _no_workers(one: Cause, values: Any, part: str) -> str:
    return (
        f"Loader {one.loader} has no workers: making batches inside the loop took {part}{_stage_named(values)}."
        + _at_most(one, f"{setting('num_workers', values.get('made_by', ''))}=1 or more")
        + in_loop.shared(values)
    )


def _waits(one: Cause, part: str) -> str:
    parts = (("while receiving", "late_s"), ("for a core that they had", "core_s"))
    large = [(words, float(one.values.get(name, 0.0))) for words, name in parts]
    told = "".join(f", {seconds(s)} of it {words}" for words, s in large if s >= _SMALLEST * one.s > 0)
    return f"Waiting for the workers of loader {one.loader} took {part}{told}"


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
        f"{_waits(one, part)}. {what}: {_busy(values)}, of that "
        f"{percent(values['cpu_share'])} on a core{idle}{_stage_named(values)}."
        + (in_loop.shared(values) or _at_most(one, "More workers than cores"))
    )


def _storage(one: Cause, values: Any, part: str) -> str:
    rate = f", which gives {size(values['bytes_per_s'])}/s" if values.get("bytes_per_s") else ""
    return (
        f"{_waits(one, part)}. They wait for storage{rate}: {_busy(values)}, of that "
        f"{percent(values['cpu_share'])} on a core{_stage_named(values)}."
        + (in_loop.shared(values) or _at_most(one, "More workers than cores, or data in memory,"))
    )


def _growth(one: Cause, values: Any, part: str) -> str:
    each = f", {size(values['pass_bytes'])} a pass" if values.get("pass_bytes") else ""
    ends = "" if values["persistent"] else ", unless the pass ends before: then it begins anew"
    return (
        f"The memory of the workers of loader {one.loader} grows by {size(values['bytes_per_s'])}/s{each}. The free "
        f"{size(values['free_bytes'])} end in {seconds(values['lasts_s'])}{ends}."
    )


def _sync_points(one: Cause, values: Any, part: str) -> str:
    would = "makes" if values["device"] else "would make"
    took = f" They took {part}." if one.s else ""
    return (
        f"The loop {would} the host wait for the device {values['per_step']:g} times an iteration: "
        f"{values['operations']} in {values['places']}.{took}" + _at_most(one, "Fewer of them")
    )


def _stage(one: Cause, values: Any, part: str) -> str:
    """The stage is named by the sentence on the iteration, which follows."""
    return f"{_waits(one, part)}." + _at_most(one, "Faster loading")


def _pickling(one: Cause, values: Any, part: str) -> str:
    times = f"they make a batch in {seconds(values['make_s'])} and pickle it for {seconds(values['pickle_s'])}"
    return f"{_waits(one, part)}: {times}." + _at_most(one, "A cheaper hand-off")


def _threads(one: Cause, values: Any, part: str) -> str:
    return (
        f"{_waits(one, part)}: {counted(values['workers'], 'worker')} of {values['threads']} threads each compete for "
        f"{values['usable_cores']:g} cores." + _at_most(one, "One thread in each worker")
    )


def _cores(one: Cause, values: Any, part: str) -> str:
    return (
        f"{_waits(one, part)}: the workers use {values['cores_used']:.1f} cores and the script "
        f"{values['script_cores']:.1f}, of {values['usable_cores']:g}. Only cheaper loading helps, not more workers."
    )


def _compete(one: Cause, values: Any, part: str) -> str:
    return (
        f"The loop itself waited for a core: {part}. {counted(values['workers'], 'worker')} use "
        f"{values['cores_used']:.1f} of {values['usable_cores']:g} cores." + _at_most(one, "Fewer workers")
    )


def _head_of_line(one: Cause, values: Any, part: str) -> str:
    return (
        f"Slow batches held up later ones that were ready: {part}, in {percent(values['share'])} of the waits."
        + _at_most(one, "in_order=False")
    )


def _periodic(one: Cause, values: Any, part: str) -> str:
    workers = ", the number of workers" if values["period"] == values["workers"] else ""
    return (
        f"The loop stalls at every {_nth(values['period'])} batch{workers}: {part}. The workers "
        f"are busy only {percent(values['busy'])} of the time, so batches cost unevenly."
        + _at_most(one, "A larger prefetch_factor")
    )


def _uneven_workers(one: Cause, values: Any, part: str) -> str:
    rest = "other" if values["workers"] == 2 else "others"
    return (
        f"{_waits(one, part)}. Worker {values['worker']} has most of the work: it is busy "
        f"{percent(values['most_busy'])} of the time, and the {rest} {percent(values['others_busy'])}."
        + _at_most(one, "Work that is spread evenly (shuffled, or split evenly)")
    )


def _nth(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _training(one: Cause, values: Any, part: str) -> str:
    first = f" Its first iteration took {seconds(values['first_s'])} of that, once." if "first_s" in values else ""
    return f"Training itself took {part}, {in_loop.most_of_training(values)}.{first}"


_SENTENCES: dict[str, Callable[[Cause, Any, str], str]] = {
    "start-up": _start_up,
    "validation": _validation,
    "sampler": _sampler,
    "hand-off": _hand_off,
    "pin": lambda one, values, part: f"Copying batches into pinned memory took {part}.",
    "host-to-device": lambda one, values, part: (
        f"Copies from the host to the device took {part}." + _at_most(one, "Pinned batches and non_blocking=True")
    ),
    "callbacks": lambda one, values, part: (
        in_loop.callbacks(values, part)
        + _at_most(one, "Doing it less often, or in another thread,")
    ),
    "no-workers": _no_workers,
    "workers-blocked": _blocked,
    "storage": _storage,
    _GROWTH: _growth,
    _SYNCS: _sync_points,
    "stage": _stage,
    "pickling": _pickling,
    "threads-over-cores": _threads,
    "cores-used-up": _cores,
    "workers-compete": _compete,
    "head-of-line": _head_of_line,
    "periodic-stalls": _periodic,
    "uneven-workers": _uneven_workers,
    "waiting": lambda one, values, part: (
        f"{_waits(one, part)}, though they are busy only {percent(values['busy'])} of the time."
        + _at_most(one, "Faster loading")
    ),
    "training": _training,
    "outside-loops": lambda one, values, part: f"Between the loops (checkpoints, other work) it took {part}.",
    "before-loops": lambda one, values, part: f"Imports, data set and model, before the first loop, took {part}, once.",
    "after-loops": lambda one, values, part: f"After its last loop it took {part}, once.",
}  # fmt: skip


def table(account: Account | None, *, full: bool = False) -> list[Part]:
    """Where the run went. The short table has one row for each kind; the full one has a row for each loader too."""
    if account is None or not account.wall_s or not account.rows:
        return []
    if not full:
        return _short(account)
    rows = list(_full(account.rows))
    scale = seconds_scale([account.wall_s])
    longest = max(s for _, s, _ in rows) or 1.0
    cells = tuple(
        (
            *name.split("|"),
            "█" * round(_BAR / 2 * s / longest),
            scale.number(s),
            percent(s / account.wall_s, 1),
            scale.number(saved) if saved else "",
        )
        for name, s, saved in rows
    )
    headers = ("", "loader", "", scale.unit, "share", "saves ≤")
    title = f"Where the {seconds(account.wall_s)} of the run went"
    return [Table(title, headers, cells, frozenset({1, 3, 4, 5}), tuple(_below(account, full)))]


def _short(account: Account) -> list[Part]:
    """A line for each large row: its name, a bar, its seconds, its share, and what a change could save of it."""
    rows = list(merged(account))
    scale = seconds_scale([account.wall_s])
    longest = max(s for _, s, _ in rows) or 1.0
    made: list[Part] = ["", Line(f"Where the {seconds(account.wall_s)} of the run went, in {scale.unit}", "bold")]
    for name, s, saved in rows:
        bar = "█" * round(_BAR * s / longest)
        end = f"   at most {scale.number(saved)} less" if saved and saved >= _SMALLEST * account.wall_s else ""
        made.append(f"  {name:<21} {bar:<{_BAR}} {scale.number(s):>6} {percent(s / account.wall_s):>5}{end}")
    return [*made, *(f"  {line}" for line in _below(account, full=False))]


def _below(account: Account, full: bool) -> Iterable[str]:
    if account.beside_s >= _SMALLEST * account.wall_s:
        yield f"Loops in other threads took {seconds(account.beside_s)} beside this; no row holds them."
    if full:
        yield "The rows add up. What a change can save is predicted from them, and was not tried."
    if any(one.on_device for one in account.rows):
        yield "Rows that rest on CUDA figures: not verified on a GPU."


Shown = tuple[str, float, float | None]
"""The name of a row, its seconds, and what could be saved of it."""


def short(codes: Iterable[str]) -> list[tuple[str, tuple[str, ...]]]:
    """`SHORT`, and below it each of these codes that this version does not know, as a kind of its own."""
    known = {code for _, codes in SHORT for code in codes}
    return [*SHORT, *dict.fromkeys((printable(one), (one,)) for one in codes if one not in known)]


def kinds(rows: Sequence[AccountRow]) -> Iterable[tuple[str, list[AccountRow]]]:
    """The rows by their kind, in the order of a run."""
    for name, codes in short(one.code for one in rows):
        if own := [one for one in rows if one.code in codes]:
            yield name, own


def merged(account: Account) -> Iterable[Shown]:
    """At most seven rows in the order of a run: each kind is one row, and the small ones are one together."""
    found = [
        (name, sum(one.s for one in own), sum(one.recoverable_s or 0.0 for one in own) or None)
        for name, own in kinds(account.rows)
    ]
    least = sorted((s for _, s, _ in found), reverse=True)[min(_ROWS, len(found)) - 1]
    least = max(least, _SMALLEST * account.wall_s)
    yield from (one for one in found if one[1] >= least)
    small = [one for one in found if one[1] < least]
    if small:
        name = small[0][0] if len(small) == 1 else f"{len(small)} smaller rows"
        yield name, sum(s for _, s, _ in small), None


def _full(rows: Sequence[AccountRow]) -> Iterable[Shown]:
    """Every row. The name ends with `|` and the number of the loader."""
    for one in rows:
        loader = one.loader if one.loader is not None else ""
        yield f"{LONG.get(one.code, printable(one.code))}|{loader}", one.s, one.recoverable_s
        for inner in one.inside:
            yield f"· {LONG.get(inner.code, printable(inner.code))}|{loader}", inner.s, inner.recoverable_s
