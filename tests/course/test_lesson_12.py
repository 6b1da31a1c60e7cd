"""What lesson 12 builds from scratch agrees with `mini_attn` and with its stored sweeps' functions."""

import collections
import json
import math
import symtable
from pathlib import Path

import numpy as np
import torch

from course import exercises
from course.replicate import lesson_12 as runs
from mini_attn import data, models, svm

_, direction, ties, win_all = (spec.reference for spec in exercises.exercises("12"))


def test_along_the_direction_every_u_grows_like_the_variance_of_the_scores():
    """At any W, long or short; with n > d also along v a^T, if a separates the labels."""
    for n, length in ((5, 0.0), (5, 1.0), (5, 10.0), (9, 3.0)):
        tokens = data.random_tokens(n, 4, 5, trials=1, seed=n)
        if n > 5:
            a = torch.arange(1.0, 6).double()
            y = torch.sign(tokens.z @ a)
            tokens = data.TokenData(X=tokens.X, z=tokens.z, y=y, v=tokens.v)
            V = torch.outer(tokens.v[0], a)
        else:
            V = torch.as_tensor(direction(*(of[0].numpy() for of in (tokens.v, tokens.z, tokens.y))))
        W = length * torch.randn(1, 5, 5, generator=torch.Generator().manual_seed(n)).double()
        there, here = (
            tokens.y * runs.attend("W", 5, 1, init=W + h * V)(tokens).detach() for h in (1e-5, -1e-5)
        )
        model = runs.attend("W", 5, 1, init=W)
        s, u = model.attention(tokens).detach(), tokens.y * model(tokens).detach()
        variance = (s * (tokens.scores - u[..., None]) ** 2).sum(-1)
        c = tokens.y * (tokens.z @ a) if n > 5 else 1
        torch.testing.assert_close((there - here) / 2e-5, c * variance, atol=1e-8, rtol=1e-4)
        assert (c * variance > 0).all()


def test_the_chance_to_win_is_that_of_support_tokens_drawn_from_all_others():
    rng = np.random.default_rng(2)
    for n, T, m in ((2, 3, 2), (5, 4, 8), (8, 6, 12)):
        drawn = rng.random((50_000, n * (T - 1))).argsort(axis=1)[:, :m] // (T - 1)
        k = np.stack([(drawn == i).sum(axis=1) for i in range(n)])
        np.testing.assert_allclose(win_all(n, T)[m], (1 / (1 + k)).prod(axis=0).mean(), rtol=0.02)
    np.testing.assert_allclose(win_all(2, 3)[2], 5 / 18)
    np.testing.assert_allclose(win_all(4, 3)[-1], 1 / 3**4)


def test_no_later_cell_rebinds_a_name_that_a_function_reads():
    """The widget calls its functions after the whole notebook has run."""
    path = Path(__file__).parents[2] / "solutions" / "12_overparameterization.ipynb"
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    code = ["".join(cell["source"]) for cell in cells]

    def read(table):
        own = {one.get_name() for one in table.get_symbols() if one.is_global()}
        return own.union(*map(read, table.get_children()))

    functions = symtable.symtable("\n".join(code), "lesson 12", "exec").get_children()
    reads = set().union(
        *(read(one) for one in functions if one.get_name() in ("law", "draw_chance", "possibility"))
    )
    bound = collections.Counter()
    for one in code:
        names = symtable.symtable(one, "cell", "exec").get_symbols()
        bound.update(name.get_name() for name in names if name.is_assigned() or name.is_imported())
    assert {"chance", "nu", "law"} <= reads
    assert not [name for name in reads if bound[name] > 1]


def test_for_pairs_of_tokens_the_law_is_covers_count():
    """With T = 2 each sequence ties with chance 1/2; for p and, any d^2 rows being independent, for W."""
    for n in range(1, 20):
        J = np.array([math.comb(n, k) for k in range(n + 1)]) / 2**n
        for D in range(1, n + 1):
            cover = 2 * sum(math.comb(n - 1, k) for k in range(D)) / 2**n
            np.testing.assert_allclose(2 * J[(D - 1) % 2 : D : 2].sum(), cover)
    for kind, n, d in (("p", 5, 3), ("W", 8, 2), ("W", 20, 3)):
        cover = 2.0 ** (1 - n) * sum(math.comb(n - 1, k) for k in range(d if kind == "p" else d * d))
        assert abs(runs.feasible_share(kind, n, 2, d) - cover) < 0.06


def test_other_queries_leave_the_rest_alone():
    tokens = data.random_tokens(3, 4, 5, trials=6, seed=9)
    for common in (None, 0, 1, 3):
        other = runs.with_queries(tokens, common)
        assert other.keys is tokens.keys
        assert (other.scores == tokens.scores).all()
        torch.testing.assert_close(torch.linalg.vector_norm(other.z, dim=-1), torch.ones(6, 3).double())
        gram = other.z @ other.z.mT
        if common is None:
            torch.testing.assert_close(gram, torch.eye(3).double().expand(6, 3, 3))
        elif common == 0:
            torch.testing.assert_close(other.z, tokens.z)
        else:
            assert (gram - tokens.z @ tokens.z.mT).mean() > 0.2


