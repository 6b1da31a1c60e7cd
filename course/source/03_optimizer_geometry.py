# %% [markdown] slideshow={"slide_type": "slide"}
# # 03 · The optimiser picks the norm
#
# Gradient descent ends at the direction of largest margin, and a margin is a distance
# ([lesson 01](01_logistic_regression_bias.ipynb)). But who said that distances are Euclidean? The loss did
# not: it knows nothing but the numbers $u_i = y_i\, w \cdot x_i$. The data did not either.
#
# **Train the same model on the same points with another optimiser. Where does it go now?**
#
# Whoever takes the steepest step *in some norm*, in steps that shrink, maximises the margin *in that norm*:
# coordinate, sign and spectral descent do, and gradient descent is the Euclidean case. Mirror descent reaches
# the same margins by another way. Adam, with short steps and $\beta_1 \le \beta_2$, ends with sign descent,
# sooner or later, unless its $\varepsilon$ gets in between. And Muon, built to be spectral descent, gives a
# part of the margin away that we can predict.

# %% [markdown] slideshow={"slide_type": "skip"}
# **You will be able to**
#
# - derive the steepest step in any norm, and name the optimiser that takes it;
# - prove that its margin tends to the largest margin in that norm, and say which steps are safe;
# - certify a margin in any norm with the weights of lesson 02;
# - tell for which norms a given direction is best, which points pull at it, and how far from it a run is;
# - derive Adam's real step, and say why its memory only delays its limit while its $\varepsilon$ changes it;
# - predict the margin that Muon's shortcut costs.
#
# **You need** lessons 01 and 02, linear algebra with the singular value decomposition, and NumPy. About
# 85 minutes, six exercises.

# %%
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
# library solves this for any $\rho$ (it calls it `p`); its problem has rows $a_i$, a second factor where
# unknowns are matrices (here `None`), and right-hand sides, here 1. The answer carries a certificate: no $w$
# can be shorter by more than the share `gap`.


# %%
def largest_margin(A, rho):
    """The shortest w, in the l_rho norm, with all a_i.w >= 1, and its margin."""
    ones = torch.ones(len(A), dtype=torch.float64)
    solution = svm.solve(svm.HardMarginProblem(torch.tensor(A), None, ones), norm=rho, tol=1e-9)
    assert solution.gap <= 1e-9
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
# 1$. Why is the line of $\ell_1$ vertical? For $w = (1, 0)$ one point is worst, $(1.7, 1.0)$, and its first
# entry is the larger. Length spent on the second axis would lift that point by 1.0 instead of 1.7.
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
# point along $-g$. For $\ell_\rho$ the answer is *Hölder's inequality*,
#
# $$g \cdot \delta \ge -\lVert g \rVert_{\rho^*} \lVert \delta \rVert_\rho , \qquad
# \frac1\rho + \frac1{\rho^*} = 1 ,$$
#
# an equality where the $|\delta_j|^\rho$ are proportional to the $|g_j|^{\rho^*}$ and $\delta$ goes down in
# every coordinate. So the dual of $\ell_\rho$ is $\ell_{\rho^*}$: $\ell_2$ is its own dual, and $\ell_1$ and
# $\ell_\infty$ are each other's.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 03.1: The steepest step
#
# ★★☆ · 5 minutes
#
# Return the $\delta$ with $\lVert \delta \rVert_\rho = 1$ for which the inequality is an equality, for any
# $\rho$ from 1 on, `np.inf` included. (No two entries of $g$ have the same absolute value, and none is zero.)
#
# <details><summary>Hint</summary>
#
# To which power of $|g_j|$ is $|\delta_j|$ proportional? $\rho^*/\rho = \rho^* - 1 = 1/(\rho - 1)$. Which
# entry wins when that power becomes infinite, and what is left of the differences when it becomes zero?
# </details>


# %%
@exercise("03.1")
def steepest_step(g, rho):
    """The steepest step of length one in l_rho: shape (d,), for g (d,) and 1 <= rho <= inf."""
    ### BEGIN SOLUTION
    if rho == 1:
        return -np.sign(g) * (np.abs(g) == np.abs(g).max())
    step = -np.sign(g) * (np.abs(g) / np.abs(g).max()) ** (1 / (rho - 1))  # at most 1: nothing overflows
    return step / np.linalg.norm(step, rho)
    ### END SOLUTION


# %%
check("03.1", steepest_step)

# %%
g = np.array([-1.5, -0.7])
steps = np.array([steepest_step(g, rho) for rho in (1.0, 2.0, np.inf)])
assert same(steps, [[1, 0], -g / np.linalg.norm(g), [1, 1]]), again("03.1")

# %% jupyter={"source_hidden": true} slideshow={"slide_type": "subslide"}
fig, axes = plt.subplots(1, 3, figsize=(8.4, 3.0), sharey=True)
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
# the unit ball; here $g = (-1.5, -0.7)$, and lower is to the upper right. (Thin lines: $g \cdot \delta$ is
# $0.5$, $0$ and $-0.5$ times $\lVert g \rVert_*$.)

# %% [markdown] slideshow={"slide_type": "subslide"}
# The three steps belong to three old friends. Along one coordinate at a time: **coordinate descent**. Along
# $-g$: **normalised gradient descent** (NGD) from lesson 01. By the same length in every coordinate: **sign
# descent**. We run all three, with the exponential loss
#
# $$L(w) = \frac1n \sum_{i=1}^n e^{-a_i \cdot w} , \qquad
# -\frac{\nabla L(w)}{L(w)} = \sum_i q_i\, a_i , \qquad
# q_i = \frac{e^{-a_i \cdot w}}{n\, L(w)} .$$
#
# (Where all points are right by far, the logistic loss is nearly the same: lesson 01.) Normalised
# steps only need the direction of the gradient, so we divide by $L$ and nothing underflows.


# %%
def weights(u):
    """The q_i: shares of the points in the gradient, for u_i = a_i.w: (..., n)."""
    q = np.exp(u.min(axis=-1, keepdims=True) - u)
    return q / q.sum(axis=-1, keepdims=True)


def descend(A, move, etas):
    """All iterates (steps, d) of w <- move(w, gradient of log L, eta), from w = 0."""
    w, path = np.zeros(A.shape[1]), []
    for eta in etas:
        w = move(w, -weights(A @ w) @ A, eta)
        path.append(w)
    return np.array(path)


def steepest(rho):
    """Steepest descent in l_rho."""
    return lambda w, g, eta: w + eta * steepest_step(g, rho)


constant = {rho: descend(A, steepest(rho), np.ones(10_000)) for rho in (1.0, 2.0, np.inf)}
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
#
# Any weights will do, good ones prove more. Descent supplies them: the weights it gave the points. Lesson 02
# used those of the last step. Normalised steps keep changing them, and each step's $\sum_i q_i a_i$ alone
# may be long. Their *average* is short: parts that change sign from step to step cancel. So we add the
# weights up.


# %%
def certify(w, lam, A, rho):
    """(mu_rho(w), B(lam)): a margin, and a bound on every margin in l_rho."""
    dual = np.inf if rho == 1 else 1.0 if rho == np.inf else rho / (rho - 1)
    return (A @ w).min() / np.linalg.norm(w, rho), np.linalg.norm(lam @ A, dual) / lam.sum()


finer = descend(A, steepest(np.inf), np.full(10_000, 0.1))
excess = []
for rho, path in (*constant.items(), (np.inf, finer)):
    total = weights(np.vstack([np.zeros(2), path[:-1]]) @ A.T).sum(axis=0)
    lower, upper = certify(path[-1], total, A, rho)
    excess.append(upper / best[rho][1] - 1)
    print(f"rho = {rho:3}:  {lower:.4f} <= largest margin {best[rho][1]:.4f} <= {upper:.4f}")
    assert lower <= best[rho][1] * (1 + 1e-6), again("03.1")
    assert best[rho][1] <= upper * (1 + 1e-6), again("03.1")
    assert upper / lower - 1 < 0.012, again("03.1")
