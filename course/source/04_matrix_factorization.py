# %% [markdown] slideshow={"slide_type": "slide"}
# # 04 · Factored weights and the nuclear norm
#
# Ten people have each seen some of ten films and told us which they liked. Fit a table $W$ to these answers
# by gradient descent, and it says nothing about the other films. Write the same table as a product
# $W = U V^\top$, and descent on $U$ and $V$ fills in the blanks, mostly right.
#
# **The question: where does descent lead a product of two matrices, and when does it come near a table of
# smallest nuclear norm?**
#
# Attention multiplies two weight matrices, too.

# %% [markdown] slideshow={"slide_type": "skip"}
# **After this lesson you can**
#
# - say how a product moves, and why its blanks move;
# - state the max-margin problem that belongs to a product, and certify an answer;
# - predict each singular value's early growth, and what a smaller or larger start changes;
# - say what a run can lack in the limit, and what a small penalty guarantees.
#
# **You need** [lesson 01](01_logistic_regression_bias.ipynb), [lesson 02](02_hard_margin_svm.ipynb) (KKT
# conditions, certificates) and [lesson 03](03_optimizer_geometry.ipynb) (norms). About 80 minutes (120 with a
# pencil) with four exercises, and 3 more for section 4.8.

# %%
import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import torch

from course.exercise import check, exercise, progress, todo
from course.figure import show
from course.replicate.lesson_04 import far, follow, solve
from mini_attn import plots, svm, widgets
from mini_attn.plots import COLORS

plots.style()
torch.set_num_threads(1)  # small matrices: one thread is fastest

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4.1 A table with blanks
#
# What does descent do with entries about which it is told nothing? We make up a survey with a known truth.
# Every person and every film has two coordinates of taste, and the answer is $+1$ (liked) or $-1$, the sign
# of their inner product. About half of the answers are known.


# %%
def survey(seed, d=10):
    """All answers (d, d), -1 or +1, and which of them are known (d, d); neighbours have similar tastes."""
    rng = np.random.default_rng(seed)
    people, films = rng.normal(size=(d, 2)), rng.normal(size=(2, d))
    known = rng.random((d, d)) < 0.5
    rows, columns = (np.argsort(np.arctan2(taste[1], taste[0])) for taste in (people.T, films))
    return np.sign(people @ films)[rows][:, columns], known[rows][:, columns]


truth, known = survey(seed=0)
Y, n, d = truth * known, known.sum(), len(truth)
print(f"{n} answers are known, {(~known).sum()} are not")

# %% [markdown] slideshow={"slide_type": "subslide"}
# The model predicts the sign of $x^\top W z$, where $x$ and $z$ are all zeros but for a single one: $x$ says
# which person, $z$ which film. The **signed feature matrix** $A_i$ of known answer $i$ contains its label
# $y_i$. The inner product of $A_i$ with $W$ (entrywise products, summed) is $u_i$, the signed output of
# lesson 01:
#
# $$A_i = y_i\, x_i z_i^\top, \qquad u_i = \langle A_i, W \rangle = y_i\,
# x_i^\top W z_i .$$
#
# The model is right where $u_i > 0$. The loss is $L(W) = \frac1n \sum_i \ell(u_i)$ with
# $\ell(u) = \log(1 + \exp(-u))$, and $|\ell'(u_i)|$ is the **slope** of answer $i$. The negative gradient of
# $L$ is the **pull**
#
# $$M(W) = -\nabla L(W) = \frac1n \sum_i |\ell'(u_i)|\, A_i, \qquad |\ell'(u)| = \frac{1}{1 + \exp(u)} .$$
#
# In code the known answers are one table $Y$, 0 where unknown, and the $u_i$ are entries of `Y * W`.


# %%
def pull(W, Y):
    """-grad L at the tables W, for the known answers Y: (..., d, d) each."""
    return Y / (1 + np.exp(Y * W)) / (Y != 0).sum((-2, -1), keepdims=True)


# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Exercise 04.1: How a product moves
#
# ★★☆ · 6 minutes
#
# Let $W = U V^\top$ with trainable $U$ of shape $(d_1, m)$ and $V$ of shape $(d_2, m)$. In tiny steps (the
# gradient flow of lesson 01) trained entries move with the speed $M$. Likewise each factor moves with the
# speed of its own negative gradient, $-\partial L/\partial U$ or $-\partial L/\partial V$. With which speed
# does the product move? Guess first: does a blank move, where $M$ is zero?
#
# <details><summary>Hint 1</summary>
#
# To first order, moving $U$ by $\delta$ moves $W$ by $\delta V^\top$, and lowers the loss by
# $\langle M, \delta V^\top \rangle$. Of which matrix is this the inner product with $\delta$?
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
# $W' = M V V^\top + U U^\top M$, so blanks do move (from $U = \beta I$, $V = 0$ not at once: there
# $W' = \beta^2 M$). The pull of an answer passes on to films with similar rows of $V$ and to people with
# similar rows of $U$.
#
# We compare two runs of 2,000 steps of size one, both from $W = 0$: one on the entries of $W$, the other on
# factors with ten columns each, from $U = \beta I$, $V = 0$ with $\beta = 0.001$.


# %%
def descend(U, V, Y, etas, times, eps=0.0):
    """The factors (U, V), (..., d, m) each, after the given numbers of steps, of sizes etas, on tables Y."""
    # with eps > 0 both factors also pay for their length (section 4.7)
    kept = []
    for t, eta in enumerate(etas, 1):
        M = pull(U @ V.mT, Y)
        U, V = U + eta * (M @ V - eps * U), V + eta * (M.mT @ U - eps * V)
        if t in times:
            kept.append((U, V))
    return kept


W_entries = np.zeros((d, d))
for _ in range(2000):
    W_entries = W_entries + pull(W_entries, Y)

beta = 1e-3
pairs = descend(beta * np.eye(d), np.zeros((d, d)), Y, np.ones(2000), range(5, 2001, 5))
path = np.array([U @ V.T for U, V in pairs])
for name, W in (("entries", W_entries), ("factors", path[-1])):
    right = np.sign(W) == truth
    print(f"on {name}: right {right[known].sum()} of {n} known, {right[~known].sum()} of {d**2 - n} not")

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
# **Figure 1.** Purple is positive, orange negative, white zero. Dots mark known answers, crosses blanks that
# are filled wrongly.

