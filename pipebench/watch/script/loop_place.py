"""Where a thread is in a loop over a loader: in which line, what that calls, and whether it trains."""

from __future__ import annotations

import dis
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from inspect import CO_GENERATOR
from types import CodeType, FrameType
from typing import NamedTuple

from pipebench.watch.record.own_code import line_reached, owner
from pipebench.watch.record.patches import is_ours
from pipebench.watch.record.per_code import per_code
from pipebench.watch.script.made import within

_DEEPEST = 60
_SELDOM = 0.15  # of the turns in which looks met a model in the line of a function where they met it most
# In names of functions that call a model. All that a forward does is training, and of a loss, what itself computes.
_FORWARD, _LOSS = "forward", "loss"
_MOST_NAMES = 8
_TORCH = f"{os.sep}torch{os.sep}"
_TRAINING = tuple(_TORCH + one for one in ("autograd", "amp", "_dynamo", os.path.join("nn", "utils", "clip")))
_OPTIMISER = f"{_TORCH}optim{os.sep}"
_CLOSURE = "_outside.<locals>.run"  # our frame around a closure of `step`: see `optimisers`
# Our frames around the `get` of a queue and the `result` of a future: see `relays`.
_HANDS_ON = ("Relays._watch_get.<locals>.watched_get", "Relays._watch_futures.<locals>.watched_result")
_LENGTHS = ("__len__", "num_samples")  # of a loader and its samplers: to ask for them is no wait for a batch
_MODULES = f"{_TORCH}nn{os.sep}modules{os.sep}"
_WRAPPER = "decorate_context"  # torch's function around one under `@torch.no_grad()`
_CHECKPOINT = f"{_TORCH}utils{os.sep}checkpoint.py"
_CALL = "_wrapped_call_impl"  # of torch's Module: the outermost frame of a call
_PREPARES = tuple(  # modules of torch that make samples: these are called before a model
    os.sep + one.replace("/", os.sep)
    for one in ("torchvision/transforms/", "torchaudio/transforms/", "kornia/augmentation/")
)
_ITERATES = ("__next__", "__iter__")  # of what a script or a library puts around a loader


def loop_of(frame: FrameType | None) -> FrameType | None:
    """The frame of the loop that takes batches, outside of torch's loaders and of what is put around them."""
    while frame is not None and _around(frame.f_code):
        frame = frame.f_back
    return frame


@per_code(256)
def _around(code: CodeType) -> bool:
    return bool(code.co_flags & CO_GENERATOR) or code.co_name in _ITERATES or within(code.co_filename)


def extent(frame: FrameType) -> range | None:
    """The instructions of the `for` loop that asks for a batch in this frame. None: it asks in another way."""
    end = _ends(frame.f_code).get(frame.f_lasti)
    return None if end is None else range(frame.f_lasti, end)


class Around(NamedTuple):
    """A loop that a thread is in: the frame of its function, and its instructions (None: not known)."""

    frame: FrameType
    inside: range | None


def taking(frame: FrameType | None) -> Around | None:
    """The loop that takes batches, of which `frame` is that of the caller of torch's iterator."""
    found = loop_of(frame)
    return Around(found, extent(found)) if found is not None else None


def loops_around(frame: FrameType | None) -> Iterator[Around]:
    """All loops that are running around a frame, the innermost first, without those of torch and ours."""
    for one in outwards(frame):
        file = one.f_code.co_filename
        if _TORCH not in file and not is_ours(file):
            yield from (Around(one, inside) for inside in loops_in(one.f_code) if one.f_lasti in inside)


@per_code(256)
def loops_in(code: CodeType) -> Sequence[range]:
    """The instructions of each loop of a function, the shortest first."""
    of_for = _ends(code)
    ends = dict(of_for)
    prefixed: dict[int, int] = {}  # a jump goes to the prefix of an instruction
    prefix: int | None = None
    for one in dis.get_instructions(code):
        if one.opname == "EXTENDED_ARG":
            prefix = one.offset if prefix is None else prefix
            continue
        if prefix is not None:
            prefixed[prefix], prefix = one.offset, None
        if "JUMP_BACKWARD" in one.opname and "NO_INTERRUPT" not in one.opname:
            begin = prefixed.get(one.argval, one.argval)
            ends[begin] = of_for.get(begin, one.offset + 1)  # the last jump to its begin is the end of a `while`
    return sorted((range(begin, end) for begin, end in ends.items()), key=len)


