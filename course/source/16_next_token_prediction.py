# %% [markdown] slideshow={"slide_type": "slide"}
# # 16 · Next-token prediction
#
# A language model reads a sequence and says what comes next. There are no labels $\pm 1$ any more: the answer
# is one of the tokens of a vocabulary, and the loss is the cross-entropy. With one layer of attention two
# things have to be learned: *which token to look at*, and *which token follows it*.
#
# **The question: where does each of the two matrices go, and what does a trained model then say about
# sentences that it never saw?**
#
# Each goes to an SVM of its own. The second one is about an order of the vocabulary, and the relations of
# that order can be read off the data with a pencil.

# %% [markdown] slideshow={"slide_type": "skip"}
# **After this lesson you can**
#
# - read from a data set the order of tokens that it asks for under each query, and see whether it is one;
# - find with a pencil the heights of its tokens, and with them the SVM of the value matrix;
# - predict the slope of the log of the cross-entropy from a norm, and from the multipliers the step length
#   up to which it holds;
# - say for a new sentence whether the data decide the answer, what the model says if they do not, and for
#   how long copies outvote it;
# - derive how far behind a sentence is still heard, and say what goes wrong when the first stage is too
#   short, when its data are missing, and when data contradict themselves.
#
# **You need** [lesson 02](02_hard_margin_svm.ipynb) (the SVM), [lesson 07](07_local_global_tokens.ipynb)
# (local choices) and [lesson 10](10_cross_self_attention.ipynb) (the matrix $W$). About 90 minutes, five
# exercises, the last of them in an optional section.

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
from course.replicate.lesson_16 import finite_part, pull
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
# A token is **optimal** in a sentence if next of it is the answer. Each sentence puts its optimal token
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
assert order[1:3].sum(1).tolist() == [2, 3]  # B beats two, C three
assert abs(heights.sum()) < 1e-9
assert np.abs(heights - np.array([4, 1, 1, -2, -2, -2]) / 3).max() < 1e-6

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
ax.set_ylabel("height $x_a^\\top W x_q$, for $q$ = F")
show(
    fig,
    alt="Six tokens at heights from -0.67 to 1.33, with A highest. Eight arrows lead from a token down to "
    "one below it in some sentence; seven are drawn in red, as tight, and that from A to F in grey.",
)

# %% [markdown]
# **Figure 1.** The order that four sentences ask for under the query F, and the heights of least squared
# length that keep each arrow at least 1 long. Red: tight. Nobody compared A with D or E, and yet A is above
# them, by what follows. B and C stand level: the data do not decide between them, and the heights do not
# either.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 16.2 What data ask for
#
# Sequence $i$ has tokens $x_{i1}, \dots, x_{iT}$, the query $z_i = x_{iT}$ and the answer $y_i$, a token. We
# say $a > b$ **under** $q$ if some sequence with the query $q$ holds $a$ and $b$, next(a) is its answer, and
# next(b) is not. The data are **realisable** if, under each query, these relations contain no cycle: then
# they are a *partial* order. Some pairs are not comparable, since no sequence compared them.
#
# The **heights** under $q$ are the numbers, one a token, of the least sum of squares for which $a$ stands at
# least 1 above $b$ wherever $a > b$. Section 16.4 tells why training looks for them.

# %% [markdown]
# ### Exercise 16.1: Heights with a pencil
#
# ★★☆ · 8 minutes
#
# Let the tokens form levels. The first level holds `sizes[0]` tokens, the next one `sizes[1]`, and so on, and
# each token of a level is above each one of the next level. Return the heights of the levels, (L,), the
# highest first.
#
# <details><summary>Hint</summary>
#
# All relations between neighbouring levels are tight: to stand farther apart costs squares. So one number is
# free, the height $h$ of the first level. Minimise $\sum_l n_l\,(h - l)^2$ over $h$, with $l = 0, 1, \dots$:
# what does the derivative say of the sum of all tokens' heights?
# </details>


# %%
@exercise("16.1")
def levels(sizes):
    """Return the heights of the levels, (L,), the highest first, for sizes (L,) of the levels."""
    ### BEGIN SOLUTION
    place = np.arange(len(sizes))
    return np.sum(sizes * place) / np.sum(sizes) - place
    ### END SOLUTION


# %%
check("16.1", levels)

# %%
pencil = np.repeat(levels(np.array([1, 2, 3])), (1, 2, 3))
print("levels of 1, 2 and 3 tokens:", pencil.round(3))
print("B > E is a relation of Figure 1:", bool(order[1, 4]))
assert np.abs(pencil - heights).max() < 1e-6, again.format("16.1")
assert not order[1, 4]

# %% [markdown]
# These are Figure 1's heights, though no sentence says B > E: a row that holds by the others may be missing.
#
# To draw realisable data is easy: give the tokens a rank under each query, draw sequences, and let the token
# of highest rank say what comes next. `next_tokens` of the library does it. As in the paper of Huang, Liang
# and Yang we take $|\mathcal V| = d = 20$ and unit vectors as embeddings, or Gaussian ones, which are not
# orthogonal. We write $V$ for $|\mathcal V|$.

# %%
data, rank = next_tokens(40, 5, 20, queries=10, trials=20, seed=3)  # 20 data sets of 40 sequences of 5 tokens
wide, _ = next_tokens(40, 5, 20, d=20, queries=10, trials=20, seed=3)  # the same, Gaussian embeddings
above = priorities(data)
cyclic = closure(above).diagonal(dim1=-2, dim2=-1).any()
print(
    f"relations in the first: {int(above[0].sum())}; cycles in any of the 20: {'yes' if cyclic else 'none'}"
)
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
# The algorithm has two stages, both with normalised steps (where we want to be there soon, of the growing
# length $\eta\sqrt j$). The first learns $W_{\mathrm{ov}}$ from the collocation alone: sequences of a single
# token, where attention has no choice. That is multi-class logistic regression, and its limit is the
# multi-class SVM.
#
# > **Stage one** (informally, after Huang, Liang and Yang, 2024). Let the embeddings be linearly independent,
# > so that the constraints can be met. The direction of $W_{\mathrm{ov}}$ tends to that of
# >
# > $$\hat W_{\mathrm{ov}} = \arg\min_W \lVert W\rVert_F \quad\text{subject to}\quad
# > (e_{\mathrm{next}(a)} - e_u)^\top W x_a \ge 1 \quad\text{for each } a \text{ and each } u \ne
# > \mathrm{next}(a).$$

# %% [markdown]
# Let the embeddings be unit vectors, $x_a = e_a$. Then $W x_a$ is column $a$ of $W$, and the problem falls
# apart into one for each column: next(a) has to be 1 above each of the $V - 1$ others. These are two levels,
# and exercise 16.1 has solved it:
#
# $$\hat W_{\mathrm{ov}} = \sum_a \bigl(e_{\mathrm{next}(a)} - \tfrac1V \mathbf 1\bigr)\, e_a^\top, \qquad
# \lVert \hat W_{\mathrm{ov}}\rVert = \sqrt{V - 1}.$$


# %%
def value_matrix(following):
    """The SVM's W_ov, (V, V), for next tokens following (V,) and unit vectors: two levels in each column."""
    V = len(following)
    high, low = levels(np.array([1, V - 1]))
    W = np.full((V, V), low)
    W[following, np.arange(V)] = high
    return W


by_hand = svm.solve(svm.next_problem(data.embeddings, data.following))
assert np.abs(by_hand.value[0].numpy() - value_matrix(data.following[0].numpy())).max() < 1e-9, again.format(
    "16.1"
)
assert abs(by_hand.objective[0] - 19**0.5) < 1e-9
stages = {}
for name, sequences in (("unit vectors", data), ("Gaussian", wide)):
    limit = svm.solve(svm.next_problem(sequences.embeddings, sequences.following))
    model = NextTokenTransformer(20, 20, trials=20)
    seen = []
    for steps in (1, 99, 400) if name == "Gaussian" else (1, 99):
        descend(model, collocation(sequences), steps, train=["W_ov"], schedule=train.growing)
        seen.append(geometry.cosine(model.W_ov.detach(), limit.value))
    stages[name] = limit, seen
    text = "  ".join(f"{cosine.min():.3f}" for cosine in seen)
    print(f"{name:13s} least cosine of 20 after 1, 100 (and 500) steps:  {text}")
assert (stages["unit vectors"][1][0] > 1 - 1e-12).all()
assert (stages["Gaussian"][1][0] < 0.96).all()
assert (stages["Gaussian"][1][2] > 0.998).all()

# %% [markdown]
# With unit vectors **one step finds it**: at $W = 0$ all next tokens have the probability $1/V$, so the
# negative gradient is this matrix up to a factor. By symmetry all later ones are, too. With other embeddings
# columns mix, and descent needs its time, as everywhere.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 16.4 Stage two: where to look
#
# Now $W_{\mathrm{ov}}$ stands still and $W_{\mathrm{kq}}$ moves. From scratch: with
# $\pi_i = \mathrm{softmax}(o_i)$, a token has the value
# $g_{it} = (e_{y_i} - \pi_i)^\top W_{\mathrm{ov}} x_{it}$, the slope of $\log \pi_{i y_i}$ in its attention,
# and the gradient in the logits is lesson 05's.


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
one_set = NextTokens(*(getattr(wide, field.name)[0] for field in dataclasses.fields(wide)))
mine = attention_gradient(
    model.W_kq.detach().numpy(), model.W_ov.detach().numpy(), one_set.X.numpy(), one_set.target.numpy()
)
cosine = geometry.cosine(torch.from_numpy(mine), model.gradients(one_set)["W_kq"], batch_dims=0)
print(f"cosine to the library's gradient: {cosine:.9f}")
assert cosine > 1 - 1e-12

