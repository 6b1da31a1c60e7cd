"""Lesson 03: a second right answer for each exercise, and more wrong ones."""

import numpy as np
import torch
from scipy.optimize import bisect, linprog, minimize


def step_by_search(g, rho):
    """The l_1 and l_inf steps by linear programming, the others by a descent on the curve of length one."""
    d = len(g)
    if rho == np.inf:
        return linprog(g, bounds=[(-1, 1)] * d).x
    if rho == 1:
        both = linprog(np.concatenate([g, -g]), A_ub=np.ones((1, 2 * d)), b_ub=[1.0]).x
        return both[:d] - both[d:]
    scale = g / np.abs(g).max()

    def slope(v):
        return scale @ v / np.linalg.norm(v, rho)

    v = minimize(slope, -np.sign(g), method="BFGS", options={"gtol": 1e-11}).x
    return torch.tensor(v / np.linalg.norm(v, rho))


def step_by_loops(g, rho):
    """Entry by entry, for 1 < rho < inf from the multiplier: |delta_j|^(rho - 1) = |g_j| / c."""
    if rho == 1:
        k = max(range(len(g)), key=lambda j: abs(g[j]))
        return [(-1.0 if g[k] > 0 else 1.0) if j == k else 0.0 for j in range(len(g))]
    if rho == np.inf:
        return [-1.0 if slope > 0 else 1.0 for slope in g]
    largest = max(abs(slope) for slope in g)
    sizes = [(abs(slope) / largest) ** (1 / (rho - 1)) for slope in g]
    length = sum(size**rho for size in sizes) ** (1 / rho)
    return [-np.sign(slope) * size / length for slope, size in zip(g, sizes, strict=True)]


def corner_only(g, rho):
    """Right at 1, 2 and infinity, the nearest of them between."""
    return step_by_loops(g, min((1.0, 2.0, np.inf), key=lambda known: abs(1 / known - 1 / rho)))


def cut(g, rho):
    """Counts slopes below a tenth of the largest as none."""
    return step_by_loops(g, rho) * (np.abs(g) > 0.1 * np.abs(g).max())


def orders_by_bisection(w, a, b):
    """Asks for each rho whether grad psi(w) is a combination of a and b without a negative weight."""

    def shares(power):  # the weights of a and b
        return np.linalg.solve(np.stack([a, b], axis=1), (w / w[0]) ** power)

    def edge(k):
        signs = [1 if shares(power)[k] >= 0 else -1 for power in (0.0, 1e4)]
        if signs[0] == signs[1]:
            return None
        return bisect(lambda power: 1 if shares(power)[k] >= 0 else -1, 0.0, 1e4, xtol=1e-12)

    at_one = shares(0.0)
    lowest, highest = 1.0, np.inf
    for k in (0, 1):
        power = edge(k)
        if power is not None and at_one[k] < 0:
            lowest = 1 + power
        elif power is not None:
            highest = 1 + power
    return [lowest, torch.tensor(highest)]


def orders_where(change):
    def wrong(w, a, b):
        lowest, highest = orders_by_bisection(w, a, b)
        return change(float(lowest), float(highest), w)

    return wrong


def orders_of(given):
    """The lowest from one point, the highest from the other: (lowest's, highest's) = given(w, a, b)."""

    def wrong(w, a, b):
        (lowest, highest), slope = given(w, a, b), np.log(w[1] / w[0])
        return (
            1 + np.log(lowest[1] / lowest[0]) / slope if lowest[1] < lowest[0] else 1.0,
            1 + np.log(highest[1] / highest[0]) / slope if highest[1] > 0 else np.inf,
        )

    return wrong


def safe_by_search(a, b):
    """Both places where a sign turns, bisected, and their distance in steps."""
    low, high = -40.0, 40.0

    def turn(j, rises_left):
        left, right = low, high
        for _ in range(200):
            middle = (left + right) / 2
            share = 1 / (1 + np.exp(-middle))  # of b
            rises = (1 - share) * a[j] + share * b[j] > 0
            left, right = (middle, right) if rises == rises_left else (left, middle)
        return left

    far = turn(0, True) - turn(1, False)
    step = np.array([1.0, -1.0])
    return torch.tensor(far / ((a - b) @ step))


def safe_with(change):
    """The answer passed through a function of it and the two points."""
    return lambda a, b: change(float(safe_by_search(a, b)), a, b)


def bisected(equation, halvings=200):
    """Adam's step from an equation residual(step, eta, mu_hat, beta1, beta2) that falls through zero."""

    def answer(eta, mu_hat, beta1, beta2):
        low, high = 0.0, -np.log(beta2) / 2 / mu_hat
        for _ in range(halvings):
            middle = (low + high) / 2
            above = equation(middle, eta, mu_hat, beta1, beta2) > 0
            low, high = (middle, high) if above else (low, middle)
        return low, memory_by_halves(low * mu_hat, beta2)

    return answer


