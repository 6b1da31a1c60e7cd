# %% [markdown] slideshow={"slide_type": "slide"}
# # 11 · Keys, queries and the nuclear norm
#
# A transformer does not train the matrix $W$ of lesson 10. It trains two: $K$ makes a key $K^\top x_t$ of
# each token, $Q$ makes $Q^\top z$ of the query, and only $W = K Q^\top$ meets the data.
#
# **The question: where do $K$ and $Q$ go, when do they get there, and what does the published figure show?**
#
# They head for another SVM. The published figure shows them almost there, because of a number as small as a
# rounding error; we shall predict how far from it they stop. Without that number they stall on the way.

# %% [markdown] slideshow={"slide_type": "skip"}
# **After this lesson you can**
#
# - state the Att-SVM that belongs to $(K, Q)$;
# - predict the $W$ at which a run with a ridge rests, from the tokens that it selects;
# - read from a stalled run which direction is missing, and how fast it grows at first;
# - say from which weight decay on zero is stable.
#
# **You need** [lesson 04](04_matrix_factorization.ipynb) (nuclear norm, KKT points, the stall), [lesson
# 06](06_attention_as_svm.ipynb) (forces between tokens, in logarithms), [lesson
# 08](08_regularization_path.ipynb) (minimisers on growing balls) and [lesson
# 10](10_cross_self_attention.ipynb) (the Att-SVM for $W$). About 85 minutes with three exercises, and
# 15 more for the optional section 11.4, with one.

# %%
import cvxpy as cp
import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure

from course.exercise import check, exercise, progress, todo
from course.figure import show
from course.replicate import measured
from course.replicate.lesson_11 import attraction, compared, settled
from mini_attn import data, flow, geometry, models, plots, svm, widgets
from mini_attn.plots import COLORS
from mini_attn.softmax import softmax

plots.style()
torch.set_num_threads(1)  # small matrices: one thread is fastest
BLUE, ORANGE, GREEN, BLACK = (COLORS[name] for name in ("blue", "vermillion", "green", "black"))
again = "this differs from the text: if exercise {} has no tick, start there"

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 11.1 Two ways to train one attention
#
# The model is that of lesson 10, whose $W_{\mathrm{mm}}$ we call $W_{\mathrm{fro}}$ here. Sequence $i$ has
# tokens $x_{i1}, \dots, x_{iT}$ and a query $z_i$; with the logits $h_{it} = x_{it}^\top W z_i$, their
# softmax $s_{it}$ and a fixed head $v$, its output is $f_i = \sum_t s_{it}\, v \cdot x_{it}$. With its
# label $y_i$ let $u_i = y_i f_i$; the loss $L$ is the mean of $\ell(u_i) = \log(1 + e^{-u_i})$, and the
# score of a token is $\gamma_{it} = y_i\, v \cdot x_{it}$. We follow Tarzanagh, Li, Thrampoulidis and Oymak
# (2023): $n = 6$ sequences of $T = 8$ tokens in $d = 10$ dimensions, drawn from the unit sphere, with random
# labels. We take twelve such problems at once.
#
# We need one quantity, the **pull** $M = -\nabla_W L$. It is a sum of forces between tokens, and far out all
# of them underflow; as in lesson 06 we take the largest weight out, in logarithms.


# %%
def pull(W, X, z, y, v):
    """-n grad L in W over its largest weight, and the log of that: X (..., n, T, d), z (..., n, d)."""
    h = (X @ (z @ np.swapaxes(W, -1, -2))[..., None])[..., 0]  # (..., n, T)
    scores = np.broadcast_to(y[..., None] * (X @ v[..., None, :, None])[..., 0], h.shape)
    winner = h.argmax(axis=-1)[..., None]
    ahead = scores - np.take_along_axis(scores, winner, -1)  # gamma_t - gamma_alpha
    h = h - h.max(axis=-1, keepdims=True)
    log_s = h - np.log(np.exp(h).sum(axis=-1, keepdims=True))
    u = (np.exp(log_s) * scores).sum(axis=-1, keepdims=True)
    log_weight = log_s - np.logaddexp(0, u)  # log of s_t |l'(u)|
    np.put_along_axis(log_weight, winner, -np.inf, -1)
    largest = log_weight.max(axis=(-2, -1), keepdims=True)
    force = np.exp(log_weight - largest) * ahead
    force = force - np.exp(log_s) * force.sum(axis=-1, keepdims=True)  # the winner's part: minus the others'
    return np.swapaxes((force[..., None, :] @ X)[..., 0, :], -1, -2) @ z, largest


def unit(g):
    """g / ||g||_F for each problem."""
    return g / np.linalg.norm(g, axis=(-2, -1), keepdims=True)


tokens = data.random_tokens(n=6, T=8, d=10, trials=12, seed=0)
X, z, y, v = (part.numpy() for part in (tokens.X, tokens.z, tokens.y, tokens.v))
d, trials = 10, len(X)

# %% [markdown]
# With $W = K Q^\top$, lesson 04 (section 4.1) gives the steps: $K$ moves along $M Q$ and $Q$ along $M^\top
# K$. As in the paper's code, each is normalised by itself and every step has length 0.1. $K$ and $Q$ have $m
# = d$ columns, so that every $W$ is within reach, and start where torch starts an `nn.Linear`. $W$ itself
# starts from zero.


# %%
def product(KQ):
    """W = K Q^T of a pair (2, ..., d, m)."""
    return KQ[0] @ np.swapaxes(KQ[1], -1, -2)


def pair_norm(KQ):
    """sqrt(||K||_F^2 + ||Q||_F^2) in each problem."""
    return np.sqrt((KQ**2).sum(axis=(0, -2, -1)))


def downhill(KQ, ridge=0.0):
    """-grad of L + ridge (||K||_F^2 + ||Q||_F^2), (2, ..., d, m); without a ridge, in pull's units."""
    M, largest = pull(product(KQ), X, z, y, v)
    if np.any(ridge):
        M = M * np.exp(largest) / z.shape[-2]
    return np.stack([M @ KQ[1], np.swapaxes(M, -1, -2) @ KQ[0]]) - 2 * ridge * KQ


def descend(KQ, steps, every, eta=0.1, ridge=0.0):
    """(K, Q) at every so many steps eta g / (||g|| + ridge), K and Q normalised apart."""
    kept = []
    for step in range(1, steps + 1):
        g = downhill(KQ, ridge)
        KQ = KQ + eta * g / (np.linalg.norm(g, axis=(-2, -1), keepdims=True) + ridge)
        if step % every == 0:
            kept.append(KQ)
    return np.array(kept)


def solve(W, norm):
    """The Att-SVM of the tokens that W selects, for all problems at once."""
    selected = geometry.selected_tokens(tokens.compare(tokens.z @ torch.tensor(W).mT))
    return svm.solve(svm.attention_problem(tokens.X, tokens.z, selected), norm=norm)


rng = np.random.default_rng(0)
KQ0 = rng.uniform(-1, 1, size=(2, trials, d, d)) / np.sqrt(d)
factored = np.array([product(KQ) for KQ in descend(KQ0, steps=2000, every=40)])
W, joined = np.zeros((trials, d, d)), []
for step in range(1, 2001):
    W = W + 0.1 * unit(pull(W, X, z, y, v)[0])
    if step % 40 == 0:
        joined.append(W)
joined = np.array(joined)


def cosine(V, W):
    """Cosines of matrices (..., d, d)."""
    return (unit(V) * unit(W)).sum(axis=(-2, -1))


curves = {}
for name, path in (("W", joined), ("(K, Q)", factored)):
    for norm in ("fro", "nuc"):
        curves[name, norm] = cosine(path, solve(path[-1], norm).value.numpy())
        print(f"{name:6} to W_{norm}: mean cosine {curves[name, norm][-1].mean():.2f}")
