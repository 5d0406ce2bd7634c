"""The tools, as modules."""

import importlib
from pathlib import Path

import pytest


@pytest.fixture
def tool(monkeypatch, request):
    """The tool that the file of the test is named after."""
    monkeypatch.syspath_prepend(Path(__file__).absolute().parents[2] / "tools")
    return importlib.import_module(request.module.__name__.removeprefix("test_"))
