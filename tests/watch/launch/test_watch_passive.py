"""A watched script computes bit for bit what it computes alone, and finds nothing of ours in its libraries after."""

from __future__ import annotations

from pathlib import Path

import pytest
from watching import Outcome, plain, script, watched


@pytest.fixture(scope="module")
def both(images: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, Outcome]:
    argv = [script("train"), str(images), "none", "fork"]
    return plain(argv), watched(argv, tmp_path_factory.mktemp("both"), {"every": 2})


def test_batches_order_weights_and_generators_are_the_same(both: tuple[Outcome, Outcome]) -> None:
    alone, with_us = both
    assert alone.status == with_us.status == 0
    assert with_us.out == alone.out
    assert len(set(alone.out.split())) > 8


def test_warnings_name_the_same_lines(both: tuple[Outcome, Outcome]) -> None:
    alone, with_us = both
    assert "UserWarning: grain" in alone.err
    assert with_us.err.startswith(alone.err)


def test_every_stage_has_its_row(both: tuple[Outcome, Outcome]) -> None:
    with_us = both[1]
    rows = {(one["loader"], one["name"], one["kind"], one["includes_read"]) for one in with_us.watch["stages"]}
    for loader in (1, 3):
        assert {
            (loader, "ImageFile.load", "decode", True),
            (loader, "Image.open", "read", False),
            (loader, "RandomResizedCrop", "transform", False),
            (loader, "RandomHorizontalFlip", "transform", False),
            (loader, "Grain", "transform", False),
            (loader, "ToTensor", "transform", False),
            (loader, "halve", "transform", False),
            (loader, "ConcatDataset.__getitem__", "getitem", False),
            (loader, "default_collate", "collate", False),
        } <= rows
    for loader in (2, 4):
        assert {
            (loader, "read_file", "read", False),
            (loader, "decode_image", "decode", False),
            (loader, "my label", "label", False),
            (loader, "ToDtype", "transform", False),
            (loader, "Tensors.__getitem__", "getitem", False),
        } <= rows
    assert {(3, "queue feeder thread", "serialise", False), (4, "halve", "transform", False)} <= rows


def test_the_rows_of_a_loader_add_up(both: tuple[Outcome, Outcome]) -> None:
    watch = both[1].watch
    for loader in watch["loaders"]:
        rows = [one for one in watch["stages"] if one["loader"] == loader["loader"] and one["kind"] != "serialise"]
        assert {one["samples"] for one in rows} == {loader["samples"]} == {48}
        assert sum(one["exclusive_s_per_sample"] for one in rows) == pytest.approx(loader["sample_s"])
        assert sum(one["worker_share"] for one in rows) == pytest.approx(1, abs=0.02)
        assert 0 < loader["sample_cpu_s"] <= 1.05 * loader["sample_s"] + 1e-5


def test_loops_are_told_apart(both: tuple[Outcome, Outcome]) -> None:
    watch = both[1].watch
    assert watch["loaders_in_loop"] == [1, 3]
    assert [one["training"] for one in watch["loaders"]] == [True, False, True, False]
    assert [one["iterations"] for one in watch["loaders"]] == [12, 6, 12, 6]
    assert [one["passes"] for one in watch["loaders"]] == [2, 2, 2, 2]
    assert watch["iterations"] == 24
    assert [one["start_method"] for one in watch["loaders"]] == ["none", "none", "fork", "fork"]
    assert all(both[1].phase(name) > 0 for name in ("wait", "forward", "backward", "optimiser", "other"))
    assert both[1].phase("host-to-device") == 0
    assert sum(one["share"] for one in watch["loop"]) == pytest.approx(1)


