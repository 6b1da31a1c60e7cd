# %% [markdown] slideshow={"slide_type": "slide"}
# # 03 · The optimiser picks the norm
#
# Gradient descent ends at the direction of largest margin, and a margin is a distance
# ([lesson 01](01_logistic_regression_bias.ipynb)). But who said that distances are Euclidean? The loss did
# not: it knows nothing but the numbers $u_i = y_i\, w \cdot x_i$. The data did not either.
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
# - prove that its margin tends to the largest margin in that norm, and say which steps are safe;
# - certify a margin in any norm with the weights of lesson 02;
# - write mirror descent and the spectral step in a few lines each;
# - predict the singular values of what Muon trains;
# - say when Adam is sign descent, and what its $\varepsilon$ and its memory do to the limit.
#
# **You need** lessons 01 and 02, linear algebra with the singular value decomposition, and NumPy. About
# 90 minutes, six exercises.

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
# Twelve points $x_i$ in the plane with labels $y_i = \pm 1$. As in lesson 02 we work with the signed points
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
# For $\rho \ge 1$, the $\ell_\rho$ **norm** is $\lVert w \rVert_\rho = (\sum_j |w_j|^\rho)^{1/\rho}$, and
# $\lVert w \rVert_\infty = \max_j |w_j|$. (The literature writes $p$; from lesson 05 on that letter is
# taken.) The **margin in a norm** and the largest margin are
#
# $$\mu_\rho(w) = \min_i \frac{a_i \cdot w}{\lVert w \rVert_\rho}, \qquad
# \hat\mu_\rho = \max_{w \ne 0} \mu_\rho(w) .$$
#
# As in lesson 02 the best direction is that of the shortest $w$ with all $a_i \cdot w \ge 1$, where
# *shortest* now means shortest in $\ell_\rho$, and $\hat\mu_\rho = 1 / \lVert \hat w \rVert_\rho$. The
# library solves this for any $\rho$ (it calls it `p`); its problem has rows $a_i$ and right-hand sides,
# here 1. The answer carries a certificate: no $w$ can be shorter by more than the share `gap`.


# %%
def largest_margin(A, rho):
    """The shortest w, in the l_rho norm, with all a_i.w >= 1, and its margin."""
    ones = torch.ones(len(A), dtype=torch.float64)
    solution = svm.solve(svm.HardMarginProblem(torch.tensor(A), None, ones), norm=rho, tol=1e-6)
    assert solution.gap <= 1e-6
    return solution.value.numpy(), float(solution.margin)


def degrees(w):
    """The angle of w, or of each row of w, from the first axis."""
    return np.degrees(np.arctan2(w[..., 1], w[..., 0]))


ORDERS = [1.0, 1.5, 2.0, 3.0, np.inf]
best = {rho: largest_margin(A, rho) for rho in ORDERS}
for rho, (w_hat, mu) in best.items():
    slope, angle = w_hat[1] / w_hat[0], degrees(w_hat)
    print(f"rho = {rho:3}   direction (1, {slope:.3f}), {angle:4.1f} degrees   margin {mu:.3f}")
slopes = [w_hat[1] / w_hat[0] for w_hat, _ in best.values()]
assert np.allclose(slopes, [0, 1 / 1.7**2, 1 / 2, np.sqrt(0.8 / 1.8), 11 / 12], atol=1e-5)
assert degrees(best[np.inf][0]) - degrees(best[1.0][0]) > 42

# %% jupyter={"source_hidden": true} slideshow={"slide_type": "fragment"}
HUES = "vermillion", "orange", "green", "sky", "blue"
NORM_COLORS = {rho: COLORS[name] for rho, name in zip(ORDERS, HUES, strict=True)}
NAMES = {1.0: r"$\ell_1$", 1.5: r"$\ell_{1.5}$", 2.0: r"$\ell_2$", 3.0: r"$\ell_3$", np.inf: r"$\ell_\infty$"}


def ball(rho, radius=1.0, corners=401):
    """The curve ||w||_rho = radius, as points (corners, 2)."""
    turn = np.linspace(0, 2 * np.pi, corners)
    circle = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    return radius * circle / np.linalg.norm(circle, rho, axis=1, keepdims=True)


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


fig, (left, right) = plt.subplots(1, 2, figsize=(8.8, 3.7))
for label, marker, color in ((1, "o", "black"), (-1, "s", "grey")):  # colours stand for norms here
    left.scatter(*X[y == label].T, s=60, marker=marker, color=COLORS[color], edgecolor="white", zorder=3)
left.set(xlim=(-4.4, 4.4), ylim=(-4.4, 4.4), xlabel="$x_1$", ylabel="$x_2$", aspect="equal")
draw_region(right)
for rho in (1.0, 2.0, np.inf):
    w_hat, mu = best[rho]
    plots.boundary(w_hat, left, color=NORM_COLORS[rho], label=NAMES[rho])
    right.plot(*ball(rho, 1 / mu).T, color=NORM_COLORS[rho], linewidth=1.6)
    right.plot(*w_hat, "o", color=NORM_COLORS[rho], markersize=9)
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
# Three norms, three lines, and more than 42 degrees between the outer two. On the left, too, each line is
# the farthest from the points, but distances are measured in *another* norm: $|w \cdot x| / \lVert w
# \rVert_\rho$ is the distance of $x$ to the line in $\ell_{\rho^*}$, with $\frac1\rho + \frac1{\rho^*} =
# 1$. So the line of $\ell_1$ is vertical because in $\ell_\infty$ the shortest way to it is any that goes
# sideways far enough.
#
# Now we let optimisers loose on these points. None of them is told which margin to maximise.

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
# So the duals of $\ell_1$, $\ell_2$ and $\ell_\infty$ are $\ell_\infty$, $\ell_2$ and $\ell_1$. In general
# the dual of $\ell_\rho$ is $\ell_{\rho^*}$ with $\frac1\rho + \frac1{\rho^*} = 1$ (Hölder's inequality: $g
# \cdot \delta \le \lVert g \rVert_{\rho^*} \lVert \delta \rVert_\rho$).

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 03.1: Three steepest steps
#
# ★☆☆ · 6 minutes
#
# For each of the three norms, find the $\delta$ of length one for which the inequality above is an equality.
# Return them as the rows of an array. (No two entries of $g$ have the same absolute value, and none is zero.)
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

# %%
g = np.array([-1.5, -0.7])
steps = steepest_steps(g)
assert same(steps, [[1, 0], -g / np.linalg.norm(g), [1, 1]]), again("03.1")

