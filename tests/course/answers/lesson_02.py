"""Answers to lesson 02's exercises: a second right one each, and wrong ones that the checks have to catch."""

import numpy as np
import torch
from scipy.optimize import minimize, nnls


def two_points_by_slsqp(a, b):
    """The same problem for a general-purpose solver, from a start that is feasible."""
    A = np.stack([a, b])
    start = a / (a @ a) + b / (b @ b)
    start *= 2 / (A @ start).min()
    constraint = {"type": "ineq", "fun": lambda w: A @ w - 1, "jac": lambda w: A}
    found = minimize(lambda w: w @ w, start, jac=lambda w: 2 * w, constraints=[constraint], tol=1e-15)
    tight = np.abs(A @ found.x - 1) < 1e-4
    return (np.linalg.pinv(A[tight]) @ np.ones(tight.sum())).tolist()


def two_points_longer(a, b):
    longer = max(a, b, key=lambda point: point @ point)
    return longer / (longer @ longer)


def two_points_middle_of_both(a, b):
    return (a / (a @ a) + b / (b @ b)) / 2


def two_points_clipped_late(a, b):
    return np.linalg.solve(np.stack([a, b]) @ np.stack([a, b]).T, np.ones(2)).clip(0) @ np.stack([a, b])


def two_points_by_pinv(a, b):
    """Both equations first, singular or not, then the signs."""
    A = np.stack([a, b])
    weights = np.linalg.pinv(A @ A.T) @ np.ones(2)
    if weights[1] < 0:
        return a / (a @ a)
    return b / (b @ b) if weights[0] < 0 else weights @ A


def two_points_a_alone_or_both(a, b):
    w = a / (a @ a)
    return w if b @ w >= 1 else np.linalg.lstsq(np.stack([a, b]), np.ones(2), rcond=None)[0]


def two_points_b_alone_or_both(a, b):
    return two_points_a_alone_or_both(b, a)


def two_points_shorter_if_acute(a, b):
    A, shorter = np.stack([a, b]), min(a, b, key=lambda point: point @ point)
    return shorter / (shorter @ shorter) if a @ b > 0 else np.linalg.solve(A @ A.T, np.ones(2)) @ A


def two_points_turned(a, b):
    """The first point alone, the second alone or both, with b turned round where the angle is obtuse."""
    b = -b if a @ b < 0 else b
    for one, other in ((a, b), (b, a)):
        w = one / (one @ one)
        if other @ w >= 1:
            return w
    A = np.stack([a, b])
    return np.linalg.solve(A @ A.T, np.ones(2)) @ A


def angle_in_torch(w, lam, A):
    w, A = torch.as_tensor(w), torch.as_tensor(A)
    bar = torch.as_tensor(lam / lam.sum()) @ A
    e, f = w / w.norm(), bar / bar.norm()
    direct, last = (
        torch.arccos((A @ e).min() / bar.norm()),
        torch.arccos(torch.sqrt((A @ bar).min()) / bar.norm()),
    )
    return torch.rad2deg(torch.minimum(direct, torch.arccos(e @ f) + last))


def angle_numbers(w, lam, A):
    """mu(w), mu(a_bar), B, and the angle between w and a_bar in radians."""
    bar = lam @ A / lam.sum()
    margins = [(A @ v).min() / np.linalg.norm(v) for v in (w, bar)]
    return *margins, np.linalg.norm(bar), np.arccos(w @ bar / np.linalg.norm(w) / np.linalg.norm(bar))


def angle_in_the_ball(w, lam, A):
    """The sharpest: a_hat is in the ball with diameter 0 to a_bar, and scores enough under w and a_bar."""
    mu, mu_bar, B, between = angle_numbers(w, lam, A)
    first = (between + np.arccos(np.clip(2 * mu / B - np.cos(between), -1, 1))) / 2
    return np.degrees(min(first, between + np.arccos(np.clip(2 * mu_bar / B - 1, -1, 1)) / 2))


