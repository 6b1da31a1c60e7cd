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
# - compute $p(R)$ in the plane by search, and a branch of it in any dimension by projected gradient steps;
# - derive in which direction the path starts, and how fast it turns at first, compared with descent;
# - predict where it ends, and its distance from there at finite $R$;
# - predict at which radius the path jumps, suspect from a curvature that a followed branch ends, and know
#   why it rarely tells of a jump;
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
PATH, DESCENT = plots.COLORS["blue"], plots.COLORS["vermillion"]  # all lesson long
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


def shortfall(p, keys, scores):
    """Gamma at each point by the second form: p (..., 2), keys (T, 2), scores (T,) -> (...,)."""
    return attention(p, keys) @ (scores.max() - scores)


# %% [markdown]
# In the plane there is no need to descend. All $p$ of length $R$ form a circle: we try 720 angles, and then
# zoom in around the best. (Why only the circle, when the definition allows the whole disc? As long as the
# smallest shortfall of a circle falls when $R$ grows, no smaller circle holds a better $p$. The next
# figure's cell asserts it; section 8.8 has a case in which it fails.)


# %%
keys = np.array([[-0.1, 1.0], [1.0, 0.0], [0.0, 0.0]])  # the toy of lesson 06
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
assert np.abs(lag[[0, -1]]).max() < 1.5
assert round(lag[1]) == 16
assert abs(others[-1]) < 5
assert (np.diff(shortfall(on_path, keys, spread)) < 0).all()

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
# white) to its largest (1). Solid: $p(R)$; dashed: descent from 0; dotted: from $(0, -1.5)$. Thin black: the
# Att-SVM directions of lesson 06. Right: the same in the $p$-plane.

# %% [markdown]
# Descent from 0 and the path leave and end in the same direction. In between they differ, by 16 degrees at $R
# = 1$: the path is quicker to turn. The other run ends in the valley of token 2, where no $p(R)$ of the
# figure is. The left map shows *every* angle: in the plane we can be sure of the best one.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 8.2 Small radii
#
# Near 0, $L(p) \approx L(0) + g \cdot p$ with $g = \nabla L(0)$, and the best $p$ of length $R$ is $-R\, g
# / \|g\|$. So **the path starts in the direction of descent's first step**, if $g \ne 0$.
#
# The next term shows the first difference: both turn away from $-\hat g$, where $\hat g = g/\|g\|$, but not
# equally fast. How fast each of them turns is decided by $g$ and by $H$, the matrix of second derivatives
# at 0.

# %% [markdown]
# ### Exercise 08.1: The first turn
#
# ★★☆ · 10 minutes
#
# Both curves, at length $R$, are $p/R = -\hat g + R\, c + O(R^2)$ with a vector $c \perp \hat g$. Return
# the two vectors $c$: first that of the path, then that of descent from 0 with very small steps, which
# follows $dp/d\tau = -\nabla L(p)$. Predict: which of the two turns faster?
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
    """Return c of the path and of descent, (2, d), for the gradient g (d,) and the Hessian H (d, d) at 0."""
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
# <details><summary>The derivation, when you have yours</summary>
#
# Let $(\cdot)_\perp$ be the part across $\hat g$. *The path.* Put $p = R(-\hat g + R\,c)$ into $g + Hp$.
# Across $p$ it must vanish. To first order in $R$ this part is $\|g\|\,R\,c - R\,(H \hat g)_\perp$: since
# $\hat g$ is not quite the direction of $-p$, $g$ itself has the part $\|g\|\,R\,c$ across $p$. So $c = (H
# \hat g)_\perp/\|g\|$. *Descent.* $p = -\tau g + \frac{\tau^2}{2} H g + \dots$, of length $R \approx \tau
# \|g\|$; across $\hat g$ it is $\frac{\tau^2}{2} \|g\| (H \hat g)_\perp$, and divided by $R^2$ this is $(H
# \hat g)_\perp / (2\|g\|)$.
# </details>
#
# **At first the path turns twice as fast.** Descent carries with it what it did when it knew less; the path
# decides anew at each length. Is that so? In the toy we measure angles. In 300 random problems, three
# sequences of four tokens in ten dimensions, we compare whole vectors, with what the library finds at $R =
# 0.01$.


# %%
def mean_loss(p, keys, scores):
    """L at any number of points: p (..., d), keys (..., n, T, d), scores (..., n, T) -> (...)."""
    h = (keys @ p[..., None, :, None])[..., 0]
    ahead = scores.gather(-1, h.argmax(-1, keepdim=True))  # as in force: nothing cancels far out
    signed = ahead[..., 0] + (torch.softmax(h, dim=-1) * (scores - ahead)).sum(-1)
    return torch.nn.functional.softplus(-signed).mean(-1)


def derivatives(p, keys, scores):
    """g (trials, d) and H (trials, d, d) of L, each trial at its own point p (trials, d)."""
    p = p.detach().clone().requires_grad_()
    (g,) = torch.autograd.grad(mean_loss(p, keys, scores).sum(), p, create_graph=True)
    rows = [torch.autograd.grad(part.sum(), p, retain_graph=True)[0] for part in g.T]
    return g.detach(), torch.stack(rows, dim=1)


def tokens_of(keys, scores):
    """The library's TokenData for one sequence of the plane: keys (T, 2), scores (T,)."""
    scores, e1 = torch.tensor(scores), torch.tensor([1.0, 0.0], dtype=torch.float64)
    X = (scores[:, None] * e1)[None]  # x_t = (gamma_t, 0), which the head v = e1 reads as gamma_t
    return data.TokenData(X=X, z=e1[None], y=e1[:1], v=e1, keys=torch.tensor(keys)[None])


def at_zero(tokens, d):
    """g (trials, d) and H (trials, d, d) at p = 0, in numpy."""
    keys = tokens.keys.reshape(-1, *tokens.keys.shape[-3:])
    scores = tokens.scores.reshape(len(keys), *tokens.scores.shape[-2:])
    zero = torch.zeros(len(keys), d, dtype=torch.float64)
    return tuple(part.numpy() for part in derivatives(zero, keys, scores))


(g,), (H,) = at_zero(tokens_of(keys, spread), 2)
start = -g / np.linalg.norm(g)
rates = np.degrees(np.asarray(first_turn(g, H)) @ np.array([-start[1], start[0]]))  # to the left
print(f"toy: first direction {degrees(start):.1f} degrees; predicted turn / R {rates[0]:.2f}, {rates[1]:.2f}")
near = np.array([0.003, 0.03, 0.3])
runs = np.array([descend(keys, spread, (0, 0), 500, R / 500)[-1] for R in near])
a, b = ((degrees(points) - degrees(start)) / near for points in (search(keys, spread, near), runs))
for R, *turns in zip(near, a, b, strict=True):
    print(f"R = {R:5g}: path {turns[0]:6.2f}, descent {turns[1]:5.2f}, ratio {turns[0] / turns[1]:.2f}")
assert np.abs(np.array([a[0], b[0]]) / rates - 1).max() < 0.004, again.format("08.1")

