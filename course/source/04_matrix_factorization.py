# %% [markdown] slideshow={"slide_type": "slide"}
# # 04 · Factored weights and the nuclear norm
#
# Ten people have each seen some of ten films and told us which they liked. Fit a table $W$ to these answers
# by gradient descent, and it says nothing about the films they have not seen. Write the same table as a
# product $W = U V^\top$, change nothing else, and it fills in the blanks, mostly right.
#
# **The question: what does a product know that its entries do not?**
#
# Attention multiplies two matrices as well, keys and queries, so this is also about what will happen there.

# %% [markdown] slideshow={"slide_type": "skip"}
# **After this lesson you can**
#
# - train the two factors of a matrix by gradient descent, with gradients of your own;
# - say which table with a blank has the smallest *nuclear norm*, and when that means low rank;
# - state the max-margin problem that short factors solve, and certify an answer to it;
# - predict, from the first gradient alone, how every singular value of $W$ starts to grow;
# - predict where descent on two factors stalls, and how long it will wait there, with and without a penalty.
#
# **You need** [lesson 01](01_logistic_regression_bias.ipynb) (margin, direction, $\log t$),
# [lesson 02](02_hard_margin_svm.ipynb) (KKT conditions, certificates), and the singular value decomposition.
# About 80 minutes, six exercises.

# %%
import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure

from course.exercise import check, exercise, progress, todo
from course.figure import show
from mini_attn import plots, svm, widgets
from mini_attn.plots import COLORS

plots.style()
torch.set_num_threads(1)  # small matrices: one thread is fastest

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4.1 A table with blanks
#
# The truth, which we made up: every person and every film has two coordinates of taste, and the answer is
# $+1$ (liked) or $-1$, the sign of their inner product. About half of the answers are known. No training
# run below will ever see the rest.


# %%
def survey(seed, d=10):
    """All answers (d, d), -1 or +1, and which of them are known (d, d); neighbours have similar tastes."""
    rng = np.random.default_rng(seed)
    people, films = rng.normal(size=(d, 2)), rng.normal(size=(2, d))
    known = rng.random((d, d)) < 0.5
    rows, columns = (np.argsort(np.arctan2(c[-1], c[0])) for c in (people.T, films))
    return np.sign(people @ films)[rows][:, columns], known[rows][:, columns]


truth, known = survey(seed=0)
n, d = known.sum(), len(truth)
print(f"{n} answers are known, {(~known).sum()} are not")
assert (n, (~known).sum()) == (47, 53)

# %% [markdown] slideshow={"slide_type": "subslide"}
# The model predicts the sign of $x^\top W z$. Here $x$ and $z$ are indicators, all zeros and a single one:
# $x$ says which person, $z$ which film, and $x^\top W z$ is the entry of $W$ in their row and column. Any
# pairs of vectors will do; in attention they will be tokens and queries.
#
# As in lesson 02 we multiply by the label. Known answer $i$ gives the **signed feature matrix**
#
# $$A_i = y_i\, x_i z_i^\top, \qquad
# u_i = \langle A_i, W \rangle = \sum_{a,b} (A_i)_{ab} W_{ab} = y_i\, x_i^\top W z_i ,$$
#
# and the model is right where $u_i > 0$. The loss is the mean logistic loss of lesson 01,
# $L(W) = \frac1n \sum_i \ell(u_i)$ with $\ell(u) = \log(1 + e^{-u})$. Its negative gradient is the **pull**
#
# $$M(W) = -\nabla L(W) = \frac1n \sum_i |\ell'(u_i)|\, A_i, \qquad |\ell'(u)| = \frac{1}{1 + e^u} .$$


# %%
def features(truth, known):
    """The signed feature matrices A_i = y_i x_i z_i^T of all known answers: (n, d, d)."""
    person, film = (np.eye(len(truth))[index] for index in np.nonzero(known))
    return truth[known][:, None, None] * person[:, :, None] * film[:, None, :]


def outputs(W, A):
    """The u_i = <A_i, W>: (..., n), for W (..., d1, d2) and A (n, d1, d2)."""
    return W.reshape(*W.shape[:-2], -1) @ A.reshape(len(A), -1).T


def pull(W, A):
    """-grad L at W, the shape of W."""
    slopes = np.exp(-np.logaddexp(0, outputs(W, A)))
    return (slopes @ A.reshape(len(A), -1)).reshape(W.shape) / len(A)


A = features(truth, known)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Exercise 04.1: One step for two factors
#
# ★☆☆ · 5 minutes
#
# Now let $W = U V^\top$ with trainable $U$ of shape $(d_1, m)$ and $V$ of shape $(d_2, m)$. Given $U$, $V$
# and the pull $M = -\nabla L(W)$ at $W = U V^\top$, take one step of gradient descent of size $\eta$ on both.
# Return the new pair, and leave the old one as it is.
#
# <details><summary>Hint</summary>
#
# To first order, moving $U$ by $\delta$ moves $W$ by $\delta V^\top$ and lowers the loss by $\langle M,
# \delta V^\top \rangle$. Write this as $\langle \dots, \delta \rangle$: what stands on the left is
# $-\partial L / \partial U$. Do the same for $V$, and evaluate both at the old pair.
# </details>


# %%
@exercise("04.1")
def factor_step(U, V, M, eta):
    """The pair (U, V) after one step: shapes (d1, m), (d2, m), for M (d1, d2) and a step size eta."""
    ### BEGIN SOLUTION
    return U + eta * M @ V, V + eta * M.T @ U
    ### END SOLUTION


# %%
check("04.1", factor_step)

# %% [markdown]
# Two runs on the same loss, 2,000 steps of size one. The first trains the entries of $W$ from zero. The
# second trains the factors, ten columns each, so that every matrix is still within reach. From $U = V = 0$
# both steps would be zero for ever, so we start from $U = \beta I$, $V = 0$ with a small $\beta = 0.001$.
# Then $W$ is zero in this run too.
#
# Beside them, without training: take the table with zeros for the blanks, and keep only
# its largest singular value, or its two largest.


# %%
def descend(U, V, A, eta, times):
    """The pairs (U, V) after the given, increasing, numbers of steps."""
    kept, wanted = [], set(times)
    for t in range(1, times[-1] + 1):
        U, V = factor_step(U, V, pull(U @ V.T, A), eta)
        if t in wanted:
            kept.append((U, V))
    return kept


def truncated(table, rank):
    """The table, or several (..., d, d), with all but the largest singular values set to zero."""
    left, singular, right = np.linalg.svd(table)
    return left[..., :rank] * singular[..., None, :rank] @ right[..., :rank, :]


W_entries = np.zeros((d, d))
for _ in range(2000):
    W_entries = W_entries + pull(W_entries, A)

beta = 1e-3
times = range(5, 2001, 5)
path = np.array([U @ V.T for U, V in descend(beta * np.eye(d), np.zeros((d, d)), A, 1.0, times)])
tables = {
    "descent on entries": W_entries,
    "descent on factors": path[-1],
    "largest singular value": truncated(truth * known, 1),
    "two largest": truncated(truth * known, 2),
}
right = {name: (np.sign(W) == truth) for name, W in tables.items()}
for name, good in right.items():
    print(
        f"{name:23} right: {good[known].sum()} of {n} known, {good[~known].sum()} of {(~known).sum()} unknown"
    )
assert (W_entries[~known] == 0).all()
assert [good[known].sum() for good in right.values()] == [47, 47, 43, 46], "see exercise 04.1"
assert [good[~known].sum() for good in right.values()] == [0, 48, 45, 37], "see exercise 04.1"

# %% jupyter={"source_hidden": true} slideshow={"slide_type": "subslide"}
fig, axes = plt.subplots(1, 3, figsize=(9.2, 3.2))
pictures = {
    "known; descent on $W$": W_entries,
    "descent on $U, V$": path[-1],
    "all answers": truth,
}
for (title, W), ax in zip(pictures.items(), axes, strict=True):
    shade = ax.imshow(W / np.abs(W)[known].mean(), cmap="PuOr", vmin=-1.5, vmax=1.5)
    ax.set(title=title, xticks=[], yticks=[], xlabel="film")
axes[0].set_ylabel("person")
wrong = np.argwhere(~right["descent on factors"] & ~known)
axes[1].plot(wrong[:, 1], wrong[:, 0], "x", color=COLORS["black"], markersize=8, markeredgewidth=2)
fig.colorbar(shade, ax=axes, shrink=0.75, label="relative to a known entry")
show(
    fig,
    alt="Three tables of ten people by ten films, coloured by sign. Descent on W has 53 blank cells, those "
    "of the unknown answers; descent on U, V fills them, nearly as in the last table, which shows all "
    "answers. Crosses mark five cells where it differs.",
)

# %% [markdown]
# **Figure 1.** Positive entries are purple, negative ones orange, blank cells zero; each trained table is
# divided by the mean size of its known entries. In the second panel, crosses mark the blanks that were
# filled wrongly. Rows and columns are sorted by true taste, for the eye only.

# %% [markdown]
# Both runs get all 47 known answers right. Descent on the entries leaves the others at exactly zero: the
# loss does not contain them. Descent on the factors fills them in, and 48 of 53 are right. Nobody told it
# that there are only two tastes.
#
# Before we wonder: a single singular value gets 45, and two of them only 37. One survey says little. Here are
# 200 others, side by side.


# %%
def tables(seeds, d=10):
    """Surveys side by side: all answers, and Y, the known ones, 0 where blank; (surveys, d, d) each."""
    truths, known = (np.array(part) for part in zip(*(survey(seed, d) for seed in seeds), strict=True))
    return truths, truths * known


def filled(W, truths, Y):
    """Percentage of unknown answers with the right sign, for each survey."""
    unknown = Y == 0
    return 100 * ((np.sign(W.round(9)) == truths) & unknown).sum((1, 2)) / unknown.sum((1, 2))


def mean(values):
    """Mean and its standard error, as text."""
    return f"{values.mean():.1f} ± {values.std(ddof=1) / np.sqrt(len(values)):.1f}"


many_truths, many_Y = tables(range(1000, 1200))
U = np.tile(beta * np.eye(d), (len(many_Y), 1, 1))
V = np.zeros_like(U)
for _ in range(2000):
    M = many_Y / (1 + np.exp(many_Y * (U @ V.mT))) / (many_Y != 0).sum((1, 2))[:, None, None]
    U, V = U + M @ V, V + M.mT @ U  # your step, for all surveys at once
