"""A planted script of `tools/advice.py`: its cause, and what makes it faster."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_MANY = 100  # passes: what is made once does not count then
Replaced = tuple[tuple[str, str], ...]
_PASSES = re.compile(r"""(?:["']EPOCHS["'], *["']?|["']--epochs["'],[^)]*default=|\bepochs: int = )(\d+)""")
"""Where a script says how many passes it makes."""


@dataclass(frozen=True)
class Planted:
    """A script of `tests/advice/scripts` with a known cause.

    `present` are its arguments in a plain run, `best` those with the best change that is known, and `tried` those
    while `advise` works on it: longer. `variables` are set for the best run, too. `remedies` are the remedies that can
    be right (empty: no setting of the loader helps). `codes` are the right first diagnoses of its account; "nothing"
    says that no cause but training is right. `by_hand` is a remedy that the script has as an argument, that of the best
    run: it replaces no line of the script.

    Scripts of the fourth and later sets have no arguments for their causes and print no seconds: whole runs are timed.
    `replaced` is what the best change replaces in the text, each once. `by_author` has the same for remedies that
    `advise` can try and cannot write. `discards` allows to spoil the weights; `epochs` is how long `advise` has.
    """

    name: str
    cause: str
    present: tuple[str, ...]
    best: tuple[str, ...]
    tried: tuple[str, ...]
    remedies: tuple[str, ...] = ()
    codes: tuple[str, ...] = ("nothing",)
    variables: dict[str, str] = field(default_factory=dict)
    any_order: bool = False
    by_hand: str = ""
    folder: str = "scripts"
    replaced: Replaced = ()
    by_author: dict[str, Replaced] = field(default_factory=dict)
    discards: bool = False
    epochs: str = ""

    @property
    def whole(self) -> bool:
        """Whether the seconds of a whole run count."""
        return bool(self.epochs)

    @property
    def sets_variables(self) -> bool:
        """Whether the best change sets variables of the environment: libraries read them when they are loaded."""
        return any("os.environ" in new for _, new in self.replaced)

    def written_by_hand(self, remedy: str) -> bool:
        """Whether the author of the script wrote this change: then what `advise` prints does not run."""
        return remedy == self.by_hand != "" or remedy in self.by_author

    def passes(self, text: str) -> int:
        """The passes of a plain run, as the `text` of a script says whose whole runs are timed; else many."""
        found = _PASSES.search(text) if self.whole else None
        return int(found[1]) if found else _MANY

    @property
    def advised(self) -> tuple[str, ...]:
        """The arguments with the advised change: those of the present run, for as long as the best one."""
        return self.present if self.folder != "scripts" else (self.present[0], self.best[1], *self.present[2:])
