"""Pictures are tested on the results that the tests of text are made of."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
