# %% [markdown] slideshow={"slide_type": "slide"}
# # 02 · The hard-margin SVM and its certificate
#
# In [lesson 01](01_logistic_regression_bias.ipynb) we could say how far gradient descent was from the best
# direction because we knew the best direction: in the plane we had tried them all. Beyond the plane nobody
# can.
#
# **You hold the points and a direction, nothing else. How do you *prove* how good the direction is?**
#
# With a second set of numbers, one weight per point. Any weights prove a bound, the right weights prove the
# exact answer, and gradient descent on the logistic loss computes weights at every step: good ones, if its
# steps are not too long.

# %% [markdown] slideshow={"slide_type": "skip"}
# **You will be able to**
#
# - write the hard-margin SVM as an optimisation problem, and its dual as a search for the nearest point;
# - prove that a direction is within one percent of the best without knowing the best;
# - tell support vectors and multipliers from the optimality conditions;
# - solve the dual in ten lines of NumPy, or in one call to nonnegative least squares;
# - prove that no separating direction exists, where none does.
#
# **You need** lesson 01, linear algebra, calculus and NumPy. No duality theory: what we use we prove. About
# 90 minutes, six exercises.

# %%
import itertools

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
import torch
from ipywidgets import FloatSlider, ToggleButtons
from matplotlib.figure import Figure
from scipy.optimize import nnls
from scipy.spatial import ConvexHull

from course.exercise import check, exercise, progress, todo
from course.figure import show
from mini_attn import plots, svm, widgets
from mini_attn.plots import COLORS

plots.style()

# the points of lesson 01
plus = [[1.5, -0.5], [2.8, -0.4], [3.3, -1.0], [2.3, 0.9], [3.6, 0.1], [2.9, 1.2]]
minus = [[-0.3, -0.7], [-2.0, -0.5], [-2.7, 0.1], [-3.4, -0.6], [-2.6, -1.5], [-3.8, 0.7]]
X, y = np.array(plus + minus), np.repeat([1.0, -1.0], 6)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2.1 The idea in a picture
#
# We have points $x_1, \dots, x_n$ in $d$ dimensions with labels $y_i = \pm 1$ (in code the first has index
# 0). Multiply each point by its label:
#
# $$a_i = y_i\, x_i .$$
#
# A direction $w$ gets point $i$ right exactly when $a_i \cdot w > 0$, whichever class it is from. So these
# **signed points** are all we need. The margin of lesson 01, and the largest margin, are
#
# $$\mu(w) = \min_i \frac{a_i \cdot w}{\lVert w \rVert}, \qquad \hat\mu = \max_{w \ne 0} \mu(w).$$
#
# In code, `A` is the $n \times d$ matrix with rows $a_i$, so `A @ w` holds all $a_i \cdot w$ at once.


# %%
A = y[:, None] * X


def margin(w, A):
    return (A @ w).min() / np.linalg.norm(w)


def draw_hull(A, ax):
    """Signed points, their convex hull (shaded) and the origin (cross)."""
    ax.fill(*A[ConvexHull(A).vertices].T, color=COLORS["sky"], alpha=0.25, linewidth=0, zorder=0)
    ax.scatter(*A.T, s=45, marker="D", color=COLORS["green"], edgecolor="white", zorder=3)
    ax.plot(0, 0, marker="+", markersize=14, markeredgewidth=2, color=COLORS["black"], zorder=4)
    ax.margins(0.12)
    ax.set(xlabel="$a_{i1}$", ylabel="$a_{i2}$", aspect="equal")


# %% slideshow={"slide_type": "fragment"} jupyter={"source_hidden": true}
nearest = np.array([0.5, 0.5])  # by eye for now: by the end of the lesson there are three ways to compute it

fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.4), width_ratios=[1, 1])
plots.points(X, y, left)
left.set(xlim=(-4.3, 4.3), ylim=(-2.7, 2.7), title=r"the widest strip: half-width $\hat\mu$")
plots.boundary(nearest, left, margin=margin(nearest, A))
draw_hull(A, right)
right.plot([0, nearest[0]], [0, nearest[1]], color=COLORS["vermillion"], zorder=4)
right.axline(nearest, slope=-1, color=COLORS["black"], linestyle="--", linewidth=1.4)
right.text(0.58, 0.4, r"$\hat a$", fontsize=14)
for i, offset in ((0, (-6, -18)), (6, (-2, 8))):
    right.annotate(str(i + 1), A[i], xytext=offset, textcoords="offset points", color=plots.ink("green"))
right.set(xlim=(-0.5, 4.1), ylim=(-1.2, 1.8), title=r"the hull's nearest point: distance $\hat\mu$")
show(
    fig,
    alt="Left: two classes of points and the widest empty strip between them, around a line through the "
    "origin. Right: the twelve signed points with their convex hull shaded; a short segment joins the origin "
    "to the nearest point of the hull, and a dashed line at right angles to it touches the hull there, in "
    "points 1 and 7.",
)

# %% [markdown]
# **Figure 1.** The same data twice. Left: the points, and the widest strip around a line through the
# origin. Right: the signed points, their convex hull, and the point $\hat a$ of the hull that is nearest to
# the origin (cross). It lies between points 1 and 7.

# %% [markdown] slideshow={"slide_type": "subslide"}
# On the left we maximise: turn the line until the strip is as wide as it can be. On the right we minimise:
# move over the hull until the origin is as near as it can be. This lesson rests on one fact: *both searches
# end at the same place*. The best direction is that of $\hat a$, and the largest margin is the length of
# $\hat a$. So any direction on the left gives a lower bound for $\hat\mu$, and any point on the right an
# upper bound.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2.2 From the left: the primal problem
#
# Scaling $w$ does not change $\mu(w)$. If some direction separates the points, choose the scale at which
# the worst point scores exactly one, $\min_i a_i \cdot w = 1$. Then $\mu(w) = 1 / \lVert w \rVert$, and the
# largest margin belongs to the shortest $w$:
#
# $$\hat w = \arg\min_w \lVert w \rVert \quad \text{subject to} \quad a_i \cdot w \ge 1 \ \text{ for all } i,
# \qquad \hat\mu = \frac{1}{\lVert \hat w \rVert}. \tag{P}$$
#
# This is the **hard-margin SVM**. Its objective is convex and its constraints are linear, so it can be
# typed into [cvxpy](https://www.cvxpy.org) almost as it stands: declare `w = cp.Variable(d)`, give an
# objective and a list of constraints to `cp.Problem(cp.Minimize(...), [...])`, call `.solve()`, and read
# `w.value` (`.solve()` itself returns the objective).

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 02.1: The primal, as you would say it
#
# ★☆☆ · 5 minutes
#
# Solve (P) with cvxpy.
#
# <details><summary>Hint</summary>
#
# `cp.multiply(y, X @ w)` is the vector of all $a_i \cdot w$, and `cp.norm(w)` is the length of `w`. Three
# lines are enough: the variable, the problem, and the result.
# </details>


