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
# - prove that short factors mean a small *nuclear norm*, and say why that means low rank;
# - state the max-margin problem that a factored model solves, and certify an answer to it;
# - predict, from the first gradient alone, how every singular value of $W$ starts to grow;
# - name two situations in which the product knows no more than its entries.
#
# **You need** lessons [01](01_logistic_regression_bias.ipynb) (margin, direction, normalised steps) and
# [02](02_hard_margin_svm.ipynb) (certificates), and the singular value decomposition. About 60 minutes,
# five exercises.

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
# and the model is right where $u_i > 0$. The loss is the logistic loss
# $L(W) = \frac1n \sum_i \log(1 + e^{-u_i})$ of lesson 01. Its negative gradient is the **pull**
#
# $$M(W) = -\nabla L(W) = \frac1n \sum_i \sigma(-u_i)\, A_i, \qquad \sigma(-u) = \frac{1}{1 + e^u} .$$


# %%
def pairs(truth, known):
    """y_i x_i and z_i for all known answers: (n, d) each."""
    person, film = np.nonzero(known)
    return truth[known][:, None] * np.eye(len(truth))[person], np.eye(len(truth))[film]


yx, z = pairs(truth, known)
A = yx[:, :, None] * z[:, None, :]  # (n, d, d)


def pull(W, A, scaled=False):
    """-grad L at W: (d1, d2), for A (n, d1, d2); scaled: divided by the largest weight, for long runs."""
    log_weights = -np.logaddexp(0, np.tensordot(A, W))  # the last two axes of A meet W: all <A_i, W>
    if scaled:
        log_weights -= log_weights.max()
    return np.tensordot(np.exp(log_weights) / len(A), A, 1)  # the first axis of A: a weighted sum of the A_i


def loss(W, A):
    return np.logaddexp(0, -np.tensordot(A, W)).mean()


# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Exercise 04.1: One step for two factors
# *★ · 6 minutes.* Now let $W = U V^\top$ with trainable $U$ of shape $(d_1, m)$ and $V$ of shape
# $(d_2, m)$. Given $U$, $V$ and the pull $M = -\nabla L(W)$ at $W = U V^\top$, take one step of gradient
# descent of size $\eta$ on both. Return the new pair, and leave the old one as it is.
#
# <details><summary>Hint</summary>
#
# To first order, moving $U$ by $\Delta$ moves $W$ by $\Delta V^\top$ and lowers the loss by
# $\langle M, \Delta V^\top \rangle = \langle M V, \Delta \rangle$. So $-\partial L / \partial U = M V$.
# Do the same for $V$, and evaluate both at the old pair.
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


# %%
def descend(U, V, A, eta, times, normalised=False):
    """The pairs (U, V) after the given, increasing, numbers of steps; normalised: steps of length eta."""
    kept, wanted = [], set(times)
    for t in range(1, times[-1] + 1):
        M = pull(U @ V.T, A, scaled=normalised)
        length = np.hypot(np.linalg.norm(M @ V), np.linalg.norm(M.T @ U)) if normalised else 1.0
        U, V = factor_step(U, V, M, eta / length)
        if t in wanted:
            kept.append((U, V))
    return kept


W_entries = np.zeros((d, d))
for _ in range(2000):
    W_entries = W_entries + pull(W_entries, A)

beta = 1e-3
times = range(5, 2001, 5)
path = np.array([U @ V.T for U, V in descend(beta * np.eye(d), np.zeros((d, d)), A, 1.0, times)])
W_factors = path[-1]

right = (np.sign(W_factors) == truth)[~known].sum()
for name, W in (("entries", W_entries), ("factors", W_factors)):
    fit = (np.sign(W) == truth)[known].sum()
    blank = np.abs(W[~known]).mean() / np.abs(W[known]).mean()
    print(f"{name}: {fit} of {n} known answers right; mean |unknown entry| / mean |known entry|: {blank:.2f}")
print(f"factors: {right} of {(~known).sum()} unknown answers right")
assert (W_entries[~known] == 0).all()
assert (np.sign(W_entries) == truth)[known].all()
assert (np.sign(W_factors) == truth)[known].all(), "see exercise 04.1"
assert right == 48, "see exercise 04.1"

# %% slideshow={"slide_type": "subslide"}
fig, axes = plt.subplots(1, 3, figsize=(9.2, 3.2))
pictures = {
    "known = descent on $W$": W_entries,
    "descent on $U, V$": W_factors,
    "all answers": truth,
}
for (title, W), ax in zip(pictures.items(), axes, strict=True):
    shade = ax.imshow(W / np.abs(W)[known].mean(), cmap="PuOr", vmin=-1.5, vmax=1.5)
    ax.set(title=title, xticks=[], yticks=[], xlabel="film")
