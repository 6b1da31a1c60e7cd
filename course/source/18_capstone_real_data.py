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
# - test an instrument on movements that nobody trained, and on a loss for which no theorem promises an SVM;
# - say which ingredients of a transformer turn a layer away from its SVM;
# - carry out a project of your own.
#
# **You need** [lesson 04](04_matrix_factorization.ipynb), [lesson 06](06_attention_as_svm.ipynb), [lesson
# 10](10_cross_self_attention.ipynb), [lesson 11](11_key_query_nuclear.ipynb), [lesson
# 13](13_nonlinear_heads.ipynb) and [lesson 14](14_sequence_causal.ipynb); for one optional exercise also
# [lesson 02](02_hard_margin_svm.ipynb). About 85 minutes (130 with a pencil) with two exercises; two more
# are in optional sections.
#
# **The thread.** A first instrument cannot tell training from chance (18.1 to 18.4). We test a second one in
# a linear layer (18.5), turn it on real heads (18.6), and ask which ingredients of a transformer end the
# theory (18.7).

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
from course.replicate.lesson_18 import LADDER, LOOKS, begin_one, cases, few_layers, under_norms
from mini_attn import datasets, geometry, plots, svm, widgets

plots.style()
torch.set_num_threads(1)  # many small tensors: one thread is fastest
np.set_printoptions(precision=2, suppress=True)
BLUE, ORANGE, GREEN, GREY, BLACK = map(plots.COLORS.get, ("blue", "vermillion", "green", "grey", "black"))
again = "this differs from the text: if exercise {} has no tick, start there"

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 18.1 A transformer, and the idea in a picture
#
# What does a head look at, before training and after? Our transformer reads a digit of 8 by 8 pixels. The
# digit is cut into 16 patches of 2 by 2: a sequence of $T = 16$ tokens with 4 numbers each. A matrix embeds
# each token in $d = 32$ dimensions, and a learned vector for its place is added.
#
# Two layers of four heads follow. First *LayerNorm* brings each token to mean 0 and standard deviation 1;
# the result is $a_t$. A head with keys $K$ and queries $Q$ ($32 \times 8$) has the matrix $W = K Q^\top /
# \sqrt 8$. Position $k$ looks at token $t$ with the logit $a_t^\top W a_k$, and the softmax over $t$ is its
# attention $s_{kt}$. Through a *value* and an *output* matrix the head adds its mixture $\sum_t s_{kt} a_t$
# to token $k$. Then an *MLP*, a ReLU net with 64 hidden units, adds its own output.
#
# A last matrix, the *readout*, turns the mean over all positions into ten scores, one for each digit. MLP
# and readout, too, read the tokens after a LayerNorm.


# %%
def norm(x):
    """LayerNorm: each token minus its mean, over its standard deviation."""
    return layer_norm(x, x.shape[-1:])


def per_head(a, M):
    """Tokens a (n, T, d) times each head's M (heads, d, m): (n, heads, T, m)."""
    return torch.einsum("ntd,hdm->nhtm", a, M)


def transformer(P, x, keep=None):
    """Scores (n, classes) of embedded tokens x (n, T, d); `keep` gets what layers read, and attention."""
    for layer in (0, 1):
        K, Q, V, out, U, b, D = (P[f"{name}{layer}"] for name in "KQVOUbD")
        a = norm(x)
        h = per_head(a, Q) @ per_head(a, K).mT / K.shape[-1] ** 0.5  # (n, heads, k, t): a_t^T W a_k
        s = h.softmax(-1)
        if keep is not None:
            keep.append((a, s))
        x = x + torch.einsum("nhkm,hmd->nkd", s @ per_head(a, V), out)
        x = x + torch.relu(norm(x) @ U + b) @ D  # the MLP
    return norm(x).mean(1) @ P["read"]


# %% [markdown]
# Adam trains it on batches of 32 digits. We keep the attention over eight digits, before and after.

# %% tags=["nbval-ignore-output"]
pictures = datasets.digits()  # X (n, 16 patches, 4 pixels), y (n,)
train, valid, _ = datasets.split(pictures, seed=0)  # numbers of the digits to learn, and of unseen ones
P = begin_one(4, 16, 10, seed=0)  # random weights: names as in the text, with the layer behind
start = {name: w.detach().clone() for name, w in P.items()}
optimizer = torch.optim.AdamW(P.values(), lr=3e-3, weight_decay=0.0, fused=True)
generator = torch.Generator().manual_seed(0)
moments = {}  # step -> attention over eight digits, of each layer


def answers(P, some, keep=None):
    return transformer(P, pictures.X[some] @ P["embed"] + P["place"], keep)


for step in range(251):
    if step in (0, 250):
        keep = []
        with torch.no_grad():
            answers(P, train[:8], keep)
        moments[step] = [s.numpy() for _, s in keep]
    batch = train[torch.randint(0, len(train), (32,), generator=generator)]
    optimizer.zero_grad()
    cross_entropy(answers(P, batch), pictures.y[batch]).backward()
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
        painted = axes[row, head + 1].imshow(received, cmap="Blues", vmin=0, vmax=0.75)
        axes[0, head + 1].set_title(f"layer 2, head {head + 1}")
for ax in axes.flat:
    ax.set(xticks=[], yticks=[])
    ax.grid(False)
fig.colorbar(painted, ax=axes[:, -1], label="attention received")
show(
    fig,
    alt="A digit and four maps of 4 by 4 patches, before and after training. Before, each head spreads its "
    "attention over many patches; after training head 1 prefers the first patch, heads 3 and 4 the third of "
    "the third row, and head 2 still spreads.",
)

