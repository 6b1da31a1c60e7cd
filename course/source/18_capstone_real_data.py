# %% [markdown] slideshow={"slide_type": "slide"}
# # 18 · Capstone: real tokens
#
# Here is a small transformer with all that belongs to one: two layers of four heads, MLPs, residual
# connections, normalisation, Adam. It learns to read handwritten digits, and good from bad in 2,000 sentences
# of film reviews, these mostly by heart.
#
# **The question: what in a real transformer is a support vector machine, and how would one know?**
#
# An SVM over what a head selects points where the head's weights have moved with a cosine of one half, where
# random directions have 0.03. A control says that this is no success. Then we add a transformer's ingredients
# to the theory's setting, one at a time.

# %% [markdown] slideshow={"slide_type": "skip"}
# **After this lesson you can**
#
# - read a transformer of forty lines and look into each of its heads while it trains;
# - solve a soft-margin attention SVM, and certify the answer;
# - design the controls that tell an explanation from a tautology, and say how sure you are;
# - take a setting apart, one ingredient at a time, and find what breaks a theorem;
# - carry out a project of your own.
#
# **You need** [lesson 06](06_attention_as_svm.ipynb) (the Att-SVM),
# [lesson 11](11_key_query_nuclear.ipynb) (keys and queries),
# [lesson 13](13_nonlinear_heads.ipynb) (nonlinear heads) and
# [lesson 14](14_sequence_causal.ipynb) (every position a query). About 85 minutes, four
# exercises, the last of them in an optional section.

# %%
import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure
from torch.nn.functional import cross_entropy, layer_norm

from course.exercise import check, exercise, progress, todo
from course.figure import show
from course.replicate import measured
from course.replicate.lesson_18 import LOOKS
from course.replicate.taken_apart import at_the_end, few_sentences
from mini_attn import datasets, geometry, plots, svm, widgets

plots.style()
torch.set_num_threads(1)  # many small tensors: one thread is fastest
np.set_printoptions(precision=2, suppress=True)
BLUE, ORANGE, GREEN, BLACK = (plots.COLORS[name] for name in ("blue", "vermillion", "green", "black"))
again = "this differs from the text: if exercise {} has no tick, start there"

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 18.1 A transformer, and the idea in a picture
#
# A digit of 8 by 8 pixels is cut into 16 patches of 2 by 2: a sequence of $T = 16$ tokens with 4 numbers
# each. They are embedded in $d = 32$ dimensions, with a vector for their place. An attention head with keys
# $K$ and queries $Q$ ($32 \times 8$) has the matrix $W = K Q^\top / \sqrt 8$, and position $k$ looks at token
# $t$ with the logit $a_t^\top W a_k$, where $a$ is what the layer reads: tokens of mean 0 and standard
# deviation one. Every position asks, as in lesson 14; the answer is read from the mean over all positions.


# %%
def norm(x):
    """Each token minus its mean, over its standard deviation."""
    return layer_norm(x, x.shape[-1:])


def attend(P, layer, x, real):
    """What the heads of a layer read (n, T, d), their attention (n, heads, T, T), what they add (n, T, d)."""
    a = norm(x)
    K, Q, V, out = (P[f"{name}{layer}"] for name in "KQVO")
    W = K @ Q.mT / K.shape[-1] ** 0.5  # (heads, d, d)
    h = (a[:, None] @ W.mT) @ a[:, None].mT  # (n, heads, k, t): the logits a_t^T W a_k
    s = h.masked_fill(~real[:, None, None], -torch.inf).softmax(-1)
    return a, s, (s @ (a[:, None] @ V) @ out).sum(1)


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


# %%
def begin(inputs, T, classes, seed, d=32, heads=4):
    """Random weights."""
    generator, m = torch.Generator().manual_seed(seed), d // heads
    shapes = {"embed": (inputs, d), "place": (T, d), "read": (d, classes)}
    for layer in (0, 1):
        shapes |= {f"{name}{layer}": (heads, d, m) for name in "KQV"}
        shapes |= {f"O{layer}": (heads, m, d)}
        shapes |= {f"U{layer}": (d, 2 * d), f"b{layer}": (2 * d,), f"D{layer}": (2 * d, d)}
    size = {"embed": 2 * inputs**-0.5, "place": 0.5, "b0": 0.0, "b1": 0.0}
    P = {}
    for name, shape in shapes.items():
        draw = torch.randn(shape, generator=generator, dtype=torch.float64)
        P[name] = (size.get(name, shape[-2] ** -0.5 if len(shape) > 1 else 0) * draw).requires_grad_()
    return P


# %% [markdown]
# We train one now, some 250 steps of Adam on batches of 32 digits, and keep what its heads do on the way.

# %%
pictures = datasets.digits()
train, valid, _ = datasets.split(pictures, seed=0)
P = begin(4, 16, 10, seed=0)
start = {name: w.detach().clone() for name, w in P.items()}
optimizer = torch.optim.AdamW(P.values(), lr=3e-3, weight_decay=0.0)
generator, moments = torch.Generator().manual_seed(0), {}
everywhere = torch.ones(len(pictures.y), 16, dtype=torch.bool)


def answers(P, rows, keep=None):
    return transformer(P, pictures.X[rows] @ P["embed"] + P["place"], everywhere[: len(rows)], keep)


for step in range(251):
    if step in (0, 10, 20, 40, 80, 160, 250):
        keep = []
        with torch.no_grad():
            answers(P, train[:8], keep)
        moments[step] = [s.numpy() for _, s in keep]
    some = train[torch.randint(0, len(train), (32,), generator=generator)]
    loss = cross_entropy(answers(P, some), pictures.y[some])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
with torch.no_grad():
    right = (answers(P, train).argmax(-1) == pictures.y[train]).double().mean()
    unseen = (answers(P, valid).argmax(-1) == pictures.y[valid]).double().mean()