assert max(excess[:2]) < 0.0002, again("03.1")
assert excess[2] > 0.01 > 5 * excess[3], again("03.1")
alone = certify(np.array([1.0, 0.0]), np.eye(12)[2], A, 1.0)  # (1.7, 1.0) for the diamond,
pair = certify(np.array([12.0, 11.0]), np.array([2.0, 1.0]), A[:2], np.inf)  # two points for the square
assert np.allclose([alone, pair], [[best[rho][1]] * 2 for rho in (1.0, np.inf)], rtol=1e-5)

# %% [markdown]
# The third bound stays one percent too large. Sign descent knows only the *sign* of $\sum_i q_i a_{i2}$, so
# nothing makes these sums cancel. With steps of 0.1 (last line) the weights change less from step to step,
# and most of the excess is gone.
#
# When do both bounds meet? In the first inequality, if only worst points of $w$ have weight. In the second,
# if Hölder's is an equality. For $1 < \rho < \infty$ it is if $\sum_i \lambda_i a_i$ has entries
# proportional to $\mathrm{sign}(w_j)\, |w_j|^{\rho-1}$. So $w$ is best in $\ell_\rho$ if *that vector is a
# sum of its worst points, with weights that are not negative*; and only then, for these are the KKT
# conditions of lesson 02 in another norm.
#
# At the corners there is more freedom. For $\rho = 1$ an entry with $w_j = 0$ may be anything up to the
# others in size: the point $(1.7, 1.0)$ alone certifies $(1, 0)$. For $\rho = \infty$ the entries where
# $|w_j|$ is largest need only the right sign, and all others are zero: $2\,(2.9, -0.4) + (1.8, 0.8) = (7.6,
# 0)$ certifies $(12, 11)$. The end of the cell checks both.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 03.2: Best for which norms?
#
# ★★★ · 8 minutes
#
# In the plane, $w$ with $w_1 > w_2 > 0$ has two worst points, $a$ and $b$, with $a_1, b_1 > 0$. Neither is a
# multiple of the other, and $w$ is best for some $\rho$. Return the lowest and the highest $\rho \ge 1$ for
# which it is; the highest may be `np.inf`. (As no entry of $w$ is zero, the condition above is the right one
# at $\rho = 1$ too.)
#
# <details><summary>Hint</summary>
#
# When is a vector of the plane a sum of two others with weights that are not negative? Compare slopes, second
# entry over first. The slope $(w_2/w_1)^{\rho-1}$ falls from 1 to 0 as $\rho$ grows.
# </details>


# %%
@exercise("03.2")
def best_orders(w, a, b):
    """(lowest, highest) rho for which w, with worst points a and b, is best in l_rho: all of shape (2,)."""
    ### BEGIN SOLUTION
    low, high = sorted([a[1] / a[0], b[1] / b[0]])
    slope = np.log(w[1] / w[0])
    lowest = 1 + np.log(high) / slope if high < 1 else 1.0
    return lowest, 1 + np.log(low) / slope if low > 0 else np.inf
    ### END SOLUTION


# %%
check("03.2", best_orders)

# %% [markdown]
# On our points, two corners of the region in Figure 1 are best for more than one norm:

# %%
for corner, pair in (([2.0, 1.0], A[[1, 2]]), ([12.0, 11.0], A[[0, 1]])):
    lowest, highest = best_orders(np.array(corner), *pair)
    print(f"direction ({corner[0]:g}, {corner[1]:g}) is best from rho = {lowest:.3f} to {highest:.3f}")
    for rho, inside in ((lowest, -0.02), (lowest, 0.02), (highest, -0.02), (highest, 0.02)):
        if rho < np.inf:
            found = largest_margin(A, rho + inside)[0]
            there = abs(found[1] / found[0] - corner[1] / corner[0]) < 1e-5
            assert there == ((inside > 0) == (rho == lowest)), again("03.2")
assert np.isclose(lowest, 10.32, atol=0.01), again("03.2")

# %% [markdown]
# The circle could be a little more of a diamond or of a square and would still touch at $(2, 1)$. And the
# square's corner is reached early: no $\rho$ above 10.3 differs from $\infty$.

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
    path = descend(A, steepest(rho), np.full(int(np.ceil(t)), eta))
    reached = certify(path[-1], np.ones(12), A, rho)[0] / best[rho][1]
    print(f"rho = {rho:3}: eta = {eta:.4f}, {t:5.0f} steps: promised 0.900, reached {reached:.3f}")
    assert 0.9 <= reached <= 1 + 1e-9, again("03.1 or 03.3")
    assert a_max**2 / 2 > 2 * best[rho][1], again("03.3")  # what the theorem says of steps of 1
assert np.allclose(ten_percent[np.inf], [0.0073, 2686], rtol=0.02), again("03.3")

# %% [markdown]
# The promise is kept with much to spare: it holds for any points of that size. Of our steps of 1 in section
# 3.2 the theorem says nothing, since $\frac12 a_{\max}^2 > \hat\mu$ in all three norms. Section 3.7 asks how
# long steps may really be.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 3.4 Between the corners: mirror descent *(optional)*
#
# For every other $\rho$ steepest steps do the same; the theorem does not mind. Here is another way to
# the same margins, which returns with attention in lesson 15. **Mirror descent** keeps a function $\psi$ and
# takes its step not in $w$ but in $S = \nabla \psi(w)$:
#
# $$\nabla \psi(w_{t+1}) = \nabla \psi(w_t) - \eta\, \frac{g_t}{\lVert g_t \rVert_{\rho^*}} , \qquad
# \psi(w) = \frac1\rho \sum_j |w_j|^\rho , \qquad \nabla \psi(w)_j = \mathrm{sign}(w_j)\, |w_j|^{\rho-1} .$$
#
# This is the normalised form; for $\rho = 2$ it is NGD. For other $\rho$ its single steps are not steepest.
# Why should it find the $\ell_\rho$ margin? Gradients add up in $S$, and each is a sum of signed points: $S_t
# = \sum_i \lambda_i a_i$ with $\lambda_i \ge 0$. If late only the worst points still get weight, then
# $\nabla\psi(w)$ is a sum of worst points: exactly what exercise 03.2 asked of the best $w$. (A heuristic:
# that the others fade is what a proof has to show.)
#
# > **Theorem** (Sun et al. 2022; stated informally). *On separable data, mirror descent with this $\psi$,
# > $1 < \rho < \infty$, and small enough steps $\eta\, g_t$ (not normalised) converges in direction to the
# > max-margin direction in $\ell_\rho$.*


# %%
def mirror_step(w, g, eta, rho):
    """The weights after one step of length eta in S = grad psi(w): shape (d,), for 1 < rho < inf."""
    S = np.sign(w) * np.abs(w) ** (rho - 1) - eta * g / np.linalg.norm(g, rho / (rho - 1))
    return np.sign(S) * np.abs(S) ** (1 / (rho - 1))


def mirror_descent(rho, steps):
    return descend(A, lambda w, g, eta: mirror_step(w, g, eta, rho), np.ones(steps))


mirror = {rho: mirror_descent(rho, 10_000) for rho in (1.5, 3.0)}
for rho, path in mirror.items():
    size, away = np.linalg.norm(path[-1], rho), abs(degrees(path[-1]) - degrees(best[rho][0]))
    print(f"rho = {rho}: {away:.4f} degrees away at length {size:.0e}")
    assert certify(path[-1], np.ones(12), A, rho)[0] > 0.999 * best[rho][1]
    assert np.isclose(size, 10_000 ** (1 / (rho - 1)), rtol=0.01)

