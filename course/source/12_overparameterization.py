# %% [markdown] slideshow={"slide_type": "slide"}
# # 12 · Over-parameterisation
#
# Training selects one token of each sequence. Lesson 07 found which choices can last; some of them are not
# the best ones. Tarzanagh et al. (2023) hold that over-parameterisation helps: it makes every choice possible
# and the landscape benign.
#
# **The question: how many dimensions are enough, and for what?**
#
# To make *every* choice possible, to make a *random* choice possible, to *find* the best one: these are three
# questions, with three answers. For the first two it matters whether all tokens have the same length.

# %% [markdown]
# **After this lesson you can**
#
# - say for which $n, T, d$ every choice of tokens is possible, and prove it;
# - predict how often a random choice is possible, and say for which tokens the prediction fails;
# - check two conditions under which a run might be global;
# - predict for $p$ how many support tokens a choice has, and how many choices are locally optimal.
#
# **You need** [lesson 07](07_local_global_tokens.ipynb) (support tokens, local winners) and the matrix $W$
# of [lesson 10](10_cross_self_attention.ipynb). About 75 minutes with three exercises; an optional section
# holds a fourth.

# %%
import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure

from course.exercise import check, exercise, progress, todo
from course.figure import show
from course.replicate import lesson_12 as runs
from course.replicate import measured
from mini_attn import data, geometry, plots, svm, widgets
from mini_attn.sweep import sweep, wilson

plots.style()
torch.set_num_threads(1)  # many small tensors: one thread is fastest
BLUE, ORANGE, GREEN, BLACK = (plots.COLORS[name] for name in ("blue", "vermillion", "green", "black"))
again = "this differs from the text: if exercise {} has no tick, start there"

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12.1 The idea in a picture
#
# The data are random: $n$ sequences of $T$ tokens $x_{it}$, queries $z_i$ and a head $v$, uniform on the
# **unit sphere** of $\mathbb R^d$, and labels $y_i = \pm 1$. The scores are
# $\gamma_{it} = y_i\, v \cdot x_{it}$. The loss is $L = \frac1n \sum_i \ell(u_i)$ with
# $\ell(u) = \log(1 + e^{-u})$ and $u_i = \sum_t s_{it} \gamma_{it}$ for the attention $s_i$.
#
# On the same data we train $p$, $W$ and the factors $(K, Q)$ of $W = KQ^\top$
# ([lesson 11](11_key_query_nuclear.ipynb)): $p$ and $W$ from zero, $(K, Q)$ from entries $N(0, 0.1^2)$. Step
# $k = 1, \dots, 600$ goes a length $0.1 \sqrt k$ along $-\nabla L$. A run is **decided** if each sequence
# gives more than 0.99 of its attention to one token. A decided run is **global** if these are the best
# tokens, **local** if not.
#
# This was done for 48 sizes $(n, T, d)$ and 500 data sets each: 72,000 runs. They are stored with the course;
# a hundred of them we compute again.

# %%
names = ("shares", "wide", "rivals", "escape")
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
# **Figure 1.** Share of global runs, 500 runs a point. Bars: the true shares that such a count does not
# refute, those at most 1.96 standard deviations away (Wilson's 95% band, `sweep.wilson`).

# %%
at_24 = {kind: is_global.sel(kind=kind, n=8, T=6, d=24).mean("trial").item() for kind in KINDS}
print("n = 8, T = 6, d = 24:", *(f"{kind} {share:.2f}" for kind, share in at_24.items()))
assert 0.10 < at_24["p"] < 0.18
assert 0.90 < at_24["W"] < 0.96
across = is_global.mean("trial")
assert (across.sel(d=24) > across.sel(d=4)).all()
ahead = across.sel(kind="KQ") - across.sel(kind="W")
assert abs(ahead).max() < 0.1
assert (ahead.sel(n=8, T=6, d=[3, 4, 6]) > 0.05).all()
assert (ahead.sel(n=8, T=6, d=[12, 16, 24]) < -0.03).all()
KINDS.pop("KQ", None)  # left out from here on
shares, is_global, is_local = (some.sel(kind=list(KINDS)) for some in (shares, is_global, is_local))

# %% [markdown]
# At every $n$ and $T$ more runs are global at $d = 24$ than at $d = 4$. $(K, Q)$, from this one start, is
# within 0.1 of $W$ at all sizes, but crosses it: for $n = 8$ and $T = 6$ its share is higher from $d = 3$ to
# 6, lower from $d = 12$ on. Its local winners belong to another SVM (lesson 11); we now leave it out. For
# $n = 8$, $T = 6$ and $d = 24$ six in seven runs of $p$ still miss the best tokens, on data on which $W$
# finds them in nine of ten.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12.2 Possible for every choice
#
# A choice $\alpha$ that no $p$ or $W$ separates cannot be selected. When can every choice be separated?
#
# > **Theorem** (Tarzanagh, Li, Thrampoulidis, Oymak, 2023). If $d \ge \max(T - 1, n)$, then for almost all
# > tokens and queries the Att-SVM for $W$ is feasible for *every* choice $\alpha$.
#
# *Why.* If $d \ge n$, the queries $z_i$ are linearly independent, so there is a $W$ with $W z_i = p_i$ for
# any $p_i$ we like. Each sequence is then on its own: it needs a $p_i$ with $p_i \cdot (x_{i\alpha_i} -
# x_{it}) \ge 1$ for $t \ne \alpha_i$. If $d \ge T - 1$, these $T - 1$ differences are linearly independent,
# and a $p_i$ can give them any values. $\square$
#
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
# So $d \ge T - 1$ and $d^2 \ge n\,(T - 1)$. We call this **the count**. For $n \le T - 1$ it is the theorem's
# bound; for many sequences it is far lower: 100 sequences of two tokens need 10 dimensions, not 100. For $p$,
# with its $d$ numbers, the same count gives $d \ge n\,(T - 1)$.
#
# <details><summary>Why nothing else forbids it</summary>
#
# The rows are independent if one of their minors is not zero. A minor is a polynomial in the data: if it is
# not zero for *one* data set, it is not zero for almost all. So one data set of each size will do. Take
# queries of which any $d$ are independent, and deal out $e_1, \dots, e_d, e_1, \dots$ in turn, like cards, as
# the differences: $T - 1$ to each sequence, all distinct, as $T - 1 \le d$. With $n\,(T - 1) \le d^2$ rows no
# $e_k$ is dealt to more than $d$ sequences. The row $e_k z_i^\top$ is $z_i$ in line $k$ of a matrix of zeros.
# Rows of the SVM with different $k$ fill different lines, and those with the same $k$ have independent
# queries.
#
# On the unit sphere, too: let $x_{it}$ be $x_{i\alpha_i}$ with the sign of its coordinate $k$ turned round.
# The difference is then a multiple of $e_k$. $\square$
# </details>

