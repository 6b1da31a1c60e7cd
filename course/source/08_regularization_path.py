# %% [markdown] slideshow={"slide_type": "slide"}
# # 08 · Regularisation paths
#
# Gradient descent makes $p$ longer and longer. There is another way to let a vector grow: allow it a length
# $R$, take the *best* $p$ of that length, and raise $R$:
#
# $$p(R) = \arg\min_{\|p\| \le R} L(p).$$
#
# This is the **regularisation path**. It knows no start, no step and no history.
#
# **The question: gradient descent and the best $p$ of each length, do they go to the same place?**
#
# If the best tokens can be selected together, the path tends to their Att-SVM,
# while descent may end at another local winner. On its way the path may jump to other tokens, and a program
# that follows it need not notice. Where descent chooses the best tokens too, we argue that it ends up
# parallel to the path.

# %% [markdown] slideshow={"slide_type": "skip"}
# **After this lesson you can**
#
# - compute $p(R)$ in the plane, and a branch of it in any dimension;
# - derive where the path starts, and how fast it and descent turn at first;
# - predict where it ends, how far beside its limiting ray, and from which $R$ on;
# - tell a local minimum on the sphere, and prove from the loss alone which tokens are selected;
# - say why descent runs beside the path.
#
# **You need** [lesson 06](06_attention_as_svm.ipynb) (Att-SVM, forces between tokens) and [lesson
# 07](07_local_global_tokens.ipynb) (local and global winners). About 85 minutes (130 with a pencil), four
# exercises.

# %%
import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure
from scipy.special import lambertw

from course.exercise import check, exercise, progress, todo
from course.figure import show
from mini_attn import data, geometry, models, optim, plots, svm, train, widgets
from mini_attn.paths import regularization_path

plots.style()
torch.set_num_threads(1)  # many small tensors: one thread is fastest
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
# what attention loses by not being all on the best token; $\gamma_{\max}$ is the best score.


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
# In the plane there is no need to descend. All $p$ of length $R$ form a circle: we try 720 angles, and zoom
# in on the best. (Here smaller circles hold no better $p$: a cell below asserts it.)

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
    """p(R) at each radius, (radii, 2)."""
    return circle(np.array([best_angle(lambda p: shortfall(p, keys, scores), R) for R in radii]), radii)


def force(p, keys, scores):
    """-grad Gamma at one point p, (d,); -grad L is a positive multiple of it."""
    s = attention(p, keys)
    lead = scores - scores[s.argmax()]  # from the token ahead, so that nothing cancels far out (lesson 05)
    return (s * (lead - s @ lead)) @ keys


def descend(keys, scores, start, steps, length=0.05):
    """Normalised descent from start (2,) with steps of this length: (1 + steps, 2)."""
    run = [np.array(start, dtype=float)]
    for _ in range(steps):
        pull = force(run[-1], keys, scores)
        run.append(run[-1] + length * pull / np.linalg.norm(pull))
    return np.array(run)


def at_length(run, R):
    """The point of a run (steps, 2) that is nearest to length R, scaled to it."""
    p = run[np.abs(np.linalg.norm(run, axis=1) - R).argmin()]
    return p * (R / np.linalg.norm(p))


def degrees(p):
    return np.degrees(np.arctan2(p[..., 1], p[..., 0]))


# %% [markdown]
# **Predict before you run on.** The scores are $1, 0.9, 0$. In lesson 06 descent from $(0, 0)$ found token
# 1, and from $(0, -1.5)$ it stayed with token 2. Does $p(R)$ turn to token 1 with the first run, before it or
# after it?

# %%
radii = np.geomspace(0.1, 30, 40)
on_path = search(keys, spread, radii)
from_zero, from_below = (descend(keys, spread, start, 3500, 0.01) for start in ((0, 0), (0, -1.5)))
few = np.array([0.1, 1, 4, 12, 24])
ours = degrees(search(keys, spread, few))
theirs, others = (degrees(np.array([at_length(run, R) for R in few])) for run in (from_zero, from_below))
for R, *angles in zip(few, ours, theirs, others, strict=True):
    print(f"R = {R:4g}: path {angles[0]:5.1f}, descent from 0 {angles[1]:5.1f}", end="")
    print(f", from (0, -1.5) {angles[2]:5.1f}" if R > 2 else "")
assert np.abs((ours - theirs)[[0, -1]]).max() < 1.5
assert (np.diff(shortfall(on_path, keys, spread)) < 0).all()


# %% jupyter={"source_hidden": true}
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
# **Figure 1.** Left: the shortfall, shaded on each circle from its smallest value (white) to its largest.
# Thin black: the Att-SVM directions. Right: the same in the $p$-plane, with names.

