# %% [markdown] slideshow={"slide_type": "slide"}
# # 08 · Regularisation paths
#
# Gradient descent makes $p$ longer and longer, and we have asked where its direction goes. There is another
# way to let a vector grow: allow it a length $R$, take the *best* $p$ of that length, and raise $R$:
#
# $$p(R) = \arg\min_{\|p\| \le R} L(p).$$
#
# This is the **regularisation path**. It knows no start, no step and no history.
#
# **The question: gradient descent and the best $p$ of each length, do they go to the same place?**

# %% [markdown] slideshow={"slide_type": "skip"}
# **After this lesson you can**
#
# - compute $p(R)$ in the plane by search, and in any dimension by projected gradient steps;
# - say in which direction the path starts, and how fast it turns, compared with descent;
# - predict where it ends, and its distance from there at finite $R$;
# - tell "the path" from what a path-following program returns, and find the radius at which it jumps;
# - say which prediction heads the result covers, and what happens with the others.
#
# **You need** lessons [06](06_attention_as_svm.ipynb) (Att-SVM, forces between tokens) and
# [07](07_local_global_tokens.ipynb) (local and global winners). About 75 minutes, five exercises.

# %%
import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure

from course.exercise import check, exercise, progress, todo
from course.figure import show
from mini_attn import data, geometry, models, optim, plots, svm, train, widgets
from mini_attn.paths import regularization_path

plots.style()
torch.set_num_threads(1)  # many small tensors: one thread is fastest
np.set_printoptions(precision=3, suppress=True)
BLUE, ORANGE, GREEN, BLACK = (plots.COLORS[name] for name in ("blue", "vermillion", "green", "black"))
again = "exercise {} is not right yet: see what its check says"

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 1. The idea in a picture
#
# One sequence of $T$ tokens with keys $k_t$ and scores $\gamma_t$, attention $s = \mathrm{softmax}(h)$
# with $h_t = k_t \cdot p$, and $L(p) = \ell(\sum_t s_t \gamma_t)$, $\ell(u) = \log(1 + e^{-u})$, as in
# lesson 06. Since $\ell$ decreases, to minimise $L$ is to minimise the **shortfall**
#
# $$\delta(p) = \gamma_{\max} - \sum_t s_t\, \gamma_t = \sum_t s_t\, (\gamma_{\max} - \gamma_t),$$
#
# what attention loses by not being all on the best token; $\gamma_{\max}$ is the best score. As a sum of
# numbers that are all $\ge 0$ it is accurate even where $L$ has long stopped changing in its last digit.


# %%
def attention(p, keys):
    """softmax(K p) for any number of points at once: p (..., d), keys (T, d) -> (..., T)."""
    h = p @ keys.T
    e = np.exp(h - h.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


# %% [markdown]
# ### Exercise 08.1: The shortfall
#
# ★☆☆ · 5 minutes
#
# Return $\delta(p)$ for every row of `p` at once. Use the second form.
#
# <details><summary>Hint</summary>
#
# `attention(p, keys)` is (K, T). Multiply it from the right by `scores.max() - scores`, which is (T,): `@`
# sums over the tokens.
# </details>


# %%
@exercise("08.1")
def shortfall(p, keys, scores):
    """Return delta(p) for each row, (K,), for p (K, d), keys (T, d) and scores (T,)."""
    ### BEGIN SOLUTION
    return attention(p, keys) @ (scores.max() - scores)
    ### END SOLUTION


# %%
check("08.1", shortfall)

# %% [markdown]
# In the plane there is no need to descend. All $p$ of length $R$ form a circle: we try 720 angles, and then
# zoom in around the best.
#
# (Why only the circle, when the definition allows the whole disc? If the Att-SVM of the best tokens is
# feasible, no $p$ reaches the smallest conceivable loss, so a longer $p$ can always do better, and for
# large $R$ the best one uses its whole length. Section 7 shows a case in which it does not.)


# %%
keys = np.array([[-0.1, 1.0], [1.0, 0.0], [0.0, 0.0]])  # the toy of lessons 06 and 07
spread, equal = np.array([1.0, 0.9, 0.0]), np.array([1.0, 0.9, 0.9])


def circle(angle, R):
    """Points of length R at these angles (radians), (K, 2); R is a number or (K,)."""
    return np.asarray(R)[..., None] * np.stack([np.cos(angle), np.sin(angle)], axis=-1)


def best_angle(value, R):
    """The angle at which value(p), p (K, 2), is smallest on the circle of radius R."""
    angles = np.linspace(-np.pi, np.pi, 720, endpoint=False)
    reach = angles[1] - angles[0]
    best = angles[np.argmin(value(circle(angles, R)))]
    for _ in range(13):  # each time six times closer
        angles = best + reach * np.linspace(-1, 1, 17)
        best, reach = angles[np.argmin(value(circle(angles, R)))], reach / 6
    return best


def path_angles(keys, scores, radii):
    """The angle of p(R) at each radius, in degrees."""
    return np.degrees([best_angle(lambda p: shortfall(p, keys, scores), R) for R in radii])


def tokens_of(keys, scores):
    """TokenData with one sequence: keys (T, 2), scores (T,)."""
    e1 = torch.tensor([1.0, 0.0], dtype=torch.float64)
    X = torch.as_tensor(scores, dtype=torch.float64)[:, None] * e1  # x_t = (gamma_t, 0), read by v = e1
    return data.TokenData(
        X=X[None], z=e1[None], y=torch.ones_like(X[:1, 0]), v=e1, keys=torch.tensor(keys)[None]
    )


def descend(tokens, start, steps, lr=0.05):
    """Normalised descent on p from each row of start (trials, d): the path, (records, trials, d)."""
    start = torch.as_tensor(start, dtype=torch.float64)
    model = models.PromptAttention(start.shape[-1], trials=len(start), init=start)
    optimizer = optim.NormalizedGD(model.parameters(), lr=lr, batch_dims=1)
    at = [*range(min(steps, 100)), *range(100, steps, 5)]  # steps to keep: all of the first, then some
    record = {"p": lambda m: m.p}
    return train.fit(model, tokens, optimizer, steps, record=record, every=at, progress=False)["p"]


def at_norm(path, R):
    """Where each trial of a path (steps, trials, d) first has length R: (trials, d), NaN if it never does."""
    path = np.asarray(path)
    far = np.linalg.norm(path, axis=-1) >= R
    j = far.argmax(axis=0).clip(1)
    trial = np.arange(path.shape[1])
    low, high = path[j - 1, trial], path[j, trial]
    a, b = np.linalg.norm(low, axis=-1), np.linalg.norm(high, axis=-1)
    p = low + (high - low) * ((R - a) / (b - a))[:, None]
    return np.where(far.any(axis=0)[:, None], p * (R / np.linalg.norm(p, axis=-1, keepdims=True)), np.nan)


def degrees(p):
    return np.degrees(np.arctan2(p[..., 1], p[..., 0]))


# %% [markdown]
# **Predict before you run on.** The scores are $1, 0.9, 0$. In lesson 06 descent from $(0, 0)$ found token
# 1, and from $(0, -1.5)$ it stayed with token 2. Which of the two will be nearer to $p(R)$?

# %%
toy = tokens_of(keys, spread)
radii = np.geomspace(0.1, 30, 60)
on_path = path_angles(keys, spread, radii)
runs = descend(toy, [[0, 0], [0, -1.5]], steps=700).numpy()


def draw_map(ax, keys, scores, radii):
    """The shortfall on each circle, from its smallest (dark) to its largest value (bright)."""
    angles = np.linspace(-120, 180, 301)
    rows = np.array([shortfall(circle(np.radians(angles), R), keys, scores) for R in radii])
    rows = (rows - rows.min(axis=1, keepdims=True)) / np.ptp(rows, axis=1, keepdims=True)
    ax.pcolormesh(angles, radii, rows, cmap="cividis", shading="nearest", rasterized=True)
    ax.set(yscale="log", xlabel="angle of $p$ (degrees)", ylabel=r"length $\|p\|$ or radius $R$")
    ax.set_xticks([-90, -45, 0, 45, 90, 135, 180])
    ax.set_ylim(radii[0], radii[-1])


white = {"color": "white", "linewidth": 2.6}
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.3), width_ratios=[1.15, 1])
draw_map(left, keys, spread, radii)
left.plot(on_path, radii, **white)
right.plot(*circle(np.radians(on_path), radii).T, color=BLUE, label="path $p(R)$")
for run, color, style, name in zip(
    runs.swapaxes(0, 1), (ORANGE, GREEN), ("--", ":"), ("0", "(0, -1.5)"), strict=True
):
    lengths = np.linalg.norm(run, axis=1)
    left.plot(degrees(run[1:]), lengths[1:], style, color="white", linewidth=2.6)
    right.plot(*run.T, style, color=color, label=f"descent from {name}")
