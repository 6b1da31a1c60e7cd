# %% [markdown] slideshow={"slide_type": "slide"}
# # 13 · Nonlinear heads
#
# So far each sequence ended up with one token. The head was linear, $f = v \cdot \bar x$, and the best
# mixture of tokens can never beat the best token: a weighted mean of values is at most the largest of them.
#
# A real layer puts a perceptron behind the attention. It reads the mixture $\bar x = \sum_t s_t x_t$ and
# bends it, $f(\bar x) = \sum_k \phi(V_k \cdot \bar x)$, and then a mixture may be worth more than any token
# in it.
#
# **The question: which tokens does attention keep when the head is nonlinear, and where does $W$ go then?**

# %% [markdown] slideshow={"slide_type": "skip"}
# **After this lesson you can**
#
# - say from the curvature of the head and the label when a mixture wins, and certify that it is the best one;
# - write down the two parts of the limit, $W \approx W_{\mathrm{fin}} + R\, W_{\mathrm{dir}}$, and the SVM of
#   each;
# - predict how slowly normalised descent gets there, and why a Newton step does not care;
# - read the kept tokens from rates, without a threshold on the attention, and have the SVM confirm them;
# - say what a ReLU's kinks, local mixtures and rounding do to all this.
#
# **You need** [lesson 06](06_attention_as_svm.ipynb) (Att-SVM), [lesson 07](07_local_global_tokens.ipynb)
# (local winners), [lesson 08](08_regularization_path.ipynb) (paths; its last section has the first mixture)
# and [lesson 10](10_cross_self_attention.ipynb) ($W$ and its Att-SVM). About 80 minutes, five exercises.

# %%
import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure
from scipy.special import ndtr

from course.exercise import check, exercise, progress, todo
from course.figure import show
from course.replicate import measured
from mini_attn import (
    data,
    heads,
    mixtures,
    models,
    newton,
    optim,
    plots,
    svm,
    train,
    widgets,
)

plots.style()
torch.set_num_threads(1)  # many small tensors: one thread is fastest
np.set_printoptions(precision=3, suppress=True)
BLUE, ORANGE, GREEN, BLACK, GREY = (
    plots.COLORS[name] for name in ("blue", "vermillion", "green", "black", "grey")
)
again = "this differs from the text: if exercise {} has no tick, start there"

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 13.1 The idea in a picture
#
# One sequence, three tokens in the plane. Every attention $s$ is a point of their triangle, $\bar x =
# \sum_t s_t x_t$: a token at each corner, mixtures of two on the edges. The head has two hidden units and
# the smooth activation $\phi(u) = \mathrm{gelu}(4u)$, where $\mathrm{gelu}(u) = u\, P(\text{a normal
# number} \le u)$ looks like a ReLU without its corner.


# %%
def head(x, V):
    """f(x) = sum_k gelu(4 V_k.x) for points x (..., d): (...)."""
    u = 4 * x @ V.T
    return (u * ndtr(u)).sum(axis=-1)


def gradient(x, V):
    """Its gradient, (..., d)."""
    u = 4 * x @ V.T
    return 4 * (ndtr(u) + u * np.exp(-(u**2) / 2) / np.sqrt(2 * np.pi)) @ V


def mixtures_of(T, parts=100):
    """All attentions of T = 3 tokens in steps of 1 / parts, (N, 3)."""
    assert T == 3
    return np.array([[a, b, parts - a - b] for a in range(parts + 1) for b in range(parts + 1 - a)]) / parts


x = np.array([[1.0, 0.2], [-0.5, 0.9], [-0.4, -0.9]])
V = np.array([[0.2, 0.6], [-0.1, -0.75]])
grid = mixtures_of(3)
best = {y: grid[(y * head(grid @ x, V)).argmax()] for y in (1, -1)}
for y, s in best.items():
    print(
        f"label {y:+d}: y f of tokens {y * head(x, V)}, of the best mixture {y * head(s @ x, V):.2f} at {s}"
    )
assert (best[1] == [0, 0, 1]).all()
assert best[-1][0] == 0
assert abs(best[-1][1] - 0.57) < 0.015
assert (-head(x, V) < 0).all()
assert -head(best[-1] @ x, V) > 0


# %% jupyter={"source_hidden": true}
def draw_triangle(ax, x, V, y, scale=4.0):
    """y f over the triangle of the tokens, with its best point; V is scaled by scale / 4."""
    points = grid @ x
    levels = y * head(points, V * scale / 4)
    low, high = levels.min(), levels.max()
    shades = plt.get_cmap("Blues")(np.linspace(0.05, 0.75, 12))
    filled = ax.tricontourf(*points.T, levels, levels=np.linspace(low, high, 13), colors=shades)
    ax.plot(*np.vstack([x, x[:1]]).T, color=BLACK, linewidth=1)
    top = points[levels.argmax()]
    ax.plot(*top, "*", color=ORANGE, markersize=20, markeredgecolor="white")
    for t, (point, shift) in enumerate(zip(x, ((8, 4), (-24, 4), (-24, -8)), strict=True)):
        ax.annotate(f"$x_{t + 1}$", point, shift, textcoords="offset points", fontsize=13)
    ax.spines[:].set_visible(False)
    ax.set(xticks=[], yticks=[], xlim=(-0.8, 1.3), ylim=(-1.15, 1.15), aspect="equal")
    return filled


fig, axes = plt.subplots(1, 2, figsize=(10, 4.2))
for ax, y in zip(axes, (1, -1), strict=True):
    bar = fig.colorbar(draw_triangle(ax, x, V, y), ax=ax, shrink=0.9, format="%.1f")
    bar.set_label("signed output $y f$")
    ax.set_title(f"label $y = {y:+d}$")
show(
    fig,
    alt="Two triangles of three tokens, shaded by the signed output. For the label plus one the star of the "
    "best attention is at the corner of token 3. For minus one it is on the edge between tokens 2 and 3.",
)

# %% [markdown]
# **Figure 1.** The signed output $y f$ over all mixtures of three tokens: dark is good. Star: the best one.

