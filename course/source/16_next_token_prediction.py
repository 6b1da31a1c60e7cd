# %% [markdown] slideshow={"slide_type": "slide"}
# # 16 · Next-token prediction
#
# A language model reads a sequence and says what comes next. There are no labels $\pm 1$ any more: the
# answer is one of the tokens of a vocabulary, and the loss is the cross-entropy. With one layer of attention
# two things have to be learned: *which token to look at*, and *which token follows it*.
#
# **The question: where does each of the two matrices go, and what does a trained model then say about
# sentences that it never saw?**
#
# Each goes to an SVM of its own. And the second one is an order of the vocabulary, which can be read off the
# data with a pencil.

# %% [markdown] slideshow={"slide_type": "skip"}
# **After this lesson you can**
#
# - read from a data set the order of tokens that it asks for under each query, and see whether it is one;
# - solve the SVM of the value matrix by hand, and draw that of the attention matrix as heights;
# - predict the slope of the log of the cross-entropy from a norm;
# - say for a new sentence whether the data decide the answer, and what the model says if they do not;
# - say what goes wrong when the first stage is too short, when both stages are one, and when data contradict
#   themselves.
#
# **You need** [lesson 02](02_hard_margin_svm.ipynb) (the SVM), [lesson 07](07_local_global_tokens.ipynb)
# (local choices) and [lesson 10](10_cross_self_attention.ipynb) (the matrix $W$). About 90 minutes, five
# exercises.

# %%
import dataclasses

import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure

from course.exercise import check, exercise, progress, todo
from course.figure import show
from course.replicate import measured
from mini_attn import geometry, plots, svm, train, widgets
from mini_attn.next_token import NextTokenTransformer, collocation, descend
from mini_attn.sweep import wilson
from mini_attn.vocabulary import NextTokens, closure, next_tokens, priorities, same_component

plots.style()
torch.set_num_threads(1)  # many small tensors: one thread is fastest
np.set_printoptions(precision=3, suppress=True)
BLUE, ORANGE, GREEN, BLACK = (plots.COLORS[name] for name in ("blue", "vermillion", "green", "black"))
again = "this differs from the text: if exercise {} has no tick, start there"

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 16.1 The idea in a picture
#
# The vocabulary $\mathcal V$ has the tokens A to F. Each has a token that follows it, written next(·): a
# **collocation**. Here next(A) = B, next(B) = C, ..., next(F) = A. The last token of a sentence, the
# **query**, decides which of the tokens before it matters. Four sentences, all with the query F:
#
# | sentence | next | so one has to look at | under F |
# |:---|:---|:---|:---|
# | C A B F | B | A | A > B, A > C, A > F |
# | D B F | C | B | B > D, B > F |
# | E C F | D | C | C > E, C > F |
# | D C F | D | C | C > D, C > F |
#
# A token is **optimal** in a sentence if it is followed by the answer. Each sentence puts its optimal token
# above its others. We draw the heights that the SVM of section 16.4 gives the tokens.

# %%
letters = "ABCDEF"
sentences = ["CABF", "DDBF", "EECF", "DDCF"]  # of equal length: D stands twice in D B F
tokens = torch.tensor([[letters.index(c) for c in one] for one in sentences])
target = torch.tensor([letters.index(c) for c in "BCDD"])
small = NextTokens(torch.eye(6, dtype=torch.float64), (torch.arange(6) + 1) % 6, tokens, target)
order = priorities(small)[5]  # under F, the token 5: order[a, b] is "a > b"
heights = svm.solve(svm.order_problem(small.embeddings, priorities(small))).value[:, 5].numpy()
print("heights under F:", {c: round(float(height), 3) for c, height in zip(letters, heights, strict=True)})
assert order.sum() == 8
assert abs(heights.sum()) < 1e-9
assert heights[0] > heights[2] > heights[1] > heights[3]

