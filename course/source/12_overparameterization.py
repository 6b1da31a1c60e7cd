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
names = ("shares", "choices", "wide", "rivals", "escape", "crowded", "longer")
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
# With one row too many it ends: for $W$ and two tokens in *every* problem, for $p$ with $T = 3$ in some. So
# for "almost all data" the count is sharp, at any $T$.
#
# <details><summary>Why it is sharp</summary>
#
# One row more than numbers makes the rows $r$ dependent: $\sum_r c_r r = 0$. For almost all data every
# $c_r \ne 0$, as any $d^2$ of the rows are independent (deal them out as above). Turn round each row with
# $c_r < 0$, by $x_{it} \to 2 x_{i\alpha_i} - x_{it}$. Now all $c_r > 0$, so no $W$ makes every row positive.
# This stays so on all data near enough. $\square$
# </details>

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12.3 Possible for a random choice
#
# Now take *one* choice, made without a look at the data. Each row asks for a positive number and gets a
# random one. For $N$ *independent* rows and $D$ parameters the answer is classical (Cover 1965, Wendel 1962):
# half of the choices are possible at $N = 2 D$. But the $T - 1$ comparisons $x_{i\alpha_i} - x_{it}$ of one
# sequence share the token $x_{i\alpha_i}$. So they cost less than $T - 1$ independent rows. How much less?
#
# Take the logits of one sequence as $T$ independent $N(0, 1)$ numbers. Move them as little as possible (least
# squares) to where $\alpha$ is ahead: to the nearest $h$ with $h_\alpha \ge h_t$ for all $t$. A token with
# $h_t = h_\alpha$ there is a **tie**. The sequence **uses up** $j$ numbers, one for each tie. The mean of $j$
# is called $\nu_T$.

# %% [markdown]
# ### Exercise 12.2: What one sequence uses up
#
# ★★★ · 14 minutes
#
# Each row of `h` holds the logits of one sequence, and $\alpha$ is its first token. Return the number of ties
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
@exercise("12.2")
def used_up(h):
    """Return how many tokens are tied with the first at the nearest h where it is ahead, for h (N, T)."""
    ### BEGIN SOLUTION
    others = np.sort(h[:, 1:])[:, ::-1]  # the highest first
    mean = np.cumsum(np.hstack((h[:, :1], others)), axis=1) / np.arange(1, h.shape[1] + 1)
    return (others > mean[:, :-1]).sum(axis=1)
    ### END SOLUTION


# %%
check("12.2", used_up)

# %% [markdown]
# From 0, 3 and 1 only the 3 is tied: it meets $\alpha$ at 1.5, and that is above 1. So $j = 1$.


# %%
def chances(T, draws=200_000):
    """P(j = k), k = 0 ... T - 1, counted."""
    return np.bincount(used_up(np.random.default_rng(T).normal(size=(draws, T))), minlength=T) / draws


share = {T: chances(T) for T in (2, 3, 4, 5, 6, 8, 16)}
nu = {T: (s * np.arange(T)).sum() for T, s in share.items()}
print("  T   T - 1   independent: (T - 1)/2   nu_T")
for T in nu:
    print(f"{T:3d} {T - 1:6d} {(T - 1) / 2:19.1f} {nu[T]:14.1f}")
expected = [0.5, 5 / 6, 1.0877, 1.295, 1.4705, 1.7592, 2.5075]
assert np.allclose(list(nu.values()), expected, atol=0.01), again.format("12.2")
assert np.abs(share[3] - [1 / 3, 1 / 2, 1 / 6]).max() < 0.004, again.format("12.2")
assert used_up(np.array([[0, 3, 1]])) == 1, again.format("12.2")


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
# We call this $P$ **the law**. For $p$ and **Gaussian tokens**, whose coordinates are independent
# $N(0, 1)$ numbers, the condition holds with $D = d$: the stacked logits $X p$ are the column space of a
# Gaussian matrix, which has no preferred direction. Half of the choices are possible near $n\,\nu_T = d$.
#
# The smallest case is in figure 2: for $n = 1$, $T = 3$, $d = 1$ that space is a random line through the tip.
# It enters the cone, forwards or backwards, with the chance $\frac{240}{360} = 2\,P(J = 0)$.
#
# For $W$ the subspace is not uniformly random, as sequence $i$ feels $W$ through $W z_i$ alone. For tokens on
# the **unit sphere** it is not either. We try the theorem there all the same, with $D = d^2$ for $W$, as a
# **heuristic**.
#
# **Predict** for $p$, three sequences and four tokens: with nine independent rows one half would lie at
# $d = 4.5$. Where does it lie?