print(f"right in training above 97%: {bool(right > 0.97)}; on unseen digits above 92%: {bool(unseen > 0.92)}")
tops = moments[250][1].mean(2).argmax(-1)  # the patch that each head of layer 2 prefers, (digits, heads)
assert (right > 0.97, unseen > 0.92) == (True, True)
assert tops[6, [0, 2, 3]].tolist() == [0, 10, 10]

# %% jupyter={"source_hidden": true}
drawn = 6
fig, axes = plt.subplots(2, 5, figsize=(10, 4.3))
for row, (step, name) in enumerate(((0, "before training"), (250, "after 250 steps"))):
    image = pictures.X[train[drawn]].reshape(4, 4, 2, 2).swapaxes(1, 2).reshape(8, 8)
    axes[row, 0].imshow(image, cmap="gray_r")
    axes[row, 0].set_ylabel(name)
    for head in range(4):
        seen = moments[step][1][drawn, head].mean(0).reshape(4, 4)
        shown = axes[row, head + 1].imshow(seen, cmap="Blues", vmin=0, vmax=0.75)
        axes[0, head + 1].set_title(f"head {head + 1}")
axes[0, 0].set_title(f"a digit: {int(pictures.y[train[drawn]])}")
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
# **Figure 1.** A digit, and the attention that each patch receives in the four heads of layer 2, averaged
# over the 16 positions that ask.


# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output", "widget"]
def heads_at(step, layer, position):
    """What each head looks at from one position."""
    figure = Figure(figsize=(8, 2.5), layout="none")  # constrained layout would draw twice
    for head in range(4):
        ax = figure.add_axes((0.02 + 0.245 * head, 0.06, 0.22, 0.72))
        seen = moments[step][layer - 1][drawn, head, position - 1].reshape(4, 4)
        ax.imshow(seen, cmap="Blues", vmin=0, vmax=1)
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

# %% [markdown]
# **Try it.** Does the map change with who asks, in layer 2? In layer 1?

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 18.2 Does attention become sparse, and when?
#
# In the theory a fit is no end: the weights grow on without bound, and the softmax saturates. We measure the
# entropy $-\sum_t s_t \log s_t$ of each row of attention, over its largest value: 1 is even, 0 is one token.
#
# **Predict before you run on.** Does most of the entropy fall before the training set is fitted (99% right),
# or after it?

# %%
runs, steps = measured("18.heads").load(), np.array(LOOKS)
print("How much of the fall in entropy has come by the first look with 99% right? Ten runs each")
for tokens in ("digits", "sentences"):
    cell = runs.sel(tokens=tokens, decay=0.0)
    entropy = cell.entropy.values.mean(-1)  # (runs, looks, layers)
    fitted = (cell.train.values >= 0.99).argmax(-1)
    assert (cell.train.values.max(-1) >= 0.99).all()
    fall = [(e[0] - e[at]) / (e[0] - e[-1]) for e, at in zip(entropy.mean(-1), fitted, strict=True)]
    print(f"{tokens:10s} {np.mean(fall):.2f}, by step {steps[fitted].min()} to {steps[fitted].max()}")
    assert abs(cell.valid.values[:, -1].mean() - {"digits": 0.96, "sentences": 0.59}[tokens]) < 0.005
    assert min(fall) > 0.75
    assert (entropy[:, -1] < entropy[:, 0]).all()  # in each run and layer
    last = entropy[:, -1].mean(0)
    assert 0.395 < last.min() < last.max() < 0.675
onward = measured("18.onward").load()  # (tokens, five runs, steps 400 and 4000, layers, heads)
last = onward.entropy.values[:, :, 1].mean((1, 3))
print("\nWhat is left after 4,000 steps? Mean entropy, layer 1 and 2, five runs")
print(f"digits     {last[0]}\nsentences  {last[1]}")
assert np.allclose(last, [[0.674, 0.337], [0.625, 0.492]], atol=0.002)

# %% jupyter={"source_hidden": true}
fig, axes = plt.subplots(1, 2, figsize=(10, 3.9), sharey=True)
for ax, tokens in zip(axes, ("digits", "sentences"), strict=True):
    cell = runs.sel(tokens=tokens, decay=0.0)
    for k, (color, marker) in enumerate(((BLUE, "o"), (ORANGE, "s"))):
        of_layer = cell.entropy.values[..., k, :].mean(-1)
        ax.plot(steps, of_layer.mean(0), color=color, marker=marker, label=f"entropy, layer {k + 1}")
        ax.fill_between(steps, of_layer.min(0), of_layer.max(0), color=color, alpha=0.2)
    wrong = 1 - cell.train.values
    ax.plot(steps, wrong.mean(0), color=BLACK, linestyle="--", label="wrong in training")
    ax.fill_between(steps, wrong.min(0), wrong.max(0), color=BLACK, alpha=0.15)
    ax.axvline(
        steps[np.median((cell.train.values >= 0.99).argmax(-1)).astype(int)], color="0.4", linestyle=":"
    )
    ax.set(title=tokens, xlabel="step", ylim=(-0.03, 1.0))
axes[0].set_ylabel("relative entropy, share wrong")
axes[1].legend(loc="upper right", fontsize=10)
show(
    fig,
    alt="Relative entropy of attention in layers 1 and 2 and the share of training sequences that are wrong, "
    "against the step, for digits and sentences. Entropy falls from 0.9 to between 0.4 and 0.67 while the "
    "share wrong falls to 0, and hardly after it.",
)

# %% [markdown]
# **Figure 2.** Mean relative entropy of the heads of each layer (lines) and the range of ten runs (bands),
# with the share of training sequences that are answered wrongly. Dotted: where the median run has fitted 99%.

# %% [markdown]
# Attention does become sharper, in each run and layer. But of the fall in 400 steps more than three quarters
# have come by the first look at which 99% are right, and a mean relative entropy of 0.40 to 0.67 is left; ten
# times as many steps leave 0.34 to 0.67. Of unseen digits 96% are right at step 400, of unseen sentences only
# 59%.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 18.3 Which tokens win?
#
# In the theory a token wins by a better *score*: more attention to it lowers the loss. In a real model the
# score of token $t$ for position $k$ of a head is $-\partial L/\partial s_{kt}$, which backward hands out for
# free. We also count how many positions of a sequence agree: the largest share that selects one token.

