# %% [markdown] slideshow={"slide_type": "slide"}
# # 08 · Regularisation paths
#
# Gradient descent makes $p$ longer and longer. There is another way to let a vector grow: allow it a length
# $R$, take the *best* $p$ within it, and raise $R$:
#
# $$p(R) = \arg\min_{\|p\| \le R} L(p).$$
#
# This is the **regularisation path**. It knows no start, no step and no history.
#
# **The question: do gradient descent and the best $p$ of each length go to the same place?**

# %% [markdown] slideshow={"slide_type": "skip"}
# **After this lesson you can**
#
# - compute $p(R)$ in the plane, and recognise a local minimum in any dimension;
# - derive how the path starts, where it ends, and how far beside its ray it runs;
# - prove from the loss alone which tokens are selected;
# - say why descent runs beside the path.
#
# **You need** [lesson 06](06_attention_as_svm.ipynb) (Att-SVM, forces between tokens) and [lesson
# 07](07_local_global_tokens.ipynb) (local and global winners). About 80 minutes (120 with a pencil), four
# exercises.

# %%
import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure

from course.exercise import check, exercise, progress, todo
from course.figure import show
from course.replicate import lesson_08 as kit
from mini_attn import geometry, models, plots, svm, widgets
from mini_attn.paths import regularization_path

plots.style()
torch.set_num_threads(1)  # many small tensors: one thread is fastest
PATH, DESCENT = plots.COLORS["blue"], plots.COLORS["vermillion"]  # all lesson long
BLACK, GREY = plots.COLORS["black"], plots.COLORS["grey"]
again = "exercise {} is not right yet: see what its check says"

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 8.1 The idea in a picture
#
# How do the path and descent look side by side? We begin, as in lesson 06, with one sequence of $T$ tokens.
# It has keys $k_t$, scores $\gamma_t$, attention $s = \mathrm{softmax}(h)$ with $h_t = k_t \cdot p$, and the
# loss $L(p) = \ell(\sum_t s_t \gamma_t)$, $\ell(u) = \log(1 + e^{-u})$. As $\ell$ decreases, minimising $L$
# means minimising the **shortfall**
#
# $$\Gamma(p) = \gamma_{\max} - \sum_t s_t\, \gamma_t = \sum_t s_t\, (\gamma_{\max} - \gamma_t),$$
#
# where $\gamma_{\max}$ is the best score. It is what attention loses by not being all on the best token.


# %%
def attention(p, keys):
    """softmax of the logits k_t.p, for any number of points at once: p (..., d), keys (T, d) -> (..., T)."""
    h = p @ keys.T
    e = np.exp(h - h.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def shortfall(p, keys, scores):
    """Gamma at each point by the second form: p (..., 2), keys (T, 2), scores (T,) -> (...,)."""
    return attention(p, keys) @ (scores.max() - scores)


# %% [markdown]
# In the plane all $p$ of length $R$ form a circle. `search` tries 720 angles on it and zooms in on the best.
# `descend` takes normalised gradient steps, and `at_length` returns a run's point of length $R$. (Helpers
# called `kit.` are in [`lesson_08.py`](../course/replicate/lesson_08.py).)

# %%
keys = np.array([[-0.1, 1.0], [1.0, 0.0], [0.0, 0.0]])  # the toy of lesson 06
spread = np.array([1.0, 0.9, 0.0])  # its scores


def circle(angle, R):
    """Points of length R at these angles (radians), (N, 2); R is a number or (N,)."""
    return np.asarray(R)[..., None] * np.stack([np.cos(angle), np.sin(angle)], axis=-1)


def best_angle(value, R):
    """The angle at which value(p), p (N, 2), is smallest on the circle of radius R."""
    angles = np.linspace(-np.pi, np.pi, 720, endpoint=False)
    reach = angles[1] - angles[0]
    best = angles[np.argmin(value(circle(angles, R)))]
    for _ in range(13):  # each time six times closer
        angles = best + reach * np.linspace(-1, 1, 17)
        best, reach = angles[np.argmin(value(circle(angles, R)))], reach / 6
    return best


def search(keys, scores, radii):
    """p(R) at each radius, (radii, 2); radii increase."""
    found = circle(np.array([best_angle(lambda p: shortfall(p, keys, scores), R) for R in radii]), radii)
    assert (np.diff(shortfall(found, keys, scores)) < 0).all()  # the larger circle is the better one
    return found


def degrees(p):
    return np.degrees(np.arctan2(p[..., 1], p[..., 0]))


# %% [markdown]
# **Predict before you run on.** The scores are $1, 0.9, 0$. In lesson 06 descent from $(0, 0)$ found token 1,
# and descent from $(0, -1.5)$ stayed with token 2. As $R$ grows, does $p(R)$ turn to token 1 together with
# the first run, earlier or later?

# %%
radii = np.geomspace(0.1, 30, 40)
on_path = search(keys, spread, radii)
from_zero, from_below = (kit.descend(keys, spread, start, 3500, 0.01) for start in ((0, 0), (0, -1.5)))
few = np.array([0.1, 1, 4, 12, 24])
ours = degrees(search(keys, spread, few))
theirs = degrees(np.array([kit.at_length(from_zero, R) for R in few]))
for row in zip(few, ours, theirs, strict=True):
    print("at length {:4g}: path at {:5.1f} degrees, descent from 0 at {:5.1f}".format(*row))
assert np.abs((ours - theirs)[[0, -1]]).max() < 1.5

# %% [markdown]
# The path turns earlier. Its angle and that of descent from 0 start and end together. The second run goes
# elsewhere (Figure 1).


# %% jupyter={"source_hidden": true}
def draw_map(ax, keys, scores, radii):
    """By angle and length, Gamma on each circle from its smallest value (0) to its largest (1)."""
    angles = np.linspace(-180, 180, 361)
    depth = np.array([shortfall(circle(np.radians(angles), R), keys, scores) for R in radii])
    depth = (depth - depth.min(axis=1, keepdims=True)) / np.ptp(depth, axis=1, keepdims=True)
    levels = [0, 0.01, 0.04, 0.09, 0.16, 0.25, 0.36, 0.49, 0.64, 0.81, 1]
    shades = plt.get_cmap("Greys")(np.linspace(0, 0.6, len(levels) - 1))
    filled = ax.contourf(angles, radii, depth, levels=levels, colors=shades)
    bar = ax.figure.colorbar(filled, ax=ax, ticks=[0, 0.04, 0.16, 0.36, 0.64, 1], pad=0.02)
    bar.set_label("shortfall, 0 to 1 on each circle")
    ax.set(yscale="log", xlabel="angle of $p$ (degrees)", ylabel=r"length $\|p\|$ or radius $R$")
    ax.set(xticks=[-180, -90, 0, 90, 180], ylim=(radii[0], radii[-1]))


fig, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.3), width_ratios=[1.3, 1])
draw_map(left, keys, spread, radii)
for run, color, style, name in (
    (on_path, PATH, "-", "path $p(R)$"),
    (from_zero, DESCENT, "--", "descent from 0"),
    (from_below, DESCENT, ":", "descent from (0, -1.5)"),
):
    left.plot(degrees(run), np.linalg.norm(run, axis=1), style, color=color)
    right.plot(*run.T, style, color=color, label=name)
