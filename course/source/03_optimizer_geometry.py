# %% [markdown] slideshow={"slide_type": "slide"}
# # 03 · The optimiser picks the norm
#
# Gradient descent ends at the direction of largest margin, and a margin is a distance ([lesson
# 1](01_logistic_regression_bias.ipynb)). But who said that distances are Euclidean? The loss did not: it
# knows nothing but the numbers $y_i\, w \cdot x_i$. The data did not either.
#
# **Train the same model on the same points with another optimiser. Where does it go now?**
#
# Each optimiser measures its steps in a norm of its own, and it maximises the margin *in that norm*.
# Coordinate, sign and spectral descent, mirror descent and Adam all fit into this one sentence, each with its
# small print. Muon was built to be spectral descent, and only without its shortcut does it fit.

# %% [markdown] slideshow={"slide_type": "skip"}
# **You will be able to**
#
# - derive the steepest step in any norm, and name the optimiser that takes it;
# - prove that its margin tends to the largest margin in that norm, and measure how fast;
# - certify a margin in any norm with the weights of lesson 2;
# - write mirror descent, the spectral step and Muon's shortcut in a few lines each;
# - say when Adam is sign descent, and what its $\varepsilon$ and its memory do to the limit.
#
# **You need** lessons 1 and 2, linear algebra with the singular value decomposition, and NumPy. About 80
# minutes, five exercises.

# %%
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import torch
from ipywidgets import FloatSlider
from matplotlib.figure import Figure

from course.exercise import check, exercise, progress, todo
from course.figure import show
from mini_attn import data, models, optim, plots, svm, train, widgets
from mini_attn.plots import COLORS

torch.set_num_threads(1)  # our matrices are small: more threads would only wait for each other
plots.style()
again = "exercise {} is not right yet: see what its check says".format


def same(answer, expected):
    return np.shape(answer) == np.shape(expected) and np.allclose(answer, expected)


# %% [markdown] slideshow={"slide_type": "slide"}
# ## 3.1 The idea in a picture
#
# Twelve points $x_i$ in the plane with labels $y_i = \pm 1$. As in lesson 2 we work with the signed points
# $a_i = y_i\, x_i$, the rows of `A`: a direction $w$ gets point $i$ right when $a_i \cdot w > 0$.

# %%
A = np.array(
    [
        [2.9, -0.4], [1.8, 0.8], [1.7, 1.0], [1.8, 3.1], [2.3, 3.6], [1.9, 2.5],
        [2.1, 2.0], [2.8, 2.9], [2.0, 3.3], [2.7, 1.3], [3.2, 0.9], [3.4, 2.0],
    ]
)  # fmt: skip
y = np.tile([1.0, -1.0], 6)
X = y[:, None] * A

# %% [markdown]
# For $p \ge 1$, the $\ell_p$ **norm** is $\lVert w \rVert_p = (\sum_j |w_j|^p)^{1/p}$, and
# $\lVert w \rVert_\infty = \max_j |w_j|$. The **margin in a norm** and the largest margin are
#
# $$\mu_p(w) = \min_i \frac{a_i \cdot w}{\lVert w \rVert_p}, \qquad \hat\mu_p = \max_{w \ne 0} \mu_p(w) .$$
#
# As in lesson 2 the best direction is that of the shortest $w$ with all $a_i \cdot w \ge 1$, where *shortest*
# now means shortest in $\ell_p$, and $\hat\mu_p = 1 / \lVert \hat w \rVert_p$. The library solves this for
# any $p$. Its answer carries a certificate: no $w$ can be shorter by more than the share `gap`.


# %%
def largest_margin(A, p):
    """The shortest w, in the l_p norm, with all a_i.w >= 1, and its margin."""
    ones = torch.ones(len(A), dtype=torch.float64)
    solution = svm.solve(svm.HardMarginProblem(torch.tensor(A), None, ones), norm=p, tol=1e-6)
    assert solution.gap <= 1e-6
    return solution.value.numpy(), float(solution.margin)


def degrees(w):
    """The angle of w, or of each row of w, from the first axis."""
    return np.degrees(np.arctan2(w[..., 1], w[..., 0]))


ORDERS = [1.0, 1.5, 2.0, 3.0, np.inf]
best = {p: largest_margin(A, p) for p in ORDERS}
for p, (w_hat, mu) in best.items():
    slope, angle = w_hat[1] / w_hat[0], degrees(w_hat)
    print(f"p = {p:3}   direction (1, {slope:.3f}), {angle:4.1f} degrees   margin {mu:.3f}")
slopes = [w_hat[1] / w_hat[0] for w_hat, _ in best.values()]
assert np.allclose(slopes, [0, 1 / 1.7**2, 1 / 2, np.sqrt(0.8 / 1.8), 11 / 12], atol=1e-5)
assert degrees(best[np.inf][0]) - degrees(best[1.0][0]) > 42

# %% slideshow={"slide_type": "fragment"}
HUES = "vermillion", "orange", "green", "sky", "blue"
NORM_COLORS = {p: COLORS[name] for p, name in zip(ORDERS, HUES, strict=True)}
NAMES = {1.0: r"$\ell_1$", 1.5: r"$\ell_{1.5}$", 2.0: r"$\ell_2$", 3.0: r"$\ell_3$", np.inf: r"$\ell_\infty$"}


def ball(p, radius=1.0, corners=401):
    """The curve ||w||_p = radius, as points (corners, 2)."""
    turn = np.linspace(0, 2 * np.pi, corners)
    circle = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    return radius * circle / np.linalg.norm(circle, p, axis=1, keepdims=True)


def to_edge(W):
    """The rows of W, scaled so that the worst point has a_i.w = 1."""
    return W / (W @ A.T).min(axis=1, keepdims=True)


turn = np.radians(np.linspace(-29, 75, 2000))
EDGE = to_edge(np.stack([np.cos(turn), np.sin(turn)], axis=1))


def draw_region(ax):
    """All w that get every point right by 1 (shaded)."""
    ax.fill(*np.vstack([EDGE, 9 * EDGE[::-1]]).T, color=COLORS["grey"], alpha=0.2, linewidth=0)
    ax.plot(*EDGE.T, color=COLORS["grey"], linewidth=1.4)
    ax.plot(0, 0, marker="+", markersize=12, markeredgewidth=2, color=COLORS["black"])
    ax.set(xlim=(-0.08, 0.78), ylim=(-0.1, 0.62), xlabel="$w_1$", ylabel="$w_2$", aspect="equal")


fig, (left, right) = plt.subplots(1, 2, figsize=(9.6, 4))
for label, marker, color in ((1, "o", "black"), (-1, "s", "grey")):  # colours stand for norms here
    left.scatter(*X[y == label].T, s=60, marker=marker, color=COLORS[color], edgecolor="white", zorder=3)
left.set(xlim=(-4.4, 4.4), ylim=(-4.4, 4.4), xlabel="$x_1$", ylabel="$x_2$", aspect="equal")
draw_region(right)
for p in (1.0, 2.0, np.inf):
    w_hat, mu = best[p]
    plots.boundary(w_hat, left, color=NORM_COLORS[p], label=NAMES[p])
    right.plot(*ball(p, 1 / mu).T, color=NORM_COLORS[p], linewidth=1.6)
    right.plot(*w_hat, "o", color=NORM_COLORS[p], markersize=9)