# %% [markdown]
# Descent from 0 and the path leave and end in the same direction, but the path is quicker to turn.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 8.2 Small radii
#
# Near 0, $L(p) \approx L(0) + g \cdot p$ with $g = \nabla L(0)$, and to first order the best $p$ of length
# $R$ is $-R\, g / \|g\|$. So **the path starts in the direction of descent's first step**, if $g \ne 0$.
#
# Then both turn away from $-\hat g$, where $\hat g = g/\|g\|$, but not equally fast. How fast is decided by
# $g$ and by $H$, the matrix of second derivatives at 0.

# %% [markdown]
# ### Exercise 08.1: The first turn
#
# ★★☆ · 10 minutes
#
# Both curves, at length $R$, are $p/R = -\hat g + R\, b + O(R^2)$ with a vector $b \perp \hat g$. Return
# the two vectors $b$: first that of the path, then that of descent from 0 with very small steps, which
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
# <details><summary>The derivation, when you have yours</summary>
#
# Let $(\cdot)_\perp$ be the part across $\hat g$. *The path.* Put $p = R(-\hat g + R\,b)$ into $g + Hp$.
# Across $p$ it must vanish, and $\hat g$ is not quite the direction of $-p$: $g$ itself has the part
# $\|g\|\,R\,b$ across $p$, to first order in $R$, and $Hp$ has $-R\,(H \hat g)_\perp$. So $b = (H
# \hat g)_\perp/\|g\|$. *Descent.* $p = -\tau g + \frac{\tau^2}{2} H g + \dots$, of length $R \approx \tau
# \|g\|$; across $\hat g$ it is $\frac{\tau^2}{2} \|g\| (H \hat g)_\perp$, and divided by $R^2$ this is $(H
# \hat g)_\perp / (2\|g\|)$.
# </details>
#
# **At first the path turns twice as fast.**


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


toy = tokens_of(keys, spread)
at_zero = derivatives(torch.zeros(1, 2, dtype=torch.float64), toy.keys[None], toy.scores[None])
(g,), (H,) = (part.numpy() for part in at_zero)
outset = -g / np.linalg.norm(g)
rates = np.degrees(np.asarray(first_turn(g, H)) @ np.array([-outset[1], outset[0]]))
print(f"toy: starts at {degrees(outset):.1f} degrees; predicted turn / R {rates[0]:.2f}, {rates[1]:.2f}")
near = np.array([0.003, 0.03, 0.3])
runs = np.array([descend(keys, spread, (0, 0), 500, R / 500)[-1] for R in near])
a, b = ((degrees(points) - degrees(outset)) / near for points in (search(keys, spread, near), runs))
for R, *turns in zip(near, a, b, strict=True):
    print(f"R = {R:5g}: path {turns[0]:6.2f}, descent {turns[1]:5.2f}, ratio {turns[0] / turns[1]:.2f}")
assert np.abs(np.array([a[0], b[0]]) / rates - 1).max() < 0.004, again.format("08.1")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 8.3 Any dimension: projected steps
#
# Beyond the plane we descend, but on a ball: take a gradient step, and if it led out, come back to
# the nearest point of the ball. `mini_attn.paths.regularization_path` does this, and it **follows**: each
# radius starts from the solution at the radius before.
#
# On the sphere, projected steps stop where $-\nabla L(p) = \nu\, p$ with $\nu > 0$ (or $\nabla L = 0$):
# downhill is straight outwards. The library's *residual* measures the angle between $-\nabla L$ and $p$. But
# a saddle of the sphere has residual 0, too.

# %% [markdown]
# ### Exercise 08.2: Is it a minimum on the sphere?
#
# ★★☆ · 10 minutes
#
# At $p$, of length $R$, the gradient is now $g = -\nu\, p$ with $\nu > 0$, the second derivatives are $H$.
# Walk away from $p$ on a great circle of the sphere, in a direction $e \perp p$ with $\|e\| = 1$; let
# $\sigma$ be the length of the way. Return the **curvature**: the smallest value of $d^2 L/d\sigma^2$ at
# $\sigma = 0$ among all these $e$. If it is positive, $p$ is a local minimum there. Must $H$ be positive
# definite for that?
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
# The second derivative is $e^\top H\, e + \nu$: the sphere helps with $\nu$, so a negative $H$ may do. In the
# toy, search and library agree to .01 degrees:

