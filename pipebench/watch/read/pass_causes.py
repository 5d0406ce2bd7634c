"""What the begin of each pass costs: workers that start, a stream that begins anew, and samplers. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from pipebench.results.account import STARTING, AccountRow, Cause
from pipebench.results.watched import LoaderResult
from pipebench.watch.read.account import throws_away
from pipebench.watch.read.begins import begins_twice_s, stream_begins
from pipebench.watch.read.drawn_lines import line_of_sampler
from pipebench.watch.read.first_batches import first_batches
from pipebench.watch.read.gather import loaders_found
from pipebench.watch.read.in_loop import made_between
from pipebench.watch.read.of_causes import MATTERS, Seen, as_made
from pipebench.watch.record.lines import LoaderFound, PassBegun
from pipebench.watch.record.worker_lines import TimedOut, WorkerInit

LARGE_ONCE = 0.2  # of the run
_FOR_WORKERS = ("start-up", "end-of-pass", "wait-for-worker", "receive", "unpickle", "send-indices")
_OF_STARTS = 0.2
_MOST_ONCE = 0.5  # of the loops: a start of workers that a longer run does not repeat, as far as is known


def start_up(seen: Seen) -> Iterable[Cause]:
    """Workers that start and end for each pass, of any loader; or iterators that start for each batch."""
    described = loaders_found(seen.run.processes)
    for one in seen.result.loaders:
        rows = [row for row in _with_inside(seen.account.rows) if row.loader == one.loader]
        away = (known := described.get(one.loader)) is not None and throws_away(seen.run, known)
        own = [row for row in rows if row.code in STARTING or (away and row.code == "sampler")]
        spent = sum(row.s for row in own) - timed_out_s(seen, one.loader)
        saved = sum(row.recoverable_s or 0.0 for row in own)
        other = one.remade == "other"
        anew = _begun_anew(seen, known, spent) if known is not None and not (other or away) else {}
        seldom = known is not None and (known.persistent or one.passes < 2)  # so far, workers have started once
        least = _MOST_ONCE if seldom else LARGE_ONCE
        if known is None or not (one.workers or away) or not (saved or anew or spent >= least * seen.loops_s):
            continue
        without = _without_workers(seen, one) if other and not away else {}
        saved = without["saved_s"] if without else saved
        first = _first_batch(seen, one, spent) if other and not away else {}
        saved = max(without.get("saved_s", 0.0), float(first["first_saves_s"])) if first else saved
        made = {"made": sum(worker.batches for worker in seen.workers(one))} if away else {}
        unknown = anew.get("more_s", 0.0) > saved  # what one iterator for all passes would save
        anew |= {"kept_s": saved} if unknown else {}
        yield Cause(
            "new-iterators" if away else "start-up", spent, None if unknown else saved or None, one.loader,
            {
                **made, **anew, **without, **first, **as_made(one),
                "passes": one.passes, "workers": one.workers, "start_method": one.start_method,
                "persistent": int(known.persistent), "ends_s": sum(row.s for row in own if row.code == "end-of-pass"),
                "in_validation": int(all(row.code == "validation" for row in seen.rows(loader=one.loader))),
                **({} if known.can_persist else {"always_anew": 1}), **_init(seen, one.loader, spent),
            },
        )  # fmt: skip


def _first_batch(seen: Seen, one: LoaderResult, spent: float) -> dict[str, str | int | float]:
    """What each worker does anew in its first batch, if that is much of what their starts take."""
    found = first_batches(seen.run, one.loader)
    if found is None or found.more_s * one.passes < _OF_STARTS * spent:
        return {}
    values: dict[str, str | int | float] = {"row": found.name, "row_kind": found.kind, "row_share": found.share}
    return {**values, "row_s": found.more_s, "first_saves_s": min(spent, found.more_s * (one.passes - 1))}


def timed_out_s(seen: Seen, loader: int) -> float:
    """How long the loop waited for workers until its loader's timeout. The clock takes it for a pass's end."""
    waited = sum(one.timeout_s for one in seen.run.of_loader(TimedOut, loader))
    return min(waited, seen.s(*STARTING, loader=loader))


def timed_out(seen: Seen) -> Iterable[Cause]:
    """Loops that waited for a worker until their loader's timeout, at which torch raises an error."""
    for one in seen.result.loaders:
        if waited := timed_out_s(seen, one.loader):
            longest = max(line.timeout_s for line in seen.run.of_loader(TimedOut, one.loader))
            yield Cause("timed-out", waited, None, one.loader, {"timeout_s": longest})


