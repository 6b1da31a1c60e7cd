# %% [markdown] slideshow={"slide_type": "slide"}
# # 14 · Sequences and causal masks
#
# Up to now one query looked at each sequence. In a transformer *every* token asks, about all tokens of its
# sequence or, in a language model, about those before it. All these queries share one matrix $W$.
#
# **The question: where does training go when every position asks and one W has to answer them all?**
#
# It goes to one SVM over all positions; a mask only says which rows that has. Whether one $W$ has room for a
# *random* choice can be counted beforehand. With room or without, training may settle for others than the
# best tokens. How often depends on how many tokens a position sees, and on how many others choose.

# %% [markdown]
# **After this lesson you can**
#
# - say what a mask takes out of the output, the loss and the SVM, and find a leak;
# - predict $\lVert W_{\mathrm{mm}}\rVert$ from the mask alone, where tokens are orthonormal;
# - predict at which dimension one $W$ can make a random choice of tokens;
# - predict how often a position that sees 8 tokens misses its best in a new crowd;
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
    ax.set(xlabel="token $t$", xlim=(-0.55, 4.55), ylim=(4.55, -0.55))
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
others = ~np.eye(5, dtype=bool) & ~np.eye(5, k=1, dtype=bool)  # not itself, not the next
for sees in (visible(lengths.numpy(), 5, True), np.tile(others, (3, 1, 1))):
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
# > of one visible token per position,
# >
# > $$W_{\mathrm{mm}}(\alpha) = \arg\min_W \lVert W\rVert_F \quad\text{subject to}\quad
# > (x_{i\alpha_{ik}} - x_{it})^\top W x_{ik} \ge 1 \quad
# > \text{for each } i, k \text{ and each } t \ne \alpha_{ik} \text{ that } k \text{ sees.}$$
# >
# > This is a definition, for an $\alpha$ that some $W$ can make (section 14.5).

# %% [markdown]
# To each comparison belongs a row of the SVM, the matrix $(x_{i\alpha_{ik}} - x_{it})\, x_{ik}^\top$, and a
# **lead**, its inner product with $W$.
#
# Informally: a run that ends with one token per position, $\alpha$, goes in direction to
# $W_{\mathrm{mm}}(\alpha)$, if $\alpha$ is locally optimal (lesson 07). What the paper proves asks for more:
# a start near that direction too, or conditions on the first gradient (lesson 12).
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
print("80 runs each, n = 3, T = 5, d = 20   global   local   least cosine to the SAtt-SVM")
for name, causal in (("full", False), ("causal", True)):
    tokens = sequences(3, 5, 20, 80, 2, causal)
    model = trained(tokens, 600)
    s = model.attention(tokens)
    solution = svm.solve(svm.sequence_problem(tokens, geometry.selected_tokens(s)))  # raises if one had none
    found[name], local = ((geometry.outcome(s, tokens) == word).sum() for word in ("global", "local"))
    cosine = geometry.cosine(model.W, solution.value).min()
    print(f"{name:31s} {found[name]:9d} {local:7d}   {cosine:.3f}")
    assert cosine > 0.98
assert found["full"] + 20 < found["causal"]

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
# [Lesson 12](12_overparameterization.ipynb) counted: if the queries are linearly independent and
# $d \ge T - 1$, every choice is feasible. Here that asks for $d \ge nT$, far more than needed: a choice uses
# up only part of the $d^2$ entries of $W$. How many?

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
# Lesson 12 proved the formula for Gaussian tokens, fixed queries and $T - 1 \le d$. New here: queries are
# tokens themselves, $T$ to a sequence. So we measure. Beside it stands the choice that training *wants*, the
# best token for every position. It is not random: with full attention, positions of one sequence and label
# want the same token.


# %%
def predicted_share(seen, D):
    """The kinematic formula: seen is how many tokens each position sees, D the degrees of freedom of W."""
    number = np.ones(1)
    for m in seen:
        number = np.convolve(number, share_of[m])
    return max(0.0, 1 - 2 * number[D + 1 :: 2].sum())  # lesson 12's sum, from the other end