axes[0].set_ylabel("person")
wrong = np.argwhere((np.sign(W_factors) != truth) & ~known)
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

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4.2 Another idea of small
#
# Every matrix can be written $W = \sum_k s_k\, p_k q_k^\top$, with orthonormal $p_k$, orthonormal $q_k$,
# and **singular values** $s_1 \ge s_2 \ge \dots \ge 0$. Their number above zero is the rank. Three norms of
# a matrix are norms of this list:
#
# | norm | | of the singular values |
# |:---|:---|:---|
# | Frobenius | $\lVert W \rVert_F = \sqrt{\sum_k s_k^2} = \sqrt{\sum_{ab} W_{ab}^2}$ | the Euclidean length |
# | nuclear | $\lVert W \rVert_* = \sum_k s_k$ | the sum |
# | spectral | $\lVert W \rVert_{\mathrm{op}} = s_1$ | the largest |
#
# The spectral norm is also the largest value of $p^\top W q$ over vectors $p$, $q$ of length one.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 04.2: The nuclear norm
# *★ · 4 minutes.* Compute $\lVert W \rVert_*$, also for matrices that are not symmetric, or not square.
#
# <details><summary>Hint</summary>
#
# `np.linalg.svd(W, compute_uv=False)` returns the singular values. Eigenvalues are something else.
# </details>


# %%
@exercise("04.2")
def nuclear_norm(W):
    """The nuclear norm: a number, for W (d1, d2)."""
    ### BEGIN SOLUTION
    return np.linalg.svd(W, compute_uv=False).sum()
    ### END SOLUTION


# %%
check("04.2", nuclear_norm)

# %% [markdown]
# The smallest survey can be worked out by hand. Two people, two films, three answers, all positive:
#
# $$W = \begin{pmatrix} 1 & 1 \\ 1 & c \end{pmatrix}, \qquad
# \lVert W \rVert_F^2 = 3 + c^2, \qquad
# \lVert W \rVert_*^2 = (s_1 + s_2)^2 = \lVert W \rVert_F^2 + 2\, \lvert \det W \rvert
# = 3 + c^2 + 2\, \lvert c - 1 \rvert .$$

# %% slideshow={"slide_type": "fragment"}
corner = np.linspace(-1, 2.5, 141)
tables = [np.array([[1, 1], [1, c]]) for c in corner]
frobenius = np.array([np.linalg.norm(W) for W in tables])
nuclear = np.array([nuclear_norm(W) for W in tables])
assert nuclear.shape == corner.shape, "see exercise 04.2"
assert np.allclose(nuclear**2, 3 + corner**2 + 2 * np.abs(corner - 1)), "see exercise 04.2"

fig, ax = plt.subplots(figsize=(6.2, 3.3))
for values, name, marker, color in (
    (nuclear, "nuclear", "s", "vermillion"),
    (frobenius, "Frobenius", "o", "blue"),
):
    ax.plot(corner, values, color=COLORS[color], label=name)
    ax.plot(corner[values.argmin()], values.min(), marker, markersize=9, color=COLORS[color])
    print(f"{name:>9} norm: smallest at c = {corner[values.argmin()]:.0f}")
ax.set(xlabel="the blank, $c$", ylabel="norm of the table", ylim=(1.5, 3.6))
ax.legend()
show(
    fig,
    alt="Two curves against c. The Frobenius norm is a smooth bowl with its minimum at c = 0; the nuclear "
    "norm has a kink, its minimum, at c = 1.",
)
assert corner[frobenius.argmin()] == 0
assert np.isclose(corner[nuclear.argmin()], 1)

# %% [markdown]
# **Figure 2.** The norms of the table with blank $c$; marks at the minima.

# %% [markdown]
# The Frobenius norm is smallest at $c = 0$: no opinion. The nuclear norm is smallest at $c = 1$, where the
# two rows agree and the rank falls to one. A sum of singular values, like the sum of absolute values in the
# $\ell_1$ norm, has kinks where some of them vanish, and minima like to sit in kinks. That is how a small
# nuclear norm makes low rank.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4.3 Short factors, small nuclear norm
#
# Say that a pair $(U, V)$ has the **price**
# $\frac12 (\lVert U \rVert_F^2 + \lVert V \rVert_F^2)$: what an $\ell_2$ penalty (weight decay) charges.
#
# > **Theorem** (Srebro, Rennie & Jaakkola 2005). *Let $U$ and $V$ have $m \ge \operatorname{rank} W$ columns.
# > Then*
# >
# > $$\lVert W \rVert_* = \min_{U V^\top = W}
# > \tfrac12 \left( \lVert U \rVert_F^2 + \lVert V \rVert_F^2 \right).$$

