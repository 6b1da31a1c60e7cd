# %% [markdown] slideshow={"slide_type": "slide"}
# # 12 · Over-parameterisation
#
# Training selects one token of each sequence, not always the best one (lesson 07). Tarzanagh et al. (2023)
# hold that over-parameterisation helps: it makes every choice possible, and the landscape benign, without
# stationary points.
#
# **The question: how many dimensions are enough, and for what?**

# %% [markdown]
# **After this lesson you can**
#
# - say when every choice of tokens is possible, when no finite point is stationary, and prove both;
# - predict how often a random choice is possible, for Gaussian tokens;
# - hold three conditions for a global run against thousands of runs;
# - predict near which $d$ the number of locally optimal choices is largest, and say why it falls to one.
#
# **You need** [lesson 07](07_local_global_tokens.ipynb) (support tokens, locally optimal choices) and the
# matrix $W$ of [lesson 10](10_cross_self_attention.ipynb). About 75 minutes (110 with a pencil).

# %%
import math

import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from course.exercise import check, exercise, progress, todo
from course.figure import show
from course.replicate import lesson_12 as runs
from course.replicate import measured
from mini_attn import data, plots, widgets
from mini_attn.sweep import sweep, wilson

plots.style()
torch.set_num_threads(1)  # many small tensors: one thread is fastest
BLUE, ORANGE, GREEN, BLACK = (plots.COLORS[name] for name in ("blue", "vermillion", "green", "black"))
again = "this differs from the text: if exercise {} has no tick, start there"

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12.1 The idea in a picture
#
# The data are random: $n$ sequences of $T$ tokens $x_{it}$, queries $z_i$ and a head $v$, uniform on the
# **unit sphere** of $\mathbb R^d$, and labels $y_i = \pm 1$. Token $t$ of sequence $i$ has the score
# $\gamma_{it} = y_i\, v \cdot x_{it}$; the highest of each sequence is its **best token**. The loss is
# $L = \frac1n \sum_i \ell(u_i)$ with $\ell(u) = \log(1 + e^{-u})$ and $u_i = \sum_t s_{it} \gamma_{it}$ for
# the attention $s_i$.
#
# On the same data we train $p$, $W$ and the factors $(K, Q)$ of $W = KQ^\top$ ([lesson
# 11](11_key_query_nuclear.ipynb)): $p$ and $W$ from zero, $(K, Q)$ from entries $N(0, 0.1^2)$. The 600 steps
# along $-\nabla L$ have the lengths $0.1 \sqrt 1, \dots, 0.1 \sqrt{600}$. A run is **decided** if each
# sequence then gives more than 0.99 of its attention to one token. A decided run is **global** if these are
# the best tokens, **local** if not (locally optimal or not).
#
# The 72,000 runs, for 48 sizes $(n, T, d)$ and 500 data sets each, are stored; a hundred we compute again.

# %%
names = ("shares", "wide", "narrow", "rivals", "dimensions_p", "dimensions_W")
found = {name: measured(f"12.{name}").load() for name in names}
KINDS = {"p": ("$p$", BLUE, "o"), "W": ("$W$", ORANGE, "s"), "KQ": ("$(K, Q)$", GREEN, "^")}
shares = found["shares"]
is_global, is_local = shares.global_.astype(bool), shares.local.astype(bool)

# 100 of the 500 runs of one cell, here and now: the same call as for the stored ones
cell = {"kind": ["p"], "n": [4], "T": [3], "d": [8]}
fresh = sweep(runs.shares, cell, 100, batch=100, paired=["kind"], workers=1, progress=False)
agree = (fresh.global_ == shares.global_.sel(**cell, trial=slice(0, 99))).mean().item()
print(f"share of runs that come out as stored: {agree:.1f}")
assert agree > 0.9  # rounding decides a few runs, and differs between processors
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
    alt="Share of global runs against d from 2 to 24. Left, two sequences of three tokens: all three "
    "rise to one, p from 0.7. Right, eight sequences of six tokens: W and (K, Q) rise from near zero to "
    "about 0.9, p only to 0.14.",
)

# %% [markdown]
# **Figure 1.** Share of global runs, 500 runs a point. Bars: Wilson's 95% bands (`sweep.wilson`).
#
# From here on: $p$ and $W$.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12.2 Every choice possible, no point stationary
#
# A **lead** is the logit of the chosen token less that of another one of its sequence. With positive leads a
# token is **ahead**. A choice $\alpha$ is **possible** if some $p$ or $W$ puts all its tokens ahead: then its
# Att-SVM, which asks for leads of at least 1, is feasible. Each lead is a **row**:
# $x_{i\alpha_i} - x_{it}$ for $p$, and $(x_{i\alpha_i} - x_{it})\, z_i^\top$ for $W$.
#
# > **Theorem** (Tarzanagh, Li, Thrampoulidis, Oymak, 2023). If $d \ge \max(T - 1, n)$, then for almost all
# > tokens and queries the Att-SVM for $W$ is feasible for *every* choice $\alpha$.
#
# *Why.* For almost all data: if $d \ge n$, the queries $z_i$ are linearly independent, so there is a $W$ with
# $W z_i = p_i$ for any $p_i$ we like, and each sequence is on its own. If $d \ge T - 1$, its $T - 1$
# differences $x_{i\alpha_i} - x_{it}$ are linearly independent, and a $p_i$ can give them any leads.
# $\square$

