# %% [markdown] slideshow={"slide_type": "slide"}
# # 14 · Sequences and causal masks
#
# Up to now one query looked at each sequence. In a transformer *every* token asks, about all tokens of its
# sequence or, in a language model, about those before it. All these queries share one matrix $W$.
#
# **The question: where does training go when every position asks and one W has to answer them all?**
#
# To one SVM over all positions. Whether it has a solution is a matter of counting, and so is the reason why
# causal models reach their best tokens more often.

# %% [markdown]
# **After this lesson you can**
#
# - build causal and padding masks, and say which positions they take out of the loss, the gradient and the
#   SVM;
# - write down the rows of the SVM for sequences of any lengths;
# - predict, before solving anything, at which dimension one $W$ can make a random choice of tokens;
# - say what it costs that all positions share $W$;
# - predict which positions fall for the padding when its mask is forgotten.
#
# **You need** [lesson 06](06_attention_as_svm.ipynb) (the Att-SVM),
# [lesson 07](07_local_global_tokens.ipynb) (global and local choices),
# [lesson 10](10_cross_self_attention.ipynb)
# (the matrix $W$), and lesson 12 (feasibility). About 90 minutes, five exercises.

# %%
import dataclasses

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
# over all $t$, or only $t \le k$ in **causal** attention. Each position has a label $y_{ik} = \pm 1$ of its
# own, and $L$ is the mean loss $\ell(y_{ik} f_{ik})$ over all positions. A mask says who sees whom.

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
# First `real`, (n, T). A pair is visible if both its ends are real: broadcast `real` along two different
# axes. `np.tril` of a square of ones is the causal half.
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
    slope = np.exp(-np.logaddexp(0, (s * scores).sum(-1)))  # |l'(u_ik)|
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
print("with a mask or as separate short problems, whatever the padding holds: the same gradient")

# %% [markdown]
# **A mask is the same as separate shorter problems, exactly.** We filled the padding with numbers of size
# 1,000, and nothing noticed. So no new theory of training is needed: causal self-attention on $n$ sequences
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
# > Informally: descent on $W$ sends $\lVert W\rVert$ to infinity, and its direction to that of
# > $W_{\mathrm{mm}}(\alpha)$ for the choice $\alpha$ that it makes, under the conditions of lessons 07 and
# > 10.

# %% [markdown]
# ### Exercise 14.2: The rows
#
# ★★☆ · 10 minutes
#
# Write $(x_{i\alpha_{ik}} - x_{it})^\top W x_{ik}$ as $\langle A_{ikt}, W\rangle = \sum_{de} A_{de} W_{de}$
# and return all these matrices, ordered by $i$, then $k$, then $t$: one for each comparison, and none for
# tokens that are not seen or positions that do not ask. With selected tokens of all positions given (at
# padding the entry means nothing).
#
# <details><summary>Hint</summary>
#
# Which pairs (k, t) count? Those with `sees[i, k, t]` and `t != selected[i, k]`: `np.nonzero` lists them in
# the right order. $a^\top W b = \langle a\, b^\top, W\rangle$: an outer product for each row, with
# `np.einsum` or in a loop.
# </details>


# %%
@exercise("14.2")
def sequence_rows(X, sees, selected):
    """Return the rows, (rows, d, d), for tokens X (n, T, d), sees (n, T, T) bool, selected (n, T)."""
    ### BEGIN SOLUTION
    i, k, t = np.nonzero(sees & (np.arange(X.shape[1]) != selected[..., None]))
    return np.einsum("rd,re->rde", X[i, selected[i, k]] - X[i, t], X[i, k])
    ### END SOLUTION


# %%
check("14.2", sequence_rows)

# %% [markdown]
# Does training find it? With a causal mask we take **next-step classification**: draw one more token, and
# let the label of position $k$ be the side of the *next* one, $y_{ik} = \mathrm{sign}(v\cdot x_{i,k+1})$.
# Under a full mask position $k$ could look at that token itself; there each position gets a fair coin as
# its label. (Tokens are independent, so for a causal model the next side is a fair coin too. We ask where
# $W$ goes, not what it learns.) Ragged sequences have 2 to 5 tokens, at random.


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
print("30 trials, n = 3, T = 5, d = 20   global  local  other   least cosine to the SAtt-SVM")
shares = {}
for name, (causal, ragged) in settings.items():
    tokens = sequences(3, 5, 20, 30, 2, causal, ragged)
    model = trained(tokens, 600)
    selected = geometry.selected_tokens(model.attention(tokens))
    solution = svm.solve(svm.sequence_problem(tokens, selected))  # raises if one had none
    words = geometry.outcome(model.attention(tokens), tokens)
    cosine = geometry.cosine(model.W, solution.value).min()
    shares[name] = int((words == "global").sum())
    other = 30 - shares[name] - int((words == "local").sum())
    print(f"{name:30s} {shares[name]:9d} {(words == 'local').sum():6d} {other:6d}   {cosine:.3f}")
    assert cosine > 0.999
    assert other == 0