# %% [markdown]
# **Figure 1.** One digit, and the attention that its patches receive in layer 2, averaged over positions.
#
# On this digit, which we chose from the eight, three heads come to prefer one patch each, and heads 3 and 4
# the same one. The sliders show single positions in both layers.


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
# In the theorems the weights keep growing, and attention tends to one token. And in a transformer?
#
# We measure the entropy of attention, $-\sum_t s_{kt} \log s_{kt}$, as a share of its largest value: 1 is
# even attention, 0 is attention to one token. Beside the digits we take *sentences*: the first 16 words of
# 2,000 from film reviews, labelled good or bad. On each task ten networks train for 400 steps of Adam, and
# we look nine times. `measured` reads these stored runs
# ([`course/replicate/lesson_18.py`](../course/replicate/lesson_18.py) made them).
#
# **Predict first.** Does most of the fall within these 400 steps come before the training set is fitted (99%
# of 1,000 sequences right)?

# %%
heads, onward, further = (measured(f"18.{name}").load() for name in ("heads", "onward", "further"))
for tokens in ("digits", "sentences"):
    cell = onward.sel(tokens=tokens)
    entropy = cell.entropy.values.mean((-2, -1))  # (ten runs, looks)
    fitted = (cell.train.values >= 0.99).argmax(-1)  # the first look with 99% right
    fall = (entropy[:, 0] - entropy[range(10), fitted - 1]) / (entropy[:, 0] - entropy[:, -1])
    print(f"{tokens:10s} 99% right at step {LOOKS[fitted.min()]} to {LOOKS[fitted.max()]}; share of the fall "
          f"that has come one look before: {fall.min():.2f} to {fall.max():.2f}")  # fmt: skip
    assert fall.min() > 0.6
late = further.entropy.values[0]  # (five networks, layers, heads)
print("digits, after 2,000 steps: entropy in layers 1, 2", late.mean((0, 2)),
      f"heads of layer 2: {late[:, 1].min():.2f} to {late[:, 1].max():.2f}")  # fmt: skip
assert late.mean((0, 2)).min() > 0.3

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
# **Figure 2.** Mean entropy of each layer, as a share of the largest, and the share wrong in training
# (bands: range of ten runs).
#
# **Yes, of the fall within 400 steps.** In every run at least 0.77 of the fall on digits, and 0.65 on
# sentences, has come one look before the training set is fitted. **But attention does not come near one
# token:** on digits, after 2,000 steps of five networks, the mean entropy is still 0.36 of the largest in
# layer 2 (heads from 0.18 to 0.61), and 0.67 in layer 1.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 18.3 The first instrument: a head's own SVM
#
# Is a trained head near the SVM of the tokens that it selects? Lesson 14's SVM asks that each selected token
# beat each other token by a margin of 1. A head selects by its largest logit, so some multiple of its $W$
# does this (without ties), but the SVM may hang on a few comparisons that are nearly ties. So we let
# comparisons be missed, at a price.
#
# Below, $x = a/\sqrt{32}$ is a token as a layer reads it, scaled to length 1.
#
# > **The soft-margin attention SVM.** For a price $C > 0$ and a selected token $\alpha_{ik}$
# > (sequence $i$, position $k$),
# >
# > $$\min_W\ \tfrac12\lVert W\rVert_F^2 + \tfrac C2 \sum_{i,k}\sum_{t \ne \alpha_{ik}} \xi_{ikt}^2, \qquad
# > \xi_{ikt} = \max\bigl(0,\ 1 - (x_{i\alpha_{ik}} - x_{it})^\top W x_{ik}\bigr).$$
# >
# > It has one solution, since the objective is strongly convex.
#
# Let $W_0$ be the head's matrix before training. We compare its movement $W - W_0$ with the SVM of what it
# selects after training, over ten unseen digits and at $C = 1$. From every $W$ we drop the means of its rows
# and columns, which do nothing to tokens of mean 0.


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


def read(P, some):
    """The tokens, of length one, that each layer reads of some digits: (digits, 16, d) each."""
    keep = []
    with torch.no_grad():
        answers(P, some, keep)
    return [a / 32**0.5 for a, _ in keep]


unseen, learned = read(P, valid[:10]), read(P, train[:10])
trained = [matrices(P, layer) - matrices(start, layer) for layer in (0, 1)]  # how W has moved
for layer, x in enumerate(unseen):
    cosines = geometry.cosine(trained[layer], svm_of(matrices(P, layer), x))
    print(f"layer {layer + 1}: cosine of W - W_0 to the SVM, by head:", cosines.numpy().round(1))

# %% [markdown]
# The cosines are about 0.5. In a space of $31 \cdot 31 = 961$ dimensions that looks like much. **Stop here,
# and list what other than training could give 0.5.**

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 18.4 Controls
#
# Would a head that nobody trained have such a cosine, too? Our suspect is the selection itself: whoever
# labels points by a plane, and fits an SVM to these labels, gets much of the plane back. A fair **rival**
# therefore moves as far as the trained $W$, in a direction that nobody trained, and is compared with the SVM
# of its own selection.
#
# Whatever the loss, its gradient in $W$ has the form $\sum_{i,k,t} c_{ikt}\, x_{it} x_{ik}^\top$ with
# $\sum_t c_{ikt} = 0$, since the slopes of a softmax add up to 0. Our first rival, the **free $W$**, moves
# along such a sum with random $c$, over ten training sequences as the trained network reads them. A second
# control gives the SVM tokens that are selected at random.
#
# In your network the SVMs are made over ten *unseen* digits. In ten stored networks they are made over the
# ten sequences of the free $W$'s own sum, a head start for it.
#
# The last line has **weight decay**, 0.3% a step, which no theorem here allows. Its movements start from
# where decay alone would have brought $W_0$.
#
# **Predict first:** is the free $W$'s cosine to its SVM near 0, about 0.25, or 0.5 and above?

# %%
generator = torch.Generator().manual_seed(0)


def length(W):
    return W.norm(dim=(-2, -1), keepdim=True)


def random_slopes(x):
    """Four random sums of the form of a gradient, of length one: (4, d, d)."""
    c = torch.randn(4, 10, 16, 16, generator=generator, dtype=torch.float64)
    M = torch.einsum("hikt,itd,ike->hde", c - c.mean(-1, keepdim=True), x, x)
    return M / length(M)


def to_its_svm(moved, layer):
    """Mean cosine of four movements from W_0 to the SVMs of what they select over unseen digits."""
    return geometry.cosine(moved, svm_of(matrices(start, layer) + moved, unseen[layer])).mean()


