"""Several ranks take each order at the same batch, and their windows are the same batches."""

import dataclasses
import types

import pytest
from fakes import Loader, Script, World

from pipebench.advise.command import AdviseOptions, _Reporter
from pipebench.advise.live_run import CommandRun, LiveRun
from pipebench.advise.trial import in_batches
from pipebench.remedies.seen import Seen
from pipebench.render.programs import ends
from pipebench.watch.launch.exits import Exit
from pipebench.watch.launch.supervisor import Ended, Lifetime
from pipebench.watch.record.lines import LoaderFound, Moment, ProcessStarted
from pipebench.watch.record.orders import Order, give
from pipebench.watch.record.program_lines import ProgramStarted, RankFound
from pipebench.watch.record.record_file import encoded
from pipebench.watch.record.trial_lines import LoaderMade, TrialFailed, TrialWindow
from pipebench.watch.trial.in_step import AHEAD, InStep

NO_PROCESS = 1 << 22  # Linux gives no process this number or a higher one
TRIED = Order(1, 3, {"num_workers": 2}, window=10)


@pytest.fixture
def ranks(tmp_path):
    """Two ranks, and what gives an order to rank 0."""
    own = [tmp_path / str(number) for number in (0, 1)]
    for one in own:
        one.mkdir()
    both = [InStep(str(one), str(tmp_path), RankFound(rank, 2), 0, lambda: 0) for rank, one in enumerate(own)]
    return (*both, lambda order: give(str(own[0]), order))


def _got(rank, batches, loader=3):
    for _ in range(batches):
        rank.came(loader)


def test_all_ranks_take_an_order_at_one_batch_a_few_after_that_of_rank_0(ranks):
    first, second, order = ranks
    _got(first, 5)
    _got(second, 4)
    order(TRIED)
    assert second.latest() is None  # rank 0 has not handed it on
    taken = []
    for number in range(AHEAD + 1):
        taken.append((number, first.latest(), second.latest()))
        _got(first, 1)
        _got(second, 1)
    at = 5 + AHEAD
    assert [number for number, one, _ in taken if one] == [AHEAD]
    assert all(one is None for _, _, one in taken)  # it has had one batch less
    assert second.latest() == dataclasses.replace(TRIED, at=at)
    assert first.latest() is None and second.latest() is None


def test_only_batches_of_the_loader_of_an_order_count_and_all_do_if_it_names_none(ranks):
    first, second, order = ranks
    order(TRIED)
    assert first.latest() is None
    for rank in (first, second):
        _got(rank, AHEAD - 1)
    _got(second, 50, loader=4)  # a validation that only this rank makes
    _got(second, 5, loader=None)
    assert first.latest() is None and second.latest() is None
    order(Order(2))
    assert first.latest() is None
    assert second.latest() == Order(2)  # it tries nothing, so a rank may take it late


def test_a_rank_that_has_gone_further_does_not_try_it_and_says_so_but_leaves(ranks):
    first, second, order = ranks
    order(TRIED)
    first.latest()
    _got(second, AHEAD + 1)
    assert second.latest() == Order(1, 3, problem="ranks-apart")
    order(Order(2, 3))
    first.latest()
    _got(second, AHEAD)
    assert second.latest() == Order(2, 3)
    order(Order(3, 3, leave=True))
    first.latest()
    _got(second, AHEAD)
    assert second.latest().leave


def test_a_later_job_at_the_same_address_takes_no_order_of_an_earlier_one(tmp_path):
    """`sh -c "torchrun a.py; torchrun b.py"`: the last order of the first job stands in the file of both."""
    now = 100
    own = [tmp_path / name for name in ("a", "b")]
    for one in own:
        one.mkdir()
    earlier = InStep(str(own[0]), str(tmp_path), RankFound(0, 2, 0, "host:1"), 100, lambda: now)
    give(str(own[0]), Order(1, leave=True))
    earlier.latest()
    now = 200
    later, beside = (
        InStep(str(own[1]), str(tmp_path), RankFound(rank, 2, rank, "host:1"), now, lambda: now) for rank in (0, 1)
    )
    for rank in (later, beside):
        _got(rank, AHEAD)
        assert rank.latest() is None
    give(str(own[1]), Order(1, leave=True))
    assert later.latest() is None  # it stands in the file now, for a batch that is still to come
    _got(beside, AHEAD)
    assert beside.latest().leave