# %%
library = regularization_path(models.PromptAttention(2), toy, few, tol=1e-8)["p"].numpy()
assert abs(degrees(library) - ours).max() < 0.01

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 8.4 Large radii
#
# > **Theorem** (Tarzanagh, Li, Zhang and Oymak, 2023; informal, in our words). Fix the head $v$ and let
# > $\ell$ be smooth with $\ell' < 0$ everywhere. Let each sequence have one best token, $\mathrm{opt}_i =
# > \arg\max_t \gamma_{it}$, and let the Att-SVM of these tokens be feasible. Then, whichever minimiser $p(R)$
# > is where there are several, as $R \to \infty$,
# >
# > $$\frac{p(R)}{R} \;\to\; \frac{p_{\mathrm{mm}}(\mathrm{opt})}{\|p_{\mathrm{mm}}(\mathrm{opt})\|}.$$
#
# The one limit is the *global* one of lesson 07. $L$ is a mean over $n$ sequences; let $L_*$ be that of
# $\ell(\gamma_{i\,\mathrm{opt}_i})$, which no $p$ can beat. If attention is nearly on the best tokens,
#
# $$L(p) - L_* \;\approx\; \sum_j w_j\, e^{-p \cdot a_j}, \qquad
# w_j = \tfrac1n\, |\ell'(\gamma_{i\,\mathrm{opt}_i})|\, (\gamma_{i\,\mathrm{opt}_i} - \gamma_{it}) > 0,$$
#
# where $j$ runs over all comparisons $(i, t)$, $t \ne \mathrm{opt}_i$, and $a_j = k_{i\,\mathrm{opt}_i} -
# k_{it}$. For long $p$ the smallest $p \cdot a_j$ decides; to make it as large as possible is the SVM.
#
# <details><summary>Proof</summary>
#
# Let $\hat p = p_{\mathrm{mm}} / \|p_{\mathrm{mm}}\|$ and $\mu = \min_j \hat p \cdot a_j > 0$. At $R\,\hat p$
# each other token has attention of at most $e^{-\mu R}$. So $L(p(R)) - L_* \le L(R\,\hat p) - L_* \le C
# e^{-\mu R}$ with a constant $C$.
#
# Suppose that $p(R)/R$ comes to $q \ne \hat p$ along some radii. Only $\hat p$ has length 1 or less and all
# $p \cdot a_j \ge \mu$ (lesson 02). So $q \cdot a_j < \mu$ for some $j = (i, t)$, and there is $m < \mu$ with
# $p(R) \cdot a_j \le m R$ at all large such radii. Then token $t$ has at least $e^{-m R}$ times the attention
# of the best token of its sequence. If the best has half or more, the others have at least $\frac12 e^{-m R}$
# together; if not, they have at least $\frac12$. So the mixed score falls short of the best by the smaller of
# the two, times the gap to the second best score. As $|\ell'|$ is bounded below between the least score and
# the largest, and no other sequence is below its least loss, $L(p(R)) - L_*$ is at least a constant times
# $\min(1, e^{-m R})$. For large $R$ that is more than $C e^{-\mu R}$: a contradiction.
# </details>

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### How fast? The offset
#
# Write $p(R) = R\, \hat p + r$ with $\hat p = p_{\mathrm{mm}}/\|p_{\mathrm{mm}}\|$. At a minimum on the
# sphere $\sum_j w_j e^{-p \cdot a_j}\, a_j$ is nearly $p$ times a positive factor. For large $R$ only support
# vectors remain in the sum, with a common factor; and $p$ is nearly a multiple of $p_{\mathrm{mm}} = \sum_j
# \lambda_j a_j$ (lesson 02; $\lambda_j > 0$ on the support vectors of keys in general position). So, if these
# are independent, the coefficients agree up to a factor:
#
# $$w_j\, e^{-r \cdot a_j} \;\propto\; \lambda_j \qquad\Longleftrightarrow\qquad
# r \cdot a_j = \log \frac{w_j}{\lambda_j} + \text{const} \qquad \text{for each support vector } j .$$
#
# $R$ is not in these conditions: the path should run *parallel* to its ray, at the distance $\|r\|$
# (Figure 3).