# %% [markdown]
# One head, one sequence, two labels. With $y = +1$ the best attention is all on token 3. With $y = -1$ every
# single token is classified *wrongly* ($y f < 0$), and 57% of token 2 with 43% of token 3 is right.
#
# **Predict before you read on.** Turn the label and the best attention moves from a corner to an edge. What
# about the head makes the difference?

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 13.2 When a mixture wins
#
# Walk along an edge from token $b$ to token $a$. A little weight on $a$ pays if $y f$ rises there; a little
# weight on $b$ pays if $y f$ rises as we leave $a$. If both hold, the best point of the edge is strictly
# between them.

# %% [markdown]
# ### Exercise 13.1: Does a mixture win?
#
# ★☆☆ · 5 minutes
#
# For many pairs of tokens at once: return whether, from either end of the edge, the first step inwards
# raises $y f$.
#
# <details><summary>Hint</summary>
#
# The rate at which $y f$ changes from $x_b$ towards $x_a$ is $y\, \nabla f(x_b) \cdot (x_a - x_b)$. Of two
# arrays (N, d), `(P * Q).sum(axis=1)` is the row by row product.
# </details>


# %%
@exercise("13.1")
def mixes(Xa, Xb, V, y):
    """Return, (N,) of bool, whether both ends gain, for tokens Xa, Xb (N, d), a head V and one label y."""
    ### BEGIN SOLUTION
    across = Xa - Xb
    from_b = y * (gradient(Xb, V) * across).sum(axis=1)
    from_a = -y * (gradient(Xa, V) * across).sum(axis=1)
    return (from_a > 0) & (from_b > 0)
    ### END SOLUTION


# %%
check("13.1", mixes)

# %%
rng = np.random.default_rng(0)
Xa, Xb = (A / np.linalg.norm(A, axis=1, keepdims=True) for A in rng.normal(size=(2, 2000, 6)))
V6 = rng.normal(size=(6, 6))
V6 /= np.linalg.norm(V6)
share = {y: np.mean(mixes(Xa, Xb, V6, y)) for y in (1, -1)}
print(f"2,000 random pairs, d = 6: a mixture wins in {share[1]:.1%} for y = +1, {share[-1]:.1%} for y = -1")
assert share[1] < 0.005, again.format("13.1")
assert 0.6 < share[-1] < 0.9, again.format("13.1")

# %% [markdown]
# Both slopes point inwards only if $y f$ bends *down* somewhere along the edge. So **curvature decides**.
#
# > **Proposition.** Let $f$ be convex on the triangle (hull) of the tokens of a sequence.
# >
# > *Label $+1$*: some single token is best: $f(\sum_t s_t x_t) \le \sum_t s_t f(x_t) \le \max_t f(x_t)$.
# >
# > *Label $-1$*: $y f = -f$ is concave, so the problem over $s$ has no false maxima, and a mixture wins
# > whenever one edge that leaves the best token rises.
#
# The sum of convex functions of linear ones is convex: a ReLU head always, a gelu head where $|4 V_k \cdot
# x| \le \sqrt 2$ (beyond, gelu bends down a little: hence "some" of the pairs with $y = +1$). For a concave
# $f$ labels change places. tanh is convex below 0 and concave above: either label may mix.
#
# Concavity does more: it lets us *prove* that a mixture is the best one.

# %% [markdown]
# ### Exercise 13.2: A ceiling for all mixtures
#
# ★★★ · 12 minutes
#
# $f$ is convex. Given any attention $s$ of one sequence, return a number that $y f$ cannot exceed for *any*
# mixture. For $y = -1$ take the ceiling that the tangent plane at $\bar x = \sum_t s_t x_t$ gives; for $y =
# +1$ the one of the proposition.
#
# <details><summary>Hint</summary>
#
# A concave function lies below each of its tangent planes: $-f(x') \le -f(\bar x) - \nabla f(\bar x) \cdot
# (x' - \bar x)$. The right side is linear in $x'$: where on the hull of the tokens is it largest?
# </details>


# %%
@exercise("13.2")
def ceiling(s, X, V, y):
    """Return an upper bound on y f over all mixtures, for s (T,), tokens X (T, d), V and a label y."""
    ### BEGIN SOLUTION
    if y > 0:
        return head(X, V).max()
    middle = s @ X
    return -head(middle, V) + ((middle - X) @ gradient(middle, V)).max()
    ### END SOLUTION


# %%
check("13.2", ceiling)

# %%
middle = np.full(3, 1 / 3)
fine = best[-1] @ x
for name, s in (("a third each", middle), ("the best of the grid", best[-1])):
    print(
        f"y = -1, {name:20s}: y f = {-head(s @ x, V):.4f}, no mixture above {float(ceiling(s, x, V, -1)):.4f}"
    )
gap = float(ceiling(best[-1], x, V, -1)) + head(fine, V)
assert 0 <= gap < 0.05, again.format("13.2")
assert float(ceiling(middle, x, V, -1)) > -head(fine, V), again.format("13.2")

# %% [markdown]
# (The grid's point is off by less than a hundredth; the ceiling says how much that can cost.) At the best
# mixture floor and ceiling meet: **all kept tokens have the same slope $y \nabla f(\bar x) \cdot x_t$, and no
# other token a larger one.** What a little weight on another token costs,
#
# $$c_t = |\ell'(u)|\; y\, \nabla f(\bar x) \cdot (\bar x - x_t) \ge 0 ,$$
#
# will be the force that pushes it out. Lesson 06's difference of scores is this for a linear head.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 13.3 Where $W$ goes
#
# Attention has logits $h_t = x_t^\top W z$. To keep $a$ and $b$ at given shares takes *exactly*
# $(x_a - x_b)^\top W z = \log(s_a/s_b)$, a finite number. To drop token $t$ takes a lead that grows without
# bound. One matrix does both if it is a sum of two.
#
# > **The limit with several tokens kept** (Tarzanagh, Li, Thrampoulidis and Oymak, 2023; informal, in our
# > words). Let $O_i$ be the tokens that sequence $i$ keeps, with shares $s_{it}$. As $W$ grows,
# > $W \approx W_{\mathrm{fin}} + R\; W_{\mathrm{dir}}$ with
# >
# > $$W_{\mathrm{dir}} = \arg\min_W \|W\|_F \quad \text{s.t.} \quad (x_{ia} - x_{ib})^\top W z_i = 0, \qquad
# > (x_{ia} - x_{it})^\top W z_i \ge 1 \qquad (a, b \in O_i,\ t \notin O_i),$$
# >
# > $$W_{\mathrm{fin}} = \arg\min_W \|W\|_F \quad \text{s.t.} \quad (x_{ia} - x_{ib})^\top W z_i = \log
# > s_{ia} - \log s_{ib} \qquad (a, b \in O_i).$$
#
# With one token kept in each sequence $W_{\mathrm{fin}} = 0$, and $W_{\mathrm{dir}}$ is lesson 10's
# Att-SVM. Here $\approx$ hides a bounded remainder, as in lesson 08. If $O_i$ were everything, $W$ would
# not have to grow.

