# %% [markdown] slideshow={"slide_type": "slide"}
# # 11 · Keys, queries and the nuclear norm
#
# A transformer does not train the matrix $W$ of lesson 10. It trains keys $K$ and queries $Q$, and only
# their product $W = K Q^\top$ meets the data. The attention that can be reached is the same. The road is
# not.
#
# **The question: where do keys and queries go, when do they get there, and what did the published figure of
# it really show?**
#
# They head for another SVM, that of the nuclear norm. But they stall on the way, and a run that seems to
# stand still may be going round. One matrix, read from the run's own forces, tells.

# %% [markdown] slideshow={"slide_type": "skip"}
# **After this lesson you can**
#
# - state the Att-SVM that belongs to $(K, Q)$ and tell it from that of $W$ by measurement;
# - say what a ridge of one machine epsilon does to a training run, tell rest from a cycle, and predict the
#   step size that decides;
# - read from a stalled run how fast it leaves its stall, trial by trial;
# - bound, from a run's tokens, how near it can come with few columns;
# - bound a rank by counting, and distrust one that was read off with a threshold.
#
# **You need** [lesson 04](04_matrix_factorization.ipynb) (nuclear norm, KKT points, the stall), [lesson
# 06](06_attention_as_svm.ipynb) (forces between tokens, and the logarithms of section 5.9), [lesson
# 08](08_regularization_path.ipynb) (regularisation paths) and [lesson 10](10_cross_self_attention.ipynb) (the
# Att-SVM for $W$). About 90 minutes, five exercises.

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
from mini_attn import data, flow, geometry, models, paths, plots, svm, widgets
from mini_attn.plots import COLORS
from mini_attn.softmax import softmax

plots.style()
torch.set_num_threads(1)  # small matrices: one thread is fastest
BLUE, ORANGE, GREEN, PURPLE, BLACK = (
    COLORS[name] for name in ("blue", "vermillion", "green", "purple", "black")
)
again = "this differs from the text: if exercise {} has no tick, start there"

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 11.1 Two ways to train one attention
#
# The model is that of lesson 10, whose $W_{\mathrm{mm}}$ we call $W_{\mathrm{fro}}$ here. Sequence $i$ has
# tokens $x_{i1}, \dots, x_{iT}$ and a query $z_i$; with the logits $h_{it} = x_{it}^\top W z_i$ its output
# is $f_i = \sum_t s_{it}\, v \cdot x_{it}$, and the score of a token is $\gamma_{it} = y_i\, v \cdot
# x_{it}$. The data are those of the paper that we follow, Tarzanagh, Li, Thrampoulidis and Oymak (2023): $n
# = 6$ sequences of $T = 8$ tokens in $d = 10$ dimensions, all of them drawn from the unit sphere, with
# random labels. We take twelve such problems at once.
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
# With $W = K Q^\top$, lesson 04 (exercise 04.1) gives the steps: $K$ moves along $M Q$ and $Q$ along $M^\top
# K$. As in the paper's code, each is normalised by itself and every step has length 0.1. $K$ and $Q$ have $m
# = d$ columns, so that every $W$ is within reach, and start where torch starts an `nn.Linear`. $W$ itself
# starts from zero.


# %%
def product(KQ):
    """W = K Q^T of a pair (2, ..., d, m)."""
    return KQ[0] @ np.swapaxes(KQ[1], -1, -2)


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
    ax.set(title=f"trained: {title}", xlabel="step", ylim=(1e-4, 1.5))
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
# values (black to pale: first to sixth).

# %% [markdown]
# Same data, same loss, same attention, two directions. $W$ goes to the Frobenius SVM, $(K, Q)$ towards the
# nuclear one. *Towards*: the rest of the lesson is about that word.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 11.2 The SVM of keys and queries
#
# For selected tokens $\alpha$ write $A_{it} = (x_{i\alpha_i} - x_{it})\, z_i^\top$, so that $\langle A_{it},
# W
# \rangle$ is the lead of $\alpha_i$ over $t$. In lesson 04 the $A_i$ came from labelled pairs; nothing else
# changes.
#
# > **Nuclear Att-SVM** $\qquad W_{\mathrm{nuc}}(\alpha) = \arg\min_W \lVert W \rVert_* \quad \text{subject
# > to}
# > \quad \langle A_{it}, W \rangle \ge 1 \quad \text{for all } i,\ t \ne \alpha_i .$
#
# Its dual weights $\lambda_{it} \ge 0$ make $S = \sum_{it} \lambda_{it} A_{it}$ with $\lVert S
# \rVert_{\mathrm{op}} = 1$ and $\sum_{it} \lambda_{it} = \lVert W_{\mathrm{nuc}} \rVert_*$. The same problem
# written in $(K, Q)$ asks for the smallest cost $\frac12(\lVert K \rVert_F^2 + \lVert Q \rVert_F^2)$; with
# $m$ columns, $W$ has rank at most $m$.
#
# > **Theorem** (Tarzanagh, Li, Thrampoulidis & Oymak 2023, informally, in our words). *The loss is smooth and
# > strictly decreasing, the head linear and fixed, each sequence has one best token, and the nuclear Att-SVM
# > of the best tokens has a feasible $W$ of rank at most $m$. Let $(K, Q)$ minimise $L$, globally, among all
# > pairs of cost at most $R$. As $R \to \infty$, the distance of $K Q^\top / R$ to the set of normalised
# > solutions of that SVM, taken over matrices of rank at most $m$, tends to 0.*
#
# Three words carry weight. *Global* minimisers; *best* tokens, whatever descent selects; *rank at most* $m$:
# with few columns this is another problem than the nuclear Att-SVM stated above. A small ridge $\varepsilon
# (\lVert K \rVert_F^2 + \lVert Q \rVert_F^2)$ is the other way to keep a pair finite. For descent itself the
# paper shows a figure: the mean cosine of $(K, Q)$ with $W_{\mathrm{nuc}}$, of the tokens that the run
# selected, rises to .997 within 2,000 steps. Our run of section 11.1 did the same steps and has less. Who is
# right?

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 11.3 The published figure, and what makes it
#
# The paper's code is public, and two numbers in it are easily overlooked. It adds $\varepsilon = 2.2 \cdot
# 10^{-16}$, one rounding error of a double, in two places:
#
# - a **ridge** $\varepsilon (\lVert K \rVert_F^2 + \lVert Q \rVert_F^2)$ is added to the loss;
# - gradients are divided by their norm **plus** $\varepsilon$.
#
# And it takes softmax's gradient from torch, the textbook formula that lesson 05 warned of. Three switches,
# eight runs, each on the same 80 problems from the same starts, stored with the course (`python -m course
# replicate --fresh 11.figure 11.without_eps` computes them anew).

# %%
stored, more = measured("11.figure").load(), measured("11.without_eps").load()
rows = {  # gradient, ridge, eps in the norm
    "textbook, ridge, eps": (stored, "public code"),
    "textbook, ridge": (more, "textbook, ridge"),
    "textbook,        eps": (stored, "no ridge"),
    "textbook": (stored, "no eps at all"),
    "exact,    ridge, eps": (stored, "exact"),
    "exact,    ridge": (more, "exact, ridge"),
    "exact,           eps": (stored, "exact, no ridge"),
    "exact": (more, "exact"),
}
for size in ("published", "other"):
    print("n, T, d =", {"published": "6, 8, 10", "other": "4, 5, 14"}[size], "(mean nuclear cosine of 80)")
    print(f"{'':22}{'500':>8}{'1000':>8}{'2000':>8}{'8000':>8}   least at 2000")
    means = {}
    for name, (kept, variant) in rows.items():
        found = kept.nuclear.sel(size=size, variant=variant).values  # (trials, steps)
        means[name] = np.nanmean(found, axis=0)
        row = "".join(f"{value:8.3f}" for value in [*means[name], np.nanmin(found[:, 2])])
        print(f"{name:22}{row}")
    for name, mean in means.items():
        if "ridge" in name:
            assert (mean[2:] > 0.9955).all()
    assert (means["textbook"][2:] < 0.5).all()
    assert means["textbook,        eps"][2] < 0.87
    assert (abs(means["exact,           eps"][1:] - 0.937) < 0.005).all()
    assert 0.98 < means["exact"][2] < 0.99
    length = stored.length.sel(size=size).mean("trial")
    held, frozen = (length.sel(variant=variant).values for variant in ("exact", "exact, no ridge"))
    print("mean length: with ridge and eps", *held.round().astype(int), end="; ")
    print("eps alone", *frozen.round(1))
    assert abs(held[1:] / held[0] - 1).max() < 0.02
    doubling = np.diff(frozen) / (1, 1, 2)  # the last are two
    assert (abs(doubling / doubling[0] - 1) < 0.25).all()
    assert (abs(doubling / frozen[:3] - 0.02) < 0.005).all()

