"""The workflow that `init` writes: its steps run here under bash, with programs that stand for gh, pip, pipebench."""

import json
import os
import subprocess
import sys

import pytest
import repos
import yaml

from pipebench.compare import scaffold

MARK = "<!-- pipebench ab -->"
OTHERS = [
    {"id": 1, "user": {"login": "github-actions[bot]"}, "body": "another workflow's"},
    {"id": 2, "user": {"login": "someone"}, "body": f"{MARK}\nquoted"},
]
# Keeps comments in a file, as the server does, and filters with jq, as gh does. Only the token `writes` may write.
GH = """#!{python}
import json, os, subprocess, sys
arguments, store = sys.argv[2:], os.environ["STORE"]
options = dict(zip(arguments, arguments[1:]))
path = next(one for one in arguments if one.startswith("repos/"))
comments = json.load(open(store))
if "--method" not in options:
    assert path == "repos/me/mine/issues/7/comments", path
    done = subprocess.run(["jq", "-r", options["--jq"]], input=json.dumps(comments), text=True, stdout=subprocess.PIPE)
    sys.stdout.write(done.stdout)
    sys.exit(done.returncode)
if os.environ["GH_TOKEN"] != "writes":
    sys.exit("gh: Resource not accessible by integration (HTTP 403)")
body = open(options["--field"].removeprefix("body=@")).read()
if options["--method"] == "PATCH":
    (found,) = [one for one in comments if path == f"repos/me/mine/issues/comments/{{one['id']}}"]
    found["body"] = body
else:
    assert path == "repos/me/mine/issues/7/comments", path
    comments.append({{"id": len(comments) + 1, "user": {{"login": "github-actions[bot]"}}, "body": body}})
json.dump(comments, open(store, "w"))
"""
# Notes what it was asked, and fails where a pattern in $FAILS matches it.
NOTING = """#!/bin/bash
echo "$(basename "$0") $*" >> "$CALLS"
[ -z "$FAILS" ] || ! grep -qE "$FAILS" <<< "$*"
"""
AB = """#!/bin/bash
echo "pipebench $*" >> "$CALLS"
while [ $# -gt 0 ]; do [ "$1" = --export-json ] && echo '{}' > "$2"; shift; done
echo "**$TABLE**"
exit "$STATUS"
"""


@pytest.fixture
def repo(tmp_path, monkeypatch):
    folder = repos.sample(tmp_path / "mine")
    monkeypatch.syspath_prepend(folder)
    return folder


@pytest.fixture
def workflow(repo):
    made = scaffold.plan(repo, "sampledata:make_loader", None)
    return yaml.safe_load(made.files[".github/workflows/pipebench.yml"])


