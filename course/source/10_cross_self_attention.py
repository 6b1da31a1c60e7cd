# %% [markdown] slideshow={"slide_type": "slide"}
# # 10 · Cross- and self-attention
#
# In part II one vector $p$ asked the same question of every sequence. A transformer lets each sequence ask
# its own: sequence $i$ brings a **query** $z_i$, and a matrix $W$ turns it into the vector that its tokens
# are compared with. If the query is itself one of the tokens, this is *self-attention*.
#
# **The question: where does gradient descent take the matrix $W$, and does it matter whose token the query
# is?**
#
# The first half needs one line: $W$ is a $p$, for other keys. The second half has a surprise in it.

# %% [markdown]
# **After this lesson you can**
#
# - turn the statements about $p$ into statements about $W$, and compute its SVM from inner products alone;
# - write $W_{\mathrm{mm}}$ as a sum of outer products, and read its rank off it;
# - say what a start leaves behind in $W$, and which optimisers move it;
# - say what sequences share through their queries, and what a conflict between two of them costs;
# - derive from a symmetry of the data which form $W$ takes, and decide from words alone whether the tokens
#   to be selected contradict each other.
#
# **You need** [lesson 02](02_hard_margin_svm.ipynb) (nonnegative least squares),
# [lesson 05](05_softmax_attention.ipynb) (the gradient), [lesson 06](06_attention_as_svm.ipynb) (Att-SVM),
# [lesson 07](07_local_global_tokens.ipynb) (outcomes: global, local, undecided) and
# [lesson 08](08_regularization_path.ipynb) (paths and branches). About 90 minutes
# and four exercises; a fifth stands in one of five optional sections.

# %%
import dataclasses

import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure
from scipy.optimize import nnls

from course.exercise import check, exercise, progress, todo
from course.figure import show
from mini_attn import data, geometry, models, optim, paths, plots, svm, train, widgets

plots.style()
torch.set_num_threads(1)  # many small tensors: one thread is fastest
np.set_printoptions(precision=4, suppress=True)
BLUE, ORANGE, GREEN, BLACK = (plots.COLORS[name] for name in ("blue", "vermillion", "green", "black"))
again = "this differs from the text: if exercise {} has no tick, start there"

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10.1 The idea in a picture
#
# There are $n$ sequences of $T$ tokens $x_{it}$, each with a query $z_i$ and a label $y_i$. The head $v$ is
# fixed, one for all sequences of a trial, and with it the scores $\gamma_{it} = y_i\, v \cdot x_{it}$. We
# train $W$:
#
# $$L(W) = \frac1n \sum_i \ell(u_i), \qquad u_i = \sum_t s_{it}\, \gamma_{it}, \qquad
# s_i = \mathrm{softmax}(h_i), \qquad h_{it} = x_{it}^\top W z_i .$$
#
# Sequence $i$ sees $W$ only through $p_i = W z_i$: that is *its* $p$, compared with its tokens as in lesson
# 06. In the plane we can watch: $W$ is a $2 \times 2$ matrix, and it has to serve two sequences at once.


# %%
def fit(model, tokens, steps=2000, lr=0.1, **options):
    """Normalised steps of length lr in every trial, in place: what was recorded, with W (records, ...)."""
    optimizer = optim.NormalizedGD(model.parameters(), lr=lr, batch_dims=len(tokens.trials))
    record = {"W": lambda m: m.W}
    history = train.fit(model, tokens, optimizer, steps, record=record, progress=False, **options)
    model.requires_grad_(False)
    return history


def att_svm(tokens, selected, norm="fro"):
    """The Att-SVM for W of the selected tokens (trials, n)."""
    return svm.solve(svm.attention_problem(tokens.X, tokens.z, selected), norm=norm, throw=False)


plane = {T: data.random_tokens(n=2, T=T, d=2, seed=seed) for T, seed in ((3, 25), (5, 55))}
trained, every = {}, [*range(1, 40), *range(40, 2000, 40)]
for T, tokens in plane.items():
    model = models.CrossAttention(d=2)
    path = fit(model, tokens, every=every)["W"]  # (records, 2, 2)
    selected = geometry.selected_tokens(model.attention(tokens))
    W_mm = att_svm(tokens, selected).value
    trained[T] = path, selected, W_mm
    alike = geometry.cosine(model.W, W_mm, batch_dims=0)
    best = torch.equal(selected, tokens.optimal)
    print(f"T = {T}: selects tokens {(selected + 1).tolist()}, the best ones: {best}; ", end="")
    print(f"cosine of W to the dashed prediction {alike:.3f}")
    assert best
    assert alike > 0.999


# %% jupyter={"source_hidden": true}
def draw_plane(ax, tokens, selected, W_mm, path=None):
    """Tokens and queries on the unit circle, rays along W_mm z, and W z / ||W|| along a run."""
    turn = np.linspace(0, 2 * np.pi, 200)
    ax.plot(np.cos(turn), np.sin(turn), color=plots.COLORS["grey"], linewidth=0.8)
    for i, (color, marker) in enumerate(((BLUE, "o"), (ORANGE, "s"))):
        X, z, alpha = tokens.X[i].numpy(), tokens.z[i].numpy(), int(selected[i])
        others = np.delete(X, alpha, axis=0)
        ax.plot(*others.T, marker, color=color, markersize=8, markerfacecolor="white", zorder=4)
        ax.plot(*X[alpha], marker, color=color, markersize=11, zorder=4)
        ax.plot(*(1.17 * z), marker=f"$z_{i + 1}$", color=plots.ink(color), markersize=16)
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
            ax.annotate("", walk[-1], 0.75 * walk[-1], arrowprops={"arrowstyle": "-|>", "color": color})
    ax.set(xlim=(-1.32, 1.32), ylim=(-1.32, 1.32), aspect="equal")
    ax.set(xlabel="first coordinate", xticks=[-1, 0, 1], yticks=[-1, 0, 1])


fig, axes = plt.subplots(1, 2, figsize=(6.8, 3.7), sharey=True)
for ax, (T, (path, selected, W_mm)) in zip(axes, trained.items(), strict=True):
    draw_plane(ax, plane[T], selected, W_mm, path)
    ax.set_title(f"$n = 2$ sequences of $T = {T}$ tokens")
axes[0].set_ylabel("second coordinate")
show(
    fig,
    alt="Two unit circles, three and five tokens a sequence on them. Inside, a blue and an orange curve, W "
    "applied to each query, end on dashed rays. A dotted line across each ray cuts the selected token, drawn "
    "full, off from the other tokens of its sequence.",
)

# %% [markdown]
# **Figure 1.** Sequence 1 in blue (circles), sequence 2 in orange (squares); the selected token is full.
# Curves: $W z_i / \lVert W \rVert_F$ along 2,000 normalised steps from $W = 0$, the first one left out.
# Dashed: the direction of $W_{\mathrm{mm}}\, z_i$, computed without training. Dotted: the line orthogonal
# to it, halfway between the selected token and the next. (Tokens and queries have length one; the curves
# stay inside, as $\lVert W z \rVert \le \lVert W \rVert_F$. Of many random draws we show two that are easy
# to read.)

# %% [markdown]
# Two vectors $p_1 = W z_1$ and $p_2 = W z_2$, each cutting off one token of its own sequence. They are not
# free: one matrix makes both.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10.2 W is a p
#
# The logit is linear in $W$. With $\langle A, B \rangle = \sum_{jk} A_{jk} B_{jk}$,
#
# $$h_{it} = x_{it}^\top W z_i = \langle x_{it} z_i^\top,\, W \rangle = k_{it} \cdot \mathrm{vec}(W), \qquad
# k_{it} = \mathrm{vec}(x_{it} z_i^\top) \in \mathbb{R}^{d^2} .$$
#
# So $W$, its entries written one after the other, is the $p$ of lesson 06, and the **keys** are the outer
# products $x_{it} z_i^\top$. Values and scores stay what they were. Nothing in lesson 06 asked where the keys
# came from. So what was said there holds for $W$ under the same conditions: forces between pairs of tokens,
# the Att-SVM, support tokens, local optimality, the two clocks.

# %% [markdown]
# ### Exercise 10.1: The first step, without a matrix
#
# ★★☆ · 8 minutes
#
# *Predict before you measure.* From $W = 0$ we take one plain step, $W = -\eta\, \nabla L(0)$, for the
# logistic loss $\ell(u) = \log(1 + e^{-u})$. Return all logits after it, from inner products between
# tokens and between queries. Which sequences change the logits of sequence $i$, and by how much each?
#
# <details><summary>Hint 1</summary>
#
# At $W = 0$ attention is $s_{kt} = 1/T$, so $u_k$ is a mean score, and lesson 05's slope of $u_k$ in
# $h_{kt}$ is $(\gamma_{kt} - u_k)/T$. The logistic loss has $|\ell'(u)| = 1/(1 + e^u)$.
# </details>
#
# <details><summary>Hint 2</summary>
#
# Sequence $k$ adds to the step a vector made of its tokens, times $z_k^\top$. Put that between
# $x_{it}^\top$ and $z_i$: two inner products, multiplied.
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

# %% [markdown]
# The same step with the library's model. Last column: what sequence $i$ does to itself.

# %%
six = data.random_tokens(n=6, T=8, d=10, seed=1)
model = models.CrossAttention(10)
train.fit(model, six, torch.optim.SGD(model.parameters(), lr=100.0), steps=1, progress=False)
measured = model.logits(six).detach().numpy()
six_arrays = [array.numpy() for array in (six.X, six.z, six.scores)]
predicted = np.asarray(first_logits(*six_arrays, 100.0))
itself = [first_logits(*(array[i : i + 1] for array in six_arrays), 100.0 / 6)[0] for i in range(6)]
best, rows = six.optimal.numpy(), np.arange(6)
total, alone = predicted[rows, best], np.array(itself, dtype=float)[rows, best]
print("sequence   logit of the best token: measured   predicted   by the sequence itself")
for i in rows:
    print(f"{i + 1:8d} {measured[i, best[i]]:35.3f} {total[i]:11.3f} {alone[i]:18.3f}")
