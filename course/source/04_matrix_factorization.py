# %% [markdown] slideshow={"slide_type": "slide"}
# # 04 · Factored weights and the nuclear norm
#
# Ten people have each seen some of ten films and told us which they liked. Fit a table $W$ to these answers
# by gradient descent, and it says nothing about the other films. Write the same table as a product
# $W = U V^\top$ and start small: now it fills in the blanks, mostly right.
#
# **The question: what does a product know that its entries do not?**
#
# It bets on low rank, in two ways. Short factors mean a small *nuclear norm*, which leans towards low rank.
# Descent from a small start brings up the large singular values first, and stalls. Which of the two fills the
# blanks better? Attention multiplies two matrices as well, keys and queries.

# %% [markdown] slideshow={"slide_type": "skip"}
# **After this lesson you can**
#
# - say how a product moves when its factors descend, and why its blanks move;
# - state the max-margin problem that short factors solve, and certify an answer to it;
# - predict how fast each singular value of $W$ grows, and what a smaller start changes;
# - read off a stalled run what is missing and how fast it grows, and say what a penalty is good for.
#
# **You need** [lesson 01](01_logistic_regression_bias.ipynb) (margin, direction, $\log t$),
# [lesson 02](02_hard_margin_svm.ipynb) (KKT conditions, certificates), and the singular value decomposition
# ([lesson 03](03_optimizer_geometry.ipynb), section 3.6). About 90 minutes, five exercises.

# %%
import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure

from course.exercise import check, exercise, progress, todo
from course.figure import show
from course.replicate.lesson_04 import begin, c_of, far, follow, side_by_side, solve, truncated
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
# The model predicts the sign of $x^\top W z$. Here $x$ and $z$ are all zeros and a single one: $x$ says which
# person, $z$ which film, and $x^\top W z$ is the entry of $W$ in their row and column. As in lesson 02 we
# multiply by the label. Known answer $i$ gives the **signed feature matrix**
#
# $$A_i = y_i\, x_i z_i^\top, \qquad u_i = \langle A_i, W \rangle = \operatorname{tr}(A_i^\top W) = y_i\,
# x_i^\top W z_i ,$$
#
# and the model is right where $u_i > 0$. The loss is $L(W) = \frac1n \sum_i \ell(u_i)$ with
# $\ell(u) = \log(1 + e^{-u})$. Its negative gradient is the **pull**
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
# ### Exercise 04.1: How a product moves
#
# ★★☆ · 6 minutes
#
# Now let $W = U V^\top$ with trainable $U$ of shape $(d_1, m)$ and $V$ of shape $(d_2, m)$. In gradient
# descent with tiny steps each factor moves with the speed of its own negative gradient, $-\partial L/\partial
# U$ and $-\partial L/\partial V$. If the entries of $W$ were trained, $W$ would move with the speed $M =
# -\nabla L(W)$. With which speed does the product move? Guess first: does a blank move, where $M$ is zero?
#
# <details><summary>Hint 1</summary>
#
# To first order, moving $U$ by $\delta$ moves $W$ by $\delta V^\top$, and lowers the loss by $\langle M,
# \delta V^\top \rangle$. Of which matrix is this the inner product with $\delta$?
# </details>
# <details><summary>Hint 2</summary>
#
# Now you have both speeds. The speed of a product obeys the product rule.
# </details>


# %%
@exercise("04.1")
def speed(U, V, M):
    """The speed of W = U V^T, of shape (d1, d2), for U (d1, m), V (d2, m) and the pull M (d1, d2) at W."""
    ### BEGIN SOLUTION
    return M @ V @ V.T + U @ U.T @ M
    ### END SOLUTION


# %%
check("04.1", speed)

# %% [markdown]
# So a blank does move. The pull of one answer is passed on to the person's other films as far as their rows
# of $V$ agree with that film's, and to other people as far as their rows of $U$ agree.
#
# Two runs on the same loss, 2,000 steps of size one. The first trains the entries of $W$ from zero, the
# second factors with ten columns each. From $U = V = 0$ nothing would ever move, so it starts from
# $U = \beta I$, $V = 0$ with $\beta = 0.001$.


# %%
def descend(U, V, A, eta, times):
    """The pairs (U, V) after the given, increasing, numbers of steps of gradient descent on both factors."""
    kept, wanted = [], set(times)
    for t in range(1, times[-1] + 1):
        M = pull(U @ V.T, A)
        U, V = U + eta * M @ V, V + eta * M.T @ U
        if t in wanted:
            kept.append((U, V))
    return kept


W_entries = np.zeros((d, d))
for _ in range(2000):
    W_entries = W_entries + pull(W_entries, A)

beta, times = 1e-3, range(5, 2001, 5)
pairs = descend(beta * np.eye(d), np.zeros((d, d)), A, 1.0, times)
path = np.array([U @ V.T for U, V in pairs])
compared = {"descent on entries": W_entries, "descent on factors": path[-1]}
right = {name: (np.sign(W) == truth) for name, W in compared.items()}
for name, good in right.items():
    print(f"{name} right: {good[known].sum()} of {n} known, {good[~known].sum()} of {(~known).sum()} unknown")
assert (W_entries[~known] == 0).all()
assert [(good[known].sum(), good[~known].sum()) for good in right.values()] == [(47, 0), (47, 48)]

