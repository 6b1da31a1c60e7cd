# %% [markdown] slideshow={"slide_type": "slide"}
# # 14 · Sequences and causal masks
#
# In the lessons so far one query looked at each sequence. In a transformer *every* position of a sequence
# asks, and all these queries share one matrix $W$.
#
# **The question: where does training go when every position asks and one W has to answer them all?**
#
# We find the SVM to which $W$ goes, what it costs to share $W$, and for how many positions $W$ has room. Yet
# room is not enough: training misses best tokens even where some $W$ would give every position its best one.

# %% [markdown]
# **After this lesson you can**
#
# - say what a mask takes out of the output, the loss and the SVM;
# - predict $\lVert W_{\mathrm{mm}}\rVert$ from the mask alone, where tokens are orthonormal;
# - forecast in which dimension half of the random choices of tokens are feasible;
# - derive which share of positions their own sequence pulls the wrong way, and test whether they miss for it.
#
# **You need** [lesson 06](06_attention_as_svm.ipynb) (the Att-SVM), [lesson 07](07_local_global_tokens.ipynb)
# (global and local choices), [lesson 10](10_cross_self_attention.ipynb) (the matrix $W$), and [lesson
# 12](12_overparameterization.ipynb) (feasibility, and the optional 12.4). About 85 minutes (130 with a
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
from course.replicate.lesson_14 import others_flipped, reached, share_feasible, stored_choices
from mini_attn import data, geometry, models, optim, plots, svm, train, widgets
from mini_attn.sweep import wilson

plots.style()
torch.set_num_threads(1)  # many small tensors: one thread is fastest
BLUE, ORANGE, BLACK = (plots.COLORS[name] for name in ("blue", "vermillion", "black"))
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
# only $W$ is trained. Each position has a label $y_{ik} = \pm 1$ of its own. For position $k$ the token $t$
# has the score $y_{ik}\, v\cdot x_{it}$, and the **best** token is the one with the largest score among those
# that the position sees. Training lowers the mean logistic loss of $y_{ik} f_{ik}$.
#
# We train on three sequences under three masks, by normalised gradient steps: step $r$ has the length
# $0.1 \sqrt r$.


# %%
def trained(tokens, steps, start=None, done=0):
    """The model after ``steps`` steps in all, of which ``done`` have led to W = ``start`` (None: 0)."""
    model = models.CrossAttention(tokens.X.shape[-1], trials=tokens.trials, init=start)
    optimizer = optim.NormalizedGD(model.parameters(), lr=0.1, batch_dims=len(tokens.trials))
    options = {"schedule": lambda r: train.growing(done + r), "every": steps, "progress": False}
    train.fit(model, tokens, optimizer, steps - done, **options)
    return model.requires_grad_(False)


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
    every = trained(tokens, 300).attention(tokens).unflatten(0, (3, 5))
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
# cells are not seen. A star marks the best token: here each position that asks attends to it.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.2 What a mask hides
#
# Sequences are often **ragged**, that is, of different lengths, but an array has one shape. So the shorter
# ones are filled up with **padding**, and a **mask** says which tokens each position sees. A hidden token
# gets the logit $-\infty$, and as $e^{-\infty} = 0$, its attention is exactly zero. A position that sees
# nothing has no attention at all, and is left out of the loss.


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
masks = {"causal, ragged": visible(lengths.numpy(), 5, True), "with gaps": np.tile(gaps, (3, 1, 1))}
for name, sees in masks.items():
    moved = np.zeros((3, 5, 5), dtype=bool)
    for t in range(5):
        changed = X.copy()
        changed[:, t] = 1e3 * rng.normal(size=(3, 20))
        moved[:, :, t] = outputs(W, changed, v, sees) != outputs(W, X, v, sees)
    print(f"{name}: of 75 pairs (position, token) {sees.sum()} see, and in {moved.sum()} the output moves")
    assert (moved == moves(sees)).all(), again.format("14.1")

# %% [markdown]
# **A token changes nothing at another position that does not see it, not even the last digit.** So no
# gradient comes from it either, and causal self-attention on $n$ sequences is lesson 10 with $nT$ sequences
# of 1 to $T$ tokens, each with its own last token for a query.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.3 The SVM of all positions
#
# To which SVM does $W$ go? A **choice** $\alpha$ selects one visible token for each position. To each other
# token $t$ that the position sees belongs a **row**, the matrix $(x_{i\alpha_{ik}} - x_{it})\, x_{ik}^\top$.
# Its inner product with $W$ is the **lead** of the selected token over token $t$, the difference of their
# logits. We say that $W$ **makes** the choice if all leads are positive. Scaled up, such a $W$ has leads of
# at least 1.
#
# > **SAtt-SVM**, S for sequence (after Tarzanagh, Li, Thrampoulidis and Oymak, 2023). For a choice $\alpha$
# > that some $W$ makes,
# >
# > $$W_{\mathrm{mm}}(\alpha) = \arg\min_W \lVert W\rVert_F \quad\text{subject to}\quad
# > (x_{i\alpha_{ik}} - x_{it})^\top W x_{ik} \ge 1 \quad
# > \text{for each } i, k \text{ and each } t \ne \alpha_{ik} \text{ that } k \text{ sees.}$$
# >
# > The minimiser is unique, as $\lVert W\rVert_F^2$ is strictly convex.

