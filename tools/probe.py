"""Checks that torch and torchvision match, and says what to do if they do not."""

import sys

REMEDY = """
Install both in one go, so that the resolver picks a pair: pip install --upgrade torch torchvision
A CPU-only torch beside a torchvision built for another torch gives `operator torchvision::nms does not exist`.
"""


def main() -> int:
    try:
        import torch
        import torchvision

        torchvision.ops.nms(torch.zeros(1, 4), torch.zeros(1), 0.5)
    except (ImportError, RuntimeError, AttributeError) as error:
        sys.stderr.write(f"torch and torchvision do not match: {error}\n{REMEDY}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
