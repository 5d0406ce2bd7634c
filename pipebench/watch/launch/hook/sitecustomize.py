"""Python runs this file at its start, in every process that a watched command starts. It makes the process ready.

A watched command has this folder in front of PYTHONPATH. Any Python may find it there, so the text is one that all
versions read. Afterwards nothing of it is left to see, and the user's own `sitecustomize` runs as it would without us.
"""

import os
import sys
import time

if sys.version_info >= (3, 11) and os.environ.get("PIPEBENCH_WATCH"):
    try:
        import pipebench_hook  # type: ignore[import-not-found]

        del sys.modules["pipebench_hook"]
        pipebench_hook.arm(time.perf_counter_ns())
    except Exception:
        sys.stderr.write("pipebench: a Python process is not watched (%r)\n" % (sys.exc_info()[1],))  # noqa: UP031

_here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [_one for _one in sys.path if _one != _here]
sys.path_importer_cache.pop(_here, None)
sys.modules.pop("sitecustomize", None)

import sitecustomize  # type: ignore[import-not-found]  # noqa: E402, F401  # the user's; `site` expects the error without one