# %% jupyter={"source_hidden": true}
fig, ax = plt.subplots(figsize=(6.4, 3.6))
places = dict(zip(letters, (1.0, 0.0, 2.0, 0.6, 2.6, 1.4), strict=True))
for a, b in order.nonzero().tolist():
    start, end = (places[letters[a]], heights[a]), (places[letters[b]], heights[b])
    tight = heights[a] - heights[b] < 1 + 1e-6
    ax.annotate(
        "",
        xy=end,
        xytext=start,
        arrowprops={
            "arrowstyle": "->",
            "color": ORANGE if tight else "0.6",
            "lw": 2 if tight else 1,
            "shrinkA": 14,
            "shrinkB": 14,
        },
    )
for letter, height in zip(letters, heights, strict=True):
    ax.plot(places[letter], height, "o", color=BLUE, markersize=24)
    ax.text(places[letter], height, letter, color="white", ha="center", va="center", fontweight="bold")
ax.set(xlim=(-0.5, 3.1), ylim=(heights.min() - 0.35, heights.max() + 0.35), xticks=[])
ax.set_ylabel("height $x_c^\\top W z$ under F")
show(
    fig,
    alt="Six tokens at heights between minus one and one, with A highest. Arrows lead from each token down "
    "to those below it in some sentence; five of them are drawn in red, as tight.",
)

# %% [markdown]
# **Figure 1.** The order that four sentences ask for under the query F, and the heights of least squared
# length that keep each arrow at least 1 long. Red: tight. Nobody compared A with D or E, and yet A is above
# them. Nobody compared B with C; the heights do.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 16.2 What data ask for
#
# Sequence $i$ has tokens $x_{i1}, \dots, x_{iT}$, the query $z_i = x_{iT}$ and the answer $y_i$, a token. We
# say $a > b$ **under** $q$ if some sequence with the query $q$ holds $a$ and $b$, next(a) is its answer, and
# next(b) is not. The data are **realisable** if, under each query, these relations contain no cycle: then
# they are a *partial* order. Some pairs are not comparable, since no sequence compared them.

# %% [markdown]
# ### Exercise 16.1: What data ask for
#
# ★☆☆ · 6 minutes
#
# Return all relations, (V, V, V) bool: entry $[q, a, b]$ is True if $a > b$ under $q$. A sequence's query,
# its last token, is one of its tokens like the others.
#
# <details><summary>Hint</summary>
#
# Loop over the sequences. `following[tokens[i]] == target[i]` says which of its tokens are optimal. Set
# `[q, a, b]` for each optimal $a$ and each $b$ that is not.
# </details>


# %%
@exercise("16.1")
def relations(tokens, target, following):
    """Return a > b under q as [q, a, b], (V, V, V) bool: tokens (n, T), target (n,), following (V,)."""
    ### BEGIN SOLUTION
    V = len(following)
    above = np.zeros((V, V, V), dtype=bool)
    for sequence, answer in zip(tokens, target, strict=True):
        best = following[sequence] == answer
        above[sequence[-1], sequence[best][:, None], sequence[~best]] = True
    return above
    ### END SOLUTION


# %%
check("16.1", relations)

# %% [markdown]
# To draw realisable data is easy: give the tokens a rank under each query, draw sequences, and let the token
# of highest rank say what comes next. `next_tokens` of the library does it. As in the paper of Huang, Liang
# and Yang we take $|\mathcal V| = d = 20$ and unit vectors as embeddings, or Gaussian ones, which are not
# orthogonal. We write $V$ for $|\mathcal V|$ where it is a shape.

