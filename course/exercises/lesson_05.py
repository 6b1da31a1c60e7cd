"""Exercises of lesson 05: softmax attention, its gradient, and the gradient that survives saturation."""

import numpy as np
import torch

from course.check.specification import Compare, Exercise, known
from mini_attn import losses
from mini_attn.data import TokenData
from mini_attn.models import PromptAttention
from mini_attn.softmax import softmax


def _np_softmax(h):
    e = np.exp(h - h.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


# 05.1


def _softmax(h, temperature=1.0):
    return softmax(torch.as_tensor(h) / temperature).numpy()


def _softmax_with(shift=lambda z: z.max(-1, keepdims=True), total=lambda e: e.sum(-1, keepdims=True)):
    def answer(h, temperature=1.0):
        with np.errstate(all="ignore"):  # some of these overflow: that is the point of them
            z = h / temperature
            e = np.exp(z - shift(z))
            return e / total(e)

    return answer


SOFTMAX = Exercise(
    id="05.1",
    title="Softmax with a temperature",
    points=1,
    minutes=6,
    difficulty=1,
    reference=_softmax,
    withheld=("mini_attn.softmax.softmax", "mini_attn.softmax.textbook_softmax"),
    cases=lambda rng: [
        (rng.normal(size=4), 1.0),
        (rng.normal(size=5), 0.25),
        (rng.normal(size=(3, 4)), 2.0),
        (np.array([1000.0, 999.0, -1000.0]), 1.0),
        (np.array([-1000.0, -1001.0, -1002.0]), 1.0),
        (np.array([[1000.0, 999.0], [-1000.0, -999.0]]), 1.0),
        (np.array([1000.0, -1000.0]), 1.0),
    ],
    misconceptions=known(
        _softmax_with(shift=lambda z: 0.0),
        "Right for moderate logits, but exp overflows or underflows for logits near +-1000. Subtract the "
        "largest logit of each sequence first: it cancels in the ratio.",
        _softmax_with(shift=lambda z: z.max()),
        "You subtracted the largest logit of the whole array: in a row far below it every exp is 0. Each "
        "row needs its own maximum, over the last axis.",
        _softmax_with(shift=lambda z: z.max(), total=lambda e: e.sum()),
        "You normalised over the whole array. Each row is a sequence: use the last axis, with keepdims=True.",
        lambda h, temperature: _np_softmax(h * temperature),
        "You multiplied by the temperature. Logits are divided by it: a low temperature sharpens.",
        lambda h, temperature: _np_softmax(h),
        "The temperature does nothing in your function: divide the logits by it.",
        _softmax_with(shift=lambda z: z.mean(-1, keepdims=True)),
        "Shift by the largest logit, not by the mean: 1000 and -1000 have the mean 0, and exp overflows.",
        _softmax_with(shift=lambda z: z - np.clip(z, -700, 700)),
        "Clipping changes the answer: logits of 1000 and 999 become equal. Shift by the largest instead.",
        _softmax_with(shift=lambda z: z - np.minimum(z, 700)),
        "Clipping changes the answer: logits of 1000 and 999 become equal. Shift by the largest; then no "
        "exponent is above 0.",
        _softmax_with(
            shift=lambda z: z - np.minimum(z, 700), total=lambda e: e.sum(-1, keepdims=True) + 1e-9
        ),
        "A small constant in the denominator hides the overflow and breaks the answer: for logits near "
        "-1000 the weights no longer sum to one. Shift by the largest logit and no constant is needed.",
    ),
)

# 05.2


def _output_gradient(h, g):
    h = torch.as_tensor(h, dtype=torch.float64).requires_grad_()
    (softmax(h) * torch.as_tensor(g, dtype=torch.float64)).sum().backward()
    return h.grad.numpy()


GRADIENT = Exercise(
    id="05.2",
    title="The gradient in the logits",
    points=2,
    minutes=10,
    difficulty=2,
    reference=_output_gradient,
    withheld=("mini_attn.softmax.logit_gradient",),
    cases=lambda rng: [(rng.normal(size=T), rng.normal(size=T)) for T in (2, 3, 5)],
    misconceptions=known(
        lambda h, g: _np_softmax(h) * (1 - _np_softmax(h)) * g,
        "You used only the diagonal s_t (1 - s_t) of the softmax Jacobian. Raising h_t also lowers every "
        "other weight: add the terms -s_t s_tau g_tau for tau != t.",
        lambda h, g: _np_softmax(h) * g,
        "s_t g_t is only the first half: the normaliser depends on h_t as well. Subtract s_t f.",
        lambda h, g: _np_softmax(h) * (h - _np_softmax(h) @ h),
        "You averaged the logits. The layer's output averages the values g.",
        lambda h, g: _np_softmax(h) * (g - g.mean()),
        "You compared g_t with the plain mean of the values. Compare it with the layer's own output f.",
        lambda h, g: g - _np_softmax(h) @ g,
        "g_t - f must be multiplied by s_t: a token that gets no attention has no say.",
    ),
)

# 05.3


def _prompt_gradient(p, X, keys, y, v):
    X, keys, y, v = (torch.as_tensor(a, dtype=torch.float64) for a in (X, keys, y, v))
    tokens = TokenData(X=X, z=X[..., 0, :], y=y, v=v, keys=keys)
    model = PromptAttention(d=X.shape[-1], init=torch.tensor(p, dtype=torch.float64))
    losses.get("logistic")(y * model(tokens)).mean().backward()
    return model.p.grad.numpy()


def _prompt_with(slope=lambda y, f: -y / (1 + np.exp(y * f)), tokens_for_keys=False):
    def answer(p, X, keys, y, v):
        s, g = _np_softmax(keys @ p), X @ v
        f = (s * g).sum(axis=-1)
        u = s * (g - f[:, None])
        return np.einsum("n,nt,ntd->d", slope(y, f), u, X if tokens_for_keys else keys) / len(y)

    return answer


def _prompt_cases(rng):
    """Both labels from the first input on: with one label alone, a lost label looks like a wrong sign."""
    return [
        (
            rng.normal(size=d),
            rng.normal(size=(n, T, d)),
            rng.normal(size=(n, T, d)),
            np.where(np.arange(n) % 2, -1.0, 1.0),
            rng.normal(size=d),
        )
        for n, T, d in ((2, 3, 2), (5, 3, 2), (5, 6, 4))
    ]


PROMPT = Exercise(
    id="05.3",
    title="The gradient of the loss in p",
    points=3,
    minutes=12,
    difficulty=2,
    reference=_prompt_gradient,
    cases=_prompt_cases,
    misconceptions=known(
        _prompt_with(tokens_for_keys=True),
        "p meets the sequence only through the keys: the chain rule ends with K^T u, not with X^T u.",
        _prompt_with(lambda y, f: -1 / (1 + np.exp(y * f))),
        "A label got lost: d/df of l(Y f) is Y l'(Y f). Your sequences with Y = -1 push the wrong way.",
        _prompt_with(lambda y, f: y / (1 + np.exp(y * f))),
        "The sign is reversed: the loss falls as its argument grows, l'(q) = -1 / (1 + exp(q)).",
        _prompt_with(lambda y, f: -y / (1 + np.exp(f))),
        "The slope of the loss is l'(Y f), not l'(f): the label stands inside the loss as well.",
        lambda p, X, keys, y, v: _prompt_gradient(p, X, keys, y, v) * len(y),
        "This is n times too large: the loss is the mean over the n sequences.",
        _prompt_with(lambda y, f: -y),
        "The factor l'(Y f) is missing; with -1 in its place you have the gradient of the linear loss.",
    ),
)

# 05.4


def _norm_with(
    rivals=lambda T: T - 1, choose=lambda h: h[-1] - h[-2], solve=lambda log, margin: log / margin
):
    """solve(log(rivals / tolerance), margin), where choose takes the margin from the sorted logits."""

    def answer(keys, p, tolerance):
        margin = choose(np.sort(keys @ p)) / np.linalg.norm(p)
        with np.errstate(divide="ignore"):
            return float(solve(np.log(rivals(len(keys)) / tolerance), margin))

    return answer


def _norm_cases(rng):
    toy = np.array([[-0.1, 1.0], [1.0, 0.0], [0.0, 0.0]])
    sizes = ((4, 3, 1e-2), (6, 5, 1e-9))
    random = [(rng.normal(size=(T, d)), 3 * rng.normal(size=d), tolerance) for T, d, tolerance in sizes]
    return [(toy, np.array([-0.2, 2.0]), 1e-3), *random]


NORM = Exercise(
    id="05.4",
    title="How long must p be?",
    points=2,
    minutes=8,
    difficulty=2,
    reference=_norm_with(),
    cases=_norm_cases,
    misconceptions=known(
        lambda keys, p, tolerance: _norm_with()(keys, p, tolerance) / np.linalg.norm(p),
        "You used the gaps of p itself. The margin belongs to the direction: divide the gaps by ||p||.",
        _norm_with(choose=lambda h: np.float64(0.0)),
        "Leave the winner out of the minimum: its own gap is 0.",
        _norm_with(rivals=lambda T: T),
        "You counted all T tokens. The winner is no rival of itself: there are T - 1.",
        _norm_with(rivals=lambda T: 1),
        "You counted one rival. There are T - 1 of them, and each may have weight up to exp(-m R).",
        lambda keys, p, tolerance: float(
            np.log((len(keys) - 1) / tolerance) * np.linalg.norm(p) / abs((keys[0] - keys[1]) @ p)
        ),
        "You compared tokens 0 and 1. The winner and its nearest rival are the two largest logits, wherever "
        "they stand.",
        _norm_with(choose=lambda h: h[-1] - h[0]),
        "You used the largest gap, the weakest rival. The nearest rival decides: take the smallest gap.",
        _norm_with(solve=lambda log, margin: log * margin),
        "You multiplied by the margin: solve (T - 1) exp(-m R) = tolerance for R once more.",
    ),
)

# 05.5


def _textbook(h, g):
    s = _np_softmax(h)
    return s * (g - s @ g)


def _winner_at_zero(h, g):
    u = _textbook(h, g - g[np.argmax(h)])
    u[np.argmax(h)] = 0
    return u


def _winner_from_one_minus_s(h, g):
    a = np.argmax(h)
    s, others = _np_softmax(h), np.delete(np.arange(len(h)), a)
    u = _textbook(h, g - g[a])
    u[a] = s[a] * (1 - s[a]) * (g[a] - s[others] @ g[others] / s[others].sum())
    return u


def _saturated_cases(rng):
    """Logit gaps of 0 to 60, the winner not always the token of largest value; no two values alike."""
    cases = [(rng.normal(size=4), rng.normal(size=4))]
    for gap, winner in ((20.0, 0), (30.0, 1), (40.0, 2), (60.0, 3)):
        h = rng.uniform(0, 3, size=4)
        h[winner] += gap
        cases.append((h, np.array([0.9, 1.0, 0.3, -0.5]) + rng.uniform(0, 0.05, size=4)))
    return cases


CURE = Exercise(
    id="05.5",
    title="Cure the cancellation",
    points=2,
    minutes=10,
    difficulty=2,
    reference=_output_gradient,
    cases=_saturated_cases,
    compare=Compare(rtol=1e-6, atol=0.0),
    misconceptions=known(
        _textbook,
        "This is the textbook formula: right on paper, but at a large logit gap g_a - f subtracts two "
        "numbers that agree to all their digits. Write it with differences of values from the start.",
        lambda h, g: _textbook(h, g - g.max()),
        "You anchored at the token of largest value. Anchor at the token of largest *logit*: it is the "
        "winner's own entry that cancels, whatever its value.",
        lambda h, g: _textbook(h, g - g[0]),
        "You anchored at token 0. Anchor at the token of largest logit, which need not be the first.",
        _winner_at_zero,
        "The winner's entry is missing. g_a - g_a is 0, its gradient is not: the entries of u sum to 0.",
        _winner_from_one_minus_s,
        "1 - s_a cancels just as badly: at a gap of 40 it is 0. Add up the other weights instead.",
    ),
)

# 05.6


def _gradient_direction(h, g):
    h = torch.as_tensor(h, dtype=torch.float64).requires_grad_()
    (softmax(h, batch_dims=0) * torch.as_tensor(g, dtype=torch.float64)).sum().backward()
    return (h.grad / h.grad.abs().max()).numpy()


def _row(a):
    return a.max(-1, keepdims=True)


def _direction_with(factor=np.max, size=np.max, sign=np.sign, anchor=1, winners=1, epsilon=0.0):
    """The lesson's solution with one step done otherwise: the factor c, the last division, ..."""

    def answer(h, g):
        winner = np.arange(h.shape[-1]) == h.argmax(-1)[:, None]
        gap = h - _row(h)
        log_s = gap - np.log(np.exp(gap).sum(-1, keepdims=True))
        g = g - anchor * g[winner][:, None]
        advantage = g - (np.exp(log_s) * g).sum(-1, keepdims=True)
        with np.errstate(divide="ignore"):
            log_u = np.where(winner, -np.inf, log_s + np.log(np.abs(advantage) + epsilon))
        u = sign(advantage) * np.exp(log_u - factor(log_u))
        u = np.where(winner, -winners * u.sum(-1, keepdims=True), u)
        return u / size(np.abs(u))

    return answer


def _divided_afterwards(h, g):
    s, g = _np_softmax(h), g - np.take_along_axis(g, h.argmax(-1)[:, None], -1)
    u = s * (g - (s * g).sum(-1, keepdims=True))
    with np.errstate(invalid="ignore"):
        return u / np.abs(u).max()


def _direction_cases(rng):
    """Gaps up to 5,000; last, close rivals with nearly the winner's value, where g_t - f easily drowns."""
    cases = []
    for gap in (2.0, 50.0, 900.0, 5000.0):
        h = rng.uniform(-2, 2, size=(3, 4))
        h[np.arange(3), [1, 0, 3]] += gap + np.array([0.0, 2.0, 4.0])
        cases.append((h, rng.normal(size=(3, 4))))
    close = rng.uniform(0.5, 1.5, size=(3, 2))
    h = np.concatenate([np.zeros((3, 1)), -close, np.full((3, 1), -27.0)], axis=1)
    value = rng.uniform(0.5, 1.0, size=(3, 1))
    g = np.concatenate([value, value - 1e-12 * rng.uniform(1, 2, size=(3, 2)), np.zeros((3, 1))], axis=1)
    return [*cases, (h, g)]


DIRECTION = Exercise(
    id="05.6",
    title="A direction that cannot underflow",
    points=3,
    minutes=15,
    difficulty=3,
    reference=_gradient_direction,
    cases=_direction_cases,
    misconceptions=known(
        _divided_afterwards,
        "Every rival underflowed: take the logarithm before you exponentiate.",
        _direction_with(factor=_row),
        "You took out a factor c in each row: the rows lose their proportions. Use one c for the array.",
        _direction_with(size=_row),
        "You divided each row by its own largest entry: the rows lose their proportions. Use one number.",
        _direction_with(factor=_row, size=lambda u: 1),
        "One factor c for the whole array, not one a row; and divide once more by the largest |u_it|.",
        _direction_with(size=lambda u: 1),
        "The last division is missing: a winner's entry, a sum over its rivals, may exceed 1.",
        _direction_with(winners=0),
        "The winner's entry is missing: after the scaling, set it to minus the sum of the others.",
        _direction_with(sign=np.ones_like),
        "The signs are lost: the logarithm sees |g_t - f|, so multiply by sign(g_t - f) afterwards.",
        _direction_with(anchor=0),
        "Some g_t - f has cancelled, at values close to the winner's. Anchor at the winner, as in 05.5.",
        _direction_with(epsilon=1e-8),
        "The constant in your logarithm drowns small g_t - f. Away from the winner none is needed.",
    ),
)

EXERCISES = [SOFTMAX, GRADIENT, PROMPT, NORM, CURE, DIRECTION]