found, curves = measured("14.feasible").load(), {}
print("300 trials each        half at d =   feasible at d = 2 to 7, of random choices   and of the best")
for T, n, mask in product((3, 5), (1, 3, 6), ("full", "causal")):
    seen = n * (T * [T] if mask == "full" else [*range(1, T + 1)])
    half_at = sum(nu[m] for m in seen) ** 0.5
    share, best = (found[name].sel(T=T, n=n, mask=mask).mean("trial").values for name in ("random", "best"))
    curves[n, mask] = share, [predicted_share(seen, d * d) for d in found.d.values]  # the last, T = 5, stay
    print(f"T = {T}, n = {n}, {mask:6s} {half_at:14.1f}   {share[:6].round(2)!s:39s}    {best[:6].round(2)}")
    assert (share[found.d.values < half_at - 0.5] < 0.5).all()
    assert (share[found.d.values > half_at + 0.5] > 0.5).all()

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
# point, $T = 5$; computed beforehand).

# %% [markdown]
# **The shares of random choices rise at the predicted $d$**, for a causal mask before full attention. (Not
# all intervals hold the prediction: $n = 1$, $d = 3$; $n = 6$, $d = 6$.) The best choice may go another way:
# for one sequence of 5 with full attention it is feasible more often at $d = 2$, less often at $d = 3$.
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
made = svm.solve(svm.sequence_problem(tokens, selected))  # raises if one had none
cosine = geometry.cosine(model.W, made.value).min()
print(f"n = 20, T = 8, d = 8: {160 * nu[8]:.0f} against d^2 = 64; 3 runs, best choice: {set(map(str, best))}")
print(f"least attention to a selected token {top.min():.2f}, cosine to the SAtt-SVM of these {cosine:.2f}")
print(f"positions that did not select the best {(selected != tokens.optimal).double().mean():.2f}")
assert (best == "infeasible").all()
assert min(top.min(), cosine) > 0.98

# %% [markdown]
# **Every position decides, and $W$ goes to the SVM of another choice.** That one is feasible by itself: $W$,
# scaled up, has all its leads above 1. Over half of the positions do not get their best token.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.6 Why causal models are more often global
#
# Feasible is not the same as found: with full attention fewer runs were global than with a causal mask. Call
# it a **miss** where a position's largest attention is not on its best token. Three things differ: the
# *order*, from short to long; how many tokens a position *sees itself*; and the *crowd* of others who
# choose. Two more masks help to tell them apart:
#
# - **shuffled**: the $k$-th position sees $k$ random tokens;
# - **half**: half of the positions see all five tokens, the others only themselves and have no choice.
#
# **Predict before you run on**: do those in half who choose miss as often as those with full attention? Both
# pick the best of five.

# %%
runs = measured("14.controls").load().sel(n=3, mask=["full", "causal", "shuffled"])
half = measured("14.half").load().sel(n=3)
print(f"n = 3, T = 5, 480 runs each; d =           {runs.d.values}")
globals_ = {mask: runs["global"].sel(mask=mask).mean("trial").values for mask in runs.mask.values}
globals_["half"] = half["global"].mean("trial").values
for mask, share in globals_.items():
    print(f"share of global runs, {mask:9s}      {share.round(2)}")
missed = [runs.missed.sel(mask="full").mean("trial").values / 15, half.missed.mean("trial").values / 7.5]
for mask, share in zip(("full", "half"), missed, strict=True):
    print(f"choosing positions that miss, {mask} {share.round(3)}")
assert (globals_["full"] + 0.2 < np.minimum(globals_["causal"], globals_["half"])).all()
assert (globals_["shuffled"] > globals_["causal"]).all()

tokens = sequences(3, 5, 8, 240, 23, causal=True)
selected = geometry.selected_tokens(trained(tokens, 500).attention(tokens))
by_m = (selected != tokens.optimal).double().unflatten(-1, (3, 5)).mean((0, 1)).numpy()
print("causal, d = 8: positions that miss, by m = 1 to 5:", by_m.round(2))
by_chance = by_m[1:] / (1 - 1 / np.arange(2, 6))
print("over chance, 1 - 1/m, by m = 2 to 5:", by_chance.round(2))
assert (np.diff(by_m) > 0).all()
assert by_chance[:2].max() < by_chance[2:].min()

# %% [markdown]
# **Order does not help**: shuffled is not behind causal. **A smaller crowd helps**: a position that picks
# among five tokens misses less often if only half as many choose. **A narrow view helps**: in one causal
# crowd, positions that see fewer tokens miss less often, and not by chance alone. A causal mask has both.
#
# How is one position in another's way? Suppose $W$ is the sum of the terms $a\, x_{ik}^\top$ of section
# 14.4. The term $a\, x_{jk'}^\top$ of a position $k'$ in another sequence $j$ moves the logit $h_{ikt}$ as
# well, by $(x_{it}\cdot a)(x_{ik}\cdot x_{jk'})$: two products of independent random directions.

