"""Report files that nobody's run wrote: shown or refused by name, and soon."""

import json
import random

import every_report
import msgspec
import pytest
from repos import pipebench
from soon import within

from pipebench.errors import PipebenchError
from pipebench.render.html.page import document
from pipebench.results import report
from pipebench.terminal import of_file, sensible

NUMBERS = [
    0, -1, 1, 2, 10**6, 1e9, 2**62, 2**63, 2**64 - 1, 2**65, 10**400, 0.0, -0.0, 5e-324, 1e-300, 1e-29, 1e-6, 1e15,
    1e18, 1e100, 1.7e308, -1e18, True, None,
]  # fmt: skip
SOON_S = 60  # only what would never end takes so long


@pytest.fixture(autouse=True)
def ends():
    with within(SOON_S):
        yield


def shown_or_refused(file, content):
    """Whether the file was shown, in each format. It is the fault of this test if anything but a refusal is raised."""
    file.write_bytes(content)
    try:
        found = report.load(file)
        for style in ("table", "markdown", "json"):
            of_file(found, file, style, full=True)
        sensible(file, lambda: document(found, ()))
    except PipebenchError as refused:
        assert file.name in refused.problem, refused.problem
        return False
    return True


def leaves(found):
    """Every place in plain values: what holds a value, and its key there."""
    for key, value in list(found.items()) if isinstance(found, dict) else list(enumerate(found)):
        yield found, key
        if isinstance(value, dict | list):
            yield from leaves(value)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("name", every_report.EXAMPLES)
def test_changed_figures(name, seed, tmp_path):
    rng = random.Random(f"{name} {seed}")
    plain = json.loads(report.encode(every_report.EXAMPLES[name]))
    places = [place for place in leaves(plain) if type(place[0][place[1]]) in (int, float)]
    for holder, key in rng.sample(places, min(len(places), rng.choice([1, 1, 2, 5]))):
        if key != "schema_version":
            holder[key] = rng.choice(NUMBERS)
    shown_or_refused(tmp_path / "r.json", json.dumps(plain).encode())


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", every_report.EXAMPLES)
def test_changed_structure(name, seed, tmp_path):
    """Parts left out, doubled, exchanged, of another type, or very long."""
    rng = random.Random(f"{name} {seed}")
    plain = json.loads(report.encode(every_report.EXAMPLES[name]))
    for holder, key in rng.sample(list(leaves(plain)), 3):
        change = rng.randrange(4)
        if change == 0 and isinstance(holder, dict):
            holder.pop(key, None)
        elif change == 1 and isinstance(holder, list):
            holder.extend(holder[:50] * rng.choice([1, 20]))
        elif change == 2:
            holder[key] = rng.choice([{}, [], "x" * 10**5, None, [[]], {"code": 7}])
        elif isinstance(holder, list):
            holder.reverse()
    shown_or_refused(tmp_path / "r.json", json.dumps(plain).encode())


@pytest.mark.parametrize("name", every_report.EXAMPLES)
def test_an_unchanged_report_is_shown(name, tmp_path):
    assert shown_or_refused(tmp_path / "r.json", report.encode(every_report.EXAMPLES[name]))


@pytest.mark.parametrize(
    "change",
    [
        lambda root: root["watched"]["hand_off"]["ready_over_time"][-1].update(at_s=1e100),
        lambda root: root["watched"]["hand_off"]["ready_over_time"][-1].update(at_s=1e17),
        lambda root: root["watched"]["hand_off"]["ready_over_time"][0].update(at_s=1.9999999999),
        lambda root: root["watched"]["stages"][0].update(exclusive_s_per_sample=5e-324),
        lambda root: root["watched"]["notes"].append({"code": "oversubscribed", "values": {}}),
        lambda root: root["watched"].update(usable_cores=10**400),
    ],
)
def test_what_hung_or_crashed_once(change, tmp_path):
    root = json.loads(report.encode(every_report.EXAMPLES["watch"]))
    change(root)
    shown_or_refused(tmp_path / "r.json", json.dumps(root).encode())


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not a pipebench report"),
        (b"[" * 100_000, "is not a pipebench report"),
        (b'{"schema_version": 2, "machine": ' + b'{"libraries": ' * 50_000, "is not a pipebench report"),
        (b'{"schema_version": 2, "failure": NaN}', "is not a pipebench report"),
        (b'{"schema_version": 2, "partial": "yes"}', "is not a pipebench report"),
        (b'{"schema_version": 99}', "newer than this pipebench reads"),
        (b"\x80\x04\x95pickle", "is not a pipebench report"),
        (b'{"schema_version": 2, "failure": "\xff"}', "is not a pipebench report"),
    ],
)
def test_show_refuses_by_name_in_one_line_and_its_remedy(content, said, tmp_path):
    (tmp_path / "r.json").write_bytes(content)
    done = pipebench("show", "r.json", cwd=tmp_path)
    assert done.returncode == 1 and done.stdout == "" and len(done.stderr.splitlines()) == 2, done.stderr
    assert "r.json" in done.stderr and said in done.stderr


def test_a_report_that_was_cut_anywhere_is_refused(tmp_path):
    whole = report.encode(every_report.EXAMPLES["watch"]).rstrip()
    for end in range(0, len(whole), 97):
        assert not shown_or_refused(tmp_path / "r.json", whole[:end])
    assert msgspec.json.decode(whole)
