# %% [markdown] slideshow={"slide_type": "slide"}
# # 12 · Over-parameterisation
#
# Training mostly ends with one selected token in each sequence, but not always with the best one (lesson 07).
# Tarzanagh, Li, Thrampoulidis and Oymak (2023) hold that over-parameterisation helps in two ways: it makes
# every choice of tokens feasible, and it leaves no stationary points. How many dimensions does either take,
# and does training then find the best choice?
#
# **The question: how many dimensions are enough, and for what?**

# %% [markdown]
# **After this lesson you can**
#
# - say how many dimensions make every choice feasible, and how many leave no finite point stationary;
# - predict how often a random choice is feasible, for $p$ and Gaussian tokens;
# - estimate how many choices are locally optimal, and change that at one $d$.
#
# **You need** [lesson 07](07_local_global_tokens.ipynb) (support tokens, locally optimal choices) and the
# matrix $W$ of [lesson 10](10_cross_self_attention.ipynb). About 85 minutes (130 with a pencil), without the
# optional sections.

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
# How does training end, as the number of dimensions grows? We draw $n$ sequences of $T \ge 2$ tokens
# $x_{it}$, queries $z_i$ and a head $v$ uniformly from the **unit sphere** of $\mathbb R^d$, and fair labels
# $y_i = \pm 1$, all independently. Token $t$ of sequence $i$ has the score $\gamma_{it} = y_i\, v \cdot
# x_{it}$. The token with the highest score is the **best token** of its sequence, and those of all sequences
# are the **best choice**. The loss is $L = \frac1n \sum_i \log(1 + e^{-u_i})$ with
# $u_i = \sum_t s_{it} \gamma_{it}$, where the attention $s_i$ is the softmax of the **logits**
# $x_{it} \cdot p$ or $x_{it} \cdot W z_i$.
#
# On the same data we train $p$, $W$ and the $d \times d$ factors $(K, Q)$ of $W = KQ^\top$ ([lesson
# 11](11_key_query_nuclear.ipynb)): $p$ and $W$ from zero, $(K, Q)$ from entries $N(0, 0.1^2)$. The 600 steps
# along $-\nabla L$ have the lengths $0.1 \sqrt 1, \dots, 0.1 \sqrt{600}$. If each sequence then gives more
# than 0.99 of its attention to one token, the run is **global** if these are the best tokens, and **local**
# if not. All other runs are **undecided**.
#
# We call $(n, T, d)$ a **size**. The 72,000 runs, 500 of each kind at each $n = 2, 4, 8$, $T = 3, 6$ and
# eight $d$, are stored.

# %%
# `measured` finds a stored sweep; `sweep` runs a function, here `runs.shares` (it trains), over a grid
names = ("shares", "wide", "narrow", "rivals", "dimensions_p", "dimensions_W")
found = {name: measured(f"12.{name}").load() for name in names}
KINDS = {"p": ("$p$", BLUE, "o"), "W": ("$W$", ORANGE, "s"), "KQ": ("$(K, Q)$", GREEN, "^")}
shares = found["shares"]
is_global, is_local = shares.global_.astype(bool), shares.local.astype(bool)

# at one size a hundred of each kind are trained again
cell = {"kind": ["p", "W", "KQ"], "n": [8], "T": [3], "d": [8]}
fresh = sweep(runs.shares, cell, 100, batch=100, paired=["kind"], workers=1, progress=False)
agree = (fresh.global_ == shares.global_.sel(**cell, trial=slice(0, 99))).mean(("n", "T", "d", "trial"))
print("trained again: share global or not as stored, p, W, (K, Q):", *(f"{of:.1f}" for of in agree.values))
assert (is_global.sel(kind="p").sum("trial") == is_global.sum("trial").min("kind")).all()
assert (agree > 0.9).all()  # rounding decides a few runs, and differs between processors

# %% jupyter={"source_hidden": true}
SIZES = [(n, T) for n in (2, 8) for T in (3, 6)]
fig, axes = plt.subplots(3, 4, figsize=(8, 5.2), sharex=True, sharey=True)
for along, (kind, (name, _, _)) in zip(axes, KINDS.items(), strict=True):
    for ax, (n, T) in zip(along, SIZES, strict=True):
        here = {"kind": kind, "n": n, "T": T}
        low, high = (of.sel(here).sum("trial") for of in (is_global, is_global | is_local))
        for floor, roof, color in ((0, low, "sky"), (low, high, "orange"), (high, 500, "white")):
            color = plots.COLORS.get(color, color)
            ax.fill_between(shares.d, floor / 500, roof / 500, color=color, linewidth=0)
        for border in (low, high):
            ax.plot(shares.d, border / 500, "-", color=BLACK, linewidth=0.8)
            ax.vlines(shares.d, *wilson(border, 500), color=BLACK, linewidth=2.5, clip_on=False)
        ax.set(xscale="log", xlim=(2, 24), ylim=(0, 1), yticks=(0, 0.5, 1))
        ax.set_xticks([2, 4, 8, 24], ["2", "4", "8", "24"])
        ax.minorticks_off()
        ax.tick_params(labelsize=10)
    along[0].set_ylabel(name, fontsize=14)
for ax, (n, T) in zip(axes[0], SIZES, strict=True):
    ax.set_title(f"$n = {n}$, $T = {T}$", fontsize=11)
boxes = [plt.Rectangle((0, 0), 1, 1, facecolor=plots.COLORS[of]) for of in ("sky", "orange")]
boxes.append(plt.Rectangle((0, 0), 1, 1, facecolor="white", edgecolor=BLACK))
fig.legend(boxes, ("global", "local", "undecided"), loc="outside upper center", ncols=3, fontsize=12)
fig.supxlabel("dimension $d$")
fig.supylabel("share of runs")
show(
    fig,
    alt="Twelve panels, for p, W and (K, Q) and four n, T, of the shares of global, local and undecided "
    "runs against d from 2 to 24. With two sequences of three tokens most runs are global at every d. With "
    "eight of six few are at d = 2, and most of p and W undecided; at d = 24 most runs of W and (K, Q) are "
    "global, and most of p local.",
)

