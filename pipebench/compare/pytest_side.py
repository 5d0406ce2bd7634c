"""The tests of a repository that use the fixture `pipebench`, inside one side of a comparison.

Each round's process runs pytest on one test of its own commit, with its fixtures, up to the call `pipebench(function,
...)`. There it answers the requests of the round: it times the function with its arguments. When the round is over, the
call returns, and the test and its fixtures end as usual. This file is read by its path from the pipebench that drives,
and imports nothing of pipebench.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import sys
import tempfile
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

PLUGIN = "pipebench.pytest_plugin"  # replaced by the fixture below
OPTIONS = (
    "-q", "-p", "no:cacheprovider", "-p", f"no:{PLUGIN}", "-o", "addopts=",
    "-W", "ignore::pytest.PytestAssertRewriteWarning",
)  # fmt: skip


class Fails(RuntimeError):
    """A test that does not pass. What it says has its place, in the test."""

    has_place = True


class Source:
    """The tests that `settings["tests"]` names, as paths or node ids below the folder `settings["within"]`."""

    def __init__(self, words: Any, settings: dict[str, Any], folder: str | None) -> None:
        self._words, self._tests = words, settings["tests"]
        self._top = Path(folder or ".")
        self._root = self._top / settings["within"]
        self._call: Callable[[], Any] | None = None
        self._compares = False  # whether the last test called `pipebench.compare`
        self._why_not: Exception | None = None  # why the last test did not get to its call
        self._home, self._server = (
            tempfile.mkdtemp(prefix="pipebench-pytest-", dir=os.environ.get("PIPEBENCH_AB")),
            os.getpid(),
        )

    def listed(self) -> list[str]:
        """The node ids of the tests that use the fixture. Collecting imports them, so that no round has to."""
        os.environ.pop("PYTEST_ADDOPTS", None)
        if not self._root.is_dir():
            return []
        found: list[str] = []
        there = [one for one in self._tests if (self._root / one.partition("::")[0]).exists()]

        def collected(session: Any) -> None:
            found.extend(one.nodeid for one in session.items if self._uses_fixture(one))

        def collect(some: list[str]) -> None:
            options = ["--collect-only", "--continue-on-collection-errors"]
            self._run([*options, *some], lambda call: None, collected, failed=self._not_collected)

        if there:
            collect(there)
        if not found and len(there) > 1:  # where one is lacking, pytest collects none
            for one in there:
                collect([one])
        return list(dict.fromkeys(found))

    def _uses_fixture(self, item: Any) -> bool:
        """Whether a test names the fixture, or is named itself: it may ask for the fixture while it runs."""
        return "pipebench" in getattr(item, "fixturenames", ()) or item.nodeid in self._tests

    def _not_collected(self, report: Any) -> None:
        """Says which file cannot be collected: none of its tests is found, and nothing else would say so."""
        if not report.skipped:
            sys.stderr.write(f"{report.nodeid or 'the tests'} cannot be collected: {_said(report)}\n")

    def prime(self, name: str) -> None:
        """Nothing: fixtures are set up in every round's process."""

    def enter(self, name: str, whole: bool, inside: Callable[[], object]) -> bool:
        """Runs a test, and `inside` at its call of the fixture. False if it was not called; `call` then says why.

        With `whole`, the test first runs to its end, and one that does not pass is not measured.
        """
        if whole and self._passed(name, lambda: None) is None:
            return False
        self._why_not = None
        reached = self._passed(name, inside, is_inside=True)
        self._call = None
        return bool(reached)

    def call(self, name: str) -> tuple[Callable[[], Callable[[], Any]], dict[str, Any]]:
        call, why_not = self._call, self._why_not or self._no_such(name)
        if call is None and isinstance(why_not, self._words.Unavailable):
            raise why_not

        def build() -> Callable[[], Any]:
            if call is None:
                raise why_not
            return call

        return build, {}

    def leave(self) -> None:
        """Nothing: the test ends by itself after its call has returned."""

    def close(self) -> None:
        """Removes the folder of `tmp_path`; only in the server, because all rounds use it.

        In its usual place pytest would keep the folder of every round: a lock stays, because a fork has no exit hooks.
        """
        if os.getpid() == self._server:
            shutil.rmtree(self._home, ignore_errors=True)

    def _passed(self, name: str, inside: Callable[[], object], is_inside: bool = False) -> bool | None:
        """Whether the call was reached; None, with `_why_not`, if the test did not pass or did not call."""
        reached: list[bool] = []

        def at_call(call: Callable[[], Any]) -> None:
            if reached and is_inside:  # the test is run again, and the round is over
                return
            reached.append(True)
            self._call = call if is_inside else None
            inside()

        report = self._run([name], at_call, chosen=name)
        if reached and (is_inside or report is None):
            return True
        self._why_not = self._reason(name, report)
        return None

    def _reason(self, name: str, report: Any) -> Exception:
        if report is None:
            return self._no_such(name)
        if report.skipped and hasattr(report, "wasxfail"):
            return self._unavailable("skipped: it is marked xfail")
        if report.skipped:
            said = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            return self._unavailable(f"skipped: {said.removeprefix('Skipped: ')}")
        return Fails(f"the test fails: {_said(report)}")

    def _no_such(self, name: str) -> Exception:
        if self._compares:
            return self._unavailable("it compares functions with each other: time it with pytest --pipebench")
        return self._unavailable(f"this commit has no test {name} that calls pipebench(function, ...)")

    def _unavailable(self, reason: str) -> Exception:
        return self._words.Unavailable("not-built", reason)  # type: ignore[no-any-return]  # it is an exception

    def _run(
        self,
        arguments: Sequence[str],
        at_call: Callable[[Callable[[], Any]], None],
        collected: Callable[[Any], None] = lambda session: None,
        chosen: str = "",
        failed: Callable[[Any], None] = lambda report: None,
    ) -> Any:
        """Runs pytest. The first report of a test that was skipped or failed; None if there is none.

        Each time that pytest collects in one process, it escapes the ids that a test names once more. So a `chosen`
        test with such an id is looked for among all that its function has.
        """
        import pytest

        def choose(items: list[Any]) -> None:
            if "\\" in chosen:
                items[:] = [one for one in items if _unescaped(one.nodeid) == _unescaped(chosen)][:1]

        def not_collected(report: Any) -> None:
            if not report.passed:
                reports.append(report)
                failed(report)

        if "\\" in chosen:
            arguments = [chosen.partition("[")[0]]
        reports: list[Any] = []
        serving: Any = types.ModuleType("pipebench_serving")
        serving.pipebench = pytest.fixture(name="pipebench")(lambda: Timing(at_call, self._is_comparing))
        serving.pytest_runtest_logreport = lambda report: None if report.passed else reports.append(report)
        serving.pytest_collectreport = not_collected
        serving.pytest_configure = _keep_import_mode
        serving.pytest_collection_modifyitems = choose
        serving.pytest_collection_finish = collected
        os.chdir(self._root)
        try:
            places = [f"--rootdir={self._root}", f"--confcutdir={self._top}", f"--basetemp={self._home}/{os.getpid()}"]
            pytest.main([*OPTIONS, *places, *arguments], plugins=[serving])
        except Exception as error:  # for example a warning that its configuration makes an error, at the very end
            said = f"{type(error).__name__}: {error}"
            reports.append(types.SimpleNamespace(skipped=False, nodeid="", longrepr=said))
            failed(reports[-1])
        return reports[0] if reports else None

    def _is_comparing(self) -> None:
        self._compares = True


