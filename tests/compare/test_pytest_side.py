"""The tests of a commit, served by one side of a comparison: `pipebench ab --pytest`."""

from unittest.mock import Mock

import pytest

from pipebench.compare import heard, pytest_side, rounds

SERVED = """
import time
import pytest

PLACES = []

@pytest.fixture
def log(tmp_path):
    PLACES.append(tmp_path)
    with open("log", "a") as file:
        yield file
        file.write("torn down ")

def note(log):
    assert "pipebench-pytest-" in str(PLACES[-1])
    log.write("called ")
    log.flush()
    return 1

@pytest.mark.parametrize("name", ["a/b", "c"])
def test_note(pipebench, log, name):
    assert pipebench(note, log) == 1
    log.write("returned ")
    log.flush()

@pytest.mark.parametrize("name", [1, 2], ids=["größe", "weite"])
def test_named(pipebench, name):
    assert pipebench(int, name) == name

def test_wrong(pipebench):
    assert pipebench(int) == 5, "it is wrong"

def test_not_here(pipebench):
    pytest.skip("no library")

def test_compares(pipebench):
    pipebench.compare(int, float)

def test_twice(pipebench):
    pipebench(int)
    pipebench(float)

def test_lacks(pipebench, nothing):
    pipebench(int)

def test_stopped(pipebench, monkeypatch):
    for name in ("perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns"):
        monkeypatch.setattr(time, name, lambda: 1)
    pipebench(int)

@pytest.mark.xfail(strict=True)
def test_expected_to_fail(pipebench):
    pipebench(int, "x")

def test_without():
    pass

def test_asks(request):
    request.getfixturevalue("pipebench")(int)
"""


WANTED = ("test_served.py", "test_served.py::test_asks", "test_broken.py", "absent.py")


