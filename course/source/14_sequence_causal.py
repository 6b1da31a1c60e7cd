# %% [markdown] slideshow={"slide_type": "slide"}
# # 14 · Sequences and causal masks
#
# Up to now one query looked at each sequence. In a transformer *every* token asks, about all tokens of its
# sequence or, in a language model, about those before it. All these queries share one matrix $W$.
#
# **The question: where does training go when every position asks and one W has to answer them all?**
#
# It goes to one SVM over all positions; a mask only says which rows that has. How many random answers one $W$
# has room for can be counted beforehand.
#
# And how often does a position miss its best answer? That depends on how many tokens it sees itself and on
# the crowd, that is how many others choose for each entry of $W$, and less on what those others see.

# %% [markdown]
# **After this lesson you can**
#
# - say what a mask takes out of the output, the loss and the SVM, and find a leak;
# - predict $\lVert W_{\mathrm{mm}}\rVert$ from the mask alone, where tokens are orthonormal;
# - predict, before solving anything, at which dimension one $W$ can make a random choice of tokens;
# - predict by how much a batch may grow if the dimension doubles or each position sees fewer tokens;
# - tell which positions fall for the padding when its mask is forgotten.
#
# **You need** [lesson 06](06_attention_as_svm.ipynb) (the Att-SVM),
# [lesson 07](07_local_global_tokens.ipynb) (global and local choices),
# [lesson 10](10_cross_self_attention.ipynb)
# (the matrix $W$), and [lesson 12](12_overparameterization.ipynb) (feasibility). About 70 minutes, five
# exercises.

# %%
import dataclasses
from itertools import product
from math import comb

import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure
from scipy.spatial import ConvexHull

from course.exercise import check, exercise, progress, todo
from course.figure import show
from course.replicate import measured
from mini_attn import data, geometry, models, optim, plots, svm, train, widgets
from mini_attn.sweep import wilson

plots.style()
torch.set_num_threads(1)  # many small tensors: one thread is fastest
np.set_printoptions(precision=3, suppress=True)
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
# over all $t$ (**full** attention), or only $t \le k$ (**causal**). Each position has a label $y_{ik} = \pm
# 1$ of its own, so to position $k$ the token $t$ has the score $y_{ik}\, v\cdot x_{it}$, and the token with
# the largest is its best. $L$ is the mean loss $\ell(y_{ik} f_{ik})$ over all positions, with the logistic
# loss $\ell(u) = \log(1 + e^{-u})$. A mask says who sees whom.

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
    patterns[name] = (every[0].numpy(), sees.numpy())
    assert (every.amax(-1)[every.sum(-1) > 0.5] > 0.99).all()  # but for the padding


# %% jupyter={"source_hidden": true}
def draw_pattern(ax, attention, sees):
    """Attention of each position (row) over the tokens (columns); grey where nothing is seen."""
    ax.imshow(np.where(sees, attention, np.nan), cmap="Blues", vmin=0, vmax=1)
    for k, t in np.argwhere(~sees):
        ax.add_patch(plt.Rectangle((t - 0.5, k - 0.5), 1, 1, facecolor="0.85", edgecolor="white", hatch="//"))
    for k, t in np.argwhere(sees):
        ax.add_patch(plt.Rectangle((t - 0.5, k - 0.5), 1, 1, fill=False, edgecolor="0.6"))
    ax.set(xticks=range(5), xticklabels=range(1, 6), yticks=range(5), yticklabels=range(1, 6))
    ax.set_xlabel("token $t$")
    ax.grid(False)


fig, axes = plt.subplots(1, 3, figsize=(10, 3.7))
for ax, (name, pattern) in zip(axes, patterns.items(), strict=True):
    draw_pattern(ax, *pattern)
    ax.set_title(name)
axes[0].set_ylabel("position $k$ that asks")
show(
    fig,
    alt="Three grids of five positions by five tokens. In each row that sees a token, one cell is dark blue. "
    "In the causal grid all cells above the diagonal are hatched; with length 3 also the last two rows and "
    "columns.",
)

# %% [markdown]
# **Figure 1.** Trained attention of one sequence under three masks: dark is 1, white 0, hatched is not
# seen. Each row is one softmax, with a choice of its own; all rows share $W$.

# %% [markdown]
# As in lesson 06, each position ends with all its attention on one token. A position that sees $m$ tokens
# has made $m - 1$ **comparisons**.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.2 What a mask hides
#
# Sequences have different lengths, and one array has one shape. So shorter ones are filled up with
# **padding**, and a mask says who sees whom. A hidden token gets the logit $-\infty$. Then $e^{-\infty} = 0$:
# it has no attention, exactly. One thing needs care: a row that sees nothing would be $0/0$. It gets zeros,
# and does not count in the loss.


# %%
def visible(lengths, T, causal):
    """Who sees whom, (n, T, T) bool: [i, k, t] is True where position k of sequence i sees token t."""
    real = np.arange(T) < np.asarray(lengths)[:, None]  # the first tokens of a sequence
    sees = real[:, :, None] & real[:, None, :]
    return sees & np.tril(np.ones((T, T), dtype=bool)) if causal else sees


