"""The cache holds code that is loaded: whoever else may change it, or has changed it, must not get in."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from repos import pipebench

from pipebench.errors import PipebenchError
from pipebench.host.machine import cache_folder
from pipebench.native import building, region
from pipebench.results.report import load, of_watch
from pipebench.watch.command import _calibration
from pipebench.watch.read.summary import summarise
from pipebench.watch.record.options import WatchOptions

SOURCE = Path(region.__file__).with_name("region.c")
USE = "from pipebench.native import region; print(region.library_name())"
FORGED = """#include <fcntl.h>
__attribute__((constructor)) static void enter(void) { creat("%s", 0600); }
"""
STRANGER = 54321
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to somebody else")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("PIPEBENCH_CACHE", str(folder))
    return folder


@pytest.fixture
def forged(cache, tmp_path):
    """A whole, sealed library under the name of the real one. Whoever loads it leaves a mark, whose path this is."""
    mark, source, library = tmp_path / "entered", tmp_path / "forged.c", tmp_path / "forged.so"
    source.write_text(FORGED % mark)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    building.write_whole(building.library_path(SOURCE, ("jpeg",)), sealed(library.read_bytes()), mode=0o700)
    return mark


def sealed(library):
    return library + building._SEAL + building.hashlib.sha256(library).digest()


def used():
    """Loads the library in a process of its own, which a fault may end."""
    return subprocess.run([sys.executable, "-c", USE], capture_output=True, text=True, timeout=120)


def test_the_forged_library_would_enter(forged):
    """Nobody can tell it from ours by its content. What keeps it out is whose folder it is in."""
    used()
    assert forged.exists()


def given_away(folder):
    os.chown(folder, STRANGER, STRANGER)
    return f"belongs to user {STRANGER}"


def opened_to_all(folder):
    folder.chmod(0o777)
    return "can be changed by everybody"


@pytest.mark.parametrize("inner", ["", "native", ".."])
@pytest.mark.parametrize("make_foreign", [pytest.param(given_away, marks=AS_ROOT), opened_to_all])
def test_nothing_is_loaded_from_a_folder_that_others_may_change(forged, cache, make_foreign, inner):
    folder = (cache / inner).resolve()
    said = make_foreign(folder)
    done = used()
    assert done.returncode == 1 and not forged.exists()
    assert said in done.stderr and str(folder) in done.stderr and "set PIPEBENCH_CACHE" in done.stderr


@pytest.mark.slow
@AS_ROOT
def test_run_refuses_a_foreign_cache_at_once_and_names_the_remedy(forged, cache, tmp_path):
    given_away(cache)
    done = pipebench("run", "--data", "tiny", "--stage", "crop", "--quick", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "") and not forged.exists()
    assert len(done.stderr.splitlines()) == 2 and f"{cache} belongs to user {STRANGER}" in done.stderr
    assert sorted(path.name for path in cache.iterdir()) == ["native"]


@pytest.mark.parametrize("make_foreign", [pytest.param(given_away, marks=AS_ROOT), opened_to_all])
def test_watch_reports_where_the_cache_is_foreign(cache, tmp_path, make_foreign):
    make_foreign(cache)
    (tmp_path / "train.py").write_text("print('trained')\n")
    done = pipebench("watch", "--export-json", "report.json", "train.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "trained\n") and "\nNothing was watched:" in done.stderr
    assert load(tmp_path / "report.json").watched is not None


def test_watch_reports_where_the_user_has_no_home(tmp_path, monkeypatch):
    """As in a container that runs under a number which the system does not know."""
    for name in ("HOME", "PIPEBENCH_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    result = summarise([], WatchOptions(), 0, 2.0)
    assert _calibration() is None and of_watch(result, None).machine.storage == "unknown"
    with pytest.raises(PipebenchError, match="this user has no home"):
        cache_folder()


def test_a_folder_for_the_cache_is_made_for_its_user_alone(tmp_path):
    command = "umask 000; exec " + f"{sys.executable} -c 'from pipebench.host import machine; machine.cache_folder()'"
    subprocess.run(["sh", "-c", command], check=True, env={**os.environ, "PIPEBENCH_CACHE": str(tmp_path / "new")})
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("kept", [0, 100, 5000, -1])
def test_a_library_that_was_cut_is_built_anew(cache, kept):
    """To load it would end the process by SIGBUS, in every run."""
    first = used()
    path = building.library_path(SOURCE, ("jpeg",))
    whole = path.read_bytes()
    os.truncate(path, kept % len(whole))
    assert used().stdout == first.stdout != ""
    assert path.read_bytes() == whole


def test_a_link_in_place_of_a_library_is_not_followed(cache, forged, tmp_path):
    path = building.library_path(SOURCE, ("jpeg",))
    path.rename(tmp_path / "elsewhere.so")
    path.symlink_to(tmp_path / "elsewhere.so")
    assert used().stdout.startswith("libjpeg-turbo") and not forged.exists()
    assert not path.is_symlink() and (tmp_path / "elsewhere.so").exists()


@AS_ROOT
def test_a_library_of_somebody_else_in_our_folder_is_built_anew(cache, forged):
    os.chown(building.library_path(SOURCE, ("jpeg",)), STRANGER, STRANGER)
    assert used().stdout.startswith("libjpeg-turbo") and not forged.exists()


def test_a_link_in_place_of_the_lock_is_not_followed(cache, tmp_path):
    (cache / "datasets").mkdir()
    (cache / "datasets" / ".lock").symlink_to(tmp_path / "victim")
    done = pipebench("data", "tiny", cwd=tmp_path)
    assert done.returncode == 1 and "cannot be built" in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "victim").exists()
