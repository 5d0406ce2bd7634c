"""Files whose positions forked workers would share: those that stay open and are read by `seek` and `read`."""

import os
import socket

import pytest

from pipebench.watch.trial import open_files
from pipebench.watch.trial.arms import CannotTry
from pipebench.watch.trial.open_files import SharedFiles, moved, positions, received


def _place(file):
    kept = os.fstat(file.fileno())
    return file.fileno(), kept.st_dev, kept.st_ino


def test_a_file_that_stays_open_and_is_read_has_moved(tmp_path):
    path = tmp_path / "records"
    path.write_bytes(bytes(100_000))
    with open(path, "rb", buffering=0) as kept, open(path, "rb", buffering=0) as resting, open(path, "ab") as written:
        kept.seek(10)
        before = positions()
        assert before[_place(kept)] == 10 and before[_place(resting)] == 0 and _place(written) not in before
        os.pread(resting.fileno(), 50, 0)  # without its position
        written.write(b"more")
        with open(path, "rb") as other:
            other.read()
        assert not moved(before, positions())
        kept.read(5)
        assert moved(before, positions())
    assert not moved(before, positions())


def test_a_system_without_such_a_folder_knows_none(tmp_path):
    assert positions(str(tmp_path / "none")) == {}


@pytest.mark.parametrize(("now", "wanted", "shared"), [(0, 2, True), (1, 4, True), (0, 1, False), (2, 4, False)])
def test_several_workers_are_not_tried_where_they_would_share_a_position(now, wanted, shared, tmp_path):
    """One of them reads alone while it has its turn; several workers of the script share it already."""
    path = tmp_path / "records"
    path.write_bytes(bytes(100_000))
    files = SharedFiles()
    with open(path, "rb", buffering=0) as kept:
        files.look(now)
        files.check(wanted)
        kept.read(5)
        if shared:
            with pytest.raises(CannotTry, match="shares-files"):
                files.check(wanted)
        else:
            files.check(wanted)


def test_what_is_read_after_a_pass_does_not_count(tmp_path):
    """As by a validation between two passes."""
    path = tmp_path / "records"
    path.write_bytes(bytes(100_000))
    files = SharedFiles()
    with open(path, "rb", buffering=0) as kept:
        files.look(0)
        files.over()
        kept.read(5)
        files.check(2)
        files.look(0)
        kept.read(5)
        files.over()
        with pytest.raises(CannotTry, match="shares-files"):
            files.check(2)


def test_several_workers_are_not_tried_where_they_would_share_a_connection():
    """Of two processes that read one connection, each gets bytes of the other's answer."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as mine:
        theirs, _ = server.accept()
        with theirs:
            for used in (False, True):
                files = SharedFiles()
                files.look(0)
                theirs.sendall(b"answer")
                before = received()
                files.during(lambda: mine.recv(6) if used else None)  # noqa: B023  # called at once
                assert any(before.values())
                files.check(2)  # what had come before is nobody's sample

                def ask():
                    theirs.sendall(b"sample")
                    return mine.recv(12)

                files.during(ask if used else lambda: 3)
                if used:
                    with pytest.raises(CannotTry, match="shares-files"):
                        files.check(2)
                    files.check(1)
                else:
                    files.check(2)


def test_connections_are_looked_at_in_few_batches_and_not_in_those_of_workers(monkeypatch):
    looked = []
    monkeypatch.setattr(open_files, "received", lambda: looked.append(1) or {})
    for workers in (0, 1, 2):
        files = SharedFiles()
        files.look(workers)
        assert [files.during(lambda: 7) for _ in range(50)] == [7] * 50
    assert len(looked) == 2 * open_files._WATCHED
