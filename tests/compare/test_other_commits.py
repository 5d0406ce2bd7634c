"""What runs inside other commits, on both sides of the move of pipebench's modules into packages."""

import json
import os
import subprocess
import sys
import types

import pytest
import repos
from asv_rows import ROOT, collected

from pipebench.compare import other_commits, rounds

# collate goes into shared memory, and transforms get 16 crops a batch, not 32 (`meaning` in benchmarks/)
MEASURE_SOMETHING_ELSE = {"collate", "transform"}
OTHER_VARIANTS = {"transform.Mask.time_sample"}  # its variants of before are those of `transform.Dilate` now
NO_DEVICE = {"transfer.Batch.time_sample"}  # n/a without a CUDA device, in every commit
BENCHMARKS = ("--variant", "read/image/open", "--variant", "decode/rgb/pillow", "--variant", "collate/float32/default")


def test_a_module_is_found_under_todays_name():
    assert other_commits.module("lab.timing").__name__ == "pipebench.lab.timing"
    assert other_commits.module("stage").__name__ == "pipebench.stage"


def test_every_listed_name_is_one_of_this_commit():
    assert [name for name in other_commits.BEFORE if other_commits.module(name).__name__ != f"pipebench.{name}"] == []


@pytest.fixture
def imports(monkeypatch):
    """Imports of a pretended commit: a module for each name given, or the error that importing it raises."""

    def pretend(**found):
        def load(name):
            answer = found.get(name.replace(".", "_"))
            if answer is None:
                package = name.rpartition(".")[0] if name.count(".") > 1 else name
                raise ModuleNotFoundError(f"No module named {package!r}", name=package)
            if isinstance(answer, Exception):
                raise answer
            return answer

        monkeypatch.setattr(other_commits, "importlib", types.SimpleNamespace(import_module=load))

    return pretend


def test_a_commit_before_the_move_has_it_under_the_old_name(imports):
    imports(pipebench_own="the old module")
    assert other_commits.module("compare.users_loader") == "the old module"


def test_what_a_commit_has_under_neither_name_is_missing(imports):
    imports()
    for name in ("compare.users_loader", "studies.sync_points"):
        with pytest.raises(ModuleNotFoundError):
            other_commits.module(name)


@pytest.mark.parametrize("lacking", ["torchvision", "pipebench.units", "pipebench"])
def test_a_module_that_cannot_import_what_it_needs_is_not_taken_for_one_that_moved(imports, lacking):
    imports(
        pipebench_reference_pipeline=ModuleNotFoundError(f"No module named {lacking!r}", name=lacking),
        pipebench_feed="the old module",
    )
    with pytest.raises(ModuleNotFoundError, match=lacking):
        other_commits.module("reference.pipeline")


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    """A clone of this repository at the last commit with the modules side by side."""
    moved = git("log", "-1", "--format=%H", "--no-renames", "--diff-filter=D", "--", "pipebench/feed.py")
    if not moved:
        pytest.skip("the history of this clone does not reach back to the move: git fetch --unshallow")
    folder = tmp_path_factory.mktemp("commits") / "old"
    git("clone", "--quiet", "--shared", "--no-checkout", str(ROOT), str(folder))
    repos.git(folder, "checkout", "--quiet", "--detach", f"{moved}^")
    assert (folder / "pipebench" / "stage.py").exists() and (folder / "pipebench" / "feed.py").exists()
    return folder


def git(*arguments):
    try:
        return repos.git(ROOT, *arguments)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"this is not a git repository with its history: {error}")


def ab(driver, base, head):
    """The rounds of each benchmark that the checkout `driver` takes of `base` and `head`; `.` is its working tree."""
    command = [sys.executable, "-m", "pipebench", "ab", base, head, *BENCHMARKS]
    command += ["--rounds", "3", "--budget", "120", "--format", "json"]
    for which in ("base", "head"):
        command += [f"--{which}-python", sys.executable]
    environment = {**os.environ, "PYTHONPATH": str(driver)}
    done = subprocess.run(command, cwd=driver, env=environment, capture_output=True, text=True, timeout=600)
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    if driver == ROOT:
        return {one["benchmark"]: one["rounds"] for one in found["comparison"]["changes"]}
    return {one["benchmark"]: one["rounds_s"] for one in found["changes"]}  # before there was one root for all commands