# %% [markdown]
# ### Exercise 12.1: Enough dimensions for every choice
#
# ★★☆ · 10 minutes
#
# The proof uses $d \ge n$ to separate the sequences. Is that needed? Every choice is possible for $W$ if all
# rows are linearly independent. For almost all data they are, as soon as nothing that one can *count* forbids
# it. Find what forbids it, and return the smallest $d$ at which nothing does, for any $n \ge 1$, $T \ge 2$.
#
# <details><summary>Hint</summary>
#
# How many rows are there, and in a space of how many dimensions? Then the same question for the rows of *one*
# sequence, which share $z_i$. (After `import math`, `math.isqrt(k)` rounds a square root down.)
# </details>


# %%
@exercise("12.1")
def enough(n, T):
    """Return the smallest d at which nothing forbids independent rows: n sequences of T tokens, with a W."""
    ### BEGIN SOLUTION
    d = T - 1
    while d * d < n * (T - 1):
        d += 1
    return d
    ### END SOLUTION


# %%
check("12.1", enough)

# %% [markdown]
# So $d \ge T - 1$ and $d^2 \ge n\,(T - 1)$. We call this **the count**: 100 sequences of two tokens need 10
# dimensions, not the theorem's 100. For $p$, with its $d$ parameters, the count is $d \ge n\,(T - 1)$.
#
# <details><summary>Why nothing else forbids it: dealing cards</summary>
#
# The rows are independent if one of their largest minors is not zero. A minor is a polynomial in the data: if
# it is not zero for *one* data set, it is not zero for almost all. So one data set of each size will do. Take
# queries of which any $d$ are independent, and deal out $e_1, \dots, e_d, e_1, \dots$ in turn, like cards, as
# the differences: $T - 1$ to each sequence, all distinct, as $T - 1 \le d$. With $n\,(T - 1) \le d^2$ rows no
# $e_a$ is dealt to more than $d$ sequences. The row $e_a z_i^\top$ is $z_i$ in line $a$ of a matrix of zeros.
# Rows of the SVM with different $a$ fill different lines, and those with the same $a$ have independent
# queries.
#
# On the unit sphere, too, if $d \ge 2$: let $x_{it}$ be $x_{i\alpha_i}$ with the sign of its coordinate $a$
# turned round. The difference is then a multiple of $e_a$. $\square$
# </details>
#
# > **Proposition.** Let the tokens of each sequence be distinct and of one length, and the queries linearly
# > independent (almost all are, if $d \ge n$). Then the Att-SVM for $W$ is feasible for every choice, at
# > **any** $T$.
#
# *Why.* There is a $W$ with $W z_i = x_{i\alpha_i}$, and $x_{i\alpha_i} \cdot x_{i\alpha_i} > x_{it} \cdot
# x_{i\alpha_i}$ for every other token of that length. A multiple of $W$ makes all leads at least 1. $\square$
#
# We try all $T^n$ choices of Gaussian tokens, then
# scaled to length 1.

# %%
print("        n  T  d  rows  params     every choice possible, share of 60: Gaussian   one length")
for kind, n, T, d in zip("WWWWpp", (4, 5, 4, 2, 3, 3), (2, 2, 3, 8, 3, 3), (2, 2, 3, 2, 6, 5), strict=True):
    X, z = runs.gaussian(n, T, d, trials=60, seed=0)
    free, one_long = (runs.every_choice(kind, of, z).mean() for of in (X, X / X.norm(dim=-1, keepdim=True)))
    rows, params = n * (T - 1), d if kind == "p" else d * d
    print(f"{kind:5s} {n:3d} {T:2d} {d:2d} {rows:5d} {params:7d} {free:47.2f} {one_long:12.2f}")
    by_count = d >= T - 1 and params >= rows
    assert (free == 1) == by_count
    assert (one_long == 1) == (by_count or (kind == "W" and n <= d))
    assert kind == "p" or (enough(n, T) <= d) == by_count, again.format("12.1")

# %% [markdown]
# For Gaussian tokens the count is sharp for this: in fewer dimensions some choice is impossible on an open
# set of data.
#
# <details><summary>Why it is sharp</summary>
#
# *$W$, if $d < T - 1$*: a token inside the convex hull of $d + 1$ others of its sequence is ahead for no
# $p_i$, and it stays inside if all tokens move a little.
#
# *$W$, if $d \ge T - 1$ and $d^2 < n(T - 1)$*: take any $d^2 + 1$ rows $r$. They are dependent,
# $\sum_r c_r r = 0$. For almost all data every $c_r \ne 0$, as any $d^2$ of them are independent (deal the
# cards of 12.2 to these rows alone, sequence by sequence). Turn round each row with $c_r < 0$, by
# $x_{it} \to 2 x_{i\alpha_i} - x_{it}$. Now all $c_r > 0$, so no $W$ makes every row positive. This stays so
# on all data near enough.
#
# *$p$, if $d < n(T - 1)$*: the same with any $d + 1$ rows. $\square$
# </details>

# %% [markdown]
# ### Exercise 12.2: A direction for every point
#
# ★★☆ · 8 minutes
#
# Could training stop at a finite $W$? Let $n = d$, with linearly independent queries
# `z` (n, d). Return the matrix $V$ along which every logit grows like its own score: $x \cdot V z_i = y_i\,
# v \cdot x$ for every vector $x$. **Predict**: which $u_i$ grow, if we move a random $W$ a little along $V$?
#
# <details><summary>Hint</summary>
#
# It holds for every $x$. So which vector is $V z_i$?
# </details>
#
# <details><summary>Hint: all sequences</summary>
#
# All $V z_i$ are multiples of $v$. So $V = v a^\top$ for some $a$.
# </details>


