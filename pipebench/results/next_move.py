"""The one change that the figures of a watched run support."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pipebench.results.drilled import NeedlessCall, Runs
from pipebench.stats import Speedup

Lacking = Literal["shards", "batches", "shared-memory", "descriptors", "memory", "starts", "processes"]
"""What more workers would have too little of: shards of a stream, batches of a pass, memory and so on."""


@dataclass(frozen=True)
class NextMove:
    """One change that the figures support.

    `workers` is the present number of workers, and `cores_used` is the number of cores that they keep busy. `stage` is
    the stage that should become cheaper. It takes `stage_s` of the `sample_s` seconds of a sample. `wait_part` is the
    part of the wait that should become shorter. It takes `wait_part_s` seconds of an iteration.

    `script_cores` and `foreign_cores` are the cores that the script's own process and other processes keep busy, of
    those that the script may use; `sibling_cores` are of the other ranks of its job. Workers wanted `wanted_cores` more
    and had none. `hand_off_s` is what it takes to hand a batch over from a worker, and `batch_s` what
    it takes to make one. `pipe_bytes` go through the pipe for a batch; `array_bytes` of them are NumPy arrays.
    `viewed_bytes` cross in shared memory, but belong to no tensor: most of what crosses (None: not so). `tensors` of a
    batch cross one by one, which takes most of its hand-off (None: not so).

    A move of the whole run follows from its largest cause: `loader` is what it is about, and `took_s` is how long that
    took in the run. `setting` limits the threads of libraries; of "switch-off", it has the tools, and of
    "decode-fewer-fields" the fields that are decoded then. `made_by` made the
    loader, `again` times anew, `others` of them for other data, with datasets that are as `remade` says: see
    LoaderResult. `called_by` called the function that did.

    `to_workers` is the number of workers, above the present one, that would bring most, and `predicted` the speed-up
    of the loop with it, by a simulation of this run (None: too little was recorded). Of "prepare-in-workers", it is
    the number of workers that this takes (None: no more than now). `alone` is the same without the other processes,
    where they want many cores; `to_workers` is then the best number without them. `pass_batches`: both are of whole
    passes of so many batches, without the start of workers. `on_device`: they take the time in which a CUDA device
    works from its own events. `undivided`: each worker would give all samples of the loader's dataset. `shards` and
    `kept_open` are as in LoaderResult. `lacks` is why one more worker is no step, whatever a simulation says (None:
    nothing is lacking). First workers come with `persistent_workers` if they can live on (`lives_on`), and with so many
    `torch_threads` in the script's own process if training would take their cores. Of "more-threads" and
    "fewer-torch-threads", `to_workers` is the number of threads.
    `function`, `file` and `line` are where that work is in the user's own code: of a function of theirs that is called,
    the place of the call; of a setting of a loader, where this is made ("" and 0: not known). Where another function is
    called there, `by` is its name. `rests`: there, the loop needs no core, but waits. `needed`: by its name, training
    needs what it does in each step, as an average of weights. `metric`: by its name, it keeps a metric. `grows`: it
    takes longer and longer through each pass. `part_s` of `took_s` is the part of the function that is named (None: not
    known, or all).

    Of "make-batches-cheaper" and "do-less-before", and of "less-python" with a `title`, `line` is where most of that
    work is, and `line_share` its part of it; `to_workers` is set if workers of a DataLoader would save much of it.

    `title` and `how` are of a line of the dataset that is known to be slow, at `line` of `function` (0: of a neural
    network that the dataset runs): what is written in its place, and how. It takes `line_share` of the time in which
    samples are made (None: no line is named). It comes before what `action` says. Without `title`, nothing is known of
    the line but its share. `reread`, `runs` and `needless` are as in DrilledLine. `alike`: other
    lines are slow by the same, and the share is that of all.

    `carried`: an attribute of objects that holds most of what a batch brings.
    `asks_for_each`: the loader asks its dataset for the samples of a batch one by one.
    "mend-worker": `worker` takes `slower` times as long for a sample as the others, most of it in `slow_part`.
    More workers: the present ones are busy for `workers_busy` of the time. Of several loaders, `of_loader` is meant.
    """

    action: Literal[
        "set-num-workers", "raise-num-workers", "make-stage-cheaper", "shorten-wait-part", "make-hand-off-cheaper",
        "keep-workers", "keep-iterator", "load-validation-faster", "do-less-in-the-loop", "prepare-in-workers",
        "pad-to-longest", "fewer-threads", "spread-evenly", "raise-prefetch-factor", "any-order", "lower-num-workers",
        "workers-for-thread", "use-all-cores", "divide-first", "divide-stream", "select-first",
        "batch-by-length", "decode-fewer-fields",
        "keep-less", "make-dataset-once", "read-without-lock", "keep-outputs", "free-the-interpreter", "vectorise",
        "less-python", "switch-off", "no-workers", "validate-less-often", "larger-batches", "collect-less",
        "end-gradients", "validate-in-larger-batches", "do-less-in-validation", "more-threads", "make-batches-cheaper",
        "do-less-before", "fewer-operations", "keep-activations", "compile-less", "compute-in-float32",
        "compute-what-counts", "do-less-between", "fewer-torch-threads", "ask-length-once", "mend-worker",
        "compute-once", "fill-first", "more-parts",
    ]  # fmt: skip
    usable_cores: float
    workers: int = 0
    cores_used: float | None = None
    stage: str | None = None
    stage_kind: str | None = None
    stage_s: float | None = None
    sample_s: float | None = None
    wait_part: str | None = None
    wait_part_s: float | None = None
    script_cores: float | None = None
    foreign_cores: float | None = None
    hand_off_s: float | None = None
    batch_s: float | None = None
    pipe_bytes: float | None = None
    array_bytes: float | None = None
    viewed_bytes: float | None = None
    tensors: float | None = None
    loader: int | None = None
    took_s: float | None = None
    setting: str | None = None
    made_by: str = ""
    called_by: str = ""
    again: int = 0
    to_workers: int | None = None
    predicted: Speedup | None = None
    sibling_cores: float = 0.0
    wanted_cores: float = 0.0
    alone: Speedup | None = None
    undivided: bool = False
    shards: int | None = None
    pass_batches: int | None = None
    on_device: bool = False
    lacks: Lacking | None = None
    function: str = ""
    file: str = ""
    line: int = 0
    rests: bool = False
    needed: bool = False
    metric: bool = False
    grows: bool = False
    lives_on: bool = False
    torch_threads: int | None = None
    asks_for_each: bool = False
    carried: str = ""
    remade: Literal["same", "alike", "other"] = "same"
    others: int = 0
    title: str = ""
    how: tuple[str, ...] = ()
    line_share: float | None = None
    kept_open: bool = False
    reread: str = ""
    runs: Runs | None = None
    alike: bool = False
    needless: NeedlessCall | None = None
    by: str = ""
    part_s: float | None = None
    worker: int = 0
    slower: float = 0.0
    slow_part: Literal["computes", "no-core", "blocked"] = "blocked"
    workers_busy: float | None = None
    of_loader: int | None = None

    @property
    def fair(self) -> Speedup | None:
        """The prediction without the gain that would only be taken from other processes: the smaller of the two."""
        known = [one for one in (self.predicted, self.alone) if one is not None]
        return min(known, key=lambda one: one.speedup, default=None)
