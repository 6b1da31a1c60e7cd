# %% [markdown] slideshow={"slide_type": "slide"}
# # 12 · Over-parameterisation
#
# Training selects one token of each sequence, not always the best one (lesson 07). Tarzanagh et al. (2023)
# hold that over-parameterisation helps: it makes every choice possible and the landscape benign, without
# stationary points.
#
# **The question: how many dimensions are enough, and for what?**

# %% [markdown]
# **After this lesson you can**
#
# - say for which $n, T, d$ every choice of tokens is possible and no point stationary, and prove it;
# - predict how often a random choice is possible, for Gaussian tokens;
# - hold three conditions for a global run against thousands of runs;
# - predict near which $d$ the number of locally optimal choices is largest, and say why it falls to one.
#
# **You need** [lesson 07](07_local_global_tokens.ipynb) (support tokens, locally optimal choices) and the
# matrix $W$ of [lesson 10](10_cross_self_attention.ipynb). About 75 minutes (110 with a pencil).

# %%
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
# On the same data we train $p$, $W$ and the factors $(K, Q)$ of $W = KQ^\top$
# ([lesson 11](11_key_query_nuclear.ipynb)): $p$ and $W$ from zero, $(K, Q)$ from entries $N(0, 0.1^2)$. The
# 600 steps along $-\nabla L$ have the lengths $0.1 \sqrt 1, \dots, 0.1 \sqrt{600}$. A run is **decided** if
# each sequence then gives more than 0.99 of its attention to one token. A decided run is **global** if these
# are the best tokens, **local** if not.
#
# The 72,000 runs, for 48 sizes $(n, T, d)$ and 500 data sets each, are stored; a hundred we compute again.

# %%
names = ("shares", "wide", "rivals", "dimensions_p", "dimensions_W")
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
# ## 12.2 Possible for every choice
#
# A **lead** is the logit of the chosen token less that of another one of its sequence. With positive leads a
# token is **ahead**. A choice $\alpha$ is **possible** if some $p$ or $W$ puts all its tokens ahead: then its
# Att-SVM, which asks for leads of at least 1, is feasible.
#
# > **Theorem** (Tarzanagh, Li, Thrampoulidis, Oymak, 2023). If $d \ge \max(T - 1, n)$, then for almost all
# > tokens and queries the Att-SVM for $W$ is feasible for *every* choice $\alpha$.
#
# *Why.* For almost all data: if $d \ge n$, the queries $z_i$ are linearly independent, so there is a $W$ with
# $W z_i = p_i$ for any $p_i$ we like. Each sequence is then on its own: it needs a $p_i$ with
# $p_i \cdot (x_{i\alpha_i} - x_{it}) \ge 1$ for $t \ne \alpha_i$. If $d \ge T - 1$, these $T - 1$
# differences are linearly independent, and a $p_i$ can give them any values. $\square$

# %% [markdown]
# ### Exercise 12.1: Enough dimensions for every choice
#
# ★★☆ · 10 minutes
#
# The proof uses $d \ge n$ to separate the sequences. Is that needed? An Att-SVM for $W$ has a row
# $(x_{i\alpha_i} - x_{it})\, z_i^\top$ for each other token, and every choice is possible if all rows are
# linearly independent. For almost all data they are, as soon as nothing that one can *count* forbids it. Find
# what forbids it, and return the smallest $d$ at which nothing does, for any $n \ge 1$, $T \ge 2$.
#
# <details><summary>Hint</summary>
#
# How many rows are there, and in a space of how many dimensions? Then the same question for the rows of *one*
# sequence, which share $z_i$. (After `import math`, `math.isqrt(k)` rounds a square root down.)
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
# So $d \ge T - 1$ and $d^2 \ge n\,(T - 1)$. We call this **the count**: 100 sequences of two tokens need 10
# dimensions, not the theorem's 100. For $p$, with its $d$ numbers, the count is $d \ge n\,(T - 1)$.
#
# <details><summary>Why nothing else forbids it</summary>
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
# > **Proposition.** If the rows are linearly independent and the scores of some sequence are not all equal,
# > then $L$ has no finite stationary point in $W$. For $p$ the same.
#
# *Why.* In the logit of token $t$, $u_i$ has the slope $c_{it} = s_{it} (\gamma_{it} - u_i)$, and
# $\sum_t c_{it} = 0$. So $-\nabla L$ is the sum of the rows times $\ell'(u_i)\, c_{it} / n$, and zero only if
# all $c_{it}$ are. As $s_{it} > 0$, all scores of a sequence are then equal to its $u_i$. $\square$
#
# For $W$ independent queries are enough, whatever $T$: along $V$ with $V z_i = y_i v$ the logits grow like
# the scores, and $u_i$ like $\sum_t s_{it} (\gamma_{it} - u_i)^2$, which is positive if they differ.

