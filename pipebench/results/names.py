"""Takes the user's names out of a report before it leaves the machine: a token stands for each of them.

Names are those of samples, files, folders, machines and branches, lines of the user's code, and what the user's code
said. Classes, functions and stages keep theirs: without them the figures would say nothing.

A token is an HMAC-SHA256 of the name, cut to 32 bits. Its key is random, made for one call and kept nowhere. So a name
has the same token wherever it occurs in one report, another in the next report, and a list of likely names cannot be
tried against it.
"""

from __future__ import annotations

import dataclasses
import hmac
import re
import secrets
from collections.abc import Callable, Collection, Iterator
from typing import Any, Literal, TypeVar

Kind = Literal["name", "file", "data", "line", "said", "side", "ours", "values", "words", "number"]
Part = TypeVar("Part")

# For each class, its fields that are or hold names. What is not here holds words of pipebench, of torch or of code.
KINDS: dict[str, dict[str, Kind]] = {
    "report.Report": {"failure": "said", "started_by": "words", "written": "file"},
    "packing.Packing": {"destination": "file", "unchanged": "ours"},
    "report.Data": {"name": "data"},
    "machine.Machine": {"host": "name", "storage": "ours", "identity": "number"},
    "task.Workload": {"data": "data"},
    "measurement.Measurement": {"failed": "said"},
    "measurement.Ceiling": {"failed": "said"},
    "measurement.Warning": {"problem": "ours", "remedy": "ours"},
    "measurement.Skipped": {"reason": "ours"},
    "errors.BadSample": {"sample": "name", "message": "said"},
    "watched.Verdict": {"file": "file"},
    "next_move.NextMove": {"file": "file", "reread": "file", "setting": "ours"},
    "watched.LoaderResult": {"file": "file"},
    "watched.Note": {"values": "values"},
    "watched.WatchResult": {"started": "words"},
    "reads.ReadPlace": {"place": "name"},
    "batches.SlowSample": {"name": "name"},
    "drilled.NeedlessCall": {"file": "file"},
    "drilled.DrilledLine": {"file": "file", "text": "line", "reread": "file"},
    "account.AccountRow": {"reason": "ours"},
    "account.Cause": {"values": "values"},
    "sync_points.SyncPoint": {"path": "file"},
    "sync_points.CompiledRegion": {"path": "file"},
    "comparison.Comparison": {"base": "side", "head": "side", "data": "data"},
    "comparison.Change": {"skipped": "ours", "failed": "said", "notes": "ours"},
    "comparison.Difference": {"place": "ours", "base": "ours", "head": "ours"},
    "comparison.Outputs": {"place": "ours", "reason": "said", "unread": "ours"},
    "comparison.Measured": {"label": "side", "roots": "file", "python": "file"},
    "comparison.Said": {"text": "said"},
    "studies.StudyRow": {"skipped": "ours", "notes": "ours"},
    "calibration.Calibration": {"host": "name"},
    "advice.Change": {
        "settings": "values",
        "edits": "values",
        "how": "line",
        "title": "ours",
        "basis": "ours",
        "if_once": "ours",
        "if_changed": "line",
    },
    "advice.Part": {"how": "line"},
    "advice.Place": {"file": "file"},
    "advice.Rewrite": {"file": "file", "new": "line"},
    "advice.Finding": {"reason": "said"},
    "advice.Advice": {"file": "file", "refusal": "said", "made_by": "name"},
    "advice.Patch": {"file": "file"},
    "advice.Snippet": {"file": "file", "before": "line", "after": "line"},
    "check.Check": {"name": "data"},
    "check.Finding": {"what": "ours", "remedy": "ours"},
    "loaders.SideBySide": {"data": "data"},
    "loaders.LoaderResult": {"skipped": "said", "refused": "ours"},
    "examination.Examination": {"data": "file"},
    "examination.Finding": {
        "found": "ours",
        "matters": "ours",
        "remedy": "ours",
        "command": "ours",
        "facts": "values",
    },
    "remote.Remote": {"addresses": "name"},
    "engine.EngineRun": {"data": "data", "notes": "ours"},
    "check.Found": {"name": "name", "detail": "said"},
    "before_after.Side": {"file": "file", "host": "name"},
    "before_after.Differing": {"name": "ours", "base": "said", "head": "said"},
    "before_after.Row": {"name": "ours"},
    "before_after.BeforeAfter": {"only_base": "ours", "only_head": "ours", "lost": "ours", "failed": "ours"},
    "verdicts.ReportVerdict": {"evidence": "values"},
    "programs.WatchedCommand": {"command": "words", "hidden": "words", "lost": "words", "torchless": "file"},
    "programs.Program": {"name": "words", "error": "said", "host": "name", "meeting": "name"},
}
_OF_VALUES: dict[str, Kind] = {
    "sample": "name",
    "read_at": "name",
    "file": "file",
    "file2": "file",
    "slow_file": "file",
    "init_file": "file",
    "helper_file": "file",
    "text": "line",
    "fault": "said",
    "problem": "said",
    "remedy": "said",
}
_PUBLIC_SIDES = frozenset({"HEAD", "main", "master", "working", "tree", "(base)", "(head)", "."})
_COMMIT = re.compile(r"\(?[0-9a-f]{7,40}\)?")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*(=[\w.,:-]*)?")
_WORD = re.compile(r"--[a-z-]+|-[A-Za-z]|python|torchrun|pipebench|run|watch|advise|ab|study|syncs|calibrate|plan|show")
_EXCEPTION = re.compile(r"((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Warning|Lost)): ")
_PATH = re.compile(r"(?:[A-Za-z]:\\|(?<![\w/.])(?:~|\.{1,2})?/)[^\s'\"`,;:()\[\]{}<>|]+")
_FILE = re.compile(
    r"[^\s'\"`,;:()\[\]{}<>|]+\.(?:jpe?g|png|webp|bmp|gif|tiff?|avif|tar|t?gz|zip|py|ipynb|json|toml|ya?ml|csv|tsv|txt|npy|npz|"
    r"parquet|h5|hdf5|lmdb|mp4|wav|flac|mp3|pt|pth|pkl|cls)\b"
)
_SHORTEST = 4  # characters of a name that is looked for in sentences


