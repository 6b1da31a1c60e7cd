# %% [markdown] slideshow={"slide_type": "slide"}
# # 11 · Keys, queries and the nuclear norm
#
# A transformer does not train the matrix $W$ of lesson 10. It trains two: $K$ makes a key $K^\top x_t$ of
# each token, $Q$ makes $Q^\top z$ of the query, and only $W = K Q^\top$ meets the data. The same attention
# can be reached, but descent takes another road.
#
# **The question: where do $K$ and $Q$ go, when do they get there, and what does the published figure show?**
#
# They head for another SVM. On the way they stall, and one number, read from the run's own forces, says how
# fast the direction it lacks grows at first. The published figure shows no stall, because of a number as
# small as a rounding error.

# %% [markdown] slideshow={"slide_type": "skip"}
# **After this lesson you can**
#
# - state the Att-SVM that belongs to $(K, Q)$ and tell it from that of $W$ by measurement;
# - say what a ridge of one rounding error does to a run, and predict the norm at which it rests;
# - read from a stalled run which direction is missing, and how fast it grows at first;
# - bound the rank of the solution by counting, and say how many columns are enough.
#
# **You need** [lesson 04](04_matrix_factorization.ipynb) (nuclear norm, KKT points, the stall), [lesson
# 06](06_attention_as_svm.ipynb) (forces between tokens, in logarithms), [lesson
# 08](08_regularization_path.ipynb) (minimisers on growing balls) and [lesson
# 10](10_cross_self_attention.ipynb) (the Att-SVM for $W$). About 70 minutes with two exercises, and
# 40 more for the optional sections 11.4 and 11.6, with one each.

# %%
import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure

from course.exercise import check, exercise, progress, todo
from course.figure import show
from course.replicate import measured
from course.replicate.lesson_11 import compared
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
# score of a token is $\gamma_{it} = y_i\, v \cdot x_{it}$. The data are those of the paper that we follow,
# Tarzanagh, Li, Thrampoulidis and Oymak (2023): $n = 6$ sequences of $T = 8$ tokens in $d = 10$ dimensions,
# drawn from the unit sphere, with random labels. We take twelve such problems at once.
#
# Everything below needs one quantity, the **pull** $M = -\nabla_W L$. It is a sum of forces between tokens,
# and far out all of them underflow; as in lesson 06 we take the largest weight out, in logarithms.


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


def cosine(W, solution):
    """Cosine of each W (..., trials, d, d) with the solutions (trials, d, d)."""
    return (unit(W) * unit(solution.value.numpy())).sum(axis=(-2, -1))


curves = {}
for name, path in (("W", joined), ("(K, Q)", factored)):
    for norm in ("fro", "nuc"):
        curves[name, norm] = cosine(path, solve(path[-1], norm))
        print(f"{name:6} to W_{norm}: mean cosine {curves[name, norm][-1].mean():.2f}")
assert curves["W", "fro"][-1].mean() > 0.98
assert curves["(K, Q)", "nuc"][-1].mean() > 0.96
assert curves["W", "nuc"][-1].mean() < 0.9
assert curves["(K, Q)", "fro"][-1].mean() < 0.9

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
# W \rangle$ is the lead of $\alpha_i$ over $t$. In lesson 04 the $A_i$ came from labelled pairs; nothing else
# changes.
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
# It is about *global* minimisers and the *best* tokens. For descent, and the tokens that descent selects, the
# paper shows a figure: the mean cosine of $(K, Q)$ with their $W_{\mathrm{nuc}}$ rises to .997 within 2,000
# steps. Our run of section 11.1 made the same steps and has less. Why?

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 11.3 The published figure, and what makes it
#
# The paper's code is public. It adds $\varepsilon = 2.2 \cdot 10^{-16}$, one rounding error of a double, in
# two places:
#
# - a **ridge** $\varepsilon (\lVert K \rVert_F^2 + \lVert Q \rVert_F^2)$ is added to the loss;
# - gradients are divided by their norm **plus** $\varepsilon$.
#
# And it takes softmax's gradient from torch, the textbook formula that lesson 05 warned of. Here are
# all eight combinations, on the same 80 problems and starts (stored with the course).

# %%
stored, more = measured("11.figure").load(), measured("11.without_eps").load()
rows = {  # gradient and norm: where the runs with and without a ridge are stored
    "textbook, eps": (stored, "public code", "no ridge"),
    "textbook": (more, "textbook, ridge", None),
    "exact, eps": (stored, "exact", "exact, no ridge"),
    "exact": (more, "exact, ridge", "exact"),
}
for size, text in (("published", "n, T, d = 6, 8, 10"), ("other", "n, T, d = 4, 5, 14")):
    print(f"{text}      with a ridge            without     (mean nuclear cosine of 80)")
    print("         at step    500   2000   8000      500   2000   8000")
    for name, (kept, *variants) in rows.items():
        cells = [kept.nuclear.sel(size=size, variant=one) for one in variants if one]
        if len(cells) == 1:
            cells.append(stored.nuclear.sel(size=size, variant="no eps at all"))
        with_ridge, without = (cell.values[:, [0, 2, 3]].mean(axis=0) for cell in cells)
        print(f"{name:15}", *(f"{value:6.3f}" for value in with_ridge), end="   ")
        print(*(f"{value:6.3f}" for value in without))
        assert (with_ridge[1:] > 0.9955).all()
        assert without[1] < 0.986
        assert "exact" in name or without[1] < min(0.9, without[0] - 0.04)
        assert name != "exact, eps" or (abs(without - 0.937) < 0.005).all()
        assert name != "exact" or without[1] > 0.984
    grown = stored.length.sel(size=size, variant="exact, no ridge").values
    assert (grown[:, 3] < 1.085 * grown[:, 0]).all()