# %%
print("Which tokens win? Ten runs              trained: layer 1, 2    untrained     random token")
for tokens in ("digits", "sentences"):
    cell, won = runs.sel(tokens=tokens, decay=0.0), {}
    for name, said in {"agree": "largest share that agrees", "best": "has the best score"}.items():
        won[name] = [cell[prefix + name].values.mean((0, -1)) for prefix in ("", "untrained_", "chance_")]
        print(f"{tokens:10s} {said:28s} {won[name][0]}         {won[name][1]}   {won[name][2]}")
    assert (won["agree"][0] > won["agree"][2] + 0.07).all()
    assert (cell.best.values.mean(-1)[:, 1] > cell.chance_best.values.mean(-1)[:, 1]).all()  # in each run
    assert (np.abs(won["best"][0] - [0.07, 0.11]) < [0.01, 0.02]).all()
    assert (np.abs(won["best"][1] - [0.08, 0.075]) < [0.005, 0.01]).all()
    assert (won["best"][0] < 2 * won["best"][2]).all()
    assert tokens == "sentences" or won["agree"][0][1] > 0.7 > 0.5 > won["agree"][1][1]
later = onward.best.values[:, :, 1].mean((1, 3))
assert 0.065 < later.min() < later.max() < 0.125

# %% [markdown]
# **In layer 2 of the digits most positions select the same patch**, in the mean over heads.
#
# **The token with the best score at the end seldom wins:** in 7% of the choices of layer 1, where 8% did
# untrained, and in 10 to 12% in layer 2 (7 to 8%). Chance gives 6 to 7%. In the theory's own setting it wins
# in most (section 18.8). After 4,000 steps it wins in 7 to 12%.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 18.4 Does an SVM say so?
#
# Lesson 14's SVM asks for a lead of 1 of each selected token over each other one: with 10 digits these are
# 2,400 rows for the 1,024 entries of $W$, and a head that wavers selects tokens that contradict each other.
# So we let rows be missed, at a price.
#
# > **The soft-margin attention SVM** (a definition). For selected tokens $\alpha_{ik}$ and a price $C > 0$,
# >
# > $$\min_W\ \tfrac12\lVert W\rVert_F^2 + \tfrac C2 \sum_{i,k}\sum_{t \ne \alpha_{ik}} \xi_{ikt}^2, \qquad
# > \xi_{ikt} = \max\bigl(0,\ 1 - (x_{i\alpha_{ik}} - x_{it})^\top W x_{ik}\bigr).$$
# >
# > It has one solution, whatever is selected: the first term is strongly convex.
#
# As in lesson 02, a dual problem certifies the answer.

# %% [markdown]
# ### Exercise 18.1: A bound for soft margins
#
# ★★★ · 15 minutes
#
# Flatten everything: rows $a_j$ of `A` (rows, D), a vector `w` (D,) and $C$. Let $\xi_j = \max(0, 1 - a_j
# \cdot w)$. Show with multipliers $\lambda \ge 0$ of the constraints $a_j\cdot w' \ge 1 - \xi'_j$ that
# *every* $w'$ has an objective of at least a certain number which depends on $\lambda$. Then take
# $\lambda = c\,\xi$ and return the largest bound over all $c \ge 0$. If no row has slack, return 0.
#
# <details><summary>Hint 1</summary>
#
# Minimise $\frac12\lVert w'\rVert^2 + \frac C2\lVert\xi'\rVert^2 +
# \sum_j \lambda_j(1 - \xi'_j - a_j\cdot w')$ over $w'$ and $\xi'$, each by itself.
# </details>
# <details><summary>Hint 2</summary>
#
# The minimum is at $w' = \sum_j \lambda_j a_j$ and $\xi' = \lambda/C$. With $\lambda = c\,\xi$ the bound is a
# parabola in $c$.
# </details>


# %%
@exercise("18.1")
def lower_bound(A, w, C):
    """Return the bound, a float: A (rows, D), w (D,), C positive."""
    ### BEGIN SOLUTION
    slack = np.maximum(0, 1 - A @ w)
    if not slack.any():
        return 0.0
    total = A.T @ slack
    return float(slack.sum() ** 2 / (2 * (total @ total + slack @ slack / C)))
    ### END SOLUTION


# %%
check("18.1", lower_bound)


# %%
def matrices(P, layer):
    """W of each head, without what a token of mean 0 cannot feel: (heads, d, d)."""
    W = (P[f"K{layer}"] @ P[f"Q{layer}"].mT / 8**0.5).detach()
    W = W - W.mean(-1, keepdim=True)
    return W - W.mean(-2, keepdim=True)


def choices(W, a):
    """What each head selects for each position, (heads, n, T): W (heads, d, d), tokens a (n, T, d)."""
    return ((a[:, None] @ W.mT) @ a[:, None].mT).argmax(-1).swapaxes(0, 1)


def read(P, rows):
    """The tokens, of length one, that each layer reads: (rows, 16, d) each."""
    keep = []
    with torch.no_grad():
        answers(P, rows, keep)
    return [a / 32**0.5 for a, _ in keep]


unseen, learned, own = read(P, valid[:10]), read(P, train[:10]), []
for layer, a in enumerate(unseen):
    W = matrices(P, layer)
    selected = choices(W, a)
    solution = svm.solve_soft(a.expand(4, -1, -1, -1), selected, C=1.0)
    own.append(geometry.cosine(W - matrices(start, layer), solution.value))
    print(f"layer {layer + 1}: cosine of W - W_0 to the SVM, by head:", own[-1].numpy().round(1))
assert 0.42 < torch.stack(own).mean() < 0.55

# %% [markdown]
# Does exercise 18.1 certify these solutions? Take the first head of layer 2, row by row.