# %%
@exercise("02.1")
def primal(X, y):
    """The solution w of (P): shape (d,), for X (n, d), y (n,)."""
    ### BEGIN SOLUTION
    w = cp.Variable(X.shape[1])
    cp.Problem(cp.Minimize(cp.norm(w)), [cp.multiply(y, X @ w) >= 1]).solve()
    return w.value
    ### END SOLUTION


# %%
check("02.1", primal)

# %%
w_hat = primal(X, y)
print("w_hat:", w_hat.round(4), "  margin:", margin(w_hat, A).round(4))
assert np.allclose(w_hat, [1, 1], atol=1e-4)

# %% [markdown]
# This is the direction that lesson 01 found by trying them all. That its margin is 0.7071, you can verify by
# hand. That no direction has a larger one, you have only been told.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2.3 From the right: any weights prove a bound
#
# Choose weights $\lambda_1, \dots, \lambda_n \ge 0$, not all zero, in any way you like. For every $w$
# of length one,
#
# $$\mu(w) = \min_i a_i \cdot w \;\le\; \frac{\sum_i \lambda_i\, (a_i \cdot w)}{\sum_i \lambda_i}
# = \frac{\sum_i \lambda_i a_i}{\sum_i \lambda_i} \cdot w
# \;\le\; \frac{\lVert \sum_i \lambda_i a_i \rVert}{\sum_i \lambda_i} =: B(\lambda).$$
#
# The first step says that a minimum is at most any average; the last is Cauchy-Schwarz. The right-hand side
# no longer contains $w$. One choice of weights speaks about *all* directions at once: none has a margin
# above $B(\lambda)$.
#
# Only proportions matter, so we often use the **normalised weights** $q_i = \lambda_i / \sum_j \lambda_j$,
# which add up to one. In Figure 1, $\sum_i q_i a_i$ is a point of the hull, and $B$ is its distance from
# the origin.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 02.2: A bound from any weights
#
# ★☆☆ · 5 minutes
#
# Write $B(\lambda)$.
#
# <details><summary>Hint</summary>
#
# $\sum_i \lambda_i y_i x_i$ is one matrix product. Take the length last: vectors can cancel, lengths
# cannot.
# </details>


# %%
@exercise("02.2")
def upper_bound(lam, X, y):
    """B(lam): a number, for weights lam (n,), X (n, d), y (n,)."""
    ### BEGIN SOLUTION
    return np.linalg.norm((lam * y) @ X) / lam.sum()
    ### END SOLUTION


# %%
check("02.2", upper_bound)

# %%
point = np.eye(12)  # row i: all the weight on point i
weights = {
    "equal": np.ones(12),
    "point 7 alone": point[6],
    "points 1 and 7, as 1 : 5": point[0] + 5 * point[6],
}
for name, lam in weights.items():
    print(f"{name:24} no direction has a margin above {upper_bound(lam, X, y):.4f}")
assert np.isclose(upper_bound(lam, X, y), np.sqrt(0.5))

# %% [markdown]
# All three statements are true, and the last one closes the case: no direction beats 0.7071. You can verify
# it with pencil and paper, $(a_1 + 5 a_7)/6 = (0.5, 0.5)$, without asking how anyone came upon the
# proportion $1 : 5$. Two numbers have proved what searching all directions could only suggest. Such weights
# always exist, and imperfect ones prove something too:

# %% [markdown] slideshow={"slide_type": "slide"}
# > **Theorem (certificate).** *Let some direction separate the points. For all $w \ne 0$ and all weights
# > $\lambda \ge 0$, not all zero:*
# >
# > **1.** $\ \mu(w) \le \hat\mu \le B(\lambda)$.
# >
# > **2.** *Some weights reach $B(\lambda) = \hat\mu$: those that make the nearest point,
# > $\sum_i q_i a_i = \hat a$.*
# >
# > **3.** *If $\mu(w) \ge 0$, then* $\ \displaystyle \cos(w, \hat w) \ge \frac{\mu(w)}{B(\lambda)}$.
# >
# > Source: 1 and 2 are SVM duality as geometry (Bennett & Bredensteiner 2000); all three are proved below.

# %% [markdown]
# **Proof.** We have seen 1.
#
# For 2, go from $\hat a$ a little towards some $a_i$. This stays in the hull, so it cannot bring us nearer
# to the origin: the derivative of $\lVert \hat a + s(a_i - \hat a) \rVert^2$ at $s = 0$, which is $2\, \hat
# a \cdot (a_i - \hat a)$, is not negative. Hence $a_i \cdot \hat a \ge \lVert \hat a \rVert^2$ for all $i$.
# If $\hat a$ were 0, weights with $B(\lambda) = 0$ would contradict 1. So divide by $\lVert \hat a \rVert$:
# $\mu(\hat a) \ge \lVert \hat a \rVert = B(q)$. By 1, both are $\hat\mu$.
#
# For 3, average $a_i \cdot w / \lVert w \rVert \ge \mu(w)$ with the weights that make $\hat a$. This gives
# $\lVert \hat a \rVert \cos(w, \hat a) \ge \mu(w)$. If $w$ is a best direction, $\mu(w) = \hat\mu = \lVert
# \hat a \rVert$, the cosine must be 1: $\hat a$ is the only best direction, so it is that of $\hat w$. For
# every other $w$, divide $\hat\mu \cos(w, \hat w) \ge \mu(w) \ge 0$ by $\hat\mu \le B(\lambda)$. $\square$

