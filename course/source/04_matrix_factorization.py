# %% [markdown] slideshow={"slide_type": "slide"}
# # 04 · Factored weights and the nuclear norm
#
# Ten people have each seen some of ten films and told us which they liked. Fit a table $W$ to these answers
# by gradient descent, and it says nothing about the films they have not seen. Write the same table as a
# product $W = U V^\top$, change nothing else, and it fills in the blanks, mostly right.
#
# **The question: what does a product know that its entries do not?**
#
# The product has another idea of what is simple. Attention multiplies two matrices as well, keys and queries,
# so this lesson is also about what will happen there.

# %% [markdown] slideshow={"slide_type": "skip"}
# **After this lesson you can**
#
# - train the two factors of a matrix by gradient descent, with gradients of your own;
# - prove that short factors mean a small *nuclear norm*, and say why that means low rank;
# - state the max-margin problem that a factored model solves, and certify an answer to it;
# - predict, from the first gradient alone, how every singular value of $W$ starts, and when the first one
#   arrives;
# - name four situations in which the product knows no more than its entries, or the wrong thing.
#
# **You need** lessons [01](01_logistic_regression_bias.ipynb) (margin, direction, normalised steps) and
# [02](02_hard_margin_svm.ipynb) (certificates), and the singular value decomposition. About 75 minutes, five
# exercises.

# %%
import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure

from course.exercise import check, exercise, progress, todo
from course.figure import show
from mini_attn import losses, optim, plots, svm, widgets
from mini_attn.plots import COLORS

plots.style()
torch.set_num_threads(1)  # small matrices: one thread is fastest

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4.1 A table with blanks
#
# The truth, which we made up: every person and every film has two coordinates of taste, and the answer is
# $+1$ (liked) or $-1$, the sign of their inner product. About half of the answers are known. The rest is
# what we want to know, and what no training run below will ever see.


# %%
def survey(seed, d=10, tastes=2):
    """All answers (d, d), -1 or +1, and which of them are known (d, d); neighbours have similar tastes."""
    rng = np.random.default_rng(seed)
    people, films = rng.normal(size=(d, tastes)), rng.normal(size=(tastes, d))
    known = rng.random((d, d)) < 0.5
    rows, columns = (np.argsort(np.arctan2(c[-1], c[0])) for c in (people.T, films))
    return np.sign(people @ films)[rows][:, columns], known[rows][:, columns]


truth, known = survey(seed=0)
person, film = np.nonzero(known)
y = truth[known]
n, d = len(y), len(truth)
print(f"{n} answers are known, {(~known).sum()} are not")
assert (n, (~known).sum()) == (47, 53)

# %% [markdown] slideshow={"slide_type": "subslide"}
# The model predicts the sign of $x^\top W z$. Here $x$ and $z$ are indicators, all zeros and a single one:
# $x$ says which person, $z$ which film, and $x^\top W z$ is just the entry of $W$ in their row and column.
# Nothing below needs this. Any pairs of vectors will do; in attention they will be tokens and queries.
#
# As in lesson 02 we multiply by the label. Known answer number $i$ gives the **signed feature matrix**
#
# $$A_i = y_i\, x_i z_i^\top, \qquad
# u_i = \langle A_i, W \rangle = \sum_{a,b} (A_i)_{ab} W_{ab} = y_i\, x_i^\top W z_i ,$$
#
# and the model is right where $u_i > 0$. The loss is the logistic loss
# $L(W) = \frac1n \sum_i \log(1 + e^{-u_i})$ of lesson 01. Its negative gradient is the **pull**
#
# $$M(W) = -\nabla L(W) = \frac1n \sum_i \sigma(-u_i)\, A_i, \qquad \sigma(-u) = \frac{1}{1 + e^u} .$$


# %%
x, z = np.eye(d)[person], np.eye(d)[film]
A = y[:, None, None] * x[:, :, None] * z[:, None, :]  # (n, d, d)


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
# descent of size $\eta$ on both. Return the new pair.
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
# Two runs on the same loss, the same answers, with 2,000 steps of size one. The first trains the entries of
# $W$ from zero. The second trains the factors, ten columns each, so that every matrix is still within reach.
# Both factors at zero would stay there (why?), so we start from $U = \beta I$ and $V = 0$ with a small
# $\beta = 0.001$. Then $W$ is zero in this run too.


# %%
def descend(U, V, A, eta, times, normalised=False):
    """The pairs (U, V) after the given, increasing, numbers of steps; normalised: steps of length eta."""
    kept, wanted = [], set(times)
    for t in range(times[-1] + 1):
        if t in wanted:
            kept.append((U, V))
        M = pull(U @ V.T, A, scaled=normalised)
        length = np.hypot(np.linalg.norm(M @ V), np.linalg.norm(M.T @ U)) if normalised else 1.0
        U, V = factor_step(U, V, M, eta / length)
    return kept


W_entries = np.zeros((d, d))
for _ in range(2000):
    W_entries = W_entries + pull(W_entries, A)

beta = 1e-3
times = np.unique(np.geomspace(1, 2000, 60).round().astype(int)).tolist()
race_run = [U @ V.T for U, V in descend(beta * np.eye(d), np.zeros((d, d)), A, 1.0, times)]
W_factors = race_run[-1]

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
fig, axes = plt.subplots(1, 4, figsize=(10.4, 3.0))
pictures = {
    "known answers": truth * known,
    "descent on $W$": W_entries,
    "descent on $U, V$": W_factors,
    "all answers": truth,
}
for (title, W), ax in zip(pictures.items(), axes, strict=True):
    shade = ax.imshow(W / np.abs(W)[known].mean(), cmap="PuOr", vmin=-1.5, vmax=1.5)
    ax.set(title=title, xticks=[], yticks=[], xlabel="film")
