"""Python runs this file at its start, in every process that a watched command starts. It makes the process ready.

A watched command has this folder in front of PYTHONPATH. Any Python may find it there, so the text is one that all
versions read. Afterwards nothing of it is left to see, and the user's own `sitecustomize` runs as it would without us.
"""

import os
import sys
import time

_here = os.path.dirname(os.path.abspath(__file__))
_empty = os.path.join(_here, "")  # `pipebench_hook.with_hook` says what it stands for
_own = [_one for _one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if _one != _here]
_stands = os.getcwd() if _empty in _own and len(_own) > 1 else None

if sys.version_info >= (3, 11) and os.environ.get("PIPEBENCH_WATCH"):
    try:
        import pipebench_hook  # type: ignore[import-not-found]

        del sys.modules["pipebench_hook"]
        pipebench_hook.arm(time.perf_counter_ns())
    except Exception:
        sys.stderr.write("pipebench: a Python process is not watched (%r)\n" % (sys.exc_info()[1],))  # noqa: UP031

_path = [_stands if _one == _here else _one for _one in sys.path]
_path = [_one for _at, _one in enumerate(_path) if _one != _stands or _path.index(_one) == _at]
sys.path[:] = [_one for _one in _path if _one is not None]
sys.path_importer_cache.pop(_here, None)
sys.modules.pop("sitecustomize", None)

import sitecustomize  # type: ignore[import-not-found]  # noqa: E402, F401  # the user's; `site` expects the error without one
