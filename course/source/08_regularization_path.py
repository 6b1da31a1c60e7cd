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
# - say in which direction the path starts, and how fast it turns at first, compared with descent;
# - predict where it ends, and its distance from there at finite $R$;
# - predict at which radius the path jumps, and tell it from what a path-following program returns;
# - say which prediction heads the result covers, and what happens with the others.
#
# **You need** [lesson 06](06_attention_as_svm.ipynb) (Att-SVM, forces between tokens) and
# [lesson 07](07_local_global_tokens.ipynb) (local and global winners). About 90 minutes, five exercises.

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
PATH, DESCENT, FOLLOWED = (plots.COLORS[name] for name in ("blue", "vermillion", "green"))  # all lesson long
BLACK, GREY = plots.COLORS["black"], plots.COLORS["grey"]
again = "exercise {} is not right yet: see what its check says"

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 8.1 The idea in a picture
#
# One sequence of $T$ tokens with keys $k_t$ and scores $\gamma_t$, attention $s = \mathrm{softmax}(h)$
# with $h_t = k_t \cdot p$, and $L(p) = \ell(\sum_t s_t \gamma_t)$, $\ell(u) = \log(1 + e^{-u})$, as in
# lesson 06. Since $\ell$ decreases, to minimise $L$ is to minimise the **shortfall**
#
# $$\Gamma(p) = \gamma_{\max} - \sum_t s_t\, \gamma_t = \sum_t s_t\, (\gamma_{\max} - \gamma_t),$$
#
# what attention loses by not being all on the best token; $\gamma_{\max}$ is the best score. Far out
# $\Gamma$ is tiny. The first form then subtracts two nearly equal numbers, and rounding errors of order
# $10^{-16}$ are all that is left; the second is a sum of numbers $\ge 0$, each of them accurate.


