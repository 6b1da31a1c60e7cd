# %% [markdown] slideshow={"slide_type": "slide"}
# # 12 · Over-parameterisation
#
# Training selects one token of each sequence. Lesson 07 found which choices can last; some of them are not
# the best ones. Large models are said to escape this: with more dimensions than data the landscape becomes
# benign, and training ends at the best tokens.
#
# **The question: how many dimensions are enough, for what, and is it really the dimensions?**
#
# To make every choice *possible*, to *find* the best one, to be right in *all* sequences at once: these are
# three questions, with three answers.

# %% [markdown]
# **After this lesson you can**
#
# - say for which $n, T, d$ every choice of tokens is possible, and prove it by counting;
# - predict how often a random choice is possible;
# - check conditions that are said to make a run global, and say what each of them lacks;
# - say when all sequences end right at once, as their number grows with $d$.
#
# **You need** [lesson 07](07_local_global_tokens.ipynb) (support tokens, local winners) and the matrix $W$
# of [lesson 10](10_cross_self_attention.ipynb). Of [lesson 11](11_key_query_nuclear.ipynb) only this: $W =
# KQ^\top$ can be trained through its factors. About 80 minutes with three exercises; an optional section
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
# unit sphere of $\mathbb R^d$, and labels $y_i = \pm 1$. The scores are
# $\gamma_{it} = y_i\, v \cdot x_{it}$. The loss is $L = \frac1n \sum_i \ell(u_i)$ with
# $\ell(u) = \log(1 + e^{-u})$ and $u_i = \sum_t s_{it} \gamma_{it}$ for the attention $s_i$. We train $p$,
# $W$ and $(K, Q)$ on the same data, by 600 normalised steps of growing length; $p$ and $W$ start from zero,
# $(K, Q)$ from entries $N(0, 0.1^2)$. A run is
# **decided** if each sequence gives more than 0.99 of its attention to one token, **global** if to its best
# one.
#
# This was done for 48 sizes $(n, T, d)$, 500 data sets each, 72,000 runs. They are stored with the course;
# a hundred we compute again.

# %%
names = ("shares", "choices", "wide", "rivals", "escape", "crowded")
found = {name: measured(f"12.{name}").load() for name in names}
shares = found["shares"]
is_global, is_local = shares.global_.astype(bool), shares.local.astype(bool)
KINDS = {"p": ("$p$", BLUE, "o"), "W": ("$W$", ORANGE, "s"), "KQ": ("$(K, Q)$", GREEN, "^")}

# 100 of the 500 runs of one cell, here and now: the same call as for the stored ones
cell = {"kind": ["p"], "n": [4], "T": [3], "d": [8]}
fresh = sweep(runs.shares, cell, 100, batch=100, paired=["kind"], workers=1, progress=False)
agree = (fresh.global_ == shares.global_.sel(**cell, trial=slice(0, 99))).mean().item()
print(f"share of runs that come out as stored: {agree:.1f}")
assert agree > 0.9  # rounding decides a few runs that hop, and differs between processors
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
assert abs(across.sel(kind="KQ") - across.sel(kind="W")).max() < 0.1

# %% [markdown]
# From $d = 4$ to 24 more dimensions help, at every $n$ and $T$; $(K, Q)$ stays within 0.1 of $W$. But for
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
    assert kind == "p" or (enough(n, T) <= d) == every, again.format("12.1")

# %% [markdown]
# One row too many ends it: for two tokens in *every* problem, for $p$ with $T = 3$ in some.
#
# For "almost all data" the count is sharp, with any $T$.
#
# <details><summary>Why it is sharp</summary>
#
# One row more than numbers makes the rows $r$ dependent: $\sum_r c_r r = 0$, for almost all data with every
# $c_r \ne 0$. Turn round each row with $c_r < 0$, by $x_{it} \to 2 x_{i\alpha_i} - x_{it}$. Now all
# $c_r > 0$, so no $W$ makes every row positive. This stays so on all data near enough. $\square$
# </details>

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12.3 Possible for a random choice
#
# What of *one* choice of Gaussian tokens, drawn without a look at the data? A row is then a yes-or-no
# question with a random answer. If all rows were independent, $N$ questions to $D$ numbers, the answer is
# classical (Cover 1965, Wendel 1962): one half at $N = 2 D$. But the $T - 1$ comparisons $x_{i\alpha_i} -
# x_{it}$ of a sequence share $x_{i\alpha_i}$, and cost less than $T - 1$ independent questions. How much
# less?
#
# Take the logits of one sequence as $T$ independent $N(0, 1)$ numbers, and move them as little as possible to
# where $\alpha$ is ahead: to the nearest $h$ with $h_\alpha \ge h_t$ for all $t$. A token with $h_t =
# h_\alpha$ there is a **tie**. The number $j$ of ties is what the sequence **uses up**: each one ties down
# one number. Its mean is called $\nu_T$.
#
# The tied tokens meet $\alpha$ at their common mean: the highest comes down first, the next only if it is
# above the mean so far. If $\alpha$ has 0 and the others 3 and 1, the 3 meets it at 1.5; 1 is below: $j = 1$.