# %%
one, X = selected[0].numpy(), unseen[1].numpy()
i, k, t = np.nonzero(np.arange(16) != one[..., None])  # digit, position, token
A = np.einsum("rd,re->rde", X[i, one[i, k]] - X[i, t], X[i, k]).reshape(len(i), -1)
w = solution.value[0].numpy().ravel()
value = w @ w / 2 + (np.maximum(0, 1 - A @ w) ** 2).sum() / 2
print(f"{len(A)} rows, {int((A @ w < 1 - 1e-6).sum() > 100) * 'more than 100 '}with slack; gap below 0.1%:",
      bool(lower_bound(A, w, 1.0) > 0.999 * value))  # fmt: skip
assert len(A) == 2400
assert abs(value - float(solution.objective[0])) < 1e-6 * value
assert value * (1 + 1e-9) > lower_bound(A, w, 1.0) > 0.999 * value, again.format("18.1")

# %% [markdown]
# On ten digits that it has never seen, a cosine of about 0.5. In 1,024 dimensions two random directions have
# one of about $1/\sqrt{1024} = 0.03$. So the SVM explains a good part of where a head went? **Stop here, and
# list what else could give 0.5.**

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 18.5 Controls
#
# The SVM was given the tokens that $W$ selects. Whoever labels points by a plane, and fits an SVM to the
# labels, gets much of the plane back. So each claim about $W$ needs a rival that lacks what the claim is
# about:
#
# - **another head's** SVM: is it *this* head's selection?
# - the selection of the **untrained** $W_0$ on the same tokens: is it something learned?
# - a $W$ that **nobody trained**, moved as far, made of tokens from training, with its own selection
#   (*nobody's*, for short). The same ten unseen digits judge it.
#
# For the last one we draw $c$ at random: whatever the loss, the gradient in $W$ has the form
# $\sum_{i,k,t} c_{ikt}\, x_{it} x_{ik}^\top$ with $\sum_t c_{ikt} = 0$, since the slopes of a softmax add up
# to 0.
#
# **Predict first:** what is the cosine of a random sum of this form to its SVM: near 0, about 0.25, or 0.5
# and above?

# %%
generator, rival = torch.Generator().manual_seed(0), []


def random_slopes(a):
    """Four random sums of the form of a gradient, of length one: (4, d, d)."""
    c = torch.randn(4, 10, 16, 16, generator=generator, dtype=torch.float64)
    M = torch.einsum("hikt,itd,ike->hde", c - c.mean(-1, keepdim=True), a, a)
    return M / M.norm(dim=(1, 2), keepdim=True)


def how_far(layer):
    """How far training has moved each head's W, (4, 1, 1)."""
    return (matrices(P, layer) - matrices(start, layer)).norm(dim=(1, 2), keepdim=True)


def to_its_svm(moved, a, layer):
    """Cosines of four movements from W_0 to the SVMs of what they select."""
    selected = choices(matrices(start, layer) + moved, a)
    return geometry.cosine(moved, svm.solve_soft(a.expand(4, -1, -1, -1), selected, C=1.0).value)


def of_nobody(made_of, layer):
    """Four random movements, of tokens (10, T, d): cosines to the SVMs of what they select in unseen ones."""
    return to_its_svm(how_far(layer) * random_slopes(made_of), unseen[layer], layer)


for layer, a in enumerate(learned):
    rival.append(of_nobody(a, layer))
    print(f"layer {layer + 1}, nobody trained: cosine of W - W_0 to its SVM:", rival[-1].numpy().round(1))
assert torch.stack(rival).mean() > torch.stack(own).mean()

# %% [markdown]
# It does *better* than the trained one. How can a matrix that learned nothing agree so well with an SVM?

# %% [markdown]
# ### Exercise 18.2: What a selection gives back
#
# ★★★ · 14 minutes
#
# One sequence has $T \ge 3$ orthonormal tokens, and each of them asks. A random matrix is $W = \sum_{kt}
# (c_{kt} - \bar c_k)\, x_t x_k^\top$ with `c` (T, T), $k$ before $t$, and $\bar c_k$ the mean over $t$. Each
# position selects the token with the largest logit, and the soft-margin SVM is solved for
# these choices. Return the cosine of $W$ to the SVM's solution, without a solver. It is the same for every
# price $C$.
#
# <details><summary>Hint 1</summary>
#
# What are the entries of $W$ in the basis of the tokens? And which of them does position $k$ use?
# </details>
# <details><summary>Hint 2</summary>
#
# So the SVM falls apart into $T$ problems, one a position. They differ in the name of the selected token
# only. In each, all tokens that are not selected are alike.
# </details>
# <details><summary>Hint 3</summary>
#
# The part of position $k$ is a multiple of $(x_\alpha - \bar x)\, x_k^\top$: the same multiple for all. Take
# inner product and lengths.
# </details>


# %%
@exercise("18.2")
def given_back(c):
    """Return the cosine, a float, for coefficients c (T, T), position before token."""
    ### BEGIN SOLUTION
    c = c - c.mean(1, keepdims=True)
    return float(c.max(1).sum() / (np.linalg.norm(c) * np.sqrt(len(c) - 1)))
    ### END SOLUTION


# %%
check("18.2", given_back)

# %%
rng, x = np.random.default_rng(0), torch.linspace(-9, 9, 4001, dtype=torch.float64)
for T in (4, 8, 16, 32):
    c = rng.normal(size=(40, T, T))
    X, W = torch.eye(T, dtype=torch.float64), torch.from_numpy(c - c.mean(-1, keepdims=True)).mT
    solution = svm.solve_soft(X.expand(40, 1, T, T), W.argmax(-2)[:, None], C=1.0)
    solved, mine = geometry.cosine(W, solution.value).mean(), np.mean([given_back(one) for one in c])
    m = torch.trapezoid((1 + x.sign()) / 2 - torch.special.ndtr(x) ** T, x)  # the mean of the largest
    law = float(T**0.5 / (T - 1) * m)
    print(f"{T:2d} orthonormal tokens: solver {solved:.2f}, exercise 18.2 {mine:.2f}, law {law:.2f}")
    assert abs(solved - mine) < 0.01, again.format("18.2")
    assert T < 16 or abs(mine - law) < 0.008, again.format("18.2")