def angle_at_the_worst_largest_margin(w, lam, A):
    """For each mu_hat that is possible the best of three bounds, and of these the worst."""
    mu, mu_bar, B, between = angle_numbers(w, lam, A)

    def bounds(mu_hat):
        rising = min(np.arccos(min(1, mu / mu_hat)), between + np.arccos(min(1, mu_bar / mu_hat)))
        return rising, between + np.arccos(min(1, mu_hat / B))

    low, high = max(mu, mu_bar), B
    for _ in range(60):  # one rises, the other falls
        rising, falling = bounds((low + high) / 2)
        low, high = ((low + high) / 2, high) if rising < falling else (low, (low + high) / 2)
    return np.degrees(max(min(bounds(low)), min(bounds(high))))


def angle_where(change):
    """change(mu(w), mu(a_bar), B, between), in degrees where it is in radians."""
    return lambda w, lam, A: np.degrees(change(*angle_numbers(w, lam, A)))


def arccos(cosine):
    return np.arccos(np.clip(cosine, -1, 1))


def move_by_search(mu_hat, q, apart, r):
    """Every direction of the move tried, in the plane of a, b and w_hat: the margins of the pairs."""
    a, b = np.array([mu_hat, (1 - q) * apart]), np.array([mu_hat, -q * apart])
    ends = []
    for sign in (1, -1):
        angles = np.linspace(0, 2 * np.pi, 200)
        for _ in range(6):  # finer and finer
            moved = a + r * np.stack([np.cos(angles), np.sin(angles)], axis=1)
            along = moved - b
            share = np.clip(-(along @ b) / (along**2).sum(axis=1), 0, 1)
            distance = np.linalg.norm(b + share[:, None] * along, axis=1)
            k = (sign * distance).argmin()
            width = angles[1] - angles[0]
            angles = np.linspace(angles[k] - width, angles[k] + width, 201)
        ends.append(distance[k])
    return torch.tensor(ends)


def move_where(change):
    """change(least, greatest, mu_hat, q, apart, r) of the right answer."""
    return lambda *inputs: change(*move_by_search(*inputs).tolist(), *inputs)


def step_by_singular_values(A, q):
    """The support vectors as rows, scaled: the largest singular value, squared."""
    A, q = torch.as_tensor(A), torch.as_tensor(q)
    a_hat = q @ A
    return 2 * a_hat.norm() / torch.linalg.svdvals(q.sqrt()[:, None] * (A - a_hat)).max() ** 2


def step_where(change):
    """change(eta*, A, q) of the right answer."""
    return lambda A, q: change(step_by_singular_values(A, q).item(), A, q)


def step_from_the_origin(A, q):
    """The farthest support vector from the origin for the spread."""
    return 2 * np.linalg.norm(q @ A) / (A[q > 0] ** 2).sum(axis=1).max()


def step_of_the_widest_pair(A, q):
    """The squared distance of the two support vectors farthest apart for the spread."""
    held = A[q > 0]
    return 2 * np.linalg.norm(q @ A) / ((held[:, None] - held) ** 2).sum(axis=2).max()


def step_around_the_mean(A, q):
    """Weighted, but around the mean of all points."""
    apart = A - A.mean(axis=0)
    return 2 * np.linalg.norm(q @ A) / np.linalg.eigvalsh((apart.T * q) @ apart)[-1]


def step_by_hand(A, q, weights=None, centre=None, length=None, number=lambda C: np.linalg.eigvalsh(C)[-1]):
    """Twice the length of a_hat over the largest eigenvalue of C, or with one of these replaced."""
    a_hat, weights = q @ A, q if weights is None else weights
    apart = A - (a_hat if centre is None else centre)
    C = sum(weight * np.outer(a, a) for weight, a in zip(weights, apart, strict=True))
    with np.errstate(divide="ignore"):  # an eigenvalue may come out as 0
        return 2 * np.linalg.norm(a_hat if length is None else length) / number(C)


def step_by_eigvals(A, q):
    """Complex where rounding makes the covariance a little asymmetric."""
    return 2 * np.linalg.norm(q @ A) / np.linalg.eigvals(np.cov(A.T, aweights=q, bias=True)).max()


def step_of_a_pair(A, q, order):
    """C's eigenvalue for two support vectors, with the first two of some order."""
    i, j = [k for k in order if q[k] > 0][:2]
    return 2 * np.linalg.norm(q @ A) / (q[i] * q[j] * np.linalg.norm(A[i] - A[j]) ** 2)


