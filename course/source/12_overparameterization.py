# %% [markdown] slideshow={"slide_type": "slide"}
# # 12 · Over-parameterisation
#
# Training selects one token of each sequence. Lesson 07 found which choices can last; some of them are not
# the best ones. Large models are said to escape this: with more dimensions than data the landscape becomes
# benign, and training ends at the best tokens.
#
# **The question: how many dimensions are enough, for what, and is it really the dimensions?**
#
# Three answers are hidden in it: when a choice is *possible*, when the best one is *found*, and when it is
# found in *all* sequences at once.

# %% [markdown]
# **After this lesson you can**
#
# - say for which $n, T, d$ every choice of tokens is possible, and prove it by counting;
# - derive the probability that a random choice is possible, exact for $p$ and close for $W$;
# - put an honest band around a share that was counted;
# - check three sufficient conditions for a global run, and say what each of them lacks;
# - say when more dimensions help, and when they do not.
#
# **You need** [lesson 07](07_local_global_tokens.ipynb) (support tokens, local winners) and the matrix $W$
# of [lesson 10](10_cross_self_attention.ipynb). Of [lesson 11](11_key_query_nuclear.ipynb) only this: $W =
# KQ^\top$ can be trained through its factors. About 90 minutes, five exercises.

# %%
import math

import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure
from scipy.optimize import nnls

from course.exercise import check, exercise, progress, todo
from course.figure import show
from course.replicate import lesson_12 as runs
from course.replicate import measured
from mini_attn import data, geometry, losses, plots, svm, widgets
from mini_attn.sweep import sweep, wilson

plots.style()
torch.set_num_threads(1)  # many small tensors: one thread is fastest
np.set_printoptions(precision=3, suppress=True)
BLUE, ORANGE, GREEN, BLACK = (plots.COLORS[name] for name in ("blue", "vermillion", "green", "black"))
again = "this differs from the text: if exercise {} has no tick, start there"

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12.1 The idea in a picture
#
# The data are random: $n$ sequences of $T$ tokens $x_{it}$, queries $z_i$ and a head $v$, uniform on the unit
# sphere of $\mathbb R^d$, and labels $y_i = \pm 1$. The scores are $\gamma_{it} = y_i\, v \cdot x_{it}$.
# We train $p$, $W$ and $(K, Q)$ on the same data, by normalised steps of growing length; $p$ and $W$ start
# from zero, $(K, Q)$ from entries $N(0, 0.1^2)$. A run is **decided** if each sequence gives more than 0.99
# of its attention to one token, **global** if to its best one.
#
# This was done for 48 sizes $(n, T, d)$, 500 data sets each, 72,000 runs. The results are stored with the
# course (`course/replicate/lesson_12.py`); below we compute some of them again.

# %%
names = ("shares", "choices", "wide", "rivals", "orthogonal", "crowded", "load", "tokens", "starts")
stored = {name: measured(f"12.{name}") for name in names}
found = {name: one.load() for name, one in stored.items()}
shares = found["shares"]
is_global, is_local = shares.global_.astype(bool), shares.local.astype(bool)
KINDS = {"p": ("$p$", BLUE, "o"), "W": ("$W$", ORANGE, "s"), "KQ": ("$(K, Q)$", GREEN, "^")}

# 100 of the 500 runs of two cells, here and now: the same call as for the stored ones, on fewer cells
cell = {"kind": ["p", "W"], "n": [4], "T": [3], "d": [8]}
fresh = sweep(runs.shares, cell, 100, batch=100, paired=["kind"], workers=1, progress=False)
agree = (fresh.global_ == shares.global_.sel(**cell, trial=slice(0, 99))).mean("trial").values
print("runs that come out as stored, least share of two cells:", f"{agree.min():.1f}")
assert agree.min() > 0.9  # rounding decides a few runs that hop, and differs between processors
assert is_global.size == 72_000

# %% jupyter={"source_hidden": true}
fig, axes = plt.subplots(1, 2, figsize=(8.5, 3), sharey=True)
for ax, (n, T) in zip(axes, ((2, 3), (8, 6)), strict=True):
    for kind, (name, color, marker) in KINDS.items():
        hits = is_global.sel(kind=kind, n=n, T=T).sum("trial")
        low, high = wilson(hits, 500)
        ax.plot(shares.d, hits / 500, f"{marker}-", color=color, label=name)
        ax.vlines(shares.d, low, high, color=color, linewidth=2.5)
    ax.set(xscale="log", xlabel="dimension $d$", title=f"$n = {n}$ sequences of $T = {T}$ tokens")
    ax.set_xticks([2, 4, 8, 16, 24], ["2", "4", "8", "16", "24"])
    ax.minorticks_off()
axes[0].set(ylabel="share of global runs", ylim=(-0.02, 1.03))
axes[0].legend(loc="lower right")
show(
    fig,
    alt="Share of global runs against d from 2 to 24. Left, two sequences of three tokens: all three models "
    "rise to one, p from 0.7. Right, eight sequences of six tokens: W and (K, Q) rise from near zero to "
    "about 0.9, p only to 0.14.",
)

# %% [markdown]
# **Figure 1.** Share of global runs with 95% bands (exercise 12.4 makes them), 500 runs a point.

# %% [markdown]
# From $d = 4$ to 24 more dimensions help, at every $n$ and $T$. But for $n = 8$, $T = 6$ and $d = 24$ six in
# seven runs of $p$ still miss the best tokens, on data on which $W$ finds them in nine of ten.

# %%
at_24 = {kind: is_global.sel(kind=kind, n=8, T=6, d=24).mean("trial").item() for kind in KINDS}
print("n = 8, T = 6, d = 24:", *(f"{kind} {share:.2f}" for kind, share in at_24.items()))
assert 0.10 < at_24["p"] < 0.18
assert 0.90 < at_24["W"] < 0.96
across = is_global.mean("trial")
assert (across.sel(d=24) > across.sel(d=4)).all()

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12.2 Possible for every choice
#
# A choice $\alpha$ that no $p$ or $W$ separates cannot be selected. The second paper of Tarzanagh and others
# says when that does not happen:
#
# > **Theorem** (Tarzanagh, Li, Thrampoulidis, Oymak, 2023). If $d \ge \max(T - 1, n)$, then for almost all
# > tokens and queries the Att-SVM for $W$ is feasible for *every* choice $\alpha$.
#
# *Why.* If $d \ge n$, the queries $z_i$ are linearly independent, so there is a $W$ with $W z_i = p_i$ for
# any $p_i$ we like. Each sequence is then on its own: it needs a $p_i$ with $p_i \cdot (x_{i\alpha_i} -
# x_{it}) \ge 1$ for $t \ne \alpha_i$. If $d \ge T - 1$, these $T - 1$ differences are linearly independent,
# and a $p_i$ can give them any values. $\square$

# %% [markdown]
# ### Exercise 12.1: Enough dimensions for every choice
#
# ★★☆ · 6 minutes
#
# The proof uses $d \ge n$ to separate the sequences. Is that needed? An Att-SVM for $W$ has a row
# $(x_{i\alpha_i} - x_{it})\, z_i^\top$ for each other token, and every choice is possible if all rows are
# linearly independent. For almost all data they are, as soon as nothing that one can *count* forbids it. Find
# what forbids it, and return the smallest $d$ at which nothing does, for any $n \ge 1$, $T \ge 2$.
#
# <details><summary>Hint</summary>
#
# How many rows are there, and in a space of how many dimensions? Then the same question for the rows of *one*
# sequence, which share $z_i$. (`math.isqrt(k)` rounds a square root down.)
# </details>


# %%
@exercise("12.1")
def enough(n, T):
    """Return the smallest d for which every choice of n sequences of T tokens is possible with a W."""
    ### BEGIN SOLUTION
    d = T - 1
    while d * d < n * (T - 1):
        d += 1
    return d
    ### END SOLUTION


# %%
check("12.1", enough)

# %% [markdown]
# So $d \ge T - 1$ and $d^2 \ge n\,(T - 1)$. For $n \le T - 1$ that is the theorem's bound; for many sequences
# it is far lower: 100 sequences of two tokens need 10 dimensions, not 100. For $p$, with its $d$ numbers, the
# same count gives $d \ge n\,(T - 1)$.
#
# That "nothing else forbids it" is a claim about determinants. A determinant is a polynomial in the data:
# if it is not zero for *one* data set, it is not zero for almost all. If $T - 1$ divides $d$, here is one:
# queries and differences are basis vectors, and all rows are different matrices with a single 1. For other
# $d$ one random data set settles its size. We try all sizes up to $d = 5$, and up to $d = 9$ those at the
# edge, with queries of their own (cross-attention) and with $z_i = x_{i1}$ (self-attention). Beyond, it is a
# conjecture.


# %%
def rows_of_W(X, z, selected):
    """The rows (x_alpha - x_t) z^T as vectors, (..., n (T - 1), d^2)."""
    problem = svm.attention_problem(X, z, selected)
    return (problem.a[..., :, None] * problem.b[..., None, :]).flatten(-2)


