# %% [markdown] slideshow={"slide_type": "slide"}
# # 14 · Sequences and causal masks
#
# Up to now one query looked at each sequence. In a transformer *every* token asks: in a language model it
# asks about itself and the tokens before it. All these queries share one matrix $W$.
#
# **The question: where does training go when every position asks and one W has to answer them all?**
#
# In our runs it goes to one SVM over all positions. We ask what it costs that they share one $W$, and for how
# many positions $W$ has room. Room will not be enough: training misses best tokens even where some $W$ would
# give every position its own.

# %% [markdown]
# **After this lesson you can**
#
# - say what a mask takes out of the output, the loss and the SVM;
# - predict $\lVert W_{\mathrm{mm}}\rVert$ from the mask alone, where tokens are orthonormal;
# - forecast how much of $W$ a choice uses up, and at which dimension half of the random choices are feasible;
# - derive which share of positions their own sequence pulls the wrong way in the first step, measure how many
#   misses this marks, and test by an intervention whether that step decides.
#
# **You need** [lesson 06](06_attention_as_svm.ipynb) (the Att-SVM), [lesson 07](07_local_global_tokens.ipynb)
# (global and local choices), [lesson 10](10_cross_self_attention.ipynb) (the matrix $W$), and [lesson
# 12](12_overparameterization.ipynb) (feasibility, and the optional 12.4). About 90 minutes (135 with a
# pencil), four exercises.

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
from course.replicate.lesson_14 import attention_after, behind, continued, ratio, reached, share_feasible
from mini_attn import data, geometry, models, optim, plots, svm, train, widgets
from mini_attn.sweep import wilson

plots.style()
torch.set_num_threads(1)  # many small tensors: one thread is fastest
BLUE, ORANGE, GREEN, BLACK = (plots.COLORS[name] for name in ("blue", "vermillion", "green", "black"))
again = "this differs from the text: if exercise {} has no tick, start there"

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.1 The idea in a picture
#
# There are $n$ sequences of $T$ tokens $x_{it}$. Position $k$ of sequence $i$ asks with its own token
# $x_{ik}$. Its logits, attention and output are
#
# $$h_{ikt} = x_{it}^\top W x_{ik}, \qquad s_{ik} = \mathrm{softmax}(h_{ik}), \qquad
# f_{ik} = \sum_t s_{ikt}\, v\cdot x_{it},$$
#
# over all $t$ (**full** attention), or only over $t \le k$ (**causal** attention). The head $v$ is given;
# only $W$ is trained. Each position has a label $y_{ik} = \pm 1$ of its own, which stands for the class of
# what comes next. To position $k$ the token $t$ has the score $y_{ik}\, v\cdot x_{it}$, and the token in
# sight with the largest score is its **best** token. Training lowers the mean logistic loss of
# $y_{ik} f_{ik}$.
#
# We train on three sequences under three masks; `data.every_position` lets every position ask.

# %%
drawn = data.random_tokens(3, 5, 20, seed=5)
labels = 2.0 * torch.randint(0, 2, (3, 5), generator=torch.Generator().manual_seed(5)) - 1.0
lengths = torch.tensor([3, 5, 4])
real = torch.arange(5) < lengths[:, None]  # (n, T): the first tokens of a sequence are real, the rest padding
under = {
    "full": data.every_position(drawn.X, labels.double(), drawn.v),
    "causal": data.every_position(drawn.X, labels.double(), drawn.v, causal=True),
    "causal, length 3": data.every_position(drawn.X, labels.double(), drawn.v, causal=True, mask=real),
}
patterns = {}
for name, tokens in under.items():
    model = models.CrossAttention(20)
    optimizer = optim.NormalizedGD(model.parameters(), lr=0.1)
    train.fit(model, tokens, optimizer, 300, schedule=train.growing, progress=False)
    every = model.attention(tokens).detach().unflatten(0, (3, 5))
    sees = torch.ones(5, 5, dtype=bool) if tokens.mask is None else tokens.mask.unflatten(0, (3, 5))[0]
    patterns[name] = (every[0].numpy(), sees.numpy(), tokens.optimal[:5].tolist())


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
# **Figure 1.** Trained attention of the first sequence under three masks. Dark is 1, white is 0, and hatched
# cells are not seen. A star marks the best token in sight.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.2 What a mask hides
#
# Sequences are often ragged, of different lengths, but an array has one shape. So shorter ones are filled
# up with **padding**, and a mask says who sees whom. A hidden token gets the logit $-\infty$, and as
# $e^{-\infty} = 0$ its attention is exactly 0. For a position that sees nothing the softmax would be $0/0$:
# we set it to zeros, and leave the position out of the loss. Three functions in numpy say the same:


# %%
def visible(lengths, T, causal):
    """Who sees whom, (n, T, T) bool: [i, k, t] is True where position k of sequence i sees token t."""
    real = np.arange(T) < np.asarray(lengths)[:, None]  # the first tokens of a sequence
    sees = real[:, :, None] & real[:, None, :]
    return sees & np.tril(np.ones((T, T), dtype=bool)) if causal else sees


def attention(h, sees):
    """Softmax over the visible tokens: h, sees (n, T, T) -> (n, T, T); zeros where nothing is seen."""
    h = np.where(sees, h, -np.inf)
    top = h.max(axis=-1, keepdims=True)
    e = np.exp(h - np.where(np.isfinite(top), top, 0))
    return e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300)


def outputs(W, X, v, sees):
    """f_ik, (n, T), for X (n, T, d) and v (d,)."""
    s = attention(np.einsum("itd,de,ike->ikt", X, W, X), sees)
    return np.einsum("ikt,it->ik", s, X @ v)


# %% [markdown]
# Does a model look where it must not? Change a token, and see what moves.