by_factors, by_one, by_two = (
    filled(W, many_truths, many_Y) for W in (U @ V.mT, truncated(many_Y, 1), truncated(many_Y, 2))
)
print("unknown answers right, in percent, mean over 200 surveys and its standard error:")
print(f"descent on factors {mean(by_factors)}, largest singular value {mean(by_one)}, two {mean(by_two)}")
ahead = by_factors - by_two
print(f"survey by survey, factors are ahead of two by {mean(ahead)}")
assert np.allclose([by_factors.mean(), by_one.mean(), by_two.mean()], [81.6, 73.7, 77.7], atol=0.1)
assert 5 < ahead.mean() / ahead.std(ddof=1) * np.sqrt(len(ahead)) < 12

# %% [markdown]
# So 48 of 53 was luck: at the mean share of 82 percent it would have been 43. Descent on factors is better
# than either shortcut, and the question of this lesson is sharper: *why* do factors bring about a low rank,
# *which* table do they choose, and do they get there?

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4.2 Another idea of small
#
# Every matrix can be written $W = \sum_k \sigma_k\, \xi_k \zeta_k^\top$, with orthonormal $\xi_k$,
# orthonormal $\zeta_k$, and **singular values** $\sigma_1 \ge \sigma_2 \ge \dots \ge 0$. Their number above
# zero is the rank. Three norms of a matrix are norms of this list:
#
# | norm | | of the singular values |
# |:---|:---|:---|
# | Frobenius | $\lVert W \rVert_F = \sqrt{\sum_k \sigma_k^2} = \sqrt{\sum_{ab} W_{ab}^2}$ | their length |
# | nuclear | $\lVert W \rVert_* = \sum_k \sigma_k$ | the sum |
# | spectral | $\lVert W \rVert_{\mathrm{op}} = \sigma_1$ | the largest |
#
# The spectral norm is also the largest value of $\xi^\top W \zeta$ over vectors $\xi$, $\zeta$ of length one.
# In numpy, `np.linalg.norm(W, "nuc")` is the nuclear norm and `np.linalg.norm(W, 2)` the spectral one.
#
# The smallest survey can be worked out by hand: two people, two films, one blank $w$. As $\sigma_1^2 +
# \sigma_2^2 = \lVert W \rVert_F^2$ and $\sigma_1 \sigma_2 = |\det W|$,
#
# $$W = \begin{pmatrix} a & b \\ e & w \end{pmatrix}, \qquad
# \lVert W \rVert_*^2 = (\sigma_1 + \sigma_2)^2 = a^2 + b^2 + e^2 + w^2 + 2\, \lvert aw - be \rvert .$$

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 04.2: The best blank
#
# ★★☆ · 8 minutes
#
# Which $w$ makes the nuclear norm smallest? Here $a \ne 0$; $b$ and $e$ are any numbers. A formula is wanted,
# correct to many digits, not a search. Before you begin, guess: is it always the $w$ that makes the rank one?
#
# <details><summary>Hint</summary>
#
# The function has a kink at $w_0 = be/a$. Left and right of it, it is a parabola in $w$. Where would the two
# parabolas have their minima, and when is such a minimum on its own side of the kink? By convexity, there is
# no other place to look.
# </details>


# %%
@exercise("04.2")
def best_blank(a, b, e):
    """The w for which [[a, b], [e, w]] has the smallest nuclear norm: a number."""
    ### BEGIN SOLUTION
    return a * np.clip(b * e / a**2, -1, 1)
    ### END SOLUTION


# %%
check("04.2", best_blank)

# %%
corner = np.linspace(-1, 7, 801)
surveys = {"2, 1, 1": (2.0, 1.0, 1.0), "1, 2, 3": (1.0, 2.0, 3.0)}
norms = {}
for name, (a, b, e) in surveys.items():
    candidates = np.array([[[a, b], [e, w]] for w in corner])
    frobenius, nuclear = (np.linalg.norm(candidates, kind, axis=(1, 2)) for kind in ("fro", "nuc"))
    norms[name] = frobenius, nuclear
    w = best_blank(a, b, e)
    rank = np.linalg.matrix_rank([[a, b], [e, w]])
    lowest = corner[frobenius.argmin()], corner[nuclear.argmin()]
    print(f"{name}, w: Frobenius smallest at w = {lowest[0]:.0f}, nuclear at {lowest[1]:.1f}, of rank {rank}")
    assert np.allclose(lowest, [0, 0.5 if name == "2, 1, 1" else 1])
    assert np.isclose(w, lowest[1]), "see exercise 04.2"
    assert rank == (1 if name == "2, 1, 1" else 2)
    slopes = np.diff(nuclear)[nuclear.argmin() - 1 : nuclear.argmin() + 1] / 0.01
    assert (slopes[1] - slopes[0] > 0.5) == (rank == 1)  # a kink is where the slope jumps

# %% jupyter={"source_hidden": true} slideshow={"slide_type": "fragment"}
fig, axes = plt.subplots(1, 2, figsize=(8.2, 2.9))
for (name, values), reach, ax in zip(norms.items(), (3, 7), axes, strict=True):
    near = corner <= reach
    lines = ("Frobenius", "o", "blue"), ("nuclear", "s", "vermillion")
    for value, (label, marker, color) in zip(values, lines, strict=True):
        ax.plot(corner[near], value[near], color=COLORS[color], label=label)
        ax.plot(corner[value.argmin()], value.min(), marker, markersize=9, color=COLORS[color])
    a, b, e = surveys[name]
    ax.axvline(b * e / a, color=COLORS["black"], linestyle=":", linewidth=1.6)
    ax.set(title=f"answers {name}", xlabel="the blank, $w$", ylabel="norm of the table")
axes[0].legend()
show(
    fig,
    alt="Two panels with curves against w. Left: the Frobenius norm is a smooth bowl with its minimum at 0, "
    "the nuclear norm has a kink at w = 1/2, which is its minimum. Right: the kink of the nuclear norm is at "
    "w = 6, marked by a dotted line, and its minimum at w = 1, far to the left of it.",
)

# %% [markdown]
# **Figure 2.** The norms of a table with blank $w$; marks at the minima, dotted where the rank is one.

# %% [markdown]
# The Frobenius norm is smallest at $w = 0$: no opinion. For the answers 2, 1, 1 the nuclear norm is smallest
# where one row is a multiple of the other and the rank falls to one: a sum of singular values, like the sum
# of absolute values in the $\ell_1$ norm, has kinks where some of them vanish, and minima like to sit in
# kinks. They need not. For 1, 2, 3 rank one would cost a 6 in the corner, and the nuclear norm settles for
# rank two. **A small nuclear norm leans towards low rank; it is not the same as low rank.**

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4.3 Short factors, small nuclear norm
#
# Say that a pair $(U, V)$ has the **cost** $\frac12 (\lVert U \rVert_F^2 + \lVert V \rVert_F^2)$: what an
# $\ell_2$ penalty (weight decay) charges.
#
# > **Theorem** (Srebro, Rennie & Jaakkola 2005). *Let $U$ and $V$ have $m \ge \operatorname{rank} W$ columns.
# > Then*
# >
# > $$\lVert W \rVert_* = \min_{U V^\top = W}
# > \tfrac12 \left( \lVert U \rVert_F^2 + \lVert V \rVert_F^2 \right).$$

# %% [markdown]
# **Proof**, in three lines. Let $U_k$, $V_k$ be the columns of any pair with $U V^\top = \sum_k U_k V_k^\top
# = W$. Let $\Xi$ and $Z$ have the $\xi_k$ and $\zeta_k$ with $\sigma_k > 0$ as columns; then $\lVert \Xi
# Z^\top \rVert_{\mathrm{op}} \le 1$, and
#
# $$\begin{aligned}
# \lVert W \rVert_* = \textstyle\sum_k \sigma_k = \langle \Xi Z^\top, W \rangle
# &= \textstyle\sum_k U_k^\top\, \Xi Z^\top\, V_k \\
# &\le \textstyle\sum_k \lVert U_k \rVert\, \lVert V_k \rVert \\
# &\le \textstyle\sum_k \tfrac12 \left( \lVert U_k \rVert^2 + \lVert V_k \rVert^2 \right).
# \end{aligned}$$
#
# The columns $U_k = \sqrt{\sigma_k}\, \xi_k$ and $V_k = \sqrt{\sigma_k}\, \zeta_k$ turn both inequalities
# into equalities. $\square$

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 04.3: Unequal penalties
#
# ★★☆ · 7 minutes
#
# Keys and queries often get different weight decay. Let a pair be charged $\frac12 (\varepsilon_U \lVert U
# \rVert_F^2 + \varepsilon_V \lVert V \rVert_F^2)$, with both numbers positive. Which norm of $W$ is this
# now? Guess before you derive: the mean of the two penalties, the smaller one, ...? For given $U$, $V$ and
# penalties return
#
# 1. the lowest charge that rescaling can approach: column $U_k$ times $\tau_k > 0$, column $V_k$ divided by
#    it, each with its own $\tau_k$;
# 2. the lowest charge of any pair with the same product;
# 3. the ratio $\lVert U \rVert_F / \lVert V \rVert_F$ in a pair of lowest charge.
#
# Single columns of zeros may occur; the product is not zero.
#
# <details><summary>Hint</summary>
#
# One column costs $\frac12 (\varepsilon_U \tau^2 \lVert U_k \rVert^2 + \varepsilon_V \lVert V_k \rVert^2 /
# \tau^2)$. Minimise over $\tau$ on paper; the minimum needs no $\tau$, and so no division.
# For the second number put the penalties into the last line of the proof.
# </details>


# %%
@exercise("04.3")
def charges(U, V, eps_U, eps_V):
    """(columns rescaled, any pair, ratio): three numbers, for U (d1, m), V (d2, m) and two penalties."""
    ### BEGIN SOLUTION
    price = np.sqrt(eps_U * eps_V)
    rescaled = price * (np.linalg.norm(U, axis=0) @ np.linalg.norm(V, axis=0))
    return rescaled, price * np.linalg.norm(U @ V.T, "nuc"), np.sqrt(eps_V / eps_U)
    ### END SOLUTION


