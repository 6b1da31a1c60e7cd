# %% [markdown] slideshow={"slide_type": "slide"}
# # 04 · Factored weights and the nuclear norm
#
# Ten people have each seen some of ten films and told us which they liked. Fit a table $W$ to these answers
# by gradient descent, and it says nothing about the other films. Write the same table as a product $W = U
# V^\top$: now it fills in the blanks, mostly right.
#
# **The question: where does descent lead a product of two matrices, and when does it reach a table of
# smallest nuclear norm?**
#
# Attention multiplies two matrices too: keys and queries.

# %% [markdown] slideshow={"slide_type": "skip"}
# **After this lesson you can**
#
# - say how a product moves, and why its blanks move;
# - state the max-margin problem that short factors solve, and certify an answer;
# - predict how fast each singular value grows, and what a smaller start changes;
# - say what a run remembers of its start, and where a penalty stops it.
#
# **You need** [lesson 01](01_logistic_regression_bias.ipynb), [lesson 02](02_hard_margin_svm.ipynb) (KKT
# conditions, certificates) and [lesson 03](03_optimizer_geometry.ipynb) (singular values). About 85 minutes
# (130 with a pencil), four exercises.

# %%
import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure

from course.exercise import check, exercise, progress, todo
from course.figure import show
from course.replicate.lesson_04 import begin, c_of, follow, judge, rest, side_by_side, solve
from mini_attn import plots, svm, widgets
from mini_attn.plots import COLORS

plots.style()
torch.set_num_threads(1)  # small matrices: one thread is fastest

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4.1 A table with blanks
#
# The truth, made up: every person and every film has two coordinates of taste, and the answer is
# $+1$ (liked) or $-1$, the sign of their inner product. About half of the answers are known.


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
# The model predicts the sign of $x^\top W z$, where $x$ and $z$ are all zeros and a single one: $x$ says
# which person, $z$ which film. Known answer $i$, times its label, gives the **signed feature matrix**
#
# $$A_i = y_i\, x_i z_i^\top, \qquad u_i = \langle A_i, W \rangle = y_i\,
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
# Let $W = U V^\top$ with trainable $U$ of shape $(d_1, m)$ and $V$ of shape $(d_2, m)$. In tiny steps entries
# would move with the speed $M$; each factor moves with that of its own negative gradient, $-\partial
# L/\partial U$ or $-\partial L/\partial V$. With which speed does the product move? Guess first: does a blank
# move, where $M$ is zero?
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
# So blanks move: the pull of an answer passes on to films with similar rows of $V$ and people with similar
# rows of $U$. Two runs of 2,000 steps of size one: on the entries of $W$ from zero, and on factors with ten
# columns each from $U = \beta I$, $V = 0$ with $\beta = 0.001$; from $U = V = 0$ nothing would move.


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
for name, W, blanks in (("entries", W_entries, 0), ("factors", path[-1], 48)):
    right = np.sign(W) == truth
    print(f"descent on {name}, right: {right[known].sum()} of 47 known, {right[~known].sum()} of 53 unknown")
    assert (right[known].sum(), right[~known].sum()) == (47, blanks)

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
axes[1].plot(*np.argwhere(known).T[::-1], ".", color=COLORS["black"], markersize=3)
wrong = np.argwhere((np.sign(path[-1]) != truth) & ~known)
axes[1].plot(wrong[:, 1], wrong[:, 0], "x", color=COLORS["black"], markersize=8, markeredgewidth=2)
fig.colorbar(shade, ax=axes, shrink=0.75, label="relative to a known entry")
show(
    fig,
    alt="Three tables of ten people by ten films, coloured by sign. Descent on W has 53 blank cells, those "
    "of the unknown answers; descent on U, V fills them, nearly as in the last table, which shows all "
    "answers. In the second, dots mark known answers and crosses five cells where it differs.",
)

# %% [markdown]
# **Figure 1.** Purple is positive, orange negative, white zero. Dots: known. Crosses: wrong.

# %% [markdown]
# Now 200 other surveys, by factors from $U = \beta I$, $V = 0$ (`begin`, `side_by_side`: tables of shape
# (times, starts, surveys, $d$, $d$)), once with $\beta = 10$ in steps of $1/100$, so that $W$ sets out as
# fast as entries. A rival needs no training: $Y Y^\top Y$, with $Y$ the known answers and 0 where blank
# (others' answers count by how far they agree with yours). A zero counts half.


# %%
def tables(seeds, d=10):
    """Surveys side by side: all answers, and Y, the known ones, 0 where blank; (surveys, d, d) each."""
    truths, known = (np.array(part) for part in zip(*(survey(seed, d) for seed in seeds), strict=True))
    return truths, truths * known


def filled(W, truths, Y):
    """Percentage of unknown answers with the right sign, for each survey; a zero counts half."""
    unknown = Y == 0
    return 50 + 50 * (np.sign(W.round(9)) * truths * unknown).sum((1, 2)) / unknown.sum((1, 2))


def blank_size(W, Y):
    """The mean size of a blank over that of a known answer, for each survey."""
    return np.abs(W).mean((1, 2), where=Y == 0) / np.abs(W).mean((1, 2), where=Y != 0)


def cosine(a, b):
    return (a * b).sum((-2, -1)) / np.linalg.norm(a, axis=(-2, -1)) / np.linalg.norm(b, axis=(-2, -1))


def with_error(values):
    """Mean and its standard error, as text."""
    return f"{values.mean():.1f} ± {values.std(ddof=1) / np.sqrt(len(values)):.1f}"


many_truths, many_Y = tables(range(1000, 1200))
many_W = side_by_side(*begin([beta], many_Y), many_Y, np.ones(2000), [2000])[0, 0]
many_large = side_by_side(*begin([10], many_Y), many_Y, np.full(2000, 0.01), [2000])[0, 0]
by_factors, found, cube = filled(many_W, many_truths, many_Y), [], many_Y @ many_Y.mT @ many_Y
three = {"descent on factors, from 0.001": many_W, "descent on factors, from 10": many_large, "Y Y^T Y": cube}
print("200 surveys, means             unknown right, percent   |blank| / |known|")
for name, W in three.items():
    score, size = filled(W, many_truths, many_Y), blank_size(W, many_Y).mean()
    found.append([score.mean(), size])
    print(f"{name:30} {with_error(score):>22} {size:19.3f}")