left.legend(loc="center left", bbox_to_anchor=(0, 0.58))
right.text(0.5, 0.5, r"all $a_i \cdot w \geq 1$")
show(
    fig,
    alt="Left: twelve points of two classes and three separating lines. Right: the plane of weights with a "
    "shaded region; a diamond, a circle and a square around the origin, each just large enough to touch "
    "the region, touch it in three different points.",
)

# %% [markdown]
# **Figure 1.** Left: the points (black discs: $y_i = 1$, grey squares: $y_i = -1$), and the separating line
# of largest margin in three norms. Right: the plane of weights. The shaded $w$ get every point right by at
# least 1. Around the origin (cross), grow a ball of each norm until it touches them: the diamond of $\ell_1$
# on the first axis, the circle in direction $(2, 1)$, the square in direction $(12, 11)$.

# %% [markdown] slideshow={"slide_type": "subslide"}
# Three norms, three lines, and more than 42 degrees between the outer two. Now we let optimisers loose on
# these points. None of them is told about a norm.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 3.2 The steepest step
#
# Near $w$ the loss is linear: a small step $\delta$ changes it by $g \cdot \delta$, where $g = \nabla L(w)$.
# Which step decreases it most? Without a limit on $\delta$ there is no answer. So fix the length, *in some
# norm*:
#
# $$\min_{\lVert \delta \rVert \le 1} g \cdot \delta = - \lVert g \rVert_* , \qquad
# \lVert g \rVert_* := \max_{\lVert \delta \rVert \le 1} g \cdot \delta .$$
#
# The right-hand side defines the **dual norm**. A minimiser $\delta$ is the **steepest step**; it need not
# point along $-g$.
#
# - In $\ell_1$, $g \cdot \delta \ge -\max_j |g_j| \sum_j |\delta_j|$: all of the step should go where $|g_j|$
#   is largest.
# - In $\ell_2$, $g \cdot \delta \ge -\lVert g \rVert_2 \lVert \delta \rVert_2$ by Cauchy-Schwarz.
# - In $\ell_\infty$, $g \cdot \delta \ge -\sum_j |g_j| \max_j |\delta_j|$: every coordinate can use its full
#   length.
#
# So the duals of $\ell_1$, $\ell_2$ and $\ell_\infty$ are $\ell_\infty$, $\ell_2$ and $\ell_1$. In
# general the dual of $\ell_p$ is $\ell_{p^*}$ with $\frac1p + \frac1{p^*} = 1$ (Hölder's inequality).

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 03.1: Three steepest steps
# *★ · 8 minutes.* For each of the three norms, find the $\delta$ of length one for which the inequality above
# is an equality. Return them as the rows of an array. (No two entries of $g$ have the same absolute value,
# and none is zero.)
#
# <details><summary>Hint</summary>
#
# `np.abs(g).argmax()` is the coordinate where the slope is largest, `np.sign(g)` the sign of each entry. All
# three steps go downhill: `g @ step` is negative.
# </details>


# %%
@exercise("03.1")
def steepest_steps(g):
    """The steepest steps of length one in l_1, l_2 and l_inf, in this order: shape (3, d), for g (d,)."""
    ### BEGIN SOLUTION
    steepest = np.abs(g).argmax()
    coordinate = np.zeros_like(g)
    coordinate[steepest] = -np.sign(g[steepest])
    return np.stack([coordinate, -g / np.linalg.norm(g), -np.sign(g)])
    ### END SOLUTION


# %%
check("03.1", steepest_steps)

# %% slideshow={"slide_type": "subslide"}
g = np.array([-1.5, -0.7])
steps = steepest_steps(g)
assert same(steps, [[1, 0], -g / np.linalg.norm(g), [1, 1]]), again("03.1")
fig, axes = plt.subplots(1, 3, figsize=(9.6, 3.3), sharey=True)
titles = ("coordinate descent", "normalised GD", "sign descent")
for p, step, title, ax in zip((1.0, 2.0, np.inf), steps, titles, axes, strict=True):
    ax.fill(*ball(p).T, color=NORM_COLORS[p], alpha=0.2, linewidth=0)
    for level in (-0.5, 0, 0.5, 1):  # in units of -(dual norm of g)
        at = level * (g @ step) * g / (g @ g)
        ax.axline(at, slope=-g[0] / g[1], color=COLORS["grey"], linewidth=1.6 if level == 1 else 0.6)
    ax.annotate("", step, (0, 0), arrowprops={"arrowstyle": "-|>", "color": NORM_COLORS[p], "linewidth": 2.5})
    ax.set(xlim=(-1.3, 1.6), ylim=(-1.3, 1.4), xlabel=r"$\delta_1$", title=f"{NAMES[p]}: {title}")
    ax.set_aspect("equal")
axes[0].set_ylabel(r"$\delta_2$")
show(
    fig,
    alt="Three unit balls, a diamond, a disc and a square, with parallel level lines of a linear function. "
    "In each an arrow ends where the last level line touches the ball: at a corner of the diamond, at "
    "right angles to the lines on the disc, at a corner of the square.",
)

# %% [markdown]
# **Figure 2.** The steepest step (arrow) ends where the lowest level line of $g \cdot \delta$ still touches
# the unit ball; here $g = (-1.5, -0.7)$, and lower is to the upper right.

# %% [markdown] slideshow={"slide_type": "subslide"}
# The three steps belong to three old friends. Along one coordinate at a time: **coordinate descent**, the
# core of *boosting*. Along $-g$: **normalised gradient descent** (NGD) from lesson 1. By the same length in
# every coordinate: **sign descent**. We run all three, with the exponential loss
#
# $$L(w) = \frac1n \sum_{i=1}^n e^{-a_i \cdot w} , \qquad
# -\frac{\nabla L(w)}{L(w)} = \sum_i q_i\, a_i , \qquad
# q_i = \frac{e^{-a_i \cdot w}}{n\, L(w)} .$$
#
# (Far on the right side the logistic loss is nearly the same, so the limits are.) Normalised steps only need
# the direction of the gradient, so we divide by $L$ and nothing underflows.


# %%
def weights(u):
    """The q_i: shares of the points in the gradient, for u_i = a_i.w."""
    q = np.exp(u.min() - u)
    return q / q.sum()


def descend(A, move, etas):
    """All iterates (steps, d) of w <- move(w, gradient of log L, eta), from w = 0."""
    w, path = np.zeros(A.shape[1]), []
    for eta in etas:
        w = move(w, -weights(A @ w) @ A, eta)
        path.append(w)
    return np.array(path)


def steepest(row):
    """Steepest descent in l_1, l_2 or l_inf (row 0, 1, 2 of your function)."""
    return lambda w, g, eta: w + eta * steepest_steps(g)[row]


