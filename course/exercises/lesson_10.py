"""Exercises of lesson 10: cross- and self-attention."""

import numpy as np

from course.check.specification import Compare, Exercise, Misconception, known


# --------------------------------------------------------------------------- 10.1 the first step
def _slope(u):
    """|l'(u)| of the logistic loss."""
    return 1 / (1 + np.exp(u))


def _centred(scores):
    return scores - scores.mean(axis=1, keepdims=True)


def _first_by(
    taste=_centred,
    slope=lambda scores: _slope(scores.mean(axis=1)),
    share=lambda X: 1 / X.shape[1],  # every token's attention at W = 0
    alike=lambda z: z @ z.T,
    mean=lambda X: 1 / len(X),
    length=lambda lr: lr,
    final=lambda h: h,
):
    """Logits after a step, from what each sequence pulls with and how alike the queries are."""

    def answer(X, z, scores, lr):
        pull = np.einsum("kt,ktd->kd", taste(scores), X) * np.reshape(slope(scores), (-1, 1)) * share(X)
        return final(length(lr) * mean(X) * np.einsum("ik,kd,itd->it", alike(z), pull, X))

    return answer


_first = _first_by()


def _cosines(z):
    unit = z / np.linalg.norm(z, axis=1, keepdims=True)
    return unit @ unit.T


def _transposed(X, z, scores, lr):
    pull = np.einsum("kt,ktd->kd", _centred(scores), X) * _slope(scores.mean(axis=1))[:, None]
    return lr / len(X) / X.shape[1] * np.einsum("kd,id,itf,kf->it", pull, z, X, z)


