"""The pytest plugin: a smoke test by default, timed or compared with another commit on request.

Every run names the plugin with `-p`, so that the tests need no installation with its entry point.
"""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import fake
import pytest
import repos

from pipebench import pytest_plugin
from pipebench.commands._ab_choice import measures
from pipebench.compare import pytest_side
from pipebench.errors import UsageError
from pipebench.lab import one_task
from pipebench.results import report as reports
from pipebench.results.comparison import Change, Comparison

pytest_plugins = ["pytester"]
PLUGIN = ("-p", "pipebench.pytest_plugin", "-p", "no:cacheprovider")
TESTS = """
import pipebench as the_package
import pytest

CALLS = []

@pytest.fixture
def number(tmp_path):
    (tmp_path / "number").write_text("21")
    yield int((tmp_path / "number").read_text())
    CALLS.append("torn down")

def double(number, times=2):
    CALLS.append(number)
    return times * number

def test_double(pipebench, number):
    assert pipebench(double, number) == 42
    assert pipebench.__class__.__name__ == "Timing" and the_package.__version__

def test_last():
    assert CALLS == [21, "torn down"]
"""
COMPARING = """
def quick():
    return 1
def slow():
    return sum(range(100))
def test_two(pipebench):
    assert pipebench.compare(quick, slow) == (1, 4950)
"""


def test_by_default_a_function_runs_once_and_the_test_gets_what_it_returns(pytester):
    pytester.makepyfile(TESTS)
    done = pytester.runpytest(*PLUGIN)
    done.assert_outcomes(passed=2)
    assert "pipebench ==" not in done.stdout.str()


def test_what_a_function_raises_fails_the_test(pytester):
    pytester.makepyfile("def test_it(pipebench):\n    pipebench(int, 'x')\n")
    done = pytester.runpytest(*PLUGIN)
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*ValueError: invalid literal*"])


def test_settings_are_compared_once_each_by_default(pytester):
    pytester.makepyfile(COMPARING)
    pytester.runpytest(*PLUGIN).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("pipebench(int); pipebench(int)", "a test calls pipebench once"),
        ("pipebench.compare(int)", "takes two functions or more"),
        ("def made(n):\n        yield n\n    pipebench(made, 5)", "generator function made does none of its work"),
    ],
)
def test_wrong_use_is_said(body, said, pytester):
    pytester.makepyfile(f"def test_it(pipebench):\n    {body}\n")
    done = pytester.runpytest(*PLUGIN)
    assert done.ret == 1 and said in done.stdout.str()


def test_with_the_option_each_function_has_a_row_and_the_report_is_saved(pytester):
    pytester.makepyfile(test_one=TESTS.replace("def test_last", "def unused"), test_two=COMPARING)
    done = pytester.runpytest(*PLUGIN, "--pipebench-save", "report.json")
    done.assert_outcomes(passed=2)
    done.stdout.fnmatch_lines(["*= pipebench =*", "Functions of the tests", "test *", "test_one.py::test_double *"])
    report = reports.load(pytester.path / "report.json")
    assert [(one.task, one.variant) for one in report.measurements] == [
        ("pytest/test_one.py::test_double", "double"),
        ("pytest/test_two.py::test_two", "quick"),
        ("pytest/test_two.py::test_two", "slow"),
    ]
    assert all(one.readings_s and one.failed is None for one in report.measurements)


def test_where_nothing_used_the_fixture_it_says_so(pytester):
    pytester.makepyfile("def test_it():\n    pass\n")
    done = pytester.runpytest(*PLUGIN, "--pipebench")
    done.stdout.fnmatch_lines(["Nothing was timed: no test called the fixture `pipebench`."])


@pytest.fixture
def with_a_commit(pytester):
    """A function that runs these tests against the commit HEAD."""

    def run(tests, *options):
        pytester.makepyfile(tests)
        repos.git(pytester.path, "init", "--quiet")
        repos.commit(pytester.path, "one")
        return pytester.runpytest(*PLUGIN, "--pipebench-against", "HEAD", *options)

    return run