# %% [markdown]
# - *A ridge*: .996 to .997, whichever gradient is used, with or without $\varepsilon$ in the norm.
# - *Exact gradients, nothing added*: .985 at both sizes after 2,000 steps, .990 after 8,000. Descent alone is
#   near, but not there, and its least run is at .88.
# - *Exact, and $\varepsilon$ in the norm*: the gradient is soon shorter than $\varepsilon$, and the run
#   freezes where it happens to be, near .94.
# - *Textbook, no ridge*: the gradient loses the winner's part (lesson 05), and the direction is lost, within
#   a thousand steps or, if $\varepsilon$ in the norm shortens the steps, more slowly.
#
# So .84 and .94 are the fault of the formula and of the normaliser. To a run that has neither fault the ridge
# is worth .985 to .997 in the mean, and .88 to .99 in the worst run (published size). And it hides both
# faults.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What the ridge holds
#
# Where a run with a ridge is at rest both gradients vanish,
#
# $$M Q = 2 \varepsilon K, \qquad M^\top K = 2 \varepsilon Q, \qquad\text{that is}\quad K = S Q,\ Q = S^\top
# K
# \quad\text{with}\quad S = \frac{M}{2 \varepsilon} ,$$
#
# the KKT conditions of lesson 04, and $\lVert S \rVert_{\mathrm{op}} = 1$ says that no direction is missing.
# The length of the public run hardly changes from step 500 on. So is it at rest? Three numbers for each of
# our own twelve runs: the **residual**, which is how much of $2 \varepsilon (K, Q)$ the forces fail to
# balance; $\lVert S \rVert_{\mathrm{op}}$; and in how many sequences the run selected the best token. (The
# steps are the public code's, with an exact gradient: what rounding noise does, no two machines agree on.)

# %%
EPS = 2.0**-52


def pair_norm(KQ):
    """sqrt(||K||_F^2 + ||Q||_F^2) in each problem."""
    return np.sqrt((KQ**2).sum(axis=(0, -2, -1)))


def judge(KQ, name):
    """Prints what a run with the ridge is: cosine, residual, ||S||_op, best tokens."""
    W = torch.tensor(product(KQ))
    own, solution, h = compared(W, tokens)
    selected = geometry.selected_tokens(h)
    residual = pair_norm(downhill(KQ, EPS)) / (2 * EPS * pair_norm(KQ))
    op = torch.linalg.matrix_norm(flow.forces(W, tokens), 2).numpy()
    best = (selected == tokens.optimal).all(-1).sum().item()
    print(f"{name:16} cosine {own.mean():.3f}, least {own.min():.3f}, best tokens in {best} of {trials}")
    print(f"{'':16} residual {residual.min():.2f} to {residual.max():.2f}", end=", ")
    print(f"||S||_op {op.min():.2f} to {op.max():.2f}")
    assert best == 9
    return residual, op, selected.numpy(), solution


public = descend(KQ0, 2000, every=2000, ridge=EPS)[0]
residual, op, _, _ = judge(public, "step 2,000")
once, twice = (pair_norm(later - public) for later in descend(public, 2, every=1, ridge=EPS))
print(f"moved by {once.min():.2f} to {once.max():.2f} after one step, after two by at most", end=" ")
print("3 percent of that" if (twice < 0.03 * once).all() else "more")
assert residual.min() > 0.2
assert op.min() > 1.2
assert once.min() > 0.1
assert (twice < 0.03 * once).all()

# %% [markdown]
# It is *not* at rest. Every step moves the pair by its full length, and the next one takes it back, but for
# a last drift of a few percent: the run is in a **cycle of period two**. At even steps one sees it always on
# the same side. A step has length $\eta\, \lVert g \rVert / (\lVert g \rVert + \varepsilon)$, near $\eta =
# 0.1$ where, as here, the gradient is more than $5 \varepsilon$ long: too long for this valley.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 11.1: Rest or cycle?
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
@exercise("11.1")
def rest_or_cycle(h, eta, eps):
    """(eta_star, ||g|| in the cycle): two numbers, for curvatures h (k,) > 0, eta > 0 and eps > 0."""
    ### BEGIN SOLUTION
    sharpest = np.max(h)
    return 2 * eps / sharpest, max(eta * sharpest / 2 - eps, 0.0)
    ### END SOLUTION


# %%
check("11.1", rest_or_cycle)

# %% [markdown]
# Now the runs. Their curvatures need no second derivatives. At rest a comparison pulls with the force
# $2 \varepsilon \lambda_{it}$, which falls by a factor $e$ per unit of its lead: its stiffness is its force.
# With the lead's gradient in $(K, Q)$, $a_{it} = (A_{it} Q, A_{it}^\top K)$, the Hessian there is
#
# $$2 \varepsilon \Big( \sum_{it} \lambda_{it}\, a_{it} a_{it}^\top + E \Big) ,$$
#
# where $E$, from the curvature of $K Q^\top$ and the ridge, has eigenvalues from 0 to 2. The sum's largest is
# above 80, so we leave $E$ out. We let each run come to rest with steps of 0.003, and predict how long the
# gradients are in the cycle of $\eta = 0.1$, and which runs a step of 0.005 lets rest. (In a cycle, however
# small, each gradient points against the one before.)


# %%
eta = np.array([0.003, 0.005])[:, None, None, None]
at_rest, smaller = descend(np.stack([public] * 2, axis=1), 2000, 2000, eta, EPS)[0].swapaxes(0, 1)
residual, op, selected, solution = judge(at_rest, "steps of 0.003")
assert residual.max() < 0.003
assert (abs(op - 1) < 0.003).all()
scores = tokens.scores.numpy()
best = np.take_along_axis(scores, selected[..., None], -1)
slope, difference = 1 / (1 + np.exp(best[..., 0])), best - scores  # |l'(u)|, gamma_alpha - gamma_t
e = np.take_along_axis(X, selected[..., None, None], axis=2) - X  # A_it = e_it z_i^T
e, q = e.reshape(trials, -1, d), np.repeat(z, 8, axis=1)


def weights(KQ, eps):
    """lambda_it at rest, (trials, n, T), from the forces."""
    s = softmax(tokens.compare(tokens.z @ torch.tensor(product(KQ)).mT)).numpy()
    return np.maximum(slope[..., None] * difference * s, 0) / (6 * 2 * eps)


def gram(rows):
    return rows @ np.swapaxes(rows, -1, -2)


def predict(KQ, lam, eps):
    """eta* and the gradient's norm in the cycle of eta = 0.1, by exercise 11.1, (2, trials)."""
    inner = gram(e) * gram(q @ KQ[1]) + gram(q) * gram(e @ KQ[0])  # of the a_it
    root = np.sqrt(lam).reshape(trials, -1)
    stiff = np.linalg.eigvalsh(root[..., None] * inner * root[:, None, :])
    return np.array([rest_or_cycle(2 * eps * np.maximum(one, 1e-3), 0.1, eps) for one in stiff]).T