# %% jupyter={"source_hidden": true} slideshow={"slide_type": "subslide"}
fig, axes = plt.subplots(1, 3, figsize=(9.2, 3.2))
pictures = {
    "descent on $W$": W_entries,
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
# **Figure 1.** Positive entries are purple, negative ones orange, blank cells zero. Crosses mark the blanks
# that were filled wrongly. Rows and columns are sorted by true taste, for the eye only.

# %% [markdown]
# Descent on the entries leaves the unknown answers at exactly zero: the loss does not contain them. Descent
# on the factors gets 48 of 53 right. Now 200 other surveys, with rivals. `begin` gives $U = \beta I$ and
# $V = 0$ for each survey; `side_by_side` takes the steps of `descend` on all of them; `truncated` keeps the
# largest singular values of a table (lesson 03).


# %%
def tables(seeds, d=10):
    """Surveys side by side: all answers, and Y, the known ones, 0 where blank; (surveys, d, d) each."""
    truths, known = (np.array(part) for part in zip(*(survey(seed, d) for seed in seeds), strict=True))
    return truths, truths * known


def filled(W, truths, Y):
    """Percentage of unknown answers with the right sign, for each survey; a zero counts half."""
    unknown = Y == 0
    return 50 + 50 * (np.sign(W.round(9)) * truths * unknown).sum((1, 2)) / unknown.sum((1, 2))


def mean(values):
    """Mean and its standard error, as text."""
    return f"{values.mean():.1f} ± {values.std(ddof=1) / np.sqrt(len(values)):.1f}"


many_truths, many_Y = tables(range(1000, 1200))
rng, steps = np.random.default_rng(0), (np.ones(2000), [2000])
coins = np.where(rng.random(many_Y.shape) < 0.5, -1.0, 1.0)
many_W = side_by_side(*begin([beta], many_Y), many_Y, *steps)[0, 0]
by_coins = side_by_side(*begin([beta], many_Y), coins * (many_Y != 0), *steps)[0, 0]
by_factors = filled(many_W, many_truths, many_Y)
scores = {
    "descent on factors": by_factors,
    "descent on factors, coin flips": filled(by_coins, coins, many_Y),
}
for rank in (1, 2, 3):
    scores[f"known answers cut to rank {rank}"] = filled(truncated(many_Y, rank), many_truths, many_Y)
print("unknown answers right, in percent, mean over 200 surveys and its standard error:")
for name, score in scores.items():
    print(f"{name:31} {mean(score)}")
assert np.allclose([score.mean() for score in scores.values()], [81.7, 50, 73.8, 77.8, 70.2], atol=1)
assert 3 < (by_factors - scores["known answers cut to rank 2"]).mean() < 5

# %% [markdown]
# Four in five on average; our survey is a lucky one. Where the answers are
# coin flips it gets half. And most of its success needs no training: the two largest
# singular values of the known answers, with zeros for blanks, get 78 percent right. That is four points
# behind, and the rank has to be told. **A product bets on a table of low rank.** *Which* table does it
# choose?

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4.2 Another idea of small
#
# As in lesson 03 write $W = \sum_k \sigma_k\, \xi_k \zeta_k^\top$ with its **singular values**
# $\sigma_1 \ge \sigma_2 \ge \dots \ge 0$ and orthonormal $\xi_k$ and $\zeta_k$. The number of $\sigma_k$
# above zero is the rank. Three norms of a matrix are norms of this list:
#
# | norm | | of the singular values |
# |:---|:---|:---|
# | Frobenius | $\lVert W \rVert_F = \sqrt{\sum_k \sigma_k^2} = \sqrt{\langle W, W \rangle}$ | their length |
# | nuclear | $\lVert W \rVert_* = \sum_k \sigma_k$ | the sum |
# | spectral | $\lVert W \rVert_{\mathrm{op}} = \max \xi^\top W \zeta$ over unit vectors | the largest |
#
# The smallest survey can be worked out by hand: two people, two films, one blank $w$, and grades, any
# numbers, for answers. As $\sigma_1^2 + \sigma_2^2 = \lVert W \rVert_F^2$ and
# $\sigma_1 \sigma_2 = |\det W|$,
#
# $$W = \begin{pmatrix} a & b \\ e & w \end{pmatrix}, \qquad \lVert W \rVert_*^2 = (\sigma_1 + \sigma_2)^2
# = a^2 + b^2 + e^2 + w^2 + 2\, \lvert aw - be \rvert .$$

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 04.2: The best blank
#
# ★★☆ · 8 minutes
#
# Which $w$ makes the nuclear norm smallest? Here $a \ne 0$; $b$ and $e$ are any numbers. A formula is wanted,
# correct to many digits, not a search. Guess: is it always the $w$ that makes the rank one?
#
# <details><summary>Hint</summary>
#
# The square has a kink at $w_0 = be/a$. Left and right of it, it is a parabola in $w$. Where would the two
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
axes[1].legend()
show(
    fig,
    alt="Two panels with curves against w. Left: the Frobenius norm is a smooth bowl with its minimum at 0, "
    "the nuclear norm has a kink at w = 1/2, which is its minimum. Right: the kink of the nuclear norm is at "
    "w = 6, marked by a dotted line, and its minimum at w = 1, far to the left of it.",
)

# %% [markdown]
# **Figure 2.** The norms of a table with blank $w$; marks at the minima, dotted where the rank is one.

# %% [markdown]
# The Frobenius norm is smallest at $w = 0$: no opinion. For the grades 2, 1, 1 the nuclear norm is smallest
# in its kink, where the rank falls to one; for 1, 2, 3 it settles for rank two. **A small nuclear norm leans
# towards low rank; it is not the same as low rank.**

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
# into equalities; columns beyond these are zero. $\square$

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 04.3: Unequal penalties
#
# ★★☆ · 5 minutes
#
# Keys and queries may get different weight decay. Let a pair be charged $\frac12 (\varepsilon_U \lVert U
# \rVert_F^2 + \varepsilon_V \lVert V \rVert_F^2)$, with both numbers positive. Which norm of $W$ is this
# now? Guess before you derive: the mean of the two penalties, the smaller one, ...? For given $U$, $V$ and
# penalties return
#
# 1. the lowest charge of any pair with the same product;
# 2. the ratio $\lVert U \rVert_F / \lVert V \rVert_F$ in a pair of lowest charge.
#
# <details><summary>Hint</summary>
#
# Write the charge as the cost of another pair, $(\sqrt{\varepsilon_U}\, U, \sqrt{\varepsilon_V}\, V)$. Of
# which product? And how long are its two factors when they are cheapest?
# </details>


# %%
@exercise("04.3")
def charges(U, V, eps_U, eps_V):
    """(lowest charge, ratio): two numbers, for U (d1, m), V (d2, m) and two penalties."""
    ### BEGIN SOLUTION
    return np.sqrt(eps_U * eps_V) * np.linalg.norm(U @ V.T, "nuc"), np.sqrt(eps_V / eps_U)
    ### END SOLUTION


# %%
check("04.3", charges)

# %% [markdown]
# Two penalties act like one, their geometric mean, and the norm is still nuclear.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4.4 The margin that belongs to a product
#
# In lesson 01, descent on $W$ found the direction of the shortest $W$ with all
# $\langle A_i, W \rangle \ge 1$. Ask for the *cheapest pair* instead, and the theorem translates:
#
# $$\min_{U, V}\ \tfrac12 \left( \lVert U \rVert_F^2 + \lVert V \rVert_F^2 \right) \ \text{ s.t. } \langle
# A_i, U V^\top \rangle \ge 1 \qquad = \qquad \min_W\ \lVert W \rVert_* \ \text{ s.t. } \langle A_i, W
# \rangle \ge 1 , \tag{P}$$
#
# if $m$ is at least the rank of a solution on the right. Only the problem on the right is convex. A solution
# of it is $W_{\mathrm{nuc}}$; with the Frobenius norm it is $W_{\mathrm{fro}}$. The **nuclear margin** of a
# matrix, and the largest one, are
#
# $$\mu(W) = \min_i \frac{\langle A_i, W \rangle}{\lVert W \rVert_*}, \qquad \hat\mu = \max_{W \ne 0}
# \mu(W) = \frac{1}{\lVert W_{\mathrm{nuc}} \rVert_*} .$$
#
# The certificate of lesson 02 carries over. For weights $\lambda_i \ge 0$, not all zero,
# $S = \sum_i \lambda_i A_i$ and every $W$,
#
# $$\mu(W) \le \frac{\sum_i \lambda_i \langle A_i, W \rangle}{\lVert W \rVert_* \sum_i \lambda_i} =
# \frac{\langle S, W \rangle}{\lVert W \rVert_* \sum_i \lambda_i} \le \frac{\lVert S
# \rVert_{\mathrm{op}}}{\sum_i \lambda_i} =: B(\lambda) .$$
#
# The last step replaces Cauchy-Schwarz: with the singular vectors of $W$, $\langle S, W \rangle = \sum_k
# \sigma_k\, \xi_k^\top S\, \zeta_k \le \lVert S \rVert_{\mathrm{op}} \lVert W \rVert_*$. Where both ends
# meet, the rank of $W$ is at most how often $S$ has its largest singular value.
#
# Our `solve` returns the table, its margin, the weights $\lambda_i$, and the solved problem, in which
# `svm.certified_rank` counts this for us. The *cosine* of two tables is their inner product over both
# Frobenius norms.


# %%
def certify(W, lam, A):
    """(mu(W), B(lam)), which enclose the largest margin: for W (d1, d2), weights lam (n,), A (n, d1, d2)."""
    lower = np.tensordot(A, W).min() / np.linalg.norm(W, "nuc")
    return lower, np.linalg.norm(np.tensordot(lam, A, 1), 2) / lam.sum()


def cosine(a, b):
    return (a * b).sum((-2, -1)) / np.linalg.norm(a, axis=(-2, -1)) / np.linalg.norm(b, axis=(-2, -1))


Y = truth * known
W_nuc, largest, lam, solved = solve(Y)
W_fro = solve(Y, "fro")[0]
lower, upper = certify(W_nuc, lam[known], A)
print(f"{'':6}Frobenius norm   nuclear norm   rank   cosine to the run on factors")
for name, W in (("W_fro", W_fro), ("W_nuc", W_nuc)):
    sizes = np.linalg.norm(W), np.linalg.norm(W, "nuc"), np.linalg.matrix_rank(W, tol=1e-6)
    print("{} {:12.3f} {:15.3f} {:10d} {:14.2f}".format(name, *sizes, cosine(W, path[-1])))
print(f"largest nuclear margin, proved: {lower:.6f} to {upper:.6f}")
assert np.allclose(W_fro, Y, atol=1e-6)
assert np.isclose(cosine(W_entries, W_fro), 1)
assert np.linalg.matrix_rank(W_nuc, tol=1e-6) == svm.certified_rank(*solved) == 3
assert -1e-9 <= 1 - lower / upper < 1e-6

# %% [markdown]
# $W_{\mathrm{fro}}$ is the table of known answers, zeros and all: the direction of descent on the entries.
# Our run on the factors is near $W_{\mathrm{nuc}}$, but not there. Why not?

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4.5 A race
#
# Descent penalises nothing. Why should it care for the factors' cost? While $W$ is so small that every
# $|\ell'(u_i)| \approx \frac12$, the pull is a constant matrix, with singular values and vectors of its own:
#
# $$M_0 = \frac{1}{2n} \sum_i A_i = \sum_k \bar\sigma_k\, \bar\xi_k \bar\zeta_k^\top .$$
#
# From $U = \beta I$, $V = 0$ the steps $U + \eta M_0 V$ and $V + \eta M_0^\top U$ keep the form
#
# $$U_t = \sum_k a_k\, \bar\xi_k \bar\xi_k^\top, \quad V_t = \sum_k b_k\, \bar\zeta_k \bar\xi_k^\top,
# \quad W_t = \sum_k a_k b_k\, \bar\xi_k \bar\zeta_k^\top,$$
#
# with $a_k \to a_k + \eta \bar\sigma_k b_k$ and $b_k \to b_k + \eta \bar\sigma_k a_k$. So $a_k + b_k$ is
# multiplied by $1 + \eta \bar\sigma_k$ at each step, $a_k - b_k$ by $1 - \eta \bar\sigma_k$, and
#
# $$\sigma_k(W_t) = a_k b_k = \frac{\beta^2}{4} \left( (1 + \eta \bar\sigma_k)^{2t} - (1 - \eta
# \bar\sigma_k)^{2t} \right) .$$
#
# Soon only the first of the two powers counts: $\sigma_k$ grows as if from $\beta^2 / 4$, at its own rate,
# about $2 \bar\sigma_k$ (a **rate** is the derivative of the logarithm). So small differences in
# $\bar\sigma_k$ become large ones in $W$.
#
# *Predict*: once $\sigma_1$ is large, does $\sigma_2$ grow faster than before, or more slowly?

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 04.4: Who grows, and how fast?
#
# ★★☆ · 10 minutes
#
# You are given the factors at some moment, and the pull $M$ there. Let $\sigma_1 > \sigma_2$ be the two
# largest singular values of $W = U V^\top$, no others equal to them, and a prime the change per unit of time,
# in tiny steps. Return the rates $\sigma_1' / \sigma_1$ and $\sigma_2' / \sigma_2$.
#
# <details><summary>Hint 1</summary>
#
# $\sigma_k = \xi_k^\top W \zeta_k$. By the product rule its speed has three terms. A vector that keeps its
# length moves at right angles to itself: what does that make of the two terms in which a vector moves?
# </details>
# <details><summary>Hint 2</summary>
#
# The speed of $W$ is exercise 04.1.
# </details>


# %%
@exercise("04.4")
def growth(U, V, M):
    """(rate of sigma_1, rate of sigma_2): two numbers, for U (d1, m), V (d2, m) and M (d1, d2)."""
    ### BEGIN SOLUTION
    xi, sigma, zeta = np.linalg.svd(U @ V.T)  # the rows of zeta are the vectors
    return tuple(xi[:, k] @ speed(U, V, M) @ zeta[k] / sigma[k] for k in (0, 1))
    ### END SOLUTION


# %%
check("04.4", growth)


# %%
def race(M, beta, eta, t):
    """The singular values of W_t under a constant pull M, from U = beta I, V = 0."""
    bar = np.linalg.svd(M, compute_uv=False)
    return beta**2 / 4 * ((1 + eta * bar) ** (2 * t) - (1 - eta * bar) ** (2 * t))


singular = np.linalg.svd(path, compute_uv=False)
M0, at = pull(np.zeros((d, d)), A), {t: k for k, t in enumerate(times)}
shown = np.arange(5, 601, 5)
predicted = np.array([race(M0, beta, 1.0, t) for t in shown])
print("step   rate of sigma_2, predicted   in the next 5 steps")
for t in (50, 150, 200, 250):
    U, V = pairs[at[t]]
    forecast = growth(U, V, pull(U @ V.T, A))[1]
    found = np.log(singular[at[t] + 1, 1] / singular[at[t], 1]) / 5
    print(f"{t:4} {forecast:27.3f} {found:21.3f}")
    assert abs(forecast / found - 1) < 0.05, "see exercise 04.4"

# %% [markdown]
# *Predict*: by the formula for $\sigma_k(W_t)$, which power of $\beta$ is the ratio $\sigma_2 / \sigma_1$
# when $\sigma_1$ reaches 1? We try two starts on a hundred surveys. Last, how far our own run has come.

# %%
few = many_Y[:100]
bar = np.linalg.svd(few / 2 / (few != 0).sum((1, 2), keepdims=True), compute_uv=False)
arrived = []
print("start    sigma_2 / sigma_1 at sigma_1 = 1: lowest tenth below   median   highest tenth above")
for start in (1e-3, 1e-4):
    run = side_by_side(*begin([start], few), few, np.ones(600), range(3, 601, 3))[:, 0]
    logs = np.log(np.linalg.svd(run, compute_uv=False)[..., :2])
    arrived.append([np.interp(0, one[:, 0], one[:, 1] - one[:, 0]) for one in logs.swapaxes(0, 1)])
    low, middle, high = np.quantile(np.exp(arrived[-1]), [0.1, 0.5, 0.9])
    print(f"{start:.0e} {low:52.4f} {middle:8.3f} {high:21.2f}")
found, q = -np.diff(arrived, axis=0)[0] / np.log(10), 2 - 2 * bar[:, 1] / bar[:, 0]
print(f"power of the start: {q.min():.2f} to {q.max():.2f}, wrong by at most {abs(found - q).max():.3f}")
assert abs(found - q).max() < 0.02
assert np.allclose(np.quantile(np.exp(arrived[0]), [0.5, 0.9]), [0.028, 0.19], rtol=0.05)
print("step   sigma_3 / sigma_1   known right   cosine to W_nuc")
for t in (600, 2000):
    third, fits = singular[at[t], 2] / singular[at[t], 0], ((np.sign(path[at[t]]) == truth) & known).sum()
    print(f"{t:4} {third:19.3f} {fits:13} {cosine(path[at[t]], W_nuc):17.2f}")
    assert fits == 47
    assert third < 0.015 < 0.935 < cosine(path[at[t]], W_nuc) < 0.945

# %% jupyter={"source_hidden": true} slideshow={"slide_type": "subslide"}
fig, ax = plt.subplots(figsize=(5.4, 3.0))
for k, color in enumerate(("blue", "vermillion", "green")):
    label = rf"$\sigma_{k + 1}$"
    ax.plot(shown, singular[: len(shown), k], color=COLORS[color], linewidth=3.5, alpha=0.8, label=label)
    label = "predicted by race" if k == 2 else None
    ax.plot(shown, predicted[:, k], "--", color=COLORS["black"], linewidth=1.3, label=label)
ax.set(yscale="log", ylim=(1e-8, 1e3), ylabel="singular values of $W_t$", xlabel="step $t$")
ax.legend(loc="lower right", fontsize=10)
show(
    fig,
    alt="Three singular values against steps, to 600, on a logarithmic axis. They rise along dashed lines, "
    "the first until it levels off near step 200, the second near step 300; the third falls far behind its "
    "line and levels off at a hundredth of the first.",
)

# %% [markdown]
# **Figure 3.** Descent on the factors from $\beta = 0.001$, step size 1, and `race` (dashed).

# %% [markdown]
# When $\sigma_1$ reaches 1, $\sigma_2$ has grown by the factor
# $(4 / \beta^2)^{\bar\sigma_2 / \bar\sigma_1}$, so the ratio goes like
# $\beta^{2 - 2 \bar\sigma_2 / \bar\sigma_1}$: *the smaller the start, the greedier the run*. This power is
# right on all hundred surveys. **Descent on factors from a small start is greedy**: on half of the surveys
# $\sigma_2$ is then below 3 percent of $\sigma_1$. But where $\bar\sigma_2$ is nearly $\bar\sigma_1$ both
# come up together: on one survey in ten $\sigma_2$ has a fifth already. And on ours $\sigma_2$ slows down
# when $\sigma_1$ levels off, from a rate of .06 to one of .04.
#
# In tiny steps $U^\top U$ and $V^\top V$ both change by $U^\top M V + V^\top M^\top U$, so they differ by
# $\beta^2 I$ for ever: our factors are *balanced*, $U^\top U \approx V^\top V$.
#
# At step 600 our run has all known answers right. After 1,400 more steps $\sigma_3$ is still about a
# hundredth of $\sigma_1$, and the cosine to $W_{\mathrm{nuc}}$ still 0.94. Is it merely slow?

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4.6 The stall
#
# > **Theorem** (Lyu & Li 2020, Ji & Telgarsky 2020, informally). *Follow gradient flow (descent with
# > infinitely small steps) on the logistic loss of $\langle A_i, U V^\top \rangle$. If it ever reaches
# > $L < \frac1n \log 2$ (then every answer is right), then $L \to 0$, and the direction of $(U, V)$
# > converges to that of a KKT point of the problem on the left of (P).*
#
# A **KKT point** satisfies the conditions of lesson 02: all $\langle A_i, U V^\top \rangle \ge 1$, and there
# are $\lambda_i \ge 0$, positive only where $\langle A_i, U V^\top \rangle = 1$, such that
#
# $$U = S V, \qquad V = S^\top U, \qquad S = \sum_i \lambda_i A_i .$$
#
# That problem is not convex, so a KKT point need not be the best. How good is it? Its factors are balanced,
# $U^\top U = U^\top S V = V^\top V$, so $W W^\top = U V^\top V U^\top = (U U^\top)^2$: the sum of the
# $\sigma_k$ is $\lVert U \rVert_F^2 = \langle U, S V \rangle$. As only answers with
# $\langle A_i, W \rangle = 1$ have weight,
#
# $$\lVert W \rVert_* = \langle S, W \rangle = \sum_i \lambda_i .$$
#
# Put this into the certificate: $\mu(W) \ge \hat\mu / c$, where $c = \lVert S \rVert_{\mathrm{op}}$. By
# $U = S V$ and the balance $\xi_k^\top S \zeta_k = 1$ in every direction in which $W$ lives, so $c \ge 1$.
# If $c = 1$, the point is a solution of (P). If $c > 1$, some direction is pulled harder than all those of
# $W$, and missing there. Will a run end here?

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 04.5: What is missing, and how fast does it grow?
#
# ★★★ · 15 minutes
#
# Let the unit vectors $\xi$ and $\zeta$ be the **leading pair** of the pull $M$, the singular vectors of its
# largest singular value. The factors have of it the **size**
#
# $$N = \tfrac14 \lVert U^\top \xi + V^\top \zeta \rVert^2 .$$
#
# (If the factors are balanced and $\xi$, $\zeta$ are singular vectors of $W$, then $N$ is their $\sigma_k$.)
# Its **share** is $N / C$, with the cost $C$ of section 4.3. For a while the pull only fades: its direction
# stays, and with it $\xi$ and $\zeta$. Derive the rates of $N$ and $C$ under gradient flow. Return
#
# 1. the power $c = \frac{d \log N}{d \log C}$ at the given $U$, $V$ and $M$;
# 2. the factor by which $C$ must grow until the share is `then`, if $c$ stays as it is.
#
# <details><summary>Hint 1</summary>
#
# With which speeds do the two vectors $U^\top \xi$ and $V^\top \zeta$ move, and their sum?
# </details>
# <details><summary>Hint 2</summary>
#
# $\frac12 \lVert U \rVert_F^2$ moves with $\langle U, U' \rangle = \langle U, M V \rangle$. What has this to
# do with $\langle M, W \rangle$? And if $C$ is $f$ times as large, $N$ is $f^c$ times as large.
# </details>


# %%
@exercise("04.5")
def wait(U, V, M, then):
    """(c, factor): two numbers, for U (d1, m), V (d2, m), the pull M (d1, d2) and a share."""
    ### BEGIN SOLUTION
    left, values, right = np.linalg.svd(M)
    N = ((U.T @ left[:, 0] + V.T @ right[0]) ** 2).sum() / 4  # N' = 2 values[0] N
    C = ((U**2).sum() + (V**2).sum()) / 2  # C' = 2 <M, W>
    c = values[0] * C / (M * (U @ V.T)).sum()
    return c, (then * C / N) ** (1 / (c - 1))
    ### END SOLUTION


# %%
check("04.5", wait)

# %% [markdown]
# <details><summary>The derivation</summary>
#
# $M \zeta = s\, \xi$ and $M^\top \xi = s\, \zeta$, so the sum of $U^\top \xi$ and $V^\top \zeta$ grows at the
# rate $s$. Hence $N' = 2 s\, N$, and $C' = 2 \langle M, W \rangle$.
# </details>
#
# While $M$ keeps its leading pair, with $s = \lVert M \rVert_{\mathrm{op}}$,
#
# $$\boxed{\ d \log N = c\; d \log C, \qquad c = \frac{s\, C}{\langle M, W \rangle}\ }$$
#
# and the share grows like the power $c - 1$ of the cost. In the limit of a run, if the direction of $M$
# converges, $M$ is a multiple of $S$, and this is the $c = \lVert S \rVert_{\mathrm{op}}$ of the certificate.
# (At the point itself it need not be: there $M$ weights all tight answers equally.)
#
# Let $c > 1$ at the KKT point. There $U^\top \xi = c\, V^\top \zeta = c^2\, U^\top \xi$, so $N = 0$. Say a
# **free column** exists, $m > \operatorname{rank} W$: some unit vector $q$ with $U q = V q = 0$. Add
# $\delta\, \xi q^\top$ to $U$ and $\delta\, \zeta q^\top$ to $V$: this moves $W$, and with it $M$, by order
# $\delta^2$ only. So $M$ keeps its pair while $\delta$ grows faster than the factors: the point repels. A run
# may still wait there for long, a **stall**. Without a free column a missing direction moves $W$ at first
# order, $M$ may turn against it, and a run may settle for good.

# %% [markdown]
# How well does the law hold, since $M$ does turn a little? `follow` takes *normalised* steps so short that
# they follow the flow; `far` rescales the pull so that it never underflows. It stops at given *digits* of the
# loss, $-\log_{10} L$, which far out grow like $C$. On thirty surveys we take $c$ at 10 digits, and the
# power by which $N$ grows until 11; then from 100 to 105. The rival is the power 1, a share that stands
# still. *Predict*: is your forecast of when the share has doubled early or late?


# %%
def logs(U, V, M):
    """log N and log C of many pairs (U, V), N along the leading pairs of M."""
    left, _, right = np.linalg.svd(M)
    N = ((U.mT @ left[..., :1] + V.mT @ right[..., :1, :].mT) ** 2).sum((-2, -1)) / 4
    return np.log([N, ((U**2).sum((-2, -1)) + (V**2).sum((-2, -1))) / 2])


others, large = (tables(range(1200, 1230), size)[1] for size in (10, 16))
begun = {
    "10 by 10": (others, begin([1e-5], others)),
    "  random": (others, 1e-5 * rng.normal(size=(2, 1, *others.shape))),
    "16 by 16": (large, begin([1e-5], large)),
}
digits, points = [10, 11, 12, 14, 17, 20, 25, 30, 40, 50, 70, 100, 105], {}
print("               digits      c: least, median, most        power / c   (power - 1) / (c - 1), least")
for name, (Ys, pair) in begun.items():
    Us, Vs, _ = (part[:, 0] for part in follow(*pair, Ys, digits))
    for k in (0, -2):
        M = far(Us[k] @ Vs[k].mT, Ys)[0]
        log_N, log_C = logs(Us, Vs, M)
        gained = log_N - log_C - (log_N - log_C)[k]  # by the logarithm of the share
        doubled = 2 * np.exp(log_N - log_C)[k]
        c, factor = np.transpose([wait(*one) for one in zip(Us[k], Vs[k], M, doubled, strict=True)])
        power = 1 + gained[k + 1] / (log_C[k + 1] - log_C[k])
        points[name, digits[k]], late = (c, power), c > 1.3
        part = ((power - 1) / (c - 1))[late].min()
        print(f"{name} {digits[k]:6} to {digits[k + 1]:3}", end="")
        print("{:12.2f} {:6.2f} {:6.2f}".format(*np.quantile(c, [0, 0.5, 1])), end="")
        print(f"{(power / c).min():14.2f} to {(power / c).max():4.2f} {part:14.2f} (c > 1.3: {late.sum()})")
        if k == 0:
            steady = np.maximum.accumulate(gained)[:, late].T
            found = np.array([np.interp(np.log(2), s, digits, right=np.inf) for s in steady])
            early = (10 * factor[late] < found).sum()
        assert abs(power / c - 1).max() < (0.1 if k == 0 else 0.03), "see exercise 04.5"
        assert part > 0.8
    print(f"{name.strip()}: share doubled later than forecast on {early} of {len(found)}\n")
    assert early == len(found), "see exercise 04.5"

# %% jupyter={"source_hidden": true} slideshow={"slide_type": "subslide"}
fig, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.4))
starts, marks = [1e-4, 1e-5], np.array([10, 14, 20, 30, 45, 70, 100, 150, 200, 300, 500])
Us, Vs, _ = follow(*begin(starts, Y), Y, marks)
for k, (start, color) in enumerate(zip(starts, ("vermillion", "green"), strict=True)):
    M = far(Us[0, k] @ Vs[0, k].T, Y)[0]
    log_N, log_C = logs(Us[:, k], Vs[:, k], M)
    share = np.exp(log_N - log_C)
    law = share[0] * np.exp((log_C - log_C[0]) * (wait(Us[0, k], Vs[0, k], M, 1.0)[0] - 1))
    label = rf"$\beta = 10^{{{np.log10(start):.0f}}}$"
    left.loglog(marks, share, "o-", color=COLORS[color], markersize=4, label=label)
    law, label = np.where(law < 0.2, law, np.nan), "the law" if k else None
    left.loglog(marks, law, "--", color=COLORS["black"], linewidth=1.2, label=label)
