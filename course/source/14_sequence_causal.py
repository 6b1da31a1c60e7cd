# %% [markdown] slideshow={"slide_type": "slide"}
# # 14 · Sequences and causal masks
#
# Up to now one query looked at each sequence. In a transformer *every* token asks, in a language model about
# itself and the tokens before it. All these queries share one matrix $W$.
#
# **The question: where does training go when every position asks and one W has to answer them all?**
#
# In our runs it goes to one SVM over all positions. We ask what sharing one $W$ costs, and for how many
# positions it has room. Room is not enough, but at one $T$ it largely sets how often training misses.

# %% [markdown]
# **After this lesson you can**
#
# - say what a mask takes out of the output, the loss and the SVM;
# - predict $\lVert W_{\mathrm{mm}}\rVert$ from the mask alone, where tokens are orthonormal;
# - forecast how much of $W$ a choice uses up, and at which dimension half of the random choices are feasible;
# - derive which share of positions their own sequence pulls the wrong way in the first step, and say which
#   misses it foretells;
# - predict how many positions fall for padding whose mask is forgotten.
#
# **You need** [lesson 06](06_attention_as_svm.ipynb) (the Att-SVM), [lesson 07](07_local_global_tokens.ipynb)
# (global and local choices), [lesson 10](10_cross_self_attention.ipynb) (the matrix $W$), and [lesson
# 12](12_overparameterization.ipynb) (feasibility). About 90 minutes (135 with a pencil), four
# exercises.

# %%
import dataclasses
from itertools import product

import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure
from scipy.optimize import brentq
from scipy.special import ndtr

from course.exercise import check, exercise, progress, todo
from course.figure import show
from course.replicate import measured
from course.replicate.lesson_14 import (
    attention_after,
    positions,
    pulled_wrongly,
    ratio,
    share_possible,
    step_lowers,
)
from mini_attn import data, geometry, models, optim, plots, svm, train, widgets
from mini_attn.sweep import wilson

plots.style()
torch.set_num_threads(1)  # many small tensors: one thread is fastest
BLUE, ORANGE, GREEN, BLACK = (plots.COLORS[name] for name in ("blue", "vermillion", "green", "black"))
again = "this differs from the text: if exercise {} has no tick, start there"

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.1 The idea in a picture
#
# There are $n$ sequences of $T$ tokens $x_{it}$. Position $k$ of sequence $i$ asks with its own token: its
# logits are
#
# $$h_{ikt} = x_{it}^\top W x_{ik}, \qquad s_{ik} = \mathrm{softmax}(h_{ik}), \qquad
# f_{ik} = \sum_t s_{ikt}\, v\cdot x_{it},$$
#
# over all $t$ (**full** attention), or only $t \le k$ (**causal**). The head $v$ is given; only $W$ is
# trained. Each position has a label $y_{ik} = \pm 1$ of its own, a class of what comes next. To position $k$
# the token $t$ has the score $y_{ik}\, v\cdot x_{it}$; the token with the largest is its best. Training
# lowers the mean logistic loss of $y_{ik} f_{ik}$ over all positions.

# %%
drawn = data.random_tokens(3, 5, 20, seed=5)
labels = 2.0 * torch.randint(0, 2, (3, 5), generator=torch.Generator().manual_seed(5)) - 1.0
lengths = torch.tensor([3, 5, 4])
real = torch.arange(5) < lengths[:, None]  # (n, T): the first tokens of a sequence are real, the rest padding
masks = {
    "full": data.every_position(drawn.X, labels.double(), drawn.v),
    "causal": data.every_position(drawn.X, labels.double(), drawn.v, causal=True),
    "causal, length 3": data.every_position(drawn.X, labels.double(), drawn.v, causal=True, mask=real),
}
patterns = {}
for name, tokens in masks.items():
    model = models.CrossAttention(20)
    optimizer = optim.NormalizedGD(model.parameters(), lr=0.1)
    train.fit(model, tokens, optimizer, 300, schedule=train.growing, progress=False)
    every = model.attention(tokens).detach().unflatten(0, (3, 5))
    sees = torch.ones(5, 5, dtype=bool) if tokens.mask is None else tokens.mask.unflatten(0, (3, 5))[0]
    patterns[name] = (every[0].numpy(), sees.numpy(), tokens.optimal[:5].tolist())
    assert (every.amax(-1)[every.sum(-1) > 0.5] > 0.99).all()  # but for the padding


# %% jupyter={"source_hidden": true}
def draw_pattern(ax, attention, sees, best):
    """Attention of each position (row) over the tokens (columns); grey where nothing is seen."""
    ax.imshow(np.where(sees, attention, np.nan), cmap="Blues", vmin=0, vmax=1)
    for k, t in np.argwhere(~sees):
        ax.add_patch(plt.Rectangle((t - 0.5, k - 0.5), 1, 1, facecolor="0.85", edgecolor="white", hatch="//"))
    for k, t in np.argwhere(sees):
        ax.add_patch(plt.Rectangle((t - 0.5, k - 0.5), 1, 1, fill=False, edgecolor="0.6"))
    asks = np.flatnonzero(sees.any(axis=1))
    ax.plot(np.array(best)[asks], asks, "*", color=ORANGE, markersize=11)
    ax.set(xticks=range(5), xticklabels=range(1, 6), yticks=range(5), yticklabels=range(1, 6))
    ax.set(xlabel="token $t$", xlim=(-0.55, 4.55), ylim=(4.55, -0.55))
    ax.grid(False)


fig, axes = plt.subplots(1, 3, figsize=(10, 3.7))
for ax, (name, pattern) in zip(axes, patterns.items(), strict=True):
    draw_pattern(ax, *pattern)
    ax.set_title(name)
axes[0].set_ylabel("position $k$ that asks")
show(
    fig,
    alt="Three grids of five positions by five tokens. In each row that sees a token, one cell is "
    "dark blue, and a star marks one. "
    "In the causal grid all cells above the diagonal are hatched; with length 3 also the last two rows and "
    "columns.",
)

# %% [markdown]
# **Figure 1.** Trained attention of one sequence under three masks: dark is 1, white 0, hatched is not
# seen; a star marks the best token in sight. Each line of a grid is one softmax; all lines share $W$.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.2 What a mask hides
#
# One array has one shape. So shorter sequences are filled up with **padding**, and a mask says who sees
# whom. A hidden token gets the logit $-\infty$, and $e^{-\infty} = 0$: it has no attention, exactly. For a
# position that sees nothing the softmax would be $0/0$: it gets zeros, and no loss.