assert shares["full"] < shares["ragged"] < shares["both"]
assert shares["full"] < shares["causal"] <= shares["both"]

# a from-scratch check of the last setting's first trial
one = [
    tokens.X[0].numpy(),
    tokens.mask[0].unflatten(0, (3, 5)).numpy(),
    selected[0].unflatten(0, (3, 5)).numpy(),
]
A = sequence_rows(*one)
leads = np.einsum("rde,de->r", A, solution.value[0].numpy())
assert abs(leads.min() - 1) < 1e-6, again.format("14.2")
library = svm.sequence_problem(tokens, selected)
assert len(A) == int(library.mask[0].sum()), again.format("14.2")

# %% [markdown]
# In each of the 120 runs the direction of $W$ is that of the SAtt-SVM for the tokens it selected. (Some
# runs are late: on other seeds 1 of 600 was still at 0.992, and at 1.000 after ten times as many steps.)
# Nothing is undecided. What differs is *which* tokens are selected: the best ones everywhere ("global") in
# two thirds of the runs with full attention, in more when sequences are ragged or the mask is causal, and
# in nearly all when both. Section 14.6 finds out why.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.4 From the first token to all tokens
#
# How does the SVM grow as more positions ask? Give position $k$ a matrix of its own, $W_k$, the solution
# with the rows of position $k$ alone. Does the $W$ of the first position, the one of lesson 10, help the
# others? And what does it cost that all share one $W$?
#
# **Predict before you run on.** Each $W_k$ is a combination of terms $a\,x_{ik}^\top$. In high dimension
# independent queries are nearly orthogonal. So what are $\lVert W\rVert$ and $W$, in terms of the $W_k$?


# %%
def own_matrices(tokens, T):
    """W of all positions' rows, and W_k of position k's rows alone: (trials, d, d), (T, trials, d, d)."""
    problem = svm.sequence_problem(tokens, tokens.optimal)
    position = torch.arange(problem.r.shape[-1]) // (T - 1) % T  # rows go by sequence, position, token
    alone = []
    for k in range(T):
        mine = (position == k).expand_as(problem.r)
        mine = mine if problem.mask is None else mine & problem.mask
        alone.append(svm.solve(dataclasses.replace(problem, mask=mine), throw=False).value)
    return svm.solve(problem, throw=False), torch.stack(alone)


def norms(W):
    return W.flatten(-2).norm(dim=-1)


print("n = 3, T = 5, best tokens, 30 trials; medians")
print("            d  feasible  |W|^2 / sum |W_k|^2   |W| / largest |W_k|   cosine of W to sum W_k")
ratio = {}
for causal in (False, True):
    for d in (6, 8, 20, 80, 160):
        solution, alone = own_matrices(sequences(3, 5, d, 30, 4, causal), 5)
        fits = torch.as_tensor(solution.status == "optimal")
        W, own = norms(solution.value)[fits], norms(alone)[:, fits]
        ratio[causal, d] = float((W**2 / (own**2).sum(0)).median())
        cost = float((W / own.amax(0)).median())
        cosine = float(geometry.cosine(alone.sum(0), solution.value)[fits].median())
        name = "causal" if causal else "full"
        print(f"{name:7s} {d:5d} {int(fits.sum()):9d} {ratio[causal, d]:12.2f} {cost:21.2f} {cosine:22.3f}")
        assert d < 160 or abs(ratio[causal, d] - 1) < 0.05
        assert d < 160 or cosine > 0.98
        assert causal or d < 160 or abs(cost - 5**0.5) < 0.1
assert ratio[False, 6] > 5
assert ratio[False, 6] > ratio[False, 8] > ratio[False, 20] > ratio[False, 80]

# %% [markdown]
# **In high dimension sharing is an orthogonal sum**: $W \approx \sum_k W_k$ and
# $\lVert W\rVert^2 \approx \sum_k \lVert W_k\rVert^2$. A query $x_{ik}$ hardly feels the terms of the
# others, since $x_{ij} \cdot x_{ik} \approx 0$. The margin $1/\lVert W\rVert$ then shrinks by
# $\sqrt 5 = 2.24$, for five positions of about the same norm. (When causal the first position asks for
# nothing and the early ones for little.) In lower dimension the positions are in each other's way; towards
# the dimension where no $W$ is left, the cost has no bound.

# %%
tokens = sequences(3, 5, 20, 200, 6, causal=False)
_, alone = own_matrices(tokens, 5)
choice = tokens.compare(tokens.z @ alone[0].mT).argmax(-1)  # what W of the first positions makes of them all
hits = (choice == tokens.optimal).unflatten(-1, (3, 5))
opposite = (choice == (-tokens.scores).argmax(-1)).unflatten(-1, (3, 5))
first, others, flipped = (float(a.double().mean()) for a in (hits[..., 0], hits[..., 1:], opposite[..., 1:]))
print(f"W of the first positions: right at {first:.0%} of them, at {others:.0%} of the others")
print(f"and at {flipped:.0%} of the others, had all their labels been the opposite")
assert first == 1
assert abs(others - flipped) < 0.05
assert others < 0.4