later = descend(smaller, 1, 1, 0.005, EPS)[0]
rests = (downhill(smaller, EPS) * downhill(later, EPS)).sum(axis=(0, 2, 3)) > 0
eta_star, expected = predict(at_rest, weights(at_rest, EPS), EPS)
gradients = np.linalg.norm(downhill(public, EPS), axis=(-2, -1))  # K's and Q's
ratio = np.sqrt((gradients**2).mean(axis=0)) / expected
print(f"eta* from {eta_star.min():.4f} to {eta_star.max():.4f}; at rest with steps of 0.005:", end=" ")
print(f"{rests.sum()} of {trials}, predicted {(eta_star > 0.005).sum()}")
print(f"gradients in the cycle, root mean square / predicted: {ratio.min():.2f} to {ratio.max():.2f}")
assert (rests == (eta_star > 0.005)).all(), again.format("11.1")
assert rests.sum() == 10
assert ((ratio > 0.8) & (ratio < 0.96)).all(), again.format("11.1")
assert gradients.min() > 5 * EPS
assert 1 / eta_star.max() > 80

# %% [markdown]
# The step decides, and the curvature at rest says which step is small enough, run by run. The cycle's size
# it only bounds: as $K$ and $Q$ are normalised apart, the exercise's number is the most that the root mean
# square of their gradients can be in a quadratic valley (one of them alone may be longer). Here it is 6 to
# 18 percent less. The cosine is the same in the cycle and at rest, for the cycle goes around a point of
# rest. So the published *number* is that of a KKT point of the loss with its ridge, and the published *run*
# is not at rest there.
#
# Which KKT point? In three of our twelve problems not that of the best tokens. The cosine .997 compares each
# run with the SVM of the tokens *that it selected*. Against that of the best tokens (stored, `11.rest`; 40
# problems of three sizes):

# %%
resting = measured("11.rest").load()
for size, n in (("published", 6), ("other", 4), ("more", 10)):
    cell = resting.sel(size=size)
    own, to_best = cell.own.values, cell.to_best.values  # (trials, 0: steps of 0.1, 1: of 0.003)
    print(
        f"n = {n:2}: own tokens {own[:, 0].mean():.3f}, best tokens {np.nanmean(to_best[:, 0]):.3f};", end=" "
    )
    print(f"all are best in {(cell.best.values[:, 0] == n).sum()} of 40;", end=" ")
    at_rate = cell.residual.values.mean(axis=0)
    print(f"mean residual {at_rate[0]:.2f}, with steps of 0.003 {at_rate[1]:.4f}")
    assert np.abs(own[:, 0] - own[:, 1]).max() < 0.02
    assert cell.residual.values[:, 0].min() > 0.2
    assert cell.residual.values[:, 1].max() < 0.02
assert [
    int((resting.sel(size=s).best.values[:, 0] == n).sum()) for s, n in (("published", 6), ("more", 10))
] == [31, 16]
assert np.nanmean(resting.sel(size="published").to_best.values[:, 0]) < 0.93

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### How long is W at rest? *(optional)*
#
# The force of each comparison in $M$ is $\frac1n |\ell'(u_i)|\, s_{it}\, (\gamma_{i\alpha_i} -
# \gamma_{it})$, where $s_{it} \approx e^{-\Delta_{it}}$ falls with the lead $\Delta_{it}$, and $u_i \approx
# \gamma_{i\alpha_i}$. At rest it is $2 \varepsilon \lambda_{it}$. A ridge of $10^{-16}$ is a force, then, and
# it holds the run where the leads are near $\log 10^{16} \approx 37$.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 11.2: How long is W at rest?
#
# ★★☆ · 10 minutes
#
# Predict the nuclear norm of $W = K Q^\top$ at rest, before any training, as if the weights at rest were the
# dual weights $\lambda_{it}$ of the nuclear Att-SVM (they tend to them). You may use that $\langle S, W
# \rangle = \lVert W \rVert_*$ for $S = \sum_{it} \lambda_{it} A_{it}$. You are given $\lambda$, the slopes
# $|\ell'(u_i)|$, the differences $\gamma_{i\alpha_i} - \gamma_{it}$, and $\varepsilon$. Where $\lambda_{it}
# = 0$ (for the selected token always) a comparison does not count, whatever its difference; elsewhere
# differences are positive. And will the true length be larger, or smaller?
#
# <details><summary>Hint: the leads</summary>
#
# What lead $\Delta_{it}$ does a force of $2 \varepsilon \lambda_{it}$ belong to?
# </details>
#
# <details><summary>Hint: the norm</summary>
#
# $\langle A_{it}, W \rangle$ is a lead.
# </details>


# %%
@exercise("11.2")
def length_at_rest(lam, slope, difference, eps):
    """||W||_*: a number, for lam (n, T), slope (n,), difference (n, T) and the ridge's eps."""
    ### BEGIN SOLUTION
    tight = lam > 0
    force = slope[:, None] * difference / len(slope)  # but for s_it
    leads = np.log(force[tight] / (2 * eps * lam[tight]))
    return (lam[tight] * leads).sum()
    ### END SOLUTION


# %%
check("11.2", length_at_rest)


# %%
keep = np.arange(8) != selected[..., None]  # (trials, n, T)
lam, dual = np.zeros(keep.shape), solution.dual.numpy()
lam[keep] = np.where(dual > 1e-5 * dual.max(axis=1, keepdims=True), dual, 0).ravel()
predicted, shorter = (
    np.array([length_at_rest(*one, eps) for one in zip(lam, slope, difference, strict=True)])
    for eps in (EPS, 2.0**-23)
)
lengths = np.linalg.norm(product(at_rest), "nuc", axis=(1, 2))
print(f"predicted / measured: from {(predicted / lengths).min():.3f} to {(predicted / lengths).max():.3f}")
print(f"measured: from {lengths.min():.0f} to {lengths.max():.0f}")
assert (predicted / lengths < 1).all(), again.format("11.2")
assert (predicted / lengths > 0.99).all(), again.format("11.2")
assert lengths.max() > 1.2 * lengths.min()

# %% [markdown]
# Of the run only its tokens were used. The prediction is right to one percent in all twelve problems, and
# always a little *short*: it is a lower bound.
#
# <details><summary>Why a lower bound?</summary>
#
# With $c_{it}$ for the force but for $s_{it}$, the weights at rest maximise the concave function $D(\lambda)
# = \sum_{it} \lambda_{it} \left( \log(c_{it} / 2 \varepsilon \lambda_{it}) + 1 \right)$ over $\lambda \ge
# 0$, $\lVert S \rVert_{\mathrm{op}} \le 1$, as far as attention is $e^{-\Delta}$, and $\lVert W \rVert_* = D
# - \sum \lambda_{it}$ there. The SVM's weights maximise the last sum, so with them $D$ is smaller and what is
# subtracted is larger. The smaller $\varepsilon$, the nearer the two.
# </details>
#
# And the step that lets a run rest? $\eta^* = 2 \varepsilon / h$ is one over the largest eigenvalue of
# $\sum_{it} \lambda_{it}\, a_{it} a_{it}^\top$. There is no $\varepsilon$ in it, but $a_{it}$ grows like $K$
# and $Q$: $\eta^*$ falls like $1 / \lVert W \rVert_*$. So it too follows from the tokens, by the SVM's
# weights and $W_{\mathrm{nuc}}$ at the predicted length. Another rounding error, another $\eta^*$:

