"""Exercises of lesson 05: softmax attention, its gradient, and what becomes of both far out."""

import numpy as np
import torch
from scipy.optimize import nnls

from course.check.specification import Compare, Exercise, known
from mini_attn.softmax import softmax


def _np_softmax(h):
    e = np.exp(h - h.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


# 05.1


def _output_gradient(h, g):
    h = torch.as_tensor(h, dtype=torch.float64).requires_grad_()
    (softmax(h) * torch.as_tensor(g, dtype=torch.float64)).sum().backward()
    return h.grad.numpy()


GRADIENT = Exercise(
    id="05.1",
    title="The gradient in the logits",
    points=2,
    minutes=8,
    difficulty=1,
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
        lambda h, g: -_output_gradient(h, g),
        "The sign is reversed: a token of a value above the output f raises f, so its entry is positive.",
        lambda h, g: _np_softmax(h) * g - _np_softmax(h) @ g,
        "s_t stands before the whole bracket: s_t (g_t - f), not s_t g_t - f.",
    ),
)

# 05.2


def _unit(p):
    return p / np.linalg.norm(p)


def _lengthening(p, keys, g):
    return float(_output_gradient(keys @ p, g) @ keys @ _unit(p))


def _lengthening_with(
    weights=lambda p, keys: _np_softmax(keys @ p), bracket=lambda s, g: s * (g - s @ g), speeds=lambda h: h
):
    def answer(p, keys, g):
        return float(bracket(weights(p, keys), g) @ speeds(keys @ _unit(p)))

    return answer


def _lengthening_cases(rng):
    """The toy to the left, where the best token leads and f falls; then random keys, p not of length one."""
    cases = [(np.array([-0.5, 0.0]), np.array([[-0.1, 1.0], [1, 0], [0, 0]]), np.array([1, 0.9, 0.0]))]
    for T, d in ((3, 2), (4, 3), (6, 2)):
        p = rng.uniform(1.5, 3) * _unit(rng.normal(size=d))
        cases.append((p, rng.normal(size=(T, d)), rng.normal(size=T)))
    return cases


LENGTHENING = Exercise(
    id="05.2",
    title="Does a longer p help?",
    points=2,
    minutes=10,
    difficulty=2,
    reference=_lengthening,
    cases=_lengthening_cases,
    misconceptions=known(
        lambda p, keys, g: _lengthening(p, keys, g) * np.linalg.norm(p),
        "That is p . grad f. Per unit of length a logit grows by k_t . p / ||p||: divide by the length of p.",
        lambda p, keys, g: _lengthening(p, keys, g) / np.linalg.norm(p),
        "You divided by the length of p twice: a logit grows by k_t . p / ||p|| per unit of length.",
        _lengthening_with(weights=lambda p, keys: np.full(len(keys), 1 / len(keys))),
        "Your weights are all 1 / T: that is the slope at p = 0. Take the attention at p.",
        _lengthening_with(weights=lambda p, keys: _np_softmax(keys @ _unit(p))),
        "You took the attention at p / ||p||. The direction alone is not enough: take it at p.",
        _lengthening_with(bracket=lambda s, g: s * g),
        "The gradient of f in the logits is s_t (g_t - f), as in exercise 05.1, not s_t g_t.",
        _lengthening_with(bracket=lambda s, g: g - s @ g),
        "The gradient in the logits has the factor s_t before the bracket: exercise 05.1.",
        _lengthening_with(bracket=lambda s, g: s * (g - g.mean())),
        "You compared the values with their plain mean. Compare them with the layer's own output f.",
        lambda p, keys, g: float(np.linalg.norm(_output_gradient(keys @ p, g) @ keys)),
        "That is the length of the gradient: how f grows if p moves along the gradient. Here p moves along "
        "itself.",
        lambda p, keys, g: _output_gradient(keys @ p, g) @ keys,
        "That is the gradient in p, a vector. How fast does f grow along the direction of p?",
        lambda p, keys, g: float(_output_gradient(keys @ p, g).sum()),
        "The entries of the gradient in the logits sum to 0. Each counts as fast as its logit grows.",
        lambda p, keys, g: -_lengthening(p, keys, g),
        "The sign is reversed: f grows where the tokens whose logits grow are worth more than f.",
        lambda p, keys, g: abs(_lengthening(p, keys, g)),
        "Keep the sign: f may fall as p gets longer, even where the best token leads.",
        _lengthening_with(speeds=lambda h: np.where(h == h.max(), h, 0)),
        "You let the winner's logit grow alone. All logits change with the length of p.",
        _lengthening_with(speeds=np.abs),
        "A logit may fall as p gets longer: k_t . p / ||p||, with its sign.",
    ),
)