# %% [markdown]
# ### Exercise 08.3: The path's offset
#
# ★★★ · 20 minutes
#
# The support vectors $a_j$ are the rows of `rows`; you also get their weights $w_j$ and the SVM's
# $\lambda_j$. Return the limit of $r$ as $R \to \infty$.
#
# The condition above leaves two things open: the constant, and all that is orthogonal to the support vectors.
# Two facts about $p(R)$ settle them: its length is $R$, as far out the loss falls outwards, and it is a
# stationary point of the sphere.
#
# <details><summary>Hint 1</summary>
#
# What does $\|R\, \hat p + r\| = R$ say about $r \cdot \hat p$, as $R \to \infty$? Of which vectors is the
# gradient a combination, far out?
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
# <details><summary>The two facts</summary>
#
# $R^2 = \|R\,\hat p + r\|^2 = R^2 + 2R\, r \cdot \hat p + \|r\|^2$, so $r \cdot \hat p = -\|r\|^2 / (2R) \to
# 0$. At a stationary point $p$ is a multiple of the gradient, far out a combination of the support vectors;
# $\hat p$ is one, so $r$ is one too, up to what other tokens still have in $p$ (below). A multiple of $\hat
# p$ may be subtracted: $\hat p \cdot a_j$ is the same for all support vectors, so only the constant changes.
# </details>
#
# **From which $R$ on?** Scale the keys so that $\|p_{\mathrm{mm}}\| = 1$, and write, at finite $R$, $r =
# \sum_j \lambda_j' a_j$. Then $p$ has the coefficients $R \lambda_j + \lambda_j'$, and these are what the
# forces balance, by the **law with $1/R$**:
#
# $$w_j\, e^{-r \cdot a_j} \;\propto\; \lambda_j + \frac{\lambda_j'}{R}.$$
#
# So the limit has an error like $1/R$, large where a $\lambda_j$ is small. And a token with $\hat p \cdot a_j
# = 1 + \text{slack}$ still has some $R\, e^{-R\,\cdot\,\text{slack}}$ in $p$ if small: it is *late* while
# that is above 5% of $\|r\|$.
#
# The measurement: 180 random problems, $n = 3$, $T = 4$, $d = 10$. The library starts on the ray, at $R =
# 30$, and follows.
#
# <details><summary>Is this $p(R)$, or only a branch?</summary>
#
# At these four radii it is $p(R)$. As $\ell$ is convex, $L - L_* \ge \sum_j w_j s_j$ with $s_j$ the attention
# on the token of comparison $j$; so any lower point has $s_j \le (L - L_*)/w_j$, with our $L$: below
# $10^{-9}$ (the cell asserts that). There $L - L_*$ is $\sum_j w_j e^{-p \cdot a_j}$ to nine digits, and the
# logarithm of that sum is convex: on the ball it has no second minimum. So $p(R)$ is there; and as the sphere
# adds a curvature of about $1/R$ to the logarithm, nine digits and a residual of $10^{-6}$ leave it a few
# thousandths of room.
# </details>


# %% slideshow={"slide_type": "subslide"}
def unit_problems(trials, seed, n=3, T=4, d=10):
    """Random problems, keys scaled to ||p_mm|| = 1; their best tokens must be feasible."""
    drawn = data.random_tokens(n, T, d, trials=trials, seed=seed)
    lengths = svm.solve(svm.token_problem(drawn.keys, drawn.optimal)).value.norm(dim=-1)
    return data.TokenData(*fields(drawn)[:-1], drawn.keys * lengths[:, None, None, None])


def fields(tokens):
    return tokens.X, tokens.z, tokens.y, tokens.v, tokens.keys


def expected(tokens):
    """p_hat (trials, d), a_j (trials, j, d), n w_j and lambda_j (trials, j), limit of r (trials, d)."""
    best = tokens.scores.amax(dim=-1, keepdim=True)
    problem = svm.token_problem(tokens.keys, tokens.optimal)
    solution = svm.solve(problem)  # its dual is scaled to p_hat = sum_j lambda_j a_j
    unit, lam = solution.value / solution.value.norm(dim=-1, keepdim=True), solution.dual
    weights = ((best - tokens.scores) / (1 + best.exp()))[tokens.scores < best].reshape(lam.shape)
    each = zip(problem.a.numpy(), weights.numpy(), lam.numpy(), (lam > 1e-6).numpy(), strict=True)
    r = torch.as_tensor(np.array([offset(a[on], w[on], c[on]) for a, w, c, on in each]))
    return unit, problem.a, weights, lam, r


def offset_at(R, unit, rows, weights, lam, r):
    """r of the law with 1/R, (trials, d), by damped steps from its limit r; R is a number or (trials, 1)."""
    on = lam > 1e-6
    inverse = torch.linalg.pinv(rows * on[..., None])
    for _ in range(40):
        share = (lam + (r[:, None] @ inverse)[:, 0] / R).maximum(lam / 1000)
        shortest = (inverse @ torch.where(on, (weights / share).log(), 0)[..., None])[..., 0]
        r = 0.7 * r + 0.3 * (shortest - (shortest * unit).sum(-1, keepdim=True) * unit)
    return r


many = data.TokenData(*map(torch.cat, zip(*(fields(unit_problems(60, k)) for k in (1, 2, 3)), strict=True)))
unit, rows, weights, lam, r = problems = expected(many)
trials, d = unit.shape
slack = ((rows @ unit[..., None])[..., 0] - 1).where(lam < 1e-6, torch.inf).amin(-1)