# %%
def visible(lengths, T, causal):
    """Who sees whom, (n, T, T) bool: [i, k, t] is True where position k of sequence i sees token t."""
    real = np.arange(T) < np.asarray(lengths)[:, None]  # the first tokens of a sequence
    sees = real[:, :, None] & real[:, None, :]
    return sees & np.tril(np.ones((T, T), dtype=bool)) if causal else sees


def attention(h, sees):
    """Softmax over the visible tokens: h, sees (n, T, T) -> (n, T, T); zeros for who sees nothing."""
    h = np.where(sees, h, -np.inf)
    top = h.max(axis=-1, keepdims=True)
    e = np.exp(h - np.where(np.isfinite(top), top, 0))
    return e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300)


def outputs(W, X, v, sees):
    """f_ik, (n, T), for X (n, T, d) and v (d,)."""
    s = attention(np.einsum("itd,de,ike->ikt", X, W, X), sees)
    return np.einsum("ikt,it->ik", s, X @ v)


# %% [markdown]
# Does a model look where it must not? Change one token, and see whether only outputs move that *should*.

# %% [markdown]
# ### Exercise 14.1: Whose output moves?
#
# ★☆☆ · 7 minutes
#
# Token $t$ of sequence $i$ is replaced by another random one; $W$, $v$ and all other tokens are random and
# stay. Return for each position $k$ whether its output $f_{ik}$ moves, for *any* mask: a position need not
# see itself.
#
# <details><summary>Hint</summary>
#
# $f_{ik} = \sum_t s_{ikt}\, v \cdot x_{it}$ with logits $x_{it}^\top W x_{ik}$. In how many places does the
# token stand? What can a query change if there is nothing to choose from?
# </details>


# %%
@exercise("14.1")
def moves(sees):
    """Return whose output moves, (n, T, T) bool by [i, k, t], for sees (n, T, T) bool: who sees whom."""
    ### BEGIN SOLUTION
    chooses = sees.sum(axis=-1, keepdims=True) > 1  # only then does the query matter
    return sees | (np.eye(sees.shape[-1], dtype=bool) & chooses)
    ### END SOLUTION


# %%
check("14.1", moves)

# %%
X, v, rng = drawn.X.numpy(), drawn.v.numpy(), np.random.default_rng(0)
W = rng.normal(size=(20, 20))
gaps = ~np.eye(5, dtype=bool) & ~np.eye(5, k=1, dtype=bool)  # not itself, not the next
for sees in (visible(lengths.numpy(), 5, True), np.tile(gaps, (3, 1, 1))):
    found = np.zeros((3, 5, 5), dtype=bool)
    for t in range(5):
        changed = X.copy()
        changed[:, t] = 1e3 * rng.normal(size=(3, 20))
        found[:, :, t] = outputs(W, changed, v, sees) != outputs(W, X, v, sees)
    print(f"of 75 pairs (position, token) {sees.sum()} see, {found.sum()} move")
    assert (found == moves(sees)).all(), again.format("14.1")

# %% [markdown]
# **A finite token hidden from another position changes nothing there, not even the last digit.** So no
# gradient comes from it either, and causal self-attention on $n$ sequences is lesson 10 with $nT$
# sequences of 1 to $T$ tokens and the query $z = x_{ik}$.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.3 The SVM of all positions
#
# > **SAtt-SVM**, S for sequence (after Tarzanagh, Li, Thrampoulidis and Oymak, 2023). For a choice $\alpha$
# > of one visible token per position that sees any,
# >
# > $$W_{\mathrm{mm}}(\alpha) = \arg\min_W \lVert W\rVert_F \quad\text{subject to}\quad
# > (x_{i\alpha_{ik}} - x_{it})^\top W x_{ik} \ge 1 \quad
# > \text{for each } i, k \text{ and each } t \ne \alpha_{ik} \text{ that } k \text{ sees.}$$
# >
# > This is a definition, for an $\alpha$ that some $W$ can make (section 14.5); then there is only one, as
# > $\lVert W\rVert_F^2$ is strictly convex.

# %% [markdown]
# Lesson 06 had one query a sequence. Now all tokens ask, and all their conditions stand
# in one problem. To each belongs a **row** of the SVM, the matrix $(x_{i\alpha_{ik}} - x_{it})\,
# x_{ik}^\top$, and a **lead**, its inner product with $W$.
#
# Informally: a run that ends with one token per position, $\alpha$, goes in direction to
# $W_{\mathrm{mm}}(\alpha)$, if $\alpha$ is locally optimal (lesson 07). What the paper proves of descent, for
# one query a sequence, asks for more: a start near that direction, or conditions on the first gradient
# (lesson 12).
#
# Does training find it? We let the first position ask alone, then three, then all. Tokens are random, of norm
# 1, and labels fair coins, as we ask where $W$ goes, not what it learns. A run is **global** if every
# position that asks ends on its best token (nearly all attention there), and **local** if each ends on one
# token, but not all on the best.


# %%
def sequences(n, T, d, trials, seed, causal=False, asks=None):
    """Random tokens, of which the first ``asks`` positions ask, with fair coins for labels."""
    generator = torch.Generator().manual_seed(seed)
    drawn = data.random_tokens(n, T, d, trials=trials, seed=seed)
    y = 2.0 * torch.randint(0, 2, (trials, n, T), generator=generator).double() - 1.0
    tokens = data.every_position(drawn.X, y, drawn.v, causal)
    sees = tokens.scores.isfinite()  # (trials, n T, T)
    sees.unflatten(-2, (n, T))[..., T if asks is None else asks :, :] = False
    return dataclasses.replace(tokens, mask=sees)


def trained(tokens, steps):
    """The model after growing normalised steps (lesson 10) from W = 0, in each trial."""
    model = models.CrossAttention(tokens.X.shape[-1], trials=tokens.trials[0])
    optimizer = optim.NormalizedGD(model.parameters(), lr=0.1, batch_dims=1)
    train.fit(model, tokens, optimizer, steps, every=steps, schedule=train.growing, progress=False)
    return model.requires_grad_(False)


