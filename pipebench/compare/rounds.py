"""Measures two commits, or two settings of one commit, against each other.

Each side has a live server (`round_process`). For every round, each server forks a fresh process, and the two processes
take short readings in turn. `permutation` judges the rounds. The benchmarks take turns too, so that each is measured
over the whole length of the run. The benchmarks that vary most get more rounds. A few times in a run both servers are
replaced by new ones: a server may be faster than another one of equal code, in all of its rounds.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from pipebench.compare import heard, looking, proof
from pipebench.compare.looking import both
from pipebench.compare.permutation import judge
from pipebench.compare.schedule import (
    JUDGING,
    LEAST_PAIRS,
    LONG_S,
    ROUND_S,
    Budget,
    Reading,
    Row,
    budget_of,
    expectation,
    lacking_s,
    needed,
    paired,
    renewals,
    turns,
    whole_s,
)
from pipebench.compare.server import TIMEOUT_S, Server, Side
from pipebench.errors import PipebenchError
from pipebench.results.comparison import Change, Pair, Said
from pipebench.runner import RunnerDied, RunnerFailed
from pipebench.task import Unavailable
from pipebench.units import counted

SHORT_S = 0.005  # the longest call, where a call can be made shorter by giving it fewer samples
MOST_ROUNDS = 1000
USUAL_S = 180.0
KNOBS: dict[str, Any] = {"data": "photos", "batch_size": 16, "quick": True}

Progress = Callable[[int, int, str], None]


def compare(
    base: Side,
    head: Side,
    benchmarks: Sequence[str],
    *,
    budget_s: float | None,
    most_rounds: int = MOST_ROUNDS,
    own: dict[str, Any] | None = None,
    project: proof.Project | None = None,
    knobs: dict[str, Any] | None = None,
    timeout_s: float = TIMEOUT_S,
    progress: Progress = lambda done, total, what: None,
    keep: Callable[[list[Change]], None] = lambda changes: None,
    hear: Callable[[tuple[Said, ...]], None] = lambda said: None,
    now: Callable[[], float] = time.monotonic,
) -> list[Change]:
    """Measures `benchmarks` on both sides within `budget_s` seconds, start-up included.

    Without `budget_s` it is `USUAL_S`, or longer if the rounds that a judgement needs take longer. With it, benchmarks
    that do not fit are left out, with a note.
    A side that gives no answer for `timeout_s` seconds fails that benchmark.
    Each benchmark gets at most `most_rounds` rounds. `keep` gets the changes at the end, also after an interruption,
    which loses one round; `hear` gets what the sides wrote to standard error. A benchmark that breaks, or that a side
    does not have, never stops the others. Raises `PipebenchError` if a side does not start, if its server dies, or if
    it imported a module of the `project` from elsewhere than its own folder.
    """
    started = now()
    deadline = started + (1 - JUDGING) * (budget_s or USUAL_S)
    budget = Budget(deadline if budget_s else math.inf, now)
    knobs = {**KNOBS, **(knobs or {})}
    rows = [Row(identity) for identity in benchmarks]
    servers: list[Server] = []
    try:
        progress(0, 1, f"starting {base.label} and {head.label}")
        begin = now()
        servers += [_server(base, own, timeout_s)]
        servers += [_server(head, own, timeout_s)]
        for server in servers:
            server.send("start")
        found = dict.fromkeys(identity for server in servers for identity in server.start())
        rows += [Row(identity) for identity in found]
        start_s = now() - begin
        if not rows:
            why = heard.last(servers[1].errors) or heard.last(servers[0].errors)
            raise PipebenchError(f"neither side has a benchmark of this name{why}", "choose another, or write one")
        start_s += _size_all(rows, servers, knobs, project, progress, own is not None, now, budget)
        begin = now()
        looking.look_at_all(rows, servers, knobs, own is None, progress, budget.admits)
        again_s = now() - begin + ROUND_S * sum(one.live for one in rows)  # of the second look
        used_s = again_s + now() - started
        _measure(
            rows, servers, knobs, deadline - again_s, budget_s is None, most_rounds, progress, now, start_s, used_s
        )
        if budget_s is not None:
            _leave_out(rows, start_s + whole_s(rows, most_rounds))
        looking.look_at_all(rows, servers, knobs, own is None, progress)
    finally:
        for server in servers:
            server.close()
        hear(heard.collected([(server.errors, server.side.folder) for server in servers]))
        changes = _changes(rows)
        keep(changes)
    return changes


def _server(side: Side, own: dict[str, Any] | None, timeout_s: float) -> Server:
    try:
        return Server(side, own, timeout_s)
    except Unavailable as missing:
        raise PipebenchError(f"{side.label} cannot be run: {missing.reason}", "build or install it first") from missing
    except OSError as error:
        problem = f"{side.executable} cannot be started: {error.strerror or error}"
        raise PipebenchError(
            problem, "give a Python that has torch and the other packages that pipebench needs"
        ) from error


def _size_all(
    rows: list[Row],
    servers: Sequence[Server],
    knobs: dict[str, Any],
    project: proof.Project | None,
    progress: Progress,
    users: bool,
    now: Callable[[], float],
    budget: Budget,
) -> float:
    """Sizes all benchmarks that fit. Returns the seconds in which the servers made what they keep for all rounds."""
    primed_s = 0.0
    for index, row in enumerate(rows):
        progress(index, len(rows), "sizing benchmarks")
        if not budget.admits(row, rows[:index]):  # not even those before it, perhaps
            continue
        with _failing(row, servers):
            begin = now()
            both(servers, "prime", row.identity, knobs)
            primed = now()
            both(servers, "fork")
            both(servers, "notice_files")
            answers = both(servers, "arm", row.identity, knobs, SHORT_S)
            _take(row, answers, [server.side.label for server in servers], now() - primed)
            primed_s += primed - begin
            _prove(row, servers, project)
            fits = row.live and budget.admits(row, rows[:index])
            once_a_side = users and fits and all(both(servers, "worth_keeping", row.identity))
            for server in servers:
                server.leave()
            if once_a_side:
                begin = now()
                both(servers, "keep", row.identity)
                primed_s += now() - begin
    return primed_s


def _prove(row: Row, servers: Sequence[Server], project: proof.Project | None) -> None:
    """Asks both sides where their modules and files came from. Stops the comparison if one did not use its own.

    Notes where they may have data from a cache that both use.
    """
    if project is None:
        return
    modules, opened = both(servers, "modules"), both(servers, "opened", os.fspath(project.tree))
    for server, imported, read in zip(servers, modules, opened, strict=True):
        side = server.side
        if side.folder:
            proof.refuse_foreign(side.label, imported, side.folder, side.names, project)
        if side.folder and side.folder != project.tree:
            proof.refuse_other_files(side.label, read, side.folder, project)
    if proof.share_prepared_data(modules, [dict(server.side.environment) for server in servers]):
        row.notes.append(proof.SHARED)


def _take(row: Row, answers: Sequence[dict[str, Any]], labels: Sequence[str], armed_s: float) -> None:
    skips = {label: answer["skip"] for label, answer in zip(labels, answers, strict=True) if "skip" in answer}
    if skips:
        alike = len(skips) == len(answers) and len(set(skips.values())) == 1
        row.skipped = "; ".join([*skips.values()][:1] if alike else [f"{name}: {why}" for name, why in skips.items()])
        return
    shortest = min(answers, key=lambda answer: len(answer["keys"]))
    row.keys = tuple(shortest["keys"])
    row.samples, row.head_samples = (
        (one if tuple(one["keys"]) == row.keys else shortest)["work"][0] for one in answers
    )
    row.alone = all(one.get("alone") for one in answers)
    row.size([one["once_s"] * len(row.keys) / max(1, len(one["keys"])) for one in answers], armed_s)
    libraries = [answer["library"] for answer in answers]
    if libraries[0] != libraries[1]:
        row.notes.append(f"{libraries[0]} against {libraries[1]}")
    if len({tuple(answer["keys"]) for answer in answers}) == 1 and answers[0]["work"] != answers[1]["work"]:
        row.notes.append("the two sides do different work: bytes or samples differ")


def _measure(
    rows: list[Row],
    servers: Sequence[Server],
    knobs: dict[str, Any],
    deadline: float,
    may_be_later: bool,
    most_rounds: int,
    progress: Progress,
    now: Callable[[], float],
    start_s: float = 0.0,
    used_s: float = 0.0,
) -> None:
    """Takes rounds until the time is up. At least one is taken, however long it takes.

    If the deadline may be later, each live benchmark gets the rounds that a judgement needs. The progress says how long
    this is expected to take, from the start: by the sizing, and then by the rounds of each benchmark. The servers are
    replaced at even distances, as often as their start, which takes `start_s` seconds, is cheap beside the rounds.
    """
    begin = now()
    progress(0, 1000, expectation(rows, deadline - begin, may_be_later, most_rounds, 0.0, used_s))
    lacking = lacking_s(rows, most_rounds)
    span = max(deadline - begin, lacking if may_be_later else 0.0)
    waiting = [begin + one for one in renewals(span, math.inf if may_be_later else span - lacking, start_s)]

    def fits(row: Row) -> bool:
        if may_be_later:
            return len(row.rounds) < min(most_rounds, needed(rows)) or now() + row.cost_s <= deadline
        return now() + row.cost_s <= deadline or not any(one.rounds for one in rows)

    for row in turns(rows, most_rounds, fits):
        if waiting and now() >= waiting[0]:
            waiting = [one for one in waiting if one > now()]
            _renew(rows, servers)
        started = now()
        with _failing(row, servers):
            order = servers if len(row.rounds) % 2 else servers[::-1]
            row.add(*_round(row, order, servers, knobs, now))
        row.spent_s += now() - started
        if may_be_later:
            deadline = max(deadline, now() + lacking_s(rows, most_rounds))
        share = (now() - begin) / max(1e-9, deadline - begin)
        what = expectation(rows, deadline - begin, may_be_later, most_rounds, now() - begin, used_s)
        progress(round(1000 * min(1.0, share)), 1000, what)


def _leave_out(rows: Sequence[Row], wanted_s: float) -> None:
    """Notes which benchmarks had no time, and the budget with which all would be judged."""
    for row in rows:
        if row.in_family and not row.rounds:
            row.left_out = True
            row.notes = [f"left out, because it does not fit into the budget: give --budget {budget_of(wanted_s)}"]


def _renew(rows: Sequence[Row], servers: Sequence[Server]) -> None:
    """Replaces both servers by new processes of the same code, which make again what they keep for all rounds."""
    answers = [server.begin_again() for server in servers]
    for server, count in zip(servers, answers, strict=True):
        try:
            server.made_again(count)
        except RunnerDied as error:
            problem = f"{server.side.label} does not start again: {error}{heard.last(server.errors)}"
            raise PipebenchError(problem, "look at what it does when it is imported a second time") from error
    for row in rows:
        row.servers.append(0)


def _round(
    row: Row,
    order: Sequence[Server],
    servers: Sequence[Server],
    knobs: dict[str, Any],
    now: Callable[[], float],
) -> tuple[tuple[Pair, ...], tuple[Pair, ...] | None]:
    """One round: a fresh process on each side. They read in turn.

    Both get the same random place in memory and, if the benchmark runs alone in one thread, the same processor. Where
    the code is equal, the place then changes both sides alike.
    Returns the pairs of times, and the same without waiting for a processor, if all of that is known.
    """
    both(order, "fork", int.from_bytes(os.urandom(8), "little"), row.alone)
    both(order, "seed", seed := len(row.rounds))  # what is drawn while it is built, and in the readings
    both(order, "rearm", row.identity, knobs, row.keys)
    both(order, "seed", seed)
    before = sum(one.taken_again for one in servers)
    read = readings(row, servers, now)
    row.taken_again += sum(one.taken_again for one in servers) - before
    for server in servers:
        server.leave()
    return paired(read, row.calls / row.head_calls)


def readings(row: Row, servers: Sequence[Server], now: Callable[[], float]) -> list[tuple[Reading, Reading]]:
    """The readings of a round: those of base and head in pairs, and the side that reads first alternates."""
    base, head = servers
    read: list[tuple[Reading, Reading]] = []
    begin = now()
    while not read or now() - begin < ROUND_S or (len(read) < LEAST_PAIRS and now() - begin < LONG_S):
        if len(read) % 2:
            first = base.read_once(row.identity, row.calls)
            read.append((first, head.read_once(row.identity, row.head_calls)))
        else:
            second = head.read_once(row.identity, row.head_calls)
            read.append((base.read_once(row.identity, row.calls), second))
    return read


@contextlib.contextmanager
def _failing(row: Row, servers: Sequence[Server]) -> Any:
    """Records an error in a round as the failure of its benchmark, and makes both servers ready for the next round.

    Raises `PipebenchError` if a server has died. That is the benchmark's failure too: what is saved shall say so.
    """
    try:
        try:
            yield
        except RunnerFailed as error:
            row.failed = str(error)
            for server in servers:
                server.recover()
    except RunnerDied as error:
        row.failed = row.failed or str(error)
        last = "".join(heard.last(server.errors) for server in servers)
        raise PipebenchError(f"{error} in {row.identity}{last}", "leave this benchmark out with --stage") from error


def _changes(rows: Sequence[Row]) -> list[Change]:
    return [_change(row, sum(one.in_family for one in rows)) for row in rows]


def _change(row: Row, family: int) -> Change:
    notes = tuple(row.notes)
    if row.taken_again:
        again = counted(row.taken_again, "reading")
        notes = (*notes, f"{again} taken again, because a side was stopped (SIGSTOP) or the machine suspended")
    if not row.rounds or not row.live:
        return Change(row.identity, skipped=row.skipped, failed=row.failed, notes=notes)
    servers = tuple(filter(None, row.servers))
    return Change(
        row.identity,
        judge(row.judged, family, servers=servers),
        min(pair[0] for one in row.judged for pair in one) / row.calls,
        min(pair[1] for one in row.judged for pair in one) / row.calls,
        row.samples,
        tuple(row.judged),
        row.calls,
        notes=notes,
        head_samples_per_call=row.head_samples if row.head_samples != row.samples else 0,
        outputs=row.outputs,
        without_waiting=row.waits_known,
        servers=servers,
    )