# %% [markdown] slideshow={"slide_type": "fragment"}
# Together, $w$ and $\lambda$ are a **certificate**. Its quality is the **gap**
#
# $$\mathrm{gap} = 1 - \frac{\mu(w)}{B(\lambda)} .$$
#
# A gap of 0.01 proves that the margin is within one percent of the largest and the cosine at least 0.99
# (an angle of at most 8.2 degrees), and anyone can check it with two matrix products. It does not matter
# where $w$ and $\lambda$ came from. So: where do good weights come from?

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2.4 The best weights: dual problem and optimality conditions
#
# Optimisation has a recipe. Take (P) with the objective $\frac12 \lVert w \rVert^2$, which has the same
# solution, and charge a price $\lambda_i \ge 0$ for each unit by which constraint $i$ is missed (and refund
# it for each unit to spare):
#
# $$\mathcal{L}(w, \lambda) = \tfrac12 \lVert w \rVert^2 + \sum_i \lambda_i\, (1 - a_i \cdot w).$$
#
# If $w$ satisfies the constraints, the second term is at most zero. So
# $\min_w \mathcal{L}(w, \lambda) \le \mathcal{L}(\hat w, \lambda) \le \frac12 \lVert \hat w \rVert^2$,
# whatever the prices. The minimum over $w$ is where the gradient vanishes, $w = \sum_i \lambda_i a_i$.
# Insert it, and choose the prices that give the best bound:
#
# $$\max_{\lambda \ge 0} D(\lambda), \qquad
# D(\lambda) = \sum_i \lambda_i - \tfrac12 \Big\lVert \sum_i \lambda_i a_i \Big\rVert^2 . \tag{D}$$
#
# This is the **dual problem**, and it is the right half of Figure 1 in other clothes. Write
# $\lambda = c\, q$ with normalised $q$. Then $D = c - \frac12 c^2 B(q)^2$ is largest at $c = 1/B(q)^2$,
# where $D = 1/(2 B(q)^2)$. To maximise $D$ is to minimise $B$.

# %% [markdown] slideshow={"slide_type": "subslide"}
# The best $w$ and $\lambda$ satisfy four conditions, named after Karush, Kuhn and Tucker (**KKT**):
#
# | condition | formula | in words |
# |:---|:---|:---|
# | stationarity | $w = \sum_i \lambda_i a_i$ | $w$ is made of signed points |
# | primal feasibility | $a_i \cdot w \ge 1$ | every point keeps its distance |
# | dual feasibility | $\lambda_i \ge 0$ | points push, they never pull |
# | complementary slackness | $\lambda_i\, (a_i \cdot w - 1) = 0$ | beyond the edge of the strip, no push |
#
# They follow from the theorem. Let $q$ make the nearest point, and take $\lambda = q / \hat\mu^2$. Then
# $\sum_i \lambda_i a_i = \hat a / \hat\mu^2 = \hat w$, which is feasible. The products in the last row are
# not negative, and they add up to $\lVert \hat w \rVert^2 - \sum_i \lambda_i = 1/\hat\mu^2 - 1/\hat\mu^2 =
# 0$: each is zero.
#
# Conversely, they prove that a pair is optimal: take the inner product of the first with $w$ and use the
# last to get $\lVert w \rVert^2 = \sum_i \lambda_i$. Then $B(\lambda) = 1 / \lVert w \rVert \le \mu(w)$,
# and the gap is zero.
#
# The points with $\lambda_i > 0$ lie on the edge of the strip, so they are **support vectors** ($a_i \cdot
# \hat w = 1$, as in lesson 01). They alone make $\hat w$. A support vector may have weight 0: question 3.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 02.3: Four numbers that prove optimality
#
# ★★☆ · 10 minutes
#
# For each condition, in the order of the table, return by how much it is violated at
# worst: a number that is 0 where the condition holds and positive where it does not. For stationarity, take
# the entry of $w - \sum_i \lambda_i a_i$ with the largest absolute value; for the others, the worst point.
#
# <details><summary>Hint</summary>
#
# An equation can be violated in both directions, so take absolute values. An inequality is violated in one
# direction only: by $\max(0,\, 1 - a_i \cdot w)$, for example.
# </details>


# %%
@exercise("02.3")
def kkt(w, lam, X, y):
    """Four violations, in the order of the table: shape (4,), for w (d,), lam (n,), X (n, d), y (n,)."""
    ### BEGIN SOLUTION
    A = y[:, None] * X
    slack = A @ w - 1
    return np.array(
        [
            np.abs(w - A.T @ lam).max(),
            np.maximum(-slack, 0).max(),
            np.maximum(-lam, 0).max(),
            np.abs(lam * slack).max(),
        ]
    )
    ### END SOLUTION


# %%
check("02.3", kkt)

# %% [markdown]
# Now question the solver. Besides $w$ it hands out its multipliers, as the constraint's `dual_value`.

# %%
w = cp.Variable(2)
distance = cp.multiply(y, X @ w) >= 1
cp.Problem(cp.Minimize(cp.sum_squares(w) / 2), [distance]).solve()
lam = distance.dual_value

print("violations below 1e-6:", np.array(kkt(w.value, lam, X, y)) < 1e-6)
print("multipliers:", lam.round(3))
support = np.flatnonzero(lam > 1e-6)
alone = primal(X[support], y[support])
print("from points", support, "alone, w_hat is", alone.round(4))
assert np.allclose(lam[support], [1 / 3, 5 / 3], atol=1e-5)
assert np.allclose(alone, w_hat, atol=1e-5)

# %% [markdown]
# Two points carry all the weight, in the proportion $1 : 5$ that we met above. The other ten could be left
# out without moving $\hat w$ at all.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2.5 A dual solver in ten lines
#
# The only constraints of (D), $\lambda_i \ge 0$, leave the coordinates independent of each other. So
# improve one multiplier at a time, and keep $w = \sum_i \lambda_i a_i$ at hand. As a function of
# $\lambda_i$ alone, $D$ is a parabola with
#
# $$\frac{\partial D}{\partial \lambda_i} = 1 - a_i \cdot w, \qquad
# \frac{\partial^2 D}{\partial \lambda_i^2} = -\lVert a_i \rVert^2 ,$$
#
# so the best value $\ge 0$, all other multipliers being held, and the new $w$ are
#
# $$\lambda_i' = \max\Big(0,\ \lambda_i + \frac{1 - a_i \cdot w}{\lVert a_i \rVert^2}\Big), \qquad
# w' = w + (\lambda_i' - \lambda_i)\, a_i .$$
#
# A point that scores less than one pushes $w$ its way. A point that scores more takes back what it pushed
# before.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 02.4: A dual solver in ten lines
#
# ★★☆ · 10 minutes
#
# Start from $\lambda = 0$. A *sweep* updates the points $1, 2, \dots, n$ in this
# order, each with the newest $w$. Return $\lambda$ after the given number of sweeps.
#
# <details><summary>Hint</summary>
#
# Two nested loops. Compute the new multiplier, move $w$ by its *difference* to the old one, then store it.
# Clip the multiplier, not the difference, which may well be negative.
# </details>


# %%
@exercise("02.4")
def dual_ascent(X, y, sweeps):
    """lam after coordinate ascent on (D): shape (n,), for X (n, d), y (n,) and a number of sweeps."""
    ### BEGIN SOLUTION
    A = y[:, None] * X
    lam, w = np.zeros(len(A)), np.zeros(A.shape[1])
    for _ in range(sweeps):
        for i in range(len(A)):
            new = max(0.0, lam[i] + (1 - A[i] @ w) / (A[i] @ A[i]))
            w += (new - lam[i]) * A[i]
            lam[i] = new
    return lam
    ### END SOLUTION


