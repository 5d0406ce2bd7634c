"""Renders what shards on a server give: the answer, the connections, what failed, and a local copy. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from pipebench.render.cells import Table
from pipebench.render.layout import Line, Spare, Sparing
from pipebench.results.remote import BUSY, Connections, Remote, Traffic
from pipebench.units import counted, in_mb, in_ms, printable, seconds, size, width


def parts(found: Remote, full: bool = False) -> list[Sparing]:
    """The answer first, then the evidence. `full` adds the addresses."""
    made: list[Sparing] = [Line(verdict(found), "bold"), *map(Line, _beside(found)), _table(found)]
    made.append(Spare(("", *(Line(line, hanging="  ") for line in _notes(found)))))
    if full:
        made += ["", *(f"  {printable(one)}" for one in found.addresses)]
    return made


def verdict(found: Remote) -> str:
    """How many connections feed the wanted rate; without one, what one connection and the best number give."""
    if not found.rows:
        return "Nothing was measured: it was interrupted before the first window ended."
    first, best, needed, may_do = found.rows[0], found.best, found.needed, found.may_do
    ones = f"{_connections(first)} {'gives' if first.connections == 1 else 'give'} {_rate(found, first)}"
    if not found.rate(best).median:
        return f"No byte came in any window: {_failures(found.traffic) or 'the server is silent'}."
    if found.feed is None:
        most = f"; the most is {_rate(found, best)}, with {_connections(best)}" if best is not first else ""
        return f"{ones} images/s{most}."
    wanted = f"{found.feed:,.0f} images/s"
    if may_do is None:
        return f"{wanted} cannot be fed: the most is {_rate(found, best)}, with {_connections(best)}. {ones}."
    if needed is None:
        return f"To feed {wanted}: perhaps {_connections(may_do)} ({_between(found, may_do)}). {ones}."
    if needed is first:
        return f"To feed {wanted}: {_connections(first)}, which gives {_rate(found, first)}."
    if needed is may_do:
        return f"To feed {wanted}: {_connections(needed)}. {ones}."
    return f"To feed {wanted}: {_connections(needed)}; {may_do.connections} may do ({_between(found, may_do)}). {ones}."


def _connections(row: Connections) -> str:
    return counted(row.connections, "connection")


def _rate(found: Remote, row: Connections) -> str:
    return f"{found.rate(row).median:,.0f}"


def _between(found: Remote, row: Connections) -> str:
    """The interval of a row, which says why it is not certain."""
    rate = found.rate(row)
    return f"{rate.low:,.0f} to {rate.high:,.0f} images/s" if rate.confidence else "one window only"


def _beside(found: Remote) -> Iterator[str]:
    """What failed, and what a local copy would give: the two things that change what to do next."""
    traffic = found.traffic
    if traffic.failed:
        again = f"{traffic.retries:,} were tried again, {counted(traffic.given_up, 'shard')} given up"
        yield f"{traffic.failed:,} of {traffic.requests:,} requests failed ({_failures(traffic)}); {again}."
    if found.local is None or not found.rows:
        return
    copy = found.images_per_s(max(found.local.cold_bytes_per_s or found.local.warm_bytes_per_s))
    if copy > found.rate(found.best).median:
        much = f" All shards have about {size(found.set_bytes)}." if found.set_bytes else ""
        yield f"From the second pass on, a local copy would give up to {copy:,.0f} images/s here.{much}"


def _failures(traffic: Traffic) -> str:
    return ", ".join(f"{count:,} {printable(kind)}" for kind, count in traffic.failures.items())


def _table(found: Remote) -> Table:
    rows = [_row(found, one) for one in found.rows]
    copy = found.local
    for name, rates in (("cold", copy.cold_bytes_per_s), ("warm", copy.warm_bytes_per_s)) if copy is not None else ():
        if rates:
            middle = median(rates)
            rate = f"{found.images_per_s(middle):,.0f}"
            rows.append((f"local copy, {name}", rate, "", f"{in_mb(middle):,.0f}", "", "", ""))
    headers = ("connections", "images/s", "95 %", "MB/s", "first byte", "failed", "retried")
    return Table("Shards streamed over so many connections", headers, tuple(rows), frozenset(range(1, 7)))


def _row(found: Remote, one: Connections) -> tuple[str, ...]:
    rate, first = found.rate(one), one.first_byte_median_s
    megabytes = in_mb(rate.median * found.looked_bytes / found.images)
    told = width(rate.median, rate.low, rate.high) if rate.confidence else ""
    mark = "→ " if one is (found.needed or found.may_do) else "  " if found.feed is not None else ""
    return (
        f"{mark}{one.connections}",
        f"{rate.median:,.0f}",
        told,
        f"{megabytes:,.0f}",
        f"{in_ms(first):,.1f} ms" if first is not None else "",
        f"{one.traffic.failed:,}" if one.traffic.failed else "",
        f"{one.traffic.retries:,}" if one.traffic.retries else "",
    )


def _notes(found: Remote) -> Iterator[str]:
    windows = max((len(one.bytes_per_s) for one in found.rows), default=0)
    yield (
        f"{counted(found.shards, 'shard')}; {counted(windows, 'window')} of {seconds(found.window_s)} for each row, in "
        f"turn. {size(found.read_bytes)} were fetched in all."
    )
    yield (
        f"Images are derived from bytes: {found.images:,} in the first {size(found.looked_bytes)} of the first shard. "
        "Reading the tar and decoding come on top."
    )
    yield (
        f"A request that gives no byte for {seconds(found.timeout_s)} has failed; a shard has at most "
        f"{counted(found.most_retries, 'retry', 'retries')}, from its start. Bytes of failed attempts do not count."
    )
    if busy := [one for one in found.rows if one.cores >= BUSY]:
        names = ", ".join(str(one.connections) for one in busy)
        yield f"With {names} connections this process used a whole core: there it may be the limit, and not the server."
