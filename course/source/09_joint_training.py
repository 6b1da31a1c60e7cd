# %% [markdown] slideshow={"slide_type": "slide"}
# # 09 · Training the head too
#
# So far the prediction head $v$ was given, and with it the score of every token: training moved $p$ alone.
#
# **The question: where do the head and the attention go when they are trained together?**
#
# The head goes to an SVM over sequences, attention to an SVM over tokens. But a sequence that the head
# classifies with room to spare asks less of attention. How much depends on how fast the head grows.

# %% [markdown]
# **After this lesson you can**
#
# - say which sequences the attention may neglect, and why;
# - predict the direction of $p$ from the ratio of two step lengths;
# - say which of the two runs ahead in plain descent, and where this picture breaks.
#
# **You need** [lesson 01](01_logistic_regression_bias.ipynb) (the direction of $v$),
# [lesson 02](02_hard_margin_svm.ipynb) (support vectors), [lesson 05](05_softmax_attention.ipynb) and
# [lesson 06](06_attention_as_svm.ipynb) (Att-SVM, forces between tokens), and
# [lesson 08](08_regularization_path.ipynb) (regularisation paths). About 80 minutes, four exercises.

# %%
import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure

from course.exercise import check, exercise, progress, todo
from course.figure import show
from course.replicate import measured
from mini_attn import data, plots, svm, widgets

plots.style()
torch.set_num_threads(1)  # many small tensors: one thread is fastest
np.set_printoptions(precision=4, suppress=True)
BLUE, ORANGE, GREEN, BLACK = (plots.COLORS[name] for name in ("blue", "vermillion", "green", "black"))
again = "this differs from the text: if exercise {} has no tick, start there"

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 9.1 The idea in a picture
#
# There are $n$ sequences of $T$ tokens $x_{it}$, which serve as keys too, with labels $y_i = \pm 1$. The
# vector $p$, the **prompt**, gives the attention $s_i = \mathrm{softmax}(h_i)$, $h_{it} = x_{it} \cdot p$.
# Attention mixes the tokens of a sequence into one point, and the head classifies that point:
#
# $$L(v, p) = \frac1n \sum_i \ell(u_i), \qquad u_i = y_i\, v \cdot \bar x_i, \qquad
# \bar x_i = \sum_t s_{it}\, x_{it}, \qquad \ell(u) = \log(1 + e^{-u}).$$
#
# The toy is from the code of Tarzanagh and others (2023), the paper that this lesson follows: three
# sequences of two tokens in the plane. The first token is always the origin. The second tokens, $(1, 1)$,
# $(1, -1)$ and $(\frac12, 1 + b)$ with labels $1, -1, 1$, carry the label in their second coordinate. We take
# two values of the *lift* $b$, 0 and $\frac12$.


# %%
def toy(lift):
    """Tokens (3, 2, 2) and labels (3,)."""
    tokens = data.toy_joint(lift)
    return tokens.X.numpy(), tokens.y.numpy()


