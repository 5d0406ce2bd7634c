"""What `pipebench ab` does with a comparison: judge saved runs again, and annotate it for GitHub."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipebench.errors import PipebenchError, UsageError
from pipebench.host.redaction import redacted
from pipebench.terminal import delivered, nameless, progress
from pipebench.units import counted

if TYPE_CHECKING:
    from pipebench.compare.config import Own
    from pipebench.results.comparison import Comparison

JUDGING = frozenset({"named", "rejudge", "pool", "fail_above", "fail_on_change", "allow_changed"})
SHOWING = frozenset({"github", "show_names", "full", "style", "export_json", "export_html", "force"})


def two(named: Sequence[str]) -> tuple[str, str]:
    """The names of the two commits."""
    if len(named) != 2:
        problem = f"ab compares two commits, and {counted(len(named), 'name')} was given"
        problem = problem if len(named) == 1 else problem.replace("was", "were")
        raise UsageError(problem, "write `pipebench ab BASE HEAD`, for example `pipebench ab main HEAD`")
    return named[0], named[1]


def judged_again(
    files: Sequence[str],
    pool: bool,
    fail_above: float | None,
    changed: dict[str, Any],
    github: bool,
    show_names: bool,
    style: str,
    export_json: Path | None,
    export_html: Path | None,
) -> Comparison:
    """Judges saved runs, one with another limit or several together, and measures nothing.

    `changed` says what a changed output means, if any of its values is true; else the file does.
    """
    from pipebench.compare import saved

    _only_judging()
    if not pool and len(files) != 1:
        problem = f"--rejudge judges one file, and {counted(len(files), 'name')} were given"
        raise UsageError(problem, "write `pipebench ab --rejudge FILE --fail-above 3%`; --pool takes several files")
    if pool and len(files) < 2:
        raise UsageError("--pool joins two files or more", "write `pipebench ab --pool A.json B.json`")
    runs = [saved.loaded(Path(one)) for one in files]
    with progress() as advance:
        made = saved.pooled(runs, fail_above, advance) if pool else saved.rejudged(runs[0], fail_above, advance)
    assert made.comparison is not None
    found = replace(made.comparison, **changed) if any(changed.values()) else made.comparison
    sent = github and not show_names
    delivered(replace(made, comparison=found), style, export_json, export_html, sent=sent)
    if github:
        annotate(nameless(found) if sent else found, *_here())
    return found


def _only_judging() -> None:
    """A usage error for an option that says how to measure."""
    context = click.get_current_context()
    for one in context.command.params:
        given = context.get_parameter_source(one.name or "") is click.core.ParameterSource.COMMANDLINE
        if given and one.name not in JUDGING | SHOWING:
            raise UsageError(f"{one.opts[0]} says how to measure, and nothing is measured here", "leave it out")


def _here() -> tuple[Own | None, Path]:
    """The settings of the repository around the current folder, where there is one, and its top folder."""
    from pipebench.compare import checkouts, config

    try:
        repo = checkouts.repository(Path.cwd())
    except PipebenchError:
        return None, Path.cwd()
    return (config.load(repo / config.CONFIG) if (repo / config.CONFIG).exists() else None), repo


def annotate(found: Comparison, own: Own | None, head: Path) -> None:
    """Writes the annotations of a GitHub workflow to standard error; `head` is the folder of the head's files."""
    from pipebench.compare.places import places
    from pipebench.render import github

    for line in github.commands(found, places(own, [one.benchmark for one in found.changes], head)):
        click.echo(redacted(line), err=True)