model, points = models.LinearClassifier(d=2), data.PointData(torch.tensor(X), torch.tensor(y))
optimizer = optim.MirrorDescent(model.parameters(), lr=1.0, p=1.5)
train.fit(model, points, optimizer, 40, loss="exponential", progress=False)
assert same(model.w.detach(), mirror[1.5][39])

# %% [markdown]
# Our steps are neither small nor without normalisation, and the limits are reached all the same. $\lVert S
# \rVert_{\rho^*}$ grows by about $\eta$ a step, and it is $\lVert w \rVert_\rho^{\rho-1}$. So $w$ grows as
# $(\eta t)^{1/(\rho-1)}$: as $t^2$ for $\rho = 1.5$, but as $\sqrt t$ for $\rho = 3$, and that run is still
# half a degree away. (The library's `optim.MirrorDescent` walks the same path.)

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 03.4: Who pulls, and what is owed?
#
# ★★★ · 10 minutes
#
# Steepest descent in $\ell_\rho$, $1 < \rho < \infty$, goes along its best direction $\hat w$, late and with
# short steps. The worst points $a_1, \dots, a_k$ of $\hat w$ are linearly independent, and all of them pull.
# Predict from $\hat w$:
#
# - the shares $\lambda_i$ at which their weights $q_i$ settle;
# - the **debt** at which $(\hat\mu - \mu(w_t))\, \lVert w_t \rVert$ settles: how much more the worst point
#   could have, had $w_t$ the direction $\hat w$.
#
# (`np.linalg.lstsq(B, c, rcond=None)[0]` solves $B x = c$ also when there are more equations than unknowns.)
#
# <details><summary>Hint 1</summary>
#
# The step points along $\hat w$ and is steepest for $\sum_i q_i a_i$. Which vector, up to a factor, is that?
# </details>
# <details><summary>Hint 2</summary>
#
# The $q_i$ are $e^{-a_i \cdot w}$ up to a factor: how far above the least is each $a_i \cdot w$? And their
# average with the weights $\lambda_i$ has nothing to gain, to first order, from turning $w$ into $\hat w$:
# it is $\hat\mu \lVert w \rVert$.
# </details>


# %%
@exercise("03.4")
def pulls(w_hat, A, rho):
    """(shares (k,), debt) of l_rho's w_hat (d,), of any length, with worst points A (k, d)."""
    ### BEGIN SOLUTION
    lam = np.linalg.lstsq(A.T, np.sign(w_hat) * np.abs(w_hat) ** (rho - 1), rcond=None)[0]
    lam = lam / lam.sum()
    return lam, (lam * np.log(lam.max() / lam)).sum()
    ### END SOLUTION


# %%
check("03.4", pulls)

# %% [markdown]
# Mirror descent pulls with the same shares, summed over its steps. From exercise 03.2 we know norms that
# share the direction $(2, 1)$:

# %%
for rho in (1.8, 2.0, 2.1):
    path = constant[2.0] if rho == 2 else mirror_descent(rho, 10_000)
    q = weights(np.vstack([np.zeros(2), path[:-1]]) @ A.T)
    lam = (q / np.linalg.norm(q @ A, rho / (rho - 1), axis=1)[:, None]).sum(axis=0)  # S = sum lam_i a_i
    measured, predicted = lam[[1, 2]] / lam.sum(), pulls(np.array([2.0, 1.0]), A[[1, 2]], rho)[0]
    print(f"rho = {rho:4}: {degrees(path[-1]):.2f} degrees; (1.8, 0.8) pulls {measured[0]:.3f}", end=", ")
    print(f"predicted {predicted[0]:.3f}")
    assert abs(degrees(path[-1]) - degrees(best[2.0][0])) < 0.15
    assert np.abs(measured - predicted).max() < 0.025, again("03.4")

# %% [markdown]
# One direction, three optimisers, and weights that wander from one point to the other. (What is missing is
# time: ten times as many steps at $\rho = 2.1$ bring 0.823 to 0.837.) A classifier's limit does not tell who
# made it.
#
# Now the debt, by steepest descent, also on other points: ten in five dimensions, from three seeds.


# %%
def ten_points(seed):
    """Ten signed points in five dimensions, separated by a random direction."""
    rng = np.random.default_rng(seed)
    axis = rng.normal(size=5)
    drawn = rng.normal(size=(10, 5))
    return drawn * np.sign(drawn @ axis)[:, None] + 0.3 * axis / np.linalg.norm(axis)


def debts(path, A, rho, mu):
    """(mu - mu_rho(w)) times the norm of w, for each row w of path."""
    return mu * np.linalg.norm(path, rho, axis=1) - (path @ A.T).min(axis=1)


ones, shrinking = np.ones(3000), 1 / np.sqrt(np.arange(1, 3001))
cases = [("twelve", A, rho, ones) for rho in (1.5, 1.9)]
cases += [("seed 0", ten_points(0), 1.5, shrinking)]
cases += [(f"seed {k}", ten_points(k), k + 1.0, 0.1 * ones) for k in (1, 2)]
print("points  rho  worst  debt predicted, after 300 and 3,000 steps, gap then")
owed = []
for name, points, rho, etas in cases:
    w_hat, mu = largest_margin(points, rho)
    worst = points[points @ w_hat < 1 + 1e-5]
    debt = pulls(w_hat, worst, rho)[1]
    path = descend(points, steepest(rho), etas)
    early, late = debts(path[[299, 2999]], points, rho, mu)
    gap = late / mu / np.linalg.norm(path[-1], rho)
    owed.append([debt, early, late])
    print(f"{name:8}{rho:3} {len(worst):5} {debt:12.3f} {early:14.3f} {late:8.3f} {gap:14.0e}")
debt, early, late = np.array(owed).T
assert np.abs(late - debt).max() < 0.02, again("03.4")
assert debt[0] == 0 < 9 * late[0] < early[0], again("03.4")
assert debt[1:].min() > 0.1, again("03.4")
corner = debts(constant[1.0][[99, -1]], A, 1.0, best[1.0][1])
print("rho = 1: debt", *(f"{value:.3f}" for value in corner))
assert np.allclose(corner, 1.7 - 1.0, atol=1e-4)

# %% [markdown]
# Two lines explain it: since $q_i \propto e^{-a_i \cdot w}$, worst points end
# $\log(\lambda_{\max} / \lambda_i)$ above the least; and their average with the weights $\lambda_i$ is
# $\hat\mu \lVert w_t \rVert$, but for a term that falls like $1/\lVert w_t \rVert$. (This for a run that
# settles, as these do; that it does is not proved.)
#
# So the gap, debt over $\hat\mu \lVert w_t \rVert$, falls like $1/t$ with constant steps, and like
# $1/\sqrt t$ with steps $\eta/\sqrt t$ (seed 0). A single worst point owes nothing, nor do points that pull
# equally: there the debt itself falls, here like $1/\lVert w_t \rVert$, and the gap like its square. The
# theorem, which knows nothing of the points, allows a debt of $\log n$ and more; this one is at most
# $\log k$. Corners owe something else: at $\rho = 1$ the one unit of $w_2$ lifts the worst point by 1.0
# where 1.7 was to be had, and 0.7 is missing for ever.

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
# (The divisions by $1 - \beta^t$ undo that both means start at zero.) A mean with $\beta$ remembers about
# $1 / (1 - \beta)$ steps. The squares of the gradients soon fall below the smallest floating-point number, so
# we keep gradients divided by that of the worst point, and the means with them; $\varepsilon$ is divided too.