# %%
data, rank = next_tokens(40, 5, 20, queries=10, trials=40, seed=3)  # 40 data sets of 40 sequences of 5 tokens
wide, _ = next_tokens(40, 5, 20, d=20, queries=10, trials=40, seed=3)  # the same, Gaussian embeddings
above = priorities(data)
first = [part[0].numpy() for part in (data.tokens, data.target, data.following)]
assert (relations(*first) == above[0].numpy()).all(), again.format("16.1")
cyclic = closure(above).diagonal(dim1=-2, dim2=-1).any()
share = above.sum() / (above.any(-1) | above.any(-2)).sum(-1).square().sum()
print(f"relations in a data set: {int(above[0].sum())}; cycles in any of the 40: {'yes' if cyclic else 'none'}")
assert not cyclic
assert torch.equal(above, priorities(wide))

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 16.3 Stage one: what follows what
#
# The model has one layer. It mixes the tokens, $\bar x_i = \sum_t s_{it} x_{it}$ with
# $s_i = \mathrm{softmax}(X_i W_{\mathrm{kq}} z_i)$, and reads the logits of the next token from the mixture:
#
# $$o_i = W_{\mathrm{ov}}\, \bar x_i \in \mathbb R^{\mathcal V}, \qquad
# L = \frac1n \sum_i -\log \mathrm{softmax}(o_i)_{y_i}.$$
#
# The algorithm has two stages, both with normalised steps. The first learns $W_{\mathrm{ov}}$ from the
# collocation alone: sequences of a single token, where attention has no choice. That is multi-class logistic
# regression, and its limit is the multi-class SVM.
#
# > **Stage one** (informally, after Huang, Liang and Yang, 2024). The direction of $W_{\mathrm{ov}}$ tends to
# > that of
# >
# > $$\hat W_{\mathrm{ov}} = \arg\min_W \lVert W\rVert_F \quad\text{subject to}\quad
# > (e_{\mathrm{next}(c)} - e_u)^\top W x_c \ge 1 \quad\text{for each } c \text{ and each } u \ne
# > \mathrm{next}(c).$$

# %% [markdown]
# ### Exercise 16.2: By hand
#
# ★★☆ · 8 minutes
#
# Let the embeddings be unit vectors, $x_c = e_c$. Solve this SVM with a pencil, and return
# $\hat W_{\mathrm{ov}}$. next(·) may send several tokens to the same one.
#
# <details><summary>Hint</summary>
#
# $W e_c$ is column $c$ of $W$: the problem falls apart into one for each column. In a column, entry next(c)
# has to be 1 ahead of each other entry. Which numbers do that with the least sum of squares? Call the large
# one $b + 1$ and the others $b$, and minimise over $b$.
# </details>


# %%
@exercise("16.2")
def value_matrix(following):
    """Return the solution, (V, V), for next tokens following (V,) and embeddings x_c = e_c."""
    ### BEGIN SOLUTION
    V = len(following)
    W = np.full((V, V), -1 / V)
    W[following, np.arange(V)] += 1
    return W
    ### END SOLUTION


# %%
check("16.2", value_matrix)

# %%
by_hand = svm.solve(svm.next_problem(data.embeddings, data.following))
assert np.abs(by_hand.value[0].numpy() - value_matrix(first[2])).max() < 1e-9, again.format("16.2")
assert abs(by_hand.objective[0] - 19**0.5) < 1e-9
stages = {}
for name, sequences in (("unit vectors", data), ("Gaussian", wide)):
    limit = svm.solve(svm.next_problem(sequences.embeddings, sequences.following))
    model = NextTokenTransformer(20, 20, trials=40)
    seen = []
    for steps in (1, 99, 900):
        descend(model, collocation(sequences), steps, train=["W_ov"], schedule=train.growing)
        seen.append(geometry.cosine(model.W_ov.detach(), limit.value))
    stages[name] = limit, seen
    text = "  ".join(f"{cosine.min():.3f}" for cosine in seen)
    print(f"{name:13s} least cosine of 40 after 1, 100, 1,000 steps:  {text}")
assert (stages["unit vectors"][1][0] > 1 - 1e-12).all()
assert (stages["Gaussian"][1][0] < 0.9).all()
assert (stages["Gaussian"][1][2] > 0.999).all()

# %% [markdown]
# With unit vectors the answer is $\hat W_{\mathrm{ov}} = \sum_c (e_{\mathrm{next}(c)} - \frac1V \mathbf 1)\,
# e_c^\top$, and **one step finds it**: at $W = 0$ all next tokens have the probability $1/V$, so the negative
# gradient is this matrix up to a factor. By symmetry all later ones are, too. With other embeddings columns
# mix, and descent needs its time, as everywhere.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 16.4 Stage two: where to look
#
# Now $W_{\mathrm{ov}}$ stands still and $W_{\mathrm{kq}}$ moves. From scratch: with $\pi_i =
# \mathrm{softmax}(o_i)$, a token has the value $g_{it} = (e_{y_i} - \pi_i)^\top W_{\mathrm{ov}} x_{it}$, the
# slope of $\log \pi_{i y_i}$ in its attention, and the gradient in the logits is lesson 05's.