axes[0].set_ylabel("person")
wrong = np.argwhere((np.sign(W_factors) != truth) & ~known)
axes[2].plot(wrong[:, 1], wrong[:, 0], "x", color=COLORS["black"], markersize=8, markeredgewidth=2)
fig.colorbar(shade, ax=axes, shrink=0.75, label="relative to a known entry")
show(
    fig,
    alt="Four tables of ten people by ten films, coloured by sign. The known answers have 53 blank cells. "
    "Descent on W leaves exactly these cells blank; descent on U, V fills them, nearly as in the last table, "
    "which shows all answers. Crosses mark five cells where it differs.",
)

# %% [markdown]
# **Figure 1.** Positive entries are purple, negative ones orange, blank cells zero. Each trained table is
# divided by the mean size of its known entries. The first two panels are alike, and that is their point. In
# the third, crosses mark the five blanks that were filled wrongly. Rows and columns are sorted by true taste,
# for the eye only: neither run knows or uses their order.

# %% [markdown]
# Both runs get all 47 known answers right. Descent on the entries leaves the others at exactly zero: the
# loss does not contain them. Descent on the factors fills them in, and 48 of 53 are right. It has never seen
# one of them, and nobody told it that there are only two tastes. All matrices were available to both.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4.2 Another idea of small
#
# Every matrix can be written $W = \sum_k s_k\, p_k q_k^\top$, with orthonormal $p_k$, orthonormal $q_k$, and
# **singular values** $s_1 \ge s_2 \ge \dots \ge 0$. Their number above zero is the rank. Three norms of a
# matrix are norms of this list:
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
# *★ · 4 minutes.* Compute $\lVert W \rVert_*$. Do it for all matrices: some are not symmetric, some not
# square.
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
# What the two ideas of small say about a blank can be worked out by hand in the smallest survey. Two people,
# two films, three answers, all positive:
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
# two rows agree and the rank falls to one. The kink is no accident. A sum of singular values, like the sum
# of absolute values in the $\ell_1$ norm, has kinks where some of them vanish, and minima like to sit in
# kinks. (In this table the slope on the left of the kink happens to fall to zero, so that only the right
# side is steep.) That is how a small nuclear norm makes low rank.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4.3 Short factors, small nuclear norm
#
# A product can be written in many ways. Say that a pair $(U, V)$ has the **price**
# $\frac12 (\lVert U \rVert_F^2 + \lVert V \rVert_F^2)$: what an $\ell_2$ penalty (weight decay) charges for
# it.
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
# product alone, and $\sum_k \lVert u_k \rVert \lVert v_k \rVert$ is the lowest price that such rescaling of
# columns can reach. What is lost in the first inequality is what mixing the columns ($U \to U R$,
# $V \to V R^{-\top}$ with an invertible $R$) can save besides.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 04.3: Three prices
# *★★ · 8 minutes.* For given $U$ and $V$, return
#
# 1. their price;
# 2. the lowest price after rescaling, $u_k \to c_k u_k$ and $v_k \to v_k / c_k$, with the best $c_k > 0$ for
#    *each* column;
# 3. the lowest price of any pair with the same product.
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
# as long as there are enough columns. On the left the problem is not convex; on the right it is. We call the
# solution $W_{\mathrm{nuc}}$, and write $W_{\mathrm{fro}}$ for the solution with the Frobenius norm, the SVM
# of lesson 02. The **nuclear margin** of a matrix, and the largest one, are
#
# $$\mu(W) = \min_i \frac{\langle A_i, W \rangle}{\lVert W \rVert_*}, \qquad
# \hat\mu = \max_{W \ne 0} \mu(W) = \frac{1}{\lVert W_{\mathrm{nuc}} \rVert_*}$$
#
# (scale $W$ until its smallest $\langle A_i, W \rangle$ is 1).

# %% [markdown]
# The certificate of lesson 02 carries over with one change. For weights $\lambda_i \ge 0$, not all zero, and
# every $W$,
#
# $$\mu(W) \le \frac{\sum_i \lambda_i \langle A_i, W \rangle}{\lVert W \rVert_* \sum_i \lambda_i}
# = \frac{\langle \sum_i \lambda_i A_i,\, W \rangle}{\lVert W \rVert_* \sum_i \lambda_i}
# \le \frac{\lVert \sum_i \lambda_i A_i \rVert_{\mathrm{op}}}{\sum_i \lambda_i} =: B(\lambda) .$$
#
# The last step replaces Cauchy-Schwarz. For any matrix $S$, here $S = \sum_i \lambda_i A_i$, we have
# $\langle S, W \rangle = \sum_k s_k\, p_k^\top S\, q_k \le \lVert S \rVert_{\mathrm{op}} \lVert W \rVert_*$
# with the singular vectors of $W$. What the nuclear norm measures on one side, the spectral norm measures on
# the other; they are *dual* to each other, as the Euclidean norm is to itself.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 04.4: A certificate in the other norm
# *★★ · 8 minutes.* Return both bounds on $\hat\mu$: $\mu(W)$ and $B(\lambda)$.
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
# `svm.certified_rank` reads the rank of the answer from the weights, with no threshold on small singular
# values of $W$ (it counts the singular values of $S$ equal to the largest, section 4.6).

# %% slideshow={"slide_type": "subslide"}
problem = svm.HardMarginProblem(torch.tensor(y[:, None] * x), torch.tensor(z), torch.ones(n).double())
solutions = {norm: svm.solve(problem, norm=norm) for norm in ("fro", "nuc")}
W_fro, W_nuc = (solution.value.numpy() for solution in solutions.values())
rank = svm.certified_rank(problem, solutions["nuc"]).item()
lower, upper = certify(W_nuc, solutions["nuc"].dual.numpy(), A)


def cosine(a, b):
    return (a * b).sum() / np.linalg.norm(a) / np.linalg.norm(b)