ROWS = {1.0: 0, 2.0: 1, np.inf: 2}
constant = {p: descend(A, steepest(row), np.ones(10_000)) for p, row in ROWS.items()}
for p, path in constant.items():
    angles = [f"{degrees(path[t - 1]):5.1f}" for t in (10, 100, 10_000)]
    print(f"p = {p:3}: after 10, 100 and 10,000 steps", *angles)
    assert abs(degrees(path[-1]) - degrees(best[p][0])) < 0.1, again("03.1")
assert np.array_equal(constant[1.0][[1, 2, -1]], [[2, 0], [2, 1], [9999, 1]]), again("03.1")

# %% slideshow={"slide_type": "subslide"}
fig, ax = plt.subplots(figsize=(6, 4.4))
for p, path in constant.items():
    ax.axline((0, 0), best[p][0], color=NORM_COLORS[p], linestyle="--", linewidth=1.4)
    start = np.vstack([[0, 0], path[:20]])
    ax.plot(*start.T, color=NORM_COLORS[p], marker="o", markersize=4, linewidth=1.2, label=NAMES[p])
ax.set(xlim=(-0.3, 13), ylim=(-0.5, 11), xlabel="$w_1$", ylabel="$w_2$", aspect="equal")
ax.legend(title="steepest in")
show(
    fig,
    alt="Three paths from the origin. That of l two follows its dashed ray closely, that of l infinity "
    "leaves at 45 degrees and turns to its ray, that of l one steps up once and then runs along its axis.",
)

# %% [markdown]
# **Figure 3.** The first steps, of length 1 in each norm; dashed, the direction of largest margin in that
# norm.
#
# Same loss, points and start: three limits, each that of its norm, within a tenth of a degree.
# Coordinate descent starts at its limit, takes one step along the second axis, its third, and never leaves
# the first again. Its limit is *sparse*: that is what the corner of the diamond does.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 3.3 The proof
#
# Lesson 2 bounded all Euclidean margins with weights. The same two inequalities work in any norm. For weights
# $\lambda_i \ge 0$, not all zero, and every $w$ with $\lVert w \rVert = 1$,
#
# $$\mu(w) = \min_i a_i \cdot w \le \frac{\sum_i \lambda_i\, a_i \cdot w}{\sum_i \lambda_i}
# \le \frac{\lVert \sum_i \lambda_i\, a_i \rVert_*}{\sum_i \lambda_i} =: B(\lambda),$$
#
# first because a minimum is at most any average, then by the definition of the dual norm.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 03.2: Two bounds in any norm
# *★★ · 8 minutes.* Return the margin $\mu_p(w)$ and the bound $B(\lambda)$ for the $\ell_p$ norm, where $p$
# may be any number from 1 on, or `np.inf`.
#
# <details><summary>Hint</summary>
#
# `np.linalg.norm(w, p)` knows every $p$, `np.inf` included. The dual exponent is $p^* = p/(p-1)$; treat
# $p = 1$ and $p = \infty$ separately.
# </details>


# %%
@exercise("03.2")
def certify(w, lam, A, p):
    """(mu_p(w), B(lam)): two numbers, for w (d,), weights lam (n,), signed points A (n, d), order p >= 1."""
    ### BEGIN SOLUTION
    dual = np.inf if p == 1 else 1.0 if p == np.inf else p / (p - 1)
    return (A @ w).min() / np.linalg.norm(w, p), np.linalg.norm(lam @ A, dual) / lam.sum()
    ### END SOLUTION


# %%
check("03.2", certify)

# %% [markdown]
# Any weights will do, good ones prove more. Descent supplies them, as in lesson 2: the weights it gave the
# points, added up over all steps.

# %%
for p, path in constant.items():
    total = sum(weights(A @ w) for w in [np.zeros(2), *path[:-1]])
    lower, upper = certify(path[-1], total, A, p)
    print(f"p = {p:3}:  {lower:.4f} <= largest margin {best[p][1]:.4f} <= {upper:.4f}")
    assert lower <= best[p][1] * (1 + 1e-6), again("03.2")
    assert best[p][1] <= upper * (1 + 1e-6), again("03.2")
    assert upper / lower - 1 < 0.012, again("03.2")

# %% [markdown] slideshow={"slide_type": "slide"}
# > **Theorem.** *Let $\lVert \cdot \rVert$ be any norm, $\hat\mu > 0$ the largest margin in it, and
# > $R = \max_i \lVert a_i \rVert_*$. Start at $w_0 = 0$ and take steepest steps of lengths
# > $\eta_1, \dots, \eta_t$ on the exponential loss. As soon as the right-hand side is positive,*
# >
# > $$\mu(w_t) \;\ge\; \hat\mu - \frac{\frac12 R^2 \sum_s \eta_s^2 + \log n}{\sum_s \eta_s} .$$
# >
# > *With $\eta_s = \eta / \sqrt s$ the difference is $O(\log t / \sqrt t)$, so the margin tends to the
# > largest one.*
# >
# > Source: Gunasekar et al. (2018) for the limit; the argument below is that of Telgarsky (2013) for $\ell_1$
# > and of Fan et al. (2025) for matrices and several classes.
#
# The theorem is about the margin. The direction follows only where the best one is unique; the flat sides of
# diamonds and squares can leave a choice.

# %% [markdown]
# **Proof.** One step $\delta_s$ with weights $q$ multiplies the loss by $\sum_i q_i\, e^{-\eta_s a_i \cdot
# \delta_s}$. This is an average of exponentials of numbers in $[-r, r]$, $r = \eta_s R$, because $|a_i \cdot
# \delta_s| \le \lVert a_i \rVert_* \le R$. *Hoeffding's lemma* says that its logarithm is at most the average
# of the numbers plus $r^2/2$:
#
# $$\log \frac{L(w_s)}{L(w_{s-1})} \le -\eta_s \sum_i q_i\, a_i \cdot \delta_s + \tfrac12 \eta_s^2 R^2 .$$
#
# The step is steepest, so $\sum_i q_i\, a_i \cdot \delta_s = \lVert \sum_i q_i a_i \rVert_* = B(q) \ge
# \hat\mu$: *the certificate is the slope*. Sum over the steps, with $L(w_0) = 1$: $-\log L(w_t) \ge \hat\mu
# \sum_s \eta_s - \frac12 R^2 \sum_s \eta_s^2$. The worst point has $e^{-\min_i a_i \cdot w_t} \le n L(w_t)$,
# so $\min_i a_i \cdot w_t \ge -\log L(w_t) - \log n$. Finally $\lVert w_t \rVert \le \sum_s \eta_s$; divide
# (allowed since the left side is then positive). $\square$
#
# Which norm it is, we used nowhere. The optimiser puts the norm in, at the word *steepest*.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### How fast?
#
# The theorem guarantees $\log t / \sqrt t$. Lesson 1 suggests more: NGD's error was an offset that stays
# bounded, divided by a norm that grows. If that is so in every norm, the gap $1 - \mu(w_t)/\hat\mu$ falls as
# $1/\lVert w_t \rVert$: like $1/t$ with constant steps, like $1/\sqrt t$ with steps $\eta/\sqrt t$. This is
# measured, not proved, and in section 3.7 constant steps get stuck.


