"""`pipebench init --fast`: asv's environments borrow the packages of a Python, wherever its `.pth` files lead."""

import json
import os
import shlex
import subprocess
import sys
import types
import venv
from pathlib import Path

import pytest
import repos
from click.testing import CliRunner

from pipebench.compare import borrowed_packages, scaffold
from pipebench.errors import PipebenchError

TEMPLATE = (scaffold.TEMPLATES / "asv.conf.json").read_text()


@pytest.fixture
def repo(tmp_path):
    """A repository with a package in `src`, and the configuration that `init` writes."""
    folder = tmp_path / "repository"
    (folder / "src" / "mine").mkdir(parents=True)
    (folder / "src" / "mine" / "__init__.py").write_text("WHERE = __file__\n")
    text = TEMPLATE.replace("@INSTALL@", json.dumps(borrowed_packages.used_in_place(folder)))
    (folder / "asv.conf.json").write_text(text)
    return folder


def environment(folder):
    """A virtual environment without pip: its Python, and the folder of its packages."""
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    return folder / "bin" / "python", packages


def run_as(monkeypatch, python):
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setattr(sys, "prefix", str(python.parent.parent))


def module(folder, name):
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.py").write_text("WHERE = __file__\n")
    return folder


def test_asvs_environment_imports_the_commit_and_every_borrowed_folder(repo, tmp_path, monkeypatch):
    """A light environment: its packages lie in a folder that a `.pth` file names, beside the working tree."""
    python, packages = environment(repo / ".venv")
    elsewhere = module(tmp_path / "another's packages", "borrowed")
    (packages / "a.pth").write_text(f"{repo / 'src'}\n{elsewhere}\n")
    module(packages, "own")
    run_as(monkeypatch, python)
    borrowed_packages.write(repo)
    made = json.loads((repo / ".asv" / "fast.conf.json").read_text())
    checkout = tmp_path / "checkout"
    (checkout / "src" / "mine").mkdir(parents=True)
    (checkout / "src" / "mine" / "__init__.py").write_text("WHERE = __file__\n")
    asvs, _ = environment(tmp_path / "asvs")
    for command in made["install_command"]:
        words = [word for word in shlex.split(command) if not word.startswith("in-dir=")]
        places = {"{build_dir}": str(checkout), "{conf_dir}": str(repo / ".asv")}
        for name, place in places.items():
            words = [word.replace(name, place) for word in words]
        subprocess.run([str(asvs), *words[1:]], check=True)
    asked = "import borrowed, mine, own, sys; print(borrowed.WHERE, mine.WHERE, own.WHERE, *sys.path, sep=chr(10))"
    done = subprocess.run([str(asvs), "-P", "-c", asked], check=True, capture_output=True, text=True)
    said = done.stdout.splitlines()
    assert said[:3] == [
        str(place) for place in (elsewhere / "borrowed.py", checkout / "src/mine/__init__.py", packages / "own.py")
    ]
    assert str(repo / "src") not in said[3:]


@pytest.mark.parametrize(
    ("address", "written"),
    [
        (".", ".."),
        ("src", "../src"),
        ("git@github.com:someone/mine.git", "git@github.com:someone/mine.git"),
        ("https://example.org/mine.git", "https://example.org/mine.git"),
    ],
)
def test_the_address_of_a_repository_stays_and_a_path_is_seen_from_its_new_place(address, written, repo):
    assert borrowed_packages.fast({"repo": address}, repo)["repo"] == written


def test_an_import_hook_of_another_project_is_borrowed_and_that_of_this_one_is_not(repo, monkeypatch):
    for name, place in (("other", "/elsewhere/other"), ("mine", str(repo / "src" / "mine"))):
        finder = types.ModuleType(f"__editable___{name}_finder")
        finder.MAPPING = {name: place}
        monkeypatch.setitem(sys.modules, finder.__name__, finder)
    borrowed_packages.write(repo)
    lines = (repo / ".asv" / "packages.pth").read_text().splitlines()
    assert "import __editable___other_finder; __editable___other_finder.install()" in lines
    assert not any("mine" in line for line in lines)


def test_the_fast_configuration_differs_only_in_where_packages_come_from(repo):
    text = (repo / "asv.conf.json").read_text()
    text = text.replace('"1"]}', '"1"], "COLUMN": ["a//b", "c",],}')
    text = text.replace('"html_dir": ".asv/html"', '"html_dir": ".asv/html", // the last one has a comma,\n')
    (repo / "asv.conf.json").write_text(text)
    borrowed_packages.write(repo)
    made = json.loads((repo / ".asv" / "fast.conf.json").read_text())
    assert made["matrix"] == {
        "req": {"pip+asv_runner": ["0.3.2"]},
        "env_nobuild": {"OMP_NUM_THREADS": ["1"], "COLUMN": ["a//b", "c"]},
    }
    for name, full in (("repo", "."), ("benchmark_dir", "benchmarks"), ("results_dir", ".asv/results")):
        assert os.path.normpath(Path(".asv") / made[name]) == full
    assert made["default_benchmark_timeout"] == 300 and made["env_dir"] == "fast"


def test_a_project_with_compiled_parts_keeps_its_install_command(repo):
    (repo / "setup.py").write_text(
        "import setuptools\nsetuptools.setup(ext_modules=[setuptools.Extension('x', ['x.c'])])\n"
    )
    build = ["python -m pip install --no-deps {build_dir}"]
    made = borrowed_packages.fast({"repo": ".", "install_command": build, "build_command": ["make"]}, repo)
    assert made["install_command"][1:] == build and made["build_command"] == ["make"]


def test_a_commit_is_imported_from_the_folders_that_its_build_configuration_names(repo):
    (repo / "python" / "mine").mkdir(parents=True)
    (repo / "pyproject.toml").write_text('[tool.setuptools.packages.find]\nwhere = ["python"]\n')
    used = borrowed_packages.used_in_place(repo)
    assert used.endswith(" {build_dir}/python {build_dir}/src {build_dir}")


def test_other_commands_are_run_and_the_install_of_a_wheel_is_not(repo):
    commands = ["python -m pip install {wheel_file}", "python {conf_dir}/tools/more.py"]
    made = borrowed_packages.fast({"repo": ".", "install_command": commands, "build_command": ["pip wheel"]}, repo)
    assert made["install_command"][2:] == ["python {conf_dir}/../tools/more.py"]
    assert made["build_command"] == [] and "{build_dir}/src {build_dir}" in made["install_command"][1]


def test_a_configuration_that_is_absent_or_broken_says_so(repo):
    (repo / "asv.conf.json").write_text("{")
    with pytest.raises(PipebenchError, match=r"asv.conf.json cannot be read"):
        borrowed_packages.write(repo)
    (repo / "asv.conf.json").unlink()
    with pytest.raises(PipebenchError, match=r"asv.conf.json does not exist"):
        borrowed_packages.write(repo)


def test_the_command_writes_it_and_asks_for_a_loader_otherwise(repo, monkeypatch):
    from pipebench.commands.init import command
    from pipebench.errors import UsageError

    repos.git(repo, "init", "--quiet")
    monkeypatch.chdir(repo)
    done = CliRunner().invoke(command, ["--fast"], catch_exceptions=False)
    assert done.output.startswith("wrote .asv/fast.conf.json\n") and (repo / ".asv" / "packages.pth").exists()
    with pytest.raises(UsageError, match="your loader is missing"):
        CliRunner().invoke(command, [], catch_exceptions=False)
