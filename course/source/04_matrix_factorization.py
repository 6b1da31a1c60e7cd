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
# - predict where descent on two factors stalls, and how long it will wait there.
#
# **You need** [lesson 01](01_logistic_regression_bias.ipynb) (margin, direction, $\log t$),
# [lesson 02](02_hard_margin_svm.ipynb) (KKT conditions, certificates), and the singular value decomposition.
# About 90 minutes, six exercises.

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
def pairs(truth, known):
    """y_i x_i and z_i for all known answers: (n, d) each."""
    person, film = np.nonzero(known)
    return truth[known][:, None] * np.eye(len(truth))[person], np.eye(len(truth))[film]


def features(truth, known):
    """The signed feature matrices A_i: (n, d, d)."""
    yx, z = pairs(truth, known)
    return yx[:, :, None] * z[:, None, :]


def outputs(W, A):
    """The u_i = <A_i, W>: (..., n), for W (..., d1, d2) and A (n, d1, d2)."""
    return W.reshape(*W.shape[:-2], -1) @ A.reshape(len(A), -1).T


def pull(W, A, scaled=False):
    """-grad L at W, the shape of W; scaled: divided by the largest |l'(u_i)|, so that it never underflows."""
    log_slopes = -np.logaddexp(0, outputs(W, A))
    if scaled:
        log_slopes -= log_slopes.max(axis=-1, keepdims=True)
    return (np.exp(log_slopes) @ A.reshape(len(A), -1)).reshape(W.shape) / len(A)


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
# Beside them stands what needs no training at all: take the table with zeros for the blanks, and keep only
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
    """The table with all but its largest singular values set to zero."""
    left, singular, right = np.linalg.svd(table)
    return left[:, :rank] * singular[:rank] @ right[:rank]


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
    "known = descent on $W$": W_entries,
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
# Before we wonder: a single singular value gets 45. What fills the blanks, on this survey, is a low rank,
# whoever brings it about. Twenty other surveys put the three on an equal footing.

# %%
shares = []
for answers, asked in map(survey, range(100, 120)):
    ((U, V),) = descend(beta * np.eye(d), np.zeros((d, d)), features(answers, asked), 1.0, [2000])
    filled = U @ V.T, truncated(answers * asked, 1), truncated(answers * asked, 2)
    shares.append([(np.sign(W) == answers)[~asked].mean() for W in filled])
means = 100 * np.mean(shares, axis=0)
print("unknown answers right, mean over 20 surveys, in percent:")
print(f"descent on factors {means[0]:.0f}, largest singular value {means[1]:.0f}, two largest {means[2]:.0f}")
assert np.allclose(means, [81, 76, 78], atol=0.5), "see exercise 04.1"

# %% [markdown]
# So 48 of 53 was luck, descent on factors is a little better than the shortcuts, and the question of this
# lesson is sharper: *why* do factors bring about a low rank, *which* table do they choose, and do they get
# there?

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
# The smallest survey can be worked out by hand: two people, two films, one blank $c$. As $\sigma_1^2 +
# \sigma_2^2 = \lVert W \rVert_F^2$ and $\sigma_1 \sigma_2 = |\det W|$,
#
# $$W = \begin{pmatrix} a & b \\ e & c \end{pmatrix}, \qquad
# \lVert W \rVert_*^2 = (\sigma_1 + \sigma_2)^2 = a^2 + b^2 + e^2 + c^2 + 2\, \lvert ac - be \rvert .$$

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 04.2: The best blank
#
# ★★☆ · 8 minutes
#
# Which $c$ makes the nuclear norm smallest? Here $a \ne 0$; $b$ and $e$ are any numbers. A formula is wanted,
# correct to many digits, not a search. Before you begin, guess: is it always the $c$ that makes the rank one?
#
# <details><summary>Hint</summary>
#
# The function has a kink at $c_0 = be/a$. Left and right of it, it is a parabola in $c$. Where would the two
# parabolas have their minima, and when is such a minimum on its own side of the kink? By convexity, there is
# no other place to look.
# </details>


# %%
@exercise("04.2")
def best_blank(a, b, e):
    """The c for which [[a, b], [e, c]] has the smallest nuclear norm: a number."""
    ### BEGIN SOLUTION
    return a * np.clip(b * e / a**2, -1, 1)
    ### END SOLUTION


# %%
check("04.2", best_blank)

# %%
corner = np.linspace(-1, 7, 801)
surveys = {"1, 1, 1": (1.0, 1.0, 1.0), "1, 2, 3": (1.0, 2.0, 3.0)}
norms = {}
for name, (a, b, e) in surveys.items():
    candidates = np.array([[[a, b], [e, c]] for c in corner])
    frobenius, nuclear = (np.linalg.norm(candidates, kind, axis=(1, 2)) for kind in ("fro", "nuc"))
    norms[name] = frobenius, nuclear
    c = best_blank(a, b, e)
    rank = np.linalg.matrix_rank([[a, b], [e, c]])
    lowest = corner[frobenius.argmin()], corner[nuclear.argmin()]
    print(f"{name}, c: Frobenius smallest at c = {lowest[0]:.0f}, nuclear at {lowest[1]:.0f}, of rank {rank}")
    assert np.allclose(lowest, [0, 1])
    assert np.isclose(c, 1), "see exercise 04.2"
    assert rank == (1 if name == "1, 1, 1" else 2)