left.text(100, 0.13, "solid: $p(R)$", color="white", fontsize=11)
right.set(xlim=(-3, 9), ylim=(-2.5, 9.5), xlabel="$p_1$", ylabel="$p_2$", aspect="equal")
right.legend(loc="upper right")
show(
    fig,
    alt="Left, a map of angle against length, dark where the shortfall is small. The path runs in the dark "
    "valley from 58 degrees to 96; descent from zero starts with it, lags behind and joins it; descent from "
    "(0, -1.5) comes from -90 degrees and stays near 0. Right, the same three curves in the p-plane.",
)
for R in (0.1, 1, 4, 16, 30):
    p = at_norm(runs, R)
    first, second = degrees(p)
    print(f"R = {R:4g}: path {path_angles(keys, spread, [R])[0]:5.1f}, descent from 0 {first:5.1f}", end="")
    print(f", from (0, -1.5) {second:5.1f}" if R > 2 else "")

# %% [markdown]
# **Figure 1.** Left: the shortfall by angle and length, coloured on each circle from its smallest (dark)
# to its largest value (bright). Solid: $p(R)$; dashed: descent from 0; dotted: from $(0, -1.5)$. Right:
# the same in the $p$-plane.

# %% [markdown]
# Descent from 0 and the path leave in the same direction and end in the same direction. In between they
# differ, by 16 degrees at $R = 1$: the path is quicker to turn. The other run ends in the valley of token
# 2, where no $p(R)$ ever is.
#
# Can we be sure that the search missed nothing? On a circle, $d\delta/d\theta = -R\,
# \mathrm{cov}_s(\gamma, k \cdot u)$, with $u$ the unit tangent and $\mathrm{cov}_s$ the covariance of two
# numbers per token under the weights $s$. A number that varies by $D$ has a standard deviation of at most
# $D/2$, so the slope is at most $R\, D_\gamma D_k / 4$ ($D_\gamma$ the range of scores, $D_k$ the largest
# distance of two keys). Between two tried angles no $\delta$ can hide lower than this slope allows.


# %%
def where_it_can_be(keys, scores, R, count=14_400):
    """Angles (degrees) near which the smallest shortfall can lie: all others are excluded."""
    angles = np.linspace(-np.pi, np.pi, count, endpoint=False)
    delta = np.asarray(shortfall(circle(angles, R), keys, scores))
    widest = np.linalg.norm(keys[:, None] - keys, axis=-1).max()
    hidden = R * np.ptp(scores) * widest / 4 * (np.pi / count)  # slope times half a spacing
    return np.degrees(angles[delta - hidden <= delta.min()])


for R in (1.0, 3.0, 6.0):
    possible, found = where_it_can_be(keys, spread, R), path_angles(keys, spread, [R])[0]
    print(f"R = {R:g}: found {found:.1f} degrees, certified {possible.min():.0f} to {possible.max():.0f}")
    assert possible.min() < found < possible.max(), again.format("08.1")
    assert np.ptp(possible) < 45, again.format("08.1")
    assert possible.min() > 60, again.format("08.1")
apart = path_angles(keys, spread, [1.0])[0] - degrees(at_norm(runs, 1.0))[0]
assert 15.3 < apart < 16.3, again.format("08.1")
assert abs(path_angles(keys, spread, [0.1])[0] - degrees(at_norm(runs, 0.1))[0]) < 1.5, again.format("08.1")
assert abs(path_angles(keys, spread, [30.0])[0] - degrees(at_norm(runs, 30))[0]) < 0.3, again.format("08.1")
assert abs(degrees(at_norm(runs, 30))[1]) < 5

# %% [markdown]
# So this minimiser is *certified* to be global, in the valley of token 1. In higher dimensions nobody can
# search a sphere like this; keep the plane as the place where we know the truth.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2. Small radii
#
# Near 0, $L(p) \approx L(0) + g \cdot p$ with $g = \nabla L(0)$, and the best $p$ of length $R$ is $-R\, g
# / \|g\|$. So **the path starts in the direction of descent's first step**, if $g \ne 0$.
#
# One more term shows the first difference. Let $H$ be the matrix of second derivatives at 0, $u =
# -g/\|g\|$, and $q$ the part of $Hu$ that is perpendicular to $u$. Descent with small steps follows
# $dp/d\tau = -(g + Hp)$. The path has its gradient along $-p$, as any minimiser on a sphere. Solving both
# to first order in $R$ gives
#
# $$\frac{p(R)}{R} \approx u - \frac{R}{\|g\|}\, q, \qquad
# \frac{p_{\text{descent}}}{R} \approx u - \frac{R}{2\,\|g\|}\, q .$$
#
# **The path turns twice as fast.** Descent carries with it what it did when it knew less; the path decides
# anew at each length.


# %%
def loss_at(p):
    s = torch.softmax(toy.keys[0] @ p, dim=0)
    return -(s * toy.scores[0]).sum()  # same directions and turns as L: one is a function of the other


zero = torch.zeros(2, dtype=torch.float64)
g = torch.autograd.functional.jacobian(loss_at, zero).numpy()
H = torch.autograd.functional.hessian(loss_at, zero).numpy()
u = -g / np.linalg.norm(g)
rate = np.degrees(-np.array([-u[1], u[0]]) @ (H @ u) / np.linalg.norm(g))  # the path's, degrees per unit of R
fine = descend(toy, [[0, 0]], steps=410, lr=0.001).numpy()
print(f"first direction {degrees(u):.1f} degrees; predicted turn / R {rate:.2f}, for descent {rate / 2:.2f}")
for R in (0.05, 0.1, 0.2, 0.4):
    turns = path_angles(keys, spread, [R])[0] - degrees(u), degrees(at_norm(fine, R))[0] - degrees(u)
    a, b = turns[0] / R, turns[1] / R
    print(f"R = {R:4g}: turn / R of the path {a:6.2f}, of descent {b:5.2f}, ratio {a / b:.2f}")
    if R == 0.05:
        assert abs(turns[0] / R / rate - 1) < 0.06, again.format("08.1")
        assert abs(turns[1] / R / (rate / 2) - 1) < 0.03
        assert 1.95 < turns[0] / turns[1] < 2.15, again.format("08.1")
assert round(degrees(u), 1) == 57.9

# %% [markdown]
# At $R = 0.05$ both rates agree with the prediction to within 6%. Farther out higher terms join in.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 3. Any dimension: projected steps
#
# Beyond the plane we have to descend after all, but on a ball: take a gradient step, and if it led out,
# come back to the nearest point of the ball. That point lies on the same ray.

# %% [markdown]
# ### Exercise 08.2: A projected step
#
# ★☆☆ · 6 minutes
#
# For every row: a step of gradient descent with step size `eta`, then the nearest point of length at most
# `R`.
#
# <details><summary>Hint</summary>
#
# First `q = p - eta * g` and the length of each row, `np.linalg.norm(q, axis=1, keepdims=True)`. Rows
# longer than $R$ are multiplied by $R$ over their length, the others by 1: `np.minimum(1, ...)`.
# </details>


