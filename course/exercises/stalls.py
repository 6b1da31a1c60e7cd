"""Exercise 11.3: has a run on keys and queries arrived, is it slow, or stuck?"""

import numpy as np

from course.check.specification import Exercise, known


def orthogonal(rng, d, m=None):
    """m orthonormal columns in d dimensions."""
    return np.linalg.qr(rng.normal(size=(d, d)))[0][:, :m]


def _verdict_by(
    arrived=lambda S, tol: np.linalg.svd(S)[1][0] <= 1 + tol,
    room=lambda K, Q, tol: (
        np.linalg.svd(np.concatenate([K, Q]))[1][-1] <= tol * np.linalg.norm(np.concatenate([K, Q]))
    ),
    words=("arrived", "slow", "stuck"),
):
    def answer(K, Q, S, tol):
        return words[0] if arrived(S, tol) else words[1] if room(K, Q, tol) else words[2]

    return answer


def verdict(K, Q, S, tol):
    """One of three words: is the nuclear SVM certified, is there an empty direction, or neither."""
    return _verdict_by()(K, Q, S, tol)


def _smallest(*factors):
    return np.linalg.svd(np.concatenate(factors))[1][-1]


def _room_first(K, Q, S, tol):
    word = verdict(K, Q, 10 * S, tol)
    return word if word == "slow" else verdict(K, Q, S, tol)


def _verdict_cases(rng):
    """Empty directions, hidden in rotated columns; factors that are empty alone; values near the limits."""

    def pair(d, K_sizes, Q_sizes, scale=1.0):
        m = len(K_sizes)
        R = orthogonal(rng, m)
        K, Q = (orthogonal(rng, d, m) * np.array(sizes) @ R * scale for sizes in (K_sizes, Q_sizes))
        return K, Q

    def force(d, *leading):
        s = np.concatenate([leading, rng.uniform(0.3, 0.9, size=d - len(leading))])
        left = orthogonal(rng, d)
        turned = left[:, np.roll(np.arange(d), 1)]  # singular vectors far apart: eigenvalues are smaller
        return left * s @ turned.T

    c = rng.uniform(1.4, 2.2)
    big, tol = rng.uniform(1, 2, size=6), 0.05
    near = tol * np.hypot(1.4 * big[0], 1.4 * big[0])  # of two equal singular values of the stacked pair
    return [
        (*pair(3, big[:2], big[:2]), force(3, c), tol),  # stuck, though W has rank 2 of 3
        (*pair(4, [*big[:2], 0], [*big[:2], 0]), force(4, c), tol),  # slow, hidden by a rotation
        (*pair(4, [*big[:2], 0], [*big[:2], 0]), force(4, 1 + tol / 2, 1, 1), tol),  # arrived, with room
        (*pair(3, big[:2], big[:2]), force(3, 1 - 1e-6, 0.95, 0.9), tol),  # arrived, without
        (*pair(4, big[:2], big[:2]), force(4, 1 + tol / 2, 0.04, 0.04, 0.04), tol),  # arrived, just so
        (*pair(4, [*big[:2], 0], big[:3]), force(4, c), tol),  # stuck: only K is empty there
        (*pair(4, big[:3], [*big[:2], 0]), force(4, c), tol),  # stuck: only Q is
        (*pair(4, [big[0], big[0], 0.6 * near], [big[0], big[0], 0.6 * near]), force(4, c), tol),  # slow
        (*pair(4, big[:3], [*big[:2], 0.3], 1e-3), force(4, c), tol),  # stuck, and small
        (*pair(4, [*big[:2], 0.01], [*big[:2], 0.01], 1e3), force(4, 1 + 3 * tol), tol),  # slow, and large
        (*pair(4, [*big[:2], 0.2], [*big[:2], 0.2]), force(4, c), tol),  # stuck: tol is not squared away
        (*pair(3, big[:3], big[:3]), force(3, c, 1, 1), tol),
    ]


VERDICT = Exercise(
    id="11.3",
    title="Arrived, slow, or stuck?",
    points=2,
    minutes=8,
    difficulty=2,
    reference=verdict,
    cases=_verdict_cases,
    misconceptions=known(
        _verdict_by(words=("arrived", "stuck", "slow")),
        "A newcomer needs room: with an empty direction the run is slow, without one it is stuck.",
        _verdict_by(
            room=lambda K, Q, tol: (
                np.linalg.norm(np.concatenate([K, Q]), axis=0).min()
                <= tol * np.linalg.norm(np.concatenate([K, Q]))
            )
        ),
        "You looked for an empty column. A rotation hides it: take the smallest singular value of the stack.",
        _verdict_by(room=lambda K, Q, tol: np.linalg.matrix_rank(K @ Q.T, tol=tol) < K.shape[1]),
        "You counted the rank of W. Room is where both factors are empty: stack K on Q.",
        _verdict_by(room=lambda K, Q, tol: np.linalg.matrix_rank(K @ Q.T, tol=tol) < len(K)),
        "W may have a rank below d without any room: count empty directions among the m columns.",
        _verdict_by(room=lambda K, Q, tol: _smallest(K) <= tol * np.hypot(*map(np.linalg.norm, (K, Q)))),
        "You looked at K alone. The direction must be empty in both factors.",
        _verdict_by(room=lambda K, Q, tol: _smallest(Q) <= tol * np.hypot(*map(np.linalg.norm, (K, Q)))),
        "You looked at Q alone. The direction must be empty in both factors.",
        _verdict_by(room=lambda K, Q, tol: _smallest(K, Q) <= tol),
        "Empty means small beside the pair: the limit is tol times the length of the pair.",
        _verdict_by(
            room=lambda K, Q, tol: _smallest(K, Q) <= tol * np.linalg.svd(np.concatenate([K, Q]))[1][0]
        ),
        "The limit is measured by the whole pair, ||K||_F^2 + ||Q||_F^2, not by its largest singular value.",
        _verdict_by(
            room=lambda K, Q, tol: _smallest(K, Q) ** 2 <= tol * np.linalg.norm(np.concatenate([K, Q])) ** 2
        ),
        "Between squares the limit is tol^2.",
        _verdict_by(arrived=lambda S, tol: np.linalg.norm(S) <= 1 + tol),
        "That is the Frobenius norm of S. The certificate asks for the largest singular value.",
        _verdict_by(arrived=lambda S, tol: np.abs(np.linalg.eigvals(S)).max() <= 1 + tol),
        "S is not symmetric: take its largest singular value, not its eigenvalues.",
        _verdict_by(arrived=lambda S, tol: np.linalg.svd(S)[1][0] <= 1),
        "c = 1 is never met exactly: up to 1 + tol counts as arrived.",
        _room_first,
        "Ask for the certificate first: a run with room to spare may have arrived.",
    ),
)