# %% [markdown]
# ### Exercise 14.1: Whose output moves?
#
# ★☆☆ · 7 minutes
#
# Token $t$ of sequence $i$ is replaced by another random one; $W$, $v$ and all other tokens are random and
# stay as they are. Return for each position $k$ whether its output $f_{ik}$ moves. The mask may be *any*
# mask: a position need not see itself.
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
for name, sees in (("causal", visible(lengths.numpy(), 5, True)), ("with gaps", np.tile(gaps, (3, 1, 1)))):
    moved = np.zeros((3, 5, 5), dtype=bool)
    for t in range(5):
        changed = X.copy()
        changed[:, t] = 1e3 * rng.normal(size=(3, 20))
        moved[:, :, t] = outputs(W, changed, v, sees) != outputs(W, X, v, sees)
    print(f"{name}: of 75 pairs (position, token) {sees.sum()} see, {moved.sum()} move")
    assert (moved == moves(sees)).all(), again.format("14.1")

# %% [markdown]
# **A finite token hidden from another position changes nothing there, not even the last digit.** So no
# gradient comes from it either. Causal self-attention on $n$ sequences is therefore lesson 10 with $nT$
# sequences of 1 to $T$ tokens, each with its own last token $z = x_{ik}$ for a query.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.3 The SVM of all positions
#
# A **choice** $\alpha$ selects one visible token for each position that sees any. To each other token that
# the position sees belongs a **row**, the matrix $(x_{i\alpha_{ik}} - x_{it})\, x_{ik}^\top$; its inner
# product with $W$ is the **lead** of the selected token over token $t$. We say that $W$ **makes** the choice
# if all leads are positive. Scaled up, such a $W$ has leads of at least 1.
#
# > **SAtt-SVM**, S for sequence (after Tarzanagh, Li, Thrampoulidis and Oymak, 2023). For a choice $\alpha$
# > that some $W$ makes,
# >
# > $$W_{\mathrm{mm}}(\alpha) = \arg\min_W \lVert W\rVert_F \quad\text{subject to}\quad
# > (x_{i\alpha_{ik}} - x_{it})^\top W x_{ik} \ge 1 \quad
# > \text{for each } i, k \text{ and each } t \ne \alpha_{ik} \text{ that } k \text{ sees.}$$
# >
# > This is a definition. The minimiser $W_{\mathrm{mm}}(\alpha)$ is unique, as $\lVert W\rVert_F^2$ is
# > strictly convex.

# %% [markdown]
# Informally, if a run ends with one token per position, $\alpha$, and $\alpha$ is locally optimal (lesson
# 07), then the direction of $W$ goes to that of $W_{\mathrm{mm}}(\alpha)$. What the paper proves, for one
# query a sequence, also asks for a start near that direction, or for conditions on the first gradient.
#
# Does training go there? In 80 runs at a time we let the first position of each sequence ask alone, then
# three positions, then all. Tokens are random directions of norm 1, and labels are fair coins, because we
# ask where $W$ goes and not what it learns. A position **ends on** a token that has more than 0.99 of its
# attention. A run is **global** if every position that asks ends on its best token, and **local** if each
# ends on one token, but not all on the best.


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


on_best, ends = [], []
print("80 runs each, n = 3, T = 5               steps  global, local    on best   least cosine")
for name, d, asks, steps in (
    ("full, position 1 asks", 20, 1, 600),
    ("full, positions 1 to 3 ask", 20, 3, 600),
    ("full, all ask", 20, 5, 600),
    ("causal, all ask", 20, 5, 600),
    ("full, all ask", 8, 5, 2000),
):
    tokens = sequences(3, 5, d, 80, 2, name.startswith("causal"), asks)
    model = models.CrossAttention(d, trials=80)  # W = 0
    optimizer = optim.NormalizedGD(model.parameters(), lr=0.1, batch_dims=1)
    train.fit(model, tokens, optimizer, steps, every=steps, schedule=train.growing, progress=False)
    s = model.attention(tokens).detach()
    selected = geometry.selected_tokens(s)
    solution = svm.solve(svm.sequence_problem(tokens, selected)).value
    cosine = geometry.cosine(model.W.detach(), solution).min()
    ends.append([int((geometry.outcome(s, tokens) == word).sum()) for word in ("global", "local")])
    on_best.append(float((selected == tokens.optimal)[s.sum(-1) > 0.5].double().mean()))
    row = f"{name:26s}, d = {d:2d} {steps:10d} {ends[-1]!s:>14}"
    print(f"{row} {on_best[-1]:10.2f} {cosine:14.3f}")
    assert cosine > 0.98
    logits = models.CrossAttention(d, trials=80, init=solution).logits(tokens)
    assert geometry.locally_optimal(tokens.scores, logits, selected).all()
assert [sum(each) for each in ends] == 5 * [80]
assert on_best[0] > on_best[1] > on_best[2] < on_best[3]

# %% [markdown]
# In each of these runs every position ends on one token, the choice is locally optimal, and $W$ points to its
# SAtt-SVM.
#
# *Which* tokens is another matter. At $d = 20$, the more positions ask, the smaller the share that ends on
# the best token (column "on best"); with a causal mask it is larger (section 14.6).

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.4 What it costs that all share one W
#
# The margin of the SVM is $1/\lVert W_{\mathrm{mm}}\rVert$. How much does $\lVert W_{\mathrm{mm}}\rVert^2$
# grow because all positions share one $W$? We begin with orthonormal tokens, where a pencil is enough.

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
# Try $W = \sum_{ik} a_{ik}\, x_{ik}^\top$. Which of these terms does position $k$ of sequence $i$ feel? If it
# sees $m$ tokens, its $m - 1$ rows ask for $(x_\alpha - x_t)\cdot a_{ik} \ge 1$ with the shortest $a_{ik}$.
# All tokens $t$ that are not selected play the same part in this.
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
basis = torch.eye(n * T, dtype=torch.float64).reshape(n, T, n * T)
for name, causal in (("full", False), ("causal", True)):
    tokens = data.every_position(basis, torch.ones(n, T).double(), basis[0, 0], causal)
    price = squared_norm(visible(n * [T], T, causal))
    solved = []
    for seed in range(3):  # three random choices
        chance = torch.rand(tokens.scores.shape, generator=torch.Generator().manual_seed(seed))
        choice = chance.masked_fill(~tokens.scores.isfinite(), -1).argmax(-1)
        solved.append(float(svm.solve(svm.sequence_problem(tokens, choice)).value.norm()) ** 2)
        assert abs(solved[-1] - price) < 1e-6, again.format("14.2")
    print(f"orthonormal, {name:6s}: |W|^2 by pencil {price:5.2f}, solved for three random choices", end="")
    print(*(f"{square:7.2f}" for square in solved))