# %% jupyter={"source_hidden": true} slideshow={"slide_type": "fragment"}
fig, axes = plt.subplots(1, 2, figsize=(9.2, 3.2))
for (name, values), reach, ax in zip(norms.items(), (3, 7), axes, strict=True):
    near = corner <= reach
    lines = ("Frobenius", "o", "blue"), ("nuclear", "s", "vermillion")
    for value, (label, marker, color) in zip(values, lines, strict=True):
        ax.plot(corner[near], value[near], color=COLORS[color], label=label)
        ax.plot(corner[value.argmin()], value.min(), marker, markersize=9, color=COLORS[color])
    a, b, e = surveys[name]
    ax.axvline(b * e / a, color=COLORS["black"], linestyle=":", linewidth=1.6)
    ax.set(title=f"answers {name}", xlabel="the blank, $c$", ylabel="norm of the table")
axes[0].legend()
show(
    fig,
    alt="Two panels with curves against c. Left: the Frobenius norm is a smooth bowl with its minimum at 0, "
    "the nuclear norm has a kink at c = 1, which is its minimum. Right: the kink of the nuclear norm is at "
    "c = 6, marked by a dotted line, and its minimum at c = 1, far to the left of it.",
)

# %% [markdown]
# **Figure 2.** The norms of a table with blank $c$; marks at the minima, dotted where the rank is one.

# %% [markdown]
# The Frobenius norm is smallest at $c = 0$: no opinion. For the answers 1, 1, 1 the nuclear norm is smallest
# where the two rows agree and the rank falls to one: a sum of singular values, like the sum of absolute
# values in the $\ell_1$ norm, has kinks where some of them vanish, and minima like to sit in kinks. They need
# not. For 1, 2, 3 rank one would cost a 6 in the corner, and the nuclear norm settles for rank two. **A small
# nuclear norm leans towards low rank; it is not the same as low rank.** Keep this in mind: the difference
# decides the second half of the lesson.

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
# **Proof**, in three lines. Let $U_k$, $V_k$ be the columns of any pair with
# $U V^\top = \sum_k U_k V_k^\top = W$, and let $P = \sum_{\sigma_k > 0} \xi_k \zeta_k^\top$ be the polar
# factor of $W$ (lesson 03), which has $\lVert P \rVert_{\mathrm{op}} \le 1$:
#
# $$\begin{aligned}
# \lVert W \rVert_* = \textstyle\sum_k \sigma_k = \langle P, W \rangle &= \textstyle\sum_k U_k^\top P\, V_k \\
# &\le \textstyle\sum_k \lVert U_k \rVert\, \lVert V_k \rVert \\
# &\le \textstyle\sum_k \tfrac12 \left( \lVert U_k \rVert^2 + \lVert V_k \rVert^2 \right).
# \end{aligned}$$
#
# The columns $U_k = \sqrt{\sigma_k}\, \xi_k$ and $V_k = \sqrt{\sigma_k}\, \zeta_k$ turn both inequalities
# into equalities. $\square$
#
# The second line has a meaning of its own. Multiplying $U_k$ by $c_k > 0$ and dividing $V_k$ by it leaves the
# product alone, and $\sum_k \lVert U_k \rVert \lVert V_k \rVert$ is the lowest cost that such rescaling can
# approach.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 04.3: Three costs
#
# ★★☆ · 6 minutes
#
# For given $U$ and $V$, return
#
# 1. their cost; 2. the lowest cost that rescaling can approach, $U_k \to c_k U_k$ and $V_k \to V_k / c_k$,
# with the best $c_k > 0$ for *each* column; 3. the lowest cost of any pair with the same product.
#
# A column of zeros may occur.
#
# <details><summary>Hint: the second</summary>
#
# One column costs $\frac12 (c^2 \lVert U_k \rVert^2 + \lVert V_k \rVert^2 / c^2)$. Minimise over $c$ on
# paper; the minimum needs no $c$, and so no division.
# </details>


# %%
@exercise("04.3")
def costs(U, V):
    """Three numbers: as it is, columns rescaled, cheapest; for U (d1, m), V (d2, m)."""
    ### BEGIN SOLUTION
    cost = ((U**2).sum() + (V**2).sum()) / 2
    rescaled = np.linalg.norm(U, axis=0) @ np.linalg.norm(V, axis=0)
    return cost, rescaled, np.linalg.norm(U @ V.T, "nuc")
    ### END SOLUTION


# %%
check("04.3", costs)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4.4 The margin that belongs to a product
#
# Lesson 01: descent on $W$ finds the shortest $W$ with all $\langle A_i, W \rangle \ge 1$. Ask for the
# *cheapest pair* with all $\langle A_i, U V^\top \rangle \ge 1$ instead, and the theorem translates:
#
# $$\min_{U, V}\ \tfrac12 \left( \lVert U \rVert_F^2 + \lVert V \rVert_F^2 \right) \ \text{ s.t. }
# \langle A_i, U V^\top \rangle \ge 1
# \qquad = \qquad
# \min_W\ \lVert W \rVert_* \ \text{ s.t. } \langle A_i, W \rangle \ge 1 , \tag{N}$$
#
# as long as there are enough columns. On the left the problem is not convex; on the right it is. Its solution
# is $W_{\mathrm{nuc}}$; with the Frobenius norm, as in lesson 02, it is $W_{\mathrm{fro}}$. The **nuclear
# margin** of a matrix, and the largest one, are
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

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 04.4: A certificate in the other norm
#
# ★★☆ · 6 minutes
#
# Return both bounds on $\hat\mu$, $\mu(W)$ and $B(\lambda)$, for any $W \ne 0$: where an answer is wrong,
# $\mu(W)$ is negative.
#
# <details><summary>Hint</summary>
#
# `np.tensordot(A, W)` sums over two axes of each, `np.tensordot(lam, A, 1)` over one. Which of the two norms
# stands below the line, and which above?
# </details>


