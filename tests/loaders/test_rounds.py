"""The conductor: loaders take turns in fresh processes, and what cannot run is a row with its reason."""

import errno
import json
import subprocess
import sys
from dataclasses import replace

import pytest
import small_jobs
from click.testing import CliRunner
from made_up_loaders import rounds as made_rounds

from pipebench.commands.loaders import _cores, command
from pipebench.errors import PipebenchError, UsageError
from pipebench.host import machine
from pipebench.loaders import kind, rounds
from pipebench.loaders.one_round import Answer
from pipebench.results.loaders import FILTERS

QUIET = lambda done, total, what: None  # noqa: E731
SMALL = rounds.Settings(data="tiny", images=8, different=4, batch_size=4, cores=1, rounds=3)


def asking(asked, **said):
    """Answers every job with made-up figures, but what `said` has for a kind."""

    def ask(job):
        asked.append((job.action, job.kind, job.filter, job.number))
        if job.kind in said:
            return said[job.kind](job)
        if job.action == "prepare":
            return Answer(library="it 1.0")
        return Answer(made_rounds(0.001, 0.001)[job.number], "it 1.0", "whole", digest=7)

    return ask


def test_loaders_take_turns_and_each_round_begins_with_another():
    asked = []
    found = rounds.side_by_side(["torch", "loop"], FILTERS[:1], SMALL, QUIET, ask=asking(asked))
    assert [name for action, name, *_ in asked if action == "prepare"] == ["torch", "loop"]
    turns = [(number, name) for action, name, _, number in asked if action == "run"]
    assert turns == [(0, "torch"), (0, "loop"), (1, "loop"), (1, "torch"), (2, "torch"), (2, "loop")]
    assert [one.repeats for one in found.results] == [True, True]
    assert all(len(one.rounds) == 3 for one in found.results)


def test_a_jpeg_that_cannot_be_decoded_is_left_out_and_named(tmp_path):
    pillow = pytest.importorskip("PIL.Image")
    for name in ("good", "cut", "other"):
        pillow.new("RGB", (48, 32), (90, 0, 0)).save(tmp_path / f"{name}.jpg")
    (tmp_path / "cut.jpg").write_bytes((tmp_path / "cut.jpg").read_bytes()[:-40])
    bad, sizes = [], []

    def ask(job):
        sizes.append(len({open(path, "rb").read() for path in job.paths}))  # noqa: SIM115
        return Answer(library="it 1.0") if job.action == "prepare" else Answer(made_rounds(0.001, 0.001)[0], "it 1.0")

    own = rounds.Settings(data=str(tmp_path), images=4, different=4, batch_size=2, cores=1, rounds=1)
    left_out = lambda sample, why: bad.append((sample, why))  # noqa: E731
    found = rounds.side_by_side(["torch"], FILTERS[:1], own, QUIET, ask=ask, left_out=left_out)
    assert found.results[0].rounds and set(sizes) == {1}
    assert [sample for sample, _ in bad] == ["cut.jpg"] and "JPEG" in bad[0][1]


def test_without_a_decoder_the_loaders_say_what_they_lack(monkeypatch):
    monkeypatch.setitem(sys.modules, "simplejpeg", None)
    found = rounds.side_by_side(
        ["torch"], FILTERS[:1], SMALL, QUIET, ask=asking([], torch=lambda job: Answer(missing="simplejpeg"))
    )
    assert found.results[0].skipped == "simplejpeg"


def test_loaders_that_cannot_run_have_no_rounds():
    said, asked = [], []
    missing = {"spdl": lambda job: Answer(missing="spdl is not installed")}
    rounds.side_by_side(["spdl"], FILTERS, SMALL, lambda *one: said.append(one), ask=asking(asked, **missing))
    assert {what for _, _, what in said if "round" in what} == set()
    said.clear()
    rounds.side_by_side(
        ["spdl", "torch"], FILTERS[:1], SMALL, lambda *one: said.append(one), ask=asking(asked, **missing)
    )
    assert [one for one in said if one[1]] == [(n, 3, f"round {n + 1} of 3: torch, antialiased") for n in range(3)]