# %%
check("02.4", dual_ascent)

# %% [markdown] slideshow={"slide_type": "subslide"}
# The solver carries its own certificate: $\lambda$ gives $B(\lambda)$, and $w = \sum_i \lambda_i a_i$ gives
# $\mu(w)$. How fast does the gap close? An update without clipping projects $w$ onto the line
# $a_i \cdot w = 1$. Once only the two support vectors have weight, a sweep goes from one line to the other
# and back, towards their crossing $\hat w$. If $\varphi$ is the angle between $a_1$ and $a_7$, each
# projection multiplies the distance of $w$ from $\hat w$ by $\lvert \cos \varphi \rvert$. A sweep is two
# projections. It ends on the line of $a_7$. Along this line, near $\hat w$, both bounds leave $\hat\mu$ in
# proportion to the distance, and the gap opens at the same rate. Hence
#
# $$\frac{\text{gap after one more sweep}}{\text{gap}} = \cos^2 \varphi
# = \frac{(a_1 \cdot a_7)^2}{\lVert a_1 \rVert^2\, \lVert a_7 \rVert^2} = \frac{1}{145} .$$


# %%
def gap(lam, A):
    return 1 - margin(lam @ A, A) / upper_bound(lam, A, np.ones(len(A)))


def after_sweeps(numbers, A):
    return [dual_ascent(A, np.ones(len(A)), k) for k in numbers]  # signed points have label 1


def draw_large(seed, n=100, d=10):
    """Signed points (n, d), separable by the first coordinate."""
    large = np.random.default_rng(seed).normal(size=(n, d))
    large[:, 0] = np.abs(large[:, 0]) + 0.2
    return large


few, many = np.arange(1, 7), np.arange(10, 201, 10)
gaps = [gap(lam, A) for lam in after_sweeps(few, A)]
gaps_large, carriers = [], []
for seed in range(6):
    large = draw_large(seed)
    run, lam, w = [], np.zeros(100), np.zeros(10)
    for sweep in range(1, 201):  # dual_ascent's sweeps, kept as they go
        for i in range(100):
            new = max(0.0, lam[i] + (1 - large[i] @ w) / (large[i] @ large[i]))
            w, lam[i] = w + (new - lam[i]) * large[i], new
        if sweep in many:
            run.append(lam.copy())
    gaps_large.append([gap(lam, large) for lam in run])
    carriers.append([np.flatnonzero(lam) for lam in run])
assert np.allclose(run[0], dual_ascent(large, np.ones(100), 10)), "see exercise 02.4"
print(f"our points: gap {gaps[5]:.0e} after 6 sweeps, ratio from sweep 3 to 4: 1/{gaps[2] / gaps[3]:.1f}")
print("100 points, d = 10, seeds 0 to 5: gap after 200 sweeps", *(f"{run[-1]:.0e}" for run in gaps_large))
print("points with weight at sweeps 10, 20, 50, 100, 200:")
for seed, sets in enumerate(carriers):
    regained = {i for before, after in itertools.pairwise(sets) for i in np.setdiff1d(after, before)}
    counts = [len(sets[k]) for k in (0, 1, 4, 9, 19)]
    print(f"  seed {seed}:", *(f"{count:3d}" for count in counts), f"   regained by {len(regained)} points")
assert abs(gaps[2] / gaps[3] / 145 - 1) < 1e-3, "see exercise 02.4"
assert 3.5e-13 < gaps[5] < 4.5e-13, "see exercise 02.4"
ends = np.array(gaps_large)[:, -1]
assert ends.min() < 1e-6 < 0.03 < ends.max()
assert np.array(gaps_large)[:, 0].min() > 0.1

# %% slideshow={"slide_type": "fragment"} jupyter={"source_hidden": true}
fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.5))
left.semilogy(few, gaps, marker="o", linestyle="", label="measured")
predicted = gaps[1] / 145.0 ** (few - 2)
left.semilogy(few, predicted, color=COLORS["blue"], linestyle="--", linewidth=1.8, label="1/145 per sweep")
left.set(xlabel="sweeps", ylabel=r"gap $1 - \mu(w) / B(\lambda)$", title="our 12 points, $d = 2$")
left.legend()
for seed, (run, marker) in enumerate(zip(gaps_large, "os^DvP", strict=True)):
    right.semilogy(many, run, marker=marker, markersize=4, linewidth=1.2, label=f"seed {seed}")
right.set(xlabel="sweeps", xlim=(0, 205), title="100 points, $d = 10$, six draws")
right.legend(fontsize=9, ncol=2, loc="lower left")
show(
    fig,
    alt="Gap against sweeps in two panels with logarithmic vertical axes. Left: for our points it falls "
    "along the predicted straight line to 4e-13 in six sweeps. Right: for six larger problems it "
    "stays above 0.1 for ten sweeps or more, and at sweep 200 lies between 2e-8 and 5e-2.",
)

# %% [markdown]
# **Figure 2.** The gap of coordinate ascent. Left, dashed: the predicted factor. Right: six random problems.

# %% [markdown]
# After six sweeps the gap is $4 \cdot 10^{-13}$. On a larger problem the solver first has to find
# out *which* points are support vectors. While it does, points lose their weight, and some regain it; after
# ten sweeps every gap is above 0.1. How long this takes no one can say in advance: at sweep 200 the six
# gaps lie between $10^{-8}$ and $5 \cdot 10^{-2}$. Once the support is right, progress is a straight line
# here too. No tolerance has to be guessed: stop when the gap is as small as you need.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2.6 The dual as nonnegative least squares
#
# The nearest point of the hull minimises $\lVert \sum_i q_i a_i \rVert$ over weights that add up to one. Do
# not insist on the sum, but charge for missing it:
#
# $$\min_{\lambda \ge 0} \ \Big\lVert \sum_i \lambda_i a_i \Big\rVert^2 + \Big(1 - \sum_i \lambda_i\Big)^2
# \;=\; \min_{\lambda \ge 0}\ \left\lVert \begin{pmatrix} A^\top \\ 1 \cdots 1 \end{pmatrix} \lambda
# - \begin{pmatrix} 0 \\ 1 \end{pmatrix} \right\rVert^2 . \tag{N}$$
#
# This is a **nonnegative least squares** problem, and `lam, residual = nnls(matrix, target)` solves it
# exactly: `lam` are the weights, `residual` (below: $\mathrm{res}$) is the length that remains, the square
# root of the minimum.
#
# Has the charge spoiled the answer? Write $\lambda = c\, q$ with normalised $q$. The objective is $c^2\,
# \lVert \sum_i q_i a_i \rVert^2 + (1 - c)^2$. For every $c > 0$ the best $q$ is that of the nearest point
# $\hat a$. The proportions are the same; only the sum $c$ is not one. With $\lVert \hat a \rVert =
# \hat\mu$, what remains is $\min_c\, c^2 \hat\mu^2 + (1 - c)^2$.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 02.5: One call decides
#
# ★★☆ · 10 minutes
#
# Minimise over $c$ by hand. The minimum is $\mathrm{res}^2$; solve for $\hat\mu$. Now compute
# $\hat\mu$ with one call of `nnls`. Check that your formula gives 0 where the hull contains the origin and
# no direction separates the points.
#
# <details><summary>Hint: the minimum</summary>
#
# Set the derivative in $c$ to zero, and insert: where is the minimum, and how large?
# </details>
#
# <details><summary>Hint: the arrays</summary>
#
# `np.vstack([A.T, np.ones(n)])` has shape `(d + 1, n)`; the target has shape `(d + 1,)`, all zeros and a
# final one.
# </details>