print(f"{'':6}Frobenius norm   nuclear norm   rank")
for name, W, r in (("W_fro", W_fro, np.linalg.matrix_rank(W_fro, tol=1e-6)), ("W_nuc", W_nuc, rank)):
    print(f"{name} {np.linalg.norm(W):12.3f} {nuclear_norm(W):15.3f} {r:10d}")
print(f"cosine between them {cosine(W_fro, W_nuc):.3f}")
print(f"largest nuclear margin, proved: {lower:.6f} to {upper:.6f}")
agree = (np.sign(W_nuc) == truth)[~known].sum()
print(f"W_nuc has {agree} of the 53 unknown answers right")
assert np.allclose(W_fro, truth * known, atol=1e-6)
assert np.isclose(cosine(W_entries, W_fro), 1)
assert (rank, agree) == (3, 48)
assert np.linalg.matrix_rank(truth) == 3
assert (np.sign(W_nuc) != np.sign(W_factors))[~known].any(), "see exercise 04.1"
assert np.isclose(nuclear_norm(W_nuc), solutions["nuc"].objective.item()), "see exercise 04.2"
assert np.isclose(cosine(W_fro, W_nuc), 0.760, atol=5e-4)
assert 0 <= 1 - lower / upper < 1e-6, "see exercise 04.4"
assert np.isclose(lower, solutions["nuc"].margin.item()), "see exercise 04.4"

# %% slideshow={"slide_type": "fragment"}
fig, (left, right_ax) = plt.subplots(1, 2, figsize=(9.2, 3.2))
place = np.arange(1, d + 1)
for shift, W, name, color in ((-0.2, W_fro, "fro", "blue"), (0.2, W_nuc, "nuc", "vermillion")):
    values = np.linalg.svd(W, compute_uv=False)
    left.bar(place + shift, values, 0.4, color=COLORS[color], label=rf"$W_{{\mathrm{{{name}}}}}$")
left.set(xlabel="$k$", ylabel="singular value $s_k$", xticks=place)
left.legend()
for W, name, marker, color in ((W_fro, "fro", "o", "blue"), (W_nuc, "nuc", "s", "vermillion")):
    right_ax.plot(
        np.sort(np.abs(W[~known])), marker, color=COLORS[color], label=rf"$W_{{\mathrm{{{name}}}}}$, unknown"
    )
right_ax.axhline(1, color=COLORS["black"], linestyle="--", linewidth=1.4)
right_ax.set(xlabel="unknown answers, sorted", ylabel="size of the entry", ylim=(-0.05, 1.45))
right_ax.legend(loc="upper left", fontsize=10)
show(
    fig,
    alt="Left: ten singular values; those of W_fro fall off slowly, those of W_nuc are zero from the fourth "
    "on. Right: sizes of the 53 unknown entries, all zero for W_fro, between 0 and about 1.3 for W_nuc.",
)

# %% [markdown]
# **Figure 3.** Left: the singular values of both solutions. Right: the sizes of their unknown entries; the
# dashed line is the size that every known entry has to reach.

# %% [markdown]
# $W_{\mathrm{fro}}$ is the table of known answers itself, zeros and all: the direction that descent on the
# entries took. $W_{\mathrm{nuc}}$ has rank 3, and as many unknown answers right as our run on the factors
# (not quite the same ones). The truth is the *sign* of a matrix of rank 2, and as a table of signs has rank 3
# itself. Rank 2 can fit the known answers as well, but in section 4.7 our runs do so only at a smaller
# margin.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4.5 A race
#
# We never penalised anything. Why should descent on the factors care for their price? Look at the start,
# while $W$ is so small that every $\sigma(-u_i) \approx \frac12$. The pull is then a constant matrix,
#
# $$M_0 = \frac{1}{2n} \sum_i A_i = \sum_k \rho_k\, p_k q_k^\top .$$
#
# Descent on the entries adds $\eta M_0$ at each step: all singular values grow side by side, in fixed
# proportions. Descent on the factors works differently. Start from $U = \beta I$, $V = 0$; then the steps
# $U + \eta M_0 V$ and $V + \eta M_0^\top U$ keep the form
#
# $$U_t = \sum_k a_k\, p_k p_k^\top, \quad V_t = \sum_k b_k\, q_k p_k^\top, \quad
# W_t = \sum_k a_k b_k\, p_k q_k^\top,$$
#
# and each pair of numbers goes its own way, from $a_k = \beta$ and $b_k = 0$:
#
# $$a_k \to a_k + \eta \rho_k b_k, \qquad b_k \to b_k + \eta \rho_k a_k .$$
#
# A direction with larger $\rho_k$ grows at a higher rate, and exponentially. Small differences in $\rho_k$
# become large ones in $W$.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 04.5: The start of the race
# *★★ · 12 minutes.* Return the singular values of $W_t$ after $t$ steps with constant pull $M$, from
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
values = np.array([np.linalg.svd(W, compute_uv=False) for W in race_run])
predicted = np.array([race(M0, beta, 1.0, t) for t in times])
before = np.array(times) <= 160

fig, (left, right_ax) = plt.subplots(1, 2, figsize=(9.6, 3.6))
for k, color in enumerate(("blue", "vermillion", "green", "orange")):
    until_160 = np.where(before, predicted[:, k], np.nan)
    plots.convergence(
        times, values[:, k], until_160, left, color=COLORS[color], markersize=4, label=f"$s_{k + 1}$"
    )
    left.plot(times, predicted[:, k], linestyle="--", linewidth=1.2, color=COLORS[color], alpha=0.5)
left.set(yscale="log", ylim=(1e-9, 300), ylabel="singular values of $W_t$")
left.legend(loc="upper left", fontsize=10)
for target, name, color in ((W_fro, "fro", "blue"), (W_nuc, "nuc", "vermillion")):
    right_ax.semilogx(
        times,
        [cosine(W, target) for W in race_run],
        color=COLORS[color],
        label=rf"to $W_{{\mathrm{{{name}}}}}$",
    )
