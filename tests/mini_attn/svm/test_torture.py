"""Problems that are hard on solvers: no answer may be wrong, whatever its neighbours and order of rows."""

import math
import pickle
from collections import Counter

import numpy as np
import pytest
import torch
from families import FAMILIES, P, stack
from hypothesis import given, settings
from hypothesis import strategies as st
from judge import default_tol
from torture import NORMS, compare, examine, outcome, unlike

from mini_attn import svm

pytestmark = pytest.mark.slow
few = settings(derandomize=True, max_examples=40, deadline=None)


def t(rows):
    return torch.tensor(rows, dtype=torch.float64)


def faults(problem, norm, strict=False):
    """What is wrong with the answers, and their statuses."""
    answers = examine(problem, norm, strict)
    wrong = [answer for answer in answers if outcome(*answer) in ("wrong", "crashed")]
    return wrong, [status for status, _ in answers]


def alone(a, b, r, equality=None):
    """A batch of one."""
    equality = None if equality is None else torch.tensor([equality])
    return P(t([a]), None if b is None else t([b]), t([r]), equality)


LONG = (
    "near-parallel",
    "thin margins",
    "float32",
    "wide rows",
    "mixed",
    "mixtures",
)  # W up to 1e12 times what a row asks


@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "many rows"])
def test_no_answer_is_wrong(family):
    norms, turn = list(NORMS), list(FAMILIES).index(family)
    stopped, exponents = Counter(), [norms[1 + (3 * turn + i) % 8] for i in range(3)]
    for norm in ("fro", *exponents):
        for seed in range(3 if norm == "fro" else 1):
            batch = FAMILIES[family](np.random.default_rng([seed, norms.index(norm)]), 8)
            wrong, statuses = faults(batch.problem, norm, batch.strict)
            assert not wrong, norm
            stopped[norm == "fro"] += statuses.count("stopped")
    assert stopped[True] <= 1  # each of 24
    assert stopped[False] <= (1 if family not in LONG else 12)


entries = st.integers(-3, 3)


@few
@given(st.data())
def test_whole_numbers_agree_with_rational_arithmetic(data):
    m, d1, d2 = data.draw(st.integers(0, 6)), data.draw(st.integers(1, 3)), data.draw(st.integers(0, 2))
    numbers = data.draw(st.lists(entries, min_size=m * (d1 + d2 + 2), max_size=m * (d1 + d2 + 2)))
    rows = t(numbers).reshape(1, m, d1 + d2 + 2)
    equality = (rows[..., -1] > 2) if data.draw(st.booleans()) else None
    b = rows[..., d1 : d1 + d2] if d2 else None
    problem = P(rows[..., :d1], b, rows[..., -2], equality)
    norm = data.draw(st.sampled_from(list(NORMS)))
    wrong, statuses = faults(problem, norm, strict=True)
    assert not wrong
    assert statuses[0] in ("optimal", "infeasible")


def medley(seed, each):
    """Random, degenerate, contradictory, badly scaled and near-parallel problems in one batch."""
    rng = np.random.default_rng(seed)
    names = [name for name in FAMILIES if name not in ("mixed", "many rows", "float32")]
    return stack([FAMILIES[name](rng, each).problem for name in names])


@pytest.mark.parametrize("norm", NORMS)
def test_neighbours_change_nothing(norm):
    problem = medley(1, each=3 if norm == "fro" else 1)
    assert not [(k, *answer) for k, answer in enumerate(compare(problem, norm)) if answer[1]]


@pytest.mark.parametrize("norm", NORMS)
def test_the_order_of_rows_changes_nothing(norm):
    problem = medley(2, each=3 if norm == "fro" else 1)
    order = torch.randperm(problem.r.shape[1], generator=torch.Generator().manual_seed(0))
    turned = P(*(x[:, order] for x in (problem.a, problem.b, problem.r, problem.equality)))
    one, other = svm.solve(problem, norm, throw=False), svm.solve(turned, norm, throw=False)
    tol = default_tol(norm, vector=False)
    answers = [(k, one.status[k], unlike(one, k, other, k, tol)) for k in range(len(problem.r))]
    assert not [answer for answer in answers if answer[2]]


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(
    ("problem", "statuses"),
    [
        (alone([[2, 0], [-2, 1], [1, -1]], [[1, 0], [0, 0], [2, -1]], [2, -1, 1]), "optimal"),
        (alone([[1, 0], [-1, 0]], [[1, 1], [1, 1]], [1, -1 + 1e-8]), "optimal infeasible"),
        (alone([[1, 0], [-1, 0]], [[1, 1], [1, 1]], [1, -1 + 1e-2]), "infeasible"),
        (alone([[-0.7], [0]], [[0.5], [-1]], [0.6, -1]), "optimal"),
        (alone([[1e-8, 0], [-3, -1], [-2, -1]], None, [1, 1, 1]), "optimal stopped"),
        (alone([[1, 0], [-1, 1e-9]], None, [1, 1]), "optimal unreachable stopped"),
        (alone([[1, 0], [-1, 1e-4]], None, [1, 1]), "optimal"),
        (alone([[0]], [[0]], [-1]), "optimal"),
        (alone([[0]], [[0]], [1e-300]), "infeasible"),
        (alone([[1e-310, 0]], None, [1e-310]), "optimal stopped"),
        (alone([[1e-310, 0]], None, [1]), "unrepresentable"),
        (alone([[1e-200, 0]], [[1e-200, 0]], [1]), "unrepresentable"),
        (alone([[1e-153, 0]], [[1e-153, 0]], [1e-153]), "optimal"),
        (alone([[1e155, 0]], [[1e155, 0]], [1e155]), "optimal stopped"),
        (alone([[1e-200, 0], [0, 1e200]], [[1e-100, 0], [0, 1e100]], [1, 1]), "optimal stopped"),
    ],
    ids=[
        *("a crash: an empty row", "a crash: overlap 1e-8", "overlap 1e-2", "a crash: b = -1, a = 0"),
        *("wrong signs", "feasible at 2e9", "angle 1e-4", "0 >= -1", "0 >= 1e-300", "denormal"),
        *("W beyond floats", "W beyond floats, in factors", "small factors", "large factors", "both factors"),
    ],
)
def test_faults_of_old(norm, problem, statuses):
    wrong, (status,) = faults(problem, norm)
    assert not wrong
    assert status in statuses.split()


