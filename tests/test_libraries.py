"""Every test that needs a package which `dev` does not bring is one that `make test-libraries` runs, or fails."""

import re
import sys
from pathlib import Path

import libraries
import pytest
import warm

ROOT = Path(__file__).parent.parent
NOTEBOOK = "tests/watch/test_notebook.py::test_in_ipython_itself"


def test_every_name_begins_the_name_of_a_test():
    command = [sys.executable, "-m", "pytest", "--collect-only", "--quiet", "-m", "library", *libraries.NEEDS]
    done = warm.run(command, capture_output=True, text=True, timeout=120, cwd=ROOT)
    found = done.stdout.splitlines()
    for file, needs in libraries.NEEDS.items():
        for start in needs:
            assert any(one.startswith(f"{file}::{start}") for one in found), done.stdout + done.stderr


def test_no_other_test_is_skipped_for_want_of_a_package():
    """What `importorskip` asks for is here, where all of `dev` is installed: else the test is to be in `libraries`."""
    for file in sorted(ROOT.glob("tests/**/test_*.py")):
        for name in re.findall(r'importorskip\("([\w.]+)"', file.read_text()):
            assert libraries.is_installed(name), f"{file}: no target installs {name}"


@pytest.mark.parametrize(("options", "outcome"), [([], "1 skipped"), (["-m", "library"], "1 error")])
def test_a_package_that_is_missing_fails_only_in_its_target(options, outcome):
    arguments = ["-p", "no:cacheprovider", *options, NOTEBOOK]
    hidden = f"import pytest, sys; sys.modules['IPython'] = None; sys.exit(pytest.main({arguments}))"
    done = warm.run([sys.executable, "-c", hidden], capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert outcome in done.stdout and "IPython not installed: make test-libraries" in done.stdout
    assert done.returncode == (outcome == "1 error")
