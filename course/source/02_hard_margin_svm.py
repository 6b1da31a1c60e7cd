# %% [markdown] slideshow={"slide_type": "slide"}
# # 02 · The hard-margin SVM and its certificate
#
# In [lesson 01](01_logistic_regression_bias.ipynb) we knew how far gradient descent was from the best
# direction, because in the plane we had tried all directions. In six dimensions nobody can.
#
# **The question: you hold the points and a direction, nothing else; how do you *prove* how good the direction
# is?**
#
# You prove it with one nonnegative weight for each point. Any weights prove a bound; the right weights prove
# the exact answer.

# %% [markdown] slideshow={"slide_type": "skip"}
# **After this lesson you can**
#
# - write the hard-margin SVM as an optimisation problem, and its dual as a search for the nearest point;
# - bound how far a direction is from the best without knowing the best;
# - find best weights by nonnegative least squares, and say what a point's move is worth;
# - say up to which step length normalised gradient descent keeps them;
# - prove that nothing separates, where nothing does.
#
# **You need** lesson 01, linear algebra, calculus and NumPy; a little torch to read. About 85 minutes (130
# with a pencil) without the optional sections 2.5 and 2.10, five exercises.

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
# Where in a picture is the best direction? We have points $x_1, \dots, x_n$ in $d$ dimensions with labels
# $y_i = \pm 1$ (in code the first has index 0). Multiply each point by its label:
#
# $$a_i = y_i\, x_i .$$
#
# A direction $w$ gets point $i$ right exactly when $a_i \cdot w > 0$, so these **signed points** are all we
# need. The margin of lesson 01, and the largest margin, are
#
# $$\mu(w) = \min_i \frac{a_i \cdot w}{\lVert w \rVert}, \qquad \hat\mu = \max_{w \ne 0} \mu(w).$$


# %%
A = y[:, None] * X


def margin(w, A):
    """mu(w); with leading dimensions, one for each problem."""
    return np.einsum("...nd,...d->...n", A, w).min(-1) / np.linalg.norm(w, axis=-1)


# %% slideshow={"slide_type": "fragment"} jupyter={"source_hidden": true}
def draw_hull(A, ax):
    """Signed points, their convex hull (shaded) and the origin (cross)."""
    ax.fill(*A[ConvexHull(A).vertices].T, color=COLORS["sky"], alpha=0.25, linewidth=0, zorder=0)
    ax.scatter(*A.T, s=45, marker="D", color=COLORS["green"], edgecolor="white", zorder=3)
    ax.plot(0, 0, marker="+", markersize=14, markeredgewidth=2, color=COLORS["black"], zorder=4)
    ax.margins(0.12)
    ax.set(xlabel="$a_{i1}$", ylabel="$a_{i2}$", aspect="equal")


nearest = np.array([0.5, 0.5])  # by eye for now: by the end of the lesson you can compute it

fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.4), width_ratios=[1, 1])
plots.points(X, y, left)
left.set(xlim=(-4.3, 4.3), ylim=(-2.7, 2.7), title=r"the widest strip: half-width $\hat\mu$")
plots.boundary(nearest, left, margin=margin(nearest, A))
draw_hull(A, right)
right.plot([0, nearest[0]], [0, nearest[1]], color=COLORS["vermillion"], zorder=4)
right.axline(nearest, slope=-1, color=COLORS["black"], linestyle="--", linewidth=1.4)
right.text(0.6, 0.46, r"$\hat a$", fontsize=14)
for i, offset, outside in ((0, (2, -20), (8, 4)), (6, (-2, 8), (-16, -14))):
    right.annotate(str(i + 1), A[i], xytext=offset, textcoords="offset points", color=plots.ink("green"))
    left.annotate(str(i + 1), X[i], xytext=outside, textcoords="offset points")
right.set(xlim=(-0.5, 4.1), ylim=(-1.2, 1.8), title=r"the hull's nearest point: distance $\hat\mu$")
show(
    fig,
    alt="Left: two classes of points and the widest empty strip between them, around a line through the "
    "origin, with points 1 and 7 on its edges. Right: the twelve signed points with their convex hull "
    "shaded; a short segment joins the origin to the nearest point of the hull, and a dashed line at right "
    "angles to it touches the hull there, in points 1 and 7.",
)

# %% [markdown]
# **Figure 1.** Left: the widest strip around a line through the origin. Right: the signed points, their
# convex hull (all their averages), and its point $\hat a$ nearest to the origin (cross).

# %% [markdown] slideshow={"slide_type": "subslide"}
# In Figure 1 the best direction is that of $\hat a$, and the largest margin is its length.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2.2 From the left: the primal problem
#
# How does one write the search for the widest strip in formulas? Scaling $w$ does not change
# $\mu(w)$. If some direction separates the points, choose the scale at which the lowest score $a_i \cdot w$
# is exactly one. Then $\mu(w) = 1 / \lVert w \rVert$, and the largest margin belongs to the shortest $w$. (If
# all scores were above one, a shorter $w$ would do, so we may ask for one *or more*.)
#
# $$\hat w = \arg\min_w \lVert w \rVert \quad \text{subject to} \quad a_i \cdot w \ge 1 \ \text{ for all } i,
# \qquad \hat\mu = \frac{1}{\lVert \hat w \rVert}. \tag{P}$$
#
# This is the **hard-margin SVM**. Its $\hat w$ is unique, by section 2.3.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 02.1: Two points by hand
#
# ★★☆ · 8 minutes
#
# Solve (P) for two signed points $a$ and $b$, without a solver. They are different, not 0, and do not point
# in opposite directions. Which constraints are tight (met with equality)?
#
# <details><summary>Hint: one tight constraint</summary>
#
# The shortest $w$ with $a \cdot w \ge 1$ alone is $a / \lVert a \rVert^2$. If this $w$ has
# $b \cdot w \ge 1$ too, you are done.
# </details>
#
# <details><summary>Hint: two</summary>
#
# If neither alone suffices, both are tight: otherwise $w$ could go straight towards $a / \lVert a \rVert^2$
# (or $b / \lVert b \rVert^2$) and get shorter. A part of $w$ outside the plane of $a$ and $b$ would make it
# longer and change nothing. So $w$ combines them, and two equations settle how.
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
# For all twelve points `svm.solve` returns $\hat w$, the margin, and in `.dual` numbers that section 2.4
# explains.