# %%
@exercise("02.5")
def largest_margin(X, y):
    """The largest margin, 0 if nothing separates: a number, for X (n, d), y (n,)."""
    ### BEGIN SOLUTION
    n, d = X.shape
    _, residual = nnls(np.vstack([(y[:, None] * X).T, np.ones(n)]), np.append(np.zeros(d), 1.0))
    return residual / np.sqrt(1 - residual**2)
    ### END SOLUTION


# %%
check("02.5", largest_margin)

# %% [markdown]
# That makes three roads to one number. `mini_attn`, the library of this course, has more, and chooses by
# the size of the problem (here an interior-point method that solves whole batches at once).
# `svm.label_problem(X, y)` states (P) in torch tensors, and `svm.solve` returns a solution with the fields
# `.value` ($\hat w$), `.dual` (weights, in proportion to $\lambda$), `.margin` and `.gap`.

# %% slideshow={"slide_type": "subslide"}
solution = svm.solve(svm.label_problem(torch.as_tensor(X), torch.as_tensor(y)))
lam = dual_ascent(X, y, sweeps=8)
w_hat, mu_hat = lam @ A, largest_margin(X, y)
print(f"mini_attn.svm.solve: margin {solution.margin:.6f}, gap below 1e-12: {solution.gap.item() < 1e-12}")
assert np.allclose(w_hat, solution.value), "see exercise 02.4"
assert np.allclose(lam / lam.sum(), solution.dual / solution.dual.sum())
assert np.allclose([mu_hat, upper_bound(lam, X, y)], solution.margin), "see exercises 02.2 and 02.5"

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2.7 Gradient descent certifies itself
#
# Back to lesson 01 and its loss, $L(w) = \frac{1}{n} \sum_i \log(1 + e^{-u_i})$ with $u_i = a_i \cdot w$. A
# gradient step moves $w$ along
#
# $$-\nabla L(w) = \frac{1}{n} \sum_i |\ell'(u_i)|\, a_i, \qquad |\ell'(u)| = \frac{1}{1 + e^u} > 0 .$$
#
# A sum of signed points with positive weights: that is all it takes to be a certificate. Normalise,
#
# $$q_i = \frac{|\ell'(u_i)|}{\sum_j |\ell'(u_j)|}, \qquad
# B(q) = \Big\lVert \sum_i q_i a_i \Big\rVert
# = \frac{\lVert \nabla L(w) \rVert}{\frac{1}{n} \sum_i |\ell'(u_i)|},$$
#
# and each step of gradient descent comes with an upper bound on the margin of *every* direction, at the
# cost of one division. We write $q_t$ for the weights at the iterate $w_t$ after $t$ steps. There is reason
# to expect good weights: $|\ell'(u)| \approx e^{-u}$ for large $u$, so as $w$ grows, the points beyond the
# strip lose their weight to those on its edge. Complementary slackness arrives by itself.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 02.6: Certify gradient descent
#
# ★★★ · 12 minutes
#
# `w` is an iterate $w_t$ of gradient descent. Do not normalise it before computing the
# weights: they depend on its length. Return $\mu(w)$ and $B(q)$. It has to work for long $w$ too: in one
# input the $u_i$ are in the thousands, where $e^{u_i}$ overflows and each $|\ell'(u_i)|$ rounds to 0.
#
# <details><summary>Hint</summary>
#
# $\log |\ell'(u)|$ is `-np.logaddexp(0, u)` and harmless. A factor common to all weights cancels in $q$:
# subtract the largest logarithm from all of them before `np.exp`.
# </details>


# %%
@exercise("02.6")
def certify(w, X, y):
    """(mu(w), B(q)) with logistic weights q: two numbers, for w (d,), X (n, d), y (n,)."""
    ### BEGIN SOLUTION
    A = y[:, None] * X
    u = A @ w
    log_weights = -np.logaddexp(0, u)
    q = np.exp(log_weights - log_weights.max())
    q /= q.sum()
    return u.min() / np.linalg.norm(w), np.linalg.norm(q @ A)
    ### END SOLUTION


# %%
check("02.6", certify)

# %% [markdown]
# We repeat the runs of lesson 01 from $w = 0$: gradient descent (GD) with step size 1, and normalised
# gradient descent (NGD), whose steps all have length 0.5.


# %%
def descend(A, step, steps, normalised=False):
    """All iterates (steps, d) of descent on L from w = 0."""
    w, iterates = np.zeros(A.shape[1]), []
    for _ in range(steps):
        log_weights = -np.logaddexp(0, A @ w)
        if normalised:
            weights = np.exp(log_weights - log_weights.max())
            weights *= step / np.linalg.norm(weights @ A)
        else:
            weights = np.exp(log_weights) * step / len(A)
        w = w + weights @ A
        iterates.append(w)
    return np.array(iterates)


def cosine(a, b):
    return a @ b / (np.linalg.norm(a) * np.linalg.norm(b))


runs = {"GD": descend(A, 1.0, 100_000), "NGD": descend(A, 0.5, 1000, normalised=True)}