right_ax.set(xlabel="step $t$", ylabel="cosine of $W_t$", ylim=(0.6, 1.02))
right_ax.legend(loc="lower left")
show(
    fig,
    alt="Left: four singular values against steps, both axes logarithmic. All rise along dashed predictions, "
    "fainter after step 160. The first saturates near there, then the second, later the third, both arriving "
    "after their predictions. Right: the cosine to W_fro starts at 1 and falls to 0.74, the "
    "cosine to W_nuc rises to 0.94.",
)

# %% [markdown]
# **Figure 4.** Descent on the factors from $\beta = 0.001$, step size 1. Left: the four largest singular
# values, and `race` (dashed; fainter beyond step 160, where the pull is no longer $M_0$). Right: direction
# of $W_t$, compared with both solutions.

# %%
errors = np.abs(values / predicted - 1)[:, :4].max(axis=1)
start = max(k for k, t in enumerate(times) if t <= 100)
print(f"up to step {times[start]}: within {100 * errors[: start + 1].max():.2f} percent of the prediction")
arrivals = [[int(np.interp(0, np.log(path[:, k]), times)) for k in range(3)] for path in (values, predicted)]
print("s_1, s_2, s_3 reach 1 at about step", *arrivals[0], "(predicted:", *arrivals[1], end=")\n")
ranks = {t: int((s > 0.01 * s[0]).sum()) for t, s in zip(times, values, strict=True)}
at = [times[np.searchsorted(times, t)] for t in (10, 100, 150, 2000)]
print("singular values above one percent of the largest:", *(f"{ranks[t]} at step {t}" for t in at))
fits = [int((np.sign(race_run[times.index(t)]) == truth)[known].sum()) for t in at[2:]]
print("known answers right:", *(f"{fit} at step {t}" for fit, t in zip(fits, at[2:], strict=True)))
assert times[start] == 91
assert 1.5e-4 < errors[: start + 1].max() < 2.5e-4, "see exercises 04.1 and 04.5"
assert abs(arrivals[0][0] - arrivals[1][0]) < 8, "see exercises 04.1 and 04.5"
assert np.allclose(arrivals[0][1:], [271, 1864], rtol=0.01), "see exercise 04.1"
assert np.allclose(arrivals[1][1:], [238, 348], rtol=0.01), "see exercise 04.5"
assert [*(ranks[t] for t in at), *fits] == [10, 2, 1, 3, 43, 47], "see exercise 04.1"

# %% [markdown]
# Nothing is fitted here, and until step 91 measurement and prediction agree to 0.02 percent. The first
# singular value also arrives, say at size 1, about when $M_0$ says. For the others $M_0$ is too early: the
# second is predicted for step 238 and arrives at 271, the third for 348, and it takes until 1,864. At first
# the growth is additive, and $W_t$ points along $W_{\mathrm{fro}}$: the cosine starts at 1. Then it becomes
# exponential, and the largest $\rho_k$ wins: around step 150 the rank is practically one. That single
# direction gets 43 of the 47 known answers right. Their weights $\sigma(-u_i)$ drop, and the pull turns to
# what is still wrong. Now the second singular value comes up, later the third. **The rank rises as the data
# demand it**, one step of a staircase at a time, and descent stops climbing when it need not. (Section 4.6
# explains the fourth value, which still grows.)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4.6 Where the race ends
#
# > **Theorem** (Lyu & Li 2020, Ji & Telgarsky 2020, informally). *Follow gradient flow (descent with
# > infinitely small steps) on the logistic loss of $\langle A_i, U V^\top \rangle$. If it ever reaches
# > $L < \frac1n \log 2$ (then every answer is right), then $L \to 0$, and the direction of $(U, V)$
# > converges to that of a KKT point of*
# >
# > $$\min_{U, V}\ \tfrac12 \left( \lVert U \rVert_F^2 + \lVert V \rVert_F^2 \right)
# > \quad \text{subject to} \quad \langle A_i, U V^\top \rangle \ge 1 .$$
#
# A **KKT point** satisfies the conditions of lesson 02: here, with $\lambda_i \ge 0$, and $> 0$ only where
# $\langle A_i, U V^\top \rangle = 1$,
#
# $$U = S V, \qquad V = S^\top U, \qquad S = \sum_i \lambda_i A_i .$$
#
# The problem is not convex, so a KKT point need not be the best. Two remarks say when it is.
#
# - **If $\lVert S \rVert_{\mathrm{op}} \le 1$, it is.** Take the inner product of $U = SV$ with $U$, and of
#   $V = S^\top U$ with $V$: both squared lengths equal $\langle S, U V^\top \rangle$. This is
#   $\sum_i \lambda_i \langle A_i, U V^\top \rangle = \sum_i \lambda_i$, as $\lambda_i > 0$ only where
#   $\langle A_i, U V^\top \rangle = 1$. So the price is $\sum_i \lambda_i$. Then
#   $\mu(U V^\top) \ge 1/\text{price}$, since the price is at least $\lVert U V^\top \rVert_*$; and
#   $1/\text{price} \ge B(\lambda)$: a certificate without a gap.
# - **If $\lVert S \rVert_{\mathrm{op}} > 1$ and a column is free ($u_k = v_k = 0$), it is not stable.** Put
#   $\varepsilon p$ and $\varepsilon q$ into the free column, where $p$, $q$ are the leading singular vectors
#   of $S$. The price rises by $\varepsilon^2$, and $\sum_i \lambda_i \langle A_i, U V^\top \rangle$ by
#   $\varepsilon^2 \lVert S \rVert_{\mathrm{op}}$, which is more. Price minus
#   $\sum_i \lambda_i \langle A_i, U V^\top \rangle$ falls: a way down.
#
# So the race has a rule for its end. Near the end the direction of $(U, V)$ hardly changes any more, so each
# step points along the pair itself: $M V$ is proportional to $U$, and $M^\top U$ to $V$. These are the KKT
# conditions with $M$ in the place of $S$, and the weights $\sigma(-u_i)$ of answers beyond the margin vanish
# beside the others. So the pull is proportional to $S$, and a direction with singular value $\rho$ in $S$
# grows at the speed $\rho$. Those that make up $W$ have $\rho = 1$. A faster one would catch up with them
# and change $W$; slower ones fall behind for ever. (That a small random start leads there is what we see
# here; it is not proved for all data, see Further reading.)

