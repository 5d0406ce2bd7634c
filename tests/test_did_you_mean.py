"""A name that is nearly right is answered with the right one: commands, stages, variants, studies, functions."""

import sys

import pytest

from pipebench import studies
from pipebench.cli import cli, main
from pipebench.errors import UsageError, did_you_mean
from pipebench.host.named import named
from pipebench.lab import whole_run


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        (lambda: cli.main(["wacth"], standalone_mode=False), "watch"),
        (lambda: cli.main(["WATCH"], standalone_mode=False), "watch"),
        (lambda: whole_run.select(["decod"]), "decode"),
        (lambda: whole_run.select(["DECODE"]), "decode"),
        (lambda: whole_run.select(["decode/rbg"]), "decode/rgb"),
        (lambda: whole_run.select(["decode"], ["simplejpg"]), "simplejpeg"),
        (lambda: studies.find("tar-or-file"), "tar-or-files"),
        (lambda: named("json:dumbs", "with one argument"), "dumps"),
    ],
    ids=["command", "in capitals", "stage", "stage in capitals", "task", "variant", "study", "function"],
)
def test_the_nearest_name_is_asked_for(asked, meant):
    with pytest.raises(UsageError) as raised:
        asked()
    assert f"did you mean {meant}? " in raised.value.remedy


@pytest.mark.parametrize(
    ("words", "problem", "meant"),
    [
        (["run", "--STAGE", "decode"], "run has no option --STAGE", "did you mean --stage? `pipebench run --help`"),
        (["--Version"], "pipebench has no option --Version", "did you mean --version? `pipebench --help`"),
        (["run", "--\x1b[1m"], "run has no option --\\x1b[1m", "`pipebench run --help`"),
    ],
)
def test_an_option_is_an_error_of_ours_in_two_lines(words, problem, meant, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["pipebench", *words])
    monkeypatch.setattr("pipebench.cli.prepared", lambda: None)  # it needs the real standard error
    with pytest.raises(SystemExit) as raised:
        main()
    assert raised.value.code == 2
    assert capsys.readouterr().err == f"pipebench: {problem}\n  {meant} lists them\n"


def test_of_two_names_that_differ_in_capitals_one_is_meant():
    assert did_you_mean("imraed", ["Imread", "imread"]) == "did you mean Imread? "


def test_the_names_of_a_stage_are_said_where_none_is_near():
    with pytest.raises(UsageError) as raised:
        whole_run.select(["video"], ["nope"])
    assert raised.value.problem == "there is no variant 'nope' in video"
    assert raised.value.remedy.startswith("its variants are opencv, pyav, torchcodec, ")


def test_what_is_near_nothing_is_not_guessed():
    assert did_you_mean("zzz", ["watch", "run"]) == ""