# %%
@exercise("08.2")
def projected_step(p, g, eta, R):
    """Return each row's next point, (K, d), for points p (K, d), gradients g (K, d), a step size and R."""
    ### BEGIN SOLUTION
    q = p - eta * g
    return q * np.minimum(1, R / np.linalg.norm(q, axis=1, keepdims=True))
    ### END SOLUTION


# %%
check("08.2", projected_step)

# %% [markdown]
# A projected step stops where the gradient points straight inwards, $-\nabla L(p) \propto p$. That is what
# we want at a minimum on the sphere, but other points have it too: it is a condition of first order. As in
# lesson 06 the gradient becomes tiny for large $R$, so we use its direction alone.


# %%
def descent_direction(p, keys, scores):
    """The unit vector along -grad L at one point p (d,), with scores from the winner's: lesson 05's cure."""
    s = attention(p, keys)
    gap = scores - scores[s.argmax()]
    step = (s * (gap - s @ gap)) @ keys
    return step / np.linalg.norm(step)


def follow(keys, scores, radii, steps=300):
    """Projected steps, shorter and shorter, at each radius from the end of the one before: (radii, 2)."""
    p, ends = np.zeros((1, 2)), []
    for R in radii:
        for step in range(steps):
            g = -descent_direction(p[0], keys, scores)[None]
            p = np.asarray(projected_step(p, g, 0.3 * R * 0.97**step, R))
        ends.append(p[0])
    return np.array(ends)


few = [0.3, 1.0, 3.0, 10.0, 30.0]
own = follow(keys, spread, few)
library = regularization_path(models.PromptAttention(2), toy, few)
print("     R   search  own steps  library  (degrees)")
for R, a, b, c in zip(few, path_angles(keys, spread, few), own, library["p"].numpy(), strict=True):
    print(f"{R:6g} {a:8.2f} {degrees(b):10.2f} {degrees(c):8.2f}")
    assert abs(a - degrees(c)) < 0.01, again.format("08.1")
    assert abs(a - degrees(b)) < 0.2, again.format("08.1 or 08.2")
assert (library.residual <= 1e-6).all()

# %% [markdown]
# Three ways, one path. The library's `mini_attn.paths.regularization_path` (read it) does what `follow`
# does with better step lengths, for all trials at once. It **follows**: each radius starts from the
# solution at the radius before. Its *residual* is about the angle between $-\nabla L$ and $p$, in radians:
# it certifies a stationary point. It does not say that there is no better one. Section 5 is about that.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4. Large radii
#
# > **Theorem** (Tarzanagh, Li, Zhang and Oymak, 2023; informal, in our words). Fix the head $v$ and let
# > $\ell$ be smooth and strictly decreasing. Let each sequence have one best token, $\mathrm{opt}_i =
# > \arg\max_t \gamma_{it}$, and let the Att-SVM of these tokens be feasible. Then, as $R \to \infty$,
# >
# > $$\frac{p(R)}{R} \;\to\; \frac{p_{\mathrm{mm}}(\mathrm{opt})}{\|p_{\mathrm{mm}}(\mathrm{opt})\|}.$$
# >
# > The same holds for $W$ with the Frobenius norm (Tarzanagh, Li, Thrampoulidis and Oymak, 2023), and for
# > nonlinear heads under a condition that section 7 looks at.
#
# There is one limit, and it is the *global* one of lesson 07. The reason takes two lines. Let $L_*$ be the
# mean of $\ell(\gamma_{i\,\mathrm{opt}_i})$, which no $p$ can beat. If attention is nearly on the best
# tokens,
#
# $$L(p) - L_* \;\approx\; \sum_j w_j\, e^{-p \cdot a_j}, \qquad
# w_j = \tfrac1n\, |\ell'(\gamma_{i\,\mathrm{opt}_i})|\, (\gamma_{i\,\mathrm{opt}_i} - \gamma_{it}) > 0,$$
#
# where $j$ runs over all comparisons $(i, t)$, $t \ne \mathrm{opt}_i$, and $a_j = k_{i\,\mathrm{opt}_i} -
# k_{it}$. For long $p$ the smallest $p \cdot a_j$ decides; to make it as large as possible at a given
# length is the SVM.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### How fast? The next term
#
# Write $p(R) = R\, \hat p + r$ with $\hat p = p_{\mathrm{mm}}/\|p_{\mathrm{mm}}\|$. At a minimum on the
# sphere $\sum_j w_j e^{-p \cdot a_j}\, a_j$ is a multiple of $p$. For large $R$ only support vectors remain
# in the sum, with a common factor; and $p$ is nearly a multiple of $p_{\mathrm{mm}} = \sum_j \lambda_j a_j$
# (lesson 02: $\lambda_j > 0$ on the support vectors). If the support vectors are linearly independent, the
# coefficients must agree up to a factor:
#
# $$w_j\, e^{-r \cdot a_j} = c\, \lambda_j \qquad\Longleftrightarrow\qquad
# r \cdot a_j = \log \frac{w_j}{\lambda_j} + \text{const} \qquad \text{for each support vector } j .$$
#
# Besides, $r \perp \hat p$ (else the length is not $R$), and $r$ is a combination of the $a_j$, because the
# gradient is. These conditions determine $r$: it is a fixed vector. So the path runs *parallel* to its ray,
#
# $$\text{angle} \approx \frac{\|r\|}{R}, \qquad 1 - \text{cosine} \approx \frac{\|r\|^2}{2R^2} .$$

# %% [markdown]
# ### Exercise 08.3: The path's offset
#
# ★★★ · 12 minutes
#
# Compute $r$ from the support vectors $a_j$ (the rows), their weights $w_j$ and the SVM's $\lambda_j$.
#
# <details><summary>Hint</summary>
#
# Let the constant be zero at first, `b = np.log(weights / lam)`: `np.linalg.lstsq(rows, b, rcond=None)[0]`
# is the shortest $q$ with
# $a_j \cdot q = b_j$, and it is a combination of the rows. Then take away its part along $\hat p$, which is
# the direction of `lam @ rows`. Since $\hat p \cdot a_j$ is the same for all $j$, this changes only the
# constant.
# </details>


# %%
@exercise("08.3")
def offset(rows, weights, lam):
    """Return r, (d,), for m independent support vectors rows (m, d), weights (m,) and lam (m,)."""
    ### BEGIN SOLUTION
    q = np.linalg.lstsq(rows, np.log(weights / lam), rcond=None)[0]
    unit = lam @ rows
    unit = unit / np.linalg.norm(unit)
    return q - (q @ unit) * unit
    ### END SOLUTION


# %%
check("08.3", offset)

# %% [markdown]
# The measurement: 60 random problems, $n = 3$, $T = 4$, $d = 10$. We scale the keys of each problem so
# that $\|p_{\mathrm{mm}}\| = 1$; then $R$ is the margin that the path can afford, and problems can be
# compared. To be on the right branch we start at $R\, \hat p + r$, at each radius anew, and let the
# library move until its residual is below $10^{-6}$. If $r$ were wrong, it would move away.


# %%
def unit_problems(trials, seed, n=3, T=4, d=10):
    """Random problems with feasible best tokens, keys scaled to ||p_mm|| = 1; and the SVM's solution."""
    drawn = data.random_tokens(n, T, d, trials=trials, seed=seed)
    solution = svm.solve(svm.token_problem(drawn.keys, drawn.optimal), throw=False)
    ok = torch.as_tensor(solution.status == "optimal")
    keys = drawn.keys[ok] * solution.value[ok].norm(dim=-1)[:, None, None, None]
    many = data.TokenData(drawn.X[ok], drawn.z[ok], drawn.y[ok], drawn.v[ok], keys)
    return many, svm.solve(svm.token_problem(many.keys, many.optimal))