assert min(curves["W", "fro"][-1].mean(), curves["(K, Q)", "nuc"][-1].mean()) > 0.96
assert max(curves["W", "nuc"][-1].mean(), curves["(K, Q)", "fro"][-1].mean()) < 0.9

# %% jupyter={"source_hidden": true} slideshow={"slide_type": "slide"}
fig, axes = plt.subplots(1, 3, figsize=(8.8, 3), width_ratios=(1.2, 1, 1))
steps = np.arange(40, 2001, 40)
styles = {
    ("W", "fro"): (BLUE, "-"),
    ("W", "nuc"): (BLUE, "--"),
    ("(K, Q)", "fro"): (ORANGE, "--"),
    ("(K, Q)", "nuc"): (ORANGE, "-"),
}
for (name, norm), (color, line) in styles.items():
    label = rf"${name}$ to $W_{{\mathrm{{{norm}}}}}$"
    axes[0].plot(steps, curves[name, norm].mean(axis=1), line, color=color, label=label)
axes[0].set(xlabel="step", ylabel="mean cosine", ylim=(0.4, 1.02))
axes[0].legend(loc="lower right", fontsize=9)
for ax, path, title in ((axes[1], joined, "$W$"), (axes[2], factored, "$(K, Q)$")):
    singular = np.linalg.svd(path[:, 0], compute_uv=False)
    for k in range(6):
        ax.semilogy(steps, singular[:, k] / singular[:, 0], color=BLACK, alpha=1 - 0.13 * k, linewidth=2)
    ax.set(title=f"trained: {title}", xlabel="step", ylim=(1e-5, 1.5))
axes[1].set_ylabel(r"$\sigma_k / \sigma_1$")
show(
    fig,
    alt="Left: mean cosines against steps; W rises to 1 with W_fro and stays below 0.9 with W_nuc, (K, Q) "
    "comes near 1 with W_nuc and stays below 0.9 with W_fro. Middle and right: the six largest singular "
    "values of one problem, relative to the first; for W all six stay within a factor of about 20, for "
    "(K, Q) some fall by factors of a hundred and more.",
)

# %% [markdown]
# **Figure 1.** Left: mean cosines over twelve problems. Middle and right: the first problem's singular
# values (black to pale: first to sixth). $W$ goes to the Frobenius SVM, $(K, Q)$ towards the nuclear one.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 11.2 The SVM of keys and queries
#
# For selected tokens $\alpha$ write $A_{it} = (x_{i\alpha_i} - x_{it})\, z_i^\top$, so that $\langle A_{it},
# W \rangle$ is the lead of $\alpha_i$ over $t$.
#
# > **Nuclear Att-SVM** $\qquad W_{\mathrm{nuc}}(\alpha) = \arg\min_W \lVert W \rVert_* \quad \text{subject
# > to} \quad \langle A_{it}, W \rangle \ge 1 \quad \text{for all } i,\ t \ne \alpha_i .$
#
# Its dual weights $\lambda_{it} \ge 0$ make $S = \sum_{it} \lambda_{it} A_{it}$ with $\lVert S
# \rVert_{\mathrm{op}} = 1$. The same problem written in $(K, Q)$ asks for the smallest cost $\frac12(\lVert K
# \rVert_F^2 + \lVert Q \rVert_F^2)$. Its KKT points (lesson 04) have
#
# $$K = S Q, \qquad Q = S^\top K :$$
#
# the directions in which $W$ *lives* have singular value 1 in $S$. A direction with a larger one is missing
# from $W$; $\lVert S \rVert_{\mathrm{op}} = 1$ says that none is.
#
# > **Theorem** (Tarzanagh, Li, Thrampoulidis & Oymak 2023, informally, in our words). *The loss is smooth and
# > strictly decreasing, the head linear and fixed, each sequence has one best token, and the nuclear Att-SVM
# > of the best tokens has a feasible $W$ of rank at most $m$. Let $(K, Q)$ minimise $L$, globally, among all
# > pairs of cost at most $R$ (so $\lVert K Q^\top \rVert_* \le R$). As $R \to \infty$, the distance of
# > $K Q^\top / R$ to the set of normalised solutions of that SVM, taken over matrices of rank at most $m$,
# > tends to 0.*
#
# This is about *global* minimisers and the *best* tokens. For descent, and the tokens that it selects, the
# paper shows a figure: the mean cosine with their $W_{\mathrm{nuc}}$ rises to .997 within 2,000 steps. Our
# run made the same steps and has less. Why?

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 11.3 The published figure, and what makes it
#
# The paper's code is public. It adds $\varepsilon = 2.2 \cdot 10^{-16}$, one rounding error of a double, in
# two places:
#
# - a **ridge** $\varepsilon (\lVert K \rVert_F^2 + \lVert Q \rVert_F^2)$ is added to the loss;
# - gradients are divided by their norm **plus** $\varepsilon$.
#
# And it takes softmax's gradient from torch, the textbook formula that lesson 05 warned of. We take these
# parts away, on the same 80 problems and starts (stored with the course).

# %%
stored, more = measured("11.figure").load(), measured("11.without_eps").load()
rows = {  # gradient and norm: where the runs with and without a ridge are stored
    "as published": (stored, "public code", "no ridge"),
    "exact gradient": (stored, "exact", "exact, no ridge"),
    "and no eps in norm": (more, "exact, ridge", "exact"),
}
for size, text in (("published", "n, T, d = 6, 8, 10"), ("other", "n, T, d = 4, 5, 14")):
    print(f"{text}     with a ridge           without      (mean nuclear cosine of 80)")
    print("             at step      500   2000   8000      500   2000   8000")
    for name, (kept, *variants) in rows.items():
        means = [kept.nuclear.sel(size=size, variant=one).values.mean(axis=0)[[0, 2, 3]] for one in variants]
        print(f"  {name:20}", *(f"{value:6.3f}" for value in means[0]), end="   ")
        print(*(f"{value:6.3f}" for value in means[1]))
        assert means[0][1] > 0.9955 > 0.986 > means[1][1]
        assert name == "and no eps in norm" or means[1][1] < 0.95
    assert 0.984 < means[1][1] < means[1][2] < 0.991  # of the last row

# %% [markdown]
# With a ridge the cosine is .996 to .997 at step 2,000 in all rows, without it .985 or less, and .990 after
# four times as many steps. So the published number belongs to the ridge. (Without one the
# other two parts matter as well.)
#
# Among all factors of $W$ the smallest have $\lVert K \rVert_F^2 + \lVert Q \rVert_F^2 = 2 \lVert W \rVert_*$
# (lesson 04). So **a ridge on $(K, Q)$ is $2 \varepsilon$ times the nuclear norm of $W$**. With it a run can
# rest, where both gradients vanish:
#
# $$M Q = 2 \varepsilon K, \qquad M^\top K = 2 \varepsilon Q .$$
#
# These are the two equations of section 11.2, with $S = M / 2 \varepsilon$.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A run at rest
#
# We train our twelve problems with the ridge, from here on with exact gradients. Steps of 0.1 do not come to
# rest, so we go on with steps of 0.003. (Rest is stable for steps below an $\eta^*$ that section 11.4
# predicts, here .0038 or more.) Two numbers judge a run: the **residual**, how much of $2 \varepsilon (K, Q)$
# the forces fail to balance, and $\lVert S \rVert_{\mathrm{op}}$. Away from rest we take $S$ in
# units that $W$ itself sets; at rest this is $M / 2 \varepsilon$ again:
#
# $$
# S = \frac{\lVert W \rVert_*}{\langle M, W \rangle}\, M , \qquad
# \langle S, W \rangle = \lVert W \rVert_* .
# $$

# %%
EPS = 2.0**-52