# %% [markdown]
# - *A ridge*: .996 to .997 from step 2,000, in all four rows.
# - *No ridge, exact*: .985 after 2,000 steps. With $\varepsilon$ in the norm the steps shrink once the
#   gradient is shorter than $\varepsilon$; from step 500 to 8,000 no $W$ grows by more than 9 percent, and
#   the mean of these 80 stays near .94.
# - *No ridge, textbook*: below .9 after 2,000 steps, and lower than after 500.
#
# So the published number belongs to the ridge. With a ridge a run can rest, where both gradients vanish:
#
# $$M Q = 2 \varepsilon K, \qquad M^\top K = 2 \varepsilon Q .$$
#
# These are the two equations of section 11.2, with $S = M / 2 \varepsilon$. Forces fall like
# $e^{-\text{lead}}$, so leads of some thirty make them as small as that. Then $W$ grows no longer, but a
# missing direction does: where $S$ has a singular value $c > 1$, the forces are $c$ times what the ridge
# takes away. In our own twelve problems, from here on with exact gradients:

# %%
EPS = 2.0**-52
ridged = descend(KQ0, 2000, every=200, ridge=EPS)  # (10, 2, trials, d, d)
ends = {"with the ridge": [product(ridged[0]), product(ridged[-1])], "without": factored[[4, -1]]}
print("                 mean nuclear norm, cosine to W_nuc: step 200          step 2,000")
norm, near = {}, {}
for name, both in ends.items():
    norm[name] = [np.linalg.norm(W, "nuc", axis=(1, 2)).mean() for W in both]
    near[name] = [cosine(W, solve(W, "nuc")).mean() for W in both]
    print(f"{name:16}", *(f"{a:20.3g}, {b:.3f}" for a, b in zip(norm[name], near[name], strict=True)))
assert abs(norm["with the ridge"][1] / norm["with the ridge"][0] - 1) < 0.03
assert near["with the ridge"][0] < 0.96 < 0.996 < near["with the ridge"][1]
assert norm["without"][1] > 20 * norm["without"][0]

# %% [markdown]
# With the ridge the length of $W$ stands, and .955 becomes .997. Without it $W$ grows on (section 11.5).

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### How long is W at rest?
#
# With steps of 0.1 the run does not come to rest (11.4), so we go on with steps of 0.003. Two numbers judge
# it: the **residual**, how much of $2 \varepsilon (K, Q)$ the forces fail to balance, and $\lVert S
# \rVert_{\mathrm{op}}$. Here and below $S$ is the pull in units that $W$ sets:
#
# $$S = \frac{\lVert W \rVert_*}{\langle M, W \rangle}\, M , \qquad \langle S, W \rangle = \lVert W \rVert_*
# .$$


# %%
def forces(W, X, z, y, v):
    """S = ||W||_* / <M, W> M at each W (..., trials, d, d)."""
    M, _ = pull(W, X, z, y, v)
    return M * (np.linalg.norm(W, "nuc", axis=(-2, -1)) / (M * W).sum(axis=(-2, -1)))[..., None, None]


public = ridged[-1]
at_rest = descend(public, 2000, 2000, 0.003, EPS)[0]
for name, KQ in (("steps of 0.1  ", public), ("steps of 0.003", at_rest)):
    W = product(KQ)
    own, solution, h = compared(torch.tensor(W), tokens)  # cosine to the SVM of W's tokens, that SVM, logits
    selected = geometry.selected_tokens(h).numpy()
    residual = pair_norm(downhill(KQ, EPS)) / (2 * EPS * pair_norm(KQ))
    op = np.linalg.norm(forces(W, X, z, y, v), 2, axis=(-2, -1))
    agree = (selected == tokens.optimal.numpy()).all(axis=-1).sum()
    print(f"{name}: cosine {own.mean():.3f}, best tokens in {agree} of {trials}", end=", ")
    print(f"residual up to {residual.max():.2f}, ||S||_op {op.min():.2f} to {op.max():.2f}")
    assert agree == 9
    assert KQ is at_rest or min(residual.min(), op.min() - 1) > 0.2
assert max(residual.max(), abs(op - 1).max()) < 0.003  # at rest

# %% [markdown]
# Now it rests: forces and ridge balance, and no direction is missing. (In three of the twelve problems it
# selects other tokens than the best: .997 is the cosine with the SVM of its own.)
#
# The force of each comparison in $M$ is $\frac1n |\ell'(u_i)|\, s_{it}\, (\gamma_{i\alpha_i} -
# \gamma_{it})$, where $s_{it} \approx e^{-\Delta_{it}}$ falls with the lead $\Delta_{it}$, and $u_i \approx
# \gamma_{i\alpha_i}$. At rest it balances the ridge: that fixes the leads.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 11.1: How long is W at rest?
#
# ★★☆ · 12 minutes
#
# Predict the nuclear norm of $W = K Q^\top$ at rest from nothing of the run but its tokens, as if the weights
# at rest were the dual weights $\lambda_{it}$ of the nuclear Att-SVM (they tend to them). You are given
# $\lambda$, the slopes $|\ell'(u_i)|$, the differences $\gamma_{i\alpha_i} - \gamma_{it}$, and $\varepsilon$.
# Where $\lambda_{it} = 0$ (for the selected token always) a comparison does not count, whatever its
# difference; elsewhere differences are positive.
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
assert (abs(predicted / lengths - 1) < 0.01).all(), again.format("11.1")
assert lengths.max() > 1.2 * lengths.min()
assert 2 * EPS * lengths.max() < 1.2e-13  # what the ridge adds to the loss

