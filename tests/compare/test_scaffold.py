"""`pipebench init`: what it writes for a loader, and what it says where it cannot."""

import pytest
import repos

from pipebench.compare import config, scaffold, users_loader
from pipebench.runner import LocalRunner
from pipebench.task import Workload


@pytest.fixture
def repo(tmp_path, monkeypatch):
    folder = repos.sample(tmp_path / "mine")
    monkeypatch.syspath_prepend(folder)
    return folder


def made(repo, **options):
    return scaffold.plan(repo, "sampledata:make_loader", "sampledata:make_transform", **options)


def test_it_writes_five_files_that_name_the_loader_and_its_transforms(repo):
    assert scaffold.write(made(repo)) == list(scaffold.PLACES.values())
    settings = config.load(repo / config.CONFIG)
    assert settings.transforms == ("RandomHorizontalFlip", "Scale")
    assert settings.benchmarks == [
        "read/own/sample", "transform/own/RandomHorizontalFlip", "transform/own/Scale", "transform/own/all",
        "collate/own/batch", "loader/own/workers-0", "loader/own/workers-2",
    ]  # fmt: skip
    assert "@" not in (repo / "asv.conf.json").read_text()
    assert "pipebench ab" in (repo / ".github/workflows/pipebench.yml").read_text()


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


def test_every_benchmark_of_a_loader_runs_and_counts_its_samples(repo):
    settings = config.Own(
        "sampledata:make_loader", "sampledata:make_transform", ("RandomHorizontalFlip", "Scale"), (0,)
    )
    runner = LocalRunner(find=users_loader.finder(settings))
    samples = {}
    for identity in settings.benchmarks:
        assert runner.prepare(identity, Workload(data="own")).skip_code is None
        samples[identity.rpartition("/")[2]] = runner.arm(identity, Workload(data="own"), ("own",)).samples
    assert samples == {"sample": 64, "RandomHorizontalFlip": 8, "Scale": 8, "all": 8, "batch": 16, "workers-0": 64}


def test_a_transform_that_a_commit_does_not_have_is_not_available_there(repo):
    settings = config.Own("sampledata:make_loader", "sampledata:make_transform")
    prepared = LocalRunner(find=users_loader.finder(settings)).prepare("transform/own/Blur", Workload(data="own"))
    assert prepared.skip_reason == "this commit has no transform Blur"


def test_names_are_numbered_where_a_step_occurs_twice():
    def brighten(image):
        return image

    class Compose:
        transforms = (brighten, lambda image: image, brighten)

    assert users_loader.names_of(Compose()) == ["brighten", "lambda", "brighten-2"]


def test_an_iterable_loader_that_makes_its_own_batches_has_no_collate_of_its_own(tmp_path, monkeypatch):
    (tmp_path / "streamed.py").write_text(
        "import torch\n"
        "from torch.utils.data import DataLoader, IterableDataset\n"
        "class Stream(IterableDataset):\n"
        "    def __iter__(self):\n"
        "        return iter([torch.zeros(4, 2)] * 8)\n"
        "def make_loader(num_workers=0):\n"
        "    return DataLoader(Stream(), batch_size=None, num_workers=num_workers)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    settings = config.Own("streamed:make_loader", workers=(0,), samples=8)
    runner = LocalRunner(find=users_loader.finder(settings))
    assert "does not collate" in runner.prepare("collate/own/batch", Workload(data="own")).skip_reason
    assert "cannot be taken out" in runner.prepare("read/own/sample", Workload(data="own")).skip_reason
    runner.prepare("loader/own/workers-0", Workload(data="own"))
    assert runner.arm("loader/own/workers-0", Workload(data="own"), ("own",)).samples == 32


def test_a_configuration_with_an_unknown_key_says_so(tmp_path):
    (tmp_path / config.CONFIG).write_text('loader = "a:b"\nworker = [1]\n')
    with pytest.raises(scaffold.PipebenchError, match="unknown keys: worker"):
        config.load(tmp_path / config.CONFIG)