# %%
def margins(W, A, p):
    """mu_p of each row of W."""
    return (A @ W.T).min(axis=0) / np.linalg.norm(W, p, axis=1)


def guarantee(etas, mu, A, p):
    """The theorem's bound on the margin after each step."""
    R = np.linalg.norm(A, {1.0: np.inf, 2.0: 2, np.inf: 1}[p], axis=1).max()
    return mu - (R**2 / 2 * np.cumsum(etas**2) + np.log(len(A))) / np.cumsum(etas)


def worst(values, parts=3):
    """Ends of thirds of decades, and the largest of the values since the end before."""
    ends = np.round(10 ** (np.arange(0, parts * 4 + 1) / parts)).astype(int)
    return ends[1:], np.array([values[a:b].max() for a, b in pairwise(ends)])


times = np.arange(1, 10_001)
shrinking = {p: descend(A, steepest(row), 2 / np.sqrt(times)) for p, row in ROWS.items()}
fig, axes = plt.subplots(1, 2, figsize=(9.6, 3.7), sharey=True)
for ax, name, paths, etas, rate in (
    (axes[0], "steps 1", constant, np.ones(10_000), -1),
    (axes[1], "steps 2/sqrt(t)", shrinking, 2 / np.sqrt(times), -0.5),
):
    for (p, path), marker in zip(paths.items(), "osD", strict=True):
        mu, gap = best[p][1], 1 - margins(path, A, p) / best[p][1]
        bound = 1 - guarantee(etas, mu, A, p) / mu
        assert (gap <= bound).all(), again("03.1")
        assert (bound[-1] < 1) == (rate == -0.5)
        t, highest = worst(gap)
        exponent = np.polyfit(np.log(t[t > 500]), np.log(highest[t > 500]), 1)[0]
        print(f"{name:15} p = {p:3}: gap {gap[-1]:.0e}, exponent {exponent:.1f}")
        expected = -0.2 if (p, rate) == (2, -0.5) else rate  # the exception: see below
        assert abs(exponent - expected) < 0.05, again("03.1")
        filled = {"markersize": 9, "markerfacecolor": "none"} if p == 1 else {"markersize": 5}
        shown = highest > 1e-6
        ax.loglog(t[shown], highest[shown], marker, color=NORM_COLORS[p], label=NAMES[p], **filled)
        ax.loglog(times[bound < 1], bound[bound < 1], color=NORM_COLORS[p], linewidth=1.2)
    line = np.array([30, 10_000])
    ax.loglog(line, 0.15 * (line / 30.0) ** rate, color=COLORS["black"], linestyle="--", linewidth=1.4)
    ax.set(xlabel="step $t$", title=name.replace("sqrt(t)", r"$\sqrt{t}$"), ylim=(1e-5, 1.2))
axes[1].text(700, 0.7, "guaranteed", ha="right", va="center", fontsize=11)
axes[0].set_ylabel(r"gap $1 - \mu(w_t)/\hat\mu$")
axes[0].legend(loc="lower left")
show(
    fig,
    alt="Gaps against steps on logarithmic axes. With constant steps the dots of all three norms come to "
    "fall along a dashed line of slope minus one; with decreasing steps those of l one and l infinity fall "
    "along one of slope minus one half, while those of l two are nearly level. The guarantee, short lines "
    "in the upper right corner of the right panel, lies far above.",
)

# %% [markdown]
# **Figure 4.** Markers: the worst gap in each third of a decade (the gap of zero with which coordinate
# descent starts is off the plot). Dashed: slopes $-1$ and $-1/2$. Solid, top right: what the theorem
# guarantees, once it says more than that a gap is at most 1; on the left it never does.
#
# All exponents but one are $-1$ and $-1/2$, as the offset over the norm predicts. In the exception, $\ell_2$
# with shrinking steps, the offset has not settled yet. The guarantee holds with room to spare: it would hold
# for any twelve points of this size and the same $\hat\mu$.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 3.4 Between the corners: mirror descent
#
# For $p$ between, there is a second way. **Mirror descent** keeps a function $\psi$ and takes its step not in
# $w$ but in $z = \nabla \psi(w)$:
#
# $$\nabla \psi(w_{t+1}) = \nabla \psi(w_t) - \eta\, \frac{g_t}{\lVert g_t \rVert_{p^*}} , \qquad
# \psi(w) = \frac1p \sum_j |w_j|^p , \qquad \nabla \psi(w)_j = \mathrm{sign}(w_j)\, |w_j|^{p-1} .$$
#
# This is the normalised form; for $p = 2$ it is NGD. Gradients add up in $z$; when $p$ is near 1, the way
# back to $w$ takes a high power, and large entries leave the small ones behind.
#
# > **Theorem** (Sun et al. 2022; stated informally). *On separable data, mirror descent with this $\psi$ and
# > small enough steps converges in direction to the max-margin direction in $\ell_p$.*

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 03.3: A mirror step
# *★★ · 10 minutes.* Write one step: map $w$ to $z$, move, map back. Entries of $w$ may be zero: every run
# starts there.
#
# <details><summary>Hint</summary>
#
# The inverse of $z = \mathrm{sign}(w)\, |w|^{p-1}$ is $w = \mathrm{sign}(z)\, |z|^{1/(p-1)}$, entry by entry.
# </details>


# %%
@exercise("03.3")
def mirror_step(w, g, eta, p):
    """The weights after one step of length eta in z: shape (d,), for w (d,), gradient g (d,), 1 < p < inf."""
    ### BEGIN SOLUTION
    z = np.sign(w) * np.abs(w) ** (p - 1) - eta * g / np.linalg.norm(g, p / (p - 1))
    return np.sign(z) * np.abs(z) ** (1 / (p - 1))
    ### END SOLUTION


# %%
check("03.3", mirror_step)

# %%
one_step = mirror_step(np.array([-2.0, 1.0]), np.array([0.0, -6.0]), 3.0, 3.0)  # z from (-4, 1) to (-4, 4)
assert same(one_step, [-2, 2]), again("03.3")
mirror = {
    p: descend(A, lambda w, g, eta, p=p: mirror_step(w, g, eta, p), np.ones(10_000)) for p in (1.5, 3.0)
}
for p, path in mirror.items():
    size = np.linalg.norm(path[-1], p)
    angles = f"{degrees(path[-1]):.1f} degrees, predicted {degrees(best[p][0]):.1f}"
    print(f"p = {p}: {angles}; l_p norm {size:.1e}")
    assert margins(path[-1:], A, p)[0] > 0.999 * best[p][1], again("03.3")
    assert np.isclose(size, 10_000 ** (1 / (p - 1)), rtol=0.01), again("03.3")

model, points = models.LinearClassifier(d=2), data.PointData(torch.tensor(X), torch.tensor(y))
optimizer = optim.MirrorDescent(model.parameters(), lr=1.0, p=1.5)
train.fit(model, points, optimizer, 40, loss="exponential", progress=False)
assert same(model.w.detach(), mirror[1.5][39]), again("03.3")

