"""Renders the loader table, and live training beside its bound: as a sentence and as tables of strings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from pipebench.render.cells import LEAST_CONFIDENCE, Table, gain, spoken, worst_of
from pipebench.render.watch_notes import sentence
from pipebench.results.loading import LoaderRow, hand_off
from pipebench.results.measurement import NOISE
from pipebench.results.report import Report
from pipebench.results.training import Training
from pipebench.results.windows import Throughput
from pipebench.units import counted, percent, printable, seconds, size, width

WORTH_SAYING = 1.05  # neighbouring windows differ by up to 5 %, so a smaller speed-up does not count as a gain


def waiting(training: Training) -> str:
    """A sentence: whether live training waits for data, and the largest speed-up from removing all data work."""
    on = f"{printable(training.consumer)}; {counted(training.loading.workers, 'worker')}"
    bound, over = training.bound, training.bound.bound_over_live
    waits = f"{percent(training.watched.wait_share or 0.0)} of an iteration ({on})"
    if over is None or bound.live is None or bound.bound is None:
        why = " ".join(map(sentence, bound.notes))
        return f"Whether training waits for data was not measured. {why}"
    if over.confidence < LEAST_CONFIDENCE:
        windows = counted(bound.rounds, "window is", "windows are")
        return f"{windows} too few to say whether training waits for data. It waited {waits}."
    live, busy = bound.live.samples_per_s, bound.busy_over_live
    if not over.told or over.speedup < WORTH_SAYING:
        most = f"at most {spoken(over)}" if over.told else "no measurable gain"
        return (
            f"Training does not wait for data: {waits}. {live:,.0f} samples/s; speed-up from removing all data work: "
            f"{most}."
        )
    overlapped = f"; overlapping it with training: {busy.speedup:.2f}×" if busy else ""
    return (
        f"Training waits for data: {waits}. {live:,.0f} samples/s live, {bound.bound.samples_per_s:,.0f} with its "
        f"batches ready. Removing all data work: at most {spoken(over)}{overlapped}."
    )


def loader(report: Report) -> Table:
    """Images per second of the reference pipeline for each number of workers, beside those of the hand-off alone."""
    rows = report.loader or ()
    kinds = list(dict.fromkeys(one.dataset for one in rows))
    cells = {(one.dtype, one.workers, one.dataset): one for one in rows}
    lines = []
    for dtype in dict.fromkeys(one.dtype for one in rows):
        for count in sorted({one.workers for one in rows if one.dtype == dtype}):
            name = f"{count}" + ("*" if any(one.oversubscribed for one in rows if one.workers == count) else "")
            lines.append((printable(dtype), name, *(_rate(cells.get((dtype, count, kind))) for kind in kinds)))
    headers = ("samples", "workers", *map(printable, kinds))
    batch = f", batch {rows[0].batch_size}" if rows else ""
    numeric = frozenset(range(1, len(headers)))
    return Table(f"Loader: images/s{batch}", headers, tuple(lines), numeric, tuple(_loader_notes(rows)))


def _rate(one: LoaderRow | None) -> str:
    if one is None or not one.images_per_s or one.low is None or one.high is None:
        return "skipped" if one is not None and one.skipped else ""
    return f"{one.images_per_s:,.0f} {width(one.images_per_s, one.low, one.high)}"


def _loader_notes(rows: Sequence[LoaderRow]) -> Iterable[str]:
    ready = hand_off(rows)
    if ready:
        costs = ", ".join(
            f"{dtype} {seconds(one.seconds_per_image or 0)} an image ({counted(one.workers, 'worker')})"
            for dtype, one in ready.items()
        )
        yield f"ready: the samples are in memory already, so this is the hand-off alone: {costs}"
    copies = list(dict.fromkeys(one.packed for one in rows if one.dataset == "packed" and not one.skipped))
    for copy in copies:
        on_disk = f": {size(copy.after_bytes)} of images, {size(copy.before_bytes)} as they were" if copy else ""
        yield f"packed: as map, but only the crop is decoded, from a packed copy{on_disk}"
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
        yield f"Not included above: start-up to the first batch, {seconds(median(started))} ({methods})"
    warned = [
        (warning, f"{one.dataset}, {one.dtype}, {counted(one.workers, 'worker')}")
        for one in rows
        for warning in one.warnings
        if warning.code not in NOISE
    ]
    yield from worst_of(warned)


def training(found: Training) -> Table:
    """Live training beside its bounds. The notes also say what the windows leave out."""
    bound = found.bound
    rows = [("live", *_throughput(bound.live), "1")] if bound.live else []
    for name, one, over in (
        ("batches ready, workers busy", bound.bound_busy, bound.busy_over_live),
        ("batches ready, workers idle", bound.bound, bound.bound_over_live),
        ("batches on the device", bound.bound_device, bound.device_over_live),
    ):
        if one is not None and over is not None:
            rows.append((name, *_throughput(one), gain(over)))
    title = f"Training: live against bound, {printable(found.consumer)}, batch {found.batch_size}"
    headers = ("", "samples/s", "", "× live")
    return Table(title, headers, tuple(rows), frozenset({1, 2, 3}), tuple(_training_notes(found)), (2,))


def _throughput(one: Throughput) -> tuple[str, str]:
    return f"{one.samples_per_s:,.1f}", width(one.samples_per_s, one.low, one.high)


def _training_notes(found: Training) -> Iterable[str]:
    watched, workers = found.watched, found.loading.workers
    yield "A live iteration: " + ", ".join(
        f"{printable(one.phase)} {percent(one.share)}"
        for one in watched.loop
        if one.share >= 0.005 or one.phase == "wait"
    )
    if not (found.given or found.simulated):
        yield "This model stands for yours. Whether yours waits for data, `--consumer` measures."
    if found.simulated:
        yield "simulated: instead of training a model, the loop waits for the stated time and uses no CPU"
    mark = ", more than the usable cores" if workers > watched.usable_cores else ""
    shards = ", over the shards by webdataset" if found.loading.stream else ""
    yield (
        f"{counted(workers, 'worker')} by {printable(watched.start_method or 'none')}{mark}{shards}; "
        f"{found.bound.rounds} windows of {found.bound.window} batches"
    )
    apart = {"start-up": watched.startup_s, "epoch boundary": found.epoch_boundary_s}
    said = ", ".join(f"{name} {seconds(value)}" for name, value in apart.items() if value is not None)
    yield f"Not included above: {said}"
    yield from (sentence(note) for note in (*found.bound.notes, *watched.notes))
    yield from worst_of([(warning, "training") for warning in found.warnings if warning.code not in NOISE])
