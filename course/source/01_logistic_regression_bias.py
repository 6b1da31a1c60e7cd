# %% [markdown] slideshow={"slide_type": "slide"}
# # 01 · Logistic regression chooses a margin
#
# Two clouds of points, and many lines that separate them. Logistic regression has no favourite: along every
# one of these lines its loss falls to zero as the weights grow. Gradient descent has a favourite all the
# same.
#
# **Which line does gradient descent choose, and how long does it take?**
#
# Lesson 06 finds the same answer inside attention. Here it can be drawn, derived in a few lines, and measured
# to three digits.

# %% [markdown] slideshow={"slide_type": "skip"}
# **You will be able to**
#
# - run gradient descent on the logistic loss and say where its direction ends;
# - predict its loss, its norm and its very position after $t$ steps, with nothing fitted;
# - explain why one degree of accuracy costs nearly $10^{18}$ plain steps, and 110 normalised ones;
# - derive how long a normalised step may be, and see what happens beyond;
# - say what changes when the clouds overlap, when points repeat, or when descent starts elsewhere.
#
# **You need** linear algebra, calculus and NumPy. Section 1.7 reads a little PyTorch; you write none. About
# 90 minutes, six exercises. Each has a `check` that tells you at once whether your function is right. An
# unsolved exercise runs on with the reference; a wrong one does not: repair it before you go on, or the
# `assert`s below will fail.

# %%
import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure

from course.exercise import check, exercise, progress, todo
from course.figure import show
from mini_attn import containers, data, geometry, models, optim, plots, train, widgets
from mini_attn.plots import COLORS

plots.style()

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 1.1 Many lines, one loss
#
# We have $n = 12$ points $x_i$ in the plane with labels $y_i = \pm 1$.

# %%
positive = [[1.5, -0.5], [2.8, -0.4], [3.3, -1.0], [2.3, 0.9], [3.6, 0.1], [2.9, 1.2]]
negative = [[-0.3, -0.7], [-2.0, -0.5], [-2.7, 0.1], [-3.4, -0.6], [-2.6, -1.5], [-3.8, 0.7]]
X = np.array(positive + negative)
y = np.array([1.0] * 6 + [-1.0] * 6)
n = len(y)

# %% slideshow={"slide_type": "fragment"} jupyter={"source_hidden": true}
separating = {"solid": np.array([1.0, 0.1]), "dashed": np.array([1.0, 1.0]), "dotted": np.array([1.0, 1.6])}

fig, ax = plt.subplots(figsize=(6.4, 3.8))
plots.points(X, y, ax)
for style, w in separating.items():
    plots.boundary(w, ax, linestyle=style)
ax.set(xlim=(-4.3, 4.3), ylim=(-2.4, 2.4))
show(fig, alt="Two clouds of points in the plane, and three lines through the origin that separate them.")

# %% [markdown]
# **Figure 1.** Discs have label $+1$, squares $-1$. Each of the three lines classifies all
# twelve points correctly.

# %% [markdown] slideshow={"slide_type": "subslide"}
# A linear classifier predicts the sign of $w \cdot x$, so its boundary is the line $w \cdot x = 0$ through
# the origin, at right angles to $w$. (For a line that misses the origin, append a coordinate 1 to each $x$.)
# The number $u_i = y_i\, w \cdot x_i$ is positive exactly when point $i$ is classified correctly. Logistic
# regression minimises
#
# $$L(w) = \frac{1}{n} \sum_{i=1}^n \log\left(1 + e^{-u_i}\right), \qquad u_i = y_i\, w \cdot x_i ,$$
#
# with the natural logarithm, as everywhere in this course.


# %%
def loss(w, X, y):
    return np.logaddexp(0, -y * (X @ w)).mean()


for style, w in separating.items():
    print(f"{style:>6}:", *(f"L({s:2d} w) = {loss(s * w, X, y):.0e}" for s in (1, 10, 50)), sep="   ")
assert max(loss(50 * w, X, y) for w in separating.values()) < 1e-8

# %% [markdown]
# Doubling $w$ leaves the line where it is and doubles each $u_i$, so along every separating direction the
# loss falls to zero. There is no minimiser, only directions in which to leave for infinity. What chooses
# among them is the algorithm.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Exercise 01.1: The gradient
#
# ★☆☆ · 8 minutes
#
# Derive $\nabla L(w)$ and write it in NumPy. Write $\ell(u) = \log(1 + e^{-u})$. Each point enters with the
# weight $|\ell'(u_i)|$, where $|\ell'(u)| = 1/(1 + e^u)$. The $u_i$ may be large, of either sign: nothing
# should overflow, and tiny weights should keep their digits.
#
# <details><summary>Hint: the derivative of one term</summary>
#
# $\ell'(u) = -1/(1 + e^u)$, and $u_i = y_i\, w \cdot x_i$ changes with $w$ as $y_i x_i$.
# </details>
#
# <details><summary>Hint: large numbers</summary>
#
# `np.exp(-np.logaddexp(0, u))` is $1/(1 + e^u)$ without overflow: `np.logaddexp(a, b)` is $\log(e^a + e^b)$.
# </details>


# %%
@exercise("01.1")
def logistic_gradient(w, X, y):
    """The gradient of L at w: shape (d,), for w (d,), X (n, d), y (n,)."""
    ### BEGIN SOLUTION
    u = y * (X @ w)
    return -(X.T @ (y * np.exp(-np.logaddexp(0, u)))) / len(y)
    ### END SOLUTION


# %%
check("01.1", logistic_gradient)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 1.2 Descend
#
# Gradient descent repeats $w_{t+1} = w_t - \eta \nabla L(w_t)$ with a fixed step size $\eta$. The loop below
# takes the step as a function, because we shall change it later, and keeps $w$ at the step numbers we ask
# for. These grow geometrically: what follows happens in $\log t$.


# %%
def descend(step, w0, times):
    """The weights (len(times), d) after the given, increasing, numbers of steps from w0."""
    w, kept, wanted = np.asarray(w0, dtype=float), [], set(times)
    for t in range(1, times[-1] + 1):
        w = step(w)
        if t in wanted:
            kept.append(w)
    return np.array(kept)


def geometric(last, count=26):
    return sorted({round(t) for t in np.geomspace(1, last, count)})


eta = 1.0


def gradient_descent(X, y, w0, times):
    return descend(lambda w: w - eta * logistic_gradient(w, X, y), w0, times)


times = geometric(100_000)
W = gradient_descent(X, y, np.zeros(2), times)

