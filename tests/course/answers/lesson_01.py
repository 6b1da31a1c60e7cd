"""Lesson 01: a second right answer for each exercise, and more wrong ones.

Where `mini_attn` can answer, it does: what learners write from scratch equals the library.
"""

import math

import numpy as np
import torch

from mini_attn import containers, losses, models


def model_and_loss(w, X, y):
    model = models.LinearClassifier(d=len(w), init=torch.tensor(w))
    points = containers.PointData(torch.tensor(X), torch.tensor(y))
    losses.logistic(points.y * model(points)).mean().backward()
    return model


def gradient_by_the_library(w, X, y):
    return model_and_loss(w, X, y).w.grad


def gradient_of_the_sum_over_d(w, X, y):
    u = y * (X @ w)
    return -(X.T @ (y / (1 + np.exp(u)))) / len(w)


def gradient_per_point(w, X, y):
    u = y * (X @ w)
    return -(y / (1 + np.exp(u)))[:, None] * X / len(y)


def margin_by_loop(w, X, y):
    length = math.sqrt(sum(float(c) ** 2 for c in w))
    return (
        min(
            float(label) * sum(float(a) * float(b) for a, b in zip(w, x, strict=True))
            for x, label in zip(X, y, strict=True)
        )
        / length
    )


def direction_by_loop(X, y, angles):
    best, best_margin = None, -np.inf
    for angle in angles:
        u = [math.cos(angle), math.sin(angle)]
        worst = min(label * (u[0] * x[0] + u[1] * x[1]) for x, label in zip(X, y, strict=True))
        if worst > best_margin:
            best, best_margin = u, worst
    return best


def direction_of_the_mean(X, y, angles):
    mean = (y[:, None] * X).mean(axis=0)
    return mean / np.linalg.norm(mean)


def longest_step_by_trial(rows, lam):
    """Where the linearised step's factor is -1, from the derivative of the normalised pull itself."""
    w_hat, h = rows.T @ lam, 1e-4
    across = np.array([-w_hat[1], w_hat[0]]) / np.linalg.norm(w_hat)

    def pull(x):
        total = (lam * np.exp(-rows @ across * x)) @ rows
        return total @ across / np.linalg.norm(total)

    slope = (8 * (pull(h) - pull(-h)) - (pull(2 * h) - pull(-2 * h))) / (12 * h)
    return -2 / slope


def gradient_by_sigmoid(w, X, y):
    return -(X.T @ (y * (1 - 1 / (1 + np.exp(-y * (X @ w)))))) / len(y)


ANSWERS = {
    "01.1": {
        "also_right": gradient_by_the_library,
        "wrong": [gradient_of_the_sum_over_d, gradient_per_point, gradient_by_sigmoid, lambda w, X, y: 0 * w],
    },
    "01.2": {
        "also_right": margin_by_loop,
        "wrong": [
            lambda w, X, y: (y * (X @ w)).max() / np.linalg.norm(w),
            lambda w, X, y: y * (X @ w) / np.linalg.norm(w),
        ],
    },
    "01.3": {
        "also_right": direction_by_loop,
        "wrong": [
            direction_of_the_mean,
            lambda X, y, angles: direction_by_loop(X, y, angles[::2]),
            lambda X, y, angles: np.array([np.cos(angles[0]), np.sin(angles[0])]),
        ],
    },
    "01.4": {
        "also_right": lambda t, eta, mu: [mu**-2.0 / (t * eta), mu**-1.0],
        "wrong": [
            lambda t, eta, mu: (1 / (eta * mu**2 * t) ** 0.5, 1 / mu),
            lambda t, eta, mu: 1 / (eta * mu**2 * t),
            lambda t, eta, mu: (1 / (eta * mu**2 * t), np.log(t) / mu),
        ],
    },
    "01.5": {
        "also_right": lambda rows, lam, eta, n: np.linalg.inv(rows) @ -np.log(lam * n / eta),
        "wrong": [
            lambda rows, lam, eta, n: np.linalg.solve(rows, np.log(eta * lam / n)),
            lambda rows, lam, eta, n: rows @ np.log(eta / (n * lam)),
            lambda rows, lam, eta, n: np.linalg.solve(rows, np.log(eta / (len(rows) * lam))),
        ],
    },
    "01.6": {
        "also_right": longest_step_by_trial,
        "wrong": [
            lambda rows, lam: 2 / (lam.sum() * longest_step_by_trial(rows, lam)),
            lambda rows, lam: 2 * longest_step_by_trial(rows, lam),
            lambda rows, lam: 2 / np.linalg.norm(lam @ rows),
            lambda rows, lam: 2 / np.linalg.norm(rows, 2) ** 2,
        ],
    },
}
