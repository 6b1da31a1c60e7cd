"""Answers to lesson 08's exercises: a second right one each, and wrong ones that the checks have to catch."""

import numpy as np


def turns_by_flow(g, H):
    """Both turns by powers of H: minus the parts across g of the two curves' second terms."""
    d, size = len(g), (g @ g) ** 0.5
    P = np.eye(d) - np.outer(g, g) / size**2
    return [P @ H @ g / size**2, P @ H @ g / (2 * size**2)]


def turns_from_one_system(g, H):
    """The path's c from the stationarity on the sphere, with the multiplier as one more unknown."""
    d, size = len(g), np.sqrt(g @ g)
    unit = g / size  # size * c - H unit + nu * unit = 0 and unit.c = 0
    system = np.block([[size * np.eye(d), unit[:, None]], [unit[None], np.zeros((1, 1))]])
    c = np.linalg.solve(system, np.append(H @ unit, 0.0))[:d]
    return np.array([c, 0.5 * c])


def curvature_by_projector(p, g, H):
    """The smallest eigenvalue of the projected matrix, with p's own direction lifted out of the way."""
    e, nu = p / np.linalg.norm(p), np.linalg.norm(g) / np.linalg.norm(p)
    P = np.eye(len(p)) - np.outer(e, e)
    return np.linalg.eigvalsh(P @ (H + nu * np.eye(len(p))) @ P + 1e3 * np.outer(e, e)).min()


def curvature_by_parts(p, g, H):
    """In an orthonormal basis by QR that begins with p."""
    Q = np.linalg.qr(np.column_stack([p, np.eye(len(p))[:, : len(p)]]))[0][:, 1:]
    return min(np.linalg.eigvalsh(Q.T @ H @ Q)) - (p @ g) / np.linalg.norm(p) ** 2


def lowest_of_projected(p, g, H):
    """The smallest eigenvalue of the projected H, that of p's own direction, 0, among them."""
    P = np.eye(len(p)) - np.outer(p, p) / (p @ p)
    return np.linalg.eigvalsh(P @ H @ P).min() - (p @ g) / (p @ p)


def offset_by_elimination(rows, weights, lam):
    """r = rows^T c with (a_j - a_0) . r = b_j - b_0 and r perpendicular to p_mm: one square system for c."""
    b = np.log(weights) - np.log(lam)
    conditions = np.vstack([rows[1:] - rows[0], lam @ rows]) @ rows.T
    return rows.T @ np.linalg.solve(conditions, np.r_[b[1:] - b[0], 0.0])


def jump_by_rounds(lengths, scores, own, others, rounds=80):
    """R by insertion: where the best token comes down to the rival's shortfall at the radius before."""
    (a, b), (best, rival) = lengths, scores
    R = np.inf
    for _ in range(rounds):
        s = np.full(len(others), 1 / (np.exp(R / b) + len(others)))
        short = (1 - s.sum()) * (best - rival) + s @ (best - others)
        R = a * np.log((best - own).sum() / short - len(own))
    return R


def rival_ahead_by(lengths, scores, own, others):
    """The best token's shortfall less the rival's, a function of R."""

    def ahead(R):
        shorts = []
        for length, score, support in zip(lengths, scores, (own, others), strict=True):
            s = 1 / (np.exp(R / length) + len(support))
            shorts.append(scores[0] - score + (score - support).sum() * s)
        return shorts[0] - shorts[1]

    return ahead


def jump_from_zero(lengths, scores, own, others):
    """Wrong: the first R, from 0 on, at which the order of the shortfalls changes."""
    R = np.linspace(0, 50 * max(lengths), 4001)
    order = rival_ahead_by(lengths, scores, own, others)(R) > 0
    return R[np.argmax(order != order[0])]


def jump_by_halving(lengths, scores, own, others):
    """The largest R at which the shortfalls are equal, by steps inwards and halving."""
    ahead = rival_ahead_by(lengths, scores, own, others)
    R = np.linspace(50 * max(lengths), 0, 4001)
    k = np.argmax(ahead(R) > 0)
    low, high = R[k], R[k - 1]
    for _ in range(44):
        R = (low + high) / 2
        low, high = (R, high) if ahead(R) > 0 else (low, R)
    return low


