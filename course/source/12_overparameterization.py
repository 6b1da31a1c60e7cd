# %% [markdown] slideshow={"slide_type": "slide"}
# # 12 · Over-parameterisation
#
# Training selects one token of each sequence. Lesson 07 found which choices can last; some of them are not
# the best ones. Large models are said to escape this: with more dimensions than data the landscape becomes
# benign, and training ends at the best tokens.
#
# **The question: how many dimensions are enough, for what, and is it really the dimensions?**
#
# It is three questions: when is a choice *possible*, when is the best one *found*, and when is it
# found in *all* sequences at once?

# %% [markdown]
# **After this lesson you can**
#
# - say for which $n, T, d$ every choice of tokens is possible, and prove it by counting;
# - derive the probability that a random choice is possible;
# - check conditions that are said to make a run global, and say what each of them lacks;
# - say when all sequences end right at once, as their number grows with $d$.
#
# **You need** [lesson 07](07_local_global_tokens.ipynb) (support tokens, local winners) and the matrix $W$
# of [lesson 10](10_cross_self_attention.ipynb). Of [lesson 11](11_key_query_nuclear.ipynb) only this: $W =
# KQ^\top$ can be trained through its factors. About 70 minutes, four exercises.

# %%
import math

import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure

from course.exercise import check, exercise, progress, todo
from course.figure import show
from course.replicate import lesson_12 as runs
from course.replicate import measured
from mini_attn import data, losses, plots, svm, widgets
from mini_attn.sweep import sweep, wilson

plots.style()
torch.set_num_threads(1)  # many small tensors: one thread is fastest
BLUE, ORANGE, GREEN, BLACK = (plots.COLORS[name] for name in ("blue", "vermillion", "green", "black"))
again = "this differs from the text: if exercise {} has no tick, start there"

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12.1 The idea in a picture
#
# The data are random: $n$ sequences of $T$ tokens $x_{it}$, queries $z_i$ and a head $v$, uniform on the
# unit sphere of $\mathbb R^d$, and labels $y_i = \pm 1$. The scores are
# $\gamma_{it} = y_i\, v \cdot x_{it}$. We train $p$, $W$ and $(K, Q)$ on the same data, by 600 normalised
# steps of growing length; $p$ and $W$ start from zero, $(K, Q)$ from entries $N(0, 0.1^2)$. A run is
# **decided** if each sequence gives more than 0.99 of its attention to one token, **global** if to its best
# one.
#
# This was done for 48 sizes $(n, T, d)$, 500 data sets each, 72,000 runs. They are stored with the course;
# some we compute again.

# %%
names = ("shares", "choices", "wide", "rivals", "escape", "orthogonal", "crowded")
found = {name: measured(f"12.{name}").load() for name in names}
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
# **Figure 1.** Share of global runs, 500 runs a point. Bars: the true shares that such a count does not
# refute, those at most 1.96 standard deviations away (Wilson's 95% band, `sweep.wilson`).

# %%
at_24 = {kind: is_global.sel(kind=kind, n=8, T=6, d=24).mean("trial").item() for kind in KINDS}
print("n = 8, T = 6, d = 24:", *(f"{kind} {share:.2f}" for kind, share in at_24.items()))
assert 0.10 < at_24["p"] < 0.18
assert 0.90 < at_24["W"] < 0.96
across = is_global.mean("trial")
assert (across.sel(d=24) > across.sel(d=4)).all()

# %% [markdown]
# From $d = 4$ to 24 more dimensions help, at every $n$ and $T$. But for $n = 8$, $T = 6$ and $d = 24$ six in
# seven runs of $p$ still miss the best tokens, on data on which $W$ finds them in nine of ten.

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
# <details><summary>Why nothing else forbids it</summary>
#
# A determinant is a polynomial in the data: if it is not zero for *one* data
# set, it is not zero for almost all. So one data set of each size will do. Take queries of which any $d$ are
# independent, and deal out $e_1, \dots, e_d, e_1, \dots$ in turn, like cards, as the differences: $T - 1$ to
# each sequence, all distinct, as $T - 1 \le d$. With $n\,(T - 1) \le d^2$ rows no $e_k$ is dealt to more
# than $d$ sequences. The row $e_k z_i^\top$ is $z_i$ in line $k$ of a matrix of zeros. Rows of the SVM with
# different $k$ fill different lines, and those with the same $k$ have independent queries. $\square$
# </details>


# %%
def gaussian(n, T, d, trials, seed):
    """Gaussian tokens (trials, n, T, d) and queries (trials, n, d)."""
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(trials, n, T, d, generator=generator, dtype=torch.float64)
    return X, torch.randn(trials, n, d, generator=generator, dtype=torch.float64)


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


print("        n  T  d   rows  numbers   choices  every choice is possible in")
for kind, n, T, d, problems, every in (
    ("W", 4, 2, 2, 100, True),
    ("W", 5, 2, 2, 100, False),
    ("W", 4, 3, 3, 40, True),
    ("p", 3, 3, 6, 60, True),
    ("p", 3, 3, 5, 60, False),
):
    feasible = every_choice(kind, n, T, d, problems)
    numbers, all_of_them = d if kind == "p" else d * d, (feasible == 1).sum()
    row = f"{kind:5s} {n:3d} {T:2d} {d:2d} {n * (T - 1):6d} {numbers:8d} {T**n:9d}"
    print(row, f"{all_of_them:8d} of {problems} problems")
    assert every == (n * (T - 1) <= numbers)
    assert all_of_them == problems if every else all_of_them < (1 if T == 2 else problems - 5)
    assert kind == "p" or d < n  # beyond the theorem
    assert kind == "p" or (enough(n, T) <= d) == every, again.format("12.1")