# %% [markdown]
# So 16 orthonormal tokens give almost a half for nothing. **What selects is found again in its selection.**
# It falls with $T$ like $\sqrt T\, m/(T - 1)$, with $m$ the mean of the largest of $T$ standard normal
# numbers. (In 18.5 other tokens judge than those that $W$ is made of.)
#
# But training moves $K$ and $Q$, and these have 8 columns. **Predict:** will keys and queries that nobody
# trained have more than the free $W$, the trained 0.5, or next to nothing?

# %% [markdown]
# ### Exercise 18.3: Keys and queries that nobody trained
#
# ★★★ · 13 minutes
#
# Say that the pull on $W = K Q^\top/\sqrt m$, the negative slope of the loss in it (lesson 04), is $M$ and
# stays so. `M` is (d, d), of Frobenius norm 1; `K` and `Q` are (d, m). Descend on $K$ and $Q$ at once, in
# vanishingly small steps, until $W$ is as far from its start as `far`, in the Frobenius norm. Return how $W$
# has moved, $W - W_0$, (d, d). Each entry may be off by 1% of the largest.
#
# <details><summary>Hint 1</summary>
#
# The loss changes by $-\langle M, \mathrm{d}W\rangle$. Write $\mathrm{d}W$ with $\mathrm{d}K$ and
# $\mathrm{d}Q$; which direction of $K$ does most? The factor $1/\sqrt m$ changes how fast $W$ moves, not
# where.
# </details>
# <details><summary>Hint 2</summary>
#
# Many short steps will do: let each move $W$ by at most a three-hundredth of `far`. Both slopes are taken at
# the same place.
# </details>


# %%
@exercise("18.3")
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
check("18.3", moved_by_pairs)

# %%
pairs = []
for layer, a in enumerate(learned):
    M, far = random_slopes(a), how_far(layer).flatten()
    K, Q = (start[f"{name}{layer}"] - start[f"{name}{layer}"].mean(1, keepdim=True) for name in "KQ")
    heads = [moved_by_pairs(K[h].numpy(), Q[h].numpy(), M[h].numpy(), float(far[h])) for h in range(4)]
    pairs.append(to_its_svm(torch.as_tensor(np.stack(heads)), unseen[layer], layer))
    print(
        f"layer {layer + 1}, nobody's keys and queries: cosine of W - W_0 to its SVM: {pairs[-1].mean():.1f}"
    )
assert abs(torch.stack(pairs).mean() - torch.stack(own).mean()) < 0.06, again.format("18.3")
assert torch.stack(pairs).mean() < torch.stack(rival).mean() - 0.05, again.format("18.3")

# %% [markdown]
# They have about what the trained have, from *one* random pull.
#
# Now ten runs and both tasks, also with a weight decay of 1 (measured from what it alone leaves of $W_0$).
# Nobody's are made of all training sequences, and ten unseen ones judge both: so neither has met its judges.
# Lesson 11's norm, $\frac12\lVert W\rVert_*^2$ in the SVM, judges too.
#
# The heads of one run share data: we average over the four of a layer, and a run counts once. From the ten
# differences, trained minus nobody's, comes the 95% interval of their mean (Student's).

# %%
fair = measured("18.rivals").load()
layers = [f"{tokens}, layer {k}" for tokens in ("digits", "sentences") for k in (1, 2)]


def by_layer(sweep, name):
    # both layers on digits, then both on sentences; the four heads' mean: (4, runs)
    return sweep[name].values.mean(-1).swapaxes(1, 2).reshape(4, 10).astype(float)


plain, table = fair.sel(decay=0.0), {}
print(f"{'Which rival comes near?':26s}", *layers)
for name, words in {
    "own": "its own SVM", "pairs": "nobody's keys and queries", "free": "nobody's free W",
    "start": "untrained selection", "other_head": "another head",
}.items():  # fmt: skip
    table[name] = by_layer(plain, name).mean(1)
    print(f"{words:26s}{'{:12.2f}{:16.2f}{:18.2f}{:19.2f}'.format(*table[name])}")

lead = {}
for decay, words in ((0.0, "no decay"), (1.0, "decay 1")):
    for judge, name in (("", "Frobenius"), ("_nuclear", "nuclear")):
        mine, rivals = (by_layer(fair.sel(decay=decay), of + judge) for of in ("own", "pairs"))
        lead[f"{name}, {words}"] = mine - rivals
reach = {words: 2.262 * d.std(1, ddof=1) / 10**0.5 for words, d in lead.items()}  # half an interval
mean = np.array([d.mean(1) for d in lead.values()])  # (4 panels, 4 layers)
sure = np.abs(mean) > np.array([*reach.values()])  # the interval is without 0
assert (sure & (mean > 0)).tolist() == [[False] * 4] * 2 + [[False, True, False, False]] * 2
assert np.allclose(mean[2:, 1], [0.079, 0.062], atol=0.002)
assert (sure & (mean < 0)).sum(1).tolist() == [1, 3, 2, 2]
assert sure[2:, 2:].all()
assert -0.09 < mean.min() < mean[:2].max() < 0.01
assert (mean[0] + reach["Frobenius, no decay"]).max() < 0.036
assert np.abs(table["other_head"]).max() < 0.03 < 0.14 < table["start"].min() < table["start"].max() < 0.24

# %% jupyter={"source_hidden": true}
fig, axes = plt.subplots(1, 4, figsize=(10, 3.2), sharex=True, sharey=True)
for ax, (words, by_run) in zip(axes, lead.items(), strict=True):
    for row, d in enumerate(by_run):
        color, marker = ((BLUE, "o"), (ORANGE, "s"))[row % 2]
        ax.plot(d, row + np.linspace(-0.25, 0.15, 10), marker, color=color, fillstyle="none", markersize=4)
        ax.errorbar(d.mean(), row + 0.32, xerr=reach[words][row], color=BLACK, capsize=3, marker=".")
    ax.axvline(0, color="0.5", linewidth=1)
    ax.set_title(words, fontsize=11)