# %%
left, singular, right = np.linalg.svd(solution.value.numpy())
scaled = np.sqrt(singular * (predicted / singular.sum(-1))[:, None])[:, None]
before = predict(np.stack([left * scaled, np.swapaxes(right, 1, 2) * scaled]), lam, EPS)[0]
print(f"eta* from the tokens / at rest: {(before / eta_star).min():.2f} to {(before / eta_star).max():.2f}")
coarse = 2.0**-23  # float32's rounding error
single = descend(at_rest * np.sqrt(shorter / lengths)[:, None, None], 2000, 2000, 0.007, coarse)[0]
eta_single = predict(single, weights(single, coarse), coarse)[0]
longer = lengths / np.linalg.norm(product(single), "nuc", axis=(1, 2))
wider = eta_single / eta_star
print(f"float32's eps: lengths {longer.min():.1f} to {longer.max():.1f} times smaller,", end=" ")
print(f"eta* {wider.min():.1f} to {wider.max():.1f} times larger")
assert (abs(before / eta_star - 1) < 0.2).all(), again.format("11.2")
assert eta_star.max() > 2.5 * eta_star.min()  # so one step for all would not have done
assert (pair_norm(downhill(single, coarse)) < 0.01 * coarse * pair_norm(single)).all()
assert (abs(shorter * longer / lengths - 1) < 0.05).all(), again.format("11.2")
assert wider.min() > 2.2
assert (abs(wider / longer - 1) < 0.15).all()

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 11.4 The theorem's road, and descent's
#
# The theorem is about minimisers on growing balls. `paths.regularization_path` follows one. From which
# start? Followed from a small ball, a path need not stay with the global minimiser, and a ridge path
# neither. But far out there is a certificate: no $W$ has a loss below $\frac1n \sum_i
# \ell(\gamma_{i\,\mathrm{opt}_i})$, and any that selects another token somewhere is above that by a fixed
# amount. So we start a third path at $20\, W_{\mathrm{nuc}}$ of the best tokens, and compare the losses.

# %%
few = tokens.block(slice(0, 3))
best_svm = svm.solve(svm.attention_problem(few.X, few.z, few.optimal), norm="nuc").value
warm = models.FactoredAttention(d, d, trials=3)
left, singular, right = torch.linalg.svd(20 * best_svm)
with torch.no_grad():
    warm.K.copy_(left * singular.sqrt()[:, None])
    warm.Q.copy_(right.mT * singular.sqrt()[:, None])
small = {"d": d, "m": d, "trials": 3, "scale": 1e-3}
radii = [100.0, 250.0, 600.0]
routes = {
    "ridge, from small": paths.ridge_path(
        models.FactoredAttention(**small), few, [1e-8, EPS, 1e-40], tol=1e-3
    ),
    "ball, from small": paths.regularization_path(
        models.FactoredAttention(**small), few, [40.0, *radii], tol=1e-3
    ),
    "ball, from best": paths.regularization_path(warm, few, radii, tol=1e-5),
}
floor = torch.nn.functional.softplus(-few.scores.amax(-1)).mean(-1).numpy()
ends = {}
print("three problems      loss above its floor    best tokens   cosine to own    to best tokens' SVM")
for name, route in routes.items():
    own, _, h = compared(route["W"][-1], few)
    to_best = geometry.cosine(route["W"][-1], best_svm).numpy()
    above = np.abs(route.loss[-1].numpy() - floor).round(4)
    hits = (geometry.selected_tokens(h) == few.optimal).sum(-1).numpy()
    ends[name] = above, hits, own.numpy(), to_best
    print(
        f"{name:18}",
        *(f"{a:7.4f}" for a in above),
        "  ",
        *hits,
        "of 6  ",
        *(f"{o:.3f}" for o in own),
        end="   ",
    )
    print(*(f"{b:.2f}" for b in to_best))
assert (ends["ball, from best"][0] < 1e-4).all()
assert (ends["ball, from best"][3] > 0.998).all()
assert ends["ridge, from small"][1].tolist() == [5, 6, 5]
assert ends["ball, from small"][1].tolist() == [5, 6, 6]
assert min(own.min() for _, _, own, _ in ends.values()) > 0.998

# %% [markdown]
# Each road ends at the nuclear SVM of *its own* tokens. The road of the theorem is the third: its loss is at
# the floor, so it is the global minimiser's as far as tokens are concerned, and it ends at the best tokens'
# SVM. Followed from a small radius, the ridge path leaves this road in two of the three problems, the path on
# balls in one: there they are roads of local minimisers, of which the theorem says nothing. So a ridge of
# $\varepsilon$ need not lead to the theorem's limit: the figure shows what it does to the tokens that descent
# selected.
#
# Now the roads at equal nuclear norm, each against its own tokens' SVM, with descent beside them. Descent we
# follow in small steps from two starts, $K$ and $Q$ with entries from $N(0, \beta^2)$, the same three
# problems. As in lesson 04, no step turns the pair by more than two percent of its length or moves a lead by
# more than 0.4, and the run is asked where it is when its smallest lead reaches 10, 20 and so on. That is
# `flow.follow`. (At a smallest lead of 100 the losing attention is $10^{-43}$.)

# %%
leads = [5.0, 10.0, 20.0, 50.0, 100.0, 200.0]


def started(scales, d, trials):
    """One draw of K and Q from N(0, 1), times each of the scales."""
    drawn = models.FactoredAttention(d, d, trials=trials, scale=1.0, seed=1)
    model = models.FactoredAttention(d, d, trials=(len(scales), trials))
    scales = torch.tensor(scales, dtype=torch.float64)[:, None, None, None]
    with torch.no_grad():
        model.K.copy_(scales * drawn.K)
        model.Q.copy_(scales * drawn.Q)
    return model


run = flow.follow(started([0.1, 0.001], d, trials), tokens, leads)
pairs = torch.stack([run.K, run.Q]).numpy()  # (2, leads, starts, trials, d, d)
runs = {0.1: pairs[:, :, 0], 0.001: pairs[:, :, 1]}


def share_of_distance(path):
    """1 - cosine to the nuclear SVM of the tokens selected at the end, (points, 3), and ||W||_*."""
    chosen = geometry.selected_tokens(few.compare(few.z @ path[-1].mT))
    goal = svm.solve(svm.attention_problem(few.X, few.z, chosen), norm="nuc").value
    distance = 1 - (unit(path.numpy()) * unit(goal.numpy())).sum((-2, -1))
    return distance, np.linalg.norm(path, "nuc", axis=(2, 3))


roads = {name: share_of_distance(route["W"]) for name, route in routes.items()}
roads |= {
    rf"descent, $\beta = {beta}$": share_of_distance(torch.tensor(product(KQ)[:, :3]))
    for beta, KQ in runs.items()
}
distance, lengths = roads["ball, from best"]
power = np.diff(np.log(distance), axis=0) / np.diff(np.log(lengths), axis=0)
print("1 - cosine along the theorem's road: the nuclear norm to the power")
for one, two, row in zip(radii[:-1], radii[1:], power, strict=True):
    print(f"    from {one:.0f} to {two:.0f}:", *(f"{p:.1f}" for p in row))
assert ((power > -2.05) & (power < -1.65)).all()
for name, (distance, lengths) in roads.items():
    print(f"{name:24} nuclear norm {np.median(lengths[-1]):6.0f}, least cosine {1 - distance[-1].max():.4f}")

# %% jupyter={"source_hidden": true} slideshow={"slide_type": "subslide"}
fig, axes = plt.subplots(1, 3, figsize=(8.8, 3.1), sharey=True)
looks = dict(
    zip(roads, ((GREEN, "o-"), (BLACK, "x--"), (PURPLE, "^-"), (BLUE, "s-"), (ORANGE, "D-")), strict=True)
)
for i, ax in enumerate(axes):
    for name, (distance, lengths) in roads.items():
        color, marker = looks[name]
        ax.loglog(lengths[:, i], distance[:, i], marker, color=color, label=name, markersize=5)
    ax.set(title=f"problem {i + 1}", xlabel=r"$\Vert W \Vert_*$")
axes[0].set_ylabel("1 - cosine to own SVM")
axes[0].set_ylim(bottom=2e-6)  # room for the legend
axes[0].legend(fontsize=7.5, loc="lower left")
show(
    fig,
    alt="Three panels, one a problem: distance from the nuclear SVM of the run's own tokens against the "
    "nuclear norm, both logarithmic. The paths fall steeply, close to each other; descent from two starts "
    "lies above them at the same norm and falls slowly.",
)

