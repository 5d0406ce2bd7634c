"""The lines of `pipebench advise`: where a loader was made, and the windows in which a change of it was tried."""

from __future__ import annotations

from dataclasses import field
from typing import NamedTuple, TypeAlias

from pipebench.watch.record.line import line


class FunctionPlace(NamedTuple):
    """Where a function of the user's is defined."""

    name: str
    file: str
    line: int


@line
class LoaderMade:
    """Where the script constructed a loader, and how. Written when the loader is first iterated.

    The place is that of the nearest call outside torch, in the user's code or a library ("" if it was not seen).
    Columns count bytes. `batches` is the length of a pass (None: unknown). `refusal` says why the loader is not tried
    ("": it is). `collate` is the user's own collate function (None: it is torch's, or its place is not known). `others`
    is how many other loaders were made at this place until then, for other datasets or by other calls.
    `unguarded`: it has no workers, and those that it could have would run the whole script again.
    """

    loader: int
    file: str
    line: int
    end_line: int
    column: int
    end_column: int
    function: str
    batches: int | None
    settings: dict[str, str | int | float | bool | None] = field(default_factory=dict)
    refusal: str = ""
    collate: FunctionPlace | None = None
    others: int = 0
    unguarded: bool = False


NO_LOADER = 0
"""In place of a loader's number, for a loop without one: loaders are numbered from 1."""
BETWEEN = -1
"""In place of a loader's number, in looks between the passes of any loaders."""


class PlaceLooks(NamedTuple):
    """A line of a loop, and the functions that it was calling, the first one first; none if the line itself ran.

    It was seen in so many `looks`, in so many `turns` of the loop. Between looks that followed each other there, or in
    what its first function called, `ns` passed. In `cpu_ns` of that the thread used a core, or waited for one. `early`
    is true before the first call of a model in an iteration: the clock takes all work there for forward. `file` is
    where the line is, if not in the file of the loop. `after` is true where Python loops of the user's own code ran
    after that call and before the backward: the clock takes that for forward, too. Both are true below the optimiser's
    last step in a loop without a loader: there, an iteration begins with that step. The first `own` of the functions
    are the user's. In loops that have not trained so far, `apart` is true where Python was at work besides the model:
    see `works_apart`. In `models` of the looks, a model ran there once more, after the backward of the iteration.
    """

    line: int
    functions: list[str]
    looks: int
    turns: int
    ns: int
    cpu_ns: int
    early: bool = False
    file: str = ""
    after: bool = False
    own: int = 0
    apart: bool = False
    models: int = 0


class ModuleLooks(NamedTuple):
    """A module whose weights have not changed so far, and the looks that found the loop in its forward.

    `name` is its attribute in the module that calls it, or what the loop calls it ("": not known). `varies` is the
    class of a module in it that gives other outputs each time, because it is in train mode ("": there is none). `of` is
    the class of the module that calls it ("": the loop calls it).
    """

    name: str
    kind: str
    looks: int
    varies: str = ""
    on_device: bool = False
    of: str = ""


class FullCollected(NamedTuple):
    """Garbage collections that a loop asked for: their time and number, and the line that asked for most of them.

    `most` of them were asked for there.
    """

    spent_ns: int = 0
    collections: int = 0
    file: str = ""
    line: int = 0
    most: int = 0


class LineLooks(NamedTuple):
    """A line of the user's own code that was at work in Python in so many looks, between a batch and its backward.

    It was the innermost one of theirs, in this function ("": in none), and called `calls` ("": the interpreter itself
    worked). What only layers and operations of torch do has no line.
    """

    file: str
    function: str
    line: int
    calls: str
    looks: int


class CompilingLooks(NamedTuple):
    """Looks that found a loop inside torch's compiler, in so many of its turns.

    The time since the look before each of them adds up to `forward_ns` before a backward, and to `other_ns` elsewhere.
    torch has compiled so many `graphs` since the first loop began, as far as it says.
    """

    looks: int = 0
    forward_ns: int = 0
    other_ns: int = 0
    turns: int = 0
    graphs: int = 0