for limit, name, side in ((95.7, "token 1", "left"), (0, "token 2", "right")):  # Att-SVMs, lesson 06
    left.axvline(limit, color=BLACK, linewidth=1)
    left.text(limit + (5 if side == "left" else -5), 22, name, ha=side, va="center", fontsize=11)
    ray = circle(np.radians(limit), np.array([0, 20])).T
    right.plot(*ray, color=BLACK, linewidth=1, label="Att-SVM of a token" if limit else None)
right.set(xlim=(-3, 9), ylim=(-2.5, 9.5), xlabel="$p_1$", ylabel="$p_2$", aspect="equal")
right.legend(loc="upper right")
show(
    fig,
    alt="Left, a map of angle against length, white where the shortfall is small. The path runs in the white "
    "valley from 58 degrees to the line of token 1 at 96; descent from zero starts with it, lags behind and "
    "joins it; descent from (0, -1.5) comes from -90 degrees and stays at the line of token 2, 0 degrees. "
    "Right, the same three curves in the p-plane.",
)

# %% [markdown]
# **Figure 1.** Left: the shortfall by angle and length, shaded on each circle from its smallest value (white)
# to its largest. Thin lines: directions of the two Att-SVMs. Right: the same in the $p$-plane.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 8.2 Small radii
#
# How do the two curves leave the origin? Near 0, $L(p) \approx L(0) + g \cdot p$ with $g = \nabla L(0)$, and
# to first order the best $p$ of length $R$ is $-R\, g / \|g\|$. So if $g \ne 0$, **the path starts in the
# direction of descent's first step**.
#
# From there both curves may turn away from $-\hat g$, where $\hat g = g/\|g\|$. How fast each one turns
# depends on $g$ and on $H$, the matrix of second derivatives of $L$ at 0.

# %% [markdown]
# ### Exercise 08.1: The first turn
#
# ★★☆ · 10 minutes
#
# Both curves, at length $R$, are $p/R = -\hat g + R\, b + O(R^2)$ with a vector $b \perp \hat g$. Return
# the two vectors $b$: first that of the path, then that of descent from 0 with very small steps, which
# follows $dp/d\tau = -\nabla L(p)$ in the time $\tau$. **Predict**: which of the two turns faster?
#
# <details><summary>Hint</summary>
#
# Near 0, $\nabla L(p) \approx g + Hp$. At a minimum on the sphere $-\nabla L(p)$ has the direction of $p$:
# what does this say about the part of $g + Hp$ across $p$, to first order in $R$? For descent solve the
# equation by a power series in $\tau$, as far as $\tau^2$, and then ask for direction and length.
# </details>


# %%
@exercise("08.1")
def first_turn(g, H):
    """Return b of the path and of descent, (2, d), for the gradient g (d,) and the Hessian H (d, d) at 0."""
    ### BEGIN SOLUTION
    size = np.linalg.norm(g)
    unit = g / size
    turn = H @ unit
    path = (turn - (turn @ unit) * unit) / size
    return np.stack([path, path / 2])
    ### END SOLUTION


# %%
check("08.1", first_turn)

# %% [markdown]
# <details><summary>Answer and derivation, when you have yours</summary>
#
# **If $b \ne 0$, the path at first turns twice as fast as descent.**
#
# Let $(\cdot)_\perp$ be the part across $\hat g$, that is, orthogonal to it.
#
# *The path.* At $p = R(-\hat g + R\,b)$ the part of $g + Hp$ across $p$ must vanish. The direction of $-p$ is
# not quite $\hat g$ but $\hat g - R\,b$, so $g$ itself has the part $\|g\|\,R\,b$ across $p$, to first order
# in $R$; and $Hp$ has the part $-R\,(H \hat g)_\perp$. The two cancel if $b = (H \hat g)_\perp/\|g\|$.
#
# *Descent.* The power series is $p = -\tau g + \frac{\tau^2}{2} H g + \dots$, of length $R \approx \tau
# \|g\|$. Its part across $\hat g$ is $\frac{\tau^2}{2} \|g\| (H \hat g)_\perp$; divided by $R^2$ this is $(H
# \hat g)_\perp / (2\|g\|)$.
#
# *Why a half?* Along descent the gradient is $g - \tau H g$. The path must fit the last gradient. Descent
# adds up all of them, and the mean of $\tau$ is half of its last value. </details>
#
# We compare your $b$ with the measured turns of the toy. (`derivatives` is automatic differentiation.)

# %%
toy = kit.tokens_of(keys, spread)
at_zero = kit.derivatives(torch.zeros(1, 2, dtype=torch.float64), toy.keys[None], toy.scores[None])
(g,), (H,) = (part.numpy() for part in at_zero)
outset = -g / np.linalg.norm(g)
rates = np.degrees(np.asarray(first_turn(g, H)) @ np.array([-outset[1], outset[0]]))
print(f"the toy starts at {degrees(outset):.1f} degrees; turned, in degrees, per length R:")
print(f"predicted for R -> 0: path {rates[0]:6.2f}, descent {rates[1]:5.2f}")
near = np.array([0.003, 0.03, 0.3])
runs = np.array([kit.descend(keys, spread, (0, 0), 500, R / 500)[-1] for R in near])
turned = [(degrees(points) - degrees(outset)) / near for points in (search(keys, spread, near), runs)]
for R, a, b in zip(near, *turned, strict=True):
    print(f"measured at R = {R:5g}: path {a:6.2f}, descent {b:5.2f}, ratio {a / b:.2f}")