free = [length(moved) * random_slopes(x) for moved, x in zip(trained, learned, strict=True)]
of_trained, of_free = ([to_its_svm(those[k], k) for k in (0, 1)] for those in (trained, free))
print("your network: movement {:.2f}, {:.2f}; free W {:.2f}, {:.2f}".format(*of_trained, *of_free))
kinds = {
    "movement to the SVM of its own selection": (0.0, "own"),
    "movement to the SVM of tokens at random": (0.0, "random_tokens"),
    "free W to the SVM of its own": (0.0, "never_trained"),
}
print(f"\n{'ten networks, means of layers 1, 2':42s}  digits        sentences")
for name, (decay, kind) in kinds.items():
    means = heads[kind].sel(decay=decay).values.mean((1, 3)).round(2) + 0  # (tasks, layers)
    print(f"{name:42s}", *("{:5.2f}, {:5.2f} ".format(*task) for task in means))
runs, decayed = (heads.sel(decay=decay) for decay in (0.0, 1.0))
# (tasks, networks, layers)
ahead, so = ((x.never_trained.values - x.own.values).mean(-1) for x in (runs, decayed))
print(f"{'weight decay: free W less movement':42s}", *("{:5.2f}, {:5.2f} ".format(*x) for x in so.mean(1)))
print(f"without decay the free W is ahead in {(ahead > 0).sum()} of {ahead.size} layers")
assert ahead.min() > 0

# %% [markdown]
# **0.5 and above: the free $W$ does *better* than the trained one,** in both layers of your network and in
# all 40 of the stored ones (there with a head start). Tokens at random give about 0. So the cosine comes
# with the selection, whether or not somebody trained it.

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
for T in (4, 16, 64):
    c = rng.normal(size=(40, T, T))
    X, W = torch.eye(T, dtype=torch.float64), torch.from_numpy(c - c.mean(-1, keepdims=True)).mT
    solution = svm.solve_soft(X.expand(40, 1, T, T), W.argmax(-2)[:, None], C=1.0)
    solved, mine = geometry.cosine(W, solution.value).mean(), np.mean([given_back(one) for one in c])
    law = rng.normal(size=(10_000, T)).max(1).mean() * T**0.5 / (T - 1)
    print(f"{T:2d} orthonormal tokens: solver {solved:.2f}, exercise {mine:.2f}, law {law:.2f}")
    assert max(abs(solved - mine), abs(law - mine) / 2) < 0.01, again.format("18.1")

# %% [markdown]
# **The law:** for standard normal $c$ and $T \ge 4$ the cosine is about $\mu_T \sqrt T / (T - 1)$, where
# $\mu_T$ is the mean of the largest of $T$ entries. At $T = 16$ this is 0.47. In 18.4 tokens are not
# orthonormal, and $W_0$ is not 0. So the law suggests why the free $W$'s cosines are not near 0, but not how
# large they are.
#
# <details><summary>Why</summary>
#
# The positions' largest entries add up to about $T \mu_T$, and the centred $c$ has about the length
# $\sqrt{T (T - 1)}$.
# </details>
#
# The trained $W$ has a smaller cosine than the free one. Is that a sign of training? Training moves $K$ and
# $Q$, which have only 8 columns. So our second rival, **untrained $K$ and $Q$**, moves these, too.
# **Predict:** will its cosine be like the free $W$'s, like the trained heads', or near 0?

# %% [markdown]
# ### Exercise 18.2: Keys and queries that nobody trained
#
# ★★☆ · 15 minutes
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
def along(K, Q, M, far):
    """Each head's W - W_0 after a flow along its M (n, d, d) by `far` (n, 1, 1): K, Q (n, d, m)."""
    each = zip(*(part.numpy() for part in (K, Q, M)), far.flatten().tolist(), strict=True)
    return torch.as_tensor(np.stack([moved_by_pairs(*head) for head in each]))


def interval(x, level=0.999):
    """The mean over runs, and half the width of its interval."""
    return x.mean(), stats.t.ppf((1 + level) / 2, len(x) - 1) * x.std(ddof=1) / len(x) ** 0.5


pairs = []
for k, x in enumerate(learned):  # M is drawn as the free W's direction was
    factors = (start[f"{name}{k}"] - start[f"{name}{k}"].mean(1, keepdim=True) for name in "KQ")
    pairs.append(to_its_svm(along(*factors, random_slopes(x), length(trained[k])), k))
print("means of layers 1, 2               untrained K and Q   trained")
print("your network                              {:.2f}, {:.2f}   {:.2f}, {:.2f}".format(*pairs, *of_trained))
ten = measured("18.ten").load()  # twenty networks a task, each of which learns ten sequences
both = ten.pair_own_seen.values.mean(-1), ten.own_seen.values[:, :, -1].mean(-1)  # (tasks, runs, layers)
for tokens, nobody, ours in zip(("digits", "sentences"), *both, strict=True):
    means = *nobody.mean(0), *ours.mean(0)
    print(f"twenty networks on ten {tokens:19s}", "{:.2f}, {:.2f}   {:.2f}, {:.2f}".format(*means))
    more = np.transpose([interval(layer) for layer in (ours - nobody).T])  # means, halves
    print("  trained less untrained: {:.2f}, {:.2f} ± {:.2f}, {:.2f}".format(*(more.round(2) + 0).ravel()))
    assert (abs(more[0]) < more[1]).all()
assert abs(np.mean(pairs) - 0.47) < 0.06, again.format("18.2")

