"""`pipebench ab` on a small repository: what a slower commit, a broken one and bad input come to."""

import os
import platform
import sys
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import repos

from pipebench.commands.ab import _deliver, _status
from pipebench.compare import checkouts, rounds, schedule
from pipebench.compare.bounded import GitFailed
from pipebench.errors import PipebenchError, UsageError
from pipebench.render import ab, layout, text
from pipebench.results import comparison
from pipebench.results.comparison import Judgement
from pipebench.results.report import load
from pipebench.runner import RunnerDied
from pipebench.stats import Speedup


@pytest.fixture(scope="module")
def repo(tmp_path_factory):
    """A repository with three commits: fast, with the suite, and with a transform that does more work."""
    folder = repos.sample(tmp_path_factory.mktemp("ab") / "mine")
    repos.configured(folder, "RandomHorizontalFlip", "Scale")
    with (folder / "sampledata.py").open("a") as file:
        file.write('\nimport warnings\n\nwarnings.warn("a toy")\n')
    repos.commit(folder, "suite")
    repos.slower(folder)
    return folder


@pytest.fixture(scope="module")
def compared(repo):
    """The two commits compared, and the dirty tree that was said so."""
    (repo / "sampledata.py").write_text((repo / "sampledata.py").read_text() + "# not committed\n")
    options = [
        "--budget",
        "600",
        "--rounds",
        "10",
        "--fail-above",
        "20%",
        "--export-json",
        "ab.json",
        "--format",
        "json",
    ]
    done = repos.pipebench("ab", "HEAD~1", "HEAD", "--variant", "Scale", *options, cwd=repo)
    repos.git(repo, "checkout", "--", "sampledata.py")
    report = load(repo / "ab.json")
    assert (repo / "ab.json").read_text() == done.stdout
    (repo / "ab.json").unlink()
    return SimpleNamespace(done=done, report=report, change=report.comparison.changes[0])


def test_a_transform_that_does_six_times_the_work_fails_the_gate_and_is_named(compared):
    """The gate allows 20 %; the planted 500 % is far above what a busy machine makes of equal code."""
    assert compared.change.benchmark == "transform/own/Scale"
    assert compared.done.returncode == 3, compared.done.stderr
    assert "pipebench: slower: transform/own/Scale" in compared.done.stderr


def test_every_reading_of_every_round_is_kept_with_the_sides_and_the_gate(compared):
    assert len(compared.change.rounds) == 10
    assert all(len(pairs) >= 1 and all(min(pair) > 0 for pair in pairs) for pairs in compared.change.rounds)
    found = compared.report.comparison
    assert found.base.startswith("HEAD~1 (") and found.head.startswith("HEAD (") and found.fail_above == 0.2


def test_the_report_says_what_each_side_ran(repo, compared):
    sides = compared.report.comparison.sides
    assert [one.commit for one in sides] == [repos.git(repo, "rev-parse", name) for name in ("HEAD~1", "HEAD")]
    assert [one.tree for one in sides] == [
        repos.git(repo, "rev-parse", f"{name}^{{tree}}") for name in ("HEAD~1", "HEAD")
    ]
    assert all(one.commit[:16] in root for one in sides for root in one.roots)


def test_a_warning_of_both_sides_is_said_once_at_the_end_with_its_count(compared):
    (said,) = compared.report.comparison.said
    assert said.text.endswith(": UserWarning: a toy") and said.text.startswith("sampledata.py:")
    assert (said.base, said.head) == (1, 1) and "a toy" not in compared.done.stderr
    assert "UserWarning: a toy (base 1 time, head 1 time)" in text.table(compared.report, full=True)


def test_the_report_says_which_python_and_how_busy_the_machine_was(compared):
    found = compared.report.comparison
    assert [one.python_version for one in found.sides] == [platform.python_version()] * 2
    assert len(found.load) == 2 and min(found.load) >= 0


def test_what_was_saved_is_shown_again_as_text_and_as_markdown(compared):
    found = compared.report.comparison
    assert text.table(compared.report, full=True).startswith(layout.text(ab.parts(found)))
    assert text.markdown(compared.report).startswith("**HEAD")


def test_a_dirty_tree_is_named_with_what_to_do(compared):
    assert "pipebench: the comparison leaves out your uncommitted changes\n  commit them, or" in compared.done.stderr


def test_nothing_of_the_repository_is_changed(repo, compared):
    assert repos.git(repo, "status", "--porcelain") == ""
    assert repos.git(repo, "worktree", "list").count("\n") == 0