left.set(xlabel="digits of the loss", ylabel="share $N / C$", title="our survey")
left.legend(fontsize=10)
for name, marker, color in zip(begun, "os^", ("blue", "orange", "purple"), strict=True):
    for early, filling in ((10, "none"), (100, COLORS[color])):
        label = name.strip() if early == 10 else None
        style = {"color": COLORS[color], "markerfacecolor": filling, "markersize": 5, "label": label}
        right.plot(*points[name, early], marker, **style)
right.plot([1, 3.8], [1, 3.8], color=COLORS["black"], linewidth=1)
right.axhline(1, color=COLORS["grey"], linestyle="--", linewidth=1)
right.set(xlabel="$c$", ylabel="power of $N$, measured", title="thirty surveys, three ways")
right.legend(fontsize=10)
show(
    fig,
    alt="Left: the share against the digits of the loss, on logarithmic axes, for two starts; each rises "
    "along a dashed line at first, then bends below it. Right: measured powers against c, from 1 to nearly "
    "4: all points lie on the diagonal or just below it.",
)

# %% [markdown]
# **Figure 4.** Left: dashed is the law with the $c$ of ten digits. Right: powers from 10 digits to 11 (open)
# and from 100 to 105 (filled). On the diagonal the law is exact; grey is the rival.

