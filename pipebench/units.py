"""Numbers and names as text. Everything inside pipebench is in seconds, bytes and samples; only this module scales."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

_SECONDS = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9))
_BYTES = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0))
_WIDE = 0.5  # of the middle: an interval that reaches further is given as a factor
_COUNTS = (("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0))


@dataclass(frozen=True)
class Scale:
    """A unit and its size in base units, shared by a whole column so that its numbers can be compared by eye."""

    unit: str
    factor: float

    def number(self, value: float, digits: int = 3) -> str:
        """`value` in this scale with at least `digits` significant digits and never an exponent."""
        scaled = value / self.factor
        magnitude = abs(scaled)
        decimals = digits - 1
        while round(magnitude, digits - 1) >= 10 and decimals > 0:
            magnitude /= 10
            decimals -= 1
        return f"{scaled:,.{decimals}f}"

    def text(self, value: float, digits: int = 3) -> str:
        return f"{self.number(value, digits)} {self.unit}".rstrip()


def _scale(units: tuple[tuple[str, float], ...], values: Iterable[float], suffix: str = "") -> Scale:
    """The largest unit in which the smallest positive value is at least 1 (or the finest unit there is)."""
    positive = [abs(value) for value in values if value]
    smallest = min(positive, default=1.0)
    unit, factor = next((pair for pair in units if smallest >= pair[1]), units[-1])
    return Scale(unit + suffix, factor)


def seconds_scale(values: Iterable[float]) -> Scale:
    """The scale of a column of durations in seconds."""
    return _scale(_SECONDS, values)


def bytes_scale(values: Iterable[float]) -> Scale:
    """The scale of a column of sizes in bytes (decimal units)."""
    return _scale(_BYTES, values)


def rate_scale(values: Iterable[float]) -> Scale:
    """The scale of a column of byte rates, in bytes per second."""
    return _scale(_BYTES, values, "/s")


def count_scale(values: Iterable[float]) -> Scale:
    """The scale of a column of counts, such as samples per second."""
    return _scale(_COUNTS, values)


def seconds(value: float) -> str:
    return seconds_scale([value]).text(value)


def lasting(value: float) -> str:
    """A duration of seconds that may be one of hours.

    >>> lasting(65_332), lasting(200), lasting(12)
    ('18.1 h', '3.33 min', '12.0 s')
    """
    return _scale((("h", 3600.0), ("min", 60.0), *_SECONDS), [value]).text(value)


def size(value: float) -> str:
    return bytes_scale([value]).text(value)


def rate(value: float) -> str:
    return rate_scale([value]).text(value)


def in_ms(value_s: float) -> float:
    """A duration for the axis of a plot, in milliseconds."""
    return value_s / 1e-3


def in_mb(value_bytes: float) -> float:
    """A size for the axis of a plot, in megabytes (decimal)."""
    return value_bytes / 1e6


def rate_number(per_s: float) -> str:
    """A rate of samples: whole from 10 on, and two digits of a smaller one.

    >>> rate_number(2500.4), rate_number(0.0321), rate_number(1e-9), rate_number(0.0)
    ('2,500', '0.032', '<0.001', '0')
    """
    if 0 < per_s < 0.001:
        return "<0.001"
    return f"{per_s:,.0f}" if per_s >= 10 else f"{per_s:.2g}"


def percent(fraction: float, decimals: int = 0) -> str:
    return f"{100 * fraction:.{decimals}f} %"


def fraction(text: str) -> float:
    """The fraction that a percentage from 0 to 9999 is, with or without its sign. ValueError if it is none."""
    try:
        found = float(text.strip().removesuffix("%")) / 100
    except ValueError:
        raise ValueError(f"{text!r} is not a percentage such as 5%") from None
    if not 0 <= found < 100:
        raise ValueError(f"{text!r} is outside 0 to 9999 %")
    return found


def width(middle: float, low: float, high: float) -> str:
    """How far an interval reaches from its middle: ±18 %, or ×÷4 (from a quarter of it to four times it).

    Half the width counts, as a share of the middle. Above a half, a percentage would reach below zero: then it is the
    larger of the two factors. Empty where there is no positive middle.
    """
    if middle <= 0:
        return ""
    half = (high - low) / 2 / middle
    if half <= _WIDE:
        return f"±{percent(half)}"
    return f"×÷{max(high / middle, middle / low):.2g}" if low > 0 else "unknown"


def counted(number: int, one: str, many: str | None = None) -> str:
    """A number with its noun: 1 worker, 2 workers."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def listed(names: Sequence[str], between: str = ", ", most: int = 3) -> str:
    """The first names, and how many more there are.

    >>> listed(["a", "b"]), listed(["a", "b", "c", "d"])
    ('a, b', 'a, b, c and 1 more')
    """
    rest = len(names) - most
    return between.join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def of_images(mean_bytes: float | None, bits_per_pixel: float | None, spread: float | None) -> str:
    """The mean size of images and their bits per pixel; unknown figures are left out."""
    if mean_bytes is None or bits_per_pixel is None:
        return "none of which could be read"
    deviation = "" if spread is None else f" ± {spread:.2f}"
    return f"{size(mean_bytes)} each, {bits_per_pixel:.2f}{deviation} bits a pixel"