# %% [markdown]
# ### Exercise 12.2: Tokens of one length
#
# ★★☆ · 8 minutes
#
# In 12.1 all tokens have length 1. Let $n = d$, with linearly independent queries. You get only the selected
# tokens `x` (n, d), unit vectors, and the queries `z` (n, d). Return the $W$ that gives each selected token
# the logit 1 and *every other unit vector* a smaller one, if it were in the same sequence. **Predict**: how
# many tokens may a sequence then have?
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
# > **any** $T$. For one sequence the same holds for $p$, at any $d$.
#
# *Why.* With $p_i = x_{i\alpha_i}$ we have $p_i \cdot x_{i\alpha_i} = |x_{i\alpha_i}|^2 > p_i \cdot x_{it}$
# for every other token of that length. A $W$ with $W z_i = c\,p_i$ exists; $c$ makes all leads at least 1.
# $\square$
#
# So for tokens of one length the count *or* $d \ge n$ is enough. We draw Gaussian tokens, then scale them to
# length 1, and try every choice.


# %%
def gaussian(n, T, d, trials, seed):
    """Gaussian tokens (trials, n, T, d) and queries (trials, n, d)."""
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(trials, n, T, d, generator=generator, dtype=torch.float64)
    return X, torch.randn(trials, n, d, generator=generator, dtype=torch.float64)


def is_possible(kind, X, z, alpha):
    """Whether each choice is feasible; each answer is proved."""
    solution = svm.solve(runs.problem(kind, X, z, alpha), throw=False)
    assert set(np.unique(solution.status)) <= {"optimal", "infeasible"}
    return solution.status == "optimal"


print("         n  T  d   rows  numbers   every choice possible in: Gaussian    sphere")
for kind, n, T, d, problems, by_count, by_length in (
    ("W", 4, 2, 2, 100, True, False),
    ("W", 5, 2, 2, 100, False, False),
    ("W", 4, 3, 3, 40, True, False),
    ("W", 2, 8, 2, 60, False, True),
    ("p", 3, 3, 6, 60, True, False),
    ("p", 3, 3, 5, 60, False, False),
    ("p", 1, 8, 2, 100, False, True),
):
    X, z = gaussian(n, T, d, problems, seed=0)
    alpha = torch.as_tensor(np.indices((T,) * n).reshape(n, -1).T.copy()).expand(problems, T**n, n)
    z, counts = z[:, None].expand(*alpha.shape, d), []
    for tokens in (X, X / X.norm(dim=-1, keepdim=True)):
        tokens = tokens[:, None].expand(*alpha.shape, T, d)
        counts.append(is_possible(kind, tokens, z, alpha).all(axis=1).sum())
    numbers = d if kind == "p" else d * d
    print(f"{kind:6s} {n:3d} {T:2d} {d:2d} {n * (T - 1):6d} {numbers:8d}", end="")
    print(f"{counts[0]:32d} {counts[1]:10d}  of {problems}")
    for count, enough_here in zip(counts, (by_count, by_count or by_length), strict=True):
        assert count == problems if enough_here else count < (1 if T in (2, 8) else 0.9 * problems)
    assert kind == "p" or (enough(n, T) <= d) == by_count, again.format("12.1")
    if kind == "W" and T == 8:  # exercise 12.2's W makes the first tokens of one problem win
        queries, tokens = z[0, 0].numpy(), tokens[0, 0].numpy()
        logits = (tokens @ one_length(tokens[:, 0], queries) @ queries[:, :, None])[..., 0]
        assert (logits[:, :1] > logits[:, 1:]).all(), again.format("12.2")
assert enough(100, 2) == 10, again.format("12.1")

# %% [markdown]
# With $T = 8$ in the plane every choice is possible on the sphere, and in none of these problems for Gaussian
# tokens. For them the count is sharp: in fewer dimensions some choice is impossible on an open set of data.
#
# <details><summary>Why it is sharp</summary>
#
# *If $d < T - 1$*: a token inside the convex hull of $d + 1$ others of its sequence is ahead for no $p_i$,
# and it stays inside if all tokens move a little.
#
# *If $d \ge T - 1$ and $d^2 < n(T - 1)$*: any $d^2 + 1$ rows $r$ are dependent, $\sum_r c_r r = 0$. For
# almost all data every $c_r \ne 0$, as any $d^2$ of the rows are independent (deal them out as above). Turn
# round each row with $c_r < 0$, by $x_{it} \to 2 x_{i\alpha_i} - x_{it}$. Now all $c_r > 0$, so no $W$ makes
# every row positive. This stays so on all data near enough. $\square$
# </details>

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12.3 Possible for a random choice
#
# Now take *one* choice, made without a look at the data. For $N$ *independent* rows of random sign, in
# general position, and $D$ parameters half of the choices are possible at $N = 2D$ (Cover 1965, Wendel 1962).
# But the $T - 1$ rows of one sequence share the token $x_{i\alpha_i}$, and cost less. How much less?
#
# Take the logits of one sequence as $T$ independent $N(0, 1)$ numbers. Move them as little as possible (least
# squares) to where $\alpha$ is ahead: to the nearest point $h$ with $h_\alpha \ge h_t$ for all $t$. A token
# with $h_t = h_\alpha$ there is a **tie**. The sequence **uses up** $j$ numbers, one for each tie. The mean
# of $j$ is called $\nu_T$.