def forces(W, X, z, y, v):
    """S = ||W||_* / <M, W> M at each W (..., trials, d, d)."""
    M, _ = pull(W, X, z, y, v)
    return M * (np.linalg.norm(W, "nuc", axis=(-2, -1)) / (M * W).sum(axis=(-2, -1)))[..., None, None]


public = descend(KQ0, 2000, 2000, ridge=EPS)[0]
at_rest = descend(public, 2000, 2000, 0.003, EPS)[0]
for name, KQ in (("steps of 0.1  ", public), ("steps of 0.003", at_rest)):
    W = product(KQ)
    own, solution, h = compared(torch.tensor(W), tokens)  # cosine to the SVM of W's tokens, that SVM, logits
    selected = geometry.selected_tokens(h).numpy()
    residual = pair_norm(downhill(KQ, EPS)) / (2 * EPS * pair_norm(KQ))
    op = np.linalg.norm(forces(W, X, z, y, v), 2, axis=(-2, -1))
    agree = (selected == tokens.optimal.numpy()).all(axis=-1).sum()
    print(f"{name}: cosine {own.mean():.3f}, best tokens in {agree} of {trials}", end=", ")
    print(f"residual up to {residual.max():.1e}, ||S||_op - 1 up to {(op - 1).max():.1e}")
    assert agree == 9
assert max(residual.max(), abs(op - 1).max()) < 0.003  # at rest

# %% [markdown]
# Both fall below .003. (In three of the twelve problems it selects other tokens than the
# best: .997 is the cosine with the SVM of its own.)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### With the tokens fixed, the problem is convex
#
# Let all **leads** $\Delta_{it} = \langle A_{it}, W \rangle$ of the selected tokens be long. Then $s_{it}$ is
# nearly $e^{-\Delta_{it}}$ and $u_i$ nearly $\gamma_{i\alpha_i}$, so that, up to a constant,
#
# $$
# L(W) \approx \sum_{it} F_{it}\, e^{-\Delta_{it}} , \qquad
# F_{it} = \tfrac1n\, |\ell'(\gamma_{i\alpha_i})|\, (\gamma_{i\alpha_i} - \gamma_{it}) .
# $$
#
# **Better tokens**, those that score higher than the selected one, have $F_{it} < 0$: they pull $W$ towards
# themselves. For now we leave them out. What remains is *convex*, a sum of exponentials and a norm:
#
# $$J(W) = \sum_{it} F_{it}\, e^{-\langle A_{it}, W \rangle} + 2 \varepsilon \lVert W \rVert_* .$$
#
# At its minimum the forces are $2 \varepsilon$ times the weights of an $S = \sum_{it} \lambda_{it} A_{it}$
# with $\lVert S \rVert_{\mathrm{op}} \le 1$ and $\langle S, W \rangle = \lVert W \rVert_*$:
#
# $$F_{it}\, e^{-\Delta_{it}} = 2 \varepsilon\, \lambda_{it} .$$
#
# A run at rest with $\lVert S \rVert_{\mathrm{op}} = 1$ meets these conditions. So **it is at the minimum of
# $J$ for the tokens that it selects**, up to what the approximation and the better tokens change.

# %% [markdown]
# ### Exercise 11.1: How long is W at rest?
#
# ★★☆ · 10 minutes
#
# Predict the nuclear norm of $W$ at rest from nothing of the run but the tokens it selects, as if the
# weights at rest were the dual weights $\lambda^{\mathrm{nuc}}_{it}$ of the nuclear Att-SVM. You are given
# these, the slopes $|\ell'(\gamma_{i\alpha_i})|$, the differences $\gamma_{i\alpha_i} - \gamma_{it}$, and
# $\varepsilon$. Where $\lambda^{\mathrm{nuc}}_{it} = 0$ (for the selected token always) a comparison does
# not count, whatever its difference. Elsewhere we suppose that differences are positive.
#
# <details><summary>Hint: the leads</summary>
#
# How strong is the force of a comparison at rest, and what lead does that belong to?
# </details>
#
# <details><summary>Hint: the norm</summary>
#
# At rest $\langle S, W \rangle = \lVert W \rVert_*$. What is $\langle A_{it}, W \rangle$?
# </details>


# %%
@exercise("11.1")
def length_at_rest(lam, slope, difference, eps):
    """||W||_*: a number, for lam (n, T), slope (n,), difference (n, T) and the ridge's eps."""
    ### BEGIN SOLUTION
    tight = lam > 0
    force = slope[:, None] * difference / len(slope)  # but for s_it
    leads = np.log(force[tight] / (2 * eps * lam[tight]))
    return (lam[tight] * leads).sum()
    ### END SOLUTION


# %%
check("11.1", length_at_rest)

# %%
scores = tokens.scores.numpy()
best = np.take_along_axis(scores, selected[..., None], -1)
slope, difference = 1 / (1 + np.exp(best[..., 0])), best - scores  # |l'(u)|, gamma_alpha - gamma_t
keep = np.arange(8) != selected[..., None]  # (trials, n, T)
lam, dual = np.zeros(keep.shape), solution.dual.numpy()
lam[keep] = np.where(dual > 1e-5 * dual.max(axis=1, keepdims=True), dual, 0).ravel()
predicted = np.array([length_at_rest(*one, EPS) for one in zip(lam, slope, difference, strict=True)])
lengths = np.linalg.norm(product(at_rest), "nuc", axis=(1, 2))
print(f"measured: {lengths.min():.0f} to {lengths.max():.0f}; mean lead (with the weights lambda)", end=" ")
mean_lead = lengths / lam.sum(axis=(1, 2))
print(f"{mean_lead.min():.0f} to {mean_lead.max():.0f}")
print(f"predicted / measured: from {(predicted / lengths).min():.3f} to {(predicted / lengths).max():.3f}")
assert ((predicted > 0.99 * lengths) & (predicted < lengths)).all(), again.format("11.1")
assert 2 * EPS * lengths.max() < 1.2e-13  # what the ridge adds to the loss

# %% [markdown]
# The prediction is right to one percent, and too short in each problem. At a mean lead of 31 to 33, a ridge
# that adds $10^{-13}$ to the loss stops training.
#
# ### The weights at rest
#
# For any $W$ and any weights $\lambda_{it} \ge 0$ with
# $\lVert \sum_{it} \lambda_{it} A_{it} \rVert_{\mathrm{op}} \le 1$,
#
# $$
# J(W) \ge \sum_{it} \left( F_{it}\, e^{-\Delta_{it}} + 2 \varepsilon\, \lambda_{it} \Delta_{it} \right)
# \ge 2 \varepsilon\, D(\lambda) , \qquad
# D(\lambda) = \sum_{it} \lambda_{it} \left( 1 + \log \frac{F_{it}}{2 \varepsilon\, \lambda_{it}} \right) .
# $$
#
# The first step is $\lVert W \rVert_* \ge \langle S, W \rangle$. In the second each term takes its least
# value, at $\Delta_{it} = \log (F_{it} / 2 \varepsilon \lambda_{it})$. At rest both are equalities. So **the
# weights at rest maximise $D$**, which is strictly concave: there is only one such $\lambda$.
#
# The weights of $W_{\mathrm{nuc}}$ maximise the plain sum $\sum_{it} \lambda_{it}$ under the same condition
# (lesson 04), to which $D / \log(1 / 2 \varepsilon)$ tends as $\varepsilon$ shrinks. So the guess of exercise
# 11.1 was a good one, and it can only be too short.
#
# <details><summary>Why too short</summary>
#
# Let $P$ be the prediction of 11.1. Then
# $D(\lambda^{\mathrm{nuc}}) = \sum_{it} \lambda^{\mathrm{nuc}}_{it} + P$, and at rest
# $D(\lambda) = \sum_{it} \lambda_{it} + \lVert W \rVert_*$. Since $\lambda$ maximises $D$ and
# $\lambda^{\mathrm{nuc}}$ the sum, $\lVert W \rVert_* - P \ge \sum_{it} \lambda^{\mathrm{nuc}}_{it} -
# \sum_{it} \lambda_{it} \ge 0$. $\square$
# </details>

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Why .997, and not 1?
#
# In $W_{\mathrm{nuc}}$ the leads that count are all 1. At rest they are
# $\log (F_{it} / 2 \varepsilon \lambda_{it})$: a small weight or a large $F_{it}$ makes a longer one. So $W$
# has another direction. We maximise $D$ and read $W$ from it, knowing of the run only which tokens it
# selects. The rival is $W_{\mathrm{nuc}}$.