assert np.allclose(found, [[81.7, 0.71], [79.1, 0.004], [78.4, 0.34]], rtol=0.01, atol=0.002)
assert cosine(many_large * (many_Y == 0), cube * (many_Y == 0)).min() > 0.9999
assert (many_large * cube)[(many_Y == 0) & (cube != 0)].min() > 0

# %% [markdown]
# Most of this needs neither training nor a small start: from 10 the blanks have .004 of a known answer's
# size, and are those of $Y Y^\top Y$, scaled (question 3), sign by sign where that is not 0. A small start
# gives the blanks *size*. *Which* table does the run from $0.001$ choose?

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4.2 Another idea of small
#
# Write $W = \sum_k \sigma_k\, \xi_k \zeta_k^\top$ with its **singular values** $\sigma_1 \ge \sigma_2 \ge
# \dots \ge 0$ and orthonormal $\xi_k$ and $\zeta_k$. The rank counts those above zero. The *Frobenius norm*
# $\lVert W \rVert_F = \sqrt{\langle W, W \rangle}$ is the length of their list, the **nuclear norm** $\lVert
# W \rVert_*$ their sum, and the *spectral norm* $\lVert W \rVert_{\mathrm{op}} = \max \xi^\top W \zeta$ over
# unit vectors their maximum.
#
# The smallest survey: two people, two films, one blank $w$, numbers for answers. As
# $\sigma_1^2 + \sigma_2^2 = \lVert W \rVert_F^2$ and $\sigma_1 \sigma_2 = |\det W|$,
#
# $$W = \begin{pmatrix} a & b \\ e & w \end{pmatrix}, \qquad \lVert W \rVert_*^2 = (\sigma_1 + \sigma_2)^2
# = a^2 + b^2 + e^2 + w^2 + 2\, \lvert aw - be \rvert .$$

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 04.2: The best blank
#
# ★★☆ · 8 minutes
#
# Which $w$ makes the nuclear norm smallest? Here $a \ne 0$; $b$ and $e$ are any numbers. Give a formula, not
# a search. Guess: is it always the $w$ that makes the rank one?
#
# <details><summary>Hint</summary>
#
# The square has a kink at $w_0 = be/a$. Left and right of it, it is a parabola in $w$. Where would the two
# parabolas have their minima, and when is such a minimum on its own side of the kink? There is no other
# place to look, and by convexity what you find is the minimum.
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
norms, found = {}, []
for a, b, e in ((2.0, 1.0, 1.0), (1.0, 2.0, 3.0)):
    candidates = np.array([[[a, b], [e, w]] for w in corner])
    norms[a, b, e] = [np.linalg.norm(candidates, kind, axis=(1, 2)) for kind in ("fro", "nuc")]
    frobenius, nuclear = (corner[norm.argmin()] for norm in norms[a, b, e])
    w = best_blank(a, b, e)
    assert np.isclose(w, nuclear), "see exercise 04.2"
    found.append([frobenius, nuclear, np.linalg.matrix_rank([[a, b], [e, w]])])
    print(f"{a:.0f}, {b:.0f}, {e:.0f}, w: Frobenius norm least at {frobenius:.0f}, nuclear at {nuclear:.1f}")
assert np.allclose(found, [[0, 0.5, 1], [0, 1, 2]])

# %% jupyter={"source_hidden": true} slideshow={"slide_type": "fragment"}
fig, axes = plt.subplots(1, 2, figsize=(8.2, 2.9))
for ((a, b, e), values), reach, ax in zip(norms.items(), (3, 7), axes, strict=True):
    near = corner <= reach
    lines = ("Frobenius", "o", "blue"), ("nuclear", "s", "vermillion")
    for value, (label, marker, color) in zip(values, lines, strict=True):
        ax.plot(corner[near], value[near], color=COLORS[color], label=label)
        ax.plot(corner[value.argmin()], value.min(), marker, markersize=9, color=COLORS[color])
    ax.axvline(b * e / a, color=COLORS["black"], linestyle=":", linewidth=1.6)
    ax.set(title=f"answers {a:.0f}, {b:.0f}, {e:.0f}", xlabel="the blank, $w$", ylabel="norm of the table")
axes[1].legend()
show(
    fig,
    alt="Two panels with curves against w. Left: the Frobenius norm is a smooth bowl with its minimum at 0, "
    "the nuclear norm has a kink at w = 1/2, which is its minimum. Right: the kink of the nuclear norm is at "
    "w = 6, marked by a dotted line, and its minimum at w = 1, far to the left of it.",
)

# %% [markdown]
# **Figure 2.** Norms against the blank $w$. Marks: minima; dotted: rank one.

# %% [markdown]
# The nuclear norm is smallest in its kink, where the rank falls to one, for 2, 1, 1 but not for 1, 2, 3. **A
# small nuclear norm leans towards low rank; it is not the same.**

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4.3 Short factors, small nuclear norm
#
# The **cost** of a pair, $C = \frac12 (\lVert U \rVert_F^2 + \lVert V \rVert_F^2)$, is what weight decay
# charges.
#
# > **Theorem** (Srebro, Rennie & Jaakkola 2005). *Let $U$ and $V$ have $m \ge \operatorname{rank} W$ columns.
# > Then*
# >
# > $$\lVert W \rVert_* = \min_{U V^\top = W}
# > \tfrac12 \left( \lVert U \rVert_F^2 + \lVert V \rVert_F^2 \right).$$