# %% [markdown]
# **With orthonormal tokens nobody is in another's way.** A position that selects $\alpha$ of the $m$ tokens
# that it sees adds $a\, x_{ik}^\top$ to $W$, where $a$ is $x_\alpha$ less the mean of the $m$. As $x_{ik}$ is
# orthogonal to all other queries, this moves no other position's logits; and as $a \cdot x_\alpha = 1 -
# \frac1m$ and $a \cdot x_t = -\frac1m$, all leads of its own are exactly 1.
#
# No $W$ is shorter, by the KKT conditions (lesson 02): $a$ is the mean of $x_\alpha - x_t$ over the $m$
# tokens, so $W$ is a sum of its tight rows with weights $1/m > 0$. Since
# $\lVert a\rVert^2 = (1 - \frac1m)^2 + (m - 1)\frac1{m^2} = 1 - \frac1m$ and the terms are orthogonal, the
# squared norms add up to $\sum_{ik} (1 - 1 / m_{ik})$ whatever the choice, where position $k$ of sequence $i$
# sees $m_{ik}$ tokens. With full attention this is $n(T - 1)$.
#
# Random tokens are not orthogonal, so what one position adds moves the logits of others, too. We solve the
# SVM twice for the same random choice: once with one $W$ for all 15 positions, and once with a $W$ of its own
# for each position, whose squared norms we add up.

# %%
print("n = 3, T = 5, full, 40 random choices: medians of |W|^2, and of the ratio one W : own ones")
ratios = []
for d in (8, 12, 20, 50, 200):
    tokens = sequences(3, 5, d, 40, 3)
    choice = torch.rand(tokens.scores.shape, generator=torch.Generator().manual_seed(3)).argmax(-1)
    one = svm.solve(svm.sequence_problem(tokens, choice)).value.flatten(1).norm(dim=1) ** 2
    each = tokens.X.repeat_interleave(5, dim=1).flatten(0, 1)[:, None]  # 600 problems, one position in each
    # of a single query only the length counts: 1
    alone = svm.attention_problem(each, torch.ones(600, 1, 1).double(), choice.flatten()[:, None])
    own = (svm.solve(alone).value.flatten(1).norm(dim=1) ** 2).reshape(40, 15).sum(1)
    ratios.append(float((one / own).median()))
    print(f"d = {d:3d}: one W {one.median():5.1f}, own ones {own.median():5.1f}, ratio {ratios[-1]:.1f}")
assert 2 < ratios[0] < 4
assert ratios == sorted(ratios, reverse=True)

# %% [markdown]
# **To share one $W$ is almost free in high dimension, and expensive in low dimension.** At $d = 8$, for this
# $n$ and $T$, one $W$ needs about 2.6 times the squared norm (the median of the ratios).

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.5 When can one W make a choice?
#
# Call a choice **feasible** if some $W$ makes it (lesson 12: possible). By [lesson
# 12](12_overparameterization.ipynb), for almost all data every choice is feasible if $d \ge nT$. A random
# choice needs much less, because it uses up only a part of the $d^2$ entries of $W$.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What a choice uses up
#
# Section 12.3 answered this for one position. Draw the logits $h_1, \dots, h_m$ of the $m$ tokens that it
# sees as independent $N(0, 1)$ numbers; the first is that of the selected token. Now move them as little as
# possible (least squares) until none is ahead of the first. It climbs to some level $\bar h$, or stays, at
# $\bar h = h_1$, if none is ahead of it already. Tokens above that level come down to it, and are **tied**;
# those below stay where they are.
#
# Why count ties, if a $W$ that makes the choice has none? By the theorem of 12.3 a random subspace meets the
# cone of logits with none ahead about as often as a random linear space with as many equations as a draw has
# ties. The tie of token $t$ is such an equation, $(x_\alpha - x_t)^\top W x_{ik} = 0$, and for one $x_{ik}$
# at most $d$ of these are independent. So each tie, up to $d$ of them, uses up one degree of freedom, one of
# the $d^2$ numbers in $W$. The mean number of ties, without this cap, is $\nu_m$.
#
# **Predict before you run on**: a position that sees $m$ tokens has $m - 1$ rows. By how much does $\nu_m$
# grow where the tokens double from 8 to 16, and the rows from 7 to 15?

# %% [markdown]
# ### Exercise 14.3: The tie level
#
# ★★★ · 15 minutes
#
# Forecast $\nu_m$. Which balance does the least move keep between the selected token, which climbs, and the
# tied ones, which come down? The level $\bar h$ varies from draw to draw. Put one number $\theta$ in its
# place for all draws, and replace both sides of the balance by their means. Return the $\theta$ that solves
# this, and how many of the $m - 1$ other tokens are above it on average.
#
# A $N(0, 1)$ number is above $\theta$ with the chance $Q(\theta)$, `ndtr(-theta)`; `brentq(f, 0, 10)` finds a
# root of `f` between 0 and 10.
#
# <details><summary>Hint: the balance</summary>
#
# The selected token and the tied ones move to their common mean, so their sum stays:
# $\sum_{t \ge 2} \max(h_t - \bar h, 0) = \bar h - h_1$.
# </details>
#
# <details><summary>Hint: the mean</summary>
#
# With the density $\varphi$ of $N(0, 1)$, $\int_\theta^\infty x\, \varphi(x)\, dx = \varphi(\theta)$. What
# does one other token come down by on average, if most of them stay where they are?
# </details>