def test_a_commit_that_does_not_import_is_named(repo):
    (repo / "sampledata.py").write_text("import nothing_of_the_kind\n")
    broken = repos.commit(repo, "broken")
    repos.git(repo, "reset", "--quiet", "--hard", "HEAD~1")
    done = repos.pipebench("ab", broken, "HEAD", "--budget", "20", cwd=repo)
    assert done.returncode == 1
    assert f"({broken[:8]}) does not start" in done.stderr
    assert "nothing_of_the_kind" in done.stderr and "Traceback" not in done.stderr


def test_a_commit_that_does_not_build_is_named_and_leaves_nothing_behind(repo, cache):
    before = set((cache / "ab").glob("*")) if (cache / "ab").exists() else set()
    with pytest.raises(PipebenchError, match=r"does not build.*status 1.*no such compiler"):
        checkouts.checked_out(repo, "HEAD", "python -c \"import sys; sys.exit('no such compiler')\"")
    assert set((cache / "ab").glob("*")) == before


def test_a_commit_that_there_is_not(repo):
    with pytest.raises(UsageError, match="no commit 'nosuch'"):
        checkouts.resolve(repo, "nosuch")


@pytest.mark.parametrize(
    ("name", "said", "remedy"),
    [
        ("HEAD~1..HEAD", "'HEAD~1..HEAD' is a range of commits", "its two ends"),
        ("main...HEAD", "is a range of commits", "its two ends"),
        ("HEAD:deep", "'HEAD:deep' is a folder, not a commit", "without the path"),
        ("HEAD:deep/one", "'HEAD:deep/one' is a file, not a commit", "without the path"),
        (":/no such message", "there is no commit ':/no such message'", "a branch, a tag"),
    ],
)
def test_what_is_no_commit_is_said_for_what_it_is(name, said, remedy, tmp_path):
    named(tmp_path)
    with pytest.raises(UsageError, match=said) as found:
        checkouts.resolve(tmp_path, name)
    assert remedy in (found.value.remedy or "")


@pytest.mark.parametrize("name", [":/base work", "HEAD^{/base work}", "HEAD~1", "v1^{}", "HEAD@{1}"])
def test_every_name_that_git_knows_for_a_commit_is_one(name, tmp_path):
    first = named(tmp_path)
    assert checkouts.resolve(tmp_path, name) == first


def named(folder):
    """Two commits; the first has a message of two words, and a tag. Returns the hash of the first."""
    (folder / "deep").mkdir()
    (folder / "deep" / "one").touch()
    repos.git(folder, "init", "--quiet")
    first = repos.commit(folder, "base work")
    repos.git(folder, "tag", "--annotate", "--message", "one", "v1")
    (folder / "deep" / "two").touch()
    repos.commit(folder, "more")
    return first


def test_a_folder_that_is_no_repository(tmp_path):
    with pytest.raises(PipebenchError, match="not in a git repository"):
        checkouts.repository(tmp_path)


def test_files_that_say_what_to_install_are_named_where_they_differ(repo):
    base = repos.git(repo, "rev-parse", "HEAD")
    (repo / "requirements.txt").write_text("numpy\n")
    head = repos.commit(repo, "another package")
    repos.git(repo, "reset", "--quiet", "--hard", base)
    (note,) = checkouts.dependencies_differ(repo, base, head)
    assert note.startswith("requirements.txt differs")
    assert checkouts.dependencies_differ(repo, base, base) == checkouts.dependencies_differ(repo, ".", ".") == []
    assert checkouts.dependencies_differ(repo, head, ".") == [note]


def test_a_repository_of_which_nothing_would_be_measured_is_refused(tmp_path):
    repos.git(tmp_path, "init", "--quiet")
    (tmp_path / "file").write_text("")
    repos.commit(tmp_path, "one")
    done = repos.pipebench("ab", "HEAD", "HEAD", cwd=tmp_path)
    assert done.returncode == 2
    assert "no pipebench.toml" in done.stderr and "pipebench init" in done.stderr


def test_a_repository_of_another_user_is_not_called_none(monkeypatch, tmp_path):
    """As in a container of a workflow. The remedy is git's own."""
    said = "fatal: detected dubious ownership in repository at '/work'\nTo add an exception, call:\n\n\tgit config {}\n"
    remedy = "--global --add safe.directory /work"
    refused = GitFailed("planted", said.format(remedy))
    monkeypatch.setattr(checkouts, "_git", Mock(side_effect=refused))
    with pytest.raises(PipebenchError, match="belongs to another user") as found:
        checkouts.repository(tmp_path)
    assert found.value.remedy == f"git config {remedy}"