# %%
def probability(share, n, d, kind):
    """The theorem's P, for share[k] = P(j = k) of one sequence."""
    J, D = np.ones(1), d if kind == "p" else d * d
    for _ in range(n):
        J = np.convolve(J, share)  # the chances of a sum
    return min(1.0, 2 * sum(J[k] for k in range(D - 1, -1, -2) if k < len(J)))  # counted chances: clip


# %%
def possible_share(kind, n, T, d, sphere=False, trials=600):
    """The share of random choices that are feasible: token 1 of each sequence will do, tokens are alike."""
    X, z = gaussian(n, T, d, trials, seed=d)
    X = X / X.norm(dim=-1, keepdim=True) if sphere else X
    selected = torch.zeros(trials, n, dtype=torch.int64)
    return (svm.solve(runs.problem(kind, X, z, selected), throw=False).status == "optimal").mean()


dimensions = (1, 2, 3, 4, 5, 6)
counted = np.array([possible_share("p", 3, 4, d) for d in dimensions])
law = np.array([probability(share[4], 3, d, "p") for d in dimensions])
cover = np.array([probability(np.array([0.5, 0.5]), 9, d, "p") for d in range(1, 11)])  # 9 rows, independent
assert np.abs(counted - law).max() < 0.06, again.format("12.2")
assert (counted[2:5] - cover[2:5] > 0.15).all(), again.format("12.2")
assert law[2] < 0.5 < law[3], again.format("12.2")
assert 3 < 3 * nu[4] < 4

print("kind       n  T  d   measured   law")
for kind, n, T, d, least, most in (
    ("W", 5, 3, 2, -0.06, 0.06),
    ("W", 8, 4, 3, -0.06, 0.06),
    ("W", 11, 3, 3, -0.06, 0.06),
    ("W", 4, 16, 3, -0.3, -0.1),
    ("p, sphere", 5, 3, 4, -0.06, 0.06),
    ("p, sphere", 2, 6, 2, 0.03, 0.13),
):
    one = possible_share(kind[0], n, T, d, sphere="sphere" in kind)
    of_law = probability(share[T], n, d, kind[0])
    print(f"{kind:9s} {n:2d} {T:2d} {d:2d} {one:10.2f} {of_law:5.2f}")
    assert least < one - of_law < most, again.format("12.2")


# %% jupyter={"source_hidden": true}
fig, ax = plt.subplots(figsize=(4.6, 2.8))
ax.vlines(dimensions, *wilson(np.round(600 * counted), 600), color=BLUE, linewidth=2)
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
# **Figure 3.** $p$, $n = 3$, $T = 4$, Gaussian tokens: measured shares (bars: 95%, 600 choices each) and the
# law. Dotted: Cover's count, as if the nine comparisons were independent. One half is near
# $d = 3\,\nu_4 = 3.3$.

# %% [markdown]
# For $p$ and Gaussian tokens the law is exact. For $W$ we have no proof beyond $T = 2$, where the signs of
# the rows are random and Wendel's rule needs no more. At the three sizes with $d \ge T - 1$ it is within
# 0.06. Below $d = T - 1$ it can be far too high (fourth row): a sequence has only the $d$ numbers $W z_i$,
# and can be impossible alone.
#
# The tokens of 12.1 lie on the sphere: they all have the same length. There the law can be too low in few
# dimensions (last row).
#
# The law ($W$ from $d = T - 1$), with marks where *every* choice is possible:

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output", "widget"]
SHARES = share | {7: chances(7)}


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
# We try two conditions.
#
# (i) *The first gradient favours the best tokens*: every best token is ahead at $-\nabla L(0)$. In
# Tarzanagh et al. (2023) this is part of a condition for global convergence.
#
# (ii) *There is no rival, and the best choice is possible.* From here on a **rival** is another choice that
# is locally optimal (lesson 07; in lessons 05 to 08 rivals were tokens).
#
# For (i) we have the runs of 12.1. For (ii) all $T^n$ choices were tried at three small sizes. We leave
# $(K, Q)$ out: its local winners belong to another SVM, that of the nuclear norm (lesson 11).

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