# %% [markdown]
# The $W$ of the first tokens knows nothing of the others: it is right for as many of them as it would be
# had their labels been flipped. (With two labels a position's best token is the one with the largest value
# or the one with the smallest, so 0.3 is more than a blind guess among five.) Each position needs rows of
# its own.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.5 When can one W make a choice?
#
# Lesson 12 counted: if the queries are linearly independent and $d \ge T - 1$, every choice is feasible.
# Here there are $nT$ queries (when causal $n(T-1)$ that have a choice), so $d \ge nT$ is enough. It is far
# more than needed. Rows are what must be independent: then any right-hand sides can be met. $W$ has $d^2$
# entries, and there are $nT(T-1)$ rows.

# %%
print("rank of the rows, best tokens")
for n, causal in ((3, False), (3, True), (2, False), (5, False)):
    ranks = []
    for d in range(4, 11):
        problem = svm.sequence_problem(tokens := sequences(n, 5, d, 1, 7, causal), tokens.optimal)
        rows = (problem.a[..., None] * problem.b[..., None, :]).flatten(-2)[0]
        rows = rows if problem.mask is None else rows[problem.mask[0]]
        ranks.append(int(torch.linalg.matrix_rank(rows, rtol=1e-9)))
    name = f"n = {n}, {'causal' if causal else 'full'}, {len(rows)} rows"
    print(f"{name:25s} d = 4 to 10: {ranks}")
    common = [max(0, 10 - d) * max(0, 8 - d) if n == 2 else 0 for d in range(4, 11)]
    assert ranks == [min(d * d, len(rows) - c) for d, c in zip(range(4, 11), common, strict=True)]

# %% [markdown]
# The rank is the smaller of $d^2$ and the number of rows. So for $n = 3$ *every* choice is feasible from
# $d = 8$ on ($64 \ge 60$), when causal from $d = 6$ on: about $\sqrt{n T (T - 1)}$, where the queries would
# ask for $nT = 15$. (One or two sequences are special. At $d = 7$ the rows of two share a subspace of
# dimension $(2T - d)(2(T - 1) - d) = 3$, and it takes $d = 2(T-1) = 8$.)
#
# Below that, *some* choices may fail. The rows of one position all point away from one token, so fewer
# numbers are used up than there are rows. How many?
#
# **One is always feasible**: each token selects itself. With unit tokens $W = I$ gives the leads
# $1 - x_{it} \cdot x_{ik} > 0$, in any dimension. So feasibility is about *which* choice; let us draw one
# at random.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What a choice uses up
#
# A $W$ makes the choice if each position's logits lie in the cone
# $\{h : h_\alpha > h_t \text{ for all } t \ne \alpha\}$. Think of a random target for these logits and let
# it be pulled to the nearest point of the cone. Where the target obeys, nothing is used up. Where a token
# is ahead of the selected one, the two are **pooled**, tied at one height, and each tie takes one of $W$'s
# $d^2$ degrees of freedom.

# %% [markdown]
# ### Exercise 14.3: Pooled
#
# ★★★ · 12 minutes
#
# Row by row: $g$ holds random logits of $m$ tokens, the selected one first. Let $h$ be the point nearest to
# $g$ (least sum of squares) with $h_1 \ge h_t$ for all $t$. Return how many tokens $t \ne 1$ end tied with
# the first, $h_t = h_1$. (There are no ties in $g$ itself.)
#
# <details><summary>Hint</summary>
#
# If the selected token is tied with a set of others, its height is the mean of $g$ over the set and itself
# (why?). The set holds the *largest* of the others. Add them one by one, the largest first: when do you
# stop? Not where the next one is below $g_1$, but where it is below the mean reached so far.
# </details>


# %%
@exercise("14.3")
def pooled(g):
    """Return the number of tokens tied with the first, (draws,) whole numbers, for logits g (draws, m)."""
    ### BEGIN SOLUTION
    others = -np.sort(-g[:, 1:], axis=1)  # the largest first
    total = g[:, :1] + np.cumsum(others, axis=1)
    before = np.concatenate([g[:, :1], total[:, :-1]], axis=1)  # sums that were reached so far
    return np.cumprod(others > before / np.arange(1, g.shape[1]), axis=1).sum(axis=1)
    ### END SOLUTION


# %%
check("14.3", pooled)

# %%
share_of, nu = {1: np.ones(1)}, {1: 0.0}
for m in range(2, 6):
    used = pooled(np.random.default_rng(m).normal(size=(200_000, m)))
    share_of[m], nu[m] = np.bincount(used, minlength=m) / len(used), used.mean()
    print(f"a position that sees {m} tokens: {m - 1} rows, uses up {nu[m]:.2f} degrees of freedom")
assert np.allclose(list(nu.values()), [0, 0.5, 5 / 6, 1.089, 1.295], atol=0.01), again.format("14.3")