# %%
def adam(A, steps, eta, beta2=0.95, eps=0.0, beta1=0.9):
    """All iterates (steps, runs, d) of several runs of Adam from w = 0, in units of e^-(least a_i.w).

    Each setting is a number or one per run.
    """
    settings = np.broadcast_arrays(*np.atleast_1d(eta, beta2, eps, beta1))
    eta, beta2, eps, beta1 = (setting[:, None] for setting in settings)
    w, mean, square, least = np.zeros((len(eta), A.shape[1])), 0.0, 0.0, 0.0
    path = np.empty((steps, *w.shape))
    for t in range(1, steps + 1):
        u = w @ A.T
        worst_u = u.min(axis=1, keepdims=True)
        grown, least = np.exp(worst_u - least), worst_u  # what was e^-least is now `grown` times as large
        g = -np.exp(least - u) @ A / len(A)
        mean = beta1 * grown * mean + (1 - beta1) * g
        square = beta2 * grown**2 * square + (1 - beta2) * g**2
        size = np.sqrt(square / (1 - beta2**t)) + eps * np.exp(np.minimum(least, 700.0))
        w = w - eta * mean / (1 - beta1**t) / size
        path[t - 1] = w
    return path


BETA2 = np.array([0.95, 0.99, 0.98, 0.95, 0.95, 0.95, 0.95])
ETA = np.array([0.005, 0.005, 0.02, 0.05, 0.1, 0.15, 1.0])
by_adam = adam(A, 40_000, ETA, BETA2)
with_adam = by_adam[:, 0]
print(f"Adam after 40,000 steps; l_inf predicts {degrees(best[np.inf][0]):.2f} degrees, l_2", end=" ")
print(f"{degrees(best[2.0][0]):.2f}")
print("eta:    ", *(f"{eta:7}" for eta in ETA))
print("beta2:  ", *(f"{beta2:7}" for beta2 in BETA2))
print("degrees:", *(f"{degrees(w):7.2f}" for w in by_adam[-1]))
assert np.abs(degrees(by_adam[-1, :5]) - degrees(best[np.inf][0])).max() < 0.2
assert 41 < degrees(by_adam[-1, 5]) < 42
assert degrees(by_adam[-1, 6]) < 31

# %% [markdown]
# With $\beta_1 = \beta_2 = \varepsilon = 0$ the step is $g_j / \sqrt{g_j^2}$: *Adam without memory is sign
# descent*. With memory and $\varepsilon = 0$ the first five runs arrive at the same place, though they
# remember 20 to 100 steps and their $\eta$ differ by a factor of 20. (It is proved for
# $\beta_1 \le \beta_2$, a condition of the proof, and step sizes that tend to zero: Zhang, Zou & Cao 2024;
# for several classes, with a gap of about $t^{-1/3}$, Fan et al. 2025.) The sixth lags a degree behind. The
# last is nearer to $\ell_2$: has it another limit?
#
# The steps are not $\eta$ long. The gradient shrinks, so both means hold older gradients that were
# *larger* than the present one. The root of the mean square feels it most. How long are Adam's steps?

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 03.5: Adam's real step
#
# ★★★ · 12 minutes
#
# Suppose that late in the run, with $\varepsilon = 0$ and $\beta^t$ negligible, every coordinate of full
# size (those with $|\hat w_j| = \lVert \hat w \rVert_\infty$) moves by the same $\eta_{\mathrm{eff}}$ at
# each step. Then the worst $a_i \cdot w$ grows by $\nu = \eta_{\mathrm{eff}}\, \hat\mu_\infty$ a step, and
# $g_t$ is $e^{-\nu}$ times $g_{t-1}$. For $\beta_1 \le \beta_2$, return two numbers, each correct to six
# digits:
#
# - $\eta_{\mathrm{eff}}$;
# - the *real memory*: in how many steps what an old square adds to $\overline{g^2}$ falls to $1/e$, measured
#   in units of the present $g_t^2$. It need not be a whole number.
#
# <details><summary>Hint 1</summary>
#
# Both means are geometric series: the gradient of $k$ steps ago is $e^{k\nu} g_t$, and its weight is $(1 -
# \beta) \beta^k$. Their quotient is a function of $\nu$, and $\nu$ depends on the quotient.
# `scipy.optimize.brentq(f, low, high, xtol=1e-17)` finds a root. The squares have a finite mean only while
# $\beta_2 e^{2\nu} < 1$.
# </details>
# <details><summary>Hint 2</summary>
#
# In one step an old square loses the factor $\beta_2$. And how does the unit change?
# </details>


# %%
@exercise("03.5")
def adam_step(eta, mu_hat, beta1, beta2):
    """(eta_eff, real memory), late in training; mu_hat is the largest margin in l_inf."""
    ### BEGIN SOLUTION
    from scipy.optimize import brentq

    def excess(nu):
        mean = (1 - beta1) / (1 - beta1 * np.exp(nu))
        return eta * mu_hat * mean * np.sqrt(max(1 - beta2 * np.exp(2 * nu), 0) / (1 - beta2)) - nu

    nu = brentq(excess, 0, -np.log(beta2) / 2, xtol=1e-17)
    return nu / mu_hat, -1 / (np.log(beta2) + 2 * nu)
    ### END SOLUTION


# %%
check("03.5", adam_step)

# %%
mu_inf = best[np.inf][1]
memories = {}
for run, (eta, beta2) in enumerate(zip(ETA, BETA2, strict=True)):
    length = (by_adam[-1, run, 0] - by_adam[19_999, run, 0]) / 20_000
    real, memory = adam_step(eta, mu_inf, 0.9, beta2)
    memories[run] = memory
    print(f"eta = {eta:5}, beta2 = {beta2}: real memory {memory:9,.0f} steps;", end=" ")
    print(f"steps of {length:.5f}, predicted {real:.5f}, {real / eta:.2f} of eta")
    if run < 5:
        assert np.isclose(length, real, rtol=0.004), again("03.5")
        assert real < 0.86 * eta, again("03.5")  # the rival: full steps
after = {}
for run in (3, 4, 5):
    after[run] = degrees(by_adam[[round(k * memories[run]) for k in (1, 3, 5)], run])
    print(f"eta = {ETA[run]:5}: after 1, 3 and 5 real memories", *(f"{one:.1f}" for one in after[run]))
    assert np.allclose(after[run], [35.2, 39.5, 41.2], atol=0.9), again("03.5")
both = [adam_step(eta, mu_inf, 0.9, 0.95)[0] for eta in (0.05, 1.0)]
assert 1.02 < both[1] / both[0] < 1.025, again("03.5")
assert np.isclose(memories[6], 332_437, rtol=1e-3), again("03.5")

# %% [markdown]
# For the runs that have arrived the step is right to half a percent. It explains the limit, too: equal steps
# in all coordinates of full size are *sign descent with a shorter step*. (Not a proof: that the coordinates
# between, like our $w_2$, balance as in sign descent is assumed.) Steps are nearly full while $\eta
# \hat\mu_\infty$ is far below $1 - \beta_2$. At the other end the root of $1 - \beta_2 e^{2\nu}$ is nearly
# zero, so $\nu \approx (1 - \beta_2)/2$: steps of $(1-\beta_2)/(2\hat\mu_\infty)$, *whatever $\eta$ is*: with
# twenty times the $\eta$, from 0.05 to 1, two percent longer.
#
# What $\eta$ changes there is the memory: not 20 steps but 858, 3,351, 7,506. On that clock the runs move
# alike, though one memory is nine times the other: turned towards $\ell_2$ after one memory, back within two
# degrees of $\ell_\infty$ after five. (Other points keep other times: of ten in five dimensions, three sets
# were 2 to 5 percent of the margin short after 14 memories, and there after 60.) So the last run is not
# elsewhere, it is early: 40,000 steps are an eighth of its memory. (Followed further it had 33.7, 38.9 and
# 41.2 degrees after 1, 3 and 5 of them.) *With $\beta_1 \le \beta_2$ and steps $\eta_{\mathrm{eff}}$ that
# sign descent could take, the memory delays the limit and does not change it; $\varepsilon$ does: section
# 3.7.*

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
    assert abs(degrees(w) - degrees(best[rho][0])) < 0.5, again("03.1")

