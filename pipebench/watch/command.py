"""`pipebench watch` as one function: runs the script, reads what its processes wrote, and reports what it cost."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import platform
import secrets
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipebench.errors import PipebenchError
from pipebench.host import limits
from pipebench.host.machine import calibration_file, usable_cores
from pipebench.host.redaction import inert, started
from pipebench.host.scratch import Scratch
from pipebench.host.screen import colours, columns, encoding
from pipebench.host.slurm import attempt
from pipebench.render.signs import missing
from pipebench.render.watched import whole
from pipebench.results.programs import WatchedCommand
from pipebench.results.secrets import without_secrets
from pipebench.results.watched import Note, WatchResult
from pipebench.watch.bound.schedule import STEPS
from pipebench.watch.launch import supervisor
from pipebench.watch.launch.exits import Exit
from pipebench.watch.launch.footprint import Looker
from pipebench.watch.launch.programs import Programs, SeenProgram, looked_at_all, looking, watched_environment
from pipebench.watch.launch.stacks import StackReader
from pipebench.watch.read.gather import Process, gather
from pipebench.watch.read.moves_of_run import after_a_signal
from pipebench.watch.read.notes import script_killed, standstill_notes
from pipebench.watch.read.one_of_ranks import one_of_ranks, rank_of
from pipebench.watch.read.programs import Records, programs_of, stopped_programs
from pipebench.watch.read.summary import summarise
from pipebench.watch.record.options import WatchOptions
from pipebench.watch.record.recording import SETTINGS_FILE, Settings, told
from pipebench.watch.trace.excerpt import timeline
from pipebench.watch.trace.perfetto import write_trace

if TYPE_CHECKING:
    from pipebench.watch.log.writers import Follow

AT_START = (
    "pipebench: --bound trains on replayed batches. Discard the weights of this run, and every checkpoint that it "
    "writes. It ends after {} iterations.\n"
)
AT_END = "pipebench: discard the weights of this run (--bound).\n"
Keep = Callable[..., object]
"""Gets the result, the line on its error from the kept calibration (None: there is none), and the `WatchedCommand`."""


def _unfollowed(folders: Callable[[], Sequence[Path]]) -> AbstractContextManager[None]:
    return contextlib.nullcontext()


def watch(
    options: WatchOptions, argv: Sequence[str], keep: Keep | None = None, *, full: bool = False, show: bool = True
) -> int:
    """Runs `argv`, reports on standard error, and returns the exit status of what was run.

    `argv` is a script and its arguments, or a whole command line (`options.command`). `keep` receives the result after
    it is shown. `full` shows every figure, and without `show` nothing is shown. If pipebench fails, it prints a message
    on standard error; the status is the same.
    """
    say = sys.stderr.write
    shown: dict[str, Any] = {"width": columns(sys.stderr), "colour": colours(sys.stderr), "full": full}
    shown["lacking"] = missing(encoding(sys.stderr))

    def report(result: WatchResult, *command: WatchedCommand) -> None:
        calibration = _calibration()
        found, programs = without_secrets(result), [without_secrets(one) for one in command]
        if show:
            _guarded(say, lambda: say("\n" + whole(found, calibration, *programs, **shown)))
        if keep is not None:
            _guarded(say, lambda: keep(found, calibration, *programs))

    options = dataclasses.replace(options, started=started(argv, module=options.module, command=options.command))
    for line in limits.too_tight_for_workers():
        say(f"pipebench: {inert(line)}\n")
    if options.bound:
        say(AT_START.format(options.steps or STEPS))
    with _logged(options, say) as follow:
        if options.command:
            status = observe_command(options, argv, say, report, follow)
        else:
            status, _ = observe(options, argv, say, report, follow)
    if options.bound:
        say(AT_END)
    return status


@contextlib.contextmanager
def _logged(options: WatchOptions, say: Callable[[str], object]) -> Iterator[Follow]:
    """What follows the programs while they run: it writes their series, if that was asked for."""
    if not options.log:
        yield _unfollowed
        return
    from pipebench.results.names import hidden_in_words  # only where series are written
    from pipebench.watch.log.live import Live
    from pipebench.watch.log.writers import Log

    shown = str if options.show_names else hidden_in_words()
    log = Log(options.log, options.log_every, lambda folder: Live(folder, shown, options.loader), say)
    try:
        yield log.following
    finally:
        log.end()


def _calibration() -> str | None:
    """The line on the error of the figures, from the calibration that this host keeps. None: it keeps none.

    Nor does it where nobody may read it, or where others may change it: a report does not depend on the cache.
    """
    try:
        if not calibration_file().exists():
            return None  # a report is imported only where it is read: that takes as long as the rest of this module
    except (PipebenchError, OSError):
        return None
    from pipebench.render.calibration import foot
    from pipebench.results.report import kept_calibration

    known = kept_calibration()
    return foot(known) if known else None


def observe(
    options: WatchOptions,
    argv: Sequence[str],
    say: Callable[[str], object],
    report: Callable[[WatchResult], object] = lambda result: None,
    follow: Follow = _unfollowed,
) -> tuple[int, WatchResult | None]:
    """Runs `argv`, summarises its records, and hands the result to `report`.

    Returns the script's exit status and the result. The result is None if the records could not be read.
    Raises KeyboardInterrupt if the script is one of `ours` and was interrupted.
    """
    if not argv:
        raise PipebenchError("there is no script to watch", "name one: pipebench watch train.py [its arguments]")
    with _folder(options) as folder:
        looker, reader = Looker(folder), StackReader(folder)
        found: list[WatchResult] = []

        def read(ended: supervisor.Ended) -> None:
            _check_kept(folder)
            if not options.bound and ended.signal is None:  # else nobody has waited for the workers
                looker.note_load()
            looker.count_kills()
            processes = gather(folder)
            result = summarise(
                processes, options, ended.status, usable_cores(), looker.found, reader.found, ended.lived, ended.stood
            )
            result = one_of_ranks(result if ended.signal is None else after_a_signal(result), rank_of(processes))
            whole = any(one.role == "script" and one.moment("end") is not None for one in processes)
            left = whole and ended.signal == signal.SIGINT  # after Ctrl-C, Python has run its exit, and then ends so
            killed = () if left else script_killed(ended.signal, looker.found, ended.lived)
            notes = (*killed, *result.notes, *_traced(processes, options.export_trace, say))
            steps = timeline(processes, result.loaders_in_loop)
            found.append(dataclasses.replace(result, notes=notes, timeline=steps))
            report(found[0])

        ended = supervisor.run(
            ["-m", *argv] if options.module else list(argv),
            _settings(options, folder),
            meanwhile=lambda: _both(looking(looker, reader), follow(lambda: [folder])),
            afterwards=lambda ended: _guarded(say, lambda: read(ended)),
            impatient=options.impatient,
        )
        if ended.interrupted and options.ours:
            raise KeyboardInterrupt
        return ended.status, found[0] if found else None


def observe_command(
    options: WatchOptions,
    argv: Sequence[str],
    say: Callable[[str], object],
    report: Callable[[WatchResult, WatchedCommand], object],
    follow: Follow = _unfollowed,
) -> int:
    """Runs a command, and hands `report` the figures of its main program and all its programs. Returns its status."""
    with _folder(options) as folder:
        programs = Programs(folder)

        def read(ended: supervisor.Ended) -> None:
            _check_kept(folder / SETTINGS_FILE)
            exits = {**programs.exits.found, **own_exit(ended)}
            records = [records_of(one, exits.get(one.pid)) for one in programs.all()]
            unwatched = programs.hidden.values(), programs.lost.values()
            main, command = programs_of(argv, records, options, ended.status, usable_cores(), *unwatched)
            pid = None if command.shown is None else command.programs[command.shown].pid
            shown = next((one.processes for one in records if one.script.pid == pid), [])
            stood = [*standstill_notes(ended.stood, ended.lived), *stopped_programs(records, ended.pid)]
            notes = [*_traced(shown, options.export_trace, say), *_faults(programs), *stood]
            steps = timeline(shown, main.loaders_in_loop)
            command = dataclasses.replace(command, attempt=attempt(os.environ))
            report(dataclasses.replace(main, notes=(*main.notes, *notes), timeline=steps), command)

        return supervisor.run_command(
            argv,
            watched_environment(folder, _settings(options, folder)),
            meanwhile=lambda: _both(looked_at_all(programs), follow(lambda: [one.folder for one in programs.all()])),
            afterwards=lambda ended: _guarded(say, lambda: read(ended)),
        ).status


@contextlib.contextmanager
def _both(looking: AbstractContextManager[None], following: AbstractContextManager[None]) -> Iterator[None]:
    with following, looking:  # what is found last is followed too
        yield


def records_of(one: SeenProgram, left: Exit | None = None) -> Records:
    """What is known now of a program of a command, which has `left` (None: not seen)."""
    one.looker.count_kills()
    processes = gather(one.folder)
    return Records(processes, one.looker.found, one.stacks.found, one.runs(), left)


def own_exit(ended: supervisor.Ended) -> dict[int, Exit]:
    """How the command's own process ended, by its number. Nobody else may have been able to ask."""
    if ended.lived is None:
        return {}
    status = ended.status if ended.signal is None else -ended.signal
    return {ended.pid: Exit(ended.lived.ended, status or None)}