drawn = data.random_tokens(3, 4, 10, trials=300, seed=1)
gradients, hessians = at_zero(drawn, 10)
turns = np.array([first_turn(*pair) for pair in zip(gradients, hessians, strict=True)])  # (300, 2, 10)
R = 0.01
model = models.PromptAttention(10, 300)
train.fit(model, drawn, optim.NormalizedGD(model.parameters(), lr=R / 200, batch_dims=1), 200, progress=False)
half, path = regularization_path(models.PromptAttention(10, 300), drawn, [R / 2, R], tol=1e-8)["p"]
unit, error = gradients / np.linalg.norm(gradients, axis=1, keepdims=True), {}
points = {"path": (0, path, R), "path at R / 2": (0, half, R / 2), "descent": (1, model.p.detach(), R)}
for name, (k, p, size) in points.items():
    apart = np.linalg.norm((p.numpy() / size + unit) / size - turns[:, k], axis=1)
    error[name] = apart / np.linalg.norm(turns[:, k], axis=1)
    print(f"300 problems, {name:13s}: error of c relative to c, median {np.median(error[name]):.4f}", end="")
    print(f", largest {error[name].max():.3f}")
    assert error[name].max() < 0.03, again.format("08.1")
assert np.abs(error["path"] / error["path at R / 2"] - 2).max() < 0.05, again.format("08.1")
assert abs(np.median(error["descent"]) - 1 / 200) < 0.001, again.format("08.1")

# %% [markdown]
# In all 300 problems the two vectors are right, in all ten coordinates, to within 3%. (At half
# the $R$ the path's error is half as large; descent's is mostly 1/200, as it took 200 steps.)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 8.3 Any dimension: projected steps
#
# Beyond the plane we have to descend after all, but on a ball: take a gradient step, and if it led out, come
# back to the nearest point of the ball, which lies on the same ray. `mini_attn.paths.regularization_path`
# (read it) does this for all trials at once, with step lengths that adapt and with the gradient's direction
# alone, since its size is tiny for large $R$. It **follows**: each radius starts from the solution at the
# radius before.
#
# Projected steps stop where $-\nabla L(p) = \nu\, p$ with $\nu > 0$: the gradient points straight inwards.
# The library's *residual* is about the angle between $-\nabla L$ and $p$, in radians. That is a condition
# of first order; a saddle of the sphere, where $L$ falls in some directions and rises in others, meets it
# too. So one would like to look at the second order.

# %% [markdown]
# ### Exercise 08.2: Is it a minimum on the sphere?
#
# ★★☆ · 10 minutes
#
# At $p$, of length $R$, the gradient is $g = -\nu\, p$ with $\nu > 0$, and the second derivatives are $H$.
# Walk away from $p$ along the sphere, on a great circle, in one of the directions $e$ with $e \perp p$ and
# $\|e\| = 1$; let $\tau$ be the length of the way. Return the smallest value that $d^2 L/d\tau^2$ at $\tau =
# 0$ has among all these $e$, the **curvature** of $L$ on the sphere. If it is positive, $p$ is a minimum
# there. Is it enough that $H$ is positive definite? Is it necessary?
#
# <details><summary>Hint</summary>
#
# The great circle is $p \cos(\tau/R) + R\, e \sin(\tau/R)$. It bends inwards, so the gradient enters
# too: write $L$ to second order in $\tau$. For the smallest value among the $e \perp p$ you need $H$ on
# that space of $d - 1$ dimensions alone.
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
# The second derivative is $e^\top H\, e + \nu$: the sphere helps with $\nu$, so a negative $H$ may do, and a
# positive definite one is more than enough. In the plane we can see whether it is right, by the difference of
# three values on the circle.

# %%
few = np.array([0.3, 1, 3, 10])
toy = tokens_of(keys, spread)
library = regularization_path(models.PromptAttention(2), toy, few, tol=1e-8)
there = library["p"]
spelled = toy.keys.expand(4, 1, 3, 2), toy.scores.expand(4, 1, 3)
slopes, seconds = (part.numpy() for part in derivatives(there, *spelled))
print("     R   search  library (degrees)   curvature   three values   in units of nu")
for k, (R, p) in enumerate(zip(few, there.numpy(), strict=True)):
    angle, nu = degrees(p), -slopes[k] @ p / R**2
    bent = curvature(p, slopes[k], seconds[k])
    sides = circle(np.radians(angle) + np.array([-1e-3, 0, 1e-3]), R)
    before, here, after = (mean_loss(torch.tensor(q), toy.keys, toy.scores).item() for q in sides)
    measured = (before - 2 * here + after) / (1e-3 * R) ** 2
    found = degrees(search(keys, spread, np.array([R]))[0])
    print(f"{R:6g} {found:8.2f} {angle:8.2f} {bent:21.1e} {measured:14.1e} {bent / nu:12.2f}")
    assert abs(found - angle) < 0.01
    assert abs(bent / measured - 1) < 0.02, again.format("08.2")
    assert bent > 0, again.format("08.2")
assert (library.residual <= 1e-6).all()

# %% [markdown]
# A small residual and a positive curvature certify a *local* minimum on the sphere, not that there is no
# better one: section 8.5.

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
# > nonlinear heads under conditions that section 8.9 puts in our words. (Where several $p$ are best at one
# > $R$, any of them may be called $p(R)$.)
#
# There is one limit, and it is the *global* one of lesson 07. Let $L_*$ be the mean of
# $\ell(\gamma_{i\,\mathrm{opt}_i})$, which no $p$ can beat. If attention is nearly on the best tokens,
#
# $$L(p) - L_* \;\approx\; \sum_j w_j\, e^{-p \cdot a_j}, \qquad
# w_j = \tfrac1n\, |\ell'(\gamma_{i\,\mathrm{opt}_i})|\, (\gamma_{i\,\mathrm{opt}_i} - \gamma_{it}) > 0,$$
#
# where $j$ runs over all comparisons $(i, t)$, $t \ne \mathrm{opt}_i$, and $a_j = k_{i\,\mathrm{opt}_i} -
# k_{it}$. For long $p$ the smallest $p \cdot a_j$ decides; to make it as large as possible at a given
# length is the SVM. (Hence $\ell' < 0$: where $\ell' = 0$ at a best score, that sequence's $w_j$ vanish,
# its loss falls like a higher power of $e^{-p \cdot a_j}$, and the limit can be another: section 8.9.)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### How fast? The next term
#
# Write $p(R) = R\, \hat p + r$ with $\hat p = p_{\mathrm{mm}}/\|p_{\mathrm{mm}}\|$. At a minimum on the
# sphere $\sum_j w_j e^{-p \cdot a_j}\, a_j$ is $p$ times a positive factor. For large $R$ only support
# vectors remain in the sum, with a common factor; and $p$ is nearly a multiple of $p_{\mathrm{mm}} = \sum_j
# \lambda_j a_j$ (lesson 02; $\lambda_j > 0$ on the support vectors of keys in general position, which
# are linearly independent). So the coefficients must agree up to a factor:
#
# $$w_j\, e^{-r \cdot a_j} \;\propto\; \lambda_j \qquad\Longleftrightarrow\qquad
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
# Leave condition 2 for later and choose a constant. Of all vectors with the products $b_j$ that condition 1
# asks for, which one meets condition 3, and what does numpy call it? Now condition 2: what may you subtract
# from that vector without harm to 1 and 3?
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
# With $r = \sum_j \rho_j a_j$ the coefficients of $p = R\,\hat p + r$ are not $R \lambda_j$ but $R \lambda_j
# + \rho_j$, so at finite $R$
#
# $$r \cdot a_j = \log \frac{w_j}{\lambda_j + \rho_j / R} + \text{const},$$
#
# with $r$ on both sides: we iterate. (Besides, $\hat p$ then has the length $\sqrt{R^2 - \|r\|^2}$ instead
# of $R$.)
#
# The measurement: six draws of 60 random problems, $n = 3$, $T = 4$, $d = 10$, 360 in one batch. We scale
# the keys of each problem so that $\|p_{\mathrm{mm}}\| = 1$; then $R$ is the lead that a path of this
# length can afford, and problems can be compared. The library starts at $10\, \hat p$, which knows nothing
# of $r$, and moves until its residual is below $10^{-6}$; each further radius starts at $R\, \hat p$ plus
# the sideways part that was found before. Is this $p(R)$? From $R = 30$ on it must be. As $\ell$ is convex,
# $L - L_* \ge \sum_j w_j s_j$, so any lower point has $s_j \le (L - L_*)/w_j$, with our $L$: below $10^{-9}$,
# the cell asserts. There $L - L_*$ is $\sum_j w_j e^{-p \cdot a_j}$ to nine digits, and the logarithm of that
# sum is convex: on the ball it has no second minimum.


