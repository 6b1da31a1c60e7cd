"""Random labelled points for the exercises, separable."""

import numpy as np


def separable(rng, n, d):
    """n points in d dimensions, both labels present, separated by a random direction with room to spare."""
    u = rng.normal(size=d)
    u /= np.linalg.norm(u)
    y = rng.choice([-1.0, 1.0], size=n)
    y[:2] = 1.0, -1.0
    X = rng.normal(size=(n, d))
    X += np.outer(y * rng.uniform(0.4, 2.0, size=n) - X @ u, u)
    return X, y