# %%
solution = svm.solve(svm.label_problem(torch.as_tensor(X), torch.as_tensor(y)))
w_hat, mu_hat, numbers = solution.value.numpy(), solution.margin.item(), solution.dual.numpy()
print("w_hat:", w_hat.round(4), "  margin:", margin(w_hat, A).round(4))
assert np.allclose(w_hat, [1, 1], atol=1e-4)
assert np.allclose(two_points(A[0], A[6]), w_hat, atol=1e-4), "see exercise 02.1"

# %% [markdown]
# Exercise 02.1 gives the same $\hat w$ for points 1 and 7 alone. This confirms the solver: no $w$ that meets
# all twelve constraints is shorter than the shortest $w$ that meets these two.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2.3 From the right: any weights prove a bound
#
# How can one bound the margin of *every* direction at once? Choose any weights
# $\lambda_1, \dots, \lambda_n \ge 0$, not all zero. For every $w$ of length one,
#
# $$\mu(w) = \min_i a_i \cdot w \;\le\; \frac{\sum_i \lambda_i\, (a_i \cdot w)}{\sum_i \lambda_i}
# = \frac{\sum_i \lambda_i a_i}{\sum_i \lambda_i} \cdot w
# \;\le\; \frac{\lVert \sum_i \lambda_i a_i \rVert}{\sum_i \lambda_i} =: B(\lambda).$$
#
# The first step holds because a minimum is at most any average, and the last by Cauchy-Schwarz. The
# right-hand side no longer contains $w$.
#
# Only proportions matter, so we often take **normalised weights** $q_i = \lambda_i / \sum_j \lambda_j$. Then
# $\bar a = \sum_i q_i a_i$ is a point of the hull, and $B = \lVert \bar a \rVert$ is its distance from the
# origin.


# %%
def upper_bound(lam, A):
    """B(lam); with leading dimensions, one for each problem."""
    return np.linalg.norm(np.einsum("...n,...nd->...d", lam, A), axis=-1) / lam.sum(-1)


point = np.eye(12)  # row i: all the weight on point i
pair = point[0] + 5 * point[6]
names = "equal", "point 7 alone", "points 1 and 7, as 1 : 5"
for name, lam in zip(names, (np.ones(12), point[6], pair), strict=True):
    print(f"{name:24} B = {upper_bound(lam, A):.4f}")
assert np.isclose(upper_bound(pair, A), np.sqrt(0.5))

# %% [markdown]
# Each of the three numbers bounds every margin, and the last bound is exact: $(a_1 + 5 a_7)/6 = (0.5, 0.5)$,
# so no direction has a margin above $\sqrt{1/2}$, and $(1, 1)$ has it. Whenever some direction separates,
# such weights exist:

# %% [markdown] slideshow={"slide_type": "slide"}
# > **Theorem (certificate).** *Let some direction separate the points. For all $w \ne 0$ and all weights
# > $\lambda \ge 0$, not all zero:*
# >
# > **1.** $\ \mu(w) \le \hat\mu \le B(\lambda)$.
# >
# > **2.** *Some normalised weights, the* best weights $\hat q$, *reach $B(\hat q) = \hat\mu$: those that make
# > the nearest point, $\sum_i \hat q_i a_i = \hat a$.*
# >
# > **3.** *If $\mu(w) \ge 0$, then* $\ \displaystyle \cos(w, \hat w) \ge \frac{\mu(w)}{B(\lambda)}$.
# >
# > Source: with a bias, 1 and 2 are in Bennett & Bredensteiner (2000); all three are proved below.

# %% [markdown]
# Part 1 is the bound above, for the best $w$.
#
# <details><summary>Proof of 2 and 3</summary>
#
# For 2, let $\hat a$ be the nearest point (the hull is closed and bounded, so there is one). Go a little
# towards some $a_i$. This stays in the hull, so it cannot bring us nearer to the origin: the derivative of
# $\lVert \hat a + \tau(a_i - \hat a) \rVert^2$ at $\tau = 0$, which is $2\, \hat a \cdot (a_i - \hat a)$, is
# not negative. Hence $a_i \cdot \hat a \ge \lVert \hat a \rVert^2$ for all $i$. If $\hat a$ were 0, weights
# with $B(\lambda) = 0$ would contradict 1. So divide by $\lVert \hat a \rVert$:
# $\mu(\hat a) \ge \lVert \hat a \rVert = B(q)$, with the $q$ that makes $\hat a$. By 1, both are $\hat\mu$.
#
# For 3, average $a_i \cdot w / \lVert w \rVert \ge \mu(w)$ with the weights that make $\hat a$. This gives
# $\lVert \hat a \rVert \cos(w, \hat a) \ge \mu(w)$. If $w$ is a best direction, then
# $\mu(w) = \hat\mu = \lVert \hat a \rVert$, and the cosine must be 1. So $\hat a$ has the only best
# direction, which is that of $\hat w$, and no other point of the hull is as near. For every other $w$ we have
# $\cos(w, \hat w) \ge \mu(w) / \hat\mu$, and $\hat\mu \le B(\lambda)$ with $\mu(w) \ge 0$ gives the claim.
# $\square$
# </details>

# %% [markdown] slideshow={"slide_type": "fragment"}
# Together, $w$ and $\lambda$ are a **certificate**, which anyone can check with two matrix products. Its
# quality is the **gap**
#
# $$\mathrm{gap} = 1 - \frac{\mu(w)}{B(\lambda)} .$$
#
# The angle $\theta$ that part 3 proves has $1 - \cos\theta = \mathrm{gap}$.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 02.2: Two proofs of an angle
#
# ★★☆ · 8 minutes
#
# You hold $w$, weights $\lambda$, the $a_i$, and so $\bar a = \sum_i q_i a_i$. Both $w$ and $\bar a$
# separate. Part 3 proves an angle between $w$ and $\hat w$. Another proof goes by way of $\bar a$: it adds
# the angle between $w$ and $\bar a$ to one between $\bar a$ and $\hat w$. For the latter prove more than part
# 3 does, from $\mu(\bar a)$ and $B$ alone: $\bar a$ is in the hull. Return the better of the two, in degrees.
#
# <details><summary>Hint: what the hull adds</summary>
#
# Part 3's proof gives $\cos(\bar a, \hat w) \ge \mu(\bar a) / \hat\mu$, and then puts $B$ for the unknown
# $\hat\mu$. But what does it say about $\bar a \cdot \hat w$ that $\bar a$ is an average of the $a_i$?
# </details>
#
# <details><summary>Hint: no $\hat\mu$</summary>
#
# Of your two bounds on the cosine one rises with $\hat\mu$, and the other falls. Multiply them.
# </details>