def memory_by_halves(nu, beta2):
    """The k with (beta2 e^(2 nu))^k = 1/e, bisected; infinite if old squares are never forgotten."""
    low, high = 0.0, 1e9
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if middle * (np.log(beta2) + 2 * nu) > -1 else (low, middle)
    return low


def real_step(change):
    """The answer with change(length, memory, inputs) in its place."""
    return lambda *inputs: change(*step_by_bisection(*inputs), *inputs)


def once(eta, mu_hat, beta1, beta2):
    """The quotient at nu = eta mu_hat, and the memory of that nu."""
    nu = eta * mu_hat
    left = max(1 - beta2 * np.exp(2 * nu), 0) / (1 - beta2)
    return eta * (1 - beta1) / (1 - beta1 * np.exp(nu)) * np.sqrt(left), -1 / (np.log(beta2) + 2 * nu)


def by_sums(step, eta, mu_hat, beta1, beta2, mean=1.0, squares=1.0):
    """Both running means added up, newest gradient first."""
    nu = step * mu_hat
    mean = (1 - beta1) / (1 - beta1 * np.exp(mean * nu))
    square = (1 - beta2) / max(1 - beta2 * np.exp(2 * squares * nu), 1e-300)
    return eta * mean / np.sqrt(square) - step


step_by_bisection = bisected(by_sums)


def step_by_newton(eta, mu_hat, beta1, beta2):
    """Newton's method for 1 - beta2 e^(2 nu) = (1 - beta2) (nu / (eta mu) / momentum)^2."""
    nu = -np.log(beta2) / 2
    for _ in range(200):
        momentum = (1 - beta1) / (1 - beta1 * np.exp(nu))
        left = 1 - beta2 * np.exp(2 * nu) - (1 - beta2) * (nu / (eta * mu_hat) / momentum) ** 2
        slope = -2 * beta2 * np.exp(2 * nu) - (1 - beta2) * 2 * nu / (eta * mu_hat * momentum) ** 2
        nu -= 0.5 * left / slope
    return torch.tensor([nu / mu_hat, -1 / np.log(beta2 * np.exp(2 * nu))])


def margin_of_a_matrix(sigma):
    """The polynomial on a matrix that has these singular values, and its inner product with the result."""
    rng = np.random.default_rng(0)
    left, right = (np.linalg.qr(rng.normal(size=(len(sigma), len(sigma))))[0] for _ in range(2))
    M = torch.tensor(left @ np.diag(sigma) @ right)
    P = M / torch.linalg.matrix_norm(M)
    for _ in range(5):
        square = P @ P.T
        P = 3.4445 * P - 4.7750 * square @ P + 2.0315 * square @ square @ P
    return [(M * P).sum() / torch.linalg.matrix_norm(P, 2), torch.linalg.matrix_norm(M, "nuc")]


def margin_with(times=5, lift=None, margin=None):
    """Muon's margin with another number of iterations, another map of values, or another formula."""

    def wrong(sigma):
        lifted = sigma / np.linalg.norm(sigma)
        for _ in range(times):
            lifted = lift(lifted) if lift else 3.4445 * lifted - 4.7750 * lifted**3 + 2.0315 * lifted**5
        found = margin(sigma, lifted) if margin else (sigma * lifted).sum() / lifted.max()
        return found, sigma.sum()

    return wrong