print("     t       loss   norm   angle of w from the w_1 axis")
for t in (1, 10, 100, 1000, 10_000, 100_000):
    w = W[times.index(t)]
    degrees = np.degrees(np.arctan2(w[1], w[0]))
    print(f"{t:6d}   {loss(w, X, y):.1e}   {np.linalg.norm(w):4.1f}   {degrees:4.1f} degrees")
decades = [W[times.index(t)] for t in (1000, 10_000, 100_000)]
assert np.allclose(np.diff(np.linalg.norm(decades, axis=1)), 3.23, atol=0.05), "see exercise 01.1"
assert np.allclose(np.diff(np.log10([loss(w, X, y) for w in decades])), -1, atol=0.01), "see exercise 01.1"

# %% [markdown]
# Three quantities, three speeds. Once under way, ten times more steps divide the loss by ten and add about
# 3.2 to the norm, while the direction turns, ever more slowly, towards something. Towards what?

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 1.3 The line it chooses
#
# A separating line is safer the farther it keeps from the points. The **margin** of a direction is the
# distance of the worst point, counted negative if that point is on the wrong side:
#
# $$\mu(w) = \min_i \frac{y_i\, w \cdot x_i}{\lVert w \rVert} .$$

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 01.2: The margin
#
# ★☆☆ · 5 minutes
#
# Write $\mu(w)$.
#
# <details><summary>Hint</summary>
#
# `X @ w` holds all $w \cdot x_i$ at once. The result is one number, and does not change when `w` is doubled.
# </details>


# %%
@exercise("01.2")
def margin(w, X, y):
    """The margin of direction w: a number, for w (d,), X (n, d), y (n,)."""
    ### BEGIN SOLUTION
    return (y * (X @ w)).min() / np.linalg.norm(w)
    ### END SOLUTION


# %%
check("01.2", margin)

# %% [markdown]
# Lesson 02 finds the direction of largest margin by convex optimisation, with a proof that it is the best. In
# the plane we can afford to try them all.
#
# ### Exercise 01.3: The best of many directions
#
# ★★☆ · 8 minutes
#
# Among the directions $(\cos \varphi, \sin \varphi)$ for the given angles $\varphi$, return the one with the
# largest margin (which may be negative, if no line separates).
#
# <details><summary>Hint</summary>
#
# Stack the unit vectors in an array `units` of shape `(k, 2)`. Then `units @ X.T` has shape `(k, n)`: the
# minimum over points is taken along one axis, the best angle along the other.
# </details>


# %%
@exercise("01.3")
def best_direction(X, y, angles):
    """The unit vector of largest margin: shape (2,), for X (n, 2), y (n,), angles (k,) in radians."""
    ### BEGIN SOLUTION
    units = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return units[(y * (units @ X.T)).min(axis=1).argmax()]
    ### END SOLUTION


# %%
check("01.3", best_direction)

# %%
best = best_direction(X, y, np.radians(np.arange(0, 360, 0.01)))
mu = margin(best, X, y)
print(f"best direction ({best[0]:.4f}, {best[1]:.4f}), margin {mu:.4f}")
assert np.allclose([*best, mu], np.sqrt(0.5), atol=1e-4), "see exercises 01.2 and 01.3"

# %% slideshow={"slide_type": "subslide"} jupyter={"source_hidden": true}
fig, (left, right) = plt.subplots(1, 2, figsize=(8, 3.5), width_ratios=[1.5, 1])
plots.points(X, y, left)
dots = {1: (COLORS["vermillion"], ":"), 100: (COLORS["blue"], "-."), 100_000: (COLORS["green"], "-")}
for t, (color, style) in dots.items():
    plots.boundary(W[times.index(t)], left, color=color, linestyle=style, label=f"$t$ = {t:,}")
left.set(xlim=(-4.3, 4.3), ylim=(-2.7, 2.7))
plots.boundary(best, left, margin=mu, linestyle="--", label="largest margin")
plots.directions(W, right, target=best, color="#D0D0D0")
for (t, (color, _)), name in zip(dots.items(), ("vermillion", "blue", "green"), strict=True):
    w = W[times.index(t)]
    right.plot(*(w / np.linalg.norm(w)), "o", color=color, markersize=8, zorder=4)
    right.annotate(
        f"$t$ = {t:,}",
        w / np.linalg.norm(w),
        xytext=(9, -2),
        textcoords="offset points",
        color=plots.ink(name),
    )
fig.legend(loc="outside upper left", ncols=4)
right.set(xlim=(-0.1, 1.5), ylim=(-0.15, 1.15), xlabel=r"$w_1 / ||w||$", ylabel=r"$w_2 / ||w||$")
show(
    fig,
    alt="Left: the classifier's line turns from steep to the line in the middle of the widest empty strip. "
    "Right: directions on the unit circle creep up towards a dashed ray at 45 degrees.",
)

# %% [markdown]
# **Figure 2.** Left: the line after 1, 100 and 100,000 steps, and the widest strip free of points. Right: the
# same run as directions on the unit circle, later steps larger, the three steps marked; dashed, the direction
# of largest margin.

# %% [markdown] slideshow={"slide_type": "slide"}
# Gradient descent heads for the line in the middle of the widest empty strip, which the loss never mentions.
#
# > **Theorem** (Soudry, Hoffer, Nacson, Gunasekar & Srebro 2018, Theorems 3 to 5, for the logistic loss).
# > *Let some $w$ have all $y_i\, w \cdot x_i > 0$, and let $\eta < 8 n / \lVert X \rVert^2$, with
# > $\lVert X \rVert$ the largest singular value of the matrix of points, so that each step lowers the loss.
# > From any start $w_0$ the loss is $L(w_t) = O(1/t)$, and*
# >
# > $$w_t / \lVert w_t \rVert \;\to\; \hat w / \lVert \hat w \rVert .$$
# >
# > *Here $\hat w$ is the shortest $w$ with $y_i\, w \cdot x_i \ge 1$ for all $i$. For almost all data sets,
# > moreover, $w_t = \hat w \log t + \text{(a bounded vector)}$, so that the direction is $O(1/\log t)$ away.*
#
# The exceptions are positions of the points of measure zero, in which some support vector carries no weight
# ($\lambda_i = 0$ in section 1.5): there the remainder may grow, but no faster than $\log\log t$.
#
# The vector $\hat w$ is the **hard-margin support vector machine** (SVM). It is the direction of largest
# margin, scaled so that the nearest points have $u_i = 1$; therefore $\lVert \hat w \rVert = 1 / \hat\mu$,
# where $\hat\mu = \max_w \mu(w)$ is the largest margin.

