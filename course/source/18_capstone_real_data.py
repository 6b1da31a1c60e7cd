# %% [markdown] slideshow={"slide_type": "slide"}
# # 18 · Capstone: real tokens
#
# Here is a small transformer that learns digits or film reviews.
#
# **The question: what in a real transformer is a support vector machine, and how would one know?**

# %% [markdown] slideshow={"slide_type": "skip"}
# **After this lesson you can**
#
# - look into the heads of a transformer while it trains;
# - find out what an instrument sees, with rivals that nobody trained and with a loss that no theorem fits;
# - say which ingredients turn a linear layer from the Frobenius norm's SVM;
# - carry out a project of your own.
#
# **You need** [lesson 04](04_matrix_factorization.ipynb), [lesson 06](06_attention_as_svm.ipynb), [lesson
# 10](10_cross_self_attention.ipynb), [lesson 11](11_key_query_nuclear.ipynb), [lesson
# 13](13_nonlinear_heads.ipynb) and [lesson 14](14_sequence_causal.ipynb); for one optional exercise also
# [lesson 02](02_hard_margin_svm.ipynb). About 90 minutes (135 with a pencil) with two exercises; two more in
# optional sections, of which 18.8 also looks back to [lesson 03](03_optimizer_geometry.ipynb).
#
# **The thread.** A first instrument cannot tell training from chance (18.1 to 18.4). We try a second one near
# a theorem and where no SVM waits (18.5), then turn it on real heads (18.6), and ask which ingredients of a
# transformer end the theory (18.7, 18.8).

# %%
import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure
from scipy import stats
from scipy.optimize import nnls
from torch.nn.functional import cross_entropy, layer_norm, softplus

from course.exercise import check, exercise, progress, todo
from course.figure import show
from course.replicate import measured
from course.replicate.lesson_18 import LADDER, LOOKS, begin_one, cases, under_norms
from course.replicate.taken_apart import few_sentences
from mini_attn import datasets, geometry, plots, svm, widgets

from course.replicate.lesson_18 import fallen, few_layers, loss_at  # isort: skip

plots.style()
torch.set_num_threads(1)  # many small tensors: one thread is fastest
np.set_printoptions(precision=2, suppress=True)
BLUE, ORANGE, GREEN, GREY, BLACK = map(plots.COLORS.get, ("blue", "vermillion", "green", "grey", "black"))
again = "this differs from the text: if exercise {} has no tick, start there"

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 18.1 A transformer, and the idea in a picture
#
# A digit of 8 by 8 pixels is cut into 16 patches of 2 by 2: a sequence of $T = 16$ tokens with 4 numbers
# each, embedded in $d = 32$ dimensions with a vector for their place. Each of two layers has four heads. A
# head with keys $K$ and queries $Q$ ($32 \times 8$) has the matrix $W = K Q^\top / \sqrt 8$. Position $k$
# looks at token $t$ with the logit $a_t^\top W a_k$, where $a$ is what the layer reads: the tokens, each
# shifted and scaled to mean 0 and standard deviation one. The softmax over $t$ is its attention $s_{kt}$.
# Through a *value* and an output matrix the head adds its mixture $\sum_t s_{kt} a_t$ to token $k$; then the
# *MLP*, a ReLU net with 64 hidden units, adds its output (each such addition is a *residual* step). Every
# position asks, and a last matrix, the *readout*, reads the answer from the mean over all positions. MLP and
# readout, too, read the tokens so shifted and scaled, by *LayerNorm* (in code `norm`).


# %%
def norm(x):
    """Each token minus its mean, over its standard deviation."""
    return layer_norm(x, x.shape[-1:])


def per_head(a, M):
    """Tokens a (n, T, d) times each head's M (heads, d, m): (n, heads, T, m)."""
    return torch.einsum("ntd,hdm->nhtm", a, M)


def attend(P, layer, x, real):
    """What the heads of a layer read (n, T, d), their attention (n, heads, T, T), what they add (n, T, d)."""
    a = norm(x)
    K, Q, V, out = (P[f"{name}{layer}"] for name in "KQVO")
    if (W := P.get(f"W{layer}")) is None:
        h = per_head(a, Q) @ per_head(a, K).mT / K.shape[-1] ** 0.5  # (n, heads, k, t): a_t^T W a_k
    else:  # 18.6 trains W itself
        h = per_head(a, W.mT) @ a[:, None].mT
    s = h.masked_fill(~real[:, None, None], -torch.inf).softmax(-1)
    return a, s, torch.einsum("nhkm,hmd->nkd", s @ per_head(a, V), out)


def transformer(P, x, real, keep=None):
    """Answers (n, classes) for embedded tokens x (n, T, d), real (n, T) where they are no padding."""
    for layer in (0, 1):
        a, s, added = attend(P, layer, x, real)
        if keep is not None:
            keep.append((a, s))
        x = x + added  # residual
        U, b, D = (P[f"{name}{layer}"] for name in "UbD")
        x = x + torch.relu(norm(x) @ U + b) @ D  # the MLP, and its residual
    return (norm(x) * real[..., None]).sum(1) / real.sum(1, keepdim=True) @ P["read"]


# %% [markdown]
# We train one by Adam, on batches of 32 digits, and keep what eight digits look at before and after.

# %% tags=["nbval-ignore-output"]
pictures = datasets.digits()  # X (n, 16 patches, 4 pixels), y (n,)
train, valid, _ = datasets.split(pictures, seed=0)  # numbers of the digits to learn, and of unseen ones
P = begin_one(4, 16, 10, seed=0)  # random weights: names as in the text, with the layer behind
start = {name: w.detach().clone() for name, w in P.items()}
optimizer = torch.optim.AdamW(P.values(), lr=3e-3, weight_decay=0.0, fused=True)
generator = torch.Generator().manual_seed(0)
moments = {}  # step -> attention over eight digits, of each layer
everywhere = torch.ones(len(pictures.y), 16, dtype=torch.bool)


def answers(P, rows, keep=None):
    return transformer(P, pictures.X[rows] @ P["embed"] + P["place"], everywhere[: len(rows)], keep)


for step in range(251):
    if step in (0, 250):
        keep = []
        with torch.no_grad():
            answers(P, train[:8], keep)
        moments[step] = [s.numpy() for _, s in keep]
    some = train[torch.randint(0, len(train), (32,), generator=generator)]
    loss = cross_entropy(answers(P, some), pictures.y[some])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# %% jupyter={"source_hidden": true}
drawn = 6
fig, axes = plt.subplots(2, 5, figsize=(10, 4.3))
image = pictures.X[train[drawn]].reshape(4, 4, 2, 2).swapaxes(1, 2).reshape(8, 8)
axes[0, 0].imshow(image, cmap="gray_r")
axes[0, 0].set_title(f"a digit: {int(pictures.y[train[drawn]])}")
axes[1, 0].axis("off")
for row, (step, name) in enumerate(((0, "before training"), (250, "after 250 steps"))):
    axes[row, 1].set_ylabel(name)
    for head in range(4):
        received = moments[step][1][drawn, head].mean(0).reshape(4, 4)
        shown = axes[row, head + 1].imshow(received, cmap="Blues", vmin=0, vmax=0.75)
        axes[0, head + 1].set_title(f"layer 2, head {head + 1}")
for ax in axes.flat:
    ax.set(xticks=[], yticks=[])
    ax.grid(False)
fig.colorbar(shown, ax=axes[:, -1], label="attention received")
show(
    fig,
    alt="A digit and four maps of 4 by 4 patches, before and after training. Before, each head spreads its "
    "attention over many patches; after training head 1 prefers the first patch, heads 3 and 4 the third of "
    "the third row, and head 2 still spreads.",
)

# %% [markdown]
# **Figure 1.** One digit, and the attention that its patches receive in layer 2, averaged over positions.
#
# On this digit three heads come to prefer one patch; head 2 still spreads its attention. The
# sliders show single positions, in both layers.


# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output", "widget"]
def heads_at(step, layer, position):
    """What each head looks at from one position."""
    figure = Figure(figsize=(8, 2.5), layout="none")  # constrained layout would draw twice
    for head in range(4):
        ax = figure.add_axes((0.02 + 0.245 * head, 0.06, 0.22, 0.72))
        received = moments[step][layer - 1][drawn, head, position - 1].reshape(4, 4)
        ax.imshow(received, cmap="Blues", vmin=0, vmax=1)
        ax.add_patch(plt.Rectangle(((position - 1) % 4 - 0.5, (position - 1) // 4 - 0.5), 1, 1, fill=False,
                                   edgecolor=ORANGE, linewidth=3))  # fmt: skip
        ax.set(xticks=[], yticks=[])
        ax.set_title(f"layer {layer}, head {head + 1}, step {step}", fontsize=11)
        ax.grid(False)
    return figure


widgets.sliders(
    heads_at,
    alt="Attention of four heads over 16 patches from one position, framed",
    step=ipywidgets.SelectionSlider(options=list(moments), value=250, description="step"),
    layer=ipywidgets.IntSlider(value=2, min=1, max=2, description="layer"),
    position=ipywidgets.IntSlider(value=6, min=1, max=16, description="position"),
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 18.2 Does attention become sparse, and when?
#
# In the theorems the weights keep growing, and attention tends to one token. We measure its entropy,
# $-\sum_t s_{kt} \log s_{kt}$, as a share of its largest value: 1 is even attention, 0 is one token. Beside
# the digits we take *sentences*: the first 16 words of 2,000 from film reviews, labelled good or bad, in a
# vocabulary of 2,000. On each task ten networks train for 400 steps of Adam; we measure at nine. `measured`
# reads these stored runs
# ([`course/replicate/lesson_18.py`](../course/replicate/lesson_18.py) made them).
#
# **Predict first.** Does most of the fall in entropy come before the training set is fitted (99% of 1,000
# sequences right)?

# %%
heads, onward, further = (measured(f"18.{name}").load() for name in ("heads", "onward", "further"))
runs = heads.sel(decay=0.0)  # without weight decay
for tokens in ("digits", "sentences"):
    cell = onward.sel(tokens=tokens)
    entropy = cell.entropy.values.mean((-2, -1))  # (ten runs, looks)
    fitted = (cell.train.values >= 0.99).argmax(-1)  # the first time with 99% right
    fall = (entropy[:, 0] - entropy[range(10), fitted - 1]) / (entropy[:, 0] - entropy[:, -1])
    least = cell.entropy.values[:, -1].mean(-1).min()  # at step 400, of a network's layer
    print(f"{tokens:10s} 99% right at step {LOOKS[fitted.min()]} to {LOOKS[fitted.max()]}; of the fall in "
          f"400 steps, come one time before: {fall.min():.2f} to {fall.max():.2f}")  # fmt: skip
    print(f"{'':10s} after 400 steps: least entropy of a layer {least:.2f}")
    assert min(fall.min() - 0.6, least - 0.3) > 0
longer = further.entropy.values.mean(-1)  # five of the networks on digits: (1, networks, layers)
print("digits, after 2,000 steps: entropy of layers 1, 2", longer.mean((0, 1)), f"least {longer.min():.2f}")
assert longer.min() > 0.25

# %% [markdown]
# **Yes, mostly:** in each of ten runs 0.77 or more of the fall in 400 steps on digits, and 0.65 or more on
# sentences, has come at the last measurement before the training set is fitted.
#
# **Attention becomes sparser, but no layer's mean comes near 0.** After 400 steps the mean entropy of each
# layer is above 0.3 of the largest; on digits, after 2,000, above 0.25, and in layer 1 still about 0.67.

# %% jupyter={"source_hidden": true}
fig, axes = plt.subplots(1, 2, figsize=(10, 3.9), sharey=True)
for ax, tokens in zip(axes, ("digits", "sentences"), strict=True):
    cell, steps = onward.sel(tokens=tokens), np.array(LOOKS)
    for k, (color, marker) in enumerate(((BLUE, "o"), (ORANGE, "s"))):
        of_layer = cell.entropy.values[..., k, :].mean(-1)
        ax.plot(steps, of_layer.mean(0), color=color, marker=marker, label=f"entropy, layer {k + 1}")
        ax.fill_between(steps, of_layer.min(0), of_layer.max(0), color=color, alpha=0.2)
    wrong = 1 - cell.train.values
    ax.plot(steps, wrong.mean(0), color=BLACK, linestyle="--", label="wrong in training")
    ax.fill_between(steps, wrong.min(0), wrong.max(0), color=BLACK, alpha=0.15)
    ax.set(title=tokens, xlabel="step", ylim=(-0.03, 1.0))
axes[0].set_ylabel("share of entropy, share wrong")
axes[1].legend(loc="upper right", fontsize=10)
show(
    fig,
    alt="Entropy of attention in layers 1 and 2, as a share of the largest, and the share of training "
    "sequences that are wrong, against the step, for digits and sentences. Most of the fall in entropy comes "
    "while the share wrong falls to 0; between 0.3 and 0.7 is left at the end.",
)

# %% [markdown]
# **Figure 2.** Mean entropy of each layer, as a share of the largest, and the share wrong in training (bands:
# range of ten runs).

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 18.3 The first instrument: a head's own SVM
#
# Lesson 14's SVM asks for a margin of 1 of each selected token over each other one, in every such comparison.
# A head selects by its largest logit, so some multiple of its $W$ meets them all (if no logits tie). But the
# hard-margin SVM may depend on a few that are nearly ties, so we let comparisons be missed, at a price.
# Below, $x = a/\sqrt{32}$ is what a layer reads, scaled to length 1 (not the `x` of `transformer`), and $W_0$
# is the head's matrix before training.
# The sequences over which an SVM is made are its **judges**: here ten digits.
#
# > **The soft-margin attention SVM.** For a price $C > 0$ and a selected token $\alpha_{ik}$
# > (sequence $i$, position $k$),
# >
# > $$\min_W\ \tfrac12\lVert W\rVert_F^2 + \tfrac C2 \sum_{i,k}\sum_{t \ne \alpha_{ik}} \xi_{ikt}^2, \qquad
# > \xi_{ikt} = \max\bigl(0,\ 1 - (x_{i\alpha_{ik}} - x_{it})^\top W x_{ik}\bigr).$$
# >
# > It has one solution, since the objective is strongly convex.
#
# We compare how each head has moved, $W - W_0$, with the SVM of what it selects after training. From every
# $W$ we drop the means of its rows and columns, which tokens of mean 0 cannot feel. `svm.solve_soft` solves
# the SVM, and `geometry.cosine` takes the cosine in the Frobenius inner product.


# %%
def matrices(P, layer):
    """W of each head, without what a token of mean 0 cannot feel: (heads, d, d)."""
    W = (P[f"K{layer}"] @ P[f"Q{layer}"].mT / 8**0.5).detach()
    W = W - W.mean(-1, keepdim=True)
    return W - W.mean(-2, keepdim=True)


def choices(W, x):
    """What each head selects for each position, (heads, n, T): W (heads, d, d), tokens x (n, T, d)."""
    return ((x[:, None] @ W.mT) @ x[:, None].mT).argmax(-1).swapaxes(0, 1)


def svm_of(W, x, C=1.0):
    """The SVM of what W selects over tokens x, of each head: (heads, d, d)."""
    return svm.solve_soft(x.expand(4, -1, -1, -1), choices(W, x), C).value


def read(P, rows):
    """The tokens, of length one, that each layer reads: (rows, 16, d) each."""
    keep = []
    with torch.no_grad():
        answers(P, rows, keep)
    return [a / 32**0.5 for a, _ in keep]


unseen, learned = read(P, valid[:10]), read(P, train[:10])
trained = [matrices(P, layer) - matrices(start, layer) for layer in (0, 1)]  # how W has moved
for layer, x in enumerate(unseen):
    cosines = geometry.cosine(trained[layer], svm_of(matrices(P, layer), x))
    print(f"layer {layer + 1}: cosine of W - W_0 to the SVM, by head:", cosines.numpy().round(1))

# %% [markdown]
# The cosines are about 0.5, on ten unseen digits and at $C = 1$. In the $31 \cdot 31 = 961$ dimensions that
# are left without means, that looks like much.
# **Stop here, and list what else than training could give 0.5.**

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 18.4 Controls
#
# One suspect is the selection itself. The SVM was given the tokens that $W$ selects; and whoever labels
# points by a plane, and fits an SVM to these labels, gets much of the plane back. A fair rival therefore
# moves as far as the trained $W$, in a direction that nobody trained, and is judged by its own selection.
#
# Whatever the loss, its gradient in $W$ has the form $\sum_{i,k,t} c_{ikt}\, x_{it} x_{ik}^\top$ with
# $\sum_t c_{ikt} = 0$, since the slopes of a softmax add up to 0. The **free $W$** moves along such a sum
# over the tokens that the trained network reads of ten training digits, or sentences, with random $c$. A
# second control gives the SVM tokens that are selected at random.
#
# In the stored networks those ten also judge, while the trained $W$ has learned more than 1,000: the free $W$
# has a head start. In your network ten *unseen* digits judge, and for comparison those ten.
#
# **Predict first:** is the free $W$'s cosine to its SVM near 0, about 0.25, or 0.5 and above?

# %%
generator = torch.Generator().manual_seed(0)


def random_slopes(x):
    """Four random sums of the form of a gradient, of length one: (4, d, d)."""
    c = torch.randn(4, 10, 16, 16, generator=generator, dtype=torch.float64)
    M = torch.einsum("hikt,itd,ike->hde", c - c.mean(-1, keepdim=True), x, x)
    return M / M.norm(dim=(1, 2), keepdim=True)


def to_its_svm(moved, layer, judges=None):
    """Cosines of four movements from W_0 to the SVMs of what they select over judges, or unseen digits."""
    return geometry.cosine(moved, svm_of(matrices(start, layer) + moved, (judges or unseen)[layer]))


moves = {"own": trained, "free": []}  # of each layer, (4, d, d)
for moved, x in zip(trained, learned, strict=True):
    moves["free"].append(moved.norm(dim=(1, 2), keepdim=True) * random_slopes(x))
yours = {name: [to_its_svm(those[k], k).mean() for k in (0, 1)] for name, those in moves.items()}
print("your network, ten unseen digits judge, means of layers 1, 2")
print("{:52s} {:5.2f}, {:.2f}".format("digits     movement to the SVM of its own selection", *yours["own"]))
print("{:52s} {:5.2f}, {:.2f}".format("digits     a free W to the SVM of its own", *yours["free"]))
drawn_over = [to_its_svm(moves["free"][k], k, learned).mean() for k in (0, 1)]
print("{:52s} {:5.2f}, {:.2f}".format("digits     the same, by the ten it is drawn over", *drawn_over))
assert sum(yours["free"]) > sum(yours["own"])
print("\nten networks, ten training sequences judge, means of layers 1, 2")
kinds = {
    "own": "movement to the SVM of its own selection",
    "random_tokens": "    to the SVM of tokens at random",
    "never_trained": "a free W to the SVM of its own",
}
for tokens in ("digits", "sentences"):
    for name, what in kinds.items():
        means = runs[name].sel(tokens=tokens).values.mean((0, 2)).round(2) + 0
        print(f"{tokens:10s} {what:41s}", "{:5.2f}, {:.2f}".format(*means))
ahead = (runs.never_trained.values - runs.own.values).mean(-1)  # (tokens, networks, layers)
print(f"the free W is ahead in {(ahead > 0).sum()} of {ahead.size} layers")
assert ahead.min() > 0

# %% [markdown]
# **0.5 and above: the free $W$ does *better* than the trained one,** in both layers of your network and in
# every layer of ten networks on each task. In your network it needs no head start for that. Tokens at random
# give about 0: so the cosine comes with the selection, whether or not somebody trained it.

# %% [markdown]
# ### Exercise 18.1: What a selection gives back
#
# ★★★ · 20 minutes
#
# How much does a selection give back by itself? In the simplest case there is an exact answer. One sequence
# has $T \ge 2$ orthonormal tokens, and each of them asks. A random matrix is
# $W = \sum_{kt} (c_{kt} - \bar c_k)\, x_t x_k^\top$ with `c` (T, T), $k$ before $t$, and $\bar c_k$ the mean
# over $t$. Each position selects its largest logit, and the soft-margin SVM is solved for these choices.
# Return the cosine of $W$ to its solution, without a solver. It is the same at every price.
#
# <details><summary>Hint 1</summary>
#
# What are the entries of $W$ in the basis of the tokens? And which of them does position $k$ use?
# </details>
# <details><summary>Hint 2</summary>
#
# So the SVM falls apart into $T$ problems, one a position, that differ in the name of the selected token
# only. In each, all other tokens are alike.
# </details>
# <details><summary>Hint 3</summary>
#
# So the positions' parts of the solution are copies of one vector: which, up to its length?
# </details>


# %%
@exercise("18.1")
def given_back(c):
    """Return the cosine, a float, for coefficients c (T, T), position before token."""
    ### BEGIN SOLUTION
    c = c - c.mean(1, keepdims=True)
    return float(c.max(1).sum() / (np.linalg.norm(c) * np.sqrt(len(c) - 1)))
    ### END SOLUTION


# %%
check("18.1", given_back)

# %%
rng = np.random.default_rng(0)
for T in (4, 16, 32, 64):
    c = rng.normal(size=(40, T, T))
    X, W = torch.eye(T, dtype=torch.float64), torch.from_numpy(c - c.mean(-1, keepdims=True)).mT
    solution = svm.solve_soft(X.expand(40, 1, T, T), W.argmax(-2)[:, None], C=1.0)
    solved, mine = geometry.cosine(W, solution.value).mean(), np.mean([given_back(one) for one in c])
    law = rng.normal(size=(10_000, T)).max(1).mean() * T**0.5 / (T - 1)
    print(f"{T:2d} orthonormal tokens judge: solver {solved:.2f}, exercise {mine:.2f}, law {law:.2f}")
    assert max(abs(solved - mine), abs(law - mine) / 2) < 0.01, again.format("18.1")

# %% [markdown]
# **The law:** for standard normal $c$, from $T = 4$ on, the cosine is about $\mu_T \sqrt T / (T - 1)$, where
# $\mu_T$ is the mean of the largest of $T$ entries: 0.47 at $T = 16$. In 18.4 ten sequences judge, their
# tokens are not orthonormal, and $W_0$ is not 0. So the law suggests why the free $W$'s cosines, 0.56 to
# 0.62, are not near 0, but not how large they are.
#
# <details><summary>Why</summary>
#
# The positions' largest add up to about $T \mu_T$, and the centred $c$ has about the length
# $\sqrt{T (T - 1)}$.
# </details>
#
# The trained $W$ has less than the free one. Is that a sign of training after all? Training moves $K$ and
# $Q$, which have only 8 columns, so here is a rival that moves these, too. **Predict:** will it have more
# than the free $W$, about the 0.5 of the trained heads, or next to nothing?

# %% [markdown]
# ### Exercise 18.2: Keys and queries that nobody trained
#
# ★★★ · 20 minutes
#
# Keys `K` and queries `Q`, (d, m), make $W = K Q^\top/\sqrt m$. Let the pull on $W$, the negative slope of
# the loss in it (lesson 04), be a constant $M$: `M` is (d, d), of Frobenius norm 1.
# Descend on $K$ and $Q$ at once, in vanishingly small steps, until $\lVert W - W_0\rVert_F$ is `far`. Return
# $W - W_0$, (d, d). Each entry may be off by 1% of the largest.
#
# <details><summary>Hint 1</summary>
#
# The loss changes by $-\langle M, \mathrm{d}W\rangle$. Write $\mathrm{d}W$ with $\mathrm{d}K$ and
# $\mathrm{d}Q$; which direction of $K$ does most? The factor $1/\sqrt m$ changes how fast $W$ moves, not
# where.
# </details>
# <details><summary>Hint 2</summary>
#
# Many short steps will do. Halve them until the answer stands still.
# </details>


# %%
@exercise("18.2")
def moved_by_pairs(K, Q, M, far):
    """Return W - W_0 (d, d) after a flow of K and Q (d, m) along M (d, d) over the distance `far`."""
    ### BEGIN SOLUTION
    W_0, root = K @ Q.T, np.sqrt(K.shape[1])
    moved = 0 * M
    while np.linalg.norm(moved) < far:
        dK, dQ = M @ Q, M.T @ K
        speed = np.linalg.norm(dK @ Q.T + K @ dQ.T) / root
        h = far / (300 * speed)
        K, Q = K + h * dK, Q + h * dQ
        moved = (K @ Q.T - W_0) / root
    return moved
    ### END SOLUTION


# %%
check("18.2", moved_by_pairs)


# %%
def along(K, Q, M, moved):
    """Each head's W - W_0 after a flow along its M (4, d, d), as far as `moved` (4, d, d): K, Q (4, d, m)."""
    far = moved.norm(dim=(1, 2)).tolist()
    heads = zip(*(part.numpy() for part in (K, Q, M)), far, strict=True)
    return torch.as_tensor(np.stack([moved_by_pairs(*head) for head in heads]))


pairs = []
for k, x in enumerate(learned):  # M is drawn as the free W's direction was
    K, Q = (start[f"{name}{k}"] - start[f"{name}{k}"].mean(1, keepdim=True) for name in "KQ")
    pairs.append(to_its_svm(along(K, Q, random_slopes(x), trained[k]), k).mean())
print("your network, layers 1 and 2: untrained", np.array(pairs))
assert abs(np.mean(pairs) - 0.47) < 0.06, again.format("18.2")
ten = measured("18.ten").load()  # twenty networks a task, each of which learns ten sequences
both = ten.pair_own_seen.values, ten.own_seen.values[:, :, -1]  # (tasks, networks, layers, heads)
nobody, ours = (values.mean((1, 3)).ravel() for values in both)
print(f"twenty on digits, on sentences, layers 1 and 2: untrained {nobody}, trained {ours}")
assert abs(nobody - ours).max() < 0.04

# %% [markdown]
# **They have about what the trained ones have:** in your network, judged by ten unseen digits (0.51 and 0.47
# against 0.50 and 0.43), and in the means of twenty networks, each judged by the ten sequences that it has
# learned. So this cosine hardly tells a trained head from one that chance has moved: we need another
# instrument.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 18.5 A second instrument, and its controls
#
# > **Theorem** ([lesson 10](10_cross_self_attention.ipynb); Tarzanagh et al., 2023; informal). *Conditions:*
# >
# > 1. Tokens and readout, here a vector $v$, stay; one token of a sequence asks.
# > 2. The slope $\ell'$ of the loss is below 0, bounded and Lipschitz: no finite answer is best.
# > 3. $W$ itself takes gradient steps with a constant factor, at most a bound that the smoothness of the
# >    mean loss $L$ sets.
# > 4. The hard-margin SVM of a selection, one token a sequence, is feasible; and each token whose comparison
# >    holds with equality has a score, by the readout, strictly below that of the selected one.
# >
# > *Then* there are an angle and a radius such that from every start within that angle of the SVM's solution
# > $W_{\mathrm{mm}}$ and longer than that radius, $\lVert W\rVert_F \to \infty$ and $W / \lVert W\rVert_F \to
# > W_{\mathrm{mm}} / \lVert W_{\mathrm{mm}}\rVert_F$.
#
# **The linear layer** is attention alone, with one head and a fixed random readout, which reads one answer
# $f$ from the mean over all 16 words. It learns the labels $y = \pm 1$ of ten sentences of different words,
# with the loss $\ln(1 + e^{-y f})$, in four ways: $W$ itself is trained, or $K$ and $Q$; and either by
# *descent*, here in steps of length 0.03, or by Adam. All start at one $W_0$ and end equally far from it.
#
# <details><summary>How near is the theorem?</summary>
#
# $W$ by descent meets (2); (1), except that all words ask; and (3), except that its factor grows as the
# gradient vanishes, so leaves the bound. Scores, angle and radius are unchecked, and we use the soft SVM,
# with $C = 1$.
# </details>
# <details><summary>The runs in full</summary>
#
# The hard-margin SVM is feasible, as in 18.3, but may depend on near ties; the soft one tends to it as
# $C \to \infty$.
# With embeddings $a_t$ the answer is $f = \frac1{16}\sum_{k,t} s_{kt}\, v \cdot a_t$, where $s_{kt}$ is the
# softmax of $a_t^\top W a_k$ over $t$; `loss_at` takes the mean loss over the ten sentences, given as
# $x = a/\sqrt d$. Embeddings are random, of length $\sqrt d$, and the readout has the length 4. $K$ and $Q$
# have 8 columns. Adam has the rate 0.003. All end as far from $W_0$ as 400 steps of Adam bring $K$ and $Q$,
# to 1%. In transformers and in the next cell a rival takes the $G$ of what is trained; in the table after it
# that of its own kind ($W$'s for the free $W$, that of $K$ and $Q$ for the untrained ones). This matters
# little: the mean gap of untrained $K$ and $Q$ changes by less than 0.01 (asserted in a test of this course).
# Lines with $d = 16$ are of the same layer in 16 dimensions, where 400 steps of Adam bring $K$ and $Q$
# farther, in lengths of $W_0$.
# </details>
#
# **The instrument.** Each network learns ten sequences only. What its trained $W$ selects makes two SVMs: $S$
# over these ten, $S'$ over ten unseen ones. What training puts into $W$ should be nearer to $S$.
#
# Of the movement we take only what is new. The **first path** $G$ is where *descent* would have taken $W$, as
# far, had the negative slope of the loss stayed as it is at $W_0$: straight on for $W$, and for $K$ and $Q$
# as in exercise 18.2. It knows the ten sequences before any training, so we take it out: $N$, of length one,
# is the direction of the part of $W - W_0$ orthogonal to $G$. With means over heads above and below the line,
#
# $$\text{gap of } N = \frac{\cos(N, S) - \cos(N, S')}{1 - \cos(S, S')}.$$
#
# It is 1 if $N$ is along $S$, for then $\cos(N, S') = \cos(S, S')$, and 0 if $N$ is as near to $S'$; but 1 is
# a mark, not a bound: along $S - S'$ it is larger. The theorem puts $W$ in the end along a hard-margin SVM.
# Were it $S$, $N$ would be $S$ less its part along $G$, and the gap near 1 if $G$ is far off: 0.87 to 1.15 in
# the stored layers with $d = 32$ (a test asserts it).
#
# **The rivals** are two, a **free $W$** (18.4) and **untrained $K$ and $Q$** (exercise 18.2). Each moves as
# far and is judged by its own choices. They have gaps, too, since both move along sums over the tokens of
# which $S$ is made. So a gap by itself shows no training, and a way of training is **seen** only if its gap
# of $N$ leads both by more than chance allows. 18.5, 18.6 and 18.8 print 48 such leads, and 4 differences
# between runs; so each gets an interval of $1 - 0.05/52$: then, if they are near normal, all hold at once
# with a probability of at least 95%.
#
# **The negative control** is training that has everything but the claimed cause, an SVM to which $W$ runs
# off. *Soft targets* give the label a share $p < 1$ and its opposite the rest. The loss
# $p \ln(1 + e^{-yf}) + (1 - p) \ln(1 + e^{yf})$ is least at $yf = \ln\frac{p}{1 - p}$. So (2) fails, and the
# theorem names no SVM.
#
# Twenty linear layers train $W$ by descent, with labels ($p = 1$) and soft targets ($p = 0.95$),
# until they are half a length of $W_0$ away. Then soft targets go on to their minimum, where steps are halved
# until the loss falls again; and labels go as far.
# **Predict first:** are soft targets seen, too? And have labels more?

# %%
layers = few_layers(20, seed=1)
W_0, K, Q, _, _, x_ten, x_new = layers  # x_new: ten unseen sentences


def line_of_gap(moved, W_0, G, judges):
    """What stands above and below the line of the gap of N, for each head: moved, W_0 (heads, d, d)."""
    # G: (heads, d, d), or several, (n, heads, d, d)
    # judges: tokens of ten learned and of ten unseen sequences, (heads, 10, T, d) each
    W, G = W_0 + moved, G / G.norm(dim=(-2, -1), keepdim=True)
    N = moved - (moved * G).sum((-2, -1), keepdim=True) * G
    chosen = [(x @ W[:, None].mT @ x.mT).argmax(-1) for x in judges]
    S, S_new = (svm.solve_soft(*each, C=1.0, tol=1e-3).value for each in zip(judges, chosen, strict=True))
    to_S, to_new = (geometry.cosine(N, fit.expand_as(N), N.dim() - 2) for fit in (S, S_new))
    return to_S - to_new, 1 - geometry.cosine(S, S_new)


def interval(x, level=1 - 0.05 / 52):
    """The mean over runs, and half the width of its interval."""
    return x.mean(), stats.t.ppf((1 + level) / 2, len(x) - 1) * x.std(ddof=1) / len(x) ** 0.5


def length(W):
    return W.norm(dim=(1, 2), keepdim=True)


def pull(W, p=1.0):
    """The negative slope of each layer's loss at W (layers, d, d): p is the label's share."""
    W = W.clone().requires_grad_()
    return -torch.autograd.grad(loss_at(W, layers, p).sum(), W)[0]


def descended(W, p, steps, far=torch.inf):
    """W after steps of 0.03, halved while the loss would not fall, until each layer is `far` from W_0."""
    stride = 0.03
    for _ in range(steps):
        step = pull(W, p)
        there = W + stride * step / length(step)
        falls = (loss_at(there, layers, p) < loss_at(W, layers, p))[:, None, None]
        W = torch.where(falls & (length(W - W_0) < far), there, W)
        stride = torch.where(falls, 1.2 * stride, stride / 2).clamp(max=0.03)
    return W


size = length(W_0)
by_chance = torch.stack([random_slopes(x)[0] for x in x_ten])
shares = (1.0, 0.95)
G = torch.stack([pull(W_0, p) for p in shares])  # each loss has its own
near = [descended(W_0, p, 30, 0.5 * size) for p in shares]
at_minimum = descended(near[1], 0.95, 250)
as_far = descended(near[0], 1.0, 100, length(at_minimum - W_0))
fall, left = fallen(at_minimum, layers, 0.95), length(pull(at_minimum, 0.95)) / length(G[1])
print(f"soft targets at last: least share of the fall in loss {fall.min():.3f}, mean {fall.mean():.3f};",
      f"slope, in that at W_0: at most {left.max():.4f}\n")  # fmt: skip
for moved in (torch.stack(W) - W_0 for W in (near, (as_far, at_minimum))):  # (shares, layers, d, d)
    far = length(moved[1])
    pairs = along(K, Q, by_chance, far)
    those = *zip(moved, G, strict=True), (far * by_chance, G), (pairs, G)
    lines = [line_of_gap(step, W_0, first, (x_ten, x_new)) for step, first in those]
    *own, free, untrained = (above / below for above, below in lines)
    for k, p in enumerate(shares):
        leads = [interval((own[k] - rival[k]).numpy()) for rival in (free, untrained)]
        said = [f"{mean:.2f} ± {half:.2f}" for mean, half in leads]
        print(f"p = {p:.2f}, {(far / size).mean():.2f} lengths away: gap of N about {own[k].mean():.1f},",
              f"less free W {said[0]}, less untrained {said[1]}")  # fmt: skip
        assert all(mean > half for mean, half in leads), again.format("18.2")
    mean, half = interval((own[0] - own[1]).numpy())
    print(f"labels less soft targets, layer by layer: {mean:.2f} ± {half:.2f}\n")
assert mean > half

# %% [markdown]
# **Yes, they are seen, even at their minimum,** where $W$ all but stands still: there soft targets with
# $p = 0.95$ lead the free $W$ by 0.29, and untrained $K$ and $Q$ by 0.35. So a lead says that $W$ followed
# slopes at the ten sequences: not whose (in 18.8 a loss without labels leads, too), nor that it runs off to
# an SVM.
#
# **Labels have more where these soft targets are at their minimum:** 0.13 ± 0.10, as far in each layer. Half
# a length is too early: there the two have gone nearly the same way, and differ by 0.01 ± 0.02. This
# rests on one draw of layers, and one $p$.

# %%
# Each holds (place, way) -> (runs, heads). Cosines: of the movement to S and S', of G to both, of S to S', of
# the movement to G; then the share of the loss that is gone, and the distance from W_0.
own, first, alike, to_first, gone, away = map(cases, ("own", "first", "judges", "to_first", "gone", "moved"))


def gap_of_N(at):
    """The gap of N in each run. The movement is along cos G + sin N, so its cosines give those of N."""
    cos = to_first[at]
    ten_learned, ten_unseen = (own[at] - cos * first[at]) / (1 - cos**2) ** 0.5  # cosines of N: (runs, heads)
    return (ten_learned - ten_unseen).mean(-1) / (1 - alike[at]).mean(-1)


def is_seen(name, place, way, far=""):
    """Print a line of the table; whether both leads are above 0."""
    at = place, way + far
    leads = [interval(gaps[at] - gaps[place, rival + far]) for rival in rivals]
    seen = all(mean > half for mean, half in leads)
    said = [f"{round(mean, 2) + 0:8.2f} ± {half:.2f}" for mean, half in leads]
    means = f"{away[at].mean():6.2f}{gone[at].mean():7.2f}{gaps[at].mean():8.2f}"
    print(f"{name + far:36s}{means}", *said, f"{'yes' if seen else 'no':>8s}")
    return seen


gaps = {at: gap_of_N(at) for at in own}
rivals = ["free W", "untrained K and Q"]
columns = f"{'':36s}distance gone  gap of N  less free W  less untrained  seen"

# %% [markdown]
# Each line of the table is a mean over twenty other networks: the distance
# $\lVert W - W_0\rVert_F / \lVert W_0\rVert_F$; the share of the loss that is gone; the gap of $N$; and its
# lead over each rival. A name that ends in "0.5" or "1" means the first step at that distance.
#
# **Predict first:** order the four ways by their gap of $N$.

# %%
print(columns)
ends = [(way, "") for way in ("W by descent", "W by Adam", "K and Q by descent", "K and Q by Adam")]
for way, far in (*ends, ("W by descent", ", 0.5"), ("K and Q by Adam", ", 0.5")):
    assert is_seen(f"d = 32, {way}", "d = 32", way, far) == (not far or way == "W by descent")
assert is_seen("d = 16, W by descent", "d = 16", "W by descent")
assert not is_seen("d = 16, W by descent", "d = 16", "W by descent", ", 0.5")

# %% [markdown]
# **The means' order at the end is $W$ by descent (0.82), $W$ by Adam (0.56), keys and queries by descent
# (0.35), and by Adam (0.27).** All four are seen there, at $d = 32$.
#
# At half a length $W$ by descent is seen, and leads the nearer rival by 0.22; keys and queries by Adam are
# not. At $d = 16$, $W$ by descent is seen at the end, but not at half a length (0.11 ± 0.17).

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 18.6 Real heads
#
# Between the linear layer and a transformer stands a ladder. In transformers that learn ten digits we first
# freeze all but $W$, that of all eight heads in both layers, and train it by descent. On the next rung Adam
# trains $W$; on the third $K$ and $Q$ in its place; on the fourth $W$ and all the rest. On the last rung, 400
# steps of Adam train everything, with $K$ and $Q$, on ten digits or on ten sentences.
#
# <details><summary>How near is the theorem?</summary>
#
# On all rungs (1) fails: every position asks, LayerNorms and an MLP stand between head and readout, and layer
# 2 reads what layer 1 moves. (3) fails as in 18.5 on the first rung, and wholly on the others. (Soft targets,
# with 0.4 spread over all classes, are stored for the last rung: there their mean gaps are within 0.02 of
# those of labels, as a test of this course asserts.)
# </details>
#
# **Predict first:** on which rungs is training seen?

# %%
print(columns)
ladder = {way + far: is_seen(way, way, "digits", far) for way in LADDER for far in (", 0.5", ", 1")}
whole = [is_seen(f"all, with K and Q: {tokens}", tokens, "labels") for tokens in ("digits", "sentences")]
assert all(seen != (at in ("W by Adam, 0.5", "K and Q by Adam, 0.5")) for at, seen in ladder.items())
assert not any(whole)

# %% [markdown]
# **At one length the first four rungs are seen. At half a length whole transformers just are, with $W$ (the
# smaller lead, 0.05 ± 0.05, clears 0 by less than 0.01); with $K$ and $Q$, 0.57 and 0.39 lengths
# away, they are not:** on digits the free $W$ is too near to tell, and on sentences it is ahead.

# %% jupyter={"source_hidden": true}
fig, ax = plt.subplots(figsize=(9, 4.6))
fars = (", 0.5", ", 1", "")
looks = (
    ("d = 32", "W by descent", fars, "linear layer, W by descent", BLUE, "o", "-"),
    (LADDER[0], "digits", fars[:2], "transformer, W by descent", BLUE, "o", ":"),
    ("d = 32", "K and Q by Adam", fars, "linear layer, K and Q by Adam", ORANGE, "s", "-"),
    ("d = 32", rivals[0], fars, "linear layer, free W", GREY, "D", "--"),
    ("d = 32", rivals[1], fars, "linear layer, untrained K and Q", GREEN, "^", "--"),
)
for place, what, at, label, color, marker, line in looks:
    mean, half = np.array([interval(gaps[place, what + far], 0.95) for far in at]).T
    x = [away[place, what + far].mean() for far in at]
    ax.errorbar(x, mean, yerr=half, color=color, marker=marker, linestyle=line, capsize=3, label=label,
                markerfacecolor="white" if line == ":" else color)  # fmt: skip
for tokens in ("sentences", "digits"):
    x, (mean, half) = away[tokens, "labels"].mean(), interval(gaps[tokens, "labels"], 0.95)
    for rival, color, marker in zip(rivals, (GREY, GREEN), "D^", strict=True):
        ax.plot(x, gaps[tokens, rival].mean(), color=color, marker=marker, markerfacecolor="white")
    label = "transformer, all by Adam" if tokens == "digits" else None
    ax.errorbar(x, mean, yerr=half, color=BLACK, marker="*", markersize=11, capsize=3, linestyle="none",
                label=label)  # fmt: skip
    ax.annotate(tokens, (x, -0.03), ha="center", va="top", fontsize=10)
ax.set(xlabel="distance, in lengths of $W_0$", ylabel="gap of $N$", xscale="log")
ax.set(xlim=(0.32, 4), ylim=(-0.1, 0.9))
ax.set_xticks((0.5, 1, 2, 4), ("0.5", "1", "2", "4"))
ax.minorticks_off()
ax.axhline(0, color="0.5", linewidth=1)
ax.legend(loc="upper left", fontsize=10)
show(
    fig,
    alt="Gap of N with intervals against distance. In the linear layer W by descent rises from 0.33 at "
    "0.5 over 0.49 at 1 to 0.82 at 3.3; K and Q by Adam from 0.06 over 0.15 to 0.27. The free W stays at "
    "0.08 to 0.11, untrained K and Q at 0.05 to 0.07. In a transformer W by descent, all else frozen, has "
    "0.19 at 0.5 and 0.34 at 1. Two stars are whole transformers: sentences, 0.06 at 0.39, below their own "
    "free W at 0.11, and digits, 0.07 at 0.57, above theirs at 0.03; "
    "untrained K and Q have 0.04 and 0.00 there.",
)

# %% [markdown]
# **Figure 3.** Gap of $N$ in the linear layer with $d = 32$ and in transformers, each with its own 95%
# interval over twenty runs (the tables' are wider, and of leads paired by run). Hollow diamonds and triangles
# are the two rivals of the transformer at that star.

# %% [markdown]
# **The instrument sees training in a transformer, not its cause.** With all else frozen, $W$ by descent leads
# the nearer rival by 0.17 at half a length, and by 0.31 at one (dotted in Figure 3). On these rungs no soft
# targets are tried.
#
# **By Adam less is seen.** At one length the leads are 0.06 to 0.10; at half a length, all else frozen,
# neither $W$ nor $K$ and $Q$ is seen. In the linear layer $G$ makes part of this (18.8).

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 18.7 Taken apart
#
# Which ingredients of a transformer turn a head from its SVM? Each line of the table adds one ingredient or
# more, near the theorem.
#
# The *base* meets the theorem's (1) and (2). It is a linear layer on 16 sentences of 8 words, whose last word
# asks. Gradient descent trains $W$ from 0, in growing steps. The *LayerNorm* line also has one before
# attention; the *MLP* line also has a value matrix.
#
# The same sentences judge, by the SVM of lessons 10 and 14 with **hard** margins. Each line tells of ten
# draws: the cosine of $W$ to this SVM, that of a free $W$ to its own, and the share of *decided* choices,
# with an attention above 0.99. Three ingredients decide slowly and are trained longer.
#
# <details><summary>The runs in full</summary>
#
# $d = 32$; embeddings and readout are random, of length 1. With the answer $f$ and labels $y = \pm 1$ for
# good and bad reviews the loss is the mean of $\ln(1 + e^{-y f})$. Each step has 2% of the length of $W$, but
# 0.1 at least. Keys and queries start random, and the cosine is that of the whole $W$, not of $W - W_0$: so
# the random start counts in it. Learned embeddings judge as they are after training. In every line of 300
# steps longer runs stop before 2,000, most before 1,000: attention saturates, and a slope falls below
# $10^{-280}$, near the least number that float64 holds. So these lines tell of one run length.
# </details>
#
# **Predict first:** which of these turn $W$ from its SVM: a learned readout, $K$ and $Q$, Adam, LayerNorms,
# MLP?

# %%
apart, longer = (measured(f"18.{name}").load() for name in ("apart", "longer"))
print(f"{'median (smallest) cosine of W':34s} steps               free W  decided")
for setting in map(str, apart.setting.values):
    is_longer = setting in longer.setting  # ten times as long; the MLP until nearly all is decided
    cell = (longer if is_longer else apart).sel(setting=setting)
    steps = 300 if not is_longer else 1000 if "MLP" in setting else 3000
    cosine, free, made = (float(cell[x].median()) for x in ("whole", "whole_never_trained", "decided"))
    line = setting.replace(" norm", " LayerNorm")
    print(f"{line:34s} {steps:5d}  {cosine:.2f} ({cell.whole.min():.2f}){free:8.2f}{made:9.2f}")
    assert cell.whole.notnull().all()  # all ten draws have a hard margin
nuclear, of_pairs = apart.nuclear.sel(setting="+ K and Q"), measured("18.pairs").load().nuclear
print(f"+ K and Q, to the nuclear norm's SVM:     {nuclear.median():.2f} ({nuclear.min():.2f})")
print(f"untrained K and Q, as far, to theirs:     {of_pairs.min():.2f} to {of_pairs.max():.2f}")
assert of_pairs.max() < 0.6 < nuclear.min()
assert apart.whole.sel(setting="base").min() > 0.99

# %% [markdown]
# **$K$ and $Q$, Adam and all of the MLP line lie off it, learned embeddings in one draw at least; a
# learned readout turns it little, and LayerNorm is open.**
#
# - **A learned readout, or every token asking,** turns $W$ little: the median is still 0.98.
# - **Keys and queries** come nearer to lesson 11's SVM, of the nuclear norm, for their choices: 0.93, against
#   0.71 to the Frobenius norm's. Untrained ones have 0.33 to 0.53 to the nuclear one for theirs.
# - **Adam** leaves 0.84 to the Frobenius norm's SVM; 18.8 holds it against that of its own norm.
# - **Value matrix, residual and MLP** together leave 0.74, with nearly all choices decided.
# - **Learned embeddings** leave 0.95 in the median, 0.47 in one draw.
# - **LayerNorms** bring $W$ down to the free one after 3,000 steps. But most choices are undecided even then:
#   under LayerNorm a mixture can be better than any token (18.8).

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 18.8 Where it stops: LayerNorm, sinks and weight decay *(optional)*
#
# **Does it show in your own network of 18.1,** too, at one length? Below, its eight heads begin again at
# $W_0$ and learn ten digits by descent, as on 18.6's first rung, until all together they are one length away.
# **Predict:** which gap of $N$ have they?


# %% tags=["nbval-ignore-output"]
def pull_of_digits(W):
    """The negative slope of the loss on ten digits in W (layers, heads, d, d), all else as at the start."""
    W = W.clone().requires_grad_()
    f = answers(start | {"W0": W[0], "W1": W[1]}, train[:10])
    return -torch.autograd.grad(cross_entropy(f, pictures.y[train[:10]]), W)[0]


W = begin = torch.stack([matrices(start, layer) for layer in (0, 1)])
while (W - begin).norm() < begin.norm():
    step = pull_of_digits(W)
    W = W + 0.03 * 8**0.5 * step / step.norm()  # eight heads, each moves by about 0.03
tokens = [read(start | {"W0": W[0], "W1": W[1]}, rows) for rows in (train[:10], valid[:10])]
judges = [torch.stack(x).repeat_interleave(4, 0) for x in tokens]  # of a layer's four heads
moved, R = W - begin, torch.stack([random_slopes(x) for x in tokens[0]])
live = []
for those in (moved, moved.norm(dim=(-2, -1), keepdim=True) * R):
    above, below = line_of_gap(*(x.flatten(0, 1) for x in (those, begin, pull_of_digits(begin))), judges)
    live.append(above.mean() / below.mean())
print("gap of N {:.2f}, of a free W {:.2f}".format(*live))
assert live[0] > live[1] + 0.1

# %% [markdown]
# **0.36, and the free $W$ has much less,** in one network and over one draw: an example, without an interval.
#
# **Was $G$ unfair to Adam in 18.5 and 18.6?** At a constant slope Adam goes along the slope's signs, so its
# own first path is along $\operatorname{sign}(G)$. We train $W$ in the twenty layers of 18.5 by descent and
# by Adam, until it is one length away, and take out either path of Adam's. **Predict:** does Adam's lead over
# the free $W$ come up to that of descent?
#
# And a third rival: descent not in the loss, but in the mean entropy of attention over the ten sentences. It
# knows no label and no readout. (Embeddings have the length $\sqrt{32}$, $x$ has the length 1: so the logits
# are $32\, x_t^\top W x_k$.) **Predict:** does it lead the free $W$?


# %%
def sharper(W):
    """The negative slope of the mean entropy of attention over the ten sentences of each layer."""
    W = W.clone().requires_grad_()
    logs = (32 * x_ten @ W[:, None].mT @ x_ten.mT).log_softmax(-1)
    return torch.autograd.grad((logs.exp() * logs).sum(-1).mean((1, 2)).sum(), W)[0]


W, moved = W_0.clone().requires_grad_(), torch.zeros_like(W_0)
optimizer = torch.optim.Adam([W], lr=3e-3)
while (short := length(moved) < size).any():
    W.grad = -pull(W)
    optimizer.step()
    moved = torch.where(short, (W - W_0).detach(), moved)
W = W_0
while (short := length(W - W_0) < size).any():
    step = sharper(W)
    W = W + 0.03 * short * step / length(step)
paths = torch.stack([pull(W_0), pull(W_0).sign(), sharper(W_0)])
ends = (descended(W_0, 1.0, 60, size) - W_0, paths[:1]), (moved, paths[:2]), (W - W_0, paths[2:])
above, below = line_of_gap(size * by_chance, W_0, paths, (x_ten, x_new))
by_free, gaps_of = above / below, []
for those, along_them in ends:
    above, below = line_of_gap(those, W_0, along_them, (x_ten, x_new))
    gaps_of.extend(above / below)
descent, slope, signs, sharp = (torch.stack(gaps_of) - by_free[[0, 0, 1, 2]]).numpy()
lines = {
    "W by descent leads the free W by": descent,
    "W by Adam, G along the slope:": slope,
    "W by Adam, G along the signs:": signs,
    "W by descent in the entropy:": sharp,
    "by Adam, signs less slope:": signs - slope,
    "descent less Adam, slope:": descent - slope,
}
for name, lead in lines.items():
    print(f"{name:33s}{{:.2f}} ± {{:.2f}}".format(*interval(lead)))
assert min(lead.mean() - interval(lead)[1] for lead in (descent, signs, sharp, signs - slope)) > 0

# %% [markdown]
# **No, but part of the way:** descent has 0.36 ± 0.06, Adam along the slope 0.04 ± 0.05, which chance
# allows, and along the signs 0.16 ± 0.07. So $G$ makes some part of Adam's lag: 0.12 ± 0.06 of
# 0.32 ± 0.03. What makes the rest we do not know.
#
# **Descent in the entropy leads, by 0.49 ± 0.08,** in the mean by no less than descent in the loss. So a lead
# needs no task: descent in another function at those sentences can give one. (The entropy has no minimum,
# either, so this rival says nothing against an SVM.)
#
# **Was Adam held against the wrong matrix norm in 18.7?** In lesson 03 it came, late, to behave like the
# steepest descent of the maximum norm. So here we train the line "+ Adam" ourselves, on three draws, and take
# its cosines to the SVMs of both norms. **Predict:** to which of the two is $W$ nearer?

# %%
words, labels, E = few_sentences(3, seed=0)  # (3 draws, 16 sentences, 8 words); labels -1 or 1; embeddings
x = E[torch.arange(3)[:, None, None], words]  # (3, 16, 8, 32)
v = torch.randn(3, 32, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
scores = x @ (v / v.norm(dim=1, keepdim=True))[:, None]
W = torch.zeros(3, 32, 32, dtype=torch.float64, requires_grad=True)
optimizer = torch.optim.Adam([W], lr=3e-3, fused=True)
for _ in range(3000):
    h = x @ (x[:, :, -1] @ W.mT)[..., None]  # (3, 16, 8, 1): the logits; the last word asks
    f = (h.softmax(2) * scores).sum((2, 3))
    optimizer.zero_grad()
    softplus(-labels * f).mean(-1).sum().backward()
    optimizer.step()
selected = svm.attention_problem(x, x[:, :, -1], h.argmax(2)[..., 0])  # with hard margins, as in lesson 10
for kind, name in (("fro", "Frobenius"), ("inf", "maximum")):
    cosines = geometry.cosine(W.detach(), svm.solve(selected, norm=kind).value)
    print(f"W by Adam, to the {name} norm's SVM: {cosines.min():.2f} to {cosines.max():.2f}")
    assert 0.8 < cosines.min() < cosines.max() < 0.88

# %% [markdown]
# **About as near to both:** the cosines are 0.84 to 0.86 and 0.82 to 0.84 (how near the two SVMs are to each
# other we do not measure). In 3,000 steps, after which 18.7 has nearly all choices decided, Adam has reached
# the SVM of neither norm. Which of them it nears later these steps cannot say: in lesson 03 Adam's
# $\varepsilon$ takes over in the end.
#
# **Several layers** move the tokens that the theorems hold still; the first direction of 18.10 measures by
# how much. Three other ingredients follow, and first 18.7's LayerNorm: why does it decide so little?

# %% [markdown]
# ### Exercise 18.3: What LayerNorm prefers
#
# ★★☆ · 10 minutes
#
# A head mixes its tokens, the rows of `X` (T, d), to $z = \sum_t s_t x_t$. For tokens of mean 0, LayerNorm
# keeps only the direction of $z$, and so the answer is, up to a factor, $f = v \cdot z / \lVert z\rVert$,
# with a readout `v` (d,). (Take $f$ as written for any tokens.) For the label `y`, -1 or 1, return the
# attention $s$, (T,), that makes $y f$ largest: no entry is below 0, and their sum is 1. The tokens are
# linearly independent, and $y\, v \cdot x_t > 0$ for at least one.
#
# <details><summary>Hint 1</summary>
#
# What does $y f$ say of the angle between $z$ and $y v$? And which directions can $z$ have?
# </details>
# <details><summary>Hint 2</summary>
#
# All those of the cone $\sum_t \beta_t x_t$ with $\beta \ge 0$. Its point nearest to $y v$ has the smallest
# angle: least squares with $\beta \ge 0$, as in `scipy.optimize.nnls`.
# </details>


# %%
@exercise("18.3")
def best_mixture(X, v, y):
    """Return the attention (T,) with the largest y f: tokens X (T, d), readout v (d,), y -1 or 1."""
    ### BEGIN SOLUTION
    beta, _ = nnls(X.T, y * v)
    return beta / beta.sum()
    ### END SOLUTION


# %%
check("18.3", best_mixture)

# %% [markdown]
# **The law of LayerNorm:** the best attention is that of the coefficients of the cone's point nearest to
# $y v$, scaled to the sum 1. For $y f$ is $\lVert v\rVert$ times the cosine of the angle between $z$ and
# $y v$, and so it is largest in the direction of that point, which is often a mixture of several tokens.
#
# Does a trained $W$ find it? Below `under_norms` trains $W$ with both LayerNorms, in 500 steps of length
# 0.04, on three new draws of 16 sentences. We print how much attention lies elsewhere than the law says, over
# the sentences that have a token with $y\, v \cdot x_t > 0$; the others, if any, are left out.

# %%
# attention (48, 8), tokens (48, 8, 32), y v (48, 32)
found, X, goal = under_norms(3, seed=0, steps=500, length=0.04)
scores = (X @ goal[..., None])[..., 0]
found, X, goal, scores = (part[scores.max(1) > 0] for part in (found, X, goal, scores))  # else no law
by_law = [best_mixture(tokens, towards, 1) for tokens, towards in zip(X, goal, strict=True)]
best = np.eye(8)[scores.argmax(1)]
off = [np.abs(found - np.array(where)).sum(1).mean() / 2 for where in (by_law, best)]
print("attention that lies elsewhere than by the law: {:.2f}, than on the best token: {:.2f}".format(*off))
assert off[0] < 0.1 < 0.4 < off[1], again.format("18.3")

# %% [markdown]
# Nearly, in the mean: about 0.07 of the attention lies elsewhere, while half of it lies off the best single
# token. Under LayerNorm attention need not end on one token, and where it does not the theorems name no
# selection.

# %% [markdown]
# **Which tokens win** in a transformer? In the theorems a selected token beats its closest rivals by its
# score. Here the *best* token is the one with the largest $-\partial L/\partial s_{kt}$, where $L$ is the
# loss: more attention to it would lower the loss most. **Predict:** in which share of its choices does a
# trained head look most at it?

# %%
print("layer 2, means over ten networks          the best wins   by chance   agree on one   before training")
for tokens in ("digits", "sentences"):
    names = ("best", "chance_best", "agree", "untrained_agree")
    shares = [runs[name].sel(tokens=tokens)[:, 1].values.mean() for name in names]
    print(f"{tokens:42s}{{:13.2f}}{{:12.2f}}{{:15.2f}}{{:18.2f}}".format(*shares))
at_1 = np.array([(s.argmax(-1) == 0).mean((0, 2)) for s in moments[250]])  # (layers, heads)
print("your network, eight digits: token 1 wins, by head of layers 1, 2", *at_1)
assert at_1[1, 0] == at_1.max() > 3 / 16

# %% [markdown]
# **In about a tenth:** in layer 2 the best token wins 0.12 and 0.10 of the choices, a random one 0.06 and
# 0.07. So the last slopes tell little of what wins. What wins is often one token at many positions: on
# digits 0.81 of a sequence's positions agree on it, 0.40 before training; on sentences 0.46 and 0.37.
#
# In large language models it is often a text's first, an attention **sink** (Xiao et al., 2023). In your
# network head 1 of layer 2 comes nearest: token 1 wins 0.28 of its choices, where chance would give 0.06.
#
# **With weight decay,** 0.3% a step, $W$ cannot grow without bound, and the theorems stop. In 400 steps decay
# alone would shrink $K$ and $Q$ to 0.30 each, since $0.997^{400} = 0.30$, and so $W$ to $0.09\, W_0$. For the
# movement from there 18.4's order holds in the means:

# %%
for tokens in ("digits", "sentences"):
    decayed = heads.sel(decay=1.0, tokens=tokens)  # (ten networks, layers, heads)
    means = [decayed[name].values.mean() for name in ("own", "never_trained")]
    print(f"{tokens:10s} with weight decay: the movement {means[0]:.2f}, a free W {means[1]:.2f}")
    assert means[1] > means[0]

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 18.9 Is the SVM solved? *(optional)*

# %% [markdown]
# ### Exercise 18.4: A bound for soft margins
#
# ★★★ · 15 minutes
#
# How far from its optimum is a solver's answer? Flatten $W$ to a vector `w` (p,) and the comparisons to rows
# $A_j$ of `A` (rows, p), and let $\xi_j = \max(0, 1 - A_j \cdot w)$. With multipliers $\lambda \ge 0$ of the
# constraints $A_j\cdot w' \ge 1 - \xi'_j$, show that no $w'$ has an objective
# $\frac12\lVert w'\rVert^2 + \frac C2\lVert\xi'\rVert^2$ below a number that depends on $\lambda$. Take
# $\lambda = r\,\xi$ and return the largest such bound over $r \ge 0$. If no row has slack, return 0.
#
# <details><summary>Hint 1</summary>
#
# Minimise $\frac12\lVert w'\rVert^2 + \frac C2\lVert\xi'\rVert^2 + \sum_j \lambda_j(1 - \xi'_j - A_j\cdot
# w')$ over $w'$ and $\xi'$, each by itself.
# </details>
# <details><summary>Hint 2</summary>
#
# The minimum is at $w' = \sum_j \lambda_j A_j$ and $\xi' = \lambda/C$. With $\lambda = r\,\xi$ the bound is
# a parabola in $r$.
# </details>


# %%
@exercise("18.4")
def lower_bound(A, w, C):
    """Return the bound, a float: A (rows, p), w (p,), C positive."""
    ### BEGIN SOLUTION
    slack = np.maximum(0, 1 - A @ w)
    if not slack.any():
        return 0.0
    total = A.T @ slack
    return float(slack.sum() ** 2 / (2 * (total @ total + slack @ slack / C)))
    ### END SOLUTION


# %%
check("18.4", lower_bound)

# %%
short = []
for k, those in ((k, those[k]) for those in moves.values() for k in (0, 1)):
    W, x = matrices(start, k) + those, unseen[k]
    for selected, solved in zip(choices(W, x), svm_of(W, x), strict=True):  # of each head
        i, at, t = np.nonzero(np.arange(16) != selected.numpy()[..., None])
        A = torch.einsum("rd,re->rde", x[i, selected[i, at]] - x[i, t], x[i, at]).flatten(1).numpy()
        w = solved.flatten().numpy()
        value = w @ w / 2 + np.square(np.maximum(0, 1 - A @ w)).sum() / 2
        short.append(1 - lower_bound(A, w, 1.0) / value)
largest = np.ceil(max(short) / 1e-4) / 1e4  # rounded up
print(f"{len(short)} SVMs of 18.4, C = 1: no objective can fall by more than {largest:.2%}")
assert 0 < largest < 5e-4, again.format("18.4")

# %% [markdown]
# By strong convexity $\lVert w - w^*\rVert^2$, with the optimum $w^*$, is at most twice what the objective
# can fall by: so the error of $w$ is at most the root of that. The SVMs behind the gap of $N$ are solved with
# `tol=1e-3`, and this cell does not certify them.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 18.10 Your project *(optional)*
#
# Copy the [report template](../course/assets/report-template.md).
#
# <details><summary>Points</summary>
#
# | points | for |
# |---:|:---|
# | 3 | a question that could be answered either way, a prediction, its theorem |
# | 4 | a measurement that would come out otherwise if the answer did |
# | 5 | a control that has everything but the claimed cause |
# | 3 | intervals over independent runs, every run accounted for |
# | 3 | ten times longer, five other seeds, one other size |
# | 2 | an answer in two sentences that promises no more than was shown |
#
# </details>
#
# Three directions, each with a first cell to run yourself (not run here), and what it printed for us:
#
# <details><summary>Moving tokens</summary>
#
# **Question:** in 18.6 transformers and their rivals both have a gap of $N$. Do they have it because $G$ is
# taken over tokens that then move? **Prediction:** with $G$ over the trained tokens the transformers have
# none, but the free $W$ keeps its own, as in 18.5, where no token moves. **Control:** that free $W$, with the
# same new $G$. **First cell:** how far have the tokens moved? It prints their mean cosine to where they were
# before training, in each layer.
#
# ```python
# for before, after in zip(read(start, valid[:10]), unseen, strict=True):
#     print(f"{(before * after).sum(-1).mean():.2f}")
# ```
#
# **First number:** it prints 1.00 and 0.59. Embedding and places are trained, too (their entries start at
# about 1 and 0.5, and Adam's rate is 0.003), but what layer 1 reads hardly moves; what layer 2 reads does:
# begin with each layer by itself.
#
# </details>
# <details><summary>The right matrix norm</summary>
#
# **Question:** does the nuclear norm's SVM tell trained keys and queries from chance early on, while most
# choices are still open? **Prediction:** yes; $W$ is nearer to it than to the Frobenius norm's long before
# 18.7's 300 steps are over. **Control:** a free $W$, as far, and the nuclear norm's SVM of its own selection.
# **First cell:** 18.7's keys and queries after 30 steps (five seconds). It prints median cosines: to the
# nuclear norm's SVM, to the Frobenius norm's, and of a free $W$ to its own Frobenius one.
#
# ```python
# from course.replicate.taken_apart import taken_apart
#
# early = taken_apart("+ K and Q", trials=10, seed=0, steps=30)
# print(*(f"{early[name].median():.2f}" for name in ("nuclear", "whole", "whole_never_trained")))
# ```
#
# **First number:** it prints 0.42, against 0.39 and 0.49; after 300 steps 18.7 has 0.93 and 0.71. So print
# the distances first, and look for the step at which the two cosines part.
#
# </details>
# <details><summary>Ten times longer</summary>
#
# **Question:** does the gap of $N$ grow if transformers train ten times longer? **Prediction:** only if $W$
# runs on; labels have no best finite answer and allow it, soft targets (0.6 for the label, 0.4 over all
# classes) have a minimum and do not. **Control:** soft targets, and a free $W$ as far as the labels. **First
# cell:** how far $W$ moves with each aim, in lengths of $W_0$ (three networks, some minutes).
#
# ```python
# from course.replicate.lesson_18 import AIMS, on_ten
#
# found = on_ten("digits", steps=4000, trials=3, seed=0)
# print(*zip(AIMS, found["moved"].mean((0, 2, 3)).tolist()), sep="\n")
# ```
#
# **First number:** it prints about 0.62 for labels and 0.52 for soft targets; with `steps=400` 0.60 and 0.48.
# So ask first whether $W$ runs on at all.
#
# </details>

# %% [markdown]
# <details><summary>Open problems that the papers themselves leave, informally</summary>
#
# Several heads trained together; several layers, whose inputs move; nonlinear heads: which tokens stay;
# convergence from every start; rates in finite time beyond special cases; keys and queries without a
# penalty.
#
# </details>

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 18.11 Claims and measurements
#
# | claim | expected | measured |
# |:---|:---|:---|
# | lead of $W$ by descent: linear layer, $d = 32$, labels, at half a length | above 0 | 0.18 ± 0.07 |
# | the same with soft targets; at their minimum | none, if only an SVM gives one | 0.17 ± 0.07; 0.29 ± 0.08 |
# | labels less soft targets, as far: at half a length; at that minimum | open | 0.01 ± 0.02; 0.13 ± 0.10 |
# | the same in a transformer, all else frozen, labels, at half a length | above 0 | 0.17 ± 0.07 |
# | lead of whole transformers by Adam, with $W$, at half a length | open | 0.05 ± 0.05, just seen |
# | the same with $K$ and $Q$: digits, 0.57 away; sentences, 0.39 away | open | 0.04 ± 0.06; -0.05 ± 0.04 |
#
# All are of the gap of $N$; leads are over the free $W$. The first is 0.22 ± 0.07 in 18.5's table.

# %% [markdown]
# ## Questions
#
# Somebody trains one model, tests its 144 heads, and reports a p-value below $10^{-20}$. What is wrong?
# <details><summary>Answer</summary>
#
# Heads of one model share data and start: 144 tests, but one independent run.
# </details>
#
# With $K$ and $Q$ whole transformers are not seen in 18.6. Can one say that nothing of an SVM is in them?
# <details><summary>Answer</summary>
#
# No. At half a length, all else frozen, the instrument sees neither of Adam's ways; with $W$ in place of $K$
# and $Q$ whole transformers just are seen, and the two are not shown to differ; it looks for one matrix norm
# only; and in the linear layer it sees a loss with a minimum, too. "Not seen" only bounds the two leads: on
# digits by 0.10 and 0.13, the upper ends of the table's intervals.
# </details>

# %%
progress("18")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - In 400 steps attention becomes sparser, mostly before the data are fitted; no layer's mean entropy comes
#   near 0.
# - A head's movement has a cosine of about 0.5, on digits, to the SVM over its own selection, **and one that
#   nobody trained has as much to its own.**
# - Half a length of $W_0$ from the start, the gap of $N$ sees training of $W$ by descent, in one linear layer
#   ($d = 32$, not 16) and in a transformer with all else frozen; **but in the layer it sees soft targets,
#   too, which promised no SVM.** Labels have 0.13 ± 0.10 more at that loss's minimum, in one draw. By Adam
#   the gap is smaller: training is seen at one length in transformers; whole ones, at half a length, just
#   are with $W$, not with $K$ and $Q$, 0.57 and 0.39 away.
# - In 18.7 keys and queries of one layer come near the nuclear norm's SVM: 0.93 in the median. Adam, in 3,000
#   steps, reaches neither SVM that we tried.
# - What is an SVM, then? The $W$ of 18.7's base is one, by its cosine: 0.99 or more, where a free $W$ has
#   0.50. In a whole transformer we know of no head that is one.
# - **The limits:** in 18.3 to 18.6 one norm, and one price; two data sets, few sizes.
#
# **The course in three sentences.** Where a loss has no minimum, descent can run off, and its late gradients
# are sums over the few comparisons that are still close: so a machine trained for something else can solve an
# SVM, whose norm the optimiser or the factors can pick. In attention the comparisons are between tokens:
# keys, scores and this norm say which choices can last, the start and the optimiser's way which is made.
# Where the theory ends the method remains: predict a number, measure it, and set a control beside it.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Further reading
#
# - D. A. Tarzanagh, Y. Li, C. Thrampoulidis, S. Oymak, *Transformers as Support Vector Machines* (2023,
#   arXiv 2308.16898): the theorems, and most of the open problems.
# - G. Xiao, Y. Tian, B. Chen, S. Han, M. Lewis, *Efficient Streaming Language Models with Attention Sinks*
#   (2023, arXiv 2309.17453).
# - J. Hewitt, P. Liang, *Designing and Interpreting Probes with Control Tasks* (2019, arXiv 1909.03368).
#
# **New in the library:** [`svm.solve_soft`](../mini_attn/svm/soft.py),
# [`svm.SoftSolution`](../mini_attn/svm/soft.py).
#
# **Next:** your project.