# %% [markdown]
# **Proof**, in three lines. Let $u_k$, $v_k$ be the columns of any pair with
# $U V^\top = \sum_k u_k v_k^\top = W$, and take $Z = \sum_{s_k > 0} p_k q_k^\top$ from the singular vectors
# of $W$, so that $\lVert Z \rVert_{\mathrm{op}} \le 1$:
#
# $$\begin{aligned}
# \lVert W \rVert_* = \textstyle\sum_k s_k = \langle Z, W \rangle &= \textstyle\sum_k u_k^\top Z\, v_k \\
# &\le \textstyle\sum_k \lVert u_k \rVert\, \lVert v_k \rVert \\
# &\le \textstyle\sum_k \tfrac12 \left( \lVert u_k \rVert^2 + \lVert v_k \rVert^2 \right).
# \end{aligned}$$
#
# The columns $u_k = \sqrt{s_k}\, p_k$ and $v_k = \sqrt{s_k}\, q_k$ turn both inequalities into equalities.
# $\square$
#
# The second line has a meaning of its own. Multiplying $u_k$ by $c_k$ and dividing $v_k$ by it leaves the
# product alone, and $\sum_k \lVert u_k \rVert \lVert v_k \rVert$ is the lowest price that such rescaling
# can reach.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 04.3: Three prices
# *★★ · 8 minutes.* For given $U$ and $V$, return
#
# 1. their price; 2. the lowest price after rescaling, $u_k \to c_k u_k$ and $v_k \to v_k / c_k$, with the
# best $c_k > 0$ for *each* column; 3. the lowest price of any pair with the same product.
#
# <details><summary>Hint: the second</summary>
#
# For one column, minimise $\frac12 (c^2 \lVert u \rVert^2 + \lVert v \rVert^2 / c^2)$ over $c$: the minimum
# is $\lVert u \rVert \lVert v \rVert$. `np.linalg.norm(U, axis=0)` holds the lengths of the columns.
# </details>


# %%
@exercise("04.3")
def prices(U, V):
    """Three numbers: as it is, columns rescaled, cheapest; for U (d1, m), V (d2, m)."""
    ### BEGIN SOLUTION
    price = ((U**2).sum() + (V**2).sum()) / 2
    rescaled = np.linalg.norm(U, axis=0) @ np.linalg.norm(V, axis=0)
    return price, rescaled, np.linalg.svd(U @ V.T, compute_uv=False).sum()
    ### END SOLUTION


# %%
check("04.3", prices)

# %%
rng = np.random.default_rng(0)
thousand = [prices(rng.normal(size=(4, 3)), rng.normal(size=(4, 3))) for _ in range(1000)]
p, s, qt = np.linalg.svd(rng.normal(size=(4, 4)))
split = prices(p * np.sqrt(s), qt.T * np.sqrt(s))
ratio = np.mean([[first / third, second / third] for first, second, third in thousand], axis=0)
print(
    f"1,000 random pairs pay {ratio[0]:.2f} times the nuclear norm on average, rescaled {ratio[1]:.2f} times"
)
print(f"the split by singular vectors pays {split[0]:.4f}, {split[1]:.4f}, {split[2]:.4f}")
assert all(first >= second >= third for first, second, third in thousand), "see exercise 04.3"
assert np.allclose(split, s.sum()), "see exercise 04.3"
assert np.allclose(ratio, [1.35, 1.18], atol=0.01), "see exercise 04.3"

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
# as long as there are enough columns. On the left the problem is not convex; on the right it is. Its
# solution is $W_{\mathrm{nuc}}$; with the Frobenius norm, as in lesson 02, it is $W_{\mathrm{fro}}$. The
# **nuclear margin** of a matrix, and the largest one, are
#
# $$\mu(W) = \min_i \frac{\langle A_i, W \rangle}{\lVert W \rVert_*}, \qquad
# \hat\mu = \max_{W \ne 0} \mu(W) = \frac{1}{\lVert W_{\mathrm{nuc}} \rVert_*}$$
#
# (scale $W$ until its smallest $\langle A_i, W \rangle$ is 1).

# %% [markdown]
# The certificate of lesson 02 carries over with one change. For weights $\lambda_i \ge 0$, not all zero,
# and every $W$,
#
# $$\mu(W) \le \frac{\sum_i \lambda_i \langle A_i, W \rangle}{\lVert W \rVert_* \sum_i \lambda_i}
# = \frac{\langle \sum_i \lambda_i A_i,\, W \rangle}{\lVert W \rVert_* \sum_i \lambda_i}
# \le \frac{\lVert \sum_i \lambda_i A_i \rVert_{\mathrm{op}}}{\sum_i \lambda_i} =: B(\lambda) .$$
#
# The last step replaces Cauchy-Schwarz: with $S = \sum_i \lambda_i A_i$ and the singular vectors of $W$,
# $\langle S, W \rangle = \sum_k s_k\, p_k^\top S\, q_k \le \lVert S \rVert_{\mathrm{op}} \lVert W
# \rVert_*$. The nuclear and the spectral norm are *dual* to each other, as the Euclidean norm is to itself.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 04.4: A certificate in the other norm
# *★★ · 8 minutes.* Return both bounds on $\hat\mu$, $\mu(W)$ and $B(\lambda)$, for any $W \ne 0$: where an
# answer is wrong, $\mu(W)$ is negative.
#
# <details><summary>Hint</summary>
#
# `np.tensordot(A, W)` holds all $\langle A_i, W \rangle$, and `np.tensordot(lam, A, 1)` is
# $\sum_i \lambda_i A_i$. Use singular values for both norms, the sum of them once, the largest once.
# </details>