assert np.abs(np.array(turned)[:, 0] / rates - 1).max() < 0.004, again.format("08.1")

# %% [markdown]
# As $R$ falls, both measured turns come to the predicted ones, and their ratio to 2.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 8.3 Any dimension: projected steps
#
# How do we look for $p(R)$ beyond the plane? We take gradient steps, and whenever one leads out of the ball,
# we come back to the nearest point. The library's `regularization_path` does this for one radius after the
# other, each time from its last solution. Despite its name it is a **follower**: what it finds need not be
# $p(R)$.
#
# On the sphere such steps stop where $-\nabla L(p) = \nu\, p$ with $\nu \ge 0$: downhill leads straight
# outwards, or the gradient is 0. But this holds at a saddle on the sphere, too. How do we tell it from a
# minimum?

# %% [markdown]
# ### Exercise 08.2: Is it a minimum on the sphere?
#
# ★★☆ · 10 minutes
#
# Here $g$ and $H$ are the gradient and the second derivatives of $L$ at $p$, no longer at 0. The point $p$
# has length $R$, and $g = -\nu\, p$ with $\nu > 0$. Walk away from $p$ on a great circle of the sphere, in a
# direction $e \perp p$ with $\|e\| = 1$; let $\sigma$ be the length of the way. Return the **curvature**: the
# smallest value of $d^2 L/d\sigma^2$ at $\sigma = 0$ among all these $e$. If it is positive, $p$ is a local
# minimum there. Must $H$ be positive definite for that?
#
# <details><summary>Hint</summary>
#
# The great circle is $p \cos(\sigma/R) + R\, e \sin(\sigma/R)$. Write $L$ along it to second order in
# $\sigma$. Which $e$ gives the smallest value?
# </details>


# %%
@exercise("08.2")
def curvature(p, g, H):
    """Return the smallest second derivative of L on the sphere at p (d,); g = -nu p (d,), H (d, d)."""
    ### BEGIN SOLUTION
    basis = np.linalg.svd(p[None])[2][1:].T  # (d, d - 1), orthonormal and orthogonal to p
    return np.linalg.eigvalsh(basis.T @ H @ basis)[0] - (g @ p) / (p @ p)
    ### END SOLUTION


# %%
check("08.2", curvature)

# %% [markdown]
# <details><summary>Answer</summary>
#
# No. The second derivative is $e^\top H\, e + \nu$: the sphere adds $\nu$, so even a negative definite $H$
# may do. In 8.5 it is $\nu$ that makes each point of the follower a minimum.
# </details>

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 8.4 Large radii
#
# Where does the path go in the end?
#
# > **Theorem** (Tarzanagh, Li, Zhang and Oymak, 2023; informal, in our words). Fix the head $v$ and let
# > $\ell$ be smooth with $\ell' < 0$ everywhere. Let each sequence have one best token, $\mathrm{opt}_i =
# > \arg\max_t \gamma_{it}$, and let the Att-SVM of these tokens be feasible. Then, whichever minimiser $p(R)$
# > is where there are several, as $R \to \infty$,
# >
# > $$\frac{p(R)}{R} \;\to\; \frac{p_{\mathrm{mm}}(\mathrm{opt})}{\|p_{\mathrm{mm}}(\mathrm{opt})\|}.$$
#
# This is the *global* Att-SVM of lesson 07. Why the SVM? $L$ is a mean over $n$ sequences; let $L_*$ be the
# mean of $\ell(\gamma_{i\,\mathrm{opt}_i})$, which no $p$ can beat. If attention is nearly on the best
# tokens,
#
# $$L(p) - L_* \;\approx\; \sum_j w_j\, e^{-p \cdot a_j}, \qquad
# w_j = \tfrac1n\, |\ell'(\gamma_{i\,\mathrm{opt}_i})|\, (\gamma_{i\,\mathrm{opt}_i} - \gamma_{it}) > 0,$$
#
# where $j$ runs over all comparisons $(i, t)$, $t \ne \mathrm{opt}_i$, and $a_j = k_{i\,\mathrm{opt}_i} -
# k_{it}$. For long $p$ the term with the smallest $p \cdot a_j$ decides. To make this product as large as
# possible at a given length is the SVM's task.
#
# <details><summary>Proof</summary>
#
# Let $\hat p = p_{\mathrm{mm}} / \|p_{\mathrm{mm}}\|$ and $\mu = \min_j \hat p \cdot a_j > 0$. At $R\,\hat p$
# each other token has attention of at most $e^{-\mu R}$. So $L(p(R)) - L_* \le L(R\,\hat p) - L_* \le C
# e^{-\mu R}$ with a constant $C$.
#
# Suppose that $p(R)/R$ does not tend to $\hat p$. As it stays in the unit ball, it tends to some $\bar p \ne
# \hat p$ along some radii $R \to \infty$. Among the vectors of length 1 or less only $\hat p$ has all $p
# \cdot a_j \ge \mu$ (lesson 02). So $\bar p \cdot a_j < \mu$ for some $j = (i, t)$, and there is $m < \mu$
# with $p(R) \cdot a_j \le m R$ at all large such radii. Then token $t$ has at least $e^{-m R}$ times the
# attention of the best token of its sequence. If the best has half or more, the others have at least $\frac12
# e^{-m R}$ together; if not, they have at least $\frac12$. So $\sum_t s_t\, \gamma_t$ is below the best score
# by at least the smaller of the two, times the gap to the second best score. As $|\ell'|$ is bounded below
# between the least score and the largest, and no other sequence is below its least loss, $L(p(R)) - L_*$ is
# at least a constant times $\min(1, e^{-m R})$. For large $R$ that is more than $C e^{-\mu R}$: a
# contradiction. </details>

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The offset from the ray
#
# How far from the limiting ray does $p(R)$ run? Write $p(R) = R\, \hat p + r(R)$ with $\hat p =
# p_{\mathrm{mm}}/\|p_{\mathrm{mm}}\|$, and suppose that the **offset** $r(R)$ tends to a limit $r$.
#
# At a minimum on the sphere the forces $w_j e^{-p \cdot a_j}\, a_j$ nearly add up to $p$ times a positive
# factor. For large $R$ only the support vectors (the $a_j$ of support tokens, $p_{\mathrm{mm}} \cdot a_j =
# 1$) remain in this sum, and $e^{-R\,\hat p \cdot a_j}$ is the same for all of them. On the other side $p$ is
# nearly a multiple of $\hat p = \sum_j \lambda_j a_j$. (Here $\lambda_j$ is lesson 02's over
# $\|p_{\mathrm{mm}}\|$; it is positive on the support vectors of keys in general position.) If the support
# vectors are independent, the coefficients on both sides must agree up to a factor:
#
# $$w_j\, e^{-r \cdot a_j} \;\propto\; \lambda_j \qquad\Longleftrightarrow\qquad
# r \cdot a_j = \log \frac{w_j}{\lambda_j} + \text{const} \qquad \text{for each support vector } j .$$
#
# $R$ is not in these conditions: far out the path should run *parallel* to its ray, at the distance $\|r\|$.

