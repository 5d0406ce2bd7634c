"""A repository's own asv suite in `ab`: its names, its set-ups, and what only one commit has."""

import json
import os
import subprocess
import sys
import textwrap
from types import SimpleNamespace

import pytest
import repos

from pipebench import task
from pipebench.compare import asv_suites, rounds
from pipebench.errors import PipebenchError

SUITE = """
import os

LOG = []

def setup(*_):
    LOG.append("module")

class Lists:
    params = [[3, 5], ["list", "tuple"]]
    param_names = ["count", "kind"]

    def setup_cache(self):
        with open("made", "a") as file:
            file.write("once ")
        return {"numbers": list(range(9))}

    def setup(self, cache, count, kind):
        if (count, kind) == (3, "tuple"):
            raise NotImplementedError("too short")
        LOG.append("set up")
        self.data = cache["numbers"][:count]

    def time_pop(self, cache, count, kind):
        LOG.append(len(self.data))
        self.data.clear()

    def teardown(self, cache, count, kind):
        LOG.append("torn down")

    def track_this(self, cache, count, kind):
        return 1

    def time_skipped(self, cache, count, kind):
        raise AssertionError
    time_skipped.skip_params = [(5, "list")]

class Alike:
    params = [len, len, 0.5]
    def time_alike(self, one):
        pass

class Clocked:
    now = 0.0
    def timer(self):
        return Clocked.now
    def time_own(self):
        Clocked.now += 0.25

class _Hidden:
    def time_hidden(self):
        pass

def time_free():
    return "free"

def time_renamed():
    pass
time_renamed.benchmark_name = "other.time_name"
"""
FREE = "def time_free():\n    return 'free'\n"
ASV = """
import json, sys
from asv_runner._aux import update_sys_path
from asv_runner.discovery import disc_benchmarks
import itertools
update_sys_path(sys.argv[1])
names = []
for one in disc_benchmarks(sys.argv[1]):
    if one.type == "time":
        sets = itertools.product(*one.params)
        names += [f"{one.name}({', '.join(values)})" if one.params else one.name for values in sets]
print(json.dumps(names))
"""


def suite(folder, text=SUITE, place="benchmarks"):
    (folder / place).mkdir(parents=True)
    (folder / place / "__init__.py").write_text("")
    (folder / place / "some.py").write_text(textwrap.dedent(text))
    return folder


@pytest.fixture
def source(tmp_path, monkeypatch):
    """A function: the source over a suite, and the names that it has. Nothing of it stays imported."""
    made = []
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    monkeypatch.chdir(tmp_path)

    def make(text=SUITE, wanted=".*"):
        found = asv_suites.Source(task, {"wanted": wanted}, str(suite(tmp_path / "tree", text)))
        made.append(found)
        return SimpleNamespace(source=found, names=found.listed(), log=lambda: sys.modules["benchmarks.some"].LOG)

    yield make
    for one in made:
        one.close()


def test_names_are_those_that_asv_prints(source, tmp_path):
    pytest.importorskip("asv_runner")
    names = source().names
    command = [sys.executable, "-c", ASV, str(tmp_path / "tree" / "benchmarks")]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/")
    expected = json.loads(done.stdout)
    assert names == expected
    assert "some.Alike.time_alike(<built-in function len> (1))" in expected and "other.time_name" in expected


def test_a_regular_expression_chooses_by_name_and_parameters(source):
    names = source(wanted=r"^some\.Lists.*pop.*'list'").names
    assert names == ["some.Lists.time_pop(3, 'list')", "some.Lists.time_pop(5, 'list')"]


def test_every_call_has_a_set_up_of_its_own_which_its_time_leaves_out(source):
    suite_ = source()
    build, facts = suite_.source.call("some.Lists.time_pop(5, 'list')")
    call = build()
    assert facts["timer"]() == 0.0
    call()
    first = facts["timer"]()
    call()
    suite_.source.leave()
    assert suite_.log() == ["module", "set up", 5, "torn down", "module", "set up", 5, "torn down"]
    assert facts["timer"]() > first > 0