# %%
def comparisons(tokens, selected):
    """The A_it (trials, n (T - 1), d, d) and F_it (trials, n (T - 1))."""
    problem = svm.attention_problem(tokens.X, tokens.z, selected)
    best = tokens.scores.gather(-1, selected[..., None])
    F = (best - tokens.scores) * torch.sigmoid(-best) / selected.shape[-1]
    others = torch.arange(F.shape[-1]) != selected[..., None]
    A = problem.a[..., :, None] * problem.b[..., None, :]
    return A.numpy(), F[others].reshape(A.shape[:2]).numpy()


def minimum(A, F, eps):
    """The W that minimises J: the multiplier of ||S||_op <= 1 where D is largest."""
    A, F, d = A[F > 0], F[F > 0], A.shape[-1]
    lam = cp.Variable(len(A))
    S = cp.reshape(A.reshape(len(A), -1).T @ lam, (d, d), order="C")
    within = cp.bmat([[np.eye(d), S], [S.T, np.eye(d)]]) >> 0  # ||S||_op <= 1
    D = cp.sum(cp.entr(lam)) + lam @ (1 + np.log(F / (2 * eps)))  # entr(x) = -x log x
    cp.Problem(cp.Maximize(D), [within]).solve(solver="CLARABEL")
    # the multiplier's upper right block Y meets log(F / 2 eps lam) = -2 <A, Y>: the leads of W = -2 Y
    return -2 * within.dual_value[:d, d:]


A, F = comparisons(tokens, torch.tensor(selected))
foretold = np.array([minimum(*one, EPS) for one in zip(A, F, strict=True)])
nuclear = solution.value.numpy()
own, said = cosine(product(at_rest), nuclear), cosine(foretold, nuclear)
off = 1 - cosine(product(at_rest), foretold)
print(f"mean cosine to W_nuc: predicted {said.mean():.4f}, measured {own.mean():.4f}")
print(f"1 - cosine of prediction and run: below 1e-4 in {(off < 1e-4).sum()} of 12", end="; ")
print(f"of W_nuc and run, median: {np.median(1 - own):.4f}")
assert (abs(np.linalg.norm(foretold, "nuc", axis=(1, 2)) / lengths - 1) < 1e-3).all()
assert (off < 1e-4).all()

many = measured("11.rest").load()  # 48 problems of each of three sizes, from their own starts
print("\n           of 48    1 - cosine of     1 - cosine to W_nuc:")
print("n, T, d    at rest  prediction, run   median   predicted / measured")
small = []
for size, name in (("published", " 6, 8, 10"), ("other", " 4, 5, 14"), ("more", "10, 6, 8")):
    drawn = many.sel(size=size)
    resting = drawn.op.values < 1 + 1e-6
    near, own_, said_ = (1 - drawn[key].values[resting] for key in ("near", "own", "said"))
    ratio = said_ / own_
    print(f"{name} {resting.sum():9d}   below 1e-5 {np.median(own_):14.4f}", end="   ")
    print(f"{ratio.min():8.3f} to {ratio.max():.3f}")
    assert (near < 1e-5).all()
    small.append(near < 1e-6)
    short = (drawn.length_by_dual / drawn.length).values[resting]  # exercise 11.1
    assert 0.99 < np.nanmin(short) < np.nanmax(short) < 1  # NaN: W_nuc has weight on a better token
    assert np.isnan(short).sum() == (size == "more")
small = np.concatenate(small)
assert (small.size, small.sum()) == (140, 139)

# %% [markdown]
# **This explains the published .997, given the tokens.** We take from the run which tokens it selects, and
# predict the rest. In our twelve problems prediction and run agree up to a cosine of .9999. The stored runs
# go on for 30,000 steps of $0.9\, \eta^*$: of 144, of three sizes, 140 come to rest, with $\lVert S
# \rVert_{\mathrm{op}} - 1 < 10^{-6}$. There $1 - \text{cosine}$ between run and prediction is below
# $10^{-5}$, in 139 below $10^{-6}$, and exercise 11.1 is right to one percent and too short (but for one
# problem to which it does not apply, as $W_{\mathrm{nuc}}$ has weight on a better token). In the other four
# a direction is still missing, and the nearer $\lVert S \rVert_{\mathrm{op}}$ comes to 1, the slower it
# grows (11.6).
#
# The published run itself is not at rest, as its steps have length 0.1. In our twelve problems such a run has
# the same mean cosine, .997, as the one that rests; section 11.4 says what it does.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### When a better token stays unselected
#
# At the minimum of $J$ let $f = |F_{it}|\, e^{-\Delta_{it}} / 2 \varepsilon$ be the force towards a better
# token, in units of $2 \varepsilon$, and $\rho$ by how much its lead $\Delta_{it}$ gives way to a unit of
# that force, from the second derivatives of $J$ in $(K, Q)$. With the lead shorter by $x$ the force is $f
# e^x$, so a rest needs $x = \rho f e^x$. As $x e^{-x}$ is at most $1 / e$, at $x = 1$, **the better token
# stays unselected only if $e \rho f \le 1$**: then there is a rest at $x \le 1$, stable if $x < 1$. (We
# take $\rho$ as constant, and one better token at a time.) The course's `attraction` returns the largest $e
# \rho f$ of a problem.

# %%
force = [attraction(*one) for one in zip(foretold, A, F, strict=True)]
leads = np.einsum("imde,ide->im", A, product(at_rest))[F < 0]
print(f"our twelve: {np.count_nonzero(force)} have better tokens", end="; ")
print(f"least lead {leads.min():.1f}, all e rho f below 1e-5")
has = many.attraction.values > 0
print(f"stored: {has.sum()} of 144 have; least lead {many.better.values[has].min():.1f}", end=", ")
print(f"largest e rho f {many.attraction.values.max():.2f}; other tokens in {many.left.values.sum():.0f}")
assert (leads > 48).all()
assert max(force) < 1e-5
assert (has.sum(), many.left.values.sum()) == (51, 0)

drawn = data.random_tokens(6, 8, 10, trials=12, seed=7)  # its first problem
one = data.TokenData(drawn.X[:1], drawn.z[:1], drawn.y[:1], drawn.v[:1])
start = np.random.default_rng(7).uniform(-1, 1, size=(2, 12, 10, 10)) / np.sqrt(10)
KQ = settled(torch.tensor(start)[:, :1], one, 2000, 0.1)
chosen = geometry.selected_tokens(one.compare(one.z @ (KQ[0] @ KQ[1].mT).mT))
a, f = (part[0] for part in comparisons(one, chosen))
expected = minimum(a, f, EPS)
its = [np.einsum("mde,de->m", a, expected)[f < 0][0]]
for _ in range(4):
    KQ = settled(KQ, one, 2000, 0.003)
    its.append(np.einsum("mde,de->m", a, (KQ[0] @ KQ[1].mT)[0].numpy())[f < 0][0])
