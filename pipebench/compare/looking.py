"""Asks both sides of a comparison what a benchmark returns, in processes of their own, and compares the answers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from pipebench.compare.same_work import Examined, Shown, examined, judged, same, to_fetch
from pipebench.errors import PipebenchError
from pipebench.results.comparison import Outputs, Pair
from pipebench.runner import RunnerDied, RunnerFailed

SEED = 0  # of the passes that are looked at; the rounds have their numbers
AGAIN = 2  # times that a side shows its outputs again, if they are not the other's: what varies is not held against it
MOST_BYTES = 64 << 20  # of the contents that are fetched from each side to say how much they differ
FUNCTIONS = ("bench", "asv", "pytest")  # by the first part of an identity; they get the same input in every call
NO_TOLERANCE = ("step",)  # stages whose `agree` accepts everything


class Server(Protocol):
    """A side of the comparison, as `server.Server` is one."""

    @property
    def folder(self) -> str: ...  # of its commit; "" if it has none

    name: str

    def send(self, method: str, *arguments: Any) -> None: ...
    def receive(self) -> Any: ...
    def leave(self) -> None: ...
    def recover(self) -> None: ...


class Row(Protocol):
    """A benchmark while it is being measured."""

    @property
    def live(self) -> bool: ...

    identity: str
    keys: tuple[str, ...]
    calls: int
    head_calls: int
    rounds: list[tuple[Pair, ...]]
    outputs: Outputs | None
    failed: str | None


Some = TypeVar("Some", bound=Row)
Progress = Callable[[int, int, str], None]
UNCHANGED = ("same", "close")


@dataclass(frozen=True)
class Look:
    """What to look at: a benchmark on these samples, after so many readings of each side's calls, as in a round."""

    identity: str
    knobs: dict[str, Any]
    keys: tuple[str, ...]
    readings: int = 0
    calls: tuple[int, int] = (1, 1)


def both(servers: Sequence[Server], method: str, *arguments: Any) -> list[Any]:
    """The answers of both sides. The sides work at the same time, so nothing that is timed may use this.

    Raises `RunnerFailed`, with the name of the side unless both failed alike.
    """
    for server in servers:
        server.send(method, *arguments)
    return _answers(servers)


def _answers(servers: Sequence[Server]) -> list[Any]:
    """What the sides answer to what each was sent. Raises as `both`."""
    answers, failed = [], []
    for server in servers:
        try:
            answers.append(server.receive())
        except RunnerFailed as error:
            failed.append((server.name, str(error)))
    if failed:
        alike = len(failed) == len(servers) and len({said for _, said in failed}) == 1
        raise RunnerFailed(failed[0][1] if alike else "; ".join(f"{name}: {said}" for name, said in failed))
    return answers


def look(servers: Sequence[Server], what: Look, lab: bool) -> Outputs:
    """Compares the outputs of base and head. With `lab`, the tolerance of the lab's task decides about other values.

    What cannot be compared is a reason in the result, and never stops the comparison of times.
    """
    try:
        answers = [_shown(servers, what, [])]
        if not all(answers[0]):
            (first, *_) = (one.name for one, answer in zip(servers, answers[0], strict=True) if not answer)
            return Outputs("unknown", reason=f"the pipebench of {first} does not show its outputs")
        base, head = map(_parsed, answers[0])
        if not same(base, head):
            wanted = to_fetch(base, head, MOST_BYTES)
            answers += [_shown(servers, what, wanted if last else []) for last in (False,) * (AGAIN - 1) + (True,)]
        passes = list(zip(*(map(_parsed, one) for one in answers), strict=True))
        return judged(passes[0], passes[1], lambda: lab and _within(servers, what))
    except RunnerFailed as error:
        for server in servers:
            server.recover()
        return Outputs("unknown", reason=str(error))


def examine(servers: Sequence[Server], what: Look, found: Outputs) -> Outputs:
    """Adds to what was `found` of a function whether a cache answers. Only this may go wrong, on inputs of our own."""
    try:
        _ready(servers, what)
        answers = both(servers, "examine", what.identity, SEED)
        for server in servers:
            server.leave()
        return examined(found, *(Examined(**one) for one in answers))
    except RunnerFailed as error:
        for server in servers:
            server.recover()
        return replace(found, unseen=f"it does not work on other inputs ({error})")


def look_at_all(
    rows: Sequence[Some],
    servers: Sequence[Server],
    knobs: dict[str, Any],
    lab: bool,
    progress: Progress,
    admits: Callable[[Some, Sequence[Some]], bool] = lambda row, before: True,
) -> None:
    """Looks at every live benchmark, and once more after its rounds if nothing was found before them.

    The second look comes after as many readings as the last round had. A benchmark that is not admitted beside those
    before it is passed over. Raises `PipebenchError` if a server has died.
    """
    live = [row for row in rows if row.live]
    for index, row in enumerate(live):
        progress(index, len(live), "comparing outputs")
        if not admits(row, live[:index]):
            continue
        what = Look(row.identity, knobs, row.keys)
        try:
            if row.outputs is None:
                row.outputs = _first_look(servers, what, lab)
            elif row.outputs.state in UNCHANGED:
                readings = len(row.rounds[-1]) if row.rounds else 0
                what = replace(what, readings=readings, calls=(row.calls, row.head_calls))
                again = look(servers, what, lab)
                seen = again.cached or row.outputs.cached
                row.outputs = replace(again, at_end=True, cached=seen, unseen=row.outputs.unseen)
        except RunnerDied as error:
            row.failed = str(error)
            raise PipebenchError(f"{error} in {row.identity}", "leave this benchmark out with --stage") from error


def _first_look(servers: Sequence[Server], what: Look, lab: bool) -> Outputs:
    found = look(servers, what, lab)
    is_function = what.identity.partition("/")[0] in FUNCTIONS
    return examine(servers, what, found) if is_function and found.state in UNCHANGED else found


def _parsed(answer: dict[str, Any]) -> Shown:
    return Shown(
        tuple(answer["leaves"]), answer["samples"], answer["repeated"], tuple(answer["unread"]), answer["contents"]
    )


def _shown(servers: Sequence[Server], what: Look, wanted: Sequence[int]) -> list[dict[str, Any]]:
    """The answers of both sides, each from a fresh process with the same history."""
    _ready(servers, what)
    for server in servers:
        server.send("show", what.identity, what.knobs, what.keys, SEED, server.folder, list(wanted))
    answers = [server.receive() for server in servers]
    for server in servers:
        server.leave()
    return answers


def _ready(servers: Sequence[Server], what: Look) -> None:
    both(servers, "fork")
    both(servers, "seed", SEED)
    both(servers, "build", what.identity, what.knobs, what.keys)
    for _ in range(what.readings):
        for server, calls in zip(servers, what.calls, strict=True):
            server.send("reading", what.identity, calls)
        _answers(servers)


def _within(servers: Sequence[Server], what: Look) -> bool:
    """Whether the head's outputs agree with the base's, by the task of this pipebench."""
    from pipebench import stage

    task, variant = stage.find(what.identity)
    if task.stage in NO_TOLERANCE:
        return False
    _ready(servers, what)
    base, head = both(servers, "values", what.identity, what.knobs, what.keys, SEED)
    for server in servers:
        server.leave()
    with contextlib.suppress(Exception):  # a disagreement, or outputs that cannot even be compared
        for ours, theirs in zip(head, base, strict=True):
            task.agree(ours, theirs, variant)
        return True
    return False