# %% [markdown]
# A position that sees $m$ tokens has $m - 1$ rows but uses up $\nu_m$ = 0.5, 0.83, 1.09, 1.29 degrees of
# freedom on average. Half of the random choices should be feasible where
#
# $$d^2 \approx \sum_{i,k} \nu_{m_{ik}}, \qquad m_{ik} \text{ tokens seen by position } k \text{ of } i .$$
#
# > **Theorem** (kinematic formula; see Amelunxen, Lotz, McCoy and Tropp, 2014). Let the logits that some
# > $W$ can make fill a *uniformly random* subspace of dimension $D$, and let $N$ be the number of degrees
# > of freedom used up by all positions, random targets drawn independently. Then
# > $P(\text{feasible}) = 1 - 2\,[\,P(N = D+1) + P(N = D+3) + \dots]$.
#
# Our subspace is not uniformly random: keys and queries are the same few tokens. So this is a prediction,
# with $D = d^2$, and we measure it. (For $T = 2$, one row a position, it is exact: Cover, 1965.)


# %%
def predicted_share(seen, D):
    """The kinematic formula: seen is how many tokens each position sees, D the degrees of freedom of W."""
    number = np.ones(1)
    for m in seen:
        number = np.convolve(number, share_of[m])
    return 1 - 2 * number[D + 1 :: 2].sum()


stored = measured("14.feasible")
found = stored.load()
worst, curves = 0, {}
print("T = 5: share of random choices that are feasible, 300 trials each   (predicted)")
for n in (1, 3, 6):
    for mask in ("full", "causal"):
        seen = n * ([5] * 5 if mask == "full" else [1, 2, 3, 4, 5])
        share = found.random.sel(n=n, T=5, mask=mask).mean("trial").values
        curves[n, mask] = share, np.array([predicted_share(seen, d * d) for d in found.d.values])
        text = "  ".join(f"{a:.2f} ({b:.2f})" for a, b in zip(*(c[:5] for c in curves[n, mask]), strict=True))
        print(f"n = {n}, {mask:6s} d = 2 to 6:  {text}   half at d = {sum(nu[m] for m in seen) ** 0.5:.1f}")
        worst = max(worst, np.abs(np.subtract(*curves[n, mask])).max())
print(f"largest difference {worst:.2f}")
assert worst < 0.12, again.format("14.3")
fresh = stored.part(n=[3], T=[3], mask=["causal"]).random.mean("trial").values.ravel()
assert np.abs(fresh - found.random.sel(n=3, T=3, mask="causal").mean("trial").values).max() < 0.2

# %% jupyter={"source_hidden": true}
fig, axes = plt.subplots(1, 3, figsize=(10, 3.8), sharey=True)
for ax, n in zip(axes, (1, 3, 6), strict=True):
    for mask, color, marker in (("full", ORANGE, "s"), ("causal", BLUE, "o")):
        share, curve = curves[n, mask]
        low, high = wilson(share * 300, 300)
        ax.errorbar(found.d.values, share, [share - low, high - share], fmt=marker, color=color, label=mask)
        ax.plot(found.d.values, curve, "--", color=color, linewidth=1.5)
    rows = [np.sqrt(n * 20), np.sqrt(n * 10)]
    for place, color in zip(rows, (ORANGE, BLUE), strict=True):
        ax.axvline(place, color=color, linestyle=":", linewidth=1.5)
    ax.set(title=f"$n = {n}$", xlabel="dimension $d$", xlim=(1.7, 9.3))
axes[0].set_ylabel("share of feasible choices")
axes[0].plot([], [], "--", color=BLACK, label="predicted")
axes[0].plot([], [], ":", color=BLACK, label="$d^2$ = rows")
axes[0].legend(loc="lower right", fontsize=10)
show(
    fig,
    alt="Share of feasible random choices against the dimension, for 1, 3 and 6 sequences. Each rises from 0 "
    "to 1 within about two dimensions, along the dashed predictions, causal before full; dotted lines where "
    "d squared equals the number of rows lie well to the right.",
)

# %% [markdown]
# **Figure 2.** Shares of random choices that one $W$ can make, with Wilson's 95% intervals (300 trials a
# point, $T = 5$; computed beforehand, a part of them again just now). Dashed: the prediction. Dotted: where
# $d^2$ reaches the number of rows, so that every choice is feasible (for $n = 6$, full, beyond the
# picture).

# %% [markdown]
# Degrees of freedom are what counts. That the tokens of a sequence are shared, as keys and as queries,
# moves the shares a little (by 0.09 at most), and the dimension where they rise not at all. A causal mask
# uses up $3.7\,n$ degrees of freedom where full attention takes $6.5\,n$.
#
# **The best choice is no random choice**: two labels, two candidates per sequence. For *one* sequence with
# full attention we can say exactly when it is feasible.
#
# > **Proposition.** For $n = 1$ and full attention the best choice is feasible if and only if some $q$ has
# > $y_k\, q\cdot x_k > 0$ for all $k$.
#
# *If:* take $W = v q^\top$: position $k$ then has the logits $(q\cdot x_k)(v\cdot x_t)$, largest at the
# token with the largest value where $y_k = 1$, and the smallest where $y_k = -1$. *Only if:* let $a$ be the
# difference of these two tokens. Their comparison reads $y_k\, a^\top W x_k \ge 1$, so $q = W^\top a$ will
# do.