# %%
@exercise("02.2")
def proved_angle(w, lam, A):
    """A bound on the angle between w and w_hat, in degrees: a number, for w (d,), lam (n,), A (n, d)."""
    ### BEGIN SOLUTION
    a_bar = lam @ A / lam.sum()
    B = np.linalg.norm(a_bar)
    to_w, to_a_bar, squared = np.array([margin(w, A), w @ a_bar / np.linalg.norm(w), margin(a_bar, A)]) / B
    # cos(a_bar, w_hat) >= mu_hat / B, as a_bar is in the hull, and >= mu(a_bar) / mu_hat: multiply
    cosines = np.clip([to_w, to_a_bar, np.sqrt(squared)], -1, 1)  # rounding may exceed 1
    direct, to_a_bar, from_a_bar = np.degrees(np.arccos(cosines))
    return min(direct, to_a_bar + from_a_bar)
    ### END SOLUTION


# %%
check("02.2", proved_angle)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2.4 The dual problem and the optimality conditions
#
# Which weights are the best, and how does one recognise them? Expand the square to see that for all $w$ and
# $\lambda$
#
# $$\tfrac12 \lVert w \rVert^2 - D(\lambda) = \tfrac12 \Big\lVert w - \sum_i \lambda_i a_i \Big\rVert^2
# + \sum_i \lambda_i\, (a_i \cdot w - 1),
# \qquad D(\lambda) = \sum_i \lambda_i - \tfrac12 \Big\lVert \sum_i \lambda_i a_i \Big\rVert^2 .$$
#
# If $w$ meets the constraints of (P) and $\lambda \ge 0$, neither term on the right is negative, so
# $D(\lambda) \le \frac12 \lVert w \rVert^2$. This is **weak duality**. The best of these bounds is the **dual
# problem**
#
# $$\max_{\lambda \ge 0} D(\lambda). \tag{D}$$
#
# If some direction separates, the best bound is exact. The solutions, called **multipliers**, are best
# weights on another scale, $\hat q / \hat\mu^2$.
#
# <details><summary>Why</summary>
#
# Let some direction separate (otherwise $D$ is unbounded, by section 2.9), and write $\lambda = \Lambda q$
# with normalised $q$. Then $D = \Lambda - \frac12 \Lambda^2 B(q)^2$ is largest at $\Lambda = 1/B(q)^2$, where
# $D = 1/(2 B(q)^2)$. By the theorem the least $B$ is $\hat\mu$, so the largest $D$ is $1/(2\hat\mu^2) =
# \frac12 \lVert \hat w \rVert^2$. $\square$
# </details>

# %% [markdown]
# So $w$ and $\lambda$ that meet their constraints are optimal exactly when both terms are zero, and a sum of
# nonnegative terms is zero only if each term is. Together with the constraints, these are the conditions of
# Karush, Kuhn and Tucker (**KKT**):
#
# | condition | formula |
# |:---|:---|
# | stationarity | $w = \sum_i \lambda_i a_i$ |
# | primal feasibility | $a_i \cdot w \ge 1$ |
# | dual feasibility | $\lambda_i \ge 0$ |
# | complementary slackness | $\lambda_i\, (a_i \cdot w - 1) = 0$ |
#
# In this lesson the **support vectors** are the points that have $\lambda_i > 0$ in some solution of (D). By
# complementary slackness they lie on the edge of the strip, $a_i \cdot \hat w = 1$.

# %%
# the solver minimises ||w||, whose gradient is w / ||w||, not w: its numbers are 1 / ||w_hat|| times ours
lam_hat = numbers / mu_hat
print("multipliers:", lam_hat.round(3))
assert np.allclose(lam_hat @ A, w_hat, atol=1e-4)
assert np.allclose(lam_hat[[0, 6]], [1 / 3, 5 / 3], atol=1e-4)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2.5 A dual solver in ten lines *(optional)*
#
# How does a solver find the multipliers? The constraints of (D), $\lambda_i \ge 0$, do not couple the
# coordinates. So improve one multiplier at a time, and keep $w = \sum_i \lambda_i a_i$ up to date. As a
# function of $\lambda_i$ alone, $D$ is a parabola with first derivative $1 - a_i \cdot w$ and second
# derivative $-\lVert a_i \rVert^2$. So the best value $\ge 0$, and the new $w$, are
#
# $$\lambda_i' = \max\Big(0,\ \lambda_i + \frac{1 - a_i \cdot w}{\lVert a_i \rVert^2}\Big),
# \qquad w' = w + (\lambda_i' - \lambda_i)\, a_i .$$
#
# One *sweep* updates all points in turn, each with the newest $w$.


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


lams = dual_ascent(A, 6)
gaps = gap_of(lams, A)
cosine = A[0] @ A[6] / np.linalg.norm(A[0]) / np.linalg.norm(A[6])
print("positive multipliers after sweep 3: points", np.flatnonzero(lams[2]) + 1)
print(f"sweep 3 to 4: gap {gaps[2]:.1e} to {gaps[3]:.1e}, ratio 1/{gaps[2] / gaps[3]:.1f}")
print(f"predicted below:                        1/{1 / cosine**2:.1f}")
assert np.allclose(np.divide(gaps[2:4], gaps[3:5]), 145, rtol=1e-3)
assert np.allclose(dual_ascent(A, 8)[-1] @ A, w_hat)