# %%
@exercise("04.4")
def certify(W, lam, A):
    """(mu(W), B(lam)): two numbers, for W (d1, d2), weights lam (n,), A (n, d1, d2)."""
    ### BEGIN SOLUTION
    lower = np.tensordot(A, W).min() / np.linalg.norm(W, "nuc")
    return lower, np.linalg.norm(np.tensordot(lam, A, 1), 2) / lam.sum()
    ### END SOLUTION


# %%
check("04.4", certify)

# %% [markdown]
# The library keeps each $A_i = a_i b_i^\top$ as its two vectors, and `svm.solve` takes the norm by name. The
# nuclear norm has flat pieces, so its solution need not be unique, and `svm.certified_rank` reads from the
# weights a bound on the rank of *every* solution (section 4.6 says how). Here it is 3, and the solution found
# has three singular values that are not zero.


# %% slideshow={"slide_type": "subslide"}
def solve(truth, known, norm="nuc"):
    """The max-margin problem of a survey, and its solution in a norm."""
    yx, z = pairs(truth, known)
    problem = svm.HardMarginProblem(torch.tensor(yx), torch.tensor(z), torch.ones(len(z)).double())
    return problem, svm.solve(problem, norm=norm)


def cosine(a, b):
    return (a * b).sum((-2, -1)) / np.linalg.norm(a, axis=(-2, -1)) / np.linalg.norm(b, axis=(-2, -1))


problem, solution = solve(truth, known)
W_nuc, lam = solution.value.numpy(), solution.dual.numpy()
W_fro = solve(truth, known, "fro")[1].value.numpy()
bound_on_rank = svm.certified_rank(problem, solution).item()
lower, upper = certify(W_nuc, lam, A)

print(f"{'':6}Frobenius norm   nuclear norm   rank")
for name, W in (("W_fro", W_fro), ("W_nuc", W_nuc)):
    rank = np.linalg.matrix_rank(W, tol=1e-6)
    print(f"{name} {np.linalg.norm(W):12.3f} {np.linalg.norm(W, 'nuc'):15.3f} {rank:10d}")
print("singular values of W_nuc:", *(f"{s:.2f}" for s in np.linalg.svd(W_nuc, compute_uv=False)[:4]))
print(f"cosine between the two {cosine(W_fro, W_nuc):.3f}")
print(f"largest nuclear margin, proved: {lower:.6f} to {upper:.6f}")
agree = (np.sign(W_nuc) == truth)[~known].sum()
differ = (np.sign(W_nuc) != np.sign(path[-1])).sum()
print(f"W_nuc has {agree} unknown answers right; its signs and those of the run differ in {differ}")
assert np.allclose(W_fro, truth * known, atol=1e-6)
assert np.isclose(cosine(W_entries, W_fro), 1)
assert (bound_on_rank, np.linalg.matrix_rank(W_nuc, tol=1e-6), agree) == (3, 3, 48)
assert differ == 2, "see exercise 04.1"
assert np.isclose(cosine(W_fro, W_nuc), 0.760, atol=5e-4)
assert -1e-9 <= 1 - lower / upper < 1e-6, "see exercise 04.4"
assert np.isclose(lower, solution.margin.item()), "see exercise 04.4"

# %% [markdown]
# $W_{\mathrm{fro}}$ is the table of known answers itself, zeros and all, and it is the direction of descent
# on the entries. (Here from the first step on: indicators make the $A_i$ orthonormal, so every entry goes
# its own way, and all at one speed.) $W_{\mathrm{nuc}}$ has rank 3 and 48 unknown answers right, as many as
# our run, though not quite the same ones. Is it where the run was going?

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4.5 A race
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
# ★★☆ · 8 minutes
#
# Return the singular values of $W_t$ after $t$ steps with constant pull $M$, from $U = \beta I$, $V = 0$, in
# decreasing order. There is a closed formula; a loop over the steps is fine too.
#
# <details><summary>Hint</summary>
#
# The sum $a_k + b_k$ is multiplied by $1 + \eta \bar\sigma_k$ at each step. What happens to the difference?
# And $4ab = (a + b)^2 - (a - b)^2$.
# </details>


# %%
@exercise("04.5")
def race(M, beta, eta, t):
    """Singular values of W_t: shape (d,), decreasing, for M (d, d), start beta, step size eta, t steps."""
    ### BEGIN SOLUTION
    first = np.linalg.svd(M, compute_uv=False)
    return beta**2 / 4 * ((1 + eta * first) ** (2 * t) - (1 - eta * first) ** (2 * t))
    ### END SOLUTION


# %%
check("04.5", race)

# %%
singular = np.linalg.svd(path, compute_uv=False)
M0, at = pull(np.zeros((d, d)), A), {t: k for k, t in enumerate(times)}
shown = np.arange(5, 601, 5)
predicted = np.array([race(M0, beta, 1.0, int(t)) for t in shown])
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
assert (stages[150], stages[600], stages[2000]) == (43, 47, 47), "see exercise 04.1"
assert singular[at[150], 1] < 0.05 * singular[at[150], 0], "see exercise 04.1"
assert all(singular[at[t], 2] < 0.015 * singular[at[t], 0] for t in (600, 2000)), "see exercise 04.1"
assert all(0.935 < cosine(path[at[t]], W_nuc) < 0.945 for t in (600, 2000)), "see exercise 04.1"