# %% [markdown]
# ### Exercise 08.3: The path's offset
#
# ★★★ · 20 minutes
#
# The support vectors $a_j$ are the rows of `rows`; you also get their weights $w_j$ and, up to a
# common factor, the $\lambda_j$. Return the limit $r$ of the offset.
#
# The conditions above leave two things open: the constant, and the part of $r$ orthogonal to all support
# vectors. Two facts about $p(R)$ settle them: its length is $R$, since far out the loss falls outwards, and
# it is a stationary point on the sphere.
#
# <details><summary>Hint 1</summary>
#
# What does $\|R\, \hat p + r(R)\| = R$ say about $r(R) \cdot \hat p$, as $R \to \infty$? Of which vectors is
# the gradient a combination, far out?
# </details>
#
# <details><summary>Hint 2</summary>
#
# Choose a constant. Of all vectors with the products that the condition then asks for, which one is a
# combination of the rows, and what does numpy call it? What may you subtract from it without harm?
# </details>


# %%
@exercise("08.3")
def offset(rows, weights, lam):
    """Return r, (d,), for independent support vectors rows (support, d), weights, lam (support,)."""
    ### BEGIN SOLUTION
    shortest = np.linalg.lstsq(rows, np.log(weights / lam), rcond=None)[0]
    unit = lam @ rows
    unit = unit / np.linalg.norm(unit)
    return shortest - (shortest @ unit) * unit
    ### END SOLUTION


# %%
check("08.3", offset)

# %% [markdown]
# <details><summary>How the two facts settle it</summary>
#
# $R^2 = \|R\,\hat p + r(R)\|^2 = R^2 + 2R\, r(R) \cdot \hat p + \|r(R)\|^2$, so $r(R) \cdot \hat p =
# -\|r(R)\|^2 / (2R) \to 0$. At a stationary point $p$ is a multiple of the gradient, which far out is a
# combination of the support vectors; $\hat p$ is one, so $r$ is one too. The solution takes the shortest
# vector with the products $\log (w_j/\lambda_j)$, which is such a combination, and subtracts a multiple of
# $\hat p$. That is allowed: $\hat p \cdot a_j$ is the same for all support vectors, so only the constant
# changes.
# </details>

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### From which $R$ on?
#
# Two things delay the limit. Let the keys be scaled so that $\|p_{\mathrm{mm}}\| = 1$.
#
# *Small $\lambda_j$.* At finite $R$ write $r(R)$, without its tiny part along the ray, as $\sum_j \beta_j
# a_j$, a sum over the support vectors. Then the coefficients of $p(R)$ are $R \lambda_j + \beta_j$ and not
# just $R \lambda_j$, and the forces have to agree with these. Divided by $R$, that is the **law with $1/R$**:
#
# $$w_j\, e^{-r(R) \cdot a_j} \;\propto\; \lambda_j + \frac{\beta_j}{R}.$$
#
# So the limit $r$ has an error like $1/R$, which is large where a $\lambda_j$ is small. Our `offset_at`
# solves the law by damped steps.
#
# *Late tokens.* A token that is no support token has $\hat p \cdot a_j = 1 + \text{slack}$. As long as $R\,
# e^{-R\,\cdot\,\text{slack}}$ is not small we call it **late**: it adds a part to $p(R)$ that is in neither
# prediction.
#
# <details><summary>Why this number?</summary>
#
# The token's force is smaller than those of the support vectors by about the factor
# $e^{-R\,\cdot\,\text{slack}}$. Their coefficients in $p$ grow like $R$. So the token's own coefficient is of
# the order of $R\, e^{-R\,\cdot\,\text{slack}}$, once this is small. (The weights count, too.)
# </details>
#
# We measure in 180 random problems with $n = 3$, $T = 4$, $d = 10$. The library starts on the ray at $R =
# 100$ and follows.
#
# <details><summary>How they are drawn</summary>
#
# Tokens (before the scaling also the keys) and $v$ uniformly from the unit sphere, labels by a fair coin. The
# $n\,(T - 1) = 9$ comparisons $a_j$ are independent in $\mathbb{R}^{10}$ (with probability 1), so that every
# choice of tokens is feasible; no draw is rejected.
# </details>
#
# <details><summary>Is this $p(R)$, or only a local minimum?</summary>
#
# At these three radii it is $p(R)$, to a few thousandths. The logarithm of $\sum_j w_j e^{-p \cdot a_j}$ is
# convex, so that on the ball it has no second minimum, and $L - L_*$ is this sum to about eight digits (the
# cell asserts that the sum is small enough for it).
# </details>


# %% slideshow={"slide_type": "subslide"}
def expected(tokens):
    """p_hat (trials, d), a_j (trials, j, d), n w_j and lambda_j (trials, j), limit r (trials, d)."""
    best = tokens.scores.amax(dim=-1, keepdim=True)
    problem = svm.token_problem(tokens.keys, tokens.optimal)
    solution = svm.solve(problem)  # its dual is scaled to p_hat = sum_j lambda_j a_j
    p_hat, lam = solution.value / solution.value.norm(dim=-1, keepdim=True), solution.dual
    weights = ((best - tokens.scores) / (1 + best.exp()))[tokens.scores < best].reshape(lam.shape)
    tight = (lam > 1e-6).numpy()  # the support vectors
    each = zip(problem.a.numpy(), weights.numpy(), lam.numpy(), tight, strict=True)
    r = torch.as_tensor(np.array([offset(a[on], w[on], of[on]) for a, w, of, on in each]))
    return p_hat, problem.a, weights, lam, r


