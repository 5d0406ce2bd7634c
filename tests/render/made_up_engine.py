"""A run under Ray Data, made by hand: of two nodes that feed a trainer, one is lost."""

from __future__ import annotations

from dataclasses import replace

from pipebench.results.engine import Arm, Blocked, EngineRun, Node, Operator, Outputs, Source, StageCost
from pipebench.results.measurement import Warning
from pipebench.results.windows import Throughput


def arm(source: Source, rate: float, wait: float, cpu_s: float | None = None, start_s: float | None = None) -> Arm:
    """Six windows of 64 samples, within 10 % of a rate."""
    readings = tuple(64 / rate * (0.95 + 0.02 * place) for place in range(6))
    found = Throughput(readings, (64,) * 6, rate, 0.95 * rate, 1.05 * rate, 0.96875)
    return Arm(source, found, (wait,) * 6, (64 * cpu_s,) * 6 if cpu_s else (), (start_s,) * 6 if start_s else ())


LOCAL = EngineRun(
    "Ray Data 2.60.0", "photos", "step/small on images of 32×32, one CPU thread", 16, 1, 1.0, True,
    (Node(1.0, trainer=True),),
    (arm("ready", 900, 0.0, 0.0011), arm("torch", 90, 0.85, 0.0122), arm("ray", 60, 0.9, 0.0155, 0.25)),
    5.7, 6.4,
    (Operator("ReadRange", 1024, 0.0624, 0.0563, 8192.0),
     Operator("MapBatches(reference_pipeline)", 1024, 15.4, 14.1, 6.2e8)),
    (StageCost("read", 4e-5), StageCost("decode + crop", 0.0117), StageCost("transform", 0.0018),
     StageCost("collate", 0.0001)),
    0.0141, Blocked(16.2, 16.4), Outputs(7, 1152, 32, 0.0, "given up"),
)  # fmt: skip
CLUSTER = replace(
    LOCAL,
    cores=2.0,
    local=False,
    nodes=(Node(0.0, trainer=True), Node(1.0), Node(1.0, lost=True)),
    arms=(arm("ready", 900, 0.0), arm("torch", 90, 0.85), arm("ray", 100, 0.8, start_s=2.1)),
    outputs=Outputs(7, 1152, 32, 0.011, "given up"),
    spilled_bytes=3e8,
    samples_failed=2,
    notes=("Ray's statistics do not say how long the loop waited",),
    blocked=None,
    warnings=(Warning("unstable", "the readings differ by 40 %", "end other programs"),),
)
