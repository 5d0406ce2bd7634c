"""Small repositories with real commits, made for a test."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import warm

SAMPLE = Path(__file__).parent / "sample_repo"


def git(repo, *arguments):
    said = subprocess.run(
        ["git", "-c", "user.name=Test", "-c", "user.email=test@example.org", *arguments],
        cwd=repo, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return said.stdout.strip()


def commit(repo, message):
    git(repo, "add", "--all")
    git(repo, "commit", "--quiet", "--message", message)
    return git(repo, "rev-parse", "HEAD")


def sample(folder):
    """The sample repository with one commit."""
    shutil.copytree(SAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    git(folder, "init", "--quiet", "--initial-branch=main")
    (folder / ".gitignore").write_text("__pycache__/\n.asv/\n")
    commit(folder, "fast")
    return folder


def configured(folder, *transforms):
    """Writes what `init` would write into `pipebench.toml` of the sample repository, without a process of its own."""
    named = ", ".join(f'"{one}"' for one in transforms)
    (folder / "pipebench.toml").write_text(
        'loader = "sampledata:make_loader"\ntransform = "sampledata:make_transform"\n'
        f"transforms = [{named}]\nworkers = [0]\nsamples = 64\n"
    )


def slower(repo):
    """A commit in which one transform does six times the work."""
    file = repo / "sampledata.py"
    file.write_text(file.read_text().replace("PASSES = 1", "PASSES = 6"))
    return commit(repo, "slow")


def pipebench(*arguments, cwd, **environment):
    return warm.run(
        [sys.executable, "-m", "pipebench", *map(str, arguments)],
        capture_output=True, text=True, cwd=cwd, timeout=900, env={**os.environ, **environment},
    )  # fmt: skip