# %%
@exercise("12.2")
def direction(v, z, y):
    """Return V (d, d) that makes every x . V z[i] the score y[i] v . x; v (d,), z (n, d), y (n,)."""
    ### BEGIN SOLUTION
    return np.outer(v, np.linalg.solve(z, y))  # a . z_i = y_i
    ### END SOLUTION


# %%
check("12.2", direction)

# %%
print("u_i of 8 sequences that grow from a random W along V:", runs.grown(direction))
assert runs.grown(direction) == 8, again.format("12.2")
print("p, n = 8, T = 6: share of 200 descents from 0, constant steps, that end at a finite local minimum")
for d in (2, 4):
    share = runs.stopped("p", data.random_tokens(8, 6, d, trials=200, seed=0), steps=300).double().mean()
    print(f"d = {d}: {share:.1f}")
    assert (0.15 if d == 2 else 0) <= share < (0.5 if d == 2 else 0.02)

# %% [markdown]
# > **Proposition.** Let the scores of some sequence not all be equal. Then $L$ has no finite stationary point
# > in $W$ if some $a$ has $y_i\, a \cdot z_i > 0$ for all $i$; in $p$ if all labels agree; in either if the
# > rows are linearly independent.
#
# *Why.* In each case some direction lets the logits of sequence $i$ grow like $c_i \gamma_{it}$, $c_i > 0$,
# up to a number common to the sequence: $v a^\top$ with $c_i = y_i\, a \cdot z_i$; $y_1 v$; with independent
# rows any leads can be had. Then $u_i$ grows like $c_i \sum_t s_{it} (\gamma_{it} - u_i)\, \gamma_{it} = c_i
# \sum_t s_{it} (\gamma_{it} - u_i)^2$, which is positive if these scores differ. So $L$ falls. $\square$
#
# Linearly independent queries have such an $a$: for $d \ge n$ no finite $W$ is stationary, at any $T$.
# Else there can be such points, as for $p$ at $d = 2$; at $d = 4$ hardly a descent stopped.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12.3 Possible for a random choice
#
# Now take *one* choice, made without a look at the data. Of rows in general position, with independent
# random signs, half as many parameters as rows make half of the choices possible (Cover 1965, Wendel 1962).
# But the $T - 1$ rows of one sequence share the chosen token.
#
# Let the chosen token be the first, and the logits of its sequence $T$ independent $N(0, 1)$ numbers. Move
# them to the nearest point $h$ (least squares) of the cone $h_1 \ge h_t$ for all $t$. Another token with
# $h_t = h_1$ there is a **tie**. Let $j$ be the number of ties and $\nu_T$ its mean.

# %% [markdown]
# ### Exercise 12.3: How many tokens tie?
#
# ★★★ · 14 minutes
#
# Each line of `logits` holds those of one sequence. Return the number of ties $j$ of each. **Predict**
# first, by hand: the first token has the logit 0, the others have 3 and 1. How many ties are there?
#
# <details><summary>Hint</summary>
#
# Suppose you know which tokens are tied. To what number do they and the first move, if the sum of
# squared moves is to be smallest?
# </details>
#
# <details><summary>Hint: which tokens</summary>
#
# They move to their common mean. Bring the highest token down to the first. When does the next one have to
# come too?
# </details>


# %%
@exercise("12.3")
def ties(logits):
    """Return how many tokens are tied with the first at the nearest point where it leads; logits (N, T)."""
    ### BEGIN SOLUTION
    others = np.sort(logits[:, 1:])[:, ::-1]  # the highest first
    mean = np.cumsum(np.hstack((logits[:, :1], others)), axis=1) / np.arange(1, logits.shape[1] + 1)
    return (others > mean[:, :-1]).sum(axis=1)
    ### END SOLUTION


# %%
check("12.3", ties)

# %% [markdown]
# Only the 3 is tied: it meets the first at 1.5, above 1. So $j = 1$.


# %%
def chances(T, draws=200_000):
    """The chances of 0, 1, ..., T - 1 ties in one sequence, counted."""
    return np.bincount(ties(np.random.default_rng(T).normal(size=(draws, T))), minlength=T) / draws


chance = {T: chances(T) for T in (2, 3, 4, 5, 6, 7, 8, 20)}
nu = {T: (of_T * np.arange(T)).sum() for T, of_T in chance.items()}
print("nu_T:", *(f"{nu[T]:.1f} (T = {T})" for T in (2, 3, 4, 8, 20)))
assert np.abs(chance[3] - [1 / 3, 1 / 2, 1 / 6]).max() < 0.004, again.format("12.3")
assert ties(np.array([[0, 3, 1]])) == 1, again.format("12.3")