curves = {}
for name, iterates in runs.items():
    t = np.unique(np.geomspace(1, len(iterates), 50).astype(int))
    lower, upper = np.array([certify(w, X, y) for w in iterates[t - 1]]).T
    short = 1 - np.array([cosine(w, w_hat) for w in iterates[t - 1]])
    curves[name] = t, lower, upper, short
    assert (lower <= mu_hat * (1 + 1e-12)).all(), "see exercise 02.6"
    assert (upper >= mu_hat * (1 - 1e-12)).all(), "see exercise 02.6"
    assert (short <= 1 - lower / upper).all(), "see exercise 02.6"
    proved, true = np.degrees(np.arccos([lower[-1] / upper[-1], cosine(iterates[-1], w_hat)]))
    print(f"{name:3} after {len(iterates):7,} steps: {lower[-1]:.5f} <= mu_hat <= {upper[-1]:.5f}")
    print(f"    angle to w_hat: proved at most {proved:.1f} degrees, true {true:.1f} degrees")
    assert 1 - lower[-1] / upper[-1] < {"GD": 0.034, "NGD": 0.0008}[name], "see exercise 02.6"
    assert upper[-1] / mu_hat - 1 < 1e-5, "see exercise 02.6"

# %% slideshow={"slide_type": "subslide"} jupyter={"source_hidden": true}
fig, axes = plt.subplots(1, 3, figsize=(11, 3.6), width_ratios=[1, 1, 1.25])
axes[1].sharey(axes[0])
colors = COLORS["blue"], COLORS["vermillion"]
for (name, (t, lower, upper, short)), color, ax in zip(curves.items(), colors, axes, strict=False):
    ax.fill_between(t, lower, upper, color=color, alpha=0.25)
    ax.plot(t, np.stack([lower, upper], axis=1), color=color, linewidth=1.4)
    ax.axhline(mu_hat, color=COLORS["black"], linestyle="--", linewidth=1.4)
    ax.set(xscale="log", xlabel="step $t$", title=rf"{name}: $\mu(w_t) \leq \hat\mu \leq B(q_t)$")
    axes[2].loglog(t, 1 - lower / upper, color=color)
    axes[2].loglog(t, short, color=color, linestyle=":")
    ink = plots.ink("blue" if name == "GD" else "vermillion")
    axes[2].text(t[-1], 1.5 * (1 - lower / upper)[-1], name, color=ink)
axes[0].set(ylabel="margin", ylim=(0, 2.4))
axes[2].set(xlabel="step $t$", ylabel=r"$1 - \cos(w_t, \hat w)$", title="error of the direction")
for line, meaning in (("-", "proved (gap)"), (":", "true")):
    axes[2].plot([], [], color=COLORS["black"], linestyle=line, label=meaning)
axes[2].legend(loc="lower left")
show(
    fig,
    alt="Left and middle: for each run a band between lower and upper bound, against steps on a logarithmic "
    "axis; both close on the dashed best margin, the upper edges long before the lower ones. Right: for both "
    "runs the proved error of the direction lies above the true one.",
)

# %% [markdown]
# **Figure 3.** Left and middle: lower and upper bound on $\hat\mu$ (dashed) along both runs. Right: what
# the gap proves about the direction (solid), which needs no solver, and what is true (dotted), which does.

# %% [markdown]
# On these points that answers the question of this lesson. After 100,000 steps, GD's own weights prove that
# its margin is within 3.4 percent of the largest; after 1,000, NGD's prove 0.08 percent.
#
# Here the weights are far ahead of the direction: in both runs the upper bound is right to five digits, and
# what remains of the gap is the direction's true shortcoming. About the *angle* the proof is modest, 14.9
# degrees where 4.4 are true. Turning by a small angle $\theta$ costs the margin in proportion to $\theta$,
# but the cosine only $\theta^2/2$. Part 3 of the theorem compares a loss of order $\theta$ with one of
# order $\theta^2/2$, so it is loose.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Beyond the plane, and too long a step
#
# Do the weights always become good? Lesson 01 found a longest step: beyond it, normalised descent jumps to
# and fro across its line for ever. Its *direction* survives this, because the norm grows. The *weights*
# $q_t$ do not: they depend on where $w_t$ is, not on its direction. In $d$ dimensions the parts $c_i$ of
# the $a_i$ across $\hat w$ are vectors, and the longest step is
#
# $$\eta_{\max} = \frac{2\hat\mu}{\text{largest eigenvalue of } \sum_i q_i\, c_i c_i^\top},
# \qquad q \text{ of the nearest point.}$$
#
# There is a second set of weights at hand: the *total* that each point has received in all steps. Starting
# from 0, $w_t$ is the sum of the signed points with exactly these weights, so $B = \lVert w_t \rVert /
# \sum_i \lambda_i$; and totals do not jump.


# %%
def latest_and_total(A, step, steps):
    """After NGD from 0: mu(w), and B of the latest and of the total weights."""
    w, total = np.zeros(A.shape[1]), np.zeros(len(A))
    for _ in range(steps):
        log_weights = -np.logaddexp(0, A @ w)
        weights = np.exp(log_weights - log_weights.max())
        weights *= step / np.linalg.norm(weights @ A)
        w, total = w + weights @ A, total + weights
    lower, latest = certify(w, A, np.ones(len(A)))
    return lower, latest, np.linalg.norm(total @ A) / total.sum()


print("How far B lies above the largest margin (percent), and the gap with the better of the two")
print("seed  longest step   steps of 0.5: latest  total    gap     0.9 of the longest: latest  total    gap")
for seed in range(6):
    large = draw_large(seed)
    best = svm.solve(svm.label_problem(torch.tensor(large), torch.ones(100, dtype=torch.float64)))
    mu, q = best.margin.item(), (best.dual / best.dual.sum()).numpy()
    unit = best.value.numpy() * mu
    parts = large - np.outer(large @ unit, unit)
    longest = 2 * mu / np.linalg.eigvalsh((parts * q[:, None]).T @ parts)[-1]
    line = f"{seed:3d} {longest:12.3f}       "
    for step, steps in ((0.5, 1000), (0.9 * longest, 5000)):
        lower, *uppers = latest_and_total(large, step, steps)
        latest, total = (100 * (upper / mu - 1) for upper in uppers)
        proved = 1 - lower / min(uppers)
        line += f"{latest:18.1f} {total:6.1f} {proved:7.3f}   "
        assert total < 4.5, "see exercise 02.6"
        assert (latest < 1) == (step < longest), "see exercise 02.6"
        assert proved < (0.06 if step == 0.5 else 0.006), "see exercise 02.6"
    print(line)
assert longest < 0.5

# %% [markdown]
# In ten dimensions steps of 0.5 are two to four times too long. The latest weights then stay 80 to 240
# percent above the largest margin, however long one runs; the total ones prove it within 4 percent. With
# 0.9 of the longest step the latest weights are right within one percent, and the gap is half a percent or
# less. On our twelve points the longest step was 3.54, and 0.5 was short.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2.8 One more point
#
# What does a thirteenth point do to the strip? It depends on where it lands.