# %% [markdown]
# In Figure 1 the factors fill 48 of the 53 blanks as the truth does (the mean is 82%, section 4.4).
# Infinitely many tables fit the known answers, and descent has chosen one. *Which?*

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4.2 Another idea of small
#
# Which table is small not in the Frobenius norm, but in the sum of its singular values?
#
# Write $W = \sum_k \sigma_k\, \xi_k \zeta_k^\top$ with its **singular values**
# $\sigma_1 \ge \sigma_2 \ge \dots \ge 0$ and orthonormal *singular vectors* $\xi_k$ (left) and $\zeta_k$
# (right), so that $W \zeta_k = \sigma_k \xi_k$ and $W^\top \xi_k = \sigma_k \zeta_k$. The rank counts the
# $\sigma_k$ above zero. The *Frobenius norm* $\lVert W \rVert_F = \sqrt{\langle W, W \rangle}$ is the length
# of their list, the **nuclear norm** $\lVert W \rVert_*$ is their sum, and the *spectral norm*
# $\lVert W \rVert_{\mathrm{op}} = \max \xi^\top W \zeta$ over unit vectors is their maximum.
#
# The smallest survey has two people, two films, one blank $w$, and here any numbers for answers. As
# $\sigma_1^2 + \sigma_2^2 = \lVert W \rVert_F^2$ and $\sigma_1 \sigma_2 = |\det W|$,
#
# $$W = \begin{pmatrix} a & b \\ e & w \end{pmatrix}, \qquad \lVert W \rVert_*^2 = (\sigma_1 + \sigma_2)^2
# = a^2 + b^2 + e^2 + w^2 + 2\, \lvert aw - be \rvert .$$

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 04.2: The best blank
#
# ★★☆ · 8 minutes
#
# Which $w$ makes the nuclear norm smallest? Here $a \ne 0$, and $b$ and $e$ are any numbers. Give a formula,
# not a search. Guess first: is it always the $w$ that makes the rank one?
#
# <details><summary>Hint</summary>
#
# The square has a kink at $w_0 = be/a$. Left and right of it, it is a parabola in $w$. Where would the two
# parabolas have their minima, and when is such a minimum on its own side of the kink? There is no other place
# to look, and by convexity what you find is the minimum.
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

# %% jupyter={"source_hidden": true} slideshow={"slide_type": "fragment"}
fig, axes = plt.subplots(1, 2, figsize=(8.2, 2.9))
lines = ("Frobenius", "fro", "o", "blue"), ("nuclear", "nuc", "s", "vermillion")
for (a, b, e), reach, ax in zip(((2, 1, 1), (1, 2, 3)), (3, 7), axes, strict=True):
    corner = np.arange(-100, 100 * reach + 1) / 100
    for label, kind, marker, color in lines:
        value = np.linalg.norm([[[a, b], [e, w]] for w in corner], kind, axis=(1, 2))
        ax.plot(corner, value, color=COLORS[color], label=label)
        ax.plot(corner[value.argmin()], value.min(), marker, markersize=9, color=COLORS[color])
    ax.axvline(b * e / a, color=COLORS["black"], linestyle=":", linewidth=1.6)
    ax.set(title=f"answers {a}, {b}, {e}", xlabel="the blank, $w$", ylabel="norm of the table")
axes[1].legend()
show(
    fig,
    alt="Two panels with curves against w. Left: the Frobenius norm is a smooth bowl with its minimum at 0, "
    "the nuclear norm has a kink at w = 1/2, which is its minimum. Right: the kink of the nuclear norm is at "
    "w = 6, marked by a dotted line, and its minimum at w = 1, far to the left of it.",
)

# %% [markdown]
# **Figure 2.** Both norms against the blank $w$, with their minima. Dotted: the $w$ of rank one.

# %% [markdown]
# No. The two parabolas have their minima at $w = a$ and $w = -a$. So the best blank is $be/a$, the $w$ of
# rank one, if $|be| \le a^2$; otherwise it is $a$ or $-a$, whichever has the sign of $be/a$. In Figure 2
# the minimum is the kink on the left; on the right the kink is at 6 and the minimum at 1. **A small nuclear
# norm leans towards low rank, but it is not the same.**

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4.3 Cheap factors, small nuclear norm
#
# What has the nuclear norm to do with factors? Let the **cost** of the factors $U$ and $V$ be
# $C = \frac12 (\lVert U \rVert_F^2 + \lVert V \rVert_F^2)$, which is what weight decay charges for them. Many
# factors have the same product, and the cheapest of them cost its nuclear norm:
#
# > **Theorem** (Srebro, Rennie & Jaakkola 2005). *Let $U$ and $V$ have $m \ge \operatorname{rank} W$ columns.
# > Then*
# >
# > $$\lVert W \rVert_* = \min_{U V^\top = W}
# > \tfrac12 \left( \lVert U \rVert_F^2 + \lVert V \rVert_F^2 \right).$$
#
# <details><summary>Proof</summary>
#
# Let $U_j$, $V_j$ be the columns of any factors with $U V^\top = \sum_j U_j V_j^\top = W$. Let $\Xi$ and $Z$
# have the $\xi_k$ and $\zeta_k$ with $\sigma_k > 0$ as columns; then
# $\lVert \Xi Z^\top \rVert_{\mathrm{op}} \le 1$, and
#
# $$\begin{aligned} \lVert W \rVert_* = \textstyle\sum_k \sigma_k = \langle \Xi Z^\top, W \rangle &=
# \textstyle\sum_j U_j^\top\, \Xi Z^\top\, V_j \\ &\le \textstyle\sum_j \lVert U_j \rVert\, \lVert V_j
# \rVert \\ &\le \textstyle\sum_j \tfrac12 \left( \lVert U_j \rVert^2 + \lVert V_j \rVert^2 \right).
# \end{aligned}$$
#
# With the columns $U_k = \sqrt{\sigma_k}\, \xi_k$, $V_k = \sqrt{\sigma_k}\, \zeta_k$ and zeros beyond them,
# both inequalities are equalities. $\square$
# </details>

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4.4 The margin that belongs to a product
#
# Which max-margin problem belongs to a product, and how near does our run come to its solution? Descent on
# the entries finds the direction of the shortest $W$ with all $\langle A_i, W \rangle \ge 1$ (lesson 01). For
# a product we ask for the *cheapest factors*. By the theorem,
#
# $$\min_{U, V}\ \tfrac12 \left( \lVert U \rVert_F^2 + \lVert V \rVert_F^2 \right) \ \text{ s.t. }
# \langle A_i, U V^\top \rangle \ge 1 \qquad = \qquad \min_W\ \lVert W \rVert_* \ \text{ s.t. } \langle A_i, W
# \rangle \ge 1 , \tag{P}$$
#
# if $m$ is at least the rank of a solution $W_{\mathrm{nuc}}$ on the right. The products of solutions on the
# left solve the right, so we call either side (P). The **nuclear margin** of a matrix, and the largest one,
# are
#
# $$\mu(W) = \min_i \frac{\langle A_i, W \rangle}{\lVert W \rVert_*}, \qquad \hat\mu = \max_{W \ne 0} \mu(W) =
# \frac{1}{\lVert W_{\mathrm{nuc}} \rVert_*} .$$
#
# As in lesson 02, weights bound every margin: for $\lambda_i \ge 0$, not all zero, $S = \sum_i \lambda_i A_i$
# and every $W \ne 0$,
#
# $$\mu(W) \le \frac{\langle S, W \rangle}{\lVert W \rVert_* \sum_i \lambda_i} \le \frac{\lVert S
# \rVert_{\mathrm{op}}}{\sum_i \lambda_i} =: B(\lambda) .$$
#
# The second step holds because $\langle S, W \rangle = \sum_k \sigma_k\, \xi_k^\top S\, \zeta_k$. Some
# weights reach $B(\lambda) = \hat\mu$ and certify the largest margin; they also bound the rank of
# $W_{\mathrm{nuc}}$ (`svm.certified_rank`, lesson 11).
#
# <details><summary>Why some weights reach the largest margin</summary>
#
# For every $W$ the least $\langle A_i, W \rangle$ is the least $\langle S, W \rangle$ over all weights with
# $\sum_i \lambda_i = 1$. So $\hat\mu$ is the maximum, over $\lVert W \rVert_* \le 1$, of this minimum. By the
# minimax theorem the two may change places, and the maximum of $\langle S, W \rangle$ over these $W$ is
# $\lVert S \rVert_{\mathrm{op}} = B(\lambda)$. So the weights for which it is least reach $\hat\mu$.
# </details>
#
# `solve(Y)` returns a $W_{\mathrm{nuc}}$ (there may be several), $\hat\mu$, a table of the $\lambda_i$, and
# what `certified_rank` takes.