# %%
def used_up(h):
    """How many tokens are tied with the first at the nearest logits where it is ahead, for h (N, T)."""
    others = np.sort(h[:, 1:])[:, ::-1]
    mean = np.cumsum(np.hstack((h[:, :1], others)), axis=1) / np.arange(1, h.shape[1] + 1)
    return (others > mean[:, :-1]).sum(axis=1)


def chances(T, draws=200_000):
    """P(j = k), k = 0 ... T - 1, counted."""
    return np.bincount(used_up(np.random.default_rng(T).normal(size=(draws, T))), minlength=T) / draws


share = {T: chances(T) for T in (2, 3, 4, 5, 8, 16)}
nu = {T: (s * np.arange(T)).sum() for T, s in share.items()}
print("  T   T - 1   (T - 1)/2   nu_T")
for T in nu:
    print(f"{T:3d} {T - 1:6d} {(T - 1) / 2:10.1f} {nu[T]:9.1f}")
assert np.allclose(list(nu.values()), [0.5, 5 / 6, 1.0877, 1.295, 1.7592, 2.5075], atol=0.01)
assert np.abs(share[3] - [1 / 3, 1 / 2, 1 / 6]).max() < 0.004
assert used_up(np.array([[0, 3, 1]])) == 1


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
# $n\,\nu_T = d$.
#
# The smallest case is in figure 2: for $n = 1$, $T = 3$, $d = 1$ that space is a random line through the tip.
# It enters the cone, forwards or backwards, with the chance $\frac{240}{360} = 2\,P(J = 0)$.
#
# **For $W$** the subspace is not uniformly random: sequence $i$ feels $W$ through $W z_i$ alone. We use the
# theorem all the same, for $d \ge T - 1$: a **heuristic**.


# %%
def theorem(J, D):
    """The probability of the theorem, for J with J[k] = P(J = k), in D dimensions."""
    return min(1.0, 2 * sum(J[k] for k in range(D - 1, -1, -2) if k < len(J)))  # counted chances: clip


# %% [markdown]
# ### Exercise 12.2: How often is a random choice possible?
#
# ★★☆ · 14 minutes
#
# Given `share`, with `share[k]` $= P(j = k)$ for one sequence of Gaussian tokens ($k = 0 \dots T - 1$),
# return the probability that a random choice of $n$ sequences is possible, by `theorem` above: for `kind` "p"
# at any $d \ge 1$, for "W" at $d \ge T - 1$.
#
# <details><summary>Hint</summary>
#
# $J$ is a sum of $n$ independent numbers, and `np.convolve` gives the chances of a sum of two. $D$ is how
# many numbers the model has, as in 12.1.
# </details>


# %%
@exercise("12.2")
def probability(share, n, d, kind):
    """Return P(a random choice is possible), for share (T,), n sequences, dimension d and kind "p" or "W"."""
    ### BEGIN SOLUTION
    J = np.ones(1)
    for _ in range(n):
        J = np.convolve(J, share)
    return theorem(J, d if kind == "p" else d * d)
    ### END SOLUTION


# %%
check("12.2", probability)


# %%
def possible_share(kind, n, T, d, trials, seed=0):
    """The share of random choices that are feasible: token 1 of each sequence will do, tokens are alike."""
    X, z = gaussian(n, T, d, trials, seed)
    selected = torch.zeros(trials, n, dtype=torch.int64)
    return (svm.solve(runs.problem(kind, X, z, selected), throw=False).status == "optimal").mean()