# %% jupyter={"source_hidden": true}
def draw_cone(ax, points, tied, angle, title):
    """Points of a plane by their number of ties, round a cone that opens to the right."""
    turn = {way: np.exp(1j * way * np.radians(angle / 2)) for way in (1, -1)}
    halo = {"path_effects": [withStroke(linewidth=4, foreground="white")], "ha": "center", "va": "center"}
    arrow = {"arrowstyle": "->", "color": BLACK, "linewidth": 1.5}
    for number, color in enumerate((BLUE, ORANGE, GREEN)):
        ax.plot(*points[tied == number].T, ".", color=color, markersize=3, alpha=0.4)
    for way, edge in turn.items():
        start, foot = (length * edge for length in (1.2 + 1.5j * way, 1.2))
        ax.plot([0, 2.6 * edge.real], [0, 2.6 * edge.imag], color=BLACK, linewidth=2)
        wall = 2.6j * way * edge
        ax.plot([0, wall.real], [0, wall.imag], ":", color=BLACK, linewidth=1.5)
        ax.annotate("", (foot.real, foot.imag), (start.real, start.imag), arrowprops=arrow)
        ax.text(start.real, 2.9 * way, "$j = 1$, 90°", **halo)
    ax.annotate("", (0, 0), (-1.9, 0.25), arrowprops=arrow)
    ax.text(2.7, 0, f"$j = 0$\n{angle}°", **halo)
    ax.text(-2.7, 0.1, f"$j = 2$\n{180 - angle}°", **halo)
    ax.set(xlim=(-3.3, 3.3), ylim=(-3.3, 3.3), aspect="equal", title=title)
    ax.set_axis_off()


logits, answers = (
    np.random.default_rng(0).normal(size=(500, 3)),
    np.random.default_rng(1).normal(size=(500, 2)),
)
along_one = logits @ np.array([[2, 0], [-1, np.sqrt(3)], [-1, -np.sqrt(3)]]) / np.sqrt(6)  # the plane
quarter = answers @ np.array([[1, 1], [1, -1]]) / np.sqrt(2)
fig, (left, right) = plt.subplots(1, 2, figsize=(7, 3.4))
draw_cone(left, along_one, ties(logits), 120, "three tokens")
draw_cone(right, quarter, (answers < 0).sum(axis=1), 90, "two independent questions")
show(
    fig,
    alt="A cloud of points round the tip of a cone, twice. Left the cone opens by 120 degrees, right by 90. "
    "Points beside it move to an edge, points behind it to the tip: a sector of 60 degrees left, 90 right.",
)

# %% [markdown]
# **Figure 2.** Left: logits of three tokens, seen along $(1, 1, 1)$. Lines: the cone, a third of the plane.
# From beside it the nearest point lies on an edge, one tie; from behind it (dotted) at the tip, two. Right:
# two independent questions, both answered yes in the cone.
#
# The cloud is round, so chances are angles. Three tokens have
# $\nu_3 = \frac12 \cdot 1 + \frac16 \cdot 2 = \frac56$ ties on average, two independent questions
# $\frac12 \cdot 1 + \frac14 \cdot 2 = 1$: the shared token opens the cone.
#
# > **Theorem** (conic kinematic formula; Amelunxen, Lotz, McCoy, Tropp 2014). Let the stacked logits that the
# > parameters can make be a uniformly random subspace of $\mathbb R^{nT}$, of dimension $D \le nT$. A choice
# > made independently of it is possible with probability
# >
# > $$P = 2\,\big[\Pr(J = D - 1) + \Pr(J = D - 3) + \Pr(J = D - 5) + \dots\big],$$
# >
# > where $J = j_1 + \dots + j_n$ with independent $j_i$ as above.
#
# We call this $P$ **the law**. For $p$ and **Gaussian tokens**, whose coordinates are independent $N(0, 1)$
# numbers, the condition holds with $D = d$: the stacked logits are the column space of a Gaussian matrix. As
# $J$ is near its mean for many sequences, half of the choices are possible near $d = n\,\nu_T$.
#
# For $W$ the condition fails, as sequence $i$ feels $W$ through $W z_i$ alone. But for Gaussian tokens and
# almost all fixed queries
#
# $$P = \mathbb E\, (-1)^{J - r}, \qquad r = d \min(m, d) + \min\big(d\, (d - m)_+,\, S\big),$$
#
# where $m$ is the number of $j_i \ge d$, and $S$ the sum of the others. (The law is this mean, too, with
# $r = \min(D, J)$: so it holds with $D = d^2$ if $T - 1 \le d$.)
#
# <details><summary>Why (needs Euler characteristics)</summary>
#
# Consider the open cone of all $W$ with positive leads, and its Euler characteristic with compact supports,
# $\chi$, which adds up over disjoint pieces and multiplies over products. It is $(-1)^{d^2}$ if the choice is
# possible, and 0 if not. So $P = (-1)^{d^2}\, \mathbb E\, \chi$.
#
# Random rotations of $\mathbb R^T$ that mix the tokens of a sequence, $X_i \to O_i X_i$, leave Gaussian
# tokens alike. Hold all but $O_1$. The other sequences leave a cone of $W$; let $\phi(h)$ be the $\chi$ of
# that part of it where $X_1 W z_1 = h$. Fibre by fibre, $\chi$ is the integral of $\phi$ over the turned cone
# $h_1 > h_t$, and $\phi$ is a sum, with signs, of indicators of cones in $\mathbb R^T$. For a closed cone in
# place of $h_1 > h_t$, the kinematic formula for two cones makes the mean a sum of its intrinsic volumes (the
# chances that the nearest point lies on a face of codimension $j_1$) with weights that do not depend on it.
# The open cone is a sum of the closed cone's faces, with signs, and has $(-1)^{j_1} \Pr(j_1)$ in place of
# these chances. One sequence after another, $\mathbb E\, \chi = \sum c(j_1, \dots, j_n)\, (-1)^J \Pr(j_1)
# \cdots \Pr(j_n)$. Read the $c$ off linear spaces, of codimension $j_i$ for sequence $i$: the $W$ then form a
# linear space, with $\chi = (-1)^{d^2 - r}$, where $r$ is the rank of rows $x z_i^\top$, with $j_i$ Gaussian
# $x$ for sequence $i$. Sequences with $j_i \ge d$ have $d$ independent rows each, up to $d^2$ in all. Modulo
# these, $d\,(d - m)_+$ dimensions are left, and by the cards of 12.2 the other rows fill them if they can.
# $\square$
# </details>