@pytest.mark.parametrize("norm", NORMS)
def test_contradicting_equalities_by_delta(norm):
    powers = range(16)
    a = t([[[1, 0], [1, 0]]]).expand(len(powers), 2, 2)
    r = t([[1, 1 + 10.0**-power] for power in powers])
    wrong, statuses = faults(P(a, None, r, torch.ones(r.shape, dtype=torch.bool)), norm)
    assert not wrong
    for power, status in zip(powers, statuses, strict=True):
        assert status == "infeasible" or (status == "optimal" and power >= 6), power


@pytest.mark.parametrize("norm", NORMS)
def test_tokens_next_to_the_selected_one(norm):
    rng = np.random.default_rng(3)
    for distance in (1e-6, 1e-8):
        keys = rng.normal(size=(12, 2, 3, 3))
        keys[:, 0, 1] = keys[:, 0, 0] + distance * rng.normal(size=(12, 3))
        problem = svm.token_problem(t(keys.tolist()), torch.zeros(12, 2, dtype=torch.int64))
        wrong, _ = faults(problem, norm)
        assert not wrong


@pytest.mark.parametrize("seed", range(3))
def test_many_rows_with_right_hand_sides_of_both_signs(seed):
    generator = torch.Generator().manual_seed(seed)
    a, w = torch.randn(2001, 30, generator=generator).double(), torch.randn(30, generator=generator).double()
    problem = P(a, None, a @ w - 0.1 * torch.randn(2001, generator=generator).double().abs())
    wrong, statuses = faults(problem[None], "fro")
    assert not wrong
    assert statuses == ["optimal"]


def test_many_rows_of_relaxed_tokens():
    rng = np.random.default_rng(4)
    keys, lead = t(rng.normal(size=(1, 300, 8, 20)).tolist()), t([[1.0] * 10 + [0.0] * 290])
    direction = t(rng.normal(size=20).tolist())
    problem = svm.token_problem(keys, (keys @ direction).argmax(-1), lead)
    wrong, statuses = faults(problem, "fro")
    assert not wrong
    assert statuses == ["optimal"]


@pytest.mark.parametrize(("n", "d"), [(2100, 5), (10_000, 2)])
def test_many_labels_that_no_plane_separates(n, d):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(1, n, d))
    y = np.where(rng.random((1, n)) < 0.01, -1, 1) * np.sign(X[..., 0])
    _, statuses = faults(svm.label_problem(torch.as_tensor(X), torch.as_tensor(y)), "fro")
    assert statuses == ["infeasible"]


@pytest.mark.parametrize("tol", [math.inf, math.nan, -1.0, 0.0])
def test_tolerances_that_are_none(tol):
    with pytest.raises(ValueError, match="tol"):
        svm.solve(alone([[1, 0]], None, [1]), tol=tol)


@pytest.mark.parametrize("norm", [1.0000001, 1 + 2**-40, 1e6, 1e300])
def test_exponents_of_any_size(norm):
    for problem in (
        alone([[1, 0], [-1, 1]], None, [1, 1]),
        alone([[1, 0], [-1, 1], [2, 3]], [[1, 0], [-1, 1], [1, 2]], [1, 1, -1]),
    ):
        wrong, statuses = faults(problem, norm)
        assert not wrong
        assert statuses == ["optimal"]


def test_ranks_are_read_off_nuclear_solutions_only():
    problem = alone([[1, 0], [0, 1]], [[1, 0], [0, 1]], [1, 1])
    with pytest.raises(ValueError, match="nuc"):
        svm.certified_rank(problem, svm.solve(problem, "fro"))
    vector = alone([[1, 0], [0, 1]], None, [1, 1])
    with pytest.raises(ValueError, match="b"):
        svm.certified_rank(vector, svm.solve(vector, "nuc"))


def test_errors_travel_between_processes():
    with pytest.raises(svm.InfeasibleError) as caught:
        svm.solve(alone([[0.0]], None, [1.0]))
    copy = pickle.loads(pickle.dumps(caught.value))
    assert str(copy) == str(caught.value)
    assert copy.solution.status.tolist() == ["infeasible"]