def attention(p, X):
    """softmax(X p) for each sequence: p (..., d), X (..., n, T, d) -> (..., n, T)."""
    h = np.einsum("...itd,...d->...it", X, p)
    e = np.exp(h - h.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


# %% [markdown]
# For fixed attention the head is a linear classifier of the points $\bar x_i$ (lesson 01); for a fixed head
# $p$ feels the forces of lessons 05 and 06. With two tokens a sequence and scores
# $\gamma_{it} = y_i\, v \cdot x_{it}$,
#
# $$-\nabla_v L = \frac1n \sum_i |\ell'(u_i)|\, y_i\, \bar x_i, \qquad -\nabla_p L
# = \frac1n \sum_i |\ell'(u_i)|\, s_{i1} s_{i2}\, (\gamma_{i2} - \gamma_{i1})\, (x_{i2} - x_{i1}) .$$
#
# Far out $|\ell'|$ falls below the smallest float. So the code keeps its logarithm; a normalised step needs
# only a direction.


# %%
def forces(v, p, X, y):
    """-grad_v L and -grad_p L for B runs, (B, d) each, up to factors; the logs of these factors, (B, 1)."""
    between = X[:, :, 1] - X[:, :, 0]  # (B, n, d)
    lead = np.einsum("bid,bd->bi", between, p)  # of the second token
    log_s = -np.logaddexp(0, -lead)
    s = np.exp(log_s)
    seen = X[:, :, 0] + s[..., None] * between
    slope = -np.logaddexp(0, y * np.einsum("bid,bd->bi", seen, v))  # log |l'|
    pull = slope + 2 * log_s - lead  # log |l'| s (1 - s)
    gain = y * np.einsum("bid,bd->bi", between, v)  # difference of the scores
    log_v, log_p = slope.max(axis=1, keepdims=True), pull.max(axis=1, keepdims=True)
    on_v = np.einsum("bi,bid->bd", np.exp(slope - log_v) * y, seen) / len(y)
    on_p = np.einsum("bi,bid->bd", np.exp(pull - log_p) * gain, between) / len(y)
    return on_v, on_p, log_v, log_p


# %% [markdown]
# Both start at zero and take normalised steps: $p$ moves by $0.1$, $v$ by $0.1\,\omega$. The **ratio**
# $\omega$ says how much faster the head grows. **Predict:** does $\omega$ change where $p$ goes? For both
# lifts?


# %%
def unit(g):
    """g / ||g|| along the last axis, also where g is tiny; zero stays zero."""
    g = g / np.maximum(np.abs(g).max(axis=-1, keepdims=True), 1e-300)
    return g / np.maximum(np.linalg.norm(g, axis=-1, keepdims=True), 1e-300)


def apart(on_v, on_p, log_v, log_p):
    """Normalised, each of the two by itself."""
    return unit(on_v), unit(on_p)


# %%
def descend(X, y, ratio, steps, lr=0.1, every=1, rule=apart):
    """B runs of descent from zero: X (B, n, 2, d) or (n, 2, d), ratio (B,) or a number.

    Returns the paths of v and p, (1 + steps / every, B, d) each.
    """
    X, ratio = X.reshape(-1, *X.shape[-3:]), np.reshape(ratio, (-1, 1))
    B = max(len(X), len(ratio))
    X = np.broadcast_to(X, (B, *X.shape[1:]))
    v, p = np.zeros((2, B, X.shape[-1]))
    path_v, path_p = [], []
    for step in range(steps + 1):
        if step % every == 0:
            path_v.append(v)
            path_p.append(p)
        move_v, move_p = rule(*forces(v, p, X, y))
        v, p = v + ratio * lr * move_v, p + lr * move_p
    return np.array(path_v), np.array(path_p)


# %%
def degrees(w):
    """Angle of the last axis' vectors to the first coordinate axis."""
    return np.degrees(np.arctan2(w[..., 1], w[..., 0]))


# %%
ratios = (0.25, 0.5, 2.0)
rays = {0.0: [(4 / 3, 1 / 3)], 0.5: [(1.25, 0.25), (1, 0)]}  # section 9.3 says where these come from
six = [(lift, ratio) for lift in (0.0, 0.5) for ratio in ratios]
X, y = np.stack([toy(lift)[0] for lift, _ in six]), toy(0.0)[1]  # the labels do not depend on the lift
path_v, path_p = descend(X, y, [ratio for _, ratio in six], steps=1000)
kept = attention(path_p[-1], X)[..., 1]  # (6, 3)
print("lift   ratio   angle of v   angle of p   attention on the second tokens")
for k, (lift, ratio) in enumerate(six):
    of_v, of_p = degrees(path_v[-1, k]), degrees(path_p[-1, k])
    print(f"{lift:4.1f} {ratio:7.2f} {of_v:11.1f} {of_p:12.1f}   {kept[k]}")
    assert abs(of_v - 90) < 0.6
    assert lift > 0 or abs(of_p - degrees(np.array([4, 1]))) < 0.3
assert (kept > 0.999).all()
assert abs(degrees(path_p[-1, 5])) < 0.01


# %% jupyter={"source_hidden": true}
def draw_ray(ax, ray, style="--", label=None):
    """A ray from the origin, beyond the picture."""
    end = 100 * np.asarray(ray) / np.linalg.norm(ray)
    ax.plot([0, end[0]], [0, end[1]], style, color=BLACK, linewidth=1.5, zorder=3, label=label)


fig, axes = plt.subplots(2, 1, figsize=(7.0, 4.4), sharex=True)
for ax, lift in zip(axes, (0.0, 0.5), strict=True):
    for ratio, color, width in zip(ratios, (BLUE, GREEN, ORANGE), (5, 3, 1.4), strict=True):
        ax.plot(
            *path_p[:, six.index((lift, ratio))].T,
            color=color,
            linewidth=width,
            label=rf"$\omega = {ratio:g}$",
        )
    for ray in rays[lift]:
        draw_ray(ax, ray)
    ax.set(xlim=(-1, 41), ylim=(-1.6, 10.5), ylabel="$p_2$")
axes[0].set_title("lift $b = 0$: all three at the label margin")
axes[1].set_title(r"lift $b = \frac{1}{2}$: sequence 3 beyond it")
axes[0].text(26, 4.6, "Att-SVM of all three", fontsize=11)
axes[1].text(26, 7.4, "Att-SVM of all three", fontsize=11)
axes[1].text(24, -1.3, "Att-SVM of sequences 1 and 2", fontsize=11)
axes[0].legend(loc="upper left")
axes[1].set_xlabel("$p_1$")
show(
    fig,
    alt="Two p-planes. Above, lift 0: three paths, one for each ratio, coincide and run parallel to one "
    "dashed ray. Below, lift one half: the three paths fan out between two dashed rays; for a ratio of 2 "
    "the path runs along the lower ray, for smaller ratios between the two.",
)

# %% [markdown]
# **Figure 1.** Paths of $p$ for three ratios. Above they lie on each other. Dashed: rays that we computed
# without training (section 9.3).
#
# In all six runs the head goes up, and attention ends on the second tokens. Above, $p$ goes one way. Below,
# the head's *speed* decides the prompt's *direction*.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 9.2 The head's SVM
#
# Once $s_{i\alpha_i} \to 1$ for a chosen token $\alpha_i$ of each sequence, the head sees the points
# $x_{i\alpha_i}$ and nothing else. Where they are separable, as here, lesson 01 says where $v$
# goes.
#
# > **Label SVM**
# >
# > $$v_{\mathrm{mm}}(\alpha) = \arg\min_v \|v\| \quad \text{subject to} \quad
# > y_i\, v \cdot x_{i\alpha_i} \ge 1 \quad \text{for every } i .$$
#
# Its margin $1/\|v_{\mathrm{mm}}\|$ is the **label margin** of the choice $\alpha$. The sequences whose
# constraint holds with equality, $y_i\, v_{\mathrm{mm}} \cdot x_{i\alpha_i} = 1$, are the *support
# sequences*; we call their set $\mathcal S$.


# %%
def label_svm(x, y):
    """v_mm for selected tokens x (n, d) and labels y (n,)."""
    return svm.solve(svm.label_problem(torch.tensor(x), torch.tensor(y))).value.numpy()


output_of_v_mm = {}
for lift in (0.0, 0.5):
    X, y = toy(lift)
    x = X[:, 1]  # the second tokens are selected
    v_mm = label_svm(x, y)
    output_of_v_mm[lift] = y * (x @ v_mm)
    print(f"lift {lift}: v_mm = {v_mm}, signed outputs {output_of_v_mm[lift]}")
    assert np.allclose([v_mm, label_svm(x[:2], y[:2])], [0, 1], atol=1e-6)  # also without sequence 3

# %% [markdown]
# All six heads went to $v_{\mathrm{mm}} = (0, 1)$. Sequences 1 and 2 alone give it: at lift 0 the toy is
# degenerate, sequence 3 is at the margin, though not needed. The lift $\frac12$ takes it out of $\mathcal S$.

# %% [markdown]
# ### Exercise 09.1: How far to lift
#
# ★★☆ · 6 minutes
#
# A sequence has the label `y`, and its selected token is lifted from `x` to $x + b\,e$, along any direction
# `e`. You know `v_rest`, the solution of the label SVM of all *other* sequences. Predict the lift $b \ge 0$
# up to which the sequence is in $\mathcal S$: 0 if it is outside at $b = 0$ (even if more lift brings it in),
# `np.inf` if no lift frees it. (The sequences are separable at every lift, and before it the signed output at
# `v_rest` is not exactly 1.)
#
# <details><summary>Hint</summary>
#
# Lesson 02: a constraint that holds with room to spare can be dropped, and the solution stays. So which
# vector is $v_{\mathrm{mm}}$ once the sequence is free? What does that vector make of the lifted token?
# </details>


# %%
@exercise("09.1")
def freeing_lift(x, e, y, v_rest):
    """Return the lift, a float, for token and direction x, e (d,), label y (+-1) and v_rest (d,)."""
    ### BEGIN SOLUTION
    output, gain = y * (v_rest @ x), y * (v_rest @ e)
    if output >= 1:
        return 0.0
    return (1 - output) / gain if gain > 0 else np.inf
    ### END SOLUTION


# %%
check("09.1", freeing_lift)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 9.3 Which constraints of p count
#
# Lesson 06 wrote the force on $p$ as a sum over comparisons, each along $a_{it} = x_{i\alpha_i} - x_{it}$.
# Now each sequence also carries the slope of its own loss:
#
# $$-\nabla_p L \;\approx\; \frac1n \sum_i |\ell'(u_i)| \sum_{t \ne \alpha_i} s_{it}\,
# (\gamma_{i\alpha_i} - \gamma_{it})\; a_{it}, \qquad
# |\ell'(u_i)| \approx e^{-u_i}, \quad s_{it} \approx e^{-p \cdot a_{it}} .$$
#
# Now $v$ grows, and sequences outside $\mathcal S$ have the larger signed outputs. So **if the head grows
# fast enough** their forces die first, and they stop pushing $p$.
#
# > **Relaxed Att-SVM** for the choice $\alpha$ and the support sequences $\mathcal S$
# >
# > $$\min_p \|p\| \quad \text{subject to} \quad p \cdot (x_{i\alpha_i} - x_{it}) \ge
# > \begin{cases} 1 & i \in \mathcal S \\ 0 & i \notin \mathcal S \end{cases}
# > \qquad \text{for every } i,\; t \ne \alpha_i .$$
#
# Why 0, and not nothing at all? If $p$ turned *away* from $\alpha_i$, sequence $i$ would be left with a worse
# token. Where that one's signed output is the smallest of all, a fast head gives the sequence in the end the
# strongest force, which turns $p$ back. (Where it is not, see section 9.8.)
#
# The Att-SVM of lesson 06, with 1 everywhere, we now call *tight*.


# %%
def token_svm(X, sides):
    """min ||p|| s.t. p.(x_i2 - x_it) >= sides, for sequences that select their second token."""
    rows = svm.token_problem(torch.tensor(X), torch.ones(len(X), dtype=torch.int64)).a
    return svm.solve(svm.HardMarginProblem(rows, None, torch.as_tensor(sides).to(rows))).value.numpy()


for lift in (0.0, 0.5):
    X, y = toy(lift)
    for name, sides in (("tight", np.ones(3)), ("relaxed", 1.0 * np.isclose(output_of_v_mm[lift], 1))):
        p_mm = token_svm(X, sides)
        print(f"lift {lift}, {name:7s}: p = {p_mm}")
        assert min(np.abs(p_mm - ray).max() for ray in rays[lift]) < 1e-6

# %% [markdown]
# These are the dashed rays. The relaxed one explains the run with $\omega = 2$, not the others.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 9.4 Two radii, one ratio
#
# The force of a comparison is about $e^{-u_i}\, e^{-p \cdot a_{it}}$. Call $u_i + p \cdot a_{it}$ its
# exponent: **a small exponent is a strong force**.
#
# Suppose that $p$ walks straight on, along $\sum \lambda_{it}\, a_{it}$ with $\lambda_{it} \ge 0$ and
# independent $a_{it}$. Then its steps are in proportion to this sum, so each force is in proportion to its
# $\lambda_{it}$. With the factor $g_{it} = \gamma_{i\alpha_i} - \gamma_{it}$ of section 9.3,
#
# $$g_{it}\, e^{-E_{it}} = \text{constant} \cdot \lambda_{it} \qquad\text{where}\quad
# E_{it} = u_i + p \cdot a_{it} .$$
#
# The positive $g_{it}$ grow in proportion to $\|v\|$. So **those that push in the long run have equal
# exponents**, up to a known difference, $\log(g/\lambda)$.

# %% [markdown]
# ### Exercise 09.2: The angle before training
#
# ★★★ · 12 minutes
#
# The toy has the lift $b \ge 0$ (`lift`), and the head grows $\omega > 0$ times as fast as the prompt
# (`ratio`). Far out $v$ has the direction of $v_{\mathrm{mm}} = (0, 1)$, both walk straight on, and so
# $\|v\| = \omega\, \|p\|$. Predict the angle of $p$ above the first axis, in degrees. It is never below the
# ray of the relaxed SVM.
#
# <details><summary>Hint 1</summary>
#
# The angle lies between the two dashed rays of Figure 1. Which two comparisons push $p$ there, one up and one
# down? Write their exponents for $p = \|p\|\, (\cos \theta, \sin \theta)$.
# </details>
#
# <details><summary>Hint 2</summary>
#
# Set the exponents of sequences 2 and 3 equal, and divide by $\|p\|$. What is left has the form $A \cos
# \theta - B \sin \theta = C$; write its left side as one cosine. Tests: without a lift $\tan \theta =
# \frac14$ whatever the ratio is, and a very fast head has 0 degrees.
# </details>


# %%
@exercise("09.2")
def prompt_angle(lift, ratio):
    """Return the angle of p in degrees, a float, for lift >= 0 and ratio > 0."""
    ### BEGIN SOLUTION
    A, B = 0.5, 2 + lift  # lead of sequence 2 less that of 3: cos - sin - (cos / 2 + (1 + lift) sin)
    angle = np.arccos(min(1.0, ratio * lift / np.hypot(A, B))) - np.arctan2(B, A)
    return max(0.0, np.degrees(angle))
    ### END SOLUTION


# %%
check("09.2", prompt_angle)

# %%
X, y = toy(0.5)
ratios = np.array([0.125, 0.25, 0.5, 0.9, 2.0])
path_v, path_p = descend(X, y, ratios, steps=5000, every=5000, lr=0.2)


def surplus_of(v, p):
    """Exponent (signed output plus lead) of sequence 3 less that of 2, for one set of tokens X."""
    exponents = y * (v @ X[:, 1].T) + p @ X[:, 1].T
    return exponents[..., 2] - exponents[..., 1]


angles, surplus = abs(degrees(path_p[-1])), surplus_of(path_v[-1], path_p[-1])
print("        angle of p             exponent of 3 less that of 2")
print("ratio    predicted   measured      predicted   measured")
for k, ratio in enumerate(ratios):
    predicted = prompt_angle(0.5, ratio)
    theta = np.radians(predicted)
    lam = np.linalg.solve(X[1:, 1].T, [np.cos(theta), np.sin(theta)])  # of sequences 2 and 3
    told = np.log(1.5 * lam[0] / lam[1]) if ratio < 1 else np.inf  # g is 1.5 times as large for sequence 3
    print(f"{ratio:5.3f} {predicted:12.2f} {angles[k]:10.2f} {told:14.2f} {surplus[k]:10.2f}")
    assert abs(angles[k] - predicted) < 0.02, again.format("09.2")
    assert abs(surplus[k] - told) < 0.005 if ratio < 1 else abs(surplus[k] - 500) < 1, again.format("09.2")

# %% [markdown]
# At the ratio 2 the third sequence's force is about $e^{500}$ times smaller.

# %% [markdown]
# **In general.** Far out $v \approx u_{\min}\, v_{\mathrm{mm}}$, where $u_{\min}$ is the smallest signed
# output. So the signed output of sequence $i$ is $u_{\min}\, u_i^*$, with
# $u_i^* = y_i\, v_{\mathrm{mm}} \cdot x_{i\alpha_i} \ge 1$ (and $= 1$ in $\mathcal S$). Call the smallest
# exponent of all $u_{\min} + \Delta$. The others are at least as large. Divide by $\Delta$:
#
# $$u_{\min}\, u_i^* + p \cdot a_{it} \ge u_{\min} + \Delta \qquad\text{becomes}\qquad
# \frac{p}{\Delta} \cdot a_{it} \ge 1 - \kappa\, (u_i^* - 1), \quad \kappa = \frac{u_{\min}}{\Delta} .$$
#
# Only the smallest exponents push, those with equality. So $p$ is a non-negative sum of *their* $a_{it}$:
# KKT (lesson 02) for the shortest $p$. A side below 0 is raised to 0 (section 9.3).
#
# > **Softened Att-SVM** for $\kappa \ge 0$
# >
# > $$\min_p \|p\| \quad \text{subject to} \quad p \cdot (x_{i\alpha_i} - x_{it}) \ge
# > \max\big(0,\; 1 - \kappa\, (u_i^* - 1)\big) \qquad \text{for every } i,\; t \ne \alpha_i .$$
# >
# > *Conditions of the argument:* attention decides, $v$ and $p$ walk straight on without end, $\|v\|/\|p\|$
# > settles, all $g_{it} > 0$, and no side 0 is met with equality (section 9.8).
#
# Call the solution $p(\kappa)$. At $\kappa = 0$ it is tight, for large $\kappa$ relaxed. Which $\kappa$
# belongs to a run? From $v \approx u_{\min}\, v_{\mathrm{mm}}$ and $p \approx \Delta\, p(\kappa)$,
#
# $$\frac{\|v\|}{\|p\|} \approx \kappa\, \frac{\|v_{\mathrm{mm}}\|}{\|p(\kappa)\|} .$$
#
# The right side grows with $\kappa$, so each ratio of lengths has one $\kappa$.


# %%
def softened_sides(u, kappa):
    """The right-hand sides, (n,), for signed outputs u (n,) of v_mm."""
    return np.maximum(0, 1 - kappa * (u - 1))


def softened_svm(X, u, ratio):
    """p(kappa) with kappa = ratio ||p(kappa)||: insert a length, mend it; ||v_mm|| = 1 in the toy."""
    length = np.linalg.norm(token_svm(X, softened_sides(u, 0.0)))
    for _ in range(12):
        p = token_svm(X, softened_sides(u, ratio * length))
        length = (length + np.linalg.norm(p)) / 2
    return p


u = output_of_v_mm[0.5]
solved = np.array([degrees(softened_svm(X, u, ratio)) for ratio in ratios])
print("softened SVM, degrees:", *(f"{angle:.2f}" for angle in abs(solved)))
assert np.allclose(solved, [prompt_angle(0.5, ratio) for ratio in ratios], atol=0.01), again.format("09.2")

# %% [markdown]
# ### Exercise 09.3: How fast is fast enough?
#
# ★★★ · 10 minutes
#
# From some ratio $\|v\|/\|p\|$ on, $p(\kappa)$ is the relaxed solution $p_{\mathrm{rel}}$ itself. Return the
# smallest one, the **border**. You are given the signed outputs $u_i^*$, the smallest lead
# $p_{\mathrm{rel}} \cdot a_{it}$ of each sequence, and the norms of $v_{\mathrm{mm}}$ and
# $p_{\mathrm{rel}}$. If $p_{\mathrm{rel}}$ solves the tight problem too, the border is 0.
#
# <details><summary>Hint 1</summary>
#
# Softened constraints are never weaker than the relaxed ones. What must $p_{\mathrm{rel}}$ satisfy to be
# $p(\kappa)$?
# </details>
#
# <details><summary>Hint 2</summary>
#
# All softened constraints; those of $\mathcal S$ hold anyway (leave them out: rounding). At which $\kappa$?
# </details>


# %%
@exercise("09.3")
def border(u, leads, v_norm, p_norm):
    """Return the smallest ratio with p(kappa) = p_rel, for signed outputs u (n,), leads of p_rel (n,)."""
    ### BEGIN SOLUTION
    outside = u > 1 + 1e-6
    kappa = np.max((1 - leads[outside]) / (u[outside] - 1), initial=0.0)
    return kappa * v_norm / p_norm
    ### END SOLUTION


# %%
check("09.3", border)

# %%
lifts, factors = np.array([0.2, 0.5, 0.8]), np.array([0.1, 0.3, 0.6, 0.9, 1.1, 1.5])
X = np.stack([toy(lift)[0] for lift in lifts])
edges = np.array([border(y * x[:, 1, 1], x[:, 1, 0], 1.0, 1.0) for x in X])  # v_mm = (0, 1), p_rel = (1, 0)
speeds = edges[:, None] * factors  # (3, 6)
ends = descend(X.repeat(6, axis=0), y, speeds.ravel(), steps=2500, every=2500, lr=0.2)[1][-1]
ends = abs(degrees(ends)).reshape(3, 6)
print("lift   border   angle of p, head 10% slower   10% faster")
for k, lift in enumerate(lifts):
    print(f"{lift:4.1f} {edges[k]:8.3f} {ends[k, 3]:29.2f} {ends[k, 4]:12.2f}")
    assert abs(edges[k] - 1 / (2 * lift)) < 1e-5, again.format("09.3")
    assert ends[k, 4] < 0.01 < 1 < ends[k, 3], again.format("09.3")
    told = [prompt_angle(lift, one) for one in speeds[k]]
    assert np.allclose(ends[k], told, atol=0.05), again.format("09.2")
    assert np.allclose(told, np.degrees(np.maximum(0, (0.5 - lift * speeds[k]) / (2 + lift))), atol=0.25)

# %% jupyter={"source_hidden": true}
fig, ax = plt.subplots(figsize=(6.5, 3.4))
fine = np.linspace(0.01, 4, 400)
for k, (color, marker) in enumerate(zip((BLUE, ORANGE, GREEN), "osD", strict=True)):
    ax.plot(fine, [prompt_angle(lifts[k], one) for one in fine], color=color, linewidth=1.5)
    ax.plot(speeds[k], ends[k], marker, color=color, label=f"lift {lifts[k]:g}, border {edges[k]:.3g}")
ax.set(xlabel=r"ratio $\omega$", ylabel="angle of $p$ (degrees)", xlim=(0, 4), ylim=(-0.5, 13))
ax.legend()
show(
    fig,
    alt="Angle of p against the ratio for three lifts. Markers lie on curves that fall from the tight SVM, "
    "at 10 to 13 degrees, and meet zero at the borders 2.5, 1 and 0.625, where they bend and stay.",
)

# %% [markdown]
# **Figure 2.** Where $p$ ends: curves, predicted by exercise 09.2; markers, trained. Nearly straight, since
# a small angle $\theta$ (in radians) is $\theta \approx (\frac12 - b\, \omega)/(2 + b)$.

# %% [markdown]
# **Relaxed therefore means: the head grows fast enough.** How fast depends on how far the others lie beyond
# the label margin, and on their leads for $p_{\mathrm{rel}}$: in the toy the border is $\frac{1}{2b}$.


# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output", "widget"]
circle = np.linspace(-0.2, 0.6, 8001)
units = np.stack([np.cos(circle), np.sin(circle)], axis=-1)


def one_run(lift, ratio):
    """The path of p, and the direction with the largest smallest exponent, p.a + ratio (u* - 1)."""
    X, y = toy(lift)
    path = descend(X, y, ratio, steps=200, lr=0.2)[1][:, 0]  # longer steps: fast enough to redraw
    exponents = units @ X[:, 1].T + ratio * np.array([0, 0, lift])
    figure = Figure(figsize=(7, 3.6), layout="none")  # constrained layout would draw twice
    ax = figure.add_axes((0.1, 0.15, 0.87, 0.74))
    ax.plot(*path.T, color=BLUE)
    draw_ray(ax, units[exponents.min(axis=1).argmax()], label="softened SVM")
    if lift > 0:
        draw_ray(ax, (1, 0), ":", label="relaxed SVM")
    ax.legend(loc="upper left")
    ax.set(xlim=(-1, 41), ylim=(-2, 11), xlabel="$p_1$", ylabel="$p_2$")
    title = rf"lift {lift:.2f}, $\omega$ = {ratio:.2f}: $p$ at {degrees(path[-1]):.1f} degrees"
    ax.set_title(title, fontsize=12)
    return figure


looks = {"style": {"description_width": "80px"}, "layout": ipywidgets.Layout(width="480px")}
widgets.sliders(
    one_run,
    alt="The path of p in the plane from zero, and the rays of the softened and the relaxed SVM.",
    lift=ipywidgets.FloatSlider(value=0.5, min=0, max=1, step=0.05, description="lift", **looks),
    ratio=ipywidgets.FloatLogSlider(
        value=0.5, base=2, min=-3, max=3, step=0.25, readout_format=".3g", description="ratio", **looks
    ),
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 9.5 What the theorem says
#
# It is about the *regularisation path*, with two growing budgets.
#
# > **Theorem** (after Tarzanagh, Li, Zhang and Oymak, 2023; informal, in our words). For the logistic loss
# > let $(v, p)$ minimise $L$ subject to $\|v\| \le R_v$, $\|p\| \le R$, and let $\alpha$ be the choice with
# > the largest label margin, if it is the only one and its Att-SVM is feasible.
# >
# > *Tight.* Suppose that in every sequence weight taken off $\alpha_i$ costs label margin, at least in
# > proportion to the weight. Then as $R_v, R \to \infty$, in whatever order, $v/\|v\|$ tends to the direction
# > of $v_{\mathrm{mm}}(\alpha)$ and $p/\|p\|$ to that of the tight Att-SVM. (The condition puts every
# > sequence into $\mathcal S$, so here tight and relaxed are one.)
# >
# > *Relaxed.* Suppose this for $i \in \mathcal S$ only; outside $\mathcal S$ a little weight costs nothing,
# > but moving *all* of it to other tokens does. Then $p/\|p\|$ tends to the direction of the *relaxed*
# > Att-SVM **if the head goes first**: $R_v \to \infty$, then $R \to \infty$.
#
# In the toy weight taken off goes to the origin, and is lost: lift 0 meets the first condition, lift
# $\frac12$ the second.
#
# If both grow together, the count of exponents says that $R_v/R$ decides: relaxed above the border, softened
# below, tight in the limit 0. In the plane we use up both budgets, and search the two angles that are left.


# %%
def minimiser(X, y, R_v, R):
    """Angles (degrees) of the best v and p with ||v|| = R_v and ||p|| = R."""
    centre, reach = np.zeros(2), np.pi  # all angles at first
    for _ in range(16):
        a, b = centre[:, None] + reach * np.linspace(-1, 1, 25)
        v, p = (radius * np.stack([np.cos(w), np.sin(w)], axis=-1) for radius, w in ((R_v, a), (R, b)))
        u = y * np.einsum("bit,itd,ad->abi", attention(p, X), X, v)
        # log of the loss of each sequence: the loss itself underflows
        each = np.where(u > 30, -u, np.log(np.logaddexp(0, -np.minimum(u, 30))))
        total = np.logaddexp.reduce(each, axis=-1)
        i, k = np.unravel_index(total.argmin(), total.shape)
        centre, reach = np.array([a[i], b[k]]), reach / 2
    return np.degrees(centre)


# %%
R = np.array([6.0, 12, 24])
laws = {"R_v = 3": lambda R: 3.0, "R_v = R/4": lambda R: R / 4, "R_v = 2R": lambda R: 2 * R}
X, y = toy(0.5)
print("angle of the best p   R = 6   R = 12   R = 24   predicted for infinite radii")
for (name, law), ratio in zip(laws.items(), (0.0, 0.25, 2.0), strict=True):
    of_v, of_p = np.array([minimiser(X, y, law(radius), radius) for radius in R]).T
    predicted = degrees(softened_svm(X, output_of_v_mm[0.5], ratio))
    print(f"{name:19s} {abs(of_p[0]):7.2f} {abs(of_p[1]):8.2f} {abs(of_p[2]):8.2f} {predicted:14.2f}")
    off = abs(of_p - predicted)
    assert abs(of_v[2] - 90) < 1
    assert off[2] < 0.05 or off[2] < min(1, 0.6 * off[1])
    outputs, leads = (X[:, 1] @ np.stack([np.cos(w), np.sin(w)]) for w in np.radians([of_v, of_p]))  # (3, 3)
    assert min((y[:, None] * outputs).min(), leads.min()) > 0  # a shorter v or p is worse there

# %% [markdown]
# As $R$ grows the minimiser nears what the count predicts, with $R_v/R$ in the place of $\omega$: tight for
# bounded $R_v$ (a degree is left), softened, relaxed.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 9.6 Plain gradient descent
#
# Nobody sets $\omega$ in plain gradient descent. The force on $v$ is $|\ell'|$ times a point of fixed size.
# That on $p$ is $|\ell'|$ times $s_{it} \approx e^{-\Delta}$, with the smallest lead $\Delta$ in
# $\mathcal S$ (section 9.4's, if $\mathcal S$ pushes), times a difference of scores, which grows in
# proportion to $R_v = \|v\|$. Divide the two:
#
# $$\frac{d\Delta}{dR_v} \;\propto\; R_v\, e^{-\Delta} \qquad\text{so that}\qquad
# \Delta \approx 2 \log R_v + \text{const} .$$
#
# So the prompt falls far behind the head, and $p$ should go to the relaxed SVM. Plain steps hardly move on
# this scale: we add a run that normalises the gradient of the *pair* $(v, p)$: nearly the same path.


# %%
def plainly(on_v, on_p, log_v, log_p):
    """The gradients as they are."""
    return np.exp(log_v) * on_v, np.exp(log_p) * on_p


def as_a_pair(on_v, on_p, log_v, log_p):
    """Normalised as one vector (v, p)."""
    return np.hsplit(unit(np.hstack([on_v, np.exp(log_p - log_v) * on_p])), 2)


# %%
X, y = np.stack([toy(0.0)[0], toy(0.5)[0]]), toy(0.0)[1]
runs = {
    "plain": descend(X, y, 1.0, 10_000, lr=1.0, rule=plainly, every=10),
    "pair": descend(X, y, 1.0, 10_000, lr=0.1, rule=as_a_pair, every=10),
}
R_v = {name: np.linalg.norm(v, axis=-1) for name, (v, _) in runs.items()}  # (1,001, 2 lifts)
lead = {name: np.minimum(p @ [1, 1], p @ [1, -1]) for name, (_, p) in runs.items()}
angle = {name: abs(degrees(p)) for name, (_, p) in runs.items()}
print("lift 1/2     step   ||v||    lead  angle of p")
for name, k in [(name, k) for name in runs for k in (100, 1000)]:
    print(f"{name:8s} {10 * k:8,d} {R_v[name][k, 1]:7.1f} {lead[name][k, 1]:7.2f} {angle[name][k, 1]:11.1f}")
growth = np.log(R_v["pair"][1000] / R_v["pair"][100])
slope = (lead["pair"][1000] - lead["pair"][100]) / growth
print("pair, slope of the lead over log ||v||, last nine tenths, lifts 0 and 1/2:", slope.round(2))
assert (abs(slope - 2) < 0.01).all()
for k in (0, 1):
    on_pairs_path = np.interp(R_v["plain"][3:, k], R_v["pair"][:, k], lead["pair"][:, k])
    assert abs(on_pairs_path - lead["plain"][3:, k]).max() < 0.03
assert (lead["plain"][1000] - lead["plain"][100] < 0.7).all()
assert angle["pair"][-1, 1] < 0.001

# %% [markdown]
# The pair's slope is 2, and plain descent runs along its curve: from step 1,000 to 10,000 its lead gains less
# than 0.7, where a fixed head would give it $\log 10 = 2.3$ (lesson 06). With lift $\frac12$ the
# pair's angle falls to 0, the relaxed SVM.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 9.7 Problems at random
#
# 360 random problems of $n = 4$ sequences of $T = 4$ tokens in $d = 6$ dimensions, each trained from zero
# at three ratios $\omega$: 30,000 steps, of 0.1 for $p$. The tokens with most attention at the end give us
# $v_{\mathrm{mm}}$, $\mathcal S$, and the three SVMs for $p$; the softened one gets its $\kappa$ from
# $\omega$ alone. (Stored runs, from [`course/replicate/lesson_09.py`](../course/replicate/lesson_09.py).)
#
# A run is **decided** if every sequence has at least 0.99 of its attention on one token. It can *tell* the
# SVMs apart if the tight and the relaxed one have a cosine below 0.99: more than 8 degrees.

# %%
joint = measured("09.joint").load()  # 360 trials at 3 ratios, after 3,000 and 30,000 steps
late = joint.sel(steps=30_000)
names = ("tight", "relaxed", "softened")
angle = {name: np.degrees(np.arccos(late[name].clip(max=1))) for name in names}  # of p to each SVM
decided = ~late.soft
tell = decided & late.apart
groups = {"decided": decided, "decided, SVMs more than 8 degrees apart": tell}
groups |= {f"of these, within a degree of the {name} one": tell & (angle[name] < 1) for name in names}
outside = late.soft & ~late.soft_in_S
groups |= {"undecided, all that is soft outside S": outside}
groups |= {f"of those, within a degree of the {name} one": outside & (angle[name] < 1) for name in names[:2]}
counts = {name: group.sum("trial").values for name, group in groups.items()}
print("of 360 runs a ratio", " " * 25, *(f"omega = {ratio:5.3f}  " for ratio in joint.ratio.values), " all")
for name, count in counts.items():
    print(f"{name:44s}", *(f"{some:13d}  " for some in count), f"{count.sum():4d}")
changed = joint.choice.sel(steps=3000) != joint.choice.sel(steps=30_000)
beyond = tell & (angle["softened"] >= 1)
print(f"of the {int(beyond.sum())} beyond, {int((beyond & changed).sum())} changed tokens after step 3,000")
print("decided: least cosine of v to the label SVM above 0.995:", bool(late.v.where(decided).min() > 0.995))

# %% jupyter={"source_hidden": true}
shown = {}
fig, ax = plt.subplots(figsize=(7, 4))
for k, (name, color) in enumerate(zip(names, (BLUE, ORANGE, BLACK), strict=True)):
    for place, ratio in enumerate(joint.ratio.values):
        runs = np.sort(angle[name].sel(ratio=ratio).values[tell.sel(ratio=ratio).values])
        middle, shown[name, ratio] = place + 0.28 * (k - 1), np.median(runs)
        label = f"to the {name} SVM" if place == 0 else None
        at = middle + 0.1 * np.linspace(-1, 1, len(runs))
        ax.plot(at, runs, ".", color=color, markersize=4, label=label)
        ax.plot(middle + np.array([-0.12, 0.12]), 2 * [shown[name, ratio]], color=color, linewidth=3)
ax.set(yscale="log", ylabel="angle of $p$ (degrees)", xlabel=r"ratio $\omega$", ylim=(0.02, 200))
ax.set_yticks([0.1, 1, 10], ["0.1", "1", "10"])
ax.set_xticks(range(3), [f"{ratio:g}" for ratio in joint.ratio.values])
ax.legend(loc="upper center", ncols=3, fontsize=10, markerscale=3)
show(
    fig,
    alt="Angles of p to the tight, the relaxed and the softened SVM, a dot a run, for three ratios. Those to "
    "the tight SVM grow with the ratio from a median of 1 to 13 degrees, those to the relaxed one fall from "
    "21 to 6, those to the softened one have a median of 0.1 at each.",
)

# %% [markdown]
# **Figure 3.** Decided runs whose SVMs differ: the angle of $p$ to each of the three, a dot a run, sorted;
# bars are medians.

# %%
for ratio in joint.ratio.values:
    tight, relaxed, softened = (shown[name, ratio] for name in names)
    assert softened < 0.11 < 8 * 0.1 < min(tight, relaxed)
assert [int(count.sum()) for count in counts.values()] == [969, 459, 131, 42, 449, 98, 0, 80]
assert int((beyond & changed).sum()) == int((beyond & (changed | (angle["softened"] > 1.4))).sum()) == 7
assert [late.soft.sel(ratio=8).sum(), *(count[2] for count in list(counts.values())[5:])] == [101, 91, 0, 76]
assert angle["tight"].where(outside).sel(ratio=8).min() > 3
assert late.v.where(decided).min() > 0.995
assert (late.possible.sel(ratio=1).sum(), late.best.sel(ratio=1).sum()) == (304, 49)

# %% [markdown]
# **Of the 459 decided runs that can tell, 449 end within a degree of the softened SVM**, 131 of the tight
# one and 42 of the relaxed one. Seven of the other 10 had changed a token since step 3,000; three are within
# 1.4 degrees.
#
# With the fast head 101 of 360 runs are undecided. In 91 of them all that is soft lies outside $\mathcal S$:
# **76 end within a degree of the relaxed SVM**, none within three of the tight one.
#
# **The choice is another matter.** The theorem's has the largest label margin of all 256. Some $p$ makes it
# in 304 of the 360 trials; descent with $\omega = 1$ does in 49.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 9.8 Where it breaks
#
# **A right-hand side 0 that is met with equality.** Let the third sequence have the tokens $(-\frac12, 1 +
# c)$ and $(0, c)$. The other two now pull $p$ to where it prefers the worse token, $(0, c)$, whose signed
# output at $v_{\mathrm{mm}}$ is $c$.
#
# Let $s$ be the attention on the better one. Then the signed output of sequence 3 is
# $u_3 = u_{\min}\,\big(s\,(1 + c) + (1 - s)\, c\big)$. While both its tokens keep weight, its lead does not
# grow, and its force is about $e^{-u_3}$.
#
# If the forces balance, $p$ is on the ray of the relaxed SVM: $\Delta = \|p\|/\|p_{\mathrm{rel}}\|$ and
# $u_{\min} = \|v\|/\|v_{\mathrm{mm}}\|$. So the attention that is left follows from the ratio of the lengths.

# %% [markdown]
# ### Exercise 09.4: Attention that stays soft
#
# ★★★ · 10 minutes
#
# A sequence outside $\mathcal S$ has two tokens, with the signed outputs `better` > `worse` at
# $v_{\mathrm{mm}}$. Predict the attention that it keeps on the better one, from the ratio of the lengths
# $\|v\|/\|p\|$ (`ratio`). If no balance exists, it decides: return 1.0 where the better token wins and 0.0
# where the worse one does.
#
# <details><summary>Hint 1</summary>
#
# Forces balance where their exponents are equal. What is the exponent of $\mathcal S$? And that of a sequence
# whose two tokens both keep weight?
# </details>
#
# <details><summary>Hint 2</summary>
#
# Divide both by $u_{\min}$: `ratio` and the two norms give $\Delta/u_{\min}$. An $s$ above 1 says: even all
# its attention leaves its force the stronger one.
# </details>


# %%
@exercise("09.4")
def kept_attention(better, worse, ratio, v_norm, p_norm):
    """Return s, a float in [0, 1], for numbers: outputs, ||v|| / ||p||, norms of v_mm and p_rel."""
    ### BEGIN SOLUTION
    excess = v_norm / (ratio * p_norm)  # Delta / u_min
    return float(np.clip((1 + excess - worse) / (better - worse), 0, 1))
    ### END SOLUTION


# %%
check("09.4", kept_attention)


# %%
def pulled(c):
    """The toy with third tokens (0, c) and (-1/2, 1 + c)."""
    X = toy(0.0)[0].copy()
    X[2] = [[0, c], [-0.5, 1 + c]]
    return X


y = toy(0.0)[1]
p_rel = np.linalg.norm(token_svm(pulled(0.5), np.array([1.0, 1, 0])))  # the same for every c
c, ratio = np.array([(0.5, 0.5), (0.5, 2.0), (1.5, 0.62), (1.5, 1.1)]).T
X = np.stack([pulled(one) for one in c])
flow = np.array([kept_attention(1 + b, b, omega, 1.0, p_rel) for b, omega in zip(c, ratio, strict=True)])
found = []
print("                                             attention on the better token")
print("  c   omega   step of  steps   ||v||/||p||   exercise 09.4   measured")
for lr, step in ((0.02, 4250), (0.1, 850)):
    v, p = (path[-step // 10 :] for path in descend(X, y, ratio, step, lr=lr))  # means over the last tenth
    lengths = (np.linalg.norm(v, axis=-1) / np.linalg.norm(p, axis=-1)).mean(axis=0)
    kept = attention(p, X)[..., 2, 1].mean(axis=0)
    found.append((lengths[1:3], kept[1:3]))  # of the two that are soft
    for k in range(4):
        law = kept_attention(1 + c[k], c[k], lengths[k], 1.0, p_rel)
        assert abs(kept[k] - law) < 0.03, again.format("09.4")
        if lr < 0.1 or k in (1, 2):
            numbers = f"{lengths[k]:13.1f} {law:15.2f} {kept[k]:10.2f}"
            print(f"{c[k]:3.1f} {ratio[k]:7.2f} {lr:9.2f} {step:6,d} {numbers}")
    assert np.allclose(kept[[0, 3]], [1, 0], atol=0.005)
    lead = p[:, 1:3] @ [-0.5, 1]  # of the better token
    assert (abs(lead[-1]) < 0.025 * np.linalg.norm(p[-1, 1:3], axis=-1)).all()  # on the ray
    back = np.diff(lead, axis=0)[1:] * np.diff(lead, axis=0)[:-1] < 0
    assert lr < 0.1 or back.mean() > 0.95  # its steps go back and forth

# %%
(fine_ratio, fine), (coarse_ratio, coarse) = found
assert np.allclose(flow, [1, 0.72, 0.22, 0], atol=0.005), again.format("09.4")
assert ((abs(fine - flow[1:3]) < 0.03) & (coarse < flow[1:3] - 0.03)).all(), again.format("09.4")
assert ((fine_ratio < 1.1 * ratio[1:3]) & (coarse_ratio > 1.02 * fine_ratio)).all()

# %% [markdown]
# With a slow head there is no balance, and the better token wins. A faster one leaves attention soft. In
# vanishing steps $\|v\|/\|p\|$ would stay $\omega$, and the exercise gives 0.72 and 0.22: steps of 0.02 are
# near at this length.
#
# Steps of 0.1 jump back and forth across the balance, and cancel in part. So $\|v\|/\|p\|$ is larger, and
# attention smaller. With the *measured* ratio the exercise is right within 0.03.

# %%
pairs = measured("09.soft").load().sel(steps=30_000, ratio=8)  # the runs of section 9.7 with the fast head
alone = outside.sel(ratio=8) & pairs.two  # just one sequence keeps two tokens
near = pairs.where(alone & (late.v.sel(ratio=8) > np.cos(np.radians(1))), drop=True)
law = np.vectorize(kept_attention)
tries = [law(near.better, near.worse, lengths, near.norms, 1.0) for lengths in (near.lengths, np.inf)]
right = [int((abs(s - near.kept) < 0.04).sum()) for s in tries]
print(f"one soft pair: {int(alone.sum())} runs; v within a degree of its SVM: {near.trial.size}; of these")
print(f"exercise 09.4 is right within 0.04 in {right[0]}, with Delta = 0 in {right[1]}")
assert [int(alone.sum()), near.trial.size, *right] == [55, 46, 46, 20], again.format("09.4")

# %% [markdown]
# In 55 of the 91 runs of section 9.7 just one sequence keeps two tokens. **In all 46 with $v$ within a degree
# of the label SVM the exercise gives its attention** within 0.04; with $\Delta = 0$ in 20.
#
# With $c > 1$ the worse token clears the label margin too, and can win: the theorem's condition outside
# $\mathcal S$ forbids this.

# %% [markdown]
# ## Questions
#
# A colleague trains with lift $\frac12$ and $\omega = \frac14$, finds $p$ at 8.5 degrees instead of 0, and
# concludes that the theorem on the relaxed SVM is wrong. What do you say?
# <details><summary>Answer</summary>
#
# That its relaxed half lets the head go first, and that this head is slower than the border, 1. With
# $R_v = R/4$ the minimiser itself heads for 8.5 degrees (section 9.5).
# </details>

# %%
progress("09")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - Trained together, if attention decides, $v$ goes to the **label SVM** of the selected tokens and $p$ to an
#   **Att-SVM** whose right-hand sides the head sets: 1 for its support sequences, at most 1 for the others.
# - How far below 1 depends on $\|v\|/\|p\|$: tight at 0, softened in between, and *relaxed* from a **border**
#   on.
# - The regularisation path obeys the same count: head first, relaxed; head bounded, in the toy tight.
# - Plain descent lets the head run ahead: in the toy the lead grows like $2 \log \|v\|$.
#
# The softened SVM and the count of exponents are a short argument and measurements, not a theorem.
#
# ## Further reading
#
# - D. A. Tarzanagh, Y. Li, X. Zhang, S. Oymak, *Max-Margin Token Selection in Attention Mechanism* (NeurIPS
#   2023, arXiv 2306.13596): the joint problem and the toy.
#
# **New in the library:** [`data.toy_joint`](../mini_attn/data.py),
# [`heads.LinearHead`](../mini_attn/heads.py).
#
# **Next:** [lesson 10](10_cross_self_attention.ipynb): a query for each sequence, and a matrix $W$ in the
# place of $p$.
