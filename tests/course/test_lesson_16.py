"""What lesson 16 builds from scratch agrees with `mini_attn`."""

import numpy as np
import pytest
import torch

from course import exercises
from course.replicate.lesson_16 import (
    by_lookup,
    chains,
    dual_variables,
    finite_part,
    general,
    guesses,
    lead_of_others,
    leads_alone,
    longest_step,
    predict_next,
    pull,
    pulls_apart,
    stack,
    svm_without,
    weights,
)
from mini_attn import svm, train
from mini_attn.next_token import NextTokenTransformer, descend
from mini_attn.vocabulary import NextTokens, next_tokens, priorities, same_component

levels, slope, tie, harder, finite_lead = (spec.reference for spec in exercises.exercises("16"))


@pytest.mark.parametrize("sizes", [[1, 2, 3], [4, 1, 1, 2], [1, 6]])
def test_levels_are_the_svms_heights(sizes):
    level = np.repeat(np.arange(len(sizes)), sizes)
    above = torch.zeros(*3 * (len(level),), dtype=torch.bool)
    above[2] = torch.as_tensor(level[:, None] + 1 == level)
    solution = svm.solve(svm.order_problem(torch.eye(len(level), dtype=torch.float64), above)).value
    np.testing.assert_allclose(np.repeat(levels(sizes), sizes), solution[:, 2], atol=1e-8)


@pytest.mark.parametrize("targets", [None, 2])
def test_the_exact_ov_is_the_svms(targets, lesson):
    data, _ = next_tokens(1, 2, 6, targets=targets, seed=2)
    solution = svm.solve(svm.next_problem(data.embeddings, data.following)).value
    np.testing.assert_allclose(lesson["exact_ov"](data.following.numpy()), solution, atol=1e-8)


def test_the_slope_is_the_svms_margin():
    above = torch.zeros(6, 6, 6, dtype=torch.bool)
    for q, length in ((0, 4), (3, 2), (5, 3)):
        for c in range(length - 1):
            above[q, c, c + 1] = True
    solution = svm.solve(svm.order_problem(torch.eye(6, dtype=torch.float64), above))
    assert slope([4, 2, 3], 0.2) == pytest.approx(-0.2 / float(solution.objective))


def test_chains_ask_for_their_levels(lesson):
    data = chains([4, 2, 6], V=9)
    solution = svm.solve(svm.order_problem(data.embeddings, priorities(data)))
    assert float(solution.objective) == pytest.approx(-1 / slope([4, 2, 6], 1.0))


def test_late_pulls_of_a_chain_are_its_duals(lesson):
    data = chains([5, 2, 4], V=9)
    data = NextTokens(data.embeddings[None], data.following[None], data.tokens[None], data.target[None])
    solution = svm.solve(svm.order_problem(data.embeddings, priorities(data)))
    dual, _ = dual_variables(data, solution.value)
    for q, m in enumerate([5, 2, 4]):
        pulls = dual[0, q][dual[0, q] > 1e-9].sort().values
        np.testing.assert_allclose(pulls, sorted(k * (m - k) / 2 for k in range(1, m)), atol=1e-6)
    assert float(dual.sum()) == pytest.approx(float(solution.objective) ** 2, abs=1e-5)


def test_a_tie_pulls_all_level_tokens_alike():
    which, copies = np.array([0, 1, 1, 2, 0]), np.array([1, 2, 1, 1, 3])
    queries, new = np.array([2, 1, 3, 1, 4]), np.array([1, 3, 2])
    e_lead = tie(which, copies, queries, new) / new
    pulls = np.zeros(3)
    np.add.at(pulls, which, queries / copies / e_lead[which])
    assert pulls == pytest.approx(pulls[[0, 0, 0]])


