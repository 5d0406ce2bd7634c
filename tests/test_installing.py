"""What `pip install pipebench` brings: never a torch, and no other version of what a container for training has."""

import json
import re
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest
import repos
import warm
from packaging.requirements import Requirement

from pipebench.commands import _lab

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BASE = [Requirement(one) for one in PROJECT["dependencies"]]
EXTRAS = {name: [Requirement(one) for one in needs] for name, needs in PROJECT["optional-dependencies"].items()}
# Of the releases that were out when torch 2.4 came, in July 2024. The first ones are in every image with torch.
BARE = {
    "filelock": "3.15.4", "fsspec": "2024.6.1", "Jinja2": "3.1.4", "MarkupSafe": "2.1.5", "mpmath": "1.3.0",
    "networkx": "3.3", "numpy": "1.26.4", "pillow": "10.4.0", "psutil": "5.9.8", "PyYAML": "6.0.1", "sympy": "1.13.1",
    "torch": "2.4.0", "torchaudio": "2.4.0", "torchvision": "0.19.0", "triton": "3.0.0", "typing_extensions": "4.12.2",
}  # fmt: skip
FULL = BARE | {
    "click": "8.1.7", "contourpy": "1.2.1", "cycler": "0.12.1", "fonttools": "4.53.1", "kiwisolver": "1.4.5",
    "markdown-it-py": "3.0.0", "matplotlib": "3.8.4", "mdurl": "0.1.2", "msgspec": "0.18.6", "packaging": "24.1",
    "Pygments": "2.18.0", "pyparsing": "3.1.2", "python-dateutil": "2.9.0", "rich": "13.7.1", "six": "1.16.0",
}  # fmt: skip
OFFLINE = re.compile(
    "No matching distribution|Could not find a version|Connection|Temporary failure|Network is unreach"
)


def _name(text):
    return re.sub("[-_.]+", "-", text).lower()


def test_the_base_needs_nothing_of_the_lab_and_of_the_backends():
    base, lab = ({_name(one.name) for one in needs} for needs in (BASE, EXTRAS["lab"]))
    assert set(_lab.LAB) == lab - base
    others = {_name(one.name) for name in EXTRAS for one in EXTRAS[name] if name != "lab"} - {"pipebench"}
    assert not base & others
    assert {"lab", "backends", "asv"} <= {extra for one in EXTRAS["dev"] for extra in one.extras}


def test_the_base_is_content_with_what_a_container_has():
    for one in BASE:
        has = {_name(name): version for name, version in FULL.items()}.get(_name(one.name))
        assert has is None or has in one.specifier, f"{one} would change {has}"


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info >= (3, 13), reason="torch 2.4 and NumPy 1.26 are not for this Python")
@pytest.mark.parametrize("has", [BARE, FULL], ids=["bare", "full"])
def test_installing_changes_no_package_of_a_container_with_torch_2_4(has, tmp_path):
    """pip resolves for an environment that states these packages, and installs nothing."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path], check=True)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(tmp_path)}))
    for name, version in has.items():
        folder = packages / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    options = ["--dry-run", "--quiet", "--no-input", "--retries", "0", "--timeout", "15", "--report", "-"]
    kept = ["numpy<2"] if sys.version_info >= (3, 12) and "matplotlib" not in has else []  # as README.md says
    pip = [sys.executable, "-m", "pip", "--python", tmp_path / "bin/python", "install", *options, ROOT, *kept]
    done = subprocess.run(pip, capture_output=True, text=True, timeout=300)
    if done.returncode and OFFLINE.search(done.stderr):
        pytest.skip(f"no package index: {done.stderr.strip().splitlines()[-1][:200]}")
    assert done.returncode == 0, done.stderr
    wanted = {_name(one["metadata"]["name"]) for one in json.loads(done.stdout)["install"]}
    assert "pipebench" in wanted
    assert not wanted & {_name(name) for name in has}


def _hiding(*names):
    """Text of a program that runs the command line where these packages are not installed."""
    hidden = "".join(f"sys.modules[{name!r}] = None; " for name in names)
    return f"import sys; sys.path[:] = filter(None, sys.path); {hidden}from pipebench.cli import main; main()"


def _pipebench(*arguments, hides=_lab.LAB, **how):
    command = [sys.executable, "-c", _hiding(*hides), *map(str, arguments)]
    return warm.run(command, capture_output=True, text=True, timeout=120, **how)


@pytest.mark.parametrize("arguments", [["run"], ["study", "metrics"], ["calibrate"], ["pack", "a", "b"]], ids=" ".join)
def test_a_command_of_the_lab_says_at_once_what_it_lacks(arguments):
    done = _pipebench(*arguments)
    assert done.returncode == 1 and done.stdout == ""
    said, remedy = done.stderr.splitlines()
    assert (
        said == f"pipebench: pipebench {arguments[0]} needs torch and torchvision, which pipebench alone does not bring"
    )
    assert remedy.startswith("  pip install 'pipebench[lab]', in an environment of its own if ")


def test_what_reaches_a_missing_torch_later_says_it_in_the_same_words():
    done = _pipebench("syncs", "json:loads")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert done.stderr.startswith("pipebench: this command needs torch, which pipebench alone does not bring\n")


def test_comparing_commits_of_pipebench_itself_says_it_before_it_measures(tmp_path, monkeypatch):
    monkeypatch.setenv("PIPEBENCH_CACHE", str(tmp_path / "cache"))
    repo = repos.sample(tmp_path / "mine")
    (repo / "pipebench").mkdir()
    (repo / "pipebench/__init__.py").touch()
    repos.commit(repo, "two")
    done = _pipebench("ab", "HEAD", "HEAD", cwd=repo)
    assert done.returncode == 1 and "pipebench ab needs torch and torchvision" in done.stderr, done.stderr


SAVED = ROOT / "tests/results/saved"
SCRIPT = "import json, sys\nsys.stdout.write(json.dumps(sys.argv[1:]))\n"


def test_the_other_commands_run_without_the_lab_and_the_backends(tmp_path):
    """No module that they import imports one of those packages."""
    extras = {"cv2", "scipy", "simplejpeg", "torchcodec", "webdataset", "torchmetrics", "asv", "asv_runner"}
    hides = {*_lab.LAB, *extras}
    (tmp_path / "train.py").write_text(SCRIPT)
    saved, page = tmp_path / "report.json", tmp_path / "page.html"
    for arguments in (
        ["watch", "--export-json", saved, "--export-html", page, tmp_path / "train.py"],
        ["watch", "--", sys.executable, tmp_path / "train.py"],
        ["show", saved, "--full"],
        ["show", saved, "--format", "json"],
        ["show", SAVED / "lab.json"],
        ["compare", SAVED / "study.json", SAVED / "study.json"],
        ["schema"],
        ["run", "--list"],
        ["data"],
    ):
        done = _pipebench(*arguments, hides=hides)
        assert done.returncode == 0 and "Traceback" not in done.stderr, (arguments, done.stderr)
    assert page.read_text().startswith("<!DOCTYPE html>")