# %%
check("04.3", charges)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4.4 The margin that belongs to a product
#
# Lesson 01: descent on $W$ finds the direction of the shortest $W$ with all $\langle A_i, W \rangle \ge 1$.
# Ask for the *cheapest pair* with all $\langle A_i, U V^\top \rangle \ge 1$ instead, and the theorem
# translates:
#
# $$\min_{U, V}\ \tfrac12 \left( \lVert U \rVert_F^2 + \lVert V \rVert_F^2 \right) \ \text{ s.t. }
# \langle A_i, U V^\top \rangle \ge 1
# \qquad = \qquad
# \min_W\ \lVert W \rVert_* \ \text{ s.t. } \langle A_i, W \rangle \ge 1 , \tag{N}$$
#
# if $m$ is at least the rank of a solution on the right. On the left the problem is not convex; on the right
# it is. Its solution is $W_{\mathrm{nuc}}$; with the Frobenius norm, as in lesson 02, it is
# $W_{\mathrm{fro}}$. The **nuclear margin** of a matrix, and the largest one, are
#
# $$\mu(W) = \min_i \frac{\langle A_i, W \rangle}{\lVert W \rVert_*}, \qquad
# \hat\mu = \max_{W \ne 0} \mu(W) = \frac{1}{\lVert W_{\mathrm{nuc}} \rVert_*}$$
#
# (scale $W$ until its smallest $\langle A_i, W \rangle$ is 1). The certificate of lesson 02 carries over with
# one change. For weights $\lambda_i \ge 0$, not all zero, $S = \sum_i \lambda_i A_i$ and every $W$,
#
# $$\mu(W) \le \frac{\sum_i \lambda_i \langle A_i, W \rangle}{\lVert W \rVert_* \sum_i \lambda_i}
# = \frac{\langle S, W \rangle}{\lVert W \rVert_* \sum_i \lambda_i}
# \le \frac{\lVert S \rVert_{\mathrm{op}}}{\sum_i \lambda_i} =: B(\lambda) .$$
#
# The last step replaces Cauchy-Schwarz: with the singular vectors of $W$, $\langle S, W \rangle = \sum_k
# \sigma_k\, \xi_k^\top S\, \zeta_k \le \lVert S \rVert_{\mathrm{op}} \lVert W \rVert_*$. The nuclear and the
# spectral norm are *dual* to each other, as the Euclidean norm is to itself.


# %%
def certify(W, lam, A):
    """(mu(W), B(lam)), which enclose the largest margin: for W (d1, d2), weights lam (n,), A (n, d1, d2)."""
    lower = np.tensordot(A, W).min() / np.linalg.norm(W, "nuc")
    return lower, np.linalg.norm(np.tensordot(lam, A, 1), 2) / lam.sum()


# %% [markdown]
# The library keeps each $A_i = a_i b_i^\top$ as its two vectors, and `svm.solve` takes the norm by name, one
# problem or many. A blank becomes $a_i = 0$, asked for at least 0, which asks nothing.


# %% slideshow={"slide_type": "subslide"}
def solve(Y, norm="nuc"):
    """The max-margin problem of tables Y (..., d, d), its solution in a norm, and lam, the shape of Y."""
    size = Y.shape[-1]
    a = (Y[..., None] * np.eye(size)[:, None, :]).reshape(*Y.shape[:-2], size**2, size)
    b = np.broadcast_to(np.tile(np.eye(size), (size, 1)), a.shape).copy()
    least = np.abs(Y).reshape(a.shape[:-1])
    problem = svm.HardMarginProblem(torch.tensor(a), torch.tensor(b), torch.tensor(least))
    solution = svm.solve(problem, norm=norm)
    return problem, solution, solution.dual.numpy().reshape(Y.shape)


def cosine(a, b):
    return (a * b).sum((-2, -1)) / np.linalg.norm(a, axis=(-2, -1)) / np.linalg.norm(b, axis=(-2, -1))


Y = truth * known
problem, solution, lam = solve(Y)
W_nuc = solution.value.numpy()
W_fro = solve(Y, "fro")[1].value.numpy()
lower, upper = certify(W_nuc, lam[known], A)

print(f"{'':6}Frobenius norm   nuclear norm   rank")
for name, W in (("W_fro", W_fro), ("W_nuc", W_nuc)):
    rank = np.linalg.matrix_rank(W, tol=1e-6)
    print(f"{name} {np.linalg.norm(W):12.3f} {np.linalg.norm(W, 'nuc'):15.3f} {rank:10d}")
print(f"cosine between the two {cosine(W_fro, W_nuc):.3f}")
print(f"largest nuclear margin, proved: {lower:.6f} to {upper:.6f}")
agree = (np.sign(W_nuc) == truth)[~known].sum()
differ = (np.sign(W_nuc) != np.sign(path[-1])).sum()
print(f"W_nuc has {agree} unknown answers right; its signs and those of the run differ in {differ}")
assert np.allclose(W_fro, Y, atol=1e-6)
assert np.isclose(cosine(W_entries, W_fro), 1)
bound_on_rank = svm.certified_rank(problem, solution).item()
assert (bound_on_rank, np.linalg.matrix_rank(W_nuc, tol=1e-6), agree) == (3, 3, 48)
assert differ == 2, "see exercise 04.1"
assert np.isclose(cosine(W_fro, W_nuc), 0.760, atol=5e-4)
assert -1e-9 <= 1 - lower / upper < 1e-6

# %% [markdown]
# $W_{\mathrm{fro}}$ is the table of known answers itself, zeros and all, and it is the direction of descent
# on the entries. (Here from the first step on: indicators make the $A_i$ orthonormal, so every entry goes
# its own way, and all at one speed.) $W_{\mathrm{nuc}}$ has rank 3 and 48 unknown answers right, as many as
# our run, though not quite the same ones. Here is its score on the 200 surveys of section 4.1,
# and the solutions of twenty more surveys, which we shall meet again.

# %%
truths, Ys = tables(range(100, 120))
twenty, best, lams = solve(Ys)
W_nucs, margins = best.value.numpy(), best.margin.numpy()
many_nuc = solve(many_Y)[1].value.numpy()
by_nuc = filled(many_nuc, many_truths, many_Y)
ahead = by_factors - by_nuc
print(f"unknown answers right: W_nuc {mean(by_nuc)} percent; descent on factors is ahead by {mean(ahead)}")
assert np.isclose(by_nuc.mean(), 80.1, atol=0.1)
assert 3 < ahead.mean() / ahead.std(ddof=1) * np.sqrt(200) < 5

# %% [markdown]
# After 2,000 steps descent on factors fills blanks a little better. So $W_{\mathrm{nuc}}$ is not where it was
# going?

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4.5 One solution, or many? *(optional)*
#
# A nuclear norm has flat pieces, so (N) may have many solutions, of several ranks. The weights tell. Let
# $\mu(W) = B(\lambda)$, and scale $\lambda$ so that $\lVert S \rVert_{\mathrm{op}} = 1$. Then no inequality
# above may lose anything. The last one loses nothing only if $\xi_k^\top S\, \zeta_k = 1$ wherever $\sigma_k
# > 0$: $W$ lives on the singular vectors of $S$ with value 1. Put these into the columns of $\Xi$ and $Z$,
# say $r$ each: **every** solution is
#
# $$W = \Xi H Z^\top, \qquad H \text{ symmetric, of size } r \times r, \text{ with no negative eigenvalue,}$$
#
# and so $r$ bounds its rank: `svm.certified_rank` counts. The first inequality loses nothing only if every
# answer with $\lambda_i > 0$ has the smallest $\langle A_i, W \rangle$, which is 1. How much freedom do
# these equations leave to $H$?

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 04.4: How free is H?
#
# ★★★ · 12 minutes
#
# You are given the weights $\lambda \ge 0$ of a solution, scaled so that $\lVert S \rVert_{\mathrm{op}} =
# 1$, and the $A_i$. Return
#
# 1. the number $r$ of singular values of $S$ that are 1 (above 0.9999);
# 2. the number of linearly independent symmetric $H$ that can be added to a solution's without changing any
#    $\langle A_i, W \rangle$ whose $\lambda_i$ is positive. Zero proves that there is one solution only.
#
# Values below $10^{-4}$ count as zero when a rank is taken: `np.linalg.matrix_rank(..., tol=1e-4)`.
#
# <details><summary>Hint: which equations?</summary>
#
# $\langle A_i, \Xi H Z^\top \rangle = \langle \Xi^\top A_i Z, H \rangle$. A symmetric $H$ does not notice
# all of the matrix on the left of it.
# </details>
#
# <details><summary>Hint: how many unknowns?</summary>
#
# A symmetric $r \times r$ matrix has $r (r + 1) / 2$ free entries. Each *independent* equation takes one
# away.
# </details>


# %%
@exercise("04.4")
def freedom(lam, A):
    """(r, number of free directions): two whole numbers, for weights lam (n,) and matrices A (n, d1, d2)."""
    ### BEGIN SOLUTION
    left, values, right = np.linalg.svd(np.tensordot(lam, A, 1))
    r = (values > 0.9999).sum()
    seen = left[:, :r].T @ A[lam > 0] @ right[:r].T
    equations = (seen + seen.transpose(0, 2, 1)).reshape(-1, r * r)
    return r, r * (r + 1) // 2 - np.linalg.matrix_rank(equations, tol=1e-4)
    ### END SOLUTION


# %%
check("04.4", freedom)

# %%
counts = []
for table, weights in zip([Y, *Ys], [lam, *lams], strict=True):
    positive = np.where(weights > 1e-6 * weights.max(), weights, 0)[table != 0]
    counts.append(freedom(positive, features(np.sign(table), table != 0)))
ranks, free = np.array(counts, dtype=int).T
for one in np.flatnonzero(free)[:2] - 1:  # may H, and the answers without weight, move both ways?
    left, _, right = np.linalg.svd(lams[one] * Ys[one])
    H = left[:, : ranks[one + 1]].T @ W_nucs[one] @ right[: ranks[one + 1]].T
    loose = (lams[one] <= 1e-6 * lams[one].max()) & (Ys[one] != 0)
    slack = (Ys[one] * W_nucs[one])[loose].min() - 1
    print(f"survey {100 + one}: least eigenvalue of H {np.linalg.eigvalsh(H).min():.4f}, slack {slack:.3f}")
    assert min(np.linalg.eigvalsh(H).min(), slack) > 0.003, "see exercise 04.4"
print("rank of W_nuc at most:", *ranks, "; free directions:", *free)
assert ranks[0] == bound_on_rank, "see exercise 04.4"
assert (ranks[1:] == svm.certified_rank(twenty, best).numpy()).all(), "see exercise 04.4"
assert np.flatnonzero(free).tolist() == [6, 13], "see exercise 04.4"

