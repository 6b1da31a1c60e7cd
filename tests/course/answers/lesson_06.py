"""Answers to lesson 06's exercises: a second right one each, and wrong ones that the checks have to catch."""

import numpy as np


def pushes_in_torch(p, keys, scores, selected):
    import torch  # only here: the test of the whole round runs this file in many fresh processes

    p, keys, scores = map(torch.as_tensor, (p, keys, scores))
    s = torch.softmax(keys @ p, dim=0)
    return s[selected] * s * (scores[selected] - scores)


def leads_by_nnls(a, b):
    """Lesson 02's dual solver."""
    from scipy.optimize import nnls

    rows = np.array([a, b], dtype=float)
    lam, _ = nnls(np.vstack([rows.T, np.ones(2)]), np.r_[np.zeros(len(a)), 1.0])
    return rows @ (rows.T @ lam / (1 - lam.sum()))


def leads_if(ahead):
    """The lead at the shorter comparison's SVM, if it is taken to be above 1; undecided for equal lengths."""

    def answer(a, b):
        if a @ a == b @ b:
            return np.full(2, np.nan)
        shorter = min(a, b, key=lambda c: c @ c)
        lead = a @ b / (shorter @ shorter) if ahead(a, b) else 1.0
        return np.array([1, lead] if shorter is a else [lead, 1])

    return answer


def leads_for_whole_products(a, b):
    leads = leads_by_nnls(a, b)
    return leads if a @ b >= 1 else np.ones(2)


def leads_at(p, a, b):
    return np.array([p @ a, p @ b])


def border_by_bisection(p1, b, scores):
    """Where the two pairs together leave the excess as it is."""
    low, high = -200.0, 200.0
    for _ in range(80):
        excess = (low + high) / 2
        push = (scores[1] - scores[2]) * np.array([1, 0])
        pull = (scores[0] - scores[1]) * np.exp(-excess) * np.array([-1 - b, 1])
        grows = (push + pull) @ np.array([b, -1]) > 0
        low, high = (low, excess) if grows else (excess, high)
    return b * p1 - excess


def beat_in_loops(keys, scores, selected, p_mm, tight=1.0, tolerance=1e-4, none=-np.inf, best=max):
    """One sequence after the other, one token after the other."""
    bars = []
    for key, score, alpha in zip(keys, scores, selected, strict=True):
        rivals = [t for t in range(len(key)) if t != alpha]
        bars.append([score[t] for t in rivals if abs((key[alpha] - key[t]) @ p_mm - tight) < tolerance])
    return [best(bar) if bar else none for bar in bars]


