"""The asv suite: one short file a stage over pipebench's registry.

torch is imported here, so that asv's fork server imports it once and not in every benchmark's process. Nothing may run
a multi-threaded operation at import: a forked process would wait for threads that it does not have.
"""

import torch  # noqa: F401  # see above
import torchvision.transforms.v2  # noqa: F401