assert np.abs(measured - predicted).max() < 1e-9, again.format("10.1")
assert alone.min() > 0 > total[3]
assert 0.5 < np.abs(total - alone).mean() / alone.mean() < 1

# %% [markdown]
# By itself each of the six raises its best token. What the others do to it through the common $W$ is more
# than half as large, up or down: in sequence 4 they turn the sign.

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
# >
# > **Theorem** (lesson 06's, for the keys $\mathrm{vec}(x_{it} z_i^\top)$; Tarzanagh, Li, Thrampoulidis and
# > Oymak, 2023, state it for $W$; informal). The loss is smooth and strictly decreasing, such as the
# > logistic one. Let $\alpha$ be locally optimal and its Att-SVM feasible. Small constant gradient steps
# > from a start close enough to $W_{\mathrm{mm}}(\alpha)$ in direction, and far enough out, take $\lVert W
# > \rVert_F$ to infinity and $W / \lVert W \rVert_F$ to $W_{\mathrm{mm}} / \lVert W_{\mathrm{mm}}
# > \rVert_F$. For **one** sequence with one best token, all others of equal scores, *and the best token
# > feasible*, small steps from every start take $W$ to its $W_{\mathrm{mm}}$ in the same sense.
#
# Feasibility is no formality: section 10.7 has data with which no start can reach the best tokens. Nor is the
# one sequence: lesson 12 shows what several do to each other. And most runs below are not those of the
# theorem: they take *normalised* steps, often of growing length, from zero. That they end where it says is a
# measurement; section 10.5 has one row of plain steps.
#
# The norm is Frobenius' because gradient descent measures $W$ as a long vector. (Lesson 03: another
# optimiser, another norm. Lesson 11: train $K$ and $Q$ instead of their product, another norm again.)
#
# There are $n(T - 1)$ comparisons of $d^2$ entries each. Lesson 02's dual never needs the entries, only the
# inner products between comparisons, and these are two kernels, multiplied:
#
# $$\langle a z^\top, a' z'^\top \rangle = \sum_{jk} a_j z_k a'_j z'_k = (a \cdot a')\,(z \cdot z') .$$
#
# How alike the answers, times how alike the questions. No $d \times d$ matrix is ever formed.