@pytest.mark.parametrize(("different", "images", "used"), [(500, 8, 8), (500, 100, 16), (4, 100, 4)])
def test_how_many_images_are_different_is_what_there_was(different, images, used):
    settings = rounds.Settings(data="tiny", images=images, different=different, batch_size=4, cores=1, rounds=2)
    load = rounds.datasets.load
    with pytest.MonkeyPatch.context() as patch:  # as the user's own data: no more than there is
        patch.setattr(rounds.datasets, "load", lambda name, limit, progress: load(name, limit=min(limit, 16)))
        found = rounds.side_by_side(["torch"], FILTERS[:1], settings, QUIET, ask=asking([]))
    assert found.different == used


def _command(monkeypatch, *arguments, **said):
    processes = type("Processes", (), {"__init__": lambda self, scratch: None, "ask": staticmethod(asking([], **said))})
    monkeypatch.setattr(rounds, "_Processes", processes)
    small = ["--images", "8", "--cores", "1", "--batch-size", "4", "--task", "antialiased"]
    return CliRunner().invoke(command, [*small, *arguments], standalone_mode=False)


def test_the_command_says_that_fewer_images_are_different(monkeypatch):
    done = _command(monkeypatch, "--data", "tiny", "--loader", "torch", "--different", "50")
    assert done.return_value == 0
    assert "--different 50: 8 are used, because --images has no more." in done.stderr
    assert "--different" not in _command(monkeypatch, "--data", "tiny", "--loader", "torch").stderr


@pytest.mark.parametrize(("quota", "cores"), [(0.5, 1), (2.9, 2), (3.0, 3)])
def test_a_cpu_quota_says_how_many_cores_the_loaders_get(quota, cores, monkeypatch):
    monkeypatch.setattr(machine, "usable_cores", lambda: quota)
    assert _cores(None) == _cores(cores) == cores
    with pytest.raises(UsageError, match=f"this process may use {cores}"):
        _cores(cores + 1)


def test_the_command_fails_where_no_loader_could_be_measured(monkeypatch):
    missing = {"spdl": lambda job: Answer(missing="spdl is not installed")}
    done = _command(monkeypatch, "--data", "tiny", "--loader", "spdl", **missing)
    assert done.return_value == 1 and "round" not in done.stderr
    assert "spdl: spdl is not installed" in done.stdout and "pipebench: no loader was measured" in done.stderr


def test_an_interrupt_keeps_the_rounds_until_then(monkeypatch, tmp_path):
    def stops(job):
        if job.number == 2:
            raise KeyboardInterrupt
        return asking([])(job)

    place = tmp_path / "r.json"
    done = _command(monkeypatch, "--data", "tiny", "--loader", "torch", "--export-json", str(place), torch=stops)
    saved = json.loads(place.read_text())
    assert done.return_value == 130 and saved["partial"] and len(saved["loaders"]["results"][0]["rounds"]) == 2
    assert "interrupted; what was measured is in" in done.stderr
    done = _command(monkeypatch, "--data", "tiny", "--loader", "loop", loop=lambda job: stops(replace(job, number=2)))
    assert done.return_value == 130 and done.stderr.endswith("pipebench: interrupted before anything was measured\n")
    assert done.stdout == ""


def test_a_kind_prepares_its_copy_once_for_both_tasks():
    asked = []
    rounds.side_by_side(["webdataset"], FILTERS, SMALL, QUIET, ask=asking(asked))
    assert [action for action, *_ in asked].count("prepare") == 1