# %% [markdown]
# On our survey and on 18 of the twenty others $W_{\mathrm{nuc}}$ is the only solution. Two, 105 and 112,
# leave three and two free directions. There $H$ can move, as all its eigenvalues are positive and all answers
# without weight are above 1: $W_{\mathrm{nuc}}$ is one of several, and we keep the one that `svm.solve`
# returned.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4.6 A race
#
# Descent penalises nothing. Why should it care for the cost of the factors? While $W$ is so small that every
# $|\ell'(u_i)| \approx \frac12$, the pull is a constant matrix, with singular values and vectors of its own:
#
# $$M_0 = \frac{1}{2n} \sum_i A_i = \sum_k \bar\sigma_k\, \bar\xi_k \bar\zeta_k^\top .$$
#
# Descent on the entries adds $\eta M_0$ at each step: all singular values grow in fixed proportions. From
# $U = \beta I$, $V = 0$ the steps $U + \eta M_0 V$ and $V + \eta M_0^\top U$ keep the form
#
# $$U_t = \sum_k a_k\, \bar\xi_k \bar\xi_k^\top, \quad V_t = \sum_k b_k\, \bar\zeta_k \bar\xi_k^\top, \quad
# W_t = \sum_k a_k b_k\, \bar\xi_k \bar\zeta_k^\top,$$
#
# and each pair of numbers goes its own way, from $a_k = \beta$ and $b_k = 0$:
#
# $$a_k \to a_k + \eta \bar\sigma_k b_k, \qquad b_k \to b_k + \eta \bar\sigma_k a_k .$$
#
# A direction with larger $\bar\sigma_k$ grows at a higher rate, and exponentially: small differences in
# $\bar\sigma_k$ become large ones in $W$.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 04.5: The start of the race
#
# ★★☆ · 10 minutes
#
# The pull $M$ is constant, and descent starts from $U = \beta I$, $V = 0$. Return
#
# 1. the singular values of $W_t$ after $t$ steps, in decreasing order;
# 2. how far behind the second is when the first arrives: the share $\sigma_2 / \sigma_1$ when $\sigma_1 = 1$.
#    For this number leave out the terms that shrink, and let the moment be any number, not only a whole one.
#    (As $\beta < 2$, $\sigma_1$ has still to grow.)
#
# Guess first: does a smaller start change this share, or only delay everybody?
#
# <details><summary>Hint</summary>
#
# The sum $a_k + b_k$ is multiplied by $1 + \eta \bar\sigma_k$ at each step. What happens to the difference?
# And $4ab = (a + b)^2 - (a - b)^2$. Late the difference counts for nothing.
# </details>


# %%
@exercise("04.5")
def race(M, beta, eta, t):
    """(singular values of W_t, share of the second at sigma_1 = 1): (d,) and a number, for M (d, d)."""
    ### BEGIN SOLUTION
    first = np.linalg.svd(M, compute_uv=False)
    values = beta**2 / 4 * ((1 + eta * first) ** (2 * t) - (1 - eta * first) ** (2 * t))
    slower = np.log1p(eta * first[1]) / np.log1p(eta * first[0])
    return values, (beta / 2) ** (2 - 2 * slower)
    ### END SOLUTION


# %%
check("04.5", race)

# %%
singular = np.linalg.svd(path, compute_uv=False)
M0, at = pull(np.zeros((d, d)), A), {t: k for k, t in enumerate(times)}
shown = np.arange(5, 601, 5)
predicted = np.array([race(M0, beta, 1.0, int(t))[0] for t in shown])
early = shown <= 100
errors = np.abs(singular[: len(shown)][early, :4] / predicted[early, :4] - 1)
print(f"up to step 100: within {100 * errors.max():.2f} percent of the prediction")
arrivals = [
    [int(np.interp(0, np.log(s[:, k]), shown)) for k in (0, 1)] for s in (singular[: len(shown)], predicted)
]
print("sigma_1, sigma_2 reach 1 at about step", *arrivals[0], "(predicted:", *arrivals[1], end=")\n")
stages = {}
for t in (5, 150, 300, 600, 2000):
    share, fit = singular[at[t], 1:3] / singular[at[t], 0], ((np.sign(path[at[t]]) == truth) & known).sum()
    stages[t] = fit
    print(
        f"step {t:5}: sigma_2 / sigma_1 {share[0]:.3f}, sigma_3 / sigma_1 {share[1]:.3f}, {fit} known right, "
        f"cosine to W_nuc {cosine(path[at[t]], W_nuc):.2f}"
    )
assert 4e-4 < errors.max() < 5e-4, "see exercises 04.1 and 04.5"
assert np.allclose(arrivals, [[152, 270], [151, 238]], atol=1), "see exercises 04.1 and 04.5"
assert [stages[t] for t in (5, 150, 600, 2000)] == [47, 43, 47, 47], "see exercise 04.1"
assert (np.sign(path[at[150]]) == np.sign(truncated(Y, 1)))[known].all(), "see exercise 04.1"  # the same 43
assert singular[at[150], 1] < 0.05 * singular[at[150], 0], "see exercise 04.1"
assert all(singular[at[t], 2] < 0.015 * singular[at[t], 0] for t in (600, 2000)), "see exercise 04.1"
assert all(0.935 < cosine(path[at[t]], W_nuc) < 0.945 for t in (600, 2000)), "see exercise 04.1"

# %%
for start in (1e-2, 1e-3, 1e-4):
    run = descend(start * np.eye(d), np.zeros((d, d)), A, 1.0, range(1, 221))
    first, second = np.linalg.svd([U @ V.T for U, V in run], compute_uv=False)[:, :2].T
    found, forecast = np.exp(np.interp(0, np.log(first), np.log(second / first))), race(M0, start, 1.0, 1)[1]
    print(f"start {start:.0e}: at sigma_1 = 1 the share of sigma_2 is {found:.5f}, predicted {forecast:.5f}")
    assert 0.95 < forecast / found < 1, "see exercises 04.1 and 04.5"

# %% jupyter={"source_hidden": true} slideshow={"slide_type": "subslide"}
fig, (left_ax, right_ax) = plt.subplots(1, 2, figsize=(7.8, 3.0), width_ratios=(1.25, 1))
first = len(shown)
for k, color in enumerate(("blue", "vermillion", "green")):
    label = rf"$\sigma_{k + 1}$"
    left_ax.plot(shown, singular[:first, k], color=COLORS[color], linewidth=3.5, alpha=0.8, label=label)
    label = "predicted by race" if k == 2 else None
    left_ax.plot(shown, predicted[:, k], "--", color=COLORS["black"], linewidth=1.3, label=label)
left_ax.set(yscale="log", ylim=(1e-8, 1e3), ylabel="singular values of $W_t$", xlabel="step $t$")
left_ax.legend(loc="lower right", fontsize=10)
for target, name, line in ((W_fro, "fro", "--"), (W_nuc, "nuc", "-")):
    label = rf"to $W_{{\mathrm{{{name}}}}}$"
    right_ax.plot(shown, cosine(path[:first], target), line, color=COLORS["black"], label=label)
right_ax.set(xlabel="step $t$", ylabel="cosine of $W_t$", ylim=(0.6, 1.02))
right_ax.legend(loc="center right")
show(
    fig,
    alt="Two panels against steps, to 600. Left, logarithmic: three singular values rise along dashed lines, "
    "the first until it levels off near step 200, the second near step 300; the third falls far behind its "
    "line and levels off at a hundredth of the first. Right: the cosine to W_fro starts at 1 and falls to "
    "0.73; that to W_nuc rises, dips and stays at 0.94.",
)

# %% [markdown]
# **Figure 3.** Descent on the factors from $\beta = 0.001$, step size 1. Left: singular values, and `race`
# (dashed). Right: the direction of $W_t$.

# %% [markdown]
# Until step 100 measurement and prediction agree to 0.04 percent. The first singular value also arrives, say
# at size 1, when $M_0$ says. For the second $M_0$ is too early, with step 238 instead of 270: by then the
# first has changed the pull. And a small start does more than delay: the share of the second, when the first
# arrives, is a *power* of $\beta$. On our survey: ten times smaller, five times greedier.

# %% [markdown]
# At first the growth is additive, and $W_t$ points along $W_{\mathrm{fro}}$, with all known answers right,
# if barely. Then it becomes exponential, and the largest $\bar\sigma_k$ wins: at step 150 the rank is
# practically one. That direction is the largest singular value of the table itself, and gets the same 43 of
# the 47 known answers right (4.1). Their slopes $|\ell'(u_i)|$ drop, and the pull turns to what is still
# wrong. Now the second singular value comes up, and all 47 are right. **Descent on factors is greedy**: one
# direction at a time, and the next one from what the last ones left wrong.
#
# With two directions nothing is left wrong. The third comes to a halt at one percent of the first, the
# cosine to $W_{\mathrm{nuc}}$ at 0.94, and there it still is at step 2,000. Is this run merely slow?

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4.7 The stall
#
# Where can the run end? There is a theorem, and it leaves a gap.
#
# > **Theorem** (Lyu & Li 2020, Ji & Telgarsky 2020, informally). *Follow gradient flow (descent with
# > infinitely small steps) on the logistic loss of $\langle A_i, U V^\top \rangle$. If it ever reaches $L <
# > \frac1n \log 2$ (then every answer is right), then $L \to 0$, and the direction of $(U, V)$ converges to
# > that of a KKT point of the problem on the left of (N): the cheapest pair with all $\langle A_i, U V^\top
# > \rangle \ge 1$.*
#
# A **KKT point** satisfies the conditions of lesson 02: all $\langle A_i, U V^\top \rangle \ge 1$, and there
# are $\lambda_i \ge 0$, positive only where $\langle A_i, U V^\top \rangle = 1$, such that
#
# $$U = S V, \qquad V = S^\top U, \qquad S = \sum_i \lambda_i A_i .$$
#
# The problem is not convex, so a KKT point need not be the best. How good it is can be read from $S$. Take
# the inner product of $U = SV$ with $U$, and of $V = S^\top U$ with $V$: both squared lengths, and so the
# cost, equal $\langle S, U V^\top \rangle = \sum_i \lambda_i \langle A_i, U V^\top \rangle = \sum_i
# \lambda_i$. The cost is never below $\lVert U V^\top \rVert_*$, and the smallest $\langle A_i, U V^\top
# \rangle$ is 1. Hence
#
# $$\mu(U V^\top) \ge \frac{1}{\sum_i \lambda_i}, \qquad
# B(\lambda) = \frac{\lVert S \rVert_{\mathrm{op}}}{\sum_i \lambda_i}, \qquad
# \frac{\mu(U V^\top)}{\hat\mu} \ge \frac{1}{\lVert S \rVert_{\mathrm{op}}} .$$
#
# - **If $\lVert S \rVert_{\mathrm{op}} = 1$**, the point is a solution of (N), proved. (Below 1 it cannot be:
#   from $U = S S^\top U$, the columns of $U$ lie where the singular values of $S$ are exactly 1. That is how
#   `svm.certified_rank` counts.)
# - **If $c = \lVert S \rVert_{\mathrm{op}} > 1$**, the factor $1/c$ is all that is proved, and the rank may
#   be too low: the leading direction of $S$ is missing from $W$. The theorem allows a run to end here. Will
#   it?

