"""asv over real commits: one of them makes one stage twice as slow, and `compare` must name that stage and no other."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import repos

ROOT = Path(__file__).absolute().parent.parent
ASV = [sys.executable, "-m", "asv"]
TWICE = (
    "    def twice(given: Encoded) -> Any:\n"
    "        for _ in range(2):\n"
    "            made = decode(given.data)\n"
    "        return made\n\n"
    "    return twice"
)
pytestmark = pytest.mark.slow


def asv(repo, *arguments, check=True, config=".asv/fast.conf.json", **environment):
    command = [*ASV, "--config", config, *arguments]
    done = subprocess.run(
        command, cwd=repo, capture_output=True, text=True, timeout=1800, env={**os.environ, **environment}
    )
    assert not check or done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A home of its own, so that asv's file of machines is not the user's."""
    folder = tmp_path_factory.mktemp("home")
    kept = os.environ.get("HOME")
    os.environ["HOME"] = str(folder)
    yield folder
    os.environ["HOME"] = kept or ""


@pytest.fixture(scope="module")
def repo(tmp_path_factory, home):
    """A clone with two commits of this tree: as it is, and with `decode/rgb/opencv` made twice as slow."""
    folder = tmp_path_factory.mktemp("asv") / "clone"
    unwanted = shutil.ignore_patterns(".venv", ".git", ".asv", "__pycache__", ".*_cache")
    shutil.copytree(ROOT, folder, ignore=unwanted, symlinks=True)
    repos.git(folder, "init", "--quiet", "--initial-branch=main")
    repos.commit(folder, "as it is")
    decode = folder / "pipebench" / "stages" / "decode.py"
    slow = decode.read_text().replace("    return lambda given: decode(given.data)", TWICE, 1)
    assert slow != decode.read_text()
    decode.write_text(slow)
    repos.commit(folder, "decode twice")
    subprocess.run([sys.executable, "tools/asv_fast.py"], cwd=folder, check=True)
    asv(folder, "machine", "--yes", "--machine", "here")
    return folder


ONLY = ["--bench", r"decode|read\.Image"]


@pytest.fixture(scope="module")
def results(repo):
    """Both commits, both Pillows, in one environment, in turn so that a busy spell of the machine meets both."""
    every = ["--interleave-rounds", "--attribute", "rounds=4", "--record-samples", *ONLY]
    (repo / "commits.txt").write_text("\n".join(repos.git(repo, "rev-parse", "HEAD~1", "HEAD").split()))
    asv(repo, "run", f"HASHFILE:{repo}/commits.txt", *every)


def test_one_environment_serves_all_commits(repo, results):
    environments = [path for path in (repo / ".asv" / "fast").iterdir() if (path / "bin").is_dir()]
    assert len(environments) == 1


def test_compare_names_the_slow_stage_and_no_other(repo, results):
    said = asv(repo, "compare", "HEAD~1", "HEAD", "--factor", "1.5", "--only-changed", "--machine", "here").stdout
    assert "decode.RGB.time_sample('opencv', 'photos', 'original')" in said
    worse = [line for line in said.splitlines() if re.match(r"\| \+ ", line)]
    assert worse and all("'opencv'" in line for line in worse), said


def test_the_columns_differ_in_pillow_alone(repo, results):
    found = {}
    for file in (repo / ".asv" / "results" / "here").glob("*-*.json"):
        kept = json.loads(file.read_text())
        found[kept["env_vars"]["PIPEBENCH_PIL"]] = kept["results"]["decode.RGB.time_sample"][0]
    assert set(found) == {"stock", "simd"}
    measured = {name: sum(value is not None and value == value for value in values) for name, values in found.items()}
    assert measured["stock"] > measured["simd"]  # n/a is None or not a number


def test_continuous_finds_it_and_exits_1(repo, results):
    done = asv(repo, "continuous", "HEAD~1", "HEAD", "--factor", "1.5", "--bench", "decode", check=False)
    assert done.returncode == 1, done.stdout[-3000:]
    assert "'opencv'" in done.stdout


def test_publish_writes_pages(repo, results):
    asv(repo, "publish")
    assert (repo / ".asv" / "html" / "index.html").exists()
    assert "decode.RGB.time_sample" in (repo / ".asv" / "html" / "index.json").read_text()