def test_what_a_set_up_refuses_and_what_the_suite_skips_is_not_available(source):
    suite_ = source()
    with pytest.raises(task.Unavailable, match="too short"):
        suite_.source.call("some.Lists.time_pop(3, 'tuple')")[0]()
    with pytest.raises(task.Unavailable, match="skips these parameters"):
        suite_.source.call("some.Lists.time_skipped(5, 'list')")


def test_setup_cache_runs_once_elsewhere_and_its_files_stay(source):
    suite_ = source()
    for name in (
        "some.Lists.time_pop(3, 'list')",
        "some.Lists.time_pop(5, 'list')",
        "some.Lists.time_skipped(5, 'list')",
    ):
        suite_.source.prime(name)
    assert suite_.log() == []  # of the process that it was forked from
    with open("made") as file:  # the current folder is the suite's
        assert file.read() == "once "


def test_the_current_folder_is_the_suites_whatever_was_measured_before(source, tmp_path):
    suite_ = source("import os\ndef time_where():\n    return os.getcwd()\n")
    os.chdir(tmp_path)
    assert suite_.source.call("some.time_where")[0]()() == suite_.source._home


def test_a_setup_cache_that_fails_is_said(source):
    text = "class C:\n def setup_cache(self):\n  raise ValueError('no data')\n def time_c(self, data):\n  pass\n"
    with pytest.raises(RuntimeError, match="setup_cache failed: ValueError: no data"):
        source(text).source.prime("some.C.time_c")


def test_a_benchmark_is_timed_by_its_own_timer(source):
    build, facts = source().source.call("some.Clocked.time_own")
    call = build()
    call()
    call()
    assert facts["timer"]() == 0.5


def test_without_a_set_up_and_a_timer_wall_time_is_taken_around_many_calls(source):
    build, facts = source(FREE).source.call("some.time_free")
    assert build()() == "free" and facts["fresh"]()() == "free" and "timer" not in facts


def test_a_module_that_cannot_be_imported_is_a_row_with_the_reason(source):
    suite_ = source("import nothing_of_the_kind\n", wanted="other")
    assert suite_.names == ["some"]
    with pytest.raises(task.Unavailable, match=r"some cannot be imported: ModuleNotFoundError: .*nothing_of_the_kind"):
        suite_.source.call("some")
    with pytest.raises(ModuleNotFoundError, match="nothing_of_the_kind"):  # a missing library: it is not available
        suite_.source.call("some.time_free")[0]()


def test_what_the_suite_of_a_commit_lacks_is_said(source):
    with pytest.raises(task.Unavailable, match=r"the suite of this commit has no some.time_other"):
        source().source.call("some.time_other")


def test_the_temporary_folder_is_removed_by_the_server_alone(source, monkeypatch):
    found = source(FREE).source
    monkeypatch.setattr(asv_suites.os, "getpid", lambda: -1)
    found.close()
    assert os.path.isdir(found._home)
    monkeypatch.undo()
    found.close()
    assert not os.path.isdir(found._home)


@pytest.mark.parametrize("place", ["asv.conf.json", "asv_bench/asv.conf.json"])
def test_the_configuration_says_where_the_suite_is(place, tmp_path):
    path = tmp_path / place
    path.parent.mkdir(exist_ok=True)
    path.write_text('// asv\n{"benchmark_dir": "speed"}')
    assert asv_suites.suite_folder(tmp_path) == path.parent / "speed"
    path.write_text("not json")
    assert asv_suites.suite_folder(tmp_path) == tmp_path / "benchmarks"


@pytest.fixture
def repo(tmp_path):
    """Two commits; the second has one more benchmark and a module that does not import."""
    folder = suite(tmp_path / "repo")
    repos.git(folder, "init", "--quiet")
    repos.commit(folder, "one")
    (folder / "benchmarks" / "new.py").write_text(FREE)
    (folder / "benchmarks" / "broken.py").write_text("import nothing_of_the_kind\n")
    repos.commit(folder, "two")
    return folder