# %% [markdown]
# With unit vectors and $W_{\mathrm{ov}} = c\, \hat W_{\mathrm{ov}}$ the value is
# $g_{it} = c\,(1 - \pi_{i y_i})$ for an optimal token and $-c\,\pi_{iu}$ for one that is followed by $u$:
# optimal tokens have the highest value, whatever attention does. So attention can gain until it rests on
# them, and then $L$ is $L_\infty = \log(1 + (V - 1)e^{-c})$. The factor $c$ is the **lead** of the right next
# token once attention is right. Stage one sets it, by how long it runs.
#
# > **Stage two** (informally, after Huang, Liang and Yang, 2024). Let the data be realisable, with one
# > optimal token a sequence or copies of one; the embeddings linearly independent, so that the constraints
# > can be met; $W_{\mathrm{kq}}$ start at 0, and stage one have been long enough. Then the direction of
# > $W_{\mathrm{kq}}$ tends to that of
# >
# > $$\hat W_{\mathrm{kq}} = \arg\min_W \lVert W\rVert_F \quad\text{subject to}\quad
# > (x_a - x_b)^\top W x_q \ge 1 \quad\text{wherever } a > b \text{ under } q.$$
#
# These conditions are the ones that our runs need; the paper words its own. Each is tried: independence at
# the end of this section, starts far from 0, the length of stage one and the single optimal token in section
# 16.7, contradictions in 16.8.
#
# With unit vectors column $q$ holds the **heights** of the tokens under $q$, and the columns do not know of
# each other: Figure 1 is one of them.
#
# **Predict before you run on.** Is it these rows, or more? Two candidates for more: whatever is *implied* (A
# > D by A > B > D), and the whole rank from which the data were drawn.

# %%
lead = 8.0
print("20 data sets, 400 growing steps       rows   cosine: least   median")
W_hat = {}
for name, sequences in (("unit vectors", data), ("Gaussian", wide)):
    model = NextTokenTransformer(20, 20, trials=20, W_ov=lead * stages[name][0].value)
    descend(model, sequences, 400, lr=0.2, schedule=train.growing)
    model.requires_grad_(False)
    right = (model.attention(sequences) * sequences.optimal).sum(-1).amin(-1) > 0.5  # none on a wrong token
    by_token = rank.gather(-1, sequences.following[:, None].expand(20, 20, 20))
    whole = by_token[..., :, None] > by_token[..., None, :]
    compared = above.any(-1) | above.any(-2)
    candidates = {
        "the data's": above,
        "what is implied": closure(above),
        "the whole rank": whole & compared[..., :, None] & compared[..., None, :],
    }
    for rows, pairs in candidates.items():
        solution = svm.solve(svm.order_problem(sequences.embeddings, pairs), throw=False)
        cosine = geometry.cosine(model.W_kq, solution.value)[right].nan_to_num(0.0)
        count = int(pairs.sum() / 20)
        digits = 2 if rows == "the whole rank" else 3  # of the zigzag later digits hang on rounding
        low, middle = (f"{float(one):.{digits}f}" for one in (cosine.min(), cosine.median()))
        print(f"{name:13s} {rows:18s} {count:9d} {low:>12s} {middle:>10s}")
        W_hat[name, rows] = solution
        assert (cosine > 0.99).all() if rows != "the whole rank" else (cosine < 0.85).all()
    print(f"{name:13s} data sets with a sequence on a wrong token: {int((~right).sum())}")
    assert right.all()
    if name == "unit vectors":
        trained = model
hold = [W_hat["unit vectors", rows].objective for rows in ("the data's", "what is implied")]
assert torch.allclose(*hold, rtol=1e-8)

# %% [markdown]
# It is the data's relations. What is implied adds nothing, as it has to be: if A is 1 above B and B is 1
# above D, then A is 2 above D. The rank that we drew from is *not* found, for it asks for order where
# no sequence compared.
#
# No sequence of these data sets ends on a wrong token. It may happen, most of all with Gaussian embeddings:
# section 16.7 finds out when and why. And in fewer dimensions than tokens, even an order without cycles may
# be out of reach:

# %%
for d, reach in ((6, "none"), (20, "all")):
    narrow, _ = next_tokens(60, 5, 20, d=d, queries=10, trials=10, seed=100)
    solution = svm.solve(svm.order_problem(narrow.embeddings, priorities(narrow)), throw=False)
    found = int((solution.status == "optimal").sum())
    print(f"d = {d:2d}, 20 tokens: the order's SVM has a solution in {found:2d} of 10 realisable data sets")
    assert found == {"none": 0, "all": 10}[reach]

# %% [markdown]
# With $d \ge |\mathcal V|$ embeddings in general position are independent, and any heights can be had.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 16.5 How fast the loss falls
#
# As long as no sequence is trapped and steps do not bounce, a normalised step makes
# $\lVert W_{\mathrm{kq}}\rVert$ longer by nearly its length $\eta$. Once the direction is right, the smallest
# lead between tokens grows by $\eta\,\hat\mu$ a step, with the margin
# $\hat\mu = 1/\lVert \hat W_{\mathrm{kq}}\rVert$. What is missing of the attention is about
# $e^{-\text{lead}}$, and so is the excess loss:
#
# $$\log(L - L_\infty) \approx -\frac{\eta}{\lVert \hat W_{\mathrm{kq}}\rVert}\, j + \text{constant}.$$
#
# A straight line: the paper proves, under its conditions, that the cross-entropy converges linearly to
# $L_\infty$. We add the slope.

# %% [markdown]
# ### Exercise 16.2: The slope of a chain
#
# ★★☆ · 6 minutes
#
# With unit vectors, let the relations under query $q$ be a **chain** of $m_q$ tokens,
# $a_1 > a_2 > \dots > a_{m_q}$, each one above the next (and so above all later ones). Predict the slope of
# $\log(L - L_\infty)$ per step of length $\eta$. `lengths` holds all $m_q$, at least one of them 2 or more; a
# chain of length 1 asks for nothing.
#
# <details><summary>Hint</summary>
#
# A chain is made of levels of one token. Add the squares of their heights; and $\lVert W\rVert^2$ is the sum
# over the columns.
# </details>


# %%
@exercise("16.2")
def slope(lengths, eta):
    """Return the slope, a negative float, for chain lengths (queries,) and steps of length eta."""
    ### BEGIN SOLUTION
    m = np.asarray(lengths, dtype=float)
    return -eta / np.sqrt((m * (m**2 - 1) / 12).sum())
    ### END SOLUTION


# %%
check("16.2", slope)

# %% [markdown]
# **How long may a step be?** Let $\lambda_{ab}$ be the multipliers of the rows under a query, so that $\hat
# W_{\mathrm{kq}}$ is the sum of the rows, each times its $\lambda$. A row pulls with the weight
# $e^{-\text{its lead}}$. If these weights are as the $\lambda$, all leads grow alike. If the lead of a row is
# $\delta_{ab}$ too large, its weight is $\lambda_{ab}(1 - \delta_{ab})$, to first order. So deviations of the
# heights shrink in a step by the factor $1 - \frac{\eta}{\lVert \hat W_{\mathrm{kq}}\rVert} \Lambda$ (up to
# what all rows share), where $\Lambda$ is the sum of the rows' $\lambda\, r r^\top$. With unit vectors it
# falls apart into one matrix for each query, the **Laplacian of the order as a graph with the weights
# $\lambda$**: at $(a, a)$ the sum of the $\lambda$ at $a$, at $(a, b)$ minus $\lambda_{ab}$. That is lesson
# 01's longest step (section 1.7), for more rows than two: deviations die out as long as
#
# $$\eta < \eta^\ast = \frac{2\,\lVert \hat W_{\mathrm{kq}}\rVert}{\lambda_{\max}(\Lambda)}.$$
#
# The SVM's solution holds all of this (where rows depend on each other the $\lambda$ are not unique, and we
# take the solver's). For chains $\lambda_{\max} = m(m - 1)/2$, with the longest one's $m$. **Predict before
# you run on**: at .6, .9, 1.1 and 2 times $\eta^\ast$, which part of your slope is left? We take the 20 data
# sets, and four sets of chains.


# %%
def chains(lengths, V=20):
    """Under each query q a chain that ends with q: 40 sequences (a_k, a_k+1, q, q, q), or of one token."""
    draw, rows = np.random.default_rng(1), []
    for q, m in enumerate(lengths):
        chain = np.append(draw.permutation(np.delete(np.arange(V), q))[: m - 1], q)
        rows += [[chain[k], chain[k + 1], q, q, q] for k in range(m - 1)]
    rows += [[V - 1] * 5] * (40 - len(rows))
    follow, drawn = (torch.arange(V) + 1) % V, torch.tensor(np.array(rows))
    return NextTokens(torch.eye(V, dtype=torch.float64), follow, drawn, follow[drawn[:, 0]])


def parts(sequences):
    return [getattr(sequences, field.name) for field in dataclasses.fields(sequences)]


def longest_step(sequences):
    """The SVM's solution and eta*, (trials,): from the multipliers of its rows."""
    asked = priorities(sequences)
    solution = svm.solve(svm.order_problem(sequences.embeddings, asked))
    used = torch.arange(solution.dual.shape[-1]) < asked.flatten(1).sum(-1, keepdim=True)
    lam = torch.zeros(asked.shape, dtype=torch.float64)
    lam[asked] = (solution.dual * solution.objective[:, None])[used]  # of |W|^2 / 2, not |W|
    lam = lam + lam.mT
    graph = torch.diag_embed(lam.sum(-1)) - lam  # [trial, q], Laplacians
    return solution, 2 * solution.objective / torch.linalg.eigvalsh(graph)[..., -1].amax(-1)


links = [[9], [5, 5], [3, 4, 4], [6, 2, 3]]
ladders = zip(*(parts(chains(lengths)) for lengths in links), strict=True)
together = NextTokens(
    *(torch.cat([one, torch.stack(others)]) for one, others in zip(parts(data), ladders, strict=True))
)
solution, limit = longest_step(together)
norms = solution.objective
assert torch.allclose(norms[:20], W_hat["unit vectors", "the data's"].objective, rtol=1e-8)
for lengths, norm, longest in zip(links, norms[20:], limit[20:], strict=True):
    assert abs(-1 / slope(lengths, 1.0) / norm - 1) < 1e-9, again.format("16.2")
    assert abs(longest * max(lengths) * (max(lengths) - 1) / 2 / (2 * norm) - 1) < 1e-6