# %% [markdown]
# ### Exercise 12.3: What one sequence uses up
#
# ★★★ · 14 minutes
#
# Each row of `logits` holds those of one sequence, and $\alpha$ is its first token. Return the number of ties
# $j$ of each row. **Predict** first, by hand: $\alpha$ has the logit 0 and the others have 3 and 1, both
# above it. How many ties are there?
#
# <details><summary>Hint</summary>
#
# Suppose you know which tokens are tied. To what number do they and $\alpha$ move, if the sum of squared
# moves is to be smallest?
# </details>
#
# <details><summary>Hint: which tokens</summary>
#
# They move to their common mean. Bring the highest token down to $\alpha$ first. When does the next one have
# to come too?
# </details>


# %%
@exercise("12.3")
def used_up(logits):
    """Return how many tokens are tied with the first at the nearest point where it leads; logits (N, T)."""
    ### BEGIN SOLUTION
    others = np.sort(logits[:, 1:])[:, ::-1]  # the highest first
    mean = np.cumsum(np.hstack((logits[:, :1], others)), axis=1) / np.arange(1, logits.shape[1] + 1)
    return (others > mean[:, :-1]).sum(axis=1)
    ### END SOLUTION


# %%
check("12.3", used_up)

# %% [markdown]
# From 0, 3 and 1 only the 3 is tied: it meets $\alpha$ at 1.5, and that is above 1. So $j = 1$.


# %%
def chances(T, draws=200_000):
    """P(j = k) for one sequence, k = 0 ... T - 1, counted."""
    return np.bincount(used_up(np.random.default_rng(T).normal(size=(draws, T))), minlength=T) / draws


chance = {T: chances(T) for T in (2, 3, 4, 5, 6, 7, 8, 16, 20)}
nu = {T: (of_T * np.arange(T)).sum() for T, of_T in chance.items()}
print("  T   T - 1   independent: (T - 1)/2   nu_T")
for T in (2, 3, 4, 8, 16):
    print(f"{T:3d} {T - 1:6d} {(T - 1) / 2:19.1f} {nu[T]:14.1f}")
expected = [0.5, 5 / 6, 1.0877, 1.7592, 2.5075]
assert np.allclose([nu[T] for T in (2, 3, 4, 8, 16)], expected, atol=0.01), again.format("12.3")
assert np.abs(chance[3] - [1 / 3, 1 / 2, 1 / 6]).max() < 0.004, again.format("12.3")
assert used_up(np.array([[0, 3, 1]])) == 1, again.format("12.3")


# %% jupyter={"source_hidden": true}
def draw_cone(ax, points, ties, angle, title):
    """Points of a plane by their ties, round a cone that opens to the right."""
    turn = {way: np.exp(1j * way * np.radians(angle / 2)) for way in (1, -1)}
    box = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
    arrow = {"arrowstyle": "->", "color": BLACK, "linewidth": 1.5}
    for k, color in enumerate((BLUE, ORANGE, GREEN)):
        ax.plot(*points[ties == k].T, ".", color=color, markersize=3, alpha=0.6)
    for way, edge in turn.items():
        start, foot = (length * edge for length in (1.2 + 1.5j * way, 1.2))
        ax.plot([0, 2.6 * edge.real], [0, 2.6 * edge.imag], color=BLACK, linewidth=2)
        wall = 2.6j * way * edge
        ax.plot([0, wall.real], [0, wall.imag], ":", color=BLACK, linewidth=1.5)
        ax.annotate("", (foot.real, foot.imag), (start.real, start.imag), arrowprops=arrow)
        beyond = start + 0.35j * way  # clear of the arrow
        ax.text(beyond.real, beyond.imag, "$j = 1$, 90°", ha="center", va="center", bbox=box)
    ax.annotate("", (0, 0), (-1.9, 0.25), arrowprops=arrow)
    ax.text(1.5, 0, f"$j = 0$\n{angle}°", ha="center", va="center", bbox=box)
    ax.text(-2.05, -0.35, f"$j = 2$\n{180 - angle}°", ha="center", va="center", bbox=box)
    ax.set(xlim=(-2.6, 2.6), ylim=(-2.6, 2.6), aspect="equal", title=title)
    ax.set_axis_off()


logits, answers = (
    np.random.default_rng(0).normal(size=(500, 3)),
    np.random.default_rng(1).normal(size=(500, 2)),
)
along_one = logits @ np.array([[2, 0], [-1, np.sqrt(3)], [-1, -np.sqrt(3)]]) / np.sqrt(6)  # the plane
quarter = answers @ np.array([[1, 1], [1, -1]]) / np.sqrt(2)
fig, (left, right) = plt.subplots(1, 2, figsize=(7, 3.4))
draw_cone(left, along_one, used_up(logits), 120, "three tokens")
draw_cone(right, quarter, (answers < 0).sum(axis=1), 90, "two independent questions")
show(
    fig,
    alt="A cloud of points round the tip of a cone, twice. Left the cone opens by 120 degrees, right by 90. "
    "Points beside it move to an edge, points behind it to the tip: a sector of 60 degrees left, 90 right.",
)

