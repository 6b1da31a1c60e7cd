# %% [markdown] slideshow={"slide_type": "slide"}
# # 10 · Cross- and self-attention
#
# In part II one vector $p$ asked the same question of every sequence. A transformer lets each sequence ask
# its own: sequence $i$ brings a **query** $z_i$, and a matrix $W$ turns it into the vector that its tokens
# are compared with. If the query is one of the tokens, this is *self-attention*.
#
# **The question: where does gradient descent take the matrix $W$, and what does it learn where the query is
# itself the answer?**

# %% [markdown]
# **After this lesson you can**
#
# - turn statements about $p$ into statements about $W$, and bound the rank of $W_{\mathrm{mm}}$;
# - derive the first step of self-attention, and say when a query still attends to itself after it;
# - say what other sequences add, and how near $W_{\mathrm{mm}}$ comes to $bI$.
#
# **You need** [lesson 02](02_hard_margin_svm.ipynb) (hard-margin SVM), [lesson
# 03](03_optimizer_geometry.ipynb) (norms), [lesson 04](04_matrix_factorization.ipynb) (nuclear norm), [lesson
# 05](05_softmax_attention.ipynb) (gradient), [lesson 06](06_attention_as_svm.ipynb) (Att-SVM), [lesson
# 07](07_local_global_tokens.ipynb) (local optimality) and [lesson 08](08_regularization_path.ipynb) (path).
# About 80 minutes (120 with a pencil) with three exercises, and 30 more for the optional section 10.9 with
# one.

# %%
import dataclasses

import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure
from scipy.stats import beta

from course.exercise import check, exercise, progress, todo
from course.figure import show
from mini_attn import data, geometry, losses, models, optim, plots, svm, train, widgets
from mini_attn.gradients import closed_form
from mini_attn.paths import regularization_path

plots.style()
torch.set_num_threads(1)  # many small tensors: one thread is fastest
BLUE, ORANGE, BLACK = (plots.COLORS[name] for name in ("blue", "vermillion", "black"))
again = "this differs from the text: if exercise {} has no tick, start there"

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10.1 The idea in a picture
#
# There are $n$ sequences of $T$ tokens $x_{it} \in \mathbb{R}^d$, each with a query $z_i \in \mathbb{R}^d$
# and a label $y_i = \pm 1$. The head $v$ is fixed, and with it the scores $\gamma_{it} = y_i\, v \cdot
# x_{it}$. We train $W$:
#
# $$L(W) = \frac1n \sum_i \ell(u_i), \qquad u_i = \sum_t s_{it}\, \gamma_{it}, \qquad
# s_i = \mathrm{softmax}(h_i), \qquad h_{it} = x_{it}^\top W z_i .$$
#
# Sequence $i$ sees $W$ only through *its* $p$, the vector $p_i = W z_i$, compared with its tokens as in
# lesson 06. For chosen tokens, $W_{\mathrm{mm}}$ is the shortest $W$ whose logits put them ahead of all
# others of the same sequence by at least 1.


# %%
def fit(model, tokens, steps=2000, lr=0.1, **options):
    """Normalised steps of length lr in every trial, in place: what was recorded, with W (records, ...)."""
    optimizer = optim.NormalizedGD(model.parameters(), lr=lr, batch_dims=len(tokens.trials))
    run = train.fit(model, tokens, optimizer, steps, record={"W": lambda m: m.W}, progress=False, **options)
    model.requires_grad_(False)
    return run


def att_svm(tokens, selected, norm="fro"):
    """The Att-SVM for W of the selected tokens (trials, n)."""
    return svm.solve(svm.attention_problem(tokens.X, tokens.z, selected), norm=norm, throw=False)


plane, every = {3: 41, 5: 23}, [*range(1, 40), *range(40, 2000, 40)]  # tokens: the draw that is shown
for T, k in plane.items():
    draws = data.random_tokens(n=2, T=T, d=2, trials=100, seed=9)
    free = models.CrossAttention(2, trials=100)
    keyed = models.FactoredAttention(2, m=2, trials=100, scale=0.3)  # K, Q: m columns, entries of this size
    path, factored = (fit(model, draws, every=every)["W"] for model in (free, keyed))  # (records, 100, 2, 2)
    selected = geometry.selected_tokens(free.attention(draws))
    W_mm = att_svm(draws, selected).value
    alike = [geometry.cosine(W[-1], W_mm) for W in (path, factored)]
    shown = dataclasses.replace(draws, **{name: getattr(draws, name)[k] for name in "Xzyv"})
    plane[T] = shown, selected[k], W_mm[k], path[:, k], factored[:, k]
    print(f"T = {T}, cosine to W_mm: W {alike[0][k]:.2f}, K and Q {alike[1][k]:.2f}")
    assert (alike[0][k] > 0.998) & (alike[1][k] > 0.98)


# %% jupyter={"source_hidden": true}
def draw_plane(ax, tokens, selected, W_mm, path=None, factored=None):
    """Tokens and queries on the unit circle, rays along W_mm z, and W z / ||W|| along a run."""
    turn = np.linspace(0, 2 * np.pi, 200)
    ax.plot(np.cos(turn), np.sin(turn), color=plots.COLORS["grey"], linewidth=0.8)
    for i, (color, marker) in enumerate(((BLUE, "o"), (ORANGE, "s"))):
        X, z, alpha = tokens.X[i].numpy(), tokens.z[i].numpy(), int(selected[i])
        others = np.delete(X, alpha, axis=0)
        ax.plot(*others.T, marker, color=color, markersize=8, markerfacecolor="none", zorder=4)
        ax.plot(*X[alpha], marker, color=color, markersize=11, zorder=4)
        ax.plot(*(1.26 * z), marker=f"$z_{i + 1}$", color=plots.ink(color), markersize=13)
        if W_mm is None:
            continue
        p = W_mm.numpy() @ z
        unit = p / np.linalg.norm(p)
        ax.plot([0, unit[0]], [0, unit[1]], "--", color=BLACK, linewidth=1.4, zorder=2)
        cut = (unit @ X[alpha] + (others @ unit).max()) / 2
        if abs(cut) < 1:
            half = np.sqrt(1 - cut**2) * np.array([-unit[1], unit[0]])
            ax.plot(*np.stack([cut * unit - half, cut * unit + half]).T, ":", color=color, linewidth=1.8)
        if path is not None:
            walk = (path @ tokens.z[i] / path.flatten(1).norm(dim=1)[:, None])[1:].numpy()
            ax.plot(*walk.T, color=color, linewidth=2.5, zorder=3)
            ax.plot(*walk[-1], ".", color=color, markersize=14, zorder=5)
            end = (factored[-1] @ tokens.z[i] / factored[-1].norm()).numpy()
            ax.plot(*end, marker="D", color=color, markersize=4, markerfacecolor="white", zorder=6)
    ax.set(xlim=(-1.4, 1.4), ylim=(-1.4, 1.4), aspect="equal")
    ax.set(xlabel="first coordinate", ylabel="second coordinate", xticks=[-1, 0, 1], yticks=[-1, 0, 1])


