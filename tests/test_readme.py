"""The commands of the README and of the user's pages do what they say: each is run, in order, as a reader would.

A `console` block is run (all but make, which CI runs); an `sh` block has names that the reader fills in, and is not.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pipebench.data import datasets
from pipebench.render import watch_account

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PAGES = [README, *(path.read_text() for path in [ROOT / "docs/start.md", *sorted(ROOT.glob("docs/commands/*.md"))])]


def _commands(page):
    for block in re.findall(r"```console\n(.*?)```", page, re.DOTALL):
        yield from (line[2:].partition("  # ")[0].strip() for line in block.splitlines() if line[:2] == "$ ")


FOUND = dict.fromkeys(command for page in PAGES for command in _commands(page))
TESTED = [command for command in FOUND if not command.startswith("make ")]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A reader's home, with images, shards and the scripts of the pages where these have them."""
    folder = tmp_path_factory.mktemp("home")
    made = datasets.load("tiny", limit=70)
    for sample in made.samples[:8]:
        place = folder / "my/images" / Path(sample.files["jpg"]).parent.name
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy(sample.files["jpg"], place)
    (folder / "shards").mkdir()
    for index, shard in enumerate(made.shards):
        shutil.copy(shard.path, folder / f"shards/train-{index:03d}.tar")
    (folder / "docs").symlink_to(ROOT / "docs")
    written = re.findall(r"a file `(\w+\.py)`:\n\n```python\n(.*?)```", "\n".join(PAGES), re.DOTALL)
    for name, text in written:
        (folder / name).write_text(text)
    return folder


def _run(command, home):
    return subprocess.run(
        ["bash", "-c", command],
        cwd=ROOT if command.startswith("asv") else home,
        env={
            **os.environ,
            "HOME": str(home),
            "PIPEBENCH_CACHE": str(home / ".cache/pipebench"),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        },
        capture_output=True,
        text=True,
        timeout=600,
    )


def test_the_readme_has_its_commands():
    assert {"make bench", "make test"} <= set(_commands(README))
    assert len([command for command in _commands(README) if command in TESTED]) >= 6
    assert len(TESTED) >= 16


def test_the_readme_is_short():
    assert len(README.splitlines()) <= 150


@pytest.mark.slow  # `make test-readme` runs all of these, and CI runs that
@pytest.mark.parametrize("command", TESTED)
def test_a_command_works(command, home):
    done = _run(command, home)
    if done.returncode and "build pillow-simd" in command:
        assert "apt-get install" in done.stderr  # no compiler or header here: it names what to install
        return
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    said = done.stderr if command.startswith("pipebench advise") else done.stdout  # its report is beside the script's
    assert said or command.startswith(("cp ", "ln ", "sed "))


@pytest.mark.slow
def test_the_output_shown_is_that_of_this_version(home):
    """The rows of the account and the stages in the README's report are those that its script gets today.

    Which rows are large depends on the machine and on the images: so all stages are shown too, and of the rows only
    some are the same.
    """
    shown = README.partition("```text\n")[2].partition("```")[0]
    rows = [line.partition("█")[0].strip() for line in shown.splitlines() if "█" in line]
    stages = re.findall(r"(\S+) \((read \+ decode|transform)\)", " ".join(shown.split()))
    assert len(rows) >= 4 and len(stages) >= 3
    script = "docs/examples/train.py ~/my/images --epochs 4 --batch-size 2"
    watched = _run(f"pipebench watch --export-json shown.json {script}", home).stderr
    again = _run("pipebench show --full shown.json", home).stdout  # every figure of the same run
    printed = " ".join(f"{watched} {again}".split())
    wanted = {*(f"{name} {kind}" for name, kind in stages), "Where the", "of the run went, in s"}
    assert not [one for one in wanted if one not in printed]
    rows = [row for row in rows if not re.fullmatch(r"\d+ smaller rows", row)]  # how many are small depends on the run
    assert set(rows) <= {name for name, _ in watch_account.SHORT} and sum(one in printed for one in rows) >= 2