# %% [markdown]
# ### Exercise 12.2: Tokens of one length
#
# ★★☆ · 8 minutes
#
# Let $n = d$, with linearly independent queries. You get only the selected tokens `x` (n, d), unit vectors,
# and the queries `z` (n, d). Return the $W$ that gives each selected token the logit 1 and *every other
# unit vector* a smaller one.
#
# <details><summary>Hint</summary>
#
# One sequence first. Which $p$ has $p \cdot x = 1$, and $p \cdot x' < 1$ for all other unit vectors $x'$?
# </details>
#
# <details><summary>Hint: all sequences</summary>
#
# $W z_i = p_i$ for all $i$ at once is a matrix equation. Write the $z_i$ as the columns of a matrix.
# </details>


# %%
@exercise("12.2")
def one_length(x, z):
    """Return W (d, d) that makes x[i] beat every other unit vector under the query z[i], for x, z (n, d)."""
    ### BEGIN SOLUTION
    return np.linalg.solve(z, x).T  # W z_i = x_i
    ### END SOLUTION


# %%
check("12.2", one_length)

# %% [markdown]
# > **Proposition.** Let the tokens of each sequence be distinct and of one length, and the queries linearly
# > independent (almost all are, if $d \ge n$). Then the Att-SVM for $W$ is feasible for every choice, at
# > **any** $T$.
#
# *Why.* There is a $W$ with $W z_i = x_{i\alpha_i}$, and $x_{i\alpha_i} \cdot x_{i\alpha_i} > x_{it} \cdot
# x_{i\alpha_i}$ for every other token of that length. A multiple of $W$ makes all leads at least 1. $\square$
#
# So for tokens of one length the count *or* $d \ge n$ is enough. We try all $T^n$ choices of Gaussian
# tokens, then of the same scaled to length 1.

# %%
print("        n  T  d  rows  numbers    every choice possible, share of 60: Gaussian   one length")
for kind, n, T, d in (
    ("W", 4, 2, 2),
    ("W", 5, 2, 2),
    ("W", 4, 3, 3),
    ("W", 2, 8, 2),
    ("p", 3, 3, 6),
    ("p", 3, 3, 5),
):
    X, z = runs.gaussian(n, T, d, trials=60, seed=0)
    lengths = X.norm(dim=-1, keepdim=True)
    free, one_long = (runs.every_choice(kind, tokens, z).mean() for tokens in (X, X / lengths))
    rows, numbers = n * (T - 1), d if kind == "p" else d * d
    print(f"{kind:5s} {n:3d} {T:2d} {d:2d} {rows:5d} {numbers:8d} {free:46.2f} {one_long:12.2f}")
    by_count = d >= T - 1 and numbers >= rows
    assert (free == 1) == by_count
    assert (one_long == 1) == (by_count or (kind == "W" and n <= d))
    assert kind == "p" or (enough(n, T) <= d) == by_count, again.format("12.1")