def measured_and_law(kind, n, T, d, one):
    """Print both, and refuse more than 0.06 between them."""
    law = probability(share[T], n, d, kind)
    print(f"{kind:5s} {n:3d} {T:2d} {d:2d}   {one:.2f} ({law:.2f})")
    assert abs(one - law) < 0.06, again.format("12.2")


print("kind    n  T  d   measured (law)")
dimensions = (1, 2, 3, 4, 5, 6)
counted = np.array([possible_share("p", 3, 4, d, 400, d) for d in dimensions])
for d, one in zip(dimensions, counted, strict=True):
    measured_and_law("p", 3, 4, d, one)
for n, T, d in ((5, 3, 2), (8, 4, 3), (12, 5, 4), (16, 4, 4), (11, 3, 3)):
    measured_and_law("W", n, T, d, possible_share("W", n, T, d, 400, d))
stored = {size: found["choices"].possible.sel(size=k).mean().item() for k, size in enumerate(runs.CHOICES)}
for size in ((8, 2, 2), (20, 2, 3)):  # 2,000 choices each
    measured_and_law("W", *size, stored[size])
low, high = stored[4, 16, 3], probability(share[16], 4, 3, "W")
print(f"W       4 16  3   {low:.2f} ({high:.2f})   refused: d < T - 1")
assert high - low > 0.1, again.format("12.2")
cover = np.array([probability(np.array([0.5, 0.5]), 9, d, "p") for d in range(1, 11)])  # 9 rows, independent
assert (counted[2:5] - cover[2:5] > 0.15).all(), again.format("12.2")
assert probability(share[4], 3, 3, "p") < 0.5 < probability(share[4], 3, 4, "p")
assert 3 < 3 * nu[4] < 4

# %% jupyter={"source_hidden": true}
fig, ax = plt.subplots(figsize=(4.6, 2.8))
ax.vlines(dimensions, *wilson(np.round(400 * counted), 400), color=BLUE, linewidth=2)
ax.plot(dimensions, counted, "o", color=BLUE, label="measured")
d_line = np.arange(1, 11)
ax.plot(d_line, [probability(share[4], 3, d, "p") for d in d_line], "-", color=BLUE, label="law")
ax.plot(d_line, cover, ":", color=BLACK, label="9 rows, Cover")
ax.set(xlabel="dimension $d$", ylabel="share possible", ylim=(-0.03, 1.05))
ax.legend(loc="lower right")
show(
    fig,
    alt="Share of possible random choices for p against d: a rising curve with points on it, and a dotted "
    "curve of Cover's count that rises later.",
)

# %% [markdown]
# **Figure 3.** $p$, $n = 3$, $T = 4$: measured shares (bars: 95%; 400 choices each) and the law. Dotted:
# Cover's count, as if the nine comparisons were independent: refused. One half is near $d = 3\,\nu_4 = 3.3$.

# %% [markdown]
# For $p$ the law is exact, and for $W$ at $T = 2$: the signs of the rows are random there, and Wendel's rule
# needs no more. For $W$ and $T > 2$ we have no proof; it is within 0.06 at all five sizes above
# with $d \ge T - 1$, three of them with $d = T - 1$ and $n > 2d$.
#
# Below $d = T - 1$ it can be far too high (last row): a sequence has only the $d$ numbers $W z_i$, and can be
# impossible alone.
#
# For *every* choice $T - 1$ numbers a sequence suffice, if $d \ge T - 1$; for *half* of them about $\nu_T$.
#
# The law ($W$ from $d = T - 1$), with marks where *every* choice is possible:

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output", "widget"]
SHARES = share | {T: chances(T) for T in (6, 7)}


def possibility(n, T):
    figure = Figure(figsize=(5, 3), layout="none")
    ax = figure.add_axes((0.14, 0.19, 0.83, 0.69))
    for kind, color, mark, start in (("p", BLUE, n * (T - 1), 1), ("W", ORANGE, enough(n, T), T - 1)):
        d = np.arange(start, 41)
        law = [probability(SHARES[T], n, k, kind) for k in d]
        ax.plot(d, law, "o-", color=color, markersize=4, label=kind)
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
# **The best choice is not a random one**: it follows $v$. If all labels agree, $p = \pm v$ makes it possible,
# at any $T$ and $d$: a chance of $2^{1 - n}$ at least.
#
# With $W = v w^\top$ the logits are $(w \cdot z_i)\,(v \cdot x_{it})$, so a $w$ with
# $y_i\, w \cdot z_i > 0$ for all $i$ makes it possible. If $d \ge n$ there is one.
#
# Of all 72,000 runs, how many ended at the best tokens, how many could have?

