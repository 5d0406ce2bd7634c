"""Counts the tokens of a batch, also of one without names for them and of sequences that are packed into one.

A batch shows its tokens by a name, by the lengths or the mask of its samples, by targets that are the same tokens one
place on, or by the bounds of the sequences in one long row of them.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pipebench.watch.worker.padded import SHORTEST, agree, lengths_in, size

_NAMES = ("input_ids", "tokens", "token_ids", "src_tokens")
_MASK = "attention_mask"
_BOUNDS = ("cu_seqlens", "cu_seq_lens", "cu_seq_lens_q", "cu_seqlens_q")
_POSITIONS = "position_ids"
_INTEGERS = ("int64", "int32", "int16", "uint16", "uint32")
_FEW_KERNELS = "torch.uint16", "torch.uint32"  # torch finds no maximum of these
_NO_TARGET = -100  # docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html: `ignore_index`
_ENTRIES = 20
_MOST = 8192  # single sequences of a batch
_WORDS = 256  # at least, where only bounds tell: the kinds of atoms in molecules are fewer


class Tokens(NamedTuple):
    """The samples and tokens of a batch, and the `places` for tokens if the batch says which are padding (else 0)."""

    samples: int
    tokens: int
    places: int = 0


def tokens_of(batch: Any) -> Tokens | None:
    """The tokens that a batch shows; None if it shows none. Nothing on a device is looked at."""
    if isinstance(batch, Mapping):
        named = _named(batch)
        inner = next((one for one in batch.values() if isinstance(one, Mapping)), None)
        if named is not None or (inner is not None and (named := _named(inner)) is not None):
            return named
        entries = list(itertools.islice(batch.values(), _ENTRIES))
    else:
        whole = _is_packed(batch) or not isinstance(batch, (tuple, list))
        entries = [batch] if whole else list(batch[:_ENTRIES])
    packed = next((found for one in entries if (found := _packed(one)) is not None), None)
    return packed or _unnamed([one for one in entries if not _is_nested(one)])


def ignored_targets(batch: Any) -> tuple[int, int]:
    """The numbers of the table of targets in a batch, and how many of them are -100: a cross entropy leaves these out.

    Both are 0 where no table of integers has some.
    """
    entries = batch.values() if isinstance(batch, Mapping) else batch if isinstance(batch, (tuple, list)) else ()
    tables = [one for one in _held(entries) if are_integers(one) and size(one) >= SHORTEST]
    counts = ((int((one == _NO_TARGET).sum()), size(one)) for one in tables)
    ignored, targets = max(counts, default=(0, 0))
    return (targets, ignored) if ignored else (0, 0)


def on_host(found: Any) -> Any:
    """A tensor in the host's memory or a NumPy array; else None. To read one on a device would wait for the device."""
    tensor = getattr(sys.modules.get("torch"), "Tensor", ())
    if isinstance(found, tensor):
        if found.device.type != "cpu" or found.is_nested or str(found.layout) != "torch.strided":
            return None
        return found.numpy() if str(found.dtype) in _FEW_KERNELS else found
    return found if isinstance(found, getattr(sys.modules.get("numpy"), "ndarray", ())) else None


def are_integers(one: Any) -> bool:
    """Whether a tensor or array holds integers that may be tokens: bytes are more often pixels."""
    return str(getattr(one, "dtype", "")).removeprefix("torch.") in _INTEGERS


def _named(batch: Mapping[Any, Any]) -> Tokens | None:
    """What the names of its entries show."""
    found = next((batch[name] for name in _NAMES if name in batch), None)
    if found is None or (known := _packed(found)) is not None:
        return None if found is None else known
    if isinstance(found, (list, tuple)):
        return _several(found)
    ids = on_host(found)
    if ids is None or not are_integers(ids) or not 1 <= len(ids.shape) <= 3:
        return None
    places, samples = size(ids), int(ids.shape[0]) if len(ids.shape) > 1 else 1
    mask = on_host(batch.get(_MASK))
    masked = mask is not None and tuple(mask.shape) == tuple(ids.shape)
    if not masked and len(ids.shape) == 2 and (told := _with_lengths([ids], _held(batch.values()))):
        return told
    if samples == 1 and not masked and (sequences := _sequences(batch, ids)):
        return Tokens(sequences, places)
    return Tokens(samples, int((mask != 0).sum()) if masked else places, places if masked else 0)


def _sequences(batch: Mapping[Any, Any], ids: Any) -> int:
    """How many sequences are packed into one row of tokens, by their bounds or their positions; 0: not told."""
    each = (_within(on_host(batch[name]), size(ids)) for name in _BOUNDS if name in batch)
    return next(filter(None, each), 0) or _begun(on_host(batch.get(_POSITIONS)), ids)


def _several(found: Sequence[Any]) -> Tokens | None:
    """Single sequences, which nothing has padded: tensors, arrays, or lists of numbers."""
    if not found or len(found) > _MOST:
        return None
    sizes = [_length(one) for one in found]
    return Tokens(len(sizes), sum(sizes)) if all(sizes) else None


