"""Lines of the user's samples that other people's programs are slow by, with what is written in their place. Pure.

What such a line takes is measured by looks at the stack; how much of it the other way saves is not. A line is known by
its text, and by the library function that it was calling: the rest of the same line may be what takes the time. A line
that opens, parses or builds something is only known if that is the same for each sample, as far as the text shows it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from pipebench.watch.read.known_arrays import FILLED, NESTED
from pipebench.watch.read.known_row import Known
from pipebench.watch.read.known_table import AGAIN, AGAIN_MADE, KNOWN, MODEL
from pipebench.watch.read.module_names import with_values

_CALLS = re.compile(r"([\w.]+)\s*\(")
_QUICK = ("int", "float", "len", "list", "tuple", "range", "min", "max", "round", "return", "in", "not", "and", "or",
          "if", "for", "enumerate", "zip")  # fmt: skip
_OF_MODULE = re.compile(r"torch\.Module\._(?:wrapped_)?call_impl$")
LOOP = re.compile(r"\s*(?:async\s+)?(?:for|while)\b")
_KEEPS = re.compile(r"^\s*(?:self|cls)\.\w+(?:\[[^\]]*\])?\s*(?::[^=]+)?=(?!=)|^\s*global\s")
_LAZY = re.compile(r"\bis None\b|\bhasattr\(|\bnot in self\.|\bif not self\.|\bnot getattr\(|@.*cache|\bglobal\s|"
                   r"\bexcept \(?(?:KeyError|AttributeError)")  # fmt: skip
_ALIAS = re.compile(r"^\s*(\w+)\s*=\s*(self\.\w+)\s*(?:#.*)?$")
_CONSTANT = re.compile(r"(?<![\w.'\"])[A-Z][A-Z0-9_]*(?![\w.(\['\"])")
_FETCHES = re.compile(r"\.fetch(?:one|all|many)\(")
_OPENED = re.compile(r"\bwith\b.*?\bopen\(\s*(self\.\w+|[rR]?'[^'{}%]*'|[rR]?\"[^\"{}%]*\")\s*[,)].*?\bas\s+(\w+)")
_ARCHIVE = re.compile(r"^\s*(?:(\w+)\s*=\s*|with\s+)(?:np|numpy)(\.load\([^()]*\))(?:\s*as\s+(\w+))?\s*:?\s*(?:#.*)?$")
_OF_ARCHIVE = re.compile(r"numpy\.(?:\w+\.)*NpzFile\.__getitem__$")
_COUNTED = re.compile(r"^\s*for\s+(\w+)\s*(?:,.*)?\s+in\s+(?:range|enumerate)\(")
_ELEMENT = re.compile(r"\w+\[\s*(\w+)\s*(?:,|\]\s*\[)\s*(\w+)\s*(?:,[^\]]*)?\]")
_FILLS = re.compile(r"^\s*\w+\[\s*\w+\s*(?:,|\]\s*\[)\s*(\w+)\s*\]\s*=\s*(?:[\w.]+|[\w.]+\[\s*\1\s*\])\s*(?:#.*)?$")
IN_QUOTES = re.compile(r"('|\")(?:(?!\1).)*\1")
GIVES = re.compile(r"^\s*([\w.]+(?:\s*,\s*[\w.]+)*)\s*(?::[^=]+)?=(?!=)\s*(.*)")
_A_LIST = re.compile(
    r"(?:list|sorted|tuple)\(|\[\s*\]|\[.*\bfor\b|(?:collections\.)?deque\("
    r"|(?:np|numpy)\.(?:array|asarray|unique|concatenate|flatnonzero|arange|loadtxt)\(|torch\.\w*tensor\("
    r"|[^#]*\.(?:tolist|split|splitlines|readlines|to_numpy)\([^()]*\)\s*(?:#.*)?$"
)
_PART = (
    r"(?<![\w.])NAME\[(?:[^\]]*[A-Za-z_)]\w*\s*:\s*[A-Za-z_(][^\]]*|\s*\w*(?:box|crop|patch|slice|window|roi)\w*\s*)\]"
    r"(?!\s*=[^=])"
)
_VIEWED = (  # the same bytes by another name
    r"\s*(\w+)\s*=(?!=)\s*(?:(?:np|numpy|torch)\.(?:frombuffer|asarray|array|from_numpy|as_tensor|tensor)\(\s*NAME\b[^\[]*"
    r"|NAME(?:\.(?:reshape|view|astype|transpose)\([^()\[]*\))+\s*(?:#.*)?)$"
)
_WHOLE = r"(?<![\w.])(?<!len\()NAME\b(?!\.(?:shape|size|ndim)\b)"
_OPENS = r"(?<![\w.])(?:(?:io|gzip|bz2|lzma|codecs)\.)?open\("
_HANDLE = re.compile(rf"^\s*(\w+)\s*=\s*{_OPENS}|{_OPENS}[^#]*\bas\s+(\w+)|\.open\([^#]*\bas\s+(\w+)")
_PARSES = re.compile(
    r"(?:json\.load|pickle\.load|numpy\.(?:load|loadtxt|genfromtxt|(?:\w+\.)*NpzFile\.__getitem__)|torch\.load|scipy\.loadmat|pandas\.read_\w+)$"
    r"|yaml\.|xml\.|joblib\.|tomllib\.|csv\."
)
_READS_ALL = re.compile(
    r"\b(?:json|pickle|yaml|torch|np|numpy|joblib|tomllib)\.(?:safe_)?load\(|\.read_(?:text|bytes)\("
    r"|\bread_(?:csv|json|parquet|excel|pickle|table|feather)\(|\.read(?:lines)?\(\s*\)|\bloadmat\("
)
_OF_FILE = re.compile(r"\.seek\(|\bmmap|\b(?:chunksize|iterator|skiprows|nrows|max_rows|offset|count|islice)\b")
_GIVES_ONE = re.compile(r"(\w+)\s*=(?!=)")
_ANY_WORK = Known(re.compile(r"(?!)"), "", ())  # what may not be done to an array before it is cut
_GETTERS = ("__getitem__", "__iter__", "__next__")
LONGEST = 6  # lines of one statement


class Line(NamedTuple):
    """A line of a row: its text with the rest of its statement, and the other lines of its function, as they stand.

    `calls` and `function` are as in DrilledLine, `stage` and `kind` as in DrilledRow. `models` are the names of
    attributes and classes of the dataset's modules that have parameters, and `iterable` says whether `dataset`, by
    its class, is a stream. `given` are the statements of the file that give a name its value, and `values` what it
    gives those of its own names that stay what they are.
    `took_s` is the line's wall time of a sample. `again`: while it runs, a file is open that is opened again and again.
    """

    text: str
    calls: str
    function: str
    stage: str
    kind: str = "getitem"
    indent: int = 0
    above: Sequence[str] = ()
    below: Sequence[str] = ()
    models: Collection[str] = ()
    iterable: bool = False
    dataset: str = ""
    given: Sequence[str] = ()
    values: Mapping[str, str] = MappingProxyType({})
    took_s: float = math.inf
    again: bool = False


def known(line: Line) -> Known | None:
    """What is known of a line that is slow, as far as its time is that of what is known."""
    if _of_model(line):
        return MODEL
    if _nested(line):
        return FILLED if _FILLS.match(line.text) else NESTED
    if line.again and _reads_all(line):
        return AGAIN_MADE if line.function.endswith(".__init__") else AGAIN
    text = resolved(line)
    texts = dict.fromkeys((text, _valued(line, text)))
    found = (one for one in KNOWN for text in texts if one.pattern.search(text) and _is_it(one, line, text))
    return next(found, None)


def by_value(line: Line) -> str:
    """The text as `resolved` gives it, with what the module gives its names."""
    return _valued(line, resolved(line))


def _valued(line: Line, text: str) -> str:
    return with_values(text, (*line.above, text, *line.below), line.values)


def is_cut(line: Line) -> bool:
    """Whether the line gives a name what it calls, of which below one part is taken, and nothing else is used."""
    found = _GIVES_ONE.match(line.text)
    return found is not None and "(" in line.text and _cut(_ANY_WORK, line, found[1])


def statement(lines: Sequence[str]) -> str:
    """The first of these lines, with those that its open brackets need."""
    found = ""
    for one in lines[:LONGEST]:
        found = f"{found} {one.strip()}".strip()
        if sum(map(found.count, "([{")) <= sum(map(found.count, ")]}")):
            return found
    return lines[0].strip() if lines else ""


def _is_it(one: Known, line: Line, text: str) -> bool:
    if line.took_s < one.least_s:
        return False
    if one.same and not _each_sample(line, text):
        return False
    if one.begins and not _loops(line) and any(map(LOOP.match, line.below)):
        return False
    if not _fits(one, line, text):
        return False
    if (one.in_loop and not (_loops(line) or LOOP.match(text))) or (one.kinds and line.kind not in one.kinds):
        return False
    if line.calls:
        return bool(one.calls) and re.match(one.calls, line.calls) is not None
    return one.most is not None and len({*_called(text, one.beside)}) <= one.most


def _called(text: str, beside: Collection[str] = ()) -> list[str]:
    """What a text calls, but for what hardly takes time."""
    names = [name.rpartition(".")[2] for name in _CALLS.findall(IN_QUOTES.sub("''", text))]
    return [name for name in names if name not in _QUICK and name not in beside]


def _each_sample(line: Line, text: str) -> bool:
    """Whether the dataset does this for each sample: not a stream, and nothing that is kept."""
    if (line.iterable and not _of_item(line)) or _KEEPS.search(text) or any(map(_LAZY.search, _before(line))):
        return False
    return _of_dataset(line, text) and not any(_given(name, line.above) for name in _CONSTANT.findall(text))


def _before(line: Line) -> list[str]:
    """The lines of its function above a line, without those inside blocks that have ended there."""
    found, depth = [], line.indent
    for one in reversed(line.above):
        if not one.strip() or indent_of(one) <= depth:
            depth = min(depth, indent_of(one)) if one.strip() else depth
            found.append(one)
    return found


def _given(name: str, above: Sequence[str]) -> bool:
    """Whether a name that looks like one of the module gets its value in the function."""
    gets = re.compile(rf"(?<![\w.]){name}\s*(?:,[^=#(]*)?=(?!=)|\b(?:for|def|as)\b[^#]*\b{name}\b")
    return any(map(gets.search, above))


def _of_item(line: Line) -> bool:
    """Whether a line of a stream is in the function, or in a method of the class, that transforms each item."""
    of, _, name = line.function.rpartition(".")
    if line.kind != "transform" or line.stage.split(" (")[0] != (of or name):
        return False
    return not any(re.search(r"\byield\b", one) for one in (*line.above, line.text, *line.below))


def _reads_all(line: Line) -> bool:
    """Whether a line reads a file to its end, or one turn of a loop over it."""
    if any(map(_OF_FILE.search, (*line.above, line.text))):
        return False
    if _PARSES.match(line.calls) or (not line.calls and _READS_ALL.search(line.text)):
        return True
    opened = {name for one in (*line.above, line.text) for found in _HANDLE.findall(one) for name in found if name}
    over = [re.compile(rf"\b(?:for|in)\b[^#]*\bin\b[^#]*\b{one}\b|\b{one}\.read(?:lines)?\(\s*\)") for one in opened]
    return any(one.search(text) for one in over for text in (line.text, *_loops(line)))


def _of_dataset(line: Line, text: str) -> bool:
    """Whether `self` is the dataset, so that its plain attributes are the same for each sample."""
    if "self." not in text:
        return True
    held = set(re.findall(r"\bself\.(\w+)", text))
    if any(re.search(rf"\bself\.{name}\s*(?::[^=]+)?=(?!=)", above) for name in held for above in line.above):
        return False
    of, _, name = line.function.rpartition(".")
    rows = (line.dataset, line.stage.rpartition(".")[0], line.stage.split(" (")[0])
    return name in _GETTERS or (bool(of) and of in rows)


def resolved(line: Line) -> str:
    """The text, with an attribute of the dataset, a file of one name, or the query that is fetched, put in."""
    text = line.text
    for above in reversed(line.above):
        if (alias := _ALIAS.match(above)) and _given_once(alias[1], line.above):
            text = re.sub(rf"(?<![\w.\"']){alias[1]}(?![\w\"']|\s*=[^=])", alias[2], text)
        elif opened := _OPENED.search(above):
            text = _put_in(text, opened[2], f"open({opened[1]})")
        elif _OF_ARCHIVE.match(line.calls) and (loads := _ARCHIVE.match(above)):
            text = _put_in(text, loads[1] or loads[3] or "", f"np{loads[2]}")
    queries = [at for at, one in enumerate(line.above) if ".execute(" in one] if _FETCHES.search(text) else []
    return f"{statement([*line.above[queries[-1] :], text])}; {text}" if queries else text


def _put_in(text: str, name: str, value: str) -> str:
    """The text with a value in the place of a name."""
    return re.sub(rf"(?<![\w.\"']){re.escape(name)}(?![\w\"'])", lambda _: value, text) if name else text


def _fits(one: Known, line: Line, text: str) -> bool:
    """Whether what the pattern names is a list, is cut or used below, or stands elsewhere, as the row wants it."""
    if one.every and not _in_every_use(one, line, text):
        return False
    if one.near and not _near(one, line, text):
        return False
    if one.twice and not _twice(one, line, text):
        return False
    if not (one.listed or one.cut):
        return True
    found = one.pattern.search(text)
    name = found[1] if found else None
    return (
        name is not None and (not one.listed or _is_list(name, line.given)) and (not one.cut or _cut(one, line, name))
    )


def _in_every_use(one: Known, line: Line, text: str) -> bool:
    """Whether what the pattern names is used below, and only as the row says."""
    found = one.pattern.search(text)
    if found is None:
        return False
    below, name = "\n".join((text[found.end() :], *line.below)), re.escape(found[1])
    uses = len(re.findall(rf"\b{name}\b", below))
    return 0 < uses == len(re.findall(one.every.replace("NAME", name), below))


def _near(one: Known, line: Line, text: str) -> bool:
    """Whether the line or one above has what the row says, of one of the names that the pattern finds."""
    near = [re.compile(one.near.replace("NAME", re.escape(found[1]))) for found in one.pattern.finditer(text)]
    return any(each.search(of) for each in near for of in (*line.above, text))


def _twice(one: Known, line: Line, text: str) -> bool:
    """Whether the pattern is found twice or more in the line and its function, of the same name."""
    found = [each[1] for of in (*line.above, text, *line.below) for each in one.pattern.finditer(of.strip())]
    return any(found.count(each[1]) > 1 for each in one.pattern.finditer(text))


def _is_list(name: str, given: Sequence[str]) -> bool:
    """Whether each statement that gives this name a value makes a list or an array, and none a set or a dict."""
    found = [one for one in map(GIVES.match, given) if one and name in re.split(r"\s*,\s*", one[1])]
    return bool(found) and all(one[1] == name and _A_LIST.match(one[2]) for one in found)


def _cut(one: Known, line: Line, name: str) -> bool:
    """Whether a part of this array is taken below, once, with nothing between that needs the whole array.

    The same bytes may have another name by then.
    """
    part, whole, viewed = _of_name(name)
    found, before = False, list[re.Pattern[str]]()
    for below in line.below:
        if any(one.search(below) for one in before):
            return False
        if LOOP.match(below) or (part.search(below) and " for " in below):
            return False
        if not found and (other := viewed.match(below)) is not None and other[1] != name:
            before.append(whole)
            name = other[1]
            part, whole, viewed = _of_name(name)
        elif part.search(below):
            found = True
            if re.match(rf"\s*{name}\s*=", below):
                break
        elif whole.search(below) and ((again := one.pattern.match(below.strip())) is None or again[1] != name):
            return False
    return found


def _of_name(name: str) -> Iterator[re.Pattern[str]]:
    """What takes a part of this array, needs all of it, and gives it another name."""
    return (re.compile(text.replace("NAME", name)) for text in (_PART, _WHOLE, _VIEWED))


def _given_once(name: str, above: Sequence[str]) -> bool:
    return sum(bool(re.match(rf"\s*(?:for\s+)?{name}\s*(?:=(?!=)|\bin\b)", one)) for one in above) == 1


def indent_of(text: str) -> int:
    return len(text) - len(text.lstrip())


def _loops(line: Line) -> list[str]:
    """The heads of the loops around a line, the nearest first."""
    found, depth = [], line.indent
    for one in reversed(line.above):
        if one.strip() and not one.strip().startswith("#") and indent_of(one) < depth:
            depth = indent_of(one)
            if LOOP.match(one):
                found.append(one)
    return found


def _nested(line: Line) -> bool:
    """Whether this line visits one element in two loops that count."""
    over = {found[1] for one in _loops(line) if (found := _COUNTED.match(one))}
    if line.calls or _called(line.text, ("abs", "item")):
        return False
    return any({row, column} <= over and row != column for row, column in _ELEMENT.findall(line.text))


def _of_model(line: Line) -> bool:
    """Whether this line calls a neural network of the dataset, or is in the network's own forward."""
    if line.kind in ("collate", "transform") or "__getitems__" in (line.stage + "." + line.function).split("."):
        return False  # of a whole batch
    if re.match(MODEL.calls, line.calls):
        return True
    of, _, name = line.function.rpartition(".")
    if name == "forward" and of.rpartition(".")[2] in line.models:
        return True
    if not line.calls or (line.calls.startswith("torch.Module.") and not _OF_MODULE.match(line.calls)):
        return False
    named = {one for name in _CALLS.findall(re.sub(r"\[[^\[\]]*\]", "", line.text)) for one in name.split(".")}
    return not named.isdisjoint(line.models)
