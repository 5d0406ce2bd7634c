"""Says what to change in a watched script: the moves that follow from a cause of the whole run. Pure."""

from __future__ import annotations

from collections.abc import Callable

from pipebench.render.frameworks import made_anew, setting
from pipebench.render.in_loop import in_other_ways
from pipebench.render.watch_notes import tools
from pipebench.results.next_move import NextMove
from pipebench.units import called_at, code_place, counted, percent, printable, seconds, size


def at(move: NextMove) -> str:
    """What a move is about, in the user's own code."""
    where = [code_place(move.file, move.line)] if move.line else []
    told = ", ".join([*([printable(move.function)] if move.function else []), *where])
    return f" ({told})" if told else ""


def _called(move: NextMove) -> str:
    """The same, where the line is that of a call."""
    return f" ({called_at(move.function, move.by, move.file, move.line)})" if move.line else at(move)


def _by_length(move: NextMove) -> str:
    if move.shards is not None:
        return (
            "in its stream, fill a buffer with the samples of some 20 batches, sort it by length, cut it into batches, "
            "and give these in random order (a stream takes no batch_sampler)"
        )
    return "by a batch_sampler, with the batches in random order"


def _loader_at(move: NextMove) -> str:
    known = move.line and move.line_share is None  # else the place is that of a line of its dataset
    return f"loader {move.loader}" + (f", {code_place(move.file, move.line)}" if known else "")


_DIFFERS = {
    "blocked": "it waits longer there (its disc, its connection, a lock, its shard; larger samples, if not shuffled)",
    "computes": "it computes longer there (a slower core; heavier samples, if the data is not shuffled)",
    "no-core": "it has no core for longer there (its affinity, other processes on its core)",
}
_EVENLY = "shuffle the data, or split it evenly"
GROWS = (
    "As it takes longer and longer through a pass, it seems to work on all of the pass so far: once at the end of the "
    "pass is enough, or sums that each step adds to"
)
OF_METRIC = "A metric over all of the pass so far is enough at its end; or keep sums that each step adds to"
IN_WORKERS = "make batches in the workers of a DataLoader (num_workers={}), beside the training"


def _took(move: NextMove) -> str:
    """What the work takes that a move names, where that is known apart from other such work."""
    if move.part_s is None:
        return f"{seconds(move.took_s or 0.0)} of the run"
    return f"about {seconds(move.part_s)} of the run (all such work: {seconds(move.took_s or 0.0)})"


def _batches(move: NextMove) -> str:
    """Of a loop that takes batches from no loader."""
    took = _took(move)
    if move.rests:
        return (
            f"let a source have each batch ready when the loop wants it{at(move)}: a faster one, or one that works "
            f"further ahead. Now the loop waits there for {took}"
        )
    share = f", {percent(move.line_share)} of it in that line" if move.line_share else ""
    workers = f". Or {IN_WORKERS.format(move.to_workers)}" if move.to_workers else ""
    return f"make batches at less cost{at(move)}. Now it takes {took}{share}{workers}"


def _or_in_workers(move: NextMove) -> str:
    where = f"; or in the workers of loader {move.loader}, as far as it needs no output of the model"
    return where if move.loader else ""


