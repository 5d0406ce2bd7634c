"""Garbage in configuration and surroundings: one line and its remedy, never a traceback and never a false success."""

import os
import subprocess
import sys

import pytest
import repos
from soon import within

from pipebench import cli
from pipebench.compare import asv_suites, config, scaffold
from pipebench.errors import PipebenchError

FINE = 'loader = "sampledata:make_loader"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (FINE + "transforms = 5", "transforms"),
        (FINE + "transforms = [5]", "transforms"),
        (FINE + "samples = -4", "samples is -4"),
        (FINE + 'samples = "many"', "samples"),
        (FINE + "workers = [-1]", "workers"),
        (FINE + "workers = [1000000]", "workers"),
        (FINE + "roots = 7", "roots"),
        ("loader = 5", "loader"),
        (FINE + "x = " + "[" * 100_000, "cannot be used"),
        (FINE + "benchmark = 3", "[[benchmark]]"),
        ('[[benchmark]]\nname = "a"\nsetup = "m:f"\nsamples = 1e3', "samples"),
        ("\x00", "cannot be used"),
        (b"\xff\xfe", "cannot be used"),
        ("", "neither a loader"),
        (FINE + 'sample = "x"', "[sample]"),
    ],
    ids=range(15),
)
def test_a_configuration_that_says_nothing_useful_is_refused_by_name(text, said, tmp_path):
    file = tmp_path / config.CONFIG
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(PipebenchError) as refused:
        config.load(file)
    assert config.CONFIG in refused.value.problem and said in refused.value.problem
    assert "\n" not in refused.value.problem and "pipebench init --force" in refused.value.remedy


def test_what_init_writes_is_fine(tmp_path):
    (tmp_path / config.CONFIG).write_text(FINE + "transforms = ['a']\nworkers = [0, 2]\nstartup = [2]\nsamples = 3\n")
    found = config.load(tmp_path / config.CONFIG)
    assert (found.transforms, found.workers, found.startup, found.samples) == (("a",), (0, 2), (2,), 3)


def test_ab_says_one_line_and_its_remedy(tmp_path):
    repos.git(tmp_path, "init", "--quiet")
    (tmp_path / config.CONFIG).write_text(FINE + "transforms = 5\n")
    repos.commit(tmp_path, "one")
    done = repos.pipebench("ab", "HEAD", "HEAD", cwd=tmp_path)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 2 and "Traceback" not in done.stderr


@pytest.mark.parametrize("content", [b"[" * 100_000, b"\xff", b"{", b"7", b"null", b'{"benchmark_dir": {}}'])
def test_a_broken_asv_configuration_is_as_none(content, tmp_path):
    (tmp_path / "asv.conf.json").write_bytes(content)
    asv_suites.suite_folder(tmp_path)


@pytest.mark.parametrize(
    "how",
    [
        "sys.exit(0)",
        "os._exit(0)",
        "os.kill(os.getpid(), 9)",
        "raise KeyboardInterrupt",
        "raise GeneratorExit",
        "return 5",
    ],
)
def test_a_loader_that_leaves_does_not_make_init_succeed(how, tmp_path):
    (tmp_path / "mine.py").write_text(f"import os, sys\ndef make_loader():\n    {how}\n")
    repos.git(tmp_path, "init", "--quiet")
    repos.commit(tmp_path, "one")
    done = repos.pipebench("init", "mine:make_loader", cwd=tmp_path)
    assert done.returncode != 0 and not (tmp_path / config.CONFIG).exists() and "Traceback" not in done.stderr


@pytest.mark.parametrize("content", ["pipe", "[" * 100_000, "7", "{"])
def test_a_fast_configuration_of_a_broken_one_is_refused_by_name(content, tmp_path):
    repos.git(tmp_path, "init", "--quiet")
    full = tmp_path / "asv.conf.json"
    os.mkfifo(full) if content == "pipe" else full.write_text(content)
    with within(60):
        done = repos.pipebench("init", "--fast", cwd=tmp_path)
    assert done.returncode == 1 and "asv.conf.json cannot be read" in done.stderr and "Traceback" not in done.stderr


def test_init_reads_no_pipe_and_no_device(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    with within(60):
        assert scaffold.Scaffold(tmp_path, {"pipe": "", "device": "", "none": ""}).existing == ["pipe", "device"]


@pytest.mark.parametrize("workers", ["-1", "0,-2", "1000000", "two"])
def test_init_refuses_numbers_of_workers_that_cannot_be(workers, tmp_path):
    repos.git(tmp_path, "init", "--quiet")
    done = repos.pipebench("init", "mine:make_loader", "--workers", workers, cwd=tmp_path)
    assert done.returncode == 2 and "not a list of numbers" in done.stderr


def in_shell(line, cwd, **environment):
    command = line.replace("pipebench", f"{sys.executable} -m pipebench")
    return subprocess.run(
        ["bash", "-c", command], cwd=cwd, capture_output=True, timeout=240, env={**os.environ, **environment}
    )


def test_a_folder_that_was_deleted(tmp_path):
    (tmp_path / "gone").mkdir()
    done = in_shell("cd gone; rmdir ../gone; pipebench run --list", tmp_path)
    assert done.returncode == 1 and b"the current folder does not exist any more" in done.stderr
    assert len(done.stderr.splitlines()) == 2, done.stderr


@pytest.mark.parametrize(
    "language",
    [
        pytest.param({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, marks=pytest.mark.long),
        pytest.param({"PYTHONIOENCODING": "latin-1"}, marks=pytest.mark.long),
        pytest.param({"PYTHONIOENCODING": "ascii"}, marks=pytest.mark.slow),
    ],
)
def test_an_output_that_lacks_characters(language, tmp_path):
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "目.jpg").write_bytes(b"no image")
    done = in_shell("pipebench run --data images --stage decode --variant pillow --quick", tmp_path, **language)
    assert done.returncode == 1 and b"no good sample" in done.stderr and b"Traceback" not in done.stderr
    assert b"\\u76ee.jpg" in done.stdout or "目.jpg".encode() in done.stdout
    assert in_shell("pipebench run --list", tmp_path, **language).returncode == 0


@pytest.mark.parametrize("kilobytes", [500_000, 1_000_000])
def test_an_address_space_that_is_too_small(kilobytes, tmp_path):
    line = f"ulimit -v {kilobytes}; pipebench run --data tiny --stage decode --variant pillow --quick"
    done = in_shell(line, tmp_path, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    assert done.returncode == 1 and b"Traceback" not in done.stderr, done.stderr
    assert b"not enough memory" in done.stderr and b"ulimit -v" in done.stderr, done.stderr


def test_check_needs_address_space_for_native_libraries(tmp_path):
    """With so little, their import ended by SIGSEGV."""
    done = in_shell("ulimit -v 500000; pipebench check .", tmp_path)
    assert done.returncode == 1 and b"Traceback" not in done.stderr
    assert b"of address space; decoders need" in done.stderr and b"ulimit -v unlimited" in done.stderr


def test_a_thread_that_cannot_start_has_a_remedy_of_its_own(monkeypatch, capsys):
    def raises(**_):
        raise RuntimeError(said)

    monkeypatch.setattr(cli, "prepared", lambda: None)
    monkeypatch.setattr(cli.cli, "main", raises)
    said = "can't start new thread"
    with pytest.raises(SystemExit) as ended:
        cli.main()
    told = capsys.readouterr().err
    assert ended.value.code == 1 and "start no other thread" in told and "ulimit -u" in told and "memory;" in told
    said = "a fault"
    with pytest.raises(RuntimeError, match=said):
        cli.main()