# %%
possible = shares.possible.astype(bool)
chance = possible.sel(kind="p", n=4, T=6, d=2).mean().item()
print(f"p, n = 4, T = 6, d = 2: best choice possible in {chance:.3f}; all labels agree in {2 ** (1 - 4):.3f}")
assert abs(chance - 2 ** (1 - 4)) < 0.05
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
least = is_global.sel(kind="W", n=8, T=6, d=8).mean("trial").item()  # d >= n, one length
print(f"W, n = 8, T = 6, d = 8, every choice possible: share of global runs {least:.2f}")
assert 0.55 < least < 0.65

# %% [markdown]
# A decided run *is* a separating $p$ or $W$, so none was global where that is impossible; there most of the
# undecided runs are. But thousands of each kind ended elsewhere although it was possible. Even where *every*
# choice is, for $W$, four in ten runs can miss the best tokens.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12.5 What makes a run global
#
# Two conditions. (i) *The first gradient favours the best tokens*: every best token is ahead at $-\nabla
# L(0)$. (ii) *There is no other local winner* (no other choice is locally optimal, lesson 07), and the best
# choice is possible. From here on we leave $(K, Q)$ out: its local winners belong to another SVM, that of the
# nuclear norm (lesson 11).

# %%
wide_runs = found["wide"]  # n = 3, T = 4, 64 choices, d = 4 ... 512
print("kind  condition               it holds   then global   global without it")
for kind in ("p", "W"):
    code, possible = (wide_runs[name].sel(kind=kind).values for name in ("code", "possible"))
    favoured = wide_runs.favoured.sel(kind=kind).values.astype(bool)
    unrivalled = (wide_runs.wrong.sel(kind=kind).values == 0) & possible.astype(bool)
    for name, holds in (("first gradient favours", favoured), ("no other local winner", unrivalled)):
        right, rest = (holds & (code == 2)).sum(), (~holds & (code == 2)).sum()
        print(f"{kind:5s} {name:23s} {holds.sum():8d} {right:13d} {rest:19d}")
        assert right == holds.sum() - (kind == "p" and name[0] == "f")
        assert name[0] == "f" or rest == {"p": 870, "W": 521}[kind]
        assert name[0] == "n" or abs(right / (right + rest) - {"p": 0.54, "W": 0.71}[kind]) < 0.005

# %% [markdown]
# **No other local winner**: every one of these runs is global (no theorem: 12.7 has two exceptions at
# other sizes). But 870 and 521 global runs have rivals.
#
# **The first gradient** favours 54 and 71% of the global runs. But one run that it favours is not global: it
# is only the *first* step.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12.6 How low is safe? *(optional)*
#
# ### Exercise 12.3: How low is safe?
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
# So a single run can be judged while it goes on, its rivals unknown. At 12.4's last size:

# %%
tokens = data.random_tokens(8, 6, 8, trials=100)
early, end = (runs.descend(runs.attend("W", 8, 100), tokens, steps) for steps in (80, 600))
loss = torch.nn.functional.softplus(-(early * tokens.scores).sum(-1)).mean(-1)
safe = loss < torch.tensor([safe_level(scores) for scores in tokens.scores.numpy()])
well = runs.words(end, tokens) == runs.GLOBAL
print(f"below the level after 80 of 600 steps: {safe.sum()} of 100 runs, global: {well[safe].sum()}")
assert well[safe].all(), again.format("12.3")
assert 0.75 * well.sum() < safe.sum() < well.sum() < 75

# %% [markdown]
# After 80 of 600 steps the level names more than three quarters of the runs that end global, and no other.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12.7 Why dimensions help
#
# Call another local winner a **rival** (a choice; in lessons 05 to 08 rivals were tokens). All 64 choices
# can be tried for $n = 3$, $T = 4$. Let $d$ grow to 512.

