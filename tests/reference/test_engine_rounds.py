"""Rounds with an engine in this process, which does what Ray's workers do: what is checked, and what is counted."""

import sys
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from pipebench.errors import BadSample, PipebenchError
from pipebench.reference import engine_rounds, ray_cluster
from pipebench.reference.dataloader import reference
from pipebench.reference.engine_rounds import Batches, Compared, Plan, Rounds
from pipebench.reference.pipeline import FLOATS, Photographs, good
from pipebench.reference.ray_statistics import Statistics
from pipebench.reference.ray_work import STAGES, Work, make, reason
from pipebench.reference.training_loop import Simulated
from pipebench.results.engine import EngineRun, Node, Operator
from pipebench.results.loading import Loading
from pipebench.task import Workload

WORKLOAD = Workload(data="tiny", batch_size=4)
KEYS = [one.key for one in good(WORKLOAD)]
WORK = Work(WORKLOAD, FLOATS, len(KEYS), 1)
STATISTICS = Statistics((Operator("MapBatches(make)", 8, 0.4, 0.3, 1e6),), 0.5)


class FakeCluster:
    local, library, notes, cores = True, "Ray Data 0", ["a note"], 1.0

    def look(self):
        return (Node(1.0, True), Node(1.0, lost=True))


def fake(change=lambda number, columns: columns, order=None):
    def batches(work, samples, batch_size, pin_memory, keep):
        blocks = [range(begin, min(samples, begin + batch_size)) for begin in range(0, samples, batch_size)]
        for number in order or range(len(blocks)):
            columns = make({"id": np.array(blocks[number])}, work=work)
            columns = change(number, {name: torch.as_tensor(one) for name, one in columns.items()})
            if columns is not None:
                yield columns
        keep(None)

    return batches


@pytest.fixture
def engine(monkeypatch):
    def use(**how):
        monkeypatch.setattr(ray_cluster, "batches", fake(**how))
        monkeypatch.setattr(engine_rounds.ray_statistics, "read", lambda dataset: STATISTICS)

    return use


@contextmanager
def rounds(**more):
    blank = EngineRun("Ray Data 0", "tiny", "nothing", 4, 0, 1.0, True, (), ())
    with reference(WORKLOAD, Loading(workers=0)) as live:
        live.start()
        yield Rounds(FakeCluster(), live, Simulated(1e-6), WORK, blank, KEYS, lambda: 0.0, **more)


def a_pass(samples=16, **more):
    return Batches(WORK, samples, 4, KEYS, **more)


def test_a_block_is_what_the_reference_makes_of_its_places():
    block = make({"id": np.arange(16)}, work=WORK)
    own = Photographs(WORKLOAD, FLOATS)
    assert sorted(block["index"]) == list(range(16)) != list(block["index"])
    for index, image, label in zip(block["index"], block["image"], block["label"], strict=True):
        assert torch.equal(own[int(index)][0], torch.as_tensor(image)) and own[int(index)][1] == label
    assert block["image"].shape == (16, 3, 224, 224) and block["spent"].shape == (16, len(STAGES) + 1)
    assert (block["spent"] > 0).all() and block["spent"][0, :-1].sum() <= block["spent"][0, -1]


def test_more_places_than_images_take_another_order_of_all_of_them():
    first, second = WORK.indices(range(16)), WORK.indices(range(16, 32))
    assert sorted(first) == sorted(second) == list(range(16)) and list(first) != list(second)


def test_a_bad_sample_is_a_row_of_zeros_with_its_reason(tmp_path):
    for place, sample in enumerate(good(WORKLOAD)[:4]):
        (tmp_path / f"{place}.jpg").write_bytes(sample.read()[: 2000 if place == 2 else None])
    workload = Workload(data=str(tmp_path), batch_size=4)
    keys = [one.key for one in good(workload)]
    block = make({"id": np.arange(4)}, work=Work(workload, FLOATS, 4, 0))
    columns = {name: torch.as_tensor(one) for name, one in block.items()}
    place = columns["bad"].nonzero().item()
    assert keys[columns["index"][place]] == "2.jpg" and not columns["image"][place].any()
    assert all(reason(columns["said"][place].numpy()))
    batch = Batches(WORK, 4, 4, keys)._batch(columns)
    assert batch.samples == 3 and [one.sample for one in batch.bad] == ["2.jpg"]


