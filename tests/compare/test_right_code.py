"""Each side of a comparison runs the code of its own commit, or the comparison is refused."""

import os
import shlex
import shutil
import sys
import venv
from pathlib import Path

import pytest
import repos

from pipebench.compare import checkouts, proof, rounds, server
from pipebench.compare.import_roots import import_roots, must_be_built, names_in
from pipebench.errors import PipebenchError

PACKAGE = "def make_loader():\n    from mine import other\n    return other.LIST\n"
OWN = {"loader": "mine:make_loader"}


def project(folder, where, configuration=None):
    """A project whose package `mine` lies in `where`; `configuration` is the name and the text of one more file."""
    package = folder / where / "mine"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from mine import other\n\n\n" + PACKAGE)
    (package / "other.py").write_text("LIST = []\n")
    if configuration:
        (folder / configuration[0]).write_text(configuration[1])
    return folder


NATIVE = """[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "mine"
version = "1"

[tool.setuptools]
packages = ["mine"]
ext-modules = [{name = "fast", sources = ["fast.c"]}]
"""
FAST = """#include <Python.h>
int size(void) { return 1; }
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "fast", NULL, -1, NULL};
PyMODINIT_FUNC PyInit_fast(void) { return PyModule_Create(&module); }
"""
DECLARED = {
    "setuptools, find": ("pyproject.toml", '[tool.setuptools.packages.find]\nwhere = ["lib"]\n'),
    "setuptools, folder of all": ("pyproject.toml", '[tool.setuptools]\npackage-dir = {"" = "lib"}\n'),
    "setuptools, folder of one": ("pyproject.toml", '[tool.setuptools]\npackage-dir = {mine = "lib/mine"}\n'),
    "setup.cfg": ("setup.cfg", "[options]\npackage_dir =\n    =lib\n"),
    "setup.cfg, find": ("setup.cfg", "[options.packages.find]\nwhere = lib\n"),
    "setup.py": ("setup.py", "import setuptools\nsetuptools.setup(package_dir={'': 'lib'})\n"),
    "hatch": ("pyproject.toml", '[tool.hatch.build.targets.wheel]\npackages = ["lib/mine"]\n'),
    "hatch, sources": ("pyproject.toml", '[tool.hatch.build.targets.wheel]\nsources = ["lib"]\n'),
    "poetry": ("pyproject.toml", '[tool.poetry]\npackages = [{include = "mine", from = "lib"}]\n'),
    "pdm": ("pyproject.toml", '[tool.pdm.build]\npackage-dir = "lib"\n'),
    "maturin": ("pyproject.toml", '[tool.maturin]\npython-source = "lib"\n'),
    "scikit-build": ("pyproject.toml", '[tool.scikit-build.wheel]\npackages = ["lib/mine"]\n'),
    "uv": ("pyproject.toml", '[tool.uv.build-backend]\nmodule-root = "lib"\n'),
}


@pytest.mark.parametrize("configuration", DECLARED.values(), ids=DECLARED)
def test_the_root_that_a_build_configuration_declares_comes_first(configuration, tmp_path):
    assert import_roots(project(tmp_path, "lib", configuration)) == (tmp_path / "lib", tmp_path)


TO_BUILD = {
    "maturin": ("pyproject.toml", '[build-system]\nbuild-backend = "maturin"\n'),
    "scikit-build": ("pyproject.toml", '[build-system]\nbuild-backend = "scikit_build_core.build"\n'),
    "setuptools": ("pyproject.toml", '[[tool.setuptools.ext-modules]]\nname = "fast"\n'),
    "setup.py": ("setup.py", "setuptools.setup(ext_modules=[setuptools.Extension('fast', ['fast.c'])])\n"),
    "version": ("pyproject.toml", '[tool.setuptools_scm]\nversion_file = "mine/_version.py"\n'),
    "version, hatch": ("pyproject.toml", '[tool.hatch.build.hooks.vcs]\nversion-file = "mine/_version.py"\n'),
    "points": ("pyproject.toml", '[project.entry-points."mine.decoders"]\nbest = "mine:best"\n'),
    "points, poetry": ("pyproject.toml", '[tool.poetry.plugins."mine.decoders"]\nbest = "mine:best"\n'),
    "points, setup.cfg": ("setup.cfg", "[options.entry_points]\nmine.decoders =\n    best = mine:best\n"),
    "points, setup.py": ("setup.py", "setuptools.setup(entry_points={'mine.decoders': ['best = mine:best']})\n"),
}
PROGRAMS = {
    "pyproject.toml": '[project.scripts]\nmine = "mine:main"\n[project.entry-points.pytest11]\nmine = "mine"\n',
    "setup.cfg": "[options.entry_points]\nconsole_scripts =\n    mine = mine:main\n",
    "setup.py": "setuptools.setup(entry_points={'console_scripts': ['mine = mine:main']})\n",
}