found, norms, best = [], [], []
print("80 runs each, n = 3, T = 5             steps  global, local    best   least cosine  median |W_mm|^2")
for name, d, asks, steps in (
    ("full, only position 1 asks", 20, 1, 600),
    ("full, positions 1 to 3 ask", 20, 3, 600),
    ("full, all ask", 20, 5, 600),
    ("causal, all ask", 20, 5, 600),
    ("full, all ask", 8, 5, 600),
    ("full, all ask", 8, 5, 2000),
):
    tokens = sequences(3, 5, d, 80, 2, name.startswith("causal"), asks)
    model = trained(tokens, steps)
    s, selected = model.attention(tokens), geometry.selected_tokens(model.attention(tokens))
    problem = svm.sequence_problem(tokens, selected)
    solution = svm.solve(problem)
    found.append([int((geometry.outcome(s, tokens) == word).sum()) for word in ("global", "local")])
    best.append(float((selected == tokens.optimal)[s.sum(-1) > 0.5].double().mean()))
    cosine = geometry.cosine(model.W, solution.value).min()
    norms.append(float((solution.value.flatten(1).norm(dim=1) ** 2).median()))
    row = f"{name:26s}, d = {d:2d} {steps:6d} {found[-1]!s:>14}"
    print(f"{row} {best[-1]:7.2f} {cosine:14.3f} {norms[-1]:16.1f}")
    assert cosine > (0.9 if (d, steps) == (8, 600) else 0.98)
    logits = models.CrossAttention(d, trials=80, init=solution.value).logits(tokens)
    assert geometry.locally_optimal(tokens.scores, logits, selected).all()
assert [sum(each) for each in found] == 6 * [80]
assert 5.5 < norms[2] / norms[0] < 6.2
assert best[0] > best[1] > best[2] < best[3]

# %% [markdown]
# In each of these runs the choice is locally optimal, and $W$ points to its SAtt-SVM; at $d = 8 < nT$ it
# takes longer. *Which* tokens these are differs: the more positions ask, the smaller is *best*, the share of
# them that ends on its best token; with a causal mask it is larger (section 14.6).

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.4 What it costs that all share one W
#
# The margin of the SVM is $1/\lVert W_{\mathrm{mm}}\rVert$. How much does $\lVert W_{\mathrm{mm}}\rVert^2$
# grow because all positions share one $W$? Above, five times as many positions need nearly six times
# as much, for the tokens that training selected. We now let chance select, and begin with orthonormal tokens,
# where a pencil is enough.

# %% [markdown]
# ### Exercise 14.2: The price of a mask
#
# ★★☆ · 10 minutes
#
# All $nT$ tokens are orthonormal. Return $\lVert W_{\mathrm{mm}}\rVert^2$ for a mask `sees`, any mask: a
# position need not see itself, and one that sees nothing does not ask. No choice $\alpha$ is given. Why is
# none needed?
#
# <details><summary>Hint</summary>
#
# Try $W = \sum_{ik} a_{ik}\, x_{ik}^\top$. Which of these terms does position $k$ of sequence $i$ feel? If
# it sees $m$ tokens, its $m - 1$ rows ask for $(x_\alpha - x_t)\cdot a_{ik} \ge 1$ with the shortest
# $a_{ik}$. They are all alike.
# </details>


# %%
@exercise("14.2")
def squared_norm(sees):
    """Return ||W_mm||^2, a number, for orthonormal tokens and sees (n, T, T) bool: who sees whom."""
    ### BEGIN SOLUTION
    m = sees.sum(axis=-1)  # (n, T); a, x_alpha less the mean of the m, has the squared length 1 - 1/m
    return np.sum(1 - 1 / m[m > 0])
    ### END SOLUTION


# %%
check("14.2", squared_norm)

# %%
n, T = 3, 5
X = torch.eye(n * T, dtype=torch.float64).reshape(n, T, n * T)
for name, causal in (("full", False), ("causal", True)):
    tokens = data.every_position(X, torch.ones(n, T).double(), X[0, 0], causal)
    price = squared_norm(visible(n * [T], T, causal))
    for seed in range(3):  # three random choices
        chance = torch.rand(tokens.scores.shape, generator=torch.Generator().manual_seed(seed))
        choice = chance.masked_fill(~tokens.scores.isfinite(), -1).argmax(-1)
        found = float(svm.solve(svm.sequence_problem(tokens, choice)).value.norm()) ** 2
        assert abs(found - price) < 1e-6, again.format("14.2")
    print(f"orthonormal tokens, {name}: |W|^2 = {price:.2f}, whatever the choice")

# %% [markdown]
# **With orthonormal tokens nobody is in another's way.** A position that selects $\alpha$ of $m$ tokens adds
# $a\, x_{ik}^\top$ to $W$, where $a$ is $x_\alpha$ less the mean of the $m$. This moves no other position's
# logits, and all leads of its own are exactly 1.
#
# No $W$ is shorter, by the KKT conditions (lesson 02): $a$ is the mean of $x_\alpha - x_t$ over the $m$
# tokens, so $W$ is a sum of its tight rows with weights $1/m > 0$. Whatever the choice, the squared norms add
# up: $1 - 1/m$ a position, with full attention $n(T-1)$.
#
# Random tokens are not orthogonal: what one position adds moves the logits of others, too. We solve the SVM
# twice for the same random choice: with one $W$ for all 15 positions, and with a $W$ of its own for each, and
# add up the squared norms of these.

# %%
print("|W|^2 for n = 3, T = 5, full, random choices; medians of 40 problems")
ratios = []
for d in (8, 12, 20, 50, 200):
    tokens = sequences(3, 5, d, 40, 3)
    choice = torch.rand(tokens.scores.shape, generator=torch.Generator().manual_seed(3)).argmax(-1)
    one = svm.solve(svm.sequence_problem(tokens, choice)).value.flatten(1).norm(dim=1) ** 2
    X = tokens.X.repeat_interleave(5, dim=1).flatten(0, 1)[:, None]  # 600 problems, one position in each
    alone = svm.attention_problem(X, tokens.z.flatten(0, 1)[:, None], choice.flatten()[:, None])
    own = (svm.solve(alone).value.flatten(1).norm(dim=1) ** 2).reshape(40, 15).sum(1)
    ratios.append(float((one / own).median()))
    print(f"d = {d:3d}: one W {one.median():5.1f}, own ones {own.median():5.1f}, ratio {ratios[-1]:.1f}")
assert 2 < ratios[0] < 4
assert ratios == sorted(ratios, reverse=True)

# %% [markdown]
# **To share one $W$ is almost free in high dimension, and dear in low**: at $d = 8$, for this $n$ and $T$,
# the square is 2.6 times what the positions need alone.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.5 When can one W make a choice?
#
# [Lesson 12](12_overparameterization.ipynb) showed: for almost all data every choice is feasible (or
# possible: some $W$ makes it) if the queries are linearly independent and $d \ge T - 1$. With $nT$ queries
# that asks for $d \ge nT$. Its count (exercise 12.1), with queries drawn apart, asks only for
# $d^2 \ge nT(T - 1)$. A random choice needs less: it uses up part of the $d^2$ entries of $W$. How many?

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What a choice uses up
#
# Section 12.3 answered this for one position. Draw its $m$ logits as independent $N(0, 1)$ numbers; one token
# is the selected one. Now move the logits as little as possible (least squares) until it leads. It climbs to
# some level $\theta$, or stays if it leads already. Tokens above come down to that level, and are **tied**;
# those below stay where they are. Each tie uses up one degree of freedom. The mean number of ties is $\nu_m$.
#
# A position that sees $m$ tokens has $m - 1$ rows. Does $\nu_m$ grow as fast? **Predict before you run on**:
# by how much from 8 tokens to 16?