# %% slideshow={"slide_type": "skip"}
w_hat = best / mu
bound = 8 * n / np.linalg.norm(X, 2) ** 2
print(f"w_hat = {w_hat.round(3)}, largest margin {mu:.3f} = 1/{1 / mu:.3f}; eta must stay below {bound:.2f}")
assert eta < bound
assert np.allclose(w_hat, [1, 1], atol=1e-3), "see exercises 01.2 and 01.3"

# %% [markdown]
# You can verify this one by hand: $\hat w = (1, 1)$ and $\hat\mu = 1/\sqrt 2$. The two points with $u_i = 1$,
# here $(1.5, -0.5)$ and $(-0.3, -0.7)$, hold the strip; they are the **support vectors**.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 1.4 How fast, with nothing fitted
#
# Why the SVM? Suppose only that the direction of $w_t$ converges, to some $\hat v$ with a positive margin.
# (That it does is the hard part of the proof.) Then every $u_i$ grows, $|\ell'(u_i)| \approx e^{-u_i}$, and
# the points nearest in the direction $\hat v$ dominate the gradient, exponentially. So late steps are
# positive combinations of the $y_i x_i$ of *those* points, and $w_t$ is the sum of its steps: **the limit
# direction is a positive combination of its own nearest points.** Lesson 02 shows that only the SVM's
# direction is that (the KKT conditions). With $\log(1 + e^{-u_i}) \approx e^{-u_i}$ too,
#
# $$L \approx \frac{1}{n} \sum_{i \in \mathcal S} e^{-u_i}, \qquad
# -\nabla L \approx \frac{1}{n} \sum_{i \in \mathcal S} e^{-u_i}\, y_i x_i, \qquad
# \mathcal S = \text{the support vectors}.$$
#
# For each support vector, $y_i x_i$ has the same component $\hat\mu$ along $\hat w / \lVert \hat w \rVert$.
# By the theorem $w_t$ turns into that direction, and so do its steps. The length of $-\nabla L$ is then its
# component along $\hat w / \lVert \hat w \rVert$:
#
# $$\lVert \nabla L \rVert \approx \hat\mu\, \frac{1}{n} \sum_{i \in \mathcal S} e^{-u_i}
# \approx \hat\mu\, L .$$
#
# Treat $t$ as continuous, $dw/dt = -\eta \nabla L$. Then
#
# $$\frac{dL}{dt} = -\eta\, \lVert \nabla L \rVert^2, \qquad
# \frac{d \lVert w \rVert}{dt} = \eta\, \lVert \nabla L \rVert ,$$
#
# the first by the chain rule, the second because $w$ and its step are parallel.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 01.4: Two predictions
#
# ★★★ · 12 minutes
#
# Insert $\lVert \nabla L \rVert = \hat\mu L$, solve the first equation for $L(t)$ at
# large $t$, and put it into the second. Return the loss after $t$ steps, and the slope of
# $\lVert w \rVert$ against $\log t$.
#
# <details><summary>Hint</summary>
#
# $dL / L^2 = -c\, dt$ integrates to $1/L = c\, t$ + constant, and the constant does not matter at large $t$.
# A slope $b$ in $\log t$ means $d \lVert w \rVert / dt = b / t$.
# </details>


# %%
@exercise("01.4")
def predict(t, eta, mu):
    """(loss after t steps, slope of the norm in log t): two numbers, for step size eta, largest margin mu."""
    ### BEGIN SOLUTION
    return 1 / (eta * mu**2 * t), 1 / mu
    ### END SOLUTION


# %%
check("01.4", predict)

# %% slideshow={"slide_type": "subslide"}
losses = np.array([loss(w, X, y) for w in W])
norms = np.linalg.norm(W, axis=1)
predicted_loss = np.array([predict(t, eta, mu)[0] for t in times])
slope = predict(1, eta, mu)[1]
line = norms[-1] + slope * (np.log(times) - np.log(times[-1]))
t1, t2 = times.index(10_000), times.index(100_000)
measured_slope = (norms[t2] - norms[t1]) / np.log(10)
print(f"loss at t = 100,000: measured {losses[-1]:.3e}, predicted {predicted_loss[-1]:.3e}")
print(f"slope of the norm over the last decade: measured {measured_slope:.3f}, predicted {slope:.3f}")
assert abs(losses[-1] / predicted_loss[-1] - 1) < 1e-3, "see exercise 01.4"
assert abs(measured_slope / slope - 1) < 3.5e-3, "see exercise 01.4"

# %% jupyter={"source_hidden": true}
fig, (left, right) = plt.subplots(1, 2, figsize=(8, 3.1))
plots.convergence(times, losses, predicted_loss, left, since=100)
left.set(yscale="log", ylabel="loss $L(w_t)$")
left.text(3e3, 3e-3, r"$1 / (\eta\,\hat\mu^2 t)$")
plots.convergence(times, norms, line, right, since=100)
right.set(ylabel=r"norm $||w_t||$")
right.text(7e2, 3.8, r"slope $1 / \hat\mu$ in $\log t$")
show(
    fig,
    alt="Left: the loss falls onto the predicted line 1/t. Right: the norm rises with the predicted slope.",
)

# %% [markdown]
# **Figure 3.** Dots: gradient descent. Dashed: the predictions, drawn from $t = 100$ on. Theory fixes the
# line on the left entirely; of the line on the right, so far, only the slope, and it is shifted so that it
# ends at the last dot. Section 1.5 predicts the shift too.

# %% [markdown]
# The loss agrees within 0.1 percent and the slope within 0.3 percent, and the loss does not even know $n$:
# it depends on the data through the margin alone. (These twelve points are kind to us; section 1.7 tries
# others.)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 1.5 The creep, located
#
# What keeps $w_t$ off the ray is the bounded vector, and we can compute it. It converges, by Theorem 4 of the
# same paper, wherever the support vectors span the space, as our two span the plane. So at large $t$ put
# $w_t = \hat w \log t + \tilde w$ with a constant **offset** $\tilde w$. Its speed is $\hat w / t$. A support
# vector has $y_i x_i \cdot \hat w = 1$, so $e^{-u_i} = e^{-\log t - y_i x_i \cdot \tilde w}$, and
# $dw/dt = -\eta \nabla L$ becomes
#
# $$\frac{\hat w}{t} = \frac{1}{t} \sum_{i \in \mathcal S}
# \frac{\eta}{n}\, e^{-y_i x_i \cdot \tilde w}\; y_i x_i .$$
#
# So $\hat w$ is a positive combination of the support vectors,
# $\hat w = \sum_{i \in \mathcal S} \lambda_i\, y_i x_i$. The coefficients $\lambda_i > 0$ are the SVM's *dual
# variables* (lesson 02). Our two support vectors are independent, so there is only one such combination, and
# the two sums match term by term:
#
# $$\lambda_i = \frac{\eta}{n}\, e^{-y_i x_i \cdot \tilde w} \qquad \text{for each } i \in \mathcal S .$$

