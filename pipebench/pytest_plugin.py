"""The pytest plugin: the fixture `pipebench`, and the options that time what tests give it.

    def test_decode(pipebench, image):
        assert pipebench(decode, image).shape == (533, 800, 3)

Without an option, the function runs once and the test checks what it returns. `--pipebench` times it in the test's own
process. `--pipebench-against main` compares it with another commit: `pipebench ab` runs the same test in the checkouts
of both. pytest loads this module at every start, so it imports the rest of pipebench only when something is timed.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pipebench.results.measurement import Measurement
    from pipebench.results.report import Report


@dataclass
class _Run:
    """What the options ask for, and what the tests of this run gave."""

    timed: bool
    against: str | None
    file: Path | None
    limits: list[str]  # options of `pipebench ab`
    measurements: list[Measurement] = field(default_factory=list)
    tests: list[str] = field(default_factory=list)  # those that called the fixture with a function
    within: list[str] = field(default_factory=list)  # those that called `compare`, of functions of one commit
    report: Report | None = None

    @property
    def is_gate(self) -> bool:
        return "--fail-above" in self.limits

    @property
    def left_out(self) -> list[str]:
        """What to say of the tests that another commit cannot be compared by."""
        if not (self.against and self.within):
            return []
        from pipebench.units import listed

        why = "pipebench.compare(a, b) holds functions of one commit against each other (--pipebench)"
        return [f"Not compared with {self.against}: {listed(self.within)}: {why}."]


LEAST_BUDGET_S = 10  # of `pipebench ab`
_RUN = pytest.StashKey[_Run]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("pipebench", "timing with the fixture `pipebench`")
    group.addoption("--pipebench", action="store_true", help="Time what the tests give to the fixture `pipebench`.")
    group.addoption("--pipebench-save", metavar="FILE", help="Time it, and save the report here.")
    group.addoption("--pipebench-against", metavar="COMMIT", help="Compare the working tree with this commit.")
    group.addoption("--pipebench-budget", metavar="SECONDS", help="Seconds for the whole comparison with a commit.")
    group.addoption(
        "--pipebench-fail-above", metavar="5%", help="Fail if a whole interval is above this slow-down of the commit."
    )


def pytest_configure(config: pytest.Config) -> None:
    against, file = config.getoption("--pipebench-against"), config.getoption("--pipebench-save")
    limits = []
    for name in ("budget", "fail-above"):
        if (value := config.getoption(f"--pipebench-{name}")) is not None:
            if against is None:
                raise pytest.UsageError(f"--pipebench-{name} needs --pipebench-against COMMIT")
            limits += [f"--{name}", value]
    _refuse(against, config.getoption("--pipebench-budget"), config.getoption("--pipebench-fail-above"), file, config)
    timed = config.getoption("--pipebench") or (file is not None and against is None)
    if (timed or against) and config.getoption("numprocesses", None):
        raise pytest.UsageError("pipebench times one test after another: give -n 0, or leave out -n")
    if timed:  # before a test can stop the clocks
        import pipebench.lab.one_task  # noqa: F401  # its clocks are those of its import
    config.stash[_RUN] = _Run(timed, against, None if file is None else Path(file).absolute(), limits)


def _refuse(against: str | None, budget: str | None, limit: str | None, file: str | None, config: Any) -> None:
    """Raises pytest.UsageError, before any test runs, for what could not be compared or saved after all of them."""
    if against is None and file is None:
        return
    from pipebench.compare import checkouts
    from pipebench.errors import PipebenchError
    from pipebench.terminal import place
    from pipebench.units import fraction

    try:
        if against is not None:
            checkouts.resolve(checkouts.repository(config.rootpath), against)
        if budget is not None and not budget.replace(".", "", 1).isdecimal():
            raise ValueError(f"{budget!r} is not a number of seconds")
        if budget is not None and float(budget) < LEAST_BUDGET_S:
            raise ValueError(f"--pipebench-budget {budget} is too short: give {LEAST_BUDGET_S} or more")
        if limit is not None:
            fraction(limit)
        place(None if file is None else Path(file).absolute(), force=True)
    except (PipebenchError, ValueError) as error:
        raise pytest.UsageError(f"pipebench: {error}") from error


class Timing:
    """What a test gets as `pipebench`. A test calls it once, so that its name stands for one function."""

    def __init__(self, run: _Run, test: str) -> None:
        self._run, self._test, self._is_used = run, test, False

    def __call__(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Runs `function(*arguments, **named)` and returns its result. Times it if an option asks for that."""
        self._use([function])
        output = function(*arguments, **named)
        self._run.tests.append(self._test)
        if self._run.timed:
            self._time([functools.partial(function, *arguments, **named)], [function])
        return output

    def compare(self, *functions: Callable[[], Any]) -> tuple[Any, ...]:
        """Runs functions without arguments and returns their results.

        With `--pipebench`, times them in turn, and says how many times as fast as the first the others are.
        """
        self._use(functions)
        if len(functions) < 2:
            raise pytest.UsageError("pipebench.compare takes two functions or more")
        outputs = tuple(function() for function in functions)
        self._run.within.append(self._test)
        if self._run.timed:
            self._time(functions, functions)
        return outputs

    def _use(self, functions: Sequence[Callable[..., Any]]) -> None:
        from pipebench.compare.one_function import idle

        if problem := next(filter(None, map(idle, functions)), None):
            raise pytest.UsageError(problem)
        if self._is_used:
            raise pytest.UsageError("a test calls pipebench once: parametrize it, or use pipebench.compare(a, b)")
        self._is_used = True

    def _time(self, calls: Any, named_as: Any) -> None:
        from pipebench.lab import one_task

        found = one_task.of_functions(f"pytest/{self._test}", dict(zip(_names(named_as), calls, strict=True)))
        self._run.measurements += found


