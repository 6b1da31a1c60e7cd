# %% [markdown] slideshow={"slide_type": "slide"}
# # 02 · The hard-margin SVM and its certificate
#
# In [lesson 01](01_logistic_regression_bias.ipynb) we could say how far gradient descent was from the best
# direction because we knew the best direction: in the plane we had tried them all. Beyond the plane nobody
# can.
#
# **The question: you hold the points and a direction, nothing else; how do you *prove* how good the direction
# is?**
#
# With a second set of numbers, one weight per point. Any weights prove a bound; the right weights prove the
# exact answer. Gradient descent on the logistic loss computes weights at every step.

# %% [markdown] slideshow={"slide_type": "skip"}
# **After this lesson you can**
#
# - write the hard-margin SVM as an optimisation problem, and its dual as a search for the nearest point;
# - prove how far a direction is from the best, in margin and in degrees, without knowing the best;
# - tell support vectors and multipliers from the optimality conditions, and what a point's move is worth;
# - solve the dual in ten lines of NumPy, and predict the pace of its last phase;
# - prove that no separating direction exists, where none does.
#
# **You need** lesson 01, linear algebra, calculus and NumPy. No duality theory: what we use we prove. About
# 85 minutes without the optional section 2.9, five exercises.

# %%
import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure
from scipy.optimize import nnls
from scipy.spatial import ConvexHull
from scipy.special import softmax

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
    """mu(w); with leading dimensions, one for each problem."""
    return np.einsum("...nd,...d->...n", A, w).min(-1) / np.linalg.norm(w, axis=-1)


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
right.text(0.6, 0.46, r"$\hat a$", fontsize=14)
for i, offset in ((0, (2, -20)), (6, (-2, 8))):
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
# **Figure 1.** The same data twice. Left: the widest strip around a line through the origin. Right: the
# signed points, their convex hull, and its point $\hat a$ nearest to the origin (cross).

# %% [markdown] slideshow={"slide_type": "subslide"}
# On the left we maximise: turn the line until the strip is as wide as it can be. On the right we minimise:
# move over the hull until the origin is as near as it can be. *Both searches end at the same place*: the best
# direction is that of $\hat a$, and the largest margin is its length. So any direction on the left gives a
# lower bound for $\hat\mu$, and any point on the right an upper bound.

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
# This is the **hard-margin SVM**. With two points it can be solved by hand.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 02.1: Two points by hand
#
# ★★☆ · 8 minutes
#
# Solve (P) for two signed points $a$ and $b$, without a solver. They are different and do not point in
# opposite directions. Which constraints are tight?
#
# <details><summary>Hint: one tight constraint</summary>
#
# The shortest $w$ with $a \cdot w \ge 1$ alone is $a / \lVert a \rVert^2$. If $b$ is content with it, you
# are done.
# </details>
#
# <details><summary>Hint: two</summary>
#
# A part of $w$ outside the plane of $a$ and $b$ would make it longer and change nothing. So $w$ combines
# them, and two equations settle how.
# </details>


# %%
@exercise("02.1")
def two_points(a, b):
    """The shortest w with a.w >= 1 and b.w >= 1: shape (d,), for a (d,), b (d,)."""
    ### BEGIN SOLUTION
    for one, other in ((a, b), (b, a)):
        w = one / (one @ one)
        if other @ w >= 1:
            return w
    A = np.stack([a, b])
    return np.linalg.solve(A @ A.T, np.ones(2)) @ A
    ### END SOLUTION


# %%
check("02.1", two_points)

# %% [markdown]
# Now all twelve. `svm.label_problem(X, y)` states (P) in torch tensors, and `svm.solve` returns $\hat w$, its
# margin, and in `.dual` one number for each constraint.

# %%
solution = svm.solve(svm.label_problem(torch.as_tensor(X), torch.as_tensor(y)))
w_hat, mu_hat, numbers = solution.value.numpy(), solution.margin.item(), solution.dual.numpy()
print("w_hat:", w_hat.round(4), "  margin:", margin(w_hat, A).round(4))
assert np.allclose(w_hat, [1, 1], atol=1e-4)
assert np.allclose(two_points(A[0], A[6]), w_hat, atol=1e-4), "see exercise 02.1"

# %% [markdown]
# Points 1 and 7 alone give the same direction. That its margin is 0.7071, you can verify by hand. That no
# direction has a larger one, you have only been told.

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
# no longer contains $w$.
#
# Only proportions matter, so we often use the **normalised weights** $q_i = \lambda_i / \sum_j \lambda_j$,
# which add up to one. In Figure 1, $\bar a = \sum_i q_i a_i$ is a point of the hull, and $B = \lVert \bar a
# \rVert$ is its distance from the origin.


# %%
def upper_bound(lam, A):
    """B(lam); with leading dimensions, one for each problem."""
    return np.linalg.norm(np.einsum("...n,...nd->...d", lam, A), axis=-1) / lam.sum(-1)


point = np.eye(12)  # row i: all the weight on point i
choices = {
    "equal": np.ones(12),
    "point 7 alone": point[6],
    "points 1 and 7, as 1 : 5": point[0] + 5 * point[6],
}
for name, lam in choices.items():
    print(f"{name:24} no direction has a margin above {upper_bound(lam, A):.4f}")
assert np.isclose(upper_bound(lam, A), np.sqrt(0.5))