many, solution = unit_problems(trials=60, seed=3)
trials, d = solution.value.shape
wide_radii = np.array([10.0, 30, 100, 300, 1000])
rows = svm.token_problem(many.keys, many.optimal).a.numpy()  # (trials, 9, d)
gaps = many.scores.amax(-1, keepdim=True) - many.scores
slope = 1 / (1 + many.scores.amax(-1, keepdim=True).exp())  # |l'|
weights = (slope * gaps)[gaps > 0].reshape(trials, -1).numpy()  # (trials, 9), in the order of the rows
predicted = np.zeros((trials, d))
for i in range(trials):
    lam = solution.dual[i].numpy()
    tight = lam > 1e-6
    predicted[i] = offset(rows[i, tight], weights[i, tight], lam[tight])
measured = []
for R in wide_radii:
    model = models.PromptAttention(d, trials=trials, init=R * solution.value + torch.tensor(predicted))
    found = regularization_path(model, many, [R])
    measured.append(found["p"][0])
    assert (found.residual <= 1e-6).all()
measured = torch.stack(measured)  # (radii, trials, d)
offsets = measured - (measured * solution.value).sum(-1, keepdim=True) * solution.value
wrong_by = (offsets - torch.tensor(predicted)).norm(dim=-1).numpy() / np.linalg.norm(predicted, axis=-1)
error = torch.stack([1 - geometry.cosine(p, solution.value) for p in measured]).numpy()
forecast = (np.linalg.norm(predicted, axis=-1) ** 2 / 2) / wide_radii[:, None] ** 2
print(f"problems: {trials}; median length of r: {np.median(np.linalg.norm(predicted, axis=-1)):.1f}")
print("    R   median 1 - cosine   predicted")
for k, R in enumerate(wide_radii):
    print(f"{R:5g} {np.median(error[k]):19.0e} {np.median(forecast[k]):11.0e}")
late = np.polyfit(np.log(wide_radii[2:]), np.log(np.median(error[2:], axis=1)), 1)[0]
print(f"slope of log(1 - cosine) against log R, from R = 100 on: {late:.0f}")

# %% slideshow={"slide_type": "subslide"}
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.9))
left.loglog(wide_radii, error, color=plots.COLORS["sky"], linewidth=0.8, alpha=0.6)
left.loglog(wide_radii, np.median(error, axis=1), "o-", color=BLUE, label="measured, median")
left.loglog(
    wide_radii, np.median(forecast, axis=1), "--", color=BLACK, label=r"predicted, $\Vert r\Vert^2/2R^2$"
)
left.set(xlabel="radius $R$", ylabel="1 - cosine to $p_{mm}$")
left.legend()
for k, marker, color in ((0, "o", plots.COLORS["grey"]), (2, "s", plots.COLORS["orange"]), (4, "^", BLUE)):
    right.loglog(
        np.linalg.norm(predicted, axis=-1),
        offsets[k].norm(dim=-1),
        marker,
        markersize=5,
        color=color,
        label=f"$R = {wide_radii[k]:g}$",
    )
right.loglog([0.1, 20], [0.1, 20], "--", color=BLACK, linewidth=1.3)
right.set(xlabel=r"predicted $\Vert r \Vert$", ylabel="measured distance to the ray")
right.legend()
show(
    fig,
    alt="Left, one minus cosine of 60 problems against R on logarithmic axes, thin lines; their median falls "
    "along a dashed line of slope minus 2. Right, measured against predicted distance to the ray: scattered "
    "around the diagonal at R = 10, on it at R = 1000.",
)

# %% [markdown]
# **Figure 2.** Left: how far the direction of $p(R)$ is from its limit, in 60 problems. Right: the distance
# from $p(R)$ to the ray against the predicted $\|r\|$; on the dashed line they agree.

# %%
assert trials == 60
assert -2.05 < late < -1.85
assert np.median(wrong_by[-1]) < 0.01, again.format("08.3")
assert (wrong_by[-1] < 0.05).sum() >= 55, again.format("08.3")
assert abs(np.median(error[-1]) / np.median(forecast[-1]) - 1) < 0.15, again.format("08.3")

drawn = data.random_tokens(n=3, T=4, d=6, trials=30, seed=8)  # the same for W
W_mm = svm.solve(svm.attention_problem(drawn.keys, drawn.z, drawn.optimal)).value
tail = []
for R in (1000.0, 3000.0):
    model = models.CrossAttention(6, trials=30, init=R * W_mm / W_mm.flatten(1).norm(dim=1)[:, None, None])
    W = regularization_path(model, drawn, [R], tol=1e-5, max_steps=400)["W"][0]
    tail.append((1 - geometry.cosine(W, W_mm)).median().item())
slope_W = np.log(tail[1] / tail[0]) / np.log(3)
print(f"W, 30 problems: slope {slope_W:.0f}")
assert -2.2 < slope_W < -1.8

# %% [markdown]
# The slope is $-2$ as predicted, and at $R = 1000$ the vector $r$ itself, with all its ten coordinates, is
# right to within 5% in at least 55 of 60 problems. The others have a constraint that is nearly tight: $R$
# must be large against one over its slack, as in lesson 07. For $W$ the argument is the same with $a_j
# z_i^\top$ for $a_j$, and so is the slope.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 5. The path can jump
#
# The limit is global, the start is local information: the gradient at 0. What if they disagree? Give the
# best token of the toy a weak key on the far side, $k_1 = (-0.3, 0.2)$. The scores stay $1, 0.9, 0$.

# %%
weak = np.array([[-0.3, 0.2], [1.0, 0.0], [0.0, 0.0]])
weak_toy = tokens_of(weak, spread)
radii = np.geomspace(0.3, 30, 60)
on_path = path_angles(weak, spread, radii)
followed = regularization_path(models.PromptAttention(2), weak_toy, radii)["p"].numpy()
run = descend(weak_toy, [[0, 0]], steps=700).numpy()
print("     R   global p(R)   followed   descent   (degrees)")
for R in (0.5, 2, 5, 8, 20):
    k = np.abs(radii - R).argmin()
    gd = degrees(at_norm(run, radii[k]))[0]
    print(f"{radii[k]:6.2f} {on_path[k]:13.1f} {degrees(followed[k]):10.1f} {gd:9.1f}")

# %% [markdown]
# The true path jumps from one side to the other; the followed one stays on its branch, and so does descent.
# **$p(R)$ need not be continuous, and what continues smoothly need not be $p(R)$.**

# %% [markdown]
# ### Exercise 08.4: Find the jump
#
# ★★☆ · 8 minutes
#
# Given the minimisers at increasing radii, one a row, return the largest angle (in degrees) between the
# directions of two rows that follow each other, and the index of the row *before* that turn.
#
# <details><summary>Hint</summary>
#
# Divide every row by its length, multiply neighbours (`u[:-1] * u[1:]`) and sum over the last axis: these
# are the cosines. `np.clip` them to [-1, 1] before `np.arccos`; then `np.argmax`.
# </details>


# %%
@exercise("08.4")
def largest_turn(path):
    """Return (angle in degrees, index k): the largest turn is from path[k] to path[k + 1]; path (K, d)."""
    ### BEGIN SOLUTION
    u = path / np.linalg.norm(path, axis=1, keepdims=True)
    turns = np.degrees(np.arccos(np.clip((u[:-1] * u[1:]).sum(axis=1), -1, 1)))
    return turns.max(), turns.argmax()
    ### END SOLUTION


# %%
check("08.4", largest_turn)

# %% [markdown]
# Where must the jump be? On the branch of token 2 the shortfall falls to $\gamma_1 - \gamma_2 = 0.1$ and
# stays there. On the branch of token 1 the rival is token 3, behind by $R / \|p_{\mathrm{mm}}(1)\|$, so the
# shortfall is about $1 / (1 + e^{R / \|p_{\mathrm{mm}}(1)\|})$. They are equal at
#
# $$R = \|p_{\mathrm{mm}}(1)\| \,\log 9 .$$
#
# The worse the best token's margin, and the smaller its advantage, the later the path notices it.

