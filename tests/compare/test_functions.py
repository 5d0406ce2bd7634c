"""`[[benchmark]]` in pipebench.toml: any function, found, checked and refused."""

import functools as standard
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import repos

from pipebench import task
from pipebench.commands import ab
from pipebench.compare import config, functions, one_function, proof, rounds
from pipebench.errors import PipebenchError

TOML = """[[benchmark]]
name = "double"
setup = "timed:double"
samples = 3
check = "timed:is_six"

[[benchmark]]
name = "plain"
setup = "timed:plain"
"""
TIMED = """def twice(number, *more):
    return 2 * number
def double():
    return twice, 3
def plain():
    return lambda: 7
def is_six(output):
    return output == 6
def nothing():
    return 5
"""


def written(folder, text):
    (folder / config.CONFIG).write_text(text)
    return folder / config.CONFIG


def test_functions_alone_need_no_loader(tmp_path):
    own = config.load(written(tmp_path, TOML))
    assert own.benchmarks == ["bench/double", "bench/plain"]
    assert own.modules == {"timed"}
    (entry, _) = own.plain()["sources"]["bench"]
    assert entry == {"name": "double", "setup": "timed:double", "samples": 3, "check": "timed:is_six"}


def test_functions_come_after_the_stages_of_a_loader(tmp_path):
    own = config.load(written(tmp_path, 'loader = "mine.data:make_loader"\nworkers = [0]\n' + TOML))
    assert own.benchmarks == [
        "read/own/sample",
        "collate/own/batch",
        "loader/own/workers-0",
        "bench/double",
        "bench/plain",
    ]
    assert own.modules == {"mine", "timed"} and "benchmark" not in own.plain()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("samples = 3\n", "neither a loader nor a \\[\\[benchmark\\]\\]"),
        ('[benchmark]\nname = "x"\n', "two brackets"),
        ('[[benchmark]]\nname = "x"\n', "missing 1 required positional argument: 'setup'"),
        ('[[benchmark]]\nname = "x"\nsetup = "a:b"\nsampels = 3\n', "unexpected keyword argument 'sampels'"),
        ('[[benchmark]]\nname = "a/b"\nsetup = "a:b"\n', "not 'a/b'"),
        ('[[benchmark]]\nname = "x"\nsetup = "no function"\n', "benchmark x: 'no function' is not the name"),
        ('[[benchmark]]\nname = "x"\nsetup = "a:b"\ncheck = "c"\n', "benchmark x: 'c' is not the name"),
        ('[[benchmark]]\nname = "x"\nsetup = "a:b"\nsamples = 0\n', "samples is 0"),
        ('[[benchmark]]\nname = "x"\nsetup = "a:b"\n' * 2, "two benchmarks have the name x"),
    ],
)
def test_an_entry_that_cannot_be_used_is_named(text, said, tmp_path):
    with pytest.raises(PipebenchError, match=said):
        config.load(written(tmp_path, text))


@pytest.fixture
def source(tmp_path, monkeypatch):
    """A function: the source of one entry with these values, over the module `timed`."""
    (tmp_path / "timed.py").write_text(TIMED)
    monkeypatch.syspath_prepend(tmp_path)

    def make(**entry):
        return functions.Source(task, [{"name": "one", "samples": 1, "check": None, **entry}], None)

    return make


def test_a_set_up_gives_a_callable_or_one_with_its_arguments(source):
    assert source(setup="timed:double").call("one")[0]()() == 6
    assert source(setup="timed:plain").call("one")[0]()() == 7


def test_what_a_set_up_must_return_is_said(source):
    with pytest.raises(TypeError, match=r"a setup returns a callable, or a tuple .* not 5"):
        source(setup="timed:nothing").call("one")[0]()


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("def made(*given):\n    yield 1\n", "of the generator function made .* lambda: list"),
        ("async def made(*given):\n    return 1\n", "of the coroutine function made .* asyncio.run"),
        ("async def made(*given):\n    yield 1\n", "of the generator function made"),
        ("class Made:\n    def __call__(self, *given):\n        yield 1\nmade = Made()\n", "function Made"),
    ],
)
@pytest.mark.parametrize("arguments", [(), (5,)])
def test_a_function_of_which_a_call_does_no_work_is_refused(function, said, arguments):
    space = {}
    exec(function, space)
    with pytest.raises(TypeError, match=said):
        one_function.of_commit(lambda: functions._bound((space["made"], *arguments)), None)