# 05.3


def _crawl_with(
    rival=lambda keys, g: np.argmax(g < g[0]),
    pull=lambda lead, worth: lead**2 * worth,
    divide=True,
    step=lambda eta: eta,
):
    """log(eta * pull * j) / lead, on the rival that sets the pace."""

    def answer(keys, g, eta, j):
        t = rival(keys, g)
        lead = keys[0] - keys[t]
        return float(np.log(step(eta) * pull(lead, g[0] - g[t]) * j) / (lead if divide else 1))

    return answer


def _crawl_cases(rng):
    """Keys that fall, values that fall after none (a little), one or two that tie with the winner's."""
    cases = []
    for tied, eta, T in ((0, 0.5, 3), (1, 0.3, 3), (2, 2.5, 5)):
        keys = rng.uniform(-1, 1) - np.cumsum(rng.uniform(0.4, 0.8, T))
        g = rng.uniform(0.5, 1.5) - np.cumsum(rng.uniform(0.1, 0.4, T))
        g[1 : tied + 1] = g[0]
        if not tied:  # a value just below the winner's is no tie
            g = np.concatenate([[20.0, 19.9999], g[2:]])
        cases.append((keys, g, eta, int(rng.integers(10**6, 10**8)) * (1 if tied else 10**4)))
    return cases


CRAWL = Exercise(
    id="05.3",
    title="Who sets the pace?",
    points=2,
    minutes=12,
    difficulty=2,
    reference=_crawl_with(),
    cases=_crawl_cases,
    compare=Compare(rtol=1e-4),  # terms that die out are welcome: log(1 + ...) of the differential equation
    misconceptions=known(
        lambda keys, g, eta, j: (
            _crawl_with()(keys, g, eta, j) * (keys[0] - keys[np.argmax(g < g[0])]) / (keys[0] - keys[1])
        ),
        "You divide by the lead over the nearest rival. Divide by the lead over the rival that pulls: one of "
        "the winner's own value does not.",
        _crawl_with(rival=lambda keys, g: 1, pull=lambda lead, worth: lead**2 * (worth or 1.0)),
        "Right if the nearest rival has another value than the winner. If it has the same, its bracket "
        "g_t - f is as small as 1 - f itself: its push is a product of two small numbers. Look further.",
        _crawl_with(rival=lambda keys, g: 1, pull=lambda lead, worth: lead**2 * worth + 1e-300),
        "You took the nearest rival, guarded against a logarithm of 0. One of the winner's own value does "
        "not pull: take the nearest of lower value.",
        _crawl_with(rival=lambda keys, g: len(g) - 1),
        "You took the last token. Its attention is the smallest: the nearest rival that pulls decides.",
        _crawl_with(pull=lambda lead, worth: worth),
        "The lead appears twice in the pace: once in the gradient in p, and once because the exponent "
        "grows by lead times p. Integrate dp/dj = eta worth lead exp(-lead p).",
        _crawl_with(pull=lambda lead, worth: lead * worth),
        "One factor is missing: with dp/dj = eta worth lead exp(-lead p), the derivative of exp(lead p) has "
        "the lead once more.",
        _crawl_with(pull=lambda lead, worth: lead**2),
        "The difference of the values is missing: it scales the gradient.",
        _crawl_with(step=lambda eta: 1.0),
        "The step size is missing: j steps of eta go as far as eta j steps of 1.",
        _crawl_with(divide=False),
        "That is the lead, (k_1 - k_t) p. Divide it by k_1 - k_t to have p.",
        _crawl_with(rival=lambda keys, g: 1),
        "You took the second token. Where its value is the winner's, their pair does not pull: the first "
        "token of lower value sets the pace.",
        lambda keys, g, eta, j: _crawl_with()(keys, g, eta, j) / (keys[0] - keys[np.argmax(g < g[0])]),
        "Divide the logarithm by k_1 - k_t once: it is (k_1 - k_t) p.",
        lambda keys, g, eta, j: eta * _crawl_with(step=lambda eta: 1.0)(keys, g, eta, j),
        "The step stands inside the logarithm: exp(lead p) grows by eta lead^2 worth a step.",
    ),
)

# 05.4


def _textbook(h, g):
    s = _np_softmax(h)
    return s * (g - s @ g)


def _winner_at_zero(h, g):
    slopes = _textbook(h, g - g[np.argmax(h)])
    slopes[np.argmax(h)] = 0
    return slopes


def _winner_from_one_minus_s(h, g):
    a = np.argmax(h)
    s, others = _np_softmax(h), np.delete(np.arange(len(h)), a)
    slopes = _textbook(h, g - g[a])
    slopes[a] = s[a] * (1 - s[a]) * (g[a] - s[others] @ g[others] / s[others].sum())
    return slopes