print(f"seed 7: e rho f = {attraction(expected, a, f):.2f}; lead at the minimum of J {its[0]:.1f}", end="; ")
print("after 2,000, 4,000, 6,000, 8,000 steps", *(f"{lead:.1f}" for lead in its[1:4]), "below 0")
assert attraction(expected, a, f) > 1.2
assert its[0] > its[1] > its[2] > its[3] > 33 > 0 > its[4]

# %% [markdown]
# In our twelve problems and the 144 stored ones $e \rho f$ is below 1, and the runs keep their tokens. The
# largest, .66, comes with the largest difference of run and prediction in the table above. With seed 7 it is
# above 1: the run creeps along for 6,000 steps, as if at rest, and then leaves for the better token. Where
# $J$ is to predict a rest, this has to be tested first.

# %% [markdown]
# ### Exercise 11.2: Another ridge
#
# ★★★ · 15 minutes
#
# A run rests at $W$ with the ridge $\varepsilon$. **Predict** where it rests with a smaller ridge
# $\varepsilon'$ (`other`), as if the weights $\lambda_{it}$ stay as they are and $W_{\mathrm{nuc}}$ has them,
# too: both matrices have the same $S$. How do the leads change? Find a matrix with the new ones, and say why
# it is at rest. Return its nuclear norm and its cosine with $W_{\mathrm{nuc}}$. (The check also tries larger
# ridges, with matrices for which it is at rest as well.)
#
# <details><summary>Hint: the leads</summary>
#
# All leads change by the same number. By which? What are the leads of $W_{\mathrm{nuc}}$ where
# $\lambda_{it} > 0$?
# </details>
#
# <details><summary>Hint: at rest</summary>
#
# A matrix $V$ with the new leads is at rest if $\langle S, V \rangle = \lVert V \rVert_*$. Here $W$ and
# $W_{\mathrm{nuc}}$ both have this, with the same $S$. How large can $\langle S, V \rangle$ be for their sum?
# </details>


# %%
@exercise("11.2")
def another_ridge(W, W_nuc, eps, other):
    """(||.||_*, cosine with W_nuc) at rest with the ridge `other`: two numbers, for W and W_nuc (d, d)."""
    ### BEGIN SOLUTION
    V = W + np.log(eps / other) * W_nuc
    return np.linalg.norm(V, "nuc"), (V * W_nuc).sum() / np.linalg.norm(V) / np.linalg.norm(W_nuc)
    ### END SOLUTION


# %%
check("11.2", another_ridge)

# %% [markdown]
# **Why it is at rest.** The matrix is $V = W + t\, W_{\mathrm{nuc}}$, $t = \log(\varepsilon / \varepsilon')$.
# For $t \ge 0$ the triangle inequality gives
#
# $$
# \lVert V \rVert_* \le \lVert W \rVert_* + t\, \lVert W_{\mathrm{nuc}} \rVert_*
# = \langle S, V \rangle \le \lVert V \rVert_* .
# $$
#
# We let the runs go on with the square of $\varepsilon$, $5 \cdot 10^{-32}$, and then with its cube.

# %%
KQ, resting = at_rest, [(EPS, 1 - said, 1 - said, 1 - own)]
for ridge in (EPS**2, EPS**3):
    KQ = descend(descend(KQ, 2000, 2000, ridge=ridge)[0], 1500, 1500, 0.003, ridge)[0]
    there = product(KQ)
    logits = tokens.compare(tokens.z @ torch.tensor(there).mT)
    assert (geometry.selected_tokens(logits).numpy() == selected).all()  # the same tokens
    pairs = zip(product(at_rest), nuclear, strict=True)
    length, moved = np.array([another_ridge(*pair, EPS, ridge) for pair in pairs]).T
    convex = cosine(np.array([minimum(*one, ridge) for one in zip(A, F, strict=True)]), nuclear)
    ratio, now = np.linalg.norm(there, "nuc", axis=(1, 2)) / length, cosine(there, nuclear)
    print(
        f"ridge {ridge:.0e}: norm, measured / exercise {ratio.min():.3f} to {ratio.max():.3f}; mean cosine:"
    )
    print("    ", end="")
    print(f"exercise {moved.mean():.5f}, minimum of J {convex.mean():.5f}, measured {now.mean():.5f}")
    resting.append((ridge, 1 - moved, 1 - convex, 1 - now))
    assert (abs(ratio - 1) < 0.02).all(), again.format("11.2")
    lack = 1 - (1 - moved).mean() / (1 - now).mean()
    assert abs(lack - (0.13 if ridge == EPS**2 else 0.21)) < 0.02, again.format("11.2")
    assert abs((1 - convex).mean() / (1 - now).mean() - 1) < 0.03
counts = (lam > 0).sum(axis=(1, 2))
print(f"comparisons with a weight in W_nuc: {counts.min()} to {counts.max()} of 42")

# %% jupyter={"source_hidden": true} slideshow={"slide_type": "subslide"}
fig, axes = plt.subplots(1, 2, figsize=(8, 3.4))
for size, color, marker, label in zip(
    ("published", "other", "more"),
    (BLUE, ORANGE, GREEN),
    "os^",
    ("(6, 8, 10)", "(4, 5, 14)", "(10, 6, 8)"),
    strict=True,
):
    drawn = many.sel(size=size)
    rests = drawn.op.values < 1 + 1e-6
    axes[0].loglog(
        1 - drawn.said[rests], 1 - drawn.own[rests], marker, color=color, markersize=4, label=label
    )
axes[0].plot([2e-4, 3e-2], [2e-4, 3e-2], color=BLACK, linewidth=1)
axes[0].set(xlabel=r"1 - cosine to $W_{\mathrm{nuc}}$, minimum of $J$", ylabel="the same, measured at rest")
axes[0].legend(title="n, T, d", fontsize=9, title_fontsize=9)
logs = [np.log(1 / (2 * row[0])) for row in resting]
for k, style, color, label in (
    (3, "o", BLUE, "measured"),
    (2, "-", BLACK, "minimum of $J$"),
    (1, "x", ORANGE, "exercise 11.2"),
):
    points = list(zip(logs, resting, strict=True))[k == 1 :]
    axes[1].loglog(
        [log for log, _ in points], [row[k].mean() for _, row in points], style, color=color, label=label
    )
axes[1].set(
    xlabel=r"$\log\, 1 / 2 \varepsilon$",
    xticks=[40, 70, 100],
    xticklabels=["40", "70", "100"],
    yticks=[3e-4, 1e-3, 2e-3],
    yticklabels=["0.0003", "0.001", "0.002"],
    ylabel=r"1 - cosine to $W_{\mathrm{nuc}}$, mean of 12",
)
axes[1].minorticks_off()
axes[1].legend(fontsize=9)
show(
    fig,
    alt="Left: one minus the cosine at rest, measured against predicted, both logarithmic, for problems of "
    "three sizes: the points are on the diagonal. Right: the mean of twelve problems against the "
    "logarithm of one over twice the ridge, for three ridges: measured points fall and lie on the line of "
    "the minimum of J, the crosses of exercise 11.2 a little below.",
)

# %% [markdown]
# **Figure 2.** Left: how far from $W_{\mathrm{nuc}}$ each of the stored problems rests, as predicted and as
# measured. Right: the mean over our twelve for three ridges. Exercise 11.2 starts from $W$ at the largest of
# these.

# %% [markdown]
# The selected tokens stay in all twelve. The premise of the exercise holds only roughly: at rest every
# comparison with $F_{it} > 0$ has weight, in $W_{\mathrm{nuc}}$ only 13 to 18 of 42 have. So its
# $1 - \text{cosine}$ is too small, by 13 and by 21 percent, while the minimum of $J$ is right. As the part of
# $W$ along $W_{\mathrm{nuc}}$ grows like $\log 1 / \varepsilon$, $1 - \text{cosine}$ falls nearly like
# $1 / \log^2 (1 / \varepsilon)$.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 11.4 Rest or cycle? *(optional)*
#
# What does the run with steps of 0.1 do instead of resting?