# %% [markdown]
# ### Exercise 14.3: The tie level
#
# ★★★ · 15 minutes
#
# Forecast $\nu_m$. Which balance does the least move keep between the selected token, which climbs, and the
# tied ones, which come down? $\theta$ varies from draw to draw; take one for all, and replace both sides by
# their means. Return the $\theta$ that solves this, and how many of the $m - 1$ others are above it on
# average.
#
# A $N(0, 1)$ number is above $\theta$ with the chance $Q(\theta)$, `ndtr(-theta)`; `brentq(f, 0, 10)` finds a
# root of `f` between 0 and 10.
#
# <details><summary>Hint: the balance</summary>
#
# The selected token and the tied ones move to their common mean, so their sum stays:
# $\sum_t \max(g_t - \theta, 0) = \theta - g_1$, for logits $g$, the selected one $g_1$, the others $g_t$.
# </details>
#
# <details><summary>Hint: the mean</summary>
#
# With the density $\varphi$ of $N(0, 1)$, $\int_\theta^\infty x\, \varphi(x)\, dx = \varphi(\theta)$. So what
# one other token comes down by is $\varphi(\theta) - \theta\, Q(\theta)$ on average.
# </details>


# %%
@exercise("14.3")
def tie_level(m):
    """Return the tie level theta and the forecast of nu_m, two numbers, for m tokens seen."""

    ### BEGIN SOLUTION
    def excess(a):  # by which the others come down, less by which the selected one climbs
        return (m - 1) * (np.exp(-a * a / 2) / (2 * np.pi) ** 0.5 - a * ndtr(-a)) - a

    theta = brentq(excess, 0, 10)
    return theta, (m - 1) * ndtr(-theta)
    ### END SOLUTION


# %%
check("14.3", tie_level)


# %%
def pooled(targets):
    """How many tokens end tied with the first, the selected one, (draws,), for targets (draws, m)."""
    others = -np.sort(-targets[:, 1:], axis=1)  # the largest needs the tie most
    sums = np.cumsum(np.concatenate([targets[:, :1], others], axis=1), axis=1)[:, :-1]
    return np.cumprod(others > sums / np.arange(1, targets.shape[1]), axis=1).sum(axis=1)


share_of, nu = {1: np.ones(1)}, {1: 0.0}
print("   m   nu_m, counted   forecast   theta^2   2 ln m")
for m in (2, 3, 4, 5, 8, 16, 64, 256, 1024):
    draws = max(1_600_000 // m, 3000)
    used = pooled(np.random.default_rng(m).normal(size=(draws, m)))
    share_of[m] = np.bincount(used, minlength=m) / len(used)
    nu[m], half = used.mean(), 1.96 * used.std() / draws**0.5
    theta, ahead = tie_level(m)
    print(f"{m:4d} {nu[m]:9.2f} ± {half:.2f} {ahead:10.2f} {theta**2:9.2f} {2 * np.log(m):8.2f}")
    assert 0 < nu[m] - ahead < 0.85, again.format("14.3")
    assert theta**2 < min(ahead, 2 * np.log(m)), again.format("14.3")
    assert ahead < theta**2 + 2, again.format("14.3")
assert np.allclose([nu[2], nu[3], nu[5], nu[8], nu[64]], [0.5, 5 / 6, 1.29, 1.76, 4.2], atol=0.05)

# %% [markdown]
# **A position with a long context uses up little.** From 8 tokens to 16, where rows more than double, $\nu_m$
# grows by 0.76 (0.66 by the forecast). A full sequence has $T$ such positions: it uses up 14 degrees of
# freedom at $T = 8$ and 40 at $T = 16$, of 56 and 240 rows.
#
# The balance says why: the forecast is below $\theta^2 + 2$, and $\theta^2 < 2 \ln m$, while rows grow like
# $m$. It is 0.1 to 0.7 too low. Below we take the counted $\nu_m$.
#
# <details><summary>Both bounds</summary>
#
# Ties, times what each comes down by on average, make $\theta$. Beyond $\theta$ a $N(0, 1)$ number exceeds it
# by less than $1/\theta$ on average, and by more than $\theta / (\theta^2 + 2)$ (from Laplace's continued
# fraction of the Gaussian tail): the forecast lies between $\theta^2$ and $\theta^2 + 2$. At $\theta =
# \sqrt{2 \ln m}$ the ties would come down by less than $(m - 1)\, Q(\theta) \cdot \frac1\theta$ in sum and,
# as $Q(\theta) < \varphi(\theta) / \theta$, by less than $m\, \varphi(\theta) / \theta^2 \approx 0.4 /
# \theta^2$, too little for the climb.
# </details>

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Room for all positions
#
# Section 12.3 has the probability that a random choice is possible, $P = \mathbb E\,(-1)^{J - R}$. Here $J$
# is the sum of the ties at all positions, each drawn from the distribution counted above, and
# $R = \min(d^2, J)$ where no position sees more than $d + 1$ tokens. There, or where $d$ ties are rare,
# $P$ is about a half, with many positions, at
#
# $$d^2 \approx \sum_{i,k} \nu_{m_{ik}}, \qquad m_{ik} \text{ tokens seen by position } k \text{ of } i .$$
#
# Lesson 12's Proposition holds for Gaussian tokens, other ones for each query, and fixed queries. Here all
# positions of a sequence share its tokens, which have norm 1 and are the queries, too. The first table has
# for each size and mask the first whole $d \ge 2$ with $d^2 > \sum \nu_m$, and the first at which more than
# half of the choices are possible: random ones, and those that training *wants*, the best token everywhere.
# `share_possible` computes $P$, for any $d$.
#
# The second table has longer sequences, full attention and one $d$ a line. In two other draws each position
# has tokens of its own, Gaussian or of norm 1, and a Gaussian query.


# %%
found, longer = measured("14.feasible").load(), measured("14.longer").load().random.mean("trial")
drawn_points = []  # (mask, T, d^2 over what choices use up, measured, predicted)
print("first d with   d^2 > sum nu   more than half possible: random choices   the best choice")
for T, n, mask in product((3, 5), (1, 3, 6), ("full", "causal")):
    seen = n * (T * [T] if mask == "full" else [*range(1, T + 1)])
    share, best = (found[name].sel(T=T, n=n, mask=mask).mean("trial").values for name in ("random", "best"))
    ahead = np.array([share_possible(seen, d, share_of) for d in found.d.values])
    uses = sum(nu[m] for m in seen)
    drawn_points += [(mask, T, *point) for point in zip(found.d.values**2 / uses, share, ahead, strict=True)]
    fits = found.d.values**2 > uses + 0.05  # a tie does not
    firsts = [int(found.d.values[one][0]) for one in (fits, share > 0.5, best > 0.5)]
    print(f"T = {T}, n = {n}, {mask:6s} {firsts[0]:9d} {firsts[1]:37d} {firsts[2]:17d}")
    assert firsts[0] == firsts[1]
    assert firsts[2] in (firsts[1], firsts[1] - 1)
lines = []
print("300 trials a line    possible: predicted   own Gaussian   own of norm 1   shared (ours)")
for size in longer["size"].values:
    n, T, d = map(int, size.split())
    ahead, of_size = share_possible(n * T * [T], d, share_of), longer.sel(size=size)
    gaussian, own, shared = (float(of_size.sel(tokens=kind)) for kind in ("Gaussian", "own", "shared"))
    if T > 5:
        drawn_points.append(("full", T, d * d / (n * T * nu[T]), shared, ahead))
    print(f"T = {T:2d}, n = {n}, d = {d} {ahead:20.2f} {gaussian:14.2f} {own:15.2f} {shared:15.2f}")
    low, high = wilson(300 * gaussian, 300)
    lines.append((gaussian, own, shared, ahead))
    assert low <= ahead <= high
assert lines[0][2] < lines[0][1] - 0.05  # T = 3, n = 1: sharing makes it harder
assert lines[-2][1] > 2 * lines[-2][0]  # T = 16, d = 6: norm 1 makes it easier
assert max(abs(ours - ahead) for _, _, ours, ahead in lines) < 0.25


# %% jupyter={"source_hidden": true}
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), width_ratios=(5, 4))
looks = product((("full", ORANGE, -0.3), ("causal", BLUE, 0.3)), ((3, "^"), (5, "o"), (8, "s"), (16, "D")))
for (mask, color, move), (T, marker) in looks:
    points = [point[2:] for point in drawn_points if point[:2] == (mask, T) and 0.3 < point[2] < 3]
    if points:
        x, share, ahead = np.array(points).T
        low, high = wilson(300 * share, 300)
        style = {"fmt": marker, "markersize": 5, "color": color, "fillstyle": "none", "elinewidth": 1.2}
        left.errorbar(
            x * (1 + 0.01 * move), share, (share - low, high - share), **style, label=f"{mask}, $T = {T}$"
        )
        right.errorbar(ahead, share, (share - low, high - share), **style)
