"""What all tests share: a cache folder of their own, and that an interrupt arrives however the tests were started."""

import gc
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import libraries
import warm

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as a shell starts what runs in its background
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        if libraries.needed(item.nodeid):
            item.add_marker("library")


def pytest_runtest_setup(item):
    missing = [one for one in libraries.needed(item.nodeid) if not libraries.is_installed(one)]
    if missing:
        pytest.skip(f"{' and '.join(missing)} not installed: make test-libraries")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    """With `-m "library and ..."`, a test that is skipped has failed."""
    report = yield
    if report.skipped and item.config.option.markexpr.startswith("library"):
        report.outcome, report.longrepr = "failed", report.longrepr[-1]
    return report


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory):
    """One cache folder for the session, so that each data set is built once and nothing of the user's is touched."""
    kept = os.environ.get("PIPEBENCH_CACHE")
    folder = tmp_path_factory.mktemp("cache")
    os.environ["PIPEBENCH_CACHE"] = str(folder)
    yield folder
    if kept is None:
        del os.environ["PIPEBENCH_CACHE"]
    else:
        os.environ["PIPEBENCH_CACHE"] = kept


@pytest.fixture(autouse=True)
def no_handler_stays():
    """A side of `ab` that a test runs in its own process handles SIGCONT until that process ends."""
    yield
    signal.signal(signal.SIGCONT, signal.SIG_DFL)


@pytest.fixture(autouse=True)
def same_process_group():
    """A test that moved its own process to another group would change what later tests compare."""
    before = os.getpgid(0)
    yield
    assert os.getpgid(0) == before


@pytest.fixture
def real_starts(monkeypatch):
    """Each Python is a new process: for what is tested of start-up itself, of memory and of stacks (see `warm`)."""
    monkeypatch.setattr("warm.Popen", subprocess.Popen)


@pytest.fixture
def no_child_process():
    """The process of the tests has no child: for what is told of a process without one (see `warm`)."""
    gc.collect()  # iterators of loaders that only their own errors hold
    warm.end()
