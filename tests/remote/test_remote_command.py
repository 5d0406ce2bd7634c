"""The command: what it prints and saves, its exit status, and that an interrupt keeps what was measured."""

import json
import signal
import sys
import time

import warm
from servers import faulty, shard

from pipebench.results import report

COMMAND = [sys.executable, "-m", "pipebench", "remote"]
BRIEF = ["--seconds", "0.1", "--timeout", "2", "--connections", "2"]


def run(*arguments):
    return warm.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=120)


def test_it_prints_json_and_saves_the_same_report(tmp_path):
    with faulty(shard(32), bytes_per_s=4e6) as server:
        server.plan["b.tar"] = ["half", "403!"]
        saved = tmp_path / "remote.json"
        done = run(server.url("{a,b}.tar"), "--feed", "1", "--format", "json", "--export-json", str(saved), *BRIEF)
    assert done.returncode == 0, done.stderr
    made, kept = json.loads(done.stdout), report.load(saved)
    assert made["verdict"]["kind"] == "remote" and made["remote"]["rows"] and not made["partial"]
    assert kept.remote.images == 32 and kept.remote.window_s == 0.1 and kept.remote.shards == 2
    shown = warm.run([*COMMAND[:3], "show", str(saved), "--full"], capture_output=True, text=True, timeout=120)
    assert shown.returncode == 0 and "To feed 1 images/s" in shown.stdout


def test_a_refusal_is_two_lines_and_status_1():
    with faulty(b"") as server:
        server.plan["a.tar"] = ["403!"]
        done = run(server.url("a.tar?token=hunter2hunter2"), *BRIEF)
    assert done.returncode == 1 and done.stdout == "" and "hunter2" not in done.stderr
    problem, remedy = done.stderr.splitlines()[-2:]
    assert problem == "pipebench: the first shard does not come (http-403 × 1 in 1 attempt)"
    assert remedy == "  check the credentials, or sign the address again: it may have ended"


def test_wrong_usage_is_status_2():
    assert run("shards/train-000.tar").returncode == 2
    for wrong in (["--feed", "0"], ["--feed", "nan"], ["--seconds", "inf"], ["--timeout", "nan"], ["--retries", "-1"]):
        assert run("https://h/a.tar", *wrong).returncode == 2
    assert run().returncode == 2


def test_an_interrupt_keeps_what_was_measured_and_leaves_nothing_hanging(tmp_path):
    saved = tmp_path / "remote.json"
    with faulty(shard(32), bytes_per_s=1e6) as server:
        arguments = [server.url("a.tar"), "--seconds", "0.1", "--feed", "1e9", "--export-json", str(saved)]
        process = warm.Popen([*COMMAND, *arguments], stdout=-1, stderr=-1, text=True)
        until = time.monotonic() + 60
        while time.monotonic() < until and server.most_open < 4:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    found = report.load(saved)
    assert found.partial and [one.connections for one in found.remote.rows][:2] == [1, 2] and "connection" in out


def test_an_interrupt_during_the_first_look_ends_it():
    with faulty(b"") as server:
        server.plan["a.tar"] = ["silent!"]
        process = warm.Popen([*COMMAND, server.url("a.tar"), "--timeout", "60"], stdout=-1, stderr=-1, text=True)
        until = time.monotonic() + 60
        while time.monotonic() < until and not server.seen["a.tar"]:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=50)
    assert process.returncode == 130 and out == ""
    assert err.splitlines()[-1] == "pipebench: interrupted before anything was measured; nothing was saved"


def test_where_no_shard_comes_whole_it_says_what_came_and_what_helps():
    """Half of the shard holds images enough, so windows are measured."""
    with faulty(shard(64)) as server:
        server.plan["a.tar"] = ["half!"]
        done = run(server.url("a.tar"), "--feed", "10", *BRIEF, "--retries", "1")
    assert done.returncode == 1 and "local copy" not in done.stdout
    said = " ".join(done.stdout.split())
    assert said.startswith("No shard came whole in any window of 100 ms:")
    assert "Then: check the server: it ends its answers before their end." in said