@pytest.fixture
def server(tmp_path, monkeypatch):
    """The server of one side, over a folder with the tests above and with options that would get in the way."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))  # of the server
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_served.py").write_text(SERVED)
    (tmp_path / "tests" / "test_broken.py").write_text("import nothing_of_the_kind\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -n 2 --nosuch\nfilterwarnings = error\n")
    own = {"sources": {"pytest": {"tests": [f"tests/{one}" for one in WANTED], "within": "."}}}
    found = rounds.Server(rounds.Side("one", tmp_path, roots=(tmp_path,)), own)
    yield found
    found.close()


def test_a_side_serves_what_its_tests_call(server, tmp_path):
    """The counts are of calls: in the whole test, in arming, and in readings."""
    server.send("start")
    names = server.start()
    assert names == [f"pytest/tests/test_served.py::{name}" for name in (
        "test_note[a/b]", "test_note[c]", r"test_named[gr\xf6\xdfe]", "test_named[weite]", "test_wrong",
        "test_not_here", "test_compares", "test_twice", "test_lacks", "test_stopped",
        "test_expected_to_fail", "test_asks")]  # fmt: skip
    home = server._scratch.path  # the next run removes it if this one is killed
    assert list(home.glob("pipebench-pytest-*"))
    server.fork()
    assert server._ask("arm", names[0], {}, 1.0)["work"] == (1, 0, 0)
    before = (tmp_path / "log").read_text().split()
    assert before[: before.index("torn") + 2] == ["called", "returned", "torn", "down"]  # the test as a whole
    assert server.read_once(names[0], 5)[0] > 0
    assert len((tmp_path / "log").read_text().split()) == len(before) + 5
    assert any(file.endswith("tests/test_served.py") for file in server._ask("modules").values())
    server.leave()
    server.fork()  # answered when the process before is gone
    assert (tmp_path / "log").read_text().endswith("called returned torn down ")
    server._ask("rearm", names[1], {}, ("own",))
    assert server.read_once(names[1], 1)[0] > 0
    server.recover()
    server.close()
    assert list((tmp_path / "temporary").iterdir()) == [] and not home.exists()  # nothing of `tmp_path` stays


@pytest.mark.parametrize(
    ("test", "answer"),
    [
        ("test_not_here", "skipped: no library"),
        ("test_expected_to_fail", "skipped: it is marked xfail"),
        ("test_compares", "it compares functions with each other: time it with pytest --pipebench"),
        (
            "test_absent",
            "this commit has no test tests/test_served.py::test_absent that calls pipebench(function, ...)",
        ),
    ],
)
def test_a_test_that_is_not_measured_says_why(test, answer, server):
    server.send("start")
    server.start()
    server.fork()
    assert server._ask("arm", f"pytest/tests/test_served.py::{test}", {}, 1.0) == {"skip": answer}
    server.leave()


def test_a_file_that_cannot_be_collected_is_said(server):
    server.send("start")
    assert len(server.start()) > 5
    (said,) = heard.collected([(server.errors, server.side.folder)])
    assert said.text.startswith("tests/test_broken.py cannot be collected: ")
    assert "No module named 'nothing_of_the_kind'" in said.text


def test_a_test_that_stops_the_clocks_is_timed_all_the_same(server):
    """The shortest reading that there is stands for a clock that did not go on."""
    server.send("start")
    (name,) = [one for one in server.start() if one.endswith("test_stopped")]
    server.fork()
    assert server._ask("arm", name, {}, 1.0)["alone"] is not None
    assert server.read_once(name, 1)[0] > 1e-9
    server.leave()


def test_a_test_whose_id_pytest_escapes_is_measured(server):
    server.send("start")
    server.start()
    server.fork()
    name = r"pytest/tests/test_served.py::test_named[gr\xf6\xdfe]"
    assert server._ask("arm", name, {}, 1.0)["work"] == (1, 0, 0)
    assert server.read_once(name, 1)[0] > 0
    server.leave()


@pytest.mark.parametrize(
    ("test", "said"),
    [
        ("test_wrong", r"AssertionError: it is wrong\b.*\(tests/test_served.py:\d+\)"),
        ("test_lacks", "fixture 'nothing' not found"),
    ],
)
def test_a_test_that_fails_is_not_measured_and_its_place_is_that_of_the_test(test, said, server):
    server.send("start")
    server.start()
    server.fork()
    with pytest.raises(rounds.RunnerFailed, match=f"^the test fails: {said}$"):
        server._ask("arm", f"pytest/tests/test_served.py::{test}", {}, 1.0)
    server.recover()


def test_a_test_that_calls_twice_is_refused_and_the_next_one_is_measured(server):
    server.send("start")
    names = server.start()
    server.fork()
    with pytest.raises(rounds.RunnerFailed, match="the test fails: RuntimeError: a test calls pipebench once"):
        server._ask("arm", "pytest/tests/test_served.py::test_twice", {}, 1.0)
    server.recover()
    home = server._scratch.path  # the next run removes it if this one is killed
    assert list(home.glob("pipebench-pytest-*"))
    server.fork()
    assert server._ask("arm", names[0], {}, 1.0)["work"] == (1, 0, 0)
    server.leave()


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("pyproject.toml", '[tool.pytest.ini_options]\naddopts = ["--import-mode=importlib", "--nosuch"]\n'),
        ("pytest.ini", "[pytest]\naddopts = --nosuch --import-mode importlib\n"),
    ],
)
def test_files_of_one_name_are_imported_as_the_configuration_says(file, text, tmp_path):
    (tmp_path / file).write_text(text)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "test_it.py").write_text("def test_it(pipebench):\n    pipebench(int)\n")
    assert listed(tmp_path, "a", "b") == ["pytest/a/test_it.py::test_it", "pytest/b/test_it.py::test_it"]


def test_a_test_that_a_commit_lacks_does_not_hide_the_others(tmp_path):
    (tmp_path / "test_it.py").write_text("def test_it(pipebench):\n    pipebench(int)\n")
    assert listed(tmp_path, "test_it.py::test_it", "test_it.py::test_other") == ["pytest/test_it.py::test_it"]


def test_a_plugin_that_stops_pytest_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.setattr(pytest, "main", Mock(side_effect=ValueError("planted")))
    source = pytest_side.Source(None, {"tests": ["."], "within": "."}, str(tmp_path))
    assert source.listed() == []
    source.close()
    assert capsys.readouterr().err == "the tests cannot be collected: ValueError: planted\n"


def listed(folder, *tests):
    own = {"sources": {"pytest": {"tests": list(tests), "within": "."}}}
    server = rounds.Server(rounds.Side("one", folder, roots=(folder,)), own)
    try:
        server.send("start")
        return server.start()
    finally:
        server.close()
