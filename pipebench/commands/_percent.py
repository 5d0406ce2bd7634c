"""A limit on the command line, such as 5%."""

from __future__ import annotations

from typing import Any

import click


class Percent(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic in some releases of click
    """A percentage from 0 to 9999, with or without its sign, as a fraction."""

    name = "percent"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        try:
            found = float(str(value).strip().removesuffix("%")) / 100
        except ValueError:
            self.fail(f"{value!r} is not a percentage such as 5%", param, ctx)
        if not 0 <= found < 100:
            self.fail(f"{value!r} is outside 0 to 9999 %", param, ctx)
        return found
