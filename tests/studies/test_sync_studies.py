"""The steps of the studies of sync points: they compute the same, and their sync points go to none."""

import pytest
import torch
from examining import no_device, nothing_stays_patched, total  # noqa: F401


def test_study_losses_agree_and_lose_their_sync_points():
    from pipebench.studies import sync_points

    labels = torch.randint(-1, 10, (2, 16, 16))
    for there in (labels, torch.full_like(labels, 3), torch.full_like(labels, 9)):
        results = []
        for step in sync_points.STEPS:
            scores = torch.randn(2, 10, 16, 16, generator=torch.Generator().manual_seed(1)).requires_grad_()
            loss = step.loss(scores, there)
            loss.backward()
            results.append((loss.detach(), scores.grad))
        for (loss, grad), (loss_before, grad_before) in zip(results[1:], results, strict=False):
            # Sums of a thousand float32 terms in another order.
            torch.testing.assert_close(loss, loss_before, rtol=1e-5, atol=1e-6)
            torch.testing.assert_close(grad, grad_before, rtol=1e-4, atol=1e-7)
    assert [total(step.build(), iterations=1) for step in sync_points.STEPS] == [5, 4, 3, 0]


@pytest.mark.slow
def test_study_metrics_agree_and_lose_their_sync_points():
    pytest.importorskip("torchmetrics")
    from pipebench.studies import metrics

    steps = [step.build() for step in metrics.STEPS]
    assert [total(step, iterations=1) for step in steps] == [8, 7, 3, 2, 0]
    results = [step.results() for step in steps]
    for after, before in zip(results[1:], results, strict=False):
        assert set(after) == {"accuracy", "precision", "recall", "f1", "loss", "seconds"}
        assert {**after, "seconds": 0} == pytest.approx({**before, "seconds": 0}, rel=1e-4)
