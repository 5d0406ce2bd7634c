"""Only what a commit lacks is called not in it; what fails otherwise is raised."""

import pytest

from pipebench.compare import round_process
from pipebench.errors import PipebenchError


@pytest.mark.parametrize(
    ("error", "skip"),
    [
        (PipebenchError("there is no variant 'decode/rgb/new'", "list them"), "PipebenchError: there is no var"),
        (KeyError("decode/new"), "KeyError: 'decode/new'"),
        (ModuleNotFoundError("No module named 'pipebench.stage'"), "ModuleNotFoundError: No module named 'pipe"),
        (MemoryError("no more"), None),
        (ValueError("a broken file"), None),
    ],
)
def test_only_what_a_commit_lacks_is_not_in_it(monkeypatch, error, skip):
    def find(identity):
        raise error

    side = round_process.Side(None)
    monkeypatch.setattr(side, "_find", find)
    if skip is None:
        with pytest.raises(type(error)):
            side.arm("decode/rgb/new", {}, 0.005)
    else:
        assert side.arm("decode/rgb/new", {}, 0.005)["skip"].startswith(f"not in this commit: {skip}")


def test_settings_that_fail_are_not_called_missing(monkeypatch):
    """As an embedded data set that cannot be made: the benchmark is there."""

    def fitted(found, knobs):
        raise AttributeError("no such field")

    side = round_process.Side(None)
    monkeypatch.setattr(side, "_find", lambda identity: (None, None))
    monkeypatch.setattr(side, "_fitted", fitted)
    with pytest.raises(AttributeError, match="no such field"):
        side.arm("decode/rgb/new", {}, 0.005)


def test_a_check_that_cannot_be_imported_is_not_called_missing(monkeypatch):
    class Source:
        def call(self, name):
            raise ModuleNotFoundError("No module named 'checking_library'")

    side = round_process.Side(None)
    side._sources = {"bench": Source()}
    with pytest.raises(ModuleNotFoundError, match="checking_library"):
        side.arm("bench/one", {}, 0.005)