# %% [markdown]
# **Figure 1.** How 500 runs of each kind and size, without $n = 4$, ended: shares, stacked. Bars: Wilson's
# 95% bands.
#
# The share of global runs falls as $n$ and $T$ grow, and mostly rises with $d$. At each size $W$ and $(K, Q)$
# have at least as many global runs as $p$.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12.2 Every choice feasible, no point stationary
#
# Which tokens can attention select? And can training stop at a finite point?
#
# A **choice** $\alpha$ names one token of each sequence. The logit of a chosen token minus that of another
# token of its sequence is a **lead**, and a chosen token is **ahead** if all its leads are positive. A choice
# is **feasible** (lesson 07) if some $p$ or $W$ puts all its tokens ahead. Its Att-SVM, which asks for leads
# of at least 1, then has a solution: make that $p$ or $W$ longer. The factors $(K, Q)$ can do what $W$ can.
#
# Each lead is the product of $p$ or $W$ with a **row** of the Att-SVM. The row is $x_{i\alpha_i} - x_{it}$
# for $p$, and the matrix $(x_{i\alpha_i} - x_{it})\, z_i^\top$ for $W$.
#
# > **Theorem** (Tarzanagh, Li, Thrampoulidis, Oymak, 2023). If $d \ge \max(T - 1, n)$, then for almost all
# > tokens and queries the Att-SVM for $W$ is feasible for *every* choice $\alpha$.
#
# <details><summary>Why</summary>
#
# For almost all data: if $d \ge n$, the queries are linearly independent, so some $W$ has $W z_i =
# p_i$ for any $p_i$ we like, and each sequence is on its own. If $d \ge T - 1$, its differences
# $x_{i\alpha_i} - x_{it}$ are linearly independent, and a $p_i$ can give them any leads. $\square$
# </details>

# %% [markdown]
# ### Exercise 12.1: Enough dimensions for every choice
#
# ★★☆ · 10 minutes
#
# The proof uses $d \ge n$ to separate the sequences. Is that needed? Every choice is feasible for $W$ if the
# rows of one choice are linearly independent: these rows can then be given any leads, and the rows of another
# choice are differences of them, or their negatives. For almost all data the rows are independent, as soon as
# nothing that one can *count* forbids it. Find what forbids it, and return the smallest $d$ at which nothing
# does, for any $n \ge 1$, $T \ge 2$.
#
# <details><summary>Hint</summary>
#
# How many rows are there, and in a space of how many dimensions? Then the same question for the rows of *one*
# sequence, which share $z_i$.
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
# So it takes $d \ge T - 1$ and $d^2 \ge n\,(T - 1)$, **the count for $W$**. For 100 sequences of two tokens
# 10 dimensions will do, not the theorem's 100. For $p$, with $d$ parameters, **the count for $p$** is
# $d \ge n\,(T - 1)$.
#
# <details><summary>Why nothing else forbids it: dealing cards</summary>
#
# Write the rows, each as a list of its $d^2$ entries, below one another as one large matrix. They are
# independent if one of its largest square subdeterminants is not zero. That is a polynomial in the data: if
# it is not zero for *one* data set, it is not zero for almost all. So one data set of each size will do. Take
# queries of which any $d$ (or all, if fewer) are independent, and deal out the unit vectors
# $e_1, \dots, e_d, e_1, \dots$ in turn, like cards, as the differences: $T - 1$ to each sequence, all
# distinct, as $T - 1 \le d$. With $n\,(T - 1) \le d^2$ rows no $e_k$ is dealt to more than $d$ sequences. The
# row $e_k z_i^\top$ has $z_i$ in line $k$ and zeros elsewhere. So rows with different $k$ fill different
# lines, and those with the same $k$ have independent queries.
#
# The same holds on the unit sphere if $d \ge 2$: as the sphere is then connected, a polynomial that is not
# zero on all of it is zero almost nowhere. Take $x_{i\alpha_i}$ without a zero coordinate, and let $x_{it}$
# be $x_{i\alpha_i}$ with the sign of its coordinate $k$ turned round. The difference is then a multiple of
# $e_k$. $\square$
# </details>
#
# Are the counts sharp? We try all $T^n$ choices of 60 data sets of **Gaussian tokens**: their coordinates,
# and those of the queries, are independent $N(0, 1)$ numbers. Only the first line is in the theorem's range.

# %%
# `runs.gaussian` draws tokens and queries, `runs.every_choice` solves each choice's Att-SVM
print("        n  T  d  rows  params     data sets with every choice feasible, share of 60")
sizes = (3, 3, 3), (4, 2, 2), (5, 2, 2), (4, 3, 3), (1, 4, 2), (3, 3, 6), (3, 3, 5)
for kind, (n, T, d) in zip("WWWWWpp", sizes, strict=True):
    share = runs.every_choice(kind, *runs.gaussian(n, T, d, trials=60, seed=0)).mean()
    rows, params = n * (T - 1), d if kind == "p" else d * d
    print(f"{kind:5s} {n:3d} {T:2d} {d:2d} {rows:5d} {params:7d} {share:38.2f}")
    by_count = d >= T - 1 and params >= rows
    assert (share == 1) == by_count
    assert kind == "p" or (enough(n, T) <= d) == by_count, again.format("12.1")

# %% [markdown]
# They are: the share is 1 just where the count holds (in the fifth line $d < T - 1$). Where it fails, some
# choice is infeasible on an open set of data.
#
# <details><summary>Why they are sharp</summary>
#
# *$W$, if $d < T - 1$*: a token inside the convex hull of $d + 1$ others is ahead for no $p_i$, and stays
# inside if all tokens move a little.
#
# *$W$, if $d \ge T - 1$ and $d^2 < n(T - 1)$*: take any $d^2 + 1$ rows $r_k$. They are dependent,
# $\sum_k c_k r_k = 0$. For almost all data every $c_k \ne 0$, as any $d^2$ of them are independent (deal the
# cards to these rows alone, sequence by sequence). Turn round each row with $c_k < 0$, by
# $x_{it} \to 2 x_{i\alpha_i} - x_{it}$. Now all $c_k > 0$, so no $W$ makes every lead positive. This stays so
# on all data near enough.
#
# *$p$, if $d < n(T - 1)$*: the same with any $d + 1$ rows. $\square$
#
# Tokens of *one length* are easier: for $W$ independent queries are then enough, at any $T$ (section 10.3).
# </details>

