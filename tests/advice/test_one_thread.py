"""One thread in each worker: what is written limits the pools that were limited while it was tried."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest
from made_up_trials import host, seen, worker

from pipebench.remedies import one_thread
from pipebench.render import advice_lines
from pipebench.results.advice import Change
from pipebench.results.host_use import ThreadPool

BUSY = (replace(worker(threads=4), cores=1.2),) * 2
BLAS = ("OpenBLAS", 4, "OPENBLAS_NUM_THREADS=1")
TORCH = ("torch", 4, "torch.set_num_threads(1)")
OPENMP = ("OpenMP (libgomp)", 4, "OMP_NUM_THREADS=1")


def _pools(script, workers=()):
    used = host(*script)
    used = replace(used, pools=(*used.pools, *(ThreadPool("workers", *one) for one in workers)))
    change = one_thread.propose(seen(used=used, workers=BUSY), [])
    return change.pools if change is not None else None


def test_pools_that_workers_have_are_named_also_those_of_torch():
    one = ("OpenBLAS", 1, BLAS[2])
    assert _pools([BLAS, TORCH], [one, TORCH]) == (TORCH[2],)
    assert _pools([TORCH], [BLAS, OPENMP]) == (BLAS[2], OPENMP[2])
    assert _pools([BLAS], [one]) is None


def test_until_workers_tell_any_pool_of_the_script_may_be_what_worked():
    assert _pools([BLAS, TORCH, OPENMP]) == (BLAS[2], TORCH[2], OPENMP[2])
    assert _pools([TORCH, OPENMP]) is None


@pytest.mark.parametrize("worked", [None, 4])
def test_workers_that_leave_half_of_the_cores_idle_do_not_compete(worked):
    used = replace(host(BLAS), worker_native_threads=worked)
    for cores, asked in ((2.0, True), (8.0, False)):
        assert (one_thread.propose(seen(used=used, workers=BUSY, cores=cores), []) is not None) is asked


_IN_A_WORKER = """
import json, os, sys, cv2, numpy, threadpoolctl, torch
from pipebench.watch.record import thread_pools
before = thread_pools.library_threads().pools
exec(sys.argv[1])
after = thread_pools.library_threads().pools
settings = {name: value for name, value in os.environ.items() if name.endswith("_NUM_THREADS")}
thread_pools.limit_to_one()
print(json.dumps([before, after, thread_pools.library_threads().pools, settings]))
"""


def test_what_is_written_does_what_was_tried():
    pools = ("torch.set_num_threads(1)", "cv2.setNumThreads(0)", "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1")
    lines = list(advice_lines.one_thread(Change("one_thread", {}, one_thread=True, pools=pools), "train.py:3"))
    written = "\n".join(one.strip() for one in lines if one.startswith("  "))
    several = {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", _IN_A_WORKER, written], capture_output=True, text=True, check=True,
        env={"PATH": "", "PYTHONPATH": ":".join(sys.path), **several},
    )  # fmt: skip
    before, after, tried, settings = json.loads(done.stdout.splitlines()[-1])
    assert {name for name, threads, _ in before if threads > 1} >= {"torch"}
    assert after == tried and all(threads <= 1 for _, threads, _ in after)
    assert settings == {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