# %%
across, back = descend(public, 2, every=1, ridge=EPS)
once, twice = pair_norm(across - public), pair_norm(back - public)
sides = torch.tensor(np.stack([product(public), product(across)]))
mean_op = torch.linalg.matrix_norm(flow.forces(sides, tokens).mean(0), 2)  # the library's S
print(f"a step moves it by {once.min():.2f} to {once.max():.2f}, two by at most 3 percent of that", end="; ")
print("mean S of both sides: ||S||_op below 1.04")
assert ((once > 0.1) & (once < 0.01 * pair_norm(public)) & (twice < 0.03 * once)).all()
assert (mean_op < 1.04).all()

# %% [markdown]
# Each step is taken back by the next, a **cycle of period two**: its two gradients cancel, so that forces
# balance the ridge *on average*.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 11.3: Rest or cycle?
#
# ★★☆ · 8 minutes
#
# Descent takes steps $x \leftarrow x - \eta\, g / (\lVert g \rVert + \varepsilon)$ on $\frac12 \sum_k
# \kappa_k x_k^2$ with the curvatures $\kappa_k$, so $g_k = \kappa_k x_k$. **Predict**: return the step size
# $\eta^*$ above which rest is not stable, and $\lVert g \rVert$ in the cycle of period two along the sharpest
# direction, for the given $\eta$; 0 if $\eta \le \eta^*$.
#
# <details><summary>Hint</summary>
#
# Near rest the step is almost $\eta g / \varepsilon$: by what is $x_k$ multiplied? In a cycle of period two
# along one direction, $x$ becomes $-x$: how long is the step then?
# </details>


# %%
@exercise("11.3")
def rest_or_cycle(kappa, eta, eps):
    """(eta_star, ||g|| in the cycle): two numbers, for curvatures kappa (k,) > 0, eta > 0 and eps > 0."""
    ### BEGIN SOLUTION
    sharpest = np.max(kappa)
    return 2 * eps / sharpest, max(eta * sharpest / 2 - eps, 0.0)
    ### END SOLUTION


# %%
check("11.3", rest_or_cycle)

# %% [markdown]
# Now the runs. The force of a comparison falls by a factor $e$ per unit of its lead, so its stiffness is its
# force. With $a_{it} = (A_{it} Q, A_{it}^\top K)$, the lead's gradient in $(K, Q)$, the matrix of second
# derivatives at rest is nearly $\sum_{it} F_{it}\, s_{it}\, a_{it} a_{it}^\top$. This gives the $\eta^*$ of
# each problem. We go on with steps ten percent shorter and longer: by the exercise the gradients (root mean
# square of the two factors) vanish with the shorter ones, and have length $0.1\, \varepsilon$ with the
# longer.

# %%
K, Q = at_rest[:, :, None, None]
s = softmax(tokens.compare(tokens.z @ torch.tensor(product(at_rest)).mT)).numpy()
force = np.maximum(slope[..., None] * difference * s, 0) / 6  # n = 6 sequences
A = (np.take_along_axis(X, selected[..., None, None], axis=2) - X)[..., None] * z[:, :, None, None]
a = np.concatenate([A @ Q, np.swapaxes(A, -1, -2) @ K], axis=-2)  # (trials, n, T, 2 d, m)
rows = (np.sqrt(force)[..., None, None] * a).reshape(trials, 48, -1)
curvatures = np.linalg.eigvalsh(rows @ np.swapaxes(rows, 1, 2))  # those of the sum that are not zero
eta_star, expected = np.array([rest_or_cycle(h[h > 0], 0.1, EPS) for h in curvatures]).T


def rms(KQ):
    """Length of the gradients, root mean square of the two factors."""
    return pair_norm(downhill(KQ, EPS)) / np.sqrt(2)


below, above = (
    rms(descend(public, 2000, 2000, part * eta_star[:, None, None], EPS)[0]) / EPS for part in (0.9, 1.1)
)
ratio = rms(public) / expected
print(f"eta* from {eta_star.min():.4f} to {eta_star.max():.4f}; gradients over eps, with steps of", end=" ")
print(f"0.9 eta*: up to {below.max():.2f}; 1.1 eta*: {above.min():.2f} to {above.max():.2f}")
print(f"gradients in the cycle of 0.1, measured / predicted: {ratio.min():.2f} to {ratio.max():.2f}")
assert (below < 0.06).all(), again.format("11.3")
assert ((above > 0.07) & (above < 0.13)).all(), again.format("11.3")
assert ((ratio > 0.75) & (ratio < 1)).all(), again.format("11.3")
assert 2 / eta_star.max() > 40 * 4  # the sum leaves out what ridge and product add: at most 4 eps

# %% [markdown]
# So the curvature foretells each of the twelve runs near $\eta^*$. At 0.1, nine times $\eta^*$ and more, the
# gradients are 6 to 18 percent shorter than in the exercise's quadratic.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 11.5 Why descent lags
#
# Now without any ridge. In lesson 04 a *small start* was to lead descent to the nuclear norm (Gunasekar and
# others, 2017). Does it here? We follow the gradient flow, $K' = M Q$ and $Q' = M^\top K$ in time, from
# entries drawn from $N(0, \beta^2)$, and compare runs at equal smallest lead (40 problems from each start,
# stored).

# %%
long = measured("11.log_time").load()
full = long.sel(m=10)
print("mean cosine to W_nuc (least) at a smallest lead of 100, 200, 10^13")
at = {}
for beta in (1.0, 0.1, 0.01, 0.001):
    cell = full.sel(start=beta)
    cosines = [*cell.cosine_early.values.T[1:], cell.cosine_late.values[:, -2]]
    at[beta] = [one.mean() for one in cosines]
    print(f"  beta {beta:<6g}", *(f"{one.mean():.3f} ({one.min():.2f})   " for one in cosines))
assert all(at[0.001][k] < at[0.01][k] < at[0.1][k] - 0.003 for k in range(3))

# %% [markdown]
# From $\beta = 0.1$ down, the smaller start is farther off at each lead, not nearer.
#
# What is missing? As in section 4.6 the run's own $S$ says it. Let $\xi$, $\zeta$ be its singular vectors
# with the largest singular value $c = \lVert S \rVert_{\mathrm{op}}$. If $c > 1$, this direction is pulled
# harder than those in which $W$ lives. We call it a **newcomer** here whatever $W$ has of it; in lesson 04
# its share was tiny.

# %%
model = models.FactoredAttention(d, d, trials=trials, scale=0.001, seed=1)
W = flow.follow(model, tokens, [100.0]).W[0]  # our twelve, where the smallest lead is 100
above = torch.linalg.matrix_norm(flow.forces(W, tokens), 2)
print(f"our twelve, beta = 0.001, at lead 100: c from {above.min():.2f} to {above.max():.2f}")
assert (above > 1).all()

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 11.6 How fast a newcomer grows
#
# Section 4.6's argument holds for $K$ and $Q$, too. Where $M = b\, S$ with $b > 0$ and $S$ keeps its shape,
# the newcomer's **size** $\lVert K^\top \xi + Q^\top \zeta \rVert^2$ grows at the rate $2 b c$. Once $K$ and
# $Q$ are balanced the norm of $W$ grows at the rate $2 b$. So the newcomer grows like the norm of $W$ *to the
# power $c$*, and its **share**, its size over that norm, like the power $c - 1$. (Near rest with a ridge
# $b = 2 \varepsilon$, and the ridge takes $4 \varepsilon$ off both rates: the norm stands still, and the
# newcomer grows in time at the rate $4 \varepsilon (c - 1)$.)
#
# We ask the law while the lead goes from 100 to 200. The rival is the power 1, a share that stands still.