# %% [markdown]
# ### Exercise 12.2: A direction for every point
#
# ★★☆ · 10 minutes
#
# Training could still miss a feasible choice by stopping at a finite $W$. Let $n = d$, with linearly
# independent queries `z` (n, d). Return the matrix $V$ along which every logit grows like its own score: $x
# \cdot V z_i = y_i\, v \cdot x$ for every vector $x$. **Predict**: at what rate does $u_i$ grow, if we move
# any $W$ along $V$?
#
# <details><summary>Hint</summary>
#
# It holds for every $x$. So which vector is $V z_i$?
# </details>


# %%
@exercise("12.2")
def direction(v, z, y):
    """Return V (d, d) that makes every x . V z[i] the score y[i] v . x; v (d,), z (n, d), y (n,)."""
    ### BEGIN SOLUTION
    return np.outer(v, np.linalg.solve(z, y))  # q . z_i = y_i
    ### END SOLUTION


# %%
check("12.2", direction)

# %%
# `runs.grown` compares every u_i at a random W (d = n = 8, T = 6) with that at W + 0.0001 V
print("u_i of 8 sequences that grow from a random W along V:", runs.grown(direction))
assert runs.grown(direction) == 8, again.format("12.2")

# %% [markdown]
# All eight $u_i$ grow, each at the rate $\sum_t s_{it} (\gamma_{it} - u_i)^2$, the variance of its scores.
#
# Call the queries **separable** if some vector $q$ has $y_i\, q \cdot z_i > 0$ for all $i$.
#
# > **Proposition.** Let the scores of some sequence not all be equal. Then $L$ has no finite stationary point
# > in $W$ if the queries are separable, or if the rows for $W$ (of one choice, hence of each) are linearly
# > independent; and none in $p$ if the rows for $p$ are. (In $(K, Q)$ zero is one.)
#
# <details><summary>Why</summary>
#
# In each case some direction lets the logits of sequence $i$ grow like $c_i \gamma_{it}$, $c_i > 0$,
# up to a number common to the sequence: $v q^\top$ does, with $c_i = y_i\, q \cdot z_i$; and with
# independent rows any leads can be had. Then $u_i$ grows like $c_i \sum_t s_{it} (\gamma_{it} - u_i)\,
# \gamma_{it} = c_i \sum_t s_{it} (\gamma_{it} - u_i)^2$, which is positive if these scores differ. So $L$
# falls. $\square$
#
# Without these conditions there can be such a point. If two sequences have the tokens $-1, 1$, the query $1$
# and opposite labels, then $u_2 = -u_1$, so $L$ is least where both are zero, at $W = 0$ (or $p = 0$).
# </details>
#
# Linearly independent queries are always separable. So for almost all data **no finite $W$ is stationary if
# $d \ge n$, or if the count for $W$ holds**, and no finite $p$ if the count for $p$ does.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12.3 Is a random choice feasible?
#
# How many dimensions does one **random choice** need, that is, a choice made without looking at the data? As
# all tokens are drawn alike, let it be the first token of each sequence.
#
# Take one sequence and $T$ independent $N(0, 1)$ logits, and move them to the nearest point $h$ (least
# squares) of the cone where $h_1 \ge h_t$ for all $t$. Any other token that ends there with $h_t = h_1$ is a
# **tie**. Let $j$ be the number of ties and $\nu_T$ its mean.

# %% [markdown]
# ### Exercise 12.3: How many tokens tie?
#
# ★★★ · 20 minutes
#
# The array `logits` (N, T) holds the logits of one sequence in each line. Return the number of ties $j$ of
# each. **Predict** first, by hand: the first token has the logit 0, the others have 3 and 1. How many ties
# are there?
#
# <details><summary>Hint</summary>
#
# Suppose you know which tokens are tied. To what number do they and the first move, if the sum of
# squared moves is to be smallest?
# </details>
#
# <details><summary>Hint: which tokens</summary>
#
# They move to their common mean. So which tokens would have to move, if the highest alone came down to meet
# the first?
# </details>


# %%
@exercise("12.3")
def ties(logits):
    """Return how many tokens are tied with the first at the nearest point of the cone; logits (N, T)."""
    ### BEGIN SOLUTION
    others = np.sort(logits[:, 1:])[:, ::-1]  # the highest first
    mean = np.cumsum(np.hstack((logits[:, :1], others)), axis=1) / np.arange(1, logits.shape[1] + 1)
    return (others > mean[:, :-1]).sum(axis=1)
    ### END SOLUTION


# %%
check("12.3", ties)

# %% [markdown]
# $j = 1$: only the 3 is tied, as it meets the first at 1.5, above the 1.


# %%
def chances(T, draws=200_000):
    """The chances of 0, 1, ..., T - 1 ties in one sequence, counted."""
    return np.bincount(ties(np.random.default_rng(T).normal(size=(draws, T))), minlength=T) / draws


chance = {T: chances(T) for T in (2, 3, 4, 5, 6, 7, 8, 20)}
nu = {T: (of_T * np.arange(T)).sum() for T, of_T in chance.items()}
print("nu_T:", *(f"{nu[T]:.1f} (T = {T})" for T in (2, 3, 4, 8, 20)))
assert np.abs(chance[3] - [1 / 3, 1 / 2, 1 / 6]).max() < 0.004, again.format("12.3")


# %% jupyter={"source_hidden": true}
def draw_cone(ax, points, tied, angle):
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
    ax.set(xlim=(-3.3, 3.3), ylim=(-3.3, 3.3), aspect="equal")
    ax.set_axis_off()


logits = np.random.default_rng(0).normal(size=(500, 3))
along_one = logits @ np.array([[2, 0], [-1, np.sqrt(3)], [-1, -np.sqrt(3)]]) / np.sqrt(6)  # the plane
fig, ax = plt.subplots(figsize=(3.6, 3.4))
draw_cone(ax, along_one, ties(logits), 120)
show(
    fig,
    alt="A cloud of points round the tip of a cone that opens by 120 degrees. Points beside it move to an "
    "edge, points behind it, in a sector of 60 degrees, to the tip.",
)