# %%
@exercise("04.4")
def certify(W, lam, A):
    """(mu(W), B(lam)): two numbers, for W (d1, d2), weights lam (n,), A (n, d1, d2)."""
    ### BEGIN SOLUTION
    lower = np.tensordot(A, W).min() / np.linalg.svd(W, compute_uv=False).sum()
    S = np.tensordot(lam, A, 1)
    return lower, np.linalg.svd(S, compute_uv=False)[0] / lam.sum()
    ### END SOLUTION


# %%
check("04.4", certify)

# %% [markdown]
# The library keeps each $A_i = a_i b_i^\top$ as its two vectors. `svm.solve` takes the norm by name, and
# `svm.certified_rank` reads the rank of the answer from the weights (section 4.6 says how), with no
# threshold on small singular values of $W$.

# %% slideshow={"slide_type": "subslide"}
problem = svm.HardMarginProblem(torch.tensor(yx), torch.tensor(z), torch.ones(len(z)).double())
solutions = {norm: svm.solve(problem, norm=norm) for norm in ("fro", "nuc")}
W_fro, W_nuc = (solution.value.numpy() for solution in solutions.values())
rank = svm.certified_rank(problem, solutions["nuc"]).item()
lam = solutions["nuc"].dual.numpy()
lower, upper = certify(W_nuc, lam, A)


def cosine(a, b):
    return (a * b).sum() / np.linalg.norm(a) / np.linalg.norm(b)


print(f"{'':6}Frobenius norm   nuclear norm   rank")
for name, W, r in (("W_fro", W_fro, np.linalg.matrix_rank(W_fro, tol=1e-6)), ("W_nuc", W_nuc, rank)):
    print(f"{name} {np.linalg.norm(W):12.3f} {nuclear_norm(W):15.3f} {r:10d}")
print("singular values of W_nuc:", *(f"{s:.2f}" for s in np.linalg.svd(W_nuc, compute_uv=False)[:4]))
print(f"cosine between the two {cosine(W_fro, W_nuc):.3f}")
print(f"largest nuclear margin, proved: {lower:.6f} to {upper:.6f}")
agree = (np.sign(W_nuc) == truth)[~known].sum()
differ = (np.sign(W_nuc) != np.sign(W_factors)).sum()
print(f"W_nuc has {agree} unknown answers right; its signs and those of the run differ in {differ}")
assert np.allclose(W_fro, truth * known, atol=1e-6)
assert np.isclose(cosine(W_entries, W_fro), 1)
assert (rank, np.linalg.matrix_rank(truth), agree) == (3, 3, 48)
assert differ == 2, "see exercise 04.1"
assert np.isclose(nuclear_norm(W_nuc), solutions["nuc"].objective.item()), "see exercise 04.2"
assert np.isclose(cosine(W_fro, W_nuc), 0.760, atol=5e-4)
assert 0 <= 1 - lower / upper < 1e-6, "see exercise 04.4"
assert np.isclose(lower, solutions["nuc"].margin.item()), "see exercise 04.4"

# %% [markdown]
# $W_{\mathrm{fro}}$ is the table of known answers itself, zeros and all: the direction that descent on the
# entries took. $W_{\mathrm{nuc}}$ has rank 3 and 48 unknown answers right, as many as our run, though not
# quite the same ones. (The truth is the *sign* of a matrix of rank 2, and as a table of signs has rank 3.)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4.5 A race
#
# Descent penalises nothing. Why should it care for the price of the factors? While $W$ is so small
# that every $\sigma(-u_i) \approx \frac12$, the pull is a constant matrix, with singular vectors
# $\bar p_k$, $\bar q_k$ of its own:
#
# $$M_0 = \frac{1}{2n} \sum_i A_i = \sum_k \rho_k\, \bar p_k \bar q_k^\top .$$
#
# Descent on the entries adds $\eta M_0$ at each step: all singular values grow in fixed proportions. From
# $U = \beta I$, $V = 0$ the steps $U + \eta M_0 V$ and $V + \eta M_0^\top U$ keep the form
#
# $$U_t = \sum_k a_k\, \bar p_k \bar p_k^\top, \quad V_t = \sum_k b_k\, \bar q_k \bar p_k^\top, \quad
# W_t = \sum_k a_k b_k\, \bar p_k \bar q_k^\top,$$
#
# and each pair of numbers goes its own way, from $a_k = \beta$ and $b_k = 0$:
#
# $$a_k \to a_k + \eta \rho_k b_k, \qquad b_k \to b_k + \eta \rho_k a_k .$$
#
# A direction with larger $\rho_k$ grows at a higher rate, and exponentially: small differences in $\rho_k$
# become large ones in $W$.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 04.5: The start of the race
# *★★ · 10 minutes.* Return the singular values of $W_t$ after $t$ steps with constant pull $M$, from
# $U = \beta I$, $V = 0$, in decreasing order. There is a closed formula; a loop over the steps is fine too.
#
# <details><summary>Hint</summary>
#
# The sum $a_k + b_k$ is multiplied by $1 + \eta \rho_k$ at each step. What happens to the difference? And
# $4ab = (a + b)^2 - (a - b)^2$.
# </details>


