"""Counts the errors that a `handler` of a webdataset pipeline hides: what failed is then missing from the batches.

A stage gives an exception to its handler. If the handler returns, the stage goes on without that sample or shard, or
ends. A copy of the stage runs with a handler that calls the script's own one and counts.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

from pipebench.watch.record.exclusive_time import local
from pipebench.watch.record.patches import unseen
from pipebench.watch.record.recording import told

_LONGEST = 200  # characters of a name, and of what is said


def counted(handler: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Wraps a handler. An exception from which it returns is hidden, and counts in the timer of this thread."""

    @unseen
    def counting(error: Any) -> Any:
        began = perf_counter_ns()
        answer = handler(error)
        timer = local.timer
        if timer is not None and isinstance(error, BaseException):
            spent, before = perf_counter_ns() - began, timer.hidden
            name, text = before[2:] if before.text else (_name(error)[:_LONGEST], told(error)[:_LONGEST])
            timer.hidden = before._replace(
                errors=before.errors + 1, spent_ns=before.spent_ns + spent, name=name, text=text
            )
        return answer

    return counting


def counting_function(stage: Any) -> Any:
    """A copy of a webdataset function with its arguments that counts; `stage` itself if it has no handler."""
    try:
        bound = inspect.signature(stage.f).bind(None, *stage.args, **stage.kw)
    except (TypeError, ValueError):  # the script will be told so when it runs
        return stage
    if not callable(bound.arguments.get("handler")):
        return stage
    bound.arguments["handler"] = counted(bound.arguments["handler"])
    return type(stage)(stage.f, *bound.args[1:], **bound.kwargs)


def counting_object(stage: Any) -> Any:
    """A copy of an object that opens shards, such as `FileCache`, that counts; `stage` itself if it has no handler."""
    if hasattr(stage, "__iter__") or not callable(getattr(stage, "__dict__", {}).get("handler")):
        return stage
    found = copy.copy(stage)
    found.handler = counted(stage.handler)
    return found


def _name(error: BaseException) -> str:
    """The file, the address or the key at which the stage was; "" if it does not say.

    webdataset does not put it into the exception, so it is read from the variables of the function that caught it.
    """
    place = error.__traceback__
    held = place.tb_frame.f_locals if place is not None else {}
    sample = held.get("sample")
    key = sample.get("__key__") if isinstance(sample, dict) else None
    return next((one for one in (held.get("fname"), held.get("url"), key) if isinstance(one, str)), "")
