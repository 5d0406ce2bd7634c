"""Lets a thread that looks at another one run as soon as it wakes.

Python lets a thread go on for 5 ms while another one waits for the interpreter, but torch lets it go in each operation.
So a look that is due in shorter work in Python would find the operation of torch after that: such work would never be
seen. Nothing else waits for the interpreter while no other thread of the script runs, so the script does not notice.
"""

from __future__ import annotations

import sys

SOON_S = 1.03e-4  # no number that a script would choose: so what it read here, and sets again later, is known as ours


class Switching:
    """Sets how long Python lets a thread go on while another one waits; `plain_s` is what the script has, in seconds.

    What the script itself sets meanwhile stays. If it sets again what it has read meanwhile, that was not its own.
    """

    def __init__(self) -> None:
        self._plain_s = self._own_s = 0.0

    @property
    def plain_s(self) -> float:
        now = sys.getswitchinterval()
        return self._plain_s if now == self._own_s else now

    def soon(self) -> None:
        plain = self.plain_s
        if plain > SOON_S:
            sys.setswitchinterval(SOON_S)
            self._plain_s, self._own_s = plain, sys.getswitchinterval()

    def back(self) -> None:
        """As the script has it again."""
        if sys.getswitchinterval() == self._own_s:
            sys.setswitchinterval(self._plain_s)
