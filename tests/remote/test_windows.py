"""Windows by connections: which numbers are tried, on made readings; and real windows against servers that fail."""

import pytest
from servers import faulty, shard

from pipebench.remote import fetching
from pipebench.remote.windows import Server, Window, measure, next_count
from pipebench.results.remote import Traffic


def tried(rate_of, feed, most=16):
    rates = {}
    while (count := next_count(rates, feed, most)) is not None:
        assert count not in rates and 1 <= count <= most
        rates[count] = rate_of(count)
    return list(rates)


def test_numbers_double_until_the_rate_is_reached_and_then_lie_between():
    assert tried(lambda count: 450 * count, 2500) == [1, 2, 4, 8, 6]
    assert tried(lambda count: 450 * count, 400) == [1, 2]
    assert tried(lambda count: 450 * count, 900) == [1, 2, 3]
    assert tried(lambda count: 450 * count, 1e9) == [1, 2, 4, 8, 16]
    assert tried(lambda count: 450 * count, 1e9, most=6) == [1, 2, 4, 6]
    assert tried(lambda count: 450 * count, 1750) == [1, 2, 4, 5]
    assert tried(lambda count: 450 * count, 1750, most=4) == [1, 2, 4]
    assert tried(lambda count: min(450 * count, 2000), 1900) == [1, 2, 4, 8, 6, 5]


def test_without_a_rate_it_ends_where_doubling_brings_little():
    assert tried(lambda count: min(450 * count, 2000), None) == [1, 2, 4, 8, 16]
    assert tried(lambda count: min(450 * count, 900), None) == [1, 2, 4]
    assert tried(lambda count: 450.0, None) == [1, 2]


def test_a_server_that_gives_nothing_is_not_asked_by_ever_more_connections():
    assert tried(lambda count: 0.0, 2500) == [1, 2]
    assert tried(lambda count: 0.0, None) == [1, 2]


def test_windows_take_turns_and_are_added_up():
    seen, kept = [], []

    def window(count):
        seen.append(count)
        return Window(count * 10.0, Traffic(2, 1, 0, {"reset": 1}), (0.5,), 0.25)

    rows = measure(window, 35.0, 4, lambda rate: rate, windows=3, keep=lambda rows: kept.append(len(rows)))
    assert seen == [1, 2, 4, 1, 2, 4, 4, 2, 1] and kept == [1, 2, 3, *[3] * 6]
    assert [row.connections for row in rows] == [1, 2, 4]
    assert rows[1].bytes_per_s == (20.0, 20.0, 20.0) and rows[1].first_byte_s == (0.5,) * 3
    assert rows[1].traffic == Traffic(6, 3, 0, {"reset": 3}) and rows[1].cores == 0.25


@pytest.fixture
def content():
    return shard(32)


def served(server, names, window_s=0.3, timeout_s=0.3, retries=2):
    return Server(fetching.Fetcher(timeout_s), [server.url(name) for name in names], window_s, timeout_s, retries)


def test_so_many_connections_are_open_at_once(content):
    with faulty(content, bytes_per_s=2e6) as server:
        one = served(server, ["a.tar", "b.tar", "c.tar"]).window(5)
        assert server.most_open == 5 and one.bytes_per_s > 0 and one.traffic.failures == {}
        assert one.traffic.requests >= 5 and one.bytes_read > 0
        assert set(one.size_bytes.values()) == {len(content)}


def test_failures_are_counted_and_the_rest_goes_on(content, monkeypatch):
    monkeypatch.setattr(fetching, "_FIRST_PAUSE_S", 0.001)
    with faulty(content) as server:
        server.plan = {"a.tar": ["half", "503", "reset"], "b.tar": ["403!"]}
        measured = served(server, ["a.tar", "b.tar"], window_s=1.0)
        one = measured.window(2)
        assert one.bytes_per_s > 0
        refused = one.traffic.failures.pop("http-403")
        assert one.traffic.failures == {"cut-short": 1, "http-503": 1, "reset": 1}
        assert refused == server.seen["b.tar"] <= 2 and one.traffic.given_up >= refused
        measured.window(1)
        assert server.seen["b.tar"] == refused  # what is refused for good is not asked for again


def test_a_window_of_refusals_ends(content):
    with faulty(content) as server:
        server.plan = {name: ["403!"] for name in ("a.tar", "b.tar")}
        measured = served(server, ["a.tar", "b.tar"], window_s=60.0)
        for _ in range(2):
            assert measured.window(3).bytes_per_s == 0
        assert sum(server.seen.values()) >= 2


def test_a_server_that_falls_silent_ends_with_counted_time_outs(content):
    with faulty(content) as server:
        server.plan["a.tar"] = ["stall!"]
        one = served(server, ["a.tar"], window_s=1.5, retries=1).window(2)
        assert one.bytes_per_s == 0 and set(one.traffic.failures) == {"timed-out"}