# %% [markdown]
# **Figure 2.** Left: logits of three tokens, seen along $(1, 1, 1)$ (one number added to all changes no
# lead). Lines: the cone where $\alpha$ is ahead, a third of the plane. From beside it the nearest point lies
# on an edge, one tie; from behind it (dotted) at the tip, two. Right: two independent questions, both
# answered yes in the cone.
#
# The cloud is round, so chances are angles. On average three tokens use up
# $\nu_3 = \frac12 \cdot 1 + \frac16 \cdot 2 = \frac56$ of a number, two independent questions
# $\frac12 \cdot 1 + \frac14 \cdot 2 = 1$: the shared token opens the cone.
#
# All sequences together use up $J = j_1 + \dots + j_n$.
#
# > **Theorem** (conic kinematic formula; Amelunxen, Lotz, McCoy, Tropp 2014). Let the stacked logits that the
# > parameters can make be a uniformly random subspace of $\mathbb R^{nT}$, of dimension $D \le nT$. A choice
# > made independently of it is strictly feasible with probability
# >
# > $$P = 2\,\big[\,P(J = D - 1) + P(J = D - 3) + P(J = D - 5) + \dots\,\big],$$
# >
# > with independent $j_i$ as above. ($nT - J$ is the dimension of the face of the cone that the nearest
# > point lies on.)
#
# We call this $P$ **the law**. For $p$ and **Gaussian tokens**, whose coordinates are independent
# $N(0, 1)$ numbers, the condition holds with $D = d$: the stacked logits $X p$ are the column space of a
# Gaussian matrix, which has no preferred direction. Half of the choices are possible near $n\,\nu_T = d$.
#
# For tokens on the sphere the subspace is not uniformly random, nor for $W$, as sequence $i$ feels $W$
# through $W z_i$ alone. There the law, with $D = d^2$ for $W$, is a **heuristic**, and we measure how good it
# is.
#
# **Predict**: three sequences of 20 tokens and $W$ in $d = 3$ dimensions, 57 rows for 9 numbers. The law says
# that six in ten choices are possible. Are there more, or fewer, for Gaussian tokens? And on the sphere?


# %%
def law(kind, n, T, d):
    """The theorem's P, from the chances of one sequence."""
    J, D = np.ones(1), d if kind == "p" else d * d
    for _ in range(n):
        J = np.convolve(J, chance[T])  # the chances of a sum
    return min(1.0, 2 * sum(J[k] for k in range(D - 1, -1, -2) if k < len(J)))  # counted chances: clip


def possible_share(kind, n, T, d, sphere=False, trials=600):
    """The share of random choices that are feasible: token 1 of each sequence will do, tokens are alike."""
    X, z = gaussian(n, T, d, trials, seed=d)
    X = X / X.norm(dim=-1, keepdim=True) if sphere else X
    return is_possible(kind, X, z, torch.zeros(trials, n, dtype=torch.int64)).mean()


dimensions = (1, 2, 3, 4, 5, 6)
counted = np.array([possible_share("p", 3, 4, d) for d in dimensions])
of_law = np.array([law("p", 3, 4, d) for d in range(1, 11)])
cover = np.array([law("p", 9, 2, d) for d in range(1, 11)])  # nine rows of nine sequences
assert np.abs(counted - of_law[:6]).max() < 0.06, again.format("12.3")
assert (counted[2:5] - cover[2:5] > 0.15).all(), again.format("12.3")
assert of_law[2] < 0.5 < of_law[3], again.format("12.3")
assert 3 < 3 * nu[4] < 4

alone = law("p", 1, 20, 3) ** 3  # for the last row
assert abs(alone - 0.22) < 0.01, again.format("12.3")
print("     n  T  d   Gaussian   sphere    law")
for kind, n, T, d, of_gaussian, of_sphere in (  # what is said below of measured less law
    ("p", 5, 3, 4, (-0.06, 0.06), (-0.08, 0.08)),
    ("W", 5, 3, 2, (-0.06, 0.06), (-0.08, 0.08)),
    ("W", 8, 4, 3, (-0.06, 0.06), (-0.08, 0.08)),
    ("W", 12, 5, 4, (-0.06, 0.06), (-0.08, 0.08)),
    ("W", 22, 7, 6, (-0.06, 0.06), (0.03, 0.2)),
    ("p", 2, 6, 2, (-0.06, 0.06), (0.03, 0.15)),
    ("p", 1, 6, 2, (-0.06, 0.06), (0.2, 0.3)),
    ("W", 4, 16, 3, (-0.3, -0.1), (0.4, 0.55)),
    ("W", 3, 20, 3, (-0.5, -0.3), (0.3, 0.45)),
):
    trials = 300 if n == 22 else 600
    ours = [possible_share(kind, n, T, d, sphere, trials) for sphere in (False, True)]
    print(f"{kind:2s} {n:3d} {T:2d} {d:2d} {ours[0]:9.2f} {ours[1]:9.2f} {law(kind, n, T, d):7.2f}")
    for one, (low, high) in zip(ours, (of_gaussian, of_sphere), strict=True):
        assert low < one - law(kind, n, T, d) < high, again.format("12.3")
    assert (ours[1] == 1) == (n == 1 or (kind == "W" and d >= n))  # the proposition
assert abs(ours[0] - alone) < 0.06


