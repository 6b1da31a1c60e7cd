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
# - turn the statements about $p$ into statements about $W$, and its SVM into one over outer products;
# - write $W_{\mathrm{mm}}$ as a sum of outer products, and read its rank off it;
# - say what a conflict between two sequences costs (optional);
# - derive what $W$ learns in self-attention, in one step and in the end, and why that finds the best tokens.
#
# **You need** [lesson 02](02_hard_margin_svm.ipynb) (hard-margin SVM), [lesson
# 04](04_matrix_factorization.ipynb) (nuclear norm), [lesson 05](05_softmax_attention.ipynb) (gradient),
# [lesson 06](06_attention_as_svm.ipynb) (Att-SVM), [lesson 07](07_local_global_tokens.ipynb) (local
# optimality) and [lesson 08](08_regularization_path.ipynb) (path). About 75 minutes (110 with a
# pencil) with three exercises, and 15 more for the optional section 10.4 with one.

# %%
import dataclasses

import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure

from course.exercise import check, exercise, progress, todo
from course.figure import show
from mini_attn import data, geometry, losses, models, optim, plots, svm, train, widgets
from mini_attn.gradients import closed_form
from mini_attn.paths import regularization_path

plots.style()
torch.set_num_threads(1)  # many small tensors: one thread is fastest
BLUE, ORANGE, GREEN, BLACK = (plots.COLORS[name] for name in ("blue", "vermillion", "green", "black"))
again = "this differs from the text: if exercise {} has no tick, start there"

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10.1 The idea in a picture
#
# There are $n$ sequences of $T$ tokens $x_{it}$, each with a query $z_i$ and a label $y_i$. The head $v$ is
# fixed, one for all sequences, and with it the scores $\gamma_{it} = y_i\, v \cdot x_{it}$. We
# train $W$:
#
# $$L(W) = \frac1n \sum_i \ell(u_i), \qquad u_i = \sum_t s_{it}\, \gamma_{it}, \qquad
# s_i = \mathrm{softmax}(h_i), \qquad h_{it} = x_{it}^\top W z_i .$$
#
# Sequence $i$ sees $W$ only through $p_i = W z_i$: that is *its* $p$, compared with its tokens as in
# lesson 06. For chosen tokens, $W_{\mathrm{mm}}$ is the shortest $W$ (as a vector of $d^2$ entries) whose
# logits put them ahead of all others by 1 (section 10.3).


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


plane, every = {3: 38, 5: 94}, [*range(1, 40), *range(40, 2000, 40)]  # tokens: the draw that is shown
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
    print(f"T = {T}, cosine to W_mm, shown (median, least of 100): W {alike[0][k]:.2f} ", end="")
    print(f"({alike[0].median():.2f}, {alike[0].min():.2f}); K, Q {alike[1][k]:.2f}", end="")
    print(f" ({alike[1].median():.2f})")
    assert torch.equal(selected[k], geometry.selected_tokens(keyed.attention(draws))[k])
    assert alike[0][k] > 0.998 > 0.92 > alike[1][k]


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
        ax.plot(*(1.26 * z), marker=f"$z_{i + 1}$", color=plots.ink(color), markersize=16)
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
            arrow = {"arrowstyle": "-|>,head_width=0.4", "color": color, "shrinkA": 0, "shrinkB": 0}
            ax.annotate("", walk[-1], walk[-45], arrowprops=arrow, zorder=5)
            end = (factored[-1] @ tokens.z[i] / factored[-1].norm()).numpy()
            ax.plot([0, end[0]], [0, end[1]], color=color, linewidth=1.2, zorder=2)
            ax.plot(*end, marker="D", color=color, markersize=6, markerfacecolor="white", zorder=5)
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
    "and an orange curve, W applied to each query, end on dashed rays. A dotted line across each ray cuts "
    "the selected token, drawn full, off from the other tokens of its sequence. Thin lines with diamonds, "
    "for keys and queries, end elsewhere, nearly on one line through the origin.",
)

# %% [markdown]
# **Figure 1.** Sequence 1 in blue (circles), sequence 2 in orange (squares); the selected token is full.
# Outside: the queries. Curves: $W z_i / \lVert W \rVert_F$ along 2,000 normalised steps from $W = 0$, the
# start left out. Dashed: the direction of $W_{\mathrm{mm}}\, z_i$. Dotted: the line orthogonal to it, halfway
# between the selected token and the next. Diamonds: the end if $W = K Q^\top$, with $K$ and $Q$ trained
# (lesson 11's method). They end elsewhere in these two draws, chosen for it; the medians above are near 1.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10.2 W is a p
#
# The logit is linear in $W$. With $\langle A, B \rangle = \sum_{jl} A_{jl} B_{jl}$,
#
# $$h_{it} = x_{it}^\top W z_i = \langle x_{it} z_i^\top,\, W \rangle = k_{it} \cdot \mathrm{vec}(W), \qquad
# k_{it} = \mathrm{vec}(x_{it} z_i^\top) \in \mathbb{R}^{d^2} .$$
#
# So $W$, its entries written one after the other, is the $p$ of lesson 06, and the **keys** are the outer
# products $x_{it} z_i^\top$.