# %% [markdown]
# For Gaussian tokens the count is sharp: in fewer dimensions some choice is impossible on an open set of
# data.
#
# <details><summary>Why it is sharp</summary>
#
# *If $d < T - 1$*: a token inside the convex hull of $d + 1$ others of its sequence is ahead for no $p_i$,
# and it stays inside if all tokens move a little.
#
# *If $d \ge T - 1$ and $d^2 < n(T - 1)$*: take any $d^2 + 1$ rows $r$. They are dependent,
# $\sum_r c_r r = 0$. For almost all data every $c_r \ne 0$, as any $d^2$ of them are independent (deal the
# cards to these rows alone, sequence by sequence). Turn round each row with $c_r < 0$, by
# $x_{it} \to 2 x_{i\alpha_i} - x_{it}$. Now all $c_r > 0$, so no $W$ makes every row positive. This stays so
# on all data near enough. $\square$
# </details>

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12.3 Possible for a random choice
#
# Now take *one* choice, made without a look at the data. Of rows in general position, with independent
# random signs, half as many numbers as rows make half of the choices possible (Cover 1965, Wendel 1962).
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
# Each row of `logits` holds those of one sequence. Return the number of ties $j$ of each row. **Predict**
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
# **Figure 2.** Left: logits of three tokens, seen along $(1, 1, 1)$ (one number added to all changes no
# lead). Lines: the cone, a third of the plane. From beside it the nearest point lies on an edge, one tie;
# from behind it (dotted) at the tip, two. Right: two independent questions, both answered yes in the cone.
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
# numbers, the condition holds with $D = d$: the stacked logits are the column space of a Gaussian matrix,
# which has no preferred direction. Half of the choices are possible near $d = n\,\nu_T$.
#
# For $W$ the condition fails, as sequence $i$ feels $W$ through $W z_i$ alone. But for Gaussian tokens and
# almost all fixed queries,
#
# - if $T - 1 \le d$, the law holds with $D = d^2$;
# - if $n \le d$, each sequence is on its own (12.2): $P = P_1^n$, with the law's $P_1$ for $n = 1$, $D = d$.
#
# <details><summary>Why the law holds for W, if T − 1 ≤ d</summary>
#
# From $d^2 = n\,(T - 1)$ on, $P = 1$ and the law says so. Below, consider the cone of all $W$ without a
# negative lead, and its Euler characteristic $\chi$: 0, unless the cone is a linear space; then 1 or $-1$, as
# its dimension is even or odd. If the choice is possible, the cone is no linear space. If not, it is $\{0\}$
# for almost all tokens: some rows add up to zero with positive weights, so their leads are zero, and these
# are more than $d^2$ rows, any $d^2$ of them independent (12.2). So $1 - P = \mathbb E\, \chi$.
#
# Random rotations of $\mathbb R^T$ that mix the tokens of a sequence, $X_i \to O_i X_i$, leave Gaussian
# tokens alike. Hold all but $O_1$: by the kinematic formula for two cones the mean of $\chi$ is a sum of the
# chances $\Pr(j_1)$ with weights that do not depend on the cone $h_1 \ge h_t$. One sequence after another,
# $1 - P = \sum c(j_1, \dots, j_n) \Pr(j_1) \cdots \Pr(j_n)$, and for other polyhedral cones the mean of
# $\chi$ has the same $c$. Read them off linear spaces, of codimension $j_i$ for sequence $i$: the $W$ then
# form a linear space. Its dimension is $d^2$ less the rank of rows $x z_i^\top$, with $j_i$ Gaussian $x$ for
# sequence $i$. By the cards the rank is $\min(d^2, J)$, as $j_i \le T - 1 \le d$. For a uniformly random
# subspace of dimension $d^2$ it is the same, so $c$ and $P$ are the same. $\square$
# </details>


# %%
def law(kind, n, T, d):
    """The theorem's P, from the chances of one sequence."""
    J, D = np.ones(1), d if kind == "p" else d * d
    for _ in range(n):
        J = np.convolve(J, chance[T])  # the chances of a sum
    return min(1.0, 2 * sum(J[k] for k in range(D - 1, -1, -2) if k < len(J)))  # counted chances: clip


def possible_share(kind, n, T, d, trials=600):
    """The share of random choices that are possible, Gaussian tokens."""
    return runs.first_choice(kind, *runs.gaussian(n, T, d, trials, seed=d)).mean()


print("     n  T  d   measured    law   P_1^n")
for kind, n, T, d in (("p", 5, 3, 4), ("W", 8, 4, 3), ("W", 16, 4, 4), ("W", 3, 20, 3), ("W", 3, 8, 3)):
    share, expected, alone = possible_share(kind, n, T, d), law(kind, n, T, d), law("p", 1, T, d) ** n
    print(f"{kind:2s} {n:3d} {T:2d} {d:2d} {share:10.2f} {expected:6.2f}", f"{alone:7.2f}" if n <= d else "")
    assert abs(share - (alone if n <= d else expected)) < 0.06, again.format("12.3")
dimensions = (1, 2, 3, 4, 5, 6)
counted = np.array([possible_share("p", 3, 4, d) for d in dimensions])
assert np.abs(counted - [law("p", 3, 4, d) for d in dimensions]).max() < 0.06, again.format("12.3")