@pytest.mark.slow
def test_two_commits_are_compared_by_their_own_suites(repo):
    wanted = r"time_free|time_pop\(.*'tuple'|time_own"
    done = repos.pipebench("ab", "HEAD~1", "HEAD", "--asv", wanted, "--rounds", "2", "--format", "json", cwd=repo)
    assert done.returncode == 0, done.stderr
    rows = {one["benchmark"]: one for one in json.loads(done.stdout)["comparison"]["changes"]}
    assert set(rows) == {
        "asv/some.time_free", "asv/some.Lists.time_pop(3, 'tuple')", "asv/some.Lists.time_pop(5, 'tuple')",
        "asv/some.Clocked.time_own", "asv/new.time_free", "asv/broken",
    }  # fmt: skip
    assert [len(rows[f"asv/{name}"]["rounds"]) for name in ("some.time_free", "some.Lists.time_pop(5, 'tuple')")] == [
        2,
        2,
    ]
    assert rows["asv/some.Clocked.time_own"]["base_s"] == rows["asv/some.Clocked.time_own"]["head_s"] == 0.25
    assert rows["asv/some.Lists.time_pop(3, 'tuple')"]["skipped"] == "too short"
    assert (
        "HEAD~1" in rows["asv/new.time_free"]["skipped"]
        and "has no new.time_free" in rows["asv/new.time_free"]["skipped"]
    )
    assert "nothing_of_the_kind" in rows["asv/broken"]["skipped"]


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--asv", "nosuch"], 1, "neither side has a benchmark of this name"),
        (["--asv", "("], 2, "'(' is not a regular expression"),
        (["--asv", "some", "--stage", "read"], 2, "leave out --stage and --variant"),
    ],
)
def test_mistakes_are_answered(repo, arguments, status, said):
    done = repos.pipebench("ab", "HEAD~1", "HEAD~1", *arguments, cwd=repo)
    assert done.returncode == status and said in done.stderr and "Traceback" not in done.stderr


def test_a_comparison_of_nothing_is_refused(tmp_path):
    side = rounds.Side("one", suite(tmp_path / "tree"), roots=(tmp_path / "tree",))
    with pytest.raises(PipebenchError, match="neither side has a benchmark"):
        rounds.compare(side, side, [], budget_s=10, own={"sources": {"asv": {"wanted": "nosuch"}}})


OWN = """
import mine

class Set:
    def setup(self):
        self.values = list(range(500))
        mine.before()

    def time_set(self):
        return mine.work(self.values)

def time_free():
    return mine.work(range(500))
"""
MINE = {
    "one": "def before(): pass\ndef work(values):\n    return sum(one * one for one in values)\n",
    "memo": "memo = {}\ndef before(): pass\ndef work(values):\n    key = tuple(values)\n    if key not in memo:\n"
    "        memo[key] = sum(one * one for one in values)\n    return memo[key]\n",
    "broken": "def before():\n    from mine import gone\ndef work(values):\n    return sum(values)\n",
    "gone": "raise ValueError('it broke')\n",
}


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """A suite over a module, which each commit changes: a tag for each of `MINE`."""
    folder = suite(tmp_path_factory.mktemp("own") / "repo", OWN)
    repos.git(folder, "init", "--quiet")
    for name, text in MINE.items():
        (folder / "mine.py").write_text(text)
        repos.commit(folder, name)
        repos.git(folder, "tag", name)
    return folder


@pytest.mark.parametrize(
    ("head", "status", "said"),
    [
        ("memo", 3, "pipebench: changed output: asv/some.Set.time_set\n"),
        ("broken", 1, "RuntimeError: ImportError: cannot import name 'gone' from 'mine'"),
        ("gone", 1, "ValueError: it broke"),
    ],
)
def test_a_head_that_caches_or_breaks_its_own_code_does_not_pass(head, status, said, own):
    done = repos.pipebench("ab", "one", head, "--asv", "Set", "--rounds", "1", "--fail-on-change", cwd=own)
    assert done.returncode == status and said in " ".join(done.stdout.split()) + done.stderr, done.stdout