ANSWERS = {
    "08.1": {
        "also_right": turns_from_one_system,
        "wrong": [
            lambda g, H: turns_by_flow(g, H)[0],
            lambda g, H: turns_by_flow(g, H.T @ H),
            lambda g, H: turns_by_flow(g, np.diag(np.diag(H))),
            lambda g, H: np.array(turns_by_flow(g, H)).T[:2],
            lambda g, H: [turns_by_flow(g, H)[0], turns_by_flow(g, H)[0] / 3],
            lambda g, H: np.array(turns_by_flow(g, H)) - np.stack([g, g]) / np.linalg.norm(g),
            lambda g, H: [H @ g / (g @ g), turns_by_flow(g, H)[1]],
            lambda g, H: [turns_by_flow(g, H)[0], H @ g / (2 * g @ g)],
        ],
    },
    "08.2": {
        "also_right": curvature_by_projector,
        "wrong": [
            lambda p, g, H: curvature_by_parts(p, g, H) * np.linalg.norm(p),
            lambda p, g, H: curvature_by_parts(p, g, -H),
            lambda p, g, H: abs(curvature_by_parts(p, g, H)) + 0.1,
            lambda p, g, H: curvature_by_parts(p, 2 * g, H),
            lambda p, g, H: curvature_by_parts(p, g / np.linalg.norm(p), H),
            lambda p, g, H: np.linalg.eigvalsh(H)[1] - (g @ p) / (p @ p),
            lambda p, g, H: p @ H @ p / (p @ p) - (g @ p) / (p @ p),
            lambda p, g, H: curvature_by_parts(np.ones(len(p)), np.zeros(len(p)), H) - (g @ p) / (p @ p),
            lambda p, g, H: min(0.0, curvature_by_parts(p, g, H)) - 0.05,
            lambda p, g, H: float(curvature_by_parts(p, g, H) > 0),
            lowest_of_projected,
            *(
                lambda p, g, H, k=k: curvature_by_parts(p, np.zeros(len(p)), H) - np.divide(g[k], p[k])
                for k in (0, -1)
            ),
            lambda p, g, H: curvature_by_parts(p, np.zeros(len(p)), H) - np.mean(g / p),
        ],
    },
    "08.3": {
        "also_right": offset_by_elimination,
        "wrong": [
            lambda rows, weights, lam: 2 * offset_by_elimination(rows, weights, lam),
            lambda rows, weights, lam: -offset_by_elimination(rows, weights, lam),
            lambda rows, weights, lam: offset_by_elimination(rows, weights**2, lam),
            lambda rows, weights, lam: offset_by_elimination(rows, weights, lam**2),
        ],
    },
    "08.4": {
        "also_right": jump_by_halving,
        "wrong": [
            lambda lengths, scores, own, others: jump_by_rounds(lengths, scores, own, others, rounds=1),
            lambda lengths, scores, own, others: jump_by_rounds(lengths, scores, own, others, rounds=2),
            lambda lengths, scores, own, others: jump_by_rounds(lengths[::-1], scores, own, others),
            lambda lengths, scores, own, others: jump_by_rounds(lengths / lengths[0], scores, own, others),
            lambda lengths, scores, own, others: jump_by_rounds(lengths, scores, own[:1], others[:1]),
            lambda lengths, scores, own, others: jump_by_rounds(
                lengths, scores, np.r_[own, scores[1]], others
            ),
            lambda lengths, scores, own, others: jump_by_rounds(
                lengths, scores, own, np.r_[others, scores[0]]
            ),
            lambda lengths, scores, own, others: jump_by_rounds(lengths, scores, own, own),
            lambda lengths, scores, own, others: 2 * jump_by_rounds(lengths, scores, own, others),
            jump_from_zero,
            lambda lengths, scores, own, others: lengths[0] * np.log(1 / (scores[0] - scores[1])),
            lambda lengths, scores, own, others: lengths[0] * np.log(1 / (scores[0] - scores[1]) - 1),
        ],
    },
}
