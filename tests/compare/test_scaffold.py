"""`pipebench init`: what it writes for a loader, and what it says where it cannot."""

import json
import sys
from types import SimpleNamespace

import pytest
import repos

from pipebench.compare import config, scaffold


@pytest.fixture
def repo(tmp_path, monkeypatch):
    folder = repos.sample(tmp_path / "mine")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(scaffold, "_from_a_child", scaffold._looked_at)  # tests/faults/test_garbage.py has the child
    return folder


def made(repo, **options):
    return scaffold.plan(repo, "sampledata:make_loader", "sampledata:make_transform", **options)


def test_it_writes_five_files_that_name_the_loader_and_its_transforms(repo):
    assert scaffold.write(made(repo)) == list(scaffold.PLACES.values())
    settings = config.load(repo / config.CONFIG)
    assert settings.transforms == ("RandomHorizontalFlip", "Scale")
    assert settings.benchmarks == [
        "read/own/sample", "transform/own/RandomHorizontalFlip", "transform/own/Scale", "transform/own/all",
        "collate/own/batch", "loader/own/workers-0", "loader/own/workers-2", "loader/own/startup-2",
    ]  # fmt: skip
    assert "@" not in (repo / "asv.conf.json").read_text()
    assert "pipebench ab" in (repo / ".github/workflows/pipebench.yml").read_text()


def test_the_name_of_a_folder_is_quoted(repo):
    folder = repo.rename(repo.parent / 'my "old"\\data')
    (line,) = [one for one in made(folder).files["asv.conf.json"].splitlines() if '"project"' in one]
    assert json.loads(f"{{{line.rstrip(',')}}}") == {"project": folder.name}


def test_a_file_of_the_users_is_never_overwritten_unasked(repo):
    (repo / "asv.conf.json").write_text("mine")
    with pytest.raises(scaffold.PipebenchError, match=r"these files exist: .*asv.conf.json"):
        scaffold.write(made(repo))
    assert (repo / "asv.conf.json").read_text() == "mine" and not (repo / config.CONFIG).exists()
    scaffold.write(made(repo), force=True)
    scaffold.write(made(repo))  # the same again is no overwriting


@pytest.mark.parametrize(
    ("loader", "said"),
    [
        ("sampledata", "not the name of a function"),
        ("sampledata:make('x')", "not the name of a function"),
        ("sampledata:nosuch", "sampledata:nosuch does not exist"),
        ("nosuch_module:make", "No module named 'nosuch_module'"),
    ],
)
def test_a_loader_that_cannot_be_used_says_why(repo, loader, said):
    with pytest.raises(scaffold.PipebenchError, match=said.replace("(", r"\(")):
        scaffold.plan(repo, loader, None)


def test_a_configuration_with_an_unknown_key_says_so(tmp_path):
    (tmp_path / config.CONFIG).write_text('loader = "a:b"\nworker = [1]\n')
    with pytest.raises(scaffold.PipebenchError, match="unknown keys: worker"):
        config.load(tmp_path / config.CONFIG)


@pytest.mark.parametrize(
    ("image", "written", "loaded"), [(None, "# [sample]", None), ("left", '"left"', "left"), ("-1", "-1", -1)]
)
def test_the_image_of_a_sample_is_written_where_it_is_named(image, written, loaded, tmp_path):
    (tmp_path / config.CONFIG).write_text('loader = "a:b"\n' + scaffold._sample(scaffold._entry(image)))
    assert written in (tmp_path / config.CONFIG).read_text()
    assert config.load(tmp_path / config.CONFIG).image == loaded


@pytest.mark.parametrize("table", ['[sample]\nimages = "a"', "[sample]\nimage = [1]", "sample = 3", 'image = "a"'])
def test_a_table_of_the_sample_that_means_nothing_says_so(table, tmp_path):
    (tmp_path / config.CONFIG).write_text(f'loader = "a:b"\n{table}\n')
    with pytest.raises(scaffold.PipebenchError, match=r"\[sample\] has one key|unknown keys: image"):
        config.load(tmp_path / config.CONFIG)


def test_what_cannot_be_measured_is_said_when_it_is_written(repo, monkeypatch):
    monkeypatch.delitem(sys.modules, "sampledata", raising=False)
    (repo / "sampledata.py").write_text((repo / "sampledata.py").read_text().replace("self.transform", "self.changed"))
    plan = made(repo)
    assert "the transform cannot be taken out" in plan.not_measured["read/own/sample"]
    assert "loader/own/workers-0" not in plan.not_measured


def test_start_up_is_a_row_only_with_workers(repo):
    assert "startup = []" in made(repo, workers=(0,)).files[config.CONFIG]
    assert "startup = [4]" in made(repo, workers=(0, 4, 2)).files[config.CONFIG]


def test_a_loader_that_parses_arguments_gets_none_of_those_of_init(tmp_path, monkeypatch):
    """A child of its own makes the trial, so the arguments of this process stay."""
    sent = []
    monkeypatch.setattr(sys, "argv", ["pipebench", "init", "mine:make_loader"])
    monkeypatch.setattr(scaffold, "_looked_at", lambda settings: sent.append(list(sys.argv)) or ([], {}))
    scaffold._send(SimpleNamespace(send_bytes=sent.append), None)
    assert sent[0] == ["pipebench"]
