"""Exercises of lesson 03: the optimiser picks the norm."""

import numpy as np
from scipy.optimize import brentq

from course.check.specification import Exercise, known

# 03.1


def dual_exponent(rho):
    """rho* with 1/rho + 1/rho* = 1."""
    return np.inf if rho == 1 else 1.0 if rho == np.inf else rho / (rho - 1)


def steepest_step(g, rho):
    """The step of l_rho length one that decreases the loss most, shape (d,), for 1 <= rho <= inf."""
    if rho == 1:
        return -np.sign(g) * (np.abs(g) == np.abs(g).max())
    logs = np.log(np.abs(g)) * (dual_exponent(rho) - 1)
    sizes = np.exp(logs - logs.max())  # at most 1: near rho = 1 the powers themselves overflow
    return _over(-np.sign(g) * sizes, rho)


def _over(v, order):
    with np.errstate(all="ignore"):
        return v / np.linalg.norm(v, order)


def _power(g, exponent, order):
    """Minus the entries of g to a power, made one long in l_order."""
    with np.errstate(all="ignore"):
        return _over(-np.sign(g) * np.abs(g) ** exponent, order)


def _first(step):
    """The right step unless rho = 1, where it is step(g)."""
    return lambda g, rho: step(g) if rho == 1 else steepest_step(g, rho)


def _at_largest(g, value, pick=np.abs):
    return np.where(np.arange(len(g)) == pick(g).argmax(), value, 0.0)


def _raw(g, rho):
    return -_at_largest(g, g) if rho == 1 else -np.sign(g) * np.abs(g) ** (dual_exponent(rho) - 1)


def step_cases(rng):
    """In seven norms; 0.5 is small beside 6, but a slope. rho is a float, 1 / (rho - 1) an error at 1.

    Near rho = 1 one entry is near the largest, so that the step is not yet that of rho = 1.
    """
    cases = [(np.array([3.0, -4.0]), 2.0), *((np.array([1.5, -6.0, 0.5]), rho) for rho in (1.0, np.inf, 3.0))]
    for rho, largest in (
        (1.5, 4.0),
        (rng.uniform(1.03, 1.045), -4.0),
        (rng.uniform(20.5, 22), 4.0),
        (1.0, -4.0),
    ):
        g = rng.uniform(0.3, 2, 4) * rng.choice([-1.0, 1.0], 4)
        g[1] = largest
        if 1 < rho < 1.3:
            g[2] = 0.97 * largest
        cases.append((g, rho))
    ends = [(sign * np.array([rng.uniform(1, 2), 0.5, -2.0, 1.999]), 1.0) for sign in (1, -1)]
    return [*cases, *ends]  # 1 is not its limit