# %% [markdown]
# With no more rows than numbers, every choice of every problem was possible. With one row too many that is
# over: for two tokens in *every* problem, for $p$ with $T = 3$ in some.
#
# This is sharp for "every choice, almost all data". For tokens of one length less will do: if $d \ge n$, each
# sequence is on its own, and $p_i = x_{i\alpha_i}$ puts any token of it ahead (lesson 10).

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12.3 Possible for a random choice
#
# "Every choice" is a worst case. What of *one* choice, drawn without a look at the data? A row is then a
# yes-or-no question with a random answer. If all rows were independent, $N$ questions to $D$ numbers, the
# answer is classical (Cover 1965, Wendel 1962): one half at $N = 2 D$. But the $T - 1$ comparisons
# $x_{i\alpha_i} - x_{it}$ of a sequence share $x_{i\alpha_i}$, and cost less than $T - 1$ independent
# questions. How much less?
#
# Take the logits of one sequence as $T$ independent $N(0, 1)$ numbers, and move them as little as possible to
# where $\alpha$ is ahead: to the nearest $h$ with $h_\alpha \ge h_t$ for all $t$. Some of these constraints
# are tight there. Their number $j$ is what the sequence **uses up**: each one ties down one number. Its mean
# is called $\nu_T$.
#
# The tokens that end tied meet $\alpha$ at their common mean: the highest one comes down first, the next only
# if it is above the mean so far.


# %%
def used_up(h):
    """How many tokens are tied with the first at the nearest logits where it is ahead, for h (N, T)."""
    others = np.sort(h[:, 1:])[:, ::-1]
    mean = np.cumsum(np.hstack((h[:, :1], others)), axis=1) / np.arange(1, h.shape[1] + 1)
    return (others > mean[:, :-1]).sum(axis=1)


def chances(T, draws=400_000):
    """P(j = k), k = 0 ... T - 1, counted."""
    return np.bincount(used_up(np.random.default_rng(T).normal(size=(draws, T))), minlength=T) / draws


share = {T: chances(T) for T in (2, 3, 4, 5, 8, 10, 16)}
nu = {T: (s * np.arange(T)).sum() for T, s in share.items()}
print("  T   T - 1   (T - 1)/2   nu_T")
for T in nu:
    print(f"{T:3d} {T - 1:6d} {(T - 1) / 2:10.1f} {nu[T]:9.1f}")
assert np.allclose(list(nu.values()), [0.5, 5 / 6, 1.0877, 1.295, 1.7592, 1.9921, 2.5075], atol=0.01)
assert all(abs(s[::2].sum() - 0.5) < 0.004 for s in share.values())  # even j: one half (Gauss-Bonnet)
assert np.abs(share[3] - [1 / 3, 1 / 2, 1 / 6]).max() < 0.004
assert (np.abs(np.diff([nu[T] for T in (2, 4, 8, 16)]) - 0.67) < 0.1).all()


# %% jupyter={"source_hidden": true}
def draw_cone(ax, points, ties, angle, title):
    """Points of a plane by their ties, round a cone that opens to the right."""
    turn = {way: np.exp(1j * way * np.radians(angle / 2)) for way in (1, -1)}
    box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1.5}
    arrow = {"arrowstyle": "->", "color": BLACK, "linewidth": 1.5}
    for k, color in enumerate((BLUE, ORANGE, GREEN)):
        ax.plot(*points[ties == k].T, ".", color=color, markersize=3, alpha=0.6)
    for way, edge in turn.items():
        start, foot = (length * edge for length in (1.2 + 1.5j * way, 1.2))
        ax.plot([0, 2.6 * edge.real], [0, 2.6 * edge.imag], color=BLACK, linewidth=2)
        wall = 2.6j * way * edge
        ax.plot([0, wall.real], [0, wall.imag], ":", color=BLACK, linewidth=1.5)
        ax.annotate("", (foot.real, foot.imag), (start.real, start.imag), arrowprops=arrow)
        ax.text(-0.75, 2.05 * way, "$j = 1$, 90°", ha="center", va="center", bbox=box)
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
# on an edge, one tie; from behind it at the tip, two. Right: two independent questions, both answered yes in
# the cone.
#
# The cloud is round, so chances are angles. On average three tokens use up
# $\nu_3 = \frac12 \cdot 1 + \frac16 \cdot 2 = \frac56$ of a number, two independent questions
# $\frac12 \cdot 1 + \frac14 \cdot 2 = 1$: the shared token opens the cone.
#
# Two tokens, one question, half a number: that is Cover's rule. Eight tokens have seven comparisons and use
# up 1.8 numbers, not 3.5. Now add up: all sequences together use up $J = j_1 + \dots + j_n$.
#
# > **Theorem** (conic kinematic formula; Amelunxen, Lotz, McCoy, Tropp 2014). Let the logits that the
# > parameters can make be a uniformly random subspace of dimension $D$. A choice made independently of it is
# > strictly feasible with probability
# >
# > $$P = 2\,\big[\,P(J = D - 1) + P(J = D - 3) + P(J = D - 5) + \dots\,\big],$$
# >
# > with independent $j_i$ as above.
#
# For **Gaussian tokens and $p$** the condition holds with $D = d$: the stacked logits $X p$ are the column
# space of a Gaussian matrix, which has no preferred direction. Half of the choices are possible near
# $n\,\nu_T = d$. The smallest case is in figure 2: for $n = 1$, $T = 3$, $d = 1$ that space is a random line
# through the tip. It enters the cone, forwards or backwards, with the chance
# $\frac{240}{360} = 2\,P(J = 0)$.
#
# ### With W: one sequence, worked out
#
# A sequence feels only the $d$ numbers $w_i = W z_i$, and it cannot use up more than these. Take $T = 3$ and
# $d = 1$ again, one number $w$. The line enters the cone if the selected token is the largest or the smallest
# of the three, $P_{\mathrm{alone}} = \frac23$. Then a random $w$ has the right sign half of the time, and
# nothing is tied down: $j' = 0$. Otherwise the nearest point is the *tip*, $w = 0$: the one number is used
# up, $j' = 1$. A token in the middle has only the tip, and is impossible.