print(f"eta* of 20 data sets: {limit[:20].min():.2f} to {limit[:20].max():.2f}")

# %%
times = torch.tensor([0.6, 0.9, 1.1, 2.0], dtype=torch.float64)
many = NextTokens(*(part.repeat_interleave(len(times), 0) for part in parts(together)))
eta = (limit[:, None] * times).flatten()
W_ov = np.array([value_matrix(follow) for follow in many.following.numpy()])
model = NextTokenTransformer(20, 20, trials=len(eta), W_ov=lead * W_ov)
excess = []
for j in range(281):  # each run has a step length of its own
    if j % 20 == 0:
        excess.append(model.log_excess(many).detach())
    G = model.gradients(many, ["W_kq"])["W_kq"]
    with torch.no_grad():
        model.W_kq -= (eta / G.flatten(1).norm(dim=1))[:, None, None] * G
excess = torch.stack(excess).view(-1, 24, len(times))
fall = (excess[-1] - excess[-7]) / -120  # a step, over the last 120
ratio = fall * norms[:, None] / eta.view(24, -1)
print("eta over eta*                 " + "".join(f"{one:14.1f}" for one in times))
for name, rows in (("20 data sets", slice(20)), ("4 sets of chains", slice(20, 24))):
    low, high = ratio[rows].min(0).values, ratio[rows].max(0).values
    spans = "".join(f"   {a:.2f} to {b:.2f}" for a, b in zip(low, high, strict=True))
    print(f"slope over its law, {name:16s}" + spans.rjust(40))
assert (abs(ratio[:, :2] - 1) < 0.01).all(), again.format("16.2")
assert (ratio[:, 2] < 0.96).all()
assert (ratio[:, 3] < 0.75).all()
assert (ratio[:, 3] > 0.5).all()

# %% jupyter={"source_hidden": true}
fig, (left, right) = plt.subplots(1, 2, figsize=(9.4, 3.6))
steps = 20 * np.arange(len(excess))
for k, (color, marker) in enumerate(zip((BLUE, GREEN, ORANGE, BLACK), "os^D", strict=True)):
    left.plot(
        steps, excess[:, 0, k], marker, color=color, markersize=4, label=f"{times[k]:.1f} $\\eta^\\ast$"
    )
    line = float(excess[2, 0, k]) - float(eta[k] / norms[0]) * (steps[2:] - steps[2])
    left.plot(steps[2:], line, color=color, linewidth=1)
    right.plot(times[k].expand(20), ratio[:20, k], marker, color=color, markersize=4, alpha=0.6)
left.set(xlabel="step $j$", ylabel=r"$\log(L - L_\infty)$", title="one data set")
left.legend(title="lines: the law", fontsize=9)
right.axhline(1, color=BLACK, linewidth=1)
right.axvline(1, color="0.5", linestyle=":")
right.set(xlabel=r"$\eta / \eta^\ast$", ylabel="slope over its law", title="20 data sets", ylim=(0, 1.1))
show(
    fig,
    alt="Left, the log of the excess loss against steps: points at .6 and .9 of the longest step fall along "
    "straight lines, those at 1.1 and 2 times it leave theirs upwards. Right, the slope over the predicted "
    "one: all 20 points at 1 for the two short step lengths, just below it at 1.1, about .6 at 2.",
)

# %% [markdown]
# **Figure 2.** Left: the excess loss of one data set; the lines' slopes come from the SVM alone. Right:
# the slope over its prediction. Dotted: $\eta^\ast$, from the SVM's multipliers.

# %% [markdown]
# Below $\eta^\ast$ the slope is right within 1% in each of 48 runs; at 1.1 times $\eta^\ast$ it falls short,
# in each. So the step length at which the law ends is known beforehand, too, and for *each* data set: those
# of the 20 differ by a factor of two. Steps twice as long zigzag between the rows: they gain 1.0 to 1.5 times
# what steps of $\eta^\ast$ gain. (Slopes are those of the last 120 of 280 steps; before, leads are too small
# for the exponentials, and the points bend.)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 16.6 Sentences it never saw
#
# Heights apply to any sequence with that query. So the model answers sequences of other tokens, lengths and
# frequencies. The data **decide** a new sequence if one of its tokens is above each other one, by a relation
# or by what relations imply.
#
# **Predict before you run on.** Count how often the model, trained on sequences of five tokens, is right on
# new ones of other lengths: where the data decide, and where they do not. What decides in the second case?

# %%
ladder = W_hat["unit vectors", "the data's"].value  # column q: the heights under q
never = ~(above.any(-1) | above.any(-2))  # [trial, q, a]: nobody compared a
assert ladder.mT[never].abs().max() < 1e-9
wins = closure(above) | torch.eye(20, dtype=torch.bool)  # [trial, q, a, b]: a is above b, or b itself


def of_the_tokens(W, new):
    """The entries of W's columns at each sequence's tokens, under its query, (trials, n, T)."""
    return W.gather(-1, new.tokens[..., -1][:, None].expand(20, 20, -1)).mT.gather(-1, new.tokens)


def by_the_data(new):
    """Which sequences the relations decide, (trials, n) bool."""
    a, b, q = new.tokens[..., :, None], new.tokens[..., None, :], new.tokens[..., -1, None, None]
    return wins[torch.arange(20)[:, None, None, None], q, a, b].all(-1).any(-1)


def by_the_heights(new):
    """What follows the highest token, (trials, n), and which others are level with it, (trials, n, T)."""
    height = of_the_tokens(ladder, new)
    highest = new.tokens.gather(-1, height.argmax(-1, keepdim=True))
    level = (height > height.amax(-1, keepdim=True) - 0.02) & (new.tokens != highest)
    return new.following.gather(-1, highest[..., 0]), level


print("new sequences,   decided   undecided, one highest      undecided, two or more level")
print("20 x 200      all  right    all  as heights say      all   logits equal to 9 digits")
tied, opposed = [], []
for T in (2, 3, 5, 8):
    new, _ = next_tokens(200, T, 20, queries=10, trials=20, seed=50 + T, rank=rank, like=data)
    said, level = by_the_heights(new)
    answered, sure, open_ = trained.predicted(new), by_the_data(new), level.any(-1)
    right, clear, open_ = answered == new.target, ~sure & ~open_, ~sure & open_
    logits = of_the_tokens(trained.W_kq, new)
    first = new.tokens.gather(-1, logits.argmax(-1, keepdim=True))
    equal = ((logits > logits.amax(-1, keepdim=True) - 1e-9) & (new.tokens != first)).any(-1)[open_]
    same = (answered == said)[clear]
    print(
        f"T = {T} {int(sure.sum()):10d} {int(right[sure].sum()):6d} {int(clear.sum()):6d} "
        f"{int(same.sum()):15d} {int(open_.sum()):8d} {int(equal.sum()):15d}"
    )
    tied.append(equal)
    assert right[sure].all()
    assert sure.sum() > 50
    assert same.all()
    assert 0.2 < open_.sum() / (~sure).sum() < 0.4
    against, _ = next_tokens(200, T, 20, queries=10, trials=20, seed=60 + T, rank=1 - rank, like=data)
    sure, (said, _) = by_the_data(against), by_the_heights(against)
    opposed.append((trained.predicted(against) == against.target)[sure & (said != against.target)])
print(f"of all with two level, equal to 9 digits: {torch.cat(tied).double().mean():.2f}")
opposed = torch.cat(opposed)
print(f"decided, but the answer contradicts the order: {len(opposed)}, of these right: {int(opposed.sum())}")
assert 0.6 < torch.cat(tied).double().mean() < 0.75
assert len(opposed) > 1000
assert not opposed.any()

# %% [markdown]
# **Where the data decide, the model is right**, in every sequence, though it saw neither these sequences nor
# these lengths. That is a corollary: all rows hold in training, so what they imply holds, too. (It
# takes a run in which they all hold, and $W$ long enough for the sequence, as we shall see.) For the same
# reason a new sequence whose answer *contradicts* the order is answered wrongly, each one. What the model
# survives is a shift of sequences. A shift of the order is another language.
#
# Where they do not decide, the SVM's heights do: in each undecided sequence with one highest token the model
# says what follows that one. Heights extend the partial order to an order of everything, in a way that is
# fixed but knows nothing of the language. A height is a *place in the order*, no count of wins: in Figure 1 C
# wins three times, B twice, and they stand level. A token that was never compared under $q$ stands at 0, with
# unit vectors. And in a fifth to over a third of the undecided sequences two tokens or more stand **level**
# at the top. Then the heights decide nothing. In two thirds of these cases the logits are equal, too, and
# the model gives both answers the same probability: to tokens that were never compared, or that training
# cannot tell apart. In the others the answer hangs on what training left over.
#
# **Copies.** A softmax adds up copies. At a finite length of $W$, enough copies of a lower token outvote a
# higher one: more than $e^{\text{lead}}$ of them. But leads grow. For how long is a sentence answered
# wrongly?

# %% [markdown]
# ### Exercise 16.3: Outvoted, but not for ever
#
# ★★☆ · 9 minutes
#
# A sentence holds `copies[t]` copies of the token $t$, one of which is the query. Now the tokens' logits are
# `logits[t]`, and the SVM's heights are `heights[t]`; token 0 is the highest. From now on $W_{\mathrm{kq}}$
# grows in the direction of $\hat W_{\mathrm{kq}}$, whose norm is `norm`, by `eta` a step. After how many
# steps do the copies of token 0 together get as much attention as those of each other token? Return a float,
# not rounded, and 0 if they do already.
#
# <details><summary>Hint</summary>
#
# The copies of $t$ get attention in proportion to $k_t\,e^{h_t}$. Compare token 0 with one other: take the
# log, and ask how fast the difference of logits grows. Then think of all others.
# </details>


# %%
@exercise("16.3")
def outvoted(copies, logits, heights, norm, eta):
    """Return the steps, a float: copies, logits and heights (m,) of m tokens, the first is the highest."""
    ### BEGIN SOLUTION
    lacks = np.log(copies[1:] / copies[0]) + logits[1:] - logits[0]
    return max(0.0, np.max(lacks * norm / (eta * (heights[0] - heights[1:]))))
    ### END SOLUTION