def test_a_gate_that_had_too_few_rounds_does_not_pass(capsys):
    few = [comparison.Change("read/image/open", Judgement(Speedup(1 / 1.5, 0.125, 5.0, 0.5), 2, 0.99), 0.001, 0.001, 8)]
    assert (_status(few, None), _status(few, 0.05)) == (0, 1)
    assert "the gate has no result: 1 benchmark had fewer than the 10 rounds needed" in capsys.readouterr().err
    _status(few, 0.05, most_rounds=2)
    assert "needed: --rounds 2 stopped the run, so give --rounds 10 or leave it out" in capsys.readouterr().err
    _status(few, 0.05, most_rounds=3)
    assert "needed: give --rounds 10 or leave it out, and raise --budget" in capsys.readouterr().err


def test_a_cache_that_cannot_be_written_is_named_with_what_to_do(repo, monkeypatch):
    monkeypatch.setenv("PIPEBENCH_CACHE", "/dev/full")
    with pytest.raises(PipebenchError, match=r"/dev/full.*cannot be written") as raised:
        checkouts.checked_out(repo, "HEAD")
    assert "set PIPEBENCH_CACHE" in raised.value.remedy


def test_asv_environment_is_taken_where_there_is_one_with_what_is_needed(tmp_path):
    (tmp_path / "asv.conf.json").write_text('// ours\n{"env_dir": "envs"}')
    assert checkouts.interpreter(tmp_path, ["json"]) == sys.executable
    environment = tmp_path / "envs" / "abc"
    (environment / "bin").mkdir(parents=True)
    (environment / "asv-env-info.json").write_text("{}")
    os.symlink(sys.executable, environment / "bin" / "python")
    assert checkouts.interpreter(tmp_path, ["json"]) == str(environment / "bin" / "python")
    assert checkouts.interpreter(tmp_path, ["nothing_of_the_kind"]) == sys.executable


def _change(times_as_long, low, high, name="decode/rgb/pillow"):
    over = Speedup(1 / times_as_long, 1 / high, 1 / low, 0.995)
    return comparison.Change(name, Judgement(over, 24, 0.995), 0.002, 0.002 * times_as_long, 8)


@pytest.mark.parametrize(
    ("change", "limit", "status"),
    [
        (_change(1.1, 1.08, 1.12), None, 0),
        (_change(1.1, 1.08, 1.12), 0.05, 3),
        (_change(1.1, 1.04, 1.16), 0.05, 0),  # not all of the interval is above
        (_change(0.5, 0.4, 0.6), 0.05, 0),
        (comparison.Change("x", failed="it broke"), 0.05, 1),
        (comparison.Change("x", skipped="not here"), 0.05, 1),
    ],
)
def test_the_status_is_what_the_interval_says(change, limit, status, capsys):
    assert _status([change], limit) == status
    assert ("slower: decode/rgb/pillow" in capsys.readouterr().err) == (status == 3)


def _text(changes, limit=None):
    return layout.text(ab.parts(comparison.Comparison("main", "mine", tuple(changes), limit)))


def test_the_table_says_what_is_slower_what_cannot_be_told_and_what_was_left_out():
    changes = [
        _change(1.1, 1.08, 1.12),
        _change(1.0, 0.99, 1.01, "read/image/open"),
        comparison.Change("crop/x/y", skipped="not in this commit"),
        comparison.Change("step/x/y", failed="ValueError: it broke"),
    ]
    assert _text(changes, 0.05) == (
        "mine against main: more than 5.0 % slower: decode/rgb/pillow\n"
        "\n"
        "mine against main, times of one sample\n"
        "benchmark           base µs   head µs   speed-up      interval   detectable   rounds\n"
        "────────────────────────────────────────────────────────────────────────────────────\n"
        "decode/rgb/pillow       250       275     0.909×   0.893–0.926        1.9 %       24\n"
        "read/image/open         250       250          ~   0.990–1.010        1.0 %       24\n"
        "  speed-up: time of base / time of head; below 1 the head is slower; ~: no difference detected. All 2\n"
        "  intervals hold together with a confidence of 99 %.\n"
        "  detectable: the smallest change that so many rounds can detect.\n"
        "  crop/x/y: not measured, not in this commit\n"
        "  step/x/y: failed, ValueError: it broke\n"
    )
    assert _text(changes).startswith("mine against main: slower: decode/rgb/pillow\n")
    assert _text(changes[1:2]).startswith("mine against main: no measurable difference in 1 benchmark\n")
    assert _text(changes[2:]).startswith("mine against main: nothing was measured\n")


def test_a_row_that_varies_so_much_that_twice_the_time_would_not_be_seen_passes_no_gate(capsys):
    said = "2 times the time that the limit allows would not be seen in decode/rgb/pillow: raise --budget"
    wide, other = _change(1.0, 0.45, 1.9), _change(1.0, 0.55, 1.9, "read/image/open")
    assert f" The gate has no result: {said}" in " ".join(_text([wide, other], 0.05).split())
    assert "no result" not in _text([wide, other]) + _text([other], 0.05)
    assert (_status([wide, other], None), _status([other], 0.05), _status([wide, other], 0.05)) == (0, 0, 1)
    assert f"pipebench: the gate has no result: {said}" in capsys.readouterr().err