def side_by_slsqp(A):
    """Each point's own w, by a general-purpose solver that knows no weights."""
    found = []
    for i, a in enumerate(A):
        scale, others = np.linalg.norm(a), np.delete(A, i, axis=0)
        others = others / np.linalg.norm(others, axis=1, keepdims=True)
        constraints = [
            {"type": "ineq", "fun": lambda w, B=others: B @ w, "jac": lambda w, B=others: B},
            {"type": "ineq", "fun": lambda w: 1 - w @ w, "jac": lambda w: -2 * w},
        ]
        ends = [
            minimize(
                lambda w, a=a / scale: a @ w,
                start,
                jac=lambda w, a=a / scale: a,
                constraints=constraints,
                tol=1e-14,
                options={"maxiter": 1000},
            )
            for start in (-a / scale, others.mean(axis=0), others.sum(axis=0) - a)
        ]
        held = [end.x for end in ends if (others @ end.x).min() > -1e-9 and np.linalg.norm(end.x) < 1 + 1e-9]
        found.append(scale * max([0.0, *(-a @ w / scale for w in held)]))
    return found


def side_where(change):
    """change(right answer, A)."""
    return lambda A: change(np.array([nnls(np.delete(A, i, axis=0).T, a)[1] for i, a in enumerate(A)]), A)


def side_from_mean(A):
    return [np.linalg.norm(a - np.delete(A, i, axis=0).mean(axis=0)) for i, a in enumerate(A)]


def side_from_nearest_point(A):
    return [np.linalg.norm(np.delete(A, i, axis=0) - a, axis=1).min() for i, a in enumerate(A)]


