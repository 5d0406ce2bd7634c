"""Operations on tensors in place of which torch has one that does less, by their text."""

from __future__ import annotations

import pytest
from titled import title_of as _title

FIRST, PAIRS = "the first k without a full sort", "distances of all pairs in one operation"
ONE_HOT, SOLVED = "rows by their number, in place of one-hot vectors", "a system solved, without an inverse"


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("return dist.argsort(dim=-1)[:, :, :k]", FIRST),
        ("near = torch.argsort(dist, dim=-1)[..., 1:k + 1]", FIRST),
        ("near = torch.cdist(x, x).sort(dim=-1).indices[:, :, : self.k]", FIRST),
        ("near = torch.sort(dist, -1)[1][:, 0:8]", FIRST),
        ("best = scores.argsort()[-20:]", FIRST),
        ("d = ((a.unsqueeze(1) - b.unsqueeze(0)) ** 2).sum(-1)", PAIRS),
        ("d = (x[:, :, None] - x[:, None]).pow(2).sum(-1)", PAIRS),
        ("d = (x[:, None, :] - y[None, :, :]).norm(dim=-1)", PAIRS),
        ("d = torch.norm(x[:, None] - self.codes[None], dim=-1)", PAIRS),
        ("e = F.one_hot(ids, self.words).float() @ self.table", ONE_HOT),
        ("h = self.proj(F.one_hot(ids, n).float())", ONE_HOT),
        ("h = torch.matmul(one_hot(ids, n).to(w.dtype), w)", ONE_HOT),
        ("y = torch.linalg.inv(a) @ b", SOLVED),
        ("y = torch.inverse(a + self.eye(n)) @ b", SOLVED),
    ],
)
def test_it_is_known(text: str, title: str) -> None:
    assert _title(text) == title


@pytest.mark.parametrize(
    "text",
    [
        "y = x[order.argsort()]",
        "order = dist.argsort(dim=-1)",
        "values, order = dist.sort(-1)",
        "order = dist.argsort(dim=-1)[:, :, :]",
        "near = sorted(x)[:3]",  # of a list
        "d = (p - t).pow(2).mean()",
        "rel = x[:, None] - x[None]",  # the differences are kept
        "loss = (q.unsqueeze(1) - p).pow(2).sum(-1)",  # of one with many
        "hot = F.one_hot(ids, n)",
        "loss = soft(logits, F.one_hot(y, n))",
        "y = torch.linalg.inv(a)",
        "y = self.head(x)",
    ],
)
def test_it_may_be_right(text: str) -> None:
    assert _title(text) is None


@pytest.mark.parametrize(
    ("below", "title"),
    [
        (["return order[:, :, :k]"], FIRST),
        (["a = order[:, :k]", "b = order[:, -k:]"], FIRST),
        (["return order[:, :, :k], order"], None),
        (["keep = order[:, k]"], None),
        (["return reordered[:, :k]"], None),
        ([], None),
    ],
)
def test_what_a_sort_gives_may_be_cut_later(below: list[str], title: str | None) -> None:
    for text in ("order = dist.argsort(dim=-1)", "_, order = torch.sort(dist, -1)"):
        assert _title(text, below=below) == title