# %% jupyter={"source_hidden": true} slideshow={"slide_type": "subslide"}
fig, (left_ax, right_ax) = plt.subplots(1, 2, figsize=(9.6, 3.6), width_ratios=(1.25, 1))
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
# Nothing is fitted here, and until step 100 measurement and prediction agree to 0.04 percent. The first
# singular value also arrives, say at size 1, when $M_0$ says; for the second $M_0$ is too early, with step
# 238 instead of 270.
#
# At first the growth is additive, and $W_t$ points along $W_{\mathrm{fro}}$. Then it becomes exponential,
# and the largest $\bar\sigma_k$ wins: at step 150 the rank is practically one. That single direction gets
# 43 of the 47 known answers right. Their slopes $|\ell'(u_i)|$ drop, and the pull turns to what is still
# wrong. Now the second singular value comes up, until all 47 are right. **Descent on factors is greedy**:
# it adds one direction at a time, and only while answers are wrong.
#
# With two directions no answer is wrong any more. The third comes to a halt at one percent of the first, the
# cosine to $W_{\mathrm{nuc}}$ at 0.94, and there it still is at step 2,000. Is this run merely slow?

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4.6 The stall
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
#   be too low: the leading direction of $S$ is missing from $W$. Is there a way out, and how long is it?

# %% [markdown] slideshow={"slide_type": "subslide"}
# **The law.** Late in a run the pair $(U, V)$ keeps its direction, up to its length a KKT point. Then the
# pull is $M = b S$ with a number $b > 0$ that shrinks with the loss. The **live** directions, those of $W$,
# obey $U' = M V = b U$ and $V' = b V$ (a prime is the change per unit of time): they grow at the rate $b$.
# Now put a tiny **newcomer** into a column that is still free: $\varepsilon_1 \xi$ into $U$ and
# $\varepsilon_2 \zeta$ into $V$, along singular vectors of $S$ with singular value $c$. Then
#
# $$\varepsilon_1' = b c\, \varepsilon_2, \qquad \varepsilon_2' = b c\, \varepsilon_1 :$$
#
# $\varepsilon_1 + \varepsilon_2$ grows at the rate $b c$. In $W$ there are products of two factors, so the
# live singular values grow at the rate $2b$, the newcomer at $2bc$, whatever $b$ does:
#
# $$\boxed{\ \sigma_{\mathrm{new}} \propto \sigma_1^{\,c}\ } \qquad \text{and its share} \qquad
# \frac{\sigma_{\mathrm{new}}}{\sigma_1} \propto \sigma_1^{\,c - 1} .$$
#
# The share does grow if $c > 1$: a stall is no end. But it grows like a power of $\sigma_1$, while $\sigma_1$
# itself grows like $\log t$, as weights did in lesson 01.
#
# To see this we must get very far, in steps that follow the flow. So we adapt the step size: no step turns
# the pair by more than 2 percent of its length, nor moves any $u_i$ by more than about 0.4. All starts run
# side by side, until every $u_i$ is at least $k \log 10$: the loss is then at most $10^{-k}$.


# %%
def follow(starts, A, digits):
    """W when the loss is first below 10^-digits, from U = start I, V = 0: (digits, starts, d, d)."""
    U = np.multiply.outer(starts, np.eye(A.shape[1]))
    V = np.zeros_like(U)
    levels = np.log(10) * np.array(digits)[:, None]
    kept = np.full((len(digits), *U.shape), np.nan)
    reached = np.zeros(kept.shape[:2], dtype=bool)
    while not reached.all():
        W = U @ V.mT
        new = (outputs(W, A).min(axis=-1) >= levels) & ~reached
        if new.any():
            kept[new] = np.broadcast_to(W, kept.shape)[new]
            reached |= new
        M = pull(W, A, scaled=True)
        gU, gV = M @ V, M.mT @ U  # your step, for all starts at once
        speed = np.abs(outputs(gU @ V.mT + U @ gV.mT, A)).max(axis=-1)
        size, length = (np.sqrt((a**2 + b**2).sum((1, 2))) for a, b in ((U, V), (gU, gV)))
        step = np.minimum(0.02 * size / length, 0.4 / speed)[:, None, None]
        U, V = U + step * gU, V + step * gV
    return kept


early, late = follow([1e-6], A, [30, 300])[:, 0]
S = pull(late, A, scaled=True)
S = S * np.linalg.norm(late, "nuc") / (S * late).sum()  # so that <S, W> = ||W||_*
spectra = np.linalg.svd(np.array([early, late]), compute_uv=False)
growth = np.log(spectra[1, :4] / spectra[0, :4])
growth = growth / growth[0]
powers = np.linalg.svd(S, compute_uv=False)[:4]
print("shares of sigma_1 at loss 1e-300:", *(f"{value:.1e}" for value in spectra[1, 1:4] / spectra[1, 0]))
print("grow like sigma_1 to the power:  ", *(f"{value:.2f}" for value in growth))
print("singular values of S:            ", *(f"{value:.2f}" for value in powers))
reached, bound = certify(late, np.exp(-(outputs(late, A) - outputs(late, A).min())), A)
share = reached / solution.margin.item()
print(f"share of the largest nuclear margin: {share:.3f}, proved by S alone: {reached / bound:.3f}")
assert np.allclose(growth, [1, 1, 2.01, 1.25], atol=0.02)
assert np.allclose(powers, [2.01, 1.24, 1, 1], atol=0.02)
assert (spectra[1, 2:] < 0.01 * spectra[1, 0]).all()
assert 0.88 < share < 0.89
assert np.isclose(reached / bound, 0.50, atol=0.01), "see exercise 04.4"
assert reached / bound < share, "see exercise 04.4"