# %%
def theorem(J, D):
    """The probability of the theorem, for J with J[k] = P(J = k), in D dimensions."""
    return 2 * sum(J[k] for k in range(D - 1, -1, -2) if k < len(J))


rng = np.random.default_rng(0)
line, w = rng.normal(size=(40_000, 3)), rng.normal(size=(40_000, 1))
ahead = ((line[:, :1] - line[:, 1:]) * w > 0).sum(axis=1)  # of how many others is token 1
used = [(ahead == 2).mean(), (ahead == 0).mean()]
print(f"d = 1: with j' = 0: {used[0]:.2f}, with j' = 1: {used[1]:.2f}, theorem: {theorem(share[3], 1):.2f}")
assert np.abs(np.array([*used, theorem(share[3], 1)]) - [1 / 3, 1 / 3, 2 / 3]).max() < 0.01

# %% [markdown]
# So $j' = 0$ has the old chance, $\frac13$, and what is left of $P_{\mathrm{alone}} = \frac23$ is at the tip.
# So for every $d$ and $T$: below $d$ nothing changes, the chance of $j' = k < d$ is $P(j = k)$.
# The rest of $P_{\mathrm{alone}}$ has $j' = d$. (We do not prove this: it is Crofton's formula, same source.)
#
# *All sequences.* How many dimensions has the space of all $(w_1, \dots, w_n)$ that a $W$ can make? If it is
# the whole $\mathbb R^{nd}$, each sequence is on its own. If not, we take it as a random subspace and use the
# theorem: for $W$ and $d < n$ that is a **heuristic**.

# %% [markdown]
# ### Exercise 12.2: How often is a random choice possible?
#
# ★★★ · 15 minutes
#
# Given `share`, with `share[k]` $= P(j = k)$ for one sequence of Gaussian tokens ($k = 0 \dots T - 1$),
# return the probability that a random choice is possible, for `kind` "p" or "W" and any $d \ge 1$ ($T$ may be
# above or below $d$). Three steps: the probability $q_k$ that one sequence is possible alone *and* uses up
# $j' = k$ numbers, $k = 0 \dots d$; the sum over $n$ sequences (`np.convolve`); and `theorem`, with the right
# $D$.
#
# <details><summary>Hint</summary>
#
# `theorem` gives $P_{\mathrm{alone}}$, too. What do the $q_k$ add up to?
# </details>
#
# <details><summary>Hint: how many dimensions</summary>
#
# With $p$ all $w_i$ are equal. With $W$ they are $W z_i$: how many of the $z_i$ are independent?
# </details>


# %%
@exercise("12.2")
def probability(share, n, d, kind):
    """Return P(a random choice is possible), for share (T,), n sequences, dimension d and kind "p" or "W"."""
    ### BEGIN SOLUTION
    q = np.append(share, np.zeros(d))[:d]  # below d as before
    q = np.append(q, theorem(share, d) - q.sum())  # the rest of the possible ones, at w = 0
    total = np.ones(1)
    for _ in range(n):
        total = np.convolve(total, q)
    D = d if kind == "p" else d * min(n, d)  # dimensions of all (w_1 ... w_n)
    return theorem(total, D)
    ### END SOLUTION


# %%
check("12.2", probability)


# %%
def possible_share(kind, n, T, d, trials, seed=0):
    """The share of random choices that are feasible: token 1 of each sequence will do, tokens are alike."""
    X, z = gaussian(n, T, d, trials, seed)
    selected = torch.zeros(trials, n, dtype=torch.int64)
    return (svm.solve(runs.problem(kind, X, z, selected), throw=False).status == "optimal").mean()


settings = {("p", 3, 4): (1, 2, 3, 4, 5, 6), ("W", 12, 4): (2, 3, 4, 5), ("W", 2, 5): (2, 3, 4)}
counted, predicted = {}, {}
for (kind, n, T), dimensions in settings.items():
    counted[kind, n, T] = np.array([possible_share(kind, n, T, d, 400, d) for d in dimensions])
    predicted[kind, n, T] = np.array([probability(share[T], n, d, kind) for d in dimensions])
    pairs = zip(dimensions, counted[kind, n, T], predicted[kind, n, T], strict=True)
    print(f"{kind}, n = {n}, T = {T}, d: measured (predicted)", end="  ")
    print("  ".join(f"{d}: {a:.2f} ({b:.2f})" for d, a, b in pairs))
    assert np.abs(counted[kind, n, T] - predicted[kind, n, T]).max() < 0.06, again.format("12.2")