# %% [markdown]
# All three are true, and the last one closes the case: no direction beats 0.7071. You can verify
# it by hand, $(a_1 + 5 a_7)/6 = (0.5, 0.5)$. Such weights always exist:

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
# > Source: 1 and 2 are in Bennett & Bredensteiner (2000); all three are proved below.

# %% [markdown]
# **Proof.** We have seen 1.
#
# For 2, let $\hat a$ be the nearest point (the hull is closed and bounded, so there is one). Go a little
# towards some $a_i$. This stays in the hull, so it cannot bring us nearer to the origin: the derivative of
# $\lVert \hat a + r(a_i - \hat a) \rVert^2$ at $r = 0$, which is $2\, \hat
# a \cdot (a_i - \hat a)$, is not negative. Hence $a_i \cdot \hat a \ge \lVert \hat a \rVert^2$ for all $i$.
# If $\hat a$ were 0, weights with $B(\lambda) = 0$ would contradict 1. So divide by $\lVert \hat a \rVert$:
# $\mu(\hat a) \ge \lVert \hat a \rVert = B(q)$. By 1, both are $\hat\mu$.
#
# For 3, average $a_i \cdot w / \lVert w \rVert \ge \mu(w)$ with the weights that make $\hat a$. This gives
# $\lVert \hat a \rVert \cos(w, \hat a) \ge \mu(w)$. If $w$ is a best direction, $\mu(w) = \hat\mu = \lVert
# \hat a \rVert$, the cosine must be 1: $\hat a$ is the only best direction, so it is that of $\hat w$. For
# every other $w$, $\cos(w, \hat w) \ge \mu(w) / \hat\mu$, and $\hat\mu \le B(\lambda)$ with $\mu(w) \ge 0$
# gives the claim. $\square$

# %% [markdown] slideshow={"slide_type": "fragment"}
# Together, $w$ and $\lambda$ are a **certificate**. Its quality is the **gap**
#
# $$\mathrm{gap} = 1 - \frac{\mu(w)}{B(\lambda)} .$$
#
# A gap of 0.01 proves that the margin is within one percent of the largest and the cosine at least 0.99, and
# anyone can check it with two matrix products.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 02.2: The smallest angle you can prove
#
# ★★☆ · 7 minutes
#
# You hold a direction $w$, weights $\lambda$ and the $a_i$, and no solver. Both $w$ and $\bar a = \sum_i q_i
# a_i$ separate the points. How small an angle between $w$ and $\hat w$ can you prove, in degrees, with part 3
# and the triangle inequality? (The angle from $w$ to $\hat w$ is at most that from $w$ to any third direction
# plus that from there to $\hat w$.) Use no third direction but $\bar a$.
#
# <details><summary>Hint</summary>
#
# Part 3 is about any direction: $\bar a$ is one, and has a margin of its own. Where two proofs hold, which do
# you keep?
# </details>


# %%
@exercise("02.2")
def proved_angle(w, lam, A):
    """A bound on the angle between w and w_hat, in degrees: a number, for w (d,), lam (n,), A (n, d)."""
    ### BEGIN SOLUTION
    a_bar = lam @ A / lam.sum()
    B = np.linalg.norm(a_bar)
    cosines = np.array([margin(w, A), w @ a_bar / np.linalg.norm(w), margin(a_bar, A)]) / B
    direct, to_a_bar, from_a_bar = np.degrees(np.arccos(np.minimum(1, cosines)))  # rounding may exceed 1
    return min(direct, to_a_bar + from_a_bar)
    ### END SOLUTION


# %%
check("02.2", proved_angle)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2.4 The best weights: dual problem and optimality conditions
#
# The search for the nearest point has a condition, that the weights add up to one. The **dual problem** does
# without:
#
# $$\max_{\lambda \ge 0} D(\lambda), \qquad
# D(\lambda) = \sum_i \lambda_i - \tfrac12 \Big\lVert \sum_i \lambda_i a_i \Big\rVert^2 . \tag{D}$$
#
# Write $\lambda = \Lambda q$ with normalised $q$. Then $D = \Lambda - \frac12 \Lambda^2 B(q)^2$ is largest at
# $\Lambda = 1/B(q)^2$, where $D = 1/(2 B(q)^2)$: to maximise $D$ is to minimise $B$. The best $\lambda_i$ are
# the **multipliers**.

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
# For $w$ and $\lambda$ to be optimal these are necessary and sufficient.
#
# <details><summary>Why</summary>
#
# They follow from the theorem. Let $\hat q$ make the nearest point, and take $\lambda = \hat q / \hat\mu^2$.
# Then $\sum_i \lambda_i a_i = \hat a / \hat\mu^2 = \hat w$, which is feasible. The products in the last row
# are not negative, and they add up to $\lVert \hat w \rVert^2 - \sum_i \lambda_i = 1/\hat\mu^2 - 1/\hat\mu^2
# = 0$: each is zero.
#
# Conversely, they prove that a pair is optimal: take the inner product of the first with $w$ and use the
# last to get $\lVert w \rVert^2 = \sum_i \lambda_i$. Then $B(\lambda) = 1 / \lVert w \rVert \le \mu(w)$,
# and the gap is zero. $\square$
# </details>
#
# The points with $\lambda_i > 0$ lie on the edge of the strip, so they are **support vectors** ($a_i \cdot
# \hat w = 1$, as in lesson 01). They alone make $\hat w$. A support vector may have weight 0 (question 1).

