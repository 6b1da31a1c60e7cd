# %% [markdown] slideshow={"slide_type": "slide"}
# # 10 · Cross- and self-attention
#
# In part II one vector $p$ was compared with the tokens of every sequence. Here each sequence brings its own
# **query** $z_i$, and a matrix $W$ turns it into the vector that the tokens are compared with
# (*cross-attention*). If the query is one of the sequence's own tokens, this is *self-attention*.
#
# **The question: where does gradient descent take the matrix $W$, and what does it learn if the query is
# itself the answer?**

# %% [markdown]
# **After this lesson you can**
#
# - turn statements about $p$ into statements about $W$, and bound the rank of $W_{\mathrm{mm}}$;
# - derive the first step of self-attention, and say when a token selects itself after it;
# - say when other sequences help or disturb, and what carries over to new ones.
#
# **You need** [lesson 02](02_hard_margin_svm.ipynb) (hard-margin SVM), [lesson
# 03](03_optimizer_geometry.ipynb) (norms), [lesson 04](04_matrix_factorization.ipynb) (nuclear norm), [lesson
# 05](05_softmax_attention.ipynb) (gradient), [lesson 06](06_attention_as_svm.ipynb) (Att-SVM) and [lesson
# 07](07_local_global_tokens.ipynb) (local optimality). About 80 minutes (120 with a pencil) with three
# exercises, and 30 more for the optional section 10.9 with one.

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

plots.style()
torch.set_num_threads(1)  # many small tensors: one thread is fastest
BLUE, ORANGE, BLACK = (plots.COLORS[name] for name in ("blue", "vermillion", "black"))
again = "this differs from the text: if exercise {} has no tick, start there"

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10.1 The idea in a picture
#
# How can one matrix serve several sequences? There are $n$ sequences of $T$ tokens $x_{it} \in \mathbb{R}^d$,
# each with a query $z_i \in \mathbb{R}^d$ and a label $y_i = \pm 1$. The head $v$ is fixed, and with it the
# scores $\gamma_{it} = y_i\, v \cdot x_{it}$. We train $W$:
#
# $$L(W) = \frac1n \sum_i \ell(u_i), \qquad u_i = \sum_t s_{it}\, \gamma_{it}, \qquad
# s_i = \mathrm{softmax}(h_i), \qquad h_{it} = x_{it}^\top W z_i .$$
#
# Sequence $i$ sees $W$ only through $p_i = W z_i$, its own version of lesson 06's $p$. The query *selects*
# the token with the largest logit. If we choose one token in each sequence, $W_{\mathrm{mm}}$ is the shortest
# $W$ whose logits put the chosen token ahead of every other token of its sequence by at least 1.
#
# For figure 1 we draw two small data sets in the plane (`random_tokens`: all vectors are uniform on the unit
# sphere, and the labels are fair coins). On each we train $W$ and, by lesson 11's method, two matrices with
# $W = K Q^\top$.


# %%
def fit(model, tokens, steps=2000, **options):
    """Normalised steps of length 0.1 in every trial, in place: what was recorded, with W (records, ...)."""
    optimizer = optim.NormalizedGD(model.parameters(), lr=0.1, batch_dims=len(tokens.trials))
    run = train.fit(model, tokens, optimizer, steps, record={"W": lambda m: m.W}, progress=False, **options)
    model.requires_grad_(False)
    return run


def att_svm(tokens, selected, norm="fro"):
    """The shortest W that puts the selected tokens (trials, n) ahead by 1: its value, its status."""
    return svm.solve(svm.attention_problem(tokens.X, tokens.z, selected), norm=norm, throw=False)


# %% jupyter={"source_hidden": true}
def draw_plane(ax, tokens, selected, W_mm, walk=None, W_factored=None):
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
        if walk is not None:
            curve = (walk @ tokens.z[i] / walk.flatten(1).norm(dim=1)[:, None]).numpy()
            ax.plot(*curve.T, color=color, linewidth=2.5, zorder=3)
            ax.plot(*curve[-1], ".", color=color, markersize=14, zorder=5)
            end = (W_factored @ tokens.z[i] / W_factored.norm()).numpy()
            ax.plot(*end, marker="D", color=BLACK, markersize=11, markerfacecolor="none", zorder=6)
    ax.set(xlim=(-1.4, 1.4), ylim=(-1.4, 1.4), aspect="equal")
    ax.set(xlabel="first coordinate", ylabel="second coordinate", xticks=[-1, 0, 1], yticks=[-1, 0, 1])


plane = {}
for T, seed in ((3, 261), (5, 51)):  # two draws, picked for the picture
    pair = data.random_tokens(n=2, T=T, d=2, seed=seed)
    free, factored = models.CrossAttention(2), models.FactoredAttention(2, m=2, scale=0.3)
    walk = fit(free, pair, every=[*range(1, 40), *range(40, 2001, 40)])["W"][1:]  # (records, 2, 2)
    fit(factored, pair)  # K and Q of two columns, from entries of the size 0.3
    chosen = geometry.selected_tokens(free.attention(pair))  # the token of the largest logit
    target = att_svm(pair, chosen).value
    plane[T] = pair, chosen, target, walk, factored.W

fig, axes = plt.subplots(1, 2, figsize=(8.4, 4.4), sharey=True)
for ax, (T, drawn) in zip(axes, plane.items(), strict=True):
    draw_plane(ax, *drawn)
    ends = [geometry.cosine(W, drawn[2], batch_dims=0).item() for W in (drawn[3][-1], drawn[4])]
    ax.set_title(f"$T = {T}$: cosines {ends[0]:.3f} ($W$), {ends[1]:.3f} ($KQ^\\top$)", fontsize=11)
axes[1].set_ylabel("")
show(
    fig,
    alt="Two unit circles, with three and with five tokens of each of two sequences on them. Inside, a blue "
    "and an orange curve, W applied to each query, end at dots on dashed rays. A dotted line orthogonal to "
    "each ray cuts the selected token, drawn full, off from the other tokens of its sequence. "
    "Black diamonds, for keys and queries, stand around the dots. The titles give cosines above 0.99.",
)

