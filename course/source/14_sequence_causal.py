# %% [markdown] slideshow={"slide_type": "slide"}
# # 14 · Sequences and causal masks
#
# Up to now one query looked at each sequence. In a transformer *every* token asks, about all tokens of its
# sequence or, in a language model, about those before it. All these queries share one matrix $W$.
#
# **The question: where does training go when every position asks and one W has to answer them all?**
#
# In our runs it goes to one SVM over all positions; a mask only says which rows that has. Whether one $W$
# has room for a *random* choice can be counted beforehand. Room for the best tokens is not enough, though:
# training may settle for others. It does so less often under a causal mask; we split this gain in two, and
# see when one part arises.

# %% [markdown]
# **After this lesson you can**
#
# - say what a mask takes out of the output, the loss and the SVM;
# - predict $\lVert W_{\mathrm{mm}}\rVert$ from the mask alone, where tokens are orthonormal;
# - predict at which dimension one $W$ can make a random choice of tokens;
# - split what a causal mask gains in two, and forecast one part;
# - tell which positions fall for the padding when its mask is forgotten.
#
# **You need** [lesson 06](06_attention_as_svm.ipynb) (the Att-SVM), [lesson 07](07_local_global_tokens.ipynb)
# (global and local choices), [lesson 10](10_cross_self_attention.ipynb) (the matrix $W$), and [lesson
# 12](12_overparameterization.ipynb) (feasibility). About 75 minutes (110 with a pencil), four
# exercises.

# %%
import dataclasses
from itertools import product

import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure

from course.exercise import check, exercise, progress, todo
from course.figure import show
from course.replicate import measured
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
# over all $t$ (**full** attention), or only $t \le k$ (**causal**). Each position has a label $y_{ik} = \pm
# 1$ of its own. To position $k$ the token $t$ has the score $y_{ik}\, v\cdot x_{it}$; the token with the
# largest is its best. Training lowers the mean logistic loss of $y_{ik} f_{ik}$ over all positions.

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
# seen; a star marks the best token in sight. Each row is one softmax; all rows share $W$.

# %% [markdown]
# As in lesson 06, each position ends with all its attention on one token.

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
# Does a model look where it must not? Change one token, and see whether only outputs move that *should*.

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
# sequences of lengths 1 to $T$ and the query $z = x_{ik}$.

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
# To each of these conditions belongs a **row** of the SVM, the matrix
# $(x_{i\alpha_{ik}} - x_{it})\, x_{ik}^\top$, and a **lead**, its inner product with $W$.
#
# Informally: a run that ends with one token per position, $\alpha$, goes in direction to
# $W_{\mathrm{mm}}(\alpha)$, if $\alpha$ is locally optimal (lesson 07). What the paper proves, for one query
# a sequence, asks for more: a start near that direction too, or conditions on the first gradient (lesson 12).
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
    """The model after growing normalised steps (lesson 10) from W = 0, in each trial."""
    model = models.CrossAttention(tokens.X.shape[-1], trials=tokens.trials[0])
    optimizer = optim.NormalizedGD(model.parameters(), lr=0.1, batch_dims=1)
    train.fit(model, tokens, optimizer, steps, every=steps, schedule=train.growing, progress=False)
    return model.requires_grad_(False)


found = {}
print("80 runs each, n = 3, T = 5, d = 20   global   local   least cosine to the SAtt-SVM")
for name, causal in (("full", False), ("causal", True)):
    tokens = sequences(3, 5, 20, 80, 2, causal)
    model = trained(tokens, 600)
    s = model.attention(tokens)
    solution = svm.solve(svm.sequence_problem(tokens, geometry.selected_tokens(s)))
    found[name], local = ((geometry.outcome(s, tokens) == word).sum() for word in ("global", "local"))
    cosine = geometry.cosine(model.W, solution.value).min()
    print(f"{name:31s} {found[name]:9d} {local:7d}   {cosine:.3f}")
    assert cosine > 0.98
assert found["full"] < found["causal"]