# %%
@exercise("14.3")
def tie_level(m):
    """Return the tie level theta and the forecast of nu_m, two numbers, for m tokens seen."""

    ### BEGIN SOLUTION
    def excess(level):  # by which the others come down, less by which the selected one climbs
        density = np.exp(-level * level / 2) / (2 * np.pi) ** 0.5
        return (m - 1) * (density - level * ndtr(-level)) - level

    theta = brentq(excess, 0, 10)
    return theta, (m - 1) * ndtr(-theta)
    ### END SOLUTION


# %%
check("14.3", tie_level)

# %% [markdown]
# We count ties in many draws. `share_of[m]` keeps the shares of draws with 0, 1, 2, ... ties, for later.


# %%
def pooled(targets):
    """How many tokens end tied with the first, the selected one, (draws,), for targets (draws, m)."""
    others = -np.sort(-targets[:, 1:], axis=1)  # the largest needs the tie most
    sums = np.cumsum(np.concatenate([targets[:, :1], others], axis=1), axis=1)[:, :-1]
    return np.cumprod(others > sums / np.arange(1, targets.shape[1]), axis=1).sum(axis=1)


share_of, nu = {1: np.ones(1)}, {1: 0.0}
print("   m    rows   nu_m, counted   forecast   tie level")
for m in (2, 3, 4, 5, 8, 16, 64, 256, 1024):
    draws = max(1_600_000 // m, 3000)
    used = pooled(np.random.default_rng(m).normal(size=(draws, m)))
    share_of[m] = np.bincount(used, minlength=m) / len(used)
    nu[m], half = used.mean(), 1.96 * used.std() / draws**0.5
    theta, forecast = tie_level(m)
    print(f"{m:4d} {m - 1:7d} {nu[m]:8.2f} ± {half:.2f} {forecast:10.2f} {theta:11.2f}")
    assert 0 < nu[m] - forecast < 0.85, again.format("14.3")
assert np.allclose([nu[2], nu[3], nu[5], nu[8], nu[64]], [0.5, 5 / 6, 1.29, 1.76, 4.2], atol=0.05)

# %% [markdown]
# From 8 tokens to 16, $\nu_m$ grows by about 0.76, although 8 rows are added. **A position with a long
# context uses up little**: in a full sequence of 16 tokens the 16 positions use up 40 degrees of freedom for
# their 240 rows. The tie level climbs with the number of tokens, and only those above it are tied.
#
# The forecast is 0.1 to 0.7 too low, since it has one level for all draws. Below we take the counted $\nu_m$.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Room for all positions
#
# For one query a position, the Proposition of the optional section 12.4 reads, by its sketch:
#
# > **Proposition** (lesson 12: a sketch). Let each position have Gaussian tokens and a query of its own, and
# > let the choice be made without a look at them. Draw a number of ties independently for each position, as
# > counted above for the tokens that it sees, and let $J$ be their sum. If no position sees more than $d + 1$
# > tokens, then for almost all fixed queries the choice is feasible with probability
# >
# > $$P = \mathbb E\,(-1)^{J - R}, \qquad R = \min(d^2, J).$$
# >
# > $R$ is the rank of the $J$ tie equations.

# %% [markdown]
# Up to $d + 1$ tokens only draws with $J > d^2$ can have the sign $-1$. With many positions neighbouring
# values of $J$ are about equally likely, so from $J = d^2$ on the signs nearly cancel, and like the law of
# 12.3 $P$ is about $\Pr(J < d^2) + \frac12 \Pr(J = d^2)$. As $J$ is near its mean, half of the choices are
# feasible near
#
# $$d^2 = \sum_{i,k} \nu_{m_{ik}},$$
#
# where position $k$ of sequence $i$ sees $m_{ik}$ tokens. Our tokens are not like those of the Proposition:
# the positions of a sequence share them, they are the queries, too, and they have unit norm. Does the count
# hold for them? Three full sequences of five tokens use up $15\, \nu_5 \approx 19.4$, so that half should be
# passed between $d = 4$ and $d = 5$.
#
# <details><summary>Lesson 12's law, long sequences, and <code>share_feasible</code></summary>
#
# The sketch does not need that all positions see the same number of tokens. $P$ is lesson 12's law with $D =
# d^2$, as $J$ is even with chance $\frac12$ if some position has a choice: then $\mathbb E\,(-1)^{J - d^2} =
# 0$, and taken off the mean above it leaves $2 \Pr(J = d^2 - 1) + 2 \Pr(J = d^2 - 3) + \dots$
#
# Up to $d + 1$ tokens the cap of $d$ ties plays no part. Where some positions see more, at most $d$ ties of
# each are independent, and we take $R = \min(d^2, \sum \min(j, d))$, summed over the positions, with $j$ ties
# each. This is unproved.
#
# `share_feasible` convolves the `share_of` of all positions and sums $(-1)^{J - R}$.
# </details>


# %%
feasibility = measured("14.feasible").load()  # 300 runs a size
longer = measured("14.longer").load().random
trials = {}  # (mask, n, T, d) -> can some W make the random choice? one answer a trial
for mask, n, T, d in product(("full", "causal"), (1, 3, 6), (3, 5), feasibility.d.values.tolist()):
    trials[mask, n, T, d] = feasibility.random.sel(mask=mask, n=n, T=T, d=d).values
for size in longer["size"].values:
    one_size = ("full", *map(int, size.split()))
    more = longer.sel(size=size, tokens="shared").values
    trials[one_size] = np.append(trials.get(one_size, np.zeros(0, dtype=bool)), more)
forecasts = {}  # (mask, n, T, d) -> d^2 over the sum of nu_m, and P
for mask, n, T, d in trials:
    seen = n * (T * [T] if mask == "full" else [*range(1, T + 1)])
    forecasts[mask, n, T, d] = d * d / sum(nu[m] for m in seen), share_feasible(seen, d, share_of)

for size, (used, _) in forecasts.items():  # but one size has 1.00
    assert 0.99 < used < 1.01 or (trials[size].mean() > 0.5) == (used > 1)

# %% jupyter={"source_hidden": true}
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), width_ratios=(5, 4))
looks = product((("full", ORANGE, -0.3), ("causal", BLUE, 0.3)), ((3, "^"), (5, "o"), (8, "s"), (16, "D")))
for ((mask, color, move), (T, marker)), outside in product(looks, (False, True)):
    points = [
        (*forecasts[key], of_size.mean(), *wilson(of_size.sum(), len(of_size)))
        for key, of_size in trials.items()
        if (key[0], key[2], key[2] > key[3] + 1) == (mask, T, outside) and 0.3 < forecasts[key][0] < 3
    ]
    if points:
        x, P, share, low, high = np.array(points).T
        bars = (share - low, high - share)
        style = {"fmt": marker, "markersize": 5, "color": color, "elinewidth": 1.2}
        style["fillstyle"] = "full" if outside else "none"
        label = f"{mask}, $T = {T}$" if outside == (T > 5) else None
        left.errorbar(x * (1 + 0.01 * move), share, bars, **style, label=label)
        right.errorbar(P, share, bars, **style)