# %%
def attention(p, keys):
    """softmax of the logits k_t.p, for any number of points at once: p (..., d), keys (T, d) -> (..., T)."""
    h = p @ keys.T
    e = np.exp(h - h.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


# %% [markdown]
# ### Exercise 08.1: The shortfall
#
# ★☆☆ · 3 minutes
#
# Return $\Gamma(p)$ for every row of `p` at once, by the second form.
#
# <details><summary>Hint</summary>
#
# `attention(p, keys)` is (N, T), one row of weights for each $p$. What do they weigh, in the second form?
# `@` sums over the tokens.
# </details>


# %%
@exercise("08.1")
def shortfall(p, keys, scores):
    """Return Gamma(p) for each row, (N,), for p (N, d), keys (T, d) and scores (T,)."""
    ### BEGIN SOLUTION
    return attention(p, keys) @ (scores.max() - scores)
    ### END SOLUTION


# %%
check("08.1", shortfall)

# %% [markdown]
# In the plane there is no need to descend. All $p$ of length $R$ form a circle: we try 720 angles, and then
# zoom in around the best. (Why only the circle, when the definition allows the whole disc? As long as the
# smallest shortfall of a circle falls when $R$ grows, no smaller circle holds a better $p$. The next
# figure's cell asserts it; section 8.7 has a case in which it fails.) For descent one sequence needs no
# library either.


# %%
keys = np.array([[-0.1, 1.0], [1.0, 0.0], [0.0, 0.0]])  # the toy of lessons 06 and 07
spread, equal = np.array([1.0, 0.9, 0.0]), np.array([1.0, 0.9, 0.9])


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
    """p(R) at each radius, (radii, 2)."""
    return circle(np.array([best_angle(lambda p: shortfall(p, keys, scores), R) for R in radii]), radii)


def force(p, keys, scores):
    """-grad Gamma at one point p, (d,); -grad L is a positive multiple of it."""
    s = attention(p, keys)
    lead = scores - scores[s.argmax()]  # from the token ahead, so that nothing cancels far out (lesson 05)
    return (s * (lead - s @ lead)) @ keys


def downhill(p, keys, scores):
    """The unit vector along -grad L at one point p (d,)."""
    pull = force(p, keys, scores)
    return pull / np.linalg.norm(pull)


def descend(keys, scores, start, steps, length=0.05):
    """Normalised descent from start (2,) with steps of this length: (1 + steps, 2)."""
    run = [np.array(start, dtype=float)]
    for _ in range(steps):
        run.append(run[-1] + length * downhill(run[-1], keys, scores))
    return np.array(run)


def at_length(run, R):
    """The point of a run (steps, 2) that is nearest to length R, scaled to it."""
    p = run[np.abs(np.linalg.norm(run, axis=1) - R).argmin()]
    return p * (R / np.linalg.norm(p))


def degrees(p):
    return np.degrees(np.arctan2(p[..., 1], p[..., 0]))


def draw_map(ax, keys, scores, radii):
    """By angle and length, Gamma on each circle from its smallest value (0) to its largest (1)."""
    angles = np.linspace(-180, 180, 361)
    rows = np.array([shortfall(circle(np.radians(angles), R), keys, scores) for R in radii])
    rows = (rows - rows.min(axis=1, keepdims=True)) / np.ptp(rows, axis=1, keepdims=True)
    levels = [0, 0.01, 0.04, 0.09, 0.16, 0.25, 0.36, 0.49, 0.64, 0.81, 1]
    shades = plt.get_cmap("Greys")(np.linspace(0, 0.6, len(levels) - 1))
    filled = ax.contourf(angles, radii, rows, levels=levels, colors=shades)
    bar = ax.figure.colorbar(filled, ax=ax, ticks=[0, 0.04, 0.16, 0.36, 0.64, 1], pad=0.02)
    bar.set_label("shortfall, 0 to 1 on each circle")
    ax.set(yscale="log", xlabel="angle of $p$ (degrees)", ylabel=r"length $\|p\|$ or radius $R$")
    ax.set(xticks=[-180, -90, 0, 90, 180], ylim=(radii[0], radii[-1]))


# %% [markdown]
# **Predict before you run on.** The scores are $1, 0.9, 0$. In lesson 06 descent from $(0, 0)$ found token
# 1, and from $(0, -1.5)$ it stayed with token 2. Which of the two will be nearer to $p(R)$?

# %%
radii = np.geomspace(0.1, 30, 40)
on_path = search(keys, spread, radii)
from_zero = descend(keys, spread, (0, 0), 700)
from_below = descend(keys, spread, (0, -1.5), 700)
few = np.array([0.1, 1, 4, 16, 30])
ours = degrees(search(keys, spread, few))
theirs, others = (degrees(np.array([at_length(run, R) for R in few])) for run in (from_zero, from_below))
for R, *angles in zip(few, ours, theirs, others, strict=True):
    print(f"R = {R:4g}: path {angles[0]:5.1f}, descent from 0 {angles[1]:5.1f}", end="")
    print(f", from (0, -1.5) {angles[2]:5.1f}" if R > 2 else "")
lag = ours - theirs
assert np.abs(lag[[0, -1]]).max() < 1.5, again.format("08.1")
assert round(lag[1]) == 16, again.format("08.1")
assert abs(others[-1]) < 5
assert (np.diff(shortfall(on_path, keys, spread)) < 0).all(), again.format("08.1")

# %% jupyter={"source_hidden": true}
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
# **Figure 1.** Left: the shortfall by angle and length, shaded on each circle from its smallest value (0,
# white) to its largest (1; the levels are closer near 0, so that small differences show). Solid: $p(R)$;
# dashed: descent from 0; dotted: from $(0, -1.5)$. Thin black: the Att-SVM directions of lesson 06. Right:
# the same in the $p$-plane.

# %% [markdown]
# Descent from 0 and the path leave in the same direction and end in the same direction. In between they
# differ, by 16 degrees at $R = 1$: the path is quicker to turn. The other run ends in the valley of token
# 2, where no $p(R)$ of the figure is. The left map shows *every* angle: in the plane we can be sure of the
# best one.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 8.2 Small radii
#
# Near 0, $L(p) \approx L(0) + g \cdot p$ with $g = \nabla L(0)$, and the best $p$ of length $R$ is $-R\, g
# / \|g\|$. So **the path starts in the direction of descent's first step**, if $g \ne 0$.
#
# The next term shows the first difference. Let $H$ be the matrix of second derivatives at 0, $\hat g =
# g/\|g\|$, and $(H \hat g)_\perp$ the part of $H \hat g$ that is perpendicular to $\hat g$. Descent
# with small steps follows $dp/d\tau = -(g + Hp)$. The path has its gradient along $-p$, as any minimiser on
# a sphere. Solving both to first order in $R$ gives
#
# $$\frac{p(R)}{R} \approx -\hat g + \frac{R}{\|g\|}\, (H \hat g)_\perp, \qquad
# \frac{p_{\text{descent}}}{R} \approx -\hat g + \frac{R}{2\,\|g\|}\, (H \hat g)_\perp .$$
#
# **At first the path turns twice as fast.** Descent carries with it what it did when it knew less; the path
# decides anew at each length. (If $(H \hat g)_\perp = 0$, neither turns at this order.)


# %%
def loss_at(p):
    s = torch.softmax(torch.tensor(keys) @ p, dim=0)
    return -(s * torch.tensor(spread)).sum()  # same directions and turns as L: one is a function of the other


zero = torch.zeros(2, dtype=torch.float64)
g = torch.autograd.functional.jacobian(loss_at, zero).numpy()
H = torch.autograd.functional.hessian(loss_at, zero).numpy()
first = -g / np.linalg.norm(g)
rate = np.degrees(-np.array([-first[1], first[0]]) @ (H @ first) / np.linalg.norm(g))  # of the path, per R
print(f"first direction {degrees(first):.1f} degrees; predicted turn / R {rate:.2f}, descent {rate / 2:.2f}")
near = np.array([0.003, 0.01, 0.03, 0.1, 0.3])
runs = np.array([descend(keys, spread, (0, 0), 1000, R / 1000)[-1] for R in near])
a, b = ((degrees(points) - degrees(first)) / near for points in (search(keys, spread, near), runs))
for R, *turns in zip(near, a, b, strict=True):
    print(f"R = {R:5g}: turn / R of the path {turns[0]:6.2f}, of descent {turns[1]:5.2f}", end="")
    print(f", ratio {turns[0] / turns[1]:.2f}")
assert abs(a[0] / rate - 1) < 0.003, again.format("08.1")
assert abs(b[0] / (rate / 2) - 1) < 0.003
assert (np.diff(a / b) > 0).all(), again.format("08.1")
assert abs(a[0] / b[0] - 2) < 0.006, again.format("08.1")

# %% [markdown]
# As $R \to 0$ both rates tend to the predicted ones, to within 0.3% at $R = 0.003$. Farther out higher terms
# join in, and in this toy they favour the path further.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 8.3 Any dimension: projected steps
#
# Beyond the plane we have to descend after all, but on a ball: take a gradient step, and if it led out,
# come back to the nearest point of the ball. That point lies on the same ray.

# %% [markdown]
# ### Exercise 08.2: A projected step
#
# ★☆☆ · 5 minutes
#
# For every row: a step of gradient descent with step size `eta`, then the nearest point of length at most
# `R`.
#
# <details><summary>Hint</summary>
#
# First the ends of the steps, and the length of each row, `np.linalg.norm(..., axis=1, keepdims=True)`.
# Rows longer than $R$ are multiplied by $R$ over their length, the others by 1. To divide by
# `np.maximum(length, R)` does both, and never by 0.
# </details>


# %%
@exercise("08.2")
def projected_step(p, g, eta, R):
    """Return each row's next point, (N, d), for points p (N, d), gradients g (N, d), a step size and R."""
    ### BEGIN SOLUTION
    ahead = p - eta * g
    return ahead * R / np.maximum(np.linalg.norm(ahead, axis=1, keepdims=True), R)
    ### END SOLUTION


# %%
check("08.2", projected_step)

# %% [markdown]
# A projected step stops where the gradient points straight inwards: $-\nabla L(p)$ is $p$ times a positive
# factor. That is what we want at a minimum on the sphere, but other points have it too: it is a condition of
# first order. The gradient becomes tiny for large $R$, so we use its direction alone.


# %%
def follow(keys, scores, radii, steps=300):
    """Projected steps, shorter and shorter, at each radius from the end of the one before: (radii, 2)."""
    p, ends = np.zeros((1, 2)), []
    for R in radii:
        for step in range(steps):
            g = -downhill(p[0], keys, scores)[None]
            p = np.asarray(projected_step(p, g, 0.3 * R * 0.97**step, R))
        ends.append(p[0])
    return np.array(ends)


def tokens_of(keys, scores):
    """The library's TokenData for one sequence of the plane: keys (T, 2), scores (T,)."""
    scores, e1 = torch.tensor(scores), torch.tensor([1.0, 0.0], dtype=torch.float64)
    X = (scores[:, None] * e1)[None]  # x_t = (gamma_t, 0), which the head v = e1 reads as gamma_t
    return data.TokenData(X=X, z=e1[None], y=e1[:1], v=e1, keys=torch.tensor(keys)[None])


few = np.array([0.3, 1, 3, 10, 30])
own = degrees(follow(keys, spread, few))
library = regularization_path(models.PromptAttention(2), tokens_of(keys, spread), few)
print("     R   search  own steps  library  (degrees)")
three = degrees(search(keys, spread, few)), own, degrees(library["p"].numpy())
for R, a, b, c in zip(few, *three, strict=True):
    print(f"{R:6g} {a:8.2f} {b:10.2f} {c:8.2f}")
    assert abs(a - c) < 0.01, again.format("08.1")
    assert abs(a - b) < 0.2, again.format("08.1 or 08.2")
assert (library.residual <= 1e-6).all()

# %% [markdown]
# Three ways, one path. The library's `mini_attn.paths.regularization_path` (read it) does what `follow`
# does with better step lengths, for all trials at once. It **follows**: each radius starts from the
# solution at the radius before. Its *residual* is about the angle between $-\nabla L$ and $p$, in radians:
# it certifies a stationary point. It does not say that there is no better one. Section 8.5 is about that.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 8.4 Large radii
#
# > **Theorem** (Tarzanagh, Li, Zhang and Oymak, 2023; informal, in our words). Fix the head $v$ and let
# > $\ell$ be smooth with $\ell' < 0$ everywhere. Let each sequence have one best token, $\mathrm{opt}_i =
# > \arg\max_t \gamma_{it}$, and let the Att-SVM of these tokens be feasible. Then, as $R \to \infty$,
# >
# > $$\frac{p(R)}{R} \;\to\; \frac{p_{\mathrm{mm}}(\mathrm{opt})}{\|p_{\mathrm{mm}}(\mathrm{opt})\|}.$$
# >
# > The same holds for $W$ with the Frobenius norm (Tarzanagh, Li, Thrampoulidis and Oymak, 2023), and for
# > nonlinear heads under conditions that section 8.7 puts in our words. (Where several $p$ are best at one
# > $R$, any of them may be called $p(R)$.)
#
# There is one limit, and it is the *global* one of lesson 07. The reason is short. Let $L_*$ be the
# mean of $\ell(\gamma_{i\,\mathrm{opt}_i})$, which no $p$ can beat. If attention is nearly on the best
# tokens,
#
# $$L(p) - L_* \;\approx\; \sum_j w_j\, e^{-p \cdot a_j}, \qquad
# w_j = \tfrac1n\, |\ell'(\gamma_{i\,\mathrm{opt}_i})|\, (\gamma_{i\,\mathrm{opt}_i} - \gamma_{it}) > 0,$$
#
# where $j$ runs over all comparisons $(i, t)$, $t \ne \mathrm{opt}_i$, and $a_j = k_{i\,\mathrm{opt}_i} -
# k_{it}$. For long $p$ the smallest $p \cdot a_j$ decides; to make it as large as possible at a given
# length is the SVM. (Hence $\ell' < 0$: where $\ell' = 0$ at a best score, that sequence's $w_j$ vanish,
# its loss falls like a higher power of $e^{-p \cdot a_j}$, and the limit can be another.)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### How fast? The next term
#
# Write $p(R) = R\, \hat p + r$ with $\hat p = p_{\mathrm{mm}}/\|p_{\mathrm{mm}}\|$. At a minimum on the
# sphere $\sum_j w_j e^{-p \cdot a_j}\, a_j$ is $p$ times a positive factor. For large $R$ only support
# vectors remain in the sum, with a common factor; and $p$ is nearly a multiple of $p_{\mathrm{mm}} = \sum_j
# \lambda_j a_j$ (lesson 02: $\lambda_j > 0$ on the support vectors). If the support vectors are linearly
# independent, the coefficients must agree up to a factor:
#
# $$w_j\, e^{-r \cdot a_j} = c\, \lambda_j \qquad\Longleftrightarrow\qquad
# r \cdot a_j = \log \frac{w_j}{\lambda_j} + \text{const} \qquad \text{for each support vector } j .$$
#
# Besides, $r \perp \hat p$, since $R^2 = \|R\,\hat p + r\|^2 = R^2 + 2R\, r \cdot \hat p + \|r\|^2$ leaves
# only $r \cdot \hat p = -\|r\|^2 / (2R) \to 0$; and $r$ is a combination of the support vectors, because
# the gradient is. In the limit these conditions determine $r$: up to what vanishes as $R \to \infty$ it is
# a fixed vector, and the path runs *parallel* to its ray,
#
# $$\text{angle} \approx \frac{\|r\|}{R}, \qquad 1 - \text{cosine} \approx \frac{\|r\|^2}{2R^2} .$$

# %% [markdown]
# ### Exercise 08.3: The path's offset
#
# ★★★ · 15 minutes
#
# The support vectors $a_j$ are the rows of `rows`; you also get their weights $w_j$ and the SVM's
# $\lambda_j$. Return the one vector $r$ that meets three conditions:
#
# 1. $r \cdot a_j = \log (w_j / \lambda_j) + \text{const}$ for all $j$, with one unknown constant;
# 2. $r \cdot \hat p = 0$, where $\hat p$ has the direction of $\sum_j \lambda_j a_j$;
# 3. $r$ is a combination of the rows.
#
# <details><summary>Hint</summary>
#
# Let the constant be zero at first, `b = np.log(weights / lam)`: `np.linalg.lstsq(rows, b, rcond=None)[0]`
# is the shortest vector with the products $b_j$, and it is a combination of the rows. Then take away its part
# along $\hat p$. Since $\hat p \cdot a_j$ is the same for all $j$, this changes only the constant.
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
# The measurement: 60 random problems, $n = 3$, $T = 4$, $d = 10$. We scale the keys of each problem so that
# $\|p_{\mathrm{mm}}\| = 1$; then $R$ is the lead that a path of this length can afford, and problems can be
# compared. The library starts at $10\, \hat p$, which knows nothing of $r$, and moves until its residual is
# below $10^{-6}$; each further radius starts at $R\, \hat p$ plus the sideways part that was found before.
# Is this $p(R)$? A residual cannot say; so at two radii 20 random starts in each problem may try to do
# better.


# %% slideshow={"slide_type": "subslide"}
def unit_problems(trials, seed, n=3, T=4, d=10):
    """Random problems with feasible best tokens, keys scaled to ||p_mm|| = 1; and the SVM's solution."""
    drawn = data.random_tokens(n, T, d, trials=trials, seed=seed)
    solution = svm.solve(svm.token_problem(drawn.keys, drawn.optimal), throw=False)
    ok = torch.as_tensor(solution.status == "optimal")
    keys = drawn.keys[ok] * solution.value[ok].norm(dim=-1)[:, None, None, None]
    many = data.TokenData(drawn.X[ok], drawn.z[ok], drawn.y[ok], drawn.v[ok], keys)
    return many, svm.solve(svm.token_problem(many.keys, many.optimal))


def support(many, solution):
    """(a_j, w_j, lambda_j) of each problem's support vectors: (support, d), (support,), (support,)."""
    rows = svm.token_problem(many.keys, many.optimal).a.numpy()  # (trials, 9, d)
    best = many.scores.amax(-1, keepdim=True)
    differences = best - many.scores
    weights = differences / (1 + best.exp())  # |l'| times the difference
    weights = weights[differences > 0].reshape(rows.shape[:2]).numpy()  # in the order of the rows
    lam = solution.dual.numpy()
    return [(a[on], w[on], dual[on]) for a, w, dual, on in zip(rows, weights, lam, lam > 1e-6, strict=True)]


def across(p, unit):
    """The part of p perpendicular to unit, (trials, d)."""
    return p - (p * unit).sum(-1, keepdim=True) * unit


def hits(found, forecast):
    """In how many trials the forecast is within 5% of what was found, both (trials, d)."""
    return int(((found - forecast).norm(dim=-1) < 0.05 * forecast.norm(dim=-1)).sum())


def offsets(many, solution):
    return torch.as_tensor(np.array([offset(*parts) for parts in support(many, solution)]))


many, solution = unit_problems(trials=60, seed=3)
unit = solution.value  # (trials, d), p_hat of each problem
trials, d = unit.shape
r = offsets(many, solution)
forecast = (r.norm(dim=-1) ** 2).median().item() / 2
print(f"{trials} problems; median length of r: {r.norm(dim=-1).median():.1f}")
print(f"    R   median of R^2 (1 - cosine), predicted {forecast:.2f}   r within 5%")
errors, near_r, aside, sideways = {}, {}, {}, torch.zeros_like(r)
for R in (10, 30, 100, 300, 1000):
    found = regularization_path(models.PromptAttention(d, trials, init=R * unit + sideways), many, [R])
    assert (found.residual <= 1e-6).all()
    p = found["p"][0]
    errors[R] = (1 - geometry.cosine(p, unit)).median().item()
    aside[R] = sideways = across(p, unit)  # what should be r
    near_r[R] = hits(sideways, r)
    print(f"{R:5g} {R**2 * errors[R]:27.2f} {near_r[R]:26d} of {trials}")
    if R in (30, 100):
        starts = torch.randn(20, trials, d, generator=torch.Generator().manual_seed(R), dtype=torch.float64)
        model = models.PromptAttention(d, (20, trials), init=R * starts / starts.norm(dim=-1, keepdim=True))
        anew = regularization_path(model, many, [R], tol=1e-3, max_steps=300)
        assert (anew.loss >= found.loss - 1e-9).all()
        reached = (anew.loss < found.loss + 1e-6).any(dim=1).sum()
        print(f"      20 random starts: none lower, one as low in at least 50 problems: {reached > 50}")
late = np.log(errors[1000] / errors[300]) / np.log(1000 / 300)
print(f"slope of log(1 - cosine) against log R, from R = 300 to 1000: {late:.1f}")
assert trials == 60
assert -2.05 < late < -1.85
assert near_r[10] < 3, again.format("08.3")
assert near_r[1000] > 50, again.format("08.3")

# %% [markdown]
# The slope is $-2$ as predicted (in up to nine problems none of the random starts came as low: there nobody
# has confirmed $p(R)$). At $R = 1000$ the vector $r$ itself, with all its ten coordinates, is right to within
# 5% in 57 of 60 problems. But mind the other rows: at $R = 30$, where a loser's attention is already near
# $e^{-30}$, it is right in 4. Most of this can be computed. With $r = \sum_j \rho_j a_j$ the
# coefficients of $p = R\,\hat p + r$ are not $R \lambda_j$ but $R \lambda_j + \rho_j$, so
#
# $$r \cdot a_j = \log \frac{w_j}{\lambda_j + \rho_j / R} + \text{const},$$
#
# with $r$ on both sides: we iterate. (At finite $R$, $\hat p$ has the length $\sqrt{R^2 - \|r\|^2}$
# instead of $R$.) Is that better, and on other draws too?


# %%
def offset_at(R, rows, weights, lam):
    """r at this radius, (d,): a fixed point, found with damped steps from the limit."""
    r = offset(rows, weights, lam)
    for _ in range(100):
        rho = np.linalg.lstsq(rows.T, r, rcond=None)[0]
        share = lam * np.sqrt(max(1 - r @ r / R**2, 0)) + rho / R  # coefficients of p / R
        share = np.maximum(share, 1e-3 * lam)
        r = 0.7 * r + 0.3 * offset(rows, weights * lam / share, lam)
    return r


print("of 60 problems, r and the next term within 5%\nseed   R = 30      100     1000")
plain, refined = {}, {}
for seed in range(1, 7):
    own, its = unit_problems(60, seed)
    guess, limit, parts = torch.zeros_like(its.value), offsets(own, its), support(own, its)
    for R in (30, 100, 1000):
        model = models.PromptAttention(d, 60, init=R * its.value + guess)
        guess = across(regularization_path(model, own, [R])["p"][0], its.value)
        plain[seed, R] = hits(guess, limit)
        refined[seed, R] = hits(guess, torch.as_tensor(np.array([offset_at(R, *each) for each in parts])))
    print(f"{seed:4d}  ", *(f"{plain[seed, R]:3d} {refined[seed, R]:3d} " for R in (30, 100, 1000)))
    assert plain[seed, 30] < 10 < 20 < refined[seed, 30], again.format("08.3")
    assert refined[seed, 100] > 1.5 * plain[seed, 100] > 20, again.format("08.3")
    assert refined[seed, 1000] >= plain[seed, 1000] > 45, again.format("08.3")

# %% [markdown]
# On six draws $r$ alone is right in at most 6 of 60 problems at $R = 30$, with the next term in 21 to 33; at
# $R = 100$ in about a third and in 42 to 48. The rest are terms like $e^{-R \cdot \text{slack}}$ from a
# nearly tight constraint, which this leaves out, and small $\lambda_j R$.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 8.5 The path can jump
#
# The limit is global, the start is local information: the gradient at 0. What if they disagree? Give the
# best token of the toy a weak key on the far side, $k_1 = (-0.3, 0.2)$. The scores stay $1, 0.9, 0$.

# %%
weak = np.array([[-0.3, 0.2], [1.0, 0.0], [0.0, 0.0]])
weak_toy = tokens_of(weak, spread)
radii = np.geomspace(0.3, 30, 40)
on_path = search(weak, spread, radii)
followed = regularization_path(models.PromptAttention(2), weak_toy, radii)["p"].numpy()
run = descend(weak, spread, (0, 0), 700)
print("     R   global p(R)   followed   descent   (degrees)")
for R in (0.5, 2, 5, 8, 20):
    k = np.abs(radii - R).argmin()
    three = degrees(np.array([on_path[k], followed[k], at_length(run, radii[k])]))
    print(f"{radii[k]:6.2f} {three[0]:13.1f} {three[1]:10.1f} {three[2]:9.1f}")

# %% [markdown]
# The true path jumps from one side to the other; the followed one stays on its branch, and so does descent.
# **$p(R)$ need not be continuous, and what continues smoothly need not be $p(R)$.**
#
# Where must the jump be? Compare the two branches at large $R$. On the branch of token 2 attention goes to
# token 2, so the shortfall falls to $\gamma_1 - \gamma_2$ and stays there. On the branch of token 1 the last
# rival is the support token 3, and $R$ buys the lead $R / \|p_{\mathrm{mm}}\|$ over it, with the Att-SVM of
# token 1. The path jumps where the two are equal.

# %% [markdown]
# ### Exercise 08.4: Predict the jump
#
# ★★☆ · 8 minutes
#
# Return the radius of the jump, given $\|p_{\mathrm{mm}}\|$ of token 1 and the three scores. On the branch of
# token 1, attention is shared by tokens 1 and 3 alone, as a softmax shares it at that lead.
#
# <details><summary>Hint</summary>
#
# With the lead $\Delta$ over token 3, what is $s_3$? The shortfall there is $s_3\,(\gamma_1 - \gamma_3)$. Set
# it equal to $\gamma_1 - \gamma_2$ and solve for $\Delta$; then $R = \Delta\, \|p_{\mathrm{mm}}\|$.
# </details>


# %%
@exercise("08.4")
def jump_radius(length, scores):
    """Return R at which p(R) jumps from token 2 to token 1; length = ||p_mm||, scores (3,), best first."""
    ### BEGIN SOLUTION
    ratio = (scores[0] - scores[2]) / (scores[0] - scores[1])  # = 1 + e^lead
    return length * np.log(ratio - 1)
    ### END SOLUTION


# %%
check("08.4", jump_radius)


# %%
def largest_turn(path):
    """(degrees, k): the largest turn between neighbours, from path[k] to path[k + 1]; path (points, d)."""
    units = path / np.linalg.norm(path, axis=1, keepdims=True)
    half = np.linalg.norm(np.diff(units, axis=0), axis=1) / 2  # arccos of a cosine near 1 loses digits
    turns = np.degrees(2 * np.arcsin(np.minimum(half, 1)))
    return turns.max(), turns.argmax()


length = svm.solve(svm.token_problem(weak_toy.keys, torch.tensor([0]))).objective.item()
predicted_jump = jump_radius(length, spread)
mm = weak[0] - weak[2]  # the direction of token 1's Att-SVM, with token 3 as its support token
mm = mm / np.linalg.norm(mm)


def crossing(scores, radii):
    """The first radius at which R mm is better than (R, 0), with all three tokens in both shortfalls."""
    there, here = (shortfall(radii[:, None] * np.array(unit), weak, scores) for unit in (mm, (1.0, 0.0)))
    return radii[(there < here).argmax()]


print("score of token 2   jump predicted   all tokens   found   turn (degrees)")
for second in (0.99, 0.9, 0.8):
    scores = np.array([1, second, 0])
    foreseen = float(jump_radius(length, scores))
    close = foreseen * np.linspace(0.8, 1.1, 301)
    turn, before = largest_turn(search(weak, scores, close))
    three = crossing(scores, np.linspace(0.5, 20, 19501))
    print(f"{second:16g} {foreseen:16.2f} {three:12.2f} {close[before]:7.2f} {turn:16.0f}")
    assert abs(three / close[before] - 1) < 0.005, again.format("08.1")
    late_by = foreseen / close[before] - 1
    assert 0 < late_by < {0.99: 0.005, 0.9: 0.02, 0.8: 0.12}[second], again.format("08.1 or 08.4")
    assert abs(turn - 146) < 2, again.format("08.1")

# %% [markdown]
# The worse the best token's margin $1/\|p_{\mathrm{mm}}\|$, and the smaller its advantage, the later the path
# notices it. An early jump comes before the prediction, since token 2's branch has not settled at $\gamma_1
# - \gamma_2$ yet: token 3 still has a share there. Keep all three tokens at $p = (R, 0)$, and the crossing is
# where the jump was found (column "all tokens").

# %%
starts = circle(np.linspace(0, 2 * np.pi, 12, endpoint=False) + 0.1, 1.0)  # 12 directions
coarse = np.geomspace(0.5, 30, 12)
together = models.PromptAttention(2, trials=12, init=coarse[0] * starts)
followed_all = regularization_path(together, weak_toy, coarse)["p"].numpy()  # (radii, 12, 2)
anew = []
for R in coarse:
    model = models.PromptAttention(2, trials=12, init=R * starts)
    anew.append(regularization_path(model, weak_toy, [R])["p"][0].numpy())
apart = np.ptp(degrees(followed_all), axis=1).max()
lowest = np.array([shortfall(points, weak, spread).min() for points in anew])
best = shortfall(search(weak, spread, coarse), weak, spread)
print(f"largest difference between twelve followed starts: {apart:.2f} degrees")
print(f"best of twelve new starts finds p(R) at {(lowest < 1.001 * best).sum()} of {len(coarse)} radii")
assert apart < 0.005
assert (lowest < 1.001 * best).all(), again.format("08.1")

# %% jupyter={"source_hidden": true}
fig, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.4), width_ratios=[1.3, 1])
draw_map(left, weak, spread, radii)
split = largest_turn(on_path)[1] + 1
for part in (slice(None, split), slice(split, None)):
    name = "path $p(R)$" if part.start is None else None
    left.plot(degrees(on_path[part]), radii[part], color=PATH, linewidth=6, alpha=0.55, label=name)