STEEPEST = known(
    lambda g, rho: -steepest_step(g, rho),
    "This step goes uphill: a downhill step has g @ step < 0.",
    lambda g, rho: _over(-g, rho),
    "This is -g made one long in l_rho. Only for rho = 2 is nothing steeper: look for equality in Hoelder.",
    lambda g, rho: _over(-g, dual_exponent(rho)),
    "This is -g made one long in l_rho*. The step lives in l_rho, and need not point along -g.",
    lambda g, rho: _over(-g, 2),
    "This is the step of l_2 whatever rho is.",
    lambda g, rho: -np.sign(g) if rho == 1 else steepest_step(g, rho),
    "Right for rho > 1. For rho = 1 the signs are too long: |delta_1| + ... + |delta_d| must be one.",
    lambda g, rho: -g / np.abs(g).max() if rho == np.inf else steepest_step(g, rho),
    "Right for rho < inf. For rho = inf the power 1 / (rho - 1) is zero: every entry is 1 or -1.",
    lambda g, rho: -np.sign(g),
    "This is the step of l_inf whatever rho is.",
    lambda g, rho: _power(g, rho - 1, rho),
    "You raised the entries to the power rho - 1. Check with rho = 3: the power rho* - 1 does better.",
    lambda g, rho: _power(g, dual_exponent(rho), rho) if rho > 1 else steepest_step(g, rho),
    "You raised the entries to the power rho*. Equality needs |delta_j|^rho proportional to |g_j|^rho*.",
    lambda g, rho: _power(g, dual_exponent(rho) - 1, 2) if rho > 1 else steepest_step(g, rho),
    "The right direction, one long in l_2; make it one long in l_rho.",
    lambda g, rho: (
        _power(g, dual_exponent(rho) - 1, dual_exponent(rho)) if rho > 1 else steepest_step(g, rho)
    ),
    "The right direction, one long in l_rho*; make it one long in l_rho.",
    _raw,
    "The right direction; make it one long in l_rho.",
    lambda g, rho: _power(g, dual_exponent(rho) - 1, rho),
    "Right for rho > 1. For rho = 1 the power is infinite: all of the step goes where |g_j| is largest.",
    _first(lambda g: _at_largest(g, -1.0)),
    "Right for rho > 1. For rho = 1 the step moves down whatever the sign of g is: where g < 0, move up.",
    _first(lambda g: -_at_largest(g, np.sign(g), np.array)),
    "Right for rho > 1. For rho = 1 take the entry of the largest absolute value, not the largest entry.",
    _first(lambda g: -_at_largest(g, np.sign(g), np.negative)),
    "Right for rho > 1. For rho = 1 take the entry of the largest absolute value, not the smallest entry.",
    lambda g, rho: steepest_step(g, dual_exponent(rho)),
    "This is the steepest step of l_rho*: the exponents are exchanged.",
    lambda g, rho: np.abs(steepest_step(g, rho)),
    "The signs are lost: a step goes down in every coordinate, against the sign of g_j.",
    lambda g, rho: -np.abs(steepest_step(g, rho)),
    "Down the loss, not down the axes: where g_j < 0, the step goes up.",
    _first(lambda g: -_at_largest(g, g)),
    "Right for rho > 1. For rho = 1 the length is still |g_k|; make it one.",
    _first(lambda g: _over(-g, 1)),
    "Right for rho > 1. For rho = 1 spend all of the length on one coordinate.",
    _first(lambda g: -np.sign(g) / len(g)),
    "Right for rho > 1. For rho = 1 you share the length among all coordinates; one of them is the steepest.",
)

# 03.2


def best_orders(w, a, b):
    """(lowest, highest): the rho in [1, inf] for which w, with w_1 > w_2 > 0 and worst points a, b, is best.

    (w_2 / w_1)^(rho - 1) lies between the slopes a_2 / a_1 and b_2 / b_1, with a_1, b_1 > 0.
    """
    low, high = sorted([a[1] / a[0], b[1] / b[0]])
    slope = np.log(w[1] / w[0])
    return (
        1 + np.log(high) / slope if high < 1 else 1.0,
        1 + np.log(low) / slope if low > 0 else np.inf,
    )


def order_cases(rng):
    """A lowest order above 1 or not, a highest one or not; flat and steep points in either order.

    The second has orders above 2 and 100, with b the flat point; the fourth has a highest one below 2.
    """
    cases = [(np.array([2.0, 1.0]), np.array([1.75, 0.5]), np.array([1.5, 1.0]))]
    for flat, steep, ratio in (
        (0.18, 0.8, 0.985),
        (-0.4, 0.7, rng.uniform(0.4, 0.9)),
        (0.5, 1.6, 0.35),
        (0.0, 2.0, rng.uniform(0.4, 0.9)),
        (0.2, 0.95, rng.uniform(0.4, 0.9)),
    ):
        w = rng.uniform(0.5, 3) * np.array([1.0, ratio])
        points = [np.array([1.0, slope * rng.uniform(0.9, 1.05)]) for slope in (flat, steep)]
        points = [point / (point @ w) for point in points]
        cases.append((w, *(points[::-1] if ratio == 0.985 or rng.random() < 0.5 else points)))
    return cases


def _orders(change):
    """The answer from its two slopes and the slope of w: change(low, high, w_2 / w_1)."""

    def wrong(w, a, b):
        with np.errstate(all="ignore"):
            return change(*sorted([a[1] / a[0], b[1] / b[0]]), w[1] / w[0])

    return wrong


def _log(value, base):
    return np.log(value) / np.log(base)


def _shifted(w, a, b, by):
    lowest, highest = best_orders(w, a, b)
    return lowest + by, highest + by


