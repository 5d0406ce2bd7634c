"""The cause of loops that do not train, such as validation: slow loading, small batches, metrics, or too many of them.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean

from pipebench.results.account import STARTING, AccountRow, Cause
from pipebench.results.watched import LoaderResult
from pipebench.watch.read.account import START_REASONS
from pipebench.watch.read.beside_model import beside_model, shares_loop
from pipebench.watch.read.gather import NO_LOADER, Run, loaders_found
from pipebench.watch.read.of_causes import MATTERS, Seen, stage_values
from pipebench.watch.record.lines import LoaderFound, PassBegun

_LARGE = 0.2  # of the loops: less is usual, if it hardly waits
_FEWER = 2  # times as many samples in a batch of training: then small batches of validation are mentioned
_WORK = ("host-to-device", "prepare", "forward", "backward", "optimiser", "spans", "other")
_OF_STAGE = ("stage", "kind", "includes_read", "stage_share")
_LARGER = 1.5  # times the bytes of a sample in training: then it is another one
_FEWEST_LOOKS, _OF_LOOKS = 10, 0.25  # that found a graph: the first module of a model gets none


def validation(seen: Seen) -> Iterable[Cause]:
    described = loaders_found(seen.run.processes)
    for row in seen.rows("validation"):
        one = next((one for one in seen.result.loaders if one.loader == row.loader), None)
        later = [inside for inside in row.inside if inside.reason not in START_REASONS]
        waits = workers = sum(inside.recoverable_s or 0.0 for inside in later)
        if row.s < _LARGE * seen.loops_s and waits < MATTERS * seen.loops_s:
            continue
        counts: dict[str, str | int | float] = {"passes": row.passes or 0, **({"workers": one.workers} if one else {})}
        if seen.result.loaders_in_loop == (NO_LOADER,):
            counts["kept"] = 1  # training takes no batch from a loader: it may use these
        apart = beside_model(seen, row, one)
        counts |= apart or _small_batches(seen, row, one, described)
        counts |= {"graphs": 1} if one is not None and keeps_graphs(seen.run, one) else {}
        counts |= _how_often(seen, row)
        if one is not None and not one.workers:
            made = [inside for inside in later if inside.code == "make-batch"]
            waits += sum(inside.s - (inside.recoverable_s or 0.0) for inside in made)  # cheaper samples save it, too
            counts |= {"by_workers_s": workers, "made_s": sum(inside.s for inside in made)}
        if one is not None and waits:
            counts |= {name: value for name, value in stage_values(seen, one).items() if name in _OF_STAGE}
        saved = None if row.recoverable_s is None else waits  # the start-up of its workers is a cause of its own
        others = [float(counts[name]) for name in ("larger_s", "seldom_s", "apart_s") if name in counts]
        saved = max([saved or 0.0, *others]) if others else saved
        yield Cause("validation", row.s, saved, row.loader, {**counts, "waits_s": waits})


def keeps_graphs(run: Run, one: LoaderResult) -> bool:
    """Whether a loop that does not train keeps graphs for gradients in its forward that nobody was seen to ask for."""
    if shares_loop(run, one):
        return False
    lines = run.looks(one.loader)
    kept, met = sum(line.kept for line in lines), sum(line.later_looks for line in lines)
    return kept >= max(_FEWEST_LOOKS, _OF_LOOKS * met) and not any(line.used for line in lines)


def _small_batches(
    seen: Seen, row: AccountRow, one: LoaderResult | None, described: dict[int, LoaderFound]
) -> dict[str, float]:
    """The samples of a batch there and in training, if they are fewer; with what larger ones could save at least.

    A sample of the same size is taken to need no more than one does in training, with its backward: what it takes
    besides is the price of a batch. Beside a device, which works while the loop waits, it is taken to need a part of
    the whole iteration.
    """
    own = described[row.loader].batch_size if row.loader in described else None
    sizes = {its.loader: described[its.loader].batch_size or 0 for its in seen.in_loop if its.loader in described}
    trains = max(sizes.values(), default=0)
    if one is None or not own or own * _FEWER > trains:
        return {}
    main = next(its for its in seen.in_loop if sizes.get(its.loader) == trains)
    there, here = _sizes(seen.run, main.loader, trains), _sizes(seen.run, one.loader, own)
    if there and here and (fmean(here) > _LARGER * fmean(there) or (own == 1 and len(set(here)) > 1)):
        return {}  # whole images, say, and crops in training: they may not fit into one batch
    told: dict[str, float] = {"batch": own, "trains": trains}
    if not (there and here):
        return told
    saved = _saved(seen, row, own * seen.batches(one), trains * seen.batches(main))
    return told | saved if saved else {}


def _saved(seen: Seen, row: AccountRow, samples: int, trained: int) -> dict[str, float]:
    """What larger batches could save of the work on so many samples, where training takes so many."""
    rows = [its for one in seen.in_loop for its in seen.rows(loader=one.loader) if its.code not in STARTING]
    trained_s = sum(its.s for its in rows if seen.on_device or its.code in _WORK) / max(1, trained)
    work_s = sum(its.s for its in row.inside if its.code in _WORK)
    saved = work_s - samples * trained_s
    if not trained_s or not samples or saved < MATTERS * seen.loops_s:
        return {}
    return {"larger_s": saved, "sample_s": work_s / samples, "trained_s": trained_s}


def _sizes(run: Run, loader: int, samples: int) -> list[float]:
    """The bytes of a sample, in each batch that was counted, or their mean without workers; empty if nobody knows."""
    sums = [one for _, one in run.sums(loader)]
    handed: list[float] = [
        one.shared_bytes - one.viewed_bytes + one.array_bytes for each in sums for one in each.handed
    ]
    batches = sum(one.held.batches for one in sums)
    held = sum(one.held.tensor_bytes + one.held.array_bytes for one in sums)
    found = handed or ([held / batches] if batches else [])
    return [one / samples for one in found] if any(found) else []


def _how_often(seen: Seen, row: AccountRow) -> dict[str, float]:
    """After how many iterations of training a validation came, and what half as many save, if it is inside passes."""
    training = [one for one in seen.in_loop if one.training]
    passes = row.passes or 0
    if passes < 2 or passes <= sum(one.passes for one in training) or row.s < _LARGE * seen.loops_s:
        return {}
    trained = min((line.begin for one in training for line in seen.run.turns(one.loader)), default=0)
    begun = [one.begin for one in seen.run.of_loader(PassBegun, row.loader)] if row.loader is not None else []
    among = sum(begin > trained for begin in begun) or passes  # without those before the first step, as a check has
    return {"every": sum(map(seen.batches, training)) / among, "seldom_s": row.s * (passes // 2) / passes}