# %% [markdown]
# ### Exercise 14.4: How often can the best be chosen?
#
# ★★☆ · 8 minutes
#
# So predict: the share of feasible best choices is the probability that $T$ random points in $d$ dimensions
# with coins for labels are separated by a plane through the origin. Return it. Let $S(T, d)$ be the number
# of labellings that can be separated (points in general position), so $S(1, d) = S(T, 1) = 2$. Add a point:
# an old labelling can be continued in both ways if its plane can be moved *through* the new point, and else
# in one.
#
# <details><summary>Hint</summary>
#
# Planes through the new point $x$ separate the old points as they look along $x$: projected to $d - 1$
# dimensions. That gives $S(T + 1, d)$ from two numbers with $T$ points. And there are $2^T$ labellings.
# </details>


# %%
@exercise("14.4")
def separable_share(T, d):
    """Return the probability that T random points in d dimensions with random labels are separable."""
    ### BEGIN SOLUTION
    count = np.full(d, 2)  # S(1, 1), ..., S(1, d)
    for _ in range(T - 1):
        count = count + np.r_[0, count[:-1]]
    return count[-1] / 2.0**T
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
# As predicted, while random choices come out differently. With several sequences or a causal mask there is
# no such formula; the stored shares of best choices lie near those of random ones (question 2).

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.6 Why causal models are more often global
#
# Feasible is not the same as found. Descent went to the best tokens of all positions less often with full
# attention than with a causal mask. An explanation is quickly made up: half of the comparisons, hence an
# easier problem. Or is it the *order*, a curriculum from short to long? Two experiments can tell:
#
# - **shuffled**: the $k$-th position sees $k$ random tokens. As many comparisons as when causal, no order;
# - **no runner-up** and **no other one**: full attention, but each position is blind for *one* token, its
#   second best or any other one. Two masks with equally many comparisons, $nT(T - 2) = 45$.
#
# **Predict before you run on**: which masks will have the same share of global runs?


# %%
def misses(part):
    """Which of the 15 positions missed their best token in each run, (..., 15), from one number a run."""
    return (part.missed.values[..., None] >> np.arange(15)) & 1


outcomes = measured("14.outcomes").load()
runs = 240
number = {"full": 60, "causal": 30, "shuffled": 30, "no runner-up": 45, "no other one": 45}
print(f"global runs of {runs}, n = 3, T = 5, 1,000 growing steps; d =", *outcomes.d.values)
global_runs = {}
for mask, count in number.items():
    global_runs[mask] = (outcomes.outcome.sel(mask=mask) == 0).sum("trial").values
    print(f"{mask:14s} {count} comparisons:", *(f"{k:5d}" for k in global_runs[mask]))
assert np.abs(global_runs["causal"] - global_runs["shuffled"]).max() <= 10
assert (global_runs["causal"][2:] > global_runs["full"][2:] + 50).all()
low, high = wilson(np.array([global_runs[m][-1] for m in ("no runner-up", "no other one")]), runs)
assert low[0] > high[1]
second = outcomes.second.sel(d=20).values[..., None] >> np.arange(15) & 1
assert second.sum() / misses(outcomes.sel(d=20)).sum() > 0.98
assert not (outcomes.outcome == 3).any()
repeat = measured("14.outcomes").part(mask=["causal"], d=[8]).outcome.values.ravel()
assert abs((repeat == 0).sum() - (outcomes.outcome.sel(mask="causal", d=8).values[:60] == 0).sum()) <= 3

# %% jupyter={"source_hidden": true}
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
styles = {
    "full": (ORANGE, "s-"),
    "causal": (BLUE, "o-"),
    "shuffled": (BLACK, "x--"),
    "no runner-up": (GREEN, "^-"),
    "no other one": (plots.COLORS["purple"], "v-"),
}
for mask, (color, style) in styles.items():
    share = global_runs[mask] / runs
    low, high = wilson(global_runs[mask], runs)
    left.errorbar(outcomes.d.values, share, [share - low, high - share], fmt=style, color=color, label=mask)
left.set(xlabel="dimension $d$", ylabel="share of global runs", ylim=(-0.03, 1.03), xticks=outcomes.d.values)
left.legend(loc="upper left", fontsize=10)
for mask, color, marker in (("full", ORANGE, "s"), ("causal", BLUE, "o"), ("shuffled", BLACK, "x")):
    rate = misses(outcomes.sel(mask=mask, d=12)).mean(0).reshape(3, 5).mean(0)
    seen = [5] * 5 if mask == "full" else range(1, 6)
    right.plot(seen, rate, marker, color=color, label=mask, markersize=9, fillstyle="none")