def offset_at(R, p_hat, a, weights, lam, r):
    """r(R) of the law with 1/R, (trials, d), by damped steps from its limit r."""
    tight = lam > 1e-6
    inverse = torch.linalg.pinv(a * tight[..., None])
    for _ in range(40):
        beta = (r[:, None] @ inverse)[:, 0]
        wanted = torch.where(tight, (weights / (lam + beta / R)).log(), 0)  # r.a_j, up to a constant
        shortest = (inverse @ wanted[..., None])[..., 0]
        across = shortest - (shortest * p_hat).sum(-1, keepdim=True) * p_hat
        r = 0.7 * r + 0.3 * across  # a whole step may overshoot
    assert ((across - r).norm(dim=-1) < 1e-6).all(), again.format("08.3") + "; or the steps did not converge"
    return r


# %%
many = kit.joined(*(kit.unit_problems(60, seed) for seed in (1, 2, 3)))
p_hat, a, weights, lam, r = problems = expected(many)
trials, d = p_hat.shape
slack = ((a @ p_hat[..., None])[..., 0] - 1).where(lam < 1e-6, torch.inf).amin(-1)  # the least, (trials,)
print("problems of 180 in which r(R), across the ray, is predicted to within 5% of ||r||; R e^(-R slack)")
print("    R   by the limit r   by the law with 1/R   where the law is wrong   elsewhere")
close, sideways = [], torch.zeros_like(r)
for R in (100, 300, 1000):
    path = regularization_path(models.PromptAttention(d, trials, init=R * p_hat + sideways), many, [R])
    p = path["p"][0]
    sideways = p - (p * p_hat).sum(-1, keepdim=True) * p_hat  # r(R), but for its part along the ray
    by_limit, by_law = ((sideways - x).norm(dim=-1) / r.norm(dim=-1) for x in (r, offset_at(R, *problems)))
    close.append([int((x < 0.05).sum()) for x in (by_limit, by_law)])
    late, missed = R * torch.exp(-R * slack), by_law >= 0.05
    low, high = late[missed].min(), late[~missed].max()
    print("{:5g} {:16d} {:21d}   from {:12.3f}   up to {:5.3f}".format(R, *close[-1], low, high))
    excess = (weights * torch.exp(-a @ p[..., None])[..., 0]).sum(-1)  # n times the sum
    assert (path.residual <= 1e-6).all()
    assert (excess < 1e-9 * weights.amin(-1)).all()
assert (close[-1], low > 0.5, high < 0.1) == ([161, 172], True, True), again.format("08.3")

# %% [markdown]
# At $R = 1000$ the limit $r$ is right to within 5% in 161 of the 180 problems, and the law with $1/R$ in 172.
# At this $R$ a token is clearly late in just the 8 others; at 100 and 300 the number does not separate them.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 8.5 The path can jump
#
# The path's limit is global, but its start is local: the gradient at 0. What happens if the two disagree? We
# move the key of the toy's best token to the far side, $k_1 = (-0.3, 0.2)$.

# %%
moved = np.array([[-0.3, 0.2], [1.0, 0.0], [0.0, 0.0]])
on_path = search(moved, spread, radii)
followed = regularization_path(models.PromptAttention(2), kit.tokens_of(moved, spread), radii)["p"].numpy()
run = kit.descend(moved, spread, (0, 0), 700)
for name, points in (("path p(R)", on_path), ("follower", followed), ("descent from 0", run)):
    print(f"{name:14s} at length {np.linalg.norm(points[-1]):.0f}: {degrees(points[-1]):5.0f} degrees")
assert abs(degrees(np.array([followed[-1], run[-1]]))).max() < 2 < 140 < np.ptp(degrees(on_path))

# %% jupyter={"source_hidden": true}
fig, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.4), width_ratios=[1.3, 1])
draw_map(left, moved, spread, radii)
split = abs(np.diff(degrees(on_path))).argmax() + 1
for part in (slice(None, split), slice(split, None)):
    name = "path $p(R)$" if part.start is None else None
    left.plot(degrees(on_path[part]), radii[part], color=PATH, linewidth=6, alpha=0.55, label=name)
left.plot(degrees(followed), radii, ":", color=BLACK, linewidth=2, label="follower")
left.plot(degrees(run), np.linalg.norm(run, axis=1), "--", color=DESCENT, label="descent from 0")
left.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3, fontsize=10)
right.loglog(radii, shortfall(on_path, moved, spread), color=PATH, linewidth=6, alpha=0.55)
right.loglog(radii, shortfall(followed, moved, spread), ":", color=BLACK, linewidth=2)
right.set(xlabel="radius $R$", ylabel=r"shortfall $\Gamma$", ylim=(1e-5, 2))
show(
    fig,
    alt="Left, angle against radius: the broad path goes from 21 degrees to 0 and jumps near R = 6 to 146 "
    "degrees; the follower and descent stay near 0. Right, shortfall against radius: that of the path "
    "falls on, that of the follower levels off at 0.1.",
)

# %% [markdown]
# **Figure 2.** Left: as in Figure 1, for the moved key. Right: the shortfall of $p(R)$ (broad) and of the
# follower (dotted), equal until the jump.

# %% [markdown]
# The path jumps to token 1. The follower and descent stay in the valley of token 2. **So $p(R)$ need not be
# continuous, and what continues smoothly need not be $p(R)$.**
#
# Does the follower's own point show that it is no longer $p(R)$? We take your `curvature`.

# %%
one = kit.tokens_of(moved, spread)
copies = (part.expand(len(radii), *part.shape) for part in (one.keys, one.scores))
g, H = kit.derivatives(torch.as_tensor(followed), *copies)
each = list(zip(followed, g.numpy(), H.numpy(), strict=True))
bent, without = (np.array([curvature(p, on * g, H) for p, g, H in each]) for on in (1, 0))
count = [(value > 0).sum() for value in (bent, without)]
print(f"at the follower's point the curvature is positive at {count[0]} of 40 radii, less nu at {count[1]}")
assert count == [len(radii), 0], again.format("08.2")

# %% [markdown]
# It does not: at each radius the point is a local minimum on the circle, and that by $\nu$ alone.