cover = [probability(np.array([0.5, 0.5]), 9, d, "p") for d in (3, 4, 5)]  # 9 independent rows instead
print("Cover's count for (p, 3, 4), as if all 9 rows were independent, d = 3, 4, 5:", np.round(cover, 2))
assert (counted["p", 3, 4][2:5] - cover > 0.15).all(), again.format("12.2")

print("W, d < n: n, T, d, measured (predicted)")
sizes = {size: found["choices"].possible.sel(size=k).mean().item() for k, size in enumerate(runs.CHOICES)}
sizes[5, 8, 3] = possible_share("W", 5, 8, 3, 400)  # the others: 2,000 choices each
for (n, T, d), one in sizes.items():
    value, each_alone = probability(share[T], n, d, "W"), probability(share[T], 1, d, "W") ** n
    uncut = probability(share[T], n, d * d, "p")  # as if a sequence could use up more than d
    print(f"{n:5d} {T:2d} {d:2d}   {one:.2f} ({value:.2f})")
    assert abs(one - value) < 0.03, again.format("12.2")
    if (n, T) in ((3, 8), (5, 8)):  # either reason by itself is refused
        assert min(uncut, each_alone) - one > 0.04, again.format("12.2")

# %% jupyter={"source_hidden": true}
fig, (left, right) = plt.subplots(1, 2, figsize=(7.8, 2.8), sharey=True)
looks = {("p", 3, 4): (BLUE, "o"), ("W", 12, 4): (BLUE, "o"), ("W", 2, 5): (GREEN, "^")}
for key, (color, marker) in looks.items():
    kind, n, T = key
    ax, dimensions = (left if kind == "p" else right), settings[key]
    low, high = wilson(np.round(400 * counted[key]), 400)
    ax.vlines(dimensions, low, high, color=color, linewidth=2)
    ax.plot(dimensions, counted[key], marker, color=color, label=f"$n = {n}$, $T = {T}$")
    every_d = np.arange(dimensions[0], 11 if kind == "p" else dimensions[-1] + 1)
    ax.plot(every_d, [probability(share[T], n, d, kind) for d in every_d], "-", color=color, linewidth=1.3)
d_line = np.arange(1, 11)
rows_alone = [probability(np.array([0.5, 0.5]), 9, d, "p") for d in d_line]
left.plot(d_line, rows_alone, ":", color=BLACK, label="9 rows, Cover")
for ax, name in ((left, "$p$"), (right, "$W$")):
    ax.set(xlabel="dimension $d$", title=name)
    ax.legend(loc="lower right")
right.set(xlim=(1.85, 5.3), xticks=range(2, 6))
left.set(ylabel="share possible", ylim=(-0.03, 1.05))
show(
    fig,
    alt="Share of possible random choices against d. Left, p: a rising curve with points on it, and a dotted "
    "curve of Cover's count that rises later. Right, W: two rising curves with points on or near them.",
)

# %% [markdown]
# **Figure 3.** Measured shares (points, bars: 95%; 400 choices each) and the prediction (lines). Dotted:
# Cover's count, as if the nine comparisons of $n = 3$, $T = 4$ were independent.

# %% [markdown]
# For $p$ and for $W$ with $d \ge n$ the law is exact. For $W$ with $d < n$ it is a heuristic, here within
# 0.03 of each count. (1.01 stands for 1: the chances are counted.) For $T = 2$ it is exact there, too: the
# signs of the rows are random, and Wendel's rule needs no more.
#
# *Every* choice needs as many numbers as there are rows, $T - 1$ a sequence; a
# *random* one about $\nu_T$ a sequence, and each doubling of $T$ from 2 to 16 adds 0.6 to 0.8.
#
# **Try it.** The probability for $p$ and $W$, with marks where *every* choice is possible. You
# double $T$: which moves more, the curve or its mark?

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output", "widget"]
SHARES = share | {T: chances(T) for T in (6, 7)}


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
# Possible is not found. Now all 72,000 runs.

# %%
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
assert [int(ruled_out.sel(kind=kind).sum()) for kind in ("W", "KQ")] == [1701, 1701]

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
                if column > 0:
                    ax.plot([column] * 2, [row - 0.45, row + 0.45], color=color, linewidth=width)
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
# **Figure 4.** Global runs in percent, 500 a cell. White lines: from there on every choice is possible for
# $W$ (for $n = 2$ in the whole row). These tokens lie on the sphere, so $d \ge n$ is enough, and so is the
# bound of exercise 12.1: the line is the smaller of the two.

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

# %% [markdown]
# A decided run *is* a separating $p$ or $W$, so none was global where that is impossible: in 1,701 problems
# for $W$, and in the same ones for $(K, Q)$, which makes the same matrices. Past the white lines nothing is
# impossible, and still shares are as low as 0.6: **being possible is not being found**.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12.5 What makes a run global
#
# Two conditions. (i) *The first gradient favours the best tokens*: every best token is ahead at $-\nabla
# L(0)$. (ii) *There is no other local winner* (no other choice is locally optimal, lesson 07), and the best
# choice is possible. The papers prove global convergence under conditions like the first, worded differently.

