"""Where the files of a side come from: what it opens is noticed, and another commit's tracked file is refused."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import repos

from pipebench.compare import proof, provenance, rounds
from pipebench.errors import PipebenchError

OPENS = {
    "open": "open('one').close()",
    "pathlib": "__import__('pathlib').Path('one').read_text()",
    "os.open": "os.close(os.open('one', os.O_RDONLY))",
    "a fork": "pid = os.fork()\nif not pid:\n    open('one').close()\n    os._exit(0)\nos.waitpid(pid, 0)",
    "to change it": "open('one', 'r+b').close()",
    "another folder": "os.mkdir('deep'); os.chdir('deep'); open('../one').close()",
}
UNSEEN = {
    "to write": "open('one', 'w').close()",
    "to append": "open('one', 'a').close()",
    "a descriptor": "open(os.open(os.devnull, os.O_RDONLY)).close()",
    "missing": "try:\n    open('none')\nexcept OSError:\n    pass",
    "elsewhere": "open('/dev/null').close()",
}


@pytest.mark.parametrize("code", OPENS.values(), ids=OPENS)
def test_whatever_python_opens_to_read_is_noticed(code, tmp_path):
    assert noticed(code, tmp_path) == ["one"]


@pytest.mark.parametrize("code", UNSEEN.values(), ids=UNSEEN)
def test_what_is_no_file_of_the_folder_that_is_read_is_not(code, tmp_path):
    assert noticed(code, tmp_path) == []


def noticed(code, folder):
    """What a process with the audit hook has noticed below `folder`."""
    (folder / "one").touch()
    program = (
        f"import os, json, runpy\nspace = runpy.run_path({provenance.__file__!r})\n"
        f"files = space['OpenedFiles']()\nfiles.notice_all()\n{code}\nprint(json.dumps(files.inside({str(folder)!r})))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_a_server_has_no_hook_and_nothing_is_left_of_its_noticing(tmp_path):
    opens = open
    (tmp_path / "one").touch()
    files = provenance.OpenedFiles()
    with files.noticed():
        open(tmp_path / "one").close()
        Path(tmp_path / "one").read_bytes()
    (tmp_path / "two").touch()
    open(tmp_path / "two").close()
    assert files.inside(str(tmp_path)) == ["one"] and open is opens


@pytest.fixture
def tree(tmp_path):
    """A repository with a tracked and an untracked file, and the folder of an earlier commit of it."""
    folder = tmp_path / "tree"
    (folder / "conf").mkdir(parents=True)
    (folder / "conf" / "c.json").write_text("1")
    (folder / "same.txt").write_text("same")
    repos.git(folder.parent, "init", "--quiet", "tree")
    repos.commit(folder, "one")
    repos.git(tmp_path, "clone", "--quiet", "tree", "side")
    (folder / "conf" / "c.json").write_text("2")
    (folder / "new.json").write_text("3")
    repos.git(folder, "add", "--all")
    (folder / "data.bin").write_text("data")
    return folder


@pytest.mark.parametrize(
    ("opened", "refused"),
    [
        (["same.txt", "data.bin"], ""),
        (["conf/c.json", "same.txt"], "it opened conf/c.json of the working tree"),
        (["new.json"], "it opened new.json of"),  # the commit does not have it
        ([], ""),
    ],
)
def test_a_tracked_file_that_the_commit_has_otherwise_is_refused(opened, refused, tree, tmp_path):
    known = proof.Project(tree, frozenset())
    if not refused:
        proof.refuse_other_files("base", opened, tmp_path / "side", known)
        return
    with pytest.raises(PipebenchError, match=f"base did not read its own files: {refused}") as found:
        proof.refuse_other_files("base", opened, tmp_path / "side", known)
    assert "__file__" in (found.value.remedy or "")


CODE = """import json
from pathlib import Path
SETTINGS = json.load(open('imported.json'))
def made():
    read = json.load(open('called.json'))
    return lambda: read
"""


@pytest.mark.parametrize("changed", ["imported.json", "called.json"])
def test_a_commit_that_changes_only_such_a_file_is_not_compared_in_silence(changed, tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "timed.py").write_text(CODE)
    (tree / "pipebench.toml").write_text('[[benchmark]]\nname = "made"\nsetup = "timed:made"\n')
    for name in ("imported.json", "called.json"):
        (tree / name).write_text("1")
    repos.git(tree, "init", "--quiet")
    repos.commit(tree, "one")
    (tree / changed).write_text("2")
    repos.commit(tree, "two")
    done = repos.pipebench("ab", "HEAD~1", "HEAD", "--rounds", "1", cwd=tree)
    assert done.returncode == 1 and f"did not read its own files: it opened {changed}" in " ".join(done.stderr.split())
    assert repos.pipebench("ab", "HEAD", "HEAD", "--rounds", "1", cwd=tree).returncode == 0


HUGGING_FACE = {"datasets.arrow_dataset": "/usr/lib/python3/site-packages/datasets/arrow_dataset.py"}


@pytest.mark.parametrize(
    ("modules", "base", "head", "shared"),
    [
        (HUGGING_FACE, {}, {}, True),
        (HUGGING_FACE, {"HF_DATASETS_CACHE": "/a"}, {"HF_DATASETS_CACHE": "/b"}, False),
        (HUGGING_FACE, {"HF_HOME": "/a"}, {}, False),
        ({"datasets": "/tree/datasets/__init__.py"}, {}, {}, False),
    ],
)
def test_data_that_one_side_may_have_prepared_for_the_other_is_said(modules, base, head, shared):
    assert proof.share_prepared_data([modules] * 2, [base, head]) == shared


def test_a_round_is_not_timed_with_the_hook(monkeypatch):
    """Only the process that sizes a benchmark is asked to notice all files."""
    asked = []
    monkeypatch.setattr(rounds, "both", lambda servers, method, *given: asked.append(method) or [None] * 2)
    monkeypatch.setattr(rounds, "readings", lambda row, servers, now: [((1.0, None), (1.0, None))])
    sides = [type("Side", (), {"taken_again": 0, "leave": lambda self: None})() for _ in range(2)]
    rounds._round(rounds.Row("bench/one", ("own",)), sides, sides, {}, lambda: 0.0)
    assert "rearm" in asked and "notice_files" not in asked