# %% [markdown] slideshow={"slide_type": "subslide"}
# Why is the ratio 145? An update that is not clipped at 0 projects $w$ onto the line $a_i \cdot w = 1$. After
# sweep 3 only $\lambda_1$ and $\lambda_7$ are positive, so the next sweep goes from point 7's line to point
# 1's and back. Each of the two projections multiplies the distance of $w$ from $\hat w$ by $\lvert \cos(a_1,
# a_7) \rvert$.
#
# Near $\hat w$ the gap is in proportion to this distance. For $w$ stays on the same side of $\hat w$ from
# sweep to sweep, where the error of $\mu(w)$ is of first order in the distance, and the error of $B$, which
# is least at $\hat q$, is only of second order. So a sweep multiplies the gap by
#
# $$\cos^2(a_1, a_7) = \frac{(a_1 \cdot a_7)^2}{\lVert a_1 \rVert^2\, \lVert a_7 \rVert^2} = \frac{1}{145} .$$

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2.6 The dual as nonnegative least squares
#
# How does one compute best weights? The nearest point of the hull minimises
# $\lVert \sum_i q_i a_i \rVert$ over weights that add up to one. Do not insist on the sum, but charge for
# missing it:
#
# $$\min_{\lambda \ge 0} \ \Big\lVert \sum_i \lambda_i a_i \Big\rVert^2 + \Big(1 - \sum_i \lambda_i\Big)^2
# \;=\; \min_{\lambda \ge 0}\ \left\lVert \begin{pmatrix} A^\top \\ 1 \cdots 1 \end{pmatrix}
# \lambda - \begin{pmatrix} 0 \\ 1 \end{pmatrix} \right\rVert^2 .$$
#
# This is **nonnegative least squares**: `lam, residual = nnls(matrix, target)` solves it up to rounding. The
# solution, divided by its sum, is $\hat q$.
#
# <details><summary>Why</summary>
#
# With $\lambda = \Lambda q$ the objective is $\Lambda^2 B(q)^2 + (1 - \Lambda)^2$. For every $\Lambda > 0$
# the best $q$ makes the nearest point, and the best $\Lambda = 1/(1 + B(q)^2)$ is not zero. $\square$
# </details>


# %%
def best_weights(A):
    """The weights q_hat (n,) of the hull's nearest point, for signed points A (n, d)."""
    lam, _ = nnls(np.vstack([A.T, np.ones(len(A))]), np.append(np.zeros(A.shape[1]), 1.0))
    return lam / lam.sum()


q_hat = best_weights(A)
print(f"nnls: q_hat[[0, 6]] = {q_hat[[0, 6]].round(6)}, B = {upper_bound(q_hat, A):.6f}")
assert np.isclose(upper_bound(q_hat, A), mu_hat)


# %% [markdown] slideshow={"slide_type": "slide"}
# ### What is a move worth?
#
# How does the largest margin change when one point moves? Let $\delta$ be a short move of $a_i$, and
# $\delta_\parallel = \hat\mu\, \hat w \cdot \delta$ its component along $\hat w$. The old weights still prove
# a bound, which is now
# $\lVert \hat a + \hat q_i\, \delta \rVert \approx \hat\mu + \hat q_i\, \delta_\parallel$. The new margin is
# the least of all weights' bounds. Where $\hat q$ is unique, it equals this one to first order (Danskin
# 1967): *along $\hat w$, a move is worth its point's weight*.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 02.3: A long move
#
# ★★★ · 15 minutes
#
# What is a longer move worth? Two signed points, $a$ and $b$, are the support vectors, with the best weights
# $q_a$ and $1 - q_a$. Now $a$ moves by some $\delta$ of a given length $\lVert \delta \rVert$, in whichever
# direction. Predict the least and the greatest value that the largest margin can have then. Assume that at
# the worst and the best move both are support vectors, no other point is, and some direction separates.
#
# <details><summary>Hint: for one line</summary>
#
# Hold a direction $w$ of length one. Which move of $a$ is the worst for it? For the best $w$, knowing that
# the worst move comes, $a$ and $b$ end at equal distances: one equation. (Then $a - b$, after the move, is at
# right angles to $w$: no other direction is better for that move either.)
# </details>
#
# <details><summary>Hint: the angle</summary>
#
# The strip turns by some angle, in the plane of $a$ and $b$. Where does $a - b$ point, seen from $\hat w$?
# </details>
#
# <details><summary>Hint: the margin</summary>
#
# Equal distances are equal to any average of them. Take the one with the old weights. For the best move
# instead of the worst, change the sign of the length.
# </details>


# %%
@exercise("02.3")
def after_move(mu_hat, q_a, apart, length):
    """(least, greatest) largest margin after a move: for the old one, a's weight, ||a - b||, ||delta||."""
    ### BEGIN SOLUTION
    turned = np.sqrt(1 - (length / apart) ** 2)  # cosine of the strip's turn; its sine: length / apart
    return mu_hat * turned - q_a * length, mu_hat * turned + q_a * length
    ### END SOLUTION


# %%
check("02.3", after_move)

# %% [markdown]
# We move point 7 by 0.3, in 900 directions.

# %%
circle = np.stack([f(np.linspace(0, 2 * np.pi, 900, endpoint=False)) for f in (np.cos, np.sin)], axis=1)
moved = [np.vstack([A[:6], [A[6] + 0.3 * way], A[7:]]) for way in circle]
margins = [upper_bound(best_weights(one), one) for one in moved]
both = after_move(mu_hat, q_hat[6], np.linalg.norm(A[6] - A[0]), 0.3)
first = mu_hat - q_hat[6] * 0.3, mu_hat + q_hat[6] * 0.3
extremes = min(margins), max(margins)
for name, ends in (("predicted", both), ("measured", extremes), ("to first order", first)):
    print(f"{name:15} {ends[0]:.4f} {ends[1]:.4f}")
assert np.allclose(extremes, both, atol=1e-5), "see exercise 02.3"