# %%
def attention_gradient(W_kq, W_ov, X, target):
    """The gradient of L in W_kq, (d, d): W_ov (V, d), X (n, T, d) with the query last, target (n,)."""
    z = X[:, -1]
    h = np.einsum("itd,de,ie->it", X, W_kq, z)
    s = np.exp(h - h.max(-1, keepdims=True))
    s /= s.sum(-1, keepdims=True)
    o = np.einsum("it,itd,ud->iu", s, X, W_ov)
    blame = -np.exp(o - np.logaddexp.reduce(o, axis=-1, keepdims=True))
    blame[np.arange(len(X)), target] += 1  # e_y - pi
    g = np.einsum("iu,ud,itd->it", blame, W_ov, X)
    slopes = s * (g - (s * g).sum(-1, keepdims=True))
    return -np.einsum("it,itd,ie->de", slopes, X, z) / len(X)


rng = np.random.default_rng(0)
model = NextTokenTransformer(20, 20, W_ov=rng.normal(size=(20, 20)), W_kq=rng.normal(size=(20, 20)))
alone = NextTokens(*(getattr(wide, field.name)[0] for field in dataclasses.fields(wide)))
mine = attention_gradient(
    model.W_kq.detach().numpy(), model.W_ov.detach().numpy(), alone.X.numpy(), alone.target.numpy()
)
cosine = geometry.cosine(torch.from_numpy(mine), model.gradients(alone)["W_kq"])
print(f"cosine to the library's gradient: {cosine:.12f}")
assert cosine > 1 - 1e-12

# %% [markdown]
# Optimal tokens have a higher value than all others: with unit vectors
# $g_{it} = c\,(1 - \pi_{i y_i})$ for these and $-c\,\pi_{iu}$ for a token that is followed by $u$, if
# $W_{\mathrm{ov}} = c\, \hat W_{\mathrm{ov}}$. So attention can gain until it rests on optimal tokens, and
# then $L$ is $L_\infty = \log(1 + (V - 1)e^{-c})$. The factor $c$ is the **lead** of the right next token
# once attention is right. Stage one sets it, by how long it runs.
#
# > **Stage two** (informally, after Huang, Liang and Yang, 2024). If the data are realisable, the direction
# > of $W_{\mathrm{kq}}$ tends to that of
# >
# > $$\hat W_{\mathrm{kq}} = \arg\min_W \lVert W\rVert_F \quad\text{subject to}\quad
# > (x_a - x_b)^\top W x_q \ge 1 \quad\text{wherever } a > b \text{ under } q.$$
#
# With unit vectors column $q$ holds the **heights** of the tokens under $q$, and the columns do not know of
# each other: Figure 1 is one of them.
#
# **Predict before you run on.** Is it these rows, or more? Two candidates for more: whatever *follows* ($a >
# c$ from $a > b > c$), and the whole rank from which the data were drawn.

# %%
lead = 8.0
print("40 data sets, 600 growing steps       rows   cosine: least   median")
W_hat = {}
for name, sequences in (("unit vectors", data), ("Gaussian", wide)):
    model = NextTokenTransformer(20, 20, trials=40, W_ov=lead * stages[name][0].value)
    descend(model, sequences, 600, schedule=train.growing)
    model.requires_grad_(False)
    right = (model.attention(sequences) * sequences.optimal).sum(-1).amin(-1) > 0.5  # none on a wrong token
    by_token = rank.gather(-1, sequences.following[:, None].expand(40, 20, 20))
    whole = by_token[..., :, None] > by_token[..., None, :]
    compared = above.any(-1) | above.any(-2)
    candidates = {
        "the data's": above,
        "what follows": closure(above),
        "the whole rank": whole & compared[..., :, None] & compared[..., None, :],
    }
    for rows, pairs in candidates.items():
        solution = svm.solve(svm.order_problem(sequences.embeddings, pairs), throw=False)
        cosine = geometry.cosine(model.W_kq, solution.value)[right].nan_to_num(0.0)
        count = int(pairs.sum() / 40)
        print(f"{name:13s} {rows:18s} {count:9d} {cosine.min():12.3f} {cosine.median():10.3f}")
        W_hat[name, rows] = solution
        assert (cosine > 0.98).all() if rows != "the whole rank" else (cosine < 0.85).all()
    print(f"{name:13s} data sets with a sequence on a wrong token: {int((~right).sum())}")
    assert (~right).sum() <= (0 if name == "unit vectors" else 6)
    if name == "unit vectors":
        trained = model
