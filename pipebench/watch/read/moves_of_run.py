"""Says what change the causes of a whole run ask for. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pipebench.results.account import Cause, largest_saving, work_between
from pipebench.results.drilled import runs_of
from pipebench.results.next_move import NextMove
from pipebench.results.watched import WatchResult
from pipebench.watch.record.media import kind_of_stage

_WORTH_WORKERS = 0.2  # of work in a loop without a loader: what workers of one must save to be named
# cause of the whole run -> the move that it asks for. Those of the others follow from the iteration.
_OF_RUN = {
    "start-up": "keep-workers", "warm-up": "keep-workers", "new-iterators": "keep-iterator",
    "dataset-anew": "make-dataset-once", "shared-lock": "read-without-lock",
    "validation": "load-validation-faster", "callbacks": "do-less-in-the-loop", "prepare": "prepare-in-workers",
    "python-loops": "vectorise", "own-lines": "less-python", "left-on": "switch-off",
    "many-operations": "fewer-operations", "float64": "compute-in-float32",
    "ignored-targets": "compute-what-counts",
    "garbage-collection": "collect-less", "small-batches": "larger-batches", "few-threads": "more-threads",
    "many-threads": "fewer-torch-threads",
    "padding": "pad-to-longest", "unequal-lengths": "batch-by-length", "few-cores": "use-all-cores",
    "each-makes-all": "divide-first", "each-gives-all": "divide-stream", "made-in-vain": "select-first",
    "fields-in-vain": "decode-fewer-fields",
    "threads-over-cores": "fewer-threads", "uneven-workers": "spread-evenly", "few-parts": "more-parts",
    "slow-worker": "mend-worker",
    "periodic-stalls": "raise-prefetch-factor", "head-of-line": "any-order",
    "workers-compete": "lower-num-workers", "slower-steps": "keep-less",
    "frozen-module": "keep-outputs", "checkpointing": "keep-activations", "compiling": "compile-less",
    "unused-gradients": "end-gradients", "computed-again": "compute-once",
    "busy-thread": "free-the-interpreter",
    "loading-takes-cores": "make-stage-cheaper", "outside-loops": "do-less-between",
    "before-loops": "do-less-before",
}  # fmt: skip
_PLACE = ("function", "by", "file", "line")
_ONLY_KNOWN = ("callbacks", "validation", "sampler")  # causes with another remedy than their line
_APART = "do-less-in-validation"
_AT_STARTS = ("keep-workers", "keep-iterator", "make-dataset-once")
_MATTERS = 0.05  # of a run that a signal ended
FIRST = ("left-on", "each-gives-all")  # causes with which all others hold, and which come before them


def move_of_run(move: NextMove | None, causes: Sequence[Cause], usable_cores: float) -> NextMove | None:
    """The move for the cause that could save most of the run. `move`, which is about an iteration, stays if it is that.

    What may be a wait for a device stands behind the others, as in the report. None: no cause could save anything that
    matters to the run, so the move does not matter either.
    """
    first = next((one for code in FIRST for one in causes if one.code == code), None) or _largest(causes, move)
    if first is None:
        return None
    action = "no-workers" if "saved_s" in first.values else _OF_RUN.get(first.code)
    place: dict[str, Any] = {name: first.values[name] for name in _PLACE if name in first.values}
    if float(first.values.get("first_saves_s", 0.0)) > float(first.values.get("saved_s", 0.0)):
        action, place = "fill-first", {"function": first.values["row"]}
    place |= _of_line(first)
    if first.code == "validation":
        action = _of_untrained(first, action)
        place = {**place, "took_s": first.values["apart_s"]} if action == _APART else {}
    action = "make-batches-cheaper" if action == "prepare-in-workers" and "no_loader" in first.values else action
    action = "ask-length-once" if "length" in first.values else action
    place |= {name: True for name in ("rests", "needed") if name in first.values}
    place |= {"metric": True} if "metric" in first.values and "models" not in first.values else {}
    place |= {"part_s": first.values["part_s"]} if "part_s" in first.values and "line_share" not in place else {}
    place |= {name: first.values[name] for name in ("worker", "slower", "slow_part") if "slower" in first.values}
    place |= {"grows": True} if "early_s" in first.values else {}
    if action is None:
        if move is None and first.values.get("core_s") and "stage" in first.values:
            return _of_cause(first, usable_cores)
        if first.code == "sampler" and (move is None or move.wait_part != first.code):
            each_s = float(first.values.get("s_per_batch", 0.0)) or None
            move = NextMove("shorten-wait-part", usable_cores, wait_part=first.code, wait_part_s=each_s)
        same = move is not None and move.wait_part == first.code
        return replace(move, **place) if same and move is not None else move
    if action == "make-stage-cheaper":
        return _of_cause(first, usable_cores)
    names = ("start_method",) if action == "fill-first" else ("setting", "tools", "only", "what")
    setting = next((first.values[one] for one in names if one in first.values), None)
    more = first.values.get("more_workers", first.values.get("to_threads", first.values.get("makers")))
    more = more if float(first.values.get("workers_s", first.s)) >= _WORTH_WORKERS * first.s else None
    return NextMove(
        action,  # type: ignore[arg-type]
        usable_cores,
        workers=int(first.values.get("workers", 0)),
        loader=first.loader,
        took_s=place.pop("took_s", first.s),
        setting=str(setting) if setting is not None else None,
        to_workers=int(more) if more is not None else None,
        **place,
    )


def after_a_signal(result: WatchResult) -> WatchResult:
    """The result of a run that a signal ended early, without a move that would make its start-up little shorter.

    What takes a part of each pass, or is done once, has a larger share of it than of the whole run.
    """
    move, account = result.next_move, result.account
    if move is None or account is None or move.action not in _AT_STARTS:
        return result
    first = largest_saving(account.causes)
    small = first is None or first.saving_s < _MATTERS * account.wall_s
    return replace(result, next_move=None) if small else result


def _largest(causes: Sequence[Cause], move: NextMove | None) -> Cause | None:
    """The cause that could save most of the run; what is done between the loops could save all, if it is much.

    A cheaper stage, where that is the step for slow loading, saves no more than its share of it.
    """
    first, between = largest_saving(causes), work_between(causes)
    if first is not None and first.code not in _OF_RUN and move is not None and move.action == "make-stage-cheaper":
        other = largest_saving(one for one in causes if one.code in _OF_RUN and not one.doubtful)
        part_s = float(first.values.get("stage_share", 1.0)) * first.saving_s
        first = other if other is not None and other.saving_s > part_s else first
    return between if between is not None and (first is None or between.s >= first.saving_s) else first


def _of_line(one: Cause) -> dict[str, Any]:
    """The line in which most of the work is, with what is written in its place, if that is known.

    Where there is another remedy, as to do work less often, a line of which nothing is known is not told.
    """
    values: Any = one.values
    other = one.code in _ONLY_KNOWN or (one.code == "prepare" and "no_loader" not in values)
    if "line_share" not in values or (other and "title" not in values):
        return {}
    known = {"title": values["title"], "how": (values["how"],)} if "title" in values else {}
    known |= {"alike": True} if values.get("slow_alike") else {}
    place = {name: values[f"slow_{name}"] for name in ("function", "file", "line")}
    share = values["line_share"] * (values["part_s"] / one.s if "part_s" in values and "function" in values else 1.0)
    return {**place, **known, "runs": runs_of(values), "line_share": share}


def _of_cause(one: Cause, usable_cores: float) -> NextMove:
    """A cheaper stage of workers that take cores from training."""
    found: dict[str, Any] = one.values
    names = ("workers", "cores_used", "script_cores", "foreign_cores", "wanted_cores", "stage", "sample_s")
    stage_s = found.get("stage_share", 0.0) * found.get("sample_s", 0.0)
    kind = kind_of_stage(found["stage"], found["kind"], found["includes_read"]) if "kind" in found else None
    told = {name: found[name] for name in names if name in found}
    return NextMove("make-stage-cheaper", usable_cores, stage_kind=kind, stage_s=stage_s, loader=one.loader, **told)


def _of_untrained(one: Cause, faster: str | None) -> str | None:
    """What could save most of the loops that do not train: faster loading, larger batches, less work, or fewer."""
    known = {
        "waits_s": faster, "larger_s": "validate-in-larger-batches", "seldom_s": "validate-less-often",
        "apart_s": _APART,
    }  # fmt: skip
    return known[max(known, key=lambda name: float(one.values.get(name, 0.0)))]
