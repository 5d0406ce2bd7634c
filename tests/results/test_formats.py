"""`watch` and `advise` with --format: one report on standard output when all is over, and none on standard error."""

import json

import click
import pytest
from click.testing import CliRunner
from saved_pairs import advised, watched

import pipebench.advise.command
import pipebench.watch.command
from pipebench.commands import advise, watch

WATCHED, ADVICE = watched().watched, advised(1.9).advice


@pytest.fixture
def said(monkeypatch):
    """Whether the commands, which run nothing here, were asked to show their report at the end of the run."""
    asked = []

    def fake_watch(options, argv, keep=None, *, full=False, show=True):
        asked.append(show)
        click.echo("the script's own words")
        if keep is not None:
            keep(WATCHED, None)
        return 7

    def fake_advise(options, argv, keep=None):
        asked.append(options.show)
        if keep is not None:
            keep(WATCHED, ADVICE)
        return 7

    monkeypatch.setattr(pipebench.watch.command, "watch", fake_watch)
    monkeypatch.setattr(pipebench.advise.command, "advise", fake_advise)
    return asked


@pytest.mark.parametrize("command", [watch.command, advise.command])
def test_json_and_markdown_go_to_standard_output_after_the_script(command, said):
    run = CliRunner().invoke(
        command, ["--format", "json", "train.py", "--format", "of-the-script"], standalone_mode=False
    )
    own, brace, plain = run.stdout.partition("{")
    report = json.loads(brace + plain)
    assert own in ("", "the script's own words\n") and run.return_value == 7 and said == [False]
    assert report["verdict"]["kind"] == ("watch" if command is watch.command else "advise")
    markdown = CliRunner().invoke(command, ["--format", "markdown", "train.py"], standalone_mode=False).stdout
    assert "\n**" in f"\n{markdown}" and said == [False, False]


@pytest.mark.parametrize("command", [watch.command, advise.command])
def test_a_table_is_left_to_the_end_of_the_run(command, said):
    run = CliRunner().invoke(command, ["train.py"], standalone_mode=False)
    assert run.stdout in ("", "the script's own words\n") and said == [True]