# %% [markdown]
# The prediction holds to four digits. To first order the move is worth $\pm 0.3\, \hat q_7 = \pm 0.25$. But
# the strip has to turn, so the worst move costs more and the best move gains less.
#
# <details><summary>Why exactly this much</summary>
#
# For a $w$ of length one the worst move is $\delta = -\lVert \delta \rVert w$. It leaves the scores
# $a \cdot w - \lVert \delta \rVert$ and $b \cdot w$. The $w$ whose smaller score is largest combines $a$ and
# $b$, and has equal scores, as otherwise one point alone would support. So
# $(a - b) \cdot w = \lVert \delta \rVert$. As $a - b$ is at right angles to $\hat w$, the sine of the angle
# between $w$ and $\hat w$ is $\lVert \delta \rVert / \lVert a - b \rVert$. The average of the two scores with
# the old weights is
# $\hat a \cdot w - q_a \lVert \delta \rVert = \hat\mu \cos(w, \hat w) - q_a \lVert \delta \rVert$.
#
# After any move this $w$ has at least this margin. After the move $-\lVert \delta \rVert w$ no direction has
# more: then $a - b$ is at right angles to $w$, so the nearest point of the line through $a$ and $b$ lies
# along $w$, and it lies between the two, as both support.
#
# For the best move: no move lifts $a$'s score in any direction $w$ above $a \cdot w + \lVert \delta \rVert$,
# and the move $\lVert \delta \rVert w$ reaches it. So no margin after a move is above the largest smaller
# score of $a \cdot w + \lVert \delta \rVert$ and $b \cdot w$, and the best $w$ attains it: the same equation
# with $-\lVert \delta \rVert$. $\square$
# </details>

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2.7 Gradient descent certifies itself
#
# Must one solve the dual problem to have good weights? Take the loss of lesson 01,
# $L(w) = \frac{1}{n} \sum_i \ell(u_i)$ with $\ell(u) = \log(1 + e^{-u})$ and $u_i = a_i \cdot w$. A step of
# gradient descent moves $w$ along
#
# $$-\nabla L(w) = \frac{1}{n} \sum_i |\ell'(u_i)|\, a_i, \qquad |\ell'(u)| = \frac{1}{1 + e^u} > 0 .$$
#
# This is a sum of signed points with positive weights, and positive weights are all that a certificate needs.
# Normalise them:
#
# $$q_i = \frac{|\ell'(u_i)|}{\sum_j |\ell'(u_j)|}, \qquad \bar a = \sum_i q_i a_i,
# \qquad B(q) = \lVert \bar a \rVert .$$
#
# So each step $t$ brings an upper bound on *every* margin, and two directions: the iterate $w_t$, and
# $\bar a_t$, which is minus the gradient at $w_t$, rescaled.
#
# We repeat a run of lesson 01, normalised gradient descent (NGD) from $w = 0$: all its steps have the same
# length $\eta$, here 0.5.
#
# **Predict before you run on.** Which has the larger margin after many steps, $w_t$ or $\bar a_t$?


# %%
def descend(A, step, marks):
    """NGD on L from 0, for A (..., n, d): the iterates after `marks` steps, (marks, ..., d)."""
    w, kept = np.zeros(A.shape[:-2] + A.shape[-1:]), []
    for t in range(1, marks[-1] + 1):
        u = (A @ w[..., None])[..., 0]
        # |l'(u)|, up to a common factor with which all weights would underflow in the end
        push = np.exp(u.min(-1, keepdims=True) - u) / (1 + np.exp(-u))
        move = (push[..., None, :] @ A)[..., 0, :]
        w = w + step * move / np.linalg.norm(move, axis=-1, keepdims=True)
        if t in marks:
            kept.append(w)
    return np.array(kept)


def gradient_weights(w, A):
    """q, the normalised weights of the gradient at w."""
    # |l'(u)| = exp(-log(1 + exp(u)))
    return softmax(-np.logaddexp(0, np.einsum("...nd,...d->...n", A, w)), axis=-1)


def between(v, w):
    """Degrees between two directions."""
    cosine = (v * w).sum(-1) / np.linalg.norm(v, axis=-1) / np.linalg.norm(w, axis=-1)
    return np.degrees(np.arccos(np.clip(cosine, -1, 1)))


# %%
times = sorted({*np.geomspace(10, 1000, 50).astype(int).tolist(), 50, 100})
w = descend(A, 0.5, times)
q = gradient_weights(w, A)
mu_w, mu_a, B = margin(w, A), margin(q @ A, A), upper_bound(q, A)
direct, true = np.degrees(np.arccos(mu_w / B)), between(w, w_hat)
better = np.array([proved_angle(*one, A) for one in zip(w, q, strict=True)])
print("angle of w in degrees: proved by part 3   by exercise 02.2   true")
for t in (10, 50, 100, 1000):
    k = times.index(t)
    print(f"after {t:4} steps {direct[k]:24.2f} {better[k]:18.2f} {true[k]:6.2f}")
assert (better >= true - 1e-5).all(), "see exercise 02.2"
assert np.allclose((true * times)[-9:], true[-1] * times[-1], rtol=0.01)  # falls like 1 / t

# %% slideshow={"slide_type": "subslide"} jupyter={"source_hidden": true}
fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8))
for values, colour, style, label in (
    (1 - mu_w / mu_hat, "blue", "-", r"$1 - \mu(w_t) / \hat\mu$"),
    (1 - mu_a / mu_hat, "vermillion", "-", r"$1 - \mu(\bar a_t) / \hat\mu$"),
    (B / mu_hat - 1, "black", "--", r"$B(q_t) / \hat\mu - 1$"),
):
    values = np.where(values > 1e-13, values, np.nan)
    left.loglog(times, values, color=COLORS[colour], linestyle=style, label=label)
left.set(xlabel="step $t$", ylabel="relative distance", ylim=(1e-13, 4), title="how far from the best margin")
left.legend(loc="lower right", fontsize=10)
for values, colour, style, label in (
    (direct, "blue", "-", "proved by part 3 alone"),
    (better, "purple", "--", "proved by exercise 02.2"),
    (true, "black", ":", "true"),
):
    right.loglog(times, values, color=COLORS[colour], linestyle=style, label=label)
right.set(xlabel="step $t$", ylabel=r"angle of $w_t$ and $\hat w$, degrees", ylim=(5e-2, 150))
right.set_title("how far from the best direction")
right.legend(loc="lower left", fontsize=10)
show(
    fig,
    alt="Logarithmic axes. Left: the margin of the iterate approaches the best one slowly. That of the "
    "gradient falls to rounding within 100 steps, and the upper bound still sooner. Right: the angle proved "
    "by part 3 alone stays far above the true one; the angle that exercise 02.2 proves meets it.",
)

# %% [markdown]
# **Figure 2.** Left: how far the two margins and the upper bound are from $\hat\mu$; two curves end where
# rounding begins. Right: the angle between $w_t$ and $\hat w$, proved and true.