# %%
columns = {}
for kind in ("p", "W"):
    part = wide_runs.sel(kind=kind)
    has = {"global": part.code == 2, "no rival": part.wrong == 0, "favoured": part.favoured}
    columns[kind] = {name: values.mean("trial").values for name, values in has.items()}
    assert columns[kind]["global"][-1] == columns[kind]["no rival"][-1] == 1
    assert abs(columns[kind]["favoured"][-1] - {"p": 0.77, "W": 0.92}[kind]) < 0.005

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
# **Figure 4.** $n = 3$, $T = 4$, 500 data sets a point. Most runs are global well before the rivals are gone.
# At $d = 512$ all are, 23% of $p$'s without the favour of the first gradient.
#
# **The number of rivals falls.** A choice wins locally if it beats its support tokens, $k_i$ in sequence $i$.
# If all tokens are alike, that has the chance $\prod_i 1/(k_i + 1)$. $T^n$ times its mean (0 for impossible
# choices) estimates the number of local winners, the best choice among them. So the more support tokens, the
# fewer rivals.
#
# **Why more support tokens?** They behave like the ties of 12.3, but the SVM asks for a lead of 1, not 0.
# With $w_i = p$ or $W z_i$, the logits of a sequence spread by $|w_i| / \sqrt d$. In more dimensions $w_i$ is
# shorter and $\sqrt d$ larger: the spread falls, the lead stays 1, and more tokens tie.

# %%
sizes = {("p", 3, 4): wide_runs.sel(kind="p", d=slice(4, 64))}
sizes |= {("p", n, T): found["rivals"].sel(kind="p", size=k) for k, (n, T) in enumerate(runs.RIVALS[:2])}
sizes |= {("W", n, T): found["escape"].sel(kind="W", size=k) for k, (n, T) in enumerate(runs.RIVALS)}


def winners(kind, n, T, d, trials=700):
    """The median spread, the mean ties at such logits, the mean k, the estimated number of winners."""
    tokens = runs.compressed(data.random_tokens(n, T, d, trials=trials, seed=d + 7))
    first = torch.zeros(trials, n, dtype=torch.int64)  # tokens are alike, so this choice will do
    solution = svm.solve(runs.problem(kind, tokens.keys, tokens.z, first), throw=False)
    w = solution.value[:, None].expand_as(tokens.z) if kind == "p" else tokens.z @ solution.value.mT
    can = solution.status == "optimal"
    k = geometry.support_tokens((tokens.keys @ w[..., None])[..., 0], first).sum(-1).numpy()[can]
    spread = w.norm(dim=-1).numpy()[can].ravel() / d**0.5
    h = np.random.default_rng(d + 7).normal(size=(k.size, T))
    h[:, 0] -= 1 / spread  # the lead
    estimate = T**n * (1 / (k + 1)).prod(axis=1).sum() / trials
    return np.median(spread), used_up(h).mean(), k.mean(), estimate


estimated = {}
for size, part in sizes.items():
    d = part.d.values.tolist()
    spread, ties, k, estimated[size] = np.transpose([winners(*size, one) for one in d])
    if size == ("p", 3, 4):
        print("p (3, 4)   d   spread   ties   support tokens")
        for row in zip(d, spread, ties, k, strict=True):
            print("{:12d} {:8.1f} {:6.1f} {:16.1f}".format(*row))
    assert (np.diff(spread) < 0).all()
    assert (np.diff(k) > 0).all()
    assert np.abs(k - ties).max() < 0.25

# %% [markdown]
# More tokens tie, at all six sizes. Do fewer choices win?

# %%
counted, free = {}, np.zeros(2, dtype=int)
print("estimated / counted:  winners    rivals alone, at most")
for size, part in sizes.items():
    rivals, can = (part[name].mean("trial").values for name in ("wrong", "possible"))
    counted[size] = rivals + can
    ratio, of_rivals = estimated[size] / counted[size], (estimated[size] - can) / rivals
    print(f"{size[0]} {size[1:]} {ratio.min():18.1f} to {ratio.max():.1f} {of_rivals.max():14.1f}")
    assert 0.95 < ratio.min() < ratio.max() < {"p": 4 / 3, "W": 1.9}[size[0]]
    assert of_rivals.max() < {"p": 2, "W": 3}[size[0]]
    assert (np.diff(counted[size]) < 0).all()
    alone = (part.possible.values == 1) & (part.wrong.values == 0)
    free += alone.sum(), (alone & (part.code.values != 2)).sum()
print("no rival, best possible: {} runs, not global {}".format(*free))
assert free.tolist() == [15_312, 2]

# %% jupyter={"source_hidden": true}
fig, ax = plt.subplots(figsize=(4.8, 2.9))
for kind, color, marker in (("p", BLUE, "o"), ("W", ORANGE, "s")):
    d = sizes[kind, 3, 4].d.values
    ax.plot(d, estimated[kind, 3, 4], "-", color=color, label=f"${kind}$, estimated")
    ax.plot(d, counted[kind, 3, 4], marker, color=color, label=f"${kind}$, counted")