# %% [markdown]
# **Figure 2.** Logits of three tokens, seen along $(1, 1, 1)$. Lines: the cone, a third of the plane. Points
# beside it move to an edge, with one tie, and points behind it (dotted) to the tip, with two.
#
# The cloud in Figure 2 is round, so chances are angles: three tokens have $\nu_3 = \frac12 \cdot 1 + \frac16
# \cdot 2 = \frac56$ ties on average.
#
# Now take $n$ sequences, and let $J$ be the sum of $n$ independent copies of $j$. All $nT$ logits together
# are one vector. Those with every first token ahead form a cone, and those that the parameters can make a
# subspace. The choice is feasible if the subspace enters the cone. $J$ is the codimension of the face on
# which the point nearest to random logits lies, and on the chances of $J$ alone it depends how often a random
# subspace enters the cone (not proved here):
#
# > **Theorem** (conic kinematic formula; Amelunxen, Lotz, McCoy, Tropp 2014). Let the vectors of logits that
# > the parameters can make be a uniformly random subspace of $\mathbb R^{nT}$, of dimension $D \le nT$. A
# > choice made independently of it is feasible with probability
# >
# > $$P = 2\,\big[\Pr(J = D - 1) + \Pr(J = D - 3) + \Pr(J = D - 5) + \dots\big].$$
#
# We call this $P$ **the law**.
#
# <details><summary>Why, for $T = 2$: Cover's count</summary>
#
# With $T = 2$ each sequence has one row. Let any $D$ of the $n$ rows (or all, if fewer) be linearly
# independent, as vectors of $D$ parameters. Into how many regions $C(n, D)$ do the $n$ hyperplanes of lead 0
# cut the space of parameters? The others cut the last one into $C(n - 1, D - 1)$ pieces, and each piece cuts
# a region in two: $C(n, D) = C(n - 1, D) + C(n - 1, D - 1)$. As $C(1, D) = 2$ and $C(n, 0) = 0$, we get
# $C(n, D) = 2 \sum_{k < D} \binom{n-1}k$ (Cover 1965).
#
# Each region has its own pattern of signs of the $n$ leads. As both tokens of a sequence are drawn alike, all
# $2^n$ patterns are equally likely to occur, and so "all positive" does with chance $P = C(n, D) / 2^n$. This
# is the law: $j$ is 0 or 1 with chance $\frac12$ each, so $2 \Pr(J = k) = 2^{1-n} \big[\binom{n-1}k +
# \binom{n-1}{k-1}\big]$. $\square$
# </details>
#
# For $p$ and Gaussian tokens the law holds with $D = \min(d, nT)$. With many sequences half of the choices
# are feasible near $d = n\,\nu_T$.
#
# <details><summary>Why the law holds for $p$, and why half are feasible there</summary>
#
# The vectors of all $nT$ logits are the column space of a Gaussian matrix, whose distribution no rotation of
# $\mathbb R^{nT}$ changes.
#
# With many sequences neighbouring values of $J$ are about equally likely. Half of each $2 \Pr(J = D - 1)$
# then stands for the two neighbours, and $P$ is about $\Pr(J < D) + \frac12 \Pr(J = D)$. As $J$ is near its
# mean $n\,\nu_T$, this is near one half there.
# </details>


# %%
def law(n, T, D):
    """P: twice the chance that J is D - 1, D - 3, D - 5, ..."""
    J = np.ones(1)
    for _ in range(n):
        J = np.convolve(J, chance[T])  # one more sequence
    return min(1, 2 * J[(D - 1) % 2 : D : 2].sum())  # the chances of ties are counted: up to 1


# `runs.feasible_share` solves the Att-SVMs of 600 random choices of Gaussian tokens
dimensions = (1, 2, 3, 4, 5, 6)
counted = np.array([runs.feasible_share("p", 3, 4, d) for d in dimensions])
assert np.abs(counted - [law(3, 4, d) for d in dimensions]).max() < 0.04, again.format("12.3")


# %% jupyter={"source_hidden": true}
def draw_chance(ax, n, T, d):
    """The law for p."""
    ax.plot(d, [law(n, T, k) for k in d], "_", ms=14, mew=2, color=BLACK, label="law")
    ax.set(xlabel="dimension $d$", ylabel="share feasible", ylim=(-0.03, 1.05))


fig, ax = plt.subplots(figsize=(4.6, 2.8))
draw_chance(ax, 3, 4, np.arange(1, 11))
ax.vlines(dimensions, *wilson(np.round(600 * counted), 600), color=BLUE, linewidth=2)
ax.plot(dimensions, counted, "o", color=BLUE, label="measured")
ax.legend(loc="lower right")
show(
    fig,
    alt="Share of feasible random choices for p against d: rising dashes, one for each d, with points on "
    "the first six.",
)

# %% [markdown]
# **Figure 3.** $p$, $n = 3$, $T = 4$, Gaussian tokens: measured shares (bars: 95%, 600 choices each) and the
# law.
#
# Half are feasible near $d = 3$, as $n\,\nu_T$ foresees, but by the count all choices only from
# $n\,(T - 1) = 9$ on. Sliders: the law for other sizes.


# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output", "widget"]
def possibility(n, T):
    figure = Figure(figsize=(5, 3), layout="none")
    ax = figure.add_axes((0.14, 0.19, 0.83, 0.69))
    draw_chance(ax, n, T, np.arange(1, n * (T - 1) + 3))
    ax.axvline(n * (T - 1), color=BLUE, linestyle="--")
    ax.set_title(f"half near {n * nu[T]:.1f}, dashed: every choice, {n * (T - 1)}", fontsize=11)
    ax.legend(loc="upper left")
    return figure


look = {"style": {"description_width": "90px"}, "layout": ipywidgets.Layout(width="440px")}
widgets.sliders(
    possibility,
    alt="The probability that a random choice is feasible for p against d.",
    n=ipywidgets.IntSlider(value=6, min=1, max=12, description="sequences", **look),
    T=ipywidgets.IntSlider(value=4, min=2, max=8, description="tokens", **look),
)

