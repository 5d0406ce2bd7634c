"""The commands whose result is a few lines print it as JSON, too: a report like that of every command."""

import json
import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from PIL import Image

from pipebench.cli import cli
from pipebench.commands import build, data, pack, schema
from pipebench.data import datasets
from pipebench.native import building
from pipebench.results import report


@pytest.fixture
def printed(tmp_path):
    """Runs a command with `--format json`: its report, which can be loaded again."""

    def run(command, *arguments):
        done = CliRunner().invoke(command, [*arguments, "--format", "json"], catch_exceptions=False)
        (tmp_path / "printed.json").write_text(done.stdout)
        assert json.loads(done.stdout)["verdict"] is None
        return report.load(tmp_path / "printed.json")

    return run


def test_the_data_sets_that_there_are(printed):
    assert "photos" in printed(data.command).data_sets


def test_what_a_data_set_holds(printed, tmp_path):
    Image.new("RGB", (8, 8)).save(tmp_path / "one\n.jpg")
    found = printed(data.command, str(tmp_path))
    assert (found.data.images, found.data.name, found.bad_samples) == (1, str(tmp_path), ())


def test_where_the_files_of_an_embedded_data_set_are(tmp_path):
    said = CliRunner().invoke(data.command, ["tiny", "--limit", "3"], catch_exceptions=False).stdout
    (place,) = re.findall(r"^files: (.*)$", said, re.MULTILINE)
    made = datasets.load("tiny", limit=3).samples
    assert sorted(str(one) for one in Path(place).glob("*/*.jpg")) == sorted(one.files["jpg"] for one in made)
    Image.new("RGB", (8, 8)).save(tmp_path / "one.jpg")
    assert "files:" not in CliRunner().invoke(data.command, [str(tmp_path)], catch_exceptions=False).stdout


def test_what_was_packed_and_what_was_not(printed, tmp_path):
    (tmp_path / "source").mkdir()
    Image.new("RGB", (300, 300)).save(tmp_path / "source/a.jpg")
    Image.new("RGB", (8, 8)).save(tmp_path / "source/b.png")
    found = printed(pack.command, str(tmp_path / "source"), str(tmp_path / "packed")).packing
    assert (found.packed + sum(found.unchanged.values()), found.files) == (2, 2)


def test_where_something_was_built(printed, monkeypatch, tmp_path):
    monkeypatch.setattr(building, "build_pillow_simd", lambda progress: tmp_path)
    assert printed(build.command, "pillow-simd").written == (str(tmp_path),)


def test_every_command_has_json():
    context = click.Context(cli)
    for name in cli.list_commands(context):
        formats = [one.type.choices for one in cli.get_command(context, name).params if "--format" in one.opts]
        assert len(formats) == 1 and "json" in formats[0], name


def test_the_schema_is_json_whether_that_is_asked_for_or_not():
    plain, asked = (CliRunner().invoke(schema.command, words).stdout for words in ([], ["--format", "json"]))
    assert plain == asked and json.loads(plain)["$defs"]