# %% [markdown]
# **Try it.** The slider shows a row of Figure 2's map. Near which radius do the two valleys change places?
#
# <details><summary>Answer</summary>
#
# Near $R = 6$. The valley of token 2 is still there beyond it, only no longer the deeper one.
# </details>


# %% tags=["nbval-ignore-output", "widget"] jupyter={"source_hidden": true}
def round_the_circle(R):
    every = np.linspace(-180, 180, 721)
    figure = Figure(figsize=(7, 3.5), layout="none")  # constrained layout would draw twice
    ax = figure.add_axes((0.1, 0.16, 0.87, 0.74))
    ax.plot(every, shortfall(circle(np.radians(every), R), moved, spread), color=GREY)
    here = search(moved, spread, np.array([R]))[0]
    there = kit.at_length(kit.descend(moved, spread, (0, 0), 110, R / 100), R)
    for p, marker, color, name in ((here, "o", PATH, "$p(R)$"), (there, "s", DESCENT, "descent from 0")):
        ax.plot(degrees(p), shortfall(p[None], moved, spread), marker, color=color, markersize=10, label=name)
    ax.set(xlim=(-180, 180), ylim=(-0.03, 1.05), xlabel="angle of $p$ (degrees)", ylabel="shortfall")
    ax.set_xticks([-180, -90, 0, 90, 180])
    ax.set_title(f"$R$ = {R:.2f}", fontsize=12, loc="left")
    figure.legend(loc="upper right", ncol=2)
    return figure


wide = {"style": {"description_width": "130px"}, "layout": ipywidgets.Layout(width="480px")}
slider = ipywidgets.FloatLogSlider(value=4, min=-0.5, max=1.5, step=0.02, description="radius R", **wide)
picture = "The shortfall round the circle of radius R, with the path's point and descent's."
widgets.sliders(round_the_circle, alt=picture, R=slider)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### How often? 180 random problems
#
# In each problem of 8.4 we follow from $R = 0.3$, along descent's first step, to $R = 12$. Is the follower
# then at $p(12)$?
#
# Far out $p(R)$ selects the best tokens, by the theorem. The loss alone can prove that a point does so. How?

# %% [markdown]
# ### Exercise 08.4: A loss that proves the choice
#
# ★★☆ · 8 minutes
#
# Return the largest $c$ of which this is true *whatever the keys are*: at every $p$ with $L(p) < c$ the best
# token of each sequence has more attention than any other. You get the scores $\gamma_{it}$, with one best
# token in each sequence. **Predict** which sequence decides: always the one with the smallest gap between its
# two best scores?
#
# <details><summary>Hint</summary>
#
# How small can $\ell(\sum_t s_t \gamma_t)$ be in one sequence if another token has as much attention as the
# best one? What do the other sequences contribute at the least?
# </details>


# %%
@exercise("08.4")
def proving_loss(scores):
    """Return c, a number, for scores (n, T)."""
    ### BEGIN SOLUTION
    second, first = np.sort(scores, axis=1)[:, -2:].T
    least = np.logaddexp(0, -first)
    rise = np.logaddexp(0, -(first + second) / 2) - least  # attention half on each
    return least.mean() + rise.min() / len(scores)
    ### END SOLUTION


# %%
check("08.4", proving_loss)

# %% [markdown]
# <details><summary>Answer, and why no larger number will do</summary>
#
# No: a sequence with high scores may be cheaper to lose than one with a smaller gap, as $\ell$ is flat there.
#
# If another token has as much attention as the best, its sequence's $\sum_t s_t\, \gamma_t$ is at most the
# mean of the two best scores; and no other sequence is below its own least loss. To come as near to $c$ as
# one likes, give the two best tokens of the cheapest sequence one common key, in the other sequences give
# this key to the best token alone, and give all other tokens the key 0. Then go far along that key.
# </details>
#
# Where the loss on the ray, at $12\,\hat p$, is below $c$, that of $p(12)$ is, too, and $p(12)$ selects the
# best tokens. A follower whose loss at $R = 12$ is not below $c$ is then not at $p(12)$.
#
# **Predict.** At $R = 12$ the follower's loss is below $c$ or not; descent from 0 ends at the best tokens or
# at others. Which of these four cases is the rarest, and is it impossible?

# %%
grid = np.geomspace(0.3, 12, 24)
losses, model, same = kit.follow_and_descend(many, grid)
c = torch.tensor([float(proving_loss(scores)) for scores in many.scores.numpy()])
on_ray, below = kit.mean_loss(12 * p_hat, many.keys, many.scores) < c, losses[-1] < c
print(f"at R = 12 the loss on the ray is below c in {on_ray.sum()} of {trials} problems\n")
table = [[int((row & column).sum()) for column in (same, ~same)] for row in (below, ~below)]
print("180 problems                    descent ends at the best tokens   at others")
for name, counts in zip(("below c", "not below c"), table, strict=True):
    print(f"follower at R = 12: {name:11s} {counts[0]:32d} {counts[1]:11d}")
assert (table, all(on_ray)) == ([[145, 0], [8, 27]], True), again.format("08.4")
anew = regularization_path(models.PromptAttention(d, trials, init=12 * p_hat), many, [12], tol=1e-4)
lower = anew.loss[0] < losses[-1] - 1e-6
print(f"\na start on the ray ends lower in {lower[~below].sum()} of the 35, {lower[below].sum()} of the 145")
angle = torch.rad2deg(torch.arccos(torch.cosine_similarity(model.p.detach(), p_hat)))
print(f"degrees to p_hat: best tokens up to {angle[same].max():.1f}, others from {angle[~same].min():.0f}")