def _dual_orders(w, a, b):
    return tuple(sorted(dual_exponent(rho) for rho in best_orders(w, a, b)))


def _in_order(w, steep, flat):
    """The answer if the first point were the steeper one."""
    with np.errstate(all="ignore"):
        low, high = (1 + _log(point[1] / point[0], w[1] / w[0]) for point in (steep, flat))
    return low if steep[1] < steep[0] else 1.0, high if flat[1] > 0 else np.inf


def _inverted(w, a, b):
    with np.errstate(all="ignore"):
        flat, steep = sorted([a[0] / a[1], b[0] / b[1]])
    return _in_order(w, np.array([1.0, steep]), np.array([1.0, flat]))


ORDERS = known(
    lambda w, a, b: best_orders(w, a, b)[::-1],
    "The right two numbers; return the lower one first.",
    lambda w, a, b: _shifted(w, a, b, -1),
    "These are the powers rho - 1. Return rho.",
    _orders(lambda low, high, s: (1 + _log(high, s), 1 + _log(low, s))),
    "The formula is right where both slopes are between 0 and 1. If one is above 1, rho = 1 is the lowest; "
    "if one is not positive, there is no highest: np.inf.",
    _orders(lambda low, high, s: (1 + _log(high, s), 1 + _log(low, s) if low > 0 else np.inf)),
    "The highest is right. The lowest may not fall below 1, where norms begin.",
    _orders(lambda low, high, s: (max(1.0, 1 + _log(high, s)), 1 + _log(low, s))),
    "The lowest is right. If a slope is not positive, every large rho will do: the highest is np.inf.",
    lambda w, a, b: _in_order(w, b, a),
    "You take b for the steeper one of the points. Either may be: sort the slopes.",
    lambda w, a, b: _in_order(w, a, b),
    "You take a for the steeper one of the points. Either may be: sort the slopes.",
    _inverted,
    "Your slopes are first entry over second; they are second over first, as that of w.",
    _orders(
        lambda low, high, s: (max(1.0, 1 + 1 / _log(high, s)), 1 + 1 / _log(low, s) if low > 0 else np.inf)
    ),
    "These are rho*, or a quotient upside down: (rho - 1) log(w_2 / w_1) is the log of a point's slope.",
    _orders(lambda low, high, s: (1.0, 1 + _log(low, s) if low > 0 else np.inf)),
    "The highest is right. The lowest is 1 only if the steeper point has a slope of 1 or more.",
    _orders(lambda low, high, s: (1 + _log(high, s) if high < 1 else 1.0, np.inf)),
    "The lowest is right. The highest is infinite only if a slope is not positive.",
    _orders(lambda low, high, s: (1 + abs(_log(high, s)), 1 + _log(low, s) if low > 0 else np.inf)),
    "The highest is right. Where the steeper slope is above 1, rho = 1 is the lowest.",
    _orders(lambda low, high, s: (max(1.0, 1 + _log(high, s)), 1 + _log(abs(low), s))),
    "The lowest is right. A slope's sign counts: if it is not positive, the highest is np.inf.",
    _dual_orders,
    "These are the dual exponents: Hoelder's equality has |w_j|^(rho - 1), not |w_j|^(rho* - 1).",
    _orders(lambda low, high, s: (max(1.0, _log(high, s)), _log(low, s) if low > 0 else np.inf)),
    "Right but for the power: Hoelder's equality has |w_j|^(rho - 1), not |w_j|^rho.",
    _orders(lambda low, high, s: (_log(high, s) if high < 1 else 1.0, _log(low, s) if low > 0 else np.inf)),
    "The ends at 1 and np.inf are right. The others are rho - 1: add one.",
    _orders(lambda low, high, s: (max(1.0, 2 + _log(high, s)), 2 + _log(low, s) if low > 0 else np.inf)),
    "One too many: the power is rho - 1.",
)

# 03.3


def safe_step(a, b):
    """The eta above which sign descent on a = (+, -), b = (-, +) can jump between two points for ever.

    z = (a - b).w is the log of q_b / q_a. The first sign turns at log(a_1 / -b_1), the second at
    log(-a_2 / b_2). A step over both is undone by the next; in the plane it changes z by eta ||a - b||_1.
    """
    return np.log(a[0] * b[1] / (a[1] * b[0])) / np.abs(a - b).sum()


