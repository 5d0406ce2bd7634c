"""A limit on the command line, such as 5%."""

from __future__ import annotations

from typing import Any

import click

from pipebench.units import fraction


class Percent(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic in some releases of click
    """A percentage from 0 to 9999, with or without its sign, as a fraction."""

    name = "percent"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        try:
            return fraction(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