# %%
wide_runs = found["wide"]  # n = 3, T = 4, 64 choices, d = 4 ... 512
print("kind  condition                 holds   global   | global runs that it does not explain")
for kind in ("p", "W"):
    code, possible = (wide_runs[name].sel(kind=kind).values for name in ("code", "possible"))
    favoured = wide_runs.favoured.sel(kind=kind).values.astype(bool)
    unrivalled = (wide_runs.wrong.sel(kind=kind).values == 0) & possible.astype(bool)
    for name, holds in (("first gradient favours", favoured), ("no other local winner", unrivalled)):
        right, rest = (holds & (code == 2)).sum(), (~holds & (code == 2)).sum()
        print(f"{kind:5s} {name:24s} {holds.sum():6d} {right:8d}   | {rest:8d}")
        assert right == holds.sum() - (kind == "p" and name[0] == "f")
        assert name[0] == "n" or abs(right / (right + rest) - {"p": 0.54, "W": 0.71}[kind]) < 0.005
for kind, (holds, fails) in {"p": (4899, 38), "W": (8359, 11)}.items():
    favoured = shares.favoured.astype(bool).sel(kind=kind)
    lost = favoured & ~is_global.sel(kind=kind)
    print(f"sweep of 12.4: first gradient favours {favoured.sum().item()} runs of {kind},", end=" ")
    covered = (favoured & is_global.sel(kind=kind)).sum().item() / is_global.sel(kind=kind).sum().item()
    print(f"{lost.sum().item()} of them are not global; it explains {covered:.0%} of the global runs")
    assert (favoured.sum().item(), lost.sum().item()) == (holds, fails)
    assert 0.41 < covered < 0.45

# %% [markdown]
# **No other local winner**: every one of these runs is global. An observation, no theorem: section
# 12.7 has two exceptions at other sizes.
#
# **The first gradient** costs nothing and explains 54 and 71% of the global runs here, 42 and 43% in the
# sweep, but it fails in a few. It is only the *first* step: a barely positive lead can be lost.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12.6 How low is safe? *(optional)*
#
# When are all leads safe?
#
# ### Exercise 12.3: How low is safe?
#
# ★★☆ · 10 minutes
#
# A best token that is not ahead of all others costs something, in the loss $L = \frac1n \sum_i \ell(u_i)$
# with $\ell(u) = \log(1 + e^{-u})$. Return the largest level such that a loss *below* it proves, whatever the
# tokens and queries, that every best token is ahead. Only the scores are given ($T \ge 2$, the best one of
# each sequence is unique). Here $u_i = \sum_t s_{it} \gamma_{it}$ with attention $s_i$; the others may have
# any attention.
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
@exercise("12.3")
def safe_level(scores):
    """Return the level of the loss below which no lead can be lost, for scores (n, T)."""
    ### BEGIN SOLUTION
    second, best = np.sort(scores, axis=1)[:, -2:].T
    least = np.logaddexp(0, -best)  # the cost of a sequence with all its attention on the best token
    caught = np.logaddexp(0, -(best + second) / 2)  # half of it on the runner-up
    return (least.sum() + (caught - least).min()) / len(scores)
    ### END SOLUTION


# %%
check("12.3", safe_level)

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
# \gamma_i')$; elsewhere $u_j \le \gamma_j$; $\ell$ falls. $\square$
#
# The test: *start* problems at $R$ times the first direction, $R = 0$, 30 and 300, and call a start **far**
# if its loss is below the level.

# %%
for kind, d in (("W", 6), ("p", 12)):
    tokens = data.random_tokens(4, 4, d, trials=400, seed=7)
    level = torch.tensor([float(safe_level(scores)) for scores in tokens.scores.numpy()])
    favoured = (runs.first_leads(kind, tokens) > 0).all(dim=-1)
    model = runs.attend(kind, d, 400)
    losses.logistic(tokens.y * model(tokens)).mean(-1).sum().backward()
    direction = -next(model.parameters()).grad
    direction = direction / direction.flatten(1).norm(dim=1).reshape(-1, *[1] * (direction.ndim - 1))
    print(f"{kind}, n = T = 4, d = {d}, {favoured.sum()} of 400 favoured:", end=" ")
    for R in (0.0, 30.0, 300.0):
        model = runs.attend(kind, d, 400, init=R * direction)
        far = losses.logistic(tokens.y * model(tokens).detach()).mean(-1) < level
        won = runs.words(runs.descend(model, tokens, 600), tokens) == runs.GLOBAL
        print(f"R = {R:.0f}: global {(won & favoured).sum()}, far {far.sum()}, far and lost", end=" ")
        print((far & ~won).sum().item(), end="; " if R < 300 else "\n")
        assert not (far & ~favoured).any(), again.format("12.3")
        assert not (far & ~won).any(), again.format("12.3")

# %% [markdown]
# No far start is lost. Far is not necessary: at $R = 0$ none is far, and nearly all favoured runs win.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12.7 Why dimensions help
#
# Call another local winner a **rival** (a choice; in lessons 05 to 08 rivals were tokens). All 64 choices
# can be tried for $n = 3$, $T = 4$. Let $d$ grow to 512.

# %%
table = {}
for kind in ("p", "W"):
    part = wide_runs.sel(kind=kind)
    has = {"global": part.code == 2, "favoured": part.favoured, "no rival": part.wrong == 0}
    has |= {"rivals": part.wrong, "all tight": part.tight / 64}
    table[kind] = {name: values.mean("trial").values for name, values in has.items()}
    print(kind, "  d" + "".join(f"{name:>10s}" for name in has))
    for k in (0, 2, 4, 7):
        print(f"{part.d.values[k]:5d}" + "".join(f"{values[k]:10.2f}" for values in table[kind].values()))
    assert (np.diff(table[kind]["no rival"]) >= 0).all()
    assert table[kind]["global"][-1] == table[kind]["no rival"][-1] == 1
    assert abs(table[kind]["favoured"][-1] - {"p": 0.77, "W": 0.92}[kind]) < 0.005

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
# **Figure 5.** $n = 3$, $T = 4$, 500 data sets a point. Most runs are global well before the rivals are gone.