# %% [markdown]
# ### Exercise 10.1: The first step, without a matrix
#
# ★★☆ · 8 minutes
#
# *Predict before you measure.* From $W = 0$ we take one plain step, $W = -\eta\, \nabla L(0)$, for the
# logistic loss $\ell(u) = \log(1 + \exp(-u))$. Return all logits after it, from inner products between
# tokens and between queries. Which sequences change the logits of sequence $i$, and by how much each?
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
# in proportion to $z_k \cdot z_i$: no sequence whose query is orthogonal to $z_i$ does.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10.3 The Att-SVM for W
#
# Choose a token $\alpha_i$ in each sequence. The comparisons are $a_{it}\, z_i^\top$ with $a_{it} =
# x_{i\alpha_i} - x_{it}$, and lesson 06's SVM reads:
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
# normalised steps, from starts anywhere: that they end there too is a measurement.
# The problem is lesson 02's, with the points $a_{it}\, z_i^\top$, all with the label 1.


# %%
one = data.random_tokens(n=6, T=8, d=10, seed=0)
own = zip(one.X, one.z, one.optimal, strict=True)  # tokens, query and choice of each sequence
points = torch.stack([torch.outer(x[k] - x[t], q) for x, q, k in own for t in range(8) if t != k])
plain = svm.solve(svm.label_problem(points.flatten(1), torch.ones(42)))  # 42 points in 100 dimensions
W_mm, lam = plain.value.reshape(10, 10), plain.objective * plain.dual  # the dual of the norm, not its square
print(f"{len(lam)} comparisons, {(lam > 1e-9).sum()} with weight; norm of W_mm {W_mm.norm():.4f}")
assert (W_mm - torch.einsum("m,mde->de", lam, points)).abs().max() < 1e-6
assert (W_mm - att_svm(one, one.optimal).value).abs().max() < 1e-6

# %% [markdown]
# The solution is a sum of comparisons, weighted by the dual variables $\lambda_{it} \ge 0$ (`lam`):
#
# $$W_{\mathrm{mm}} = \sum_i \bar a_i\, z_i^\top, \qquad \bar a_i = \sum_{t \ne \alpha_i} \lambda_{it} a_{it},
# \qquad p_i = W_{\mathrm{mm}}\, z_i = \sum_k (z_k \cdot z_i)\, \bar a_k .$$
#
# **Equal queries** share one $p$. **Independent queries** leave every $p_i$ free. So a choice is feasible if
# and only if each sequence *by itself* is. Distinct tokens of length one always are, as $p_i =
# x_{i\alpha_i}$ prefers $x_{i\alpha_i}$ to all others.

# %% [markdown]
# **The rank.** The rows of $W_{\mathrm{mm}} = \sum_i \bar a_i z_i^\top$ are combinations of the queries. So
# its rank is at most $\min(n, d)$, and at most the number of different queries.

# %%
print("  n   T   d   queries   feasible   rank of W_mm: least, most")
for n, T, d, distinct in ((6, 8, 10, 6), (14, 3, 8, 14), (6, 8, 10, 2)):
    tokens = data.random_tokens(n=n, T=T, d=d, trials=100, seed=4)
    tokens = dataclasses.replace(tokens, z=tokens.z[:, torch.arange(n) % distinct])
    solution = att_svm(tokens, tokens.optimal)
    rank = torch.linalg.matrix_rank(solution.value[solution.status == "optimal"], rtol=1e-5)
    print(f"{n:3d} {T:3d} {d:3d} {distinct:9d} {len(rank):10d} {rank.min():18d} {rank.max():7d}")
    assert rank.max() == min(distinct, d)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10.4 What a conflict costs *(optional)*
#
# Unless queries are orthogonal, sequences share a part of $W$: a help, or a cost?

# %% [markdown]
# ### Exercise 10.2: The price of a conflict
#
# ★★☆ · 10 minutes
#
# *Predict before you measure.* Two sequences have the *same* two tokens, at the distance $\lVert x_1 - x_2
# \rVert$, and queries of length one at an angle $\varphi$, $0 < \varphi < \pi$. Sequence 1 selects token 1.
# Return $\lVert W_{\mathrm{mm}} \rVert_F$, one over the largest margin, if sequence 2 selects token 1 too
# (`agree`), and if it selects token 2.
#
# <details><summary>Hint</summary>
#
# There are two comparisons, with the signs of $\pm (x_1 - x_2)$. In which direction must the columns of $W$
# point? What is left is an SVM with two points in the plane of the queries: lesson 02 finds its margin as a
# distance from the origin.
# </details>


# %%
@exercise("10.2")
def price(distance, angle, agree):
    """Return the norm of W_mm, for tokens at a distance, queries at an angle (radians), agree a bool."""
    ### BEGIN SOLUTION
    return 1 / (distance * (np.cos(angle / 2) if agree else np.sin(angle / 2)))
    ### END SOLUTION


# %%
check("10.2", price)