@pytest.mark.parametrize("configuration", TO_BUILD.values(), ids=TO_BUILD)
def test_what_only_building_makes_is_seen(configuration, tmp_path):
    assert must_be_built(project(tmp_path, ".", configuration))


@pytest.mark.parametrize("configuration", [DECLARED["setup.py"], DECLARED["hatch"], *PROGRAMS.items()])
def test_a_project_of_python_files_and_programs_is_not_built(configuration, tmp_path):
    assert not must_be_built(project(tmp_path / "one", ".", configuration))


@pytest.mark.parametrize(("has_pip", "first"), [(True, [sys.executable, "-m", "pip"]), (False, ["uv", "pip"])])
def test_uv_builds_where_pip_is_missing(has_pip, first, monkeypatch, tmp_path):
    ran = []
    monkeypatch.setattr(checkouts, "_has", lambda python, needs: has_pip)
    monkeypatch.setattr(checkouts.shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(checkouts, "_build", lambda what, command, python, partial: ran.append(command))
    checkouts._install("one", sys.executable, tmp_path)
    assert ran[0][: len(first)] == first and ran[0][-1] == "." and checkouts.INSTALLED in ran[0]


@pytest.mark.long  # pip builds it twice
def test_a_compiled_module_is_that_of_each_commit(tmp_path):
    folder = project(tmp_path / "tree", ".", ("pyproject.toml", NATIVE))
    (folder / "fast.c").write_text(FAST)
    (folder / "mine" / "__init__.py").write_text("import fast\n" + PACKAGE)
    repos.git(folder, "init", "--quiet")
    repos.commit(folder, "one")
    (folder / "fast.c").write_text(FAST.replace("return 1", "return 2"))
    repos.commit(folder, "two")
    known = proof.Project(folder, frozenset({"mine", "fast"}))
    contents = set()
    for name in ("HEAD~1", "HEAD"):
        commit = checkouts.checked_out(folder, name)
        modules = modules_of(rounds.Side(name, commit.folder, roots=import_roots(commit.folder)))
        proof.refuse_foreign(name, modules, commit.folder, known.names, known)
        assert modules["fast"].startswith(str(commit.folder))
        contents.add(Path(modules["fast"]).read_bytes())
    assert len(contents) == 2


def test_without_a_declaration_it_is_src_or_the_folder_itself(tmp_path):
    src, flat = project(tmp_path / "one", "src"), project(tmp_path / "two", ".")
    assert import_roots(src) == (src / "src", src)
    assert import_roots(flat) == (flat,)


def test_in_src_a_package_needs_no_init(tmp_path):
    (tmp_path / "src" / "mine" / "deep").mkdir(parents=True)
    (tmp_path / "src" / "mine" / "deep" / "one.py").touch()
    assert import_roots(tmp_path) == (tmp_path / "src", tmp_path)


def test_what_the_user_names_counts_alone(tmp_path):
    folder = project(tmp_path, "parts/here", DECLARED["hatch"])
    assert import_roots(folder, ["parts/here"]) == (folder / "parts" / "here", folder)


def test_what_was_built_comes_before_the_modules_that_were_not_packaged(tmp_path):
    folder = project(tmp_path, "src")
    built = folder / checkouts.INSTALLED
    built.mkdir()
    assert import_roots(folder) == (built, folder / "src", folder)
    assert import_roots(folder, ["src/mine"]) == (built, folder / "src" / "mine", folder)


@pytest.mark.parametrize(
    "text",
    [
        "[tool.setuptools]\npackage-dir = 3\n",
        "[tool]\nhatch = 1\npoetry = 2\n",
        "not toml",
        '[tool.maturin]\npython-source = "../elsewhere"\n',
    ],
)
def test_a_strange_configuration_leaves_the_folder_itself(text, tmp_path):
    assert import_roots(project(tmp_path, ".", ("pyproject.toml", text))) == (tmp_path,)


def test_names_are_packages_files_and_compiled_modules(tmp_path):
    project(tmp_path, ".", ("setup.py", ""))
    (tmp_path / "single.py").touch()
    (tmp_path / "fast.cpython-311-x86_64-linux-gnu.so").touch()
    (tmp_path / "images").mkdir()
    assert names_in([tmp_path, tmp_path / "absent"]) == {"mine", "single", "fast"}


@pytest.mark.parametrize(
    ("module", "file", "found"),
    [
        ("mine.other", "{side}/src/mine/other.py", False),
        ("mine", "{tree}/src/mine/__init__.py", True),
        ("mine", "{tree}/.venv/lib/python3.11/site-packages/mine/__init__.py", True),
        ("torch", "{tree}/.venv/lib/python3.11/site-packages/torch/__init__.py", False),
        ("helpers", "{tree}/helpers.py", True),
        ("helpers", "{tree}/.asv/env/0123/project/helpers.py", True),
        ("json", "/usr/lib/python3.11/json/__init__.py", False),
        ("pipebench_round", "{tree}/pipebench/compare/round_process.py", False),
        ("pipebench.task", "{tree}/pipebench/task.py", False),
    ],
)
def test_modules_of_the_project_from_elsewhere_are_found(module, file, found, tmp_path):
    side, tree = tmp_path / "side", tmp_path / "tree"
    modules = {module: file.format(side=side, tree=tree)}
    assert bool(proof.foreign(modules, side, frozenset({"mine"}), proof.Project(tree, frozenset({"mine"})))) == found


def test_where_pipebench_itself_is_compared_its_modules_are_the_projects(tmp_path):
    modules = {"pipebench.task": f"{tmp_path}/tree/pipebench/task.py"}
    names = frozenset({"pipebench"})
    known = proof.Project(tmp_path / "tree", names, measures_pipebench=True)
    assert proof.foreign(modules, tmp_path / "side", names, known)


def test_a_commit_may_have_installed_what_another_has_in_its_tree(tmp_path):
    file = f"{tmp_path}/environment/lib/python3.11/site-packages/vendored/__init__.py"
    known = proof.Project(tmp_path / "tree", frozenset({"mine", "vendored"}))
    assert proof.foreign({"vendored": file}, tmp_path / "side", frozenset({"mine"}), known) == []
    assert proof.foreign({"vendored": file}, tmp_path / "side", frozenset({"mine", "vendored"}), known)
    elsewhere = {"vendored": f"{tmp_path}/other/vendored/__init__.py"}
    assert proof.foreign(elsewhere, tmp_path / "side", frozenset({"mine"}), known)


@pytest.fixture
def installed(tmp_path):
    """A function: the interpreter of an environment in which a folder is installed so that it can be edited."""

    def make(folder):
        home = tmp_path / "environment"
        venv.create(home, system_site_packages=False, with_pip=False)
        (packages,) = (home / "lib").glob("python*/site-packages")
        here = [path for path in sys.path if Path(path).name == "site-packages"]
        (packages / "installed.pth").write_text("\n".join([str(folder), *here]) + "\n")
        return str(home / "bin" / "python")

    return make


def modules_of(side, own=OWN):
    server = rounds.Server(side, own)
    try:
        server.send("start")
        server.start()
        server.send("modules")
        return server.receive()
    finally:
        server.close()


@pytest.mark.parametrize(("where", "right"), [("src", True), ("unknown/place", False)])
def test_a_checkout_comes_before_an_installation_that_can_be_edited(where, right, installed, tmp_path):
    folder = project(tmp_path / "tree", where)
    repos.git(folder, "init", "--quiet")
    repos.commit(folder, "one")
    commit = checkouts.checked_out(folder, "HEAD")
    side = rounds.Side("HEAD", commit.folder, installed(folder / where), roots=import_roots(commit.folder))
    modules = modules_of(side)
    expected = commit.folder if right else folder
    assert modules["mine"] == str(expected / where / "mine" / "__init__.py")
    known = proof.Project(folder, frozenset({"mine"}))
    if right:
        proof.refuse_foreign("HEAD", modules, commit.folder, known.names, known)
        return
    with pytest.raises(PipebenchError, match=f"HEAD did not run its own code: it imported mine from {folder}") as found:
        proof.refuse_foreign("HEAD", modules, commit.folder, known.names, known)
    assert "mine.other" not in found.value.problem and "roots =" in (found.value.remedy or "")


def test_the_standard_library_is_nobodys_even_where_python_lies_in_the_project(tmp_path):
    modules = modules_of(rounds.Side("one", project(tmp_path, "."), roots=(tmp_path,)))
    assert not {"os", "json", "_json"} & set(modules) and "mine" in modules
    known = proof.Project(Path(sys.base_prefix), frozenset({"mine"}))
    assert proof.foreign(modules, tmp_path, known.names, known) == []


def test_each_interpreter_has_a_checkout_of_its_own(repo):
    assert checkouts.checked_out(repo, "HEAD", None, "/a/python").folder != checkouts.checked_out(repo, "HEAD").folder


def test_a_module_that_a_commit_lacks_does_not_come_from_the_current_folder(monkeypatch, tmp_path):
    folder = project(tmp_path / "tree", ".")
    lacks = tmp_path / "lacks"
    shutil.copytree(folder, lacks)
    (lacks / "mine" / "__init__.py").write_text("import beside\n")
    (folder / "beside.py").touch()
    monkeypatch.chdir(folder)
    with pytest.raises(PipebenchError, match=r"lacks does not start.*No module named 'beside'"):
        modules_of(rounds.Side("lacks", lacks, roots=import_roots(lacks)))


def test_a_program_that_a_benchmark_starts_runs_the_code_of_its_side(monkeypatch, tmp_path):
    """Not that of the current folder, and not that of an installed copy."""
    tree, side = project(tmp_path / "tree", "."), project(tmp_path / "side", ".")
    program = "[sys.executable, '-c', 'import mine; print(mine)']"
    (side / "asks.py").write_text(f"import subprocess, sys\nraise OSError(subprocess.check_output({program}))\n")
    monkeypatch.chdir(tree)
    with pytest.raises(PipebenchError, match=r"<module \W+mine\W+ from \W+mine/__init__"):
        modules_of(rounds.Side("one", side, roots=(side,)), {"loader": "asks:make_loader"})


def test_the_coverage_of_a_test_run_does_not_trace_the_sides_unless_it_is_asked_for(monkeypatch, tmp_path):
    """By these variables it starts with every Python: here they would start it in all rounds."""
    side = project(tmp_path / "side", ".")
    (side / "asks.py").write_text("import os\nraise OSError([one for one in os.environ if one.startswith('COV')])\n")
    for name in server.TRACING:
        monkeypatch.setenv(name, "")
    own = {"loader": "asks:make_loader"}
    with pytest.raises(PipebenchError, match=r"OSError: \[\]"):
        modules_of(rounds.Side("one", side, roots=(side,)), own)
    with pytest.raises(PipebenchError, match=r"OSError: \['COVERAGE_PROCESS_START'\]"):
        modules_of(rounds.Side("one", side, environment=(("COVERAGE_PROCESS_START", ""),), roots=(side,)), own)


def test_a_plain_folder_of_a_side_is_not_hidden_by_a_package_of_ours(tmp_path):
    """pipebench runs from its source tree here, which has a package of this name."""
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "loads.py").write_text("def make_loader(): return []\n")
    modules = modules_of(rounds.Side("one", tmp_path, roots=(tmp_path,)), {"loader": "benchmarks.loads:make_loader"})
    assert modules["benchmarks.loads"] == str(tmp_path / "benchmarks" / "loads.py")