# (i) on fresh data, with 1,800 steps more; the two exceptions to (ii), with 6,000 steps
tokens, p = data.random_tokens(2, 6, 6, trials=2000, seed=5), runs.attend("p", 6, 2000)
early, late = (runs.words(runs.descend(p, tokens, steps), tokens) == runs.LOCAL for steps in (600, 1800))
exceptions = early & (runs.first_leads("p", tokens) > 0).all(dim=-1)
print(f"(i), fresh: {exceptions.sum()} favoured and local, later still {late[exceptions].sum()}")
assert late[exceptions].sum() == exceptions.sum() > 2
for n, T, d, seed, place in ((4, 3, 16, 6136803929761899560, 7), (2, 6, 32, 3509046993695595, 46)):
    tokens = runs.compressed(data.random_tokens(n, T, d, trials=100, seed=seed))
    attention = runs.descend(runs.attend("p", tokens.keys.shape[-1], 100), tokens, steps=6000)
    assert runs.words(attention, tokens)[place] == runs.GLOBAL

# %% [markdown]
# **(i) is not enough.** It speaks of the *first* step only: 32 runs of $p$ and 6 of $W$ that it favours end
# at another choice. Fresh ones stay there for 1,800 steps more.
#
# **(ii) held up.** Only two runs without a rival ended elsewhere, and they were not finished: after 600 steps
# they had turned to a choice that is not locally optimal, after 6,000 both are global. This is a measurement
# and no theorem. Nor is (ii) needed: more than a thousand runs of each model are global without it.

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
# **Rivals become fewer because more tokens tie.** A choice that is possible is locally optimal if in each
# sequence it beats its support tokens, $k_i$ of them. Suppose that it and they are alike, and the sequences
# independent: then the chance is $\prod_i 1/(k_i + 1)$. Its mean (0 for impossible choices) times $T^n$
# estimates the number of locally optimal choices. So the more support tokens, the fewer rivals; when all
# others are support tokens, only the best choice is left.
#
# And why are there more support tokens? They behave like the ties of 12.3, but the SVM asks for a lead of 1
# instead of 0. Compare this lead with the *spread* of the logits of a sequence, $|p| / \sqrt d$. It falls as
# $d$ grows, so more tokens tie. We measure this for $p$.

# %%
sizes = {("p", 3, 4): wide_runs.sel(kind="p", d=slice(4, 64))}
sizes |= {("p", n, T): found["rivals"].sel(kind="p", size=k) for k, (n, T) in enumerate(runs.RIVALS[:2])}
sizes |= {("W", n, T): found["escape"].sel(kind="W", size=k) for k, (n, T) in enumerate(runs.RIVALS)}


def winners(n, T, d, trials=700):
    """For p: the median spread, the mean ties at such logits, the mean k, the estimated number of winners."""
    tokens = runs.compressed(data.random_tokens(n, T, d, trials=trials, seed=d + 7))
    first = torch.zeros(trials, n, dtype=torch.int64)  # tokens are alike, so this choice will do
    solution = svm.solve(svm.token_problem(tokens.keys, first), throw=False)
    can = solution.status == "optimal"
    logits = (tokens.keys @ solution.value[:, None, :, None])[..., 0]
    k = geometry.support_tokens(logits, first).sum(-1).numpy()[can]
    spread = solution.value.norm(dim=-1).numpy()[can].repeat(n) / d**0.5
    h = np.random.default_rng(d + 7).normal(size=(k.size, T))
    h[:, 0] -= 1 / spread  # the lead
    estimate = T**n * (1 / (k + 1)).prod(axis=1).sum() / trials
    return np.median(spread), used_up(h).mean(), k.mean(), estimate


