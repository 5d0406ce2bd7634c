"""Servers on loopback: one of ours that fails as it is told, by the path, and paces what it sends."""

import contextlib
import io
import socket
import struct
import sys
import tarfile
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from pipebench.data import datasets


def tar_of(images, suffix="jpg"):
    """A shard in memory: each image with its class."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for number, data in enumerate(images):
            for name, content in ((f"{number:06d}.{suffix}", data), (f"{number:06d}.cls", b"1")):
                member = tarfile.TarInfo(name)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    return file.getvalue()


def shard(count=16):
    images = [one.read() for one in datasets.load("tiny").samples]
    return tar_of((images * (count // len(images) + 1))[:count])


class Faulty(ThreadingHTTPServer):
    """Answers every path with the shard, unless a fault is planned for it: a list of faults, one for each request.

    After the last planned fault, the shard comes whole; a fault that ends in "!" comes for ever. `bytes_per_s` paces
    each connection. `seen` counts the requests by path, `signed_in` has who asked it as a proxy, and `open` are the
    connections that are answered now.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, content, bytes_per_s=None):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.content, self.bytes_per_s = content, bytes_per_s
        self.plan, self.seen, self.signed_in, self.released = {}, Counter(), [], threading.Event()
        self.open = self.most_open = 0
        self.lock = threading.Lock()

    def url(self, name):
        return f"http://127.0.0.1:{self.server_port}/{name}"

    def fault(self, path):
        with self.lock:
            self.seen[path] += 1
            planned = self.plan.get(path, [])
            if planned and planned[0].endswith("!"):
                return planned[0][:-1]
            return planned.pop(0) if planned else "none"

    def handle_error(self, request, client_address):
        """A client that hangs up is no error here."""


@contextlib.contextmanager
def faulty(content, **more):
    server = Faulty(content, **more)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.released.set()
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        fault = self.server.fault(self.path.strip("/").partition("?")[0])
        with self.server.lock:
            self.server.signed_in.append(self.headers.get("Proxy-Authorization"))
            self.server.open += 1
            self.server.most_open = max(self.server.most_open, self.server.open)
        try:
            getattr(self, f"_{fault.replace('-', '_')}", self._status)(fault)
        finally:
            with self.server.lock:
                self.server.open -= 1

    def _head(self):
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.server.content)))
        self.end_headers()

    def _send(self, content):
        pace = self.server.bytes_per_s
        for begin in range(0, len(content), 1 << 14):
            self.wfile.write(content[begin : begin + (1 << 14)])
            if pace:
                time.sleep((1 << 14) / pace)

    def _none(self, _):
        self._head()
        self._send(self.server.content)

    def _half(self, _):
        self._head()
        self._send(self.server.content[: len(self.server.content) // 2])

    def _silent(self, _):
        """No answer at all."""
        self.server.released.wait(30)

    def _stall(self, _):
        """Half of the body, and then nothing."""
        self._half(_)
        self.wfile.flush()
        self.server.released.wait(30)

    def _reset(self, _):
        """The connection is reset after half of the body."""
        self._half(_)
        self._hang_up()

    def _reset_at_once(self, _):
        self._hang_up()

    def _hang_up(self):
        self.wfile.flush()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def _trickle(self, _):
        """A byte at a time, for ever."""
        self._head()
        while not self.server.released.wait(0.01):
            self.wfile.write(b"\0")
            self.wfile.flush()

    def _redirect(self, _):
        self.send_response(302)
        self.send_header("Location", self.server.url("elsewhere.tar"))
        self.end_headers()

    def _round(self, _):
        """A redirect to itself."""
        self.send_response(302)
        self.send_header("Location", self.server.url(self.path.strip("/")))
        self.end_headers()

    def _empty(self, _):
        self._status("200")

    def _garbage(self, _):
        self.wfile.write(b"\x00\x01 this is no HTTP\r\n\r\n")
        self.close_connection = True

    def _status(self, fault):
        self.send_response(int(fault))
        self.send_header("Content-Length", "0")
        self.end_headers()


def main(bytes_per_s):
    """Serves ten shards of 512 images until it is interrupted; three of them fail at times."""
    with faulty(shard(512), bytes_per_s=bytes_per_s) as server:
        server.plan = {"train-003.tar": ["half", "reset", "503"], "train-004.tar": ["403!"], "train-007.tar": ["stall"]}
        sys.stdout.write(f"{server.url('train-{000..009}.tar')}\n")
        sys.stdout.flush()
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()


if __name__ == "__main__":
    main(float(sys.argv[1]))
