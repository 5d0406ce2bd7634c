"""Reads of libraries for remote files: each is counted once, by its bucket or host, while a thread fetches a batch."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from pipebench.watch.record.exclusive_time import StageTimer, local
from pipebench.watch.record.patches import Patches
from pipebench.watch.record.read_lines import PlaceReads
from pipebench.watch.record.reads import MOST, Reads
from pipebench.watch.stages import remote_reads, timed_reads

SIZE = 100_000
BODY = bytes(range(250)) * (SIZE // 250)


class Timed:
    """What was read while a batch was fetched, and the number of requests that the server had."""

    def __init__(self) -> None:
        self.address = ""
        self.requests = self.failing = 0
        self.delay_s = 0.0

    def reads(self, act: Callable[[], Any]) -> dict[tuple[str, str], PlaceReads]:
        timer = local.timer = StageTimer()
        try:
            act()
        finally:
            local.timer = None
        return {(one.kind, one.name): one for one in timer.reads.take()}

    def one(self, act: Callable[[], Any]) -> PlaceReads:
        (found,) = self.reads(act).values()
        return found


@pytest.fixture
def server() -> Iterator[Timed]:
    """Answers every GET with the body, or a range of it, after its first `failing` requests got a 503."""
    found = Timed()

    class Answers(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self.answer(False)

        def do_GET(self) -> None:
            found.requests += 1
            if found.failing:
                found.failing -= 1
                self.send_response(503)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            time.sleep(found.delay_s)
            self.answer(True)

        def answer(self, whole: bool) -> None:
            asked = self.headers.get("Range")
            first, last = map(int, asked.removeprefix("bytes=").split("-")) if asked else (0, SIZE - 1)
            part = BODY[first : last + 1]
            self.send_response(206 if asked else 200)
            self.send_header("Content-Length", str(len(part)))
            self.send_header("Accept-Ranges", "bytes")
            self.send_header("ETag", '"1"')
            self.send_header("Last-Modified", "Mon, 02 Nov 2026 10:00:00 GMT")
            if asked:
                self.send_header("Content-Range", f"bytes {first}-{first + len(part) - 1}/{SIZE}")
            self.end_headers()
            if whole:
                with contextlib.suppress(ConnectionError):  # a client that leaves the rest
                    self.wfile.write(part)

        def log_message(self, *args: Any) -> None:
            pass

    serving = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=serving.serve_forever, daemon=True).start()
    found.address = f"http://127.0.0.1:{serving.server_port}"
    yield found
    serving.shutdown()
    serving.server_close()


def functions(module: Any) -> dict[str, Any]:
    """The functions of a module and the methods of its classes."""
    found = {name: one for name, one in vars(module).items() if callable(one)}
    kinds = [one for one in found.values() if isinstance(one, type) and one.__module__ == module.__name__]
    return found | {f"{one.__name__}.{name}": its for one in kinds for name, its in vars(one).items() if callable(its)}


@pytest.fixture
def patched() -> Iterator[Any]:
    """Watches modules; afterwards all is as it was."""
    patches, modules = Patches(), {}
    for name in remote_reads.WATCHED:
        with contextlib.suppress(ImportError):
            modules[name] = importlib.import_module(name)
    before = {name: functions(one) for name, one in modules.items()}

    def watch(*names: str) -> None:
        for name in names:
            remote_reads.WATCHED[name](patches, pytest.importorskip(name))
        patches.rebind()

    yield SimpleNamespace(watch=watch, undo=patches.undo)
    patches.undo()
    assert {name: functions(one) for name, one in modules.items()} == before


@pytest.fixture
def files(patched: Any) -> Any:
    patched.watch("fsspec.spec", "fsspec.asyn")
    return pytest.importorskip("fsspec")


def system(fsspec: Any, delay_s: float = 0.0) -> Any:
    """A file system whose files have a size, and whose fetches take time."""

    class File(fsspec.spec.AbstractBufferedFile):  # type: ignore[misc]
        def _fetch_range(self, start: int, end: int) -> bytes:
            time.sleep(delay_s)
            return BODY[start:end]

    class System(fsspec.spec.AbstractFileSystem):  # type: ignore[misc]
        protocol, cachable = ("far", "farther"), False

        def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
            return {"name": path, "size": SIZE, "type": "file"}

        def _open(self, path: str, mode: str = "rb", **kwargs: Any) -> Any:
            return File(self, path, mode, **{"block_size": 25_000, **kwargs})

    return System()


def test_each_fetch_of_a_buffered_file_is_a_read_and_what_its_cache_gives_is_none(files: Any) -> None:
    far = system(files)

    def sample() -> None:
        with far.open("far://bucket/a/b", cache_type="none") as file:
            assert file.read(10_000) + file.read(90_000) == BODY
        with far.open("other/c", cache_type="all") as file:
            assert [file.read(1) for _ in range(100)] and file.read()

    found = Timed().reads(sample)
    one, other = found["far", "bucket"], found["far", "other"]
    assert (one.reads, one.read_bytes, one.opens, one.retries) == (2, SIZE, 1, None)
    assert (other.reads, other.read_bytes, other.opens) == (1, SIZE, 0 + 1)
    assert sum(one.lengths.values()) == 2


def test_nothing_is_timed_where_no_batch_is_made_and_afterwards(files: Any, patched: Any) -> None:
    far = system(files)
    with far.open("bucket/a") as file:
        assert file.read() == BODY
    patched.undo()
    timed = Timed()
    assert timed.reads(lambda: far.cat_file("bucket/a")) == {}


def test_files_of_this_machine_and_of_memory_are_no_remote_ones(files: Any, tmp_path: Any) -> None:
    (tmp_path / "a").write_bytes(BODY)
    memory = files.filesystem("memory")
    memory.pipe("/b/a", BODY)
    act = lambda: (files.open(f"file://{tmp_path}/a").open().read(), memory.cat("/b/a"))  # noqa: E731
    assert Timed().reads(act) == {}


def test_a_text_file_is_opened_once(files: Any) -> None:
    one = Timed().one(lambda: system(files).open("bucket/a", "r", encoding="latin1").read())
    assert one.opens == 1 and one.read_bytes == SIZE


def test_a_read_that_fails_takes_its_time_and_fails_as_before(files: Any) -> None:
    far = system(files)
    file = far.open("bucket/a", cache_type="none")
    type(file)._fetch_range, plain = (lambda *_: 1 / 0), type(file)._fetch_range
    type(file)._fetch_range = timed_reads.timed_read(type(file)._fetch_range, remote_reads._of_file)
    file = far.open("bucket/a", cache_type="none")

    def sample() -> None:
        with pytest.raises(ZeroDivisionError):
            file.read(5)

    one = Timed().one(sample)
    assert (one.reads, one.read_bytes) == (1, 0)
    type(file)._fetch_range = plain


@pytest.mark.slow
def test_a_planted_delay_is_the_median(files: Any) -> None:
    far = system(files, 0.05)

    def sample() -> None:
        with far.open("bucket/a", cache_type="none") as file:
            for _ in range(20):
                file.read(1_000)

    one = Timed().one(sample)
    assert one.reads == 20 and 1.0 <= one.read_ns / 1e9 < 2.0


def test_objects_of_the_web_are_counted_by_their_host(files: Any, server: Timed) -> None:
    pytest.importorskip("aiohttp")
    web = files.filesystem("http")
    url = f"{server.address}/a/b?token=secret"

    def sample() -> None:
        assert web.cat_file(url) == BODY
        assert web.cat([url, f"{server.address}/c"])[url] == BODY
        with web.open(url, block_size=50_000) as file:
            assert file.read(60_000) == BODY[:60_000]

    found = server.reads(sample)
    assert [*found] == [("http", server.address.removeprefix("http://"))]
    (one,) = found.values()
    assert one.opens == 1 and one.read_bytes >= 3 * SIZE + 60_000
    assert one.reads == 3 or one.reads == 4  # the last is in one fetch or two


def _client(address: str) -> Any:
    boto3, config = pytest.importorskip("boto3"), pytest.importorskip("botocore.config")
    how = config.Config(retries={"max_attempts": 4, "mode": "standard"}, s3={"addressing_style": "path"})
    keys = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "region_name": "us-east-1"}
    return boto3.client("s3", endpoint_url=address, config=how, **keys)


def test_an_object_of_boto3_is_one_read_with_its_body_and_its_retries(patched: Any, server: Timed) -> None:
    patched.watch("botocore.client", "botocore.response")
    client = _client(server.address)
    server.failing = 2
    one = server.one(lambda: client.get_object(Bucket="photos", Key="a")["Body"].read())
    assert (one.kind, one.name, one.reads, one.read_bytes, one.retries) == ("s3", "photos", 1, SIZE, 2)
    assert server.requests == 3


def test_a_body_that_is_read_in_parts_or_left_is_one_read(patched: Any, server: Timed) -> None:
    patched.watch("botocore.client", "botocore.response")
    client = _client(server.address)

    def sample() -> None:
        for _ in client.get_object(Bucket="photos", Key="a")["Body"].iter_chunks(10_000):
            pass
        client.get_object(Bucket="photos", Key="a")["Body"].read(1_000)
        client.head_object(Bucket="photos", Key="a")

    one = server.one(sample)
    assert (one.reads, one.read_bytes, one.retries, one.opens) == (2, SIZE + 1_000, 0, 1)


def test_an_object_that_is_saved_to_a_file_is_one_read(patched: Any, server: Timed, tmp_path: Any) -> None:
    client = _client(server.address)
    patched.watch("botocore.client", "botocore.response", "boto3.s3.transfer")
    one = server.one(lambda: client.download_file("photos", "a", str(tmp_path / "a")))
    assert (tmp_path / "a").read_bytes() == BODY
    assert (one.kind, one.name, one.reads, one.read_bytes, one.retries) == ("s3", "photos", 1, SIZE, None)


@pytest.mark.slow
def test_an_object_that_is_not_there_fails_as_before(patched: Any, server: Timed) -> None:
    patched.watch("botocore.client", "botocore.response")
    client, server.failing = _client(server.address), 99

    def sample() -> None:
        with pytest.raises(client.exceptions.ClientError):
            client.get_object(Bucket="photos", Key="a")

    one = server.one(sample)
    assert (one.reads, one.read_bytes, one.retries) == (1, 0, server.requests - 1) and one.retries


def test_retries_of_s3fs_are_counted_with_its_reads(patched: Any, files: Any, server: Timed) -> None:
    s3fs = pytest.importorskip("s3fs")
    patched.watch("s3fs.core")
    store = s3fs.S3FileSystem(
        key="a", secret="b", endpoint_url=server.address, skip_instance_cache=True, cache_regions=False,
        client_kwargs={"region_name": "us-east-1"}, config_kwargs={"retries": {"max_attempts": 1}},
    )  # fmt: skip

    def sample() -> None:
        with store.open("photos/a", cache_type="none") as file:
            assert file.read(1_000) == BODY[:1_000]
        assert store.cat_file("photos/a") == BODY

    one = server.one(sample)
    assert (one.kind, one.name, one.reads, one.read_bytes, one.retries) == ("s3", "photos", 2, SIZE + 1_000, 0)
    assert one.opens == 1


def test_what_a_loop_tries_again_is_told_to_the_thread_that_waits_for_it(patched: Any) -> None:
    core, asyn = pytest.importorskip("s3fs.core"), pytest.importorskip("fsspec.asyn")
    patched.watch("s3fs.core")
    left = itertools.chain([True, True], itertools.repeat(False))

    async def fetch() -> bytes:
        if next(left):
            raise core.S3_RETRYABLE_ERRORS[0]("again")
        return BODY

    async def whole() -> Any:
        return await core._error_wrapper(fetch, retries=5)

    read = timed_reads.timed_read(lambda: asyn.sync(asyn.get_loop(), whole), lambda: ("s3", "photos"))
    one = Timed().one(read)
    assert (one.reads, one.read_bytes, one.retries) == (1, SIZE, 2)


def test_gcsfs_tells_each_time_that_it_tries_again(monkeypatch: Any) -> None:
    module = ModuleType("gcsfs.retry")
    module.is_retriable = bool  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "gcsfs.retry", module)
    patches = Patches()
    remote_reads.WATCHED["gcsfs.retry"](patches, module)
    tries = iter([[1, 1, 0], []])
    read = timed_reads.timed_read(lambda: [*map(module.is_retriable, next(tries))], lambda: ("gs", "photos"))
    assert [Timed().one(read).retries for _ in range(2)] == [2, 0]
    patches.undo()
    assert module.is_retriable is bool


def test_pipes_of_webdataset_are_counted_by_the_host_of_their_command(patched: Any, tmp_path: Any) -> None:
    gopen = pytest.importorskip("webdataset.gopen")
    patched.watch("webdataset.gopen")
    (tmp_path / "a").write_bytes(BODY)

    def sample() -> None:
        with gopen.gopen(f"pipe:cat {tmp_path}/a # https://me:secret@example.org:8443/a.tar") as pipe:
            while pipe.read(10_240):
                pass
        with gopen.gopen(f"pipe:cat {tmp_path}/a") as pipe:
            pipe.read()

    found = Timed().reads(sample)
    assert {place: one.read_bytes for place, one in found.items()} == {
        ("https", "example.org:8443"): SIZE,
        ("pipe", "cat"): SIZE,
    }


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("s3://bucket/a/b.tar", ("s3", "bucket")),
        ("aws s3 cp s3://bucket/a -", ("s3", "bucket")),
        ("https://u:p@Example.org/a?key=1", ("https", "example.org")),
        ("hf://datasets/me/photos/a.tar", ("hf", "datasets/me/photos")),
        ("hf://me/model/a", ("hf", "me/model")),
        ("/data/a.tar", None),
    ],
)
def test_the_place_of_an_address(url: str, found: Any) -> None:
    assert timed_reads.of_url(url) == found


def test_a_process_tells_few_places_and_the_rest_together() -> None:
    reads = Reads()
    for one in range(3 * MOST):
        reads.add(("s3", f"bucket-{one}"), 5, 10)
    found = {one.name: one for one in reads.take()}
    assert len(found) == MOST + 1 and found[""].reads == 2 * MOST and found[""].kind == ""
    reads.add(("s3", "bucket-1"), 5, 10)
    reads.add(("s3", "bucket-40"), 5, 10)
    assert [one.name for one in reads.take()] == ["bucket-1", ""]


def test_a_system_of_somebody_that_cannot_be_asked_is_read_as_before() -> None:
    read = timed_reads.timed_read(lambda file: BODY, remote_reads._of_file)
    local.timer = StageTimer()
    try:
        assert read(SimpleNamespace()) is BODY and local.timer.reads.take() == []
    finally:
        local.timer = None