counted, estimated = {}, {}
print("p: n  T   d   spread   ties   support tokens   winners: estimated  counted")
for size, part in sizes.items():
    every = (part.wrong + part.possible).transpose("trial", "d").values  # rivals, and the best choice
    counted[size] = every.mean(axis=0), 1.96 * every.std(axis=0) / len(every) ** 0.5
    assert (np.diff(counted[size][0]) < 0).all()
    if size[0] == "W":
        continue
    d = part.d.values.tolist()
    spread, ties, k, estimated[size] = np.transpose([winners(*size[1:], one) for one in d])
    for row in (0, 2, 4):
        print(f"{size[1]:4d} {size[2]:2d} {d[row]:3d} {spread[row]:8.1f} {ties[row]:6.1f}", end="")
        print(f"{k[row]:17.1f} {estimated[size][row]:20.1f} {counted[size][0][row]:8.1f}")
    assert (np.diff(spread) < 0).all()
    assert (np.diff(k) > 0).all()
    assert np.abs(k - ties).max() < 0.25, again.format("12.2")
    ratio = estimated[size] / counted[size][0]
    assert ratio.min() > 0.95
    assert ratio.max() < 4 / 3

# %% jupyter={"source_hidden": true}
fig, ax = plt.subplots(figsize=(4.8, 2.9))
for kind, color, marker in (("p", BLUE, "o"), ("W", ORANGE, "s")):
    d, (mean, bar) = sizes[kind, 3, 4].d.values, counted[kind, 3, 4]
    ax.errorbar(d, mean, bar, fmt=marker, color=color, label=f"${kind}$, counted")
ax.plot(sizes["p", 3, 4].d, estimated["p", 3, 4], "-", color=BLUE, label="$p$, estimated")
ax.set(xscale="log", xlabel="dimension $d$", ylabel="locally optimal choices", ylim=(0, 6))
ax.set_xticks([4, 8, 16, 32, 64], ["4", "8", "16", "32", "64"])
ax.minorticks_off()
fig.legend(*ax.get_legend_handles_labels(), loc="outside right center")
show(
    fig,
    alt="Locally optimal choices against d from 4 to 64. For p points fall from five to 1.2, the estimate "
    "just above. For W points fall from 2.5 at d = 4 to 1.2 at d = 16.",
)

# %% [markdown]
# **Figure 5.** Locally optimal choices, the best one among them, $n = 3$, $T = 4$ (bars: 95%). There are
# fewer in more dimensions, for $p$ and for $W$. The estimate for $p$ is at most a third too high, at all
# three sizes.
#
# More of the runs that *have* a rival are global in more dimensions, too. Is that because rivals are escaped
# more easily there, or because there are fewer of them? Compare runs with the *same* number of rivals, all
# with a possible best choice.

# %% [markdown]
# ### Exercise 12.4: At equal rivals
#
# ★★☆ · 15 minutes
#
# For each run you have `won` (1 if it is global, else 0), its dimension $d$, and its number of rivals. Fit
# two lines by least squares: $\text{won} \approx a + b \log_2 d$, and $\text{won} \approx a_r + b' \log_2 d$
# with an intercept $a_r$ of its own for each number of rivals $r$ that occurs. Return $b$ and $b'$, what a
# doubling of $d$ gains in all and at equal rivals. **Predict** before you run on: is $b'$ more than half of
# $b$, or less?
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

# %% [markdown]
# Now take the stored runs of $p$ and $W$ at three sizes. The *share left* is $b'/b$; its interval comes from
# 200 samples of the runs, drawn with repetition.

# %%
draws = np.random.default_rng(0)
print("(n, T): a doubling of d gains   at equal rivals   share left (95%)")
for kind, n, T in sizes:
    part = sizes[kind, n, T].transpose("d", "trial")
    has = (part.possible * part.wrong).values > 0
    every = part.code.values[has] == 2, part.d.values[has.nonzero()[0]], part.wrong.values[has]
    drawn = [gains(*(a[i] for a in every)) for i in draws.integers(has.sum(), size=(200, has.sum()))]
    low, high = np.quantile([equal / b for b, equal in drawn], [0.025, 0.975])
    print("{} ({}, {}) {:20.3f} {:17.3f}".format(kind, n, T, *gains(*every)), f"{low:10.1f} to {high:.1f}")
    assert high < (0.5 if kind == "p" else 0.75), again.format("12.4")
    assert (low > 0) == ((n, T) == (2, 6) or (kind, n) == ("W", 3)), again.format("12.4")