# %% jupyter={"source_hidden": true}
fig, ax = plt.subplots(figsize=(4.6, 2.8))
whole = np.arange(1, 11)
ax.plot(whole, of_law, "-", color=BLUE, marker="_", markersize=11, linewidth=0.8, label="law")
ax.plot(whole, cover, ":", color=BLACK, marker="_", markersize=9, label="9 rows, Cover")
ax.vlines(dimensions, *wilson(np.round(600 * counted), 600), color=BLUE, linewidth=2)
ax.plot(dimensions, counted, "o", color=BLUE, label="measured")
ax.set(xlabel="dimension $d$", ylabel="share possible", ylim=(-0.03, 1.05))
ax.legend(loc="lower right")
show(
    fig,
    alt="Share of possible random choices for p against d: a rising curve with points on it, and a dotted "
    "curve of Cover's count that rises later.",
)

# %% [markdown]
# **Figure 3.** $p$, $n = 3$, $T = 4$, Gaussian tokens: measured shares (bars: 95%, 600 choices each) and the
# law. Dotted: Cover's count, as if the nine comparisons were independent. One half is near
# $d = 3\,\nu_4 = 3.3$.

# %% [markdown]
# For $p$ and Gaussian tokens the law is exact. For $W$ it is at $T = 2$, where the signs of the rows are
# random and Wendel's rule needs no more; beyond that we have no proof.
#
# **Up to $T = d + 1$ tokens** (first five rows) the Gaussian shares are within 0.06 of the law at these
# sizes, for $W$ too. On the sphere $W$ leaves it as $d$ grows: more choices are possible than the law says,
# 0.01 more at $d = 2$, 0.1 at $d = 6$ (standard error 0.03).
#
# **Beyond, the two kinds can part far more** (last four rows). A Gaussian token can lie inside the hull of
# the other tokens of its sequence. Then no $W z_i$ selects it, however large $D$ is: for $W$ the law can be
# far too high. For $d \ge n$ each sequence is on its own, with $d$ numbers. So the exact share is that of $p$
# with one sequence, to the power $n$: 0.22 in the last row. On the sphere no token lies inside, no
# sequence is impossible alone, and the law can be far too low.
#
# The law for Gaussian tokens ($W$ from $d = T - 1$), with marks where *every* choice is possible by the
# count:


# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output", "widget"]
def possibility(n, T):
    figure = Figure(figsize=(5, 3), layout="none")
    ax = figure.add_axes((0.14, 0.19, 0.83, 0.69))
    for kind, color, mark, start in (("p", BLUE, n * (T - 1), 1), ("W", ORANGE, enough(n, T), T - 1)):
        d = np.arange(start, 41)
        ax.plot(d, [law(kind, n, T, k) for k in d], "o-", color=color, markersize=4, label=kind)
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
# ## 12.4 Possible is not found
#
# By the proposition of 12.2, every choice is possible for $W$ from $d = n$ on, as the tokens of 12.1 have one
# length. Of the 48,000 runs of $p$ and $W$, how many ended at the best tokens, how many could have?

# %%
possible = shares.possible.astype(bool)
assert all(possible.sel(kind="W", n=n, d=slice(n, None)).all() for n in (2, 4, 8))
classes = {
    "global": is_global,
    "local, global possible": is_local & possible,
    "local, global impossible": is_local & ~possible,
    "undecided, global possible": ~(is_global | is_local) & possible,
    "undecided, global impossible": ~(is_global | is_local | possible),
}
print(f"{'runs':28s}" + "".join(f"{kind:>8s}" for kind in KINDS))
for name, of in classes.items():
    print(f"{name:28s}" + "".join(f"{int(of.sel(kind=kind).sum()):8d}" for kind in KINDS))
    assert name != "undecided, global possible" or (of.sum() < 0.3 * (~is_global & ~is_local).sum())
assert not (is_global & ~possible).any()
for kind in KINDS:
    assert classes["local, global possible"].sel(kind=kind).sum() > 2000
missed = 1 - is_global.sel(kind="W", n=8, T=6, d=8).mean("trial").item()
print(f"W, n = 8, T = 6, d = 8, every choice possible: share of runs that miss the best tokens {missed:.2f}")
assert 0.35 < missed < 0.45

# %% [markdown]
# A decided run *is* a separating $p$ or $W$, so none was global where that is impossible. But thousands of
# each kind ended elsewhere although it was possible, and four in ten of $W$ where *every* choice is (last
# line).

# %% [markdown]
# **The start and the steps.** Would other runs have found them? **Predict**, with lesson 07: which changes
# more, steps three times as long, steps that do not grow, or a start far from zero?

# %%
print("share of 200, global   as in 12.1   steps x 3   constant steps   start 10 away   100 away")
for kind, n, T, d in (("p", 4, 3, 8), ("W", 8, 6, 8)):
    drawn = data.random_tokens(n, T, d, trials=200, seed=6)
    away = torch.randn(200, *((d, d) if kind == "W" else (d,)), generator=torch.Generator().manual_seed(6))
    away = away.double() / away.flatten(1).norm(dim=1).reshape(200, *[1] * (away.ndim - 1))
    ends = []
    for length, steps, how in (
        (0, 600, {}),
        (0, 600, {"lr": 0.3}),
        (0, 3000, {"schedule": lambda step: 1.0}),
        (10, 600, {}),
        (100, 600, {}),
    ):
        model = runs.attend(kind, d, 200, init=length * away)
        ends.append(runs.words(runs.descend(model, drawn, steps, **how), drawn))
    hits = [(end == runs.GLOBAL).double().mean().item() for end in ends]
    print(f"{kind} ({n}, {T}, {d})".ljust(24), "{:8.1f} {:11.1f} {:16.1f} {:15.1f} {:10.1f}".format(*hits))
    assert max(int((end != ends[0]).sum()) for end in ends[1:3]) < 8  # the same runs, but for a few
    assert hits[0] > hits[3] + 0.08 > hits[4] + 0.16