print("    R   limit r: median error, within 5%   law with 1/R: within 5%, if no token is late")
close, sideways = [], torch.zeros_like(r)
for R in (30, 100, 300, 1000):
    path = regularization_path(models.PromptAttention(d, trials, init=R * unit + sideways), many, [R])
    p = path["p"][0]
    sideways = p - (p * unit).sum(-1, keepdim=True) * unit  # what should be r
    limit, law = ((sideways - x).norm(dim=-1) / r.norm(dim=-1) for x in (r, offset_at(R, *problems)))
    early = R * torch.exp(-R * slack) < 0.05 * r.norm(dim=-1)  # no token is late
    close.append([int((x < 0.05).sum()) for x in (limit, law, law[early])] + [int(early.sum())])
    print("{:5g} {:22.2f} {:11d} {:24d} {:12d} of {}".format(R, limit.median(), *close[-1]))
    excess = (weights * torch.exp(-rows @ p[..., None])[..., 0]).sum(-1)  # n (L - L_*)
    assert (path.residual <= 1e-6).all()
    assert (excess < 1e-9 * weights.amin(-1)).all()
assert close[-1] == [161, 172, 172, 172], again.format("08.3")

# %% [markdown]
# At $R = 1000$ the limit is right to within 5% in 161 of 180 problems, the law with $1/R$ in 172. In the
# other 8 a token is late, in the 172 none.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 8.5 The path can jump
#
# The limit is global, the start is local: the gradient at 0. What if they disagree? Give the best token of
# the toy a weak key on the far side, $k_1 = (-0.3, 0.2)$.

# %%
weak = np.array([[-0.3, 0.2], [1.0, 0.0], [0.0, 0.0]])
on_path = search(weak, spread, radii)
followed = regularization_path(models.PromptAttention(2), tokens_of(weak, spread), radii)["p"].numpy()
run = descend(weak, spread, (0, 0), 700)
assert abs(degrees(np.array([followed[-1], run[-1]]))).max() < 2 < 140 < np.ptp(degrees(on_path))

# %% jupyter={"source_hidden": true}
fig, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.4), width_ratios=[1.3, 1])
draw_map(left, weak, spread, radii)
split = abs(np.diff(degrees(on_path))).argmax() + 1
for part in (slice(None, split), slice(split, None)):
    name = "path $p(R)$" if part.start is None else None
    left.plot(degrees(on_path[part]), radii[part], color=PATH, linewidth=6, alpha=0.55, label=name)
left.plot(degrees(followed), radii, ":", color=BLACK, linewidth=2, label="followed")
left.plot(degrees(run), np.linalg.norm(run, axis=1), "--", color=DESCENT, label="descent from 0")
left.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3, fontsize=10)
right.loglog(radii, shortfall(on_path, weak, spread), color=PATH, linewidth=6, alpha=0.55)
right.loglog(radii, shortfall(followed, weak, spread), ":", color=BLACK, linewidth=2)
right.set(xlabel="radius $R$", ylabel=r"shortfall $\Gamma$", ylim=(1e-5, 2))
show(
    fig,
    alt="Left, angle against radius: the broad path goes from 21 degrees to 0 and jumps near R = 6 to 146 "
    "degrees; the followed path and descent stay near 0. Right, shortfall against radius: that of the path "
    "falls on, that of the followed points levels off at 0.1.",
)

# %% [markdown]
# **Figure 2.** Left: as Figure 1, for the weak key. Right: the shortfall of $p(R)$ (broad) and of the
# followed path (dotted).

# %% [markdown]
# The path jumps; here the followed one stays on its branch, and so does descent. **$p(R)$ need not be
# continuous, and what continues smoothly need not be $p(R)$.**

# %% [markdown]
# **Try it.** The shortfall round the circle (a row of Figure 2's map), with $p(R)$ and descent from 0 at
# equal length. Near which radius do the two valleys change places, and does anything in the valley of token 2
# announce it?
#
# <details><summary>Answer</summary>
#
# Near $R = 6$. Nothing: it is a valley before and after, only no longer the deeper one.
# </details>


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
# ### The count: 180 random problems
#
# In the problems of 8.4 we follow one **branch** (a curve of local minima, continuous in $R$) outwards, from
# descent's first step at $R = 0.3$. The other comes from the theorem: from $R\,\hat p$ at $R = 12$ *inwards*.
# Where it is lower, $p(R)$ has left the branch on which it began.
#
# Why stop at $R = 12$? From there on $p(R)$ selects the best tokens in all 180. The loss proves it: how?

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
# No: a sequence with high scores is cheap to lose, as $\ell$ is flat there.
#
# <details><summary>Why no larger number will do</summary>
#
# If another token ties, its sequence's mixed score is at most the mean of its two best; the others lose at
# least their least. In the cheapest sequence give both tokens one key, in the others give it to the best
# token alone, and 0 to all the rest: along that key the loss comes as near to $c$ as one likes.
# </details>
#
# **Predict**: $p(R)$ leaves its branch or not, descent from 0 ends at the best tokens or not. Which of these
# four boxes is the emptiest, and is that a rule?