# %% [markdown]
# For $p$ less than half of the gain is left, for $W$ at $(2, 6)$ perhaps two thirds. In three of the six
# rows the interval does not reach 0: something is left there. Rivals equal in number need not be equally
# easy to escape.
#
# So dimensions make the best choice **possible**, and with more of them there are **fewer rivals**. Most of
# what they gain for $p$ goes with that number.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12.8 All sequences at once
#
# Let the number $n$ of sequences grow with $d$, for $W$: as $d$, as $d^{1.25}$ or as $d^{1.5}$. The
# **load**, the number of rows for each parameter, is $n (T - 1) / d^2$. It falls under all three rules.
# **Predict** for $T = 3$: under which of them are more and more runs right in all sequences?
#
# Call the share $\varepsilon$ of sequences that end elsewhere than at their best token the **error**. Then a
# run has $n \varepsilon$ wrong sequences on average, so at least a share $1 - n \varepsilon$ of the runs has
# none. If the sequences were wrong independently of each other, it would be $(1 - \varepsilon)^n$, about
# $e^{-n \varepsilon}$.

# %%
curves = {}  # (T, power): the mean number of wrong sequences, its bar, and the share of runs without one
for crowd in (found["crowded"], found["longer"]):  # 300 runs each, of 900 steps
    assert (crowd.code == 0).mean() < 0.001  # undecided
    d = crowd.d.values
    for T, power in ((T, power) for T in crowd["T"].values for power in crowd.power.values):
        right = crowd.right.sel(T=T, power=power).transpose("d", "trial").values
        n = np.round(d**power)
        wrong = n[:, None] * (1 - right)
        mean, bar = wrong.mean(axis=1), 1.96 * wrong.std(axis=1) / wrong.shape[1] ** 0.5
        curves[int(T), float(power)] = mean, bar, (right > 1 - 1e-9).mean(axis=1)
        print(f"T = {T}, n = d^{power:<4g}  wrong sequences a run, d = 4 ... 64:", mean.round(2))
        assert (np.diff(mean / n) < 0).all()  # the error of each sequence
        assert (np.diff(n * (T - 1) / d**2) < 0).all()  # the load
for mean, _, share_right in curves.values():
    assert (share_right >= 1 - mean - 1e-9).all()
    assert np.abs(share_right - np.exp(-mean)).max() < 0.06
for which in ((3, 1.5), (6, 1.25), (6, 1.0), (3, 1.25), (3, 1.0)):  # three grow, two fall
    (first, *_, last), bar, _ = curves[which]
    change = last - first if which in ((3, 1.5), (6, 1.25), (6, 1.0)) else first - last
    assert change > bar[0] + bar[-1]

# %% jupyter={"source_hidden": true}
fig, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.9))
colors = {1.0: (GREEN, "o"), 1.25: (BLUE, "s"), 1.5: (ORANGE, "^")}
for (T, power), (mean, bar, share_right) in curves.items():
    color, marker = colors[power]
    style = {"color": color, "marker": marker, "markerfacecolor": color if T == 3 else "white"}
    seen = mean > 0
    label = f"$n = d^{{{power:g}}}$, $T = {T}$" if power > 1 else f"$n = d$, $T = {T}$"
    left.errorbar(d[seen], mean[seen], bar[seen], linestyle="-" if T == 3 else "--", label=label, **style)
    right.plot(mean[seen], share_right[seen], linestyle="", **style)
    right.vlines(mean[seen], *wilson(np.round(300 * share_right[seen]), 300), color=color)
axis = np.geomspace(0.005, 10, 200)
right.plot(axis, np.exp(-axis), "-", color=BLACK)
right.plot(axis, 1 - axis, ":", color=BLACK)
left.set(xscale="log", yscale="log", ylim=(0.004, 12), xlabel="dimension $d$")
left.set_ylabel(r"wrong sequences a run, $n\varepsilon$")
left.set_xticks(d, [str(one) for one in d])
left.minorticks_off()
right.set(
    xscale="log",
    xlabel=r"$n\varepsilon$",
    ylabel="share of runs with none wrong",
    ylim=(-0.03, 1.03),
    xlim=(0.005, 10),
)
fig.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=10)
show(
    fig,
    alt="Left, wrong sequences a run against d from 4 to 64, both axes logarithmic. For T = 3 the curve of "
    "n = d falls, d^1.25 is level and then falls, d^1.5 rises from 0.6 to 5.7. For T = 6 n = d rises and "
    "levels off, d^1.25 rises from 0.8 to 6. Right, the share of runs with "
    "none wrong against that number: points on the curve of exp(-n epsilon), above its tangent.",
)