# %% slideshow={"slide_type": "subslide"}
def unit_problems(trials, seed, n=3, T=4, d=10):
    """Random problems with feasible best tokens, keys scaled to ||p_mm|| = 1; and the SVM's solution."""
    drawn = data.random_tokens(n, T, d, trials=trials, seed=seed)
    solution = svm.solve(svm.token_problem(drawn.keys, drawn.optimal), throw=False)
    ok = torch.as_tensor(solution.status == "optimal")
    keys = drawn.keys[ok] * solution.value[ok].norm(dim=-1)[:, None, None, None]
    many = data.TokenData(drawn.X[ok], drawn.z[ok], drawn.y[ok], drawn.v[ok], keys)
    return many, svm.solve(svm.token_problem(many.keys, many.optimal))


def fields(tokens):
    return tokens.X, tokens.z, tokens.y, tokens.v, tokens.keys


def comparisons_of(tokens, selected):
    """All a_j (trials, 9, d) of these tokens, and n w_j."""
    at = tokens.scores.gather(-1, selected[..., None])
    others = torch.ones_like(tokens.scores).scatter(-1, selected[..., None], 0) > 0
    weights = (at - tokens.scores) / (1 + at.exp())  # |l'| times the difference of the scores
    rows = svm.token_problem(tokens.keys, selected).a
    return rows, weights[others].reshape(rows.shape[:-1])  # in the order of the rows


def balance(tokens, selected):
    """For the Att-SVM of these tokens: a_j (trials, 9, d), w_j, lambda_j / ||p_mm|| and the direction p_hat.

    Rows, weights and coefficients are 0 where a comparison is no support vector.
    """
    rows, weights = comparisons_of(tokens, selected)
    solution = svm.solve(svm.token_problem(tokens.keys, selected))
    length = solution.value.norm(dim=-1, keepdim=True)
    on = solution.dual > 1e-6
    return rows * on[..., None], weights * on, solution.dual * on / length, solution.value / length


def across(p, unit):
    """The part of p perpendicular to unit, (trials, d)."""
    return p - (p * unit).sum(-1, keepdim=True) * unit


def limits(rows, weights, lam, unit):
    """The exercise's r of every problem, (trials, d)."""
    parts = zip(rows.numpy(), weights.numpy(), lam.numpy(), strict=True)
    return torch.as_tensor(np.array([offset(a[on], w[on], c[on]) for a, w, c in parts for on in [c > 0]]))


def offsets_at(R, r, rows, weights, lam, unit):
    """r of every problem at this radius, (trials, d): a fixed point, by damped steps from the limit r."""
    on, inverse = lam > 0, torch.linalg.pinv(rows)  # inverse @ b: the shortest vector with the products b
    for _ in range(100):
        rho = (inverse.mT @ r[..., None])[..., 0]
        share = lam * (1 - (r * r).sum(-1, keepdim=True) / R**2).clamp(min=0).sqrt() + rho / R
        target = torch.where(on, (weights / torch.maximum(share, 1e-3 * lam)).log(), 0)
        r = 0.7 * r + 0.3 * across((inverse @ target[..., None])[..., 0], unit)
    return r


def hits(found, forecast):
    """In which trials the forecast is within 5% of what was found, both (trials, d)."""
    return (found - forecast).norm(dim=-1) < 0.05 * forecast.norm(dim=-1)


def by_draw(yes):
    """Of 360 trials, how many in each draw, (6,)."""
    return yes.reshape(6, 60).sum(dim=1).numpy()


draws = [fields(unit_problems(60, seed)[0]) for seed in range(1, 7)]
many = data.TokenData(*(torch.cat(parts) for parts in zip(*draws, strict=True)))
to_best = balance(many, many.optimal)
unit = to_best[-1]  # (trials, d), p_hat of each problem
trials, d = unit.shape
assert trials == 360
r = limits(*to_best)
forecast = (r.norm(dim=-1) ** 2).median().item() / 2
print(f"{trials} problems; median length of r: {r.norm(dim=-1).median():.1f}")
print(f"    R   median of R^2 (1 - cosine), predicted {forecast:.2f}   within 5%: r (in a draw)  next term")
errors, aside, right, plain, refined, share, sideways = {}, {}, {}, {}, {}, {}, torch.zeros_like(r)
all_rows, all_weights = comparisons_of(many, many.optimal)
for R in (10, 30, 100, 300, 1000):
    found = regularization_path(models.PromptAttention(d, trials, init=R * unit + sideways), many, [R])
    assert (found.residual <= 1e-6).all()
    errors[R] = (1 - geometry.cosine(found["p"][0], unit)).median().item()
    aside[R] = sideways = across(found["p"][0], unit)  # what should be r
    right[R] = hits(sideways, offsets_at(R, r, *to_best))
    plain[R], refined[R] = by_draw(hits(sideways, r)), by_draw(right[R])
    print(f"{R:5g} {R**2 * errors[R]:27.2f}", end="")
    for count in (plain[R], refined[R]):
        print(f"{count.sum():26d} ({count.min()} to {count.max()})", end="")
    print()
    excess = (all_weights * torch.exp(-all_rows @ found["p"][0][..., None])[..., 0]).sum(-1)  # n (L - L_*)
    share[R] = (excess / all_weights.amin(-1)).max().item()
late = np.log(errors[1000] / errors[300]) / np.log(1000 / 300)
print(f"slope of log(1 - cosine) against log R, from R = 300 to 1000: {late:.1f}")
print(f"R = 30: a lower point leaves each loser less than {share[30]:.1e} of attention")
leads = (all_rows @ unit[..., None])[..., 0]
slack = torch.where(to_best[2] > 0, torch.inf, leads - 1).amin(dim=-1)  # of the nearest that is not tight
for name, which in (("wrong", ~right[30]), ("right", right[30])):
    print(f"R = 30, next term {name} in {which.sum()}: R slack < 5 in {(30 * slack[which] < 5).sum()}")
assert -2.05 < late < -1.95
assert share[30] < 1e-9
assert (plain[30].max(), refined[30].min(), refined[30].max()) == (6, 21, 33), again.format("08.3")
thin = 30 * slack < 5
assert (thin[~right[30]].sum(), (~right[30]).sum()) == (179, 201), again.format("08.3")
assert (thin[right[30]].sum(), right[30].sum()) == (13, 159), again.format("08.3")
assert (refined[100] > 1.5 * plain[100]).all(), again.format("08.3")
assert (plain[1000].min(), plain[1000].max(), refined[1000].min()) == (50, 57, 55), again.format("08.3")

# %% [markdown]
# The slope is $-2$ as predicted. At $R = 1000$ the vector $r$ itself is right to within 5% in 50 to 57 of 60
# problems. But at $R = 30$, where a loser's attention is already near $e^{-30}$, it is
# right in at most 6, and with the next term in 21 to 33. What the next term leaves out are forces like $e^{-R
# \cdot \text{slack}}$ of a nearly tight constraint: $R \cdot \text{slack} < 5$ somewhere in 179 of the 201
# problems in which it is wrong, in 13 of the 159 in which it is right.

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
# token 2, so the shortfall falls to $\gamma_1 - \gamma_2$ and stays there. On the branch of token 1 the
# last rivals are the support tokens of its Att-SVM (here token 3 alone), and $R$ buys the lead $R /
# \|p_{\mathrm{mm}}\|$ over all of them. The path jumps where the two shortfalls are equal.