def attention(h, sees):
    """Softmax over the visible tokens: h, sees (n, T, T) -> (n, T, T); zeros in rows that see nothing."""
    h = np.where(sees, h, -np.inf)
    top = h.max(axis=-1, keepdims=True)
    e = np.exp(h - np.where(np.isfinite(top), top, 0))
    return e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300)


def outputs(W, X, v, sees):
    """f_ik, (n, T), for X (n, T, d) and v (d,)."""
    s = attention(np.einsum("itd,de,ike->ikt", X, W, X), sees)
    return np.einsum("ikt,it->ik", s, X @ v)


# %% [markdown]
# How do you find out that a model looks where it must not? Change one token, and see whether only outputs
# move that *should*.

# %% [markdown]
# ### Exercise 14.1: Whose output moves?
#
# ★☆☆ · 5 minutes
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
others = ~np.eye(5, dtype=bool) & ~np.eye(5, k=1, dtype=bool)
for name, sees in {
    "causal, padded": visible(lengths.numpy(), 5, True),
    "not itself, not the next": np.tile(others, (3, 1, 1)),
}.items():
    found = np.zeros((3, 5, 5), dtype=bool)
    for t in range(5):
        changed = X.copy()
        changed[:, t] = 1e3 * rng.normal(size=(3, 20))
        found[:, :, t] = outputs(W, changed, v, sees) != outputs(W, X, v, sees)
    print(f"{name:24s}: of 75 pairs (position, token) {found.sum()} move")
    assert (found == moves(sees)).all(), again.format("14.1")

# %% [markdown]
# **A token hidden from another position changes nothing there, not even the last digit**, whatever $W$. So
# no gradient comes from it either, and causal self-attention on $n$ sequences is lesson 10 with $nT$
# sequences of lengths 1 to $T$ and the query $z = x_{ik}$. The library stores the tokens once:
# `data.every_position(X, y, v, causal=..., mask=...)`.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.3 The SVM of all positions
#
# > **SAtt-SVM**, S for sequence (after Tarzanagh, Li, Thrampoulidis and Oymak, 2023). For a choice $\alpha$
# > of one visible token per position,
# >
# > $$W_{\mathrm{mm}}(\alpha) = \arg\min_W \lVert W\rVert_F \quad\text{subject to}\quad
# > (x_{i\alpha_{ik}} - x_{it})^\top W x_{ik} \ge 1 \quad
# > \text{for each } i, k \text{ and each } t \ne \alpha_{ik} \text{ that } k \text{ sees.}$$
# >
# > This is a definition. Informally: a run that ends with one token per position, $\alpha$, goes in
# > direction to $W_{\mathrm{mm}}(\alpha)$, if $\alpha$ is locally optimal (lesson 07). What the paper proves
# > asks for more: a start near that direction too, or conditions on the first gradient (lesson 12).

# %% [markdown]
# To each comparison belongs a row of the SVM, the matrix $(x_{i\alpha_{ik}} - x_{it})\, x_{ik}^\top$.
#
# Does training find its solution? Each position gets a fair coin as its label: we ask where $W$ goes, not
# what it learns.


# %%
def sequences(n, T, d, trials, seed, causal):
    """Random tokens in which every position asks, with fair coins for labels."""
    drawn = data.random_tokens(n, T, d, trials=trials, seed=seed)
    coins = 2.0 * torch.randint(0, 2, (trials, n, T), generator=torch.Generator().manual_seed(seed)) - 1.0
    return data.every_position(drawn.X, coins.double(), drawn.v, causal)


def trained(tokens, steps):
    """The model after growing normalised steps from W = 0, in each trial."""
    model = models.CrossAttention(tokens.X.shape[-1], trials=tokens.trials[0])
    optimizer = optim.NormalizedGD(model.parameters(), lr=0.1, batch_dims=1)
    train.fit(model, tokens, optimizer, steps, every=steps, schedule=train.growing, progress=False)
    return model.requires_grad_(False)


found = {}
print("80 trials, n = 3, T = 5, d = 20    global   local   least cosine to the SAtt-SVM")
for name, causal in (("full", False), ("causal", True)):
    tokens = sequences(3, 5, 20, 80, 2, causal)
    model = trained(tokens, 600)
    s = model.attention(tokens)
    solution = svm.solve(svm.sequence_problem(tokens, geometry.selected_tokens(s)))  # raises if one had none
    found[name], local = ((geometry.outcome(s, tokens) == word).sum() for word in ("global", "local"))
    cosine = geometry.cosine(model.W, solution.value).min()
    print(f"{name:31s} {found[name]:9d} {local:7d}   {cosine:.3f}")
    assert cosine > 0.98
    assert found[name] + local == 80
assert found["full"] + 20 < found["causal"]