# %% [markdown]
# On the left $\bar a_t$ soon has the larger margin. The dashed curve shows why: $\bar a_t$ is a point of the
# hull, and its length $B$ tends to $\hat\mu$. So $\bar a_t$ tends to the nearest point $\hat a$, which has
# the best direction. We say that the weights **settle** when they tend to best weights. The iterate $w_t$ is
# the sum of all steps, and what the early ones brought across $\hat w$ stays in it: its angle falls like
# $1/t$.
#
# On the right, part 3 proves far too large an angle (the question at the end asks why). Exercise 02.2 adds
# the angle between $w_t$ and $\bar a_t$ to the one that it proves for $\bar a_t$. Once the weights settle,
# the second falls much faster than the true angle: the proof meets the truth.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Do NGD's weights always settle?
#
# Let $\hat q$ be unique, and let all points on the edge, at least two, have weight in it. As $w$ grows along
# $\hat w$, the weights of all other points vanish, and $|\ell'(u)|$ approaches $e^{-u}$. Let $q$ be near
# $\hat q$ already; that it gets there we measure, but do not prove. Do small errors of $q$ then die out?
#
# A step is $\eta\,\bar a / \lVert \bar a \rVert$, and $\lVert \bar a \rVert$ is about $\hat\mu$. So it moves
# $w$ by about $\eta$ along $\hat w$, and by $\eta\,\bar a_\perp / \hat\mu$ across it, where $\bar a_\perp$ is
# the part of $\bar a$ at right angles to $\hat w$. If $\bar a_\perp$ dies out, then $\bar a \to \hat a$, and
# as $\hat q$ is unique, $q \to \hat q$.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 02.4: How long may a step be?
#
# ★★★ · 12 minutes
#
# You hold the signed points and the best weights $\hat q$. As above, the other points have no weight left,
# and $|\ell'(u)| = e^{-u}$. Predict the step length $\eta^*$ up to which $\bar a_\perp$ dies out.
#
# <details><summary>Hint: a change of the weights</summary>
#
# As $q_i \propto e^{-a_i \cdot w}$, a short change $v$ of $w$ changes $q_i$ by $-q_i\,(a_i - \bar a) \cdot
# v$. Sum up: $\bar a$ changes by $-Cv$, with which matrix $C$? What is $C \hat w$?
# </details>
#
# <details><summary>Hint: one step</summary>
#
# Which part of the step is left, after the product with $C$? By which matrix does a step multiply
# $\bar a_\perp$? When are all the eigenvalues that count between $-1$ and 1?
# </details>


# %%
@exercise("02.4")
def longest_step(A, q):
    """eta*: a number, for signed points A (n, d) and their best weights q (n,), which add up to one."""
    ### BEGIN SOLUTION
    # C w_hat = 0, as support vectors score alike: a step takes a_perp to (I - eta C / mu_hat) a_perp
    C = np.cov(A.T, aweights=q, bias=True)
    return 2 * np.linalg.norm(q @ A) / np.linalg.eigvalsh(C)[-1]
    ### END SOLUTION


# %%
check("02.4", longest_step)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Let $C = \sum_i \hat q_i\,(a_i - \hat a)(a_i - \hat a)^\top$, the **covariance** of the signed points under
# the best weights, and let $\sigma$ be its largest eigenvalue. To first order, the weights settle if
#
# $$\eta < \eta^* = \frac{2 \hat\mu}{\sigma} .$$
#
# <details><summary>Derivation</summary>
#
# A short change $v$ of $w$ changes $\bar a$ by $-Cv$. All support vectors have the same score, so
# $C\hat w = 0$, and of a step only the part $\eta\,\bar a_\perp / \hat\mu$ counts. It turns $\bar a_\perp$
# into $(I - \eta\, C / \hat\mu)\, \bar a_\perp$.
#
# Now $\bar a_\perp = \bar a - \hat a = \sum_i (q_i - \hat q_i)\, a_i$, where the factors add up to 0. So
# $\bar a_\perp$ lies in the span of the differences of support vectors, and there the eigenvalues of $C$ are
# positive: $v^\top C v = \sum_i \hat q_i\,((a_i - \hat a) \cdot v)^2$ is 0 only if $v$ is at right angles to
# all differences. Hence the eigenvalues of $I - \eta\, C / \hat\mu$ are below 1 there, and the least is
# $1 - \eta\sigma/\hat\mu$. To first order, $\bar a_\perp$ dies out if this is above $-1$. $\square$
# </details>

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2.8 Thirty problems in six dimensions
#
# Does $\eta^*$ say where NGD's weights settle?
#
# **Predict before you run on.** What is $\eta^*$ for our twelve points, by hand?

# %%
print(f"eta* of our points: {longest_step(A, q_hat):.2f}")
for eta in (3.5, 3.58):
    q = gradient_weights(descend(A, eta, [2999, 3000]), A)
    excess = np.abs(upper_bound(q, A) / mu_hat - 1)
    ends = "{:.4f}, {:.4f}, mean {:.4f}".format(*np.sort(q[:, 6]), q[:, 6].mean())  # rounding orders them
    print(f"eta {eta:4}: q_7 at the last two steps {ends}; B too large by {excess.max():.2%}")
    assert np.allclose(excess, 0 if eta == 3.5 else 0.0027, atol=5e-5)

# %% [markdown]
# As $\sigma = 0.4$, $\eta^* = 2\hat\mu / 0.4 = \sqrt2 / 0.4$, the 3.5 of lesson 01. Just below it the weights
# settle at $\hat q = (1/6, 5/6)$, and the bound is exact. Just above it they jump back and forth between two
# sets of values, and the bound stays too large. But the mean of the two is $\hat q$ again.
#
# Now we draw 30 random sets of 40 points in six dimensions. After 2,500 steps we count a run's weights as
# settled if $B < 1.001\, \hat\mu$, and test the mean of the last two steps' weights, too. It proves an angle
# for $w_t$.


# %%
def draw(seed, n=40, d=6):
    """Signed points (n, d), separable by the first coordinate."""
    points = np.random.default_rng(seed).normal(size=(n, d))
    points[:, 0] = np.abs(points[:, 0]) + 0.2
    return points


