"""The Python interface: the examples of its page, what an import costs, its names and its types."""

import inspect
import json
import os
import pkgutil
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import warm

import pipebench
from pipebench.data import datasets
from pipebench.errors import PipebenchError, UsageError

PAGE = (Path(__file__).parent.parent / "docs" / "python.md").read_text()
EXAMPLES = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
COMMANDS = re.findall(r"^\$ (.*)$", PAGE, re.MULTILINE)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A reader's folder, with images where the page has them."""
    folder = tmp_path_factory.mktemp("home")
    (folder / "my/images").mkdir(parents=True)
    for index, sample in enumerate(datasets.load("tiny", limit=8).samples):
        shutil.copy(sample.files["jpg"], folder / f"my/images/{index}.jpg")
    return folder


def run(command, folder):
    beside = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = warm.run(command, cwd=folder, env={**os.environ, "PATH": beside}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_examples_of_the_page_run(home):
    for command in COMMANDS:
        run(["bash", "-c", command], home)
    (home / "examples.py").write_text(EXAMPLES)
    said = run([sys.executable, "examples.py"], home)
    assert "make noise 128" in said
    line = EXAMPLES.partition("loss.item()")[0].count("\n") + 1
    assert f"examples.py {line} 1.0" in said


def test_the_page_shows_every_public_name():
    assert [name for name in pipebench.__all__ if f"pipebench.{name}" not in EXAMPLES and f"`{name}`" not in PAGE] == []


def test_an_import_brings_nothing_but_the_standard_library():
    code = "import json, sys; bare = set(sys.modules); import pipebench; print(json.dumps([*{*sys.modules} - bare]))"
    found = json.loads(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout)
    roots = {name.partition(".")[0] for name in found}
    assert roots - set(sys.stdlib_module_names) <= {"__main__", "__mp_main__", "pipebench"}
    slow = {"asyncio", "email", "http", "importlib.metadata", "multiprocessing", "socket", "subprocess"}
    assert slow.isdisjoint(found)


def test_no_public_name_is_that_of_a_submodule():
    assert set(pipebench.__all__).isdisjoint(found.name for found in pkgutil.iter_modules(pipebench.__path__))


def test_the_public_names_are_there_without_tricks():
    assert not hasattr(pipebench, "__getattr__")
    assert all(inspect.getdoc(getattr(pipebench, name)) for name in pipebench.__all__)


def test_an_import_registers_no_operator():
    code = "import torch, pipebench, sys; sys.exit(hasattr(torch.ops.pipebench, 'decode_and_crop'))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize(("name", "said"), [("decode/rbg", "decode/rgb"), ("decode", "decode/rgb")])
def test_a_task_that_there_is_not(name, said):
    with pytest.raises(UsageError, match=f"there is no task '{name}'") as caught:
        pipebench.measure(name)
    assert said in caught.value.remedy


def test_a_variant_that_there_is_not():
    with pytest.raises(UsageError, match="decode/rgb has no variant 'nosuch'") as caught:
        pipebench.measure("decode/rgb", "nosuch")
    assert "pillow" in caught.value.remedy


def test_the_number_of_threads_is_set_back(home):
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        pipebench.measure("decode/rgb", "pillow", data=home / "my/images", quick=True)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_data_that_there_is_not(tmp_path):
    with pytest.raises(PipebenchError, match="nowhere"):
        pipebench.measure("decode/rgb", "pillow", data=tmp_path / "nowhere", quick=True)


@pytest.mark.long
def test_the_examples_are_typed(home):
    """`Any` is allowed in nothing that the page shows."""
    (home / "examples.py").write_text(EXAMPLES + "\nreveal_type(opencv)\nreveal_type(decoders)\nreveal_type(report)\n")
    config = home / "mypy.ini"
    config.write_text("[mypy]\nstrict = true\n")
    command = [sys.executable, "-m", "mypy", "--config-file", str(config), "examples.py"]
    said = run(command, home)
    shown = re.findall(r'Revealed type is "(.*?)"', said)
    assert [one.rpartition(".")[2] for one in shown] == ["Cost", "TaskCosts", "Report"]