ANSWERS = {
    "02.1": {
        "also_right": two_points_by_slsqp,
        "wrong": [
            two_points_longer,
            two_points_middle_of_both,
            two_points_clipped_late,
            two_points_by_pinv,
            two_points_a_alone_or_both,
            two_points_b_alone_or_both,
            two_points_shorter_if_acute,
            two_points_turned,
        ],
    },
    "02.2": {
        "also_right": angle_in_torch,
        "more_right": [
            angle_in_the_ball,
            angle_at_the_worst_largest_margin,
            lambda *given: angle_in_torch(*map(np.float32, given)),
        ],
        "wrong": [
            angle_where(lambda mu, bar, B, psi: min(arccos(mu / B), psi + arccos(bar / B))),
            angle_where(lambda mu, bar, B, psi: arccos(max(mu, bar) / B)),
            angle_where(lambda mu, bar, B, psi: arccos(np.sqrt(max(mu, bar) / B))),
            angle_where(lambda mu, bar, B, psi: min(arccos(np.sqrt(mu / B)), psi + arccos(np.sqrt(bar / B)))),
            angle_where(lambda mu, bar, B, psi: (arccos(mu / B) + psi + arccos(np.sqrt(bar / B))) / 2),
            angle_where(lambda mu, bar, B, psi: min(arccos(mu / B), psi + arccos((1 + bar / B) / 2))),
            angle_where(lambda mu, bar, B, psi: min(arccos(mu / B), psi + arccos(bar / B) / 2)),
            angle_where(lambda mu, bar, B, psi: min(arccos(mu / B), psi + np.sqrt(2 - 2 * bar / B))),
            angle_where(lambda mu, bar, B, psi: min(arccos(mu / B), psi + np.sqrt(1 - bar / B))),
            angle_where(lambda mu, bar, B, psi: min(arccos(mu / B), np.hypot(psi, arccos(np.sqrt(bar / B))))),
            angle_where(lambda mu, bar, B, psi: min(arccos(mu / B), psi + arccos(np.sqrt(bar)))),
            angle_where(lambda mu, bar, B, psi: min(arccos(mu / B), psi + arccos(np.sqrt(bar / B**2)))),
            angle_where(lambda mu, bar, B, psi: psi + arccos(np.sqrt(bar / B))),
            angle_where(lambda mu, bar, B, psi: min(arccos(mu / B), psi + arccos(bar / mu))),
            angle_where(
                lambda mu, bar, B, psi: arccos(mu / B) if mu > bar else psi + arccos((bar / B) ** 0.5)
            ),
        ],
    },
    "02.3": {
        "also_right": move_by_search,
        "wrong": [
            move_where(lambda least, greatest, *rest: least),
            move_where(lambda least, greatest, mu, q, apart, r: (least - mu, greatest - mu)),
            move_where(lambda least, greatest, mu, q, apart, r: (1 / greatest, 1 / least)),
            move_where(lambda least, greatest, mu, q, apart, r: (2 * mu - greatest, greatest)),
            move_where(lambda least, greatest, mu, q, apart, r: (least, 2 * mu - least)),
            lambda mu, q, apart, r: (mu * (1 - r / apart) - q * r, mu * (1 - r / apart) + q * r),
            lambda mu, q, apart, r: (np.sqrt(mu**2 - r**2) - q * r, np.sqrt(mu**2 - r**2) + q * r),
            lambda mu, q, apart, r: (mu * np.cos(r / apart) - q * r, mu * np.cos(r / apart) + q * r),
            lambda mu, q, apart, r: (np.hypot(mu, q * apart) - r, np.hypot(mu, q * apart) + r),
            lambda mu, q, apart, r: (mu - q**2 * r, mu + q**2 * r),
            lambda mu, q, apart, r: (mu * (1 - q * r / apart), mu * (1 + q * r / apart)),
        ],
    },
    "02.4": {
        "also_right": step_by_singular_values,
        "more_right": [
            step_by_eigvals,
            lambda A, q: step_by_hand(A, q, number=lambda C: np.linalg.eigvals(C).max()),
        ],
        "wrong": [
            step_from_the_origin,
            step_of_the_widest_pair,
            step_around_the_mean,
            lambda A, q: step_by_hand(A, q, number=lambda C: np.linalg.eigvalsh(C).min()),
            lambda A, q: step_by_hand(A, q, number=lambda C: np.linalg.svd(C)[1][-1]),
            lambda A, q: step_by_hand(A, q, number=np.linalg.norm),
            lambda A, q: step_by_hand(A, q, number=lambda C: C.diagonal().max()),
            lambda A, q: step_by_hand(A, q, number=lambda C: C.trace() / len(C)),
            lambda A, q: step_by_hand(A, q, weights=q > 0),
            lambda A, q: step_by_hand(A, q, weights=q > 0, centre=A[q > 0].mean(axis=0)),
            lambda A, q: step_by_hand(A, q, weights=(q > 0) / (q > 0).sum()),
            lambda A, q: step_by_hand(A, q, weights=np.ones(len(A))),
            lambda A, q: step_by_hand(A, q, weights=q**2),
            lambda A, q: step_by_hand(A, q, weights=np.exp(-A @ (q @ A) / np.linalg.norm(q @ A) ** 2)),
            lambda A, q: step_by_hand(A, q, centre=A[q > 0].mean(axis=0)),
            lambda A, q: step_by_hand(A, q, length=A.mean(axis=0)),
            lambda A, q: step_by_hand(A, q, length=A[q > 0].mean(axis=0)),
            lambda A, q: step_of_a_pair(A, q, range(len(q))),
            lambda A, q: step_of_a_pair(A, q, np.argsort(-q)),
            lambda A, q: 4 / step_by_hand(A, q),
            step_where(lambda longest, A, q: 2 * longest),
            step_where(lambda longest, A, q: longest**2),
            step_where(lambda longest, A, q: -longest),
            step_where(lambda longest, A, q: np.log(longest)),
            step_where(lambda longest, A, q: (longest, longest)),
            step_where(lambda longest, A, q: longest / np.linalg.norm(q @ A) ** 3),
        ],
    },
    "02.5": {
        "also_right": side_by_slsqp,
        "wrong": [
            side_from_mean,
            side_from_nearest_point,
            side_where(lambda far, A: far / 2),
            side_where(lambda far, A: 2 * far),
            side_where(lambda far, A: np.full(len(A), far.max())),
            side_where(lambda far, A: np.where(far == far.max(), far, 0)),
            side_where(lambda far, A: np.degrees(np.arcsin(far / np.linalg.norm(A, axis=1)))),
            side_where(lambda far, A: far + (far < 1e-9) * 1e-3),
            side_where(lambda far, A: np.sqrt((A**2).sum(axis=1) - far**2)),
        ],
    },
}