hold = [W_hat["unit vectors", rows].objective for rows in ("the data's", "what follows")]
assert torch.allclose(*hold, rtol=1e-8)

# %% [markdown]
# It is the data's relations. What follows adds nothing, as it has to be: if $a$ is 1 above $b$ and $b$ is 1
# above $c$, then $a$ is 2 above $c$. The rank that we drew from is *not* found, for it asks for order where
# no sequence compared.
#
# With Gaussian embeddings a data set now and then ends with a sequence on a wrong token. Section 16.7 finds
# out why.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 16.5 How fast the loss falls
#
# A normalised step makes $\lVert W_{\mathrm{kq}}\rVert$ longer by nearly its length $\eta$. Once the direction
# is right, the smallest lead between tokens grows by $\eta\,\hat\mu$ a step, with the margin
# $\hat\mu = 1/\lVert \hat W_{\mathrm{kq}}\rVert$. What is missing of the attention is about $e^{-\text{lead}}$,
# and so is the excess loss:
#
# $$\log(L - L_\infty) \approx -\frac{\eta}{\lVert \hat W_{\mathrm{kq}}\rVert}\, j + \text{constant}.$$
#
# A straight line: the paper proves that the cross-entropy converges linearly. We add the slope.

# %% [markdown]
# ### Exercise 16.3: The slope of a chain
#
# ★★☆ · 10 minutes
#
# With unit vectors, let the relations under query $q$ be a **chain** of $m_q$ tokens, $a_1 > a_2 > \dots >
# a_{m_q}$, each one above the next (and so above all later ones). Predict the slope of $\log(L - L_\infty)$
# per step of length $\eta$. `lengths` holds all $m_q$, at least one of them 2 or more; a chain of length 1 asks for
# nothing.
#
# <details><summary>Hint</summary>
#
# Heights in a column: equally spaced, 1 apart. Where do you put their middle to make the sum of squares
# least? And $\lVert W\rVert^2$ is the sum over the columns.
# </details>


# %%
@exercise("16.3")
def slope(lengths, eta):
    """Return the slope, a negative float, for chain lengths (queries,) and steps of length eta."""
    ### BEGIN SOLUTION
    m = np.asarray(lengths, dtype=float)
    return -eta / np.sqrt((m * (m**2 - 1) / 12).sum())
    ### END SOLUTION


# %%
check("16.3", slope)

# %%
pairs = [(q, c, c + 1) for q, length in ((0, 4), (1, 3), (2, 2)) for c in range(length - 1)]
chain = NextTokens(
    torch.eye(6, dtype=torch.float64),
    (torch.arange(6) + 1) % 6,
    torch.tensor([[a, b, q] if q == b else [a, b, b, q][-3:] for q, a, b in pairs]),
    torch.tensor([(a + 1) % 6 for _, a, _ in pairs]),
)
model = NextTokenTransformer(20, 20, trials=40, W_ov=lead * by_hand.value)
note = {"record": lambda model: model.log_excess(data), "every": 50}
lines = {eta: None for eta in (0.1, 0.3)}
for eta in lines:
    model = NextTokenTransformer(20, 20, trials=40, W_ov=lead * by_hand.value)
    lines[eta] = torch.stack(descend(model, data, 1000, lr=eta, **note))
    measured_slope = (lines[eta][-1] - lines[eta][10]) / 500
    ratio = measured_slope * W_hat["unit vectors", "the data's"].objective / -eta
    print(f"eta = {eta}: measured over predicted slope, steps 500 to 1,000: {ratio.min():.2f} to {ratio.max():.2f}")
    assert (abs(ratio - 1) < 0.03).all()