# %%
def with_point(extra, label):
    """Signed points, normalised weights and largest margin (0: none) when the point extra is added."""
    A13 = np.vstack([A, label * np.asarray(extra)])
    lam, residual = nnls(np.vstack([A13.T, np.ones(13)]), np.array([0.0, 0.0, 1.0]))
    return A13, lam / lam.sum(), residual / np.sqrt(1 - residual**2)


places = np.array([[1, 2.5], [0, 0.5], [-1.5, 0]])
outcomes = [with_point(place, 1.0) for place in places]
for place, (_, q, mu) in zip(places, outcomes, strict=True):
    print(f"star at {place}: largest margin {mu:.3f}, weight on points", *np.flatnonzero(q) + 1)
assert np.flatnonzero(outcomes[0][1]).tolist() == [0, 6]
assert outcomes[1][1][12] > 0
assert np.count_nonzero(outcomes[2][1]) == 3
assert outcomes[2][2] < 1e-12
assert np.isclose(with_point([0.3, 0.3], 1.0)[2], np.hypot(0.3, 0.3))  # for the question below


# %% slideshow={"slide_type": "subslide"} jupyter={"source_hidden": true}
def draw_with(extra, label, ax):
    """The SVM of our points and one more (star); the area of a ring shows the point's weight q_i."""
    A13, q, mu = with_point(extra, label)
    X13 = np.vstack([X, extra])
    plots.points(X, y, ax, size=40)
    color = COLORS["blue"] if label > 0 else COLORS["vermillion"]
    ax.scatter(*extra, marker="*", s=260, color=color, edgecolor="white", zorder=5)
    ax.scatter(*X13[q > 0].T, s=60 + 700 * q[q > 0], facecolor="none", edgecolor=COLORS["black"], zorder=4)
    ax.set(xlim=(-4.3, 4.3), ylim=(-4.3, 4.3))
    if mu > 1e-9:
        plots.boundary(q @ A13, ax, margin=mu)
        ax.set_title(rf"$\hat\mu$ = {mu:.3f}")
    else:
        ax.set_title("no separator")


fig, axes = plt.subplots(1, 3, figsize=(10.5, 3.7))
for place, ax in zip(places, axes, strict=True):
    draw_with(place, 1.0, ax)
show(
    fig,
    alt="Three panels with the twelve points and a star. Star beyond the strip: nothing changes. Star inside "
    "the strip: the strip turns and narrows, and the star carries a large ring. Star among the other class: "
    "no separating line, three ringed points.",
)

# %% [markdown]
# **Figure 4.** A new point of label $+1$ (star); a ring's area grows with the point's weight $q_i$. Left:
# beyond the strip it changes nothing. Middle: inside the strip it becomes a support vector. Right: among
# the other class it leaves no separator; section 2.9 says what its rings prove.


# %% tags=["nbval-ignore-output", "widget"]
def with_star(first, second, label):
    figure = Figure(figsize=(5, 5), layout="none")
    draw_with(np.array([first, second]), label, figure.add_axes((0.14, 0.12, 0.82, 0.8)))
    return figure


widgets.sliders(
    with_star,
    alt="The twelve points, the star, and the widest strip, or the points that prove that there is none.",
    first=FloatSlider(value=0.0, min=-4, max=4, step=0.1, description="star, x₁"),
    second=FloatSlider(value=0.5, min=-4, max=4, step=0.1, description="star, x₂"),
    label=ToggleButtons(options=[("label +1", 1.0), ("label -1", -1.0)]),
)

# %% [markdown] slideshow={"slide_type": "skip"}
# Move the star. Where does it take *all* the weight? What does its distance from the origin say then?
#
# <details><summary>Answer</summary>
#
# Where its signed point is itself the nearest point of the hull, at (0.3, 0.3) for example. Then $\hat w$
# points to the star, and its distance from the origin is the largest margin.
# </details>

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2.9 Where it breaks
#
# **No separator.** If the hull contains the origin, some weights have $B(\lambda) = 0$: no direction has a
# positive margin. If it does not, its nearest point separates, by the proof above. There is no third case.
#
# > **Theorem** (Gordan 1873). *Exactly one of these exists: a direction $w$ with $a_i \cdot w > 0$ for all
# > $i$, or weights $\lambda \ge 0$, not all zero, with $\sum_i \lambda_i a_i = 0$.*
#
# Such weights are called a **Farkas ray**, after the general lemma on linear inequalities. "I found no
# separator" is a report; a Farkas ray is a proof. You have seen one: the three rings in Figure 4, right,
# where the star stands among the other class. Now flip the label of one of our points, and see the same
# call find the ray. With `throw=False`, `svm.solve` hands it out as `.dual` instead of raising an error.
#
# **Predict before you run on.** Which of the twelve flips leave no separator?

# %%
y_bad = np.where(np.arange(12) == 7, -y, y)
A_bad = y_bad[:, None] * X

ray, _ = nnls(np.vstack([A_bad.T, np.ones(12)]), np.append(np.zeros(2), 1.0))
proof = np.flatnonzero(ray)
print("points", proof, "weights", ray[proof].round(3), "zero sum:", np.allclose(ray @ A_bad, 0))

answer = svm.solve(svm.label_problem(torch.as_tensor(X), torch.as_tensor(y_bad)), throw=False)
print("mini_attn.svm.solve:", answer.status, "zero sum:", np.allclose(answer.dual.numpy() @ A_bad, 0))
flips = [largest_margin(X, np.where(np.arange(12) == i, -y, y)) for i in range(12)]
print("a separator is left after flipping point", *(i + 1 for i in range(12) if flips[i] > 1e-9))
assert [i for i in range(12) if flips[i] > 1e-9] == [0, 6], "see exercise 02.5"

# %% [markdown]
# Only the support vectors can change sides: they are so near to the boundary that a line on their other
# side still separates all. Every other flip ends in a Farkas ray.

# %%
sweeps = np.array([1, 2, 5, 10, 20, 50, 100, 200])
multipliers = np.array([dual_ascent(X, y_bad, k) for k in sweeps])
bounds = np.array([upper_bound(lam, X, y_bad) for lam in multipliers])
steps = np.unique(np.geomspace(1, 400, 30).astype(int))
logistic_bounds = np.array([certify(w, X, y_bad)[1] for w in descend(A_bad, 1.0, 400)[steps - 1]])
for k, lam in zip(sweeps[3:], multipliers[3:], strict=True):
    print(f"sweep {k:3}: w = {(lam @ A_bad).round(4)}, sum of the multipliers {lam.sum():6.1f}")
