"""Whether Ray can be used: asked before anything is imported or measured."""

from __future__ import annotations

import socket
from importlib.util import find_spec

from pipebench.errors import PipebenchError, UsageError, install, said_by
from pipebench.units import printable

REACHED_WITHIN_S = 5.0


def need_ray() -> None:
    """Raises `PipebenchError` if Ray Data is missing. Nothing is imported."""
    lacks = [name for name in ("ray", "pyarrow") if find_spec(name) is None]
    if lacks:
        raise PipebenchError(
            f"--engine ray needs {' and '.join(lacks)}, which pipebench alone does not bring",
            install("lab,ray"),
        )


def check_reached(address: str) -> None:
    """Raises `PipebenchError` within seconds if nothing listens at the address of a cluster: `host:port`.

    `UsageError` for what is no such address.
    """
    if "://" in address:
        raise UsageError(
            f"--ray-address {printable(address)} is not the address of a cluster",
            "run pipebench on a node of the cluster and name its head as HOST:6379; Ray's client (ray://) is not used",
        )
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise UsageError(f"--ray-address {printable(address)} is no address", "write it as HOST:6379")
    try:
        socket.create_connection((host.strip("[]"), int(port)), REACHED_WITHIN_S).close()
    except OSError as error:
        why = error.strerror or said_by(error) or type(error).__name__
        raise PipebenchError(
            f"no Ray cluster answers at {printable(address)}: {printable(why)}",
            "start its head there (ray start --head), and this machine as a node of it (ray start --address HOST:6379)",
        ) from error