@per_code(256)
def _ends(code: CodeType) -> Mapping[int, int]:
    """Where the `for` loops of a function begin, and where each ends."""
    return {one.offset: one.argval for one in dis.get_instructions(code) if one.opname == "FOR_ITER"}


class Place(NamedTuple):
    """The line of the loop, what it calls, and whether that is training for certain.

    `path` has the lines from the loop inwards. `models` says that the last one calls a model, which is training too.
    `torchs`: torch's own code for training runs, as the backward or an optimiser's step, in a model or not.
    `python`: see `own_python`.
    `in_step` says that torch's optimiser has called code of others: the step of an optimiser of theirs. A closure of it
    is no training itself, and is told as if the loop had called it.
    `asks`: the loop is a `for`, and asks for its next item, or it is a coroutine and awaits something.
    """

    line: int
    functions: tuple[str, ...]
    path: tuple[tuple[CodeType, int], ...]
    trains: bool
    models: bool
    in_step: bool = False
    python: bool = False
    torchs: bool = False
    asks: bool = False


def place_in(frame: FrameType, loop: int, inside: range | None = None, bare: bool = False) -> Place | None:
    """Where the thread is in its loop. None: it waits for a batch, or is elsewhere.

    `inside` are the instructions of the loop, if they are known: a loop may be left by `break`. A `bare` loop has no
    loader, so nothing else knows of its wait for a batch: that is a place as any other.
    """
    names: list[str] = []
    path: list[tuple[CodeType, int]] = []
    trains = models = prepares = others = in_step = False
    for one in _without_steps(frame, loop):
        file, line = one.f_code.co_filename, (one.f_code, line_reached(one))
        if id(one) == loop:
            if inside is not None and one.f_lasti not in inside:
                return None
            path.append(line)
            functions = tuple(reversed(names[-_MOST_NAMES:]))
            asks = inside is not None and one.f_lasti == inside.start and extent(one) is not None
            way = tuple(reversed(path))
            return Place(line[1], functions, way, trains or models, models, in_step, torchs=trains, asks=asks)
        if bare and one.f_code.co_qualname in _HANDS_ON:
            continue
        if _elsewhere(one.f_code, bare):
            return None
        prepares |= any(part in file for part in _PREPARES)
        if _MODULES in file and not prepares:
            models = True
            path.clear()  # what the model calls is no matter
        else:
            path.append(line)
        stepping = _OPTIMISER in file
        in_step |= stepping and others
        trains |= (stepping and not others) or any(part in file for part in _TRAINING)
        others |= _TORCH not in file
        if _WRAPPER not in (name := one.f_code.co_qualname):
            names.append(name)
    return None


def _without_steps(frame: FrameType, loop: int) -> Iterator[FrameType]:
    """A frame, and those that called it, but for torch's own around a closure: that is told by its own lines."""
    closure = False
    for one in outwards(frame):
        if one.f_code.co_qualname == _CLOSURE and is_ours(one.f_code.co_filename):
            closure = True
        elif not closure or _TORCH not in one.f_code.co_filename or id(one) == loop:
            yield one


class Call(NamedTuple):
    """A call of a module: torch's frame of it, and the code and the instruction that called."""

    frame: FrameType
    caller: CodeType
    instruction: int


def module_calls(frame: FrameType | None, loop: int) -> list[Call]:
    """The calls of modules that a thread is in within its loop, the outermost first."""
    frames = list(itertools.takewhile(lambda one: id(one) != loop, outwards(frame)))
    called = (one for one in frames if one.f_code.co_name == _CALL and _MODULES in one.f_code.co_filename)
    found = [Call(one, one.f_back.f_code, one.f_back.f_lasti) for one in called if one.f_back is not None]
    return found[::-1]


def is_checkpointed(frame: FrameType | None, loop: int) -> bool:
    """Whether a thread is in a part of a forward that the backward computes again (`torch.utils.checkpoint`)."""
    frames = itertools.takewhile(lambda one: id(one) != loop, outwards(frame))
    return any(one.f_code.co_filename.endswith(_CHECKPOINT) for one in frames)


