"""The Newton matrices of rank-one rows equal those of the expanded rows, however they are sliced."""

import pytest
import torch

from mini_attn import svm
from mini_attn.svm import rows


@pytest.mark.parametrize("slices", [1, 7, 128])
@pytest.mark.parametrize(("m", "d1", "d2"), [(9, 4, 3), (1, 1, 1), (0, 2, 5), (5, 3, 1)])
def test_both_matrices(monkeypatch, slices, m, d1, d2):
    monkeypatch.setattr(rows, "SLICE", slices)
    generator = torch.Generator().manual_seed(3)
    a, b, entries, weights = (
        torch.randn(2, *shape, generator=generator, dtype=torch.float64)
        for shape in ((m, d1), (m, d2), (d1, d2), (m,))
    )
    problem = svm.HardMarginProblem(a, b, torch.ones(2, m, dtype=torch.float64))
    A = torch.einsum("bmi,bmj->bmij", a, b).flatten(2)
    torch.testing.assert_close(rows.gram(problem, entries), A @ (entries.flatten(1)[..., None] * A.mT))
    torch.testing.assert_close(rows.normal_matrix(problem, weights), A.mT @ (weights[..., None] * A))
