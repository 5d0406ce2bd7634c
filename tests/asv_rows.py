"""An asv suite, collected and run as asv does it, in one process of its own, over any checkout of pipebench."""

import json
import os
import sys
from pathlib import Path

import warm

ROOT = Path(__file__).absolute().parent.parent
RUN = """
import json, sys, traceback
from asv_runner._aux import update_sys_path
from asv_runner.discovery import disc_benchmarks
root, how = sys.argv[1:]
update_sys_path(root)

class Once:
    number = repeat = rounds = 1
    warmup_time = 0.0

# what a smoke test measures has no meaning
SMALL = {"BATCH_SIZE": 4, "BATCHES": 1, "IMAGES": 32, "WINDOW": 2, "BLOCK_S": 0.0}

def sets_of(benchmark):
    sets = 1
    for values in benchmark.params:
        sets *= len(values)
    return range(sets if how == "whole" else 1)

found = []
collected = list(disc_benchmarks(root))  # versions are made with the usual sizes
for name, module in list(sys.modules.items()):
    for size in SMALL if name.startswith("benchmarks.") else ():
        if hasattr(module, size):
            setattr(module, size, SMALL[size])
for benchmark in collected:
    for index in sets_of(benchmark):
        if benchmark.params:
            benchmark.set_param_idx(index)
        benchmark._attr_sources.insert(0, Once)
        row = {"name": benchmark.name, "version": benchmark.version, "params": [*map(str, benchmark._current_params)]}
        row.update(all_params=[[*map(str, one)] for one in benchmark.params], param_names=[*benchmark.param_names])
        row.update(unit=getattr(benchmark, "unit", None))
        try:
            if how == "listed":
                row["outcome"] = None
            elif benchmark.do_setup():
                row["outcome"] = "n/a"
            else:
                benchmark._load_vars() if hasattr(benchmark, "_load_vars") else None
                value = benchmark.do_run()
                benchmark.do_teardown()
                row["outcome"] = value["samples"][0] if isinstance(value, dict) else value
        except BaseException:
            row["outcome"] = "failed: " + traceback.format_exc()
        row["pipebench"] = sys.modules["pipebench"].__file__ if "pipebench" in sys.modules else None
        found.append(row)
sys.stderr.write("RESULT " + json.dumps(found) + chr(10))
"""


def collected(how, suite=ROOT, package=ROOT, *, rows="all"):
    """The suite of one checkout over the package of another; with `rows=""`, its long view.

    `how` is `whole` (each parameter set, once), `first` (the first one of each benchmark), or `listed`: nothing is run,
    and the rows say what asv knows of each benchmark. One process runs all of them, on small batches. The suite imports
    torch before anything forks.
    """
    command = [sys.executable, "-c", RUN, str(suite / "benchmarks"), how]
    environment = {**os.environ, "PYTHONPATH": str(package), "PIPEBENCH_SUITE": rows}
    done = warm.run(command, capture_output=True, text=True, timeout=900, cwd="/", env=environment)
    assert "RESULT " in done.stderr, done.stderr[-3000:]
    return json.loads(done.stderr.rpartition("RESULT ")[2])
