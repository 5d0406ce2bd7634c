"""Escape codes from whoever writes beside us: none of them reaches the terminal, the report or Markdown."""

import json
import os
import pty
import subprocess
import sys

import pytest
import repos
from PIL import Image

ESCAPE = "\x1b]0;title\x07\x1b[31mred\x1b[2J\x9b31m\u202e\r"
SHELL = r"\033]0;title\007\033[31mred\033[2J\r"
STEP = f"def step(batch):\n    raise ValueError({ESCAPE!r})\n"


def check(*texts):
    for text in texts:
        acting = {char for char in text if not char.isprintable()} - {"\n"}
        assert not acting, (acting, text)


def saved(place):
    check(place.read_text())
    return json.loads(place.read_text())


@pytest.fixture
def repo(tmp_path):
    """A project whose branch is named by escape codes as far as git allows, and so is the message of its commit."""
    folder = tmp_path / "repo"
    folder.mkdir()
    (folder / "pipebench.toml").write_text('[[benchmark]]\nname = "fine"\nsetup = "timed:fine"\n')
    (folder / "timed.py").write_text(f"def fine():\n    raise ValueError({ESCAPE!r})\n")
    repos.git(folder, "init", "--quiet")
    repos.commit(folder, f"{ESCAPE} message")
    repos.git(folder, "branch", "b\u202eranch\u2028name")
    return folder


def test_the_output_of_a_build(repo):
    done = repos.pipebench("ab", "HEAD", "HEAD", "--build", f"sh -c 'printf \"{SHELL}failed\"; exit 1'", cwd=repo)
    assert done.returncode == 1 and "red" in done.stderr and "failed" in done.stderr
    check(done.stdout, done.stderr)


@pytest.mark.parametrize("style", ["table", "markdown", "json"])
def test_a_branch_a_message_and_an_exception_of_a_commit(repo, tmp_path, style):
    options = ["--rounds", "1", "--format", style, "--export-json", str(tmp_path / "ab.json")]
    done = repos.pipebench("ab", "HEAD", "b\u202eranch\u2028name", *options, cwd=repo)
    assert done.returncode == 1 and "title" in done.stdout + done.stderr
    check(done.stdout, done.stderr)
    comparison = saved(tmp_path / "ab.json")["comparison"]
    assert comparison["head"].startswith("b\\u202eranch\\u2028name (")


def test_a_branch_that_does_not_exist(repo):
    done = repos.pipebench("ab", "HEAD", ESCAPE, cwd=repo)
    assert done.returncode == 2 and "there is no commit" in done.stderr
    check(done.stderr)


@pytest.mark.slow
def test_an_exception_in_a_step_and_in_a_sample_of_run(tmp_path):
    (tmp_path / "images").mkdir()
    Image.new("RGB", (300, 300)).save(tmp_path / "images" / "a.jpg")
    (tmp_path / "images" / f"{ESCAPE.replace('/', '')}.jpg").write_bytes(b"no image")
    (tmp_path / "mine.py").write_text(STEP)
    options = ["--data", "images", "--quick", "--consumer", "mine:step", "--export-json", "r.json"]
    done = repos.pipebench("run", *options, cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert done.returncode == 1 and "title" in done.stderr
    check(done.stdout, done.stderr)


def test_what_an_error_says_on_a_real_terminal(tmp_path):
    """There a message is wrapped, and the bar of progress has codes of its own."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "pipebench", "run", "--data", f"{ESCAPE}nowhere", "--stage", "read"]
    done = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=tmp_path)
    os.close(theirs)
    said = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:
            break
        if not part:
            break
        said += part
    os.close(ours)
    assert done.wait(timeout=60) == 2
    assert b"\\x1b]0;title" in said and b"\x1b]0;title" not in said and b"\x1b[31m" not in said