# %% [markdown]
# **Proof.** Let $U_j$, $V_j$ be the columns of any pair with $U V^\top = \sum_j U_j V_j^\top = W$. Let $\Xi$
# and $Z$ have the $\xi_k$ and $\zeta_k$ with $\sigma_k > 0$ as columns; then $\lVert \Xi Z^\top
# \rVert_{\mathrm{op}} \le 1$, and
#
# $$\begin{aligned} \lVert W \rVert_* = \textstyle\sum_k \sigma_k = \langle \Xi Z^\top, W \rangle &=
# \textstyle\sum_j U_j^\top\, \Xi Z^\top\, V_j \\ &\le \textstyle\sum_j \lVert U_j \rVert\, \lVert V_j
# \rVert \\ &\le \textstyle\sum_j \tfrac12 \left( \lVert U_j \rVert^2 + \lVert V_j \rVert^2 \right).
# \end{aligned}$$
#
# The columns $U_k = \sqrt{\sigma_k}\, \xi_k$ and $V_k = \sqrt{\sigma_k}\, \zeta_k$, and zeros beyond them,
# turn both inequalities into equalities. $\square$

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4.4 The margin that belongs to a product
#
# Descent on $W$ finds the direction of the shortest $W$ with all $\langle A_i, W \rangle \ge 1$ (lesson 01).
# For the *cheapest pair* the theorem says, if all answers can be right,
#
# $$\min_{U, V}\ \tfrac12 \left( \lVert U \rVert_F^2 + \lVert V \rVert_F^2 \right) \ \text{ s.t. }
# \langle A_i, U V^\top \rangle \ge 1 \qquad = \qquad \min_W\ \lVert W \rVert_* \ \text{ s.t. } \langle A_i, W
# \rangle \ge 1 , \tag{P}$$
#
# if $m$ is at least the rank of a solution $W_{\mathrm{nuc}}$ on the right. The **nuclear margin** of a
# matrix, and the largest one, are
#
# $$\mu(W) = \min_i \frac{\langle A_i, W \rangle}{\lVert W \rVert_*}, \qquad \hat\mu = \max_{W \ne 0} \mu(W) =
# \frac{1}{\lVert W_{\mathrm{nuc}} \rVert_*} .$$
#
# As in lesson 02, for weights $\lambda_i \ge 0$, not all zero, $S = \sum_i \lambda_i A_i$ and every
# $W \ne 0$,
#
# $$\mu(W) \le \frac{\langle S, W \rangle}{\lVert W \rVert_* \sum_i \lambda_i} \le \frac{\lVert S
# \rVert_{\mathrm{op}}}{\sum_i \lambda_i} =: B(\lambda) ,$$
#
# since $\langle S, W \rangle = \sum_k \sigma_k\, \xi_k^\top S\, \zeta_k \le \lVert S \rVert_{\mathrm{op}}
# \lVert W \rVert_*$. Where both ends meet, $W$ lives only where $S$ has its largest singular value: that
# bounds its rank, by `certified_rank`. `solve` returns one $W_{\mathrm{nuc}}$ (of maybe several), $\hat\mu$,
# the $\lambda_i$, and the arguments of `certified_rank`.


# %%
def certify(W, lam, A):
    """(mu(W), B(lam)), which enclose the largest margin: for W (d1, d2), weights lam (n,), A (n, d1, d2)."""
    lower = np.tensordot(A, W).min() / np.linalg.norm(W, "nuc")
    return lower, np.linalg.norm(np.tensordot(lam, A, 1), 2) / lam.sum()


def nearness(W, Y, largest):
    """mu(W) / mu-hat of each table W (..., d, d), for the answers Y (..., d, d) and their mu-hat."""
    least = np.where(Y == 0, np.inf, Y * W).min((-2, -1))
    return least / np.linalg.norm(W, "nuc", axis=(-2, -1)) / largest


Y = truth * known
W_nuc, largest, lam, solved = solve(Y)
lower, upper = certify(W_nuc, lam[known], A)
print("          mu / mu-hat   cosine to W_nuc")
for name, W in (("entries", Y), ("factors", path[-1]), ("W_nuc", W_nuc)):
    print(f"{name:8} {nearness(W, Y, largest):12.2f} {cosine(W, W_nuc):17.2f}")
print(f"largest nuclear margin, proved: {lower:.6f} to {upper:.6f}; rank {svm.certified_rank(*solved)}")
many_nuc, many_largest = solve(many_Y)[:2]
behind = (nearness(many_W, many_Y, many_largest) < nearness(many_Y, many_Y, many_largest)).sum()
print(f"margin smaller in the run than in the entries: {behind} of 200 surveys")
assert 117 <= behind <= 125
assert np.isclose(cosine(W_entries, Y), 1)  # the direction of descent on the entries
assert np.linalg.matrix_rank(W_nuc, tol=1e-6) == svm.certified_rank(*solved) == 3
assert -1e-9 <= 1 - lower / upper < 1e-6

# %% [markdown]
# **The cosine and the margin disagree.** Our run points nearer to $W_{\mathrm{nuc}}$ (cosine .94, entries
# .76), but at step 600 had almost rank two, not three (Figure 3); at 2,000 steps its margin is below the
# entries', as on 121 of 200 surveys of this size.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4.5 A race
#
# While $W$ is so small that every $|\ell'(u_i)| \approx \frac12$, the pull is a constant matrix:
#
# $$M_0 = \frac{1}{2n} \sum_i A_i = \sum_k \bar\sigma_k\, \bar\xi_k \bar\zeta_k^\top .$$
#
# From $U = \beta I$, $V = 0$ steps of size $\eta$ keep the form
#
# $$U_t = \sum_k a_k\, \bar\xi_k \bar\xi_k^\top, \qquad V_t = \sum_k b_k\, \bar\zeta_k \bar\xi_k^\top,$$
#
# with $a_k \to a_k + \eta \bar\sigma_k b_k$ and $b_k \to b_k + \eta \bar\sigma_k a_k$. So $a_k + b_k$ is
# multiplied by $1 + \eta \bar\sigma_k$ at each step, $a_k - b_k$ by $1 - \eta \bar\sigma_k$, and
#
# $$\sigma_k(W_t) = a_k b_k = \frac{\beta^2}{4} \left( (1 + \eta \bar\sigma_k)^{2t} - (1 - \eta
# \bar\sigma_k)^{2t} \right) .$$
#
# Soon only the first term counts: $\sigma_k$ grows as if from $\beta^2 / 4$ at its own **rate** (derivative
# of the logarithm, in $\eta t$), about $2 \bar\sigma_k$ (exactly $\frac2\eta \log(1 + \eta \bar\sigma_k)$).
#
# *Predict*: how does $\sigma_2 / \sigma_1$, when $\sigma_1$ reaches 1, depend on $\beta$?


