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
FAST, STOCK, SIMD = (f".asv/{name}.conf.json" for name in ("fast", "stock", "simd"))  # both columns, and each
OPEN = ["--bench", r"read.Image.*'open'"]
pytestmark = pytest.mark.long


def asv(repo, *arguments, check=True, config=STOCK, **environment):
    command = [*ASV, "--config", config, *arguments]
    done = subprocess.run(
        command, cwd=repo, capture_output=True, text=True, timeout=600,
        env={**os.environ, "PIPEBENCH_SUITE": "all", **environment},
    )  # fmt: skip
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
def repo(tmp_path_factory, home, cache):
    """A clone with two commits of this tree: as it is, and with `decode/rgb/opencv` made twice as slow.

    pillow-simd is not built for it, which takes longer than the rest; `native/test_building.py` builds it.
    """
    folder = tmp_path_factory.mktemp("asv") / "clone"
    unwanted = shutil.ignore_patterns(".venv*", ".git", ".asv", "__pycache__", ".*_cache")
    shutil.copytree(ROOT, folder, ignore=unwanted, symlinks=True)
    repos.git(folder, "init", "--quiet", "--initial-branch=main")
    repos.commit(folder, "as it is")
    decode = folder / "pipebench" / "stages" / "decode.py"
    slow = decode.read_text().replace("    return lambda given: decode(given.data)", TWICE, 1)
    assert slow != decode.read_text()
    decode.write_text(slow)
    repos.commit(folder, "decode twice")
    borrow(folder)
    unbuilt = cache / "pillow-simd.failed"
    unbuilt.write_text("pillow-simd is not built for these tests\n")
    yield folder
    unbuilt.unlink()


def borrow(folder):
    """The configuration that borrows the packages of this Python, and the same for each column alone."""
    done = repos.pipebench("init", "--fast", cwd=folder, PYTHONPATH=str(ROOT))
    assert done.returncode == 0, done.stderr
    made = json.loads((folder / FAST).read_text())
    for config, column in ((STOCK, "stock"), (SIMD, "simd")):
        made["matrix"]["env_nobuild"]["PIPEBENCH_PIL"] = [column]
        (folder / config).write_text(json.dumps(made))
    asv(folder, "machine", "--yes", "--machine", "here")


@pytest.fixture(scope="module")
def results(repo):
    """Two variants of both commits, in turn so that a busy spell of the machine meets both; of HEAD both columns."""
    rows = ["--record-samples", *OPEN, "--bench", r"decode.*'(pillow|opencv)'"]
    (repo / "commits.txt").write_text("\n".join(repos.git(repo, "rev-parse", "HEAD~1", "HEAD").split()))
    asv(repo, "run", f"HASHFILE:{repo}/commits.txt", "--interleave-rounds", *rows)
    asv(repo, "run", "HEAD^!", "--quick", *rows, config=SIMD)


def test_one_environment_serves_all_commits(repo, results):
    environments = [path for path in (repo / ".asv" / "fast").iterdir() if (path / "bin").is_dir()]
    assert len(environments) == 1


def test_compare_names_the_slow_stage_and_no_other(repo, results):
    said = asv(repo, "compare", "HEAD~1", "HEAD", "--factor", "1.5", "--only-changed", "--machine", "here").stdout
    assert "decode.RGB.time_sample('opencv', 'photos', 'original')" in said
    assert "n/a" not in said
    worse = [line for line in said.splitlines() if re.match(r"\| \+ ", line)]
    assert worse and all("'opencv'" in line for line in worse), said


def test_compare_of_one_column_has_no_row_of_the_other(repo, results):
    """In the column of pillow-simd what does not use Pillow is n/a on both sides."""
    both = asv(repo, "compare", "HEAD~1", "HEAD", "--machine", "here").stdout
    (stock,) = (repo / ".asv" / "results" / "here").glob(f"{head(repo)}-*stock.json")
    column = stock.stem.partition("-")[2]
    one = asv(repo, "compare", "HEAD~1", "HEAD", "--machine", "here", "-E", column).stdout
    assert both.count("read.Image.time_sample('open'") == 2 and one.count("read.Image.time_sample('open'") == 1
    (row,) = [line for line in one.splitlines() if "'open'" in line]
    assert "n/a" not in row and "μs" in row  # asv scales what is in `seconds`


def head(repo):
    return repos.git(repo, "rev-parse", "HEAD")[:8]