right.set(xlabel="tokens that the position sees", ylabel="share of positions that miss", xticks=range(1, 6))
right.set_title("$d = 12$", fontsize=12)
right.legend(loc="upper left")
show(
    fig,
    alt="Left, the share of global runs rises with the dimension for all masks; causal and shuffled coincide "
    "far above full, no runner-up lies above no other one. Right, at d = 12 the share of positions that miss "
    "their best token rises with the number of tokens seen, alike for causal and shuffled, from 0 to 6 "
    "percent; full attention lies a little higher.",
)

# %% [markdown]
# **Figure 3.** Left: shares of global runs, with Wilson's 95% intervals. Right: how often a position misses
# its best token, against the number of tokens that it sees; the five squares of full attention are its five
# positions.

# %% [markdown]
# **Order does not matter.** A causal mask and a random one with the same numbers agree at every $d$.
#
# **The runner-up does.** With one token hidden from each position, the share depends on *which* token.
# Without the runner-up 216 of 240 runs are global at $d = 20$, as many as with the causal mask and its 30
# comparisons; without another token 175. There nearly all misses go to the second best token. A position
# fails where its best two tokens have nearly the same score: its own pull between them is weak, and the
# terms of other positions decide. Each token seen is a chance for a close runner-up.
#
# **Positions are also in each other's way.** Compare positions that see all five tokens: those of full
# attention, among 60 comparisons, and the last ones of causal sequences, among 30.

# %%
print("share of positions that miss their best token")
print("   d   full: 5 tokens seen   causal: 5 tokens seen   causal: all positions")
crowding = {}
for d in outcomes.d.values:
    full = misses(outcomes.sel(mask="full", d=d)).mean()
    causal = misses(outcomes.sel(mask="causal", d=d)).mean(0).reshape(3, 5).mean(0)
    print(f"{d:4d} {full:15.3f} {causal[-1]:22.3f} {causal.mean():23.3f}")
    crowding[d] = full / causal[-1]
    assert 1 < crowding[d] < causal[-1] / causal.mean()
assert 1.5 < max(crowding.values()) < 1.65
assert abs(causal[-1] / causal.mean() - 3.6) < 0.1

# %% [markdown]
# The step from the first column to the second is crowding, a factor of at most 1.6. The step to the third,
# to positions that see fewer tokens, is the larger one at every $d$, and grows to 3.6.
#
# And a run is global if no position fails. If positions failed independently, its probability would be a
# product.

# %%
print("share of global runs (product over the 15 positions of the share that finds its best token)")
for mask in ("full", "causal"):
    text = []
    for d in (6, 8, 12, 20):
        product = np.prod(1 - misses(outcomes.sel(mask=mask, d=d)).mean(0))
        share = global_runs[mask][list(outcomes.d.values).index(d)] / runs
        text.append(f"d = {d}: {share:.2f} ({product:.2f})")
        assert abs(share - product) < 0.06
    print(f"{mask:7s}", "   ".join(text))

# %% [markdown]
# They do, nearly. So a longer sequence or a larger batch is less often global for no deeper reason than
# that more positions may fail. A longer sequence has two: later positions see more, too.

# %% tags=["nbval-ignore-output", "widget"]
at, kept = (0, 3, 10, 30, 100, 300, 1000), {}
for d in (3, 5, 8, 20):
    for causal in (False, True):
        tokens = sequences(3, 5, d, 1, 8, causal)
        model = models.CrossAttention(d, trials=1)
        optimizer = optim.NormalizedGD(model.parameters(), lr=0.1, batch_dims=1)
        record = {"s": lambda model, tokens=tokens: model.attention(tokens)[0, :5]}
        options = {"record": record, "every": at, "schedule": train.growing, "progress": False}
        history = train.fit(model, tokens, optimizer, at[-1], **options)
        kept[d, causal] = history["s"].numpy(), tokens.optimal[0, :5].numpy()


def one_sequence(d, step):
    """Attention of the first sequence, full and causal; a ring marks each position's best token."""
    figure = Figure(figsize=(7, 3.5), layout="none")  # constrained layout would draw twice
    for place, causal in enumerate((False, True)):
        ax = figure.add_axes((0.07 + 0.49 * place, 0.14, 0.43, 0.74))
        s, best = kept[d, causal]
        draw_pattern(ax, s[at.index(step)], np.tri(5, dtype=bool) if causal else np.ones((5, 5), dtype=bool))
        ax.plot(best, range(5), "o", color=ORANGE, markersize=14, fillstyle="none", markeredgewidth=2)
        ax.set_title(f"{'causal' if causal else 'full'}, d = {d}, step {step}", fontsize=12)
    return figure


looks = {"style": {"description_width": "80px"}, "layout": ipywidgets.Layout(width="480px")}
widgets.sliders(
    one_sequence,
    alt="Attention of five positions over five tokens, full and causal, with rings at the best tokens.",
    d=ipywidgets.SelectionSlider(options=(3, 5, 8, 20), value=5, description="d", **looks),
    step=ipywidgets.SelectionSlider(options=at, value=100, description="step", **looks),
)