# %% [markdown]
# The prediction is right to one percent in all twelve problems. The mean lead is 31 to 33: there a ridge that
# adds $10^{-13}$ to the loss stops training.

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
print("mean S of both sides: ||S||_op below 1.03")
assert ((once > 0.1) & (once < 0.01 * pair_norm(public)) & (twice < 0.03 * once)).all()
assert (mean_op < 1.03).all()

# %% [markdown]
# Each step is taken back by the next, a **cycle of period two**. Why .997, then? In an exact cycle the two
# gradients cancel: *on average*, forces balance the ridge. Both sides are the same pair to one percent of its
# length, so the KKT conditions nearly hold for the mean of the two $S$: its largest singular value is below
# 1.03.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 11.2: Rest or cycle?
#
# ★★☆ · 8 minutes
#
# Descent takes steps $x \leftarrow x - \eta\, g / (\lVert g \rVert + \varepsilon)$ on $\frac12 \sum_k h_k
# x_k^2$, so $g_k = h_k x_k$. **Predict**: return the step size $\eta^*$ above which rest is not stable, and
# $\lVert g \rVert$ in the cycle of period two along the sharpest direction, for the given $\eta$; 0 if $\eta
# \le \eta^*$.
#
# <details><summary>Hint</summary>
#
# Near rest the step is almost $\eta g / \varepsilon$: by what is $x_k$ multiplied? In a cycle of period two
# along one direction, $x$ becomes $-x$: how long is the step then?
# </details>


# %%
@exercise("11.2")
def rest_or_cycle(h, eta, eps):
    """(eta_star, ||g|| in the cycle): two numbers, for curvatures h (k,) > 0, eta > 0 and eps > 0."""
    ### BEGIN SOLUTION
    sharpest = np.max(h)
    return 2 * eps / sharpest, max(eta * sharpest / 2 - eps, 0.0)
    ### END SOLUTION


# %%
check("11.2", rest_or_cycle)

# %% [markdown]
# Now the runs. Their curvatures need no second derivatives. The force of a comparison falls by a factor $e$
# per unit of its lead: its stiffness is its force. With the lead's gradient in $(K, Q)$, $a_{it} = (A_{it} Q,
# A_{it}^\top K)$, the Hessian at rest is nearly the sum of $\text{force}_{it}\, a_{it} a_{it}^\top$. From it
# we predict $\eta^*$ of each problem, and go on with steps ten percent shorter and longer than that. By the
# exercise the gradients (root mean square of the two factors) vanish with the shorter ones, and with the
# longer ones keep the length $1.1\, \varepsilon - \varepsilon$.

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
assert (below < 0.03).all(), again.format("11.2")
assert ((above > 0.07) & (above < 0.13)).all(), again.format("11.2")
assert ((ratio > 0.8) & (ratio < 0.96)).all(), again.format("11.2")
assert 2 / eta_star.max() > 40 * 4  # the sum leaves out what ridge and product add: at most 4 eps

# %% [markdown]
# So the curvature at rest foretells each of the twelve runs: with 0.9 of its $\eta^*$ it comes to rest, with
# 1.1 it cycles.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 11.5 Why descent lags
#
# Now without any ridge. In lesson 04 a *small start* was to lead descent to the nuclear norm (Gunasekar and
# others, 2017). Does it here? We follow the flow, as there by short steps (`flow.follow`), from $K$ and $Q$
# with entries from $N(0, \beta^2)$, and compare runs at equal smallest lead (40 problems from each start, ten
# columns).

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
# What is missing? Ask the run itself. Let $\xi$, $\zeta$ be the singular vectors of its $S$ with the largest
# singular value $c = \lVert S \rVert_{\mathrm{op}}$. If $c > 1$, $W$ has too little of this direction: a
# **newcomer**.

# %%
small = models.FactoredAttention(d, d, trials=trials, scale=0.001, seed=1)
at_100 = flow.follow(small, tokens, [100.0])
KQ = np.concatenate([at_100.K, at_100.Q])
W, S = product(KQ), forces(product(KQ), X, z, y, v)
u, sizes, w = np.linalg.svd(W)
left, values, right = np.linalg.svd(S)
own = np.einsum("tik,tij,tkj->tk", u, S, w)  # S along the directions of W
held = abs((left[:, None, :, 0] @ W @ right[:, 0, :, None])[:, 0, 0]) / sizes[:, 0]
print("second problem: S along the first two directions of W {:.2f}, {:.2f};".format(*own[1, :2]), end=" ")
print(f"c = {values[1, 0]:.2f}, where W has {held[1]:.2f} of sigma_1")
print(f"all twelve: S along the first {own[:, 0].min():.2f} to {own[:, 0].max():.2f}")
assert abs(np.array([*own[1, :2], values[1, 0], held[1]]) - [0.96, 1.08, 2.01, 0.03]).max() < 0.02
assert 0.9 < own[:, 0].min() < own[:, 0].max() < 0.99