# %%
grid = np.geomspace(0.3, 12, 24)
chain = regularization_path(models.PromptAttention(d, trials), many, grid, tol=1e-4, max_steps=200)
inner, p = [], unit
for R in grid[::-1]:  # inwards
    start = models.PromptAttention(d, trials, init=R * p / p.norm(dim=-1, keepdim=True))
    branch = regularization_path(start, many, [R], tol=1e-4)
    inner, p = [branch.loss[0], *inner], branch["p"][0]
lower = chain.loss - torch.stack(inner) > 1e-6
jumped = lower.any(dim=0)
print(f"the outward branch is too high in {jumped.sum()} of {trials}, at R = 12 still in {lower[-1].sum()}")

# %%
model = models.PromptAttention(d, trials)
train.fit(model, many, optim.NormalizedGD(model.parameters(), lr=0.02, batch_dims=1), 17000, progress=False)
end = model.p.detach()
same = (geometry.selected_tokens(model.attention(many)) == many.optimal).all(dim=-1)
print("180 problems             descent ends at the best tokens   at others")
table = [[int((a & b).sum()) for b in (same, ~same)] for a in (jumped, ~jumped)]
for name, counts in zip(("p(R) left its branch", "not at our 24 radii"), table, strict=True):
    print(f"{name:24s} {counts[0]:31d} {counts[1]:11d}")
c = torch.tensor([float(proving_loss(scores)) for scores in many.scores.numpy()])
on_ray, after = (mean_loss(p, many.keys, many.scores) < c for p in (12 * unit, end))
assert (table, all(on_ray), all(after == same)) == ([[17, 27], [136, 0]], True, True), again.format("08.4")

# %% [markdown]
# $p(R)$ leaves its branch in at least 44 problems. **With no jump seen, descent found the best tokens in all
# 136, with one in 17 of 44.** No rule: problem 12 of seed 23 breaks it (not shown).
#
# At $R = 12$ the loss on the ray is below $c$ in all 180 (and $L(p(R))$ only falls further out), after
# descent in just the 153 with the best tokens.
#
# Were the followed points, in the 44, local minima? Where first beaten we let them converge, and ask
# `curvature`.


# %%
# What happens at R happens at radius 1 with keys times R.
def shrunk(which, R):
    return data.TokenData(*(part[which] for part in fields(many)[:-1]), many.keys[which] * R[..., None, None])


first = lower.int().argmax(dim=0)[jumped]
R_first = torch.tensor(grid)[first, None]
scaled = shrunk(jumped, R_first)
beaten = models.PromptAttention(d, len(first), init=chain["p"][first, jumped] / R_first)
bottom = regularization_path(beaten, scaled, [1.0])
local = zip(bottom["p"][0], *derivatives(bottom["p"][0], scaled.keys, scaled.scores), strict=True)
bent = np.array([curvature(*(part.numpy() for part in parts)) for parts in local])
above = bottom.loss[0] - torch.stack(inner)[first, jumped]
minima = (bottom.residual[0] <= 1e-6).numpy() & (bent > 0)
print(f"of {len(first)} points {minima.sum()} are minima, {(above > 1e-5).sum()} above the other branch")
assert [(minima & (above > 1e-5).numpy()).sum(), lower[-1].sum()] == [44, 35], again.format("08.2")

# %% [markdown]
# All 44 are local minima on the sphere.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 8.6 Descent against the path
#
# Where both select the same tokens, how close do they come? Descent *adds up* the forces $w_j e^{-p \cdot
# a_j} a_j$ that the path balances. Let its steps be small. If their direction settles, then along $\hat p
# \propto \sum_j \lambda_j a_j$, as $p$ takes it on and support vectors remain. So $p - R\,\hat p$ meets the
# conditions of the limit $r$ on the support vectors, without $\lambda_j'/R$: only what is being added follows
# the forces. What the first steps added is a fading share of $R \lambda_j$.
#
# But $p - R\,\hat p$ need not be a combination of *them*. Orthogonal to all support vectors, descent keeps
# what other tokens put there. So the distance at equal length should tend to the length of that part, **and
# to 0 if the support vectors span the space**. The law's $1/R$, in their span, adds by Pythagoras.
#
# Token 1 has one support vector in the toy, two in the hexagon of lesson 07.