# %% jupyter={"source_hidden": true}
def draw_law(ax, n, T, d):
    """The law for p, and Cover's formula for as many rows."""
    ax.plot(d, [law("p", n, T, k) for k in d], "-", color=BLUE, marker="_", linewidth=0.8, label="law")
    ax.plot(d, [law("p", n * (T - 1), 2, k) for k in d], ":", color=BLACK, marker="_", label="Cover")
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
# law. Dotted: Cover's formula for nine rows.

# %% [markdown]
# In the last two rows of the table $T - 1 > d$: there the law says too much, and $P_1^n$ is right.
#
# Figure 3 for other $n$ and $T$:


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
undecided = ~(is_global | is_local)
classes = {
    "global": is_global,
    "local, global possible": is_local & possible,
    "local, global impossible": is_local & ~possible,
    "undecided, global possible": undecided & possible,
    "undecided, global impossible": undecided & ~possible,
}
print(f"{'runs':28s}       p       W")
for name, of in classes.items():
    print(f"{name:28s}" + "".join(f"{int(of.sel(kind=kind).sum()):8d}" for kind in ("p", "W")))
lost = is_local.sel(kind="W", n=8, T=6, d=8).mean().item()
print(f"W, n = 8, T = 6, d = 8, every choice possible: share of local runs {lost:.2f}")
assert possible.sel(kind="W", n=8, T=6, d=8).all()
assert not (is_global & ~possible).any()

# %% [markdown]
# Thousands of each kind were local although global was possible, for $W$ even where *every* choice is
# possible (last line).
#
# **Predict**, with lesson 07: which changes more, steps that do not grow, or a start far from zero?

# %%
ways = {
    "as in 12.1": {},
    "constant steps": {"steps": 3000, "schedule": lambda step: 1.0},
    "start at 10": {"away": 10},  # its length, in a random direction
    "start at 100": {"away": 100},
}
print("share of 200, global", *(f"{name:>15s}" for name in ways))
for kind, n, T, d in (("p", 4, 3, 8), ("W", 8, 6, 8)):
    tokens = data.random_tokens(n, T, d, trials=200, seed=6)
    ends = [runs.ends(kind, tokens, **way) for way in ways.values()]
    hits = [(end == runs.GLOBAL).double().mean().item() for end in ends]
    print(f"{kind} ({n}, {T}, {d})".ljust(20), *(f"{hit:15.1f}" for hit in hits))
    assert (ends[1] != ends[0]).sum() < 8 < 30 < (ends[3] != ends[0]).sum()
    assert hits[0] > hits[2] + 0.08 > hits[3] + 0.16

# %% [markdown]
# Here the schedule changes fewer than 8 of 200 outcomes, a start at 100 over 30.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12.5 Three conditions, held against the runs
#
# (i) *First gradient*: every best token is ahead at $-\nabla L(0)$, part of a condition for global
# convergence in Tarzanagh et al. (2023).
#
# (ii) *No rival*. A choice is **locally optimal** if it is possible and, in every sequence, scores higher
# than its **support tokens** (leads of exactly 1). A **rival** is one that is not the best choice. Lesson
# 07's theorem suggests, but does not prove, that without rivals a run is global if that is possible. We
# measure it where all $T^n$ choices were tried: $(n, T) = (3, 4)$, $(4, 3)$, $(2, 6)$, 500 runs for each $d =
# 4, 8, 16, 32, 64$.
#
# (iii) *Score gaps*: all but the best token of a sequence have equal scores. With *one* sequence this is
# enough (lesson 06). We set the scores of the others to their mean, and compare with their own scores.