def test_workers_and_slowest_samples_have_names(both: tuple[Outcome, Outcome], images: Path) -> None:
    watch = both[1].watch
    assert [(one["loader"], one["worker"], len(one["pids"])) for one in watch["workers"]] == [
        (3, 0, 2), (3, 1, 2), (4, 0, 2), (4, 1, 2),
    ]  # fmt: skip
    assert sum(one["samples"] for one in watch["workers"] if one["loader"] == 3) == 48
    assert all(one["ended"] and 0 < one["busy_share"] <= 1 for one in watch["workers"])
    names = {one["name"] for one in watch["slowest"]}
    assert len(watch["slowest"]) == 10
    assert any(name.startswith(str(images)) and name.endswith(".jpg") for name in names)
    assert watch["complete"] and watch["notes"] == []
    hand_off = watch["hand_off"]
    assert watch["startup_s"] > 0 and hand_off["batches"] == hand_off["followed"] == 12
    assert 0 <= hand_off["ready"] <= 4 and 0 <= hand_off["out_of_order"] <= 1


def test_nothing_stays_patched_once_recording_ends(both: tuple[Outcome, Outcome], images: Path, tmp_path: Path) -> None:
    argv = [script("train"), str(images), "none", "fork", "--patched"]
    trace = tmp_path / "trace.json"
    with_us = watched(argv, tmp_path, {"steps": 8, "warmup": 2, "loader": 1, "export_trace": str(trace), "every": 2})
    assert with_us.status == 0, with_us.err
    assert with_us.out.splitlines()[-1] == "[]"
    assert [one["loader"] for one in with_us.watch["loaders"]] == [1]
    assert with_us.watch["iterations"] == 8
    assert with_us.watch["stages"][0]["samples"] == 32
    assert with_us.out.splitlines()[:-1] == both[0].out.splitlines()


@pytest.mark.long
@pytest.mark.parametrize(
    ("method", "persistent"),
    [("none", []), ("fork", ["--persistent"]), ("spawn", []), ("forkserver", ["--persistent"])],
    ids=["none", "fork-persistent", "spawn-anew", "forkserver-persistent"],
)
def test_passive_and_complete_with_each_start_method(
    method: str, persistent: list[str], images: Path, tmp_path: Path
) -> None:
    argv = [script("train"), str(images), method, *persistent]
    alone, with_us = plain(argv), watched(argv, tmp_path)
    assert (with_us.status, with_us.out) == (alone.status, alone.out)
    assert [one["watched"] for one in with_us.watch["loaders"]] == [True, True]
    assert with_us.watch["start_method"] == method
    assert with_us.stage("RandomResizedCrop")["samples"] == 48
    assert with_us.stage("decode_image", "decode")["samples"] == 48
    ends = watched([*argv, "--patched"], tmp_path, {"steps": 8})
    assert (ends.status, ends.out) == (0, alone.out + "[]\n")
    assert sum(one["iterations"] for one in ends.watch["loaders"]) == 8


@pytest.mark.long
@pytest.mark.parametrize(
    ("method", "persistent"), [("fork", []), ("spawn", ["--persistent"])], ids=["fork-anew", "spawn-persistent"]
)
def test_passive_where_lightning_seeds_the_workers(
    method: str, persistent: list[str], images: Path, tmp_path: Path
) -> None:
    pytest.importorskip("pytorch_lightning")
    argv = [script("seeded"), str(images), method, *persistent]
    alone, with_us = plain(argv), watched(argv, tmp_path)
    assert (with_us.status, with_us.out) == (alone.status, alone.out) == (0, alone.out), alone.err
    assert "pl_worker_init_function" in alone.out
    assert [one["watched"] for one in with_us.watch["loaders"]] == [True, True]
    assert [one["training"] for one in with_us.watch["loaders"]].count(True) == 1
    assert with_us.watch["iterations"] == 10  # Lightning asks for no more than there is: the last of a pass has no end
    rows = {(one["loader"], one["name"]) for one in with_us.watch["stages"]}
    assert {name for _, name in rows} >= {"RandomResizedCrop", "Grain", "ImageFile.load", "default_collate"}
    assert all(with_us.phase(name) > 0 for name in ("wait", "forward", "backward", "optimiser", "other"))