ANSWERS = {
    "03.1": {
        "also_right": step_by_loops,
        "wrong": [
            corner_only,
            cut,
            lambda g, rho: np.array(step_by_loops(g, rho)) * np.abs(g).max(),
            lambda g, rho: np.abs(step_by_loops(g, rho)),
            lambda g, rho: step_by_loops(g, min(rho, 2.0)),
            lambda g, rho: step_by_loops(g, max(rho, 2.0)),
            lambda g, rho: step_by_loops(g, max(rho, 1.2)),
            lambda g, rho: step_by_loops(g, max(rho, 1.001)),
            lambda g, rho: step_by_loops(g, min(rho, 50.0)),
            lambda g, rho: step_by_loops(g, 1.0 if rho < 1.05 else rho),
            lambda g, rho: step_by_loops(g, np.inf if rho > 20 else rho),
            lambda g, rho: step_by_loops(g**2, rho),
            lambda g, rho: -g,
        ],
    },
    "03.2": {
        "also_right": orders_by_bisection,
        "wrong": [
            orders_where(lambda low, high, w: (low, min(high, 100.0))),
            orders_where(lambda low, high, w: (low, high if high < 20 else np.inf)),
            orders_where(lambda low, high, w: (low, high if high < 100 else np.inf)),
            orders_where(lambda low, high, w: (min(low, 2.0), high)),
            orders_where(lambda low, high, w: (low, max(high, 2.0))),
            orders_where(lambda low, high, w: (low, high if high < np.inf else np.nan)),
            orders_of(lambda w, a, b: (b, a)),
            orders_of(lambda w, a, b: (a, b)),
            orders_where(lambda low, high, w: (max(low, 1.5), high)),
            orders_where(lambda low, high, w: (1.0, high)),
            orders_where(lambda low, high, w: (low, np.inf)),
            orders_where(lambda low, high, w: (1 / low, 1 / high)),
            orders_where(lambda low, high, w: (low, low)),
            orders_where(lambda low, high, w: (low, (low + high) / 2)),
            lambda w, a, b: orders_by_bisection(w**2, a, b),
            lambda w, a, b: orders_by_bisection(w, a / np.linalg.norm(a), a + b),
        ],
    },
    "03.3": {
        "also_right": safe_by_search,
        "wrong": [
            safe_with(lambda step, a, b: step * 1.001),
            safe_with(lambda step, a, b: step * 2),
            safe_with(lambda step, a, b: min(step, 0.2)),
            safe_with(lambda step, a, b: step * np.abs(a - b).sum() / np.abs(a + b).max()),
            safe_with(lambda step, a, b: step * np.abs(a - b).sum() / max(np.abs(a).sum(), np.abs(b).sum())),
            safe_with(lambda step, a, b: step * (a[0] * b[1] - a[1] * b[0])),
            safe_with(lambda step, a, b: np.exp(step)),
            safe_with(lambda step, a, b: (step, step)),
            lambda a, b: abs(np.log(a[0] * a[1] / (b[0] * b[1]))) / np.abs(a - b).sum(),
            lambda a, b: np.log(a[0] / b[1]) / np.abs(a - b).sum(),
            lambda a, b: safe_by_search(a / np.linalg.norm(a), b / np.linalg.norm(b)),
            lambda a, b: 1 / np.abs(a - b).sum(),
        ],
    },
    "03.4": {
        "also_right": step_by_bisection,
        "wrong": [
            bisected(by_sums, halvings=26),
            bisected(lambda step, *rest: by_sums(step, *rest, squares=0.5)),
            bisected(lambda step, *rest: by_sums(step, *rest, mean=0.0)),
            bisected(lambda step, eta, mu, b1, b2: by_sums(step, eta, mu, b2, b1 or b2)),
            bisected(lambda step, eta, mu, b1, b2: by_sums(step, eta, 1.0, b1, b2)),
            once,
            real_step(lambda step, memory, *inputs: (step * (1 + 1e-3), memory)),
            real_step(lambda step, memory, eta, mu, b1, b2: (eta * (1 - b1) / np.sqrt(1 - b2), memory)),
            real_step(lambda step, memory, eta, mu, b1, b2: (1 / (1 / eta + 2 * mu / (1 - b2)), memory)),
            real_step(lambda step, memory, eta, mu, b1, b2: (eta * np.sqrt(b2), memory)),
            real_step(lambda step, memory, *inputs: step),
            real_step(lambda step, memory, *inputs: (step, memory * (1 + 1e-3))),
            real_step(lambda step, memory, *inputs: (step, 1 / memory)),
            real_step(lambda step, memory, *inputs: (step, 2 * memory)),
            real_step(lambda step, memory, *inputs: (step, np.ceil(memory))),
            real_step(lambda step, memory, eta, mu, b1, b2: (step, 1 / (step * mu))),
            real_step(lambda step, memory, eta, mu, b1, b2: (step, 1 / (1 - b2) * eta / step)),
        ],
    },
    "03.5": {
        "also_right": margin_of_a_matrix,
        "wrong": [
            margin_with(times=6),
            margin_with(times=4),
            margin_with(times=1, lift=lambda values: np.clip(values / values.max(), 0.68, 1.2)),
            margin_with(times=0),
            margin_with(margin=lambda sigma, lifted: sigma.sum() / lifted.max()),
            margin_with(margin=lambda sigma, lifted: sigma.sum() * lifted.min() / lifted.max()),
            margin_with(margin=lambda sigma, lifted: sigma.sum() * lifted.mean() / lifted.max()),
            margin_with(margin=lambda sigma, lifted: (sigma * np.sort(lifted)[::-1]).sum() / lifted.max()),
            margin_with(lift=lambda values: values / values),
        ],
    },
}