# %% [markdown]
# ### Exercise 08.4: Predict the jump
#
# ★★☆ · 10 minutes
#
# Return the radius of the jump, given $\|p_{\mathrm{mm}}\|$ of token 1 and the scores: the best,
# $\gamma_1$; that of the rival, $\gamma_2$; then those of one or several support tokens. On the branch of
# token 1 let $p$ be on its ray: attention is shared by token 1 and the support tokens alone, as a softmax
# shares it when token 1 has the same lead over each of them. (The rival is beaten, and not among them.)
#
# <details><summary>Hint</summary>
#
# Call the lead $\Delta$. How large is $s_t$ of one support token if there are $m$ of them? Their shortfall
# is a sum; the one on the other branch does not depend on $R$.
# </details>


# %%
@exercise("08.4")
def jump_radius(length, scores):
    """Return R of the jump to token 1; length = ||p_mm||, scores (2 + support,): best, rival, support."""
    ### BEGIN SOLUTION
    lost = (scores[0] - scores[2:]).sum()  # Gamma = lost * s_t, with s_t = 1 / (e^lead + support)
    return length * np.log(lost / (scores[0] - scores[1]) - len(scores[2:]))
    ### END SOLUTION


# %%
check("08.4", jump_radius)


# %%
def turns(path):
    """Degrees between neighbours of a path (points, ..., d): (points - 1, ...)."""
    units = path / np.linalg.norm(path, axis=-1, keepdims=True)
    half = np.linalg.norm(np.diff(units, axis=0), axis=-1) / 2  # arccos of a cosine near 1 loses digits
    return np.degrees(2 * np.arcsin(np.minimum(half, 1)))


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
    steps = turns(search(weak, scores, close))
    turn, before = steps.max(), steps.argmax()
    three = crossing(scores, np.linspace(0.5, 20, 19501))
    print(f"{second:16g} {foreseen:16.2f} {three:12.2f} {close[before]:7.2f} {turn:16.0f}")
    assert abs(three / close[before] - 1) < 0.005
    late_by = foreseen / close[before] - 1
    assert 0 < late_by < {0.99: 0.005, 0.9: 0.02, 0.8: 0.12}[second], again.format("08.4")
    assert abs(turn - 146) < 2

# %% [markdown]
# The worse the best token's margin $1/\|p_{\mathrm{mm}}\|$, and the smaller its advantage, the later the
# path notices it. An early jump comes before the prediction, since token 2's branch has not settled at
# $\gamma_1 - \gamma_2$ yet: token 3 still has a share there. Keep all three tokens at $p = (R, 0)$, and the
# crossing is where the jump was found (column "all tokens").

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
assert (lowest < 1.001 * best).all()

# %% jupyter={"source_hidden": true}
fig, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.4), width_ratios=[1.3, 1])
draw_map(left, weak, spread, radii)
split = turns(on_path).argmax() + 1
for part in (slice(None, split), slice(split, None)):
    name = "path $p(R)$" if part.start is None else None
    left.plot(degrees(on_path[part]), radii[part], color=PATH, linewidth=6, alpha=0.55, label=name)
left.plot(degrees(followed), radii, "--", color=BLACK, linewidth=1.6, label="followed")
left.plot(degrees(run), np.linalg.norm(run, axis=1), ":", color=DESCENT, label="descent from 0")
left.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3, fontsize=10)
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
# descent from 0. Right: the shortfall of $p(R)$ (broad), and of what twelve starts reach if they are
# followed from the first radius (crosses) or made anew at each (circles); the twelve coincide in one point
# or two.

# %% [markdown]
# **Several starts do not help a program that follows**: at small radii the circle has a single valley, in
# which all twelve meet, and then they stay together. To find the other branch one has to start anew at
# larger radii. In this lesson "the path" is the global minimiser; what `regularization_path` returns is a
# branch.

# %% [markdown]
# **Try it.** The shortfall round the circle (a row of Figure 2's map), with $p(R)$ and descent from 0 at
# equal length. Near which radius do the two valleys change places, and what does the valley of token 2 look
# like there: does anything in it announce the jump?


# %% tags=["nbval-ignore-output", "widget"] jupyter={"source_hidden": true}
def round_the_circle(R):
    every = np.linspace(-180, 180, 721)
    figure = Figure(figsize=(7, 3.5), layout="none")  # constrained layout would draw twice
    ax = figure.add_axes((0.1, 0.16, 0.87, 0.74))
    ax.plot(every, shortfall(circle(np.radians(every), R), weak, spread), color=GREY)
    here = search(weak, spread, np.array([R]))[0]
    there = at_length(descend(weak, spread, (0, 0), 110, R / 100), R)
    for p, marker, color, name in ((here, "o", PATH, "$p(R)$"), (there, "s", DESCENT, "descent from 0")):
        ax.plot(degrees(p), shortfall(p[None], weak, spread), marker, color=color, markersize=10, label=name)
    ax.set(xlim=(-180, 180), ylim=(-0.03, 1.05), xlabel="angle of $p$ (degrees)", ylabel="shortfall")
    ax.set_xticks([-180, -90, 0, 90, 180])
    ax.set_title(f"$R$ = {R:.2f}", fontsize=12, loc="left")
    figure.legend(loc="upper right", ncol=2)
    return figure


wide = {"style": {"description_width": "130px"}, "layout": ipywidgets.Layout(width="480px")}
R = ipywidgets.FloatLogSlider(value=4, min=-0.5, max=1.5, step=0.02, description="radius R", **wide)
picture = "The shortfall round the circle of radius R, with the path's point and descent's."
widgets.sliders(round_the_circle, alt=picture, R=R)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### How often, and when?
#
# The 360 problems of section 8.4 again. One branch we follow from 0 outwards. The other comes from the
# theorem: from $R\,\hat p$ at $R = 12$, near which $p(R)$ is when $R$ is large, we follow it *inwards*.
# Where the second is lower than the first, $p(R)$ has left the branch on which it began. And descent from
# 0, for comparison.


# %%
def chosen(p):
    """The token with most attention in every sequence, (trials, 3), for p (trials, d)."""
    return geometry.selected_tokens(models.PromptAttention(d, len(p), init=p).attention(many))


def on_best(p):
    return (chosen(p) == many.optimal).all(dim=-1)


radii = np.array([0.0001, *np.geomspace(0.3, 100, 36)])  # the first shows the gradient at 0
chain = regularization_path(models.PromptAttention(d, trials), many, radii, tol=1e-4, max_steps=200)
near = (radii < 12).sum() - 1  # where the second branch begins, inwards


def inwards(p, tokens, radii):
    """Follow p (trials, d) from the last radius to the first: points (radii, trials, d), losses."""
    points, values = [], []
    for R in radii[::-1]:
        p = p * (R / p.norm(dim=-1, keepdim=True))
        branch = regularization_path(models.PromptAttention(d, len(p), init=p), tokens, [R], tol=1e-4)
        p = branch["p"][0]
        points.append(p)
        values.append(branch.loss[0])
    return torch.stack(points[::-1]), torch.stack(values[::-1])