left.set(
    xscale="log", xlabel="$d^2 / \\sum \\nu_m$", ylabel="share of feasible random choices", xlim=(0.3, 3)
)
left.set(xticks=[0.3, 0.5, 1, 2, 3], xticklabels=["0.3", "0.5", "1", "2", "3"])
left.minorticks_off()
left.legend(loc="upper left", fontsize=10)
right.plot([0, 1], [0, 1], color=BLACK, lw=1)
right.set(xlabel="predicted share", ylabel="measured share")
show(
    fig,
    alt="Left: the share of feasible random choices against d squared over the sum of nu rises from 0 to 1 "
    "around 1, for full and causal masks and all lengths. Right: measured against predicted shares lie near "
    "the diagonal; three, of T = 5, 8 and 16, lie above it, and one, of T = 3, below.",
)

# %% [markdown]
# **Figure 2.** Shares of random choices of our tokens that one $W$ can make, with Wilson's 95% intervals (300
# trials a point; for $T = 3$ and 5 another draw than in the table): against $d^2$ over what the choice uses
# up (left), and against the prediction (right).

# %% [markdown]
# **More than half of the random choices are possible from the first $d$ with $d^2 > \sum \nu_m$**, in all
# twelve lines: a coarse test, as $d$ is whole (three cannot be lower than 2; at $T = 3$, $n = 3$, causal,
# $d = 2$ is on the edge, with 0.45 possible). The best choice passes a half there or one earlier.
#
# **With Gaussian tokens of their own the shares are as predicted**, as section 12.3 proves. What is left
# comes from our tokens. Their norm 1 makes many tokens easier, 0.46 in place of 0.22 at $T = 16$, $d = 6$, in
# part because one position alone can choose any, each a vertex of their hull. That they are shared, and are
# the queries, makes a few harder: 0.82 in place of 0.90 at $T = 3$, $d = 2$.


# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output", "widget"]
def chances(n, m):
    """The prediction over d for n sequences of 5 tokens of which a position sees at most m."""
    figure = Figure(figsize=(7, 3.5), layout="none")  # constrained layout would draw twice
    ax = figure.add_axes((0.11, 0.17, 0.86, 0.72))
    dims = np.arange(1, 13)
    for label, seen, color, marker in (
        ("full", 5 * [m], ORANGE, "s"),
        ("causal", [min(k, m) for k in range(1, 6)], BLUE, "o"),
    ):
        uses = n * sum(nu[k] for k in seen)
        ax.plot(dims, [share_possible(n * seen, int(k), share_of) for k in dims], color=color, marker=marker,
                label=f"{label}: {uses:.1f} degrees of freedom")  # fmt: skip
    ax.set(xlabel="dimension $d$", ylabel="predicted share", ylim=(-0.05, 1.05), xticks=dims)
    ax.set_title(f"n = {n}, T = 5, at most {m} tokens seen", fontsize=12)
    ax.legend(loc="lower right", fontsize=10)
    return figure


