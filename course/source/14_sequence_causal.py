# %% [markdown] slideshow={"slide_type": "slide"}
# # 14 · Sequences and causal masks
#
# Up to now one query looked at each sequence. In a transformer *every* token asks, about all tokens of its
# sequence or, in a language model, about those before it. All these queries share one matrix $W$.
#
# **The question: where does training go when every position asks and one W has to answer them all?**
#
# To one SVM over all positions. How often it has a solution can be counted beforehand, and most of the
# reason why causal models reach their best tokens more often is a count, too.

# %% [markdown]
# **After this lesson you can**
#
# - build causal and padding masks, and say which positions they take out of the loss, the gradient and the
#   SVM;
# - predict $\lVert W_{\mathrm{mm}}\rVert$ from the mask alone, where tokens are nearly orthogonal;
# - predict, before solving anything, at which dimension one $W$ can make a random choice of tokens;
# - predict by how much a batch may grow if the dimension doubles;
# - tell a decided run that will stay from one that will move;
# - predict which positions fall for the padding when its mask is forgotten, and what the others pay.
#
# **You need** [lesson 06](06_attention_as_svm.ipynb) (the Att-SVM),
# [lesson 07](07_local_global_tokens.ipynb) (global and local choices),
# [lesson 10](10_cross_self_attention.ipynb)
# (the matrix $W$), and [lesson 12](12_overparameterization.ipynb) (feasibility). About 90 minutes, five
# exercises.

# %%
import dataclasses
from math import comb

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
    first = model.attention(tokens).detach().unflatten(0, (3, 5))[0]  # of the first sequence
    sees = torch.ones(5, 5, dtype=bool) if tokens.mask is None else tokens.mask.unflatten(0, (3, 5))[0]
    patterns[name] = (first.numpy(), sees.numpy())
    assert (first[sees.any(-1)].amax(-1) > 0.99).all()
comparisons = [int((sees.sum(-1) - 1).clip(0).sum()) for _, sees in patterns.values()]
print("comparisons of one sequence:", dict(zip(patterns, comparisons, strict=True)))
assert comparisons == [20, 10, 3]


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
# has made $m - 1$ comparisons: together $n\,T(T-1)$ with full attention, half of that when causal.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.2 A mask from scratch
#
# Sequences have different lengths, and one array has one shape. So shorter ones are filled up with
# **padding**, and a mask says which entries are real.

# %% [markdown]
# ### Exercise 14.1: Who sees whom
#
# ★☆☆ · 5 minutes
#
# Return the mask, (n, T, T) bool: entry $[i, k, t]$ is True where position $k$ of sequence $i$ sees token
# $t$. The first `lengths[i]` tokens of a sequence are real. Padding is seen by nobody, and sees nothing. If
# `causal`, a position sees itself and the ones before it.
#
# <details><summary>Hint</summary>
#
# Which positions hold a real token, (n, T)? A pair needs two real ends. The causal half does not depend on
# the lengths.
# </details>


# %%
@exercise("14.1")
def visible(lengths, T, causal):
    """Return who sees whom, (n, T, T) bool, for lengths (n,) from 1 to T."""
    ### BEGIN SOLUTION
    real = np.arange(T) < np.asarray(lengths)[:, None]  # (n, T)
    sees = real[:, :, None] & real[:, None, :]
    return sees & np.tril(np.ones((T, T), dtype=bool)) if causal else sees
    ### END SOLUTION


# %%
check("14.1", visible)

# %% [markdown]
# A hidden token gets the logit $-\infty$. Then $e^{-\infty} = 0$: it has no attention, exactly, and since
# each derivative of a softmax carries a factor $s_t$, its gradient is 0 too, exactly. One thing needs care:
# a row that sees nothing would be $0/0$. It gets zeros, and does not count in the mean.


# %%
def attention(h, sees):
    """Softmax over the visible tokens: h, sees (n, T, T) -> (n, T, T); zeros in rows that see nothing."""
    h = np.where(sees, h, -np.inf)
    top = h.max(axis=-1, keepdims=True)
    e = np.exp(h - np.where(np.isfinite(top), top, 0))
    return e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300)


def gradient(W, X, y, v, sees):
    """The gradient of L in W, (d, d): X (n, T, d), y (n, T), v (d,), sees (n, T, T)."""
    s = attention(np.einsum("itd,de,ike->ikt", X, W, X), sees)
    scores = y[..., None] * (X @ v)[:, None]  # (n, T, T)
    ahead = scores - np.take_along_axis(scores, s.argmax(-1)[..., None], -1)
    logit = s * (ahead - (s * ahead).sum(-1, keepdims=True))  # lesson 05, without cancellation
    asks = sees.any(-1)
    slope = np.exp(-np.logaddexp(0, (s * scores).sum(-1)))  # |l'| at y_ik f_ik
    return -np.einsum("ik,ikt,itd,ike->de", slope * asks, logit, X, X) / asks.sum()


def gradient_of_copies(W, X, y, v, sees):
    """The same without any mask: a short sequence of its own for each position that asks."""
    parts = []
    for i, k in np.argwhere(sees.any(-1)):
        seen = X[i][sees[i, k]]  # (m, d): what this position sees, and nothing else
        h = seen @ W @ X[i, k]
        s = np.exp(h - h.max()) / np.exp(h - h.max()).sum()
        scores = y[i, k] * (seen @ v)
        slope = 1 / (1 + np.exp(s @ scores))
        parts.append(-slope * np.outer((s * (scores - s @ scores)) @ seen, X[i, k]))
    return np.mean(parts, axis=0)


X, y, v = drawn.X.numpy(), labels.numpy(), drawn.v.numpy()
rng = np.random.default_rng(0)
garbage = np.where(real.numpy()[..., None], X, 1e3 * rng.normal(size=X.shape))
for causal in (False, True):
    sees = visible(lengths.numpy(), 5, causal)
    for W in (np.zeros((20, 20)), rng.normal(size=(20, 20))):
        masked, copies = gradient(W, garbage, y, v, sees), gradient_of_copies(W, X, y, v, sees)
        assert np.abs(masked - copies).max() < 1e-15, again.format("14.1")
    leak = gradient(np.zeros((20, 20)), garbage, y, v, np.ones_like(sees))
    assert np.abs(leak).max() > 100, again.format("14.1")
print("with a mask or as separate short problems, padding of size 1,000: the same gradient")
broken = np.where(real.numpy()[..., None], X, np.nan)
with np.errstate(invalid="ignore"):
    assert np.isnan(gradient(np.zeros((20, 20)), broken, y, v, visible(lengths.numpy(), 5, True))).all()

# %% [markdown]
# **A mask is the same as separate shorter problems, exactly.** We filled the padding with numbers of size
# 1,000, and nothing noticed. (With NaN it would: $0 \cdot \mathrm{NaN}$ is NaN, a classic bug. The library
# puts zeros there first.) So no new theory of training is needed: causal self-attention on $n$ sequences
# is lesson 10 with $nT$ sequences of lengths 1 to $T$, and the query $z = x_{ik}$. The library stores the
# tokens once: `data.every_position(X, y, v, causal=..., mask=...)`.
#
# The first position of a causal sequence sees itself alone: $s = 1$ whatever $W$. It counts in the loss and
# pulls at nothing.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.3 The SVM of all positions
#
# > **SAtt-SVM** (after Tarzanagh, Li, Thrampoulidis and Oymak, 2023). For a choice $\alpha$ of one visible
# > token per position,
# >
# > $$W_{\mathrm{mm}}(\alpha) = \arg\min_W \lVert W\rVert_F \quad\text{subject to}\quad
# > (x_{i\alpha_{ik}} - x_{it})^\top W x_{ik} \ge 1 \quad
# > \text{for each } i, k \text{ and each } t \ne \alpha_{ik} \text{ that } k \text{ sees.}$$
#
# > This is a definition. Informally: a run that ends with one token per position, $\alpha$, goes in
# > direction to $W_{\mathrm{mm}}(\alpha)$, if $\alpha$ can last (section 14.8). What the paper proves asks
# > for more: a start near that direction and a locally optimal choice, or conditions on the first gradient
# > (lesson 12).