def test_tests_that_compare_within_a_commit_are_named_where_another_is_compared(with_a_commit):
    done = with_a_commit(COMPARING)
    done.stdout.fnmatch_lines([
        "Nothing was timed: no test called the fixture `pipebench` with one function.",
        "Not compared with HEAD: *::test_two: pipebench.compare(a, b) holds functions of one commit against*",
    ])  # fmt: skip
    assert done.ret == 0


@pytest.mark.parametrize("tests", [COMPARING, "def test_it():\n    pass\n"])
def test_a_gate_that_measured_nothing_fails_the_run(tests, with_a_commit):
    done = with_a_commit(tests, "--pipebench-fail-above", "5%")
    assert done.ret == 1
    done.stdout.fnmatch_lines(["Nothing was timed: *", "The gate (--pipebench-fail-above) has no result*"])


def test_limits_of_a_comparison_need_one(pytester):
    done = pytester.runpytest(*PLUGIN, "--pipebench-budget", "10")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["*--pipebench-budget needs --pipebench-against COMMIT"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--pipebench-against", "nosuch"], "there is no commit 'nosuch'"),
        (["--pipebench-against", "HEAD", "--pipebench-budget", "abc"], "'abc' is not a number of seconds"),
        (["--pipebench-against", "HEAD", "--pipebench-budget", "5"], "--pipebench-budget 5 is too short: give 10 or"),
        (["--pipebench-against", "HEAD", "--pipebench-fail-above", "x"], "'x' is not a percentage such as 5%"),
        (["--pipebench-save", "."], "is not a regular file"),
    ],
)
def test_what_would_be_refused_at_the_end_is_refused_before_a_test_runs(options, said, pytester):
    pytester.makepyfile("def test_it():\n    open('ran', 'w')\n")
    repos.git(pytester.path, "init", "--quiet")
    repos.commit(pytester.path, "one")
    done = pytester.runpytest(*PLUGIN, *options)
    assert done.ret == pytest.ExitCode.USAGE_ERROR and said in done.stderr.str()
    assert not (pytester.path / "ran").exists()


def test_a_report_that_cannot_be_saved_is_shown_and_the_run_fails(pytester):
    """Its place was good when the run began."""
    pytester.makepyfile("import os\n\ndef test_it(pipebench):\n    os.mkdir('report.json')\n    pipebench(int)\n")
    done = pytester.runpytest(*PLUGIN, "--pipebench-save", "report.json")
    assert done.ret == pytest.ExitCode.TESTS_FAILED
    done.stdout.fnmatch_lines(["*= pipebench =*", "Functions of the tests"])
    assert "pipebench: cannot write" in done.stderr.str() and "Traceback" not in done.stderr.str()


def test_timing_in_many_processes_at_once_is_refused(pytester):
    pytest.importorskip("xdist")
    done = pytester.runpytest(*PLUGIN, "--pipebench", "-n", "2")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["*leave out -n"])


STOPPED = """
import time

def test_stopped(pipebench, monkeypatch):
    for name in ("perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns"):
        monkeypatch.setattr(time, name, lambda: 1)
    pipebench(int)
"""


def test_a_test_that_stops_the_clocks_is_timed_too(pytester):
    """Another process: this one has imported what is measured with, and its clocks."""
    pytester.makepyfile(STOPPED)
    done = pytester.runpytest_subprocess(*PLUGIN, "--pipebench-save", "report.json", timeout=100)
    assert done.ret == 0
    assert min(reports.load(pytester.path / "report.json").measurements[0].readings_s) > 0