axes[0].set_yticks(range(4), layers)
axes[0].invert_yaxis()
fig.supxlabel("cosine, trained minus nobody's keys and queries", fontsize=11)
show(
    fig,
    alt="Differences of ten runs, trained minus nobody's, for two layers and two tasks, by two norms, "
    "without and with weight decay. Without decay all intervals hold 0 or lie below it; with decay layer 2 "
    "of the digits lies above 0, both layers of the sentences below.",
)

# %% [markdown]
# **Figure 3.** Does training lead? A mark is one run, the mean over the four heads of a layer. Black: the
# mean and its interval.

# %% [markdown]
# This head's own selection matters: another head's gives 0. But **most of such a cosine comes without
# training keys and queries: it is no evidence that training goes to an SVM.** Without decay no interval lies
# above 0, and by the Frobenius norm none reaches beyond 0.04; by the nuclear norm nobody's lead in three of
# four. With decay training leads in layer 2 of the digits, by 0.08 and 0.06, and trails on sentences. A lead
# would show that training matters, not why.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 18.6 Can the control be passed?
#
# Now **one linear layer**: it reads sentences of 8 words through a fixed vector, here called *the head* (no
# attention head). The embeddings are random and stay; they have length $\sqrt d$, as what 18.1's heads read.
# Every word asks.
#
# Only keys and queries learn, from random ones. Each step moves them by 2% of their length, at least by 0.1.
# The judge is 18.4's SVM, of tokens scaled to length 1 as there; the rival, nobody's keys and queries, made
# of the same sentences as training. No theorem covers these runs: lesson 11's is about global minimisers.
#
# **Predict:** $W$ has moved as far as in 18.5's heads, about its own first length. Does training lead with 16
# sentences? With 160?

# %%
few, many = measured("18.as_read").load(), measured("18.many").load()
few = few.sel(tokens="of length sqrt(d)")
W_0 = float(matrices(start, 0).norm(dim=(1, 2)).mean())
moved = fair.moved.sel(decay=0.0).values.mean((1, 3)) / W_0  # of both layers, for both tasks
print(f"18.5's heads have moved by {moved.min():.1f} to {moved.max():.1f} lengths of W_0")


def at_look(cell, look, judges=""):
    """Medians of length, entropy, the trained and nobody's cosine; in how many of ten sets training leads."""
    names = ("moved", "entropy", f"own{judges}", f"pairs{judges}")
    far, entropy, mine, other = (cell[name].values[:, look] for name in names)
    return *(float(np.median(x)) for x in (far, entropy, mine, other)), int((mine > other).sum())


rows = {f"16 sentences, step {step}": at_look(few.sel(d=32), look) for look, step in enumerate((10, 20))}
rows["160, step 20, 16 judge"] = at_look(many.sel(n=160), 0, "_few")
rows["160, step 20, all judge"] = at_look(many.sel(n=160), 0)
print("\nDoes training lead? Ten sets moved  entropy   own  nobody's  ahead in")
for name, row in rows.items():
    print(f"{name:28s}" + "{:6.1f}{:9.2f}{:6.2f}{:10.2f}{:10d}".format(*row))