second, value = inwards(unit, many, radii[1 : near + 1])
lower = value - chain.loss[1 : near + 1]  # (radii, trials), negative where p(R) has left
left_at = lower < -1e-6
model = models.PromptAttention(d, trials)
optimizer = optim.NormalizedGD(model.parameters(), lr=0.1, batch_dims=1)
walk = train.fit(model, many, optimizer, 3500, record={"p": lambda m: m.p}, every=20, progress=False)["p"]
walked = walk[-1]
first, last, descent = (on_best(p) for p in (chain["p"][0], chain["p"][-1], walked))
jumped = left_at.any(dim=0)
print("of 60 problems in draw             1    2    3    4    5    6")
for name, yes in (
    ("first step off the best tokens", ~first),
    ("descent ends off them", ~descent),
    ("followed path ends off them", ~last),
    ("p(R) leaves the followed path", jumped),
):
    print(f"{name:32s}", *(f"{count:4d}" for count in by_draw(yes)))
assert walked.norm(dim=-1).min() > 250
assert (last & ~first).sum() > (~first).sum() / 2
assert (jumped | last).all()  # every followed path that ends elsewhere has been left
assert by_draw(jumped).tolist() == [8, 20, 14, 21, 12, 18]

# %% [markdown]
# In every draw $p(R)$ leaves the branch on which it began, in 8 to 21 of 60 problems, at the least: we do not
# see a third branch, nor a jump and a return between two of our radii. Each followed path that ends off the
# best tokens has been left. (A first step off the best tokens need not mean a jump: most followed paths turn
# onto them later.) Descent from 0 does about as badly as following.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 8.6 When it jumps, and what announces it *(optional)*
#
# When does the path jump? In the 74 problems whose followed path ends on other tokens we know both ends,
# and exercise 08.4 has the idea: equate the losses at $R\,\hat p$ of the tokens where it ends and at
# $R\,\hat p$ of the best ones, with all tokens in both. And as the offsets $r$ of section 8.4 exist for
# both ends, we can add them. (To find the jump itself, both branches go once more through the step between
# two radii in which they cross.)

# %%
wrong = (~last).nonzero()[:, 0]
missed = data.TokenData(*(part[wrong] for part in fields(many)))
ends = balance(missed, chosen(chain["p"][-1])[wrong]), balance(missed, many.optimal[wrong])
assert (ends[0][1] >= 0).all()  # no support token scores more than the one that was chosen: lesson 07


def losses(p):
    signed = models.PromptAttention(d, len(p), init=p)(missed).detach() * missed.y
    return torch.nn.functional.softplus(-signed).mean(dim=-1)


def last_change(difference, radii):
    """The last radius at which difference (radii, trials) turns negative; between radii, a line in log R."""
    where = []
    for column in np.asarray(difference).T:
        k = np.nonzero(column >= 0)[0].max(initial=0)
        part = np.clip(column[k] / (column[k] - column[k + 1]), 0, 1)
        where.append(radii[k] * (radii[k + 1] / radii[k]) ** part)
    return np.array(where)


def at_own_radius(which, R):
    """These trials, keys times R (trials,): what happens at R happens at radius 1, each trial at its own."""
    return data.TokenData(
        *(part[which] for part in fields(many)[:-1]), many.keys[which] * R[:, None, None, None]
    )


k = (lower[:, wrong] > -1e-6).int().cumsum(dim=0).argmax(dim=0)  # the last of our radii before the jump
R, fine = torch.as_tensor(radii)[1 + k], np.geomspace(1, radii[2] / radii[1], 9)  # in eight steps to the next
between = at_own_radius(wrong, R)
_, value = inwards(second[k + 1, wrong], between, fine)
model = models.PromptAttention(d, len(wrong), init=chain["p"][1 + k, wrong] / R[:, None])
value = value - regularization_path(model, between, fine, tol=1e-4).loss
found = R.numpy() * last_change(value.where(value < -1e-6, value.clamp(min=0)), fine)
grid = np.geomspace(0.5, 30, 40)
offset_limits = [limits(*end) for end in ends]
foreseen = {"on the rays": [], "with the offsets": []}
for R in grid:
    rays = [R * end[-1] for end in ends]
    bent = [ray + offsets_at(R, r, *end) for ray, r, end in zip(rays, offset_limits, ends, strict=True)]
    for name, (wrong_end, best_end) in zip(foreseen, (rays, bent), strict=True):
        sized = [p * (R / p.norm(dim=-1, keepdim=True)) for p in (wrong_end, best_end)]
        foreseen[name].append((losses(sized[1]) - losses(sized[0])).numpy())
late = found > 3
print("predicted / found    median, below and beyond R = 3    within 15%, below and beyond")
for name in foreseen:
    foreseen[name] = last_change(foreseen[name], grid)
    ratio = foreseen[name] / found
    close = abs(ratio - 1) < 0.15
    medians = (f"{np.median(part):10.2f}" for part in (ratio, ratio[~late], ratio[late]))
    inside = (f"{close[part].sum()} of {part.sum()}" for part in (~late, late))
    print(f"{name:16s}", *medians, *(f"{text:>14s}" for text in inside), end="")
    print(f"; early by over 30%: {(ratio < 0.7).sum()}")
assert len(found) == 74
assert abs(np.median(foreseen["on the rays"] / found) - 7 / 6) < 0.03
assert (foreseen["on the rays"] / found < 0.7).sum() == 7
assert abs(np.median(ratio) - 1.04) < 0.02, again.format("08.3")
assert abs(np.median(ratio[late]) - 1.03) < 0.02, again.format("08.3")
assert (close[~late].sum(), (~late).sum()) == (28, 46), again.format("08.3")
assert (close[late].sum(), late.sum()) == (24, 28), again.format("08.3")

# %% jupyter={"source_hidden": true}
fig, panels = plt.subplots(1, 2, figsize=(9, 4.2), sharey=True)
for ax, (name, radius) in zip(panels, foreseen.items(), strict=True):
    ax.loglog(found, radius, "o", color=PATH, markersize=5, alpha=0.7, label=f"predicted {name}")
    ax.plot([0.4, 10], [0.4, 10], color=BLACK, linewidth=1)
    ax.set(xlim=(0.6, 8), ylim=(0.4, 10), xlabel="radius of the jump, found", title=name)
    for axis, ticks in ((ax.xaxis, [1, 2, 4, 8]), (ax.yaxis, [0.5, 1, 2, 4, 8])):
        axis.set_major_locator(plt.FixedLocator(ticks))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_locator(plt.NullLocator())
panels[0].set_ylabel("radius of the jump, predicted")
show(
    fig,
    alt="Predicted against found radius of 74 jumps, with the diagonal. Left, predictions on the rays: "
    "most lie above it, some far below. Right, with the offsets: close to it, above all from R = 3 on.",
)

# %% [markdown]
# **Figure 3.** The radius of the jump in 74 problems of six draws, found and predicted from the two ends
# alone: on both rays (left), and with both offsets (right); at 0.5 the prediction is 0.5 or less. On the
# line the prediction is right.

# %% [markdown]
# In the median the prediction is late by a sixth on the rays (in 7 of the 74 it is early by over 30%), and by
# 4% with the offsets. These are right to within 15% in 24 of 28 problems beyond $R = 3$, in 28 of 46 below:
# two limits at infinity tell when the path jumps at $R = 3$, and what they leave out counts before. (No
# support token of any of the 74 wrong ends scores more than the token that was chosen. They are the *locally
# optimal* tokens of lesson 07; a branch towards others cannot last.)
#
# ### A warning, of what?
#
# Could a program that follows notice that $p(R)$ has left? And what are the sharp turns that some followed
# paths make? We measure the curvature of exercise 08.2, in units of $\nu$: on the followed path at the
# first radius where $p(R)$ is elsewhere, and for comparison where it never is; and where the followed path
# turns by more than 20 degrees between two radii. There we go through that step again in eight smaller ones,
# three times over, each time through the sharpest of the eight, and look just before it: a smooth turn
# shrinks with the step.