@pytest.mark.parametrize(("c", "n", "T", "V"), [(0.5, 80, 8, 20), (2.0, 60, 9, 30), (8.0, 1, 5, 16)])
def test_lookups_take_the_librarys_steps(c, n, T, V):
    data, _ = next_tokens(n, T, V, queries=10, trials=5, seed=9)
    W_ov = c * svm.solve(svm.next_problem(data.embeddings, data.following)).value
    model = NextTokenTransformer(V, V, 5, W_ov=W_ov)
    descend(model, data, 40, lr=0.05, schedule=train.growing)  # rounding would grow beyond the threshold
    W = by_lookup(data, c, 25, lr=0.05)
    W = by_lookup(data, c, 15, lr=0.05, W=W, taken=25)
    torch.testing.assert_close(W, model.W_kq.detach(), rtol=0, atol=1e-8)


def test_without_some_sequences_the_svm_is_that_of_the_others():
    data, _ = next_tokens(12, 4, 8, queries=2, trials=1, seed=6)
    out = torch.zeros(1, 12, dtype=torch.bool)
    out[0, [0, 5]] = True
    rest = NextTokens(data.embeddings, data.following, data.tokens[:, ~out[0]], data.target[:, ~out[0]])
    W = svm.solve(svm.order_problem(data.embeddings, priorities(rest))).value
    found = svm_without(data, out)
    torch.testing.assert_close(found, W, rtol=0, atol=1e-7)
    for i, lead in enumerate(lead_of_others(data, found)[0]):
        logits = W[0][data.tokens[0, i], data.tokens[0, i, -1]]
        optimal = data.optimal[0, i]
        assert float(lead) == pytest.approx(float(logits[~optimal].max() - logits[optimal].max()), abs=1e-6)


def test_each_left_out_by_itself_or_one_of_each_query_at_a_time():
    data, _ = next_tokens(12, 4, 8, queries=2, trials=1, seed=6)
    found = leads_alone(data)
    for i in range(12):
        out = torch.arange(12)[None] == i
        lead = lead_of_others(data, svm_without(data, out))[0, i]
        assert float(found[0, i]) == pytest.approx(float(lead), abs=1e-6)


def test_below_the_longest_step_the_pulls_of_a_chain_settle_and_above_it_not():
    """A chain of 3: lambdas are 1, so the sum of r r^T has eigenvalues 1 and 3; eta* = 2 sqrt 2 / 3."""
    data = stack([chains([3], V=4)])
    solution = svm.solve(svm.order_problem(data.embeddings, priorities(data)))
    longest = float(longest_step(data, solution.value))
    assert longest == pytest.approx(2 * 2**0.5 / 3, abs=1e-5)
    W_ov = 8 * svm.solve(svm.next_problem(data.embeddings, data.following)).value
    for factor, settles in ((0.9, True), (1.1, False)):
        model = NextTokenTransformer(4, 4, 1, W_ov=W_ov)
        model.W_kq.data[0, :, 0] += torch.tensor([0.0, 0.1, -0.2, 0.3]).double()
        descend(model, data, 400, lr=factor * longest)
        assert (float(pulls_apart(data, model.W_kq.detach(), solution.value)) < 0.001) == settles


def test_guesses_by_hand(lesson):
    """In C A B D F, with A > B alone: chance takes all but B, the count takes A; C is the right answer's."""
    lesson["letters"] = "ABCDEF"
    new = stack([lesson["spelled"](["CABDF", "CCABF"], "DB")])
    order = torch.zeros(1, 6, 6, 6, dtype=torch.bool)
    order[0, 5, 0, 1] = True
    by_count, by_chance = guesses(new, order)
    assert by_count.tolist() == [[0, 1]]
    assert by_chance[0].tolist() == pytest.approx([1 / 4, 1 / 3])