# %% [markdown]
# The paper's result, informally: if a run ends with one token per position, and this choice $\alpha$ is
# locally optimal (lesson 07), then the direction of $W$ goes to that of $W_{\mathrm{mm}}(\alpha)$. Its
# theorems are for one query a sequence, under further conditions. We measure whether $W$ goes there when the
# first position of each sequence asks, the first three, or all.
#
# Tokens are random directions of norm 1, and labels are fair coins. A position **ends on** a token that has
# more than 0.99 of its attention. A run is **global** if every position that asks ends on its best token, and
# **local** if each ends on one token, but not all on the best.


# %%
def sequences(n, T, d, trials, seed, causal=False, asks=None):
    """Random tokens, of which the first ``asks`` positions ask, with fair coins for labels."""
    generator = torch.Generator().manual_seed(seed)
    drawn = data.random_tokens(n, T, d, trials=trials, seed=seed)
    y = 2.0 * torch.randint(0, 2, (trials, n, T), generator=generator).double() - 1.0
    tokens = data.every_position(drawn.X, y, drawn.v, causal)
    asks = asks or T
    ask = torch.arange(n * T) % T < asks
    sees = tokens.scores.isfinite()[:, ask]  # (trials, n asks, T)
    return dataclasses.replace(tokens, z=tokens.z[:, ask], y=tokens.y[:, ask], mask=sees, positions=asks)


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
    model = trained(tokens, steps)
    s = model.attention(tokens)
    selected = geometry.selected_tokens(s)
    solution = svm.solve(svm.sequence_problem(tokens, selected)).value
    cosine = geometry.cosine(model.W, solution).min()
    ends.append([int((geometry.outcome(s, tokens) == word).sum()) for word in ("global", "local")])
    on_best.append(float((selected == tokens.optimal).double().mean()))
    print(f"{name:26s}, d = {d:2d} {steps:10d} {ends[-1]!s:>14} {on_best[-1]:10.2f} {cosine:14.3f}")
    assert cosine > 0.98
    logits = models.CrossAttention(d, trials=80, init=solution).logits(tokens)
    assert geometry.locally_optimal(tokens.scores, logits, selected).all()
assert [sum(each) for each in ends] == 5 * [80]
assert on_best[0] > on_best[1] > on_best[2] < on_best[3]

# %% [markdown]
# **In all 400 runs every position that asks ends on one token, the choice is locally optimal, and $W$ points
# to the solution of its SAtt-SVM.**
#
# *Which* tokens is another matter. At $d = 20$ the share of positions that end on their best token falls as
# more positions ask, and is larger under a causal mask (section 14.6).

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.4 What it costs that all share one W
#
# The margin of the SVM is $1/\lVert W_{\mathrm{mm}}\rVert$. How much larger is
# $\lVert W_{\mathrm{mm}}\rVert^2$ because all positions share one $W$? We begin with orthonormal tokens.

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
# **With orthonormal tokens no position disturbs another.** Let a position select $\alpha$ among the $m$
# tokens that it sees. It adds $a\, x_{ik}^\top$ to $W$, where $a$ is $x_\alpha$ less the mean of the $m$
# tokens. As $x_{ik}$ is orthogonal to all other queries, this moves no other position's logits. And as
# $a \cdot x_\alpha = 1 - \frac1m$ and $a \cdot x_t = -\frac1m$, all leads of this position are exactly 1. All
# these terms of $W$ are orthogonal, so their squared lengths $\lVert a\rVert^2 = 1 - \frac1m$ add up: to
# $\sum_{ik} (1 - 1 / m_{ik})$ whatever the choice, where position $k$ of sequence $i$ sees $m_{ik}$ tokens.
#
# <details><summary>Why no $W$ is shorter, and why $\lVert a\rVert^2 = 1 - \frac1m$</summary>
#
# By the KKT conditions (lesson 02): $a$ is the mean of $x_\alpha - x_t$ over the $m$ tokens, so $W$ is a sum
# of its tight rows with weights $1/m > 0$. And
# $\lVert a\rVert^2 = (1 - \frac1m)^2 + (m - 1)\frac1{m^2} = 1 - \frac1m$.
# </details>
#
# Random tokens are not orthogonal, so what one position adds moves the logits of other positions. To see
# what this costs, we solve the SVM twice for the same random choice: with one $W$ for all $nT$ positions, and
# with a separate $W$ for each, whose squared norms we add up.