@pytest.mark.parametrize("status", [0, 3])
def test_against_a_commit_the_tests_that_ran_are_compared_by_ab(status, pytester, monkeypatch):
    pytester.makepyfile(test_it=TESTS)
    repos.git(pytester.path, "init", "--quiet", "--initial-branch=main")
    repos.commit(pytester.path, "one")
    commands = []

    def ab(command, **_):
        commands.append(command)
        found = Comparison("main", "working tree", (Change("pytest/test_it.py::test_double", skipped="planted"),))
        reports.save(reports.new(comparison=found), Path(command[command.index("--export-json") + 1]))
        return subprocess.CompletedProcess(command, status)

    monkeypatch.setattr(pytest_plugin.subprocess, "run", ab)
    options = ["--pipebench-against", "main", "--pipebench-fail-above", "5%", "--pipebench-save", "both.json"]
    done = pytester.runpytest(*PLUGIN, *options)
    ((_, _, _, *command),) = commands
    assert command[:5] == ["ab", "main", ".", "--pytest", "test_it.py::test_double"]
    assert command[5:11] == ["--base-python", sys.executable, "--head-python", sys.executable, "--fail-above", "5%"]
    assert done.ret == (1 if status else 0)
    done.stdout.fnmatch_lines(["*= pipebench =*", "*test_double: not measured, planted"])
    assert reports.load(pytester.path / "both.json").comparison.head == "working tree"


def test_functions_are_read_in_turn_and_held_against_the_first():
    clock = fake.FakeClock(noise=0.01)
    calls = {"slow": lambda: clock.spend(0.004), "fast": lambda: clock.spend(0.001)}
    slow, fast = one_task.of_functions("pytest/t", calls, clock)
    assert slow.over_reference.speedup == 1.0
    assert fast.over_reference.told and 3.9 < fast.over_reference.speedup < 4.1


def test_names_that_occur_twice_have_a_number():
    assert pytest_plugin._names([int, int, len, int]) == ["int", "int (2)", "len", "int (3)"]


def test_loading_the_plugin_imports_nothing_that_is_slow():
    code = (
        "import sys, pipebench.pytest_plugin; print({'torch', 'numpy', 'msgspec', 'rich', 'click'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"


def test_the_entry_point_has_the_name_of_the_module():
    """Under another name, `-p pipebench.pytest_plugin` and the entry point are two plugins: pytest refuses that."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {pytest_side.PLUGIN: pytest_plugin.__name__}


def test_a_test_is_seen_from_the_current_folder_and_never_outside_of_a_side(tmp_path, monkeypatch):
    (tmp_path / "repo" / "part").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "repo" / "part")
    names = ["test_it.py::test[/a]", f"{tmp_path}/repo/tests/test_it.py::test", "../tests"]
    own, _ = measures(None, (), (), None, names, tmp_path / "repo")
    tests = ["test_it.py::test[/a]", "../tests/test_it.py::test", "../tests"]
    assert own["sources"]["pytest"] == {"tests": tests, "within": "part"}
    with pytest.raises(UsageError, match="is not in the repository"):
        measures(None, (), (), None, ["../../test_it.py"], tmp_path / "repo")


@pytest.mark.slow
def test_two_commits_are_compared_by_their_tests_below_the_current_folder(tmp_path):
    folder = tmp_path / "repo" / "part"
    folder.mkdir(parents=True)
    (tmp_path / "repo" / "conftest.py").write_text("import pytest\n\n@pytest.fixture\ndef n():\n    return 3\n")
    (folder / "test_it.py").write_text("def test_it(pipebench, n):\n    pipebench(int, n)\n")
    repos.git(tmp_path / "repo", "init", "--quiet")
    repos.commit(tmp_path / "repo", "one")
    (folder / "test_it.py").write_text("def test_it(pipebench, n):\n    pipebench(int, n)\n\ntest_new = test_it\n")
    options = ["--pytest", "test_it.py", "--rounds", "2", "--format", "json"]
    done = repos.pipebench("ab", "HEAD", ".", *options, cwd=folder)
    assert done.returncode == 0, done.stderr
    rows = {one["benchmark"]: one for one in json.loads(done.stdout)["comparison"]["changes"]}
    assert len(rows["pytest/test_it.py::test_it"]["rounds"]) == 2
    assert "this commit has no test test_it.py::test_new" in rows["pytest/test_it.py::test_new"]["skipped"]