@pytest.mark.parametrize("function", [int, max, [].append, Path, standard.partial(int, "7"), standard.cache(len)])
def test_any_other_function_does_its_work(function):
    assert one_function.idle(function) is None


def test_a_check_that_returns_false_fails_and_one_that_returns_nothing_does_not(source):
    check = source(setup="timed:double", check="timed:is_six").call("one")[1]["check"]
    check(6)
    with pytest.raises(ValueError, match="timed:is_six says that the output is wrong"):
        check(5)
    source(setup="timed:double", check="builtins:print").call("one")[1]["check"](6)


@pytest.mark.parametrize(
    ("name", "said"),
    [("absent:f", "no module absent"), ("timed.deep:f", "no module timed.deep"), ("timed:f", "no timed:f")],
)
def test_what_a_commit_lacks_is_unavailable_there(source, name, said):
    with pytest.raises(task.Unavailable) as missing:
        source(setup=name).call("one")[0]()
    assert missing.value.reason == f"this commit has {said}"


def test_a_module_that_lacks_another_is_an_error(source, tmp_path):
    (tmp_path / "lacks_another.py").write_text("import nothing_of_the_kind\n")
    with pytest.raises(ModuleNotFoundError, match="nothing_of_the_kind"):
        source(setup="lacks_another:f").call("one")[0]()


