"""Renders a watched block for a notebook: the report that fits a screen, as text or as inert HTML. Pure."""

from __future__ import annotations

from pipebench.render import layout, screen, watch
from pipebench.render.cells import Table
from pipebench.render.html import markup
from pipebench.render.watch_account import merged
from pipebench.results.account import Account
from pipebench.results.watched import WatchResult
from pipebench.units import percent, seconds, seconds_scale

MOST_BYTES = 30_000
_HEADING = 4  # below the headings of a notebook
_BAR = 16  # characters


def as_text(result: WatchResult) -> str:
    """The verdict, the account, the largest stages and the next move, as plain text."""
    made = watch.parts(result, of_command=True)  # no command is named that wants a script
    return layout.text(screen.fitted(made, layout.WIDTH, "", screen.OF_RUN), width=layout.WIDTH)


def as_html(result: WatchResult) -> str:
    """The same as prose and tables, at most `MOST_BYTES` of them. It needs no style: a notebook has its own."""
    whole = result.account
    made = [
        part
        for name, parts in watch.sections(result, of_command=True)
        for part in ([_account(whole)] if name == "run" and whole is not None and whole.wall_s else parts)
    ]
    page = screen.fitted(made, layout.WIDTH, "", screen.OF_RUN)
    return f'<div class="pipebench">{markup.blocks(page, _HEADING, MOST_BYTES)}</div>'


def _account(found: Account) -> Table:
    """The rows of the short account, in the columns of a table."""
    rows = list(merged(found))
    scale = seconds_scale([found.wall_s])
    longest = max((s for _, s, _ in rows), default=0.0) or 1.0
    cells = tuple(
        (
            name,
            "█" * round(_BAR * s / longest),
            scale.number(s),
            percent(s / found.wall_s),
            scale.number(saved) if saved else "",
        )
        for name, s, saved in rows
    )
    title = f"Where the {seconds(found.wall_s)} of the run went"
    return Table(title, ("", "", scale.unit, "share", "saves ≈"), cells, frozenset({2, 3, 4}))
