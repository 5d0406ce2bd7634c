"""Lines of the user's samples that other people's programs are slow by, with what is written in their place.

What such a line takes is measured by looks at the stack; how much of it the other way saves is not, so its prediction
is the most that it can bring. Not tried: `advise` changes no code of the dataset.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pipebench.remedies.seen import TRY_FROM, Seen, without_share
from pipebench.results.advice import Change, Finding, Place
from pipebench.results.drilled import DrilledLine

PLACE = 12
LEAST_SHARE = 0.15  # of the time in which samples are made
_CALLS = re.compile(r"([\w.]+)\s*\(")
_QUICK = ("int", "float", "len", "list", "tuple", "range", "min", "max", "round", "return", "in", "not", "and", "or")


class _Known(NamedTuple):
    """A line in which `pattern` is found, and how it is written instead.

    `library` is what the line calls then: the rest of the same line may be what takes the time. Functions that are not
    of Python do not show in a look, so of these (no library), the line must call nothing else.
    """

    pattern: re.Pattern[str]
    title: str
    how: tuple[str, ...]
    library: str = ""


KNOWN = (
    _Known(  # `CvCapture_FFMPEG::seek` goes back to a key frame and grabs (modules/videoio/src/cap_ffmpeg_impl.hpp)
        re.compile(r"\.set\(\s*(?:\w+\.)*CAP_PROP_POS_(?:FRAMES|MSEC)\b"),
        "frames read on, without seeking",
        (
            "A seek decodes again from the key frame before it. Seek once, to the first frame of",
            "a clip, and read on from there; grab() passes over a frame that is not needed.",
        ),
    ),
    _Known(  # a row becomes a Series, of objects where types differ
        re.compile(r"\.i?loc\[(?!:)"),
        "columns as arrays",
        (
            "pandas builds an object for each row. Take the columns out once, when the dataset is",
            "made: values = frame[names].to_numpy(), and index the arrays.",
        ),
        "pandas",
    ),
    _Known(  # github.com/numpy/numpy/pull/9855; `shuffle` in the reference of `numpy.random.Generator.choice`
        re.compile(r"\b(?:np|numpy)\.random\.choice\((?=[^#]*replace\s*=\s*False)(?![^#]*\bp\s*=)"),
        "numbers drawn without a permutation",
        (
            "np.random.choice permutes all numbers to draw a few; rng.choice(n, size, replace=False,",
            "shuffle=False) does not. Make rng in each worker, at its first sample, or all workers",
            "draw the same numbers: rng = np.random.default_rng(torch.initial_seed()). To draw a few,",
            "random.sample(range(n), size) is enough: torch seeds it in each worker.",
        ),
    ),
    _Known(  # github.com/pytorch/pytorch/issues/13918; lists of numbers are walked in the same way
        re.compile(r"\btorch\.(?:(?:as_)?tensor|(?:Float|Double|Long|Int)?Tensor)\("),
        "tensors of arrays, not of lists",
        (
            "Of lists of numbers or arrays, torch.tensor takes each one by itself. Keep arrays:",
            "torch.from_numpy(np.stack(...)), or pad_sequence of torch.from_numpy(...).",
        ),
    ),
    _Known(  # github.com/numpy/numpy/issues/28795
        re.compile(r"\bnp\.load\((?=[^#]*\.npz)(?=[^#]*mmap_mode)"),
        "arrays in .npy files",
        (
            "np.load ignores mmap_mode for .npz: the whole array is read and unpacked. Save each",
            "array as .npy once; with mmap_mode='r', only the part that is used is read.",
        ),
        "numpy",
    ),
    _Known(  # it runs Python code for each object inside
        re.compile(r"\b(?:copy\.)?deepcopy\("),
        "no deep copy of a sample",
        ("Copy only what the transforms change, such as array.copy() or dict(sample).",),
        "copy",
    ),
)


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    found = max(_lines(seen), key=lambda one: one[0], default=None)
    if found is None:
        return None
    share, known, at = found
    predicted = _at_most(seen, share)
    if predicted < TRY_FROM:
        return None
    return Change(
        "slow_lines", {}, f"{share:.0%} of a sample's time", predicted=predicted, title=known.title, how=known.how,
        at=at, of_script=True,
    )  # fmt: skip


def _lines(seen: Seen) -> Iterator[tuple[float, _Known, Place]]:
    """The known lines with a large share of the time in which samples are made, and these shares."""
    for known in KNOWN:
        lines = [(share, line) for _, share, line in seen.lines() if _is_it(known, line)]
        total = sum(share for share, _ in lines)
        if total >= LEAST_SHARE:
            _, most = max(lines, key=lambda one: one[0])
            yield total, known, Place(most.function, most.file, most.line)


def _is_it(known: _Known, line: DrilledLine) -> bool:
    """Whether the time of this line is that of what is known to be slow."""
    if not known.pattern.search(line.text):
        return False
    if known.library:
        return line.calls.split(".")[0] == known.library
    calls = [one for one in _CALLS.findall(line.text) if one.rpartition(".")[2] not in _QUICK]
    return not line.calls and len(calls) == 1


def _at_most(seen: Seen, share: float) -> float:
    """The speed-up of the loop if these lines took no time. Without workers, the loop makes the samples itself."""
    if seen.workers:
        return min(seen.most_by_workers, without_share(share))
    return without_share(share * seen.wait_share)
