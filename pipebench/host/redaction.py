"""Takes secrets out of what is shown and saved, because reports are meant to be passed on.

A secret is the value of an environment variable whose name says so, a password or a token in an address, the value of
an argument whose name says so, and a token of a known form. A name is kept, a secret becomes `…`.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterable, Sequence
from typing import Any

from pipebench.units import printable, with_texts

HIDDEN = "…"
_SHORTEST = 8  # characters: shorter values are words and numbers that occur everywhere
_WORDS = "token|secret|password|passwd|passphrase|credentials?|api[_-]?key|access[_-]?key|private[_-]?key"
_PART = rf"[\w.-]*(?:{_WORDS})(?![a-z])"  # `hf_token` and `--api-key`, but not `tokenizer`
_NAME = re.compile(rf"\w*(?:{_WORDS})(?![a-z])\w*", re.IGNORECASE)
_HINT = re.compile(
    rf"://|[?&](?:key|sig)|{_WORDS}|bearer|gh[pousr]_|github_pat_|hf_|sk-|xox|glpat-|AKIA", re.IGNORECASE
)
_FORMS = (
    (re.compile(r"(?<!\w)([a-z][a-z0-9+.-]*://)[^/?#\s@\"']+@", re.IGNORECASE), rf"\1{HIDDEN}@"),
    (re.compile(r"([?&](?:key|sig|signature)=)[^&#\s\"']+", re.IGNORECASE), rf"\1{HIDDEN}"),
    (re.compile(rf"((?<![\w.-]){_PART}=)[^\s\"'&#]+", re.IGNORECASE), rf"\1{HIDDEN}"),
    (re.compile(rf"((?<!\S)-{_PART}\s+)[^\s\"'-][^\s\"']*", re.IGNORECASE), rf"\1{HIDDEN}"),
    (re.compile(r"\b(Bearer\s+)[\w.~+/=-]{8,}", re.IGNORECASE), rf"\1{HIDDEN}"),
    (re.compile(r"\b(?:gh[pousr]_|github_pat_|hf_|sk-|xox[abp]-|glpat-|AKIA)[\w-]{12,}"), HIDDEN),
)


def redacted(text: str) -> str:
    """The text without the secrets of this process's environment, and those of a known form."""
    return _without(text, _secrets(()))


def inert(text: str) -> str:
    """The text for a terminal: without secrets, and without what a terminal would act on."""
    return printable(redacted(text))


def redacted_in(found: Any, more: Iterable[str] = ()) -> Any:
    """Plain values as JSON has them, with each text redacted."""
    secrets = _secrets(more)
    return with_texts(found, lambda text: _without(text, secrets))


def may_hold(text: str) -> bool:
    """Whether it is worth looking for secrets in a text, such as that of a whole report as JSON."""
    return bool(_HINT.search(text)) or any(one in text or json.dumps(one)[1:-1] in text for one in _secrets(()))


def command_line(argv: Sequence[str]) -> str:
    """A command line as a shell takes it, inert and without secrets.

    The value of an option whose name says that it is a secret is left out, and a long value of `--…-env NAME=VALUE`.
    """
    shown = []
    for option, value in zip(["", *argv], argv, strict=False):
        if option.startswith("-") and named_so(option.lstrip("-").replace("-", "_")) and not value.startswith("-"):
            value = HIDDEN
        elif option.endswith("-env") and len(value.partition("=")[2]) >= _SHORTEST:
            value = f"{value.partition('=')[0]}={HIDDEN}"
        shown.append(value)
    return inert(shlex.join(shown))


def named_so(name: str) -> bool:
    """Whether the name of a variable says that its value is a secret."""
    return bool(_NAME.fullmatch(name))


def _secrets(more: Iterable[str]) -> list[str]:
    """The longest first, because one may hold another."""
    named = (value for name, value in os.environ.items() if named_so(name))
    return sorted({one for one in (*named, *more) if len(one) >= _SHORTEST}, key=len, reverse=True)


def _without(text: str, secrets: list[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    if _HINT.search(text):
        for form, instead in _FORMS:
            text = form.sub(instead, text)
    return text
