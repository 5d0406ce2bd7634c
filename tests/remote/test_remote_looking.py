"""The first look: images and bytes of a shard's beginning, through faults; and one line where there is nothing."""

import gzip
import io
import os
import tarfile

import pytest
from servers import faulty, shard, tar_of

from pipebench.errors import PipebenchError
from pipebench.remote import fetching, looking


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(fetching, "_FIRST_PAUSE_S", 0.001)


def looked(content, tmp_path, plan=(), retries=2):
    with faulty(content) as server:
        server.plan["a.tar"] = list(plan)
        copy = tmp_path / "copy"
        return looking.look(fetching.Fetcher(0.3), server.url("a.tar"), copy, 0.3, retries), copy.read_bytes()


@pytest.mark.parametrize("plan", [(), ("half", "503"), ("stall",), ("reset", "reset-at-once")])
def test_images_and_bytes_are_those_of_the_attempt_that_came_whole(tmp_path, plan):
    content = shard(40)
    found, copy = looked(content, tmp_path, plan)
    assert found.images == 40 and copy == content
    assert len(content) - 10240 - 4096 <= found.looked_bytes <= len(content)
    assert sum(found.tally.failures.values()) == len(plan) == found.tally.retries


def test_a_compressed_shard_counts_the_bytes_that_cross_the_network(tmp_path):
    content = gzip.compress(tar_of([os.urandom(1000)] * 30) + bytes(10240))
    found, _ = looked(content, tmp_path)
    assert found.images == 30 and found.looked_bytes <= len(content)


def test_of_a_long_shard_the_beginning_is_enough(tmp_path, monkeypatch):
    monkeypatch.setattr(looking, "LOOK_BYTES", 200_000)
    content = shard(400)
    found, copy = looked(content, tmp_path)
    assert 16 <= found.images < 400 and 200_000 <= len(copy) < 300_000
    assert found.looked_bytes / found.images == pytest.approx(len(content) / 400, rel=0.4)


def test_where_retries_end_what_came_is_used(tmp_path):
    found, _ = looked(shard(40), tmp_path, ["half!"])
    assert 10 < found.images < 30 and found.tally.given_up == 1


@pytest.mark.parametrize(
    ("plan", "says", "remedy"),
    [
        (["403!"], "http-403 × 1 in 1 attempt", "credentials"),
        (["empty!"], "empty × 1 in 1 attempt", "no byte"),
        (["round!"], "redirected × 1 in 1 attempt", "without an end"),
        (["429!"], "http-429 × 3 in 3 attempts", "fewer --connections"),
        (["503!"], "http-503 × 3 in 3 attempts", "later"),
        (["404!"], "http-404 × 1 in 1 attempt", "check the address"),
        (["silent!"], "timed-out × 3 in 3 attempts", "--timeout"),
        (["reset-at-once!"], "reset × 3 in 3 attempts", "resets"),
    ],
)
def test_a_shard_that_does_not_come_is_one_line_with_its_remedy(tmp_path, plan, says, remedy):
    with faulty(b"") as server, pytest.raises(PipebenchError) as caught:
        server.plan["a.tar"] = plan
        looking.look(fetching.Fetcher(0.3), server.url("a.tar"), tmp_path / "copy", 0.3, 2)
    assert says in caught.value.problem and remedy in caught.value.remedy


@pytest.mark.parametrize(("copy", "says"), [("/dev/full", "No space left"), ("gone/copy", "No such file")])
def test_a_copy_that_cannot_be_written_is_no_fault_of_the_server(tmp_path, copy, says):
    with faulty(shard(40)) as server, pytest.raises(PipebenchError, match=f"cannot write .*: {says}") as caught:
        looking.look(fetching.Fetcher(0.3), server.url("a.tar"), tmp_path / copy, 0.3, 2)
    assert "set TMPDIR" in caught.value.remedy


def _endless():
    member = tarfile.TarInfo("a.jpg")
    member.size = 8**11 - 1
    return member.tobuf(tarfile.USTAR_FORMAT) + bytes(100_000)


@pytest.mark.parametrize("content", [b"<html>", os.urandom(300_000), tar_of([]), _endless()])
def test_what_is_no_shard_ends_too(tmp_path, content):
    with pytest.raises(PipebenchError, match=r"holds no image|hold 0 whole images"):
        looked(content, tmp_path)


def test_a_member_counts_once_it_came_whole(tmp_path):
    """An image of 3,000 bytes with its class has 4,608 in the tar."""
    content = tar_of([os.urandom(3000)] * 40)
    with pytest.raises(PipebenchError) as caught:
        looked(content[: 5 * 4608 + 512 + 700], tmp_path)
    assert "hold 5 whole images, and then it is no tar any more" in caught.value.problem
    found, _ = looked(content[: 20 * 4608 + 512 + 700], tmp_path)
    assert found.images == 20 and found.looked_bytes >= 20 * 4608


def test_one_cut_image_gives_no_rate(tmp_path):
    with pytest.raises(PipebenchError) as caught:
        looked(tar_of([os.urandom(600)])[:560], tmp_path)
    assert caught.value.problem == (
        "the first 560 B of the first shard hold 0 whole images, and then it is no tar any more: no rate of images "
        "follows from less than 16"
    )
    assert "tar tf" in caught.value.remedy


def test_few_images_are_enough_where_they_are_the_whole_shard(tmp_path):
    found, _ = looked(tar_of([os.urandom(600)] * 3), tmp_path)
    assert found.images == 3 and found.came


def test_few_images_of_a_shard_that_never_comes_whole_are_not(tmp_path):
    with pytest.raises(PipebenchError) as caught:
        looked(tar_of([os.urandom(3000)] * 20), tmp_path, ["half!"])
    assert "cut-short × 3 in 3 attempts" in caught.value.problem and "whole images" in caught.value.problem
    assert "ends its answers" in caught.value.remedy


def test_of_large_images_it_reads_on_until_there_are_enough_but_keeps_only_the_beginning(tmp_path, monkeypatch):
    monkeypatch.setattr(looking, "LOOK_BYTES", 100_000)
    content = tar_of([os.urandom(30_000)] * 400)
    found, copy = looked(content, tmp_path)
    assert 16 <= found.images < 300 and len(copy) < 200_000


def test_a_server_that_is_too_slow_for_images_is_said_to_be_so(tmp_path, monkeypatch):
    monkeypatch.setattr(looking, "LOOK_S", 0.3)
    with faulty(shard(40), bytes_per_s=2e5) as server, pytest.raises(PipebenchError, match=r"whole images?, in 0 s"):
        looking.look(fetching.Fetcher(2), server.url("a.tar"), tmp_path / "copy", 2, 0)


def test_the_local_copy_has_readings(tmp_path):
    copy = tmp_path / "copy"
    copy.write_bytes(os.urandom(1 << 20))
    found = looking.local(copy)
    assert found.size_bytes == 1 << 20 and len(found.warm_bytes_per_s) == 5 and min(found.warm_bytes_per_s) > 0
    copy.write_bytes(bytes((1 << 20) - 1))
    assert looking.local(copy) is None


def test_a_tar_without_images_is_said(tmp_path):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("a.txt"))
    with pytest.raises(PipebenchError, match="holds no image"):
        looked(file.getvalue(), tmp_path)