# %% [markdown]
# After 600 steps $W$ points to the SAtt-SVM of the tokens it selected in each of these 160 runs. What
# differs is *which* tokens: with a causal mask more runs are **global**, with the best one at every
# position.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.4 What it costs that all share one W
#
# The margin of the SVM is $1/\lVert W_{\mathrm{mm}}\rVert$. What does it become as more positions ask? Begin
# with orthonormal tokens.

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
# **With orthonormal tokens nobody is in another's way.** A position that selects $\alpha$ of $m$ tokens
# adds the **term** $a\, x_{ik}^\top$, where $a$ is $x_\alpha$ less the mean of the $m$. All its leads are
# exactly 1. No $W$ is shorter (KKT): $a$ is the mean of $x_\alpha - x_t$ over the $m$ tokens, so $W$ is a
# sum of its tight rows with weights $1/m > 0$. Whatever the choice, the squared norms add up: $1 - 1/m$ a
# position, with full attention $n(T-1)$.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.5 When can one W make a choice?
#
# [Lesson 12](12_overparameterization.ipynb) counted: for almost all data, if the queries are linearly
# independent and $d \ge T - 1$, every choice is feasible. Here that asks for $d \ge nT$, far more than
# needed: a choice uses up only part of the $d^2$ entries of $W$. How many?

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What a choice uses up
#
# Section 12.3 counted it: draw the logits as independent $N(0, 1)$ numbers, the target, and move as little
# as possible to where the selected token is ahead. Each token that ends tied with it uses up one number.
# Their mean is $\nu_m$ where a position sees $m$ tokens.
#
# **Predict before you run on**: how much more does a position use up that sees 16 tokens instead of 8?


# %%
def pooled(targets):
    """How many tokens end tied with the first, the selected one, (draws,), for targets (draws, m)."""
    others = -np.sort(-targets[:, 1:], axis=1)  # the largest needs the tie most
    sums = np.cumsum(np.concatenate([targets[:, :1], others], axis=1), axis=1)[:, :-1]
    return np.cumprod(others > sums / np.arange(1, targets.shape[1]), axis=1).sum(axis=1)


