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


def proof_by_cases(scores, half=0.5, each=None):
    """The least mean loss over which sequence fails and with which token."""
    n, T = scores.shape
    losses = []
    for i in range(n):
        for t in range(T):
            outputs = scores.max(axis=1).copy()
            if t != scores[i].argmax():
                outputs[i] = (1 - half) * outputs[i] + half * scores[i, t]
                losses.append(np.log1p(np.exp(-outputs)).mean())
    return min(losses) if each is None else each(losses)


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
            lambda rows, weights, lam: offset_by_elimination(rows, weights, lam) + lam @ rows,
            lambda rows, weights, lam: offset_by_elimination(rows, lam, weights),
            lambda rows, weights, lam: offset_by_elimination(rows, weights, np.ones(len(lam))),
            lambda rows, weights, lam: offset_by_elimination(rows, np.ones(len(lam)), lam),
            lambda rows, weights, lam: np.linalg.pinv(rows) @ np.log(weights / lam),
        ],
    },
    "08.4": {
        "also_right": proof_by_cases,
        "wrong": [
            lambda scores: proof_by_cases(scores, half=1.0),
            lambda scores: proof_by_cases(scores, half=0.25),
            lambda scores: proof_by_cases(scores, each=max),
            lambda scores: proof_by_cases(scores, each=np.mean),
            lambda scores: proof_by_cases(scores) * len(scores),
            lambda scores: proof_by_cases(np.sort(scores, axis=1)[:, [0, -1]]),
            lambda scores: proof_by_cases(scores[:1]),
            lambda scores: proof_by_cases(scores.T),
            lambda scores: proof_by_cases(-scores),
            lambda scores: np.log1p(np.exp(-scores.max(axis=1))).mean(),
            lambda scores: np.exp(-proof_by_cases(scores)),
        ],
    },
}