# %% [markdown]
# ### Exercise 13.3: Both parts of one sequence
#
# ★★☆ · 9 minutes
#
# One sequence of three tokens keeps two, those with `s > 0`. Return $W_{\mathrm{fin}}$ and
# $W_{\mathrm{dir}}$.
#
# <details><summary>Hint</summary>
#
# Both are $c\, z^\top$ for some vector $c$, and $(\cdot)^\top c\, z^\top z$ must be the number asked. For
# one equation $e \cdot c = r$ the shortest $c$ is $r\, e / (e \cdot e)$. For $W_{\mathrm{dir}}$ only the
# part of $x_a - x_t$ perpendicular to $e = x_a - x_b$ is free.
# </details>


# %%
@exercise("13.3")
def both_parts(X, z, s):
    """Return (W_fin, W_dir), each (d, d), for tokens X (3, d), a query z (d,), s (3,) with one zero."""
    ### BEGIN SOLUTION
    a, b = np.flatnonzero(s > 0)
    (t,) = np.flatnonzero(s == 0)
    e, out = X[a] - X[b], X[a] - X[t]
    free = out - (out @ e) / (e @ e) * e
    fin = np.log(s[a] / s[b]) * e / (e @ e)
    return np.outer(fin, z) / (z @ z), np.outer(free / (free @ free), z) / (z @ z)
    ### END SOLUTION


# %%
check("13.3", both_parts)

# %% [markdown]
# For the picture's sequence with $y = -1$ only $p = W z$ matters, two numbers, and as in lesson 08 we can
# search every circle for the best $p(R)$. No optimiser is involved.


# %%
def attention(p, X):
    e = np.exp(X @ p - (X @ p).max(axis=0))
    return e / e.sum(axis=0)


def best_on_circle(R):
    """The p (2,) of length R with the largest y f, y = -1: all angles, then closer and closer."""
    angles = np.linspace(-np.pi, np.pi, 721)
    for _ in range(16):
        p = R * np.stack([np.cos(angles), np.sin(angles)])
        top = angles[(-head(attention(p, x).T @ x, V)).argmax()]
        angles = top + (angles[1] - angles[0]) * np.linspace(-1.5, 1.5, 31)
    return R * np.array([np.cos(top), np.sin(top)])


tokens = torch.tensor(x)[None]
single = data.TokenData(tokens, tokens[:, 0], -torch.ones(1).double(), torch.zeros(2).double())
own_head = heads.MLPHead(2, 2, activation="gelu", scale=4.0, init=torch.tensor(V))
s_best = mixtures.best_mixture(own_head, single)[0].numpy()
W_fin, W_dir = (np.asarray(W) for W in both_parts(x, np.array([1.0, 0.0]), s_best))
p_fin, p_dir = W_fin[:, 0], W_dir[:, 0]  # z = (1, 0): p = W z is the first column
print(f"best mixture {s_best}, p_fin {p_fin}, p_dir {p_dir}")
for R in (2, 5, 10, 20):
    p = best_on_circle(R)
    c = np.sqrt(R**2 - p_fin @ p_fin) / np.linalg.norm(p_dir)  # p_fin and p_dir are perpendicular here
    apart = np.linalg.norm(p - p_fin - c * p_dir)
    print(f"R = {R:2d}: p(R) {p}, p_fin + c p_dir {p_fin + c * p_dir}, apart {apart:.4f}")
assert apart < 1e-3, again.format("13.3")
assert abs(s_best[1] - 0.57) < 0.01
assert s_best[0] == 0

# %% [markdown]
# The two parts predict the *point*, not only its direction: at $R = 20$ they are less than a thousandth
# apart. (In the plane no room is left for a remainder.)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 13.4 Descent bounces
#
# Now the experiment of the paper: $n = 3$ sequences, $T = 4$ tokens of length 1, a query each, random
# labels (at least one $-1$), and the head fixed, $V$ Gaussian with $\|V\|_F = 1$, $d$ hidden units. Its code
# takes a ReLU; we begin with $\mathrm{gelu}(4 V x)$, which has slopes everywhere. Normalised steps of 0.1.


# %%
def problem(d, trials, seed, activation="gelu", scale=4.0, n=3, T=4):
    """TokenData with a label -1 in every trial, and a head with d hidden units."""
    drawn = data.random_tokens(n, T, d, trials=trials, seed=seed)
    y = drawn.y.clone()
    y[(y > 0).all(dim=1), 0] = -1.0
    return data.TokenData(drawn.X, drawn.z, y, drawn.v), heads.MLPHead(
        d, d, trials, activation, scale, seed=seed
    )


def logits(tokens, W):
    return torch.einsum("...ntd,...de,...ne->...nt", tokens.X, W, tokens.z)


TRIALS = 24
tokens, mlp = problem(6, TRIALS, seed=3)


SEEN = [1, 2, 5, 10, *range(20, 3980, 20), *range(3985, 4001)]  # steps that are recorded


def descent(lr):
    """4,000 normalised steps from 0: the model, and at the steps SEEN the lengths of W and the logits."""
    model = models.CrossAttention(6, trials=TRIALS, head=mlp)
    optimizer = optim.NormalizedGD(model.parameters(), lr=lr, batch_dims=1)
    record = {"norm": lambda m: m.W.norm(dim=(-1, -2)), "h": lambda m: logits(tokens, m.W)}
    run = train.fit(model, tokens, optimizer, 4000, record=record, every=SEEN, progress=False)
    return model, run["norm"].numpy()[1:], run["h"].numpy()[1:]


_, short, _ = descent(0.02)
trained, norm, h = descent(0.1)
for lr, lengths in ((0.1, norm), (0.02, short)):
    print(
        f"steps of {lr}: after a path of {4000 * lr:3.0f} the median of ||W|| is {np.median(lengths[-1]):.0f}"
    )
