"""Runs every check, one after the other. A check that fails by itself does not end the others."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pipebench import doctor
from pipebench.doctor.checking import CHECKS, Check, NotKnown
from pipebench.doctor.host import Host, observed
from pipebench.results.examination import Examination, Finding
from pipebench.units import printable


def examined(data: Path | None, progress: Callable[[int, int, str], None]) -> Examination:
    """This machine, and the storage of `data` (None: of the current folder). It takes ten seconds at most."""
    begin = time.monotonic()
    host = observed(data, progress)
    found = findings(host)
    return Examination(found, printable(host.data), time.monotonic() - begin)


def findings(host: Host) -> tuple[Finding, ...]:
    """The finding of every check."""
    doctor.discover()
    return tuple(finding(name, check, host) for name, check in CHECKS.items())


def finding(name: str, check: Check, host: Host) -> Finding:
    """The finding of one check. What the check raises makes it "not known", with the reason."""
    try:
        return replace(check(host), check=name)
    except Exception as error:  # whatever a machine holds, the other checks go on
        return Finding(name, "not-known", _why(error))


def _why(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)
    if isinstance(error, NotKnown | LookupError) and error.args:
        return str(error.args[0])
    return f"{type(error).__name__}: {error}"