def test_a_set_up_that_imports_what_its_own_package_lacks_has_failed(tmp_path, monkeypatch):
    """A missing library is n/a; a name that the commit removed is a benchmark that broke."""
    (tmp_path / "mine.py").write_text("")
    (tmp_path / "user.py").write_text(
        "def own():\n    from mine import gone\n\ndef library():\n    import nothing_of_the_kind\n"
    )
    for name in ("mine", "user"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    entries = [{"name": name, "setup": f"user:{name}"} for name in ("own", "library")]
    of_commit = functions.Source(task, entries, str(tmp_path))
    with pytest.raises(RuntimeError, match="ImportError: cannot import name 'gone' from 'mine'"):
        one_function.of_commit(of_commit.call("own")[0], str(tmp_path))
    with pytest.raises(ModuleNotFoundError):
        one_function.of_commit(of_commit.call("library")[0], str(tmp_path))


@pytest.mark.parametrize("line", ["from halfway.gone import name", "from . import gone"])
def test_a_package_that_cannot_import_its_own_parts_has_failed_too(line, source, tmp_path):
    """Python drops such a package from the imported modules. The error is placed in the commit's own code."""
    (tmp_path / "halfway").mkdir()
    (tmp_path / "halfway" / "__init__.py").write_text(line + "\n")
    with pytest.raises(RuntimeError, match=r"gone.*; if building makes it, give --build COMMAND") as found:
        one_function.of_commit(source(setup="halfway:work").call("one")[0], str(tmp_path))
    assert str(found.traceback[-1].path) == str(tmp_path / "halfway" / "__init__.py")


@pytest.fixture
def repo(tmp_path):
    """Two commits; the second has one more function, and makes the output of another wrong."""
    folder = tmp_path / "repo"
    folder.mkdir()
    (folder / "timed.py").write_text(TIMED)
    written(folder, TOML)
    repos.git(folder, "init", "--quiet")
    repos.commit(folder, "one")
    (folder / "timed.py").write_text(TIMED.replace("2 * number", "3 * number") + "def more():\n    return print, ''\n")
    written(folder, TOML + '\n[[benchmark]]\nname = "more"\nsetup = "timed:more"\n')
    repos.commit(folder, "two")
    return folder


def test_two_commits_are_compared_without_a_loader_and_without_torch(repo):
    done = repos.pipebench("ab", "HEAD~1", "HEAD", "--rounds", "2", "--format", "json", cwd=repo)
    rows = {one["benchmark"]: one for one in json.loads(done.stdout)["comparison"]["changes"]}
    assert done.returncode == 1, done.stderr  # one failed
    assert len(rows["bench/plain"]["rounds"]) == 2 and rows["bench/plain"]["failed"] is None
    assert "timed:is_six says that the output is wrong" in rows["bench/double"]["failed"]
    assert "this commit has no timed:more" in rows["bench/more"]["skipped"]
    assert rows["bench/more"]["skipped"].startswith("HEAD~1 (")


def test_the_modules_that_entries_name_are_those_of_the_project(repo):
    side = rounds.Side("one", repo, roots=(repo,))
    project = ab._project(repo, [side, side], config.load(repo / config.CONFIG))
    copy = {"timed": "/usr/lib/python3/site-packages/timed.py"}
    assert project.named == {"timed"} and not project.measures_pipebench
    with pytest.raises(PipebenchError, match="one did not run its own code: it imported timed from /usr"):
        proof.refuse_foreign("one", copy, repo, frozenset(), project)


def test_a_plain_folder_that_another_checkout_completes_is_the_projects(repo, tmp_path):
    folder = tmp_path / "side"
    (folder / "company" / "data").mkdir(parents=True)
    (folder / "company" / "data" / "__init__.py").write_text("")
    (folder / "photos").mkdir()
    sides = [rounds.Side(name, folder, roots=(folder,)) for name in ("one", "two")]
    project = ab._project(repo, sides, config.load(repo / config.CONFIG))
    assert project.names == {"timed", "company"}
    with pytest.raises(PipebenchError, match=r"one did not run its own code: it imported company.extra from /other"):
        proof.refuse_foreign("one", {"company.extra": "/other/company/extra.py"}, folder, frozenset(), project)
    installed = {"company.extra": "/usr/lib/python3/site-packages/company/extra.py"}
    proof.refuse_foreign("one", installed, folder, frozenset(), project)  # a part of its own, by its maker


def test_stage_and_variant_choose_functions_too(repo):
    done = repos.pipebench("ab", "HEAD", "HEAD", "--variant", "nosuch", cwd=repo)
    assert done.returncode == 2 and "choose from bench/double, bench/plain, bench/more" in done.stderr


def test_a_reason_that_both_sides_have_is_said_once():
    row = SimpleNamespace(skipped=None)
    rounds._take(row, [{"skip": "no library"}, {"skip": "no library"}], ["main", "mine"], 0.0)
    assert row.skipped == "no library"
    rounds._take(row, [{"skip": "no library"}, {"skip": "no function"}], ["main", "mine"], 0.0)
    assert row.skipped == "main: no library; mine: no function"


CACHES = """import functools, random
def work(values):
    total = 0
    for one in values:
        total = (31 * total + one) % 1_000_003
    return total
MORE
def listed():
    return work, list(range(2000))
def closed():
    values = list(range(2000))
    return lambda: work(values)
def bare():
    return lambda: work(range(2000))
"""
MEMO = """memo = {}
def by_content(values):
    key = tuple(values)
    if key not in memo:
        memo[key] = plain(values)
    return memo[key]
plain, work = work, by_content
"""
RANDOM = "honest = work\ndef work(values):\n    return honest(values) + random.SystemRandom().randrange(1000)\n"


@pytest.fixture(scope="module")
def cached(tmp_path_factory):
    """Three commits: honest work, answers from a cache, and outputs that are new each time."""
    folder = tmp_path_factory.mktemp("cached")
    names = ("listed", "closed", "bare")
    written(folder, "\n".join(f'[[benchmark]]\nname = "{name}"\nsetup = "timed:{name}"\n' for name in names))
    repos.git(folder, "init", "--quiet")
    for more in ("", MEMO, RANDOM):
        (folder / "timed.py").write_text(CACHES.replace("MORE", more))
        repos.commit(folder, "one more")
    return folder


def test_an_answer_from_a_cache_is_a_changed_output_and_is_never_called_faster(cached):
    options = ["--rounds", "1", "--fail-on-change", "--format", "json"]
    done = repos.pipebench("ab", "HEAD~2", "HEAD~1", *options, cwd=cached)
    rows = {one["benchmark"]: one for one in json.loads(done.stdout)["comparison"]["changes"]}
    assert done.returncode == 3 and "changed output: bench/listed, bench/closed\n" in done.stderr
    kinds = [rows[f"bench/{name}"]["outputs"].get("difference") for name in ("listed", "closed", "bare")]
    assert [one and one["kind"] for one in kinds] == ["cached", "cached", None]
    assert rows["bench/bare"]["outputs"]["unseen"] == "none of its inputs can be exchanged for another"


def test_an_output_that_only_the_head_does_not_return_twice_fails_the_gate(cached):
    options = ["--variant", "listed", "--rounds", "1", "--fail-on-change"]
    done = repos.pipebench("ab", "HEAD~2", "HEAD", *options, cwd=cached)
    assert done.returncode == 3, done.stderr
    assert "head does not return the same twice" in " ".join(done.stdout.split())