def without_names(found: Part, public: Collection[str] = ()) -> Part:
    """A report, or a part of one, with a token in place of each of the user's names. `public` are data sets' names that
    everybody may know, such as those of the embedded ones."""
    return _Names(secrets.token_bytes(32), public, found).hidden(found)  # type: ignore[no-any-return]  # of its type


def hidden_in_words() -> Callable[[str], str]:
    """A function that puts tokens in place of the paths and files in a text, such as the name of a stage: of one name
    always the same token. Another call of this gives others."""
    return _Names(secrets.token_bytes(32), (), None)._sentence


class _Names:
    """The tokens of one report."""

    def __init__(self, key: bytes, public: Collection[str], root: Any) -> None:
        self._key, self._public = key, frozenset(public)
        known = sorted({one for one in _named(root) if len(one) >= _SHORTEST}, key=len, reverse=True)
        known = [one for one in known if one not in self._public]
        self._known = re.compile("|".join(rf"(?<!\w){re.escape(one)}(?!\w)" for one in known)) if known else None

    def token(self, kind: str, text: str) -> str:
        if not text or text in self._public:
            return text
        return f"{kind}-{hmac.digest(self._key, text.encode('utf-8', 'surrogatepass'), 'sha256').hex()[:8]}"

    def hidden(self, found: Any, kind: Kind | None = None) -> Any:
        """What was found, without names. `kind` says what its texts are; None: words without names."""
        if dataclasses.is_dataclass(found) and not isinstance(found, type):
            return self._hidden_fields(found)
        if isinstance(found, list | tuple):
            make = getattr(type(found), "_make", type(found))  # of a named tuple
            return make([self.hidden(one, kind) for one in found])
        if isinstance(found, dict):
            return {
                name: self.hidden(one, _of_value(name, one) if kind == "values" else kind)
                for name, one in found.items()
            }
        return self._text(found, kind) if isinstance(found, str) and kind is not None else found

    def _hidden_fields(self, found: Any) -> Any:
        kinds = KINDS.get(_name_of(type(found)), {})
        changed = {}
        for one in dataclasses.fields(found):
            if one.init:
                before = getattr(found, one.name)
                after = self.hidden(before, kinds.get(one.name))
                if after is not before and after != before:
                    changed[one.name] = after
        return dataclasses.replace(found, **changed) if changed else found

    def _text(self, text: str, kind: Kind) -> str:
        if kind == "number":
            return ""  # a token would be another one in the next report, as if that were of another machine
        if kind == "said":
            return self._said(text)
        if kind == "side":
            return self._side(text)
        if kind == "words":
            return " ".join(one if _WORD.fullmatch(one) else self.token("word", one) for one in text.split())
        return self._sentence(text) if kind == "ours" else self.token(kind, text)

    def _said(self, text: str) -> str:
        """What user's code said: the kind of an exception stays."""
        found = _EXCEPTION.match(text)
        return found[0] + self.token("said", text[found.end() :]) if found else self.token("said", text)

    def _side(self, label: str) -> str:
        """The name of a commit: its number stays, and so do the variables that are named after it."""
        first, *more = label.split(" (", 1)
        shown = first if all(map(_told_to_all, first.split())) else self.token("branch", first)
        rest = f"({more[0]}".split() if more else []
        kept = (one if _told_to_all(one) or _VARIABLE.fullmatch(one) else self.token("word", one) for one in rest)
        return " ".join([shown, *kept])

    def _sentence(self, text: str) -> str:
        """A sentence of ours, with the names and paths in it hidden."""
        if self._known is not None:
            text = self._known.sub(lambda found: self.token("name", found[0]), text)
        for form in (_PATH, _FILE):
            text = form.sub(lambda found: self.token("file", found[0]), text)
        return text


def _told_to_all(word: str) -> bool:
    """Whether a word of the name of a commit is its number, or is used by everybody."""
    return word in _PUBLIC_SIDES or _COMMIT.fullmatch(word) is not None


def _name_of(kind: type) -> str:
    return f"{kind.__module__.rpartition('.')[2]}.{kind.__name__}"


def _of_value(name: str, value: Any) -> Kind:
    return "values" if isinstance(value, dict) else _OF_VALUES.get(name, "ours")


def _named(found: Any, kind: Kind | None = None) -> Iterator[str]:
    """The names within a result that stand alone."""
    if dataclasses.is_dataclass(found) and not isinstance(found, type):
        kinds = KINDS.get(_name_of(type(found)), {})
        for one in dataclasses.fields(found):
            yield from _named(getattr(found, one.name), kinds.get(one.name))
    elif isinstance(found, list | tuple | dict):
        for each in found.values() if isinstance(found, dict) else found:
            yield from _named(each, None if kind == "values" else kind)
    elif isinstance(found, str) and kind in ("name", "file", "data"):
        yield found