fig, axes = plt.subplots(1, 2, figsize=(8.4, 4.4), sharey=True)
for ax, (T, drawn) in zip(axes, plane.items(), strict=True):
    draw_plane(ax, *drawn)
    ax.set_title(f"$n = 2$, $T = {T}$")
axes[1].set_ylabel("")
show(
    fig,
    alt="Two unit circles, with three and with five tokens of each of two sequences on them. Inside, a blue "
    "and an orange curve, W applied to each query, end at dots on dashed rays. A dotted line orthogonal to "
    "each ray cuts the selected token, drawn full, off from the other tokens of its sequence. Small "
    "diamonds, for keys and queries, lie on the dots.",
)

# %% [markdown]
# **Figure 1.** Sequence 1 in blue (circles), sequence 2 in orange (squares); the selected token is full.
# Outside: the queries. Curves, ending at a dot: $W z_i / \lVert W \rVert_F$ along 2,000 normalised steps from
# $W = 0$, from the first step on. Dashed: the direction of $W_{\mathrm{mm}}\, z_i$. Dotted: the line
# orthogonal to it, halfway between the selected token and the next. Small diamonds: the end if
# $W = K Q^\top$, with $K$ and $Q$ trained (lesson 11's method); in these two draws, picked from 100 each, it
# is nearly the same.

# %% [markdown]
# **Try it.** Turn the second query. For which tokens of sequence 2 is there a solution even with equal
# queries?


# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output", "widget"]
def two_sequences(degrees):
    """Two sequences in the plane, with the second query at an angle to the first."""
    angle = np.radians(degrees)
    where = np.radians([[60, 150, 280], [20, 100, 215]])
    X = torch.tensor(np.stack([np.cos(where), np.sin(where)], axis=-1))
    z = torch.tensor([[1.0, 0.0], [np.cos(angle), np.sin(angle)]], dtype=torch.float64)
    ones = torch.ones(2, dtype=torch.float64)
    return data.TokenData(X=X, z=z, y=ones, v=ones)


def turned(degrees, token):
    """Sequence 1 is to select token 1, sequence 2 a token of choice."""
    tokens, choice = two_sequences(degrees), torch.tensor([0, token - 1])
    solution = att_svm(tokens, choice)
    possible = str(solution.status) == "optimal"
    figure = Figure(figsize=(4, 4), layout="none")  # constrained layout would draw twice
    ax = figure.add_axes((0.13, 0.11, 0.84, 0.78))
    draw_plane(ax, tokens, choice, solution.value if possible else None)
    ax.set_title(f"margin {1 / solution.objective:.2f}" if possible else "infeasible", fontsize=12)
    return figure


same_query = [str(att_svm(two_sequences(0), torch.tensor([0, token])).status) for token in range(3)]
assert same_query == ["optimal", "optimal", "infeasible"]
wide = {"style": {"description_width": "110px"}, "layout": ipywidgets.Layout(width="480px")}
widgets.sliders(
    turned,
    alt="Tokens and queries of two sequences on the unit circle, and the rays of the two p that W_mm makes.",
    degrees=ipywidgets.IntSlider(value=60, min=-180, max=180, step=5, description="query 2", **wide),
    token=ipywidgets.IntSlider(value=1, min=1, max=3, description="token of seq. 2", **wide),
)

# %% [markdown]
# <details><summary>Answer</summary>
#
# For tokens 1 and 2. With equal queries one $p$ must serve both. For sequence 1 its angle must be between
# $-10$ and 105 degrees; for token 3 of sequence 2 between 157.5 and 297.5: these have nothing in common.
# </details>

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10.2 W is a p
#
# The logit is linear in $W$. With $\langle A, B \rangle = \sum_{jl} A_{jl} B_{jl}$,
#
# $$h_{it} = x_{it}^\top W z_i = \langle x_{it} z_i^\top,\, W \rangle = k_{it} \cdot \mathrm{vec}(W), \qquad
# k_{it} = \mathrm{vec}(x_{it} z_i^\top) \in \mathbb{R}^{d^2} .$$
#
# So $W$, as one long vector, is the $p$ of lesson 06; the **keys** are the outer products $x_{it} z_i^\top$.

# %% [markdown]
# ### Exercise 10.1: The first step, without a matrix
#
# ★★☆ · 13 minutes
#
# *Predict before you measure.* From $W = 0$ we take one plain step, $W = -\eta\, \nabla L(0)$, for the
# logistic loss $\ell(u) = \log(1 + \exp(-u))$. Return all logits after it, without ever forming $W$. Which
# sequences change the logits of sequence $i$?
#
# <details><summary>Hint 1</summary>
#
# At $W = 0$ attention is $1/T$ everywhere. Lesson 05 has the slope of $u_k$ in $h_{kt}$.
# </details>
#
# <details><summary>Hint 2</summary>
#
# Sequence $k$ adds to the step a vector made of its tokens, times $z_k^\top$. Then read the logits.
# </details>


# %%
@exercise("10.1")
def first_logits(X, z, scores, lr):
    """Return the logits (n, T) after one step, for tokens X (n, T, d), queries z (n, d), scores (n, T)."""
    ### BEGIN SOLUTION
    n, T, _ = X.shape
    u = scores.mean(axis=1, keepdims=True)
    pull = np.einsum("kt,ktd->kd", (scores - u) / (1 + np.exp(u)), X)  # one vector for each sequence
    return lr / (n * T) * np.einsum("ik,kd,itd->it", z @ z.T, pull, X)
    ### END SOLUTION


# %%
check("10.1", first_logits)

# %%
six = data.random_tokens(n=6, T=8, d=10, seed=1)
step = -100 * closed_form(models.CrossAttention(10), six, losses.logistic)()[1]["W"]
measured = models.CrossAttention(10, init=step).logits(six).detach().numpy()
predicted = first_logits(*(array.numpy() for array in (six.X, six.z, six.scores)), 100.0)
assert np.abs(measured - predicted).max() < 1e-9, again.format("10.1")
print(f"all {measured.size} logits as predicted")