# %% [markdown] slideshow={"slide_type": "subslide"}
# This is a prediction with numbers in it. If $s_1$ grows by a factor $f$, then $s_k$ should grow by
# $f^{\rho_k(S)}$, and `svm.solve` tells us $S$ without any training: its weights, scaled so that
# $\lVert S \rVert_{\mathrm{op}} = 1$; $\rho_k(S)$ are its singular values. To get far we take normalised
# steps (lesson 01) of length 0.1, now from small random factors. Normalised steps follow the same path while
# they are short beside the factors. The first one here is not: it is longer than the factors it starts from.
# That changes how the path begins; the claim is about how it ends.

# %%
U0, V0 = 1e-3 * np.random.default_rng(1).normal(size=(2, d, d))
assert np.hypot(np.linalg.norm(U0), np.linalg.norm(V0)) < 0.1
far = np.unique(np.geomspace(10, 30_000, 30).round().astype(int)).tolist()
factors = descend(U0, V0, A, 0.1, far, normalised=True)
products = [U @ V.T for U, V in factors]

S = np.tensordot(solutions["nuc"].dual.numpy(), A, 1)
speeds = np.linalg.svd(S, compute_uv=False)
speeds /= speeds[0]
early = np.searchsorted(far, 3000)
growth = np.log([np.linalg.svd(products[t], compute_uv=False) for t in (early, -1)])
exponents = (growth[1] - growth[0]) / (growth[1] - growth[0])[0]

reached = certify(products[-1], solutions["nuc"].dual.numpy(), A)
short = [1 - cosine(products[-1], W) for W in (W_nuc, W_fro)]
print(f"after {far[-1]:,} steps: 1 - cosine is {short[0]:.0e} to W_nuc, {short[1]:.2f} to W_fro")
print(f"its nuclear margin is within 0.1 percent of the largest, proved: {reached[0] / reached[1] > 0.999}")
print("speeds, predicted:", *(f"{s:.2f}" for s in speeds[:6]))
print("speeds, measured: ", *(f"{s:.2f}" for s in exponents[:6]))
assert cosine(products[-1], W_nuc) > 0.999, "see exercise 04.1"
assert reached[0] / reached[1] > 0.999, "see exercises 04.1 and 04.4"
assert np.allclose(exponents[:4], speeds[:4], atol=0.01), "see exercise 04.1"
assert np.allclose(exponents[:6], speeds[:6], atol=0.05), "see exercise 04.1"

# %% slideshow={"slide_type": "fragment"}
fig, (left, right_ax) = plt.subplots(1, 2, figsize=(9.4, 3.4))
for target, name, color in ((W_fro, "fro", "blue"), (W_nuc, "nuc", "vermillion")):
    short = [1 - cosine(W, target) for W in products]
    left.loglog(
        far, short, marker="o", markersize=4, color=COLORS[color], label=rf"to $W_{{\mathrm{{{name}}}}}$"
    )
left.set(xlabel="normalised step $t$", ylabel="1 - cosine of $W_t$")
left.legend(loc="lower left")
first = np.arange(1, 8)
right_ax.plot(
    first, speeds[:7], "_", markersize=22, markeredgewidth=2.5, color=COLORS["black"], label="predicted"
)
right_ax.plot(first, exponents[:7], "o", color=COLORS["vermillion"], label="measured")
right_ax.axhline(1, color=COLORS["grey"], linewidth=1)
right_ax.set(xlabel="$k$", ylabel="speed of $s_k$, relative to $s_1$", ylim=(0.6, 1.05))
right_ax.legend(loc="lower left")
show(
    fig,
    alt="Left: one minus the cosine to W_nuc falls below 0.001 in 30,000 steps, that to W_fro stays near "
    "0.24. Right: predicted and measured speeds of seven singular values: three at 1, the fourth at 0.98, "
    "the others slower, each dot on or close to its bar.",
)

# %% [markdown]
# **Figure 5.** Normalised descent on the factors from a small random start. Left: the direction. Right: how
# fast singular values grew in the last tenfold of steps; bars are the singular values of $S$, from the SVM's
# weights.

# %% [markdown]
# The three singular values of $W_{\mathrm{nuc}}$ have speed 1. The fourth follows at 0.98: in the long run it
# is left behind, but slowly, and that is why a run of moderate length shows a fourth singular value that is
# small and not zero. The fifth and sixth are not there yet: 0.89 where 0.91 is predicted, for the fifth. The
# certificate proves the margin within 0.1 percent of the largest.
#
# The library gets the same from torch: any parameters, autograd, and its normalised optimiser.

# %%
torch_U, torch_V = (torch.nn.Parameter(torch.tensor(start)) for start in (U0, V0))
optimizer = optim.NormalizedGD([torch_U, torch_V], lr=0.1)
for _ in range(far[0]):
    optimizer.zero_grad()
    margins = (problem.a @ torch_U * (problem.b @ torch_V)).sum(dim=1)  # <A_i, U V^T>, factored
    losses.logistic(margins, batch_dims=0).sum().backward()
    optimizer.step()