left.plot(degrees(followed), radii, "--", color=BLACK, linewidth=1.6, label="followed")
left.plot(degrees(run), np.linalg.norm(run, axis=1), ":", color=DESCENT, label="descent from 0")
left.legend(loc="upper left", fontsize=10)
right.loglog(radii, shortfall(on_path, weak, spread), color=PATH, linewidth=6, alpha=0.55)
for points, marker, name in ((anew, "o", "12 starts, anew"), (followed_all, "x", "12 starts, followed")):
    for k, R in enumerate(coarse):
        dots, label = shortfall(points[k], weak, spread), name if k == 0 else None
        right.loglog(np.full(12, R), dots, marker, color=BLACK, markerfacecolor="none", label=label)
right.axvline(predicted_jump, color=BLACK, linestyle="--", linewidth=1.3, label="predicted jump")
right.set(xlabel="radius $R$", ylabel=r"shortfall $\Gamma$", ylim=(1e-5, 2))
right.legend(loc="lower left", fontsize=10)
show(
    fig,
    alt="Left, angle against radius: the broad path goes from 15 degrees to 0 and jumps at R = 6 to 146 "
    "degrees; the followed path and descent stay near 0. Right, shortfall against radius: twelve followed "
    "starts lie on one curve that levels off at 0.1, new ones on two curves that cross at the dashed line.",
)