draws = np.stack([draw(seed) for seed in range(30)])  # (30, 40, 6)
q_hats = np.array([best_weights(one) for one in draws])
a_hats = np.einsum("knd,kn->kd", draws, q_hats)
limits = np.array([longest_step(one, q) for one, q in zip(draws, q_hats, strict=True)])
print("      of 30 runs  B < 1.001 mu_hat        degrees from the best, medians")
print("step  eta < eta*  one step  mean of two    w_t  proved  a_bar_t  a_bar of the mean")
for step, count in ((0.5, 3), (0.25, 19), (0.15, 30)):
    w = descend(draws, step, [2498, 2499, 2500])
    q = gradient_weights(w, draws)
    one, two = q[-1], q[-2:].mean(axis=0)
    settled, tight = (upper_bound(lam, draws) < 1.001 * upper_bound(q_hats, draws) for lam in (one, two))
    a_bars = [np.einsum("knd,kn->kd", draws, lam) for lam in (one, two)]
    off = [np.median(between(v, a_hats)) for v in (w[-1], *a_bars)]
    off.insert(1, np.median([proved_angle(*each) for each in zip(w[-1], two, draws, strict=True)]))
    counts = (step < limits).sum(), settled.sum(), tight.sum()
    print("{:4} {:11} {:9} {:12} {:6.2f} {:7.2f} {:8.2f} {:18.2f}".format(step, *counts, *off))
    assert [*counts[1:], *settled] == [count, 30, *(step < limits)], "see exercise 02.4"
    assert np.abs(q[2] - q[0]).max() < 1e-4  # after two steps the weights are back

# %% [markdown]
# Of the ninety runs exactly those with $\eta < \eta^*$ count as settled. With steps of 0.15, where all do,
# $\bar a_t$ is far ahead of $w_t$ in the median. With steps of 0.5, where few do, it is 51 degrees off, as it
# depends on the present weights alone.
#
# Over two steps the jumps nearly cancel, so $w_t$, the sum of all, is near the best direction all the same.
# One step's weights cannot prove this; the mean of the last two steps' can.
#
# <details><summary>Why two steps are enough</summary>
#
# In all ninety runs $q_{t+2}$ is $q_t$ up to $10^{-4}$. If it is exactly $q_t$, let $v = w_{t+2} - w_t$. As
# $q_i \propto e^{-a_i \cdot w}$, all points that keep weight have the same score $a_i \cdot v$, and the
# others no less, or their weight would grow. And
# $v = \eta\,(\bar a_t / \lVert \bar a_t \rVert + \bar a_{t+1} / \lVert \bar a_{t+1} \rVert)$ is a sum of the
# points that keep weight, with weights $\ge 0$. Up to scale, these are the KKT conditions: $v$ is along
# $\hat w$, and these weights are best.
#
# The points that keep weight are then on the edge, so $\bar a_t$ and $\bar a_{t+1}$ have the same part along
# $\hat w$, $\hat\mu$. Divided by their lengths, their parts across $\hat w$ cancel in $v$. So the two have
# the same angle with $\hat w$, hence the same length, and the plain mean of $q_t$ and $q_{t+1}$ will do.
# $\square$
# </details>

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2.9 Where it breaks
#
# What can weights prove if no direction separates? If the hull contains the origin, some weights have
# $B(\lambda) = 0$, and by section 2.3 nothing separates. If it does not, its nearest point separates, by the
# proof of part 2.
#
# > **Theorem** (Gordan 1873). *Exactly one of these exists: a direction $w$ with $a_i \cdot w > 0$ for all
# > $i$, or weights $\lambda \ge 0$, not all zero, with $\sum_i \lambda_i a_i = 0$.*
#
# We flip the label of point 8. Now nothing separates, and `best_weights` finds weights with $B(\lambda) = 0$,
# up to rounding.

# %%
A_bad = np.where(np.arange(12)[:, None] == 7, -A, A)
proof = best_weights(A_bad)
whole = (140 * proof).round().astype(int)
print("label of point 8 flipped: weights", whole[whole > 0], "/ 140 on points", np.flatnonzero(whole) + 1)
assert not (whole @ (10 * A_bad).round()).any()  # whole numbers: exact

# %% [markdown]
# By hand, $34\, a_1 + 71\, a_8 + 35\, a_{11} = 0$ exactly, with the flipped $a_8 = (-2, -0.5)$: a proof.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 02.5: Who can change sides?
#
# ★★★ · 12 minutes
#
# Some direction separates the signed points. For each point $i$, let $w$ of length at most one get the
# *others* right, or put them on its line: $a_j \cdot w \ge 0$. How large can $-a_i \cdot w$ get? If it can be
# above 0, the point *can change sides*: adding a little of a separating direction then gets the others
# strictly right. Find bounds without $w$, as in section 2.3, and return the best.
#
# <details><summary>Hint: a bound</summary>
#
# For all weights $\lambda_j \ge 0$,
# $\ -a_i \cdot w \le \big(\sum_{j \ne i} \lambda_j a_j - a_i\big) \cdot w$. Why? And how large can the
# right-hand side be?
# </details>
#
# <details><summary>Hint: the code</summary>
#
# What does `nnls` return besides the weights?
# </details>


# %%
@exercise("02.5")
def wrong_side(A):
    """How far each point can be on the wrong side: (n,), for signed points A (n, d)."""
    ### BEGIN SOLUTION
    # the bound is reached: by the direction from a_i to the nearest such sum
    return np.array([nnls(np.delete(A, i, axis=0).T, a)[1] for i, a in enumerate(A)])
    ### END SOLUTION


# %%
check("02.5", wrong_side)

# %%
A_far = np.vstack([A[:2], [33, -12], A[3:]])
for name, signed in (("our points", A), ("point 3 at (33, -12)", A_far)):
    flips, held = wrong_side(signed) > 1e-9, best_weights(signed) > 1e-9
    print(f"{name:20} can change sides {np.flatnonzero(flips) + 1}, supports {np.flatnonzero(held) + 1}")
    assert np.flatnonzero(flips).tolist() == [0 if signed is A else 2, 6], "see exercise 02.5"