# %% [markdown]
# ### Exercise 14.3: Predict a new crowd
#
# ★★★ · 15 minutes
#
# Some batches were measured. Batch $j$ has `n[j]` sequences in dimension `d[j]`, position $k$ of each sees
# `seen[j, k]` unit tokens, and a share `missed[j]` of the watched ones missed their best. What share do
# you expect in a batch of `n2` sequences in dimension `d2` whose positions see `seen2` tokens?
#
# First count the crowd by the mean square of what all terms together add to a logit, as if all came from
# other sequences. (A constant factor does not matter.) Then put a parabola (`np.polyfit`) through the
# log-odds $\log\frac{p}{1-p}$ of the measured shares $p$, against the logarithm of that count.
#
# <details><summary>Hint</summary>
#
# How large is the cosine of two random unit vectors in $d$ dimensions, typically? How long is $a$ where a
# position sees $m$ tokens (exercise 14.2)? And how large is a sum of many products with random signs?
# </details>


# %%
@exercise("14.3")
def forecast(n, d, seen, missed, n2, d2, seen2):
    """Return the share to expect, a number: n, d, missed (J,), seen (J, T), numbers n2, d2, seen2 (T2,)."""
    ### BEGIN SOLUTION
    load = n * np.sum(1 - 1 / np.asarray(seen), axis=1) / np.asarray(d) ** 2  # a term adds about |a| / d
    new = n2 * np.sum(1 - 1 / np.asarray(seen2)) / d2**2
    log_odds = np.log(missed / (1 - missed))
    return 1 / (1 + np.exp(-np.polyval(np.polyfit(np.log(load), log_odds, 2), np.log(new))))
    ### END SOLUTION


# %%
check("14.3", forecast)

# %% [markdown]
# So a crowd should count by its **load**, $\sum (1 - 1/m)/d^2$ over all positions: exercise 14.2's price for
# each entry of $W$.
#
# The measurement: 18 crowds of sequences of 8 tokens. One position of each sequence is watched and sees
# 8 tokens; the others see $m = 2$, 3 or 8. They predict seven crowds with other $n$, $T$, $m$ and $d$. Three
# rivals, each over $d^2$, count positions, $\nu_m$ or $\sqrt{\nu_m}$.
#
# **Predict before you run on**: 12 sequences of 8 tokens with $m = 2$, $d = 12$, or 6 sequences of 24 tokens
# with $m = 3$, $d = 10$: where does the watched position miss more often?

# %%
crowd, fresh = (measured(f"14.{name}").load() for name in ("crowding", "new_crowds"))  # 240 runs a crowd
miss = (crowd.missed.mean("trial") / crowd.n).to_series()
shares, (n, m, d) = miss.to_numpy(), np.array([*miss.index], dtype=float).T
seen = np.stack([*7 * [m], np.full(18, 8.0)], axis=1)  # one position of eight is watched, and sees 8
new, predicted = [tuple(map(int, name.split())) for name in fresh.crowd.values], []
fresh_shares = fresh.missed.mean("trial").values / [one[0] for one in new]
print("  n   T  m   d   the watched position misses   (predicted)")
for (n2, T2, m2, d2), share in zip(new, fresh_shares, strict=True):
    predicted.append(forecast(n, d, seen, shares, n2, d2, np.array((T2 - 1) * [m2] + [8])))
    print(f"{n2:3d} {T2:3d} {m2:2d} {d2:3d} {share:29.2f}   ({predicted[-1]:.2f})")

prices = {  # of a position that sees m tokens
    "positions, 1": lambda m: np.ones_like(m),
    "degrees of freedom, nu_m": lambda m: np.vectorize(nu.get)(m),
    "root of nu_m": lambda m: np.vectorize(nu.get)(m) ** 0.5,
    "load, 1 - 1/m": lambda m: 1 - 1 / m,
}
off, curve = {}, {}
for name, price in prices.items():
    counts = n * price(seen).sum(axis=1) / d**2
    there = [n2 * price(np.array((T2 - 1) * [m2] + [8.0])).sum() / d2**2 for n2, T2, m2, d2 in new]
    fit = np.polyfit(np.log(counts), np.log(shares / (1 - shares)), 2)
    wrong = np.polyval(fit, np.log(there)) - np.log(fresh_shares / (1 - fresh_shares))
    off[name], curve[name] = np.sqrt(np.mean(wrong**2)), (counts, there, fit)
    print(f"each over d^2: {name:24s}   new crowds off by {off[name]:.2f} in log-odds")