# %%
def relative_curvature(p, keys, scores):
    """The exercise's curvature of every row of p (trials, d), in units of nu."""
    g, H = derivatives(p, keys, scores)
    nu = -(g * p).sum(-1) / (p * p).sum(-1)
    rows = zip(p.numpy(), g.numpy(), H.numpy(), strict=True)
    return np.array([curvature(*row) for row in rows]) / nu.numpy()


first_away = 1 + left_at.int().argmax(dim=0)[jumped]  # of the radii
at_jump = chain["p"][first_away, jumped]
stiff = relative_curvature(at_jump, many.keys[jumped], many.scores[jumped])
usual = first_away.median()
calm = relative_curvature(chain["p"][usual, ~jumped], many.keys[~jumped], many.scores[~jumped])
for name, values in (("p(R) has just left", stiff), (f"p(R) never leaves, R = {radii[usual]:.1f}", calm)):
    print(f"curvature / nu where {name}: median {np.median(values):.2f}", end="")
    print(f", below 1/2 in {(values < 0.5).sum()} of {len(values)}")

sharpest = turns(chain["p"][1:].numpy())  # (radii, trials)
turned = np.nonzero(sharpest.max(axis=0) > 20)[0]
k = 1 + sharpest[:, turned].argmax(axis=0)
keys_of, scores_of = many.keys[turned], many.scores[turned]


def zoom(p, R, ratio, steps=8):
    """Follow p (trials, d) from its own R (trials,) to ratio R; the largest turn, and where: (turn, p, R)."""
    fine = np.geomspace(1, ratio, steps + 1)
    p = p / R[:, None]
    model = models.PromptAttention(d, len(turned), init=p)
    path = regularization_path(model, at_own_radius(turned, R), fine[1:], tol=1e-5, max_steps=300)["p"]
    path = torch.cat([p[None], path])
    by = turns(path.numpy())
    k = by.argmax(axis=0)
    return by.max(axis=0), path[k, np.arange(len(turned))] * R[:, None], R * torch.as_tensor(fine[k])


ratio = radii[2] / radii[1]
edge, at, sizes = chain["p"][k, turned], torch.as_tensor(radii[k]), []
for part in (1, 8, 64):  # each time within the step that turned most
    sharp, edge, at = zoom(edge, at, ratio ** (1 / part))
    sizes.append(sharp)
kept = sizes[2] / sizes[1]  # near 1/8 if it is smooth, near 1 at a fall
sheer = kept > 0.5
soft = relative_curvature(edge, keys_of, scores_of)[sheer]
falls = torch.isin(torch.arange(trials), torch.as_tensor(turned[sheer]))
print(
    f"{len(turned)} turns beyond 20 degrees; in steps of 0.03% instead of 0.25%, {(kept > 0.8).sum()} ",
    end="",
)
print(f"keep over 0.8 of it, {(kept < 0.2).sum()} less than 0.2")
print(f"curvature / nu just before the {sheer.sum()}: below 0.2 in {(soft < 0.2).sum()}; ", end="")
print(f"{(falls & last).sum()} of them lead onto the best tokens")
print("p(R) has left the followed path, or the path falls; by draw:", by_draw(falls | jumped))
assert ((stiff < 0.5).sum(), len(stiff)) == (8, 93), again.format("08.2")
assert ((calm < 0.5).sum(), len(calm)) == (4, 267), again.format("08.2")
assert np.median(stiff) > 0.9, again.format("08.2")
assert (len(turned), (kept > 0.8).sum(), (kept < 0.2).sum()) == (33, 30, 3)
assert (soft < 0.2).all(), again.format("08.2")

which, here = turned[sheer], torch.as_tensor(sheer)
end, p, squares = at[here], chain["p"][k - 1, turned][here], []
lefts = np.array([0.08, 0.04, 0.02, 0.01])
for left in lefts:  # along the branch, until this part of R is left
    R = end * (1 - left)
    p = p / p.norm(dim=-1, keepdim=True)
    model = models.PromptAttention(d, len(end), init=p)
    p = regularization_path(model, at_own_radius(which, R), [1.0])["p"][0] * R[:, None]
    squares.append(relative_curvature(p, many.keys[which], many.scores[which]) ** 2)
squares = np.array(squares)
powers = np.median(np.log(squares[:-1] / squares[1:]), axis=1) / (2 * np.log(2))
miss = 0.02 * squares[2] / (squares[1] - squares[2]) - 0.02  # where the line through two squares meets 0
print("power with which the curvature falls from 8% to 4%, to 2%, to 1% of R left, medians:", powers.round(2))
print(f"the line through its squares at 4% and 2% meets 0 within 1% of R in {(abs(miss) < 0.01).sum()}")

k = (radii < 0.8).sum()  # an alarm that does not know the end: every problem, in steps of 4%
fine = radii[k] * 1.04 ** np.arange(60)
model = models.PromptAttention(d, trials, init=chain["p"][k])
points = regularization_path(model, many, fine, tol=1e-3, max_steps=200)["p"]
S = np.array([relative_curvature(p, many.keys, many.scores) ** 2 for p in points])
alarm = S[1:] < 2 * (S[:-1] - S[1:])  # the line through two neighbours meets 0 within two more steps
ahead = fine[1:, None] / end.numpy()
caught = (alarm[:, which] & (ahead > 0.85) & (ahead < 1)).any(axis=0).sum()
early, false = ((alarm[:, which] & (ahead < 0.85)).any(axis=0).sum(), alarm[:, ~falls].any(axis=0).sum())
within = (end < fine[-1]).sum()
print(f"alarms from R = {fine[0]:.2f} to {fine[-1]:.1f}: before {caught} of {within} falls, ", end="")
print(f"too early in {early}; in {false} of the {(~falls).sum()} other problems")
assert by_draw(falls | jumped).sum() == 102
assert (caught, early, within) == (26, 0, 26), again.format("08.2")
assert 0.36 < false / (false + caught) < 0.48, again.format("08.2")
assert np.abs(powers - [0.39, 0.43, 0.46]).max() < 0.005, again.format("08.2")
assert (abs(miss) < 0.01).sum() == 24, again.format("08.2")