def safe_cases(rng):
    """A symmetric pair, then pairs with either coordinate longer and either threshold of either sign."""
    cases = [(np.array([2.0, -1.0]), np.array([-1.0, 2.0]))]
    for shape in ([4, 1, 2, 3], [1, 0.3, 2, 3], [6, 2, 1, 1], [1, 2, 0.25, 3], [9, 1, 1, 9]):
        a_1, a_2, b_1, b_2 = np.array(shape) * rng.uniform(0.9, 1.1, 4)
        cases.append((np.array([a_1, -a_2]), np.array([-b_1, b_2])))
    return cases


def _safe(gap=None, change=None):
    """The answer with the gap(a, b) of the thresholds, or the change(a - b) of z by a step, replaced."""

    def answer(a, b):
        with np.errstate(all="ignore"):
            between = gap(a, b) if gap else np.log(a[0] * b[1] / (a[1] * b[0]))
            return between / (change(a - b) if change else np.abs(a - b).sum())

    return answer


def _promised(a, b):
    """Where the theorem's bound vanishes: 2 mu / a_max^2."""
    first, second = np.abs(a - b)
    w = np.array([1.0, first / second]) if first < second else np.array([second / first, 1.0])
    return 2 * (a @ w) / max(np.abs(a).sum(), np.abs(b).sum()) ** 2


SAFE = known(
    _safe(change=lambda change: np.abs(change).max()),
    "In the trap both coordinates move at each step: (a - b).w changes by eta (|a_1 - b_1| + |a_2 - b_2|).",
    _safe(change=np.linalg.norm),
    "A step of sign descent is eta long in every coordinate, not eta long in l_2: how far does it take "
    "(a - b).w?",
    _safe(change=lambda change: abs(np.abs(change)[0] - np.abs(change)[1])),
    "You let both coordinates rise. In the trap one rises as the other falls; the next step undoes it.",
    _safe(change=lambda change: abs(change[0])),
    "You let only the first coordinate move; in the trap both do.",
    _safe(change=lambda change: abs(change[1])),
    "You let only the second coordinate move; in the trap both do.",
    _safe(change=lambda change: 1.0),
    "That is how far (a - b).w may go in one step. Which eta takes it so far?",
    _safe(change=lambda change: 2 * np.abs(change).sum()),
    "Half of it: a single step may go the whole way from one threshold to the other.",
    _safe(change=lambda change: np.abs(change).sum() / 2),
    "Twice too long: the trap is a step there and a step back, each of length eta.",
    _safe(gap=lambda a, b: a[0] * b[1] / (a[1] * b[0])),
    "The weights are exponentials: q_b / q_a = e^((a - b).w), so take the logarithm of the quotient.",
    _safe(gap=lambda a, b: np.log10(a[0] * b[1] / (a[1] * b[0]))),
    "The weights are powers of e: take the natural logarithm.",
    _safe(gap=lambda a, b: np.log(-a[0] / b[0])),
    "That is where the first sign turns. The second must turn as well, in the same step.",
    _safe(gap=lambda a, b: np.log(-b[1] / a[1])),
    "That is where the second sign turns. The first must turn as well, in the same step.",
    _safe(gap=lambda a, b: np.abs(np.log(-a[0] / b[0])) + np.abs(np.log(-b[1] / a[1]))),
    "A threshold may be negative: the distance between the two is a difference with signs.",
    _safe(gap=lambda a, b: np.abs(np.log(-a[0] / b[0]) - np.log(-b[1] / a[1]))),
    "A sign is wrong in the distance of the thresholds: they are log(a_1 / -b_1) and log(-a_2 / b_2).",
    _safe(gap=lambda a, b: np.maximum(np.log(-a[0] / b[0]), np.log(-b[1] / a[1]))),
    "One step must pass both thresholds, where a sign turns: take the distance between them.",
    _safe(gap=lambda a, b: -np.log(a[0] * b[1] / (a[1] * b[0]))),
    "The sign is wrong: a step has a positive length.",
    lambda a, b: 1 / safe_step(a, b),
    "Upside down: the larger the points, the shorter the step that is safe.",
    lambda a, b: np.log(a[0] * b[1] / (a[1] * b[0])) / np.abs(a + b).sum(),
    "The log of q_b / q_a is (a - b).w, not (a + b).w.",
    _promised,
    "That is where the theorem's bound vanishes. A bound may be pessimistic: follow the gradient's signs.",
    lambda a, b: np.log(-a[0] / b[0]) / abs(a[0] - b[0]) + np.log(-b[1] / a[1]) / abs(a[1] - b[1]),
    "The coordinates do not take turns: in one step (a - b).w changes by eta times both |a_j - b_j|.",
)