def test_the_column_of_pillow_simd_has_no_figure_of_anything_else(repo, results):
    found = {}
    for file in (repo / ".asv" / "results" / "here").glob(f"{head(repo)}-*.json"):
        kept = json.loads(file.read_text())
        names, values = kept["results"]["decode.RGB.time_sample"][1][0], kept["results"]["decode.RGB.time_sample"][0]
        measured = {name for name, value in zip(names, values, strict=True) if value is not None and value == value}
        found[kept["env_vars"]["PIPEBENCH_PIL"]] = measured  # n/a is None or not a number
    assert found["stock"] == {"'pillow'", "'opencv'"}
    assert found["simd"] <= {"'pillow'"}  # where it was built


@pytest.mark.timing  # twice as slow is not significant to asv where other work is
def test_continuous_finds_it_and_exits_1(repo):
    only = ["--bench", r"decode.*'opencv'"]
    done = asv(repo, "continuous", "HEAD~1", "HEAD", "--factor", "1.5", *only, check=False)
    assert done.returncode == 1, done.stdout[-3000:]
    assert "'opencv'" in done.stdout


def test_publish_writes_pages(repo, results):
    asv(repo, "publish")
    assert (repo / ".asv" / "html" / "index.html").exists()
    assert "decode.RGB.time_sample" in (repo / ".asv" / "html" / "index.json").read_text()


def test_an_interrupted_run_keeps_its_results_and_resumes(repo):
    """Interrupted after the first benchmark: what there is stays, and `--skip-existing` adds the rest."""
    only = ["--bench", r"read.*'open'", "--record-samples"]
    for file in (repo / ".asv" / "results" / "here").glob("*-*.json"):
        file.unlink()
    command = [*ASV, "--config", STOCK, "run", "HEAD^!", *only]
    environment = {**os.environ, "PIPEBENCH_SUITE": "all"}
    running = subprocess.Popen(
        command, cwd=repo, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    for line in running.stdout:
        if "time_sample" in line and "ok" in line:
            break
    running.send_signal(signal.SIGINT)
    running.wait(timeout=120)
    asv(repo, "run", "HEAD^!", "--skip-existing", *only)
    kept = [json.loads(path.read_text()) for path in (repo / ".asv" / "results" / "here").glob("*-*.json")]
    assert kept and all(
        {"read.Image.time_sample", "read.AllMembers.time_sample"} <= set(one["results"]) for one in kept
    )


def test_a_commit_without_a_variant_has_no_figure_for_it(repo):
    """The variants of the suite that runs, by name: an older commit that lacks one is n/a there, not another's time."""
    decode = repo / "pipebench" / "stages" / "decode.py"
    text = decode.read_text()
    added = text.replace('name="pillow-draft"', 'name="a-new-one"')
    decode.write_text(added)
    repos.commit(repo, "a variant renamed")
    only = ["--bench", r"decode.*'(a-new-one|simplejpeg)'"]
    shown = asv(repo, "run", "HEAD~1^!", *only, "--quick", "--dry-run").stdout
    row = {name: next(line for line in shown.splitlines() if name in line) for name in ("a-new-one", "simplejpeg")}
    repos.git(repo, "reset", "--quiet", "--hard", "HEAD~1")
    assert "n/a" in row["a-new-one"] and "n/a" not in row["simplejpeg"]


def test_the_long_view_of_a_commit_has_a_figure_in_every_timed_row(repo):
    """What asv measures by itself, once; `test_asv_smoke.py` runs the loader and the training too."""
    only = ["--bench", "time_sample", "--quick", "--dry-run"]
    shown = asv(repo, "run", "HEAD~1^!", *only, PIPEBENCH_SUITE="").stdout
    assert "n/a" not in shown and "failed" not in shown
    assert shown.count("time_sample") >= 6 and "simplejpeg" not in shown


def test_the_sample_repository_finds_its_slower_commit(tmp_path, home):
    """`pipebench init` in somebody's repository, with borrowed packages: `asv continuous` finds the slower transform.

    That `pipebench ab` finds it too is tested in `compare/test_ab.py`.
    """
    folder = repos.sample(tmp_path / "mine")
    written = repos.pipebench(
        "init", "sampledata:make_loader", "--transform", "sampledata:make_transform", "--workers", "0", cwd=folder
    )
    assert written.returncode == 0, written.stderr
    repos.commit(folder, "suite")
    repos.slower(folder)
    borrow(folder)
    done = asv(folder, "continuous", "HEAD~1", "HEAD", "--factor", "1.5", "--bench", "Transform", check=False)
    assert done.returncode == 1, done.stdout[-3000:] + done.stderr[-3000:]
    assert "time_sample('Scale')" in done.stdout  # asv may name others too where the machine is busy