# %% [markdown]
# **Figure 2.** Left: as Figure 1, for the weak key; broad blue $p(R)$, dashed the followed path, dotted
# descent from 0. Right: the shortfall of $p(R)$ (broad), and of what twelve starts reach if they are followed
# from the first radius (crosses) or made anew at each (circles); the twelve coincide in one point or two.

# %% [markdown]
# **Several starts do not help a program that follows**: at small radii the circle has a single valley, in
# which all twelve meet, and then they stay together. To find the other branch one has to start anew at larger
# radii. In this lesson "the path" is the global minimiser; what `regularization_path` returns is a branch.

# %% [markdown]
# **Try it.** The shortfall round the circle (a row of Figure 2's map), with $p(R)$ and descent from 0 at
# equal length. Predict: what does halving the length of $k_1$ do to the radius of the jump? And doubling it?
#
# <details><summary>Answer</summary>
#
# Half the key, twice $\|p_{\mathrm{mm}}(1)\|$: the jump moves out to about twice the radius, 12. Doubling the
# key moves it in by more than half, to 1.2: so early that token 2's branch has not settled at 0.1. The cell
# after the widget measures both.
# </details>


# %% tags=["nbval-ignore-output", "widget"] jupyter={"source_hidden": true}
def round_the_circle(R, factor):
    own = weak * np.array([[factor], [1], [1]])
    every = np.linspace(-180, 180, 721)
    figure = Figure(figsize=(7, 3.5), layout="none")  # constrained layout would draw twice
    ax = figure.add_axes((0.1, 0.16, 0.87, 0.74))
    ax.plot(every, shortfall(circle(np.radians(every), R), own, spread), color=GREY)
    here = search(own, spread, np.array([R]))[0]
    there = at_length(descend(own, spread, (0, 0), 110, R / 100), R)
    for p, marker, color, name in ((here, "o", PATH, "$p(R)$"), (there, "s", DESCENT, "descent from 0")):
        ax.plot(degrees(p), shortfall(p[None], own, spread), marker, color=color, markersize=10, label=name)
    ax.set(xlim=(-180, 180), ylim=(-0.03, 1.05), xlabel="angle of $p$ (degrees)", ylabel="shortfall")
    ax.set_xticks([-180, -90, 0, 90, 180])
    ax.set_title(f"$R$ = {R:.2f}", fontsize=12, loc="left")
    figure.legend(loc="upper right", ncol=2)
    return figure