# %% [markdown]
# On our points exactly the support vectors can change sides, but this is luck. How far point $i$ gets is the
# distance of $a_i$ from the **cone** of the others, $\{\sum_{j \ne i} \lambda_j a_j,\ \lambda \ge 0\}$. A
# cone does not depend on the lengths of its points, but the hull does. At $(33, -12)$ point 3 can, yet is too
# far away to support; point 1 supports, yet cannot.
#
# <details><summary>Why it gets as far as the cone</summary>
#
# The hint shows that it gets no farther. Let $c$ be the point of the cone nearest to $a_i$. Adding a little
# of some $a_j$ to $c$, or lengthening and shortening $c$, brings it no nearer. So $(c - a_i) \cdot a_j \ge 0$
# for all $j \ne i$, and $(c - a_i) \cdot c = 0$. If $c \ne a_i$, the $w$ of length one along $c - a_i$
# therefore does what is asked, and $-a_i \cdot w = (c - a_i) \cdot w = \lVert c - a_i \rVert$. $\square$
# </details>

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2.10 Add a point *(optional)*
#
# Where must a new point lie to narrow the strip, or to leave no separating direction at all? We add a
# thirteenth point, a star, and compute best weights.


# %%
def with_point(extra, label):
    """Signed points, best weights and largest margin (0: none) when the point extra is added."""
    A13 = np.vstack([A, label * np.asarray(extra)])
    q = best_weights(A13)
    return A13, q, upper_bound(q, A13)


# %% slideshow={"slide_type": "subslide"} jupyter={"source_hidden": true}
def draw_with(extra, label, ax):
    """The SVM of our points and one more (star); the larger a ring, the more weight q_i it has."""
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


fig, axes = plt.subplots(1, 2, figsize=(9.5, 4.4))
for place, ax in zip(([0, 0.5], [-1.5, 0]), axes, strict=True):
    draw_with(np.array(place), 1.0, ax)
show(
    fig,
    alt="The twelve points and a star with label plus one. Left: the star at (0, 0.5) narrows the strip to a "
    "half-width of 0.416, with rings on points 1 and 13. Right: the star at (-1.5, 0) lies among the other "
    "class; no separator, and rings on points 1, 11 and 13.",
)

# %% [markdown]
# **Figure 3.** A star with label +1 at $(0, 0.5)$ and at $(-1.5, 0)$. Rings: where $q_i > 0$.
#
# Let $a_{13}$ be the star's signed point. It narrows the strip exactly if $a_{13} \cdot \hat w < 1$, for then
# $\hat w$ no longer meets all constraints, and no other direction is as good. It leaves no separating
# direction exactly if $-a_{13}$ lies in the cone of the others. If it does, $a_{13}$ and some point of the
# cone add up to 0. Conversely, Gordan's weights give $a_{13}$ a positive weight, as the other points can be
# separated: divide by it.
#
# Below, place the star so that it is the only support vector: what must then hold for the other $a_i$?
#
# <details><summary>Answer</summary>
#
# The star's signed point $a_{13}$ is then the nearest point of the hull. By the proof of part 2 this needs
# $a_i \cdot a_{13} \ge \lVert a_{13} \rVert^2$ for all $i$: the line at right angles to $a_{13}$ gets the
# others right, and none is nearer to it than the star.
# </details>


# %% tags=["nbval-ignore-output", "widget"]
def with_star(first, second, label):
    figure = Figure(figsize=(5, 5), layout="none")
    draw_with(np.array([first, second]), label, figure.add_axes((0.14, 0.12, 0.82, 0.8)))
    return figure


widgets.sliders(
    with_star,
    alt="The twelve points, the star, and the widest strip, or points that prove that there is none.",
    first=ipywidgets.FloatSlider(value=0.0, min=-4, max=4, step=0.1, description="star, x₁"),
    second=ipywidgets.FloatSlider(value=0.5, min=-4, max=4, step=0.1, description="star, x₂"),
    label=ipywidgets.ToggleButtons(options=[("label +1", 1.0), ("label -1", -1.0)]),
)

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Questions
#
# **1.** A $w$ is off by a small angle $\varepsilon$. Why is part 3's angle, even with the best weights, so
# much larger?
#
# <details><summary>Answer</summary>
#
# Let $w = \hat w / \lVert \hat w \rVert \cos\varepsilon + v \sin\varepsilon$, with $v$ of length one at right
# angles to $\hat w$. A support vector then scores $\hat\mu \cos\varepsilon + a_i \cdot v \sin\varepsilon$.
# As $\sum_i \hat q_i\, a_i \cdot v = \hat a \cdot v = 0$, some of these $a_i \cdot v$ is negative, unless all
# are zero. If one is negative, its point loses margin in proportion to $\varepsilon$. So the gap grows like
# $\varepsilon$. Part 3 proves an angle $\theta$ with $1 - \cos\theta = \mathrm{gap}$. For small angles, in
# radians, $1 - \cos\theta \approx \theta^2 / 2$, so $\theta$ grows like $\sqrt\varepsilon$.
# </details>

# %%
progress("02")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# To prove how good $w$ is, choose weights $\lambda \ge 0$: no margin is above $B(\lambda)$, and if $w$
# separates, $\cos(w, \hat w) \ge \mu(w) / B(\lambda)$.
#
# - If some direction separates, the best is that of the shortest $w$ with all $a_i \cdot w \ge 1$, and of the
#   hull's point nearest to the origin. This point's weights make the bound exact.
# - Along $\hat w$, a short move is worth its point's weight, where $\hat q$ is unique.
# - Where nothing separates, some weights prove it.
# - After 2,500 steps of NGD the gradient's weights had $B < 1.001\,\hat\mu$ exactly where
#   $\eta < \eta^* = 2\hat\mu/\sigma$. The mean of two steps' weights did in all ninety runs.
#
# | claim | prediction | measured |
# |:---|:---|:---|
# | our points: longest step that settles | 3.54 | between 3.5 and 3.58 |
# | runs of 30 with $B < 1.001\,\hat\mu$, steps of 0.5, 0.25, 0.15 | 3, 19, 30 | 3, 19, 30 |
# | the same, mean of two steps' weights | 30, 30, 30 | 30, 30, 30 |

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
# [`svm.HardMarginProblem`](../mini_attn/svm/problem.py), [`svm.label_problem`](../mini_attn/svm/problem.py),
# [`svm.Solution`](../mini_attn/svm/solution.py).
#
# **Next:** in [lesson 03](03_optimizer_geometry.ipynb) the optimiser changes, and with it the norm in which
# $\hat w$ is shortest.
