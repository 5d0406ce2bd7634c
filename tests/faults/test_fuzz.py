"""Whatever fits the shape of a report, a passport or a record is shown or refused by name, and soon."""

import json
import typing

import every_report
import hypothesis
import pytest
from hypothesis import strategies
from shaped import FIGURES, IMPOSSIBLE, NUMBERS, TEXTS, at_most, shaped
from soon import within

from pipebench.errors import PipebenchError
from pipebench.predict.passports import passport_in
from pipebench.predict.planning import plan
from pipebench.render import text
from pipebench.results import report
from pipebench.results.costs import Passport
from pipebench.results.plan import Asked
from pipebench.results.report import Report
from pipebench.terminal import of_file, sensible
from pipebench.watch.read.decoding import KINDS
from pipebench.watch.read.gather import gather
from pipebench.watch.read.summary import summarise
from pipebench.watch.record.options import WatchOptions

LIKE = {int: [*NUMBERS, *IMPOSSIBLE], float: [*FIGURES, *IMPOSSIBLE], str: TEXTS}
SOON_S = 60  # only what would never end takes so long
PARTS = sorted(set(typing.get_type_hints(Report)) - {"schema_version", "created", "pipebench", "partial"})


def shown_or_refused(file, root, shown=lambda found, file: None):
    file.write_text(json.dumps(root))
    try:
        with within(SOON_S):
            found = report.load(file)
            for style in ("table", "markdown"):
                of_file(found, file, style, full=True)
            shown(found, file)
    except PipebenchError as refused:
        assert file.name in refused.problem, refused.problem


def each(examples, slow):
    """A few examples in each run of the tests, and many in the slow one."""
    return pytest.mark.parametrize("count", [examples, pytest.param(slow, marks=pytest.mark.long)])


@each(6, 300)
@pytest.mark.parametrize("part", PARTS)
def test_a_report_of_any_figures(part, count, tmp_path):
    @at_most(count)
    @hypothesis.given(shaped(typing.get_type_hints(Report)[part]))
    def check(found):
        shown_or_refused(tmp_path / "r.json", {"schema_version": 2, part: found})

    check()


@each(10, 300)
def test_a_passport_of_any_figures_is_planned_or_refused(count, tmp_path):
    def planned(found, file):
        made = sensible(file, lambda: plan(passport_in(found), Asked()))  # as `pipebench plan` does
        text.table(report.new(plan=made))

    @at_most(count)
    @hypothesis.given(shaped(Passport))
    def check(found):
        shown_or_refused(tmp_path / "r.json", {"schema_version": 2, "passport": found}, planned)

    check()


@each(15, 600)
def test_records_of_any_figures_give_a_report(count, tmp_path):
    line = strategies.sampled_from(sorted(KINDS)).flatmap(
        lambda name: shaped(KINDS[name]).map(lambda fields: json.dumps([name, fields]))
    )

    @at_most(count)
    @hypothesis.given(strategies.lists(line, max_size=12))
    def check(lines):
        (tmp_path / "1-1.spans").write_text("\n".join(lines) + "\n")
        with within(SOON_S):
            found = summarise(gather(tmp_path), WatchOptions(), 0, 2.0)
            text.table(report.of_watch(found, None), full=True)

    check()


@each(8, 400)
@pytest.mark.parametrize("name", every_report.EXAMPLES)
def test_a_real_report_with_anything_in_some_of_its_places(name, count, tmp_path):
    whole = report.encode(every_report.EXAMPLES[name])

    @at_most(count)
    @hypothesis.given(strategies.data())
    def check(data):
        root = json.loads(whole)
        for _ in range(data.draw(strategies.integers(1, 4))):
            holder, key = data.draw(strategies.sampled_from(list(places(root))))
            old = holder[key]
            like = LIKE.get(type(old), [None, [], {}, [{}], old])
            holder[key] = data.draw(strategies.sampled_from([*like, None]))
        shown_or_refused(tmp_path / "r.json", root)

    check()


def places(found):
    for key, value in list(found.items()) if isinstance(found, dict) else list(enumerate(found)):
        if key != "schema_version":
            yield found, key
        if isinstance(value, dict | list):
            yield from places(value)


def tables(found):
    for holder, key in places(found):
        rows = isinstance(holder[key], list) and holder[key] and isinstance(holder[key][0], dict)
        if rows and key not in report._ANY_NUMBER:
            yield holder, key


@pytest.mark.parametrize("many", [1, 50])
def test_more_text_than_any_run_has_is_refused(many, tmp_path):
    root = json.loads(report.encode(every_report.EXAMPLES["watch"]))
    root["watched"]["notes"] = [{"code": "x" * (report.MOST_TEXT // many)}] * many
    (tmp_path / "r.json").write_text(json.dumps(root))
    with pytest.raises(PipebenchError, match=r"r\.json has 5,\d{3},\d{3} characters of text, more than any run"):
        report.load(tmp_path / "r.json")


@pytest.mark.parametrize("most", [1, pytest.param(100, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", every_report.EXAMPLES)
def test_a_table_of_more_rows_than_any_run_has_is_refused(name, most, tmp_path):
    whole = report.encode(every_report.EXAMPLES[name])
    for number, _ in zip(range(most), tables(json.loads(whole)), strict=False):
        root = json.loads(whole)
        holder, key = list(tables(root))[number]
        holder[key] = (holder[key] * (report.MOST_ROWS + 1))[: report.MOST_ROWS + 1]
        (tmp_path / "r.json").write_text(json.dumps(root))
        with pytest.raises(PipebenchError, match=r"r\.json has (a table of 10,001 rows|64 MiB|\d+ MB)"):
            report.load(tmp_path / "r.json")