class _Rank(Script):
    """A rank of a fake script whose batches cost `cost_s` more than those of rank 0."""

    def __init__(self, tmp_path, monkeypatch, rank, settings):
        own = tmp_path / str(rank)
        own.mkdir()
        super().__init__(own, monkeypatch, Loader(World(), [[one] for one in range(300)], cost_s=1.0 + rank))
        self.trial.orders = InStep(str(own), str(tmp_path), RankFound(rank, 2), 0)
        self.trial.number_of = lambda loader: 1
        self.trial._alone = False


@pytest.mark.parametrize("settings", [{"num_workers": 4}, {"num_workers": 0}, {"prefetch_factor": 5}], ids=str)
def test_windows_of_ranks_with_other_speeds_are_the_same_batches(tmp_path, monkeypatch, settings):
    both = [_Rank(tmp_path, monkeypatch, rank, settings) for rank in (0, 1)]
    had = {}

    def then(number, script):
        if number == 20 and script is both[0]:
            script.order(1, settings, window=17)

    for rank, script in enumerate(both):  # rank 0 first: it hands the order on
        assert script.one_pass(then=lambda number, script=script: then(number, script)) == [[n] for n in range(300)]
        had[rank] = (
            [(one.pair, one.changed, one.taken) for one in script.windows],
            [name for name, _ in script.world.made],
        )
    assert had[0] == had[1]
    windows, makers = had[0]
    assert len(windows) >= 3 and all(taken >= 17 for _, _, taken in windows)
    assert makers[: 20 + AHEAD] == ["own"] * (20 + AHEAD) and set(makers) == {"own", "changed"}


def test_a_rank_that_cannot_try_keeps_its_own_loader(tmp_path, monkeypatch):
    both = [_Rank(tmp_path, monkeypatch, rank, {}) for rank in (0, 1)]
    both[0].order(1, {"num_workers": 4}, window=17)
    both[0].one_pass(most=1)
    late = both[1]
    late.trial.orders.came(1)
    late.one_pass(then=lambda number: None)
    assert late.windows or late.failures
    later = _Rank(tmp_path, monkeypatch, 2, {})
    _got(later.trial.orders, AHEAD + 1, loader=1)
    later.one_pass()
    assert [one.problem for one in later.failures] == ["ranks-apart"] and later.makers() == {"own"}


def _made(**more):
    return LoaderMade(1, "train.py", 3, 3, 0, 9, "main", 100, {"num_workers": 1}, **more)


class _Command(CommandRun):
    """A command whose programs have written these lines, by the names of their folders."""

    def __init__(self, folder, written):
        super().__init__(folder, ["torchrun"])
        for name in written:
            (folder / f"{name}-0").mkdir(parents=True)
        self.written = {folder / f"{name}-0": lines for name, lines in written.items()}

    def lines(self):
        for folder in self.written:
            self._tails[folder] = types.SimpleNamespace(new=lambda folder=folder: self.written.pop(folder, []))
        return super().lines()


def test_rank_0_is_asked_and_what_another_rank_cannot_try_nobody_can(tmp_path):
    failed = TrialFailed(1, "ranks-apart")
    run = _Command(tmp_path, {10: [], 20: [RankFound(1, 2), _made(), failed], 30: [RankFound(0, 2), _made()]})
    assert run.lines() == [RankFound(0, 2), failed, _made()]
    assert run.ranks == 2
    run.order(TRIED)
    assert (tmp_path / "30-0" / "order").exists() and not (tmp_path / "20-0" / "order").exists()
    assert run.wait(0.0)
    run.written = {tmp_path / "20-0": [TrialWindow(1, 0, False, 1.0, 9)], tmp_path / "30-0": [Moment("end", 1)]}
    assert run.lines() == [Moment("end", 1)]
    assert not run.wait(0.0)