# %%
lam_hat = numbers / numbers.sum() / mu_hat**2  # the solver's are in proportion to these
print("multipliers:", lam_hat.round(3))
support = np.flatnonzero(lam_hat > 1e-6)
print("weight on points", support + 1)
assert np.allclose(lam_hat @ A, w_hat, atol=1e-4)
assert np.allclose(lam_hat[support], [1 / 3, 5 / 3], atol=1e-4)

# %% [markdown]
# Two points carry all the weight, in the proportion $1 : 5$ that we met above.
#
# Move $a_i$ by a little $\delta$, and let $u = \hat w / \lVert \hat w \rVert$. The old weights still prove a
# bound, $\lVert \hat a + \hat q_i\, \delta \rVert$, which is $\hat\mu + \hat q_i\, \delta \cdot u$ to first
# order. Where $\hat q$ is unique, the new margin comes as near: to first order $\hat\mu$ changes by
# $\hat q_i\, \delta \cdot u$. *A point is worth its weight.* And a move that is not small?
#
# <details><summary>Why it comes as near</summary>
#
# The new margin, the length of a hull point with the new best weights $q$, is at least the part of that point
# along $u$, which is at least $\hat\mu + q_i\, \delta \cdot u$. Where $\hat q$ is unique, $q_i$ tends to
# $\hat q_i$ as $\delta$ shrinks. $\square$
# </details>

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 02.3: A move of length r
#
# ★★★ · 10 minutes
#
# Two signed points, $a$ and $b$, carry all the weight; $a$ has the share $q$. Now $a$ moves by the length
# $r$, in whichever direction, and the other points stay. Predict the least and the greatest value that the
# largest margin can have then. Assume that $a$ and $b$ both keep some weight, that no
# other point gets any, and that some direction still separates.
#
# <details><summary>Hint: for one line</summary>
#
# Hold a direction $w$ of length one. Which move of $a$ is the worst for it? For the best $w$, knowing that
# the worst move comes, $a$ and $b$ end at equal distances: one equation.
# </details>
#
# <details><summary>Hint: the angle</summary>
#
# The strip turns by some angle, in the plane of $a$ and $b$. Where does $a - b$ point, seen from $\hat w$?
# </details>
#
# <details><summary>Hint: the margin</summary>
#
# Equal distances are equal to any average of them. Take the one with the old weights.
# </details>


# %%
@exercise("02.3")
def after_move(mu_hat, q, apart, r):
    """(least, greatest) largest margin after a move: for the old one, the share of a, ||a - b||, length."""
    ### BEGIN SOLUTION
    turned = np.sqrt(1 - (r / apart) ** 2)  # the cosine of the strip's turn: its sine is r / apart
    return mu_hat * turned - q * r, mu_hat * turned + q * r
    ### END SOLUTION


# %%
check("02.3", after_move)

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
# A *sweep* updates all points in turn, each with the newest $w$.


# %%
def dual_ascent(A, sweeps):
    """lam after each sweep of coordinate ascent on (D) from 0: (sweeps, n), for signed points A (n, d)."""
    lam, w, kept = np.zeros(len(A)), np.zeros(A.shape[1]), []
    for _ in range(sweeps):
        for i, a in enumerate(A):
            new = max(0.0, lam[i] + (1 - a @ w) / (a @ a))
            w += (new - lam[i]) * a
            lam[i] = new
        kept.append(lam.copy())
    return np.array(kept)


def gap_of(lam, A):
    """The gap of w = sum of lam_i a_i; with leading dimensions, one for each lam."""
    return 1 - margin(lam @ A, A) / upper_bound(lam, A)


gaps = gap_of(dual_ascent(A, 6), A)
print(f"gap after 6 sweeps {gaps[5]:.0e}; ratio from sweep 3 to 4: 1/{gaps[2] / gaps[3]:.1f}")
assert np.allclose(np.divide(gaps[2:4], gaps[3:5]), 145, rtol=1e-3)
assert 3.5e-13 < gaps[5] < 4.5e-13

# %% [markdown] slideshow={"slide_type": "subslide"}
# On our points the gap soon falls by a factor of 145 with each sweep. Why 145? An update without clipping
# projects $w$ onto the line $a_i \cdot w = 1$. Once only points 1 and 7 have weight, a sweep goes from one
# line to the other and back, towards their crossing $\hat w$. Each projection multiplies the distance of $w$
# from $\hat w$ by $\lvert \cos \varphi \rvert$, where $\varphi$ is the angle between $a_1$ and $a_7$. Near
# $\hat w$ the gap is in proportion to this distance, so
#
# $$\frac{\text{gap after one more sweep}}{\text{gap}} = \cos^2 \varphi
# = \frac{(a_1 \cdot a_7)^2}{\lVert a_1 \rVert^2\, \lVert a_7 \rVert^2} = \frac{1}{145} .$$
#
# And with more than two support vectors?

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 02.4: The factor of a sweep
#
# ★★★ · 12 minutes
#
# Only the $k$ rows of `A`, linearly independent, have weight, and no update is clipped any more. By which
# factor does a sweep multiply the distance of $\lambda$ from its limit, in the long run? Compute it without
# running a sweep.
#
# <details><summary>Hint: the limit</summary>
#
# There, every $a_i \cdot w = 1$: with $G = A A^\top$, $\ G \lambda = (1, \dots, 1)$.
# </details>
#
# <details><summary>Hint: one sweep</summary>
#
# When $\lambda_i$ is set, the multipliers before it are new and those after it old. Write $G$ as its lower
# triangle (with the diagonal) plus the rest: which of the two multiplies $\lambda'$, which $\lambda$?
# </details>
#
# <details><summary>Hint: the long run</summary>
#
# The error is multiplied by a matrix, again and again. Which of its numbers decides? (The matrix is not
# symmetric.)
# </details>


