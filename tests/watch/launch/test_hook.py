"""What a Python process of a watched command finds at its start, and what its script then sees of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipebench.watch.launch import programs
from pipebench.watch.launch.hook import pipebench_hook
from pipebench.watch.launch.programs import Programs, ignores_the_hook, watched_environment
from pipebench.watch.read.gather import gather
from pipebench.watch.record.program_lines import ProgramFailed, ProgramStarted, WithoutTorch
from pipebench.watch.record.recording import Settings

SEES = """
import json, os, sys
seen = {"path": sys.path[1:], "names": sorted(os.environ), "PYTHONPATH": os.environ.get("PYTHONPATH"),
        "modules": sorted(one for one in sys.modules if "pipebench" in one or "custom" in one),
        "cache": sorted(one for one in sys.path_importer_cache if "hook" in one), "raw": os.environb.get(b"PYTHONPATH")}
seen["raw"] = repr(seen["raw"])
print(json.dumps(seen))
"""
STARTS = """
import os, subprocess, sys
if len(sys.argv) > 1:
    import torch
    sys.exit()
again = [sys.executable, __file__, "again"]
how = {
    "inherited": lambda: subprocess.run(again, check=True),
    "named": lambda: subprocess.run(again, check=True, env=dict(os.environ)),
    "bare": lambda: subprocess.run(again, check=True, env={"PYTHONPATH": os.environ["PYTHONPATH"]}),
    "changed": lambda: (os.environ.update(PYTHONPATH=os.environ["PYTHONPATH"] + os.pathsep + "/nowhere"),
                        subprocess.run(again, check=True)),
    "changed for a shell": lambda: (os.environ.update(PYTHONPATH=os.environ["PYTHONPATH"] + os.pathsep + "/nowhere"),
                                    os.system(" ".join(again))),
    "changed and replaced": lambda: (os.environ.update(PYTHONPATH=os.environ["PYTHONPATH"] + os.pathsep + "/nowhere"),
                                     os.execv(sys.executable, again)),
    "cleared": lambda: ([os.environ.pop(one) for one in list(os.environ) if one != "PYTHONPATH"],
                        subprocess.run(again, check=True)),
    "spawned": lambda: os.waitpid(os.posix_spawn(sys.executable, again, dict(os.environ)), 0),
    "system": lambda: os.system(" ".join(again)),
    "replaced": lambda: os.execve(sys.executable, again, dict(os.environ)),
    "a dict": lambda: (setattr(os, "environ", dict(os.environ)), subprocess.run(again, check=True)),
}
how[os.environ.get("HOW", "inherited")]()
"""


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "records"
    folder.mkdir()
    return folder


@pytest.fixture
def torch_path(tmp_path: Path) -> str:
    """A folder in which `import torch` finds an empty module, at once."""
    made = tmp_path / "libraries"
    made.mkdir()
    (made / "torch.py").write_text("")
    return str(made)


def _python(script: Path, environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments, str(script)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)


def _environment(folder: Path, **names: str) -> dict[str, str]:
    usual = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return watched_environment(folder, Settings(str(folder)), {**usual, **names})


def _programs(folder: Path) -> list[Path]:
    return [one for one in folder.iterdir() if one.is_dir()]


@pytest.mark.parametrize("own", [None, "", "/opt", "/opt:/srv", ":"])
def test_the_script_sees_what_it_sees_without_us(own: str | None, run_folder: Path, tmp_path: Path) -> None:
    script = tmp_path / "sees.py"
    script.write_text(SEES)
    names = {} if own is None else {"PYTHONPATH": own}
    usual = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    alone = _python(script, {**usual, **names})
    with_us = _python(script, _environment(run_folder, **names))
    assert json.loads(with_us.stdout) == json.loads(alone.stdout)
    assert with_us.stderr == alone.stderr
    assert not _programs(run_folder)  # it did not import torch


@pytest.mark.parametrize("own", [None, "", "/opt"])
@pytest.mark.parametrize("value", ["$PYTHONPATH:src", "src:$PYTHONPATH", "$PYTHONPATH:src:.", ".:$PYTHONPATH"])
def test_a_shell_may_put_its_own_folders_around(
    value: str, own: str | None, run_folder: Path, torch_path: str, tmp_path: Path
) -> None:
    """Python takes an empty place in PYTHONPATH for the current folder."""
    script = tmp_path / "sees.py"
    script.write_text(SEES + f"sys.path.append({torch_path!r})\nimport torch\n")
    names = {} if own is None else {"PYTHONPATH": own}
    usual = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    line = ["sh", "-c", f'export PYTHONPATH="{value}"; "{sys.executable}" "{script}"']
    work = tmp_path / "work"
    work.mkdir()
    alone, with_us = (
        subprocess.run(line, cwd=work, env=one, capture_output=True, text=True, timeout=60, check=True)
        for one in ({**usual, **names}, _environment(run_folder, **names))
    )
    assert json.loads(with_us.stdout) == json.loads(alone.stdout)
    assert with_us.stderr == alone.stderr
    assert len(_programs(run_folder)) == 1


@pytest.mark.parametrize("how", [
    "inherited", "named", "bare", "changed", "changed for a shell", "changed and replaced", "cleared", "spawned",
    "system", "replaced", "a dict",
])  # fmt: skip
def test_a_child_is_watched_however_it_is_started(how: str, run_folder: Path, torch_path: str, tmp_path: Path) -> None:
    script = tmp_path / "starts.py"
    script.write_text(STARTS)
    _python(script, _environment(run_folder, PYTHONPATH=torch_path, HOW=how))
    assert len(_programs(run_folder)) == 1  # the child: only it imports torch


def test_the_folder_for_stacks_may_be_there_already(run_folder: Path, torch_path: str, tmp_path: Path) -> None:
    """Who looks from outside makes it as soon as it sees the folder of a program."""
    script = tmp_path / "starts.py"
    script.write_text(
        "import os\n"
        "plain = os.mkdir\n"
        "def mkdir(path):\n"
        "    plain(path)\n"
        "    if not path.endswith('stacks'):\n"
        "        plain(path + '/stacks')\n"
        "os.mkdir = mkdir\n"
        "import torch\n"
    )
    assert _python(script, _environment(run_folder, PYTHONPATH=torch_path)).stderr == ""
    (folder,) = _programs(run_folder)
    assert gather(folder)


def test_what_is_replaced_in_os_can_be_pickled(run_folder: Path, tmp_path: Path) -> None:
    """As by `Pool.map(os.system, commands)`."""
    script = tmp_path / "pickles.py"
    script.write_text(
        "import os, pickle\n"
        "names = 'system', 'execv', 'execve', 'posix_spawn', 'posix_spawnp'\n"
        "print([pickle.loads(pickle.dumps(getattr(os, one))).__name__ for one in names])\n"
    )
    alone = _python(script, {name: value for name, value in os.environ.items() if name != "PYTHONPATH"})
    assert _python(script, _environment(run_folder)).stdout == alone.stdout


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
@pytest.mark.parametrize(("runs", "programs"), [("rank", 2), ("_worker_loop", 1)])
def test_what_multiprocessing_starts_is_a_program_unless_it_is_a_worker(
    method: str, runs: str, programs: int, run_folder: Path, torch_path: str, tmp_path: Path
) -> None:
    script = tmp_path / "spawns.py"
    script.write_text(
        "import multiprocessing\n"
        "import torch\n"
        f"def {runs}():\n    print('ran')\n"
        "if __name__ == '__main__':\n"
        f"    process = multiprocessing.get_context({method!r}).Process(target={runs})\n"
        "    process.start()\n"
        "    process.join()\n"
    )
    assert _python(script, _environment(run_folder, PYTHONPATH=torch_path)).stdout == "ran\n"
    found = _programs(run_folder)
    assert len(found) == programs
    for one in found:
        (records,) = one.glob("*.spans")
        assert '"name":"end"' in records.read_text()


@pytest.mark.parametrize(
    "start", [("train.py", "3"), ("-m", "train", "3"), ("-Wignore", "-mtrain", "3"), ("-m", "run")]
)
def test_a_program_is_named_by_what_was_started_whatever_its_arguments_are_then(
    start: tuple[str, ...], run_folder: Path, torch_path: str, tmp_path: Path
) -> None:
    """As pytest does: a test that imports torch has set `sys.argv` for what it calls."""
    (tmp_path / "train.py").write_text("import sys\nsys.argv = ['momentary.py']\nimport torch\n")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "__main__.py").write_text("import train\n")
    command = [sys.executable, *start]
    subprocess.run(command, cwd=tmp_path, env=_environment(run_folder, PYTHONPATH=torch_path), timeout=60, check=True)
    (folder,) = _programs(run_folder)
    (line,) = [line for one in gather(folder) for line in one.of(ProgramStarted)]
    words = [start[-2].removeprefix("-m"), "3"] if start[-1] == "3" else ["run"]
    assert line.argv == words


@pytest.mark.parametrize(("start", "failed"), [
    (["fails.py"], "ValueError: planted (fails.py:2)"),
    (["-m", "fails"], "ValueError: planted (fails.py:2)"),
    (["-c", "import fails"], "ValueError: planted (fails.py:2)"),
    (["-m", "pytest", "-q", "test_known.py"], None),
])  # fmt: skip
def test_a_program_failed_if_nobody_has_handled_its_exception(
    start: list[str], failed: str | None, run_folder: Path, torch_path: str, tmp_path: Path
) -> None:
    """pytest and IPython put what they have handled into `sys.last_value`, as if it had ended the program."""
    (tmp_path / "fails.py").write_text("import torch\nraise ValueError('planted')\n")
    (tmp_path / "test_known.py").write_text("import pytest\n@pytest.mark.xfail\ndef test_it():\n    import fails\n")
    environment = _environment(run_folder, PYTHONPATH=torch_path, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    done = subprocess.run([sys.executable, *start], cwd=tmp_path, env=environment, capture_output=True, timeout=60)
    assert done.returncode == (failed is not None)
    (folder,) = _programs(run_folder)
    found = [line.text for one in gather(folder) for line in one.of(ProgramFailed)]
    assert found == ([] if failed is None else [failed])


@pytest.mark.parametrize(("path", "tries", "told"), [
    ("broken", "import torch", [False]),
    ("broken", "import importlib.util; importlib.util.find_spec('torch')", [False]),
    ("nowhere", "import torch", [True]),
    ("libraries", "import torch", []),
])  # fmt: skip
def test_a_program_that_looks_for_torch_and_has_none_says_so(
    path: str, tries: str, told: list[bool], run_folder: Path, torch_path: str, tmp_path: Path
) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "torch.py").write_text("raise ImportError('libcudart')\n")
    script = tmp_path / "tries.py"
    others = "import sys\nsys.path[:] = [one for one in sys.path if 'site-packages' not in one]\n"
    script.write_text(f"{others}try: {tries}\nexcept ImportError: pass\n")
    _python(script, _environment(run_folder, PYTHONPATH=str(tmp_path / path)))
    (folder,) = _programs(run_folder)
    assert [line.missing for one in gather(folder) for line in one.of(WithoutTorch)] == told


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_what_multiprocessing_starts_learns_its_script_later(method: str) -> None:
    command = ["python", "-c", f"from multiprocessing.{method} import main", "--multiprocessing-fork"]
    assert pipebench_hook.started_as(["-c", "--multiprocessing-fork"], command) == []
    assert pipebench_hook.started_as(["-c", "3"], ["python", "-c", "import torch", "3"]) == ["-c", "3"]


def test_a_command_watched_within_a_watched_one_has_its_own_records(
    run_folder: Path, torch_path: str, tmp_path: Path
) -> None:
    script, inner = tmp_path / "starts.py", tmp_path / "inner"
    inner.mkdir()
    script.write_text(
        "import os, subprocess, sys\n"
        "from pathlib import Path\n"
        "from pipebench.watch.launch.programs import watched_environment\n"
        "from pipebench.watch.record.recording import Settings\n"
        f"inner = {str(inner)!r}\n"
        "environment = watched_environment(Path(inner), Settings(inner))\n"
        "os.execvpe(sys.executable, [sys.executable, '-c', 'import torch'], environment)\n"
    )
    _python(script, _environment(run_folder, PYTHONPATH=torch_path))
    assert (len(_programs(run_folder)), len(_programs(inner))) == (0, 1)


def test_the_finder_goes_away_with_the_import_of_torch(run_folder: Path, torch_path: str, tmp_path: Path) -> None:
    script = tmp_path / "imports.py"
    script.write_text(
        "import sys\n"
        "before = [type(one).__name__ for one in sys.meta_path]\n"
        "import torch\n"
        "print(before[0], 'Start' in [type(one).__name__ for one in sys.meta_path], sys.path[1:2])\n"
    )
    assert _python(script, _environment(run_folder, PYTHONPATH=torch_path)).stdout == f"Start False {[torch_path]}\n"
    assert len(_programs(run_folder)) == 1


def test_without_the_variable_nothing_is_done(run_folder: Path, torch_path: str, tmp_path: Path) -> None:
    script = tmp_path / "imports.py"
    script.write_text("import sys\nprint([type(one).__name__ for one in sys.meta_path], sys.path[1:2])\nimport torch\n")
    environment = _environment(run_folder, PYTHONPATH=torch_path)
    del environment[programs.VARIABLE]
    alone = _python(script, {**environment, "PYTHONPATH": torch_path})
    assert _python(script, environment).stdout == alone.stdout
    assert not _programs(run_folder)


def test_when_the_command_has_ended_nothing_is_recorded(torch_path: str, run_folder: Path, tmp_path: Path) -> None:
    script = tmp_path / "late.py"
    script.write_text("import torch, subprocess, os\nprint(subprocess.run(['env'], env={}, stdout=-1).stdout)\n")
    environment = _environment(run_folder, PYTHONPATH=torch_path)
    (run_folder / "settings").unlink()
    run_folder.rmdir()
    done = _python(script, environment)
    assert (done.stdout, done.stderr) == ("b''\n", "")
    assert not run_folder.exists()


@pytest.mark.parametrize("source", ["", "1/0\n", "import nosuchmodule\n", "import sys; sys.stdout.write('own ')\n"])
def test_the_users_own_start_up_file_runs_as_without_us(source: str, run_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(source)
    script = tmp_path / "sees.py"
    script.write_text(SEES + "print(getattr(sys.modules.get('sitecustomize'), '__file__', None))\n")
    usual = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    alone = _python(script, {**usual, "PYTHONPATH": str(folder)})
    with_us = _python(script, _environment(run_folder, PYTHONPATH=str(folder)))
    assert (with_us.stdout, with_us.stderr) == (alone.stdout, alone.stderr)


def test_a_fault_of_ours_is_a_line_and_the_program_runs(run_folder: Path, torch_path: str, tmp_path: Path) -> None:
    script = tmp_path / "imports.py"
    script.write_text("import torch\nprint('ran')\n")
    environment = _environment(run_folder, PYTHONPATH=torch_path)
    (run_folder / "settings").write_text("{")
    done = _python(script, environment)
    assert done.stdout == "ran\n"
    assert done.stderr.startswith("pipebench: process ") and done.stderr.count("\n") == 1


@pytest.mark.parametrize("how", ["-I", "-E", "-S"])
def test_a_python_that_ignores_the_hook_is_not_watched(
    how: str, run_folder: Path, torch_path: str, tmp_path: Path
) -> None:
    script = tmp_path / "imports.py"
    script.write_text(f"import sys\nsys.path.append({torch_path!r})\nimport torch\n")
    _python(script, _environment(run_folder), how)
    assert not _programs(run_folder)
    assert ignores_the_hook([sys.executable, how, str(script)])


@pytest.mark.parametrize(
    ("command", "ignores"),
    [
        (["python3", "-Xdev", "-I", "-c", "pass"], True),
        (["python3", "-X", "dev", "-sE", "train.py"], True),
        (["python3", "-W", "E", "train.py"], False),
        (["python3", "-WE", "train.py"], False),
        (["python3", "-m", "tool", "-I"], False),
        (["python3", "-u", "train.py", "-E"], False),
        (["grep", "-I", "python"], False),
        (["/opt/python3.14t", "-I", "train.py"], True),
        ([], False),
    ],
)
def test_which_command_lines_ignore_the_hook(command: list[str], ignores: bool) -> None:
    assert ignores_the_hook(command) is ignores


_HAS_TORCH = """
import mmap, sys
with open(sys.argv[1], "rb") as file:
    mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(("library", "names", "records", "lost"), [
    ("libtorch.so", {"PYTHONPATH": "."}, False, True),
    ("libtorch.so", {}, False, True),  # as where Python is too old, or the user's `sitecustomize` comes before ours
    ("libtorch.so", {}, True, False),
    ("libtorch.so", {"PIPEBENCH_WATCH": "/another"}, False, False),  # a command that is watched within this one
    ("libm.so", {"PYTHONPATH": "."}, False, False),
])  # fmt: skip
def test_a_python_with_torch_in_which_our_start_up_file_did_not_run_is_seen(
    library: str, names: dict[str, str], records: bool, lost: bool, run_folder: Path, tmp_path: Path
) -> None:
    (tmp_path / library).write_text("as torch's library")
    environment = {**watched_environment(run_folder, Settings("")), **names}
    found = Programs(run_folder)
    command = [sys.executable, "-c", _HAS_TORCH, str(tmp_path / library)]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stdin is not None
        assert child.stdout.readline() == b"ready\n"
        if records:
            (run_folder / f"{child.pid}-1").mkdir()
        found.look()
        child.stdin.close()
    found.exits.close()
    assert found.lost == ({child.pid: command} if lost else {}) and not found.hidden


def test_both_sides_agree_on_the_names(run_folder: Path) -> None:
    assert programs.VARIABLE == pipebench_hook.VARIABLE
    for own in (None, b"", b"/opt", b":"):
        path = pipebench_hook.with_hook(own)
        names = {} if own is None else {"PYTHONPATH": own.decode()}
        assert _environment(run_folder, **names)["PYTHONPATH"] == path.decode()
        assert pipebench_hook.without_hook(path) == own
