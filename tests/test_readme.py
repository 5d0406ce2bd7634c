"""The README's commands do what it says: each is run, in order, as a reader would (all but make, which CI runs)."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pipebench.data import datasets

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```console\n(.*?)```", README, re.DOTALL)
COMMANDS = [line[2:].partition(" # ")[0].strip() for block in BLOCKS for line in block.splitlines() if line[:2] == "$ "]
TESTED = [command for command in COMMANDS if not command.startswith("make ")]
LONG = ("build pillow-simd", "report.json", "asv run")  # `make test-readme` runs these too


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A reader's home, with images and shards where the README has them."""
    folder = tmp_path_factory.mktemp("home")
    made = datasets.load("tiny", limit=70)
    (folder / "my/images").mkdir(parents=True)
    (folder / "shards").mkdir()
    for sample in made.samples[:8]:
        shutil.copy(sample.files["jpg"], folder / "my/images")
    for index, shard in enumerate(made.shards):
        shutil.copy(shard.path, folder / f"shards/train-{index:03d}.tar")
    return folder


def test_the_readme_has_its_commands():
    assert {"make bench", "make test"} <= set(COMMANDS)
    assert len(TESTED) >= 10


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(command, marks=pytest.mark.slow if any(words in command for words in LONG) else [])
        for command in TESTED
    ],
)
def test_a_command_of_the_readme_works(command, home):
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=ROOT if command.startswith("asv") else home,
        env={**os.environ, "HOME": str(home), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    if done.returncode and "build pillow-simd" in command:
        assert "apt-get install" in done.stderr  # no compiler or header here: it names what to install
        return
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout


def test_the_output_shown_is_that_of_this_version():
    shown = README.partition("```text\n")[2].partition("```")[0]
    for words in ("One core:", "Ceilings of this machine", "decode/rgb", "× reference", "of ceiling", "Summary"):
        assert words in shown
