"""One rank of several, of which the siblings on its machine were not watched with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from made_up_loop import host, loader, result, worker
from test_merged import NODE
from test_ranks import NOTHING

from pipebench.render.watch_notes import sentence
from pipebench.render.watch_verdict import next_command
from pipebench.results.programs import Program, WatchedCommand
from pipebench.results.report import Report
from pipebench.results.watched import WatchResult
from pipebench.watch import command
from pipebench.watch.launch.footprint import Footprint
from pipebench.watch.launch.stacks import Looks
from pipebench.watch.launch.supervisor import Ended
from pipebench.watch.read.gather import Process
from pipebench.watch.read.merged import merged
from pipebench.watch.read.one_of_ranks import one_of_ranks
from pipebench.watch.read.programs import Records, programs_of
from pipebench.watch.read.verdict import diagnose
from pipebench.watch.record.lines import LoaderFound, LoopSums, PassBegun, ProcessStarted
from pipebench.watch.record.options import WatchOptions
from pipebench.watch.record.program_lines import ProgramStarted, RankFound
from pipebench.watch.script.ranks import from_environment

MS = 1_000_000
SLEEPING = tuple(worker(one, cpu_s=0.3, cores=0.35) for one in range(2))


def _rank(number: int, of: int = 2) -> WatchResult:
    """It uses 0.8 of two cores, and would be told to use more."""
    alone = result(loader(script_cores=0.1), workers=SLEEPING, host=host(0.0, 4), cores=2.0)
    verdict, move = diagnose(alone)
    assert move is not None and move.action == "raise-num-workers"
    known = replace(alone, verdict=verdict, next_move=move, notes=(), started="train.py --epochs 3")
    return one_of_ranks(known, RankFound(number, of))


def test_a_rank_alone_is_said_to_be_one_and_promised_no_cores() -> None:
    found = _rank(0, 8)
    assert found.next_move is None and found.host is not None and found.host.foreign_cores is None
    assert sentence(found.notes[0]).startswith("This is rank 0 of 8. Other ranks may share this machine")
    assert next_command(found, of_command=False) == (
        "This is rank 0 of 8. `pipebench watch -- COMMAND` compares all of them, with the command that starts them, "
        "such as `python train.py --epochs 3` or `torchrun ... train.py --epochs 3`."
    )
    assert "`pipebench show --merge FOLDER` compares" in (next_command(found, of_command=True) or "")


def test_what_needs_no_cores_is_still_advised() -> None:
    found = replace(_rank(0), notes=())
    for move in (None, replace(diagnose(found)[1], action="make-hand-off-cheaper")):  # type: ignore[type-var]
        assert one_of_ranks(replace(found, next_move=move), RankFound(0, 2)).next_move == move


def _process(*lines: Any) -> Process:
    turns = LoopSums(1, 0, 1, MS, 9, 9, [0, 0, 0, 60 * MS, 0, 0, 0])
    loop = LoaderFound(1, "Photos", 1, 8, "fork", 2), PassBegun(1, 0, 0), turns
    return Process([ProcessStarted(10, "script", 0), ProgramStarted(0, 1, ["train.py"]), *lines, *loop])


def test_a_watched_script_says_that_it_is_one_of_several(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: object, afterwards: Callable[[Ended], None], **__: object) -> Ended:
        afterwards(Ended(0, None))
        return Ended(0, None)

    monkeypatch.setattr(command.supervisor, "run", run)
    for ranks, codes in ((1, []), (8, ["one-of-ranks"])):
        monkeypatch.setattr(command, "gather", lambda _, ranks=ranks: [_process(RankFound(0, ranks))])
        _, found = command.observe(WatchOptions(), ["train.py"], lambda text: None)
        assert found is not None and [one.code for one in found.notes if one.code == "one-of-ranks"] == codes


@pytest.mark.parametrize(
    ("ranks", "told"),
    [
        ([RankFound(0, 2), RankFound(1, 2)], 0),
        ([RankFound(0, 2)], 1),
        ([RankFound(0, 2, 0, "node", 1)], 0),
        ([RankFound(0, 8, 0, "node", 2), RankFound(1, 8, 1, "node", 2)], 0),
        ([RankFound(0, 8, 0, "node"), RankFound(1, 8, 1, "node")], 2),
    ],
    ids=["both", "one of two", "the other is on another machine", "half of the machines", "more may be here"],
)
def test_of_a_command_ranks_are_alone_if_fewer_were_seen_than_its_machine_may_have(
    ranks: list[RankFound], told: int
) -> None:
    records = [Records([_process(one)], Footprint(), Looks()) for one in ranks]
    main, found = programs_of((), records, WatchOptions(), 0, 2.0)
    figures = [one.watched or main for one in found.programs]
    assert sum(note.code == "one-of-ranks" for one in figures for note in one.notes) == told


def test_a_rank_that_loads_nothing_was_watched_all_the_same() -> None:
    idle = Process([ProcessStarted(11, "script", 0), ProgramStarted(0, 1, ["train.py"]), RankFound(1, 2)])
    records = [Records([one], Footprint(), Looks()) for one in (_process(RankFound(0, 2)), idle)]
    found, _ = programs_of((), records, WatchOptions(), 0, 2.0)
    assert "one-of-ranks" not in [one.code for one in found.notes]


def test_the_launcher_says_how_many_ranks_are_here() -> None:
    names = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}
    assert from_environment(names) == RankFound(5, 8, 1, "   ", 4)
    assert from_environment({**names, "LOCAL_WORLD_SIZE": ""}) == RankFound(5, 8, 1, "   ", None)


def _reports(*hosts: str, of: int = 2, cores: tuple[int, ...] = (0, 1)) -> list[Report]:
    """One report of each rank, as `srun pipebench watch -- python train.py` saves them."""
    made = []
    for number, name in enumerate(hosts):
        one = Program(number, "train.py", 0.0, 9.0, "ended", rank=number, ranks=of, cores=cores)
        watched = replace(NOTHING, **{field: getattr(_rank(number, of), field) for field in _KEPT})
        made.append(
            Report(2, machine=replace(NODE, host=name), watched=watched, command=WatchedCommand((), 0, (one,), 0))
        )
    return made


_KEPT = ("verdict", "next_move", "loaders", "loaders_in_loop", "loop", "iterations", "stages", "workers", "host",
         "notes", "usable_cores")  # fmt: skip


def _merged(reports: list[Report]) -> list[WatchResult]:
    found = merged(reports)
    assert found.command is not None and found.watched is not None
    return [one.watched or found.watched for one in found.command.programs]


def test_ranks_of_one_machine_are_no_other_processes_once_they_are_merged() -> None:
    for one in _merged(_reports("node", "node")):
        assert one.host is not None and one.host.sibling_cores == pytest.approx(0.8) and one.host.shared_cores == 2
        assert one.next_move is not None and one.next_move.sibling_cores == pytest.approx(0.8)
        assert not one.notes


def test_a_rank_that_is_alone_on_its_machine_is_told_what_a_single_process_is() -> None:
    for one in _merged(_reports("node0", "node1")):
        assert one.next_move is not None and one.next_move.action == "raise-num-workers" and not one.notes


def test_nothing_is_told_while_a_rank_is_missing_that_may_be_on_the_same_machine() -> None:
    for one in _merged(_reports("node", "node", of=3)):
        assert one.next_move is None and [note.code for note in one.notes] == ["one-of-ranks"]


def test_ranks_that_have_cores_of_their_own_share_all_of_these() -> None:
    apart = [*_reports("node"), *_reports("node", "node", cores=(2, 3))[1:]]
    assert [one.host.shared_cores for one in _merged(apart) if one.host is not None] == [4, 4]
    unknown = _reports("node", "node", cores=())
    assert [one.host.shared_cores for one in _merged(unknown) if one.host is not None] == [2, 2]