# %%
def race(M, beta, eta, t):
    """The singular values of W_t under a constant pull M, from U = beta I, V = 0."""
    bar = np.linalg.svd(M, compute_uv=False)
    return beta**2 / 4 * ((1 + eta * bar) ** (2 * t) - (1 - eta * bar) ** (2 * t))


singular = np.linalg.svd(path, compute_uv=False)  # every fifth step
few = many_Y[:100]
bar = np.log1p(np.linalg.svd(few / 2 / (few != 0).sum((1, 2), keepdims=True), compute_uv=False))
arrived = []
for start in (1e-3, 1e-4):
    run = side_by_side(*begin([start], few), few, np.ones(600), range(3, 601, 3))[:, 0]
    first, second = np.log(np.linalg.svd(run, compute_uv=False)[..., :2]).T  # (surveys, times) each
    arrived.append([np.interp(0, one, two - one) for one, two in zip(first, second, strict=True)])
    print(f"start {start:.0e}, sigma_1 = 1: sigma_2 / sigma_1, median {np.median(np.exp(arrived[-1])):.3f}")
found, exponent = -np.diff(arrived, axis=0)[0] / np.log(10), 2 - 2 * bar[:, 1] / bar[:, 0]
off = abs(found - exponent).max()
print(f"exponent of beta: {exponent.min():.2f} to {exponent.max():.2f}, wrong by up to {off:.3f}")
assert off < 0.005

# %% jupyter={"source_hidden": true} slideshow={"slide_type": "subslide"}
fig, ax = plt.subplots(figsize=(5.4, 3.0))
shown = np.arange(5, 601, 5)
predicted = np.array([race(pull(0 * Y, A), beta, 1.0, t) for t in shown])
for k, color in enumerate(("blue", "vermillion", "green")):
    label = rf"$\sigma_{k + 1}$"
    ax.plot(shown, singular[: len(shown), k], color=COLORS[color], linewidth=3.5, alpha=0.8, label=label)
    label = "predicted by race" if k == 2 else None
    ax.plot(shown, predicted[:, k], "--", color=COLORS["black"], linewidth=1.3, label=label)
ax.axhline(1, color=COLORS["grey"], linestyle=":", linewidth=1.6)
ax.set(yscale="log", ylim=(1e-8, 1e3), ylabel="singular values of $W_t$", xlabel="step $t$")
ax.legend(loc="lower right", fontsize=10)
show(
    fig,
    alt="Three singular values against steps, to 600, on a logarithmic axis. They rise along dashed lines, "
    "the first until it levels off near step 200, the second near step 300; the third falls far behind its "
    "line and levels off at a hundredth of the first.",
)

# %% [markdown]
# **Figure 3.** Descent on the factors from $\beta = 0.001$, and `race` (dashed). Dotted: 1.

# %% [markdown]
# When $\sigma_1$ reaches 1, $\sigma_2$ has grown by about the factor $(4 / \beta^2)^{\bar\sigma_2 /
# \bar\sigma_1}$, so the ratio goes like $\beta^{2 - 2 \bar\sigma_2 / \bar\sigma_1}$. With $\log(1 +
# \bar\sigma_k)$ for $\bar\sigma_k$, as $\eta = 1$, this exponent, from $10^{-3}$ to $10^{-4}$, is right
# within .005 on all hundred surveys: **the smaller the start, the greedier the run.**

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 04.3: What a run remembers
#
# ★★★ · 25 minutes
#
# Square factors start from $U = \beta I$, $V = 0$ and follow the gradient flow;
# $W$ has positive, distinct singular values. Return, from $W$, $M$ and $\beta$ alone,
#
# 1. the cost $C$ of the factors;
# 2. the speeds $\sigma_k'$ of all singular values of $W$, in their order.
#
# <details><summary>Hint 1</summary>
#
# The speeds of $U^\top U$ and $V^\top V$ are equal. What is the difference of the two matrices at the start?
# </details>
# <details><summary>Hint 2</summary>
#
# $W W^\top = U\, V^\top V\, U^\top$: put in what you know of $V^\top V$, and find the eigenvalues of $U
# U^\top$; as the $\sigma_k$ are distinct, its eigenvectors are the $\xi_k$. Likewise $W^\top W = V\, U^\top
# U\, V^\top$ gives $V V^\top$ and the $\zeta_k$. In $\sigma_k = \xi_k^\top W \zeta_k$ vectors that keep
# their length only turn, at right angles to themselves: $\sigma_k' = \xi_k^\top W' \zeta_k$.
# </details>


# %%
@exercise("04.3")
def remembered(W, M, beta):
    """(cost, speeds (d,)) at a moment of the flow: from W (d, d), the pull M (d, d) and beta alone."""
    ### BEGIN SOLUTION
    # U^T U = V^T V + beta^2 I, so W W^T = (U U^T)^2 - beta^2 U U^T: an eigenvalue g of U U^T has
    # g^2 - beta^2 g = sigma^2, likewise h of V V^T h^2 + beta^2 h = sigma^2. So g + h = 2 root below.
    left, sigma, right = np.linalg.svd(W)
    root = np.sqrt(sigma**2 + beta**4 / 4)
    return root.sum(), 2 * root * np.einsum("ak,ab,kb->k", left, M, right)  # xi^T (M V V^T + U U^T M) zeta
    ### END SOLUTION


# %%
check("04.3", remembered)

# %% [markdown]
# $$C = \sum_k \sqrt{\sigma_k^2 + \beta^4 / 4}, \qquad \sigma_k' = 2 \sqrt{\sigma_k^2 + \beta^4 / 4}\;\,
# \xi_k^\top M \zeta_k .$$
#
# From every start the flow keeps $U^\top U - V^\top V$, here $\beta^2 I$: **it sets a scale, $\beta^2 / 2$.**
# Singular values far above cost their sum, the nuclear norm. Those far below grow at the speed $\beta^2\,
# \xi_k^\top M \zeta_k$, like trained entries.