# %%
in_S = y * (X @ w_hat) < 1.01
rows = y[in_S, None] * X[in_S]  # y_i x_i of the support vectors
w_hat = np.linalg.solve(rows, np.ones(2))  # u_i = 1 for both: exact, where the search over angles was not
lam = np.linalg.solve(rows.T, w_hat)
print(f"support vectors y_i x_i: {rows[0]} and {rows[1]}")
print(f"w_hat = ({w_hat[0]:.6f}, {w_hat[1]:.6f}) = {lam[0]:.4f} * {rows[0]} + {lam[1]:.4f} * {rows[1]}")

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 01.5: The offset
#
# ★★☆ · 8 minutes
#
# Solve the last equation for $\tilde w$. The rows of `rows` are the vectors $y_i x_i$ of the
# support vectors; there are as many as dimensions, and they are independent.
#
# <details><summary>Hint</summary>
#
# Take logarithms. What remains is one linear equation for each support vector.
# </details>


# %%
@exercise("01.5")
def offset(rows, lam, eta, n):
    """The offset: shape (d,), for rows (d, d), lam (d,), step size eta and n points in the loss."""
    ### BEGIN SOLUTION
    return np.linalg.solve(rows, np.log(eta / (n * lam)))
    ### END SOLUTION


# %%
check("01.5", offset)

# %%
w_tilde = offset(rows, lam, eta, n)


def angle(w):
    """Degrees between w, or each row of w, and w_hat."""
    unit = w_hat / np.linalg.norm(w_hat)
    return np.degrees(np.arctan2(np.abs(w @ [-unit[1], unit[0]]), w @ unit))


predicted = w_hat * np.log(times[-1]) + w_tilde
print(f"after 100,000 steps   measured: w = {W[-1].round(2)}, {angle(W[-1]):.2f} degrees from w_hat")
print(f"                     predicted: w = {predicted.round(2)}, {angle(predicted):.2f} degrees")
assert np.linalg.norm(W[-1] - predicted) < min(0.005, 1e-3 * norms[-1]), "see exercise 01.5"
assert round(angle(W[-1]), 1) == 4.4

# %% [markdown] slideshow={"slide_type": "fragment"}
# The position is right within 0.005, under 0.1 percent of its length. Let $r$ be the part of $\tilde w$
# across $\hat w$. The component of $\tilde w$ along $\hat w$ is $\hat w \cdot \tilde w / \lVert \hat w
# \rVert$, so the angle $\theta_t$ that is left obeys
#
# $$\tan \theta_t = \frac{\lVert r \rVert}{\lVert \hat w \rVert \log t
# + \hat w \cdot \tilde w / \lVert \hat w \rVert} .$$

# %%
unit = w_hat / np.linalg.norm(w_hat)
r = w_tilde - (w_tilde @ unit) * unit


def log10_steps(degrees):
    """log10 of the number of steps after which this angle is left."""
    return (
        (np.linalg.norm(r) / np.tan(np.radians(degrees)) - w_tilde @ unit)
        / np.linalg.norm(w_hat)
        / np.log(10)
    )


print(f"||r|| = {np.linalg.norm(r):.3f}; one degree is left after 10^{log10_steps(1):.1f} steps")
assert 17.8 < log10_steps(1) < 18, "see exercise 01.5"
assert 8.7 < log10_steps(angle(W[-1]) / 2) < 8.9, "see exercise 01.5"
assert 1.9e-5 < losses[-1] < 2.1e-5

# %% [markdown]
# After 100,000 steps 4.4 degrees are left, and getting down to one would take nearly $10^{18}$ steps. The
# loss, at $2 \cdot 10^{-5}$, gives no hint of it.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 1.6 The same path with longer steps
#
# Descent is slow because the gradient dies, as $1/t$; the direction it gives is fine. So keep the direction
# and choose the length: **normalised gradient descent** (NGD) repeats
# $w_{t+1} = w_t - \eta\, \nabla L(w_t) / \lVert \nabla L(w_t) \rVert$.


# %%
def normalized_step(w, X, y, eta):
    """One step of length eta against the gradient."""
    g = logistic_gradient(w, X, y)
    return w - eta * g / np.linalg.norm(g)


# %% slideshow={"slide_type": "subslide"}
ngd_times = geometric(300, 16)
V = descend(lambda w: normalized_step(w, X, y, 0.5), np.zeros(2), ngd_times)

every_step = descend(lambda w: normalized_step(w, X, y, 0.5), np.zeros(2), range(1, 301))
first = 1 + int(np.argmax(angle(every_step) < 1))
foreseen = round(np.linalg.norm(r) / (0.5 * np.radians(1)))
print(f"NGD comes within one degree at step {first}; after 300 steps {angle(V[-1]):.2f} degrees are left")
assert [first, foreseen] == [110, 109], "see exercises 01.1 and 01.5"
assert abs(np.radians(angle(V[-1])) * np.linalg.norm(V[-1]) / np.linalg.norm(r) - 1) < 0.01, (
    "see exercise 01.5"
)

# %% jupyter={"source_hidden": true}
fig, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.7), width_ratios=[1, 1.15])
plots.weights({"GD": W, "NGD": V}, w_hat, w_tilde, 15, left)
left.axline((0, 0), w_hat, color=COLORS["black"], linestyle="--", linewidth=1.5, label=r"$\hat w$")
across = np.array([6 * w_hat, 6 * w_hat + r])
left.plot(*across.T, color=COLORS["black"], linewidth=1.5)
left.annotate("$r$", across.mean(axis=0), xytext=(5, 0), textcoords="offset points")
left.set(xlim=(0, 10.5), ylim=(-0.5, 10.5), aspect="equal")
left.legend(fontsize=10)
plots.convergence(times, angle(W), angle(np.log(times)[:, None] * w_hat + w_tilde), right, 100, label="GD")
shrinking = np.degrees(np.linalg.norm(r) / (0.5 * np.array(ngd_times)))
plots.convergence(ngd_times, angle(V), shrinking, right, 6, label="NGD", marker="s")
ticks = [0.3, 1, 3, 10, 30]
right.set(yscale="log", ylabel=r"angle to $\hat w$ (degrees)", yticks=ticks, yticklabels=ticks)
right.legend(loc="lower right")
show(
    fig,
    alt="Left: in the plane of weights both descents follow one curve, which ends parallel to the ray w hat. "
    "Right: the angle of gradient descent falls like 1/log t, that of the normalised form like 1/t.",
)