# %%
c, grown = full.c.values, full.measured.values  # at lead 100; from there to 200
late = c > 1.15
# ||W_nuc||_* of the tokens selected then: the stored margin is lead ||W_nuc||_* / ||W||_*
goals = full.margin_early.values * full.length_early.values / [20, 100, 200]
change = abs(goals[..., 2] / goals[..., 1] - 1)  # 0 up to a step's length, if the tokens stay
moved = change > 0.01
print(f"{late.sum()} of {c.size} runs have c > 1.15: of these")
print("median error of the power c, and over c - 1;  rival's;  newcomer in W, over sigma_1 (median)")
wrong = []
for k, beta in enumerate(full.start.values):
    here, gone = late[k], abs(grown - c)[k][late[k]]
    wrong.append([np.median(gone), np.median(gone / (c[k] - 1)[here]), np.median(abs(grown - 1)[k][here])])
    has = full.share.values[k]
    print(f"  beta {beta:<6g} {wrong[k][0]:12.3f} {wrong[k][1]:16.2f} {wrong[k][2]:14.2f}", end="")
    print(f" {np.median(has):20.2f}")
wrong = np.array(wrong)
print(f"other tokens at 200: {moved.sum()} runs; of the rest {(grown < c)[~moved].mean():.0%} below c")
short = ((c - grown) / (c - 1))[late & ~moved]
print(f"of these, with c > 1.15, short of c by up to {short.max():.0%} of c - 1")
assert moved.sum(axis=1).tolist() == [5, 0, 0, 0]
assert late.sum() == 139
assert (grown < c)[~moved].mean() > 0.98 > 0.5 > (grown < c)[moved].mean()
assert (wrong[:, 0] < [0.03, 0.04, 0.07, 0.1]).all()
assert (wrong[:, 1] < 1 / 6).all()
assert (wrong[:, 2] > 5 * wrong[:, 0]).all()

# %% [markdown]
# Where the tokens stay the newcomer grows less than the power $c$ says, in each of these runs. (In five runs
# from $\beta = 1$ other tokens get selected on the way, ringed in Figure 3.) At this size the median error is
# .02 to .09, at most a sixth of what counts for the share, $c - 1$; single runs are off by up to 43 percent
# of it. The last column says how new the newcomers are: from the largest start half of them have .45 of
# $\sigma_1$ and more, from the smallest half have less than .04.

# %% jupyter={"source_hidden": true} slideshow={"slide_type": "subslide"}
fig, ax = plt.subplots(figsize=(4.2, 3.6))
for beta, color, marker in zip((1.0, 0.1, 0.01, 0.001), (BLACK, BLUE, GREEN, ORANGE), "os^D", strict=True):
    cell, label = full.sel(start=beta), rf"$\beta = {beta:g}$"
    ax.plot(cell.c, cell.measured, marker, color=color, markersize=4, label=label, alpha=0.8)
ax.plot(c[moved], grown[moved], "o", color=BLACK, markerfacecolor="none", markersize=9)
ax.plot([0.5, 2.8], [0.5, 2.8], color=BLACK, linewidth=1)
ax.set(xlabel="$c$ at lead 100", xlim=(0.9, 2.9), ylim=(0.5, 2.6), ylabel="power measured")
ax.legend(fontsize=9)
show(
    fig,
    alt="Measured powers of 160 runs from four starts, up to 2.4, against c at lead 100: all points but five "
    "ringed ones lie below the diagonal, most a little; one ringed one far below.",
)

# %% [markdown]
# **Figure 3.** The newcomer's growth from lead 100 to 200, in 40 problems from each of four starts, against
# $c$ at lead 100. Ringed: the selected tokens change.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 11.7 How many columns does it take?
#
# A newcomer needs a column of $K$ and $Q$. With fewer columns than $W_{\mathrm{nuc}}$ has directions no pair
# can reach it. We count its singular values above a thousandth of the first, in the runs with three columns.

# %%
three = long.sel(m=3)
rank = (three.goal.values > 1e-3 * three.goal.values[..., :1]).sum(axis=-1)
far = three.cosine_late.values[..., -1] < 0.985
for k in (2, 3, 4):
    print(f"rank {k}: {(rank == k).sum():3} of 160 runs, at the end below .985: {far[rank == k].sum()}")
assert [(rank == k).sum() for k in (2, 3, 4)] == [11, 124, 25]
assert [far[rank == k].sum() for k in (2, 3, 4)] == [0, 8, 17]

# %% jupyter={"source_hidden": true} slideshow={"slide_type": "subslide"}
fig, axes = plt.subplots(1, 3, figsize=(8.8, 3.1), sharey=True)
for ax, m in zip(axes, (10, 3, 2), strict=True):
    for beta, color, marker in zip(
        (1.0, 0.1, 0.01, 0.001), (BLACK, BLUE, GREEN, ORANGE), "os^D", strict=True
    ):
        cell = long.sel(m=m, start=beta)
        lengths = np.concatenate([cell.length_early.median("trial"), cell.length_late.median("trial")])
        distance = 1 - np.concatenate([cell.cosine_early.median("trial"), cell.cosine_late.median("trial")])
        ax.loglog(lengths, distance, color=color, marker=marker, markersize=4, label=rf"$\beta = {beta:g}$")
    ax.set(xlabel=r"$\Vert W \Vert_*$", title=f"$m = {m}$ columns")
axes[0].set_ylabel("1 - cosine (median)")
axes[0].legend(fontsize=9)
show(
    fig,
    alt="One minus the median cosine to the nuclear SVM against the nuclear norm, from 100 to 1e16, both "
    "logarithmic, for four starts. With ten and with three columns all four curves fall to 2e-3 and below, "
    "the smallest start last. With two they level off near 0.07.",
)

# %% [markdown]
# **Figure 4.** The flow, up to norms of $10^{16}$, against $W_{\mathrm{nuc}}$ of its own tokens: medians of
# forty problems from four starts. With two columns they level off.


# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output", "widget"]
def one_by_one(m, start):
    """All forty runs of a cell of Figure 4, where that shows medians."""
    figure = Figure(figsize=(7, 3.5), layout="none")  # constrained layout would draw twice
    ax = figure.add_axes((0.12, 0.18, 0.85, 0.7))
    cell = long.sel(m=m, start=start)
    lengths = np.concatenate([cell.length_early.values, cell.length_late.values], axis=1)
    distance = 1 - np.concatenate([cell.cosine_early.values, cell.cosine_late.values], axis=1)
    ax.loglog(lengths.T, np.maximum(distance, 1e-7).T, color=BLUE, linewidth=0.8, alpha=0.6)
    ax.axhline(0.01, color=BLACK, linestyle=":", linewidth=1.5)
    ax.set(xlabel=r"$\Vert W \Vert_*$", ylabel="1 - cosine", xlim=(30, 1e17), ylim=(5e-6, 1))
    ax.set_title(f"m = {m}, start {start:g}; dotted: cosine .99", fontsize=12)
    return figure


widgets.sliders(
    one_by_one,
    alt="One minus the cosine to the nuclear SVM against the nuclear norm, a line for each of forty runs.",
    m=ipywidgets.SelectionSlider(options=(2, 3, 10), value=3, description="m"),
    start=ipywidgets.SelectionSlider(options=(0.001, 0.01, 0.1, 1.0), value=0.001, description="start"),
)