@pytest.fixture
def run(repo, workflow, tmp_path, monkeypatch):
    """Runs a step by its name, with the shell and the options that GitHub uses; returns what it did."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in {"gh": GH.format(python=sys.executable), "python": NOTING, "pipebench": AB}.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    places = {"CALLS": tmp_path / "calls", "STORE": tmp_path / "comments", "GITHUB_STEP_SUMMARY": tmp_path / "summary"}
    for path in places.values():
        path.write_text("")
    places["STORE"].write_text(json.dumps(OTHERS))
    settings = {"RUNNER_TEMP": tmp_path, "GITHUB_REPOSITORY": "me/mine", "PATH": f"{programs}:{os.environ['PATH']}"}
    for name, value in {**places, **settings, "FAILS": "", "STATUS": "0", "TABLE": "first"}.items():
        monkeypatch.setenv(name, str(value))
    given = {
        "github.event.pull_request.base.sha": "HEAD", "github.event.pull_request.head.sha": "abc",
        "github.event.pull_request.number": "7", "github.token": "writes",
    }  # fmt: skip

    def run(name, **more):
        (step,) = [one for one in workflow["jobs"]["ab"]["steps"] if one.get("name") == name]
        filled = {key: given[value[3:-2].strip()] for key, value in step.get("env", {}).items()}
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        environment = {**os.environ, **filled, **more}
        return subprocess.run(command, cwd=repo, env=environment, capture_output=True, text=True)

    run.comments = lambda: json.loads(places["STORE"].read_text())
    run.calls = lambda: places["CALLS"].read_text().splitlines()
    run.summary = places["GITHUB_STEP_SUMMARY"].read_text
    return run


FITS = "import importlib.util, torch; importlib.util.find_spec('torchvision') and __import__('torchvision')"
COMPARE, COMMENT, INSTALL = "Compare with the base", "Comment on the pull request", "Install"


def test_it_is_whole_and_asks_only_for_the_rights_that_it_needs(workflow):
    assert workflow[True] == {"pull_request": None}  # `on`, which YAML 1.1 reads as true
    assert workflow["permissions"] == {"contents": "read", "pull-requests": "write"}
    steps = workflow["jobs"]["ab"]["steps"]
    assert [one["uses"].partition("@")[0] for one in steps if "uses" in one] == [
        "actions/checkout", "actions/setup-python", "actions/upload-artifact",
    ]  # fmt: skip
    assert steps[0]["with"]["persist-credentials"] is False
    assert [one.get("name") for one in steps if "GH_TOKEN" in one.get("env", {})] == [COMMENT]
    kept = [one["name"] for one in steps if one.get("if") == "${{ !cancelled() }}"]
    assert kept == ["Keep the readings", COMMENT]  # after a gate that failed too
    assert "@" not in "".join(one.get("run", "").replace("=@", "").replace("[@]", "") for one in steps)


def test_the_comparison_is_in_the_summary_and_its_readings_are_kept(run, repo, tmp_path):
    done = run(COMPARE)
    assert done.returncode == 0, done.stderr
    assert run.summary() == (tmp_path / "pipebench.md").read_text() == "**first**\n"
    assert (tmp_path / "pipebench.json").exists()
    (call,) = run.calls()
    base = repos.git(repo, "rev-parse", "HEAD")
    assert call.startswith(f"pipebench ab {base} HEAD --fail-above 5% --github --format markdown --export-json ")


def test_a_gate_that_fails_is_red_and_its_table_is_shown_all_the_same(run):
    assert run(COMPARE, STATUS="3").returncode == 3
    assert run.summary() == "**first**\n"
    assert run(COMMENT).returncode == 0
    assert run.comments()[2]["body"].startswith(f"{MARK}\n**first**\n")


def test_the_table_is_one_comment_that_is_updated_and_no_other_comment_is_touched(run):
    for table in ("first", "second", "third"):
        assert run(COMPARE, TABLE=table).returncode == 0
        done = run(COMMENT)
        assert done.returncode == 0 and done.stdout == "", done.stderr
        assert run.comments()[:2] == OTHERS
        assert [one["body"] for one in run.comments()[2:]] == [f"{MARK}\n**{table}**\n\nCommit abc.\n"]


@pytest.mark.parametrize("token", ["reads", ""])
def test_a_fork_whose_token_can_only_read_ends_green_and_says_where_the_table_is(run, token):
    run(COMPARE)
    done = run(COMMENT, GH_TOKEN=token)
    assert done.returncode == 0
    assert "::notice title=pipebench::this token cannot comment" in done.stdout
    assert run.comments() == OTHERS and run.summary() == "**first**\n"


def test_without_a_table_there_is_no_comment(run):
    assert run(COMMENT).returncode == 0
    assert run.comments() == OTHERS


def test_torch_and_torchvision_come_from_the_cpu_builds_in_one_resolution(run):
    assert run(INSTALL).returncode == 0
    assert run.calls() == [
        "python -m pip install --quiet uv",
        "python -m uv pip install --system --torch-backend cpu pipebench torch torchvision",
        f"python -c {FITS}",
    ]


def test_a_project_without_torchvision_is_not_installed_twice():
    hidden = "import sys; sys.modules['torchvision'] = None; "
    assert (
        subprocess.run([sys.executable, "-c", "import sys; sys.modules['torch'] = sys; " + hidden + FITS]).returncode
        == 0
    )
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.modules['torch'] = None; {FITS}"], capture_output=True
    )
    assert done.returncode == 1


@pytest.mark.parametrize("fails", ["^-m uv", "^-c import"])
def test_where_the_requirements_do_not_allow_cpu_builds_pip_installs_what_they_ask_for(run, fails):
    done = run(INSTALL, FAILS=fails)
    assert done.returncode == 0, done.stderr
    assert "::notice title=pipebench::the requirements do not allow" in done.stdout
    assert run.calls()[-2:] == [
        "python -m pip uninstall --quiet --yes torch torchvision",
        "python -m pip install pipebench torch torchvision",
    ]


def test_what_cannot_be_installed_at_all_is_red(run):
    assert run(INSTALL, FAILS="^-m uv|^-m pip install pipebench").returncode != 0
