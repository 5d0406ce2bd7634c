"""One report of each command, from the tests of faults."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "faults"))
