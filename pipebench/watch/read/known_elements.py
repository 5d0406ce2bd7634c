"""Lines that are told by how often they run: which work on one item at a time, and what is written in their place.

What they work on is judged by their text and the loop around them. Only where that shows numbers of an array,
operations on arrays are named. Pure, but for source text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pipebench.results.drilled import DrilledLine
from pipebench.watch.read.known_lines import IN_QUOTES
from pipebench.watch.read.known_row import Known
from pipebench.watch.read.lines_around import Text, body_around, function_above

ELEMENTS = Known(
    re.compile(""),
    "one operation on whole arrays",
    (
        "Python runs it for one element at a time. NumPy and torch have operations for many:",
        "broadcasting (a[:, None] - a), an array as index (table[codes]), np.unique, np.bincount,",
        "np.where. Else, numba.njit compiles loops over numbers.",
    ),
    anywhere=True,
)
IN_TURN = Known(  # the same, where a turn of the loop reads what the one before gave a name, or a function calls itself
    re.compile(""),
    "a compiled loop",
    (
        "Python runs it many times, and each time seems to need the result of the one before:",
        "numba.njit compiles such loops over numbers. Or look for a library in C that has the whole",
        "function, or take one step for many samples at once.",
    ),
    anywhere=True,
)
PARSED = Known(  # where a line or its loop makes numbers of what it splits, or of what may be none
    re.compile(""),
    "numbers that are parsed once",
    (
        "Python makes numbers of text, one at a time and in each pass. Do it once, before training,",
        "and save the array as .npy: np.load reads it without parsing. Where the text must stay,",
        "np.fromstring(text, sep=',') parses all numbers of a text in one call, and",
        "pd.to_numeric(texts, errors='coerce') those of many texts, some of which are no numbers.",
    ),
    anywhere=True,
)
JOINED = Known(
    re.compile(""),
    "texts joined at once",
    (
        "Python adds one piece to a text at a time. ''.join(pieces) joins all of them; what a method",
        "of the whole text does, such as text.upper() or text.translate(table), needs no loop.",
    ),
    anywhere=True,
)
CODES = Known(
    re.compile(""),
    "codes looked up once",
    (
        "Python looks up one item at a time, in each pass. Do it once for all, before training, and",
        "keep arrays of codes. Letters need no loop: table[np.frombuffer(text.encode(), np.uint8)]",
        "has the codes of a whole text.",
    ),
)
TEXTS = Known(
    re.compile(""),
    "texts that are taken apart once",
    (
        "Python goes through pieces of texts, one at a time and in each pass. Do it once for all",
        "texts, before training, and keep what it gives: best in arrays of numbers.",
    ),
)
ONE_TENSOR = Known(
    re.compile(""),
    "one tensor of all items",
    (
        "A tensor or an array is made for each item. Make one of all: torch.tensor(values), or",
        "np.asarray(values, np.float32). And keep arrays, not lists: torch.from_numpy copies nothing.",
    ),
    anywhere=True,
)
ONCE = Known(
    re.compile(""),
    "work that is done once, before training",
    (
        "Python runs it for one item at a time, in each pass. Where its result depends on nothing",
        "else, do it once for all samples, before training, and keep what it gives: best in arrays.",
    ),
)
ITEMS = Known(  # the same in a loop of training or validation, where it may be about what a model gives
    re.compile(""),
    "work on many items at once",
    (
        "Python runs it for one item at a time. Of numbers, keep arrays: one operation of NumPy or",
        "torch takes many. What stays the same while training goes on is to be done once, before it.",
    ),
    anywhere=True,
)
BY_COUNT = (ELEMENTS, IN_TURN, PARSED, JOINED, CODES, TEXTS, ONE_TENSOR, ONCE, ITEMS)
_BEFORE_TRAINING = (CODES, TEXTS, ONCE)

_NUMBERS, _SPLIT = re.compile(r"\b(?:float|int)\(|\bmap\(\s*(?:float|int)\b"), re.compile(r"\.split\(|\bcsv\.reader\(")
_NO_NUMBER = re.compile(r"\s*except\b[^#]*\b(?:ValueError|TypeError)\b")
_FIRST = re.compile(r"\b(?:float|int)\(\s*\w+\s*\)")
_MAKES = re.compile(
    r"\b(?:torch\.(?:(?:as_)?tensor|from_numpy|(?:Float|Long)Tensor)|(?:np|numpy)\.(?:array|asarray|float32))\("
    r"\s*\[?\s*[A-Za-z_][\w.]*(?:\[[^\]]*\])?\s*[\],)]"
    r"|\btorch\.stack\(\s*[\[(][^#]*\bfor\b"
)
_ADDS = re.compile(r"(?:^|[:;])\s*([A-Za-z_]\w*)\s*(?:\+=|=\s*\1\s*\+)")
_LOOKS_UP = re.compile(r"\.get\(\s*\w+\s*[,)]")
_ON_TEXTS = re.compile(
    r"\.(?:upper|lower|casefold|title|[lr]?strip|splitlines|replace|startswith|endswith|join|encode|decode"
    r"|format|translate|findall|finditer|fullmatch|group|is(?:alpha|digit|alnum|space|upper|lower))\("
    r"|\.r?split\(\s*(?:\)|['\"])|\b(?:hash|ord|chr|str)\(|(?<!\w)re\.\w+\("
)
_ON_OBJECTS = re.compile(
    r"\[\s*[rbf]?['\"]|\b(?:isinstance|getattr)\(|^\s*except\b|\.(?:items|keys|values|setdefault)\("
)
_ON_NUMBERS = re.compile(
    r"\w\[(?!\s*['\"])|\w\s*(?:[*%/<>&|^-]|\*\*|//|<<|>>)=?\s*[\w(.]|\w\s*\+\s*\d"
    r"|\b(?:range|abs|min|max|sum|round|float|int)\(|(?<!\w)(?:np|numpy|math|torch)\.\w"
)
_ASSIGNS = re.compile(r"\s*((?:[A-Za-z_]\w*\s*,\s*)*[A-Za-z_]\w*)\s*=(?!=)(.*)")
_OVER = re.compile(r"\s*(?:async\s+)?(?:for\s+(.*?)\s+in\b|while\b).*")
_BEFORE = re.compile(
    r"\[\s*\w+\s*-\s*1\s*\]|^\s*(\w+)\[\s*(\w+)\s*\]\s*=(?!=).*\b\1\[\s*\2\s*\+\s*1\s*\]"
    r"|\b\w+\s*(?:\||\^|<<|>>|%)="
)


def of_elements(line: DrilledLine, text: Text) -> Known:
    """What is written in place of work on one item at a time, as far as its text and its loop show what it works on."""
    body = body_around(line.file, line.line, text)
    whole = [line.text, *body]
    if _parses(line.text, whole):
        return PARSED
    if _MAKES.search(line.text):
        return ONE_TENSOR
    if _joins(whole, function_above(line.file, line.line, text)):
        return JOINED
    if any(map(_ON_TEXTS.search, whole)):
        return TEXTS
    if any(map(_LOOKS_UP.search, whole)):
        return CODES
    bare = [IN_QUOTES.sub("''", one.partition("#")[0]) for one in whole]
    if any(map(_ON_OBJECTS.search, whole)) or not any(map(_ON_NUMBERS.search, bare)):
        return ONCE
    return IN_TURN if _calls_itself(line, text) or _carries(body) else ELEMENTS


def in_loop(line: DrilledLine, text: Text) -> Known:
    """The same for a line of a loop that trains or validates, which may work on what the model gives."""
    found = of_elements(line, text)
    return ITEMS if found in _BEFORE_TRAINING else found


def _parses(line: str, whole: Sequence[str]) -> bool:
    """Whether a line makes numbers of a text that it or its loop splits, or of what may be no number."""
    if _NUMBERS.search(line) and any(map(_SPLIT.search, whole)):
        return True
    return any(map(_NO_NUMBER.match, whole)) and any(map(_FIRST.search, whole))


def _joins(whole: Sequence[str], above: Sequence[str]) -> bool:
    """Whether the loop adds to a name to which its function gives a text."""
    names = {name for one in whole for name in _ADDS.findall(one)}
    return any(re.match(rf"\s*{name}\s*=\s*[rf]?['\"]|\s*{name}\s*=\s*str\(", one) for name in names for one in above)


def _calls_itself(line: DrilledLine, text: Text) -> bool:
    name = line.function.rpartition(".")[2]
    return bool(name) and re.search(rf"\b{re.escape(name)}\(", text(line.file, line.line)) is not None


def _carries(body: Sequence[str]) -> bool:
    """Whether a turn of a loop reads what the turn before gave a name, or the element before in what it fills."""
    given, read = set(re.findall(r"[A-Za-z_]\w*", _OVER.sub(r"\1", body[0]))) if body else set[str](), set[str]()
    for one in body[1:]:
        code = IN_QUOTES.sub("''", one.partition("#")[0])
        found = _ASSIGNS.match(code)
        read |= {*re.findall(r"[A-Za-z_]\w*", found[2] if found else code)} - given
        names = {*re.findall(r"[A-Za-z_]\w*", found[1])} if found else set()
        if names & read or _BEFORE.search(code):
            return True
        given |= names
    return False