assert np.median(norm[-1]) < 25
assert abs(np.median(short[-1]) - np.median(norm[-1])) < 3

# %% [markdown]
# Steps a fifth as long cover a fifth of the way, and arrive as far out. What holds them back?

# %% jupyter={"source_hidden": true}
shown = int(np.flatnonzero((tokens.y < 0).sum(dim=1).numpy() == 1)[0])
row = int((tokens.y[shown] < 0).nonzero()[0, 0])
two = h[-1, shown, row].argsort()[::-1][:2]
ratio = h[:, shown, row, two[0]] - h[:, shown, row, two[1]]
fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.4))
left.plot(np.arange(3989, 4001), ratio[-12:], "o-", color=ORANGE, markersize=4, linewidth=1)
left.set(xlabel="step", ylabel="$h_a - h_b$ of the two\ntokens with most attention")
for lengths, color, name in ((norm, ORANGE, "steps of 0.1"), (short, BLUE, "steps of 0.02")):
    right.semilogx(SEEN, np.median(lengths, axis=1), color=color, label=name)
right.set(xlabel="steps", ylabel=r"$\|W\|$, median")
right.legend()
show(
    fig,
    alt="Left, the difference of two logits over the last twelve steps: a zigzag, up and down at every step. "
    "Right, the length of W against the number of steps, logarithmic: two rising curves that meet.",
)

# %% [markdown]
# **Figure 2.** Left: the last 12 steps of one run, in a sequence with label $-1$: the log-ratio of its two
# largest attentions. Right: the length of $W$ for two step lengths.

# %% [markdown]
# The loss is a **valley**: steep across (the ratios of the kept tokens, with a curvature $\kappa$ that does
# not fade) and nearly flat along ($W_{\mathrm{dir}}$, where the slope fades like $e^{-\text{lead}}$). A
# step of fixed length $\eta$ overshoots the bottom and comes back, for ever; only what is left of it goes
# along. Put $b$ for the length along and $N = \|W_{\mathrm{dir}}\|$, so that leads are $b/N$. At the side
# of the valley, $\eta/2$ from the bottom, the slopes are $\kappa \eta/2$ across and $C e^{-b/N}$ along, so
# one normalised step gains
#
# $$\Delta b \approx \eta\, \frac{C e^{-b/N}}{\kappa\, \eta/2} = \frac{2C}{\kappa}\, e^{-b/N}
# \qquad\Rightarrow\qquad b \approx N \log j + \text{constant}.$$
#
# **The step length cancels, and normalised descent is back at the clock of plain descent**, logarithmic in
# the number of steps. Section 13.5 tests the slope $N$. First we need runs that arrive.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 13.5 Paths that arrive, and what they keep
#
# A Newton step divides each direction's slope by its own curvature: across the valley it lands on the bottom,
# along it it walks. The library's `newton.newton_path` follows the best $W$ of each length $R$: at each $R$
# it takes Newton steps on the sphere, in the span of the rows $x_{it} z_i^\top$, where the loss lives (12
# dimensions here, not 36). The next $R$ starts from there, as in lesson 08. All trials go at once.

# %%
radii = [0.5, 1, 2, *(4 * 2 ** (k / 4) for k in range(17))]
path = newton.newton_path(models.CrossAttention(6, trials=TRIALS, head=mlp), tokens, radii)
print("   R   arrived   median residual")
for R, residual in zip(path.radii.tolist()[3::4], path.residual[3::4], strict=True):
    there = residual <= 1e-6
    print(f"{R:5.1f} {int(there.sum()):5d} of {TRIALS} {'below 1e-10' if residual.median() < 1e-10 else ''}")
early = path.radii <= 23
assert (path.residual[early] <= 1e-6).all()

# %% [markdown]
# Every path arrives up to $R = 22$ at least. Beyond, the pull $e^{-\text{lead}}$ sinks below the rounding
# of the steep part, one run after the other: `residual` says where, and we stop each run at its last good
# radius.
#
# **Which tokens are kept?** The public code calls a token kept if its attention is above $10^{-3}$, dropped
# if below $10^{-6}$, and rejects the run if any is in between. But a kept token may have little weight, and
# a dropped one may be slow. Look at two radii instead: from one to the other
#
# - the log-ratio of two kept tokens stays where it is;
# - a dropped token falls behind by $\Delta_{it} / N$ for each unit of $R$, with $\Delta_{it} \ge 1$ its
#   lead in the SVM.
#
# Multiplied by $N$, the rate at which a token falls behind is 0 or at least 1. Nothing is in between,
# whatever the data.

# %% [markdown]
# ### Exercise 13.4: Read the kept tokens
#
# ★★☆ · 7 minutes
#
# Given the logits at two radii and $N = \|W_{\mathrm{dir}}\|$, return which tokens are kept: those whose
# rate, times $N$, is below $\frac12$. The rate of a token is how much its distance to the winner's logit
# grows, for a unit of $R$; the winner is the token ahead at the *larger* radius.
#
# <details><summary>Hint</summary>
#
# `h1.argmax(axis=-1)` is the winner. `np.take_along_axis(h, winner[..., None], axis=-1)` picks the winners'
# logits, at either radius.
# </details>


# %%
@exercise("13.4")
def read_kept(h0, h1, R0, R1, N):
    """Return the kept tokens, (n, T) of bool, from logits h0, h1 (n, T) at the radii R0 < R1, and N."""
    ### BEGIN SOLUTION
    winner = h1.argmax(axis=-1)[..., None]
    behind = [np.take_along_axis(h, winner, axis=-1) - h for h in (h0, h1)]
    return (behind[1] - behind[0]) / (R1 - R0) * N < 0.5
    ### END SOLUTION


# %%
check("13.4", read_kept)

# %% [markdown]
# There is a catch: $N$ is the norm of an SVM that needs the kept set. `mixtures.kept_tokens` starts from
# the widest gap between the rates of a run, solves, reads, and solves again until nothing changes. Then
# comes the proof: **the SVM predicts every rate**, and we compare.


# %%
def behind(h, winner):
    return np.take_along_axis(h, winner, axis=-1) - h