def printable(name: str | bytes | os.PathLike[str]) -> str:
    """Inert text for a name that comes from data. Every output shows this text, never the name itself.

    Bytes that are not UTF-8 are kept as `\\xNN` (backslashreplace); control characters, line separators, bidirectional
    overrides and everything else that a terminal would act on are escaped; printable text stays as it is.
    """
    path = os.fspath(name)
    if isinstance(path, str) and path.isprintable():
        return path
    text = (_bytes(path) if isinstance(path, str) else path).decode("utf-8", "backslashreplace")
    return text if text.isprintable() else "".join(one if one.isprintable() else _escaped(one) for one in text)


def quoted(word: str) -> str:
    """A word as a shell takes it, inert. One that is not printable needs a shell that knows $'...' (bash, zsh, ksh).

    >>> quoted("my data/train.py"), quoted("a\\nb's.py")
    ("'my data/train.py'", "$'a\\\\nb\\\\'s.py'")
    """
    if word.isprintable():
        return shlex.quote(word)
    return f"$'{''.join(map(_in_shell, word))}'"


def _in_shell(char: str) -> str:
    """A character inside $'...': there, `\\xNN` is a byte and `\\uNNNN` a character."""
    code = ord(char)
    if char in "\\'":
        return f"\\{char}"
    if char.isprintable():
        return char
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return _escaped(char) if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def code_place(file: str, line: int) -> str:
    """A line of a file, as a reader knows it: without its folder.

    >>> code_place("/home/me/train.py", 12)
    'train.py:12'
    """
    return f"{printable(os.path.basename(file))}:{line}"


def called_at(function: str, by: str, file: str, line: int) -> str:
    """Where work is: the function of the user's ("": the line itself), and the line that calls it, or another `by`.

    >>> called_at("rank", "", "/me/train.py", 50), called_at("rank", "evaluate", "/me/train.py", 50)
    ('rank, called in train.py:50', 'rank, by evaluate in train.py:50')
    >>> called_at("await", "", "/me/train.py", 50)  # of a coroutine, in what asyncio does meanwhile
    'await in train.py:50'
    """
    where = code_place(file, line)
    if not function:
        return where
    if function == "await":
        return f"await in {where}"
    return f"{printable(function)}, {f'by {printable(by)}' if by else 'called'} in {where}"


def read_anew(file: str) -> tuple[str, ...]:
    """A sentence on the file that a line opens again and again; none if there is no such file ("").

    >>> read_anew("/data/vocab.json")
    ('vocab.json is opened and read anew, again and again.',)
    """
    return (f"{printable(os.path.basename(file))} is opened and read anew, again and again.",) if file else ()


def did_needlessly(
    what: str, function: str, file: str, line: int, several: bool, samples: int, calls: int, again: int, whole: float,
    kept: float, per: str = "sample",
) -> str:  # fmt: skip
    """A sentence on a function that did more than its samples needed: what `results.drilled.NeedlessCall` tells.

    Or than iterations needed, if they were looked at `per` iteration.

    >>> did_needlessly("each", "mel_bank", "/home/me/clips.py", 24, False, 6, 6, 0, 0, 0)
    'mel_bank, called at clips.py:24, gave the same in each of 6 samples.'
    """
    name, at = printable(function), f"{code_place(file, line)}{' and elsewhere' if several else ''}"
    called = f"{name}, called at {at},"
    return {
        "each": f"{called} gave the same in each of {samples} {per}s.",
        "arguments": f"{called} got and gave the same in each of {samples} {per}s.",
        "object": f"{called} was made with the same arguments in each of {samples} {per}s.",
        "before": f"Of {calls} calls of {name} ({at}) in {samples} {per}s, {again} gave what one before had given.",
        "cut": f"{called} gives {size(whole)}, of which a part is cut out: a whole sample has {size(kept)}.",
    }[what]


def _bytes(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")  # gives back the bytes of a file's name (PEP 383)
    except UnicodeEncodeError:  # half a character, as JSON can hold it
        return text.encode("utf-8", "surrogatepass")


def all_printable(found: Any) -> Any:
    """Plain values as JSON has them, with each text in them inert."""
    return with_texts(found, printable)


def with_texts(found: Any, change: Callable[[str], str]) -> Any:
    """Plain values as JSON has them, with each text in them changed, also names of entries."""
    if isinstance(found, str):
        return change(found)
    if isinstance(found, dict):
        return {with_texts(name, change): with_texts(value, change) for name, value in found.items()}
    return type(found)(with_texts(one, change) for one in found) if isinstance(found, list | tuple) else found


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
