"""Records to results to text: pure, so the lines are made by hand and the text is asserted whole."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipebench.render import layout
from pipebench.render.watch import parts
from pipebench.render.watch_notes import sentence
from pipebench.render.watch_verdict import verdict
from pipebench.results.next_move import NextMove
from pipebench.results.report import encode, of_watch
from pipebench.results.watched import Note, Verdict, WatchResult
from pipebench.watch.read.gather import Process, gather, percentile
from pipebench.watch.read.summary import summarise
from pipebench.watch.record.device_lines import DeviceIdleTime
from pipebench.watch.record.lines import (
    Collected,
    FetchSums,
    Line,
    LoaderFound,
    LoadersTogether,
    LoopSums,
    Moment,
    NewStage,
    PassBegun,
    Pickled,
    ProcessStarted,
    StageName,
)
from pipebench.watch.record.options import WatchOptions
from pipebench.watch.record.record_file import WAIT_PARTS, encoded
from pipebench.watch.record.spent import ROWS, SpentInPass, TimeSpent
from pipebench.watch.record.worker_lines import LongSample

MS = 1_000_000


WHOLE = """\
The loop waits for data 60 % of each iteration (6.00 ms of 10.0 ms). Its 2 workers are busy 100 % of the time;
76 % of that is ImageFile.load (read + decode).

Stages of loader 1: Photos, batch 4, 2 workers (fork); 8 samples
stage                 kind            ms/sample    share   least–most
─────────────────────────────────────────────────────────────────────
ImageFile.load        read + decode        3.12   75.8 %    3.00–3.25
Flip\\x1b              transform            0.75   18.2 %    0.75–0.75
fetch                 getitem              0.25    6.1 %    0.25–0.25
queue feeder thread   serialise            0.25    apart
  A sample: p50 3.74, p95 3.74, p99 3.74 ms
  A batch is 100 % CPU time.
  Times are wall times and exclusive: a stage without the stages inside it. share: of the time in which
  workers make batches. least–most: of a worker.

Loop over loader 1: 10.0 ms an iteration; 3 iterations
phase       ms/iteration    share
─────────────────────────────────
wait                6.00   60.0 %
forward             2.00   20.0 %
backward            1.00   10.0 %
optimiser           0.50    5.0 %
other               0.50    5.0 %

Start-up and the end of a pass (not included above)
  Loader 1: Photos, batch 4, 2 workers (fork); first batch after 50.0 ms

Workers of loader 1
worker   batches    busy   busy ms   CPU ms   GC ms (runs)
──────────────────────────────────────────────────────────
     0         1   100 %      16.0     16.0       1.00 (1)
     1         1   100 %      17.0     17.0       1.00 (1)
  busy: making batches, while the loop over its loader runs. CPU: of that, on a core. all CPU: of the whole
  process, with start-up and all threads. RAM: shared pages are divided among their processes.

Hand-off from workers to the script
  Pickling takes the worker's feeder thread 1.00 ms a batch (500 µs of CPU time); 400 B go through the pipe.