assert np.abs(predicted - fresh_shares).max() < 0.03, again.format("14.3")
assert np.allclose([*off.values()], [0.18, 0.14, 0.06, 0.06], atol=0.008)
by_nu = np.concatenate(curve["degrees of freedom, nu_m"][:2])
print(f"crowds with sum nu_m > d^2: {sum(by_nu > 1)} of 25")
assert (np.log(shares / (1 - shares)) > np.polyval(fit, np.log(counts)))[(m == 8) & (d == 16)].all()


# %% jupyter={"source_hidden": true}
def bars(share, n):
    """Wilson's 95% interval of shares of 240 n watched positions, as lengths down and up."""
    low, high = wilson(share * 240 * n, 240 * n)
    return [share - low, high - share]


fig, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True)
panels = {"degrees of freedom, nu_m": "$\\sum \\nu_m / d^2$", "load, 1 - 1/m": "load $\\sum (1 - 1/m) / d^2$"}
for ax, (name, label) in zip(axes, panels.items(), strict=True):
    counts, there, fit = curve[name]
    for (m_, color), (d_, fill) in product(
        zip((2, 3, 8), (GREEN, ORANGE, BLUE), strict=True), ((8, "full"), (16, "none"))
    ):
        one = (m == m_) & (d == d_)
        ax.errorbar(counts[one], shares[one], bars(shares[one], n[one]), fmt="os"[d_ == 16], color=color,
                    fillstyle=fill, label=f"$m = {m_}$, $d = {d_}$")  # fmt: skip
    new_n = np.array([one[0] for one in new])
    ax.errorbar(there, fresh_shares, bars(fresh_shares, new_n), fmt="x", color=BLACK, label="new crowds")
    along = np.geomspace(min(counts), max(counts), 100)
    ax.plot(along, 1 / (1 + np.exp(-np.polyval(fit, np.log(along)))), color="0.5", linewidth=1, zorder=0)
    ax.set(xscale="log", xlabel=label, ylim=(0, None))
    ax.set(xticks=[0.1, 0.3, 1, 3], xticklabels=["0.1", "0.3", "1", "3"])
    ax.minorticks_off()
axes[0].axvline(1, color="0.4", linestyle=":", zorder=0)
axes[0].text(1.08, 0.03, "most random choices\nout of reach", fontsize=10)
axes[0].set_ylabel("share of watched positions that miss")
axes[1].legend(loc="lower right", fontsize=9)
show(
    fig,
    alt="Share of misses of the watched position, 11 to 60 percent, in both panels. Against the sum of nu "
    "over d squared the points for m = 8 lie below those for m = 2; against the load all points and the new "
    "crowds lie close to one curve.",
)

# %% [markdown]
# **Figure 3.** How often the watched position misses, against two ways to count the crowd. Line: the
# parabola through the 18 crowds. Wilson's 95% intervals, computed beforehand. Right of the dotted line, with
# 10 of the 25 crowds, most random choices are out of reach.

# %% [markdown]
# **The load predicts the seven new crowds within 0.03.** The rival $\sqrt{\nu_m}$, without a reason, is off
# as little; the other two are worse. The data ask for a price of this kind, and do not single out the load.
# Nor is it exact: the points with $m = 8$, $d = 16$ lie above the curve. We do not know why.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.7 A forgotten mask
#
# Suppose sequences of 1 to 4 tokens are filled up with zeros to a fixed length of 5, positions that are
# padding are left out of the loss, but the attention is not told. What does training do?
#
# A padding token has the logit $0^\top W x_{ik} = 0$ and the score 0. It is a token like the others. So where
# a real token is selected, the SVM has one row more, $x_{i\alpha_{ik}}^\top W x_{ik} \ge 1$.

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
trials, generator = 60, torch.Generator().manual_seed(10)
ends = torch.randint(1, 5, (trials, 3), generator=generator)  # sequences of 1 to 4 tokens
base = data.random_tokens(3, 5, 20, trials=trials, seed=10, lengths=ends)  # filled up to 5 with zeros
coins = 2.0 * torch.randint(0, 2, (trials, 3, 5), generator=generator).double() - 1.0
right = data.every_position(base.X, coins, base.v, mask=base.mask)
values = (base.X @ base.v[:, None, :, None]).squeeze(-1).numpy()
falls = falls_for_padding(*(np.concatenate(one) for one in (values, coins.numpy(), ends.numpy())))
falls = torch.as_tensor(falls).reshape(trials, 15)
asks = right.mask.any(-1)
wrong = dataclasses.replace(right, mask=asks[..., None].expand(right.mask.shape))  # sees the zeros, too
model = trained(wrong, 600)
on_padding = (model.attention(wrong) * ~right.mask).sum(-1) > 0.5
same = (on_padding == falls)[asks].double().mean()
print(f"{on_padding[asks].sum()} of {asks.sum()} positions attend to padding; predicted right: {same:.1%}")
assert same > 0.99, again.format("14.4")

