"""Exercises of lesson 10: cross- and self-attention."""

import numpy as np

from course.check.specification import Compare, Exercise, known
from course.exercises import words


# --------------------------------------------------------------------------- 10.1 the gradient in W
def _softmax(h):
    e = np.exp(h - h.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def _slopes(h, scores):
    s = _softmax(h)
    pull = s * (scores - np.take_along_axis(scores, h.argmax(axis=1)[:, None], axis=1))
    return pull - s * pull.sum(axis=1, keepdims=True)


def _textbook(h, scores):
    s = _softmax(h)
    return s * (scores - (s * scores).sum(axis=1, keepdims=True))


def _gradient_by(
    logits=lambda W, X, z: np.einsum("itd,de,ie->it", X, W, z),
    slopes=_slopes,
    steep=lambda u: 1 / (1 + np.exp(u)),  # |l'(u)|
    outer=lambda pull, z: pull.T @ z,
    mean=len,
):
    """An answer from the logits, their slopes, the slope of the loss and the outer products."""

    def answer(W, X, z, scores):
        h = logits(W, X, z)
        u = (_softmax(h) * scores).sum(axis=1)
        pull = np.einsum("it,itd->id", slopes(h, scores), X)
        return -outer(pull * np.reshape(steep(u), (-1, 1)), z) / mean(z)

    return answer


_gradient = _gradient_by()


def _one_mean_query(pull, z):
    return np.outer(pull.sum(axis=0), z.mean(axis=0))


def _winners_score(W, X, z, scores):
    winner = np.einsum("itd,de,ie->it", X, W, z).argmax(axis=1)
    return _gradient_by(steep=lambda u: 1 / (1 + np.exp(scores[np.arange(len(u)), winner])))(W, X, z, scores)


def _gradient_cases(rng):
    """Two of everyday size, and one in which every winner leads by 40 to 60."""
    cases = []
    for n, T, d, lead in ((2, 3, 2, 0), (4, 3, 5, 0), (3, 4, 6, 1)):
        X, z = rng.normal(size=(n, T, d)), rng.normal(size=(n, d))
        W, scores = rng.normal(size=(d, d)), rng.normal(size=(n, T)) * 1.5
        if lead:  # set the logits of every token: the queries are independent
            h = rng.uniform(-1, 1, size=(n, T))
            h[np.arange(n), rng.integers(0, T, size=n)] += rng.uniform(41, 60, size=n)
            p = np.stack([np.linalg.lstsq(X[i], h[i], rcond=None)[0] for i in range(n)])
            W = (np.linalg.pinv(z) @ p).T
        cases.append((W, X, z, scores))
    return cases


GRADIENT = Exercise(
    id="10.1",
    title="The gradient is a sum of outer products",
    points=2,
    minutes=7,
    difficulty=2,
    reference=_gradient,
    cases=_gradient_cases,
    compare=Compare(atol=0),  # far out gradients are tiny, and have a direction
    misconceptions=known(
        lambda *args: -_gradient(*args),
        "That is the direction of descent. The loss has a negative slope, so the gradient has a minus sign.",
        lambda *args: _gradient(*args).T,
        "Transposed: the derivative of x^T W z in W is x z^T, tokens on the left, the query on the right.",
        _gradient_by(mean=lambda z: 1),
        "You summed over the sequences. L is their mean: divide by n.",
        _gradient_by(steep=np.ones_like),
        "The slope of the loss is missing: sequence i counts with |l'(u_i)| = 1 / (1 + exp(u_i)).",
        _gradient_by(steep=lambda u: np.exp(-u)),
        "exp(-u) is the slope of the exponential loss. The logistic loss has 1 / (1 + exp(u)).",
        _gradient_by(steep=lambda u: 1 / (1 + np.exp(-u))),
        "Wrong sign in the exponent: |l'(u)| = 1 / (1 + exp(u)) is small where u is large.",
        _gradient_by(outer=_one_mean_query),
        "Each sequence has its own query: make the outer product first, then sum over the sequences.",
        _gradient_by(outer=lambda pull, z: pull.T @ pull),
        "The right factor is the query z_i.",
        _gradient_by(outer=lambda pull, z: np.outer(pull.sum(axis=0), z.sum(axis=0))),
        "That is one outer product of two sums: it pairs each sequence's tokens with every query.",
        _gradient_by(steep=lambda u: 1 / (1 + np.exp(u.mean()))),
        "L is the mean of the losses, not the loss of the mean u: each sequence has its own slope.",
        _gradient_by(steep=lambda u: 1 / (1 + np.exp(u)) / (1 + np.exp(-u))),
        "That is the second derivative of the logistic loss. The first is -1 / (1 + exp(u)).",
        _winners_score,
        "u_i is the mean of the scores under the attention, not the score of the largest logit alone.",
        _gradient_by(logits=lambda W, X, z: np.einsum("itd,ed,ie->it", X, W, z)),
        "The logits use W transposed: h_it = x_it^T W z_i, that is X[i] @ W @ z[i].",
        _gradient_by(slopes=lambda h, g: _softmax(h) * g),
        "The slope in a logit is s (score - mean score), not s times the score: use `slopes`.",
        _gradient_by(steep=lambda u: np.full_like(u, 0.5)),
        "The slope of the loss is 1/2 at u = 0 only: |l'(u_i)| = 1 / (1 + exp(u_i)).",
        lambda W, X, z, scores: _gradient_by(steep=lambda u: 1 / (1 + np.exp(scores.mean(axis=1))))(
            W, X, z, scores
        ),
        "u_i is the mean of the scores under the attention, sum_t s_it scores_it, not their plain mean.",
        _gradient_by(slopes=lambda h, g: _slopes(g, h)),
        "`slopes` takes the logits first, then the scores.",
        _gradient_by(slopes=_textbook),
        "Where a winner leads by 40, s (score - mean) rounds its entry away. `slopes` measures scores from "
        "the winner's.",
    ),
)


# --------------------------------------------------------------------------- 10.2 the price of a conflict
def _price(c, angle, agree):
    return 1 / (c * (np.cos(angle / 2) if agree else np.sin(angle / 2)))


def _price_cases(rng):
    cases = []
    for low, high in ((0.4, 1.2), (1.9, 2.8)):
        for agree in (True, False):
            cases.append((rng.uniform(0.5, 0.8), rng.uniform(low, high), agree))
    return [*cases, (rng.uniform(1.3, 2), rng.uniform(0.1, 0.3), False)]


PRICE = Exercise(
    id="10.2",
    title="The price of a conflict",
    points=2,
    minutes=10,
    difficulty=2,
    reference=_price,
    cases=_price_cases,
    misconceptions=known(
        lambda c, angle, agree: 1 / _price(c, angle, agree),
        "That is the margin. The norm of W_mm is one over it.",
        lambda c, angle, agree: _price(c, angle, not agree),
        "The other way round: queries close to each other make agreement cheap and a conflict dear.",
        lambda c, angle, agree: 1 / (c * (np.cos(angle) if agree else np.sin(angle))),
        "The nearest point of the segment between z_1 and z_2 to the origin is its midpoint: half the angle.",
        lambda c, angle, agree: c * c * _price(c, angle, agree),
        "A longer distance between the tokens makes it easier: W is a column along x_1 - x_2, over c.",
        lambda c, angle, agree: _price(c, angle, agree) / c,
        "The lead is c times what W does along the unit vector of x_1 - x_2: one power of c, not two.",
        lambda c, angle, agree: c * _price(c, angle, agree),
        "The distance c of the tokens is missing: tokens that are nearer to each other need a longer W.",
        lambda c, angle, agree: 2 * _price(c, angle, agree),
        "Leads have to reach 1, not 2: the midpoint (z_1 +- z_2) / 2 is cos or sin of half the angle away.",
        lambda c, angle, agree: _price(c, angle, agree) / 2,
        "The sum z_1 +- z_2 is twice as long as the nearest point, the midpoint.",
        lambda c, angle, agree: np.sqrt(2) / c,
        "The two sequences are independent only if their queries are orthogonal.",
        lambda c, angle, agree: 1 / c,
        "That is one sequence alone, or two that share query and answer. The angle counts.",
        lambda c, angle, agree: _price(c, angle, True),
        "A conflict costs something else than agreement: the second comparison has the opposite sign.",
        lambda c, angle, agree: _price(c, angle, False),
        "Agreement costs something else than a conflict: queries close to each other then help each other.",
        lambda c, angle, agree: 1 / abs(c * (np.cos(angle) if agree else np.sin(angle))),
        "The nearest point of the segment is its midpoint, at half the angle; no absolute value is needed.",
        lambda c, angle, agree: _price(c, np.radians(angle), agree),
        "The angle is given in radians.",
        lambda c, angle, agree: _price(c, angle, agree) ** 2 / 2,
        "That is half the squared norm, the objective of some solvers. The norm itself is asked.",
        lambda c, angle, agree: _price(c, angle, agree) ** 2,
        "That is the squared norm.",
        lambda c, angle, agree: _price(c, angle, True) if agree else np.inf,
        "A conflict is impossible only at angle 0: two different queries can be answered differently.",
    ),
)


# --------------------------------------------------------------------------- 10.3 what the start leaves
def _differences(X, z):
    a = X[:, 1:] - X[:, :1]
    return (a[..., :, None] * z[:, None, None, :]).reshape(-1, X.shape[-1] ** 2)


def _kept(W_0, rows):
    return W_0.ravel() - np.linalg.pinv(rows) @ (rows @ W_0.ravel())


def _best_cosine_by(rows=_differences, kept=_kept, final=lambda part, R: np.sqrt(1 - part @ part / R**2)):
    return lambda W_0, X, z, R: final(np.ravel(kept(W_0, rows(X, z))), R)


_best_cosine = _best_cosine_by()


def _off_each(W_0, rows):
    """Subtracts the projection on each row from W_0, as if the rows were orthogonal."""
    w = W_0.ravel().copy()
    for row in rows:
        w = w - (row @ W_0.ravel()) / (row @ row) * row
    return w


def _off_normal(W_0, rows):
    """The projection by the normal equations, as if no row depended on others."""
    return W_0.ravel() - rows.T @ np.linalg.solve(rows @ rows.T, rows @ W_0.ravel())


def _off_basis(W_0, rows):
    """QR gives as many orthonormal columns as there are rows, also where these are dependent."""
    basis = np.linalg.qr(rows.T)[0]
    return W_0.ravel() - basis @ (basis.T @ W_0.ravel())


def _two_sided(W_0, X, z):
    """What is left of W_0 when rows and columns are projected apart."""
    a = (X[:, 1:] - X[:, :1]).reshape(-1, len(W_0))
    return W_0 - np.linalg.pinv(a) @ a @ W_0 @ np.linalg.pinv(z) @ z


def _start_cases(rng):
    """Few comparisons; queries that fill the space; more tokens than dimensions; something repeated."""
    cases = []
    for n, T, d, kind in ((2, 3, 3, ""), (4, 2, 3, ""), (2, 6, 3, ""), (3, 3, 4, "repeated"), (3, 2, 4, "")):
        X, z = rng.normal(size=(n, T, d)), rng.normal(size=(n, d))
        if kind:
            z[1] = 2 * z[0]
            X[1, 1:] = X[1, 0] + (X[0, 1:] - X[0, 0])  # the same comparisons: dependent rows
            X[2, 2] = X[2, 0]  # equal tokens: a row of zeros
        W_0 = rng.normal(size=(d, d))
        part = _kept(W_0, _differences(X, z))
        W_0 *= rng.uniform(1, 2) / np.linalg.norm(part)  # the part that stays is 1 to 2 long
        cases.append((W_0, X, z, max(1.05 * np.linalg.norm(W_0), 2) * rng.uniform(1.1, 1.5)))
    return cases


START = Exercise(
    id="10.3",
    title="What the start leaves behind",
    points=2,
    minutes=12,
    difficulty=2,
    reference=_best_cosine,
    cases=_start_cases,
    misconceptions=known(
        _best_cosine_by(kept=lambda W_0, rows: np.linalg.pinv(rows) @ (rows @ W_0.ravel())),
        "That uses the part inside the span. What stays is the other part: W_0 minus its projection.",
        _best_cosine_by(kept=lambda W_0, rows: W_0),
        "Not all of W_0 stays: training moves its part inside the span. Subtract the projection.",
        lambda W_0, X, z, R: np.sqrt(1 - np.linalg.norm(W_0 - W_0 @ np.linalg.pinv(z) @ z) ** 2 / R**2),
        "You removed everything that acts on the queries. Of W z, only the part along differences of tokens "
        "is trained: span the rows (x_t - x_1) z^T.",
        _best_cosine_by(
            rows=lambda X, z: (X[..., :, None] * z[:, None, None, :]).reshape(-1, X.shape[-1] ** 2)
        ),
        "The rows are built from tokens. Only differences of tokens of one sequence count: softmax ignores "
        "what all logits of a sequence have in common.",
        _best_cosine_by(
            rows=lambda X, z: ((X[:, 1:] - X[:, :1])[..., None, :] * z[:, None, :, None]).reshape(
                -1, X.shape[-1] ** 2
            )
        ),
        "Transposed: tokens on the left, x z^T, as in the gradient.",
        _best_cosine_by(kept=_off_each),
        "The rows are not orthogonal to each other: subtract the projection on their span, by np.linalg.pinv "
        "or lstsq, not row by row.",
        _best_cosine_by(kept=_off_normal),
        "The rows may be dependent, and then rows rows^T has no inverse: np.linalg.pinv or lstsq do without.",
        _best_cosine_by(kept=_off_basis),
        "The rows may be dependent, and then QR returns directions outside their span: use np.linalg.pinv or "
        "lstsq.",
        _best_cosine_by(final=lambda part, R: 1 - part @ part / R**2),
        "That is the cosine squared. Pythagoras: the part in the span has length sqrt(R^2 - kept^2).",
        _best_cosine_by(final=lambda part, R: np.linalg.norm(part) / R),
        "That is the sine of the angle between W and the span.",
        _best_cosine_by(final=lambda part, R: np.sqrt(part @ part) / R - 1),
        "A cosine of a W that has come far is near 1: sqrt(1 - kept^2 / R^2).",
        _best_cosine_by(final=lambda part, R: R / np.sqrt(R**2 + part @ part)),
        "R is the norm of all of W, the part that stays included: it is the hypotenuse.",
        _best_cosine_by(final=lambda part, R: 1 - np.sqrt(part @ part) / R),
        "1 minus the sine is not the cosine: sqrt(1 - sine^2).",
        _best_cosine_by(final=lambda part, R: 1 - part @ part / (2 * R**2)),
        "That is the first term of a series, good for a small angle only. Pythagoras is exact.",
        _best_cosine_by(final=lambda part, R: 1 - np.sqrt(1 - part @ part / R**2)),
        "The cosine is asked, not 1 minus the cosine.",
        lambda W_0, X, z, R: _best_cosine(W_0, X, z, np.linalg.norm(W_0)),
        "Training has taken W from the norm of W_0 to the norm R: divide what stays by R.",
        lambda W_0, X, z, R: np.sqrt(1 - np.linalg.norm(_two_sided(W_0, X, z)) ** 2 / R**2),
        "The span holds (x_t - x_1) z^T of one sequence at a time, not every difference with every query: "
        "projecting the two sides of W_0 apart takes too much away.",
    ),
)


# --------------------------------------------------------------------------- 10.4 what symmetry leaves
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


def _long(W, v):
    """Takes v for a unit vector."""
    P, c = np.outer(v, v), v @ W @ v
    return (np.trace(W) - c) / (len(W) - 1) * (np.eye(len(W)) - P) + c * P


def _one_axis(W, v):
    entry = np.diag(W)
    return np.diag(np.where(np.arange(len(v)) == np.abs(v).argmax(), entry[np.abs(v).argmax()], entry.mean()))


def _axis_cases(rng):
    """Any W, not symmetric; v of any length; the plane too."""
    return [(rng.normal(size=(d, d)), rng.uniform(1.5, 3) * rng.normal(size=d)) for d in (3, 5, 2, 4)]


AXIS = Exercise(
    id="10.4",
    title="What symmetry leaves of W",
    points=3,
    minutes=10,
    difficulty=3,
    reference=_axis,
    cases=_axis_cases,
    misconceptions=known(
        lambda W, v: np.trace(W) / len(W) * np.eye(len(W)),
        "That would be right if every direction were like every other. But v is special: Omega leaves it.",
        _axis_by(b=lambda W, c: np.trace(W) / len(W)),
        "b is the mean of W across v only: take v's own share from the trace, and divide by d - 1.",
        _axis_by(b=lambda W, c: np.trace(W) / (len(W) - 1)),
        "The trace still contains c, the share along v: take it away.",
        _axis_by(b=lambda W, c: (np.trace(W) - c) / len(W)),
        "There are d - 1 directions across v, not d.",
        _axis_by(b=lambda W, c: 0.0),
        "Only the part along v. Across v a multiple of the identity survives too.",
        _axis_by(form=lambda b, c, P: b * (np.eye(len(P)) - P)),
        "Only the part across v. Along v survives (v^T W v) vv^T / |v|^4.",
        _axis_by(form=lambda b, c, P: b * np.eye(len(P)) + c * P),
        "b acts across v only: b (I - ee^T), so that along v there is c alone.",
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
        lambda W, v: (W + W.T) / 2,
        "That averages W with its transpose. The average is over the Omega that leave v alone.",
        lambda W, v: W - _axis(W, v),
        "That is what the average removes.",
        _one_axis,
        "v is not a coordinate axis: its share is v^T W v / v.v, with the projection vv^T / v.v.",
    ),
)


# --------------------------------------------------------------------------- 10.5 words that contradict
WORDS = Exercise(
    id="10.5",
    title="Do the words contradict each other?",
    points=3,
    minutes=15,
    difficulty=3,
    reference=words.consistent,
    cases=words.cases,
    misconceptions=known(*words.MISTAKES),
)

EXERCISES = [GRADIENT, PRICE, START, AXIS, WORDS]