# %% [markdown]
# **Hardly a warning of a jump.** In 93 problems $p(R)$ has just left, and there the curvature is mostly near
# $\nu$. In 8 of them it is below half of that; at about the same length so it is in 4 of the 267 problems
# that $p(R)$ never leaves. A soft valley, about six times as frequent after a jump, is a reason to look
# elsewhere, but nine in ten jumps come without one: a jump compares two places, and the curvature knows of
# one.
#
# **A warning of an end.** 30 of the 33 sharp turns do not shrink when the step does (the other three are
# smooth). There a valley closes: its minimum meets a saddle, and the followed path *falls* into another
# valley. Let $R_*$ be the radius of the end, and $\tau$ the way across from the place where they meet. To
# leading order the slope is $b\, \tau^2 - b'\, (R_* - R)$ with $b, b' > 0$: for $R < R_*$ it vanishes at two
# $\tau$ of opposite sign, the minimum and the saddle, for $R > R_*$ nowhere. The curvature is the derivative
# of the slope, $2 b\, \tau$: **at the minimum it falls like $\sqrt{R_* - R}$.** The power that we measure
# grows from 0.39 to 0.46 on the way to the end, and a line through the *square* of the curvature at two
# radii, 4% and 2% before it, gives $R_*$ to within 1% in 24 of the 30.
#
# These are known falls. A program that does not know them can *suspect* one: in steps of 4%, an alarm when
# the line through two squares meets 0 within two more steps comes before all 26 falls in its range, but in
# 21 other problems as well, where the curvature mostly dips and recovers. Over four alarms in ten are false.
# And each is too late: a fall leads down and the loss is continuous, so the other valley was lower
# before. If the branch was $p(R)$ once, **$p(R)$ has left before the fall**. Together it leaves in at least
# 102 of our 360 problems (a fall through less than 20 degrees we do not see).

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 8.7 Descent against the path *(optional)*
#
# Where descent goes to the same tokens as the path, how close do they come? Descent *adds up* the forces
# $w_j e^{-p \cdot a_j} a_j$ that the path balances. Its sum too must grow along $\hat p = \sum_j \lambda_j
# a_j$ (up to length), so $p = R\,\hat p + r'$ where $r'$ meets the same conditions $r' \cdot a_j = \log
# (w_j/\lambda_j) + \text{const}$ on the support vectors. But $r'$ need not be a combination of *them*:
# orthogonal to all support vectors, descent keeps what the start or early steps put there, when other
# tokens still pulled. So the distance at equal length should tend to a constant, the length of that part,
# **and to 0 if the support vectors span the space**.
#
# Three cases in the plane: the toy of section 8.1 with both sets of scores, whose token 1 has one support
# vector, and, as the one case that they span, the hexagon of lesson 07, whose token 1 has two.

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
    assert abs(distance[name][-1] / distance[name][-3] - 1) < 0.01  # R = 128 and 256
assert abs(distance[kinds[0]][-1] - 0.16) < 0.005
assert abs(distance[kinds[1]][-1] - 2.25) < 0.005
late = np.polyfit(np.log(lengths[10:]), np.log(distance["hexagon"][10:]), 1)[0]
print(f"hexagon, slope of log distance against log R from R = 4 on: {late:.1f}")
assert -1.2 < late < -0.9
assert [round(angle[name].max()) for name in kinds[:2]] == [20, 4]
assert max(max(angle[name][[0, -1]]) for name in kinds) < 3
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
# **Figure 4.** Descent from 0 and $p(R)$ at equal length: the angle and the distance between them. (The
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
# Now the random problems in which descent finds the best tokens: how far apart are the parts of descent's
# $p$ and of $p(R)$ across the ray, and how much of that lies in the span of the support vectors?

# %%
rows = to_best[0]


def between_them(R):
    """Descent's p less p(R) at length R, both across the ray, and the part of it in the rows' span."""
    nearest = (walk.norm(dim=-1) - R).abs().argmin(dim=0)
    apart = across(walk[nearest, torch.arange(trials)], unit) - aside[R]
    return apart, (torch.linalg.pinv(rows) @ (rows @ apart[..., None]))[..., 0]