# %% [markdown]
# In the second problem $S$ has about 1 along the two directions that live in $W$. Along its own first one it
# has $c = 2.0$, and there $W$ has only .03 of $\sigma_1$: pulled twice as hard, and nearly missing.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The newcomer
#
# While $S$ keeps its shape, the flow is $K' = b\, S Q$ and $Q' = b\, S^\top K$, where $b > 0$ shrinks with
# the loss. Project:
#
# $$(\xi^\top K)' = b\, c\; \zeta^\top Q, \qquad (\zeta^\top Q)' = b\, c\; \xi^\top K, \qquad
# \left( \lVert K \rVert_F^2 + \lVert Q \rVert_F^2 \right)' = 4 b\, \langle S, W \rangle .$$
#
# The sum of the first two grows at the rate $b c$, so the newcomer's **size** $\lVert K^\top \xi + Q^\top
# \zeta \rVert^2$ at $2 b c$. Once $K$ and $Q$ are balanced, $\lVert K \rVert_F^2 + \lVert Q \rVert_F^2 = 2
# \lVert W \rVert_*$ grows at $2 b$.
#
# Divide: the newcomer grows like the norm of $W$ *to the power $c$*. Does it, while the lead goes from 100 to
# 200 and $S$ changes as it likes? (We keep $\xi$ and $\zeta$ of lead 100: at 200, $c$ is $\xi^\top S \zeta$.)

# %%
c, c_mean, grown = (full[name].values for name in ("c", "power", "measured"))  # at 100; mean of 100 and 200
late, falls = c > 1.15, c_mean < c
print(f"{late.sum()} of {c.size} runs have c > 1.15; in {falls[late].mean():.0%} of these c falls until 200")
print("by start    W has of the newcomer    median error of the power, by c at 100, by the mean c, by 1")
wrong, held = [], []
for k, beta in enumerate(full.start.values):
    wrong.append([np.median(abs(grown - said)[k][late[k]]) for said in (c, c_mean, 1)])
    held.append(np.median(abs(full.share.values[k])))
    print(
        f"  {beta:<6g} {held[k]:14.2f} of sigma_1 {wrong[k][0]:24.3f} {wrong[k][1]:24.3f} {wrong[k][2]:13.2f}"
    )
wrong = np.array(wrong)
goals = full.margin_early.values * full.length_early.values / [20, 100, 200]  # ||W_nuc|| of the tokens then
change = abs(goals[..., 2] / goals[..., 1] - 1)  # 0 up to a step's length, if the tokens stay
moved = change > 0.01
print(f"other tokens at 200: {moved.sum()} runs; of the rest {(grown < c)[~moved].mean():.0%} below c")
assert ((change < 0.003) | (change > 0.05)).all()
assert moved.sum(axis=1).tolist() == [5, 0, 0, 0]
assert late.sum() == 139
assert falls[late].mean() > 0.98
assert (grown < c)[~moved].mean() > 0.98 > 0.5 > (grown < c)[moved].mean()
assert (wrong[:, 0] < [0.03, 0.04, 0.07, 0.1]).all()
assert (wrong[:, 1] < 0.02).all()
assert [round(float(one), 2) for one in held] == [0.46, 0.23, 0.1, 0.03]
assert (wrong[:, 2] > 5 * wrong[:, 0]).all()

# %% [markdown]
# It does at this size, with a median error of .02 from $\beta = 1$ to .09 from $\beta = .001$. (The smaller
# the start, the less $W$ has of its newcomer at lead 100: .46 of $\sigma_1$ down to .03.) In five runs
# from $\beta = 1$ other tokens get selected on the way, and $S$ is a sum of other forces (ringed in Figure
# 2). Else the newcomer nearly always grows a little *less*, as $c$ falls: by its mean the median error is
# below .02.

# %% jupyter={"source_hidden": true} slideshow={"slide_type": "subslide"}
fig, axes = plt.subplots(1, 2, figsize=(7.6, 3.4), sharey=True)
for ax, said, xlabel in zip(axes, ("c", "power"), ("$c$ at lead 100", "mean $c$ of both ends"), strict=True):
    for beta, color, marker in zip(
        (1.0, 0.1, 0.01, 0.001), (BLACK, BLUE, GREEN, ORANGE), "os^D", strict=True
    ):
        cell, label = full.sel(start=beta), rf"$\beta = {beta:g}$"
        ax.plot(cell[said], cell.measured, marker, color=color, markersize=4, label=label, alpha=0.8)
    ax.plot(full[said].values[moved], grown[moved], "o", color=BLACK, markerfacecolor="none", markersize=9)
    ax.plot([0.5, 3], [0.5, 3], color=BLACK, linewidth=1)
    ax.set(xlabel=xlabel, xlim=(0.5, 2.9), ylim=(0.5, 2.9))
axes[0].set_ylabel("power measured")
axes[0].legend(fontsize=9)
show(
    fig,
    alt="Measured powers of 160 runs from four starts, up to 2.4. Left, against c at lead 100: all points "
    "but five ringed ones lie below the diagonal, most a little; one ringed one far below. Right, against "
    "the mean of c at both ends: nearly all lie on the diagonal, that one too; two ringed ones far above.",
)

# %% [markdown]
# **Figure 2.** The newcomer's growth from lead 100 to 200, in 40 problems from each of four starts, against
# $c$ at lead 100 (left) and the mean of $c$ at both ends (right). Ringed: the selected tokens change.

