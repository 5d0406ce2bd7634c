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
    monkeypatch.setattr(scaffold, "_looked_at", lambda settings, repo: sent.append(list(sys.argv)) or ([], {}))
    scaffold._send(SimpleNamespace(send_bytes=sent.append), None, None, set())
    assert sent[0] == ["pipebench"]


NOT_USABLE = """
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

class Data(Dataset):
    def __init__(self, count, held=None):
        self.count, self.held = count, held
    def __len__(self):
        return self.count
    def __getitem__(self, index):
        return decode(index)

def decode(index):
    return {0: 0, 1: 1, 2: 2}[index]

class Stream(IterableDataset):
    def __iter__(self):
        return iter(())

def empty(): return DataLoader(Data(0), batch_size=4)
def empty_shuffled(): return DataLoader(Data(0), shuffle=True)
def empty_stream(): return DataLoader(Stream())
def forgotten(num_workers=0): DataLoader(Data(3))
def number(): return 5
def needs(root, split, *, num_workers, size=3): return DataLoader(Data(3))
def dropped(): return DataLoader(Data(3), batch_size=4, drop_last=True)
def unsampled(): return DataLoader(Data(3), sampler=[])
def spawned(num_workers=0):
    method = "spawn" if num_workers else None
    return DataLoader(Data(3, lambda: 0), num_workers=num_workers, multiprocessing_context=method)
def forked(num_workers=0):
    method = "fork" if num_workers else None
    return DataLoader(Data(3, lambda: 0), num_workers=num_workers, multiprocessing_context=method)
def shared(num_workers=0):
    held = torch.multiprocessing.get_context("spawn").Value("i"), torch.zeros(3)
    return DataLoader(Data(3, held), num_workers=num_workers, multiprocessing_context="spawn" if num_workers else None)
def broken(): return DataLoader(Data(4), sampler=[3])
constant = 3
def no_transform(): return None
def transform_needs(size): return abs
def whole(num_workers=0): return DataLoader(Data(3), num_workers=num_workers)
"""


@pytest.fixture
def unusable(repo, monkeypatch):
    """Asks for the files of a function of a module that has every fault."""
    (repo / "notusable.py").write_text(NOT_USABLE)
    monkeypatch.delitem(sys.modules, "notusable", raising=False)

    def said(loader, transform=None, **options):
        lines = NOT_USABLE.splitlines()
        with pytest.raises(scaffold.PipebenchError) as refused:
            scaffold.plan(repo, f"notusable:{loader}", transform and f"notusable:{transform}", **options)
        line = next(
            (number for number, text in enumerate(lines, 1) if f"def {transform or loader}(" in text), "nowhere"
        )
        return refused.value.problem.replace(f"notusable:{transform or loader} (notusable.py:{line})", "IT"), (
            refused.value.remedy
        )

    return said


@pytest.mark.parametrize(
    ("loader", "problem", "remedy"),
    [
        ("empty", "the data set of IT is empty", "check where it looks for its samples: a relative path begins at /"),
        ("empty_shuffled", "the data set of IT is empty", "check where it looks"),
        ("empty_stream", "the data set of IT is empty", "check where it looks"),
        ("forgotten", "IT returns nothing (None)", "let it return its loader: return DataLoader(...)"),
        ("number", "IT returns an object of type int", "let it return its loader"),
        ("needs", "IT needs 2 arguments: root, split", "give each a default value, or name a function that calls it"),
        (
            "dropped",
            "IT gives no batch: 3 samples, batch_size=4 and drop_last=True",
            "let it have 4 samples at least, a smaller batch_size, or drop_last=False",
        ),
        ("unsampled", "IT gives no batch: its sampler takes none of 3 samples", "let its sampler give the indices"),
        (
            "spawned",
            "the data set of IT cannot be pickled, as the start method spawn of its workers needs: ",
            "let it hold no lambda, local function, open file or lock; or measure no workers: --workers 0",
        ),
        ("broken", "IT cannot be used: KeyError: 3 (notusable.py:14 in decode)", "run this where the loader finds"),
    ],
)
def test_each_fault_of_a_loader_has_its_own_sentence_and_remedy(loader, problem, remedy, unusable):
    said = unusable(loader)
    assert said[0].startswith(problem) and said[1].startswith(remedy)


def test_what_is_no_function_says_so(unusable):
    assert unusable("constant")[0].endswith("is no function")


@pytest.mark.parametrize(
    ("transform", "problem"),
    [("no_transform", "IT returns nothing (None)"), ("transform_needs", "IT needs 1 argument: size")],
)
def test_the_fault_of_a_transform_is_not_laid_on_the_loader(transform, problem, unusable):
    assert unusable("whole", transform)[0] == problem


@pytest.mark.parametrize(
    ("loader", "options"), [("forked", {}), ("shared", {}), ("spawned", {"workers": (0,)})], ids=str
)
def test_what_can_be_sent_to_the_workers_or_need_not_be_is_not_refused(loader, options, repo, monkeypatch):
    (repo / "notusable.py").write_text(NOT_USABLE)
    monkeypatch.delitem(sys.modules, "notusable", raising=False)
    scaffold.plan(repo, f"notusable:{loader}", None, **options)