# %%
check("16.3", outvoted)

# %%
model = NextTokenTransformer(6, 6, W_ov=lead * value_matrix(small.following.numpy()))
descend(model, small, 100)
column, length = model.W_kq.detach()[:, 5].numpy().copy(), np.linalg.norm(heights)
asked, foretold, first = {}, {}, {}
for text, copies in {
    "A, 500 B, F": [1, 500, 0, 0, 0, 1],
    "A, 1000 B, F": [1, 1000, 0, 0, 0, 1],
    "3 A, 900 B, 2000 C, F": [3, 900, 2000, 0, 0, 1],
    "2 A, 500 C, 5000 D, F": [2, 0, 500, 5000, 0, 1],
}.items():
    held = np.flatnonzero(copies)
    foretold[text] = outvoted(np.array(copies)[held], column[held], heights[held], length, 0.1)
    letters_of = torch.tensor(np.repeat(np.arange(6), copies))[None]
    asked[text] = NextTokens(small.embeddings, small.following, letters_of, torch.tensor([1]))
for step in range(101, 181):
    descend(model, small, 1)
    for text, new in asked.items():
        if text not in first and model.predicted(new) == 1:
            first[text] = step
print("right from step     foretold at step 100  measured")
for text in asked:
    print(f"{text:20s} {100 + foretold[text]:18.1f} {first[text]:10d}")
    assert abs(100 + foretold[text] - first[text]) < 2.5, again.format("16.3")
doubled = first["A, 1000 B, F"] - first["A, 500 B, F"]
print(f"twice as many copies: {doubled} steps more, log 2 |W_hat| / eta = {np.log(2) * length / 0.1:.1f}")
assert abs(doubled - np.log(2) * length / 0.1) <= 1

# %% jupyter={"source_hidden": true}
pictures = {}
at = (0, 1, 3, 10, 30, 100, 300)
for size in (0.5, 2.0, 8.0):
    small_ov = size * svm.solve(svm.next_problem(small.embeddings, small.following)).value
    model = NextTokenTransformer(6, 6, W_ov=small_ov)
    taken = 0
    for step in at:
        descend(model, small, step - taken)
        taken = step
        pictures[size, step] = (
            model.W_kq.detach()[:, 5].numpy().copy(),
            model.attention(small).detach().numpy(),
            model(small).detach().softmax(-1).gather(-1, small.target[:, None])[:, 0].numpy(),
        )


