"""Renders what shards on a server give: the answer, the connections, what failed, and a local copy. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import median

from pipebench.render.cells import Table
from pipebench.render.layout import Line, Spare, Sparing
from pipebench.results.remote import BUSY, FEWEST_WINDOWS, Connections, Remote, Traffic, remedy_for, together
from pipebench.units import Scale, counted, in_ms, printable, rate_number, rate_scale, seconds, size, width


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
    if not found.gave:
        return _nothing(found)
    if found.feed is None:
        most = f"; the most is {_rate(found, best)}, with {_connections(best)}" if best is not first else ""
        return f"{ones} images/s{most}."
    wanted = f"{rate_number(found.feed)} images/s"
    if may_do is None:
        return f"{wanted} cannot be fed: the most is {_rate(found, best)}, with {_connections(best)}. {ones}."
    if needed is None:
        return f"To feed {wanted}: perhaps {_connections(may_do)} ({_between(found, may_do)}). {ones}."
    if needed is first:
        return f"To feed {wanted}: {_connections(first)}, which gives {_rate(found, first)}."
    if needed is may_do:
        return f"To feed {wanted}: {_connections(needed)}. {ones}."
    return f"To feed {wanted}: {_connections(needed)}; {may_do.connections} may do ({_between(found, may_do)}). {ones}."


def _nothing(found: Remote) -> str:
    """What came where no window has a rate, and what helps."""
    window = f"any window of {seconds(found.window_s)}"
    failed = together([one.traffic for one in found.rows]).failures
    longer = "--seconds makes windows longer"
    if not failed:
        return f"No byte came in {window}, though no attempt failed. Then: {longer}."
    kind = max(failed, key=lambda one: failed[one])
    remedy = remedy_for(kind) + (f"; {longer}" if "timed-out" in failed else "")
    if not any(one.first_byte_s for one in found.rows):
        return f"No byte came in {window}: {_failures(failed)}. Then: {remedy}."
    came = f"{size(found.read_bytes)} were read, but what came in windows was of attempts that failed"
    return f"No shard came whole in {window}: {came} ({_failures(failed)}). Then: {remedy}."


def _connections(row: Connections) -> str:
    return counted(row.connections, "connection")


def _rate(found: Remote, row: Connections) -> str:
    return rate_number(found.rate(row).median)


def _between(found: Remote, row: Connections) -> str:
    """The interval of a row, which says why it is not certain."""
    rate = found.rate(row)
    if rate.confidence:
        return f"{rate_number(rate.low)} to {rate_number(rate.high)} images/s"
    windows = len(row.bytes_per_s)
    if windows >= FEWEST_WINDOWS:
        return "nothing came in one of its windows"
    return f"{counted(windows, 'window')} only, which {'has' if windows == 1 else 'have'} no interval"


def _beside(found: Remote) -> Iterator[str]:
    """What failed, and what a local copy would give: the two things that change what to do next."""
    traffic = found.traffic
    if traffic.failed:
        again = f"{traffic.retries:,} {'was' if traffic.retries == 1 else 'were'} tried again"
        failed = f"{traffic.failed:,} of {counted(traffic.requests, 'request')} failed ({_failures(traffic.failures)})"
        yield f"{failed}; {again}, {counted(traffic.given_up, 'shard')} given up."
    if found.local is None or not found.gave:
        return
    copy = found.images_per_s(median(found.local.cold_bytes_per_s or found.local.warm_bytes_per_s))
    if copy > found.rate(found.best).median:
        much = f" All shards have about {size(found.set_bytes)}." if found.set_bytes else ""
        yield f"From the second pass on, a local copy would give {rate_number(copy)} images/s here.{much}"


def _failures(failures: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {printable(kind)}" for kind, count in failures.items())


def _table(found: Remote) -> Table:
    bytes_per_s = {one.connections: _bytes_per_s(found, one) for one in found.rows}
    scale = rate_scale(bytes_per_s.values())
    rows = [_row(found, one, scale) for one in found.rows]
    if found.look.failed:
        rows.insert(0, ("first look", "", "", "", "", *_failed(found.look)))
    copy = found.local if found.gave else None
    for name, rates in (("cold", copy.cold_bytes_per_s), ("warm", copy.warm_bytes_per_s)) if copy is not None else ():
        if rates:
            middle = median(rates)
            rate = rate_number(found.images_per_s(middle))
            rows.append((f"local copy, {name}", rate, "", scale.number(middle, 2), "", "", ""))
    headers = ("connections", "images/s", "95 %", scale.unit, "first byte", "failed", "retried")
    return Table("Shards streamed over so many connections", headers, tuple(rows), frozenset(range(1, 7)))


def _bytes_per_s(found: Remote, one: Connections) -> float:
    return found.rate(one).median * found.looked_bytes / found.images


def _row(found: Remote, one: Connections, scale: Scale) -> tuple[str, ...]:
    rate, first = found.rate(one), one.first_byte_median_s
    told = width(rate.median, rate.low, rate.high) if rate.confidence else ""
    mark = "→ " if one is (found.needed or found.may_do) else "  " if found.feed is not None else ""
    return (
        f"{mark}{one.connections}",
        rate_number(rate.median),
        "±<1 %" if told == "±0 %" else told,
        scale.number(_bytes_per_s(found, one), 2),
        f"{in_ms(first):,.1f} ms" if first is not None else "",
        *_failed(one.traffic),
    )


def _failed(traffic: Traffic) -> tuple[str, str]:
    """The cells of what failed and what was tried again."""
    return f"{traffic.failed:,}" if traffic.failed else "", f"{traffic.retries:,}" if traffic.retries else ""


def _notes(found: Remote) -> Iterator[str]:
    windows = max((len(one.bytes_per_s) for one in found.rows), default=0)
    yield (
        f"{counted(found.shards, 'shard')}; {counted(windows, 'window')} of {seconds(found.window_s)} for each row, in "
        f"turn. {size(found.read_bytes)} were fetched in all."
    )
    yield (
        f"Images are derived from bytes: {found.images:,} whole ones in the first {size(found.looked_bytes)} of the "
        "first shard. Reading the tar and decoding come on top."
    )
    yield (
        f"A request that gives no byte for {seconds(found.timeout_s)} has failed; a shard has at most "
        f"{counted(found.most_retries, 'retry', 'retries')}, from its start. Bytes of failed attempts do not count."
    )
    if found.local is None and found.gave:
        yield "There is no figure of a local copy: the beginning of the first shard did not come, or is small (1 MiB)."
    if busy := [one for one in found.rows if one.cores >= BUSY]:
        names = ", ".join(str(one.connections) for one in busy)
        yield f"With {names} connections this process used a whole core: there it may be the limit, and not the server."