# %% [markdown]
# One of three sequences (Figure 1 without sliders). Rings: each position's best token. Which positions miss
# it, and how close were their scores? At which $d$ does every position find it?

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.7 Where it breaks
#
# **Small d.** None of the 7,200 stored runs is infeasible, though at $d = 4$ with full attention four
# random choices of five are. It cannot be otherwise: if every position gives one token more than half of
# its attention, then this token is strictly ahead, and $W$ itself, made longer, satisfies the rows. Descent
# ends at choices that *can* be made, or it does not decide.

# %%
print("stored runs of 240:  d  mask     best feasible   global   local   undecided")
for d in (3, 4, 6):
    for mask in ("full", "causal"):
        cell = outcomes.sel(mask=mask, d=d)
        best, words = int(cell.best_feasible.sum()), np.bincount(cell.outcome.values, minlength=4)
        print(f"{d:22d}  {mask:7s} {best:11d} {words[0]:11d} {words[1]:7d} {words[2]:9d}")
        assert words.sum() == runs
        assert words[0] <= best
assert (outcomes.outcome.sel(d=20) < 2).all()

tokens = sequences(3, 5, 2, 60, 9, causal=False)
model = trained(tokens, 1000).requires_grad_()
train.fit(model, tokens, torch.optim.SGD(model.parameters(), lr=20.0), 2000, every=2000, progress=False)
s = model.attention(tokens).detach()
soft = (s.amax(-1) < 0.99).any(-1)
slope = 1 / (1 + (tokens.y * model(tokens).detach()).exp())
pull = s * (tokens.scores - (s * tokens.scores).sum(-1, keepdim=True)) * slope[..., None]
X_of = tokens.X.repeat_interleave(5, dim=1)  # (trials, positions, T, d)
forces = torch.einsum("bqt,bqtd,bqe->bqde", pull, X_of, tokens.z)
left_over = forces.sum(1).flatten(1).norm(dim=-1) / forces.flatten(2).norm(dim=-1).sum(1)
medians = left_over[soft].median(), left_over[~soft].median()
print(f"d = 2: more than half of 60 runs undecided; what remains of the positions' forces: {medians[0]:.2f}")
print(f"in the others: {medians[1]:.1f}")
assert soft.sum() > 30
assert medians[0] < 0.06
assert medians[1] > 0.2

# %% [markdown]
# In an undecided run a few positions hold each other: their attention stays soft, because their forces on
# $W$ cancel but for some percent. What one asks for is what another refuses. (There is no minimum at a
# finite $W$, as a rule: $\lVert W\rVert$ grows on, in directions that the soft positions do not feel.) In
# many decided runs at small $d$ the cosine to the SAtt-SVM is still below 0.99 after 1,000 steps: the
# margin is tiny.

# %% [markdown] slideshow={"slide_type": "subslide"}
# **A forgotten mask.** Suppose a batch of ragged sequences is filled up with zeros, positions that are
# padding are left out of the loss, but the attention is not told. What does training do?
#
# A padding token has the logit $0^\top W x_{ik} = 0$ and the score 0. It is a token like the others. So the
# SVM gets a row $x_{i\alpha_{ik}}^\top W x_{ik} \ge 1$ more per position: leads over 0.

# %% [markdown]
# ### Exercise 14.5: Who falls for the padding?
#
# ★★☆ · 6 minutes
#
# Predict which positions will attend to padding, if each selects the best token on offer. Full attention,
# no mask. `values` holds $v\cdot x_{it}$ (what it holds at padding means nothing), `y` the labels.
# Positions that are padding themselves, and sequences without padding, answer False.
#
# <details><summary>Hint</summary>
#
# Padding offers the score 0. When is that the best offer? Compare with the largest
# $y_{ik}\, v \cdot x_{it}$ over the *real* tokens.
# </details>


# %%
@exercise("14.5")
def falls_for_padding(values, y, lengths):
    """Return which positions attend to padding, (n, T) bool: values, y (n, T), lengths (n,) from 1 to T."""
    ### BEGIN SOLUTION
    real = np.arange(values.shape[1]) < np.asarray(lengths)[:, None]
    scores = np.where(real[:, None], y[..., None] * values[:, None], -np.inf)  # (n, T, T)
    return real & ~real.all(axis=1, keepdims=True) & (scores.max(axis=-1) < 0)
    ### END SOLUTION


# %%
check("14.5", falls_for_padding)

# %%
generator = torch.Generator().manual_seed(10)
ends = torch.randint(1, 5, (60, 3), generator=generator)
base = data.random_tokens(3, 5, 20, trials=60, seed=10, lengths=ends)
coins = 2.0 * torch.randint(0, 2, (60, 3, 5), generator=generator).double() - 1.0
right = data.every_position(base.X, coins, base.v, mask=base.mask)  # zeros where there is padding
asks = right.mask.any(-1)
wrong = dataclasses.replace(right, mask=asks[..., None].expand(right.mask.shape))  # sees the zeros, too
model = trained(wrong, 600)
on_padding = (model.attention(wrong) * ~right.mask).sum(-1) > 0.5
values = (base.X @ base.v[:, None, :, None]).squeeze(-1).numpy()
predicted = np.stack(
    [falls_for_padding(*one) for one in zip(values, coins.numpy(), ends.numpy(), strict=True)]
)
same = (on_padding.numpy() == predicted.reshape(60, 15))[asks].mean()
print(f"predicted and measured agree at {same:.1%} of the positions; share that attends to padding:")
length = ends[..., None].expand(60, 3, 5).reshape(60, 15)
for m in range(1, 5):
    share = float(on_padding[asks & (length == m)].double().mean())
    print(f"sequences of {m} tokens: {share:.2f}   (2 to the power -{m}: {0.5**m:.2f})")
    assert abs(share - 0.5**m) < 0.12, again.format("14.5")