# %% jupyter={"source_hidden": true} slideshow={"slide_type": "subslide"}
fig, ax = plt.subplots(figsize=(6.4, 3.5))
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
# Everyone is within half a degree of the direction of its norm.

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
#
# Equality needs $\xi_k^\top \delta\, \zeta_k = -1$ wherever $\sigma_k > 0$: the steepest step lifts all
# singular values to one. Where $\sigma_k = 0$ there is no slope, and it rests.


# %%
def spectral_step(G):
    """The steepest step of spectral norm one for each matrix: the shape of G (..., j, l)."""
    left, sigma, right = np.linalg.svd(G, full_matrices=False)
    slope = sigma > 1e-12 * sigma.max(axis=-1, keepdims=True)  # the others are zero up to rounding
    return -(left * slope[..., None, :]) @ right


G = np.array([[3.0, 4.0, 0.0], [0.0, 0.0, 2.0]])  # singular values 5 and 2
assert same(spectral_step(G), [[-0.6, -0.8, 0], [0, 0, -1]])

# %% [markdown]
# Its opposite, $P = \sum_k \xi_k \zeta_k^\top$ over $\sigma_k > 0$, is the **polar factor** of $G$ (the
# literature writes $U V^\top$). A singular value decomposition at every step is expensive on large matrices.
# **Muon** (Jordan et al. 2024) does without. $G G^\top G$ has $\sigma_k^3$ in place of $\sigma_k$: matrix
# products act on the singular values alone. So does any odd polynomial. Muon starts from $Z = G / \lVert G
# \rVert_F$, with the Frobenius norm $\lVert G \rVert_F = (\sum_{jl} G_{jl}^2)^{1/2}$, so that all singular
# values are at most 1. Then it iterates five times
#
# $$Z \leftarrow 3.4445\, Z - 4.7750\, (Z Z^\top) Z + 2.0315\, (Z Z^\top)^2 Z .$$
#
# The older **Newton-Schulz** iteration, $Z \leftarrow \frac32 Z - \frac12 (Z Z^\top) Z$, converges to $P$,
# but a small singular value grows only 1.5-fold in each step, against 3.4-fold.


# %%
NEWTON_SCHULZ = (1.5, -0.5, 0.0)


def orthogonalise(G, coefficients=(3.4445, -4.7750, 2.0315), steps=5):
    """An approximation of the polar factor of each matrix: the shape of G (..., j, l)."""
    first, third, fifth = coefficients
    Z = G / np.linalg.norm(G, axis=(-2, -1), keepdims=True)
    for _ in range(steps):
        square = Z @ Z.mT
        Z = first * Z + (third * square + fifth * square @ square) @ Z
    return Z


def becomes(sigma, coefficients=(3.4445, -4.7750, 2.0315), steps=5):
    """What the same polynomial makes of numbers."""
    for _ in range(steps):
        sigma = sum(c * sigma**power for c, power in zip(coefficients, (1, 3, 5), strict=True))
    return sigma


sigma = np.geomspace(1e-4, 1, 2000)
lifted = {"Muon, 5 times": becomes(sigma), "Newton-Schulz, 30 times": becomes(sigma, NEWTON_SCHULZ, 30)}
band = lifted["Muon, 5 times"][sigma > 0.002]
exact = lifted["Newton-Schulz, 30 times"][sigma > 0.002]
print(
    f"singular values above 0.002 end between {band.min():.2f} and {band.max():.2f} with Muon's polynomial,"
)
print(f"and between {exact.min():.5f} and {exact.max():.5f} with Newton-Schulz")
assert (round(band.min(), 2), round(band.max(), 2)) == (0.68, 1.2)
assert round(3.4445 - 4.7750 + 2.0315, 2) == 0.70
assert 0.99999 < exact.min() <= exact.max() < 1.00001
cycle = [becomes(becomes(0.9, steps=1000), steps=k) for k in range(4)]
print("iterated for ever, 0.9 ends in a cycle:", *(f"{value:.3f}" for value in cycle))
assert np.allclose(sorted(cycle), [0.682, 0.753, 1.047, 1.134], atol=1e-3)
forever = becomes(sigma, steps=1000)  # and so does every other
assert np.abs(forever[:, None] - cycle).min(axis=1).max() < 1e-6

# %% jupyter={"source_hidden": true} slideshow={"slide_type": "subslide"}
fig, ax = plt.subplots(figsize=(5.2, 2.4))
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
# values fast, at the price of waves: values from 0.002 to 1 land between 0.68 and 1.20.

# %% [markdown]
# The waves never die out. One is not even a fixed point: the coefficients add up to 0.70. Iterated further,
# all our 2,000 values end in one cycle of four, from 0.68 to 1.13. What do the waves cost?

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
# take ten such problems and two norms, Frobenius and spectral.

# %%
C, d, per_class, trials = 10, 25, 50, 10
labels, rows = np.repeat(np.arange(C), per_class), np.arange(C * per_class)


