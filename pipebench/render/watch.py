"""Renders a watched run: the verdict, its evidence, and the next move. Pure; names from data become inert text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pipebench.host.machine import FOREIGN_LIMIT
from pipebench.render import reads, watch_account, watch_details, watch_drilled
from pipebench.render.batches import contents
from pipebench.render.cells import LEAST_CONFIDENCE, Table, over_live, spoken
from pipebench.render.layout import Line, Part, Section, Spare, Sparing, shortened
from pipebench.render.watch_notes import KILLED, after_signal, sentence
from pipebench.render.watch_verdict import next_command, next_move, verdict
from pipebench.results.watched import (
    BoundResult,
    LoaderResult,
    StageResult,
    WaitPart,
    WatchResult,
)
from pipebench.results.windows import RankBound
from pipebench.stats import Speedup
from pipebench.units import Scale, counted, percent, printable, rate_number, seconds, seconds_scale

_FEW_ITERATIONS = 8
_SMALLEST_SHARE = 0.0005
_LARGE_PART = 0.10  # of the wait
_WORTH_A_WORD = 0.005  # of an iteration
_NEARLY_ALL = 0.995
_STOLEN = 0.05  # cores that the hypervisor withheld: less changes no share that is told
_CONSIDERABLE = 0.5  # of a core, used by others
_NAME = 28  # columns of a stage's name in a sentence
_AFTER_NOTES = 50  # in the order in which a short page leaves parts out
_NOT_IN_STEP = ("bound-not-in-step", "bound-rank-short")  # in the short report, too
_FEW_STAGES, _FEW_NOTES = 3, 3  # rows in the short report, which fits a screen


def parts(result: WatchResult, *, full: bool = False, of_command: bool = False) -> list[Sparing]:
    """The parts of the report: at most 48 lines once they fit, or every figure if `full` is true.

    `of_command` says that the program is one of a command. No command of ours then measures its bound.
    """
    return [part for _, made in sections(result, full=full, of_command=of_command) for part in made]


def sections(result: WatchResult, *, full: bool = False, of_command: bool = False, part: bool = False) -> list[Section]:
    """The same parts by what they are about, in the order of the report. Several sections can have one name.

    `part`: what was watched before trials, and not a whole run.
    """
    run = watch_account.causes(result)
    anew = result.account is not None and any(one.code == "new-iterators" for one in result.account.causes)
    said = [] if anew and result.verdict.single == "left" else [verdict(result.verdict)]  # the cause has said it
    return [
        ("verdict", [*run, *(Line(one, "" if run else "bold") for one in said)]),
        ("run", [Spare(tuple(watch_account.table(result.account, full=full, part=part)), _AFTER_NOTES)]),
        *([("run", [*watch_account.smaller_causes(result, part)])] if full else []),
        ("throughput", [*(bound_parts(result.bound, full=full) if result.bound is not None else [])]),
        ("workers", [*_all_stages(result, full), *_reads(result, full), Spare(tuple(contents(result)), 20)]),
        ("distribution", [Spare(tuple(_spans(result)), 20), *_loop(result, full)]),
        *(watch_details.sections(result) if full else []),
        ("notes", [*others(result, full), *_notes(result, full)]),
        ("next", [*_next(result, of_command)]),
    ]


def of_rank(result: WatchResult, move: str = "") -> list[Sparing]:
    """The parts for one rank of several, below what compares them: the short report without account and tables.

    `move` is what comes next by that comparison; a line that is known to be slow comes before it.
    """
    known = result.next_move is not None and result.next_move.line > 0
    made: list[Sparing] = [verdict(result.verdict)]
    loader = result.verdict.loader
    stages = [one for one in result.stages if one.loader == loader]
    made += [_stages_line(loader, stages)] if loader is not None and stages else []
    return [
        *made,
        Spare((*contents(result), *_spans(result)), 20),
        *others(result, False),
        *_notes(result, False),
        *(_next(result, True) if known or not move else ["", move]),
    ]


def _all_stages(result: WatchResult, full: bool) -> list[Part]:
    """A table for each loader. The short report shows only the loader that the verdict is about."""
    tables = {
        one.loader: table
        for one in result.loaders
        for table in _stages(one, [stage for stage in result.stages if stage.loader == one.loader], full)
    }
    if full:
        inside = watch_drilled.all_drilled(result, set(tables), full=True)
        return [*tables.values(), *([f"  {_STAGE_TABLE}"] if tables else []), *inside]
    main = _loader_to_change(result)
    loader = main if main in tables else next(iter(tables), None)
    if loader is None:
        return []
    rest = len(tables) - 1
    more = [f"  --full shows the stages of {counted(rest, 'more loader')}."] if rest > 0 else []
    shown: list[Part] = [tables[loader]]
    if result.account is not None:  # it has the lines; the table is behind --full
        shown, more = [_stages_line(loader, [one for one in result.stages if one.loader == loader])], []
    return [*shown, *more, *watch_drilled.all_drilled(result, {loader}, full=False)]


def _loader_to_change(result: WatchResult) -> int | None:
    """The loader whose stages are shown: that of the verdict, or one that is to load faster where nothing trains."""
    move = result.next_move
    elsewhere = move is not None and move.action == "load-validation-faster"
    return move.loader if move is not None and elsewhere else result.verdict.loader


def _reads(result: WatchResult, full: bool) -> list[Sparing]:
    tables = reads.tables(result, full=full)
    return [*tables] if full else [Spare((one,), 25) for one in tables]


def _stages(loader: LoaderResult, stages: list[StageResult], full: bool) -> Iterable[Table]:
    shown = [one for one in stages if one.worker_share >= _SMALLEST_SHARE]
    if not shown:
        return
    scale = seconds_scale([max(one.exclusive_s_per_sample for one in shown)])
    most = len(shown) if full or len(shown) <= _FEW_STAGES + 1 else _FEW_STAGES
    rows = [_stage_cells(one, scale) for one in shown[:most]]
    if any(one.kind != "serialise" for one in shown[most:]):
        rows.append(_rest_cells(shown[most:], scale))
    headers = ("stage", "kind", f"{scale.unit}/sample", "share", "least–most")
    table = Table(
        f"Stages of {watch_details.loader_name(loader)}; {loader.samples:,} samples",
        headers,
        tuple(rows),
        frozenset({2, 3, 4}),
        (*(_samples(loader) if full else ()), *_on_a_core(loader)),
        () if full else (4,),
    )
    yield table if full else table.narrowest()


def _stages_line(loader: int, stages: Sequence[StageResult]) -> str:
    """The largest stages of a loader in one sentence: each with its share of the time in which batches are made."""
    inside = [one for one in stages if one.kind != "serialise" and one.worker_share >= _SMALLEST_SHARE]
    named = [
        f"{shortened(printable(one.name), _NAME)} ({kind_of(one)}) {percent(one.worker_share)}"
        for one in inside[:_FEW_STAGES]
    ]
    rest = inside[_FEW_STAGES:]
    more = [f"{counted(len(rest), 'more stage')} {percent(sum(one.worker_share for one in rest))}"] if rest else []
    return f"Loading in loader {loader}: {', '.join([*named, *more])}."


_STAGE_TABLE = (
    "Times are wall times and exclusive: a stage without the stages inside it. share: of the time in which workers "
    "make batches. least–most: of a worker."
)


def kind_of(one: StageResult) -> str:
    """What a stage does, as far as it can be told apart."""
    return "read + decode" if one.includes_read else printable(one.kind)


def _stage_cells(one: StageResult, scale: Scale) -> tuple[str, ...]:
    return (
        printable(one.name),
        kind_of(one),
        scale.number(one.exclusive_s_per_sample),
        percent(one.worker_share, 1) if one.kind != "serialise" else "apart",
        _spread(one, scale),
    )


def _rest_cells(rest: Sequence[StageResult], scale: Scale) -> tuple[str, ...]:
    inside = [one for one in rest if one.kind != "serialise"]  # the feeder thread runs beside the others
    spent = scale.number(sum(one.exclusive_s_per_sample for one in inside))
    share = percent(sum(one.worker_share for one in inside), 1)
    return (counted(len(inside), "more stage"), "", spent, share, "")


def _spread(one: StageResult, scale: Scale) -> str:
    if one.least_s_per_sample is None or one.most_s_per_sample is None:
        return ""
    return f"{scale.number(one.least_s_per_sample)}–{scale.number(one.most_s_per_sample)}"


def _samples(one: LoaderResult) -> Iterable[str]:
    if one.sample_p50_s is None or one.sample_p95_s is None or one.sample_p99_s is None:
        return
    scale = seconds_scale([one.sample_p50_s])
    yield (
        f"A sample: p50 {scale.number(one.sample_p50_s)}, p95 {scale.number(one.sample_p95_s)}, "
        f"p99 {scale.text(one.sample_p99_s)}"
    )


def _on_a_core(one: LoaderResult) -> Iterable[str]:
    """The CPU share of the time in which batches are made. It is known of whole batches only, not of stages."""
    if one.sample_s and one.sample_cpu_s is not None:
        share = min(1.0, one.sample_cpu_s / one.sample_s)
        rest = "; the rest waits for a thread, storage or a core" if share < _NEARLY_ALL else ""
        yield f"A batch is {percent(share)} CPU time{rest}."


def _spans(result: WatchResult) -> list[Part]:
    """The functions of `--span` in the loop, in a sentence."""
    if not result.spans:
        return []
    named = [
        f"{shortened(printable(one.name), _NAME)} {seconds(one.s_per_iteration)} ({percent(one.share)})"
        for one in result.spans
    ]
    return [f"Of each iteration: {', '.join(named)}."]


def _loop(result: WatchResult, full: bool) -> list[Part]:
    """The phases of an iteration: a table in the full report, and a line in the short one."""
    if not result.loop:
        return []
    whole = sum(one.s_per_iteration for one in result.loop)
    which = ", ".join(str(one) for one in result.loaders_in_loop)
    loaders = "loader" if len(result.loaders_in_loop) == 1 else "loaders"
    over = f"over {loaders} {which}" if result.loaders_in_loop != (0,) else "without a loader"
    title = f"Loop {over}: {seconds(whole)} an iteration; {counted(result.iterations, 'iteration')}"
    shown = [one for one in result.loop if one.s_per_iteration or one.phase == "wait"]
    idle = []
    if (found := result.device_idle) is not None:
        idle.append(f"The device was idle {seconds(found.s_per_iteration)} of each wait ({percent(found.share, 1)}).")
    if not full:
        phases = [f"{printable(one.phase)} {percent(one.share, 1)}" for one in shown if one.share >= _SMALLEST_SHARE]
        if result.account is not None:  # it has the phases and the parts of the wait
            of = result.iterations if result.settled_iterations is None else result.settled_iterations
            few = f"The figures of an iteration are of {counted(of, 'iteration')} only."
            return [*([few] if of < _FEW_ITERATIONS else []), *idle]
        return ["", title, f"  {', '.join(phases)}", *_parts_of_wait(result.wait_parts), *idle]
    scale = seconds_scale([whole])
    rows: list[tuple[str, ...]] = []
    for one in shown:
        rows.append((printable(one.phase), scale.number(one.s_per_iteration), percent(one.share, 1)))
        if one.phase == "wait" and len(result.wait_parts) > 1:
            rows += _part_rows(result.wait_parts, scale, whole)
    headers = ("phase", f"{scale.unit}/iteration", "share")
    return [Table(title, headers, tuple(rows), frozenset({1, 2}), tuple(idle))]


def where(result: WatchResult) -> list[Part]:
    """Where the time of an iteration goes, in a line."""
    whole = sum(one.s_per_iteration for one in result.loop)
    phases = [f"{printable(one.phase)} {percent(one.share)}" for one in result.loop if one.share >= _WORTH_A_WORD]
    return [f"Of an iteration of {seconds(whole)}: {', '.join(phases)}."] if phases else []


_WAIT_PARTS = {**watch_account.WAIT, "make-batch": "making the batch", "rest": "the rest of next()"}
_ELSEWHERE = ("wait-for-worker", "make-batch")  # parts that the table of stages explains


def _part_rows(parts: Sequence[WaitPart], scale: Scale, whole: float) -> Iterable[tuple[str, ...]]:
    for one in parts:
        if (share := one.s_per_iteration / whole) >= _SMALLEST_SHARE:
            name = _WAIT_PARTS.get(one.part, printable(one.part))
            yield (f"· {name}", scale.number(one.s_per_iteration), percent(share, 1))


def _parts_of_wait(parts: Sequence[WaitPart]) -> Iterable[str]:
    """A line with the large parts of the wait. There is none where the stages explain nearly the whole wait."""
    large = [one for one in parts if one.share >= _LARGE_PART]
    if any(one.part not in _ELSEWHERE for one in large):
        named = [f"{_WAIT_PARTS.get(one.part, printable(one.part))} {percent(one.share)}" for one in large]
        yield f"  of the wait: {', '.join(named)}"


def others(result: WatchResult, full: bool, *, brief: bool = False) -> list[Sparing]:
    """What other processes took of the machine. The short report has it only if it is much; `brief` is one line.

    A page that is too long leaves it out only if it is less than half a core: else no wall time is right without it.
    """
    used = result.host
    if used is None or used.foreign_cores is None or not result.loaders:
        return []
    withheld = (used.stolen_cores or 0.0) > _STOLEN
    much = used.foreign_cores > FOREIGN_LIMIT or withheld
    if not (full or much):
        return []
    stolen = f", and the hypervisor withheld {used.stolen_cores:.2f}" if withheld else ""
    if brief:
        return ["", f"Other processes used {used.foreign_cores:.2f} cores{stolen}: measure again on a quiet machine."]
    waits = " Wall times hold the waits for a core: compare shares, or measure on a quiet machine." if much else ""
    told = ("", f"Other processes used {used.foreign_cores:.2f} cores while the script ran{stolen}.{waits}")
    return [*told] if used.foreign_cores >= _CONSIDERABLE else [Spare(told, 30)]


def _notes(result: WatchResult, full: bool) -> list[Sparing]:
    """The notes. A short page leaves out the last of them first."""
    if not result.notes:
        return []
    most = len(result.notes) if full or len(result.notes) <= _FEW_NOTES + 1 else _FEW_NOTES
    lines = [f"  {sentence(note)}" for note in result.notes[:most]]
    rest = len(result.notes) - most
    lines += [f"  {rest} more notes: --full shows them."] if rest else []
    spare = [Spare((line,), _AFTER_NOTES - 1 - place) for place, line in enumerate(lines[1:], 1)]
    first = ("", "Notes", lines[0])
    if result.notes[0].code == KILLED:  # nothing else says why the run ends there
        return [*first, *spare]
    return [Spare(first, _AFTER_NOTES - 1), *spare]


def _next(result: WatchResult, of_command: bool) -> list[Part]:
    killed = any(one.code == KILLED for one in result.notes)  # without a move, nothing that costs more is worth it
    command = next_command(result, of_command=of_command) if result.next_move is not None or not killed else None
    move = next_move(result.next_move) or after_signal(result.notes)
    made: list[Part] = [one for one in (move, command) if one]
    return ["", *made] if made else []


def bound_parts(found: BoundResult, *, full: bool = True) -> list[Part]:
    """The speed-up that training would have without any data work, with the throughputs behind it."""
    notes: list[Part] = [f"  {sentence(note)}" for note in found.notes]
    if found.bound_over_live is None or found.live is None or found.bound is None:
        return ["The bound was not measured.", *notes]
    gains = [one for one in (found.bound_over_live, found.busy_over_live) if one]
    best = found.device_over_live or max(gains, key=lambda one: one.speedup)
    most = f"Without any data work, training could be at most {spoken(best)} as fast. {_trust(best)}"
    if best.confidence < LEAST_CONFIDENCE:
        few = counted(found.rounds, "round is", "rounds are")
        most = f"{few} too few to say what training would gain without any data work. Train for longer (--steps)."
    table = Table(
        f"Live and replayed windows{_of_all(found)}: {found.rounds} rounds of {found.window} batches of loader "
        f"{found.loader}",
        ("batches", "samples/s", "speed-up"),
        (("live", rate_number(found.live.samples_per_s), "1"), *_rates(found)),
        frozenset({1, 2}),
    )
    whole = "  The other tables are of live iterations; figures of workers are of the whole run."
    made: list[Part] = [most.strip(), table, *_bound_of_ranks(found.ranks, full)]
    apart = [f"  {sentence(note)}" for note in found.notes if note.code in _NOT_IN_STEP]
    return [*made, *notes, whole] if full else [*made, *apart]


def _of_all(found: BoundResult) -> str:
    return f" of all {len(found.ranks)} ranks" if found.ranks else ""


def _bound_of_ranks(ranks: Sequence[RankBound], full: bool) -> list[Part]:
    """Which rank the others wait for in live windows, and what each has of the job's samples."""
    if not ranks:
        return []
    slow = max(ranks, key=lambda one: one.wait_s)
    others = max(one.wait_s for one in ranks if one is not slow)
    said = f"In live windows, rank {slow.rank} waits longest for batches: {seconds(slow.wait_s)} of an iteration"
    made: list[Part] = [f"{said}; of the others, none more than {seconds(others)}."]
    if full:
        scale = seconds_scale([slow.wait_s])
        rows = [
            (str(one.rank), rate_number(one.live_per_s), rate_number(one.bound_per_s), scale.number(one.wait_s))
            for one in ranks
        ]
        headers = ("rank", "samples/s, live", "ready, workers idle", f"wait in live, {scale.unit}")
        made.append(Table("Each rank's part of it", headers, tuple(rows), frozenset(range(4))))
    return made


def _trust(best: Speedup) -> str:
    if not best.told:
        return "No measurable gain."
    if best.speedup < 1:
        return "Replays were slower than live windows: another program used the machine. Measure again."
    if best.confidence < 0.95:
        return f"With so few rounds, the interval has a confidence of {percent(best.confidence)}."
    return ""


def _rates(found: BoundResult) -> Iterable[tuple[str, ...]]:
    for rate, gain, what in (
        (found.bound, found.bound_over_live, "ready, workers idle"),
        (found.bound_busy, found.busy_over_live, "ready, workers as busy as live"),
        (found.bound_device, found.device_over_live, "ready on the device"),
    ):
        if rate is not None and gain is not None:
            yield what, rate_number(rate.samples_per_s), over_live(gain)
