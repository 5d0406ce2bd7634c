"""One shard: whatever the server does, the attempts end, are bounded, and are counted by what went wrong."""

import base64
import socket
import threading

import pytest
from servers import faulty, shard

from pipebench.remote import fetching
from pipebench.results.remote import remedy_for

TIMEOUT_S = 0.3


@pytest.fixture(scope="module")
def content():
    return shard()


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(fetching, "_FIRST_PAUSE_S", 0.001)


def fetched(address, retries=3):
    """Why it was given up, the tally, and the bytes of the last attempt."""
    tally, attempts = fetching.Tally(open=True), []

    def taker():
        attempts.append(bytearray())
        return attempts[-1].extend

    failed = fetching.shard(fetching.Fetcher(TIMEOUT_S), address, tally, threading.Event(), retries, taker)
    return failed, tally, bytes(attempts[-1])


def test_a_shard_comes_whole_and_its_size_is_known(content):
    with faulty(content) as server:
        failed, tally, came = fetched(server.url("a.tar"))
        assert failed is None and came == content and tally.counted == len(content)
        assert (tally.requests, tally.retries, tally.failures) == (1, 0, {}) and len(tally.first_byte_s) == 1
        assert tally.size_bytes == {server.url("a.tar"): len(content)}


FAULTS = {
    "half": "cut-short", "silent": "timed-out", "stall": "timed-out", "reset": "reset", "reset-at-once": "reset",
    "500": "http-500", "503": "http-503", "429": "http-429",
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_what_may_pass_is_tried_again_and_no_byte_of_a_failed_attempt_counts(content, fault):
    with faulty(content) as server:
        server.plan["a.tar"] = [fault, fault]
        failed, tally, came = fetched(server.url("a.tar"))
        assert failed is None and came == content and tally.counted == len(content)
        assert tally.failures == {FAULTS[fault]: 2}
        assert (tally.requests, tally.retries, tally.given_up) == (3, 2, 0) and server.seen["a.tar"] == 3


@pytest.mark.parametrize("fault", FAULTS)
def test_retries_end(content, fault):
    with faulty(content) as server:
        server.plan["a.tar"] = [f"{fault}!"]
        failed, tally, _ = fetched(server.url("a.tar"), retries=2)
        assert failed.kind == FAULTS[fault] and not failed.permanent
        assert (tally.requests, tally.retries, tally.given_up) == (3, 2, 1) and tally.counted == 0
        assert tally.failures == {FAULTS[fault]: 3}


@pytest.mark.parametrize("fault", ["401", "403", "404", "410", "garbage"])
def test_what_will_not_pass_is_not_tried_again(content, fault):
    with faulty(content) as server:
        server.plan["a.tar"] = [f"{fault}!"]
        failed, tally, _ = fetched(server.url("a.tar"))
        kind = f"http-{fault}" if fault.isdecimal() else "not-http"
        assert failed.kind == kind and failed.permanent
        assert (tally.requests, tally.retries, tally.given_up) == (1, 0, 1)


def test_a_redirect_is_followed(content):
    with faulty(content) as server:
        server.plan["a.tar"] = ["redirect"]
        failed, _, came = fetched(server.url("a.tar"))
        assert failed is None and came == content and server.seen["elsewhere.tar"] == 1


def test_a_port_where_nothing_listens():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        failed, tally, _ = fetched(f"http://127.0.0.1:{taken.getsockname()[1]}/a.tar", retries=1)
    assert failed.kind == "not-connected" and tally.requests == 2


@pytest.mark.parametrize(
    ("named", "who"),
    [("{}", None), ("http://{}", None), ("http://me:p%40ss@{}", "me:p@ss"), ("m%C3%A9:@{}", "mé:")],
)
def test_a_proxy_of_the_environment_is_asked_and_told_who_asks(content, monkeypatch, named, who):
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with faulty(content) as proxy:
        monkeypatch.setenv("http_proxy", named.format(f"127.0.0.1:{proxy.server_port}"))
        failed, _, came = fetched("http://nowhere.invalid/a.tar")
    assert failed is None and came == content and list(proxy.seen) == ["http://nowhere.invalid/a.tar"]
    assert proxy.signed_in == [who and f"Basic {base64.b64encode(who.encode()).decode()}"]


def test_a_proxy_that_is_not_of_http_is_said_at_once(monkeypatch):
    monkeypatch.setenv("https_proxy", "socks5h://127.0.0.1:9")
    failed, tally, _ = fetched("https://nowhere.invalid/a.tar")
    assert failed.permanent and (tally.requests, tally.failures, tally.given_up) == (1, {"proxy": 1}, 1)
    assert remedy_for("proxy").startswith("name a proxy of HTTP")


def test_certificates_that_the_environment_names_are_trusted_behind_a_proxy_too(monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", "/mine.pem")
    for proxy in ("", "http://127.0.0.1:9"):
        monkeypatch.setenv("https_proxy", proxy)
        assert fetching._client("https://nowhere.invalid/a.tar").connection_pool_kw["ca_certs"] == "/mine.pem"


def test_a_stop_ends_a_trickle_and_is_no_failure(content):
    with faulty(content) as server:
        server.plan["a.tar"] = ["trickle!"]
        stop, tally = threading.Event(), fetching.Tally(open=True)

        def take(part):
            if tally.counted > 3:
                stop.set()

        failed = fetching.shard(fetching.Fetcher(TIMEOUT_S), server.url("a.tar"), tally, stop, 3, lambda: take)
        assert failed is None and tally.failures == {} and tally.requests == 1


def test_a_stop_ends_the_pause_before_a_retry(content, monkeypatch):
    monkeypatch.setattr(fetching, "_FIRST_PAUSE_S", 3600.0)
    monkeypatch.setattr(fetching, "_LONGEST_PAUSE_S", 3600.0)
    stop = threading.Event()

    def fails(*_):
        threading.Timer(0.05, stop.set).start()
        raise fetching.Failed("reset")

    tally = fetching.Tally()
    assert fetching.shard(fails, "http://a", tally, stop, 3) is None and tally.retries == 1


def test_of_a_shard_that_failed_no_byte_counts_until_it_comes_whole():
    """A stop in the middle of an attempt says nothing of how it would have ended."""
    stop, tally = threading.Event(), fetching.Tally(open=True)
    ends = iter(["fails", "is stopped", "comes whole", "is stopped"])

    def fetch(address, tally, stop, take):
        take(b"x" * 100)
        end = next(ends)
        if end == "fails":
            raise fetching.Failed("cut-short")
        if end == "is stopped":
            stop.set()

    counts = []
    for _ in range(4):
        stop.clear()
        fetching.shard(fetch, "a", tally, stop, most_retries=0)
        counts.append(tally.counted)
    assert counts == [0, 0, 100, 200]