assert np.allclose(torch_U.detach(), factors[0][0]), "see exercise 04.1"
assert np.allclose(torch_V.detach(), factors[0][1]), "see exercise 04.1"

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4.7 Where it breaks
#
# **(a) A large start.** A step of size $\eta$ changes $U^\top U - V^\top V$ by terms of order
# $\eta^2$ only: the first-order terms, $U^\top M V + V^\top M^\top U$, are the same for both. In the limit of
# small steps the **imbalance** $U^\top U - V^\top V$ is conserved. From $U = \beta I$, $V = 0$ it then is
# $\beta^2 I$ for ever. If $\beta$ is large, $U$ hardly moves from $\beta I$ while $V$ learns, and
# $W \approx \beta V^\top$ moves along $\beta^2 \eta M$: descent on the entries in disguise.
#
# The start is a dial, then, from one norm to the other. We turn it, and stop each run at the same loss. The
# steps have length 0.1, so we begin at $\beta = 0.1$: from a smaller start the first step alone would decide
# how large the factors are, and the axis would show the step instead of $\beta$.


# %%
def until(U, V, level, lr=0.1):
    """The pair (U, V) when normalised descent first has a loss below the level, or after 2,000 steps."""
    for _ in range(2000):
        if loss(U @ V.T, A) <= level:
            break
        ((U, V),) = descend(U, V, A, lr, [1], normalised=True)
    return U, V


betas = np.geomspace(0.1, 30, 10)
stopped = {level: [until(b * np.eye(d), np.zeros((d, d)), level) for b in betas] for level in (1e-4, 1e-100)}
ends = {level: [U @ V.T for U, V in pairs] for level, pairs in stopped.items()}

# %% slideshow={"slide_type": "subslide"}
fig, axes = plt.subplots(1, 2, figsize=(9.2, 3.4), sharey=True)
for (level, runs), ax in zip(ends.items(), axes, strict=True):
    for target, name, marker, color in ((W_fro, "fro", "o", "blue"), (W_nuc, "nuc", "s", "vermillion")):
        label = rf"to $W_{{\mathrm{{{name}}}}}$"
        cosines = [cosine(W, target) for W in runs]
        ax.semilogx(betas, cosines, marker=marker, color=COLORS[color], label=label)
    ax.axhline(cosine(W_fro, W_nuc), color=COLORS["grey"], linestyle="--", linewidth=1.4)
    ax.set(xlabel=r"start $\beta$", title=f"at loss $10^{{{np.log10(level):.0f}}}$")
axes[0].set_ylabel("cosine of $W$")
axes[0].legend(loc="center left", bbox_to_anchor=(0.02, 0.62))
show(
    fig,
    alt="Two panels, cosines against the start beta, from 0.1 to 30. For small beta the cosine to W_nuc is "
    "near 1, for large beta the cosine to W_fro is, and the curves cross between. At the much "
    "smaller loss, right, they cross "
    "at a larger beta.",
)

# %% [markdown]
# **Figure 6.** Where descent on the factors stands at a given loss, for starts $U = \beta I$, $V = 0$.
# Dashed: the cosine between the two solutions.

# %%
for level, runs in ends.items():
    print(
        f"loss {level:.0e}: cosine to W_nuc {cosine(runs[0], W_nuc):.3f} from beta = {betas[0]:.1f}", end=", "
    )
    print(f"to W_fro {cosine(runs[-1], W_fro):.3f} from beta = {betas[-1]:.0f}")
assert cosine(ends[1e-4][0], W_nuc) > 0.97, "see exercise 04.1"
assert cosine(ends[1e-4][-1], W_fro) > 0.9999, "see exercise 04.1"
drift = [
    np.linalg.norm(U.T @ U - V.T @ V - b**2 * np.eye(d), 2) / b**2
    for b, (U, V) in zip(betas, stopped[1e-100], strict=True)
]
for k in (0, 5, 9):
    print(f"the imbalance has moved by {drift[k]:.2f} beta^2 from beta = {betas[k]:.1f}")
assert drift[0] > 1 > 0.1 > max(drift[5:]), "see exercise 04.1"
crossings = []
for runs in ends.values():
    lead = np.array([cosine(W, W_nuc) - cosine(W, W_fro) for W in runs])
    crossings.append(10 ** np.interp(0, -lead, np.log10(betas)))
assert 1.5 < crossings[0] < 2.5, "see exercise 04.1"
assert 7.5 < crossings[1] < 12.5, "see exercise 04.1"

# %% [markdown]
# At a loss of $10^{-4}$, where anybody would stop, the start decides: the curves cross near $\beta = 2$. The
# theorem of section 4.6 is not violated. It speaks of $L \to 0$, where $\beta^2 I$ becomes negligible beside
# growing factors. At a loss of $10^{-100}$ the crossing has moved to about $\beta = 10$, and the largest
# start has still not come round.
#
# The conserved imbalance is an idealisation: at the left end, where a step is as long as the start is large,
# the imbalance has moved by more than $\beta^2$ itself. From $\beta = 2.4$ on it has moved by less than a
# tenth.

# %% [markdown] slideshow={"slide_type": "subslide"}
# **(b) A factor that does not learn.** With $V$ frozen, the model is linear in $U$, and lesson 01 applies to
# it: the shortest $U$. For $V = I$ that is the Frobenius solution, at any start.
#
# **(c) Too few columns.** With $m = 2$ the pair cannot reach rank 3, and no column is free. The KKT points
# that are left differ: the end depends on the seed. With $m = 1$ these answers cannot be fitted at all.
#
# **(d) Nothing to find.** The nuclear norm believes in low rank. We ask it about surveys with one taste, two,
# three, and with answers by the toss of a coin, twenty each, all in one call.

# %%
U = np.zeros((d, d))
for _ in range(2000):
    U = U + pull(U, A)  # V = I is frozen
print(f"(b) V frozen: cosine to W_fro {cosine(U, W_fro):.3f}")
assert np.isclose(cosine(U, W_fro), 1)