ax.set(xscale="log", xlabel="dimension $d$", ylabel="local winners", ylim=(0, 6))
ax.set_xticks([4, 8, 16, 32, 64], ["4", "8", "16", "32", "64"])
ax.minorticks_off()
fig.legend(*ax.get_legend_handles_labels(), loc="outside right center")
show(
    fig,
    alt="Local winners against d from 4 to 64. For p points fall from five to 1.2, the estimate just above. "
    "For W the estimate falls from 3.5 to 1.3, above points from 2.5 to 1.2.",
)

# %% [markdown]
# **Figure 5.** $n = 3$, $T = 4$.
#
# Fewer choices win. For $p$ the estimate is less than a third above the count. For $W$ it can give nearly
# three times the rivals: it shows that they fall, not how many are left.
#
# Are the rivals that remain also *escaped* more easily? In more dimensions more of $p$'s problems with a
# rival are global. But they also have fewer rivals: over four at $d = 4$, 1.3 at $d = 64$. So compare those
# with the *same* number, all with a possible best choice.

# %% [markdown]
# ### Exercise 12.4: At equal rivals
#
# ★★☆ · 15 minutes
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
part = sizes["p", 3, 4].transpose("d", "trial")
rivals, won = np.where(part.possible, part.wrong, 0), part.code.values == 2
print("mean number of rivals, if any, d = 4 ... 64:", np.average(rivals, axis=1, weights=rivals > 0).round(1))
for name, these in (("with a rival  ", rivals > 0), ("with one rival", rivals == 1)):
    global_share = np.average(won, axis=1, weights=these)
    print(f"share of global runs, {name}:", global_share.round(2), "of", these.sum(axis=1))
assert 0.88 < global_share.min() < global_share.max() < 0.96

# %% [markdown]
# With one rival about nine runs in ten are global at *every* $d$. Now all numbers of rivals, for $p$ and $W$
# at three sizes. The *share left* is $b'/b$ in 200 samples drawn from the runs, with repetition.

# %%
draws = np.random.default_rng(0)
print("(n, T): a doubling of d gains   at equal rivals   share left, 95%")
for kind, n, T in sizes:
    part = sizes[kind, n, T].transpose("d", "trial")
    has = (part.possible * part.wrong).values > 0
    every = part.code.values[has] == 2, part.d.values[has.nonzero()[0]], part.wrong.values[has]
    drawn = [gains(*(a[i] for a in every)) for i in draws.integers(has.sum(), size=(200, has.sum()))]
    low, high = np.quantile([equal / b for b, equal in drawn], [0.025, 0.975])
    print("{} ({}, {}) {:20.3f} {:17.3f}".format(kind, n, T, *gains(*every)), f"{low:10.2f} to {high:.2f}")
    assert high < (0.5 if kind == "p" else 0.75), again.format("12.4")

# %% [markdown]
# For $p$ less than half is left, at all three sizes. For $W$ it may be two thirds at $(2, 6)$, where the gain
# is small.
#
# So dimensions make the best choice **possible**, and they **remove rivals**. With the best choice
# possible and no rival, all but two of 15,312 runs were global.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12.8 In the limit *(optional)*
#
# Why do no rivals remain in the limit? Random vectors are nearly orthogonal there, and then every row of
# every choice is tight. A choice with all other tokens as support tokens must beat them all, so only the best
# one is locally optimal.

# %%
tight = wide_runs.tight.mean("trial") / 64
print("share of the 64 choices with every row tight, d = 4, 8, ..., 512")
for kind in ("p", "W"):
    print(kind, tight.sel(kind=kind).values.round(2))
assert (tight.sel(d=4) < 0.01).all()
assert (tight.sel(d=512) > 0.99).all()

# %% [markdown]
# In the limit no SVM is needed:
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

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12.9 All sequences at once
#
# Let the number of sequences grow with $d$, at $T = 3$: as $d/2$ for $p$, as $d^2/8$, $d$ and $d^{3/2}$ for
# $W$. The **load** is the number of rows for each number of the model: $n(T - 1)/d$ for $p$, $n(T - 1)/d^2$
# for $W$. For which rules does it fall? **Predict**: do more and more runs become global for exactly these?
#
# Call the share $\varepsilon$ of sequences that end elsewhere than at their best token the **error**. If
# sequences fail independently, all $n$ are right with the chance $(1 - \varepsilon)^n \approx e^{-n
# \varepsilon}$; $n\varepsilon$ is the mean number that fail in a run.