@line
class LoopLooks:
    """Where the thread of a loop was, besides waiting and training, in some looks at random moments.

    The loop took `turns` batches of `loader` meanwhile. Each line is of the time since the last one. All looks between
    the model's first call and the backward of an iteration are `forward_looks`, those of `after` too, and `later_looks`
    are those at a model after it. `frozen` has the outermost modules of the forward that stay as they are, with all
    their looks since the begin, and `unused` the outermost ones of which the backward computes gradients that nobody
    uses. `lines` are of `forward_looks`. Those `BETWEEN` passes are all looks at the loop around them, and `turns` is
    how many passes ended. `collected` is what garbage collections took in that loop. Of the looks that are not
    before a backward, `kept` found a module with an input that keeps a graph for gradients, and `used` the computing of
    gradients. `drawn` has the innermost lines of the user's own in looks at the sampler. Of a loop without a loader,
    `outside_looks` found the thread in a loop around it, before a backward: the time since the looks before them adds
    up to `outside_ns`. These are looks `BETWEEN` passes, too. `early_lines` are of the early looks, whatever they find
    at work, and `besides` those of looks besides waiting and training. `forward_lines` are all innermost ones of
    `forward_looks`, whatever they call. `on_host`: the script has trained so far, and on no device, which none of its
    waits is for then. `making` looks found the loop's thread at making a batch itself, `for_threads` of them in a wait
    for other threads or processes. `helpers` are the lines of the user's own in other threads then, one of each
    function in each look. `checkpointed` of the looks that found a model before the backward were in a part that this
    computes again, and `models_in` are the lines that call it, with their function, but for those of the loop itself.
    Looks that found torch's compiler are in `compiling` only.
    """

    loader: int
    file: str
    turns: int
    places: list[PlaceLooks]
    forward_looks: int = 0
    later_looks: int = 0
    frozen: list[ModuleLooks] = field(default_factory=list)
    unused: list[ModuleLooks] = field(default_factory=list)
    lines: list[LineLooks] = field(default_factory=list)
    collected: FullCollected = field(default_factory=FullCollected)
    kept: int = 0
    used: int = 0
    drawn: list[LineLooks] = field(default_factory=list)
    outside_looks: int = 0
    outside_ns: int = 0
    early_lines: list[LineLooks] = field(default_factory=list)
    besides: list[LineLooks] = field(default_factory=list)
    forward_lines: list[LineLooks] = field(default_factory=list)
    on_host: bool = False
    making: int = 0
    for_threads: int = 0
    helpers: list[LineLooks] = field(default_factory=list)
    checkpointed: int = 0
    models_in: list[LineLooks] = field(default_factory=list)
    compiling: CompilingLooks = field(default_factory=CompilingLooks)


class ThreadLooks(NamedTuple):
    """A thread, by its name, and a line of the script in which it was seen in so many looks.

    Until then, since the look before each of them, it used `cpu_ns`. Looks at which it used little are not counted.
    """

    name: str
    file: str
    function: str
    line: int
    looks: int
    cpu_ns: int


@line
class ThreadsBeside:
    """What other threads of the script did beside the loop of `loader`, since the last line of this kind.

    Of `wall_ns` of the loop, its thread used a core for `cpu_ns`, and waited for one for `core_wait_ns`. The other sums
    are over `windows`: short times, at random moments, at whose end the loop's thread waited, and not for a core. `off`
    adds the share of each in which it did not run. `held` is the part of it in windows at whose end another thread had
    the interpreter for some time, and the loop waited for nothing else that is known.
    """

    loader: int
    wall_ns: int
    cpu_ns: int
    core_wait_ns: int
    windows: int
    off: float
    held: float
    threads: list[ThreadLooks] = field(default_factory=list)


@line
class TrialWindow:
    """One timed window, or one whole pass, of a trial. Windows of one `pair` are neighbours in the same pass.

    `changed` says that the changed loader gave the batches. `taken` is how many batches the loop took, and `drained`
    how many of them came out of the store of finished batches, which was smaller at the end than at the begin. In about
    `given_back_s` of these seconds, the script's own values were made again out of what the workers had sent. The waits
    for workers are taken off, because they would be as much longer without that. The workers read `read_bytes` since
    the last window or the begin of the pass, and storage gave `stored_bytes` (0 and 0: the system does not tell).
    """

    order: int
    pair: int
    changed: bool
    seconds: float
    taken: int
    drained: int = 0
    given_back_s: float = 0.0
    read_bytes: int = 0
    stored_bytes: int = 0


@line
class TrialDifference:
    """How far `values` values of the changed loader's samples were from those of the script's own: see `Difference`."""

    order: int
    largest: float
    mean: float
    span: float
    values: int


@line
class TrialRepeats:
    """Whether the dataset gave the `same` samples twice, bit for bit, and the mean size of a sample: see `Repeats`."""

    order: int
    same: bool
    sample_bytes: float
    once: bool = False
    changed: bool = False
    samples: int = 0
    enough: int = 0
    sample_s: float = 0.0
    copies: int = 1


@line
class TrialFailed:
    """The changed loader of an order could not be tried. The script's own loader made its batches again."""

    order: int
    problem: str


class SyncAt(NamedTuple):
    """A line that makes the host wait for the device: see `results.sync_points.SyncPoint`."""

    path: str
    line: int
    per_step: float
    operations: list[str]
    lost_s: float | None


@line
class TrialSyncs:
    """The sync points of some iterations. `device` is "" if nothing could confirm them."""

    order: int
    device: str
    points: list[SyncAt]


TrialLine: TypeAlias = TrialWindow | TrialDifference | TrialRepeats | TrialFailed | TrialSyncs