# %% [markdown]
# In all these runs, with $m = d$ columns, the power of $N$ is within a tenth of $c$, from 100 to 105 digits
# within 3 percent. But the law is local: where $c > 1.3$ your forecast is always early.
#
# With $m = 2$ no column is free. *Predict*: do $c$ and the share still move after 100 digits?

# %%
narrow = 1e-3 * np.random.default_rng(4).normal(size=(2, 20, 10, 2))
Us, Vs, _ = follow(*narrow, others[:20], [100, 200])
M = far(Us @ Vs.mT, others[:20])[0]
c, (log_N, log_C) = c_of(Us @ Vs.mT, others[:20]), logs(Us, Vs, M)  # the factors are balanced by now
smaller, moved = (np.diff(log_N - log_C, axis=0) < 0).sum(), abs(c[1] - c[0]).max()
print(f"m = 2, 20 surveys at 200 digits: c from {c[1].min():.2f} to {c[1].max():.2f}")
print(f"c has moved by at most {moved:.3f} since 100 digits; the share has fallen on {smaller} of 20")
assert c.min() > 1.1
assert moved < 0.03
assert smaller == 20

# %% [markdown]
# On these twenty surveys the law fails: $c$ stays above 1 and hardly moves, while the share falls.
#
# With steps of fixed size each further digit takes about ten times as many steps (lesson 01).

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4.7 A penalty, and the blanks
#
# Weight decay can end the wait: minimise the loss plus $\varepsilon$ times the cost. Now
# $U' = M V - \varepsilon U$ and $V' = M^\top U - \varepsilon V$, and the two lines of exercise 04.5 give
# $N' = 2 (s - \varepsilon) N$. Where $W$ rests, the pull along its directions is $\varepsilon$. With a
# free column, what is pulled harder grows as in section 4.6, at a rate that does not fade: a rest with
# $s > \varepsilon$, that is $c > 1$, repels.
#
# At a rest with $s = \varepsilon$, $W$ minimises the loss plus $\varepsilon \lVert W \rVert_*$: for every
# other $\tilde W$ the convex loss has $L(\tilde W) \ge L(W) - \langle M, \tilde W - W \rangle$, and
# $\langle M, \tilde W \rangle \le \varepsilon \lVert \tilde W \rVert_*$ (section 4.4) with equality at $W$.
# Do all starts get there? *Predict* also: are its blanks better than those of the short run of section 4.1?