# %% [markdown]
# In each of the 160 runs the direction of $W$ has a cosine above 0.98 to the SAtt-SVM for the tokens it
# selected. What differs is *which* tokens are selected: with a causal mask the best ones everywhere
# ("global") more often than with full attention. Section 14.7 asks why.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.4 What it costs that all share one W
#
# The margin of the SVM is $1/\lVert W_{\mathrm{mm}}\rVert$. What does it become as more positions ask? In
# high dimension independent tokens are nearly orthogonal. So begin with tokens that are exactly so.

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
# Try $W = \sum_{ik} a_{ik}\, x_{ik}^\top$. Which of these terms does position $k$ of sequence $i$ feel? Its
# $m - 1$ rows then ask for $(x_\alpha - x_t)\cdot a_{ik} \ge 1$ with the shortest $a_{ik}$. They are all
# alike.
# </details>


# %%
@exercise("14.2")
def squared_norm(sees):
    """Return ||W_mm||^2, a number, for orthonormal tokens and sees (n, T, T) bool: who sees whom."""
    ### BEGIN SOLUTION
    m = sees.sum(
        axis=-1
    )  # (n, T): a = x_alpha less the mean of the m tokens, with the squared length 1 - 1/m
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
# **With orthonormal tokens nobody is in another's way.** A position adds $a\, x_{ik}^\top$, where $a$ is
# $x_\alpha$ less the mean of the $m$ tokens, and the squared norms add up. With full attention $\lVert
# W\rVert^2 = n(T-1)$, $T$ times as much as for one position a sequence: the margin is smaller by $\sqrt T$.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.5 When can one W make a choice?
#
# [Lesson 12](12_overparameterization.ipynb) counted: if the queries are linearly independent and
# $d \ge T - 1$, every choice is feasible. Here there are $nT$ queries, so $d \ge nT$ is enough. It is far
# more than needed: a choice has to use up only part of the $d^2$ entries of $W$. How many?
#
# **One is always feasible**: each token selects itself. With unit tokens $W = I$ gives the leads
# $1 - x_{it} \cdot x_{ik} > 0$, in any dimension. So feasibility is about *which* choice; let us draw one
# at random.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What a choice uses up
#
# Section 12.3 counted it, with one query a sequence: draw the logits as independent $N(0, 1)$ numbers, the
# target, and move as little as possible to where the selected token is ahead. Each token that ends tied with
# it uses up one number: on average $\nu_3 = \frac56$ for the two rows of three tokens, the cone of figure 2
# there. Here positions see different numbers $m$ of tokens.
#
# **Predict before you run on**: how much more does a position use up that sees 16 tokens instead of 8?


# %%
def pooled(targets):
    """How many tokens end tied with the first, the selected one, (draws,), for targets (draws, m)."""
    others = -np.sort(-targets[:, 1:], axis=1)  # the largest needs the tie most
    sums = np.cumsum(np.concatenate([targets[:, :1], others], axis=1), axis=1)[:, :-1]
    return np.cumprod(others > sums / np.arange(1, targets.shape[1]), axis=1).sum(axis=1)


share_of, nu = {1: np.ones(1)}, {1: 0.0}
for m in range(2, 6):
    used = pooled(np.random.default_rng(100 + m).normal(size=(400_000, m)))
    share_of[m] = np.bincount(used, minlength=m) / len(used)
    nu[m] = share_of[m] @ np.arange(m)
    print(f"a position that sees {m} tokens: {m - 1} rows, uses up {nu[m]:.2f} degrees of freedom")