# %%
@exercise("04.5")
def race(M, beta, eta, t):
    """Singular values of W_t: shape (d,), decreasing, for M (d, d), start beta, step size eta, t steps."""
    ### BEGIN SOLUTION
    rho = np.linalg.svd(M, compute_uv=False)
    return beta**2 / 4 * ((1 + eta * rho) ** (2 * t) - (1 - eta * rho) ** (2 * t))
    ### END SOLUTION


# %%
check("04.5", race)

# %% slideshow={"slide_type": "subslide"}
M0 = pull(np.zeros((d, d)), A)
values = np.linalg.svd(path, compute_uv=False)
ranks = (values > 0.05 * values[:, :1]).sum(axis=1)
first = np.array(times) <= 600
shown = np.array(times)[first]
predicted = np.array([race(M0, beta, 1.0, int(t)) for t in shown])

fig, (left, middle, right_ax) = plt.subplots(1, 3, figsize=(11, 3.5), width_ratios=(1.3, 1, 1))
for k, color in enumerate(("blue", "vermillion", "green")):
    left.plot(shown, values[first, k], color=COLORS[color], linewidth=3.5, alpha=0.8, label=f"$s_{k + 1}$")
    label = "predicted by race" if k == 2 else None
    left.plot(shown, predicted[:, k], "--", color=COLORS["black"], linewidth=1.3, label=label)
left.set(yscale="log", ylim=(1e-8, 1e3), ylabel="singular values of $W_t$", xlabel="step $t$")
left.legend(loc="lower right", fontsize=10)
middle.step(shown, ranks[first], where="post", color=COLORS["black"])
middle.set(xlabel="step $t$", ylabel="rank (above 5 percent of $s_1$)", ylim=(0, 10))
for target, name, color in ((W_fro, "fro", "blue"), (W_nuc, "nuc", "vermillion")):
    cosines = [cosine(W, target) for W in path[first]]
    right_ax.plot(shown, cosines, color=COLORS[color], label=rf"to $W_{{\mathrm{{{name}}}}}$")
right_ax.set(xlabel="step $t$", ylabel="cosine of $W_t$", ylim=(0.6, 1.02))
right_ax.legend(loc="center right")
show(
    fig,
    alt="Three panels against steps, to 600. Left, logarithmic: three singular values rise along dashed "
    "lines, the first until it levels off near step 200, the second later, the third falls far behind its "
    "line. Middle: the number of singular values above 5 percent of the first falls from 9 to 1, then rises "
    "to 2. Right: the cosine to W_fro starts at 1 and falls to 0.73; that to W_nuc rises, dips and ends at "
    "0.94.",
)

# %% [markdown]
# **Figure 3.** Descent on the factors from $\beta = 0.001$, step size 1. Left: singular values, and `race`
# (dashed). Middle: how many are above 5 percent of the largest. Right: the direction of $W_t$.

# %%
at = {t: k for k, t in enumerate(times)}
errors = np.abs(values[: at[100] + 1, :4] / predicted[: at[100] + 1, :4] - 1)
assert 4e-4 < errors.max() < 5e-4, "see exercises 04.1 and 04.5"
print(f"up to step 100: within {100 * errors.max():.2f} percent of the prediction")
arrivals = [[int(np.interp(0, np.log(s[:, k]), shown)) for k in (0, 1)] for s in (values[first], predicted)]
print("s_1, s_2 reach 1 at about step", *arrivals[0], "(predicted:", *arrivals[1], end=")\n")
stages = {t: (ranks[at[t]], ((np.sign(path[at[t]]) == truth) & known).sum()) for t in (5, 150, 600, 2000)}
for t, (count, fit) in stages.items():
    print(f"step {t}: rank {count}, {fit} known right, cosine to W_nuc {cosine(path[at[t]], W_nuc):.2f}")
print(f"third singular value at step 600: {100 * values[at[600], 2] / values[at[600], 0]:.1f} percent of s_1")
assert np.allclose(arrivals, [[152, 270], [151, 238]], atol=1), "see exercises 04.1 and 04.5"
assert list(stages.values()) == [(9, 47), (1, 43), (2, 47), (2, 47)], "see exercise 04.1"
assert values[at[600], 2] < 0.01 * values[at[600], 0], "see exercise 04.1"
assert all(0.935 < cosine(path[at[t]], W_nuc) < 0.945 for t in (600, 2000)), "see exercise 04.1"