# %%
decay, (_, Ys) = 1e-3, tables(range(1200, 1220))
(W,) = side_by_side(*begin([1e-8, 0.1, 10], Ys), Ys, np.repeat([4, 48], [2000, 4400]), [6400], decay)
away = np.linalg.norm(W - W[1], axis=(-2, -1)) / np.linalg.norm(W[1], axis=(-2, -1))
print(f"20 surveys, three starts: tables at most {100 * away.max():.1f} percent apart")
assert away.max() < 0.01
assert c_of(W, Ys).max() < 1.003  # c of W's balanced factors: nothing is missing
rests = c_of(side_by_side(*narrow, Ys, 4 * np.ones(8000), [8000], decay)[0], Ys)
print(f"m = 2: c at rest up to {rests.max():.2f}, above 1.3 on {(rests > 1.3).sum()} of 20 surveys")
assert (rests > 1.3).sum() == 19
W_nucs = solve(many_Y)[0]
decayed, strong = (  # the larger penalty needs the smaller steps
    side_by_side(*begin([0.1], many_Y), many_Y, np.repeat([4, late], [500, 1000]), [1500], eps)[0, 0]
    for late, eps in ((48, decay), (12, 0.01))
)
print("200 surveys: unknown answers right, in percent   less those of 4.1")
differences = []
for name, W in (("penalty 0.001", decayed), ("penalty 0.01", strong), ("W_nuc", W_nucs)):
    score = filled(W, many_truths, many_Y)
    differences.append((score - by_factors).mean())
    print(f"{name:28} {mean(score)} {mean(score - by_factors):>24}")
