"""Times the reads of boto3 and botocore by bucket, and those of webdataset's pipes by the host of their command."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

from pipebench.watch.record.exclusive_time import local
from pipebench.watch.record.from_handlers import forgiving
from pipebench.watch.record.patches import Patches, unseen
from pipebench.watch.record.reads import Place, Reads, Retries, Stream
from pipebench.watch.stages.timed_reads import attempts, of_url, size_of, timed_open, timed_read

_ASKS = frozenset({"HeadObject", "ListObjects", "ListObjectsV2"})


def watch_transfers(patches: Patches, module: Any) -> None:
    """Times boto3's downloads to a file. Their requests run in threads, for which the caller waits."""
    kind = module.S3Transfer
    patches.replace(kind, "download_file", timed_read(kind.download_file, _of_transfer, _size_of_transfer))


def _of_transfer(transfer: Any, bucket: Any = "", *args: Any, **kwargs: Any) -> Place | None:
    return "s3", str(bucket)


def _size_of_transfer(found: Any, *args: Any, **kwargs: Any) -> int:
    return os.stat(args[3] if len(args) > 3 else kwargs["filename"]).st_size


def watch_client(patches: Patches, module: Any) -> None:
    """Times the calls of botocore's clients that get an object, and those that ask for it."""
    kind = module.BaseClient
    plain = kind._make_api_call
    asks = timed_open(plain, _bucket)

    @unseen
    @functools.wraps(plain)
    def _make_api_call(*args: Any, **kwargs: Any) -> Any:
        timer = local.timer
        if timer is None or timer.reads.busy or len(args) != 3 or kwargs:
            return plain(*args, **kwargs)
        if args[1] != "GetObject":
            return (asks if args[1] in _ASKS else plain)(*args)
        return _get(timer.reads, plain, args)

    patches.replace(kind, "_make_api_call", _make_api_call)


def _bucket(client: Any, operation: str, given: Any) -> Place | None:
    return ("s3", str(given["Bucket"])) if isinstance(given, dict) and "Bucket" in given else None


@unseen
def _get(reads: Reads, plain: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    place = None
    with forgiving():
        place = _bucket(*args)
    if place is None:
        return plain(*args)
    reads.busy, began, answer = True, perf_counter_ns(), None
    try:
        answer = plain(*args)
        return answer
    except Exception as error:
        answer = getattr(error, "response", None)
        raise
    finally:
        spent = perf_counter_ns() - began
        reads.busy = False
        with forgiving():
            _got(reads, place, spent, answer)


def _got(reads: Reads, place: Place, spent: int, answer: Any) -> None:
    """Adds the time to an answer. Its body is read by and by, and is a part of the same read."""
    again = Retries()
    if isinstance(answer, dict):
        again.add(attempts(answer))
    body = answer.get("Body") if isinstance(answer, dict) else None
    if body is None:
        reads.add(place, spent, 0, again)
        return
    reads.part(place, 0, 0, again)
    reads.streams[body] = Stream(reads, place, spent)


def watch_body(patches: Patches, module: Any) -> None:
    """Times the reads of the bodies that botocore's clients give."""
    kind = module.StreamingBody
    for name in ("read", "readinto"):
        if callable(vars(kind).get(name)):
            patches.replace(kind, name, _timed_part(vars(kind)[name]))


def _timed_part(plain: Callable[..., Any]) -> Callable[..., Any]:
    @unseen
    @functools.wraps(plain)
    def read(self: Any, *args: Any, **kwargs: Any) -> Any:
        timer = local.timer
        stream = None if timer is None or timer.reads.busy else timer.reads.streams.get(self)
        if stream is None:
            return plain(self, *args, **kwargs)
        found, began = None, perf_counter_ns()
        try:
            found = plain(self, *args, **kwargs)
            return found
        finally:
            spent = perf_counter_ns() - began
            with forgiving():
                stream.add(spent, found if isinstance(found, int) else size_of(found))
                if not found or _is_whole(self):
                    stream.end()

    return read


def _is_whole(body: Any) -> bool:
    whole = getattr(body, "_content_length", None)
    return whole is not None and getattr(body, "_amount_read", 0) >= int(whole)


def watch_pipes(patches: Patches, module: Any) -> None:
    """Times the reads of webdataset's pipes from programs, such as curl. They are many and small, so little is done."""
    kind = module.Pipe
    plain = kind.read

    @unseen
    @functools.wraps(plain)
    def read(self: Any, *args: Any, **kwargs: Any) -> Any:
        timer = local.timer
        if timer is None or timer.reads.busy:
            return plain(self, *args, **kwargs)
        reads = timer.reads
        place = reads.pipes.get(self)
        if place is None:
            place = ("pipe", "")
            with forgiving():
                place = reads.pipes[self] = _of_pipe(self)
        began = perf_counter_ns()
        found = plain(self, *args, **kwargs)
        if type(found) is bytes:
            reads.add(place, perf_counter_ns() - began, len(found))
        return found

    patches.replace(kind, "read", read)


def _of_pipe(pipe: Any) -> Place:
    command = pipe.args[0][0]
    words = command if isinstance(command, list) else [command]
    found = next((place for word in words if (place := of_url(str(word))) is not None), None)
    return found or ("pipe", os.path.basename(str(words[0]).split()[0]))


WATCHED: dict[str, Callable[[Patches, Any], None]] = {
    "botocore.client": watch_client,
    "botocore.response": watch_body,
    "boto3.s3.transfer": watch_transfers,
    "webdataset.gopen": watch_pipes,
}