for d in (24, 32):
    looks = [at_look(few.sel(d=d), look) for look in range(6)]
    assert [ahead for *_, ahead in looks] == [9 + d // 32, 10, 10, 10, 10, 10]
    assert looks[0][0] < 0.7 < moved.max() < 1.3 < looks[1][0] < 1.6
    assert 0.7 > looks[0][1] > 0.66 > 0.45 > looks[1][1] > 0.4
leads = {name: mine - other for name, (_, _, mine, other, _) in rows.items()}
assert all(3 * left < leads["16 sentences, step 20"] for name, left in leads.items() if name[:3] == "160")

# %% jupyter={"source_hidden": true}
fig, ax = plt.subplots(figsize=(7, 3.7))
cell = few.sel(d=32)
far = np.median(cell.moved, axis=0)
ax.axvspan(moved.min(), moved.max(), color=ORANGE, alpha=0.25, label="transformers (18.5)")
for name, color, line, label in (("own", BLUE, "-o", "trained"), ("pairs", "0.4", "--x", "nobody's")):
    ax.semilogx(far, np.median(cell[name], 0), line, color=color, label=f"{label} keys and queries")
    ax.fill_between(far, cell[name].min("trial"), cell[name].max("trial"), color=color, alpha=0.2)
ax.set(xlabel="distance from the start, in lengths of $W_0$ (log)", ylabel="cosine to its SVM")
ax.legend(loc="lower right", fontsize=10)
show(
    fig,
    alt="Cosine to the SVM against the distance from the start, logarithmic, for 16 sentences. Trained keys "
    "and queries are above nobody's from the first look on, near one length, where a band marks the "
    "transformers, and end at 0.76 to 0.53.",
)

# %% [markdown]
# **Figure 4.** One linear layer on 16 sentences: cosine to the SVM of the own selection, medians and ranges
# of ten data sets. Band: the heads of 18.5, on average.

# %% [markdown]
# **On 16 sentences training leads**, just short of a transformer's length by 0.47 to 0.38, just beyond it by
# 0.62 to 0.47: the control can be passed.
#
# **With 160 most of the lead is gone:** less than a third is left, with 16 of them as judges or with all.
# Whether it is their thousand sequences that leave 18.5's heads no lead without decay **stays open**.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 18.7 Taken apart
#
# Which ingredients turn the direction? Now the *base* is one linear layer on 16 sentences, with embeddings of
# length 1, in which the last word asks and $W$ itself is trained, from 0, by 300 such steps. The judge is
# lesson 06's SVM, with **hard** margins.
#
# **Predict before you run on.** Order from harmless to fatal:
#
# - the head or the embeddings learn (are trained, too); every token asks;
# - keys and queries in place of $W$; Adam (steps of 0.003 an entry, which do not grow); weight decay;
# - a norm before the head; a residual and an MLP.
#
# *Nobody* is the free $W$ of 18.5, the harder rival; *above* are sets in which the trained $W$ has more.
# *Decided* is the share of choices whose largest attention is above 0.99; *longer* means 3,000 steps (1,000
# with an MLP).

# %%
apart, longer = (measured(f"18.{name}").load() for name in ("apart", "longer"))
PAIR = "+ embeddings learn, every token asks"
path, later, sets = {}, {}, {}
assert np.isfinite(apart.whole.sel(setting="+ second layer")).sum() == 4  # with such an SVM
apart = apart.drop_sel(setting="+ second layer")
print("What keeps the direction? Ten sets,     cosine  nobody     sets  decided")
print("medians                                 of W trained  above")
for sweep, found, when in ((apart, path, ""), (longer, later, "longer ")):
    for setting in map(str, sweep.setting.values):
        cell = sweep.sel(setting=setting)
        lead = (cell.whole - cell.whole_never_trained).values
        sets[when + setting] = int((lead > 0).sum())
        found[setting] = m = {str(name): float(cell[name].median()) for name in cell.data_vars}
        print(f"{when + setting:39s} {m['whole']:5.2f} {m['whole_never_trained']:6.2f} {(lead > 0).sum():6d}"
              f" {m['decided']:10.2f}")  # fmt: skip
        assert np.isfinite(lead).all()
assert path["base"]["whole"] > 0.995
assert sets["base"] == 10

# %% [markdown]
# - **Nearly nothing:** the head learns, every token asks, weight decay.
# - **Another direction:** keys and queries, whose cosine to the SVM of the nuclear norm is 0.93.
# - **A later decision:** Adam, a residual with an MLP. Longer, nearly all choices are made; $W$ is above the
#   control in ten of ten, though with 0.84 (Adam) and 0.74 (down from 0.81) not at this SVM.
# - **Another direction at times:** embeddings, which move while $W$ is being learned. The cosine lies
#   between 0.41 and 1.00, above the control in eight of ten.
# - **No lead to be seen** (ten sets may hide a small one): a norm before the head, also longer, where few
#   choices are made, and embeddings that learn while every token asks. The medians are 0.51 and 0.41 (only
#   four lead nobody's 0.32).
#
# A second layer is left out: what it selects has a hard-margin SVM in four sets only.

# %%
assert min(path[name]["whole"] for name in ("+ head learns", "+ every token asks", "+ weight decay")) > 0.97
some = apart.sel(setting="+ embeddings learn")
assert abs(path["+ K and Q"]["nuclear"] - 0.93) < 0.008
assert 0.4 < some.whole.min() < 0.42 < 0.99 < some.whole.max()
assert (sets["+ embeddings learn"], path[PAIR]["decided"] > 0.95) == (8, True)
for setting, *cosines in (("+ Adam", 0.77, 0.84), ("+ residual and MLP", 0.81, 0.74)):
    assert path[setting]["decided"] < 0.1 < 0.95 < later[setting]["decided"]
    assert sets[setting] == sets["longer " + setting] == 10
    assert np.allclose([found[setting]["whole"] for found in (path, later)], cosines, atol=0.005)
normed = "+ norm before the head"
assert max(sets[PAIR], sets[normed], sets["longer " + normed]) < 8
assert abs(path[PAIR]["whole"] - 0.41) + abs(path[normed]["whole"] - 0.51) < 0.01
assert max(path[normed]["decided"], later[normed]["decided"]) < 0.1

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 18.8 What a norm before the head does *(optional)*
#
# The norm makes the head *nonlinear* (lesson 13): what is read is no longer a weighted mean of values.
# **Predict:** is some mixture of tokens then better than any one of them, or none?

# %% [markdown]
# ### Exercise 18.4: Does a mixture win?
#
# ★★☆ · 9 minutes
#
# A head reads $f(x) = v \cdot c(x)/\sigma(x)$: $c(x)$ is each entry of $x$ minus the mean of its entries, and
# $\sigma(x)$ their standard deviation. All attention is on the token with the largest $f$. Move a share
# $\varepsilon$ of it to token $t$: return the slope of $f$ at $\varepsilon = 0$ for each token, (T,). `X` is
# (T, d), `v` is (d,).
#
# (Without the norm the slope is $v\cdot x_t - v \cdot x_\alpha$: at the best token never positive.)
#
# <details><summary>Hint 1</summary>
#
# The mixture is $x_\alpha + \varepsilon(x_t - x_\alpha)$. Write $c$ for $c(x_\alpha)$. Then
# $\sigma^2 = \lVert c\rVert^2/d$.
# </details>
# <details><summary>Hint 2</summary>
#
# $\sigma$ moves, too. What is its slope, as an inner product with $c$? Then the rule for a quotient.
# </details>


# %%
@exercise("18.4")
def towards(X, v):
    """Return the slopes (T,) of the normed head's output: X (T, d), v (d,)."""
    ### BEGIN SOLUTION
    c = X - X.mean(1, keepdims=True)
    sigma = np.sqrt((c**2).mean(1))
    f = c @ v / sigma
    best = f.argmax()
    step = c - c[best]
    falls = step @ c[best] / (c.shape[1] * sigma[best])  # the slope of sigma
    return (step @ v - f[best] * falls) / sigma[best]
    ### END SOLUTION


# %%
check("18.4", towards)

# %%
sample = few_sentences(5, seed=1)
words, y, E = sample
v = np.random.default_rng(0).normal(size=32)
tokens_of = [(E[run][words[run, i]].numpy(), float(y[run, i]) * v) for run in range(5) for i in range(16)]
gains = [towards(X, v) for X, v in tokens_of]
print(f"the best token of a sentence, a norm, a random v: some mixture beats it in "
      f"{sum(slope.max() > 1e-6 for slope in gains)} of {len(gains)} sentences")  # fmt: skip
assert sum(slope.max() > 1e-6 for slope in gains) > 70, again.format("18.4")

print("\nDoes a mixture win after training? In how many of five fresh sets")
print("                         best token wins   loss below that of    sharp attention")
print("                         in over half      best token alone      raises it")
for setting, wanted in {"base": [5, 0, 0], "+ norm before the head": [0, 5, 5]}.items():
    end = at_the_end(setting, sample, seed=1)
    more, less = end["sharp"] - end["loss"], end["loss"] - end["alone"]  # of logs
    found = [int(x.sum()) for x in (end["best"] > 0.5, less < -1e-3, more > 1e-3)]
    print("{:24s} {:8} {:>19} {:18d}".format(setting, *found))
    assert found == wanted

# %% [markdown]
# In all but a few sentences some mixture beats the best token. Why? The slope has the sign of $f_t$ minus
# $f_\alpha$ times the correlation of the two tokens' entries: a good token that has little in common with
# the best one helps. After training, too: under the norm the loss lies below that of the best tokens, and
# rises if attention is made sharp.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 18.9 Your project *(optional)*
#
# Choose a question whose answer you do not know. Copy the
# [report template](../course/assets/report-template.md) (`course/assets/report-template.md`), and write your
# prediction into it before the first run. A report earns up to 20 points:
#
# | points | for |
# |---:|:---|
# | 3 | a question that could be answered either way, and a prediction with its theorem and conditions |
# | 4 | a measurement that would come out otherwise if the answer were another one |
# | 5 | a control that has everything but the claimed cause, and the claim set against it |
# | 3 | uncertainty over independent runs; every run accounted for |
# | 3 | ten times longer, five other seeds, one other size |
# | 2 | an answer in two sentences that promises no more than was shown |
#
# Two directions, each with its first number in the cell below:
#
# - **A. Do moving tokens lower the cosine?** The trained $W$ was summed up from tokens that moved on
#   meanwhile; our random $W$ was made of the final ones. First, make it of the tokens at the *start*. A good
#   answer mixes tokens of all steps as Adam does.
# - **B. Sinks.** In layer 2 of the digits most positions agree. In language models that is often the first
#   token, which means little (Xiao and others, 2023). First, how much does a selected token add? A good
#   answer trains with a causal mask.

# %%
for layer, before in enumerate(read(start, train[:10])):
    first = of_nobody(before, layer).mean()
    print(f"A. layer {layer + 1}, of the tokens at the start: cosine {first:.1f}, "
          f"of the final ones {rival[layer].mean():.1f}")  # fmt: skip

for tokens in ("digits", "sentences"):
    cell = runs.sel(tokens=tokens, decay=0.0)
    sizes = cell["value"].values[:, 1].mean(-1) / cell.chance_value.values[:, 1].mean(-1)
    print(f"B. {tokens}: length of what a selected token adds, over a random one's: {sizes.mean():.1f}")
    assert sizes.mean() > 0.9

# %% [markdown]
# <details><summary>Open problems that the papers themselves leave, informally</summary>
#
# Several heads trained together; several layers, whose inputs move; nonlinear heads: which tokens stay;
# convergence from every start; rates in finite time beyond special cases; keys and queries without a ridge.
#
# </details>

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 18.10 Claims and measurements
#
# | claim | prediction | measured |
# |:---|:---|:---|
# | attention becomes sparse | relative entropy 0 | sharper in all runs; at step 4,000 means of 0.34 to 0.67 |
# | the best token wins | in most choices, as in the base | no: in 7 to 12% |
# | its own SVM predicts $W - W_0$ | above nobody's | of 8 intervals 1 lies above, 3 below (Frobenius) |
# | the same in one linear layer (no theorem) | above nobody's | 0.62, nobody's 0.47; less with more data |
# | one linear layer, tokens that stand still | cosine 1 | above 0.995 (median of ten) |
# | the same under a norm; tokens that move and ask | below 1 | 0.51; 0.41: no lead seen |

# %% [markdown]
# ## Questions
#
# Somebody trains one model, tests its 144 heads, and reports $p < 10^{-20}$. What is wrong?
# <details><summary>Answer</summary>
#
# Heads of one model share data, start and each other's residual stream: 144 tests, but one independent run.
# So the $p$-value says little of *this* model, and nothing of transformers.
# </details>

# %%
progress("18")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - A small transformer's attention becomes sharper mostly **while** it fits the data, and at step 400, as at
#   4,000, is far from one token. The token with the best score seldom wins.
# - On unseen sequences the SVM over a head's own selection agrees with its movement. **So it does for keys
#   and queries that nobody trained**: what selects is found again in its selection. A claim needs a rival
#   that has all but the cause.
# - Taken apart, the theory holds in its setting. Keys and queries of one linear layer pass the control at
#   about a transformer's length; with ten times the sentences little of the lead is left.
# - **The limits:** two data sets, one size of transformer, one price, ten runs that share data; 16 sentences
#   in 18.7 and 18.8. Why the heads of 18.5 lead so seldom stays open.
#
# **The course in four sentences.** Where a loss has no minimum, descent runs off, and its late gradients are
# sums over the few comparisons that are still close: so a machine trained for something else solves an SVM.
# The optimiser, or how the weights are factored, picks the norm. In attention the comparisons are between
# tokens: the scores say which choices can last, the start which is made. Where the theory ends the method
# remains: predict a number, measure it, and set a control beside it.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Further reading
#
# - A. Vaswani and others, *Attention Is All You Need* (2017, arXiv 1706.03762): the transformer.
# - D. A. Tarzanagh, Y. Li, C. Thrampoulidis, S. Oymak, *Transformers as Support Vector Machines* (2023,
#   arXiv 2308.16898): the theorems, and in their discussion most of the open problems.
# - J. Hewitt, P. Liang, *Designing and Interpreting Probes with Control Tasks* (2019, arXiv 1909.03368): the
#   same trap, for probes of language models.
# - G. Xiao and others, *Efficient Streaming Language Models with Attention Sinks* (2023, arXiv 2309.17453).
#
# **New in the library:** [`svm.solve_soft`](../mini_attn/svm/soft.py),
# [`svm.SoftSolution`](../mini_attn/svm/soft.py).
#
# **Next:** your project.