# %% [markdown]
# The first direction of $W$ grows about like the norm: along it $S$ had .91 to .98. So the newcomer's
# **share**, its size over that of the first direction, grows about like the norm to the power $c - 1$.
# While it is small, the run *stalls*.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 11.6 How long does a stall last? *(optional)*
#
# Let the stall be over when the newcomer has *half of the share that it has in* $W_{\mathrm{nuc}}$ (in
# balanced factors). When is that?

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 11.3: How long does the stall last?
#
# ★★☆ · 12 minutes
#
# **Predict** before you run on. Return the newcomer's share now, and the factor by which $\lVert W \rVert_*$
# must grow until the share is `goal`, if $S$ keeps its shape: 1 if it is there already, `np.inf` if it never
# gets there. The size of a direction with the left and right unit vectors $a$, $b$ is $\lVert K^\top a +
# Q^\top b \rVert^2$; for the first direction of $W$ take its first singular vectors. Suppose $c$ falls while
# the newcomer enters: which way will your factor be off?
#
# <details><summary>Hint</summary>
#
# What is the share when the norm is $g$ times as large?
# </details>


# %%
@exercise("11.3")
def stall(K, Q, S, goal):
    """(share, factor): two numbers, for K and Q (d, m), S (d, d) and the share goal > 0."""
    ### BEGIN SOLUTION
    sizes = []
    for matrix in (S, K @ Q.T):
        left, _, right = np.linalg.svd(matrix)
        sizes.append(((left[:, 0] @ K + right[0] @ Q) ** 2).sum())
    share, c = sizes[0] / sizes[1], np.linalg.norm(S, 2)
    if share >= goal:
        return share, 1.0
    return share, (goal / share) ** (1 / (c - 1)) if c > 1 else np.inf
    ### END SOLUTION


# %%
check("11.3", stall)

# %% [markdown]
# We ask it of our twelve problems and of twelve more, all from $\beta = .001$.

# %%
draws = tokens, data.random_tokens(n=6, T=8, d=10, trials=12, seed=21)
small = models.FactoredAttention(d, d, trials=trials, scale=0.001, seed=1)
other = flow.follow(small, draws[1], [100.0])
both = [np.stack([getattr(drawn, part).numpy() for drawn in draws]) for part in "Xzyv"]
KQ = np.stack([KQ, np.concatenate([other.K, other.Q])], axis=1)  # (2, 2 draws, trials, d, d)
W, S = product(KQ), forces(product(KQ), *both)
left, singular, right = np.linalg.svd(S)
xi, zeta, first_c = left[..., None, :, 0], right[..., :1, :], singular[..., 0]
W_nuc = np.stack([compared(torch.tensor(one), of)[1].value.numpy() for one, of in zip(W, draws, strict=True)])
u, sizes, w = np.linalg.svd(W_nuc)  # balanced factors: u sqrt(sizes), w^T sqrt(sizes); first size: 4 sizes[0]
alike = (xi @ u + zeta @ np.swapaxes(w, -1, -2))[..., 0, :] ** 2
goal = (alike * sizes).sum(axis=-1) / (4 * sizes[..., 0]) / 2
each = [zip(*drawn, strict=True) for drawn in zip(*KQ, S, goal, strict=True)]
factor = np.array([[float(stall(*one)[1]) for one in runs] for runs in each])
stalled = (first_c > 1.15) & (factor > 1)
forecast = [np.median(factor[k][stalled[k]]) for k in range(2)]
print("stalled: {} and {} of 12 runs; by their c the norm".format(*stalled.sum(axis=1)), end=" ")
print("must grow by factors of {:.0f} and {:.0f} (medians)".format(*forecast))
assert stalled.sum(axis=1).tolist() == [10, 12], again.format("11.3")
assert np.round(forecast).tolist() == [9, 5], again.format("11.3")

# %% [markdown]
# So 22 of the 24 runs are stalled at lead 100 ($c > 1.15$, the share below its goal). Now run on, in log
# time: each step is one percent of the pair's length. Far out they bounce from side to side, so we run again
# at half the step.


# %%
def run_on(KQ, eta):
    """Logs of the norm's factor, the newcomer's size, its share / goal: (3, records, 2 draws, trials)."""
    every, before, logs = round(0.02 / eta), pair_norm(KQ), []
    for step in range(500 * every + 1):
        W, length = product(KQ), pair_norm(KQ)
        if step % every == 0:
            size = ((xi @ KQ[0] + zeta @ KQ[1]) ** 2).sum(axis=(-2, -1))
            first = 4 * np.linalg.norm(W, 2, axis=(-2, -1))
            logs.append(np.log([(length / before) ** 2, size, size / first / goal]))
        M, _ = pull(W, *both)
        g = np.stack([M @ KQ[1], np.swapaxes(M, -1, -2) @ KQ[0]])
        KQ = KQ + (eta * length / pair_norm(g))[..., None, None] * g
    return np.stack(logs, axis=1)


coarse, fine = (run_on(KQ, eta)[..., stalled] for eta in (0.01, 0.005))

# %%
draw, run, c = np.nonzero(stalled)[0], np.arange(stalled.sum()), first_c[stalled]
grew = []
for norms, _, shares in (coarse, fine):
    over = (shares >= 0).any(axis=0)
    end = np.where(over, (shares >= 0).argmax(axis=0), len(shares) - 1)  # the record of the end, or the last
    grew.append(np.where(over, np.exp(norms[end, run]), np.inf))