# %%
p_mm = svm.solve(svm.token_problem(weak_toy.keys, torch.tensor([0]))).value.numpy()
predicted_jump = np.linalg.norm(p_mm) * np.log(9)
close = np.linspace(5, 7, 101)
angle, k = largest_turn(circle(np.radians(path_angles(weak, spread, close)), close))
print(f"jump predicted at R = {predicted_jump:.2f}, found at {close[k]:.2f}, by {angle:.0f} degrees")
possible = where_it_can_be(weak, spread, 8.0)
print(f"at R = 8 the minimiser is certified between {possible.min():.0f} and {possible.max():.0f} degrees")
assert abs(close[k] - predicted_jump) < 0.1, again.format("08.4")
assert 145 < angle < 147, again.format("08.4")
assert possible.min() > 120, again.format("08.1")

starts = circle(np.linspace(0, 2 * np.pi, 12, endpoint=False) + 0.1, 1.0)  # 12 directions
coarse = np.geomspace(0.5, 30, 12)
together = models.PromptAttention(2, trials=12, init=coarse[0] * starts)
followed_all = regularization_path(together, weak_toy, coarse)["p"].numpy()  # (radii, 12, 2)
anew = []
for R in coarse:
    model = models.PromptAttention(2, trials=12, init=R * starts)
    anew.append(regularization_path(model, weak_toy, [R])["p"][0].numpy())

# %%
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), width_ratios=[1.1, 1])
draw_map(left, weak, spread, radii)
for part in (radii < predicted_jump, radii > predicted_jump):
    left.plot(on_path[part], radii[part], **white)
left.plot(degrees(followed), radii, "--", color=plots.COLORS["orange"], linewidth=2.6)
left.text(28, 20, "followed", color=plots.COLORS["orange"], fontsize=11)
left.text(20, 0.42, "$p(R)$", color="white", fontsize=11)
left.text(118, 20, "$p(R)$", color="white", fontsize=11)
for k, R in enumerate(coarse):
    dots = shortfall(anew[k], weak, spread)
    right.loglog(
        np.full(12, R), dots, "o", color=BLUE, markersize=7, label="12 starts, anew" if k == 0 else None
    )
    dots = shortfall(followed_all[k], weak, spread)
    right.loglog(
        np.full(12, R), dots, "x", color=ORANGE, markersize=6, label="12 starts, followed" if k == 0 else None
    )
right.axvline(predicted_jump, color=BLACK, linestyle="--", linewidth=1.3)
right.set(xlabel="radius $R$", ylabel=r"shortfall $\delta$", ylim=(1e-5, 2))
right.legend(loc="lower left")
show(
    fig,
    alt="Left, angle against radius: the solid path goes from 15 degrees to 0 and jumps at R = 6 to 146 "
    "degrees; the dashed followed path stays near 0. Right, shortfall against radius: twelve followed starts "
    "lie on one curve that levels off at 0.1, new ones on two curves that cross at the dashed line.",
)
valleys = []
for R in (1.0, 3.0):
    delta = np.asarray(shortfall(circle(np.linspace(-np.pi, np.pi, 720, endpoint=False), R), weak, spread))
    valleys.append(((delta < np.roll(delta, 1)) & (delta < np.roll(delta, -1))).sum())
spread_of_followed = np.ptp(degrees(followed_all), axis=1).max()

# %% [markdown]
# **Figure 3.** Left: as Figure 1, for the weak key; solid $p(R)$, dashed the followed path. Right:
# shortfall of what twelve starts reach, if they are followed from the first radius (crosses) or made anew
# at each (dots). Dashed: the predicted jump.

# %%
assert valleys == [1, 2], again.format("08.1")
assert spread_of_followed < 0.5
assert np.abs(degrees(followed)).max() < 25
assert (shortfall(anew[-1], weak, spread) < 1e-4).any(), again.format("08.1")
print(f"largest difference between twelve followed starts: {spread_of_followed:.2f} degrees")

# %% [markdown]
# At small radii the circle has a single minimum; the second valley opens between $R = 1$ and 3. So
# **several starts do not help a program that follows**: at the first radius they all meet, and then stay
# together. To find the other branch one has to start anew at larger radii, as the dots do. In this lesson
# "the path" is the global minimiser; what `regularization_path` returns is a branch.

# %% [markdown]
# **Try it.** The shortfall round the circle (a row of Figure 3's map), with $p(R)$ and descent from 0 at
# equal length. Predict: what does halving the length of $k_1$ do to the radius of the jump? And what if
# $k_1$ has twice its length and turns towards $k_2$, to 80 degrees?
#
# <details><summary>Answer</summary>
#
# Half the key, twice $\|p_{\mathrm{mm}}(1)\|$: the jump moves out to twice the radius, $R = 12.1$.
# (Doubling the key moves it in by more than half, to 1.2: so early that token 2's branch has not settled
# at 0.1.) At 80 degrees and twice the length there is one valley and no jump, and descent finds token 1
# too.
# </details>


# %% tags=["nbval-ignore-output", "widget"]
def turned(factor, angle):
    """The weak toy's keys, with k_1 of another length and angle (degrees)."""
    own = weak.copy()
    own[0] = circle(np.radians(angle), factor * np.linalg.norm(weak[0]))
    return own


def plain_descent(keys, scores, R):
    """Normalised steps of length R / 100 from 0 until the length is R: the end (2,)."""
    p = np.zeros(2)
    for _ in range(150):
        p = p + R / 100 * descent_direction(p, keys, scores)
        if np.linalg.norm(p) >= R:
            break
    return p


def round_the_circle(log_R, factor, angle):
    R, own = 10.0**log_R, turned(factor, angle)
    every = np.linspace(-180, 180, 721)
    figure = Figure(figsize=(7, 3.5), layout="none")  # constrained layout would draw twice
    ax = figure.add_axes((0.1, 0.16, 0.87, 0.74))
    ax.plot(every, shortfall(circle(np.radians(every), R), own, spread), color=plots.COLORS["grey"])
    here = circle(best_angle(lambda p: shortfall(p, own, spread), R), R)
    there = plain_descent(own, spread, R)
    for p, marker, color, name in ((here, "o", BLUE, "$p(R)$"), (there, "s", ORANGE, "descent from 0")):
        ax.plot(degrees(p), shortfall(p[None], own, spread), marker, color=color, markersize=10, label=name)
    ax.set(xlim=(-180, 180), ylim=(-0.03, 1.05), xlabel="angle (degrees)", ylabel="shortfall")
    ax.set_xticks([-180, -90, 0, 90, 180])
    ax.set_title(f"$R$ = {R:.2f}", fontsize=12)
    ax.legend(loc="upper left")
    return figure


wide = {"style": {"description_width": "130px"}, "layout": ipywidgets.Layout(width="480px")}
widgets.sliders(
    round_the_circle,
    log_R=ipywidgets.FloatSlider(value=0.6, min=-0.5, max=1.5, step=0.02, description="log10 of R", **wide),
    factor=ipywidgets.FloatSlider(
        value=1, min=0.5, max=3, step=0.25, description="length of k1, times", **wide
    ),
    angle=ipywidgets.FloatSlider(value=146, min=40, max=180, step=2, description="angle of k1", **wide),
)

# %%
for factor, expected in ((0.5, 2 * predicted_jump), (2, 1.2)):  # what Try it says
    close = np.geomspace(0.5, 20, 400)
    angles = np.radians(path_angles(turned(factor, degrees(weak[0])), spread, close))
    angle, k = largest_turn(circle(angles, close))
    print(f"length of k_1 times {factor:g}: jump at R = {close[k]:.1f}, by {angle:.0f} degrees")
    assert abs(close[k] - expected) < 0.2, again.format("08.4")
