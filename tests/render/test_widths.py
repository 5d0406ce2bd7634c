"""Every report at 80 and at 120 columns, to the letter: no line too long, nothing wrapped in a table, names inert."""

from dataclasses import replace
from pathlib import Path

import made_up
import pytest

from pipebench.render import ab, calibration, layout, syncs, text, watched
from pipebench.render.cells import Table
from pipebench.render.layout import Line
from pipebench.results import report
from pipebench.results.comparison import Change, Comparison
from pipebench.results.next_move import NextMove
from pipebench.results.watched import Note, Verdict

GOLDEN = Path(__file__).parent / "golden"


def _watch(width, **more):
    return watched.whole(made_up.watched(), made_up.CALIBRATED, width=width, **more)


def _bound(width):
    return watched.whole(replace(made_up.watched(), bound=made_up.bound()), None, width=width)


RENDERED = {
    "watch": _watch,
    "watch-full": lambda width: _watch(width, full=True),
    "watch-bound": _bound,
    "ab": lambda width: layout.text(ab.parts(made_up.COMPARISON), width=width),
    "calibration": lambda width: text.table(report.new(calibration=made_up.CALIBRATION), width=width),
    "calibration-full": lambda width: layout.text(calibration.parts(made_up.CALIBRATION), width=width),
    "syncs": lambda width: layout.text(syncs.parts(made_up.SYNCS), width=width),
}


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", RENDERED)
def test_the_text_to_the_letter(name, width):
    """To accept a change of wording: delete tests/render/golden/NAME, run this, and read the new file."""
    path = GOLDEN / f"{name}-{width}.txt"
    found = RENDERED[name](width)
    if not path.exists():
        path.write_text(found)
        pytest.fail(f"{path.name} did not exist: read what was written")
    assert found == path.read_text()
    assert max(map(len, found.splitlines())) <= width


def test_markdown_to_the_letter():
    path = GOLDEN / "ab.md"
    found = layout.markdown(ab.parts(made_up.COMPARISON))
    if not path.exists():
        path.write_text(found)
        pytest.fail(f"{path.name} did not exist: read what was written")
    assert found == path.read_text()


def test_a_watched_run_fits_a_screen_unless_all_of_it_is_asked_for():
    """With as much as a usual run has, and one note."""
    usual = replace(made_up.watched(), notes=made_up.watched().notes[:1])
    assert len(watched.whole(usual, made_up.CALIBRATED, width=80).splitlines()) <= 30
    assert len(_watch(80, full=True).splitlines()) > 60


def _hostile():
    name = made_up.HOSTILE
    result = made_up.watched(name)
    return replace(
        result,
        verdict=Verdict("data", stage=name, stage_kind=name, stage_share=0.5, phase=name),
        next_move=NextMove("make-stage-cheaper", 2, stage=name),
        loaders=tuple(replace(one, dataset=name, start_method=name) for one in result.loaders),
        slowest=(replace(result.slowest[0], name=name),),
        notes=(Note("fault", {"pid": 1, "fault": name}), Note(name, {"x": name})),
    )


@pytest.mark.parametrize(
    "found",
    [
        lambda: watched.whole(_hostile(), None, full=True),
        lambda: layout.text(
            ab.parts(Comparison(made_up.HOSTILE, made_up.HOSTILE, (Change(made_up.HOSTILE, failed=made_up.HOSTILE),)))
        ),
        lambda: layout.text(
            syncs.parts(
                replace(made_up.SYNCS, points=tuple(replace(one, path=made_up.HOSTILE) for one in made_up.SYNCS.points))
            )
        ),
    ],
)
def test_names_from_data_are_inert(found):
    shown = found()
    assert "\x1b" not in shown and "\u202e" not in shown
    assert "\\x1b[31m[bold]x[/x]\\n" in shown.replace("\n    ", " ").replace("\n", " ")


def test_a_long_name_loses_its_middle_and_figures_lose_nothing():
    one = Table("t", ("name", "other", "s"), (("a" * 40 + "b" * 40, "c" * 30, "1,234.5"),), frozenset({2}))
    assert layout.text([one], width=60).splitlines()[-1] == f"{'a' * 11}…{'b' * 11}   {'c' * 11}…{'c' * 11}   1,234.5"
    assert layout.shortened("abcdefghij", 5) == "ab…ij"
    assert layout.shortened("abcde", 5) == "abcde"
    assert layout.shortened("目" * 5, 6) == "目…目"


def test_words_of_an_advice_are_cut_between_two_of_them():
    assert layout.at_word("a sampler that takes hardly any time", 22) == "a sampler that takes …"
    assert layout.at_word("a sampler", 9) == "a sampler"
    assert layout.at_word("→ torch.set_num_threads(1)", 22) == layout.shortened("→ torch.set_num_threads(1)", 22)
    settings = "num_workers=4, persistent_workers=True"
    assert layout.at_word(settings, 22) == layout.shortened(settings, 22)


def test_spare_columns_go_before_names_are_shortened():
    one = Table("t", ("name", "a", "b"), (("n" * 30, "1", "2" * 20),), frozenset({1, 2}), spare=(2,))
    assert "n" * 30 in layout.text([one], width=50) and "22" not in layout.text([one], width=50)
    assert "22" in layout.text([one], width=80)


def test_prose_wraps_at_words_and_keeps_its_indent():
    assert layout.text(["one two three", "  four five six"], width=10) == "one two\nthree\n  four\n  five six\n"
    assert layout.wrapped("name  one two three", 14, hanging=" " * 6) == ["name  one two", "      three"]
    assert layout.wrapped("  * a  one two", 11, hanging="   ") == ["  * a  one", "     two"]
    assert layout.wrapped("a:1: two three", 10, hanging="  ") == ["a:1: two", "  three"]
    assert layout.text([Line("abcdefghijkl:7: x", hanging="  ")], width=10) == "abc…l:7: x\n"


def test_where_figures_alone_are_too_wide_the_cells_stand_one_below_another():
    one = Table("t", ("name", "a", "b"), (("n", "1" * 30, "2" * 30),), frozenset({1, 2}))
    assert layout.text([one], width=40) == f"t\nn\n  a: {'1' * 30}\n  b: {'2' * 30}\n"


def test_colour_adds_styles_and_nothing_else():
    from rich.text import Text

    coloured = _watch(80, colour=True)
    assert "\x1b[1m" in coloured
    assert [line.rstrip() for line in Text.from_ansi(coloured).plain.splitlines()] == _watch(80).splitlines()
