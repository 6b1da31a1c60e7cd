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
# - turn every statement about $p$ into one about $W$, and compute its SVM without ever forming a matrix;
# - write $W_{\mathrm{mm}}$ as a sum of outer products, and read its rank off it;
# - predict what a start leaves behind in $W$ for ever;
# - say what sequences share through their queries, and what a conflict between two of them costs;
# - tell self- from cross-attention by what $W$ learns, and decide from words alone whether the tokens to be
#   selected contradict each other.
#
# **You need** [lesson 02](02_hard_margin_svm.ipynb) (nonnegative least squares),
# [lesson 05](05_softmax_attention.ipynb) (the gradient), [lesson 06](06_attention_as_svm.ipynb) (Att-SVM)
# and [lesson 08](08_regularization_path.ipynb) (paths and branches). About 90 minutes, five exercises.

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
# fixed, and with it the scores $\gamma_{it} = y_i\, v \cdot x_{it}$. We train $W$:
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
# Dashed: the direction of $W_{\mathrm{mm}}\, z_i$, computed without training. Dotted: the line orthogonal to
# it, halfway between the selected token and the next. (All vectors have length one.)

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
# came from. So everything said there holds for $W$, word for word: forces between pairs of tokens, the
# Att-SVM, support tokens, local optimality, the two clocks.

# %% [markdown]
# ### Exercise 10.1: The gradient is a sum of outer products
#
# ★★☆ · 7 minutes
#
# Return $\nabla L(W)$, a $d \times d$ matrix, for the logistic loss $\ell(u) = \log(1 + e^{-u})$. The
# function `slopes` gives $\partial u_i / \partial h_{it}$ in the form of lesson 05 that loses no winner's
# entry.
#
# <details><summary>Hint</summary>
#
# $\partial h_{it} / \partial W = x_{it} z_i^\top$: tokens on the left, the query on the right. For each
# sequence first sum over its tokens, $\sum_t \texttt{slopes}_{it}\, x_{it}$, which is a vector; then one
# outer product with $z_i$. $\ell'(u) = -1/(1 + e^u)$.
# </details>


