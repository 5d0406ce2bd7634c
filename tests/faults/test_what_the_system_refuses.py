"""Errors of the system, by the real command: each has the remedy of its number, wherever it happens."""

import errno
import os
import subprocess
import sys

import pytest

from pipebench import cli
from pipebench.data import datasets
from pipebench.errors import PipebenchError, remedy_of

WORDS = {
    errno.EMFILE: "ulimit -n",
    errno.ENFILE: "fs.file-max",
    errno.ENOMEM: "ulimit -v",
    errno.ENOSPC: "df -h",
    errno.EDQUOT: "quota",
    errno.EROFS: "read-only",
    errno.EACCES: "ls -ld",
    errno.EIO: "dmesg",
    errno.ENAMETOOLONG: "shorter",
}


@pytest.mark.parametrize("number", WORDS, ids=errno.errorcode.get)
def test_each_error_has_the_remedy_of_its_number(number):
    assert WORDS[number] in remedy_of(OSError(number, os.strerror(number)), "choose another place")


def test_an_error_of_no_number_has_the_remedy_of_its_place():
    assert remedy_of(OSError("torn"), "choose another place") == "choose another place"


@pytest.mark.parametrize("number", WORDS, ids=errno.errorcode.get)
def test_the_error_boundary_says_it(number, monkeypatch, capsys):
    def refused(**_):
        raise OSError(number, os.strerror(number), "a/b")

    monkeypatch.setattr(cli.cli, "main", refused)
    monkeypatch.setattr(cli, "prepared", lambda: None)  # it would replace what is captured
    with pytest.raises(SystemExit) as ended:
        cli.main()
    said = capsys.readouterr().err.splitlines()
    assert (ended.value.code, said[0]) == (1, f"pipebench: {os.strerror(number)}: a/b")
    assert len(said) == 2 and WORDS[number] in said[1]


@pytest.mark.parametrize("number", WORDS, ids=errno.errorcode.get)
def test_the_builder_of_data_sets_says_it(number, tmp_path, monkeypatch):
    def refused(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(datasets, "_build", refused)
    with pytest.raises(PipebenchError) as said:
        datasets.load("tiny", cache=tmp_path)
    full = number in (errno.ENOSPC, errno.EDQUOT)
    assert ("Free about" if full else WORDS[number]) in said.value.remedy


@pytest.mark.parametrize("arguments", [["data", "tiny"], ["run", "--list"], ["doctor"]])
def test_out_of_descriptors(arguments, tmp_path):
    """So few that the command cannot even import what it needs: no traceback, and the limit is named."""
    code = (
        "import os, resource, sys\n"
        "from pipebench import cli\n"
        "import pipebench.commands.data, pipebench.commands.run, pipebench.commands.doctor, pipebench.data.datasets\n"
        "free = os.dup(0); os.close(free)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (free, free))\n"
        "cli.main()\n"
    )
    environment = {**os.environ, "PIPEBENCH_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    assert "ulimit -n" in done.stderr.splitlines()[-1], done.stderr