# %% [markdown]
# ## 12.4 A random choice for $W$ *(optional)*
#
# With $n > 1$ the logits that $W$ can make are not a uniformly random subspace, as sequence $i$ depends on
# $W z_i$ alone. Two cases can be settled all the same:
#
# > **Proposition** (this lesson). For $W$, Gaussian tokens and almost all fixed queries, a random choice is
# > feasible
# >
# > - if $d \ge n$, with probability $P_1^n$, where $P_1$ is the law for one sequence and $D = \min(d, T)$;
# > - if $d \ge T - 1$, with the probability of the law for $D = \min(d^2, nT)$.
#
# <details><summary>Why, in the first case</summary>
#
# If $d \ge n$, the queries are linearly independent, and $W$ can give each sequence any $p_i = W z_i$ that it
# needs. So the choice is feasible just if each sequence's token is, for a $p_i$ of its own. These are $n$
# independent events, and each has the chance $P_1$. $\square$
# </details>
#
# <details><summary>Why, in the second case, for $T = 2$</summary>
#
# By the cards of 12.2 any $d^2$ of the $n$ rows are linearly independent, so Cover's count (12.3) holds with
# $D = d^2$. Exactly half of the choices are feasible at $n = 2 d^2$. $\square$
# </details>
#
# <details><summary>A sketch of the second case for $T > 2$, for specialists</summary>
#
# Let $d^2 \le nT$ (else every choice is feasible). The open cone of all $W$ with positive leads has the Euler
# characteristic (with compact supports) $\chi = (-1)^{d^2}$ if the choice is feasible, and 0 if not.
# Rotations that mix the tokens of one sequence leave Gaussian tokens alike. Rotating one sequence after
# another, the kinematic formula for two cones gives
# $\mathbb E\, \chi = \sum c(j_1, \dots, j_n)\, (-1)^J \Pr(j_1) \cdots \Pr(j_n)$, with weights $c$ that do not
# depend on the cones. Linear spaces of codimensions $j_i$ in place of the cones tell the weights: the $W$
# then form a linear space with $\chi = (-1)^{d^2 - R}$, where $R$ is the rank of rows $x z_i^\top$ with $j_i$
# Gaussian $x$ for sequence $i$. As $j_i \le T - 1 \le d$, the cards of 12.2 show that $R = \min(d^2, J)$. So
# the chance is $\mathbb E\, (-1)^{J - R}$. For $D = nT$ the theorem's subspace is the whole space, so
# $P = 1$, and $J$ is even with chance $\frac12$. Hence this mean is the law for $D = d^2$. $\square$
# </details>
#
# So if $d \ge T - 1$ and there are many sequences, half of the choices are feasible near
# $d = \sqrt{n\,\nu_T}$. The table tests each case once, on 600 choices.

# %%
print("  n  T  d   measured   law   P_1^n")
for n, T, d in ((8, 4, 3), (3, 20, 3)):
    share, by_law, alone = runs.feasible_share("W", n, T, d), law(n, T, d * d), law(1, T, d) ** n
    print(f"{n:3d} {T:2d} {d:2d} {share:10.2f} {by_law:5.2f} {alone:7.2f}")
    assert abs(share - (by_law if d >= T - 1 else alone)) < 0.04, again.format("12.3")

# %% [markdown]
# The first share, where $d \ge T - 1$, is near the law, and the second, where $d \ge n$, near $P_1^n$.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12.5 Feasible is not found
#
# Does training find every feasible best choice? The table accounts for all runs of 12.1.

# %%
feasible = shares.possible.astype(bool)
ways = {"global": is_global, "local": is_local, "undecided": ~is_global & ~is_local}
print("best choice   run               p       W   (K, Q)")
for can, cases in ((True, ways), (False, ("local", "undecided"))):
    for way in cases:
        counts = (ways[way] & (feasible == can)).sum(("n", "T", "d", "trial")).values
        print(f"{'feasible' if can else 'infeasible':13s} {way:11s}", *(f"{count:7d}" for count in counts))
assert not (is_global & ~feasible).any()

# %% [markdown]
# It does not: of each kind thousands of runs missed one. Over nine in ten of these are local.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12.6 Three conditions, trial by trial *(optional)*
#
# Which conditions are enough for a run to be global? We test three.
#
# (i) *First gradient*: every best token is ahead at $-\nabla L(0)$. A theorem of Tarzanagh, Li,
# Thrampoulidis and Oymak on global convergence asks for it, among other things. For $(K, Q)$, whose gradient
# at zero is zero, we take that of $W$.
#
# (ii) *Equal scores*: in each sequence all tokens but the best have equal scores. With *one* sequence this is
# enough for $p$ by plain steps, if the best choice is feasible (lesson 06). For more sequences we set the
# scores of the other tokens to their mean.
#
# At sizes at which every choice is feasible, so that training alone can fail, we look at 500 stored runs, and
# at 200 new ones with equal scores.

# %%
# `runs.equal_others` sets the scores equal, `runs.ends` trains as in 12.1
print("(n, T, d)           own scores: local   (i) holds   of these, local    equal scores: local")
CASES = (("p", 3, 16), ("W", 6, 8), ("KQ", 6, 8))
for kind, T, d in CASES:
    for n in (2, 8):
        here = {"kind": kind, "n": n, "T": T, "d": d}
        lost, holds = is_local.sel(here), shares.favoured.sel(here) == 1
        equal = runs.equal_others(data.random_tokens(n, T, d, trials=200, seed=6))
        alike = int((runs.ends(kind, equal) == runs.LOCAL).sum())
        line = f"{lost.sum():12d} of 500 {holds.sum():11d} {(lost & holds).sum():17d} {alike:15d} of 200"
        print(f"{kind:2s} ({n}, {T}, {d:2d}) {line}")
        assert feasible.sel(here).all()
        assert n < 8 or (lost.sum() > 200 and holds.sum() < 20 and alike > 8)
        assert alike / 200 < lost.mean() + 0.01

# %% [markdown]
# *(i)* Where it holds, hardly a run is local. But it holds for few data sets of eight sequences, and for half
# or more of those of two, on which runs seldom fail anyway.
#
# *(ii)* With two sequences no run with equal scores is local. With eight they help, but are not enough.
#
# (iii) *No rival.* A **rival** is a locally optimal choice (lesson 07) that is not the best. Lesson 07's
# theorem suggests, but does not prove, that a run without rivals is global, if its best choice is feasible.
# All $T^n$ choices of 500 data sets a size were tried, at $(n, T) = (3, 4)$, $(4, 3)$, $(2, 6)$ and
# $d = 4, 8, 16$, and at $(3, 4)$ with $d = 2, 3$ too. The table counts the runs whose best choice is feasible
# by their number of rivals, all sizes together.

