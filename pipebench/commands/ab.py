"""`pipebench ab`: two commits, or two settings of one, measured against each other."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipebench.commands._ab_choice import measures
from pipebench.commands._ab_saved import annotate, judged_again, two
from pipebench.commands._lab import need_lab
from pipebench.commands._percent import Percent
from pipebench.errors import PipebenchError, UsageError
from pipebench.host.interrupts import INTERRUPTED
from pipebench.host.redaction import public, redacted_in
from pipebench.terminal import delivered, exported, formatted, nameless, paged, places, progress, say, whole
from pipebench.units import counted

if TYPE_CHECKING:
    from pipebench.compare.checkouts import Commit
    from pipebench.compare.config import Own
    from pipebench.compare.proof import Project
    from pipebench.compare.server import Side
    from pipebench.results.comparison import Change, Comparison, Measured, Said

GATE_FAILED = 3


@click.command("ab", short_help="Compare two commits: what became slower, and how sure that is")
@click.argument("named", nargs=-1, metavar="BASE HEAD")
@click.option(
    "--stage",
    "stages",
    multiple=True,
    metavar="STAGE",
    help="Compare every variant of this stage or task (may be repeated).",
)
@click.option(
    "--variant", "names", multiple=True, metavar="NAME", help="Compare only variants of this name (may be repeated)."
)
@click.option(
    "--asv", metavar="REGEX", help="Compare the matching time_* benchmarks of the repository's asv suite: 'decode.*'."
)
@click.option(
    "--pytest",
    "tests",
    multiple=True,
    metavar="TEST",
    help="Compare what tests time with the fixture `pipebench`: a file or a node id (may be repeated).",
)
@click.option(
    "--budget",
    type=click.FloatRange(10),
    help="Seconds for the whole comparison, with start-up.  [default: 180, or as long as a judgement needs]",
)
@click.option("--rounds", type=click.IntRange(1), default=1000, show_default=True, help="Stop after this many rounds.")
@click.option(
    "--timeout",
    type=click.FloatRange(1),
    default=300.0,
    show_default=True,
    help="A benchmark fails whose import, set-up or call takes longer than so many seconds.",
)
@click.option(
    "--fail-above",
    type=Percent(),
    metavar="5%",
    help="Exit with 3 if the whole interval of a benchmark is above this slow-down.",
)
@click.option("--fail-on-change", is_flag=True, help="Exit with 3 if the output of a benchmark changed.")
@click.option("--allow-changed", is_flag=True, help="Judge a benchmark whose output changed as any other.")
@click.option("--rejudge", is_flag=True, help="Judge a saved run again, with another limit: `ab --rejudge FILE`.")
@click.option("--pool", is_flag=True, help="Judge saved runs of the same two commits together: `ab --pool FILE FILE`.")
@click.option("--github", is_flag=True, help="Print annotations for a GitHub workflow, on standard error.")
@click.option("--show-names", is_flag=True, help="With --github: show names of samples, files and branches too.")
@whole
@formatted
@exported
@paged
@click.option("--data", default="photos", show_default=True, help="Data set, as for `pipebench run`.")
@click.option(
    "--build", metavar="COMMAND", help="Build command, run once in each checkout: 'python setup.py build_ext -i'."
)
@click.option(
    "--base-python", metavar="PATH", help="Python of the base.  [default: that of asv's environment, else this one]"
)
@click.option("--head-python", metavar="PATH", help="Python of the head.")
@click.option(
    "--base-env", multiple=True, metavar="NAME=VALUE", help="Environment variable for the base (may be repeated)."
)
@click.option(
    "--head-env", multiple=True, metavar="NAME=VALUE", help="Environment variable for the head (may be repeated)."
)
@click.option("--base-runner", metavar="NAME", help="Run the base with this runner, for example pillow-simd.")
@click.option(
    "--head-runner", metavar="NAME", help="Run the head with this runner: `ab HEAD HEAD --head-runner pillow-simd`."
)
def command(
    named: tuple[str, ...],
    stages: tuple[str, ...],
    names: tuple[str, ...],
    asv: str | None,
    tests: tuple[str, ...],
    budget: float | None,
    rounds: int,
    timeout: float,
    fail_above: float | None,
    fail_on_change: bool,
    allow_changed: bool,
    rejudge: bool,
    pool: bool,
    github: bool,
    show_names: bool,
    style: str,
    export_json: Path | None,
    export_html: Path | None,
    force: bool,
    data: str,
    build: str | None,
    **settings: Any,
) -> int:
    """Compare commit BASE with commit HEAD: what became slower, and how sure that is. `.` is the working tree.

    Each commit has its own process, and the two take turns, call by call. If the repository has a `pipebench.toml`
    (see `pipebench init`), its loader and the functions that it names are compared. With --rejudge or --pool, give
    files that --export-json saved in place of BASE and HEAD: nothing is measured.
    """
    from pipebench.compare import checkouts, config
    from pipebench.compare.rounds import compare
    from pipebench.results.comparison import Comparison
    from pipebench.results.secrets import without_secrets

    _refuse_both(fail_on_change, allow_changed)
    export_json, export_html = places(force, export_json, export_html)
    if rejudge or pool:
        changed = {"fail_on_change": fail_on_change, "allow_changed": allow_changed}
        again = judged_again(named, pool, fail_above, changed, github, show_names, style, export_json, export_html)
        return _status(again.changes, again.fail_above, again.fail_on_change, again.most_rounds)
    base, head = two(named)
    repo = checkouts.repository(Path.cwd())
    settled = config.load(repo / config.CONFIG) if (repo / config.CONFIG).exists() else None
    if checkouts.is_dirty(repo) and checkouts.WORKING_TREE not in (base, head):
        say("pipebench: the comparison leaves out your uncommitted changes")
        say("commit them, or give `.` to compare the working tree", "  ")
    own, chosen = measures(settled, stages, names, asv, tests, repo)
    wanted = {"base": base, "head": head}
    commits = [_commit(repo, which, name, build, settings, own) for which, name in wanted.items()]
    sides = [_side(one, python, which, settings, settled) for which, (one, python) in zip(wanted, commits, strict=True)]
    if own is None:
        _something_differs(sides)
    same = sides[0].executable == sides[1].executable
    for note, remedy in checkouts.notes(repo, base, head, [one for one, _ in commits], same):
        say(f"pipebench: {note}")
        say(remedy, "  ")
    labels = _labels(sides)
    hidden = [value for side in sides for name, value in side.environment if not public(name)]
    kept: list[list[Change]] = [[]]
    heard: list[tuple[Said, ...]] = [()]
    load = os.getloadavg()[0]
    status, failure = 0, None
    try:
        with progress() as advance:
            compare(
                sides[0],
                sides[1],
                chosen,
                budget_s=budget,
                most_rounds=rounds,
                own=own,
                project=_project(repo, sides, settled),
                knobs={"data": data},
                timeout_s=timeout,
                progress=advance,
                keep=kept.append,
                hear=heard.append,
            )
    except KeyboardInterrupt:
        say("pipebench: interrupted; the report covers the rounds so far")
        status, failure = INTERRUPTED, "interrupted"
    except PipebenchError as error:
        error.problem, error.remedy = redacted_in([error.problem, error.remedy], hidden)  # what a side has written
        failure = error.problem
        raise
    finally:
        measured = tuple(_measured(repo, one, side) for (one, _), side in zip(commits, sides, strict=True))
        found = Comparison(*labels, tuple(kept[-1]), fail_above, measured, data if settled is None else None)
        found = replace(found, load=(load, os.getloadavg()[0]), said=heard[-1], seeded=True)
        found = replace(found, fail_on_change=fail_on_change, allow_changed=allow_changed, most_rounds=rounds)
        found = without_secrets(found, hidden)
        _deliver(found, failure, style, export_json, export_html, sent=github and not show_names)
        if github:
            annotate(found if show_names else nameless(found), settled, commits[1][0].folder)
    return status or _status(kept[-1], fail_above, fail_on_change, rounds)


def _refuse_both(fail_on_change: bool, allow_changed: bool) -> None:
    if fail_on_change and allow_changed:
        raise UsageError("--fail-on-change and --allow-changed exclude each other", "give one of them")


def _commit(
    repo: Path, which: str, name: str, build: str | None, settings: dict[str, Any], own: dict[str, Any] | None
) -> tuple[Commit, str]:
    """The files of one side, and the interpreter that runs them."""
    from pipebench.compare import checkouts

    python = settings[f"{which}_python"] or checkouts.interpreter(repo, _needs(own))
    return checkouts.checked_out(repo, name, build, python), python


def _needs(own: dict[str, Any] | None) -> list[str]:
    """The modules that an interpreter must have. `tomllib` tells Python 3.11 from older ones."""
    if own is None:
        return ["torch", "click", "msgspec"]
    pytest = ["pytest"] if "pytest" in own.get("sources", {}) else []
    return ["tomllib", *(["torch"] if own.get("loader") else []), *pytest]


def _side(commit: Commit, python: str, which: str, settings: dict[str, Any], own: Own | None) -> Side:
    from pipebench.compare.import_roots import import_roots, names_in
    from pipebench.compare.server import Side

    environment = []
    for pair in settings[f"{which}_env"]:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise UsageError(f"--{which}-env has no name and value", f"write --{which}-env NAME=VALUE")
        environment.append((key, value))
    runner = _runner(settings[f"{which}_runner"])
    roots = import_roots(commit.folder, own.roots if own else ())
    return Side(commit.label, commit.folder, python, tuple(environment), runner, roots, names_in(roots))


def _project(repo: Path, sides: Sequence[Side], own: Own | None) -> Project:
    """The project, with its modules in either commit, in the working tree, and those that its benchmarks name."""
    from pipebench.compare.import_roots import import_roots, names_in, plain_folders_in
    from pipebench.compare.proof import Project

    roots = [*import_roots(repo, own.roots if own else ()), *(root for side in sides for root in side.roots)]
    names = (names_in(roots) | plain_folders_in(roots)).union(*(side.names for side in sides))
    named = own.modules if own else frozenset()
    return Project(repo, names | named, named, measures_pipebench=own is None)


def _measured(repo: Path, commit: Commit, side: Side) -> Measured:
    from pipebench.compare import checkouts
    from pipebench.results.comparison import Measured

    tree = checkouts.tree_of(repo, commit.sha) if commit.sha else None
    version = checkouts.python_version(side.executable)
    return Measured(commit.label, commit.sha, tree, tuple(map(str, side.roots)), side.executable, version)


def _something_differs(sides: Sequence[Side]) -> None:
    """A usage error where nothing that is measured lies in the repository, and both sides would be the same.

    What is measured then are the stages of pipebench, with the packages of the lab.
    """
    same = len({(side.executable, side.environment, side.runner) for side in sides}) == 1
    if same and not any(side.folder and (side.folder / "pipebench").is_dir() for side in sides):
        problem = "there is no pipebench.toml at the top of the repository, so none of its code would be measured"
        remedy = "write one (pipebench init module:make_loader), or compare an asv suite (--asv) or tests (--pytest)"
        raise UsageError(problem, remedy)
    if any(side.executable == sys.executable for side in sides):
        need_lab("ab")


def _runner(name: str | None) -> Any:
    """The runner of that name among those of the registry's variants."""
    if name is None:
        return None
    from pipebench import stage

    known = {
        one.runner.name: one.runner
        for task in stage.tasks()
        for one in stage.variants(task.id)
        if one.runner is not None
    }
    if name not in known:
        raise UsageError(f"there is no runner {name!r}", f"choose one of {', '.join(sorted(known))}")
    return known[name]