# %% [markdown]
# **It is not that the first gradient favours the best tokens.** At $d = 512$ it still does not in 23 of 100
# runs of $p$ and 8 of $W$, and all runs are global.
#
# **Rivals matter.** Their number falls. Are those that remain also *escaped* more easily? Of $p$'s problems
# with a rival more are global in more dimensions. But the mix changes, too: five rivals a problem at $d = 4$,
# 1.3 at $d = 64$. So compare problems with the *same* number of rivals.

# %% [markdown]
# ### Exercise 12.4: At equal rivals
#
# ★★☆ · 10 minutes
#
# For each run you have `won` (1 if it is global, else 0), its dimension $d$, and its number of rivals. Fit
# two lines by least squares: $\text{won} \approx a + b \log_2 d$, and $\text{won} \approx a_r + b' \log_2 d$
# with an intercept $a_r$ of its own for each number of rivals $r$ that occurs. Return $b$ and $b'$, what a
# doubling of $d$ gains in all and at equal rivals. **Predict** before you run on: is $b'$ near $b$, near 0,
# or below 0?
#
# <details><summary>Hint</summary>
#
# For a given slope, which $a_r$ is best? Put it in: what is left is one line through the origin.
# </details>


# %%
@exercise("12.4")
def gains(won, d, rivals):
    """Return (b, b') for won (runs,) of 0 and 1, d (runs,) and whole numbers rivals (runs,)."""
    ### BEGIN SOLUTION
    x, y = np.log2(d), np.asarray(won, dtype=float)
    slopes = []
    for group in (np.zeros(len(x)), rivals):
        _, of = np.unique(group, return_inverse=True)
        x_left, y_left = (a - (np.bincount(of, a) / np.bincount(of))[of] for a in (x, y))  # less group means
        slopes.append(x_left @ y_left / (x_left @ x_left))
    return tuple(slopes)
    ### END SOLUTION


# %%
check("12.4", gains)

# %%
groups = {"1": (1, 1), "2": (2, 2), "3": (3, 3), "4 - 6": (4, 6), "7 or more": (7, 64)}
part = wide_runs.sel(kind="p", d=slice(4, 64)).transpose("d", "trial")
rivals, won, can = part.wrong.values, part.code.values == 2, part.possible.values.astype(bool)
print("p, n = 3, T = 4, best choice possible: global, of the problems with that many rivals")
print("rivals   " + "".join(f"{f'd = {d}':>16s}" for d in part.d.values))
for name, (low, high) in groups.items():
    these = can & (rivals >= low) & (rivals <= high)
    row = zip((won & these).sum(axis=1), these.sum(axis=1), strict=True)
    print(f"{name:9s}" + "".join(f"{f'{a} of {b}':>11s} {f'{a / b:.2f}' if b else '':4s}" for a, b in row))
has = rivals > 0
pooled, mean = (np.average(a, axis=1, weights=has) for a in (won, rivals))
print("best choice impossible:", (has & ~can).sum(axis=1), "  mean number of rivals:", mean.round(1))
print("all problems with a rival:", pooled.round(2))

print("share gained per doubling of d:  all with a rival  at equal rivals (standard error)  no rival: global")
alone, draws = np.zeros(2, dtype=int), np.random.default_rng(0)
elsewhere, often = found["rivals"], found["escape"]  # of W, where rivals are few: 2,000 runs a cell
for kind, n, T, part in (
    ("p", 3, 4, wide_runs),
    ("p", 4, 3, elsewhere.isel(size=0)),
    ("p", 2, 6, elsewhere.isel(size=1)),
    ("W", 3, 4, often.isel(size=2)),
    ("W", 4, 3, often.isel(size=0)),
    ("W", 2, 6, often.isel(size=1)),
):
    part = part.sel(kind=kind, d=slice(4, 64)).transpose("d", "trial")
    rivals, won, can = part.wrong.values, part.code.values == 2, part.possible.values.astype(bool)
    has, free = rivals > 0, can & (rivals == 0)
    d_of = np.broadcast_to(part.d.values[:, None], won.shape)
    runs_of = won[has], d_of[has], np.where(can, rivals, -1)[has]  # -1: best choice impossible
    pooled, equal = gains(*runs_of)
    again_drawn = [draws.integers(len(runs_of[0]), size=len(runs_of[0])) for _ in range(40)]
    error = np.std([gains(*(a[which] for a in runs_of))[1] for which in again_drawn])
    alone += (won & free).sum(), free.sum()
    assert (part.code.values[free & ~won] == 1).all()  # decided, for another choice
    print(f"{kind}, n = {n}, T = {T}: {pooled:19.3f} {equal:16.3f} ({error:.3f})", end="")
    print(f"{(won & free).sum():26d} of {free.sum()}")
    assert equal + 2 * error < 0.045, again.format("12.4")
    if kind == "p":
        assert abs(equal) < 0.2 * pooled < 0.04 < 0.1 < pooled < 0.18, again.format("12.4")
    else:
        assert 0.15 * pooled < equal < 0.55 * pooled < 0.045, again.format("12.4")