last = (path.residual <= 1e-6).sum(dim=0) - 1  # each run's last good radius
each = torch.arange(TRIALS)
ends, befores = (logits(tokens, path["W"][k, each]).numpy() for k in (last, last - 1))
R1, R0 = (path.radii[k].numpy() for k in (last, last - 1))
winner = ends.argmax(axis=-1)[..., None]
rates = (behind(ends, winner) - behind(befores, winner)) / (R1 - R0)[:, None, None]
kept, solution = mixtures.kept_tokens(tokens.X, tokens.z, torch.tensor(rates))
kept, N = kept.numpy(), solution.objective.numpy()
own = [read_kept(*one) for one in zip(befores, ends, R0, R1, N, strict=True)]
assert (np.array(own) == kept).all(), again.format("13.4")
rates *= N[:, None, None]
leads = behind(logits(tokens, solution.value).numpy(), winner)
print(
    f"rates times N: kept at most {np.abs(rates[kept]).max():.2f}, dropped at least {rates[~kept].min():.2f}"
)
print(
    f"apart from the SVM's leads by {np.median(np.abs(rates - leads)[~kept]):.3f} in the median, "
    f"{np.abs(rates - leads).max():.2f} at most"
)
assert np.abs(rates[kept]).max() < 0.2, again.format("13.4")
assert rates[~kept].min() > 0.8, again.format("13.4")
assert np.abs(rates - leads).max() < 0.5, again.format("13.4")
assert np.median(np.abs(rates - leads)[~kept]) < 0.02, again.format("13.4")

# %% jupyter={"source_hidden": true}
fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.4))
log_s = torch.log_softmax(torch.tensor(ends), dim=-1).numpy()
bins = np.linspace(-40, 0, 33)
for flags, color, name in ((kept, BLUE, "kept"), (~kept, ORANGE, "dropped")):
    left.hist(np.maximum(log_s[flags], -40), bins=bins, color=color, alpha=0.7, label=name)
    right.plot(leads[flags], rates[flags], "o", color=color, markersize=4, alpha=0.7)
for edge in (np.log(1e-6), np.log(1e-3)):
    left.axvline(edge, color=BLACK, linestyle=":", linewidth=1)
right.plot([0, 3], [0, 3], color=BLACK, linewidth=1)
right.axhline(0.5, color=BLACK, linestyle=":", linewidth=1)
left.set(xlabel=r"$\log s_{it}$ at the last radius", ylabel="tokens")
right.set(
    xlabel=r"lead $\Delta_{it}$ in the SVM",
    ylabel=r"measured rate $\times\, N$",
    xlim=(-0.2, 3),
    ylim=(-0.2, 3),
)
left.legend()
show(
    fig,
    alt="Left, histogram of log attention of kept and dropped tokens with the two thresholds of the public "
    "code. Right, measured rates against the leads of the SVM: kept tokens at zero, others on the diagonal "
    "from one on, none near one half.",
)

# %% [markdown]
# **Figure 3.** Left: log attention at each run's last radius; dotted, the thresholds $10^{-6}$ and
# $10^{-3}$ of the public code. Right: the rate of every token against what the SVM of the kept set
# predicts. Dotted: the line that divides them.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The clock of descent
#
# With $N$ we can return to the bouncing run. It had 4,000 steps.

# %% [markdown]
# ### Exercise 13.5: The bouncing clock
#
# ★★☆ · 6 minutes
#
# After `j0` steps a bouncing run has length `R0`. Predict its length after `j` steps, from the law of
# section 13.4. Then run on.
#
# <details><summary>Hint</summary>
#
# $b \approx N \log j$ plus a constant that the given point fixes.
# </details>


# %%
@exercise("13.5")
def later(j, j0, R0, N):
    """Return the length after j steps."""
    ### BEGIN SOLUTION
    return R0 + N * np.log(j / j0)
    ### END SOLUTION


# %%
check("13.5", later)

# %%
several = (kept.sum(axis=-1) > 1).any(axis=-1)
optimizer = optim.NormalizedGD(trained.parameters(), lr=0.1, batch_dims=1)
train.fit(trained, tokens, optimizer, 8000, progress=False)
found = trained.W.detach().norm(dim=(-1, -2)).numpy()
foreseen = np.array([later(12_000, 4000, R, size) for R, size in zip(norm[-1], N, strict=True)])
grown = (found - norm[-1])[several] / (foreseen - norm[-1])[several]
print(
    f"{several.sum()} of {TRIALS} runs keep several tokens; to 12,000 steps they grew, of what was foreseen,"
)
print(
    f"median {np.median(grown):.2f}, quartiles {np.quantile(grown, 0.25):.2f}, {np.quantile(grown, 0.75):.2f}"
)
print(f"the others: length {np.median(found[~several]):.0f}, path {0.1 * 12_000:.0f}")
assert abs(np.median(grown) - 1) < 0.1, again.format("13.5")

# %% [markdown]
# The clock is right to a few per cent in the median. A path to $R = 45$ would take descent some $e^{(45 -
# 21)/N}$ times as many steps, with $N$ near 2 more than $10^9$. Runs that keep single tokens have no
# valley, and go out straight.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 13.6 How good is the prediction?
#
# The paper draws three curves: $1 -$ correlation of $W$ with the full prediction $W_{\mathrm{fin}} + R\,
# W_{\mathrm{dir}}$ (with the $R$ that fits best), with $W_{\mathrm{dir}}$ alone, and with the SVM of one
# token a sequence, for $d = 4, 6, 8, 10$. A sweep, stored with the course, did the same for 200 trials in
# each cell: our gelu head, $\tanh(4 V x)$, and nearly the paper's ReLU, $\mathrm{gelu}(256\, V x)$ with the
# linear loss.


# %%
def apart(A, B):
    """1 - correlation of matrices, from their distance, so that it is accurate where it is tiny."""
    A, B = (M / M.norm(dim=(-1, -2), keepdim=True) for M in (A, B))
    return (A - B).square().sum((-1, -2)) / 2