# %% jupyter={"source_hidden": true} slideshow={"slide_type": "subslide"}
fig, axes = plt.subplots(1, 3, figsize=(9.6, 3.3), sharey=True)
titles = ("coordinate descent", "normalised GD", "sign descent")
for rho, step, title, ax in zip((1.0, 2.0, np.inf), steps, titles, axes, strict=True):
    ax.fill(*ball(rho).T, color=NORM_COLORS[rho], alpha=0.2, linewidth=0)
    for level in (-0.5, 0, 0.5, 1):  # in units of -(dual norm of g)
        at = level * (g @ step) * g / (g @ g)
        ax.axline(at, slope=-g[0] / g[1], color=COLORS["grey"], linewidth=1.6 if level == 1 else 0.6)
    arrow = {"arrowstyle": "-|>", "color": NORM_COLORS[rho], "linewidth": 2.5}
    ax.annotate("", step, (0, 0), arrowprops=arrow)
    ax.set(xlim=(-1.3, 1.6), ylim=(-1.3, 1.4), xlabel=r"$\delta_1$", title=f"{NAMES[rho]}: {title}")
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
# The three steps belong to three old friends. Along one coordinate at a time: **coordinate descent**. Along
# $-g$: **normalised gradient descent** (NGD) from lesson 01. By the same length in every coordinate: **sign
# descent**. We run all three, with the exponential loss
#
# $$L(w) = \frac1n \sum_{i=1}^n e^{-a_i \cdot w} , \qquad
# -\frac{\nabla L(w)}{L(w)} = \sum_i q_i\, a_i , \qquad
# q_i = \frac{e^{-a_i \cdot w}}{n\, L(w)} .$$
#
# (The logistic loss is nearly the same where all points are right by far, and has the same limits.)
# Normalised steps only need the direction of the gradient, so we divide by $L$ and nothing underflows.


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
constant = {rho: descend(A, steepest(row), np.ones(10_000)) for rho, row in ROWS.items()}
for rho, path in constant.items():
    angles = [f"{degrees(path[t - 1]):5.1f}" for t in (10, 100, 10_000)]
    print(f"rho = {rho:3}: after 10, 100 and 10,000 steps", *angles)
    assert abs(degrees(path[-1]) - degrees(best[rho][0])) < 0.1, again("03.1")
assert np.array_equal(constant[1.0][[1, 2, -1]], [[2, 0], [2, 1], [9999, 1]]), again("03.1")

# %% [markdown]
# Same loss, points and start: three limits, each that of its norm, within a tenth of a degree.
# Coordinate descent starts at its limit, takes one step along the second axis, its third, and never leaves
# the first again: its limit is *sparse*. That is what the corner of the diamond does.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 3.3 The proof
#
# Lesson 02 bounded all Euclidean margins with weights. The same two inequalities work in any norm. For
# weights $\lambda_i \ge 0$, not all zero, and every $w$ with $\lVert w \rVert = 1$,
#
# $$\mu(w) = \min_i a_i \cdot w \le \frac{\sum_i \lambda_i\, a_i \cdot w}{\sum_i \lambda_i}
# \le \frac{\lVert \sum_i \lambda_i\, a_i \rVert_*}{\sum_i \lambda_i} =: B(\lambda),$$
#
# first because a minimum is at most any average, then by the definition of the dual norm.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 03.2: Two bounds in any norm
#
# ★★☆ · 6 minutes
#
# Return the margin $\mu_\rho(w)$ and the bound $B(\lambda)$ for the $\ell_\rho$ norm, where $\rho$ may be any
# number from 1 on, or `np.inf`.
#
# <details><summary>Hint</summary>
#
# `np.linalg.norm(w, rho)` knows every $\rho$, `np.inf` included. What is $\rho^*$ for $\rho = 1$ and for
# $\rho = \infty$?
# </details>


# %%
@exercise("03.2")
def certify(w, lam, A, rho):
    """(mu_rho(w), B(lam)): two numbers, for w (d,), weights lam (n,), signed points A (n, d), rho >= 1."""
    ### BEGIN SOLUTION
    dual = np.inf if rho == 1 else 1.0 if rho == np.inf else rho / (rho - 1)
    return (A @ w).min() / np.linalg.norm(w, rho), np.linalg.norm(lam @ A, dual) / lam.sum()
    ### END SOLUTION


# %%
check("03.2", certify)

# %% [markdown]
# Any weights will do, good ones prove more. Descent supplies them: the weights it gave the points. Lesson 02
# used those of the last step. Normalised steps keep changing them, so here we add them up over all steps.

# %%
for rho, path in constant.items():
    total = sum(weights(A @ w) for w in [np.zeros(2), *path[:-1]])
    lower, upper = certify(path[-1], total, A, rho)
    print(f"rho = {rho:3}:  {lower:.4f} <= largest margin {best[rho][1]:.4f} <= {upper:.4f}")
    assert lower <= best[rho][1] * (1 + 1e-6), again("03.2")
    assert best[rho][1] <= upper * (1 + 1e-6), again("03.2")
    assert upper / lower - 1 < 0.012, again("03.2")

# %% [markdown] slideshow={"slide_type": "slide"}
# > **Theorem.** *Let $\lVert \cdot \rVert$ be any norm, $\hat\mu > 0$ the largest margin in it, and
# > $a_{\max} = \max_i \lVert a_i \rVert_*$. Start at $w_0 = 0$ and take steepest steps of lengths
# > $\eta_1, \dots, \eta_t$ on the exponential loss. As soon as the right-hand side is positive,*
# >
# > $$\mu(w_t) \;\ge\; \hat\mu
# > - \frac{\frac12 a_{\max}^2 \sum_\tau \eta_\tau^2 + \log n}{\sum_\tau \eta_\tau} .$$
# >
# > *With $\eta_\tau = \eta / \sqrt \tau$ the difference is $O(\log t / \sqrt t)$, so the margin tends to the
# > largest one.*
# >
# > Source: Gunasekar et al. (2018) for the limit; the argument below is that of Telgarsky (2013) for $\ell_1$
# > and of Fan et al. (2025) for matrices and several classes.
#
# The theorem is about the margin. The direction follows only where the best one is unique; the flat sides of
# diamonds and squares can leave a choice.

# %% [markdown]
# **Proof.** One step $\eta_\tau \delta_\tau$ with weights $q$ multiplies the loss by
# $\sum_i q_i\, e^{-\eta_\tau a_i \cdot \delta_\tau}$. This is an average of exponentials of numbers in
# $[-b, b]$, $b = \eta_\tau a_{\max}$, because $|a_i \cdot \delta_\tau| \le \lVert a_i \rVert_* \le a_{\max}$.
# *Hoeffding's lemma* (1963) says that its logarithm is at most the average of the numbers plus $b^2/2$:
#
# $$\log \frac{L(w_\tau)}{L(w_{\tau-1})} \le -\eta_\tau \sum_i q_i\, a_i \cdot \delta_\tau
# + \tfrac12 \eta_\tau^2 a_{\max}^2 .$$
#
# The step is steepest, so $\sum_i q_i\, a_i \cdot \delta_\tau = \lVert \sum_i q_i a_i \rVert_* = B(q) \ge
# \hat\mu$: *the certificate is the slope*. Sum over the steps, with $L(w_0) = 1$: $-\log L(w_t) \ge \hat\mu
# \sum_\tau \eta_\tau - \frac12 a_{\max}^2 \sum_\tau \eta_\tau^2$. The worst point has $e^{-\min_i a_i \cdot
# w_t} \le n L(w_t)$, so $\min_i a_i \cdot w_t \ge -\log L(w_t) - \log n$. Together, $\min_i a_i \cdot w_t$
# is at least a number that is positive by assumption. Divide it by $\lVert w_t \rVert$, which is at most
# $\sum_\tau \eta_\tau$. $\square$
#
# Which norm it is, we used nowhere. The optimiser puts the norm in, at the word *steepest*.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 03.3: Steps that cannot fail
#
# ★★★ · 10 minutes
#
# Someone wants $\mu(w_t) \ge (1 - \mathrm{share})\, \hat\mu$, guaranteed by the theorem, from steps of one
# *constant* length. Which length needs the fewest steps, and how many? Return $\eta$ and $t$; $t$ need not be
# a whole number.
#
# <details><summary>Hint</summary>
#
# With constant steps the theorem's loss of margin has two terms: one grows with $\eta$, one falls with $\eta
# t$. For a given $\eta$, how many steps are enough? Then choose $\eta$.
# </details>


# %%
@exercise("03.3")
def safe_steps(mu_hat, a_max, n, share):
    """(eta, t): the constant length that needs fewest steps for margin (1 - share) mu_hat; how many."""
    ### BEGIN SOLUTION
    return share * mu_hat / a_max**2, 2 * np.log(n) * (a_max / (share * mu_hat)) ** 2
    ### END SOLUTION