def _minus_the_rivals(h, g):
    slopes = _textbook(h, g)
    slopes[np.argmax(h)] = -np.delete(slopes, np.argmax(h)).sum()
    return slopes


def _winner_in_brackets(h, g):
    slopes, a = _textbook(h, g), np.argmax(h)
    s = _np_softmax(h)
    slopes[a] = s[a] * (s * (g[a] - g)).sum()
    return slopes


def _saturated_cases(rng):
    """Leads of 0 to 60, the winner not always the token of largest value; at last a rival of its value."""
    cases = [(rng.normal(size=4), rng.normal(size=4))]
    for lead, winner in ((60.0, 2), (20.0, 0), (30.0, 1), (45.0, 3)):
        h = rng.uniform(0, 3, size=4)
        h[winner] += lead
        cases.append((h, np.array([1.9, 2.0, 1.3, 0.5]) + rng.uniform(0, 0.05, size=4)))
    h[0], cases[-1][1][0] = h[winner] - rng.uniform(5, 8), cases[-1][1][winner]
    return cases


def _winner_turned(h, g):
    slopes = _textbook(h, g - g[np.argmax(h)])
    slopes[np.argmax(h)] *= -1
    return slopes


CURE = Exercise(
    id="05.4",
    title="Cure the cancellation",
    points=2,
    minutes=6,
    difficulty=2,
    reference=_output_gradient,
    cases=_saturated_cases,
    compare=Compare(rtol=1e-6, atol=0.0),
    misconceptions=known(
        _textbook,
        "This is the textbook formula: right on paper, but at a large lead g_a - f subtracts two "
        "numbers that agree to all their digits. Write it with differences of values from the start.",
        lambda h, g: _textbook(h.astype(np.longdouble), g.astype(np.longdouble)).astype(float),
        "More digits move the wall, they do not take it away: at a lead of 60 these are lost as well. Write "
        "the bracket with differences of values from the start.",
        lambda h, g: _textbook(h, g - g.mean()),
        "You measured the values from their mean. That moves the wall a little; only the winner's own value, "
        "subtracted, takes it away.",
        lambda h, g: _textbook(h, g - g.max()),
        "You measured the values from the largest. Measure them from the token of largest *logit*: it is the "
        "winner's own entry that cancels, whatever its value.",
        lambda h, g: _textbook(h, g - g[0]),
        "You measured the values from token 0. Take the token of largest logit, which need not be the first.",
        lambda h, g: _textbook(h, g - 1),
        "You subtracted 1. That is the winner's value in the example only: subtract the winner's own.",
        _minus_the_rivals,
        "That cures the winner's entry. A rival of the same value cancels too: its g_t - f is as small.",
        _winner_in_brackets,
        "That cures only the winner's entry. A rival of the same value cancels too: its g_t - f is as small.",
        _winner_at_zero,
        "The winner's entry is missing. g_a - g_a is 0, its gradient is not: the entries sum to 0.",
        _winner_from_one_minus_s,
        "1 - s_a cancels just as badly: at a lead of 40 it is 0. Add up the other weights instead.",
        _winner_turned,
        "The winner's entry has the wrong sign: the entries sum to 0, so it is minus the sum of the others.",
        lambda h, g: g - g[np.argmax(h)] - _np_softmax(h) @ (g - g[np.argmax(h)]),
        "g_t - f is multiplied by s_t: a token that gets no attention has no say.",
    ),
)

# 05.5


def _nearest(points):
    """The point nearest to the origin, (d,), in the hull of points (m, d); zeros if the origin is inside."""
    weights, _ = nnls(np.vstack([points.T, np.ones(len(points))]), np.append(np.zeros(points.shape[1]), 1.0))
    point = weights @ points / weights.sum()
    return point if np.linalg.norm(point) > 1e-9 else np.zeros_like(point)


def _away(point):
    """Minus the point, at length one; zeros for zeros."""
    return -point / max(np.linalg.norm(point), 1e-9)


def _broken_with(point=_nearest, escapes=lambda k, n: k @ n < n @ n, sign=1.0, origin=lambda keys: 0):
    """Away from the point of the rivals' hull nearest to an origin, at length one, if the winner keeps up."""

    def answer(keys):
        shifted = keys - origin(keys)
        n = point(shifted[1:])
        return sign * _away(n) if escapes(shifted[0], n) else np.zeros_like(n)

    return answer