# %% [markdown]
# **Figure 2.** Roads in three problems, each against the SVM of the tokens that it selects at its end.

# %% [markdown]
# Along a path the leads differ from those of a multiple of $W_{\mathrm{nuc}}$ by bounded terms (exercise
# 11.2 has them), so if every tight comparison has $\lambda_{it} > 0$ the angle falls like one over the norm
# and $1 - \cos$ like its square. At the lengths we reach the powers are 1.7 to 2.0 in these problems.
# Descent falls more slowly. Why?

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 11.5 Why descent lags
#
# Folklore has it that a small start leads descent to the nuclear norm. We follow the flow without any ridge
# from starts $K$ and $Q$ with entries from $N(0, \beta^2)$, far out, and compare runs at equal smallest lead
# (stored: `11.log_time`, 40 problems from each start, ten columns).

# %%
long = measured("11.log_time").load()
full = long.sel(m=10)
print("mean cosine to W_nuc (least) at the smallest lead of 100, 200 and 10^15")
at = {}
for beta in (1.0, 0.1, 0.01, 0.001):
    cell = full.sel(start=beta)
    cosines = [*cell.cosine_early.values.T[1:], cell.cosine_late.values[:, -1]]
    at[beta] = [one.mean() for one in cosines]
    print(f"  beta {beta:<6g}", *(f"{one.mean():.3f} ({one.min():.2f})   " for one in cosines))
assert all(at[0.001][k] < at[0.01][k] < at[0.1][k] - 0.003 for k in range(3))
assert all(abs(at[0.1][k] - at[1.0][k]) < 0.02 for k in range(3))
other = data.random_tokens(n=4, T=5, d=14, trials=20, seed=0)
ends = flow.follow(started([1.0, 0.1, 0.01, 0.001], 14, 20), other, [200.0]).W[0]
ends = [compared(W, other)[0].mean().item() for W in ends]
print("n, T, d = 4, 5, 14, at lead 200:", *(f"{one:.2f}" for one in ends))
assert ends[1] > ends[2] + 0.02 > ends[3] + 0.02
assert ends[1] > ends[0] + 0.02

# %% [markdown]
# Starts of $\beta \le .01$ lag behind that of .1, the more the smaller. So does 1, at the second size. The
# fair statement is: *very small starts lag*. Nor do any of these runs end here.
#
# Ask a run itself. Its pull is a sum of forces along the $A_{it}$; in units that $W$ sets,
#
# $$S = \frac{\lVert W \rVert_*}{\langle M, W \rangle}\, M , \qquad \langle S, W \rangle = \lVert W \rVert_*
# .$$
#
# At a KKT point the directions in which $W$ *lives* have singular value 1 in $S$. One with a larger singular
# value is missing from $W$. In the limit $c = \lVert S \rVert_{\mathrm{op}}$ certifies how much that costs:
# the margin is at least $1/c$ of the largest one (lesson 04).


# %%
def forces(W):
    """S = ||W||_* / <M, W> M at each W (levels, trials, d, d)."""
    M, _ = pull(W, X, z, y, v)
    return M * (np.linalg.norm(W, "nuc", axis=(-2, -1)) / (M * W).sum(axis=(-2, -1)))[..., None, None]


spectra = {beta: np.linalg.svd(forces(product(KQ)), compute_uv=False) for beta, KQ in runs.items()}
k100, k200 = leads.index(100.0), leads.index(200.0)
for beta, KQ in runs.items():
    sizes = np.linalg.svd(product(KQ)[k100, :4], compute_uv=False)
    print(f"start {beta}, at lead 100, four problems: singular values of W / sigma_1, and of S")
    for one, S in zip(sizes, spectra[beta][k100], strict=False):
        print(
            "   ",
            *(f"{value:.3f}" for value in one[:4] / one[0]),
            "    ",
            *(f"{value:.2f}" for value in S[:4]),
        )

# %% [markdown]
# Most rows have as many values near 1 in $S$ as $W$ has live directions: nearly KKT points of $(K, Q)$. (Not
# all: a value of 1.4 in the middle tells of a run still turning.) And there is one above 1, up to 2, that is
# nearly missing from $W$. The second problem, from the small start: two live directions, and $c = 2.0$.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The newcomer
#
# While $S$ keeps its shape, the flow is $K' = b\, S Q$ and $Q' = b\, S^\top K$, where $b > 0$ shrinks with
# the loss. Let $\xi$, $\zeta$ be the singular vectors of $S$ with the largest singular value, $c$. Project:
#
# $$(\xi^\top K)' = b\, c\; \zeta^\top Q, \qquad (\zeta^\top Q)' = b\, c\; \xi^\top K, \qquad
# \left( \lVert K \rVert_F^2 + \lVert Q \rVert_F^2 \right)' = 4 b\, \langle S, W \rangle .$$
#
# One combination of the first two grows at a rate that nothing else enters. The third says how fast the
# whole pair grows; once $K$ and $Q$ are balanced, $\lVert K \rVert_F^2 + \lVert Q \rVert_F^2 = 2 \lVert W
# \rVert_*$.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 11.3: What will it grow to?
#
# ★★☆ · 10 minutes
#
# Return the size of the newcomer, $\nu = \lVert K^\top \xi + Q^\top \zeta \rVert^2$, now, and what it will
# be when $\lVert K \rVert_F^2 + \lVert Q \rVert_F^2$ is `growth` times as large as now, if $S$ keeps its
# shape and the pair is balanced. You are given the pair and $S$. **Predict** before you run on: from lead
# 100 to lead 200 the pair's square doubles, about. By how much will a newcomer with $c = 2$ have grown, and
# by how much relative to the others? And if $S$ does change while the newcomer enters, which way will the
# prediction be off?
#
# <details><summary>Hint</summary>
#
# Add the first two equations. The ratio of two rates is a power.
# </details>


# %%
@exercise("11.3")
def newcomer(K, Q, S, growth):
    """(nu now, nu then): two numbers, for K and Q (d, m), S (d, d) and the factor growth."""
    ### BEGIN SOLUTION
    left, singular, right = np.linalg.svd(S)
    now = ((left[:, 0] @ K + right[0] @ Q) ** 2).sum()
    return now, now * growth ** singular[0]
    ### END SOLUTION


# %%
check("11.3", newcomer)

# %% [markdown]
# Now trial by trial, from lead 100 to lead 200, for both starts. The prediction uses $S$ at lead 100 alone.

# %%
rows = []
for KQ in runs.values():
    S = forces(product(KQ))
    for i in range(trials):
        (K, Q), (K2, Q2) = KQ[:, k100, i], KQ[:, k200, i]
        left, singular, right = np.linalg.svd(S[k100, i])
        growth = ((K2**2).sum() + (Q2**2).sum()) / ((K**2).sum() + (Q**2).sum())
        now, then = newcomer(K, Q, S[k100, i], growth)
        found = ((left[:, 0] @ K2 + right[0] @ Q2) ** 2).sum()
        rows.append((singular[0], *(np.log(value / now) / np.log(growth) for value in (then, found))))
rows = np.array(rows)
stalled = rows[:, 0] > 1.15
error = (rows[:, 2] - rows[:, 1])[stalled]
print(
    f"{stalled.sum()} of {len(rows)} runs have c > 1.15 at lead 100; measured minus predicted power:", end=" "
)
print(f"median {np.median(error):.2f}, largest size {np.abs(error).max():.1f}")
c, afterwards, grown = (full[name].values for name in ("c", "power", "measured"))
wide = (c > 1.15) & full.reached.values
print(f"stored: {wide.sum()} of {c.size} runs; the other {(~wide).sum()}: median error", end=" ")
print(f"{np.median(np.abs(grown - c)[~wide]):.3f}")
for name, power in (("S at lead 100 alone", c), ("with S at lead 200 too", afterwards)):
    off = (grown - power)[wide]
    print(f"  {name:23}: median error {np.median(np.abs(off)):.3f}, below 0.1 in", end=" ")
    print(f"{(np.abs(off) < 0.1).sum()}, largest {np.abs(off).max():.2f}, negative in {(off < 0).mean():.0%}")