# %% [markdown]
# **Figure 4.** Left: the plane of weights. Both descents end on one line (grey) parallel to $\hat w$
# (dashed), at distance $\lVert r \rVert$. Right: the angle left over, measured (dots) and predicted (dashed).

# %% [markdown]
# For small steps both follow the same curve, along which $dw$ is parallel to $-\nabla L$; only the speed
# along it differs. After $t$ steps of length $\eta$ the norm is about $\eta t$ instead of
# $\lVert \hat w \rVert \log t$, so the angle is about $\lVert r \rVert / (\eta t)$, in radians. One degree is
# 0.01745: with $\eta = 0.5$ it should take $0.948 / (0.5 \cdot 0.01745) = 109$ steps, and took 110.
#
# So why not longer steps still? Let the weights be off the line by a small $x$, across $\hat w$. The steps'
# normalised direction mixes the $y_i x_i$ of the support vectors with weights $q_i$, on the line $q_i =
# \lambda_i / \sum_k \lambda_k$. Write $c_i$ for the part of $y_i x_i$ across $\hat w$. On the line these
# parts cancel, $\sum_i q_i c_i = 0$; off it each $e^{-u_i}$ changes by the factor $e^{-c_i x} \approx 1 -
# c_i x$.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 01.6: The longest step
#
# ★★★ · 12 minutes
#
# In the plane $x$ and the $c_i$ are numbers. Find the factor by which one normalised step multiplies a
# small $x$, and return the $\eta$ beyond which it is below $-1$: from there on $x$ grows instead of dying.
# You get the support vectors $y_i x_i$ as `rows`, and their $\lambda_i$.
#
# <details><summary>Hint: the factor</summary>
#
# The step's part across $\hat w$ is $\eta$ times $\sum_i q_i (1 - c_i x)\, c_i$ over the length of $\sum_i
# q_i\, y_i x_i$, which on the line is $\hat\mu$. So $x$ becomes $x\,(1 - \dots)$.
# </details>
#
# <details><summary>Hint: the numbers</summary>
#
# `lam @ rows` is $\hat w$, and $\hat\mu = 1 / \lVert \hat w \rVert$. A unit vector across $\hat w$ has the
# entries $(-\hat w_2, \hat w_1) / \lVert \hat w \rVert$; its sign does not matter, for the $c_i$ are
# squared.
# </details>


# %%
@exercise("01.6")
def longest_step(rows, lam):
    """The largest eta at which normalised steps settle: a number, for rows y_i x_i (2, 2) and lam (2,)."""
    ### BEGIN SOLUTION
    w_hat, q = lam @ rows, lam / lam.sum()
    c = rows @ np.array([-w_hat[1], w_hat[0]]) / np.linalg.norm(w_hat)
    return 2 / (np.linalg.norm(w_hat) * (q @ c**2))
    ### END SOLUTION


# %%
check("01.6", longest_step)


# %%
def far_step(w, length):
    """A normalised step where every e^-u underflows: a common factor changes no direction."""
    u = y * (X @ w)
    g = (y * np.exp(u.min() - u)) @ X
    return w + length * g / np.linalg.norm(g)


limit = longest_step(rows, lam)
print(f"predicted: steps longer than {limit:.2f} never settle")
for length in (3.4, 3.5, 3.6, 4.0):
    late = descend(lambda w, s=length: far_step(w, s), np.zeros(2), [1997, 1998, 1999, 2000])
    off = late @ [1, -1] / np.sqrt(2) - r @ [1, -1] / np.sqrt(2)
    print(f"eta = {length}: off the line by {off.round(3) + 0.0} at the last four of 2,000 steps")
    assert (np.abs(off).max() < 1e-6) == (length < limit), "see exercises 01.5 and 01.6"

# %% [markdown]
# At 3.5 descent settles on the line, at 3.6 it jumps to and fro across it for ever. (Its direction still
# tends to $\hat w$, because the norm grows by $\eta$ each step. What never gets right are the weights
# $q_i$: lesson 02 needs them for a proof.)
#
# (Ji & Telgarsky 2021 prove, for the exponential loss, that the margin comes within $O(1/t)$ of the best if
# the gradient is divided by the loss instead of by its own norm. In the end the two differ by a constant
# factor, for $\lVert \nabla L \rVert \approx \hat\mu L$.)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 1.7 The same from the library, on data that nobody chose
#
# From now on we take models, optimisers and the training loop from `mini_attn`. They agree with what you
# wrote:

# %%
points = containers.PointData(torch.tensor(X), torch.tensor(y))
model = models.LinearClassifier(d=2)
train.fit(model, points, optim.NormalizedGD(model.parameters(), lr=0.5), steps=300, progress=False)
assert np.allclose(model.w.detach(), V[-1]), "see exercise 01.1"

model = models.LinearClassifier(d=2)
train.fit(model, points, torch.optim.SGD(model.parameters(), lr=eta), steps=100, progress=False)
assert np.allclose(model.w.detach(), W[times.index(100)]), "see exercise 01.1"

# %% [markdown]
# Our twelve points were picked to make clear figures. Here are a hundred random data sets of twenty points. A
# leading dimension holds the *trials*, here $X$ has shape (100, 20, 2), and one call trains them all.

# %%
sets = [data.separable_points(n=20, seed=seed) for seed in range(100)]
many = containers.PointData(torch.stack([s.X for s in sets]), torch.stack([s.y for s in sets]))
angles = np.radians(np.arange(0, 360, 0.01))
targets = torch.tensor(np.array([best_direction(s.X.numpy(), s.y.numpy(), angles) for s in sets]))
for name in ("GD", "NGD"):
    model = models.LinearClassifier(d=2, trials=100)
    if name == "GD":
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    else:
        optimizer = optim.NormalizedGD(model.parameters(), lr=0.5, batch_dims=1)  # a norm for each trial
    train.fit(model, many, optimizer, steps=1000, progress=False)
    left_over = torch.rad2deg(torch.arccos(geometry.cosine(model.w.detach(), targets))).numpy()
    print(f"{name:>3}, 1000 steps: {np.median(left_over):.1f} degrees from the SVM in the median, ", end="")
    print(f"at most {left_over.max():.1f}")
    assert (np.median(left_over) > 6) if name == "GD" else (left_over.max() < 2), "see exercise 01.3"