# %% [markdown]
# **In 35 of the 180 problems the follower is not at $p(12)$. Descent found the best tokens in 8 of these
# problems, and in all 145 others.** There a start on the ray ends no lower than the follower. 8.8 has an
# example of the missing case.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 8.6 Descent against the path
#
# Where descent and the path select the same tokens, how near do they come at equal length? There the path is
# at $R\,\hat p + r(R)$; write descent's point as $R\,\hat p + q$.
#
# On the path the sum of the forces $w_j e^{-p \cdot a_j}\, a_j$ has the direction of $p$. In descent it has
# only that of the next step. Let the steps be small, and suppose that their direction settles. In the long
# run the steps outweigh all that came before, so $p$ takes on their direction. The forces that last are those
# of the $a_j$ whose product with it is smallest. So it is a nonnegative sum of its own nearest $a_j$, as by
# lesson 02 only $\hat p$ is, and (for independent support vectors) the forces must be in proportion to the
# coefficients of $\hat p$:
#
# $$w_j\, e^{-q \cdot a_j} \;\propto\; \lambda_j \qquad \text{for each support vector } j.$$
#
# These are the conditions of the limit $r$ in 8.4. If $q$ stays bounded, $q \cdot \hat p \to 0$ fixes the
# constant, as it did for $r$. So far out $q$ and $r$ have the same products with all support vectors, and
# they differ by $q_\perp$, the part of $q$ orthogonal to these vectors.
#
# In a run from 0 only the other tokens can have added it. Their share of a step falls like
# $e^{-R\,\cdot\,\text{slack}}$, so $q_\perp$ settles. The path, without history, has no such part. **So the
# distance of the two at equal length tends to $\|q_\perp\|$. If the support vectors span the space it falls
# like $1/R$, as the law's $\|r(R) - r\|$: descent is on $r$ long before.**
#
# <details><summary>Why is descent the earlier one?</summary>
#
# It is 8.2 again, far out. The path's forces fit its coefficients $R \lambda_j + \beta_j$; divided by $R$,
# these are off $\lambda_j$ by $\beta_j / R$. Descent's forces fit its next step, that is, the *derivative* of
# such coefficients. It has no term in $1/R$:
#
# $$w_j\, e^{-q \cdot a_j} \;\propto\; \lambda_j + \beta_j'(R).$$
#
# Near $r$ the left side differs from $\lambda_j$ by what is linear in $q - r$ (in the span), and so in
# $\beta$ less its limit. So $\beta$ comes to its limit exponentially in $R$; slowly where a $\lambda_j$ is
# small.
# </details>
#
# Token 1 has one support vector in the toy and two in the hexagon of lesson 07. **Predict**: in which of the
# two does descent meet the path?

# %%
hexagon = np.array([[0.2, 1.1], [1, 0.6], [0.9, -0.5], [0.1, -1.1], [-0.9, -0.6], [-1, 0.5], [0.1, 0.1]])
gamma = np.array([1.0, 0.3, 0.8, 0.2, 0.7, 0.1, 0.5])
lengths = 2.0 ** np.linspace(-3, 8, 89)
seen = {}
print("distance of descent and path at R =", *(f"{R:5g}" for R in lengths[56::16]))
for name, (own, scores) in {"toy": (keys, spread), "hexagon": (hexagon, gamma)}.items():
    solved = expected(kit.trials_of(kit.tokens_of(own, scores), None))
    ray, beside = solved[0][0].numpy(), solved[-1][0].numpy()
    walked, there = kit.descend(own, scores, (0, 0), 5600), search(own, scores, lengths)
    distance = np.linalg.norm(there - [kit.at_length(walked, R) for R in lengths], axis=1)
    frame = np.array([ray, [-ray[1], ray[0]]]).T  # along the ray, and to its left
    seen[name] = [points @ frame for points in (there, walked, beside)]
    print(f"{name:35s}", *(f"{x:5.3f}" for x in distance[56::16]))
law = np.array([(offset_at(R, *solved)[0] - solved[-1][0]).norm() for R in lengths[56:]])
for name, values in (("R times the distance, hexagon", distance[56:]), ("R ||r(R) - r|| of the law", law)):
    print(f"{name:35s}", *(f"{x:5.2f}" for x in (lengths[56:] * values)[::16]))
assert 8 < lengths[seen["toy"][0][:, 1].argmax()] < 12  # where the toy's path is farthest beside its ray

# %% [markdown]
# In the hexagon: its support vectors span the plane, and the distance is the law's.

# %% jupyter={"source_hidden": true}
fig, (left, right) = plt.subplots(1, 2, figsize=(10.5, 3.6))
there, walked, _ = seen["toy"]
left.axhline(0, color=GREY, linewidth=1.5, label="ray of the Att-SVM")
left.plot(*there.T, color=PATH, linewidth=5, alpha=0.55, label="path $p(R)$")
left.plot(*walked.T, "--", color=DESCENT, label="descent from 0")
left.set(xlabel="along the ray", ylabel="across the ray", title="toy")
there, walked, beside = seen["hexagon"]
for points, style in ((there, {"color": PATH, "linewidth": 5, "alpha": 0.55}), (walked, {"color": DESCENT})):
    right.plot(points[:, 0], abs(points[:, 1] - beside[1]), "--" if points is walked else "-", **style)
right.plot(lengths[56:], law, ":", color=BLACK, linewidth=1.5, label="law with $1/R$")
right.set(yscale="log", xlabel="along the ray", ylabel="across the ray, from $r$", title="hexagon")
left.set(xscale="log", xlim=(0.3, 250))
right.set(xscale="log", xlim=(4, 250), ylim=(1e-6, 0.3))
left.legend(loc="lower right", fontsize=10)
right.legend(loc="upper right", fontsize=10)
show(
    fig,
    alt="Two panels. Left, the toy, the part of p across the ray against the part along it: the path swings "
    "to one side of its ray, farthest near 10, and comes back to it; descent ends parallel to the ray, on "
    "that side. Right, the hexagon, how far that part is from the limit r, both axes logarithmic: the "
    "path's falls along the straight line of the law with 1/R; descent's plunges below it from 6 on.",
)

# %% [markdown]
# **Figure 3.** Path and descent from 0, along the ray of token 1 and across it. In the toy $r = 0$. Right:
# how far the part across is from $r$; dotted: the law.
#
# In the hexagon descent is on $r$ by 16, and the path is $.2/R$ off. In the toy descent ends parallel to the
# ray, to which the path comes back. First it swings past, as token 2 is late: its slack is a tenth, and
# $R\, e^{-R/10}$ is largest at $R = 10$.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 8.7 Beyond the plane *(optional)*
#
# Is descent the earlier one in the 153 problems of 8.5 where it ended at the best tokens, too? We split its
# last $q$ into $q_\perp$ and the part in the span, and carry the path to $R = 330$.