def test_what_is_missing_or_wrong_is_a_row_with_its_reason():
    asked = []
    said = {
        "spdl": lambda job: Answer(missing="spdl is not installed"),
        "grain": lambda job: Answer() if job.action == "prepare" else Answer(refused="a pass lacks 3"),
    }
    found = rounds.side_by_side(["spdl", "grain", "torch"], FILTERS[:1], SMALL, QUIET, ask=asking(asked, **said))
    by_name = {one.name: one for one in found.results}
    assert by_name["spdl"].skipped == "spdl is not installed" and by_name["grain"].refused == "a pass lacks 3"
    assert by_name["torch"].measured and not by_name["spdl"].measured
    assert [name for action, name, *_ in asked if action == "run"].count("grain") == 1


def test_a_round_that_is_wrong_takes_the_earlier_ones_with_it():
    later = {"torch": lambda job: Answer(refused="wrong") if job.number == 2 else asking([])(job)}
    found = rounds.side_by_side(["torch"], FILTERS[:1], SMALL, QUIET, ask=asking([], torch=later["torch"]))
    assert found.results[0].refused == "wrong" and not found.results[0].rounds


def test_data_without_a_jpeg_is_an_error(tmp_path):
    from PIL import Image

    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    with pytest.raises(PipebenchError, match="no JPEG"):
        rounds.side_by_side(["torch"], FILTERS, rounds.Settings(data=str(tmp_path)), QUIET, ask=asking([]))


def test_a_full_disk_is_said_with_its_folder(monkeypatch):
    def full(path, data):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(rounds.Path, "write_bytes", full)
    with pytest.raises(PipebenchError, match=r"8 images cannot be written to .*: No space left on device") as raised:
        rounds.side_by_side(["torch"], FILTERS, SMALL, QUIET, ask=asking([]))
    assert "set TMPDIR to a folder with more room" in raised.value.remedy


def test_a_process_that_dies_is_a_reason(tmp_path):
    (tmp_path / "log").write_text("loading\nImportError: libavcodec.so.61: cannot open\n\n")
    assert rounds._answer(tmp_path, 1, 300.0).missing == (
        "its process left with exit status 1: ImportError: libavcodec.so.61: cannot open"
    )
    assert rounds._answer(tmp_path, -9, 300.0).missing.startswith("its process was killed by SIGKILL")


def test_a_process_that_hangs_is_ended_later_the_more_images_it_has(tmp_path):
    job = small_jobs.job(("a.jpg",) * 50_000, tmp_path, passes=2)
    assert rounds._answer(tmp_path, None, rounds._deadline_s(job)).missing == (
        "it did not end within 7800 s, and was ended: name fewer --images"
    )
    assert rounds._deadline_s(replace(job, paths=("a.jpg",) * 1024)) < 500


def test_an_unknown_loader_is_answered_with_the_nearest():
    with pytest.raises(UsageError, match="no loader 'torh'") as error:
        kind.find("torh")
    assert error.value.remedy.startswith("did you mean torch? the loaders are dali, ")


@pytest.mark.parametrize(("name", "said"), [("no.such", "cannot be imported"), ("os.path", "has no loader")])
def test_a_module_that_holds_no_loader_is_wrong_usage(name, said):
    with pytest.raises(UsageError, match=said):
        kind.find(name)


@pytest.mark.slow
def test_a_fresh_process_runs_a_kind(tmp_path):
    paths = small_jobs.jpegs(tmp_path / "files")
    answer = rounds._Processes(tmp_path).ask(small_jobs.job(paths, tmp_path, "loop"))
    assert answer.missing is answer.refused is None and answer.round.passes[0].cpu_s > 0


def test_the_list_imports_no_library():
    code = (
        "import sys; from pipebench.loaders import kind; [*map(kind.find, kind.names())]; print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.slow
def test_the_command_compares_two_loaders():
    command = [sys.executable, "-m", "pipebench", "loaders", "--loader", "torch", "--loader", "torchvision", "--data",
               "tiny", "--images", "16", "--batch-size", "4", "--rounds", "2", "--task", "antialiased", "--format",
               "json"]  # fmt: skip
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert {one["name"] for one in found["loaders"]["results"] if len(one["rounds"]) == 2} == {"torch", "torchvision"}
    assert found["verdict"]["kind"] == "loaders"