sizes, half = fine[1], np.abs(norms - norms[end, run] / 2).argmin(axis=0)  # of the finer runs
whole, later = (
    (sizes[end, run] - sizes[k, run]) / (norms[end, run] - norms[k, run]) for k in (0 * end, half)
)
outlast = np.exp(norms[np.where(over, end - 1, end), run]) > factor[stalled]  # while the stall still lasts
times = [np.median(grew[1][draw == k]) / forecast[k] for k in range(2)]
print(
    f"of {len(c)} stalls {over.sum()} end; {outlast.sum()} are surely longer than forecast; median", end=" "
)
print("{:g} and {:g} times the forecast".format(*(float(f"{one:.1g}") for one in times)))
print(f"power of the whole stall: below c in {(whole < c).sum()}, in the second half lower still", end=" ")
print(f"in {(later < whole).sum()} (medians: c {np.median(c):.1f}, power {np.median(whole):.1f})")
assert (whole < c).all(), again.format("11.3")
assert (later < whole).mean() > 0.8, again.format("11.3")
assert outlast.mean() > 0.85, again.format("11.3")
assert min(times) > 5, again.format("11.3")
assert ((grew[0] < np.inf) == over).all()
assert (abs(np.log(grew[0][over] / grew[1][over])) < np.log(1.5)).all()

# %% jupyter={"source_hidden": true} slideshow={"slide_type": "subslide"}
fig, ax = plt.subplots(figsize=(4.6, 3.2))
for k, needed in enumerate(np.log(factor[stalled])):
    way = 1 - fine[2, :, k] / fine[2, 0, k]
    until = np.argmax(way >= 1) + 1 if (way >= 1).any() else len(way)
    ax.plot(fine[0, :until, k] / needed, way[:until], color=ORANGE, linewidth=1.2, alpha=0.6)
ax.plot([], [], color=ORANGE, label="measured, 22 runs")
ax.plot([0, 1], [0, 1], "--", color=BLACK, label="forecast")
ax.axhline(1, color=BLACK, linestyle=":", linewidth=1)
ax.set(xlabel="log of the norm's factor / its forecast", ylabel="log share: part of the way", xlim=(0, 3.3))
ax.legend(fontsize=9, loc="lower right")
show(
    fig,
    alt="How much of the way to its goal the log share of the newcomer has made, against the log of the "
    "norm's factor over the forecast: the dashed forecast goes straight from 0 to 1; the measured curves "
    "set out along it and bend below it, but for one that goes straight past the goal.",
)

# %% [markdown]
# **Figure 3.** The 22 stalls, each until it is over (dotted) or the run ends, with the forecast. The straight
# line past the goal is a stall that one record ends.

# %% [markdown]
# The newcomer's power is $c$ only at first: over the whole stall it is lower in all 22 runs, and in more than
# eight of ten lower still in the second half. So most stalls outlast the forecast, here at least 20 of 22
# (one ends about when forecast, one is not followed so far). By how much depends on the draw; here the
# medians are more than five times the forecast factor. The bounce is not why: at half the step the same
# stalls end, at norms within a factor of 1.5.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 11.7 How many columns does it take?
#
# A newcomer needs a column of $K$ and $Q$. So how many directions has $W_{\mathrm{nuc}}$? The paper has a
# figure of this, too: the number of singular values above $10^{-7}$. For $n = d = 15$, $T = 5$ we read 13.9
# of 15: nearly full rank?
#
# Let $W$ be a solution of rank $r$, in balanced factors $K$ and $Q$ of $r$ columns, and let $N$ comparisons
# be tight. Replace the factors by $K G$ and $Q G$, where $G^2 = I + \delta H$ with a symmetric $H$ and a
# small $\delta$. Then $W$ becomes $W + \delta K H Q^\top$, and each lead changes by $\delta \langle A_{it}, K
# H Q^\top \rangle$. The cost changes by the sum of $\lambda_{it}$ times the change of the lead.
#
# <details><summary>Why</summary>
#
# The change is $\frac\delta2 \mathrm{tr}\,(K^\top K + Q^\top Q) H$. Put in $K = S Q$ and $Q = S^\top K$:
# both terms are $\mathrm{tr}\, K^\top S Q\, H = \langle S, K H Q^\top \rangle$. And $S$ is the sum of
# $\lambda_{it} A_{it}$. $\square$
# </details>

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 11.4: How large can the rank be?
#
# ★★★ · 15 minutes
#
# If there are more unknowns in a symmetric $H$ than tight comparisons, some $H \ne 0$ leaves all their
# leads as they are, and with them the cost: $W$ is not the only solution (Barvinok 1995, Pataki 1998).
# Suppose that it is the only one. Return the largest rank that the count allows. Count also that $W$ lives
# where $S$ does: its rank is at most $\min(n, d)$. You are given all leads at $W$ (the least is 1 but for
# the solver's error); those up to `tol` above the least are tight.
#
# <details><summary>Hint</summary>
#
# How many numbers determine a symmetric $r \times r$ matrix?
# </details>


# %%
@exercise("11.4")
def rank_limit(leads, d, tol):
    """The largest rank: an int, for leads (n, T - 1), the dimension d and tol > 0."""
    ### BEGIN SOLUTION
    N = (leads <= leads.min() + tol).sum()
    rank = 0
    while (rank + 1) * (rank + 2) // 2 <= N:
        rank += 1
    return min(rank, len(leads), d)
    ### END SOLUTION


# %%
check("11.4", rank_limit)