def _labels(sides: Sequence[Side]) -> tuple[str, str]:
    """The two names of a report, told apart by their settings where they are one commit.

    A report is meant to be passed on, so it has only the names of variables, and values of those that hold no secret.
    """
    made = []
    for side in sides:
        extra = [side.runner.name] if side.runner else []
        extra += [f"{name}={value}" if public(name) else name for name, value in side.environment]
        made.append(" ".join([side.label, *extra]))
    if made[0] == made[1] and sides[0].environment != sides[1].environment:
        made = [f"{label} ({which})" for label, which in zip(made, ("base", "head"), strict=True)]
    if made[0] == made[1] and sides[0].executable != sides[1].executable:
        made = [f"{label} {side.executable}" for label, side in zip(made, sides, strict=True)]
    return made[0], made[1]


def _deliver(
    found: Comparison,
    failure: str | None,
    style: str,
    export_json: Path | None,
    export_html: Path | None,
    *,
    sent: bool,
) -> None:
    """Shows and saves what the rounds gave, also where they were cut short; nothing where there were none."""
    from pipebench.results.report import new

    if any(one.rounds or one.skipped or one.failed for one in found.changes):
        made = new(partial=failure is not None, failure=failure, comparison=found)
        delivered(made, style, export_json, export_html, sent=sent)


def _status(
    changes: Sequence[Change], limit: float | None, on_change: bool = False, most_rounds: int | None = None
) -> int:
    """3 where a gate failed, 1 where a benchmark failed or nothing was measured or a gate cannot judge, else 0."""
    from pipebench.render import ab, same_work
    from pipebench.results.comparison import exceeding, unreached

    over = exceeding(changes, limit) if limit is not None else []
    if over:
        say(f"pipebench: slower: {', '.join(one.benchmark for one in over)}")
    other = same_work.changed(changes) if on_change else []
    if other:
        say(f"pipebench: changed output: {', '.join(other)}")
    if over or other:
        return GATE_FAILED
    blind = (ab.too_few(changes, most_rounds) or ab.too_wide(changes)) if limit is not None else None
    why = blind or (same_work.uncompared(changes) if on_change else None)
    if (limit is not None or on_change) and (missing := unreached(changes)):
        why = why or f"the run was cut short before {counted(len(missing), 'benchmark')} had a round"
    if why:
        say(f"pipebench: the gate has no result: {why}")
        return 1
    return 1 if any(one.failed for one in changes) or not any(one.judgement for one in changes) else 0