@pytest.mark.parametrize(("more", "refusals"), [({"others": 1}, [""]), ({"batches": 9}, ["ranks-differ"])])
def test_a_rank_may_have_other_loaders_besides(tmp_path, more, refusals):
    """Often only rank 0 has one for validation."""
    other = dataclasses.replace(_made(), **more)
    run = _Command(tmp_path, {30: [RankFound(0, 2), _made()], 20: [RankFound(1, 2), other]})
    assert [one.refusal for one in run.lines() if isinstance(one, LoaderMade)] == refusals


def _records(folder, pid, *lines):
    own = folder / f"{pid}-0"
    own.mkdir()
    started = ProcessStarted(pid, "script", 0), ProgramStarted(0, 1, ["ddp.py", "3"])
    (own / f"{pid}-0.spans").write_bytes(encoded(*started, LoaderFound(1, "Photos", 0, 8, "", None), *lines))


def test_how_each_rank_ended_is_known_and_the_first_is_said_first(tmp_path):
    first, second, other = (NO_PROCESS + number for number in (1, 2, 3))
    _records(tmp_path, second, RankFound(0, 2))
    _records(tmp_path, first, RankFound(1, 2))
    _records(tmp_path, other, Moment("end", 7))
    run = CommandRun(tmp_path, ["torchrun", "ddp.py", "3"])
    run.programs.take_new()
    run.programs.exits.found.update({first: Exit(2_000_000_000, -9), second: Exit(2_100_000_000, -15)})
    ended = Ended(1, None, Lifetime(0, 3_000_000_000), pid=NO_PROCESS)
    cut = run.cut_short(ended)
    assert {(one.rank, one.exit_status) for one in cut} == {(0, -15), (1, -9)}
    assert not any(one.watched or one.steps for one in cut)
    said = list(ends(cut))
    assert said[0].startswith(f"ddp.py 3 (rank 1, process {first}) was killed by SIGKILL after")
    assert "(rank 0, process" in said[1] and "was ended by SIGTERM, 100 ms after rank 1 was gone" in said[1]
    assert run.cut_short(dataclasses.replace(ended, status=0)) == ()
    assert run.cut_short(dataclasses.replace(ended, interrupted=True)) == ()
    assert run.cut_short(None) == ()  # the programs go on


def test_the_figures_are_those_of_the_program_that_is_asked(tmp_path):
    """A second program iterates a loader, too. Ranks of one training are one job."""
    first, second = (NO_PROCESS + number for number in (1, 2))
    _records(tmp_path, first)
    _records(tmp_path, second, LoaderFound(2, "Tables", 0, 8, "", None))
    run = CommandRun(tmp_path, ["sh", "both.sh"])
    run.programs.take_new()
    for asked, datasets in ((first, ["Photos"]), (second, ["Photos", "Tables"])):
        run._main = tmp_path / f"{asked}-0"
        assert [one.dataset for one in run.watched().loaders] == datasets


def test_a_script_that_a_signal_ended_was_cut_short(tmp_path):
    run = LiveRun(tmp_path, ["ddp.py", "3"])
    ended = Ended(137, 9, Lifetime(0, 3_000_000_000), pid=NO_PROCESS)
    assert list(ends(run.cut_short(ended))) == [
        f"ddp.py 3 (process {NO_PROCESS}) was killed by SIGKILL after 3.00 s: its records have no end."
    ]
    failed = dataclasses.replace(ended, signal=None, status=2)
    assert list(ends(run.cut_short(failed))) == [f"ddp.py 3 (process {NO_PROCESS}) failed: exit status 2."]
    ran_well = dataclasses.replace(failed, status=0)
    for other in (None, ran_well, dataclasses.replace(ended, interrupted=True)):
        assert run.cut_short(other) == ()