# %%
angles = np.linspace(0.05, 3.09, 20)
queries = torch.tensor([[[1.0, 0.0], [np.cos(turn), np.sin(turn)]] for turn in angles])  # (20, 2, 2)
pair = torch.tensor([[0.6, 0.8], [0.6, -0.8]], dtype=torch.float64).expand(20, 2, 2, 2)
margins = {}
for agree in (True, False):
    selected = torch.tensor([0, 0 if agree else 1]).expand(20, 2)
    W = svm.solve(svm.attention_problem(pair, queries, selected)).value
    leads = geometry.margins(torch.einsum("kitd,kde,kie->kit", pair, W, queries), selected).amin((-2, -1))
    margins[agree] = (leads / W.flatten(1).norm(dim=1)).numpy()
    product = margins[agree] * [price(1.6, turn, agree) for turn in angles]
    assert np.abs(product - 1).max() < 1e-5, again.format("10.2")
print(f"all {2 * len(angles)} margins as predicted")

# %% jupyter={"source_hidden": true}
fig, ax = plt.subplots(figsize=(7.5, 3.6))
turn = np.linspace(0, np.pi, 200)
for agree, color, marker, name in ((True, BLUE, "o", "same token"), (False, ORANGE, "s", "conflict")):
    line = 1.6 * (np.cos(turn / 2) if agree else np.sin(turn / 2))
    ax.plot(np.degrees(turn), line, color=color, linestyle="-" if agree else "--", label=f"{name}, predicted")
    ax.plot(np.degrees(angles), margins[agree], marker, color=color, label=f"{name}, solved")
ax.set(xlabel="angle between the two queries (degrees)", ylabel="margin", ylim=(0, 2.15))
ax.set_xticks([0, 45, 90, 135, 180])
ax.legend(ncol=2, loc="upper center")
show(
    fig,
    alt="Margin against the angle between two queries. If both sequences select the same token it falls from "
    "1.6 at 0 to 0 at 180 degrees, along a cosine; if they conflict it rises from 0 to 1.6, along a sine. "
    "Markers of solved SVMs lie on both lines.",
)

# %% [markdown]
# **Figure 2.** Two sequences with the same two tokens, 1.6 apart. Lines: the largest margin, from exercise
# 10.2. Markers: the SVM, solved. At 0 and at 180 degrees one of the two is impossible, for *any* $d$.

# %% [markdown]
# **Try it.** Turn the second query through the first one, and see $W_{\mathrm{mm}}$ make one $p$ for both, or
# two. For which token of sequence 2 is there a solution even with equal queries?


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
# For tokens 1 and 2. Token 3 lies on the other side.
# </details>

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10.5 The paper's data
#
# The paper's public code takes $n = 6$, $T = 8$, $d = 10$, all vectors uniform on the unit
# sphere, 2,000 normalised steps of length 0.1 from the start of `torch.nn.Linear`. We train 100 trials, each
# on its own data, and again from zero with growing steps, of length $0.1 \sqrt{j}$ in step $j$. On the same
# data we follow lesson 08's path, the least loss for $\lVert W \rVert_F \le R$, outwards from $R = 1$ to
# 1000: this finds a *branch*, which need not stay the least.