runs = measured("13.runs").load()
fresh = measured("13.runs").part(kind=["gelu"], d=[6])  # the first 50 trials of one cell, computed now
stored = runs.sel(kind="gelu", d=6).isel(trial=slice(50))
same = (fresh.kept.squeeze().values == stored.kept.values).all(axis=-1)
print(
    f"computed again, gelu, d = 6: the same numbers of kept tokens in at least 48 of 50: {same.sum() >= 48}"
)
assert same.sum() >= 48
PUBLISHED = {
    "full": [0.034, 0.017, 0.011, 0.006],
    "direction": [0.07, 0.043, 0.015, 0.009],
    "one token": [0.155, 0.145, 0.135, 0.12],
}
accepted = runs.accepted.astype(bool)
names = {"gelu": "gelu(4 V x)", "tanh": "tanh(4 V x)", "relu": "nearly ReLU"}
print("\nshare accepted      d = 4     6     8    10     by the public code")
for kind, name in names.items():
    ours, public = (share.sel(kind=kind).mean("trial").values for share in (accepted, runs.public))
    print(
        f"  {name:14s}",
        *(f"{share:8.2f}"[2:] for share in ours),
        "   ",
        *(f"{share:5.2f}" for share in public),
    )
    assert (ours >= (0.8 if kind == "relu" else 0.95)).all()
    assert (public < 0.7).all()
print("\n1 - correlation, mean of the accepted, at each run's last radius")
for kind, name in names.items():
    means = runs.at_last.where(accepted).sel(kind=kind).mean("trial").values.T  # (3, d)
    for curve, row in zip(PUBLISHED, means, strict=True):
        print(f"  {name:14s} {curve:10s}", *(f"{value:7.4f}" for value in row))
    assert (means[0] < PUBLISHED["full"]).all()
    assert (means[1] < PUBLISHED["direction"]).all()
    assert (means[0] < means[1]).all()
    assert (means[2] > 5 * means[1]).all()
print("  published      ", *(f"{curve} {values}" for curve, values in PUBLISHED.items()), sep="\n    ")

# %% jupyter={"source_hidden": true}
fig, axes = plt.subplots(1, 3, figsize=(9.5, 3.5), sharey=True)
for ax, (kind, name) in zip(axes, names.items(), strict=True):
    for k, (curve, color, marker) in enumerate(zip(PUBLISHED, (BLUE, GREEN, ORANGE), "os^", strict=True)):
        values = runs.at_last.where(accepted).sel(kind=kind).values[..., k]
        low, high = np.nanquantile(values, [0.1, 0.9], axis=1)
        if curve != "direction":
            ax.fill_between(runs.d.values, np.maximum(low, 1e-4), high, color=color, alpha=0.15, linewidth=0)
        ax.semilogy(runs.d.values, np.nanmean(values, axis=1), marker + "-", color=color, label=curve)
        ax.semilogy(runs.d.values, PUBLISHED[curve], marker + ":", color=color, markerfacecolor="white")
    ax.set(xlabel="$d$", title=name, xticks=[4, 6, 8, 10])
axes[0].set_ylabel("$1 -$ correlation with $W$")
fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
show(
    fig,
    alt="Three panels, one a head. One minus correlation against d on a logarithmic axis. In each, the full "
    "prediction and the direction lie below the published dotted lines, between 0.002 and 0.03, and the SVM "
    "of one token is above 0.05.",
)

# %% [markdown]
# **Figure 4.** $1 -$ correlation of three predictions with $W$, by dimension. Filled, with lines: means
# over accepted runs at each run's last radius (median 32 to 64); bands, of the full prediction and of one
# token: the middle 80% of runs. Open, dotted: published, for a ReLU head, as read off its plot.

# %% [markdown]
# A run is *accepted* if its path arrived at $R = 16$ or more, the SVM of its kept set has a solution, and
# **every** rate is within $\frac12$ of what that SVM predicts. With smooth heads these are 98% or more in
# each cell; the public code keeps 4% to 65% of the same data (it rejects for good reason: at norm 16 a drop
# to $10^{-6}$ has not yet happened). The full prediction is below the published one for each head and $d$,
# and so is $W_{\mathrm{dir}}$ alone. The SVM of one token is another matrix altogether.
#
# The distance falls with $R$, so most of our advantage is length. Section 13.8 takes the length away.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 13.7 Which heads keep several tokens?

# %%
print("sequences by label and number of kept tokens, all d")
for kind in ("gelu", "tanh"):
    for label in (1, -1):
        chosen = (runs.label.sel(kind=kind).values == label) & accepted.sel(kind=kind).values[..., None]
        counts = np.bincount(runs.kept.sel(kind=kind).values[chosen], minlength=5)[1:]
        alone = counts[0] / counts.sum()
        print(f"  {kind}, label {label:+d}: {counts}, one token in {alone:.0%}")
        if kind == "gelu":
            assert alone > 0.99 if label == 1 else alone < 0.12
        else:
            assert 0.6 < alone < 0.85

# the proposition, for this lesson's label -1: a mixture wins if an edge at the best token rises
best_s = mixtures.best_mixture(mlp, tokens)
Xn, Vn, yn = tokens.X.numpy(), mlp.V.numpy(), tokens.y.numpy()
says, does = [], []
for i, k in np.argwhere(yn < 0):
    own = Xn[i, k]
    top = own[(-head(own, Vn[i])).argmax()]
    says.append((-(own - top) @ gradient(top, Vn[i]) > 0).any())
    does.append((best_s[i, k] > 0).sum().item() > 1)
print(
    f"label -1 here: slopes at the best token tell mixture from token in {np.sum(np.equal(says, does))} "
    f"of {len(says)}"
)
assert says == does

# %% [markdown]
# **The sign of the curvature of $y f$ decides.** gelu is convex where our heads live, so label $+1$ keeps
# one token and label $-1$ a mixture (in 9 of 10: else the best token's edges all fall). tanh bends both
# ways and treats the labels alike; about a quarter of the sequences mix. And saturation? A tanh that is
# nearly linear ($\|V\|$ small) or nearly flat has little curvature to offer, and keeps more single tokens
# as $d$ grows: $|V_k \cdot x|$ is then smaller.