# %%
def law(kind, n, T, d):
    """The mean of (-1)^(J - r), from the chances of one sequence; for p all j count as small, and r <= d."""
    D, few = (d, T) if kind == "p" else (d * d, min(d, T))  # j < few is small
    signed, P, small = chance[T] * (-1.0) ** np.arange(T), 0.0, np.ones(1)
    for m in range(n, -1, -1):  # so many sequences with j >= d; `small`: the others' sum S
        r = d * min(m, d) + np.minimum(max(D - d * m, 0), np.arange(len(small)))
        P += math.comb(n, m) * signed[few:].sum() ** m * (small * (-1.0) ** r).sum()
        small = np.convolve(small, signed[:few])
    return P.clip(0, 1)  # counted chances


def possible_share(kind, n, T, d, trials=600):
    """The share of random choices that are possible, Gaussian tokens."""
    return runs.first_choice(kind, *runs.gaussian(n, T, d, trials, seed=d)).mean()


print("     n  T  d   measured      P    the law with D = d^2")
for kind, n, T, d in (("p", 5, 3, 4), ("W", 8, 4, 3), ("W", 6, 8, 3), ("W", 3, 20, 3)):
    share, expected, other = possible_share(kind, n, T, d), law(kind, n, T, d), law("p", n, T, d * d)
    print(
        f"{kind:2s} {n:3d} {T:2d} {d:2d} {share:10.2f} {expected:6.2f}",
        f"{other:14.2f}" if kind == "W" else "",
    )
    assert abs(share - expected) < 0.06, again.format("12.3")
dimensions = (1, 2, 3, 4, 5, 6)
counted = np.array([possible_share("p", 3, 4, d) for d in dimensions])
assert np.abs(counted - [law("p", 3, 4, d) for d in dimensions]).max() < 0.06, again.format("12.3")


# %% jupyter={"source_hidden": true}
def draw_law(ax, n, T, d):
    """The law for p, and Cover's formula for as many rows."""
    ax.plot(d, [law("p", n, T, k) for k in d], "-", color=BLUE, linewidth=1, label="law")
    ax.plot(d, [law("p", n * (T - 1), 2, k) for k in d], ":", color=BLACK, label="Cover")
    ax.set(xlabel="dimension $d$", ylabel="share possible", ylim=(-0.03, 1.05))


fig, ax = plt.subplots(figsize=(4.6, 2.8))
draw_law(ax, 3, 4, np.arange(1, 11))
ax.vlines(dimensions, *wilson(np.round(600 * counted), 600), color=BLUE, linewidth=2)
ax.plot(dimensions, counted, "o", color=BLUE, label="measured")
ax.legend(loc="lower right")
show(
    fig,
    alt="Share of possible random choices for p against d: a rising curve with points on it, and a dotted "
    "curve of Cover's formula that rises later.",
)

# %% [markdown]
# **Figure 3.** $p$, $n = 3$, $T = 4$, Gaussian tokens: measured shares (bars: 95%, 600 choices each) and the
# law.

# %% [markdown]
# For other $n$, $T$:


# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output", "widget"]
def possibility(n, T):
    figure = Figure(figsize=(5, 3), layout="none")
    ax = figure.add_axes((0.14, 0.19, 0.83, 0.69))
    draw_law(ax, n, T, np.arange(1, n * (T - 1) + 3))
    ax.axvline(n * (T - 1), color=BLUE, linestyle="--")
    ax.set_title(f"half near {n * nu[T]:.1f}, dashed: every choice, {n * (T - 1)}", fontsize=11)
    ax.legend(loc="upper left")
    return figure