def _keep_import_mode(config: Any) -> None:
    """The one option of `addopts` that decides whether a test can be imported at all."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        text = config.inipath.read_text(encoding="utf-8") if config.inipath else ""
        if found := re.search(r"--import-mode[\s=\"',]+(prepend|append|importlib)\b", text):
            config.option.importmode = found[1]


def _said(report: Any) -> str:
    """Why a test or a file failed, in one line with its place."""
    crash = getattr(report.longrepr, "reprcrash", None)
    lines = str(crash.message if crash else report.longrepr).strip().splitlines() or ["it did not pass"]
    said = next((one.removeprefix("E").strip() for one in lines if one.startswith("E  ")), lines[0])
    return f"{said} ({crash.path}:{crash.lineno})" if crash else said


def _unescaped(node: str) -> str:
    """A node id, the same however often it was escaped."""
    return re.sub(r"\\+", r"\\", node)


class Timing:
    """What a test gets as `pipebench`, as the plugin's `Timing`."""

    def __init__(self, at_call: Callable[[Callable[[], Any]], None], at_compare: Callable[[], None]) -> None:
        self._at_call, self._at_compare, self._is_used = at_call, at_compare, False

    def __call__(self, call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        self._use()
        output = call(*arguments, **named)
        self._at_call(functools.partial(call, *arguments, **named))
        return output

    def compare(self, *functions: Callable[[], Any]) -> tuple[Any, ...]:
        self._use()
        self._at_compare()
        return tuple(one() for one in functions)

    def _use(self) -> None:
        if self._is_used:
            raise RuntimeError("a test calls pipebench once")
        self._is_used = True