# %% [markdown] slideshow={"slide_type": "subslide"}
# **The law.** Let the pair $(U, V)$ keep its direction, up to its length a KKT point. Then the pull is $M =
# b S$ with a number $b > 0$ that shrinks with the loss. The **live** directions, those of $W$, obey $U' = M
# V = b U$ and $V' = b V$ (a prime is the change per unit of time): they grow at the rate $b$. Now put a
# **newcomer** into a column that is still free: $\varepsilon_1 \xi$ into $U$ and $\varepsilon_2 \zeta$ into
# $V$, along singular vectors of $S$ with singular value $c$, so small that no $u_i$ notices. Then
#
# $$\varepsilon_1' = b c\, \varepsilon_2, \qquad \varepsilon_2' = b c\, \varepsilon_1 :$$
#
# $\varepsilon_1 + \varepsilon_2$ grows at the rate $b c$, and the difference fades. In $W$ there are
# products of two factors, so the live singular values grow at the rate $2b$, the newcomer at $2bc$, whatever
# $b$ does:
#
# $$\boxed{\ \sigma_{\mathrm{new}} \propto \sigma_1^{\,c}\ } \qquad \text{and its share} \qquad
# \frac{\sigma_{\mathrm{new}}}{\sigma_1} \propto \sigma_1^{\,c - 1} ,$$
#
# as long as the live pair keeps a KKT direction and the newcomer, with a free column, is well above its start
# (there the difference still counts) and tiny beside $\sigma_1$.
#
# If $c > 1$ the share grows, and a run that has anything, however little, in the leading direction leaves
# such a KKT point. But it grows like a power of $\sigma_1$, and $\sigma_1$ itself only like $\log t$, as
# weights did in lesson 01. So it matters how far behind the newcomer is when the answers are right.
#
# To see this we must get very far, in steps that follow the flow: no step turns
# the pair by more than 2 percent of its length, nor moves any $u_i$ by more than about 0.4. Many surveys and
# starts run side by side, until every $u_i$ is at least $k \log 10$: the loss is then at most $10^{-k}$.


# %%
def begin(starts, Y):
    """U = start I and V = 0, for each start and each table of Y (..., d, d): (starts, ..., d, d) each."""
    U = np.multiply.outer(starts, np.broadcast_to(np.eye(Y.shape[-1]), Y.shape))
    return U, np.zeros_like(U)


def far(W, Y):
    """The pull on tables Y, divided by its largest slope so that it never underflows; the least u."""
    u = np.where(Y == 0, np.inf, Y * W)
    log_slopes = -np.logaddexp(0, u)
    return Y * np.exp(log_slopes - log_slopes.max((-2, -1), keepdims=True)), u.min((-2, -1))


def follow(U, V, Y, digits):
    """W when the loss is first below 10^-digits, (digits, ..., d, d), and the number of steps until then."""
    kept = np.full((len(digits), *U.shape), np.nan)
    steps = np.zeros(kept.shape[:-2], dtype=int)
    levels = np.log(10) * np.reshape(digits, (-1, *[1] * (U.ndim - 2)))
    t = 0
    while (steps == 0).any():
        W = U @ V.mT
        M, least = far(W, Y)
        new = (steps == 0) & (least >= levels)
        if new.any():
            kept[new], steps[new] = np.broadcast_to(W, kept.shape)[new], t
        gU, gV = M @ V, M.mT @ U  # your step, for all runs at once
        speed = np.abs(Y * (gU @ V.mT + U @ gV.mT)).max((-2, -1))
        size, length = (np.sqrt((a**2 + b**2).sum((-2, -1))) for a, b in ((U, V), (gU, gV)))
        step = np.minimum(0.02 * size / length, 0.4 / speed)[..., None, None]
        U, V, t = U + step * gU, V + step * gV, t + 1
    return kept, steps


def spectrum(W, Y):
    """Singular values of S: the pull, scaled so that <S, W> = ||W||_*. The first is c."""
    M, _ = far(W, Y)
    scale = np.linalg.norm(W, "nuc", axis=(-2, -1)) / (M * W).sum((-2, -1))
    return scale[..., None] * np.linalg.svd(M, compute_uv=False)


def nuclear_share(W, Y, largest):
    """mu(W) as a share of the largest nuclear margin."""
    return far(W, Y)[1] / np.linalg.norm(W, "nuc", axis=(-2, -1)) / largest


early, late = follow(*begin(1e-6, Y), Y, [30, 300])[0]
sizes = np.linalg.svd(np.array([early, late]), compute_uv=False)
growth = np.log(sizes[1] / sizes[0])[:4]
powers, share = spectrum(late, Y), nuclear_share(late, Y, solution.margin.item())
print("shares of sigma_1 at loss 1e-300:", *(f"{value:.1e}" for value in sizes[1, 1:4] / sizes[1, 0]))
print("grow like sigma_1 to the power:  ", *(f"{value:.2f}" for value in growth / growth[0]))
print("singular values of S:            ", *(f"{value:.2f}" for value in powers[:4]))
print(f"share of the largest nuclear margin: {share:.3f}, proved by S alone: {1 / powers[0]:.3f}")
assert np.allclose(growth / growth[0], [1, 1, 2.01, 1.25], atol=0.02)
assert np.allclose(powers[:4], [2.01, 1.24, 1, 1], atol=0.02)
assert (sizes[1, 2:] < 0.01 * sizes[1, 0]).all()
assert 0.88 < share < 0.89

# %% [markdown]
# At a loss of $10^{-300}$ the rank is still two. The two live directions have singular value 1 in $S$, and
# for each of two newcomers the power is the one that $S$ predicts: 2.01 for the third,
# 1.25 for the fourth.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Twenty surveys: the share at the fit decides
#
# From each of two starts we note the share of the third singular value at a loss
# of $10^{-4}$, when the answers are safely right, and then far out.

# %%
levels = (4, 10, 100)
ends = follow(*begin([1e-3, 1e-8], Ys), Ys, levels)[0]
sizes, powers = np.linalg.svd(ends, compute_uv=False), spectrum(ends, Ys)
thirds, c = sizes[..., 2] / sizes[..., 0], powers[..., 0]
promised = thirds[1] * (sizes[2, ..., 0] / sizes[1, ..., 0]) ** (c[1] - 1)  # the law, from 1e-10 to 1e-100
small = promised < 0.05
ratios = thirds[2] / promised
visible = (thirds > 0.01).sum(axis=2)
print("         third above 1 percent, of 20, at           forecast below 5 percent         the rest:")
print("start    1e-4   1e-10   1e-100   c at 1e-10     runs   share / forecast (median)   least share")
for k, start in enumerate((1e-3, 1e-8)):
    low, middle, high = np.quantile(ratios[k][small[k]], [0, 0.5, 1])
    print("{:.0e} {:6} {:7} {:8}".format(start, *visible[:, k]), end="")
    print(f"{c[1, k].min():9.2f} to {c[1, k].max():.2f} {small[k].sum():5}", end="")
    print(f"{low:12.2f} to {high:.2f} ({middle:.2f}) {thirds[2, k][~small[k]].min():15.3f}")
print("median c of the 16, at each loss:", *(f"{value:.2f}" for value in np.median(c[:, small], axis=1)))
assert (np.diff(c[:, small], axis=0) < 0).all()
assert visible.T.tolist() == [[13, 14, 18], [4, 6, 8]]
assert 0.3 < ratios[small].min() < 0.7 < np.median(ratios[small]) < ratios[small].max() < 1
assert (thirds[2][~small] > 0.04).all()
assert (thirds[2] > thirds[0])[thirds[0] > 0.01].all()

# %% jupyter={"source_hidden": true} slideshow={"slide_type": "subslide"}
fig, (left_ax, right_ax) = plt.subplots(1, 2, figsize=(8.0, 3.4), width_ratios=(1.1, 1))
grown = np.median(sizes[2, ..., 0] / sizes[0, ..., 0])
line = np.array([1e-7, 1])
for power in (1, 2, 3):
    left_ax.plot(line, line * grown ** (power - 1), color=COLORS["black"], linewidth=1.2, linestyle=":")
    left_ax.text(4e-7, 4e-7 * grown ** (power - 1) * 1.8, f"$c = {power}$", rotation=38, fontsize=10)
for k, (label, marker, color) in enumerate((("$10^{-3}$", "o", "blue"), ("$10^{-8}$", "^", "vermillion"))):
    left_ax.plot(thirds[0, k], thirds[2, k], marker, color=COLORS[color], label=label)
    right_ax.plot(promised[k].clip(max=4), thirds[2, k], marker, color=COLORS[color], label=label)
right_ax.plot(line, line, color=COLORS["black"], linewidth=1.2)
right_ax.axvline(0.05, color=COLORS["black"], linewidth=1.2, linestyle=":")
left_ax.set(
    xlim=(2e-7, 1), xlabel=r"share of $\sigma_3$ at loss $10^{-4}$", ylabel=r"share at loss $10^{-100}$"
)
right_ax.set(xlim=(2e-7, 5), xlabel=r"share forecast from loss $10^{-10}$")
for ax in (left_ax, right_ax):
    ax.set(xscale="log", yscale="log", ylim=(2e-7, 1))
left_ax.legend(title=r"start $\beta$", loc="lower right")
show(
    fig,
    alt="Left: share of the third singular value at loss 1e-100 against its share at 1e-4, forty dots; where "
    "the share at 1e-4 is small they lie in a band between the lines for c = 1 and c = 3, most near c = 2; "
    "the others gather between 0.1 and 0.6. Right: the same against the law's forecast; below five percent "
    "the dots are on the diagonal or a little below, beyond it they level off.",
)

# %% [markdown]
# **Figure 4.** Twenty surveys, two starts. Left: before and after; dotted: the law for three powers. Right:
# the law's forecast from a loss of $10^{-10}$, with each run's own $c$ (above 4: at 4); solid: equal,
# dotted: five percent.

