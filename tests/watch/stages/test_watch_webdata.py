"""The stages of a webdataset pipeline, each against what was planted in it."""

from __future__ import annotations

import copy
import io
import pickle
import tarfile
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from clockwork import Clock, Rows, run_by
from watching import plain, script, watched

from pipebench import watching
from pipebench.results.watched import Note
from pipebench.watch.script import webdataset_loader

wds = pytest.importorskip("webdataset")
SHARDS, SAMPLES = 2, 6


@pytest.fixture
def shards(tmp_path: Path) -> list[str]:
    """Two shards of six samples, each of a text and a class."""
    found = []
    for shard in range(SHARDS):
        found.append(str(tmp_path / f"{shard}.tar"))
        with tarfile.open(found[-1], "w") as tar:
            for number in range(SAMPLES):
                for suffix, data in (("txt", b"text"), ("cls", str(number).encode())):
                    member = tarfile.TarInfo(f"{shard}{number}.{suffix}")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))
    return found


class Planted:
    """Functions that burn a known time each, for every place in which a pipeline calls one."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def urls(self, shards: list[str]) -> Any:
        def listing(source: list[str]) -> Iterator[dict[str, str]]:
            for url in source:
                self.clock.burn(1_000_000)
                yield {"url": url}

        return [[shards], listing]

    def member(self, name: str) -> bool:
        self.clock.burn(1000)
        return True

    def upper(self, text: str) -> str:
        self.clock.burn(20)
        return text.upper()

    def double(self, number: int) -> int:
        self.clock.burn(300)
        return 2 * number

    def pair(self, sample: dict[str, Any]) -> tuple[str, int]:
        self.clock.burn(7)
        return sample["txt"], sample["cls"]

    def together(self, samples: list[Any]) -> list[Any]:
        self.clock.burn(50_000)
        return samples


class _Halve:
    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def __call__(self, number: int) -> int:
        self.clock.burn(4)
        return number // 2


def _planted(shards: list[str], clock: Clock) -> Any:
    here = Planted(clock)
    decoders = [lambda key, data: clock.burn(100_000) or data.decode() if key.endswith("txt") else None]
    return wds.DataPipeline(
        *here.urls(shards),
        wds.split_by_worker,
        wds.shuffle(2, seed=1),
        wds.cache.StreamingOpen(),
        wds.filters.pipelinefilter(wds.tariterators.tar_file_expander)(select_files=here.member),
        wds.filters.pipelinefilter(wds.tariterators.group_by_keys)(),
        wds.shuffle(3, initial=3, seed=2),
        wds.map(wds.autodecode.Decoder(decoders)),
        wds.map_dict(txt=here.upper, cls=here.double),
        wds.map(here.pair),
        wds.map_tuple(None, _Halve(clock)),
        wds.batched(5, collation_fn=here.together),
    )


def test_each_stage_has_its_own_time(
    shards: list[str], patched: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twelve samples: every planted time is found in the row of its stage, to the nanosecond, and nowhere else."""
    clock = Clock()
    alone = list(_planted(shards, clock))
    rows = Rows(_planted(shards, clock), tmp_path, clock, monkeypatch, batched=False)
    began, batches = clock.now, []
    with pytest.raises(StopIteration):
        while True:
            batches.append(rows.fetch(None))
    samples = SHARDS * SAMPLES
    assert batches == alone and [len(batch) for batch in batches] == [5, 5, 2]
    assert rows.found() == {
        ("transform", "listing"): 1_000_000 * SHARDS,
        ("read", "tar_file_expander"): 1000 * 2 * samples,
        ("decode", "Decoder"): 100_000 * samples,
        ("transform", "upper"): 20 * samples,
        ("transform", "double"): 300 * samples,
        ("transform", "pair"): 7 * samples,
        ("transform", "_Halve"): 4 * samples,
        ("collate", "batched"): 50_000 * len(batches),
    }
    assert sum(rows.found().values()) == clock.now - began
    assert rows.sums.samples == samples and rows.sums.lengths == {}