# 03.4


def adam_step(eta, mu_hat, beta1, beta2):
    """(step, memory): length of Adam's steps late in training, epsilon = 0, the root of
    step / eta = (1 - beta1) / (1 - beta1 e^nu) sqrt((1 - beta2 e^(2 nu)) / (1 - beta2)),  nu = step mu_hat,
    and the steps in which an old square, in units of the last, falls by 1/e: beta2 e^(2 nu) a step.
    """
    step = _root(eta, mu_hat, beta1, beta2)
    return step, _memory(step, mu_hat, beta2)


def _memory(step, mu_hat, beta2, squares=2.0):
    with np.errstate(all="ignore"):
        return -1 / (np.log(beta2) + squares * step * mu_hat)


def _ratio(nu, beta1, beta2, mean=1.0, squares=2.0):
    """Size of the mean gradient over the root of the mean square, when gradients shrink by e^-nu a step."""
    left = np.maximum(1 - beta2 * np.exp(squares * nu), 0.0)
    return (1 - beta1) / (1 - beta1 * np.exp(mean * nu)) * np.sqrt(left / (1 - beta2))


def _root(eta, mu_hat, beta1, beta2, ratio=_ratio, top=None):
    top = -np.log(beta2) / 2 if top is None else top
    return brentq(lambda nu: ratio(nu, beta1, beta2) * eta * mu_hat - nu, 0.0, top, xtol=1e-17) / mu_hat


def adam_cases(rng):
    """Short memories and long ones; the third, a million steps, needs nu to 1e-12. beta_1 <= beta_2."""
    cases = [(0.005, 2.5, 0.9, 0.95), (0.005, 2.5, 0.9, 0.999), (4.0, 1.5, 0.0, 0.95)]
    for beta1, beta2 in ((0.9, 0.99), (0.5, 0.98), (0.8, 0.95)):
        mu_hat = rng.uniform(0.5, 3)
        cases.append((rng.uniform(0.3, 3) * (1 - beta2) / mu_hat, mu_hat, beta1, beta2))
    return cases


def _adam(step=None, memory=None):
    """The answer with the length, step(*inputs), or memory(step, eta, mu_hat, beta2) replaced."""

    def wrong(eta, mu_hat, beta1, beta2):
        length = (step or _root)(eta, mu_hat, beta1, beta2)
        return length, memory(length, eta, mu_hat, beta2) if memory else _memory(length, mu_hat, beta2)

    return wrong


def _without_root(nu, beta1, beta2):
    return _ratio(nu, beta1, beta2) ** 2 * (1 - beta1 * np.exp(nu)) / (1 - beta1)


def _unweighted(nu, beta1, beta2):
    return _ratio(nu, beta1, beta2) / (1 - beta1) * np.sqrt(1 - beta2)


def _once(eta, mu_hat, beta1, beta2):
    """At full steps, without asking whether steps are full."""
    return eta * _ratio(eta * mu_hat, beta1, beta2)


def _once_unguarded(eta, mu_hat, beta1, beta2):
    """The same; not a number where the squares would have no mean."""
    return _once(eta, mu_hat, beta1, beta2) if beta2 * np.exp(2 * eta * mu_hat) < 1 else np.nan


def _put_in_again(eta, mu_hat, beta1, beta2):
    """The right-hand side, put into itself from full steps on: not a number where squares have no mean."""
    step = eta
    for _ in range(2_000):
        left = 1 - beta2 * np.exp(2 * step * mu_hat)
        if left < 0:
            return np.nan
        step = eta * (1 - beta1) / (1 - beta1 * np.exp(step * mu_hat)) * np.sqrt(left / (1 - beta2))
    return step