# %%
def softmax(h):
    """Attention (n, T) from logits (n, T)."""
    e = np.exp(h - h.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def slopes(h, scores):
    """The derivatives of u_i = sum_t s_it scores_it in the logits, (n, T): lesson 05, nothing lost."""
    s = softmax(h)
    pull = s * (scores - np.take_along_axis(scores, h.argmax(axis=1)[:, None], axis=1))
    return pull - s * pull.sum(axis=1, keepdims=True)


@exercise("10.1")
def matrix_gradient(W, X, z, scores):
    """Return the gradient of L in W, (d, d), for tokens X (n, T, d), queries z (n, d) and scores (n, T)."""
    ### BEGIN SOLUTION
    h = np.einsum("itd,de,ie->it", X, W, z)
    u = (softmax(h) * scores).sum(axis=1)
    pull = np.einsum("it,itd->id", slopes(h, scores), X)  # one vector for each sequence
    return -(pull / (1 + np.exp(u))[:, None]).T @ z / len(z)
    ### END SOLUTION


# %%
check("10.1", matrix_gradient)

# %% [markdown]
# Is it true that $W$ is a $p$? We take the same steps twice: from scratch with your gradient, and with the
# library's `PromptAttention`, the model of lesson 06, on keys $\mathrm{vec}(x_{it} z_i^\top)$. (It wants
# tokens as long as the keys, so we pad $x$ and $v$ with zeros, which changes no score.)


# %%
def descend(X, z, scores, steps, lr=0.1):
    """Normalised steps of length lr from W = 0: the path (steps + 1, d, d)."""
    path = [np.zeros((X.shape[-1], X.shape[-1]))]
    for _ in range(steps):
        g = np.asarray(matrix_gradient(path[-1], X, z, scores), dtype=float)
        path.append(path[-1] - lr * g / np.linalg.norm(g))
    return np.array(path)


def padded(a):
    """Zeros appended until vectors of length d have length d^2."""
    return torch.nn.functional.pad(a, (0, a.shape[-1] ** 2 - a.shape[-1]))


def flattened(tokens):
    """The same problem for p: keys vec(x z^T)."""
    keys = (tokens.X[..., :, None] * tokens.z[..., None, None, :]).flatten(-2)  # (n, T, d^2)
    parts = (padded(part) for part in (tokens.X, tokens.z))
    X, z = parts
    return data.TokenData(X=X, z=z, y=tokens.y, v=padded(tokens.v), keys=keys)


three = data.random_tokens(n=3, T=4, d=5, seed=1)
mine = descend(three.X.numpy(), three.z.numpy(), three.scores.numpy(), steps=300)
prompt = models.PromptAttention(25)
optimizer = optim.NormalizedGD(prompt.parameters(), lr=0.1)
train.fit(prompt, flattened(three), optimizer, steps=300, progress=False)
apart = np.abs(mine[-1].ravel() - prompt.p.detach().numpy()).max()
print(f"norm of W after 300 steps {np.linalg.norm(mine[-1]):.1f}; ", end="")
print("the two differ by less than 1e-9:", bool(apart < 1e-9))
assert apart < 1e-9, again.format("10.1")
assert np.linalg.norm(mine[-1]) > 19, again.format("10.1")

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
# > Oymak, 2023, state it for $W$; informal). Let $\alpha$ be locally optimal and feasible. Small constant
# > gradient steps from a start close enough to $W_{\mathrm{mm}}(\alpha)$ in direction, and far enough out,
# > take $\lVert W \rVert_F$ to infinity and $W / \lVert W \rVert_F$ to $W_{\mathrm{mm}} / \lVert
# > W_{\mathrm{mm}} \rVert_F$. If in each sequence all tokens but the best have equal scores, every start is
# > taken to the best tokens.
#
# The norm is Frobenius' because gradient descent measures $W$ as a long vector. (Lesson 03: another
# optimiser, another norm. Lesson 11: train $K$ and $Q$ instead of their product, another norm again.)
#
# There are $n(T - 1)$ comparisons of $d^2$ entries each. Lesson 02's dual never needs the entries, only the
# inner products between comparisons.

# %% [markdown]
# ### Exercise 10.2: No matrices
#
# ★★☆ · 5 minutes
#
# Return the matrix of inner products between all comparisons, $n(T-1) \times n(T-1)$, without forming a $d
# \times d$ matrix. You are given the $a_{it}$ as rows, ordered by $i$, then by $t$, $T - 1$ for each
# sequence, and one query for each sequence.
#
# <details><summary>Hint</summary>
#
# $\langle a z^\top, a' z'^\top \rangle = \sum_{jk} a_j z_k a'_j z'_k$: which two sums is this the product of?
# </details>


# %%
@exercise("10.2")
def gram(a, z):
    """Return all inner products, (n (T - 1), n (T - 1)), for rows a (n (T - 1), d) and queries z (n, d)."""
    ### BEGIN SOLUTION
    queries = np.repeat(z, len(a) // len(z), axis=0)
    return (a @ a.T) * (queries @ queries.T)
    ### END SOLUTION


# %%
check("10.2", gram)


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
assert np.abs(W_mm - library.value.numpy()).max() < 1e-6, again.format("10.2")
assert library.gap < 1e-8
assert 6 < np.count_nonzero(lam) < 42, again.format("10.2")

# %% [markdown]
# **Two kernels, multiplied.** A comparison of sequence $i$ and one of sequence $j$ have the inner product
# $(a_{it} \cdot a_{j\tau})\,(z_i \cdot z_j)$: how alike the answers, times how alike the questions. The
# solution is a positive combination of comparisons, and those of one sequence share their query:
#
# $$W_{\mathrm{mm}} = \sum_i \bar a_i\, z_i^\top, \qquad \bar a_i = \sum_{t \ne \alpha_i} \lambda_{it} a_{it},
# \qquad p_j = W_{\mathrm{mm}}\, z_j = \sum_i (z_i \cdot z_j)\, \bar a_i .$$
#
# So what one sequence learns reaches another one in proportion to $z_i \cdot z_j$.
#
# **Orthogonal queries** of length one share nothing: then $p_j = \bar a_j$, constraints fall apart into one
# group for each sequence, $\lVert W_{\mathrm{mm}} \rVert_F^2 = \sum_i \lVert p_i \rVert^2$, and each $p_i$
# is the $p_{\mathrm{mm}}$ of its own sequence alone. **Equal queries** share everything: one $p$ for all of
# them, as in lesson 06.
#
# **Independent queries** lie in between, but they are enough for this: with $z_1, \dots, z_n$ linearly
# independent, some $W$ makes any $p_1, \dots, p_n$ you like. So a choice is feasible if and only if each
# sequence *by itself* is. Tokens of length one are never a problem, as $p_i = x_{i\alpha_i}$ prefers
# $x_{i\alpha_i}$ to all others. That is why lesson 06 found every choice feasible for $W$ and hardly half of
# them for $p$: up to $n = d$, $W$ is $n$ vectors $p$ at once, whatever $T$ is.

# %%
many = data.random_tokens(n=10, T=30, d=10, trials=20, seed=3)
anything = torch.randint(0, 30, (20, 10), generator=torch.Generator().manual_seed(0))
for_W = (att_svm(many, anything).status == "optimal").sum()
for_p = (svm.solve(svm.token_problem(many.keys, anything), throw=False).status == "optimal").sum()
print(
    f"10 sequences of 30 tokens in 10 dimensions: random choices feasible for W {for_W}, for p {for_p} of 20"
)
assert (for_W, for_p) == (20, 0)

orthogonal = dataclasses.replace(
    one, z=torch.linalg.qr(torch.tensor(z).T)[0].T.contiguous()
)  # rows orthonormal
apiece = [svm.solve(svm.token_problem(one.keys[i : i + 1], one.optimal[i : i + 1])).value for i in range(6)]
together = att_svm(orthogonal, one.optimal).value @ orthogonal.z.mT  # (d, n)
print(
    "orthogonal queries: p_i is the p_mm of sequence i alone:", np.allclose(together.T, torch.stack(apiece))
)
assert np.allclose(together.T, torch.stack(apiece), atol=1e-6)

# %% [markdown]
# ### Exercise 10.3: The price of a conflict
#
# ★★☆ · 10 minutes
#
# *Predict before you measure.* Two sequences have the *same* two tokens, at distance $c = \lVert x_1 - x_2
# \rVert$, and queries of length one at an angle $\varphi$, $0 < \varphi < \pi$. Sequence 1 selects token 1.
# Return $\lVert W_{\mathrm{mm}} \rVert_F$ if sequence 2 selects token 1 too (`agree`), and if it selects
# token 2.
#
# <details><summary>Hint</summary>
#
# There are two comparisons, with the signs of $\pm (x_1 - x_2)$. In which direction must the columns of $W$
# point? What is left is an SVM with two points in the plane of the queries: lesson 02 finds its margin as a
# distance from the origin.
# </details>


# %%
@exercise("10.3")
def price(c, angle, agree):
    """Return the norm of W_mm for tokens at distance c, queries at an angle (radians), agree a bool."""
    ### BEGIN SOLUTION
    return 1 / (c * (np.cos(angle / 2) if agree else np.sin(angle / 2)))
    ### END SOLUTION


# %%
check("10.3", price)

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
    measured[agree] = att_svm(two, choice).objective.numpy()
    model = models.CrossAttention(2, trials=20)
    fit(model, two, steps=3000, every=3000)
    leads = geometry.margins(model.logits(two), choice).amin((-2, -1))
    margins[agree] = (leads / model.W.flatten(1).norm(dim=1)).numpy()
    predicted = np.array([price(1.6, turn, agree) for turn in angles])
    late = 1 - margins[agree] * predicted
    print(
        f"{'agree' if agree else 'conflict':8s}: descent at worst {late.max():.0%} below the largest margin"
    )
    assert np.allclose(measured[agree], predicted, rtol=1e-6), again.format("10.3")
    assert late.max() < 0.03
    assert late.min() > -1e-6

# %% jupyter={"source_hidden": true}
fig, ax = plt.subplots(figsize=(7.5, 3.6))
turn = np.linspace(0, np.pi, 200)
for agree, color, marker, name in ((True, BLUE, "o", "same token"), (False, ORANGE, "s", "conflict")):
    line = 1.6 * (np.cos(turn / 2) if agree else np.sin(turn / 2))
    ax.plot(np.degrees(turn), line, color=color, linestyle="-" if agree else "--", label=f"{name}, predicted")
    ax.plot(np.degrees(angles), margins[agree], marker, color=color, label=f"{name}, descent")
ax.set(xlabel="angle between the two queries (degrees)", ylabel="margin", ylim=(0, 2.2))
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
# tokens ($c = 1.6$) leave to $W$. Lines: exercise 10.3. Markers: the smallest lead divided by $\lVert W
# \rVert_F$ after 3,000 normalised steps.

# %% [markdown]
# At 90 degrees agreement and conflict cost the same: the sequences do not notice each other. The nearer two
# questions, the dearer it is to answer them differently. At 0 degrees it is impossible, for *any* $d$:
# section 10.7 comes back to that.
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
# More exactly, only sequences that carry weight count ($\bar a_i \ne 0$), and only as many as their queries
# are independent: six sequences that share two queries have rank at most 2.


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
# In every feasible problem of the table the rank is that of the queries that carry weight. (In general that
# is an upper bound: if the $\bar a_i$ were dependent, the rank would be less.)
#
# **Descent obeys the same count, at every step.** A step is a sum of outer products with the queries on the
# right, and of differences of tokens on the left (lesson 06: forces between pairs). So $W_j - W_0$ never
# leaves the span of the matrices $(x_{it} - x_{i\tau})\, z_i^\top$. From $W_0 = 0$ all $W_j$ have rank at
# most $\min(n, d)$. From another start, the part $W_\perp$ of $W_0$ that is orthogonal to that span stays
# in $W$ for ever. It never changes a logit difference of these sequences; it just sits there.

# %% [markdown]
# ### Exercise 10.4: What the start leaves behind
#
# ★★☆ · 8 minutes
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
@exercise("10.4")
def best_cosine(W_0, X, z, R):
    """Return the largest cosine, a number, for W_0 (d, d), X (n, T, d), z (n, d) and the norm R."""
    ### BEGIN SOLUTION
    a = X[:, 1:] - X[:, :1]
    rows = (a[..., :, None] * z[:, None, None, :]).reshape(-1, W_0.size)
    kept = W_0.ravel() - np.linalg.pinv(rows) @ (rows @ W_0.ravel())
    return np.sqrt(1 - kept @ kept / R**2)
    ### END SOLUTION


# %%
check("10.4", best_cosine)

# %%
small = data.random_tokens(n=6, T=4, d=10, trials=30, seed=3)
direction = torch.randn(30, 10, 10, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
direction /= direction.flatten(1).norm(dim=1)[:, None, None]
at = [10, 30, 100, 200, 300, 500, 1000, 2000]
started = {}
for size in (0, 10, 100):
    model = models.CrossAttention(10, trials=30, init=size * direction)
    history = fit(model, small, every=at, schedule=train.growing)
    W = history["W"][1:]  # (8, 30, 10, 10)
    solution = att_svm(small, geometry.selected_tokens(model.attention(small)))
    error = torch.stack([1 - geometry.cosine(w, solution.value) for w in W])
    R = W.flatten(2).norm(dim=-1)
    parts = (size * direction).numpy(), small.X.numpy(), small.z.numpy()
    bound = [[best_cosine(W0, X, z, r) for W0, X, z, r in zip(*parts, row, strict=True)] for row in R.numpy()]
    started[size] = error.numpy(), 1 - np.array(bound, dtype=float)
    assert (solution.status == "optimal").all()
    assert (started[size][0] > started[size][1] - 1e-9).all(), again.format("10.4")
for size in (10, 100):
    ratio = started[size][0][-1] / started[size][1][-1]
    print(f"start of norm {size:3d}: measured over predicted 1 - cosine after 2,000 steps: ", end="")
    print("all above 1, median below", "1.7" if size == 10 else "1.06")
    assert ratio.min() > 1, again.format("10.4")
    assert np.median(ratio) < (1.7 if size == 10 else 1.06), again.format("10.4")
assert abs(np.median(ratio) - 1.04) < 0.01, again.format("10.4")

# %% jupyter={"source_hidden": true}
fig, ax = plt.subplots(figsize=(7.5, 4))
for (size, (error, bound)), color, marker in zip(started.items(), (BLUE, GREEN, ORANGE), "osD", strict=True):
    ax.loglog(at, np.median(error, axis=1), marker, color=color, label=f"$\\|W_0\\|_F = {size}$", zorder=3)
    ax.vlines(at, error.min(axis=1), error.max(axis=1), color=color, linewidth=1.5)
    if size:
        ax.loglog(at, np.median(bound, axis=1), "--", color=color)
ax.set(xlabel="step (of length 0.1 times its square root)", ylabel=r"1 - cosine to $W_{\mathrm{mm}}$")
ax.legend(loc="lower left")
show(
    fig,
    alt="One minus the cosine to the Att-SVM against steps, both logarithmic, for starts of norm 0, 10 and "
    "100. From zero it falls fastest. From the two others it comes to lie on dashed lines, a hundred times "
    "apart, which fall more slowly.",
)

# %% [markdown]
# **Figure 3.** Starts of three sizes, 30 trials ($n = 6$, $T = 4$, $d = 10$): medians, and bars from least to
# most. Dashed: the prediction of exercise 10.4, which knows nothing but the start and $\lVert W_j \rVert_F$.
# Steps have the length $0.1 \sqrt j$, as in lesson 06.

# %% [markdown]
# Here 18 comparisons span 18 of 100 dimensions, so most of the start stays. A long one is *the* error in the
# end.
# The direction converges all the same, because $\lVert W \rVert$ grows. But ask a new question: a query
# orthogonal to the six that were trained has the logits of the start, exactly, however long we train.

# %%
model = models.CrossAttention(10, trials=30, init=100 * direction)
fit(model, small, steps=500)
new = torch.linalg.svd(small.z)[2][:, -1]  # (30, 10) orthogonal to all six queries
moved = ((model.W - 100 * direction) @ new[..., None]).abs().max()
learned = ((model.W - 100 * direction) @ small.z.mT).abs().amax((1, 2)).min()
print("p = W z has moved: for the six queries by more than 3 in each trial:", bool(learned > 3), end="; ")
print("for a query orthogonal to them, not by 1e-9:", bool(moved < 1e-9))
assert moved < 1e-9
assert learned > 3

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10.5 The paper's data, descent and path
#
# Now the setting of the paper's public code: $n = 6$, $T = 8$, $d = 10$, all vectors uniform on the unit
# sphere, normalised steps of length 0.1, 2,000 of them. Its figure compares the trained $W$ with the
# Frobenius SVM (a mean cosine of about .99) and with the SVM of the *nuclear* norm (lesson 04), about .86. We
# train 100 trials three times: from zero with constant steps and with growing ones, and from the start that
# `torch.nn.Linear` would draw. (Selected tokens are read at the end; the softmax gradient is the library's,
# which loses no winner's entry: lesson 05.)

# %%
TRIALS = 100
cross = data.random_tokens(n=6, T=8, d=10, trials=TRIALS, seed=2)
record_at = [1, 3, 10, 30, 60, 100, 200, 400, 700, 1000, 1400, 2000]


def compare(tokens, start=None, schedule=None):
    """Train all trials; cosines of W to both SVMs, (records, trials), and how each trial ended."""
    model = models.CrossAttention(10, trials=TRIALS, init=start)
    W = fit(model, tokens, every=record_at, schedule=schedule)["W"][1:]
    attention = model.attention(tokens)
    selected = geometry.selected_tokens(attention)
    limits = {norm: att_svm(tokens, selected, norm) for norm in ("fro", "nuc")}
    assert all((limit.status == "optimal").all() for limit in limits.values())
    assert all((limit.gap < 1e-6).all() for limit in limits.values())
    logits = models.CrossAttention(10, trials=TRIALS, init=limits["fro"].value).logits(tokens)
    return {
        **{n: torch.stack([geometry.cosine(w, limit.value) for w in W]) for n, limit in limits.items()},
        "selected": selected,
        "local": geometry.locally_optimal(tokens.scores, logits, selected),
        "how": geometry.outcome(attention, tokens),
    }


draw = torch.rand(TRIALS, 10, 10, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
torch_start = (2 * draw - 1) / 10**0.5  # torch.nn.Linear: uniform between -1/sqrt(d) and 1/sqrt(d)
curves = {
    "constant": compare(cross),
    "growing": compare(cross, schedule=train.growing),
    "torch's start": compare(cross, start=torch_start),
}
print("100 trials      cosine to Frobenius     to nuclear    outcome")
print("                mean    median  least   mean   most   global  local  undecided  locally optimal")
for name, found in curves.items():
    fro, nuc = found["fro"][-1], found["nuc"][-1]
    count = {word: int((found["how"] == word).sum()) for word in ("global", "local", "undecided")}
    print(
        f"{name:14s} {fro.mean():.4f}  {fro.median():.4f} {fro.min():.3f}   {nuc.mean():.3f} {nuc.max():.3f}",
        end="",
    )
    print(f"{count['global']:8d} {count['local']:6d} {count['undecided']:9d} {found['local'].sum():12d}")
    assert fro.mean() > 0.995
    assert 0.84 < nuc.mean() < 0.87
    assert nuc.max() < 0.96
    assert count["undecided"] <= 1
grown = curves["growing"]
assert grown["fro"][-1].min() > 0.999
assert grown["local"].all()
assert (grown["how"] == "global").sum() == 72

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
        ax.vlines(record_at, low, high, color=color, linewidth=4, alpha=0.4)
        ax.plot(record_at, cosines.mean(1), line, marker=marker, color=color, label=label)
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
# optimal choice. With the constant ones of the paper's code the mean is above 0.995, from zero and from
# torch's start. What is missing is softness and zigzag, which growing steps shrink (lesson 06), and in one
# run a decision: it still hesitates between two tokens.
#
# **It does not go to the nuclear one**, and the second curve says nothing about training: it levels off at
# the cosine between the two *solutions*, which the tokens alone decide.

# %%
between = geometry.cosine(
    *(att_svm(cross, curves["growing"]["selected"], norm).value for norm in ("fro", "nuc"))
)
nuclear = curves["growing"]["nuc"][-1]
print(f"cosine between the two SVM solutions: mean {between.mean():.3f}, most {between.max():.3f}")
assert (nuclear - between).abs().max() < 0.01
assert 0.84 < between.mean() < 0.87
assert between.max() < 0.96

# %% [markdown] slideshow={"slide_type": "subslide"}
# **The regularisation path** consists of the best $W$ of each norm, $W(R) = \arg\min_{\lVert W \rVert_F \le
# R} L(W)$. By lesson 08 its direction tends to $W_{\mathrm{mm}}$ of the *best* tokens. A program that follows
# a minimiser from a small radius may stay on a branch that is not the best one any more. So we compute two
# things: the followed branch, and the branch that starts at a large radius on the ray of
# $W_{\mathrm{mm}}(\mathrm{opt})$.

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
    own = geometry.cosine(W, att_svm(both, chosen).value).median()
    best_tokens.append(int((chosen == both.optimal).all(-1).sum()))
    print(f"{R:4d} {own:15.3f} (median) {best_tokens[-1]:12d}   |", end="")
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
assert (branch.loss[0] < followed.loss[-1] - 1e-4).sum() == few - 13

# %% [markdown]
# Both branches converge to an Att-SVM, each to that of its own tokens. In 13 of the 20 problems they are one
# branch. In the other seven the followed one selects other tokens, and its loss is higher: the *path* is
# global, whoever follows it need not be, and nor need descent, whose 100 runs above account for themselves.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10.6 When the query is one of the tokens
#
# In **self-attention** the query is a token of its own sequence, $z_i = x_{i1}$. Nothing in sections 10.2
# to 10.5 asked where $z$ comes from, so theorem, rank and path hold as they are. What is new is one token
# with a special place: the *own logit* $h_{i1} = x_{i1}^\top W x_{i1}$ is a quadratic form. It sees only
# the symmetric part of $W$, and if $W = bI$ with $b > 0$, every token of length one puts itself first:
#
# $$x_{i1}^\top W x_{i1} - x_{it}^\top W x_{i1} = b\,(1 - x_{it} \cdot x_{i1}) > 0 .$$
#
# **Predict before you run on.** We take the data of section 10.5 and put $x_{i1}$ in the place of $z_i$; the
# heads, and so the best tokens, stay the same. Will sequences select their own query more often than one
# time in $T = 8$?


# %%
def self_attention(tokens):
    """The same tokens, labels and head; the first token of each sequence is its query."""
    return dataclasses.replace(tokens, z=tokens.X[..., 0, :].contiguous())


print("growing steps, 100 trials     least cosine   locally optimal   global   first token selected")
for name, run in (
    ("cross", curves["growing"]),
    ("self", compare(self_attention(cross), schedule=train.growing)),
):
    first, best = int((run["selected"] == 0).sum()), int((run["how"] == "global").sum())
    print(f"{name:25s} {run['fro'][-1].min():16.3f} {run['local'].sum():17d} {best:8d} {first:14d} of 600")
    assert run["fro"][-1].min() > 0.999
    assert run["local"].all()
    assert abs(first - 75) < 3 * (600 * 7 / 64) ** 0.5  # three standard deviations around one in eight

# %% [markdown]
# No. One in eight is 75, and both counts lie within the scatter of a fair draw. The best token is as likely
# to be the query as any other one, and at $W = 0$ the gradient of a sequence treats its tokens alike, whoever
# the query is. On average nothing changes.
#
# **But the sequences infect each other.** From zero the first step is $W_1 \propto \sum_j m_j z_j^\top$,
# where $m_j = \sum_\tau (\gamma_{j\tau} - \bar\gamma_j)\, x_{j\tau}$ (nearly: at $W = 0$ all slopes of the
# loss are near $\frac12$). With $z_j = x_{j1}$, sequence $j$ adds to the own logit of sequence $i$
#
# $$(m_j \cdot x_{i1})\,(x_{j1} \cdot x_{i1}) = (\gamma_{j1} - \bar\gamma_j)\,(x_{j1} \cdot x_{i1})^2 +
# \text{terms without a sign} .$$
#
# A square: mean $1/d$, never negative. Whoever finds its own query better than average pushes *all* others
# towards theirs, and whoever finds it worse pushes all away. With a query from outside there is no such term.
# So the *number* of sequences that select token 1 should scatter more than coin tosses do. We take many
# sequences in few dimensions: $n = 20$, $T = 3$, $d = 6$, 200 trials. Fair tosses would scatter by $\sqrt{20
# \cdot \frac13 \cdot \frac23} = 2.1$.

# %%
crowd = data.random_tokens(n=20, T=3, d=6, trials=200, seed=5)
taste = (crowd.scores[..., 0] - crowd.scores.mean(-1)).sum(-1)  # sum of gamma_j1 - their mean
counts = {}
print("sequences of 20 that give token 1 most attention:   after 1 step            after 1,000")
for name, tokens in (("cross", crowd), ("self", self_attention(crowd))):
    print(f"{name:6s}", end="")
    for steps in (1, 1000):
        model = models.CrossAttention(6, trials=200)
        fit(model, tokens, steps=steps, every=steps)
        first = (model.attention(tokens).argmax(-1) == 0).sum(-1).double()
        follows = np.corrcoef(taste, first)[0, 1]
        counts[name, steps] = first.numpy()
        print(f"   mean {first.mean():.1f}, scatter {first.std():.1f}, with taste {follows:.2f}", end="")
    print()
scatter = {key: found.std() for key, found in counts.items()}
assert scatter["self", 1] > 3.3 > 2.5 > scatter["cross", 1]
assert scatter["self", 1] > 1.4 * scatter["self", 1000]
assert all(abs(found.mean() - 20 / 3) < 0.7 for found in counts.values())

# %% [markdown]
# The means agree; the scatter of self-attention is nearly twice that of coins after the first step, and
# follows the common "taste" $\sum_j (\gamma_{j1} - \bar\gamma_j)$. Later the sequences correct most of it:
# the comparisons of each pull it towards a locally optimal token of its own.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What W learns
#
# The square has a lasting effect where the sequences agree. Suppose **the query is the best token** in each
# of $n$ training sequences. Cross-attention has to learn an answer for every question. Self-attention can
# learn *attend to yourself*, one rule for all: $W = bI$ satisfies every constraint, however many sequences
# there are. And the max-margin solution finds it. If turning all tokens by any rotation $U$ gave the same
# data set, then $U^\top W_{\mathrm{mm}} U$ would solve the same problem; the solution is unique, so it
# would be a multiple of $I$. Random tokens on the sphere come close to that as their number grows.
#
# We reorder the tokens so that the best one comes first, train, and test on 500 *new* sequences of random
# tokens, for which the head plays no part.


# %%
def best_first(tokens):
    """Tokens of each sequence by falling score; queries as they were."""
    order = tokens.scores.argsort(dim=-1, descending=True)[..., None].expand_as(tokens.X)
    return dataclasses.replace(tokens, X=tokens.X.gather(-2, order))


def identity_share(W):
    """Cosine of W to the identity, (trials,)."""
    return geometry.cosine(W, torch.eye(10, dtype=torch.float64).expand_as(W))


new = data.random_tokens(n=500, T=8, d=10, trials=10, seed=4)
agreed = {}
print("10 trials       Att-SVM: feasible   cosine to I  | descent: token 1 selected   in new sequences")
for n in (2, 6, 20, 80):
    for name, query in (("cross", lambda tokens: tokens), ("self", self_attention)):
        tokens = query(best_first(data.random_tokens(n=n, T=8, d=10, trials=10, seed=3)))
        solution = att_svm(tokens, tokens.optimal)
        model = models.CrossAttention(10, trials=10)
        fit(model, tokens, steps=500, schedule=train.growing, every=500)
        share = [(model.logits(seen).argmax(-1) == 0).double().mean().item() for seen in (tokens, query(new))]
        possible = int((solution.status == "optimal").sum())
        alike = f"{identity_share(solution.value).mean():.2f}" if possible else "-"
        agreed[name, n] = share[1]
        print(f"n = {n:2d}, {name:5s} {possible:15d} of 10 {alike:>12s}  |", end="")
        print(f"{share[0]:19.0%} {share[1]:20.0%}")
        assert name == "cross" or possible == 10
        assert name == "self" or abs(share[1] - 1 / 8) < 0.02
assert agreed["self", 20] > 0.88
assert agreed["self", 80] > 0.97

# %% jupyter={"source_hidden": true}
fig, (left, right) = plt.subplots(1, 2, figsize=(8, 3.4))
bins = np.arange(-0.5, 20.5)
for name, color, line in (("cross", BLUE, "-"), ("self", ORANGE, "--")):
    left.hist(counts[name, 1], bins, histtype="step", color=color, linestyle=line, linewidth=2, label=name)
left.set(xlabel="sequences of 20 that prefer token 1", ylabel="trials of 200", xticks=[0, 5, 10, 15, 20])
left.set_title("after the first step")
left.legend(loc="upper right")
for name, color, marker in (("cross", BLUE, "o"), ("self", ORANGE, "s")):
    share = [agreed[name, n] for n in (2, 6, 20, 80)]
    right.semilogx((2, 6, 20, 80), share, "-", marker=marker, color=color, label=name)
right.axhline(1 / 8, color=BLACK, linestyle=":", linewidth=1.5)
right.text(2, 0.16, "chance", fontsize=11)
right.set(xlabel="training sequences $n$", ylabel="new sequences that select token 1", ylim=(0, 1.05))
right.set_xticks([2, 6, 20, 80], ["2", "6", "20", "80"])
right.minorticks_off()
right.set_title("trained: best token = token 1")
right.legend(loc="center right")
show(
    fig,
    alt="Left: histograms of how many of 20 sequences prefer token 1 after one step. That of self-attention "
    "is much wider. Right: the share of new sequences that select token 1 after training. For self-attention "
    "it rises from under a half at 2 training sequences to nearly one at 80; for cross-attention it stays at "
    "one eighth.",
)

# %% [markdown]
# **Figure 5.** Left: the infection ($n = 20$, $T = 3$, $d = 6$; in self-attention token 1 is the query).
# Right: after training on $n$ sequences whose token 1 is the best ($T = 8$, $d = 10$), how many new ones
# select their token 1.

# %% [markdown]
# After 20 sequences, over 88% of the new ones attend to themselves; with a query from outside it is one in
# eight, as without any training. With 80, the choice is not even feasible for cross-attention (560
# constraints on 100 unknowns), for self-attention it is feasible by design. The SVM tells us more than
# where training ends: what its solution does on new sequences.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10.7 Where it breaks: one query, two answers
#
# Random queries never coincide. Words do. Let the tokens come from a vocabulary with linearly independent
# embeddings, and let each sequence ask with its first word. Then two sequences that begin with the same word
# share a query, and may want different things.

# %% [markdown]
# ### Exercise 10.5: Do the words contradict each other?
#
# ★★★ · 12 minutes
#
# `words[i]` are the numbers of the words of sequence $i$; its query is its first word, and it is to select
# the word at position `selected[i]` (counted from 0). Embeddings are linearly independent. Is the Att-SVM
# feasible? Return a bool. (A word may stand in a sequence twice; then its tokens are equal.)
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
#
# **What does descent do with a contradiction?** Take the words $a, b, c, c'$ with values $v \cdot x = 1, -1,
# -3, 3$, and one common query. $n_1$ sequences $(a, b, c)$ have the label $+1$: $a$ is best, $c$ worst.
# $n_2 < n_1$ sequences $(a, b, c')$ have the label $-1$: $b$ is best, $c'$ worst. All agree that $c$ and
# $c'$ lose. Once they have, every sequence has the same output $f = s_a - s_b$, and what is left is
#
# $$n_1\, \ell(f) + n_2\, \ell(-f), \qquad\text{with derivative zero where}\qquad e^f = n_1 / n_2 .$$
#
# So attention should settle at $s_a - s_b = \log(n_1/n_2)$, that is at $h_a - h_b = 2\,\mathrm{artanh}
# \log(n_1/n_2)$: a *finite* difference, while the lead over $c$ goes to infinity. Unless $n_1/n_2 \ge e$.
# Then no attention is large enough, and the majority takes all.


# %%
def contest(first, n=12, steps=5000):
    """Plain descent, a trial for each number of sequences (a, b, c): logits of the first sequence, twice."""
    a, b, c, c2, query = torch.eye(5, dtype=torch.float64)
    majority = torch.arange(n) < torch.tensor(first)[:, None]  # (trials, n)
    third = torch.where(majority[..., None], c, c2)  # (trials, n, 5)
    X = torch.stack([a.expand_as(third), b.expand_as(third), third], dim=-2)
    y, v = torch.where(majority, 1.0, -1.0).to(X), (a - b - 3 * c + 3 * c2).expand(len(first), 5)
    tokens = data.TokenData(X=X, z=query.expand(third.shape).contiguous(), y=y, v=v.contiguous())
    assert (att_svm(tokens, tokens.optimal).status == "infeasible").all()
    model = models.CrossAttention(5, trials=len(first))
    record, sgd = {"h": lambda m: m.logits(tokens)[:, 0]}, torch.optim.SGD(model.parameters(), lr=2.0)
    return train.fit(model, tokens, sgd, steps, record=record, every=[500, steps], progress=False)["h"][1:]


print("             h_a - h_b: predicted   500   5,000 steps  |  h_a - h_c: 500   5,000 steps")
majorities = (7, 8, 9, 10)
for first, h in zip(majorities, contest(majorities).unbind(dim=1), strict=True):
    ratio = np.log(first / (12 - first))
    foreseen = 2 * np.arctanh(ratio) if ratio < 1 else np.inf
    apart, ahead = (h[:, 0] - h[:, 1]).numpy(), (h[:, 0] - h[:, 2]).numpy()
    print(f"{first:2d} against {12 - first} {foreseen:18.3f} {apart[0]:10.3f} {apart[1]:8.3f}", end="")
    print(f"       | {ahead[0]:15.1f} {ahead[1]:8.1f}")
    assert ahead[1] - ahead[0] > 2
    assert abs(apart[1] - foreseen) < 0.01 if ratio < 1 else apart[1] - apart[0] > 1.8

# %% [markdown]
# The prediction holds in both regimes: below $e$ the difference stands still at its value to within 0.01,
# above it grows by about 2 while the number of steps grows tenfold. ("Two against one" is soft, "three
# against one" is not: $2 < e < 3$.) So $W$ has a finite part, which shares attention between contradictory
# words, and a part that goes to infinity and decides what is left. Lesson 13 meets such a pair again, and
# lesson 16 finds it wherever words follow each other in loops.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10.8 A glimpse of keys and queries *(optional)*
#
# A transformer does not train $W$ but two factors, $W = K Q^\top$. Same tokens, same queries, same selected
# tokens as in Figure 1, another destination.

# %%
glimpse = {}
for T, tokens in plane.items():
    model = models.FactoredAttention(2, m=2, seed=0)
    path = fit(model, tokens, lr=0.02, every=every, schedule=train.growing)["W"]
    _, selected, W_fro = trained[T]
    assert torch.equal(geometry.selected_tokens(model.attention(tokens)), selected)
    W_nuc = att_svm(tokens, selected, "nuc").value
    glimpse[T] = path, selected, W_nuc
    to_nuc, to_fro = (geometry.cosine(model.W, limit, batch_dims=0) for limit in (W_nuc, W_fro))
    ratio = (torch.linalg.svdvals(limit) for limit in (W_nuc, W_fro))
    small_nuc, small_fro = (float(values[1] / values[0]) for values in ratio)
    print(
        f"T = {T}: cosine of K Q^T to the nuclear SVM {to_nuc:.3f}, to the Frobenius SVM {to_fro:.3f};",
        end=" ",
    )
    print(f"second singular value over first: {small_nuc:.2f} (nuclear), {small_fro:.2f} (Frobenius)")
    assert to_nuc > 0.998
    assert to_fro < 0.93
    assert small_nuc < 0.06
    assert small_fro > 0.2

# %% jupyter={"source_hidden": true}
fig, axes = plt.subplots(1, 2, figsize=(6.8, 3.7), sharey=True)
for ax, (T, (path, selected, W_nuc)) in zip(axes, glimpse.items(), strict=True):
    draw_plane(ax, plane[T], selected, W_nuc, path)
    ax.set_title(f"$K, Q$: $T = {T}$")
axes[0].set_ylabel("second coordinate")
show(
    fig,
    alt="The two circles of Figure 1 once more, with K and Q trained. Now both dashed rays of a panel lie on "
    "one line through the origin, or nearly, and both curves end on it.",
)

# %% [markdown]
# **Figure 6.** As Figure 1, with $K$ and $Q$ trained from a small start. Dashed: $W z_i$ for the SVM of the
# *nuclear* norm.

# %% [markdown]
# One matrix of (nearly) rank one: both $p_i$ lie on one line, and the sequences share it. That is the nuclear
# norm's taste, which lesson 04 knows from linear models. (We chose data on which the two SVMs differ; and it
# does not always go as smoothly, as lesson 11 will show.)

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
# At most 12. Trained from that start $W$ has rank 64 at each step (a matrix of rank 12 plus what the start
# left behind), although its direction tends to one of rank 12.
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
# - $W$ is a $p$ for the keys $x_{it} z_i^\top$: gradient, Att-SVM and theorem carry over. Each sequence sees
#   $p_i = W z_i$, and what one learns reaches another in proportion to $z_i \cdot z_j$.
# - $W_{\mathrm{mm}} = \sum_i \bar a_i z_i^\top$, so its rank is at most $\min(n, d)$, or the number of
#   independent queries that carry weight. What a start has outside the span of the comparisons stays.
# - Independent queries make every choice feasible that each sequence can make by itself; equal ones can
#   contradict each other, and then no $d$ helps.
# - In self-attention the own logit is a quadratic form. Queries are selected as often as any token; but
#   sequences infect each other, and where they agree on themselves, $W$ turns towards the identity, and new
#   sequences follow.
#
# | claim | prediction | measurement |
# |:---|:---|:---|
# | $W$ is a $p$ | same path | to $10^{-9}$ after 300 steps |
# | direction of $W$, 100 trials | Frobenius SVM | above .999 in each (growing steps); mean .998 (constant) |
# | cosine to the nuclear SVM | that between the solutions, .853 | within .01 in each trial |
# | outcome, 100 trials | locally optimal | 100; 72 of them global |
# | margin of two queries | $c \cos\frac\varphi2$ or $c \sin\frac\varphi2$ | SVM exactly, descent within 3% |
# | rank | that of the queries that carry | in all feasible problems of five families |
# | what a start of norm 100 leaves | $1 - \cos$, exercise 10.4 | 1.04 times it in the median of 30 |
# | path, 20 problems | $W_{\mathrm{mm}}(\mathrm{opt})$ | no branch lower in 20; followed in 13 |
# | own token selected | 1 in 8 | 75 of 600 (cross: 79) |
# | contradiction $n_1 : n_2$ | finite below $e$ | 1.71 for 1.71 (two to one); above, growing |
#
# ## Further reading
#
# - D. A. Tarzanagh, Y. Li, C. Thrampoulidis, S. Oymak, *Transformers as Support Vector Machines* (2023, arXiv
#   2308.16898): the Att-SVM for $W$ and for $K, Q$, and the data of section 10.5.
# - D. A. Tarzanagh, Y. Li, X. Zhang, S. Oymak, *Max-Margin Token Selection in Attention Mechanism* (NeurIPS
#   2023, arXiv 2306.13596): the theorem for $p$.
#
# The conflict laws of sections 10.3 and 10.7, the infection and the turn towards the identity are this
# lesson's own: short arguments and measurements, not theorems of the papers.
#
# **New in the library:** [`models.FactoredAttention`](../mini_attn/models.py).
#
# **Next:** lesson 11: train $K$ and $Q$, and the norm changes.
