"""The shortest step back to the rows, and what contradictions by little become."""

import torch

from mini_attn import svm
from mini_attn.svm.repair import repaired


def problem(a, r, equality=None):
    a = torch.tensor([a], dtype=torch.float64)
    equality = None if equality is None else torch.tensor([equality])
    return svm.HardMarginProblem(
        a, torch.ones_like(a[..., :1]), torch.tensor([r], dtype=torch.float64), equality
    )


def test_rows_are_met_at_the_least_cost():
    W = torch.tensor([[[0.9], [2.0]]], dtype=torch.float64)
    moved, rays = repaired(problem([[1.0, 0.0], [0.0, 1.0]], [1.0, 1.0]), W)
    torch.testing.assert_close(moved, torch.tensor([[[1.0], [2.0]]], dtype=torch.float64))
    assert moved[0, 0, 0] >= 1.0
    assert not rays.any()


def test_a_row_missed_by_little_is_met_to_its_own_size():
    rows = problem([[1.0, 0.0], [0.6, -0.8]], [1.0, 1e-9])
    W = torch.tensor([[[1.0], [0.75 + 1e-8]]], dtype=torch.float64)
    moved, _ = repaired(rows, W)
    assert (rows.forward(moved) >= rows.r * (1 - 1e-6)).all()


def test_equalities_are_met_from_both_sides():
    rows = problem([[1.0, 0.0], [0.0, 1.0]], [1.0, -1.0], [True, True])
    moved, _ = repaired(rows, torch.tensor([[[1.1], [-1.1]]], dtype=torch.float64))
    torch.testing.assert_close(rows.forward(moved), rows.r)


def test_what_contradicts_itself_by_little_gives_a_ray():
    rows = problem([[1.0, 0.0], [-1.0, 0.0]], [1.0, -1.0 + 1e-9])
    _, rays = repaired(rows, torch.tensor([[[1.0], [0.0]]], dtype=torch.float64))
    assert (rays > 0).all()
    assert rows.adjoint(rays).norm() < 1e-12 * rays.norm()


def test_nothing_is_done_where_nothing_is_missing():
    W = torch.tensor([[[2.0], [2.0]]], dtype=torch.float64)
    moved, _ = repaired(problem([[1.0, 0.0], [0.0, 1.0]], [1.0, 1.0]), W)
    torch.testing.assert_close(moved, W)