Slowest samples
sample          loader   worker     ms
──────────────────────────────────────
a\\x1b[31m.jpg        1        0   5.00
a\\x1b[31m.jpg        1        1   5.00

Next: raise num_workers above 2. The workers are always busy. Of 8 usable cores, the workers use 2.0 and the
loop one.
Then: `pipebench advise train.py` tries what helps while it trains.
"""


def _sums(begin: int, stages: dict[int, int], **more: Any) -> FetchSums:
    busy = sum(stages.values())
    line = FetchSums(
        1, begin, begin + busy, batches=1, samples=4, busy_ns=busy, cpu_ns=busy,
        stages_ns=stages, lengths={300: 4}, slow=[LongSample(5 * MS, "a\x1b[31m.jpg")], gc=Collected(MS, 1),
        pickled=Pickled(MS, MS // 2, 1, 400),
    )  # fmt: skip
    return replace(line, **more)


def _turn(number: int, begin: int, phases: list[int], **more: Any) -> LoopSums:
    lengths = {400: 1} if number else {}
    line = LoopSums(1, 0, first=number, begin=begin, turns=1, trained=1, phases_ns=phases, lengths=lengths)
    return replace(line, **more)


def _loader(number: int = 1, **more: Any) -> LoaderFound:
    return replace(LoaderFound(number, "Photos", 2, 4, "fork", 2), **more)


def _stages() -> list[NewStage]:
    rows = [("getitem", "fetch", False), ("decode", "ImageFile.load", True), ("transform", "Flip\x1b", False)]
    return [NewStage(number, StageName(*row)) for number, row in enumerate(rows)]


def _script(*lines: Line) -> Process:
    return Process([ProcessStarted(10, "script", 0), *lines])


def _run(*, turns: list[LoopSums] | None = None, later: Sequence[FetchSums] = (), **more: Any) -> list[Process]:
    """The script and its two workers, each of which wrote once, and `later` again."""
    script = _script(_loader(**more), PassBegun(1, 0, 0), *(turns if turns is not None else _turns()))
    workers = []
    for worker in range(2):
        sums = _sums(0, {0: MS, 1: (12 + worker) * MS, 2: 3 * MS})
        started = ProcessStarted(20 + worker, "worker", 0, 1, worker, "fork")
        workers.append(Process([started, *_stages(), sums, *later, Moment("end", 99 * MS)]))
    return [script, *workers]


def _turns() -> list[LoopSums]:
    first = _turn(0, 10 * MS, [40 * MS, 0, 30 * MS, 50 * MS, MS, MS], first_wait_ns=40 * MS)
    return [first, *(_turn(number, 100 * MS * number, [6 * MS, 0, 2 * MS, MS, MS // 2, MS // 2]) for number in (1, 2))]


def _summary(processes: list[Process], cores: float = 8, **options: Any) -> WatchResult:
    return summarise(processes, WatchOptions(**options), 0, cores)


def _text(result: WatchResult) -> str:
    return layout.text(parts(result, full=True))


def test_the_whole_report() -> None:
    assert _text(_summary(_run())) == WHOLE


def test_the_next_move_follows_the_evidence() -> None:
    processes = _run()
    more = _summary(processes).next_move
    assert isinstance(more, NextMove) and more.cores_used == pytest.approx(2)
    assert (more.action, more.workers, more.usable_cores, more.stage) == ("raise-num-workers", 2, 8, None)
    cheaper = _summary(processes, cores=2)
    assert isinstance(cheaper.next_move, NextMove)
    assert (cheaper.next_move.action, cheaper.next_move.stage) == ("make-stage-cheaper", "ImageFile.load")
    assert cheaper.next_move.stage_s == pytest.approx(0.003125) and cheaper.next_move.stage_kind == "decode"
    assert _text(cheaper).endswith(
        "\nNext: make ImageFile.load cheaper; it takes 3.12 ms of the 4.12 ms of a sample. No whole core is "
        "free: of 2,\n"
        "the workers use 2.0 and the loop one.\n"
        "Then: `pipebench advise train.py` tries what helps while it trains.\n"
    )


def test_without_workers_the_move_is_to_set_some_where_a_core_is_free() -> None:
    processes = [_script(_loader(workers=0), *_stages(), *_turns(), _sums(0, {1: 12 * MS}))]
    found = _summary(processes)
    assert found.next_move == NextMove("set-num-workers", 8)
    assert verdict(found.verdict) == (
        "The loop waits for data 60 % of each iteration (6.00 ms of 10.0 ms). It has no workers, so loading "
        "runs inside "
        "the loop; 100 % of loading is ImageFile.load (read + decode)."
    )
    assert _summary(processes, cores=1).next_move is None


def test_no_move_where_workers_rest() -> None:
    later = [_sums(900 * MS, {1: 17 * MS})]
    assert _summary(_run(later=later)).next_move is None


def test_a_function_has_its_share_with_the_stages_inside_it() -> None:
    function = NewStage(3, StageName("function", "load", False))
    processes = _run()
    for worker in processes[1:]:
        busy = 16 * MS
        worker.lines += [function, _sums(20 * MS, {1: busy - MS, 3: MS}, whole_ns={3: busy})]
    found = {one.name: one.whole_share for one in _summary([Process(one.lines) for one in processes]).stages}
    assert found["load"] == pytest.approx(32 / (16 + 17 + 32)) and found["ImageFile.load"] is None


def test_data_that_does_not_limit() -> None:
    turns = [_turn(number, number * 100 * MS, [MS, 0, 60 * MS, 30 * MS, MS, MS]) for number in (1, 2)]
    result = _summary(_run(turns=turns))
    assert isinstance(result.verdict, Verdict) and result.next_move is None
    assert (result.verdict.limit, result.verdict.phase) == ("training", "forward")
    assert verdict(result.verdict) == (
        "Data does not limit training: the loop waits for data 1 % of each iteration (1.00 ms of 93.0 ms). Its largest "
        "phase is forward, 65 %."
    )


def test_on_a_device_its_own_idle_time_counts() -> None:
    phases, idle = [6 * MS, 0, 4 * MS, 0, 0, 0], DeviceIdleTime(MS, 1)
    turns = [_turn(number, number * 100 * MS, phases, idle=idle) for number in (1, 2)]
    result = _summary(_run(turns=turns))
    assert result.device_idle is not None and result.device_idle.s_per_iteration == pytest.approx(0.001)
    assert result.wait_share == pytest.approx(0.6)
    assert isinstance(result.verdict, Verdict) and result.verdict.waits == "device"
    assert result.verdict.wait_share == pytest.approx(0.1)
    assert verdict(result.verdict).startswith("The device waits for data 10 % of each iteration (1.00 ms of 10.0 ms).")


def test_on_a_device_an_iteration_waits_for_each_of_two_loaders() -> None:
    """The device is idle for 50 ms in the wait for one loader and for 0 ms in that for the other: 50 ms in each."""
    one, two = [50 * MS, 0, 0, 0, 0, 0], [0, 0, 50 * MS, 0, 0, 0]
    script: list[Line] = [_loader(1), _loader(2), LoadersTogether(1, 2)]
    for number in (1, 2):
        script.append(_turn(number, number * 100 * MS, one, trained=0, idle=DeviceIdleTime(50 * MS, 1)))
        script.append(_turn(number, number * 100 * MS, two, loader=2, idle=DeviceIdleTime(0, 1)))
    found = _summary([_script(*script)]).device_idle
    assert found is not None and (found.s_per_iteration, found.share) == (pytest.approx(0.05), pytest.approx(0.5))


def test_workers_that_were_not_seen_are_said_to_be_so() -> None:
    result = _summary([_script(_loader(start_method="spawn"), *_turns())])
    assert result.notes == (Note("workers-not-watched", {"loader": 1, "workers": 2, "start_method": "spawn"}),)
    assert not result.loaders[0].watched and result.stages == ()
    assert verdict(result.verdict).endswith("Its 2 workers were not watched, so their stages are unknown.")


def _with_parts(**spent_ms: int) -> WatchResult:
    parts = [spent_ms.get(name.replace("-", "_"), 0) * MS for name in WAIT_PARTS]
    return _summary(_run(turns=[_turns()[0], *(replace(one, wait_parts_ns=parts) for one in _turns()[1:])]))


def test_the_parts_of_the_wait_add_up_to_it() -> None:
    result = _with_parts(sampler=4, wait_for_worker=1)
    found = {one.part: (one.s_per_iteration, one.share) for one in result.wait_parts}
    assert list(found) == ["sampler", "wait-for-worker", "rest"]
    assert found["sampler"] == (pytest.approx(0.004), pytest.approx(4 / 6))
    assert found["rest"] == (pytest.approx(0.001), pytest.approx(1 / 6))
    lines = _text(result).splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith("wait  "))
    assert [line.split() for line in lines[begin : begin + 4]] == [
        ["wait", "6.00", "60.0", "%"],
        ["·", "sampler", "4.00", "40.0", "%"],
        ["·", "no", "batch", "was", "there", "1.00", "10.0", "%"],
        ["·", "the", "rest", "of", "next()", "1.00", "10.0", "%"],
    ]
    short = layout.text(parts(result))
    assert "\n  of the wait: sampler 67 %, no batch was there 17 %, the rest of next() 17 %\n" in short
    assert _summary(_run()).wait_parts == ()


@pytest.mark.parametrize(
    ("spent", "part", "said", "move"),
    [
        (
            {"sampler": 4, "wait_for_worker": 2},
            "sampler",
            "67 % of the wait is the sampler or batch sampler",
            "sampler",
        ),
        ({"pin": 6}, "pin", "100 % of the wait is copying batches into pinned memory", "batches faster to pin"),
    ],
)
def test_the_verdict_names_the_largest_part_of_the_scripts_own_process(
    spent: dict[str, int], part: str, said: str, move: str
) -> None:
    result = _with_parts(**spent)
    assert isinstance(result.verdict, Verdict) and result.verdict.wait_part == part
    assert verdict(result.verdict) == (
        "The loop waits for data 60 % of each iteration (6.00 ms of 10.0 ms). "
        f"{said}, in the script's own process. More workers do not change that."
    )
    assert isinstance(result.next_move, NextMove) and result.next_move.action == "shorten-wait-part"
    assert f"Next: make {'the ' if part == 'sampler' else ''}{move}" in _text(result)


def test_workers_that_are_waited_for_stay_the_verdict() -> None:
    result = _with_parts(sampler=2, wait_for_worker=3)
    assert isinstance(result.verdict, Verdict) and result.verdict.wait_part is None
    assert isinstance(result.next_move, NextMove) and result.next_move.action == "raise-num-workers"
    assert "busy 100 % of the time" in verdict(result.verdict)


def test_nothing_to_watch() -> None:
    result = _summary([_script()])
    assert _text(result) == (
        "Nothing was watched: the script iterated no DataLoader, and no optimiser stepped in a loop without one.\n"
    )
    assert result.wait_share is None and result.iterations == 0
    assert _summary([]).loaders == ()


def test_loaders_in_step_share_their_iterations() -> None:
    script: list[Line] = [_loader(1, workers=0), _loader(2, workers=0)]
    parts = {"lengths": {10: 1}, "waits": {10: 1}}
    for number in range(4):
        script.append(_turn(number, number * MS, [MS, 0, 0, 0, 0, 0], trained=0, **parts))
        script.append(_turn(number, number * MS, [2 * MS, 0, MS, 0, 0, 0], loader=2, **parts))
    assert _summary([_script(*script)]).iteration_p50_s
    result = _summary([_script(*script, LoadersTogether(1, 2))])
    assert result.loaders_in_loop == (1, 2) and result.iterations == 4
    assert result.iteration_p50_s is None and result.wait_p99_s is None  # nothing says which parts belong together
    assert result.loop[0].s_per_iteration == pytest.approx(0.003)


def test_the_verdict_on_a_loader_with_a_loop_of_its_own_has_the_figures_of_that_loop() -> None:
    """Two loops train after each other: one waits 9 of 10 ms, the other never, and is 100 times as fast."""
    slow = [_turn(number, number * 10 * MS, [9 * MS, 0, MS, 0, 0, 0]) for number in range(1, 4)]
    fast = [_turn(number, number * MS // 10, [0, 0, MS // 10, 0, 0, 0], loader=2) for number in range(1, 40)]
    result = _summary([_script(_loader(1, workers=0), _loader(2, workers=0), *slow, *fast)])
    assert isinstance(result.verdict, Verdict) and result.wait_share == pytest.approx(27 / 33.9)
    assert verdict(result.verdict).startswith("The loop waits for data 90 % of each iteration (9.00 ms of 10.0 ms).")
    assert "This is loader 1 " in verdict(result.verdict)


def test_warm_up_and_stop_bound_the_tables() -> None:
    turns = [_turn(number, number * 10 * MS, [MS, 0, 0, 0, 0, 0]) for number in range(8)]
    script = _script(_loader(workers=0), *turns, Moment("warm", 20 * MS), Moment("stop", 60 * MS))
    result = _summary([script], warmup=2)
    assert (result.iterations, result.warmup_iterations) == (4, 2)


def test_a_warm_up_that_is_longer_than_the_run_is_said() -> None:
    turns = [_turn(number, number * 10 * MS, [MS, 0, 0, 0, 0, 0]) for number in range(8)]
    result = _summary([_script(_loader(workers=0), *turns)], warmup=20)
    assert isinstance(result.verdict, Verdict) and result.verdict.limit == "no-iteration"
    assert verdict(result.verdict) == (
        "There is nothing to judge: the loop made 8 iterations, all of them in the warm-up. Use a smaller --warmup."
    )


def test_lines_that_cannot_be_read_are_left_out_and_counted(tmp_path: Path) -> None:
    text = encoded(ProcessStarted(10, "script", 0), _loader(workers=0), _turns()[0])
    whole, last = text.removesuffix(b"\n").rsplit(b"\n", 1)
    others = b'["Future",{"a":1}]\n[]\n{"no":"list"}\nno JSON\n["LoaderFound",{"loader":"one"}]\n\xff\n["Moment",3]\n'
    (tmp_path / "10-0.spans").write_bytes(whole + b"\n" + others + last)
    result = _summary(gather(tmp_path))
    assert result.loaders[0].dataset == "Photos" and result.iterations == 0
    assert result.notes == (Note("lines-unread", {"pid": 10, "lines": 8}),)
    assert sentence(result.notes[0]) == (
        "8 lines of the records of the script (process 10) could not be read. Figures may be missing."
    )


def test_a_process_whose_first_line_is_lost_does_not_stand_for_the_script(tmp_path: Path) -> None:
    """As of a worker that began when the folder of temporary files was full."""
    spent = TimeSpent(0, 300 * MS, 300 * MS, "before", [SpentInPass(1, 0, [MS] * len(ROWS))])
    lines = ProcessStarted(77, "script", 0), _loader(workers=0), PassBegun(1, 0, 0), *_turns(), spent
    (tmp_path / "77-5.spans").write_bytes(encoded(*lines, Moment("end", 300 * MS)))
    (tmp_path / "10-9.stopped").write_bytes(b"")
    result = _summary(gather(tmp_path))
    assert result.account is not None
    assert [sentence(one) for one in result.notes if one.code == "recording-stopped"] == [
        "Recording stopped in a process whose first record is lost, such as a worker (process 10): its records could "
        "not be written. Free some space where temporary files lie, or set TMPDIR to a folder on another disk."
    ]
    assert [one.role for one in gather(tmp_path)] == ["script", "unknown"]


def test_the_script_is_known_by_its_passes_where_its_first_line_is_lost(tmp_path: Path) -> None:
    (tmp_path / "77-5.spans").write_bytes(encoded(_loader(workers=0), PassBegun(1, 0, 0), *_turns()))
    assert [(one.pid, one.role) for one in gather(tmp_path)] == [(77, "script")]


def test_the_document_has_the_keys_that_were_promised() -> None:
    document = json.loads(encode(of_watch(_summary(_run()), None)))
    assert document["schema_version"] == 2
    assert set(document["watched"]) >= {
        "stages", "loop", "iterations", "wait_share", "hand_off", "workers", "startup_s", "start_method", "slowest",
    }  # fmt: skip
    assert set(document["watched"]["stages"][0]) >= {
        "name", "kind", "loader", "samples", "exclusive_s_per_sample", "worker_share",
    }  # fmt: skip
    json.dumps(document, allow_nan=False)
    assert document["partial"] is False and document["measurements"] == document["ceilings"] == []


def test_percentiles() -> None:
    assert percentile({}, 0.5) is None
    assert percentile({10: 98, 20: 2}, 0.5) == pytest.approx(10e-9)
    assert percentile({10: 98, 20: 2}, 0.99) == pytest.approx(20e-9)


def test_a_loader_that_was_not_iterated_is_not_called_none_at_all() -> None:
    result = summarise(_run(), WatchOptions(loader=9), 0, 2.0)
    assert result.verdict == Verdict("no-such-loader", loader=9, loaders=1)
    assert _text(result).startswith("There is no loader 9, which --loader asks for: the script iterated 1 loader. They")