# %% [markdown]
# **Figure 1.** Sequence 1 is blue (circles), sequence 2 orange (squares). The selected tokens are full, and
# the queries stand outside the circle. Curves: $W z_i / \lVert W \rVert_F$ along 2,000 normalised steps from
# $W = 0$, up to the dot. Dashed: the direction of $W_{\mathrm{mm}}\, z_i$. Dotted: the line orthogonal to it,
# halfway between the selected token and the next. Black diamonds: the ends of the runs with $K$ and $Q$.
#
# In these two draws, which we picked, both ways of training end close to $W_{\mathrm{mm}}$ (titles: the
# cosines). With $K$ and $Q$ this is not so in general (lesson 11).
#
# **Try it.** Turn the second query until it equals the first. For which tokens of sequence 2 is there still a
# solution?


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
# For tokens 1 and 2. With equal queries one $p$ must serve both sequences. To select token 1 of sequence 1,
# its angle must lie between $-10$ and 105 degrees; to select token 3 of sequence 2, between 157.5 and 297.5
# degrees. No angle does both.
# </details>

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10.2 W is a p
#
# How much of part II still holds for $W$? Nearly all, as the logit is linear in $W$. With $\langle A, B
# \rangle = \sum_{jl} A_{jl} B_{jl}$ for matrices,
#
# $$h_{it} = x_{it}^\top W z_i = \langle x_{it} z_i^\top,\, W \rangle .$$
#
# So if we write matrices as long vectors, $W$ is the $p$ of lesson 06, in $\mathbb{R}^{d^2}$, and its
# **keys** are the outer products $x_{it} z_i^\top$.

# %% [markdown]
# ### Exercise 10.1: The first step, without a matrix
#
# ★★☆ · 12 minutes
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
    pull = np.einsum("kt,ktd->kd", (scores - u) / (1 + np.exp(u)) / T, X)  # one vector for each sequence
    return lr / n * np.einsum("ik,kd,itd->it", z @ z.T, pull, X)
    ### END SOLUTION


# %%
check("10.1", first_logits)

# %%
six = data.random_tokens(n=6, T=8, d=10, seed=1)
gradient = closed_form(models.CrossAttention(10), six, losses.logistic)()[1]["W"]  # the library's, at W = 0
measured = models.CrossAttention(10, init=-100 * gradient).logits(six).detach().numpy()
foretold = first_logits(*(array.numpy() for array in (six.X, six.z, six.scores)), 100.0)
assert np.abs(measured - foretold).max() < 1e-9, again.format("10.1")
print(f"all {measured.size} logits as predicted")

# %% [markdown]
# Only sequences $k$ whose queries are not orthogonal to $z_i$ can change the logits of sequence $i$. To
# $h_{it}$ such a sequence adds
#
# $$\frac{\eta}{n}\, (z_k \cdot z_i)\; g_k \cdot x_{it} , \qquad
# g_k = |\ell'(u_k)|\, \frac1T \sum_t (\gamma_{kt} - u_k)\, x_{kt} .$$
#
# We call the vector $g_k$ the **pull of sequence** $k$: minus the gradient, at $W = 0$, of the loss of this
# one sequence in its $p_k$. The step is $W = \frac{\eta}{n} \sum_k g_k z_k^\top$.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10.3 The Att-SVM for W
#
# Where do many steps lead? Choose a token $\alpha_i$ in each sequence. For the keys above, lesson 06's SVM
# reads:
#
# > **Att-SVM for $W$**
# >
# > $$W_{\mathrm{mm}}(\alpha) = \arg\min_W \lVert W \rVert_F \quad \text{subject to} \quad
# > (x_{i\alpha_i} - x_{it})^\top W z_i \ge 1 \quad \text{for every } i,\; t \ne \alpha_i .$$
#
# > **Theorem** (lessons 06 and 07, for these keys; Tarzanagh et al., 2023, for $W$; informal).
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
# normalised steps from other starts: that they, too, approach a $W_{\mathrm{mm}}$ is measured, not proved.
#
# With the comparisons $a_{it} = x_{i\alpha_i} - x_{it}$ the constraints read $\langle a_{it}\, z_i^\top,\, W
# \rangle \ge 1$. **So the Att-SVM for $W$ is lesson 02's SVM** without a bias, for the points $a_{it}\,
# z_i^\top$ with $t \ne \alpha_i$, all with the label 1.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10.4 What the queries decide: choices and rank
#
# Which choices of tokens are feasible, and what rank can $W_{\mathrm{mm}}$ have? If all queries are linearly
# independent, $W$ can send each of them to any $p_i$. Then a choice of tokens is feasible if and only if it
# is feasible in each sequence *by itself*. With distinct tokens of length one it always is, as $p_i =
# x_{i\alpha_i}$ prefers $x_{i\alpha_i}$ to all other tokens.
#
# As in lesson 02, the solution is a sum of the points, with weights $\lambda_{it} \ge 0$ (the dual
# variables):
#
# $$W_{\mathrm{mm}} = \sum_i \bar a_i\, z_i^\top, \qquad
# \bar a_i = \sum_{t \ne \alpha_i} \lambda_{it}\, a_{it} .$$
#
# So every row of $W_{\mathrm{mm}}$ is a combination of the queries. The rank of $W_{\mathrm{mm}}$ is
# therefore at most the number of linearly independent queries, which is at most $\min(n, d)$. We test this on
# the best tokens, with 2, 6 and 15 random queries.

# %%
ranks = []
for n in (2, 6, 15):
    drawn = data.random_tokens(n=n, T=8, d=10, seed=1)
    ranks.append(int(torch.linalg.matrix_rank(att_svm(drawn, drawn.optimal).value, rtol=1e-6)))
print("rank of W_mm for n = 2, 6, 15 queries in d = 10:", *ranks)  # it reaches its bound

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10.5 The paper's data
#
# Does descent end at an Att-SVM, and of which tokens? The paper's public code
# (github.com/umich-sota/TF-as-SVM) draws random data with $n = 6$, $T = 8$, $d = 10$. It takes 2,000
# normalised steps of the *constant* length 0.1 from the start of `torch.nn.Linear`. We train 100 trials in
# this way, and from the same starts also with *growing* steps, of length $0.1 \sqrt{j}$ in step $j$
# (`train.growing`), which come further.
#
# The table compares each last $W$ with the Frobenius SVM of the tokens it selects. It counts the trials in
# which this choice is locally optimal, and those in which it is the best token in every sequence.

