"""An asv suite, collected and run as asv does it, in one process of its own, over any checkout of pipebench."""

import json
import os
import subprocess
import sys
from pathlib import Path

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

def some_of(benchmark):
    sets = 1
    for values in benchmark.params:
        sets *= len(values)
    return range(sets if how in ("whole", "thrifty") else 1)

found = []
for benchmark in disc_benchmarks(root):
    enough = False
    for index in some_of(benchmark):
        if enough and how == "thrifty" and not benchmark.name.endswith("time_sample"):
            break  # starting workers takes seconds: one parameter set of each benchmark is enough of a smoke test
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
                enough = True
        except BaseException:
            row["outcome"] = "failed: " + traceback.format_exc()
        row["pipebench"] = sys.modules["pipebench"].__file__ if "pipebench" in sys.modules else None
        found.append(row)
sys.stderr.write("RESULT " + json.dumps(found) + chr(10))
"""


def collected(how, suite=ROOT, package=ROOT):
    """The suite of one checkout over the package of another.

    `how` is `whole`, `thrifty`, `first` (the first parameter set of each benchmark), or `listed`: nothing is run, and
    the rows say what asv knows of each benchmark. One process runs all of them. The suite imports torch before anything
    forks.
    """
    command = [sys.executable, "-c", RUN, str(suite / "benchmarks"), how]
    environment = {**os.environ, "PYTHONPATH": str(package)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, cwd="/", env=environment)
    assert "RESULT " in done.stderr, done.stderr[-3000:]
    return json.loads(done.stderr.rpartition("RESULT ")[2])
