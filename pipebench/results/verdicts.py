"""The verdict of any report as a code with its evidence, for programs: what its sentence says, from the same figures.

One function for each kind of report. `docs/report.md` lists every code; a test holds the page against `CODES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from pipebench.results import usual_pipeline
from pipebench.results.advice import Advice, Finding
from pipebench.results.before_after import UNJUDGED, BeforeAfter
from pipebench.results.beginning import OfWatch, beginning
from pipebench.results.calibration import GOAL_SPAN_S, Calibration
from pipebench.results.check import Check
from pipebench.results.comparison import Comparison, unjudged
from pipebench.results.consumers import points
from pipebench.results.examination import Examination
from pipebench.results.loaders import FILTERS, SideBySide, lead
from pipebench.results.plan import Plan
from pipebench.results.programs import WatchedCommand
from pipebench.results.remote import Remote
from pipebench.results.studies import StudyResult
from pipebench.results.sync_points import SyncReport
from pipebench.results.watched import WatchResult

Kind = Literal[
    "run", "functions", "watch", "command", "advise", "syncs", "ab", "study", "calibrate", "plan", "passport",
    "check", "compare", "doctor", "remote", "loaders", "engine",
]  # fmt: skip
OfRun = Literal["feeds", "one-core", "largest-gain", "no-gain", "no-reference"]
OfAdvice = Literal["change", "predicted", "nothing-gains", "not-tried", "refused"]
OfSyncs = Literal["sync-points", "no-sync-points"]
OfTwo = Literal[
    "gate-failed", "slower", "faster", "mixed", "changed-output", "no-difference", "too-few", "not-measured", "failed"
]  # fmt: skip
OfStudy = Literal["holds", "holds-in-part", "does-not-hold", "no-claim"]
OfCalibration = Literal["within-goals", "over-goals", "cannot-tell"]
OfCheck = Literal["harmful-files", "no-harmful-file"]
OfDoctor = Literal["will-hurt", "nothing-hurts"]
OfRemote = Literal["feeds-rate", "may-feed-rate", "does-not-feed-rate", "measured"]
OfLoaders = Literal["leads", "level"]
OfPlan = Literal["feeds-consumer", "starves-consumer", "cannot-tell", "best-setting"]
Code = Literal[
    OfRun, OfWatch, OfAdvice, OfSyncs, OfTwo, OfStudy, OfCalibration, OfPlan, OfCheck, OfDoctor, OfRemote, OfLoaders,
    "straggler",
    "measured", "costs",
]  # fmt: skip
CODES: tuple[str, ...] = tuple(dict.fromkeys(get_args(Code)))
Value = str | int | float | bool | tuple[str, ...] | None
Evidence = dict[str, Value]


@dataclass(frozen=True)
class ReportVerdict:
    """What a report says: the kind of report, a code, and the figures behind it in base units.

    A speed-up has `speedup`, `low` and `high`; above 1 is faster. None: not known.
    """

    kind: Kind
    code: Code
    evidence: Evidence = field(default_factory=dict)


def verdict(parts: Any) -> ReportVerdict | None:
    """The verdict of a report, from the part that its command made. None: it is empty, or holds what no run gives."""
    for name, of in _OF_PART.items():
        if part := getattr(parts, name):
            try:
                return of(part, parts)
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, AssertionError):
                return None
    return None


def _of_compare(found: BeforeAfter, parts: Any) -> ReportVerdict:
    codes: dict[str, Code] = {
        "faster": "faster", "slower": "slower", "some faster, some slower": "mixed",
        "no difference detected": "no-difference",
    }  # fmt: skip
    code = "gate-failed" if found.gate == "failed" else codes.get(found.verdict, "not-measured")
    evidence: Evidence = {
        "of": found.kind,
        "gate": found.gate,
        "exceeding": found.exceeding,
        "faster": sum(one.verdict in ("faster", "fewer") for one in found.rows if one.gated),
        "slower": sum(one.verdict in ("slower", "more") for one in found.rows if one.gated),
        "failed": found.failed,
        "slower_beside": tuple(f"{one.group}: {one.name}" for one in found.beside),
        "partial": found.partial,
        "rows": sum(one.gated and one.verdict not in UNJUDGED for one in found.rows),
    }
    return ReportVerdict("compare", code, evidence)


def _of_advice(found: Advice, parts: Any) -> ReportVerdict:
    evidence: Evidence = {
        "ended": found.ended,
        "most": found.most,
        "tried": sum(bool(one.ratios) for one in found.findings),
    }
    if (larger := found.larger) is not None:
        evidence |= {"of_script": larger.change.remedy, "of_script_at_most": larger.change.predicted}
    chosen = found.chosen
    if chosen is not None and chosen.gain is not None:
        gain = chosen.gain
        of_run = {"run_speedup": chosen.run.speedup} if chosen.run is not None else {}
        evidence |= {
            "remedy": chosen.change.remedy,
            "title": chosen.change.title,
            **_settings(chosen),
            **_speed(gain),
            **of_run,
        }
        return ReportVerdict("advise", "change", evidence)
    told = found.followed
    if found.ended == "refused":
        evidence |= {"refusal": found.refusal}
    if told is not None:
        guess = told.gain or told.predicted
        of_guess = _speed(guess) if guess is not None else {"at_most": told.change.predicted}
        evidence |= {"remedy": told.change.remedy, **_settings(told), **of_guess}
        return ReportVerdict("advise", "predicted", evidence)
    if found.ended == "refused":
        return ReportVerdict("advise", "refused", evidence)
    tried = any(one.gain is not None and not one.change.knock_out for one in found.findings)
    left = any(one.gain is None and not one.change.of_script for one in found.findings)
    untried = not tried and (left or found.ended in ("script-ended", "fault"))
    return ReportVerdict("advise", "not-tried" if untried else "nothing-gains", evidence)


def _settings(found: Finding) -> Evidence:
    return {f"set.{name}": value for name, value in found.change.settings.items()}


def _speed(found: Any) -> Evidence:
    return {"speedup": found.speedup, "low": found.low, "high": found.high}


def _of_command(found: WatchedCommand, parts: Any) -> ReportVerdict:
    evidence: Evidence = {"status": found.status, "programs": len(found.programs), "shown": found.shown}
    together = found.ranks
    if together is not None and together.straggler is not None:
        evidence |= {
            "rank": together.straggler, "ranks": together.of, "part": together.part, "behind_s": together.behind_s,
            "cost_share": together.cost_share, "stage": together.stage.name if together.stage else None,
        }  # fmt: skip
        return ReportVerdict("command", "straggler", evidence)
    if parts.watched is None:
        return ReportVerdict("command", "nothing-watched", evidence)
    of_main = _of_watch(parts.watched, parts)
    return ReportVerdict("command", of_main.code, {**evidence, **of_main.evidence})


def _of_watch(found: WatchResult, parts: Any) -> ReportVerdict:
    code, causes, _ = beginning(found)
    cause = next(iter(causes), None)
    evidence: Evidence = {
        "iterations": found.iterations,
        "run_s": found.account.wall_s if found.account is not None else None,
        "cause": cause.code if cause else None,
        "cause_s": cause.s if cause else None,
        "recoverable_s": cause.recoverable_s if cause else None,
        "next": found.next_move.action if found.next_move is not None else None,
    }
    names = (
        "limit", "waits", "wait_share", "wait_s", "iteration_s", "loader", "workers", "workers_busy", "stage",
        "stage_kind", "stage_share", "wait_part", "wait_part_share",
    )  # fmt: skip
    over = found.bound.bound_over_live if found.bound is not None else None
    bound = {f"bound_{name}": value for name, value in _speed(over).items()} if over is not None else {}
    of_loop = {name: getattr(found.verdict, name) for name in names}
    return ReportVerdict("watch", code, {**evidence, **of_loop, **bound})


def _of_syncs(found: SyncReport, parts: Any) -> ReportVerdict:
    confirmed = [one.confirmed for one in found.points if one.confirmed is not None]
    evidence: Evidence = {
        "per_step": found.per_step, "lines": len(found.points), "device": found.device,
        "confirmed_per_step": sum(confirmed) if confirmed else None, "not_inspected": len(found.not_inspected),
    }  # fmt: skip
    return ReportVerdict("syncs", "sync-points" if found.per_step else "no-sync-points", evidence)


def _of_ab(found: Comparison, parts: Any) -> ReportVerdict:
    names = {
        name: [one.benchmark for one in found.changes if one.verdict == name]
        for name in ("slower", "faster", "changed output", "failed", "no difference detected")
    }
    evidence: Evidence = {"base": found.base, "head": found.head, "gate": found.gate}
    evidence |= {name.replace(" ", "_"): tuple(listed) for name, listed in names.items()}
    if found.gate == "failed":
        return ReportVerdict("ab", "gate-failed", {**evidence, "exceeding": found.exceeding})
    return ReportVerdict("ab", _two(names, bool(unjudged(found.changes)[0])), evidence)


def _two(names: Mapping[str, Sequence[str]], few: bool) -> Code:
    """The code of two commits, from the names of the benchmarks by their verdict: what is worst comes first."""
    if names["slower"]:
        return "mixed" if names["faster"] else "slower"
    known: tuple[tuple[str, Code], ...] = (
        ("changed output", "changed-output"), ("faster", "faster"), ("failed", "failed"),
    )  # fmt: skip
    first = next((code for name, code in known if names[name]), None)
    if first is not None:
        return first
    return "too-few" if few else "no-difference" if names["no difference detected"] else "not-measured"


def _of_study(found: Sequence[StudyResult], parts: Any) -> ReportVerdict:
    outcomes = [row.outcome for study in found for row in study.rows if row.outcome is not None]
    kept = sum(one in ("holds", "larger", "smaller") for one in outcomes)
    last = next((row for study in found for row in reversed(study.rows) if row.over_first is not None), None)
    evidence: Evidence = {"studies": tuple(one.study for one in found), "claims": len(outcomes), "hold": kept}
    if last is not None and last.over_first is not None:
        evidence |= {"last_step": last.name, **_speed(last.over_first)}
    code: OfStudy = "holds" if kept == len(outcomes) else "holds-in-part" if kept else "does-not-hold"
    counts = [row.count for study in found for row in study.rows if row.count is not None]
    if not outcomes and len(counts) > 1:  # such a study claims that its fixes leave none
        evidence |= {"count_before": counts[0], "count_after": counts[-1]}
        return ReportVerdict("study", "does-not-hold" if counts[-1] else "holds", evidence)
    return ReportVerdict("study", code if outcomes else "no-claim", evidence)


def _of_calibration(found: Calibration, parts: Any) -> ReportVerdict:
    slow = [one.within for one in found.slowdowns]
    over = found.within < len(found.rows) or found.span_s > GOAL_SPAN_S or False in slow
    judged = bool(found.rows and slow) and None not in slow
    evidence: Evidence = {
        "within": found.within, "figures": len(found.rows), "span_s": found.span_s,
        "slowdowns_within": sum(one is True for one in slow), "slowdowns": len(slow), "load": max(found.load),
    }  # fmt: skip
    code: OfCalibration = "over-goals" if over else "within-goals" if judged else "cannot-tell"
    return ReportVerdict("calibrate", code, evidence)


def _of_plan(found: Plan, parts: Any) -> ReportVerdict:
    best = found.chosen
    low, high = (best.samples_per_s.low, best.samples_per_s.high) if best.checked else (None, None)
    evidence: Evidence = {
        "workers": best.workers, "prefetch_factor": best.prefetch_factor, "samples_per_s": best.samples_per_s.value,
        "low": low, "high": high, "limit": best.limit, "wanted": found.wanted,
    }  # fmt: skip
    if found.wanted is None:
        return ReportVerdict("plan", "best-setting", evidence)
    fed: dict[bool | None, OfPlan] = {True: "feeds-consumer", False: "starves-consumer", None: "cannot-tell"}
    return ReportVerdict("plan", fed[found.fed], evidence)


def _of_run(found: Any, parts: Any) -> ReportVerdict:
    """What loading feeds and what one core does, as far as they were measured; else the largest gain of a variant."""
    evidence: Evidence = {}
    fed = points(parts.loader or (), parts.training.loading.stream if parts.training else False)
    if fed:
        last = fed[-1]
        evidence |= {
            "images_per_s": last.rate.median,
            "low": last.rate.low,
            "high": last.rate.high,
            "cores": last.cores,
        }
        evidence |= {"held_up": last.held_up, "images_per_s_of_a_core": last.of_a_core.median}
    over = parts.training.bound.bound_over_live if parts.training else None
    if over is not None:
        evidence |= {"wait_share": parts.training.watched.wait_share}
        evidence |= {f"bound_{name}": value for name, value in _speed(over).items()}
    core = usual_pipeline.one_core(parts.measurements)
    if core is not None:
        evidence |= {
            "samples_per_s_of_a_core": 1 / core.usual_s, "costliest_task": core.costliest,
            "costliest_share": core.share, "samples_per_s_of_a_core_fastest": 1 / core.fastest_s,
        }  # fmt: skip
    if fed or core is not None:
        return ReportVerdict("run", "feeds" if fed else "one-core", evidence)
    return _gain(parts)


def _gain(parts: Any) -> ReportVerdict:
    """The variant that is most times as fast as its reference, if that was told."""
    one = usual_pipeline.gain(parts.measurements)
    if one is None:
        tasks = {row.task for row in usual_pipeline.gains(parts.measurements)}
        left_out = tuple(f"{row.task}/{row.variant}" for row in usual_pipeline.left_out(parts.measurements))
        code: OfRun = "no-gain" if tasks else "no-reference"
        return ReportVerdict("run", code, {"tasks": len(tasks), "skipped": left_out})
    evidence: Evidence = {"task": one.task, "variant": one.variant, **_speed(one.over_reference)}
    if one.samples_unfit:
        evidence |= {"samples_fit": one.samples_common, "samples": one.samples_attempted}
    return ReportVerdict("run", "largest-gain", evidence)


def _of_check(found: Check, parts: Any) -> ReportVerdict:
    evidence: Evidence = {
        "looked": found.looked,
        "listed": found.listed,
        "harmful": found.harmful,
        "places": found.places,
        "left_out": found.left_out,
        "kinds": tuple(one.kind for one in found.findings if one.effect != "note"),
    }
    return ReportVerdict("check", "harmful-files" if found.does_harm else "no-harmful-file", evidence)


def _of_examination(found: Examination, parts: Any) -> ReportVerdict:
    evidence: Evidence = {
        "hurting": tuple(one.check for one in found.of("will-hurt")),
        "worth_knowing": tuple(one.check for one in found.of("worth-knowing")),
        "not_known": tuple(one.check for one in found.of("not-known")),
    }
    return ReportVerdict("doctor", "will-hurt" if found.hurts else "nothing-hurts", evidence)


def _of_remote(found: Remote, parts: Any) -> ReportVerdict:
    """Of an interrupted run without a window, there is none."""
    traffic, best, needed, may_do = found.traffic, found.best, found.needed, found.may_do
    evidence: Evidence = {
        "wanted": found.feed, "connections": needed.connections if needed else None,
        "may_do": may_do.connections if may_do else None,
        "images_per_s": found.rate(needed or may_do or best).median, "most_images_per_s": found.rate(best).median,
        "most_connections": best.connections, "images_per_s_of_one": found.rate(found.rows[0]).median,
        "requests": traffic.requests, "failed": traffic.failed, "retries": traffic.retries,
        "given_up": traffic.given_up,
    }  # fmt: skip
    if found.feed is None:
        return ReportVerdict("remote", "measured", evidence)
    code: OfRemote = "feeds-rate" if needed else "may-feed-rate" if may_do else "does-not-feed-rate"
    return ReportVerdict("remote", code, evidence)


def _of_loaders(found: SideBySide, parts: Any) -> ReportVerdict:
    """Who leads each task in images per core-second; `level` if no leader of any task is certain."""
    evidence: Evidence = {
        "measured": sum(one.measured for one in found.results),
        "skipped": tuple(dict.fromkeys(one.name for one in found.results if one.skipped is not None)),
        "refused": tuple(dict.fromkeys(one.name for one in found.results if one.refused is not None)),
    }
    alone = []
    for task in FILTERS:
        best, prefix = lead(found.of(task), "cpu"), task.replace(" ", "_")
        if best is None:
            continue
        alone.append(not best.level)
        evidence |= {
            f"{prefix}_leader": best.leader.name,
            f"{prefix}_level": tuple(one.name for one in best.level),
            **{f"{prefix}_{name}": value for name, value in best.leader.evidence.items()},
        }
    code: Code = "not-measured" if not alone else "leads" if any(alone) else "level"
    return ReportVerdict("loaders", code, evidence)


_OF_PART: dict[str, Callable[[Any, Any], ReportVerdict]] = {
    "before_after": _of_compare, "advice": _of_advice, "command": _of_command, "watched": _of_watch,
    "sync_points": _of_syncs, "comparison": _of_ab, "studies": _of_study, "calibration": _of_calibration,
    "plan": _of_plan, "passport": lambda part, parts: ReportVerdict("passport", "costs"),
    "check": _of_check, "examination": _of_examination, "remote": _of_remote, "loaders": _of_loaders,
    "engine": lambda part, parts: ReportVerdict("engine", part.code, part.evidence),
    "workload": _of_run,
    "measurements": lambda part, parts: ReportVerdict("functions", "measured", {"rows": len(part)}),
}  # fmt: skip