# %%
def nearness(W, Y, largest):
    """mu(W) / mu-hat of each table W (..., d, d), for the answers Y (..., d, d) and their mu-hat."""
    least = np.where(Y == 0, np.inf, Y * W).min((-2, -1))
    return least / np.linalg.norm(W, "nuc", axis=(-2, -1)) / largest


W_nuc, largest, lam, solved = solve(Y)
bound = np.linalg.norm(lam * Y, 2) / lam[Y != 0].sum()  # B(lambda): as a table, S is lam * Y
print("          mu / mu-hat   sigma_2 / sigma_1   sigma_3 / sigma_1")
for name, W in (("entries", W_entries), ("factors", path[-1]), ("W_nuc", W_nuc)):
    sizes = np.linalg.svd(W, compute_uv=False)
    print(f"{name:8} {nearness(W, Y, largest):12.2f}", "{:19.2f} {:19.2f}".format(*sizes[1:3] / sizes[0]))
print(f"mu(W_nuc) {nearness(W_nuc, Y, 1):.6f}, B(lambda) {bound:.6f}; rank <= {svm.certified_rank(*solved)}")

# %% [markdown]
# The last line certifies the margin. By now the factors have .74 of the largest (the entries, all equal in
# size, always .79), and hardly any third singular value.

# %% [markdown] slideshow={"slide_type": "subslide"}
# *Predict*, for 200 other surveys: which fills more blanks rightly, the factors or $W_{\mathrm{nuc}}$?


# %%
def tables(seeds, d=10):
    """Surveys side by side: all answers, and Y, the known ones, 0 where blank; (surveys, d, d) each."""
    truths, known = (np.array(part) for part in zip(*(survey(seed, d) for seed in seeds), strict=True))
    return truths, truths * known


def begin(starts, Y):
    """U = beta I, V = 0 for each start beta and each table of Y (..., d, d): (starts, ..., d, d) each."""
    U = np.multiply.outer(starts, np.broadcast_to(np.eye(Y.shape[-1]), Y.shape))
    return U, 0 * U


def filled(W, truths, Y):
    """Percentage of unknown answers with the right sign, for each survey; a zero counts half."""
    unknown = Y == 0
    return 50 + 50 * (np.sign(W.round(9)) * truths * unknown).sum((1, 2)) / unknown.sum((1, 2))


truths, many = tables(range(1000, 1200))
U, V = descend(*begin([beta], many), many, np.ones(2000), [2000])[0]
right = [filled(W, truths, many) for W in ((U @ V.mT)[0], solve(many)[0])]
less = right[0] - right[1]
print("200 surveys, % of blanks right: factors {:.1f}, W_nuc {:.1f}".format(*np.mean(right, axis=1)))
print(f"W_nuc fills {less.mean():.1f} points less, standard error {less.std(ddof=1) / len(many) ** 0.5:.1f}")

# %% [markdown]
# The factors from this small start do, by 1.5 points. So a larger margin need not fill the blanks better.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4.5 A race
#
# Why has our run so few large singular values? While $W$ is so small that every slope is about $\frac12$, the
# pull is a constant matrix:
#
# $$M_0 = \frac{1}{2n} \sum_i A_i = \sum_k \bar\sigma_k\, \bar\xi_k \bar\zeta_k^\top .$$
#
# Its singular vectors make up bases, so $I = \sum_k \bar\xi_k \bar\xi_k^\top$. Hence, as long as the pull is
# $M_0$, steps of size $\eta$ from $U = \beta I$, $V = 0$ keep the form
#
# $$U_t = \sum_k a_k\, \bar\xi_k \bar\xi_k^\top, \qquad V_t = \sum_k b_k\, \bar\zeta_k \bar\xi_k^\top,$$
#
# with $a_k \to a_k + \eta \bar\sigma_k b_k$ and $b_k \to b_k + \eta \bar\sigma_k a_k$. So each step
# multiplies $a_k + b_k$ by $1 + \eta \bar\sigma_k$ and $a_k - b_k$ by $1 - \eta \bar\sigma_k$. Both begin at
# $\beta$, and $4 a_k b_k = (a_k + b_k)^2 - (a_k - b_k)^2$:
#
# $$\sigma_k(W_t) = a_k b_k = \frac{\beta^2}{4} \left( (1 + \eta \bar\sigma_k)^{2t} - (1 - \eta
# \bar\sigma_k)^{2t} \right) .$$
#
# Soon only the first term counts, and $\sigma_k$ grows as if from $\beta^2 / 4$ at a constant **rate** (the
# derivative of its logarithm in $\eta t$), $\frac2\eta \log(1 + \eta \bar\sigma_k)$, about $2 \bar\sigma_k$.
#
# *Predict*, for a hundred surveys: when $\sigma_1$ reaches 1, how does $\sigma_2 / \sigma_1$ depend on
# $\beta$?