few, tables_of = {}, {}
for m in (1, 2):
    for seed in range(4):
        start = 1e-3 * np.random.default_rng(seed).normal(size=(2, d, m))
        U, V = descend(*start, A, 0.1, [3000], normalised=True)[-1]
        few[m, seed], tables_of[m, seed] = certify(U @ V.T, np.ones(n), A)[0] / lower, U @ V.T
two = [tables_of[2, seed] for seed in range(4)]
alike = [cosine(W, two[0]) for W in two]
guessed = [int((np.sign(W) == truth)[~known].sum()) for W in two]
print("(c) one column: all answers fitted from some seed?", max(few[1, seed] for seed in range(4)) > 0)
print(
    "(c) two columns, by seed: share of the margin", *(f"{few[2, seed]:.2f}" for seed in range(4)), end="; "
)
print("cosine to the first", *(f"{c:.3f}" for c in alike), end="; ")
print("unknown answers right", *guessed)
assert max(few[1, seed] for seed in range(4)) < 0, "see exercises 04.1 and 04.4"
assert max(few[2, seed] for seed in range(4)) < 0.9, "see exercises 04.1 and 04.4"
assert np.allclose(alike, [1, 0.685, 0.998, 1], atol=1e-3), "see exercise 04.1"
assert guessed == [48, 42, 46, 48], "see exercise 04.1"

rows, columns = np.indices((d, d)).reshape(2, -1)
shares = {}
for tastes in (1, 2, 3, None):
    surveys = [survey(seed, tastes=tastes or 2) for seed in range(100, 120)]
    if tastes is None:
        surveys = [
            (np.random.default_rng(s).choice([-1.0, 1.0], (d, d)), k) for s, (_, k) in enumerate(surveys)
        ]
    labels = torch.tensor(np.array([answers.ravel() for answers, _ in surveys]))
    a, b = torch.eye(d).double()[rows], torch.eye(d).double()[columns].expand(20, -1, -1)
    mask = torch.tensor(np.array([k.ravel() for _, k in surveys]))  # only known answers are constraints
    batch = svm.HardMarginProblem(labels[..., None] * a, b, torch.ones_like(labels), mask=mask)
    found = svm.solve(batch, norm="nuc").value.sign().flatten(1)
    shares[tastes] = (found == labels)[~mask].double().mean().item()
print("(d) unknown answers right:", *(f"{100 * share:.0f}%" for share in shares.values()))
assert shares[1] > 0.99
assert shares[1] > shares[2] > shares[3] > 0.65
assert shares[2] < 48 / 53 - 0.05
assert abs(shares[None] - 0.5) < 0.05

# %% [markdown]
# In (c), one column leaves some known answers wrong. Two columns fit them all, at margins that are alike,
# below 0.9 of the largest, and yet not in one place: the second seed ends at a cosine of 0.685 to the first,
# with 42 unknown answers right instead of 48. In (d), one taste is recovered almost surely, two (ours, with
# 48 of 53, was a lucky one) and three mostly, and coin tosses are what they are. An implicit bias is a bet
# on the world, and factors bet on few directions.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4.8 Turn the dial
#
# Try to
#
# 1. watch the second and third singular value come up from $\beta = 0.1$: at about which step does each?
# 2. predict the two cosines after 500 steps from $\beta = 1$, then check;
# 3. find settings that fit all known answers and fill no blank.
#
# <details><summary>Answers</summary>
#
# 1. The share of the second begins to rise at about step 60, that of the third at about step 90. 2. The
# cosine to $W_{\mathrm{nuc}}$ is 0.98 by then, to $W_{\mathrm{fro}}$ 0.83: the start is being forgotten. 3.
# Drag the first slider to the right end; 30 steps are enough.
# </details>


# %%
def dial(log_beta, steps):
    """The table and its singular values after normalised descent from U = beta I, V = 0."""
    beta = 10.0**log_beta
    ((U, V),) = descend(beta * np.eye(d), np.zeros((d, d)), A, 0.1, [steps], normalised=True)
    W = U @ V.T
    figure = Figure(figsize=(7.6, 3.2), layout="none")  # constrained layout would draw twice
    table, bars = figure.add_axes((0.02, 0.06, 0.38, 0.82)), figure.add_axes((0.52, 0.16, 0.46, 0.72))
    table.imshow(W / np.abs(W)[known].mean(), cmap="PuOr", vmin=-1.5, vmax=1.5)
    table.set(xticks=[], yticks=[])
    fit = (np.sign(W) == truth)[known].sum()
    table.set_title(rf"$\beta$ = {beta:.3g}, {steps} steps: {fit} of {n} right", fontsize=11)
    s = np.linalg.svd(W, compute_uv=False)
    bars.bar(range(1, d + 1), s / s.sum(), color=COLORS["vermillion"])
    bars.set(ylim=(0, 1), xticks=range(1, d + 1), xlabel="$k$", ylabel="$s_k$ / nuclear norm")
    targets = (("fro", W_fro), ("nuc", W_nuc))
    to = [rf"$W_{{\mathrm{{{name}}}}}$ {cosine(W, target):.2f}" for name, target in targets]
    bars.set_title("cosine to " + ", to ".join(to), fontsize=11)
    return figure


# %% slideshow={"slide_type": "skip"}
def seen(log_beta, steps):
    """Shares of the singular values, cosines to W_fro and W_nuc, and the number of known answers right."""
    ((U, V),) = descend(10**log_beta * np.eye(d), np.zeros((d, d)), A, 0.1, [steps], normalised=True)
    s = np.linalg.svd(U @ V.T, compute_uv=False)
    fit = (np.sign(U @ V.T) == truth)[known].sum()
    return s / s.sum(), cosine(U @ V.T, W_fro), cosine(U @ V.T, W_nuc), fit