def measured(rounds_of):
    """The benchmarks with rounds in which both sides were read."""
    return {
        benchmark
        for benchmark, found in rounds_of.items()
        if found and all(base > 0 and head > 0 for pairs in found for base, head in pairs)
    }


ALL = {"read/image/open", "decode/rgb/pillow", "collate/float32/default"}


def sha(folder):
    return repos.git(folder, "rev-parse", "HEAD")


@pytest.mark.long
@pytest.mark.parametrize("reverse", [False, True], ids=["from old to new", "from new to old"])
def test_this_tree_compares_across_the_move(old, reverse):
    sides = ["." if reverse else sha(old), sha(old) if reverse else "."]
    assert measured(ab(ROOT, *sides)) == ALL


@pytest.mark.long
def test_the_old_tree_compares_with_commits_after_the_move(old):
    assert measured(ab(old, ".", sha(ROOT))) == ALL


@pytest.mark.long
def test_a_side_runs_the_code_of_its_commit(old):
    server = rounds.Server(rounds.Side("old", old), None)
    try:
        server.send("start")
        server.receive()
        server.send("modules")
        assert server.receive()["pipebench"] == str(old / "pipebench" / "__init__.py")
    finally:
        server.close()


@pytest.fixture(scope="module")
def suites(old):
    """The first parameter set of every benchmark, run: the suite of one tree over the package of another.

    Of the old suite over its own package, only what asv knows of it: that it ran is no question.
    """
    trees = {"old": old, "new": ROOT}
    how = {("old", "old"): "listed", ("old", "new"): "first", ("new", "old"): "first", ("new", "new"): "first"}
    return {pair: collected(how[pair], trees[pair[0]], trees[pair[1]]) for pair in how}


def names(rows, outcome):
    return {row["name"] for row in rows if str(row["outcome"]).startswith(outcome)}


@pytest.mark.long
@pytest.mark.parametrize("package", ["old", "new"])
def test_the_suite_of_this_tree_runs_on_both_sides_of_the_move(suites, old, package):
    rows = suites["new", package]
    folder = {"old": old, "new": ROOT}[package]
    assert {row["pipebench"] for row in rows if row["pipebench"]} == {str(folder / "pipebench" / "__init__.py")}
    assert len(rows) > 20
    assert [row for row in rows if str(row["outcome"]).startswith("failed")] == []
    known = {row["name"] for row in suites["old", "old"]}  # a benchmark that is newer may be n/a in the old commit
    assert names(rows, "n/a") & known <= NO_DEVICE | OTHER_VARIANTS


@pytest.mark.long
def test_the_suite_from_before_the_move_runs_on_this_tree(suites):
    """Its stages run. Loader, training and sync points are n/a: their modules have moved.

    `overhead` is the one that fails: it reads the module `pipebench.measure`, which is a public function now.
    """
    rows = suites["old", "new"]
    absent = names(rows, "n/a") - OTHER_VARIANTS
    assert {name.partition(".")[0] for name in absent} <= {"loader", "training", "syncs", "transfer"}
    failed = [row for row in rows if str(row["outcome"]).startswith("failed")]
    assert {row["name"].partition(".")[0] for row in failed} <= {"overhead"}
    assert all("'function' object has no attribute 'Plan'" in row["outcome"] for row in failed)


@pytest.mark.long
def test_histories_go_on(suites):
    """What asv keeps a history under is as it was before the move; new benchmarks and parameters may come.

    A benchmark that measures something else since then has another version, so its history begins anew.
    """
    after = {row["name"]: row for row in suites["new", "new"]}
    for row in suites["old", "old"]:
        now = after[row["name"]]
        unit = {"s": "seconds"}.get(row["unit"], row["unit"])  # the word that asv knows for the same unit
        assert (now["param_names"], now["unit"]) == (row["param_names"], unit), row["name"]
        gone = [set(was) - set(now) for was, now in zip(row["all_params"], now["all_params"], strict=True)]
        if row["name"].partition(".")[0] in MEASURE_SOMETHING_ELSE:
            assert now["version"] != row["version"], row["name"]
        else:
            assert now["version"] == row["version"] and not any(gone), row["name"]