# %% [markdown]
# Two more limits, where the theorem has them, though our steps of $\eta = 1$ are not small. The norm $\lVert
# z \rVert_{p^*}$ grows by about $\eta$ a step. It is $\lVert w \rVert_p^{p-1}$, so $\lVert w \rVert_p$ grows
# as $(\eta t)^{1/(p-1)}$: as $t^2$ for $p = 1.5$, as $\sqrt t$ for $p = 3$. The library's
# `optim.MirrorDescent` walks the same path as your function.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 3.5 Adam, five lines and two memories
#
# Adam divides a running mean $m$ of the gradient by the root of a running mean $v$ of its square, entry by
# entry.


# %%
def adam(A, etas, beta1=0.9, beta2=0.95, eps=0.0):
    """All iterates (steps, d) of Adam on the exponential loss, from w = 0."""
    w, m, v, path = np.zeros(A.shape[1]), 0.0, 0.0, []
    for t, eta in enumerate(etas, start=1):
        g = -np.exp(-A @ w) @ A / len(A)
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g**2
        w = w - eta * (m / (1 - beta1**t)) / (np.sqrt(v / (1 - beta2**t)) + eps)
        path.append(w)
    return np.array(path)


with_adam = adam(A, np.full(20_000, 0.005))
print(f"Adam: {degrees(with_adam[-1]):.2f} degrees; l_inf predicts {degrees(best[np.inf][0]):.2f}")
assert 0.012 < 1 - np.exp(-0.005 * best[np.inf][1]) < 0.013

# %% [markdown]
# With $\beta_1 = \beta_2 = \varepsilon = 0$ the step is $g_j / \sqrt{g_j^2}$: *Adam without memory is sign
# descent*. With memory it is still close to it, as long as the gradient changes little while the two means
# remember. Then $m \approx g$ and $v \approx g^2$, and the limit should be that of $\ell_\infty$. This is
# proved for $\varepsilon = 0$ and step sizes that tend to zero (Zhang, Zou & Cao 2024; for several classes,
# with a gap of about $t^{-1/3}$, Fan et al. 2025). Our steps are constant and small: the gradient shrinks by
# little more than one percent a step, $1 - e^{-\eta \hat\mu_\infty}$, and $v$ remembers about
# $1/(1 - \beta_2) = 20$ steps.

# %% slideshow={"slide_type": "subslide"}
limits = {
    "coordinate descent": (1.0, constant[1.0][-1], "v"),
    "mirror descent 1.5": (1.5, mirror[1.5][-1], "s"),
    "normalised GD": (2.0, constant[2.0][-1], "o"),
    "mirror descent 3": (3.0, mirror[3.0][-1], "D"),
    "sign descent": (np.inf, constant[np.inf][-1], "^"),
    "Adam": (np.inf, with_adam[-1], "*"),
}
fig, ax = plt.subplots(figsize=(8.6, 4.6))
draw_region(ax)
for p in ORDERS:
    w_hat, mu = best[p]
    ax.plot(*ball(p, 1 / mu).T, color=NORM_COLORS[p], linewidth=1.3)
    ax.plot(*np.stack([w_hat, 1.35 * w_hat]).T, color=NORM_COLORS[p], linestyle="--", linewidth=1.5)
    ax.text(*(1.4 * w_hat - [0, 0.01]), NAMES[p], color=NORM_COLORS[p], fontsize=13)
for name, (p, w, marker) in limits.items():
    assert abs(degrees(w) - degrees(best[p][0])) < 0.5, again("03.1 or 03.3")
    size, face = (260, "none") if name == "Adam" else (75, NORM_COLORS[p])
    at = to_edge(w[None])[0]
    ax.scatter(*at, s=size, marker=marker, facecolor=face, edgecolor="black", zorder=4, label=name)
fig.legend(loc="outside right center", fontsize=11)
ax.set(xlim=(-0.05, 0.9), ylim=(-0.08, 0.62))
show(
    fig,
    alt="The plane of weights with the shaded region and five balls, from the diamond to the square, each "
    "touching the region at another point. Markers for six optimisers lie on the points where the balls "
    "of their norms touch.",
)

# %% [markdown]
# **Figure 5.** One data set, six optimisers. Curves: the ball of each norm, grown until it touches. Dashed:
# the direction of largest margin in that norm. Markers: where each optimiser ended, scaled to the boundary.
#
# Everyone is within half a degree of the direction of its norm. The slider sets $p$; the dots are iterates of
# mirror descent, later ones larger. For which $p$ does the ball touch at the corner in direction $(2, 1)$?
#
# <details><summary>Answer</summary>
#
# From about $p = 1.77$ to $p = 2.17$.
# </details>


# %% tags=["nbval-ignore-output", "widget"]
def touch_figure(p):
    """The l_p ball that touches the region (cross), and mirror descent on its way there."""
    figure = Figure(figsize=(6, 4), layout="none")
    figure.subplots_adjust(left=0.12, right=0.98, bottom=0.14, top=0.91)
    ax = figure.subplots()
    draw_region(ax)
    touch = EDGE[np.linalg.norm(EDGE, p, axis=1).argmin()]
    ax.plot(*ball(p, np.linalg.norm(touch, p)).T, color=COLORS["purple"], linewidth=1.6)
    path = descend(A, lambda w, g, eta: mirror_step(w, g, eta, p), np.ones(300))
    some = to_edge(path[[2, 9, 29, 99, 299]])
    ax.scatter(*some.T, s=[20, 40, 60, 80, 100], color=COLORS["purple"], edgecolor="white", zorder=3)
    ax.plot(*touch, "x", color=COLORS["black"], markersize=9, markeredgewidth=1.5, zorder=4)
    ax.set_title(f"p = {p:.2f}: the ball touches at {degrees(touch):.1f} degrees")
    return figure


slopes = [np.divide(*largest_margin(A, p)[0][::-1]) for p in (1.76, 1.78, 2.16, 2.18)]
assert np.allclose(slopes[1:3], 1 / 2, atol=1e-5)
assert slopes[0] < 0.4995 < 0.5005 < slopes[3]
widgets.sliders(touch_figure, p=FloatSlider(value=1.5, min=1.1, max=6, step=0.05, description="norm, p"))

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 3.6 Matrices: the spectral step and Muon
#
# The weights of a network are matrices, and matrices have norms of their own. The **spectral norm**
# $\lVert W \rVert_{\mathrm{op}}$ is the largest singular value: how much $W$ can stretch a vector. What is
# its steepest step? Let $G = U\, \mathrm{diag}(\sigma)\, V^\top$ be the singular value decomposition of the
# gradient. For a step $D$ with $\lVert D \rVert_{\mathrm{op}} \le 1$,
#
# $$\langle G, D \rangle = \sum_j \sigma_j\, (U^\top D V)_{jj} \ge -\sum_j \sigma_j ,$$
#
# where $\langle G, D \rangle = \sum_{jl} G_{jl} D_{jl}$. The dual norm is the sum of the singular values,
# the **nuclear norm** (lesson 4). Singular values are here what entries were for $\ell_\infty$.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 03.4: The spectral step
# *★★ · 8 minutes.* Return the matrix $D$ of spectral norm 1 for which the inequality is an equality. Where
# $\sigma_j = 0$ it leaves $D$ a choice: stay at rest there, as the sign of 0 is 0. (In floating point: where
# $\sigma_j$ is less than $10^{-12}$ times the largest.)
#
# <details><summary>Hint</summary>
#
# You need $(U^\top D V)_{jj} = -1$ where $\sigma_j > 0$. `np.linalg.svd(G, full_matrices=False)` returns
# three factors whose product, with `np.diag` around the second, is `G`. Replace the singular values.
# </details>