near = cosine(decayed, W_nucs).mean()
print(f"mean cosine of the table with penalty 0.001 to W_nuc: {near:.3f}")
assert c_of(np.array([decayed, strong]), many_Y).max() < 1.003
assert near > 0.98
assert np.allclose(differences, [-1.0, -0.4, -1.5], atol=0.3)

# %% [markdown]
# With $m = d$ and $\varepsilon = 0.001$ all three starts, $\beta$ from $10^{-8}$ to 10, end within 1 percent
# of one table, near $W_{\mathrm{nuc}}$. It fills the blanks *worse* than the short run of section 4.1, by
# about one point of a hundred; $W_{\mathrm{nuc}}$ loses one and a half. With $\varepsilon = 0.01$ the
# difference is within two standard errors. With $m = 2$, 19 of 20 runs rest at $c > 1.3$.
#
# **What a product knows is low rank, and here a short run from a small start is a better bet on it than the
# smallest nuclear norm.** Whether it beats a penalty depends on $\varepsilon$. The difference is small, and
# measured for a truth with two tastes only.
#
# What then is the penalty for? With $m = d$ its table does not depend on the start, and at a rest
# $s = \varepsilon$ proves that it is a minimum.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4.8 From films to attention
#
# Attention compares a token $x_t$ with a query $z$ through $x_t^\top K Q^\top z$, with trained $K$ and $Q$: a
# product again. To prefer token $\alpha$ to $t$ is to have $\langle A_i, K Q^\top \rangle > 0$ for
# $A_i = (x_\alpha - x_t)\, z^\top$. Lesson 11 trains $K$ and $Q$, and meets the stall again. Heads often
# have $m < d$: is a column free (section 4.6)?