wide = {"style": {"description_width": "130px"}, "layout": ipywidgets.Layout(width="480px")}
R = ipywidgets.FloatLogSlider(value=4, min=-0.5, max=1.5, step=0.02, description="radius R", **wide)
factor = ipywidgets.FloatSlider(value=1, min=0.5, max=3, step=0.25, description="length of k1, times", **wide)
picture = "The shortfall round the circle of radius R, with the path's point and descent's."
widgets.sliders(round_the_circle, alt=picture, R=R, factor=factor)

# %%
for times, expected in ((0.5, 2 * predicted_jump), (2, 1.2)):
    close = expected * np.linspace(0.9, 1.1, 41)
    turn, before = largest_turn(search(weak * np.array([[times], [1], [1]]), spread, close))
    print(f"length of k_1 times {times:g}: jump at R = {close[int(before)]:.1f}, by {turn:.0f} degrees")
    assert abs(close[int(before)] - expected) < 0.1, again.format("08.1 or 08.4")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Sixty problems, two ways to miss the best
#
# The random problems of section 8.4 again: descent and the followed path, both from 0, against $R\,\hat p$,
# on which $p(R)$ nearly lies for large $R$.


# %%
radii = np.array([0.0001, *np.geomspace(0.3, 30, 60), 50, 100])  # the first shows the gradient at 0
chain = regularization_path(models.PromptAttention(d, trials), many, radii, tol=1e-4)
model = models.PromptAttention(d, trials)
train.fit(model, many, optim.NormalizedGD(model.parameters(), lr=0.1, batch_dims=1), 1500, progress=False)
walked = model.p.detach()
assert walked.norm(dim=-1).min() > 100


def chosen(p):
    """The token with most attention in every sequence, (trials, 3), for p (trials, d)."""
    return geometry.selected_tokens(models.PromptAttention(d, trials, init=p).attention(many))


def on_best(p):
    return (chosen(p) == many.optimal).all(dim=-1)