# %% [markdown]
# **What decides is the newcomer's share when the answers are right.** If it is tiny the run stalls at rank
# two (unless rank two is a solution: on surveys 101, 102, 112,
# where $c \to 1$ and there is nothing to wait for). If it is a percent or more, as from $10^{-8}$ on four
# surveys and from $10^{-3}$ on 13, the third direction goes on growing *though no answer is wrong*. Where
# the forecast is below five percent it holds within a factor of three here, always too high: on all of these
# runs $c$ falls on the way. (On other surveys, on nearly all.)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4.8 How long is the wait? *(optional)*
#
# The law turns into a forecast, without a penalty and with one. (Of what follows, section 4.9 needs only one
# result: with constant steps nobody lives to see the end of a real stall.)

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 04.6: Two waits
#
# ★★★ · 20 minutes
#
# A run has stalled. You are given its product $W$, the pull $M = b S$ (nobody tells you $b$), all the $u_i$,
# and the share `now` that the singular value along the leading direction of $M$ has of $\sigma_1$. Here $c >
# 1$. When will its share be `then`? Return
#
# 1. the power $c$;
# 2. the wait of plain descent: the number $k$ for which the loss, which is about $e^{-\min_i u_i}$ at a
#    stall, is $10^{-k}$ when the share is `then`. All $u_i$ grow in proportion to $\sigma_1$;
# 3. the wait with weight decay, in steps from now on. A step is $U \to U + \eta (M V - \varepsilon U)$,
#    $V \to V + \eta (M^\top U - \varepsilon V)$, and the decay has already brought the live directions to
#    rest: $W$ and $M$ no longer change. Here $\eta \varepsilon c \ll 1$.
#
# <details><summary>Hint: the power</summary>
#
# $S$ is scaled so that the live directions have singular value 1. You know $\langle S, U V^\top \rangle$ at a
# KKT point: it is the cost, and at a KKT point the cost is the nuclear norm.
# </details>
#
# <details><summary>Hint: the digits</summary>
#
# By what factor must $\sigma_1$ grow? The share grows like a power of it, and the number of digits of the
# loss grows in proportion.
# </details>
#
# <details><summary>Hint: the steps</summary>
#
# Live directions at rest: which multiple of $S$ is $M$ then? Put the newcomer of the law into the step. The
# share is a product of two factors.
# </details>


# %%
@exercise("04.6")
def wait(W, M, u, now, then, eta, eps):
    """(c, digits k, steps): three numbers, for W, M (d1, d2), u (n,), two shares, step size and decay."""
    ### BEGIN SOLUTION
    c = np.linalg.norm(M, 2) * np.linalg.norm(W, "nuc") / (M * W).sum()
    digits = u.min() / np.log(10) * (then / now) ** (1 / (c - 1))
    return c, digits, np.log(then / now) / (2 * eta * eps * (c - 1))
    ### END SOLUTION


# %%
check("04.6", wait)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The price
#
# Three starts, predicted from a loss of $10^{-10}$: when will the third singular value be five percent of the
# first? Here are two surveys, and in the last line the twenty.

# %%
starts = np.array([1e-3, 1e-4, 1e-5])
digits = np.array([4, 6, 10, 12, 15, 20, 30, 45, 60, 80, 100, 140, 200, 300, 400, 500])


def forecast_all(found, tables, digits):
    """Digits forecast from 1e-10 and waited until 5 percent, NaN without a wait, and c: (starts, tables)."""
    sizes = np.linalg.svd(found, compute_uv=False)
    thirds = sizes[..., 2] / sizes[..., 0]  # (digits, starts, tables)
    powers, forecasts, waits = np.full((3, *thirds.shape[1:]), np.nan)
    for k, s in np.argwhere((thirds[2] < 0.05) & (thirds[-1] > 0.05)):
        W, table = found[2, k, s], tables[s]
        pull_there, u = far(W, table)[0], (table * W)[table != 0]
        powers[k, s], forecasts[k, s], _ = wait(W, pull_there, u, thirds[2, k, s], 0.05, 1.0, 1e-3)
        waits[k, s] = np.exp(np.interp(np.log(0.05), np.log(thirds[:, k, s]), np.log(digits)))
    return thirds, powers, forecasts, waits


two = {0: Y, 113: Ys[13]}
pair = np.array(list(two.values()))
thirds, powers, forecasts, waits = forecast_all(follow(*begin(starts, pair), pair, digits)[0], pair, digits)
factors = 10 ** (np.log10(thirds[2, :2] / thirds[2, 1:]) / (powers[1:] - 1)), waits[1:] / waits[:2]
print("survey   start      c   loss predicted   measured   digits times, predicted   measured")
for s, seed in enumerate(two):
    for k, start in enumerate(starts):
        more = "" if k == 0 else f"{factors[0][k - 1, s]:26.1f} {factors[1][k - 1, s]:10.1f}"
        print(
            f"{seed:6} {start:7.0e} {powers[k, s]:6.2f} {'1e-' + format(forecasts[k, s], '.0f'):>16}", end=""
        )
        print(f"{'1e-' + format(waits[k, s], '.0f'):>11}{more}")
stalled, taken = follow(*begin(starts[:2], Ys), Ys, digits[:-2])
quotients = np.divide(*forecast_all(stalled, Ys, digits[:-2])[2:])
quotients = quotients[np.isfinite(quotients)]
low, middle, high = np.quantile(quotients, [0, 0.5, 1])
print(
    f"twenty surveys: {len(quotients)} of 40 runs pass 5 percent between losses of 1e-10 and 1e-300;", end=" "
)
print(f"digits predicted / measured {low:.2f} to {high:.2f}, median {middle:.2f}")
assert np.allclose(waits.T, [[11, 70, 455], [19, 70, 239]], rtol=0.05)
assert 0.74 < (forecasts / waits).min() < (forecasts / waits).max() < 1.01, "see exercise 04.6"
assert 0.5 < low < 0.6 < 0.7 < middle < 0.85 < high < 1, "see exercise 04.6"
assert np.allclose(factors[0] / factors[1], 0.92, atol=0.08), "see exercise 04.6"
assert (np.array(factors)[..., 0] > 5.5).all(), "see exercise 04.6"
assert (np.array(factors)[..., 1] < 4).all(), "see exercise 04.6"

# %% [markdown]
# The forecasts are too short, since $c$ falls on the way: here by up to a quarter, on twenty surveys by up to
# a half. They give the price of a small start as a formula. If a start ten times smaller lowers the share at
# the fit by a factor $10^a$, the number of digits to wait is multiplied by $10^{a / (c - 1)}$: six on our
# survey, three and a half on survey 113, and one where $a = 0$ because the third was never tiny.
#
# And how long is a digit? It depends on the steps. With a constant step size each factor moves in proportion
# to the other, and the outputs like $u' \propto u\, e^{-u}$: so $e^u / u$ grows like $t$. With $L \approx
# e^{-u}$ this says that $t L \log(1 / L)$ settles (on the entries, in lesson 01, $t L$ does):

# %%
times = [2000, 20_000, 60_000]
expected = [[1.56, 11.2], [0.89, 8.9], [0.77, 8.6]]
for t, (U, V), numbers in zip(
    times, descend(beta * np.eye(d), np.zeros((d, d)), A, 1.0, times), expected, strict=True
):
    loss, near = np.logaddexp(0, -outputs(U @ V.T, A)).mean(), cosine(U @ V.T, W_nuc)
    C = t * loss * np.log(1 / loss)
    print(f"{t:6} plain steps: t L = {t * loss:.2f}, t L log(1/L) = {C:.1f}; cosine to W_nuc {near:.3f}")
    assert np.allclose([t * loss, C], numbers, atol=0.05), "see exercise 04.1"
    assert 0.940 < near < 0.945, "see exercise 04.1"
exponents = waits[:, 0] + np.log10(C / np.log(10) / waits[:, 0])
print("so the three waits of our survey take steps: 10 to the", *(f"{value:.0f}" for value in exponents))
assert np.allclose(exponents, [10.2, 69.0, 452.7], atol=0.3)

# %% [markdown]
# On our survey a loss of $10^{-k}$ takes about $4 \cdot 10^k / k$ steps, and a visible third direction some
# $10^{10}$, $10^{69}$ and $10^{453}$ from the three starts. **Where the newcomer is tiny when the answers are
# right, descent with constant steps does not reach $W_{\mathrm{nuc}}$ in any time that anybody has.**
#
# With steps that grow as the pull fades (lessons 01 and 03) a digit costs a few steps, as in `follow`, late
# as well as early:

# %%
print("start 1e-3, twenty surveys   share of the largest margin, mean   least   steps (median)")
kept = [0, 6, 10, 13]  # of digits
shares = nuclear_share(stalled[kept, 0], Ys, margins)
taken = taken[kept, 0]
for level, row, steps in zip(digits[kept], shares, taken, strict=True):
    print(f"loss 1e-{level:<19} {row.mean():33.3f} {row.min():7.3f} {np.median(steps):10.0f}")
assert np.allclose(shares.mean(axis=1), [0.847, 0.942, 0.966, 0.980], atol=2e-3)
assert 6 < (np.median(taken[3]) - np.median(taken[1])) / 270 < 10

# %% [markdown]
# From $\beta = 10^{-3}$ that is enough: three hundred digits in three thousand steps, and two percent of
# the margin missing on average. From $10^{-8}$ the number of digits is itself out of reach on most surveys
# (Figure 4, left). Is there something better than waiting?

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4.9 Three regimes
#
# Are larger starts better? Only up to a point. From $U = \beta I$, $V
# = 0$ with a large $\beta$, $U$ hardly moves while $V$ learns; $W \approx \beta V^\top$ is linear in $V$,
# and descent goes to $W_{\mathrm{fro}}$: descent on the entries in disguise. (In the limit of small steps
# $U^\top U - V^\top V$ stays $\beta^2 I$: both change by $U^\top M V + V^\top M^\top U$.) We turn the dial
# on the twenty surveys. The identity is a peculiar start (it pairs person 1 with film 1), so beside it stand
# Gaussian $U$ and $V$.