# %% [markdown]
# The steps change next to nothing: the same data sets come out the same, but for fewer than 8 of 200. A far
# start does.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12.5 What makes a run global
#
# We try two conditions.
#
# (i) *The first gradient favours the best tokens*: every best token is ahead at $-\nabla L(0)$. In
# Tarzanagh et al. (2023) this is part of a condition for global convergence. We call the data **favoured**.
#
# (ii) *There is no rival, and the best choice is possible.* From here on a **rival** is another choice that
# is locally optimal (in lessons 05 to 08 rivals were tokens). This is lesson 07's criterion: only locally
# optimal choices can last. Whether our finite runs obey it, we measure.
#
# For (i) we have the runs of 12.1, for (ii) other data: all $T^n$ choices were tried for $(n, T) = (3, 4)$,
# $(4, 3)$ and $(2, 6)$, from $d = 4$ on, 500 or 2,000 data sets for each $d$.

# %%
wide_runs = found["wide"]  # n = 3, T = 4, 64 choices, d = 4 ... 512
tried = [wide_runs, found["rivals"], found["escape"]]
print("condition            kind   runs   it holds   then local   undecided   global without it")
for kind in ("p", "W"):
    code = (2 * is_global + is_local).sel(kind=kind).values  # as in `runs`
    of_kind = [part.sel(kind=kind) for part in tried if kind in part.kind]
    all_codes = np.concatenate([part.code.values.ravel() for part in of_kind])
    no_rival = [((part.wrong == 0) & (part.possible == 1)).values.ravel() for part in of_kind]
    for name, ends, holds in (
        ("(i) first gradient", code, shares.favoured.sel(kind=kind).values == 1),
        ("(ii) no rival", all_codes, np.concatenate(no_rival)),
    ):
        local, undecided = ((ends[holds] == way).sum() for way in (runs.LOCAL, runs.UNDECIDED))
        without = (ends[~holds] == runs.GLOBAL).sum()
        print(f"{name:20s} {kind:3s} {ends.size:7d} {holds.sum():10d}", end="")
        print(f"{local:13d} {undecided:11d} {without:19d}")
        of_i, of_ii = {"p": ((4899, 32, 6), (5275, 2, 0)), "W": ((8359, 6, 5), (18_762, 0, 0))}[kind]
        assert (holds.sum(), local, undecided) == (of_ii if "ii" in name else of_i)
        assert without > 1000

# (i) on fresh data, after 600 and after 1,800 steps
tokens, p = data.random_tokens(2, 6, 6, trials=2000, seed=5), runs.attend("p", 6, 2000)
early, late = (runs.words(runs.descend(p, tokens, steps), tokens) == runs.LOCAL for steps in (600, 1800))
exceptions = early & (runs.first_leads("p", tokens) > 0).all(dim=-1)
print(f"(i), fresh: {exceptions.sum()} favoured and local, later still {late[exceptions].sum()}")
assert late[exceptions].sum() == exceptions.sum() > 2
# the two exceptions to (ii), by the seeds of their stored batches and their places in them, after 6,000 steps
for n, T, d, seed, place in ((4, 3, 16, 6136803929761899560, 7), (2, 6, 32, 3509046993695595, 46)):
    tokens = runs.compressed(data.random_tokens(n, T, d, trials=100, seed=seed))
    attention = runs.descend(runs.attend("p", tokens.keys.shape[-1], 100), tokens, steps=6000)
    assert runs.words(attention, tokens)[place] == runs.GLOBAL

# %% [markdown]
# **(i) is not enough.** It speaks of the *first* step only: 32 runs of $p$ and 6 of $W$ that it favours end
# at another choice. Fresh ones are still there after 1,800 steps.
#
# **(ii) held up.** Only two runs without a rival ended elsewhere, and they were not finished: after 6,000
# steps both are global. Nor is (ii) needed: more than a thousand runs of each model are global without it.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12.6 How low is safe? *(optional)*
#
# ### Exercise 12.4: How low is safe?
#
# ★★☆ · 10 minutes
#
# A best token that is not ahead of all others costs something in the loss of 12.1. Return the largest level
# such that a loss *below* it proves, whatever the tokens and queries, that every best token is ahead. Only
# the scores are given ($T \ge 2$, the best one of each sequence is unique); the others may have any
# attention.
#
# <details><summary>Hint</summary>
#
# When the best token of a sequence is not ahead of all others, how much attention has it at most?
# </details>
#
# <details><summary>Hint: the sum</summary>
#
# What is then the largest $u_i$, and what is the least that the other sequences can cost?
# </details>


# %%
@exercise("12.4")
def safe_level(scores):
    """Return the level of the loss below which no lead can be lost, for scores (n, T)."""
    ### BEGIN SOLUTION
    second, best = np.sort(scores, axis=1)[:, -2:].T
    least = np.logaddexp(0, -best)  # the cost of a sequence with all its attention on the best token
    caught = np.logaddexp(0, -(best + second) / 2)  # half of it on the runner-up
    return (least.sum() + (caught - least).min()) / len(scores)
    ### END SOLUTION


# %%
check("12.4", safe_level)

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
# \gamma_i')$; elsewhere $u_j \le \gamma_j$; $\ell$ falls. No larger level will do: let sequence $i$ give its
# two best tokens nearly half of the attention each, all others nearly all of it to their best one. $\square$
#
# So a single run can be judged while it goes on, its rivals unknown. For $W$ at
# $n = 8$, $T = 6$, $d = 8$:

# %%
tokens = data.random_tokens(8, 6, 8, trials=100)
early, end = (runs.descend(runs.attend("W", 8, 100), tokens, steps) for steps in (80, 600))
loss = torch.nn.functional.softplus(-(early * tokens.scores).sum(-1)).mean(-1)
safe = loss < torch.tensor([safe_level(scores) for scores in tokens.scores.numpy()])
well = runs.words(end, tokens) == runs.GLOBAL
print(f"below the level after 80 of 600 steps: {safe.sum()} of 100 runs, global: {well[safe].sum()}")
assert well[safe].all(), again.format("12.4")
assert 0.75 * well.sum() < safe.sum() < well.sum() < 75