def _softmax(h):
    e = np.exp(h - h.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def _first_cases(rng):
    """Queries and scores of any size: means of both signs, so that slopes differ."""
    cases = []
    for n, T, d in ((2, 2, 2), (3, 4, 5), (5, 3, 4)):
        X, z = rng.normal(size=(n, T, d)), rng.normal(size=(n, d))
        level = rng.permutation(np.linspace(-1.5, 1.5, n))[:, None]
        scores = level + _centred(rng.normal(size=(n, T))) + rng.uniform(0.1, 0.4, size=(n, 1))
        cases.append((X, z, scores, rng.uniform(1.5, 3)))
    return cases


def _same_place(X, z, scores, lr):
    """As if a token felt, of each sequence, the token in its own place alone."""
    pull = _slope(scores.mean(axis=1))[:, None] * _centred(scores) / X.shape[1]
    return lr / len(X) * np.einsum("kt,ktd,itd,ik->it", pull, X, X, z @ z.T)


FIRST = Exercise(
    id="10.1",
    title="The first step, without a matrix",
    points=2,
    minutes=12,
    difficulty=2,
    reference=_first,
    cases=_first_cases,
    misconceptions=known(
        lambda *args: -_first(*args),
        "The sign: a step goes down the gradient, and l' is negative, so tokens with good scores go up.",
        _first_by(mean=lambda X: 1),
        "L is the mean over the sequences: divide by n.",
        _first_by(share=lambda X: 1),
        "At W = 0 every token has the attention 1/T, which stands in the slope of u in a logit.",
        _first_by(share=lambda X: 1 / X.shape[1] ** 2),
        "The slope of u in a logit is s_t (gamma_t - mean): one factor 1/T, not two.",
        _first_by(slope=lambda scores: np.ones(len(scores))),
        "The slope of the loss is missing: sequence k counts with |l'(u_k)| = 1 / (1 + exp(u_k)).",
        _first_by(slope=lambda scores: np.full(len(scores), 0.5)),
        "|l'(u)| is 1/2 at u = 0. At W = 0 the logits are zero, but u_k is the mean score of sequence k.",
        _first_by(slope=lambda scores: np.exp(-scores.mean(axis=1))),
        "exp(-u) is the slope of the exponential loss. The logistic loss has 1 / (1 + exp(u)).",
        _first_by(slope=lambda scores: _slope(-scores.mean(axis=1))),
        "Wrong sign in the exponent: |l'(u)| = 1 / (1 + exp(u)) is small where u is large.",
        _first_by(slope=lambda scores: _slope(np.full(len(scores), scores.mean()))),
        "L is the mean of the losses, not the loss of the mean u: each sequence has its own slope.",
        _first_by(slope=lambda scores: _slope(scores.sum(axis=1))),
        "u_k is the mean of the scores, not their sum: at W = 0 every token has the attention 1/T.",
        _first_by(slope=lambda scores: _slope(scores.max(axis=1))),
        "u_k is the mean of the scores: at W = 0 the best token has no more attention than any other.",
        _first_by(taste=lambda scores: scores),
        "A token pulls with its score minus the mean score: attention that one gains the others lose.",
        _first_by(alike=lambda z: np.diag((z * z).sum(axis=1))),
        "That is what each sequence does to itself. Every other one changes the same W: sum over k.",
        _first_by(alike=lambda z: z @ z.T - np.diag((z * z).sum(axis=1))),
        "Sequence i itself is one of the k: keep the term k = i.",
        _first_by(alike=lambda z: np.ones((len(z), len(z)))),
        "That is a step of p, as if all asked the same question. Sequence k counts by z_k . z_i.",
        _first_by(alike=_cosines),
        "Queries count with their lengths: z_k . z_i, not its cosine.",
        _transposed,
        "Transposed: the derivative of x^T W z in W is x z^T, tokens on the left, the query on the right.",
        _first_by(length=lambda lr: 1),
        "The step has the factor lr.",
        _first_by(length=lambda lr: lr**2),
        "One step, one factor lr: the logits are linear in W.",
        _first_by(final=_softmax),
        "The logits are asked, not the attention.",
        _first_by(final=_centred),
        "The logits themselves are asked, with what all tokens of a sequence have in common.",
        _first_by(
            taste=lambda scores: _slope(scores) * _centred(scores), slope=lambda scores: np.ones(len(scores))
        ),
        "The loss of a sequence has one slope, that at u_k, its mean score: not one for each token.",
        _first_by(mean=lambda X: 1, share=lambda X: 1),
        "Two factors are missing: 1/n, as L is a mean, and 1/T, the attention of every token at W = 0.",
        _first_by(taste=lambda scores: scores, slope=lambda scores: np.ones(len(scores))),
        "Two things: the slope |l'(u_k)| of the loss is missing, and a token pulls with its score minus u_k.",
        _first_by(mean=lambda X: 1, slope=lambda scores: np.ones(len(scores))),
        "Two factors are missing: 1/n, as L is a mean, and the slope |l'(u_k)| = 1 / (1 + exp(u_k)).",
        _first_by(share=lambda X: 1, slope=lambda scores: np.ones(len(scores))),
        "Two factors are missing: the attention 1/T, and the slope |l'(u_k)| = 1 / (1 + exp(u_k)).",
        _first_by(mean=lambda X: 1, taste=lambda scores: scores),
        "Two things: L is a mean, so divide by n, and a token pulls with its score minus the mean score u_k.",
        _first_by(share=lambda X: 1, taste=lambda scores: scores),
        "Two things: the attention 1/T is missing, and a token pulls with its score minus the mean u_k.",
        _first_by(mean=lambda X: 1, final=lambda h: -h),
        "Two things: the sign, as a step goes down the gradient, and 1/n, as L is a mean.",
        _first_by(share=lambda X: 1, final=lambda h: -h),
        "Two things: the sign, as a step goes down the gradient, and 1/T, the attention at W = 0.",
        _same_place,
        "Each token is compared with all tokens of sequence k, not only with the one in its own place.",
    ),
)


# --------------------------------------------------------------------------- 10.2 what symmetry leaves
def _axis_by(
    c=lambda W, v: v @ W @ v / (v @ v),
    b=lambda W, c: (np.trace(W) - c) / (len(W) - 1),
    form=lambda b, c, P: b * (np.eye(len(P)) - P) + c * P,
):
    """b (I - ee^T) + c ee^T for the unit vector e along v."""

    def answer(W, v):
        along = c(W, v)
        return form(b(W, along), along, np.outer(v, v) / (v @ v))

    return answer


_axis = _axis_by()


def _blocks(W, v):
    """Keeps the block along v and the whole block across it: what v -> -v leaves alone."""
    P = np.outer(v, v) / (v @ v)
    Q = np.eye(len(W)) - P
    return P @ W @ P + Q @ W @ Q


def _keeps_row(W, v):
    """Keeps all that W answers along v, what it asks across v too."""
    P = np.outer(v, v) / (v @ v)
    return P @ W + _axis(W, v) @ (np.eye(len(W)) - P)


def _long(W, v):
    """Takes v for a unit vector."""
    P, c = np.outer(v, v), v @ W @ v
    return (np.trace(W) - c) / (len(W) - 1) * (np.eye(len(W)) - P) + c * P


def _one_axis(W, v):
    entry = np.diag(W)
    return np.diag(np.where(np.arange(len(v)) == np.abs(v).argmax(), entry[np.abs(v).argmax()], entry.mean()))


def _sampled(W, v):
    """The mean over 2,000 random orthogonal matrices that leave v alone."""
    rng, d = np.random.default_rng(0), len(v)
    basis = np.linalg.qr(np.column_stack([v, rng.normal(size=(d, d - 1))]))[0]
    turn = np.zeros((2000, d, d))
    turn[:, 0, 0] = 1
    Q, upper = np.linalg.qr(rng.normal(size=(2000, d - 1, d - 1)))
    turn[:, 1:, 1:] = Q * np.sign(np.einsum("kii->ki", upper))[:, None]
    omega = basis @ turn @ basis.T
    return np.mean(omega.transpose(0, 2, 1) @ W @ omega, axis=0)


def _axis_cases(rng):
    """Any W, not symmetric; v of any length; the plane too."""
    return [(rng.normal(size=(d, d)), rng.uniform(1.5, 3) * rng.normal(size=d)) for d in (3, 5, 2, 4)]


AXIS = Exercise(
    id="10.2",
    title="What symmetry leaves of W",
    points=3,
    minutes=20,
    difficulty=3,
    reference=_axis,
    cases=_axis_cases,
    misconceptions=[
        *known(
            lambda W, v: np.trace(W) / len(W) * np.eye(len(W)),
            "That would be right if all directions were alike. But v is special: Omega leaves it.",
            _axis_by(b=lambda W, c: np.trace(W) / len(W)),
            "b is the mean of W across v only: take v's own share from the trace, and divide by d - 1.",
            _axis_by(b=lambda W, c: np.trace(W) / (len(W) - 1)),
            "The trace still contains b_v, the share along v: take it away.",
            _axis_by(b=lambda W, c: (np.trace(W) - c) / len(W)),
            "There are d - 1 directions across v, not d.",
            _axis_by(b=lambda W, c: 0.0),
            "Only the part along v. Across v a multiple of the identity survives too.",
            _axis_by(form=lambda b, c, P: b * (np.eye(len(P)) - P)),
            "Only the part across v. Along v survives (v^T W v) vv^T / |v|^4.",
            _axis_by(form=lambda b, c, P: b * np.eye(len(P)) + c * P),
            "b acts across v only: b (I - ee^T), so that along v there is b_v alone.",
            _axis_by(form=lambda b, c, P: c * (np.eye(len(P)) - P) + b * P),
            "The two numbers are exchanged: v^T W v / v.v belongs along v.",
            _axis_by(c=lambda W, v: v @ W @ v),
            "v^T W v grows with the square of v's length: divide by v.v.",
            _axis_by(c=lambda W, v: v @ W @ v / np.linalg.norm(v)),
            "v stands twice in v^T W v: divide by v.v, not by its length.",
            _long,
            "v need not have length one: divide by v.v.",
            _blocks,
            "Across v, a block that every Omega leaves alone is a multiple of the identity.",
            _axis_by(b=lambda W, c: np.trace(W) / len(W), form=lambda b, c, P: b * np.eye(len(P)) + c * P),
            "Two things: b is the mean of W across v only, and it acts across v only: b (I - ee^T).",
            _keeps_row,
            "Between v and the directions across it nothing survives: reflections across v change its sign.",
            lambda W, v: (W + W.T) / 2,
            "That averages W with its transpose. The average is over the Omega that leave v alone.",
            lambda W, v: W - _axis(W, v),
            "That is what the average removes.",
            _one_axis,
            "v is not a coordinate axis: its share is v^T W v / v.v, with the projection vv^T / v.v.",
        ),
        Misconception(
            _sampled,
            "Close, but not exact. If it is an average over samples: the exact one has two numbers.",
            Compare(rtol=0, atol=0.2),  # whatever the draws
        ),
    ],
)


# --------------------------------------------------------------------------- 10.3 when random queries disturb
def _noise(n, T, d):
    return np.sqrt((n - 1) * (T - 1)) / d


def _noise_cases(rng):
    """Sizes at which the law is near; no two of the formulas agree on all."""
    sizes = ((40, 90, 3, 5, 40, 60), (200, 400, 6, 9, 80, 120), (12, 30, 10, 14, 20, 30))
    return [tuple(int(rng.integers(*size[k : k + 2])) for k in (0, 2, 4)) for size in sizes]


NOISE = Exercise(
    id="10.3",
    title="When do random queries disturb?",
    points=2,
    minutes=10,
    difficulty=2,
    reference=_noise,
    cases=_noise_cases,
    misconceptions=known(
        lambda n, T, d: (n - 1) * (T - 1) / d**2,
        "That is sigma squared, the ratio of the variances: take the root.",
        lambda n, T, d: np.sqrt(n * (T - 1)) / d,
        "Sequence i does not disturb itself: the others are n - 1.",
        lambda n, T, d: np.sqrt((n - 1) * T) / d,
        "u_k is taken away: of the T scores' squares (T - 1)/d are left in the mean, not T/d.",
        lambda n, T, d: np.sqrt(n * T) / d,
        "Two things: the others are n - 1, and without their mean the T scores' squares sum to (T - 1)/d.",
        lambda n, T, d: np.sqrt(n - 1) / d,
        "A pull is made of T tokens: |g_k|^2 is the sum of T squares (gamma - u)^2, so T - 1 comes in.",
        lambda n, T, d: np.sqrt((n - 1) / d),
        "That is z_k . z_i alone, n - 1 times. g_k has the length sqrt((T - 1)/d) / (2T), and meets x_it.",
        lambda n, T, d: np.sqrt((n - 1) * (T - 1) / d),
        "Another unit product is missing: z_k . z_i and g_k's direction times x_it are d^(-1/2) each.",
        lambda n, T, d: (n - 1) * np.sqrt(T - 1) / d,
        "The terms have random signs: their squares add up, so the n - 1 stands under the root.",
        lambda n, T, d: np.sqrt(n - 1) * (T - 1) / d,
        "The tokens of a pull point in random directions too: their squares add up, so a root of T - 1.",
        lambda n, T, d: (n - 1) * (T - 1) / d,
        "The terms have random signs, and so have the tokens of a pull: squares add up, one root over both.",
        lambda n, T, d: (n - 1) / d**2,
        "The number of others over the entries of W: the noise's squares add up, so take a root, and T - 1.",
        lambda n, T, d: np.sqrt((n - 1) * (T - 1)) / d**1.5,
        "Divide by the own amount's deviation: the scores have d^(-1/2) too.",
        lambda n, T, d: np.sqrt((n - 1) * (T - 1)) / (2 * T * d**1.5),
        "That is the noise (over eta/n). Divide it by the own amount's deviation, 1 / (2T sqrt(d)).",
        lambda n, T, d: np.sqrt((n - 1) * (T - 1)) / (2 * T * d),
        "1/(2T) stands in the own amount too, and cancels.",
        lambda n, T, d: np.sqrt((n - 1) * (T - 1)) / (n * d),
        "The factor eta/n stands in the own amount too, and cancels.",
        lambda n, T, d: np.sqrt((T - 1) / (n - 1)) / d,
        "More sequences make more noise: eta/n is common to both, and the n - 1 terms' squares add up.",
        lambda n, T, d: np.sqrt(T - 1) / d,
        "That is the noise of one other sequence: there are n - 1, and their squares add up.",
        lambda n, T, d: d / np.sqrt((n - 1) * (T - 1)),
        "One over it: the noise over the own amount is asked.",
    ),
)


# --------------------------------------------------------------------------- 10.4 how fast the error falls
def _falls_by(growth, d):
    return growth ** (1 / (d - 1))


def _power(exponent):
    return lambda growth, d: growth ** exponent(d)


def _falls_cases(rng):
    """From dimensions where a root is as good as another only one at a time."""
    return [(rng.uniform(3, 20), d) for d in (5, 3, 2, 8, 20)]


FALLS = Exercise(
    id="10.4",
    title="How fast the error falls",
    points=3,
    minutes=22,
    difficulty=3,
    reference=_falls_by,
    cases=_falls_cases,
    misconceptions=known(
        _power(lambda d: 1 / d),
        "The tokens have length one: the sphere has d - 1 dimensions, not d.",
        _power(lambda d: 1 / 2),
        "That is the law of averages. The SVM sees only the nearest rivals: how near is the nearest of n?",
        _power(lambda d: 2 / (d - 1)),
        "So falls the lead of bI over the nearest rival. The error falls as the distance, not as its square.",
        _power(lambda d: 1 / (2 * (d - 1))),
        "E changes a lead by eps times the distance, bI leads by its square: both are of one order.",
        _power(lambda d: 1.0),
        "A rival within eps has a probability of the order eps^(d - 1): so n eps^(d - 1) stays the same.",
        _power(lambda d: d - 1.0),
        "The other way round: that is how many times the data an error needs that is smaller by growth.",
        _power(lambda d: -1 / (d - 1)),
        "One over it: the error is smaller by a factor above 1.",
        _power(lambda d: 2 / d),
        "Two things: the sphere has d - 1 dimensions, and eps falls as the distance, not as its square.",
        _power(lambda d: 1 / (2 * d)),
        "Two things: the sphere has d - 1 dimensions, and eps falls as the distance, not as its root.",
        _power(lambda d: 1 / d**2),
        "E has d^2 entries, but what decides is how near rivals come, on a sphere of d - 1 dimensions.",
        _power(lambda d: 1 / (d + 1)),
        "The sphere in d dimensions has one dimension less, not one more.",
        lambda growth, d: growth / (d - 1),
        "A volume falls with the power d - 1 of its radius: take a root of growth, not a part of it.",
        lambda growth, d: 1.0,
        "It falls: with more sequences the nearest rival is nearer, and objects to a smaller E.",
        lambda growth, d: np.log(growth) / (d - 1),
        "That is the logarithm of the factor.",
    ),
)


EXERCISES = [FIRST, AXIS, NOISE, FALLS]