# %% [markdown]
# Sequence $k$ changes the logits of sequence $i$ by
#
# $$\frac{\eta}{n}\, (z_k \cdot z_i)\; |\ell'(u_k)|\, \frac1T
# \sum_j (\gamma_{kj} - u_k)\, (x_{kj} \cdot x_{it}) ,$$
#
# in proportion to $z_k \cdot z_i$: none if the two queries are orthogonal.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10.3 The Att-SVM for W
#
# Where do many steps lead? Choose a token $\alpha_i$ in each sequence, and let $a_{it} = x_{i\alpha_i} -
# x_{it}$. For the keys above, lesson 06's SVM reads:
#
# > **Att-SVM for $W$**
# >
# > $$W_{\mathrm{mm}}(\alpha) = \arg\min_W \lVert W \rVert_F \quad \text{subject to} \quad
# > (x_{i\alpha_i} - x_{it})^\top W z_i \ge 1 \quad \text{for every } i,\; t \ne \alpha_i .$$
#
# > **Theorem** (lessons 06 and 07, for the keys $\mathrm{vec}(x_{it} z_i^\top)$; Tarzanagh, Li,
# > Thrampoulidis and Oymak, 2023, state it for $W$; informal).
# >
# > *Conditions.* $\ell' < 0$ is bounded and Lipschitz, as the logistic loss's. The Att-SVM of $\alpha$ is
# > feasible, and $\alpha$ locally optimal: each support token, whose constraint holds with equality, scores
# > strictly below $\alpha_i$. Plain gradient steps have a constant factor $\eta$, at most a bound that the
# > smoothness of $L$ sets.
# >
# > *Then* there are an angle and a radius such that from every start within that angle of
# > $W_{\mathrm{mm}}(\alpha)$ and longer than that radius, $\lVert W \rVert_F \to \infty$ and $W / \lVert W
# > \rVert_F \to W_{\mathrm{mm}} / \lVert W_{\mathrm{mm}} \rVert_F$.
#
# The norm is Frobenius' because gradient descent measures $W$ as a long vector (lesson 03). Our runs take
# normalised steps, from other starts: that they end there too is a measurement. The problem is lesson 02's,
# with the points $a_{it}\, z_i^\top$, all with the label 1.


# %%
one = data.random_tokens(n=6, T=8, d=10, seed=0)
own = zip(one.X, one.z, one.optimal, strict=True)  # tokens, query and choice of each sequence
points = torch.stack([torch.outer(x[k] - x[t], q) for x, q, k in own for t in range(8) if t != k])
plain = svm.solve(svm.label_problem(points.flatten(1), torch.ones(42)))  # 42 points in 100 dimensions
W_mm = plain.value.reshape(10, 10)
lam = plain.objective * plain.dual  # the solver minimises ||W||, whose gradient is W / ||W||: times ||W||
rank = torch.linalg.matrix_rank(W_mm, rtol=1e-4)
print(f"{len(lam)} comparisons, {(lam > 1e-9).sum()} with weight; W_mm: norm {W_mm.norm():.4f}, rank {rank}")
leads = geometry.margins(models.CrossAttention(10, init=W_mm).logits(one), one.optimal)
assert abs(leads.min() - 1) < 1e-6
assert (W_mm - torch.einsum("m,mde->de", lam, points)).abs().max() < 1e-6

# %% [markdown]
# The solution is a sum of the points, weighted by the dual variables $\lambda_{it} \ge 0$ (`lam`):
#
# $$W_{\mathrm{mm}} = \sum_i \bar a_i\, z_i^\top, \qquad \bar a_i = \sum_{t \ne \alpha_i} \lambda_{it} a_{it},
# \qquad p_i = W_{\mathrm{mm}}\, z_i = \sum_k (z_k \cdot z_i)\, \bar a_k .$$
#
# (The solver minimises $\lVert W \rVert_F$. These $\lambda_{it}$ belong to $\frac12 \lVert W \rVert_F^2$,
# whose gradient $W$ is $\lVert W \rVert_F$ times that of $\lVert W \rVert_F$.)
#
# **What is feasible?** Equal queries share one $p$. Linearly independent queries leave every $p_i$ free: then
# a choice is feasible if and only if each sequence *by itself* is. With distinct tokens of length one it
# always is, as $p_i = x_{i\alpha_i}$ prefers $x_{i\alpha_i}$ to all others.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10.4 What sequences share
#
# **The rank.** The rows of the sum are combinations of the queries. So the rank of $W_{\mathrm{mm}}$ is at
# most $\min(n, d)$, and at most the number of different queries.
#
# **Help or conflict?** Two sequences have the *same* two tokens, and unit queries at an angle $\varphi$. The
# margin is the distance of 0 from the hull of the points (lesson 02), here $x_1 - x_2$ times the segment from
# $z_1$ to $\pm z_2$, which is nearest to 0 at its midpoint. So
# $\lVert W_{\mathrm{mm}} \rVert_F = 1 / (\lVert x_1 - x_2 \rVert \cos \frac{\varphi}{2})$ if both select the
# same token, with the sine if not: below 90 degrees agreement is cheap and a conflict dear. Section 10.7
# takes up many sequences.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10.5 The paper's data
#
# Does descent end at an Att-SVM, and of which tokens? The paper's public code takes $n = 6$, $T = 8$, $d =
# 10$, all vectors uniform on the unit sphere, 2,000 normalised steps of length 0.1 from the start of
# `torch.nn.Linear`. We train 100 trials, and again from zero with *growing* steps, of length $0.1 \sqrt{j}$
# in step $j$. We also follow lesson 08's path, the least loss for $\lVert W \rVert_F \le R$, from $R = 1$ to
# 1000: this finds a *branch*, which need not stay the least. The table compares $W$ with the Frobenius and
# the nuclear SVM (lesson 04's norm) of the tokens it selects, and counts trials.