# %%
R, rows = 330, a * (lam > 1e-6)[..., None]
in_span = torch.linalg.pinv(rows) @ rows  # projects on the span of the support vectors
far = regularization_path(models.PromptAttention(d, trials, init=R * p_hat + r), many, [R])["p"][0]
beside_ray = [p - (p * p_hat).sum(-1, keepdim=True) * p_hat for p in (model.p.detach(), far)]
ends = dict(zip(("descent", "path"), beside_ray, strict=True))
spans = {name: (in_span @ q[..., None])[..., 0] for name, q in ends.items()}
print("lengths of descent {:.0f} to {:.0f}".format(*model.p.detach()[same].norm(dim=-1).aminmax()))
close = []
for name, q in spans.items():
    close.append((q - r).norm(dim=-1) < 0.05 * r.norm(dim=-1))
    print(f"{name:8s} in the span: within 5% of r in {close[-1][same].sum()} of {same.sum()} problems")
memory = (ends["descent"] - spans["descent"]).norm(dim=-1)
apart = (ends["descent"] - ends["path"]).norm(dim=-1)
close.append((apart - memory).abs() < 0.05 * memory)
print(f"distance of the two: within 5% of ||q_perp|| in {close[-1][same].sum()}")
missed = same & ~close[0]
small = lam.where(lam > 1e-6, torch.inf).amin(-1) < 0.003
print(f"of the {missed.sum()} that descent misses, {small[missed].sum()} have a lambda_j below .003")
assert [int(x[same].sum()) for x in close] == [147, 118, 132]

# %% [markdown]
# It is. Where it misses $r$, mostly a $\lambda_j$ is small, and so its decay slow. In 132 problems the two
# are apart by $\|q_\perp\|$, to within 5%.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 8.8 Where it breaks *(optional)*
#
# Can descent go elsewhere although the follower's loss at $R = 12$ is below $c$? This case did not occur in
# 8.5. We draw 1200 more problems, seeds 4 to 23.

# %%
more = kit.joined(*(kit.unit_problems(60, seed) for seed in range(4, 24)))
losses, model, same = kit.follow_and_descend(more, grid)
bounds = torch.tensor([float(proving_loss(scores)) for scores in more.scores.numpy()])
below = losses[-1] < bounds
counts = [int((row & column).sum()) for row in (below, ~below) for column in (same, ~same)]
print("of 1200 (descent at the best tokens, at others): below c {}, {}; not below c {}, {}".format(*counts))
last = torch.where(below & ~same)[0][-1].item()  # the last one of the case
lone = kit.trials_of(more, slice(last, last + 1))
beaten = [kit.random_starts(lone, grid[k], 40).min() < losses[k, last] - 1e-6 for k in range(2, 24, 3)]
descents = kit.mean_loss(model.p.detach(), more.keys, more.scores)[last].item()
print(f"problem {last % 60} of seed {4 + last // 60}:")
print(f"of 40 random starts the best ends below the follower at {sum(beaten)} of {len(beaten)} radii")
ends = losses[-1, last].item(), bounds[last].item(), descents
print("loss of the follower at R = 12 {:.4f}; c {:.4f}; descent's {:.4f}".format(*ends))
selected = geometry.selected_tokens(model.attention(more))[last].tolist()
print("descent's tokens (from 0)", selected, "best tokens", lone.optimal[0].tolist())
assert counts == [927, 7, 41, 225]
assert not any(beaten)
assert ends[0] < ends[1] < ends[2]

# %% [markdown]
# It can, in 7 of the 1200. In the last of these the follower's loss is below $c$, so the follower selects the
# best tokens; descent from 0 ends at others. The path has not jumped away from the follower before, as far as
# 40 random starts at 8 radii show.

# %% [markdown]
# ## Questions
#
# **1.** You follow the path from $R = 0.1$ with 50 random starts and all end at the same tokens. Is that
# evidence that they are the global ones?
# <details><summary>Answer</summary>
#
# No. At a small enough radius there is one local minimum, near $-R\, g/\|g\|$, if $g \ne 0$; from there on
# all 50 were one run. Start anew at a large radius instead, or compare the loss with $c$.
# </details>
#
# **2.** $\|p_{\mathrm{mm}}\| = 1$, the limit $r$ has length 1, and a token has a slack of $.002$ on the ray.
# Do you trust $r$ at $R = 1000$?
# <details><summary>Answer</summary>
#
# No: $R\,e^{-.002 R}$ is 135, far from small, and the token is late. </details>

# %%
progress("08")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# **Do descent and the best $p$ of each length go to the same place? In direction they do where descent ends
# at the best tokens, and only there.**
#
# - The path starts along descent's first step, if $g \ne 0$, and at first its turn is twice descent's.
# - Its direction tends to the **global** Att-SVM, if that is feasible. Far out it runs beside its ray, at an
#   offset $r$ that the SVM and the scores predict.
# - On its way it can jump, and a follower at local minima need not notice.
# - In 35 of 180 problems the follower was not at $p(12)$, as its loss proves. Descent found the best tokens
#   in 8 of these, and in all 145 others.
# - Where descent finds the same tokens it ends up parallel to the path, at the distance $\|q_\perp\|$, if its
#   steps are small, their direction settles and $q$ stays bounded. The path trails like $1/R$. Tested in the
#   plane and in 153 problems.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Further reading
#
# - D. A. Tarzanagh, Y. Li, X. Zhang, S. Oymak, *Max-Margin Token Selection in Attention Mechanism* (NeurIPS
#   2023, arXiv 2306.13596): the regularisation path, also for nonlinear heads (lesson 13).
# - D. A. Tarzanagh, Y. Li, C. Thrampoulidis, S. Oymak, *Transformers as Support Vector Machines* (2023, arXiv
#   2308.16898): the same for $W$.
# - Z. Ji, M. Dudík, R. Schapire, M. Telgarsky, *Gradient Descent Follows the Regularization Path for General
#   Losses* (COLT 2020, arXiv 2006.11226): for linear classifiers, a limit direction of the path is descent's.
# - A. Suggala, A. Prasad, P. Ravikumar, *Connecting Optimization and Regularization Paths* (NeurIPS 2018):
#   descent and path at finite length.
#
# The offset $r$, the law with $1/R$, the first turn and the distance of descent from the path are short
# arguments of this lesson, not theorems of those papers.
#
# **New in the library:** [`tracing.Path`](../mini_attn/tracing.py),
# [`paths.regularization_path`](../mini_attn/paths.py).
#
# **Next:** [lesson 09](09_joint_training.ipynb): the head is trained too.