def _length(one: Any) -> int:
    """The number of tokens in a sequence; 0 if it is none."""
    if isinstance(one, (list, tuple)):
        return len(one) if one and type(one[0]) is int else 0
    held = on_host(one)
    return size(held) if held is not None and are_integers(held) and len(held.shape) == 1 else 0


def _is_packed(one: Any) -> bool:
    return type(one).__name__ == "PackedSequence" and hasattr(one, "batch_sizes")


def _is_nested(one: Any) -> bool:
    return bool(getattr(one, "is_nested", False))


def _packed(one: Any) -> Tokens | None:
    """The tokens of a `PackedSequence`, or of a nested tensor, of integers."""
    if _is_packed(one):
        data, sizes = on_host(one.data), on_host(one.batch_sizes)
        whole = data is not None and sizes is not None and are_integers(data) and len(data.shape) == 1
        return Tokens(int(sizes[0]), size(data)) if whole else None
    if not _is_nested(one) or one.device.type != "cpu" or not are_integers(one):
        return None
    values = one.values() if str(one.layout) == "torch.jagged" else None
    return Tokens(int(one.size(0)), int(one.numel() if values is None else values.numel()))


def _unnamed(entries: Sequence[Any]) -> Tokens | None:
    """What entries without a name show."""
    held = _held(entries)
    tables = [one for one in held if are_integers(one) and len(one.shape) == 2 and one.shape[1] >= SHORTEST]
    tables = [one for one in tables if int(one.max()) > 1] if all(map(size, tables)) else []
    return _with_lengths(tables, held) or _with_targets(tables) or _in_one_row(held)


def _held(entries: Iterable[Any]) -> list[Any]:
    """The lists, and the tensors and arrays in the host's memory."""
    found = (one if isinstance(one, (list, tuple)) else on_host(one) for one in itertools.islice(entries, _ENTRIES))
    return [one for one in found if one is not None]


def _with_lengths(tables: Sequence[Any], held: Sequence[Any]) -> Tokens | None:
    """Of tokens in rows, padded at one end, whose lengths or mask stand beside them."""
    for table in tables:
        rows, places = map(int, table.shape)
        for from_end in (False, True):
            ids = turned(table) if from_end else table
            for one in held:
                mask = from_end and len(getattr(one, "shape", ())) == 2
                lengths = lengths_in(turned(one) if mask else one)
                if lengths and len(lengths) == rows and agree(ids, 1, lengths):
                    return Tokens(rows, sum(lengths), rows * places)
    return None


def _with_targets(tables: Sequence[Any]) -> Tokens | None:
    """Of tokens whose targets are the same tokens, one place on."""
    for ids, targets in itertools.permutations(tables, 2):
        if tuple(ids.shape) == tuple(targets.shape):
            known, given = targets[:, :-1], ids[:, 1:]
            if bool(((known == given) | (known == _NO_TARGET)).all()) and bool((given != given[:1, :1]).any()):
                return Tokens(int(ids.shape[0]), size(ids))
    return None


def _in_one_row(held: Sequence[Any]) -> Tokens | None:
    """Of sequences that stand one after the other in one row, with their bounds, or each token's place in its own."""
    rows = [one for one in held if are_integers(one) and (len(one.shape) == 1 or tuple(one.shape[:-1]) == (1,))]
    for ids in sorted(rows, key=size, reverse=True):
        for one in rows:
            if one is not ids and (sequences := _within(one, size(ids)) or _begun(one, ids)):
                return Tokens(sequences, size(ids)) if int(ids.max()) >= _WORDS else None
    return None


def _within(bounds: Any, places: int) -> int:
    """How many sequences these bounds make of a row: they begin at 0, grow, and end at its end; 0: they do not.

    Bags of a few features have such bounds, too, so sequences are long on average, and not all as long.
    """
    if bounds is None or not are_integers(bounds) or len(bounds.shape) != 1 or not 2 < bounds.shape[0] <= _MOST:
        return 0
    told = bounds.tolist()
    lengths = [after - before for before, after in itertools.pairwise(told)]
    like_bounds = told[0] == 0 and told[-1] == places and min(lengths) > 0
    return len(lengths) if like_bounds and places >= SHORTEST * len(lengths) and len(set(lengths)) > 1 else 0


def _begun(positions: Any, ids: Any) -> int:
    """How many sequences begin in a row, by the place of each token in its sequence; 0: these are no such places."""
    if positions is None or not are_integers(positions) or size(positions) != size(ids) or size(ids) < SHORTEST:
        return 0
    places = positions.reshape(-1)
    begins = places == 0
    if not bool(begins[0]) or not bool((begins[1:] | (places[1:] == places[:-1] + 1)).all()):
        return 0
    sequences = int(begins.sum())
    return sequences if sequences > 1 and size(ids) >= SHORTEST * sequences else 0


def turned(table: Any) -> Any:
    """A table with its last column first."""
    return table.flip(1) if hasattr(table, "flip") else table[:, ::-1]