# %% [markdown]
# Against that count we set `svm.certified_rank` (lesson 04), the number of directions in which $S$ can have
# singular value 1. And is $W_{\mathrm{nuc}}$ the only solution? Every solution is $U H V^\top$, where $U$ and
# $V$ hold these directions and $H$ is symmetric; its comparisons with $\lambda_{it} > 0$ are tight. If they
# determine $H$, it is.


# %%
def unique(problem, found):
    """Whether <A, U H V^T> = 1 where lambda > 0 determines a symmetric H."""
    left, _, right = np.linalg.svd(problem.adjoint(found.dual).numpy())
    rank, tied = svm.certified_rank(problem, found).numpy(), found.dual > 1e-5 * found.dual.amax(1)[:, None]
    live = (np.arange(left.shape[-1]) < rank[:, None])[:, None]  # U and V
    a, b = problem.a.numpy() @ left * live, problem.b.numpy() @ np.swapaxes(right, 1, 2) * live
    rows = (a * tied.numpy()[..., None])[..., None] * b[:, :, None]
    rows = (rows + np.swapaxes(rows, -1, -2)).reshape(*tied.shape, -1)
    return np.linalg.matrix_rank(rows, rtol=0.01) == rank * (rank + 1) // 2


only = [unique(svm.attention_problem(tokens.X, tokens.z, torch.tensor(selected)), solution)]
print("n, T, d      tight comparisons    limit     certified rank")
for n, T, dim in ((15, 5, 15), (15, 5, 30), (5, 15, 10)):
    drawn = data.random_tokens(n, T, dim, trials=20, seed=3)
    problem = svm.attention_problem(drawn.X, drawn.z, drawn.optimal)
    found = svm.solve(problem, norm="nuc", tol=1e-7)
    h = drawn.compare(drawn.z @ found.value.mT)
    others = torch.arange(T) != drawn.optimal[..., None]
    ahead = (h.gather(-1, drawn.optimal[..., None]) - h)[others].reshape(20, n, T - 1).numpy()
    tight = (ahead <= ahead.min(axis=(1, 2), keepdims=True) + 1e-4).sum(axis=(1, 2))
    limit = np.array([rank_limit(one, dim, 1e-4) for one in ahead])
    rank = svm.certified_rank(problem, found).numpy()
    only.append(unique(problem, found))
    print(f"{n:2}, {T:2}, {dim:2} {tight.min():9d} to {tight.max()}", end="")
    print(f"{limit.min():12d} to {limit.max()} {rank.min():10d} to {rank.max()}")
    assert (rank < limit).all(), again.format("11.4")
    assert (limit < min(n, dim)).any() or n == 5, again.format("11.4")
only = np.concatenate(only)
print(f"one solution only: {only.sum()} of {len(only)}, with our twelve")
assert only.all()

ranks = measured("11.ranks").load()  # 40 problems in each of the paper's 40 cells
cell = ranks.sel(n_T="15, 5", d=15)
loose, close, certified = (float(cell[name].mean()) for name in ("loose", "tight", "certified"))
print("n = d = 15, T = 5, mean rank: singular values above 1e-7, the solver stopped at a relative gap of")
print(f"    1e-3: {loose:.2f}, 1e-7: {close:.2f}; certified: {certified:.2f}")
assert 12.3 < loose < 12.5
assert close == certified < 4.7

# %% [markdown]
# The nuclear SVM has a *low* rank, in each of the 60 problems below the count, and one solution, as in our
# twelve (for the tokens selected at rest). A threshold on $W$ sees what the solver left: stopped at a gap
# of $10^{-3}$, our own gives 12.4 of 15, like the published 13.9 (whose solver we do not know).

# %% [markdown]
# With fewer columns than $W_{\mathrm{nuc}}$ has directions, no pair can reach it. Are as many enough?
# **Predict**: where it has three directions or fewer, do runs with three columns come to it as often as those
# with $d$? We follow runs from our four starts in log time, up to a smallest lead of $10^{13}$, at two sizes.

# %%
print("n, T, d     columns      runs at .99, where W_nuc has 2, 3, more directions")
account = np.zeros(
    (2, 3, 3, 2), dtype=int
)  # .99, .999; columns: d, 3, 2; directions: 2, 3, more; runs there, all
for size, name in (("6, 8, 10", "11.log_time"), ("10, 6, 8", "11.columns")):
    swept = measured(name).load()
    path = swept.get("cosine_late", swept.get("cosine"))  # with W_nuc of the run's own tokens
    for row, m in enumerate(swept.m.values[::-1]):
        late = path.sel(m=m).values.reshape(160, -1)[:, -2]  # at a smallest lead of 10^13
        goals = swept.goal.sel(m=m).values.reshape(160, -1)  # the singular values of that W_nuc
        directions, same = ((goals > least * goals[:, :1]).sum(axis=1) for least in (1e-3, 1e-4))
        assert (directions == same).all()  # whichever threshold counts them
        groups = np.array([directions == 2, directions == 3, directions > 3])
        counts = [
            np.array([(groups & one).sum(axis=1) for one in (late >= c, True)]).T for c in (0.99, 0.999)
        ]
        account[:, row] += counts
        print(f"{size:9}    m = {m:2}  ", *(f"{one[0]:8d} of {one[1]:3d}" for one in counts[0]))
        left_out = (goals[:, m:] ** 2).sum(axis=1) / (goals**2).sum(axis=1)
        assert (left_out[late >= 0.99] < 0.02).all()