# %%
triples = [of.sel(d=slice(16)) for of in (found["narrow"].combine_first(found["wide"]), found["rivals"])]
table = {}  # of each kind and number of rivals (0 to 5, and 6 or more): global runs, all
for kind in ("p", "W"):
    # how runs ended, and their rivals (-1 if the best choice is infeasible)
    ends, rivals = runs.tried(kind, *triples)
    none = ends[rivals == 0]
    print(f"{kind}: left out {(rivals < 0).sum()} of {len(ends)}; without a rival", end=" ")
    print(f"{(none == runs.LOCAL).sum()} local, {(none == runs.UNDECIDED).sum()} undecided")
    each = [rivals == k for k in range(6)] + [rivals > 5]
    table[kind] = np.array([((ends[one] == runs.GLOBAL).sum(), one.sum()) for one in each])
print("rivals       p: global  share     W: global  share")
for k, name in enumerate((0, 1, 2, 3, 4, 5, "more")):
    cells = (f"{won:4d} of {of:4d} {won / of:6.2f}" for won, of in (table["p"][k], table["W"][k]))
    print(f"{name:<8} {'   '.join(cells)}")
assert all((np.diff(won / of) < -0.04).all() for won, of in (one.T for one in table.values()))

# %% [markdown]
# Without a rival one of 4,800 runs is local, and five are undecided. The more rivals a run has, the less
# often it is global.
#
# **Start and schedule.** We repeat the cases $n = 8$ for $p$ and $W$ on 200 new data sets, with steps of
# constant length, or from a random start of length 10.

# %%
many = {kind: data.random_tokens(8, T, d, trials=200, seed=11) for kind, T, d in CASES[:2]}
trainings = {"as in 12.1": {}, "constant steps": {"lr": 1.6, "schedule": None}, "far start": {"away": 10}}
won = {}
print("share of global runs     p    W")
for name, how in trainings.items():
    ends = [runs.ends(kind, of, **how) for kind, of in many.items()]
    won[name] = np.array([(of == runs.GLOBAL).double().mean() for of in ends])
    print(f"{name:20s}", *(f"{share:4.2f}" for share in won[name]))
usual, constant, far = won.values()
assert np.abs(constant - usual).max() < 0.06 < (usual - far).min()

# %% [markdown]
# Constant steps hardly change the shares, and the far start lowers them.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12.7 How many choices are locally optimal?
#
# Which choices can hold a run? A choice is **locally optimal** if it is feasible and, in every sequence,
# scores higher than its **support tokens** (leads of exactly 1 in its Att-SVM's solution). Such a choice
# keeps a run that comes far out near its direction (lesson 07). Fewer should be better, so we count them for
# $p$ and $W$.
#
# Eight sequences of six tokens have $6^8$ choices, too many to try. But the mean number of locally
# optimal ones is $6^8$ times the chance that a random choice is one. For each we take the mean over all
# labels and many new heads, on which its Att-SVM does not depend.
#
# **Predict**: as $d$ grows, the share of feasible choices rises to 1. What does the number of locally optimal
# choices do?

# %%
curves = {}  # for each d: d, mean number, its error, runs with a feasible best choice, global runs
for kind in ("p", "W"):
    curves[kind] = np.array(runs.by_dimension(found[f"dimensions_{kind}"].squeeze())).T
    d, number, _, _, best = curves[kind]
    few, most = (d[of].astype(int) for of in (number < 1.5, best > 0.98 * 2000))
    print(f"{kind}: mean number below 1.5 at d = {few}, over 98% of runs global at d = {most}")

# %% jupyter={"source_hidden": true}
fig, (left, right) = plt.subplots(1, 2, figsize=(9.4, 3.6), sharex=True)
for kind, (d, number, error, could, best) in curves.items():
    name, color, marker = KINDS[kind]
    left.errorbar(d, number, 2 * error, fmt=marker, ms=4, lw=2, color=color, label=name)
    right.plot(d, could / 2000, "-", color=color, lw=1, label=f"{name}, best choice feasible")
    right.plot(d, best / 2000, marker, ms=5, color=color, label=f"{name}, global")
    right.vlines(d, *wilson(best, 2000), color=color, linewidth=2, zorder=1)
left.axhline(1, color=BLACK, linestyle=":", linewidth=1)
left.set(yscale="log", ylabel="locally optimal choices", ylim=(0.7, 5000), xlabel="dimension $d$")
right.set(ylabel="share of runs", ylim=(-0.03, 1.05), xlabel="dimension $d$", xscale="log")
left.legend(fontsize=10)
right.legend(fontsize=9, loc="lower right", bbox_to_anchor=(1, 0.02))
right.minorticks_off()
right.set_xticks([2, 4, 10, 24, 64, 256, 1024], ["2", "4", "10", "24", "64", "256", "1024"])
show(
    fig,
    alt="Left: the number of locally optimal choices against d for p and W. It rises to 1,700 near "
    "d = 10 to 12 for p, to 1,500 at d = 3 for W, and falls to one. Right: the share of runs whose best "
    "choice is feasible rises to 1 by d = 24 for p and d = 8 for W. The share of global runs rises later, "
    "from 0.1 at d = 24 to 1 at d = 1024 for p, and from 0.2 at d = 4 to 1 at d = 64 for W.",
)

# %% [markdown]
# **Figure 4.** $n = 8$, $T = 6$, 2,000 data sets a point, bars: 95%. Left: mean number of locally optimal
# choices, from 4 to 32 drawn choices of each data set (dotted: 1, the best alone). Right: shares, of all
# runs, of those whose best choice is feasible (lines), and of global ones (marks).
#
# The number first rises, as more choices are feasible, and then falls, as these have more support tokens to
# beat.
#
# **Runs find the best choice where hardly another choice is locally optimal**: over 98% of all runs are
# global just where the mean number is below 1.5. As both change with $d$, this shows no cause.
#
# So we change **the queries alone**, for $W$ at $d = 8$. We make them orthonormal, or add once or three times
# a common unit vector, and scale to length 1. They stay independent, so every choice stays feasible, and no
# finite $W$ stationary.
#
# **Predict**: let one sequence have $N_1$ locally optimal choices on average. How many have eight with
# orthonormal queries?
#
# <details><summary>Answer</summary>
#
# For a $W$ that is zero orthogonally to the queries, as every solution is, $\lVert W \rVert^2 = \sum_i \lVert
# W z_i \rVert^2$. So the Att-SVM splits into one for each $p_i = W z_i$, and a choice is locally optimal just
# if it is so in each sequence. For a fixed head the sequences are independent, each with the mean number
# $N_1$, as rotated tokens are distributed alike. So the answer is $N_1^8$. $\square$
# </details>

