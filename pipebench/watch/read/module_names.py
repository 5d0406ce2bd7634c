"""Puts what a module gives its names in the place of these names, in a line of a function that uses them. Pure.

While samples are made, such a name stands for one value. A text is put in as it is, so that a query or the kind of a
file shows. For any other value, as `parser.parse_args().data`, there is a name as constants have: ARGS_DATA.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_TEXT = re.compile(r"([rR]?(?:'[^'\\{}%]*'|\"[^\"\\{}%]*\"))\s*(?:#.*)?$")
_USES = re.compile(
    r"'[^']*'|\"[^\"]*\"|(?<![\w.])([A-Za-z_]\w*)(\.[A-Za-z_]\w*)?(\.[A-Za-z_]\w*)?(?![\w.(\[])(?!\s*=(?!=))"
)


def with_values(text: str, function: Sequence[str], values: Mapping[str, str]) -> str:
    """The text, with the module's `values` in it. `function` are the lines of its function."""
    if not values:
        return text
    whole = "\n".join(function)

    def value(found: re.Match[str]) -> str:
        name = found[1]
        if name not in values or _is_own(name, whole):
            return found[0]
        literal = None if found[2] else _TEXT.match(values[name])
        return literal[1] if literal else found[0].replace(".", "_").upper()

    return _USES.sub(value, text)


def _is_own(name: str, function: str) -> bool:
    """Whether a function gives this name a value of its own, or takes it."""
    gives = rf"(?<![\w.]){name}\s*(?:,[^=#(\n]*)?(?::[^=\n]+)?:?=(?!=)|\bfor\s[^#\n:]*?\b{name}\b[^#\n:]*?\bin\b"
    if re.search(rf"{gives}|\bas\s+\(?{name}\b|\b(?:import|global|nonlocal)\b[^#\n]*\b{name}\b", function):
        return True
    return any(re.search(rf"\b{name}\b", one) for one in _parameters(function))


def _parameters(function: str) -> list[str]:
    """What stands between the brackets of each `def`, and between a `lambda` and its colon."""
    found = []
    for one in re.finditer(r"\bdef\s+\w+\s*\(|\blambda\b", function):
        depth, begin = int(one[0].endswith("(")), one.end()
        for at in range(begin, len(function)):
            depth += (function[at] in "([{") - (function[at] in ")]}")
            if depth == 0 and function[at] in ("):" if one[0].endswith("(") else ":"):
                found.append(function[begin:at])
                break
    return found