def test_ranks_with_other_loaders_are_refused(tmp_path):
    other = dataclasses.replace(_made(), settings={"num_workers": 2})
    run = _Command(tmp_path, {20: [RankFound(1, 2), other], 30: [RankFound(0, 2), _made()]})
    assert run.lines()[-1] == _made(refusal="ranks-differ")
    assert run.leave_together(1)  # it is the same loader, with other settings


def test_a_loader_is_tried_once_all_ranks_have_it_by_its_number(tmp_path):
    second = dataclasses.replace(_made(), loader=2, line=9)
    run = _Command(tmp_path, {20: [RankFound(1, 2), _made()], 30: [RankFound(0, 2), _made(), second]})
    refused = dataclasses.replace(second, refusal="ranks-differ")
    assert run.lines() == [RankFound(0, 2), _made(), refused]
    assert run.leave_together(1) and not run.leave_together(2)
    run.written = {tmp_path / "20-0": [second]}
    assert run.lines() == [second] and run.leave_together(2)
    assert run.lines() == []


def test_what_rank_0_alone_iterates_first_gives_its_loaders_other_numbers(tmp_path):
    """Rank 0 would try its second loader alone, and leave alone."""
    validation, training = _made(), dataclasses.replace(_made(), loader=2, line=9)
    run = _Command(
        tmp_path,
        {20: [RankFound(1, 2), dataclasses.replace(training, loader=1)], 30: [RankFound(0, 2), validation, training]},
    )
    assert [one.refusal for one in run.lines()[1:]] == ["ranks-differ"] * 2
    assert not any(map(run.leave_together, (0, 1, 2)))


@pytest.mark.parametrize("together", [True, False])
def test_ranks_that_would_not_leave_together_train_on(together, tmp_path, monkeypatch, capsys):
    run = LiveRun(tmp_path, ["ddp.py"])
    orders = []
    monkeypatch.setattr(run, "order", orders.append)
    monkeypatch.setattr(run, "leave_together", lambda loader: together)
    conductor = types.SimpleNamespace(seen=types.SimpleNamespace(loader=types.SimpleNamespace(loader=2)))
    reporter = _Reporter(run, conductor, AdviseOptions(stop=True), None, None)
    monkeypatch.setattr(reporter, "_report", lambda ended: None)
    reporter.report()
    assert [(one.loader, one.leave) for one in orders] == [(2, True)] * together
    said = "" if together else "pipebench: not all ranks would leave before the same batch. The training goes on.\n"
    assert capsys.readouterr().err == said


def test_another_program_of_the_command_is_no_rank(tmp_path):
    run = _Command(tmp_path, {20: [_made()], 30: [dataclasses.replace(_made(), line=9), TrialFailed(1, "x")]})
    assert run.lines() == [_made()]
    assert run.ranks == 1


def test_ranks_share_cores_and_memory_and_have_windows_of_batches():
    loader = types.SimpleNamespace(s_per_iteration=0.25, loader=1, passes=1)
    watched = types.SimpleNamespace(usable_cores=8.0, workers=(), host=None)
    two, one = (Seen(watched, loader, {}, 100, ranks=ranks) for ranks in (2, 1))
    assert (two.cores, one.cores) == (4.0, 8.0)
    for own, each in ((4.0, 4.0), (16.0, 8.0)):  # a rank on cores of its own, and on all that the two share
        rank = types.SimpleNamespace(usable_cores=own, host=types.SimpleNamespace(shared_cores=16.0))
        assert Seen(rank, loader, {}, 100, ranks=2).cores == each
    assert (in_batches(two, 1.1), in_batches(one, 1.1)) == (5, 0)
    assert (two.processes(2), one.processes(2)) == ("+2 processes a rank", "+2 processes")