# %% [markdown]
# **Like the trained heads':** at the level 0.999 none of the four differences can be told from 0. So this
# cosine does not tell a trained head from one that chance has moved, and we need another instrument.
#
# <details><summary>The flow of exercise 18.2 in closed form</summary>
#
# $K' = MQ$ and $Q' = M^\top K$ are linear: along a singular value $\sigma$ of $M$ they grow like
# $e^{\sigma t}$. So the largest ones take over.
# </details>

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 18.5 A second instrument, and its controls
#
# Does training turn a head towards the SVM of the sequences that it has learned, more than towards that of
# sequences it has not seen? We ask this first where a theorem comes nearest. The **linear layer** is
# attention alone, with one head and a fixed random readout. It learns the labels $y = \pm 1$ of ten
# sentences with the loss $\ln(1 + e^{-yf})$, where $f$ is the mean answer of the 16 positions. This loss has
# no minimum; and if gradient descent trains $W$ itself, lesson 10's theorem lets $W$ tend to an SVM in
# direction. This is the **positive control**. We also train $K$ and $Q$ in place of $W$, and by Adam in
# place of *descent* (in equal steps).
#
# **The instrument.** What the trained $W$ selects makes two SVMs: the *learned* one, $S$, over the ten
# learned sequences, and the *unseen* one, $S'$, over ten unseen ones. Let $G$ be the movement that descent
# would make, as far, if the slope of the loss stayed as it is at $W_0$. It is made of the learned tokens,
# and so leans to $S$ before anything is learned. So we take it out: $N$ is the direction of the part of
# $W - W_0$ that is orthogonal to $G$. Then
#
# $$\text{gap} = \frac{\cos(N, S) - \cos(N, S')}{1 - \cos(S, S')},$$
#
# where of several heads the means are taken above and below the line. The gap is 1 if $N$ is along $S$, and 0
# if $N$ is as near to $S'$ as to $S$. Our two rivals have gaps, too, each by the SVMs of its own selection,
# since they move along sums over the learned tokens. What counts is the **lead**: the gap minus that of the
# rival that is harder to beat, as far from $W_0$. Training is **detected** if the interval of the lead, over
# twenty runs and of level 0.999, lies above 0.
#
# <details><summary>The theorem, and how near this layer is</summary>
#
# > **Theorem** ([lesson 10](10_cross_self_attention.ipynb); Tarzanagh et al., 2023; informal). *Conditions:*
# >
# > 1. Tokens and readout, here a vector $v$, stay; one token of a sequence asks.
# > 2. The slope $\ell'$ of the loss is below 0, bounded and Lipschitz: no finite answer is best.
# > 3. $W$ itself takes gradient steps with a constant factor, at most a bound that the smoothness of the
# >    mean loss sets.
# > 4. The hard-margin SVM of a selection, one token a sequence, is feasible; and each token whose comparison
# >    holds with equality has a score, by the readout, strictly below that of the selected one.
# >
# > *Then* there are an angle and a radius such that from every start within that angle of the SVM's solution
# > $W_{\mathrm{mm}}$ and longer than that radius, $\lVert W\rVert_F \to \infty$ and $W / \lVert W\rVert_F \to
# > W_{\mathrm{mm}} / \lVert W_{\mathrm{mm}}\rVert_F$.
#
# $W$ by descent meets (2); (1), except that all words ask; and (3), except that its factor grows as the
# gradient vanishes. Scores, angle and radius are unchecked, and we use the soft SVM with $C = 1$.
# </details>
# <details><summary>The runs in full</summary>
#
# $d = 32$. Embeddings are random, of length $\sqrt d$, the readout has the length 4, and $K$ and $Q$ have 8
# columns. Steps of descent have the length 0.03, and Adam has the rate 0.003. All ways end as far from $W_0$
# as 400 steps of Adam bring $K$ and $Q$. For $K$ and $Q$, $G$ leads to where exercise 18.2's flow brings
# $W$, with the negative slope at $W_0$ for $M$. In the next table a rival has the $G$ of its own kind, and
# elsewhere that of what is trained. Of the leads over both rivals a table prints that whose interval begins
# lower.
# </details>
#
# Each line of the table is a mean over twenty layers, and the distance is in lengths of $W_0$. The intervals
# of this lesson are fewer than seventy: so, if what they bound is near normal, all hold at once with a
# probability of at least 93%. **Predict first:** order the four ways by their gap.

# %%
# Each holds (place, way) -> (runs, heads). Cosines: of the movement to S and S', of G to both, of S to S', of
# the movement to G; then the distance from W_0.
own, first, alike, to_first, away = map(cases, ("own", "first", "judges", "to_first", "moved"))
rivals = ["free W", "untrained K and Q"]
columns = f"{'':38s}distance     gap           lead  detected"


def gap_of_N(at):
    """The gap in each run. The movement is along cos G + sin N, so its cosines give those of N."""
    cos = to_first[at]
    ten_learned, ten_unseen = (own[at] - cos * first[at]) / (1 - cos**2) ** 0.5  # cosines of N: (runs, heads)
    return (ten_learned - ten_unseen).mean(-1) / (1 - alike[at]).mean(-1)


def lead_of(name, distance, gap, gaps_of_rivals):
    """Print a line of a table; return the lead over the harder rival, and half its interval."""
    leads = [interval(gap - other) for other in gaps_of_rivals]
    mean, half = min(leads, key=lambda lead: lead[0] - lead[1])
    lead, detected = f"{round(mean, 2) + 0:.2f} ± {half:.2f}", "yes" if mean > half else "no"
    print(f"{name:38s}{distance.mean():8.2f}{gap.mean():8.2f}{lead:>15s}{detected:>10s}")
    return mean, half


def stored(name, place, way, stop=""):
    at, others = (place, way + stop), [(place, rival + stop) for rival in rivals]
    return lead_of(name, away[at], gap_of_N(at), map(gap_of_N, others))


print(columns)
ways = ("W by descent", "W by Adam", "K and Q by descent", "K and Q by Adam")
in_layer = {way: stored(way, "d = 32", way) for way in ways}
assert all(mean > half for mean, half in in_layer.values())

# %% [markdown]
# **At the end $W$ by descent has the largest mean gap, 0.82; $W$ by Adam comes next, then $K$ and $Q$ by
# descent, and by Adam.** All four are detected.
#
# **The negative control** is training that has everything but the claimed cause, an SVM to which $W$ runs
# off. *Soft targets* give the label a share $p = 0.95$ and its opposite the rest. The loss $p \ln(1 +
# e^{-yf}) + (1 - p) \ln(1 + e^{yf})$ is least at $yf = \ln\frac{p}{1 - p}$. So it has a minimum, and the
# theorem names no SVM. We train $W$ by descent in twenty new layers, with soft targets until $W$ all but
# stands still, and with labels as far in each layer. **Predict first:** are soft targets detected, too? And
# do labels lead by more?