# %%
shares = runs.kept.sel(kind="tanh").where(accepted.sel(kind="tanh")).values
single = [float(np.mean(row[np.isfinite(row)] == 1)) for row in shares]
print("tanh, sequences with one token, by d:", *(f"{value:.2f}" for value in single))
assert (np.diff(single) > 0).all()

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 13.8 Where it breaks
#
# ### Kinks
#
# A ReLU head with label $-1$ asks for the least value of a *piecewise linear* convex function. That is a
# linear program, and its answer is a vertex of the pieces.
#
# > **Proposition.** Let $f(x) = \sum_k \mathrm{relu}(V_k \cdot x)$, tokens and $V$ in general position, $y
# > = -1$, and let $f > 0$ on the tokens' hull. Then the best mixture is unique, and **if it keeps $m$
# > tokens, exactly $m - 1$ hidden units are at their kink**, $V_k \cdot \bar x = 0$.
#
# (The face of $m$ tokens has $m - 1$ dimensions, and only that many hyperplanes $V_k \cdot x = 0$ pin down
# a point of it.) So for ReLU *every* mixture sits at a kink. If $f = 0$ somewhere in the hull, a whole
# region is best, and nothing decides: ties.

# %%
kinks = measured("13.kinks").load()
fresh = measured("13.kinks").part(d=[6])
assert (fresh.kept.squeeze().values == kinks.kept.sel(d=6).values[:50]).mean() > 0.98
print("ReLU, label -1    d  one token  at kinks  flat   kinks = kept - 1")
for d in kinks.d.values:
    q = kinks.sel(d=d)
    minus, flat = q.label.values < 0, q.flat.values.astype(bool)
    several = minus & ~flat & (q.kept.values > 1)
    single = minus & ~flat & (q.kept.values == 1)
    right = (q.kinks.values == q.kept.values - 1)[minus & ~flat]
    parts = [(group.sum() / minus.sum()) for group in (single, several, minus & flat)]
    print(f"{d:18d} {parts[0]:9.0%} {parts[1]:9.0%} {parts[2]:6.0%}  {right.sum():8d} of {right.size}")
    assert right.all()
    assert (q.kept.values[~minus] == 1).all()
assert parts[1] > 0.85  # d = 10

# %% [markdown]
# At $d = 10$ nine of ten sequences with label $-1$ end at a kink; at $d = 4$ half of them have a flat
# bottom. There the one-sided slopes differ and neither is 0: gradient descent crosses the kink at every
# step, and a first-order residual never gets small. Figure 5 shows both. The limit is none the worse for
# it: $s$ is as definite as before, and a head that rounds off the kink, $\mathrm{gelu}(\beta V x)$ with
# large $\beta$, leads to it (Figure 4, right).

# %% jupyter={"source_hidden": true}
relu = heads.MLPHead(6, 6, TRIALS, "relu", 1.0, init=mlp.V)
bent = models.CrossAttention(6, trials=TRIALS, head=relu)
optimizer = optim.NormalizedGD(bent.parameters(), lr=0.1, batch_dims=1)


def inner(m):
    return (tokens.mix(m.attention(tokens)) @ relu.V.mT).detach()


run = train.fit(
    bent, tokens, optimizer, 2001, record={"inner": inner}, every=[*range(1990, 2002)], progress=False
)
crossing = run["inner"].numpy()[1:]
turns = (np.diff(np.sign(crossing), axis=0) != 0).sum(axis=0) * (tokens.y.numpy() < 0)[..., None]
i, k, unit = np.unravel_index(turns.argmax(), turns.shape)
edge = np.linspace(0, 1, 401)
a, b = Xn[i, k][np.argsort(torch.softmax(logits(tokens, bent.W.detach()), -1)[i, k].numpy())[::-1][:2]]
inner_edge = (edge[:, None] * a + (1 - edge[:, None]) * b) @ Vn[i].T
fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.4))
left.plot(edge, -np.maximum(inner_edge, 0).sum(axis=1), color=BLACK, label="ReLU")
for beta, color in ((16, BLUE), (4, ORANGE)):
    u = beta * inner_edge
    left.plot(edge, -(u * ndtr(u)).sum(axis=1) / beta, color=color, label=rf"gelu$({beta}\,Vx)/{beta}$")
left.set(xlabel="share of token $a$", ylabel="$y f$ along an edge, $y = -1$")
left.legend(fontsize=10)
right.axhline(0, color=GREY, linewidth=1)
right.plot(
    np.arange(1990, 1990 + len(crossing)),
    crossing[:, i, k, unit],
    "o-",
    color=ORANGE,
    markersize=4,
    linewidth=1,
)
right.set(xlabel="step", ylabel=r"$V_k \cdot \bar x$ of one unit")
show(
    fig,
    alt="Left, the signed output along an edge between two tokens: with a ReLU straight pieces and corners, "
    "with gelu smooth curves near them. Right, the input of a hidden unit in descent, jumping across "
    "zero at nearly every step.",
)

# %% [markdown]
# **Figure 5.** Left: $y f$ along an edge for a ReLU and two smooth heads. Right: the input of one hidden
# unit over the last 12 steps of descent with a ReLU head.

# %% [markdown]
# ### Local mixtures, and rounding
#
# The path follows a branch. As in lesson 07, a token or mixture is held if its *support tokens* score
# worse; others may be better. Compare with the best mixture over the whole simplex:

# %%
for kind, label in (("gelu", 1), ("gelu", -1), ("tanh", 1), ("tanh", -1)):
    chosen = (runs.label.sel(kind=kind).values == label) & accepted.sel(kind=kind).values[..., None]
    share = runs.best.sel(kind=kind).values[chosen].mean()
    print(f"{kind}, label {label:+d}: the path ends at the best mixture in {share:.0%} of the sequences")
    assert 0.75 < share < 0.995

# %% [markdown]
# And the length? Far out the two parts can be solved *apart*: the mixture on its face by Newton's method, and
# then the best $W$ with these ratios and length $R$, whose objective $\log \sum c_{it}\, e^{-\text{lead}}$ is
# convex and has no scale (`mixtures.mixture_path`). Where both carry, it must agree with the path.