# %%
betas = np.array([1e-8, 1e-6, 1e-4, 1e-3, 1e-2, 0.1, 0.3, 1, 3, 30])
dial = np.stack([follow(*begin(beta, Ys), Ys, [4, 30])[0] for beta in betas], axis=1)
rng = np.random.default_rng(0)
gaussian = rng.normal(size=(2, *Ys.shape)) / np.sqrt(d)
drawn = [follow(*(beta * gaussian), Ys, [4])[0][0] for beta in betas[:-1]]
to_nuc, to_drawn = cosine(dial, W_nucs), cosine(np.array(drawn), W_nucs)
to_fro = cosine(dial[0], Ys)
print("start beta               ", *(f"{value:6.0e}" for value in betas))
for name, values in (("loss 1e-4", to_nuc[0]), ("loss 1e-30", to_nuc[1]), ("loss 1e-4, Gaussian", to_drawn)):
    print(f"cosine, {name:19}", *(f"{value:6.3f}" for value in values.mean(axis=1)))
best_at = np.bincount(to_nuc[0].argmax(axis=0), minlength=len(betas))
print(f"{'nearest at loss 1e-4, of 20':27}", *(f"{value:6d}" for value in best_at))
middle, smallest = to_nuc[0, 5], to_nuc[0, 0]
exceptions = np.flatnonzero(middle <= smallest)
print(f"0.1 is nearer than 1e-8 on {(middle > smallest).sum()} of 20, Gaussian", end=" ")
print(f"{(to_drawn[5] > to_drawn[0]).sum()}; the others are surveys", *(100 + exceptions))


def rank_two(solutions, lead):
    """The largest cosine of any table of rank two to each solution; its rank correlation with the lead."""
    sizes = np.linalg.svd(solutions, compute_uv=False)
    ceiling = np.sqrt((sizes[:, :2] ** 2).sum(axis=1) / (sizes**2).sum(axis=1))
    return ceiling, np.corrcoef(*(np.argsort(np.argsort(values)) for values in (ceiling, lead)))[0, 1]


ceiling, along = rank_two(W_nucs, middle - smallest)
print(f"no rank two has a cosine above {ceiling.mean():.3f} (mean); 1e-8 has {smallest.mean():.3f},", end=" ")
print(f"lower on {(smallest < ceiling).sum()} of 20; rank correlation of ceiling and lead of 0.1 {along:.2f}")
assert np.allclose(to_nuc[0].mean(axis=1)[[0, 3, 5, 6, 9]], [0.923, 0.953, 0.979, 0.981, 0.806], atol=2e-3)
assert np.allclose(to_nuc[1].mean(axis=1)[[0, 3, 5, 6, 9]], [0.929, 0.970, 0.993, 0.993, 0.815], atol=2e-3)
assert np.allclose(to_drawn.mean(axis=1)[[0, 3, 5, 6]], [0.924, 0.953, 0.975, 0.973], atol=4e-3)
assert (np.diff([values.mean(axis=1)[:6] for values in (to_nuc[0], to_drawn)]) > 0).all()
assert best_at[[5, 6]].sum() >= 14
assert exceptions.tolist() == [1, 2]
assert (np.linalg.matrix_rank(W_nucs, tol=1e-6) == 2).nonzero()[0].tolist() == [1, 2]
assert (smallest < ceiling).all()
assert along < -0.9
assert (to_fro[-1] > 0.999).all()
kept = [values[:8].mean(axis=1) - values[:8, free[1:] == 0].mean(axis=1) for values in (*to_nuc, to_drawn)]
assert np.abs(kept).max() < 2.5e-3
farther = cosine(follow(*begin([0.1, 0.3], Ys), Ys, [4, 10, 30, 100, 300])[0], W_nucs)
print("starts 0.1, 0.3, at 1e-4, 1e-10, 1e-30, 1e-100, 1e-300:", *farther.mean(axis=2).T.round(3))
assert (np.diff(farther, axis=0) > 0).all()  # on each survey
assert (farther[-1].mean(axis=1) > 0.996).all()

print("\nsixty other surveys, twenty by twenty:", end=" ")
for first in (200, 300, 400):
    _, others = tables(range(first, first + 20))
    solutions = solve(others)[1].value.numpy()
    small_start, medium = cosine(follow(*begin([1e-8, 0.1], others), others, [4])[0][0], solutions)
    their_ceiling, along = rank_two(solutions, medium - small_start)
    worse = medium <= small_start
    print(f"correlation {along:.2f}, exceptions {worse.sum()}", end="; " if first < 400 else "\n")
    assert -0.85 < along < -0.7
    assert (their_ceiling[worse] > 0.998).all()
    assert worse.sum() == (first < 400)

# %% jupyter={"source_hidden": true} slideshow={"slide_type": "subslide"}
fig, ax = plt.subplots(figsize=(6.8, 3.8))
lines = (
    (to_nuc[1], "^-", "purple", r"to $W_{\mathrm{nuc}}$, loss $10^{-30}$"),
    (to_nuc[0], "s-", "vermillion", r"to $W_{\mathrm{nuc}}$, loss $10^{-4}$"),
    (to_drawn, "o:", "green", r"to $W_{\mathrm{nuc}}$, Gaussian, loss $10^{-4}$"),
    (to_fro, "D--", "blue", r"to $W_{\mathrm{fro}}$, loss $10^{-4}$"),
)
for values, line, color, label in lines:
    ax.semilogx(
        betas[: len(values)], values.mean(axis=1), line, markersize=5, color=COLORS[color], label=label
    )
ax.set(xlabel=r"start $\beta$", ylabel="mean cosine of $W$", ylim=(0.68, 1.01))
ax.legend(loc="center left", bbox_to_anchor=(0.02, 0.52), fontsize=10)
show(
    fig,
    alt="Mean cosines over twenty surveys against the start, from 1e-8 to 30. Those to W_nuc form a hump "
    "with its top between 0.1 and 0.3, lower on both sides; a smaller loss lifts it, the left end least. "
    "Gaussian starts give the same hump up to 0.3 and fall faster beyond. The cosine to W_fro is low on the "
    "left and 1 at 30.",
)

# %% [markdown]
# **Figure 5.** Where descent on the factors stands, for starts $U = \beta I$, $V = 0$ at two losses and for
# Gaussian factors at one (not from 30); means over twenty surveys.

# %% [markdown]
# The start is a dial with *three* ends:
#
# | start | descent goes towards | for how long |
# |:---|:---|:---|
# | large, with $V = 0$ | $W_{\mathrm{fro}}$, like entries | until the factors have outgrown $\beta$ |
# | middle: 0.1 to 0.3 at $d = 10$ | close to $W_{\mathrm{nuc}}$ | nearer loss by loss, to $10^{-300}$ |
# | small | what was not tiny when the answers were right | $\log t$ must grow by a power of $1/\beta$ |
#
# (Without surveys 105 and 112, whose $W_{\mathrm{nuc}}$ is one of several, no mean up to a start of 1 moves
# by more than 0.0025.) Smaller is worse on 18 surveys, and the solution says by how much. No table of rank
# two can have a larger cosine to $W_{\mathrm{nuc}}$ than $(\sigma_1^2 + \sigma_2^2)^{1/2} / \lVert
# W_{\mathrm{nuc}} \rVert_F$ (Eckart & Young). Where this *ceiling* is low a small start loses much; where it
# is nearly 1, next to nothing, as on the two exceptions. On other surveys the order is looser, with rank
# correlations down to $-0.73$, and again the exceptions have ceilings above 0.998.


# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output", "widget"]
def turn(start, digits):
    """Our survey's table and the shares of its singular values when the loss is 10^-digits."""
    W = follow(*begin([start], Y), Y, [digits])[0][0, 0]
    figure = Figure(figsize=(7.2, 3), layout="none")  # constrained layout would draw twice
    table, bars = figure.add_axes((0.05, 0.06, 0.36, 0.8)), figure.add_axes((0.52, 0.16, 0.46, 0.7))
    table.imshow(W / np.abs(W)[known].mean(), cmap="PuOr", vmin=-1.5, vmax=1.5)
    table.set(xticks=[], yticks=[], xlabel="film", ylabel="person")
    s = np.linalg.svd(W, compute_uv=False)
    bars.bar(range(1, d + 1), s / s.sum(), color=COLORS["vermillion"])
    bars.set(ylim=(0, 1), xticks=range(1, d + 1), xlabel="$k$", ylabel=r"$\sigma_k$ / nuclear norm")
    bars.set_title(rf"cosine {cosine(W, W_nuc):.2f} to $W_{{\mathrm{{nuc}}}}$", fontsize=11)
    return figure