# %%
W_0, K, Q, v, y, x_ten, x_new = few_layers(20, seed=1)  # tokens of ten learned, and ten unseen sentences
size = length(W_0)


def loss_at(W, p=1.0):
    """The loss of each layer at W (layers, d, d), (layers,): p is the label's share."""
    a = W.shape[-1] ** 0.5 * x_ten  # embeddings (layers, 10, 16, d)
    s = (a @ W[:, None].mT @ a.mT).softmax(-1)
    yf = y * ((s @ a).mean(2) @ v)[..., 0]
    return (p * softplus(-yf) + (1 - p) * softplus(yf)).mean(-1)


def pull(W, p=1.0):
    """The negative slope of each layer's loss at W (layers, d, d)."""
    W = W.clone().requires_grad_()
    return -torch.autograd.grad(loss_at(W, p).sum(), W)[0]


def descended(p, steps, reach=torch.inf):
    """W after steps of 0.03, halved while the loss would not fall, until each layer is `reach` from W_0."""
    W, now, stride = W_0, loss_at(W_0, p), 0.03
    for _ in range(steps):
        on = length(W - W_0) < reach
        if not on.any():
            break
        slope = pull(W, p)
        there = W + stride * slope / length(slope)
        then = loss_at(there, p)
        falls = (then < now)[:, None, None]
        W, now = torch.where(falls & on, there, W), torch.where((falls & on)[:, 0, 0], then, now)
        stride = torch.where(falls, 1.2 * stride, stride / 2).clamp(max=0.03)
    return W


def svms(moved):
    """S and S' of what W_0 + moved (layers, d, d) selects."""
    chosen = [(x, (x @ (W_0 + moved)[:, None].mT @ x.mT).argmax(-1)) for x in (x_ten, x_new)]
    return [svm.solve_soft(x, selected, C=1.0, tol=1e-3).value for x, selected in chosen]


def gap_of(moved, G, S, S_new):
    """The gap of each layer's movement: all (layers, d, d)."""
    G = G / length(G)
    N = moved - (moved * G).sum((1, 2), keepdim=True) * G
    return (geometry.cosine(N, S) - geometry.cosine(N, S_new)) / (1 - geometry.cosine(S, S_new))


soft = descended(0.95, 240)
as_far = length(soft - W_0)
labels = descended(1.0, 80, as_far)
stands = length(pull(soft, 0.95)) < 0.005 * length(pull(W_0, 0.95))
print("soft targets: in each layer the slope is at last below 0.005 of that at W_0:", bool(stands.all()))
by_chance = torch.stack([random_slopes(x)[0] for x in x_ten])
nobody = [(moved, svms(moved)) for moved in (as_far * by_chance, along(K, Q, by_chance, as_far))]
print(columns)
leads, gaps = [], []
for name, W, p in (("labels", labels, 1.0), ("soft targets", soft, 0.95)):
    moved = W - W_0
    each = [(moved, svms(moved)), *nobody]
    gap, *others = (gap_of(movement, pull(W_0, p), *fits).numpy() for movement, fits in each)
    leads.append(lead_of(name, (length(moved) / size).numpy(), gap, others))
    gaps.append(gap)
leads.append(interval(gaps[0] - gaps[1]))
print("labels less soft targets, layer by layer: {:.2f} ± {:.2f}".format(*leads[-1]))
assert all(mean > half for mean, half in leads), again.format("18.2")

# %% [markdown]
# **Soft targets are detected, too.** So a lead does not show that $W$ runs off to an SVM. **Labels have
# more:** in the same layers their gap is larger by 0.13 ± 0.10.
#
# **Where on the way do they part?** We read a hundred stored layers for each of four $p$. Both losses stop
# half way to the soft minimum, at three quarters, and there. **Predict first:** do they part from the start
# on, or late?

# %%
partings = measured("18.partings").load()
print("   p   share of the way   distance   gap: labels   soft        difference")
for p in (0.8, 0.9, 0.95, 0.99):
    gap, far = (partings.sel(p=p)[name].values for name in ("gap", "moved"))  # (layers, shares, both losses)
    for k, share in enumerate((0.5, 0.75, 1)):
        mean, half = interval(gap[:, k, 0] - gap[:, k, 1])
        line = "{:14.2f}{:7.2f}".format(*gap[:, k].mean(0)) + f"{mean:11.3f} ± {half:.3f}"
        print(f"{p:5.2f}{share:19.2f}{far[:, k].mean():11.2f}{line}")
        assert mean > half
slope = np.ceil(100 * partings.slope.values.max())
print(f"at the soft minima the slope is below {slope:.0f}% of that at W_0")
alone = (partings.sel(p=1.0)[name].values[:, -1].mean() for name in ("moved", "to_svm", "gap", "most"))
print("labels, {:.0f} lengths away: cosine to S {:.2f}, gap {:.2f}; of S itself {:.2f}".format(*alone))

# %% [markdown]
# **From early on, but mostly late.** Already half way labels have more, by 0.014 to 0.022; at $p = 0.95$ this
# is a tenth of the final difference. Most of the gap comes with a way down that both losses share; only what
# comes late sets them far apart.
#
# **The share of the way counts, not the distance.** Half of the way at $p = 0.99$ is about as far as all of
# it at 0.95: labels have 0.014 more there, and 0.15 here.
#
# Labels alone, twelve lengths away, are near $S$. (The gap of $S$ itself is below 1, since $G$ is taken out
# of it.)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 18.6 Real heads
#
# Is training detected in a real transformer? In transformers that read ten digits we first freeze all but the
# $W$ of all eight heads, and let these descend: in the loss of labels; in that of soft targets (a share of
# 0.4 spread over all classes), the negative control; and, with no task at all, in the *entropy* of attention
# over the digits. Next, Adam trains $W$ with labels; then $K$ and $Q$ in its place. We look after half a
# length and after one. Last, Adam trains everything, with $K$ and $Q$, for 400 steps on ten digits or
# sentences.
#
# The theorem applies to none of these: LayerNorms and an MLP stand between a head and the readout, and layer
# 2 reads what layer 1 moves. **Predict first:** where is training detected? Which of the three losses leads
# most?