# %%
@exercise("03.4")
def spectral_step(G):
    """The steepest step of spectral norm one, at rest where G has no slope: the shape of the matrix G."""
    ### BEGIN SOLUTION
    U, sigma, Vt = np.linalg.svd(G, full_matrices=False)
    return -U @ np.diag(sigma > 1e-12 * sigma.max()) @ Vt
    ### END SOLUTION


# %%
check("03.4", spectral_step)

# %% slideshow={"slide_type": "skip"}
G = np.array([[3.0, 4.0, 0.0], [0.0, 0.0, 2.0]])  # singular values 5 and 2
assert same(spectral_step(G), [[-0.6, -0.8, 0], [0, 0, -1]]), again("03.4")

# %% [markdown]
# A singular value decomposition at every step is expensive on large matrices. **Muon** (Jordan et al. 2024)
# does without. If $P = U\, \mathrm{diag}(\sigma)\, V^\top$ then $P P^\top P$ has $\sigma_j^3$ in place of
# $\sigma_j$: matrix products act on the singular values alone. So does any odd polynomial. Muon starts from
# $P = G / \lVert G \rVert_F$, with the Frobenius norm $\lVert G \rVert_F = (\sum_{jl} G_{jl}^2)^{1/2}$, so
# that all singular values are at most 1. Then it applies five times
#
# $$P \leftarrow 3.4445\, P - 4.7750\, (P P^\top) P + 2.0315\, (P P^\top)^2 P .$$

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 03.5: Muon's shortcut
# *★★ · 10 minutes.* Scale $G$ as above, apply the polynomial `steps` times, and return $P$: an approximation
# of $+U V^\top$.
#
# <details><summary>Hint</summary>
#
# `square = P @ P.T` is needed twice: `square @ P` is of third order, `square @ square @ P` of fifth.
# `np.linalg.norm(G)` is the Frobenius norm.
# </details>


# %%
@exercise("03.5")
def newton_schulz(G, steps):
    """Muon's approximation of U V^T: the shape of G, for a matrix G and a number of steps."""
    ### BEGIN SOLUTION
    P = G / np.linalg.norm(G)
    for _ in range(steps):
        square = P @ P.T
        P = 3.4445 * P + (-4.7750 * square + 2.0315 * square @ square) @ P
    return P
    ### END SOLUTION


# %%
check("03.5", newton_schulz)

# %% slideshow={"slide_type": "subslide"}
sigma = np.geomspace(1e-4, 1, 400)
becomes = sigma
for _ in range(5):
    becomes = 3.4445 * becomes - 4.7750 * becomes**3 + 2.0315 * becomes**5
two = np.diag([sigma[200], np.sqrt(1 - sigma[200] ** 2)])  # of Frobenius norm one
turned = np.array([[0.6, 0.8, 0.0], [0.0, 0.0, 1.0]])
assert same(newton_schulz(3 * two @ turned, 5)[0], becomes[200] * turned[0]), again("03.5")
print(f"singular values above 0.002 end between {becomes[sigma > 0.002].min():.2f} and {becomes.max():.2f}")
assert becomes[sigma > 0.002].min() >= 0.68
assert round(becomes.max(), 2) == 1.2
fig, ax = plt.subplots(figsize=(6.4, 3))
ax.semilogx(sigma, becomes, color=COLORS["black"])
ax.axhline(1, color=COLORS["grey"], linestyle="--", linewidth=1.4)
ax.set(xlabel=r"singular value of $G / ||G||_F$", ylabel="after five steps", ylim=(0, 1.3))
show(
    fig,
    alt="Singular values before and after the polynomial. After five steps, everything above 0.002 "
    "has come into a band around one, with waves between 0.7 and 1.2.",
)

# %% [markdown]
# **Figure 6.** What Muon's polynomial makes of a singular value. Exact spectral descent would lift all of
# them to one (dashed). Values from 0.002 to 1 all land between 0.68 and 1.20: the coefficients were chosen to
# lift small values fast, at the price of these waves. We shall see what they cost.

# %% [markdown] slideshow={"slide_type": "slide"}
# ### Ten classes
#
# The problem of Fan, Schmidt & Thrampoulidis (2025): $k = 10$ classes in $d = 25$ dimensions, each with a
# centre drawn from $N(0, I)$ and 50 points around it, with noise of size 0.1. The scores are $W x$ with $W$
# of shape $(k, d)$, and point $i$ of class $y_i$ is right when its own score is the largest. The margin is
# what you expect:
#
# $$\mu(W) = \frac{1}{\lVert W \rVert} \min_i \min_{c \ne y_i} (e_{y_i} - e_c)^\top W x_i
# = \frac{1}{\lVert W \rVert} \min_{i, c} \langle (e_{y_i} - e_c)\, x_i^\top, W \rangle ,$$
#
# with the unit vectors $e_c$. Each pair of a point and a wrong class is a signed point, of matrix shape. We
# take three norms: Frobenius, spectral, and the **max-norm**, the largest $|W_{jl}|$ ($\ell_\infty$ on the
# entries).

# %%
k, d, per_class = 10, 25, 50
rng = np.random.default_rng(0)
centres = rng.normal(size=(k, d))
labels = np.repeat(np.arange(k), per_class)
inputs = centres[labels] + 0.1 * rng.normal(size=(k * per_class, d))

own, other = np.array([(i, c) for i in range(len(labels)) for c in range(k) if c != labels[i]]).T
rivals = torch.tensor(np.eye(k)[labels[own]] - np.eye(k)[other])
pairs = svm.HardMarginProblem(rivals, torch.tensor(inputs[own]), torch.ones(len(own), dtype=torch.float64))


def matrix_margin(norm):
    """The largest margin in a matrix norm: solved on few pairs, to which those it gets wrong are added."""
    chosen = pairs.forward(svm.solve(pairs).value) < 1.03  # Euclidean: fast
    while True:
        few = svm.HardMarginProblem(pairs.a[chosen], pairs.b[chosen], pairs.r[chosen])
        solution = svm.solve(few, norm=norm, tol=1e-5)
        missed = pairs.forward(solution.value) < 1 - 1e-6
        if not missed.any():
            return float(solution.margin)
        chosen |= missed


MATRIX_NORMS = {"Frobenius": "fro", "spectral": "spectral", "max-norm": np.inf}
largest = {name: matrix_margin(norm) for name, norm in MATRIX_NORMS.items()}
print("largest margins:", ", ".join(f"{name} {mu:.3f}" for name, mu in largest.items()))