# %%
cross = data.random_tokens(n=6, T=8, d=10, trials=100, seed=2)
record_at, curves = [1, 3, 10, 30, 60, 100, 200, 400, 700, 1000, 1400, 2000], {}
draw = torch.rand(100, 10, 10, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
start = (2 * draw - 1) / 10**0.5  # torch.nn.Linear: uniform between -1/sqrt(d) and 1/sqrt(d)
paper, zero, ball = (models.CrossAttention(10, trials=100, init=init) for init in (start, None, None))
long = fit(paper, cross, 4000, every=[*record_at, 4000])["W"][1:]
runs = {
    "growing": fit(zero, cross, every=[2000], schedule=train.growing)["W"][1:],
    "the paper's": long[:-1],
    "4,000 steps": long,
    "branch": regularization_path(ball, cross, [1, 3, 10, 30, 100, 300, 1000])["W"],
}
print("             Frobenius: mean   least   nuclear: mean   locally optimal   best tokens")
for name, W in runs.items():
    selected = models.CrossAttention(10, trials=100, init=W[-1]).logits(cross).detach().argmax(-1)
    limits = {norm: att_svm(cross, selected, norm).value for norm in ("fro", "nuc")}
    curves[name] = {norm: torch.stack([geometry.cosine(w, V) for w in W]) for norm, V in limits.items()}
    fro, nuclear = curves[name]["fro"][-1], curves[name]["nuc"][-1].mean()
    logits = models.CrossAttention(10, trials=100, init=limits["fro"]).logits(cross)
    local = geometry.locally_optimal(cross.scores, logits, selected).sum()
    hit = (selected == cross.optimal).all(-1)
    print(f"{name:12s} {fro.mean():15.3f} {fro.min():7.3f} {nuclear:15.3f} {local:17d} {hit.sum():13d}")
    assert 0.84 < nuclear < 0.88 < 0.99 < fro.mean()
    assert abs(geometry.cosine(limits["fro"], limits["nuc"]).mean() - nuclear) < 0.01
    assert local == 100 - (name == "the paper's")
    assert fro.min() > (0.999 if name in ("growing", "branch") else 0.97)

# %% jupyter={"source_hidden": true} slideshow={"slide_type": "subslide"}
fig, ax = plt.subplots(figsize=(5.5, 3.6))
for norm, color, line, marker, beside in (("fro", BLUE, "-", "o", 0.95), ("nuc", ORANGE, "--", "s", 1.05)):
    cosines, steps = curves["the paper's"][norm], beside * np.array(record_at)
    low, high = (cosines.quantile(q, dim=1) for q in (0.1, 0.9))
    ax.vlines(steps, low, high, color=color, linewidth=4, alpha=0.4)
    name = {"fro": "Frobenius SVM", "nuc": "nuclear SVM"}[norm]
    ax.plot(steps, cosines.mean(1), line, marker=marker, color=color, label=name)
ax.set(xscale="log", xlabel="step", ylabel="cosine of $W$ to the SVM", ylim=(-0.25, 1.02))
ax.legend(loc="lower right")
show(
    fig,
    alt="Cosine of W to the two SVMs against steps of constant length. The mean cosine to the Frobenius SVM "
    "rises to above 0.99; that to the nuclear SVM levels off near 0.86, with wide bars.",
)

# %% [markdown]
# **Figure 2.** The published experiment again, with its constant steps: means of 100 trials, and bars for the
# middle 80%, drawn 10% apart. The nuclear line levels off near the mean cosine between the two SVMs (the cell
# checks: within .01).

# %% [markdown]
# **On these data $W$ goes to the Frobenius SVM of its own choice of tokens, a local one:** with constant
# steps it is local in 99 trials at step 2,000, in 100 at step 4,000. But these runs are unfinished: in
# between, at least two trials change tokens (73 and 75 choose the best), so at least one that was local
# already, and at step 4,000 the least cosine is lower, .976. With growing steps it ends above .999 in all 100
# trials. But only 72 of them choose the best tokens, feasible in all (10.3: six random queries are linearly
# independent), on the branch 65. *The path itself* ends at the best (lesson 08).

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10.6 When the query is one of the tokens
#
# In **self-attention** the query is a token of its own sequence, say the first, $z_i = x_{i1}$: in training,
# let it be **the best**. One rule serves all, *attend to yourself*. With $W = bI$, $b > 0$, every token of
# length one puts itself first,
#
# $$x_{i1}^\top W x_{i1} - x_{it}^\top W x_{i1} = b\,(1 - x_{it} \cdot x_{i1}) > 0 .$$
#
# **Is it $bI$ that is learned?** Take *endless data* first: descent on the loss $\bar L$ averaged over all
# data. One direction is special, $v$, which ranks the tokens. Turn all tokens by an orthogonal $\Omega$ with
# $\Omega v = v$: their scores stay. If tokens and labels have a law that prefers no other direction, the
# turned data are as likely as the old ones. So
#
# $$\bar L(\Omega^\top W \Omega) = \bar L(W) , \qquad
# \nabla \bar L(\Omega^\top W \Omega) = \Omega^\top\, \nabla \bar L(W)\, \Omega .$$
#
# If $\Omega^\top W \Omega = W$ for all such $\Omega$, then $\nabla \bar L(W)$ has this property too, and
# descent from zero keeps it, as 0 has it and sums keep it.

# %% [markdown]
# ### Exercise 10.2: What symmetry leaves of W
#
# ★★★ · 20 minutes
#
# Return the average of $\Omega^\top W \Omega$ over *all* orthogonal matrices $\Omega$ (rotations and
# reflections) with $\Omega v = v$, for any matrix $W$ and any $v \ne 0$ in $d \ge 2$ dimensions.
#
# <details><summary>Hint 1</summary>
#
# Call it $A$. Then $\Omega A = A \Omega$ for each such $\Omega$. What is $\Omega (A v)$? Across $v$, the
# $\Omega$ are all orthogonal matrices of $d - 1$ dimensions: what commutes with all of them? Try the
# reflection of one axis, and the exchange of two.
# </details>
#
# <details><summary>Hint 2</summary>
#
# Two numbers are left. So look for two linear functions of $W$ that the average does not change.
# </details>


# %%
@exercise("10.2")
def symmetric_part(W, v):
    """Return the average, (d, d), for W (d, d) and v (d,)."""
    ### BEGIN SOLUTION
    P = np.outer(v, v) / (v @ v)
    along = np.sum(P * W)
    across = (np.trace(W) - along) / (len(v) - 1)
    return across * (np.eye(len(v)) - P) + along * P
    ### END SOLUTION


# %%
check("10.2", symmetric_part)

# %% [markdown]
# So on endless data $W = b\,(I - ee^\top) + b_v\,ee^\top$ with $e = v / \lVert v \rVert$: the *form*, with
# the *ratio* $r = b_v / b$, if $b \ne 0$ ($bI$ has $r = 1$). The ratio of any other $W$ is that of its
# average.
#
# **The first step.** Let the head have length one, the tokens be independent and uniform on the unit sphere,
# and the label a coin. Drop the index $i$. By exercise 10.1, with $\eta = 1$, the step is an expectation over
# sequences, of their *pulls* $g$:
#
# $$W_1 = \mathbb{E} \big[ g\, x_1^\top \big] , \qquad g = |\ell'(u)|\, \frac1T \sum_t (\gamma_t - u)\, x_t ,
# \qquad u = \frac1T \sum_t \gamma_t .$$
#
# *Along* $v$ the label cancels, $(e \cdot x_t)(e \cdot x_1) = \gamma_t \gamma_1$. *Across* $v$ the tokens,
# independent and uniform, point in random directions, whatever their scores. So of the trace across, $(d -
# 1)\, b$, only $t = 1$ is left, with the squared length $1 - \gamma_1^2$ that $x_1$ has there:
#
# $$b_v = \mathbb{E} \Big[ |\ell'(u)|\, \frac1T \sum_t (\gamma_t - u)\, \gamma_t\, \gamma_1 \Big] , \qquad
# b = \frac{1}{d - 1}\, \mathbb{E} \Big[ |\ell'(u)|\, \frac1T\, (\gamma_1 - u)(1 - \gamma_1^2) \Big] .$$

# %% [markdown]
# **Its ratio $r$ tends to $T$ as $d \to \infty$.** Along $v$ the parts of $g$ from all $T$ tokens add up.
# Across $v$ only the query's own term is left.
#
# <details><summary>Why exactly $T$</summary>
#
# For large $d$ the $\xi_t = \sqrt d\, \gamma_t$ are $T$ standard Gaussians, drawn independently and then
# sorted so that $\xi_1$ is the largest, and $|\ell'(u)| \to |\ell'(0)| = \frac12$. Write $\xi_t = \bar\xi +
# \rho\, \nu_t$ with the mean $\bar\xi$ and $\rho^2 = \sum_t (\xi_t - \bar\xi)^2$: for Gaussians $\bar\xi$,
# $\rho$ and $\nu$ are independent, and sorting does not change that. (Bounded moments let
# the limit be taken inside $\mathbb{E}$.) With $\sum_t (\xi_t - \bar\xi) \xi_t =
# \rho^2$ in $b_v$ and $\xi_1 - \bar\xi = \rho\, \nu_1$ in $b$,
#
# $$b_v \approx \frac{\mathbb{E}[\rho^2 (\bar\xi + \rho\, \nu_1)]}{2T d^{3/2}}
# = \frac{\mathbb{E}[\rho^3]\; \mathbb{E}[\nu_1]}{2T d^{3/2}} , \qquad
# b \approx \frac{\mathbb{E}[\rho]\; \mathbb{E}[\nu_1]}{2T d^{3/2}} , \qquad
# r \to \frac{\mathbb{E}[\rho^3]}{\mathbb{E}[\rho]} = T .$$
#
# (Here $\mathbb{E}[\nu_1] > 0$ cancels, and $\rho^2$ is $\chi^2$ with $T - 1$ degrees of freedom, so
# $\mathbb{E}[\rho^3] = T\, \mathbb{E}[\rho]$.)
# </details>


# %%
def best_first(tokens):
    """Tokens of each sequence by falling score; the first, the best one, is the query."""
    order = tokens.scores.argsort(dim=-1, descending=True)[..., None].expand_as(tokens.X)
    X = tokens.X.gather(-2, order)
    return dataclasses.replace(tokens, X=X, z=X[..., 0, :].contiguous())


def ratio(W, e):
    """The ratio of the form of W (d, d), for the unit vector e."""
    form = symmetric_part(W, e)
    return (e @ form @ e) * (len(e) - 1) / (np.trace(W) - e @ form @ e)


def coordinates(rng, d, shape):
    """Coordinates of random unit vectors: half of 1 plus one is beta distributed."""
    return 1 - 2 * rng.beta((d - 1) / 2, (d - 1) / 2, size=shape)


def two_numbers(T, d):
    """b and b_v after the first step on endless data, from the scores of 50,000 sequences."""
    scores = np.sort(coordinates(np.random.default_rng(1), d, (50_000, T)))[:, ::-1]
    u = scores.mean(axis=1, keepdims=True)
    pulls = (scores - u) / (1 + np.exp(u)) / T
    b = (pulls[:, 0] * (1 - scores[:, 0] ** 2)).mean() / (d - 1)
    return b, ((pulls * scores).sum(axis=1) * scores[:, 0]).mean()


print("  T   d   r/T: foreseen   found (5,000 sequences)")
first = {}  # the step, the head, the ratio foreseen
for T, d in ((8, 4), (8, 10), (8, 40), (30, 10), (30, 25), (30, 60)):
    many = best_first(data.random_tokens(n=5000, T=T, d=d, seed=3))
    W = -closed_form(models.CrossAttention(d), many, losses.logistic)()[1]["W"].numpy()
    (b, b_v), found = two_numbers(T, d), ratio(W, many.v.numpy())
    first[T, d] = torch.tensor(W), many.v, b_v / b
    print(f"{T:3d} {d:3d}{b_v / b / T:16.2f}{found / T:8.2f}")
    assert abs(found / (b_v / b) - 1) < 0.06, again.format("10.2")

# %% [markdown]
# ### Exercise 10.3: Does it still attend to itself?
#
# ★★☆ · 12 minutes
#
# *Predict before you measure.* Along $v$ the first step is about $T$ times too strong. Does a token that asks
# still put *itself* first? In the form, let $b = 1$, $r > 0$, and let the query $z$ have length one and the
# score $\gamma$, for a head of length one. A token of length one is ahead of the query itself if and only if
# its cosine to $W z$ is above a threshold. Return it. From which order of $r$ on do random tokens come ahead:
# $\sqrt d$, $d$ or $d^2$?
#
# <details><summary>Hint 1</summary>
#
# The logit $x_t^\top W z$ is $\lVert W z \rVert$ times that cosine. Whose cosine is to be beaten?
# </details>
#
# <details><summary>Hint 2</summary>
#
# Split $z$ into a part along $v$, of length $|\gamma|$, and one across. Random scores have $\mathbb{E}\,
# \gamma^2 = 1/d$, and the others' cosines are of the order $d^{-1/2}$.
# </details>


# %%
@exercise("10.3")
def threshold(r, gamma):
    """Return the thresholds (m,) for a ratio r and queries with the scores gamma (m,)."""
    ### BEGIN SOLUTION
    return (1 + (r - 1) * gamma**2) / np.sqrt(1 + (r**2 - 1) * gamma**2)
    ### END SOLUTION


# %%
check("10.3", threshold)

# %% [markdown]
# The threshold is the query's own cosine to $Wz$,
#
# $$c = \frac{z^\top W z}{\lVert W z \rVert} = \frac{1 + (r - 1)\, \gamma^2}{\sqrt{1 + (r^2 - 1)\, \gamma^2}}
# , \qquad \sqrt d\; c \approx 1 + \frac dr \quad \text{at } \gamma^2 = \frac1d , \; r \gg \sqrt d ,$$
#
# since for $r \gg \sqrt d$ the root is about $r / \sqrt d$. The others' cosines times $\sqrt d$ are about
# standard Gaussians, the largest in the mean below $\sqrt{2 \log T}$. **So $r/d$ decides, given $T$** (of
# more tokens the largest is larger: figure 3). For $r \ll d$ the query comes first, *whichever* token asks.
# For $r \gg d$ it often does not (as $r \to \infty$ it does with the chance $\frac2T (1 - 2^{-T})$: if it is
# the best and of positive score, or the worst and of negative): $v$ enters twice, as
# $(r - 1)\, \gamma\, \gamma_t$, and a query of positive score prefers the best token, one of negative score
# the *worst*. The training queries hardly tell the rules apart: for $z = x_1$ the lead over $x_t$,
#
# $$b\, \big[ (1 - x_1 \cdot x_t) + (r - 1)\, \gamma_1 (\gamma_1 - \gamma_t) \big] ,$$
#
# is positive for every $r \ge 1$ if $\gamma_1 \ge 0$.
#
# A random token puts itself first with the chance $\mathbb{E}\, F(c)^{T-1}$, with the distribution function
# $F$ of a coordinate of a random unit vector. Beside it: shares in 2,000 *fresh* sequences.


# %%
def fresh(T, d, v, seed):
    """2,000 new sequences for each head v (..., d), (..., 2000, T, d): as drawn, and the best token first."""
    new = data.random_tokens(2000, T, d, trials=len(v) if v.ndim > 1 else None, seed=seed)
    new = dataclasses.replace(new, v=v)
    return new.X, best_first(new).X


def comes_first(W, X, asks):
    """The place of the token that comes first in each sequence of X, if the one in the place asks does."""
    return (X @ (X[..., asks, :] @ W.mT)[..., None]).squeeze(-1).argmax(-1)


def share_itself(r, T, d, draws=50_000):
    """The chance that a random token puts itself first in the form of ratio r."""
    c, half = threshold(r, coordinates(np.random.default_rng(2), d, draws)), (d - 1) / 2
    return (beta.cdf((1 + c) / 2, half, half) ** (T - 1)).mean()


dots = {8: [], 30: []}
print("  T   d   r/T   r/d   itself first: a random token asks, foreseen   found   the best asks")
for (T, d), (W, v, r) in first.items():
    drawn, sorted_ = fresh(T, d, v, seed=4)
    random, best = ((comes_first(W, X, 0) == 0).double().mean() for X in (drawn, sorted_))
    print(f"{T:3d} {d:3d}{r / T:6.1f}{r / d:6.1f}{share_itself(r, T, d):50.2f}{random:8.2f}{best:16.2f}")
    dots[T].append((r / d, random))
    assert abs(random - share_itself(r, T, d)) < 0.04, again.format("10.3")
    assert best > 0.99

# %% jupyter={"source_hidden": true}
fig, ax = plt.subplots(figsize=(6, 3.6))
across, lines = np.geomspace(0.1, 10, 17), {4: "-.", 10: "-", 40: "--", 160: ":"}
for T, color, marker in ((8, BLUE, "o"), (30, ORANGE, "s")):
    for d, line in lines.items():
        shown = across[across * d >= 1]  # r from 1 on
        curve = [share_itself(q * d, T, d, draws=2000) for q in shown]
        ax.plot(shown, curve, line, color=color, label=f"$T = {T}$, $d = {d}$")
    ax.plot(*np.transpose(dots[T]), marker, color=color)
ax.set(xscale="log", xlabel="$r / d$", ylabel="share: itself first", ylim=(0, 1.05))
ax.set_xticks([0.1, 1, 10], ["0.1", "1", "10"])
ax.legend(fontsize=8, handlelength=3.5)
show(
    fig,
    alt="Share of random tokens that put themselves first against r / d: for T = 8 and for T = 30, falling "
    "curves for d = 4, 10, 40, 160, close together from d = 10 on, lower for T = 30. The dots lie near them.",
)

# %% [markdown]
# **Figure 3.** The share foreseen in the form, for $r \ge 1$ and four $d$ each. Dots: found, after the first
# step, from the left for $d = 40, 10, 4$ at $T = 8$ and $d = 60, 25, 10$ at $T = 30$ (60 and 25 have no
# curve).

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10.7 How other queries help or disturb
#
# The first step, $W = \frac{\eta}{n} \sum_k g_k z_k^\top$, puts token 1, the best again, ahead of token $t$
# in sequence $i$ by
#
# $$\frac{\eta}{n} \sum_k (z_k \cdot z_i)\; g_k \cdot (x_{i1} - x_{it}) .$$
#
# What do the others, $k \ne i$, add? *Random* queries add noise of mean 0. *Best* tokens as queries help in
# the mean a given sequence with $\gamma_{i1} \ge 0$: as $g_k x_{k1}^\top$ has the mean $W_1$, each adds in
# the mean $\eta / n$ times the lead of the form (10.6), positive as $b_v \ge b > 0$ at all sizes above. The
# table has the share of *training* sequences with the best token ahead, in descent from zero with growing
# steps (10.5). In the rows *alone* each sequence is trained by itself: its logits see only
# $z_i \cdot z_i = 1$, so it does not matter who asks (there the best tokens do).


# %%
print(" n  T   d   queries   first step   step 1,000")
for n, T, d, trials in ((6, 8, 10, 100), (50, 8, 10, 15), (20, 30, 10, 20)):
    tokens, shares = data.random_tokens(n=n, T=T, d=d, trials=trials, seed=2), []
    best = best_first(tokens)
    single = {name: getattr(best, name).flatten(0, 1)[:, None] for name in "Xzy"}  # each a trial of its own
    alone = data.TokenData(**single, v=best.v.repeat_interleave(n, dim=0))
    random = dataclasses.replace(best, z=tokens.z)
    for name, asked in {"best": best, "alone": alone, "random": random}.items():
        model = models.CrossAttention(d, trials=len(asked.X))
        W = fit(model, asked, 1000, schedule=train.growing, every=[1, 1000])["W"][1:]
        logits = torch.einsum("kitd,rkde,kie->rkit", asked.X, W, asked.z)
        shares.append((logits.argmax(-1) == 0).double().mean((1, 2)))
        print(f"{n:2d} {T:2d} {d:3d}   {name:7s}{shares[-1][0]:13.2f}{shares[-1][1]:13.2f}")
    feasible = int((att_svm(random, random.optimal).status == "optimal").sum())
    print(f"          random: the best tokens are feasible in {feasible} of {trials} trials")
    assert feasible >= 0.9 * trials
    assert (shares[0] > shares[1]).all() & (shares[1] > shares[2]).all()

# %% [markdown]
# **Help if the queries carry the answer, a disturbance if they do not,** on the training sequences. Random
# queries stay below *alone* up to step 1,000, far below at $n \ge 20$, though the best tokens are feasible in
# all trials.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10.8 Later steps: a rule, or a matrix?
#
# As $bI$ selects the best tokens of every training set, their Att-SVM is feasible. We descend from zero, with
# $T = 8$, $d = 10$ and growing steps. Write $W = \beta\,(I + \Delta)$ with
# $\beta = \mathrm{tr}\, W / d \ne 0$, and call $\varepsilon = \lVert \Delta \rVert_F$ the *error* of $W$. The
# table has mean ratio and error over all trials and, for 20 trials at most, who comes first in 2,000 fresh
# sequences each: their best token asks, or their fifth.


# %%
def error(W):
    """The norm of Delta for each W (..., d, d): as tr Delta = 0, ||W||^2 is beta^2 (d + it^2)."""
    return (W.square().sum((-2, -1)) / W.diagonal(dim1=-2, dim2=-1).mean(-1) ** 2 - W.shape[-1]).sqrt()


print("                                  first: the best asks   the fifth asks")
print("  n   W        ratio   error             itself          itself    the best")
for n, trials in ((6, 200), (50, 20), (400, 5)):
    tokens = best_first(data.random_tokens(n=n, T=8, d=10, trials=trials, seed=3))
    model = models.CrossAttention(10, trials=trials)
    run = fit(model, tokens, 1000, schedule=train.growing, every=[1, 1000])["W"][1:]
    W_mm, new = att_svm(tokens, tokens.optimal).value, fresh(8, 10, tokens.v[:20], seed=4)[1]
    for name, W in {"step 1": run[0], "W_mm": W_mm}.items():
        r = np.mean([ratio(w.numpy(), v.numpy()) for w, v in zip(W, tokens.v, strict=True)])
        best, fifth = (comes_first(W[:20], new, asks) for asks in (0, 4))
        found = [(ahead == t).double().mean() for ahead, t in ((best, 0), (fifth, 4), (fifth, 0))]
        row = f"{n:3d}   {name:7s}{r:7.1f}{error(W).mean():8.1f}"
        print(row + "{:19.2f}{:16.2f}{:12.2f}".format(*found))
        forms = [symmetric_part(w, v) for w, v in zip(W.numpy(), tokens.v.numpy(), strict=True)]
        within = error(torch.tensor(np.stack(forms))).square().mean() / error(W).square().mean()
        assert (found[0] > found[1] - 0.01) & (found[1] > 2 * found[2])
    assert (within < 1 / 3) & (n == 6 or (found[0] > 0.98) & (found[1] > 0.96))
    ends = int((geometry.cosine(run[-1], W_mm) > 0.998).sum())
    print(f"      descent ends at W_mm in {ends} of {trials} trials")
    kept = geometry.selected_tokens(model.attention(tokens)) == tokens.optimal
    assert ends == kept.all(dim=1).sum()
    assert ends == trials if n > 6 else 190 < ends < 200
    assert error(W_mm).mean() > 1.3

# %% [markdown]
# **Is it $bI$ that is learned? As a rule, yes.** In training only the best tokens asked. Yet at $n = 50$
# $W_{\mathrm{mm}}$ has the fifth best, too, put itself first in about 97% of the fresh sequences. **As a
# matrix, no:** its error there is 2.3, and at $n = 400$ still 1.6, half of $\lVert I \rVert_F = 3.2$. At
# $n = 400$ less than a third of the error's square is in the form (`within`, checked in the cell). The ratio
# is $r \approx 2$. At equal $b$ this lengthens the lead (10.6) wherever $\gamma_1 > 0$, and a sequence has
# $\gamma_1 < 0$ only with the chance $2^{-8}$. But $W_{\mathrm{mm}}$ is the shortest, and at equal norm
# $r = 2$ has a $b$ smaller by $\sqrt{(9 + 4) / 10} = 1.14$: only leads with
# $\gamma_1 (\gamma_1 - \gamma_t) > 0.14\, (1 - x_1 \cdot x_t)$ grow. So this explains $r \approx 2$ only in
# part.
#
# Descent ends at $W_{\mathrm{mm}}$ in all 25 trials with $n \ge 50$, at $n = 6$ in all but a few.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10.9 How fast the error falls *(optional)*
#
# Call a token with a lower score than the query a *rival*. Over *all* data only positive multiples of $I$ let
# none ahead (proof below). So we expect the error of $W_{\mathrm{mm}}$ to go to 0 as $n$ grows. How fast?

# %% [markdown]
# ### Exercise 10.4: How fast the error falls
#
# ★★★ · 22 minutes
#
# *Predict before you measure.* All tokens are drawn uniformly from the unit sphere in $d$ dimensions. By
# which factor does the error $\varepsilon$ of $W_{\mathrm{mm}}$ fall, for large $n$, if $n$ is multiplied by
# `growth`?
#
# <details><summary>Hint 1</summary>
#
# Over a rival at the distance $\delta$, $\beta I$ leads by $\beta\delta^2/2$, and $\beta\Delta$ changes this
# by $\beta\varepsilon\delta$ at most. How near must a rival be, to come ahead? And why is
# $W_{\mathrm{mm}}$ not $\beta I$ itself?
# </details>
#
# <details><summary>Hint 2</summary>
#
# The sphere has $d - 1$ dimensions. What is the order of the chance that one sequence has a rival that near?
# </details>


# %%
@exercise("10.4")
def falls_by(growth, d):
    """Return the factor, a number above 1, by which the error of growth * n sequences is smaller."""
    ### BEGIN SOLUTION
    return growth ** (1 / (d - 1))
    ### END SOLUTION


# %%
check("10.4", falls_by)

# %% [markdown]
# Only rivals nearer than $2\varepsilon$ can come ahead. In $n$ sequences there are of the order of
# $n\varepsilon^{d-1}$. A larger error lets one ahead. And $\Delta = 0$ is not best: a $\Delta$ of the order
# of the nearest distance, made for that pair alone, lengthens its lead by a constant factor and the norm only
# at second order. So:
#
# > **The limit of $W_{\mathrm{mm}}$, and how fast** (this lesson's). *Conditions.* $d \ge 2$; $v \ne 0$ is
# > fixed; $n$ sequences of $T \ge 2$ tokens, drawn independently and uniformly from the unit sphere; the
# > label a coin; the query the best token. $\Delta$ and $\varepsilon$ as above.
# >
# > *Then* $\varepsilon \to 0$ as $n \to \infty$, with probability one, and as $n^{-1/(d-1)}$: for every
# > probability $q < 1$ there are $C > c > 0$, which depend on $q$, $T$ and $d$, such that $c \le
# > n^{1/(d-1)} \varepsilon \le C$ with a probability of at least $q$, for each large $n$.
#
# <details><summary>Proof</summary>
#
# Let $W = \beta\,(I + \Delta)$. A rival at the angle $\theta$ from $x_1$ is $x_t = \cos\theta\, x_1 -
# \sin\theta\, w$ with a unit vector $w$ orthogonal to $x_1$, and the lead over it is
#
# $$(x_1 - x_t)^\top W x_1
# = \beta\, \big[ (1 - \cos\theta)(1 + x_1^\top \Delta x_1) + \sin\theta\; w^\top \Delta x_1 \big] .$$
#
# *Every $\Delta \ne 0$ lets a rival ahead.* If $w^\top \Delta x_1 = 0$ for all $w$ orthogonal to $x_1$, for
# all $x_1$, then $\Delta$ is a multiple of $I$, and 0 as its trace is. So each $\Delta \ne 0$ has some $x_1$
# and $w$ with $w^\top \Delta x_1 < 0$ (take $-w$ if it is positive), hence an open set of them, with $v \cdot
# w \ne 0$; both signs of $v \cdot w$ are possible, as both labels occur. The directions $\Delta / \lVert
# \Delta \rVert_F$ form a compact set. So there is a $\kappa > 0$, and a list of $N$ sets of pairs $(x_1, w)$,
# all of positive probability, such that for every $\Delta$ there is a set in the list on which $w^\top \Delta
# x_1 \le -\kappa\, \lVert \Delta \rVert_F$.
#
# *At most this order.* Scale $W$ to length one and write it as $\beta I + \Delta'$ with
# $\mathrm{tr}\, \Delta' = 0$. As $x_1^\top W x_1 \le 1$, leads of at least 0 ask for
# $w^\top \Delta' x_1 \ge -\tan(\theta / 2)$, for every rival. So no rival with its pair in the set of
# $\Delta'$ has $\tan(\theta / 2) < \kappa\, \lVert \Delta' \rVert_F$. In one sequence, each set of the list
# has a rival within a small $\theta$ with a probability of at least $c_0\, \theta^{d-1}$, with some $c_0 > 0$
# (the other tokens score lower with positive probability, as the sets can be kept away from the lowest
# score). That all $n$ sequences miss one of the $N$ sets has a probability of at most
# $N \exp(-c_0\, n\, \theta^{d-1})$: small for $\theta = C n^{-1/(d-1)}$ and a large $C$, summable over $n$
# for $\theta^{d-1} = 2 \log(n) / (c_0 n)$. So $\Delta'$ is at most of the order said, and $\Delta' \to 0$
# with probability one. Then $|\beta| \to 1 / \sqrt d$, and a negative $\beta$ would give negative leads. The
# same holds for $\Delta = \Delta' / \beta$.
#
# *At least this order.* Let $\theta_1 < \theta_2$ be the smallest angles of rivals in the $n$ sequences. Then
# $n\, \theta_1^{d-1}$ stays away from 0, and $\theta_2 / \theta_1$ from 1, but for a small probability. For
# $\Delta = \mu\, \theta_1\, w x_1^\top$, with the nearest rival's $w$ and $x_1$ and a small constant $\mu$,
# the nearest lead is about $\beta\, \theta_1^2 (\frac12 + \mu)$. All others are at least about $\beta\,
# \theta_2 (\frac12 \theta_2 - \mu\, \theta_1)$, which is larger if $\theta_2 / \theta_1 > 1 + 2\mu$. And the
# norm is $\beta \sqrt d$ up to a factor $1 + O(\theta_1^2)$. A $W$ with $\lVert \Delta \rVert_F \le c\,
# \theta_1$ has a nearest lead of at most about $\beta\, \theta_1^2 (\frac12 + c)$: for $c < \mu$ less margin
# at the same norm. So it is not $W_{\mathrm{mm}}$.
# </details>
#
# The table has mean errors for $n$ and, drawn apart, $16n$ sequences, and by which factor they fall, with its
# standard error. The law of averages $n^{-1/2}$ foresees 4.


# %%
def errors(n, T, d, sets, seed):
    """The errors of W_mm for data sets that ask with the best token, (sets,)."""
    many = best_first(data.random_tokens(n=n, T=T, d=d, trials=sets, seed=seed))
    gaps, near = many.X[:, :, :1] - many.X[:, :, 1:], 8 * T * d**3
    points = torch.einsum("site,sif->sitef", gaps, many.z).flatten(1, 2).flatten(2)
    nearest = points.norm(dim=2).topk(near, largest=False).indices[..., None].expand(-1, -1, d * d)
    W = svm.solve(svm.label_problem(points.gather(1, nearest), torch.ones(sets, near))).value
    assert (points @ W[..., None]).min() > 1 - 1e-6  # the other rivals ask for nothing more
    return error(W.unflatten(1, (d, d))).numpy()


print("T  d     n  sets  error: n  16 n  falls by    foreseen")
for T, d, n, sets in ((2, 2, 400, 200), (2, 4, 1600, 15)):
    few, many = (errors(size, T, d, sets, seed) for size, seed in ((n, 9), (16 * n, 10)))
    falls = few.mean() / many.mean()
    spread = falls * np.hypot(*(e.std(ddof=1) / e.mean() / sets**0.5 for e in (few, many)))
    row = f"{T}{d:3d}{n:6d}{sets:6d}{few.mean():10.2f}{many.mean():6.3f}{falls:10.1f}"
    print(f"{row} ± {spread:.1f}{falls_by(16, d):8.1f}")
    assert abs(falls - falls_by(16, d)) < 2 * spread, again.format("10.4")

# %% [markdown]
# These draws fit within two standard errors, and refuse the law of averages (at $d = 3$ the two agree). They
# are at $T = 2$, $d = 2$ and $4$ only. The error 1.6 at $d = 10$, $n = 400$ (10.8) is far from small; halving
# a small error at $d = 10$ takes $2^{d-1} = 512$ times the data.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10.10 Claims and measurements
#
# | claim | prediction | measured |
# |:---|:---|:---|
# | end of $W$ (10.5) | SVM of a local choice | 100 of 100, growing, step 2,000; constant: 99, 4,000: 100 |
# | first step (10.6) | $r = b_v / b$ | within 6% at six sizes, one sample each |
# | a random token puts itself first (10.6) | $\mathbb{E}\, F(c)^{T-1}$ | within .04 at the six sizes |
# | $W_{\mathrm{mm}} / \beta - I$ (10.9) | falls as $n^{-1/(d-1)}$ | within two s.e. at $T = 2$, $d = 2, 4$ |

# %% [markdown]
# ## Questions
#
# **1.** Let $r \to \infty$ in the form. Which token comes first if a token with the score $-0.3$ asks?
# <details><summary>Answer</summary>
#
# The worst: over $r$, the logits tend to $-0.3\, b\, \gamma_t$.
# </details>

# %%
progress("10")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - $W$ is a $p$ for the keys $x_{it} z_i^\top$: gradient, Att-SVM and theorem carry over. On the paper's data
#   descent ends at the Frobenius SVM of a local choice, not always the best.
# - In self-attention with the best tokens, the first step on endless data has a ratio $r \to T$ as $d \to
#   \infty$. For $r \ll d$ queries attend to themselves; for $r \gg d$ those of positive score prefer the best
#   token, the others the worst.
# - At $T = 8$, $d = 10$, $n = 50$ "attend to yourself" is learned as a rule, not as a matrix. Yet where the
#   best of uniform tokens asks, $W_{\mathrm{mm}} / \beta$ tends to $I$ as $n^{-1/(d-1)}$ (measured at $d = 2$
#   and 4, not at 10).

# %% [markdown]
# ## Further reading
#
# - D. A. Tarzanagh, Y. Li, C. Thrampoulidis, S. Oymak, *Transformers as Support Vector Machines* (2023, arXiv
#   2308.16898): the Att-SVM for $W$ and for $K, Q$, and the data of section 10.5.
# - D. A. Tarzanagh, Y. Li, X. Zhang, S. Oymak, *Max-Margin Token Selection in Attention Mechanism* (NeurIPS
#   2023, arXiv 2306.13596): the theorem for $p$.
#
# Sections 10.4 (help or conflict) and 10.6 to 10.9 are this lesson's own, not theorems of the papers.
#
# **New in the library:** [`geometry.margins`](../mini_attn/geometry.py),
# [`gradients.closed_form`](../mini_attn/gradients.py), [`models.CrossAttention`](../mini_attn/models.py),
# [`svm.attention_problem`](../mini_attn/svm/problem.py).
#
# **Next:** [lesson 11](11_key_query_nuclear.ipynb): train $K$ and $Q$, and the norm changes.