@pytest.mark.parametrize("seed", range(4))
def test_the_tie_law_is_what_training_does(seed, lesson):
    """Random words of one token and the query: the shares that a new sentence's tokens get after training."""
    draw = np.random.default_rng(seed)
    which = draw.permutation(np.r_[0, 1, 2, draw.integers(3, size=3)])
    copies, new = draw.integers(1, 4, 6), draw.integers(1, 4, 3)
    lesson["letters"] = "ABCDEF"
    words = ["ABC"[a] * k + "F" * (4 - k) for a, k in zip(which, copies, strict=True)]
    data = lesson["spelled"](words, ["BCD"[a] for a in which])
    W_ov = 8 * svm.solve(svm.next_problem(data.embeddings, data.following)).value
    model = NextTokenTransformer(6, 6, W_ov=W_ov)
    descend(model, data, 800)
    word = "".join(c * int(k) for c, k in zip("ABC", new, strict=True)) + "F"
    s = model.attention(lesson["spelled"]([word], "B")).detach().numpy()[0]
    shares = [s[[c == letter for c in word]].sum() for letter in "ABC"]
    assert shares == pytest.approx(tie(which, copies, 4 - copies, new), abs=0.005)


def test_figure_1s_tie_is_twice_the_copies(lesson):
    """B > C by -ln 2, along A and along D; two Bs and one C get the same share, three do not."""
    lesson["letters"] = "ABCDEF"
    data = stack([lesson["spelled"](["CABF", "DDBF", "EECF", "DDCF"], "BCDD")])
    W_hat = svm.solve(svm.order_problem(data.embeddings, priorities(data))).value
    logs = (dual_variables(data, W_hat)[0][0, 5] / weights(data)[0, 5]).log()  # minus the leads
    assert float(logs[0, 1] - logs[0, 2]) == pytest.approx(-np.log(2), abs=1e-6)
    assert float(logs[2, 3] - logs[1, 3]) == pytest.approx(-np.log(2), abs=1e-6)
    for word, kind, says in (("BBBCF", 2, 2), ("BCF", 2, 3), ("BBCF", 3, None)):
        (found,), (said,) = (x[0] for x in predict_next(stack([lesson["spelled"]([word], "C")]), data, W_hat))
        assert found == kind
        assert says is None or said == says


@pytest.mark.parametrize(("c", "V"), [(0.3, 5), (2.0, 12), (6.0, 30)])
def test_how_much_harder_a_wrong_sequence_pulls_is_autograds(c, V):
    W, pulls = c * (torch.eye(V).double() - 1 / V), []
    for lead in (-15.0, 15.0):
        h = torch.tensor([lead, 0.0], dtype=torch.float64, requires_grad=True)
        log_p = (W[:, :2] @ h.softmax(0)).log_softmax(0)[0]
        pulls.append(torch.autograd.grad(log_p, h)[0][0])
    assert float(pulls[0] / pulls[1]) == pytest.approx(harder(c, V), rel=1e-4)


def test_the_finite_lead_is_the_librarys_finite_part():
    E = torch.eye(3, dtype=torch.float64)[None]
    copies_a, won = np.array([2, 1, 3, 1, 4, 2, 1]), np.array([True, True, False, True, True, False, True])
    tokens = torch.tensor([[[0] * a + [1] * (6 - a) for a in copies_a]])  # the query is b, the token 1
    W, rest = finite_part(NextTokens(E, torch.arange(3)[None], tokens, torch.tensor(~won).long()[None]))
    assert rest < 1e-12
    lead = finite_lead(won, copies_a, 6 - copies_a)
    assert float(W[0, 0, 1] - W[0, 1, 1]) == pytest.approx(lead, abs=1e-9)


def test_the_pull_of_general_data_is_autograds():
    data = general(5, 4, 6, 8, trials=2, seed=6)
    W = torch.randn(2, 8, 8, generator=torch.Generator().manual_seed(7)).double().requires_grad_()
    h = (data.X @ (data.z @ W.mT)[..., None])[..., 0]
    loss = -(h.softmax(-1) * data.optimal).sum(-1).log().mean(-1).sum()
    torch.testing.assert_close(pull(W.detach(), data), torch.autograd.grad(loss, [W])[0])
    together = same_component(priorities(data))
    assert together.diagonal(dim1=-2, dim2=-1).all()
