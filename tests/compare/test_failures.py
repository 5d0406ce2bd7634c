"""What is said of an error in a round: the user's own line, whatever raised the error below it or above it."""

import importlib.util
import json

import pytest
import torch

from pipebench.compare import failures

CODE = """
import json

def decode(text):
    return json.loads(text)

class Data:
    def __init__(self, text, exact=()):
        self.text, self.exact = text, exact
    def __len__(self):
        return 2
    def __getitem__(self, index):
        return decode(self.text)
"""


@pytest.fixture
def mine(tmp_path):
    return module(tmp_path / "decode.py")


def module(file):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(CODE)
    spec = importlib.util.spec_from_file_location("mine_decode", file)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def raised(call):
    with pytest.raises(Exception) as caught:
        call()
    return caught.value


def test_the_innermost_line_of_the_users_files_is_named_and_not_the_library_that_raised(mine, tmp_path):
    error = raised(lambda: mine.decode("no"))
    assert failures.said_of(error, str(tmp_path)).endswith("(decode.py:5 in decode)")
    assert failures.place_of(error, str(tmp_path)) == "decode.py:5 in decode"


def test_an_error_of_a_worker_is_said_as_the_worker_met_it(mine, tmp_path):
    loader = torch.utils.data.DataLoader(mine.Data("no"), num_workers=1, multiprocessing_context="fork")
    batches = iter(loader)
    error = raised(lambda: next(batches))
    batches._shutdown_workers()  # its frames are in the error, so it would live on with its worker
    assert failures.said_of(error, str(tmp_path)) == (
        "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0) in DataLoader worker process 0"
        " (decode.py:5 in decode)"
    )


@pytest.mark.parametrize("folder", ["elsewhere", None])
def test_without_a_line_of_the_users_the_line_that_raised_is_named(folder, mine, tmp_path):
    error = raised(lambda: mine.decode("no"))
    said = failures.said_of(error, folder and str(tmp_path / folder))
    assert said.startswith("JSONDecodeError: Expecting value") and f"({json.decoder.__file__}:" in said


def test_a_package_that_is_installed_inside_the_checkout_is_not_the_users_code(tmp_path):
    theirs = module(tmp_path / ".venv/lib/site-packages/decode.py")
    assert failures.place_of(raised(lambda: theirs.decode("no")), str(tmp_path)) is None


def test_code_without_a_file_is_not_below_the_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert failures.place_of(raised(lambda: eval("1 / 0")), str(tmp_path)) is None


def test_an_error_that_was_never_raised_has_no_line():
    assert failures.said_of(ValueError("x\ny"), "/") == "ValueError: x"
    assert failures.said_of(SystemExit(), "/") == "SystemExit"