shares_at = {t: seen(-1.0, t)[0] for t in (50, 70, 80, 100)}  # the answers above
assert shares_at[50][1] < 0.085 < 0.11 < shares_at[70][1], "see exercise 04.1"
assert shares_at[80][2] < 0.02 < 0.03 < shares_at[100][2], "see exercise 04.1"
assert np.allclose(seen(0.0, 500)[1:3], [0.83, 0.98], atol=0.01), "see exercise 04.1"
assert seen(1.5, 30)[3] == seen(1.0, 60)[3] == n, "see exercise 04.1"

show(
    dial(log_beta=1.0, steps=60),
    alt="Left: the table after 60 steps from beta = 10, with blanks nearly white. Right: ten singular values "
    "that fall off slowly; the cosine to W_fro is 1.00, to W_nuc 0.77.",
)

# %% [markdown]
# **Figure 7.** What the sliders show for $\beta = 10$ after 60 steps: all known answers right, the blanks
# nearly blank.

# %% tags=["nbval-ignore-output", "widget"]
wide = {"style": {"description_width": "110px"}, "layout": ipywidgets.Layout(width="480px")}
widgets.sliders(
    dial,
    log_beta=ipywidgets.FloatSlider(
        value=-1.0, min=-1, max=1.5, step=0.25, description="log10 of beta", **wide
    ),
    steps=ipywidgets.IntSlider(value=30, min=1, max=500, description="steps", **wide),
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4.9 From films to attention
#
# Attention compares a token $x_t$ with a query $z$ through $x_t^\top K Q^\top z$, with trained keys $K$ and
# queries $Q$. Say that it should keep token $\alpha$ of its sequence: give that token nearly all of the
# weight (lesson 05 shows how). For this the comparison of $x_\alpha$ has to win: $(x_\alpha - x_t)^\top K
# Q^\top z > 0$ for all other $t$. That is $\langle A_i, U V^\top \rangle > 0$ with
#
# $$A_i = (x_\alpha - x_t)\, z^\top, \qquad U = K, \quad V = Q .$$
#
# Lesson 06 replaces labelled points by such differences. Lesson 10 trains $W = K Q^\top$ by its entries and
# finds the Frobenius norm; lesson 11 trains $K$ and $Q$ and finds the nuclear norm. You have seen why.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## 4.10 Questions
#
# <details><summary>1. Why can descent not start with both factors at zero?</summary>
#
# The steps are $\eta M V$ and $\eta M^\top U$: both zero. The origin is a stationary point, a saddle. With
# $V = 0$ alone, $V$ moves first.
# </details>
#
# <details><summary>2. You train U and V with weight decay, and reach the global minimum of loss plus
# penalty. Which penalty did W get?</summary>
#
# By the theorem, the nuclear norm, times the coefficient of the price: for a given product, the penalty can
# be lowered to $\lVert W \rVert_*$ and no further, and the loss does not notice. The start plays no part.
# </details>
#
# <details><summary>3. Let W, U and V be diagonal. What is the nuclear norm, and what does the lesson say?
# </summary>
#
# The $\ell_1$ norm of the diagonal. Writing each weight as a product of two, $w_k = u_k v_k$, makes descent
# from a small start prefer sparse weights.
# </details>
#
# <details><summary>4. You divide a small beta by 1,000. How much later does the first singular value arrive?
# </summary>
#
# Its size is proportional to $\beta^2 (1 + \eta \rho_1)^{2t}$: it needs a factor $10^6$ more, so
# $\log(10^3) / \log(1 + \eta \rho_1)$ more steps. The delay between first and second grows as well: the
# smaller the start, the more clearly one follows the other.
# </details>
#
# <details><summary>5. Spectral descent and Muon (lesson 03) maximise the margin in the spectral norm. Is that
# the same bias?</summary>
#
# No, the opposite one. They make the largest singular value of W small, so that all singular values tend to
# be equal, and the rank high. Factors make the sum small, and the rank low.
# </details>

# %%
progress("04")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4.11 Summary
#
# - The cheapest way to write $W$ as $U V^\top$ has the price $\lVert W \rVert_*$, the sum of the singular
#   values. Short factors mean low rank.
# - Descent on entries goes to the SVM in the Frobenius norm, descent on factors from a small start to the SVM
#   in the nuclear norm: same loss, same data, same matrices within reach. A spectral norm certifies it.
# - Singular values grow one after the other. Until the first has arrived, $M_0$ predicts them all; at the end
#   those of $W_{\mathrm{nuc}}$ share the speed 1, and the SVM's weights predict how fast the others fall
#   behind.
# - A large start behaves like entries for a long time; a frozen factor for ever. Too few columns leave more
#   than one end, and where there is no low rank, none is found.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Further reading
#
# - N. Srebro, J. Rennie, T. Jaakkola. *Maximum-margin matrix factorization.* NIPS 2004 (published 2005). Our
#   survey, and the theorem of section 4.3.
# - S. Gunasekar, B. Woodworth, S. Bhojanapalli, B. Neyshabur, N. Srebro. *Implicit regularization in matrix
#   factorization.* NIPS 2017. The same for the squared loss: a conjecture, with experiments.
# - K. Lyu, J. Li. *Gradient descent maximizes the margin of homogeneous neural networks.* ICLR 2020, and Z.
#   Ji, M. Telgarsky. *Directional convergence and alignment in deep learning.* NeurIPS 2020. The theorem of
#   section 4.6.
# - B. Woodworth et al. *Kernel and rich regimes in overparametrized models.* COLT 2020. The dial.
# - Z. Li, Y. Luo, K. Lyu. *Towards resolving the implicit bias of gradient descent for matrix factorization:
#   greedy low-rank learning.* ICLR 2021. When the staircase of ranks, and not the nuclear norm, is the rule.
#
# **New in the library:** [`svm.certified_rank`](../mini_attn/svm/nuclear.py).
#
# **Next:** [lesson 05](05_softmax_attention.ipynb) meets the softmax.