widgets.sliders(
    chances,
    alt="Predicted share of feasible random choices against the dimension, full and causal.",
    n=ipywidgets.IntSlider(value=3, min=1, max=20, description="n"),
    m=ipywidgets.IntSlider(value=5, min=2, max=5, description="m"),
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.6 Room is not enough
#
# If some $W$ has the best token at all positions, does training find it? Call it a **miss** where
# a position's largest attention after 500 steps is not on its best token. The **room** is
# $d^2 / \sum \nu_m$, what $W$ has over what a random choice uses up (here 3 or more).
#
# **Predict before you run on**: at $T = 5$, what does four times the room do to the share that misses? And
# more sequences, at the same room?


# %%
lags, shares = measured("14.room").load(), {}  # shares: (T, n) -> room, share that misses, half its interval
for size in lags["size"].values:
    (n, T, d), of_size = map(int, size.split()), lags.sel(size=size)
    point = (d * d / (n * T * nu[T]), *ratio(of_size.missed.values, of_size.number.values))
    shares.setdefault((T, n), []).append(point)
print("360 runs each, full: share that misses, after the room")
for (T, n), points in shares.items():
    print(f"T = {T:2d}, n = {n}", *(f"{x:8.1f}: {share:.3f} ± {half:.3f}" for x, share, half in points))
assert all(0.4 < x * share < 0.9 for n in (2, 4, 9) for x, share, _ in shares[5, n][1:])
same = np.array([shares[5, n] for n in (2, 4, 9)])[..., 1]  # (n, room)
assert (same.max(0) < 1.7 * same.min(0)).all()

# %% jupyter={"source_hidden": true}
fig, ax = plt.subplots(figsize=(7.2, 4.2))
looks = {(16, 2): (BLACK, "v"), (8, 2): (BLACK, "<"), (8, 8): (BLACK, ">"), (5, 2): (BLUE, "o"),
         (5, 4): (ORANGE, "s"), (5, 9): (GREEN, "D"), (3, 2): (BLACK, "^")}  # fmt: skip
for (T, n), (color, marker) in looks.items():
    style = {"fillstyle": "full", "ls": "-"} if T == 5 else {"fillstyle": "none", "ls": ":"}
    ax.errorbar(*np.array(shares[T, n]).T, fmt=marker, color=color, markersize=6, elinewidth=1.2, lw=1,
                label=f"$T = {T}$, $n = {n}$", **style)  # fmt: skip
ax.plot([9, 44], [0.62 / 9, 0.62 / 44], color="0.5", lw=5, alpha=0.35, label="$\\propto$ 1 / room")
ax.set(xscale="log", yscale="log", xlabel="room $d^2 / \\sum \\nu_m$", ylabel="share that misses")
ax.set(xticks=[3, 5, 10, 20, 40], xticklabels=["3", "5", "10", "20", "40"], ylim=(0.005, 0.5))
ax.set(yticks=[0.01, 0.03, 0.1, 0.3], yticklabels=["0.01", "0.03", "0.1", "0.3"])
ax.minorticks_off()
ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=10)
show(
    fig,
    alt="Share that misses against the room, both on logarithmic axes. At T = 5 the three lines for n = 2, 4 "
    "and 9 lie close together and fall from about 0.12 at a room of 4 to below 0.02 at 40. T = 3 lies below "
    "them and is as steep; T = 8 and 16 lie above and fall more slowly.",
)

# %% [markdown]
# **Figure 3.** At $T = 5$ all sizes fall near one line (full attention, 95% intervals; grey: 1 over the room,
# scaled).

# %% [markdown]
# **At $T = 5$, $n$ and $d$ matter little but through the room, and misses fall about as 1 over it from 10
# on** (at $n = 2$ slower): four times the room leaves a third to a quarter of them. Two, four and nine
# sequences at one room miss alike, up to a factor 1.6; so do two and eight at $T = 8$.
#
# But $T$ matters beyond the room: at 3 to 4 the share grows from 0.06 at $T = 3$ to 0.3 at 16, and six times
# the room leaves a fifth of it at $T = 3$, two thirds at 16.
#
# Who misses? Training begins at $W = 0$, so we look at its first step.

# %% [markdown]
# ### Exercise 14.4: The first step
#
# ★★☆ · 12 minutes
#
# From $W = 0$, with full attention, one gradient step is made. The slope of the loss is taken as the same for
# all positions (at $W = 0$ it differs only through $y_{ik} f_{ik}$, small for random tokens). One is **pulled
# the wrong way** if what its *own sequence* adds to the step lowers its $y_{ik} f_{ik}$, to first order.
# **Predict** their share.
#
# Labels are fair coins, tokens random directions: the inner product of two has mean 0 and variance $1/d$.
# Take sums as normal; `ndtr(-a)` is the chance of more than $a$ standard deviations.
#
# <details><summary>Hint: the step</summary>
#
# At $W = 0$ each weight is $1/T$, so the gradient of $f_{ik}$ is $u_i\, x_{ik}^\top$, with one
# $u_i = \frac1T \sum_t (v\cdot x_{it} - f_{ik})\, x_{it}$ for all $k$. Which multiple of
# $\lVert u_i\rVert^2$ does the sum of all $y_{ik'} u_i\, x_{ik'}^\top$ add to $y_{ik} f_{ik}$?
# </details>
#
# <details><summary>Hint: the sign</summary>
#
# The term of $k$ itself is 1, always. The other $T - 1$ are chance, with signs $y_{ik'} y_{ik}$: when do they
# outweigh it?
# </details>


# %%
@exercise("14.4")
def wrong_way(T, d):
    """Return the expected share of positions pulled the wrong way, for T >= 2 tokens in dimension d."""
    ### BEGIN SOLUTION
    return ndtr(-((d / (T - 1)) ** 0.5))  # T - 1 terms of variance 1/d in sum below -1
    ### END SOLUTION


# %%
check("14.4", wrong_way)

# %% [markdown]
# **All positions of a sequence push along one $u_i$, each for its own label.** Position $k$ feels
#
# $$u_i \Big(y_{ik} + \sum_{k' \ne k} y_{ik'}\, x_{ik'}\cdot x_{ik}\Big),$$
#
# and where the others outweigh $y_{ik}$, the part of its own sequence lowers $y_{ik} f_{ik}$. Do these
# (`pulled_wrongly`) miss? And where does the *whole* step, over all $n$ sequences, lower it (`step_lowers`)?


# %%
runs = measured("14.misses").load()
assert runs.feasible.all()  # the best choice, in each run
print("720 runs, n = 2, full     wrong way: predicted  counted     misses: of them  of others")
for size in runs["size"].values:
    _, T, d = map(int, size.split())
    missed, wrong = (runs[what].sel(size=size, mask="full").values[..., :T] for what in ("missed", "wrong"))
    forecast, (counted, half) = wrong_way(T, d), ratio(wrong, np.ones_like(wrong))
    of_them, of_others = ratio(missed & wrong, wrong), ratio(missed & ~wrong, ~wrong)
    print(f"T = {T:2d}, d = {d:2d} {forecast:28.3f}   {counted:.3f} ± {half:.3f}", end="    ")
    print("{:.2f} ± {:.2f}   {:.3f} ± {:.3f}".format(*of_them, *of_others))
    assert abs(counted - forecast) < half + 0.004, again.format("14.4")
    assert of_them[0] > 3 * of_others[0]
    assert 0.345 < (missed & wrong).sum() / missed.sum() < 0.405