# %%
at_end = torch.softmax(torch.tensor(ends), dim=-1) * torch.tensor(kept)
shares_kept = mixtures.on_face(mlp, tokens, at_end / at_end.sum(-1, keepdim=True))
far = mixtures.mixture_path(mlp, tokens, shares_kept, [16, 32, 128, 512, 2048])
here = path.residual[int((path.radii == 32).nonzero())] <= 1e-6
difference = apart(path["W"][int((path.radii == 32).nonzero())], far["W"][1])[here]
print(
    f"R = 32: 1 - correlation of the two below 1e-6 in the median of {int(here.sum())} runs: "
    f"{bool(difference.median() < 1e-6)}"
)
W_fin = svm.solve(
    svm.ratio_problem(tokens.X, tokens.z, shares_kept > 0, shares_kept.clamp(min=1e-300).log())
).value
off = []
for R, W in zip((16, 32, 128, 512, 2048), far["W"], strict=True):
    length = ((W - W_fin) * solution.value).sum((-1, -2)) / solution.value.square().sum((-1, -2))
    off.append(apart(W, W_fin + length[:, None, None] * solution.value).mean().item())
    print(f"R = {R:4d}: full prediction, mean of 1 - correlation {off[-1]:.1e}")
slope = np.log(off[-1] / off[-2]) / np.log(4)
print(f"slope in log R at the end: {slope:.2f}")
assert difference.median() < 1e-6
assert abs(slope + 2) < 0.1

# %% [markdown]
# The prediction improves like $1/R^2$: a bounded remainder beside a vector of length $R$, lesson 08's $r$.
# In float64 the loss itself carries to leads near 30; then $e^{-30}$ drowns beside a curvature of order
# one. The two parts apart have no such end.
#
# | situation | what happens | how you notice |
# |---|---|---|
# | kink | one-sided slopes, descent crosses it for ever | $m - 1$ units with $V_k \cdot \bar x$ near 0 |
# | flat bottom ($f = 0$), ties | nothing decides the shares | all tokens keep weight, $W$ stays finite |
# | a better mixture elsewhere | the path keeps its own | `best_mixture`, or exercise 13.2's ceiling |
# | leads beyond 30 | rounding hides the pull | the residual jumps to order 1 |

# %% [markdown]
# ## 13.9 Try it
#
# The triangle of section 13.1. A larger scale makes the head bend more; small ones are nearly linear.


# %% tags=["nbval-ignore-output", "widget"]
def one_triangle(scale, label):
    figure = Figure(figsize=(5.2, 4.2))
    ax = figure.subplots()
    bar = figure.colorbar(draw_triangle(ax, x, V, label, scale), ax=ax, format="%.2f")
    bar.set_label("signed output $y f$")
    s = grid[(label * head(grid @ x, V * scale / 4)).argmax()]
    ax.set_title(f"best shares {s[0]:.2f}, {s[1]:.2f}, {s[2]:.2f}", fontsize=12)
    return figure


looks = {"style": {"description_width": "80px"}, "layout": ipywidgets.Layout(width="480px")}
widgets.sliders(
    one_triangle,
    alt="The triangle of three tokens, shaded by the signed output, and its best point.",
    scale=ipywidgets.FloatLogSlider(
        value=4, base=2, min=-3, max=5, step=0.5, readout_format=".3g", description="scale", **looks
    ),
    label=ipywidgets.IntSlider(value=-1, min=-1, max=1, step=2, description="label", **looks),
)

# %% [markdown]
# ## 13.10 Claims, predictions, measurements
#
# | claim | prediction | measured |
# |---|---|---|
# | convex head, label $+1$ | one token | all 1,000 sequences (gelu) |
# | label $-1$ | mixture if an edge at the best token rises | all of this lesson's |
# | rates $\times N$ of kept tokens | 0 | at most 0.2 |
# | of dropped tokens | the SVM's leads, at least 1 | at least 0.8, each within $\frac12$ |
# | length of a bouncing run | grows by $N \log (j/j_0)$ | 0.98 of it (median) |
# | $1 -$ correlation, full prediction | falls like $1/R^2$ | slope $-2$; .005 to .004 at the last $R$ |
# | ReLU mixture of $m$ tokens | $m - 1$ units at their kink | all that are not flat |

# %% [markdown]
# ## Questions
#
# **1.** A colleague multiplies $V$ by $-1$ behind the activation, $f = -\sum_k \phi(V_k \cdot \bar x)$,
# with $\phi$ convex. Which sequences mix now?
# <details><summary>Answer</summary>
#
# Those with label $+1$: $y f$ is concave there.
# </details>
#
# **2.** Two kept tokens have shares $0.9999$ and $0.0001$. What would the public code say, and the rates?
# <details><summary>Answer</summary>
#
# The code finds an $s$ between $10^{-6}$ and $10^{-3}$ and rejects the run. The log-ratio, $-9.2$, does not
# move with $R$: kept.
# </details>
#
# **3.** You halve the step of normalised descent and take twice as many steps. Where does a bouncing run end?
# <details><summary>Answer</summary>
#
# Farther out by $N \log 2$: the number of steps counts, not the length of the path.
# </details>

# %%
progress("13")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - A nonlinear head may like a **mixture** better than each token. The curvature of $y f$ decides: convex,
#   one token; concave, a mixture wherever an edge rises. A tangent plane certifies it.
# - $W \approx W_{\mathrm{fin}} + R\, W_{\mathrm{dir}}$: one part sets the ratios of the kept tokens, the
#   other, an SVM with equalities, drops the rest.
# - The loss is a valley. **Normalised descent bounces** and grows like $N \log j$, whatever its step. Newton
#   steps arrive.
# - Read what is kept from **rates**, not from the attention: times $N$ they are 0 or at least 1, and the SVM
#   predicts each one. 98% and more of the runs with smooth heads pass.
# - ReLU mixtures sit at kinks, $m - 1$ of them for $m$ tokens.
#
# ## Further reading
#
# - D. A. Tarzanagh, Y. Li, C. Thrampoulidis, S. Oymak, *Transformers as Support Vector Machines* (2023, arXiv
#   2308.16898): nonlinear heads, the two parts, the experiment.
# - P.-A. Absil, R. Mahony, R. Sepulchre, *Optimization Algorithms on Matrix Manifolds* (2008): Newton's
#   method on a sphere.
#
# The clock of the bouncing run, the reading by rates and the count of kinks are short arguments of this
# lesson, measured; they are not that paper's.
#
# **New in the library:** [`heads.MLPHead`](../mini_attn/heads.py),
# [`newton.newton_path`](../mini_attn/newton.py), [`mixtures`](../mini_attn/mixtures.py),
# [`svm.mixture_problem` and `svm.ratio_problem`](../mini_attn/svm/mixture.py).
#
# **Next:** lesson 14: every position of a sequence asks, and a causal mask hides what is to come.