# %%
print(columns)
others = [f"W by descent, {loss}" for loss in ("soft targets", "entropy")]
frozen = [LADDER[0], *others, *LADDER[1:3]]  # ways to train a transformer of which the rest is frozen
found = {f"{way}{stop}": stored(way, way, "digits", stop) for way in frozen for stop in (", 0.5", ", 1")}
for tokens in ("digits", "sentences"):
    found[tokens] = stored(f"all by Adam, with K and Q: {tokens}", tokens, "labels")
missed = {at for at, (mean, half) in found.items() if mean < half}
early = {f"{way}, 0.5" for way in ("W by descent, entropy", "W by Adam", "K and Q by Adam")}
assert missed == early | {"digits", "sentences"}
print("\nW by descent: gap of labels, less that of")
less = {}
for at in [(other, f"digits{stop}") for other in others for stop in (", 0.5", ", 1")]:
    less[at] = interval(gap_of_N((LADDER[0], at[1])) - gap_of_N(at))
    print("{:27s}{:>11s}{:9.2f} ± {:.2f}".format(*at, *less[at]))
assert [abs(mean) < half for mean, half in less.values()] == [True, True, True, False]
gone = measured("18.losses").load().gone.sel(aim="soft").values[:, 1].mean()
print(f"one length away {gone:.2f} of the loss of soft targets, above its least, has gone")
alone = interval(gap_of_N(("digits", "labels")) - gap_of_N(("digits", rivals[1])))
print("all by Adam, digits: lead over untrained K and Q alone {:.2f} ± {:.2f}".format(*alone))
assert alone[0] > alone[1]

# %% jupyter={"source_hidden": true}
fig, ax = plt.subplots(figsize=(9, 5.6))
lines = {f"linear layer, {way}": {"end": lead} for way, lead in in_layer.items()}
lines |= {f"linear layer, {what}": {"soft": leads[k]} for k, what in enumerate(("labels", "soft targets"))}
lines |= {f"transformer, {way}": {stop: found[f"{way}, {stop}"] for stop in ("0.5", "1")} for way in frozen}
lines |= {f"transformer, all by Adam: {what}": {"400": found[what]} for what in ("digits", "sentences")}
looks = {
    "0.5": (BLUE, "o", "half a length away"),
    "1": (ORANGE, "s", "one length away"),
    "soft": (GREY, "v", "at the soft minimum, 1.3 lengths away"),
    "end": (GREEN, "D", "at the end, 3.3 lengths away"),
    "400": (BLACK, "^", "after 400 steps, 0.57 and 0.39 lengths away"),
}
for at, line in enumerate(lines.values()):
    for k, (stop, (mean, half)) in enumerate(line.items()):
        color, marker, _ = looks[stop]
        height = at + (0.3 * k - 0.15) * (len(line) > 1)
        ax.errorbar(mean, height, xerr=half, color=color, marker=marker, linestyle="none", capsize=3)
for color, marker, label in looks.values():
    ax.plot([], [], color=color, marker=marker, linestyle="none", label=label)
ax.set_yticks(range(len(lines)), [*lines])
ax.invert_yaxis()
ax.axvline(0, color="0.5", linewidth=1)
ax.set(xlabel="lead")
ax.legend(loc="lower right", fontsize=10)
show(
    fig,
    alt="Leads with their intervals. In the linear layer W by descent leads by 0.74 at the end, W by Adam by "
    "0.47, K and Q by descent by 0.27 and by Adam by 0.18; at the soft minimum labels lead by 0.42, soft "
    "targets by 0.29. In transformers, all else frozen, W by descent leads by 0.17 at half a length and by "
    "0.31 at one, with soft targets by 0.14 and 0.27, in the entropy by 0.12 and 0.50; W by Adam by 0.05 and "
    "0.10, K and Q by Adam by 0.01 and 0.08. Whole transformers: digits 0.04, sentences -0.05.",
)

# %% [markdown]
# **Figure 3.** The leads of 18.5 and 18.6, each with its interval.
#
# **In a transformer, too, $W$ by descent leads its rivals, but labels are not needed.** They lead by 0.17
# at half a length and by 0.31 at one, soft targets by 0.14 and 0.27, and no difference of the two is detected
# (soft targets are still before their minimum). **The entropy, which knows no task, leads most:** by 0.50 at
# one length, where its gap exceeds that of labels by 0.17 ± 0.08. So a lead needs no task.
# (Entropy, too, has no minimum at a finite $W$, so whether it runs off to an SVM is open.)
#
# **By Adam less is detected.** At one length its leads are 0.10 and 0.08, and at half a length none is
# detected. Whole transformers with $K$ and $Q$ are not: on digits they lead untrained $K$ and $Q$, by 0.07 ±
# 0.06, but not the free $W$; on sentences the free $W$ is ahead. But $G$ is the first movement of descent,
# not of Adam, so the instrument itself may favour descent.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 18.7 Taken apart
#
# Which ingredients of a transformer turn a head away from its SVM? The *base* is a linear layer on 16
# sentences of 8 words, of which the last word asks. Gradient descent trains $W$ from 0, in growing steps.
# Each line of the table adds an ingredient, or a few, and tells of ten draws. It gives the cosine of $W$ to
# the SVM of what it selects in these sentences, with the **hard** margins of lessons 10 and 14; the cosine
# of a free $W$ to its own; and the share of *decided* choices, those with an attention above 0.99. The
# *LayerNorm* line has one before attention, too, and the *MLP* line also has a value matrix.
#
# <details><summary>The runs in full</summary>
#
# $d = 32$; embeddings and readout are random, of length 1. The loss is the mean of $\ln(1 + e^{-y f})$. Each
# step has 2% of the length of $W$, but 0.1 at least. Keys and queries start at random, and the cosine is that
# of the whole $W$, so the random start counts in it. Learned embeddings are taken as they are after training.
# Three ingredients decide slowly and are trained longer. The others stop at 300 steps, since before 2,000
# attention saturates and a slope falls below $10^{-280}$, near the least number that float64 holds.
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
    cosine, chance, made = (float(cell[x].median()) for x in ("whole", "whole_never_trained", "decided"))
    line = setting.replace(" norm", " LayerNorm")
    print(f"{line:34s} {steps:5d}  {cosine:.2f} ({cell.whole.min():.2f}){chance:8.2f}{made:9.2f}")