# %%
cross = data.random_tokens(n=6, T=8, d=10, trials=100, seed=2)
draw = torch.rand(100, 10, 10, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
start = (2 * draw - 1) / 10**0.5  # torch.nn.Linear: uniform between -1/sqrt(d) and 1/sqrt(d)
constant, growing = (models.CrossAttention(10, trials=100, init=start) for _ in range(2))
record_at = [1, 3, 10, 30, 60, 100, 200, 400, 700, 1000, 1400, 2000]
path = fit(constant, cross, every=record_at)["W"][1:]
fit(growing, cross, schedule=train.growing)
print("          cosine to the SVM   locally   all the")
print("steps       mean     least    optimal      best")
for name, model in {"constant": constant, "growing": growing}.items():
    selected = model.logits(cross).argmax(-1)
    W_mm = att_svm(cross, selected).value
    cosine = geometry.cosine(model.W, W_mm)
    logits = models.CrossAttention(10, trials=100, init=W_mm).logits(cross)
    local = geometry.locally_optimal(cross.scores, logits, selected).sum()
    hit = (selected == cross.optimal).all(-1).sum()
    print(f"{name:8s}{cosine.mean():8.3f}{cosine.min():10.3f}{local:11d}{hit:10d}")
    assert (cosine.mean() > 0.99) & (local >= 94)

# %% jupyter={"source_hidden": true} slideshow={"slide_type": "subslide"}
fig, ax = plt.subplots(figsize=(5.5, 3.6))
limits = [att_svm(cross, constant.logits(cross).argmax(-1), norm).value for norm in ("fro", "nuc")]
styles = ((BLUE, "-", "o", "Frobenius SVM"), (ORANGE, "--", "s", "nuclear SVM"))
for W_mm, (color, line, marker, name) in zip(limits, styles, strict=True):
    cosines = torch.stack([geometry.cosine(W, W_mm) for W in path])
    ax.fill_between(record_at, *(cosines.quantile(q, dim=1) for q in (0.1, 0.9)), color=color, alpha=0.25)
    ax.plot(record_at, cosines.mean(1), line, marker=marker, color=color, label=name)
ax.axhline(geometry.cosine(*limits).mean(), color=BLACK, linestyle=":", linewidth=1.2, label="the two SVMs")
ax.set(xscale="log", xlabel="step", ylabel="cosine of $W$ to the SVM", ylim=(-0.25, 1.02))
ax.legend(loc="lower right")
show(
    fig,
    alt="Cosine of W to the two SVMs against steps of constant length. The mean cosine to the Frobenius SVM "
    "rises to above 0.99; that to the nuclear SVM levels off near 0.86, where a dotted line shows the mean "
    "cosine between the two SVMs. The first band narrows to nothing, the second does not.",
)

# %% [markdown]
# **Figure 2.** The published experiment again, with constant steps: means of 100 trials, and bands for the
# middle 80%. Both SVMs belong to the tokens that $W$ selects at the last step. The nuclear SVM takes lesson
# 04's norm. Dotted: the mean cosine between the two SVMs.

# %% [markdown]
# **On these data $W$ approaches the Frobenius SVM of its own choice of tokens.** With growing steps the
# choice is locally optimal in all 100 trials, and the least cosine rounds to 1. With constant steps it is in
# 99, and these runs are not finished. The cosine to the nuclear SVM levels off near that between the two
# SVMs.
#
# **In 25 of the 100 trials with growing steps some selected token is not the best.** Yet the best tokens are
# always feasible, as six random queries in ten dimensions are linearly independent (10.4).

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10.6 When the query is one of the tokens
#
# What is learned if the query is itself the answer? In **self-attention** the query is one of the sequence's
# own tokens. From here on we sort the tokens of each sequence by falling score, so that token 1 is **the
# best**. In self-attention we make it the query in training: $z_i = x_{i1}$. Which token this is depends on
# the label, as the scores do. So the query carries the answer.
#
# One rule then serves all sequences, *attend to yourself*. With $W = bI$, $b > 0$, and distinct tokens of
# length one, each token selects itself when it is the query:
#
# $$x_{i1}^\top W x_{i1} - x_{it}^\top W x_{i1} = b\,(1 - x_{it} \cdot x_{i1}) > 0 .$$
#
# **Is it $bI$ that is learned?** This section asks it of the first step, 10.8 of many steps, and 10.9 of
# $W_{\mathrm{mm}}$ as $n$ grows.
#
# We take the first step on the **population loss** $\bar L$, the mean of $\ell(u)$ over all data. Only one
# direction is special for it: $v$, which ranks the tokens. Turn all tokens by an orthogonal matrix $\Omega$
# with $\Omega v = v$. Their scores stay, and if the law of tokens and labels prefers no other direction, the
# turned data are as likely as the old ones. So
#
# $$\bar L(\Omega^\top W \Omega) = \bar L(W) , \qquad
# \nabla \bar L(\Omega^\top W \Omega) = \Omega^\top\, \nabla \bar L(W)\, \Omega .$$
#
# If $\Omega^\top W \Omega = W$ for all such $\Omega$, then the gradient at $W$ has this property too. The
# start $W = 0$ has it, and sums keep it. So every step of descent on $\bar L$ from zero keeps it.

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
# So on the population loss $W$ is its own average. With $e = v / \lVert v \rVert$ two numbers are left, $b$
# across $v$ and $b_v$ along it:
#
# $$W = b\,(I - ee^\top) + b_v\, ee^\top , \qquad b_v = e^\top W e , \qquad
# b = \frac{\mathrm{tr}\, W - b_v}{d - 1} .$$
#
# <details><summary>Why two numbers, and why these</summary>
#
# The average $A$ of $\Omega^\top W \Omega$ commutes with every $\Omega$. One of them, $2ee^\top - I$, keeps
# $v$ and turns all that is orthogonal to it into its opposite. So $A$ does not mix the two, and $Av$ is a
# multiple of $v$. Across $v$, the reflections of one axis make $A$ diagonal, and the exchanges of two axes
# make its entries equal. Its two numbers can be read off $W$: as $\Omega e = e$, the numbers $e^\top W e$ and
# $\mathrm{tr}\, W$ are the same for every $\Omega^\top W \Omega$, and so for the average, where they are
# $b_v$ and $b_v + (d - 1)\, b$.
# </details>
#
# We call this the **two-number form**, and $r = b_v / b$ its **ratio**, if $b \ne 0$. So $bI$ has the ratio
# one. The ratio of any other $W$ is that of its average.
#
# **The first step.** Let the head have length one, let the tokens be independent and uniform on the unit
# sphere, and let the label be a fair coin. By exercise 10.1, with $\eta = 1$ and without the index $i$, the
# step on the population loss is the expectation of the pull times the query,
#
# $$W_1 = \mathbb{E} \big[ g\, x_1^\top \big] , \qquad g = |\ell'(u)|\, \frac1T \sum_t (\gamma_t - u)\, x_t ,
# \qquad u = \frac1T \sum_t \gamma_t .$$
#
# Its two numbers are
#
# $$b_v = \mathbb{E} \Big[ |\ell'(u)|\, \frac1T \sum_t (\gamma_t - u)\, \gamma_t\, \gamma_1 \Big] , \qquad
# b = \frac{1}{d - 1}\, \mathbb{E} \Big[ |\ell'(u)|\, \frac1T\, (\gamma_1 - u)(1 - \gamma_1^2) \Big] .$$
#
# Here $b > 0$, as the best score $\gamma_1$ is above the mean $u$.
#
# <details><summary>Why these two</summary>
#
# *Along* $v$: $b_v = e^\top W_1\, e$ is the mean of $(e \cdot g)(e \cdot x_1)$, and the label cancels, as $(e
# \cdot x_t)(e \cdot x_1) = \gamma_t \gamma_1$.
#
# *Across* $v$: $(d - 1)\, b$ is the trace there, the mean of the product of $g$ and $x_1$ without their parts
# along $v$. Whatever their scores, the tokens point in independent random directions across $v$, so for $t
# \ne 1$ the product of $x_t$ and $x_1$ has the mean 0 there. Only the term $t = 1$ of $g$ is left, and the
# part of $x_1$ across $v$ has the squared length $1 - \gamma_1^2$.
# </details>

# %% [markdown]
# **The ratio of the first step tends to $T$ as $d \to \infty$.** The reason: along $v$ the terms of all $T$
# tokens add up in $g$, while across $v$ only the query's own is left. The cell compares $r / T$ by the two
# formulas, on draws of scores alone, with the first step on 5,000 sequences.
#
# <details><summary>Why exactly $T$</summary>
#
# For large $d$ the $\xi_t = \sqrt d\, \gamma_t$ are $T$ standard Gaussians, drawn independently and then
# sorted so that $\xi_1$ is the largest, and $|\ell'(u)| \to |\ell'(0)| = \frac12$. Write $\xi_t = \bar\xi +
# \rho\, \nu_t$ with the mean $\bar\xi$ and $\rho^2 = \sum_t (\xi_t - \bar\xi)^2$: for Gaussians $\bar\xi$,
# $\rho$ and $\nu$ are independent, and sorting does not change that. (Bounded moments let the limit be taken
# inside $\mathbb{E}$.) With $\sum_t (\xi_t - \bar\xi) \xi_t = \rho^2$ in $b_v$ and $\xi_1 - \bar\xi = \rho\,
# \nu_1$ in $b$,
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
def by_score(tokens):
    """Sorts the tokens of each sequence by falling score; token 1, the best, becomes the query."""
    order = tokens.scores.argsort(dim=-1, descending=True)[..., None].expand_as(tokens.X)
    X = tokens.X.gather(-2, order)
    return dataclasses.replace(tokens, X=X, z=X[..., 0, :].contiguous())


def ratio(W, e):
    """The ratio of W (d, d), for the unit vector e: that of its average."""
    form = symmetric_part(W, e)
    return (e @ form @ e) * (len(e) - 1) / (np.trace(W) - e @ form @ e)


def foreseen(T, d):
    """The ratio by the two formulas, on draws of T scores alone."""
    half = (d - 1) / 2  # (1 + a score) / 2 is Beta(half, half)
    scores = 2 * np.random.default_rng(7).beta(half, half, size=(1_000_000 // T, T)) - 1
    u, best = scores.mean(axis=1), scores.max(axis=1)
    slope = 1 / (1 + np.exp(u))
    b_v = (slope * scores.var(axis=1) * best).mean()  # var: the mean of (gamma_t - u) gamma_t
    return b_v / (slope * (best - u) * (1 - best**2)).mean() * T * (d - 1)


print("  T   d   r/T: by the formulas, measured")
steps = {}  # the first step, the head, the step's ratio
for T, d in ((8, 4), (8, 10), (8, 40), (30, 10), (30, 25), (30, 60)):
    many = by_score(data.random_tokens(n=5000, T=T, d=d, seed=3))
    step = -closed_form(models.CrossAttention(d), many, losses.logistic)()[1]["W"]
    steps[T, d] = step, many.v, ratio(step.numpy(), many.v.numpy())
    both = foreseen(T, d) / T, steps[T, d][2] / T
    print(f"{T:3d} {d:3d}" + "{:20.2f}{:10.2f}".format(*both))
    assert abs(both[0] - both[1]) < 0.08, again.format("10.2")

# %% [markdown]
# **Does a token that is the query still select itself?** *Predict before you read on*: from which order of
# $r$ on do others come ahead, if a random token is the query: $\sqrt d$, $d$ or $d^2$?
#
# Let $W$ have the two-number form, $r > 0$, and let the query $z$ have the score $\gamma$. A logit $x_t^\top
# W z$ is $\lVert W z \rVert$ times a cosine. So a token comes ahead of the query itself if its cosine to $Wz$
# is above the query's own, which is, with the parts of $z$ along $v$ and across,
#
# $$c = \frac{z^\top W z}{\lVert W z \rVert} = \frac{1 + (r - 1)\, \gamma^2}{\sqrt{1 + (r^2 - 1)\, \gamma^2}}
# , \qquad \sqrt d\; c \approx 1 + \frac dr \quad \text{at } \gamma^2 = \frac1d , \; r \gg \sqrt d .$$
#
# **From the order $d$ on.** Random scores have $\mathbb{E}\, \gamma^2 = 1/d$. The other tokens' cosines,
# times $\sqrt d$, are at large $d$ about standard Gaussians. So it is $r/d$ that decides, given $T$.
#
# If $1 \le r \ll d$, nearly every token selects itself, since $\sqrt d\, c \ge \sqrt{d / r}$ is large for
# every score. If $r \gg d$, a token often does not: the logit of token $t$ contains $(r - 1)\, \gamma\,
# \gamma_t$, which then outweighs the rest. So a query of positive score prefers the best token, and one of
# negative score the *worst*. The first step has $r \approx T$ at large $d$: if $T \ll d$, nearly every token
# selects itself.
#
# <details><summary>Why the square root of d / r</summary>
#
# For given $r \ge 1$ the threshold $c$ is least at $\gamma^2 = 1 / (1 + r)$, where it is $2 \sqrt r / (1 +
# r)$. This is at least $1 / \sqrt r$. The largest of $T - 1$ standard Gaussians has a mean below $\sqrt{2
# \log T}$, which does not depend on $d$.
# </details>
#
# In training "attend to yourself" and "attend to the best" can hardly be told apart: the best token selects
# itself for every $r \ge 1$ if $\gamma_1 \ge 0$. So we test with a random token as the query. In the
# two-number form it selects itself with the chance $\mathbb{E}\, F(c)^{T-1}$, where $F$ is the distribution
# function of a coordinate of a random unit vector: all $T - 1$ others have to stay below $c$. We compare this
# with the share in 2,000 *fresh* sequences, which the step has not seen.
#
# <details><summary>Why the best token selects itself</summary>
#
# With $z = x_1$ the lead over $x_t$ is
#
# $$b\, \big[ (1 - x_1 \cdot x_t) + (r - 1)\, \gamma_1 (\gamma_1 - \gamma_t) \big] ,$$
#
# and both terms are positive, or zero, if $r \ge 1$ and $\gamma_1 \ge 0$.
# </details>


# %%
def fresh(T, d, v, seed):
    """2,000 new sequences for each head v (..., d), (..., 2000, T, d): as drawn, and sorted by score."""
    new = data.random_tokens(2000, T, d, trials=len(v) if v.ndim > 1 else None, seed=seed)
    new = dataclasses.replace(new, v=v)
    return new.X, by_score(new).X


def selects(W, X):
    """Which token of each sequence in X (..., T, d) is selected, for each token as the query (..., T)."""
    return (X @ W[..., None, :, :] @ X.mT).argmax(-2)  # the logit x_t^T W x_a stands in row t, column a


def threshold(r, gamma):
    """The cosine c to W z of a query of score gamma."""
    return (1 + (r - 1) * gamma**2) / np.sqrt(1 + (r**2 - 1) * gamma**2)


def share_itself(r, T, d, draws=20_000):
    """The chance that a random token selects itself in the two-number form of ratio r."""
    half = (d - 1) / 2
    c = threshold(r, 1 - 2 * np.random.default_rng(2).beta(half, half, size=draws))
    return (beta.cdf((1 + c) / 2, half, half) ** (T - 1)).mean()


dots = []
for (T, d), (W, v, r) in steps.items():
    drawn, ordered = fresh(T, d, v, seed=4)
    dots.append((T, d, r / d, (selects(W, drawn)[:, 0] == 0).double().mean().item()))  # a random query
    assert abs(dots[-1][3] - share_itself(r, T, d)) < 0.04
    assert (selects(W, ordered)[:, 0] == 0).double().mean() > 0.99

# %% jupyter={"source_hidden": true}
fig, ax = plt.subplots(figsize=(6, 3.8))
looks, lines = {8: (BLUE, "o"), 30: (ORANGE, "s")}, dict(zip(steps, 2 * [":", "--", "-"], strict=True))
grid = np.geomspace(0.1, 10, 17)  # r / d
for T, d, x, y in dots:
    color, marker = looks[T]
    above = grid[grid * d >= 1]  # r from 1 on
    curve = [share_itself(quotient * d, T, d, draws=2000) for quotient in above]
    ax.plot(above, curve, lines[T, d], color=color, label=f"$T = {T}$, $d = {d}$")
    ax.plot(x, y, marker, color=color)
    where = {"xytext": (5, 4)} if T == 8 else {"xytext": (-5, -9), "ha": "right"}
    ax.annotate(f"{d}", (x, y), textcoords="offset points", fontsize=9, **where)
ax.set(xscale="log", xlabel="$r / d$", ylabel="share that selects itself", ylim=(0, 1.05))
ax.set_xticks([0.1, 1, 10], ["0.1", "1", "10"])
ax.legend(fontsize=8, handlelength=3.5, loc="lower left")
show(
    fig,
    alt="Share of random tokens that select themselves, against r / d: falling curves, for T = 8 with d = "
    "4, 10, 40 and, lower, for T = 30 with d = 10, 25, 60. A dot labelled with its d lies near each curve.",
)

# %% [markdown]
# **Figure 3.** Curves: the chance that a random token selects itself in the two-number form. Dots,
# with their $d$: the share found after the first step, within .04 of the chance at its own ratio.
#
# **After the first step nearly every random token selects itself at $T = 8$, $d = 40$, and few do at $T =
# 30$, $d = 10$.** If the best token is the query, it selects itself in more than 99% of the fresh sequences
# at each of the six sizes.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10.7 Self-attention against cross-attention
#
# Do other sequences help to select the best token, or disturb? The first step, $W =
# \frac{\eta}{n} \sum_k g_k z_k^\top$, puts the best token of sequence $i$ ahead of token $t$ by
#
# $$\frac{\eta}{n} \sum_k (z_k \cdot z_i)\; g_k \cdot (x_{i1} - x_{it}) .$$
#
# The sequence's own term, $k = i$, has the factor $z_i \cdot z_i = 1$, and at large $d$ it is positive in the
# mean.
#
# <details><summary>Why the own term is positive in the mean</summary>
#
# Take the scores as given and leave out the factor $|\ell'| / T$. Along $v$ the own term is $(\gamma_{i1} -
# \gamma_{it}) \sum_q (\gamma_{iq} - u_i)^2$. Across $v$ the tokens point in independent random directions, so
# the mean is $(\gamma_{i1} - u_i)(1 - \gamma_{i1}^2) - (\gamma_{it} - u_i)(1 - \gamma_{it}^2)$: about
# $\gamma_{i1} - \gamma_{it}$ at large $d$.
# </details>
#
# In *self-attention* with the best tokens as queries, $g_k x_{k1}^\top$ has the mean $W_1$. So each other
# term adds in the mean $\eta / n$ times the lead of the two-number form (10.6). This lead is positive if
# $\gamma_{i1} \ge 0$, as the ratio is above 1 at all sizes of 10.6. So in the mean the other sequences help.
#
# In *cross-attention* with random queries $z_k \cdot z_i$ has a random sign: over the queries $z_k$ the other
# terms are noise of mean 0. How many sequences does it take to disturb?

# %% [markdown]
# ### Exercise 10.3: When do random queries disturb?
#
# ★★☆ · 10 minutes
#
# *Predict before you measure.* Let $T$ be fixed and $d$ large, so that $|\ell'| \approx \frac12$. In the
# logit $h_{it}$ after the first step the own term gives token $t$ the amount $\frac{\eta}{n}\, \gamma_{it} /
# (2T)$, besides what is smaller or common to all tokens. Return $\sigma$: the standard deviation of the noise
# that the $n - 1$ other sequences add to $h_{it}$, divided by that of this amount, to leading order.
#
# <details><summary>Hint 1</summary>
#
# Each other term is $\frac{\eta}{n} (z_k \cdot z_i)(g_k \cdot x_{it})$. In terms of random sign the squares
# add up. Two unit vectors in independent random directions have a product of mean square $1/d$.
# </details>
#
# <details><summary>Hint 2</summary>
#
# $\lVert g_k \rVert^2 \approx \frac{1}{4T^2} \sum_t (\gamma_{kt} - u_k)^2$, and each $\gamma_{kt}$ has the
# mean square $1/d$. How much of $\sum_t \gamma_{kt}^2$ is left without the mean $u_k$?
# </details>


# %%
@exercise("10.3")
def noise(n, T, d):
    """Return sigma for n sequences of T tokens in d dimensions."""
    ### BEGIN SOLUTION
    return np.sqrt((n - 1) * (T - 1)) / d
    ### END SOLUTION


# %%
check("10.3", noise)

# %% [markdown]
# **Random queries disturb when $n$ is of the order $d^2 / (T - 1)$.** The own amount has the standard
# deviation $\frac{\eta}{n} / (2T \sqrt d)$. For the noise, $\lVert g_k \rVert$ is about $\sqrt{(T - 1) / d} /
# (2T)$, and the products $z_k \cdot z_i$ and of $x_{it}$ with the direction of $g_k$ bring $d^{-1/2}$ each.
# So
#
# $$\sigma = \sqrt{n - 1}\; \frac{\sqrt{T - 1}}{2T \sqrt d}\, \frac1d \Big/ \frac{1}{2T \sqrt d}
# = \frac{\sqrt{(n - 1)(T - 1)}}{d} .$$
#
# With independent standard Gaussians $\xi_t = \sqrt d\, \gamma_t$ and $\zeta_t$, the share of sequences that
# select their best token should tend to $P(\arg\max_t (\xi_t + \sigma \zeta_t) = \arg\max_t \xi_t)$, as $d
# \to \infty$ with $T$ and $\sigma$ fixed.


# %%
def held(W, tokens):
    """The share of sequences that select their best token, for W (trials, d, d)."""
    logits = models.CrossAttention(W.shape[-1], trials=len(W), init=W).logits(tokens)
    return (geometry.margins(logits, tokens.optimal) > 0).all(-1).double().mean().item()


def law(sigma, T, draws=100_000):
    """The share as d tends to infinity."""
    xi, zeta = np.random.default_rng(8).normal(size=(2, draws, T))
    return ((xi + sigma * zeta).argmax(1) == xi.argmax(1)).mean()


print("T    d     n  sigma   law  found")
sizes = [(8, 10, 6), (8, 10, 50), (8, 40, 30), (8, 40, 120), (8, 40, 460)]
for T, d, n in [*sizes, (8, 80, 120), (8, 80, 460), (8, 80, 1840), (4, 100, 800)]:
    tokens = data.random_tokens(n=n, T=T, d=d, trials=6000 // n, seed=12)
    model = models.CrossAttention(d, trials=6000 // n)
    fit(model, tokens, 1)
    shares = law(noise(n, T, d), T), held(model.W, tokens)
    print(f"{T}{d:5d}{n:6d}{noise(n, T, d):7.2f}" + "{:6.2f}{:7.2f}".format(*shares))
    assert abs(shares[0] - shares[1]) < 0.06 or d == 10, again.format("10.3")

# %% [markdown]
# From $d = 40$ on the law holds within .06. At $d = 10$ the terms left out, smaller by $\sqrt{T / d}$, still
# show.
#
# For the second table we train from zero with growing steps (10.5), at $T = 8$, $d = 10$. It has the shares
# of training and of new sequences that select the best token after steps 1 and 1,000, and of new ones that
# select the *worst*.


# %%
print("            training: step   new, best: step  new, worst: step")
print(" n  query       1    1,000       1    1,000       1    1,000")
for n, trials in ((1, 1000), (6, 100), (50, 15)):
    drawn = data.random_tokens(n=n, T=8, d=10, trials=trials, seed=2)
    new = data.random_tokens(n=30_000 // trials, T=8, d=10, trials=trials, seed=5)
    new = dataclasses.replace(new, v=drawn.v)
    shares = {}
    for query, tokens, later in (("best", by_score(drawn), by_score(new)), ("random", drawn, new)):
        model = models.CrossAttention(10, trials=trials)
        W = fit(model, tokens, 1000, schedule=train.growing, every=[1, 1000])["W"][1:]
        coin = dataclasses.replace(later, y=-later.y)  # the best token becomes the worst
        shares[query] = [held(w, seqs) for seqs in (tokens, later, coin) for w in W]
        print(f"{n:2d}  {query:6s}" + (3 * "{:8.2f}{:9.2f}").format(*shares[query]))
    assert n == 1 or (shares["best"][0] > 0.8 > shares["random"][0]) & (shares["random"][3] < 0.18)
    assert np.abs(np.subtract(shares["random"][2:4], shares["random"][4:])).max() < 0.02
    assert (att_svm(drawn, drawn.optimal).status == "optimal").all()

# %% [markdown]
# **In this table other sequences help if the queries carry the answer, and disturb if they do not.** As $n$
# grows, the share in training at step 1 rises with the best tokens as queries, and falls with random ones. At
# step 1,000 it falls with random queries too, although the best tokens are feasible in all these trials. At
# $n = 1$ the training rows agree, as only $Wz$ counts; with more steps fewer new sequences select their best
# token.
#
# **On new sequences random queries do not help.** A new label is a coin, independent of tokens, query and
# $W$. Its other side turns the best token into the worst. So for *every* $W$ the best token is selected with
# the same chance as the worst: at $n = 50$ in .21 and .21 of the sequences at step 1, and in .15 and .14 at
# step 1,000. The best tokens as queries reach .99.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10.8 Many steps: a rule, or a matrix?
#
# Do many steps take $W$ to $bI$? We train as in 10.7, with the best tokens as queries, and ask this in two
# ways.
#
# *As a rule*: does each token but the best select itself, in 2,000 fresh sequences?
#
# *As a matrix*: how far is $W$ from a multiple of $I$? Write $W = \bar b\, (I + E)$ with $\bar b =
# \mathrm{tr}\, W / d \ne 0$, and call $\varepsilon = \lVert E \rVert_F$ the **error** of $W$.
#
# The table has means over 20 trials at $n = 50$ and over 3 at $n = 400$, the error with its standard error,
# and the least cosine of $W$ to $W_{\mathrm{mm}}$.


# %%
def error(W):
    """The norm of E for each W (..., d, d): as tr E = 0, ||W||^2 is bar b^2 (d + it^2)."""
    return (W.square().sum((-2, -1)) / W.diagonal(dim1=-2, dim2=-1).mean(-1) ** 2 - W.shape[-1]).sqrt()


print("  n   step   ratio     error      cosine   another token selects itself")
for n, trials in ((50, 20), (400, 3)):
    tokens = by_score(data.random_tokens(n=n, T=8, d=10, trials=trials, seed=3))
    model, new = models.CrossAttention(10, trials=trials), fresh(8, 10, tokens.v, seed=4)[1]
    walk = fit(model, tokens, 1000, schedule=train.growing, every=[1, 1000])["W"][1:]
    W_mm = att_svm(tokens, tokens.optimal).value
    for step, W in zip(("1", "1,000"), walk, strict=True):
        picks = selects(W, new)  # (trials, 2000, 8)
        itself = (picks == torch.arange(8))[..., 1:].double().mean()
        r = np.mean([ratio(w.numpy(), v.numpy()) for w, v in zip(W, tokens.v, strict=True)])
        size, cosine = error(W), geometry.cosine(W, W_mm).min()
        spread = size.std() / trials**0.5
        print(f"{n:3d}{step:>7s}{r:8.1f}{size.mean():6.1f} ± {spread:.2f}{cosine:9.3f}{itself:18.2f}")
        assert (itself > 0.75) & (cosine < 0.8) if step == "1" else (itself > 0.96) & (cosine > 0.999)

# %% [markdown]
# **As a rule, nearly.** The other tokens, which were no queries in training, select
# themselves too: after step 1 in .81 and .89 of the fresh sequences, after step 1,000 in about .98 or more.
#
# **As a matrix, no.** Many steps take $W$ to $W_{\mathrm{mm}}$ (least cosine above .999), not to $bI$: the
# ratio falls from about 9 to about 2, and the error at $n = 400$ is still 1.6, half of $\lVert I \rVert_F =
# 3.2$. From there only more data help: as $n \to \infty$, $W_{\mathrm{mm}} / \bar b$ tends to $I$
# (10.9), and there rule and matrix agree.
#
# <details><summary>Why is the rule right with such an error?</summary>
#
# Divided by $\bar b$, the lead of a query $z$ over $x$ is $1 - x \cdot z + (z - x)^\top E z$. For independent
# random tokens $z$ and $x$, $x^\top E z$ has the mean square $\varepsilon^2 / d^2$, and $z^\top E z$, as
# $\mathrm{tr}\, E = 0$, at most twice that. Both are of the size $\varepsilon / d$, about .2 at these $n$.
# Without $E$ the lead is $1 \pm .32$, as $x \cdot z$ has the standard deviation $d^{-1/2}$, and the least of
# seven leads is about .57 in the mean.
# </details>

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10.9 How fast the error falls *(optional)*
#
# How fast does $W_{\mathrm{mm}}$ approach a multiple of $I$ as $n$ grows? In this section a *rival* is a
# token with a lower score than the query. Over *all* data only the positive multiples of $I$ put the query
# strictly ahead of every rival (proof below). So we expect the error of $W_{\mathrm{mm}}$ to go to 0.

# %% [markdown]
# ### Exercise 10.4: How fast the error falls
#
# ★★★ · 22 minutes
#
# *Predict before you measure.* All tokens are drawn uniformly from the unit sphere in $d$ dimensions. By
# which factor, in order of magnitude, does the error $\varepsilon$ of $W_{\mathrm{mm}}$ fall, for large $n$,
# if $n$ is multiplied by `growth`?
#
# <details><summary>Hint 1</summary>
#
# Over a rival at the distance $\delta$, $\bar b I$ leads by $\bar b\, \delta^2 / 2$, and $\bar b E$
# changes this by $\bar b\, \varepsilon \delta$ at most. How near must a rival be, to come ahead? And why is
# $W_{\mathrm{mm}}$ not $\bar b I$ itself?
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
# In order of magnitude the error falls by the factor `growth`$^{1/(d-1)}$. Only rivals nearer than
# $2\varepsilon$ can come ahead. In $n$ sequences their number is of the order of $n\varepsilon^{d-1}$: with
# an error so large that this is far above 1, one of them does come ahead. On the other hand $E = 0$ is
# not the best. An $E$ of the order of the nearest distance, made for that pair alone, lengthens its lead
# by a constant factor, and the norm only at second order. So:
#
# > **The limit of $W_{\mathrm{mm}}$, and how fast** (this lesson's). *Conditions.* $d \ge 2$; $v \ne 0$ is
# > fixed; $n$ sequences of $T \ge 2$ tokens, drawn independently and uniformly from the unit sphere; the
# > label a coin; the query the best token. $E$ and $\varepsilon$ as above.
# >
# > *Then* $\varepsilon \to 0$ as $n \to \infty$, with probability one, and as $n^{-1/(d-1)}$: for every
# > probability below 1 there are $C_2 > C_1 > 0$, which depend on it, on $T$ and on $d$, such that $C_1 \le
# > n^{1/(d-1)} \varepsilon \le C_2$ with at least that probability, for each large $n$.
#
# <details><summary>Proof</summary>
#
# Write any $W$ as $\bar b I + E'$ with $\mathrm{tr}\, E' = 0$, so that $E' = \bar b E$ if
# $\bar b \ne 0$. A rival at the angle $\theta$ from $x_1$ is $x_t = \cos\theta\, x_1 - \sin\theta\, w$ with a
# unit vector $w$ orthogonal to $x_1$, and the lead over it is
#
# $$(x_1 - x_t)^\top W x_1
# = (1 - \cos\theta)(\bar b + x_1^\top E' x_1) + \sin\theta\; w^\top E' x_1 .$$
#
# *Every $E' \ne 0$ lets a rival ahead*, whatever $\bar b$. If $w^\top E' x_1 = 0$ for all $w$
# orthogonal to $x_1$, for all $x_1$, then $E'$ is a multiple of $I$, and 0 as its trace is. So each
# $E' \ne 0$ has some $x_1$ and $w$ with $w^\top E' x_1 < 0$ (take $-w$ if it is positive), hence an
# open set of them, and among these some with $v \cdot w \ne 0$. For small $\theta$ the lead is then negative:
# its second term, of the first order in $\theta$, outweighs its first, of the second. And $x_t$ scores lower
# than $x_1$ if $y\, v \cdot w > 0$: for one of the two labels, and both occur. If $E' = 0$, the leads
# are $(1 - \cos\theta)\, \bar b$, positive for $\bar b > 0$ only. So over all data only the positive
# multiples of $I$ put the query strictly ahead of every rival.
#
# The directions $E' / \lVert E' \rVert_F$ form a compact set. So there is a $\kappa > 0$, and a
# list of $M$ sets of pairs $(x_1, w)$, all of positive probability, such that for every $E'$ there is a
# set in the list on which $w^\top E' x_1 \le -\kappa\, \lVert E' \rVert_F$.
#
# *At most this order.* Scale $W$ to length one. As $x_1^\top W x_1 \le 1$, leads of at least 0 ask for
# $w^\top E' x_1 \ge -\tan(\theta / 2)$, for every rival. So no rival with its pair in the set of
# $E'$ has $\tan(\theta / 2) < \kappa\, \lVert E' \rVert_F$. In one sequence, each set of the list
# has a rival within a small $\theta$ with a probability of at least $C_0\, \theta^{d-1}$, with some $C_0 > 0$
# (the other tokens score lower with positive probability, as the sets can be kept away from the lowest
# score). That all $n$ sequences miss the same one of the $M$ sets has a probability of at most
# $M \exp(-C_0\, n\, \theta^{d-1})$: small for $\theta = C n^{-1/(d-1)}$ and a large $C$, summable over $n$
# for $\theta^{d-1} = 2 \log(n) / (C_0 n)$. So $E'$ is at most of the order said, and $E' \to 0$
# with probability one. Then $|\bar b| \to 1 / \sqrt d$, and a negative $\bar b$ would give negative leads.
# The same holds for $E = E' / \bar b$.
#
# *At least this order.* Let $\theta_1 < \theta_2$ be the smallest angles of rivals in the $n$ sequences. The
# values $n\, \theta^{d-1}$ of all rivals tend to a Poisson process. So $n\, \theta_1^{d-1}$ stays away from
# 0, and $\theta_2 / \theta_1$ from 1, but for a small probability. For $E = \mu\, \theta_1\, w x_1^\top$,
# with the nearest rival's $w$ and $x_1$ and a small constant $\mu$, the nearest lead is about $\bar b\,
# \theta_1^2 (\frac12 + \mu)$. As $\frac12 \theta^2 - \mu\, \theta_1 \theta$ grows for $\theta > \mu\,
# \theta_1$, all others are at least about $\bar b\, \theta_2 (\frac12 \theta_2 - \mu\, \theta_1)$, which is
# larger if $\theta_2 / \theta_1 > 1 + 2\mu$. And the norm is $\bar b \sqrt d$ up to a factor $1 +
# O(\theta_1^2)$. A $W$ with $\lVert E \rVert_F \le \mu' \theta_1$ has a nearest lead of at most about $\bar
# b\, \theta_1^2 (\frac12 + \mu')$: for $\mu' < \mu$ less margin at the same norm. So it is not
# $W_{\mathrm{mm}}$, whose $\varepsilon$ is above $\mu' \theta_1$: at least of the order said, as $n\,
# \theta_1^{d-1}$ stays away from 0.
# </details>
#
# The theorem bounds $n^{1/(d-1)} \varepsilon$ from both sides. It does not follow that mean errors fall by
# just the factor of the exercise, so we measure it. The table has mean errors for $n$ and, drawn apart, $16n$
# sequences, and the factor between them with its standard error. If $E$ were an average over the
# sequences, it would fall as $n^{-1/2}$, by 4.


# %%
def errors(n, T, d, sets, seed):
    """The errors of W_mm for data sets that ask with the best token, (sets,)."""
    many = by_score(data.random_tokens(n=n, T=T, d=d, trials=sets, seed=seed))
    gaps = many.X[:, :, :1] - many.X[:, :, 1:]
    near = 8 * T * d**3  # so many of the shortest points are enough, as the assert below confirms
    points = torch.einsum("site,sif->sitef", gaps, many.z).flatten(1, 2).flatten(2)
    nearest = points.norm(dim=2).topk(near, largest=False).indices[..., None].expand(-1, -1, d * d)
    W = svm.solve(svm.label_problem(points.gather(1, nearest), torch.ones(sets, near))).value
    assert (points @ W[..., None]).min() > 1 - 1e-6  # the other rivals ask for nothing more
    return error(W.unflatten(1, (d, d))).numpy()


print("T  d     n  sets   error: n    16 n  falls by    foreseen")
for T, d, n, sets in ((2, 2, 400, 100), (2, 4, 1600, 15)):
    few, more = (errors(size, T, d, sets, seed) for size, seed in ((n, 9), (16 * n, 10)))
    falls = few.mean() / more.mean()
    spread = falls * np.hypot(*(e.std(ddof=1) / e.mean() / sets**0.5 for e in (few, more)))
    row = f"{T}{d:3d}{n:6d}{sets:6d}{few.mean():11.2g}{more.mean():8.2g}{falls:10.2g}"
    print(f"{row} ± {spread:.1g}{falls_by(16, d):9.2g}")
    assert abs(falls - falls_by(16, d)) < 2 * spread, again.format("10.4")

# %% [markdown]
# At $T = 2$ the factor agrees with the law within two standard errors; 4 is refused. How large $n$ must be
# for the law, the theorem does not say. At $T = 8$, $d = 10$ the error falls from
# $n = 50$ to 400 by about 1.4 (10.8), where the law has $8^{1/9} = 1.26$.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10.10 Claims and measurements
#
# | claim | prediction | measured |
# |:---|:---|:---|
# | end of $W$ (10.5) | SVM of a locally optimal choice | 100 of 100 trials; with constant steps 99 |
# | first step (10.6) | $r / T \to 1$ as $d \to \infty$ | $T = 8$: 1.47 to 1.04; $T = 30$: 1.56 to 1.07 |
# | a random token selects itself (10.6) | $\mathbb{E}\, F(c)^{T-1}$ | within .04 at the six sizes |
# | random queries, first step (10.7) | $\sigma = \sqrt{(n - 1)(T - 1)} / d$ | share within .06, $d = 40$ on |
# | other sequences (10.7) | best queries help | step 1, $n = 1, 50$: .68, .99 |
# | new sequences, $n = 50$ (10.7) | best queries carry over; random: as often the worst | .99; .15, .14 |
# | many steps (10.8) | $W_{\mathrm{mm}}$ | least cosine above .999; error 2.2, 1.6 |
# | error of $W_{\mathrm{mm}}$ (10.9) | of the order $n^{-1/(d-1)}$ | within 2 s.e. at $T = 2$, $d = 2, 4$ |

# %% [markdown]
# ## Questions
#
# **1.** All sequences have the same query $z$, of length one. What is $W_{\mathrm{mm}}$, in terms of
# lesson 06's $p_{\mathrm{mm}}$?
# <details><summary>Answer</summary>
#
# $W_{\mathrm{mm}} = p_{\mathrm{mm}} z^\top$, of rank one. Only $p = Wz$ counts, and the shortest $W$ with
# $Wz = p$ is $p z^\top$, of norm $\lVert p \rVert$.
# </details>
#
# **2.** Let $r \to \infty$ in the two-number form. With which chance does a random token select itself?
# <details><summary>Answer</summary>
#
# $\frac2T (1 - 2^{-T})$. Divided by $r$, the logits tend to $b\, \gamma\, \gamma_t$. So the query selects
# itself if its score is the best and positive, or the worst and negative.
# </details>

# %%
progress("10")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# **In the runs of 10.5 gradient descent turns $W$ towards an Att-SVM, the shortest matrix that puts a locally
# optimal choice of tokens ahead by 1; if the query is the answer, $W$ nearly learns the rule "attend to
# yourself" without being a multiple of $I$.**
#
# - $W$ is a $p$ for the keys $x_{it} z_i^\top$, and the rank of $W_{\mathrm{mm}}$ is at most $\min(n, d)$.

# %% [markdown]
# ## Further reading
#
# - D. A. Tarzanagh, Y. Li, C. Thrampoulidis, S. Oymak, *Transformers as Support Vector Machines* (2023, arXiv
#   2308.16898): the Att-SVM for $W$ and for $K, Q$, and the data of section 10.5.
# - D. A. Tarzanagh, Y. Li, X. Zhang, S. Oymak, *Max-Margin Token Selection in Attention Mechanism* (NeurIPS
#   2023, arXiv 2306.13596): the theorem for $p$.
#
# Sections 10.6 to 10.9 are this lesson's own, not theorems of the papers.
#
# **New in the library:** [`geometry.margins`](../mini_attn/geometry.py),
# [`gradients.closed_form`](../mini_attn/gradients.py), [`models.CrossAttention`](../mini_attn/models.py),
# [`svm.attention_problem`](../mini_attn/svm/problem.py).
#
# **Next:** [lesson 11](11_key_query_nuclear.ipynb): train $K$ and $Q$, and the norm changes.