# %% [markdown]
# Nothing is fitted here, and until step 100 measurement and prediction agree to 0.04 percent. The first
# singular value also arrives, say at size 1, when $M_0$ says; for the second $M_0$ is too early, with step
# 238 instead of 270.
#
# At first the growth is additive, and $W_t$ points along $W_{\mathrm{fro}}$. Then it becomes exponential,
# and the largest $\rho_k$ wins: at step 150 the rank is practically one. That single direction gets 43 of
# the 47 known answers right (and is not $W_{\mathrm{nuc}}$: the cosine dips). Their weights $\sigma(-u_i)$
# drop, and the pull turns to what is still wrong. Now the second singular value comes up, until all 47 are
# right. **The rank rises as the data demand it**, one step of a staircase at a time.
#
# The third step does not get far: its growth levels off, as the loss and all pulls become small (lesson 01).
# At step 600 the third singular value is below 1 percent of the first. The cosine to $W_{\mathrm{nuc}}$ is
# 0.94 then, and still 0.94 at step 2,000. This run has stopped short of its goal.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4.6 Where the race ends
#
# > **Theorem** (Lyu & Li 2020, Ji & Telgarsky 2020, informally). *Follow gradient flow (descent with
# > infinitely small steps) on the logistic loss of $\langle A_i, U V^\top \rangle$. If it ever reaches
# > $L < \frac1n \log 2$ (then every answer is right), then $L \to 0$, and the direction of $(U, V)$
# > converges to that of a KKT point of the problem on the left of (N): the cheapest pair with all
# > $\langle A_i, U V^\top \rangle \ge 1$.*
#
# A **KKT point** satisfies the conditions of lesson 02: here, with $\lambda_i \ge 0$, and $> 0$ only where
# $\langle A_i, U V^\top \rangle = 1$,
#
# $$U = S V, \qquad V = S^\top U, \qquad S = \sum_i \lambda_i A_i .$$
#
# The problem is not convex: a KKT point need not be the best. Two remarks say when it is.
#
# - **If $\lVert S \rVert_{\mathrm{op}} \le 1$, it is.** Take the inner product of $U = SV$ with $U$, and of
#   $V = S^\top U$ with $V$: both squared lengths equal $\langle S, U V^\top \rangle$. This is $\sum_i
#   \lambda_i \langle A_i, U V^\top \rangle = \sum_i \lambda_i$, as $\lambda_i > 0$ only where $\langle A_i,
#   U V^\top \rangle = 1$. So the price is $\sum_i \lambda_i$. Then $\mu(U V^\top) \ge 1/\text{price}$,
#   since the price is at least $\lVert U V^\top \rVert_*$; and $1/\text{price} \ge B(\lambda)$: a
#   certificate without a gap. And as $U = S S^\top U$, the rank is at most the number of singular values of
#   $S$ that equal 1, which is what `svm.certified_rank` counts.
# - **If $\lVert S \rVert_{\mathrm{op}} > 1$ and a column is free ($u_k = v_k = 0$), descent can leave it.**
#   Put $\varepsilon p$ and $\varepsilon q$ into the free column, where $p$, $q$ are the leading singular
#   vectors of $S$. The price rises by $\varepsilon^2$, and $\sum_i \lambda_i \langle A_i, U V^\top \rangle$
#   by $\varepsilon^2 \lVert S \rVert_{\mathrm{op}}$, which is more. Price minus $\sum_i \lambda_i \langle
#   A_i, U V^\top \rangle$ falls: a way down.
#
# That descent from a small start ends at a point of the first kind is what we see here; it is not proved
# for all data (see Further reading). To get far we take normalised steps (lesson 01) of length 0.1, now
# from small random factors.

# %%
U0, V0 = 1e-3 * np.random.default_rng(1).normal(size=(2, d, d))
far = [10, 100, 1000, 10_000]
products = np.array([U @ V.T for U, V in descend(U0, V0, A, 0.1, far, normalised=True)])
spectra = np.linalg.svd(products, compute_uv=False)
far_ranks = (spectra > 0.05 * spectra[:, :1]).sum(axis=1)
for t, W, count in zip(far, products, far_ranks, strict=True):
    to = cosine(W, W_nuc), cosine(W, W_fro)
    print(f"step {t:6,}: rank {count}, cosine to W_nuc {to[0]:.4f}, to W_fro {to[1]:.2f}")
reached, bound = certify(products[-1], lam, A)
print(f"share of the largest nuclear margin, proved: {reached / bound:.4f}")
S = np.tensordot(lam, A, 1)
powers = np.linalg.svd(S, compute_uv=False)[:4] / np.linalg.norm(S, 2)
growth = np.log(spectra[-1] / spectra[-2])[:4]
for name, row in (("singular values of S:", powers), ("measured powers:     ", growth / growth[0])):
    print(name, *(f"{value:.2f}" for value in row))
assert far_ranks.tolist() == [2, 2, 3, 3], "see exercise 04.1"
assert cosine(products[-1], W_nuc) > 0.999, "see exercise 04.1"
assert reached / bound > 0.999, "see exercises 04.1 and 04.4"
assert np.allclose(powers, [1, 1, 1, 0.98], atol=0.005)
assert np.allclose(growth / growth[0], powers, atol=0.01), "see exercise 04.1"

# %% [markdown]
# The third singular value has come up, and $W$ points along $W_{\mathrm{nuc}}$, with more than 99.9 percent
# of the largest nuclear margin.
#
# The last line says when the staircase ends. Late in the run the direction of the pair hardly changes, so
# $M V$ is proportional to $U$ and $M^\top U$ to $V$: the KKT conditions, with $M$ in the place of $S$. Scale
# $\lVert S \rVert_{\mathrm{op}}$ to 1; then a direction with singular value $r$ in $S$ grows like $s_1^r$.
# Three have $r = 1$ and make up $W_{\mathrm{nuc}}$. The fourth, with 0.98, falls behind for ever, but slowly.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4.7 Where it breaks
#
# **(a) A large, unbalanced start.** A step of size $\eta$ changes $U^\top U - V^\top V$ by terms of order
# $\eta^2$ only: the first-order terms, $U^\top M V + V^\top M^\top U$, are the same for both. In the limit
# of small steps this **imbalance** is conserved. From $U = \beta I$, $V = 0$ it then is $\beta^2 I$ for
# ever. If $\beta$ is large, $U$ hardly moves from $\beta I$ while $V$ learns, and $W \approx \beta V^\top$
# moves along $\beta^2 \eta M$: descent on the entries in disguise.
#
# The start is a dial, then, from one norm to the other. We turn it, and stop each run at two losses.