# %% [markdown]
# At a loss of $10^{-300}$ the rank is still two. The two live directions have singular value 1 in $S$, as
# they should, and for each of two newcomers the power is the one that $S$ predicts: 2.01 for the third,
# 1.25 for the fourth. (The mean margin with weights $\lambda_i$ stands for the smallest here; late in the
# run they agree.)

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 04.6: How long is the wait?
#
# ★★★ · 12 minutes
#
# A run has stalled. You are given its product $W$, the pull $M = b S$ (nobody tells you $b$), and the present
# size `newcomer` of the singular value that grows along the leading direction of $M$. Here $c > 1$. Return
#
# 1. the power $c$ in $\sigma_{\mathrm{new}} \propto \sigma_1^c$; 2. the value that $\sigma_1$ will have when
# the newcomer is `share` times as large as $\sigma_1$ is then.
#
# <details><summary>Hint: the power</summary>
#
# $S$ is scaled so that the live directions have singular value 1. You know $\langle S, U V^\top \rangle$ at a
# KKT point: it is the cost, and at a KKT point the cost is the nuclear norm.
# </details>
#
# <details><summary>Hint: the wait</summary>
#
# Write $\sigma_{\mathrm{new}} = C\, \sigma_1^c$, find $C$ from today's values, and solve
# $\sigma_{\mathrm{new}} = \mathrm{share} \cdot \sigma_1$.
# </details>


# %%
@exercise("04.6")
def wait(W, M, newcomer, share):
    """(c, sigma_1 then): two numbers, for W and M (d1, d2), the newcomer's size and the share to wait for."""
    ### BEGIN SOLUTION
    c = np.linalg.norm(M, 2) * np.linalg.norm(W, "nuc") / (M * W).sum()
    top = np.linalg.norm(W, 2)
    return c, top * (share * top / newcomer) ** (1 / (c - 1))
    ### END SOLUTION


# %%
check("04.6", wait)

# %% [markdown]
# Three starts, predicted from what they are at a loss of $10^{-10}$: when will the third singular value be
# five percent of the first, so that a person would see it?

# %%
starts = np.array([1e-3, 1e-4, 1e-5])
digits = np.array([4, 6, 10, 12, 15, 20, 30, 45, 60, 80, 100, 140, 200, 300, 400, 500])
stalled = follow(starts, A, digits)
sizes = np.linalg.svd(stalled, compute_uv=False)
forecasts, waits = [], []
for k, start in enumerate(starts):
    W = stalled[2, k]
    forecasts.append(wait(W, pull(W, A, scaled=True), sizes[2, k, 2], 0.05))
    share = np.log(sizes[:, k, 2] / sizes[:, k, 0])
    then, needed = (np.exp(np.interp(np.log(0.05), share, np.log(x))) for x in (sizes[:, k, 0], digits))
    waits.append((then, needed))
    c, promised = forecasts[-1]
    print(
        f"start {start:.0e}: c = {c:.2f}, sigma_1 = {promised:5.0f} predicted,{then:5.0f} measured;", end=" "
    )
    print(f"loss 1e-{needed:.0f}")
assert np.allclose([c for c, _ in forecasts], [1.87, 2.01, 2.04], atol=0.02), "see exercise 04.6"
ratios = [promised / then for (_, promised), (then, _) in zip(forecasts, waits, strict=True)]
assert np.allclose(ratios, [1, 0.94, 0.87], atol=0.03), "see exercise 04.6"
assert np.allclose([needed for _, needed in waits], [11, 70, 450], rtol=0.05)

# %% jupyter={"source_hidden": true} slideshow={"slide_type": "subslide"}
fig, ax = plt.subplots(figsize=(7, 3.9))
for k, (start, color, marker) in enumerate(zip(starts, ("blue", "vermillion", "green"), "osD", strict=True)):
    top, share = sizes[:, k, 0], sizes[:, k, 2] / sizes[:, k, 0]
    line = np.array([top[2], forecasts[k][1]])
    law = share[2] * (line / line[0]) ** (forecasts[k][0] - 1)
    ax.loglog(top, share, marker, color=COLORS[color], markersize=6, label=rf"$10^{{{np.log10(start):.0f}}}$")
    ax.loglog(line, law, color=COLORS[color], linewidth=1.5)
ax.axhline(0.05, color=COLORS["black"], linestyle=":", linewidth=1.6)
ax.set(xlabel=r"$\sigma_1$", ylabel=r"share of the third, $\sigma_3 / \sigma_1$")
plain = np.array([4, 11, 70, 450])
upper = ax.secondary_xaxis("top")
upper.set_xticks(np.interp(plain, digits, sizes[:, 1, 0]), [rf"$10^{{-{k}}}$" for k in plain])
upper.set_xticks([], minor=True)
upper.set_xlabel("loss")
ax.legend(title=r"start $\beta$", loc="lower right")
show(
    fig,
    alt="The share of the third singular value against the first, both logarithmic, for three starts. Each "
    "run follows its straight line of slope about one, the lower the smaller the start, until it crosses a "
    "dotted line at five percent: at a loss of 1e-11, 1e-70 and 1e-450.",
)