(apart, inside), (_, later) = between_them(100), between_them(300)
print("medians at R = 100                                  in the span   times 3, at R = 300")
print("draw  problems   length of r   apart   orthogonal")
for draw in range(6):
    own = descent & (torch.arange(trials) // 60 == draw)
    sizes = (v.norm(dim=-1)[own].median().item() for v in (r, apart, apart - inside, inside, 3 * later))
    long, *parts = sizes
    print(f"{draw + 1:4d} {own.sum():9d} {long:13.2f} {parts[0]:7.2f} {parts[1]:12.2f}", end="")
    print(f" {parts[2]:13.2f} {parts[3]:21.2f}")
    assert parts[2] < 0.15 < 0.8 < parts[1], again.format("08.3")
    assert 0.7 < parts[0] / long < 0.9, again.format("08.3")
    assert 0.75 < parts[3] / parts[2] < 1.25, again.format("08.3")

# %% [markdown]
# As predicted: nearly all of the distance is orthogonal to the support vectors, and the rest falls like
# $1/R$. The distance is not small: the two run parallel, about as far apart as $p(R)$ itself is from its ray
# (here 0.7 to 0.9 of it).

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 8.8 Where it breaks
#
# The theorem asks for feasible best tokens. Keys $(1, 0)$, $(-0.5, 0.9)$, $(-0.5, -0.8)$ with score 0, and
# inside their triangle $(0.8, 0.05)$ with score 1. Pushing out in any direction helps some corner.

# %%
triangle, prize = np.array([[1.0, 0.0], [-0.5, 0.9], [-0.5, -0.8], [0.8, 0.05]]), np.array([0.0, 0, 0, 1])
few = np.linspace(0.04, 8, 200)
smallest = shortfall(search(triangle, prize, few), triangle, prize)
p = np.array([0.0, 8.0])  # on the sphere of radius 8
for _ in range(1000):  # projected steps with the true gradient
    p = p + 5 * force(p, triangle, prize)
    p = p * min(1, 8 / np.linalg.norm(p))
k, length, stuck = smallest.argmin(), np.linalg.norm(p), np.linalg.norm(force(p, triangle, prize))
print(f"smallest shortfall: {smallest[k]:.3f} at R = {few[k]:.2f}; {smallest[-1]:.3f} at R = 8")
print(f"projected steps in the ball of radius 8 end at length {length:.2f}, shortfall ", end="")
print(f"{shortfall(p, triangle, prize):.3f}, gradient below 1e-9: {stuck < 1e-9}")
assert abs(few[k] - 1.84) < 0.01
assert (np.diff(smallest[k:]) > 0).all()
assert abs(length - 1.84) < 0.01
assert stuck < 1e-9

# %% [markdown]
# The best $p$ has a *finite* length, 1.84; projected steps with the true gradient find it. In any larger
# ball $p(R)$ stays there, inside: all losers score 0, so to minimise $\Gamma$ is to minimise the convex
# $\log \sum_t e^{-p \cdot a_t}$, and where its gradient is zero nothing is lower. (The library uses the
# gradient's direction alone, and expects the minimiser on the sphere: there its residual stays large.)
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
assert (np.diff(shortfall(ends, around, worth)) < 0).all()
assert 0 < shortfall(ends, around, worth)[-1] - 0.1 < 1e-5
assert np.abs(degrees(ends[-1])) < 0.1

# %% [markdown]
# Its shortfall falls all the way to $\gamma_1 - \gamma_2 = 0.1$, the loss of all attention on token 2.
#
# | situation | what $p(R)$ does | how you notice |
# |---|---|---|
# | a worse token is easier to reach | may jump at a finite $R$ | start anew at large $R$ |
# | weak keys or a nearly tight constraint | converges late | $R/\lVert p_{\mathrm{mm}}\rVert$, slack |
# | a mixture beats each token | runs off, $p \cdot (k_1 - k_2)$ stays | ratios $s_1/s_2$ settle |
# | best token inside the hull of the others | may stop at a finite length | $\lVert p(R) \rVert < R$ |
# | $\ell' = 0$ at a best score | may tend to another limit | look at $\ell'$ (section 8.9) |
# | tied best tokens | the theorem does not say | lesson 07: drop the tied comparison |

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 8.9 Other heads, and a flat loss *(optional)*
#
# So far the prediction was linear in the values: $f = \sum_t s_t\, v \cdot x_t$. A **nonlinear head** reads
# the mixture: $f(\bar x)$ with $\bar x = \sum_t s_t x_t$ and a differentiable $f$, an MLP say. The argument
# of section 8.4 asks two things of it. **Attention entirely on one token $\mathrm{opt}_i$ beats every other
# attention**: $y_i\, f(x_{i\,\mathrm{opt}_i}) > y_i\, f(\bar x_i)$. And **a little weight moved to another
# token $t$ costs in proportion**: $c_{it} = y_i\, \nabla f(x_{i\,\mathrm{opt}_i}) \cdot
# (x_{i\,\mathrm{opt}_i} - x_{it}) > 0$. Then, if their Att-SVM is feasible and $\ell' < 0$, $p(R)/R$ tends to
# its direction, and $f$ does not appear in it. (Our wording, not the paper's.)
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


angles_off, costs, wins = {20: [], 80: [], 320: []}, [], []
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
    for R, off in angles_off.items():
        angle = np.degrees(best_angle(lambda p, n=network, b=best: mlp_shortfall(n, b, p), R))
        off.append(abs((angle - targets[best] + 180) % 360 - 180))
counts = np.bincount(wins, minlength=3)
print(f"of 100 networks, one token beats all mixtures in {len(wins)}: tokens 1, 2, 3 in {counts}")
print(f"smallest cost c_t of all: {min(costs):.3f}")
for R, off in angles_off.items():
    near, middle = (np.array(off) < 1).sum(), np.median(off)
    print(f"R = {R}: within 1 degree of the Att-SVM {near}; median {middle:.2f}, largest {max(off):.2f}")
assert len(wins) == 75
assert (counts == [5, 27, 43]).all()
assert min(costs) > 0
assert max(angles_off[20]) < 4.1
assert max(angles_off[80]) < 0.7
assert max(angles_off[320]) < 0.18

# %% [markdown]
# 75 of the 100 networks meet both conditions (the first as far as a grid of spacing 0.01 sees), with all
# three tokens among their favourites, and for every one of them $p(R)$ approaches the Att-SVM of the
# favourite: at $R = 20$ some are still 4 degrees away, at $R = 80$ all are within 0.7, at $R = 320$ within
# 0.18. (A head that
# increases with $v \cdot \bar x$ does not even change $p(R)$ at finite $R$ if $n = 1$.) The other 25 prefer
# a mixture.

# %% [markdown] slideshow={"slide_type": "subslide"}
# **A mixture beats each token alone.** The head $f(\bar x) = -\|\bar x - \bar x_*\|^2$ is best at $\bar x_*
# = 0.7\, x_1 + 0.3\, x_2$. Now $p$ has two tasks: to leave token 3 behind, which takes length, and to hold
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
e = keys[0] - keys[1]
level = degrees(np.array([e[1], -e[0]]))
print(f"limit: perpendicular to k_1 - k_2, {level:.1f} degrees")
assert round(level, 1) == 47.7
assert abs(degrees(p) - level) < 0.4

# %% [markdown]
# The *direction* still tends to something: $p \cdot (k_1 - k_2) = 0$, which in the plane leaves one line, at
# 47.7 degrees. But on the way a finite vector is added to it, and that vector decides the attention: $s_1/s_2
# \to 7/3$. Direction alone no longer tells what the model does. Lesson 13 is about this: $W \approx
# W_{\mathrm{fin}} + c\, W_{\mathrm{dir}}$ with $c \to \infty$.

# %% [markdown] slideshow={"slide_type": "subslide"}
# **A flat loss.** The theorem asks for $\ell' < 0$ at the best scores. Take $\ell(u) = (1 - u)^3$, smooth
# and strictly decreasing, and two sequences of two tokens: keys $(1, 0)$ and 0 with scores 1 and 0, keys
# $(0, 1)$ and 0 with scores 0.5 and 0. In the first $\ell'(1) = 0$, and the loss is $s_2^3$: it falls like
# $e^{-3\, p \cdot a}$, so a third of the lead does. The Att-SVM is at 45 degrees; the limit should be at
# $\arctan 3$, 71.6 degrees.


# %%
def log_excess(p):
    """log of 2 (L - L_*), p (N, 2): s_2^3 in the first sequence, (0.5 + 0.5 s_2)^3 - 0.5^3 in the second."""
    s = 1 / (1 + np.exp(p))  # (N, 2), the second token's attention in both sequences
    return np.log(s[:, 0] ** 3 + (3 * s[:, 1] + 3 * s[:, 1] ** 2 + s[:, 1] ** 3) / 8)


cubic = np.array([np.degrees(best_angle(log_excess, R)) for R in (10, 30, 100, 200)])
print("angles at R = 10, 30, 100, 200:", cubic.round(1))
assert (np.diff(cubic) > 0).all()
assert abs(cubic[-1] - np.degrees(np.arctan(3))) < 0.5

# %% [markdown]
# ## Questions
#
# **1.** You follow the path from $R = 0.1$ with 50 random starts and all end at the same tokens. Is that
# evidence that they are the global ones?
# <details><summary>Answer</summary>
#
# No. At a small radius there is one minimiser, near $-R\, g/\|g\|$; all 50 were one run from then on. Nor
# is a small residual with a positive curvature: a branch that has been left keeps both.
# </details>
#
# **2.** For which data is $r = 0$ in section 8.4, so that the direction of $p(R)$ approaches its limit
# faster than $1/R$?
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
# - $p(R)$, the best $p$ of length $R$, starts along descent's first step and at first turns twice as fast, by
#   $(H \hat g)_\perp/\|g\|$ per unit of $R$.
# - Its direction tends to the **global** Att-SVM (if feasible), also for heads for which one token alone is
#   best and weight on others costs in proportion. It tends to run parallel to its ray at a distance
#   $\|r\|$ that the SVM's own weights $\lambda_j$ predict, with a known correction of order $1/R$ and, from
#   nearly tight constraints, one of $e^{-R \cdot \text{slack}}$ that it leaves out: at $R = 30$ it misses by
#   over 5% in 201 of 360.
# - **The path is global; descent may be local.** $p(R)$ can **jump** to a better branch, mostly with no local
#   sign (a soft curvature in 8 of 93); it left its first one in at least 102 of our 360 problems. The two
#   ends, with their offsets, predict when, a few percent late in the median.
# - On a sphere $p$ is a minimum if the curvature of $H + \nu$ across $p$ is positive. At
#   the end of a branch it falls to 0 like a square root; what follows falls, too late.
# - Where descent finds the same tokens it ends up parallel to the path, in our problems about as far
#   from it as the path is from its ray; on it where the support vectors span the space (one case).
# - Mixtures and infeasible best tokens end the simple story: a finite part, a finite $p$, or another token.
#
# ## Further reading
#
# - D. A. Tarzanagh, Y. Li, X. Zhang, S. Oymak, *Max-Margin Token Selection in Attention Mechanism* (NeurIPS
#   2023, arXiv 2306.13596): the regularisation path, also for nonlinear heads.
# - D. A. Tarzanagh, Y. Li, C. Thrampoulidis, S. Oymak, *Transformers as Support Vector Machines* (2023, arXiv
#   2308.16898): the same for $W$.
# - Z. Ji, M. Dudík, R. Schapire, M. Telgarsky, *Gradient Descent Follows the Regularization Path for General
#   Losses* (COLT 2020, arXiv 2006.11226): for linear classifiers both have one direction as limit.
# - A. Suggala, A. Prasad, P. Ravikumar, *Connecting Optimization and Regularization Paths* (NeurIPS 2018):
#   descent and path at finite length.
#
# The offset $r$, the rate, the first turn and the laws of jump and fall are short arguments of this lesson,
# measured, not theorems of those papers.
#
# **New in the library:** [`tracing.Path`](../mini_attn/tracing.py),
# [`paths.regularization_path`](../mini_attn/paths.py).
#
# **Next:** [lesson 09](09_joint_training.ipynb): the head is trained too, and there are two radii.