# %%
hundred = many[:100]
rates = 2 * np.log1p(np.linalg.svd(pull(0 * hundred, hundred), compute_uv=False))  # for eta = 1
predicted, log_ratios = 2 - 2 * rates[:, 1] / rates[:, 0], []
for start in (1e-3, 1e-4):
    run = descend(*begin([start], hundred), hundred, np.ones(600), range(3, 601, 3))
    sizes = np.linalg.svd([(U @ V.mT)[0] for U, V in run], compute_uv=False)
    first, second = np.log(sizes[..., :2]).T  # (surveys, times) each
    log_ratios.append([np.interp(0, one, two - one) for one, two in zip(first, second, strict=True)])
    print(f"start {start:.0e}, sigma_1 = 1: median sigma_2 / sigma_1 {np.median(np.exp(log_ratios[-1])):.3f}")
measured = (np.array(log_ratios[0]) - log_ratios[1]) / np.log(10)
off = abs(measured - predicted).max()
print(f"largest error of the predicted exponents of beta: {off:.3f}")
assert off < 0.005

# %% [markdown]
# It goes like $\beta^{2 - 2 \bar\sigma_2 / \bar\sigma_1}$. Until $\sigma_1$ reaches 1 it grows by the factor
# $4 / \beta^2$, and in the same time $\sigma_2$ grows by about $(4 / \beta^2)^{\bar\sigma_2 / \bar\sigma_1}$.
# With the exact rates for $\bar\sigma_k$ the exponent, measured between these starts, is right within .005 on
# all hundred surveys.
#
# Call a run *greedy* if its leading singular value is large before the next has begun to count. **The smaller
# the start, the greedier the run,** though hardly where $\bar\sigma_1$ and $\bar\sigma_2$ are nearly equal.

# %% jupyter={"source_hidden": true} slideshow={"slide_type": "subslide"}
fig, ax = plt.subplots(figsize=(5.4, 3.0))
shown = np.arange(5, 601, 5)
singular = np.linalg.svd(path[: len(shown)], compute_uv=False)  # every fifth step
bar, t = np.linalg.svd(pull(0 * Y, Y), compute_uv=False), shown[:, None]
raced = beta**2 / 4 * ((1 + bar) ** (2 * t) - (1 - bar) ** (2 * t))
for k, color in enumerate(("blue", "vermillion", "green")):
    label = rf"$\sigma_{k + 1}$"
    ax.plot(shown, singular[:, k], color=COLORS[color], linewidth=3.5, alpha=0.8, label=label)
    label = "predicted" if k == 2 else None
    ax.plot(shown, raced[:, k], "--", color=COLORS["black"], linewidth=1.3, label=label)
ax.axhline(1, color=COLORS["grey"], linestyle=":", linewidth=1.6)
ax.set(yscale="log", ylim=(1e-8, 1e3), ylabel="singular values of $W_t$", xlabel="step $t$")
ax.legend(loc="lower right", fontsize=10)
show(
    fig,
    alt="Three singular values against steps, to 600, on a logarithmic axis. They rise along dashed lines "
    "to about step 170, then fall behind them. The first levels off near step 200, the second near step 400; "
    "the third ends at a hundredth of the first.",
)

# %% [markdown]
# **Figure 3.** Singular values of our run, and as the formula predicts them (dashed). Dotted: 1.

# %% [markdown]
# Where $\sigma_1$ reaches 1 in Figure 3, $\sigma_2$ is less than a hundredth of it. It catches up later,
# because answers that are already right pull less.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 04.3: What a run remembers
#
# ★★★ · 25 minutes
#
# Square factors start from $U = \beta I$, $V = 0$ and follow the gradient flow. At some moment $W$ has
# positive, distinct singular values. Return, from $W$, $M$ and $\beta$ alone,
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
# $W W^\top = U\, V^\top V\, U^\top$: put in what you know of $V^\top V$, and find the eigenvalues of
# $U U^\top$.
# </details>
# <details><summary>Hint 3</summary>
#
# As the $\sigma_k$ are distinct, the eigenvectors of $U U^\top$ are the $\xi_k$. Likewise
# $W^\top W = V\, U^\top U\, V^\top$ gives $V V^\top$ and the $\zeta_k$. In $\sigma_k = \xi_k^\top W \zeta_k$
# vectors that keep their length only turn, at right angles to themselves:
# $\sigma_k' = \xi_k^\top W' \zeta_k$.
# </details>


# %%
@exercise("04.3")
def remembered(W, M, beta):
    """(cost, speeds (d,)) at a moment of the flow: from W (d, d), the pull M (d, d) and beta alone."""
    ### BEGIN SOLUTION
    # U^T U = V^T V + beta^2 I; the derivation follows below
    left, sigma, right = np.linalg.svd(W)
    root = np.sqrt(sigma**2 + beta**4 / 4)
    return root.sum(), 2 * root * np.einsum("ak,ab,kb->k", left, M, right)  # xi^T (M V V^T + U U^T M) zeta
    ### END SOLUTION


# %%
check("04.3", remembered)