# %% [markdown]
# **Figure 6.** $W$, 300 runs a point, bars: 95%. Left: the mean number of wrong sequences in a run (none for
# $T = 3$, $n = d = 64$). Right: the share of runs without one. Line: $e^{-n\varepsilon}$. Dotted: the least
# possible, $1 - n\varepsilon$.
#
# **The load is no guide.** It falls along all five curves, and so does the error $\varepsilon$ of each
# sequence. But $n$ grows meanwhile, and what counts is $n\varepsilon$. For $T = 3$ it grows nearly tenfold
# under $n = d^{1.5}$. Under $n = d^{1.25}$ it falls only after $d = 32$, and under $n = d$ all the way.
#
# **Longer sequences leave room for fewer of them.** For $T = 6$ it grows under $n = d^{1.25}$, too, and even
# under $n = d$ it is higher at $d = 64$ than at $d = 4$, though no longer growing there.
#
# At all 25 points the share of runs with none wrong is within 0.06 of $e^{-n\varepsilon}$, as if the
# sequences were wrong independently of each other. For $\varepsilon$ itself we have no law.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12.9 Claims and measurements
#
# | claim | prediction | measured |
# |---|---|---|
# | every choice possible, $W$ | $d \ge T - 1$, $d^2 \ge n (T - 1)$ | proved; one row more: never at $T = 2$ |
# | random choice possible, $p$, Gaussian tokens | the law of 12.3 | within 0.06; Cover's count refused |
# | the same, tokens on the sphere | the law of 12.3 | 0.08 too low at $n = 2$, $T = 6$, $d = 2$ |
# | favoured by the first gradient | global | 38 and 11 exceptions |
# | no rival, best choice possible | global | two of 24,037 not; both are after 6,000 steps |
# | locally optimal choices, $p$ | $T^n\,\mathbb E \prod_i 1/(k_i + 1)$ | at most a third too high |
# | equal number of rivals | less than half of the gain left | so for $p$; for $W$ up to 0.7 |
# | all sequences right, $d \le 64$ | better if the load falls | not for $n = d^{1.5}$; $T = 6$: nor for $d$ |
# | the same | $e^{-n\varepsilon}$ | within 0.06 at 25 points |

# %% [markdown]
# ## Questions
#
# 900 sequences of 10 tokens. From which $d$ is every choice possible for $W$? For $p$?
# <details><summary>Answer</summary>
#
# 8,100 rows: $d \ge 90$ for $W$ ($90^2 = 8{,}100$; the theorem asks for 900), 8,100 for
# $p$.
# </details>

# %%
assert enough(900, 10) == 90, again.format("12.1")
progress("12")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# How many dimensions are enough?
#
# - To make every choice **possible**: as many parameters as rows, if $d \ge T - 1$. For half of the random
#   choices of Gaussian tokens: about $\nu_T$ parameters a sequence.
# - To **find** the best choice: possible is not enough, as runs are lost to rivals. In more dimensions more
#   tokens tie, and fewer rivals are left.
# - To be right in **all sequences at once**: $n \varepsilon$ has to fall, and a falling load is not enough.
#   From $d = 4$ to 64 it falls for $T = 3$ under $n = d^{1.25}$ and grows under $n = d^{1.5}$; for $T = 6$ it
#   grows even under $n = d$.
#
# Is it really the dimensions? Whether every choice is possible hangs on parameters against rows. What is
# found goes with the number of rivals: at an equal number of them less than half of the gain is left for
# $p$, and for $W$ perhaps two thirds.

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
# The count $d^2 \ge n(T - 1)$, the use of the formula for attention, and the reasons in 12.5 to 12.8 are
# this lesson's own: short arguments and measurements.
#
# **New in the library:** [`sweep.sweep`](../mini_attn/sweep/run.py) and
# [`sweep.wilson`](../mini_attn/sweep/shares.py).
#
# **Next:** [lesson 13](13_nonlinear_heads.ipynb): a nonlinear head may want several tokens at once.