# %%
print("full; medians over random choices: |W|^2, and the ratio of the two")
ratio = {}
short = ((3, 5, 8, 40), (27, 5, 24, 10), (3, 5, 20, 40), (27, 5, 60, 10), (3, 5, 200, 40))
for n, T, d, many in (*short, (1, 16, 8, 20), (2, 16, 16, 10)):
    tokens = sequences(n, T, d, many, 3)
    choice = torch.rand(tokens.scores.shape, generator=torch.Generator().manual_seed(3)).argmax(-1)
    one = svm.solve(svm.sequence_problem(tokens, choice)).value.flatten(1).norm(dim=1) ** 2
    each = tokens.X.repeat_interleave(T, dim=1).flatten(0, 1)[:, None]  # a problem for each position
    # of a single query only the length counts: 1
    by_itself = svm.attention_problem(each, torch.ones(len(each), 1, 1).double(), choice.flatten()[:, None])
    separate = (svm.solve(by_itself).value.flatten(1).norm(dim=1) ** 2).reshape(many, n * T).sum(1)
    ratio[n, T, d] = float((one / separate).median())
    row = f"n = {n:2d}, T = {T:2d}, d = {d:3d}: {d * d / (n * T):5.0f} entries of W per position"
    print(f"{row}, one W {one.median():4.0f}, separate {separate.median():4.0f}, ratio {ratio[n, T, d]:.1f}")
assert ratio[1, 16, 8] > 7 > 3.5 > ratio[2, 16, 16] > 2
assert 3 > ratio[27, 5, 24] > ratio[3, 5, 8] > 2 > 1.5 > max(ratio[3, 5, 20], ratio[27, 5, 60])

# %% [markdown]
# **At $T = 5$ the price of sharing goes by the entries of $W$ per position, $d^2 / nT$**: with 4 of them one
# $W$ needs almost three times the squared norm, be it for 3 sequences or for 27; with 27 entries it needs 1.2
# or 1.3 times, and with many hardly more. But at $T = 16$ it needs eight times with 4, and three with 8.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.5 When can one W make a choice?
#
# Call a choice **feasible** if some $W$ makes it. By [lesson 12](12_overparameterization.ipynb), for almost
# all data every choice is feasible if $d \ge nT$. How large must $d$ be for a *random* choice? We count how
# many of the $d^2$ degrees of freedom of $W$ such a choice uses up.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What a choice uses up
#
# A choice asks for positive leads, and an inequality that holds anyway takes no degree of freedom away. By
# [section 12.3](12_overparameterization.ipynb) the inequalities of one position are worth a random number of
# equations. Draw the logits $h_1, \dots, h_m$ of the $m$ tokens that it sees, the selected token's first, as
# independent $N(0, 1)$ numbers, and move them as little as possible (least squares) until none is above the
# first. The first climbs to a level $\bar h$, unless it leads already, and the tokens above this level come
# down to it: they are **tied**. Each counts as one equation, so the position uses up $\nu_m$ degrees of
# freedom, the mean number of tied tokens.

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
# We count the tied tokens in many draws.


# %%
def pooled(targets):
    """How many tokens end tied with the first, the selected one, (draws,), for targets (draws, m)."""
    others = -np.sort(-targets[:, 1:], axis=1)  # the largest needs the tie most
    sums = np.cumsum(np.concatenate([targets[:, :1], others], axis=1), axis=1)[:, :-1]
    return np.cumprod(others > sums / np.arange(1, targets.shape[1]), axis=1).sum(axis=1)