def _names(functions: Any) -> list[str]:
    """A name for each function; one that occurs twice has a number."""
    names: list[str] = []
    for one in functions:
        inner = one.func if isinstance(one, functools.partial) else one
        name = getattr(inner, "__name__", type(inner).__name__)
        count = sum(known.partition(" (")[0] == name for known in names)
        names.append(f"{name} ({count + 1})" if count else name)
    return names


@pytest.fixture
def pipebench(request: pytest.FixtureRequest) -> Timing:
    """Runs a function once, and times it if pytest was called with --pipebench or --pipebench-against."""
    return Timing(request.config.stash[_RUN], request.node.nodeid)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Compares with the other commit, if asked for, and makes and saves the report."""
    run = session.config.stash.get(_RUN, None)
    interrupted = exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    if run is None or interrupted:
        return
    if run.is_gate and not run.tests:  # as `ab`: a gate that has measured nothing does not pass
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    if run.measurements or (run.against and run.tests):
        _report(run, session)


def _report(run: _Run, session: pytest.Session) -> None:
    from pipebench.results import report as reports

    comparison = None
    if run.against and run.tests:
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.write_line("")
        status, comparison = _compared(run, session.config.rootpath)
        if status:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
    if run.measurements or comparison is not None:
        run.report = reports.new(measurements=tuple(run.measurements), comparison=comparison)
        if run.file is not None:
            _save(run.report, run.file, session)


def _save(report: Report, file: Path, session: pytest.Session) -> None:
    """Saves the report. The run fails if it cannot be saved, and goes on to show it."""
    from pipebench.errors import PipebenchError
    from pipebench.results.report import save

    try:
        save(report, file)
    except PipebenchError as error:
        sys.stderr.write(f"\npipebench: {error}\n")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _compared(run: _Run, folder: Path) -> tuple[int, Any]:
    """The exit status of `pipebench ab`, which writes what it has to say to standard error, and its comparison."""
    from pipebench.results import report as reports

    tests = [word for test in run.tests for word in ("--pytest", test)]
    pythons = ["--base-python", sys.executable, "--head-python", sys.executable]
    with tempfile.TemporaryDirectory(prefix="pipebench-") as place:
        file = os.path.join(place, "ab.json")
        command = ["ab", str(run.against), ".", *tests, *pythons, *run.limits, "--export-json", file]
        done = subprocess.run([sys.executable, "-m", "pipebench", *command], cwd=folder, stdout=subprocess.DEVNULL)
        return done.returncode, reports.load(Path(file)).comparison if os.path.exists(file) else None


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    run = config.stash.get(_RUN, None)
    if run is None or not (run.timed or run.against):
        return
    terminalreporter.section("pipebench")
    if run.report is None:
        terminalreporter.write_line(f"Nothing was timed: {_why_nothing(run)}.")
    else:
        from pipebench.terminal import rendered

        for line in rendered(run.report, "table", full=True).splitlines():
            terminalreporter.write_line(line)
    for line in run.left_out:
        terminalreporter.write_line(line)
    if run.is_gate and not run.tests:
        terminalreporter.write_line("The gate (--pipebench-fail-above) has no result, so the run fails.")


def _why_nothing(run: _Run) -> str:
    if run.tests:
        return "no comparison"
    if run.within:
        return "no test called the fixture `pipebench` with one function"
    return "no test called the fixture `pipebench`"