first, last, descent = on_best(chain["p"][0]), on_best(chain["p"][-1]), on_best(walked)
same = (chosen(chain["p"][-1]) == chosen(walked)).all(dim=-1)
ray = models.PromptAttention(d, trials, init=100 * unit)(many).detach() * many.y
beaten = chain.loss[-1] - torch.nn.functional.softplus(-ray).mean(dim=-1) > 1e-9  # by R p_hat
starts = torch.randn(5, trials, d, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
small = regularization_path(models.PromptAttention(d, (5, trials), init=starts), many, [0.3])["p"][0]
meet = (small - chain["p"][1]).norm(dim=-1).max() / 0.3
print(f"on all best tokens, of 60: first step {first.sum()}, descent {descent.sum()}, followed {last.sum()}")
print(f"descent and the followed path end on the same tokens in {same.sum()}")
print(
    f"first step off the best tokens {(~first).sum()}, followed path turns onto them {(~first & last).sum()}"
)
print(f"R p_hat beats the followed point at R = 100: {beaten.sum()}, all of them off the best tokens")
assert (first.sum(), descent.sum(), last.sum(), same.sum()) == (11, 52, 49, 56)
assert ((~first).sum(), (~first & last).sum(), (first & ~last).sum()) == (49, 39, 1)
assert (beaten == ~last).all()
assert meet < 1e-3  # at R = 0.3, as parts of R

# %% [markdown]
# Descent ends on the best tokens in 52 of 60 problems, the followed path in 49: following is no cure for
# local winners. **First way.** Where the followed path misses, in 11 problems, $R\,\hat p$ has the lower
# loss. Their branches began as *the* path (at $R = 0.3$ random starts found nothing else) and at $R = 100$
# are not it: in between $p(R)$ has jumped, at least once. In ten of them descent's first step is off the
# best tokens, in one it is on them. And a first step that is off need not mean a jump: 39 times the
# followed path turns onto the best tokens later.
#
# Smoothly? Not always. **Second way: a branch can end.** Among neighbouring radii, 8% apart, we look for
# large turns, go through that step again in twenty smaller ones, and try 50 random starts just before.


# %%
def only(tokens, i):
    """Trial i alone, as a batch of one."""
    return data.TokenData(*(a[[i]] for a in (tokens.X, tokens.z, tokens.y, tokens.v, tokens.keys)))


ends = []
for i in range(trials):
    turn, k = largest_turn(chain["p"][1:, i].numpy())  # from R = 0.3 on
    k += 1
    if turn > 20:
        fine = np.geomspace(radii[k], radii[k + 1], 21)
        again_from = models.PromptAttention(d, 1, init=chain["p"][k, [i]])
        finer = regularization_path(again_from, only(many, i), fine, tol=1e-5)
        sharp, j = largest_turn(finer["p"][:, 0].numpy())
        starts = torch.randn(50, 1, d, generator=torch.Generator().manual_seed(i), dtype=torch.float64)
        model = models.PromptAttention(d, (50, 1), init=10 * starts)
        other = regularization_path(model, only(many, i), fine[[j]], tol=1e-4).loss.min().item()
        branch = finer.loss[j, 0].item()
        ends.append(i)
        print(f"problem {i:2d}: at R = {fine[j]:.1f} a turn by {turn:.0f} degrees, ", end="")
        print(f"{sharp:.0f} in a step of .4%; loss of the branch {branch:.4f}, lowest {other:.4f}")
        assert sharp > 0.9 * turn
        assert other < branch - 1e-3
        assert last[i] > first[i]  # from off the best tokens onto them
assert ends == [2, 3, 20]

# %% [markdown]
# Three turns of this draw stay whole, however small the step: there the followed path *falls* from a valley
# that ends into another one. The other valley was there before and was lower already, which is no accident:
# the fall leads down, and the loss is continuous. So if a followed path that began as $p(R)$ falls, **$p(R)$
# has left it before**, as a rule by a jump. (All three fall onto the best tokens, which no argument
# promises.) Together $p(R)$ leaves in at least 14 of these 60 problems, and a program that follows it
# notices none in time.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 8.6 Descent against the path *(optional)*
#
# Where descent goes to the same tokens as the path, how close do they come? Descent *adds up* the forces
# $w_j e^{-p \cdot a_j} a_j$ that the path balances. Its sum too must grow along $\hat p = \sum_j \lambda_j
# a_j$ (up to length), so $p = R\,\hat p + r'$ where $r'$ meets the same conditions $r' \cdot a_j = \log
# (w_j/\lambda_j) + \text{const}$ on the support vectors. But $r'$ need not be a combination of *them*:
# orthogonal to all support vectors, descent keeps what the start or early steps put there, when other
# tokens still pulled. So the distance at equal length tends to a constant, the length of that part, **and
# to 0 if the support vectors span the space**.
#
# Three cases in the plane: the toy of section 8.1 with both sets of scores, whose token 1 has one support
# vector, and the hexagon of lesson 07, whose token 1 has two.

# %%
hexagon = np.array([[0.2, 1.1], [1, 0.6], [0.9, -0.5], [0.1, -1.1], [-0.9, -0.6], [-1, 0.5], [0.1, 0.1]])
gamma = np.array([1.0, 0.3, 0.8, 0.2, 0.7, 0.1, 0.5])
cases = {"toy, 1, .9, 0": (keys, spread), "toy, 1, .9, .9": (keys, equal), "hexagon": (hexagon, gamma)}
lengths = 2.0 ** np.arange(-3, 8.5, 0.5)
distance, angle = {}, {}
for name, (own, scores) in cases.items():
    run = descend(own, scores, (0, 0), 5600)
    there = np.array([at_length(run, R) for R in lengths])
    distance[name] = np.linalg.norm(search(own, scores, lengths) - there, axis=1)
    angle[name] = np.degrees(2 * np.arcsin(distance[name] / 2 / lengths))
print("distance, R ", *(f"{name:>16s}" for name in cases))
for R in (0.125, 1, 4, 16, 64, 128, 256):
    print(f"{R:11g} ", *(f"{distance[name][lengths == R][0]:16.3f}" for name in cases))
print("largest angle", *(f"{angle[name].max():15.1f}" for name in cases))
print("angle at 256 ", *(f"{angle[name][-1]:15.1f}" for name in cases))
comparisons = keys[0] - keys[1:]
p_mm = comparisons[1] / (comparisons[1] @ comparisons[1])  # against token 3, the support token
print("toy, leads of token 1 at its Att-SVM, over tokens 2 and 3:", comparisons @ p_mm)
kinds = list(cases)
for name in kinds[:2]:
    assert abs(distance[name][-1] / distance[name][-3] - 1) < 0.01, again.format("08.1")  # R = 128 and 256
assert abs(distance[kinds[0]][-1] - 0.16) < 0.005, again.format("08.1")
assert abs(distance[kinds[1]][-1] - 2.25) < 0.005, again.format("08.1")
late = np.polyfit(np.log(lengths[10:]), np.log(distance["hexagon"][10:]), 1)[0]
print(f"hexagon, slope of log distance against log R from R = 4 on: {late:.1f}")
assert -1.2 < late < -0.9, again.format("08.1")
assert [round(angle[name].max()) for name in kinds[:2]] == [20, 4], again.format("08.1")
assert max(max(angle[name][[0, -1]]) for name in kinds) < 3, again.format("08.1")
assert round(comparisons[0] @ p_mm, 1) == 1.1

# %% jupyter={"source_hidden": true}
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.9))
for name, color, marker in zip(cases, (BLACK, DESCENT, plots.COLORS["sky"]), "os^", strict=True):
    left.semilogx(lengths, angle[name], marker=marker, markersize=5, color=color, label=name)
    right.loglog(lengths, distance[name], marker=marker, markersize=5, color=color, label=name)
left.set(xlabel="length $R$", ylabel="angle between descent\nand path (degrees)")
right.set(xlabel="length $R$", ylabel="distance between\ndescent and path")
left.legend(loc="upper right", fontsize=10)
show(
    fig,
    alt="Left, the angle between descent and the path against length in three cases: small at both ends, up "
    "to 20 degrees for the toy. Right, the distance: for the hexagon it falls as 1/R, else it settles.",
)

# %% [markdown]
# **Figure 3.** Descent from 0 and $p(R)$ at equal length: the angle and the distance between them. (The
# dip of the black curve is where descent crosses the path.)

# %% [markdown]
# The angles are small at both ends (below 3 degrees); in between descent lags by up to 20 degrees. The
# hexagon's distance falls like $1/R$. The toy's settles, at 0.16 or 2.25 by the scores. What drives $p$ off
# the ray is token 2, whose lead is only 10% above the support token's, so its force is slow to drop out.
# With scores $1, 0.9, 0$ it is weak besides, $w_2 = w_3/10$ (the differences to the best score); with $1,
# 0.9, 0.9$ the two weights are equal.
#
# The same scores $1, 0.9, 0.9$ make life easy in another way. For one sequence whose losers all score the
# same, minimising $\Gamma$ means minimising $-\log s_{\mathrm{opt}} = \log \sum_t e^{-p \cdot a_t}$ (with
# $a_{\mathrm{opt}} = 0$), which is *convex*: one minimiser on each ball, no jump, and if that token is
# feasible, descent with small steps finds it from everywhere.
#
# Three cases in the plane prove little. The 52 random problems in which descent finds the best tokens say
# more: how far apart are the parts of descent's $p$ and of $p(R)$ across the ray, and how much of that
# distance lies in the span of the support vectors?