def ten_classes(seed):
    """The points (500, d) of a problem."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(C, d))
    return centres[labels] + 0.1 * rng.normal(size=(C * per_class, d))


inputs = np.array([ten_classes(seed) for seed in range(trials)])  # (trials, 500, d)


def ahead(W):
    """Scores of the rivals minus that of the own class (there -inf): (trials, C, 500)."""
    scores = W @ inputs.mT
    scores -= scores[:, labels, rows][:, None]
    scores[:, labels, rows] = -np.inf
    return scores


# %% [markdown]
# The loss is the mean of the cross-entropies $\log \sum_c e^{(W x_i)_c} - (W x_i)_{y_i}$. Its gradient is a
# sum over the pairs with weights, as before. We divide it by its total weight, so that it keeps its
# direction but never fades. Muon's step is taken not from $G_t$ but from a running mean, $\bar G_t = 0.95\,
# \bar G_{t-1} + 0.05\, G_t$, mixed with the gradient once more: from $-M_t$ with $M_t = -(0.05\, G_t + 0.95\,
# \bar G_t)$ (*Nesterov's momentum*). Late, $M_t$ too is a sum of pairs with weights that add up to one. So it
# certifies: no margin in any norm is above $B = \lVert M_t \rVert_*$.


# %%
def log_loss_gradient(W):
    """Direction of the gradient: weights of the pairs that add up to one, (trials, C, d)."""
    q = ahead(W)
    most = q.max(axis=(1, 2), keepdims=True)
    q = np.exp(q - most)
    q /= np.exp(-most.clip(-700)) + q.sum(axis=1, keepdims=True)  # 1 - softmax is never formed
    own = q.sum(axis=1)
    q[:, labels, rows] = -own
    return q @ inputs / own.sum(axis=1)[:, None, None]


def train_matrices(step, momentum=0.95, eta=0.2, steps=800):
    """W and the last M, (trials, C, d) each."""
    W, mean = np.zeros((trials, C, d)), 0.0
    for _ in range(steps):
        G = log_loss_gradient(W)
        mean = momentum * mean + (1 - momentum) * G
        M = -(1 - momentum) * G - momentum * mean
        W = W + eta * step(-M)
    return W, M


def frobenius_step(G):
    return -G / np.linalg.norm(G, axis=(1, 2), keepdims=True)


def margin(W, norm):
    """The margin of each W in a matrix norm, 'fro' or 2."""
    return -ahead(W).max(axis=(1, 2)) / np.linalg.norm(W, norm, axis=(1, 2))


runs = {
    "normalised GD, momentum": train_matrices(frobenius_step),
    "spectral descent": train_matrices(spectral_step, 0.0, eta=0.1, steps=600),
    "Muon, Newton-Schulz": train_matrices(lambda G: -orthogonalise(G, NEWTON_SCHULZ, 30), steps=600),
    "Muon": train_matrices(lambda G: -orthogonalise(G), steps=1500),
}
bounds = {"fro": np.linalg.norm(runs["normalised GD, momentum"][1], "fro", axis=(1, 2))}
bounds[2] = np.linalg.norm(runs["Muon, Newton-Schulz"][1], "nuc", axis=(1, 2))
shares = {name: {norm: margin(W, norm) / bounds[norm] for norm in bounds} for name, (W, _) in runs.items()}
spectra = {name: np.linalg.svd(W, compute_uv=False) for name, (W, _) in runs.items()}
print(f"{'ten problems: margin over its bound':36} Frobenius       spectral")
for name, share in shares.items():
    columns = [share["fro"], share[2]]
    print(f"{name:36}", *(f"{column.min():.2f} to {column.max():.2f}   " for column in columns))

# %% slideshow={"slide_type": "subslide"}
assert shares["normalised GD, momentum"]["fro"].min() > 0.99
assert shares["spectral descent"][2].min() > 0.99
assert shares["Muon, Newton-Schulz"][2].min() > 0.99
assert 0.85 < shares["Muon"][2].min() < 0.87 < 0.97 < shares["Muon"][2].max() < 0.985

# %% [markdown]
# The bounds, which need no solver, are met to one percent: NGD takes the Frobenius margin, spectral descent
# the spectral one. Muon, which is meant to approximate it, gets 86 to 98 percent on our ten problems (on
# twenty others 90 to 99.9). With thirty steps of Newton-Schulz the same momentum does reach the spectral
# margin. So the momentum is not at fault: the polynomial is.
#
# A low singular value of $W$ costs only in a direction that *carries slope*. How much?

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 03.6: The margin that Muon gives away
#
# ★★★ · 8 minutes
#
# After many steps $M_t$ keeps its direction, and only worst pairs of $W$ still have weight in it. Predict
# from the singular values $\sigma_k$ of $M_t$ (weights adding up to one): the margin of $W$ in the spectral
# norm, and the bound $B$ on every such margin.
#
# <details><summary>Hint 1</summary>
#
# $W$ is nearly a sum of equal steps. So what are its singular vectors, and what are its singular values, up
# to a factor?
# </details>
# <details><summary>Hint 2</summary>
#
# What is $\langle M, W \rangle$, in terms of the $\sigma_k$, and in terms of the worst pairs? Mind that Muon
# divides by $\lVert M \rVert_F$ first, and that its polynomial does not keep the order.
# </details>


# %%
@exercise("03.6")
def muon_margin(sigma):
    """(margin of W, bound B) in the spectral norm: two numbers, for all singular values of M, a vector."""
    ### BEGIN SOLUTION
    lifted = sigma / np.linalg.norm(sigma)
    for _ in range(5):
        lifted = 3.4445 * lifted - 4.7750 * lifted**3 + 2.0315 * lifted**5
    return (sigma * lifted).sum() / lifted.max(), sigma.sum()
    ### END SOLUTION


# %%
check("03.6", muon_margin)

# %%
sources = np.linalg.svd(runs["Muon"][1], compute_uv=False)
predicted = np.array([muon_margin(sigma)[0] for sigma in sources])
measured = margin(runs["Muon"][0], 2)
error = np.abs(predicted / measured - 1)
print("share of the spectral margin, measured: ", *(f"{share:.3f}" for share in measured / bounds[2]))
print("share of the spectral margin, predicted:", *(f"{share:.3f}" for share in predicted / bounds[2]))
assert error.max() < 0.006, again("03.6")
assert np.abs(sources.sum(axis=1) / measured - 1).min() > 0.02, again("03.6")  # the rival: lifted to one

# %% jupyter={"source_hidden": true} slideshow={"slide_type": "subslide"}
fig, (left, right) = plt.subplots(1, 2, figsize=(7.2, 3.0))
W, M = (matrices[0] for matrices in runs["Muon"])
U, sizes, Vt = np.linalg.svd(M)
at, found = sizes[: C - 1] / np.linalg.norm(sizes), np.diag(U.T @ W @ Vt[:C].T)[: C - 1]
some = np.geomspace(0.02, 1, 2000)
left.semilogx(
    some, becomes(some) / becomes(at).max(), color=COLORS["black"], linewidth=1.2, label="polynomial"
)
left.semilogx(at, found / spectra["Muon"][0, 0], "s", color=COLORS["orange"], markersize=7, label="$W$")
left.set(
    xlabel=r"$\sigma_k(M) / ||M||_F$", ylabel="relative to the largest", ylim=(0, 1.15), title="one problem"
)
left.legend(loc="lower right")
right.plot([0.8, 1], [0.8, 1], color=COLORS["grey"], linewidth=1)
right.plot(predicted / bounds[2], measured / bounds[2], "s", color=COLORS["orange"], markersize=7)
right.set(xlabel="predicted", ylabel="measured", title="share of the spectral margin", aspect="equal")
right.set(xlim=(0.84, 1), ylim=(0.84, 1), xticks=(0.85, 0.9, 0.95, 1), yticks=(0.85, 0.9, 0.95, 1))
show(
    fig,
    alt="Left: the wavy curve of Muon's polynomial, and on it nine squares, the singular values of the "
    "trained W over those of the mean gradient. Right: measured against predicted share of the spectral "
    "margin in ten problems, from 0.86 to 0.98, all on the diagonal.",
)

# %% [markdown]
# **Figure 5.** Left: the singular values of Muon's $W$ in the first problem lie on the polynomial's waves.
# Right: ten problems.

# %% [markdown]
# The margin is $\sum_k \sigma_k f_k / \max_k f_k$, with $f_k$ read off the wave at $\sigma_k / \lVert M
# \rVert_F$: right to half a percent in all ten problems. (That half percent is the length of the run: after
# 6,000 steps the law is right to less than 0.1 percent.) The polar factor has all $f_k = 1$ and meets the
# bound.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 3.7 Where it breaks *(optional)*
#
# ### Adam's defaults
#
# torch's Adam has $\beta_2 = 0.999$ and $\varepsilon = 10^{-8}$. Each of them takes $w$ away from
# $\ell_\infty$, for opposite reasons: **the memory for a time, $\varepsilon$ for good.**
#
# *The memory.* Early on, large gradients fill $\overline{g^2}$. While they dominate it is a fixed divisor
# for each coordinate, and Adam is gradient descent: $w$ turns towards $\ell_2$. How long they dominate is
# your real memory, $1 / \log(1 / (\beta_2 e^{2\nu}))$. Put your equation in, and for long memories ($\beta_1
# = 0$, or nearly) it is
#
# $$\frac{1}{1 - \beta_2} \Big( \frac{\eta}{\eta_{\mathrm{eff}}} \Big)^2 \text{ steps,}$$
#
# and not $1/(1-\beta_2)$. For torch's $\beta_2$ and $\eta = 0.005$ that is a long time. But only $\eta / (1 -
# \beta_2)$ matters, up to a change of the clock: with both a hundred times as large, everything should happen
# in a hundredth of the steps (it does, to a degree and a half).
#
# *Epsilon.* Adam divides by $\sqrt{\overline{g^2}} + \varepsilon$. Once the gradient is below $\varepsilon$
# the denominator is a constant, and what remains is gradient descent with momentum, whose limit is that of
# $\ell_2$ (Wang et al. 2022).

# %%
long, faster = 60_000, 100
small_print = {
    "epsilon = 1e-8": (0.005, 0.95, 1e-8, 0.9),
    "beta2 = 0.999": (0.005, 0.999, 0.0, 0.9),
    "both (torch)": (0.005, 0.999, 1e-8, 0.9),
    "hundred times faster": (0.5, 0.9, 0.0, 0.0),
}
paths = adam(A, long, *np.array(list(small_print.values())).T)
paths = {name: paths[:, run] for run, name in enumerate(small_print)}
real, memory = adam_step(0.005, mu_inf, 0.9, 0.999)
print(f"beta2 = 0.999: steps of {real / 0.005:.3f} eta, real memory {memory:,.0f} steps,", end=" ")
print(f"by the rule {1000 * (0.005 / real) ** 2:,.0f}")
print("degrees after                1,200   20,400   60,000  1 million  4 million steps")
early = np.array([1200, 20_400, 60_000])
angles = {name: degrees(path[early - 1]) for name, path in paths.items() if name != "hundred times faster"}
late = np.append(early, [1_000_000, 4_000_000]) // faster
angles["hundred times faster"] = degrees(paths["hundred times faster"][late - 1])
for name, row in angles.items():
    print(f"{name:22}", *(f"{angle:8.1f}" for angle in row))
assert np.isclose(1000 * (0.005 / real) ** 2, memory, rtol=0.02), again("03.5")
assert np.isclose(memory, 6.49e5, rtol=0.01), again("03.5")
assert np.allclose(angles["epsilon = 1e-8"], [43.7, 37.0, 36.3], atol=0.1)
assert np.allclose(angles["beta2 = 0.999"], [37.5, 31.5, 33.1], atol=0.1)
assert np.allclose(angles["both (torch)"], [37.5, 31.5, 31.2], atol=0.1)
assert np.abs(angles["hundred times faster"][:3] - angles["beta2 = 0.999"]).max() < 1.5
assert degrees(best[np.inf][0]) - 0.25 < angles["hundred times faster"][-1] < degrees(best[np.inf][0])

# %% jupyter={"source_hidden": true} slideshow={"slide_type": "subslide"}
fig, ax = plt.subplots(figsize=(6.4, 3.2))
at = np.unique(np.geomspace(10, long, 150).astype(int))
labels_of = {
    "epsilon = 1e-8": (r"$\varepsilon = 10^{-8}$, $\beta_2 = 0.95$", "--", "orange"),
    "beta2 = 0.999": (r"$\varepsilon = 0$, $\beta_2 = 0.999$", "-", "black"),
    "both (torch)": (r"$\varepsilon = 10^{-8}$, $\beta_2 = 0.999$", "-.", "purple"),
}
for name, (label, line, color) in labels_of.items():
    ax.semilogx(at, degrees(paths[name][at - 1]), line, color=COLORS[color], label=label)
ax.semilogx(
    at[at > 100] * faster, degrees(paths["hundred times faster"][at[at > 100] - 1]), ":",
    color=COLORS["black"], linewidth=2.4, label=r"fast twin of $\varepsilon = 0$, steps times 100",
)  # fmt: skip
for rho in (np.inf, 2.0):
    ax.axhline(degrees(best[rho][0]), color=NORM_COLORS[rho], linewidth=1.3)
    ax.text(11, degrees(best[rho][0]) - 0.3, NAMES[rho], va="top")
ax.set(xlabel="step $t$", ylabel="direction of $w_t$ (degrees)", ylim=(24.5, 46), xlim=(10, 5e6))
ax.legend(loc="lower left", bbox_to_anchor=(0.06, 0.06), fontsize=10)
show(
    fig,
    alt="The direction of Adam against steps, to 4 million. With epsilon zero and beta2 0.999 it falls to "
    "31.5 degrees near step 20,000 and climbs back to the line of l infinity at 42.5. With epsilon it turns "
    "down and stays on its way to the line of l 2; with both it falls to 31 and does not climb back.",
)

# %% [markdown]
# **Figure 6.** Where Adam goes, $\eta = 0.005$. In the first hundred steps $w$ is so short that all points
# pull, not only the worst.

# %% [markdown]
# The angle of 31.5 degrees at 20,000 steps looks like a limit and is a turning point: the twin says that
# after 4 million steps, six real memories, the run is back at $\ell_\infty$. (So it is: followed that far,
# it had 37.4 degrees after one million steps and 42.4 after four.)
#
# With $\varepsilon$ there is no way back. And with torch's defaults, both together, the gradient meets
# $\varepsilon$ long before the memory has faded. From there on it is lesson 01: the least $a_i \cdot w$ grows
# like $\log t$ along the $\ell_2$ direction, and the offset across hardly changes any more.

# %%
ray = best[2.0][0] / np.linalg.norm(best[2.0][0])  # the direction of l_2
across = np.array([-ray[1], ray[0]])
early, end = paths["epsilon = 1e-8"][[19_999, 59_999]]
grown = (A @ end).min() - (A @ early).min()
print(f"epsilon = 1e-8, from step 20,000 to 60,000: the offset goes from {across @ early:.2f}", end=" ")
print(f"to {across @ end:.2f}; the least a_i.w grows by {grown:.2f}, log t by {np.log(3):.2f}")
assert 0.98 < (across @ end) / (across @ early) < 1
assert np.isclose(grown, np.log(3), rtol=0.035)

# %% [markdown]
# So the angle falls to that of $\ell_2$ like $1 / \log t$.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Steps that are too long
#
# The theorem's safe step is $\eta = \mathrm{share} \cdot \hat\mu / a_{\max}^2$. How long may steps really
# be? On our twelve points nothing is too long for sign descent. All first entries are positive, so $w_1 =
# \eta t$ exactly, and only $w_2$ ever turns: a single number that is pushed back whenever it is off stays
# near its place. In more dimensions several coordinates turn, and every step pushes all of them at once. We
# take 40 sets of ten points in five dimensions and try five lengths on each, in units of $1/a_{\max}$: then
# no output $a_i \cdot w$ changes by more than $\eta\, a_{\max}$ in a step. A run is *stuck* if its second
# half, taken by itself, has a gap of more than one percent, or does not move at all.


# %%
def sign_descent(sets, lengths, steps=8000):
    """w halfway and at the end: (lengths, sets, d) each."""
    w = np.zeros((*lengths.shape, sets.shape[-1]))
    for t in range(steps):
        if t == steps // 2:
            half = w
        u = (w[..., None, :] @ sets.mT)[..., 0, :]
        w = w + lengths[..., None] * np.sign((weights(u)[..., None, :] @ sets)[..., 0, :])
    return half, w


def gap(w, sets, mu):
    """1 - mu_inf(w) / mu, infinite for w = 0."""
    least, size = (w[..., None, :] @ sets.mT)[..., 0, :].min(axis=-1), np.abs(w).max(axis=-1)
    return 1 - np.where(size > 0, least, -np.inf) / np.where(size > 0, size, 1.0) / mu


sets = np.array([ten_points(seed) for seed in range(40)])
ones = torch.ones(sets.shape[:2], dtype=torch.float64)
solution = svm.solve(svm.HardMarginProblem(torch.tensor(sets), None, ones), norm=np.inf, tol=1e-6)
mu = solution.margin.numpy()
a_max = np.abs(sets).sum(axis=-1).max(axis=-1)
scaled = np.array([0.1, 0.3, 1, 3, 10])
half, end = sign_descent(sets, scaled[:, None] / a_max)
stuck = gap(end - half, sets, mu) > 0.01
for one, runs_stuck in zip(scaled, stuck, strict=True):
    print(f"eta a_max = {one:4}: {runs_stuck.sum():2} of 40 sets stuck")
safe = a_max * np.array([safe_steps(*both, 10, 0.1)[0] for both in zip(mu, a_max, strict=True)])
print(f"safe for a share of 0.1: eta a_max of {safe.min():.3f} to {safe.max():.3f}")
twelve = sign_descent(A[None], np.array([[20.0], [100.0], [1000.0]]))[1]
print("twelve points, steps of 20, 100 and 1,000: largest gap", f"{gap(twelve, A[None], mu_inf).max():.0e}")
assert not stuck[0].any()
assert stuck[1].sum() <= 2
assert 5 <= stuck[2].sum() <= 15
assert (gap(end[2] - half[2], sets, mu) > 0.15).sum() == 3
assert stuck[4].sum() > 35
assert safe.max() < 0.05
assert gap(twelve, A[None], mu_inf).max() < 1e-3

# %% [markdown]
# The longest good step is far longer than a safe one, by a factor that differs from set to set. As a rule of
# thumb keep $\eta\, a_{\max}$ well below 1: at 1 a quarter of the sets are stuck, three of them at gaps above
# 0.15; at 0.3, at least eight times what is safe, none is (of the next 80 sets, three).
# Shrinking steps get through whenever $\sum \eta_\tau^2 / \sum \eta_\tau \to 0$ while $\sum \eta_\tau =
# \infty$: that is the theorem.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Turn the norm yourself
#
# The slider sets $\rho$; the dots are
# iterates of mirror descent up to step 300, later ones larger. (For large $\rho$ they lag, since $\lVert w
# \rVert$ grows so slowly.) Move it through your answers to exercise 03.2: where does the cross leave the
# corner in direction $(2, 1)$, and where does it reach the one at 42.5 degrees?


# %% tags=["nbval-ignore-output", "widget"]
def touch_figure(rho):
    """The l_rho ball that touches the region (cross), and mirror descent on its way there."""
    figure = Figure(figsize=(6, 4), layout="none")
    figure.subplots_adjust(left=0.12, right=0.98, bottom=0.14, top=0.91)
    ax = figure.subplots()
    draw_region(ax)
    touch = EDGE[np.linalg.norm(EDGE, rho, axis=1).argmin()]
    ax.plot(*ball(rho, np.linalg.norm(touch, rho)).T, color=COLORS["purple"], linewidth=1.6)
    path = mirror_descent(rho, 300)
    some = to_edge(path[[2, 9, 29, 99, 299]])
    ax.scatter(*some.T, s=[20, 40, 60, 80, 100], color=COLORS["purple"], edgecolor="white", zorder=3)
    ax.plot(*touch, "x", color=COLORS["black"], markersize=9, markeredgewidth=1.5, zorder=4)
    ax.set_title(rf"$\rho$ = {rho:.2f}: the ball touches at {degrees(touch):.1f} degrees")
    return figure


widgets.sliders(
    touch_figure,
    alt="The shaded region and the ball of l_rho that touches it, with dots of mirror descent moving to the "
    "place where they touch.",
    rho=FloatSlider(value=1.5, min=1.1, max=12, step=0.05, description="norm, rho"),
)

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
# <details><summary>3. No direction separates the points. What does sign descent do?</summary>
#
# Steps of fixed length never stop. If the loss has a minimiser, it wanders around it. It may have none, as
# $e^{-w_1} + e^{w_1} + e^{-w_2}$. From $(0.2, 0)$ (at $w_1 = 0$ there is no slope), $w_1$ keeps changing
# sign while $w_2$ grows at full pace. (NGD does the same ever more slowly, and coordinate descent ends up
# seeing $w_1$ alone: both give their steps to $w_1$, where the slope is.) No margin is positive, and the
# theorem says nothing.
# </details>
#
# <details><summary>4. Would ten iterations of Muon's polynomial be better than five?</summary>
#
# Not in general: they make other waves. The top of the band sinks from 1.20 towards 1.13, but what counts is
# which $\sigma_k$ meet a trough. After 1,500 steps each, ten iterations had lost more than five in 7 of our
# ten problems, and in 17 of 20 others.
# </details>
#
# <details><summary>5. In the theorem, which $a$ is best for steps $\eta\, \tau^{-a}$? And here?</summary>
#
# For large $t$ the bound loses $\sum \eta_\tau^2 / \sum \eta_\tau$ and $\log n / \sum \eta_\tau$: about
# $t^{-a}$ and $t^{a-1}$ for $a < \frac12$, least at $\frac12$ (up to a logarithm). But the debt of section
# 3.4 is the same for all $a$, and the longest $w$ makes least of it: $a = 0$, where such steps settle. The
# bound guards against points where they do not. </details>

# %%
progress("03")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - Steepest descent with shrinking steps maximises the margin in its own norm, because the slope of the loss
#   is a bound on that margin; constant steps are proved to lose at most $\frac12 \eta\, a_{\max}^2$ of it.
#   For $1 < \rho < \infty$ the debt, margin missing times norm, settles at
#   $\sum_i \lambda_i \log(\lambda_{\max} / \lambda_i)$, with the shares $\lambda_i$ of the worst points.
# - A direction is best in $\ell_\rho$, $1 < \rho < \infty$, if its worst points add up to
#   $\mathrm{sign}(w)\,|w|^{\rho-1}$, with weights that are not negative. The weights are how hard they pull.
# - Steps of $\mathrm{share} \cdot \hat\mu / a_{\max}^2$ are safe. Longer ones did well with $\eta\, a_{\max}$
#   well below 1, and can get stuck above.
# - Adam with $\varepsilon = 0$, $\beta_1 \le \beta_2$ and short real steps ends as sign descent with steps
#   $\eta_{\mathrm{eff}}$. Its real memory delays the limit, $\varepsilon$ changes it.
# - Muon's polynomial leaves its waves in $W$: the margin is $\sum_k \sigma_k f_k / \max_k f_k$. With an
#   iteration that converges, nothing is lost.
#
# | optimiser | norm of its margin | what a step moves |
# |:---|:---|:---|
# | coordinate descent | $\ell_1$ | one coordinate |
# | steepest in $\ell_\rho$, mirror descent | $\ell_\rho$ | large slopes more, by a power; $\nabla\psi(w)$ |
# | normalised GD, GD | $\ell_2$, Frobenius | along $-g$ |
# | sign descent; Adam with $\varepsilon = 0$, late | $\ell_\infty$ | all coordinates by the same |
# | spectral descent, Muon with the polar factor | spectral | all singular directions by the same |
# | Muon with its polynomial | spectral, less what the waves cost | singular directions by 0.68 to 1.20 |

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
# - Baek, Song & Yun, *Implicit bias of per-sample Adam on separable data* (2025, arXiv:2510.26303), and Li,
#   Tang & Zou, *The implicit bias of steepest descent with mini-batch stochastic gradient* (2026,
#   arXiv:2602.11557): one sample a step can change the norm, up to $\ell_2$ for Adam.
# - Gronich & Vardi, *The implicit bias of Adam and Muon on smooth homogeneous neural networks* (2026,
#   arXiv:2602.16340): beyond linear models.
# - Hoeffding, *Probability inequalities for sums of bounded random variables* (JASA 1963): his lemma.
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