nuclear, of_pairs = apart.nuclear.sel(setting="+ K and Q"), measured("18.pairs").load().nuclear
print(f"+ K and Q, to the nuclear norm's SVM:     {nuclear.median():.2f} ({nuclear.min():.2f})")
print(f"untrained K and Q, as far, to theirs:     {of_pairs.min():.2f} to {of_pairs.max():.2f}")
assert of_pairs.max() < 0.6 < nuclear.min() < 0.99 < apart.whole.sel(setting="base").min()

# %% [markdown]
# **$K$ and $Q$, Adam and the MLP line lie off the SVM, and learned embeddings may; a learned readout hardly
# does.**
#
# - **A learned readout, or every token asking,** turns $W$ little: both have 0.98 in the median.
# - **Learned embeddings** have 0.95 in the median, but as little as 0.47.
# - **Keys and queries** have 0.71, but 0.93 to lesson 11's SVM, that of the nuclear norm. Untrained ones
#   have at most 0.53 to theirs.
# - **Adam** has 0.84. In lesson 03's runs it ended like steepest descent of the largest entry; that norm's
#   SVM is not measured here.
# - **Value matrix, residual and MLP** together have 0.74.
# - **LayerNorm** prefers mixtures (18.8). So most choices are undecided after 3,000 steps, and $W$ is down to
#   the free one.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 18.8 Which tokens win, and what LayerNorm prefers *(optional)*
#
# **Which tokens win?** In the theorems a selected token has a better score than the tokens closest to it.
# Here the *best* token of a position is the one with the largest $-\partial L/\partial s_{kt}$: more
# attention to it would lower the loss $L$ most. **Predict:** how often does a trained head look most at the
# best token (chance: about 0.06), and more often than before training? And how many positions of a sequence
# *agree* on the token that is chosen most often there?

# %%
print("ten networks            the best wins   more than before       agree   more than before")
names = ("best", "untrained_best", "agree", "untrained_agree", "train", "valid")
for tokens in ("digits", "sentences"):
    of_task = [runs[name].sel(tokens=tokens).values for name in names]
    for k in (0, 1):
        best, no_best, agree, no_agree = (x[:, k].mean(-1) for x in of_task[:4])  # of each network
        pieces = [best.mean(), *interval(best - no_best), agree.mean(), *interval(agree - no_agree)]
        line = "{:20.2f}{:12.2f} ± {:.2f}{:12.2f}{:12.2f} ± {:.2f}".format(*np.round(pieces, 2) + 0)
        print(f"{tokens:10s}layer {k + 1}{line}")
    right = [x.mean() for x in of_task[4:]]
    print("{:10s}right: {:.2f} of the learned, {:.2f} of unseen ones".format("", *right))
chosen = np.array([(s.argmax(-1)[..., None] == np.arange(16)).mean((0, 2)) for s in moments[250]])
print("your network, layer 2: most chosen token of each head", chosen[1].argmax(-1) + 1,
      "its share", chosen[1].max(-1), "share of token 1", chosen[1, :, 0])  # fmt: skip
assert (chosen[1].argmax(-1) == 0).sum() == 1

# %% [markdown]
# **In layer 2 in about a tenth of its choices:** on digits in 0.05 ± 0.04 more than before training; on
# sentences no more is detected. More clearly the positions of a sequence come to agree: in layer 2 on digits
# 0.81 of them, 0.41 ± 0.06 more than before. (The sentences are memorised: 0.59 of unseen ones are right.)
#
# In large language models this token is often the first of the text, an attention **sink** (Xiao et al.,
# 2023). In layer 2 of your network only head 1 chooses token 1 most, in 0.28 of its choices.
#
# **What does LayerNorm prefer?** In 18.7 it left most choices undecided. The exercise asks why.

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
# **The law of LayerNorm:** the best attention consists of the coefficients of the cone's point nearest to $y
# v$, scaled to the sum 1. For $y f$ is $\lVert v\rVert$ times the cosine of the angle between $z$ and $y v$,
# so it is largest in the direction of that point, which is often a mixture of several tokens.
#
# Does a trained $W$ find it? Below, `under_norms` trains $W$ with both LayerNorms on three new draws of 16
# sentences. In these draws (not in all) each sentence has a token with $y\, v \cdot x_t > 0$, as the law
# asks. We print how much attention lies elsewhere than the law says, in the mean over sentences, and how many
# tokens the law gives attention to.

# %%
# attention (48, 8), tokens (48, 8, 32), y v (48, 32)
looks_at, X, goal = under_norms(3, seed=0, steps=500, length=0.04)
scores = (X @ goal[..., None])[..., 0]
assert (scores.max(1) > 0).all()  # none of the 48 sentences is left out
by_law = [best_mixture(tokens, towards, 1) for tokens, towards in zip(X, goal, strict=True)]
best = np.eye(8)[scores.argmax(1)]
off = [np.abs(looks_at - np.array(where)).sum(1).mean() / 2 for where in (by_law, best)]
print("attention that lies elsewhere than by the law: {:.2f}, than on the best token: {:.2f}".format(*off))
used = (np.array(by_law) > 1e-6).sum(1)
print(f"by the law {used.mean():.1f} tokens have attention; one alone in {(used == 1).sum()} of 48 sentences")
assert off[0] < 0.1 < 0.4 < off[1], again.format("18.3")