REAL_STEP = known(
    _adam(_put_in_again),
    "Putting the right-hand side into itself leaves where beta2 e^(2 nu) < 1, and the root of a negative "
    "number follows. Look for the nu between 0 and that place, as hint 2 does.",
    lambda *inputs: adam_step(*inputs)[::-1],
    "The right two numbers; return the length first, then the memory.",
    _adam(lambda eta, mu_hat, beta1, beta2: eta),
    "That is sign descent's step. Older squares are larger than g_t^2: the denominator is above |g_t|.",
    lambda eta, mu_hat, beta1, beta2: (eta, 1 / (1 - beta2)),
    "Both are so while g_t keeps its size. It shrinks: older gradients were larger, by e^(k nu).",
    lambda eta, mu_hat, beta1, beta2: ((1 - beta2) / (2 * mu_hat), 1 / (1 - beta2)),
    "The length is nearly right when the memory is long: solve the equation. And the unit shrinks: an "
    "old square is forgotten more slowly.",
    _adam(lambda *inputs: _root(*inputs) / inputs[0], lambda share, eta, *rest: _memory(share * eta, *rest)),
    "The first is the share of eta; multiply by eta.",
    _adam(lambda *inputs: _root(*inputs) * inputs[1], lambda nu, eta, mu, b2: _memory(nu / mu, mu, b2)),
    "The first is nu, how fast the gradient shrinks; divide by the margin.",
    _adam(lambda eta, mu_hat, beta1, beta2: (1 - beta2) / (2 * mu_hat)),
    "Nearly right when the memory is long. Solve the equation for any eta.",
    _adam(lambda eta, mu_hat, beta1, beta2: -np.log(beta2) / (2 * mu_hat)),
    "That is the longest step there could be, at which the squares are all memory. Solve the equation.",
    _adam(lambda eta, mu_hat, beta1, beta2: min(eta, (1 - beta2) / (2 * mu_hat))),
    "Right at both ends, of short and long memory; between them the step is shorter. Solve the equation.",
    _adam(_once),
    "You put nu = eta mu_hat into the quotient. But nu is eta_eff mu_hat: solve the equation.",
    _adam(_once, lambda step, eta, mu, b2: _memory(eta, mu, b2)),
    "You put nu = eta mu_hat into both. But nu is eta_eff mu_hat: solve the equation.",
    _adam(_once_unguarded),
    "You put nu = eta mu_hat into the quotient: too large, where it has no root. nu is eta_eff mu_hat: solve "
    "the equation.",
    _adam(_once_unguarded, lambda step, eta, mu, b2: _memory(eta, mu, b2)),
    "You put nu = eta mu_hat into both: too large, where the quotient has no root. nu is eta_eff mu_hat: "
    "solve the equation.",
    _adam(lambda eta, mu_hat, beta1, beta2: _root(eta, mu_hat, 0.0, beta2)),
    "The numerator has a memory too: the mean of the gradients is larger than (the last) g_t.",
    _adam(lambda eta, mu_hat, beta1, beta2: _root(eta, 1.0, beta1, beta2)),
    "You let the gradient shrink by e^-eta_eff a step. It shrinks by e^-(eta_eff mu): the margin is missing.",
    _adam(lambda *inputs: _root(*inputs, ratio=_without_root)),
    "Adam divides by the root of the mean square.",
    _adam(
        lambda *inputs: _root(
            *inputs, lambda nu, b1, b2: _ratio(nu, b1, b2, squares=1.0), top=-np.log(inputs[3])
        )
    ),
    "Squares shrink twice as fast as the gradient: by e^(-2 nu) a step.",
    _adam(lambda *inputs: _root(*inputs, ratio=lambda nu, b1, b2: _ratio(nu, b1, b2, mean=-1.0))),
    "In the numerator, older gradients were larger: the k-th last was e^(k nu) times the last.",
    _adam(lambda *inputs: _root(*inputs, ratio=lambda nu, b1, b2: _ratio(nu, b1, b2, -1.0, -2.0), top=1e3)),
    "Older gradients were larger than the last, by e^(k nu), not smaller.",
    _adam(
        lambda *inputs: _root(*inputs, ratio=lambda nu, b1, b2: _ratio(nu, b1, b2, -1.0, -2.0), top=1e3),
        lambda step, eta, mu, b2: _memory(step, mu, b2, squares=-2.0),
    ),
    "Older gradients were larger than the last, by e^(k nu), not smaller. In both numbers the sign is wrong.",
    lambda eta, mu_hat, beta1, beta2: adam_step(eta, 1.0, beta1, beta2),
    "The margin is missing: the gradient shrinks by e^-(eta_eff mu) a step.",
    _adam(lambda *inputs: _root(*inputs, ratio=_unweighted)),
    "The weights of a mean add up to one: (1 - beta) beta^k, not beta^k.",
    _adam(memory=lambda step, eta, mu, b2: _memory(step, mu, b2, squares=-2.0)),
    "The length is right. The unit shrinks, and in units that shrink an old square fades more slowly.",
    _adam(memory=lambda step, eta, mu, b2: 1 / (1 - b2)),
    "The length is right. 1 / (1 - beta2) is the memory while g_t keeps its size. It shrinks, and with it "
    "the unit: an old square gains by that.",
    _adam(memory=lambda step, eta, mu, b2: -1 / np.log(b2)),
    "The length is right. That is the memory while g_t keeps its size. It shrinks, and with it the unit: an "
    "old square gains by that.",
    _adam(memory=lambda step, eta, mu, b2: _memory(step, mu, b2, squares=1.0)),
    "The length is right. The unit is g_t^2, which shrinks by e^(-2 nu) a step, not by e^-nu.",
    _adam(memory=lambda step, eta, mu, b2: 1 / (1 - b2 * np.exp(2 * step * mu))),
    "The length is right; the memory nearly: (beta2 e^(2 nu))^k is to be exactly 1/e.",
    _adam(memory=lambda step, eta, mu, b2: (eta / step) ** 2 / (1 - b2)),
    "The length is right. The memory is so for beta1 = 0 and long memories; solve (beta2 e^(2 nu))^k = 1/e.",
    _adam(memory=lambda step, eta, mu, b2: b2 * np.exp(2 * step * mu)),
    "The length is right. The second is the factor of one step; after how many steps is it 1/e?",
    _adam(memory=lambda step, eta, mu, b2: np.log(0.5) / (np.log(b2) + 2 * step * mu)),
    "The length is right. The second is a half-life; asked is the time to 1/e.",
    _adam(memory=lambda step, eta, mu, b2: _memory(eta, mu, b2)),
    "The length is right. For the memory too, the gradient shrinks by nu = eta_eff mu, not eta mu, a step.",
    _adam(lambda *inputs: _root(*inputs, lambda nu, b1, b2: _ratio(nu, b1, b2, squares=1.0))),
    "The gradient of k steps ago is e^(k nu) times the present one, so its square is e^(2 k nu) times as "
    "large.",
)