# %% [markdown]
# Do the predictions of sections 1.4 and 1.5 hold here as well? We run 100,000 plain steps on the first
# twenty sets, and look at what distinguishes them: the number of support vectors, and the next $\hat w
# \cdot y_i x_i$ after them. The next point's pull, relative to theirs, dies like $t^{1 - \text{next}}$.
# With 2.3, as in our twelve points, it is soon gone; with 1.04, never.

# %%
A = (many.y[:20, :, None] * many.X[:20]).numpy()  # signed points y_i x_i, (20, 20, 2)
u_hat = np.einsum("kid,kd->ki", A, targets[:20].numpy())
held = u_hat < 1.003 * u_hat.min(axis=1, keepdims=True)  # the search over angles is good to four digits
w_hats = np.array([np.linalg.pinv(A[k, held[k]]).sum(axis=1) for k in range(20)])  # shortest with u = 1 there
u_hat = np.einsum("kid,kd->ki", A, w_hats)
assert u_hat.min() > 1 - 1e-9, "see exercise 01.3"
following = np.where(held, np.inf, u_hat).min(axis=1)
w, at_decade = np.zeros((20, 2)), []
for t in range(1, 100_001):
    u = np.einsum("kid,kd->ki", A, w)
    w = w + 0.5 / 20 * np.einsum("ki,kid->kd", np.exp(-np.logaddexp(0, u)), A)
    if t in (10_000, 100_000):
        at_decade.append(w)
widths = 1 / np.linalg.norm(w_hats, axis=1)
mean_loss = np.logaddexp(0, -np.einsum("kid,kd->ki", A, w)).mean(axis=1)
foreseen = np.array([predict(100_000, 0.5, mu_k) for mu_k in widths])
growth = np.diff(np.linalg.norm(at_decade, axis=2), axis=0)[0] / np.log(10)
off = {"loss": np.abs(mean_loss / foreseen[:, 0] - 1), "slope": np.abs(growth / foreseen[:, 1] - 1)}
off["position"] = np.full(20, np.nan)
for k in np.nonzero(held.sum(axis=1) == 2)[0]:
    pair = A[k, held[k]]
    end = w_hats[k] * np.log(100_000) + offset(pair, np.linalg.solve(pair.T, w_hats[k]), 0.5, 20)
    off["position"][k] = np.linalg.norm(w[k] - end) / np.linalg.norm(w[k])
print("set, support vectors, next, and by how many percent loss, slope, position miss the prediction")
for k in following.argsort()[::-1]:
    misses = "".join(f"{100 * off[name][k]:8.1f}" if off[name][k] >= 0 else "       -" for name in off)
    print(f"{k:3d} {held[k].sum():6d} {following[k]:10.2f}   {misses}")
for name, (least, most) in {"loss": (0.004, 0.14), "slope": (0.02, 0.14), "position": (0.002, 0.28)}.items():
    assert least < np.nanmin(off[name]) < np.nanmax(off[name]) < most, "see exercises 01.4 and 01.5"
assert (held.sum(axis=1) == 1).sum() == 6
assert np.nanmedian(off["position"][following > 1.35]) < 0.01 < np.nanmedian(off["position"][following < 1.2])

# %% [markdown]
# On data that nobody chose the loss is off by up to 13 percent after 100,000 steps, the slope by up to 13,
# the position by up to 27: the predictions are limits. Small next values make them late, though not they
# alone. Six sets have a dash. They have a *single* support vector, which does not span the plane: nothing
# then fixes the part across $\hat w$.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 1.8 Where it breaks, and where it does not
#
# Change one thing at a time: points that no line separates, points that repeat, another start.

# %%
steps = geometric(10_000, 21)
starts = {"(0, 0)": (0, 0), "(-5, -5)": (-5, -5), "(8, -3)": (8, -3)}

X_mixed, y_mixed = np.vstack([X, [1.0, 1.0]]), np.append(y, -1.0)  # a square among the discs
mixed = [gradient_descent(X_mixed, y_mixed, starts[name], steps) for name in ("(0, 0)", "(-5, -5)")]
print("not separable, two starts: w =", mixed[0][-1].round(3), "and", mixed[1][-1].round(3))


half = np.array([[0.0, 1.0], [0.0, -1.0], [1.0, 0.0]])  # the first two cannot both be right; the third can
undecided = gradient_descent(half, np.ones(3), [0.5, 0.7], [100, 1000, 10_000])
print("between the two: w after 100, 1,000, 10,000 steps", *undecided.round(1) + 0.0)


def repeated(point, copies):
    """Weights after `steps` when a point is there several times, and the offset theory predicts."""
    X_more = np.vstack([X, X[[point] * (copies - 1)]])
    y_more = np.append(y, y[[point] * (copies - 1)])
    shared = np.where(np.isclose(rows, y[point] * X[point]).all(axis=1), lam / copies, lam)
    return gradient_descent(X_more, y_more, np.zeros(2), steps), offset(rows, shared, eta, len(y_more))


repeats = {
    "each once": repeated(0, 1),
    "5 of (-0.3, -0.7)": repeated(6, 5),
    "5 of (1.5, -0.5)": repeated(0, 5),
}
for name, (path, _) in repeats.items():
    print(f"{name}: {angle(path[-1]):.2f} degrees left")

from_starts = {name: gradient_descent(X, y, start, steps) for name, start in starts.items()}
for name, path in from_starts.items():
    print(f"start {name}: {angle(path[-1]):.1f} degrees left")

# the numbers in the text below Figure 5
assert np.allclose([path[-1] for path in mixed], [2.1, -1.7], atol=0.05), "see exercise 01.1"
degrees = [round(float(angle(path[-1])), 2) for path, _ in repeats.values()]
assert degrees == [6.01, 0.06, 11.77], "see exercise 01.1"
assert np.allclose(lam, [1 / 3, 5 / 3])
assert np.allclose(*repeats["5 of (-0.3, -0.7)"][1]), "see exercise 01.5"  # along (1, 1): r is zero
assert round(float(angle(from_starts["(8, -3)"][-1])), 1) == 24.7, "see exercise 01.1"
assert X[0] @ starts["(8, -3)"] == 13.5
share = -(X[0] @ X[6]) / (X[6] @ X[6])  # while the other one pulls, u of the first grows, too, by this share
meet = (13.5 - share * -X[6] @ starts["(8, -3)"]) / (1 - share)  # where the two u are equal
assert 8 < np.log10(n * np.exp(meet) / (eta * X[6] @ X[6])) < 8.7
assert np.abs(undecided[:, 1]).max() < 1e-6, "see exercise 01.1"
assert np.allclose(np.diff(undecided[:, 0]), np.log(10), atol=0.03), "see exercise 01.1"

