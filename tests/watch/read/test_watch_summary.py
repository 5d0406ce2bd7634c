"""Records to results to text: pure, so the records are written by hand and the text is asserted whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipebench.render.watch import render
from pipebench.results.report import encode, of_watch
from pipebench.results.watched import WatchResult
from pipebench.watch.read.gather import Process, gather, percentile
from pipebench.watch.read.summary import summarise
from pipebench.watch.record.options import WatchOptions

MS = 1_000_000


def _sums(worker: int | None, begin: int, stages: dict[str, list[int]], **more: Any) -> list[Any]:
    busy = sum(wall for wall, _ in stages.values())
    record = {
        "loader": 1, "worker": worker, "round": 0, "batch": 0, "begin": begin, "end": begin + busy, "batches": 1,
        "samples": 4, "failed": 0, "busy": busy, "cpu": busy, "sample_cpu": busy // 2, "stages": stages,
        "lengths": [[300, 4]], "slow": [[5 * MS, "a\x1b[31m.jpg"]], "gc": [MS, 1], "serialise": [MS, MS // 2, 1, 400],
    }  # fmt: skip
    return ["sums", {**record, **more}]


def _turn(number: int, begin: int, phases: list[int], **more: Any) -> list[Any]:
    record = {
        "turns": 1, "first": number, "phases": phases, "trained": 1, "begin": begin, "end": begin + sum(phases),
        "loader": 1, "pass": 0, "waits": [], "lengths": [[400, 1]] if number else [], "idle": None,
    }  # fmt: skip
    return ["turns", {**record, **more}]


def _loader(number: int = 1, **more: Any) -> list[Any]:
    record = {
        "loader": number, "dataset": "Photos", "workers": 2, "batch_size": 4, "start_method": "fork",
        "prefetch_factor": 2, "persistent": False, "pin_memory": False,
    }  # fmt: skip
    return ["loader", {**record, **more}]


def _stages() -> list[list[Any]]:
    rows = [("getitem", "fetch", False), ("decode", "ImageFile.load", True), ("transform", "Flip\x1b", False)]
    return [["stage", number, *row] for number, row in enumerate(rows)]


def _write(folder: Path, *files: list[list[Any]]) -> list[Process]:
    for number, lines in enumerate(files):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / f"{number}.spans").write_text(text)
    return gather(folder)


def _run(folder: Path, *, turns: list[list[Any]] | None = None, **more: Any) -> list[Process]:
    script = [
        ["process", {"pid": 10, "role": "script", "at": 0}],
        _loader(**more),
        ["pass", {"loader": 1, "number": 0, "begin": 0, "constructed": 5 * MS}],
        *(turns if turns is not None else _turns()),
    ]
    workers = [
        [
            ["process", {"pid": 20 + worker, "role": "worker", "loader": 1, "worker": worker, "start_method": "fork"}],
            *_stages(),
            _sums(worker, 0, {"0": [MS, 0], "1": [(12 + worker) * MS, 8 * MS], "2": [3 * MS, 0]}),
            ["mark", "end", 99 * MS],
        ]
        for worker in range(2)
    ]
    return _write(folder, script, *workers)


def _turns() -> list[list[Any]]:
    first = _turn(0, 10 * MS, [40 * MS, 0, 30 * MS, 50 * MS, MS, MS], first_wait=40 * MS)
    return [first, *(_turn(number, 100 * MS * number, [6 * MS, 0, 2 * MS, MS, MS // 2, MS // 2]) for number in (1, 2))]


def _summary(processes: list[Process], cores: float = 8, **options: Any) -> WatchResult:
    return summarise(processes, WatchOptions(**options), 0, cores)


def test_the_whole_report(tmp_path: Path) -> None:
    assert (
        render(_summary(_run(tmp_path)))
        == """\
The loop waits for data 60 % of each iteration (6.00 ms of 10.0 ms). Its 2 workers are busy 100 % of the time; 76 % of \
that is ImageFile.load (read + decode).
Next: raise num_workers above 2: its workers use 2.0 of 8 usable cores and never rest.

Inside loader 1: Photos, batch 4, 2 workers, fork (8 samples, exclusive time)
stage                kind           ms/sample  on CPU  of worker time  least–most of a worker
---------------------------------------------------------------------------------------------
ImageFile.load       read + decode       3.12    2.00          75.8 %               3.00–3.25
Flip\\x1b             transform           0.75                  18.2 %               0.75–0.75
fetch                getitem             0.25                   6.1 %               0.25–0.25
queue feeder thread  serialise           0.25    0.12           apart
A sample: p50 3.74, p95 3.74, p99 3.74 ms; 2.06 on the CPU on average

The loop over loader 1 (3 iterations)
phase      ms/iteration   share
-------------------------------
wait               6.00  60.0 %
forward            2.00  20.0 %
backward           1.00  10.0 %
optimiser          0.50   5.0 %
other              0.50   5.0 %
all                10.0

Start-up of loader 1: Photos, batch 4, 2 workers, fork: first batch after 50.0 ms
Worker 0 of loader 1: 1 batch, busy 100 %, 16.0 ms on the CPU of 16.0 ms busy, 1 garbage collection, 1.00 ms
Worker 1 of loader 1: 1 batch, busy 100 %, 17.0 ms on the CPU of 17.0 ms busy, 1 garbage collection, 1.00 ms
Hand-off: pickling takes a worker's feeder thread 1.00 ms and 400 B of pipe a batch