# %% [markdown]
# The loss is the cross-entropy. Its gradient is a sum over the pairs with weights, as before. We divide it by
# its total weight, so that it keeps its direction but never fades, and no $\varepsilon$ gets in the way. For
# Adam this is a kindness: section 3.7 shows what happens without it.
#
# Muon's polynomial gets not the gradient $G_t$ but a running mean of it, $M_t = 0.95\, M_{t-1} + 0.05\, G_t$,
# mixed with the gradient once more: $0.05\, G_t + 0.95\, M_t$ (*Nesterov's momentum*). We run torch's Muon
# and two of our own, one with your polynomial, and one with your exact step in its place.


# %%
def log_loss_gradient(W):
    """Direction of the cross-entropy's gradient: weights of the pairs that add up to one, (k, d)."""
    rows = np.arange(len(labels))
    lead = inputs @ W.T
    lead = lead - lead[rows, labels][:, None]  # of each class over the own one
    log_q = lead - np.logaddexp.reduce(lead, axis=1, keepdims=True)
    log_q[rows, labels] = -np.inf
    q = np.exp(log_q - log_q.max())
    q /= q.sum()
    q[rows, labels] = -q.sum(axis=1)  # no cancellation: 1 - softmax is never formed
    return q.T @ inputs


def train_matrix(make, steps=800):
    """The final W of a torch optimiser."""
    W = torch.nn.Parameter(torch.zeros(k, d, dtype=torch.float64))
    optimizer = make([W])
    for _ in range(steps):
        W.grad = torch.tensor(log_loss_gradient(W.detach().numpy()))
        optimizer.step()
    return W.detach()


def muon(orthogonalise, steps=800):
    """Muon from scratch, steps of 0.2, with our choice of how to orthogonalise."""
    W, M = np.zeros((k, d)), 0.0
    for _ in range(steps):
        G = log_loss_gradient(W)
        M = 0.95 * M + 0.05 * G
        W = W - 0.2 * orthogonalise(0.05 * G + 0.95 * M)
    return torch.tensor(W)


finals = {
    "normalised GD": train_matrix(lambda W: optim.NormalizedGD(W, lr=0.2)),
    "spectral descent": train_matrix(lambda W: optim.SpectralDescent(W, lr=0.2)),
    "torch's Muon": train_matrix(lambda W: torch.optim.Muon(W, lr=0.2, weight_decay=0.0)),
    "our Muon": muon(lambda M: newton_schulz(M, 5)),
    "our Muon, half the steps": muon(lambda M: newton_schulz(M, 5), steps=400),
    "our Muon, exact": muon(lambda M: -spectral_step(M)),
    "sign descent": train_matrix(lambda W: optim.SignDescent(W, lr=0.02)),
    "Adam": train_matrix(lambda W: torch.optim.Adam(W, lr=0.02, betas=(0.9, 0.95))),
}


def matrix_shares(W):
    """The margin of W in each of the three norms, as a share of the largest."""
    least = float(pairs.forward(W).min())
    lengths = torch.linalg.norm(W), torch.linalg.matrix_norm(W, 2), W.abs().max()
    return [least / float(length) / top for length, top in zip(lengths, largest.values(), strict=True)]


print(f"{'share of the largest margin:':28}", *(f"{name:>10}" for name in MATRIX_NORMS))
shares = {name: matrix_shares(W) for name, W in finals.items()}
for name, row in shares.items():
    print(f"{name:28}", *(f"{share:10.3f}" for share in row))
unit = {name: W / torch.linalg.norm(W) for name, W in finals.items()}
cosines = [float((unit["our Muon"] * unit[name]).sum()) for name in ("normalised GD", "spectral descent")]
print(f"cosine of our Muon to normalised GD {cosines[0]:.2f}, to spectral descent {cosines[1]:.2f}")

# %% slideshow={"slide_type": "skip"}
for name, own_norm in (("normalised GD", 0), ("spectral descent", 1), ("sign descent", 2), ("Adam", 2)):
    assert 0.98 < shares[name][own_norm] == max(shares[name])
assert shares["our Muon, exact"][1] > 0.99, again("03.4")
assert shares["our Muon"][1] < shares["our Muon, half the steps"][1], again("03.5")
for name in ("torch's Muon", "our Muon", "our Muon, half the steps"):
    assert shares[name][0] > 0.98, again("03.5")
    assert 0.94 < shares[name][1] < 0.95, again("03.5")
assert np.allclose(cosines, [0.99, 0.955], atol=0.005), again("03.5")

# %% [markdown]
# NGD takes the Frobenius margin, spectral descent the spectral one, sign descent and Adam that of the
# max-norm, each to at least 98 percent, and each has less in the two others.
#
# Muon is the surprise. It was to approximate spectral descent, and theory gives it the spectral margin. It
# has 95 percent of that, no more than after half the steps, and over 98 percent of the Frobenius margin: it
# sits nearer to NGD than to spectral descent. Our own version, in double precision, does the same. With the
# exact $U V^\top$, for which the theory is, it has over 99 percent of the spectral margin. So neither the
# momentum nor torch's half precision is at fault: the polynomial is. Why it ends just there, we do not know.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 3.7 Where it breaks
#
# **(a) Adam's small print.** Adam divides by $\sqrt v + \varepsilon$. Once the gradient is below
# $\varepsilon$, the denominator is a constant, and what remains is gradient descent with momentum, whose
# limit is that of $\ell_2$ (Wang et al. 2022). And Adam remembers. With torch's default $\beta_2 = 0.999$,
# $v$ is a mean over some 1,000 steps, in which full steps would shrink the gradient by a factor of more
# than $e^{12}$: old, larger gradients fill it.

# %%
small_print = {
    r"$\varepsilon = 0$, $\beta_2 = 0.95$": with_adam,
    r"$\varepsilon = 10^{-8}$": adam(A, np.full(20_000, 0.005), eps=1e-8),
    r"$\beta_2 = 0.999$": adam(A, np.full(20_000, 0.005), beta2=0.999),
}
ends = [degrees(path[-1]) for path in small_print.values()]
print("after 20,000 steps, in degrees:", ", ".join(f"{end:.1f}" for end in ends))
assert np.allclose(ends, [42.7, 37.0, 31.5], atol=0.06)
assert 1000 * 0.005 * best[np.inf][1] > 12
gradients = np.exp(-(A @ small_print[r"$\varepsilon = 10^{-8}$"].T)).T @ A / len(A)
first = 1 + int(np.argmax(np.abs(gradients).max(axis=1) < 1e-8))
print(f"the gradient falls below 1e-8 at step {first}")
assert 1650 < first < 1750

# %% [markdown]
# **(b) Steps that are too long.** With constant steps the theorem leaves room for a gap of
# $\frac12 R^2 \eta / \hat\mu$, and it can be real. One step changes $a_i \cdot w$ by up to $\eta R$. If that
# is much, the weights $q$ at its end are not those that chose it. Here are ten points in five dimensions, and
# sign descent with $\eta = 1$ and with steps $1/\sqrt t$.