# %%
@exercise("02.4")
def sweep_factor(A):
    """By how much a sweep shrinks the error in the long run: a number, for A (k, d)."""
    ### BEGIN SOLUTION
    G = A @ A.T
    lower = np.tril(G)
    return np.abs(np.linalg.eigvals(np.linalg.solve(lower, lower - G))).max()
    ### END SOLUTION


# %%
check("02.4", sweep_factor)

# %% [markdown]
# A sweep multiplies the error by $-G_1^{-1} G_2$, with $G_1$ the lower triangle of $G$ and $G_2$ the rest. In
# the long run the size of this matrix's largest eigenvalue decides, if the error has a part there. Six random
# problems, with 40 points in six dimensions, 600 sweeps each:


# %%
def draw(seed, n=40, d=6):
    """Signed points (n, d), separable by the first coordinate."""
    points = np.random.default_rng(seed).normal(size=(n, d))
    points[:, 0] = np.abs(points[:, 0]) + 0.2
    return points


draws = np.stack([draw(seed) for seed in range(30)])  # (30, 40, 6)
tails = []
print("seed   support settled at sweep   factor predicted   measured on the gap")
for seed, points in enumerate(draws[:6]):
    path = dual_ascent(points, 600)
    held, gap = path > 0, gap_of(path, points)
    settled = np.flatnonzero((held[1:] != held[:-1]).any(1))[-1] + 2
    end = min([*np.flatnonzero(gap < 1e-10), 599])  # beyond, rounding
    middle = (settled + end) // 2
    S = points[held[-1]]
    factor = sweep_factor(S)
    values = np.linalg.eigvals(np.linalg.solve(np.tril(S @ S.T), -np.triu(S @ S.T, 1)))
    pair = abs(values[abs(values).argmax()].imag) > 1e-6
    measured = (gap[end] / gap[middle]) ** (1 / (end - middle))
    tails.append((gap, settled, factor))
    print(f"{seed:4} {settled:26} {factor:18.3f} {measured:21.3f}{' (complex pair)' if pair else ''}")
    assert abs(measured / factor - 1) < (0.02 if pair else 0.004), "see exercise 02.4"

# %% slideshow={"slide_type": "fragment"} jupyter={"source_hidden": true}
fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.7), width_ratios=[1, 1.5])
few = np.arange(1, 7)
left.semilogy(few, gaps, marker="o", linestyle="", label="measured")
guide = gaps[1] / 145.0 ** (few - 2)
left.semilogy(few, guide, color=COLORS["blue"], linestyle="--", linewidth=1.8, label="1/145 per sweep")
left.set(xlabel="sweeps", ylabel=r"gap $1 - \mu(w) / B(\lambda)$", title="our 12 points, $d = 2$")
left.legend()
names = "blue", "vermillion", "green", "orange", "purple", "black"
for seed, ((gap, settled, factor), name) in enumerate(zip(tails, names, strict=True)):
    end = min([*np.flatnonzero(gap < 1e-12), 600])
    right.semilogy(np.arange(1, end + 1), gap[:end], color=COLORS[name], label=f"seed {seed}")
    ahead = np.arange(settled + 1, end)
    height = 4 * gap[end - 1] / factor ** (end - ahead)
    right.semilogy(ahead, height, color=COLORS[name], linestyle="--", linewidth=1.2)
right.set(xlabel="sweeps", xlim=(0, 600), ylim=(1e-12, 2), title="40 points, $d = 6$, six draws")
right.legend(fontsize=9, ncol=3, loc="upper right")
show(
    fig,
    alt="Gap against sweeps in two panels with logarithmic vertical axes. Left: for our points it falls "
    "along the predicted straight line to 4e-13 in six sweeps. Right: six larger problems; each stays flat "
    "for a while, and then falls along a line that straightens, parallel to the predicted, dashed one.",
)

# %% [markdown]
# **Figure 2.** The gap of coordinate ascent. Left, dashed: the predicted factor. Right: the six draws;
# dashed, moved up so as to be seen: each one's predicted factor, once its support is right.

# %% [markdown]
# Once the support is settled, the error is a sum, one term for each eigenvalue, and the slowest outlasts the
# others. (A complex pair, as for seed 3, also turns the error, so its pace wavers.)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2.6 The dual as nonnegative least squares
#
# The nearest point of the hull minimises $\lVert \sum_i q_i a_i \rVert$ over weights that add up to one. Do
# not insist on the sum, but charge for missing it:
#
# $$\min_{\lambda \ge 0} \ \Big\lVert \sum_i \lambda_i a_i \Big\rVert^2 + \Big(1 - \sum_i \lambda_i\Big)^2
# \;=\; \min_{\lambda \ge 0}\ \left\lVert \begin{pmatrix} A^\top \\ 1 \cdots 1 \end{pmatrix} \lambda
# - \begin{pmatrix} 0 \\ 1 \end{pmatrix} \right\rVert^2 .$$
#
# This is a **nonnegative least squares** problem, and `lam, residual = nnls(matrix, target)` solves it up to
# rounding, in finitely many steps.
#
# Write $\lambda = \Lambda q$ with normalised $q$. The objective is
# $\Lambda^2 \lVert \sum_i q_i a_i \rVert^2 + (1 - \Lambda)^2$. For every $\Lambda > 0$ the best $q$ is $\hat
# q$, that of the nearest point.