OF_RUN: dict[str, Callable[[NextMove], str]] = {
    "keep-workers": lambda move: (
        f"make loader {move.loader}{at(move)} once{' for each data set' * bool(move.others)}, before the epochs, with "
        "persistent_workers=True"
        + made_anew(move.called_by)
        + (", if its datasets hold the same samples" if move.remade == "alike" else "")
        if move.again and not move.made_by
        else f"set {setting('persistent_workers=True', move.made_by)} for loader {move.loader}{at(move)}"
    ),
    "fill-first": lambda move: (
        f"let the script make, once and before loader {move.loader}, what each worker makes anew in its first batch "
        f"({printable(move.function)})"
        + (
            ": workers that are forked have it then"
            if move.setting == "fork"
            else ", and keep it in a file that is mapped"
        )
    ),
    "make-dataset-once": lambda move: f"make the dataset of loader {move.loader} once, before the epochs{at(move)}",
    "read-without-lock": lambda move: (
        f"let the workers of loader {move.loader} work without the lock they share{at(move)}: each with a file or a "
        "connection of its own, and what needs no lock, such as decoding, outside of it. More workers would wait there"
    ),
    "no-workers": lambda move: (
        f"set {setting('num_workers', move.made_by)} to 0 for loader {move.loader}. It is made anew for other data, so "
        "its workers cannot live on, and the loop waits for them for longer than its batches take to make"
    ),
    "keep-iterator": lambda move: (
        f"keep one iterator over loader {move.loader} for all steps: make it before the loop, take next() of it in "
        "each step, and make a new one when it ends"
    ),
    "load-validation-faster": lambda move: (
        f"load the batches of the loops that do not train ({_loader_at(move)}) faster, "
        f"{'with more workers or a cheaper stage' if move.workers else 'with workers or cheaper samples'}"
    ),
    "validate-in-larger-batches": lambda move: (
        f"raise {setting('batch_size', move.made_by)} for the loops that do not train ({_loader_at(move)}), as far as "
        "the memory allows"
    ),
    "do-less-in-the-loop": lambda move: (
        f"do the work besides training{_called(move)} {in_other_ways(move.rests, move.needed)}. "
        f"Now it takes {_took(move)}{f'. {GROWS}' if move.grows else ''}"
    ),
    "do-less-in-validation": lambda move: (
        f"in the loops that do not train, do the work besides the model{at(move)} at less cost, or less often. Now it "
        f"takes about {seconds(move.took_s or 0.0)} of the run"
    ),
    "keep-less": lambda move: (
        f"find what the loop keeps from one iteration to the next{at(move)}, and detach it or drop it: a hidden state "
        "or a loss with its graph, a list of outputs, a hook that is registered again"
    ),
    "keep-outputs": lambda move: (
        "if the inputs of the frozen module are the same in each pass, compute its outputs once, before training or "
        "when the dataset first makes a sample, and train on these"
    ),
    "free-the-interpreter": lambda move: (
        "let the thread block where it waits, in get() or put() of a queue.Queue, in an Event or a Condition, or sleep "
        "in its polling loop. If it computes in Python, move that into a process, such as a worker of a DataLoader"
    ),
    "validate-less-often": lambda move: (
        f"validate less often: the loops that do not train (loader {move.loader}) took {seconds(move.took_s or 0.0)}"
    ),
    "larger-batches": lambda move: (
        f"make the batches of loader {move.loader} larger, as far as the memory allows, and accumulate fewer of them: "
        "a step of the optimiser takes as many samples as now"
    ),
    "end-gradients": lambda move: (
        "before the loop, set requires_grad_(False) on all weights that no optimiser holds (one that is left keeps the "
        "backward going down to it), or run these modules under torch.no_grad(); but not on what is to train later"
    ),
    "keep-activations": lambda move: (
        "train without torch.utils.checkpoint, if the memory suffices (in Transformers, gradient_checkpointing=False): "
        "it saves memory, and computes these parts of the forward twice"
    ),
    "compute-once": lambda move: (
        f"call {printable(move.function)} ({code_place(move.file, move.line)}) once in a forward, and hand on what it "
        "gives"
        if move.setting == "before"
        else f"keep what {printable(move.function)} gives ({code_place(move.file, move.line)}): call it before the "
        "loop, or where the model is made (register_buffer keeps a tensor with it), and again only where what it gets "
        "changes"
    ),
    "compile-less": lambda move: (
        "compile less often: TORCH_LOGS=recompiles names what differs from call to call. For inputs of other sizes, "
        "torch._dynamo.mark_dynamic or torch.compile(dynamic=True) may do, or padding to few sizes"
    ),
    "collect-less": lambda move: f"call gc.collect() less often, such as once between passes{at(move)}",
    "less-python": lambda move: (
        f"let the loop wait less before backward{at(move)}: do several of these at once, or begin them earlier, in a "
        f"thread or a process beside the loop. Such waits take about {seconds(move.took_s or 0.0)} of the run"
        if move.rests
        else f"do the work besides layers before backward{at(move)} less often, or in one operation on a tensor or an "
        f"array that is kept. Such work takes about {seconds(move.took_s or 0.0)} of the run"
        + (f". {OF_METRIC}" if move.metric else "")
    ),
    "more-threads": lambda move: (
        f"let torch use {move.to_workers} threads in the script's own process: torch.set_num_threads({move.to_workers})"
        f" there, or OMP_NUM_THREADS={move.to_workers} where the job is started, in place of what sets one"
    ),
    "fewer-torch-threads": lambda move: (
        f"let torch use {counted(move.to_workers or 1, 'thread')} in the script's own process, beside what else uses "
        f"its cores: torch.set_num_threads({move.to_workers}) there, or OMP_NUM_THREADS={move.to_workers} where the "
        "job is started"
    ),
    "ask-length-once": lambda move: (
        f"ask for len() of the loader once, before the loop{_called(move)}: what gives its batches counts them anew "
        "each time"
    ),
    "switch-off": lambda move: f"switch off {tools(move.setting or '')} for training, and watch again",
    "vectorise": lambda move: (
        f"do in tensor operations what Python loops do between the model and backward{_called(move)}"
        + _or_in_workers(move)
    ),
    "prepare-in-workers": lambda move: (
        f"do the work on batches before the model{'' if move.title else _called(move)} in the workers of loader "
        f"{move.loader}: in its dataset, or in collate_fn"
        + (f", with {setting('num_workers', move.made_by, move.to_workers)}" if move.to_workers else "")
    ),
    "make-batches-cheaper": _batches,
    "do-less-between": lambda move: (
        f"do the work between the loops{at(move)} less often, or at less cost; or once, before them, if it gives the "
        f"same each time. Now it takes {seconds(move.took_s or 0.0)} of the run"
    ),
    "fewer-operations": lambda move: (
        f"replace the loop over small operations of torch{at(move)} by operations on all steps at once, as far as "
        "a step needs no result of the one before: a product of matrices, einsum, cumsum, a convolution, or a layer "
        "that has the loop inside, as nn.GRU"
    ),
    "compute-in-float32": lambda move: (
        "let the model compute in float32, if its precision is enough: without double() and set_default_dtype, and "
        "with data of that type (NumPy makes float64 of what is not asked for otherwise)"
    ),
    "compute-what-counts": lambda move: (
        "compute the last layer only where targets count: with keep = labels != -100, the loss is "
        "cross_entropy(head(hidden[keep]), labels[keep])"
    ),
    "do-less-before": lambda move: f"do less before the first loop{at(move)}, or keep what it gives in a file",
    "pad-to-longest": lambda move: (
        f"pad each batch of loader {move.loader} to its longest sample (in collate_fn), not to a fixed length"
    ),
    "batch-by-length": lambda move: (
        f"let a batch of loader {move.loader} have samples of about the same length: {_by_length(move)}"
    ),
    "divide-stream": lambda move: (
        f"let each worker of loader {move.loader} give its own part of the stream{at(move)}. In its __iter__, with "
        "info = torch.utils.data.get_worker_info(): of files, files[info.id::info.num_workers]; of samples, each "
        "info.num_workers-th one from info.id on. Without workers, info is None"
    ),
    "select-first": lambda move: (
        f"in the stream of loader {move.loader}, select samples before they are decoded and transformed, by what is "
        "known of them then, such as their metadata"
    ),
    "decode-fewer-fields": lambda move: (
        f"in the stream of loader {move.loader}, decode only the fields that later stages pass on: "
        + (f"decode(..., only=[{printable(move.setting)}])" if move.setting else "decode(..., only=[...])")
    ),
    "divide-first": lambda move: (
        f"let each worker of loader {move.loader} choose its part before it decodes and transforms: by "
        "get_worker_info(), among the files or the raw samples"
    ),
    "use-all-cores": lambda move: (
        f"let the workers of loader {move.loader} use all cores: something sets their affinity "
        "(os.sched_setaffinity in worker_init_fn or in a library; GOMP_CPU_AFFINITY, KMP_AFFINITY)"
    ),
    "fewer-threads": lambda move: (
        f"allow each worker of loader {move.loader} one thread{f': {printable(move.setting)}' if move.setting else ''}"
    ),
    "spread-evenly": lambda move: (
        f"spread the work evenly over the {move.workers} workers of loader {move.loader}: "
        + ("parts (files, shards) of equal size, as many for each worker" if move.shards is not None else _EVENLY)
    ),
    "more-parts": lambda move: (
        f"divide the stream of loader {move.loader} into at least as many parts (files, shards) as workers: "
        f"{move.workers}. Or set {setting('num_workers', move.made_by)} to {move.to_workers}, which is as fast as now"
    ),
    "mend-worker": lambda move: (
        f"find out why worker {move.worker} of loader {move.loader} takes {move.slower:.1f} times as long for a sample "
        f"as the other{'s' * (move.workers > 2)}: {_DIFFERS[move.slow_part]}"
    ),
    "lower-num-workers": lambda move: f"lower {setting('num_workers', move.made_by)} of loader {move.loader}",
    "raise-prefetch-factor": lambda move: f"raise {setting('prefetch_factor', move.made_by)} of loader {move.loader}",
    "any-order": lambda move: (
        f"try in_order=False (torch 2.6 and later) for loader {move.loader}: the order of batches then varies"
    ),
}