# %%
check("03.3", safe_steps)

# %%
ten_percent = {}
for rho, dual in ((1.0, np.inf), (2.0, 2), (np.inf, 1)):
    a_max = np.linalg.norm(A, dual, axis=1).max()
    eta, t = ten_percent[rho] = safe_steps(best[rho][1], a_max, len(A), 0.1)
    path = descend(A, steepest(ROWS[rho]), np.full(int(np.ceil(t)), eta))
    reached = certify(path[-1], np.ones(12), A, rho)[0] / best[rho][1]
    print(f"rho = {rho:3}: eta = {eta:.4f}, {t:5.0f} steps: promised 0.900, reached {reached:.3f}")
    assert 0.9 <= reached <= 1 + 1e-9, again("03.1, 03.2 or 03.3")
assert np.allclose(ten_percent[np.inf], [0.0073, 2686], rtol=0.02), again("03.3")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### How fast? *(optional)*
#
# The theorem promises little, for any points of that size. Lesson 01 suggests more: NGD's error was an
# offset that stays bounded, divided by a norm that grows. If that is so in every norm, the gap $1 -
# \mu(w_t)/\hat\mu$ falls as $1/\lVert w_t \rVert$: like $1/t$ with constant steps, like $1/\sqrt t$ with
# steps $\eta/\sqrt t$. This is measured, not proved, and in section 3.7 constant steps get stuck.


# %%
def margins(W, A, rho):
    """mu_rho of each row of W."""
    return (A @ W.T).min(axis=0) / np.linalg.norm(W, rho, axis=1)


def worst(values, parts=3):
    """Ends of thirds of decades, and the largest of the values since the end before."""
    ends = np.round(10 ** (np.arange(0, parts * 4 + 1) / parts)).astype(int)
    ends = ends[ends <= len(values)]
    return ends[1:], np.array([values[a:b].max() for a, b in pairwise(ends)])


times = np.arange(1, 10_001)
shrinking = {rho: descend(A, steepest(row), 2 / np.sqrt(times)) for rho, row in ROWS.items()}
exponents = {}
for name, paths in (("steps 1", constant), ("steps 2/sqrt(t)", shrinking)):
    for rho, path in paths.items():
        t, highest = worst(1 - margins(path, A, rho) / best[rho][1])
        exponent = np.polyfit(np.log(t[t > 500]), np.log(highest[t > 500]), 1)[0]
        exponents[name, rho] = exponent
        print(f"{name:15} rho = {rho:3}: gap {highest[-1]:.0e}, exponent {exponent:.1f}")
assert np.allclose(list(exponents.values()), [-1, -1, -1, -0.5, -0.2, -0.5], atol=0.05), again("03.1")

# %% [markdown]
# All exponents but one are $-1$ and $-1/2$, as the offset over the norm predicts. The exception is $\ell_2$
# with shrinking steps. Is its offset still on its way? Then what counts is how far the run has come, not
# how. At the same length of $w$ the gap should be that of the run with constant steps:

# %%
length = np.linalg.norm(shrinking[2.0][-1])
nearest = np.abs(np.linalg.norm(constant[2.0], axis=1) - length).argmin()
pair = np.array([shrinking[2.0][-1], constant[2.0][nearest]])
both = 1 - margins(pair, A, 2.0) / best[2.0][1]
print(f"at length {length:.0f}: gap {both[0]:.1e} after 10,000 shrinking steps,", end=" ")
print(f"{both[1]:.1e} after {nearest + 1} constant ones")
assert 0.5 < both[0] / both[1] < 2, again("03.1")

# %% [markdown]
# So it is: the shrinking steps have merely not come far.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 3.4 Between the corners: mirror descent
#
# For $\rho$ between, steepest steps in $\ell_\rho$ are one way; this is another. **Mirror descent** keeps a
# function $\psi$ and takes its step not in $w$ but in $z = \nabla \psi(w)$:
#
# $$\nabla \psi(w_{t+1}) = \nabla \psi(w_t) - \eta\, \frac{g_t}{\lVert g_t \rVert_{\rho^*}} , \qquad
# \psi(w) = \frac1\rho \sum_j |w_j|^\rho , \qquad \nabla \psi(w)_j = \mathrm{sign}(w_j)\, |w_j|^{\rho-1} .$$
#
# This is the normalised form; for $\rho = 2$ it is NGD. Why should it find the $\ell_\rho$ margin?
# Gradients add up in $z$, and each is a sum of signed points: $z_t = \sum_i \lambda_i a_i$ with $\lambda_i
# \ge 0$. Late, only the worst points still get weight. And $\nabla\psi(\hat w) = \sum_i \lambda_i a_i$,
# with weight on the worst points only, is just the KKT condition of *minimise $\psi(w)$ subject to $a_i
# \cdot w \ge 1$*.
#
# > **Theorem** (Sun et al. 2022; stated informally). *On separable data, mirror descent with this $\psi$ and
# > small enough steps $\eta\, g_t$ (not normalised) converges in direction to the max-margin direction in
# > $\ell_\rho$.*

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 03.4: A mirror step
#
# ★★☆ · 8 minutes
#
# Write one normalised step: map $w$ to $z$, move, map back. Entries of $w$ may be zero: every run starts
# there.
#
# <details><summary>Hint</summary>
#
# The inverse of $z = \mathrm{sign}(w)\, |w|^{\rho-1}$ is $w = \mathrm{sign}(z)\, |z|^{1/(\rho-1)}$, entry by
# entry.
# </details>


# %%
@exercise("03.4")
def mirror_step(w, g, eta, rho):
    """The weights after one step of length eta in z: shape (d,), for w (d,), gradient g (d,), 1 < rho."""
    ### BEGIN SOLUTION
    z = np.sign(w) * np.abs(w) ** (rho - 1) - eta * g / np.linalg.norm(g, rho / (rho - 1))
    return np.sign(z) * np.abs(z) ** (1 / (rho - 1))
    ### END SOLUTION


# %%
check("03.4", mirror_step)

# %%
one_step = mirror_step(np.array([-2.0, 1.0]), np.array([0.0, -6.0]), 3.0, 3.0)  # z from (-4, 1) to (-4, 4)
assert same(one_step, [-2, 2]), again("03.4")
mirror = {
    rho: descend(A, lambda w, g, eta, rho=rho: mirror_step(w, g, eta, rho), np.ones(10_000))
    for rho in (1.5, 3.0)
}
for rho, path in mirror.items():
    size = np.linalg.norm(path[-1], rho)
    angles = f"{degrees(path[-1]):.1f} degrees, predicted {degrees(best[rho][0]):.1f}"
    print(f"rho = {rho}: {angles}; norm {size:.1e}")
    assert margins(path[-1:], A, rho)[0] > 0.999 * best[rho][1], again("03.4")
    assert np.isclose(size, 10_000 ** (1 / (rho - 1)), rtol=0.01), again("03.4")

model, points = models.LinearClassifier(d=2), data.PointData(torch.tensor(X), torch.tensor(y))
optimizer = optim.MirrorDescent(model.parameters(), lr=1.0, p=1.5)
train.fit(model, points, optimizer, 40, loss="exponential", progress=False)
assert same(model.w.detach(), mirror[1.5][39]), again("03.4")

