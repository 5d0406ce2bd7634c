"""The lines that the annotations of a pull request stand at, found without an import."""

from types import SimpleNamespace

import pytest

from pipebench.compare.config import Own
from pipebench.compare.places import Place, function_of, place_of, places

DATA = '''"""A module that cannot be imported."""
import nothing_of_the_kind
from .deep import made_elsewhere as renamed
from mine.deep import made_there

partial: object = print


@decorated
def make_loader():
    return 1


class Suite:
    def setup(self):
        pass
'''


@pytest.fixture
def repo(tmp_path):
    package = tmp_path / "src" / "mine"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from .data import make_loader\n")
    (package / "data.py").write_text(DATA)
    (package / "deep.py").write_text("\n\ndef made_elsewhere(): ...\ndef made_there(): ...\n")
    (package / "broken.py").write_text("def (")
    return tmp_path


@pytest.mark.parametrize(
    ("function", "file", "line"),
    [
        ("mine.data:make_loader", "data.py", 10),
        ("mine:make_loader", "data.py", 10),
        ("mine.data:partial", "data.py", 6),
        ("mine.data:Suite.setup", "data.py", 15),
        ("mine.data:renamed", "deep.py", 3),
        ("mine.data:made_there", "deep.py", 4),
    ],
)
def test_a_function_is_found_in_the_text_of_its_module(repo, function, file, line):
    assert place_of(repo, [repo / "src"], function) == Place(f"src/mine/{file}", line)


@pytest.mark.parametrize("function", ["mine.data:nosuch", "nosuch:make", "mine.broken:make", "mine.data:print.nosuch"])
def test_what_is_not_there_has_no_place(repo, function):
    assert place_of(repo, [repo / "src"], function) is None


def test_each_benchmark_has_the_function_that_the_configuration_names():
    own = Own("mine.data:make_loader", "mine.data:make_transform", ("Flip",))
    assert function_of(own, "transform/own/Flip") == "mine.data:make_transform"
    for identity in ("read/own/sample", "collate/own/batch", "loader/own/workers-2"):
        assert function_of(own, identity) == "mine.data:make_loader"
    assert function_of(own, "asv/suite.time_it") is function_of(own, "pytest/test_it.py::test_it") is None


def test_an_entry_of_its_own_has_its_own_function():
    own = SimpleNamespace(
        benchmark=(SimpleNamespace(name="decode", setup="mine.deep:made_there"),), loader=None, transform=None
    )
    assert function_of(own, "bench/decode") == "mine.deep:made_there"
    assert function_of(own, "bench/other") is None


def test_places_are_relative_to_the_repository(repo):
    found = places(Own("mine:make_loader", "nosuch:make"), ["read/own/sample", "transform/own/all"], repo)
    assert found == {"read/own/sample": ("src/mine/data.py", 10)}
    assert places(None, ["read/image/open"], repo) == {}