wide = {"layout": {"width": "480px"}, "style": {"description_width": "150px"}}
widgets.sliders(
    turn,
    alt="Left the table, coloured by sign, right its ten singular values as shares of the nuclear norm.",
    start=ipywidgets.FloatLogSlider(value=0.1, min=-6, max=1.5, step=0.5, description="start", **wide),
    digits=ipywidgets.IntSlider(value=4, min=1, max=30, description="digits of the loss", **wide),
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The cure: a penalty
#
# The wait is so long because the pull fades with the loss. Weight decay holds it up: minimise the loss plus
# $\varepsilon$ times the cost. By the theorem of 4.3 the minimum, whatever the start, is that of the loss
# plus $\varepsilon \lVert W \rVert_*$. (Of minima this is known: a local one with a free column is global;
# Haeffele & Vidal. Whether descent gets there is for the run to show.) At a stall the live directions stand
# still, $M = \varepsilon S$, and the newcomer's share grows by the factor $1 + 2 \eta\, \varepsilon\, (c -
# 1)$ a step: exponentially in $t$, not like a power of $\log t$. See your third number, for steps of size 4:

# %%
eta, decay, past = 4.0, 1e-3, []
U, V = begin([1e-8, 1e-5, 0.1, 10], Ys)
counts = (Ys != 0).sum((1, 2))[:, None, None]
for t in range(17_500):
    W = U @ V.mT
    if t % 40 == 0 and 1000 <= t <= 10_000:
        past.append(W)
    M = Ys / (1 + np.exp(Ys * W)) / counts
    longer = eta if t < 10_000 else 4 * eta  # the last 7,500 steps are worth 30,000
    U, V = U + longer * (M @ V - decay * U), V + longer * (M.mT @ U - decay * V)
ends = {"after 10,000 steps": past[-1], "and 7,500 of four times the length": U @ V.mT}
times, past = np.arange(1000, 10_001, 40), np.array(past)
thirds = np.linalg.svd(past[:, :2], compute_uv=False)
thirds = thirds[..., 2] / thirds[..., 0]
rows = []
for k, s in np.argwhere(thirds[0] < 0.01):
    W, table, there = past[0, k, s], Ys[s], thirds[:, k, s] > 0.05
    with np.errstate(over="ignore"):  # c near 1: the digits of plain descent have no end
        steps = wait(W, far(W, table)[0], (table * W)[table != 0], thirds[0, k, s], 0.05, eta, decay)[2]
    rows.append((s, steps, times[there][0] - 1000 if there.any() else np.inf))
rows = np.array(rows)
seen = np.isfinite(rows[:, 2])
quotients = rows[seen, 1] / rows[seen, 2]
print(
    f"{len(rows)} of 40 small starts stalled at step 1,000; {seen.sum()} reach 5 percent by 10,000;", end=" "
)
print("steps forecast / measured", *(f"{value:.2f}" for value in np.quantile(quotients, [0, 0.5, 1])))
never = [1, 2, 12]
print(f"the other {(~seen).sum()} have forecasts from {rows[~seen, 1].min():.0f} steps on")
for t, W in ends.items():
    away = np.linalg.norm(W - W[2], axis=(-2, -1)) / np.linalg.norm(W[2], axis=(-2, -1))
    print(f"{t}: farther than 2 percent from the run from 0.1:", *(away > 0.02).sum(axis=1), end=" of 20; ")
    print(f"farthest {100 * away.max():.2f} percent; mean cosine to W_nuc {cosine(W, W_nucs).mean():.3f}")
    assert (away > 0.02).sum(axis=1).tolist() == ([5, 2, 0, 0] if t == "after 10,000 steps" else [0] * 4)
    if t == "after 10,000 steps":
        again, c = np.argwhere(away > 0.02), spectrum(W, Ys)[away > 0.02, 0]
sizes = np.linalg.svd(list(ends.values()), compute_uv=False)
shares = sizes / sizes[..., :1]
grown = np.where(shares[1] > 0.01, shares[1] / shares[0], 0)
newcomers = {int(100 + s): int(grown[k, s].argmax()) + 1 for k, s in again}
print(
    f"stalled at step 10,000: c from {c.min():.2f} to {c.max():.2f}; surveys and their newcomers", newcomers
)
rank, lasting = (shares[1, :, never] > 1e-6).sum(axis=2), spectrum(W, Ys)[:, never, 0].max()
print("surveys 101, 102, 112 at the end, from each start: rank", *rank.ravel(), f"with c up to {lasting:.4f}")
assert (rank == 2).all()
assert lasting < 1 + 1e-6
assert np.isclose(np.linalg.svd(W_nucs[12])[1][2], 0.012, atol=1e-3)
assert newcomers == {100: 4, 108: 5, 111: 4, 117: 4, 118: 4}
assert 1.008 < c.min() < c.max() < 1.072
assert away.max() < 1e-3
assert 0.98 < cosine(W, W_nucs).min() < cosine(W, W_nucs).mean() < 0.99
assert 0.7 < quotients.min() < 0.85 < np.median(quotients) < quotients.max() < 1, "see exercise 04.6"
assert rows[~seen, 1].min() > 100_000, "see exercise 04.6"
assert set(rows[~seen, 0]) == set(never), "see exercise 04.6"

# %% [markdown]
# (Starts in the order $10^{-8}$, $10^{-5}$, 0.1, 10.) At step 10,000 some small starts are not home: on five
# surveys and on two they stall once more: a *fourth* direction is new (on 108 a fifth), $c$ is 1.01 to 1.07.
# After 7,500 more steps of four times the length all four are at the same place on every survey, to a
# thousandth, and near $W_{\mathrm{nuc}}$ (not on it: $\varepsilon$ is not zero, and a smaller one waits
# longer, like $1/\varepsilon$). On three surveys no third direction ever shows, and none is missing: they end
# at rank two with $c = 1$. (101 and 102 have a $W_{\mathrm{nuc}}$ of rank two; on 112 ours, with a third
# singular value of 0.012, is one of several.)
#
# The nuclear norm is what a *penalty* prefers, low rank is what *greed* prefers. Which one fills blanks
# better? After 2,000 plain steps, greed was ahead by 1.5 percent (4.4). Follow the same 200 surveys further:

# %%
cut = filled(truncated(many_nuc, 2), many_truths, many_Y) - by_nuc
print("percent ahead of W_nuc     at 1e-4      at 1e-30   at 1e-4: of rank two   cut to rank two")
print(f"W_nuc itself {mean(cut):>75}")
assert np.isclose(cut.mean(), 1.2, atol=0.1)
for start, expected in ((1e-8, (1.3, 1.0, 1.3)), (0.1, (0.8, 0.2, 1.5))):
    ends = follow(*begin(start, many_Y), many_Y, [4, 30])[0]
    leads = [filled(W, many_truths, many_Y) - by_nuc for W in (*ends, truncated(ends[0], 2))]
    low = (np.linalg.matrix_rank(ends[0], rtol=0.01) == 2).sum()
    print(f"start {start:<13} {mean(leads[0]):>14} {mean(leads[1]):>13} {low:14} of 200 {mean(leads[2]):>17}")
    assert low > 130 if start < 0.1 else low < 5
    assert np.allclose([lead.mean() for lead in leads], expected, atol=0.1)

# %% [markdown]
# The lead goes as the rank grows. The truth has two tastes: cut to rank two, $W_{\mathrm{nuc}}$ and the run
# from 0.1 catch up; that from $10^{-8}$, mostly of rank two, gains nothing. (On other surveys the cut brings
# $W_{\mathrm{nuc}}$ about half of the lead.)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4.10 From films to attention
#
# Attention compares a token $x_t$ with a query $z$ through $x_t^\top K Q^\top z$, with trained keys $K$ and
# queries $Q$. Say that it should keep token $\alpha$ of its sequence: give that token nearly all of the
# weight (lesson 05 shows how). For this the comparison of $x_\alpha$ has to win: $(x_\alpha - x_t)^\top K
# Q^\top z > 0$ for all other $t$. That is $\langle A_i, U V^\top \rangle > 0$ with
#
# $$A_i = (x_\alpha - x_t)\, z^\top, \qquad U = K, \quad V = Q .$$
#
# Lesson 10 trains $W = K Q^\top$ by its entries and finds the Frobenius norm; lesson 11 trains $K$ and $Q$,
# meets the stall again, and has the same $S$ to tell how it ends.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Questions
#
# <details><summary>1. Let W, U and V be diagonal. What is the nuclear norm, and what does the lesson say?
# </summary>
#
# The $\ell_1$ norm of the diagonal. Each weight is a product of two, $w_k = U_{kk} V_{kk}$: with weight
# decay the limit is the sparse $\ell_1$ solution; descent alone from a small start brings up one weight at a
# time, and one that is still tiny when all answers are right stays so for very long.
# </details>
#
# <details><summary>2. Spectral descent (lesson 03) maximises the margin in the spectral norm. Is that the
# same bias?</summary>
#
# No, the opposite one. It keeps the largest singular value of W small for a given margin, so that many
# singular values are alike and the rank is high. A nuclear penalty keeps the sum small, and the rank low.
# Muon with its polynomial stands between: lesson 03 finds singular values down to 0.6 of the largest.
# </details>
#
# <details><summary>3. V is frozen at the identity, and U learns. Where does W go?</summary>
#
# $W = U$, and the model is linear: to $W_{\mathrm{fro}}$, from any start. A frozen factor is the large start
# taken to its limit.
# </details>
#
# <details><summary>4. A run has stalled with c = 1.1, another with c = 3, with newcomers of equal shares.
# Of which is more proved, and which leaves its stall sooner?</summary>
#
# The first is proved to have 1/1.1 of the largest margin, the second only a third. (Bounds from below do not
# order them: our stall of 4.7 had 0.886 with 0.498 proved.) The second leaves sooner:
# its newcomer's share grows like $\sigma_1^2$, the other's like $\sigma_1^{0.1}$. (From unequal shares
# either may be first: what counts is the logarithm of the share over $c - 1$.)
# </details>

# %%
progress("04")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - The cheapest way to write $W$ as $U V^\top$ costs $\lVert W \rVert_*$, the sum of the singular values.
#   Short factors mean a small nuclear norm, which leans towards low rank. A spectral norm certifies it.
# - Descent on factors from a small start is greedy: singular values come up one after the other, and $M_0$
#   predicts how they start.
# - A direction that is tiny when all answers are right stalls. $S$ says how good the stall is (at least
#   $1/c$ of the largest margin, $c = \lVert S \rVert_{\mathrm{op}}$) and how it ends: the next singular
#   value grows like $\sigma_1^c$. With constant steps $\sigma_1$ grows like $\log t$, and the wait is beyond
#   all patience.
# - So $W_{\mathrm{nuc}}$ is nearest from a start of middle size; smaller is worse, unless $W_{\mathrm{nuc}}$
#   is nearly of the greedy rank. Growing steps shorten the wait; a penalty makes it shorter by far, and
#   brought four starts from $10^{-8}$ to 10 to one table.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Further reading
#
# - N. Srebro, J. Rennie, T. Jaakkola. *Maximum-margin matrix factorization.* NIPS 2004 (published 2005).
#   Our survey, and the theorem of section 4.3.
# - S. Gunasekar, B. Woodworth, S. Bhojanapalli, B. Neyshabur, N. Srebro. *Implicit regularization in matrix
#   factorization.* NIPS 2017, arXiv:1705.09280. The conjecture, for the squared loss, that small starts lead
#   to the smallest nuclear norm.
# - Z. Li, Y. Luo, K. Lyu. *Towards resolving the implicit bias of gradient descent for matrix factorization:
#   greedy low-rank learning.* ICLR 2021, arXiv:2012.09839. Why it is rank, and not the nuclear norm.
# - K. Lyu, J. Li. *Gradient descent maximizes the margin of homogeneous neural networks.* ICLR 2020,
#   arXiv:1906.05890, and Z. Ji, M. Telgarsky. *Directional convergence and alignment in deep learning.*
#   NeurIPS 2020, arXiv:2006.06657. The theorem of section 4.7.
# - J. Jin, Z. Li, K. Lyu, S. Du, J. Lee. *Understanding incremental learning of gradient descent: a
#   fine-grained analysis of matrix sensing.* ICML 2023, arXiv:2301.11500. The race, one rank after the
#   other, proved.
# - B. Haeffele, R. Vidal. *Global optimality in tensor factorization, deep learning, and beyond.* 2015,
#   arXiv:1506.07540. Why a penalty leads out of every stall.
# - B. Woodworth et al. *Kernel and rich regimes in overparametrized models.* COLT 2020, arXiv:2002.09277. The
#   large end of the dial.
#
# **New in the library:** [`svm.certified_rank`](../mini_attn/svm/nuclear.py).
#
# **Next:** [lesson 05](05_softmax_attention.ipynb) meets the softmax.