ahead, after = np.abs(grown - c)[wide], np.abs(grown - afterwards)[wide]
assert wide.sum() == 139
assert (ahead < 0.1).sum() == 107
assert 0.04 < np.median(ahead) < 0.05
assert np.median(after) < 0.013
assert ((grown - c)[wide] < 0).mean() > 0.95
assert np.median(ahead) < 0.2 * np.median(grown[wide] - 1), "a share that stands still would have power 1"
assert stalled.sum() >= 15, again.format("11.3")
assert np.median(np.abs(error)) < 0.12, again.format("11.3")

# %% jupyter={"source_hidden": true} slideshow={"slide_type": "subslide"}
fig, ax = plt.subplots(figsize=(4.2, 3.5))
for beta, color, marker in zip((1.0, 0.1, 0.01, 0.001), (BLACK, BLUE, GREEN, ORANGE), "os^D", strict=True):
    cell = full.sel(start=beta)
    ax.plot(cell.c, cell.measured, marker, color=color, markersize=5, label=rf"$\beta = {beta:g}$", alpha=0.8)
ax.plot([0.9, 3], [0.9, 3], color=BLACK, linewidth=1)
ax.set(xlabel="power predicted: $c$ at lead 100", ylabel="power measured", xlim=(0.9, 2.9), ylim=(0.9, 2.9))
ax.legend()
show(
    fig,
    alt="Measured against predicted powers for 160 runs from four starts: the points lie on the diagonal or "
    "a little below it, from 1 to 2.6, with larger powers for smaller starts.",
)

# %% [markdown]
# **Figure 3.** The newcomer's growth from lead 100 to 200: predicted at lead 100, and measured, in 40
# problems from each of four starts, with ten columns.

# %% [markdown]
# The prediction is good to .045 in the median over 139 runs, where a share that stands still would be off by
# several times that, and it errs to one side: in 97% of the runs the newcomer grew a little *less*. While it
# enters, it takes over comparisons that pulled along it, and $c$ falls. With the mean of $\xi^\top S\,
# \zeta$ at both ends for $c$ the error is .012; that explains, it does not predict. A newcomer with $c = 2$
# grows almost fourfold while the others double: its share almost doubles when the norm doubles. And the norm
# is the logarithm of time. (The law asks for an $S$ that hardly changes and a $c$ that is one singular
# value alone. Below $c = 1.15$ there is little to predict.)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 11.6 Who can arrive?
#
# A newcomer's share grows like a power of the norm, and the norm like the logarithm of time. To see far we
# let `flow.follow` with `move=inf` make every step half a percent of the pair's length. (Far out such steps
# overshoot: now one comparison pulls, now another, and the direction zigzags. So $S$ at one such moment
# means nothing; the direction does.) Stored: $\lVert W \rVert$ up to $10^{15}$, with $m = 10$, 3 and 2
# columns, each compared with the nuclear SVM of its own tokens.

# %%
lengths = long.length_late.median(("trial", "start", "m")).values
print(
    f"40 runs a row at norm {lengths[-1]:.0e}:   median    mean   least   at or above .99",
    f"  mean at {lengths[-3]:.0e}",
)
arrived = {}
for m in (10, 3, 2):
    for beta in (1.0, 0.1, 0.01, 0.001):
        ends = long.cosine_late.sel(m=m, start=beta).values  # (trials, norms)
        arrived[m, beta] = int((ends[:, -1] >= 0.99).sum())
        print(
            f"m = {m:2}, start {beta:<10g}{'':10}",
            *(f"{f(ends[:, -1]):7.3f}" for f in (np.median, np.mean, np.min)),
            end="",
        )
        print(f"{arrived[m, beta]:12d}{ends[:, -3].mean():20.3f}")
totals = {m: sum(count for (columns, _), count in arrived.items() if columns == m) for m in (10, 3, 2)}
print("at or above .99, of 160:", totals)
assert totals[10] == 148
assert arrived[10, 0.01] + arrived[10, 0.001] == 80 - 11
assert totals[3] == 133
assert totals[2] == 35
assert float(long.cosine_late.sel(m=10)[..., -1].min()) < 0.8

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
# **Figure 4.** Medians of forty problems in log time, from four starts, for ten, three and two columns. The
# first three points are at leads of 20, 100 and 200, the others at norms.


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
# **Try it** (Figure 4 without sliders): every run by itself. Long flat pieces are stalls. Which cell has the
# most runs that never come below the dotted line?

# %% [markdown]
# With ten columns, 148 of 160 runs are at .99 or above; of the other twelve, the least at .80, eleven come
# from the two smallest starts. With three, 133; with two, 35. So most runs have left their stalls, some have
# not, and with two columns most never seem to. Never? Their tokens tell.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 11.4: The ceiling
#
# ★★★ · 10 minutes
#
# $K$ and $Q$ have $m$ columns. Return the largest cosine that any $K Q^\top$ can have with a given
# $W_{\mathrm{nuc}}$. **Predict** before you run on: of the 125 runs with two columns that did not arrive, and
# of the 27 with three, are most barred by their ceiling?
#
# <details><summary>Hint</summary>
#
# Give each direction its best multiple. How far from $W_{\mathrm{nuc}}$ does it end?
# </details>


# %%
@exercise("11.4")
def ceiling(W_nuc, m):
    """The largest cosine: a number, for W_nuc (d, d), not zero, and m >= 1."""
    ### BEGIN SOLUTION
    singular = np.linalg.svd(W_nuc, compute_uv=False)
    return np.sqrt((singular[:m] ** 2).sum() / (singular**2).sum())
    ### END SOLUTION


# %%
check("11.4", ceiling)

# %%
print("160 runs each: arrived (rank above m)   barred: ceiling below .99 (within .02)   neither (rising)")
account = {}
for m in (10, 3, 2):
    cell = long.sel(m=m)
    ends, before = cell.cosine_late.values[..., -1].ravel(), cell.cosine_late.values[..., -3].ravel()
    goals = cell.goal.values.reshape(-1, d)  # the singular values of each run's own W_nuc
    limits = np.array([ceiling(np.diag(goal), m) for goal in goals])
    higher = (goals > 1e-3 * goals[:, :1]).sum(axis=1) > m  # ranks of W_nuc
    arrived, barred = ends >= 0.99, limits < 0.99
    neither = ~arrived & ~barred
    rising = neither & (ends > before + 0.002)  # by so much in the last four decades of the norm
    near = barred & (ends > limits - 0.02)
    account[m] = [int(one.sum()) for one in (arrived, arrived & higher, barred, near, neither, rising)]
    print("m = {:2}:{:14} ({:2}){:22} ({}){:30} ({})".format(m, *account[m]))
    assert (ends < limits + 1e-4).all(), again.format("11.4")
found = {10: [148, 0, 0, 0, 12, 11], 3: [133, 8, 8, 2, 19, 13], 2: [35, 22, 108, 7, 17, 1]}
assert account == found, again.format("11.4")
worst = ends[neither].argmin()
print(f"m = 2, neither, the least: cosine {ends[neither][worst]:.2f}, ceiling {limits[neither][worst]:.3f}")
assert ends[neither][worst] < 0.31

# %% [markdown]
# Where the ceiling is below .99 no run arrives, ever. A rank of $W_{\mathrm{nuc}}$ above $m$ alone bars none:
# 22 of the 35 that arrived with *two* columns have one. Most of the others are barred, but only 7 of these
# 108 come near their ceiling: it bounds, and does not predict. With *three* few are barred. Most of the
# others still rise, as do all but one of the twelve with *ten*: they are late. But with two columns some
# stand still that are not barred, one at .30: with no column to spare, there are worse points to stop at.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What the ridge does to a stall
#
# Lesson 04 ended with a cure, a little weight decay: it holds the pull up. A hundredth of torch's start,
# 4,000 exact steps of length .1, without and with the ridge:

