"""Random labelled points for the exercises: separable ones, and some that are not."""

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


def half_plane(rng, n):
    """Separable points that all lie in one half-plane: forgetting the labels stays feasible, and is wrong."""
    angle = rng.uniform(0, 2 * np.pi)
    u, h = np.array([np.cos(angle), np.sin(angle)]), np.array([-np.sin(angle), np.cos(angle)])
    y = rng.choice([-1.0, 1.0], size=n)
    y[:2] = 1.0, -1.0
    return np.outer(y * rng.uniform(0.4, 2.0, n), u) + np.outer(rng.uniform(0.4, 2.0, n), h), y