# %%
def best_weights(A):
    """The weights q_hat (n,) of the hull's nearest point, for signed points A (n, d)."""
    lam, _ = nnls(np.vstack([A.T, np.ones(len(A))]), np.append(np.zeros(A.shape[1]), 1.0))
    return lam / lam.sum()


q_hat = best_weights(A)
print(f"nnls: q_hat[[0, 6]] = {q_hat[[0, 6]].round(6)}, B = {upper_bound(q_hat, A):.6f}")
assert np.isclose(upper_bound(q_hat, A), mu_hat)
assert np.allclose(dual_ascent(A, 8)[-1] @ A, w_hat)


# %% [markdown]
# Now exercise 02.3 can be measured: move point 7 by $r$ in each of 900 directions, and solve again.

# %%
circle = np.stack([f(np.linspace(0, 2 * np.pi, 900, endpoint=False)) for f in (np.cos, np.sin)], axis=1)
print("r      predicted           measured            to first order")
for r in (0.1, 0.2, 0.3):
    moved = [np.vstack([A[:6], [A[6] + r * way], A[7:]]) for way in circle]
    margins = [upper_bound(best_weights(one), one) for one in moved]
    both = after_move(mu_hat, q_hat[6], np.linalg.norm(A[6] - A[0]), r)
    first = mu_hat - q_hat[6] * r, mu_hat + q_hat[6] * r
    print(r, *(f"{value:9.4f}" for value in (*both, min(margins), max(margins), *first)))
    assert np.allclose([min(margins), max(margins)], both, atol=1e-5), "see exercise 02.3"

# %% [markdown]
# Either way the strip has to turn, by the angle with sine $r / \lVert a - b \rVert$. So a move costs at worst
# more than $qr$, and gains at best less.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2.7 Gradient descent certifies itself
#
# Back to lesson 01 and its loss, $L(w) = \frac{1}{n} \sum_i \log(1 + e^{-u_i})$ with $u_i = a_i \cdot w$. A
# gradient step moves $w$ along
#
# $$-\nabla L(w) = \frac{1}{n} \sum_i |\ell'(u_i)|\, a_i, \qquad |\ell'(u)| = \frac{1}{1 + e^u} > 0 .$$
#
# A sum of signed points with positive weights is all it takes to be a certificate. Normalise,
#
# $$q_i = \frac{|\ell'(u_i)|}{\sum_j |\ell'(u_j)|}, \qquad
# \bar a = \sum_i q_i a_i = \frac{-\nabla L(w)}{\frac{1}{n} \sum_i |\ell'(u_i)|}, \qquad
# B(q) = \lVert \bar a \rVert ,$$
#
# and each step of descent comes with an upper bound on the margin of *every* direction, and with two
# directions to put under it: the iterate $w_t$ and its gradient, turned round and scaled, $\bar a_t$.
#
# **Predict before you run on.** Which has the larger margin, $w_t$ or $\bar a_t$?
#
# We repeat the runs of lesson 01 from $w = 0$: GD with step size 1, and NGD with steps of 0.5.


# %%
def descend(A, step, marks, normalised=False):
    """Descent on L from 0, for A (..., n, d): the iterates (marks, ..., d)."""
    w, kept = np.zeros(A.shape[:-2] + A.shape[-1:]), []
    for t in range(1, marks[-1] + 1):
        u = (A @ w[..., None])[..., 0]
        # a common factor may go when the step is normalised: without it all weights may underflow
        least = u.min(-1, keepdims=True) if normalised else 0.0
        move = ((np.exp(least - u) / (1 + np.exp(-u)))[..., None, :] @ A)[..., 0, :]
        w = w + step * move / (np.linalg.norm(move, axis=-1, keepdims=True) if normalised else A.shape[-2])
        if t in marks:
            kept.append(w)
    return np.array(kept)


def certify(w, A):
    """mu(w), mu(a_bar), B and a_bar, with the weights of the gradient at w."""
    q = softmax(-np.logaddexp(0, np.einsum("...nd,...d->...n", A, w)), axis=-1)
    a_bar = np.einsum("...n,...nd->...d", q, A)
    return margin(w, A), margin(a_bar, A), upper_bound(q, A), a_bar


def between(v, w):
    """Degrees between two directions."""
    cosine = (v * w).sum(-1) / np.linalg.norm(v, axis=-1) / np.linalg.norm(w, axis=-1)
    return np.degrees(np.arccos(np.clip(cosine, -1, 1)))


def proved(w, A):
    """A bound on the angle of w and w_hat, in degrees: by part 3 alone, and by the better of two routes."""
    mu_w, mu_a, B, a_bar = certify(w, A)
    direct, rest = (np.degrees(np.arccos(np.clip(mu / B, -1, 1))) for mu in (mu_w, mu_a))
    direct = np.where(mu_w >= 0, direct, 180)  # a direction that does not separate proves nothing
    return direct, np.where(mu_a >= 0, np.minimum(direct, between(w, a_bar) + rest), direct)