# %% [markdown]
# **Figure 4.** The stalled direction on its way up. Markers: three starts; lines: the law, from the power
# $c$ at a loss of $10^{-10}$ (third marker), drawn up to the predicted end of the wait (too short to see
# for the first); dotted: five percent.

# %% [markdown]
# The forecast holds to about a tenth over forty factors in $\sigma_1$ (it comes short, since $c$ falls a
# little as the newcomer grows). And now the price. A loss of $10^{-k}$ takes plain descent about $10^k$
# steps:

# %%
((U, V),) = descend(beta * np.eye(d), np.zeros((d, d)), A, 1.0, [20_000])
u = outputs(U @ V.T, A)
mean_loss = np.logaddexp(0, -u).mean()
sizes_plain = np.linalg.svd(U @ V.T, compute_uv=False)
gained = sizes_plain[0] - singular[-1, 0]
print(f"plain descent, 20,000 steps: loss {mean_loss:.1e}, cosine to W_nuc {cosine(U @ V.T, W_nuc):.3f}")
print(f"sigma_1 from step 2,000: + {gained:.0f}, {gained / np.log(10):.1f} for each unit of log t")
assert 0.5 < 20_000 * mean_loss < 1.5, "see exercise 04.1"
assert 0.940 < cosine(U @ V.T, W_nuc) < 0.945, "see exercise 04.1"
assert 10 < gained / np.log(10) < 12, "see exercise 04.1"

# %% [markdown]
# So from $\beta = 10^{-3}$ a visible third direction takes some $10^{11}$ steps, from $10^{-4}$ some
# $10^{70}$, from $10^{-5}$ some $10^{450}$. A start ten times smaller multiplies the *number of digits* of
# the wait by six. **Descent from a small start does not reach $W_{\mathrm{nuc}}$ in any time that anybody
# has.**

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4.7 Three regimes
#
# If small starts stall at too low a rank, are larger ones better? Only up to a point. From $U = \beta I$,
# $V = 0$ with a large $\beta$, $U$ hardly moves while $V$ learns; $W \approx \beta V^\top$ is linear in
# $V$, and descent goes to $W_{\mathrm{fro}}$: descent on the entries in disguise. (What keeps it so is a
# conservation law. A step changes $U^\top U - V^\top V$ by terms of order $\eta^2$ only, as the first-order
# terms, $U^\top M V + V^\top M^\top U$, are the same for both; in the limit of small steps it stays
# $\beta^2 I$.)
#
# We turn the dial over ten powers of ten, on our survey, and for three of its values on the twenty others.

# %%
betas = 10.0 ** np.arange(-8, 1.6, 0.5)
dial = follow(betas, A, [4, 30, 100])
to_nuc, to_fro = cosine(dial, W_nuc), cosine(dial, W_fro)
for level, row in zip((4, 30, 100), to_nuc, strict=True):
    print(f"loss 1e-{level:<3}: best beta {betas[row.argmax()]:.2g}, cosine {row.max():.3f};", end=" ")
    print(f"from 1e-8 {row[0]:.3f}, from 1e-3 {row[10]:.3f}, from {betas[-1]:.0f} {row[-1]:.3f}")
assert np.allclose(to_nuc.max(axis=1), [0.985, 0.995, 0.997], atol=1e-3)
assert all(0.01 < betas[row.argmax()] < 0.4 for row in to_nuc)
assert np.allclose(to_nuc[:, 0], [0.932, 0.924, 0.923], atol=1e-3)
assert to_fro[0, -1] > 0.999

others = []
for answers, asked in map(survey, range(100, 120)):
    matrices = features(answers, asked)
    best = solve(answers, asked)[1]
    trained = follow([0.1, 1e-3, 1e-8], matrices, [4, 30])
    margins = outputs(trained, matrices).min(-1) / np.linalg.norm(trained, "nuc", axis=(-2, -1))
    M = pull(trained[1, 2], matrices, scaled=True)
    c = np.linalg.norm(M, 2) * np.linalg.norm(trained[1, 2], "nuc") / (M * trained[1, 2]).sum()
    others.append((*cosine(trained[0], best.value.numpy()), c, margins[1, 2] / best.margin.item()))
others = np.array(others)
middle, smaller, smallest, c, share = others.T
print(
    f"20 surveys at loss 1e-4, mean cosine from 0.1: {middle.mean():.3f}, from 1e-3: {smaller.mean():.3f},",
    end=" ",
)
print(f"from 1e-8: {smallest.mean():.3f}; 0.1 beats 1e-8 in {(middle > smallest).sum()}")
free = c < 1.2
print(f"c below 1.2: {free.sum()} surveys, share of the margin from {share[free].min():.3f}")
print(f"c from {c[~free].min():.2f} to {c.max():.2f}: {(~free).sum()}, share up to {share[~free].max():.3f}")
assert np.allclose([middle.mean(), smaller.mean(), smallest.mean()], [0.979, 0.953, 0.923], atol=2e-3)
assert (middle > smallest).sum() == 18
assert free[middle <= smallest].all()
assert free.sum() == 3
assert share[free].min() > 0.98
assert share[~free].max() < 0.93