# %% [markdown]
# **Nearly, in the mean:** about 0.07 of the attention lies elsewhere, while half of it lies off the best
# single token. Among eight tokens attention under LayerNorm hardly ever should end on one: in these draws in
# one sentence of 48. Where it does not, the theorems name no selection.

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
excess = []
for k, moved in ((k, moves[k]) for moves in (trained, free) for k in (0, 1)):
    W, x = matrices(start, k) + moved, unseen[k]
    for selected, solved in zip(choices(W, x), svm_of(W, x), strict=True):  # of each head
        i, at, t = np.nonzero(np.arange(16) != selected.numpy()[..., None])
        A = torch.einsum("rd,re->rde", x[i, selected[i, at]] - x[i, t], x[i, at]).flatten(1).numpy()
        w = solved.flatten().numpy()
        value = w @ w / 2 + np.square(np.maximum(0, 1 - A @ w)).sum() / 2
        excess.append(1 - lower_bound(A, w, 1.0) / value)
largest = np.ceil(max(excess) / 1e-4) / 1e4  # rounded up
print(f"{len(excess)} SVMs of 18.4, C = 1: no objective can fall by more than {largest:.2%}")
assert 0 < largest < 5e-4, again.format("18.4")

# %% [markdown]
# The objective is strongly convex, so with the optimum $w^*$ the error $\lVert w - w^*\rVert^2$ is at most
# twice what the objective can still fall by. (In 18.5 the solver stops earlier, at a bound of 0.1%.)

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
# Three directions follow, each with a first cell to run, and what it printed for us.
#
# <details><summary>Moving tokens</summary>
#
# **Question:** in 18.6 transformers and their rivals both have a gap. Do they have it because $G$ is made of
# tokens that then move? **Prediction:** with $G$ over the trained tokens the transformers have none, but the
# free $W$ keeps its own, as in 18.5, where no token moves. **Control:** that free $W$, with the same new
# $G$. **First cell:** how far have the tokens moved? It prints their mean cosine to where they were before
# training, in each layer.
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
# 18.7's 300 steps are over. **Control:** a free $W$, as far, and the nuclear norm's SVM of its own
# selection. **First cell:** 18.7's keys and queries after 30 steps (five seconds). It prints median cosines:
# to the nuclear norm's SVM, to the Frobenius norm's, and of a free $W$ to its own Frobenius one.
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
# **Question:** does the gap grow if transformers train ten times longer? **Prediction:** only if $W$ runs
# on; labels have no best finite answer and allow it, soft targets (0.6 for the label, 0.4 over all classes)
# have a minimum and do not. **Control:** soft targets, and a free $W$ as far as the labels. **First cell:**
# how far $W$ moves with each aim, in lengths of $W_0$ (three networks, some minutes).
#
# ```python
# from course.replicate.lesson_18 import AIMS, on_ten
#
# found = on_ten("digits", steps=4000, trials=3, seed=0)
# print(*zip(AIMS, found["moved"].mean((0, 2, 3)).tolist()), sep="\n")
# ```
#
# **First number:** it prints about 0.62 for labels and 0.52 for soft targets; with `steps=400` 0.60 and
# 0.48. So ask first whether $W$ runs on at all.
#
# </details>

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 18.11 Claims and measurements
#
# | claim | prediction | measurement |
# |:---|:---|:---|
# | digits: the free $W$'s cosine to its SVM | near 0, 0.25, or 0.5? | 0.62, 0.60; trained heads 0.51, 0.49 |
# | soft targets, at their minimum, are detected | yes or no? | yes: 0.29 ± 0.08 |
# | labels less soft targets, $p = 0.95$ | early, late? | half way 0.015 ± 0.009; at the end 0.152 ± 0.041 |
# | $W$ by descent in a transformer leads by | which loss most? | labels 0.31, soft 0.27, entropy 0.50 |
# | lead of whole transformers: digits; sentences | detected? | 0.04 ± 0.06; -0.05 ± 0.04 |
# | cosine of the base to its SVM, least of ten | near 1 | 0.99; a free $W$ has a median of 0.50 |

# %% [markdown]
# ## Questions
#
# Somebody trains one model, tests its 144 heads, and reports a p-value below $10^{-20}$. What is wrong?
# <details><summary>Answer</summary>
#
# Heads of one model share data and start: 144 tests, but one independent run.
# </details>
#
# Whole transformers with $K$ and $Q$ are not detected in 18.6. Can one say that nothing of an SVM is in them?
# <details><summary>Answer</summary>
#
# No. "Not detected" only bounds the lead: on digits it may be nearly 0.1, the upper end of its interval. And
# the instrument looks for the SVM of one matrix norm only.
# </details>

# %%
progress("18")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# **What in a real transformer is a support vector machine, and how would one know?** By the Frobenius norm
# and up to one length from $W_0$ we have found no head of a transformer that is one. One would know by a
# measurement that comes out otherwise for movements that nobody trained, and for a loss that stops. Our first
# instrument fails the first test. Our second passes it for $W$ by descent, but in a transformer it fails the
# second before the minimum; in a linear layer it tells the two losses apart well only there.
#
# - Attention becomes sparser, mostly before the data are fitted, but does not come near one token.
# - The first instrument, a head's cosine to its own SVM, is about 0.5 on digits, **and as much for
#   untrained keys and queries.**
# - The second, the lead, detects $W$ by descent in a linear layer and in a transformer, and less by Adam.
#   **But it detects soft targets, too, and descent in the entropy, with no task, most of all.** In the linear
#   layer labels have more than soft targets by 0.015 ± 0.009 half way, and by 0.15 ± 0.04 at the minimum.
# - The base of 18.7 is an SVM by its cosine, 0.99 or more; with $K$ and $Q$ it comes near the nuclear norm's.
#
# **The course in three sentences.** Where a loss has no minimum, descent can run off, and its late gradients
# are sums over the few comparisons that are still close: so a machine trained for something else can solve
# an SVM, whose norm the optimiser or the factors can pick. In attention the comparisons are between tokens:
# keys, scores and this norm say which choices can last, and the start and the optimiser's way say which is
# made. Where the theory ends the method remains: predict a number, measure it, and set a control beside it.

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
