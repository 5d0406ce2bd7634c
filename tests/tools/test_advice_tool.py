"""The tables of `tools/advice.py`, from made-up lines; and the published ones, from the published lines."""

import json
import math
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
TOOLS = Path(__file__).parents[2] / "tools"
SCRIPTS = Path(__file__).parents[1] / "advice"
OTHERS = (
    "independent", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh",
    "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth",
    "eighteenth",
    "nineteenth", "twentieth", "twentyfirst", "twentysecond", "twentythird",
    "twentyfourth",
    "twentyfifth",
    "twentysixth",
    "twentyseventh",
    "twentyeighth",
    "twentyninth",
    "thirtieth",
    "thirtyfirst",
    "thirtysecond",
    "thirtythird",
)  # fmt: skip


@pytest.fixture
def report(monkeypatch):
    monkeypatch.syspath_prepend(TOOLS)
    monkeypatch.delitem(sys.modules, "advice_report", raising=False)
    import advice_report

    return advice_report


_ALL_SLOW = ("thirtysecond",)  # sets without a healthy script
_WHOLE = {"fourth": 9} | dict.fromkeys(OTHERS[4:], 8)


@pytest.fixture
def sets(monkeypatch):
    monkeypatch.syspath_prepend(TOOLS)
    for name in ("advice_plants", "advice_planted", "advice_whole"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import advice_plants

    return advice_plants.SETS


def line(name="one", remedies=("num_workers",), codes=("workers-blocked",), remedy="", promised=None, **more):
    found = {
        "name": name, "cause": f"cause of {name}", "remedies": list(remedies), "codes": list(codes), "load": 1.5,
        "remedy": remedy, "change": remedy and f"{remedy}=4", "promised": promised, "diagnosis": [],
        "plain": {"present": [0.4, 0.4], "best": [0.1, 0.1]},
    }  # fmt: skip
    return {**found, **more}


def advised(gain, promised=(4.0, 3.5, 4.5), **more):
    plain = {"present": [0.4, 0.4], "best": [0.1, 0.1], "advised": [0.4 / gain] * 2}
    return line(remedy="num_workers", promised=list(promised), plain=plain, **more)


def diagnosed(*codes, at_most=4.0):
    return [{"code": one, "at_most": at_most, "unsure": False, "values": {}} for one in codes]


def test_an_advice_is_right_if_it_brings_nearly_the_best_gain(report):
    assert report.right(advised(4.0)) and report.right(advised(3.7)) and not report.right(advised(3.0))
    assert not report.right(line(diagnosis=diagnosed("workers-blocked")))  # the right cause, but nothing advised
    bare = advised(4.0)
    assert report.right({**bare, "plain": {**bare["plain"], "best": bare["plain"]["present"]}})  # more than is known
    assert report.held(advised(3.6)) and not report.held(advised(3.4)) and report.held(line()) is None
    assert report.slower(advised(0.9)) is True and report.slower(advised(1.0)) is False


def test_what_did_not_run_as_it_was_printed_is_not_counted_as_no_slower(report):
    never = line(remedy="num_workers")
    rows = [advised(4.0), advised(4.0, name="two", by_hand=True), {**never, "name": "three"}]
    text = report.report(rows)
    assert "did not make it slower: 1 of 1" in text
    assert "diagnosis right: 2 of 3, 1 of them by hand" in text and "  by hand  yes\n" in text
    at = "2026-11-23T04:21:44+00:00"
    assert "2 of 3 (1)" in report.sets({"third": [{**row, "at": at} for row in rows]})


def test_lines_without_a_word_of_it_are_by_hand_where_the_author_wrote_the_change(report, sets):
    five = [one for one in sets["independent"] if one.name == "five"]
    (one,), (other,) = (report.marked([line("five", remedy=name)], five) for name in ("as_tensors", "num_workers"))
    assert one["by_hand"] and not other["by_hand"]
    assert report.marked([line("five", remedy="num_workers", by_hand=True)], five)[0]["by_hand"]


def _said(rest, title="Validation half as often"):
    return f"{title} could make the loops at most 1.50× as fast (predicted, not tried). {rest}"


def _besides(speedup):
    return {"present": [1.0], "best": [0.5], "besides": [1 / speedup]}


NOTHING = "No gain was found, but not everything was tried long enough."


@pytest.mark.parametrize(
    ("more", "right"),
    [
        ({"said": NOTHING}, True),
        ({"said": _said(NOTHING)}, False),
        ({"said": _said(NOTHING, "Reads without the shared lock")}, True),
        ({"of_script": "validation", "besides": ""}, False),
        ({"of_script": "slow_lines", "besides": ""}, True),
        ({"of_script": "slow_lines", "besides": "num_workers=4"}, False),
        ({"of_script": "slow_lines", "besides": "num_workers=4", "plain": _besides(1.3)}, True),
        ({"of_script": "slow_lines", "besides": "num_workers=4", "plain": _besides(1.0)}, False),
        ({"codes": ["validation"], "said": _said(NOTHING)}, True),
        ({"codes": ["validation"], "said": _said("num_workers=2 makes the training loop 1.20× as fast.")}, False),
    ],
)
def test_what_the_verdict_begins_with_is_judged_and_what_it_advises_besides(report, more, right):
    row = line(**{"remedies": (), "codes": ("stage",), "diagnosis": diagnosed("stage"), **more})
    assert report.right(row) is right


def test_where_no_setting_helps_the_first_diagnosis_counts(report):
    script = {"remedies": (), "codes": ("sampler",)}
    assert report.right(line(**script, diagnosis=diagnosed("sampler", "training")))
    assert not report.right(line(**script, diagnosis=diagnosed("stage", "sampler")))
    assert not report.right(advised(1.0, **script, diagnosis=diagnosed("sampler")))
    healthy = {"remedies": (), "codes": ("nothing",)}
    assert report.right(line(**healthy, diagnosis=diagnosed("training", "before-loops")))
    assert not report.right(line(**healthy, diagnosis=diagnosed("callbacks")))
    none = {"present": [0.4], "best": [0.4], "advised": [0.4]}
    assert not report.right(advised(1.0, **healthy) | {"plain": none})  # advice where nothing can be gained


def test_at_most_is_no_less_than_what_the_change_brought(report):
    script = {"remedies": (), "codes": ("sampler",)}
    assert report.within_limit(line(**script, diagnosis=diagnosed("sampler", at_most=4.0)))
    assert not report.within_limit(line(**script, diagnosis=diagnosed("sampler", at_most=3.0)))
    assert report.within_limit(line(diagnosis=diagnosed("sampler"))) is None


def test_the_scatter_of_plain_runs_is_within_scripts(report):
    plain = {"present": [0.4, 0.4, 0.4], "best": [0.1, 0.1 / math.e**0.2, 0.1 / math.e**0.4]}
    assert report.spread([line(plain=plain), advised(2.0)]) == pytest.approx(math.sqrt(2 * 0.04 / 4))
    assert report.spread([line(plain={"present": [1.0], "best": [1.0]})]) is None


def test_the_report_shows_the_last_line_of_each_script_and_counts_all(report):
    rows = [advised(2.0), line("two", (), ("sampler",), diagnosis=diagnosed("sampler")), advised(4.0)]
    text = report.report(rows)
    assert "one     num_workers=4" in text and "cause of two  sampler" in text
    first, later = text.split("All 3 lines, also those of earlier rules:")
    assert "diagnosis right: 2 of 2" in first and "diagnosis right: 2 of 3" in later
    assert "interval holds the plain gain: 1 of 1" in first and "interval holds the plain gain: 1 of 2" in later


def test_sets_are_counted_by_their_first_and_by_their_last_lines(report):
    rows = [advised(2.0, at="2026-11-23T04:21:44+00:00"), line("two", (), ("sampler",)), advised(4.0)]
    first, *lines = report.sets({"third": rows}).splitlines()
    assert first.split("  ")[0] == "set" and len(lines) == 2
    for one in lines:
        assert one.split("  ")[-4:] != [] and " ".join(one.split()[-12:]) == "0 of 2 0 of 1 1 of 2 1 of 1"


def _published(name):
    return [json.loads(one) for one in (DOCS / "results" / f"{name}.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("name", ["advice", *(f"advice_{one}" for one in OTHERS)])
def test_the_published_tables_are_the_report_of_the_published_lines(report, sets, name):
    page = (DOCS / "figures" / ("advice.md" if name == "advice" else "advice-sets.md")).read_text()
    known = sets["scripts" if name == "advice" else name.removeprefix("advice_")]
    assert f"```\n{report.report(report.marked(_published(name), known))}```\n" in page


def test_the_published_table_of_all_sets_is_that_of_the_published_lines(report, sets):
    found = report.sets({one: report.marked(_published(f"advice_{one}"), sets[one]) for one in OTHERS})
    assert f"```\n{found}```\n" in (DOCS / "figures" / "advice.md").read_text()


def test_each_planted_script_is_there_and_each_change_of_its_text_has_one_place(sets):
    for planted in (one for found in sets.values() for one in found):
        text = (SCRIPTS / planted.folder / f"{planted.name}.py").read_text()
        for changes in (planted.replaced, *planted.by_author.values()):
            after = text
            for old, new in changes:
                assert after.count(old) == 1, (planted.name, old)
                after = after.replace(old, new)
            compile(after, planted.name, "exec")
    assert {name: len(sets[name]) for name in _WHOLE} == _WHOLE
    assert all(one.folder == name for name in _WHOLE for one in sets[name])


def test_scripts_without_arguments_have_changes_of_their_text(sets):
    whole = [one for name in _WHOLE for one in sets[name]]
    causes = [one for one in whole if one.codes != ("nothing",)]
    healthy = [name for name in _WHOLE if name not in _ALL_SLOW]
    assert all(bool(one.replaced) != bool(one.best) for one in causes) and len(causes) == len(whole) - len(healthy)
    assert all(one.discards and one.whole for one in whole)
    assert not any(one.whole for name, found in sets.items() if name not in _WHOLE for one in found)


def test_a_patched_script_reads_the_data_of_the_script(sets, monkeypatch, tmp_path):
    """Else its plain run would have to make them, which the others need not."""
    monkeypatch.delitem(sys.modules, "advice", raising=False)
    import advice

    script = tmp_path / "train.py"
    script.write_text("x = 1\n")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "made").write_text("")
    (tmp_path / "advised.diff").write_text("--- a/train.py\n+++ b/train.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n")
    copy, *_ = advice._patched(script, sets["scripts"][0])
    assert copy.read_text() == "x = 2\n" and (copy.parent / "data" / "made").exists()


def test_the_same_program_in_another_layout_is_timed_once(sets, tmp_path):
    import advice

    texts = (
        "loader = DataLoader(data, 8, persistent_workers=True)\n",
        "loader = DataLoader(\n    data, 8, persistent_workers=True\n)\n",
    )
    one, other, third = (tmp_path / f"{name}.py" for name in "abc")
    for file, text in zip((one, other, third), (*texts, texts[0].replace("8", "9")), strict=True):
        file.write_text(text)
    assert advice.same_program((one, (), {}), (other, (), {}))
    assert not advice.same_program((one, (), {}), (third, (), {}))
    assert not advice.same_program((one, ("2",), {}), (other, (), {}))