# %%
# `runs.with_queries` changes only the queries, `runs.mean_number` draws choices as for Figure 4
same = data.random_tokens(8, 6, 8, trials=500, seed=0)
moved = []
print("queries        feasible   locally optimal choices   global")
for name, common in (("orthonormal", None), ("as drawn", 0), ("common once", 1), ("three times", 3)):
    tokens = runs.with_queries(same, common)
    can, number, error = runs.mean_number("W", tokens, draws=4)
    moved.append((number, (runs.ends("W", tokens) == runs.GLOBAL).double().mean().item()))
    print(f"{name:14s} {can:8.2f} {number:18.1f} ± {2 * error:4.1f} {moved[-1][1]:8.2f}")
for d, number in curves["W"][:2, 3:6].T:
    print(f"d = {d:.0f}: N_1^8 = {runs.number_if_split(8, 6, int(d)):.1f}, W in Figure 4: {number:.1f}")
assert (np.diff(moved, axis=0) * [1, -1] > 0.1).all()

# %% [markdown]
# At one $d$, the closer the queries, the more choices are locally optimal and the fewer runs global: from
# 0.92 down to 0.05. (But queries change more than this number.) Orthonormal ones give $N_1^8$ within the
# error, and random ones come near it as $d$ grows.
#
# For $p$ at $d = 64$, too, every choice is feasible and no finite point stationary, yet over half of the runs
# miss the best: both together are not enough.
#
# Can the number be foreseen? Let a choice have $k_i$ support tokens in sequence $i$, and $m$ in all, of the
# $M = n\,(T - 1)$ tokens that are not chosen. We make two assumptions:
#
# 1. any $m$ of the $M$ tokens are equally likely to be the support tokens;
# 2. scores are independent draws: a chosen token then scores higher than its support tokens with chance
#    $1 / (1 + k_i)$ (exercise 07.1).
#
# Then a feasible choice would **win**, that is, be locally optimal, with the chance
# $w_m = \mathbb E \prod_i 1 / (1 + k_i)$, the mean over all sets of $m$ tokens.
#
# ### Exercise 12.4: How many choices win
#
# ★★☆ · 20 minutes
#
# Return $w_0, w_1, \dots, w_M$ for $n$ sequences of $T$ tokens, exactly, without draws.
#
# <details><summary>Hint: by hand</summary>
#
# Two sequences of three tokens, $m = 2$. The support tokens are any two of four. Of the six pairs four have a
# token in each sequence, and two have both in one. So $w_2 = \frac46 \cdot \frac14 + \frac26 \cdot \frac13 =
# \frac5{18}$.
# </details>
#
# <details><summary>Hint: more sequences</summary>
#
# Add up $\prod_i 1 / (1 + k_i)$ over all *sets* of $m$ tokens, and divide by the number of sets only in the
# end. For one sequence, what is the sum over the sets of $k$ tokens (`math.comb`)? How do the lists of sums
# of two sequences combine?
# </details>


# %%
@exercise("12.4")
def win_all(n, T):
    """Return w_0, ..., w_M for n sequences of T tokens, an array of M + 1 numbers, M = n (T - 1)."""
    ### BEGIN SOLUTION
    one = [math.comb(T - 1, k) / (1 + k) for k in range(T)]  # of one sequence, for k = 0 ... T - 1
    sums = np.ones(1)
    for _ in range(n):
        sums = np.convolve(sums, one)
    return sums / [math.comb(len(sums) - 1, m) for m in range(len(sums))]
    ### END SOLUTION


# %%
check("12.4", win_all)

# %% [markdown]
# So we estimate the number by $T^n$ times the share of feasible choices times their mean $w_m$, measured on a
# drawn choice of each of 1,000 new data sets.

# %%
print("      d  support tokens   estimate  as in Figure 4   times too high")
drawn = {}
for kind, d in (("p", 24), ("p", 64), ("W", 4), ("W", 8)):
    tokens = data.random_tokens(8, 6, d, trials=1000, seed=38)
    can, k, _ = (of.numpy() for of in runs.drawn_choice(kind, tokens, seed=138, heads=1))
    m = k.sum(axis=1)
    estimate = 6**8 * (can * np.asarray(win_all(8, 6))[m]).mean()
    number = curves[kind][1][curves[kind][0] == d].item()
    drawn[kind, d] = can, k, estimate, number
    print(f"{kind} {d:5d} {m[can].mean():15.0f} {estimate:10.0f} {number:15.0f} {estimate / number:16.1f}")
    assert 1.1 < estimate / number < (1.5 if kind == "p" else 3.5), again.format("12.4")

# %% [markdown]
# It falls with more support tokens, as the measured number does, but is too high: 1.3 times for $p$, 2.0 and
# 3.2 times for $W$.

# %% [markdown]
# ## 12.8 Why the estimate is too high *(optional)*
#
# If we put $\prod_i 1 / (1 + k_i)$, with the $k_i$ of each choice, in place of $w_m$, only assumption 2 is
# left. So the estimate over this number tells how far assumption 1 is off, and this number over the measured
# one how far assumption 2 is.

# %%
print("      d   too high by assumption 1   by assumption 2   variance of k_i   by chance")
for (kind, d), (can, k, estimate, number) in drawn.items():
    own = 6**8 * (can / (1 + k).prod(axis=1)).mean()  # each choice's own k_i in place of w_m
    first, second = estimate / own, own / number
    m = k[can].sum(axis=1)
    spread, by_chance = k[can].var(axis=1).mean(), (m / 8 * 7 / 8 * (40 - m) / 39).mean()  # M = 40
    print(f"{kind} {d:5d} {first:26.1f} {second:17.1f} {spread:17.2f} {by_chance:11.2f}")
    assert spread < 0.9 * by_chance
    assert 1 < first < 1.4
    assert 1 < second < 1.3 if kind == "p" else second > 1.5