growth = np.diff(multipliers.sum(axis=1)) / np.diff(sweeps)
assert np.ptp(multipliers[3:] @ A_bad, axis=0).max() < 1e-6, "see exercise 02.4"
assert np.ptp(growth[3:]) < 1e-3, "see exercise 02.4"
assert logistic_bounds[-1] < 1e-8, "see exercise 02.6"
assert len(proof) == 3
y_other = np.where(np.arange(12) == 2, -y, y)  # point 3 instead
other = certify(descend(y_other[:, None] * X, 1.0, 400)[-1], X, y_other)[1]
print(f"logistic weights after 400 steps: B = {logistic_bounds[-1]:.0e}; with point 3 flipped {other:.0e}")
assert 0.02 < other < 0.1, "see exercise 02.6"

# %% slideshow={"slide_type": "subslide"} jupyter={"source_hidden": true}
fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.7), width_ratios=[1.2, 1])
draw_hull(A_bad, left)
left.scatter(*A_bad[ray > 0].T, s=200, facecolor="none", edgecolor=COLORS["black"], zorder=4)
right.loglog(sweeps, bounds, marker="o", linestyle="", label="dual ascent, sweeps")
line = bounds[-1] * 200 / sweeps
right.loglog(sweeps, line, color=COLORS["blue"], linestyle="--", linewidth=1.8, label="slope $-1$")
red = COLORS["vermillion"]
right.loglog(steps, logistic_bounds, marker="s", markersize=4, color=red, label="logistic weights, steps")
right.set(xlabel="sweeps or steps", ylabel="upper bound $B$", ylim=(1e-9, 3))
right.legend(loc="lower left")
show(
    fig,
    alt="Left: signed points, one of them now on the far side of the origin, so that their hull contains the "
    "origin; three ringed points form a triangle around it. Right: upper bounds on the margin falling to "
    "zero, for dual ascent along the dashed line of slope minus one, for logistic weights faster and faster "
    "until the last step shown, 400.",
)

# %% [markdown]
# **Figure 5.** Left: with one label flipped, the hull contains the origin, and so does the triangle of the
# three ringed points. Right: upper bounds on the margin of every direction. The run on the logistic loss
# is shown for 400 steps; it goes on to fall.

# %% [markdown]
# The dual is now unbounded. Along the ray, $\sum_i \lambda_i$ grows at no cost in $\lVert \sum_i \lambda_i
# a_i \rVert$, and in the end coordinate ascent does just that: here from sweep 10 on each sweep adds the
# same amount, while $w$ ends every sweep at the same place, so $B(\lambda)$ falls as one over the number of
# sweeps. (How soon it settles depends on the data: with the label of point 3 flipped instead, after more
# than a thousand sweeps.)
#
# The logistic loss, for its part, now has a minimiser. The origin lies *inside* the hull, so for every $w$
# some $a_i \cdot w$ is negative, and $L$ grows in every direction. (With the origin on the edge of the hull
# it need not: along some $w$, no $a_i \cdot w$ is negative.) At the minimiser the gradient is zero,
# $\sum_i |\ell'(u_i)|\, a_i = 0$ with positive weights: *the logistic optimum is a Farkas ray*. So the same
# `certify` proves quality where a separator exists, and tends to a proof of hopelessness where none does.
# In finite time it has only proved that no margin exceeds $B > 0$; and $B$ may fall slowly, as with
# point 3.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Questions
#
# <details><summary>1. A direction has margin 0.50, some weights have B = 0.52. What do you know?</summary>
#
# $0.50 \le \hat\mu \le 0.52$, and $\cos(w, \hat w) \ge 0.50/0.52 \approx 0.96$. Where either came from does
# not matter.
# </details>
#
# <details><summary>2. Every point is repeated. What happens to the direction and the multipliers?</summary>
#
# The hull is the same, hence the direction. The multipliers are no longer unique: copies may share a weight
# in any way.
# </details>
#
# <details><summary>3. Can a point lie on the edge of the strip and have multiplier 0?</summary>
#
# Yes. Slackness says that weight implies edge, not that edge implies weight. Three points on the edge in
# the plane: two of them can suffice.
# </details>
#
# <details><summary>4. Why is the logistic gradient never zero on separable data?</summary>
#
# It would be a Farkas ray. In numbers, $\lVert \nabla L \rVert = B(q)\, \overline{|\ell'|} \ge \hat\mu\,
# \overline{|\ell'|} > 0$, with $\overline{|\ell'|}$ the mean of the $|\ell'(u_i)|$.
# </details>
#
# <details><summary>5. You double all points. What happens to the longest step?
# </summary>
#
# $\hat\mu$ doubles and the $c_i$ double, so it is halved: 1.77 for our twelve points.
# </details>

# %%
progress("02")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - With signed points $a_i = y_i x_i$, the hard-margin SVM is the shortest $w$ with all
#   $a_i \cdot w \ge 1$, and equally the point of their convex hull nearest to the origin.
# - A direction gives a lower bound $\mu(w)$, weights give an upper bound $B(\lambda)$, and the two prove
#   $\cos(w, \hat w) \ge \mu(w) / B(\lambda)$.
# - The points with weight are support vectors. Coordinate ascent finds them, and so does one call of
#   `nnls`.
# - The weights in the logistic gradient are such weights: descent certifies itself if its steps are below
#   $2\hat\mu$ over the largest eigenvalue of $\sum_i q_i c_i c_i^\top$; beyond, the total weights still do.
#   Where nothing separates, they tend to the proof.
#
# In lesson 06 the same problem returns with differences of tokens in place of the $a_i$, and with it the
# certificate.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Further reading
#
# - Bennett & Bredensteiner, *Duality and Geometry in SVM Classifiers* (ICML 2000): the same geometry with
#   a bias, where the hulls of the two classes are what is near or far.
# - Boyd & Vandenberghe, *Convex Optimization* (2004), chapter 5: duality, KKT and theorems of alternatives.
# - Hsieh et al., *A Dual Coordinate Descent Method for Large-scale Linear SVM* (ICML 2008): section 2.5 at
#   scale.
# - Lawson & Hanson, *Solving Least Squares Problems* (1974), chapter 23: section 2.6.
# - Ji & Telgarsky, *Characterizing the implicit bias via a primal-dual analysis* (ALT 2021): section 2.7 as
#   a theory.
#
# **New in the library:** [`svm.solve`](../mini_attn/svm/dispatch.py),
# [`svm.HardMarginProblem`](../mini_attn/svm/problem.py),
# [`svm.label_problem`](../mini_attn/svm/problem.py), [`svm.Solution`](../mini_attn/svm/solution.py).
#
# **Next:** in [lesson 03](03_optimizer_geometry.ipynb) the optimiser changes, and with it the norm in which
# $\hat w$ is shortest.