# %% jupyter={"source_hidden": true} slideshow={"slide_type": "subslide"}
fig, (left_ax, right_ax) = plt.subplots(1, 2, figsize=(9.8, 3.8), width_ratios=(1.35, 1))
for row, level, color, marker in zip(
    to_nuc, (4, 30, 100), ("vermillion", "orange", "purple"), "sD^", strict=True
):
    label = rf"to $W_{{\mathrm{{nuc}}}}$, loss $10^{{-{level}}}$"
    left_ax.semilogx(betas, row, marker=marker, markersize=5, color=COLORS[color], label=label)
label = r"to $W_{\mathrm{fro}}$, loss $10^{-4}$"
left_ax.semilogx(betas, to_fro[0], "o--", markersize=4, linewidth=1.5, color=COLORS["blue"], label=label)
left_ax.set(xlabel=r"start $\beta$", ylabel="cosine of $W$", ylim=(0.68, 1.01))
left_ax.legend(loc="lower left", bbox_to_anchor=(0.0, 0.12), fontsize=10)
right_ax.plot(c, share, "o", color=COLORS["black"], markersize=7)
proved = np.linspace(1, 2.8)
right_ax.plot(proved, 1 / proved, color=COLORS["black"], linewidth=1.5)
right_ax.text(2.2, 0.4, "proved: $1/c$", ha="right")
right_ax.set(
    xlabel=r"power $c$ at the stall", ylabel=r"share $\mu(W) / \hat\mu$", xlim=(0.9, 2.8), ylim=(0.3, 1.03)
)
show(
    fig,
    alt="Left: cosines against the start beta, from 1e-8 to 30. Those to W_nuc form a hump with its top "
    "between 0.03 and 0.3, lower on both sides; for smaller losses it reaches further left, but the "
    "left end stays at 0.92 to 0.93. The cosine to W_fro is low on the left and rises to 1. Right: "
    "twenty dots above a curve, 1/c; three with c near 1 have a share of 0.985, the others, with c between "
    "1.8 and 2.7, shares from 0.92 down to 0.75.",
)

# %% [markdown]
# **Figure 5.** Left: where descent on the factors stands at three losses, for starts $U = \beta I$, $V = 0$
# on our survey. Right: twenty other surveys, $\beta = 10^{-8}$, at a loss of $10^{-30}$.

# %% [markdown]
# The start is a dial with *three* ends:
#
# | start | descent goes towards | for how long |
# |:---|:---|:---|
# | large | $W_{\mathrm{fro}}$, like entries | until the factors have outgrown $\beta$ |
# | near 0.1 | close to $W_{\mathrm{nuc}}$ | |
# | small | the first rank that gets all answers right | $\log t$ must grow by a power of $1/\beta$ |
#
# The right panel says on which surveys the small start does harm: those with $c > 1$. On three of the twenty
# the greedy choice is all but the solution of (N), $c$ is near 1, and there is nothing to wait for. Nothing
# here contradicts the theorem, which speaks of $L \to 0$: the hump moves to the left, slowly.
#
# Is it a matter of ten by ten? With twenty people and films the hump is steeper:

# %%
answers, asked = survey(0, d=20)
trained = follow([0.3, 0.01, 1e-6], features(answers, asked), [4])[0]
cosines = cosine(trained, solve(answers, asked)[1].value.numpy())
print("d = 20, loss 1e-4, from 0.3, 0.01, 1e-6:", *(f"{value:.3f}" for value in cosines))
assert np.allclose(cosines, [0.988, 0.958, 0.851], atol=2e-3)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The cure: a penalty
#
# The wait is so long because the pull fades with the loss. Weight decay holds it up: minimise the loss plus
# $\varepsilon$ times the cost. At a stall the live directions then stand still, $M = \varepsilon S$, while
# each step multiplies the newcomer's factors by $1 + \eta\, \varepsilon\, (c - 1)$. That is exponential
# growth in $t$, not in $\log \log t$. And by the theorem of 4.3 the minimum, whatever the start, is that of
# the loss plus $\varepsilon \lVert W \rVert_*$.

# %%
for start, expected in ((1e-3, (0.943, 0.991)), (1e-6, (0.933, 0.991))):
    ends = []
    for decay in (0.0, 1e-3):
        U, V = start * np.eye(d), np.zeros((d, d))
        for _ in range(10_000):
            M = pull(U @ V.T, A)
            U, V = U + M @ V - decay * U, V + M.T @ U - decay * V
        ends.append(U @ V.T)
    to, good = cosine(np.array(ends), W_nuc), [(np.sign(W) == truth)[~known].sum() for W in ends]
    print(f"start {start:.0e}, 10,000 steps: cosine to W_nuc {to[0]:.3f}, with decay {to[1]:.3f};", end=" ")
    print(f"unknown right: {good[0]}, with decay {good[1]}")
    assert np.allclose(to, expected, atol=2e-3)
    assert good == [48, 46]

# %% [markdown]
# With a little decay both starts end at the same place, near $W_{\mathrm{nuc}}$ (not on it: $\varepsilon$ is
# not zero). They also fill two blanks fewer. The nuclear norm is what a *penalty* prefers, low rank is what
# *greed* prefers, and neither knows the truth.
#
# Turn the dial yourself. Which starts fit all known answers and fill no blank?