# %%
crowd = found["crowded"]  # 500 runs each, of 300 steps
d = crowd.d.values
error, won = (1 - crowd.right.mean("trial")).values, (crowd.code == 2).mean("trial").values
n = np.array([[round(a * x**power) for x in d] for _, a, power in runs.RULES.values()])
load = 2 * n / np.array([d] + 3 * [d**2])
print("rule            d    n   load   error a sequence   runs global   exp(-n x error)")
for r, rule in enumerate(crowd.rule.values):
    for k in (0, -1):
        print(f"{rule:13s} {d[k]:3d} {n[r, k]:4d} {load[r, k]:6.2f} {error[r, k]:18.3f}", end=" ")
        print(f"{won[r, k]:13.2f} {np.exp(-n[r, k] * error[r, k]):17.2f}")
assert ((crowd.code == 0).mean("trial") < 0.01).all()  # undecided
assert (abs(won - np.exp(-n * error)) < 0.06).all()
assert (np.diff(load)[2:] < 0).all()  # falls for the last two rules
assert (won[:, -1] - won[:, 0] > 0.05).tolist() == [False, False, True, False]  # the load is no guide
assert ((n * error)[:, -1] < (n * error)[:, 0]).tolist() == [False, False, True, False]
assert (np.diff(error[3]) < 0).all()  # each sequence alone does better, and yet
assert won[3, 0] > 0.5 > 0.035 > won[3, -1]
assert (np.diff((n * error)[3]) > 0.5).all()
assert (n * error)[3, [0, -1]].round(1).tolist() == [0.5, 3.3]

# %% [markdown]
# Only for $n = d$. With $n = d^{3/2}$ the numbers outgrow the rows, and each *sequence* does better; yet the
# share of global runs falls from more than a half to 0.03.
#
# The last two columns agree within 0.06. So what counts is $n\varepsilon$. Of these four rules it falls with
# $n = d$ only; with $n = d^{3/2}$ it grows at each of five $d$, from 0.5 to 3.3.
#
# For $\varepsilon$ itself we have no law.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12.10 Claims and measurements
#
# | claim | prediction | measured |
# |---|---|---|
# | every choice possible, $W$ | $d \ge T - 1$, $d^2 \ge n (T - 1)$ | proved; one row more: never at $T = 2$ |
# | random choice of Gaussian tokens possible | the law of 12.3 | within 0.06; Cover's count refused |
# | local winners of $p$ | $T^n\,\mathbb E \prod_i 1/(k_i + 1)$ | estimate less than a third too high |
# | equal number of rivals | most of the gain is gone | less than half left for $p$, .69 or less for $W$ |
# | all sequences at once | the load decides | **not** up to $d = 24$: $n = d^{3/2}$ |
# | the same | $e^{-n\varepsilon}$ | within 0.06 |

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
# **2.** A colleague sees 99% of 72 sequences right and half of the runs global. Is that a contradiction?
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
# How many dimensions are enough?
#
# - To make every choice **possible**: as many numbers as rows, if $d \ge T - 1$. For half of the (Gaussian)
#   random choices: about $\nu_T$ numbers a sequence.
# - To **find** the best choice: possible is not enough, as runs are lost to rivals. In more dimensions more
#   tokens tie, and fewer rivals are left.
# - In **all sequences at once**: $n$ times the error of each has to fall. Up to $d = 24$ a falling load was
#   not enough.
#
# Is it really the dimensions? Whether every choice is possible hangs on numbers against rows. What is
# found hangs on the rivals that are left: for $p$, at an equal number of them, less than half of the gain
# remains, for $W$ perhaps two thirds.

# %% [markdown]
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
#
# The count $d^2 \ge n(T - 1)$, the use of the formula for attention, and the reasons in 12.5 to 12.9 are
# this lesson's own: short arguments and measurements.
#
# **New in the library:** [`sweep.sweep`](../mini_attn/sweep/run.py) and
# [`sweep.wilson`](../mini_attn/sweep/shares.py).
#
# **Next:** [lesson 13](13_nonlinear_heads.ipynb): a nonlinear head may want several tokens at once.