# %%
def until(beta, levels):
    """W = U V^T when normalised descent from U = beta I, V = 0 first has a loss below each of the levels."""
    U, V = beta * np.eye(d), np.zeros((d, d))
    for level in levels:
        for _ in range(2000):  # a wrong step may never get there
            if loss(U @ V.T, A) <= level:
                break
            ((U, V),) = descend(U, V, A, 0.1, [1], normalised=True)
        yield U @ V.T


betas, levels = np.geomspace(0.1, 30, 10), (1e-4, 1e-100)
ends = dict(zip(levels, zip(*(until(b, levels) for b in betas), strict=True), strict=True))

# %% slideshow={"slide_type": "subslide"}
fig, axes = plt.subplots(1, 2, figsize=(9.2, 3.4), sharey=True)
for (level, runs), ax in zip(ends.items(), axes, strict=True):
    for target, name, marker, color in ((W_fro, "fro", "o", "blue"), (W_nuc, "nuc", "s", "vermillion")):
        label = rf"to $W_{{\mathrm{{{name}}}}}$"
        cosines = [cosine(W, target) for W in runs]
        ax.semilogx(betas, cosines, marker=marker, color=COLORS[color], label=label)
    ax.axhline(cosine(W_fro, W_nuc), color=COLORS["grey"], linestyle="--", linewidth=1.4)
    ax.text(0.75, cosine(W_fro, W_nuc) + 0.005, r"$W_{\mathrm{fro}}$ to $W_{\mathrm{nuc}}$", fontsize=10)
    ax.set(xlabel=r"start $\beta$", title=f"at loss $10^{{{np.log10(level):.0f}}}$")
axes[0].set_ylabel("cosine of $W$")
axes[0].legend(loc="center left", bbox_to_anchor=(0.02, 0.62))
show(
    fig,
    alt="Two panels, cosines against the start beta, from 0.1 to 30. For small beta the cosine to W_nuc is "
    "near 1, for large beta the cosine to W_fro is, and the curves cross between. At the much smaller loss, "
    "right, they cross at a larger beta.",
)

# %% [markdown]
# **Figure 4.** Where descent on the factors, in steps of length 0.1, stands at a given loss, for starts
# $U = \beta I$, $V = 0$.

# %%
for level, runs in ends.items():
    to = cosine(runs[0], W_nuc), cosine(runs[-1], W_fro)
    print(
        f"loss {level:.0e}: cosine to W_nuc {to[0]:.3f} from beta = 0.1, to W_fro {to[1]:.3f} from beta = 30"
    )
assert cosine(ends[1e-4][0], W_nuc) > 0.97, "see exercise 04.1"
assert cosine(ends[1e-4][-1], W_fro) > 0.9999, "see exercise 04.1"
crossings = []
for runs in ends.values():
    lead = np.array([cosine(W, W_nuc) - cosine(W, W_fro) for W in runs])
    crossings.append(10 ** np.interp(0, -lead, np.log10(betas)))
assert 1.5 < crossings[0] < 2.5, "see exercise 04.1"
assert 7.5 < crossings[1] < 12.5, "see exercise 04.1"

# %% [markdown]
# At a loss of $10^{-4}$, where anybody would stop, the start decides: the curves cross near $\beta = 2$.
# The theorem of section 4.6 is not violated. It speaks of $L \to 0$, where $\beta^2 I$ becomes negligible
# beside growing factors. At a loss of $10^{-100}$ the crossing has moved to about $\beta = 10$, and the
# largest start has still not come round.
#
# Turn the dial yourself. From the smallest start, watch the second and third singular value come up. Then
# find settings that fit all known answers and fill no blank.


# %%
def dial(log_beta, steps):
    """The table and its singular values after normalised descent from U = beta I, V = 0."""
    ((U, V),) = descend(10.0**log_beta * np.eye(d), np.zeros((d, d)), A, 0.1, [steps], normalised=True)
    W = U @ V.T
    figure = Figure(figsize=(7.6, 3.2), layout="none")  # constrained layout would draw twice
    table, bars = figure.add_axes((0.02, 0.06, 0.38, 0.82)), figure.add_axes((0.52, 0.16, 0.46, 0.72))
    table.imshow(W / np.abs(W)[known].mean(), cmap="PuOr", vmin=-1.5, vmax=1.5)
    table.set(xticks=[], yticks=[])
    table.set_title(f"{((np.sign(W) == truth) & known).sum()} of {n} known answers right", fontsize=11)
    s = np.linalg.svd(W, compute_uv=False)
    bars.bar(range(1, d + 1), s / s.sum(), color=COLORS["vermillion"])
    bars.set(ylim=(0, 1), xticks=range(1, d + 1), xlabel="$k$", ylabel="$s_k$ / nuclear norm")
    bars.set_title(f"cosine to W_fro {cosine(W, W_fro):.2f}, to W_nuc {cosine(W, W_nuc):.2f}", fontsize=11)
    return figure


