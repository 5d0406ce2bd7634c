"""A number on the command line, within limits."""

from __future__ import annotations

import math
from typing import Any

import click


class Number(click.FloatRange):
    """A finite number from `least` to `most`: with "nan", a range alone has no limits."""

    def __init__(self, least: float, most: float) -> None:
        super().__init__(least, most)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = float(super().convert(value, param, ctx))
        return found if math.isfinite(found) else self.fail(f"{found} is no number", param, ctx)
