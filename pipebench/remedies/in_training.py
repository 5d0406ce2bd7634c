"""Less work in training itself, as looks at the loop found it. A change of the script: predicted, and not tried."""

from __future__ import annotations

from collections.abc import Sequence

from pipebench.remedies.seen import Seen, line_of, of_cause
from pipebench.results.advice import Change, Finding, Place

PLACE = 13
# cause -> what its change is called, and how it is made
_CHANGES: dict[str, tuple[str, tuple[str, ...]]] = {
    "own-lines": (
        "less work besides layers in forward",
        ("Do it less often, or in one operation on a tensor or an array that is kept.",),
    ),
    "many-operations": (
        "operations on all steps at once",
        ("As far as a step needs no result of the one before: a product of matrices, einsum, cumsum, or nn.GRU.",),
    ),
    "python-loops": (
        "tensor operations in place of Python loops",
        ("What needs no output of the model may be done in workers instead.",),
    ),
    "unused-gradients": (
        "no gradients that nobody uses",
        ("Set requires_grad_(False) on all weights that no optimiser holds, unless these are to train later.",),
    ),
    "checkpointing": (
        "no checkpointing of activations",
        ("Train without torch.utils.checkpoint, if the memory suffices.",),
    ),
    "computed-again": (
        "nothing computed again",
        ("Keep what it gives: in the model (register_buffer), before the loop, or for the rest of a forward.",),
    ),
    "compiling": (
        "fewer graphs compiled",
        ("TORCH_LOGS=recompiles names what differs from call to call: dynamic=True, or padding to few sizes.",),
    ),
    "slower-steps": (
        "less kept from step to step",
        ("Find what the loop keeps from one iteration to the next, and detach it or drop it.",),
    ),
}
_METRIC = (
    "a metric less often",
    ("A metric over all of the pass so far is enough at its end; or keep sums that each step adds to.",),
)


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    causes = seen.watched.account.causes if seen.watched.account else ()
    known = [one for one in causes if one.code in _CHANGES and not one.doubtful]
    found = max(known, key=lambda one: one.saving_s, default=None)
    if found is None:
        return None
    values = found.values
    title, how = _METRIC if "metric" in values and "models" not in values else _CHANGES[found.code]
    if line := line_of(values):
        title, how = str(values["title"]), line
    place = str(values.get("file", "")), int(values.get("line", 0))
    at = Place(str(values.get("function") or "its place"), *place) if all(place) else None
    return of_cause(seen, found, "in_training", title, how, at)
