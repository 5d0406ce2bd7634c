"""A CSV file with one line for each figure, because which series there are is not known at the start."""

from __future__ import annotations

import csv

from pipebench.watch.log.sinks import Point

PLACE = "FILE"


class Sink:
    def __init__(self, place: str) -> None:
        self._file = open(place, "w", newline="", encoding="utf-8")  # noqa: SIM115  # as long as the run
        self._rows = csv.writer(self._file)
        self._rows.writerow(("at_s", "program", "iteration", "series", "value"))

    def write(self, point: Point) -> None:
        for name, value in point.values.items():
            self._rows.writerow((f"{point.at_s:.3f}", point.program, point.iteration, name, value))
        self._file.flush()

    def close(self) -> None:
        self._file.close()