left.set(
    xscale="log", xlabel="$d^2 / \\sum \\nu_m$", ylabel="share of feasible random choices", xlim=(0.3, 3)
)
left.set(xticks=[0.3, 0.5, 1, 2, 3], xticklabels=["0.3", "0.5", "1", "2", "3"])
left.minorticks_off()
left.legend(loc="upper left", fontsize=10)
right.plot([0, 1], [0, 1], color=BLACK, lw=1)
right.set(xlabel="predicted share $P$", ylabel="measured share")
show(
    fig,
    alt="Left: the share of feasible random choices against d squared over the sum of nu rises from 0 to 1 "
    "around 1, for full and causal masks and all lengths. Right: measured against predicted shares lie near "
    "the diagonal; with full attention some of T = 8 and 16 lie clearly above it, and one of T = 3 below. "
    "All marks of T = 8 and 16 are filled, and a few of T = 5.",
)

# %% [markdown]
# **Figure 2.** Shares of random choices of our tokens that one $W$ can make, with Wilson's 95% intervals (two
# sweeps of 300 trials a point; 600 where both have the size): against $d^2$ over what the choice uses up
# (left), and against the prediction $P$ (right). Filled: some positions see more than $d + 1$ tokens, so that
# $P$ is unproved even for tokens of their own.

# %% [markdown]
# **Half of the random choices are feasible near $d^2 = \sum \nu_m$** (for three full sequences of $T = 5$
# Figure 2 has about 0.2 of them at $d = 4$, and about 0.95 at 5). At every size and mask with $d^2$ above the
# sum more than half are feasible, and at every one below it fewer. At one size they are equal: there about
# 0.45. Where does the finer prediction, $P$ itself, fail, and why?

# %%
off = {size: of_size.mean() - forecasts[size][1] for size, of_size in trials.items()}
between = {size for size in trials if 0.05 < forecasts[size][1] < 0.95}  # elsewhere P says little
far = [size for size in trials if abs(off[size]) > 0.1]
filled = {size for size in between if size[2] > size[3] + 1}  # as in Figure 2: P is unproved
print(f"{len(between)} of {len(trials)} sizes have P between 0.05 and 0.95; within 0.07 are", end=" ")
for kind, sizes in (("open", between - filled), ("filled", filled)):
    print(f"{len(sizes.difference(far))} of {len(sizes)} {kind} marks", end=", ")
print("more than 0.1 off:\n(own tokens have Gaussian queries)")
for _, n, T, d in far:
    P, share = forecasts["full", n, T, d][1], trials["full", n, T, d].mean()
    own = longer.sel(size=f"{n} {T} {d}").mean("trial")  # tokens that no other position sees
    print(f"T = {T:2d}, n = {n}, d = {d}: P = {P:.2f}, ours {share:.2f};", end=" ")
    print(f"own tokens, Gaussian {own.sel(tokens='Gaussian'):.2f}, of norm 1 {own.sel(tokens='own'):.2f}")
    assert abs(own.sel(tokens="Gaussian") - P) < 0.05
assert len(far) == len(between.intersection(far)) == 3
assert max(abs(off[size]) for size in between.difference(far)) < 0.07
drawn, generator = data.random_tokens(1, 3, 2, trials=1200, seed=9), torch.Generator().manual_seed(9)
query = torch.randn(1200, 3, 2, dtype=torch.float64, generator=generator)
choice = torch.randint(0, 3, (1200, 3), generator=generator)
asked = reached(svm.attention_problem(drawn.X.repeat(1, 3, 1, 1), query, choice))  # one sequence for all
print(f"T =  3, n = 1, d = 2: shared tokens, but Gaussian queries {asked.mean():.2f}")
assert abs(asked.mean() - trials["full", 1, 3, 2].mean()) < 0.05

# %% [markdown]
# **With $0.05 < P < 0.95$, $P$ is right within 0.07 at 8 of 9 open marks and 5 of 7 filled ones.** For the
# other three it holds with Gaussian tokens and queries of their own. At $T = 8$ and 16 it is the unit norm
# that makes more choices feasible, at $T = 16$ by about 0.25; at $T = 3$ it is the sharing that makes fewer
# feasible, even with Gaussian queries (last line).
#
# **Predict, then move the slider**: at $d = 8$, for how many full sequences is half of the random choices
# feasible? (The window is the most that a position may see.)
#
# <details><summary>Answer</summary>
#
# One sequence uses up $5\, \nu_5 \approx 6.4$, and $d^2$ is 64, so about 10.
# </details>


# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output", "widget"]
def chances(n, window):
    """The prediction over d for n sequences of 5 tokens, of which a position sees at most ``window``."""
    figure = Figure(figsize=(7, 3.5), layout="none")  # constrained layout would draw twice
    ax = figure.add_axes((0.11, 0.17, 0.86, 0.72))
    cut = [min(k, window) for k in range(1, 6)]
    for mask, seen, color, marker in (("full", 5 * [window], ORANGE, "s"), ("causal", cut, BLUE, "o")):
        P = [share_feasible(n * seen, d, share_of) for d in range(1, 13)]
        label = f"{mask}: {n * sum(nu[k] for k in seen):.1f} degrees of freedom"
        ax.plot(range(1, 13), P, color=color, marker=marker, label=label)
    ax.set(xlabel="dimension $d$", ylabel="predicted share", ylim=(-0.05, 1.05), xticks=range(1, 13))
    ax.set_title(f"n = {n}, T = 5, window {window}", fontsize=12)
    ax.legend(loc="lower right", fontsize=10)
    return figure


assert share_feasible(45 * [5], 8, share_of) > 0.5 > share_feasible(55 * [5], 8, share_of)
widgets.sliders(
    chances,
    alt="Predicted share of feasible random choices against the dimension, full and causal.",
    n=ipywidgets.IntSlider(value=3, min=1, max=20, description="n"),
    window=ipywidgets.IntSlider(value=5, min=2, max=5, description="window"),
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.6 Room is not enough
#
# Call the best token of every position together the **best choice**. If some $W$ makes it, does training find
# it? A position **misses** if its largest attention after 500 steps is not on its best token. The **room** is
# $d^2 / \sum \nu_m$: what $W$ has, over what a random choice uses up. (For the best choice it is a yardstick
# and no count: with full attention only two tokens of a sequence can be best, those of largest and smallest
# $v\cdot x_{it}$.) It is 3 or more here, and the best choice feasible where we test it. Who misses? Training
# begins at $W = 0$, so we look at its first step.

# %% [markdown]
# ### Exercise 14.4: The first step
#
# ★★☆ · 12 minutes
#
# From $W = 0$, with full attention, one gradient step is made. The slope of the loss is taken as the same for
# all positions (at $W = 0$ it differs only through $y_{ik} f_{ik}$, which is small for random tokens). A
# position is **pulled the wrong way** if what its *own sequence* adds to the step lowers its $y_{ik} f_{ik}$,
# to first order. **Predict** the share of such positions.
#
# Labels are fair coins, and tokens random directions: the inner product of two has mean 0 and variance $1/d$.
# Take sums as normal; `ndtr(-a)` is the chance of more than $a$ standard deviations.
#
# <details><summary>Hint: the step</summary>
#
# At $W = 0$ each weight is $1/T$, so the gradient of $f_{ik}$ is $g_i\, x_{ik}^\top$, with one vector $g_i =
# \frac1T \sum_t (v\cdot x_{it} - f_{ik})\, x_{it}$ for all $k$. Which multiple of $\lVert g_i\rVert^2$ does
# the sum of all $y_{ik'} g_i\, x_{ik'}^\top$ add to $y_{ik} f_{ik}$?
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
# **All positions of a sequence push along one $g_i$, each for its own label.** To first order, the part of
# the own sequence changes $y_{ik} f_{ik}$ by a positive multiple of
#
# $$\lVert g_i \rVert^2 \Big(1 + \sum_{k' \ne k} y_{ik'}\, y_{ik}\, x_{ik'}\cdot x_{ik}\Big).$$
#
# The 1 is the position's own pull; where the $T - 1$ others sum to less than $-1$, they outweigh it.
#
# Do the positions that are pulled the wrong way miss more often? (`attention_after(tokens, 500)` trains as in
# section 14.3, and gives attention and $W$; `ratio` gives a share, and half its 95% interval, with runs for
# units.)

# %%
runs = measured("14.misses").load()
print(f"the best choice is feasible in {int(runs.feasible.sum()):,} of {runs.feasible.size:,} stored runs")


def pulled_wrong(tokens, T):
    """Where the bracket above is negative, (trials, n T)."""
    y = tokens.y.unflatten(-1, (-1, T))
    return (y * (tokens.X @ tokens.X.mT @ y[..., None])[..., 0] < 0).flatten(-2).numpy()


shared = {}  # (T, d) -> which share misses, and half its interval
print("full, n = 2     wrong way: predicted      counted   misses: of them    of others   part of all")
for T, d, many in ((3, 5, 400), (5, 7, 400), (16, 16, 40)):  # at a room of 5.0, 3.8 and 3.2
    tokens = sequences(2, T, d, many, 6)
    wrong = pulled_wrong(tokens, T)
    ((s, _),) = attention_after(tokens, 500)
    missed = (s.argmax(-1) != tokens.optimal).numpy()
    shared[T, d] = ratio(missed, np.ones_like(missed))
    predicted, (counted, half) = wrong_way(T, d), ratio(wrong, np.ones_like(wrong))
    of_them, of_others = ratio(missed & wrong, wrong), ratio(missed & ~wrong, ~wrong)
    print(f"T = {T:2d}, d = {d:2d} {predicted:21.3f}     {counted:.3f} ± {half:.3f}", end="     ")
    part = (missed & wrong).sum() / missed.sum()
    print("{:.3f} ± {:.3f}  {:.3f} ± {:.3f} {:8.2f}".format(*of_them, *of_others, part))
    assert abs(counted - predicted) < half + 0.004, again.format("14.4")
    assert of_them[0] > 2.5 * of_others[0]

# %% [markdown]
# **They do, about 3 to 7 times as often as the others.** As many are pulled the wrong way as predicted. They
# make about a third of the misses, for two sequences at a room of 3 to 5.
#
# **Predict before you run on**: at $T = 5$ and $n = 9$, from $d = 15$ to 48 (ten times the room), by what
# factor does the share that is pulled the wrong way fall?
#
# A position is **behind** if after the whole first step, to which all sequences add, the largest logit is
# that of another token than its best.

# %%
for d in (15, 48):
    tokens = sequences(9, 5, d, 40, 6)
    assert (svm.solve(svm.sequence_problem(tokens, tokens.optimal), throw=False).status == "optimal").all()
    lags, missed = ((s.argmax(-1) != tokens.optimal).numpy() for s, _ in attention_after(tokens, 1, 500))
    wrong = pulled_wrong(tokens, 5)
    print(f"d = {d}: wrong way {wrong_way(5, d):.4f}, counted {wrong.sum()} of {wrong.size:,};", end=" ")
    print(f"miss {missed.mean():.3f}, of these wrong {wrong[missed].mean():.2f};", end=" ")
    print(f"behind {lags.mean():.2f}, of these miss {missed[lags].mean():.2f}")
at_room = measured("14.room").load()  # 360 runs a size
print("stored, n = 9, T = 5    share that misses   share behind   share of the misses behind")
for d in (15, 24, 34, 48):
    shares = behind(at_room.sel(size=f"9 5 {d}"))
    print("d = {:2d} {:34.3f} {:14.2f} {:28.2f}".format(d, *shares))
    assert shares[2] > 0.9

# %% [markdown]
# By exercise 14.4 the wrong-way share falls about a hundredfold, from 0.026 to 0.0003 (which 0 of 1,800
# cannot test). Misses fall only about tenfold, from 0.12 to 0.013. **Wrong pulls make about a tenth of the
# misses at $d = 15$, and none of ours at 48.** (At $n = 9$ the same room needs a larger $d$, so they are
# rarer than at $n = 2$.)
#
# **Nearly all that miss were behind after one step**: more than nine in ten at each of four stored sizes,
# where 0.20 to 0.44 of all positions were behind.
#
# <details><summary>How can a position be pulled the right way and yet be behind?</summary>
#
# A step may raise $y_{ik} f_{ik}$ and still raise the logit of another token more than that of the best: the
# position is then also behind. The own sequence changes the logit of token $t$ by a multiple of
# $x_{it}\cdot g_i$, and this holds, besides $v\cdot x_{it}$, the overlaps of $x_{it}$ with the other tokens
# of the sequence. The other sequences add their part to the logits, too.
# </details>
#
# But most that are behind recover: 0.28 of them miss at $d = 15$, 0.06 at 48.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Is the first step to blame?
#
# It sets the direction in which $W$ leaves 0, but is 0.1 long, on a path of about 350: step $r$ of 300 is
# $0.1 \sqrt r$ long. (A position misses *at a step* if its largest attention is elsewhere then.) We
# intervene. Up to some step all positions ask, and from then on position 1 of each sequence asks alone; or
# the other way round. (`continued` trains on from $W$, the step lengths going on; in row 300 nothing
# changes.) **Predict before you run on**: if the first step decides, which share of first positions misses in
# either order, with the change after one step?

# %%
alone, everyone = sequences(2, 5, 7, 250, 61, asks=1), sequences(2, 5, 7, 250, 61)  # the same tokens
after = {1: [], 40: [], 300: []}  # steps before the change -> which share of the positions 1 misses
for first, then in ((everyone, alone), (alone, everyone)):
    for change, (_, W) in zip(after, attention_after(first, *after), strict=True):
        for end in (W, continued(W, then, change, 300)):
            s = models.CrossAttention(7, trials=250, init=end).attention(everyone)
            missed = (s.argmax(-1) != everyone.optimal).unflatten(-1, (2, 5))[..., 0]
            after[change].append(float(missed.double().mean()))
print("change after    all ask: miss then    1 alone, at the end    1 alone: miss then    all, at the end")
for change, row in after.items():
    print("{:12d} {:21.3f} {:22.3f} {:21.3f} {:18.3f}".format(change, *row))
assert max(after[1][1], after[300][3]) < min(after[1][3], after[300][1]) / 3

# %% [markdown]
# If the first step decided, one step would swap 0.12 and 0.012. It does not: in either order it changes next
# to nothing. (0.012 is 6 of 500.) **The first step does not decide; 40 steps of asking alone save most first
# positions that would miss.** After 40 alone about 0.02 miss, and 260 shared steps do not undo it. After 40
# shared steps about 0.19 miss, but in 260 alone most of these recover (0.032 in the end). To ask alone also
# changes the room: with 2 positions instead of 10 it is $49 / (2 \nu_5) \approx 19$ instead of 3.8.
#
# Under a causal mask fewer positions miss (Figure 3). They see fewer tokens and use up less, so there is
# more room at the same $d$. The last position sees all $T$ tokens either way, so there the mask acts only
# through the others.


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
# **Figure 3.** Which positions miss, for $n = 2$ and $d = 5$, 7, 10 and 16, with 95% intervals (720 stored
# runs each). Position $k$ sees all tokens (full) or the first $k$ (causal).

# %% [markdown]
# At the last position the mask saves about a third of the misses or more at $T = 3$ and 5, and none that we
# could tell at 8 and 16.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.7 A forgotten mask *(optional)*
#
# Sequences of 1 to 4 tokens are filled up with zeros to a length of 5. Positions that are padding are left
# out of the loss, but the attention is not told which tokens are padding. A padding token has the logit
# $0^\top W x_{ik} = 0$ and the score $y_{ik}\, v \cdot 0 = 0$.
#
# **Predict**: a position sees $m$ real tokens and $5 - m$ of padding. For each $m$, which share of positions
# ends with more than half of its attention on padding?


# %%
generator = torch.Generator().manual_seed(10)
stops = torch.randint(1, 5, (300, 3), generator=generator)  # sequences of 1 to 4 tokens
coins = 2.0 * torch.randint(0, 2, (300, 3, 5), generator=generator).double() - 1.0
for d, least in ((20, 0.99), (3, 0.9)):
    ragged = data.random_tokens(3, 5, d, trials=300, seed=10, lengths=stops)  # filled up to 5 with zeros
    told = data.every_position(ragged.X, coins, ragged.v, mask=ragged.mask)
    number = told.mask.sum(-1)  # m, 0 for padding
    untold = dataclasses.replace(told, mask=(number > 0)[..., None].expand(told.mask.shape))  # sees the zeros
    ((s, _),) = attention_after(untold, 300)
    falls = (s * ~told.mask).sum(-1) > 0.5
    by_m = ", ".join(f"{falls[number == m].double().mean():.2f}" for m in range(1, 5))
    share = falls[number > 0].double().mean()
    foretold = (falls == (told.scores.amax(-1) < 0))[number > 0].double().mean()
    print(f"d = {d:2d}: of m = 1, 2, 3, 4 end on padding {by_m}; of all {share:.2f}", end="; ")
    print(f"foretold one by one: {foretold:.0%} right")
    assert 0.14 < share < 0.18
    assert foretold > least

# %% [markdown]
# It is a share of about $2^{-m}$. **Padding wins where all $m$ scores are negative**, since its own score, 0,
# is then the best; and each is negative with chance $\frac12$. One by one this foretells nearly every
# position at $d = 20$; at $d = 3$ it is wrong for about five of 100. Lengths 1 to 4 are equally likely, so on
# average $m$ of 10 positions see $m$ tokens, and of all positions about
# $\sum_m \frac m{10}\, 2^{-m} \approx 0.16$ fall for padding.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.8 Sequences of their own *(optional)*
#
# What harms in section 14.6, the shared sequence or only the shared $W$? As a control each of the $2T$
# positions gets a sequence of its own. As many ask as before, at the same room, but they share only $W$.

# %%
shared[5, 16] = ratio(*(at_room[name].sel(size="2 5 16").values.sum(-1) for name in ("missed", "number")))
print("               room   a sequence each   two sequences, all ask   share saved")
for T, d, many in ((5, 7, 300), (5, 16, 300), (16, 16, 40)):
    drawn = data.random_tokens(2 * T, T, d, trials=many, seed=8)
    each = dataclasses.replace(drawn, z=drawn.X[:, :, 0])  # one query a sequence, its first token
    ((s, _),) = attention_after(each, 500)
    missed = (s.argmax(-1) != each.optimal).numpy()
    (mine, half), (all_ask, half_ask) = ratio(missed, np.ones_like(missed)), shared[T, d]
    error = mine / all_ask * np.hypot(half / mine, half_ask / all_ask)  # the runs are independent
    row = d * d / (2 * T * nu[T]), mine, half, all_ask, half_ask, 1 - mine / all_ask, error
    line = "{:6.1f} {:9.3f} ± {:.3f} {:16.3f} ± {:.3f} {:10.2f} ± {:.2f}".format(*row)
    print(f"T = {T:2d}, d = {d:2d}", line)

# %% [markdown]
# **At $T = 5$ own sequences save about 0.27 of the misses at a room of 4, and about 0.57 at 20**; at $T = 16$
# these runs cannot tell. The other misses remain where the positions share only $W$. At about the same room
# they are far more at $T = 16$ than at $T = 5$: room is not the whole story.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.9 Claims and measurements
#
# | claim | prediction | measured |
# |:---|:---|:---|
# | $W$ goes to the SAtt-SVM of its choice | cosine 1 | above 0.98 ($d = 8$: after 2,000 steps) |
# | random choices use up $\sum \nu_m$ | half feasible at this $d^2$ | fewer below it, more above |
# | share feasible ($0.05 < P < 0.95$) | $P$ | within 0.07 at 8 of 9 open, 5 of 7 filled; worst 0.25 off |
# | share pulled the wrong way (room 3 to 5) | exercise 14.4 | within 0.02 |
# | wrong pulls make the misses ($T = 5$, $n = 9$) | all of them | 1/10 at $d = 15$, none at 48: it fails |
# | step 1 decides, position 1 ($n = 2$, $T = 5$, $d = 7$) | alone: few miss | as many as together: it fails |

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
# **2.** A batch has 32 causal sequences of 128 tokens, and $d = 64$. Can one $W$ make every choice? A random
# one?
# <details><summary>Answer</summary>
#
# By the count, which we tested for causal masks only to $T = 5$, hardly a random one. More than half of the
# 4,096 positions see 64 tokens or more, and use up at least $\nu_{64} \approx 4.2$ degrees of freedom each
# (the table of section 14.5), so together more than 8,600. $W$ has 4,096 entries. So, by the same count, not
# every choice. Some choices it can always make, for distinct tokens of one norm: with $W = I$, "look at
# yourself".
# </details>

# %%
progress("14")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
# - With every position a query, training went, in all 240 runs, to the **SAtt-SVM** over all positions. A
#   token hidden from another position moves nothing there.
# - To share one $W$ costs little in high dimension, and much in low dimension.
# - A position that sees $m$ tokens uses up $\nu_m$, which grows slowly: 1.8 for 8 tokens, 2.5 for 16. About
#   half of the random choices are feasible near $d^2 = \sum \nu_m$.
# - **Room is not enough**: training misses best tokens though some $W$ makes the best choice. Nearly all that
#   miss were behind after the first step, but most that were behind recover ($n = 9$, $T = 5$). At $n = 2$
#   and $d = 7$, 40 steps of asking alone save most first positions that would miss. At $T = 5$ own sequences
#   help.
#
# Limits: random tokens of norm 1, fair labels, normalised growing steps, the sizes in the cells.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Further reading
#
# - D. A. Tarzanagh, Y. Li, C. Thrampoulidis, S. Oymak, *Transformers as Support Vector Machines* (2023,
#   arXiv 2308.16898): the Att-SVM for $W$, and the extension to sequence outputs.
# - D. Amelunxen, M. Lotz, M. B. McCoy, J. A. Tropp, *Living on the Edge: Phase Transitions in Convex
#   Programs with Random Data* (2014, arXiv 1303.6672): degrees of freedom of cones, and the kinematic
#   formula.
#
# **New in the library:** [`data.every_position`](../mini_attn/data.py),
# [`svm.sequence_problem`](../mini_attn/svm/sequence.py); and `mask=` of the data and the SVMs, `lengths=` of
# random tokens.
#
# **Next:** [lesson 15](15_mirror_descent_attention.ipynb) asks what mirror descent, an optimiser of other
# geometries, does to attention.