def _faults(programs: Programs) -> Iterator[Note]:
    for fault in programs.faults:
        yield Note("fault-outside", {"what": "looking at the programs", "fault": fault})


@contextlib.contextmanager
def _folder(options: WatchOptions) -> Iterator[Path]:
    """The folder for records: the chosen one, which stays, or one for this run."""
    if options.records is None:
        with Scratch("watch") as folder:
            yield folder
        return
    options.records.mkdir(parents=True, exist_ok=True)
    if any(options.records.iterdir()):
        raise PipebenchError(
            "the folder for records is not empty", "name an empty folder, or one that does not exist yet"
        )
    yield options.records.resolve()


def _check_kept(records: Path) -> None:
    """Raises PipebenchError if somebody has removed them, as scripts do that clean the folder for temporary files."""
    if not records.exists():
        raise PipebenchError(
            f"this run has no report, because somebody removed its records: {records}",
            "set TMPDIR to a folder that the script and its surroundings leave alone",
        )


def out_file(folder: Path) -> Path:
    """A file for a report in a folder that many machines share: no other process has the same, and none is locked."""
    return folder / f"{platform.node()}-{secrets.token_hex(8)}.json"


def _settings(options: WatchOptions, folder: Path) -> Settings:
    return Settings(
        folder=str(folder),
        every=options.every,
        steps=None if options.bound else options.steps,
        warmup=options.warmup,
        loader=options.loader,
        functions=options.functions,
        bound=(options.steps or STEPS) if options.bound else None,
    )


def _traced(processes: list[Process], place: Path | None, say: Callable[[str], object]) -> Iterator[Note]:
    """Writes the trace if `place` is given. If that fails, says so and yields a note: a short report may lack notes."""
    if place is None:
        return
    try:
        write_trace(processes, place)
    except PipebenchError as error:
        say(_told_problem(error))
        yield Note("trace-not-written", {"problem": error.problem, "remedy": error.remedy})
    except Exception as error:
        say(f"pipebench: there is no trace, because of a fault of pipebench ({inert(told(error))})\n")
        yield Note("fault-outside", {"what": "writing the trace", "fault": told(error)})


def _guarded(say: Callable[[str], object], act: Callable[[], object]) -> None:
    try:
        act()
    except PipebenchError as error:
        say(_told_problem(error))
    except Exception as error:
        what = inert(f"{type(error).__name__}: {error}")
        say(f"pipebench: this run has no report, because of a fault of pipebench ({what})\n")


def _told_problem(error: PipebenchError) -> str:
    return f"pipebench: {inert(error.problem)}\n  {inert(error.remedy)}\n"