# %% slideshow={"slide_type": "subslide"} jupyter={"source_hidden": true}
fig, (left, middle, right) = plt.subplots(1, 3, figsize=(9.8, 3.3))
left.semilogx(steps, norms[: len(steps)], color="black", linestyle="--", label="separable")
for path, start in zip(mixed, starts, strict=False):
    left.semilogx(steps, np.linalg.norm(path, axis=1), label=f"from {start}")
left.set(xlabel="step $t$", ylabel="norm $||w_t||$", title="(a) not separable", ylim=(0, 9.5))
left.legend()
for (name, (path, shift)), marker in zip(repeats.items(), "osD", strict=True):
    later = angle(np.log(steps)[:, None] * w_hat + shift)
    plots.convergence(steps, angle(path), later, middle, 1000, label=name, marker=marker)
middle.set(ylabel=r"angle to $\hat w$ (degrees)", title="(b) repeated points", ylim=(-1, 60))
middle.legend(loc="upper right", borderaxespad=0)
whole = {f"from {name}": np.vstack([starts[name], path]) for name, path in from_starts.items()}
plots.weights(whole, w_hat, w_tilde, 14, right, linestyle="-")
right.set(title="(c) another start", xlim=(-6, 13), ylim=(-6, 13))
right.legend(fontsize=9)
show(
    fig,
    alt="Three panels. Without separability the norm levels off. Repeated points change the angle's fall. "
    "Paths from three starts run towards one line.",
)

# %% [markdown]
# **Figure 5.** (a) The norm, on our points and with one more at $(1, 1)$, labelled $-1$. (b) The angle to
# $\hat w$ when a support vector is repeated: measured (markers), predicted by your `offset` (dashed, from
# $t = 1{,}000$ on). (c) The weights from three starts, up to $t = 10{,}000$, and the line that all approach.

# %% [markdown] slideshow={"slide_type": "notes"}
# **(a) Points that no line separates.** With a point on the wrong side, here going far is costly in every
# direction. Now $L$ has a finite minimiser, near $(2.1, -1.7)$, and descent stops there from either start.
# There is nothing left to choose. (Not separable does not always mean this. Let $y_i x_i$ be $(0, 1)$,
# $(0, -1)$, $(1, 0)$: no $w$ has all $u_i > 0$, but going along $(1, 0)$ costs nothing, and $w_1$ grows by
# $\log 10$ a decade for ever. A finite minimiser exists when every direction makes some $u_i$ negative.)
#
# **(b) Repeated points.** The SVM does not count points, so the limit stays. The offset does count: $c$
# copies of a point share its $\lambda_i$. The $\lambda_i$ of $(-0.3, -0.7)$ is five times the other's, so
# with five copies of it both support vectors ask for the same $y_i x_i \cdot \tilde w$. Then $\tilde w$ is
# parallel to $\hat w$, $r = 0$, and 0.06 degrees are left after 10,000 steps. Five copies of
# $(1.5, -0.5)$ leave 11.8 degrees, against 6.0 with each point once.
#
# **(c) Another start.** The support vectors span the plane, so the offset does not depend on $w_0$: all
# paths end on one line. (With a single support vector, as in six of the twenty sets above, each start keeps
# an offset of its own; the direction is the same.) But a far start is forgotten slowly. At $(8, -3)$ the
# point $(1.5, -0.5)$ has $u_i = 13.5$. Its pull, at most $e^{-13.5} \approx 10^{-6}$, counts only when that
# of the other support vector $x$ has sunk as far. Pulling alone, that one has $e^{-u} \approx n / (\eta
# \lVert x \rVert^2 t)$, and the first $u$ grows a little, too: they meet after some $2 \cdot 10^8$ steps.
# After 10,000 there are 24.7 degrees left.

# %% [markdown] slideshow={"slide_type": "skip"}
# **The arithmetic breaks too.** Far out every $e^{-u_i}$ underflows to zero, and your normalised step
# divides zero by zero. Only the direction of the gradient matters, so the library takes the largest
# $|\ell'(u_i)|$ out of the sum before it computes anything. Inside attention this trap opens much earlier;
# Lesson 05 is about it.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 1.9 Move a point
#
# The ringed point is the first one, at $(1.5, -0.5)$. Move it with the sliders, and change the step size.
# Try to
#
# 1. move the point away from the strip: from where on does the dashed line no longer care?
#    <details><summary>Answer</summary>Move it up from (1.5, -0.5). From (1.5, 0.1) on it lies beyond the
#    strip that (3.3, -1.0) and (-0.3, -0.7) hold without it; it is no support vector any more.</details>
# 2. place it so that descent is within a degree after 3,000 steps;
#    <details><summary>Answer</summary>At (0.3, -0.7), for instance, it mirrors the other support vector. Both
#    pull equally, so the offset is parallel to the SVM vector, and nothing is left to turn.</details>
# 3. make the data impossible to separate, and watch the norm in the title;
#    <details><summary>Answer</summary>At (-1, 0) the disc lies among the squares. The norm stays at 2.4: the
#    loss now has a minimiser.</details>
# 4. raise the step size to 100. Why does it not help?
#    <details><summary>Answer</summary>The first step throws w far out, where all losses are tiny. It is a
#    start like (8, -3) in Figure 5(c), only farther: nothing is left to pull it round.</details>