# %% [markdown] slideshow={"slide_type": "skip"}
# ## 4.9 Your own start *(optional)*
#
# **Try it.** What does a smaller start do at 4 digits, and what does patience do?
#
# <details><summary>Answer</summary>
#
# A smaller start shrinks all but two singular values. From $10^{-3}$ patience brings the third back; from
# $10^{-6}$ even 30 digits do not: the stall.
# </details>


# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output", "widget"]
def turn(start, digits):
    """Our survey's table and the shares of its singular values when the loss is 10^-digits."""
    U, V, _ = follow(*begin([start], Y), Y, [digits])
    W = U[0, 0] @ V[0, 0].T
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

# %%
U, V, _ = follow(*begin([1e-3, 1e-6], Y), Y, [4, 30])  # what Try it says: (digits, starts, d, d)
sizes = np.linalg.svd(U @ V.mT, compute_uv=False)
thirds = sizes[..., 2] / sizes[..., 0]
for name, third in zip((4, 30), thirds, strict=True):
    print(f"sigma_3 / sigma_1 at {name} digits: {third[0]:.4f} from 1e-3, {third[1]:.4f} from 1e-6")
assert thirds[1, 0] > 0.1 > 0.001 > thirds[1, 1]

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Questions
#
# <details><summary>1. Let W, U and V be diagonal. What do the nuclear norm and the penalty become?</summary>
#
# The $\ell_1$ norm of the diagonal, and an $\ell_1$ penalty on it: at rest with $c = 1$ it is often sparse.
# </details>