# %%
rng = np.random.default_rng(1)
axis = rng.normal(size=5)
ten = rng.normal(size=(10, 5))
ten = ten * np.sign(ten @ axis)[:, None] + 0.3 * axis / np.linalg.norm(axis)
mu_ten = largest_margin(ten, np.inf)[1]
gaps, moved = {}, {}
times = np.arange(1, 5001)
for name, etas, expected in (("1", times**0.0, [0.288, 0.487]), ("1/sqrt(t)", times**-0.5, [0.008, 0.004])):
    path = descend(ten, steepest(2), etas)
    gaps[name] = 1 - margins(path, ten, np.inf) / mu_ten
    q = np.array([weights(ten @ w) for w in path[-500:]])
    moved[name] = np.abs(np.diff(q, axis=0)).sum(axis=1).mean() / 2
    print(f"steps {name:9}: gap {gaps[name][-1]:.3f}, weight that a step moves {moved[name]:.3f}")
    assert np.allclose([gaps[name][-1], moved[name]], expected, atol=1e-3), again("03.1")

# %% slideshow={"slide_type": "subslide"}
fig, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.6))
at = np.unique(np.geomspace(1, 20_000, 80).astype(int))
for (name, path), line in zip(small_print.items(), ("-", "--", ":"), strict=True):
    left.semilogx(at, degrees(path[at - 1]), line, color=COLORS["black"], label=name)
for p in (np.inf, 2.0):
    left.axhline(degrees(best[p][0]), color=NORM_COLORS[p], linewidth=1.3)
    left.text(1, degrees(best[p][0]) - 0.3, NAMES[p], va="top", color=NORM_COLORS[p])
left.set(xlabel="step $t$", ylabel="direction of $w_t$ (degrees)", title="(a) Adam", ylim=(24.5, 46))
left.legend(loc="lower left", bbox_to_anchor=(0.02, 0.14))
for gap, color in zip(gaps.values(), ("grey", "black"), strict=True):
    right.loglog(times, gap, color=COLORS[color], linewidth=1.2)
right.legend([name.replace("sqrt(t)", r"$\sqrt{t}$") for name in gaps], loc="lower left", title="steps")
right.set(xlabel="step $t$", ylabel=r"gap $1 - \mu_\infty(w_t)/\hat\mu_\infty$", title="(b) sign descent")
show(
    fig,
    alt="Left: the direction of Adam against steps; only with epsilon zero and short memory does it end at "
    "the line of l infinity, the two others turn away towards that of l two. Right: the gap of sign "
    "descent stops falling at 0.29 with steps of 1 and goes on falling with decreasing steps.",
)

# %% [markdown]
# **Figure 7.** (a) Where Adam goes; $\varepsilon = 0$ and $\beta_2 = 0.95$ unless the label says otherwise.
# (b) Gaps of sign descent on ten points in five dimensions.

# %% [markdown] slideshow={"slide_type": "notes"}
# In (a), $\varepsilon = 10^{-8}$ is torch's default. It looks harmless, and it is, until the gradient comes
# down to it after some 1,700 steps. From there Adam turns away, and is at 37.0 degrees after 20,000 steps, on
# its slow way to the 26.6 of $\ell_2$. With $\varepsilon = 0$ but $\beta_2 = 0.999$, it is at 31.5, far from
# both. *Which norm Adam picks depends on how long you train.*
#
# In (b), steps of 1 move half of the weight to other points each time, and are stuck at a gap of 0.29.
# Steps of $1/\sqrt t$ end up moving less than half a percent, and are below 0.01.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Questions
#
# <details><summary>1. Where does the proof use that steps and margin are measured in the same norm?</summary>
#
# Twice. The slope of the loss along the steepest step is the dual norm $\lVert \sum_i q_i a_i \rVert_*$,
# which the same norm's $\hat\mu$ bounds from below; and $\lVert w_t \rVert \le \sum_s \eta_s$ needs steps
# of length one in the norm that divides the margin.
# </details>
#
# <details><summary>2. You rotate all points by 30 degrees. Whose classifier turns along?</summary>
#
# Circles do not mind: NGD's classifier turns by 30 degrees. Diamonds and squares do: coordinate descent,
# sign descent, Adam and mirror descent with $p \ne 2$ depend on the axes. Spectral descent on a matrix does
# not: rotations leave singular values alone.
# </details>
#
# <details><summary>3. No direction separates the points. What do normalised optimisers do?</summary>
#
# The loss has a minimiser, or at least stops falling, but steps of fixed length never stop: they wander
# around it at a distance of about $\eta$. No margin is positive, and no norm is picked. Only shrinking
# steps come to rest.
# </details>

# %%
progress("03")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 3.8 Summary
#
# - Steepest descent maximises the margin in its own norm, because the slope of the loss is a bound on that
#   margin. On our points the gap fell as one over the norm. Constant steps that are too long can stop short.
# - Adam goes with $\ell_\infty$ while its $\varepsilon$ and its memory allow it.
# - Muon with its polynomial, measured, stays at 95 percent of the spectral margin, nearer to Frobenius.
#
# | optimiser | norm | the best $w$ is |
# |:---|:---|:---|
# | coordinate descent | $\ell_1$ | sparse |
# | mirror descent, power $p$ | $\ell_p$ | in between |
# | normalised GD, GD | $\ell_2$, Frobenius | the SVM of lesson 2 |
# | sign descent, Adam ($\varepsilon = 0$) | $\ell_\infty$ | of many entries of one size |
# | spectral descent, Muon with the exact $U V^\top$ | spectral | of many singular values of one size |
# | Muon with its polynomial | nearer to Frobenius (measured) | near that of NGD |

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Further reading
#
# - Gunasekar, Lee, Soudry & Srebro, *Characterizing implicit bias in terms of optimization geometry* (ICML
#   2018): steepest and mirror descent, and where the simple picture ends.
# - Telgarsky, *Margins, shrinkage, and boosting* (ICML 2013): the proof of section 3.3 for $\ell_1$, with
#   several kinds of steps.
# - Sun, Ahn, Thrampoulidis & Azizan, *Mirror descent maximizes generalized margin and can be implemented
#   efficiently* (NeurIPS 2022): section 3.4.
# - Zhang, Zou & Cao, *The implicit bias of Adam on separable data* (NeurIPS 2024), and Wang et al., *Does
#   momentum change the implicit regularization on separable data?* (NeurIPS 2022): Adam without and with
#   $\varepsilon$.
# - Fan, Schmidt & Thrampoulidis, *Implicit bias of spectral descent and Muon on multiclass separable data*
#   (2025): section 3.6.
# - Jordan et al., *Muon: an optimizer for hidden layers in neural networks* (2024): the polynomial and why
#   these coefficients.
#
# **New in the library:** [`optim.SignDescent`](../mini_attn/optim.py),
# [`optim.SpectralDescent`](../mini_attn/optim.py), [`optim.MirrorDescent`](../mini_attn/optim.py).
#
# **Next:** [lesson 4](04_matrix_factorization.ipynb) leaves the optimiser alone and factors the weights
# instead. That picks a norm too: the nuclear one, the dual of the spectral norm you have just met. In
# lesson 15, mirror descent returns inside attention.
