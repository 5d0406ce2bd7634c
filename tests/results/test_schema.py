"""The schema that `pipebench schema` prints holds every report, and its page has every code of a verdict."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import get_args

import jsonschema
import pytest
from click.testing import CliRunner
from saved_pairs import PAIRS, root

from pipebench.before_after.whole import compared
from pipebench.commands.schema import command
from pipebench.results import report, verdicts
from pipebench.results.plan import Asked, Figure, Plan, Prediction

ROOT = Path(__file__).parent.parent.parent
SAVED = sorted((Path(__file__).parent / "saved").glob("*.json"))
PLAN = Plan(
    Asked(), 1, 2.0, 100.0, (Prediction(2, 2, Figure(180.0, 160.0, 200.0), "cores", {"cores": 180.0}),), 0, (), 0.1
)
ALL = {
    **{f"{kind}-{place}": one for kind, pair in PAIRS.items() for place, one in enumerate(pair)},
    **{f"compare-{kind}": root(before_after=compared(*pair, (Path("a"), Path("b")))) for kind, pair in PAIRS.items()},
    **{path.stem: report.load(path) for path in SAVED},
    "plan": root(plan=PLAN),
    "empty": root(),
}
CALIBRATED = PAIRS["calibrate"][0].calibration
SLOWDOWNS = CALIBRATED.slowdowns  # over its goal, and too noisy to judge


@pytest.fixture(scope="module")
def schema():
    found = CliRunner().invoke(command, [], catch_exceptions=False)
    return json.loads(found.stdout)


@pytest.fixture(scope="module")
def validator(schema):
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("name", ALL)
def test_every_report_is_as_the_schema_says(name, validator):
    plain = json.loads(report.encode(ALL[name]))
    validator.validate(plain)
    assert plain["verdict"] is not None or name == "empty"


def test_the_schema_refuses_what_is_no_report(validator):
    plain = json.loads(report.encode(ALL["run-0"]))
    for wrong in ({"verdict": {"kind": "run", "code": "fine"}}, {"measurements": [{}]}, {"partial": "no"}):
        with pytest.raises(jsonschema.ValidationError):
            validator.validate({**plain, **wrong})


def test_every_part_of_the_schema_is_described(schema):
    assert len(schema["$defs"]) > 50
    assert all(not part["description"].startswith(f"{name}(") for name, part in schema["$defs"].items())
    assert set(schema["$defs"]["ReportVerdict"]["properties"]["code"]["enum"]) == set(verdicts.CODES)


def test_the_page_has_every_code_of_every_kind_and_no_other():
    page = (ROOT / "docs/report.md").read_text()
    rows = re.findall(r"^\| `([a-z-]+)` \| `([a-z-]+)` \|", page, re.MULTILINE)
    assert {kind for kind, _ in rows} == set(get_args(verdicts.Kind))
    assert {code for _, code in rows} == set(verdicts.CODES)
    assert len(rows) == len(set(rows))


@pytest.mark.parametrize("name", ALL)
def test_the_page_has_the_code_that_a_report_gives(name):
    """A command without a straggler has the codes of `watch`."""
    found = ALL[name].verdict
    page = (ROOT / "docs/report.md").read_text()
    kinds = {found.kind, "watch"} if found is not None and found.kind == "command" else {found and found.kind}
    assert found is None or any(f"| `{kind}` | `{found.code}` |" in page for kind in kinds)


@pytest.mark.parametrize("name", ALL)
def test_the_page_defines_all_evidence_of_the_kind(name):
    found = ALL[name].verdict
    section = (ROOT / "docs/report.md").read_text().partition("### The evidence")[2].split("\n\n")[2]
    said = dict.fromkeys(get_args(verdicts.Kind), "")
    for item in re.split(r"^- ", section, flags=re.MULTILINE)[1:]:
        said[item.split("`")[1]] += item
    assert [kind for kind, of_it in said.items() if not of_it] == ["passport"]
    names = {re.sub(r"^set\..*", "set.NAME", one) for one in (found.evidence if found is not None else ())}
    of_kind = (said[found.kind] + (said["watch"] if found.kind == "command" else "")) if found is not None else ""
    assert not {one for one in names - {"speedup", "low", "high"} if f"`{one}`" not in of_kind}


def test_a_verdict_follows_from_the_figures_and_not_from_the_file(tmp_path):
    plain = json.loads(report.encode(ALL["syncs-0"]))
    plain["verdict"]["code"] = "no-sync-points"
    (tmp_path / "r.json").write_text(json.dumps(plain))
    assert report.load(tmp_path / "r.json").verdict.code == "sync-points"


WITHIN = replace(SLOWDOWNS[1], low_s=5e-6, high_s=7e-6)


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"slowdowns": (WITHIN,)}, "within-goals"),
        ({"slowdowns": (WITHIN, SLOWDOWNS[1])}, "cannot-tell"),
        ({"slowdowns": ()}, "cannot-tell"),
        ({"slowdowns": (WITHIN,), "rows": ()}, "cannot-tell"),
        ({"slowdowns": SLOWDOWNS}, "over-goals"),
        ({"slowdowns": (), "span_s": 2e-6}, "over-goals"),
        ({"slowdowns": (WITHIN,), "rows": CALIBRATED.rows}, "over-goals"),
    ],
)
def test_a_calibration_is_within_its_goals_only_where_each_could_be_judged(changed, code):
    rows = tuple(one for one in CALIBRATED.rows if one.within)
    assert [one.within for one in SLOWDOWNS] == [False, None]
    assert root(calibration=replace(CALIBRATED, **{"rows": rows, **changed})).verdict.code == code


def test_figures_that_no_run_gives_have_no_verdict():
    broken = replace(CALIBRATED, load=())
    assert root(calibration=broken).verdict is None