# %%
def turn(start, digits):
    """The table and the shares of its singular values when the loss is 10^-digits."""
    W = follow([start], A, [digits])[0, 0]
    figure = Figure(figsize=(7.8, 3.3), layout="none")  # constrained layout would draw twice
    table, bars = figure.add_axes((0.05, 0.06, 0.36, 0.8)), figure.add_axes((0.52, 0.16, 0.46, 0.7))
    table.imshow(W / np.abs(W)[known].mean(), cmap="PuOr", vmin=-1.5, vmax=1.5)
    table.set(xticks=[], yticks=[], xlabel="film", ylabel="person")
    table.set_title(f"{((np.sign(W) == truth) & known).sum()} of {n} known right", fontsize=11)
    s = np.linalg.svd(W, compute_uv=False)
    bars.bar(range(1, d + 1), s / s.sum(), color=COLORS["vermillion"])
    bars.set(ylim=(0, 1), xticks=range(1, d + 1), xlabel="$k$", ylabel=r"$\sigma_k$ / nuclear norm")
    cosines = (
        rf"{cosine(W, W_fro):.2f} to $W_{{\mathrm{{fro}}}}$, {cosine(W, W_nuc):.2f} to $W_{{\mathrm{{nuc}}}}$"
    )
    bars.set_title("cosine " + cosines, fontsize=11)
    return figure


# %% tags=["nbval-ignore-output", "widget"]
wide = {"layout": {"width": "480px"}, "style": {"description_width": "150px"}}
widgets.sliders(
    turn,
    alt="Left the table, coloured by sign, right its ten singular values as shares of the nuclear norm.",
    start=ipywidgets.FloatLogSlider(value=0.1, min=-6, max=1.5, step=0.5, description="start", **wide),
    digits=ipywidgets.IntSlider(value=4, min=1, max=30, description="digits of the loss", **wide),
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4.8 From films to attention
#
# Attention compares a token $x_t$ with a query $z$ through $x_t^\top K Q^\top z$, with trained keys $K$ and
# queries $Q$. Say that it should keep token $\alpha$ of its sequence: give that token nearly all of the
# weight (lesson 05 shows how). For this the comparison of $x_\alpha$ has to win: $(x_\alpha - x_t)^\top K
# Q^\top z > 0$ for all other $t$. That is $\langle A_i, U V^\top \rangle > 0$ with
#
# $$A_i = (x_\alpha - x_t)\, z^\top, \qquad U = K, \quad V = Q .$$
#
# Lesson 06 replaces labelled points by such differences. Lesson 10 trains $W = K Q^\top$ by its entries and
# finds the Frobenius norm; lesson 11 trains $K$ and $Q$ and meets all three regimes again, with the same
# $S$ to tell them apart.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Questions
#
# <details><summary>1. You train U and V with weight decay, and reach the global minimum of loss plus
# penalty. Which penalty did W get?</summary>
#
# By the theorem, the nuclear norm, times the coefficient of the cost: for a given product, the penalty can
# be lowered to $\lVert W \rVert_*$ and no further, and the loss does not notice. The start plays no part.
# </details>
#
# <details><summary>2. Let W, U and V be diagonal. What is the nuclear norm, and what does the lesson say?
# </summary>
#
# The $\ell_1$ norm of the diagonal. Each weight is a product of two, $w_k = U_{kk} V_{kk}$: with weight decay
# the limit is the sparse $\ell_1$ solution; descent alone from a small start adds one weight at a time, and
# stops adding when all answers are right.
# </details>
#
# <details><summary>3. Spectral descent (lesson 03) maximises the margin in the spectral norm. Is that the
# same bias?</summary>
#
# No, the opposite one. It keeps the largest singular value of W small for a given margin, so that many
# singular values are alike and the rank is high. A nuclear penalty keeps the sum small, and the rank low.
# Muon with its polynomial stands between: lesson 03 finds singular values down to 0.6 of the largest.
# </details>
#
# <details><summary>4. V is frozen at the identity, and U learns. Where does W go?</summary>
#
# $W = U$, and the model is linear: to $W_{\mathrm{fro}}$, from any start. A frozen factor is the large start
# taken to its limit.
# </details>
#
# <details><summary>5. A run has stalled with c = 1.1, another with c = 3. Which is nearer to the solution of
# (N), and which leaves its stall sooner?</summary>
#
# The first is proved to have 1/1.1 of the largest margin, the second only a third. The second leaves sooner:
# its newcomer's share grows like $\sigma_1^2$, the other's like $\sigma_1^{0.1}$.
# </details>

# %%
progress("04")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - The cheapest way to write $W$ as $U V^\top$ costs $\lVert W \rVert_*$, the sum of the singular values.
#   Short factors mean a small nuclear norm, which leans towards low rank. A spectral norm certifies it.
# - Descent on factors from a small start is greedy: singular values come up one after the other, until all
#   answers are right. $M_0$ predicts how they start.
# - Then it stalls, often at a lower rank than $W_{\mathrm{nuc}}$ has. $S$ says how good the stall is (at
#   least $1/c$ of the largest margin, $c = \lVert S \rVert_{\mathrm{op}}$) and how it ends: the next
#   singular value grows like $\sigma_1^c$, and $\sigma_1$ like $\log t$.
# - So the nuclear SVM is nearest from a start of middle size, and smaller is worse. A penalty gets there from
#   anywhere.

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
# - B. Woodworth et al. *Kernel and rich regimes in overparametrized models.* COLT 2020, arXiv:2002.09277. The
#   large end of the dial.
#
# **New in the library:** [`svm.certified_rank`](../mini_attn/svm/nuclear.py).
#
# **Next:** [lesson 05](05_softmax_attention.ipynb) meets the softmax.