def cheaper_hand_off(move: NextMove) -> str:
    if move.viewed_bytes:
        return (
            f"Next: let batches hold copies instead of views (`tensor.clone()`): {size(move.viewed_bytes)} that belong "
            "to no tensor of a batch cross with its views."
        )
    sent = size(move.pipe_bytes or 0.0)
    if move.carried:
        rest = "What training does use, hand over in tensors."
        return f"Next: {left_out(move)}. {sent} of a batch go through the pipe. {rest}"
    if move.array_bytes is not None and move.array_bytes > (move.pipe_bytes or 0.0) / 2:
        return (
            f"Next: let batches hold tensors instead of NumPy arrays (`torch.from_numpy` copies nothing). {sent} of a "
            "batch go through the pipe; tensors travel in shared memory."
        )
    if move.tensors:
        return f"Next: make batches cheaper to pickle{fewer_tensors(move)}."
    return (
        f"Next: make batches cheaper to pickle, with fewer or plainer objects. {sent} of a batch go through the pipe."
    )


def left_out(move: NextMove) -> str:
    """What objects in a batch need not bring."""
    return (
        f"hand over no {printable(move.carried)}, if training does not use it: objects in a batch cross with all that "
        "they hold"
    )


def fewer_tensors(move: NextMove) -> str:
    return (
        f", with a few tensors in place of {move.tensors:,.0f}: torch.stack or torch.cat in collate_fn, with lengths "
        "or offsets where they differ. Or hand over NumPy arrays or lists, which cross together"
    )