def test_the_markdown_is_inert():
    shown = layout.markdown(
        ab.parts(comparison.Comparison("m`ain", "mine", (comparison.Change("a|b", failed="<script>"),)))
    )
    assert "<script>" not in shown.replace("\\<", "") and "m\\`ain" in shown


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["HEAD", "HEAD", "--fail-above", "x"], 2, "not a percentage"),
        (["HEAD", "HEAD", "--head-env", "x"], 2, "NAME=VALUE"),
        (["HEAD", "nosuch"], 2, "no commit 'nosuch'"),
        (["HEAD", "HEAD", "--stage", "nosuch"], 2, "read/own/sample"),
    ],
)
def test_mistakes_are_answered_with_a_status_and_a_remedy(repo, arguments, status, said):
    done = repos.pipebench("ab", *arguments, cwd=repo)
    assert done.returncode == status
    assert said in done.stderr and "Traceback" not in done.stderr


def test_too_few_rounds_are_neither_a_difference_nor_none():
    few = comparison.Change("read/image/open", Judgement(Speedup(1.0, 0.1, 9.0, 0.0), 1, 0.99), 0.001, 0.001, 8)
    shown = _text([few])
    assert shown.splitlines()[0] == "mine against main: too few rounds to say whether anything changed"
    assert "confidence" not in shown and "raise --budget" in shown
    stopped = layout.text(ab.parts(comparison.Comparison("main", "mine", (few,), most_rounds=1)))
    assert "--rounds 1 stopped the run" in " ".join(stopped.split()) and "--budget" not in stopped
    row = next(line for line in shown.splitlines() if line.startswith("read/image/open"))
    assert "too few rounds" in row and "0.100" not in row and "9.000" not in row


def test_each_benchmark_first_gets_the_rounds_that_it_needs_and_then_those_that_vary_most_get_more():
    steady, varying, broken = (schedule.Row(name) for name in ("steady", "varying", "broken"))
    broken.failed = "it broke"
    needed = schedule.STEADY
    assert needed > comparison.rounds_needed(comparison.wanted_confidence(2))
    given = []
    for row in schedule.turns([steady, varying, broken], most_rounds=3 * needed):
        given.append(row.identity)
        row.add(((1.0, 1.0 if row is steady else 1.0 + len(row.rounds) % 5),))
    assert given[: 2 * needed] == ["steady", "varying"] * needed
    assert given[2 * needed : 2 * needed + 8] == ["steady", *["varying"] * 7]
    assert given.count("steady") == given.count("varying") == 3 * needed


@pytest.mark.parametrize(("may_be_later", "each"), [(False, 5), (True, 11)])
def test_without_a_budget_the_time_grows_to_what_a_judgement_needs(may_be_later, each, monkeypatch):
    """Two benchmarks need 11 rounds each; in the time there is, with 10 s for a round, each gets 5."""
    clock, said = [0.0], []

    def a_round(*_):
        clock[0] += 10
        return ((1.0, 1.0),), None

    monkeypatch.setattr(rounds, "_round", a_round)
    rows = [schedule.Row("one"), schedule.Row("two")]
    rounds._measure(rows, [], {}, 101.0, may_be_later, 1000, lambda done, of, what: said.append(what), lambda: clock[0])
    assert [len(row.rounds) for row in rows] == [each, each]
    assert said[-1] == "comparing for about " + ("4 min" if may_be_later else "2 min; a judgement needs --budget 240")


def test_a_benchmark_that_ends_the_process_of_its_side_passes_no_gate_in_what_is_saved(monkeypatch):
    """Its rounds so far would suffice."""

    def a_round(row, *_):
        if len(row.rounds) == 10:
            raise RunnerDied("the head process was killed by SIGKILL")
        return ((1.0, 1.0),), None

    monkeypatch.setattr(rounds, "_round", a_round)
    row = schedule.Row("bench/one")
    with pytest.raises(PipebenchError, match="killed by SIGKILL in bench/one"):
        rounds._measure([row], [], {}, 101.0, False, 1000, lambda *_: None, lambda: 0.0)
    assert comparison.Comparison("base", "head", tuple(rounds._changes([row])), 0.05).gate == comparison.NO_RESULT


def test_where_nothing_was_measured_no_empty_table_comes_before_the_error(capsys):
    found = comparison.Comparison("main", "mine", (comparison.Change("a/b/c"),))
    _deliver(found, "mine does not start", "table", None, None, sent=False)
    assert capsys.readouterr().out == ""