# %%
progress("04")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - $W = U V^\top$ moves along $M V V^\top + U U^\top M$, blanks included, and bets on low rank.
# - The cheapest way to write $W$ as $U V^\top$ costs the nuclear norm, which leans towards low rank.
# - Descent on factors is greedy: the smaller the start, the smaller $\sigma_2$ when $\sigma_1$ is 1.
# - At a KKT point $S$ proves $1/c$ of the largest margin, $c = \lVert S \rVert_{\mathrm{op}}$. With
#   a free column a point with $c > 1$ repels, and the size $N$ of what is missing grows like $C^c$ nearby;
#   without one a run can rest there.
# - On our surveys a short run from a small start fills the blanks a little better than $W_{\mathrm{nuc}}$ and
#   than the table with the penalty 0.001, which in return, with $m = d$, does not depend on the start.

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
#   NeurIPS 2020, arXiv:2006.06657. The theorem of section 4.6.
# - J. Jin, Z. Li, K. Lyu, S. Du, J. Lee. *Understanding incremental learning of gradient descent: a
#   fine-grained analysis of matrix sensing.* ICML 2023, arXiv:2301.11500. The race, one rank after the
#   other, proved.
#
# **New in the library:** [`svm.certified_rank`](../mini_attn/svm/nuclear.py).
#
# **Next:** [lesson 05](05_softmax_attention.ipynb) meets the softmax.
