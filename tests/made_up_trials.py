"""Made-up figures of watched runs, for the parts that decide."""

from dataclasses import replace

from pipebench.remedies.seen import Seen
from pipebench.results.host_use import HostUse, ThreadPool
from pipebench.results.watched import LoaderResult, PhaseResult, Verdict, WatchResult, WorkerResult

LOADER = LoaderResult(
    loader=1, dataset="Photos", workers=2, batch_size=8, start_method="fork", watched=True, training=True, passes=1,
    iterations=100, s_per_iteration=0.1, wait_s_per_iteration=0.05, startup_s=0.05, first_batch_s=0.05,
    later_first_batch_s=None, later_startup_s=None, pass_end_s=None, samples=800, sample_s=0.01, sample_cpu_s=0.01,
    sample_p50_s=None, sample_p95_s=None, sample_p99_s=None, failed_batches=0,
)  # fmt: skip
SETTINGS = {"num_workers": 2, "prefetch_factor": 2, "persistent_workers": False, "pin_memory": False, "in_order": True}


def host(*pools):
    found = (ThreadPool("script", name, threads, setting) for name, threads, setting in pools)
    return HostUse(None, None, None, None, None, None, None, None, None, None, None, tuple(found))


def worker(threads=2, pss_bytes=300_000_000):
    return WorkerResult(1, 0, (11,), 50, 400, 0, 1.0, 1.0, 0.9, 0.0, 0, True, None, pss_bytes, None, None, threads)


def _loop(wait_share):
    return tuple(PhaseResult(name, 0.1 * one, one) for name, one in (("wait", wait_share), ("forward", 1 - wait_share)))


def watched(wait_share=0.5, loader=LOADER, cores=2.0, used=None, workers=()):
    return WatchResult(
        verdict=Verdict("data", wait_share=wait_share, wait_s=0.1 * wait_share, iteration_s=0.1, loader=1, workers=2),
        next_move=None, stages=(), iterations=100, wait_share=wait_share, hand_off=None, workers=tuple(workers),
        loop=_loop(wait_share),
        startup_s=None, start_method="fork", slowest=(), loaders=(loader,), loaders_in_loop=(1,), wait_p50_s=None,
        wait_p95_s=None, wait_p99_s=None, iteration_p50_s=None, iteration_p95_s=None, iteration_p99_s=None,
        device_idle=None, usable_cores=cores, status=0, complete=True, notes=(), host=used,
    )  # fmt: skip


def seen(wait_share=0.5, batches=1000, loader=LOADER, cores=2.0, used=None, workers=(), **changed):
    settings = {**SETTINGS, **changed}
    loader = replace(loader, workers=settings["num_workers"])
    return Seen(watched(wait_share, loader, cores, used, workers), loader, settings, batches, free_bytes=8e9)