# %% jupyter={"source_hidden": true} slideshow={"slide_type": "skip"}
def margin_figure(X, y, x1, x2, eta):
    """Where gradient descent goes, from zero, in 3,000 steps, when the first point is moved to (x1, x2)."""
    X = np.concatenate([[[x1, x2]], X[1:]])
    A = y[:, None] * X
    at = np.unique(np.geomspace(1, 3000, 40).round().astype(int))
    path, w = [], np.zeros(2)
    for t in range(1, at[-1] + 1):
        w = w + eta / len(y) * np.exp(-np.logaddexp(0, A @ w)) @ A
        if t in at:
            path.append(w)
    degrees = np.degrees(np.unwrap(np.arctan2(*np.transpose(path)[::-1])))

    turn = np.linspace(-np.pi, np.pi, 3601)
    units = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    margins = (units @ A.T).min(axis=1)
    best, widest = units[margins.argmax()], margins.max()

    figure = Figure(figsize=(7.8, 3.3), layout="none")  # constrained layout draws everything twice
    figure.subplots_adjust(left=0.07, right=0.99, bottom=0.15, top=0.9, wspace=0.25)
    plane, course = figure.subplots(1, 2, width_ratios=[1.2, 1])
    plots.points(X, y, plane)
    plane.scatter(x1, x2, s=220, facecolor="none", edgecolor=COLORS["black"], linewidth=1.5)
    plane.set(xlim=(-4.3, 4.3), ylim=(-2.6, 2.6), xticks=[-4, -2, 0, 2, 4], yticks=[-2, 0, 2])
    plots.boundary(w, plane, color=COLORS["green"])
    course.plot(np.log10(at), degrees, color=COLORS["green"], label="gradient descent")
    if widest > 0:
        plots.boundary(best, plane, margin=widest, linestyle="--")
        target = np.degrees(np.arctan2(best[1], best[0]))
        target += 360 * np.round((degrees[-1] - target) / 360)
        course.axhline(target, color=COLORS["black"], linestyle="--", label="largest margin")
        plane.set_title(f"largest margin {widest:.2f}")
    else:
        plane.set_title("not separable: no margin")
    # ticks set by hand: a logarithmic axis with its minor ticks costs 50 ms a drawing
    course.set_xticks([0, 1, 2, 3], ["1", "10", "100", "1000"])
    course.legend(loc="best", fontsize=10)
    length = rf"$\Vert w_t \Vert$ = {np.linalg.norm(w):.1f} at the end"
    course.set(xlabel="step $t$", ylabel="angle of $w_t$ (degrees)", title=length)
    return figure


def margin_widget(X, y):
    """The figure with sliders for the first point and the step size."""
    wide = {"style": {"description_width": "150px"}, "layout": ipywidgets.Layout(width="480px")}
    first, second = "ringed point, first", "ringed point, second"
    return widgets.sliders(
        lambda x1, x2, eta: margin_figure(X, y, x1, x2, eta),
        alt="The points with descent's line and the widest strip; the angle of w against steps.",
        x1=ipywidgets.FloatSlider(float(X[0, 0]), min=-3, max=4, step=0.1, description=first, **wide),
        x2=ipywidgets.FloatSlider(float(X[0, 1]), min=-2.4, max=2.4, step=0.1, description=second, **wide),
        eta=ipywidgets.FloatLogSlider(1.0, min=-2, max=2, step=0.1, description="step size", **wide),
    )


# %% slideshow={"slide_type": "skip"} jupyter={"source_hidden": true}
fig = margin_figure(X, y, x1=0.6, x2=1.0, eta=1.0)
show(
    fig,
    alt="Left: the ringed point now lies at (0.6, 1.0), and the widest strip turned with it. Right: the "
    "direction of w approaches the dashed direction of largest margin.",
)

# %% [markdown]
# **Figure 6.** What the sliders show when the ringed point is at $(0.6, 1.0)$. Left: the line of gradient
# descent after 3,000 steps from zero, and the line of largest margin with its strip. Right: the direction of
# $w_t$.

# %% tags=["nbval-ignore-output", "widget"]
margin_widget(X, y)

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Questions
#
# 1. The loss is $2 \cdot 10^{-5}$ and halves with every doubling of $t$. A friend stops here and calls
#    $w / \lVert w \rVert$ converged. What do you say?
#    <details><summary>Answer</summary>The loss falls like 1/t, the angle only like 1/log t. By the
#    formula of section 1.5, half the angle needs 10<sup>8.8</sup> steps instead of 10<sup>5</sup>.</details>
# 2. All points are multiplied by 10. What happens to $\hat w$, to its direction, to the slope of the norm?
#    <details><summary>Answer</summary>The margin is ten times larger, so the SVM vector and the slope are ten
#    times smaller; the direction stays. The largest allowed step size is a hundred times smaller.</details>
# 3. You delete a point that is not a support vector. Does the limit direction change? The path?
#    <details><summary>Answer</summary>The limit does not. The path does at first; in the end only through n
#    in the offset, which moves it along the direction of the SVM and not across.</details>

# %%
progress("01")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - On separable data the logistic loss has no minimiser, and gradient descent leaves for infinity in the
#   direction of the hard-margin SVM.
# - $L \approx 1 / (\eta \hat\mu^2 t)$, $\lVert w \rVert$ grows by $1/\hat\mu$ per unit of $\log t$, and, if
#   the support vectors span the space, $w_t$ approaches $\hat w \log t + \tilde w$: three limits from the
#   data alone, met to 0.1, 0.3 and 0.1 percent on twelve kind points, to between 0.2 and 27 percent on
#   random ones.
# - The direction needs exponentially many steps. Normalised steps follow the same path and need about
#   $\lVert r \rVert / (\eta\, \theta)$ of them for an angle $\theta$, if $\eta < 2 \hat\mu / \sum_i q_i
#   c_i^2$.
# - Start and repetitions move the path, not the limit. If every direction gets some point wrong, there is a
#   finite minimiser instead.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Further reading
#
# - D. Soudry, E. Hoffer, M. S. Nacson, S. Gunasekar, N. Srebro. *The implicit bias of gradient descent on
#   separable data.* JMLR 19 (2018). The theorem of this lesson; its Theorem 4 is the offset. arXiv
#   1710.10345.
# - Z. Ji, M. Telgarsky. *The implicit bias of gradient descent on nonseparable data.* COLT 2019. What lies
#   between separable and not. arXiv 1803.07300.
# - M. S. Nacson et al. *Convergence of gradient descent on separable data.* AISTATS 2019, and Z. Ji, M.
#   Telgarsky. *Characterizing the implicit bias via a primal-dual analysis.* ALT 2021. How normalised steps
#   speed it up.
# - S. Rosset, J. Zhu, T. Hastie. *Margin maximizing loss functions.* NIPS 2003. The same limit by shrinking
#   the regularisation instead of waiting.
#
# **New in the library:** [`containers.PointData`](../mini_attn/containers.py),
# [`data.separable_points`](../mini_attn/data.py), [`geometry.cosine`](../mini_attn/geometry.py),
# [`history.History`](../mini_attn/history.py), [`losses.Loss`](../mini_attn/losses.py),
# [`models.LinearClassifier`](../mini_attn/models.py), [`optim.NormalizedGD`](../mini_attn/optim.py),
# [`train.fit`](../mini_attn/train.py).
#
# **Next:** [lesson 02](02_hard_margin_svm.ipynb) solves the SVM without trying every angle, and proves for
# any direction how far from the best it is.