share_of, nu = {1: np.ones(1)}, {1: 0.0}
for m in (2, 3, 4, 5, 8, 16, 32, 64, 128, 256):
    used = pooled(np.random.default_rng(m).normal(size=(1_600_000 // m, m)))
    share_of[m] = np.bincount(used, minlength=m) / len(used)
    nu[m] = used.mean()
    print(f"a position that sees {m:3d} tokens uses up {nu[m]:.1f} degrees of freedom")
assert np.allclose([nu[2], nu[3], nu[5], nu[8], nu[64]], [0.5, 5 / 6, 1.29, 1.76, 4.2], atol=0.05)
assert all(0.65 < nu[2 * m] - nu[m] < 1.05 for m in (8, 16, 32, 64, 128))

# %% [markdown]
# Long contexts are cheap: from 8 to 256 a doubling of $m$ adds 0.7 to 1.
#
# By the kinematic formula (section 12.3) about half of the random choices are feasible where
#
# $$d^2 \approx \sum_{i,k} \nu_{m_{ik}}, \qquad m_{ik} \text{ tokens seen by position } k \text{ of } i ,$$
#
# Lesson 12 proved the formula for Gaussian tokens, fixed queries and $T - 1 \le d$. Here tokens have length
# 1, queries are tokens themselves, $T$ to a sequence, and $d$ may be smaller. So we measure. Beside it
# stands the choice that training *wants*, the best token for every position. It is not random: with full
# attention, positions of one sequence and label want the same token.


# %%
def predicted_share(seen, D):
    """The kinematic formula: seen is how many tokens each position sees, D the degrees of freedom of W."""
    number = np.ones(1)
    for m in seen:
        number = np.convolve(number, share_of[m])
    return max(0.0, 1 - 2 * number[D + 1 :: 2].sum())  # lesson 12 adds up D - 1, D - 3, ...; this is the rest


found, longer = measured("14.feasible").load(), measured("14.longer").load()
drawn_points = []  # (mask, T, d^2 over what choices use up, measured, predicted, trials)
print("300 trials each        half at d =   feasible at d = 2 to 7, of random choices  and of the best")
for T, n, mask in product((3, 5), (1, 3, 6), ("full", "causal")):
    seen = n * (T * [T] if mask == "full" else [*range(1, T + 1)])
    uses = sum(nu[m] for m in seen)
    share, best = (found[name].sel(T=T, n=n, mask=mask).mean("trial").values for name in ("random", "best"))
    for d, one in zip(found.d.values, share, strict=True):
        drawn_points.append((mask, T, d * d / uses, one, predicted_share(seen, d * d), 300))
    print(f"T = {T}, n = {n}, {mask:6s} {uses**0.5:14.1f}   {share[:6].round(2)!s:39s}   {best[:6].round(2)}")
    assert (share[found.d.values < uses**0.5 - 0.5] < 0.5).all()
    assert (share[found.d.values > uses**0.5 + 0.5] > 0.5).all()
for size, one in longer.random.mean("trial").to_series().items():
    n, T, d = map(int, size.split())
    uses, ahead = n * T * nu[T], predicted_share(n * T * [T], d * d)
    drawn_points.append(("full", T, d * d / uses, one, ahead, 100))
    print(f"T = {T:2d}, n = {n}, full, d = {d}: {one:.2f} of 100 random choices, predicted {ahead:.2f}")
    assert abs(d - uses**0.5) < 0.5 or (one > 0.5) == (d > uses**0.5)


# %% jupyter={"source_hidden": true}
def bars(share, number):
    """Wilson's 95% interval of a share, as lengths down and up."""
    share, number = np.asarray(share), np.asarray(number)
    low, high = wilson(share * number, number)
    return np.array([share - low, high - share])


fig, ax = plt.subplots(figsize=(8, 4))
looks = product((("full", ORANGE, -0.3), ("causal", BLUE, 0.3)), ((3, "^"), (5, "o"), (8, "s"), (16, "D")))
for (mask, color, move), (T, marker) in looks:
    points = [point for point in drawn_points if point[:2] == (mask, T) and 0.3 < point[2] < 3]
    if points:
        x, share, ahead, number = np.array([point[2:] for point in points]).T
        x = x * (1 + 0.01 * move)
        ax.errorbar(x, share, bars(share, number), fmt=marker, markersize=5, color=color, fillstyle="none",
                    elinewidth=1.2, label=f"{mask}, $T = {T}$")  # fmt: skip
        ax.plot(x, ahead, "_", color=BLACK, markersize=11, markeredgewidth=1.5, zorder=4)
ax.plot([], [], "_", color=BLACK, markersize=11, markeredgewidth=1.5, label="predicted")
ax.set(xscale="log", xlabel="$d^2 / \\sum \\nu_m$", ylabel="share of feasible random choices", xlim=(0.3, 3))
ax.set(xticks=[0.3, 0.5, 1, 2, 3], xticklabels=["0.3", "0.5", "1", "2", "3"])
ax.minorticks_off()
ax.legend(loc="upper left", fontsize=10)
show(
    fig,
    alt="Share of feasible random choices against d squared over the sum of nu. For full and causal masks "
    "and all lengths it rises from 0 to 1 around 1, near the predictions.",
)

# %% [markdown]
# **Figure 2.** Shares of random choices that one $W$ can make, with Wilson's 95% intervals (300 trials a
# point, 100 for $T = 8$, 16).

# %% [markdown]
# **The shares of random choices rise at the predicted $d$**, for a causal mask before full attention. (Not
# every interval holds the prediction. $T = 8$ and 16 come up to half a dimension early.) The best choice may
# go another way: for one sequence of 5, full, it is feasible more often at $d = 2$, less often at $d = 3$.
#
# **Try it.** Let a position see at most $m = 2$ tokens: where does full attention come to stand?


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

# %% [markdown]
# **Some choice is always feasible**: each token selects itself. With unit tokens $W = I$ gives the leads
# $1 - x_{it} \cdot x_{ik} > 0$, in any dimension. So if there is no room for the best choice, where does
# training go?

# %%
tokens = sequences(20, 8, 8, 3, 1, causal=False)
model = trained(tokens, 2000)
top, selected = model.attention(tokens).max(-1)
best = svm.solve(svm.sequence_problem(tokens, tokens.optimal), throw=False).status
made = svm.solve(svm.sequence_problem(tokens, selected))
cosine = geometry.cosine(model.W, made.value).min()
print(f"n = 20, T = 8, d = 8: {160 * nu[8]:.0f} against d^2 = 64; 3 runs, best choice: {set(map(str, best))}")
print(f"least attention to a selected token {top.min():.2f}, cosine to the SAtt-SVM of these {cosine:.2f}")
print(f"positions that did not select the best {(selected != tokens.optimal).double().mean():.2f}")
assert (best == "infeasible").all()
assert min(top.min(), cosine) > 0.98

# %% [markdown]
# **In these runs every position decides, and $W$ goes to the SVM of another choice.** Over half of the
# positions do not get their best token.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.6 What a causal mask gains
#
# Feasible is not the same as found. Call it a **miss** where a position's largest attention is not on its
# best token. In all but a few runs some $W$ has the best token at all positions (in the next cell's in all),
# and yet many miss. Under a causal mask fewer do. Three things differ: the *order*, from short to long; the
# **view**, how many tokens a position sees; and the **crowd**, how many the others see. Two more masks tell
# them apart (there a position need not see itself):
#
# - **shuffled**: the $k$-th position sees $k$ random tokens;
# - **narrow**: full, but the last positions of the three sequences see 2, 3 and 4 random tokens.
#
# The factor *crowd* is misses of positions that see all $T$ tokens over those with full attention; *view* is
# the rest.


# %%
def factor(below, above):
    """The ratio of means over paired runs, for two arrays (..., runs), and half its 95% interval."""
    ratio = below.mean(-1) / above.mean(-1)
    return ratio, 1.96 * (below - ratio[..., None] * above).std(-1) / above.mean(-1) / below.shape[-1] ** 0.5


runs = measured("14.controls").load().sel(n=3)
assert runs.feasible.all()  # the best choice, in each run
missed = runs.missed.mean("missed_0")  # mask, d, run, position
full, shares = missed.sel(mask="full").mean("missed_1").values, runs["global"].mean("trial")
print("n = 3, T = 5, 480 runs each; d =", "".join(f"{d:13d}" for d in runs.d.values))
for mask in ("full", "causal", "shuffled"):
    print(f"{'global runs, ' + mask:32s}", "".join(f"{one:13.2f}" for one in shares.sel(mask=mask).values))
print(f"{'positions that miss, full':32s}", "".join(f"{one:13.2f}" for one in full.mean(1)))
alone = runs.missed.sel(mask="narrow").values[..., -1].sum(-1)  # of the positions that see 2, 3, 4 tokens
factors = {"view, in a full crowd": factor((alone + full) / 5, full)}  # one that sees one token cannot miss
for mask in ("shuffled", "causal"):
    one = missed.sel(mask=mask).values
    factors[f"crowd, {mask}"] = factor(one[..., -1], full)
    factors[f"view, {mask}"] = factor(one.mean(-1), one[..., -1])
for name, values in factors.items():
    print(f"{name:32s}", "".join(f"{one:6.2f} ± {half:.2f}" for one, half in zip(*values, strict=True)))
    assert (abs(values[0] - 0.67) < 0.1).all() if "crowd," in name else (values[0] < 0.55).all()
assert (shares.sel(mask="full") + 0.2 < shares.sel(mask="causal")).all()
assert (shares.sel(mask="shuffled") - shares.sel(mask="causal")).mean() > -0.03

# %% [markdown]
# **Order does not help**: shuffled is not behind causal. **In the smaller crowd** positions that see all five
# tokens miss about two thirds as often. **The narrower view helps more**, at $T = 5$: by a factor of about a
# half or less, and by about as much in a full crowd. View is measured, not explained; a factor $1 - 1/T$ of
# it is position 1, which cannot miss.
#
# And crowd? After one step $W$ is a sum of terms $a\, x_{ik}^\top$, one a position. Suppose that in the end
# it is one, too, of those of section 14.4. The term $a\, x_{jk'}^\top$ of another sequence $j$ moves the
# logit $h_{ikt}$ by $(x_{it}\cdot a)(x_{ik}\cdot x_{jk'})$, two products of random directions.
#
# **Predict before you run on**: does the smaller crowd help from the first step on?

# %% [markdown]
# ### Exercise 14.3: The crowd, first and last
#
# ★★★ · 15 minutes
#
# Let $S$ be the sum of $|a|^2$ over all positions. By which factor does a mask change the mean of $S$,
# against full attention: after the first step from $W = 0$, and with the terms of section 14.4? The $k$-th
# position of every sequence sees `seen[k]` of the $T$ tokens. Take tokens as orthonormal, their scores as
# independent with one mean and variance, and the slope of the loss as the same everywhere.
#
# <details><summary>Hint</summary>
#
# The gradient's $a$ is $\sum_t x_t\, \partial f_{ik} / \partial h_{ikt}$, up to a common factor, where all
# attention is $1/m$. What is the mean square of a score less the mean of $m$ such scores?
# </details>


# %%
@exercise("14.3")
def forecast(seen):
    """Return by which factors S changes, two numbers, first and last: seen (T,), from 1 to T."""
    ### BEGIN SOLUTION
    T = len(seen)
    first = np.sum((1 - 1 / seen) / seen)  # a has the entries (score - mean) / m: variance (1 - 1/m) / m
    return first / (1 - 1 / T), np.sum(1 - 1 / seen) / (T - 1)
    ### END SOLUTION


# %%
check("14.3", forecast)


# %%
def crowd(n, T, d, number, step):
    """Misses of positions that see all T tokens, full and causal, and crowd with half its 95% interval."""
    pair = [sequences(n, T, d, number, 0, causal) for causal in (False, True)]
    missed = [geometry.selected_tokens(trained(one, step).attention(one)) != one.optimal for one in pair]
    full, causal = (one.unflatten(-1, (n, T)).double().numpy() for one in missed)
    return full.mean(), causal[..., -1].mean(), *factor(causal[..., -1].mean(-1), full.mean((-1, -2)))


steps = (1, 10, 20, 40, 100, 200)
course = {T: np.array([crowd(n, T, d, 400, k) for k in steps]) for n, T, d in ((3, 5, 8), (2, 8, 12))}
for T, one in course.items():
    pairs = zip(steps, one[:, 2:], strict=True)
    print(f"T = {T}, crowd after step", "   ".join(f"{k}: {a:.2f} ± {b:.2f}" for k, (a, b) in pairs))
    assert one[0, 2] - one[1, 2] < 0.1 < 0.15 < one[1, 2] - one[4, 2]

table = []  # crowd and half its interval, and the forecast: after one step, and in the end
print("\nn  T  d   crowd after 1 step, forecast    after 500, forecast")
for found in (measured("14.sizes").load(), measured("14.short").load()):
    assert found.feasible.all()
    for size in found["size"].values:
        n, T, d = map(int, size.split())
        f = found.missed.sel(size=size, mask="full").values / (n * T)  # shares in each run
        last = factor(found.missed_last.sel(size=size, mask="causal").values / n, f)
        ahead = forecast(np.arange(1, T + 1))
        table.append((*crowd(n, T, d, len(f), 1)[2:], ahead[0] ** 0.5, *last, ahead[1]))
        print(f"{size:10s}", ("{:11.2f} ± {:.2f} {:9.2f}" * 2).format(*table[-1]))
first, off, root, last, half, square = np.transpose(table)
assert (abs(first - root) < 0.13).all(), again.format("14.3")
misfit = [abs(last - one).max() for one in (square, square**0.5, 0.5)]
assert misfit[0] < 0.19 < min(misfit[1:]), again.format("14.3")

# %% jupyter={"source_hidden": true}
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), width_ratios=(1, 1.3))
for T, line, marker in ((8, "--", "s"), (5, "-", "o")):
    for place, name, color in ((0, "full", ORANGE), (1, "causal", BLUE)):
        left.plot(steps, course[T][:, place], line, marker=marker, color=color, label=f"$T = {T}$, {name}")
left.set(xscale="log", yscale="log", xlabel="training step", ylabel="share of positions that miss")
left.set(xticks=[1, 10, 100], xticklabels=["1", "10", "100"])
left.set(yticks=[0.1, 0.2, 0.5], yticklabels=["0.1", "0.2", "0.5"], ylim=(0.07, 0.6))
left.set_title("positions that see all tokens")
left.minorticks_off()
left.legend(loc="lower left", fontsize=10)
place = np.arange(len(table))
for value, bar, ahead, color, marker, name in (
    (first, off, root, GREEN, "s", "after one step"),
    (last, half, square, BLACK, "o", "after 500"),
):
    right.errorbar(place, value, bar, fmt=marker, color=color, label=name)
    right.plot(place, ahead, "_", color=color, markersize=20, markeredgewidth=2, label="forecast")
names = [*measured("14.sizes").grid["size"], *measured("14.short").grid["size"]]
right.axhline(1, color="0.6", linewidth=1, zorder=0)
right.set(xticks=place, xticklabels=[name.replace(" ", "\n") for name in names], ylim=(0, 1.45))
right.set(xlabel="$n$, $T$, $d$", title="crowd: misses, causal over full")
right.legend(loc="lower left", fontsize=10, ncols=2)
show(
    fig,
    alt="Left: misses over the training step at T = 5 and 8. Full and causal start together, near 0.45, and "
    "part between steps 10 and 100, causal lower. Right: at eight sizes crowd after one step, 0.9 to 1.2, "
    "and after 500 steps, 0.4 to 0.8, beside the forecasts.",
)

# %% [markdown]
# **Figure 3.** Left: 400 runs a curve, $d = 8$ and 12 for $T = 5$ and 8. Right: 95% intervals.

# %% [markdown]
# **The smaller crowd starts hardly better, and repairs more.** After a step it helps a little at $T = 3$ and
# 4, not at $T = 5$, and harms at $T = 8$: the gradient's $|a|^2 \sim (1/m)(1 - 1/m)$ is *larger* where fewer
# tokens are seen (two or more). The gain arises between steps 10 and 100.
#
# The forecast after a step is the *root* of the factor. A position misses if what the others add exceeds the
# gap between its best scores. Gaps near 0 are all about equally frequent, so the chance of a miss grows in
# proportion to the size of what is added. It is right to about 0.1 at these sizes, a little too steep in $T$.
# In the end the factor itself is off by up to 0.17, too high at $T = 3$, and too flat in $T$; its root and
# the share of rows, a half, fit worse. Why the square should count there is open, and the argument leaves out
# the own sequence, where the products are not independent: at $n = 1$ there is nothing else.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.7 A forgotten mask
#
# Suppose sequences of 1 to 4 tokens are filled up with zeros to a fixed length of 5, positions that are
# padding are left out of the loss, but the attention is not told.
#
# A padding token has the logit $0^\top W x_{ik} = 0$ and the score 0. So
# where a real token is selected, the SVM has one row more, $x_{i\alpha_{ik}}^\top W x_{ik} \ge 1$; where
# padding is, the rows are $-x_{it}^\top W x_{ik} \ge 1$ for all real $t$, and none between its copies.

# %% [markdown]
# ### Exercise 14.4: Who falls for the padding?
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
@exercise("14.4")
def falls_for_padding(values, y, lengths):
    """Return which positions attend to padding, (n, T) bool: values, y (n, T), lengths (n,) from 1 to T."""
    ### BEGIN SOLUTION
    real = np.arange(values.shape[1]) < np.asarray(lengths)[:, None]
    scores = np.where(real[:, None], y[..., None] * values[:, None], -np.inf)  # (n, T, T), by k and t
    return real & ~real.all(axis=1, keepdims=True) & (scores.max(axis=-1) < 0)
    ### END SOLUTION


# %%
check("14.4", falls_for_padding)


# %%
generator = torch.Generator().manual_seed(10)
ends = torch.randint(1, 5, (60, 3), generator=generator)  # sequences of 1 to 4 tokens
coins = 2.0 * torch.randint(0, 2, (60, 3, 5), generator=generator).double() - 1.0
for d in (20, 8, 3):
    base = data.random_tokens(3, 5, d, trials=60, seed=10, lengths=ends)  # filled up to 5 with zeros
    right = data.every_position(base.X, coins, base.v, mask=base.mask)
    values = (base.X @ base.v[:, None, :, None]).squeeze(-1).numpy()
    falls = falls_for_padding(*(np.concatenate(one) for one in (values, coins.numpy(), ends.numpy())))
    asks = right.mask.any(-1)
    wrong = dataclasses.replace(right, mask=asks[..., None].expand(right.mask.shape))  # sees the zeros, too
    on_padding = ((trained(wrong, 600).attention(wrong) * ~right.mask).sum(-1) > 0.5)[asks]
    falls = torch.as_tensor(falls).reshape(60, 15)[asks]
    hit, never = (on_padding & falls).sum(), (~on_padding).double().mean()
    print(f"d = {d}: {hit} of {falls.sum()} foreseen fall, {on_padding.sum() - hit} others; {never:.1%} stay")
    assert (0.9 if d > 3 else 0.75) < hit / falls.sum() < (1.01 if d > 3 else 0.95), again.format("14.4")

# %% [markdown]
# Where all real scores are negative, the model learns to look away: over 90% of these positions do at
# $d = 20$ and 8, fewer at $d = 3$. (False everywhere is right for those that stay, 80 to 86%.)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.8 Claims and measurements
#
# | claim | prediction | measured |
# |:---|:---|:---|
# | $W$ goes to the SAtt-SVM of its choice | cosine 1 | above 0.98 in 163 runs |
# | a random choice uses up $\nu_m$ a position | half at $d^2 = \sum\nu_m$ | rises there ($T = 3$ to 16) |
# | a smaller crowd after a step | root of the ratio of $\sum (1 - 1/m)/m$ | right to about 0.1 |
# | ... and after 500 | ratio of $\sum (1 - 1/m)$ | off by up to 0.17, too flat in $T$ |
# | forgotten padding wins | where all scores are negative | over 90% of these ($n = 3$; $d = 8$, 20) |

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
# A random one: by the count (tested up to $T = 16$), hardly. More than half of the 4,096 positions see 64
# tokens or more, and use up at least $\nu_{64} = 4.2$ degrees of freedom each, together over 8,600. $W$ has
# 4,096. So not any one either, though one always can be made: "look at yourself".
# </details>

# %%
progress("14")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
# - With every position a query, training goes to the **SAtt-SVM**: one set of rows for each position, over
#   the tokens that it sees. Even where the best choice is feasible, training may take another. A **mask** is
#   exact: a hidden token moves no other position.
# - With orthonormal tokens squared norms add up, $1 - 1/m$ for a position that sees
#   $m$.
# - A position that sees $m$ tokens uses up $\nu_m$ of the $d^2$ degrees of freedom. Random choices become
#   feasible where $d^2$ passes $\sum \nu_m$.
# - **Causal** runs are more often global not by their order: in the smaller **crowd** positions that see as
#   many tokens start hardly better, but repair more misses ($T = 3$ to 8; the factor rises with $T$); a
#   narrower **view** helps more (at $T = 5$).
# - **Padding** without a mask is a token with score 0, and wins where all others are worse ($d = 8$, 20).
#
# Limits: tokens were random and of length 1, labels fair coins. The direction was measured at $n = 3$, $T =
# 5$, $d = 20$ and $n = 20$, $T = d = 8$, the count at $T = 3$ to 16, misses where the best choice is
# feasible.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Further reading
#
# - D. A. Tarzanagh, Y. Li, C. Thrampoulidis, S. Oymak, *Transformers as Support Vector Machines* (2023,
#   arXiv 2308.16898): the Att-SVM for $W$, and the extension to sequence outputs.
# - D. Amelunxen, M. Lotz, M. B. McCoy, J. A. Tropp, *Living on the Edge: Phase Transitions in Convex
#   Programs with Random Data* (2014, arXiv 1303.6672): degrees of freedom of cones, and the kinematic
#   formula.
#
# That the formula fits attention, and the split of misses, are this lesson's own measurements.
#
# **New in the library:** [`data.every_position`](../mini_attn/data.py),
# [`svm.sequence_problem`](../mini_attn/svm/sequence.py); and `mask=` of the data and the SVMs, `lengths=`
# of random tokens.
#
# **Next:** [lesson 15](15_mirror_descent_attention.ipynb) asks what mirror descent, an optimiser of other
# geometries, does to attention.
