"""Takes secrets out of what is shown and saved, because reports are meant to be passed on.

A secret is the value of an environment variable whose name says so, a password or a token in an address, the value of
an argument whose name says so, and a token of a known form. A name is kept, a secret becomes `…`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from urllib.parse import quote, quote_plus

from pipebench.units import printable, quoted, with_texts

HIDDEN = "…"
_SHORTEST = 8  # characters: shorter values are words and numbers that occur everywhere
# Variables whose values a report may have: those that set threads, memory and languages.
_PUBLIC = ("OMP_", "MKL_", "OPENBLAS_", "OPENCV_", "KMP_", "MALLOC_", "TORCH", "PYTORCH_", "CUDA_", "PYTHON", "LC_")
_WORDS = (
    r"token|secret(?:[_-]?key)?|password|passwd|passphrase|credentials?|api[_-]?key|access[_-]?key(?:[_-]?id)?"
    r"|private[_-]?key|account[_-]?key|wandb[_-]?key|(?<=[_.-])(?:pass|pwd)|(?<![a-z])auth"
)
_TOKENS = (
    r"gh[pousr]_|github_pat_|hf_|sk-|sk_(?:live|test)_|xox[a-z]-|glpat-|AKIA|ASIA|AIza|ya29\.|npm_|pypi-|dop_v1_"
    r"|(?<!-)eyJ[\w-]{8,}\.eyJ"
)
_PART = rf"[\w.-]*(?:{_WORDS})(?![a-z])"  # `hf_token` and `--api-key`, but not `tokenizer`
_KEY = rf"(?<![\w.-]){_PART}\\*[\"']?"  # the quote of a dictionary's key, escaped in a text within a text
_UNQUOTED = r"(?![bruf]{0,2}\\*[\"'])"
_NAME = re.compile(rf"\w*(?:{_WORDS})(?![a-z])\w*", re.IGNORECASE)
_HOOKS = r"https://(?:hooks\.slack\.com|(?:\w+\.)?discord(?:app)?\.com/api/webhooks)/"  # who has the address may write
_HINT = re.compile(rf"://|%3A%2F%2F|[?&#;][\w-]*(?:key|sig)|{_WORDS}|bearer|authorization|{_TOKENS}", re.IGNORECASE)
_FORMS = (
    *(
        (re.compile(form, re.IGNORECASE), instead)
        for form, instead in (
            (r"(?<!\w)([a-z][a-z0-9+.-]{,30}://)[^/?#\s\"']+@", rf"\1{HIDDEN}@"),
            (
                r"(?<!\w)([a-z][a-z0-9+.-]{,30}://)[^/?#\s@\"':]*:(?!\d+[/?#])[^\s@\"']{1,300}@",
                rf"\1{HIDDEN}@",
            ),  # `/` in it
            (r"(%3A%2F%2F)(?:(?!%2F|%40)[^\s&\"'])+%40", rf"\1{HIDDEN}%40"),
            (r"([?&#;][\w-]*(?:key|sig|signature|key-pair-id)=)[^&#\s\"']+", rf"\1{HIDDEN}"),
            (r"(authorization[\"']?\s*[:=]\s*[\"']?(?:\w+\s+)?)[^\s\"',}]{4,}", rf"\1{HIDDEN}"),
            (rf"({_KEY}[ \t]*[=:][ \t]*[bruf]{{0,2}}\\*([\"']))(?:(?!\\{{0,4}}\2).)+", rf"\1{HIDDEN}"),  # password='…'
            (rf"({_KEY}=){_UNQUOTED}[^\s\"'&#]+", rf"\1{HIDDEN}"),
            (
                rf"({_KEY}[ \t]*(?:=[ \t]+|:[ \t]*)){_UNQUOTED}[^\s\"'&#,(\[{{]++(?![(\[])",
                rf"\1{HIDDEN}",
            ),
            (rf"((?<!\S)-{_PART}\s+)(?:'[^'{HIDDEN}]*'|\"[^\"{HIDDEN}]*\"|[^\s\"'-][^\s\"']*)", rf"\1{HIDDEN}"),
            (rf"((?<![\w.-])-{_PART}[\"'],\s*[\"'])[^\"']+", rf"\1{HIDDEN}"),  # in a list of arguments
            (r"\b(Bearer\s+)[\w.~+/=-]{8,}", rf"\1{HIDDEN}"),
            (rf"({_HOOKS})[^\s\"'<>)]+", rf"\1{HIDDEN}"),
        )
    ),
    (re.compile(rf"\b(?:{_TOKENS})[\w.-]{{12,}}"), HIDDEN),
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


def started(argv: Sequence[str], *, module: bool, command: bool) -> str:
    """What a user started, as it stands behind the options of `watch` and `advise`: see `command_line`."""
    return command_line([*(["--"] if command else ["-m"] if module else []), *argv])


def command_line(argv: Sequence[str]) -> str:
    """A command line as a shell takes it, inert and without secrets.

    The value of an option whose name says that it is a secret is left out, and that of a variable in
    `--…-env NAME=VALUE` unless it is `public`.
    """
    shown = []
    for option, value in zip(["", *argv], argv, strict=False):
        if option.startswith("-") and named_so(re.sub(r"\W", "_", option.lstrip("-"))) and not value.startswith("-"):
            value = HIDDEN
        elif option.endswith("-env") or re.match(r"--[\w-]+-env=", value):
            before, name, _ = re.match(r"(--[\w-]+=)?([^=]*)(.*)", value, re.DOTALL).groups("")  # type: ignore[union-attr]  # matches every text
            value = value if public(name) else f"{before}{name}={HIDDEN}"
        shown.append(redacted(value))
    return " ".join(map(quoted, shown))


def public(name: str) -> bool:
    """Whether a report may have the value of this variable."""
    return name.startswith(_PUBLIC) and not named_so(name)


def named_so(name: str) -> bool:
    """Whether the name of a variable says that its value is a secret."""
    return bool(_NAME.fullmatch(name))


def _secrets(more: Iterable[str]) -> list[str]:
    """The longest first, because one may hold another."""
    named = (value for name, value in os.environ.items() if named_so(name))
    lines = {part.strip() for one in (*named, *more) for part in (one, *one.splitlines())}
    written = {form for one in lines if len(one) >= _SHORTEST for form in _written(one)}
    return sorted(written, key=len, reverse=True)


def _written(secret: str) -> Iterator[str]:
    """A secret as texts have it: as it is, in an address, and as Python, JSON and a terminal escape it."""
    yield from (secret, *(change(secret, safe="", errors="surrogateescape") for change in (quote, quote_plus)))
    yield from (repr(secret)[1:-1], json.dumps(secret)[1:-1], printable(secret))


def _without(text: str, secrets: list[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    if _HINT.search(text):
        for form, instead in _FORMS:
            text = form.sub(instead, text)
    return text
