"""A name that is nearly right is answered with the right one: commands, stages, variants, studies, functions."""

import pytest

from pipebench import studies
from pipebench.cli import cli
from pipebench.errors import UsageError, did_you_mean
from pipebench.host.named import named
from pipebench.lab import whole_run


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        (lambda: cli.main(["wacth"], standalone_mode=False), "watch"),
        (lambda: whole_run.select(["decod"]), "decode"),
        (lambda: whole_run.select(["decode/rbg"]), "decode/rgb"),
        (lambda: whole_run.select(["decode"], ["simplejpg"]), "simplejpeg"),
        (lambda: studies.find("tar-or-file"), "tar-or-files"),
        (lambda: named("json:dumbs", "with one argument"), "dumps"),
    ],
    ids=["command", "stage", "task", "variant", "study", "function"],
)
def test_the_nearest_name_is_asked_for(asked, meant):
    with pytest.raises(UsageError) as raised:
        asked()
    assert f"did you mean {meant}? " in raised.value.remedy


def test_what_is_near_nothing_is_not_guessed():
    assert did_you_mean("zzz", ["watch", "run"]) == ""