# %%
codes = (2 * is_global + is_local).stack(run=("n", "T", "d", "trial"))  # as in `runs`
favoured = shares.favoured.stack(run=("n", "T", "d", "trial")) == 1
print("condition                kind   runs   it holds   then local   undecided   global without it")
for kind, n, T, d in (("p", 4, 3, 8), ("W", 8, 6, 8)):  # the sizes are those of (iii)
    tokens = data.random_tokens(n, T, d, trials=200, seed=6)
    own, equal = (runs.ends(kind, one).numpy() for one in (tokens, runs.equal_others(tokens)))
    ends, rivals = runs.tried(kind, found["wide"].sel(d=slice(64)), found["rivals"])
    for name, end, holds in (
        ("(i) first gradient", codes.sel(kind=kind).values, favoured.sel(kind=kind).values),
        ("(ii) possible, no rival", ends, rivals == 0),
        ("(iii) equal scores", np.append(own, equal), np.arange(400) >= 200),
    ):
        local, undecided = ((end[holds] == way).sum() for way in (runs.LOCAL, runs.UNDECIDED))
        without = (end[~holds] == runs.GLOBAL).sum()
        print(f"{name:24s} {kind:3s} {end.size:7d} {holds.sum():10d}", end="")
        print(f"{local:13d} {undecided:11d} {without:19d}")
        assert local + undecided <= 2 if "(ii)" in name else local > 5
        assert (end[holds] == runs.GLOBAL).mean() > (end[~holds] == runs.GLOBAL).mean() + 0.05
    by_number = [(ends[rivals == k] == runs.GLOBAL).mean() for k in range(5)]
    print(f"global with 0, 1, 2, 3, 4 rivals, {kind}:", *(f"{share:.2f}" for share in by_number))
    assert (np.diff(by_number) < 0).all()
after = [runs.longer(*problem, steps=6000) for problem in runs.UNFINISHED]
print("the two exceptions to (ii) after 6,000 steps, global:", [end.item() == runs.GLOBAL for end in after])

# %% [markdown]
# **(i) and (iii) are not enough**: with them more runs are global, but some are local after 600 steps.
#
# **(ii) held up** in these runs. Its two exceptions were decided, but not for good: after 6,000 steps both
# are global. And the more rivals, the fewer runs were global.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12.6 Dimensions and rivals
#
# More dimensions make more choices possible, but give each more support tokens to beat. For $D$ numbers ($d$
# for $p$, $d^2$ for $W$) assume:
#
# - A choice is possible with the law's $P$: on the sphere not exact (for $p$ within 0.03 at the size below).
# - It then has $D$ support tokens. Each falls in one of the $n$ sequences at random, independently.
# - With $k_i$ of them in sequence $i$ the chosen token scores highest with chance $1 / (1 + k_i)$, in each
#   sequence independently (exercise 07.1; exact only for scores that know nothing of the keys).
#
# Then $T^n P\, w_D$ choices are locally optimal on average, with $w_D = \mathbb E \prod_i 1 / (1 + k_i)$.
#
# ### Exercise 12.4: The turning point
#
# ★★☆ · 12 minutes
#
# Return $w_0, w_1, \dots, w_m$ for $n$ sequences: the exact means, without draws. **Predict** first: for $n =
# 8$, $T = 6$ the law passes one half near $D = 12$. Is the number of locally optimal choices largest far
# below, near, or far above?
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
# To count, we draw choices without a look at the scores, and see how often they are locally optimal for
# random labels and heads: 2,000 stored data sets for each $d$ (+-: standard errors).


# %%
def predict(n, T):
    # for D = 1, 2, ..., n (T - 1): there are no more leads
    P = np.array([law("p", n, T, D) for D in range(1, n * (T - 1) + 1)])
    return T**n * P * win_all(n * (T - 1), n)[1:]


predicted = predict(8, 6)
print(f"largest predicted number at D = {1 + predicted.argmax()}")
print("n = 8, T = 6  best choice possible  support tokens of 40  locally optimal  of the possible, global")
for kind in ("p", "W"):
    stored = found[f"dimensions_{kind}"].squeeze()
    error = 6**8 * stored.locally_optimal.std("trial") / np.sqrt(2000)  # standard error of the number
    for d, can, support, number, won in runs.by_dimension(stored):
        print(f"{kind}, d = {d:4d} {can:22.3f} {support:21.1f} {number:12.0f}", end="")
        print(f" +- {error.sel(d=d):4.1f} {won:21.2f}")
        assert (won > 0.98) == (support > 37)
        if kind == "p" and d <= 12:
            assert 0.75 < predicted[d - 1] / number < 1.25, again.format("12.4")
            assert abs(stored.random_possible.sel(d=d).mean() - law("p", 8, 6, d)) < 0.03