# %%
print("beta   nuclear norm   cost   predicted, after 1,000 steps")
for start in (3.0, 0.1):
    ((U, V),) = descend(start * np.eye(d), 0 * Y, A, 1.0, (1000,))
    W, cost = U @ V.T, ((U**2).sum() + (V**2).sum()) / 2
    forecast, _ = remembered(W, pull(W, A), start)
    print(f"{start:4} {np.linalg.norm(W, 'nuc'):14.2f} {cost:6.2f} {forecast:11.2f}")
    assert abs(forecast / cost - 1) < 0.01, "see exercise 04.3"

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4.6 Does it stall?
#
# Our run's margin is .74 of the largest. How far does it climb?
#
# > **Theorem** (Lyu & Li 2020, Ji & Telgarsky 2020, informally). *Follow gradient flow on the logistic
# > loss of $\langle A_i, U V^\top \rangle$. If it ever reaches $L < \frac1n \log 2$ (then all answers are
# > right), $L \to 0$, and the direction of $(U, V)$ converges to that of a KKT point of the problem on the
# > left of (P).*
#
# A **KKT point** satisfies the conditions of lesson 02: all $\langle A_i, U V^\top \rangle \ge 1$, and there
# are $\lambda_i \ge 0$, positive only where $\langle A_i, U V^\top \rangle = 1$, such that
#
# $$U = S V, \qquad V = S^\top U, \qquad S = \sum_i \lambda_i A_i .$$
#
# The factors are **balanced**, $U^\top U = U^\top S V = V^\top V$. So $W^\top W = (V V^\top)^2$, and $\lVert
# W \rVert_* = \lVert V \rVert_F^2 = \langle S, W \rangle = \sum_i \lambda_i$. With $c = \lVert S
# \rVert_{\mathrm{op}}$ the certificate says $\hat\mu \le c / \lVert W \rVert_*$; as some $\langle A_i, W
# \rangle = 1$, $\mu(W) = 1 / \lVert W \rVert_* \ge \hat\mu / c$. Here $c \ge 1$, as $\sigma_k \xi_k = S V
# V^\top \zeta_k = \sigma_k S \zeta_k$. If $c = 1$, the point solves (P). If $c > 1$, the **leading pair** of
# $S$, the singular vectors $\xi$ and $\zeta$ of its largest singular value, is missing from $W$ (see
# question 1).
#
# Does it come back? A run nearby has a little of it, $\xi^\top W \zeta = p^\top r$ with $p = U^\top \xi$, $r
# = V^\top \zeta$. Hold the pull $M$ still, let $s$ be its largest singular value and $\xi, \zeta$ now the
# leading pair of $M$. As $p' = s\, r$ and $r' = s\, p$, $p + r$ grows and $p - r$ shrinks: soon $p \approx
# r$, and $p^\top r$ grows at the rate $2 s$. For balanced factors $\lVert W \rVert_* = \lVert V \rVert_F^2$
# has the speed $2 \langle V, M^\top U \rangle = 2 \langle M, W \rangle$, the rate $2 \langle M, W \rangle /
# \lVert W \rVert_*$. For a run, let $c = \lVert S \rVert_{\mathrm{op}}$ for its pull scaled to $\langle S, W
# \rangle = \lVert W \rVert_*$: the first rate is $c$ times the second. So **what is missing grows like
# $\lVert W \rVert_*^c$** while the pull keeps its direction; its share only like $\lVert W \rVert_*^{c -
# 1}$, about the digits to this power.

# %% [markdown]
# `follow` takes short steps until all $u_i / \log 10$, the **digits** of an answer, reach given numbers, and
# returns $U$, $V$ and the steps taken; `judge` returns $c$, $\xi$, $\zeta$ and $\mu(W)$.
#
# *Predict*: which of three starts $\beta I$, $0$ is nearest to the largest margin at 300 digits?


# %%
starts, digits = (1e-1, 1e-3, 1e-5), (1, 3, 10, 30, 33, 100, 300)
_, others = tables(range(1200, 1220))
others_largest = solve(others)[1]
U, V, _ = follow(*begin(starts, others), others, digits)
paths = U @ V.mT
reached = nearness(paths, others, others_largest)  # (digits, starts, surveys)
print("20 surveys, medians of mu / mu-hat at", *digits, "digits:")
for start, medians in zip(starts, np.median(reached, axis=2).T, strict=True):
    print(f"from {start:.0e}:", *(f"{value:6.3f}" for value in medians))
print("at 300 nearer from 1e-1 than 1e-3, from 1e-3 than 1e-5:", *(reached[-1, :-1] > reached[-1, 1:]).sum(1))
assert (np.diff(reached, axis=0) > 0).all()  # each margin climbs
assert np.allclose(np.median(reached[[1, 2, 6], 0], axis=1), [0.865, 0.96, 0.997], atol=0.003)

# %%
c, xi, zeta, _ = judge(U[3], V[3], others)  # at 30 digits; what is missing there, and at 33:
missing, norms = np.einsum("ksa,jksab,ksb->jks", xi, paths[3:5], zeta), np.linalg.norm(paths, "nuc", (-2, -1))
exponent = np.log(missing[1] / missing[0]) / np.log(norms[4] / norms[3])
p, r = np.einsum("ksab,ksa->ksb", U[3], xi), np.einsum("ksab,ksa->ksb", V[3], zeta)
alike, off = 2 * (p * r).sum(-1) / (p**2 + r**2).sum(-1), abs(exponent - c)
print("20 surveys, medians   exponent, 30 to 33 digits   c at 30, 100, 300")
for start, *row in zip(starts, *np.median([exponent, c, *c_of(paths[5:], others)], axis=2), strict=True):
    print(f"from {start:.0e}", "{:34.2f} {:8.2f} {:5.2f} {:5.2f}".format(*row))
