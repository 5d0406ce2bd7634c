"""The loader table and training against its bound, as a sentence and tables of strings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from pipebench.render.cells import Table, worst_of
from pipebench.render.watch_notes import sentence
from pipebench.results.loading import LoaderRow, hand_off
from pipebench.results.report import Report
from pipebench.results.training import Training
from pipebench.results.windows import Throughput
from pipebench.stats import Ratio
from pipebench.units import counted, percent, printable, seconds

LEAST_CONFIDENCE = 0.75  # of three windows: with fewer an interval says nothing
WORTH_SAYING = 1.05  # a bound less than 5 % above live is within what windows beside one another differ by


def waiting(training: Training) -> str:
    """Whether live training waits for data, and what removing all data work could buy at most."""
    on = f"{printable(training.consumer)}; {counted(training.loading.workers, 'worker')}"
    bound, gain = training.bound, training.bound.gain
    waits = f"{percent(training.watched.wait_share or 0.0)} of an iteration ({on})"
    if gain is None or bound.live is None or bound.bound is None:
        why = " ".join(map(sentence, bound.notes))
        return f"Whether training waits for data was not measured: {why}"
    if gain.confidence < LEAST_CONFIDENCE:
        return f"Whether training waits for data cannot be told from {bound.rounds} windows: {waits}."
    live, most = bound.live.samples_per_s, _speedup(gain)
    if not gain.told or gain.ratio < WORTH_SAYING:
        could = most if gain.told else "nothing that these windows can tell"
        return (
            f"Training does not wait for data: {waits}. {live:,.0f} samples/s; "
            f"removing all data work could buy at most {could}."
        )
    hiding = f"; hiding it, {bound.gain_busy.ratio:.2f}×" if bound.gain_busy else ""
    return (
        f"Training waits for data: {waits}. {live:,.0f} samples/s live, {bound.bound.samples_per_s:,.0f} with its "
        f"batches ready: removing all data work could buy at most {most}{hiding}."
    )


def _speedup(gain: Ratio) -> str:
    return f"{gain.ratio:.2f}× ({gain.low:.2f}–{gain.high:.2f})"


def loader(report: Report) -> Table:
    """Images per second of the reference pipeline by workers; beside them what the hand-off alone would let through."""
    rows = report.loader or ()
    kinds = list(dict.fromkeys((one.dataset, one.dtype) for one in rows))
    cells = {(one.workers, one.dataset, one.dtype): one for one in rows}
    lines = []
    for count in sorted({one.workers for one in rows}):
        name = f"{count}" + ("*" if any(one.oversubscribed for one in rows if one.workers == count) else "")
        lines.append((name, *(_rate(cells.get((count, *kind))) for kind in kinds)))
    headers = ("workers", *(f"{printable(kind)} {printable(dtype)}" for kind, dtype in kinds))
    batch = f", batch {rows[0].batch_size}" if rows else ""
    numeric = frozenset(range(1, len(headers)))
    return Table(f"Loader: images/s{batch}", headers, tuple(lines), numeric, tuple(_loader_notes(rows)))


def _rate(one: LoaderRow | None) -> str:
    if one is None or not one.images_per_s or one.low is None or one.high is None:
        return "skipped" if one is not None and one.skipped else ""
    return f"{one.images_per_s:,.0f} ±{percent((one.high - one.low) / 2 / one.images_per_s)}"


def _loader_notes(rows: Sequence[LoaderRow]) -> Iterable[str]:
    ready = hand_off(rows)
    if ready:
        costs = ", ".join(
            f"{dtype} {seconds(one.seconds_per_image or 0)} an image ({counted(one.workers, 'worker')})"
            for dtype, one in ready.items()
        )
        yield f"ready: samples that are already there, so the hand-off alone: {costs}"
    if any(one.oversubscribed for one in rows):
        yield "*: more workers than usable cores"
    yield from dict.fromkeys(
        f"{printable(one.dataset)}: skipped ({one.skipped.code}): {printable(one.skipped.reason)}"
        for one in rows
        if one.skipped
    )
    started = [one.startup_s for one in rows if one.startup_s and one.workers]
    if started:
        methods = ", ".join(sorted({printable(one.start_method) for one in rows if one.workers}))
        yield f"in no figure: start-up to the first batch, {seconds(median(started))} ({methods})"
    warned = [
        (warning, f"{one.dataset}, {one.dtype}, {counted(one.workers, 'worker')}")
        for one in rows
        for warning in one.warnings
    ]
    yield from worst_of(warned)


def training(found: Training) -> Table:
    """Live training beside its bounds, with what was kept out of every window in the notes."""
    bound = found.bound
    rows = [("live", *_throughput(bound.live), "1")] if bound.live else []
    for name, one, gain in (
        ("batches ready, workers as busy as live", bound.bound_busy, bound.gain_busy),
        ("batches ready, workers idle", bound.bound, bound.gain),
        ("batches on the device", bound.bound_device, bound.gain_device),
    ):
        if one is not None and gain is not None:
            said = _speedup(gain) if gain.told else f"~ (±{percent(gain.smallest_change)})"
            rows.append((name, *_throughput(one), said))
    title = f"Training: live against bound, {printable(found.consumer)}, batch {found.batch_size}"
    headers = ("", "samples/s", "", "× live")
    return Table(title, headers, tuple(rows), frozenset({1, 2, 3}), tuple(_training_notes(found)))


def _throughput(one: Throughput) -> tuple[str, str]:
    return f"{one.samples_per_s:,.1f}", f"±{percent((one.high - one.low) / 2 / one.samples_per_s)}"


def _training_notes(found: Training) -> Iterable[str]:
    watched, workers = found.watched, found.loading.workers
    yield "of a live iteration: " + ", ".join(
        f"{one.phase} {percent(one.share)}" for one in watched.loop if one.share >= 0.005 or one.phase == "wait"
    )
    if found.simulated:
        yield "simulated: the consumer waits for the stated time and uses no CPU; no model was trained"
    mark = ", more than the usable cores" if workers > watched.usable_cores else ""
    shards = ", over the shards by webdataset" if found.loading.stream else ""
    yield (
        f"{counted(workers, 'worker')} by {printable(watched.start_method or 'none')}{mark}{shards}; "
        f"{found.bound.rounds} windows of {found.bound.window} batches"
    )
    apart = {"start-up": watched.startup_s, "epoch boundary": found.epoch_boundary_s}
    said = ", ".join(f"{name} {seconds(value)}" for name, value in apart.items() if value is not None)
    yield f"in no window: {said}"
    yield from (sentence(note) for note in (*found.bound.notes, *watched.notes))
    yield from worst_of([(warning, "training") for warning in found.warnings])