print("60 new runs each, full: misses after 500 steps, after 2,500, and at both")
for size in runs["size"].values[:3]:
    new = positions(*map(int, size.split()), "full", trials=60, seed=5)
    early, late = (geometry.selected_tokens(s) != new.optimal for s, _ in attention_after(new, 500, 2500))
    print(f"n, T, d = {size:7s} {early.sum():18d} {late.sum():12d} {(early & late).sum():13d}")
    assert min(early.sum(), late.sum()) * 0.95 < (early & late).sum()
print("200 runs each, T = 5, d = 10; lowered by: the own part   the whole step   forecast")
for n in (1, 4, 10):
    new = positions(n, 5, 10, "full", trials=200, seed=5)
    own, whole = (lowered(new, n, 5).double().mean() for lowered in (pulled_wrongly, step_lowers))
    r = 4 / 14  # (T - 1)/(T - 1 + d)
    forecast = ndtr(-((0.4 + (n - 1) * 5 / 10 * (r**2 + (1 - r**2) / 10)) ** -0.5))
    print(f"n = {n:2d} {own:49.2f} {whole:16.2f} {forecast:10.2f}")
    assert max(abs(own - wrong_way(5, 10)), abs(whole - forecast)) < 0.035

# %% [markdown]
# Up to $T = 8$, five times the steps take back hardly a miss.
#
# Their own sequence pulls as many the wrong way as predicted (at $T = 3$ a few more). These miss at least
# three times as often as the others, and make 0.35 to 0.4 of the misses. The other sequences, which the
# exercise leaves out, push along their own $u_j$: the whole step lowers the more, the larger $n$.
#
# <details><summary>A forecast for the whole step</summary>
#
# Each of the $(n - 1)T$ others adds $\pm (u_j \cdot u_i)(x_{jk'} \cdot x_{ik})$ to the sum, over $\lVert
# u_i\rVert^2$. All $u_j$ lean toward $v$: $u_i = C_i v$ with $C_i$ the covariance of the tokens, whose mean
# is a multiple of the identity, so $\mathbb E\, u_i$ is one of $v$. The means of $u_j \cdot u_i$ and $\lVert
# u_i\rVert^2$ are about as $r = (T - 1) / (T - 1 + d)$ to 1. With the rest of $u_j$ in a random direction,
# the sum's variance is $\frac{T - 1}{d} + (n - 1) \frac Td \big(r^2 + \frac{1 - r^2}{d}\big)$. At $n = 10$
# the forecast is a little too low.
# </details>
#
# Do they miss for the shared $W$, or the shared tokens? Mostly $W$ (not at $T = 3$). Two controls: one
# position asks alone; or all, each with a query and $T$ tokens of its own.


# %%
def missing(tokens, steps=500):
    """Whether each position's largest attention is not on its best token after so many steps, as 0 or 1."""
    return (geometry.selected_tokens(trained(tokens, steps).attention(tokens)) != tokens.optimal).double()


print("n = 2, full       another raised most, alone   misses: alone   own tokens   all ask")
for size in runs["size"].values:
    n, T, d = map(int, size.split())
    alone, apart = sequences(1, T, d, 300, 12, asks=1), data.random_tokens(n * T, T, d, trials=100, seed=11)
    raised, lone, own = missing(alone, 1)[:, 0].mean(), missing(alone)[:, 0].mean(), missing(apart).mean()
    both = runs.missed.sel(size=size, mask="full").values[..., :T].mean()
    print(f"T = {T:2d}, d = {d:2d} {raised:31.2f} {lone:15.2f} {own:12.2f} {both:9.2f}")
    assert lone < 0.1 < raised
    assert own < both < 3 * own

# %% [markdown]
# **A position that asks alone hardly misses, though the first step raises another token most in 0.1 to 0.4 of
# cases**: $u_i$ is not $v$, as tokens overlap.
#
# Alone nearly all recover; with others many do not. Later gradients have $\partial f_{ik} / \partial h_{ikt}
# = s_{ikt}\,(v \cdot x_{it} - f_{ik})$, weighted by the token's attention: a token ahead of the best can run
# on. Why it seldom does alone, this does not say. The **lag** (not lesson 13's) is how far it is ahead after
# one step: the largest logit less the best token's, over the standard deviation of the position's logits, so
# at most $\sqrt{2T}$. **Predict**: does a position with a lag above 2 always miss?


# %%
print(
    "360 runs each, full     lag > 0: of positions, of misses   that miss, by lag: 0, to 0.5, 1, 1.5, 2, more"
)
for size in runs["size"].values:
    number, missed = (lags[what].sel(size=size).values.sum(0) for what in ("number", "missed"))
    raised, caught = (1 - each[0] / each.sum() for each in (number, missed))
    print(
        f"n, T, d = {size:7s} {raised:26.2f} {caught:11.2f} ", *(f"{each:6.2f}" for each in missed / number)
    )
    assert caught > 0.87
    assert missed[1:].sum() / number[1:].sum() < 0.5
    assert (np.diff(missed / number) > 0).all()

# %% [markdown]
# **At these sizes nine of ten misses have a lag, as have 0.3 to 0.6 of all positions, and more than half of
# these do not miss. The longer the lag, the more do**: without one 8% at most, with one above 2 from a
# quarter ($T = 3$) to three quarters ($T = 16$).
#
# Under a causal mask many see fewer tokens, and fewer miss.