print(f"{(off < 0.1).sum()} of 60 within .1 of c; the last has 2 p.r / (|p|^2 + |r|^2) = {alike.min():.1f}")
assert (off < 0.1).sum() == 59
assert off.argmax() == alike.argmin()

# %% [markdown]
# **Slow, not stopped.** Over three digits what is missing grows with the power $c$, within .1 on 59 of 60
# runs; on the last, $p \approx r$ is still far off. Then $c$ falls, and the power should follow; that $c$
# ends at 1 the theorem does not say. Of these starts the larger is nearer at 300 digits, on 18 and 19 of 20
# surveys.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4.7 A penalty, and the blanks
#
# Weight decay lets descent rest: minimise the loss plus $\varepsilon$ times the cost. A **rest** is a
# stationary point, $M V = \varepsilon U$ and $M^\top U = \varepsilon V$, balanced as in section 4.6. Let $s
# = \lVert M \rVert_{\mathrm{op}}$; as $M M^\top U = \varepsilon^2 U$, $s \ge \varepsilon$ unless $W = 0$.
# Call $m \ge \min(d_1, d_2)$ *full width*. **A rest of full width repels or solves:**
#
# If there is a **free column**, a unit vector $q$ with $U q = V q = 0$, and $s > \varepsilon$, a little $\xi
# q^\top$ in $U$ and $\zeta q^\top$ in $V$, the leading pair of $M$, hardly changes $M$ and grows at the rate
# $s - \varepsilon$. Without one, as $U^\top U = V^\top V$ ($U q = 0$ exactly when $V q = 0$), $U$ and $V$
# have rank $m$, so $m = \min(d_1, d_2)$: the factor on the smaller side is square and invertible, so $M
# M^\top = \varepsilon^2 I$ or $M^\top M = \varepsilon^2 I$, and $s = \varepsilon$.
#
# If $s \le \varepsilon$, $W$ minimises the loss plus $\varepsilon \lVert W \rVert_*$: as $L$ is convex,
# $L(\tilde W) \ge L(W) - \langle M, \tilde W - W \rangle$, and $\langle M, \tilde W \rangle \le \varepsilon
# \lVert \tilde W \rVert_*$ (section 4.4), with equality at $W$ (by $M V = \varepsilon U$).

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 04.4: Where a penalty stops
#
# ★★★ · 10 minutes
#
# Of a rest with $s = \varepsilon$ you see $\varepsilon$ and the outputs $u_i$, all positive. Return
#
# 1. the nuclear margin $\mu(W)$;
# 2. the bound $B$ of section 4.4 on $\hat\mu$, with the weights for which $S$ is the pull.
#
# <details><summary>Hint 1</summary>
#
# $M = \sum_i \lambda_i A_i$: which $\lambda_i$? What is $\lVert M \rVert_{\mathrm{op}}$ here?
# </details>
# <details><summary>Hint 2</summary>
#
# Write $\langle M, W \rangle$ twice: by the $u_i$, and by $M V = \varepsilon U$.
# </details>


# %%
@exercise("04.4")
def enclosed(u, eps):
    """(mu(W), B): two numbers, from the outputs u (n,) at a rest with s = eps."""
    ### BEGIN SOLUTION
    slopes = 1 / (1 + np.exp(u))  # the lambda_i are slopes / n
    norm = (slopes * u).mean() / eps  # <M, W> = mean slopes u = eps ||W||_*, as the factors are balanced
    return u.min() / norm, eps / slopes.mean()
    ### END SOLUTION


# %%
check("04.4", enclosed)

# %% [markdown]
# Let $u_{\min} \ge 0$ (sure once $\varepsilon \le \hat\mu / 2n$, question 2), $\pi_i = |\ell'(u_i)|$,
# $\bar\pi$ its mean (printed over $\varepsilon / \hat\mu$), and $\bar u = \sum_i \pi_i u_i / \sum_i \pi_i$.
# Then
#
# $$\mu(W) = \frac{u_{\min}}{\bar u}\, \frac{\varepsilon}{\bar\pi} \le \hat\mu \le
# \frac{\varepsilon}{\bar\pi} .$$
#
# So **a penalty stops where $\bar\pi = \varepsilon / \hat\mu$,** or below by at most the factor $u_{\min} /
# \bar u$, and of the margin a share of at most $1 - u_{\min} / \bar u$ is missing. As $\bar u - u_{\min} \le
# \log 2n$ (question 2), this bound falls to 0 at least as fast as one over the digits, now $u_{\min} / \log
# 10$.
#
# `rest` returns the $W$ where descent stops, after steps of size 4, then larger ones. *Predict*: do all
# starts rest at one table?


# %%
def at_rest(W, Y):
    """u_min, pi-bar and u-bar, for each survey."""
    u, pi = Y * W, np.where(Y == 0, 0, np.exp(-np.logaddexp(0, Y * W)))
    total, least = pi.sum((-2, -1)), np.where(Y == 0, np.inf, u).min((-2, -1))
    return least, total / np.abs(Y).sum((-2, -1)), (pi * u).sum((-2, -1)) / total