# 03.5

COEFFICIENTS = 3.4445, -4.7750, 2.0315


def muon_margin(sigma):
    """(margin of W, bound on all margins), in the spectral norm: W a sum of Muon's steps from one matrix.

    That matrix is a sum of signed points with weights that add up to one, and has singular values sigma (d,).
    """
    return _margin()(sigma)


def _margin(
    length=np.linalg.norm, coefficients=COEFFICIENTS, steps=5, over=np.max, bound=np.sum, weight=None
):
    def answer(sigma):
        with np.errstate(all="ignore"):
            lifted = sigma / length(sigma)
            for _ in range(steps):
                lifted = sum(c * lifted**power for c, power in zip(coefficients, (1, 3, 5), strict=True))
            return (lifted * (sigma if weight is None else weight(sigma))).sum() / over(lifted), bound(sigma)

    return answer


def muon_cases(rng):
    """Values that the polynomial brings out of order; a zero, as the last often is, and a tie."""
    cases = [(np.array([6.0, 2.0, 1.0, 0.5]),), (np.array([2.0, 2.0, 1.0, 0.0]),)]
    for small in (0.02, 0.2, 0.5, 0.01):
        middle = rng.uniform(0.25, 0.6, size=4)
        cases.append((rng.uniform(0.1, 5) * np.sort([1.0, *middle, small * rng.uniform(0.8, 1.2)])[::-1],))
    return cases