# %%
apart = across(walked, unit) - aside[100]
inside = []
for (vectors, _, _), gap in zip(support(many, solution), apart.numpy(), strict=True):
    inside.append(vectors.T @ np.linalg.lstsq(vectors.T, gap, rcond=None)[0])
inside = torch.as_tensor(np.array(inside))
parts = [v.norm(dim=-1)[descent].median().item() for v in (apart, apart - inside, inside, r)]
print("medians: apart {:.2f}, of it orthogonal {:.2f}, in the span {:.2f}; length of r {:.2f}".format(*parts))
assert parts[2] < 0.1 < 1 < parts[1], again.format("08.3")
print("other draws, descent and followed:", end="")
for seed in (1, 2, 4, 5, 6):
    own, _ = unit_problems(60, seed)
    other = models.PromptAttention(d, 60)
    train.fit(other, own, optim.NormalizedGD(other.parameters(), lr=0.1, batch_dims=1), 1500, progress=False)
    coarser = np.geomspace(0.3, 100, 30)
    end = regularization_path(models.PromptAttention(d, 60), own, coarser, tol=1e-4)["p"][-1]
    pair = [m.attention(own) for m in (other, models.PromptAttention(d, 60, init=end))]
    counts = [(geometry.selected_tokens(s) == own.optimal).all(dim=-1).sum().item() for s in pair]
    print(f"  {counts[0]} {counts[1]}", end="")
    assert 0 <= counts[0] - counts[1] <= 3
    assert max(counts) <= 54
print()

# %% [markdown]
# As predicted: nearly all of the distance is orthogonal to the support vectors. And it is not small: the two
# run parallel, but about as far apart as $p(R)$ is from its ray. (The last line counts problems that end on
# all best tokens, out of 60 on each of five other draws: descent is ahead by none to three.)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 8.7 Other heads, and where it breaks
#
# So far the prediction was linear in the values: $f = \sum_t s_t\, v \cdot x_t$. A **nonlinear head** reads
# the mixture: $f(\bar x)$ with $\bar x = \sum_t s_t x_t$ and any function $f$, an MLP say. The argument of
# section 8.4 asks two things of it. **Attention entirely on one token $\mathrm{opt}_i$ beats every other
# attention**: $y_i\, f(x_{i\,\mathrm{opt}_i}) > y_i\, f(\bar x_i)$. And **a little weight moved to another
# token $t$ costs in proportion**: $c_{it} = y_i\, \nabla f(x_{i\,\mathrm{opt}_i}) \cdot
# (x_{i\,\mathrm{opt}_i} - x_{it}) > 0$. Then, if their Att-SVM is feasible and $\ell' < 0$, $p(R)/R$ tends
# to its direction, and $f$ does not appear in it. (Our wording, not the paper's.)
#
# With one sequence of three tokens and $y = 1$ we can check the first condition on a grid of all
# attentions, the second by formula, and search the circle. As $\Gamma$ did in section 8.1, the difference
# $f(x_{\mathrm{opt}}) - f(\bar x)$ would cancel far out. For tanh there is an exact remedy: $\tanh a -
# \tanh b = \sinh(a - b) / (\cosh a \cosh b)$. We take the first 100 random networks with four hidden units,
# as they come.


# %%
values = np.array([[1.0, 0.0], [0.9, 0.5], [0.0, -1.0]])  # x_t; keys are the toy's
grid = np.linspace(0, 1, 101)
attentions = np.array([[a, b, abs(1 - a - b)] for a in grid for b in grid if a + b < 1 + 1e-9])
each = svm.token_problem(torch.tensor(keys).expand(3, 1, 3, 2), torch.arange(3)[:, None])
targets = degrees(svm.solve(each).value.numpy())  # the Att-SVM of each token


def mlp_shortfall(network, best, p):
    """f(x_best) - f(x_bar) for f(x) = out . tanh(inner x + bias) and each row of p, without cancellation."""
    inner, bias, out = network
    at_best = inner @ values[best] + bias
    down = attention(p, keys) @ (values[best] - values) @ inner.T  # argument at x_best minus that at x_bar
    return np.sinh(down) / np.cosh(at_best) / np.cosh(at_best - down) @ out


limits, costs, wins = {20: [], 80: []}, [], []
for seed in range(100):
    rng = np.random.default_rng(seed)
    network = inner, bias, out = 1.5 * rng.normal(size=(4, 2)), rng.normal(size=4), rng.normal(size=4)
    outputs = np.tanh(attentions @ values @ inner.T + bias) @ out
    favourite = attentions[outputs.argmax()]
    if favourite.max() < 0.999:
        continue  # a mixture
    best = favourite.argmax()
    slope = out / np.cosh(inner @ values[best] + bias) ** 2 @ inner  # the gradient of f at the best token
    costs.append(min((values[best] - np.delete(values, best, axis=0)) @ slope))
    wins.append(best)
    for R, off in limits.items():
        angle = np.degrees(best_angle(lambda p, n=network, b=best: mlp_shortfall(n, b, p), R))
        off.append(abs((angle - targets[best] + 180) % 360 - 180))
counts = np.bincount(wins, minlength=3)
print(f"of 100 networks, one token beats all mixtures in {len(wins)}: tokens 1, 2, 3 in {counts}")
print(f"smallest cost c_t of all: {min(costs):.3f}")
for R, off in limits.items():
    near, middle = (np.array(off) < 1).sum(), np.median(off)
    print(f"R = {R}: within 1 degree of the Att-SVM {near}; median {middle:.2f}, largest {max(off):.1f}")
assert len(wins) == 75
assert (counts == [5, 27, 43]).all()
assert min(costs) > 0
assert max(limits[20]) < 5
assert max(limits[80]) < 0.7

# %% [markdown]
# 75 of the 100 networks meet both conditions (the first as far as a grid of spacing 0.01 sees), with all
# three tokens among their favourites, and for every one of them $p(R)$ approaches the Att-SVM of the
# favourite: at $R = 20$ some are still 4 degrees away, at $R = 80$ all are within 0.7. (A head that
# increases with $v \cdot \bar x$ does not even change $p(R)$ at finite $R$ if $n = 1$.) The other 25 prefer
# a mixture.

# %% [markdown] slideshow={"slide_type": "subslide"}
# **A mixture beats each token alone.** The head $f(\bar x) = -\|\bar x - c\|^2$ is best at $c = 0.7\, x_1 +
# 0.3\, x_2$. Now $p$ has two tasks: to leave token 3 behind, which takes length, and to hold
# $s_1 : s_2$ at $7 : 3$, which takes *exactly* $p \cdot (k_1 - k_2) = \log (7/3)$, a finite number. In the
# plane and for large $R$ this is enough to say where $p(R)$ is, not only where it tends.