W = rest(*begin([1e-8, 0.1, 10], others), others, 1e-3, steps=(2000, 9000))
away = np.linalg.norm(W - W[1], axis=(-2, -1)) / np.linalg.norm(W[1], axis=(-2, -1))
print(f"20 surveys, three starts: tables at most {100 * away.max():.1f} percent apart")
assert max(away.max(), c_of(W, others).max() - 1) < 0.01  # c of section 4.6, here s / epsilon
rank = np.linalg.matrix_rank(W[1], rtol=1e-3)
m = np.array([[2], [3], [4], [5], [d]])  # columns; the others are zero, and stay so
start = 0.1 * np.random.default_rng(0).normal(size=(2, 1, *others.shape)) * (np.arange(d) < m)[:, None, None]
etas = np.repeat([4, 0.24 * d**2], [1500, 2000])
solves = c_of(side_by_side(*start, others, etas, [3500], 1e-3)[0], others) < 1.01
print("m = 2, 3, 4, 5, 10: Gaussian starts rest with s = epsilon on", *solves.sum(1), "of 20 surveys")
start = 0.1 * np.random.default_rng(2).normal(size=(2, 20, d, 3))
ends, stops = c_of(side_by_side(*start, others[18], etas, [3500], 1e-3)[0], others[18]), []
print(f"survey 1218, rank {rank[18]}, 20 starts of m = 3: c from {ends.min():.2f} to {ends.max():.2f}")
assert (solves == (rank <= m)).all()
assert 2 <= (ends > 1.3).sum() <= 6
print("medians   pi-bar by eps / mu-hat   digits   missing share   1 - u_min / u-bar")
for eps in (1e-2, 1e-3, 1e-4):
    W = rest(*begin([0.1], others), others, eps, (500, 8000))[0]
    least, errors, u_bar = at_rest(W, others)
    lacks, bound = 1 - nearness(W, others, others_largest), 1 - least / u_bar
    stops.append((errors / eps * others_largest, least / np.log(10), lacks, bound))
    print(f"{eps:7}", "{:24.2f} {:8.2f} {:15.2f} {:19.2f}".format(*np.median(stops[-1], axis=1)))
    assert 0.94 < stops[-1][0].min() <= stops[-1][0].max() < 1
    assert least.min() > 0
    assert -1e-3 < (bound - lacks).min() <= (bound - lacks).max() < 0.04
assert np.allclose(np.median(stops, axis=2)[:, 1:3], [[0.39, 0.46], [1.52, 0.15], [2.52, 0.09]], atol=0.01)
lower, upper = enclosed(others[0][others[0] != 0] * W[0][others[0] != 0], eps)
print(f"mu-hat of the first survey: {others_largest[0]:.4f}; enclosed: {lower:.4f} to {upper:.4f}")
assert lower < others_largest[0] < 1.001 * upper < 1.02 * others_largest[0], "see exercise 04.4"

# %% jupyter={"source_hidden": true} slideshow={"slide_type": "subslide"}
fig, ax = plt.subplots(figsize=(6.0, 3.4))
shown = [digits.index(many) for many in (1, 3, 10, 30, 100, 300)]
for k, (color, marker) in enumerate(zip(("green", "blue", "orange"), "^os", strict=True)):
    low, middle, high = np.quantile(1 - reached[shown, k], [0, 0.5, 1], axis=1)
    style = {"color": COLORS[color], "marker": marker, "markersize": 5, "elinewidth": 1.2, "capsize": 2}
    label = rf"$\beta = 10^{{{-1 - 2 * k}}}$, no penalty"
    x = np.array(digits)[shown] * 1.1 ** (k - 1)
    ax.errorbar(x, middle, (middle - low, high - middle), label=label, **style)
_, x, lacking, _ = np.moveaxis(stops, 1, 0)  # (penalties, surveys) each
low, middle, high = np.quantile(lacking, [0, 0.5, 1], axis=1)
style = {"color": COLORS["vermillion"], "markersize": 7, "markeredgecolor": COLORS["black"], "capsize": 2}
label = r"rests, $\varepsilon = 10^{-2}, 10^{-3}, 10^{-4}$"
ax.errorbar(np.median(x, axis=1), middle, (middle - low, high - middle), fmt="D", label=label, **style)
ax.set(
    xscale="log",
    yscale="log",
    xlabel="digits",
    xticks=(ticks := [digits[k] for k in shown]),
    xticklabels=ticks,
)
ax.minorticks_off()
ax.set(ylabel=r"$1 - \mu(W) / \hat\mu$")
ax.legend(fontsize=8, loc="lower left")
show(
    fig,
    alt="Both axes logarithmic: the missing share of the margin against the digits. Three diamonds, the "
    "rests, fall from a half at 0.4 digits to a tenth at 2.5. Three lines, the runs, fall from 1 to 300 "
    "digits: that from the largest start to 0.003, those from smaller starts more slowly.",
)

# %% [markdown]
# **Figure 4.** 20 surveys: medians and ranges. The rests at 1.5 and 2.5 digits lie below, by medians. Green
# is drawn a tenth to the left, orange to the right.

# %% [markdown]
# At full width, yes: our three starts end 0.0 percent apart. The $u_i$ must agree, as $\ell$ is strictly
# convex; for the blanks we only see it. Gaussian starts, one for each $m$ and survey, end with $s =
# \varepsilon$ on exactly the surveys whose table has rank at most $m$ (below the rank none can). At $m$ =
# rank $< d$ another may not: on survey 1218 some end at up to $c = 1.35$.
#
# **When does descent reach $W_{\mathrm{nuc}}$? In the sense of the margin, and slowly, at rests of full
# width that do not repel, as the penalty falls to 0.** Without a penalty we saw it come nearer, no more.
# Rests lack .46 of the margin at 0.4 digits, .15 at 1.5, .09 at 2.5; runs from $0.1$ without a penalty .135
# at 3, .04 at 10, .003 at 300 (medians).
#
# *Predict*: does a table of larger margin fill the blanks better?

# %%
ends, found = {"entries": many_Y, "from 10": many_large, "from 0.001": many_W}, []
ends["from 0.1"] = side_by_side(*begin([0.1], many_Y), many_Y, np.ones(2000), [2000])[0, 0]
ends |= {"penalty 0.001": rest(*begin([0.1], many_Y), many_Y, 0.001)[0], "W_nuc": many_nuc}
print("200 surveys     mu / mu-hat   |blank| / |known|   % unknown right   minus from 0.001")
for name, W in ends.items():
    score, near = filled(W, many_truths, many_Y), nearness(W, many_Y, many_largest).mean()
    row = near, blank_size(W, many_Y).mean(), with_error(score), with_error(score - by_factors)
    print(f"{name:13}", "{:13.2f}{:20.3f} {:>17} {:>18}".format(*row))
    found.append([(by_factors - score).mean(), near])
lost_and_margin = [31.7, 2.6, 0, 0.6, 1, 1.5], [0.81, 0.81, 0.78, 0.85, 0.84, 1]
assert np.allclose(np.transpose(found), lost_and_margin, atol=[[0.3], [0.02]])