assert alone.tolist() == [15310, 15312]

# %% [markdown]
# Down a column the share falls, with one exception. Along a row it gains little: with one
# rival nine runs of $p$ in ten are global at *every* $d$. At all three sizes a doubling of $d$ gains .11 to
# .17 for $p$, at equal rivals little of that. For $W$ it gains .03 to .08, and of that some part stays:
# little, but more than two standard errors at two sizes, for $p$ at one.
#
# So dimensions help in two ways: they make the best choice **possible**, and **remove rivals**. That is
# most of it for $p$, and a good part for $W$, which escapes the others a little more easily in more
# dimensions. Without a rival all but two of 15,312 runs were global after 600 steps.
#
# Why do rivals go? In high dimension random vectors are nearly orthogonal, and then every row of every choice
# is tight. A choice with all other tokens as support tokens must beat them all, so only the best one is
# locally optimal. In the limit no SVM is needed:
#
# > **Proposition.** Let the tokens of each sequence be orthogonal, of one length > 0, the queries $z_i \ne
# > 0$ orthogonal (so $d \ge \max(n, T)$), and each best score unique. Then gradient descent on $W$ from
# > zero, with positive steps, keeps every best token ahead; if the sum of the steps is infinite, all leads
# > grow without bound, so every run is global.
#
# <details><summary>Why</summary>
#
# Only its own sequence moves a logit, $h_t$ by a fixed positive multiple of $|\ell'(u)|\,
# s_t\,(\gamma_t - \bar\gamma)$ with $\bar\gamma = \sum_t s_t \gamma_t$. The best token has the largest
# $\gamma_a - \bar\gamma > 0$, and $s_a \ge s_t$ at the start. So $h_a$ gains more than every other one, at
# each step. How much more? $|\ell'(u)| \ge |\ell'(\gamma_a)|$ and $s_a \ge 1/T$. If $\gamma_t >
# \bar\gamma$, the difference is at least $s_a (\gamma_a - \gamma_t)$; if not, at least $s_a (\gamma_a -
# \bar\gamma) \ge s_a s_t (\gamma_a - \gamma_t)$. While the lead over $t$ is below $C$, $s_t \ge s_a e^{-C}$,
# so the gain per unit of step stays above a positive constant, and the steps would add up. $\square$
# </details>
#
# **A test.** At a *fixed*, low dimension, make tokens orthogonal, or queries, or both, and compare at equal
# rivals.

# %%
crossed = {}
print("W, n = 3, T = 4, d = 4, the same scores, 1,500 data sets")
print("orthogonal   global   with a rival (rivals each)   global with 1, 2, 3, 4 rivals")
for which in found["orthogonal"].which.values:
    part = found["orthogonal"].sel(which=which)
    won, rivals = part.code.values == 2, part.wrong.values
    each = rivals[rivals > 0].mean() if rivals.any() else 0
    at = [won[rivals == k].mean() if (rivals == k).any() else np.nan for k in (1, 2, 3, 4)]
    crossed[which] = won.sum(), (rivals > 0).sum(), *at
    print(f"{which:10s} {won.sum():8d} {(rivals > 0).sum():11d} ({each:.1f})", end=" " * 16)
    print("  ".join("  - " if np.isnan(a) else f"{a:.2f}" for a in at))
assert crossed["both"][:2] == (1500, 0)
assert crossed["queries"][0] > crossed["nothing"][0] + 90 > crossed["tokens"][0] + 120
assert max(crossed[which][1] for which in ("queries", "tokens")) < 0.85 * crossed["nothing"][1]
assert (np.array(crossed["tokens"][3:]) < np.array(crossed["nothing"][3:]) - 0.1).all()

# %% [markdown]
# Both orthogonal: no rival, every run global. Orthogonal queries alone save most of the lost runs:
# fewer problems have a rival, and those have fewer.
#
# Orthogonal *tokens* alone do worse than random ones, although fewer problems have a rival: with two or more
# rivals they are lost more often, at equal number. So number is not all of it. What the rest is, we do not
# know.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12.8 All sequences at once
#
# "More dimensions" is meant relative to the data. Let the number of sequences grow with $d$, at $T = 3$: as
# $d/2$ for $p$, as $d$, $d^2/8$ and $d^{3/2}$ for $W$. The **load** is the number of rows for each number of
# the model: $n(T - 1)/d$ for $p$, $n(T - 1)/d^2$ for $W$. For which rules does it fall? **Predict**: do more
# and more runs become global for exactly these?