@pytest.fixture
def repo(tmp_path):
    folder = project(tmp_path / "repo", ".")
    repos.git(folder, "init", "--quiet")
    repos.commit(folder, "one")
    return folder


@pytest.mark.parametrize("spoil", ["edited", "missing", "nothing there"])
def test_a_cached_checkout_that_was_changed_is_made_anew(repo, spoil):
    first = checkouts.checked_out(repo, "HEAD")
    file = first.folder / "mine" / "other.py"
    if spoil == "edited":
        file.write_text("LIST = [1]\n")
    elif spoil == "missing":
        file.unlink()
    else:
        shutil.rmtree(first.folder)
    again = checkouts.checked_out(repo, "HEAD")
    assert again == first and file.read_text() == "LIST = []\n"


def test_a_checkout_is_used_again_with_what_its_build_wrote(repo):
    build = "python -c \"open('mine/other.py', 'a').write('BUILT = 1'); open('made', 'w')\""
    folder = checkouts.checked_out(repo, "HEAD", build, sys.executable).folder
    before = (folder / "made").stat().st_ino
    assert checkouts.checked_out(repo, "HEAD", build, sys.executable).folder == folder
    assert (folder / "made").stat().st_ino == before and "BUILT" in (folder / "mine" / "other.py").read_text()


def test_what_was_installed_and_is_gone_is_installed_again(repo):
    build = f"mkdir -p {checkouts.INSTALLED}/fast && touch {checkouts.INSTALLED}/fast/made.so"
    command = f"sh -c {shlex.quote(build)}"
    made = checkouts.checked_out(repo, "HEAD", command, sys.executable).folder / checkouts.INSTALLED / "fast/made.so"
    made.unlink()
    checkouts.checked_out(repo, "HEAD", command, sys.executable)
    assert made.exists()


def test_the_users_repository_does_not_change_where_git_has_started_us(repo, monkeypatch):
    """As in a hook of a linked worktree, or an alias."""
    (repo / "more.py").write_text("")
    repos.commit(repo, "two")
    branch = repos.git(repo, "symbolic-ref", "HEAD")
    monkeypatch.setenv("GIT_DIR", os.fspath(repo / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", os.fspath(repo / ".git/index"))
    folder = checkouts.checked_out(repo, "HEAD~1").folder
    monkeypatch.undo()
    assert repos.git(repo, "symbolic-ref", "HEAD") == branch and not repos.git(repo, "status", "--porcelain")
    assert not (folder / "more.py").exists()