wide = {"style": {"description_width": "90px"}, "layout": ipywidgets.Layout(width="440px")}
widgets.sliders(
    possibility,
    alt="The probability that a random choice is possible for p against d, and Cover's formula.",
    n=ipywidgets.IntSlider(value=6, min=1, max=12, description="sequences", **wide),
    T=ipywidgets.IntSlider(value=4, min=2, max=8, description="tokens", **wide),
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12.4 Possible is not found
#
# Of the 48,000 runs of $p$ and $W$ in 12.1, how many ended at the best tokens, how many could have?

# %%
possible = shares.possible.astype(bool)
classes = {"global": is_global, "local, global possible": is_local & possible, "impossible": ~possible}
print(f"{'runs':24s}       p       W")
for name, of in classes.items():
    print(f"{name:24s}" + "".join(f"{int(of.sel(kind=kind).sum()):8d}" for kind in ("p", "W")))
lost = is_local.sel(kind="W", n=8, T=6, d=8).mean().item()
print(f"W, n = 8, T = 6, d = 8, every choice possible: share of local runs {lost:.2f}")
assert possible.sel(kind="W", n=8, T=6, d=8).all()
assert not (is_global & ~possible).any()

# %% [markdown]
# Thousands of each kind were local although global was possible, for $W$ even where *every* choice is
# possible.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12.5 Three conditions, held against the runs
#
# (i) *First gradient*: every best token is ahead at $-\nabla L(0)$, part of a condition for global
# convergence in Tarzanagh et al. (2023).
#
# (ii) *No rival*. A choice is **locally optimal** if it is possible and, in every sequence, scores higher
# than its **support tokens** (leads of exactly 1). A **rival** is one that is not the best choice. Without
# rivals, lesson 07's theorem suggests but does not prove, a run is global if that is possible. All
# $T^n$ choices were tried at $(n, T) = (3, 4)$, $(4, 3)$, $(2, 6)$, on 500 data sets for each $d = 4, 8, 16,
# 32, 64$, and at $(3, 4)$ for $d = 2, 3$.
#
# (iii) *Score gaps*: all but the best token of a sequence have equal scores. With *one* sequence this is
# enough (lesson 06). We set the scores of the others to their mean.

# %%
codes = (2 * is_global + is_local).stack(run=("n", "T", "d", "trial"))  # as in `runs`
favoured = shares.favoured.stack(run=("n", "T", "d", "trial")) == 1
small = found["narrow"].combine_first(found["wide"])  # n = 3, T = 4, d = 2, 3, 4, 8, ...
slow, leap = {"steps": 6000, "lr": 0.01}, {"first": 200, "steps": 600, "lr": 0.1}
print("condition                kind   it holds   undecided   local   by slow steps   after a leap")
for kind, n, T, d in (("p", 4, 3, 8), ("W", 8, 6, 8)):  # the sizes are those of (iii)
    equal = runs.equal_others(data.random_tokens(n, T, d, trials=200, seed=6))
    alike = runs.ends(kind, equal).numpy()
    ends, rivals = runs.tried(kind, small.sel(d=slice(64)), found["rivals"])
    for name, end, holds, failed in (
        ("(i) first gradient", codes.sel(kind=kind), favoured.sel(kind=kind), runs.misled(shares, kind)),
        ("(ii) possible, no rival", ends, rivals == 0, runs.unfinished(kind, small, found["rivals"])),
        ("(iii) equal scores", alike, alike >= 0, [runs.only(equal, alike == runs.LOCAL)]),
    ):
        undecided, local = (((end == way) & holds).sum().item() for way in (runs.UNDECIDED, runs.LOCAL))
        slowly, thrown = (runs.later(kind, failed, **how) for how in (slow, leap))
        late, leapt = ((end == runs.LOCAL).sum().item() for end in (slowly, thrown))
        print(f"{name:24s} {kind:3s} {int(holds.sum()):11d}{undecided:12d}{local:8d}{late:16d}{leapt:15d}")
        assert late == (0 if "(ii)" in name else local)
        assert leapt == 0 or ("(iii)" in name and leapt > local / 2)
        assert "(ii)" not in name or (undecided + local, (slowly == runs.GLOBAL).sum()) in ((4, 3), (3, 2))
tokens = data.random_tokens(2, 3, 2, trials=1000, seed=0)
alone = (runs.wrong_winners("p", tokens)[0] == 0) & runs.possible("p", tokens)
missed = alone & (runs.ends("p", tokens) != runs.GLOBAL)
stopped = runs.stopped("p", runs.only(tokens, missed)).sum()
print(
    f"p, (2, 3), d = 2, no rival: {alone.sum()}, not global: {missed.sum()}, at a finite minimum: {stopped}"
)
assert stopped >= 1

# %% [markdown]
# (*Slow*: 6,000 steps of a tenth of the length. *Leap*: a first step of length 200.)
#
# **(i) is almost enough where it holds**: of the runs that it favours 0.7% of $p$ and 0.1% of $W$ are local,
# also by slow steps, and none after a leap (which by itself selects what the first gradient favours). But it
# seldom holds with many sequences, and most global runs do without. Of (iii)'s, at these two sizes, 10% are
# local, most of them after a leap, too.
#
# **(ii) held up**: of its seven exceptions none stays local; two, with almost equal scores, are undecided
# still. But at $(2, 3)$, $d = 2$, a descent without a rival stopped at a finite minimum. What is left is *no
# rival and no finite minimum*.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12.6 Dimensions and rivals
#
# More dimensions make more choices possible, but give each more support tokens to beat. For $D$ parameters
# ($d$ for $p$, $d^2$ for $W$) assume:
#
# - A choice is possible with the $P$ of 12.3: on the sphere not exact (for $p$ within 0.03 at the size below,
#   for $W$ within 0.1).
# - It then has $D$ support tokens. Each falls in one of the $n$ sequences at random, independently.
# - With $k_i$ of them in sequence $i$ the chosen token scores highest with chance $1 / (1 + k_i)$, in each
#   sequence independently (exercise 07.1; lesson 07 found this too high where keys are the tokens).
#
# Then $T^n P\, w_D$ choices are locally optimal on average, with $w_D = \mathbb E \prod_i 1 / (1 + k_i)$.
#
# ### Exercise 12.4: The turning point
#
# ★★☆ · 12 minutes
#
# Return $w_0, w_1, \dots, w_m$ for $n$ sequences, exactly, without draws.
#
# <details><summary>Hint: by hand</summary>
#
# Two sequences, $D = 2$: half of the time each gets one token, half of the time one gets both. So
# $w_2 = \frac12 \cdot \frac14 + \frac12 \cdot \frac13 = \frac7{24}$.
# </details>
#
# <details><summary>Hint: more sequences</summary>
#
# Suppose you have all $w$ for $n - 1$ sequences. Add one: how many of the $D$ tokens fall in it, with what
# chances (`math.comb`)? The others fall in the $n - 1$ sequences at random.
# </details>


# %%
@exercise("12.4")
def win_all(m, n):
    """Return w_0, ..., w_m for n sequences, an array of m + 1 numbers."""
    ### BEGIN SOLUTION
    from math import comb

    w = np.array([1 / (1 + D) for D in range(m + 1)])  # one sequence
    for N in range(2, n + 1):  # the new one of N gets k of the D tokens
        w = np.array(
            [
                sum(comb(D, k) * (N - 1) ** (D - k) / N**D / (1 + k) * w[D - k] for k in range(D + 1))
                for D in range(m + 1)
            ]
        )
    return w
    ### END SOLUTION


# %%
check("12.4", win_all)

# %% [markdown]
# As $1 / (1 + k) = \mathbb E\, U^k$ for $U$ uniform on $[0, 1]$, $w_D = \mathbb E\, \bar U^D$
# for the mean $\bar U$ of $n$ of them: $w_{D+1} / w_D$ rises from $\frac12$ to 1. The number grows while one
# more dimension multiplies $P$ by more than $w_D / w_{D+1}$. **Predict**: does it turn before or after half
# of the choices are possible?
#
# At $n = 8$, $T = 6$ we draw at least four choices of each of 2,000 stored data sets for each $d$, without a
# look at the scores. The chance to be locally optimal is exact over the labels, and a mean over 2,048 heads
# (+-: standard errors). At $(3, 4)$ all choices are counted.


# %%
def predict(kind, n, T, dimensions):
    most = n * (T - 1)  # there are no more leads
    w = win_all(most, n)
    return [T**n * law(kind, n, T, d) * w[min(d if kind == "p" else d * d, most)] for d in dimensions]


predicted = {"p": predict("p", 8, 6, range(1, 41)), "W": predict("W", 8, 6, range(1, 7))}
print(f"most predicted at D = {1 + np.argmax(predicted['p'])}, half are possible near {8 * nu[6]:.1f}")
print("n = 8, T = 6  best possible  support tokens, drawn choices  locally optimal  of the possible, global")
for kind in ("p", "W"):
    stored = found[f"dimensions_{kind}"].squeeze()
    error = 6**8 * stored.locally_optimal.std("trial") / np.sqrt(2000)  # standard error of the number
    for d, can, support, number, won in runs.by_dimension(stored):
        shown = f"{number:12.0f} +- {error.sel(d=d):4.1f}"
        print(f"{kind}, d = {d:4d} {can:16.3f} {support:30.1f} {shown} {won:21.2f}")
        assert (won > 0.98) == (support > 37)
        if d <= (12 if kind == "p" else 3):
            assert 0.7 < predicted[kind][d - 1] / number < 1.3, again.format("12.4")
            off = stored.random_possible.sel(d=d).mean() - law(kind, 8, 6, d)
            assert abs(off) < (0.03 if kind == "p" else 0.1)
print("n = 3, T = 4:   locally optimal   predicted   of the possible, global")
for kind, dimensions in (("p", (2, 3, 4, 8, 16)), ("W", (2, 3, 4))):
    for d, expected in zip(dimensions, predict(kind, 3, 4, dimensions), strict=True):
        here = small.sel(kind=kind, d=d)
        number, can = (here.wrong + here.possible).mean(), here.possible == 1
        won = (here.code == runs.GLOBAL).where(can).mean()
        print(f"{kind}, d = {d:2d} {number:21.1f} {expected:11.1f} {won:25.2f}")
        near = d <= 4 if kind == "p" else d == 2
        assert (0.7 if near else 0) < expected / number < (1.3 if near else 0.8)


# %% jupyter={"source_hidden": true}
fig, (left, right) = plt.subplots(1, 2, figsize=(8.5, 3.2))
for kind, (name, color, marker) in list(KINDS.items())[:2]:
    stored = found[f"dimensions_{kind}"]
    table = np.array(runs.by_dimension(stored))
    error = 6**8 * stored.locally_optimal.std("trial").squeeze() / np.sqrt(2000)
    left.errorbar(
        table[:, 0], table[:, 3], 2 * error, fmt=marker, ms=3, lw=2, color=color, label=f"{name}, counted"
    )
    for of, line, size, fill in (
        (stored, "-", "(8, 6)", color),
        (small.sel(kind=[kind]), "--", "(3, 4)", "white"),
    ):
        can = of.possible.sum("trial").squeeze()
        hits = ((of.code == runs.GLOBAL) & (of.possible == 1)).sum("trial").squeeze()
        right.plot(of.d, hits / can, f"{marker}{line}", color=color, mfc=fill, label=f"{name}, ${size}$")
        right.vlines(of.d, *wilson(hits, can), color=color, linewidth=2)
    of = predicted[kind]
    left.plot(range(1, len(of) + 1), of, "-", color=color, linewidth=0.8, label=f"{name}, predicted")
left.set(yscale="log", ylabel="locally optimal choices", ylim=(0.7, 4000))
right.set(ylabel="of the possible, global", ylim=(-0.03, 1.05))
for ax in (left, right):
    ax.set(xscale="log", xlabel="dimension $d$")
    ax.set_xticks([2, 4, 10, 40, 200, 1000], ["2", "4", "10", "40", "200", "1000"])
    ax.minorticks_off()
    ax.legend(fontsize=8, handlelength=3)
show(
    fig,
    alt="Left: the number of locally optimal choices against d for p and W. It rises to a peak of almost two "
    "thousand, near d = 10 to 12 for p and d = 3 for W, and falls to one; thin curves, the predictions, peak "
    "there and fall sooner. Right: the share of global runs among those that could be. At eight sequences "
    "of six tokens p falls from 0.86 to below 0.1 at d = 10 to 16, W is lowest at d = 4; then both "
    "rise to one, W at much smaller d. At three of four tokens "
    "p falls from 0.91 at d = 2 to 0.73 at d = 4 and rises again, W rises from d = 2 on.",
)

# %% [markdown]
# **Figure 4.** Left: $n = 8$, $T = 6$. Right: 2,000 runs a point for $(n, T) = (8, 6)$, 500 for
# $(3, 4)$. Bars: 95%.
#
# The prediction is within 30% up to $d = 12$ for $p$ and 3 for $W$, at $(3, 4)$ up to 4 and 2. Beyond it is
# too low: the support tokens are fewer than $D$. (In part two errors cancel there, as $1/(1+k)$ is too high.)
# So the number turns near where half the choices are possible: before at $(8, 6)$, after at $(3, 4)$.
#
# **At these two sizes more dimensions first bring more locally optimal choices of $p$, then fewer**, and of
# its possible runs fewest are global near the predicted peak: at $d = 10$ to 16, and 4. In the end one choice
# is left:
#
# > **Proposition.** If in every choice all other tokens are support tokens, only the best choice is
# > locally optimal.
#
# *Why.* In any other choice some sequence's best token is a support token, and it scores higher. $\square$
#
# Orthogonal tokens of one length have this property for $p$, by symmetry, and random tokens come near to
# orthogonal as $d$ grows. But slowly: for $p$ at $d = 64$ every choice is possible and no finite point
# stationary (12.2), and yet over half of the runs miss the best.
#
# So without stationary points a landscape is not yet benign.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12.7 Claims and measurements
#
# | claim | prediction | measured |
# |---|---|---|
# | favoured by the first gradient | part of a condition | under 1% of those local |
# | equal scores of all others | enough for one sequence | not for several: 10% local |
# | no rival, best choice possible | global | all but 7 of 9,986, none local later; not at $d = 2$, $(2, 3)$ |
# | most locally optimal choices at $(8, 6)$ | $p$: $d = 10$; $W$: 3 | of those tried, 10 and 12; 3 |

# %% [markdown]
# ## Questions
#
# Four sequences of 1,000 tokens: how many dimensions make every choice possible for $W$, for Gaussian tokens
# and on the unit sphere? How many leave no finite $W$ stationary?
# <details><summary>Answer</summary>
#
# The count asks for $T - 1 = 999$. On the sphere $d = n = 4$ is enough. The last question has nothing to do
# with it: four are enough, if the queries are independent.
# </details>

# %%
assert enough(4, 1000) == 999, again.format("12.1")
progress("12")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - To make **every** choice possible for $W$: $d^2 \ge n\,(T - 1)$ and $d \ge T - 1$; for tokens of **one
#   length** $d \ge n$ is enough, too (almost all data).
# - To leave no finite $W$ **stationary**: $d \ge n$ (almost all data).
# - To make half of the **random** choices possible for $p$ and Gaussian tokens: about $n\,\nu_T$.
# - To **find** the best choice: many more. At $n = 8$, $T = 6$ every choice is guaranteed possible at $d =
#   40$ for $p$, 7 for $W$; of the dimensions tried, 98% of the runs were global only from $d = 1024$ and 64
#   on.

# %% [markdown]
# ## Further reading
#
# - D. A. Tarzanagh, Y. Li, C. Thrampoulidis, S. Oymak, *Transformers as Support Vector Machines* (2023, arXiv
#   2308.16898): feasibility, over-parameterisation, global convergence.
# - D. A. Tarzanagh, Y. Li, X. Zhang, S. Oymak, *Max-Margin Token Selection in Attention Mechanism* (NeurIPS
#   2023, arXiv 2306.13596): global convergence for one sequence whose other tokens have equal scores.
# - D. Amelunxen, M. Lotz, M. B. McCoy, J. A. Tropp, *Living on the Edge: Phase Transitions in Convex
#   Programs with Random Data* (2014, arXiv 1303.6672): the formula.
# - T. M. Cover, *Geometrical and Statistical Properties of Systems of Linear Inequalities* (IEEE Trans.
#   1965); J. G. Wendel, *A Problem in Geometric Probability* (Math. Scand. 1962).
#
# The count $d^2 \ge n(T - 1)$, the propositions, the use of the formula for attention and the turning
# point of 12.6 are this lesson's own: short arguments and measurements.
#
# **New in the library:** [`sweep.sweep`](../mini_attn/sweep/run.py) and
# [`sweep.wilson`](../mini_attn/sweep/shares.py).
#
# **Next:** [lesson 13](13_nonlinear_heads.ipynb): a nonlinear head may want several tokens at once.