# %% [markdown]
# ### Exercise 08.5: The point of a mixture
#
# ★★☆ · 10 minutes
#
# Three keys in the plane, and wanted shares of the first two tokens (positive, with sum 1). Return the $p$
# of length $R$ that gives tokens 1 and 2 the right ratio and lies on the side of the line through 0 and
# $k_1 - k_2$ that leads away from token 3. $R$ is large enough for the ratio.
#
# <details><summary>Hint</summary>
#
# Split $p$ into a part along $e = k_1 - k_2$, which the ratio fixes, and a part perpendicular to $e$, which
# gets what is left of the length. The side is right when the second part has a positive product with
# $k_1 - k_3$ (the second part alone, not the whole of $p$).
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
few, share = np.array([3, 10, 30, 100]), np.array([0.7, 0.3])
centre = share @ values[:2]
searched = [best_angle(lambda p: ((attention(p, keys) @ values - centre) ** 2).sum(axis=-1), R) for R in few]
print("   R   p(R), searched      predicted        s_1 / s_2   angle (degrees)")
for R, p in zip(few, circle(np.array(searched), few), strict=True):
    foreseen, s = np.asarray(mixture_point(keys, share, R)), attention(p, keys)
    print(f"{R:4d}  {p[0]:7.3f} {p[1]:7.3f}   {foreseen[0]:7.3f} {foreseen[1]:7.3f}", end="")
    print(f" {s[0] / s[1]:13.3f} {degrees(p):12.1f}")
    if R >= 30:
        assert np.abs(p - foreseen).max() < 1e-3, again.format("08.5")
        assert abs(s[0] / s[1] - 7 / 3) < 1e-3
across = keys[0] - keys[1]
level = degrees(np.array([across[1], -across[0]]))
print(f"limit: perpendicular to k_1 - k_2, {level:.1f} degrees")
assert round(level, 1) == 47.7
assert abs(degrees(p) - level) < 0.4

# %% [markdown]
# The *direction* still tends to something: $p \cdot (k_1 - k_2) = 0$, which in the plane leaves one line, at
# 47.7 degrees. But on the way a finite vector is added to it, and that vector decides the attention:
# $s_1/s_2 \to 7/3$. Direction alone no longer tells what the model does. Lesson 13 is about this: $W
# \approx W_{\mathrm{fin}} + R\, W_{\mathrm{dir}}$.

# %% [markdown] slideshow={"slide_type": "subslide"}
# **The best token is infeasible.** Keys $(1, 0)$, $(-0.5, 0.9)$, $(-0.5, -0.8)$ with score 0, and inside
# their triangle $(0.8, 0.05)$ with score 1. Pushing out in any direction helps some corner.

# %%
triangle, prize = np.array([[1.0, 0.0], [-0.5, 0.9], [-0.5, -0.8], [0.8, 0.05]]), np.array([0.0, 0, 0, 1])
few = np.linspace(0.04, 8, 200)
smallest = shortfall(search(triangle, prize, few), triangle, prize)
p = np.array([[0.0, 8.0]])  # on the sphere of radius 8
for _ in range(1000):
    p = np.asarray(projected_step(p, -force(p[0], triangle, prize)[None], 5.0, 8.0))
k, length, stuck = smallest.argmin(), np.linalg.norm(p), np.linalg.norm(force(p[0], triangle, prize))
print(f"smallest shortfall: {smallest[k]:.3f} at R = {few[k]:.2f}; {smallest[-1]:.3f} at R = 8")
print(f"projected steps in the ball of radius 8 end at length {length:.2f}, shortfall ", end="")
print(f"{shortfall(p, triangle, prize)[0]:.3f}, gradient below 1e-9: {stuck < 1e-9}")
assert abs(few[k] - 1.84) < 0.01, again.format("08.1")
assert (np.diff(smallest[k:]) > 0).all(), again.format("08.1")
assert abs(length - 1.84) < 0.01, again.format("08.2")
assert stuck < 1e-9, again.format("08.2")

# %% [markdown]
# The best $p$ has a *finite* length, 1.84; projected steps with the true gradient find it. In any larger
# ball it stays there, inside: all losers score 0, so to minimise $\Gamma$ is to minimise the convex $\log
# \sum_t e^{-p \cdot a_t}$, and where its gradient is zero nothing is lower. (`follow` and the library use
# the gradient's direction alone, and expect the minimiser on the sphere: there the library's residual stays
# large.)
#
# Infeasible alone does not mean finite. It stops if some finite $p$ has a lower shortfall than every limit
# at infinity. Otherwise $p(R)$ runs off after the best of these limits, here a feasible token:

# %%
around = np.array([[0, 0], [1, 0], [0.5, 0.2], [0.5, -0.2], [-1, 1], [-1, -1]])  # token 1 is inside
worth = np.array([1, 0.9, -1, -1, -1, -1])
few = np.array([0.1, 1, 4, 8, 16, 32])
ends = search(around, worth, few)
print(f"angles at most {np.abs(degrees(ends))[1:].max():.1f} degrees; least shortfalls", end=" ")
print(shortfall(ends, around, worth))
assert (np.diff(shortfall(ends, around, worth)) < 0).all(), again.format("08.1")
assert 0 < shortfall(ends, around, worth)[-1] - 0.1 < 1e-5, again.format("08.1")
assert np.abs(degrees(ends[-1])) < 0.1, again.format("08.1")

# %% [markdown]
# Its shortfall falls all the way to $\gamma_1 - \gamma_2 = 0.1$, the loss of all attention on token 2.
#
# | situation | what $p(R)$ does | how you notice |
# |---|---|---|
# | a worse token is easier to reach | may jump at a finite $R$ | start anew at large $R$ |
# | weak keys or a nearly tight constraint | converges late | $R/\lVert p_{\mathrm{mm}}\rVert$, slack |
# | a mixture beats each token | an SVM with equalities, plus a finite part | ratios $s_1/s_2$ settle |
# | best token inside the hull of the others | may stop at a finite length | $\lVert p(R) \rVert < R$ |
# | tied best tokens | the theorem does not say | lesson 07: drop the tied comparison |

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
# **2.** For which data is $r = 0$ in section 8.4, so that the direction of $p(R)$ approaches its limit faster
# than $1/R$?
# <details><summary>Answer</summary>
#
# With a single support vector, as token 1 of the toy has ($r$ would be a multiple of it, and perpendicular
# to it); or if every $w_j / \lambda_j$ is the same.
# </details>
#
# **3.** Descent and the path end at the same token, and at $R = 100$ they are 2 apart. At what distance do
# you expect them at $R = 1000$?
# <details><summary>Answer</summary>
#
# If the support vectors span the space, near 0.2: it falls like $1/R$. If not, possibly still 2: the
# orthogonal part stays, and the angle between them goes from about 1.1 to 0.11 degrees.
# </details>

# %%
progress("08")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - $p(R)$, the best $p$ of length $R$, starts along descent's first step and at first turns twice as fast.
# - Its direction tends to the **global** Att-SVM (if feasible), also for heads for which one token alone is
#   best and weight on others costs in proportion. It tends to run parallel to its ray at a distance
#   $\|r\|$ that the SVM's own weights $\lambda_j$ predict: $1 -$ cosine falls as $1/R^2$.
# - **The path is global; descent may be local.** $p(R)$ can **jump** to the better token, in at least 14 of
#   our 60 problems, one draw. A program that follows a branch stays on it, or falls off its end, after
#   $p(R)$ has left.
# - Where descent finds the same tokens it ends up parallel to the path, in our problems about as far
#   from it as the path is from its ray, and on it if the support vectors span the space.
# - Mixtures and infeasible best tokens end the simple story: a finite part, a finite $p$, or another token.
#
# ## Further reading
#
# - D. A. Tarzanagh, Y. Li, X. Zhang, S. Oymak, *Max-Margin Token Selection in Attention Mechanism* (NeurIPS
#   2023, arXiv 2306.13596): the regularisation path, also for nonlinear heads.
# - D. A. Tarzanagh, Y. Li, C. Thrampoulidis, S. Oymak, *Transformers as Support Vector Machines* (2023, arXiv
#   2308.16898): the same for $W$.
# - A. Suggala, A. Prasad, P. Ravikumar, *Connecting Optimization and Regularization Paths* (NeurIPS 2018):
#   descent and path at finite length.
#
# The offset $r$, the rate and the factor of two are short arguments of this lesson, measured, not theorems of
# those papers.
#
# **New in the library:** [`paths.Path`](../mini_attn/paths.py),
# [`paths.regularization_path`](../mini_attn/paths.py).
#
# **Next:** [lesson 09](09_joint_training.ipynb): the head is trained too, and there are two radii.