# %% [markdown]
# After 80 of 600 steps the level names more than three quarters of the runs that end global, and no other.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12.7 Why dimensions help
#
# Count the rivals for $n = 3$, $T = 4$, with 64 choices, as $d$ grows to 512.

# %%
columns = {}
for kind in ("p", "W"):
    part = wide_runs.sel(kind=kind)
    has = {
        "global": part.code == 2,
        "no rival": (part.wrong == 0) & (part.possible == 1),
        "favoured": part.favoured,
    }
    columns[kind] = {name: values.mean("trial").values for name, values in has.items()}
    assert columns[kind]["global"][-1] == columns[kind]["no rival"][-1] == 1
    assert columns[kind]["favoured"][-1] < 0.95

# %% jupyter={"source_hidden": true}
fig, axes = plt.subplots(1, 2, figsize=(7.4, 3.1), sharey=True)
for ax, (kind, shown) in zip(axes, columns.items(), strict=True):
    d = wide_runs.d.values
    for key, color, marker, name in (
        ("global", BLACK, "o", "global"),
        ("no rival", GREEN, "s", "no rival"),
        ("favoured", plots.COLORS["purple"], "^", "favoured by first gradient"),
    ):
        ax.plot(d, shown[key], f"{marker}-", color=color, label=name)
        ax.vlines(d, *wilson(np.round(500 * shown[key]), 500), color=color)
    ax.set(xscale="log", xlabel="dimension $d$", title=f"${kind}$")
    ax.set_xticks([4, 16, 64, 256], ["4", "16", "64", "256"])
    ax.minorticks_off()
axes[0].set(ylabel="share of data sets", ylim=(-0.03, 1.05))
fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=10)
show(
    fig,
    alt="Shares of data sets against d from 4 to 512, p left, W right. Global rises to one first, then no "
    "rival; favoured by the first gradient rises slowly and is still below one at 512.",
)

# %% [markdown]
# **Figure 4.** $n = 3$, $T = 4$, 500 data sets a point, bars: 95%. Most runs are global well before the
# rivals are gone; at $d = 512$ all are, favoured or not.

# %% [markdown]
# ### Support tokens and rivals
#
# Why do the rivals go? A possible choice is locally optimal if in each sequence it beats its $k_i$ support
# tokens. For $k_i \le 1$ the chance of that is $1 / (1 + k_i)$, as the sign $y_i$ is random; for more it
# would be so if the tied tokens were alike. Then the mean number of locally optimal choices, with the best
# one, is
#
# $$T^n\; \mathbb E \prod_i \frac{1}{1 + k_i}$$
#
# for a random choice, with 0 for the product if it is impossible. If every choice is possible, and all other
# tokens are support tokens, this is $T^n / T^n = 1$: the best one alone.
#
# How many support tokens are there? Take $p$. Its SVM asks that $\alpha$ leads by 1, with $|p|$ as small as
# possible. A $p$ that knows nothing of the tokens, which have length 1, makes logits of about
# $N(0, \sigma^2)$ with the **spread** $\sigma = |p| / \sqrt d$. In units of it the lead is $1/\sigma$.
#
# Draw $T$ independent $N(0, 1)$ logits, and move them to the nearest point where $\alpha$ leads by
# $1/\sigma$, as in exercise 12.3: by a length $\delta$, say. By Gordon's inequality
# (1988), for tokens with independent $N(0, 1/d)$ coordinates, with probability near 1 for large $n$ and $d$,
# some $p$ of spread $\sigma$ gives all leads if $n\,\mathbb E\,\delta^2$ is clearly below $d$, and none does
# if it is clearly above. So the smallest $|p|$ is near
#
# $$n\;\mathbb E\,\delta^2 = d ,$$
#
# and the ties there are the support tokens. On the sphere, and at $n = 2$ to 4, this is a heuristic.
#
# **Predict**: if $d$ grows, does the spread grow or fall? And the number of ties?


# %%
def nearest(logits):
    """The mean number of ties, and the mean squared move, for logits (N, T)."""
    j = used_up(logits)
    in_order = np.hstack((logits[:, :1], -np.sort(-logits[:, 1:])))
    tied = np.arange(logits.shape[1]) <= j[:, None]
    mean = (in_order * tied).sum(axis=1) / (j + 1)
    return j.mean(), (((in_order - mean[:, None]) * tied) ** 2).sum(axis=1).mean()


leads = np.linspace(0, 8, 81)


def spread_and_ties(n, T, d):
    """The spread at which n E delta^2 = d, and the mean number of ties there."""
    logits = np.random.default_rng(T).normal(size=(20_000, T))
    ties, squares = np.transpose([nearest(logits - lead * np.eye(T)[0]) for lead in leads])
    lead = np.interp(np.divide(d, n), squares, leads)
    return 1 / lead, np.interp(lead, leads, ties)


def measure(n, T, d, trials=700):
    """For p: median spread, mean number of support tokens, and of locally optimal choices (predicted)."""
    tokens = runs.compressed(data.random_tokens(n, T, d, trials=trials, seed=d + 7))  # in n T coordinates
    first = torch.zeros(trials, n, dtype=torch.int64)  # tokens are alike, so this choice will do
    solution = svm.solve(svm.token_problem(tokens.keys, first), throw=False)
    can = solution.status == "optimal"
    logits = (tokens.keys @ solution.value[:, None, :, None])[..., 0]
    k = geometry.support_tokens(logits, first).sum(-1).numpy()[can]
    spread = solution.value.norm(dim=-1).numpy()[can] / d**0.5
    return np.median(spread), k.mean(), T**n * can.mean() * (1 / (1 + k)).prod(axis=1).mean()