# %% [markdown]
# Blanks do not follow the margin: $W_{\mathrm{nuc}}$ fills them 1.5 points worse than the run from $0.001$.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## 4.8 Your own start
#
# **Try it.** What does a smaller start do at 4 digits?
#
# <details><summary>Answer</summary>
#
# A smaller start shrinks all shares but two. From $10^{-3}$ more digits bring the third back; from $10^{-6}$
# even 30 digits do not.
# </details>


# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output", "widget"]
def turn(start, digits):
    """Our survey's table and the shares of its singular values when every answer has so many digits."""
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
    digits=ipywidgets.IntSlider(value=4, min=1, max=30, description="digits", **wide),
)

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Questions
#
# **1.** At a KKT point with $\lVert S \rVert_{\mathrm{op}} > 1$, why do $U$ and $V$ lack the leading pair of
# $S$?
# <details><summary>Answer</summary>
#
# $U^\top \xi = V^\top S^\top \xi = c\, V^\top \zeta$, and likewise $V^\top \zeta = c\, U^\top \xi$. So
# $U^\top \xi = c^2\, U^\top \xi$, and both vectors are zero.
# </details>
#
# **2.** Why is $\bar u - u_{\min} \le \log 2n$ at a rest with $u_{\min} \ge 0$, and why does $u_{\min}$ grow
# as $\varepsilon$ falls?
# <details><summary>Answer</summary>
#
# With $p_i = \pi_i / \sum_j \pi_j$, $u_i \le \log(1 + e^{u_i}) = -\log \pi_i = -\log p_i - \log \sum_j
# \pi_j$. Weighted by the $p_i$, the mean of $-\log p_i$, an entropy, is at most $\log n$, and $\sum_j \pi_j
# \ge \pi_{\max}$. So $\bar u \le \log n + \log(1 + e^{u_{\min}}) \le \log 2n + u_{\min}$. And $\pi_{\max}
# \le n \bar\pi \le n \varepsilon / \hat\mu$ whatever the sign of $u_{\min}$, so $u_{\min} \ge 0$ once
# $\varepsilon \le \hat\mu / 2n$, and $u_{\min} \to \infty$ as $\varepsilon \to 0$.
# </details>
#
# **3.** Which table do the small blanks of a large start follow, to leading order?
# <details><summary>Answer</summary>
#
# While all $\sigma_k \ll \beta^2 / 2$, $W' \approx \beta^2 M$ moves all known answers alike, so $M = h(t)\,
# Y$ and, as in section 4.5, $\sigma_k(W) = \frac{\beta^2}{2} \sinh(2 \tau \sigma_k(Y))$ with $\tau = \int
# h$: $W = \beta^2 (\tau Y + \frac23 \tau^3\, Y Y^\top Y + \dots)$. The first term is zero at the blanks,
# and so is what a change of $M$ adds at the order of the second. They follow $Y Y^\top Y$: where known
# answers have the size $u$, $\tau \approx u / \beta^2$ and theirs is of order $u^3 / \beta^4$.
# </details>

# %%
progress("04")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - A product moves along $M V V^\top + U U^\top M$, from small $\beta I$, $0$ in short steps greedily: when
#   $\sigma_1$ is 1, $\sigma_2$ is like $\beta^{2 - 2\bar\sigma_2 / \bar\sigma_1}$.
# - Gradient flow that separates the answers turns to a KKT point, a solution of (P) if $c = 1$; from
#   $10^{-3}$ and $10^{-5}$ the median $c$ was still 1.3 and 1.7 at 300 digits.
# - A rest $W \ne 0$ of full width repels or has $s = \varepsilon$; with $s = \varepsilon$ it lacks at most
#   $1 - u_{\min} / \bar u$ of the margin if $u_{\min} \ge 0$ (sure once $\varepsilon \le \hat\mu / 2n$).

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Further reading
#
# - N. Srebro, J. Rennie, T. Jaakkola. *Maximum-margin matrix factorization.* NIPS 2004 (published 2005).
#   Our survey, and the theorem of section 4.3.
# - S. Gunasekar, B. Woodworth, S. Bhojanapalli, B. Neyshabur, N. Srebro. *Implicit regularization in matrix
#   factorization.* NIPS 2017, arXiv:1705.09280. The conjecture, for the squared loss, that small starts lead
#   to the smallest nuclear norm.
# - S. Arora, N. Cohen, W. Hu, Y. Luo. *Implicit regularization in deep matrix factorization.* NeurIPS 2019,
#   arXiv:1905.13655. How singular values move when factors descend, and more than two factors.
# - B. Woodworth, S. Gunasekar, J. Lee, E. Moroshko, P. Savarese, I. Golan, D. Soudry, N. Srebro. *Kernel and
#   rich regimes in overparametrized models.* COLT 2020, arXiv:2002.09277. The scale that the start sets.
# - Z. Li, Y. Luo, K. Lyu. *Towards resolving the implicit bias of gradient descent for matrix factorization:
#   greedy low-rank learning.* ICLR 2021, arXiv:2012.09839. An argument that it is rank, and not the nuclear
#   norm.
# - K. Lyu, J. Li. *Gradient descent maximizes the margin of homogeneous neural networks.* ICLR 2020,
#   arXiv:1906.05890, and Z. Ji, M. Telgarsky. *Directional convergence and alignment in deep learning.*
#   NeurIPS 2020, arXiv:2006.06657. The theorem of section 4.6.
# - B. Haeffele, R. Vidal. *Global optimality in tensor factorization, deep learning, and beyond.* 2015,
#   arXiv:1506.07540. With a zero column a local minimum is global, for tensors too.
# - C. Wei, J. Lee, Q. Liu, T. Ma. *Regularization matters: generalization and optimization of neural nets
#   v.s. their induced kernel.* NeurIPS 2019, arXiv:1810.05369. A weaker penalty, a larger margin.
#
# **New in the library:** [`svm.certified_rank`](../mini_attn/svm/nuclear.py).
#
# **Next:** [lesson 05](05_softmax_attention.ipynb) meets the softmax, lesson 11 the keys and queries.