# %%
def gram(a, z):
    """All inner products for rows a (n (T - 1), d), ordered by sequence, and queries z (n, d)."""
    queries = np.repeat(z, len(a) // len(z), axis=0)
    return (a @ a.T) * (queries @ queries.T)


# %%
def comparisons(X, selected):
    """The rows x_alpha - x_t, (n (T - 1), d): lesson 06."""
    n, T, _ = X.shape
    return np.array([X[i, selected[i]] - X[i, t] for i in range(n) for t in range(T) if t != selected[i]])


def weights(G):
    """The SVM's dual variables from its inner products alone: lesson 02's nonnegative least squares."""
    size, directions = np.linalg.eigh(np.asarray(G, dtype=float))
    root = directions * np.sqrt(size.clip(min=0))  # root @ root.T = G
    lam, distance = nnls(np.vstack([root.T, np.ones(len(G))]), np.r_[np.zeros(len(G)), 1.0])
    if distance < 1e-7:
        raise ValueError("infeasible: no W selects these tokens")
    return lam / (1 - lam.sum())


one = data.random_tokens(n=6, T=8, d=10, seed=0)
X, z, best = one.X.numpy(), one.z.numpy(), one.optimal.numpy()
a = comparisons(X, best)
lam = weights(gram(a, z)).reshape(6, 7)  # one row for each sequence
a_bar = np.einsum("it,itd->id", lam, a.reshape(6, 7, 10))
W_mm = a_bar.T @ z  # the sum of outer products a_bar_i z_i^T
library = att_svm(one, one.optimal)
print(f"{lam.size} comparisons, {np.count_nonzero(lam)} with weight; norm of W_mm {np.linalg.norm(W_mm):.4f}")
print("least lead", (a.reshape(6, 7, 10) @ W_mm @ z[:, :, None]).min().round(6))
assert np.abs(W_mm - library.value.numpy()).max() < 1e-6
assert library.gap < 1e-8
assert 6 < np.count_nonzero(lam) < 42

# %% [markdown]
# The solution is a positive combination of comparisons, with the dual variables $\lambda_{it}$ (`lam`) as
# weights, and the comparisons of one sequence share their query:
#
# $$W_{\mathrm{mm}} = \sum_i \bar a_i\, z_i^\top, \qquad \bar a_i = \sum_{t \ne \alpha_i} \lambda_{it} a_{it},
# \qquad p_i = W_{\mathrm{mm}}\, z_i = \sum_k (z_k \cdot z_i)\, \bar a_k .$$
#
# So what sequence $k$ adds to $p_i$ is weighted by $z_k \cdot z_i$; to a lead of sequence $i$ it adds
# $(\bar a_k \cdot a_{it})(z_k \cdot z_i)$.
#
# **Orthogonal queries** of length one decouple the $p_i$: then $p_i = \bar a_i$, constraints fall apart
# into one group for each sequence, and each $p_i$ is the $p_{\mathrm{mm}}$ of its own sequence alone. What
# they still share is the norm: $\lVert W_{\mathrm{mm}} \rVert_F^2 = \sum_i \lVert p_i \rVert^2$. **Equal
# queries** share everything: one $p$ for all of them, as in lesson 06.
#
# **Independent queries** lie in between, but they are enough for this: with $z_1, \dots, z_n$ linearly
# independent, some $W$ makes any $p_1, \dots, p_n$ you like. So a choice is feasible if and only if each
# sequence *by itself* is. Distinct tokens of length one are never a problem, as $p_i = x_{i\alpha_i}$
# prefers $x_{i\alpha_i}$ to all others. That is why lesson 06 found the best tokens feasible for $W$ in
# every trial and for $p$ in hardly half: up to $n = d$, $W$ is $n$ vectors $p$ at once, whatever $T$ is.

# %%
many = data.random_tokens(n=10, T=30, d=10, trials=10, seed=3)
anything = torch.randint(0, 30, (10, 10), generator=torch.Generator().manual_seed(0))
for_W = (att_svm(many, anything).status == "optimal").sum()
for_p = (svm.solve(svm.token_problem(many.keys, anything), throw=False).status == "optimal").sum()
print(f"n = d = 10, T = 30: of 10 random choices {for_W} are feasible for W, {for_p} for p")
assert (for_W, for_p) == (10, 0)

rows = torch.linalg.qr(torch.tensor(z).T)[0].T.contiguous()  # orthonormal
orthogonal = dataclasses.replace(one, z=rows)
apiece = [svm.solve(svm.token_problem(one.keys[i : i + 1], one.optimal[i : i + 1])).value for i in range(6)]
together = att_svm(orthogonal, one.optimal).value @ orthogonal.z.mT  # (d, n)
print("orthogonal queries: p_i is sequence i's own p_mm:", np.allclose(together.T, torch.stack(apiece)))
assert np.allclose(together.T, torch.stack(apiece), atol=1e-6)
assert np.isclose((together**2).sum(), (att_svm(orthogonal, one.optimal).value ** 2).sum())

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
measured, margins = {}, {}
for agree in (True, False):
    choice = torch.tensor([0, 0 if agree else 1]).expand(20, 2)
    labels = torch.tensor([1.0, 1.0 if agree else -1.0], dtype=torch.float64).expand(20, 2)
    head = torch.tensor([0.0, 1.0], dtype=torch.float64).expand(20, 2)
    two = data.TokenData(X=pair, z=queries, y=labels, v=head)
    solution = att_svm(two, choice)
    measured[agree] = solution.objective.numpy()
    assert (torch.linalg.matrix_rank(solution.value, rtol=1e-6) == 1).all()
    model = models.CrossAttention(2, trials=20)
    fit(model, two, steps=3000, every=3000)
    leads = geometry.margins(model.logits(two), choice).amin((-2, -1))
    margins[agree] = (leads / model.W.flatten(1).norm(dim=1)).numpy()
    predicted = np.array([price(1.6, turn, agree) for turn in angles])
    late = 1 - margins[agree] * predicted
    print(
        f"{'agree' if agree else 'conflict':8s}: descent at worst {late.max():.0%} below the largest margin"
    )
    assert np.allclose(measured[agree], predicted, rtol=1e-6), again.format("10.2")
    assert late.max() < 0.03
    assert late.min() > -1e-6

# %% jupyter={"source_hidden": true}
fig, ax = plt.subplots(figsize=(7.5, 3.6))
turn = np.linspace(0, np.pi, 200)
for agree, color, marker, name in ((True, BLUE, "o", "same token"), (False, ORANGE, "s", "conflict")):
    line = 1.6 * (np.cos(turn / 2) if agree else np.sin(turn / 2))
    ax.plot(np.degrees(turn), line, color=color, linestyle="-" if agree else "--", label=f"{name}, predicted")
    ax.plot(np.degrees(angles), margins[agree], marker, color=color, label=f"{name}, descent")
ax.set(xlabel="angle between the two queries (degrees)", ylabel="largest margin", ylim=(0, 2.15))
ax.set_xticks([0, 45, 90, 135, 180])
ax.legend(ncol=2, loc="upper center")
show(
    fig,
    alt="Margin against the angle between two queries. If both sequences select the same token it falls from "
    "1.6 at 0 to 0 at 180 degrees, along a cosine; if they conflict it rises from 0 to 1.6, along a sine. "
    "Markers of trained matrices lie on both lines.",
)

# %% [markdown]
# **Figure 2.** The largest margin $1/\lVert W_{\mathrm{mm}} \rVert_F$ that two sequences with the same two
# tokens, 1.6 apart, leave to $W$. Lines: exercise 10.2. Markers: the smallest lead divided by $\lVert W
# \rVert_F$ after 3,000 normalised steps.

# %% [markdown]
# At 90 degrees agreement and conflict cost the same: the sequences meet in the norm only, and the margin is
# $1.6/\sqrt2$. The nearer two questions, the dearer it is to answer them differently. At 0 degrees it is
# impossible, for *any* $d$: section 10.7 comes back to that.
#
# **Try it.** Three tokens a sequence. Turn the second query through the first one, and see $W_{\mathrm{mm}}$
# make one $p$ for both, or two. For which token of sequence 2 is there a solution even with equal queries?


# %% tags=["nbval-ignore-output", "widget"]
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
    ax.set_ylabel("second coordinate")
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
# For tokens 1 and 2, at 20 and 100 degrees. Token 1 of sequence 1 is selected by any $p$ between $-10$ and
# 105 degrees; of these, those below 60 prefer token 1 of sequence 2, those above prefer token 2. Token 3 lies
# on the other side.
# </details>

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10.4 Rank, and what a start leaves behind
#
# $W_{\mathrm{mm}} = \sum_i \bar a_i z_i^\top$ is a sum of $n$ matrices of rank one, so
#
# $$\mathrm{rank}\, W_{\mathrm{mm}} \le \min(n, d) .$$
#
# More exactly, only sequences that carry weight count (those with $\bar a_i \ne 0$), and only as many as
# their queries are independent: six sequences that share two queries have rank at most 2.


# %%
def ranks(tokens):
    """Of the Att-SVM of the best tokens, where feasible: its rank, that of the carrying queries, how many."""
    solution = att_svm(tokens, tokens.optimal)
    good = torch.as_tensor(solution.status == "optimal")
    n, T = tokens.X.shape[-3:-1]
    a = svm.attention_problem(tokens.X, tokens.z, tokens.optimal).a.unflatten(-2, (n, T - 1))
    a_bar = (solution.dual.unflatten(-1, (n, T - 1))[..., None] * a).sum(-2)  # (trials, n, d)
    carry = a_bar.norm(dim=-1) > 1e-5 * a_bar.norm(dim=-1).amax(-1, keepdim=True)
    of = [torch.linalg.matrix_rank(M[good], rtol=1e-5) for M in (solution.value, tokens.z * carry[..., None])]
    return of[0], of[1], carry[good].sum(-1)


print("  n   T   d   queries   feasible   rank of W_mm: least, most   all sequences carry")
low_rank = {}
for n, T, d, distinct in ((3, 8, 10, 3), (6, 8, 10, 6), (12, 2, 6, 12), (14, 3, 8, 14), (6, 8, 10, 2)):
    tokens = data.random_tokens(n=n, T=T, d=d, trials=100, seed=4)
    tokens = dataclasses.replace(tokens, z=tokens.z[:, torch.arange(n) % distinct])
    rank, of_queries, carry = ranks(tokens)
    low_rank[n, T, d, distinct] = rank
    print(f"{n:3d} {T:3d} {d:3d} {distinct:9d} {len(rank):10d} {rank.min():18d} {rank.max():7d}", end="")
    print(f"{(carry == n).sum():22d}")
    assert torch.equal(rank, of_queries)
    assert (rank <= min(distinct, d)).all()
    assert rank.max() == min(distinct, d)

# %% [markdown]
# In every feasible problem of the table the rank is that of the queries that carry weight. That is an upper
# bound, and the $\bar a_i$ bound it too: in exercise 10.2 two independent queries carry, but both $\bar a_i$
# point along $x_1 - x_2$, and the rank is 1 (asserted there at every angle).
#
# **Plain descent obeys the same count, at every step.** A gradient is a sum of outer products with queries on
# the right, and differences of tokens on the left (lesson 06: forces between pairs). So $W_j - W_0$ never
# leaves the span of the matrices $(x_{it} - x_{i\tau})\, z_i^\top$, and its rank is at most $\min(n, d)$. The
# part $W_\perp$ of $W_0$ that is orthogonal to that span stays in $W$. It never changes a logit difference of
# these sequences; it just sits there. Other optimisers will move it, as we shall see.

# %% [markdown]
# ### Exercise 10.3: What the start leaves behind
#
# ★★☆ · 12 minutes
#
# *Predict before you measure.* Training starts at $W_0$ and has arrived at a matrix of Frobenius norm $R$.
# $W_{\mathrm{mm}}$ lies in the span. Return the largest cosine to $W_{\mathrm{mm}}$ that this matrix can
# have.
#
# <details><summary>Hint</summary>
#
# Write the matrices $(x_{it} - x_{i1})\, z_i^\top$ as rows of length $d^2$: they span all the others. Remove
# from $W_0$ its projection on their span (`np.linalg.lstsq` or `np.linalg.pinv`; they may be dependent). Then
# Pythagoras.
# </details>


# %%
@exercise("10.3")
def best_cosine(W_0, X, z, R):
    """Return the largest cosine, a number, for W_0 (d, d), X (n, T, d), z (n, d) and the norm R."""
    ### BEGIN SOLUTION
    a = X[:, 1:] - X[:, :1]
    rows = (a[..., :, None] * z[:, None, None, :]).reshape(-1, W_0.size)
    kept = W_0.ravel() - np.linalg.pinv(rows) @ (rows @ W_0.ravel())
    return np.sqrt(1 - kept @ kept / R**2)
    ### END SOLUTION


# %%
check("10.3", best_cosine)

# %%
small = data.random_tokens(n=6, T=4, d=10, trials=30, seed=3)
direction = torch.randn(30, 10, 10, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
direction /= direction.flatten(1).norm(dim=1)[:, None, None]
rows = (small.X[:, :, 1:] - small.X[:, :, :1])[..., None] * small.z[:, :, None, None, :]
span = torch.linalg.qr(rows.flatten(1, 2).flatten(2).mT)[0]  # (30, 100, 18)


def parts(W, W_mm):
    """Lengths of r, in the span but across W_mm, and of what is outside the span: two of (..., trials)."""
    w, unit = (
        W.flatten(-2)[..., None],
        W_mm.flatten(1)[..., None] / W_mm.flatten(1).norm(dim=1)[:, None, None],
    )
    inside = span @ (span.mT @ w)
    r = inside - unit * (unit.mT @ w)
    return r.norm(dim=(-2, -1)), (w - inside).norm(dim=(-2, -1))


at = [10, 30, 100, 200, 300, 500, 1000, 2000, 10_000]
started = {}
print("after 1,000 growing steps    |W_perp|   |r|   bound / error")
for size in (0, 10, 100):
    model = models.CrossAttention(10, trials=30, init=size * direction)
    W = fit(model, small, steps=10_000, every=at, schedule=train.growing)["W"][1:]  # (9, 30, 10, 10)
    solution = att_svm(small, geometry.selected_tokens(model.attention(small)))
    assert (solution.status == "optimal").all()
    error = torch.stack([1 - geometry.cosine(w, solution.value) for w in W])
    R = W.flatten(2).norm(dim=-1)
    problems = (size * direction).numpy(), small.X.numpy(), small.z.numpy()
    bound = [
        [best_cosine(W0, X, z, r) for W0, X, z, r in zip(*problems, row, strict=True)] for row in R.numpy()
    ]
    started[size] = error.numpy(), 1 - np.array(bound, dtype=float)
    r, kept = (length.numpy() for length in parts(W[6], solution.value))
    law = (r**2 + kept**2) / (2 * R[6].numpy() ** 2)
    assert np.abs(error[6].numpy() / law - 1).max() < 0.006
    print(f"start of norm {size:3d} {np.median(kept):20.0f} {np.median(r):7.0f}", end="")
    if size:
        share = np.median(started[size][1][6] / started[size][0][6])
        print(f"{share:30.0%}", end="")
        assert (started[size][0] > started[size][1] - 1e-9).all(), again.format("10.3")
        assert abs(share - {10: 0.66, 100: 0.96}[size]) < 0.02, again.format("10.3")
    else:
        later = np.median(parts(W[-1], solution.value)[0].numpy())
        assert np.allclose([np.median(r), later], [6.2, 8.6], atol=0.3)
    print()

# %% jupyter={"source_hidden": true}
fig, ax = plt.subplots(figsize=(7, 3.8))
styles = zip(started.items(), (BLUE, GREEN, ORANGE), "osD", (0.93, 1, 1.07), strict=True)
for (size, (error, bound)), color, marker, beside in styles:
    x = np.array(at) * beside
    ax.loglog(
        x,
        np.median(error, axis=1),
        "-",
        marker=marker,
        color=color,
        label=f"$\\|W_0\\|_F = {size}$",
        zorder=3,
    )
    ax.vlines(x, error.min(axis=1), error.max(axis=1), color=color, linewidth=1.5, alpha=0.6)
    if size:
        ax.loglog(at, np.median(bound, axis=1), "--", color=color, label="its lower bound")
ax.set(xlabel="step (of length 0.1 times its square root)", ylabel=r"1 - cosine to $W_{\mathrm{mm}}$")
ax.legend(loc="lower left")
show(
    fig,
    alt="One minus the cosine to the Att-SVM against steps, both logarithmic, for starts of norm 0, 10 and "
    "100. In the end all three fall alike, one above the other. The curve of norm 100 nearly meets its "
    "dashed lower bound after 1,000 steps; that of norm 10 stays a third, at last a half, below its curve.",
)

# %% [markdown]
# **Figure 3.** Starts of three sizes, 30 trials ($n = 6$, $T = 4$, $d = 10$): medians, and bars from least to
# most. Dashed: exercise 10.3, which knows nothing but the start and $\lVert W_j \rVert_F$. Steps have the
# length $0.1 \sqrt j$, as in lesson 06.

# %% [markdown]
# The exercise gives the *least* error. There is one other part: $r$, inside the span but across
# $W_{\mathrm{mm}}$, lesson 01's remainder. Pythagoras again, to 0.6% in each of the 90 runs:
#
# $$1 - \cos \approx \frac{\lVert W_\perp \rVert^2 + \lVert r \rVert^2}{2 R^2} .$$
#
# After 1,000 steps a start of norm 100 makes 96% of the error in the median run, one of norm 10 two thirds;
# the rest is $r$. Growing steps keep $r$ from coming to rest (its median from zero is 6, and 9 after 10,000
# steps, the last of length 10), but $R$ grows faster: the direction converges all the same.
#
# **Ask a new question**: a query orthogonal to the six that were trained. How far does $W z$ move for it?
# That depends on the optimiser, so we start at norm 10 and try four. For weight decay you can predict it:
# the gradient does nothing to this $W z$, and every step shrinks it by one part in a thousand.

# %%
trio = data.TokenData(*(getattr(small, part)[:10] for part in "Xzyv"))
new, W_0 = torch.linalg.svd(trio.z)[2][:, -1], 10 * direction[:10]  # new is orthogonal to all six queries
optimizers = {
    "normalised gradient": lambda W: optim.NormalizedGD(W, lr=0.1, batch_dims=1),
    "momentum 0.9": lambda W: torch.optim.SGD(W, lr=1.0, momentum=0.9),
    "weight decay 0.001": lambda W: torch.optim.SGD(W, lr=1.0, weight_decay=1e-3),
    "Adam": lambda W: torch.optim.Adam(W, lr=0.05),
}
moved = {}
print("200 steps             W z of the new query moves by       rank of W - W_0")
for name, optimizer in optimizers.items():
    model = models.CrossAttention(10, trials=10, init=W_0)
    train.fit(model, trio, optimizer(model.parameters()), steps=200, progress=False)
    change = model.W.detach() - W_0
    moved[name] = (change @ new[..., None]).norm(dim=(1, 2))
    rank = torch.linalg.matrix_rank(change, rtol=1e-6)
    still = moved[name].max() < 1e-9
    size = "less than 1e-9" if still else f"{moved[name].min():.1f} to {moved[name].max():.1f}"
    print(f"{name:20s} {size:>28s} {rank.min():18d} to {rank.max()}")
    assert still == (name in ("normalised gradient", "momentum 0.9"))
    assert (rank == (6 if still else 10)).all()
shrunk = (1 - 0.999**200) * (W_0 @ new[..., None]).norm(dim=(1, 2))
print(
    "weight decay moves it by 1 - 0.999^200 of its length:",
    torch.allclose(moved["weight decay 0.001"], shrunk),
)
assert torch.allclose(moved["weight decay 0.001"], shrunk, atol=1e-9)
assert moved["Adam"].min() > 1

# %% [markdown]
# Steps along gradients, and sums of them, leave the new query's logits as the start made them, exactly.
# Weight decay forgets them like $0.999^t$, whatever the data; Adam divides each entry of the gradient by its
# own size, which leaves the span (lesson 03: another optimiser, another norm).

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10.5 The paper's data
#
# Now the setting of the paper's public code: $n = 6$, $T = 8$, $d = 10$, all vectors uniform on the unit
# sphere, normalised steps of length 0.1, 2,000 of them. Its figure compares the trained $W$ with the
# Frobenius SVM (a mean cosine of about .99) and with the SVM of the *nuclear* norm (lesson 04), about .86.
# We train 100 trials four times: from zero with constant steps, with growing ones, and with plain ones (the
# theorem's: $\eta$ times the gradient), and from the start that `torch.nn.Linear` would draw. (Selected
# tokens are read at the end; the softmax gradient is the library's, which loses no winner's entry: lesson
# 05.)

# %%
TRIALS = 100
cross = data.random_tokens(n=6, T=8, d=10, trials=TRIALS, seed=2)
record_at = [1, 3, 10, 30, 60, 100, 200, 400, 700, 1000, 1400, 2000]


def compare(tokens, start=None, schedule=None, norms=("fro",)):
    """Train all trials; cosines of W to the SVMs, (records, trials), and how each trial ended."""
    model = models.CrossAttention(10, trials=TRIALS, init=start)
    if schedule == "plain":
        sgd, record = torch.optim.SGD(model.parameters(), lr=100.0), {"W": lambda m: m.W}
        W = train.fit(model, tokens, sgd, 2000, record=record, every=record_at, progress=False)["W"][1:]
        model.requires_grad_(False)
    else:
        W = fit(model, tokens, every=record_at, schedule=schedule)["W"][1:]
    attention = model.attention(tokens)
    selected = geometry.selected_tokens(attention)
    limits = {norm: att_svm(tokens, selected, norm) for norm in norms}
    assert all((limit.status == "optimal").all() for limit in limits.values())
    assert all((limit.gap < 1e-6).all() for limit in limits.values())
    logits = models.CrossAttention(10, trials=TRIALS, init=limits["fro"].value).logits(tokens)
    return {
        **{n: torch.stack([geometry.cosine(w, limit.value) for w in W]) for n, limit in limits.items()},
        "svm": limits,
        "selected": selected,
        "W": model.W,
        "local": geometry.locally_optimal(tokens.scores, logits, selected),
        "how": geometry.outcome(attention, tokens),
    }


draw = torch.rand(TRIALS, 10, 10, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
torch_start = (2 * draw - 1) / 10**0.5  # torch.nn.Linear: uniform between -1/sqrt(d) and 1/sqrt(d)
curves = {
    "constant": compare(cross, norms=("fro", "nuc")),
    "growing": compare(cross, schedule=train.growing, norms=("fro", "nuc")),
    "torch's start": compare(cross, start=torch_start),
    "plain": compare(cross, schedule="plain"),
}
print("100 trials    cosine to Frobenius     to nuclear    global local undecided | not locally optimal:")
print("              mean  median  least    mean  most                            | decided  undecided")
for name, found in curves.items():
    fro, how, undecided = found["fro"][-1], found["how"], torch.as_tensor(found["how"] == "undecided")
    count = [int((how == word).sum()) for word in ("global", "local", "undecided")]
    assert sum(count) == TRIALS
    print(f"{name:14s}{fro.mean():.3f}  {fro.median():.3f}  {fro.min():.3f}", end="")
    nuclear = (
        f"{found['nuc'][-1].mean():.3f} {found['nuc'][-1].max():.3f}" if "nuc" in found else "    -     -"
    )
    print(f"   {nuclear}   {count[0]:5d} {count[1]:5d} {count[2]:6d}    ", end="")
    print(f"| {(~found['local'] & ~undecided).sum():7d} {(~found['local'] & undecided).sum():9d}")
    if "nuc" in found:
        assert 0.84 < found["nuc"][-1].mean() < 0.87
        assert found["nuc"][-1].max() < 0.96
    if name != "plain":
        assert fro.mean() > 0.995
        assert count[2] <= 1
grown, slow = curves["growing"], curves["plain"]
assert grown["fro"][-1].min() > 0.999
assert grown["local"].all()
assert (grown["how"] == "global").sum() == 72
assert 0.93 < slow["fro"][-1].mean() < 0.98
assert 60 < (curves["constant"]["fro"][-1] < 0.999).sum() < 75
for name, norm in (("constant", 200), ("plain", 28)):
    assert abs(curves[name]["W"].flatten(1).norm(dim=1).median() / norm - 1) < 0.1

# %% jupyter={"source_hidden": true} slideshow={"slide_type": "subslide"}
fig, axes = plt.subplots(1, 2, figsize=(8.5, 3.4), sharey=True)
for ax, name in zip(axes, ("constant", "growing"), strict=True):
    for norm, color, marker, label in (
        ("fro", BLUE, "o", "Frobenius SVM"),
        ("nuc", ORANGE, "s", "nuclear SVM"),
    ):
        cosines = curves[name][norm]
        low, high = (cosines.quantile(q, dim=1) for q in (0.1, 0.9))
        line = "-" if norm == "fro" else "--"
        beside = np.array(record_at) * (0.95 if norm == "fro" else 1.05)
        ax.vlines(beside, low, high, color=color, linewidth=4, alpha=0.4)
        ax.plot(beside, cosines.mean(1), line, marker=marker, color=color, label=label)
    ax.set(xscale="log", xlabel="step", title=f"{name} steps", ylim=(0.35, 1.02))
axes[0].set_ylabel("cosine of $W$ to the SVM")
axes[1].legend(loc="lower right")
show(
    fig,
    alt="Cosine of W to the two SVMs against steps, constant steps left, growing ones right. The mean cosine "
    "to the Frobenius SVM rises to above 0.99, sooner with growing steps; that to the nuclear SVM levels off "
    "near 0.86 in both, with wide bars.",
)

# %% [markdown]
# **Figure 4.** The published curve with bands: mean, and bars for the middle 80%, of 100 trials. The SVMs are
# those of the tokens that each trial has selected in the end.

# %% [markdown]
# **$W$ goes to the Frobenius SVM.** With growing steps every trial has a cosine above 0.999 and a locally
# optimal choice. With the constant ones of the paper's code the mean is above 0.995, from zero and
# from torch's start, and two thirds of the trials are still below .999, which at norms near 200 asks for a
# remainder below $200 \sqrt{2 / 1000} = 9$. Plain steps, the theorem's, become short so quickly that 2,000 of
# them, with $\eta = 100$, reach norms near 28 and a mean of .96.
#
# **Eighteen runs are not done.** In some, attention is not decided; in others it is above .99 for a choice
# that is *not* locally optimal, to which the theorem promises nothing. Which of them will change their
# choice? We train all of them on, by growing steps from where they are.

# %%
undone = {name: ~run["local"] | torch.as_tensor(run["how"] == "undecided") for name, run in curves.items()}
which = [(name, k) for name, at in undone.items() for k in at.nonzero()[:, 0].tolist()]  # all as one batch
some = data.TokenData(*(getattr(cross, part)[[k for _, k in which]] for part in "Xzyv"))
start = torch.stack([curves[name]["W"][k] for name, k in which])
model = models.CrossAttention(10, trials=len(which), init=start)
fit(model, some, steps=2000, every=2000, schedule=train.growing)
later = geometry.selected_tokens(model.attention(some))
moved_on = (later != torch.stack([curves[name]["selected"][k] for name, k in which])).any(-1)
logits = models.CrossAttention(10, trials=len(which), init=att_svm(some, later).value).logits(some)
local = geometry.locally_optimal(some.scores, logits, later)
was_local = torch.stack([curves[name]["local"][k] for name, k in which])
was_decided = torch.tensor([curves[name]["how"][k] != "undecided" for name, k in which])
print("choice: locally optimal   decided   runs   after 2,000 growing steps: changed   locally optimal")
for optimal, decided in ((True, False), (False, False), (False, True)):
    at = (was_local == optimal) & (was_decided == decided)
    print(f"{'yes' if optimal else 'no':>23s} {'yes' if decided else 'no':>9s} {at.sum():6d}", end="")
    print(f"{moved_on[at].sum():37d} {local[at].sum():17d}")
assert len(which) == 18
assert torch.equal(moved_on, ~was_local)
assert local.all()
assert (geometry.outcome(model.attention(some), some) != "undecided").all()

# %% [markdown]
# In these 18 runs local optimality tells them apart, and attention does not: the eight that were slow to
# decide keep their choice, the ten others leave it, decided or not. A saturated softmax may *look* settled
# and still cross over: the forces are tiny, but normalised steps do not shrink with them. (Plain ones do.)
#
# **$W$ does not go to the nuclear SVM.** The second curve levels off at the cosine between the two
# *solutions*, which depends on the choice alone, whoever made it.

# %%
between = geometry.cosine(*(solution.value for solution in curves["growing"]["svm"].values()))
nuclear = curves["growing"]["nuc"][-1]
print(f"cosine between the two SVM solutions: mean {between.mean():.3f}, most {between.max():.3f}")
assert (nuclear - between).abs().max() < 0.01
assert 0.84 < between.mean() < 0.87
assert between.max() < 0.96

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10.6 When the query is one of the tokens
#
# In **self-attention** the query is a token of its own sequence, $z_i = x_{i1}$. Nothing in sections 10.2
# to 10.5 asked where $z$ comes from, so theorem, rank and path hold as they are. What is new is one token
# with a special place: the *own logit* $h_{i1} = x_{i1}^\top W x_{i1}$ is a quadratic form. It sees only
# the symmetric part of $W$.
#
# We put $x_{i1}$ in the place of $z_i$ in the data of section 10.5; the heads, and so the best tokens, stay.


# %%
def self_attention(tokens):
    """The same tokens, labels and head; the first token of each sequence is its query."""
    return dataclasses.replace(tokens, z=tokens.X[..., 0, :].contiguous())


run = compare(self_attention(cross), schedule=train.growing)
print(f"self-attention, 100 trials of section 10.5: least cosine {run['fro'][-1].min():.3f}, ", end="")
print(f"locally optimal {run['local'].sum()}, first token selected {(run['selected'] == 0).sum()} of 600")
assert run["fro"][-1].min() > 0.999
assert run["local"].all()


# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What W learns where sequences agree
#
# Suppose **the query is the best token** in each of $n$ training sequences. Self-attention can learn one
# rule for all, *attend to yourself*: with $W = bI$, $b > 0$, every token of length one puts itself before
# any other,
#
# $$x_{i1}^\top W x_{i1} - x_{it}^\top W x_{i1} = b\,(1 - x_{it} \cdot x_{i1}) > 0 ,$$
#
# so every number of sequences of distinct tokens is feasible. It is not its being a token that helps, but
# that **the query carries the answer**. Let $z_i = \Omega x_{i1}$ with a fixed orthogonal matrix $\Omega$:
# a query from outside. Then $W \Omega^\top$ does for it what $W$ did, at the same norm, and descent takes
# the same path. A query that is drawn independently of its sequence cannot say which of its tokens is the
# first.
#
# **Is it $bI$ that is learned?** Training data know one more direction: tokens are sorted by score, and so
# by $v \cdot x$. Turn all tokens by an orthogonal $\Omega$ that leaves $v$ alone: scores stay, and the
# turned data are as likely as the old ones. So the loss, averaged over all data, has $L(\Omega^\top W
# \Omega) = L(W)$, and descent on it from zero stays among the matrices with $\Omega^\top W \Omega = W$ for
# all such $\Omega$.

# %% [markdown]
# ### Exercise 10.4: What symmetry leaves of W
#
# ★★★ · 10 minutes
#
# Return the average of $\Omega^\top W \Omega$ over *all* orthogonal matrices $\Omega$ (rotations and
# reflections) with $\Omega v = v$, for any matrix $W$ and any $v \ne 0$ in $d \ge 2$ dimensions.
#
# <details><summary>Hint 1</summary>
#
# Call it $A$. Then $\Omega A = A \Omega$ for each such $\Omega$. What is $\Omega (A v)$? Across $v$, the
# $\Omega$ are all orthogonal matrices of $d - 1$ dimensions: what commutes with all of them?
# </details>
#
# <details><summary>Hint 2</summary>
#
# Two numbers are left, one along $v$ and one across. Averaging changes neither $v^\top W v$ nor the trace.
# </details>


# %%
@exercise("10.4")
def symmetric_part(W, v):
    """Return the average, (d, d), for W (d, d) and v (d,)."""
    ### BEGIN SOLUTION
    P = np.outer(v, v) / (v @ v)
    along = np.sum(P * W)
    across = (np.trace(W) - along) / (len(v) - 1)
    return across * (np.eye(len(v)) - P) + along * P
    ### END SOLUTION


# %%
check("10.4", symmetric_part)

# %% [markdown]
# So $W = b\,(I - ee^\top) + b_v\,ee^\top$ with $e = v / \lVert v \rVert$: attend to yourself, and along $v$
# more (or less) than across. For the first step the two numbers follow from the sorted scores of one
# sequence, $\gamma_{1} \ge \dots \ge \gamma_{T}$ (what is across $v$ averages to zero between different
# tokens), with the loss's slope $|\ell'|$ at their mean $\bar\gamma$ and $\lVert v \rVert = 1$:
#
# $$\frac{b_v}{b} = (d - 1)\; \frac{\mathbb{E}\; |\ell'|\, \gamma_1 \sum_t (\gamma_t - \bar\gamma)\,\gamma_t}
# {\mathbb{E}\; |\ell'|\, (\gamma_1 - \bar\gamma)(1 - \gamma_1^2)} .$$
#
# We train on $n$ sequences whose best token comes first, with queries that are the first token, the first
# token turned by one $\Omega$, or independent. New sequences have random tokens, the head plays no part in
# them, and the question is how many select their token 1. Finite data have the symmetry only nearly: we
# measure.


# %%
def best_first(tokens):
    """Tokens of each sequence by falling score; queries as they were."""
    order = tokens.scores.argsort(dim=-1, descending=True)[..., None].expand_as(tokens.X)
    return dataclasses.replace(tokens, X=tokens.X.gather(-2, order))


def along_over_across(W, v):
    """b_v / b from the means of b_v and b over trials."""
    along = (v[:, None] @ W @ v[..., None]).flatten() / (v * v).sum(-1)
    across = (W.diagonal(dim1=-2, dim2=-1).sum(-1) - along) / (v.shape[-1] - 1)
    return float(along.mean() / across.mean())


draw = best_first(data.random_tokens(n=1, T=8, d=10, trials=50_000, seed=8)).scores[:, 0]
mean, best = draw.mean(-1), draw[:, 0]
slope, own = 1 / (1 + mean.exp()), ((draw - mean[:, None]) * draw).sum(-1)
first_ratio = 9 * (slope * best * own).mean() / (slope * (best - mean) * (1 - best**2)).mean()

omega = torch.linalg.qr(torch.tensor(np.random.default_rng(1).normal(size=(10, 10))))[0]
new = data.random_tokens(n=500, T=8, d=10, trials=10, seed=4)
queries = {
    "own token": self_attention,
    "turned": lambda t: dataclasses.replace(t, z=t.X[..., 0, :] @ omega.T),
    "independent": lambda tokens: tokens,
}
agreed, seen, ratios, in_form, to_identity = {}, {}, {}, {}, {}
print("10 trials                new sequences that select token 1 |  b_v / b      |   cosine to form, I")
print("                  step 1   step 500    SVM (training: 500)  |  step 1   SVM |   step 1       SVM")
for n in (2, 6, 20, 80):
    for name, query in queries.items():
        if name == "turned" and n != 6:
            continue  # once will do
        tokens = query(best_first(data.random_tokens(n=n, T=8, d=10, trials=10, seed=3)))
        solution = att_svm(tokens, tokens.optimal)
        feasible = int((solution.status == "optimal").sum())
        Ws = {}
        for steps in (1, 500):
            model = models.CrossAttention(10, trials=10)
            fit(model, tokens, steps=steps, schedule=train.growing, every=steps)
            Ws[steps] = model.W
        if feasible == 10:
            Ws["SVM"] = solution.value
        assert feasible == (0 if (name, n) == ("independent", 80) else 10)
        row = ""
        for key in (1, 500, "SVM"):
            if key not in Ws:
                row += "   infeas."
                continue
            model = models.CrossAttention(10, trials=10, init=Ws[key])
            hit = [(model.logits(t).argmax(-1) == 0).double().mean().item() for t in (query(new), tokens)]
            agreed[name, n, key], seen[name, n, key] = hit
            row += f"{hit[0]:10.2f}"
        print(f"n = {n:2d}, {name:11s}{row}  ({seen[name, n, 500]:8.2f})", end="")
        if name == "own token":
            ratios[n] = [along_over_across(Ws[key], tokens.v) for key in (1, "SVM")]
            print(f"      |{ratios[n][0]:8.1f}{ratios[n][1]:6.1f} |", end="")
            for key in (1, "SVM"):
                W = Ws[key].detach()
                pairs = zip(W.numpy(), tokens.v.numpy(), strict=True)
                form = torch.tensor(np.array([symmetric_part(*pair) for pair in pairs], dtype=float))
                in_form[n, key] = float(geometry.cosine(W, form).mean())
                to_identity[n, key] = float(
                    geometry.cosine(W, torch.eye(10, dtype=W.dtype).expand_as(W)).mean()
                )
                print(f"{in_form[n, key]:7.2f}{to_identity[n, key]:5.2f}", end="")
        print()
        if name == "independent":
            assert all(abs(agreed[name, n, key] - 1 / 8) < 0.02 for key in Ws)
        if name == "turned":
            assert all(abs(agreed[name, n, key] - agreed["own token", n, key]) < 0.002 for key in Ws)
large = self_attention(best_first(data.random_tokens(n=1000, T=8, d=10, trials=10, seed=3)))
model = models.CrossAttention(10, trials=10)
fit(model, large, steps=1, every=1)
print(f"b_v / b of the first step: n = 1,000 {along_over_across(model.W, large.v):.1f}, ", end="")
print(f"predicted for infinitely many sequences {first_ratio:.1f}")
assert abs(along_over_across(model.W, large.v) / first_ratio - 1) < 0.03
assert max(abs(ratio / first_ratio - 1) for ratio, _ in ratios.values()) < 0.25
assert all(1.9 < ratio < 3.4 for _, ratio in ratios.values())
assert ratios[80][1] < 2.3
for key, least in ((1, 0.95), ("SVM", 0.85)):
    assert in_form[2, key] < in_form[6, key] < in_form[20, key] < in_form[80, key], again.format("10.4")
    assert in_form[80, key] > least, again.format("10.4")
assert all(in_form[n, 1] > 1.4 * to_identity[n, 1] for n in (2, 6, 20, 80)), again.format("10.4")
assert agreed["own token", 80, 1] > 0.8
assert agreed["own token", 20, "SVM"] > 0.88
assert agreed["own token", 80, "SVM"] > 0.97

# %% jupyter={"source_hidden": true}
fig, right = plt.subplots(figsize=(6.5, 3.8))
for key, color, marker, line in ((1, GREEN, "^", ":"), (500, ORANGE, "s", "-"), ("SVM", BLACK, "x", "--")):
    value = [agreed["own token", n, key] for n in (2, 6, 20, 80)]
    label = {1: "1 step", 500: "500 steps", "SVM": "Att-SVM"}[key]
    right.semilogx((2, 6, 20, 80), value, line, marker=marker, color=color, label=label)
value = [agreed["independent", n, 500] for n in (2, 6, 20, 80)]
right.semilogx((2, 6, 20, 80), value, "-", marker="o", color=BLUE, label="independent, 500")
right.set(
    xlabel="training sequences $n$ (log scale)", ylabel="new sequences that select token 1", ylim=(0, 1.05)
)
right.set_xticks([2, 6, 20, 80], ["2", "6", "20", "80"])
right.minorticks_off()
right.legend(loc="center right", bbox_to_anchor=(1, 0.37), fontsize=9)
show(
    fig,
    alt="The share of new sequences that select token 1, against the number of training sequences. For "
    "self-attention it rises from a third to 0.87 after one step, and to 0.99 after 500 steps and for the "
    "SVM, which lie on each other; for an independent query it stays at one eighth.",
)

# %% [markdown]
# **Figure 5.** Means of 10 trials ($T = 8$, $d = 10$), trained on sequences whose token 1 is the best and the
# query: how many new ones select their token 1.

# %% [markdown]
# - **The first step teaches most of it**, in the symmetric form, with $b_v/b$ near the formula's 9. The max
#   margin adds a
#   little at $n = 2$ (.31 to .38), more in between, and nearly all of what is left at $n = 80$ (.87 to .99).
# - **The SVM looks across**: its $b_v/b$ is 2 to 3, near 2 at $n = 80$ (where to: section 10.11).
# - **The turned query** does exactly as well as the own token. An independent one stays at one in eight
#   (at $n = 80$ no $W$ serves all).

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10.7 Where it breaks: one query, two answers *(optional)*
#
# Random queries never coincide. Words do. Let the tokens come from a vocabulary with linearly independent
# embeddings, and let each sequence ask with its first word. Then two sequences that begin with the same word
# share a query, and may want different things.

# %% [markdown]
# ### Exercise 10.5: Do the words contradict each other?
#
# ★★★ · 15 minutes
#
# `words[i]` are the numbers of the words of sequence $i$; its query is its first word, and it is to select
# the word at position `selected[i]` (counted from 0). Embeddings are linearly independent. Is the Att-SVM
# feasible? Return a bool. (A word may stand in a sequence twice; then its tokens are equal, and neither can
# be ahead of the other.)
#
# <details><summary>Hint 1</summary>
#
# Fix a query $z$. Each constraint says that one word has to be ahead of another one in the numbers $x^\top W
# z$. Embeddings are independent, so for each query you may choose these numbers freely, one for each word.
# </details>
#
# <details><summary>Hint 2</summary>
#
# Draw an arrow from each word to every word that it has to beat. Adding up constraints around a closed loop
# of arrows gives $0 \ge$ a positive number. Without a loop, the words can be put in order: strip words that
# beat nobody who is left, again and again.
# </details>


# %%
@exercise("10.5")
def consistent(words, selected):
    """Return whether some W selects these tokens, a bool: words (n, T), selected (n,), both whole numbers."""
    ### BEGIN SOLUTION
    beats = {}  # query -> word -> the words it has to beat
    for row, alpha in zip(words.tolist(), selected.tolist(), strict=True):
        of_query = beats.setdefault(row[0], {})
        of_query.setdefault(row[alpha], set()).update(word for t, word in enumerate(row) if t != alpha)
    for left in beats.values():
        while left:
            free = [word for word in left if not left[word] & left.keys()]
            if not free:
                return False
            for word in free:
                del left[word]
    return True
    ### END SOLUTION


# %%
check("10.5", consistent)

# %%
rng = np.random.default_rng(0)
embedding = torch.tensor(rng.normal(size=(8, 8)))
verdicts = {(mine, solved): 0 for mine in (True, False) for solved in (True, False)}
for _ in range(100):
    words, selected = rng.integers(0, 8, size=(4, 3)), rng.integers(0, 3, size=4)
    X = embedding[torch.tensor(words)]
    solution = svm.solve(svm.attention_problem(X, X[:, 0], torch.tensor(selected)), throw=False)
    verdicts[bool(consistent(words, selected)), str(solution.status) == "optimal"] += 1
disagree = verdicts[True, False] + verdicts[False, True]
print(f"4 sequences of 3 out of 8 words, 100 draws: consistent and feasible {verdicts[True, True]}, ", end="")
print(f"neither {verdicts[False, False]}, one without the other {disagree}")
assert disagree == 0, again.format("10.5")
assert min(verdicts[True, True], verdicts[False, False]) > 20

# %% [markdown]
# A loop of arrows is a proof of infeasibility: its rows add up to zero, lesson 02's certificate. No dimension
# helps, because both answers hang on the same vector $p = Wz$.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10.8 What descent does with a contradiction *(optional)*
#
# Take four words and one common query. $n_1$ sequences $(1, 2, 3)$ have the label $+1$, $n_2$ sequences
# $(1, 2, 4)$ have the label $-1$. Words 1 and 2 have the values $g_1 > g_2$: the first group wants word 1,
# the second word 2. Words 3 and 4 have values $-6$ and $+6$, the worst for their groups. All agree that
# these lose. Once they have, $s_1 + s_2 = 1$, every sequence has the same output $f = g_1 s_1 + g_2 s_2$,
# and what is left is
#
# $$n_1\, \ell(f) + n_2\, \ell(-f), \qquad\text{with derivative zero where}\qquad f = \log(n_1 / n_2) .$$
#
# But $f$ has to lie between $g_2$ and $g_1$. So there is an **interval law**:
#
# - if $g_2 < \log(n_1/n_2) < g_1$, attention is *shared*: $s_1 = (f - g_2)/(g_1 - g_2)$, and $h_1 - h_2 =
#   \log(s_1/s_2)$ is finite, while the lead over the losers goes to infinity;
# - if $\log(n_1/n_2) \ge g_1$, no attention is large enough, and word 1 takes all; if it is $\le g_2$, word
#   2 does, though only the *minority* wants it. Beyond the end the loser's attention falls like one over
#   the number of steps, so that the lead grows by $\log 10 = 2.3$ a decade;
# - *at* the end the pull between words 1 and 2 fades with the loser's attention, and what parts them are
#   words 3 and 4. The two groups pull equally hard, each with the winner against its own worst word: so the
#   winner's logit rises twice as fast as each of these falls, while their distance grows like $\log t$. The
#   lead grows by two thirds of 2.3, that is 1.5 a decade.
#
# The outcome depends on the sizes of the values as much as on the majority: with $g = \pm 1$ it takes $e :
# 1$ to win outright, with $g = \pm 0.3$, as on the unit sphere, $e^{0.3} = 1.35 : 1$.


# %%
def contest(cases, steps=5000):
    """Plain descent, a trial for each (n_1, n_2, g_1, g_2): logits of the first sequence, twice."""
    *words, query = torch.eye(5, dtype=torch.float64)
    n_1, n_2, g_1, g_2 = torch.tensor(cases, dtype=torch.float64).T[..., None]
    first = torch.arange(int((n_1 + n_2)[0])) < n_1  # (trials, n)
    third = torch.where(first[..., None], words[2], words[3])  # (trials, n, 5)
    X = torch.stack([words[0].expand_as(third), words[1].expand_as(third), third], dim=-2)
    v = g_1 * words[0] + g_2 * words[1] - 6 * words[2] + 6 * words[3]
    z = query.expand(third.shape).contiguous()
    tokens = data.TokenData(X=X, z=z, y=torch.where(first, 1.0, -1.0).to(X), v=v)
    assert (att_svm(tokens, tokens.optimal).status == "infeasible").all()
    assert torch.equal(tokens.optimal, (~first).long())
    model = models.CrossAttention(5, trials=len(cases))
    record, sgd = {"h": lambda m: m.logits(tokens)[:, 0]}, torch.optim.SGD(model.parameters(), lr=2.0)
    return train.fit(model, tokens, sgd, steps, record=record, every=[steps // 10, steps], progress=False)[
        "h"
    ][1:]


cases = [(7, 5, 1, -1), (8, 4, 1, -1), (9, 3, 1.5, -1.5), (8, 4, 2, 0.3)]  # shared
cases += [(9, 3, 1, -1), (10, 2, 1, -1), (8, 4, 0.6, -0.6), (8, 4, 3, 1)]  # one takes all
cases += [(9, 3, np.log(3), -1), (8, 4, 3, np.log(2))]  # at the ends
print("n_1 : n_2    values   log(n_1/n_2) | h_1 - h_2: predicted   500 steps   5,000   growth (predicted)")
for case, h in zip(cases, contest(cases).unbind(dim=1), strict=True):
    n_1, n_2, g_1, g_2 = case
    f = np.log(n_1 / n_2)
    shared = g_2 < f < g_1
    foreseen = np.log((f - g_2) / (g_1 - f)) if shared else np.inf if f >= g_1 else -np.inf
    apart, ahead = (h[:, 0] - h[:, 1]).numpy(), (h[:, 0] - h[:, 2]).numpy()
    growth, decade = abs(apart[1]) - abs(apart[0]), np.log(10) * (2 / 3 if f in (g_1, g_2) else 1)
    print(f"{n_1:3d} : {n_2} {g_1:5.1f}, {g_2:4.1f}{f:10.2f}      |{foreseen:21.2f} ", end="")
    print(f"{apart[0]:11.2f} {apart[1]:7.2f}", "       -" if shared else f"{growth:8.2f} {decade:11.2f}")
    if shared:
        assert abs(apart[1] - foreseen) < 0.01
        assert ahead[1] - ahead[0] > 2
    else:
        assert -0.25 < growth - decade < 0.1
        assert f not in (g_1, g_2) or abs((h[1] - h[0])[:2].max() - (h[1] - h[0])[2] - np.log(10)) < 0.1
        assert np.sign(apart[1]) == np.sign(foreseen)

# %% [markdown]
# The law holds in all ten contests: shared attention to within 0.01, and where one word takes all, the growth
# is 1.9 to 2.3 by now, near 1.5 with $\log(n_1/n_2)$ at an end of the interval.
#
# So $W$ has a finite part, which shares attention between contradictory words, and a part that goes to
# infinity and decides what is left. Lesson 13 meets such a pair again, and lesson 16 finds it wherever
# words follow each other in loops.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10.9 Sequences infect each other *(optional)*
#
# **Predict before you run on.** In self-attention with random tokens, where nothing favours the query: does
# the first step from zero make sequences prefer their own query more often than one time in $T$?


# %%
def one_step(tokens):
    """How many sequences of each trial give token 1 most attention after the first step from zero."""
    u = tokens.scores.mean(-1, keepdim=True)
    pull = torch.einsum("bkt,bktd->bkd", (tokens.scores - u) / (1 + u.exp()), tokens.X)  # exercise 10.1
    model = models.CrossAttention(tokens.X.shape[-1], trials=tuple(tokens.trials), init=pull.mT @ tokens.z)
    return (model.logits(tokens).detach().argmax(-1) == 0).sum(-1).double()


crowds, trials = data.random_tokens(n=20, T=3, d=6, trials=10_000, seed=5), 10_000
share = {}
for name, tokens in (("cross", crowds), ("self", self_attention(crowds))):
    first = one_step(tokens) / 20
    share[name] = float(first.mean()), float(first.std() / trials**0.5)
    print(f"{name:5s}, n = 20, T = 3, d = 6, after one step: token 1 has most attention in ", end="")
    print(f"{share[name][0]:.3f} (standard error {share[name][1]:.4f}); one in T is {1 / 3:.3f}")
assert abs(share["cross"][0] - 1 / 3) < 3 * share["cross"][1]
assert share["self"][0] - 1 / 3 > 3 * share["self"][1]

# %% [markdown]
# With enough trials there is a small effect: the own query leads a little too often. Behind it is a large
# one, worth finding.
#
# **Sequences infect each other.** The first step from zero is $W \propto \sum_k \tilde x_k z_k^\top$ with
# $\tilde x_k = \sum_t (\gamma_{kt} - \bar\gamma_k)\, x_{kt}$, where $\bar\gamma_k$ is the mean of the
# scores (nearly: at $W = 0$ all slopes of the loss are near $\frac12$). With $z_k = x_{k1}$, sequence $k$
# adds $(\tilde x_k \cdot x_{i1})(x_{k1} \cdot x_{i1})$ to the own logit of sequence $i$. One term has a
# square in it,
#
# $$(\gamma_{k1} - \bar\gamma_k)\,(x_{k1} \cdot x_{i1})^2, \qquad\text{with}\quad
# \mathbb{E}\,(x_{k1} \cdot x_{i1})^2 = 1/d .$$
#
# So a sequence that likes its own query pushes the others, *on average*, towards theirs, and one that
# dislikes it pushes them away. The other terms help: all sequences are judged by one $v$, so a token with a
# high score lies near other tokens with high scores. Averaged over all tokens but $x_{k1}$, the square
# gives $\frac{T-1}{Td}\, \gamma_{k1}$, and the rest adds $(T-1)/d$ of that. On a single pair it is only a
# tendency.

# %%
print("  T   d   rest over square: predicted  measured   pairs pushed the way of gamma_k1 - mean")
for T, d in ((8, 10), (3, 6), (3, 3)):
    draw = data.random_tokens(n=1, T=T, d=d, trials=60_000, seed=7)
    X, scores = draw.X[:, 0], draw.scores[:, 0]
    taste = scores - scores.mean(-1, keepdim=True)
    x_tilde = (taste[..., None] * X).sum(1)
    total, square = (x_tilde * X[:, 0]).sum(-1), taste[:, 0]  # d times the mean over x_i1
    slope = [
        float((scores[:, 0] * part).sum() / (scores[:, 0] ** 2).sum()) for part in (square, total - square)
    ]
    other = torch.roll(X[:, 0], 1, 0)  # x_i1 of another sequence, whose v does not matter
    push = (x_tilde * other).sum(-1) * (X[:, 0] * other).sum(-1)
    same = float((push * taste[:, 0] > 0).double().mean())
    print(f"{T:3d} {d:3d} {(T - 1) / d:21.2f} {slope[1] / slope[0]:16.2f} {same:26.0%}")
    assert abs(slope[0] - (T - 1) / T) < 0.01
    assert abs(slope[1] / slope[0] - (T - 1) / d) < 0.04
    assert 0.6 < same < 0.75

# %% [markdown]
# So the sequences of a trial share a push, by their common "taste" $\sum_k (\gamma_{k1} -
# \bar\gamma_k)$, up in one trial, down in the next: the number that prefers token 1 scatters more than coin
# tosses. If any two sequences have the correlation $\varrho$, its variance is that of coins times $1 + (n -
# 1)\varrho$. If $\varrho$ hardly depends on $n$, one size measures it and others test it.

# %%
print("after one step       standard deviation over that of coins   predicted from n = 20")
ratio = {}
for T, d in ((4, 4), (3, 6)):
    many = data.random_tokens(n=60, T=T, d=d, trials=5000, seed=6)
    for n in (20, 6, 60):  # the first n of the sixty
        crowd = dataclasses.replace(many, **{part: getattr(many, part)[:, :n] for part in "Xzy"})
        coins = (n / T * (1 - 1 / T)) ** 0.5
        ratio[n] = float(one_step(self_attention(crowd)).std() / coins)
        if n == 20:
            correlation, plain = (ratio[n] ** 2 - 1) / 19, float(one_step(crowd).std() / coins)
        foreseen = (1 + (n - 1) * correlation) ** 0.5
        print(f"T = {T}, d = {d:2d}, n = {n:2d} {ratio[n]:25.2f} {foreseen:25.2f}")
        assert abs(ratio[n] / foreseen - 1) < 0.06
    print(f"{'cross-attention, n = 20':36s} {plain:6.2f}")
    assert abs(plain - 1) < 0.03
    assert ratio[60] > 2
each = [(ratio[n] ** 2 - 1) / (n - 1) for n in (6, 20, 60)]  # the correlation by each size alone
print("T = 3, d = 6: the correlation by 6, 20 and 60 sequences", "{:.2f}, {:.2f}, {:.2f}".format(*each))
assert np.allclose(each, [0.111, 0.127, 0.143], atol=0.004)

# %% jupyter={"source_hidden": true}
fig, left = plt.subplots(figsize=(6.5, 3.6))
crowd = data.random_tokens(n=20, T=3, d=6, trials=2000, seed=5)
bins = np.arange(-0.5, 21.5)
for name, tokens, color, line in (
    ("independent query", crowd, BLUE, "-"),
    ("own token", self_attention(crowd), ORANGE, "--"),
):
    each = np.full(2000, 1 / 2000)
    left.hist(
        one_step(tokens).numpy(),
        bins,
        weights=each,
        histtype="step",
        color=color,
        linestyle=line,
        linewidth=2,
        label=name,
    )
left.set(xlabel="sequences of 20 that prefer token 1", ylabel="share of trials", xticks=[0, 5, 10, 15, 20])
left.set_title("after the first step")
left.legend(loc="upper right")
show(
    fig,
    alt="Histograms of how many of 20 sequences prefer token 1 after one step. With an independent query it "
    "is a hump around 7; with the own token it is much wider, from 0 to beyond 15.",
)

# %% [markdown]
# **Figure 6.** The infection: $n = 20$, $T = 3$, $d = 6$, 2,000 trials.
#
# From 20 sequences the correlation foretells the scatter of 6 and of 60 within 6%. It is not quite a
# constant: for $T = 3$, $d = 6$ it rises with $n$, from .11 to .13 and .14.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10.10 The regularisation path *(optional)*
#
# **The regularisation path** consists of the best $W$ of each norm, $W(R) = \arg\min_{\lVert W \rVert_F \le
# R} L(W)$. By lesson 08 its direction tends to $W_{\mathrm{mm}}$ of the *best* tokens, if they are
# feasible, and unique in each sequence. A program that follows a minimiser from a small radius may stay on
# a branch that is not the best one any more. So we compute two things: the followed branch, and the branch
# that starts at a large radius on the ray of $W_{\mathrm{mm}}(\mathrm{opt})$.

# %%
few = 20
both = data.TokenData(*(getattr(cross, part)[:few] for part in "Xzyv"))
radii = [3, 10, 30, 100, 300, 1000]
followed = paths.regularization_path(models.CrossAttention(10, trials=few), both, radii)
W_opt = att_svm(both, both.optimal).value
ray = W_opt / W_opt.flatten(1).norm(dim=1)[:, None, None]
best_tokens = []
print("        followed from R = 3                |  started on the ray of the best tokens")
print("   R    cosine to its own W_mm   all best   |  least cosine to W_mm(opt)   loss no higher")
for k, R in enumerate(radii):
    W = followed["W"][k]
    chosen = models.CrossAttention(10, trials=few, init=W).logits(both).argmax(-1)
    own = geometry.cosine(W, att_svm(both, chosen).value).min()
    best_tokens.append(int((chosen == both.optimal).all(-1).sum()))
    print(f"{R:4d} {own:15.3f} (least) {best_tokens[-1]:13d}   |", end="")
    if R < 30:
        print("  -")
        continue
    branch = paths.regularization_path(models.CrossAttention(10, trials=few, init=R * ray), both, [R])
    alike = geometry.cosine(branch["W"][0], W_opt).min()
    lower = (branch.loss[0] <= followed.loss[k] + 1e-9).sum()
    print(f"{alike:18.3f} {lower:22d} of {few}")
    assert lower == few
assert own > 0.9999
assert alike > 0.9999
assert best_tokens[-1] == best_tokens[-2] == 13
higher = int((branch.loss[0] < followed.loss[-1] - 1e-4).sum())
print(f"loss of the followed branch strictly higher at R = 1000: {higher} of {few}")
assert higher == few - 13
same = geometry.cosine(branch["W"][0], followed["W"][-1]) > 1 - 1e-6
print(f"their W is the same, to a cosine of 1 - 1e-6: {int(same.sum())} of {few}")
assert same.sum() == 13


# %% [markdown]
# Each branch converges to an Att-SVM, that of its own tokens. In 13 of the 20 problems they are one branch.
# In the other seven the followed one selects other tokens, and its loss is higher: the *path* is global,
# whoever follows it need not be.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10.11 What endless data leave of W *(optional)*
#
# In section 10.6 the SVM's $b_v/b$ came to 2. Where does it end? Directions of $W_{\mathrm{mm}}$ for more and
# more sequences come to a $W$ that puts the best token $x$ first, or ties, in *every* sequence that can be
# drawn: also before a token $x - \delta$ close by with a score just below, that is with $\delta$ small,
# across $x$, and $y\, v \cdot \delta > 0$. Then $\delta^\top W x \ge 0$ for all such $\delta$, so the part of
# $W x$ across $x$ points the way of that of $y\,v$. Up to multiples of $v$, then, $W$ multiplies every $x$ by
# a number (each is the best token of some sequence); being linear, by the same number:
#
# $$W = b\,I + v\, w^\top \qquad\text{with}\qquad y\, w \cdot x \ge 0 \quad\text{for every best token } x .$$
#
# This $w$ has to tell the label from the best token. Best tokens with scores above zero, $y\, v \cdot x >
# 0$, leave it one direction, $v$: $b_v \ge b$. But one sequence in $2^T$ has no token with a score above
# zero. There the label is the other one, $b_v \le b$, and what is left is $w = 0$: *attend to yourself*, and
# nothing else. With $T = 16$ one would wait for it: of 65,536 sequences one is of this kind.

# %%
print("d = 3, 4 trials        best token scores below 0    SVM: b_v / b   cosine to I: mean   least")
near = {}
for T in (2, 4, 16):
    for n in (20, 1280):
        tokens = self_attention(best_first(data.random_tokens(n=n, T=T, d=3, trials=4, seed=3)))
        solution = att_svm(tokens, tokens.optimal)
        assert (solution.status == "optimal").all()
        alike = geometry.cosine(solution.value, torch.eye(3, dtype=torch.float64).expand(4, 3, 3))
        near[T, n] = float(alike.mean())
        below = (tokens.scores[..., 0] < 0).double().mean()
        ratio = along_over_across(solution.value, tokens.v)
        print(f"T = {T:2d}, n = {n:4d} {below:24.0%} {ratio:24.1f} {alike.mean():18.2f} {alike.min():11.2f}")
        assert T < 16 or not below
assert min(near[2, 1280], near[4, 1280]) > 0.97
assert max(near[2, 20], near[4, 20], near[16, 20], near[16, 1280]) < 0.87

# %% [markdown]
# ## Questions
#
# **1.** All queries are doubled. What happens to $W_{\mathrm{mm}}$, to $p_i = W_{\mathrm{mm}} z_i$, and to
# normalised descent with steps of length $\eta$?
# <details><summary>Answer</summary>
#
# $W_{\mathrm{mm}}$ is halved, the $p_i$ stay. Descent takes the path that it took before with steps of length
# $2\eta$, at half the size.
# </details>
#
# **2.** Your data have $n = 1000$ sequences, $d = 64$, but only 12 different query words. How large can the
# rank of $W_{\mathrm{mm}}$ be? And that of a $W$ trained from the start of `torch.nn.Linear`?
# <details><summary>Answer</summary>
#
# At most 12. Trained from that start by plain gradient steps, $W$ has rank 64 at each step (a change of
# rank 12, and what the start left behind), although its direction tends to one of rank 12. Adam's change
# has a larger rank.
# </details>
#
# **3.** $W$ is antisymmetric, $W^\top = -W$. What is the logit of the query itself in self-attention?
# <details><summary>Answer</summary>
#
# $x^\top W x = 0$. Only the symmetric part counts.
# </details>
#
# **4.** In self-attention a sequence stands in the data twice, with opposite labels. Is the choice of the
# best tokens feasible?
# <details><summary>Answer</summary>
#
# No. Same query, same tokens, and the best token of the one is the worst of the other: the two comparisons
# between these contradict each other.
# </details>

# %%
progress("10")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - $W$ is a $p$ for the keys $x_{it} z_i^\top$: gradient, Att-SVM and theorem carry over, with their
#   conditions. Sequence $i$ sees $p_i = W z_i$; what $k$ adds to a lead of $i$ is $(\bar a_k \cdot
#   a_{it})(z_k \cdot z_i)$.
# - $W_{\mathrm{mm}} = \sum_i \bar a_i z_i^\top$, so its rank is at most $\min(n, d)$, and at most the
#   number of independent queries that carry weight. What a start has outside the span stays, under plain
#   gradient steps.
# - Independent queries make every choice feasible that each sequence can make by itself; equal ones can
#   contradict each other, and then no $d$ helps: attention is shared or taken, by the interval law.
# - In self-attention sequences infect each other. Where their queries carry the answer, by being it or by a
#   fixed turn, $W$ learns a rule for new sequences: $b\,(I - ee^\top) + b_v\,ee^\top$ with $e$ along $v$,
#   nearly; of the SVM endless data leave $bI$.
#
# | claim | prediction | measurement |
# |:---|:---|:---|
# | direction of $W$, 100 trials | Frobenius SVM | above .999 in each (growing steps) |
# | cosine to the nuclear SVM | that between the solutions, .853 | within .01 in each trial |
# | outcome, 400 runs | locally optimal | all but 10, and these leave when trained on |
# | margin of two queries | distance times $\cos$ or $\sin\frac\varphi2$ | SVM exactly, descent within 3% |
# | rank | at most that of the queries that carry | equal in five random families, less in 10.2 |
# | path, 20 problems | $W_{\mathrm{mm}}(\mathrm{opt})$ | no branch lower in 20; followed in 13 |
# | scatter, $n = 6$ and 60 | $1 + (n-1)\varrho$, from $n = 20$ | within 6% |
# | $b_v/b$ after one step | from sorted scores | within 3% at $n = 1000$ |
# | SVM, cosine to $I$, endless data | 1 | above .97 for $T = 2, 4$ at $n = 1280$; not yet for $T = 16$ |
# | contradiction $n_1 : n_2$ | shared for $\log(n_1/n_2)$ inside $(g_2, g_1)$ | 4 of 4 contests |
# | its lead a decade | 2.3 outside, 1.5 at the ends | 1.9 to 2.3, four; 1.6, two |
#
# ## Further reading
#
# - D. A. Tarzanagh, Y. Li, C. Thrampoulidis, S. Oymak, *Transformers as Support Vector Machines* (2023, arXiv
#   2308.16898): the Att-SVM for $W$ and for $K, Q$, and the data of section 10.5.
# - D. A. Tarzanagh, Y. Li, X. Zhang, S. Oymak, *Max-Margin Token Selection in Attention Mechanism* (NeurIPS
#   2023, arXiv 2306.13596): the theorem for $p$.
#
# The conflict laws of sections 10.3 and 10.8, the infection, the form of $W$ in section 10.6 and its limit in
# 10.11 are this lesson's own: short arguments and measurements, not theorems of the papers.
#
# **Next:** [lesson 11](11_key_query_nuclear.ipynb): train $K$ and $Q$, and the norm changes.