d = np.array([4, 16, 64])
stored = {(3, 4): wide_runs.sel(kind="p", d=d)}
stored |= {(n, T): found["rivals"].sel(kind="p", size=k, d=d) for k, (n, T) in enumerate(runs.RIVALS[:2])}
print("              spread          support tokens     locally optimal choices")
print("n  T   d    law  measured      law  measured     predicted  counted")
for (n, T), part in stored.items():
    counted = (part.wrong + part.possible).transpose("trial", "d").values.mean(axis=0)  # with the best one
    spread, ties = spread_and_ties(n, T, d)
    s, k, winners = np.transpose([measure(n, T, int(one)) for one in d])
    for row in range(3):
        print(f"{n}  {T} {d[row]:3d} {spread[row]:6.2f} {s[row]:9.2f}", end="")
        print(f"{ties[row]:9.1f} {k[row]:9.1f} {winners[row]:13.1f} {counted[row]:8.1f}")
    assert np.abs(spread / s - 1)[1:].max() < 0.2, again.format("12.3")
    assert (spread / s)[0] > 1.5
    assert np.abs(ties - k).max() < 0.2, again.format("12.3")
    assert (np.diff(s) < 0).all()
    assert (np.diff(k) > 0).all()
    assert (np.diff(counted) < 0).all()
    excess = winners / counted - 1
    assert excess.min() > -0.05
    assert (excess < [0.35, 0.2, 0.1]).all()

# %% [markdown]
# At $d = 16$ and 64 the law gives the spread to within a fifth (at $d = 4$ it is far too large), and at all
# nine sizes the number of support tokens to within 0.2. So with more dimensions **more tokens tie, and fewer
# rivals are left**. The number of locally optimal choices is predicted to within a tenth at $d = 64$ and a
# fifth at $d = 16$; at $d = 4$ it is up to a third too high, as several tied tokens are not quite alike.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12.8 Claims and measurements
#
# | claim | prediction | measured |
# |---|---|---|
# | every choice possible, $W$, almost all tokens | $d \ge T - 1$, $d^2 \ge n (T - 1)$ | proved, sharp |
# | the same, tokens of one length | also from $d \ge n$, at any $T$ | proved |
# | random choice possible, $p$, Gaussian tokens | the law of 12.3 | within 0.06; Cover's count refused |
# | the same, $T \le d + 1$, $W$, Gaussian tokens | the law of 12.3 | within 0.06 at four sizes |
# | the same, on the sphere | the law of 12.3 | too low by 0.1 at $d = 6$, less below |
# | the same, $T > d + 1$ | the law of 12.3 | Gaussian $W$: can be 0.4 too high; sphere: 0.4 too low |
# | favoured by the first gradient | global | not: 32 runs of $p$, 6 of $W$ |
# | no rival, best choice possible | global | two of 24,037 not; both are after 6,000 steps |
# | support tokens, $p$, sphere | $n\,\mathbb E\,\delta^2 = d$ | within 0.2 |
# | local winners, $p$, sphere | $T^n\,\mathbb E \prod_i 1/(1 + k_i)$ | high by .1 ($d = 64$), .35 ($d = 4$) |

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
# How many dimensions are enough?
#
# - To make **every** choice possible for $W$: as many parameters as rows, if $d \ge T - 1$, for almost all
#   tokens. For tokens of **one length** $d \ge n$ is enough as well, however long the sequences are.
# - To make half of the **random** choices possible for $p$ and Gaussian tokens: about $n\,\nu_T$. For $W$ and
#   $T \le d + 1$ the law held at our sizes for Gaussian tokens; on the sphere it gets too low as $d$ grows.
#   Beyond, it can fail on either side.
# - To **find** the best choice: possible is not enough, as runs are lost to rivals. In more dimensions more
#   tokens tie: of the possible choices with $k_i$ support tokens about $\prod_i 1/(1 + k_i)$ are locally
#   optimal, in the end the best one alone.

# %% [markdown]
# ## Further reading
#
# - D. A. Tarzanagh, Y. Li, C. Thrampoulidis, S. Oymak, *Transformers as Support Vector Machines* (2023, arXiv
#   2308.16898): feasibility, over-parameterisation, global convergence.
# - D. A. Tarzanagh, Y. Li, X. Zhang, S. Oymak, *Max-Margin Token Selection in Attention Mechanism* (NeurIPS
#   2023, arXiv 2306.13596): global convergence where all other tokens of a sequence have equal scores.
# - D. Amelunxen, M. Lotz, M. B. McCoy, J. A. Tropp, *Living on the Edge: Phase Transitions in Convex
#   Programs with Random Data* (2014, arXiv 1303.6672): the formula.
# - A. Montanari, F. Ruan, Y. Sohn, J. Yan, *The Generalization Error of Max-Margin Linear Classifiers* (2019,
#   arXiv 1911.01544): the margin of Gaussian data from Gordon's inequality, for independent rows.
# - T. M. Cover, *Geometrical and Statistical Properties of Systems of Linear Inequalities* (IEEE Trans.
#   1965); J. G. Wendel, *A Problem in Geometric Probability* (Math. Scand. 1962).
#
# The count $d^2 \ge n(T - 1)$, the proposition on tokens of one length, the use of the two formulas for
# attention, and the reasons in 12.5 to 12.7 are this lesson's own: short arguments and measurements.
#
# **New in the library:** [`sweep.sweep`](../mini_attn/sweep/run.py) and
# [`sweep.wilson`](../mini_attn/sweep/shares.py).
#
# **Next:** [lesson 13](13_nonlinear_heads.ipynb): a nonlinear head may want several tokens at once.