# %% [markdown]
# Assumption 1 is a little off for both, as support tokens are spread over the sequences more evenly than by
# chance. So is assumption 2 for $p$, but it **fails for $W$**.
#
# Scores are not independent, but linear in the tokens. Let there be two support tokens, seen from the chosen
# one at the angle $\theta$. The heads that score it above both lie between two planes at the angle $180° -
# \theta$, out of $360°$. So its chance to beat both is $(180° - \theta) / 360°$, which is $\frac13$ only at
# $60°$. We measure both for 2,000 sequences, $n$ at a time sharing $p$ or $W$.

# %%
print("   n   d   angle   chance")
for kind, n, d in (("p", 1, 12), ("p", 8, 12), ("W", 8, 12), ("W", 8, 8)):
    tokens = data.random_tokens(n, 6, d, trials=2000 // n, seed=7)
    k, angle, beaten = runs.support_angles(kind, tokens, seed=107, heads=128)
    mean, share = angle[k == 2].mean(), beaten[k == 2].mean()
    print(f"{kind} {n:2d} {d:3d} {mean:6.0f}° {share:8.2f}")
    assert abs(share - (180 - mean) / 360) < 0.006
    assert mean > 60
print(f"eight sequences like those of the last line: too high {(1 / 3 / share) ** 8:.1f} times")

# %% [markdown]
# The angle is above 60°, so the chance is below $\frac13$. For one sequence, where $p$ and $W z_1$ have the
# same problem, it is wide. With eight it comes near 60° for $p$, but at the same $d$ stays wider for $W$,
# which gives each sequence a vector $W z_i$ of its own. Over
# eight sequences this makes a factor like that of assumption 2.
#
# <details><summary>Why an even spread matters, and why the angle is wide</summary>
#
# Of $k_i$ with the same sum, even ones have the largest product of $1 + k_i$. So $w_m$ is too high.
#
# *One sequence of three tokens.* Let $r_1$, $r_2$ be the chosen token minus the others. If both support, the
# solution is $\lambda_1 r_1 + \lambda_2 r_2$ with positive $\lambda_1$, $\lambda_2$. As both leads are equal,
# $\lambda_1 : \lambda_2 = r_2 \cdot (r_2 - r_1) : r_1 \cdot (r_1 - r_2)$. So the
# triangle of the tokens has acute angles at *both* support tokens. In a triangle that has not, the other two
# angles sum to less than $90°$ and are alike by symmetry: the chosen token's is below $45°$ on average. Over
# all triangles its mean is $60°$. So over those with two support tokens it is above.
# </details>

# %% [markdown]
# ## 12.9 Claims and measurements
#
# | claim (Gaussian tokens, or as said) | prediction | measurement |
# |---|---|---|
# | random choice (12.3, 12.4) | cited ($T = 2$: proved); $W$, $n > d \ge T - 1$: sketched | within 0.04 |
# | sphere: orthonormal queries: $N_1^8$ (12.7) | proved | 5.0 ± 1.1 beside 4.9 |
# | sphere: locally optimal choices (12.7's sizes) | estimate | 1.3 ($p$), 2.0–3.2 ($W$) times too high |
# | sphere: no rival, best choice feasible: global (12.6) | not proved | 4,794 of 4,800 |

# %% [markdown]
# ## Questions
#
# Four sequences of 1,000 Gaussian tokens: how many dimensions make every choice feasible for $W$? How many
# are enough to leave no finite $W$ stationary?
# <details><summary>Answer</summary>
#
# The count for $W$ asks for $T - 1 = 999$. No finite $W$ is stationary already if $d \ge n = 4$, for almost
# all data.
# </details>

# %%
assert enough(4, 1000) == 999, again.format("12.1")
progress("12")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# **For almost all data the count is enough to make every choice feasible and to leave no finite point
# stationary; to find the best choice can take many more.**
#
# - **Every choice**: the count is $d \ge n\,(T - 1)$ for $p$; for $W$ it is $d \ge T - 1$ and
#   $d^2 \ge n\,(T - 1)$. For Gaussian tokens nothing less is enough.
# - **No stationary point**: for $W$ also $d \ge n$ is enough.
# - **A random choice**: with many sequences of Gaussian tokens half are feasible near $d = n\,\nu_T$ for $p$,
#   and near $d = \sqrt{n\,\nu_T} \ge T - 1$ for $W$ (sketched).
# - **The best choice**: runs find it where hardly another choice is locally optimal; queries alone can
#   change both. At $n = 8$, $T = 6$ the counts are 40 for $p$ and 7 for $W$. Of the dimensions tried, over
#   98% of the runs were global only at 1024 for $p$, and from 64 for $W$.

# %% [markdown]
# ## Further reading
#
# - D. A. Tarzanagh, Y. Li, C. Thrampoulidis, S. Oymak, *Transformers as Support Vector Machines* (2023, arXiv
#   2308.16898): feasibility, over-parameterisation, global convergence.
# - D. A. Tarzanagh, Y. Li, X. Zhang, S. Oymak, *Max-Margin Token Selection in Attention Mechanism* (NeurIPS
#   2023, arXiv 2306.13596): global convergence for one sequence whose other tokens have equal scores.
# - D. Amelunxen, M. Lotz, M. B. McCoy, J. A. Tropp, *Living on the Edge: Phase Transitions in Convex
#   Programs with Random Data* (2014, arXiv 1303.6672): the formula.
# - T. M. Cover, *Geometrical and Statistical Properties of Systems of Linear Inequalities with Applications
#   in Pattern Recognition* (1965): the count for $T = 2$.
#
# The count $d^2 \ge n(T - 1)$, the propositions, the use of the formula for attention and the number of
# locally optimal choices in 12.7 are this lesson's own.
#
# **New in the library:** [`sweep.sweep`](../mini_attn/sweep/run.py) and
# [`sweep.wilson`](../mini_attn/sweep/shares.py).
#
# **Next:** [lesson 13](13_nonlinear_heads.ipynb): a nonlinear head may want several tokens at once.