# %% [markdown]
# From every start the flow keeps $U^\top U - V^\top V$, as both terms have the speed
# $U^\top M V + V^\top M^\top U$. Here it is $\beta^2 I$, and so
#
# $$C = \sum_k \sqrt{\sigma_k^2 + \beta^4 / 4}, \qquad \sigma_k' = 2 \sqrt{\sigma_k^2 + \beta^4 / 4}\;\,
# \xi_k^\top M \zeta_k .$$
#
# <details><summary>Derivation</summary>
#
# $W W^\top = U V^\top V U^\top = (U U^\top)^2 - \beta^2 U U^\top$, so an eigenvalue $g_k$ of $U U^\top$
# solves $g_k^2 - \beta^2 g_k = \sigma_k^2$, which gives
# $g_k = \beta^2 / 2 + \sqrt{\sigma_k^2 + \beta^4 / 4}$. That of $V V^\top$ is $g_k - \beta^2$. The
# eigenvectors are $\xi_k$ and $\zeta_k$, so
# $\sigma_k' = \xi_k^\top (M V V^\top + U U^\top M) \zeta_k = (2 g_k - \beta^2)\, \xi_k^\top M \zeta_k$, and
# $C = \frac12 \sum_k (2 g_k - \beta^2)$.
# </details>
#
# **The start sets a scale, $\beta^2 / 2$.** Singular values far above it cost their sum, the nuclear norm.
# Those far below it grow at the speed $\beta^2\, \xi_k^\top M \zeta_k$, like those of trained entries.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4.6 Does it stall?
#
# After 2,000 steps our run has .74 of the largest margin. Does it come to the largest if it goes on?
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
# In lesson 02 a KKT point was a solution, because the problem was convex. In $(U, V)$ it is not, but two
# facts still hold. **The factors are balanced:** $U^\top U = U^\top S V = V^\top V$, and they cost only
# $\lVert W \rVert_*$. And **the margin is at least the share $1 / \lVert S \rVert_{\mathrm{op}}$ of the
# largest,** where $\lVert S \rVert_{\mathrm{op}} \ge 1$. So the point solves (P) if
# $\lVert S \rVert_{\mathrm{op}} = 1$.
#
# <details><summary>Proofs</summary>
#
# Balanced factors have $W^\top W = V U^\top U V^\top = (V V^\top)^2$. So $V V^\top$ is the positive root of
# $W^\top W$, which says that $V V^\top \zeta_k = \sigma_k \zeta_k$. The trace of $V V^\top$ is then
# $\lVert W \rVert_*$, and the cost is $\lVert V \rVert_F^2 = \lVert W \rVert_*$. Also
# $\lVert V \rVert_F^2 = \langle V, S^\top U \rangle = \langle S, W \rangle = \sum_i \lambda_i$.
#
# With these $\lambda_i$ the certificate of section 4.4 says
# $\hat\mu \le \lVert S \rVert_{\mathrm{op}} / \lVert W \rVert_*$. Some $\lambda_i$ is positive (else
# $W = 0$), so the least $\langle A_i, W \rangle$ is 1, and $\mu(W) = 1 / \lVert W \rVert_*$.
#
# Where $\sigma_k > 0$, $\sigma_k \xi_k = W \zeta_k = S V V^\top \zeta_k = \sigma_k S \zeta_k$. So $S$ maps
# the unit vector $\zeta_k$ to the unit vector $\xi_k$, and $\lVert S \rVert_{\mathrm{op}} \ge 1$. $\square$
# </details>
#
# **If $\lVert S \rVert_{\mathrm{op}} > 1$, a direction is missing.** Take a single matrix
# $A = \operatorname{diag}(1, 2)$. Then $U = V = (1, 0)^\top$ is a KKT point with $\lambda = 1$, $S = A$ and
# $\lVert S \rVert_{\mathrm{op}} = 2$. It has half the largest margin, which belongs to
# $\operatorname{diag}(0, 1)$, a direction that it lacks. In general the **leading pair** of $S$, the singular
# vectors $\xi_S$ and $\zeta_S$ of its largest singular value, is then absent from the factors:
# $U^\top \xi_S = 0$ and $V^\top \zeta_S = 0$ (question 1).

# %% [markdown] slideshow={"slide_type": "subslide"}
# How far do our runs come? Say that a run has $k$ *digits* when its least output $u_{\min}$ reaches
# $k \log 10$: the model then gives each wrong answer a probability below $10^{-k}$. The function
# [`follow`](../course/replicate/lesson_04.py) takes short steps along the flow until then. It divides the
# pull by its largest slope, as slopes fall to $10^{-300}$; this changes the clock but not the path.
#
# *Predict* with exercise 04.3: up to which $\sigma_1$ does a run from $\beta = 10$ keep the margin of trained
# entries? Which of five starts is nearest to the largest margin at 300 digits?


# %%
starts, digits = (30, 10, 1e-1, 1e-3, 1e-5), (1, 3, 10, 30, 100, 300)
_, others = tables(range(1200, 1220))  # 20 other surveys
others_largest = solve(others)[1]
factors = follow(*begin(starts, others), others, digits)
paths = factors[0] @ factors[1].mT  # (digits, starts, surveys, d, d)
reached = nearness(paths, others, others_largest)
scaled = np.linalg.norm(paths, 2, (-2, -1)) / (np.square(starts) / 2)[:, None]
print("20 surveys, medians at 1, 3, 10, 30, 100, 300 digits; mu / mu-hat of trained entries, always:", end="")
print(f"{np.median(nearness(others, others, others_largest)):6.3f}")  # they are equal in size, as those of Y
for name, values in (("mu / mu-hat", reached), ("sigma_1 / (beta^2/2)", scaled)):
    for start, medians in zip(starts, np.median(values, axis=2).T, strict=True):
        print(f"{name}, from {start:g}:".ljust(33), *(f"{value:#8.3g}" for value in medians))
print("from 10 mu falls by over .0001 on", (np.diff(reached[:, 1], axis=0) < -1e-4).any(0).sum(), "of 20")
assert np.diff(reached[:, 2:], axis=0).min() > 0  # from the smaller starts each margin climbs

# %% [markdown]
# From 30 and 10 the runs nearly keep the margin of the entries until $\sigma_1$ reaches $\beta^2 / 2$
# (exercise 04.3). The others are far past that, but the smaller starts are greedier (section 4.5), with more
# to catch up. **Nearest is a start between, .1.**
#
# From .1 and less every margin climbs, slowly; from 10 most fall somewhere. Whether they climb to the
# largest, the theorem leaves open. The widget shows our own survey: at 4 digits try starts from tiny to
# large.
#
# <details><summary>What climbs in any case</summary>
#
# Lyu & Li prove that once $L < \frac1n \log 2$ a smoothed margin climbs that divides by the cost $C$ in place
# of $\lVert W \rVert_*$. By exercise 04.3 the two differ by at most $d \beta^2 / 2$, nearly nothing from a
# small start. (And among tables of six by six .001 is no worse a start than .1.)
# </details>


# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output", "widget"]
def turn(start, digits):
    """Our survey's table and the shares of its singular values when every answer has so many digits."""
    U, V = follow(*begin([start], Y), Y, [digits])
    W = U[0, 0] @ V[0, 0].T
    figure = plt.Figure(figsize=(7.2, 3), layout="none")  # constrained layout would draw twice
    table, bars = figure.add_axes((0.05, 0.06, 0.36, 0.8)), figure.add_axes((0.52, 0.16, 0.46, 0.7))
    table.imshow(W / np.abs(W)[known].mean(), cmap="PuOr", vmin=-1.5, vmax=1.5)
    table.set(xticks=[], yticks=[], xlabel="film", ylabel="person")
    s = np.linalg.svd(W, compute_uv=False)
    bars.bar(range(1, d + 1), s / s.sum(), color=COLORS["vermillion"])
    bars.set(ylim=(0, 1), xticks=range(1, d + 1), xlabel="$k$", ylabel=r"$\sigma_k$ / nuclear norm")
    bars.set_title(rf"margin: {nearness(W, Y, largest):.2f} of $\hat\mu$", fontsize=11)
    return figure


layout = {"layout": {"width": "480px"}, "style": {"description_width": "150px"}}
widgets.sliders(
    turn,
    alt="Left the table, coloured by sign, right its ten singular values as shares of the nuclear norm.",
    start=ipywidgets.FloatLogSlider(value=0.1, min=-6, max=1.5, step=0.5, description="start", **layout),
    digits=ipywidgets.IntSlider(value=4, min=1, max=30, description="digits", **layout),
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4.7 A penalty lets it stop
#
# What does weight decay add? We add $\varepsilon$ times the cost, a ridge on both
# factors, to the loss. The loss depends on $W$ alone, and the cheapest factors of $W$ cost
# $\lVert W \rVert_*$ (section 4.3). So with enough columns **the ridge charges
# $\varepsilon \lVert W \rVert_*$,** and descent can stop.
#
# It stops at a **stationary point**, where $M V = \varepsilon U$ and $M^\top U = \varepsilon V$. Its factors
# are balanced, as in section 4.6 with $M / \varepsilon$ for $S$. A unit vector $h$ with $U h = V h = 0$ is a
# **free direction** of them. We call $m \ge \min(d_1, d_2)$ *full width*.
#
# > **Proposition.** *A stationary point of full width repels or solves. If
# > $\lVert M \rVert_{\mathrm{op}} > \varepsilon$, it* repels: *some small change of its factors grows.
# > Otherwise it* solves: *$W$ minimises $L(W) + \varepsilon \lVert W \rVert_*$, and
# > $\lVert M \rVert_{\mathrm{op}} = \varepsilon$, unless $W = 0$.*
#
# <details><summary>Proof</summary>
#
# *It repels if $\lVert M \rVert_{\mathrm{op}} > \varepsilon$ and there is a free direction* $h$. Add a little
# $\xi_M h^\top$ to $U$ and as little $\zeta_M h^\top$ to $V$, with the leading pair $\xi_M, \zeta_M$ of $M$.
# This changes $W$, and so $M$, only to second order, and it grows at the rate
# $\lVert M \rVert_{\mathrm{op}} - \varepsilon$.
#
# *If there is no free direction, $\lVert M \rVert_{\mathrm{op}} = \varepsilon$* (question 2).
#
# *Unless $W = 0$, $\lVert M \rVert_{\mathrm{op}} \ge \varepsilon$,* as $M M^\top U = \varepsilon^2 U$ says
# that $M$ has the singular value $\varepsilon$.
#
# *If $\lVert M \rVert_{\mathrm{op}} \le \varepsilon$, it solves.* As $L$ is convex,
# $L(\tilde W) \ge L(W) - \langle M, \tilde W - W \rangle$ for every $\tilde W$. And
# $\langle M, \tilde W \rangle \le \varepsilon \lVert \tilde W \rVert_*$ (section 4.4), with equality at $W$:
# $\langle M, W \rangle = \langle M V, U \rangle = \varepsilon \lVert U \rVert_F^2$, which is
# $\varepsilon \lVert W \rVert_*$. Together,
# $L(\tilde W) + \varepsilon \lVert \tilde W \rVert_* \ge L(W) + \varepsilon \lVert W \rVert_*$. $\square$
# </details>
#
# The last argument of `descend` is $\varepsilon$. *Predict*: do the starts $\beta = 10^{-8}$, .1 and 10 lead
# to one table?


# %%
def apart(one, other):
    """How far tables lie from others, relative to these: the largest over all surveys and starts."""
    return (np.linalg.norm(one - other, axis=(-2, -1)) / np.linalg.norm(other, axis=(-2, -1))).max()


eps, etas = 1e-3, np.repeat([4, 48], [2000, 9000])
U, V = descend(*begin([1e-8, 0.1, 10], others), others, etas, [11000], eps)[0]  # (starts, surveys, d, d) each
M, W = pull(U @ V.mT, others), U @ V.mT
print(f"20 surveys, three starts: ||M||_op / eps at most {(np.linalg.norm(M, 2, (-2, -1)) / eps).max():.3f},")
print(f"tables at most {100 * apart(W, W[1]):.2f} percent apart")
assert max(apart(M @ V, eps * U), apart(M.mT @ U, eps * V), apart(W, W[1])) < 0.001

# %% [markdown]
# They do: on every survey the three tables agree within a thousandth. As the two equations hold within a
# thousandth and $\lVert M \rVert_{\mathrm{op}} / \varepsilon$ is at most 1 to three decimals, the
# tables nearly solve. That descent always avoids the points that repel is not proved.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 04.4: Where a penalty stops
#
# ★★☆ · 10 minutes
#
# Of a stationary point with $\lVert M \rVert_{\mathrm{op}} = \varepsilon$ you see $\varepsilon$ and the
# outputs $u_i$, all positive. Return
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
    """(mu(W), B): two numbers, from the outputs u (n,) at a stationary point with ||M||_op = eps."""
    ### BEGIN SOLUTION
    slopes = 1 / (1 + np.exp(u))  # the lambda_i are slopes / n
    norm = (slopes * u).mean() / eps  # <M, W> = mean slopes u = eps ||W||_*, as the factors are balanced
    return u.min() / norm, eps / slopes.mean()
    ### END SOLUTION


# %%
check("04.4", enclosed)

# %% [markdown]
# Let $\lambda_i = |\ell'(u_i)| / n$ be the weights of the pull, so that $\sum_i \lambda_i$ is the mean slope,
# and let $u_{\mathrm{mean}} = \sum_i \lambda_i u_i / \sum_i \lambda_i$. If
# $\lVert M \rVert_{\mathrm{op}} = \varepsilon$ and $u_{\min} > 0$, the exercise says
#
# $$\mu(W) = \frac{u_{\min}}{u_{\mathrm{mean}}}\, \frac{\varepsilon}{\sum_i \lambda_i} \le \hat\mu \le
# \frac{\varepsilon}{\sum_i \lambda_i} .$$
#
# So **a penalty stops where the mean slope is $\varepsilon / \hat\mu$,** or below that by at most the factor
# $u_{\min} / u_{\mathrm{mean}}$. And the margin lacks at most the share $1 - u_{\min} / u_{\mathrm{mean}}$ of
# the largest. This bound tends to 0 as $\varepsilon \to 0$ (question 3).

# %%
print("medians  digits  1 - mu/mu-hat  1 - u_min/u_mean; without: digits  1 - mu/mu-hat  nearer on")
for eps in (1e-2, 1e-3, 1e-4):
    etas, both = np.repeat([4, min(48, 0.12 / eps)], [500, 8000]), np.reshape([eps, 0], (2, 1, 1, 1))
    U, V = descend(*begin([0.1, 0.1], others), others, etas, [8500], both)[0]  # with the penalty and without
    W, M = U @ V.mT, pull(U @ V.mT, others)
    least = np.where(others == 0, np.inf, others * W).min((-2, -1))
    bound = 1 - least * np.abs(M).sum((-2, -1)) / (M * W).sum((-2, -1))  # |M| holds the lambda_i
    size, lacks = least / np.log(10), 1 - nearness(W, others, others_largest)
    row = *map(np.median, (size[0], lacks[0], bound[0], size[1], lacks[1])), (lacks[1] < lacks[0]).sum()
    print(f"{eps:7} {{:7.2f}} {{:14.2f}} {{:17.2f}} {{:16.1f}} {{:14.2f}} {{:7}} of 20".format(*row))
    # with it: nearly stationary, nearly a minimum, and the bound holds on each survey
    assert max(apart((M @ V)[0], eps * U[0]), apart((M.mT @ U)[0], eps * V[0])) < 0.002
    assert np.linalg.norm(M[0], 2, (-2, -1)).max() < 1.01 * eps
    assert min(least.min(), (bound - lacks)[0].min() + 1e-3) > 0

# %% [markdown]
# The bound holds on every survey, and the medians nearly reach it. In equal steps the run without a penalty
# is nearer, as it comes to more digits. At equal digits the penalty is: it lacks .09 at 2.5, the flow of
# section 4.6 from .1 more than .13 at 3.

# %% [markdown]
# **What a small penalty gives is a guarantee: on factors of full width, points that solve are provably near a
# table of smallest nuclear norm,** as the bound tends to 0.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## 4.8 How slowly a missing direction returns *(optional)*
#
# Can a run near a KKT point that lacks a direction (section 4.6) get it back? We give a rough argument, which
# is not a proof, and measure the exponent that it names.
#
# Along the run the pull $M$ takes the place of $S$: every limit of $M$, at the right scale, is such an $S$.
# Let $\xi_M, \zeta_M$ be the leading pair of $M$, and suppose that $M$ stands still. Then the flow has
#
# $$(U^\top \xi_M)' = \lVert M \rVert_{\mathrm{op}}\, V^\top \zeta_M, \qquad
# (V^\top \zeta_M)' = \lVert M \rVert_{\mathrm{op}}\, U^\top \xi_M .$$
#
# So the sum of the two vectors grows at the rate $\lVert M \rVert_{\mathrm{op}}$, and their difference
# shrinks. We call $\frac14 \lVert U^\top \xi_M + V^\top \zeta_M \rVert^2$ the **missing part**. It grows at
# the rate $2 \lVert M \rVert_{\mathrm{op}}$, and once the two vectors are equal, it is
# $\xi_M^\top W \zeta_M$.
#
# If the factors are nearly balanced, as they stay from a small start, $\lVert W \rVert_*$ is about
# $\lVert V \rVert_F^2$, which grows at the rate $2 \langle M, W \rangle / \lVert V \rVert_F^2$. The first
# rate, divided by the second, is
#
# $$c = \frac{\lVert M \rVert_{\mathrm{op}} \lVert W \rVert_*}{\langle M, W \rangle} \ge 1 .$$
#
# At a KKT point, with $S$ for $M$, this is $\lVert S \rVert_{\mathrm{op}}$. So **the missing part grows like
# $\lVert W \rVert_*^c$** while $M$ and $W$ hardly turn, and its share of $\lVert W \rVert_*$ grows like
# $\lVert W \rVert_*^{c - 1}$. That is slow, because $\lVert W \rVert_* = u_{\min} / \mu(W)$ grows about like
# $-\log L$.
#
# <details><summary>Why every limit of the pull is such an S</summary>
#
# The speed of $(U, V)$, too, turns to the direction in which $(U, V)$ converges (Ji & Telgarsky 2020). So, at
# the right scale, $M V$ comes near $U$ and $M^\top U$ near $V$. And next to the others, the slopes of answers
# with $u_i / u_{\min} \to a > 1$ vanish. So every limit of scaled slopes is a choice of the $\lambda_i$, and
# the same limit of $M$ is their $S$.
# </details>

# %%
W = paths[[3, 5], 2:]  # of section 4.6, at 30 and 300 digits, from the small starts
M, _ = far(W, others)
c = np.linalg.norm(M, 2, (-2, -1)) * np.linalg.norm(W, "nuc", (-2, -1)) / (M * W).sum((-2, -1))
print("medians of c from .1, 1e-3, 1e-5, at 30 and at 300 digits:", *np.median(c, axis=2).round(2))

# %% [markdown]
# So the share of a pair grows while it leads, but slowly: from $10^{-5}$ the median of $c$ is still 1.71 at
# 300 digits.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Questions
#
# **1.** At a KKT point with $\lVert S \rVert_{\mathrm{op}} > 1$, why do $U$ and $V$ lack the leading pair of
# $S$? And can the point solve (P) all the same?
# <details><summary>Answer</summary>
#
# Let $s = \lVert S \rVert_{\mathrm{op}}$, so $S^\top \xi_S = s\, \zeta_S$. As $U = S V$,
# $U^\top \xi_S = V^\top S^\top \xi_S = s\, V^\top \zeta_S$, and likewise $V^\top \zeta_S = s\, U^\top \xi_S$.
# So $U^\top \xi_S = s^2\, U^\top \xi_S$ with $s > 1$, and both vectors are zero.
#
# It can. Where several choices of the $\lambda_i$ fit, $\lVert S \rVert_{\mathrm{op}}$ depends on the choice,
# and one choice for which it is 1 is enough (section 4.6).
#
# An example: take $\operatorname{diag}(1, 2)$ and $\operatorname{diag}(1, -2)$ for the $A_i$, and
# $U = V = (1, 0)^\top$. Both constraints are tight. The choice $\lambda = (1, 0)$ gives
# $S = \operatorname{diag}(1, 2)$, of norm 2; but $\lambda = (\frac12, \frac12)$ gives
# $S = \operatorname{diag}(1, 0)$, of norm 1, and the point solves (P).
# </details>
#
# **2.** Why is $\lVert M \rVert_{\mathrm{op}} = \varepsilon$ at a stationary point of full width without a
# free direction?
# <details><summary>Answer</summary>
#
# As $U^\top U = V^\top V$, $U h = 0$ exactly when $V h = 0$. So neither is 0 for any unit vector $h$, and $U$
# and $V$ both have rank $m \le \min(d_1, d_2)$, with equality at full width. The factor on the smaller side
# is then square and invertible, and $M M^\top U = \varepsilon^2 U$ or $M^\top M V = \varepsilon^2 V$ says
# that all singular values of $M$ are $\varepsilon$.
# </details>
#
# **3.** Why is $u_{\mathrm{mean}} - u_{\min} \le \log(2n)$ at a stationary point with
# $\lVert M \rVert_{\mathrm{op}} = \varepsilon$ and $u_{\min} \ge 0$, and why does $u_{\min}$ grow as
# $\varepsilon$ falls?
# <details><summary>Answer</summary>
#
# Let $q_i = \lambda_i / \sum_j \lambda_j$. As $n \lambda_i = 1 / (1 + \exp(u_i))$,
# $u_i \le \log(1 + \exp(u_i)) = -\log(n \lambda_i) = -\log q_i - \log(n \sum_j \lambda_j)$. Take means with
# the weights $q_i$. That of $u_i$ is $u_{\mathrm{mean}}$; that of $-\log q_i$, an entropy, is at most
# $\log n$; and $n \sum_j \lambda_j$, the sum of the slopes, is at least the largest slope,
# $1 / (1 + \exp(u_{\min}))$. So
# $u_{\mathrm{mean}} \le \log n + \log(1 + \exp(u_{\min})) \le \log n + \log 2 + u_{\min}$; the last step
# needs $u_{\min} \ge 0$. As
# $1 - u_{\min} / u_{\mathrm{mean}}$ rises with $u_{\mathrm{mean}}$, it is at most
# $\log(2n) / (u_{\min} + \log(2n))$, which tends to 0 as $u_{\min} \to \infty$.
#
# The largest slope is at most $n \sum_j \lambda_j \le n \varepsilon / \hat\mu$, whatever the sign of
# $u_{\min}$. So it is below $\frac12$, that is $u_{\min} > 0$, once $\varepsilon < \hat\mu / (2n)$, and
# $u_{\min} \to \infty$ as $\varepsilon \to 0$.
# </details>
#
# **4.** $U = V = 0$ is a stationary point for every $\varepsilon$. When does it repel?
# <details><summary>Answer</summary>
#
# There $W = 0$, so $M = M_0$ (section 4.5), and every direction is free. So it repels, at the rate
# $\lVert M_0 \rVert_{\mathrm{op}} - \varepsilon$, if $\varepsilon < \lVert M_0 \rVert_{\mathrm{op}}$. With a
# larger penalty $\lVert M \rVert_{\mathrm{op}} \le \varepsilon$, and $W = 0$ minimises the loss plus
# $\varepsilon \lVert W \rVert_*$: nothing is learned.
# </details>

# %%
progress("04")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# Descent leads a product slowly towards a KKT point of (P), which may lack a direction. On our surveys a
# start neither tiny nor large came nearest to the smallest nuclear norm. With a small penalty, stationary
# points of full width that do not repel are provably near it.
#
# - A product moves along $M V V^\top + U U^\top M$, so its blanks move.
# - The cheapest factors cost the nuclear norm of their product, so its max-margin problem is (P).
# - A smaller start $\beta I$, $0$ is greedier: when $\sigma_1$ is 1, $\sigma_2$ is like
#   $\beta^{2 - 2\bar\sigma_2 / \bar\sigma_1}$. While
#   $\sigma_1$ is below $\beta^2 / 2$, $W$ moves like trained entries.
# - A KKT point has at least the share $1 / \lVert S \rVert_{\mathrm{op}}$ of the largest margin.
# - With a penalty, a stationary point of full width repels or solves. If it solves and $u_{\min} > 0$, it
#   lacks at most the share $1 - u_{\min} / u_{\mathrm{mean}}$ of the largest margin.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Further reading
#
# - N. Srebro, J. Rennie, T. Jaakkola. *Maximum-margin matrix factorization.* NIPS 2004 (published 2005).
#   Our survey, and the theorem of section 4.3.
# - S. Gunasekar, B. Woodworth, S. Bhojanapalli, B. Neyshabur, N. Srebro. *Implicit regularization in matrix
#   factorization.* NIPS 2017, arXiv:1705.09280. The conjecture, for the squared loss, that small starts lead
#   to the smallest nuclear norm. There descent ends at a finite table, and then the start tends to 0; in
#   section 4.6 the loss is logistic, and time tends to infinity while the start stays.
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
