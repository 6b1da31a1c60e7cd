"""`python -m course picture`: draw the README's picture, course/assets/two-machines.png, with the library."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mini_attn import data, geometry, models, optim, plots, svm, train
from mini_attn.plots import COLORS

PICTURE = Path(__file__).resolve().parents[1] / "assets" / "two-machines.png"


def main(arguments: list[str] | None = None) -> int:
    """Draw and save the picture."""
    PICTURE.parent.mkdir(exist_ok=True)
    figure = draw()
    figure.savefig(PICTURE, dpi=150, metadata={"Software": None})
    plt.close(figure)
    print(f"Wrote {PICTURE}")
    return 0


def draw() -> Figure:
    """Two machines, one geometry: logistic regression (left) and softmax attention (right)."""
    with plt.rc_context():
        plots.style()
        figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), width_ratios=[1, 1.15])
        _logistic_regression(left)
        _attention(right)
    return figure


def _logistic_regression(ax: Axes) -> None:
    points = data.separable_points(20, seed=0)
    model = models.LinearClassifier(2)
    optimizer = optim.NormalizedGD(model.parameters(), lr=0.1)
    train.fit(model, points, optimizer, 20000, progress=False)
    solution = svm.solve(svm.label_problem(points.X, points.y))
    plots.points(points.X, points.y, ax)
    ax.set(xlim=(-4.2, 4.2), ylim=(-3, 4))
    plots.boundary(model.w.detach(), ax, color=COLORS["green"], linewidth=4, label="logistic regression")
    plots.boundary(solution.value, ax, margin=float(solution.margin), linestyle="--", label="max-margin SVM")
    ax.legend(loc="upper right")
    ax.set_title("Logistic regression separates points:\nits limit is an SVM over points")


def _attention(ax: Axes) -> None:
    tokens = data.toy_one_sequence((1.0, 0.9, 0.0))
    side = torch.linspace(-9, 9, 7, dtype=torch.float64)
    starts = torch.cartesian_prod(side, side)
    model = models.PromptAttention(2, trials=len(starts), init=starts)
    optimizer = optim.NormalizedGD(model.parameters(), lr=0.1, batch_dims=1)
    history = train.fit(model, tokens, optimizer, 1500, record={"p": lambda m: m.p}, every=10, progress=False)
    chosen = geometry.selected_tokens(model.attention(tokens)).flatten()
    for token, color in ((0, "blue"), (1, "orange")):
        paths = history["p"][:, chosen == token]
        ax.plot(paths[..., 0], paths[..., 1], color=COLORS[color], linewidth=1)
        ax.scatter(*paths[0].T, s=12, color=COLORS[color], zorder=3)
        ray = 60 * svm.solve(svm.token_problem(tokens.keys, torch.tensor([token]))).value
        ax.plot([0, ray[0]], [0, ray[1]], "--", color=COLORS["black"], zorder=4)
    ax.text(2, 35, "SVM of token 1", va="center")
    ax.text(25, 5, "SVM of token 2", va="center")
    ax.set(xlim=(-13, 42), ylim=(-13, 42), xlabel="$p_1$", ylabel="$p_2$")
    ax.set_aspect("equal")
    ax.set_title("Softmax attention selects a token:\neach limit is an SVM over tokens")


if __name__ == "__main__":
    raise SystemExit(main())