own = turned(2, 80)
assert largest_turn(circle(np.radians(path_angles(own, spread, close)), close))[0] < 3, again.format("08.4")
assert degrees(plain_descent(own, spread, 30.0)) > 80

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 6. Descent against the path
#
# **At large lengths.** Where descent goes to the same token as the path, how close do they come? Descent
# adds up the same forces $w_j e^{-p \cdot a_j} a_j$ that the path balances. Lesson 01's argument for the
# linear classifier says what remains: $p = R\,\hat p + r'$ where $r'$ meets the same conditions $r' \cdot
# a_j = \log (w_j/\lambda_j) + \text{const}$ on the support vectors. But it need not be a combination of
# *them*: orthogonal to all support vectors it keeps what early steps, or the start, put there. So the
# distance at equal length tends to a constant, the length of that part, **and to 0 if the support vectors
# span the space**.
#
# Three cases in the plane: the toy of section 1 with both sets of scores, whose token 1 has one support
# vector, and the hexagon of lesson 07, whose token 1 has two.

# %%
hexagon = np.array([[0.2, 1.1], [1, 0.6], [0.9, -0.5], [0.1, -1.1], [-0.9, -0.6], [-1, 0.5], [0.1, 0.1]])
gamma = np.array([1.0, 0.3, 0.8, 0.2, 0.7, 0.1, 0.5])
cases = {"toy, 1, .9, 0": (keys, spread), "toy, 1, .9, .9": (keys, equal), "hexagon": (hexagon, gamma)}
lengths = np.geomspace(0.125, 64, 28)
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.9))
between = {}
for (name, (own, scores)), color, marker in zip(cases.items(), (BLUE, GREEN, ORANGE), "os^", strict=True):
    run = descend(tokens_of(own, scores), [[0, 0]], steps=1000, lr=0.07)
    here = circle(np.radians(path_angles(own, scores, lengths)), lengths)
    there = np.array([at_norm(run, R)[0] for R in lengths])
    distance = np.linalg.norm(here - there, axis=1)
    between[name] = distance
    left.semilogx(
        lengths, np.degrees(2 * np.arcsin(distance / 2 / lengths)), marker=marker, color=color, label=name
    )
    right.loglog(lengths, distance, marker=marker, color=color, label=name)
left.set(xlabel="length $R$", ylabel="angle between them (degrees)")
right.set(xlabel="length $R$", ylabel="distance between them")
left.legend(loc="upper right", fontsize=10)
for ax in (left, right):
    ax.lines[0].set_markersize(5)
show(
    fig,
    alt="Left, the angle between descent and the path against length for three cases: small at both ends, up "
    "to 21 degrees for the toy. Right, the distance: it falls as 1/R for the hexagon, not for the toys.",
)
print("   R ", *(f"{name:>16s}" for name in cases))
for R in (0.125, 1, 4, 16, 64):
    k = np.abs(lengths - R).argmin()
    print(f"{lengths[k]:5.1f}", *(f"{between[name][k]:16.3f}" for name in cases))

# %% [markdown]
# **Figure 4.** Descent from 0 and $p(R)$ at equal length: the angle and the distance between them. (The
# dip of the blue curve is where descent crosses the path.)

# %%
widest = {name: np.degrees(2 * np.arcsin(apart / 2 / lengths)).max() for name, apart in between.items()}
assert 20.5 < widest["toy, 1, .9, 0"] < 21.5, again.format("08.1")
assert widest["toy, 1, .9, .9"] < 4.5, again.format("08.1")
assert between["hexagon"][-1] < 0.004, again.format("08.1")
assert 0.1 < between["toy, 1, .9, 0"][-1] < 0.2, again.format("08.1")

some, solved = unit_problems(trials=20, seed=5, n=2, T=4, d=4)
vectors = svm.token_problem(some.keys, some.optimal).a.numpy()
run = descend(some, torch.zeros(len(some.y), 4), steps=1100, lr=0.1)
parts = {}
for R in (25.0, 100.0):
    there = torch.tensor(at_norm(run, R)).nan_to_num(1.0)  # the few that never came so far are left out below
    model = models.PromptAttention(4, len(there), init=there)
    chosen = geometry.selected_tokens(model.attention(some))
    path = regularization_path(model, some, [R], max_steps=300)
    apart = there - path["p"][0]
    parts[R] = {}  # problem -> support vectors, distance in their span, distance orthogonal to it
    right = (chosen == some.optimal).all(dim=1) & (path.residual[0] < 1e-6) & (there.norm(dim=1) > 0.99 * R)
    for i in right.nonzero()[:, 0].tolist():
        A = vectors[i][solved.dual[i].numpy() > 1e-6]
        inside = A.T @ np.linalg.lstsq(A.T, apart[i].numpy(), rcond=None)[0]
        parts[R][i] = len(A), np.linalg.norm(inside), np.linalg.norm(apart[i].numpy() - inside)
    size, inside, outside = np.array(list(parts[R].values())).T
    print(f"R = {R:3g}: {len(size)} problems, median distance in the span {np.median(inside):.2f};", end="")
    print(f" orthogonal to it, {(size < 4).sum()} problems: {np.median(outside[size < 4]):.1f}")
    assert outside[size == 4].max() < 1e-9
common = parts[25.0].keys() & parts[100.0].keys()
falls = np.median([parts[25.0][i][1] / parts[100.0][i][1] for i in common])
print(f"from R = 25 to 100 the distance in the span falls by a factor {falls:.1f} in the median problem")
assert 2.5 < falls < 4.5
assert 0.4 < np.median(outside[size < 4]) < 0.9

# %% [markdown]
# At both ends the angles vanish; in between descent lags by up to 21 degrees. The hexagon's distance falls
# to 0.003. The toy's stays, and with scores $1, 0.9, 0.9$ it still grows at $R = 64$ (token 2's margin is
# only 10% above the support token's, so its force is slow to drop out). In random problems with $d = 4$
# the part in the span of the support vectors falls about like $1/R$, and the part orthogonal to it, where
# there is one, stays.
#
# **Even before the limit.** With a single comparison, $n = 1$ and $T = 2$, $L$ depends on $p \cdot a_1$
# alone: descent from 0 and the path are the same ray for $p$, $R\, a_1/\|a_1\|$, and for $W$, along $a_1
# z^\top$. And for one sequence whose losers all score the same, minimising $\delta$ means minimising
# $-\log s_{\mathrm{opt}} = \log \sum_t e^{-p \cdot a_t}$ (with $a_{\mathrm{opt}} = 0$), which is *convex*:
# one minimiser on each ball, no jump, and descent finds the same token from everywhere. That is the toy
# with scores $1, 0.9, 0.9$: the angle stays below 4.5 degrees.

# %%
single = data.random_tokens(n=1, T=2, d=4, seed=0)
for kind, name in ((models.PromptAttention, "p"), (models.CrossAttention, "W")):
    model = kind(4)
    train.fit(model, single, optim.NormalizedGD(model.parameters(), lr=0.1), 100, progress=False)
    own = regularization_path(kind(4), single, [0.5, 5.0])[name]
    alike = min(geometry.cosine(w, getattr(model, name).detach(), batch_dims=0).item() for w in own)
    print(f"{name}: cosine of descent's end with the path {alike:.6f}")
    assert alike > 1 - 1e-12

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The same tokens?
#
# Now the limit itself. The 60 random problems of section 4 again, from 0: descent, the followed path, and
# the best we can find at each radius from many starts (the best of the radius before, the followed point,
# $R\,\hat p$ and four random directions; a start counts too, where steps lead away). The last is our
# stand-in for $p(R)$.

# %%
radii = np.geomspace(0.3, 100, 8)
chain = regularization_path(models.PromptAttention(d, trials=trials), many, radii, tol=1e-4, max_steps=500)
model = models.PromptAttention(d, trials=trials)
optimizer = optim.NormalizedGD(model.parameters(), lr=0.02, batch_dims=1)
record = {"p": lambda m: m.p}
history = train.fit(
    model, many, optimizer, 1000, record=record, every=4, progress=False, schedule=train.growing
)


def mean_loss(p):
    """L at p (starts, trials, d) in every problem: (starts, trials)."""
    margins = models.PromptAttention(d, p.shape[:-1], init=p)(many).detach() * many.y
    return torch.logaddexp(-margins, torch.zeros_like(margins)).mean(dim=-1)


