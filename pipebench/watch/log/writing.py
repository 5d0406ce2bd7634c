"""The process that writes the series of a run: it takes points from standard input, and gives them to each sink.

It says on standard output, in one line of JSON, that all sinks are open, or why one is not. What libraries print is
lost. A sink that fails costs one line on standard error; the others go on. Signals that end the script do not end it:
Slurm sends them to every process of a job step, and what the script does then is still to be written.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Sequence

from pipebench.errors import PipebenchError, UsageError, said_by
from pipebench.host.redaction import inert
from pipebench.watch.log.sinks import Open, Point, destinations, opened

_OF_THE_SCRIPT = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def main(asked: Sequence[str]) -> None:
    """Opens the sinks, then writes until its standard input ends."""
    for one in _OF_THE_SCRIPT:  # so the processes that a sink starts ignore them too
        signal.signal(one, signal.SIG_IGN)
    answers, errors = _kept(1), _kept(2)
    try:
        sinks, problem = opened(destinations(asked)), None
    except PipebenchError as error:
        sinks, problem = {}, (error.problem, error.remedy, isinstance(error, UsageError))
    except Exception as error:
        said = f"{type(error).__name__}: {said_by(error)}"
        sinks, problem = {}, (f"--log does not work: {said}", "leave it out, or mend its destination", False)
    os.write(answers, (json.dumps(problem) + "\n").encode())
    for text in sys.stdin if problem is None else ():
        point = Point(**json.loads(text))
        _each(sinks, lambda sink, point=point: sink.write(point), errors)  # type: ignore[misc]  # mypy cannot infer it
    _each(sinks, lambda sink: sink.close(), errors)


def _kept(descriptor: int) -> int:
    """Another descriptor of a standard stream, to which the libraries do not write any more."""
    kept, nowhere = os.dup(descriptor), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
    return kept


def _each(sinks: dict[str, Open], act: Callable[[Open], object], errors: int) -> None:
    """Lets each sink act, and drops those that fail."""
    for name, sink in list(sinks.items()):
        try:
            act(sink)
        except Exception as error:
            del sinks[name]
            said = inert(f"--log {name} ends here ({type(error).__name__}: {said_by(error)}); the run goes on")
            os.write(errors, f"pipebench: {said}\n".encode())