ANSWERS = {
    "06.1": {
        "also_right": pushes_in_torch,
        "wrong": [
            lambda p, keys, scores, selected: pushes_in_torch(p, keys, scores, selected).sum(),
            lambda p, keys, scores, selected: pushes_in_torch(2 * p, keys, scores, selected),
            lambda p, keys, scores, selected: pushes_in_torch(p, keys, scores, 0),
            lambda p, keys, scores, selected: pushes_in_torch(p, keys, scores, max(selected, 1)),
            lambda p, keys, scores, selected: -np.array(pushes_in_torch(p, keys, scores, selected)),
            lambda p, keys, scores, selected: np.delete(pushes_in_torch(p, keys, scores, selected), selected),
            lambda p, keys, scores, selected: np.array(pushes_in_torch(0 * p, keys, scores, selected)),
            lambda p, keys, scores, selected: np.array(pushes_in_torch(p, keys, keys @ p, selected)),
            lambda p, keys, scores, selected: pushes_in_torch(p, keys, scores, selected)[:, None] * keys,
            lambda p, keys, scores, selected: np.exp(keys @ p) * (scores[selected] - scores),
        ],
    },
    "06.2": {
        "also_right": leads_by_nnls,
        "wrong": [
            lambda a, b: np.array([1, a @ b / (a @ a)]),
            lambda a, b: np.array([a @ b / (b @ b), 1]),
            lambda a, b: np.array([1, max(1, a @ b / (a @ a))]),
            lambda a, b: leads_at(a + b, a, b),
            lambda a, b: leads_at((a + b) / ((a + b) @ (a + b)), a, b),
            lambda a, b: leads_by_nnls(a / np.linalg.norm(a), b / np.linalg.norm(b)),
            lambda a, b: np.full(2, leads_by_nnls(a, b).max()),
            lambda a, b: leads_by_nnls(a, b) - 1,
            lambda a, b: leads_by_nnls(a, b)[::-1],
            lambda a, b: 1 / leads_by_nnls(a, b),
            lambda a, b: np.ones(2),
            lambda a, b: [max(1, abs(a @ b) / (b @ b)), max(1, abs(a @ b) / (a @ a))],
            lambda a, b: [max(1, a @ b / np.linalg.norm(b)), max(1, a @ b / np.linalg.norm(a))],
            lambda a, b: np.minimum(leads_by_nnls(a, b), 1.2),
            leads_if(lambda a, b: a @ b >= min(a @ a, b @ b)),
            leads_for_whole_products,
        ],
    },
    "06.3": {
        "also_right": beat_in_loops,
        "wrong": [
            lambda keys, scores, selected, p_mm: np.max(scores, axis=1),
            lambda keys, scores, selected, p_mm: scores[np.arange(len(keys)), selected],
            lambda keys, scores, selected, p_mm: beat_in_loops(keys, scores, selected, p_mm, best=min),
            lambda keys, scores, selected, p_mm: beat_in_loops(keys, scores, 0 * selected, p_mm),
            lambda keys, scores, selected, p_mm: beat_in_loops(keys, scores, selected, p_mm, none=0),
            lambda keys, scores, selected, p_mm: beat_in_loops(keys, scores, selected, p_mm, none=-1),
            lambda keys, scores, selected, p_mm: beat_in_loops(keys, scores, selected, p_mm, tolerance=9),
            lambda keys, scores, selected, p_mm: beat_in_loops(keys, scores, selected, p_mm, best=np.mean),
            lambda keys, scores, selected, p_mm: beat_in_loops(keys, scores, selected, p_mm, tight=0),
            lambda keys, scores, selected, p_mm: beat_in_loops(keys, scores, selected, p_mm / 2),
            lambda keys, scores, selected, p_mm: beat_in_loops(keys, keys @ p_mm, selected, p_mm),
            lambda keys, scores, selected, p_mm: beat_in_loops(keys, scores, selected, p_mm)[::-1],
            lambda keys, scores, selected, p_mm: beat_in_loops(keys[:1], scores[:1], selected[:1], p_mm),
        ],
    },
    "06.4": {
        "also_right": border_by_bisection,
        "wrong": [
            lambda p1, b, scores: b * p1,
            lambda p1, b, scores: p1 + border_by_bisection(p1, b, scores),
            lambda p1, b, scores: -border_by_bisection(p1, b, scores),
            lambda p1, b, scores: border_by_bisection(p1, -b, scores),
            lambda p1, b, scores: border_by_bisection(p1, b, scores[::-1]),
            lambda p1, b, scores: border_by_bisection(p1, 0.1, np.array([1, 0.9, 0])),
            lambda p1, b, scores: b * p1 - np.exp(b * p1 - border_by_bisection(p1, b, scores)),
            lambda p1, b, scores: border_by_bisection(p1, b, scores) / np.hypot(1, b),
            lambda p1, b, scores: border_by_bisection(0, b, scores),
            lambda p1, b, scores: max(0.0, border_by_bisection(p1, b, scores)),
            lambda p1, b, scores: border_by_bisection(p1, b, np.array([scores[0], scores[1], 0])) + 0.3,
            lambda p1, b, scores: border_by_bisection(p1, b, scores) + np.log1p(b),
            lambda p1, b, scores: border_by_bisection(p1, b, scores) + np.log(b),
        ],
    },
}
