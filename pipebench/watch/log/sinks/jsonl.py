"""A file with one line of JSON for each point."""

from __future__ import annotations

import json

from pipebench.watch.log.sinks import Point

PLACE = "FILE"


class Sink:
    def __init__(self, place: str) -> None:
        self._file = open(place, "w", encoding="utf-8")  # noqa: SIM115  # as long as the run

    def write(self, point: Point) -> None:
        self._file.write(json.dumps(vars(point)) + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()
