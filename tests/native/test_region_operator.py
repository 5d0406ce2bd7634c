"""decode_and_crop as an operator of torch."""

import subprocess
import sys

import pytest
import torch
from test_region import BOX, BYTES

from pipebench.errors import SampleError
from pipebench.native import region


def test_it_is_a_torch_operator():
    operator = region.torch_operator()
    data = torch.frombuffer(bytearray(BYTES), dtype=torch.uint8)
    assert torch.equal(torch.ops.pipebench.decode_and_crop(data, *BOX), region.decode_and_crop(BYTES, BOX))
    assert torch.equal(operator(data, *BOX, 2), region.decode_and_crop(BYTES, BOX, 2))
    for scale in (1, 4):
        torch.library.opcheck(operator.default, (data, *BOX, scale))
    with pytest.raises(ValueError, match="is empty"):
        operator(data, 0, 0, 0, 5)
    with pytest.raises(SampleError, match="no bytes"):
        operator(data[:0], *BOX)


def test_the_operators_fake_knows_the_shape():
    from torch._subclasses.fake_tensor import FakeTensorMode

    operator = region.torch_operator()
    with FakeTensorMode() as mode:
        data = mode.from_tensor(torch.zeros(10, dtype=torch.uint8))
        for scale in region.SCALES:
            out = operator(data, *BOX, scale)
            assert tuple(out.shape) == (*region.scaled_size(BOX, scale), 3) and out.dtype == torch.uint8


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    ["import torch; import pipebench.region", "import pipebench; pipebench.decode_and_crop(data, (0, 0, 2, 2))"],
)
def test_the_operator_is_there_without_being_asked_for(code):
    script = f"import sys; data = sys.stdin.buffer.read(); {code}; import torch; torch.ops.pipebench.decode_and_crop"
    subprocess.run([sys.executable, "-c", script], input=BYTES, capture_output=True, timeout=120, check=True)