copies = data.TokenData(*(a.expand(7, *a.shape) for a in (many.X, many.z, many.y, many.v, many.keys)))
generator = torch.Generator().manual_seed(1)
searched, best = [], None
for R, p in zip(radii, chain["p"], strict=True):
    random = torch.randn(4, trials, d, generator=generator, dtype=torch.float64)
    before = p if best is None else best
    init = torch.cat([torch.stack([before, p, solution.value]), random])
    init = R * init / init.norm(dim=-1, keepdim=True)
    model = models.PromptAttention(d, trials=(7, trials), init=init)
    tried = regularization_path(model, copies, [R], tol=1e-3, max_steps=100)
    points = torch.cat([tried["p"][0], init])  # a start counts too: steps may leave a good branch
    losses = torch.cat([tried.loss[0], mean_loss(init)])
    best = points[losses.argmin(dim=0), torch.arange(trials)]
    searched.append(best)


def on_best(p):
    """Which trials have most attention on the best token of every sequence: p (..., trials, d) -> bool."""
    h = (many.keys @ p[..., None, :, None]).squeeze(-1)
    return (h.argmax(dim=-1) == many.optimal).all(dim=-1)


shares = {
    "best found": [on_best(p).double().mean().item() for p in searched],
    "followed": [on_best(p).double().mean().item() for p in chain["p"]],
    "descent": [on_best(torch.tensor(at_norm(history["p"], R))).double().mean().item() for R in radii],
}
fig, ax = plt.subplots(figsize=(6.5, 3.7))
for (name, share), color, marker in zip(
    shares.items(), (BLUE, plots.COLORS["orange"], GREEN), "osv", strict=True
):
    ax.semilogx(radii, share, marker=marker, color=color, label=name)
ax.set(xlabel="length $R$", ylabel="share on the best tokens", ylim=(0, 1.05))
ax.legend(loc="lower right")
show(
    fig,
    alt="Share of 60 problems with most attention on all best tokens against length. All rise from a quarter "
    "at R = 0.3; the best found reaches one, descent and the followed path level off lower.",
)
print("      R ", *(f"{name:>11s}" for name in shares))
for k in (0, 2, 4, 7):
    print(f"{radii[k]:7.1f} ", *(f"{share[k]:11.2f}" for share in shares.values()))

# %% [markdown]
# **Figure 5.** Share of 60 random problems whose attention is largest on all best tokens: the best point
# found from many starts, the followed path, and descent from 0, at equal length.

# %%
assert np.isfinite(at_norm(history["p"], radii[-1])).all()  # every run came so far
final = {name: round(60 * share[-1]) for name, share in shares.items()}
descent_end = on_best(torch.tensor(at_norm(history["p"], radii[-1])))
alike = (descent_end == on_best(chain["p"][-1])).sum().item()
print(f"on the best tokens at R = {radii[-1]:g}, of 60: {final}; descent and followed path agree in {alike}")
assert final["best found"] == 60
assert abs(radii[2] - 1.6) < 0.05
assert abs(shares["best found"][2] - shares["followed"][2]) < 0.03
assert 50 <= final["descent"] <= 54
assert 45 <= final["followed"] <= 49

# %% [markdown]
# All 60 are on the best tokens at $R = 100$ if we search, as the theorem says of $p(R)$. Descent gets there
# in about 52, and the followed path in no more than 49: following is not a cure for local optima. Both
# started in the same direction, and at $R = 1.6$ the followed path still did as well as the search.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 7. Other heads, and where it breaks
#
# So far the prediction was linear in the values: $f = \sum_t s_t\, v \cdot x_t$. A **nonlinear head**
# reads the mixture, $f = \psi(\bar x)$ with $\bar x = \sum_t s_t x_t$ and any function $\psi$, an MLP say.
# The argument of section 4 asks two things of it: that **attention entirely on one token beats every other
# attention**, $y_i\, \psi(x_{i\,\mathrm{opt}_i}) > y_i\, \psi(\bar x_i)$, and that weight moved to another
# token costs in proportion. Then $p(R)$ tends to the Att-SVM of that token, and $\psi$ does not appear in
# the direction. With one sequence of three tokens we can check the first condition on a grid of all
# attentions, and search the circle as before.

# %%
values = np.array([[1.0, 0.0], [0.9, 0.5], [0.0, -1.0]])  # x_t; keys are the toy's
steps = np.linspace(0, 1, 101)
attentions = np.array([[a, b, 1 - a - b] for a in steps for b in steps if a + b < 1 + 1e-9])


def mlp(seed):
    """A random network with four hidden tanh units: x (..., 2) -> (...)."""
    rng = np.random.default_rng(seed)
    first, bias, second = 1.5 * rng.normal(size=(4, 2)), rng.normal(size=4), rng.normal(size=4)
    return lambda x: np.tanh(x @ first.T + bias) @ second


heads = {"linear": lambda x: x[..., 0], "tanh(2 x_1)": lambda x: np.tanh(2 * x[..., 0])}
heads |= {f"MLP {seed}": mlp(seed) for seed in (0, 2, 9, 4)}


def short_of_best(psi):
    """A function of p (K, 2): how much psi lacks of its largest value over all attentions."""
    top = psi(attentions @ values).max()
    return lambda p: top - psi(attention(p, keys) @ values)


each = svm.token_problem(torch.tensor(keys).expand(3, 1, 3, 2), torch.arange(3)[:, None])
targets = degrees(svm.solve(each).value.numpy())
print("head          best attention     p(R) at R = 5, 10, 20 (degrees)   Att-SVM")
for name, psi in heads.items():
    best = attentions[psi(attentions @ values).argmax()]
    found = np.degrees([best_angle(short_of_best(psi), R) for R in (5, 10, 20)])
    alone = best.max() > 0.999
    goal = f"{targets[best.argmax()]:.1f}" if alone else "none"
    print(f"{name:12s} {best}   {found[0]:9.1f} {found[1]:8.1f} {found[2]:8.1f} {goal:>16s}")
    assert alone == (name != "MLP 4")
    if alone:
        off = np.abs(found - targets[best.argmax()])
        assert off[2] < min(off[0], 2)

# %% [markdown]
# Five heads meet the condition, three of them MLPs with three different favourites, and $p(R)$ goes to the
# Att-SVM of the favourite. (A head that increases with $v \cdot \bar x$, like the second, does not even
# change $p(R)$ at finite $R$ if $n = 1$.) For "MLP 4" the best attention is a mixture.

# %% [markdown] slideshow={"slide_type": "subslide"}
# **A mixture beats each token alone.** Let $\psi(\bar x) = e^{-\|\bar x - c\|^2}$ with $c = 0.7\, x_1 +
# 0.3\, x_2$. Now $p$ has two tasks: to leave token 3 behind, which takes length, and to hold $s_1 : s_2$
# at $7 : 3$, which takes *exactly* $p \cdot (k_1 - k_2) = \log (7/3)$, a finite number. In the plane this
# is enough to say where $p(R)$ is, not only where it tends.

# %% [markdown]
# ### Exercise 08.5: The point of a mixture
#
# ★★☆ · 10 minutes
#
# Three keys in the plane, and wanted shares of the first two tokens (positive, with sum 1). Return the $p$
# of length $R$ that gives tokens 1 and 2 the right ratio and prefers both to token 3.
#
# <details><summary>Hint</summary>
#
# Let $e = k_1 - k_2$. Along $e$ the part of $p$ is $\log(s_1/s_2)\, e / \|e\|^2$. What is left of the
# length goes along the unit vector perpendicular to $e$ on the side where $k_1 - k_3$ has a positive
# product; use Pythagoras.
# </details>