# %%
hexagon = np.array([[0.2, 1.1], [1, 0.6], [0.9, -0.5], [0.1, -1.1], [-0.9, -0.6], [-1, 0.5], [0.1, 0.1]])
gamma = np.array([1.0, 0.3, 0.8, 0.2, 0.7, 0.1, 0.5])
lengths = 2.0 ** np.linspace(-3, 8, 89)
seen = {}
print("distance of descent and path at R =", *(f"{R:7g}" for R in lengths[24::16]))
for name, (own, scores) in {"toy": (keys, spread), "hexagon": (hexagon, gamma)}.items():
    solved = expected(data.TokenData(*(part[None] for part in fields(tokens_of(own, scores)))))
    unit_1, beside = solved[0][0].numpy(), solved[-1][0].numpy()
    walked, there = descend(own, scores, (0, 0), 5600), search(own, scores, lengths)
    distance = np.linalg.norm(there - [at_length(walked, R) for R in lengths], axis=1)
    frame = np.array([unit_1, [-unit_1[1], unit_1[0]]]).T  # along the ray, and to its left
    seen[name] = [points @ frame for points in (there, walked, beside)]
    print(f"{name:34s}", *(f"{x:7.3f}" for x in distance[24::16]))
predicted = np.array([(offset_at(R, *solved) - solved[-1]).norm() for R in lengths[56::16]])  # hexagon
assert np.abs(predicted / distance[56::16] - 1).max() < 0.02, again.format("08.3")
far = lengths >= 8
tail = lambertw(lengths[far] / 10 * np.exp(-lengths[far] / 10)).real  # x e^x = (R / 10) e^(-R / 10)
assert np.abs(seen["toy"][0][far, 1] - tail).max() < 0.01

p, R = end[same], end[same].norm(dim=-1, keepdim=True)
start = models.PromptAttention(d, len(p), init=unit[same] + r[same] / R)
apart = (p - R * regularization_path(start, shrunk(same, R), [1.0])["p"][0]).norm(dim=-1)
own = (rows * (lam > 1e-6)[..., None])[same]  # support vectors
part = (p - (torch.linalg.pinv(own) @ own @ p[..., None])[..., 0]).norm(dim=-1)  # orthogonal to them
more = (offset_at(R, *(of[same] for of in problems)) - r[same]).norm(dim=-1)
missed, last = ((apart - x).abs() > 0.05 for x in (part, torch.hypot(part, more)))
R, least = R[:, 0], lam.where(lam > 1e-6, torch.inf).amin(-1)[same]
late, small = R * torch.exp(-R * slack[same]) >= 0.05 * r[same].norm(dim=-1), R * least < 8
counts = [int(x.sum()) for x in (missed, last, last & late, last & small & ~late, ~late & ~small)]
print("153 problems: off by > .05: {}; with 1/R {} ({} late, {} small R lambda); neither: {}".format(*counts))
assert counts == [21, 17, 10, 7, 84]

# %% jupyter={"source_hidden": true}
fig, axes = plt.subplots(1, 2, figsize=(10.5, 3.6))
for ax, (name, (there, walked, beside)) in zip(axes, seen.items(), strict=True):
    ax.axhline(0, color=GREY, linewidth=1.5, label="ray of the Att-SVM")
    ax.plot(*there.T, color=PATH, linewidth=5, alpha=0.55, label="path $p(R)$")
    ax.plot(*walked.T, "--", color=DESCENT, label="descent from 0")
    predicted = (lengths[far], tail) if name == "toy" else ([0.3, 250], [beside[1]] * 2)
    ax.plot(*predicted, ":", color=BLACK, linewidth=1.5, label="predicted")
    ax.set(xscale="log", xlim=(0.3, 250), xlabel="along the ray", ylabel="across the ray", title=name)
axes[1].legend(loc="lower right", fontsize=10)
show(
    fig,
    alt="Two panels: the part of p across the ray against the part along it. In the toy the path is "
    "on the predicted curve from R = 8, highest near 10, and comes back to the ray; descent ends parallel to "
    "it, beside. In the hexagon both run into a line beside the ray, the predicted r.",
)

# %% [markdown]
# **Figure 3.** Path and descent from 0 along the ray of token 1 and across it (log and linear scale). Dotted:
# the late token's part (toy), $r$ (hexagon).

# %% [markdown]
# *The toy.* With one support vector $r = 0$. First the path overshoots its ray: token 2 has a tenth of token
# 3's weight and on the ray a slack of a tenth. Its part $x$ of $p$ is $R$ times the ratio of their pulls, $x
# \approx \frac{R}{10}\, e^{-R/10 - x}$ ($x$ weakens its own pull), largest at $R = 10$. Then it bends into
# the ray; descent ends beside.
#
# *The hexagon.* Two support vectors span the plane: both run into the line that $r$ predicts. Their distance
# is the law's $1/R$, to 2% at $R = 16, 64, 256$.
#
# *The 153 problems* in which descent finds the best tokens: the orthogonal part is the distance to within .05
# in 132, with the law's $1/R$ in 136. All other 17 have a late token or an $R\lambda_j < 8$, but 52 of the
# 136 have, too.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 8.7 Where it breaks
#
# **A mixture beats each token alone.** A nonlinear head reads $\bar x = \sum_t s_t x_t$. Take $f(\bar x) =
# -\|\bar x - \bar x_*\|^2$, best at $\bar x_* = 0.7\, x_1 + 0.3\, x_2$. Now $p$ has two tasks: to leave token
# 3 behind, which takes length, and to hold $s_1 : s_2$ at $7 : 3$, which takes *exactly* $p \cdot (k_1 - k_2)
# = \log (7/3)$, a finite number. Let $p(R)$ be best for $f$ on the circle. Predict: to which direction does
# it tend?

