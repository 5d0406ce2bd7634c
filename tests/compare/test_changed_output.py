"""Planted commits through the command line: the output changes, the gate says so."""

from types import SimpleNamespace

import pytest
import repos
from click.testing import CliRunner

from pipebench import cli
from pipebench.errors import UsageError
from pipebench.results.report import load

OPTIONS = ["--variant", "Scale", "--variant", "Jitter", "--rounds", "1", "--fail-on-change"]
JITTER = """

class Jitter:
    def __call__(self, image):
        return image + random.randrange(100)
"""


@pytest.fixture(scope="module")
def repo(tmp_path_factory):
    folder = repos.sample(tmp_path_factory.mktemp("changed") / "mine")
    file = folder / "sampledata.py"
    text = file.read_text().replace("v2.RandomHorizontalFlip()", "Jitter()")
    file.write_text("import random\n" + text + JITTER)
    repos.configured(folder, "Jitter", "Scale")
    repos.commit(folder, "suite")
    file.write_text(file.read_text().replace("image.float() / 255", "image[:, ::2, ::2].float() / 255"))
    repos.commit(folder, "half of each image")
    return folder


@pytest.fixture(scope="module")
def compared(repo):
    done = repos.pipebench("ab", "HEAD~1", "HEAD", *OPTIONS, "--export-json", "ab.json", cwd=repo)
    changes = {one.benchmark: one for one in load(repo / "ab.json").comparison.changes}
    return SimpleNamespace(done=done, jitter=changes["transform/own/Jitter"],
                           scale=changes["transform/own/Scale"])  # fmt: skip


@pytest.mark.slow
def test_half_of_each_image_is_a_changed_output_and_fails_the_gate(compared):
    assert compared.done.returncode == 3, compared.done.stderr
    assert "pipebench: changed output: transform/own/Scale\n" in compared.done.stderr
    assert compared.scale.outputs.difference.head_shape == (3, 48, 48)
    assert "changed output: 3×48×48 instead of 3×96×96" in " ".join(compared.done.stdout.split())


@pytest.mark.slow
def test_a_random_step_that_did_not_change_is_equal_before_and_after_the_rounds(compared):
    """Python's generator starts anywhere: without one seed for both sides, their images would differ."""
    assert (compared.jitter.outputs.state, compared.jitter.outputs.at_end) == ("same", True)
    assert "Both sides get the same seed before each round" in " ".join(compared.done.stdout.split())


def test_the_two_options_exclude_each_other():
    done = CliRunner().invoke(cli.cli, ["ab", "HEAD~1", "HEAD", "--fail-on-change", "--allow-changed"])
    assert isinstance(done.exception, UsageError) and "exclude each other" in done.exception.problem