share_of, nu = {1: np.ones(1)}, {1: 0.0}
print("   m    rows   nu_m, counted   forecast   tie level")
for m in (2, 3, 4, 5, 8, 16, 64):
    used = pooled(np.random.default_rng(m).normal(size=(1_600_000 // m, m)))
    share_of[m] = np.bincount(used, minlength=m) / len(used)  # shares of draws with 0, 1, 2, ... ties
    nu[m] = used.mean()
    theta, forecast = tie_level(m)
    print(f"{m:4d} {m - 1:7d} {nu[m]:15.2f} {forecast:10.2f} {theta:11.2f}")
    assert 0 < nu[m] - forecast < 0.7, again.format("14.3")
assert np.allclose([nu[2], nu[3], nu[5], nu[8], nu[64]], [0.5, 5 / 6, 1.29, 1.76, 4.2], atol=0.05)

# %% [markdown]
# From 8 tokens to 16, $\nu_m$ grows by about 0.76, although 8 rows are added. **A position with a long
# context uses up little.** The reason is that the tie level climbs with the number of tokens, and only the
# tokens above it are tied.
#
# The forecast, with one level for all draws, is 13 to 22% too low. Below we take the counted $\nu_m$.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### For how many positions W has room
#
# When is a random choice feasible for all positions at once? The optional section 12.4 answers this for
# positions that share nothing but $W$:
#
# > **Proposition** (lesson 12, with a sketch of the proof). Let each position have Gaussian tokens and a
# > query of its own, and let the choice be made without a look at them. Draw the number $j_{ik}$ of tied
# > tokens independently for each position, as above. Let $J = \sum j_{ik}$ be the number of equations and
# > $R = \min(d^2, J)$ their rank. If no position sees more than $d + 1$ tokens, then for almost all fixed
# > queries the choice is feasible with probability $P = \mathbb E\,(-1)^{J - R}$.

# %% [markdown]
# Where $J \le d^2$, the sign is $+1$; beyond, the signs alternate and nearly cancel. So $P$ is close to the
# chance that $J$ is below $d^2$. As $J$ is near its mean if there are many positions, half of the choices
# should be feasible near
#
# $$d^2 = \sum_{i,k} \nu_{m_{ik}}.$$
#
# Our tokens are not those of the Proposition: the positions of a sequence share them, they are the queries,
# too, and they have unit norm. Does the count hold all the same?
#
# <details><summary>Near $J = d^2$; lesson 12's law; and <code>share_feasible</code></summary>
#
# Neighbouring values of $J$ are about equally likely, so from $J = d^2$ on the signs leave about half of the
# first term, and $P \approx \Pr(J < d^2) + \frac12 \Pr(J = d^2)$.
#
# $P$ is lesson 12's law with $D = d^2$. For $J$ is even with chance $\frac12$ if some position has a choice,
# so $\mathbb E\,(-1)^{J - d^2} = 0$; taken off the mean above, this leaves
# $2 \Pr(J = d^2 - 1) + 2 \Pr(J = d^2 - 3) + \dots$ `share_feasible` convolves the `share_of` of all positions
# and sums $(-1)^{J - R}$; section 14.8 says with which $R$ beyond $d + 1$ tokens.
# </details>


# %%
# (mask, n, T, d) -> can some W make the random choice? one answer a trial
trials = stored_choices(measured("14.feasible").load(), measured("14.longer").load())
forecasts = {}  # (mask, n, T, d) -> d^2 over the sum of nu_m, and P
for mask, n, T, d in trials:
    seen = n * (T * [T] if mask == "full" else [*range(1, T + 1)])
    forecasts[mask, n, T, d] = d * d / sum(nu[m] for m in seen), share_feasible(seen, d, share_of)

for size, (used, _) in forecasts.items():  # but one size has 1.00
    assert 0.99 < used < 1.01 or (trials[size].mean() > 0.5) == (used > 1)

for (n, T, d), price in ratio.items():
    if price > 2:  # section 14.4 again
        print(f"n = {n}, T = {T}, d = {d}: price {price:.1f}, d^2 / sum nu_m {d * d / (n * T * nu[T]):.1f}")

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
# **Figure 2.** Shares of random choices of our tokens that one $W$ can make, with Wilson's 95% intervals (300
# or 600 stored trials a point): against $d^2$ over what the choice uses up (left), and against the prediction
# $P$ (right). Filled: some positions see more than $d + 1$ tokens (optional section 14.8).

# %% [markdown]
# **Half of the random choices are feasible near $d^2 = \sum \nu_m$.** At all sizes tried ($T \le 16$) with
# $d^2$ above the sum more than half are feasible, and at all below it fewer (one size lies on it). The price
# of sharing is about threefold where $d^2 / \sum \nu_m$ is 3.2 or 3.3, for $T = 5$ and 16.
#
# **Predict, then move the slider**: at $d = 8$, for how many full sequences of five tokens is half of the
# random choices feasible?
#
# <details><summary>Answer</summary>
#
# One sequence uses up $5\, \nu_5 \approx 6.4$, and $d^2$ is 64, so about 10.
# </details>


# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output", "widget"]
def chances(n):
    """The prediction over d for n sequences of 5 tokens."""
    figure = Figure(figsize=(7, 3.5), layout="none")  # constrained layout would draw twice
    ax = figure.add_axes((0.11, 0.17, 0.86, 0.72))
    for mask, seen, color, marker in (("full", 5 * [5], ORANGE, "s"), ("causal", range(1, 6), BLUE, "o")):
        P = [share_feasible(n * [*seen], d, share_of) for d in range(1, 13)]
        label = f"{mask}: {n * sum(nu[k] for k in seen):.1f} degrees of freedom"
        ax.plot(range(1, 13), P, color=color, marker=marker, label=label)
    ax.set(xlabel="dimension $d$", ylabel="predicted share $P$", ylim=(-0.05, 1.05), xticks=range(1, 13))
    ax.set_title(f"n = {n}, T = 5", fontsize=12)
    ax.legend(loc="lower right", fontsize=10)
    return figure


assert share_feasible(45 * [5], 8, share_of) > 0.5 > share_feasible(55 * [5], 8, share_of)
widgets.sliders(
    chances,
    alt="Predicted share of feasible random choices against the dimension, full and causal.",
    n=ipywidgets.IntSlider(value=3, min=1, max=20, description="n"),
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.6 Room is not enough
#
# If some $W$ gives every position its best token, does training find it? And if not, which positions go
# wrong? The **best choice** selects the best token of every position. A position **misses** if its largest
# attention after 500 steps is not on its best token.
#
# The **room** is $d^2 / \sum \nu_m$: the degrees of freedom of $W$, over what a random choice uses up. The
# best choice is not random, so this is a guide. Below the room is above 3, and the best choice is feasible in
# every run. We first ask what the first step, from $W = 0$, does.

# %% [markdown]
# ### Exercise 14.4: The first step
#
# ★★☆ · 12 minutes
#
# From $W = 0$, with full attention, one gradient step is made. Take the slope of the loss as the same for all
# positions (at $W = 0$ it differs only through $y_{ik} f_{ik}$, which is small for random tokens). A position
# is **pulled the wrong way** if what its *own sequence* adds to the step lowers its $y_{ik} f_{ik}$, to first
# order. **Predict** the share of such positions.
#
# Labels are fair coins, and tokens random directions: the inner product of two has mean 0 and variance $1/d$.
# Take sums as normal; `ndtr(-a)` is the chance of more than $a$ standard deviations.
#
# <details><summary>Hint: the step</summary>
#
# At $W = 0$ each weight is $1/T$, so the gradient of $f_{ik}$ is $g_i\, x_{ik}^\top$, with
# $g_i = \frac1T \sum_t (v\cdot x_{it} - f_{ik})\, x_{it}$. Which multiple of $\lVert g_i\rVert^2$
# does the sum of all $y_{ik'} g_i\, x_{ik'}^\top$ add to $y_{ik} f_{ik}$?
# </details>
#
# <details><summary>Hint: the sign</summary>
#
# The term of $k$ itself is 1, always. The other $T - 1$ are chance, with signs $y_{ik'} y_{ik}$: when do they
# outweigh it? (Why never at $T = 2$?)
# </details>


# %%
@exercise("14.4")
def wrong_way(T, d):
    """Return the expected share of positions pulled the wrong way, for T >= 3 tokens in dimension d."""
    ### BEGIN SOLUTION
    return ndtr(-((d / (T - 1)) ** 0.5))  # T - 1 terms of variance 1/d in sum below -1
    ### END SOLUTION


# %%
check("14.4", wrong_way)

# %% [markdown]
# **All positions of a sequence push along one $g_i$, each for its own label.** So to first order the own
# sequence changes $y_{ik} f_{ik}$ by a positive multiple of $b_{ik} \lVert g_i \rVert^2$, where
#
# $$b_{ik} = 1 + \sum_{k' \ne k} y_{ik'}\, y_{ik}\, x_{ik'}\cdot x_{ik}.$$
#
# The 1 is the position's own pull. If the other terms sum to less than $-1$, it is pulled the wrong way.
#
# To the logit of token $t$ the own sequence adds a positive multiple of $y_{ik}\, b_{ik}\, x_{it} \cdot g_i$.
# If $b_{ik} < 0$, it tends to put the best token behind; but so can the tokens' overlaps and the other
# sequences. We call a position **behind** if, after the whole first step, another token than its best has the
# largest logit.


# %%
def part(which, among):
    """The share of ``which`` in ``among``, bool (runs, n T), and half its 95% interval, by runs."""
    found = which[among].mean()
    off = (which & among).sum(1) - found * among.sum(1)
    return found, 1.96 * off.std() / among.sum(1).mean() / len(off) ** 0.5


def misses(model, tokens):
    """Whose largest attention is not on the best token, (runs, n T) bool."""
    return (model.attention(tokens).argmax(-1) != tokens.optimal).numpy()


def pull(tokens, T):
    """The pull b_ik of the own sequence, (runs, n T)."""
    y = tokens.y.unflatten(-1, (-1, T))
    return (y * (tokens.X @ tokens.X.mT @ y[..., None])[..., 0]).flatten(-2).numpy()


columns, kept = {}, {}
for n, T, d, many in ((2, 3, 5, 400), (2, 5, 7, 400), (2, 8, 10, 80), (9, 5, 15, 40)):
    tokens = sequences(n, T, d, many, 6)
    assert reached(svm.sequence_problem(tokens, tokens.optimal)).all()  # the best choice is feasible
    behind, missed = (misses(trained(tokens, steps), tokens) for steps in (1, 500))
    b, every = pull(tokens, T), np.ones_like(missed)
    counted = (pull(sequences(n, T, d, 10_000 // n, 5), T) < 0).mean()  # b needs no training: many more runs
    kinds = {"of all": every, "if b > 0": b > 0, "if b < 0": b < 0}
    shares = {f"behind, {kind}": part(behind, among) for kind, among in kinds.items()}
    shares |= {f"misses, {kind}": part(missed, among) for kind, among in kinds.items()}
    shares["behind, of those that miss"] = part(behind, missed)
    facts = {"n, T, d": f"{n}, {T}, {d}", "room": f"{d * d / (n * T * nu[T]):.1f}"}
    facts |= {"b < 0, predicted": f"{wrong_way(T, d):.3f}", "b < 0, counted": f"{counted:.3f}"}
    columns[n, T, d] = facts | {name: "{:.2f} ± {:.2f}".format(*found) for name, found in shares.items()}
    kept[n, T, d] = tokens, b, missed
    assert abs(counted - wrong_way(T, d)) < 0.01, again.format("14.4")
    assert shares["misses, if b < 0"][0] > 3.5 * shares["misses, if b > 0"][0]
    assert shares["behind, of those that miss"][0] > 0.85 > 0.6 > shares["behind, of all"][0]
for name in columns[2, 5, 7]:
    print(f"{name:26s}", *(f"{column[name]:>14s}" for column in columns.values()))

# %% [markdown]
# About as many positions as predicted are pulled the wrong way. **These miss several times as often as the
# others**: 0.44 of them against 0.08 at $d = 7$. **About nine in ten of the positions that miss were behind
# after the first step**, of all positions only 0.3 to 0.5.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Is the pull the cause?
#
# We flip the labels of all *other* positions in the sequence of position $k$, train again, and read off $k$
# only. Its label, all tokens and its best token stay, but $b_{ik}$ becomes $2 - b_{ik}$: the others' part of
# the pull is reversed. (Labels are fair, so a flipped $b_{ik} < 0$ is like a usual $b_{ik} > 2$.)
#
# Then we reverse the first *step* alone, which leads to $W_1$: steps 2, 3, ... go on from $-W_1$.
#
# **Predict before you run on**: which share of the positions with $b_{ik} < 0$ misses with the pull reversed,
# and which share of the usual misses repeats from $-W_1$?

# %%
tokens, b, usual = kept[2, 5, 7]
which = (b < 0) | (b > 2) | usual
other, place = others_flipped(tokens, 5, which)
assert reached(svm.sequence_problem(other, other.optimal)).all()
missed = np.zeros_like(usual)
missed[which] = misses(trained(other, 500), other)[place]
print("n = 2, T = 5, d = 7, full     positions   miss: usually   with the pull reversed")
kinds = {"b < 0": b < 0, "b > 2": b > 2, "0 < b < 2, usual misses": usual & (b > 0) & (b < 2)}
for name, among in kinds.items():
    numbers = *part(usual, among), *part(missed, among)
    print(f"{name:26s} {among.sum():12d}" + "{:10.2f} ± {:.2f} {:17.2f} ± {:.2f}".format(*numbers))
print(f"{(usual & (b > 0)).sum()} of the {usual.sum()} usual misses have b > 0")

first = trained(tokens, 1).W
repeat, _ = part(misses(trained(tokens, 500, -first, 1), tokens), usual)
turn = np.degrees(np.arccos(float(geometry.cosine(first, trained(tokens, 2, -first, 1).W + first).min())))
print(f"\nfrom -W_1 {repeat:.2f} of the usual misses repeat; step 2 is within {turn:.1f} degrees of step 1")
assert (repeat > 0.98) & (turn < 4)
print("\nstep   behind, of all   of these miss in the end")
for r in (1, 20, 40, 100):
    behind = misses(trained(tokens, r), tokens)
    print(f"{r:4d} {behind.mean():16.2f}" + "{:20.2f} ± {:.2f}".format(*part(usual, behind)))

# %% [markdown]
# **The others' labels are a cause.** Once flipped, 0.03 of the positions with $b_{ik} < 0$ miss instead of
# 0.44. They are not the only one: most that miss have $b_{ik} > 0$, and of those below 2 a third misses
# again.
#
# **The first step alone does not decide.** From $-W_1$ the same positions miss: step 2 repeats it, within 4
# degrees, and is $0.1 \sqrt 2$ long. When is it decided? Of those behind at step 20 most still recover; after
# step 100 hardly any does.
#
# Do positions miss because they share a sequence? We let only position 1 of each sequence ask, in the same 2
# sequences, and in 10: these have as many queries as before, and the same room.

# %%
print("T = 5, d = 7, full               queries   room   misses")
for n, asks in ((2, 5), (10, 1), (2, 1)):
    tokens = sequences(n, 5, 7, 400, 6, asks=asks)
    assert reached(svm.sequence_problem(tokens, tokens.optimal)).all()  # the best choice is feasible
    missed = usual if asks == 5 else misses(trained(tokens, 500), tokens)
    row = f"{n:2d} sequences, {asks} of 5 positions ask {n * asks:4d} {49 / (n * asks * nu[5]):8.1f}"
    print(row + "    {:.3f} ± {:.3f}".format(*part(missed, np.ones_like(missed))))
runs = measured("14.misses").load()  # for Figure 3
assert runs.feasible.all()  # the best choice

# %% [markdown]
# In part: of the rise from 0.016 to 0.118 about two thirds come with the number of queries, even if none
# shares its sequence.
#
# Under a causal mask position $k$ sees $k$ tokens only. Figure 3 shows how often it misses.


# %% jupyter={"source_hidden": true}
fig, axes = plt.subplots(1, 2, figsize=(9, 3.5), sharey=True, width_ratios=(5, 9))
looks = (("full", ORANGE, "s", -0.08), ("causal", BLUE, "o", 0.08))
for ax, size in zip(axes, ("2 5 7", "2 16 16"), strict=True):
    n, T, d = map(int, size.split())
    for mask, color, marker, move in looks:
        each = runs.missed.sel(size=size, mask=mask).values[..., :T].mean(1)
        off = 1.96 * each.std(0) / len(each) ** 0.5
        ax.errorbar(np.arange(1, T + 1) + move, each.mean(0), off, fmt="-", color=color, marker=marker,
                    markersize=4, elinewidth=1.2, label=mask)  # fmt: skip
    ax.set(title=f"$T = {T}$, $d = {d}$", xlabel="position $k$", xticks=[1, *range(T, 1, -1 - T // 6)][::-1])
axes[0].set(ylabel="share that misses", ylim=(-0.01, 0.36))
axes[0].legend(loc="upper left", fontsize=10)
show(
    fig,
    alt="Share of positions that miss over the position, at T = 5 and 16. With full attention it is flat. "
    "Causal rises from 0; at the last position it ends clearly below full for T = 5, and on it for 16.",
)

# %% [markdown]
# **Figure 3.** How often position $k$ misses, for $n = 2$, with 95% intervals (720 stored runs each). The
# best choice is feasible in all these runs.

# %% [markdown]
# With full attention all positions miss about equally often. With causal attention the share rises from 0, as
# position 1 sees only itself, and the last gains nothing at $T = 16$.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.7 A forgotten mask *(optional)*
#
# What happens if the attention is not told which tokens are padding? Sequences of 1 to 4 tokens are filled up
# with zeros to a length of 5; the loss still leaves out the positions that are padding. A padding token has
# the logit $0^\top W x_{ik} = 0$ and the score $y_{ik}\, v \cdot 0 = 0$.
#
# **Predict**: a position sees $m$ real tokens and $5 - m$ of padding. For each $m$, which share of positions
# ends with more than half of its attention on padding?


# %%
generator = torch.Generator().manual_seed(10)
stops = torch.randint(1, 5, (300, 3), generator=generator)  # sequences of 1 to 4 tokens
coins = 2.0 * torch.randint(0, 2, (300, 3, 5), generator=generator).double() - 1.0
ragged = data.random_tokens(3, 5, 20, trials=300, seed=10, lengths=stops)  # filled up to 5 with zeros
told = data.every_position(ragged.X, coins, ragged.v, mask=ragged.mask)
number = told.mask.sum(-1)  # m, 0 for padding
untold = dataclasses.replace(told, mask=(number > 0)[..., None].expand(told.mask.shape))  # sees the zeros
falls = (trained(untold, 300).attention(untold) * ~told.mask).sum(-1) > 0.5
for m in range(1, 5):
    print(f"m = {m}: {falls[number == m].double().mean():.2f} end on padding")
foretold = (falls == (told.scores.amax(-1) < 0))[number > 0].double().mean()
assert foretold > 0.99

# %% [markdown]
# It is a share of about $2^{-m}$. **Padding wins where all $m$ scores are negative**, since its own score, 0,
# is then the best; and each score is negative with chance $\frac12$. This foretells more than 99% of the
# positions one by one.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.8 Where the prediction fails *(optional)*
#
# Where does the finer prediction of section 14.5, $P$ itself, fail? If a position sees more than $d + 1$
# tokens (filled marks in Figure 2), at most $d$ of its equations are independent; there we take
# $R = \min(d^2, \sum \min(j_{ik}, d))$, without a proof. The table lists the sizes at which $P$ is off by
# more than 0.1: for our tokens, and for tokens and a Gaussian query that each position has for itself.

# %%
longer = measured("14.longer").load().random
error = {size: of_size.mean() - forecasts[size][1] for size, of_size in trials.items()}
between = {size for size in trials if 0.05 < forecasts[size][1] < 0.95}  # elsewhere P says little
near = {size for size in between if abs(error[size]) < 0.07}
far = [size for size in trials if abs(error[size]) > 0.1]
filled = {size for size in between if size[2] > size[3] + 1}  # as in Figure 2: P is unproved
for kind, sizes in (("open", between - filled), ("filled", filled)):
    print(f"{kind} marks with P from 0.05 to 0.95: {len(sizes & near)} of {len(sizes)} within 0.07")
print("\nmore than 0.1 off            P   our tokens   own, of norm 1   own, Gaussian")
for _, n, T, d in far:
    P, share = forecasts["full", n, T, d][1], trials["full", n, T, d].mean()
    own = longer.sel(size=f"{n} {T} {d}").mean("trial")  # tokens that no other position sees
    row = P, share, own.sel(tokens="own"), own.sel(tokens="Gaussian")
    print(
        f"full, n = {n}, T = {T:2d}, d = {d}", "{:8.2f} {:12.2f} {:16.2f} {:15.2f}".format(*map(float, row))
    )
    assert abs(row[3] - P) < 0.05
assert len(near) + len(far) == len(between)

# %% [markdown]
# **$P$ is right within 0.07 at 8 of 9 open marks and at 5 of 7 filled ones.** At the other three it holds for
# the tokens of the Proposition. At $T = 8$ and 16 the unit norm alone makes more choices feasible; at $T = 3$
# fewer are feasible only where positions share their tokens and ask with them.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.9 Claims and measurements
#
# | claim | prediction | measured |
# |:---|:---|:---|
# | $W$ goes to the SAtt-SVM of its choice | cosine 1 | above 0.98 in 400 runs |
# | half of the random choices are feasible | near $d^2 = \sum \nu_m$ | so at all sizes tried, $T \le 16$ |
# | share feasible, where $0.05 < P < 0.95$ | $P$ | within 0.07 at 13 of 16 sizes; worst 0.25 off |
# | share pulled the wrong way | exercise 14.4 | within 0.01 at four sizes |
# | pulled the wrong way, $d = 7$: misses | 0.08, as others, if the pull plays no part | 0.44; flipped 0.03 |
# | 10 queries in 10 sequences: misses | 0.12, as in 2 sequences, if their number decides | 0.08: in part |

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
# one? Forecast the sum of $\nu_m$ with your `tie_level`.
# <details><summary>Answer</summary>
#
# By the count, hardly a random one: it uses up about
# `32 * sum(tie_level(m)[1] for m in range(2, 129))` $\approx 13{,}900$ degrees of freedom, by the forecast,
# which is too low. $W$ has 4,096 entries. If so, not every choice. Some it always can: with $W = I$ and
# distinct tokens of one norm, each position looks at itself.
# </details>

# %%
progress("14")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
# When every position asks, the direction of $W$ goes to that of the **SAtt-SVM** of the tokens on which the
# positions end, in all our runs; but these are not always the best tokens.
#
# - A token changes nothing at another position that does not see it.
# - To share one $W$ costs little if $d^2 \gg \sum \nu_m$, and much near it.
# - A position that sees $m$ tokens uses up $\nu_m$ degrees of freedom: 1.8 for 8 tokens, 2.5 for 16. About
#   half of the random choices are feasible near $d^2 = \sum \nu_m$.
# - **Room is not enough**: training misses best tokens though some $W$ makes the best choice. Positions that
#   their own sequence pulls the wrong way miss several times as often as others, and hardly any of them
#   misses once the others' labels flip ($d = 7$). But most that miss have $b_{ik} > 0$.
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
