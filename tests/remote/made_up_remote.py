"""Made readings of a server: 450 images/s for each connection, with a few faults."""

from pipebench.results.remote import Connections, LocalCopy, Remote, Traffic

BYTES = 100_000  # an image


def row(connections, *images_per_s, cores=0.1, traffic=None, first=0.012):
    rates = tuple(BYTES * float(one) for one in images_per_s)
    return Connections(connections, rates, (first, first), traffic or Traffic(4 * connections), cores)


def remote(*rows, feed=2500.0, look=None, local=True, addresses=("https://h/train-{000..009}.tar",)):
    return Remote(
        addresses=addresses, shards=10, feed=feed, images=640, looked_bytes=640 * BYTES, set_bytes=1.28e9,
        look=look or Traffic(1), rows=rows,
        local=LocalCopy(64_000_000, (8e8, 8.2e8, 7.9e8), (6e9, 6.1e9)) if local else None,
        window_s=2.0, timeout_s=10.0, most_retries=3, read_bytes=2_000_000_000,
    )  # fmt: skip


FAILED = Traffic(40, 4, 1, {"cut-short": 2, "http-403": 1, "timed-out": 2})
ROWS = (
    row(1, 450, 455, 445, 450),
    row(2, 900, 905, 895, 900),
    row(4, 1800, 1805, 1790, 1800, traffic=FAILED),
    row(6, 2700, 2710, 2690, 2700),
    row(8, 3600, 3610, 3580, 3600, cores=0.95),
)
REMOTE = remote(*ROWS)