def _elsewhere(code: CodeType, bare: bool) -> bool:
    """Whether what runs in this function is no work of the loop: a wait for a batch, or ours."""
    return is_ours(code.co_filename) or (not bare and within(code.co_filename) and code.co_name not in _LENGTHS)


def leaves_before(path: Sequence[tuple[CodeType, int]], model: Mapping[CodeType, int]) -> int | None:
    """At which call of this way it leaves the one to the model's first call, if that is in a line above; else None."""
    for place, (code, line) in enumerate(path):
        first = model.get(code)
        if first is None or line != first:
            return place if first is not None and line < first and not _of_model(path, place) else None
    return None


def leaves_after(path: Sequence[tuple[CodeType, int]], model: Mapping[CodeType, int]) -> int | None:
    """At which call of this way it leaves the one to the model's first call, if that is in a line below; else None.

    So does `model` with the way to the optimiser's last step.
    """
    for place, (code, line) in enumerate(path):
        first = model.get(code)
        if first is None or line != first:
            return place if first is not None and line > first else None
    return None


def _of_model(path: Sequence[tuple[CodeType, int]], place: int) -> bool:
    """Whether this line of a function that the loop calls belongs to a model, though it calls none yet."""
    name, called = path[place][0].co_name, path[place + 1 : place + 2]
    computes = not called or _TORCH in called[0][0].co_filename
    return place > 0 and (_FORWARD in name or (_LOSS in name and computes))


def told_at(path: Sequence[tuple[CodeType, int]], place: int) -> int:
    """Which line of a way is told: the innermost one of the user's own code up to there, or else the first inside."""
    own = [one for one, (code, _) in enumerate(path) if not owner(code.co_filename)]
    return max((one for one in own if one <= place), default=own[0] if own else place)


def called_from(path: Sequence[tuple[CodeType, int]], place: int) -> tuple[str, ...]:
    """What is called from there on, without torch's calls of modules, its decorators or a comprehension around it.

    Of many functions, these are the first ones and the last one.
    """
    return tuple(code.co_qualname for code in _inner(path, place))


def own_calls(path: Sequence[tuple[CodeType, int]], place: int) -> int:
    """So many of the first functions that `called_from` names are the user's own."""
    inner = _inner(path, place)
    return sum(1 for _ in itertools.takewhile(lambda code: not owner(code.co_filename), inner))


def _inner(path: Sequence[tuple[CodeType, int]], place: int) -> list[CodeType]:
    inner = [code for code, _ in path[place + 1 :]]
    while len(inner) > 1 and (_MODULES in inner[0].co_filename or inner[0].co_name.startswith(("<", _WRAPPER))):
        del inner[0]
    return inner[:_MOST_NAMES] if len(inner) <= _MOST_NAMES else [*inner[: _MOST_NAMES - 1], inner[-1]]


def note_first(
    model: dict[CodeType, int],
    met: dict[CodeType, dict[int, tuple[int, int]]],
    path: Sequence[tuple[CodeType, int]],
    turn: int,
) -> None:
    """Keeps the first line of each function that leads to a call of a model, of all where looks have `met` one.

    Of each line, that is in how many turns of the loop, and in which last. Lines that were met in few turns are none of
    each iteration: an evaluation that comes now and then.
    """
    for code, line in path:
        lines = met.setdefault(code, {})
        turns, last = lines.get(line, (0, -1))
        lines[line] = turns + (last != turn), turn
        most = max(turns for turns, _ in lines.values())
        model[code] = min(one for one, (turns, _) in lines.items() if turns >= _SELDOM * most)


def note_last(trained: dict[CodeType, int], frame: FrameType, loop: FrameType) -> None:
    """Keeps the last line of each function from the loop to an optimiser's step. `frame` is inside it."""
    for one in outwards(frame):
        trained[one.f_code] = max(trained.get(one.f_code, 0), line_reached(one))
        if one is loop:
            return


def outwards(frame: FrameType | None, deepest: int = _DEEPEST) -> Iterator[FrameType]:
    """A frame, and those that called it, as far as looks go: so many at most."""
    for _ in range(deepest):
        if frame is None:
            return
        yield frame
        frame = frame.f_back
