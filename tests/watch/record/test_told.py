"""An exception in one line."""

from __future__ import annotations

import pytest
from torch._utils import ExceptionWrapper

from pipebench.watch.record.recording import told


def _raised(error: Exception) -> Exception:
    try:
        raise error
    except Exception as raised:
        return raised


def _reads(text: str) -> None:
    try:
        raise KeyError("before")
    except KeyError:
        raise ValueError(text)  # noqa: B904


@pytest.mark.parametrize("text", ["broken sample 200", "two\nlines"])
def test_what_a_worker_raised_is_told_without_its_traceback(text: str) -> None:
    line = _reads.__code__.co_firstlineno + 4
    try:
        _reads(text)
    except ValueError:
        wrapper = ExceptionWrapper(where="in DataLoader worker process 0")
    with pytest.raises(ValueError, match="Original Traceback") as seen:
        wrapper.reraise()
    said = told(seen.value)
    assert said == f"ValueError: {'; '.join(text.splitlines())} (in DataLoader worker process 0, test_told.py:{line})"


def test_another_exception_is_told_with_its_text_and_line() -> None:
    assert told(_raised(KeyError("images"))).startswith("KeyError: 'images' (test_told.py:")
    assert told(_raised(ValueError("two\nlines"))).startswith("ValueError: two; lines (test_told.py:")
