"""Slow lines over tensors: operations of torch for which it has one that does less. A part of the table of slow lines.

They are known by their text alone, because torch's operations do not show in a look.
"""

from __future__ import annotations

import re

from pipebench.watch.read.known_row import Known

_K = r"(?:[01]\s*)?:\s*(?:\w[\w.]*(?:\s*\+\s*\w+)?)\s*"  # the first ones
_LAST = r"-\s*\w[\w.]*\s*:\s*"
_FIRST_ONES = rf"\[(?:[^\[\]]*,)?\s*(?:{_K}|{_LAST})\]"
_SORTS = r"(?:argsort|sort|msort)\((?:[^()#]|\([^()#]*\))*\)(?:\.indices|\.values|\[[01]\])?"
_WHOLE = r"unsqueeze\(\s*-?\d\s*\)|\w+\[(?:[^\[\]]*,)?\s*None\s*(?:,[^\[\]]*)?\]"
_DIFFERENCE = rf"(?:{_WHOLE})\s*-\s*[\w.]*(?:{_WHOLE})"
_OF_PAIRS = re.compile(
    rf"{_DIFFERENCE}[^#]*(?:\*\*\s*2|\.pow\(|\.square\(|\.abs\(|\.norm\()|\bnorm\([^#]*{_DIFFERENCE}"
)
_ANY = 9  # functions in C: what the text says is most of the line
_FIRST_K = "the first k without a full sort"
_TOP_K = (
    "It puts all of them in order, to keep a few. torch.topk(x, k, dim=-1) gives the k largest,",
    "with largest=False the k smallest; of arrays, np.argpartition. Where values are equal, the",
    "order may differ.",
)
OPERATIONS = (
    Known(  # docs.pytorch.org/docs/stable/generated/torch.topk.html
        re.compile(rf"\b{_SORTS}{_FIRST_ONES}"),
        _FIRST_K,
        _TOP_K,
        r"numpy\.(?:arg)?sort$",
        beside=("argsort", "sort"),
        anywhere=True,
    ),
    Known(
        re.compile(rf"^\s*(?:_\s*,\s*)?(\w+)(?:\s*,\s*_)?\s*=(?!=)[^#]*\b{_SORTS}\s*(?:#.*)?$"),
        _FIRST_K,
        _TOP_K,
        r"numpy\.(?:arg)?sort$",
        beside=("argsort", "sort"),
        every=rf"\bNAME{_FIRST_ONES}",
        anywhere=True,
    ),
    Known(  # docs.pytorch.org/docs/stable/generated/torch.cdist.html
        _OF_PAIRS,
        "distances of all pairs in one operation",
        (
            "It makes the difference of each pair, and keeps the distance. torch.cdist(a, b) computes",
            "that without these (p=1: sums of absolute differences). Rounding differs a little.",
        ),
        r"torch\.norm$|torch\._?tensor\.norm$|numpy\.norm$",
        most=_ANY,
        anywhere=True,
    ),
    Known(  # docs.pytorch.org/docs/stable/generated/torch.nn.Embedding.html
        re.compile(r"\bone_hot\([^#]*\)[^#]*@|(?:\bmatmul|\blinear|\bself(?:\.\w+)+)\(\s*(?:[\w.]+\.)?one_hot\("),
        "rows by their number, in place of one-hot vectors",
        (
            "A one-hot vector times a matrix is one row of it: nn.Embedding, or matrix[index], gives that",
            "without a product. Of a Linear layer, it is weight.T[index] + bias.",
        ),
        r"torch\.",
        most=_ANY,
        anywhere=True,
    ),
    Known(  # docs.pytorch.org/docs/stable/generated/torch.linalg.inv.html
        re.compile(r"\b(?:inverse|inv)\((?:[^()#]|\([^()#]*\))*\)\s*@"),
        "a system solved, without an inverse",
        ("torch.linalg.solve(a, b) gives inverse(a) @ b faster, and rounds less.",),
        most=2,
        anywhere=True,
    ),
)