# %% [markdown]
# **Try it** (Figure 4 without sliders): every run by itself.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 11.8 Where it breaks: too much of a ridge
#
# Users of torch set a ridge, too: `weight_decay=w` in SGD adds $w K$ to the gradient of $K$ and $w Q$ to that
# of $Q$, so $w = 2 \varepsilon$. Is anything learned with a decay as large as .01, the default of AdamW
# (which decays apart from the gradient)? At $K = Q = 0$ all gradients vanish. Near it, to second order,
#
# $$
# L(K Q^\top) + \tfrac w2 \left( \lVert K \rVert_F^2 + \lVert Q \rVert_F^2 \right) \approx L(0)
# - \langle M, K Q^\top \rangle + \tfrac w2 \left( \lVert K \rVert_F^2 + \lVert Q \rVert_F^2 \right) ,
# $$
#
# where $M = -\nabla_W L$ at $W = 0$: all attention is $1 / T$ there.

# %% [markdown]
# ### Exercise 11.4: When is zero stable?
#
# ★★☆ · 10 minutes
#
# **Predict** from the tokens the weight decay $w$ above which $K = Q = 0$ is stable, so that whatever starts
# near it ends there.
#
# <details><summary>Hint: M</summary>
#
# All $s_{it}$ are $1 / T$ and $u_i$ is the mean score of the sequence. What is
# $\partial u_i / \partial h_{it}$?
# </details>
#
# <details><summary>Hint: K and Q</summary>
#
# $\lVert K \rVert_F^2 + \lVert Q \rVert_F^2 \ge 2 \lVert K Q^\top \rVert_*$. And how large is
# $\langle M, W \rangle$ at most, for a given nuclear norm of $W$?
# </details>


# %%
@exercise("11.4")
def least_decay(X, z, y, v):
    """The least w for which zero is stable, for X (n, T, d), z (n, d), y (n,) of +1 and -1, and v (d,)."""
    ### BEGIN SOLUTION
    scores = y[:, None] * (X @ v)
    mean = scores.mean(axis=1, keepdims=True)
    force = (scores - mean) / (1 + np.exp(mean)) / scores.size  # |l'(u)|, 1/n and s = 1/T
    M = np.einsum("nt,ntd,ne->de", force, X, z)
    return np.linalg.norm(M, 2)
    ### END SOLUTION


# %%
check("11.4", least_decay)

# %% [markdown]
# We train our twelve problems by plain descent, each with .95 to 1.2 times its own threshold, from a tenth of
# our start, from the start itself and from three times it.

# %%
least = np.array([least_decay(*one) for one in zip(X, z, y, v, strict=True)])
factors, sizes = (0.95, 1.02, 1.1, 1.2), (0.1, 1, 3)
decays = np.array(factors)[:, None, None, None, None] * least[:, None, None]  # (factors, 1, trials, 1, 1)
KQ = np.stack([np.stack([size * KQ0 for size in sizes], axis=1)] * len(factors), axis=1)
usual = KQ0
for _ in range(2000):
    KQ = KQ + 20 * downhill(KQ, decays / 2)
    usual = usual + 20 * downhill(usual, 0.005)  # a decay of .01, for the question below
rests = np.linalg.norm(product(KQ), "nuc", axis=(-2, -1))
at_zero = (rests < 0.01).sum(axis=-1)
print(f"threshold {least.min():.3f} to {least.max():.3f}; at zero, of 12, from the start times 0.1, 1, 3")
for factor, counts in zip(factors, at_zero, strict=True):
    print(f"  decay {factor:<4g} of the threshold: ", *(f"{count:3d}" for count in counts))
assert at_zero[:, 0].tolist() == [0, 12, 12, 12], again.format("11.4")
assert at_zero[:, 1:].tolist() == [[0, 0], [10, 9], [12, 11], [12, 12]], again.format("11.4")
elsewhere = rests[1:][rests[1:] > 0.01]
assert 2.2 < elsewhere.min() < elsewhere.max() < 2.75

# %% [markdown]
# Near zero the threshold is right in all 48 runs. Above it a run that starts farther out may rest at a
# nuclear norm of 2.3 to 2.7, at 1.02 in three problems, though zero is stable: **hysteresis**. There, as the
# decay is raised, attention dies only at a second, higher threshold, and as it is lowered again attention
# comes back at the first. The second one we do not predict; here it is below 1.2 times the first.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 11.9 Claims and measurements
#
# | claim | prediction | measured |
# |:---|:---|:---|
# | a ridge makes the figure | near $W_{\mathrm{nuc}}$ by step 2,000 | .996 to .997; without it .985 or less |
# | the norm at rest | a lower bound, by $\lambda^{\mathrm{nuc}}$ | low by at most 1%, 151 problems |
# | $W$ at rest | minimum of $J$ for its tokens | 1 - cosine below .00001, 140 problems |
# | better tokens stay unselected | $e \rho f < 1$ | 51 of 51 problems; one with 1.26 leaves |
# | at a smaller ridge | $W$ moves along $W_{\mathrm{nuc}}$ | mean of 1 - cosine 13 and 21% larger |
# | a newcomer grows less than the power $c$ | $c$ at lead 100 | all 155 runs that keep their tokens |
# | zero is stable | decay above $\lVert M \rVert_{\mathrm{op}}$ | 48 of 48 runs from near zero |

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Questions
#
# <details><summary>Would a weight decay of .01 show the same SVM?</summary>
#
# No. Zero is not stable here: the least threshold is .016. But the argument of section 11.3 needs long
# leads, and $\log 1 / w$ is 4.6 in place of 35. The selected token leads the next by .88 on average: no
# token is clearly selected.
# </details>

# %%
h = np.sort(tokens.compare(tokens.z @ torch.tensor(product(usual)).mT).numpy())
assert round((h[..., -1] - h[..., -2]).mean(), 2) == 0.88
assert round(np.log(1 / 0.01), 1) == 4.6
progress("11")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - Trained as $K Q^\top$, attention comes near the **nuclear** Att-SVM of the tokens it selects; trained as
#   $W$, the Frobenius one. These tokens need not be the best ones, which are the theorem's.
# - A **ridge** on $(K, Q)$ is $2 \varepsilon$ times the nuclear norm of $W$. For fixed tokens and long leads
#   the problem is convex; runs rest at its minimum, which predicts the published .997, unless a better token
#   pulls them away.
# - Without the ridge, descent stalls short of a direction whose share of $W$ grows at first nearly like the
#   norm to the power $c - 1$, mostly less, $c$ being what $S$ has along it.
#
# All is measured on random tokens, the figure at two sizes, rest at three, all else at one. What we say of
# newcomers and cycles are arguments and measurements of this lesson, not theorems.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Further reading
#
# - D. A. Tarzanagh, Y. Li, C. Thrampoulidis, S. Oymak. *Transformers as support vector machines.* 2023,
#   arXiv 2308.16898. The nuclear Att-SVM, its figure and the count of ranks.
# - H. Sheen, S. Chen, T. Wang, H. H. Zhou. *Implicit regularization of gradient flow on one-layer softmax
#   attention.* 2024, arXiv 2403.08699. Gradient flow on $(K, Q)$ with exponential loss, from aligned starts.
# - F. Boncoraglio, V. Erba, E. Troiani, F. Krzakala, L. Zdeborová. *Inductive bias and spectral properties
#   of single-head attention in high dimensions.* 2025, arXiv 2509.24914. Where training with weight decay
#   ends, in sharp formulas.
# - K. Lyu, J. Li. *Gradient descent maximizes the margin of homogeneous neural networks.* ICLR 2020,
#   arXiv 1906.05890: why limits of such flows are KKT points (for linear models of the product).
#
# **New in the library:** [`models.FactoredAttention`](../mini_attn/models.py),
# [`flow.follow`](../mini_attn/flow.py), [`flow.forces`](../mini_attn/flow.py),
# [`flow.Flow`](../mini_attn/flow.py), `train.fit(ridge=)`.
#
# **Next:** [lesson 12](12_overparameterization.ipynb) asks when the selected tokens are the best ones.
