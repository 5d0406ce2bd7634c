"""Addresses: brace patterns, patterns in S3 (a real server of moto), and what no server has."""

import pytest

from pipebench.errors import PipebenchError, UsageError
from pipebench.remote.addresses import resolved


def of(*given):
    return resolved(given, 3.0, 1)


def test_braces_name_shards_in_order_and_each_once():
    assert of("https://h/t-{08..10}.tar", "https://h/t-09.tar") == [
        f"https://h/t-{one}.tar" for one in ("08", "09", "10")
    ]


@pytest.mark.parametrize(
    "given", ["train.tar", "/data/{0..3}.tar", "file:///a.tar", "pipe:curl http://h/a.tar", "x://"]
)
def test_what_is_no_address_of_a_server_is_wrong_usage(given):
    with pytest.raises(UsageError, match="no address of a server"):
        of(given)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("https://h/t-{000..999999999}.tar", "more than 100,000 shards"),
        ("https://h/" + "{a,b}" * 40 + ".tar", "more than 100,000 shards"),
        ("https://h/t-*.tar", "no web server lists"),
        ("https://h/t-{000..}.tar", "no web server lists"),
        ("ftp://h/a.tar", "no signed addresses"),
        ("x://h/a.tar", "cannot be opened"),
        ("http://:80/a.tar", "has no host"),
        ("http://h:port/a.tar", "is no address"),
        ("http://h:99999/a.tar", "is no address"),
        ("http://[::1/a.tar", "is no address"),
    ],
)
def test_what_would_never_end_or_never_be_found_is_wrong_usage(given, problem):
    with pytest.raises(UsageError, match=problem):
        of(given)


def test_a_store_without_its_package_names_it():
    with pytest.raises(PipebenchError) as caught:
        of("gs://bucket/a.tar")
    assert "pip install" in caught.value.remedy or "gcsfs" in caught.value.problem


def test_secrets_in_an_address_are_not_said():
    with pytest.raises(UsageError) as caught:
        of("nothing:user:hunter2hunter2@h/a.tar?sig=abcdefgh")
    assert "abcdefgh" not in caught.value.problem


@pytest.fixture(scope="module")
def s3():
    """A server of moto on loopback with two shards, and the environment that leads to it."""
    pytest.importorskip("s3fs")
    moto = pytest.importorskip("moto.server")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        for name, value in (("ACCESS_KEY_ID", "testing"), ("SECRET_ACCESS_KEY", "testing-secret")):
            patch.setenv(f"AWS_{name}", value)
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        import boto3

        client = boto3.client("s3")
        client.create_bucket(Bucket="shards")
        from servers import shard

        for name in ("train-1.tar", "train-0.tar", "other.tar"):
            client.put_object(Bucket="shards", Key=f"set/{name}", Body=shard(16))
        yield client
    server.stop()


def test_a_pattern_in_s3_becomes_signed_addresses_that_can_be_fetched(s3):
    import urllib3

    found = of("s3://shards/set/train-*.tar")
    assert [one.partition("?")[0].rpartition("/")[2] for one in found] == ["train-0.tar", "train-1.tar"]
    assert all("Signature=" in one for one in found)
    assert urllib3.request("GET", found[0]).status == 200
    assert len(of("s3://shards/set/train-{0..1}.tar")) == 2


def test_what_is_not_in_s3_is_said(s3):
    with pytest.raises(PipebenchError, match="nothing fits"):
        of("s3://shards/set/nothing-*.tar")
    with pytest.raises(PipebenchError) as caught:
        of("s3://no-such-bucket/*.tar")
    assert "testing-secret" not in str(caught.value)


def test_shards_in_s3_are_measured(s3):
    from pipebench.remote.whole import Asked, measured

    found, complete = measured(["s3://shards/set/train-{0..1}.tar"], Asked(1.0, 2, 0.2, 5.0, 1), lambda *_: None)
    assert complete and found.shards == 2 and found.images == 16 and found.gave
    assert found.may_do.connections == 1 and found.addresses == ("s3://shards/set/train-{0..1}.tar",)
    assert found.traffic.failed == 0
