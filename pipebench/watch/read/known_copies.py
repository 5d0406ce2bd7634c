"""Slow lines that sort, copy, convert or search a whole list or array, of which a sample needs a part or nothing new.

The other way does less by what the line says: it is done once, or for the part that is used.
"""

from __future__ import annotations

import re

from pipebench.watch.read.known_row import Known

_SAME = r"(?<![\w.])(?:self\.\w+|[A-Z][A-Z_\d]*)(?:\.(?:keys|values|items)\(\))?"  # the same for each sample
_PLAIN = r"[A-Za-z_][\w.]*"
_CONVERTS = r"\.(?:astype\(|(?:float|double|half|long|int|numpy)\(\))"
_USED = r"\bNAME\[(?!\s*:?\s*\])[^\]]+\](?!\s*[-+*/|&]?=(?!=))|\blen\(NAME\)|\bNAME\.shape\b"
_REMOVES = re.compile(r"(?<![\w.])((?:self\.)?\w+)\.remove\(")
COPIES = (
    Known(
        re.compile(
            rf"\b(?:sorted|(?:np|numpy|torch)\.(?:sort|argsort|unique))\(\s*(?:list\()?\s*{_SAME}\s*\)?\s*[,)](?!\s*\[)"
        ),
        "items sorted once",
        (
            "The same items are sorted for each sample. Sort them once, when the dataset is made, and",
            "keep that: self.keys = sorted(items).",
        ),
        r"numpy\.(?:(?:arg)?sort|_?unique\w*)$|torch\.\w*unique\w*$",
        most=0,
        beside=("sorted", "sort", "argsort", "unique", "keys", "values", "items", "list"),
        same=True,
        draws=True,
    ),
    Known(
        re.compile(rf"(?<![\w.])(?:set|frozenset|dict|list)\(\s*{_SAME}\s*\)"),
        "a set or list made once",
        (
            "The same set, list or dict is made for each sample. Make it once, when the dataset is made,",
            "and keep it; what changes it needs a copy.",
        ),
        most=0,
        beside=("set", "frozenset", "dict", "keys", "values", "items"),
        same=True,
        draws=True,
    ),
    Known(
        re.compile(
            rf"(?:^|[:;]\s*)(\w+)\s*=(?!=)\s*(?:[^#()=;]*\belse\s+)?"
            rf"(?:{_PLAIN}\.(?:copy|clone)\(\)|(?:(?:np|numpy)\.(?:array|copy)|torch\.tensor|copy\.copy|list)\(\s*{_PLAIN}\s*\))"
            rf"(?:{_CONVERTS}[^()]*\)?)?\s*(?:#.*)?$"
        ),
        "a part taken without a copy of the whole",
        (
            "The whole is copied, and then a part of it is used. Index it first, and copy or convert only",
            "that part: part = whole[i].copy().",
        ),
        most=0,
        beside=("copy", "clone", "array", "tensor", "astype", "double", "half", "long", "numpy"),
        every=_USED,
        anywhere=True,
    ),
    Known(
        _REMOVES,
        "several items drawn at once",
        (
            "list.remove compares one item after the other, and moves all behind it. random.sample(items,",
            "k) draws k different ones at once; so does torch.randperm(len(items))[:k], as indices.",
        ),
        most=0,
        beside=("remove", "choice", "randint", "randrange", "append", "range"),
        listed=True,
        near=r"\bchoice\(\s*NAME\b",
        draws=True,
    ),
    Known(
        _REMOVES,
        "a set in place of a list",
        (
            "list.remove compares one item after the other, and moves all behind it. A set has discard();",
            "of a list whose order does not matter, put the last one in its place, and pop() that.",
        ),
        most=0,
        beside=("remove", "append", "range"),
        listed=True,
        draws=True,
    ),
    Known(
        re.compile(rf"(?<![\w.])(\w+)\s*=(?!=)[^#;=]*{_CONVERTS}"),
        "a single conversion",
        (
            "Each conversion makes a new array, and so does each operation in between. Convert once, to",
            "the type that training takes, and only the part that is used.",
        ),
        most=0,
        beside=("astype", "float", "double", "half", "long", "numpy"),
        twice=True,
        anywhere=True,
    ),
)
