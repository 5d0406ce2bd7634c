"""What all tests share: a cache folder of their own, and a check that nothing of torch's thread settings leaks."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


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
