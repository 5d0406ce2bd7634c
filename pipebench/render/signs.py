"""The signs of our own text that an output may lack, and what stands for them in ASCII. Pure.

Names of the user's are not touched: what the output lacks of them is escaped when it is written.
"""

from __future__ import annotations

_INSTEAD = {
    "×": "x", "÷": "/", "±": "+/-", "µ": "u", "–": "-", "→": "->", "·": "-", "≤": "<=", "≈": "~", "≥": ">=",
    "“": '"', "”": '"',
    "█": "#", "─": "-", "…": "~", "▁": "_", "▂": ".", "▃": ":", "▄": "-", "▅": "=", "▆": "+", "▇": "*",
}  # fmt: skip
_ONE_COLUMN = str.maketrans({sign: other for sign, other in _INSTEAD.items() if len(other) == 1})


def missing(encoding: str | None) -> frozenset[str]:
    """The signs that an output with this encoding cannot show. Of an unknown encoding, all of them."""
    return frozenset(sign for sign in _INSTEAD if not _has(encoding or "ascii", sign))


def _has(encoding: str, sign: str) -> bool:
    try:
        sign.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def plain(text: str, lacking: frozenset[str]) -> str:
    """The text with other signs in place of those that are lacking. A line may become longer: do it before layout."""
    for sign in lacking:
        text = text.replace(sign, _INSTEAD[sign])
    return text


def drawn(text: str, lacking: frozenset[str]) -> str:
    """Laid-out text with others in place of the signs that layout itself draws: each takes one column, as before."""
    return text.translate({sign: other for sign, other in _ONE_COLUMN.items() if chr(sign) in lacking})