def _init(seen: Seen, loader: int, spent: float) -> dict[str, str | int | float]:
    """The `worker_init_fn`, if what the first worker of each pass needs for it is a large part of the starts.

    The first batch of a pass is that worker's.
    """
    found = [one for process in seen.run.workers_of(loader) for one in process.of(WorkerInit)]
    first_s = sum(one.ns for one in found if one.worker == 0) / 1e9
    if not found or first_s < _OF_STARTS * spent:
        return {}
    last = found[-1]
    place: dict[str, str | int | float] = {"init_file": last.file, "init_line": last.line} if last.line else {}
    return {"init": last.function, **place, "init_s": sum(one.ns for one in found) / len(found) / 1e9}


def _begun_anew(seen: Seen, known: LoaderFound, spent: float) -> dict[str, float]:
    """What later passes over a stream took to begin it, if that is much. Workers that live on take as long."""
    begins = stream_begins(seen.run, known)
    if begins is None or min(spent, begins.more_s) < MATTERS * seen.loops_s:
        return {}
    return {"first_s": begins.first_s, "usual_s": begins.usual_s, "more_s": min(spent, begins.more_s)}


def dataset_anew(seen: Seen) -> Iterable[Cause]:
    """A dataset that is made anew between passes, with its loader: made once, it would take that time once."""
    described = loaders_found(seen.run.processes)
    told = set[str]()
    for one in seen.result.loaders:
        known = described.get(one.loader)
        if known is None or not one.again or one.made_by:
            continue
        names = {begun.inside for begun in seen.run.of_loader(PassBegun, one.loader)[-1:] if begun.inside}
        names |= {known.dataset} if one.remade != "other" and not one.others else set()
        if not (new := sorted(names - told)):
            continue
        told |= names  # which of two loaders such a dataset is for is not known
        found = {name: made_between(seen.run, name) for name in new}
        dataset = max(new, key=lambda name: found[name][0])
        share, place = found[dataset]
        spent = share * seen.s("outside-loops")
        values = {**place, "dataset": dataset, "again": one.again, "workers": one.workers}
        yield Cause("dataset-anew", spent, spent, one.loader, values)


def _without_workers(seen: Seen, one: LoaderResult) -> dict[str, float]:
    """What the loop waits for workers that cannot live on, and what making the same batches itself would take it.

    Empty if that saves nothing that matters. On a machine whose cores are used up, making has waits for a core in it.
    """
    workers = seen.workers(one)
    batches = sum(worker.batches for worker in workers)
    if not batches:
        return {}
    rows = [row for row in _with_inside(seen.account.rows) if row.loader == one.loader and row.code in _FOR_WORKERS]
    made_s = sum(worker.busy_s for worker in workers) / batches * seen.batches(one)
    waits_s = sum(row.s for row in rows)
    if waits_s - made_s < MATTERS * seen.loops_s:
        return {}
    return {"waits_s": waits_s, "make_s": made_s, "saved_s": waits_s - made_s}


def _with_inside(rows: Iterable[AccountRow]) -> Iterable[AccountRow]:
    for one in rows:
        yield one
        yield from one.inside


def sampler(seen: Seen) -> Iterable[Cause]:
    described = loaders_found(seen.run.processes)
    for one in seen.in_loop:
        spent = seen.s("sampler", "send-indices", loader=one.loader)
        batches = seen.batches(one)
        saved = seen.saved("sampler", "send-indices", loader=one.loader)
        values: dict[str, str | int | float] = {"s_per_batch": spent / max(1, batches), "batches": batches}
        if (known := described.get(one.loader)) is not None and known.sampler:
            values |= {"function": known.sampler}
            values |= {"file": known.sampler_at.file, "line": known.sampler_at.line} if known.sampler_at else {}
            values |= line_of_sampler(seen, one.loader)
        if one.remade != "other" and (twice := begins_twice_s(seen.run, one.loader)):
            values |= {"twice_s": twice, **as_made(one)}
        yield Cause("sampler", spent, saved, one.loader, values)