def look(lead, step):
    """Heights under F, and the attention of the four sentences, with the answers' probabilities."""
    column, attention, probability = pictures[lead, step]
    figure = Figure(figsize=(8, 3.6), layout="none")
    ax = figure.add_axes((0.09, 0.14, 0.36, 0.76))
    ax.bar(range(6), column, color=BLUE)
    ax.set(xticks=range(6), xticklabels=list(letters), ylabel="height under F", title=f"step {step}")
    ax = figure.add_axes((0.56, 0.14, 0.4, 0.76))
    ax.imshow(attention, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for i, sentence in enumerate(sentences):
        for t, letter in enumerate(sentence):
            ax.text(
                t, i, letter, ha="center", va="center", color="white" if attention[i, t] > 0.5 else "black"
            )
    ax.set(xticks=[], yticks=range(4), yticklabels=[f"{p:.2f}" for p in probability])
    ax.set_title("attention; left: P(answer)", fontsize=12)
    ax.grid(False)
    return figure


# %% tags=["nbval-ignore-output", "widget"]
looks = {"style": {"description_width": "80px"}, "layout": ipywidgets.Layout(width="480px")}
widgets.sliders(
    look,
    alt="Bars: heights of six tokens under the query F. Beside them the attention of four sentences as blue "
    "cells with letters, and the probability of the right answer.",
    lead=ipywidgets.SelectionSlider(options=(0.5, 2.0, 8.0), value=8.0, description="lead c", **looks),
    step=ipywidgets.SelectionSlider(options=at, value=100, description="step", **looks),
)

# %% [markdown]
# The four sentences of Figure 1 while stage two runs. Which heights come out level? What does a small lead
# $c$ of stage one change: the attention, or the probability of the answer? (Here nothing is in the way of the
# right attention. Section 16.7 shows what a small $c$ does where something is.)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 16.7 Where it breaks
#
# **A short first stage.** That optimal tokens have the highest value is not enough, as lesson 07 taught:
# attention can be trapped on a wrong token, since the gradient of a sequence carries the factor
# $s_{\mathrm{opt}}$, which is then nearly 0. What pulls it back? Compare two sequences, with unit vectors'
# values, $W_{\mathrm{ov}} = c\,\hat W_{\mathrm{ov}}$. In the *right* one attention rests on the optimal
# token, and a loser's logit is $\Delta_1$ behind. In the *wrong* one it rests on a loser, and the optimal
# token's logit is $\Delta_2$ behind. Their pulls are $e^{-\Delta_1}$ and $e^{-\Delta_2}$, each times the
# difference of values of the two tokens, $g_{\mathrm{opt}} - g_{\mathrm{loser}}$ (nearly: if the $\Delta$ are
# large).

# %% [markdown]
# ### Exercise 16.4: How far behind is still heard?
#
# ★★★ · 10 minutes
#
# A wrong sequence pulls as hard as a right one if $\Delta_2 - \Delta_1$ is the **room** of the lead $c$.
# Derive it, from section 16.4's values. $c \ge 0$; the loser is followed by another token than the optimal
# one.
#
# <details><summary>Hint</summary>
#
# The difference of values is $c\,(1 - \pi_y + \pi_u)$, if u follows the loser. Write $\pi_y$ and $\pi_u$ for
# both sequences: the token that follows the one attended to leads the $V - 1$ others by $c$. Then set the two
# pulls equal.
# </details>


# %%
@exercise("16.4")
def room(c, V):
    """Return the room in logits, a float, for a lead c of the next token and V tokens."""
    ### BEGIN SOLUTION
    return np.log1p(2 * np.expm1(c) / V)
    ### END SOLUTION


# %%
check("16.4", room)

# %% [markdown]
# The differences of values are
#
# $$\text{right: } c\,\frac{V e^{-c}}{1 + (V - 1)e^{-c}}, \quad
# \text{wrong: } c\,\frac{2 + (V - 2)e^{-c}}{1 + (V - 1)e^{-c}}, \qquad
# \text{room}(c, V) = \log\Bigl(1 + \frac{2\,(e^c - 1)}{V}\Bigr).$$
#
# A wrong sequence is heard more. The room is 0 at $c = 0$, small up to $c \approx \log V$, and then grows as
# $c - \log(V/2)$.
#
# **Test it.** Two sequences (a, q) and (o, q), with $x_a = x_q + e_1$ and $x_o = x_q - \beta e_1 + \gamma
# e_2$: what the first one asks for pushes the second one's optimal token o back, $\beta$ times as fast. Start
# at $W = \Delta_1\, e_1 x_q^\top$, where o is $\Delta_2 = \beta \Delta_1$ behind. The pulls are $F_1 =
# e^{-\Delta_1}$ and $F_2 = e^{\text{room} - \Delta_2}$. So $\text{room} - (\Delta_2 - \Delta_1)$ grows if
# $F_2/F_1 > (\beta - 1)/(\beta(\beta - 1) + \gamma^2)$, and o gets free if
#
# $$(\beta - 1)\,\Delta_1 < \text{room}(c, V) + \log\bigl(\beta + \gamma^2/(\beta - 1)\bigr).$$
#
# We start at many $\Delta_1$, and find the largest from which o gets free: the room is what is left when the
# constant on the right is taken off. Three geometries; in the last one starts are hardly decided.

# %%
leads, beside = np.array([0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), 0.04 * np.arange(-5, 9) + 0.02
cases = ((6, 1.2, 0.5), (20, 1.2, 0.5), (20, 2.0, 6.0), (20, 2.0, 0.5))
rooms, first_start = {}, {}
for V, beta, gamma in cases:
    pair = torch.eye(V, dtype=torch.float64)  # x_q = e_0
    pair[1], pair[2] = pair[0] + pair[1], pair[0] - beta * pair[1] + gamma * pair[2]
    follow, drawn = (torch.arange(V) + 1) % V, torch.tensor([[1, 0], [2, 0]])
    tried = np.array([room(c, V) for c in leads])[:, None] + beside  # rooms, around the law
    known = np.log(beta + gamma**2 / (beta - 1))  # a constant of this geometry
    delta = (tried + known) / (beta - 1)
    each = [part.expand(tried.size, *part.shape) for part in (pair, follow, drawn, follow[drawn[:, 0]])]
    each = NextTokens(*(part.contiguous() for part in each))
    one = np.linalg.solve(pair.numpy(), value_matrix(follow.numpy()).T).T  # W_ov x_a as with e_a
    start = torch.zeros(tried.size, V, V, dtype=torch.float64)
    start[:, 1, 0] = torch.tensor(delta.ravel())
    model = NextTokenTransformer(V, V, tried.size, np.repeat(leads, len(beside))[:, None, None] * one, start)
    descend(model, each, 250, schedule=train.growing)
    freed = (model.attention(each).detach()[..., 0] > 0.5).all(-1).view(len(leads), -1).numpy()
    assert freed[:, 0].all()
    assert not freed[:, -1].any()
    assert (np.diff(freed.astype(int)) <= 0).all()
    last = freed.sum(1) - 1
    rooms[V, beta, gamma] = tried[np.arange(len(leads)), last] + 0.02  # between freed and not
    first_start[V, beta, gamma] = delta[np.arange(len(leads)), last]
law = {V: np.array([room(c, V) for c in leads]) for V in (6, 20)}
print("                                 lead c" + "".join(f"{c:6.1f}" for c in leads))
for V in law:
    print(f"V = {V:2d}: the law".rjust(39) + "".join(f"{one:6.2f}" for one in law[V]))
for V, beta, gamma in cases:
    off, begun = rooms[V, beta, gamma] - law[V], first_start[V, beta, gamma]
    print(
        f"V = {V:2d}, beta = {beta}, gamma = {gamma}: less law"
        + "".join(f"{one:6.1f}" for one in off.round(1) + 0.0)
    )
    print("Delta_1 at the start".rjust(39) + "".join(f"{one:6.1f}" for one in begun))
    if begun[0] > 3:
        assert np.abs(off).max() < 0.05, again.format("16.4")
    else:
        assert begun[:3].max() < 1.6
        assert 0.15 < off[:3].min() < off[:3].max() < 0.35
        assert np.abs(off[3:]).max() < 0.1

# %% [markdown]
# Where starts are decided, $\Delta_1$ above 3.5, the law holds within .05 logits: for two sizes of the
# vocabulary and two geometries. In the last one the starts at leads up to 2 have a $\Delta_1$ of 1.6 at most.
# There pulls are not $e^{-\Delta}$, and o gets free from .2 to .3 farther behind. Now data sets drawn at
# random.

# %%
stored = measured("16.trapped").load()
again_now = measured("16.trapped").part(d=[20], lead=[1.0])
here = stored.sel(d=20, lead=1.0).isel(trial=slice(0, again_now.sizes["trial"]))
agree = (again_now.wrong.squeeze() == here.wrong).mean()
print(
    f"recomputed now: {int(again_now.wrong.size)} of the stored data sets; same counts: {float(agree) > 0.9}"
)
assert agree > 0.9
trials = stored.sizes["trial"]
free = (stored.wrong == 0).sum("trial")
print(f"data sets of {trials} without a trapped sequence, 60 sequences each")
print("lead c      " + "".join(f"{c:7g}" for c in stored.lead.values))
for d in stored.d.values:
    name = "unit vectors" if d == 0 else f"Gaussian {d}"
    print(f"{name:12s}" + "".join(f"{int(free.sel(d=d, lead=c)):7d}" for c in stored.lead.values))
    shares = free.sel(d=d).values / trials
    assert shares[-1] > shares[0]
    assert shares[-1] > 0.85
print("room        " + "".join(f"{room(c, 20):7.2f}" for c in stored.lead.values))
assert (free.sel(d=20, lead=[0.25, 1.0, 2.0]) < 0.3 * trials).all()
assert (stored.cosine.where(stored.wrong == 0).max() > 0.99).all()
middle = stored.cosine.where(stored.wrong == 0).median().item()
caught = stored.cosine.where(stored.wrong > 0).median().item()
print(f"median cosine to the SVM: {middle:.3f} without a trapped sequence, {caught:.2f} with one")
assert middle > 0.99
assert caught < 0.95


# %% jupyter={"source_hidden": true}
fig, (left, ax) = plt.subplots(1, 2, figsize=(9.6, 3.8))
fine = np.linspace(0, 8.5, 200)
looks = ((GREEN, "^"), (BLACK, "D"), (BLUE, "o"), (ORANGE, "s"))
for case, (color, marker) in zip(cases, looks, strict=True):
    V, beta, gamma = case
    if beta == 1.2:
        left.plot(fine, np.log(1 + 2 * (np.exp(fine) - 1) / V), color=color, linewidth=1)
    label = f"{V}, {beta:g}, {gamma:g}"
    left.plot(leads, rooms[case], marker, color=color, label=label, markersize=5, fillstyle="none")
left.set(xlabel="lead $c$", ylabel="room (logits)", xlim=(0, 8.5))
left.legend(title="$V, \\beta, \\gamma$; lines: law", fontsize=9)
for d, color, marker, shift in zip(stored.d.values, (BLUE, ORANGE), "os", (-0.06, 0.06), strict=True):
    counts = free.sel(d=d).values
    low, high = np.array([wilson(int(k), trials) for k in counts]).T
    name = "unit vectors" if d == 0 else f"Gaussian, $d$ = {d}"
    share = counts / trials
    ax.errorbar(
        stored.lead.values + shift,
        share,
        yerr=np.maximum([share - low, high - share], 0),
        color=color,
        marker=marker,
        linestyle=":",
        label=name,
    )
ax.set(
    xlabel="lead $c$, $V$ = 20", ylabel="share with no sequence trapped", ylim=(-0.03, 1.03), xlim=(0, 8.5)
)
ax.legend(loc="center right")
show(
    fig,
    alt="Left, room against the lead c for vocabularies of 6 and 20 tokens: points lie on two curves that "
    "start flat and then rise with slope one, that of 6 tokens above; those of one geometry lie a little "
    "above their curve at leads up to 2. Right, the share of data sets without "
    "a trapped sequence at five leads, with intervals: low up to 2 and rising towards one at 8 for Gaussian "
    "embeddings, from .9 to 1 for unit vectors.",
)

# %% [markdown]
# **Figure 3.** Left: the room that a lead $c$ gives. Right: 60 data sets at each of five leads, for unit
# vectors and Gaussian embeddings. (Bars: Wilson intervals; the dotted lines only join the points.)

# %% [markdown]
# Up to $c = 2$ the room is at most half a logit, and a larger $c$ buys little. From 4 on each unit
# of $c$ is nearly a unit of room. With unit vectors, too, some are trapped at small $c$: tokens meet in
# several sequences of a query.
#
# So far $c$ was set by hand. Does it come from the length of stage one? A step of length $\eta$ adds
# $\eta/\lVert \hat W_{\mathrm{ov}}\rVert$ to the least lead, once the direction is right. **Predict** from
# this and Figure 3: which of 10, 100, 300 and 500 steps are enough for ten data sets of this kind?

# %%
ten, _ = next_tokens(60, 5, 20, d=20, queries=10, trials=10, seed=100)
model, begun, taken = NextTokenTransformer(20, 20, trials=10), [], 0
lengths = (10, 100, 300, 500)
for steps in lengths:
    descend(model, collocation(ten), steps - taken, train=["W_ov"])
    taken = steps
    begun.append(model.W_ov.detach().clone())
four = NextTokens(*(part.repeat_interleave(4, 0) for part in parts(ten)))
model = NextTokenTransformer(20, 20, trials=40, W_ov=torch.stack(begun, 1).flatten(0, 1))
o = model(collocation(four)).detach()
right = four.following[..., None]
least = (o.gather(-1, right) - o.scatter(-1, right, -torch.inf).amax(-1, keepdim=True)).amin((-1, -2))
least = least.view(10, 4).median(0).values
descend(model, four, 250, lr=0.2, schedule=train.growing)
wrong = (model.attention(four) * four.optimal).sum(-1) < 0.5
freed = (~wrong.any(-1)).view(10, 4).sum(0).tolist()
for steps, smallest, count in zip(lengths, least, freed, strict=True):
    said = "at most 4" if count <= 4 else "at least 5"  # one may hang on rounding
    print(f"stage one of {steps:5d} steps: least lead {smallest:5.1f}; {said} of 10 data sets untrapped")
pace = float(least[3] - least[2]) / 200
norm_ov = svm.solve(svm.next_problem(ten.embeddings, ten.following)).objective.median()
print(
    f"from step 300 to 500 the least lead grows by {pace:.4f} a step; eta / |W_ov hat| = {0.1 / norm_ov:.4f}"
)
assert max(freed[:2]) <= 4
assert min(freed[2:]) >= 5
assert abs(pace * norm_ov / 0.1 - 1) < 0.07

# %% [markdown]
# The lead grows at the foretold pace, and a stage one of 300 steps has gone far enough for most.

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Both at once.** What if $W_{\mathrm{ov}}$ and $W_{\mathrm{kq}}$ train together, from 0, on the sequences
# alone? That changes two things: the order of the stages, and the data, since the collocation is not shown
# any more. So we run a control: both at once, with the collocation among the sequences, as 20 more,
# $(a, a, a, a, a)$ with the answer next(a). **Predict** which of the two it is like.


# %%
fresh, _ = next_tokens(200, 5, 20, queries=10, trials=20, seed=70, rank=rank, like=data)
alone = torch.arange(20)[None, :, None].expand(20, 20, 5)
shown = NextTokens(
    data.embeddings,
    data.following,
    torch.cat([data.tokens, alone], 1),
    torch.cat([data.target, data.following], 1),
)
models = {"two stages": NextTokenTransformer(20, 20, 20, trained.W_ov, trained.W_kq)}
for name, sequences in (("both, no collocation", data), ("both, collocation", shown)):
    models[name] = NextTokenTransformer(20, 20, trials=20)
    descend(models[name], sequences, 250, train=["W_ov", "W_kq"], schedule=train.growing)
asked = torch.zeros(20, 20).scatter(1, data.target, 1.0).gather(1, data.following)
facts = {}
print("right:                training  attention  collocation   new   cosine of W_kq")
for name, model in models.items():
    model.requires_grad_(False)
    attends = ((model.attention(data) * data.optimal).sum(-1) > 0.5).double().mean()
    right = [
        (model.predicted(part) == part.target).double().mean() for part in (data, collocation(data), fresh)
    ]
    cosine = geometry.cosine(model.W_kq, ladder).median()
    facts[name] = [float(share) for share in (right[0], attends, *right[1:], cosine)]
    print(f"{name:21s} {right[0]:8.1f} {attends:10.1f} {right[1]:12.1f} {right[2]:5.1f} {cosine:16.1f}")
print(f"tokens whose next token is the answer of some sequence: {asked.mean():.2f}")
assert facts["two stages"][:3] == facts["both, collocation"][:3] == [1, 1, 1]
assert facts["both, collocation"][4] > 0.97
assert abs(facts["both, collocation"][3] - facts["two stages"][3]) < 0.02
assert facts["both, no collocation"][0] > 0.95
assert facts["both, no collocation"][1] < 0.95
assert facts["both, no collocation"][2] < asked.mean() < 0.85
assert facts["both, no collocation"][3] < facts["two stages"][3] - 0.04
assert facts["both, no collocation"][4] < 0.95

# %% [markdown]
# Both at once with the collocation learns what two stages learn. So it is not the simultaneity: **what was
# missing is the data.** Without the collocation the sequences can be explained in several ways, for which
# token of a sentence speaks for its answer is not written in it; attention then rests on others in part. And
# what follows a token that was never behind an answer nobody can know: that share of the vocabulary bounds
# the column "collocation".

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Two optimal tokens.** If next(·) sends two tokens of a sequence to its answer, the loss asks for
# attention on *either*. Does the SVM with rows for both still hold?

# %%
shared, _ = next_tokens(40, 5, 20, queries=10, targets=10, trials=20, seed=3)
shared_ov = np.array([value_matrix(one.numpy()) for one in shared.following])
nearly = 1e-3 * torch.randn(20, 20, 20, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
model = NextTokenTransformer(20, 20, 20, lead * shared_ov, nearly)  # at 0 they would be level
descend(model, shared, 400, lr=0.2, schedule=train.growing)
model.requires_grad_(False)
all_rows = svm.solve(svm.order_problem(shared.embeddings, priorities(shared)))
s = model.attention(shared)
copies = shared.tokens[..., :, None] == shared.tokens[..., None, :]
per_token = (copies * s[..., None, :]).sum(-1) * shared.optimal  # attention on all copies of an optimal token
chosen = shared.tokens.gather(-1, per_token.argmax(-1, keepdim=True))
others = shared.optimal & (shared.tokens != chosen)
winner_takes = per_token.amax(-1)[others.any(-1)]
share = (winner_takes > 0.99).double().mean()
cosine = geometry.cosine(model.W_kq, all_rows.value)
print(f"sequences with two optimal tokens or more: {len(winner_takes)}")
print(f"one of them has over 0.99 of the attention in {share:.2f} of these")
print(f"cosine to the SVM with rows for all of them: median {cosine.median():.2f}, least {cosine.min():.2f}")
assert 0.9 < share < 1
assert cosine.median() < 0.97
assert s.mul(shared.optimal).sum(-1).min() > 0.99

where = torch.arange(20)[:, None, None].expand(shared.tokens.shape)  # rows: the chosen above all that lose
query, winner = (part.expand(shared.tokens.shape) for part in (shared.tokens[..., -1:], chosen))
pairs, loses = torch.zeros(20, 20, 20, 20, dtype=torch.bool), ~shared.optimal
pairs.index_put_((where[loses], query[loses], winner[loses], shared.tokens[loses]), torch.tensor(True))
own = svm.solve(svm.order_problem(shared.embeddings, pairs))
cosine = geometry.cosine(model.W_kq, own.value)
print(f"to the SVM with rows for the chosen one: median {cosine.median():.3f}, least {cosine.min():.3f}")
assert cosine.min() > 0.998

height = of_the_tokens(own.value, shared)  # in the SVM of the chosen
winner = per_token.argmax(-1, keepdim=True)
gap = height.gather(-1, winner) - height
level, lower = others & (gap < 1e-6), others & (gap >= 1e-6)
print(f"{int(lower.sum())} others stand lower: attention at most {per_token[lower].max():.3f}")
assert per_token[lower].max() < 0.005
assert abs(gap[lower].min() - 1 / 12) < 1e-3

few, seen = level.flatten(1).any(1), []  # trials with others that stand level
model = NextTokenTransformer(20, 20, int(few.sum()), lead * shared_ov[few], model.W_kq[few])
some = NextTokens(*(part[few] for part in parts(shared)))
for steps in (100, 1300):  # steps too short to zigzag; the first let the earlier zigzag settle
    descend(model, some, steps, lr=0.5)
    taken = (copies[few] * model.attention(some).detach()[..., None, :]).sum(-1)
    ratio = (taken / taken.gather(-1, winner[few]))[level[few]]
    seen.append((ratio, model.W_kq.detach().norm(dim=(1, 2)).median()))
left, times = (late / early for early, late in zip(*seen, strict=True))
falls, stays = (left * times - 1).abs() < 0.08, left > 0.94
counts = [len(left), *(int(one.sum()) for one in (falls, stays))]
print(f"W {times:.1f} times as long: of {counts[0]} level {counts[1]} have so much less, {counts[2]} as much")
assert counts == [7, 2, 4]

# %% [markdown]
# No: it asks for too much. One optimal token is enough, and a shorter $W$ does with one. The one that stands
# higher gets more of the pull, because its attention is the factor in its gradient, and so it moves ahead. So
# the theorem's SVM needs one optimal token a sequence, or copies of one; otherwise the rows belong to the
# token that descent chooses, as in lesson 07.
#
# Who shares for ever? Not who stands lower, were it by a twelfth: its share falls exponentially. Between
# tokens that stand *level* in the SVM of the chosen a longer $W$ changes no ratio. What $W$ gains beside its
# direction does, ever more slowly: of seven here four keep their share, and two lose it as $1/\lVert
# W\rVert$.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 16.8 Data that contradict themselves *(optional)*
#
# (This section builds on [lesson 13](13_nonlinear_heads.ipynb).) Real sentences go on in several ways. One
# sequence with the query $q$ says $a > b$, another $b > a$: a cycle, and no $W$ puts both ahead. Li and
# others (2024) take any data, and as the output the attention that each token of the vocabulary gets:
# $L = \frac1n \sum_i -\log \sum_{t:\, x_{it} = y_i} s_{it}$. Since copies share their logit, this is logistic
# regression with the classes $x_{i1}, \dots, x_{iT}$, **convex** in $W$, and lesson 01's question for data
# that are not separable.
#
# **Predict before you run on.** Two tokens a and b stand against each other under one query. In some
# sequences a is the answer, in others b. Where does the difference of their logits go?

# %% [markdown]
# ### Exercise 16.5: A finite lead
#
# ★★★ · 11 minutes
#
# Sequence $i$ holds `copies_a[i]` copies of a and `copies_b[i]` of b, and nothing else; `won[i]` is True if a
# is its answer, False if b is. Return the limit of a's logit minus b's, the minimiser of $L$, exact to six
# digits. A sequence holds its answer at least once, and may lack the other token. Some sequence that holds
# both is won by a, some by b.
#
# <details><summary>Hint</summary>
#
# The attention on a is $k_a e^h/(k_a e^h + k_b)$, with $k_a$ copies of a and $k_b$ of b. Write the derivative
# of $L$ in $h$: what has to equal what, summed over the sequences? There is no formula for the root, but the
# sum is monotone in $h$: halve an interval.
# </details>


# %%
@exercise("16.5")
def finite_lead(won, copies_a, copies_b):
    """Return the difference of logits, a float: won (n,) bool, copies_a and copies_b (n,) integers."""
    ### BEGIN SOLUTION
    low, high = -50.0, 50.0
    for _ in range(100):
        h = (low + high) / 2
        attention = copies_a / (copies_a + copies_b * np.exp(-h))
        low, high = (h, high) if attention.sum() < np.sum(won) else (low, h)
    return h
    ### END SOLUTION


# %%
check("16.5", finite_lead)

# %% [markdown]
# Tokens that reach each other, $a > \dots > b > \dots > a$ under a query, form a **strongly connected
# component**. Between components there are no cycles: these are ordered. As in lesson 13 two parts follow:
#
# > **Graph SVM** (informally, after Li, Huang, Ildiz, Rawat and Oymak, 2024). Let the embeddings be linearly
# > independent. Along the path of minimisers of length $R$, and along descent, the direction of $W$ tends to
# > that of $W_{\mathrm{dir}}$, and on the pairs of one component $W$ tends to $W_{\mathrm{fin}}$.
# > $W_{\mathrm{dir}}$ is the shortest $W$ with $(x_a - x_b)^\top W x_q \ge 1$ wherever $a > b$ leads from one
# > component to another, and $= 0$ within one; it is 0 if there is no such pair. $W_{\mathrm{fin}}$ is the
# > shortest minimiser of $L$ over sequences reduced to the component of their answer.
#
# As in lesson 13 there is a third part, $W = W_{\mathrm{fin}} + R\, W_{\mathrm{dir}} + r$ (there with $c$ for
# $R$): it sets how fast each row between components is left behind, and is 0 on the pairs within one.

# %%
E = torch.eye(4, dtype=torch.float64)[None]
story = torch.tensor([[0, 0, 1, 2], [0, 0, 1, 2], [0, 0, 1, 2], [1, 3, 0, 2]])  # a a b q three times; b d a q
answers = torch.tensor([0, 0, 1, 1])
circle = NextTokens(E, torch.arange(4)[None], story[None], answers[None])
graph = priorities(circle)
W_fin, rest = finite_part(circle)
W_dir = svm.solve(svm.order_problem(E, graph, graph & same_component(graph))).value
W = torch.zeros(1, 4, 4, dtype=torch.float64)
for step in range(5000):
    W = W - 2.0 / (1 + step) ** 0.5 * pull(W, circle)
a, b, q, d = W[0, :, 2]
yours = finite_lead(np.array([True, True, False, False]), np.array([2, 2, 2, 1]), np.array([1, 1, 1, 1]))
print(f"a - b: {a - b:.2f}, predicted {float(yours):.2f}; b - q: {b - q:.1f}; b - d: {b - d:.1f}")
assert abs(float(yours) - (a - b)) < 0.02, again.format("16.5")
assert abs((a - b) - (W_fin[0, 0, 2] - W_fin[0, 1, 2])) < 0.02
assert abs(W_dir[0, 0, 2] - W_dir[0, 1, 2]) < 1e-9
assert min(b - q, b - d) > 3

# %% [markdown]
# Tokens a and b beat each other, and their logits stay a finite distance apart; the query and d are beaten by
# both, and fall behind for ever. The paper measures on random data: $n = 6$ sequences of $T = 4$ tokens from
# six, $d = 8$, 4,000 normalised steps of length 0.01, and reports correlations from .976 to .993 with the
# predicted direction. We stored the same for 400 data sets (how the paper drew its embeddings we do not know;
# ours are uniform on the sphere).
#
# Does such a correlation test $W_{\mathrm{fin}}$? Put 0 in its place, or $-W_{\mathrm{fin}}$, as a control.
# And test it where it can be seen: on the rows of pairs within a component $W_{\mathrm{dir}}$ and $r$ are 0,
# so there $W$ itself has to be $W_{\mathrm{fin}}$.

# %%
cycles = measured("16.cycles").load()
part = measured("16.cycles").part(trials=100, steps=[1000])
assert float(abs(part.both.squeeze() - cycles.both.sel(steps=1000).isel(trial=slice(0, 100))).max()) < 1e-3
loops = cycles.cyclic.sel(steps=4000)
print(f"data sets with a cycle: {int(loops.sum())} of {loops.size}; the SVM of all relations, without")
print(
    f"components, is solvable in {int(cycles.solvable.sel(steps=4000)[~loops].sum())} of the others "
    f"and {int(cycles.solvable.sel(steps=4000)[loops].sum())} of these"
)
cyclic = loops.values
print("mean cosine of W to        W_fin + R W_dir   R W_dir   -W_fin + R W_dir   median |W|, |r|")
means = {}
for steps in cycles.steps.values:
    for name, chosen in (("with a cycle", cyclic), ("without", ~cyclic)):
        mine = cycles.sel(steps=steps).isel(trial=chosen)
        means[steps, name] = [float(mine[key].mean()) for key in ("both", "direction", "minus")]
        values = "".join(
            f"{value:{wide}.3f}" for value, wide in zip(means[steps, name], (14, 12, 14), strict=True)
        )
        print(f"{steps:6d} steps, {name:12s} {values} {mine.W.median():17.0f} {mine.rest.median():5.1f}")
finite = cyclic & (cycles.W_fin.sel(steps=4000).values > 1e-6)
late = cycles.isel(trial=finite)
off = {steps: (late.inside / late.W_fin).sel(steps=steps) for steps in (1000, 4000)}
print(
    f"W_fin is not 0 in {finite.sum()} of these data sets; its median length there: {late.W_fin.median():.2f}"
)
for steps, part in off.items():
    print(
        f"{steps} steps, on the tied rows: |W - W_fin| over |W_fin|: "
        f"median {part.median():.3f}, most {part.max():.2f}"
    )
assert not cycles.solvable.sel(steps=4000)[loops].any()
assert cycles.solvable.sel(steps=4000)[~loops].all()
assert 0.976 < min(means[4000, "with a cycle"]) < max(means[4000, "with a cycle"]) < 0.993
assert off[4000].max() < 0.05
assert late.W_fin.median() < late.rest.sel(steps=4000).median() / 3
assert cycles.inside.sel(steps=4000).isel(trial=cyclic & ~finite).max() < 0.01
assert abs(means[1000, "with a cycle"][0] - means[1000, "without"][0]) < 0.02
assert means[16000, "without"][0] > 0.999 > 0.995 > means[16000, "with a cycle"][0]
grown = [
    cycles.W.sel(steps=16000)[one].median() / cycles.W.sel(steps=4000)[one].median()
    for one in (cyclic, ~cyclic)
]
assert grown[0] < 1.5 < 3.5 < grown[1]

# %% [markdown]
# All three lie within the published range, $-W_{\mathrm{fin}}$ too: the correlation does not test
# $W_{\mathrm{fin}}$, which is short beside $W$, and shorter than $r$. On the tied rows it is seen, and right
# within 4% in each data set after 4,000 steps. (Where $W_{\mathrm{fin}}$ is 0, as in three data sets of ten
# with a cycle, $W$ is there within .01 of 0.)
#
# After 1,000 steps cycles make no great difference. Later they do: with a cycle $W$ nearly stops growing, and
# its direction with it. It is lesson 13's bounce. Curvature within a component does not fade, a normalised
# step of .01 jumps from side to side of that valley, and $\lVert W\rVert$ grows as the log of the steps.
# Without a cycle it grows by nearly .01 a step.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 16.9 A layer that writes *(optional)*
#
# The output of section 16.8 is a probability of what comes next. If $k_a$ copies of a have been read so far,
# and q is the last token, then
#
# $$P(\text{next} = a) = \frac{k_a P_{qa}}{\sum_b k_b P_{qb}}, \qquad
# P_{qa} = \frac{e^{x_a^\top W x_q}}{\sum_b e^{x_b^\top W x_q}}.$$
#
# So this layer is a **Markov chain**, with the transitions $P_{qa}$ from q to a, *reweighted by what stands
# in the context*; Ildiz and others (2024) call it context-conditioned. With linearly independent embeddings
# every positive $P$ has its $W$: the logits under q may be any numbers.
#
# **Can it be learned from drawn answers?** Once under each q every token has won against every other, if only
# by way of third ones, all tokens are one component, and $W_{\mathrm{dir}} = 0$: there is no direction to go
# to. The maximum of the likelihood is a finite $W_{\mathrm{fin}}$. **Predict**: with ten times the sequences,
# how much nearer is its $P$ to the one that drew the answers?

# %%
rng = np.random.default_rng(0)
truth = rng.dirichlet([2.0] * 3, size=(30, 3))  # 30 chains of three tokens, P[q, a]
unit = torch.eye(3, dtype=torch.float64).expand(30, 3, 3)
off = []
for n in (300, 3000):
    read = rng.integers(3, size=(30, n, 5))
    weights = truth[np.arange(30)[:, None, None], read[..., -1:], read].cumsum(-1)
    pick = (weights < rng.random((30, n, 1)) * weights[..., -1:]).sum(-1, keepdims=True)
    answer = np.take_along_axis(read, pick, -1)[..., 0]
    drawn = NextTokens(unit, torch.arange(3).expand(30, 3), torch.tensor(read), torch.tensor(answer))
    assert (closure(priorities(drawn)) | torch.eye(3, dtype=torch.bool)).all()  # one component under each q
    fitted, rest = finite_part(drawn, steps=8)
    assert rest.max() < 1e-9
    off.append(np.sqrt(((fitted.mT.softmax(-1).numpy() - truth) ** 2).mean()))
    print(f"{n:5d} sequences of 5: error of P, root mean square: {off[-1]:.3f}")
print(f"power of the number of sequences: {np.log10(off[1] / off[0]):.2f}")
assert abs(np.log10(off[1] / off[0]) + 0.5) < 0.07

# %% [markdown]
# The error falls with the root of their number, as in any statistics.
#
# **What does it write?** Let it read its own output: each token that it draws is appended, and becomes the
# next query. Take two tokens, one copy of each to begin with (a token that was never read is never written),
# and $P$ with equal rows (0.6, 0.4). A Markov chain would write b four times in ten, for ever. **Predict
# before you run on**: what does the layer write?
#
# Suppose nearly all tokens so far are a. A b is drawn after an a with the probability
# $\frac{k_b}{k_a} \frac{P_{ab}}{P_{aa}}$, and the next token is an a again, nearly surely. So
#
# $$\frac{dk_b}{k_b} = \frac{P_{ab}}{P_{aa}}\, \frac{dk_a}{k_a}, \qquad k_b \sim j^{P_{ab}/P_{aa}}$$
#
# after $j$ tokens, up to a factor that chance sets early. If $P_{ab} < P_{aa}$ the *share* of b shrinks: a
# lead of a that is large enough **feeds itself**. So does a large lead of b, if $P_{ba} < P_{bb}$.
#
# And in between? Let $\kappa = k_b/k_a$ stand still. The reweighted chain goes from a to b with the
# probability $\frac{\kappa P_{ab}}{P_{aa} + \kappa P_{ab}}$, and back with $\frac{P_{ba}}{P_{ba} + \kappa
# P_{bb}}$. It writes $\kappa$ times as many b as a if the first is $\kappa$ times the second:
#
# $$\kappa^\ast = \frac{P_{ba}\,(P_{aa} - P_{ab})}{P_{ab}\,(P_{bb} - P_{ba})}.$$
#
# It is positive in two cases. If each token is followed more often *by the other*, no lead feeds itself, and
# the shares should go to $\kappa^\ast$. If each is followed more often *by itself*, $\kappa^\ast$ is a
# watershed: above it b should take over, below it a. (Where all entries are equal every $\kappa$ reproduces
# itself. Then the layer is Pólya's urn, and the shares stay where chance has put them.)


# %%
def written(P, length, marks, rng):
    """k after each of the marks, (marks, trials, V): transitions P (trials, V, V), from one copy of each."""
    rows, counts, seen = np.arange(len(P)), np.ones(P.shape[:2]), []
    q = rng.integers(P.shape[1], size=len(P))
    for j in range(1, length + 1):
        weights = (counts * P[rows, q]).cumsum(1)
        q = (weights < rng.random((len(P), 1)) * weights[:, -1:]).sum(1)
        counts[rows, q] += 1
        if j in marks:
            seen.append(counts.copy())
    return np.array(seen)


def pace(P, kappa):
    """d log k_b / d log j: the share of b that is written over the share of b so far."""
    there, back = kappa * P[0, 1] / (P[0, 0] + kappa * P[0, 1]), P[1, 0] / (P[1, 0] + kappa * P[1, 1])
    return there / (there + back) * (1 + kappa) / kappa


both = {"equal rows": [[0.6, 0.4], [0.6, 0.4]], "a alone": [[0.7, 0.3], [0.6, 0.4]]}
both |= {"each itself": [[0.7, 0.3], [0.4, 0.6]], "each the other": [[0.3, 0.7], [0.6, 0.4]]}
marks = (100, 300, 1000, 3000, 10_000)
texts = written(np.repeat(list(both.values()), 300, axis=0), 10_000, marks, np.random.default_rng(1))
texts = dict(zip(both, texts.reshape(5, 4, 300, 2).swapaxes(0, 1), strict=True))
print("300 texts each     P_ab/P_aa  P_ba/P_bb   ahead at 10,000 tokens: a, b   power of who is behind, pace")
for name, k in texts.items():
    P = np.array(both[name])
    ratio = P[0, 1] / P[0, 0], P[1, 0] / P[1, 1]
    ahead = k[-1, :, 0] > 4 * k[-1, :, 1], k[-1, :, 1] > 4 * k[-1, :, 0]
    line = f"{name:16s} {ratio[0]:9.2f} {ratio[1]:10.2f} {ahead[0].sum():20d} {ahead[1].sum():8d}          "
    for behind, turned in ((1, P), (0, P[::-1, ::-1])):
        one = k[:, ahead[1 - behind]]
        if one.shape[1] > 30:
            power = np.log(one[-1, :, behind] / one[2, :, behind]).mean() / np.log(10)
            law = pace(turned, one[3, :, behind] / one[3, :, 1 - behind]).mean()
            line += f"  {'ab'[behind]} {power:.2f} {law:.2f}"
            assert abs(power - law) < 0.04
            assert abs(power - ratio[1 - behind]) < 0.08
    print(line)
    assert name == "each the other" or all(ahead[side].sum() < 10 for side in (0, 1) if ratio[side] >= 1)


def reproduced(P):
    """The share of b at kappa*."""
    kappa = P[1][0] * (P[0][0] - P[0][1]) / (P[0][1] * (P[1][1] - P[1][0]))
    return kappa / (1 + kappa)


share = {name: k[..., 1] / k.sum(-1) for name, k in texts.items()}  # (marks, texts)
meet, watershed = (reproduced(both[name]) for name in ("each the other", "each itself"))
chain = 0.7 / (0.7 + 0.6)
level = np.median(share["each the other"][-1])
print(f"each the other: share of b {level:.2f}, reproduced {meet:.2f}, Markov chain {chain:.2f}")
assert abs(level - meet) < 0.03 < level - chain
early, end = share["each itself"][[0, -1]]
foretold = [((early > border) == (end > watershed)).mean() for border in (watershed, 0.5)]
print(f"each itself: watershed {watershed:.2f}; its side after 100 tokens foretells the side after 10,000")
print(f"in {foretold[0]:.2f} of the texts; whoever is ahead after 100 tokens, in {foretold[1]:.2f}")
assert foretold[0] > 0.97 > foretold[1]

# %% jupyter={"source_hidden": true}
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4))
one = share["equal rows"]
left.plot(marks, one[:, :12], color="0.75", linewidth=0.8)
left.plot(marks, np.median(one, 1), "o-", color=BLUE, label="median of 300 texts")
law = np.median(one, 1)[-1] * (np.array(marks) / marks[-1]) ** (0.4 / 0.6 - 1)
left.plot(marks, law, "--", color=ORANGE, label="power $0.4/0.6 - 1$")
left.axhline(0.4, color=BLACK, linestyle=":", label="Markov chain")
left.set(xscale="log", yscale="log", xlabel="tokens written", ylabel="share of b", title="equal rows")
left.legend(fontsize=9, loc="lower left")
bins = np.linspace(0, 1, 26)
for (name, color), style in zip({"each itself": BLUE, "each the other": ORANGE}.items(), "-:", strict=True):
    right.hist(share[name][-1], bins, histtype="step", color=color, linestyle=style, linewidth=2, label=name)
    right.axvline(reproduced(both[name]), color=color, linestyle="--", linewidth=1)
right.set(xlabel="share of b after 10,000 tokens", ylabel="texts of 300")
right.legend(fontsize=9)
show(
    fig,
    alt="Left, the share of b against the tokens written, both logarithmic: grey lines of single texts and "
    "their median fall along a dashed line, below the dotted level .4 of a Markov chain. Right, histograms "
    "of the share of b: two heaps near 0 and 1 where each token follows itself, one heap near .6 where each "
    "follows the other.",
)

# %% [markdown]
# **Figure 4.** Left: with equal rows b dies out; the slope of the dashed line is predicted, its height is
# not. Right, dashed: the shares at $\kappa^\ast$. Around one of them the texts meet, from the other they
# part.

# %% [markdown]
# The layer repeats itself, though q draws with the same $P$ every time: what has been written is more likely
# to be written. Where each token follows itself, either may take over, and which one is decided early: by the
# side of the watershed, .73 here, since b's own lead feeds itself less. Where each follows the other, the
# shares meet at $\kappa^\ast$, slowly, and not at the Markov chain's. (From 1,000 to 10,000 tokens the powers
# are within .08 of their limits, and within .04 of the pace at the $\kappa$ of 3,000 tokens, the share of b
# that is written over its share so far: it is the limit at $\kappa = 0$, and 1 at $\kappa^\ast$.) Ildiz and
# others prove a collapse of this kind, and see in it why language models repeat themselves.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 16.10 Claim, prediction, measurement
#
# | claim | prediction | measurement |
# |:---|:---|:---|
# | $W_{\mathrm{ov}}$ goes to the collocation's SVM | one step with unit vectors | 20 of 20 data sets |
# | $W_{\mathrm{kq}}$ goes to the order's SVM | the data's relations | least cosine of 40 data sets .995 |
# | | not the whole rank | median cosine .66 and .51 |
# | the excess falls linearly | slope $-\eta/\lVert \hat W_{\mathrm{kq}}\rVert$ | within 1% in 48 runs |
# | up to a step length | $\eta^\ast$, from the multipliers of 24 SVMs | at .9: 1.00, at 1.1: .91 to .95 |
# | new sequences, decided by the order | all right | 2,023 of 2,023 |
# | against the order | all wrong | 1,762 of 1,762 |
# | undecided, one highest token | as the heights say | 9,564 of 9,564 |
# | undecided, two or more level | not decided | .69 of 4,413 are equal to 9 digits |
# | outvoted by copies | until step 120.0, 132.7, 136.0, 118.1 | until 121, 133, 138, 119 |
# | a wrong sequence is heard | room $\log(1 + 2(e^c - 1)/V)$ | within .05 logits for 21 pairs, 3 settings |
# | both stages at once | as well, with the collocation | training, attention, collocation all right |
# | two optimal tokens | one takes nearly all, a smaller SVM | over .99 in .95; least cosine to it .999 |
# | | who is level in it may share, who is lower does not | 4 settled of 7, 0 of 118 |
# | cycles | $W_{\mathrm{fin}}$ on the tied rows | within 4% in each of 102 data sets |
# | a layer that writes | b's share, where a leads: $j^{P_{ab}/P_{aa} - 1}$ | 4 powers within .08 |
# | | the pace at $\kappa$ | within .04 |
# | who takes over | the side of $\kappa^\ast$ after 100 tokens | right in about .99 of 300 texts |

# %% [markdown]
# ## Questions
#
# **1.** A token was always optimal under $q$ when it occurred, another never. A third never occurred with
# $q$. In which order do they stand, with unit vectors?
# <details><summary>Answer</summary>
#
# As listed: first, third, second. A column of $\hat W$ is $\sum \lambda_{ab}(e_a - e_b)$ with weights
# $\lambda \ge 0$. The first token has only positive terms, the second only negative ones, the third none.
# (Strictly so if their rows carry weight.)
# </details>
#
# **2.** Twice as many sequences with the same relations are added. What changes in the limit?
# <details><summary>Answer</summary>
#
# Nothing: same rows, same SVM. The *sequences* are not counted, their relations are. On the way the
# gradient counts sequences.
# </details>
#
# **3.** Why is $L_\infty$ not 0, and what would make it 0?
# <details><summary>Answer</summary>
#
# Attention can do no better than choose the right token; the head then gives the answer
# $1/(1 + (V - 1)e^{-c})$. Only a longer $W_{\mathrm{ov}}$, a larger $c$, brings it to 0.
# </details>

# %%
progress("16")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - Next-token data contain a **collocation**, what follows what, and under each query a **partial order**,
#   whom to look at. Each is a hard-margin SVM; the second one gives each token a **height**.
# - Stage one learns the first: with unit vectors in a single step. Stage two learns the second, from the
#   relations alone; what follows from them comes free.
# - $\log(L - L_\infty)$ falls with the slope $-\eta/\lVert \hat W_{\mathrm{kq}}\rVert$, for steps too short
#   to bounce: below $2\lVert \hat W_{\mathrm{kq}}\rVert/\lambda_{\max}(\Lambda)$, of the order's Laplacian.
# - If training satisfied all rows, the model is right wherever the order decides (copies outvote only for
#   a time that the heights foretell); elsewhere the heights decide, if they are not level.
# - A short stage one lets stage two be trapped: a wrong sentence is heard, if starts are decided, from
#   $\log(1 + 2(e^c - 1)/V)$ farther behind than a right one. Without the collocation's data something else is
#   learned; with them both stages may run at once. Of two optimal tokens one wins, unless they stand level in
#   the SVM of the chosen. Cycles leave a finite part, which is seen on the tied rows, and slow the growth.
#
# ## Further reading
#
# - R. Huang, Y. Liang, J. Yang, *Non-asymptotic Convergence of Training Transformers for Next-token
#   Prediction* (2024, arXiv 2409.17335): partial orders, the two stages, and their rates.
# - Y. Li, Y. Huang, M. E. Ildiz, A. S. Rawat, S. Oymak, *Mechanics of Next Token Prediction with
#   Self-Attention* (2024, arXiv 2403.08081): components, and the two parts.
# - M. E. Ildiz, Y. Huang, Y. Li, A. S. Rawat, S. Oymak, *From Self-Attention to Markov Models: Unveiling the
#   Dynamics of Generative Transformers* (ICML 2024, arXiv 2402.13512): section 16.9, learned and writing.
#
# The slope, its threshold, the room of a short first stage, and the race of two optimal tokens are this
# lesson's own measurements.
#
# **New in the library:** [`vocabulary.next_tokens`](../mini_attn/vocabulary.py),
# [`vocabulary.NextTokens`](../mini_attn/vocabulary.py),
# [`vocabulary.priorities`](../mini_attn/vocabulary.py), [`vocabulary.closure`](../mini_attn/vocabulary.py),
# [`vocabulary.same_component`](../mini_attn/vocabulary.py),
# [`next_token.NextTokenTransformer`](../mini_attn/next_token.py),
# [`next_token.collocation`](../mini_attn/next_token.py), [`next_token.descend`](../mini_attn/next_token.py),
# [`svm.next_problem`](../mini_attn/svm/order.py), [`svm.order_problem`](../mini_attn/svm/order.py).
#
# **Next:** [lesson 17](17_convergence_rates.ipynb): how fast does each optimiser get there?