# %% jupyter={"source_hidden": true}
fig, axes = plt.subplots(1, 4, figsize=(10, 3.3), sharey=True, width_ratios=(3, 4, 5, 7))
looks = (("full", ORANGE, "s", -0.08), ("causal", BLUE, "o", 0.08))
for ax, size in zip(axes, runs["size"].values, strict=True):
    n, T, d = map(int, size.split())
    for mask, color, marker, move in looks:
        each = runs.missed.sel(size=size, mask=mask).values[..., :T].mean(1)
        off = 1.96 * each.std(0) / len(each) ** 0.5
        ax.errorbar(np.arange(1, T + 1) + move, each.mean(0), off, fmt="-", color=color, marker=marker,
                    markersize=4, elinewidth=1.2, label=mask)  # fmt: skip
    ax.set(title=f"$T = {T}$", xlabel="position $k$", xticks=[1, *range(T, 1, -1 - T // 6)][::-1])
axes[0].set(ylabel="share that misses", ylim=(-0.01, 0.36))
axes[0].legend(loc="upper left", fontsize=10)
show(
    fig,
    alt="Share of positions that miss over the position, at T = 3, 5, 8 and 16. With full attention it is "
    "flat. Causal rises from 0; at the last position it ends clearly below full for T = 3 and 5, and near "
    "it for 8 and 16.",
)

# %% [markdown]
# **Figure 4.** Which positions miss, for $n = 2$ and $d = 5$, 7, 10 and 16, with 95%
# intervals. Position $k$ sees all tokens (full) or the first $k$ (causal). For $T = 3$ and 5 even the last
# one, which sees all, misses less often under a causal mask; why, we did not test.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.7 A forgotten mask
#
# Sequences of 1 to 4 tokens are filled up with zeros to a length of 5. Positions that are padding are left
# out of the loss, but the attention is not told. A padding token has the logit $0^\top W
# x_{ik} = 0$ and the score $y_{ik}\, v \cdot 0 = 0$.
#
# **Predict**: which share of positions with $m$ real tokens in sight ends on padding, with more than half of
# its attention?


# %%
generator = torch.Generator().manual_seed(10)
ends = torch.randint(1, 5, (300, 3), generator=generator)  # sequences of 1 to 4 tokens
coins = 2.0 * torch.randint(0, 2, (300, 3, 5), generator=generator).double() - 1.0
for d, least in ((20, 0.99), (8, 0.97), (3, 0.9)):
    base = data.random_tokens(3, 5, d, trials=300, seed=10, lengths=ends)  # filled up to 5 with zeros
    told = data.every_position(base.X, coins, base.v, mask=base.mask)
    number = told.mask.sum(-1)  # m, 0 for padding
    untold = dataclasses.replace(told, mask=(number > 0)[..., None].expand(told.mask.shape))  # sees the zeros
    falls = (trained(untold, 600).attention(untold) * ~told.mask).sum(-1) > 0.5
    shares = ", ".join(f"{falls[number == m].double().mean():.2f}" for m in range(1, 5))
    assert 0.14 < falls[number > 0].double().mean() < 0.18
    foreseen = (falls == (told.scores.amax(-1) < 0))[number > 0].double().mean()
    print(f"d = {d:2d}: of m = 1, 2, 3, 4 end on padding {shares}; foretold one by one: {foreseen:.0%} right")
    assert foreseen > least

# %% [markdown]
# **At $d = 20$ and 8 padding wins almost always where all $m$ scores are negative, and hardly elsewhere.**
# Each is negative with chance $1/2$: expect a share $2^{-m}$. At $d = 3$ five of 100 end otherwise. Lengths 1
# to 4 are equally likely, so $m$ of 10 positions see $m$ tokens: the forecast that none ends on padding would
# fail in about $\sum_m \frac m{10}\, 2^{-m} \approx 0.16$ of them.


# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.8 Claims and measurements
#
# | claim | prediction | measured |
# |:---|:---|:---|
# | $W$ goes to the SAtt-SVM of its choice | cosine 1 | above 0.98 (0.96 at $d = 8$, 600 steps) |
# | $\nu_m$ from one level $\theta$ | forecast | 0.1 to 0.7 more, $m = 2$ to 1,024 |
# | misses at $T = 5$ | about as 1 over the room | room 10 to 40: a third ($n = 2$) to a quarter left |
# | pulled the wrong way by the own sequence | $Q(\sqrt{d/(T-1)})$ | within 0.011 |
# | a miss shows in the first step | lag above 0 | 0.9 of misses, 0.3 to 0.6 of positions |
# | forgotten padding wins | where all scores are negative | right for 100, 99, 95% of positions |

# %% [markdown]
# ## Questions
#
# **1.** Padding stands at the end and attention is causal. Which of the two masks can you forget?
# <details><summary>Answer</summary>
#
# In the attention, the padding's: a real position sees no later token, and all up to it are real. (The loss
# must still leave the padded positions out.) With padding at the *beginning* both are needed.
# </details>
#
# **2.** A batch has 32 causal sequences of 128 tokens, and $d = 64$. Can one $W$ make any choice? A random
# one?
# <details><summary>Answer</summary>
#
# A random one: by the count (tested up to $T = 16$), hardly. More than half of the 4,096 positions see 64
# tokens or more, and use up at least $\nu_{64} = 4.2$ degrees of freedom each, together over 8,600. $W$ has
# 4,096. So not every one either, though for distinct tokens of one length one always can be made: "look at
# yourself", with $W = I$.
# </details>

# %%
progress("14")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
# - With every position a query, training went, in our runs, to the **SAtt-SVM** over all positions. A
#   **mask** is exact: a hidden token moves no other position.
# - To share one $W$ costs nothing with orthonormal tokens, little in high dimension, and much in low.
# - A position that sees $m$ tokens uses up $\nu_m$, by our forecast less than $2 + 2 \ln m$. About half of
#   the random choices are feasible near $d^2 = \sum \nu_m$.
# - **Room is not enough**: training (500 steps) misses best tokens that some $W$ has, at $T = 5$ about as 1
#   over the room, at larger $T$ more. Nine of ten misses have a lag after the first step; the longer, the
#   more miss.
# - **Padding** without a mask is a token with score 0, and wins with the chance $2^{-m}$.
#
# Limits: tokens were random and of norm 1, labels fair coins, steps normalised and growing. Direction: $n =
# 3$, $T = 5$, $d = 20$ and 8; sharing: $n = 3$, $T = 5$; the count: $T = 3$ to 16; misses: $n = 2$ to 9, $T =
# 3$ to 16; padding: $n = 3$.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Further reading
#
# - D. A. Tarzanagh, Y. Li, C. Thrampoulidis, S. Oymak, *Transformers as Support Vector Machines* (2023,
#   arXiv 2308.16898): the Att-SVM for $W$, and the extension to sequence outputs.
# - D. Amelunxen, M. Lotz, M. B. McCoy, J. A. Tropp, *Living on the Edge: Phase Transitions in Convex
#   Programs with Random Data* (2014, arXiv 1303.6672): degrees of freedom of cones, and the kinematic
#   formula.
#
# That the formula fits attention, the forecast of $\nu_m$ and the misses are this lesson's own.
#
# **New in the library:** [`data.every_position`](../mini_attn/data.py),
# [`svm.sequence_problem`](../mini_attn/svm/sequence.py); and `mask=` of the data and the SVMs, `lengths=`
# of random tokens.
#
# **Next:** [lesson 15](15_mirror_descent_attention.ipynb) asks what mirror descent, an optimiser of other
# geometries, does to attention.