# %%
values = np.array([[1.0, 0.0], [0.9, 0.5], [0.0, -1.0]])  # x_t; keys are the toy's
share = np.array([0.7, 0.3])
few, centre, side = np.array([10, 30, 100]), share @ values[:2], keys[0] - keys[1]
level = degrees(np.array([side[1], -side[0]]))
print(f"perpendicular to k_1 - k_2: {level:.1f} degrees; log(7/3) = {np.log(7 / 3):.3f}")
for R in few:
    found = best_angle(lambda p: ((attention(p, keys) @ values - centre) ** 2).sum(axis=-1), R)
    p = circle(found, R)
    print(f"R = {R:3d}: {degrees(p):5.1f} degrees, p.(k_1 - k_2) {p @ side:.3f}")
assert abs(p @ side - np.log(7 / 3)) < 1e-3

# %% [markdown]
# It tends to the direction with $p \cdot (k_1 - k_2) = 0$ that leaves token 3 behind. Here too a finite
# vector is added, but now it decides the attention: direction alone no longer tells what the model does
# (lesson 13).

# %% [markdown]
# ## Questions
#
# **1.** You follow the path from $R = 0.1$ with 50 random starts and all end at the same tokens. Is that
# evidence that they are the global ones?
# <details><summary>Answer</summary>
#
# No. At a small enough radius there is one minimiser, near $-R\, g/\|g\|$, if $g \ne 0$; all 50 were one run
# from then on. Nor is a small residual with a positive curvature: all 44 points that were left had both.
# </details>
#
# **2.** On the ray a token has a slack of .002. From which $R$ on do you trust $r$?
# <details><summary>Answer</summary>
#
# Where $R\,e^{-.002 R}$ is small against $\|r\|$: at $R = 1000$ it says 135, at 6000 .04. (With one
# support vector $r = 0$: by the 5% of 8.4 a token is then late for ever.)
# </details>

# %%
progress("08")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - $p(R)$, the best $p$ of length $R$, starts along descent's first step and at first turns twice as fast.
# - Its direction tends to the **global** Att-SVM, if that is feasible. Far out it runs parallel to its ray,
#   beside it by a vector $r$ that the SVM's weights $\lambda_j$ and the scores predict: with the $1/R$ to
#   within 5% in 172 of 180 problems at $R = 1000$; in the other 8 a token of small slack is late.
# - **The path is global; descent may be local.** In 180 problems $p(R)$ left its branch in at least 44;
#   descent found the best tokens in 17 of these, and in all 136 others.
# - A program that follows the path need not notice: in all 44 its point was a local minimum on the sphere. A
#   loss below $c$ proves which tokens are selected.
# - Where descent finds the same tokens it ends up parallel to the path, for small steps, if their direction
#   settles. The distance tends to descent's part orthogonal to the support vectors: within .05 in 132 of 153.
# - Where a mixture is best, the finite part beside $p(R)$'s ray decides the attention.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Further reading
#
# - D. A. Tarzanagh, Y. Li, X. Zhang, S. Oymak, *Max-Margin Token Selection in Attention Mechanism* (NeurIPS
#   2023, arXiv 2306.13596): the regularisation path, also for nonlinear heads (lesson 13).
# - D. A. Tarzanagh, Y. Li, C. Thrampoulidis, S. Oymak, *Transformers as Support Vector Machines* (2023, arXiv
#   2308.16898): the same for $W$.
# - Z. Ji, M. Dudík, R. Schapire, M. Telgarsky, *Gradient Descent Follows the Regularization Path for General
#   Losses* (COLT 2020, arXiv 2006.11226): for linear classifiers, a limit
#   direction of the path is descent's.
# - A. Suggala, A. Prasad, P. Ravikumar, *Connecting Optimization and Regularization Paths* (NeurIPS 2018):
#   descent and path at finite length.
#
# The offset $r$ with its $1/R$, the first turn and the distance of descent from the path are short arguments
# of this lesson, not theorems of those papers. Jumps are counted only at $n = 3$, $T = 4$, $d = 10$.
#
# **New in the library:** [`tracing.Path`](../mini_attn/tracing.py),
# [`paths.regularization_path`](../mini_attn/paths.py).
#
# **Next:** [lesson 09](09_joint_training.ipynb): the head is trained too.