# %% jupyter={"source_hidden": true}
fig, (left, right) = plt.subplots(1, 2, figsize=(8.5, 3.2))
for kind, (name, color, marker) in list(KINDS.items())[:2]:
    stored = found[f"dimensions_{kind}"]
    table = np.array(runs.by_dimension(stored))
    error = 6**8 * stored.locally_optimal.std("trial").squeeze() / np.sqrt(2000)
    left.errorbar(table[:, 0], table[:, 3], 2 * error, fmt=marker, color=color, label=f"{name}, counted")
    for of, line, size, fill in (
        (stored, "-", "(8, 6)", color),
        (found["wide"].sel(kind=[kind]), "--", "(3, 4)", "white"),
    ):
        can = of.possible.sum("trial").squeeze()
        hits = ((of.code == runs.GLOBAL) & (of.possible == 1)).sum("trial").squeeze()
        right.plot(of.d, hits / can, f"{marker}{line}", color=color, mfc=fill, label=f"{name}, ${size}$")
        right.vlines(of.d, *wilson(hits, can), color=color, linewidth=2)
left.plot(range(1, 41), predicted, "-", color=BLUE, linewidth=0.8, label="$p$, predicted")
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
    "thousand, near d = 10 to 12 for p and d = 3 for W, and falls to one. Right: the share of global runs "
    "among those that could be. At eight sequences of six tokens p falls from 0.86 to below 0.1 at d = 10 to "
    "16, W is lowest at d = 4; then both rise to one, W at much smaller d. At three of four tokens it rises "
    "all the way.",
)

# %% [markdown]
# **Figure 4.** Left: $n = 8$, $T = 6$ (for $W$ no prediction: at $d \le 4$ no law). Right: 2,000 runs a
# point for $(n, T) = (8, 6)$, 500 for $(3, 4)$. Bars: 95%.
#
# For $p$ and $d \le 12$ the prediction is within a quarter. Far beyond, the support tokens are far fewer than
# $D$, and it is too low. The two largest counts, at $d = 10$ and 12, differ by less than two standard errors.
#
# **At $n = 8$, $T = 6$ more dimensions first bring more locally optimal choices, then fewer.** In the end
# only one is left:
#
# > **Proposition.** If in every choice all other tokens are support tokens, then only the best choice is
# > locally optimal.
#
# *Why.* In any other choice some sequence's best token is a support token, and it scores higher. $\square$
#
# Orthogonal tokens of one length have this property for $p$, by symmetry, and random tokens come near to
# orthogonal as $d$ grows. But slowly (right panel): for $p$ at $d = 64$ every choice is possible and no
# finite point stationary (12.2), and yet over half of the runs miss the best.
#
# So a landscape without stationary points is not yet benign: it can have rivals, which a run approaches in
# direction while its weights grow.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12.7 Claims and measurements
#
# | claim | prediction | measured |
# |---|---|---|
# | every choice possible, no finite stationary point | the count, almost all data | proved |
# | random choice possible, Gaussian tokens | the law or $P_1^n$ | equal, up to sampling |
# | favoured by the first gradient | part of a condition | not enough in these runs |
# | equal scores of all others | enough for one sequence | not for several |
# | no rival, best choice possible | global | all but 2 of 9,538 |
# | most locally optimal choices, $p$, $n = 8$, $T = 6$ | $D = 10$ | $d = 10$ and 12 of those tried |

# %% [markdown]
# ## Questions
#
# Four sequences of 1,000 tokens: how many dimensions make every choice possible for $W$, for Gaussian tokens
# and on the unit sphere?
# <details><summary>Answer</summary>
#
# The count asks for $T - 1 = 999$. On the sphere $d = n = 4$ is enough.
# </details>

# %%
assert enough(4, 1000) == 999, again.format("12.1")
progress("12")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - To make **every** choice possible for $W$ and no finite point stationary: as many numbers as rows,
#   $d^2 \ge n\,(T - 1)$, if $d \ge T - 1$, for almost all data. For tokens of **one length** every choice is
#   possible from $d = n$ on, too.
# - To make half of the **random** choices possible for $p$ and Gaussian tokens: about $n\,\nu_T$.
# - To **find** the best choice: many more. At $n = 8$, $T = 6$ every choice is sure to be possible from $d
#   = 40$ on for $p$ and $d = 7$ for $W$. Of the dimensions tried, 98% of the runs were global only from $d
#   = 1024$ and $d = 64$ on.

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
# point of 12.6 are this lesson's own: short arguments and measurements. The chance $1 / (1 + k)$ is lesson
# 07's.
#
# **New in the library:** [`sweep.sweep`](../mini_attn/sweep/run.py) and
# [`sweep.wilson`](../mini_attn/sweep/shares.py).
#
# **Next:** [lesson 13](13_nonlinear_heads.ipynb): a nonlinear head may want several tokens at once.