# %% [markdown]
# Each constraint is linear in $W$: $a^\top W b = \langle a\, b^\top, W\rangle$, so to each comparison belongs
# a matrix $(x_{i\alpha_{ik}} - x_{it})\, x_{ik}^\top$, a row of the SVM.
#
# Does training find its solution? With a causal mask we take **next-step classification**: draw one more
# token, and let the label of position $k$ be the side of the *next* one, $y_{ik} = \mathrm{sign}(v\cdot
# x_{i,k+1})$. Under a full mask position $k$ could look at that token itself; there each position gets a
# fair coin as its label. (Tokens are independent, so for a causal model the next side is a fair coin too.
# We ask where $W$ goes, not what it learns.) Ragged sequences have 2 to 5 tokens, at random.


# %%
def sequences(n, T, d, trials, seed, causal, ragged=False):
    """Random tokens in which every position asks; labels: the next token's side if causal, or coins."""
    more = data.random_tokens(n, T + 1, d, trials=trials, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    real = torch.arange(T) < torch.randint(2, T + 1, (trials, n, 1), generator=generator)
    coins = 2.0 * torch.randint(0, 2, (trials, n, T), generator=generator) - 1.0
    after = (more.X[..., 1:, :] @ more.v[:, None, :, None]).squeeze(-1).sign()
    y = after if causal else coins.double()
    return data.every_position(more.X[..., :-1, :], y, more.v, causal, real if ragged else None)


def trained(tokens, steps):
    """The model after growing normalised steps from W = 0, in each trial."""
    model = models.CrossAttention(tokens.X.shape[-1], trials=tokens.trials[0])
    optimizer = optim.NormalizedGD(model.parameters(), lr=0.1, batch_dims=1)
    train.fit(model, tokens, optimizer, steps, every=steps, schedule=train.growing, progress=False)
    return model.requires_grad_(False)


settings = {"full": (False, False), "ragged": (False, True), "causal": (True, False), "both": (True, True)}
print("180 trials, n = 3, T = 5, d = 20   global  local  other   least cosine to the SAtt-SVM")
shares = {}
for name, (causal, ragged) in settings.items():
    tokens = sequences(3, 5, 20, 180, 2, causal, ragged)
    model = trained(tokens, 600)
    selected = geometry.selected_tokens(model.attention(tokens))
    solution = svm.solve(svm.sequence_problem(tokens, selected))  # raises if one had none
    words = geometry.outcome(model.attention(tokens), tokens)
    cosine = geometry.cosine(model.W, solution.value).min()
    shares[name] = int((words == "global").sum())
    other = 180 - shares[name] - int((words == "local").sum())
    print(f"{name:30s} {shares[name]:9d} {(words == 'local').sum():6d} {other:6d}   {cosine:.3f}")
    assert cosine > 0.98
    assert other == 0
assert shares["full"] + 25 < min(shares["ragged"], shares["causal"])
assert max(shares["ragged"], shares["causal"]) < shares["both"]

# %% [markdown]
# In each of the 720 runs the direction of $W$ has a cosine above 0.98 to the SAtt-SVM for the tokens it
# selected. What differs is *which* tokens are selected: the best ones everywhere
# ("global") least often with full attention, more often when sequences are ragged or the mask is causal,
# and most often when both. Section 14.6 finds out why. In low dimension not all runs are there after so few
# steps: section 14.8 lets them go on, and foretells which will come.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.4 What it costs that all share one W
#
# The margin of the SVM is $1/\lVert W_{\mathrm{mm}}\rVert$. What does it become as more positions ask? In
# high dimension independent tokens are nearly orthogonal. So begin with tokens that are exactly so.

# %% [markdown]
# ### Exercise 14.2: The price of a mask
#
# ★★☆ · 8 minutes
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
# $x_\alpha$ less the mean of the $m$ tokens, and the squared norms add up. With full attention
# $\lVert W\rVert^2 = n(T-1)$, $T$ times as much as for one position a sequence: the margin is smaller by
# $\sqrt T$.
#
# **Predict before you run on**: random unit tokens in $d$ dimensions are not quite orthogonal. Take one
# sequence with full attention, all of whose rows are tight. By which factor is $\lVert W\rVert^2$ larger
# than $T - 1$? And what do other sequences change, and slack rows?
#
# <details><summary>A prediction</summary>
#
# Each token has $T - 1$ companions in its sequence. Of its squared length about $(T-1)/d$ lies in their
# span; only the rest tells it from them. What is left of a direction has to be met by a longer $W$: the
# squared norm grows by $1/(1 - (T-1)/d)$. Once for the tokens as keys, and once more for them as queries.
# Other sequences are in the way, too, and make $W$ longer. The SVM leaves rows slack where that makes it
# shorter.
# </details>


# %%
def norms(W):
    return W.flatten(-2).norm(dim=-1)


print("full, best tokens: |W|^2 over n (T - 1) / (1 - (T - 1) / d)^2; all rows tight, SVM (its tight rows)")
ratios = {}
for n, T, trials in ((1, 5, 300), (1, 8, 300), (3, 5, 60), (3, 8, 60), (6, 5, 60)):
    row = f"n = {n}, T = {T}:"
    for d in (20, 80):
        tokens = sequences(n, T, d, trials, 4, causal=False)
        problem = svm.sequence_problem(tokens, tokens.optimal)
        a, b, W = problem.a, problem.b, svm.solve(problem).value
        tight = (((a @ W) * b).sum(-1) < 1 + 1e-5).double().mean()
        G = (a @ a.mT) * (b @ b.mT)  # inner products of the rows
        all_tight = torch.linalg.solve(G, torch.ones_like(G[..., :1])).sum((-2, -1))  # |W|^2
        two = n * (T - 1) / (1 - (T - 1) / d) ** 2
        ratios[n, T, d] = float(all_tight.mean()) / two, float((norms(W) ** 2).mean()) / two
        row += "   d = {}: {:.2f}, {:.2f} ({:.2f})".format(d, *ratios[n, T, d], tight)
    print(row)
    assert max(abs(one - 1) for one in ratios[n, T, 80]) < 0.05  # one factor alone: 1.1 at T = 8
    assert n > 1 or abs(ratios[n, T, 20][0] - 1) < 0.06  # one factor alone: 1.25 and 1.54
assert 1.3 < ratios[6, 5, 20][0] < 1.6 < ratios[3, 8, 20][0] < 1.9
assert ratios[1, 8, 20][1] < 0.85
assert ratios[6, 5, 20][1] > 1.1
assert all(0.88 < ratios[3, T, 20][1] < 1.04 for T in (5, 8))

# %% [markdown]
# **Two factors it is**, within 5% at $d = 80$; at $d = 20$ for one sequence if all rows are tight. The two
# corrections have opposite signs. With all rows tight, three sequences of eight tokens cost 1.8 times as
# much at $d = 20$. Slack rows save one such sequence a fifth, and three nearly all that they cost more: there
# the SVM agrees with two factors by luck.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.5 When can one W make a choice?
#
# [Lesson 12](12_overparameterization.ipynb) counted: if the queries are linearly independent and
# $d \ge T - 1$, every choice is feasible. Here there are $nT$ queries, so $d \ge nT$ is enough. It is far
# more than needed: where the *rows* are independent, any right-hand sides can be met. $W$ has $d^2$
# entries, and there are $nT(T-1)$ rows. Their rank is the same for each choice, for the differences
# $x_{i\alpha} - x_{it}$ of the seen tokens span the same space whatever $\alpha$.


# %%
def rank_of_rows(n, T, d, causal):
    problem = svm.sequence_problem(tokens := sequences(n, T, d, 1, 7, causal), tokens.optimal)
    rows = (problem.a[..., None] * problem.b[..., None, :]).flatten(-2)[0]
    rows = rows if problem.mask is None else rows[problem.mask[0]]
    return int(torch.linalg.matrix_rank(rows, rtol=1e-9)), len(rows)


print("rank of the rows")
dims = range(4, 11)
for n, T, causal in ((3, 5, False), (3, 5, True), (5, 5, False)):
    ranks, counts = zip(*(rank_of_rows(n, T, d, causal) for d in dims), strict=True)
    name = f"n = {n}, T = {T}, {'causal' if causal else 'full'}, {counts[0]} rows"
    print(f"{name:32s} d = {dims[0]} to {dims[-1]}: {list(ranks)}")
    assert list(ranks) == [min(d * d, counts[0]) for d in dims]
print("n = 3, T = 7, full, d = 11: rank {} of {} rows".format(*rank_of_rows(3, 7, 11, False)))
assert rank_of_rows(3, 7, 11, False) == (117, 126)  # 121 entries

# %% [markdown]
# At these sizes the rank is the smaller of $d^2$ and the number of rows. (Not at all sizes: two or three long
# sequences with full attention share directions, and it can be less, as in the last line.) So for
# $n = 3$, $T = 5$ *every* choice is feasible from $d = 8$ on ($64 \ge 60$), when causal from $d = 6$ on.
#
# That is enough, not necessary: a choice uses up fewer numbers than it has rows. How many?
#
# **One is always feasible**: each token selects itself. With unit tokens $W = I$ gives the leads
# $1 - x_{it} \cdot x_{ik} > 0$, in any dimension. So feasibility is about *which* choice; let us draw one
# at random.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What a choice uses up
#
# Lesson 12 (section 12.3) counted what a choice uses up, with one query a sequence. Now by hand, for
# positions that see different numbers of tokens. A $W$ makes the choice if each position's logits lie in the
# cone $\{h : h_\alpha > h_t \text{ for all } t \ne \alpha\}$. Pull independent normal targets for these
# logits to the nearest point of the cone's closure. Where a token is ahead of the selected one, the two are
# **pooled**, tied at one height. A tie is an equation, and uses up one dimension.

# %% [markdown]
# ### Exercise 14.3: Pooled
#
# ★★★ · 12 minutes
#
# Row by row: `targets` holds the target logits of $m \ge 2$ tokens, the selected one first. Take the nearest
# point (least sum of squares) in which no token is ahead of the first. Return how many of the others end tied
# with the first, for each row. (There are no ties in `targets` itself.) Two examples: (0, 3, 1) goes to
# (1.5, 1.5, 1), one tie; (0, 3, 2) to (5/3, 5/3, 5/3), two.
#
# <details><summary>Hint</summary>
#
# If the selected token is tied with a set of others, their height is the mean of the targets over the set and
# itself (why?). Which token needs the tie most? And once it is tied, which of the rest still do?
# </details>


# %%
@exercise("14.3")
def pooled(targets):
    """Return the number of tokens tied with the first, (draws,) whole numbers, for targets (draws, m)."""
    ### BEGIN SOLUTION
    others = -np.sort(-targets[:, 1:], axis=1)  # the largest first
    sums = np.cumsum(np.concatenate([targets[:, :1], others], axis=1), axis=1)[:, :-1]
    return np.cumprod(others > sums / np.arange(1, targets.shape[1]), axis=1).sum(axis=1)
    ### END SOLUTION


# %%
check("14.3", pooled)

# %%
share_of, nu = {1: np.ones(1)}, {1: 0.0}
for m in range(2, 6):
    used = pooled(np.random.default_rng(100 + m).normal(size=(800_000, m)))
    share_of[m], nu[m] = np.bincount(used, minlength=m) / len(used), used.mean()
    print(f"a position that sees {m} tokens: {m - 1} rows, uses up {nu[m]:.2f} degrees of freedom")
assert np.allclose(list(nu.values()), [0, 0.5, 5 / 6, 1.0874, 1.2947], atol=0.003), again.format("14.3")
far, at = [], (8, 16, 32, 64, 128, 256, 512)
for m in at:
    far.append(pooled(np.random.default_rng(m).normal(size=(2_000_000 // m, m))).mean())
print("m =", *at, "tokens:", *(f"{one:.1f}" for one in far), "   each doubling adds", np.diff(far).round(2))
assert (np.diff(far) < 2 * np.log(2)).all(), again.format("14.3")
assert np.diff(far)[-2:].min() > 0.8 > np.diff(far)[0], again.format("14.3")
assert abs(far[-1] - 7.1) < 0.3, again.format("14.3")

# %% [markdown]
# A position that sees $m$ tokens has $m - 1$ rows but uses up $\nu_m$ = 0.5, 0.83, 1.09, 1.29 degrees of
# freedom on average, for $m$ = 2 to 5. And long contexts cost about their *logarithm*: 512 tokens 7.1. For
# if the pool ends at the height $c$, what its members were ahead of $c$ is what lifted the first:
# $m\,\mathrm E(h_t - c)_+ \approx c$. For normal targets that makes $c$ grow like $\sqrt{2\ln m}$ and the
# pool like $c^2$, $2\ln m$: each doubling adds at most $2 \ln 2 = 1.39$ in the end, so far up to 1.
#
# Half of the random choices should be feasible where
#
# $$d^2 \approx \sum_{i,k} \nu_{m_{ik}}, \qquad m_{ik} \text{ tokens seen by position } k \text{ of } i .$$
#
# > **Theorem** (kinematic formula; see Amelunxen, Lotz, McCoy and Tropp, 2014). Let the logits that some
# > $W$ can make fill a *uniformly random* subspace of dimension $D$, let some position see two tokens or
# > more, and let $J$ be the number of degrees of freedom used up by all positions for independent standard
# > normal targets. The subspace meets the open cone of the choice with the probability
# > $1 - 2\,[\,P(J = D+1) + P(J = D+3) + \dots]$. (Lesson 12 counts from the other end, $D-1$, $D-3$, ...: $J$
# > is even with probability one half.)
#
# Our subspace is not uniformly random: keys and queries are the same few tokens. So this is a prediction,
# with $D = d^2$, and we measure it.


# %%
def predicted_share(seen, D, chances=None):
    """The kinematic formula: seen is how many tokens each position sees, D the degrees of freedom of W."""
    number = np.ones(1)
    for m in seen:
        number = np.convolve(number, (chances or share_of)[m])
    return 1 - 2 * number[D + 1 :: 2].sum()


by_row = {m: np.array([comb(m - 1, j) for j in range(m)]) / 2 ** (m - 1) for m in range(1, 6)}  # a coin a row
stored = measured("14.feasible")
found = stored.load()
curves, misfit, rival = {}, {}, {"a coin for each row": 0.0, "a step at the mean": 0.0}
print("T = 5: share of random choices that are feasible, 300 trials each   (predicted)")
for n, T, mask in [(n, T, mask) for T in (5, 3) for n in (1, 3, 6) for mask in ("full", "causal")]:
    seen = n * (T * [T] if mask == "full" else list(range(1, T + 1)))
    share = found.random.sel(n=n, T=T, mask=mask).mean("trial").values
    curve = np.array([predicted_share(seen, d * d) for d in found.d.values])
    misfit[n, T, mask] = np.abs(share - curve).max()
    steps = [float(d * d >= sum(nu[m] for m in seen)) for d in found.d.values]
    coins = [predicted_share(seen, d * d, by_row) for d in found.d.values]
    for name, guess in zip(rival, (coins, steps), strict=True):
        rival[name] = max(rival[name], float(np.abs(share - guess).max()))
    if T == 5:
        curves[n, mask] = share, curve
        text = "  ".join(f"{a:.2f} ({b:.2f})" for a, b in list(zip(share, curve, strict=True))[:5])
        print(f"n = {n}, {mask:6s} d = 2 to 6:  {text}   half at d = {sum(nu[m] for m in seen) ** 0.5:.1f}")
worst = max(misfit, key=misfit.get)
print(
    f"largest of all {8 * len(misfit)} differences, T = 3 too: {misfit[worst]:.2f} at (n, T, mask) = {worst}"
)
print("of rivals:", ", ".join(f"{name} {size:.2f}" for name, size in rival.items()))
assert misfit[worst] < 0.14, again.format("14.3")
assert min(rival.values()) > 0.5
assert worst == (1, 3, "full"), again.format("14.3")
assert abs(sum(nu[m] for m in (1, 2, 3, 4, 5)) - 3.7) < 0.05
assert abs(5 * nu[5] - 6.5) < 0.05
fresh = stored.part(n=[3], T=[3], mask=["causal"]).random.mean("trial").values.ravel()
assert np.abs(fresh - found.random.sel(n=3, T=3, mask="causal").mean("trial").values).max() < 0.2

# %% jupyter={"source_hidden": true}
fig, axes = plt.subplots(1, 3, figsize=(10, 3.8), sharey=True)
for ax, n in zip(axes, (1, 3, 6), strict=True):
    for mask, color, marker in (("full", ORANGE, "s"), ("causal", BLUE, "o")):
        share, curve = curves[n, mask]
        low, high = wilson(share * 300, 300)
        bars = [share - low, high - share]
        ax.errorbar(found.d.values, share, bars, fmt=marker, color=color, label=mask, fillstyle="none")
        ax.plot(found.d.values, curve, "_", color=color, markersize=16, markeredgewidth=2)
    rows = [np.sqrt(n * 20), np.sqrt(n * 10)]
    for place, color in zip(rows, (ORANGE, BLUE), strict=True):
        ax.axvline(place, color=color, linestyle=":", linewidth=1.5)
    ax.set(title=f"$n = {n}$", xlabel="dimension $d$", xlim=(1.7, 9.3))
axes[0].set_ylabel("share of feasible choices")
axes[0].plot([], [], "_", color=BLACK, markersize=16, markeredgewidth=2, label="predicted")
axes[0].plot([], [], ":", color=BLACK, label="$d^2$ = rows")
axes[0].legend(loc="lower right", fontsize=10)
show(
    fig,
    alt="Share of feasible random choices against the dimension, for 1, 3 and 6 sequences. Each rises from 0 "
    "to 1 within about two dimensions, close to the predictions, causal before full. Dotted lines where d "
    "squared equals the number of rows lie at or to the right of the dimension where a share reaches 1.",
)

# %% [markdown]
# **Figure 2.** Shares of random choices that one $W$ can make, with Wilson's 95% intervals (300 trials a
# point, $T = 5$; computed beforehand, a part of them again just now). Dashes: the prediction. Dotted: where
# $d^2$ reaches the number of rows (for $n = 6$, full, beyond the picture).


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
# **Try it** (Figure 2 without sliders). Predict first: by how much must $d$ grow when $n$ grows fourfold?
# What does a window save, positions that see at most $m = 2$ tokens?

# %% [markdown]
# Degrees of freedom predict where the shares rise, within a few hundredths at most points, by 0.12 at the
# worst one stored (14.7 tells what they leave out). To count each row as half a number, as if rows were
# independent, is wrong by up to 0.96. A causal mask uses up $3.7\,n$ where full attention takes $6.5\,n$.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The best choice
#
# **The best choice is no random choice**: two labels, two candidates per sequence. For *one* sequence with
# full attention we can say exactly when it is feasible.
#
# > **Proposition.** For $n = 1$, $T \ge 2$, full attention and distinct values $v\cdot x_t$, the best choice
# > is feasible if and only if some $b$ has $y_k\, b\cdot x_k > 0$ for all $k$.
#
# *If:* take $W = v b^\top$: position $k$ then has the logits $(b\cdot x_k)(v\cdot x_t)$, largest at the
# token with the largest value where $y_k = 1$, and the smallest where $y_k = -1$. *Only if:* let $a$ be the
# difference of these two tokens. Their comparison reads $y_k\, a^\top W x_k \ge 1$, so $b = W^\top a$ will
# do.

# %% [markdown]
# ### Exercise 14.4: How often can the best be chosen?
#
# ★★☆ · 8 minutes
#
# So predict: the share of feasible best choices is the probability that $T$ random points in $d$ dimensions
# with coins for labels are separated by a plane through the origin. Return it, as a number, for any
# $T \ge 1$ and $d \ge 1$ (also 40 and 20: calls that call themselves twice would take forever). Let $S(T, d)$
# be the number of labellings that can be separated, with no $d$ of the points in one plane through 0, so
# $S(1, d) = S(T, 1) = 2$. What does one more point change?
#
# <details><summary>Hint</summary>
#
# An old labelling can be continued in both ways if a plane that separates it can be moved *through* the new
# point, and else in one. How many are of the first kind? Look along the new point.
# </details>


# %%
@exercise("14.4")
def separable_share(T, d):
    """Return the probability that T random points in d dimensions with random labels are separable."""
    ### BEGIN SOLUTION
    count = np.full(d, 2.0)  # S(1, 1), ..., S(1, d)
    for _ in range(T - 1):
        count = count + np.r_[0, count[:-1]]
    return count[-1] / 2**T
    ### END SOLUTION


# %%
check("14.4", separable_share)

# %%
print("one sequence, T = 5, full: share of feasible best choices of 300 (predicted), random choices")
for d in (2, 3, 4, 5):
    best, random = (float(part.sel(n=1, T=5, mask="full", d=d).mean()) for part in (found.best, found.random))
    print(f"d = {d}: {best:.2f} ({separable_share(5, d):.2f}), {random:.2f}")
    assert abs(best - separable_share(5, d)) < 0.06, again.format("14.4")
    assert d == 5 or abs(random - separable_share(5, d)) > 0.06, again.format("14.4")

# %% [markdown]
# As predicted, while random choices come out differently. With several sequences or a causal mask we know no
# such formula, and the best choice can be harder than a random one:

# %%
best, random = (float(part.sel(n=6, T=5, mask="full", d=6).mean()) for part in (found.best, found.random))
print(f"n = 6, full, d = 6: best {best:.2f}, random {random:.2f}")
assert random - best > 0.08

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.6 Why causal models are more often global
#
# Feasible is not the same as found. Descent went to the best tokens of all positions less often with full
# attention than with a causal mask. It may be that a batch makes half as many comparisons; or that a position
# has fewer tokens to choose from; or the *order*, a curriculum from short to long. Masks can tell, all with
# coins for labels, and with as many comparisons as when causal:
#
# - **shuffled**: the $k$-th position sees $k$ random tokens. No order;
# - **three**: each position sees three random tokens. None sees few;
# - **half**: half of the positions see all five tokens, the others only themselves. Who asks has all to
#   choose from.
#
# **Predict before you run on**: which of the four have about the same share of global runs?

# %%
controls = measured("14.controls")
stored_misses = controls.load().sel(n=3)
stored_half = measured("14.half").load().sel(n=3)
dims = stored_misses.d.values
comparisons = {"full": 60, "causal": 30, "shuffled": 30, "three": 30, "half": 30}
print(f"global runs of 480, n = 3, T = 5; d =           {dims}    share of positions that ask and miss")
global_runs, missed = {}, {}
for mask, count in comparisons.items():
    cell = stored_half if mask == "half" else stored_misses.sel(mask=mask)
    global_runs[mask] = cell["global"].sum("trial").values
    missed[mask] = cell.missed.mean("trial").values / (7.5 if mask == "half" else 15)
    text = "".join(f"{k:5d}" for k in global_runs[mask])
    print(f"{mask:9s} {count} comparisons {text:>26s}      {missed[mask].round(3)}")
points = {mask: (runs - global_runs["causal"]) / 4.8 for mask, runs in global_runs.items()}
print(
    "points of a hundred above causal:",
    {mask: one.round().astype(int).tolist() for mask, one in points.items()},
)
assert all((np.abs(points[mask]) < [12, 6, 6, 6]).all() for mask in ("shuffled", "three", "half"))
assert points["full"].min() > -47
assert points["full"].max() < -24
assert points["shuffled"].min() > 1
assert points["shuffled"].max() < 3.5
fall = np.log(missed["full"] / missed["half"]) / np.log(missed["full"] / missed["causal"])
print("part of the fall of misses from full to causal, in logarithms, that half has, too:", fall.round(2))
assert ((fall > 0.5) & (fall < 0.65)).all()
again_now = controls.part(n=[3], mask=["three"], d=[8])["global"].values.sum()
assert abs(again_now - stored_misses["global"].sel(mask="three", d=8).values[:120].sum()) <= 4

# %% [markdown]
# **The number of comparisons explains the global runs.** Three other ways to halve it come within 11
# points of a hundred of causal, above or below it, from $d = 8$ on within 5, where full attention is 24 to 46
# behind. **Order** does not help: shuffled is 1 to 3 points ahead, little more than chance.
#
# How often *one position* misses is explained by two things. In "half" who asks has all five tokens, and only
# the rest of the batch asks less: that makes a little more than half of the fall, in logarithms. The rest is
# that causal positions have fewer tokens to choose from.
#
# **Crowding.** Are comparisons in each other's way? Then a larger batch must hurt *each* position. If
# sequences did not feel each other, three would all succeed with the third power of the share of one alone.
#
# How much does it hurt? Take a step along one position's own pull: its logits move by products
# $(x_{it}\cdot x_{it})(x_{ik}\cdot x_{ik}) = 1$. A comparison of another position reaches them through
# $(x_{it}\cdot x_{jt'})(x_{ik}\cdot x_{jk'})$, two random cosines: about $1/d$, with a random sign. $C$ of
# those add up to about $\sqrt C / d$. So what counts, against a pull of size 1, should be the **load**
# $C/d^2$, the comparisons of the batch for each entry of $W$.
#
# **Predict before you run on**: $d$ doubles. How many times as many sequences may a batch hold, if each
# position is to miss as often as before?

# %%
crowd = measured("14.crowding").load()  # 240 runs a cell
sizes, by_load = crowd.n.values, {}
cells = [(m, int(d), int(n)) for m in ("full", "causal") for d in crowd.d.values for n in sizes]
for mask, d, n in cells:
    cell = crowd.sel(mask=mask, n=n, d=d)
    fives = 240 * (5 * n if mask == "full" else n)  # positions that see five tokens
    miss = int((cell.missed if mask == "full" else cell.missed_last).sum())
    load = n * (20 if mask == "full" else 10) / d**2
    by_load.setdefault(round(load, 4), []).append((mask, d, n, miss, fives))
print("share of the positions with five tokens that miss their best, by load")
for load, row in sorted(by_load.items()):
    shares = {(mask, d, n): miss / fives for mask, d, n, miss, fives in row}
    text = "   ".join(f"{mask} d={d} n={n}: {one:.3f}" for (mask, d, n), one in shares.items())
    print(f"{load:5.2f}   {text}")
    mean = np.mean(list(shares.values()))
    assert max(abs(one / mean - 1) for one in shares.values()) < 0.16
share = {(mask, d, n): miss / fives for row in by_load.values() for mask, d, n, miss, fives in row}
globally = crowd["global"].mean("trial")
alone, three_together = (float(globally.sel(mask="full", d=12, n=n)) for n in (1, 3))
print(f"full, d = 12, three sequences if as good as alone: {alone**3:.2f}, measured {three_together:.2f}")
assert alone**3 - three_together > 0.2
outcomes = measured("14.outcomes").load()  # 240 runs a cell; coins for labels, under every mask
right = (outcomes.missed.sel(mask="full", d=12).values[:, None] >> np.arange(15) & 1).reshape(-1, 3, 5).sum(
    -1
) == 0
print(f"alone {alone:.2f} are right, each of three {right.mean():.2f}; ", end="")
print(f"that to the third power {right.mean() ** 3:.2f}, all three {right.all(-1).mean():.2f}")
assert abs(right.mean() ** 3 - right.all(-1).mean()) < 0.04
assert alone - right.mean() > 0.1
assert share["full", 6, 3] > 6 * share["full", 24, 3]  # the same comparisons
assert share["full", 6, 3] > 2 * share["full", 24, 12]  # the same comparisons / d
assert len([row for row in by_load.values() if len(row) > 1]) == 6
assert share["causal", 6, 6] > max(share["full", 6, 3], share["full", 12, 12])
assert share["causal", 6, 12] > share["full", 6, 6]
others = np.mean([miss / fives for *_, miss, fives in by_load[round(30 / 144, 4)]])
print(f"load 0.21, d = 12: half {missed['half'][2]:.3f}, the mean of the three above {others:.3f}")
assert 0.6 < missed["half"][2] / others < 0.8

# %% jupyter={"source_hidden": true}
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
colors = (ORANGE, BLUE, BLACK, GREEN, plots.COLORS["sky"])
for mask, color, style in zip(global_runs, colors, ("s-", "o-", "x--", "^-", "d-"), strict=True):
    low, high = wilson(global_runs[mask], 480)
    middle = global_runs[mask] / 480
    left.errorbar(dims, middle, [middle - low, high - middle], fmt=style, color=color, label=mask)
left.set(xlabel="dimension $d$", ylabel="share of global runs", ylim=(-0.03, 1.03), xticks=dims)
left.set_title("$n = 3$", fontsize=12)
left.legend(loc="lower right", fontsize=10)
for mask, color in (("full", ORANGE), ("causal", BLUE)):
    for d, marker in ((6, "v"), (12, "o"), (24, "s")):
        at = [
            (load, *row[-2:])
            for load, rows in sorted(by_load.items())
            for row in rows
            if row[:2] == (mask, d)
        ]
        load, miss, count = map(np.array, zip(*at, strict=True))
        low, high = wilson(miss, count)
        bars = [miss / count - low, high - miss / count]
        right.errorbar(load, miss / count, bars, fmt=marker, color=color, fillstyle="none",
                       markersize=8, label=f"{mask}, $d = {d}$")  # fmt: skip
right.set(
    xscale="log", xlabel="load: comparisons of the batch / $d^2$", ylabel="share of positions that miss"
)
right.set(xticks=[0.02, 0.1, 0.5, 2, 7], xticklabels=["0.02", "0.1", "0.5", "2", "7"], ylim=(0, None))
right.minorticks_off()
right.set_title("five tokens seen", fontsize=12)
right.legend(loc="upper left", fontsize=10)
show(
    fig,
    alt="Left, the share of global runs rises with the dimension for all masks; causal, shuffled, three "
    "and half lie close together far above full. Right, the share of positions that miss their best token "
    "against the load rises from about 1 to 41 percent; points of three dimensions and two masks lie on one "
    "curve.",
)

# %% [markdown]
# **Figure 3.** Left: shares of global runs. Right: how often a position that sees all five tokens misses its
# best, against the load of batches of 1, 3, 6 or 12 sequences. Both with Wilson's 95% intervals (480 and 240
# runs), computed beforehand.

# %% [markdown]
# **One curve.** At each of the six loads that come about in several ways, by other $d$, batch or mask, the
# shares differ by at most 16% from their mean. At $d = 6$, 12 and 24 the same 60 comparisons give 0.18, 0.08
# and 0.03. So if $d$ doubles, a batch may be *four* times as large. A causal mask halves the load.
#
# The load is not all. At loads above 1, causal positions miss a little more than it tells; and those of
# "half", which have fewer neighbours that ask in their own sequence, miss less: 0.036 instead of 0.049 at
# $d = 12$. (Five tokens throughout.)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.7 Which positions miss, and which tokens? *(optional)*
#
# Sort them by the difference between the scores of their best two tokens, as a part
# of the range. And hide *one* token from each position, its runner-up or another one.

# %%
print("full attention, share that misses; by the difference of the best two scores, closest quarter first")
lower = {}
for d in dims:
    counts = np.array([int(stored_misses[f"missed_{j}"].sel(mask="full", d=d).sum()) for j in (1, 2, 3, 4)])
    lower[int(d)] = counts[2:].sum() / counts.sum()
    print(f"d = {d:2d}: {(counts / (480 * 15 / 4)).round(3)}   above the median:", end=" ")
    print(f"{lower[int(d)]:.0%}")
    assert (np.diff(counts) < 0).all()
assert lower[6] > 0.3
assert lower[20] < 0.2
names = ("no runner-up", "no other one")
hidden = {mask: (outcomes.outcome.sel(mask=mask) == 0).sum("trial").values for mask in names}
for mask, runs in hidden.items():
    print(f"{mask:13s} global runs of 240 at d = {outcomes.d.values}: {runs}")
low, high = wilson(np.array([runs[-1] for runs in hidden.values()]), 240)
assert low[0] > high[1]
assert np.abs(hidden["no runner-up"] - hidden["no other one"])[:3].max() <= 6

# %% [markdown]
# At $d = 20$ those with a close runner-up: their own pull between the two is weak, and the terms of others
# decide; there it pays to hide the runner-up. At $d = 6$ a third of the misses have a difference above the
# median, and hiding the runner-up helps no more than hiding another token.
#
# Nor is closeness all at $d = 12$: positions that see just two tokens missed 0 times of 720, though their two
# are often close. A reason, informally: between two, a position's own pull always favours the better one.
# With three or more, the best two are both above its mean, so both are pulled up.

# %% [markdown]
# ### Spread
#
# At as many comparisons, what matters is how they are spread. At $d = 6$ it helps that some positions see
# one or two tokens; from $d = 12$ on it is better if all see three. How often a position of a causal
# sequence misses:

# %%
wrong_at = {}
for d in (6, 12):
    bits = outcomes.missed.sel(mask="causal", d=d).values[:, None] >> np.arange(15) & 1  # a bit a position
    wrong_at[d] = bits.mean(0).reshape(3, 5).mean(0)
    print(f"d = {d:2d}, 1 to 5 tokens seen: {wrong_at[d].round(3)}   mean {wrong_at[d].mean():.3f}")
assert wrong_at[12].mean() > 1.5 * wrong_at[12][2]  # convex: equal shares are better
assert wrong_at[6].mean() < wrong_at[6][2]
assert wrong_at[12][1] == 0

# %% [markdown]
# At $d = 12$ the curve is convex: the last positions lose more than the first ones gain.

# %% [markdown]
# ### Every choice, with more rows than entries
#
# A choice fails where some combination of its rows with weights $\ge 0$, not all zero, vanishes (Gordan).
# In such a combination each position's weights, written on tokens, sum to 0 and are positive on at most
# one, the selected. With one more row than entries of $W$ there is *one* vanishing combination, up to a
# factor. One can simply look at it.

# %%
n, T, d, decided = 5, 5, 7, 0
for seed in range(20):
    X = data.random_tokens(n, T, d, seed=seed).X.numpy()
    pairs = [(i, k, t) for i in range(n) for k in range(T) for t in range(k)]  # causal: 50 rows, 49 entries
    A = np.array([np.outer(X[i, k] - X[i, t], X[i, k]).ravel() for i, k, t in pairs])
    values, vectors = np.linalg.svd(A.T)[1:]
    assert len(A) == d * d + 1
    assert values.min() > 1e-8  # so there is one vanishing combination only
    weights = np.zeros((n, T, T))
    for c, (i, k, t) in zip(vectors[-1], pairs, strict=True):
        weights[i, k, k] += c
        weights[i, k, t] -= c
    most = [(sign * weights > 1e-9).sum(-1).max() for sign in (1, -1)]
    decided += min(most) >= 2  # no choice has these signs
print(f"50 rows in 49 dimensions: all {120**5:,} choices feasible in {decided} of 20 draws")
assert decided == 20

# %% [markdown]
# *Every* choice is feasible in each draw, though there is one more row than $d^2$.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What the kinematic formula leaves out
#
# The tokens of 14.5: with few sequences their geometry matters.

# %%
share_of[10] = np.bincount(pooled(np.random.default_rng(10).normal(size=(100_000, 10))), minlength=10) / 1e5
print("one sequence, random choices   unit tokens   normal tokens   (predicted)")
for T, d, trials in ((5, 3, 300), (10, 4, 200)):
    drawn_T = data.random_tokens(1, T, d, trials=trials, seed=12)
    normal = torch.randn(drawn_T.X.shape, generator=torch.Generator().manual_seed(12), dtype=torch.float64)
    choice = torch.randint(0, T, (trials, T), generator=torch.Generator().manual_seed(13))
    y_T = torch.ones(trials, 1, T, dtype=torch.float64)  # labels do not matter here
    got = []
    for X in (drawn_T.X, normal):
        problem = svm.sequence_problem(data.every_position(X, y_T, drawn_T.v), choice)
        got.append(float((svm.solve(problem, throw=False).status == "optimal").mean()))
    expected = predicted_share([T] * T, d * d)
    print(f"T = {T:2d}, d = {d} {got[0]:22.2f} {got[1]:15.2f} {expected:14.2f}")
    assert abs(got[0] - got[1]) > 0.04
    assert T == 5 or got[0] > expected + 0.07 > got[1], again.format("14.3")
    assert T == 10 or got[1] < expected - 0.07, again.format("14.3")

# %% [markdown]
# Same formula, same counts: only the length of the tokens is another. Unit tokens do better than predicted
# at $T = 10$, normal ones worse at $T = 5$ (there a token may lie in the hull of the others, and then nobody
# can select it).

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.8 Where it breaks
#
# **Small d.** A decided run is never infeasible: if every position gives one token more than half of its
# attention, then this token is strictly ahead, and $W$ itself, made longer, satisfies the rows. But at small
# $d$ many runs are undecided after 1,000 steps: some attention is below 0.99. Are they stuck, or late? And
# those that are decided, are they so for good?
#
# **Predict before you run on** which decided runs will change tokens. Lesson 07 knows: along
# $W_{\mathrm{mm}}(\alpha)$ a selected token is worn away by those that are tight with it, for these keep the
# most attention beside it. If one of them has a better score, the pull is towards it. So a choice can last
# only if it is *locally optimal*: each selected token better than all that are tight.

# %%
later = measured("14.late").load()  # 120 runs a cell, stored: 40,000 steps take long
print("        undecided after ... steps   decided after 1,000, and on other tokens after 40,000")
print("mask    d  1,000  10,000  40,000       can last   moved       cannot last   moved")
counts = {}
for mask in later.mask.values:
    for d in later.d.values:
        cell = later.sel(mask=mask, d=d)
        left = [int((~cell[name].values).sum()) for name in ("early", "then", "last")]
        row = []
        for lasts in (True, False):
            those = cell.early.values & (cell.can_last_early.values == lasts)
            row += [int(those.sum()), int((those & ~cell.kept_early.values).sum())]
        counts[mask, int(d)] = left, row
        print(f"{mask:6s} {d:2d} {left[0]:6d} {left[1]:7d} {left[2]:7d}", end="")
        print(f"{row[0]:15d} {row[1]:7d} {row[2]:17d} {row[3]:7d}")
        assert left[2] < 0.15 * left[0] or left[0] <= 2
can, moved_can, cannot, moved_cannot = np.sum([row for _, row in counts.values()], axis=0)
print(f"all: {can} can last, {moved_can} moved; {cannot} cannot, {moved_cannot} moved")
assert (can, moved_can, cannot, moved_cannot) == (478, 0, 24, 14)
assert sum(counts[mask, d][1][2] - counts[mask, d][1][3] for mask in ("full", "causal") for d in (3, 4)) == 1
assert [counts[mask, 2][0] for mask in ("full", "causal")] == [[94, 37, 11], [72, 27, 8]]

cell = later.sel(mask="full", d=3)
far = np.where(cell.then.values, cell.cosine_then.values, 2).argmin()
path = [
    (float(cell[f"cosine_{k}"][far]), bool(cell[f"can_last_{k}"][far])) for k in ("early", "then", "last")
]
print("full, d = 3, the decided run that is farthest from its SVM after 10,000 steps; (cosine, can last):")
print("   ".join(f"({cosine:.2f}, {lasts})" for cosine, lasts in path))
assert [lasts for _, lasts in path] == [False, False, True]
assert [round(cosine, 2) for cosine, _ in path] == [0.98, 0.67, 1.0]
high = later.sel(d=[3, 4])
low = {lasts: int((high.early & (high.can_last_early == lasts) & (high.cosine_early < 0.99)).sum())
       for lasts in (True, False)}  # fmt: skip
least = float(high.cosine_last.where(high["last"] & high.can_last_last).min())
print(f"d = 3 and 4, cosine below 0.99 early: {low[True]} can last, {low[False]} cannot; ", end="")
print(f"at the end, the least of those that can: {least:.4f}")
assert (low[True], low[False]) == (12, 5)
assert least > 0.999

# %% [markdown]
# **Late, not stuck.** At least 85 of 100 undecided runs decide by 40,000 steps, even at $d = 2$, where hardly
# a random choice is feasible. "Undecided" measures the length of the run.
#
# **Decided is not final, but it can be told.** Of 478 decided runs whose choice can last none changed a
# token. Of 24 whose choice cannot, 14 did, at $d = 3$ and 4 all but one of 15 (at $d = 2$ none of 9 yet).
# So at $d = 3$ and 4 a low cosine after 1,000 steps means one of two things: 12 runs were late, 5 on their
# way to other tokens. One of these stands at 0.98, then at 0.67, then has a choice that can last, and 1.00.
# In the end all that can last are above 0.999.

# %% [markdown] slideshow={"slide_type": "subslide"}
# **A forgotten mask.** Suppose sequences of 1 to 4 tokens are filled up with zeros to a fixed length of 5,
# positions that are padding are left out of the loss, but the attention is not told. What does training do?
#
# A padding token has the logit $0^\top W x_{ik} = 0$ and the score 0. It is a token like the others. So the
# SVM gets a row $x_{i\alpha_{ik}}^\top W x_{ik} \ge 1$ more per position: leads over 0.

# %% [markdown]
# ### Exercise 14.5: Who falls for the padding?
#
# ★★☆ · 6 minutes
#
# Predict which positions will attend to padding, if each selects the best token on offer. Full attention,
# no mask. `values` holds $v\cdot x_{it}$ (at padding anything, even infinity), `y` the labels. Positions
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
def padded(d, trials, seed):
    """Sequences of 1 to 4 tokens, filled up to 5 with zeros, and who is to fall for these."""
    generator = torch.Generator().manual_seed(seed)
    ends = torch.randint(1, 5, (trials, 3), generator=generator)
    base = data.random_tokens(3, 5, d, trials=trials, seed=seed, lengths=ends)
    coins = 2.0 * torch.randint(0, 2, (trials, 3, 5), generator=generator).double() - 1.0
    right = data.every_position(base.X, coins, base.v, mask=base.mask)
    values = (base.X @ base.v[:, None, :, None]).squeeze(-1).numpy()
    falls = falls_for_padding(*(np.concatenate(one) for one in (values, coins.numpy(), ends.numpy())))
    length = ends[..., None].expand(trials, 3, 5).flatten(1)
    return right, length, torch.as_tensor(falls).reshape(trials, 15)


right, length, falls = padded(20, 60, 10)
asks = right.mask.any(-1)
wrong = dataclasses.replace(right, mask=asks[..., None].expand(right.mask.shape))  # sees the zeros, too
model = trained(wrong, 600)
on_padding = (model.attention(wrong) * ~right.mask).sum(-1) > 0.5
same = (on_padding == falls)[asks].double().mean()
print(f"predicted and measured agree at {same:.1%} of the positions")
assert same > 0.99, again.format("14.5")
many, long, fallen = padded(2, 8000, 11)
print("share that attends to padding: measured; by exercise 14.5 in 24,000 sequences; 2 to the power -m")
for m in range(1, 5):
    share = float(on_padding[asks & (length == m)].double().mean())
    foreseen = float(fallen[many.mask.any(-1) & (long == m)].double().mean())
    print(f"sequences of {m} tokens: {share:.2f}   {foreseen:.3f}   {0.5**m:.3f}")
    assert abs(foreseen - 0.5**m) < 0.015, again.format("14.5")

rows_on_padding = torch.arange(5) <= length[..., None]  # the SVM needs one of the equal padding tokens
mixed = dataclasses.replace(wrong, mask=wrong.mask & rows_on_padding)
own = model.attention(wrong).masked_fill(~right.mask, -1.0).argmax(-1)
with_padding = svm.solve(svm.sequence_problem(mixed, torch.where(on_padding, length, own).where(asks, 0)))
cosine = geometry.cosine(model.W, with_padding.value)
print(f"cosine to the SVM with padding rows: least {cosine.min():.3f}")
assert cosine.min() > 0.99

# %% [markdown]
# The prediction is right at nearly every position (at $d = 20$; in low dimension fewer select their best).
# Where all real tokens have a negative score, looking away is the best one can do, and the model learns it.
# With $m$ tokens that has the probability $2^{-m}$: the values have independent fair signs, and whatever the
# label, all must be of the wrong one. The single token of a sequence of length 1, which has no choice,
# suddenly gets one. No error message says so.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.9 What do the others pay? *(optional)*
#
# They have to keep their tokens ahead of 0 as well. **Predict before you run
# on**, with the argument of exercise 14.2: how much longer does $W$ become for a position that sees $m$
# orthonormal tokens and selects one of them? And for one that falls?
#
# <details><summary>A prediction</summary>
#
# A new row asks for $a \cdot x_\alpha \ge 1$. The shortest such $a$ is $x_\alpha$ itself, and it keeps the
# other rows: $\lVert a\rVert^2 = 1$ instead of $1 - 1/m$. Who falls has the rows $-a\cdot x_t \ge 1$ for all
# $m$ tokens: $a = -\sum_t x_t$, $\lVert a\rVert^2 = m$.
# </details>


# %%
def prices(right, length, falls, d):
    """||W||^2 of those who do not fall, without and with the padding's rows, and of all with them."""
    trials, asks = len(length), right.mask.any(-1)
    blind = dataclasses.replace(right, mask=asks[..., None] & (torch.arange(5) <= length[..., None]))
    best = right.scores.masked_fill(~right.mask, -torch.inf).argmax(-1).where(asks, 0)
    stays = (asks & ~falls)[..., None].expand(trials, 15, 4).flatten(1)
    free, taxed = (
        svm.sequence_problem(right, best),
        svm.sequence_problem(blind, torch.where(falls, length, best)),
    )
    parts = [dataclasses.replace(one, mask=one.mask & stays) for one in (free, taxed)]
    return [norms(svm.solve(one).value) ** 2 for one in (*parts, taxed)]


print("orthonormal tokens predict: margin of those who do not fall, with : without padding; |W|^2 of all")
for d, within in ((20, 0.04), (160, 0.02)):
    right, length, falls = padded(d, 60, 10)
    stays, m = right.mask.any(-1) & ~falls, length.double()
    free, taxed, whole = prices(right, length, falls, d)
    some = (stays & (length > 1)).any(-1)  # else they had no rows before
    found = (free / taxed)[some].sqrt()
    expected = ((1 - 1 / m) * stays).sum(-1) / stays.sum(-1)
    expected = expected[some].sqrt()
    all_of_them = whole / torch.where(falls, m, stays.double()).sum(-1)
    print(f"d = {d:3d}: {found.mean():.2f} (predicted {expected.mean():.2f}), ", end="")
    print(f"correlation over draws {np.corrcoef(found, expected)[0, 1]:.2f}; ", end="")
    print(f"|W|^2 : predicted = {all_of_them.mean():.2f}")
    assert abs(found.mean() - expected.mean()) < within, again.format("14.5")
    assert np.corrcoef(found, expected)[0, 1] > (0.7 if d == 20 else 0.95), again.format("14.5")
    assert abs(all_of_them.mean() - 1) < (0.2 if d == 20 else 0.03), again.format("14.5")

# %% [markdown]
# About a quarter of the margin; and the lengths in a draw tell how much, at $d = 160$ with a correlation of
# 0.98 over 60 draws.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.10 Claim, prediction, measurement
#
# | claim | prediction | measurement |
# |:---|:---|:---|
# | a mask is the same as shorter problems | equal gradients | to 15 digits, whatever the padding holds |
# | $W$ goes to the SAtt-SVM of a choice that can last | cosine 1 | above 0.98 in 720 runs, $d = 20$ |
# | orthonormal tokens: squared norm | $\sum (1 - 1/m)$, for every choice | to 6 digits |
# | random tokens, full attention: times | $1/(1 - (T-1)/d)^2$ | within 5% at $d = 80$ |
# | a random choice uses up $\nu_m$ a position | kinematic formula | within 0.12 (rivals: 0.55, 0.96) |
# | the best choice of one sequence | Cover's count | shares within 0.06 |
# | causal is more often global | half of the comparisons | three other ways to halve them: within 11 points |
# | order helps | causal above shuffled | refuted: 1 to 3 points below |
# | sequences do not feel each other | third power of one alone, 0.60 | refuted: 0.29 |
# | crowding: share of misses | by the load $C/d^2$ alone | within 16% of each load's mean, $T = 5$ |
# | a decided run keeps its tokens | if locally optimal | 0 of 478 moved; of 24 others 14 |
# | forgotten padding wins | where all scores are negative | at over 99% of the positions, $d = 20$ |
# | what the others pay for it | 1 instead of $1 - 1/m$ | margin within 0.02 on average, $d = 160$ |

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
# **2.** For $n$ sequences with full attention, when is the best choice feasible at least, and at most?
# <details><summary>Answer</summary>
#
# At least where one $b$ separates all $nT$ labels: $W = v b^\top$ as in the proposition. At most where a
# $b_i$ separates the labels of each sequence.
# </details>
#
# **3.** A batch has 32 causal sequences of 128 tokens, and $d = 64$. Can one $W$ make any choice? A random
# one?
# <details><summary>Answer</summary>
#
# A random one: hardly. The positions use up $32 \sum_{m \le 128} \nu_m \approx 15{,}900$ degrees of freedom,
# and $W$ has 4,096. So not any one either, though one always can be made: "look at yourself". (The count of
# rows, 260,096, would not tell: section 14.5.)
# </details>

# %%
sizes = np.array([2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128])
sampled = [pooled(np.random.default_rng(m).normal(size=(400_000 // m, m))).mean() for m in sizes]
total = 32 * np.interp(np.arange(2, 129), sizes, sampled).sum()
print(f"{total:,.0f} of {64**2:,} degrees of freedom, {32 * 128 * 127 // 2:,} rows")
assert abs(total - 15_900) < 400, again.format("14.3")

# %%
progress("14")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - With every position a query, training goes to the **SAtt-SVM**: one set of rows for each position, over
#   the tokens that it sees. A **mask** is exact: the same as separate shorter problems.
# - All positions share $W$. With orthonormal tokens squared norms add up, $1 - 1/m$ for a position that sees
#   $m$. Random ones cost more, with full attention in high dimension by $1/(1 - (T-1)/d)^2$.
# - A position that sees $m$ tokens uses up $\nu_m$ = 0.5, 0.83, 1.09, 1.29, ... of the $d^2$ degrees of
#   freedom, for long contexts about the logarithm. Random choices are feasible up to about
#   $\sum \nu = d^2$; where the rows are independent, every choice is (and sometimes a little before).
# - **Causal** runs are more often global because they have fewer comparisons: other ways to halve them do
#   about as well, and order does not help. Comparisons crowd: how often a position of whole sequences fails
#   depends mainly on the **load**, the comparisons of the batch over $d^2$, and on how many tokens it sees.
# - A decided run is feasible, and in all runs here final where its choice is **locally optimal**. Undecided
#   ones are mostly late.
# - **Padding** without a mask is a token with score 0, and wins where all others are worse. The rest pay with
#   their margin: $\lVert a\rVert^2 = 1$ instead of $1 - 1/m$.
#
# ## Further reading
#
# - D. A. Tarzanagh, Y. Li, C. Thrampoulidis, S. Oymak, *Transformers as Support Vector Machines* (2023,
#   arXiv 2308.16898): the Att-SVM for $W$, and the extension to sequence outputs.
# - D. Amelunxen, M. Lotz, M. B. McCoy, J. A. Tropp, *Living on the Edge: Phase Transitions in Convex
#   Programs with Random Data* (2014, arXiv 1303.6672): degrees of freedom of cones, and the kinematic
#   formula.
# - T. M. Cover, *Geometrical and Statistical Properties of Systems of Linear Inequalities* (1965): the
#   count of exercise 14.4.
#
# That the formula fits attention, and the experiments of section 14.6, are this lesson's own measurements.
#
# **New in the library:** [`data.every_position`](../mini_attn/data.py),
# [`svm.sequence_problem`](../mini_attn/svm/sequence.py); and `mask=` of the data and the SVMs, `lengths=`
# of random tokens.
#
# **Next:** [lesson 15](15_mirror_descent_attention.ipynb): other geometries. What mirror descent does to
# attention.