def gaussian(n, T, d, trials, seed, self_attention=False):
    """Gaussian tokens (trials, n, T, d) and queries (trials, n, d)."""
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(trials, n, T, d, generator=generator, dtype=torch.float64)
    z = torch.randn(trials, n, d, generator=generator, dtype=torch.float64)
    return X, X[..., 0, :] if self_attention else z


sizes = [(n, T, d) for d in range(1, 6) for T in range(2, d + 2) for n in range(1, d * d // (T - 1) + 2)]
sizes += [(d * d // (T - 1) + k, T, d) for d in range(6, 10) for T in range(2, d + 2) for k in (0, 1)]
as_counted = 0
for n, T, d in sizes:
    for self_attention in (False, True):
        X, z = gaussian(n, T, d, 1, seed=n, self_attention=self_attention)
        rank = torch.linalg.matrix_rank(rows_of_W(X, z, torch.zeros(1, n, dtype=torch.int64))[0], rtol=1e-9)
        as_counted += rank.item() == min(n * (T - 1), d * d)
print(f"rank as counted: {as_counted} of {2 * len(sizes)} (sizes up to d = 9, cross- and self-attention)")
assert as_counted == 2 * len(sizes) == 374
assert enough(100, 2) == 10, again.format("12.1")


def every_choice(kind, n, T, d, problems, seed=0):
    """The share of choices that are feasible in each of some Gaussian problems, (problems,)."""
    X, z = gaussian(n, T, d, problems, seed)
    alpha = torch.as_tensor(np.indices((T,) * n).reshape(n, -1).T.copy())
    alpha = alpha.expand(problems, *alpha.shape)
    X, z = X[:, None].expand(*alpha.shape, T, d), z[:, None].expand(*alpha.shape, d)
    solution = svm.solve(runs.problem(kind, X, z, alpha), throw=False)
    assert set(np.unique(solution.status)) <= {"optimal", "infeasible"}  # each one proved
    return (solution.status == "optimal").mean(axis=1)


print("        n  T  d   rows  numbers   problems  choices  problems in which every choice is possible")
for kind, n, T, d, problems, every in (
    ("W", 4, 2, 2, 150, True),
    ("W", 5, 2, 2, 100, False),
    ("W", 4, 3, 3, 40, True),
    ("p", 3, 3, 6, 60, True),
    ("p", 3, 3, 5, 60, False),
):
    feasible = every_choice(kind, n, T, d, problems)
    numbers, all_of_them = d if kind == "p" else d * d, (feasible == 1).sum()
    row = f"{kind:5s} {n:3d} {T:2d} {d:2d} {n * (T - 1):6d} {numbers:8d} {problems:10d} {T**n:8d}"
    print(row, f"{all_of_them:8d}")
    assert every == (n * (T - 1) <= numbers)
    assert all_of_them == problems if every else all_of_them < (1 if T == 2 else problems - 5)
    assert kind == "p" or d < n  # beyond the theorem
    assert kind == "p" or (enough(n, T) <= d) == every, again.format("12.1")

# %% [markdown]
# With as many rows as numbers, every choice of every problem was possible. With one row too many that is
# over: for two tokens in *every* problem (dependent rows have a combination of signs that fails, and with
# $T = 2$ each is a choice), for $p$ with $T = 3$ in some. In all cases of $W$ the theorem is silent, $d < n$.
#
# This is sharp for "every choice, almost all data". For *your* data less may do: tokens of **one length**
# are all corners of their hull ($p_i = x_{i\alpha_i}$ separates $x_{i\alpha_i}$), so with $d \ge n$ the bound
# $T - 1$ is not needed.

# %% [markdown]
# ### Exercise 12.2: Write down a W for any choice
#
# ★★☆ · 8 minutes
#
# Tokens of length one, linearly independent queries ($d \ge n$): return the $W$ with $W z_i =
# x_{i\alpha_i}$ for all $i$ that has the least Frobenius norm. No SVM is needed.
#
# <details><summary>Hint</summary>
#
# With queries as the rows of $Z$ and selected tokens as the rows of $S$ this says $Z W^\top = S$: $n$
# equations for $d$ unknowns, column by column. Which inverse of $Z$ gives the shortest solution?
# </details>


# %%
@exercise("12.2")
def selector(X, z, alpha):
    """Return W (d, d) with W z_i = x_{i alpha_i}, for tokens X (n, T, d), z (n, d) and alpha (n,) from 0."""
    ### BEGIN SOLUTION
    S = X[np.arange(len(X)), alpha]  # (n, d)
    return (np.linalg.pinv(z) @ S).T
    ### END SOLUTION


# %%
check("12.2", selector)

# %%
many = data.random_tokens(n=4, T=30, d=4, trials=50, seed=1)  # T - 1 = 29 differences in 4 dimensions
least = np.inf
for X, z in zip(many.X.numpy(), many.z.numpy(), strict=True):
    alpha = np.random.default_rng(0).integers(30, size=4)
    h = np.einsum("itd,de,ie->it", X, np.asarray(selector(X, z, alpha)), z)
    least = min(least, min((row[a] - np.delete(row, a)).min() for row, a in zip(h, alpha, strict=True)))
print(f"30 tokens on the sphere in 4 dimensions, 50 problems: smallest lead {least:.5f}, above 0")
assert least > 0, again.format("12.2")

X, z = gaussian(2, 6, 3, 60, seed=3)  # Gaussian tokens, d >= n, but T - 1 = 5 > d = 3
alpha = torch.as_tensor(np.indices((6, 6)).reshape(2, -1).T.copy()).expand(60, 36, 2)
solution = svm.solve(
    svm.attention_problem(X[:, None].expand(60, 36, 2, 6, 3), z[:, None].expand(60, 36, 2, 3), alpha),
    throw=False,
)
alone = svm.token_problem(
    X[:, :, None, None].expand(60, 2, 6, 1, 6, 3), torch.arange(6).expand(60, 2, 6)[..., None]
)
corner = svm.solve(alone, throw=False).status == "optimal"  # (60, 2, 6) is this token a corner of its hull?
both = corner[:, 0, alpha[0, :, 0]] & corner[:, 1, alpha[0, :, 1]]
print(f"Gaussian tokens: {both.size} choices, {both.mean():.2f} corners only: these are possible")
assert ((solution.status == "optimal") == both).all()
assert 0.5 < both.mean() < 0.95

# %% [markdown]
# So for $d \ge n$ the answer is exact, choice by choice: **$\alpha$ is possible if and only if every selected
# token is a corner of the convex hull of its own sequence.** (For $d < n$ that is necessary only.)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12.3 Possible for a random choice
#
# "Every choice" is a worst case. What of *one* choice, drawn without a look at the data? A row is then a
# yes-or-no question with a random answer. If all rows were independent, $N$ questions to $D$ numbers, the
# answer is classical (Cover 1965, Wendel 1962): one half at $N = 2 D$. But the $T - 1$ comparisons
# $x_{i\alpha_i} - x_{it}$ of a sequence share $x_{i\alpha_i}$. They point the same way more often than not,
# and so they cost less than $T - 1$ independent questions. How much less?
#
# Take the logits of one sequence as $T$ independent $N(0, 1)$ numbers, and move them as little as possible to
# where $\alpha$ is ahead: to the nearest $h$ with $h_\alpha \ge h_t$ for all $t$. Some of these constraints
# are tight there. Their number $m$ is what the sequence **uses up**: each one ties down one number. Which
# token is $\alpha$ does not matter; $m$ is random because the logits are. Its mean is called $\nu_T$.


# %%
def distribution(T):
    """P(m = k), k = 0 ... T - 1: tied tokens are above the mean c of themselves and alpha, others below."""
    # c is N(0, 1 / (k + 1)), and independent of how far the k + 1 logits are from it
    x, weight = (torch.as_tensor(a) for a in np.polynomial.hermite_e.hermegauss(60))  # E f = weight @ f(x)
    weight, above = weight / weight.sum(), []  # above[k]: the chance that k given tokens are all above c
    for others in range(T):
        below = [torch.special.ndtr(x / np.sqrt(k + 1)) ** (others - k) for k in range(others)]
        shares = [math.comb(others, k) * above[k] * (weight @ b).item() for k, b in enumerate(below)]
        above.append(1 - sum(shares))  # all of them: what is left
    return np.array([*shares, above[-1]])


share = {T: distribution(T) for T in (2, 3, 4, 5, 8, 10, 16)}
nu = {T: (s * np.arange(T)).sum() for T, s in share.items()}
print("  T   T - 1   (T - 1)/2   nu_T")
for T in nu:
    print(f"{T:3d} {T - 1:6d} {(T - 1) / 2:10.1f} {nu[T]:9.1f}")
assert np.allclose(list(nu.values()), [0.5, 5 / 6, 1.0877, 1.295, 1.7592, 1.9921, 2.5075], atol=1e-4)
assert all(abs(s[::2].sum() - 0.5) < 1e-9 for s in share.values())  # even m: one half (Gauss-Bonnet)
assert np.allclose(np.diff([nu[T] for T in (2, 4, 8, 16)]), [0.59, 0.67, 0.75], atol=0.005)

# %% [markdown]
# Two tokens, one question, half a number: that is Cover's rule. Eight tokens have seven comparisons and use
# up 1.8 numbers, not 3.5. Now add up: all sequences together use up $M = m_1 + \dots + m_n$.
#
# > **Theorem** (conic kinematic formula; Amelunxen, Lotz, McCoy, Tropp 2014). Let the logits that the
# > parameters can make be a uniformly random subspace of dimension $D$. A choice made independently of it is
# > strictly feasible with probability
# >
# > $$P = 2\,\big[\,P(M = D - 1) + P(M = D - 3) + P(M = D - 5) + \dots\,\big],$$
# >
# > with independent $m_i$ as above.
#
# For **Gaussian tokens and $p$** the condition holds with $D = d$: the stacked logits $X p$ are the column
# space of a Gaussian matrix, which has no preferred direction. So there the formula is exact. Half of the
# choices are possible near $n\,\nu_T = d$. For $T = 2$ it is Cover's and Wendel's.
#
# With **$W$** a sequence feels only the $d$ numbers $w_i = W z_i$. Alone it is possible with a probability
# $P_{\mathrm{alone}}$; if it is not, no choice with it is. The $w_i$ with $\alpha_i$ ahead form a cone in
# $\mathbb R^d$. Count again: at its point nearest to a Gaussian $w$, how many comparisons are tight, $m'$? At
# most $d$, and $d$ only at the tip $w = 0$, which is all that an impossible sequence has. Below $d$ nothing
# changes, for $w_i \mapsto X_i w_i$ makes a random subspace of the logits (Crofton's formula, same source):
# $P(m' = k) = P(m = k)$ for $k < d$, exactly.

# %%
generator = np.random.default_rng(5)
tight = np.zeros(4)
for _ in range(4000):  # T = 8, d = 3: the nearest point is w + A^T u, and u > 0 where a row is tight
    x, w = generator.normal(size=(8, 3)), generator.normal(size=3)
    tight[(nnls((x[0] - x[1:]).T, -w)[0] > 0).sum()] += 1 / 4000
print("P(m' = 0, 1, 2) for T = 8, d = 3, measured:", tight[:3].round(2), " P(m = k):", share[8][:3].round(2))
assert np.abs(tight[:3] - share[8][:3]).max() < 0.025

# %% [markdown]
# How many dimensions has the space of all $(w_1, \dots, w_n)$ that a $W$ can make? If it is the whole
# $\mathbb R^{nd}$, the law is exact. If not, take it as a random subspace and use the theorem: for $W$ and
# $d < n$ that is a **heuristic**, as it is not uniformly random.

# %% [markdown]
# ### Exercise 12.3: How often is a random choice possible?
#
# ★★★ · 12 minutes
#
# Given `share`, with `share[k]` $= P(m = k)$ for one sequence of Gaussian tokens ($k = 0 \dots T - 1$),
# return the probability that a random choice is possible, for `kind` "p" or "W" and any $d \ge 1$ ($T$ may be
# above or below $d$). Derive first, for one sequence, $q_k$, the probability that it is possible alone *and*
# uses up $m' = k$ numbers, $k = 0 \dots d$.
#
# <details><summary>Hint</summary>
#
# The theorem with $n = 1$ and $D = d$ gives $P_{\mathrm{alone}}$, to which the $q_k$ add up. `np.convolve`
# gives the distribution of a sum. With $p$ all $w_i$ are equal.
# </details>


# %%
@exercise("12.3")
def probability(share, n, d, kind):
    """Return P(a random choice is possible), for share (T,), n sequences, dimension d and kind "p" or "W"."""
    ### BEGIN SOLUTION
    q = np.append(share, np.zeros(d))[:d]  # below d as before
    alone = 2 * q[::-2].sum()
    q = np.append(q, alone - q.sum())  # the rest of the possible ones, at w = 0
    total = np.ones(1)
    for _ in range(n):
        total = np.convolve(total, q)
    D = d if kind == "p" else d * min(n, d)  # dimensions of all (w_1 ... w_n)
    return 2 * total[:D][::-2].sum()
    ### END SOLUTION


# %%
check("12.3", probability)


# %%
def possible_share(kind, n, T, d, trials, seed=0, sphere=False):
    """The share of random choices that are feasible: token 1 of each sequence will do, tokens are alike."""
    X, z = gaussian(n, T, d, trials, seed)
    if sphere:
        X = X / X.norm(dim=-1, keepdim=True)
    selected = torch.zeros(trials, n, dtype=torch.int64)
    return (svm.solve(runs.problem(kind, X, z, selected), throw=False).status == "optimal").mean()


settings = {
    ("p", 3, 4): (1, 2, 3, 4, 5, 6, 9),
    ("p", 5, 3): (1, 2, 3, 4, 5, 7, 10),
    ("W", 12, 4): (2, 3, 4, 5),
    ("W", 20, 3): (2, 3, 4, 5),
    ("W", 2, 5): (2, 3, 4),
}
measured_share, predicted = {}, {}
for (kind, n, T), dimensions in settings.items():
    measured_share[kind, n, T] = np.array([possible_share(kind, n, T, d, 400, d) for d in dimensions])
    predicted[kind, n, T] = np.array([probability(share[T], n, d, kind) for d in dimensions])
    print(f"{kind}, n = {n}, T = {T}:  d, measured (predicted)")
    pairs = zip(dimensions, measured_share[kind, n, T], predicted[kind, n, T], strict=True)
    print("  ", "  ".join(f"{d}: {a:.2f} ({b:.2f})" for d, a, b in pairs))
    error = np.abs(measured_share[kind, n, T] - predicted[kind, n, T]).max()
    assert error < (0.07 if kind == "W" and n > max(dimensions) else 0.085), again.format("12.3")
cover = [probability(np.array([0.5, 0.5]), 9, d, "p") for d in (3, 4, 5)]  # 9 independent rows instead
print("Cover's count for (p, 3, 4), as if all 9 rows were independent, d = 3, 4, 5:", np.round(cover, 2))
assert (measured_share["p", 3, 4][2:5] - cover > 0.15).all(), again.format("12.3")

print("W, d < n:  n, T, d, measured (predicted), smaller of: m from d^2 numbers, each possible alone")
sizes = {size: found["choices"].possible.sel(size=k).mean().item() for k, size in enumerate(runs.CHOICES)}
sizes[5, 8, 3] = possible_share("W", 5, 8, 3, 400)  # the others: 2,000 choices each
for (n, T, d), counted in sizes.items():
    value, each_alone = probability(share[T], n, d, "W"), probability(share[T], 1, d, "W") ** n
    uncut = probability(share[T], n, d * d, "p")  # as if a sequence could use up more than d
    print(f"{n:5d} {T:2d} {d:2d}   {counted:.2f} ({value:.2f})   {min(uncut, each_alone):.2f}")
    low, high = wilson(counted * 2000, 2000, 0.999)
    assert T > 2 or low < value < high, again.format("12.3")  # exact
    assert value <= each_alone + 1e-9, again.format("12.3")
    assert abs(counted - value) < (0.03 if n != 5 else 0.06), again.format("12.3")
    if (n, T) in ((3, 8), (5, 8)):  # either reason by itself is refused
        assert min(uncut, each_alone) - counted > max(0.04, 2 * abs(counted - value)), again.format("12.3")
fresh = stored["choices"].part(size=[1]).possible
assert (fresh == found["choices"].possible.sel(size=[1], trial=slice(0, 99))).mean() > 0.98

# %% jupyter={"source_hidden": true}
fig, (left, right) = plt.subplots(1, 2, figsize=(7.8, 2.8), sharey=True)
looks = {("p", 3, 4): (BLUE, "o"), ("p", 5, 3): (ORANGE, "s")}
looks |= {("W", 12, 4): (BLUE, "o"), ("W", 20, 3): (ORANGE, "s"), ("W", 2, 5): (GREEN, "^")}
looks |= {("W", 4, 16): (BLACK, "v")}
settings["W", 4, 16], measured_share["W", 4, 16] = (3,), np.array([sizes[4, 16, 3]])
for key, (color, marker) in looks.items():
    kind, n, T = key
    ax, dimensions = (left if kind == "p" else right), settings[key]
    choices = 2000 if T == 16 else 400
    low, high = wilson(np.round(choices * measured_share[key]), choices)
    ax.vlines(dimensions, low, high, color=color, linewidth=2)
    ax.plot(dimensions, measured_share[key], marker, color=color, label=f"$n = {n}$, $T = {T}$")
    every_d = np.arange(1 if kind == "p" else 2, 7 if T == 16 else dimensions[-1] + 1)
    line = [probability(share[T], n, d, kind) for d in every_d]
    ax.plot(every_d, line, "-", color=color, linewidth=1.3)
d_line = np.arange(1, 11)
left.plot(
    d_line,
    [probability(np.array([0.5, 0.5]), 9, d, "p") for d in d_line],
    ":",
    color=BLACK,
    label="9 rows, Cover",
)
for ax, name in ((left, "$p$"), (right, "$W$")):
    ax.set(xlabel="dimension $d$", title=name)
    ax.legend(loc="lower right")
right.set(xlim=(1.85, 6.8), xticks=range(2, 7))
left.set(ylabel="share of random choices possible", ylim=(-0.03, 1.05))
show(
    fig,
    alt="Share of possible random choices against d. Left, p: two rising curves with points on them, and a "
    "dotted curve of Cover's count that rises later. Right, W: rising curves with points on or near them.",
)

# %% [markdown]
# **Figure 2.** Measured shares (points, bars: 95%; 400 choices each, 2,000 for $T = 16$) and the prediction
# (lines). Dotted: Cover's count, as if the nine comparisons of $n = 3$, $T = 4$ were independent.

# %% [markdown]
# For $p$ and for $W$ with $d \ge n$ the law is exact; there it says $P_{\mathrm{alone}}^n$. For $W$, $d < n$
# and $T = 2$ it is exact too: rows $x\, z_i^\top$ are as likely as their negatives and in general position,
# and this is all that Wendel asks for. For $T > 2$ it stays a heuristic, here within 0.03 of each count.
# Too few numbers, or a sequence impossible alone: the smaller of these two says too much where both bind,
# 0.54 for $n = 5$, $T = 8$, $d = 3$, where the law has 0.42.
#
# Compare the two thresholds. *Every* choice needs as many numbers as there are rows, $T - 1$ a sequence; a
# *random* one about $\nu_T$ a sequence: the doublings of $T$ from 2 to 16 add 0.59, 0.67 and 0.75. On the
# sphere more is possible at small $d$, where every token is a corner.

# %%
few = possible_share("W", 2, 5, 2, 200, sphere=True)
print(f"W, n = 2, T = 5, d = 2: on the sphere {few:.1f}, Gaussian {measured_share['W', 2, 5][0]:.1f}")
assert few == 1
assert measured_share["W", 2, 5][0] < 0.8

# %% [markdown]
# **Try it.** The probability for $p$ and $W$, with marks where *every* choice is possible. Predict: you
# double $T$. Which moves more, the curve or its mark?
#
# <details><summary>Answer</summary>
#
# The mark: $T - 1$ more than doubles; $\nu_T$ grows from 1.1 to 1.8 between 4 and 8 tokens.
# </details>

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output", "widget"]
SHARES = {T: distribution(T) for T in range(2, 9)}


def possibility(n, T):
    figure = Figure(figsize=(5, 3), layout="none")
    ax = figure.add_axes((0.14, 0.19, 0.83, 0.69))
    d = np.arange(1, 41)
    for kind, color, mark in (("p", BLUE, n * (T - 1)), ("W", ORANGE, enough(n, T))):
        ax.plot(
            d,
            [min(probability(SHARES[T], n, k, kind), 1) for k in d],
            "o-",
            color=color,
            markersize=4,
            label=kind,
        )
        ax.axvline(mark, color=color, linestyle="--")
    ax.set(xlim=(0, 40), ylim=(-0.03, 1.05), xlabel="dimension d", ylabel="share of choices possible")
    ax.set_title(f"dashed: every choice, p from {n * (T - 1)}, W from {enough(n, T)}", fontsize=11)
    ax.legend()
    return figure


wide = {"style": {"description_width": "90px"}, "layout": ipywidgets.Layout(width="440px")}
widgets.sliders(
    possibility,
    alt="The probability that a random choice is possible against d, for p and W, with dashed marks.",
    n=ipywidgets.IntSlider(value=6, min=1, max=12, description="sequences", **wide),
    T=ipywidgets.IntSlider(value=4, min=2, max=8, description="tokens", **wide),
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12.4 What the runs come to
#
# Possible is not found. Now all cells of the stored sweep, with a band for each share.
#
# ### Exercise 12.4: Shares that a count does not refute
#
# ★★☆ · 8 minutes
#
# You count $k$ successes in $m$ independent runs. Which true shares $q$ are consistent with that? Those from
# which the count is at most $z$ standard deviations away,
#
# $$\Big(\frac km - q\Big)^2 \le z^2\, \frac{q\,(1 - q)}{m}.$$
#
# Return the smallest and the largest such $q$. (Here $m$ and $k$ are counts; $z$ is the 1.96 of a 95% band.)
#
# <details><summary>Hint</summary>
#
# Multiply out: a quadratic in $q$, whose two roots are the ends. At $k = 0$ the lower end is 0.
# </details>


# %%
@exercise("12.4")
def band(k, m, z):
    """Return (low, high) for k successes in m runs and z standard deviations."""
    ### BEGIN SOLUTION
    middle, half = k + z**2 / 2, z * np.sqrt(k * (m - k) / m + z**2 / 4)
    return (middle - half) / (m + z**2), (middle + half) / (m + z**2)
    ### END SOLUTION


# %%
check("12.4", band)

# %%
assert np.allclose(band(140, 500, 1.959964), wilson(140, 500), atol=1e-6), again.format("12.4")
widest = max(high - low for low, high in (wilson(k, 500) for k in range(501)))
print(f"widest band of 500 runs: {widest:.3f}, that is plus or minus {widest / 2:.3f}")
assert 0.086 < widest < 0.088

undecided = ~is_global & ~is_local
ruled_out = ~shares.possible.astype(bool)
classes = {
    "global": is_global,
    "local, global possible": is_local & ~ruled_out,
    "local, global impossible": is_local & ruled_out,
    "undecided, global possible": undecided & ~ruled_out,
    "undecided, global impossible": undecided & ruled_out,
}
counts = {name: [int(of.sel(kind=kind).sum()) for kind in KINDS] for name, of in classes.items()}
print(f"{'runs':30s}" + "".join(f"{kind:>8s}" for kind in KINDS))
for name, row in counts.items():
    print(f"{name:30s}" + "".join(f"{k:8d}" for k in row))
assert np.sum(list(counts.values()), axis=0).tolist() == [24_000] * 3  # every run, once
assert not (is_global & ruled_out).any()

# %% jupyter={"source_hidden": true}
fig, axes = plt.subplots(1, 3, figsize=(9, 3.1), sharey=True)
labels = [f"{n}, {T}" for n in (2, 4, 8) for T in (3, 6)]
for ax, (kind, (name, _, _)) in zip(axes, KINDS.items(), strict=True):
    table = is_global.sel(kind=kind).mean("trial").transpose("n", "T", "d").values.reshape(6, 8)
    ax.imshow(table, cmap="cividis", vmin=0, vmax=1, aspect="auto")
    for (row, column), value in np.ndenumerate(table):
        text = f"{100 * value:.0f}"
        ax.text(
            column,
            row,
            text,
            ha="center",
            va="center",
            fontsize=9,
            color="white" if value < 0.45 else "black",
        )
    if kind == "W":
        for row, bound in enumerate(min(n, enough(n, T)) for n in (2, 4, 8) for T in (3, 6)):
            column = np.searchsorted(shares.d.values, bound) - 0.5
            for color, width in (("black", 5), ("white", 2.5)):
                ax.plot([column] * 2, [row - 0.45, row + 0.45], color=color, linewidth=width)
        ax.set_xlim(-0.62, 7.5)
    ax.grid(False)
    ax.set(title=name, xlabel="$d$")
    ax.set_xticks(range(8), shares.d.values)
axes[0].set_yticks(range(6), labels)
axes[0].set_ylabel("$n$, $T$")
show(
    fig,
    alt="Three heat maps, for p, W and (K, Q): share of global runs for six pairs of n and T and eight "
    "dimensions. Shares rise to the right and fall downwards; p stays far below the other two for n = 8.",
)

# %% [markdown]
# **Figure 3.** Global runs in percent, 500 a cell, 95% bands at most 4.4 to either side. White lines in the
# middle: from there on every choice is possible for $W$ (for $n = 2$, the whole row). These tokens lie on the
# sphere, so $d \ge n$ is enough, and so is the bound of exercise 12.1: the line is the smaller of the two.

# %% [markdown]
# No run was global where the SVM says that this is impossible. (Nor could it be: a decided run *is* a
# separating $p$ or $W$.) Past the white lines nothing is impossible, and still shares are as low as 0.6:
# **being possible is not being found**.

# %%
beyond = [
    is_global.sel(kind="W", n=n, T=T, d=d).mean("trial").item()
    for n in (2, 4, 8)
    for T in (3, 6)
    for d in shares.d.values
    if d >= min(n, enough(n, T))
]
print(f"cells of W beyond the lines: {len(beyond)}, least share {min(beyond):.2f}")
assert 0.55 < min(beyond) < 0.65

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12.5 What makes a run global
#
# Three conditions are offered. (i) *The first gradient favours the best tokens.* (ii) *All other tokens of a
# sequence have equal scores*, or the best is far ahead. (iii) *There is no other local winner.* The papers
# prove global convergence under conditions of the first two kinds, worded differently from ours. We try
# each on each run, the second in section 12.6.
#
# The first needs one gradient: take $W = -\nabla L(0)$, with $L = \frac1n \sum_i \ell(u_i)$ and $\ell(u) =
# \log(1 + e^{-u})$, and ask whether every best token is ahead at it.

# %%
wide_runs = found["wide"]  # n = 3, T = 4, 64 choices, d = 4 ... 512
fresh = stored["wide"].part(kind=["W"], d=[8])
same = (fresh.code.values == wide_runs.code.sel(kind=["W"], d=[8], trial=slice(0, 99)).values).mean()
assert same > 0.97

print("kind  condition                 holds   global   | global runs that it does not explain")
for kind in ("p", "W"):
    code, possible = (wide_runs[name].sel(kind=kind).values for name in ("code", "possible"))
    favoured = wide_runs.favoured.sel(kind=kind).values.astype(bool)
    unrivalled = (wide_runs.wrong.sel(kind=kind).values == 0) & possible.astype(bool)
    for name, holds in (("first gradient favours", favoured), ("no other local winner", unrivalled)):
        right, rest = (holds & (code == 2)).sum(), (~holds & (code == 2)).sum()
        print(f"{kind:5s} {name:24s} {holds.sum():6d} {right:8d}   | {rest:8d}")
        assert right == holds.sum() - (kind == "p" and name[0] == "f")
    neither = (~favoured & ~unrivalled & (code == 2)).sum()
    print(f"      global with neither: {neither} of {(code == 2).sum()}; not global: {(code != 2).sum()}")
for kind, (holds, fails) in {"p": (4899, 38), "W": (8359, 11)}.items():
    favoured = shares.favoured.astype(bool).sel(kind=kind)
    assert (favoured.sum().item(), (favoured & ~is_global.sel(kind=kind)).sum().item()) == (holds, fails)

# %% [markdown]
# **No other local winner**, *and the global choice possible*: every one of these runs is global. That is an
# observation, not a theorem: a run might not separate at all.
#
# **The first gradient** costs nothing, and is right but for one run. It is not a theorem as it stands: in
# the sweep of section 12.4 it fails in 38 of 4,899 runs of $p$, in 11 of 8,359 of $W$. The
# gradient is the *first* step only: a lead that is barely positive can be lost while logits are small. How
# far must a run be, that its leads are safe?
#
# ### Exercise 12.5: How low is safe?
#
# ★★☆ · 10 minutes
#
# A best token that is not ahead of all others costs something, in the loss $L = \frac1n \sum_i \ell(u_i)$.
# Return the largest level such that a loss *below* it proves, whatever the tokens and queries, that every
# best token is ahead. Only the scores are given ($T \ge 2$, the best one of each sequence is unique). Here
# $u_i = \sum_t s_{it} \gamma_{it}$ with attention $s_i$; the others may have any attention.
#
# <details><summary>Hint</summary>
#
# When the best token of a sequence is not ahead of all others, how much attention has it at most? What is
# then the largest $u_i$? And what is the least that the other sequences can cost?
# </details>


# %%
@exercise("12.5")
def safe_level(scores):
    """Return the level of the loss below which no lead can be lost, for scores (n, T)."""
    ### BEGIN SOLUTION
    second, best = np.sort(scores, axis=1)[:, -2:].T
    least = np.logaddexp(0, -best)  # the cost of a sequence with all its attention on the best token
    caught = np.logaddexp(0, -(best + second) / 2)  # half of it on the runner-up
    return (least.sum() + (caught - least).min()) / len(scores)
    ### END SOLUTION


# %%
check("12.5", safe_level)

# %% [markdown]
# > **Proposition.** Let the loss be below
# >
# > $$\frac1n \Big[\sum_j \ell(\gamma_j) + \min_i
# > \big(\ell(\tfrac12 (\gamma_i + \gamma_i')) - \ell(\gamma_i)\big) \Big],$$
# >
# > with the best score $\gamma_i$ and the second best $\gamma_i'$ of each sequence. Then every best token is
# > ahead, and stays ahead while the loss does not grow: a run that decides is global.
#
# *Why.* A best token that is not ahead has at most half of the attention, so $u_i \le \frac12 (\gamma_i +
# \gamma_i')$; elsewhere $u_j \le \gamma_j$; $\ell$ falls. Some logits come as near to this level as one
# likes: half and half on the two, all on the best elsewhere. $\square$
#
# The test: *start* all favoured problems at $R$ times the first direction, $R = 0$, 30 and 300, the rest
# being equal, and call a start **far** if its loss is below the level.


# %%
def with_keys(keys, z, scores):
    """TokenData with these keys, queries and scores."""
    X, v = torch.zeros_like(keys), torch.zeros_like(z[..., 0, :])
    X[..., 0], v[..., 0] = scores, 1
    return data.TokenData(X=X, z=z, y=torch.ones_like(scores[..., 0]), v=v, keys=keys)


def take(tokens, index):
    return data.TokenData(**{k: getattr(tokens, k)[index] for k in ("X", "z", "y", "v", "keys")})


def first_direction(kind, tokens):
    """-grad L(0), of length one."""
    model = runs.attend(kind, tokens.keys.shape[-1], len(tokens.keys))
    losses.logistic(tokens.y * model(tokens)).mean(-1).sum().backward()
    g = -next(model.parameters()).grad
    return g / g.flatten(1).norm(dim=1).reshape(-1, *[1] * (g.ndim - 1))


def end(kind, tokens, steps=400, init=None):
    """0, 1 or 2 for each run, as in the sweep."""
    model = runs.attend(kind, tokens.keys.shape[-1], len(tokens.keys), init=init)
    return runs.words(runs.descend(model, tokens, steps), tokens)


def is_far(kind, tokens, init):
    """Whether the loss at this start is below the safe level, (trials,)."""
    model = runs.attend(kind, tokens.keys.shape[-1], len(tokens.keys), init=init)
    level = [float(safe_level(scores)) for scores in tokens.scores.numpy()]
    return losses.logistic(tokens.y * model(tokens).detach()).mean(-1) < torch.tensor(level)


generator = np.random.default_rng(2)
closest = np.inf
for _ in range(2000):  # logits at which the best token of sequence 0 has just been caught up
    scores, h = 2 * generator.normal(size=(2, 3)), generator.normal(size=(2, 3)) * generator.uniform(0, 20)
    best = scores.argmax(axis=1)
    h[0, best[0]] = np.delete(h[0], best[0]).max()
    h[1, best[1]] += 20
    attention = np.exp(h - h.max(axis=1, keepdims=True))
    u = (attention * scores).sum(axis=1) / attention.sum(axis=1)
    closest = min(closest, np.logaddexp(0, -u).mean() - safe_level(scores))
print(
    "2,000 logits with a best token caught up: loss above the safe level, least below 0.001:", closest < 1e-3
)
assert -1e-9 < closest < 1e-3, again.format("12.5")

base = {
    "W": data.random_tokens(4, 4, 6, trials=1000, seed=7),
    "p": data.random_tokens(4, 4, 12, trials=1000, seed=7),
}
base["p "] = data.random_tokens(4, 3, 4, trials=1000, seed=8)
counted = 0
print(
    "starts at R = 0, 30, 300 along -grad L(0), favoured problems of 1,000: global, far, far and not global"
)
for name, tokens in base.items():
    kind = name.strip()
    index = (runs.first_leads(kind, tokens) > 0).all(dim=-1).nonzero()[:, 0]
    chosen = take(with_keys(tokens.X, tokens.z, tokens.scores), index.repeat(3))  # one batch for all R
    R = torch.tensor([0.0, 30.0, 300.0]).repeat_interleave(len(index))
    direction = first_direction(kind, chosen)
    start = R.reshape(-1, *[1] * (direction.ndim - 1)) * direction
    won, far = (end(kind, chosen, 600, start) == 2).reshape(3, -1), is_far(kind, chosen, start).reshape(3, -1)
    found_here = torch.stack([won.sum(1), far.sum(1), (far & ~won).sum(1)])
    n, T, d = tokens.X.shape[-3:]
    print(f"  {kind}, n = {n}, T = {T}, d = {d}: of {len(index)}", *found_here.tolist())
    counted = counted + torch.cat([torch.full((3, 1), len(index)), found_here], dim=1)
assert counted[0].tolist() == [502, 499, 501, 502]
assert counted[1, 1:].tolist() == [0, 322, 488]
assert (counted[2, 1:] == 0).all()

# %% [markdown]
# From $R = 300$ none of the 502 is lost here, from 30 one, from 0 three. **Far** is sufficient while the loss
# does not grow. With our growing steps it may, and still none of the 810 far starts (322 at $R = 30$, 488 at
# 300) is lost. It is not necessary: at $R = 0$ none is far and 499 win.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12.6 When all others score alike *(optional)*
#
# Condition (ii). We change nothing but the scores. Either all tokens but the best get one score; or the best
# gets a bonus, in units of the scores' standard deviation.

# %%
settings = {("W", 4, 3): (330, 345), ("p", 4, 12): (370, 385), ("p", 1, 3): (400, 400)}
print("global runs of 400:  equal others   +0   +4  +16   undecided with +16")
for (kind, n, d), (low, high) in settings.items():
    tokens = data.random_tokens(n, 4, d, trials=400, seed=5)
    assert runs.possible(kind, tokens).all()
    best = torch.zeros_like(tokens.scores).scatter(-1, tokens.optimal[..., None], 1.0)
    raised = [tokens.scores + bonus * tokens.scores.std() * best for bonus in (0, 4, 16)]
    same_data = tokens.X.repeat(4, 1, 1, 1), tokens.z.repeat(4, 1, 1)
    code = end(kind, with_keys(*same_data, torch.cat([best, *raised]))).reshape(4, 400)
    equal, *won = (code == 2).sum(dim=1).tolist()
    waiting = (code[-1] == 0).sum().item()
    name = f"{kind}, n = {n}, d = {d}:"
    print(f"{name:19s}{equal:15d} {won[0]:6d} {won[1]:4d} {won[2]:4d} {waiting:8d}")
    assert low <= equal <= high
    assert won[0] + 2 < won[1] <= won[2] + 4
    assert won[2] + waiting >= 398  # at most two decide for other tokens
    assert 20 < waiting < 40 if kind == "W" else waiting < 4
crowd8 = data.random_tokens(8, 4, 8, trials=400, seed=5)
best = torch.zeros_like(crowd8.scores).scatter(-1, crowd8.optimal[..., None], 16.0)
code = end("p", with_keys(crowd8.X, crowd8.z, crowd8.scores + crowd8.scores.std() * best), 1500)
can = runs.possible("p", crowd8)
ends = [[(code[which] == k).sum().item() for k in (2, 0, 1)] for which in (can, ~can)]
print("p, n = 8, d = 8, +16, after 1,500 steps: shares global, undecided, at wrong tokens")
for name, row in zip(("possible", "impossible"), ends, strict=True):
    print(f"  best choice {name} ({sum(row)}):", *(f"{k / sum(row):.1f}" for k in row))
assert sum(ends[0]) == 166
assert ends[0][2] < 6 < 45 < ends[0][1] < 60
assert ends[1][0] == 0 < 0.55 * 234 < ends[1][2] < 0.65 * 234

# %% [markdown]
# One sequence with equal other scores: all 400 runs are global, as the theorem of lesson 06 has it. With four
# sequences they are not, though no other token has anything to offer and the best choice is feasible. **Each
# sequence would need a say in $p$: a tight constraint of its own.**
#
# Suppose a sequence nears a wrong token $a$. Its pull on a logit is $s_t\, (\gamma_t - \bar\gamma)$, and
# $\bar\gamma$ nears $\gamma_a$: tokens of equal score do not push each other. Only the row of the *best*
# token pulls, and towards the best. If that row is slack, nothing holds the sequence: the others decide where
# $p$ points, and it follows. So $p$ should end at the $p_{\mathrm{mm}}$ of the right sequences **alone**, and
# not at the one of all selected tokens, which asks equal tokens for a lead of 1. We try it on the lost runs.

# %%
tokens = data.random_tokens(4, 4, 12, trials=400, seed=5)
best = torch.zeros_like(tokens.scores).scatter(-1, tokens.optimal[..., None], 1.0)
tied = with_keys(tokens.X, tokens.z, best)
model = runs.attend("p", 12, 400)
attention = runs.descend(model, tied, 800)
selected = geometry.selected_tokens(attention)
lost = ((selected != tied.optimal).any(1) & (attention.amax(-1) > 0.99).all(1)).nonzero()[:, 0]
X, alpha, opt = tokens.X[lost], selected[lost], tied.optimal[lost]
wrong = alpha != opt
alone = np.stack(
    [svm.solve(svm.token_problem(x[~w], a[~w])).value for x, w, a in zip(X, wrong, alpha, strict=True)]
)
together = svm.solve(svm.token_problem(X, alpha)).value
cosine = [
    torch.nn.functional.cosine_similarity(model.p.detach()[lost], torch.as_tensor(limit)).numpy()
    for limit in (alone, together)
]
h = torch.einsum("ritd,rd->rit", X, torch.as_tensor(alone))
leads = (h.gather(-1, alpha[..., None]) - h)[wrong]  # of the wrong tokens, at the limit `alone`
over_best = leads.gather(-1, opt[wrong][:, None])[:, 0]
below_one = ((leads < 1).sum(-1) > 1).sum().item()  # besides the token itself
least, full = over_best.min(), cosine[1]
print(f"lost runs: {len(lost)}, with {wrong.sum()} wrong sequences. At the p_mm of the right ones alone")
print(f"  their lead over the best token is {least:.1f} or more, over an equal one below 1 in {below_one}")
print(f"cosine of p with that p_mm: least {cosine[0].min():.3f};")
print(f"  with the p_mm of all selected tokens: median {np.median(full):.2f}, least {full.min():.2f}")
assert len(lost) > 10
assert over_best.min() > 1
assert below_one > 0.8 * len(leads)
assert cosine[0].min() > 0.999 > 0.99 > np.median(cosine[1])

# %% [markdown]
# That is where it goes, in every lost run. The row of the best token is slack, as it must be: a tight one
# would pull $p$ back. The rows of the equal tokens are *violated* in most, and nothing minds: with ties
# lesson 06's limit has to be read without them.
#
# A *large bonus* does most: at $n = 4$ and $n = 1$ hardly a run with $+16$ ends at wrong tokens (0 to 2 of
# 400 on other seeds), though some of $W$ are undecided after 400 steps. It needs the best choice to be
# possible. For $p$ with $n = d = 8$ that mostly fails, and then three in five runs end elsewhere; where it
# holds, two in three are global after 1,500 steps, and nearly all others undecided.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12.7 Why dimensions help
#
# Call another local winner a **rival**. For $n = 3$, $T = 4$ all 64 choices can be tried. Let $d$ grow to
# 512. (For $d > nT$ we first rotate into the span of the tokens: only inner products count.)

# %%
table = {}
for kind in ("p", "W"):
    part = wide_runs.sel(kind=kind)
    has = {"global": part.code == 2, "favoured": part.favoured, "no rival": part.wrong == 0}
    has |= {"rivals": part.wrong, "all tight": part.tight / 64}
    table[kind] = {name: values.mean("trial").values for name, values in has.items()}
    print(kind, "  d" + "".join(f"{name:>10s}" for name in has))
    for k, d in enumerate(part.d.values):
        print(f"{d:5d}" + "".join(f"{values[k]:10.2f}" for values in table[kind].values()))
    assert (np.diff(table[kind]["no rival"]) >= 0).all()
    assert table[kind]["global"][-1] == table[kind]["no rival"][-1] == 1
    assert table[kind]["favoured"][-1] < 0.95

# %% jupyter={"source_hidden": true}
fig, axes = plt.subplots(1, 2, figsize=(7.4, 3.1), sharey=True)
for ax, (kind, columns) in zip(axes, table.items(), strict=True):
    d = wide_runs.d.values
    for key, color, marker, name in (
        ("global", BLACK, "o", "global"),
        ("no rival", ORANGE, "s", "no rival"),
        ("favoured", BLUE, "^", "favoured by first gradient"),
        ("all tight", GREEN, "v", "choices with all rows tight"),
    ):
        ax.plot(d, columns[key], f"{marker}-", color=color, label=name)
    ax.set(xscale="log", xlabel="dimension $d$", title=f"${kind}$")
    ax.set_xticks([4, 16, 64, 256], ["4", "16", "64", "256"])
    ax.minorticks_off()
axes[0].set(ylabel="share", ylim=(-0.03, 1.05))
fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=10)
show(
    fig,
    alt="Shares against d from 4 to 512, p left, W right. Global rises to one first, then no rival, behind "
    "it choices with all rows tight; favoured by the first gradient rises slowest and is still below one at "
    "512.",
)

# %% [markdown]
# **Figure 4.** $n = 3$, $T = 4$, 500 data sets a point. Most runs are global well before the rivals are gone.

# %% [markdown]
# **It is not the first gradient.** At $d = 512$ it still leaves more than one run in twenty without favour,
# and all runs are global.
#
# **It is the rivals.** Are they also *escaped* more easily in more dimensions? Of $p$'s
# problems with a rival 46% are global at $d = 4$ and 94% at $d = 64$. But the mix changes: five rivals a
# problem at $d = 4$, 1.3 at $d = 64$. So compare problems with the *same* number of rivals.


# %%
def rise(won, doublings, group):
    """What a share gains per doubling of d within groups of alike problems, and its standard error."""
    gain = variance = size = 0.0
    for name in np.unique(group):
        y, x = won[group == name], doublings[group == name] - doublings[group == name].mean()
        gain, variance, size = gain + (y - y.mean()) @ x, variance + y.var() * (x @ x), size + x @ x
    return gain / size, np.sqrt(variance) / size


groups = {"1": (1, 1), "2": (2, 2), "3": (3, 3), "4 - 6": (4, 6), "7 or more": (7, 64)}
for kind, last in (("p", 5), ("W", 3)):
    part = wide_runs.sel(kind=kind).isel(d=slice(last)).transpose("d", "trial")
    rivals, won, can = part.wrong.values, part.code.values == 2, part.possible.values.astype(bool)
    print(f"{kind}, best choice possible: global, of the problems with that many rivals")
    print("rivals   " + "".join(f"{f'd = {d}':>16s}" for d in part.d.values))
    counts = {}
    for name, (low, high) in groups.items():
        these = can & (rivals >= low) & (rivals <= high)
        counts[name] = (won & these).sum(axis=1), these.sum(axis=1)
        row = zip(*counts[name], strict=True)
        cells = (f"{f'{a} of {b}':>11s} {f'{a / b:.2f}' if b else '':4s}" for a, b in row)
        print(f"{name:9s}" + "".join(cells))
    has = rivals > 0
    pooled, mean = (np.average(a, axis=1, weights=has) for a in (won, rivals))
    print("best choice impossible:", (has & ~can).sum(axis=1), "  mean number of rivals:", mean.round(1))
    print("all problems with a rival:", pooled.round(2))
    one = np.divide(*counts["1"])
    assert np.ptp(one) < 0.06 < 0.12 < np.ptp(pooled)  # along a row little, pooled a rise
    if kind == "p":
        one, many = (np.sum(counts[name], axis=1) for name in ("1", "4 - 6"))
        assert one[0] / one[1] - many[0] / many[1] > 0.35  # down a column it falls
        assert ((has & ~can).sum(axis=1)[0], has.sum(axis=1)[0]) == (125, 423)

print("share gained per doubling of d:  all with a rival  at equal rivals (standard error)  no rival: global")
elsewhere, alone = found["rivals"], np.zeros(2, dtype=int)
for kind, last, low, high in (("p", 64, 0.105, 0.175), ("W", 16, 0.03, 0.1)):
    for n, T, part in ((3, 4, wide_runs), (4, 3, elsewhere.isel(size=0)), (2, 6, elsewhere.isel(size=1))):
        part = part.sel(kind=kind, d=slice(4, last)).transpose("d", "trial")
        rivals, won, can = part.wrong.values, part.code.values == 2, part.possible.values.astype(bool)
        has, free = rivals > 0, can & (rivals == 0)
        doublings = np.broadcast_to(np.log2(part.d.values)[:, None], won.shape)[has]
        pooled, equal = (rise(won[has], doublings, of[has]) for of in (has, np.where(can, rivals, -1)))
        alone += (won & free).sum(), free.sum()
        assert (part.code.values[free & ~won] == 1).all()  # decided, for another choice
        print(f"{kind}, n = {n}, T = {T}: {pooled[0]:19.3f} {equal[0]:16.3f} ({equal[1]:.3f})", end="")
        print(f"{(won & free).sum():26d} of {free.sum()}")
        assert abs(equal[0]) < 0.025 < low < pooled[0] < high
assert alone.tolist() == [6685, 6687]

# %% [markdown]
# Down a column the share falls. Along a row it gains little: with one rival nine runs of $p$ in ten are
# global at *every* $d$, with three and more it goes down and up again (why, we do not know); where the best
# choice is impossible (125 of $p$'s 423 problems at $d = 4$), none is. A doubling of $d$ gains .11 to .17 for
# $p$, but at equal rivals .02 at most; $W$ gains .03 to .10, about .02 of it at equal rivals.
#
# So dimensions help in two ways: they make the best choice **possible**, and they **remove rivals**. Those
# that remain $p$ escapes no more easily, $W$ a little.
#
# Without a rival all but two of 6,687 runs were global after 600 steps. (These two chose otherwise; without
# a rival no such choice is locally optimal, and cannot last.) In high dimension that is the rule: random
# vectors are
# nearly orthogonal, and then every row of every choice is tight. A choice with all other tokens as support
# tokens must beat them all, so only the best one is locally optimal. (Over points this is the proliferation
# of support vectors.) In the limit no SVM is needed:
#
# > **Proposition.** Let the tokens of each sequence be orthogonal, of one length > 0, the queries $z_i \ne
# > 0$ orthogonal (so $d \ge \max(n, T)$), and each best score unique. Then gradient descent on $W$ from
# > zero, with positive steps, keeps every best token ahead; if the sum of the steps is infinite, all leads
# > grow without bound, so every run is global.
#
# *Why.* Only its own sequence moves a logit, $h_t$ by a fixed positive multiple of $|\ell'(u)|\,
# s_t\,(\gamma_t - \bar\gamma)$ with $\bar\gamma = \sum_t s_t \gamma_t$. The best token has the largest
# $\gamma_a - \bar\gamma > 0$, and $s_a \ge s_t$ at the start. So $h_a$ gains more than every other one, at
# each step. How much more? $|\ell'(u)| \ge |\ell'(\gamma_a)|$ and $s_a \ge 1/T$. If $\gamma_t >
# \bar\gamma$, the difference is at least $s_a (\gamma_a - \gamma_t)$; if not, at least $s_a (\gamma_a -
# \bar\gamma) \ge s_a s_t (\gamma_a - \gamma_t)$. While the lead over $t$ is below $C$, $s_t \ge s_a e^{-C}$,
# so the gain per unit of step stays above a positive constant, and the steps would add up. $\square$
#
# (Our normalised steps are such steps: divided by the norm of a bounded gradient, their sum is infinite too.)
#
# A decisive experiment: at a *fixed*, low dimension, make tokens orthogonal, or queries, or both.

# %%
straight = found["orthogonal"]
crossed = {}
print("W, n = 3, T = 4, d = 4, the same scores, 1,500 data sets: global of the problems")
print("orthogonal       all      with a rival (rivals each)   with one    with two or more")
for which in straight.which.values:
    part = straight.sel(which=which)
    won, rivals = part.code.values == 2, part.wrong.values
    cells = [(won & these).sum() for these in (rivals >= 0, rivals > 0, rivals == 1, rivals > 1)]
    sizes = [these.sum() for these in (rivals >= 0, rivals > 0, rivals == 1, rivals > 1)]
    each = rivals[rivals > 0].mean() if sizes[1] else 0
    text = [f"{a:4d} of {b:4d}" for a, b in zip(cells, sizes, strict=True)]
    print(f"{which:10s} {text[0]}   {text[1]} ({each:.1f})           {text[2]}   {text[3]}")
    crossed[which] = np.array(cells), np.array(sizes), each
fresh = stored["orthogonal"].part(which=["queries"])
same = fresh.code.values == straight.code.sel(which=["queries"], trial=slice(0, 99)).values
assert same.mean() > 0.97
assert (crossed["both"][0][0], crossed["both"][1][1]) == (1500, 0)
won = {which: cells[0][0] for which, cells in crossed.items()}
assert won["queries"] > won["nothing"] + 90 > won["tokens"] + 120
assert max(crossed[which][1][1] for which in ("queries", "tokens")) < 0.85 * crossed["nothing"][1][1]
assert crossed["queries"][2] < 1.5 < 2 < crossed["nothing"][2] < crossed["tokens"][2]
alone, more = (
    {which: cells[0][k] / cells[1][k] for which, cells in crossed.items() if which != "both"} for k in (2, 3)
)
assert min(alone.values()) > 0.9
assert more["tokens"] + 0.15 < more["nothing"] < more["queries"] - 0.05

# %% [markdown]
# Orthogonal queries alone save most of the lost runs: sequences no longer interfere, fewer problems have
# a rival, and those have fewer. A single rival is escaped in over nine of ten, as before. Orthogonal *tokens*
# alone do worse than random ones: fewer problems have a rival, but those keep as many, and two or more are
# harder to escape. What loses most runs here is interference between sequences.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12.8 Where it breaks: more sequences *(optional)*
#
# "More dimensions" is meant relative to the data. Let the number of sequences grow with $d$: as $d/2$ for
# $p$, as $d$ and as $d^2/8$ for $W$ ($T = 3$).

# %%
crowd = found["crowded"]
print("rule              share of global runs for d = 4, 8, 12, 16, 24    sequences right")
for rule in runs.RULES:
    part = crowd.sel(rule=rule)
    won, right = (part.code == 2).mean("trial").values, part.right.mean("trial").values
    print(f"{rule:15s}", "  ".join(f"{a:.2f}" for a in won), "     ", "  ".join(f"{a:.3f}" for a in right))
    kind, factor, power = runs.RULES[rule]
    n = np.round(factor * crowd.d.values**power)
    assert np.abs(won - right**n).max() < 0.15  # roughly as if sequences failed independently
won = {rule: (crowd.sel(rule=rule).code == 2).mean("trial").values for rule in runs.RULES}
assert 0.32 < won["p, n = d/2"][-1] < 0.34 < 0.85 < won["p, n = d/2"][0]
assert 0.44 < won["W, n = d^2/8"][-1] < 0.46 < 0.95 < won["W, n = d^2/8"][0]
assert won["W, n = d"][-1] > won["W, n = d"][0] + 0.05
assert 0.91 < crowd.right.sel(rule="p, n = d/2", d=[12, 16, 24]).mean() < 0.92
assert 0.985 < crowd.right.sel(rule="W, n = d^2/8", d=[12, 16, 24]).mean() < 0.995

loads = found["load"].right  # load n (T - 1) / numbers, at three sizes: d = 16, 32, 64 for p, 4, 6, 8 for W
print("load   error a sequence, p (d = 16, 32, 64)    W (d = 4, 6, 8)")
error = {kind: 1 - loads.sel(kind=kind).mean("trial").values for kind in ("p", "W")}  # (load, size)
for k, one in enumerate(loads["load"].values):
    print(f"{one:4.2f}  ", error["p"][k].round(3), "                ", error["W"][k].round(3))
assert np.abs(error["p"] - error["W"]).max() < 0.03
assert (error["W"] < error["p"]).sum() >= 9  # of 12
six = np.hstack(list(error.values()))
assert (six.max(axis=1)[:-1] + 0.005 < six.min(axis=1)[1:]).all()  # ordered by the load alone

errors = 1 - found["tokens"].right.mean("trial").transpose("kind", "size", "T").values
print("load 1, error a sequence for T = 2, 3, 5, 9")
for name, row in zip(("p, d = 32", "p, d = 128", "W, d = 8", "W, d = 16"), errors.reshape(4, 4), strict=True):
    print(f"  {name:10s}", row.round(3))
assert (errors[:, 1, 3] > 2.5 * errors[:, 1, 0]).all()  # not the load alone
assert np.abs(errors[0, 1] - errors[1, 1]).max() < 0.03  # the same for p and W, at the larger size
assert errors[0, 0, 3] - errors[1, 0, 3] > 0.04  # and not where n = d

# %% [markdown]
# For $p$ with $n = d/2$ the share of *sequences* that find their best token settles near 0.915; the chance
# that all $n$ do is roughly that to the power $n$, and falls towards zero. $W$ with $n = d^2/8$, a quarter of
# that load, does the same at 0.99. With $n = d$, $W$ gets ever better. So compare at equal load, rows against
# numbers: $n(T - 1)/d$ for $p$, $n(T - 1)/d^2$ for $W$. **At $T = 3$ the error a sequence hangs mostly on
# the load**, and is the same for $p$ and $W$ within 0.03 ($W$ mostly a little lower), from about
# 0.01 at load 1/4 to 0.17 at 2. It grows with $T$: at load 1 threefold from $T = 2$ to 9. But $p$ and $W$
# stay together, if $n$ is well above $d$. (At $T = 9$, $d = 8$ there are $n = 8$ sequences; their queries are
# independent, and $W$ does better.)
#
# "Global" asks for all sequences at once: more dimensions help when they outgrow the data, not when both grow
# alike.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12.9 What the start and the schedule change *(optional)*
#
# The same data ($n = T = 4$, $d = 12$ for $p$, 6 for $W$) and the same direction of the start, whose length
# $\beta$ we vary; growing steps of length $0.1\sqrt j$, constant ones of 0.1, and growing ones five times
# shorter.

# %%
begun = found["starts"]
print("share of global runs for beta = 0, 0.1, 1, 10, 100 (undecided)")
for kind in ("p", "W"):
    for schedule in runs.SCHEDULES:
        part = begun.sel(kind=kind, schedule=schedule)
        text = (f"{(c == 2).mean():.2f} ({(c == 0).mean():.2f})" for c in part.code.values)
        print(f"{kind} {schedule:9s}", "  ".join(text))
same_end = {
    kind: [
        (row == begun.chosen.sel(kind=kind, beta=b, schedule="growing")).mean().item()
        for b in (0.0, 1.0)
        for row in (begun.chosen.sel(kind=kind, beta=b, schedule="constant"),)
    ]
    for kind in ("p", "W")
}
print("runs with the same choice for constant and growing steps, beta = 0 and 1:", same_end)
assert min(map(min, same_end.values())) > 0.98
for kind in ("p", "W"):
    growing = (begun.code == 2).sel(kind=kind, schedule="growing").mean("trial").values
    assert np.ptp(growing[:3]) < 0.03
    assert growing[0] - growing[3] > 0.05
    assert growing[3] - growing[4] > 0.1
stopped = (begun.code == 2).sel(schedule="constant", beta=100.0).mean("trial").values
assert (stopped < (begun.code == 2).sel(schedule="growing", beta=100.0).mean("trial").values - 0.2).all()

# %% [markdown]
# The **schedule** hardly matters: from zero, 99 of 100 runs choose the same tokens with constant as with
# growing steps. From $\beta = 100$ the constant ones end worse: their path is 150 units in all.
#
# The **start** matters once it is long enough to decide by itself. Up to $\beta = 1$ nothing changes but a
# few runs; from 10 on shares fall.

# %% [markdown]
# | claim | prediction | measured |
# |---|---|---|
# | every choice possible, $W$ | $d \ge T - 1$, $d^2 \ge n (T - 1)$ | all 374 ranks, $d \le 9$ |
# | $d \ge n$: possible | all selected tokens are corners | 2,160 of 2,160 choices |
# | random choice possible, $p$; $W$, $d \ge n$ | exact law of 12.3 | within 0.085, 400 a point |
# | the same, $W$, $d < n$ | exact for $T = 2$, else heuristic | within 0.03, 2,000 a point |
# | first gradient favours | global | all but 38 of 4,899 ($p$), 11 of 8,359 ($W$) |
# | equal number of rivals | a doubling of $d$ gains nothing | at most .023; for all problems .03 to .17 |
# | orthogonal tokens and queries | global for $d \ge \max(n, T)$ | 1,500 of 1,500 |
# | equal load and $T$ | equal error a sequence, $p$ and $W$ | within 0.03 where $n > d$ for $W$ |

# %% [markdown]
# ## Questions
#
# **1.** 900 sequences of 10 tokens. From which $d$ is every choice possible for $W$? For $p$?
# <details><summary>Answer</summary>
#
# 8,100 rows: $d \ge 90$ for $W$ ($90^2 = 8{,}100$, and 9 divides 90; the theorem asks for 900), 8,100 for
# $p$.
# </details>
#
# **2.** You double the tokens of each sequence, from 5 to 10. How far does the $d$ rise at which half of the
# random choices are possible for $p$?
# <details><summary>Answer</summary>
#
# By half: $\nu_T$ grows from 1.3 to 2.0, while the number of rows more than doubles. (For $W$ and many
# sequences, where $d^2$ counts, by about a quarter.)
# </details>
#
# **3.** A colleague sees 99% of 72 sequences right and half of the runs global. Is that a contradiction?
# <details><summary>Answer</summary>
#
# No. $0.99^{72} = 0.48$.
# </details>

# %%
assert enough(900, 10) == 90, again.format("12.1")
assert round(0.99**72, 2) == 0.48
progress("12")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - **Possible**: for every choice as many numbers as rows are needed, for a random one about $\nu_T$ a
#   sequence; for $W$ each sequence has to be possible alone, too.
# - **Found**: possible is not enough. Runs are lost to other local winners. More dimensions leave fewer
#   of them; those that remain are escaped hardly more easily. With none left all but 2 of 6,687 were global.
# - **In all sequences at once** only if the numbers outgrow the sequences.
#
# ## Further reading
#
# - D. A. Tarzanagh, Y. Li, C. Thrampoulidis, S. Oymak, *Transformers as Support Vector Machines* (2023, arXiv
#   2308.16898): feasibility, over-parameterisation, global convergence.
# - D. A. Tarzanagh, Y. Li, X. Zhang, S. Oymak, *Max-Margin Token Selection in Attention Mechanism* (NeurIPS
#   2023, arXiv 2306.13596): equal scores.
# - D. Amelunxen, M. Lotz, M. B. McCoy, J. A. Tropp, *Living on the Edge: Phase Transitions in Convex
#   Programs with Random Data* (2014, arXiv 1303.6672): the formula.
# - T. M. Cover, *Geometrical and Statistical Properties of Systems of Linear Inequalities* (IEEE Trans.
#   1965); J. G. Wendel, *A Problem in Geometric Probability* (Math. Scand. 1962).
# - D. Hsu, V. Muthukumar, J. Xu, *On the Proliferation of Support Vectors in High Dimensions* (2020, arXiv
#   2009.10670).
#
# The count $d^2 \ge n(T - 1)$, the use of the formula for attention, and the reasons in 12.5 to 12.7 are
# this lesson's own: short arguments and measurements.
#
# **New in the library:** [`sweep.sweep`](../mini_attn/sweep/run.py) and
# [`sweep.wilson`](../mini_attn/sweep/shares.py).
#
# **Next:** [lesson 13](13_nonlinear_heads.ipynb): a nonlinear head may want several tokens at once.
