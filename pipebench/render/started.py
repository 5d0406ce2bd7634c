"""What a user started, as it stands in a command that the report names: whole, or so short that it fits. Pure."""

from __future__ import annotations

import shlex
from itertools import groupby

from pipebench.units import printable

LONGEST = 48  # characters
_LEFT_OUT = "..."


def fitting(started: str, longest: int = LONGEST) -> str:
    """The words for the shell if they fit, else what starts, the script, and dots for the rest.

    >>> fitting("train.py --epochs 3"), fitting("train.py --data a/very/long/path/to/some/where --epochs 3")
    ('train.py --epochs 3', 'train.py ...')
    >>> fitting("-- torchrun --nproc-per-node 8 --rdzv-backend c10d train.py --epochs 3")
    '-- torchrun ... train.py ...'
    """
    if len(started) <= longest or "$'" in started:  # words of such quotes cannot be told apart here
        return printable(started)
    try:
        words = shlex.split(started)
    except ValueError:  # a secret with a quote was taken out
        words = started.split()
    if not words:
        return _LEFT_OUT
    script = _script(words)
    kept = {0, 1, script} if words[0] == "--" else {0, script}
    kept |= {script - 1} if script and words[script - 1] == "-m" else set()
    made = []
    for shown, group in groupby(enumerate(words), key=lambda one: one[0] in kept):
        made += [shlex.quote(word) for _, word in group] if shown else [_LEFT_OUT]
    whole = printable(" ".join(made))
    return whole if len(whole) <= longest else printable(" ".join(_shorter(one, longest) for one in made))


def _script(words: list[str]) -> int:
    """The place of the script or module, else that of the first word that starts something."""
    for place, word in enumerate(words):
        if word.endswith(".py") or (place and words[place - 1] == "-m"):
            return place
    return 1 if words[0] == "--" and len(words) > 1 else 0


def _shorter(word: str, longest: int) -> str:
    """A word that is too long without the folders of its path."""
    return word if len(word) <= longest // 2 or "/" not in word else f"{_LEFT_OUT}/{word.rpartition('/')[2]}"