# %%
times = {
    name: sorted({*np.geomspace(2, end, 60).astype(int).tolist(), end // 10})
    for name, end in (("GD", 100_000), ("NGD", 1000))
}
runs = {"GD": descend(A, 1.0, times["GD"]), "NGD": descend(A, 0.5, times["NGD"], normalised=True)}
curves = {}
print("           proved gap 1 - mu / B      angle of w: by part 3   by the")
print("     steps   of w      of a_bar             alone          better route   true")
for name, iterates in runs.items():
    t, (mu_w, mu_a, B, a_bar) = np.array(times[name]), certify(iterates, A)
    direct, better = proved(iterates, A)
    true = between(iterates, w_hat)
    curves[name] = t, 1 - mu_w / mu_hat, 1 - mu_a / mu_hat, B / mu_hat - 1, direct, better, true
    assert (np.maximum(mu_w, mu_a) <= mu_hat * (1 + 1e-12)).all()
    assert (mu_hat * (1 - 1e-12) <= B).all()
    assert (better >= true - 1e-5).all()
    assert np.sum(np.diff(np.sign(a_bar[t < 100] @ [-1, 1])) != 0) == 1  # it turns across w_hat, once
    gap_w, gap_a = 1 - mu_w / B, 1 - mu_a / B
    for k in np.flatnonzero((t == t[-1]) | (t == t[-1] // 10)):
        tiny = f"{gap_a[k]:.1e}" if gap_a[k] > 1e-12 else "below 1e-12"
        print(f"{name:3} {t[k]:7,}   {gap_w[k]:.1e}   {tiny:12} {direct[k]:12.2f}", end=" ")
        print(f"{better[k]:17.3f} {true[k]:10.3f}")
    if name == "GD":
        assert np.allclose([gap_w[-1], gap_a[-1]], [0.0334, 0.0030], atol=1e-4)
    else:
        assert gap_a[t >= 100].max() < 1e-12
assert np.allclose([curve[-1] for curve in curves["GD"][4:]], [14.86, 8.90, 4.38], atol=0.01)
assert curves["NGD"][5][-1] < 1.001 * curves["NGD"][6][-1] < 0.06 * curves["NGD"][4][-1]

# %% slideshow={"slide_type": "subslide"} jupyter={"source_hidden": true}
fig, axes = plt.subplots(1, 3, figsize=(11, 3.8))
axes[1].sharey(axes[0])
for name, ax in zip(curves, axes, strict=False):
    t, short_w, short_a, above, *_ = curves[name]
    for values, colour, style, label in (
        (short_w, "blue", "-", r"$1 - \mu(w_t) / \hat\mu$"),
        (short_a, "vermillion", "-", r"$1 - \mu(\bar a_t) / \hat\mu$"),
        (above, "black", "--", r"$B(q_t) / \hat\mu - 1$"),
    ):
        values = np.where(values > 1e-13, values, np.nan)
        ax.loglog(t, values, color=COLORS[colour], linestyle=style, label=label)
    ax.set(xlabel="step $t$", title=f"{name}: how far from the best", ylim=(1e-13, 4))
axes[0].set(ylabel="relative distance")
axes[0].legend(loc="lower left", fontsize=10)
for name, colour in (("GD", "blue"), ("NGD", "vermillion")):
    t, *_, direct, better, true = curves[name]
    axes[2].loglog(t, direct, color=COLORS[colour], linestyle="-")
    axes[2].loglog(t, better, color=COLORS[colour], linestyle="--")
    axes[2].loglog(t, true, color=COLORS[colour], linestyle=":", linewidth=3)
    axes[2].text(1.6 * t[-1], direct[-1], name, color=plots.ink(colour), va="center")
for style, meaning in (("-", "proved by part 3 alone"), ("--", "by the better route"), (":", "true")):
    axes[2].plot([], [], color=COLORS["black"], linestyle=style, label=meaning)
axes[2].set(xlabel="step $t$", ylabel=r"angle of $w_t$ and $\hat w$, degrees", title="error of the direction")
axes[2].set(ylim=(5e-3, 150), xlim=(1, 2e6))
axes[2].legend(loc="lower left", fontsize=10)
show(
    fig,
    alt="Logarithmic axes. Left and middle: for GD and NGD the margin of the iterate approaches the best one "
    "slowly, that of the gradient faster, to rounding within 100 steps of NGD; the upper bound is ahead of "
    "both. Right: the angle proved by part 3 alone stays far above the true one; by way of the gradient the "
    "proof meets the truth for NGD and comes within a factor of two for GD.",
)

# %% [markdown]
# **Figure 3.** Left and middle: how far the margin of the iterate, the margin of its gradient and the upper
# bound are from $\hat\mu$ (down to $10^{-13}$). The dips: there $\bar a_t$ turns across $\hat w$. Right: the
# angle of the iterate, proved and true.

# %% [markdown]
# In the end the gradient is the better classifier here. After 100,000 steps GD's weights prove that the
# margin of $w_t$ is within 3.4 percent of the largest, and that of $\bar a_t$ within 0.3; 100 steps of NGD
# prove the latter to twelve digits. GD turns like $1/\log t$. The gradient feels only the offset of $w_t$
# across $\hat w$, which settles much faster (exercise 01.5).
#
# About the *angle* of $w_t$, part 3 alone proves 14.9 degrees where 4.4 are true. By way of the gradient
# GD proves 8.9 degrees, and NGD the truth. And on the thirty draws?

# %%
best = svm.solve(svm.label_problem(torch.tensor(draws), torch.ones(30, 40, dtype=torch.float64)))
w_hats, mu = best.value.numpy(), best.margin.numpy()
print("thirty draws, medians         over mu_hat:   angle of w:")
print("                      steps   mu(w)      B   proved   true")
seen = []
for step, t in ((1, 30_000), (0.5, 3000), (0.15, 6000)):
    (w,) = descend(draws, step, [t], normalised=step < 1)
    mu_w, _, B, _ = certify(w, draws)
    (_, better), true = proved(w, draws), between(w, w_hats)
    seen.append([np.median(v) for v in (mu_w / mu, B / mu, better, true)])
    name = f"NGD, steps of {step}" if step < 1 else "GD, step size 1"
    print(f"{name:18} {t:8,}", "{:7.3f} {:6.3f} {:8.2g} {:6.2f}".format(*seen[-1]))
    assert (better >= true - 1e-5).all(), "see exercise 02.2"
assert np.allclose(seen[0], [0.926, 1.04, 24.6, 3.3], rtol=0.01), "see exercise 02.2"
assert np.allclose(seen[1], [0.998, 1.6, 51.4, 0.105], rtol=0.01), "see exercise 02.2"
assert np.allclose(seen[2], [0.998, 1.0, 0.1545, 0.124], rtol=0.01), "see exercise 02.2"

# %% [markdown]
# In the median GD proves only 25 degrees where 3.3 are true, and NGD's steps of 0.15 prove 0.15 where 0.12
# are. With steps of 0.5 NGD's $w_t$ is as good, but the weights are wrong: in the median $B$ is 60 percent
# too large, and 51 degrees are all that is proved. Long steps can give wrong weights, and so a poor proof of
# a good direction.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2.8 Where it breaks
#
# **No separator.** If the hull contains the origin, some weights have $B(\lambda) = 0$: no direction has a
# positive margin. If it does not, its nearest point separates, by the proof above.
#
# > **Theorem** (Gordan 1873). *Exactly one of these exists: a direction $w$ with $a_i \cdot w > 0$ for all
# > $i$, or weights $\lambda \ge 0$, not all zero, with $\sum_i \lambda_i a_i = 0$.*
#
# Such weights are called a **Farkas ray**: a proof that there is no separator. Flip the label of point 8, and
# the same call finds the ray. In whole numbers it is $34\, a_1 + 71\, a_8 + 35\, a_{11} = 0$, which you can
# verify by hand. With `throw=False`, `svm.solve` hands the ray out as `.dual` instead of raising an error.

# %%
y_bad = np.where(np.arange(12) == 7, -y, y)
A_bad = y_bad[:, None] * X
ray = best_weights(A_bad)
bearing = np.flatnonzero(ray)
print("label of point 8 flipped: points", *bearing + 1, "with weights", *ray[bearing].round(4))
answer = svm.solve(svm.label_problem(torch.as_tensor(X), torch.as_tensor(y_bad)), throw=False)
print("mini_attn.svm.solve:", answer.status, "zero sum:", np.allclose(answer.dual.numpy() @ A_bad, 0))
assert np.allclose(140 * ray[bearing], [34, 71, 35])
assert not ([34, 71, 35] @ np.rint(10 * A_bad[bearing])).any()  # the points have one decimal

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 02.5: Who can change sides?
#
# ★★☆ · 8 minutes
#
# Some direction separates the signed points. Point $i$ *can change sides* if some direction still does when
# $a_i$ is replaced by $-a_i$. First guess who can among our twelve. Then use Gordan's theorem to find a
# condition on $a_i$ and the other points in which no $w$ occurs, and return for each point whether it can. No
# input is a borderline case.
#
# <details><summary>Hint: the condition</summary>
#
# If nothing separates after the flip, some weights give $\sum_{j \ne i} \lambda_j a_j = \lambda_i a_i$. Can
# $\lambda_i$ be zero? If not, divide by it. What are all such sums called?
# </details>
#
# <details><summary>Hint: the code</summary>
#
# `_, residual = nnls(others.T, a)` is the distance of `a` from the cone of the rows of `others`.
# </details>


# %%
@exercise("02.5")
def can_flip(A):
    """Whether each point can change sides: bool (n,), for signed points A (n, d)."""
    ### BEGIN SOLUTION
    distance = [nnls(np.delete(A, i, axis=0).T, a)[1] for i, a in enumerate(A)]
    return np.array(distance) > 1e-9 * np.linalg.norm(A, axis=1)
    ### END SOLUTION


# %%
check("02.5", can_flip)

# %%
A_far = np.vstack([A[:2], [33, -12], A[3:]])
far_q = best_weights(A_far)
u = A_far @ (far_q @ A_far)
print("can change sides:", *np.flatnonzero(can_flip(A)) + 1, "  support vectors:", *support + 1)
print("point 3 at (33, -12):", *np.flatnonzero(can_flip(A_far)) + 1, "and", *np.flatnonzero(far_q) + 1)
assert np.flatnonzero(can_flip(A)).tolist() == [0, 6] == support.tolist(), "see exercise 02.5"
assert np.flatnonzero(can_flip(A_far)).tolist() == [2, 6], "see exercise 02.5"
assert np.flatnonzero(far_q).tolist() == [0, 6]
assert 20 < u[2] / u.min() < 22

# %% [markdown]
# A point is stuck if it lies in the cone of the others, $\{\sum_{j \ne i} \lambda_j a_j,\ \lambda \ge 0\}$.
# With our twelve points those who can change sides are the support vectors, by luck: a cone knows no lengths.
# Point 3 at $(33, -12)$, twenty times farther from the line than any support vector, can; point 1 no longer
# can.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2.9 Add a point *(optional)*
#
# What does a thirteenth point do to the strip?


# %%
def with_point(extra, label):
    """Signed points, best weights and largest margin (0: none) when the point extra is added."""
    A13 = np.vstack([A, label * np.asarray(extra)])
    q = best_weights(A13)
    return A13, q, upper_bound(q, A13)


for place in ([0, 0.5], [-1.5, 0]):
    _, q, widest = with_point(place, 1.0)
    print(f"star at {place}: largest margin {widest:.3f}, weight on points", *np.flatnonzero(q > 1e-9) + 1)
assert np.isclose(with_point([0.3, 0.3], 1.0)[2], np.hypot(0.3, 0.3))  # for the question below the sliders


# %% slideshow={"slide_type": "subslide"} jupyter={"source_hidden": true}
def draw_with(extra, label, ax):
    """The SVM of our points and one more (star); the area of a ring shows the point's weight q_i."""
    A13, q, widest = with_point(extra, label)
    X13 = np.vstack([X, extra])
    plots.points(X, y, ax, size=40)
    if widest > 1e-9:
        plots.boundary(q @ A13, ax, margin=widest)
    ax.set_title(rf"$\hat\mu$ = {widest:.3f}" if widest > 1e-9 else "no separator")
    color = COLORS["blue"] if label > 0 else COLORS["vermillion"]
    ax.scatter(*extra, marker="*", s=260, color=color, edgecolor="white", zorder=5)
    held = np.flatnonzero(q > 1e-9)
    ax.scatter(*X13[held].T, s=60 + 700 * q[held], facecolor="none", edgecolor=COLORS["black"], zorder=4)
    for i in held:
        away = 0.4 * np.sqrt(60 + 700 * q[i]) + 1  # beside the ring
        ax.annotate(str(i + 1), X13[i], xytext=(away, away), textcoords="offset points", fontsize=11)
    ax.set(xlim=(-4.3, 4.3), ylim=(-4.3, 4.3))


# %% tags=["nbval-ignore-output", "widget"]
def with_star(first, second, label):
    figure = Figure(figsize=(5, 5), layout="none")
    draw_with(np.array([first, second]), label, figure.add_axes((0.14, 0.12, 0.82, 0.8)))
    return figure


widgets.sliders(
    with_star,
    alt="The twelve points, the star, and the widest strip, or the points that prove that there is none.",
    first=ipywidgets.FloatSlider(value=0.0, min=-4, max=4, step=0.1, description="star, x₁"),
    second=ipywidgets.FloatSlider(value=0.5, min=-4, max=4, step=0.1, description="star, x₂"),
    label=ipywidgets.ToggleButtons(options=[("label +1", 1.0), ("label -1", -1.0)]),
)

# %% [markdown] slideshow={"slide_type": "skip"}
# Move the star. Where does it take *all* the weight? What does its distance from the origin say then?
#
# <details><summary>Answer</summary>
#
# Where its signed point is itself the nearest point of the hull, at (0.3, 0.3) for example. Then $\hat w$
# points to the star, and its distance from the origin is the largest margin.
# </details>

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Questions
#
# **1.** Can a point lie on the edge of the strip and have multiplier 0?
#
# <details><summary>Answer</summary>
#
# Yes. Slackness says that weight implies edge, not that edge implies weight. Three points on the edge in
# the plane: two of them can suffice.
# </details>

# %%
progress("02")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - With signed points $a_i = y_i x_i$, the hard-margin SVM is the shortest $w$ with all
#   $a_i \cdot w \ge 1$, and equally the point of their convex hull nearest to the origin.
# - A direction gives a lower bound $\mu(w)$, weights give an upper bound $B(\lambda)$ and a second direction
#   $\bar a$. Together they prove $\cos(w, \hat w) \ge \mu(w) / B(\lambda)$, where $w$ separates.
# - The points with weight are support vectors, and to first order a point's move is worth its weight (where
#   $\lambda$ is unique). Coordinate ascent finds them; in the long run the Gram matrix of the support
#   predicts its pace.
# - The logistic gradient has such weights at every step. Long steps can make them wrong, and so the proof of
#   a good direction poor.
# - Where nothing separates, some weights prove it.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Further reading
#
# - Bennett & Bredensteiner, *Duality and Geometry in SVM Classifiers* (ICML 2000): the same geometry with
#   a bias, where the hulls of the two classes are what is near or far.
# - Boyd & Vandenberghe, *Convex Optimization* (2004), chapter 5: duality, KKT and theorems of alternatives.
# - Hsieh et al., *A Dual Coordinate Descent Method for Large-scale Linear SVM* (ICML 2008): section 2.5 at
#   scale.
# - Lawson & Hanson, *Solving Least Squares Problems* (1974), chapter 23: section 2.6.
# - Ji & Telgarsky, *Characterizing the implicit bias via a primal-dual analysis* (ALT 2021,
#   [arXiv:1906.04540](https://arxiv.org/abs/1906.04540)): section 2.7 as a theory.
#
# **New in the library:** [`svm.solve`](../mini_attn/svm/dispatch.py),
# [`svm.HardMarginProblem`](../mini_attn/svm/problem.py),
# [`svm.label_problem`](../mini_attn/svm/problem.py), [`svm.Solution`](../mini_attn/svm/solution.py).
#
# **Next:** in [lesson 03](03_optimizer_geometry.ipynb) the optimiser changes, and with it the norm in which
# $\hat w$ is shortest.