assert same > 0.99, again.format("14.5")

once = torch.arange(5) <= length[..., None]  # the SVM needs one of the equal padding tokens
mixed = dataclasses.replace(wrong, mask=wrong.mask & once)
own = model.attention(wrong).masked_fill(~right.mask, -1.0).argmax(-1)
chosen = torch.where(on_padding, length, own).where(asks, 0)
with_padding = svm.solve(svm.sequence_problem(mixed, chosen))
cosine = geometry.cosine(model.W, with_padding.value)
proper = geometry.selected_tokens(trained(right, 600).attention(right))
correct = svm.solve(svm.sequence_problem(right, proper))
shrinks = float((correct.objective / with_padding.objective).median())
print(f"cosine to the SVM with padding rows: least {cosine.min():.3f}")
print(f"its margin is {shrinks:.2f} of the right one (median)")
assert cosine.min() > 0.99
assert 0.6 < shrinks < 0.85

# %% [markdown]
# The prediction is right at nearly every position. Where all real tokens have a negative score, looking
# away is the best one can do, and the model learns to look away: with $m$ tokens that is a chance of about
# $2^{-m}$ (about, since a sequence's positions share its tokens). The single token of a sequence of length
# 1, which has no choice, suddenly gets one. The others pay too, with a quarter of the margin.
#
# No error message says so. Yet in a batch without a longer sequence the same positions would have no
# padding to look at: what they put out depends on their neighbours in the batch.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14.8 Claim, prediction, measurement
#
# | claim | prediction | measurement |
# |:---|:---|:---|
# | a mask is the same as shorter problems | equal gradients | to 15 digits, whatever the padding holds |
# | $W$ goes to the SAtt-SVM of its choice | cosine 1 | at least 0.999 in 120 of 120 runs, $d = 20$ |
# | sharing is an orthogonal sum, $d$ large | squared norms add up | within 5% at $d = 160$; not at $d = 6$ |
# | how many rows are independent | $\min(d^2, \text{rows})$ | exactly; for $n = 2$ with the correction |
# | a random choice uses up $\nu_m$ a position | kinematic formula | shares within 0.12 |
# | the best choice of one sequence | Cover's count | shares within 0.06 |
# | causal is more often global | fewer runners-up, less crowding | order: no effect; hidden: 216, not 175 |
# | no run ends infeasible | a decided $W$ is the proof | 0 of 7,200 |
# | forgotten padding wins | where all scores are negative | at over 99% of the positions |

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
# At least where one $q$ separates all $nT$ labels: $W = v q^\top$ as in the proposition. At most where a
# $q_i$ separates the labels of each sequence.
# </details>
#
# **3.** A batch has 32 causal sequences of 128 tokens, and $d = 64$. Can one $W$ make any choice? A random
# one? One that training is likely to make?
# <details><summary>Answer</summary>
#
# Any: no, there are $32 \cdot 128 \cdot 127/2$ = 260,096 rows for 4,096 entries. A random one: hardly. From
# the fifth position on each uses up at least 1.29, together more than $32 \cdot 124 \cdot 1.29$ = 5,100.
# Training ends at one that can be made, such as "look at yourself", or stays undecided.
# </details>

# %%
assert 32 * 128 * 127 // 2 == 260_096
assert 32 * 124 * 1.29 > 5_100 > 64**2

# %%
progress("14")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - With every position a query, training goes to the **SAtt-SVM**: one set of rows for each position, over
#   the tokens that it sees. A **mask** is exact: the same as separate shorter problems.
# - All positions share $W$. In high dimension that is an orthogonal sum, and the squared norms add up; near
#   the dimension where no $W$ is left, the price has no bound.
# - A position that sees $m$ tokens uses up $\nu_m$ = 0.5, 0.83, 1.09, 1.29, ... of the $d^2$ degrees of
#   freedom. A random choice is feasible up to about $\sum \nu = d^2$; every choice only where the *rows*
#   number less than $d^2$.
# - **Causal** runs are more often global, because early positions see few tokens and so few close
#   runners-up, and because fewer comparisons are in each other's way. Order is no part of it.
# - Training never ends at an infeasible choice. Where positions contradict each other, it stays soft.
# - **Padding** without a mask is a token with score 0, and wins where all others are worse.
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
# **Next:** lesson 15: other geometries. What mirror descent does to attention.