def test_with_orthonormal_queries_the_problem_splits():
    """W z_i is the p of sequence i alone."""
    tokens = runs.with_queries(data.random_tokens(3, 4, 5, trials=20, seed=2))
    chosen = torch.randint(4, (20, 3), generator=torch.Generator().manual_seed(4))
    whole = svm.solve(runs.problem("W", tokens.keys, tokens.z, chosen)).value
    for i in range(3):
        keys = tokens.keys[:, i : i + 1]
        alone = svm.solve(runs.problem("p", keys, None, chosen[:, i : i + 1])).value
        torch.testing.assert_close((whole @ tokens.z[:, i, :, None])[..., 0], alone, atol=1e-6, rtol=1e-5)
    can, number, error = runs.mean_number("W", tokens, draws=3)
    assert can == 1
    assert error > 0
    assert 0 < number < 4**3


def test_a_drawn_choice_of_one_pair_of_tokens():
    """n = 1, T = 2: one row, always tight, and of the two tokens one wins."""
    tokens = data.random_tokens(1, 2, 5, trials=20, seed=3)
    can, support, chance = runs.drawn_choice("p", tokens, seed=1, heads=4)
    assert can.all()
    assert (support == 1).all()
    assert (chance == 0.5).all()


def test_the_angles_are_those_of_the_drawn_choices():
    for kind, d in (("p", 6), ("W", 4)):
        tokens = data.random_tokens(3, 4, d, trials=30, seed=5)
        k, angle, beaten = runs.support_angles(kind, tokens, seed=2, heads=64)
        torch.testing.assert_close(k, runs.drawn_choice(kind, tokens, seed=2, heads=64)[1])
        assert (angle.isnan() == (k < 2)).all()
        assert (beaten[k == 0] == 1).all()
        assert beaten[k == 1].mean() < 0.6
        tokens = data.random_tokens(1, 4, d, trials=30, seed=5)  # one sequence: to beat all is to win
        can, _, chance = runs.drawn_choice(kind, tokens, seed=2, heads=64)
        beaten = runs.support_angles(kind, tokens, seed=2, heads=64)[2][:, 0]
        torch.testing.assert_close(chance, beaten * can)


def test_the_first_leads_are_those_of_the_formula():
    tokens = data.random_tokens(3, 4, 5, trials=6, seed=4)
    mean = tokens.scores.mean(-1, keepdim=True)
    push = torch.sigmoid(-mean) * (tokens.scores - mean) / 12
    h = torch.einsum("ritd,rjsd,rie,rje,rjs->rit", tokens.X, tokens.X, tokens.z, tokens.z, push)
    ahead = h.gather(-1, tokens.optimal[..., None]) - h
    ours = ahead.scatter(-1, tokens.optimal[..., None], torch.inf).amin(-1)
    torch.testing.assert_close(ours, runs.first_leads("W", tokens), atol=1e-13, rtol=0)


def test_ties_are_those_of_the_nearest_point():
    """By a projection that knows nothing of means: least squares with h_1 >= h_t."""
    from scipy.optimize import nnls

    h = np.random.default_rng(1).normal(size=(200, 5))
    h[:, 0] -= 1
    rows = np.hstack((np.ones((4, 1)), -np.eye(4)))  # rows @ h >= 0; the nearest is h + rows.T @ price
    price = np.array([nnls(rows.T, -one)[0] for one in h])
    assert ((price > 1e-9).sum(axis=1) == ties(h)).all()


def test_compressed_problems_train_alike():
    tokens = data.random_tokens(2, 3, 20, trials=4, seed=1)
    small = runs.compressed(tokens)
    assert small.keys.shape == (4, 2, 3, 6)
    for kind in ("p", "W"):
        ends = [runs.descend(runs.attend(kind, t.keys.shape[-1], 4), t, 60) for t in (tokens, small)]
        torch.testing.assert_close(*ends, atol=1e-6, rtol=0)
        torch.testing.assert_close(*(runs.first_leads(kind, t) for t in (tokens, small)))


def test_every_choice_is_each_of_them():
    X, z = runs.gaussian(2, 3, 2, trials=30, seed=0)
    for kind in ("p", "W"):
        each = [
            svm.solve(runs.problem(kind, X, z, torch.tensor([[a, b]]).expand(30, 2)), throw=False).status
            == "optimal"
            for a in range(3)
            for b in range(3)
        ]
        assert (np.all(each, axis=0) == runs.every_choice(kind, X, z)).all()


def test_wrong_winners_are_counted_by_hand_in_a_plain_case():
    """Orthogonal tokens and queries: every row of every choice is tight, so no wrong choice can win."""
    X = torch.eye(8, dtype=torch.float64).reshape(1, 2, 4, 8)
    z = torch.eye(8, dtype=torch.float64)[None, :2]
    generator = torch.Generator().manual_seed(0)
    v = torch.randn(1, 8, generator=generator, dtype=torch.float64)
    tokens = data.TokenData(X=X, z=z, y=torch.ones(1, 2, dtype=torch.float64), v=v)
    for kind in ("p", "W"):
        wrong, tight = runs.wrong_winners(kind, tokens)
        assert (wrong.item(), tight.item()) == (0, 16)
    assert isinstance(runs.attend("KQ", 3, 2), models.FactoredAttention)


def test_equal_others_keep_their_mean_and_the_best_token():
    tokens = data.random_tokens(3, 4, 5, trials=6, seed=8)
    equal = runs.equal_others(tokens)
    torch.testing.assert_close(equal.scores.sum(-1), tokens.scores.sum(-1))
    torch.testing.assert_close(equal.scores.amax(-1), tokens.scores.amax(-1))
    assert equal.keys is tokens.keys
    assert (equal.optimal == tokens.optimal).all()
    assert equal.scores.sort(-1).values[..., :-1].std(-1).max() < 1e-12
