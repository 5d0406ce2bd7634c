"""Whether a process waits for the lock of a file, as the kernel's table of its system call says."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipebench.watch.launch.lock_waits import waits_for_lock

REST = "0x0 0x0 0x0 0x0 0x7ffd 0x7fc8"


@pytest.mark.parametrize(
    ("call", "machine", "waits"),
    [
        (f"73 0x8 0x2 {REST}", "x86_64", True),  # flock
        (f"72 0xb 0x7 {REST}", "x86_64", True),  # fcntl(F_SETLKW)
        (f"72 0xb 0x6 {REST}", "x86_64", False),  # fcntl(F_SETLK), which waits for nothing
        (f"230 0x1 0x1 {REST}", "x86_64", False),  # nanosleep
        ("running", "x86_64", False),
        (f"32 0x8 0x2 {REST}", "aarch64", True),
        (f"25 0x8 0x26 {REST}", "aarch64", True),
        (f"73 0x8 0x2 {REST}", "aarch64", False),
        (f"73 0x8 0x2 {REST}", "riscv64", None),
        ("", "x86_64", None),
    ],
)
def test_the_call_says_it(call: str, machine: str, waits: bool | None, tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7/syscall").write_text(call)
    assert waits_for_lock(7, str(tmp_path), machine) is waits


def test_a_process_that_is_gone_is_not_known(tmp_path: Path) -> None:
    assert waits_for_lock(7, str(tmp_path), "x86_64") is None