# %% tags=["nbval-ignore-output", "widget"]
widgets.sliders(
    dial,
    log_beta=ipywidgets.FloatSlider(value=-1.0, min=-1, max=1.5, step=0.25, description="log10 beta"),
    steps=ipywidgets.IntSlider(value=30, min=1, max=500, description="steps"),
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# **(b) A factor that does not learn.** With $V$ frozen, the model is linear in $U$, and lesson 01 applies
# to it: the shortest $U$. For $V = I$ that is the Frobenius solution, at any start.
#
# And low rank does not always pay as well as it did here. We try twenty more surveys.

# %%
U = np.zeros((d, d))
for _ in range(2000):
    U = U + pull(U, A)  # V = I is frozen
print(f"(b) V frozen: cosine to W_fro {cosine(U, W_fro):.3f}")
assert np.isclose(cosine(U, W_fro), 1)
shares = []
for other, asked in map(survey, range(100, 120)):
    one, two = pairs(other, asked)
    signed = one[:, :, None] * two[:, None, :]
    ((U, V),) = descend(beta * np.eye(d), np.zeros((d, d)), signed, 1.0, [2000])
    shares.append((np.sign(U @ V.T) == other)[~asked].mean())
print(f"unknown answers right: {100 * np.mean(shares):.0f} percent on average over 20 surveys")
assert round(100 * np.mean(shares)) == 81, "see exercise 04.1"

# %% [markdown]
# With 48 of 53 our survey was a lucky one: the average is 81 percent. An implicit bias is a bet on the
# world, and factors bet on few directions.

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
# finds the Frobenius norm; lesson 11 trains $K$ and $Q$ and finds the nuclear norm.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## 4.9 Questions
#
# <details><summary>1. You train U and V with weight decay, and reach the global minimum of loss plus
# penalty. Which penalty did W get?</summary>
#
# By the theorem, the nuclear norm, times the coefficient of the price: for a given product, the penalty can
# be lowered to $\lVert W \rVert_*$ and no further, and the loss does not notice. The start plays no part.
# </details>
#
# <details><summary>2. Let W, U and V be diagonal. What is the nuclear norm, and what does the lesson say?
# </summary>
#
# The $\ell_1$ norm of the diagonal. Writing each weight as a product of two, $w_k = u_k v_k$, makes descent
# from a small start prefer sparse weights.
# </details>
#
# <details><summary>3. Spectral descent and Muon (lesson 03) maximise the margin in the spectral norm. Is that
# the same bias?</summary>
#
# No, the opposite one. They make the largest singular value of W small, so that all singular values tend to
# be equal, and the rank high. Factors make the sum small, and the rank low.
# </details>

# %%
progress("04")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4.10 Summary
#
# - The cheapest way to write $W$ as $U V^\top$ has the price $\lVert W \rVert_*$, the sum of the singular
#   values. Short factors mean low rank.
# - Descent on entries goes to the SVM in the Frobenius norm. Descent on factors from a small start heads
#   for the SVM in the nuclear norm, if it runs long enough: same loss, same data, same matrices within
#   reach. A spectral norm certifies it.
# - Singular values grow one after the other, and the rank rises as the data demand. Until the first has
#   arrived, $M_0$ predicts them all; the SVM's weights say which are left behind at the end.
# - A large, unbalanced start behaves like entries for a long time; a frozen factor for ever.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Further reading
#
# - N. Srebro, J. Rennie, T. Jaakkola. *Maximum-margin matrix factorization.* NIPS 2004 (published 2005).
#   Our survey, and the theorem of section 4.3.
# - S. Gunasekar, B. Woodworth, S. Bhojanapalli, B. Neyshabur, N. Srebro. *Implicit regularization in matrix
#   factorization.* NIPS 2017. The same for the squared loss: a conjecture, with experiments.
# - K. Lyu, J. Li. *Gradient descent maximizes the margin of homogeneous neural networks.* ICLR 2020, and Z.
#   Ji, M. Telgarsky. *Directional convergence and alignment in deep learning.* NeurIPS 2020. The theorem of
#   section 4.6.
# - B. Woodworth et al. *Kernel and rich regimes in overparametrized models.* COLT 2020. The dial.
# - Z. Li, Y. Luo, K. Lyu. *Towards resolving the implicit bias of gradient descent for matrix
#   factorization: greedy low-rank learning.* ICLR 2021. When the staircase of ranks, and not the nuclear
#   norm, is the rule.
#
# **New in the library:** [`svm.certified_rank`](../mini_attn/svm/nuclear.py).
#
# **Next:** [lesson 05](05_softmax_attention.ipynb) meets the softmax.