def test_the_rounds_measure_three_sources_and_read_the_statistics(engine):
    engine()
    kept = []
    with rounds() as one:
        found = one.run(Plan(2, 3), kept.append)
    assert [arm.source for arm in found.arms] == ["ready", "torch", "ray"] and len(kept) == 2
    assert all(arm.throughput.samples == (12, 12) and len(arm.wait_shares) == 2 for arm in found.arms)
    assert found.operators == (Operator("MapBatches(make)", 16, 0.8, 0.6, 2e6),)
    assert found.blocked.engine_s == 1.0 and found.blocked.ours_s > 0 and found.whole_s > 0
    assert [one.name for one in found.stages] == list(STAGES) and found.notes == ("a note",)
    outputs = found.outputs
    assert (outputs.passes, outputs.samples, outputs.compared, outputs.order) == (3, 16 + 2 * 28, 16, "kept")
    assert outputs.different == 0 and found.lost == 1


def test_blocks_in_another_order_give_the_order_up(engine):
    engine(order=[2, 0, 3, 1])
    one = a_pass()
    assert sum(batch.samples for batch in one) == 16 and not one.kept


def lost(number, columns):
    return None if number == 1 else columns


def twice(number, columns):
    return {**columns, "place": torch.arange(4)} if number == 1 else columns


def beyond(number, columns):
    return {**columns, "place": columns["place"] + 100}


@pytest.mark.parametrize(
    ("change", "said"), [(lost, "lost 4 of them, and 0"), (twice, "lost 4 of them, and 4"), (beyond, "lost 16 of them")]
)
def test_a_pass_that_loses_or_repeats_samples_is_an_error(engine, change, said):
    engine(change=change)
    with pytest.raises(PipebenchError, match=said):
        list(a_pass())


def test_a_sample_under_another_number_is_an_error(engine):
    engine(change=lambda number, columns: {**columns, "index": columns["index"].flip(0)})
    with pytest.raises(PipebenchError, match="another number"):
        list(a_pass())


@pytest.mark.parametrize(
    "wrong", [{"image": lambda one: one + 0.2}, {"label": lambda one: one + 1}, {"image": lambda one: one.flip(-1)}]
)
def test_pixels_and_labels_are_those_of_our_own_samples(engine, wrong):
    engine(change=lambda number, columns: {**columns, **{name: how(columns[name]) for name, how in wrong.items()}})
    with pytest.raises(PipebenchError, match="differs from our own"):
        list(a_pass(compare=Compared(Photographs(WORKLOAD, FLOATS))))


def test_a_sample_that_is_bad_only_there_is_an_error(engine):
    engine(change=lambda number, columns: {**columns, "bad": torch.ones(4, dtype=torch.bool)})
    with pytest.raises(PipebenchError, match="bad for the engine only") as raised:
        list(a_pass(compare=Compared(Photographs(WORKLOAD, FLOATS))))
    assert "every node" in raised.value.remedy


def test_data_without_a_good_sample_is_an_error(engine):
    engine(change=lambda number, columns: {**columns, "bad": torch.ones(4, dtype=torch.bool)})
    with rounds() as one, pytest.raises(PipebenchError, match="no batch has a good sample"):
        one._window("ray", 2, None)


def test_a_pass_notes_its_bad_samples_once(engine):
    engine(change=lambda number, columns: {**columns, "bad": columns["index"] == 3})
    one = a_pass(samples=32)
    assert sum(batch.samples for batch in one) == 30
    assert list(one.bad) == [KEYS[3]] and isinstance(one.bad[KEYS[3]], BadSample)


def test_a_lost_node_is_remembered(monkeypatch):
    nodes = [{"NodeID": name, "Alive": True, "Resources": {"CPU": 1.0}} for name in "ab"]
    here = SimpleNamespace(get_node_id=lambda: "a")
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(nodes=lambda: nodes, get_runtime_context=lambda: here))
    cluster = ray_cluster.Cluster(False, "Ray Data 0")
    assert cluster.look() == (Node(1.0, True), Node(1.0)) and cluster.cores == 2
    nodes[1] = {**nodes[1], "Alive": False, "Resources": {}}
    assert cluster.look() == (Node(1.0, True), Node(1.0, lost=True)) and cluster.cores == 1
    assert replace(EngineRun("", "", "", 1, 1, 1.0, False, cluster.look(), ())).lost == 1