assert np.allclose(list(nu.values()), [0, 0.5, 5 / 6, 1.0874, 1.2947], atol=0.005)
at = (8, 16, 32, 64, 128, 256)
far = [pooled(np.random.default_rng(m).normal(size=(1_000_000 // m, m))).mean() for m in at]
print("m =", *at, "tokens:", *(f"{one:.1f}" for one in far))
assert ((np.diff(far) > 0.6) & (np.diff(far) < 1.2)).all()

# %% [markdown]
# Long contexts are cheap: from 8 to 256 a doubling of $m$ adds 0.7 to 1.1.
#
# By the kinematic formula (the theorem of section 12.3) about half of the random choices are feasible where
#
# $$d^2 \approx \sum_{i,k} \nu_{m_{ik}}, \qquad m_{ik} \text{ tokens seen by position } k \text{ of } i ,$$
#
# if the logits that some $W$ can make fill a *uniformly random* subspace of $d^2$ dimensions.
# Ours is not: keys and queries are the same few tokens. So this is a prediction, and we measure it.


# %%
def predicted_share(seen, D, chances=None):
    """The kinematic formula: seen is how many tokens each position sees, D the degrees of freedom of W."""
    number = np.ones(1)
    for m in seen:
        number = np.convolve(number, (chances or share_of)[m])
    return max(0.0, 1 - 2 * number[D + 1 :: 2].sum())  # lesson 12's sum, from the other end


by_row = {m: np.array([comb(m - 1, j) for j in range(m)]) / 2 ** (m - 1) for m in range(1, 6)}  # a coin a row
found = measured("14.feasible").load()
curves, misfit, rival = {}, [], []
print("T = 5: share of random choices that are feasible, 300 trials each   (predicted)")
for n, mask in product((1, 3, 6), ("full", "causal")):
    seen = n * (5 * [5] if mask == "full" else [1, 2, 3, 4, 5])
    share = found.random.sel(n=n, T=5, mask=mask).mean("trial").values
    curve = np.array([predicted_share(seen, d * d) for d in found.d.values])
    misfit.append(np.abs(share - curve).max())
    rival.append(np.abs(share - [predicted_share(seen, d * d, by_row) for d in found.d.values]).max())
    curves[n, mask] = share, curve
    text = "  ".join(f"{a:.2f} ({b:.2f})" for a, b in list(zip(share, curve, strict=True))[:5])
    print(f"n = {n}, {mask:6s} d = 2 to 6:  {text}   half at d = {sum(nu[m] for m in seen) ** 0.5:.1f}")
print(f"largest of 48 differences: {max(misfit):.2f}; if each row counted as half a number: {max(rival):.2f}")
assert max(misfit) < 0.1
assert max(rival) > 0.9
assert np.allclose([sum(nu.values()), 5 * nu[5]], [3.7, 6.5], atol=0.05)

# %% jupyter={"source_hidden": true}
fig, axes = plt.subplots(1, 3, figsize=(10, 3.8), sharey=True)
for ax, n in zip(axes, (1, 3, 6), strict=True):
    for mask, color, marker in (("full", ORANGE, "s"), ("causal", BLUE, "o")):
        share, curve = curves[n, mask]
        low, high = wilson(share * 300, 300)
        bars = [share - low, high - share]
        ax.errorbar(found.d.values, share, bars, fmt=marker, color=color, label=mask, fillstyle="none")
        ax.plot(found.d.values, curve, "_", color=color, markersize=16, markeredgewidth=2)
    ax.set(title=f"$n = {n}$", xlabel="dimension $d$", xlim=(1.7, 9.3))
axes[0].set_ylabel("share of feasible choices")
axes[0].plot([], [], "_", color=BLACK, markersize=16, markeredgewidth=2, label="predicted")
axes[0].legend(loc="lower right", fontsize=10)
show(
    fig,
    alt="Share of feasible random choices against the dimension, for 1, 3 and 6 sequences. Each rises from 0 "
    "to 1 within about two dimensions, close to the predictions, causal before full.",
)

# %% [markdown]
# **Figure 2.** Shares of random choices that one $W$ can make, with Wilson's 95% intervals (300 trials a
# point, $T = 5$; computed beforehand). Dashes: the prediction.

# %% [markdown]
# Degrees of freedom predict where the shares rise, within 0.1 at these 48 points, most of them at 0 or 1.
# To count each row as half a number, as if rows were independent, is wrong by up to 0.96. With $T = 5$ a
# causal mask uses up $3.7\,n$ where full attention takes $6.5\,n$.
#
# **Try it.** Move $n$ from 3 to 12: the curves rise at about twice the $d$. Then let a position see at most
# $m = 2$ tokens: full attention comes down from $6.5\,n$ to $2.5\,n$.


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
        ax.plot(dims, [predicted_share(n * seen, k * k) for k in dims], color=color, marker=marker,
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
# ## 14.6 Where must the count fail? *(optional)*
#
# The count knows how many tokens there are, but not which. So there should be tokens for which it is wrong.
# Find them where we can do without it: in one sequence, of which only a few positions ask.

# %% [markdown]
# ### Exercise 14.3: Without the count
#
# ★★★ · 12 minutes
#
# `X` holds the $T$ tokens of a sequence, of any lengths, in general position. Only its first $A \le d$
# positions ask, and their tokens are linearly independent; row $k$ of `sees` says what position $k$ sees,
# more than $d$ tokens. A choice is one visible token for each of the $A$ positions. Return the share of all
# choices that some $W$ can make.
#
# <details><summary>Hint</summary>
#
# Which vectors can $W x_1, \dots, W x_A$ be? And which tokens are the farthest ones in some direction?
# </details>
#
# <details><summary>Hint: how to count</summary>
#
# `ConvexHull(points).vertices` has the numbers of those points that are no mixture of the others.
# </details>


# %%
@exercise("14.3")
def possible(X, sees):
    """Return the share of choices that some W can make, for tokens X (T, d) and sees (A, T) bool."""
    ### BEGIN SOLUTION
    return np.prod([len(ConvexHull(X[row]).vertices) / row.sum() for row in sees])
    ### END SOLUTION


# %%
check("14.3", possible)

# %% [markdown]
# **Predict before you run on.** Tokens are drawn from a normal distribution (*normal*), then scaled to length
# 1 (*unit*), then every second one is scaled to a quarter (*uneven*). For which of the three is the count
# right, where too low and where too high? (Positions with independent queries are counted one by one, each
# with $d$ numbers, as in lesson 12.)

# %%
of_ten = np.bincount(pooled(np.random.default_rng(10).normal(size=(100_000, 10))), minlength=10) / 100_000


def scaled(X, name):
    """Tokens (..., T, d) as they are, of length 1, or of lengths 1 and 1/4 in turn."""
    lengths = np.linalg.norm(X, axis=-1, keepdims=True)
    return {
        "normal": X,
        "unit": X / lengths,
        "uneven": X / lengths / (1 + 3 * (np.arange(X.shape[-2]) % 2))[:, None],
    }[name]


both_see = np.ones((2, 10), dtype=bool)
drawn_tokens = np.random.default_rng(1).normal(size=(400, 10, 3))
count = predicted_share([10], 3, {10: of_ten}) ** 2
print(f"two positions ask, T = 10, d = 3; share of choices that are possible: by the count {count:.2f}")
made = {}
for name in ("normal", "unit", "uneven"):
    made[name] = np.mean([possible(scaled(X, name), both_see) for X in drawn_tokens])
    print(f"{name:8s} {made[name]:.2f}")
assert made["unit"] == 1, again.format("14.3")
assert abs(made["normal"] - count) < 0.03, again.format("14.3")
assert made["uneven"] < count - 0.08, again.format("14.3")

# %% [markdown]
# **It fails where the lengths say so.** With independent queries $W$ sends each position where it likes, and
# what can be selected are the corners of the hull. Normal tokens have on average as many as the count says (a
# theorem: Baryshnikov and Vitale 1994).
# Tokens of one length are all corners: every choice is possible, however long the sequence. Short tokens
# among long ones tend to lie inside. (In section 14.5 tokens have length 1 as well. There all positions ask,
# with more queries than dimensions, and the count comes within 0.1.)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.7 Why causal models are more often global
#
# Feasible is not the same as found. With full attention descent went to the best tokens of all positions less
# often than with a causal mask. Three things differ: the *order*, from short to long; how many tokens a
# position *sees itself*; and the *crowd* of others who choose. Two more masks help to tell them apart:
#
# - **shuffled**: the $k$-th position sees $k$ random tokens;
# - **half**: half of the positions see all five tokens, the others only themselves and have no choice.
#
# **Predict before you run on**: do those in half who choose miss as often as those with full attention? Both
# pick the best of five.

# %%
runs = measured("14.controls").load().sel(n=3, mask=["full", "causal", "shuffled"])
half = measured("14.half").load().sel(n=3)
dims = runs.d.values
print(f"n = 3, T = 5, 480 runs each; d =         {dims}")
globals_ = {mask: runs["global"].sel(mask=mask).mean("trial").values for mask in runs.mask.values}
globals_["half"] = half["global"].mean("trial").values
for mask, share in globals_.items():
    print(f"share of global runs, {mask:9s}    {share.round(2)}")
missed = [runs.missed.sel(mask="full").mean("trial").values / 15, half.missed.mean("trial").values / 7.5]
for mask, share in zip(("full", "half"), missed, strict=True):
    print(f"share of choosing positions that miss, {mask} {share.round(3)}")
assert (globals_["full"] + 0.2 < np.minimum(globals_["causal"], globals_["half"])).all()
assert (globals_["shuffled"] - globals_["causal"] > 0).all()
assert (np.abs(missed[1] / missed[0] - 0.48) < 0.05).all()  # without crowding: 1
assert globals_["half"][0] > globals_["full"][0] ** 0.5 + 0.2  # half the chances, each missed as often
assert missed[1][1] < missed[0][2] - 0.01  # half at d = 8, full at d = 12

# %% [markdown]
# **Order does not help**: shuffled is not behind causal.
#
# **Half misses less often**: a position that picks among five tokens errs less often if only half as many
# choose beside it. So there are half as many chances to miss, and each is missed less often.
#
# What does a position's own view do? In a causal run positions that see 1 to 5 tokens share one crowd.

# %%
tokens = sequences(3, 5, 8, 240, 23, causal=True)
selected = geometry.selected_tokens(trained(tokens, 500).attention(tokens))
by_m = (selected != tokens.optimal).double().unflatten(-1, (3, 5)).mean((0, 1)).numpy()
print("d = 8, causal: share of positions that miss, by m = 1 to 5:", by_m.round(2))
print("         full: all see 5                                  ", missed[0][1].round(2))
assert (np.diff(by_m) > 0).all()
assert by_m[3] > 4 * by_m[1]  # if the crowd were all: as often
assert by_m[4] < missed[0][1] - 0.02

# %% [markdown]
# **A position that sees more tokens misses more often**, in one crowd. One that sees all five still misses
# less often than with full attention: its crowd is smaller.
#
# **Crowding.** How is one position in another's way? To hold a lead of 1, a position adds its term $a\,
# x_{ik}^\top$ to $W$ (section 14.4). The term $a\, x_{jk'}^\top$ of a position $k'$ in another sequence $j$
# moves the logit $h_{ikt}$ as well, by $(x_{it}\cdot a)(x_{ik}\cdot x_{jk'})$: two products of independent
# random directions.

# %% [markdown]
# ### Exercise 14.4: How much may a batch grow?
#
# ★★☆ · 8 minutes
#
# A batch of `n` sequences trains in dimension `d`; position $k$ of a sequence sees `seen[k]` unit tokens. The
# batch is so large that one's own sequence does not count.
#
# In dimension `d2`, with `seen2`, how many sequences (not rounded) may a batch hold until all their terms
# together move a logit as much as before?
#
# <details><summary>Hint</summary>
#
# How large is the cosine of two random unit vectors in $d$ dimensions, typically? How long is $a$ where a
# position sees $m$ tokens (exercise 14.2)? And how large is a sum of many products with random signs?
# </details>


# %%
@exercise("14.4")
def batch(n, d, seen, d2, seen2):
    """Return how many sequences a batch may hold in d2 dimensions, for seen, seen2 (T,) whole numbers."""
    ### BEGIN SOLUTION
    load = n * np.sum(1 - 1 / np.asarray(seen)) / d**2  # a term moves a logit by about |a| / d
    return load * d2**2 / np.sum(1 - 1 / np.asarray(seen2))
    ### END SOLUTION


# %%
check("14.4", batch)

# %% [markdown]
# So a crowd should count by its **load**, $\sum (1 - 1/m)/d^2$ over all positions: exercise 14.2's price of
# the mask for each entry of $W$.
#
# There are three rivals, each over $d^2$: the number of positions; that of comparisons, $\sum (m - 1)$; and
# section 14.5's $\sum \nu_m$. This last one counts what a $W$ *fitted* to all positions has to give up. Here
# the others' terms are noise to the position we watch, and squared lengths of random terms add up. From
# $m = 2$ to 8 the load of a position grows 1.75 times, $\nu_m$ 3.5 times, comparisons seven times.
#
# Watch one position a sequence. It sees all 8 tokens, while each of the other 7 sees $m$ random ones.
#
# **Predict before you run on**: 5 sequences with $m = 8$. By which factor may the batch grow with $m = 2$,
# until the watched position misses as often?

# %%
crowd = measured("14.crowding").load()  # 240 runs a cell
miss = (crowd.missed.mean("trial") / crowd.n).to_series().to_dict()  # by (n, m, d)


def loads(n, m, d):
    """The load, and comparisons over d^2, of n sequences in which 7 positions see m tokens and one sees 8."""
    return batch(n, d, 7 * [m] + [8], 1, [2]) / 2, n * (7 * (m - 1) + 7) / d**2


print("  n  m   d   load   comparisons / d^2   the watched position misses")
for key in ((5, 8, 8), (8, 2, 8), (20, 2, 8), (20, 8, 16)):
    load, rows = loads(*key)
    print("{:3d} {:2d} {:3d}".format(*key), f"  {load:.2f} {rows:12.2f} {miss[key]:22.3f}")
assert np.allclose([loads(8, 2, 8)[0], loads(20, 8, 16)[0]], loads(5, 8, 8)[0]), again.format("14.4")
assert np.allclose([miss[5, 8, 8], miss[8, 2, 8], miss[20, 8, 16]], 0.38, atol=0.021)
assert miss[20, 2, 8] > 0.5
others = [miss[n, 8, d] / miss[n, 2, d] for n, d in product((5, 8, 20), (8, 16))]
print(f"if the others see 8 tokens instead of 2: misses times {min(others):.1f} to {max(others):.1f}")
assert max(others) < 2

# %% [markdown]
# Which of the four counts tells the share $p$ best? Draw one smooth curve through all 18 shares against each
# count, a parabola with the count on a logarithmic axis and the log-odds $\log\frac{p}{1-p}$. How far from it
# are they?

# %%
nu[8] = far[0]
keys, shares = list(miss), np.array(list(miss.values()))
n, m, d = np.array(keys).T
prices = {  # of a position that sees m tokens
    "comparisons, m - 1": lambda m: m - 1,
    "positions, 1": lambda m: 1,
    "degrees of freedom, nu_m": lambda m: np.vectorize(nu.get)(m),
    "load, 1 - 1/m": lambda m: 1 - 1 / m,
}
off = {}
for name, price in prices.items():
    x, y = np.log(n * (7 * price(m) + price(np.array(8))) / d**2), np.log(shares / (1 - shares))
    off[name] = np.sqrt(np.mean((np.polyval(np.polyfit(x, y, 2), x) - y) ** 2))
    print(f"price of a position: {name:24s}   off by {off[name]:.2f}")
noise = np.sqrt(np.mean(1 / (240 * n * shares * (1 - shares))) * (1 - 3 / 18))  # a parabola takes up three
print(f"from the noise of 240 runs alone{noise:35.2f}")
assert np.allclose([*off.values(), noise], [0.23, 0.19, 0.14, 0.08, 0.05], atol=0.008)
assert np.allclose([price(8) / price(2) for price in prices.values()], [7, 1, 3.5, 1.75], atol=0.05)

# %% jupyter={"source_hidden": true}
fig, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True)
for (m, color), (d, marker) in product(
    zip((2, 3, 8), (GREEN, ORANGE, BLUE), strict=True), ((8, "o"), (16, "s"))
):
    keys = sorted(key for key in miss if key[1:] == (m, d))
    low, high = wilson(
        np.array([miss[key] * 240 * key[0] for key in keys]), np.array([240 * n for n, *_ in keys])
    )
    share = np.array([miss[key] for key in keys])
    for ax, place in zip(axes, (1, 0), strict=True):
        where = [loads(*key)[place] for key in keys]
        fill, label = "full" if d == 8 else "none", f"$m = {m}$, $d = {d}$"
        bars = [share - low, high - share]
        ax.errorbar(where, share, bars, fmt=marker, color=color, fillstyle=fill, label=label)
for ax, name in zip(axes, ("comparisons of the batch / $d^2$", "load $\\sum (1 - 1/m)/d^2$"), strict=True):
    ax.set(xscale="log", xlabel=name, ylim=(0, None))
    ax.minorticks_off()
axes[0].set(
    xticks=[0.3, 1, 3, 10], xticklabels=["0.3", "1", "3", "10"], ylabel="share of watched positions that miss"
)
axes[1].set(xticks=[0.1, 0.3, 1, 2], xticklabels=["0.1", "0.3", "1", "2"])
axes[1].legend(loc="upper left", fontsize=10)
show(
    fig,
    alt="Share of misses of the watched position, 11 to 60 percent, in both panels. Against the comparisons "
    "over d squared the points for m = 2 lie far above those for m = 8; against the load all lie nearly on "
    "one curve.",
)

# %% [markdown]
# **Figure 3.** How often the watched position misses, against two ways to count the crowd, for 5, 8 and 20
# sequences. With Wilson's 95% intervals (240 runs a point), computed beforehand.

# %% [markdown]
# **The load tells it best.** Its curve is off by 0.08 in log-odds, of which noise explains 0.05; those of
# the rivals by 0.14 to 0.23. Beside the three crowds of load 0.55 the watched position misses about equally
# often, 0.36 to 0.40.
#
# So with $m = 2$ the batch may grow from 5 sequences to 8, not to 20: each that chooses adds *one* term.
# At $d = 16$ it may hold nearly 20: with 20 the watched position misses a little more often.
#
# This was measured for 5, 8 and 20 sequences of eight tokens and 500 steps; the argument leaves out the
# position's own sequence. It does not explain all of the first table: *half* at $d = 8$ has the larger load
# than *full* at $d = 12$, and misses less often.
#
# A causal mask, then, helps in two ways: its early positions have few tokens to be wrong about, and the first
# of each sequence does not choose.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.8 A forgotten mask
#
# Suppose sequences of 1 to 4 tokens are filled up with zeros to a fixed length of 5, positions that are
# padding are left out of the loss, but the attention is not told. What does training do?
#
# A padding token has the logit $0^\top W x_{ik} = 0$ and the score 0. It is a token like the others. So where
# a real token is selected, the SVM has one row more, $x_{i\alpha_{ik}}^\top W x_{ik} \ge 1$: a lead over 0.
# Or padding is selected itself.

# %% [markdown]
# ### Exercise 14.5: Who falls for the padding?
#
# ★★☆ · 6 minutes
#
# Predict which positions will attend to padding, if each selects the best token on offer. Full attention,
# no mask. `values` holds $v\cdot x_{it}$ (at padding it means nothing), `y` the labels. Positions
# that are padding themselves, and sequences without padding, that is as long as `values` is wide, answer
# False. (Nothing is exactly 0.)
#
# <details><summary>Hint</summary>
#
# What score does padding offer to position $k$, and what do the real tokens offer it? Whose label counts?
# </details>


# %%
@exercise("14.5")
def falls_for_padding(values, y, lengths):
    """Return which positions attend to padding, (n, T) bool: values, y (n, T), lengths (n,) from 1 to T."""
    ### BEGIN SOLUTION
    real = np.arange(values.shape[1]) < np.asarray(lengths)[:, None]
    scores = np.where(real[:, None], y[..., None] * values[:, None], -np.inf)  # (n, T, T), by k and t
    return real & ~real.all(axis=1, keepdims=True) & (scores.max(axis=-1) < 0)
    ### END SOLUTION


# %%
check("14.5", falls_for_padding)


# %%
trials, generator = 60, torch.Generator().manual_seed(10)
ends = torch.randint(1, 5, (trials, 3), generator=generator)  # sequences of 1 to 4 tokens
base = data.random_tokens(3, 5, 20, trials=trials, seed=10, lengths=ends)  # filled up to 5 with zeros
coins = 2.0 * torch.randint(0, 2, (trials, 3, 5), generator=generator).double() - 1.0
right = data.every_position(base.X, coins, base.v, mask=base.mask)
values = (base.X @ base.v[:, None, :, None]).squeeze(-1).numpy()
falls = falls_for_padding(*(np.concatenate(one) for one in (values, coins.numpy(), ends.numpy())))
falls = torch.as_tensor(falls).reshape(trials, 15)
length = ends[..., None].expand(trials, 3, 5).flatten(1)

asks = right.mask.any(-1)
wrong = dataclasses.replace(right, mask=asks[..., None].expand(right.mask.shape))  # sees the zeros, too
model = trained(wrong, 600)
on_padding = (model.attention(wrong) * ~right.mask).sum(-1) > 0.5
same = (on_padding == falls)[asks].double().mean()
print(f"predicted and measured agree at {same:.1%} of the positions")
assert same > 0.99, again.format("14.5")
for m in range(1, 5):
    share = on_padding[asks & (length == m)].double().mean()
    print(f"sequences of {m} tokens: {share:.2f} attends to padding, 2 to the power -m is {0.5**m:.2f}")
    assert abs(share - 0.5**m) < 0.1

# %% [markdown]
# The prediction is right at nearly every position (at $d = 20$).
# Where all real tokens have a negative score, looking away is the best one can do, and the model learns it.
# With $m$ tokens that has the probability $2^{-m}$: the values have independent fair signs, and whatever the
# label, all must be of the wrong one.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.9 Claims and measurements
#
# | claim | prediction | measured |
# |:---|:---|:---|
# | $W$ goes to the SAtt-SVM of its choice | cosine 1 | above 0.98 in 160 runs |
# | a random choice uses up $\nu_m$ a position | kinematic formula | within 0.1; a coin a row: 0.96 |
# | causal is more often global | not by its order | shuffled is not behind |
# | how a crowd counts | by its load, not by $\sum\nu_m/d^2$ | log-odds off by 0.08, not by 0.14 |
# | forgotten padding wins | where all scores are negative | at over 99% of the positions, $d = 20$ |

# %% [markdown]
# ## Questions
#
# **1.** Padding stands at the end and attention is causal. Which of the two masks can you forget?
# <details><summary>Answer</summary>
#
# In the attention, the padding's: a real position sees tokens before it only, and these are real. (The loss
# must still leave the padded positions out.) With padding at the *beginning* both are needed.
# </details>
#
# **2.** A batch has 32 causal sequences of 128 tokens, and $d = 64$. Can one $W$ make any choice? A random
# one?
# <details><summary>Answer</summary>
#
# A random one: by the count, hardly. More than half of the 4,096 positions see 64 tokens or more, and use up
# at least $\nu_{64} = 4.2$ degrees of freedom each, together over 8,600. $W$ has 4,096. So not any one
# either, though one always can be made: "look at yourself".
# </details>
#
# **3.** You train that batch all the same. Name two ways to halve its load. Does a window of 16 tokens?
# <details><summary>Answer</summary>
#
# Half as many sequences, or $d$ larger by $\sqrt 2$. The window hardly helps: $1 - \frac1m$ is
# $\frac{15}{16}$ for 16 tokens, and never above 1.
# </details>

# %%
progress("14")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
# - With every position a query, training goes to the **SAtt-SVM**: one set of rows for each position, over
#   the tokens that it sees. A **mask** is exact: a hidden token moves no other position.
# - All positions share $W$. With orthonormal tokens squared norms add up, $1 - 1/m$ for a position that sees
#   $m$.
# - A position that sees $m$ tokens uses up $\nu_m$ = 0.5, 0.83, 1.09, 1.29, ... of the $d^2$ degrees of
#   freedom. Random choices are feasible up to about $\sum \nu = d^2$.
# - **Causal** runs are not more often global because of the order. A position misses more often the more
#   tokens it sees itself, and the more others choose. The others count by the **load**,
#   $\sum (1 - 1/m)/d^2$, at most twice as much if they see many tokens as if they see two.
# - **Padding** without a mask is a token with score 0, and wins where all others are worse.
#
# Limits: training was measured with five or eight random tokens of length 1, its direction at $d = 20$ after
# 600 steps; the load is an argument about sizes, not a theorem.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Further reading
#
# - D. A. Tarzanagh, Y. Li, C. Thrampoulidis, S. Oymak, *Transformers as Support Vector Machines* (2023,
#   arXiv 2308.16898): the Att-SVM for $W$, and the extension to sequence outputs.
# - D. Amelunxen, M. Lotz, M. B. McCoy, J. A. Tropp, *Living on the Edge: Phase Transitions in Convex
#   Programs with Random Data* (2014, arXiv 1303.6672): degrees of freedom of cones, and the kinematic
#   formula.
# - Y. M. Baryshnikov, R. A. Vitale, *Regular Simplices and Gaussian Samples* (Discrete & Computational
#   Geometry 1994): why the hull of normal tokens has as many corners as the count says.
#
# That the formula fits attention, and the load with its experiments in section 14.7, are this lesson's own
# measurements.
#
# **New in the library:** [`data.every_position`](../mini_attn/data.py),
# [`svm.sequence_problem`](../mini_attn/svm/sequence.py); and `mask=` of the data and the SVMs, `lengths=`
# of random tokens.
#
# **Next:** [lesson 15](15_mirror_descent_attention.ipynb) asks what mirror descent, an optimiser of other
# geometries, does to attention.