def _lifted(sigma):
    """What Muon's polynomial makes of the singular values, up to one factor."""
    lifted = sigma / np.linalg.norm(sigma)
    for _ in range(5):
        lifted = sum(c * lifted**power for c, power in zip(COEFFICIENTS, (1, 3, 5), strict=True))
    return lifted


MUON = known(
    lambda sigma: muon_margin(sigma)[::-1],
    "The right two numbers; return the margin first, then the bound.",
    lambda sigma: (sigma.sum(), sigma.sum()),
    "That is the polar factor's margin. Muon's polynomial leaves waves: apply it to the singular values.",
    _margin(over=lambda lifted: 1.0),
    "The bound is right. The first grows with the length of W; divide by its spectral norm.",
    _margin(over=lambda lifted: lifted[0]),
    "The bound is right. You divided by what became of the largest sigma; another may be largest now.",
    _margin(over=np.linalg.norm),
    "The bound is right. You divided by the Frobenius norm of W; the margin here is in the spectral norm.",
    _margin(over=np.sum),
    "The bound is right. Divide by the spectral norm of W, its largest singular value, not the sum.",
    _margin(length=np.max),
    "The bound is right. Before the polynomial, Muon divides by the Frobenius norm, not the spectral one.",
    _margin(length=np.sum),
    "The bound is right. Before the polynomial, Muon divides by the Frobenius norm, not by the sum.",
    _margin(length=lambda sigma: 1.0),
    "The bound is right. Before the polynomial, divide by the Frobenius norm.",
    _margin(weight=np.ones_like),
    "The bound is right. The margin is an inner product of M and W: each direction counts sigma_k times.",
    _margin(weight=lambda sigma: sigma / np.linalg.norm(sigma)),
    "The bound is right. The margin is <M, W> / ||W||, with M itself, not M / ||M||.",
    _margin(steps=1),
    "You applied the polynomial once; Muon applies it five times.",
    _margin(coefficients=(1.5, -0.5, 0.0)),
    "These are Newton-Schulz's coefficients. Muon's are 3.4445, -4.7750, 2.0315.",
    _margin(coefficients=(3.4445, -4.7750 + 2.0315, 0.0)),
    "The last term is of fifth order.",
    _margin(bound=np.max),
    "The margin is right. The bound is the dual norm of M, the nuclear one: add its singular values up.",
    _margin(bound=np.linalg.norm),
    "The margin is right. The bound is the dual norm of M: the nuclear norm, not Frobenius's.",
    _margin(bound=lambda sigma: sigma.sum() / np.linalg.norm(sigma)),
    "The margin is right. The bound is that of M itself, not of M / ||M||.",
    _margin(over=np.min),
    "The bound is right. Divide by the spectral norm of W, its largest singular value, not its smallest.",
    lambda sigma: (muon_margin(sigma)[0] / sigma.sum(), sigma.sum()),
    "The bound is right. The first is the share of it; asked is the margin.",
    _margin(steps=4),
    "The bound is right. Muon applies its polynomial five times.",
    lambda sigma: (_lifted(sigma).mean() / _lifted(sigma).max(), sigma.sum()),
    "The bound is right. <M, W> weighs each singular value of W with that of M: sigma @ lifted, not a mean.",
    lambda sigma: (_lifted(sigma).min() / _lifted(sigma).max(), sigma.sum()),
    "The bound is right. That is how uneven the singular values of W are. The margin is <M, W> / ||W||.",
)

EXERCISES = [  # id, title, points, minutes, difficulty
    Exercise("03.1", "The steepest step", 2, 5, 2, steepest_step, step_cases, misconceptions=STEEPEST),
    Exercise("03.2", "Best for which norms?", 3, 8, 3, best_orders, order_cases, misconceptions=ORDERS),
    Exercise("03.3", "The longest safe step", 3, 10, 3, safe_step, safe_cases, misconceptions=SAFE),
    Exercise("03.4", "Adam's real step", 3, 20, 3, adam_step, adam_cases, misconceptions=REAL_STEP),
    Exercise(
        "03.5", "The margin that Muon gives away", 3, 8, 3, muon_margin, muon_cases, misconceptions=MUON
    ),
]