# %%
for ridge in (0.0, EPS):
    W = product(descend(0.01 * KQ0, 4000, every=4000, ridge=ridge)[0])
    own, _, h = compared(torch.tensor(W), tokens)
    best = (geometry.selected_tokens(h) == tokens.optimal).all(-1).sum().item()
    above = "above" if own.min() > 0.985 else "below"
    print(f"ridge {ridge:.1e}: mean cosine {own.mean():.2f}, least {above} .985, best tokens in {best} of 12")
    assert (own.min() > 0.985) == (ridge > 0)

# %% [markdown]
# With the ridge the stalls are over after 4,000 steps, without it they are not. So the published figure lacks
# the stall, too.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 11.7 How many ranks has the solution? *(optional)*
#
# One more published figure: the rank of both SVMs against $d$. There the rank is the number of singular
# values above $10^{-7}$; that of $W_{\mathrm{fro}}$ saturates at $n$, and so, nearly, does that of
# $W_{\mathrm{nuc}}$: at $n = d = 15$, $T = 5$ we read 13.9 of 15. Is the nuclear solution of full rank after
# all?
#
# Count. Let $W$ be a solution of rank $r$, in balanced factors $K$ and $Q$ of $r$ columns, and let $N$
# comparisons be tight. Turn the columns a little, $K \to K (I + \delta H)$ and $Q \to Q (I + \delta H)$ with
# a symmetric $H$, so that $W \to K (I + \delta H)^2 Q^\top$. With $H' = 2 H + \delta H^2$ in place of $H$,
# $W$ moves along a line, $W + \delta K H' Q^\top$. The cost and the tight leads are linear in $H'$.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercise 11.5: How large can the rank be?
#
# ★★★ · 15 minutes
#
# From this (Barvinok 1995, Pataki 1998): if there are more unknowns in a symmetric $H'$ than tight
# comparisons, some $H' \ne 0$ leaves all their leads and hence (why?) the cost alone: $W$ is not the only
# solution. One can go along $H'$ until the rank falls, or until one more comparison is tight, and count
# again. Count the tight comparisons, and return the largest rank for which there are *not*
# more unknowns than that. Count also what lesson 10 knows: the rank is at most $\min(n, d)$. You are given
# all leads at $W$ (the least is 1 but for rounding and the solver); those up to `tol` above the least are
# tight.
#
# <details><summary>Hint</summary>
#
# How many numbers determine a symmetric $r \times r$ matrix?
# </details>


# %%
@exercise("11.5")
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
check("11.5", rank_limit)

# %% [markdown]
# Solutions need not be unique, and the count is about one of them; on random data there is one. We solve
# three sizes for the best tokens to a relative gap of $10^{-7}$. Beside the rank stands the gap in $S$: the
# first singular value of $S$ *after* those. Where it is clearly below 1, what $W$ has outside is bounded
# by (solver's gap) / (1 − that value), as a share of $\lVert W \rVert_*$, on the diagonal in $S$'s singular
# vectors. `svm.certified_rank` counts with $\sqrt{\text{gap}}$ for that share. That is a threshold too,
# three parts in ten thousand, so "certified" means: *all but such a share of $W$ lies in so many directions*.

# %%
print("n, T, d      tight comparisons, mean    limit      rank, mean    next singular value of S at most")
means = {}
for n, T, dim in ((15, 5, 15), (15, 5, 30), (10, 5, 10), (10, 5, 30), (5, 15, 10)):
    drawn = data.random_tokens(n, T, dim, trials=20, seed=3)
    problem = svm.attention_problem(drawn.X, drawn.z, drawn.optimal)
    found = svm.solve(problem, norm="nuc", tol=1e-7, throw=False)
    solved = torch.as_tensor(found.status == "optimal")
    h = drawn.compare(drawn.z @ found.value.mT)
    others = torch.arange(T) != drawn.optimal[..., None]
    ahead = (h.gather(-1, drawn.optimal[..., None]) - h)[others].reshape(20, n, T - 1)[solved].numpy()
    rank = svm.certified_rank(problem, found)[solved]
    after = torch.linalg.svdvals(problem.adjoint(found.dual))[solved].gather(-1, rank[:, None])
    tight = (ahead <= ahead.min(axis=(1, 2), keepdims=True) + 1e-4).sum(axis=(1, 2))
    limit = np.array([rank_limit(one, dim, 1e-4) for one in ahead])
    means[n, dim] = tight.mean(), rank.double().mean().item()
    print(f"{n:2}, {T:2}, {dim:2} {tight.min():9d} to {tight.max()}, {tight.mean():4.1f}", end="")
    print(f"{limit.min():11d} to {limit.max()}", end="")
    print(f"{rank.min():7d} to {rank.max()}, {means[n, dim][1]:3.1f}{after.max():16.2f}")
    assert (rank.numpy() <= limit).all(), again.format("11.5")
    assert (limit < min(n, dim)).any() or n == 5, again.format("11.5")
    assert after.max() < 0.999
for few_dims, many in (((15, 15), (15, 30)), ((10, 10), (10, 30))):
    assert means[many][0] > means[few_dims][0] + 4
    assert abs(means[many][1] - means[few_dims][1]) < 0.5

# %% [markdown]
# The rank is at most about the root of twice the tight comparisons. Of these there are more in more
# dimensions, but the rank stays, which is more than the count says. The stored sweep `11.ranks` has 40
# problems in each of the paper's 40 cells, with the best tokens selected, as there. It stops our own solver
# at gaps of $10^{-3}$, $10^{-5}$ and $10^{-7}$, counts with the paper's threshold, and certifies the last.

# %%
ranks = measured("11.ranks").load()
solved, infeasible = ranks.certified >= 0, ranks.certified == -1
print("share of feasible problems")
print("   n, T  ", *(f"d = {value:<3d}" for value in ranks.d.values))
for n_T in ranks.n_T.values:
    print(f"{n_T:>8} ", *(f"{value:7.2f}" for value in solved.sel(n_T=n_T).mean("trial").values))
print(f"feasible {int(solved.sum())}, proved infeasible {int(infeasible.sum())}, of {solved.size}")
names = {
    "frobenius": "W_fro",
    "loose": "gap 1e-3",
    "middle": "gap 1e-5",
    "tight": "gap 1e-7",
    "certified": "certified",
}
for name, label in names.items():
    print(
        f"n = d = 15, T = 5, mean rank by {label:10} {float(ranks[name].sel(n_T='15, 5', d=15).mean()):5.2f}"
    )
assert int((solved | infeasible).sum()) == solved.size == 1600
middle = ranks.sel(n_T="15, 5", d=15)
assert float(middle.loose.mean()) > 11 > 6 > float(middle.certified.mean())
assert float((ranks.tight == ranks.certified).where(solved).mean()) > 0.99
assert float((ranks.loose == ranks.certified).where(solved).mean()) < 0.4
assert int(ranks.certified.max()) <= 7
assert not bool(solved.sel(d=1).any())

# %% jupyter={"source_hidden": true} slideshow={"slide_type": "subslide"}
fig, axes = plt.subplots(1, 3, figsize=(8.6, 3), sharey=True)
series = {
    "frobenius": (BLUE, "o", r"$W_{\mathrm{fro}}$"),
    "loose": (ORANGE, "s", r"$W_{\mathrm{nuc}}$, gap $10^{-3}$"),
    "middle": (PURPLE, "^", r"$W_{\mathrm{nuc}}$, gap $10^{-5}$"),
    "certified": (GREEN, "D", r"$W_{\mathrm{nuc}}$, certified"),
}
for ax, n_T in zip(axes, ("5, 5", "10, 5", "15, 5"), strict=True):
    for name, (color, marker, label) in series.items():
        means = ranks[name].where(solved).sel(n_T=n_T).mean("trial")
        ax.plot(ranks.d, means, marker=marker, color=color, label=label, markersize=5)
    ax.set(title=f"$n = {n_T.split(',')[0]}$, $T = 5$", xlabel="$d$")