# %%
table, rules = [], runs.RULES | {"W, n = d^1.5": ("W", 1, 1.5)}
for rule, (kind, factor, power) in rules.items():
    for d in (4, 12, 24) if rule in runs.RULES else (4, 9, 16):
        n = round(factor * d**power)
        if rule in runs.RULES:
            part = found["crowded"].sel(rule=rule, d=d)
            won, right = ((part.code == 2).mean().item(), part.right.mean().item())
        else:  # here and now
            tokens = data.random_tokens(n, 3, d, trials=2400 // d, seed=11 if d < 16 else 25)
            attention = runs.descend(runs.attend(kind, d, 2400 // d), tokens, steps=300)
            won = (runs.words(attention, tokens) == runs.GLOBAL).double().mean().item()
            right = (attention.argmax(-1) == tokens.optimal).double().mean().item()
        table.append((rule, d, n, 2 * n / d ** (1 if kind == "p" else 2), 1 - right, won))

print("rule            d    n   load   error a sequence   n x error   global (exp(-n x error))")
for rule, d, n, load, error, won in table:
    digits = 2 if rule in runs.RULES else 1  # rounding decides a few of the runs made here
    text = f"{n * error:11.{digits}f} {won:10.{digits}f} ({np.exp(-n * error):.{digits}f})"
    print(f"{rule:13s} {d:3d} {n:4d} {load:6.2f} {error:14.{digits + 1}f}     {text}")
    assert abs(won - np.exp(-n * error)) < 0.06
ends = {rule: np.array([row[3:] for row in table if row[0] == rule])[[0, -1]] for rule in rules}
falls = {rule: np.diff(two[:, 0])[0] < -0.1 for rule, two in ends.items()}
rises = {rule: np.diff(two[:, 2])[0] > 0.05 for rule, two in ends.items()}
assert [rule for rule in rules if falls[rule]] == ["W, n = d", "W, n = d^1.5"]
assert [rule for rule in rules if rises[rule]] == ["W, n = d"]
assert np.diff(ends["W, n = d^1.5"][:, 1]) < -0.01  # each sequence alone does better
assert ends["W, n = d^1.5"][0, 2] > 0.5 > 0.15 > ends["W, n = d^1.5"][1, 2]

# %% [markdown]
# Not for these. With $n = d^{3/2}$ the numbers outgrow the rows, and each *sequence* does better; yet the
# share of global runs falls from more than a half to a tenth. It is one sequence against all: if they fail
# nearly independently, with a chance $\varepsilon$ each, all are right with the chance
#
# $$(1 - \varepsilon)^n \approx e^{-n \varepsilon}.$$
#
# The last two columns agree within 0.06. So what counts is $n\varepsilon$, the mean number of sequences that
# fail in a run: here only with $n = d$. At equal load $\varepsilon$ levels off, and $n\varepsilon$ grows with
# $n$; with $n = d^{3/2}$ the error falls, but more slowly than $n$ grows.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12.9 Claims and measurements
#
# | claim | prediction | measured |
# |---|---|---|
# | every choice possible, $W$ | $d \ge T - 1$, $d^2 \ge n (T - 1)$ | proved; one row more: never at $T = 2$ |
# | random choice possible | exact law for $p$ and $d \ge n$ | within 0.06, 400 a point |
# | the same, $W$, $d < n$ | the law as a heuristic | within 0.03 |
# | equal number of rivals | a doubling of $d$ gains nothing | at most .02, for $W$ of .03 to .08 |
# | orthogonal tokens and queries | global | 1,500 of 1,500 |
# | all sequences at once | $e^{-n\varepsilon}$, not the load | within 0.06; $n = d^{3/2}$ refuses the load |

# %% [markdown]
# ## Questions
#
# **1.** 900 sequences of 10 tokens. From which $d$ is every choice possible for $W$? For $p$?
# <details><summary>Answer</summary>
#
# 8,100 rows: $d \ge 90$ for $W$ ($90^2 = 8{,}100$; the theorem asks for 900), 8,100 for
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
assert all(abs(probability(share[T], 20, round(20 * nu[T]), "p") - 0.5) < 0.1 for T in (5, 10))
assert round(nu[10] / nu[5], 2) == 1.54
assert round(math.sqrt(nu[10] / nu[5]), 2) == 1.24
assert round(0.99**72, 2) == 0.48
progress("12")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - **Possible**: for every choice as many numbers as rows are needed, for a random one about $\nu_T$ a
#   sequence; for $W$ each sequence has to be possible alone, too.
# - **Found**: possible is not enough. Runs are lost to other local winners. More dimensions leave fewer of
#   them; that is most of what they do for $p$, a good part for $W$. It rests on three sizes of random tokens.
# - **In all sequences at once**: more and more runs, if $n$ times the error of each falls. That the numbers
#   outgrow the rows is not enough.
#
# ## Further reading
#
# - D. A. Tarzanagh, Y. Li, C. Thrampoulidis, S. Oymak, *Transformers as Support Vector Machines* (2023, arXiv
#   2308.16898): feasibility, over-parameterisation, global convergence.
# - D. A. Tarzanagh, Y. Li, X. Zhang, S. Oymak, *Max-Margin Token Selection in Attention Mechanism* (NeurIPS
#   2023, arXiv 2306.13596): global convergence where all other tokens of a sequence have equal scores.
# - D. Amelunxen, M. Lotz, M. B. McCoy, J. A. Tropp, *Living on the Edge: Phase Transitions in Convex
#   Programs with Random Data* (2014, arXiv 1303.6672): the formula.
# - T. M. Cover, *Geometrical and Statistical Properties of Systems of Linear Inequalities* (IEEE Trans.
#   1965); J. G. Wendel, *A Problem in Geometric Probability* (Math. Scand. 1962).
# - D. Hsu, V. Muthukumar, J. Xu, *On the Proliferation of Support Vectors in High Dimensions* (2020, arXiv
#   2009.10670): over points, what makes all rows tight.
#
# The count $d^2 \ge n(T - 1)$, the use of the formula for attention, and the reasons in 12.5 to 12.8 are
# this lesson's own: short arguments and measurements.
#
# **New in the library:** [`sweep.sweep`](../mini_attn/sweep/run.py) and
# [`sweep.wilson`](../mini_attn/sweep/shares.py).
#
# **Next:** [lesson 13](13_nonlinear_heads.ipynb): a nonlinear head may want several tokens at once.
