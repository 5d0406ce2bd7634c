"""The programs of a watched command: every process of it that loaded data or trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pipebench.results.ranks import LastStep, Ranks, StepOfRank
from pipebench.results.watched import WatchResult


@dataclass(frozen=True)
class Program:
    """One process of a command.

    `name` is its script with its arguments. It began `began_s` after the first program, and lived for `wall_s`. `rank`
    is its number among `ranks` processes that train together (None: it trains alone), and `local_rank` its number on
    its machine. `meeting` is where these find each other ("": not known). `cores` are those on which a rank may run
    (none: not known).

    `ended` is "ended", "failed" (an exception that nothing caught: `error`), "cut" (its records have no end: it was
    killed, or left by `os._exit`) or "running" (it lived on when the command had ended).

    Its process exited `left_s` after the first program began (None: not seen), with `exit_status`: -n if signal n ended
    it (None: not known, or 0). `memory_ran_out`: the kernel may have killed it, because it counted lack of memory.

    `early`: it is a rank that reached its end while another one was still in its training iterations, which then
    failed.

    `watched` are its figures; None: they are those of `Report.watched`. Of a rank, `steps` are those that were kept
    (none in a merged report), and `last_step` says when it made the last one (None: not known). Its first call of
    `init_process_group`, in which it waits for the other ranks, took `joined_s` (None: not known).
    `host` is its machine in a report that was merged from several ("": that of the report), and `report` the number of
    the report that it is from: each has a first program of its own, so moments of two reports cannot be compared.
    """

    pid: int
    name: str
    began_s: float
    wall_s: float
    ended: Literal["ended", "failed", "cut", "running"]
    error: str = ""
    rank: int | None = None
    ranks: int | None = None
    local_rank: int | None = None
    watched: WatchResult | None = None
    steps: tuple[StepOfRank, ...] = ()
    host: str = ""
    left_s: float | None = None
    exit_status: int | None = None
    memory_ran_out: bool = False
    report: int = 0
    meeting: str = ""
    cores: tuple[int, ...] = ()
    last_step: LastStep | None = None
    early: bool = False
    joined_s: float | None = None


@dataclass(frozen=True)
class WatchedCommand:
    """What the processes of a command did: `programs` are those that loaded data or trained, in their order of begin.

    `shown` is the place in `programs` of the one whose figures `Report.watched` has (None: there is no program).
    `others` counts the Python processes that imported torch and did neither; `running` of them lived on when the
    command had ended. Two kinds could not record themselves: `hidden` ignore PYTHONPATH, and in `lost` our start-up
    file did not run, because they were started with another PYTHONPATH, find another `sitecustomize` first, or are of
    an old Python. Both are command lines, shortened. `torchless` are the Pythons in which processes looked for torch,
    and have none. `status` is the exit status.

    `ranks` compares the ranks that train together with the program that is shown (None: it trains alone). `attempt`
    counts how often Slurm had put the job into its queue again before. Of a merged report, `earlier` compares the ranks
    of each attempt before the last.
    """

    command: tuple[str, ...]
    status: int
    programs: tuple[Program, ...] = ()
    shown: int | None = None
    others: int = 0
    hidden: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    ranks: Ranks | None = None
    attempt: int = 0
    earlier: tuple[Ranks, ...] = ()
    running: int = 0
    torchless: tuple[str, ...] = ()