# %%
cross = data.random_tokens(n=6, T=8, d=10, trials=100, seed=2)
record_at = [1, 3, 10, 30, 60, 100, 200, 400, 700, 1000, 1400, 2000]
draw = torch.rand(100, 10, 10, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
start = (2 * draw - 1) / 10**0.5  # torch.nn.Linear: uniform between -1/sqrt(d) and 1/sqrt(d)
paper, zero, ball = (models.CrossAttention(10, trials=100, init=init) for init in (start, None, None))
branch = regularization_path(ball, cross, [1, 3, 10, 30, 100, 300, 1000])
runs = {
    "growing": (zero, fit(zero, cross, every=[2000], schedule=train.growing)["W"][1:]),
    "the paper's": (paper, fit(paper, cross, every=record_at)["W"][1:]),
    "branch": (ball, branch["W"]),
}
curves = {}
print("             cosine to Frobenius: mean   least   to nuclear: mean   locally optimal   best tokens")
for name, (model, W) in runs.items():
    selected = geometry.selected_tokens(model.attention(cross).detach())
    limits = {norm: att_svm(cross, selected, norm).value for norm in ("fro", "nuc")}
    curves[name] = {norm: torch.stack([geometry.cosine(w, V) for w in W]) for norm, V in limits.items()}
    fro, nuclear = curves[name]["fro"][-1], curves[name]["nuc"][-1].mean()
    logits = models.CrossAttention(10, trials=100, init=limits["fro"]).logits(cross)
    local = geometry.locally_optimal(cross.scores, logits, selected).sum()
    hit = (selected == cross.optimal).all(-1)
    print(f"{name:12s} {fro.mean():25.3f} {fro.min():7.3f} {nuclear:18.3f} {local:17d} {hit.sum():13d}")
    assert 0.84 < nuclear < 0.88 < 0.99 < fro.mean()
    assert name == "the paper's" or (fro.min() > 0.999 and local == 100)

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
# **Figure 3.** The published experiment again, with its constant steps: means of 100 trials, and bars for the
# middle 80%. The SVMs are those of the tokens that each trial has selected in the end (nuclear:
# lesson 04's norm).

# %% [markdown]
# **$W$ goes to the Frobenius SVM of its own choice of tokens, and the choice is local.** With growing steps
# the cosine ends above .999, at locally optimal tokens, in all these trials. But only 72 choose the best
# ones, feasible in all (section 10.3): section 10.7 asks why. The branch does no better: 65. *The path
# itself* ends at the best tokens, by lesson 08's theorem.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10.6 When the query is one of the tokens
#
# In **self-attention** the query is a token of its own sequence, say the first, $z_i = x_{i1}$. Suppose it is
# **the best token** of each training sequence. One rule then serves all, *attend to yourself*: with $W = bI$,
# $b > 0$, every token of length one puts itself before any other,
#
# $$x_{i1}^\top W x_{i1} - x_{it}^\top W x_{i1} = b\,(1 - x_{it} \cdot x_{i1}) > 0 .$$
#
# **Is it $bI$ that is learned?** The data know one direction, $v$, which ranks the tokens. Turn all tokens by
# an orthogonal $\Omega$ with $\Omega v = v$: their scores stay. If the law of the tokens has no direction of
# its own, and the label is a coin, the turned data are as likely as the old ones. So the loss $\bar L$
# averaged over all data has
#
# $$\bar L(\Omega^\top W \Omega) = \bar L(W) , \qquad
# \nabla \bar L(\Omega^\top W \Omega) = \Omega^\top\, \nabla \bar L(W)\, \Omega .$$
#
# If $\Omega^\top W \Omega = W$ for all such $\Omega$, then $\nabla \bar L(W)$ has this property too, and
# descent from zero keeps it.

# %% [markdown]
# ### Exercise 10.3: What symmetry leaves of W
#
# ★★★ · 15 minutes
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
# Two numbers are left, one along $v$ and one across. Averaging changes neither $v^\top W v$ nor the trace.
# </details>


# %%
@exercise("10.3")
def symmetric_part(W, v):
    """Return the average, (d, d), for W (d, d) and v (d,)."""
    ### BEGIN SOLUTION
    P = np.outer(v, v) / (v @ v)
    along = np.sum(P * W)
    across = (np.trace(W) - along) / (len(v) - 1)
    return across * (np.eye(len(v)) - P) + along * P
    ### END SOLUTION


# %%
check("10.3", symmetric_part)

# %% [markdown]
# So on endless data $W = b\,(I - ee^\top) + b_v\,ee^\top$ with $e = v / \lVert v \rVert$. Call this the
# *form*, and $r = b_v / b$ its *ratio*: $bI$ has $r = 1$. On finite data $W$ is its form, read off as in the
# exercise, plus a *rest*, measured as a share of $\lVert W \rVert_F$.
#
# **The first step.** Let the head and all tokens have length one, and drop the index $i$. Token 1, the query,
# is the best. By exercise 10.1, with $\eta = 1$, the first step on endless data is an expectation over
# sequences,
#
# $$W_1 = \mathbb{E} \Big[ |\ell'(u)|\, \frac1T \sum_t (\gamma_t - u)\; x_t\, x_1^\top \Big] ,
# \qquad u = \frac1T \sum_t \gamma_t .$$
#
# Along $v$ the label cancels: $(e \cdot x_t)(e \cdot x_1) = \gamma_t \gamma_1$. Across $v$ the tokens point
# in independent random directions, whatever their scores. So of the trace across, $(d - 1)\, b$, only $t = 1$
# is left, with the squared length $1 - \gamma_1^2$ that $x_1$ has across:
#
# $$b_v = \mathbb{E} \Big[ |\ell'(u)|\, \frac1T \sum_t (\gamma_t - u)\, \gamma_t\, \gamma_1 \Big] , \qquad
# b = \frac{1}{d - 1}\, \mathbb{E} \Big[ |\ell'(u)|\, \frac1T\, (\gamma_1 - u)(1 - \gamma_1^2) \Big] .$$

# %% [markdown]
# **Its ratio $r$ tends to $T$ for large $d$.** Along $v$ the pulls of all $T$ tokens add up, also those of
# bad tokens, which lie on the other side and are pushed away. Across $v$ only the query's own pull is left.
#
# <details><summary>Why exactly $T$</summary>
#
# For large $d$ the $\xi_t = \sqrt d\, \gamma_t$ are $T$ standard Gaussians, drawn independently and then
# sorted so that $\xi_1$ is the largest, and $|\ell'(u)| \to |\ell'(0)| = \frac12$. Write $\xi_t = \bar\xi +
# \rho\, \nu_t$ with the mean $\bar\xi$ and $\rho^2 = \sum_t (\xi_t - \bar\xi)^2$: for Gaussians $\bar\xi$,
# $\rho$ and $\nu$ are independent, and sorting does not change that. With $\sum_t (\xi_t - \bar\xi) \xi_t =
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

# %% [markdown]
# **What does it select?** By the form, the query leads token $t$ by
#
# $$(x_1 - x_t)^\top W x_1 = b\,(1 - x_t \cdot x_1) + (b_v - b)\, \gamma_1\, (\gamma_1 - \gamma_t) .$$
#
# As $x_1$ is the best token, this is positive for $b > 0$, $r \ge 1$, unless $\gamma_1 < 0$: unless all $T$
# tokens score below 0, one sequence in $2^T$. So $W$ is a rule for new sequences too.


# %%
def best_first(tokens):
    """Tokens of each sequence by falling score; the first, the best one, is the query."""
    order = tokens.scores.argsort(dim=-1, descending=True)[..., None].expand_as(tokens.X)
    X = tokens.X.gather(-2, order)
    return dataclasses.replace(tokens, X=X, z=X[..., 0, :].contiguous())


def read(W, e):
    """The ratio of W's form, and the share of the rest in the norm of W (d, d), for the unit vector e."""
    along, form = e @ W @ e, symmetric_part(W, e)
    return along * (len(e) - 1) / (np.trace(W) - along), np.linalg.norm(W - form) / np.linalg.norm(W)


def first_step(T, d):
    """b_v / b, and the mean lead by the form over that by a sequence's own pull, from 50,000 draws of scores.

    Scores are coordinates of random unit vectors, sorted; across v the tokens have mean 0 and no more to say.
    """
    half = (d - 1) / 2  # half of 1 plus a coordinate is beta distributed
    scores = np.sort(1 - 2 * np.random.default_rng(1).beta(half, half, size=(50_000, T)))[:, ::-1]
    u, best, rivals = scores.mean(axis=1, keepdims=True), scores[:, :1], scores[:, 1:]
    pulls = (scores - u) / (1 + np.exp(u)) / T
    along, across = (pulls * scores).sum(axis=1, keepdims=True), pulls * (1 - scores**2)
    b_v, b = (along * best).mean(), across[:, 0].mean() / (d - 1)
    by_form = b * (1 - best * rivals) + (b_v - b) * best * (best - rivals)
    own = along * (best - rivals) + across[:, :1] - across[:, 1:]
    return b_v / b, by_form.mean() / own.mean()


def selects_itself(W, X):
    """The share of sequences X (n, T, d) that select their first token, which is the query."""
    return (np.einsum("ntd,de,ne->nt", X, W, X[:, 0]).argmax(axis=1) == 0).mean()


print("first step, n = 5000: ratio/T             in 2000 new sequences")
print("  T   d     foreseen   found   rest     select the best: share")
for T, d in ((8, 4), (8, 10), (8, 40), (30, 10), (30, 25), (30, 60)):
    many = best_first(data.random_tokens(n=5000, T=T, d=d, seed=3))
    new = best_first(dataclasses.replace(data.random_tokens(n=2000, T=T, d=d, seed=4), v=many.v))
    W, e = -closed_form(models.CrossAttention(d), many, losses.logistic)()[1]["W"].numpy(), many.v.numpy()
    (ratio, rest), foretold, best = read(W, e), first_step(T, d)[0], selects_itself(W, new.X.numpy())
    print(f"{T:3d} {d:3d}{foretold / T:13.2f}{ratio / T:8.2f}{rest:7.2f}{best:25.2f}")
    assert abs(ratio / foretold - 1) < 0.06
    assert best > 0.99
    assert rest < 0.15, again.format("10.3")
    assert d < 40 or abs(foretold / T - 1) < 0.1

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10.7 How other queries help or disturb
#
# Token 1 is the best again. By exercise 10.1 the first step puts it ahead of token $t$ of sequence $i$ by
#
# $$\frac{\eta}{n} \sum_k (z_k \cdot z_i)\; g_k \cdot (x_{i1} - x_{it}) , \qquad
# g_k = |\ell'(u_k)|\, \frac1T \sum_j (\gamma_{kj} - u_k)\, x_{kj} .$$
#
# The *own* part, $k = i$, is the same for all queries of length one. What do the *others* add?
#
# - **Orthogonal queries:** nothing.
# - **Random queries:** noise. $z_k$ has the mean 0 and knows nothing of the tokens, so the sum over $k \ne i$
#   has the mean 0, and a spread that grows as $\sqrt{n - 1}$.
# - **The best tokens as queries:** help. The mean is $\eta\,(n - 1) / n$ times the lead by $W_1$ of section
#   10.6; what the own part has is an expectation over scores, too.
#
# A control: each sequence asks with *another's* best token. Tokens and queries are the same, but for $n \ge
# 3$ the mean is 0 again.


# %%
def with_queries(tokens):
    """The same tokens, the best first, with four kinds of queries."""
    own = best_first(tokens)
    kinds = {"best": own.z, "other": own.z.roll(1, -2), "random": tokens.z}
    if own.z.shape[-2] <= own.z.shape[-1]:
        kinds["orthogonal"] = torch.linalg.qr(tokens.z.mT)[0].mT
    return {name: dataclasses.replace(own, z=z.contiguous()) for name, z in kinds.items()}


def end_at_best(tokens, steps=500, init=None, **options):
    """In how many of 100 trials descent ends at the first token of every sequence."""
    model = models.CrossAttention(tokens.X.shape[-1], trials=100, init=init)
    fit(model, tokens, steps, **options)
    return int((geometry.selected_tokens(model.attention(tokens)) == 0).all(-1).sum())


print("step 1: others' part of the lead, if the own part's mean is 1        sequences")
print("            best: mean/(n-1)    spread/sqrt(n-1)     that select the best token")
print("  n  T  d   foreseen   found     best    random      best  orthogonal  random")
for n, T, d in ((6, 8, 10), (50, 8, 10), (400, 8, 10), (50, 30, 10), (50, 8, 40)):
    kinds = with_queries(data.random_tokens(n=n, T=T, d=d, trials=100, seed=2))
    help, share, spread = first_step(T, d)[1], {}, {}
    for name in ("best", "random"):
        tokens = kinds[name]
        u, gaps = tokens.scores.mean(-1, keepdim=True), tokens.X[..., :1, :] - tokens.X[..., 1:, :]
        g = torch.einsum("knt,kntd->knd", (tokens.scores - u) / (1 + u.exp()), tokens.X)
        own = torch.einsum("kntd,knd->knt", gaps, g)
        lead = torch.einsum("kntd,kjd,kjn->knt", gaps, g, tokens.z @ tokens.z.mT)
        others = (lead - own) / own.mean()
        spread[name], share[name] = others.std() / (n - 1) ** 0.5, (lead > 0).all(-1).double().mean()
        share["orthogonal"] = (own > 0).all(-1).double().mean()
        if name == "best":
            found = others.mean() / (n - 1)
    print(
        f"{n:3d} {T:2d} {d:2d}{help:11.2f}{found:8.2f}{spread['best']:9.2f}{spread['random']:10.2f}", end=""
    )
    print(f"{share['best']:10.2f}{share['orthogonal']:12.2f}{share['random']:8.2f}")
    assert abs(found / help - 1) < 0.15
    assert share["best"] > share["orthogonal"] > share["random"]

# %%
print("trials of 100 that end at the best tokens, by query; paper's: random, with its start and steps")
print("(n, T, d)    seed    best   orthogonal   random   another's   paper's")
for n, T, d, seed in ((6, 8, 10, 2), (6, 8, 10, 12), (6, 8, 10, 13), (6, 30, 10, 2), (12, 8, 6, 2)):
    kinds = with_queries(data.random_tokens(n=n, T=T, d=d, trials=100, seed=seed))
    found = {name: end_at_best(tokens, schedule=train.growing) for name, tokens in kinds.items()}
    draw = torch.rand(100, d, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    published = end_at_best(kinds["random"], 2000, init=(2 * draw - 1) / d**0.5)
    print(f"{(n, T, d)!s:12s}{seed:5d}{found['best']:8d}{found.get('orthogonal', '-'):>13}", end="")
    print(f"{found['random']:9d}{found['other']:12d}{published:10d}")
    assert found["best"] > 90 > 80 > max(found["random"], found["other"])
    assert found["best"] > found.get("orthogonal", 90) > found["random"]

# %% [markdown]
# **The others help, or disturb.** More trials end at the best tokens without them (orthogonal) than with
# their noise, and still more with their help. The first step explains the order of the columns, and that help
# grows with $T$ and falls with $d$. Most of the finding is done by later steps, also without help: there we
# have counts, not a theorem.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10.8 Later steps and more data
#
# As $bI$ selects the best tokens of every training set, their Att-SVM is feasible. We follow descent there,
# with $d = 10$, growing steps, and 20 trials of 50 sequences or five of 400.

# %%
STEPS, later = [1, 3, 10, 30, 100, 300, 1000], {}
print("d = 10          rest     ratio of W_mm")
print(" T    n   step 1   W_mm   least   most")
for T, n, trials in ((8, 50, 20), (8, 400, 5), (30, 50, 20), (30, 400, 5)):
    tokens = best_first(data.random_tokens(n=n, T=T, d=10, trials=trials, seed=3))
    model, e = models.CrossAttention(10, trials=trials), tokens.v.numpy()
    path = fit(model, tokens, 1000, schedule=train.growing, every=STEPS)["W"]
    W_mm = att_svm(tokens, tokens.optimal).value
    assert (geometry.cosine(path[-1], W_mm) > 0.998).all()
    W = torch.cat([path[1:], W_mm[None]]).numpy()  # (8, trials, 10, 10)
    ratio, rest = np.moveaxis([[read(row[k], e[k]) for k in range(trials)] for row in W], -1, 0)
    later[T, n] = ratio, rest
    print(f"{T:2d} {n:4d}{rest[0].mean():9.2f}{rest[-1].mean():7.2f}", end="")
    print(f"{ratio[-1].min():8.2f}{ratio[-1].max():7.2f}")
    assert 1 < ratio.min() < ratio[-1].max() < 4
    assert rest[0].mean() < rest[-1].mean()


# %% jupyter={"source_hidden": true}
fig, axes = plt.subplots(1, 2, figsize=(9, 3.7))
fig.get_layout_engine().set(wspace=0.06)
looks = {8: (GREEN, "^"), 30: (ORANGE, "s")}
for (T, n), drawn in later.items():
    (color, marker), line = looks[T], "--" if n == 50 else "-"
    face = "white" if n == 50 else color
    for ax, values in zip(axes, drawn, strict=True):
        beside = {(8, 50): 0.8, (8, 400): 0.93, (30, 50): 1.08, (30, 400): 1.25}
        where = np.array([*STEPS, 6000]) * beside[T, n]
        ax.vlines(where, values.min(axis=1), values.max(axis=1), color=color, linewidth=3, alpha=0.35)
        look = {"marker": marker, "color": color, "markerfacecolor": face, "markersize": 6}
        ax.plot(where[:-1], values[:-1].mean(axis=1), line, label=f"$T = {T}$, $n = {n}$", **look)
        ax.plot(where[-1:], values[-1:].mean(axis=1), **look)
for T, (color, _) in looks.items():
    axes[0].axhline(T, color=color, linestyle=":", linewidth=1.2)
axes[0].set(yscale="log", ylabel="ratio $r = b_v / b$", ylim=(1, 70))
axes[0].set_yticks([1, 2, 5, 10, 20, 50], ["1", "2", "5", "10", "20", "50"])
axes[1].set(ylabel="rest", ylim=(0, 0.68))
for ax in axes:
    ax.set(xscale="log", xlabel="step")
    ax.set_xticks([1, 10, 100, 1000, 6000], ["1", "10", "100", "1,000", "$W_{\\mathrm{mm}}$"])
    ax.minorticks_off()
axes[1].legend(loc="upper left", fontsize=9, handlelength=4)
show(
    fig,
    alt="Two panels against the step, for 8 and 30 tokens and 50 and 400 sequences. The ratio falls from "
    "about 9 and 45, above dotted lines at 8 and 30, to about 2. The rest dips until step 30, then "
    "grows to about a half for 50 sequences and above a third for 400. The last markers show W_mm.",
)

# %% [markdown]
# **Figure 4.** Along the run: means, and bars from the least trial to the largest, the four of each step side
# by side. Last markers: $W_{\mathrm{mm}}$. Dotted: $r = T$.

# %% [markdown]
# **Where descent goes.** By step 1,000 all 50 trials have a cosine above .998 to the $W_{\mathrm{mm}}$ of the
# best tokens. On the way the ratio falls, and stays above 1 in these runs; the rest dips, then grows.
#
# **More data.** On endless data rivals come arbitrarily near to $x_1$, so no $W$ leads by 1 against all: the
# margin is 0, and there is no $W_{\mathrm{mm}}$. But the first $n$ sequences have one. Where does its
# direction go as $n$ grows?

# %% [markdown]
# ### Exercise 10.4: Which W survive endless data?
#
# ★★★ · 15 minutes
#
# *Predict before you measure.* All tokens have length one. $W$ *survives* if $(x_1 - x_t)^\top W x_1 \ge 0$
# for every two tokens and label with $\gamma_1 > \gamma_t$. Return whether $W$ does, a bool. ($W$ may be
# any matrix, $d \ge 2$, and $v \ne 0$ of any length.)
#
# <details><summary>Hint 1</summary>
#
# Take the rival $x_1 - \delta w$ for a small $\delta > 0$ and a direction $w$ orthogonal to $x_1$. What is
# the lead, to first order in $\delta$? For which $w$ does the rival score lower?
# </details>
#
# <details><summary>Hint 2</summary>
#
# The lead is $\delta\, w^\top W x_1$, and $w$ occurs if $y\, v \cdot w > 0$. But both labels occur at the
# same $x_1$.
# </details>


# %%
@exercise("10.4")
def survives(W, v):
    """Return whether W (d, d) lets no rival ahead, a bool, for v (d,)."""
    ### BEGIN SOLUTION
    b = np.trace(W) / len(W)
    return bool(b >= 0 and np.allclose(W, b * np.eye(len(W))))
    ### END SOLUTION


# %%
check("10.4", survives)

# %% [markdown]
# Near rivals and both labels leave only $bI$, $b \ge 0$, whatever $v$ is.
#
# > **The limit of $W_{\mathrm{mm}}$** (this lesson's). *Conditions.* $d \ge 2$; $v \ne 0$ is fixed; $n$
# > sequences of $T \ge 2$ tokens, drawn independently and uniformly from the unit sphere; the label a coin;
# > the query the best token.
# >
# > *Then*, with probability one, $W_{\mathrm{mm}} / \lVert W_{\mathrm{mm}} \rVert_F \to I / \sqrt d$ as $n
# > \to \infty$.
#
# <details><summary>Proof</summary>
#
# A sequence that has come stays. So in all that ever come, each limit of $W_{\mathrm{mm}} / \lVert
# W_{\mathrm{mm}} \rVert_F$ has leads of at least 0. They come arbitrarily near to every possible sequence,
# and every two tokens with $\gamma_1 > \gamma_t$ stand in one whose other tokens score below $x_1$: each
# limit survives.
#
# To first order in $\delta$, the lead over $x_1 - \delta w$ is $\delta\, w^\top W x_1$. Each $x_1$ comes
# with both labels, so every $w$ orthogonal to $x_1$ occurs with $v \cdot w \ne 0$, and so does $-w$: $W x_1$
# has no part across $x_1$. This for every $x_1$ says $W = bI$, and $b \ge 0$; as the limit has length one,
# $b = 1 / \sqrt d$.
# </details>


# %%
def self_svm(n, T, d, seed):
    """W_mm and the head, for n sequences that ask with their best token."""
    many = best_first(data.random_tokens(n=n, T=T, d=d, seed=seed))
    problem = svm.attention_problem(many.X, many.z, torch.zeros(n, dtype=torch.int64))
    return svm.solve(problem).value.numpy(), many.v.numpy()


print("three SVMs each   ratio of W_mm    rest")
print("T  d        n    least    most    mean")
for n, T, d in ((600, 3, 3), (20_000, 3, 3), (6_000, 8, 3), (6_000, 3, 6)):
    ratio, rest = np.transpose([read(*self_svm(n, T, d, seed)) for seed in range(3)])
    print(f"{T}  {d}{n:9,d}{ratio.min():9.2f}{ratio.max():8.2f}{rest.mean():8.2f}")
    assert n < 20_000 or (abs(ratio - 1).max() < 0.1 and rest.max() < 0.05)

# %% [markdown]
# **So is it $bI$ that is learned?** If descent runs to its end and then $n$ grows, yes, but slowly, and more
# so for larger $T$ and $d$: an $r > 1$ is punished only in one sequence of $2^T$, and a rest by near rivals,
# rare in high dimensions.
#
# If two sequences ask the same and want opposite answers, no $W$ serves both: [lesson
# 16](16_next_token_prediction.ipynb) trains on such data (section 16.8).

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10.9 Claims and measurements
#
# | claim | prediction | measured |
# |:---|:---|:---|
# | direction of $W$ (10.5) | Frobenius SVM of a local choice | 100 of 100 trials; the best tokens in 72 |
# | queries carry the answer (10.7) | more trials end at the best | 97 to 100 of 100; others 6 to 89 |
# | ratio of the first step | two expectations | within 6% at six sizes |
# | $W_{\mathrm{mm}}$, $T = d = 3$, $n = 20000$ | $bI$ | $r$ from 1.01 to 1.05, rest .03 |

# %% [markdown]
# ## Questions
#
# **1.** Your data have $n = 1000$ sequences, $d = 64$, but only 12 different query words. How large can the
# rank of $W_{\mathrm{mm}}$ be? Say also a rank that $W$ cannot fall below, by plain gradient steps from an
# invertible start.
# <details><summary>Answer</summary>
#
# At most 12: it is a sum of outer products with the queries. After descent at least 52: each step is such a
# sum too, so $Wz$ stays what it was at the start for all $z$ orthogonal to the queries, and these $z$ fill 52
# dimensions.
# </details>
#
# **2.** Why do all four kinds of queries in section 10.7 give the same run if $n = 1$?
# <details><summary>Answer</summary>
#
# Descent from zero sees the queries only through the products $z_k \cdot z_i$. With one query, of length one,
# there is nothing but its square, 1.
# </details>

# %%
progress("10")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - $W$ is a $p$ for the keys $x_{it} z_i^\top$: gradient, Att-SVM and theorem carry over, with their
#   conditions. In our runs descent ended at the Frobenius SVM of its choice, locally optimal in 99 or 100 of
#   100.
# - $W_{\mathrm{mm}} = \sum_i \bar a_i z_i^\top$, so its rank is at most $\min(n, d)$.
# - Where the query is the best token, one step on endless data makes $W = b\,(I - ee^\top) + b_v\,ee^\top$,
#   $e$ along $v$, with $b_v / b \to T$ for large $d$.
# - There the other sequences help to find the best tokens, by what two expectations say; with random queries
#   they disturb.
# - Later steps go to $W_{\mathrm{mm}}$, whose direction tends to that of $I$ as $n$ grows.

# %% [markdown]
# ## Further reading
#
# - D. A. Tarzanagh, Y. Li, C. Thrampoulidis, S. Oymak, *Transformers as Support Vector Machines* (2023, arXiv
#   2308.16898): the Att-SVM for $W$ and for $K, Q$, and the data of section 10.5.
# - D. A. Tarzanagh, Y. Li, X. Zhang, S. Oymak, *Max-Margin Token Selection in Attention Mechanism* (NeurIPS
#   2023, arXiv 2306.13596): the theorem for $p$.
#
# The price of section 10.4, the numbers $b$, $b_v$ of section 10.6, the reason of section 10.7 and the limit
# of section 10.8 are this lesson's own, not theorems of the papers.
#
# **New in the library:** [`geometry.margins`](../mini_attn/geometry.py),
# [`gradients.closed_form`](../mini_attn/gradients.py), [`models.CrossAttention`](../mini_attn/models.py),
# [`svm.attention_problem`](../mini_attn/svm/problem.py).
#
# **Next:** [lesson 11](11_key_query_nuclear.ipynb): train $K$ and $Q$, and the norm changes.