# %%
@exercise("08.5")
def mixture_point(keys, share, R):
    """Return p (2,) of length R with s_1 : s_2 as in share (2,), away from token 3; keys (3, 2)."""
    ### BEGIN SOLUTION
    e = keys[0] - keys[1]
    fixed = np.log(share[0] / share[1]) * e / (e @ e)
    across = np.array([-e[1], e[0]]) / np.linalg.norm(e)
    across = across * np.sign(across @ (keys[0] - keys[2]))
    return fixed + np.sqrt(R**2 - fixed @ fixed) * across
    ### END SOLUTION


# %%
check("08.5", mixture_point)

# %%
corners = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])  # x_t
centre = 0.7 * corners[0] + 0.3 * corners[1]
print("   R   p(R), searched      predicted        s_1 / s_2   angle (degrees)")
for R in (1, 3, 10, 30, 100):
    angle = best_angle(lambda p: ((attention(p, keys) @ corners - centre) ** 2).sum(axis=-1), R)
    p, foreseen = circle(angle, R), np.asarray(mixture_point(keys, np.array([0.7, 0.3]), R))
    s = attention(p, keys)
    print(f"{R:4d}  {p[0]:7.3f} {p[1]:7.3f}   {foreseen[0]:7.3f} {foreseen[1]:7.3f}", end="")
    print(f" {s[0] / s[1]:13.3f} {degrees(p):12.1f}")
    if R >= 30:
        assert np.abs(p - foreseen).max() < 1e-3, again.format("08.5")
        assert abs(s[0] / s[1] - 7 / 3) < 1e-3
e = keys[0] - keys[1]
level = degrees(np.array([-e[1], e[0]]) * -1)
print(f"limit: perpendicular to k_1 - k_2, {level:.1f} degrees")
assert round(level, 1) == 47.7
assert abs(degrees(p) - level) < 0.4

# %% [markdown]
# The *direction* still tends to something, an SVM in which $p \cdot (k_1 - k_2) = 0$ is an equality, at
# 47.7 degrees. But on the way a finite vector is added to it, and that vector decides the attention:
# $s_1/s_2 \to 7/3$. Direction alone no longer tells what the model does. Lesson 13 is about this: $W
# \approx W_{\mathrm{fin}} + R\, W_{\mathrm{dir}}$.

# %% [markdown] slideshow={"slide_type": "subslide"}
# **The best token is infeasible.** Keys $(1, 0)$, $(-0.5, 0.9)$, $(-0.5, -0.8)$ with score 0, and inside
# their triangle $(0.8, 0.05)$ with score 1. Pushing out in any direction helps some corner. The best $p$
# has a *finite* length.
#
# **Two best tokens.** The hexagon with scores 1 for tokens 1 *and* 2. Either will do, so their comparison
# drops out: for each of the two solve the SVM without it, and the shorter solution wins.

# %%
triangle = np.array([[1.0, 0.0], [-0.5, 0.9], [-0.5, -0.8], [0.8, 0.05]])
trapped = tokens_of(triangle, np.array([0.0, 0, 0, 1]))
ball = regularization_path(models.PromptAttention(2), trapped, [0.5, 1.0, 8.0], max_steps=300)
assert (ball.residual[:2] < 1e-5).all()
assert ball.residual[-1] > 0.1
model = models.PromptAttention(2)
train.fit(model, trapped, torch.optim.SGD(model.parameters(), lr=5.0), 700, progress=False)
end = model.p.detach().norm().item()
kept = model.attention(trapped).detach()[0].numpy()
print(f"infeasible: plain descent ends at length {end:.2f} with attention {kept}")
assert abs(end - 1.84) < 0.005
assert torch.autograd.grad(model(trapped).sum(), model.p)[0].norm() < 1e-6  # a stationary point

tie = np.where(np.arange(7) == 1, 1.0, gamma)
shortest = {}
for token in (0, 1):
    without = torch.tensor(hexagon[token] - hexagon[2:])  # rows against tokens 3 to 7
    p = svm.solve(svm.HardMarginProblem(without, None, torch.ones(5, dtype=torch.float64)))
    shortest[token] = float(p.objective), degrees(p.value.numpy())
    print(f"tie, token {token + 1}: SVM of norm {shortest[token][0]:.3f} at {shortest[token][1]:.1f} degrees")
at = path_angles(hexagon, tie, [5, 20, 80, 300])
print("tie, p(R) at R = 5, 20, 80, 300:", at, "degrees")
assert shortest[0] < shortest[1]
assert abs(at[-1] - shortest[0][1]) < 0.5, again.format("08.1")

# %% [markdown]
# In the ball of radius 8 the minimiser has length 1.84, where descent ends too, with attention spread over
# all tokens. The library's method expects a point on the sphere, and its residual says that it has not
# arrived.
#
# | situation | what $p(R)$ does | how you notice |
# |---|---|---|
# | gradient at 0 points to a local winner | jumps at a finite $R$ | start anew at large $R$ |
# | small slack, or hardly a best token | reaches its limit late | $R$ against the SVM's norm |
# | a mixture beats each token | an SVM with equalities, plus a finite part | ratios $s_1/s_2$ settle |
# | best token inside the hull of the others | stops at a finite length | $\lVert p(R) \rVert < R$, residual |
# | tied best tokens | goes to the shortest SVM without tied rows | compare scores first |

# %% [markdown]
# ## Questions
#
# **1.** You follow the path from $R = 0.1$ with 50 random starts and all end at the same tokens. Is that
# evidence that they are the global ones?
# <details><summary>Answer</summary>
#
# No. At a small radius there is one minimiser, near $-R\, g/\|g\|$; all 50 were one run from then on.
# </details>
#
# **2.** All scores of the weak toy are replaced by $2\gamma_t + 3$. Where is the jump now?
# <details><summary>Answer</summary>
#
# At the same $R$: all shortfalls are doubled, and $p(R)$ does not change ($n = 1$).
# </details>
#
# **3.** For which data is $r = 0$ in section 4, so that the path approaches its ray faster than $1/R$?
# <details><summary>Answer</summary>
#
# With a single support vector, as token 1 of the toy has ($r$ would be a multiple of it, and perpendicular
# to it); or if every $w_j / \lambda_j$ is the same.
# </details>
#
# **4.** Descent and the path end at the same token, and at $R = 100$ they are 2 apart. At what distance do
# you expect them at $R = 1000$?
# <details><summary>Answer</summary>
#
# If the support vectors span the space, near 0. If not, possibly still 2: the orthogonal part stays, and
# the angle between them goes from about 1.1 to 0.11 degrees.
# </details>

# %%
progress("08")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - $p(R)$, the best $p$ of length $R$, starts along descent's first step and turns twice as fast.
# - Its direction tends to the **global** Att-SVM, also for heads for which one token alone is best. It
#   runs parallel to its ray at a distance $\|r\|$ that the SVM's own weights $\lambda_j$ predict: $1 -$
#   cosine falls as $1/R^2$.
# - If the first gradient points the wrong way, $p(R)$ **jumps**. A program that follows a branch does not,
#   and neither does descent; both may end at a local winner.
# - Where descent finds the same tokens it ends up parallel to the path, on it if the support vectors span
#   the space.
# - Mixtures, infeasible or tied best tokens end the simple story, each in its own way.
#
# **Further reading.** D. A. Tarzanagh, Y. Li, X. Zhang, S. Oymak, *Max-Margin Token Selection in Attention
# Mechanism* (NeurIPS 2023): the regularisation path, also for nonlinear heads. D. A. Tarzanagh, Y. Li, C.
# Thrampoulidis, S. Oymak, *Transformers as Support Vector Machines* (2023): the same for $W$. A. Suggala,
# A. Prasad, P. Ravikumar, *Connecting Optimization and Regularization Paths* (NeurIPS 2018): descent and
# path at finite length. The offset $r$, the rate and the factor of two are short arguments of this lesson,
# measured, not theorems of those papers.
#
# **New in the library:** [`paths.Path`](../mini_attn/paths.py),
# [`paths.regularization_path`](../mini_attn/paths.py).
#
# **Next:** [lesson 09](09_joint_training.ipynb): the head is trained too, and there are two radii.