# %% [markdown]
# Where all real scores are negative, the model learns to look away.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.8 Claims and measurements
#
# | claim | prediction | measured |
# |:---|:---|:---|
# | $W$ goes to the SAtt-SVM of its choice | cosine 1 | above 0.98 in 163 runs |
# | a random choice uses up $\nu_m$ a position | half at $d^2 = \sum\nu_m$ | rises there ($T = 3$, 5) |
# | a crowd counts by its load | misses of seven new crowds | within 0.03; $\sqrt{\nu_m}$ as little |
# | forgotten padding wins | where all scores are negative | over 99% of positions, $d = 20$ |

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
# A random one: by the count (tested at $T = 3$, 5 only), hardly. More than half of the 4,096 positions see 64
# tokens or more, and use up at least $\nu_{64} = 4.2$ degrees of freedom each, together over 8,600. $W$ has
# 4,096. So not any one either, though one always can be made: "look at yourself".
# </details>
#
# **3.** You train that batch all the same. Name two ways to halve its load. Does a window of 16 tokens?
# <details><summary>Answer</summary>
#
# Half as many sequences, or $d$ larger by $\sqrt 2$. The window hardly lowers the load: $1 - \frac1m$ is
# $\frac{15}{16}$ for 16 tokens, and never above 1. It may still lower misses: each position has a narrower
# view.
# </details>

# %%
progress("14")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
# - With every position a query, training goes to the **SAtt-SVM**: one set of rows for each position, over
#   the tokens that it sees. With room for the best choice or without, it may take another. A **mask** is
#   exact: a hidden token moves no other position.
# - With orthonormal tokens squared norms add up, $1 - 1/m$ for a position that sees
#   $m$.
# - A position that sees $m$ tokens uses up $\nu_m$ of the $d^2$ degrees of freedom. Random choices become
#   feasible where $d^2$ passes $\sum \nu_m$.
# - **Causal** runs are more often global not by their order: positions see fewer tokens, in a smaller crowd.
#   By the **load**, $\sum (1 - 1/m)/d^2$, measured crowds predicted seven new ones; $\sum \sqrt{\nu_m}/d^2$
#   does as well.
# - **Padding** without a mask is a token with score 0, and wins where all others are worse ($d = 20$).
#
# Limits: tokens were random and of length 1, labels fair coins. The direction was measured at $n = 3$,
# $T = 5$, $d = 20$ and $n = 20$, $T = d = 8$, the count at $T = 3$ and 5, the load after 500 steps for
# positions that see 8 tokens.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Further reading
#
# - D. A. Tarzanagh, Y. Li, C. Thrampoulidis, S. Oymak, *Transformers as Support Vector Machines* (2023,
#   arXiv 2308.16898): the Att-SVM for $W$, and the extension to sequence outputs.
# - D. Amelunxen, M. Lotz, M. B. McCoy, J. A. Tropp, *Living on the Edge: Phase Transitions in Convex
#   Programs with Random Data* (2014, arXiv 1303.6672): degrees of freedom of cones, and the kinematic
#   formula.
#
# That the formula fits attention, and the load, are this lesson's own measurements.
#
# **New in the library:** [`data.every_position`](../mini_attn/data.py),
# [`svm.sequence_problem`](../mini_attn/svm/sequence.py); and `mask=` of the data and the SVMs, `lengths=`
# of random tokens.
#
# **Next:** [lesson 15](15_mirror_descent_attention.ipynb) asks what mirror descent, an optimiser of other
# geometries, does to attention.