def _if_leads_grow(growing, point=_nearest):
    """Away from a point, if the growth of the leads along this way is enough."""

    def answer(keys):
        direction = _away(point(keys[1:]))
        return direction if growing((keys[0] - keys[1:]) @ direction) else np.zeros_like(direction)

    return answer


def _broken_hull_of_all(keys):
    direction = _away(_nearest(keys))
    return direction if ((keys[0] - keys[1:]) @ direction > 0).all() else np.zeros_like(direction)


def _broken_cases(rng):
    """Losers of which two share, or one steers alone, and others behind; some escape (level < 1), some stay.

    The last: the rivals surround the origin.
    """
    cases = []
    for d, foot, away, level, behind in (
        (2, (-0.6, 0.9), -0.4, 0.5, 1),
        (2, (-0.7, 0.5), 0.5, 1.5, 2),
        (3, (0.5, 1.3), -0.5, -0.5, 3),
        (3, (-1.4, -0.6), 0.5, 0.997, 1),  # all leads grow, one hardly
        (4, (5.0, 0.6), 0.3, 1.5, 0),  # the lead over the first rival grows, and more
        (3, (-0.8, 0.6), -0.6, 1.003, 2),
        (2, (0.6, 5.0), 0.3, 1.5, 0),  # the lead over the second rival grows, and more
    ):
        frame = np.linalg.qr(rng.normal(size=(d, d)))[0]
        size = rng.uniform(0.9, 1.3)
        pair = np.array([size * (frame[0] + (x + rng.uniform(-0.1, 0.1)) * frame[1]) for x in foot])
        nearest = _nearest(pair)
        across = pair[1] - pair[0] - (pair[1] - pair[0]) @ nearest / (nearest @ nearest) * nearest
        height = 1 + (level - 1) * rng.uniform(0.6, 1.4)
        winner = height * nearest + rng.uniform(1.5, 2.0) * away * across / np.linalg.norm(across)
        far = rng.uniform(1.6, 2.2, (behind, 1)) * nearest + rng.uniform(-0.5, 0.5, (behind, 1)) * across
        cases.append((np.vstack([winner, pair[0], far, pair[1]]),))
    around = rng.uniform(0, 2 * np.pi) + np.arange(4) * np.pi / 2 + rng.uniform(-0.5, 0.5, 4)
    rivals = rng.uniform(0.8, 1.5, (4, 1)) * np.stack([np.cos(around), np.sin(around)], axis=1)
    return [*cases, (np.vstack([rng.normal(size=2), rivals]),)]


BROKEN = Exercise(
    id="05.5",
    title="Where the broken run goes",
    points=4,
    minutes=12,
    difficulty=3,
    reference=_broken_with(),
    cases=_broken_cases,
    misconceptions=known(
        _broken_with(escapes=lambda k, n: True),
        "Your direction is right, but does every lead of token 1 grow along it? With its true key one may "
        "fall, and then the run stays: zeros.",
        _broken_with(sign=-1.0),
        "The sign is reversed: the rivals' entries are negative, and the run moves away from their keys.",
        _if_leads_grow(lambda growth: (growth > 0).all(), point=lambda rivals: rivals.mean(axis=0)),
        "The rivals do not pull alike: whoever has the larger logit pulls more, until they are level, or for "
        "ever. It is not the mean of their keys that counts.",
        _if_leads_grow(
            lambda growth: (growth > 0).all(), point=lambda rivals: min(rivals, key=np.linalg.norm)
        ),
        "You took the shortest key of a rival for the point. It steers alone only if the other logits stay "
        "behind. If one catches up, they share, and all leads may grow.",
        _broken_hull_of_all,
        "You took the hull of all keys. The winner's own entry is 0: its key is not in the steps.",
        _broken_with(escapes=lambda k, n: False),
        "You return zeros on every input. Does your direction lead *away* from the rivals' hull, and did you "
        "leave the winner's key, and the origin in its place, out of that hull?",
        _broken_with(origin=lambda keys: keys[0], escapes=lambda k, n: True),
        "That is where the *true* gradient goes. Without the winner's entry its key is not in the steps.",
        _broken_with(escapes=lambda k, n: k @ n < 0),
        "You ask too much: the run escapes as soon as every *lead* of token 1 grows, however slowly. Its own "
        "logit may even fall, but less than the rivals'.",
        _if_leads_grow(lambda growth: growth.mean() > 0),
        "You judge by the mean of the leads. Every lead has to grow: the smallest one decides.",
        _broken_with(escapes=lambda k, n: k @ n > n @ n),
        "You have the two cases exchanged: zeros are for a lead that falls.",
    ),
)

EXERCISES = [GRADIENT, LENGTHENING, CRAWL, CURE, BROKEN]