def test_check_and_the_same_environment(repo):
    asv(repo, "check", "--python=same", config="asv.conf.json")
    done = asv(repo, "run", "--python=same", "--quick", "--dry-run", "--bench", "read", config="asv.conf.json")
    assert "failed" not in done.stdout


def test_an_interrupted_run_keeps_its_results_and_resumes(repo, results):
    """Interrupted after the first benchmark: what there is stays, and `--skip-existing` adds the rest."""
    shutil.rmtree(repo / ".asv" / "results" / "here", ignore_errors=True)
    asv(repo, "machine", "--yes", "--machine", "here")
    command = [*ASV, "--config", ".asv/fast.conf.json", "run", "HEAD^!", "--bench", "read", "--record-samples"]
    running = subprocess.Popen(command, cwd=repo, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for line in running.stdout:
        if "time_sample" in line and "ok" in line:
            break
    running.send_signal(signal.SIGINT)
    running.wait(timeout=120)
    asv(repo, "run", "HEAD^!", "--skip-existing", "--bench", "read", "--record-samples")
    kept = [json.loads(path.read_text()) for path in (repo / ".asv" / "results" / "here").glob("*-*.json")]
    assert kept and all(
        {"read.Image.time_sample", "read.AllMembers.time_sample"} <= set(one["results"]) for one in kept
    )


def test_a_commit_without_a_variant_has_no_figure_for_it(repo, results):
    """The variants of the suite that runs, by name: an older commit that lacks one is n/a there, not another's time."""
    decode = repo / "pipebench" / "stages" / "decode.py"
    text = decode.read_text()
    added = text.replace('name="pillow-draft"', 'name="a-new-one"')
    decode.write_text(added)
    repos.commit(repo, "a variant renamed")
    shown = asv(repo, "run", "HEAD~1^!", "--bench", "decode", "--quick", "--dry-run").stdout
    row = next(line for line in shown.splitlines() if "a-new-one" in line)
    repos.git(repo, "reset", "--quiet", "--hard", "HEAD~1")
    assert "n/a" in row


def test_the_sample_repository_finds_its_slower_commit(tmp_path, home):
    """`pipebench init` in somebody's repository: found by `asv continuous`, and by `pipebench ab`."""
    folder = repos.sample(tmp_path / "mine")
    written = repos.pipebench(
        "init", "sampledata:make_loader", "--transform", "sampledata:make_transform", "--workers", "0", cwd=folder
    )
    assert written.returncode == 0, written.stderr
    repos.commit(folder, "suite")
    repos.slower(folder)
    _borrow(folder)
    asv(folder, "machine", "--yes", "--machine", "here", config="asv.conf.json")
    done = asv(
        folder, "continuous", "HEAD~1", "HEAD", "--factor", "1.5", "--attribute", "rounds=4", "--bench", "Transform",
        config="asv.conf.json", check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout[-3000:] + done.stderr[-3000:]
    assert (
        "time_sample('Scale')" in done.stdout
        and "RandomHorizontalFlip" not in done.stdout.partition("SOME BENCH")[0][-500:]
    )
    gate = repos.pipebench("ab", "HEAD~1", "HEAD", "--budget", "90", "--fail-above", "20%", cwd=folder)
    assert gate.returncode == 3, gate.stdout + gate.stderr
    assert "transform/own/Scale" in gate.stderr and "transform/own/RandomHorizontalFlip" not in gate.stderr


def _borrow(folder):
    """The written configuration with the packages of this Python instead of a download of torch."""
    import sysconfig

    text = (folder / "asv.conf.json").read_text()
    text = re.sub(r'"req": \{.*?\}', '"req": {"pip+asv_runner": ["0.3.2"]}', text)
    borrowed = f"{sysconfig.get_path('purelib')} {ROOT}"
    text = text.replace(" + '/src' + chr(10))", " + '/src' + chr(10) + chr(10).join(sys.argv[2:]))")
    text = text.replace('{build_dir}"\n', f'{{build_dir}} {borrowed}"\n')
    (folder / "asv.conf.json").write_text(text)
    repos.git(folder, "update-index", "--assume-unchanged", "asv.conf.json")