axes[0].set_ylabel("mean rank, where feasible")
axes[0].legend(fontsize=9, loc="upper left")
axes[0].set_ylim(0, 15.5)
show(
    fig,
    alt="Mean rank against d for n = 5, 10 and 15. The Frobenius rank rises to n. The nuclear one, read "
    "from a loose solution, is nearly as high; a more accurate solution gives 3 to 5, and so does the "
    "certificate.",
)

# %% [markdown]
# **Figure 5.** Ranks by a threshold of $10^{-7}$, and certified, for three of the five pairs $n$, $T$. Cells
# in which no problem is feasible are left out.

# %% [markdown]
# A threshold on $W$ sees what the solver left: stopped at a gap of $10^{-3}$, our own gives a mean rank of
# 12.4 of 15, like the published 13.9 (whose solver we do not know); at $10^{-7}$ it gives 4.65, as the
# certificate does. No certified rank is above 7 in the 1,102 feasible problems: the nuclear SVM has a *low*
# rank.
#
# The published ranks start at 1 for $d = 1$. There every problem of ours is infeasible, as are 62% to 100% at
# $d = 2$ (proved, by Farkas weights as in lesson 02): there is no matrix to have a rank.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 11.8 Claims and measurements
#
# | claim | prediction | measured |
# |:---|:---|:---|
# | where they head | $W_{\mathrm{nuc}}$; $W$ alone: $W_{\mathrm{fro}}$ | .98, .99; .84 to the other |
# | a ridge makes the figure | near $W_{\mathrm{nuc}}$ at once | .997, .996; exact without: .985, .985 |
# | the public run is not at rest | $\eta^* = 2 \varepsilon / h$ below .1 | residual above .2 in 12 of 12 |
# | which run rests at $\eta = .005$ | $\eta^* > .005$: 10 | the same 10 |
# | gradients in the cycle | mean square below $(\eta h / 2 - \varepsilon)^2$ | root .82 to .94 of it |
# | $\eta^*$ from the tokens | $1 / \lVert \sum \lambda_{it} a_{it} a_{it}^\top \rVert$ | .95 to 1.15 of it |
# | float32's $\varepsilon$ | $\eta^* \lVert W \rVert_*$ stays | within 15 percent |
# | it selects the best tokens | | 31, 39 and 16 of 40; own 9 of 12 |
# | the length at rest | above $\sum \lambda_{it} \Delta_{it}$ | by at most one percent in 12 of 12 |
# | the newcomer grows like the power $c$ | $c$ at lead 100 | median error .045 in 139 runs, 97% below |
# | with ten columns | ceiling 1 | 148 of 160 at .99; least .80 |
# | with three, two | none if own ceiling is below .99 | 133, 35 of 160; 8 and 108 of 160 barred |
# | a bound on the rank | $r (r + 1) / 2 \le N$ | in all of 100 problems |
# | nuclear ranks are low | | at most 7 in 1,102 problems; 498 infeasible |

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Questions
#
# <details><summary>1. Somebody trains (K, Q) in exact arithmetic with the ridge and the eps of float32,
# 1.2e-7. What changes?</summary>
#
# The ridge is stronger, so rest is at a shorter $W$ (exercise 11.2), farther from $W_{\mathrm{nuc}}$: leads
# are near $\log 10^7$, and less the constants. The largest step that lets a run rest is longer, as many times
# as $W$ is shorter, about: 2.4 to 2.8 times in our twelve problems (section 11.3).
# </details>
#
# <details><summary>2. A run stands still at cosine .94, its S has c = 1.6, and m = d. Has it
# converged?</summary>
#
# No. If $S$ keeps its shape (we tested that over one doubling of the norm), a newcomer's share grows like the
# norm to the power 0.6: to be ten times as large it needs a norm 46 times as large, or more, and leads as
# much longer. The loss is above its limit by about $e^{-\text{lead}}$: 46 times as many zeros. It stands
# still for those who look at steps.
# </details>
#
# <details><summary>3. Why does the eps in the normaliser freeze an exact gradient, and the ridge
# not?</summary>
#
# An exact gradient is about $e^{-\Delta}$. Beyond a lead of 36 it is below $\varepsilon$, and each step is
# $\eta\, \lVert g \rVert / \varepsilon$ long. So the lead grows at a rate like $e^{-\Delta}$, that is like
# $\log t$, and steps shrink like $1 / t$: each doubling of the steps adds nearly the same to the length, two
# percent of it (section 11.3, below the table). With the ridge the gradient has a part $2 \varepsilon K$,
# which is longer than $\varepsilon$ once $\lVert K \rVert > \frac12$: the steps stay long enough, even too
# long.
# </details>
#
# <details><summary>4. A run's loss does not change any more. How do you tell rest from a cycle?</summary>
#
# Look at two steps in a row, or at the residual. Every second step alone, or the length, shows neither.
# </details>

# %%
progress("11")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - Trained as $K Q^\top$, attention heads for the **nuclear** Att-SVM of the tokens it selects; trained as
#   $W$, for the Frobenius one.
# - The published .997 is a **ridge** of one machine epsilon at work; exact descent without it has .985. The
#   public run cycles around a KKT point; steps below $2 \varepsilon / h$ rest there, with $\lVert S
#   \rVert_{\mathrm{op}} = 1$. Its tokens alone tell its length, to a percent, and that step, to a sixth.
# - The tokens are the run's own. In a quarter of the published problems they are not all the best ones,
#   which are the theorem's.
# - Without the ridge, descent stalls near KKT points of too low a rank; $c = \lVert S \rVert_{\mathrm{op}}$
#   predicts, a little too high, how fast each newcomer grows. Very small starts lag.
# - In log time most runs with enough columns come to .99 and above, some have not. With fewer columns than
#   $W_{\mathrm{nuc}}$ has ranks, the **ceiling** bounds how near one can come.
# - The rank is bounded by the tight comparisons; a threshold on $W$ measures the solver.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Further reading
#
# - D. A. Tarzanagh, Y. Li, C. Thrampoulidis, S. Oymak. *Transformers as support vector machines.* 2023,
#   arXiv:2308.16898. The nuclear Att-SVM and both figures of this lesson.
# - H. Sheen, S. Chen, T. Wang, H. H. Zhou. *Implicit regularization of gradient flow on one-layer softmax
#   attention.* 2024, arXiv:2403.08699. Gradient flow on $(K, Q)$ with exponential loss, from aligned starts.
# - F. Boncoraglio, V. Erba, E. Troiani, F. Krzakala, L. Zdeborová. *Inductive bias and spectral properties
#   of single-head attention in high dimensions.* 2025, arXiv:2509.24914. Weight decay, where it ends,
#   sharply.
# - E. Boix-Adserà, E. Littwin, E. Abbe, S. Bengio, J. Susskind. *Transformers learn through gradual rank
#   increase.* 2023, arXiv:2306.07042. One direction after the other.
# - K. Lyu, J. Li. *Gradient descent maximizes the margin of homogeneous neural networks.* ICLR 2020,
#   arXiv:1906.05890: why limits of such flows are KKT points (for linear models of the product).
#
# - G. Pataki. *On the rank of extreme matrices in semidefinite programs and the multiplicity of optimal
#   eigenvalues.* Mathematics of Operations Research 23, 1998: the count of exercise 11.5.
#
# The law of the newcomer in attention, the length at rest, and the cycle of the public run are this lesson's
# own: short arguments and measurements, not theorems.
#
# **New in the library:** [`models.FactoredAttention`](../mini_attn/models.py),
# [`flow.follow`](../mini_attn/flow.py), [`flow.forces`](../mini_attn/flow.py),
# [`flow.Flow`](../mini_attn/flow.py), [`paths.ridge_path`](../mini_attn/paths.py), `train.fit(ridge=)`.
#
# **Next:** [lesson 12](12_overparameterization.ipynb) asks when the selected tokens are the best ones.
