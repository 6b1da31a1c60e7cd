"""Exercise 11.3: does descent with a normaliser of gradient norm plus eps come to rest, or cycle?"""

import numpy as np

from course.check.specification import Exercise, known


def _by(
    pick=np.max,
    star=lambda h, eps: 2 * eps / h,
    size=lambda kappa, eta, eps: max(eta * kappa / 2 - eps, 0.0),
):
    return lambda kappa, eta, eps: (star(pick(kappa), eps), size(pick(kappa), eta, eps))


def rest_or_cycle(kappa, eta, eps):
    """(2 eps / max h, max(eta max h / 2 - eps, 0))."""
    return _by()(kappa, eta, eps)


def _cases(rng):
    """Steps below, just above and far above eta*; the sharpest direction is never the first or the last."""
    cases = []
    for k, eps, factor in ((3, 0.01, 5.0), (4, 0.3, 0.4), (5, 2.0, 1.3), (3, 0.1, 0.9), (6, 1e-3, 40.0)):
        h = rng.uniform(0.3, 2, size=k)
        h[k // 2] = rng.uniform(2.5, 4)
        cases.append((h, factor * 2 * eps / h[k // 2], eps))
    return cases


REST_OR_CYCLE = Exercise(
    id="11.3",
    title="Rest or cycle?",
    points=2,
    minutes=8,
    difficulty=2,
    reference=rest_or_cycle,
    cases=_cases,
    misconceptions=known(
        _by(pick=np.min),
        "You took the flattest direction. The sharpest one is the first to become unstable.",
        _by(pick=np.mean),
        "You took the mean curvature. One direction that is too sharp is enough.",
        _by(pick=np.sum),
        "You added the curvatures. Each direction is multiplied by a number of its own.",
        _by(pick=np.linalg.norm),
        "You took the norm of all curvatures. The largest one decides alone.",
        _by(pick=lambda h: h[0]),
        "You took the first curvature. The sharpest direction may stand anywhere.",
        _by(pick=lambda h: h[-1]),
        "You took the last curvature. The sharpest direction may stand anywhere.",
        lambda kappa, eta, eps: (2 * eps / kappa.max(), max(eta * kappa.min() / 2 - eps, 0.0)),
        "The cycle that is asked for runs along the sharpest direction too, not along the flattest.",
        lambda kappa, eta, eps: (2 * eps / kappa.max(), np.linalg.norm(np.maximum(eta * kappa / 2 - eps, 0))),
        "The cycle that is asked for runs along the sharpest direction alone.",
        _by(star=lambda h, eps: eps / h),
        "Rest is stable while |1 - eta h / eps| < 1: up to 2 eps / h, not eps / h.",
        _by(star=lambda h, eps: 2 / h),
        "That is plain descent's limit. Here the gradient is divided by eps near rest.",
        _by(size=lambda kappa, eta, eps: max(eta * kappa / 2, 0.0)),
        "In the cycle 2 |x| = eta ||g|| / (||g|| + eps): eps is missing.",
        _by(size=lambda kappa, eta, eps: max(eta * kappa - eps, 0.0)),
        "From x to -x is 2 |x|, not |x|: a factor 1/2 is missing.",
        _by(size=lambda kappa, eta, eps: eta * kappa / 2 - eps),
        "A norm is not negative: for eta up to eta* there is no cycle, return 0.",
        _by(size=lambda kappa, eta, eps: max(eta / 2 - eps / kappa, 0.0)),
        "That is |x|. The gradient is h times that.",
        _by(size=lambda kappa, eta, eps: max(eta * kappa / 2 + eps, 0.0)),
        "The sign of eps: ||g|| + eps = eta h / 2.",
        _by(size=lambda kappa, eta, eps: eta if eta > 2 * eps / kappa else 0.0),
        "That is about the length of a step. The gradient's norm is asked: ||g|| + eps = eta h / 2.",
        _by(size=lambda kappa, eta, eps: max(eta * kappa / 2 - 2 * eps, 0.0)),
        "eps enters once: 2 |x| = eta ||g|| / (||g|| + eps) with ||g|| = h |x|.",
        lambda kappa, eta, eps: rest_or_cycle(kappa, eta, eps)[::-1],
        "Return eta* first, then the gradient's norm.",
    ),
)