# %% [markdown]
# Two more limits, where the theorem has them, though our steps are normalised and not small. The norm $\lVert
# z \rVert_{\rho^*}$ grows by about $\eta$ a step. It is $\lVert w \rVert_\rho^{\rho-1}$, so $\lVert w
# \rVert_\rho$ grows as $(\eta t)^{1/(\rho-1)}$: as $t^2$ for $\rho = 1.5$, as $\sqrt t$ for $\rho = 3$. The
# library's `optim.MirrorDescent` walks the same path as your function.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 3.5 Adam, five lines and two memories
#
# Adam divides a running mean of the gradient by the root of a running mean of its square, entry by entry:
#
# $$\bar g \leftarrow \beta_1 \bar g + (1 - \beta_1)\, g_t, \qquad
# \overline{g^2} \leftarrow \beta_2\, \overline{g^2} + (1 - \beta_2)\, g_t^2, \qquad
# w \leftarrow w
# - \eta\, \frac{\bar g / (1 - \beta_1^t)}{\sqrt{\overline{g^2} / (1 - \beta_2^t)} + \varepsilon} .$$
#
# (The divisions by $1 - \beta^t$ undo that both means start at zero.) A mean
# with $\beta$ remembers about $1 / (1 - \beta)$ steps. Gradients soon fall below the smallest
# floating-point number, so we keep them divided by that of the worst point, and the means with them;
# $\varepsilon$ is divided too.


# %%
def adam(A, etas, beta1=0.9, beta2=0.95, eps=0.0):
    """All iterates (steps, d) of Adam on the exponential loss, from w = 0, in units of e^-(least a_i.w)."""
    w, mean, square, least, path = np.zeros(A.shape[1]), 0.0, 0.0, 0.0, []
    for t, eta in enumerate(etas, start=1):
        u = A @ w
        grown, least = u.min() - least, u.min()  # what was e^-least before is e^grown times as large now
        g = -np.exp(least - u) @ A / len(A)
        mean = beta1 * np.exp(grown) * mean + (1 - beta1) * g
        square = beta2 * np.exp(2 * grown) * square + (1 - beta2) * g**2
        size = np.sqrt(square / (1 - beta2**t)) + (eps * np.exp(min(least, 700.0)) if eps else 0.0)
        w = w - eta * mean / (1 - beta1**t) / size
        path.append(w)
    return np.array(path)


with_adam = adam(A, np.full(20_000, 0.005))
print(f"Adam: {degrees(with_adam[-1]):.2f} degrees; l_inf predicts {degrees(best[np.inf][0]):.2f}")
assert 0.012 < 1 - np.exp(-0.005 * best[np.inf][1]) < 0.013

# %% [markdown]
# With $\beta_1 = \beta_2 = \varepsilon = 0$ the step is $g_j / \sqrt{g_j^2}$: *Adam without memory is sign
# descent*. With memory it is still close to it, as long as the gradient changes little while the two means
# remember. Then $\bar g \approx g$ and $\overline{g^2} \approx g^2$, and the limit should be that of
# $\ell_\infty$. This is proved for $\varepsilon = 0$ and step sizes that tend to zero (Zhang, Zou & Cao 2024;
# for several classes, with a gap of about $t^{-1/3}$, Fan et al. 2025). Our steps are constant and small: the
# gradient shrinks by little more than one percent a step, $1 - e^{-\eta \hat\mu_\infty}$, and the squares are
# remembered for about $1/(1 - \beta_2) = 20$ steps.

# %%
limits = {
    "coordinate descent": (1.0, constant[1.0][-1], "v"),
    "mirror descent 1.5": (1.5, mirror[1.5][-1], "s"),
    "normalised GD": (2.0, constant[2.0][-1], "o"),
    "mirror descent 3": (3.0, mirror[3.0][-1], "D"),
    "sign descent": (np.inf, constant[np.inf][-1], "^"),
    "Adam": (np.inf, with_adam[-1], "o"),
}
for rho, w, _ in limits.values():
    assert abs(degrees(w) - degrees(best[rho][0])) < 0.5, again("03.1 or 03.4")

# %% jupyter={"source_hidden": true} slideshow={"slide_type": "subslide"}
fig, ax = plt.subplots(figsize=(7.8, 4.2))
draw_region(ax)
for rho in ORDERS:
    w_hat, mu = best[rho]
    ax.plot(*ball(rho, 1 / mu).T, color=NORM_COLORS[rho], linewidth=1.3)
    ax.plot(*np.stack([w_hat, 1.35 * w_hat]).T, color=NORM_COLORS[rho], linestyle="--", linewidth=1.5)
    ax.text(*(1.4 * w_hat - [0, 0.01]), NAMES[rho], color=COLORS["black"], fontsize=13)
for name, (rho, w, marker) in limits.items():
    size, face = (330, "none") if name == "Adam" else (75, NORM_COLORS[rho])
    at = to_edge(w[None])[0]
    ax.scatter(*at, s=size, marker=marker, facecolor=face, edgecolor="black", zorder=4, label=name)
fig.legend(loc="outside right center", fontsize=11, labelspacing=1.1)
ax.set(xlim=(-0.05, 0.9), ylim=(-0.08, 0.62))
show(
    fig,
    alt="The plane of weights with the shaded region and five balls, from the diamond to the square, each "
    "touching the region at another point. Markers for six optimisers lie on the points where the balls "
    "of their norms touch; Adam is a ring around the mark of sign descent.",
)

# %% [markdown]
# **Figure 3.** One data set, six optimisers. Curves: the ball of each norm, grown until it touches. Dashed:
# the direction of largest margin in that norm. Markers: where each optimiser ended, scaled to the boundary.

# %% [markdown]
# Everyone is within half a degree of the direction of its norm. The slider sets $\rho$; the dots are
# iterates of mirror descent up to step 300, later ones larger. (For large $\rho$ they lag, since $\lVert w
# \rVert$ grows so slowly.) For which $\rho$ does the ball touch at the corner in direction $(2, 1)$?
#
# <details><summary>Answer</summary>
#
# From about $\rho = 1.77$ to $\rho = 2.17$.
# </details>


# %% tags=["nbval-ignore-output", "widget"]
def touch_figure(rho):
    """The l_rho ball that touches the region (cross), and mirror descent on its way there."""
    figure = Figure(figsize=(6, 4), layout="none")
    figure.subplots_adjust(left=0.12, right=0.98, bottom=0.14, top=0.91)
    ax = figure.subplots()
    draw_region(ax)
    touch = EDGE[np.linalg.norm(EDGE, rho, axis=1).argmin()]
    ax.plot(*ball(rho, np.linalg.norm(touch, rho)).T, color=COLORS["purple"], linewidth=1.6)
    path = descend(A, lambda w, g, eta: mirror_step(w, g, eta, rho), np.ones(300))
    some = to_edge(path[[2, 9, 29, 99, 299]])
    ax.scatter(*some.T, s=[20, 40, 60, 80, 100], color=COLORS["purple"], edgecolor="white", zorder=3)
    ax.plot(*touch, "x", color=COLORS["black"], markersize=9, markeredgewidth=1.5, zorder=4)
    ax.set_title(rf"$\rho$ = {rho:.2f}: the ball touches at {degrees(touch):.1f} degrees")
    return figure