full, three = (
    account[:, :2, :2].sum(axis=2).swapaxes(0, 1)
)  # at most three directions: (at .99, .999; runs, all)
short = account[:, 2, 1:].sum(axis=1) + account[:, 1, 2]  # more directions than columns
for text, one in (("at most 3, m = 3", three), ("at most 3, m = d", full), ("more than m", short)):
    print(f"directions {text}: {one[0, 0]} of {one[0, 1]} at .99, {one[1, 0]} at .999")
assert [*three[0], *full[0], *short[0]] == [180, 198, 170, 180, 61, 428]
assert [three[1, 0], full[1, 0], short[1, 0]] == [132, 137, 14]

# %% [markdown]
# Nearly: where $W_{\mathrm{nuc}}$ has at most three directions, 180 of 198 runs with three columns come to
# .99, and 170 of 180 with $d$. Asked for .999 three columns fall behind: 132, against 137 of fewer with $d$.
#
# In all, 61 of 428 come to .99 with fewer columns than directions: these leave less than two percent of
# $\lVert W_{\mathrm{nuc}} \rVert_F^2$ out, as they must (Eckart and Young 1936). At .999 14 are left.

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
# **Figure 4.** Medians of forty problems in log time, from four starts, for ten, three and two columns, each
# run against $W_{\mathrm{nuc}}$ of its own tokens.


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
# ## 11.8 Claims and measurements
#
# | claim | prediction | measured |
# |:---|:---|:---|
# | a ridge makes the figure | near $W_{\mathrm{nuc}}$ by step 2,000 | .997; without it .985 or less |
# | the norm at rest | from the dual weights of its tokens | to one percent, twelve problems |
# | the newcomer grows like the power $c$ | $c$ at lead 100 | median error .02 to .09 by start ($c > 1.15$) |
# | a bound on the rank of an only solution | $r (r + 1) / 2 \le N$ | held, with one solution, in all 60 |
# | three columns are enough for three directions | about as $d$ | .99: 91%, $d$: 94%; .999: 67%, $d$: 76% |

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Questions
#
# <details><summary>1. (After exercise 11.1.) Somebody trains (K, Q) in exact arithmetic with the ridge and
# the eps of float32, 1.2e-7. What changes?</summary>
#
# The ridge is $2^{29}$ times stronger, so rest is at a shorter $W$: tight leads are shorter by
# $29 \log 2 \approx 20$.
# </details>
#
# <details><summary>2. A run stands still at cosine .94, its S has c = 1.6, and m = d. Has it
# converged?</summary>
#
# No. If $S$ keeps its shape, a newcomer's share grows like the norm to the power 0.6: to be ten times as
# large it needs a norm 46 times as large, or more. It stands still for those who look at steps.
# </details>

# %%
assert (round(29 * np.log(2)), round(10 ** (1 / 0.6))) == (20, 46)
progress("11")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - Trained as $K Q^\top$, attention heads for the **nuclear** Att-SVM of the tokens it selects; trained as
#   $W$, for the Frobenius one. These tokens need not all be the best ones, which are the theorem's.
# - The published .997 is a **ridge** of one rounding error at work. Where a run with it rests, the dual
#   weights of its tokens give its norm, to one percent.
# - Without the ridge, descent stalls short of a direction, whose share of $W$ grows like the norm to the
#   power $c - 1$ at first, $c$ being what $S$ has along it, and to less as $c$ falls.
# - $W_{\mathrm{nuc}}$ has a low rank. To .99 three columns serve nearly as well as $d$ where it has at most
#   three directions; with fewer columns than directions, few runs arrive.
#
# All is measured on random tokens: the newcomer and its stall, the rest and the cycle at one size, the figure
# and the columns at two. The newcomer's law, the length at rest and the cycle are arguments and measurements
# of this lesson, not theorems.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Further reading
#
# - D. A. Tarzanagh, Y. Li, C. Thrampoulidis, S. Oymak. *Transformers as support vector machines.* 2023,
#   arXiv 2308.16898. The nuclear Att-SVM and both figures of this lesson.
# - H. Sheen, S. Chen, T. Wang, H. H. Zhou. *Implicit regularization of gradient flow on one-layer softmax
#   attention.* 2024, arXiv 2403.08699. Gradient flow on $(K, Q)$ with exponential loss, from aligned starts.
# - F. Boncoraglio, V. Erba, E. Troiani, F. Krzakala, L. Zdeborová. *Inductive bias and spectral properties
#   of single-head attention in high dimensions.* 2025, arXiv 2509.24914. Where training with weight decay
#   ends, in sharp formulas.
# - E. Boix-Adserà, E. Littwin, E. Abbe, S. Bengio, J. Susskind. *Transformers learn through gradual rank
#   increase.* 2023, arXiv 2306.07042. One direction after the other.
# - K. Lyu, J. Li. *Gradient descent maximizes the margin of homogeneous neural networks.* ICLR 2020,
#   arXiv 1906.05890: why limits of such flows are KKT points (for linear models of the product).
# - G. Pataki. *On the rank of extreme matrices in semidefinite programs and the multiplicity of optimal
#   eigenvalues.* Mathematics of Operations Research 23, 1998: the count of exercise 11.4.
#
# **New in the library:** [`models.FactoredAttention`](../mini_attn/models.py),
# [`flow.follow`](../mini_attn/flow.py), [`flow.forces`](../mini_attn/flow.py),
# [`flow.Flow`](../mini_attn/flow.py), `train.fit(ridge=)`.
#
# **Next:** [lesson 12](12_overparameterization.ipynb) asks when the selected tokens are the best ones.