@pytest.mark.parametrize(
    ("stages", "items", "samples"),
    [
        ([wds.batched(5)], 3, 12),
        ([wds.batched(5, partial=False)], 2, 10),
        ([wds.batched(4), wds.unbatched()], 12, 12),
        ([wds.batched(4), wds.unbatched(), wds.batched(3)], 4, 12),
        ([wds.batched(4), wds.shuffle(2, seed=1)], 3, 12),
        ([wds.batched(4, collation_fn=None), wds.filters.unlisted(), wds.slice(7)], 7, 7),
    ],
)
def test_samples_are_counted_whoever_batches_them(
    stages: list[Any], items: int, samples: int, patched: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = wds.DataPipeline([[(number, number) for number in range(12)]], *stages)
    nested = wds.DataPipeline(pipeline)
    for dataset in (pipeline, nested):
        rows = Rows(dataset, tmp_path, Clock(), monkeypatch, batched=False)
        given = 0
        with pytest.raises(StopIteration):
            while True:
                rows.fetch(None)
                given += 1
        assert (given, rows.sums.samples) == (items, samples)


def test_a_stage_sees_what_it_would_have_seen(patched: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A generator stays one, can be closed, and an error passes through as it is; the pipeline is not changed."""
    seen: list[Any] = []

    def first() -> Iterator[int]:
        try:
            yield from range(5)
        finally:
            seen.append("closed")

    def looks(source: Any) -> Iterator[int]:
        seen.append((isinstance(source, types.GeneratorType), source.gi_code.co_name, iter(source) is source))
        yield next(source)
        source.close()
        raise KeyError("over")

    pipeline = wds.DataPipeline(first, looks, wds.map_tuple(int))
    stages = list(pipeline.pipeline)
    rows = Rows(wds.DataPipeline(first, looks), tmp_path, Clock(), monkeypatch)
    with pytest.raises(KeyError, match="over"):
        rows.fetch([0, 0])
    assert seen == [(True, "first", True), "closed"]
    assert pipeline.pipeline == stages and copy.copy(pipeline).pipeline == stages
    assert pickle.dumps(wds.DataPipeline(range, wds.map_tuple(int)))


def _samples(shards: list[str], workers: int) -> list[Any]:
    torch.manual_seed(0)
    dataset = wds.WebDataset(shards, shardshuffle=False, seed=1).shuffle(4, seed=2).decode().to_tuple("txt", "cls")
    loader = wds.WebLoader(dataset.map_tuple(str.upper, int), batch_size=3, num_workers=workers)
    return [[texts, numbers.tolist()] for texts, numbers in loader]


@pytest.mark.parametrize("workers", [0, 2])
def test_the_rows_of_webdataset_and_webloader(workers: int, shards: list[str]) -> None:
    alone = _samples(shards, workers)
    with watching() as seen:
        assert _samples(shards, workers) == alone
    assert wds.DataPipeline.invoke.__code__.co_filename.endswith("pipeline.py")
    rows = {(one.kind, one.name): one for one in seen.result.stages}
    assert {
        ("read", "SimpleShardList"), ("read", "split_by_worker"), ("read", "StreamingOpen"),
        ("read", "tar_file_expander"), ("read", "group_by_keys"), ("getitem", "shuffle"), ("decode", "Decoder"),
        ("getitem", "to_tuple"), ("transform", "upper"), ("transform", "int"), ("getitem", "WebDataset.__iter__"),
        ("collate", "default_collate"),
    } <= set(rows)  # fmt: skip
    reading = rows["read", "tar_file_expander"]
    assert reading.samples == SHARDS * SAMPLES
    shares = [one.worker_share for one in seen.result.stages if one.kind != "serialise"]
    assert sum(shares) == pytest.approx(1, abs=0.02)


def test_stages_after_the_loader_are_part_of_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve samples in batches of four, taken apart and put together in threes, by a planted clock."""
    clock = Clock()
    run_by(clock, monkeypatch)
    monkeypatch.setattr(webdataset_loader, "perf_counter_ns", clock)

    def burning(nanoseconds: int) -> Any:
        return wds.map(lambda sample: clock.burn(nanoseconds) or sample)

    def run() -> list[list[int]]:
        given = []
        inside = wds.DataPipeline([[(number,) for number in range(12)]], burning(100_000))
        pipeline = wds.WebLoader(inside, batch_size=4).unbatched().batched(3, collation_fn=None)
        for batch in pipeline.compose(burning(7_000)):
            clock.burn(50_000)
            given.append([int(number) for (number,) in batch])
        return given

    alone = run()
    with watching() as seen:
        assert run() == alone == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
    result = seen.result
    assert (result.iterations, result.loaders[0].samples) == (4, 12)
    # the first iteration is not in the table; in the last nothing was left to fetch
    shares = {one.phase: one.s_per_iteration for one in result.loop}
    assert shares["wait"] == pytest.approx((2 * 400_000 + 3 * 7_000) / 3 * 1e-9)
    assert shares["other"] == pytest.approx(50_000e-9)
    (note,) = [one for one in result.notes if isinstance(one, Note) and one.code == "stages-after-loader"]
    assert note.values == {"loader": 1, "s": pytest.approx(7e-6)}
    assert result.account is not None
    rows = {one.code: (round(one.s * 1e9), one.reason) for one in result.account.rows if one.loader and one.s}
    assert rows == {
        "start-up": (407_000, None), "make-batch": (800_000, "faster-loading"),
        "after-loader": (21_000, "more-overlap"), "other": (200_000, None),
    }  # fmt: skip
    assert wds.DataPipeline.__iter__.__code__.co_filename.endswith("pipeline.py")


@pytest.mark.long
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_the_stages_in_workers_that_inherit_nothing(method: str, shards: list[str], tmp_path: Path) -> None:
    argv = [script("webdata"), method, *shards]
    alone, with_us = plain(argv), watched(argv, tmp_path)
    assert (with_us.status, with_us.out) == (alone.status, alone.out) and alone.out, with_us.err
    assert with_us.watch["start_method"] == method
    assert with_us.stage("tar_file_expander", "read")["samples"] == SHARDS * SAMPLES
    assert with_us.stage("upper", "transform")["samples"] == SHARDS * SAMPLES
    assert with_us.stage("batched", "collate")["exclusive_s_per_sample"] > 0
