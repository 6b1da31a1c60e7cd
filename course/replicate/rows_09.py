"""The first paper's toy of head and attention together."""

import torch

from course.replicate.rows import Estimate, Row, exact
from mini_attn import data, svm


def half_squared(lift: float) -> Estimate:
    """||p||^2 / 2 for the Att-SVM with a right-hand side 1 for the head's support sequences, else 0."""
    tokens = data.toy_joint(lift)
    second = torch.ones(3, dtype=torch.int64)
    v_mm = svm.solve(svm.label_problem(tokens.X[:, 1], tokens.y)).value
    held = tokens.y * (tokens.X[:, 1] @ v_mm) < 1 + 1e-6
    return exact(
        round(float(svm.solve(svm.token_problem(tokens.keys, second, held.double())).objective ** 2 / 2), 4)
    )


ROWS = [
    Row(
        "09.tight",
        "max-margin",
        "toy of head and attention together, all sequences at the label margin: half the squared length of p",
        0.9444,
        5e-5,
        lambda: half_squared(0.0),
        "9.3",
    ),
    Row(
        "09.relaxed",
        "max-margin",
        "the same, sequence 3 beyond the label margin",
        0.5,
        5e-5,
        lambda: half_squared(0.5),
        "9.3",
    ),
]