slopes = [np.divide(*largest_margin(A, rho)[0][::-1]) for rho in (1.76, 1.78, 2.16, 2.18)]
assert np.allclose(slopes[1:3], 1 / 2, atol=1e-5)
assert slopes[0] < 0.4995 < 0.5005 < slopes[3]
widgets.sliders(
    touch_figure,
    alt="The shaded region and the ball of l_rho that touches it, with dots of mirror descent moving to the "
    "place where they touch.",
    rho=FloatSlider(value=1.5, min=1.1, max=6, step=0.05, description="norm, rho"),
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 3.6 Matrices: the spectral step and Muon
#
# The weights of a network are matrices, and matrices have norms of their own. Every matrix can be written
# $G = \sum_k \sigma_k\, \xi_k \zeta_k^\top$ with orthonormal $\xi_k$, orthonormal $\zeta_k$ and **singular
# values** $\sigma_1 \ge \sigma_2 \ge \dots \ge 0$. The **spectral norm** $\lVert G \rVert_{\mathrm{op}}$ is
# the largest of them: how much $G$ can stretch a vector. What is its steepest step? Let $G$ be the
# gradient. For a step $\delta$ with $\lVert \delta \rVert_{\mathrm{op}} \le 1$,
#
# $$\langle G, \delta \rangle = \sum_k \sigma_k\, \xi_k^\top \delta\, \zeta_k \ge -\sum_k \sigma_k ,$$
#
# where $\langle G, \delta \rangle = \sum_{jl} G_{jl} \delta_{jl}$. The dual norm is the sum of the singular
# values, the **nuclear norm** (lesson 04). Singular values are here what entries were for $\ell_\infty$.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 03.5: The spectral step
#
# ★★☆ · 6 minutes
#
# Return the matrix $\delta$ of spectral norm 1 for which the inequality is an equality. Where $\sigma_k =
# 0$ it leaves $\delta$ a choice: stay at rest there, as the sign of 0 is 0. (In floating point: where
# $\sigma_k$ is at most $10^{-12}$ times the largest. The gradient may be tiny, or zero.)
#
# <details><summary>Hint</summary>
#
# You need $\xi_k^\top \delta\, \zeta_k = -1$ where $\sigma_k > 0$. `np.linalg.svd(G, full_matrices=False)`
# returns three factors whose product, with `np.diag` around the second, is `G`. Replace the singular values.
# </details>


# %%
@exercise("03.5")
def spectral_step(G):
    """The steepest step of spectral norm one, at rest where G has no slope: the shape of the matrix G."""
    ### BEGIN SOLUTION
    left, sigma, right = np.linalg.svd(G, full_matrices=False)
    return -left @ np.diag((sigma > 1e-12 * sigma.max()).astype(float)) @ right
    ### END SOLUTION


# %%
check("03.5", spectral_step)

# %%
G = np.array([[3.0, 4.0, 0.0], [0.0, 0.0, 2.0]])  # singular values 5 and 2
assert same(spectral_step(G), [[-0.6, -0.8, 0], [0, 0, -1]]), again("03.5")

# %% [markdown]
# Its opposite, $\sum_k \xi_k \zeta_k^\top$ over $\sigma_k > 0$, is the **polar factor** of $G$ (the
# literature writes $U V^\top$). A singular value decomposition at every step is expensive on large
# matrices. **Muon** (Jordan et al. 2024) does without. $P P^\top P$ has $\sigma_k^3$ in place of
# $\sigma_k$: matrix products act on the singular values alone. So does any odd polynomial. Muon starts from
# $P = G / \lVert G \rVert_F$, with the Frobenius norm $\lVert G \rVert_F = (\sum_{jl} G_{jl}^2)^{1/2}$, so
# that all singular values are at most 1. Then it applies five times
#
# $$P \leftarrow 3.4445\, P - 4.7750\, (P P^\top) P + 2.0315\, (P P^\top)^2 P .$$
#
# The older **Newton-Schulz** iteration, $P \leftarrow \frac32 P - \frac12 (P P^\top) P$, converges to the
# polar factor, but lifts a small singular value only by half in each step.


# %%
NEWTON_SCHULZ = (1.5, -0.5, 0.0)


def orthogonalise(G, coefficients=(3.4445, -4.7750, 2.0315), steps=5):
    """An approximation of the polar factor of each matrix: the shape of G (..., j, l)."""
    first, third, fifth = coefficients
    P = G / np.linalg.norm(G, axis=(-2, -1), keepdims=True)
    for _ in range(steps):
        square = P @ P.mT
        P = first * P + (third * square + fifth * square @ square) @ P
    return P


def becomes(sigma, coefficients=(3.4445, -4.7750, 2.0315), steps=5):
    """What the same polynomial makes of numbers."""
    for _ in range(steps):
        sigma = sum(c * sigma**power for c, power in zip(coefficients, (1, 3, 5), strict=True))
    return sigma


sigma = np.geomspace(1e-4, 1, 400)
lifted = {"Muon, 5 times": becomes(sigma), "Newton-Schulz, 30 times": becomes(sigma, NEWTON_SCHULZ, 30)}
band = lifted["Muon, 5 times"][sigma > 0.002]
exact = lifted["Newton-Schulz, 30 times"][sigma > 0.002]
print(
    f"singular values above 0.002 end between {band.min():.2f} and {band.max():.2f} with Muon's polynomial,"
)
print(f"and between {exact.min():.5f} and {exact.max():.5f} with Newton-Schulz")
assert (round(band.min(), 2), round(band.max(), 2)) == (0.68, 1.2)
assert 0.99999 < exact.min() <= exact.max() < 1.00001

# %% jupyter={"source_hidden": true} slideshow={"slide_type": "subslide"}
fig, ax = plt.subplots(figsize=(6.4, 3))
for (name, values), line in zip(lifted.items(), ("-", "--"), strict=True):
    ax.semilogx(sigma, values, line, color=COLORS["black"], label=name)
ax.set(xlabel=r"singular value of $G / ||G||_F$", ylabel="afterwards", ylim=(0, 1.3))
ax.legend(loc="lower right")
show(
    fig,
    alt="Singular values before and after two iterations. After five of Muon's polynomial, everything above "
    "0.002 has come into a band around one, with waves between 0.7 and 1.2; after thirty of Newton-Schulz, "
    "everything above 0.0001 is at one.",
)

# %% [markdown]
# **Figure 4.** What two iterations make of a singular value. Muon's coefficients were chosen to lift small
# values fast, at the price of waves: values from 0.002 to 1 land between 0.68 and 1.20. What do they cost?

# %% [markdown] slideshow={"slide_type": "slide"}
# ### Ten classes
#
# The problem of Fan, Schmidt & Thrampoulidis (2025): $C = 10$ classes in $d = 25$ dimensions, each with a
# centre drawn from $N(0, I)$ and 50 points around it, with noise of size 0.1. The scores are $W x$ with $W$
# of shape $(C, d)$, and point $i$ of class $y_i$ is right when its own score is the largest. The margin is
# what you expect:
#
# $$\mu(W) = \frac{1}{\lVert W \rVert} \min_i \min_{c \ne y_i} (e_{y_i} - e_c)^\top W x_i
# = \frac{1}{\lVert W \rVert} \min_{i, c} \langle (e_{y_i} - e_c)\, x_i^\top, W \rangle ,$$
#
# with the unit vectors $e_c$. Each pair of a point and a wrong class is a signed point, of matrix shape. We
# take five such problems and two norms, Frobenius and spectral.

# %%
C, d, per_class, trials = 10, 25, 50, 5
labels = np.repeat(np.arange(C), per_class)
own, other = np.array([(i, c) for i in range(len(labels)) for c in range(C) if c != labels[i]]).T
rivals = torch.tensor(np.eye(C)[labels[own]] - np.eye(C)[other])


def ten_classes(seed):
    """The points (500, d) of a problem, and its comparisons as a max-margin problem."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(C, d))
    x = centres[labels] + 0.1 * rng.normal(size=(C * per_class, d))
    return x, svm.HardMarginProblem(rivals, torch.tensor(x[own]), torch.ones(len(own), dtype=torch.float64))


def matrix_margin(comparisons, norm):
    """The largest margin in a matrix norm: of few comparisons, to which those it gets wrong are added."""
    chosen = (
        comparisons.forward(svm.solve(comparisons).value) < 1.03
    )  # tight, or nearly, in the fast Euclidean norm
    while True:
        few = svm.HardMarginProblem(comparisons.a[chosen], comparisons.b[chosen], comparisons.r[chosen])
        solution = svm.solve(few, norm=norm, tol=1e-5)
        missed = comparisons.forward(solution.value) < 1 - 1e-6
        if not missed.any():
            return float(solution.margin)
        chosen |= missed


inputs, comparisons = zip(*(ten_classes(seed) for seed in range(trials)), strict=True)
inputs = np.array(inputs)  # (trials, 500, d)
largest = np.array([[matrix_margin(one, norm) for norm in ("fro", "spectral")] for one in comparisons])
print("largest margins:", *(f"{fro:.2f} / {spectral:.2f}" for fro, spectral in largest))

# %% [markdown]
# The loss is the mean of the cross-entropies $\log \sum_c e^{(W x_i)_c} - (W x_i)_{y_i}$. Its gradient is a
# sum over the pairs with weights, as before. We divide it by its total weight, so that it keeps its
# direction but never fades. Muon's step is taken not from $G_t$ but from a running mean, $\bar G_t = 0.95\,
# \bar G_{t-1} + 0.05\, G_t$, mixed with the gradient once more: $0.05\, G_t + 0.95\, \bar G_t$ (*Nesterov's
# momentum*).


# %%
def log_loss_gradient(W):
    """Direction of the gradient: weights of the comparisons that add up to one, (trials, C, d)."""
    rows = np.arange(len(labels))
    ahead = inputs @ W.mT
    ahead = ahead - ahead[:, rows, labels][:, :, None]  # of each class over the own one
    most = ahead.max(axis=-1, keepdims=True)
    log_q = ahead - most - np.log(np.exp(ahead - most).sum(axis=-1, keepdims=True))
    log_q[:, rows, labels] = -np.inf
    q = np.exp(log_q - log_q.max(axis=(1, 2), keepdims=True))
    q /= q.sum(axis=(1, 2), keepdims=True)
    q[:, rows, labels] = -q.sum(axis=-1)  # no cancellation: 1 - softmax is never formed
    return q.mT @ inputs


def train_matrices(step, momentum=0.95, eta=0.2, steps=800):
    """W after half and all of the steps, and the last matrix that one was taken from: (trials, C, d) each."""
    W, mean = np.zeros((trials, C, d)), 0.0
    for t in range(steps):
        if t == steps // 2:
            half = W
        G = log_loss_gradient(W)
        mean = momentum * mean + (1 - momentum) * G
        source = (1 - momentum) * G + momentum * mean
        W = W + eta * step(source)
    return half, W, source


def exactly(G):
    return np.array([spectral_step(one) for one in G])


def shares_of(W):
    """The margin of each W as a share of the largest, Frobenius and spectral: (trials, 2)."""
    both = zip(comparisons, W, strict=True)
    least = np.array([float(one.forward(torch.tensor(w)).min()) for one, w in both])
    lengths = np.stack([np.linalg.norm(W, kind, axis=(1, 2)) for kind in ("fro", 2)], axis=1)
    return least[:, None] / lengths / largest


runs = {
    "normalised GD": train_matrices(lambda G: -G / np.linalg.norm(G, axis=(1, 2), keepdims=True), 0.0),
    "spectral descent": train_matrices(exactly, 0.0, eta=0.1),
    "Muon": train_matrices(lambda G: -orthogonalise(G)),
    "Muon, Newton-Schulz": train_matrices(lambda G: -orthogonalise(G, NEWTON_SCHULZ, 30)),
    "Muon, polar factor": train_matrices(exactly),
}
print(f"{'share of the largest margin':28} Frobenius       spectral")
shares = {name: shares_of(W) for name, (_, W, _) in runs.items()}
for name, share in shares.items():
    low, high = share.min(axis=0), share.max(axis=0)
    print(f"{name:28}", *(f"{low[k]:.2f} to {high[k]:.2f}   " for k in (0, 1)))

# %% slideshow={"slide_type": "subslide"}
spectra = {name: np.linalg.svd(W, compute_uv=False) for name, (_, W, _) in runs.items()}
spectra = {name: values / values[:, :1] for name, values in spectra.items()}
ninth = {
    name: values[:, C - 2] for name, values in spectra.items()
}  # rows of W add up to zero: the tenth is 0
for name in ("normalised GD", "Muon", "Muon, Newton-Schulz", "Muon, polar factor"):
    print(f"{name:28} sigma_9 / sigma_1 from {ninth[name].min():.2f} to {ninth[name].max():.2f}")
assert shares["normalised GD"][:, 0].min() > 0.99
assert shares["spectral descent"][:, 1].min() > 0.99, again("03.5")
assert shares["Muon, Newton-Schulz"][:, 1].min() > 0.99
assert shares["Muon, polar factor"][:, 1].min() > 0.99, again("03.5")
assert 0.895 < shares["Muon"][:, 1].min() < shares["Muon"][:, 1].max() < 0.955
assert np.abs(shares["Muon"] - shares_of(runs["Muon"][0])).max() < 0.01
assert (shares["Muon"][:, 0] > shares["Muon"][:, 1] + 0.02).all()
assert (np.abs(ninth["Muon"] - 0.65) < 0.05).all()

# %% [markdown]
# NGD takes the Frobenius margin, spectral descent the spectral one, each to one percent, in all five
# problems. Muon was to approximate spectral descent. It has 90 to 95 percent of the spectral margin, no
# more than after half the steps, and a larger share of the Frobenius margin in each problem. With the exact
# polar factor, or with thirty steps of Newton-Schulz, the same momentum does reach the spectral margin. So
# the momentum is not at fault: the polynomial is. The last table shows where: the spectral margin wants
# singular values that are alike, and Muon's $W$ keeps some at 0.6 to 0.7 of the largest. Can you say which?

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 03.6: The spectrum that Muon leaves
#
# ★★★ · 8 minutes
#
# After many steps $\bar G_t$ keeps its direction: each step is taken from nearly the same matrix, up to its
# length. Predict the singular values of $W$ after very many such steps, divided by the largest of them, in
# decreasing order. You are given the singular values of $\bar G_t$.
#
# <details><summary>Hint</summary>
#
# $W$ is then nearly a sum of equal steps. What are the singular values of one step? Mind that Muon divides
# by $\lVert \bar G_t \rVert_F$ first (the root of the sum of squares of singular values), and that its
# polynomial does not keep the order. `becomes` applies it five times to numbers.
# </details>


# %%
@exercise("03.6")
def muon_spectrum(sigma):
    """Singular values of W over the largest, decreasing: shape (d,), for those of the mean gradient (d,)."""
    ### BEGIN SOLUTION
    lifted = sigma / np.linalg.norm(sigma)
    for _ in range(5):
        lifted = 3.4445 * lifted - 4.7750 * lifted**3 + 2.0315 * lifted**5
    return np.sort(lifted)[::-1] / lifted.max()
    ### END SOLUTION


# %%
check("03.6", muon_spectrum)

# %%
sources = np.linalg.svd(runs["Muon"][2], compute_uv=False)
predicted = np.array([muon_spectrum(sigma) for sigma in sources])
error = np.abs(predicted - spectra["Muon"])[:, : C - 1].max()
print(f"largest error of the prediction, five problems with nine singular values each: {error:.3f}")
assert error < 0.05, again("03.6")
assert np.abs(1 - spectra["Muon"][:, : C - 1]).max() > 0.3  # the rival: all alike

# %% jupyter={"source_hidden": true} slideshow={"slide_type": "subslide"}
fig, ax = plt.subplots(figsize=(7.2, 3.6))
place = np.arange(1, C)
for name, marker, color in (
    ("normalised GD", "o", "green"),
    ("Muon", "s", "black"),
    ("Muon, Newton-Schulz", "^", "orange"),
    ("Muon, polar factor", "D", "blue"),
):
    ax.plot(place, spectra[name][0, : C - 1], marker, color=COLORS[color], markersize=6, label=name)
ax.plot(place, predicted[0, : C - 1], color=COLORS["black"], linewidth=1.4, label="predicted for Muon")
ax.set(xlabel="$k$", ylabel=r"$\sigma_k(W) / \sigma_1(W)$", ylim=(0, 1.05), xticks=place)
ax.legend(loc="lower left")
show(
    fig,
    alt="Nine singular values of W relative to the largest. The polar factor and Newton-Schulz keep nearly "
    "all at one; normalised GD lets them fall below a half; Muon is between, falling to 0.6 along the "
    "predicted line.",
)

# %% [markdown]
# **Figure 5.** Singular values of $W$ in the first of the five problems, relative to the largest, after 800
# steps.

# %% [markdown]
# The prediction is right to a few hundredths: the waves of Figure 4, read at the singular values of the
# mean gradient, are the singular values of $W$. They cannot leave the band, so the smallest is at least
# $0.68 / 1.20 = 0.57$ of the largest, and more steps change nothing.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 3.7 Where it breaks
#
# **(a) Adam's small print.** Adam divides by $\sqrt{\overline{g^2}} + \varepsilon$. Once the gradient is
# below $\varepsilon$, the denominator is a constant, and what remains is gradient descent with momentum,
# whose limit is that of $\ell_2$ (Wang et al. 2022). And Adam remembers. With torch's default $\beta_2 =
# 0.999$ the squares are remembered for some 1,000 steps, in which full steps would shrink the gradient by a
# factor of more than $e^{12}$: old, larger gradients fill the mean.

# %%
long = 40_000
small_print = {
    r"$\varepsilon = 0$, $\beta_2 = 0.95$": adam(A, np.full(long, 0.005)),
    r"$\varepsilon = 10^{-8}$": adam(A, np.full(long, 0.005), eps=1e-8),
    r"$\beta_2 = 0.999$": adam(A, np.full(long, 0.005), beta2=0.999),
}
marks = [2000, 10_000, 20_000, 40_000]
for (name, path), expected in zip(
    small_print.items(),
    ([44.1, 42.95, 42.7, 42.6], [40.4, 37.5, 37.0, 36.5], [36.05, 32.1, 31.5, 32.35]),
    strict=True,
):
    ends = degrees(path[np.array(marks) - 1])
    plain = name.replace("$", "").replace(r"\varepsilon", "epsilon").replace(r"\beta_2", "beta2")
    print(f"{plain:28}", *(f"{end:5.1f}" for end in ends))
    assert np.allclose(ends, expected, atol=0.06), name
assert 1000 * 0.005 * best[np.inf][1] > 12
gradients = np.exp(-(A @ small_print[r"$\varepsilon = 10^{-8}$"][:3000].T)).T @ A / len(A)
first = 1 + int(np.argmax(np.abs(gradients).max(axis=1) < 1e-8))
print(f"with epsilon = 1e-8, the gradient falls below it at step {first}")
assert 1650 < first < 1750

# %% [markdown]
# Both turn away from $\ell_\infty$. With $\varepsilon = 10^{-8}$, torch's default, Adam is well behaved
# until the gradient comes down to $\varepsilon$; then it turns, fast at first, ever more slowly later, and
# has most of the way to the 26.6 degrees of $\ell_2$ before it after 60,000 steps.
#
# With a long memory it turns *twice*. Full steps would leave the memory behind, so $\overline{g^2}$ is at
# first what old, large gradients left in it: a fixed divisor for each coordinate, gradient descent again.
# But that divisor shrinks like $\beta_2^t$, and the steps grow until the gradient keeps pace with its root.
# From then on $g_t^2 / \beta_2^t$ is about constant: each new gradient adds as much to the mean as any
# before it, and the old ones are outvoted, slowly. The angle of 31.5 degrees at 20,000 steps looks like a
# limit and is a turning point.

# %%
path = small_print[r"$\beta_2 = 0.999$"]
worst_point = (path[[29_999, 39_999]] @ A.T).min(axis=1)
pace = (worst_point[1] - worst_point[0]) / 10_000
print(f"the gradient shrinks by e^-{pace:.6f} a step; the root of beta_2 is e^-{-np.log(0.999) / 2:.6f}")
shorter = adam(A, np.full(long, 0.0005), beta2=0.999)
lowest = [degrees(run[5000:]).min() for run in (path, shorter)]
print(f"turning points: {lowest[0]:.1f} degrees; with eta = 0.0005, {lowest[1]:.1f},", end=" ")
print(f"and {degrees(shorter[-1]):.1f} at step 40,000")
assert np.isclose(pace, -np.log(0.999) / 2, rtol=0.02)
assert np.allclose(lowest, [31.5, 35.7], atol=0.1)
assert abs(degrees(shorter[-1]) - 39.0) < 0.1

# %% [markdown]
# *Which norm Adam picks depends on how long you train.*
#
# **(b) Steps that are too long.** How long is too long? The theorem's answer is exercise 03.3: $\eta =
# \mathrm{share} \cdot \hat\mu / a_{\max}^2$ cannot fail. That is cautious. Here are sign descent's gaps after
# 5,000 steps for longer and longer ones, on our twelve points and on ten points in five dimensions.

# %%
rng = np.random.default_rng(1)
axis = rng.normal(size=5)
ten = rng.normal(size=(10, 5))
ten = ten * np.sign(ten @ axis)[:, None] + 0.3 * axis / np.linalg.norm(axis)
trial_steps = [0.1, 0.3, 0.4, 1.0, 20.0]
gaps, moved = {}, {}
for name, points_used in (("twelve points", A), ("ten points", ten)):
    mu = largest_margin(points_used, np.inf)[1]
    a_max = np.abs(points_used).sum(axis=1).max()
    print(f"{name}: safe to 10 percent {safe_steps(mu, a_max, len(points_used), 0.1)[0]:.4f};", end=" ")
    for eta in trial_steps:
        path = descend(points_used, steepest(2), np.full(5000, eta))
        q = np.array([weights(points_used @ w) for w in path[-500:]])
        gaps[name, eta] = 1 - margins(path, points_used, np.inf) / mu
        moved[name, eta] = np.abs(np.diff(q, axis=0)).sum(axis=1).mean() / 2
    print("gaps", *(f"{gaps[name, eta][-1]:.0e}" for eta in trial_steps))
path = descend(ten, steepest(2), np.arange(1, 5001) ** -0.5)
gaps["ten points", "1/sqrt(t)"] = 1 - margins(path, ten, np.inf) / largest_margin(ten, np.inf)[1]
print(f"ten points, steps 1/sqrt(t): {gaps['ten points', '1/sqrt(t)'][-1]:.3f}")
share = [moved["ten points", eta] for eta in (0.3, 0.4, 1.0)]
print("weight that a step of 0.3, 0.4, 1 moves, ten points:", *(f"{value:.2f}" for value in share))
assert all(gaps["twelve points", eta][-1] < 1e-3 for eta in trial_steps), again("03.1")
at = [gaps["ten points", eta][-1] for eta in trial_steps]
assert max(at[:2]) < 2e-3 < 0.02 < min(at[2:]), again("03.1")
assert np.isclose(at[3], 0.288, atol=1e-3), again("03.1")
assert 150 < 0.3 / safe_steps(mu, a_max, 10, 0.1)[0] < 180, again("03.3")
assert gaps["ten points", "1/sqrt(t)"][-1] < 0.01, again("03.1")

# %% jupyter={"source_hidden": true} slideshow={"slide_type": "subslide"}
fig, (left, right) = plt.subplots(1, 2, figsize=(8.8, 3.4))
at = np.unique(np.geomspace(1, long, 90).astype(int))
for (name, path), line in zip(small_print.items(), ("-", "--", ":"), strict=True):
    left.semilogx(at, degrees(path[at - 1]), line, color=COLORS["black"], label=name)
for rho in (np.inf, 2.0):
    left.axhline(degrees(best[rho][0]), color=NORM_COLORS[rho], linewidth=1.3)
    left.text(1, degrees(best[rho][0]) - 0.3, NAMES[rho], va="top")
left.set(xlabel="step $t$", ylabel="direction of $w_t$ (degrees)", title="(a) Adam", ylim=(24.5, 46))
left.legend(loc="lower left", bbox_to_anchor=(0.02, 0.14))
times = np.arange(1, 5001)
for eta, color, line in ((1.0, "vermillion", "-"), (0.3, "blue", "-"), ("1/sqrt(t)", "black", "--")):
    label = r"$1/\sqrt{t}$" if eta == "1/sqrt(t)" else f"{eta:g}"
    ends, highest = worst(gaps["ten points", eta], parts=4)
    right.loglog(ends, highest, line, color=COLORS[color], label=label)
right.legend(loc="lower left", title="steps")
right.set(xlabel="step $t$", ylabel=r"gap $1 - \mu_\infty(w_t)/\hat\mu_\infty$", title="(b) sign descent")
show(
    fig,
    alt="Left: the direction of Adam against steps, to 40,000. Only with epsilon zero and short memory does "
    "it end at the line of l infinity. With epsilon it turns down near step 1,700, to 36 degrees; "
    "with a long memory it falls to 31.5 near step 20,000 and rises again. Right: the gap of sign descent on "
    "ten points stops falling at 0.3 with steps of 1, and falls on with steps of 0.3 and shrinking ones.",
)

# %% [markdown]
# **Figure 6.** (a) Where Adam goes; $\varepsilon = 0$ and $\beta_2 = 0.95$ unless the label says otherwise.
# (In the first thousand steps $w$ is so short that all points pull, not only the worst.) (b) Worst gaps of
# sign descent in quarters of decades, on ten points in five dimensions.

# %% [markdown] slideshow={"slide_type": "notes"}
# On the twelve points no step is too long, not even 20: the second coordinate alone still changes sign, and
# a single number that is pushed back whenever it is off stays near its place whatever the step. On the ten
# points three coordinates do, and every step pushes all of them at once. Up to 0.3, more than a hundred and
# fifty times the safe step, all is well; at 0.4 and 1 they drive one another. The sign to watch for is the
# weight $q$ that a step moves from one point to another: at 0.3 less than a tenth, at 1 half of all. Then
# the step was chosen by weights that are no longer true at its end. Shrinking steps always get through.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Questions
#
# <details><summary>1. Where does the proof use that steps and margin are measured in the same norm?</summary>
#
# Twice. The slope of the loss along the steepest step is the dual norm $\lVert \sum_i q_i a_i \rVert_*$,
# which the same norm's $\hat\mu$ bounds from below; and $\lVert w_t \rVert \le \sum_\tau \eta_\tau$ needs
# steps of length one in the norm that divides the margin.
# </details>
#
# <details><summary>2. You rotate all points by 30 degrees. Whose classifier turns along?</summary>
#
# Circles do not mind: NGD's classifier turns by 30 degrees. Diamonds and squares do: coordinate descent,
# sign descent, Adam and mirror descent with $\rho \ne 2$ depend on the axes. Spectral descent on a matrix
# does not: rotations leave singular values alone.
# </details>
#
# <details><summary>3. No direction separates the points. What do normalised optimisers do?</summary>
#
# Steps of fixed length never stop. If the loss has a minimiser, they wander around it at a distance of
# about $\eta$. It may have none, as $e^{-w_1} + e^{w_1} + e^{-w_2}$: then $w_1$ wanders while $w_2$ grows
# for ever. No margin is positive, and the theorem says nothing.
# </details>
#
# <details><summary>4. Would ten steps of Muon's polynomial be better than five?</summary>
#
# No. Its waves do not die out: the coefficients were chosen so that the slope at zero is large, and then
# one is not a fixed point that attracts ($3.4445 - 4.7750 + 2.0315 = 0.70$). More steps only lift still
# smaller values.
# </details>

# %%
progress("03")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - Steepest descent maximises the margin in its own norm, because the slope of the loss is a bound on that
#   margin. On our points the gap fell as one over the norm.
# - Steps of $\mathrm{share} \cdot \hat\mu / a_{\max}^2$ are safe; longer ones can get stuck, where several
#   coordinates drive one another.
# - Adam goes with $\ell_\infty$ while its $\varepsilon$ and its memory allow it.
# - Muon's polynomial leaves its waves in the singular values of $W$: 90 to 95 percent of the spectral
#   margin. With a polynomial that converges, nothing is lost.
#
# | optimiser | norm | the best $w$ is |
# |:---|:---|:---|
# | coordinate descent | $\ell_1$ | sparse |
# | mirror descent, power $\rho$ | $\ell_\rho$ | in between |
# | normalised GD, GD | $\ell_2$, Frobenius | the SVM of lesson 02 |
# | sign descent, Adam ($\varepsilon = 0$) | $\ell_\infty$ | of entries of like size |
# | spectral descent, Muon with the polar factor | spectral | of singular values of like size |
# | Muon with its polynomial | none of these (measured) | within its polynomial's band |

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Further reading
#
# - Gunasekar, Lee, Soudry & Srebro, *Characterizing implicit bias in terms of optimization geometry* (ICML
#   2018, arXiv:1802.08246): steepest and mirror descent, and where the simple picture ends.
# - Telgarsky, *Margins, shrinkage, and boosting* (ICML 2013, arXiv:1303.4172): the proof of section 3.3 for
#   $\ell_1$, with several kinds of steps.
# - Sun, Ahn, Thrampoulidis & Azizan, *Mirror descent maximizes generalized margin and can be implemented
#   efficiently* (NeurIPS 2022, arXiv:2205.12808): section 3.4.
# - Zhang, Zou & Cao, *The implicit bias of Adam on separable data* (NeurIPS 2024, arXiv:2406.10650), and
#   Wang et al., *Does momentum change the implicit regularization on separable data?* (NeurIPS 2022,
#   arXiv:2110.03891): Adam without and with $\varepsilon$.
# - Fan, Schmidt & Thrampoulidis, *Implicit bias of spectral descent and Muon on multiclass separable data*
#   (2025, arXiv:2502.04664): section 3.6.
# - Jordan et al., *Muon: an optimizer for hidden layers in neural networks* (2024, kellerjordan.github.io):
#   the polynomial and why these coefficients.
#
# **New in the library:** [`optim.SignDescent`](../mini_attn/optim.py),
# [`optim.SpectralDescent`](../mini_attn/optim.py), [`optim.MirrorDescent`](../mini_attn/optim.py).
#
# **Next:** [lesson 04](04_matrix_factorization.ipynb) leaves the optimiser alone and factors the weights
# instead. That brings in a norm too: the nuclear one, the dual of the spectral norm you have just met. In
# lesson 15, mirror descent returns inside attention.
