"""Exercises of lesson 05: softmax attention, its gradient, and the gradient that survives saturation."""

import numpy as np
import torch

from course.specification import Compare, Exercise, Misconception
from mini_attn import losses
from mini_attn.data import TokenData
from mini_attn.models import PromptAttention
from mini_attn.softmax import softmax


def _known(*wrong):
    """Wrong answers whose docstrings are what a learner who gives them should read."""
    return [Misconception(function, " ".join(function.__doc__.split())) for function in wrong]


def _np_softmax(h):
    e = np.exp(h - h.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


# ---------------------------------------------------------------- 05.1 softmax with a temperature


def _softmax(h, temperature=1.0):
    return softmax(torch.as_tensor(h) / temperature).numpy()


def _softmax_cases(rng):
    return [
        (rng.normal(size=4), 1.0),
        (rng.normal(size=5), 0.25),
        (rng.normal(size=(3, 4)), 2.0),
        (np.array([1000.0, 999.0, -1000.0]), 1.0),
        (np.array([-1000.0, -1001.0, -1002.0]), 1.0),
    ]


def _softmax_unshifted(h, temperature=1.0):
    """Right for moderate logits, but exp overflows or underflows for logits near +-1000. Subtract the
    largest logit of each sequence first: it cancels in the ratio."""
    with np.errstate(all="ignore"):
        e = np.exp(h / temperature)
        return e / e.sum(axis=-1, keepdims=True)


def _softmax_whole_array(h, temperature=1.0):
    """You normalised over the whole array. Each row is a sequence of its own: take the maximum and the sum
    over the last axis, with keepdims=True."""
    e = np.exp((h - h.max()) / temperature)
    return e / e.sum()


def _softmax_times_temperature(h, temperature=1.0):
    """You multiplied by the temperature. Logits are divided by it: a low temperature sharpens."""
    return _np_softmax(h * temperature)


def _softmax_eps(h, temperature=1.0):
    """A small constant in the denominator hides the overflow and breaks the answer: for logits near -1000
    the weights no longer sum to one. Shift by the largest logit and no constant is needed."""
    with np.errstate(all="ignore"):
        e = np.exp(np.minimum(h / temperature, 700.0))
        return e / (e.sum(axis=-1, keepdims=True) + 1e-9)


# ---------------------------------------------------------------- 05.2 and 05.5 gradient in the logits


def _output_gradient(h, g):
    h = torch.as_tensor(h, dtype=torch.float64).requires_grad_()
    (softmax(h) * torch.as_tensor(g, dtype=torch.float64)).sum().backward()
    return h.grad.numpy()


def _gradient_cases(rng):
    return [(rng.normal(size=T), rng.normal(size=T)) for T in (2, 3, 5)]


def _textbook(h, g):
    """This is the textbook formula: right on paper, but at a large logit gap g_a - f subtracts two numbers
    that agree to all their digits. Write it with differences of values from the start."""
    s = _np_softmax(h)
    return s * (g - s @ g)


def _diagonal_only(h, g):
    """You used only the diagonal s_t (1 - s_t) of the softmax Jacobian. Raising h_t also lowers every other
    weight: add the terms -s_t s_tau g_tau for tau != t."""
    s = _np_softmax(h)
    return s * (1 - s) * g


def _values_times_attention(h, g):
    """You differentiated exp and forgot the normaliser: s_t g_t is only the first half. Subtract s_t f, with
    f = sum_tau s_tau g_tau."""
    return _np_softmax(h) * g


def _unweighted_mean(h, g):
    """You compared g_t with the plain mean of the values. The comparison is with the layer's own output, the
    attention-weighted mean f = sum_tau s_tau g_tau."""
    return _np_softmax(h) * (g - g.mean())


def _advantage_only(h, g):
    """g_t - f is the right comparison, but it must be multiplied by s_t: a token that gets no attention has
    no say."""
    return g - _np_softmax(h) @ g


def _saturated_cases(rng):
    """Logit gaps of 0 to 60, the winner not always the token of largest value; no two values alike."""
    cases = [(rng.normal(size=4), rng.normal(size=4))]
    for gap, winner in ((20.0, 0), (30.0, 1), (40.0, 2), (60.0, 3)):
        h = rng.uniform(0, 3, size=4)
        h[winner] += gap
        g = np.array([1.0, 0.9, 0.3, -0.5]) + rng.uniform(0, 0.05, size=4)
        cases.append((h, g))
    return cases


def _anchored_at_best_value(h, g):
    """You anchored at the token of largest value. Anchor at the token of largest *logit*: it is the winner's
    own entry that cancels, whatever its value."""
    return _textbook(h, g - g.max())


def _winner_at_zero(h, g):
    """The winner's entry is missing. Its value g_a - g_a is 0, its gradient is not: the entries of u sum to
    0."""
    u = _textbook(h, g - g[np.argmax(h)])
    u[np.argmax(h)] = 0
    return u


def _winner_from_one_minus_s(h, g):
    """1 - s_a is the same cancellation in another place: for a gap of 40 it is 0. Add up the other weights
    instead."""
    s, a = _np_softmax(h), np.argmax(h)
    u = s * (g - g[a] - s @ (g - g[a]))
    others = np.delete(np.arange(len(h)), a)
    rest = 1 - s[a]
    mean_of_others = s[others] @ g[others] / max(s[others].sum(), 1e-300)
    u[a] = s[a] * rest * (g[a] - mean_of_others)
    return u


# ---------------------------------------------------------------- 05.3 gradient of the loss in p


def _prompt_gradient(p, X, keys, y, v):
    X, keys, y, v = (torch.as_tensor(a, dtype=torch.float64) for a in (X, keys, y, v))
    tokens = TokenData(X=X, z=X[..., 0, :], y=y, v=v, keys=keys)
    model = PromptAttention(d=X.shape[-1], init=torch.tensor(p, dtype=torch.float64))
    losses.get("logistic")(y * model(tokens)).mean().backward()
    return model.p.grad.numpy()


def _prompt_cases(rng):
    cases = []
    for n, T, d in ((1, 3, 2), (4, 3, 2), (5, 6, 4)):
        cases.append(
            (
                rng.normal(size=d),
                rng.normal(size=(n, T, d)),
                rng.normal(size=(n, T, d)),
                np.where(np.arange(n) % 2, 1.0, -1.0),
                rng.normal(size=d),
            )
        )
    return cases


def _prompt_parts(p, X, keys, v):
    s, g = _np_softmax(keys @ p), X @ v
    f = (s * g).sum(axis=-1)
    return s * (g - f[:, None]), f


def _prompt_with_tokens_for_keys(p, X, keys, y, v):
    """You contracted with X in the last step. p meets the sequence only through the keys (h = K p), so the
    chain rule ends with K^T u; X enters through the values g = X v."""
    u, f = _prompt_parts(p, X, keys, v)
    return np.einsum("n,nt,ntd->d", -y / (1 + np.exp(y * f)), u, X) / len(y)


def _prompt_label_lost(p, X, keys, y, v):
    """A label got lost: d/df of l(Y f) is Y l'(Y f). Your sequences with Y = -1 push the wrong way."""
    u, f = _prompt_parts(p, X, keys, v)
    return np.einsum("n,nt,ntd->d", -1 / (1 + np.exp(y * f)), u, keys) / len(y)


def _prompt_sum(p, X, keys, y, v):
    """This is n times too large: the loss is the mean over the n sequences."""
    return _prompt_gradient(p, X, keys, y, v) * len(y)


def _prompt_no_outer_derivative(p, X, keys, y, v):
    """The factor l'(Y f) = -1 / (1 + exp(Y f)) is missing; with -1 in its place you have the gradient of the
    linear loss."""
    u, _ = _prompt_parts(p, X, keys, v)
    return np.einsum("n,nt,ntd->d", -y, u, keys) / len(y)


# ---------------------------------------------------------------- 05.4 the norm that selection needs


def _gaps(keys, p):
    h = keys @ p
    return h.max() - np.delete(h, np.argmax(h))


def _norm_needed(keys, p, tolerance):
    return float(np.log((len(keys) - 1) / tolerance) * np.linalg.norm(p) / _gaps(keys, p).min())


def _norm_cases(rng):
    cases = [(np.array([[-0.1, 1.0], [1.0, 0.0], [0.0, 0.0]]), np.array([-0.2, 2.0]), 1e-3)]
    for T, d, tolerance in ((4, 3, 1e-2), (6, 5, 1e-9)):
        cases.append((rng.normal(size=(T, d)), 3 * rng.normal(size=d), tolerance))
    return cases


def _norm_not_normalised(keys, p, tolerance):
    """You used the gaps of p itself. The margin belongs to the direction: divide the gaps by ||p|| first."""
    return float(np.log((len(keys) - 1) / tolerance) / _gaps(keys, p).min())


def _norm_one_rival(keys, p, tolerance):
    """You counted one rival. There are T - 1 of them, and each may have weight up to exp(-m R)."""
    return float(np.log(1 / tolerance) * np.linalg.norm(p) / _gaps(keys, p).min())


def _norm_largest_gap(keys, p, tolerance):
    """You used the largest gap, the weakest rival. The nearest rival decides: take the smallest gap."""
    return float(np.log((len(keys) - 1) / tolerance) * np.linalg.norm(p) / _gaps(keys, p).max())


def _norm_multiplied(keys, p, tolerance):
    """You multiplied by the margin. Solve (T - 1) exp(-m R) = tolerance for R:
    m ends up in the denominator."""
    return float(np.log((len(keys) - 1) / tolerance) * _gaps(keys, p).min() / np.linalg.norm(p))


# ---------------------------------------------------------------- 05.6 direction without underflow


def _gradient_direction(h, g):
    h = torch.as_tensor(h, dtype=torch.float64).requires_grad_()
    (softmax(h, batch_dims=0) * torch.as_tensor(g, dtype=torch.float64)).sum().backward()
    return (h.grad / h.grad.abs().max()).numpy()


def _direction_cases(rng):
    cases = []
    for gap in (2.0, 50.0, 900.0, 5000.0):
        h = rng.uniform(-2, 2, size=(3, 4))
        h[np.arange(3), [1, 0, 3]] += gap + np.array([0.0, 2.0, 4.0])
        cases.append((h, rng.normal(size=(3, 4))))
    return cases


def _anchored(h, g):
    g = g - np.take_along_axis(g, h.argmax(-1)[..., None], -1)
    s = _np_softmax(h)
    return s * (g - (s * g).sum(-1, keepdims=True))


def _logged(h, g):
    """log |u| off the winners, the signs, and where the winners are."""
    top = h.max(-1, keepdims=True)
    log_s = h - top - np.log(np.exp(h - top).sum(-1, keepdims=True))
    winner = np.arange(h.shape[-1]) == h.argmax(-1)[..., None]
    g = g - np.take_along_axis(g, h.argmax(-1)[..., None], -1)
    advantage = g - (np.exp(log_s) * g).sum(-1, keepdims=True)
    log_u = np.where(winner, -np.inf, log_s + np.log(np.abs(advantage) + 1e-300))
    return log_u, np.sign(advantage), winner


def _divided_afterwards(h, g):
    """You formed u first and divided afterwards: at a gap above 745 every entry has already become 0. Stay
    in logarithms until the common factor is out."""
    u = _anchored(h, g)
    return u / max(np.abs(u).max(), 1e-300)


def _one_factor_per_sequence(h, g):
    """You scaled each sequence by its own factor. That changes the direction of the sum over sequences: take
    one maximum over the whole array."""
    log_u, sign, winner = _logged(h, g)
    u = sign * np.exp(log_u - log_u.max(-1, keepdims=True))
    u = np.where(winner, -u.sum(-1, keepdims=True), u)
    return u / np.abs(u).max(-1, keepdims=True)


def _winner_forgotten(h, g):
    """The winner's entry is missing. Each row sums to zero: set it to minus the sum of the others, after the
    scaling."""
    log_u, sign, _ = _logged(h, g)
    u = sign * np.exp(log_u - log_u.max())
    return u / np.abs(u).max()


def _signs_lost(h, g):
    """The signs are lost: the logarithm sees |g_t - f|, so multiply by sign(g_t - f) afterwards."""
    log_u, _, winner = _logged(h, g)
    u = np.exp(log_u - log_u.max())
    u = np.where(winner, -u.sum(-1, keepdims=True), u)
    return u / np.abs(u).max()


EXERCISES = [
    Exercise(
        id="05.1",
        title="Softmax with a temperature",
        points=1,
        minutes=6,
        difficulty=1,
        reference=_softmax,
        cases=_softmax_cases,
        misconceptions=_known(
            _softmax_unshifted, _softmax_whole_array, _softmax_times_temperature, _softmax_eps
        ),
    ),
    Exercise(
        id="05.2",
        title="The gradient in the logits",
        points=2,
        minutes=10,
        difficulty=2,
        reference=_output_gradient,
        cases=_gradient_cases,
        misconceptions=_known(_diagonal_only, _values_times_attention, _unweighted_mean, _advantage_only),
    ),
    Exercise(
        id="05.3",
        title="The gradient of the loss in p",
        points=3,
        minutes=12,
        difficulty=2,
        reference=_prompt_gradient,
        cases=_prompt_cases,
        misconceptions=_known(
            _prompt_with_tokens_for_keys,
            _prompt_label_lost,
            _prompt_sum,
            _prompt_no_outer_derivative,
        ),
    ),
    Exercise(
        id="05.4",
        title="How long must p be?",
        points=2,
        minutes=8,
        difficulty=2,
        reference=_norm_needed,
        cases=_norm_cases,
        misconceptions=_known(_norm_not_normalised, _norm_one_rival, _norm_largest_gap, _norm_multiplied),
    ),
    Exercise(
        id="05.5",
        title="Cure the cancellation",
        points=2,
        minutes=10,
        difficulty=2,
        reference=_output_gradient,
        cases=_saturated_cases,
        compare=Compare(rtol=1e-6, atol=0.0),
        misconceptions=_known(_textbook, _anchored_at_best_value, _winner_at_zero, _winner_from_one_minus_s),
    ),
    Exercise(
        id="05.6",
        title="A direction that cannot underflow",
        points=3,
        minutes=15,
        difficulty=3,
        reference=_gradient_direction,
        cases=_direction_cases,
        misconceptions=_known(_divided_afterwards, _one_factor_per_sequence, _winner_forgotten, _signs_lost),
    ),
]
