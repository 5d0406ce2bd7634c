"""nginx as the server, where it is installed: rates are shaped by it, and a half shard and a refusal are its own."""

import shutil
import socket
import subprocess
import time

import pytest
from servers import shard

from pipebench.remote import fetching
from pipebench.remote.whole import Asked, measured

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
CONFIGURATION = """
daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log;
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
  uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
  server {{
    listen 127.0.0.1:{port}; root {folder}/www;
    location /slow/ {{ alias {folder}/www/; limit_rate 500k; }}
    location /forbidden/ {{ return 403; }}
  }}
}}
"""


@pytest.fixture(scope="module")
def nginx(tmp_path_factory):
    if NGINX is None:
        pytest.skip("nginx is not installed")
    folder = tmp_path_factory.mktemp("nginx")
    folder.chmod(0o755)
    (folder / "www").mkdir()
    for number in range(3):
        (folder / f"www/train-{number}.tar").write_bytes(shard(32))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "nginx.conf").write_text(f"user root;{CONFIGURATION.format(folder=folder, port=port)}")
    process = subprocess.Popen([NGINX, "-c", str(folder / "nginx.conf"), "-p", str(folder)], stderr=subprocess.DEVNULL)
    try:
        for _ in range(200):
            with socket.socket() as tried:
                if tried.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        else:
            pytest.skip("nginx does not start here")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


def test_shards_are_measured(nginx):
    asked = Asked(None, 2, 0.2, 5.0, 1)
    found, complete = measured([f"{nginx}/slow/train-{{0..2}}.tar"], asked, lambda *_: None)
    assert complete and found.images == 32 and found.shards == 3 and found.traffic.failed == 0 and found.gave


def test_a_refusal_is_counted_beside_what_comes(nginx, monkeypatch):
    monkeypatch.setattr(fetching, "_FIRST_PAUSE_S", 0.001)
    addresses = [f"{nginx}/slow/train-0.tar", f"{nginx}/forbidden/train-1.tar", f"{nginx}/slow/missing.tar"]
    found, complete = measured(addresses, Asked(None, 4, 0.4, 5.0, 2), lambda *_: None)
    assert complete and found.gave
    assert set(found.traffic.failures) == {"http-403", "http-404"} and found.traffic.retries == 0