Slowest samples
sample                     ms
-----------------------------
a\\x1b[31m.jpg  loader 1  5.00
a\\x1b[31m.jpg  loader 1  5.00
"""
    )


def test_the_next_move_follows_the_evidence(tmp_path: Path) -> None:
    processes = _run(tmp_path)
    assert _summary(processes, cores=2).next_move == (
        "make ImageFile.load cheaper, the largest part of a sample (3.12 ms of 4.12 ms): the workers already use 2.0 "
        "of 2 usable cores"
    )


def test_no_move_where_workers_rest(tmp_path: Path) -> None:
    processes = _run(tmp_path)
    for process in processes[1:]:
        process.sums.append({**process.sums[0], "begin": 900 * MS, "end": 917 * MS})
    assert _summary(processes).next_move is None


def test_data_that_does_not_limit(tmp_path: Path) -> None:
    turns = [_turn(number, number * 100 * MS, [MS, 0, 60 * MS, 30 * MS, MS, MS]) for number in (1, 2)]
    result = _summary(_run(tmp_path, turns=turns))
    assert result.verdict == (
        "Not limited by data: the loop waits 1 % of an iteration of 93.0 ms. Its largest phase is forward, 65 %."
    )
    assert result.next_move is None


def test_on_a_device_its_own_idle_time_counts(tmp_path: Path) -> None:
    turns = [_turn(number, number * 100 * MS, [6 * MS, 0, 4 * MS, 0, 0, 0], idle=[MS, 1]) for number in (1, 2)]
    result = _summary(_run(tmp_path, turns=turns))
    assert result.device_idle is not None and result.device_idle.s_per_iteration == pytest.approx(0.001)
    assert result.wait_share == pytest.approx(0.6)
    assert result.verdict.startswith("The device waits for data 10 % of each iteration (1.00 ms of 10.0 ms).")


def test_workers_that_were_not_seen_are_said_to_be_so(tmp_path: Path) -> None:
    script = [["process", {"pid": 10, "role": "script", "at": 0}], _loader(start_method="spawn"), *_turns()]
    result = _summary(_write(tmp_path, script))
    assert result.notes == ("loader 1: its workers (2, spawn) were not watched",)
    assert not result.loaders[0].watched and result.stages == ()
    assert "The inside of its 2 workers was not watched." in result.verdict


def test_nothing_to_watch(tmp_path: Path) -> None:
    result = _summary(_write(tmp_path, [["process", {"pid": 1, "role": "script", "at": 0}]]))
    assert render(result) == "No DataLoader was iterated: nothing was watched.\n\n"
    assert result.wait_share is None and result.iterations == 0
    assert _summary(_write(tmp_path)).loaders == ()


def test_loaders_in_step_share_their_iterations(tmp_path: Path) -> None:
    script = [["process", {"pid": 10, "role": "script", "at": 0}], _loader(1, workers=0), _loader(2, workers=0)]
    for number in range(4):
        script.append(_turn(number, number * MS, [MS, 0, 0, 0, 0, 0], trained=0))
        script.append(_turn(number, number * MS, [2 * MS, 0, MS, 0, 0, 0], loader=2))
    script.append(["together", 1, 2])
    result = _summary(_write(tmp_path, script))
    assert result.loaders_in_loop == (1, 2) and result.iterations == 4
    assert result.loop[0].s_per_iteration == pytest.approx(0.003)


def test_warm_up_and_stop_bound_the_tables(tmp_path: Path) -> None:
    script = [["process", {"pid": 10, "role": "script", "at": 0}], _loader(workers=0)]
    script += [_turn(number, number * 10 * MS, [MS, 0, 0, 0, 0, 0]) for number in range(8)]
    script += [["mark", "warm", 20 * MS], ["mark", "stop", 60 * MS]]
    assert _summary(_write(tmp_path, script), warmup=2).iterations == 4


def test_files_of_another_version_or_cut_short_are_survived(tmp_path: Path) -> None:
    lines = [["process", {"pid": 10, "role": "script", "at": 0}], ["future", 1, 2], [], {"no": "list"}, _loader()]
    assert _summary(_write(tmp_path, lines)).loaders[0].dataset == "Photos"


def test_the_document_has_the_keys_that_were_promised(tmp_path: Path) -> None:
    document = json.loads(encode(of_watch(_summary(_run(tmp_path)), None)))
    assert document["schema_version"] == 2
    assert set(document["watched"]) >= {
        "stages", "loop", "iterations", "wait_share", "hand_off", "workers", "startup_s", "start_method", "slowest",
    }  # fmt: skip
    assert set(document["watched"]["stages"][0]) >= {
        "name", "kind", "loader", "samples", "exclusive_s_per_sample", "cpu_s_per_sample", "worker_share",
    }  # fmt: skip
    json.dumps(document, allow_nan=False)
    assert document["partial"] is False and document["measurements"] == document["ceilings"] == []


def test_percentiles() -> None:
    assert percentile({}, 0.5) is None
    assert percentile({10: 98, 20: 2}, 0.5) == pytest.approx(10e-9)
    assert percentile({10: 98, 20: 2}, 0.99) == pytest.approx(20e-9)
