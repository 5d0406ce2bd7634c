"""One report of each command with everything in it, and a way to put anything in place of its texts or figures."""

import sys
from dataclasses import replace
from pathlib import Path

import msgspec

TESTS = Path(__file__).parent.parent
sys.path[:0] = [str(TESTS / "render"), str(TESTS / "predict"), str(TESTS / "remote"), str(TESTS / "loaders")]

import made_up  # noqa: E402
from made_up_engine import CLUSTER  # noqa: E402
from made_up_examinations import EXAMINATION  # noqa: E402
from made_up_loaders import WHOLE  # noqa: E402
from made_up_remote import REMOTE  # noqa: E402
from saved_pairs import PAIRS, root  # noqa: E402
from test_advice import ADVICE  # noqa: E402
from test_plan import ELSEWHERE  # noqa: E402

from pipebench.before_after.whole import compared  # noqa: E402
from pipebench.results import report  # noqa: E402
from pipebench.results.check import Check, Finding, Found  # noqa: E402
from pipebench.results.report import Report  # noqa: E402

_FOUND = Finding(
    "disagree", "changes", "decoded otherwise", "use one library", 9, (Found("a.jpg", "opencv: 7 levels"),)
)
CHECK = Check("photographs", 20, 12, 3, 1.5, (_FOUND,), ("pillow", "opencv"), {"torchcodec": "it is not installed"})
_SAVED = ("lab", "study", "study-counts")  # by real runs, on two cores
EXAMPLES = {
    "watch": report.new(watched=replace(made_up.watched(), bound=made_up.bound()), error_of_watch=made_up.CALIBRATED),
    "ab": report.new(comparison=made_up.COMPARISON),
    "calibrate": report.new(calibration=made_up.CALIBRATION),
    "syncs": report.new(sync_points=made_up.SYNCS),
    "advise": report.new(advice=ADVICE, watched=made_up.watched()),
    "plan": report.new(plan=ELSEWHERE),
    "check": report.new(check=CHECK),
    **{
        f"compare, {kind}": root(before_after=compared(*PAIRS[kind], (Path("base.json"), Path("head.json"))))
        for kind in ("run", "watch")
    },
    "loaders": report.new(loaders=WHOLE),
    "engine": report.new(engine=CLUSTER),
    "doctor": report.new(examination=EXAMINATION),
    "remote": report.new(remote=REMOTE),
    **{name: report.load(TESTS / f"results/saved/{name}.json") for name in _SAVED},
}  # fmt: skip


def changed(found, kind, new):
    """The report with `new(old)` in place of each value of the type `kind` wherever the schema allows it."""
    plain = msgspec.json.decode(msgspec.json.encode(found))  # with lists in place of tuples, which cannot be changed
    for holder, key in list(_leaves(plain, kind)):
        old, holder[key] = holder[key], new(holder[key])
        try:
            msgspec.convert(plain, type=Report)
        except (msgspec.ValidationError, UnicodeEncodeError):  # the second: of one of a few words
            holder[key] = old
    return msgspec.convert(plain, type=Report)


def _leaves(found, kind):
    """The places of all values of a type: what holds the value, and its key there."""
    for key, value in found.items() if isinstance(found, dict) else enumerate(found):
        if isinstance(value, dict | list):
            yield from _leaves(value, kind)
        elif type(value) is kind and key != "schema_version":
            yield found, key
